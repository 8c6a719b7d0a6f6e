"""Times as records write them: RFC 3339 with an explicit offset. Source: Record, "meta"; Results, "metrics"."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

__all__ = ["is_timestamp", "timestamp"]

_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


def is_timestamp(stamp: Any) -> bool:
    """Whether a value is the text of an RFC 3339 time with an offset."""
    if not isinstance(stamp, str) or not _RFC3339.fullmatch(stamp):
        return False
    try:
        # A leap second is legal and unknown to datetime.
        datetime.fromisoformat(re.sub(r":60(?=[.Zz+-])", ":59", stamp).upper().replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


def timestamp(when: datetime | None = None) -> str:
    """The text of a time with an offset; of this moment when none is given."""
    return (datetime.now(UTC) if when is None else when).isoformat()
