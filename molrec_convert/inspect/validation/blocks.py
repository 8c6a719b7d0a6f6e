"""The blocks of a stored trajectory: index, columns, masks, references, alignment.

Source: Trajectory, "Blocks"; Zarr V3 binding, "Commit protocol"; Record, "Root and sections".
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.inspect.tree.nodes import Node, read_node
from molrec_convert.inspect.validation.arrays import CheckedArray, load_array, scan_column
from molrec_convert.inspect.validation.findings import Findings, check_group, note_unknown
from molrec_convert.inspect.validation.frames import CheckedBlock, FrameChecks, read_masks
from molrec_convert.model.declaration import BlockDeclaration, Declaration
from molrec_convert.model.frame import references
from molrec_convert.model.rules import (
    Highest,
    RowCounts,
    aligned_faults,
    column_faults,
    highest,
    reference_faults,
    row_count_faults,
    shape_faults,
)
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["BlockChecks", "RowHistory", "ascending_frames"]


@dataclass
class RowHistory(RowCounts):
    """How many rows a block has at which frame, and which rows of the stored columns an update owns.

    A regular block is `uniform` rows from frame 0 on, one update a frame, without a list of them.
    """

    uniform: int = 0
    updates: int = 0

    @classmethod
    def regular(cls, rows: int, updates: int) -> RowHistory:
        """Return the history of a block whose update j, of `rows` rows, is at frame j."""
        there = 1 if updates else 0
        return cls(np.zeros(there, dtype=np.int64), np.full(there, rows, dtype=np.int64), rows, updates)

    @property
    def total(self) -> int:
        """Rows of all updates."""
        return self.uniform * self.updates if self.uniform else int(self.counts.sum())

    def owners(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the update that owns each of some rows."""
        if self.uniform:
            return rows // self.uniform
        return np.searchsorted(np.cumsum(self.counts), rows, side="right")

    def frames_of(self, updates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frames of some updates."""
        return updates if self.uniform else self.frames[updates]

    def referenced(self, array: CheckedArray, mask: CheckedArray | None) -> tuple[RowCounts, Highest]:
        """Return the largest row each update refers to; those whose rows no chunk backs are like the first of them."""
        empty = np.zeros(0, np.int64) if self.uniform else np.flatnonzero(self.counts == 0)
        parts = [(empty, np.zeros(len(empty), np.uint64), np.zeros(len(empty), np.bool_))]
        for start, values in itertools.chain(array.pieces(self.total), array.zeros(self.total)):
            owners = self.owners(np.arange(start, start + len(values)))
            begins = np.flatnonzero(np.diff(owners, prepend=-1))
            valid = None if mask is None else mask.rows_between(start, start + len(values))
            if valid is not None and len(valid) != len(values):
                valid = None
            found = highest(np.append(begins, len(values)), values, valid)
            parts.append((owners[begins], found.row, found.any))
        updates, row, used = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = np.argsort(updates, kind="stable")
        updates, row, used = updates[order], row[order], used[order]
        begins = np.flatnonzero(np.diff(updates, prepend=-1))
        if len(begins):
            updates, row, used = updates[begins], np.maximum.reduceat(row, begins), np.logical_or.reduceat(used, begins)
        counts = np.full(len(updates), self.uniform) if self.uniform else self.counts[updates]
        return RowCounts(self.frames_of(updates), counts), Highest(row, used)


_INDEX = ("step_index", "offset")
#: The history of a block that is never there.
_NEVER = RowHistory.regular(0, 0)


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
        return RowHistory(frames, bounds[1:].astype(np.int64) - bounds[:-1].astype(np.int64), 0, len(frames))

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
        self._findings.take(shape_faults(node.key, history, shape))

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
        limit = self._frames.absolute(target) if target.startswith("/") else self._history.get(target, _NEVER)
        if limit is None:
            scan_column(array, mask, None, self._findings, history.total)
            return
        self._findings.take(reference_faults(array.node, *history.referenced(array, mask), target, limit))

    def _check_aligned(self, name: str, declared: BlockDeclaration) -> None:
        if declared.aligned_with is None:
            return
        mine, other = self._history[name], self._history.get(declared.aligned_with)
        if mine is None or other is None:
            return
        self._findings.take(aligned_faults(f"trajectory/{name}", mine, declared.aligned_with, other))

    def _check_system(self, name: str, declared: BlockDeclaration) -> None:
        system = self._frames.blocks.get("system", {}).get(name)
        if system is None:
            return
        here = f"trajectory/{name}"
        if declared.aligned_with is not None:
            self._findings.error(here, "an aligned block must not have the name of a block of system")
        self._findings.take(column_faults(here, declared.columns, system.columns))
        history = self._history[name]
        if history is None or system.count is None:
            return
        before = len(self._findings.items)
        self._findings.take(row_count_faults(here, history, system.count))
        if len(self._findings.items) == before:
            self._check_ids(name, system, history)

    def _check_ids(self, name: str, system: CheckedBlock, history: RowHistory) -> None:
        """`id` on both sides is equal row for row at every update."""
        array, own = self._columns[name].get("id"), system.columns.get("id")
        if array is None or own is None or not own.rows or array.dtype != own.dtype:
            return
        expected: NDArray[Any] | None = own.whole(own.rows)
        if expected is None:
            return
        # beyond one frame of zeros the rows of system only come again
        for start, values in itertools.chain(array.pieces(history.total), array.zeros(history.total, own.rows)):
            rows = np.arange(start, start + len(values)) % own.rows
            wrong = np.flatnonzero(values != expected[rows])
            if len(wrong):
                row = start + int(wrong[0])
                frame = history.frames_of(history.owners(np.array([row])))[0]
                self._findings.error(
                    array.node,
                    f"differs from the id in system at frame {frame}, row {row % own.rows}: "
                    f"found {values[wrong[0]]}, expected {expected[row % own.rows]}",
                )
                return


def ascending_frames(array: CheckedArray, n: int, findings: Findings) -> NDArray[np.int64] | None:
    """Return the committed part of a `step_index`: ascending ordinals below `n`; None (and an error) when it is
    broken.
    """
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
