"""The frame batch: what moves through the converter.

A batch holds consecutive frames with the rows of each block concatenated, beside the ordinals of the frames that
presented the block and row offsets: the compressed-sparse-row shape a trajectory has on disk. A block that a frame
does not present is carried forward from the frame before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.declaration import NO_FILL, Declaration
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.frame import Block, Box, Column, Frame, with_missing
from molrec_convert.model.tags import TAGS, Meta, coerce

__all__ = [
    "BlockUpdates",
    "BoxUpdates",
    "FrameBatch",
    "batch_from_frames",
]


@dataclass
class BlockUpdates:
    """The updates of one block within a batch.

    `frames` int64[k] are the positions in the batch of the frames that present the block, ascending; `offset`
    int64[k+1] bounds their rows; `columns` hold the rows as they are stored, `validity` the masks (bool[rows]) of
    columns that have one. `updates["x"]` has the rows as `Block` gives them: NaN or masked where they are null.
    """

    frames: NDArray[np.int64]
    offset: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]
    validity: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    @classmethod
    def uniform(
        cls, n_frames: int, rows: int, columns: Mapping[str, NDArray[Any]], validity: Mapping[str, Any] | None = None
    ) -> BlockUpdates:
        """Return every one of `n_frames` frames presents `rows` rows."""
        return cls(
            np.arange(n_frames, dtype=np.int64),
            np.arange(n_frames + 1, dtype=np.int64) * rows,
            dict(columns),
            dict(validity or {}),
        )

    def __getitem__(self, name: str) -> NDArray[Any]:
        return with_missing(self.columns[name], self.validity.get(name))

    @property
    def uniform_rows(self) -> int | None:
        """The row count when all updates have the same, else None (also without updates)."""
        sizes = np.diff(self.offset)
        return int(sizes[0]) if len(sizes) and bool((sizes == sizes[0]).all()) else None

    @property
    def nbytes(self) -> int:
        """Bytes of the columns (a string counts 16)."""
        string = DTYPES["string"].itemsize
        return sum(a.size * string if a.dtype.kind == "T" else a.nbytes for a in self.columns.values())

    def rows_of(self, update: int) -> slice:
        """Return the rows of one update."""
        return slice(int(self.offset[update]), int(self.offset[update + 1]))


@dataclass
class BoxUpdates:
    """Cells of a batch: `frames` int64[k] positions, `vectors` [k,3,3] (columns), `origin` [k,3], `boundary` [k,3]."""

    frames: NDArray[np.int64]
    vectors: NDArray[np.float64]
    origin: NDArray[np.float64]
    boundary: NDArray[np.bool_]

    @classmethod
    def single(cls, box: Box, frame: int = 0) -> BoxUpdates:
        """Return one cell from position `frame` on."""
        return cls(np.array([frame], dtype=np.int64), box.vectors[None], box.origin[None], box.boundary[None])

    def box(self, update: int, *, defined: bool = True) -> Box:
        """Return the cell of one update."""
        return Box(self.vectors[update], self.origin[update], self.boundary[update], defined)


@dataclass
class FrameBatch:
    """Consecutive frames: `step` int64[n], `time` f64[n] or None, updates per block, per-step values, cells.

    `meta[key]` is an array [n, ...] of the key's tag (a list of documents for `json`); a declared key that is absent
    takes its fill in every frame. The first batch a trajectory yields presents the whole state at its first frame.
    """

    step: NDArray[np.int64]
    time: NDArray[np.float64] | None = None
    blocks: dict[str, BlockUpdates] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    box: BoxUpdates | None = None

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self.step)

    @property
    def nbytes(self) -> int:
        """Bytes of all block columns."""
        return sum(block.nbytes for block in self.blocks.values())

    def frame(self, index: int, declaration: Declaration, *, defined: bool = True) -> Frame:
        """Return frame `index` of the batch, resolved within it: every block by its last update at or before the
        frame.
        """
        if not -self.n_frames <= index < self.n_frames:
            raise IndexError(f"frame {index} of a batch of {self.n_frames}")
        index %= self.n_frames
        blocks = {}
        for name, declared in declaration.blocks.items():
            updates = self.blocks.get(name)
            position = -1 if updates is None else int(np.searchsorted(updates.frames, index, side="right")) - 1
            if updates is None or position < 0:
                continue
            rows = updates.rows_of(position)
            columns = {
                key: Column(
                    updates.columns[key][rows],
                    updates.validity[key][rows] if key in updates.validity else None,
                    column.precision,
                )
                for key, column in declared.columns.items()
            }
            blocks[name] = Block(
                columns,
                count=rows.stop - rows.start,
                structural_shape=declared.structural_shape,
                targets=declared.targets,
            )
        meta = Meta()
        for key, entry in declaration.meta.items():
            value = self.meta[key][index] if key in self.meta else entry.fill
            if value is NO_FILL:
                raise ContractError(f"trajectory/meta/{key}", "the frame has no value and the key no fill")
            if not entry.is_missing(value):
                meta.put(key, value, entry.dtype)
        box = None
        if self.box is not None:
            position = int(np.searchsorted(self.box.frames, index, side="right")) - 1
            box = self.box.box(position, defined=defined) if position >= 0 else None
        time = None if self.time is None else float(self.time[index])
        return Frame(blocks, meta, box, int(self.step[index]), time)


def batch_from_frames(frames: Sequence[Frame], declaration: Declaration, *, copy: bool = True) -> FrameBatch:
    """Join frames into a batch: each frame presents the blocks it has; steps default to 0, 1, 2, …

    Without `copy` a batch of one frame shares the frame's arrays.
    Refused: a block or column outside the declaration, a missing column, a missing key without a fill.
    """
    for index, frame in enumerate(frames):
        for name, block in frame.blocks.items():
            if name not in declaration.blocks:
                raise ContractError(f"trajectory/{name}", f"frame {index} presents a block that is not declared")
            block.check(f"trajectory/{name}")
            _check_columns(name, block, declaration, index)
        unknown = [key for key in frame.meta if key not in declaration.meta]
        if unknown:
            raise ContractError(f"trajectory/meta/{unknown[0]}", f"frame {index} has a key that is not declared")
    times = [frame.time for frame in frames]
    if any(t is None for t in times) and any(t is not None for t in times):
        raise ContractError("trajectory/time", "time is stated for all frames or for none")
    blocks = {}
    for name in declaration.blocks:
        presenting = [index for index, frame in enumerate(frames) if name in frame.blocks]
        if presenting:
            blocks[name] = _join(name, [frames[i].blocks[name] for i in presenting], presenting, declaration, copy)
    boxed = [index for index, frame in enumerate(frames) if frame.box is not None]
    box = None
    if boxed:
        cells = [b for b in (frames[i].box for i in boxed) if b is not None]
        box = BoxUpdates(
            np.array(boxed, dtype=np.int64),
            np.stack([b.vectors for b in cells]),
            np.stack([b.origin for b in cells]),
            np.stack([b.boundary for b in cells]),
        )
    return FrameBatch(
        _steps(frames),
        None if not frames or times[0] is None else np.array(times, dtype=np.float64),
        blocks,
        {key: _meta_values(key, frames, declaration) for key in declaration.meta},
        box,
    )


def _steps(frames: Sequence[Frame]) -> NDArray[np.int64]:
    steps = [index if frame.step is None else frame.step for index, frame in enumerate(frames)]
    for index, step in enumerate(steps):
        whole = isinstance(step, (int, np.integer)) and not isinstance(step, (bool, np.bool_))
        if not whole or not -(2**63) <= step < 2**63:
            raise ContractError("trajectory/step", f"the step of frame {index} is no i64", found=repr(step))
    return np.array(steps, dtype=np.int64)


def _check_columns(name: str, block: Block, declaration: Declaration, index: int) -> None:
    entry = declaration.blocks[name]
    if (
        block.structural_shape not in (None, entry.structural_shape)
        or (block.targets or entry.targets) != entry.targets
    ):
        raise ContractError(f"trajectory/{name}", f"frame {index} presents another structural shape or other targets")
    if entry.structural_shape is not None and math.prod(entry.structural_shape) != block.count:
        raise ContractError(
            f"trajectory/{name}",
            f"frame {index} presents another number of rows than the structural shape has",
            found=str(block.count),
            expected=str(math.prod(entry.structural_shape)),
        )
    declared = entry.columns
    for key in declared:
        if key not in block.columns:
            raise ContractError(f"trajectory/{name}/{key}", f"frame {index} presents the block without this column")
    for key, column in block.columns.items():
        here = f"trajectory/{name}/{key}"
        if key not in declared:
            raise ContractError(here, f"frame {index} presents a column that is not declared")
        if column.dtype != declared[key].dtype or column.trailing != declared[key].trailing:
            raise ContractError(
                here,
                "the column differs from its declaration",
                found=f"{column.dtype}{list(column.trailing)}",
                expected=f"{declared[key].dtype}{list(declared[key].trailing)}",
            )
        if column.validity is not None and not declared[key].nullable:
            raise ContractError(here, "a column that is not declared nullable has a mask")
        if column.precision is not None and column.precision != declared[key].precision:
            raise ContractError(
                here,
                "the precision differs from the declared one",
                found=str(column.precision),
                expected=str(declared[key].precision),
            )


def _join(name: str, blocks: list[Block], frames: list[int], declaration: Declaration, copy: bool) -> BlockUpdates:
    columns: dict[str, NDArray[Any]] = {}
    validity: dict[str, NDArray[np.bool_]] = {}
    for key, declared in declaration.blocks[name].columns.items():
        parts = [block.stored(key) for block in blocks]
        columns[key] = parts[0] if len(parts) == 1 and not copy else np.concatenate(parts)
        if declared.nullable:
            validity[key] = np.concatenate([block.validity(key) for block in blocks])
    counts = np.array([block.count for block in blocks], dtype=np.int64)
    return BlockUpdates(
        np.array(frames, dtype=np.int64), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), columns, validity
    )


def _meta_values(key: str, frames: Sequence[Frame], declaration: Declaration) -> Any:
    declared = declaration.meta[key]
    here = f"trajectory/meta/{key}"
    values = []
    for index, frame in enumerate(frames):
        value = frame.meta.get(key, declared.fill)
        if value is NO_FILL:
            raise ContractError(here, f"frame {index} omits the key, which has no declared fill")
        values.append(coerce(value, declared.dtype, here))
    tag = TAGS[declared.dtype]
    if tag.dtype is None:
        return values
    return np.array(values, dtype=DTYPES[tag.dtype].numpy).reshape(len(values), *tag.trailing)
