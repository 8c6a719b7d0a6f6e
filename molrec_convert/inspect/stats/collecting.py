"""What a collection's numbers are like: counts, ranges, elements, histograms; one pass over all its records.

Values are gathered into arrays of some thousand frames before they are looked at. A histogram's bins are a power of two
wide and doubled as the range grows, so that every value is counted exactly and nothing is read twice.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.formats import NoProgress, Progress
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.index import INDEX_COLUMNS
from molrec_convert.quantities.elements import SYMBOLS

__all__ = ["Distribution", "Texts", "collect_statistics"]

#: A histogram has at most so many bins, a column of texts so many listed.
_BINS, _LISTED = 40, 12
_LARGEST = 1e300
#: Different texts that are counted; beyond that only their number is told as "more".
_DIFFERENT = 100_000
#: Gathered before they are looked at.
_FRAMES, _VALUES = 2000, 2**20


class Distribution:
    """Numbers: how many, least, most, mean, standard deviation, NaN and infinite ones, and a histogram."""

    def __init__(self) -> None:
        self.count = self.nulls = self.nan = self.infinite = 0
        self.least: float | int | None = None
        self.most: float | int | None = None
        self._mean = self._squares = 0.0
        self._exponent: int | None = None
        self._whole = True
        self._bins: Counter[int] = Counter()

    def add(self, values: NDArray[Any]) -> None:
        """Take numbers in, of any shape."""
        flat = values.reshape(-1)
        if flat.dtype.kind == "f":
            self._whole = False
            finite = np.isfinite(flat)
            if not finite.all():
                nan = int(np.isnan(flat).sum())
                self.nan += nan
                self.infinite += int(len(flat) - finite.sum()) - nan
                flat = flat[finite]
        if not len(flat):
            return
        low, high = flat.min().item(), flat.max().item()
        self.least = low if self.least is None else min(self.least, low)
        self.most = high if self.most is None else max(self.most, high)
        numbers = flat.astype(np.float64)
        # sums of a batch joined with those before: Chan's formula
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(numbers.mean())
            squares = float(((numbers - mean) ** 2).sum())
        total = self.count + len(numbers)
        delta = mean - self._mean
        self._squares += squares + delta * delta * self.count * len(numbers) / total
        self._mean += delta * len(numbers) / total
        self.count = total
        self._add_bins(numbers)

    def _add_bins(self, numbers: NDArray[np.float64]) -> None:
        low, high = float(self.least or 0), float(self.most or 0)
        span = max(high - low, abs(high) * 1e-12, 1e-300)
        if max(-low, high) > _LARGEST:
            # the edges would be no numbers any more: there is no histogram of such a range
            self._bins.clear()
            return
        wanted = math.ceil(math.log2(span / (_BINS - 1)))
        if self._whole:
            wanted = max(wanted, 0)
        if self._exponent is None:
            self._exponent = wanted
        elif wanted > self._exponent:
            shift = wanted - self._exponent
            moved: Counter[int] = Counter()
            for place, count in self._bins.items():
                moved[place >> shift] += count
            self._bins, self._exponent = moved, wanted
        scaled = np.floor(np.ldexp(numbers, -self._exponent))
        # what is too small to be scaled is still on its side of zero
        scaled[(numbers < 0) & (scaled == 0)] = -1
        places, counts = np.unique(scaled, return_counts=True)
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            self._bins[int(place)] += count

    @property
    def bins(self) -> list[tuple[float, float, int]]:
        """From, to, how many; empty ones between included."""
        if not self._bins or self._exponent is None:
            return []
        first, last = min(self._bins), max(self._bins)
        edge = [math.ldexp(place, self._exponent) for place in range(first, last + 2)]
        return [(edge[n], edge[n + 1], self._bins[first + n]) for n in range(last - first + 1)]

    def to_json(self) -> dict[str, Any]:
        """As a JSON document."""
        document: dict[str, Any] = {"count": self.count}
        if self.count:
            document.update(least=self.least, most=self.most, mean=_number(self._mean))
            document["deviation"] = _number(math.sqrt(max(self._squares, 0.0) / self.count))
        for name in ("nulls", "nan", "infinite"):
            if getattr(self, name):
                document[name] = getattr(self, name)
        bins = self.bins
        if len(bins) > 1:
            document["histogram"] = {"edges": [bins[0][0], *(b[1] for b in bins)], "counts": [b[2] for b in bins]}
        return document


class Texts:
    """Texts or truth values: how many, how many different, the most frequent."""

    def __init__(self) -> None:
        self.nulls = 0
        self.counts: Counter[str] = Counter()
        self._more = 0

    def add(self, values: Iterable[Any]) -> None:
        """Take texts in."""
        for text, count in Counter(values).items():
            if text in self.counts or len(self.counts) < _DIFFERENT:
                self.counts[str(text)] += count
            else:
                self._more += count

    def to_json(self) -> dict[str, Any]:
        """As a JSON document; the most frequent first, equally frequent ones by name."""
        listed = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:_LISTED]
        document: dict[str, Any] = {"count": self.counts.total() + self._more, "different": len(self.counts)}
        if self._more:
            document["uncounted"] = self._more
        if self.nulls:
            document["nulls"] = self.nulls
        document["most_frequent"] = dict(listed)
        return document


def collect_statistics(collection: Collection, progress: Progress | None = None) -> dict[str, Any]:
    """Return counts, elements, index columns, and all values of frames and systems, as a JSON document."""
    progress = NoProgress() if progress is None else progress
    gathered = _Gathered()
    progress.start("records", len(collection))
    for number in range(len(collection)):
        gathered.take(collection.record_sample(number))
        progress.advance(1)
    gathered.flush()
    index = collection.index
    sizes = {name: Distribution() for name in ("n_atoms", "n_frames")}
    for name, sizing in sizes.items():
        sizing.add(index[name])
    path = collection.path
    return {
        "path": path,
        "bytes": getattr(collection, "nbytes", os.path.getsize(path) if path and os.path.isfile(path) else None),
        "records": len(collection),
        "frames": collection.n_frames,
        "atoms": int(index["n_atoms"].sum()),
        "units": collection.units,
        "atoms_per_record": sizes["n_atoms"].to_json(),
        "frames_per_record": sizes["n_frames"].to_json(),
        "elements": gathered.element_table(),
        "index": {name: _of_index(index.columns[name]) for name in index.columns if name not in INDEX_COLUMNS},
        "frame_values": {name: entry.to_json() for name, entry in sorted(gathered.frames.items())},
        "system_values": {name: entry.to_json() for name, entry in sorted(gathered.systems.items())},
    }


def _of_index(column: Any) -> dict[str, Any]:
    mask = column.validity
    values = column.values if mask is None else column.values[mask]
    entry: Distribution | Texts = Texts() if values.dtype.kind in "TbcU" else Distribution()
    entry.nulls = 0 if mask is None else int((~mask).sum())
    entry.add(values.tolist() if isinstance(entry, Texts) else values)
    return {"dtype": column.dtype, **entry.to_json()}


class _Gathered:
    """The values of many samples, looked at many at a time."""

    def __init__(self) -> None:
        self.frames: dict[str, Distribution | Texts] = {}
        self.systems: dict[str, Distribution | Texts] = {}
        self._elements: Counter[str] = Counter()
        self._in_records: Counter[str] = Counter()
        self._pending: dict[tuple[bool, str], list[Any]] = {}
        self._waiting = self._size = 0

    def take(self, sample: Mapping[str, Any]) -> None:
        """A record's sample."""
        system, frames = sample["system"], sample["frames"]
        self._keep(system, is_system=True)
        for frame in frames:
            self._keep(frame, is_system=False)
        self._count_elements(system, frames)
        self._waiting += 1 + len(frames)
        if self._waiting >= _FRAMES or self._size >= _VALUES:
            self.flush()

    def _keep(self, sample: Mapping[str, Any], *, is_system: bool) -> None:
        for name, value in sample.items():
            if "/_validity/" in name or name == "box/boundary":
                continue
            block, slash, column = name.partition("/")
            mask = sample.get(f"{block}/_validity/{column}") if slash else None
            if mask is not None:
                self._entry(is_system, name, value).nulls += int((~mask).sum())
                value = [v for v, ok in zip(value, mask, strict=True) if ok] if type(value) is list else value[mask]
            self._pending.setdefault((is_system, name), []).append(value)
            self._size += getattr(value, "size", 8)

    def flush(self) -> None:
        """Look at what has come so far."""
        for (is_system, name), values in self._pending.items():
            entry = self._entry(is_system, name, values[0])
            if isinstance(entry, Distribution):
                entry.add(np.concatenate([np.asarray(value).reshape(-1) for value in values]))
            else:
                entry.add(text for value in values for text in _texts(value))
        self._pending, self._waiting, self._size = {}, 0, 0

    def element_table(self) -> dict[str, dict[str, int]]:
        """Return element → atoms, and records it is in; the most frequent first."""
        order = sorted(self._elements, key=lambda name: (-self._elements[name], name))
        return {name: {"atoms": self._elements[name], "records": self._in_records[name]} for name in order}

    def _entry(self, is_system: bool, name: str, value: Any) -> Distribution | Texts:
        entries = self.systems if is_system else self.frames
        if name not in entries:
            entries[name] = Distribution() if _is_numeric(value) else Texts()
        return entries[name]

    def _count_elements(self, system: Mapping[str, Any], frames: list[Mapping[str, Any]]) -> None:
        said = [sample for sample in (system, *frames[:1]) if "atoms/element" in sample]
        numbered = [sample for sample in (system, *frames[:1]) if "atoms/atomic_number" in sample]
        if said:
            found = Counter(map(str, said[0]["atoms/element"]))
        elif numbered:
            numbers = numbered[0]["atoms/atomic_number"].tolist()
            found = Counter(SYMBOLS[n] if n < len(SYMBOLS) else f"Z={n}" for n in numbers)
        else:
            return
        self._elements.update(found)
        self._in_records.update(found.keys())


def _is_numeric(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iuf"
    return type(value) in (int, float)


def _texts(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return [str(item) for item in value.reshape(-1).tolist()]
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
