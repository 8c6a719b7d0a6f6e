"""Files below directories and those a glob fits, in a fixed order; links that lead back up are not followed.

`glob` of the standard library goes round such links until the system refuses, which for two of them is never.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence

__all__ = ["Above", "above_of", "files_below", "fixed_part", "is_loop", "matches"]

#: What tells the directories on the way to a place from others: device and number of each.
Above = frozenset[tuple[int, int]]
_ANY_DEPTH = "**"


def above_of(path: str) -> Above:
    """A directory and all those it lies in, by the way it is named."""
    found = set()
    where = os.path.abspath(path)
    while True:
        found.add(_identity(where))
        parent = os.path.dirname(where)
        if parent == where:
            return frozenset(found)
        where = parent


def is_loop(path: str, above: Above) -> bool:
    """Whether a directory is one of those it was reached through. Raises `OSError` for a link to itself."""
    return os.path.islink(path) and _identity(path) in above


def files_below(path: str) -> Iterator[str]:
    """Yield the files in a directory and below, in a fixed order; hidden ones are no part of a source."""
    for folder, names, files in os.walk(path):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                yield os.path.join(folder, name)


def fixed_part(pattern: str) -> str:
    """The directory of a glob that no wildcard is in."""
    fixed = []
    for part in pattern.split(os.sep)[:-1]:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return os.sep.join(fixed) or (os.sep if pattern.startswith(os.sep) else ".")


def matches(pattern: str) -> list[str]:
    """What a glob fits, `**` for any depth, sorted by name; names that begin with a dot only where the glob says so."""
    root = fixed_part(pattern)
    bare = root == "." and not pattern.startswith("." + os.sep)
    if not os.path.isdir(root):
        return []
    parts: list[str] = []
    for part in (pattern if bare else pattern[len(root) :]).split(os.sep):
        if part and not (part == _ANY_DEPTH and parts[-1:] == [_ANY_DEPTH]):
            parts.append(part)
    found = set(_fitting("" if bare else root, parts, above_of(root)))
    return sorted(path for path in found if not pattern.endswith(os.sep) or os.path.isdir(path))


def _fitting(folder: str, parts: Sequence[str], above: Above) -> Iterator[str]:
    part, rest = parts[0], parts[1:]
    if part == _ANY_DEPTH:
        yield from _any_depth(folder, rest, above)
        return
    if not glob.has_magic(part):
        names = [part] if os.path.lexists(os.path.join(folder, part)) else []
    else:
        fits = _fits(part)
        names = [name for name in _names(folder) if fits(name)]
    for name in names:
        where = os.path.join(folder, name)
        if not rest:
            yield where
        elif os.path.isdir(where):
            yield from _fitting(where, rest, above | {_identity(where)})


def _any_depth(folder: str, rest: Sequence[str], above: Above) -> Iterator[str]:
    """What the rest of a glob fits in a directory and below; all that is there where nothing follows."""
    if rest:
        yield from _fitting(folder, rest, above)
    try:
        entries = list(os.scandir(folder or "."))
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        where = os.path.join(folder, entry.name)
        if not rest:
            yield where
        directory = os.path.isdir(where) if entry.is_symlink() else entry.is_dir()
        if directory and not is_loop(where, above):
            yield from _any_depth(where, rest, above | {_identity(where)})


def _names(folder: str) -> list[str]:
    """Names in a directory; of one that may not be read none, as with any glob."""
    try:
        return os.listdir(folder or ".")
    except OSError:
        return []


def _fits(part: str) -> Callable[[str], object]:
    matcher = re.compile(fnmatch.translate(part)).match
    return matcher if part.startswith(".") else lambda name: not name.startswith(".") and matcher(name)


def _identity(path: str) -> tuple[int, int]:
    facts = os.stat(path)
    return facts.st_dev, facts.st_ino
