"""The blocks of a stored trajectory: index, columns, masks, references, alignment.

Source: Trajectory, "Blocks"; Zarr V3 binding, "Commit protocol"; Record, "Root and sections".
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.inspect.tree.nodes import Node, read_node
from molrec_convert.inspect.validation.arrays import (
    CheckedArray,
    check_range,
    load_array,
    references_beyond,
    scan_column,
)
from molrec_convert.inspect.validation.findings import Findings, check_group, note_unknown
from molrec_convert.inspect.validation.frames import CheckedBlock, FrameChecks, read_masks
from molrec_convert.model.declaration import BlockDeclaration, Declaration
from molrec_convert.model.frame import references
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["BlockChecks", "RowHistory", "ascending_frames"]


@dataclass
class RowHistory:
    """`frames` int64[k] ascending, `counts` int64[k]: from that frame on the block has so many rows.

    A regular block is `uniform` rows from frame 0 on, one update a frame, without a list of them.
    """

    frames: NDArray[np.int64]
    counts: NDArray[np.int64]
    uniform: int = 0
    updates: int = 0

    @classmethod
    def regular(cls, rows: int, updates: int) -> RowHistory:
        """Update j of `rows` rows at frame j."""
        there = 1 if updates else 0
        return cls(np.zeros(there, dtype=np.int64), np.full(there, rows, dtype=np.int64), rows, updates)

    @classmethod
    def indexed(cls, frames: NDArray[np.int64], offset: NDArray[np.int64]) -> RowHistory:
        """Update j at `frames[j]` owns rows `offset[j]:offset[j+1]`."""
        return cls(frames, np.diff(offset), 0, len(frames))

    @property
    def total(self) -> int:
        """Rows of all updates."""
        return self.uniform * self.updates if self.uniform else int(self.counts.sum())

    @property
    def first(self) -> int | None:
        """The frame of the first update, None without one."""
        return int(self.frames[0]) if len(self.frames) else None

    @property
    def first_with_rows(self) -> int | None:
        """The first frame at which the block has rows."""
        positions = np.flatnonzero(self.counts)
        return int(self.frames[positions[0]]) if len(positions) else None

    @property
    def fewest(self) -> int:
        """The smallest row count, 0 without updates."""
        return int(self.counts.min()) if len(self.counts) else 0

    def at(self, frame: int) -> int | None:
        """Rows at a frame, None while the block is absent."""
        position = int(np.searchsorted(self.frames, frame, side="right")) - 1
        return int(self.counts[position]) if position >= 0 else None

    def span_of_row(self, row: int, n_frames: int) -> tuple[int, int]:
        """The frames `first:stop` at which the update that owns a row is the current one."""
        if self.uniform:
            update = row // self.uniform
            return update, update + 1 if update + 1 < self.updates else n_frames
        offset = np.concatenate([[0], np.cumsum(self.counts)])
        update = int(np.searchsorted(offset, row, side="right")) - 1
        last = update + 1 == len(self.frames)
        return int(self.frames[update]), n_frames if last else int(self.frames[update + 1])

    def fewest_between(self, first: int, stop: int) -> tuple[int, int] | None:
        """The smallest row count at frames `first:stop`, and the first frame that has it; None while absent."""
        low = max(0, int(np.searchsorted(self.frames, first, side="right")) - 1)
        high = int(np.searchsorted(self.frames, max(stop, first + 1), side="left"))
        if low >= high:
            return None
        position = low + int(np.argmin(self.counts[low:high]))
        return int(self.counts[position]), max(first, int(self.frames[position]))

    def first_difference(self, other: RowHistory, n_frames: int) -> int | None:
        """The first frame at which this block is there and the other is absent or has another row count."""
        positions = np.union1d(self.frames, other.frames)
        positions = positions[positions < n_frames]
        if self.first is None:
            return None
        positions = positions[positions >= self.first]
        mine = self.counts[np.searchsorted(self.frames, positions, side="right") - 1]
        theirs = np.searchsorted(other.frames, positions, side="right") - 1
        counts = np.concatenate([other.counts, [-1]])[theirs]
        wrong = np.flatnonzero(mine != counts)
        return int(positions[wrong[0]]) if len(wrong) else None


_INDEX = ("step_index", "offset")


class BlockChecks:
    """Checks all declared blocks of a trajectory of `n` frames."""

    def __init__(
        self,
        storage: Storage,
        node: Node,
        declaration: Declaration,
        n: int,
        frames: FrameChecks,
        findings: Findings,
    ) -> None:
        self._storage, self._node, self._declaration, self._n = storage, node, declaration, n
        self._frames, self._findings = frames, findings
        self._columns: dict[str, dict[str, CheckedArray]] = {}
        self._masks: dict[str, dict[str, CheckedArray]] = {}
        #: None: the index is broken, nothing can be said about the block's rows.
        self._history: dict[str, RowHistory | None] = {}

    def check(self) -> None:
        """Each block by itself, then what holds between blocks."""
        for name, declared in self._declaration.blocks.items():
            self._history[name] = None
            with self._findings.guard(f"trajectory/{name}"):
                self._history[name] = self._check_block(name, declared)
        for name, declared in self._declaration.blocks.items():
            with self._findings.guard(f"trajectory/{name}"):
                self._check_values(name, declared)
                self._check_aligned(name, declared)
                self._check_system(name, declared)

    def _check_block(self, name: str, declared: BlockDeclaration) -> RowHistory | None:
        node = read_node(self._storage, f"trajectory/{name}")
        self._columns[name], self._masks[name] = {}, {}
        if name not in self._node.folders:
            return RowHistory.regular(0, 0)
        if node.kind != "group":
            self._findings.error(node.key, node.fault or "the block is not a Zarr group")
            return None
        check_group(node, self._findings)
        known = {*_INDEX, "_validity", *declared.columns} & set(node.folders)
        note_unknown(self._storage, node, known, self._findings)
        self._columns[name] = self._load_columns(node, declared)
        history = self._read_history(node, declared, self._columns[name])
        if history is None:
            return None
        self._check_lengths(node, declared, history)
        self._masks[name] = self._load_masks(node, declared, history)
        return history

    def _load_columns(self, node: Node, declared: BlockDeclaration) -> dict[str, CheckedArray]:
        columns = {}
        for key, column in declared.columns.items():
            if key not in node.folders:
                continue
            array = load_array(self._storage, read_node(self._storage, node.child(key)), self._findings)
            if array is None:
                continue
            if not array.shape or array.dtype != column.dtype or array.shape[1:] != column.trailing:
                expected = f"{column.dtype}[n]{''.join(f'[{n}]' for n in column.trailing)}"
                self._findings.error(array.node, f"differs from its declaration: found {array.layout}, {expected}")
            else:
                columns[key] = array
        return columns

    def _read_history(
        self, node: Node, declared: BlockDeclaration, columns: dict[str, CheckedArray]
    ) -> RowHistory | None:
        index = [name for name in _INDEX if name in node.folders]
        markers = [name for name in ("uniform_rows", "dense_updates") if name in node.attributes]
        if len(index) == 1 and (markers or index == ["offset"]):
            self._findings.warning(node.key, f"{index[0]} without the other array of the index, left by a writer")
            index = []
        if index:
            if markers:
                self._findings.warning(node.key, "markers of a regular block beside an index, which counts")
            return self._read_index(node)
        if not markers:
            return RowHistory.regular(0, 0)
        if len(markers) == 1:
            self._findings.error(node.key, f"{markers[0]} without the other marker of a regular block")
            return None
        rows, dense = node.attributes["uniform_rows"], node.attributes["dense_updates"]
        if type(rows) is not int or rows <= 0 or dense is not True:
            found = f"uniform_rows {rows!r:.40}, dense_updates {dense!r:.40}"
            self._findings.error(
                node.key, f"the markers of a regular block are a positive number and true: found {found}"
            )
            return None
        if not declared.columns:
            self._findings.error(
                node.key, "a block without columns keeps its index: found the markers of a regular block"
            )
            return None
        for key in declared.columns:
            if key not in node.folders:
                self._findings.error(node.child(key), "the declared column is missing")
        shortest = min((array.rows for array in columns.values()), default=0)
        return RowHistory.regular(rows, min(shortest // rows, self._n))

    def _read_index(self, node: Node) -> RowHistory | None:
        index = load_array(self._storage, read_node(self._storage, node.child("step_index")), self._findings)
        frames = None if index is None else ascending_frames(index, self._n, self._findings)
        if frames is None:
            return None
        if "offset" not in node.folders:
            if len(frames):
                self._findings.error(node.key, "step_index without the other array of the index")
                return None
            return RowHistory.regular(0, 0)
        offset = load_array(self._storage, read_node(self._storage, node.child("offset")), self._findings)
        if offset is None:
            return None
        if offset.dtype != "u64" or len(offset.shape) != 1:
            self._findings.error(offset.node, f"found {offset.layout}, expected u64[n]")
            return None
        if offset.rows < len(frames) + 1:
            self._findings.error(offset.node, f"has {offset.rows} entries for {len(frames)} updates, needs one more")
            return None
        bounds = offset.whole(len(frames) + 1)
        if bounds is None:
            return None
        if int(bounds[0]) != 0:
            self._findings.error(offset.node, f"begins at 0: found {bounds[0]}")
            return None
        wrong = np.flatnonzero(bounds[1:] < bounds[:-1])
        if len(wrong) or int(bounds[-1]) >= 2**62:
            place = int(wrong[0]) + 1 if len(wrong) else len(bounds) - 1
            self._findings.error(offset.node, f"never falls: found {bounds[place]} after {bounds[place - 1]}")
            return None
        return RowHistory.indexed(frames, bounds.astype(np.int64))

    def _check_lengths(self, node: Node, declared: BlockDeclaration, history: RowHistory) -> None:
        for key in declared.columns:
            if key not in node.folders and history.updates:
                self._findings.error(node.child(key), "the declared column is missing")
        for array in self._columns[node.name].values():
            if array.rows < history.total:
                self._findings.error(array.node, f"has {array.rows} rows, the index asks for {history.total}")
        stated = node.attributes.get("structural_shape")
        shape = declared.structural_shape
        if stated is not None and (not isinstance(stated, list) or any(type(n) is not int or n < 0 for n in stated)):
            self._findings.error(
                node.key, f"a structural shape is a list of integers of at least 0: found {stated!r:.60}"
            )
        elif stated is not None and shape is not None and stated != list(shape):
            self._findings.error(
                node.key, f"the structural shape {stated} differs from the declared one, {list(shape)}"
            )
        elif stated is not None:
            shape = tuple(stated)
        if shape is not None and len(history.counts):
            wrong = np.flatnonzero(history.counts != math.prod(shape))
            if len(wrong):
                frame, rows = history.frames[wrong[0]], history.counts[wrong[0]]
                self._findings.error(
                    node.key, f"the structural shape {list(shape)} does not fit {rows} rows at frame {frame}"
                )

    def _load_masks(self, node: Node, declared: BlockDeclaration, history: RowHistory) -> dict[str, CheckedArray]:
        masks = read_masks(self._storage, node, set(declared.columns), self._findings)
        for key, mask in list(masks.items()):
            if not declared.columns[key].nullable:
                self._findings.error(mask.node, "a column that is not declared nullable has a mask")
                del masks[key]
            elif mask.rows < history.total:
                self._findings.error(mask.node, f"has {mask.rows} flags for {history.total} rows")
                del masks[key]
            else:
                mask.scan(history.total)
        return masks

    def _check_values(self, name: str, declared: BlockDeclaration) -> None:
        history = self._history[name]
        targets = references(declared.columns, declared.targets)
        if history is None:
            return
        for key, array in self._columns[name].items():
            if array.rows < history.total:
                continue
            mask = self._masks[name].get(key)
            if key in targets:
                self._check_reference(name, array, mask, targets[key], history)
            else:
                scan_column(array, mask, declared.columns[key].precision, self._findings, history.total)

    def _check_reference(
        self, name: str, array: CheckedArray, mask: CheckedArray | None, target: str, history: RowHistory
    ) -> None:
        if array.dtype != "u64":
            self._findings.error(array.node, f"a row reference is u64: found {array.dtype}")
            return
        begins = history.first_with_rows
        if target.startswith("/"):
            limit = self._frames.absolute(target)
            if limit is not None and limit < 0 and begins is not None:
                self._findings.error(array.node, f"references rows of the block {target!r}, which is not there")
            elif limit is not None and limit >= 0:
                check_range(array, mask, target, limit, self._findings, history.total)
                return
            scan_column(array, mask, None, self._findings, history.total)
            return
        other = self._history.get(target, RowHistory.regular(0, 0))
        if other is None or begins is None:
            scan_column(array, mask, None, self._findings, history.total)
            return
        there = other.first
        if there is None or there > begins:
            self._findings.error(
                array.node, f"references rows of the block {target!r}, which is not there at frame {begins}"
            )
            return
        rows, values = references_beyond(array, mask, other.fewest, history.total)
        for row, value in zip(rows.tolist(), values, strict=False):
            fewest = other.fewest_between(*history.span_of_row(row, self._n))
            if fewest is not None and value >= fewest[0]:
                self._findings.error(
                    array.node,
                    f"references row {value} of the block {target!r}, which has {fewest[0]} rows at frame {fewest[1]}",
                )
                return

    def _check_aligned(self, name: str, declared: BlockDeclaration) -> None:
        if declared.aligned_with is None:
            return
        mine, other = self._history[name], self._history.get(declared.aligned_with)
        if mine is None or other is None:
            return
        frame = mine.first_difference(other, self._n)
        if frame is not None:
            rows = other.at(frame)
            theirs = "is absent" if rows is None else f"has {rows}"
            target = declared.aligned_with
            self._findings.error(
                f"trajectory/{name}",
                f"is aligned with {target!r}, which {theirs} at frame {frame}: found {mine.at(frame)} rows",
            )

    def _check_system(self, name: str, declared: BlockDeclaration) -> None:
        system = self._frames.blocks.get("system", {}).get(name)
        if system is None:
            return
        here = f"trajectory/{name}"
        if declared.aligned_with is not None:
            self._findings.error(here, "an aligned block has the name of a block of system")
        for key in sorted(declared.columns.keys() & system.columns.keys()):
            if key != "id":
                self._findings.error(f"{here}/{key}", "the column is in system too: it lives on one side only")
        history = self._history[name]
        if history is None or system.count is None:
            return
        wrong = np.flatnonzero(history.counts != system.count)
        if len(wrong):
            frame, rows = history.frames[wrong[0]], history.counts[wrong[0]]
            self._findings.error(
                here, f"has {rows} rows at frame {frame}, the block of the same name in system {system.count}"
            )
        else:
            self._check_ids(name, system, history)

    def _check_ids(self, name: str, system: CheckedBlock, history: RowHistory) -> None:
        """`id` on both sides is equal row for row at every update."""
        array, own = self._columns[name].get("id"), system.columns.get("id")
        if array is None or own is None or not own.rows or array.dtype != own.dtype:
            return
        expected: NDArray[Any] | None = own.whole(own.rows)
        if expected is None:
            return
        # What no chunk backs are zeros; beyond one frame of them the rows of system only come again.
        gaps = ((low, np.zeros(min(high - low, own.rows), dtype=np.uint64)) for low, high in array.gaps(history.total))
        for start, values in itertools.chain(array.pieces(history.total), gaps):
            rows = np.arange(start, start + len(values)) % own.rows
            wrong = np.flatnonzero(values != expected[rows])
            if len(wrong):
                row = start + int(wrong[0])
                frame = history.span_of_row(row, self._n)[0]
                self._findings.error(
                    array.node,
                    f"differs from the id in system at frame {frame}, row {row % own.rows}: "
                    f"found {values[wrong[0]]}, expected {expected[row % own.rows]}",
                )
                return


def ascending_frames(array: CheckedArray, n: int, findings: Findings) -> NDArray[np.int64] | None:
    """The committed part of a `step_index`: ascending ordinals below `n`; None (and an error) when it is broken."""
    if array.dtype != "u64" or len(array.shape) != 1:
        findings.error(array.node, f"found {array.layout}, expected u64[n]")
        return None
    # Ascending ordinals below n are at most n; what follows them is an uncommitted tail.
    values = array.whole(min(array.rows, n + 1))
    if values is None:
        return None
    beyond = np.flatnonzero(values >= n)
    frames = values[: beyond[0]] if len(beyond) else values
    wrong = np.flatnonzero(frames[1:] <= frames[:-1])
    if len(wrong):
        place = int(wrong[0])
        findings.error(
            array.node, f"ascends: found frame {frames[place + 1]} after {frames[place]} at update {place + 1}"
        )
        return None
    return frames.astype(np.int64)
