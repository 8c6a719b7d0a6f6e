"""Whether a file is a collection, told without the `lmdb` library."""

from __future__ import annotations

from pathlib import Path

from molrec_convert.errors import FormatError
from molrec_convert.stores.lmdb.file.keys import LAYOUT, META
from molrec_convert.stores.lmdb.file.pages import PageFile, is_lmdb

__all__ = ["sniff_collection"]


def sniff_collection(head: bytes, path: Path) -> float:
    """An LMDB file whose key `meta` names the layout; another one only by its name, so that its fault is told."""
    if not is_lmdb(head):
        return 0.0
    try:
        with PageFile(path) as pages:
            meta = pages.find(META)
    except (OSError, FormatError):
        meta = None
    if meta is not None and LAYOUT.encode() in meta:
        return 1.0
    return 0.9 if path.name.endswith(".mrec.lmdb") else 0.0
