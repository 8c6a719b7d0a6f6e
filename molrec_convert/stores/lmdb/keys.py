"""The keys of a collection: fixed names, and a letter before a big-endian number, whose byte order is numeric order.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

import struct

__all__ = ["FORCEFIELD", "FRAME", "INDEX", "LAYOUT", "LAYOUT_VERSION", "META", "RECORD", "SYSTEM", "numbered"]

META, INDEX, FORCEFIELD = b"meta", b"index", b"ff"
RECORD, SYSTEM, FRAME = b"r", b"s", b"f"
LAYOUT, LAYOUT_VERSION = "mrec-lmdb", 1

_NUMBERED = struct.Struct(">cQ")


def numbered(prefix: bytes, number: int) -> bytes:
    """The key of the `number`-th record part (`RECORD`, `SYSTEM`) or frame (`FRAME`)."""
    return _NUMBERED.pack(prefix, number)
