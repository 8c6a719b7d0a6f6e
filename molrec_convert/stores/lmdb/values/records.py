"""The values of records, without the file they go to: of one after another, or of many alike at once, column by column.

Whoever encodes elsewhere (in another process) and appends here gets the same bytes as a writer that does both.
Source: Collection and its LMDB file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.batch import BlockUpdates, FrameBatch
from molrec_convert.model.collection.collection import check_member
from molrec_convert.model.collection.declaration import check_member_declaration
from molrec_convert.model.collection.member import as_member, is_bare, member_rows, report_losses
from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration, Declaration
from molrec_convert.model.frame import Block, Column, Frame, references
from molrec_convert.model.record import Coded, Record, RecordColumns, absolute_rows, check_document
from molrec_convert.model.rules import Alignment
from molrec_convert.model.tags import Meta, to_typed_json
from molrec_convert.model.trajectory import MemoryTrajectory
from molrec_convert.report import Report
from molrec_convert.stores.lmdb.values.encode import (
    ColumnShape,
    assemble,
    block_text,
    encode_frame,
    encode_known,
    encode_shaped,
    interleave_strings,
    number_text,
    tags_text,
    texts_json,
)
from molrec_convert.stores.lmdb.values.frames import (
    BlockEncoder,
    FrameEncoder,
    encode_self_contained_frames,
    grouped_updates,
)
from molrec_convert.stores.lmdb.values.layout import to_json

__all__ = ["EncodedRecords", "Member", "Plain", "RecordEncoder", "RecordsEncoder"]

#: What takes the values of frames as they are made.
Emit = Callable[[list[bytes]], None]
#: The values of a record of one frame: meta, system, frame; and its `n_atoms`.
Plain = tuple[bytes, bytes | None, bytes, int]


@dataclass(slots=True)
class Member:
    """A record as a member of a collection, with the values of its meta and, if it has one, its system."""

    record: Record
    meta: bytes
    system: bytes | None


@dataclass(frozen=True)
class RunValues:
    """The values of records that share meta and system, one frame each, and `n_atoms` of each."""

    meta: bytes
    system: bytes | None
    frames: list[bytes]
    n_atoms: list[int]


class RecordEncoder:
    """Encodes records under one declaration, one after another. What has no place goes to `report` as dropped."""

    def __init__(self, declaration: Declaration, report: Report) -> None:
        self.declaration, self.report = declaration, report
        self._encoder = FrameEncoder(declaration)
        self._last_declaration = declaration

    def begin(self, record: Record, node: str) -> Member:
        """Return the record as a member: its `frame` a trajectory of one frame, meta and system encoded.

        `node` names it in errors. Raises `ContractError` for one with a force field of its own, or broken in itself.
        """
        bare = is_bare(record)
        if not bare:
            report_losses(record, self.report)
            record = as_member(record, self.report)
            check_member(record, node)
        meta = _plain_text(record.meta)
        if meta is None:
            check_document(record.meta, "meta")
            meta = to_json(record.meta)
        snapshot = record.system
        system = None if snapshot is None else encode_known(snapshot, "system")
        if snapshot is not None and system is None:
            if bare:
                report_losses(record, self.report)
            system = encode_frame(snapshot, "system")
        return Member(record, meta.encode(), system)

    def plain(self, record: Record, node: str) -> Plain | None:
        """Return all values of a record of one frame, on a shorter way: the same bytes as those of `begin` and
        `pieces`.

        None where that takes more than what is known of its shapes. Raises as those do.
        """
        trajectory = record.trajectory
        if type(trajectory) is not MemoryTrajectory or trajectory.declaration is not self._last_declaration:
            return None
        meta = _plain_text(record.meta)
        if meta is None or not is_bare(record):
            return None
        snapshot = record.system
        shape = system = None
        if snapshot is not None:
            shaped = encode_shaped(snapshot, "system")
            if shaped is None:
                return None
            system, shape = shaped
        value = self._encoder.single(trajectory, snapshot, node, shape)
        if value is None:
            return None
        atoms = None if shape is None else shape.atoms
        if atoms is None:
            first = trajectory._batch.blocks.get("atoms")
            atoms = 0 if first is None else first.offset.item(1)
        return meta.encode(), system, value, atoms

    def run(self, record: Record, batch: FrameBatch, node: str) -> RunValues | None:
        """Return all values of records of one frame each that differ in that alone: the same bytes as those of each.

        `record` is the first of them, `batch` has the frames of all; each presents every block there is. None where
        they are to be encoded one by one.
        """
        member = self.begin(record, node)
        trajectory, snapshot = member.record.trajectory, member.record.system
        if type(trajectory) is not MemoryTrajectory:
            return None
        tables = {} if snapshot is None else snapshot.blocks
        if any(name in tables and updates.uniform_rows is None for name, updates in batch.blocks.items()):
            return None
        self._check_declaration(trajectory.declaration, node)
        first = self._encoder.single(trajectory, snapshot, node)
        if first is None:
            return None
        values = encode_self_contained_frames(
            self._encoder, batch, f"{node}/trajectory", cell_defined=trajectory.cell_defined
        )
        if values[0] != first:
            return None
        own = batch.blocks.get("atoms")
        counts = [0] * len(values) if own is None else np.diff(own.offset).tolist()
        return RunValues(member.meta, member.system, values, [member_rows(member.record, count) for count in counts])

    def _check_declaration(self, declaration: Declaration, node: str) -> None:
        """Hold what a record declares against the collection's, once for all that share it."""
        if declaration is not self._last_declaration:
            check_member_declaration(declaration, self.declaration, f"{node}/trajectory")
            self._last_declaration = declaration

    def frames(self, record: Record, node: str, emit: Emit) -> tuple[int, int]:
        """Hand the values of a member's frames to `emit`, in order, as they are made; returns frames and `n_atoms`.

        Raises `ContractError` for frames outside the declaration, when some of them may have been handed out.
        """
        pieces = self.pieces(record, node)
        while True:
            try:
                values = next(pieces)
            except StopIteration as done:
                result: tuple[int, int] = done.value
                return result
            emit(values)

    def pieces(self, record: Record, node: str) -> Generator[list[bytes], None, tuple[int, int]]:
        """Yield the values of a member's frames, some at a time; returns frames and `n_atoms`. Raises as `frames`
        does.
        """
        frames, atoms = yield from self._pieces(record, node)
        return frames, member_rows(record, atoms)

    def _pieces(self, record: Record, node: str) -> Generator[list[bytes], None, tuple[int, int | None]]:
        trajectory = record.trajectory
        if trajectory is None:
            return 0, None
        declaration = trajectory.declaration
        self._check_declaration(declaration, node)
        batches: Iterable[FrameBatch]
        if type(trajectory) is MemoryTrajectory:
            value = self._encoder.single(trajectory, record.system, node)
            atoms = trajectory._batch.blocks.get("atoms")
            if value is not None:
                yield [value]
                return 1, None if atoms is None else int(atoms.offset[1])
            batches = [trajectory._batch]
        else:
            batches = trajectory.batches()
        alignment = Alignment(record.system)
        alignment.check_declaration(declaration)
        absolute = absolute_rows(record.system, None)
        frames = self._encoder.record(absolute, f"{node}/trajectory", cell_defined=trajectory.cell_defined)
        count = 0
        for batch in batches:
            alignment.check_batch(batch, count)
            yield frames.encode(batch)
            count += batch.n_frames
        return count, frames.first_atoms


def _plain_text(document: object) -> str | None:
    """Return the JSON of a meta document of a few ASCII texts, about which there is nothing to check; None of any
    other.
    """
    if type(document) is not dict or "molrec_version" in document:
        return None
    entries = []
    for key, value in document.items():
        if type(key) is not str or type(value) is not str:
            return None
        entries.append(f'"{key}":"{value}"')
    text = ",".join(entries)
    if text.isascii() and text.isprintable() and "\\" not in text and text.count('"') == 4 * len(entries):
        return f"{{{text}}}"
    return None


ATOMS = "atoms"
_EXACT = 2**53


@dataclass(frozen=True)
class EncodedRecords:
    """The values of records: of their systems (one for each, or none at all) and of the frame of each."""

    systems: list[bytes] | None
    frames: list[bytes]


class RecordsEncoder:
    """Encodes records under one declaration, many at once."""

    def __init__(self, encoder: FrameEncoder) -> None:
        self._encoder = encoder
        self._whole = not any(
            block.aligned_with is not None
            or block.structural_shape is not None
            or references(block.columns, block.targets)
            for block in encoder.declaration.blocks.values()
        )
        self._checked: Declaration | None = None

    def encode(self, records: RecordColumns, node: str) -> EncodedRecords | None:
        """Return all values; None where single records have to be held against more than what is the same for all of
        them.

        Raises `ContractError` as the encoding of single records does.
        """
        if not self._whole or not len(records) or not _plainly(records):
            return None
        if records.declaration is not self._checked:
            check_member_declaration(records.declaration, self._encoder.declaration, f"{node}/trajectory")
            self._checked = records.declaration
        return EncodedRecords(
            _systems(records), encode_self_contained_frames(self._encoder, records.frames, f"{node}/trajectory")
        )


def _plainly(records: RecordColumns) -> bool:
    """True if systems and frames go together, frames present all their blocks, and there is a system in all or none."""
    every = np.arange(len(records))
    for name, updates in records.frames.blocks.items():
        if name != ATOMS or not np.array_equal(updates.frames, every):
            return False
        if not np.array_equal(np.diff(updates.offset), records.counts):
            return False
        if not records.identity.keys().isdisjoint(updates.columns):
            return False
    if records.identity:
        return not references(dict.fromkeys(records.identity), {})
    return not records.said or any(all(tags) for _, tags in records.said.values())


def _systems(records: RecordColumns) -> list[bytes] | None:
    """Return the value of each system; None where none has anything to say."""
    if not records.identity and not records.said:
        return None
    # what is the same for all is held against the rules once
    encode_frame(_first_system(records), "system")
    metas, tails = _documents(records)
    if not records.identity:
        return [assemble("", meta, tail, ()) for meta, tail in zip(metas, tails, strict=True)]
    blocks, payloads = _identity(records)
    return [
        assemble(text, meta, tail, payload)
        for text, meta, tail, payload in zip(blocks, metas, tails, payloads, strict=True)
    ]


def _first_system(records: RecordColumns) -> Frame:
    rows = slice(0, int(records.counts[0]))
    columns = {}
    for name, column in records.identity.items():
        if isinstance(column, Coded):
            texts = [column.texts[code] for code in column.codes[rows].tolist()]
            columns[name] = Column(np.array(texts, np.dtypes.StringDType()))
        else:
            columns[name] = Column(column[rows])
    meta = Meta()
    for key, (values, tags) in records.said.items():
        if tags[0]:
            meta.put(key, values[0], tags[0])
    return Frame({ATOMS: Block(columns, count=rows.stop)} if columns else {}, meta)


def _identity(records: RecordColumns) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the header entry of each system's block, and its buffers."""
    numeric = {
        name: column
        for name, column in records.identity.items()
        if not isinstance(column, Coded) and name not in records.text_groups
    }
    shapes = [
        ColumnShape(name, "string") if name in records.text_groups else _shape(name, column)
        for name, column in records.identity.items()
    ]
    counts = records.counts.tolist()
    entries = {count: block_text(ATOMS, count, shapes)[0] for count in set(counts)}
    groups = list(records.text_groups.values())
    lists = [[texts_json(texts) for texts in group.lists] for group in groups]
    woven: dict[tuple[int, ...], str] = {}
    blocks = []
    for key in zip(counts, *(group.of for group in groups), strict=True):
        text = woven.get(key)
        if text is None:
            strings = [own[number] for own, number in zip(lists, key[1:], strict=True)]
            text = woven[key] = interleave_strings(entries[key[0]], strings)
        blocks.append(text)
    if not numeric:
        return blocks, [()] * len(counts)
    declared = {shape.name: ColumnDeclaration(shape.dtype, shape.trailing) for shape in shapes if shape.name in numeric}
    encoder = BlockEncoder(ATOMS, BlockDeclaration(declared))
    whole = BlockUpdates(np.arange(len(counts)), records.offset, numeric, {})
    return blocks, [(update.payload,) for update in grouped_updates(encoder, whole, "system")]


def _shape(name: str, column: NDArray[Any] | Coded) -> ColumnShape:
    assert not isinstance(column, Coded)
    one = Column(column)
    return ColumnShape(name, one.dtype, one.trailing)


def _documents(records: RecordColumns) -> tuple[list[str], list[str]]:
    """Return the meta of each system as it stands between the braces, and the tags that follow."""
    size = len(records)
    columns = [_key_texts(key, values, tags) for key, (values, tags) in records.said.items()]
    if not columns:
        return [""] * size, [""] * size
    keys = list(records.said)
    if all(len(set(tags)) == 1 and tags[0] for _, tags in records.said.values()):
        own = tuple((key, tags[0]) for key, (_, tags) in records.said.items())
        return list(map(",".join, zip(*columns, strict=True))), [f',"meta_types":{tags_text(own)}'] * size
    metas = [",".join(filter(None, texts)) for texts in zip(*columns, strict=True)]
    known: dict[tuple[str, ...], str] = {}
    tails = []
    for tags in zip(*(tags for _, tags in records.said.values()), strict=True):
        tail = known.get(tags)
        if tail is None:
            own = tuple((key, tag) for key, tag in zip(keys, tags, strict=True) if tag)
            tail = known[tags] = f',"meta_types":{tags_text(own)}' if own else ""
        tails.append(tail)
    return metas, tails


def _key_texts(key: str, values: list[Any], tags: list[str]) -> list[str]:
    """Return a key and its value as JSON for each system, empty for one without."""
    name = f"{to_json(key)}:"
    types = set(map(type, values))
    if types == {str} and set(tags) == {"string"}:
        whole = "".join(values)
        if whole.isprintable() and "\\" not in whole and '"' not in whole:
            return [f'{name}"{value}"' for value in values]
    if types == {int} and set(tags) == {"i64"} and min(values) >= -_EXACT and max(values) <= _EXACT:
        return [f"{name}{value}" for value in values]
    if types == {float} and set(tags) == {"f64"} and all(map(math.isfinite, values)):
        return [f"{name}{value!r}" for value in values]
    #: Documents that many records share are one object.
    known: dict[int, str] = {}
    texts = []
    for value, tag in zip(values, tags, strict=True):
        if not tag:
            texts.append("")
        elif type(value) is dict:
            text = known.get(id(value))
            if text is None:
                text = known[id(value)] = name + _value_text(key, value, tag)
            texts.append(text)
        else:
            texts.append(name + _value_text(key, value, tag))
    return texts


def _value_text(key: str, value: Any, tag: str) -> str:
    kind = type(value)
    if kind is float and tag == "f64":
        return number_text(value)
    if kind is str:
        return to_json(value)
    if kind is int and -_EXACT <= value <= _EXACT:
        return repr(value)
    if kind is bool:
        return "true" if value else "false"
    return to_json(to_typed_json(value, tag, f"system.{key}"))
