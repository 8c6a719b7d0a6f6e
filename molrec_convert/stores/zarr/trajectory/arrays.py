"""All that is on disk of a trajectory that grows: blocks, series, cell, and the commit that makes frames count.

What comes here has passed every check. Source: Trajectory; Zarr V3 binding, "Commit protocol".
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.batch import BoxUpdates
from molrec_convert.model.declaration import Declaration
from molrec_convert.stores.zarr.trajectory.batch import Presented
from molrec_convert.stores.zarr.trajectory.block import BlockWriter
from molrec_convert.stores.zarr.trajectory.layout import TRAJECTORY, Layout, Series
from molrec_convert.stores.zarr.trajectory.series import BoxSeries, StepSeries, TimeSeries, meta_series
from molrec_convert.stores.zarr.v3.array_writer import ShardAppender
from molrec_convert.stores.zarr.v3.codecs import Stage
from molrec_convert.stores.zarr.v3.commit import ARRAYS, ASIDE, COUNT, Unsynced, make_folder, remove_group, set_aside
from molrec_convert.stores.zarr.v3.metadata import NumberedDocument, dump_document, says, stated_group

__all__ = ["EVERY_BOUNDARY", "Accepted", "Pace", "TrajectoryArrays"]

_MOST_FRAMES = 4096


@dataclass(frozen=True)
class Pace:
    """When frames are committed on the way: what a failure of the power or a kill may cost, and what that costs.

    Due is a commit of `nbytes` of representative frames, or of those of `seconds`, whichever comes first, but none
    before `times` as long has passed as the last one took.
    """

    nbytes: int = 64 * 2**20
    seconds: float = 1.0
    times: float = 40.0


#: Each boundary of whole chunks is a commit.
EVERY_BOUNDARY = Pace(0, 0.0, 0.0)


@dataclass
class Accepted:
    """Frames that are to be kept: steps, times or None, values of every per-step key, updates of blocks, cells."""

    steps: NDArray[np.int64]
    times: NDArray[np.float64] | None
    meta: dict[str, NDArray[Any]]
    updates: dict[str, Presented]
    cells: BoxUpdates | None

    def split(self, position: int) -> tuple[Accepted, Accepted]:
        """Return the frames before `position`, and the others."""
        parts = {name: block.split(position) for name, block in self.updates.items()}
        cells = _split_cells(self.cells, position)
        before = Accepted(
            self.steps[:position],
            None if self.times is None else self.times[:position],
            {key: values[:position] for key, values in self.meta.items()},
            {name: pair[0] for name, pair in parts.items()},
            cells[0],
        )
        after = Accepted(
            self.steps[position:],
            None if self.times is None else self.times[position:],
            {key: values[position:] for key, values in self.meta.items()},
            {name: pair[1].shifted(-position) for name, pair in parts.items()},
            cells[1],
        )
        return before, after


class TrajectoryArrays:
    """The stored trajectory of the record at `root`, with `n_frames` frames so far.

    `attributes` are unknown ones to be stored, by node below the section. About every `flush_bytes` of a
    representative frame the frames are committed, where that is due by `pace`.
    """

    def __init__(
        self,
        root: Path,
        declaration: Declaration,
        unsynced: Unsynced,
        *,
        cell_defined: bool,
        attributes: dict[str, dict[str, Any]],
        compression: Stage | None,
        flush_bytes: int,
        pace: Pace,
    ) -> None:
        self.declaration = declaration
        self.n_frames = 0
        self.steps = StepSeries(root, unsynced, attributes.get("step"), elided=not says(attributes, "step"))
        self.times = TimeSeries(root, unsynced, attributes.get("time"), elided=not says(attributes, "time"))
        self.box = BoxSeries(root, unsynced, cell_defined=cell_defined, attributes=attributes)
        self.meta: dict[str, ShardAppender] = {}
        self.blocks = {
            name: BlockWriter(root, name, declared, unsynced, attributes=attributes, compression=compression)
            for name, declared in declaration.blocks.items()
        }
        self._root, self._unsynced, self._attributes = root, unsynced, attributes
        self._flush_bytes, self._pace = flush_bytes, pace
        self._known_cadence: tuple[tuple[int | None, ...], int, int] | None = None
        #: The section's document, and the number of its frames, as they are stored.
        self._stated: dict[str, Any] | None = None
        self._committed = 0
        #: When the last commit was, and how long it took.
        self._last_commit, self._last_took = time.monotonic(), 0.0
        self._text = NumberedDocument()

    def start(self) -> None:
        """Make the section: no frames. Its name is on the disk with the first commit."""
        make_folder(os.path.join(self._root, TRAJECTORY), self._unsynced)
        self._state()
        self._unsynced.replace_documents()

    def resume(self, layout: Layout) -> None:
        """Take over what is committed; what an interrupted writer left beside it is removed."""
        section = self._root / TRAJECTORY
        self.n_frames = layout.n_frames
        for path in layout.stray:
            remove_group(section / path, self._unsynced)
        step, time = layout.step, layout.time or Series()
        self.steps.resume(step.start, step.stride, step.array, layout.n_frames)
        self.times.resume(time.start, time.stride, time.array, layout.n_frames)
        self.box.resume(layout.box)
        for key, reader in layout.meta.items():
            self.meta[key] = ShardAppender.reopen(reader, layout.n_frames, self._unsynced)
        for name, block in layout.blocks.items():
            if block.index is not None and not block.n_updates:
                for half in ("step_index", "offset"):
                    remove_group(section / name / half, self._unsynced)
            self.blocks[name].resume(block)
        self._stated, self._committed = layout.document, layout.n_frames
        # a writer that was killed may have renamed it and not have synced that
        self._unsynced.folder(os.fspath(section))

    def append(self, frames: Accepted) -> None:
        """Keep frames; at the last multiple of the cadence that is passed, commit where that is due."""
        count, cadence = len(frames.steps), self.cadence
        boundary = (self.n_frames + count) // cadence * cadence - self.n_frames
        if boundary <= 0 or not self._is_due(boundary):
            self._keep(frames)
            return
        if boundary < count:
            before, frames = frames.split(boundary)
            self._keep(before)
            self.flush()
        self._keep(frames)
        if boundary == count:
            self.flush()

    def _is_due(self, count: int) -> bool:
        """True if a commit is due, with `count` frames more."""
        waited = time.monotonic() - self._last_commit
        if waited < self._pace.times * self._last_took:
            return False
        new = (self.n_frames + count - self._committed) * self._frame_bytes
        return waited >= self._pace.seconds or new >= self._pace.nbytes

    def _keep(self, frames: Accepted) -> None:
        count = len(frames.steps)
        for name, block in frames.updates.items():
            self.blocks[name].append(block, self.n_frames)
        self.steps.append(frames.steps, count)
        self.times.append(frames.times, count)
        for key, values in frames.meta.items():
            if key not in self.meta:
                extra = self._attributes.get(f"meta/{key}", {})
                self.meta[key] = meta_series(self._root, key, self.declaration.meta[key], self._unsynced, extra)
            self.meta[key].append(values)
        self.box.append(frames.cells, self.n_frames)
        self.n_frames += count
        for writer in self.blocks.values():
            writer.drain()
        for array in self._per_frame():
            array.drain()

    def _per_frame(self) -> list[ShardAppender]:
        arrays = [*self.meta.values(), self.steps.array, self.times.array]
        return [array for array in arrays if array is not None]

    @property
    def cadence(self) -> int:
        """Frames between automatic commits: whole chunks of the largest block wherever that fits."""
        return self._worked_out[1]

    @property
    def _frame_bytes(self) -> int:
        """Bytes of a representative frame."""
        return self._worked_out[2]

    @property
    def _worked_out(self) -> tuple[tuple[int | None, ...], int, int]:
        known = tuple(block.frame_rows for block in self.blocks.values())
        if self._known_cadence is None or self._known_cadence[0] != known:
            frame_bytes = sum(block.frame_bytes for block in self.blocks.values())
            self._known_cadence = known, self._work_out_cadence(frame_bytes), frame_bytes
        return self._known_cadence

    def _work_out_cadence(self, frame_bytes: int) -> int:
        blocks = list(self.blocks.values())
        frames = min(_MOST_FRAMES, max(1, -(-self._flush_bytes // max(1, frame_bytes))))
        each = max(blocks, key=lambda block: block.frame_bytes).frames_per_chunk if blocks else 1
        if each > _MOST_FRAMES:
            return _MOST_FRAMES
        rounded = -(-frames // each) * each
        return rounded if rounded <= _MOST_FRAMES else _MOST_FRAMES // each * each

    def flush(self) -> None:
        """Commit every frame: all of it is on the disk when this returns."""
        began = time.monotonic()
        for block in self.blocks.values():
            block.flush()
        for array in self._per_frame():
            array.flush()
        self.box.flush()
        if self.meta and not (self._root / TRAJECTORY / "meta" / "zarr.json").exists():
            path = os.path.join(self._root, TRAJECTORY, "meta", "zarr.json")
            self._unsynced.document(path, dump_document(stated_group({}, "meta", self._attributes)), ARRAYS)
        self._commit()
        self._last_commit = time.monotonic()
        self._last_took = self._last_commit - began

    def _commit(self) -> None:
        """Bring everything to the disk, and last of all the section's `zarr.json`: from there on the frames count."""
        self._state()
        self._unsynced.commit(ranks=bool(self._committed))
        self._committed = self.n_frames

    def _state(self) -> None:
        """Hand the section's `zarr.json` to the next commit, where it says something new."""
        attributes: dict[str, Any] = {"sequence_schema": self.declaration.to_json()}
        for series in (self.steps, self.times):
            if series.progression is not None:
                attributes[f"{series.name}_progression"] = series.progression
        attributes["nstep"] = self.n_frames
        document = stated_group(attributes, "", self._attributes)
        if document != self._stated:
            path = os.path.join(self._root, TRAJECTORY, "zarr.json")
            text = self._text.dump(document, ("attributes", "nstep"), self.n_frames)
            self._unsynced.document(path, text, COUNT)
            self._stated = document

    def remove_blocks(self, names: list[str]) -> None:
        """Take blocks out of the store and of the declaration, durably.

        Their groups are set aside first and go last: an interruption leaves them declared and to be brought back, or
        no longer declared and to be removed.
        """
        section = self._root / TRAJECTORY
        written = [name for name in names if not self.blocks[name].waits]
        for name in written:
            set_aside(section, name, self._unsynced)
        for name in names:
            del self.blocks[name]
        blocks = {name: block for name, block in self.declaration.blocks.items() if name not in names}
        self.declaration = replace(self.declaration, blocks=blocks)
        if written:
            self._commit()
            remove_group(section / ASIDE, self._unsynced)
        else:
            self.flush()


def _split_cells(cells: BoxUpdates | None, position: int) -> tuple[BoxUpdates | None, BoxUpdates | None]:
    if cells is None:
        return None, None
    at = int(np.searchsorted(cells.frames, position))
    before = BoxUpdates(cells.frames[:at], cells.vectors[:at], cells.origin[:at], cells.boundary[:at])
    after = BoxUpdates(cells.frames[at:] - position, cells.vectors[at:], cells.origin[at:], cells.boundary[at:])
    return before, after
