"""Faults inside plugins as errors that name plugin, format and file, or say which missing library to install.

Plugins are foreign code: their readers and writers may raise anything, at once or when a batch of frames is asked for.
Which plugin it was is found in the traceback, the innermost frame that belongs to one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from molrec_convert.errors import FormatError, MolrecError, PluginError, UnsupportedError
from molrec_convert.formats import Format, missing_library
from molrec_convert.plugins import formats_of, plugin_manager
from molrec_convert.text.compression import Decompressed

__all__ = ["Use", "naming_faults", "plugin_fault"]

#: A format at work, what it does ("reading a.points"), and the files it reads.
Use = tuple[Format, str, Sequence[str | os.PathLike[str]]]

#: An integer of 19 digits or more, which may be beyond 64 bits.
_LONG = re.compile(rb"(?<![0-9.])[0-9]{19,}(?![0-9.eE])")
#: So much of one line is looked at.
_LINE_BYTES = 2**24


@contextmanager
def naming_faults(*uses: Use) -> Iterator[None]:
    """Raise what a plugin raises inside as `plugin_fault` names it."""
    try:
        yield
    except Exception as error:
        told = plugin_fault(error, uses)
        if told is None:
            raise
        raise told from error


def plugin_fault(error: Exception, uses: Sequence[Use] = ()) -> MolrecError | None:
    """Return a fault inside a plugin as an error in one sentence; None where it is none, or one sentence already.

    `uses` are the formats that were at work. Of a library that is not installed the error says how to get it, of a
    number in a file that is too large for any integer here where it stands.
    """
    if isinstance(error, (MolrecError, OSError, MemoryError)):
        return None
    plugin = _plugin_of(error.__traceback__)
    if plugin is None:
        return None
    own = formats_of(plugin)
    working = [use for use in uses if use[0].name in own] or list(uses)
    if isinstance(error, ModuleNotFoundError):
        # where nothing is said to be at work, all formats of the plugin need the same
        owners = [entry for entry, *_ in working if entry.name in own] or list(own.values())
        missing = missing_library(error, owners[0]) if owners else None
        if missing is not None:
            return UnsupportedError(missing)
    large = _large_number(error, [path for _, _, paths in working for path in paths])
    if large is not None:
        return large
    doing = " and ".join(f"{what} as {entry.name}" for entry, what, _ in working)
    return PluginError(plugin, doing, f"{type(error).__name__}: {error}")


def _large_number(error: Exception, paths: Sequence[str | os.PathLike[str]]) -> FormatError | None:
    """Return the number in the files that is the cause of an error, as such; None where it is of another kind."""
    digits = sys.get_int_max_str_digits()
    if isinstance(error, ValueError) and "integer string conversion" in str(error):
        expected = f"at most {digits}"
    elif isinstance(error, OverflowError):
        expected = "an integer of 64 bits"
    else:
        return None
    long = not isinstance(error, OverflowError)
    for path in map(Path, paths):
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if not file.is_file():
                continue
            for line, text in _long_numbers(file):
                if len(text) > digits or (not long and (len(text) > 19 or int(text) >= 2**63)):
                    return FormatError(file, f"line {line}", found=f"a number of {len(text)} digits", expected=expected)
    return None


def _long_numbers(path: Path) -> Iterator[tuple[int, bytes]]:
    """Give the integers of many digits in a file, each with its line."""
    line, rest = 1, b""
    with Decompressed(path) as source:
        for block in source.blocks():
            text = rest[-_LINE_BYTES:] + block
            whole = text.rfind(b"\n") + 1
            yield from _in_lines(text[:whole], line)
            line += text.count(b"\n", 0, whole)
            rest = text[whole:]
    yield from _in_lines(rest, line)


def _in_lines(text: bytes, line: int) -> Iterator[tuple[int, bytes]]:
    for found in _LONG.finditer(text):
        yield line + text.count(b"\n", 0, found.start()), found.group()


def _plugin_of(trace: TracebackType | None) -> str | None:
    """Return the plugin the innermost frame belongs to that is of any."""
    packages = _packages()
    found = None
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        found = packages.get(package, found)
        trace = trace.tb_next
    return found


def _packages() -> dict[str, str]:
    """Return package → plugin, of the modules with the hooks and of those with readers and writers."""
    packages: dict[str, str] = {}
    for name, plugin in plugin_manager().list_name_plugin():
        if plugin is None or name == "stores":
            continue
        modules = [getattr(plugin, "__name__", type(plugin).__module__)]
        for entry in formats_of(name).values():
            for target in (entry.reads, entry.writes, entry.predicts, entry.joins, entry.owns):
                if target is not None:
                    modules.append(target if isinstance(target, str) else target.__module__)
        for module in modules:
            packages.setdefault(module.partition(":")[0].partition(".")[0], name)
    packages.pop("molrec_convert", None)
    return packages
