"""Differences of two trajectories: the declaration, then every resolved frame, batch against batch.

Both are streamed. Where both present a block at the same frames with the same row counts, whole batches of a column
are compared at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.inspect.diff.sections import against, differing_rows, json_differences
from molrec_convert.model.batch import BlockUpdates, BoxUpdates, FrameBatch
from molrec_convert.model.declaration import NO_FILL, Declaration, MetaDeclaration
from molrec_convert.model.names import ENDPOINTS
from molrec_convert.model.tags import TAGS, canonical_json
from molrec_convert.model.trajectory import Trajectory, take_frames

__all__ = ["declaration_differences", "trajectory_differences"]

_BOX = "box"


def trajectory_differences(a: Trajectory, b: Trajectory, *, declared: bool = True) -> Iterator[str]:
    """Yield what differs between two trajectories, line by line; not `declared`: but for what they declare."""
    if declared:
        yield from declaration_differences(a.declaration, b.declaration)
    if a.cell_defined != b.cell_defined:
        yield f"trajectory/box: cell_defined is {against(a.cell_defined, b.cell_defined)}"
    for path in sorted({*a.attributes, *b.attributes}):
        node = f"trajectory/{path}" if path else "trajectory"
        yield from json_differences(node, a.attributes.get(path), b.attributes.get(path))
    first, second = _Side(a), _Side(b)
    frame = 0
    while (n := min(first.available(), second.available())) > 0:
        yield from _window_differences(first, second, first.take(n), second.take(n), frame)
        frame += n
    lengths = [frame + side.drain() for side in (first, second)]
    if lengths[0] != lengths[1]:
        yield f"trajectory: {lengths[0]} frames against {lengths[1]}"


def declaration_differences(a: Declaration, b: Declaration) -> Iterator[str]:
    """Yield what differs between what two trajectories, or collections, declare."""
    for name in sorted({*a.blocks, *b.blocks}):
        node = f"trajectory/{name}"
        if name not in a.blocks or name not in b.blocks:
            yield f"{node}: is declared in the {'first' if name in a.blocks else 'second'} only"
            continue
        documents = [_block_document(declaration, name) for declaration in (a, b)]
        columns = [document.pop("columns") for document in documents]
        yield from json_differences(f"{node}: declaration", *documents)
        for key in sorted({*columns[0], *columns[1]}):
            here = f"{node}/{key}"
            if key not in columns[0] or key not in columns[1]:
                yield f"{here}: is declared in the {'first' if key in columns[0] else 'second'} only"
            else:
                yield from json_differences(f"{here}: declaration", columns[0][key], columns[1][key])
    for key in sorted({*a.meta, *b.meta}):
        node = f"trajectory/meta/{key}"
        if key not in a.meta or key not in b.meta:
            yield f"{node}: is declared in the {'first' if key in a.meta else 'second'} only"
        else:
            yield from json_differences(f"{node}: declaration", a.meta[key].to_json(node), b.meta[key].to_json(node))
    yield from json_differences("trajectory: sequence_schema", a.extra, b.extra)


def _block_document(declaration: Declaration, name: str) -> dict[str, Any]:
    document = declaration.blocks[name].to_json()
    targets = {k: t for k, t in document.pop("targets", {}).items() if not (k in ENDPOINTS and t == "atoms")}
    return {**document, **({"targets": targets} if targets else {})}


@dataclass
class _Window:
    """Some frames of one side, resolved: every block that is there presents itself at the first frame.

    `news` names the blocks with an update of their own at the first frame, not only carried into it.
    """

    batch: FrameBatch
    blocks: dict[str, BlockUpdates]
    news: set[str] = field(default_factory=set)


class _Side:
    """One trajectory, read batch by batch, handed out in windows of any length."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._batches = iter(trajectory.batches())
        self._batch: FrameBatch | None = None
        self._position = 0
        self._carried: dict[str, BlockUpdates] = {}
        self.declaration = trajectory.declaration

    def available(self) -> int:
        """Return frames that can be taken at once; 0 at the end."""
        while self._batch is None or self._position == self._batch.n_frames:
            self._batch = next(self._batches, None)
            self._position = 0
            if self._batch is None:
                return 0
        return self._batch.n_frames - self._position

    def drain(self) -> int:
        """Read to the end; the number of frames left."""
        left = 0
        while (n := self.available()) > 0:
            left += n
            self._position += n
        return left

    def take(self, n: int) -> _Window:
        """Return the next `n` frames."""
        assert self._batch is not None
        batch, start = self._batch, self._position
        self._position += n
        updates = {name: block for name, block in batch.blocks.items() if len(block.frames)}
        if batch.box is not None and len(batch.box.frames):
            updates[_BOX] = _box_block(batch.box)
        news = {name for name, block in updates.items() if start in block.frames}
        if n < batch.n_frames:
            batch = replace(batch, blocks=updates, box=None)
            batch = take_frames(batch, np.arange(start, start + n, dtype=np.int64))
            updates = batch.blocks
        for name, carried in self._carried.items():
            updates[name] = _after(carried, updates.get(name))
        for name, block in updates.items():
            self._carried[name] = _last(block)
        return _Window(batch, updates, news)


def _box_block(box: BoxUpdates) -> BlockUpdates:
    """Return the cells as a block of one row per update."""
    columns = {"vectors": box.vectors, "origin": box.origin, "boundary": box.boundary}
    return BlockUpdates(box.frames, np.arange(len(box.frames) + 1, dtype=np.int64), columns)


def _after(carried: BlockUpdates, updates: BlockUpdates | None) -> BlockUpdates:
    """Return the updates with the state carried in from before at the first frame, unless they restate it there."""
    if updates is None or not len(updates.frames):
        return carried
    if updates.frames[0] == 0:
        return updates
    rows = int(updates.offset[-1])
    masks = {
        key: np.concatenate([_mask(carried, key, int(carried.offset[-1])), _mask(updates, key, rows)])
        for key in {*carried.validity, *updates.validity}
    }
    return BlockUpdates(
        np.concatenate([[0], updates.frames]).astype(np.int64),
        np.concatenate([[0], updates.offset + carried.offset[-1]]).astype(np.int64),
        {key: np.concatenate([carried.columns[key], values]) for key, values in updates.columns.items()},
        masks,
    )


def _last(updates: BlockUpdates) -> BlockUpdates:
    rows = updates.rows_of(len(updates.frames) - 1)
    return BlockUpdates(
        np.zeros(1, dtype=np.int64),
        np.array([0, rows.stop - rows.start], dtype=np.int64),
        {key: values[rows].copy() for key, values in updates.columns.items()},
        {key: mask[rows].copy() for key, mask in updates.validity.items()},
    )


def _mask(updates: BlockUpdates, key: str, rows: int) -> NDArray[np.bool_]:
    mask = updates.validity.get(key)
    return np.ones(rows, dtype=np.bool_) if mask is None else mask


def _window_differences(a: _Side, b: _Side, first: _Window, second: _Window, frame: int) -> Iterator[str]:
    yield from _value_lines("trajectory/step", first.batch.step, second.batch.step, frame)
    mine, theirs = first.batch.time, second.batch.time
    if mine is not None and theirs is not None:
        yield from _value_lines("trajectory/time", mine, theirs, frame)
    elif frame == 0 and (mine is None) != (theirs is None):
        yield f"trajectory/time: is in the {'second' if mine is None else 'first'} only"
    for key in a.declaration.meta:
        declared = a.declaration.meta[key], b.declaration.meta.get(key)
        if declared[1] is not None and declared[0].dtype == declared[1].dtype:
            values = [_meta_values(w.batch, key, d) for w, d in zip((first, second), declared, strict=True) if d]
            yield from _meta_lines(f"trajectory/meta/{key}", declared[0], values[0], values[1], frame)
    for name in [*(n for n in a.declaration.blocks if n in b.declaration.blocks), _BOX]:
        pair = first.blocks.get(name), second.blocks.get(name)
        fresh = name in first.news or name in second.news
        yield from _block_lines(f"trajectory/{name}", pair[0], pair[1], frame, fresh)


def _value_lines(node: str, a: NDArray[Any], b: NDArray[Any], frame: int) -> Iterator[str]:
    for i in differing_rows(a, b):
        yield f"{node}, frame {frame + i}: {against(a[i], b[i])}"


def _meta_values(batch: FrameBatch, key: str, declared: MetaDeclaration) -> Any:
    if key in batch.meta:
        return batch.meta[key]
    fill = None if declared.fill is NO_FILL else declared.fill
    tag = TAGS[declared.dtype]
    if tag.dtype is None:
        return [fill] * batch.n_frames
    return np.broadcast_to(np.asarray(fill), (batch.n_frames, *tag.trailing))


def _meta_lines(node: str, declared: MetaDeclaration, a: Any, b: Any, frame: int) -> Iterator[str]:
    if declared.dtype != "json":
        yield from _value_lines(node, np.asarray(a), np.asarray(b), frame)
        return
    for i, (first, second) in enumerate(zip(a, b, strict=True)):
        if canonical_json(first) != canonical_json(second):
            yield f"{node}, frame {frame + i}: {against(first, second)}"


def _block_lines(node: str, a: BlockUpdates | None, b: BlockUpdates | None, frame: int, fresh: bool) -> Iterator[str]:
    """Yield differences of a block's resolved states, one line for each column at each frame that changes something."""
    if a is None and b is None:
        return
    if a is not None and b is not None and np.array_equal(a.frames, b.frames) and np.array_equal(a.offset, b.offset):
        yield from _same_layout_lines(node, a, b, frame, fresh)
        return
    none = np.zeros(0, dtype=np.int64)
    frames = [none if side is None else side.frames for side in (a, b)]
    for position in np.union1d(frames[0], frames[1]):
        if position == 0 and not fresh:
            continue
        updates = [int(np.searchsorted(f, position, side="right")) - 1 for f in frames]
        yield from _pair_lines(node, a, b, updates[0], updates[1], frame + int(position))


def _same_layout_lines(node: str, a: BlockUpdates, b: BlockUpdates, frame: int, fresh: bool) -> Iterator[str]:
    first_row = int(a.offset[1]) if not fresh and a.frames[0] == 0 else 0
    for key in (key for key in a.columns if key in b.columns):
        pairs = [("", a.columns[key], b.columns[key])]
        if key in a.validity or key in b.validity:
            rows = int(a.offset[-1])
            pairs.append(("the mask is ", _mask(a, key, rows), _mask(b, key, rows)))
        for label, x, y in pairs:
            if x.dtype != y.dtype or x.shape != y.shape:
                continue
            rows_differing = differing_rows(x[first_row:], y[first_row:]) + first_row
            owners = np.searchsorted(a.offset, rows_differing, side="right") - 1
            updates, firsts, counts = np.unique(owners, return_index=True, return_counts=True)
            for update, position, count in zip(updates, firsts, counts, strict=True):
                row = int(rows_differing[position])
                yield _row_line(
                    f"{node}/{key}, frame {frame + int(a.frames[update])}, row {row - int(a.offset[update])}",
                    label,
                    (x[row], y[row]),
                    int(count),
                    int(a.offset[update + 1] - a.offset[update]),
                )


def _pair_lines(
    node: str, a: BlockUpdates | None, b: BlockUpdates | None, first: int, second: int, frame: int
) -> Iterator[str]:
    """Yield one update of each side (-1: the block is absent) against the other."""
    if a is None or b is None or first < 0 or second < 0:
        if (a is None or first < 0) != (b is None or second < 0):
            yield f"{node}, frame {frame}: is in the {'second' if a is None or first < 0 else 'first'} only"
        return
    rows = a.rows_of(first), b.rows_of(second)
    counts = [r.stop - r.start for r in rows]
    if counts[0] != counts[1]:
        yield f"{node}, frame {frame}: {counts[0]} rows against {counts[1]}"
        return
    one = [_only(side, r) for side, r in zip((a, b), rows, strict=True)]
    yield from _same_layout_lines(node, one[0], one[1], frame, True)


def _only(updates: BlockUpdates, rows: slice) -> BlockUpdates:
    return BlockUpdates(
        np.zeros(1, dtype=np.int64),
        np.array([0, rows.stop - rows.start], dtype=np.int64),
        {key: values[rows] for key, values in updates.columns.items()},
        {key: mask[rows] for key, mask in updates.validity.items()},
    )


def _row_line(place: str, label: str, values: tuple[Any, Any], differing: int, rows: int) -> str:
    more = f" ({differing} of {rows} rows differ)" if differing > 1 else ""
    return f"{place}: {label}{against(*values)}{more}"
