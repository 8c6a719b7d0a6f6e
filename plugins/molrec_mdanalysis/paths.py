"""Which files are records, and which of them have coordinates. MDAnalysis goes by the last suffix of a name."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["is_packed", "is_record_name", "is_topology_alone"]


def is_packed(thing: Any) -> bool:
    """Whether a thing is the name of a packed record, or of a record's directory that ends in a slash."""
    if not isinstance(thing, (str, os.PathLike)):
        return False
    name = os.fspath(thing)
    return isinstance(name, str) and name.lower().endswith((".mrec.zip", ".mrec/"))


def is_record_name(name: str) -> bool:
    """Whether a name is that of a record, of either form."""
    return name.lower().rstrip("/").endswith((".mrec", ".mrec.zip"))


def is_topology_alone(thing: Any) -> bool:
    """Whether a thing is the name of a record that has neither frames nor a `frame`."""
    if not isinstance(thing, (str, os.PathLike)) or not os.path.exists(thing):
        return False
    name = os.fspath(thing)
    if not isinstance(name, str) or not is_record_name(name):
        return False
    import molrec_convert

    with molrec_convert.open(name) as record:
        return record.frame is None and (record.trajectory is None or record.trajectory.n_frames == 0)
