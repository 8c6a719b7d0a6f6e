"""The values of one record, without the file they go to: what a writer does with a record before it appends it.

Whoever encodes elsewhere (in another process) and appends here gets the same bytes as a writer that does both.
Source: Collection and its LMDB file.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

import numpy as np

from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.collection.collection import check_member
from molrec_convert.model.collection.declaration import check_member_declaration
from molrec_convert.model.collection.member import as_member, is_bare, member_rows, report_losses
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.record import Record, absolute_rows, check_document
from molrec_convert.model.rules import Alignment
from molrec_convert.model.trajectory import MemoryTrajectory
from molrec_convert.report import Report
from molrec_convert.stores.lmdb.values.frame_writing import encode_frame, encode_known, encode_shaped
from molrec_convert.stores.lmdb.values.header_json import to_json
from molrec_convert.stores.lmdb.values.record_frames import FrameEncoder
from molrec_convert.stores.lmdb.values.self_contained_frames import frames_alone

__all__ = ["Member", "Plain", "RecordEncoder"]

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
        """The record as a member: its `frame` a trajectory of one frame, meta and system encoded.

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
        """All values of a record of one frame, on a shorter way: the same bytes as those of `begin` and `pieces`.

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
        """All values of records of one frame each that differ in that alone: the same bytes as those of each.

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
        values = frames_alone(self._encoder, batch, f"{node}/trajectory", cell_defined=trajectory.cell_defined)
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
        """The values of a member's frames, some at a time; returns frames and `n_atoms`. Raises as `frames` does."""
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
    """The JSON of a meta document of a few ASCII texts, about which there is nothing to check; None of any other."""
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
