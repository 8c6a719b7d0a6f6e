"""Records and collections as files: the writers of both formats.

Each frame has the columns it has values for. A collection is written record after record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.files.target_file import open_target
from molrec_convert.formats import WriteContext
from molrec_convert.model import NO_FILL, BlockUpdates, Box, FrameBatch, Record
from molrec_convert.model.collection.collection import Collection
from molrec_convert.quantities.standard import full_tensor
from molrec_xyz.plugin import XyzTarget
from molrec_xyz.write_plan import (
    ATOMS,
    TENSOR,
    FilePlan,
    OutColumn,
    Real,
    counts_frames,
    key_text,
    make_plan,
    real_text,
    rows_text,
    value_text,
)

__all__ = ["predict", "predict_plain", "write_extxyz", "write_xyz"]

_BATCH_BYTES = 2**23


def write_extxyz(source: Record | Collection, path: Path, context: WriteContext) -> None:
    """Write an extended file: every frame with its cell, columns, steps, times and values per step."""
    _write(source, path, context, plain=False)


def write_xyz(source: Record | Collection, path: Path, context: WriteContext) -> None:
    """Write a plain file: species, positions, and the key `comment` in the second lines."""
    _write(source, path, context, plain=True)


def predict(source: Record | Collection, context: WriteContext) -> None:
    """Report what an extended file has no place for."""
    counted = _counted(source)
    for record in _records(source, context):
        make_plan(record, context.report, _target(context), counted=counted)


def predict_plain(source: Record | Collection, context: WriteContext) -> None:
    """Report what a plain file has no place for."""
    counted = _counted(source)
    for record in _records(source, context):
        make_plan(record, context.report, _target(context), plain=True, counted=counted)


def _records(source: Record | Collection, context: WriteContext) -> Iterator[Record]:
    if isinstance(source, Record):
        yield source
        return
    if source.forcefield is not None:
        context.report.dropped("forcefield", "the format has no place for it")
    yield from source


def _target(context: WriteContext) -> XyzTarget:
    return context.options if isinstance(context.options, XyzTarget) else XyzTarget()


def _counted(source: Record | Collection) -> bool:
    """True if no record needs its steps written."""
    return all(map(counts_frames, [source] if isinstance(source, Record) else source))


def _write(source: Record | Collection, path: Path, context: WriteContext, *, plain: bool) -> None:
    options = _target(context)
    name = path.name if context.target is None else context.target.name
    context.progress.start("frames", source.n_frames if isinstance(source, Collection) else None)
    if options.digits is not None:
        context.report.dropped("digits", f"numbers are rounded to {options.digits} behind the point, as asked")
    counted = _counted(source)
    with open_target(path, name) as file:
        for record in _records(source, context):
            plan = make_plan(record, context.report, options, plain=plain, counted=counted)
            _Writer(plan, options.digits, file, plain=plain).write(context)


class _Writer:
    """One record into an open file."""

    def __init__(self, plan: FilePlan, digits: int | None, file: BinaryIO, *, plain: bool) -> None:
        self._plan, self._digits, self._file, self._plain = plan, digits, file, plain
        self._real: Real = real_text(digits)
        self._before: dict[str, BlockUpdates] = {}
        self._box: Box | None = None
        self._box_text = ""
        self._keys = [(key, key_text(own) + "=", tag, fill) for key, own, tag, fill in plan.keys]

    def write(self, context: WriteContext) -> None:
        """All frames; a record without any is one frame of its system."""
        trajectory = self._plan.trajectory
        if trajectory is None:
            count = 0 if self._plan.system is None or ATOMS not in self._plan.system else self._plan.system[ATOMS].count
            batch = FrameBatch(np.zeros(1, np.int64))
            self._batch(batch, np.array([count], np.int64), context)
            return
        for batch in trajectory.batches(batch_bytes=_BATCH_BYTES):
            if batch.n_frames:
                self._batch(batch, self._counts(batch), context)

    def _counts(self, batch: FrameBatch) -> NDArray[np.int64]:
        """Return atoms of each frame of a batch."""
        system = self._plan.system
        if system is not None and ATOMS in system:
            return np.full(batch.n_frames, system[ATOMS].count, np.int64)
        updates, rows = self._resolved(batch, ATOMS)
        if updates is None:
            return np.zeros(batch.n_frames, np.int64)
        sizes = np.append(np.diff(updates.offset), 0)
        return np.where(rows < 0, 0, sizes[rows])

    def _resolved(self, batch: FrameBatch, name: str) -> tuple[BlockUpdates | None, NDArray[np.int64]]:
        """Return the updates of a block, led by the one before the batch where that holds; which a frame has (-1:
        none).
        """
        own, before = batch.blocks.get(name), self._before.get(name)
        frames = np.arange(batch.n_frames)
        if own is None:
            return before, np.where(before is None, -1, np.zeros(batch.n_frames, np.int64)).astype(np.int64)
        which = (np.searchsorted(own.frames, frames, side="right") - 1).astype(np.int64)
        if before is not None and len(which) and which[0] < 0:
            return _joined(before, own), which + 1
        return own, which

    def _batch(self, batch: FrameBatch, counts: NDArray[np.int64], context: WriteContext) -> None:
        frames = batch.n_frames
        values, present = self._values(batch, counts)
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        flags = np.array(
            [present[number] for number in range(len(self._plan.columns))] or [np.ones(frames, np.bool_)]
        ).T
        pieces: list[Any] = [b""] * frames
        properties = [""] * frames
        for pattern in np.unique(flags, axis=0):
            chosen = np.flatnonzero((flags == pattern).all(axis=1))
            columns = [c for c, there in zip(self._plan.columns, pattern, strict=False) if there]
            rows: Any = slice(None)
            if len(chosen) < frames:
                rows = np.concatenate(
                    [np.arange(offset[f], offset[f + 1]) for f in chosen.tolist()] or [np.zeros(0, int)]
                )
            fields = [(c.name, c.letter, values[c][rows]) for c in columns]
            total = int(counts[chosen].sum())
            text, starts = rows_text(fields, total, self._digits)
            view = memoryview(text)
            ends = np.concatenate([[0], np.cumsum(counts[chosen])])
            bounds = starts[ends].tolist()
            named = ":".join(map(str, columns))
            for number, frame in enumerate(chosen.tolist()):
                pieces[frame] = view[bounds[number] : bounds[number + 1]]
                properties[frame] = named
        heads = self._heads(batch, properties)
        for count, head, piece in zip(counts.tolist(), heads, pieces, strict=True):
            self._file.write(f"{count}\n{head}\n".encode())
            self._file.write(piece)
        for name, updates in batch.blocks.items():
            if len(updates.frames):
                self._before[name] = _last(updates)
        context.progress.advance(frames)

    def _values(
        self, batch: FrameBatch, counts: NDArray[np.int64]
    ) -> tuple[dict[OutColumn, NDArray[Any]], list[NDArray[np.bool_]]]:
        """Return the values of each column in all rows of the batch, and in which frames it is there."""
        found: dict[OutColumn, NDArray[Any]] = {}
        present = []
        total = int(counts.sum())
        for column in self._plan.columns:
            there = np.ones(batch.n_frames, np.bool_)
            if column.block is None:
                assert self._plan.system is not None
                block = self._plan.system[ATOMS]
                parts = [
                    np.tile(block.stored(name), (batch.n_frames, *[1] * (block.stored(name).ndim - 1)))
                    for name in column.sources
                ]
            else:
                parts, there = self._moving(batch, column, counts)
            if any(part.dtype == np.uint64 and len(part) and int(part.max()) >= 2**63 for part in parts):
                raise ContractError(f"atoms/{column.sources[0]}", "a number does not fit the integers of a file")
            present.append(there)
            found[column] = parts[0] if len(parts) == 1 else np.stack(parts, axis=1)
            assert len(found[column]) == total
        return found, present

    def _moving(
        self, batch: FrameBatch, column: OutColumn, counts: NDArray[np.int64]
    ) -> tuple[list[NDArray[Any]], NDArray[np.bool_]]:
        updates, which = self._resolved(batch, column.block or "")
        if updates is None or (which < 0).any():
            missing = int(np.argmax(which < 0)) if updates is not None else 0
            if int(counts[missing]):
                raise ContractError(
                    f"trajectory/{column.block}", f"has no rows at step {int(batch.step[missing])}, where atoms have"
                )
            if updates is None:
                return [np.zeros(0) for _ in column.sources], np.ones(batch.n_frames, np.bool_)
        rows: Any = slice(None)
        begins = np.append(updates.offset[:-1], 0)[which]
        if not np.array_equal(which, np.arange(len(updates.frames))):
            ends = np.concatenate([[0], np.cumsum(counts)])
            rows = np.repeat(begins - ends[:-1], counts) + np.arange(ends[-1])
        there = np.ones(batch.n_frames, np.bool_)
        if column.nullable:
            mask = updates.validity.get(column.sources[0])
            if mask is not None:
                first = np.minimum(begins, max(len(mask) - 1, 0))
                there = np.where(counts > 0, mask[first] if len(mask) else True, True)
        return [updates.columns[name][rows] for name in column.sources], there

    def _heads(self, batch: FrameBatch, properties: list[str]) -> list[str]:
        """Return the second lines of the frames of a batch."""
        plan, real = self._plan, self._real
        boxes = (
            {} if batch.box is None else dict(zip(batch.box.frames.tolist(), range(len(batch.box.frames)), strict=True))
        )
        defined = plan.trajectory is None or plan.trajectory.cell_defined
        meta = {key: _plain(batch.meta[key]) for key, _, _, _ in self._keys if key in batch.meta}
        heads = []
        for frame in range(batch.n_frames):
            if frame in boxes and batch.box is not None and defined:
                self._box = batch.box.box(boxes[frame])
                self._box_text = _cell_text(self._box, real)
            if self._plain:
                comment = meta.get("comment")
                text = None if comment is None else comment[frame]
                heads.append("" if text is None else " ".join(str(text).splitlines()))
                continue
            words = [self._box_text] if self._box_text else []
            words.append(f"Properties={properties[frame]}")
            pbc = "F F F"
            for key, own, tag, fill in self._keys:
                value = meta[key][frame] if key in meta else fill
                if value is NO_FILL or _is_absent(value, fill, tag):
                    continue
                if own == "pbc=":
                    pbc = value_text(value, "bool3", real).strip('"')
                    continue
                if tag == TENSOR:
                    # columns one after another, as ASE has them
                    value, tag = full_tensor(value).T.reshape(-1), "f64x9"
                words.append(own + value_text(value, tag, real))
            if plan.step_key is not None:
                words.append(f"{plan.step_key}={int(batch.step[frame])}")
            if plan.time_key is not None and batch.time is not None:
                words.append(f"{plan.time_key}={float(batch.time[frame])!r}")
            if self._box is not None:
                pbc = " ".join("T" if axis else "F" for axis in self._box.boundary)
            words.append(f'pbc="{pbc}"')
            heads.append(" ".join(words))
        return heads


def _plain(values: Any) -> Any:
    return values if isinstance(values, list) or values.ndim > 1 else values.tolist()


def _is_absent(value: Any, fill: Any, tag: str) -> bool:
    """True if a frame's value is what stands where there is none."""
    if fill is NO_FILL:
        return False
    if tag == "json":
        return value is None and fill is None
    if tag.startswith("f64") or tag == TENSOR:
        return bool(np.isnan(np.asarray(fill)).all() and np.isnan(np.asarray(value)).all())
    return False


def _cell_text(box: Box, real: Real) -> str:
    numbers = " ".join(real(item) for item in box.vectors.T.reshape(-1).tolist())
    text = f'Lattice="{numbers}"'
    if box.origin.any():
        text += ' Origin="' + " ".join(real(item) for item in box.origin.tolist()) + '"'
    return text


def _last(updates: BlockUpdates) -> BlockUpdates:
    """Return the last update of a block, at the first frame of what comes next."""
    rows = updates.rows_of(len(updates.frames) - 1)
    return BlockUpdates(
        np.zeros(1, np.int64),
        np.array([0, rows.stop - rows.start], np.int64),
        {key: values[rows] for key, values in updates.columns.items()},
        {key: mask[rows] for key, mask in updates.validity.items()},
    )


def _joined(before: BlockUpdates, own: BlockUpdates) -> BlockUpdates:
    size = int(before.offset[-1])
    return dataclasses.replace(
        own,
        frames=np.concatenate([[0], own.frames]),
        offset=np.concatenate([[0], own.offset + size]),
        columns={key: np.concatenate([before.columns[key], values]) for key, values in own.columns.items()},
        validity={
            key: np.concatenate([before.validity.get(key, np.ones(size, np.bool_)), mask])
            for key, mask in own.validity.items()
        },
    )
