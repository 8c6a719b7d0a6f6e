"""A trajectory of one frame, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from molrec_convert.model import BATCH_BYTES, Declaration, FrameBatch, Trajectory
from molrec_convert.model.trajectory import select_columns

__all__ = ["OneFrame"]


class OneFrame(Trajectory):
    """One frame that is read already."""

    def __init__(self, declaration: Declaration, batch: FrameBatch) -> None:
        super().__init__()
        self.declaration, self._batch = declaration, batch

    @property
    def n_frames(self) -> int:
        """One."""
        return 1

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        if start == 0 and (stop is None or stop > 0):
            yield self._batch if columns is None else select_columns(self._batch, self.declaration.select(columns))
