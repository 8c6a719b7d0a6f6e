"""Whether a file is XYZ, from its first lines. Importing this module loads neither numpy nor any reader."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["extxyz_score", "is_extended", "xyz_score"]

_COUNT = re.compile(rb"[ \t]*\+?[0-9]{1,12}[ \t]*\r?")
#: What only extended files have in the second line of a frame.
_EXTENDED = re.compile(rb"(?:^|[\s\"'])(?:Properties|Lattice)[ \t]*=", re.IGNORECASE)
_ROW = re.compile(rb"[ \t]*\S+(?:[ \t]+[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+|nan|inf)\S*){3}", re.IGNORECASE)
_BOM = b"\xef\xbb\xbf"


def is_extended(comment: bytes) -> bool:
    """True if the second line of a frame is that of an extended file."""
    return _EXTENDED.search(comment) is not None


def xyz_score(head: bytes, path: Path) -> float:
    """Return a plain file: a number, a line of any text, rows of a label and three numbers."""
    lines = _lines(head)
    if lines is None or is_extended(lines[1]):
        return 0.0
    count = int(lines[0])
    if not count:
        return 0.5 if path.name.lower().endswith("xyz") else 0.0
    return 0.9 if len(lines) > 2 and _ROW.match(lines[2]) else 0.0


def extxyz_score(head: bytes, path: Path) -> float:
    """Return an extended file: a number, and a line of keys and values that name columns or a cell."""
    lines = _lines(head)
    return 1.0 if lines is not None and is_extended(lines[1]) else 0.0


def _lines(head: bytes) -> list[bytes] | None:
    """Return the first three lines, blank ones before them left out; None where the first is no number of atoms."""
    text = head.removeprefix(_BOM).lstrip(b" \t\r\n")
    lines = text.split(b"\n", 3)[:3]
    return lines if len(lines) > 1 and _COUNT.fullmatch(lines[0]) else None
