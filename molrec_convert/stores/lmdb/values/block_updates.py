"""Which updates of a block a record writes, and the texts and buffers they become.

A presented block that is bit for bit its update before, values on the grid of the declared precision, is none.
Source: Trajectory, "Blocks", "Three states"; Collection and its LMDB file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BlockUpdates
from molrec_convert.model.declaration import BlockDeclaration
from molrec_convert.model.dtypes import dtype_name
from molrec_convert.model.frame import Column
from molrec_convert.stores.lmdb.values.frame_layout import padding
from molrec_convert.stores.lmdb.values.frame_writing import (
    ColumnShape,
    block_text,
    column_buffers,
    grid_values,
    texts_json,
    weave,
)

__all__ = ["BlockEncoder", "BlockRecorder", "Update"]

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
        """The header entry of an update whose buffers begin at `base`, and where they end."""
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
        return weave(pieces, update.strings), end

    def plain_update(self, rows: int) -> Update:
        """What `text` needs to know of an update of numbers without nulls."""
        return Update(rows, self._unmasked, b"", ())

    def updates(self, updates: BlockUpdates, node: str) -> Iterator[Update]:
        """Every update as it would be stored; refused when the columns are not the declared ones."""
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
        """Position in the batch → update, of those that change something."""
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
    """The payloads of `count` updates of `rows` rows each: one row of bytes for each, padded."""
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
