"""Metrics: curves of a run, as dense arrays, as a log of events, or both.

The dense series hold the first lines of the log, up to the watermark `wal`; later lines extend them. Of two events of
one key and step the later wins; events without a step never merge. A key with both kinds of events stays in the log.
Source: Results, "metrics".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import DTYPES, same_bits
from molrec_convert.model.names import escape_name
from molrec_convert.model.results.events import (
    LOG,
    SCALAR,
    Event,
    Log,
    MemoryLog,
    check_timestamp,
    event_line,
    line_object,
    log_lines,
    scalar_event,
)
from molrec_convert.model.tags import check_json

__all__ = ["Curves", "Event", "Metrics", "Series", "log_events", "watermark"]


@dataclass(frozen=True, eq=False)
class Series:
    """One curve: `values` f64[n], `wall_time` string[n], and `steps` i64[n], None when its events have none.

    `has_step` bool[n] is there only where some events have a step and some have none: the steps of these mean nothing.
    `steps, values, wall_time = series` takes it apart.
    """

    values: NDArray[Any]
    wall_time: NDArray[Any]
    steps: NDArray[Any] | None = None
    has_step: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, events: Iterable[Event]) -> Series:
        """Return the curve of events that are all kept."""
        rows = list(events)
        stepped = np.array([event.step is not None for event in rows], dtype=np.bool_)
        steps = np.array([0 if event.step is None else event.step for event in rows], dtype=np.int64)
        return cls(
            np.array([event.value for event in rows], dtype=np.float64),
            np.array([event.wall_time for event in rows], dtype=DTYPES["string"].numpy),
            steps if stepped.any() else None,
            None if stepped.all() or not stepped.any() else stepped,
        )

    def __iter__(self) -> Iterator[NDArray[Any] | None]:
        return iter((self.steps, self.values, self.wall_time))

    def __len__(self) -> int:
        return len(self.values)

    def events(self, key: str) -> Iterator[Event]:
        """Yield the events the curve consists of."""
        values, stamps = self.values.tolist(), self.wall_time.tolist()
        steps: list[int | None] = [None] * len(values) if self.steps is None else self.steps.tolist()
        if self.has_step is not None:
            steps = [step if has else None for step, has in zip(steps, self.has_step.tolist(), strict=True)]
        for step, value, stamp in zip(steps, values, stamps, strict=True):
            yield Event(key, value, stamp, step)

    def last(self, key: str) -> Event | None:
        """Return the last of the events, None when there is none."""
        if not len(self):
            return None
        parts = [None if array is None else array[-1:] for array in (self.steps, self.has_step)]
        return next(Series(self.values[-1:], self.wall_time[-1:], *parts).events(key))

    def fault(self) -> str | None:
        """Return why the arrays are no curve, None when they are."""
        arrays = {"values": self.values, "steps": self.steps, "wall_time": self.wall_time}
        for name, dtype in (("values", "f64"), ("steps", "i64"), ("wall_time", "string")):
            array = arrays[name]
            if array is None:
                continue
            if array.dtype != DTYPES[dtype].numpy or array.ndim != 1:
                return f"{name} are not {dtype}[n] but {array.dtype}{list(array.shape)}"
            if len(array) != len(self.values):
                return f"there are {len(array)} {name} for {len(self.values)} values"
        return None

    def __eq__(self, other: object) -> bool:
        """Return equal values and steps bit for bit, equal times."""
        if not isinstance(other, Series):
            return NotImplemented
        pairs = [
            (self.values, other.values),
            (self.wall_time, other.wall_time),
            (self.steps, other.steps),
            (self.has_step, other.has_step),
        ]
        return all(
            a is b or (a is not None and b is not None and same_bits(np.asarray(a), np.asarray(b))) for a, b in pairs
        )

    __hash__ = None  # type: ignore[assignment]


class Curves:
    """Events gathered into curves: of one key and step the later wins, at the place of the first."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Any, Event]] = {}
        self._latest: dict[str, Event] = {}

    def add(self, event: Event) -> None:
        """Take the next event."""
        rows = self._rows.setdefault(event.key, {})
        rows[object() if event.step is None else event.step] = event
        self._latest[event.key] = event

    def extend(self, events: Iterable[Event]) -> Curves:
        """Take the next events."""
        for event in events:
            self.add(event)
        return self

    def series(self, key: str) -> Series:
        """Return one curve, `KeyError` when it has no event."""
        return Series.of(self._rows[key].values())

    def dense(self) -> dict[str, Series]:
        """Return the curves that can be dense: all but those with steps in some events only."""
        found = {key: self.series(key) for key in self._rows}
        return {key: series for key, series in found.items() if series.has_step is None}

    def catalog(self) -> dict[str, dict[str, Any]]:
        """Return what a catalog says of every curve."""
        return {key: _entry(len(rows), self._latest[key]) for key, rows in self._rows.items()}

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)


class Metrics(Mapping[str, Series]):
    """The curves of a run by key: `steps, values, wall_time = metrics["train/loss"]`.

    `dense` are the curves stored as arrays, `log` the bytes of the log, `catalog` the document over both (`wal`,
    `series`, and keys this version does not know). The mapping is what they say together. `attributes` are those of
    the section's other nodes, by path below it.
    """

    def __init__(
        self,
        dense: Mapping[str, Series] | None = None,
        log: Log | None = None,
        catalog: Mapping[str, Any] | None = None,
        attributes: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        self.dense: Mapping[str, Series] = {} if dense is None else dense
        self.log = log
        self.catalog: dict[str, Any] = dict(catalog or {})
        self.attributes = dict(attributes or {})
        self._tail: Curves | None = None
        self._whole: Curves | None = None

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> Metrics:
        """Return the metrics of a closed run: all events in a log, and densified."""
        text = b"".join(map(event_line, events))
        log = MemoryLog(text)
        curves = Curves().extend(log_events(log))
        wal = {"lines": text.count(b"\n"), "bytes": len(text)}
        return cls(curves.dense(), log, {"wal": wal, "series": curves.catalog()})

    @classmethod
    def from_series(cls, series: Mapping[str, Series]) -> Metrics:
        """Return dense curves without a log: they are the whole record."""
        catalog = {}
        for key, curve in series.items():
            check_series(key, curve)
            catalog[key] = _entry(len(curve), curve.last(key))
        return cls(dict(series), None, {"series": catalog})

    def events(self) -> Iterator[Event]:
        """Yield the events of the log, in order; those that were overruled later, too."""
        return iter(()) if self.log is None else log_events(self.log)

    def __getitem__(self, key: str) -> Series:
        tail = self._extension()
        base = self._base(key)
        if base is None:
            if not self._reaches_back:
                return tail.series(key)
            whole = self._all()
            if key not in whole and key in self._listed:
                raise ContractError(f"metrics.series.{key}", "the series is neither dense nor in the log")
            return whole.series(key)
        if key not in tail:
            return base
        merged = Curves().extend(base.events(key))
        return merged.extend(tail.series(key).events(key)).series(key)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._listed, *self.dense, *self._extension()]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"Metrics({', '.join(self) or 'no series'})"

    def check(self) -> None:
        """Refuse a catalog, dense curves or a log that break the contract."""
        self.check_catalog()
        for key, series in self.dense.items():
            check_series(key, series)
        if self.log is not None:
            for number, event in numbered_events(self.log):
                check_timestamp(event.wall_time, f"{LOG}, line {number}")
        for path, attributes in self.attributes.items():
            check_json(attributes, f"metrics/{path}")

    def check_catalog(self) -> None:
        """Refuse a catalog that breaks the contract."""
        check_json(self.catalog, "metrics")
        watermark(self.catalog)
        if not isinstance(self.catalog.get("series", {}), dict):
            raise ContractError("metrics.series", "the catalog of series is not a JSON object")

    @property
    def _listed(self) -> dict[str, Any]:
        listed = self.catalog.get("series")
        return listed if isinstance(listed, dict) else {}

    @property
    def _reaches_back(self) -> bool:
        """True if the log has the lines the dense series were made of."""
        wal = watermark(self.catalog)
        return self.log is not None and (wal is None or wal <= self.log.size)

    def _base(self, key: str) -> Series | None:
        """Return the dense curve of a key; None when there is none, or one an interrupted writer left unfinished."""
        if key not in self.dense:
            return None
        series = self.dense[key]
        fault = series.fault()
        if self._reaches_back:
            entry = self._listed.get(key)
            stated = entry.get("count") if isinstance(entry, dict) else None
            # Arrays of which the catalog says something else are newer than the watermark.
            if (fault is not None or stated != len(series)) and key in self._all():
                return None
        if fault is not None:
            raise ContractError(f"metrics/series/{escape_name(key)}", fault)
        if series.steps is not None and len(np.unique(series.steps)) < len(series):
            return Curves().extend(series.events(key)).series(key)
        return series

    def _extension(self) -> Curves:
        """Return the events past the watermark."""
        if self._tail is None:
            self._tail = Curves()
            start = watermark(self.catalog)
            if start is None:
                start = 0 if not self.dense else None
            if self.log is not None and start is not None and start < self.log.size:
                if start and self.log.read(start - 1, start) != b"\n":
                    raise ContractError("metrics.wal", "the watermark is not at the end of a line of the log")
                before = self.catalog["wal"]["lines"] if start else 0
                self._tail.extend(log_events(self.log, start, before + 1))
        return self._tail

    def _all(self) -> Curves:
        """Return all events of the log."""
        if self._whole is None:
            self._whole = Curves().extend(self.events())
        return self._whole


def log_events(log: Log, start: int = 0, number: int = 1) -> Iterator[Event]:
    """Yield the scalar events of a log from a byte on, where the line of that number begins."""
    return (event for _, event in numbered_events(log, start, number))


def numbered_events(log: Log, start: int = 0, number: int = 1) -> Iterator[tuple[int, Event]]:
    """Yield the numbers of lines and their events, as `log_events` does."""
    for position, line in enumerate(log_lines(log, start), number):
        document = line_object(line, position)
        event = None if document is None else scalar_event(document, position)
        if event is not None:
            yield position, event


def watermark(catalog: Mapping[str, Any]) -> int | None:
    """Return the bytes of the log that the dense series hold; None when the catalog states none: they are the whole
    record.
    """
    if "wal" not in catalog:
        return None
    wal = catalog["wal"]
    counts: list[Any] = [wal.get(name) for name in ("lines", "bytes")] if isinstance(wal, dict) else [None]
    if not all(type(n) is int and n >= 0 for n in counts):
        raise ContractError(
            "metrics.wal", "the watermark is not two numbers", found=repr(wal)[:60], expected='{"lines": n, "bytes": m}'
        )
    return int(counts[1])


def check_series(key: str, series: Series) -> None:
    """Refuse a curve that cannot be stored as arrays."""
    node = f"metrics/series/{escape_name(key)}" if key else "metrics/series"
    if not key:
        raise ContractError(node, "a series has a key that is not empty")
    fault = series.fault()
    if fault is None and series.has_step is not None:
        fault = "some events have a step and some have none: such a series stays in the log"
    if fault is not None:
        raise ContractError(node, fault)
    for stamp in dict.fromkeys(series.wall_time.tolist()):
        check_timestamp(stamp, f"metrics/wall_time/{escape_name(key)}")


def _entry(count: int, latest: Event | None) -> dict[str, Any]:
    return {
        "type": SCALAR,
        "count": count,
        "latest_step": None if latest is None else latest.step,
        "latest_timestamp": None if latest is None else latest.wall_time,
    }
