"""The trajectory of one record of a collection: frames resolved from its values, batches for conversions.

Values are held against the collection's declaration. Which frame updated which block is worked out once per
trajectory, from the headers; resolving a frame is a search in that.
Source: Collection and its LMDB file; Trajectory, "Resolving a frame", "Three states", "Aligned".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BlockUpdates, BoxUpdates, FrameBatch
from molrec_convert.model.declaration import NO_FILL, Declaration
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.frame import Block, Box, Frame
from molrec_convert.model.record import Record, absolute_rows
from molrec_convert.model.rules import Alignment, FrameRules
from molrec_convert.model.tags import TAGS, Meta, from_typed_json
from molrec_convert.model.trajectory import BATCH_BYTES, Trajectory
from molrec_convert.stores.lmdb.values.decode import Buffer, FrameBytes, decode
from molrec_convert.stores.lmdb.values.layout import Layout
from molrec_convert.stores.lmdb.values.stored_frame import StoredFrame, stored_block

__all__ = ["SharedDeclaration", "StoredTrajectory", "check_values", "unknown_header_keys"]


class SharedDeclaration:
    """A collection's declaration, as its values are held against it; layouts found to fit are remembered."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.tags = {key: entry.dtype for key, entry in declaration.meta.items()}
        self.precisions = {
            name: {key: column.precision for key, column in block.columns.items()}
            for name, block in declaration.blocks.items()
        }
        self.fills = {key for key, entry in declaration.meta.items() if entry.fill is not NO_FILL}
        self._absent = [key for key, entry in declaration.meta.items() if entry.has_missing]
        self.absolute = any(
            target.startswith("/") for block in declaration.blocks.values() for target in block.targets.values()
        )
        #: Block → the block it is aligned with.
        self.aligned = {n: b.aligned_with for n, b in declaration.blocks.items() if b.aligned_with is not None}
        self._described = {n for n, b in declaration.blocks.items() if b.structural_shape is not None or b.targets}
        self._fitting: dict[int, Layout] = {}

    def check(self, frame: FrameBytes) -> None:
        """Refuse a value with blocks or columns outside the declaration."""
        layout = frame.layout
        if self._fitting.get(id(layout)) is not layout:
            for name in layout.blocks:
                self._check_block(name, frame)
            if len(self._fitting) >= 1024:
                self._fitting.clear()
            self._fitting[id(layout)] = layout

    def check_keys(self, frame: FrameBytes) -> None:
        """Refuse a value with other per-step keys than declared."""
        document = frame.document
        if document.keys() != self.tags.keys():
            for key in document.keys() - self.tags.keys():
                raise ContractError(f"{frame.node}/meta/{key}", "the per-step key is not declared")
            for key in self.tags.keys() - document.keys() - self.fills:
                raise ContractError(f"{frame.node}/meta/{key}", "the frame omits a per-step key without a fill")

    def frame(
        self,
        last: FrameBytes,
        earlier: Callable[[str], FrameBytes | None] | None,
        system: Callable[[], Frame | None],
    ) -> StoredFrame:
        """Return the frame whose value is `last`, resolved: `earlier` finds what it leaves out, None in a first
        frame.
        """
        blocks: dict[str, Block] = {}
        referring = last.layout.referring
        own = last.layout.blocks
        for name in self.declaration.blocks:
            source = last if name in own else None if earlier is None else earlier(name)
            if source is None:
                continue
            block = blocks[name] = stored_block(source, name, self.precisions[name])
            if name in self._described:
                declared = self.declaration.blocks[name]
                block.structural_shape, block.targets = declared.structural_shape, dict(declared.targets)
            if source is not last and source.layout.blocks[name].references:
                referring = (*referring, name)
        absolute = absolute_rows(system(), None) if self.absolute and referring else None
        for name, target in self.aligned.items():
            if name in blocks:
                _check_aligned(blocks, name, target, last.node)
        return StoredFrame.of(
            last, blocks, self.meta, is_step=True, earlier=earlier, absolute=absolute, referring=referring
        )

    def meta(self, frame: FrameBytes) -> Meta:
        """Return the per-step values of a frame, by their declared tags, without those that are missing in it.

        What it omits is at its fill.
        """
        self.check_keys(frame)
        meta = frame.meta(self.tags)
        if self.fills and len(meta) < len(self.tags):
            for key in self.fills - frame.document.keys():
                entry = self.declaration.meta[key]
                meta.put(key, entry.fill, entry.dtype)
        for key in self._absent:
            if self.declaration.meta[key].is_missing(meta[key]):
                del meta[key]
        return meta

    def _check_block(self, name: str, frame: FrameBytes) -> None:
        here = f"{frame.node}/{name}"
        declared = self.declaration.blocks.get(name)
        if declared is None:
            raise ContractError(here, "the block is not declared")
        layout = frame.blocks[name]
        if layout.columns.keys() != declared.columns.keys():
            other = sorted(layout.columns.keys() ^ declared.columns.keys())[0]
            raise ContractError(f"{here}/{other}", "the columns of the block are not the declared ones")
        for key, column in declared.columns.items():
            found = layout.columns[key]
            if (found.dtype, found.shape[1:]) != (column.dtype, column.trailing):
                raise ContractError(
                    f"{here}/{key}",
                    "the column differs from its declaration",
                    found=f"{found.dtype}{list(found.shape[1:])}",
                    expected=f"{column.dtype}{list(column.trailing)}",
                )
            if found.validity is not None and not column.nullable:
                raise ContractError(f"{here}/{key}", "a column that is not declared nullable has a mask")
        if layout.structural_shape not in (None, declared.structural_shape):
            raise ContractError(here, "the structural shape is not the declared one")
        shape = declared.structural_shape
        if shape is not None and math.prod(shape) != layout.count:
            raise ContractError(here, "the update has other rows than the structural shape", found=str(layout.count))
        if layout.targets and layout.targets != declared.targets:
            raise ContractError(here, "the targets are not the declared ones")


def _check_aligned(blocks: Mapping[str, Block], name: str, target: str, node: str) -> None:
    if target not in blocks or blocks[target].count != blocks[name].count:
        expected = str(blocks[target].count) if target in blocks else "none"
        rule = f"is aligned with {target!r} and has another row count"
        raise ContractError(f"{node}/{name}", rule, found=str(blocks[name].count), expected=expected)


class Fetch(Protocol):
    """Gives the value of a frame: for good, or with `peek` to look at for a moment, perhaps in place."""

    def __call__(self, index: int, /, peek: bool = False) -> Buffer: ...


class StoredTrajectory(Trajectory):
    """Frames of one record, whose values `fetch` gives by their ordinal within it."""

    def __init__(
        self,
        shared: SharedDeclaration,
        count: int,
        fetch: Fetch,
        system: Callable[[], Frame | None],
        first: int = 0,
    ) -> None:
        super().__init__()
        self._shared, self._count, self._fetch, self._system = shared, count, fetch, system
        self._first = first
        self._changes: dict[str, NDArray[np.int64]] | None = None
        self._declaration: Declaration | None = None
        self._defined: bool | None = None

    @property
    def declaration(self) -> Declaration:  # type: ignore[override]
        """The collection's, with the row counts of the first frame."""
        if self._declaration is None:
            declared = self._shared.declaration
            if self._count:
                rows = {name: block.count for name, block in self._decode(0, peek=True).blocks.items()}
                blocks = {name: replace(block, rows=rows.get(name)) for name, block in declared.blocks.items()}
                declared = replace(declared, blocks=blocks)
            self._declaration = declared
        return self._declaration

    @property
    def cell_defined(self) -> bool:  # type: ignore[override]
        """True if the record has a cell, and not an origin alone; told by its first cell."""
        if self._defined is None:
            cells = self._changed("box")
            box = self._decode(int(cells[0]), peek=True).box if len(cells) else None
            self._defined = box is None or box.defined
        return self._defined

    @property
    def _node(self) -> str:
        return f"f[{self._first}…]"

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int and 0 <= index < self._count:
            return self.frame(index)
        return super().__getitem__(index)

    def frame(self, index: int) -> Frame:
        """See `Trajectory.frame`."""
        if not 0 <= index < self._count:
            # the next value is another record's
            raise IndexError(f"frame {index} of a trajectory of {self._count}")
        return self._shared.frame(
            self._decode(index), None if index == 0 else lambda name: self._resolve(name, index), self._system
        )

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        declaration = self.declaration.select(columns)
        ordinals = range(start, self._count if stop is None else min(stop, self._count), step)
        system = self._system()
        rules = FrameRules(declaration, absolute_rows(system, None), self._node) if columns is None else None
        alignment = Alignment(system)
        position = 0
        while position < len(ordinals):
            taken, size = [self._decode(ordinals[position], peek=True)], 0
            while position + len(taken) < len(ordinals) and size < batch_bytes:
                frame = self._decode(ordinals[position + len(taken)], peek=True)
                taken.append(frame)
                size += frame.nbytes + 256
            batch = self._batch(declaration, ordinals, position, taken)
            if rules is not None:
                rules = rules.after(batch)
            alignment.check_batch(batch, ordinals[position])
            yield batch
            position += len(taken)

    def _batch(self, declaration: Declaration, ordinals: range, position: int, taken: list[FrameBytes]) -> FrameBatch:
        """Return the frames at `ordinals[position:]`, as many as were taken; updates between two fall to the later
        one.
        """
        before = -1 if position == 0 else ordinals[position - 1]
        wanted = np.arange(len(taken), dtype=np.int64) * ordinals.step + ordinals[position]
        blocks = {}
        for name in declaration.blocks:
            picked = self._picked(name, wanted, before)
            if picked:
                blocks[name] = self._updates(declaration, name, picked, wanted, taken)
        box = None
        cells = self._picked("box", wanted, before)
        if cells:
            boxes = [self._cell(change, frame, wanted, taken) for change, frame in cells]
            box = BoxUpdates(
                np.array([frame for _, frame in cells], np.int64),
                np.stack([b.vectors for b in boxes]),
                np.stack([b.origin for b in boxes]),
                np.stack([b.boundary for b in boxes]),
            )
        for frame in taken:
            self._shared.check_keys(frame)
        times = [frame.time for frame in taken]
        if any(time is None for time in times) and any(time is not None for time in times):
            raise ContractError(f"{self._node}/time", "time is stated for all frames or for none")
        return FrameBatch(
            np.array([frame.step for frame in taken], np.int64),
            None if times[0] is None else np.array(times, np.float64),
            blocks,
            {key: self._meta_values(key, taken) for key in declaration.meta},
            box,
        )

    def _picked(self, name: str, wanted: NDArray[np.int64], before: int) -> list[tuple[int, int]]:
        """Return the changes that frames `wanted` resolve to and the frame `before` them does not: (change,
        position).
        """
        changes = self._changed(name)
        resolved = changes.searchsorted(wanted, side="right") - 1
        last = int(changes.searchsorted(before, side="right")) - 1
        new = resolved > np.concatenate([[last], resolved[:-1]])
        return [(int(changes[resolved[at]]), int(at)) for at in np.flatnonzero(new)]

    def _updates(
        self,
        declaration: Declaration,
        name: str,
        picked: list[tuple[int, int]],
        wanted: NDArray[np.int64],
        taken: list[FrameBytes],
    ) -> BlockUpdates:
        sources = [
            taken[frame] if change == wanted[frame] else self._decode(change, peek=True) for change, frame in picked
        ]
        counts = np.array([source.blocks[name].count for source in sources], np.int64)
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        columns: dict[str, NDArray[Any]] = {}
        validity: dict[str, NDArray[np.bool_]] = {}
        for key, column in declaration.blocks[name].columns.items():
            parts = [source.values(name, key) for source in sources]
            columns[key] = np.concatenate(parts) if len(parts) > 1 else np.array(parts[0])
            if column.nullable:
                masks = [source.mask(name, key) for source in sources]
                validity[key] = np.concatenate(
                    [np.ones(n, np.bool_) if m is None else m for m, n in zip(masks, counts.tolist(), strict=True)]
                )
        return BlockUpdates(np.array([frame for _, frame in picked], np.int64), offset, columns, validity)

    def _cell(self, change: int, frame: int, wanted: NDArray[np.int64], taken: list[FrameBytes]) -> Box:
        source = taken[frame] if change == wanted[frame] else self._decode(change, peek=True)
        box = source.box
        assert box is not None
        if box.defined != self.cell_defined:
            raise ContractError(f"{source.node}/box", "cell_defined is one for all frames of a record")
        return box

    def _meta_values(self, key: str, taken: list[FrameBytes]) -> Any:
        entry = self._shared.declaration.meta[key]
        tag = TAGS[entry.dtype]
        values = [
            from_typed_json(frame.document[key], entry.dtype, f"{frame.node}/meta/{key}")
            if key in frame.document
            else entry.fill
            for frame in taken
        ]
        if tag.dtype is None:
            return values
        return np.array(values, dtype=DTYPES[tag.dtype].numpy).reshape(len(values), *tag.trailing)

    def _resolve(self, name: str, index: int) -> FrameBytes | None:
        """Return the value of the last update of a block (or of the cell) at or before a frame, None without one."""
        changes = self._changed(name)
        position = int(changes.searchsorted(index, side="right")) - 1
        return None if position < 0 else self._decode(int(changes[position]))

    def _changed(self, name: str) -> NDArray[np.int64]:
        """Return the ordinals of the frames that update a block, or the cell (`box`)."""
        if self._changes is None:
            found: dict[str, list[int]] = {name: [] for name in (*self._shared.declaration.blocks, "box")}
            for index in range(self._count):
                frame = self._decode(index, peek=True)
                for block in frame.layout.blocks:
                    found[block].append(index)
                if frame.has_box:
                    found["box"].append(index)
            self._changes = {name: np.array(ordinals, np.int64) for name, ordinals in found.items()}
        return self._changes[name]

    def _decode(self, index: int, *, peek: bool = False) -> FrameBytes:
        frame = decode(self._fetch(index, peek), ("f", self._first + index))
        self._shared.check(frame)
        return frame

    def __reduce__(self) -> Any:
        values = [bytes(self._fetch(index)) for index in range(self._count)]
        return _from_values, (self._shared.declaration, values, self._system(), self._first)


def _from_values(declaration: Declaration, values: list[bytes], system: Frame | None, first: int) -> StoredTrajectory:
    """Return a trajectory that has its values with it: what a pickled one becomes."""
    return StoredTrajectory(
        SharedDeclaration(declaration),
        len(values),
        lambda index, peek=False: values[index] if peek else bytearray(values[index]),
        lambda: system,
        first,
    )


_TABLES = frozenset({"blocks", "meta"})
_HEADER = frozenset({*_TABLES, "meta_types", "step", "time", "box"})
_BLOCK = frozenset({"count", "structural_shape", "columns", "targets", "attributes"})
_COLUMN = frozenset({"dtype", "shape", "offset", "values", "validity", "precision"})
_BOX = frozenset({"vectors", "origin", "boundary", "cell_defined"})


def check_values(record: Record, values: Sequence[bytes], shared: SharedDeclaration, first: int) -> int | None:
    """Check the parts of a record whose frames are `values`; returns the rows of its first update of `atoms`."""
    system = record.system
    rows = {} if system is None else {name: block.count for name, block in system.blocks.items()}
    if system is not None:
        Alignment(system).check_declaration(shared.declaration)
        system.check("system", absolute_rows(system, None))
    # what one frame alone does not tell
    together = bool(shared.aligned) or (system is not None and any("id" in b.columns for b in system.blocks.values()))
    atoms: int | None = None
    last: int | None = None
    timed: bool | None = None
    for position, value in enumerate(values):
        frame = decode(value, ("f", first + position))
        shared.check(frame)
        step, time = frame.step, frame.time
        _ = shared.meta(frame), frame.box
        if last is not None and step <= last:
            raise ContractError(f"{frame.node}/step", "steps ascend", found=f"{step} after {last}")
        if timed is not None and timed != (time is not None):
            raise ContractError(f"{frame.node}/time", "time is stated for all frames or for none")
        last, timed = step, time is not None
        for name, block in frame.blocks.items():
            if rows.get(name, block.count) != block.count:
                rule = "the block has another row count than in system"
                raise ContractError(f"{frame.node}/{name}", rule, found=str(block.count), expected=str(rows[name]))
            if name == "atoms" and atoms is None:
                atoms = block.count
        together = together or bool(frame.layout.referring)
    if together and record.trajectory is not None:
        for _batch in record.trajectory.batches():
            pass
    return atoms


def unknown_header_keys(header: Mapping[str, Any], *, tables: bool = False) -> Iterator[tuple[str, str]]:
    """Yield keys of a header that have no meaning here: where below the value ("", "atoms", "atoms/x"), and the key."""
    yield from (("", key) for key in header if key not in (_TABLES if tables else _HEADER))
    if isinstance(header.get("box"), dict):
        yield from (("box", key) for key in header["box"] if key not in _BOX)
    for name, block in header["blocks"].items():
        yield from ((name, key) for key in block if key not in _BLOCK)
        for column, entry in block["columns"].items():
            yield from ((f"{name}/{column}", key) for key in entry if key not in _COLUMN)
