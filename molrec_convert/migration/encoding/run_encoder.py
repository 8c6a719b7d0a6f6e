"""Frames of a run as what is written of their records, many at once: what is the same for all is made once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from molrec_convert.migration.encoding.batch_encoder import EncodedBatch, record_digest
from molrec_convert.migration.outputs.index_values import Observed, energy_of, index_value
from molrec_convert.migration.outputs.record_log import frames_sum, log_entry
from molrec_convert.migration.settings import Settings
from molrec_convert.model import FrameBatch, Record
from molrec_convert.model.trajectory import take_frames
from molrec_convert.stores.lmdb.values.records import RecordEncoder

__all__ = ["encode_run"]

#: Columns that tell the elements.
_TELLING = ("element", "atomic_number")


def encode_run(
    encoder: RecordEncoder, record: Record, batch: FrameBatch, source: str, ordinal: int, settings: Settings
) -> EncodedBatch | None:
    """The records of frames that stand alone, of which `record` is the first, the record `ordinal` of its source.

    None where they are to be encoded one by one.
    """
    encoded = encoder.run(record, batch, f"record {ordinal} of {source}")
    if encoded is None:
        return None
    digests = []
    if settings.dedupe:
        digests = [record_digest(encoded.system, value) for value in encoded.frames]
    entries = [
        log_entry(encoded.meta, encoded.system, row, 1, atoms, True, digest, frames_sum((value,)))
        for row, atoms, digest, value in zip(
            _rows(record, batch, source, ordinal, settings),
            encoded.n_atoms,
            digests or [b""] * len(encoded.frames),
            encoded.frames,
            strict=True,
        )
    ]
    return EncodedBatch(encoded.frames, entries, digests)


def _rows(record: Record, batch: FrameBatch, source: str, ordinal: int, settings: Settings) -> Iterator[bytes]:
    """The index values of each record as a document."""
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
