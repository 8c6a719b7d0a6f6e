"""What a trajectory has once per frame: step numbers, times, per-step values.

Steps and times stay attributes of the trajectory's group while they are arithmetic; the first value off the
progression brings the array, with the whole history. Source: Trajectory, "step", "time", "meta".
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.declaration import MetaDeclaration
from molrec_convert.model.dtypes import same_bits
from molrec_convert.model.tags import TAGS
from molrec_convert.stores.zarr.v3.codecs import dense_pipeline
from molrec_convert.stores.zarr.v3.extents import DENSE
from molrec_convert.stores.zarr.v3.shard_appender import ShardAppender
from molrec_convert.stores.zarr.v3.unsynced import Unsynced

if TYPE_CHECKING:
    from molrec_convert.stores.zarr.v3.array_reader import ArrayReader

__all__ = [
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
    """A new array with one row per frame, or per update."""
    return ShardAppender.create(
        root, key, dense_pipeline(dtype), DENSE, unsynced, trailing=trailing, attributes=attributes
    )


def meta_series(
    root: Path, key: str, declared: MetaDeclaration, unsynced: Unsynced, attributes: dict[str, Any]
) -> ShardAppender:
    """A new array of one per-step key."""
    tag = TAGS[declared.dtype]
    node = f"trajectory/meta/{key}"
    return dense_array(
        root, node, tag.storage, unsynced, trailing=tag.trailing, attributes={"meta_dtype": tag.name, **attributes}
    )


class StepSeries:
    """The step numbers: strictly increasing i64. Without `elided` they are an array from the beginning."""

    attribute = "step_progression"

    def __init__(
        self, root: Path, unsynced: Unsynced, attributes: dict[str, Any] | None = None, *, elided: bool = True
    ) -> None:
        self.count = 0
        self.last: int | None = None
        self.start: int | None = None
        self.stride: int | None = None
        self.array: ShardAppender | None = None
        self._root, self._unsynced, self._attributes, self._elided = root, unsynced, attributes, elided

    def resume(self, start: int | None, stride: int | None, array: ArrayReader | None, count: int) -> None:
        """Take over `count` committed frames."""
        self.count = count
        if not count:
            return
        if array is not None:
            self.array = ShardAppender.reopen(array, count, self._unsynced)
            self.last = int(array.read(count - 1, count)[0])
        else:
            self.start, self.stride = start, stride
            self.last = int(progression_steps(start or 0, stride, count - 1, count)[0])

    def check(self, steps: NDArray[np.int64]) -> None:
        """Refuse steps that do not go on upwards from the last one."""
        before = self.last
        if len(steps) and before is not None and int(steps[0]) <= before:
            raise ContractError(
                "trajectory/step", f"steps strictly increase: {int(steps[0])} follows {before} at frame {self.count}"
            )
        wrong = np.flatnonzero(steps[1:] <= steps[:-1])
        if len(wrong):
            at = int(wrong[0])
            raise ContractError(
                "trajectory/step",
                f"steps strictly increase: {int(steps[at + 1])} follows {int(steps[at])} at frame "
                f"{self.count + at + 1}",
            )

    def append(self, steps: NDArray[np.int64]) -> None:
        """Add step numbers that passed `check`."""
        if not len(steps):
            return
        if self.array is None and not (self._continues(steps) and self._elided):
            self.array = dense_array(self._root, "trajectory/step", "i64", self._unsynced, attributes=self._attributes)
            for first in range(0, self.count, _PIECE):
                last = min(first + _PIECE, self.count)
                self.array.append(progression_steps(self.start or 0, self.stride, first, last))
        if self.array is not None:
            self.array.append(steps)
        self.count += len(steps)
        self.last = int(steps[-1])

    def _continues(self, steps: NDArray[np.int64]) -> bool:
        """Whether the steps continue the progression, whose start and stride they may be the first to tell."""
        known = [] if self.start is None else [self.start]
        if self.start is None:
            self.start = int(steps[0])
        if self.stride is None:
            first = [*known, *(int(n) for n in steps[:2])][:2]
            if len(first) == 2:
                self.stride = first[1] - first[0]
        end = self.start + (self.stride or 0) * (self.count + len(steps) - 1)
        if not -(2**63) <= end < 2**63:
            return False
        expected = progression_steps(self.start, self.stride, self.count, self.count + len(steps))
        return bool((expected == steps).all())

    @property
    def progression(self) -> dict[str, Any] | None:
        """The attribute, None without frames or once there is an array."""
        if self.array is not None or self.start is None:
            return None
        return {"start": self.start} if self.stride is None else {"start": self.start, "stride": self.stride}


class TimeSeries:
    """The times of all frames or of none: f64, in the producer's unit. Without `elided` they are an array at once."""

    attribute = "time_progression"

    def __init__(
        self, root: Path, unsynced: Unsynced, attributes: dict[str, Any] | None = None, *, elided: bool = True
    ) -> None:
        self.count = 0
        self.stated: bool | None = None
        self.start: float | None = None
        self.stride: float | None = None
        self.array: ShardAppender | None = None
        self._root, self._unsynced, self._attributes, self._elided = root, unsynced, attributes, elided

    def resume(self, start: float | None, stride: float | None, array: ArrayReader | None, count: int) -> None:
        """Take over `count` committed frames, which have times when there is a start or an array."""
        self.count = count
        if not count:
            return
        self.stated = start is not None or array is not None
        self.start, self.stride = start, stride
        if array is not None:
            self.array = ShardAppender.reopen(array, count, self._unsynced)

    def check(self, times: NDArray[np.float64] | None, count: int) -> None:
        """Refuse times that appear or vanish in the middle of a run."""
        if times is not None and len(times) != count:
            raise ContractError("trajectory/time", "there is one time per frame", found=str(len(times)))
        if count and self.stated is not None and self.stated != (times is not None):
            change = (
                "has no time, though earlier frames have" if self.stated else "has a time, earlier frames have none"
            )
            raise ContractError(
                "trajectory/time", f"time is stated for all frames or for none: frame {self.count} {change}"
            )

    def append(self, times: NDArray[np.float64] | None, count: int) -> None:
        """Add the times of `count` frames."""
        if count:
            self.stated = times is not None
        if times is None or not count:
            self.count += count
            return
        times = np.ascontiguousarray(times, dtype=np.float64)
        if self.array is None and not (self._continues(times) and self._elided):
            self.array = dense_array(self._root, "trajectory/time", "f64", self._unsynced, attributes=self._attributes)
            for first in range(0, self.count, _PIECE):
                self.array.append(self._expected(first, min(first + _PIECE, self.count)))
        if self.array is not None:
            self.array.append(times)
        self.count += count

    def _continues(self, times: NDArray[np.float64]) -> bool:
        before = self.start, self.stride
        if self.start is None:
            self.start = float(times[0])
        if self.stride is None and self.count + len(times) > 1:
            second = float(times[1 - self.count])
            with np.errstate(over="ignore", invalid="ignore"):
                self.stride = float(np.float64(second) - np.float64(self.start))
        finite = math.isfinite(self.start) and (self.stride is None or math.isfinite(self.stride))
        expected = self._expected(self.count, self.count + len(times))
        # With the stride comes the formula for the first value too, which -0.0 may not survive.
        first_holds = self.count == 0 or before[1] is not None or same_bits(self._expected(0, 1), _one(self.start))
        if finite and first_holds and bool(np.isfinite(times).all()) and same_bits(expected, times):
            return True
        if self.count:
            self.start, self.stride = before
        return False

    def _expected(self, first: int, last: int) -> NDArray[np.float64]:
        """`start + i·stride`, one rounded product and one rounded sum."""
        return progression_times(self.start or 0.0, self.stride, first, last)

    @property
    def progression(self) -> dict[str, Any] | None:
        """The attribute, None without times or once there is an array."""
        if self.array is not None or self.start is None or not self.stated:
            return None
        return {"start": self.start} if self.stride is None else {"start": self.start, "stride": self.stride}


def progression_steps(start: int, stride: int | None, first: int, last: int) -> NDArray[np.int64]:
    """Values `first:last` of a step progression; without a stride there is one, the start."""
    if stride is None or stride >= 2**63:
        return np.array([start + (stride or 0) * n for n in range(first, last)], dtype=np.int64)
    return start + np.arange(first, last, dtype=np.int64) * stride


def progression_times(start: float, stride: float | None, first: int, last: int) -> NDArray[np.float64]:
    """Values `first:last` of a time progression; without a stride there is one, the start."""
    if stride is None:
        return np.full(last - first, start)
    with np.errstate(over="ignore", invalid="ignore"):
        return start + np.arange(first, last, dtype=np.float64) * stride


def _one(value: float) -> NDArray[np.float64]:
    return np.array([value], dtype=np.float64)
