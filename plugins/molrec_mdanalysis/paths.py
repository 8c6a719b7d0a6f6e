"""Which files are records, and which of them have coordinates. MDAnalysis goes by the last suffix of a name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from molrec_convert.model import Record

__all__ = ["is_packed", "is_record_name", "is_topology_alone", "open_record"]


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
    with open_record(name) as record:
        return record.frame is None and (record.trajectory is None or record.trajectory.n_frames == 0)


def open_record(path: Any) -> Record:
    """Return the record in a store, opened. `UnsupportedError` for a collection."""
    import molrec_convert
    from molrec_convert.errors import UnsupportedError

    opened = molrec_convert.open(path)
    if isinstance(opened, molrec_convert.Record):
        return opened
    opened.close()
    raise UnsupportedError(f"{path} is a collection: take one of its records, and make a universe of that")
