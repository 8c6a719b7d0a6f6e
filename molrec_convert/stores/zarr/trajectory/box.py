"""The cell of a trajectory, stored once per change.

While it has one value from frame 0 on it stands in attributes of its group; the first change brings arrays, with that
value as their first row. Source: Trajectory, "box"; Containers, "Simulation box".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BoxUpdates
from molrec_convert.model.frame import Box
from molrec_convert.stores.zarr.trajectory.commit import remove_group
from molrec_convert.stores.zarr.trajectory.series import dense_array
from molrec_convert.stores.zarr.v3.metadata import dump_document, says, stated_group
from molrec_convert.stores.zarr.v3.shard_appender import ShardAppender
from molrec_convert.stores.zarr.v3.unsynced import ARRAYS, GROUPS, LATE_ARRAYS, Unsynced, make_folder

if TYPE_CHECKING:
    from molrec_convert.stores.zarr.trajectory.stored import StoredBox

__all__ = ["BoxSeries"]


class BoxSeries:
    """The cell: attributes of its group while it has one value from frame 0 on, arrays from its first change."""

    node = "trajectory/box"

    def __init__(
        self, root: Path, unsynced: Unsynced, *, cell_defined: bool, attributes: dict[str, dict[str, Any]] | None = None
    ) -> None:
        self.cell_defined = cell_defined
        self.count = 0
        self.last: Box | None = None
        self.arrays: dict[str, ShardAppender] = {}
        self.fixed = False
        self._root, self._unsynced, self._attributes = root, unsynced, attributes or {}
        self._written: dict[str, Any] | None = None

    def resume(self, stored: StoredBox) -> None:
        """Take over the committed changes; uncommitted tails are cut off."""
        self.count = len(stored.frames)
        if not self.count:
            for reader in stored.arrays.values():
                remove_group(self._root / reader.key, self._unsynced)
            return
        self.last = stored.box(self.count - 1)
        self.fixed = stored.fixed is not None
        for name, reader in stored.arrays.items():
            self.arrays[name] = ShardAppender.reopen(reader, self.count, self._unsynced)
        if self.arrays and "step_index" not in self.arrays:
            self.arrays["step_index"] = self._array("step_index", "u64")
            self.arrays["step_index"].append(np.zeros(self.count, dtype=np.uint64))
        if self.arrays and "vectors" not in self.arrays:
            self.arrays["vectors"] = self._array("vectors", "f64", (3, 3))
            self.arrays["vectors"].append(np.broadcast_to(np.eye(3), (self.count, 3, 3)))

    def changes(self, updates: BoxUpdates | None, n_frames: int) -> BoxUpdates | None:
        """The updates of a batch whose cell differs from the one before."""
        if updates is None or not len(updates.frames):
            return None
        k = len(updates.frames)
        vectors = np.ascontiguousarray(updates.vectors, dtype=np.float64)
        origin = np.ascontiguousarray(updates.origin, dtype=np.float64)
        boundary = np.ascontiguousarray(updates.boundary, dtype=np.bool_)
        if vectors.shape != (k, 3, 3) or origin.shape != (k, 3) or boundary.shape != (k, 3):
            raise ContractError(self.node, "vectors are [n, 3, 3], origin and boundary [n, 3]")
        frames = np.asarray(updates.frames, dtype=np.int64)
        if bool((np.diff(frames) <= 0).any()) or frames[0] < 0 or frames[-1] >= n_frames:
            raise ContractError(self.node, "the frames of a batch's cells are not ascending positions in it")
        if not self.cell_defined:
            vectors = np.broadcast_to(np.eye(3), (k, 3, 3)).copy()
            boundary = np.zeros((k, 3), dtype=np.bool_)
        if self.last is not None:
            vectors = np.concatenate([self.last.vectors[None], vectors])
            origin = np.concatenate([self.last.origin[None], origin])
            boundary = np.concatenate([self.last.boundary[None], boundary])
        different = np.ones(len(vectors), dtype=np.bool_)
        different[1:] = _differ(vectors) | _differ(origin) | _differ(boundary)
        if self.last is not None:
            vectors, origin, boundary, different = vectors[1:], origin[1:], boundary[1:], different[1:]
        if not different.any():
            return None
        return BoxUpdates(frames[different], vectors[different], origin[different], boundary[different])

    def append(self, updates: BoxUpdates | None, first: int) -> None:
        """Add updates that `changes` returned, their frames counted from ordinal `first`."""
        if updates is None or not len(updates.frames):
            return
        ordinals = updates.frames + first
        end = updates.box(len(ordinals) - 1, defined=self.cell_defined)
        parts = ("box/vectors", "box/step_index", "box/origin", "box/boundary")
        elided = not says(self._attributes, *parts)
        if elided and not self.count and ordinals[0] == 0 and len(ordinals) == 1 and _finite(end):
            self.fixed = True
        else:
            if not self.arrays:
                self._make_arrays()
            self._append_arrays(ordinals, updates)
        self.count += len(ordinals)
        self.last = end

    def flush(self) -> None:
        """Hand the cell to the next commit: arrays, then the group, whose attributes they replace."""
        if not self.count:
            return
        for name, array in self.arrays.items():
            # Without `vectors` a reader goes by the attributes, so that array comes last.
            array.flush(LATE_ARRAYS if name == "vectors" and array.new else ARRAYS)
        document = stated_group(self._group_attributes(), "box", self._attributes)
        if document != self._written:
            folder = self._root / self.node
            make_folder(str(folder), self._unsynced)
            self._unsynced.document(str(folder / "zarr.json"), dump_document(document), GROUPS)
            self._written = document

    def _group_attributes(self) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        if self.fixed and self.last is not None:
            attributes["vectors"] = self.last.vectors.tolist()
            if not _default_origin(self.last.origin[None]):
                attributes["origin"] = self.last.origin.tolist()
            if not self.last.boundary.all():
                attributes["boundary"] = self.last.boundary.tolist()
        if not self.cell_defined:
            attributes["cell_defined"] = False
        return attributes

    def _make_arrays(self) -> None:
        """Go over from attributes to arrays, with the cell so far as their first row."""
        self.arrays["step_index"] = self._array("step_index", "u64")
        self.arrays["vectors"] = self._array("vectors", "f64", (3, 3))
        if self.fixed and self.last is not None:
            first = BoxUpdates.single(self.last)
            self.fixed = False
            self.count = 0
            self._append_arrays(first.frames, first)
            self.count = 1

    def _append_arrays(self, ordinals: NDArray[np.int64], updates: BoxUpdates) -> None:
        self.arrays["step_index"].append(ordinals.astype(np.uint64))
        self.arrays["vectors"].append(updates.vectors)
        if "origin" not in self.arrays and (
            not _default_origin(updates.origin) or says(self._attributes, "box/origin")
        ):
            self.arrays["origin"] = self._array("origin", "f64", (3,))
            self.arrays["origin"].append(np.zeros((self.count, 3)))
        if "origin" in self.arrays:
            self.arrays["origin"].append(updates.origin)
        if "boundary" not in self.arrays and (not updates.boundary.all() or says(self._attributes, "box/boundary")):
            self.arrays["boundary"] = self._array("boundary", "bool", (3,))
            self.arrays["boundary"].append(np.ones((self.count, 3), dtype=np.bool_))
        if "boundary" in self.arrays:
            self.arrays["boundary"].append(updates.boundary)

    def _array(self, name: str, dtype: str, trailing: tuple[int, ...] = ()) -> ShardAppender:
        return dense_array(
            self._root,
            f"{self.node}/{name}",
            dtype,
            self._unsynced,
            trailing=trailing,
            attributes=self._attributes.get(f"box/{name}"),
        )


def _differ(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each row differs from the one before in any bit."""
    flat = values.reshape(len(values), -1)
    bits = flat.view(np.uint64 if flat.dtype.itemsize == 8 else np.uint8)
    return np.asarray((bits[1:] != bits[:-1]).any(axis=1))


def _default_origin(origin: NDArray[np.float64]) -> bool:
    return not np.ascontiguousarray(origin).view(np.uint64).any()


def _finite(box: Box) -> bool:
    """Whether the cell can be an attribute: JSON has finite numbers only."""
    return bool(np.isfinite(box.vectors).all() and np.isfinite(box.origin).all())
