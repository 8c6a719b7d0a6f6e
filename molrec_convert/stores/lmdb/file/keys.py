"""The keys of a collection: fixed names, and a letter before a big-endian number, whose byte order is numeric order.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator

__all__ = [
    "CHECKSUMS",
    "FORCEFIELD",
    "FRAME",
    "INDEX",
    "KEY_BYTES",
    "LAYOUT",
    "LAYOUT_VERSION",
    "META",
    "META_KEYS",
    "RECORD",
    "SYSTEM",
    "is_known",
    "key_label",
    "key_text",
    "numbered",
    "numbered_keys",
]

META, INDEX, FORCEFIELD = b"meta", b"index", b"ff"
#: Beside `INDEX`: checksums of all values.
CHECKSUMS = b"index.crc32c"
RECORD, SYSTEM, FRAME = b"r", b"s", b"f"
LAYOUT, LAYOUT_VERSION = "mrec-lmdb", 1
#: The keys of the document under `META`.
META_KEYS = ("layout", "layout_version", "collection", "sequence_schema", "n_records", "n_frames")

_NUMBERED = struct.Struct(">cQ")
#: Bytes of a key with a number.
KEY_BYTES = _NUMBERED.size


def numbered(prefix: bytes, number: int) -> bytes:
    """Return the key of the `number`-th record part (`RECORD`, `SYSTEM`) or frame (`FRAME`)."""
    return _NUMBERED.pack(prefix, number)


def numbered_keys(prefix: bytes, numbers: Iterable[int]) -> Iterator[bytes]:
    """Return the keys of many, in their order."""
    return map(_NUMBERED.pack, itertools.repeat(prefix), numbers)


def is_known(key: bytes) -> bool:
    """True if a key is one the layout has a meaning for, whatever its number."""
    return key in (META, INDEX, FORCEFIELD, CHECKSUMS) or (
        len(key) == _NUMBERED.size and key[:1] in (RECORD, SYSTEM, FRAME)
    )


def key_text(key: bytes) -> str:
    """Return a key as a person writes it: `f[3]`, `meta`, `later`."""
    if len(key) == _NUMBERED.size and key[:1] in (RECORD, SYSTEM, FRAME):
        return f"{key[:1].decode()}[{int.from_bytes(key[1:], 'big')}]"
    text = key.decode("utf-8", "backslashreplace")
    return text if text.isprintable() and text.isascii() else repr(key)[2:-1]


def key_label(key: bytes) -> str:
    """Return a key as the tree shows it: `f ‖ u64be(3)`."""
    if len(key) == _NUMBERED.size and is_known(key):
        return f"{key[:1].decode()} ‖ u64be({int.from_bytes(key[1:], 'big')})"
    return key_text(key)
