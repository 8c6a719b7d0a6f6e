"""The stored updates of one block, growing: columns, masks, and the index once the block is no longer regular.

A block whose every update has the same N > 0 rows and whose update j falls on frame j is regular: its group says so
in two attributes. The first other update brings `offset` and `step_index` with the whole history, for good.
Source: Trajectory, "Blocks"; Zarr V3 binding, "Writer's extents", "Commit protocol".
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.declaration import BlockDeclaration
from molrec_convert.model.dtypes import stored
from molrec_convert.model.frame import Column
from molrec_convert.stores.zarr.trajectory.batch import MASKS, Presentation, Presented, changed, mask_key
from molrec_convert.stores.zarr.trajectory.series import dense_array
from molrec_convert.stores.zarr.trajectory.stored import StoredBlock
from molrec_convert.stores.zarr.v3.array_writer import ShardAppender
from molrec_convert.stores.zarr.v3.codecs import Pipeline, Stage, column_pipeline, dense_pipeline
from molrec_convert.stores.zarr.v3.commit import ARRAYS, GROUPS, INDEX_HOLDS, INDEX_OFFSETS, Unsynced, make_folder
from molrec_convert.stores.zarr.v3.metadata import (
    block_rows_per_chunk,
    column_extents,
    dump_document,
    row_bytes,
    says,
    stated_group,
)
from molrec_convert.stores.zarr.workers import run_all

__all__ = ["BlockWriter"]

_PIECE = 2**17


class BlockWriter:
    """One declared block under `root`.

    `attributes` are unknown ones to be stored: node below the section → attributes. `compression` acts on columns of
    floating-point numbers.
    """

    def __init__(
        self,
        root: Path,
        name: str,
        declared: BlockDeclaration,
        unsynced: Unsynced,
        *,
        attributes: dict[str, dict[str, Any]] | None = None,
        compression: Stage | None = None,
    ) -> None:
        self.name = name
        self.declared = declared
        self.n_updates = 0
        self.rows = 0
        self.last_frame = -1
        self.regular: int | None = None
        self.before: Presentation | None = None
        self.arrays: dict[str, ShardAppender] = {}
        self.index: tuple[ShardAppender, ShardAppender] | None = None
        #: Whether the only update, of a block that may settle, is not written yet.
        self.waits = False
        #: Rows of the representative frame, once they are fixed.
        self.frame_rows: int | None = declared.rows
        self._root, self._unsynced = root, unsynced
        self._attributes = attributes or {}
        self._compression = compression
        self._written: dict[str, dict[str, Any]] = {}
        #: Whether the stored group has markers.
        self._marked = False
        # A column that holds nulls is rounded before it gets here, around the values that mean nothing.
        self._precision = {
            key: column.precision
            for key, column in declared.columns.items()
            if column.precision is not None and not column.nullable
        }

    @property
    def node(self) -> str:
        """Path of the block's group."""
        return f"trajectory/{self.name}"

    @property
    def _index_paths(self) -> tuple[str, str]:
        return f"{self.name}/step_index", f"{self.name}/offset"

    @property
    def frame_bytes(self) -> int:
        """Bytes of the columns in a representative frame."""
        return (self.frame_rows or 0) * sum(row_bytes(column) for column in self.declared.columns.values())

    @property
    def frames_per_chunk(self) -> int:
        """Representative frames in an inner chunk."""
        if not self.frame_rows or not self.declared.columns:
            return 1
        return max(1, self._chunk_rows(self.frame_rows) // self.frame_rows)

    def resume(self, block: StoredBlock) -> None:
        """Take over what is committed of the block on disk; uncommitted tails are cut off."""
        self.n_updates = block.n_updates
        self._marked = block.regular is not None
        offset = block.offset(self.n_updates, self.n_updates)
        self.rows = int(offset[0])
        if self.n_updates:
            self.last_frame = int(block.frames(self.n_updates - 1, self.n_updates)[0])
            self.regular = block.regular
            self._recall(block)
        for key, reader in block.arrays.items():
            self.arrays[key] = ShardAppender.reopen(
                reader, self.rows, self._unsynced, precision=self._precision.get(key)
            )
        if block.index is not None and self.n_updates and block.index[1] is not None:
            self.index = (
                ShardAppender.reopen(block.index[0], self.n_updates, self._unsynced),
                ShardAppender.reopen(block.index[1], self.n_updates + 1, self._unsynced),
            )
        if not self.n_updates and block.regular is not None:
            # Markers without updates would make an update of rows that are only half there.
            self._state("", self._group_attributes())

    def _recall(self, block: StoredBlock) -> None:
        """Read back the last update: what the next presentation is compared with."""
        first = int(block.offset(self.n_updates - 1, self.n_updates)[0])
        arrays = {key: reader.read(first, self.rows) for key, reader in block.arrays.items()}
        for key, column in self.declared.columns.items():
            if column.nullable:
                arrays.setdefault(mask_key(key), np.ones(self.rows - first, dtype=np.bool_))
        self._remember(arrays, self.rows - first)
        self.frame_rows = self.frame_rows or self.rows - first

    def updates(self, presented: Presented) -> Presented:
        """Return the presentations that are updates: all but those equal to the one before."""
        return presented.take(changed(presented.offset, presented.arrays, self._precision, self.before))

    def append(self, updates: Presented, first: int) -> None:
        """Add updates, their frames counted from ordinal `first`."""
        if not len(updates.frames):
            return
        counts, frames = updates.counts, updates.frames + first
        if self.declared.settles is not None and not self.n_updates and not self.arrays and len(frames) == 1:
            self.frame_rows = self.frame_rows or int(counts[0])
            self.waits = True
        else:
            self._write_waiting()
            self._make_arrays(int(counts.max()))
            for key, array in self.arrays.items():
                array.append(updates.arrays[key])
        if self.index is None:
            regular = self._stays_regular(frames, counts)
            if not regular or says(self._attributes, *self._index_paths):
                self._make_index()
        if self.index is not None:
            self.index[0].append(frames.astype(np.uint64))
            self.index[1].append((self.rows + updates.offset[1:]).astype(np.uint64))
        self.n_updates += len(frames)
        self.rows += int(updates.offset[-1])
        self.last_frame = int(frames[-1])
        last = int(updates.offset[-2])
        self._remember({key: array[last:] for key, array in updates.arrays.items()}, int(counts[-1]))

    def _write_waiting(self) -> None:
        """Write the first update of a block that may settle: others follow, or it is to be committed."""
        if self.waits and self.before is not None:
            self.waits = False
            self._make_arrays(self.before.count)
            for key, array in self.arrays.items():
                array.append(self.before.arrays[key])

    def columns(self) -> dict[str, Column]:
        """Return the columns of the last update."""
        assert self.before is not None, "only blocks with updates are asked for them"
        arrays = self.before.arrays
        return {
            key: Column(arrays[key], arrays.get(mask_key(key)), column.precision)
            for key, column in self.declared.columns.items()
        }

    def drain(self) -> None:
        """Write what is encoded; the arrays of the last `append` are free again."""
        arrays = self._all()
        # Only chunks that wait for no worker: one that waits for another would hold up both.
        plain = [array for array in arrays if array.undone]
        run_all([array.drain for array in plain], sum(array.undone for array in plain))
        for array in arrays:
            array.drain()

    def flush(self) -> None:
        """Hand the block to the next commit: the rows, then the group, whose markers an index ends.

        While markers hold, more rows are more updates: an index that ends them comes before the rows. It holds once
        its step_index is there.
        """
        if not self.n_updates:
            if says(self._attributes, self.name):
                self._state("", self._group_attributes())
            return
        self._write_waiting()
        ends_markers = self._marked and self.index is not None
        for array in self.arrays.values():
            array.flush()
        if self.index is not None:
            step_index, offset = self.index
            offset.flush(INDEX_OFFSETS if ends_markers else ARRAYS)
            step_index.flush(INDEX_HOLDS if ends_markers else ARRAYS)
        nullable = any(column.nullable for column in self.declared.columns.values())
        if nullable or says(self._attributes, f"{self.name}/{MASKS}"):
            self._state(MASKS, {})
        self._state("", self._group_attributes())
        self._marked = self.index is None and self.regular is not None

    def _group_attributes(self) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        if self.declared.structural_shape is not None:
            attributes["structural_shape"] = list(self.declared.structural_shape)
        if self.index is None and self.regular is not None:
            attributes.update(uniform_rows=self.regular, dense_updates=True)
        return attributes

    def _all(self) -> list[ShardAppender]:
        return [*(self.index or ()), *self.arrays.values()]

    def _remember(self, arrays: dict[str, NDArray[Any]], count: int) -> None:
        self.before = Presentation(
            count,
            {
                key: stored(array, self._precision[key]) if key in self._precision else array.copy()
                for key, array in arrays.items()
            },
        )

    def _stays_regular(self, frames: NDArray[np.int64], counts: NDArray[np.int64]) -> bool:
        if not self.declared.columns:
            return False
        if not self.n_updates:
            self.regular = int(counts[0]) or None
        return (
            self.regular is not None
            and bool((counts == self.regular).all())
            and int(frames[0]) == self.n_updates
            and int(frames[-1]) == self.n_updates + len(frames) - 1
        )

    def _make_index(self) -> None:
        step_index = self._dense("step_index")
        offset = self._dense("offset")
        rows = self.regular or 0
        offset.append(np.zeros(1, dtype=np.uint64))
        for first in range(0, self.n_updates, _PIECE):
            updates = np.arange(first, min(first + _PIECE, self.n_updates), dtype=np.uint64)
            step_index.append(updates)
            offset.append((updates + np.uint64(1)) * np.uint64(rows))
        self.index = (step_index, offset)
        self.regular = None

    def _dense(self, key: str) -> ShardAppender:
        extra = self._attributes.get(f"{self.name}/{key}")
        return dense_array(self._root, f"{self.node}/{key}", "u64", self._unsynced, attributes=extra)

    def _make_arrays(self, largest: int) -> None:
        """Columns and masks that are not there yet, their chunks cut for the representative frame.

        Where that is not known, `largest`, of the first updates, stands for it.
        """
        if self.frame_rows is None:
            self.frame_rows = largest
        for key, column in self.declared.columns.items():
            if key not in self.arrays:
                pipeline = column_pipeline(column.dtype, column.precision, self._compression)
                self.arrays[key] = self._rows_array(key, pipeline, row_bytes(column), column.trailing)
        for key, column in self.declared.columns.items():
            if column.nullable and mask_key(key) not in self.arrays:
                mask = self._rows_array(mask_key(key), dense_pipeline("bool"), 1, ())
                for first in range(0, self.rows, _PIECE):
                    mask.append(np.ones(min(_PIECE, self.rows - first), dtype=np.bool_))
                self.arrays[mask_key(key)] = mask

    def _rows_array(self, key: str, pipeline: Pipeline, nbytes: int, trailing: tuple[int, ...]) -> ShardAppender:
        return ShardAppender.create(
            self._root,
            f"{self.node}/{key}",
            pipeline,
            column_extents(self._chunk_rows(self.frame_rows or 0), nbytes),
            self._unsynced,
            trailing=trailing,
            precision=self._precision.get(key),
            attributes=self._attributes.get(f"{self.name}/{key}"),
        )

    def _chunk_rows(self, frame_rows: int) -> int:
        """Return rows of an inner chunk: one number for all columns and masks, that of those on disk first."""
        for array in self.arrays.values():
            return array.chunk_rows
        return block_rows_per_chunk(self.declared, frame_rows)

    def _state(self, child: str, attributes: dict[str, Any]) -> None:
        """Write a group's `zarr.json` where it says something new."""
        path = f"{self.name}/{child}" if child else self.name
        document = stated_group(attributes, path, self._attributes)
        if self._written.get(child) != document:
            folder = os.path.join(self._root, "trajectory", path)
            make_folder(folder, self._unsynced)
            self._unsynced.document(os.path.join(folder, "zarr.json"), dump_document(document), GROUPS)
            self._written[child] = document
