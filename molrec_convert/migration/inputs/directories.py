"""Directories as sources: which of them are one themselves (a run, a record), and what lies beside it."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
from pathlib import Path

from molrec_convert.errors import MolrecError, UsageError
from molrec_convert.formats import Format
from molrec_convert.migration.inputs.searching import Above, above_of, is_loop
from molrec_convert.migration.inputs.sources import Sources
from molrec_convert.migration.settings import Settings
from molrec_convert.plugins import detect, formats
from molrec_convert.report import Report

__all__ = ["entries_of", "fits_another", "identity", "is_directory", "source_format"]

#: How sure a format is of a directory that says itself what it is.
_CERTAIN = 0.9
_COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")


def entries_of(path: str) -> list[os.DirEntry[str]]:
    """What is in a directory, by name; hidden entries left out. Raises `OSError`."""
    return sorted((entry for entry in os.scandir(path) if not entry.name.startswith(".")), key=lambda entry: entry.name)


def identity(entry: os.DirEntry[str]) -> tuple[int, int]:
    """What tells an entry from others: device and number."""
    facts = entry.stat()
    return facts.st_dev, facts.st_ino


def is_directory(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a directory, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:
        # a link to itself
        return False


def source_format(path: str, *, sure: bool = False) -> Format | None:
    """The format of a directory that is a source itself, None of any other; with `sure` of one that says so itself.

    A directory that may be a run, as it has files of one, is none where it has files of other formats as well, or
    sources below it: they would be left out.
    """
    where = Path(path)
    try:
        found = detect([where])
    except (MolrecError, OSError):
        return None
    if found.sniff(b"", where) >= _CERTAIN:
        return found
    if sure:
        return None
    try:
        with Sources(Settings(), Report()).open(where, found):
            pass
    except UsageError:
        # what may be the files of one run may as well be many that do not belong together
        return None
    except Exception:  # a reader is foreign code: what is wrong is told of the input
        pass
    return None if found.combines and _holds_others(path, found, above_of(path)) else found


def _holds_others(path: str, found: Format, above: Above, *, below: bool = False) -> bool:
    """Whether a directory has what a run there would not have: files of other formats, or any further below."""
    try:
        entries = entries_of(path)
    except OSError:
        return True
    for entry in entries:
        if is_directory(entry):
            further = above if is_loop(entry.path, above) else above | {identity(entry)}
            if further is not above and _holds_others(entry.path, found, further, below=True):
                return True
            continue
        try:
            kind = detect([Path(entry.path)]).name
        except (MolrecError, OSError):
            continue
        if below or kind not in (found.name, *found.combines):
            return True
    return False


def fits_another(name: str, found: Format, *, own: bool) -> bool:
    """Whether the name of a file is one of formats that have nothing to do with a run of the format `found`.

    With `own` files that may belong to a run count as well.
    """
    plain = name.lower()
    for suffix in _COMPRESSIONS:
        plain = plain.removesuffix(suffix)
    return _others(None if own else found.name).match(plain) is not None


@functools.lru_cache(16)
def _others(name: str | None) -> re.Pattern[str]:
    family = set() if name is None else {name, *formats()[name].combines}
    others = [entry for entry in formats().values() if entry.reads is not None and entry.name not in family]
    patterns = [fnmatch.translate(pattern.lower()) for entry in others for pattern in entry.patterns]
    return re.compile("|".join(patterns) or "(?!)")
