"""What every frame of a record must keep to: ascending steps, time for all or none, rows of aligned blocks, references.

The state carries over from batch to batch. Source: Trajectory, "Aligned"; Containers, "Row references".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import references

__all__ = ["FrameRules"]

_ABSENT = -1


class FrameRules:
    """Checks the batches of one record in order. `absolute` has the rows absolute references are held against."""

    def __init__(self, declaration: Declaration, absolute: dict[str, int], node: str) -> None:
        self._declaration, self._absolute, self._node = declaration, absolute, node
        self._aligned = {n: b.aligned_with for n, b in declaration.blocks.items() if b.aligned_with is not None}
        self._references = {
            name: found for name, b in declaration.blocks.items() if (found := references(b.columns, b.targets))
        }
        self._rows: dict[str, int] = {}
        self._last_step: int | None = None
        self._timed: bool | None = None
        self._passed = 0

    def check(self, batch: FrameBatch) -> None:
        """Refuse a batch that breaks a rule."""
        if not batch.n_frames:
            return
        self._check_steps(batch)
        for name, updates in batch.blocks.items():
            declared = self._declaration.blocks.get(name)
            if declared is None:
                raise ContractError(f"{self._node}/{name}", "a block that is not declared is presented")
            shape = declared.structural_shape
            if shape is not None and (np.diff(updates.offset) != int(np.prod(shape, dtype=object))).any():
                raise ContractError(f"{self._node}/{name}", "an update has other rows than the structural shape")
        for name, target in self._aligned.items():
            if name in batch.blocks or target in batch.blocks:
                self._check_aligned(name, target or "", batch)
        for name in self._references:
            if name in batch.blocks:
                self._check_references(name, batch)
        for name, updates in batch.blocks.items():
            if len(updates.frames):
                self._rows[name] = int(updates.offset[-1] - updates.offset[-2])
        self._passed += batch.n_frames

    def _check_steps(self, batch: FrameBatch) -> None:
        steps = batch.step
        before = self._last_step
        if before is not None and steps[0] <= before:
            raise ContractError(f"{self._node}/step", "steps ascend", found=f"{steps[0]} after {before}")
        if len(steps) > 1:
            wrong = np.flatnonzero(steps[1:] <= steps[:-1])
            if len(wrong):
                at = int(wrong[0])
                raise ContractError(f"{self._node}/step", "steps ascend", found=f"{steps[at + 1]} after {steps[at]}")
        self._last_step = int(steps[-1])
        timed = batch.time is not None
        if self._timed is not None and timed != self._timed:
            raise ContractError(f"{self._node}/time", "time is stated for all frames or for none")
        self._timed = timed

    def _resolved(self, name: str, batch: FrameBatch) -> NDArray[np.int64]:
        """Rows of a block at every frame of the batch, -1 where it is absent."""
        carried = self._rows.get(name, _ABSENT)
        updates = batch.blocks.get(name)
        if updates is None or not len(updates.frames):
            return np.full(batch.n_frames, carried, np.int64)
        sizes: NDArray[np.int64] = np.concatenate([[carried], np.diff(updates.offset)]).astype(np.int64)
        picked = np.searchsorted(updates.frames, np.arange(batch.n_frames), side="right")
        return np.take(sizes, picked)

    def _check_aligned(self, name: str, target: str, batch: FrameBatch) -> None:
        rows, others = self._resolved(name, batch), self._resolved(target, batch)
        wrong = np.flatnonzero((rows != _ABSENT) & (rows != others))
        if len(wrong):
            at = int(wrong[0])
            found = str(rows[at]) + (f" rows at frame {self._passed + at}")
            expected = f"{others[at]}" if others[at] != _ABSENT else f"{target!r} to be there"
            rule = f"is aligned with {target!r} and has another row count"
            raise ContractError(f"{self._node}/{name}", rule, found=found, expected=expected)

    def _check_references(self, name: str, batch: FrameBatch) -> None:
        updates = batch.blocks[name]
        for key, target in self._references[name].items():
            here = f"{self._node}/{name}/{key}"
            known = self._resolved(target, batch) if not target.startswith("/") else None
            if known is None and target.rpartition("/")[0] not in self._absolute:
                continue
            values, mask = updates.columns[key], updates.validity.get(key)
            for position, frame in enumerate(updates.frames.tolist()):
                where = updates.rows_of(position)
                if where.start == where.stop:
                    continue
                limit = self._absolute.get(target, _ABSENT) if known is None else int(known[frame])
                if limit == _ABSENT:
                    raise ContractError(here, f"references rows of the block {target!r}, which is not there")
                part = values[where] if mask is None else values[where][mask[where]]
                if part.size and int(part.max()) >= limit:
                    raise ContractError(
                        here,
                        f"a reference into {target!r} is out of range at frame {self._passed + frame}",
                        found=str(int(part.max())),
                        expected=f"less than {limit}",
                    )
