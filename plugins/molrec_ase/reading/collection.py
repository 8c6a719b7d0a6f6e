"""Configurations as a collection: a record of each.

What says what the atoms are goes to the system of a record, with the key-value pairs; positions, forces and results are
a trajectory of one frame. The index has the key-value pairs as columns.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from molrec_ase.chunk import Chunk, Part, join_parts
from molrec_ase.names import DATA, IDENTITY, OWN_KEYS
from molrec_ase.reading.source import Source
from molrec_ase.reading.survey import ATOMS, UNITS, ValueFacts, collection_declaration
from molrec_ase.reading.trajectory import batch_of, record_columns
from molrec_ase.values import tag_of
from molrec_convert.errors import FormatError
from molrec_convert.model import (
    Block,
    BlockUpdates,
    BoxUpdates,
    Column,
    ColumnDeclaration,
    Declaration,
    ForceField,
    Frame,
    FrameBatch,
    MemoryTrajectory,
    Meta,
    Record,
    RecordBatch,
)
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.declaration import collection_document
from molrec_convert.model.collection.index import INDEX_COLUMNS, single_frame_columns
from molrec_convert.model.collection.member import collection_units
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.names import STANDARD_DTYPES, name_fault

__all__ = ["METADATA", "AseCollection", "record_of_part"]

#: The ordinal of the only frame; nobody writes to it.
_FIRST = np.zeros(1, np.int64)
_FIRST.setflags(write=False)
#: Key of a collection's document: the metadata of the database it is from.
METADATA = "ase.metadata"


class AseCollection(Collection):
    """One record for each configuration of a source.

    The source is looked at for the declaration and the columns of the index, unless an `outline` tells them.
    """

    random_access = True

    def __init__(self, source: Source, outline: Mapping[str, Any] | None = None) -> None:
        self._source = source
        self.path, self.has_rows = source.path, source.has_rows
        if outline is None:
            self.declaration = collection_declaration(source.array_survey)
        else:
            self.declaration = Declaration.from_json(outline["declaration"])
            self._kinds = dict(outline["index"])
        document: dict[str, Any] = {"units": collection_units(UNITS)}
        if source.metadata:
            document[METADATA] = source.metadata
        self.document = collection_document(document)
        self._index: Block | None = None

    @property
    def index(self) -> Block:
        """See `Collection.index`."""
        if self._index is None:
            self._index = self._make_index()
        return self._index

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return len(self)

    @property
    def forcefield(self) -> ForceField | None:
        """ASE's files have none."""
        return None

    def __len__(self) -> int:
        return len(self._source)

    def record(self, index: int) -> Record:
        """See `Collection.record`."""
        return next(self._records([index]))

    def __iter__(self) -> Iterator[Record]:
        return self._records(range(len(self)))

    def members(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.members`."""
        return self.span(0)

    def span(self, start: int, stop: int | None = None) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.span`; read in chunks. What the index says of a record stands in its system."""
        return self._with_own(self._records(range(len(self))[start:stop]))

    def record_batches(self, start: int = 0, stop: int | None = None) -> Iterator[RecordBatch]:
        """See `Collection.record_batches`; a chunk each."""
        for chunk in self._source.chunks(range(len(self))[start:stop], numbered=True):
            columns = record_columns(chunk, self.declaration, self._kinds)
            yield RecordBatch(len(chunk), functools.partial(self._members, chunk), columns)

    def _members(self, chunk: Chunk, start: int) -> Iterator[tuple[Record, dict[str, Any]]]:
        return self._with_own(itertools.islice(records_of_chunk(chunk.with_elements(), self.declaration), start, None))

    def _with_own(self, records: Iterator[Record]) -> Iterator[tuple[Record, dict[str, Any]]]:
        kinds = self._kinds
        for record in records:
            meta: Mapping[str, Any] = {} if record.system is None else record.system.meta
            own: dict[str, Any] = {name: meta.get(name) for name in kinds}
            for name, dtype in kinds.items():
                if dtype == "f64" and type(own[name]) is int:
                    own[name] = float(own[name])
            yield record, own

    @property
    def index_columns(self) -> dict[str, ColumnDeclaration]:
        """See `Collection.index_columns`."""
        facts, count = self._source.survey.values, len(self)
        return {name: ColumnDeclaration(kind, (), facts[name].owners < count) for name, kind in self._kinds.items()}

    @property
    def atom_rows(self) -> int:
        """See `Collection.atom_rows`."""
        return int(self._source.array_survey.counts.sum())

    @functools.cached_property
    def _kinds(self) -> dict[str, str]:
        """The columns of the index beside the binding's, and their dtypes."""
        found = {
            name: _index_dtype(name, facts)
            for name, facts in self._source.survey.values.items()
            if name not in self.declaration.meta and name not in OWN_KEYS
        }
        return {name: dtype for name, dtype in found.items() if dtype is not None}

    def outline(self, *, index: bool = True) -> dict[str, Any]:
        """See `Collection.outline`."""
        kinds = self._kinds if index else {}
        own = {"declaration": self.declaration.to_json(), "index": kinds, "records": len(self)}
        return {**own, "source": self._source.outline()}

    def close(self) -> None:
        """Let go of the file."""
        self._source.close()

    def _records(self, numbers: Sequence[int]) -> Iterator[Record]:
        for chunk in self._source.chunks(numbers):
            yield from records_of_chunk(chunk, self.declaration)

    def _make_index(self) -> Block:
        survey = self._source.survey
        frames = len(survey)
        columns = single_frame_columns(survey.counts)
        wanted = self._kinds
        found: dict[str, list[Any]] = {name: [] for name in wanted}
        if wanted:
            for values in self._source.values(list(wanted)):
                for name in wanted:
                    found[name].append(values.get(name))
        for name, dtype in wanted.items():
            mask = np.array([value is not None for value in found[name]], np.bool_)
            fill = DTYPES[dtype].fill
            filled = [fill if value is None else value for value in found[name]]
            try:
                columns[name] = Column(np.array(filled, DTYPES[dtype].numpy), mask)
            except (ValueError, TypeError, OverflowError) as error:
                raise FormatError(self.path or "", name, found=str(error), expected=f"values of {dtype}") from None
        return Block(columns, count=frames)


def record_of_part(part: Part, declaration: Declaration) -> Record:
    """Return the record of one configuration as it stands alone, its units in its system."""
    record = next(records_of_chunk(join_parts([part]), declaration))
    meta = Meta({"units": UNITS})
    for key in () if record.system is None else record.system.meta:
        assert record.system is not None
        meta.put(key, record.system.meta[key], record.system.meta.tag(key))
    blocks = {} if record.system is None else record.system.blocks
    return Record(record.meta, Frame(blocks, meta), trajectory=record.trajectory)


def records_of_chunk(chunk: Chunk, declaration: Declaration) -> Iterator[Record]:
    """Yield the records of some configurations; their arrays are parts of the chunk's."""
    size = len(chunk)
    steps = np.array([0 if step is None else step for step in chunk.steps], np.int64)
    whole = batch_of(chunk, declaration, steps, None, np.arange(size))
    # in an order that does not hang on what other configurations are read with them
    identity = [name for name in IDENTITY if name in chunk.columns]
    keys = sorted(name for name in chunk.values if name not in declaration.meta)
    offset = chunk.offset.tolist()
    tags = [["" if value is None else tag_of(value) for value in chunk.values[key]] for key in keys]
    cells = np.asarray(chunk.boundary.any(1) | chunk.vectors.view(np.uint64).any((1, 2)) | chunk.origin.any(1))
    for number, cell in enumerate(cells.tolist()):
        rows, own = slice(offset[number], offset[number + 1]), slice(number, number + 1)
        count = rows.stop - rows.start
        blocks = {
            name: BlockUpdates(
                _FIRST,
                np.array((0, count), np.int64),
                {key: values[rows] for key, values in updates.columns.items()},
                {key: mask[rows] for key, mask in updates.validity.items()},
            )
            for name, updates in whole.blocks.items()
        }
        time = chunk.times[number]
        batch = FrameBatch(
            steps[own],
            None if time is None else np.array([time], np.float64),
            blocks,
            {key: values[own] for key, values in whole.meta.items()},
            BoxUpdates(_FIRST, chunk.vectors[own], chunk.origin[own], chunk.boundary[own]) if cell else None,
        )
        columns = {
            name: Column(chunk.columns[name][rows])
            for name in identity
            if name not in chunk.present or chunk.present[name][number]
        }
        said = {key: chunk.values[key][number] for key, owned in zip(keys, tags, strict=True) if owned[number]}
        meta = Meta.trusted(said, {key: owned[number] for key, owned in zip(keys, tags, strict=True) if owned[number]})
        yield Record(
            meta=dict(chunk.metas[number]),
            system=Frame({ATOMS: Block(columns, count=count)} if columns else {}, meta) if columns or said else None,
            trajectory=MemoryTrajectory.of_batch(batch, declaration),
        )


def _index_dtype(name: str, facts: ValueFacts) -> str | None:
    """Return the dtype of a key as an index column; None where it can be none."""
    tags = facts.tags
    if name_fault(name) is not None or name in INDEX_COLUMNS or name == DATA:
        return None
    if tags <= {"i64", "f64"}:
        dtype = "f64" if "f64" in tags else "i64"
    elif len(tags) == 1 and tags <= {"bool", "string"}:
        (dtype,) = tags
    else:
        return None
    standard = STANDARD_DTYPES.get(name)
    if standard is None or standard == dtype:
        return dtype
    return standard if (dtype, standard) == ("i64", "u64") and not facts.negative else None
