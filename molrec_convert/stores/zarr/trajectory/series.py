"""What a trajectory has once per frame: step numbers, times, per-step values.

Steps and times stay attributes of the trajectory's group while they are arithmetic; the first value off the
progression brings the array, with the whole history. Source: Trajectory, "step", "time", "meta".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BoxUpdates
from molrec_convert.model.declaration import MetaDeclaration
from molrec_convert.model.dtypes import DTYPES, same_bits
from molrec_convert.model.frame import Box
from molrec_convert.model.tags import TAGS
from molrec_convert.stores.zarr.v3.array_writer import ShardAppender
from molrec_convert.stores.zarr.v3.codecs import dense_pipeline
from molrec_convert.stores.zarr.v3.commit import ARRAYS, GROUPS, LATE_ARRAYS, Unsynced, make_folder, remove_group
from molrec_convert.stores.zarr.v3.metadata import DENSE, dump_document, says, stated_group

if TYPE_CHECKING:
    from molrec_convert.stores.zarr.trajectory.stored import StoredBox
    from molrec_convert.stores.zarr.v3.array_reader import ArrayReader

__all__ = [
    "BoxSeries",
    "StepSeries",
    "TimeSeries",
    "dense_array",
    "meta_series",
    "progression_steps",
    "progression_times",
]

_PIECE = 2**17


def dense_array(
    root: Path,
    key: str,
    dtype: str,
    unsynced: Unsynced,
    *,
    trailing: tuple[int, ...] = (),
    attributes: dict[str, Any] | None = None,
) -> ShardAppender:
    """Return a new array with one row per frame, or per update."""
    return ShardAppender.create(
        root, key, dense_pipeline(dtype), DENSE, unsynced, trailing=trailing, attributes=attributes
    )


def meta_series(
    root: Path, key: str, declared: MetaDeclaration, unsynced: Unsynced, attributes: dict[str, Any]
) -> ShardAppender:
    """Return a new array of one per-step key."""
    tag = TAGS[declared.dtype]
    node = f"trajectory/meta/{key}"
    return dense_array(
        root, node, tag.storage, unsynced, trailing=tag.trailing, attributes={"meta_dtype": tag.name, **attributes}
    )


class ProgressionSeries(ABC):
    """One value a frame, or none: a progression as long as the values are one, else an array from the beginning."""

    #: The name of the array, and its dtype.
    name: str
    dtype: str

    def __init__(
        self, root: Path, unsynced: Unsynced, attributes: dict[str, Any] | None = None, *, elided: bool = True
    ) -> None:
        self.count = 0
        #: Whether the frames so far have values.
        self.stated: bool | None = None
        self.start: Any = None
        self.stride: Any = None
        self.array: ShardAppender | None = None
        self._root, self._unsynced, self._attributes, self._elided = root, unsynced, attributes, elided

    def resume(self, start: Any, stride: Any, array: ArrayReader | None, count: int) -> None:
        """Take over `count` committed frames, which have values when there is a start or an array."""
        self.count = count
        if count:
            self.stated = start is not None or array is not None
            self.start, self.stride = start, stride
            if array is not None:
                self.array = ShardAppender.reopen(array, count, self._unsynced)

    def append(self, values: NDArray[Any] | None, count: int) -> None:
        """Add the values of `count` frames."""
        if count:
            self.stated = values is not None
        if values is not None and count:
            values = np.ascontiguousarray(values, dtype=DTYPES[self.dtype].numpy)
            if self.array is None and not (self._continues(values) and self._elided):
                key = f"trajectory/{self.name}"
                self.array = dense_array(self._root, key, self.dtype, self._unsynced, attributes=self._attributes)
                for first in range(0, self.count, _PIECE):
                    self.array.append(self._expected(first, min(first + _PIECE, self.count)))
            if self.array is not None:
                self.array.append(values)
        self.count += count

    def _continues(self, values: NDArray[Any]) -> bool:
        """True if the values continue the progression, whose start and stride they may be the first to tell."""
        before = self.start, self.stride
        if self.start is None:
            self.start = values[0].item()
        if self.stride is None and self.count + len(values) > 1:
            self.stride = self._difference(values[1 - self.count].item())
        if self._holds(values, new_stride=before[1] is None):
            return True
        if self.count:
            self.start, self.stride = before
        return False

    @abstractmethod
    def _difference(self, second: Any) -> Any:
        """Return the stride of the second value."""

    @abstractmethod
    def _holds(self, values: NDArray[Any], new_stride: bool) -> bool:
        """True if the progression is exactly that of the next values, and of the first where the stride is new."""

    @abstractmethod
    def _expected(self, first: int, last: int) -> NDArray[Any]:
        """Return values `first:last` of the progression."""

    @property
    def progression(self) -> dict[str, Any] | None:
        """The attribute, None without values or once there is an array."""
        if self.array is not None or self.start is None or not self.stated:
            return None
        return {"start": self.start} if self.stride is None else {"start": self.start, "stride": self.stride}


class StepSeries(ProgressionSeries):
    """The step numbers: strictly increasing i64."""

    name, dtype = "step", "i64"

    def _difference(self, second: int) -> int:
        return second - int(self.start)

    def _holds(self, values: NDArray[Any], new_stride: bool) -> bool:
        end = self.start + (self.stride or 0) * (self.count + len(values) - 1)
        if not -(2**63) <= end < 2**63:
            return False
        return bool((self._expected(self.count, self.count + len(values)) == values).all())

    def _expected(self, first: int, last: int) -> NDArray[np.int64]:
        return progression_steps(self.start or 0, self.stride, first, last)


class TimeSeries(ProgressionSeries):
    """The times of all frames or of none: f64, in the producer's unit."""

    name, dtype = "time", "f64"

    def _difference(self, second: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.float64(second) - np.float64(self.start))

    def _holds(self, values: NDArray[Any], new_stride: bool) -> bool:
        finite = math.isfinite(self.start) and (self.stride is None or math.isfinite(self.stride))
        # With the stride comes the formula for the first value too, which -0.0 may not survive.
        first = np.array([self.start], dtype=np.float64)
        first_holds = self.count == 0 or not new_stride or same_bits(self._expected(0, 1), first)
        expected = self._expected(self.count, self.count + len(values))
        return finite and first_holds and bool(np.isfinite(values).all()) and same_bits(expected, values)

    def _expected(self, first: int, last: int) -> NDArray[np.float64]:
        """Return `start + i·stride`, one rounded product and one rounded sum."""
        return progression_times(self.start or 0.0, self.stride, first, last)


def progression_steps(start: int, stride: int | None, first: int, last: int) -> NDArray[np.int64]:
    """Return values `first:last` of a step progression; without a stride there is one, the start."""
    if stride is None or stride >= 2**63:
        return np.array([start + (stride or 0) * n for n in range(first, last)], dtype=np.int64)
    return start + np.arange(first, last, dtype=np.int64) * stride


def progression_times(start: float, stride: float | None, first: int, last: int) -> NDArray[np.float64]:
    """Return values `first:last` of a time progression; without a stride there is one, the start."""
    if stride is None:
        return np.full(last - first, start)
    with np.errstate(over="ignore", invalid="ignore"):
        return start + np.arange(first, last, dtype=np.float64) * stride


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
        """Return the updates of a batch whose cell differs from the one before."""
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
    """Return whether each row differs from the one before in any bit."""
    flat = values.reshape(len(values), -1)
    bits = flat.view(np.uint64 if flat.dtype.itemsize == 8 else np.uint8)
    return np.asarray((bits[1:] != bits[:-1]).any(axis=1))


def _default_origin(origin: NDArray[np.float64]) -> bool:
    return not np.ascontiguousarray(origin).view(np.uint64).any()


def _finite(box: Box) -> bool:
    """True if the cell can be an attribute: JSON has finite numbers only."""
    return bool(np.isfinite(box.vectors).all() and np.isfinite(box.origin).all())
