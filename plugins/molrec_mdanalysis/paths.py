"""Which files are records. MDAnalysis goes by the last suffix, and that of a packed record is `.zip`."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["is_packed", "is_record_name"]


def is_packed(thing: Any) -> bool:
    """Whether a thing is the name of a packed record, or of a record's directory that ends in a slash."""
    if not isinstance(thing, (str, os.PathLike)):
        return False
    name = os.fspath(thing)
    return isinstance(name, str) and name.lower().endswith((".mrec.zip", ".mrec/"))


def is_record_name(name: str) -> bool:
    """Whether a name is that of a record, of either form."""
    return name.lower().rstrip("/").endswith((".mrec", ".mrec.zip"))
