"""A collection's declaration as its values are held against it, and frames put together from them.

Source: Collection and its LMDB file; Trajectory, "Three states", "Aligned".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from molrec_convert.errors import ContractError
from molrec_convert.model.declaration import NO_FILL, Declaration
from molrec_convert.model.frame import Block, Frame
from molrec_convert.model.record import absolute_rows
from molrec_convert.model.tags import Meta
from molrec_convert.stores.lmdb.stored.frame import StoredFrame, stored_block
from molrec_convert.stores.lmdb.values.frame_bytes import FrameBytes
from molrec_convert.stores.lmdb.values.frame_layout import Layout

__all__ = ["SharedDeclaration"]


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
        """The frame whose value is `last`, resolved: `earlier` finds what it leaves out, None in a first frame."""
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
        """The per-step values of a frame, by their declared tags, without those that are missing in it.

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
