"""Which files are ASE's, by their first bytes."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["database_score", "is_mapped", "trajectory_score"]

_SQLITE = b"SQLite format 3\0"
_ULM = b"- of UlmASE-Trajectory  "
_JSON = re.compile(rb'\s*\{\s*"(\d+|ids|nextid|metadata)"\s*:\s*[\{\[\d]')
_JSON_WORDS = tuple(
    f'"{word}"'.encode() for word in ("numbers", "unique_id", "positions", "ids", "nextid", "cell", "ctime")
)


def database_score(head: bytes, path: Path) -> float:
    """Return how likely it is a database of ASE: its tables, its JSON, or the ending of its LMDB."""
    if head.startswith(_SQLITE):
        from molrec_ase.databases.rows import is_database

        return 1.0 if is_database(path) else 0.0
    if is_mapped(path):
        return 1.0
    if _JSON.match(head):
        return 0.9 if sum(word in head for word in _JSON_WORDS) >= 2 else 0.0
    return 0.0


def is_mapped(path: Path) -> bool:
    """True if a database is an LMDB file, which is mapped: what is cut short ends the process that reads it."""
    return path.name.lower().endswith(".aselmdb")


def trajectory_score(head: bytes, path: Path) -> float:
    """Return how likely it is a trajectory of ASE."""
    return 1.0 if head.startswith(_ULM) else 0.0
