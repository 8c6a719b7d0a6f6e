"""The frames of records as values: batches in, one value per frame out, holding only what changed there.

A presented block that is bit for bit its update before, values on the grid of the declared precision, is no update.
Frames that are a record each hold all that is of them. Source: Trajectory, "Blocks", "Three states", "box";
Collection and its LMDB file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BlockUpdates, FrameBatch
from molrec_convert.model.declaration import NO_FILL, BlockDeclaration, Declaration
from molrec_convert.model.dtypes import DTYPES, dtype_name, stored
from molrec_convert.model.frame import Column, Frame, references
from molrec_convert.model.rules import FrameRules
from molrec_convert.model.tags import TAGS, to_typed_json
from molrec_convert.model.trajectory import MemoryTrajectory
from molrec_convert.stores.lmdb.values.encode import (
    MAGIC,
    ZEROS,
    ColumnShape,
    SnapshotShape,
    assemble,
    block_text,
    box_text,
    column_buffers,
    grid_values,
    interleave_strings,
    number_text,
    texts_json,
)
from molrec_convert.stores.lmdb.values.layout import padding, to_json

__all__ = [
    "BlockEncoder",
    "BlockRecorder",
    "FrameEncoder",
    "RecordFrames",
    "Update",
    "cell_json_per_record",
    "encode_self_contained_frames",
    "frame_tails",
    "grouped_updates",
    "meta_texts",
]

_MOST_TEXTS = 4096


class Update(NamedTuple):
    """One update: row count, which columns have a mask, the payload, the texts of the string columns."""

    rows: int
    masked: tuple[bool, ...]
    payload: bytes | memoryview
    strings: tuple[str, ...]


class BlockEncoder:
    """A declared block: its header entry for any row count, and its rows as updates."""

    def __init__(self, name: str, declared: BlockDeclaration) -> None:
        self.name, self.declared = name, declared
        self._plain = tuple(ColumnShape(key, c.dtype, c.trailing) for key, c in declared.columns.items())
        self._unmasked = (False,) * len(self._plain)
        self._texts: dict[tuple[int, tuple[bool, ...], int], tuple[tuple[str, ...], int]] = {}
        self.has_strings = any(c.dtype == "string" for c in declared.columns.values())

    def text(self, update: Update, base: int) -> tuple[str, int]:
        """Return the header entry of an update whose buffers begin at `base`, and where they end."""
        key = (update.rows, update.masked, base)
        known = self._texts.get(key)
        if known is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            columns = tuple(c._replace(masked=m) for c, m in zip(self._plain, update.masked, strict=True))
            shape = self.declared.structural_shape
            known = self._texts[key] = block_text(
                self.name, update.rows, columns, shape, self.declared.targets, base=base
            )
        pieces, end = known
        return interleave_strings(pieces, update.strings), end

    def plain_update(self, rows: int) -> Update:
        """Return what `text` needs to know of an update of numbers without nulls."""
        return Update(rows, self._unmasked, b"", ())

    def updates(self, updates: BlockUpdates, node: str) -> Iterator[Update]:
        """Yield every update as it would be stored; refused when the columns are not the declared ones."""
        self._check(updates, node)
        columns = self._on_grid(updates)
        masks = {key: mask for key, mask in updates.validity.items() if not mask.all()}
        rows = updates.uniform_rows
        if rows is not None and len(updates.frames) > 1 and not masks and not self.has_strings:
            for payload in _matrix(columns, rows, len(updates.frames)):
                yield Update(rows, self._unmasked, payload, ())
            return
        for position in range(len(updates.frames)):
            where = updates.rows_of(position)
            yield self._update(columns, masks, where)

    def _update(self, columns: dict[str, NDArray[Any]], masks: dict[str, NDArray[np.bool_]], where: slice) -> Update:
        buffers: list[Any] = []
        strings: list[str] = []
        masked = self._unmasked
        if masks:
            cut: dict[str, NDArray[np.bool_] | None] = {key: mask[where] for key, mask in masks.items()}
            cut = {key: None if mask is None or mask.all() else mask for key, mask in cut.items()}
            masked = tuple(cut.get(key) is not None for key in columns)
        for key, values in columns.items():
            part = values[where]
            if part.dtype.kind == "T":
                strings.append(texts_json(part))
            buffers += column_buffers(part, cut.get(key) if masks else None)
        return Update(where.stop - where.start, masked, b"".join(buffers), tuple(strings))

    def _on_grid(self, updates: BlockUpdates) -> dict[str, NDArray[Any]]:
        columns = updates.columns
        return {
            key: columns[key]
            if declared.precision is None
            else grid_values(Column(columns[key], updates.validity.get(key), declared.precision))
            for key, declared in self.declared.columns.items()
        }

    def _check(self, updates: BlockUpdates, node: str) -> None:
        declared = self.declared.columns
        if updates.columns.keys() != declared.keys():
            other = sorted(updates.columns.keys() ^ declared.keys())[0]
            missing = other in declared
            raise ContractError(
                f"{node}/{self.name}/{other}",
                "the block is presented without this column" if missing else "the column is not declared",
            )
        rows = int(updates.offset[-1])
        for key, column in declared.items():
            values = updates.columns[key]
            here = f"{node}/{self.name}/{key}"
            if dtype_name(values.dtype, here) != column.dtype or values.shape != (rows, *column.trailing):
                found = f"{dtype_name(values.dtype)}{list(values.shape)}"
                expected = f"{column.dtype}{[rows, *column.trailing]}"
                raise ContractError(here, "the column differs from its declaration", found=found, expected=expected)
            mask = updates.validity.get(key)
            if mask is not None and not column.nullable and not mask.all():
                raise ContractError(here, "a column that is not declared nullable has a mask")


class BlockRecorder:
    """One block of one record: remembers the last update, and drops those that repeat it."""

    def __init__(self, encoder: BlockEncoder) -> None:
        self.encoder = encoder
        self.last: Update | None = None

    def changes(self, updates: BlockUpdates, node: str) -> dict[int, Update]:
        """Return position in the batch → update, of those that change something."""
        changed: dict[int, Update] = {}
        last = self.last
        for position, update in zip(updates.frames.tolist(), self.encoder.updates(updates, node), strict=True):
            if update != last:
                changed[position] = last = update
        if last is not None and isinstance(last.payload, memoryview):
            # the batch's memory goes back to whoever made it
            last = last._replace(payload=bytes(last.payload))
        self.last = last
        return changed


def _matrix(columns: dict[str, NDArray[Any]], rows: int, count: int) -> Iterator[memoryview]:
    """Yield the payloads of `count` updates of `rows` rows each: one row of bytes for each, padded."""
    sizes = [values.nbytes // count for values in columns.values()]
    width = sum(size + padding(size) for size in sizes)
    matrix = np.zeros((count, width), np.uint8)
    base = 0
    for values, size in zip(columns.values(), sizes, strict=True):
        if size:
            matrix[:, base : base + size] = np.ascontiguousarray(values).view(np.uint8).reshape(count, size)
        base += size + padding(size)
    data = matrix.data.cast("B") if matrix.size else memoryview(b"")
    for position in range(count):
        yield data[position * width : (position + 1) * width]


_EXACT = 2**53
_F64 = np.dtype(np.float64)
_MOST_SHAPES = 4096


class FrameEncoder:
    """What all records of a collection share: the declaration and the texts made from it."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.blocks = {name: BlockEncoder(name, block) for name, block in declaration.blocks.items()}
        self.meta = [(key, entry, f"{to_json(key)}:", entry.dtype == "f64") for key, entry in declaration.meta.items()]
        #: The per-step keys where all are numbers, each with the text before its value.
        self._number_keys = (
            [(key, f"{',' if n else ''}{text}") for n, (key, _, text, _) in enumerate(self.meta)]
            if all(is_number for _, _, _, is_number in self.meta)
            else None
        )
        self._plain = [
            (
                name,
                [(key, DTYPES[c.dtype].numpy, c.trailing, c.precision) for key, c in block.columns.items()],
                any(c.precision is not None for c in block.columns.values()),
            )
            for name, block in declaration.blocks.items()
        ]
        #: Whether a frame that stands alone can break no rule but those of its columns.
        self._is_plain = not any(
            block.aligned_with is not None
            or block.structural_shape is not None
            or references(block.columns, block.targets)
            or any(column.dtype == "string" for column in block.columns.values())
            for block in declaration.blocks.values()
        )
        #: By the shape of the system and the rows of each block: a header up to its meta, whether arrays need padding;
        #: None where the system's blocks and these do not plainly go together.
        self._heads: dict[tuple[SnapshotShape | int | None, ...], tuple[bytes, bool] | None] = {}

    def record(self, absolute: dict[str, int], node: str, *, cell_defined: bool = True) -> RecordFrames:
        """Begin a record; carry-forward never crosses from one to the next."""
        return RecordFrames(self, absolute, node, cell_defined)

    def single(
        self, trajectory: MemoryTrajectory, system: Frame | None, node: str, beside: SnapshotShape | None = None
    ) -> bytes | None:
        """Return the value of the only frame of a record, None where it needs the checks of `RecordFrames`.

        The same bytes, on a shorter way: records of one frame are what most collections are made of. `beside` is the
        shape of the system, where that is known.
        """
        batch = trajectory._batch
        if not self._is_plain or len(batch.step) != 1:
            return None
        # what frames became a trajectory in memory has been held against its own declaration
        known = trajectory.declaration is self.declaration and trajectory.is_checked
        shape: list[SnapshotShape | int | None] = [beside]
        arrays: list[Any] = []
        blocks = batch.blocks
        presented = len(blocks)
        for name, columns, rounded in self._plain:
            updates = blocks.get(name)
            if updates is None:
                shape.append(-1)
                continue
            presented -= 1
            if updates.validity or len(updates.offset) != 2:
                return None
            rows = updates.offset.item(1)
            if known and not rounded:
                arrays += updates.columns.values()
            elif not known and not _fits(updates, columns, rows):
                return None
            else:
                arrays += (
                    updates.columns[key] if precision is None else stored(updates.columns[key], precision)
                    for key, _, _, precision in columns
                )
            shape.append(rows)
        if presented:
            return None
        whole = tuple(shape)
        start = self._heads.get(whole)
        if start is None:
            start = self._head(whole, arrays)
        if start is None or (beside is None and system is not None and not self._stands_beside(system, whole[1:])):
            return None
        head, padded = start
        rest = self._rest(batch, node, trajectory.cell_defined, known)
        size = len(head) + len(rest)
        if padded:
            arrays = [part for array in arrays if array.size for part in (array, ZEROS[-array.nbytes % 8])]
        try:
            return b"".join((MAGIC, size.to_bytes(4, "little"), head, rest, ZEROS[-size % 8], *arrays))
        except TypeError:
            # an array that does not lie in one piece is not bytes-like
            return None

    def _rest(self, batch: FrameBatch, node: str, cell_defined: bool, known: bool) -> bytes:
        """Return what follows the blocks in the header of a single frame."""
        meta = self._numbers(batch, known)
        if meta is None:
            meta = meta_texts(self, batch, node)[0]
        if batch.time is None and batch.box is None and -_EXACT <= (step := batch.step.item()) <= _EXACT:
            return f'{meta}}},"step":{step}}}'.encode()
        tail = frame_tails(batch, cell_json_per_record(batch, cell_defined=cell_defined))
        return f"{meta}}}{tail[0]}}}".encode()

    def _numbers(self, batch: FrameBatch, known: bool) -> str | None:
        """Return the per-step values of a single frame, where all of them are finite numbers; `known`: they were
        checked.
        """
        if self._number_keys is None or len(batch.meta) != len(self._number_keys):
            return None
        values, text = batch.meta, ""
        for key, before in self._number_keys:
            array = values.get(key)
            if array is None:
                return None
            if not known and (type(array) is not np.ndarray or array.dtype is not _F64 or array.shape != (1,)):
                return None
            value = array.item()
            if value - value != 0.0:
                return None
            text += f"{before}{value!r}"
        return text

    def _head(
        self, shape: tuple[SnapshotShape | int | None, ...], arrays: list[NDArray[Any]]
    ) -> tuple[bytes, bool] | None:
        """Return a header up to its meta, for blocks of that many rows (-1: not presented); whether arrays need
        padding.

        None where blocks of the system, whose shape comes first, have other rows or a column of theirs.
        """
        if len(self._heads) >= _MOST_SHAPES:
            self._heads.clear()
        texts, base = [], 0
        tables = shape[0].tables if isinstance(shape[0], SnapshotShape) else {}
        for encoder, rows in zip(self.blocks.values(), shape[1:], strict=True):
            assert isinstance(rows, int)
            own = tables.get(encoder.name)
            if own is not None and (own[0] != rows or not own[1].isdisjoint(encoder.declared.columns)):
                return None
            if rows >= 0:
                text, base = encoder.text(encoder.plain_update(rows), base)
                texts.append(text)
        head = f'{{"blocks":{{{",".join(texts)}}},"meta":{{'.encode()
        known = self._heads[shape] = head, any(array.nbytes % 8 or not array.size for array in arrays)
        return known

    def _stands_beside(self, system: Frame, shape: tuple[Any, ...]) -> bool:
        """True if the blocks of a system have the rows of the updates and none of their columns, plainly seen."""
        for (name, declared), rows in zip(self.declaration.blocks.items(), shape, strict=True):
            block = system.blocks.get(name)
            if block is not None and not (block.count == rows and block.columns.keys().isdisjoint(declared.columns)):
                return False
        return True


def _fits(updates: BlockUpdates, columns: list[tuple[str, Any, tuple[int, ...], float | None]], rows: int) -> bool:
    """True if an update has exactly these columns, of these dtypes and shapes."""
    if len(updates.columns) != len(columns):
        return False
    for key, dtype, trailing, _ in columns:
        values = updates.columns.get(key)
        if values is None or values.dtype != dtype or values.shape != (rows, *trailing):
            return False
    return True


class RecordFrames:
    """The frames of one record, in order. `first_atoms` is the row count of the first update of `atoms`."""

    def __init__(self, encoder: FrameEncoder, absolute: dict[str, int], node: str, cell_defined: bool) -> None:
        self._encoder, self._node, self._defined = encoder, node, cell_defined
        self._recorders = {name: BlockRecorder(block) for name, block in encoder.blocks.items()}
        self._rules = FrameRules(encoder.declaration, absolute, node)
        self._cell: str | None = None
        self.first_atoms: int | None = None

    def encode(self, batch: FrameBatch) -> list[bytes]:
        """Return one value for each frame of the batch."""
        self._rules = self._rules.after(batch)
        changes = [
            (recorder.encoder, recorder.changes(batch.blocks[name], self._node))
            for name, recorder in self._recorders.items()
            if name in batch.blocks
        ]
        if self.first_atoms is None and "atoms" in batch.blocks and len(batch.blocks["atoms"].frames):
            self.first_atoms = int(batch.blocks["atoms"].offset[1])
        metas, tails = meta_texts(self._encoder, batch, self._node), frame_tails(batch, self._cells(batch))
        values = []
        for position in range(batch.n_frames):
            texts: list[str] = []
            buffers: list[Any] = []
            base = 0
            for encoder, changed in changes:
                update: Update | None = changed.get(position)
                if update is not None:
                    text, base = encoder.text(update, base)
                    texts.append(text)
                    buffers.append(update.payload)
            values.append(assemble(",".join(texts), metas[position], tails[position], buffers))
        return values

    def _cells(self, batch: FrameBatch) -> list[str] | None:
        """Return the cell of each update of the batch, empty where it is the one before."""
        texts = cell_json_per_record(batch, cell_defined=self._defined)
        if not texts:
            return texts
        before, self._cell = self._cell, texts[-1]
        return ["" if text == last else text for last, text in zip([before, *texts[:-1]], texts, strict=True)]


def meta_texts(encoder: FrameEncoder, batch: FrameBatch, node: str) -> list[str]:
    """Return the per-step values of each frame of a batch, as they stand between the braces of `meta`."""
    if batch.meta.keys() != encoder.declaration.meta.keys():
        for key in batch.meta:
            if key not in encoder.declaration.meta:
                raise ContractError(f"{node}/meta/{key}", "a per-step key that is not declared")
    columns = []
    for key, entry, name, is_number in encoder.meta:
        values = batch.meta.get(key)
        if values is None:
            if entry.fill is NO_FILL:
                raise ContractError(f"{node}/meta/{key}", "the frames omit the key, which has no declared fill")
            values = [entry.fill] * batch.n_frames
        if len(values) != batch.n_frames:
            raise ContractError(f"{node}/meta/{key}", "not one value for each frame", found=str(len(values)))
        if is_number and isinstance(values, np.ndarray) and values.dtype == _F64 and values.ndim == 1:
            if bool(np.isfinite(values).all()):
                columns.append([f"{name}{value!r}" for value in values.tolist()])
            else:
                columns.append([name + number_text(value) for value in values.tolist()])
        elif isinstance(values, np.ndarray) and _are_plain_vectors(values, entry.dtype):
            columns.append([f"{name}[{','.join(map(float.__repr__, row))}]" for row in values.tolist()])
        else:
            here = f"{node}/meta/{key}"
            columns.append([name + to_json(to_typed_json(_native(v), entry.dtype, here)) for v in values])
    if len(columns) == 1:
        return columns[0]
    return list(map(",".join, zip(*columns, strict=True))) if columns else [""] * batch.n_frames


def _are_plain_vectors(values: NDArray[Any], tag: str) -> bool:
    """True if values are finite vectors as long as their tag says."""
    if values.dtype != _F64 or values.ndim != 2:
        return False
    return TAGS[tag].dtype == "f64" and TAGS[tag].width == values.shape[1] and bool(np.isfinite(values).all())


def frame_tails(batch: FrameBatch, cells: list[str] | None) -> list[str]:
    """Return what follows the meta of each frame: its step, its time, its cell where it changes."""
    tails = [f',"step":{step if -_EXACT <= step <= _EXACT else to_json(str(step))}' for step in batch.step.tolist()]
    if batch.time is not None:
        times = (number_text(time) for time in batch.time.tolist())
        tails = [f'{tail},"time":{time}' for tail, time in zip(tails, times, strict=True)]
    if batch.box is not None and cells is not None:
        for position, cell in zip(batch.box.frames.tolist(), cells, strict=True):
            if cell:
                tails[position] += f',"box":{cell}'
    return tails


#: Texts of cells, which most records of a collection share.
_CELLS: dict[tuple[bytes, bytes, bytes, bool], str] = {}


def cell_json_per_record(batch: FrameBatch, *, cell_defined: bool = True) -> list[str] | None:
    """Return the cell of each update of a batch as JSON; None without any."""
    boxes = batch.box
    if boxes is None:
        return None
    if len(_CELLS) >= _MOST_SHAPES:
        _CELLS.clear()
    vectors, origins, boundaries = boxes.vectors.tobytes(), boxes.origin.tobytes(), boxes.boundary.tobytes()
    count, texts = len(boxes.frames), []
    long, short, flags = (len(data) // max(count, 1) for data in (vectors, origins, boundaries))
    for at in range(count):
        key = (
            vectors[long * at : long * (at + 1)],
            origins[short * at : short * (at + 1)],
            boundaries[flags * at : flags * (at + 1)],
            cell_defined,
        )
        text = _CELLS.get(key)
        if text is None:
            text = _CELLS[key] = box_text(boxes.box(at, defined=cell_defined))
        texts.append(text)
    return texts


def _native(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def encode_self_contained_frames(
    encoder: FrameEncoder, batch: FrameBatch, node: str, *, cell_defined: bool = True
) -> list[bytes]:
    """Return the value of each frame of a batch in which every frame presents all its blocks, and its cell if it has
    one.

    Raises `ContractError` where columns or keys are not the declared ones.
    """
    metas = meta_texts(encoder, batch, node)
    tails = frame_tails(batch, cell_json_per_record(batch, cell_defined=cell_defined))
    blocks = [
        (own, grouped_updates(own, batch.blocks[name], node))
        for name, own in encoder.blocks.items()
        if name in batch.blocks
    ]
    if not blocks:
        return [assemble("", meta, tail, ()) for meta, tail in zip(metas, tails, strict=True)]
    if len(blocks) == 1:
        ((own, updates),) = blocks
        known: dict[tuple[int, tuple[bool, ...]], str] = {}
        values = []
        for update, meta, tail in zip(updates, metas, tails, strict=True):
            if update.strings:
                text, _ = own.text(update, 0)
            else:
                shape = update.rows, update.masked
                text = known.get(shape) or known.setdefault(shape, own.text(update, 0)[0])
            values.append(assemble(text, meta, tail, (update.payload,)))
        return values
    encoders = [own for own, _ in blocks]
    every = zip(*(updates for _, updates in blocks), strict=True)
    return [_joined(encoders, frame, meta, tail) for frame, meta, tail in zip(every, metas, tails, strict=True)]


def _joined(encoders: list[BlockEncoder], updates: Iterable[Update], meta: str, tail: str) -> bytes:
    texts, payloads, base = [], [], 0
    for encoder, update in zip(encoders, updates, strict=True):
        text, base = encoder.text(update, base)
        texts.append(text)
        payloads.append(update.payload)
    return assemble(",".join(texts), meta, tail, payloads)


def grouped_updates(encoder: BlockEncoder, updates: BlockUpdates, node: str) -> Iterable[Update]:
    """Return the updates of all records; those of as many rows together."""
    counts = np.diff(updates.offset)
    kinds = np.unique(counts)
    if len(kinds) == 1 or len(kinds) * 4 > len(counts):
        return encoder.updates(updates, node)
    made: list[Any] = [None] * len(counts)
    for kind in kinds.tolist():
        which = np.flatnonzero(counts == kind)
        rows = (updates.offset[which][:, None] + np.arange(kind)).reshape(-1)
        some = BlockUpdates(
            np.arange(len(which), dtype=np.int64),
            np.arange(len(which) + 1, dtype=np.int64) * kind,
            {key: values[rows] for key, values in updates.columns.items()},
            {key: mask[rows] for key, mask in updates.validity.items()},
        )
        for number, update in zip(which.tolist(), encoder.updates(some, node), strict=True):
            made[number] = update
    return made
