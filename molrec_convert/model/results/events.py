"""The events of a run's metrics, and the lines of the log they are written in.

A line is one JSON object in compact keys: `t` type, `k` series key, `s` step, `w` wall time, `v` value, `tags`.
Source: Results, "metrics".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from molrec_convert.errors import ContractError
from molrec_convert.files.json_text import read_json
from molrec_convert.model.names import is_unicode
from molrec_convert.model.tags import check_json

__all__ = [
    "LOG",
    "SCALAR",
    "Event",
    "Log",
    "MemoryLog",
    "check_timestamp",
    "event_line",
    "is_timestamp",
    "line_object",
    "log_lines",
    "scalar_event",
    "timestamp",
    "whole_bytes",
]

_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


def is_timestamp(stamp: Any) -> bool:
    """True if a value is the text of an RFC 3339 time with an offset."""
    if not isinstance(stamp, str) or not _RFC3339.fullmatch(stamp):
        return False
    try:
        # A leap second is legal and unknown to datetime.
        datetime.fromisoformat(re.sub(r":60(?=[.Zz+-])", ":59", stamp).upper().replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


def check_timestamp(stamp: Any, node: str) -> None:
    """Raise ContractError for what is no RFC 3339 time with an offset."""
    if not is_timestamp(stamp):
        raise ContractError(
            node,
            "not an RFC 3339 time with an offset",
            found=repr(stamp)[:60],
            expected="date, time and offset, as in 2026-01-31T12:00:00+00:00",
        )


def timestamp(when: datetime | None = None) -> str:
    """Return the text of a time with an offset; of this moment when none is given."""
    return (datetime.now(UTC) if when is None else when).isoformat()


#: The node of the log in messages.
LOG = "metrics/metrics.jsonl"
SCALAR = "scalar"
#: Bytes of a log that are read at a time.
_PIECE = 2**20
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Log(Protocol):
    """The bytes of a log, read in parts."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to before `stop`, fewer where the log ends."""


class MemoryLog:
    """A log in memory."""

    def __init__(self, text: bytes = b"") -> None:
        self._text = text

    @property
    def size(self) -> int:
        """See `Log.size`."""
        return len(self._text)

    def read(self, start: int, stop: int) -> bytes:
        """See `Log.read`."""
        return self._text[start:stop]


@dataclass(frozen=True)
class Event:
    """One value of one curve. `wall_time` is RFC 3339 with an offset; `step` and `tags` may be missing."""

    key: str
    value: float
    wall_time: str
    step: int | None = None
    tags: Any = None
    type: str = SCALAR

    def check(self) -> None:
        """Refuse an event that cannot be stored."""
        node = f"metrics.{self.key}" if isinstance(self.key, str) and self.key.isprintable() else "metrics"
        if not isinstance(self.key, str) or not self.key or not is_unicode(self.key):
            raise ContractError("metrics", "a series has a key that is not empty", found=repr(self.key)[:60])
        if self.type != SCALAR:
            raise ContractError(node, "the type of an event is not known", found=repr(self.type)[:60], expected=SCALAR)
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise ContractError(node, "the value of an event is a number", found=repr(self.value)[:60])
        if self.step is not None and not _is_step(self.step):
            raise ContractError(node, "a step is an integer of 64 bits", found=repr(self.step)[:60])
        check_timestamp(self.wall_time, node)
        if self.tags is not None:
            check_json(self.tags, f"{node}.tags")


def event_line(event: Event) -> bytes:
    """Return the line of the log that says an event, its newline included. `ContractError` for one that cannot be
    stored.
    """
    event.check()
    line: dict[str, Any] = {"t": event.type, "k": event.key}
    if event.step is not None:
        line["s"] = event.step
    line["w"] = event.wall_time
    line["v"] = _to_json(float(event.value))
    if event.tags is not None:
        line["tags"] = event.tags
    return json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def line_object(line: bytes, number: int) -> dict[str, Any] | None:
    """Return the JSON object of a complete line, None for a blank one; anything else is refused. `number` counts from
    1.
    """
    text = line.strip()
    if not text:
        return None
    try:
        document = read_json(text.decode(), _refuse_constant)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ContractError(f"{LOG}, line {number}", "the line is not one JSON object", found=repr(text[:60]))
    return document


def scalar_event(document: dict[str, Any], number: int) -> Event | None:
    """Return the event a line's object says, None when it is of a type this version does not know."""
    if document.get("t") != SCALAR:
        return None
    key, step, stamp, value = (document.get(name) for name in ("k", "s", "w", "v"))
    if not isinstance(key, str) or not key:
        raise _malformed(number, "k", key, "a text that is not empty")
    if step is not None and not _is_step(step):
        raise _malformed(number, "s", step, "an integer of 64 bits")
    if not isinstance(stamp, str):
        raise _malformed(number, "w", stamp, "a time")
    number_found = _from_json(value)
    if number_found is None:
        raise _malformed(number, "v", value, "a number")
    return Event(key, number_found, stamp, step, document.get("tags"))


def log_lines(log: Log, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Yield the complete lines between two bytes of a log, without their newlines; an unterminated tail is left out.

    So is everything from a line with a NUL on, which none has: those a failure of the power leaves in place of bytes
    that had not reached the disk.
    """
    end = log.size if stop is None else min(stop, log.size)
    pieces: list[bytes] = []
    while start < end:
        data = log.read(start, min(end, start + _PIECE))
        if not data:
            return
        start += len(data)
        if b"\0" in data:
            data, start = data[: data.index(b"\0")], end
        first, *others = data.split(b"\n")
        pieces.append(first)
        for line in others:
            yield b"".join(pieces)
            pieces = [line]


def whole_bytes(log: Log) -> int:
    """Return how many bytes of a log `log_lines` goes through: up to the end of its last complete line."""
    whole = 0
    for start in range(0, log.size, _PIECE):
        data = log.read(start, start + _PIECE)
        nul = data.find(b"\0")
        end = data.rfind(b"\n", 0, len(data) if nul < 0 else nul)
        whole = whole if end < 0 else start + end + 1
        if nul >= 0:
            break
    return whole


def _malformed(number: int, key: str, value: Any, expected: str) -> ContractError:
    found = "none" if value is None else repr(value)[:60]
    return ContractError(f"{LOG}, line {number}", f"the event has no {key!r}", found=found, expected=expected)


def _is_step(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _to_json(value: float) -> Any:
    """Return a number as a document has it: one that is not finite is a text."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _from_json(value: Any) -> float | None:
    if isinstance(value, str):
        return _NON_FINITE.get(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
