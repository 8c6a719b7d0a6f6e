"""Batches of records as what is written of them: values of their frames, and their entries in the log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from molrec_convert.migration.inputs.tasks import EncodedBatch
from molrec_convert.migration.outputs.files import frames_sum, log_entry, record_digest
from molrec_convert.migration.outputs.index import ENERGIES, Observed, energy_of, formula, index_value
from molrec_convert.migration.settings import Settings
from molrec_convert.model import Declaration, FrameBatch, Record, RecordColumns
from molrec_convert.model.trajectory import take_frames
from molrec_convert.stores.lmdb.values.frames import FrameEncoder
from molrec_convert.stores.lmdb.values.records import RecordEncoder, RecordsEncoder

__all__ = ["BatchEncoder", "encode_run"]

_ROW = '{{"columns": {{"formula": {}, "energy": {}, "source": {}, "source_record": {}}}, "elements": {}}}'


class BatchEncoder:
    """Encodes batches of records under one declaration."""

    def __init__(self, declaration: Declaration, settings: Settings) -> None:
        self._settings = settings
        self._encoder = RecordsEncoder(FrameEncoder(declaration))
        #: Keys whose values the index has.
        self._keys = [*settings.index, *([] if settings.group_by is None else [settings.group_by])]

    def encode(self, columns: RecordColumns, sources: Sequence[tuple[str, int]]) -> EncodedBatch | None:
        """Return the records, each with its input and its number there; None where they are to be encoded one by
        one.
        """
        if self._keys or "element" not in columns.text_groups:
            return None
        rows = _rows(columns, sources)
        encoded = None if rows is None else self._encoder.encode(columns, f"records from {sources[0]}")
        if rows is None or encoded is None:
            return None
        systems: list[bytes | None] = [None] * len(rows) if encoded.systems is None else list(encoded.systems)
        metas = [b"{}"] * len(rows)
        return _batch(metas, systems, rows, columns.counts.tolist(), encoded.frames, dedupe=self._settings.dedupe)


def _rows(columns: RecordColumns, sources: Sequence[tuple[str, int]]) -> list[bytes] | None:
    """Return the index values of each record as a document; None where they take more than a look at the columns."""
    groups = columns.text_groups["element"]
    said = []
    for names in groups.lists:
        counts = dict(Counter(names))
        known: Mapping[str, int] | None = counts if all(map(str.isalpha, counts)) else None
        said.append((json.dumps(None if known is None else formula(known)), json.dumps(known)))
    values = next((columns.frames.meta[key] for key in ENERGIES if key in columns.frames.meta), None)
    if values is None:
        energies = ["null"] * len(columns)
    elif isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 1:
        # as JSON has it, in its own words where it is not finite
        energies = [repr(value) if value - value == 0 else json.dumps(value) for value in values.tolist()]
    else:
        return None
    quoted = {path: json.dumps(path) for path, _ in sources}
    return [
        _ROW.format(said[group][0], energy, quoted[path], number, said[group][1]).encode()
        for (path, number), group, energy in zip(sources, groups.of, energies, strict=True)
    ]


def _batch(
    metas: Sequence[bytes],
    systems: Sequence[bytes | None],
    rows: Iterable[bytes],
    atoms: Sequence[int],
    values: list[bytes],
    *,
    dedupe: bool,
) -> EncodedBatch:
    """Return records of one frame each: `values` are those of the frames, `rows` what the index says of them."""
    digests = [record_digest(*pair) for pair in zip(systems, zip(values, strict=True), strict=True)] if dedupe else []
    entries = [
        log_entry(meta, system, row, 1, count, True, digest, frames_sum((value,)))
        for meta, system, row, count, digest, value in zip(
            metas, systems, rows, atoms, digests or [b""] * len(values), values, strict=True
        )
    ]
    return EncodedBatch(0, values, entries, digests)


#: Columns that tell the elements.
_TELLING = ("element", "atomic_number")


def encode_run(
    encoder: RecordEncoder, record: Record, batch: FrameBatch, source: str, ordinal: int, settings: Settings
) -> EncodedBatch | None:
    """Return the records of frames that stand alone, of which `record` is the first, the record `ordinal` of its
    source.

    None where they are to be encoded one by one.
    """
    encoded = encoder.run(record, batch, f"record {ordinal} of {source}")
    if encoded is None:
        return None
    count = len(encoded.frames)
    rows = _run_rows(record, batch, source, ordinal, settings)
    metas, systems = [encoded.meta] * count, [encoded.system] * count
    return _batch(metas, systems, rows, encoded.n_atoms, encoded.frames, dedupe=settings.dedupe)


def _run_rows(record: Record, batch: FrameBatch, source: str, ordinal: int, settings: Settings) -> Iterator[bytes]:
    """Yield the index values of each record as a document."""
    atoms = batch.blocks.get("atoms")
    encode = json.JSONEncoder().encode
    if settings.has_keys or (atoms is not None and any(name in atoms.columns for name in _TELLING)):
        for number in range(batch.n_frames):
            observed = Observed()
            observed.see(take_frames(batch, np.array([number])))
            yield encode(index_value(record, observed, {}, source, ordinal + number, settings)).encode()
        return
    row = index_value(record, Observed(), {}, source, ordinal, settings)
    columns = row["columns"]
    for number in range(batch.n_frames):
        columns["energy"] = energy_of({key: values[number] for key, values in batch.meta.items()})
        columns["source_record"] = ordinal + number
        yield encode(row).encode()
