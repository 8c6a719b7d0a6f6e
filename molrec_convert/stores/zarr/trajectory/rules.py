"""The rules between blocks, held against each batch before it is kept.

Source: Trajectory, "Aligned"; Containers, "Row references"; Record, "Root and sections".
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from molrec_convert.errors import ContractError
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Frame
from molrec_convert.stores.zarr.trajectory.batch import Presented, mask_key
from molrec_convert.stores.zarr.trajectory.relations import (
    Highest,
    Resolved,
    check_aligned,
    check_reference,
    check_system_rows,
    highest,
    related,
)

if TYPE_CHECKING:
    from molrec_convert.stores.zarr.trajectory.block import BlockWriter

__all__ = ["FrameRules", "check_frame_relations"]

_BEFORE = np.array([-1], dtype=np.int64)


class FrameRules:
    """What the blocks of a running trajectory resolve to: row counts, and the largest row each reference names.

    `sections`: row counts of blocks of other sections, `{"system": {"atoms": 32000}}`; a section that is absent is not
    checked against.
    """

    def __init__(self, declaration: Declaration, sections: Mapping[str, Mapping[str, int]]) -> None:
        self._declaration = declaration
        self._sections = sections
        self._counts: dict[str, int] = {}
        self._highest: dict[tuple[str, str], tuple[np.uint64, bool]] = {}
        self._references = related(declaration)
        aligned = any(block.aligned_with is not None for block in declaration.blocks.values())
        self._any = aligned or bool(self._references) or bool(sections.get("system"))
        system = sections.get("system", {})
        for name, declared in declaration.blocks.items():
            if declared.aligned_with is not None and name in system:
                raise ContractError(
                    f"trajectory/{name}", "an aligned block must not have the name of a block of system"
                )

    def resume(self, blocks: Mapping[str, BlockWriter]) -> None:
        """Take over what the blocks of a reopened trajectory resolve to."""
        for name, block in blocks.items():
            if block.before is None:
                continue
            count = block.before.count
            self._counts[name] = count
            for owner, column, _ in self._references:
                if owner == name:
                    bounds = np.array([0, count], dtype=np.int64)
                    arrays = block.before.arrays
                    found = highest(bounds, arrays[column], arrays.get(mask_key(column)))
                    self._highest[name, column] = (found.row[0], bool(found.any[0]))

    def without(self, declaration: Declaration) -> FrameRules:
        """The rules of a declaration with fewer blocks."""
        fewer = copy.copy(self)
        fewer._declaration, fewer._references = declaration, related(declaration)
        return fewer

    def check(self, presented: Mapping[str, Presented], first: int) -> FrameRules:
        """Refuse a batch, whose frames count from ordinal `first`, that breaks a rule; the rules after it."""
        if not self._any:
            return self
        after = copy.copy(self)
        after._counts, after._highest = dict(self._counts), dict(self._highest)
        resolved = {name: self._resolved(name, presented.get(name), first) for name in self._declaration.blocks}
        for name, block in presented.items():
            after._counts[name] = int(block.counts[-1])
            rows = self._sections.get("system", {}).get(name)
            if rows is not None:
                updates = Resolved(block.frames + first, block.counts)
                check_system_rows(name, self._declaration.blocks[name], updates, rows)
        for name, declared in self._declaration.blocks.items():
            target = declared.aligned_with
            if target is not None and (name in presented or target in presented):
                check_aligned(name, resolved[name], target, resolved[target])
        for name, column, target in self._references:
            if name not in presented and target not in presented:
                continue
            rows_of = self._rows(name, column, presented.get(name))
            if name in presented:
                after._highest[name, column] = (rows_of.row[-1], bool(rows_of.any[-1]))
            limit = self._target(target, resolved)
            if limit is not None:
                check_reference(name, column, resolved[name], rows_of, target, limit)
        return after

    def _resolved(self, name: str, presented: Presented | None, first: int) -> Resolved:
        """The update before the batch, at ordinal -1, and those of the batch."""
        known = self._counts.get(name)
        frames, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        if presented is not None:
            frames, counts = presented.frames + first, presented.counts
        if known is None:
            return Resolved(frames, counts)
        return Resolved(np.concatenate([_BEFORE, frames]), np.concatenate([[known], counts]).astype(np.int64))

    def _rows(self, name: str, column: str, presented: Presented | None) -> Highest:
        row, found = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.bool_)
        if presented is not None:
            new = highest(presented.offset, presented.arrays[column], presented.arrays.get(mask_key(column)))
            row, found = new.row, new.any
        if name not in self._counts:
            return Highest(row, found)
        before = self._highest[name, column]
        return Highest(
            np.concatenate([np.array([before[0]], dtype=np.uint64), row]), np.concatenate([[before[1]], found])
        )

    def _target(self, target: str, resolved: Mapping[str, Resolved]) -> Resolved | int | None:
        """What a reference is held against; None: its section is not there to tell."""
        if not target.startswith("/"):
            return resolved.get(target, Resolved(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)))
        _, section, block = target.split("/")
        if section not in self._sections:
            return None
        return self._sections[section].get(block, -1)


def check_frame_relations(frame: Frame, declaration: Declaration, *, cell_defined: bool) -> None:
    """Refuse a frame whose blocks state another shape or other targets than declared, or another kind of cell."""
    for name, block in frame.blocks.items():
        declared = declaration.blocks.get(name)
        if declared is None:
            continue
        here = f"trajectory/{name}"
        if block.structural_shape is not None and block.structural_shape != declared.structural_shape:
            raise ContractError(
                here,
                "the structural shape differs from the declared one",
                found=str(block.structural_shape),
                expected=str(declared.structural_shape),
            )
        for column, target in block.targets.items():
            if declared.targets.get(column) != target:
                raise ContractError(
                    f"{here}/{column}",
                    "the target differs from the declared one",
                    found=repr(target),
                    expected=repr(declared.targets.get(column)),
                )
    if frame.box is not None and frame.box.defined != cell_defined:
        raise ContractError(
            "trajectory/box",
            "cell_defined holds for the whole run",
            found=str(frame.box.defined),
            expected=str(cell_defined),
        )
