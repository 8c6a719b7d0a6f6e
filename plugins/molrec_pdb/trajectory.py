"""The state of the atoms, frame by frame, read from the text when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import (
    BATCH_BYTES,
    BlockDeclaration,
    BlockUpdates,
    BoxUpdates,
    ColumnDeclaration,
    Declaration,
    FrameBatch,
    MetaDeclaration,
    Trajectory,
)
from molrec_convert.model.trajectory import select_columns
from molrec_convert.report import Report
from molrec_pdb.atoms import AtomRows, Source, State, read_anisou, read_rows, read_state
from molrec_pdb.numbering import read_serials

__all__ = ["ATOMS", "Layout", "PdbTrajectory", "PerFrame"]

ATOMS = "atoms"
#: Bytes of working memory for each atom that is read.
_ROW_BYTES = 300


@dataclass(frozen=True)
class Layout:
    """Which columns of state a file has beside the positions, and which of them may be null."""

    occupancy: bool = False
    occupancy_nullable: bool = False
    b_factor: bool = False
    b_factor_nullable: bool = False
    anisou: bool = False
    anisou_nullable: bool = False
    serials: bool = False
    serials_nullable: bool = False

    def declared(self, rows: int) -> BlockDeclaration:
        """Return the declaration of `atoms`."""
        columns = {name: ColumnDeclaration("f64") for name in "xyz"}
        if self.occupancy:
            columns["occupancy"] = ColumnDeclaration("f64", nullable=self.occupancy_nullable)
        if self.b_factor:
            columns["b_factor"] = ColumnDeclaration("f64", nullable=self.b_factor_nullable)
        if self.anisou:
            columns["anisou"] = ColumnDeclaration("f64", (6,), nullable=self.anisou_nullable)
        if self.serials:
            columns["id"] = ColumnDeclaration("u64", nullable=self.serials_nullable)
        return BlockDeclaration(columns, rows=rows)


@dataclass
class PerFrame:
    """What there is once per frame: steps, times, numbers of MODEL records, and the cells with their frames."""

    steps: NDArray[np.int64]
    times: NDArray[np.float64] | None
    models: NDArray[np.int64] | None
    cell_frames: NDArray[np.int64]
    vectors: NDArray[np.float64]


class PdbTrajectory(Trajectory):
    """Consecutive frames of one file, all with the same atoms. `first` is the state of a single one, read before."""

    def __init__(
        self, source: Source, frames: range, layout: Layout, per_frame: PerFrame, report: Report,
        first: State | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._source, self._frames, self._layout, self._per_frame = source, frames, layout, per_frame
        self._report, self._first = report, first
        start = source.scan.frames[frames[0]]
        self._start, self._rows = start.start, start.stop - start.start
        meta = {} if per_frame.models is None else {"model": MetaDeclaration("i64")}
        self.declaration = Declaration({ATOMS: layout.declared(self._rows)}, meta)
        self.declaration.check()

    @property
    def n_frames(self) -> int:
        """See `Trajectory.n_frames`."""
        return len(self._frames)

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`."""
        ordinals = np.arange(
            start, len(self) if stop is None else max(min(stop, len(self)), start), step, dtype=np.int64
        )
        declaration = self.declaration if columns is None else self.declaration.select(tuple(columns))
        wanted = set(declaration.blocks[ATOMS].columns) if ATOMS in declaration.blocks else set()
        size = max(1, batch_bytes // (_ROW_BYTES * max(self._rows, 1))) if wanted else max(len(ordinals), 1)
        for at in range(0, len(ordinals), size):
            part = ordinals[at : at + size]
            batch = self._batch(part, wanted)
            yield batch if columns is None else select_columns(batch, declaration)

    def _batch(self, ordinals: NDArray[np.int64], wanted: set[str]) -> FrameBatch:
        per = self._per_frame
        blocks = {}
        if wanted:
            parts = [self._states(low, high, wanted) for low, high in _stretches(ordinals)]
            names = list(parts[0][0])
            blocks[ATOMS] = BlockUpdates.uniform(
                len(ordinals),
                self._rows,
                {name: _joined([values[name] for values, _ in parts]) for name in names},
                {name: _joined([masks[name] for _, masks in parts]) for name in parts[0][1]},
            )
        box = None
        low = np.searchsorted(per.cell_frames, ordinals, side="right") - 1
        new = low >= 0
        new[1:] &= low[1:] != low[:-1]
        if new.any():
            box = _boxes(np.flatnonzero(new).astype(np.int64), per.vectors[low[new]])
        meta = {} if per.models is None else {"model": per.models[ordinals]}
        times = None if per.times is None else per.times[ordinals]
        return FrameBatch(per.steps[ordinals], times, blocks, meta, box)

    def _states(
        self, low: int, high: int, wanted: set[str]
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.bool_]]]:
        """Return columns and masks of the frames from `low` to `high`, end to end."""
        layout = self._layout
        start, stop = self._start + low * self._rows, self._start + high * self._rows
        rows: AtomRows | None = None
        state = self._first
        if state is None or layout.serials:
            rows = read_rows(self._source, start, stop)
        if state is None:
            assert rows is not None
            state = read_state(rows)
        values: dict[str, NDArray[Any]] = {"x": state.x, "y": state.y, "z": state.z}
        masks: dict[str, NDArray[np.bool_]] = {}
        if layout.occupancy:
            values["occupancy"] = state.occupancy
            if layout.occupancy_nullable:
                masks["occupancy"] = state.has_occupancy
        if layout.b_factor:
            values["b_factor"] = state.b_factor
            if layout.b_factor_nullable:
                masks["b_factor"] = state.has_b_factor
        if layout.anisou and "anisou" in wanted:
            values["anisou"], mask = read_anisou(
                self._source, start, stop, lambda text: self._report.dropped("ANISOU", text)
            )
            if layout.anisou_nullable:
                masks["anisou"] = mask
        if layout.serials and "id" in wanted:
            assert rows is not None
            parts = [
                read_serials(AtomRows(self._source, rows.rows[at : at + self._rows], start + at), self._report)
                for at in range(0, stop - start, self._rows)
            ]
            values["id"] = _joined([part.ids for part in parts])
            if layout.serials_nullable:
                masks["id"] = _joined([part.has_id for part in parts])
        kept = {name: entry for name, entry in values.items() if name in wanted}
        return kept, {name: mask for name, mask in masks.items() if name in kept}


def _stretches(ordinals: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return all frames at once where they are consecutive, else one by one."""
    if len(ordinals) > 1 and int(ordinals[-1] - ordinals[0]) == len(ordinals) - 1:
        return [(int(ordinals[0]), int(ordinals[-1]) + 1)]
    return [(int(ordinal), int(ordinal) + 1) for ordinal in ordinals]


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _boxes(frames: NDArray[np.int64], vectors: NDArray[np.float64]) -> BoxUpdates:
    count = len(frames)
    return BoxUpdates(frames, vectors, np.zeros((count, 3)), np.ones((count, 3), np.bool_))
