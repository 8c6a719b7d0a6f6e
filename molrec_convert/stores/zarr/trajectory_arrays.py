"""All that is on disk of a trajectory that grows: blocks, series, cell, and the commit that makes frames count.

What comes here has passed every check. Source: Trajectory; Zarr V3 binding, "Commit protocol".
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.disk import replace_file
from molrec_convert.model.batch import BoxUpdates
from molrec_convert.model.declaration import Declaration
from molrec_convert.stores.zarr.codecs import Stage
from molrec_convert.stores.zarr.metadata import NumberedDocument, dump_document, says, stated_group
from molrec_convert.stores.zarr.shard_appender import ShardAppender
from molrec_convert.stores.zarr.trajectory_batch import Presented
from molrec_convert.stores.zarr.trajectory_block import BlockWriter
from molrec_convert.stores.zarr.trajectory_box import BoxSeries
from molrec_convert.stores.zarr.trajectory_commit import remove_group, set_aside
from molrec_convert.stores.zarr.trajectory_layout import TRAJECTORY, Layout, Series
from molrec_convert.stores.zarr.trajectory_series import StepSeries, TimeSeries, meta_series
from molrec_convert.stores.zarr.unsynced import Unsynced, make_folder

__all__ = ["Accepted", "TrajectoryArrays"]

_MOST_FRAMES = 4096


@dataclass
class Accepted:
    """Frames that are to be kept: steps, times or None, values of every per-step key, updates of blocks, cells."""

    steps: NDArray[np.int64]
    times: NDArray[np.float64] | None
    meta: dict[str, NDArray[Any]]
    updates: dict[str, Presented]
    cells: BoxUpdates | None

    def split(self, position: int) -> tuple[Accepted, Accepted]:
        """The frames before `position`, and the others."""
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
    representative frame the frames are committed, not durably.
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
        self._flush_bytes = flush_bytes
        self._known_cadence: tuple[tuple[int | None, ...], int] | None = None
        self._committed: dict[str, Any] | None = None
        self._text = NumberedDocument()

    def start(self) -> None:
        """Make the section: no frames."""
        make_folder(os.path.join(self._root, TRAJECTORY), self._unsynced)
        self._commit()

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
        self._committed = layout.document

    def append(self, frames: Accepted) -> None:
        """Keep frames; at the last multiple of the cadence that is passed, commit."""
        count, cadence = len(frames.steps), self.cadence
        boundary = (self.n_frames + count) // cadence * cadence - self.n_frames
        if 0 < boundary < count:
            before, frames = frames.split(boundary)
            self._keep(before)
            self.flush(durable=False)
        self._keep(frames)
        if count and boundary == count:
            self.flush(durable=False)

    def _keep(self, frames: Accepted) -> None:
        count = len(frames.steps)
        for name, block in frames.updates.items():
            self.blocks[name].append(block, self.n_frames)
        self.steps.append(frames.steps)
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
        known = tuple(block.frame_rows for block in self.blocks.values())
        if self._known_cadence is None or self._known_cadence[0] != known:
            self._known_cadence = known, self._work_out_cadence()
        return self._known_cadence[1]

    def _work_out_cadence(self) -> int:
        blocks = list(self.blocks.values())
        frame_bytes = sum(block.frame_bytes for block in blocks)
        frames = min(_MOST_FRAMES, max(1, -(-self._flush_bytes // max(1, frame_bytes))))
        each = max(blocks, key=lambda block: block.frame_bytes).frames_per_chunk if blocks else 1
        if each > _MOST_FRAMES:
            return _MOST_FRAMES
        rounded = -(-frames // each) * each
        return rounded if rounded <= _MOST_FRAMES else _MOST_FRAMES // each * each

    def flush(self, *, durable: bool) -> None:
        """Commit every frame; with `durable` all of it is on the disk when this returns."""
        for block in self.blocks.values():
            block.flush()
        for array in self._per_frame():
            array.flush()
        self.box.flush()
        if self.meta and not (self._root / TRAJECTORY / "meta" / "zarr.json").exists():
            folder = os.path.join(self._root, TRAJECTORY, "meta")
            self._unsynced.replace(
                os.path.join(folder, "zarr.json"), dump_document(stated_group({}, "meta", self._attributes))
            )
        if durable:
            self._unsynced.sync()
        self._commit(durable=durable)

    def _commit(self, *, durable: bool = False) -> None:
        """Replace the section's `zarr.json`: from here on the frames are there."""
        attributes: dict[str, Any] = {"sequence_schema": self.declaration.to_json()}
        for series in (self.steps, self.times):
            if series.progression is not None:
                attributes[series.attribute] = series.progression
        attributes["nstep"] = self.n_frames
        document = stated_group(attributes, "", self._attributes)
        if document == self._committed:
            return
        path = os.path.join(self._root, TRAJECTORY, "zarr.json")
        text = self._text.dump(document, ("attributes", "nstep"), self.n_frames)
        if durable:
            replace_file(path, text)
        else:
            self._unsynced.replace(path, text)
        self._committed = document

    def remove_blocks(self, names: list[str]) -> None:
        """Take blocks out of the store and of the declaration, durably.

        Their groups are set aside first and go last: an interruption leaves them declared and to be brought back, or
        no longer declared and to be removed.
        """
        section = self._root / TRAJECTORY
        for name in names:
            aside = set_aside(section, name, self._unsynced)
            del self.blocks[name]
        blocks = {name: block for name, block in self.declaration.blocks.items() if name not in names}
        self.declaration = replace(self.declaration, blocks=blocks)
        self._unsynced.sync()
        self._commit(durable=True)
        remove_group(aside, self._unsynced)


def _split_cells(cells: BoxUpdates | None, position: int) -> tuple[BoxUpdates | None, BoxUpdates | None]:
    if cells is None:
        return None, None
    at = int(np.searchsorted(cells.frames, position))
    before = BoxUpdates(cells.frames[:at], cells.vectors[:at], cells.origin[:at], cells.boundary[:at])
    after = BoxUpdates(cells.frames[at:] - position, cells.vectors[at:], cells.origin[at:], cells.boundary[at:])
    return before, after
