"""Which sources a migration has: globs, directories, lists of paths; in one fixed order, each once.

A directory that is a source itself (a run, a record) is one input; any other is searched, its files in the order of
their names. Below the directory of a run there may be further ones, and files that are no part of it.
"""

from __future__ import annotations

import glob
import os
import stat
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from molrec_convert.errors import MissingInputError, UsageError
from molrec_convert.formats import Format
from molrec_convert.migration.inputs.directories import entries_of, fits_another, identity, is_directory, source_format
from molrec_convert.migration.inputs.searching import Above, above_of, files_below, fixed_part, is_loop, matches

__all__ = ["InputTable", "beside_notes", "expand_inputs", "path_text", "tree_facts"]

#: What is a list of paths, one a line: this before the name of a file.
LIST_MARK = "@"


class InputTable:
    """The inputs in order: `paths`, `sizes` in bytes, `stamps` (ns, of the newest file), whether it was `searched` for.

    Lists of numbers are packed, as there may be millions. `roots` says below which directory an input was found.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.sizes: array[int] = array("q")
        self.stamps: array[int] = array("q")
        self.searched = bytearray()
        self.roots: list[str] = []
        #: Files in and below the directories of runs that are no inputs of their own, and could be.
        self.beside: list[str] = []
        #: Whether the output is named as an input; it is none.
        self.names_output = False

    def __len__(self) -> int:
        return len(self.paths)

    def add(self, path: str, root: str, *, searched: bool) -> None:
        """One more input. What cannot be looked at is an input at fault when it is to be read."""
        try:
            size, stamp = tree_facts(path)
        except OSError:
            size, stamp = 0, 0
        self.paths.append(path)
        self.roots.append(root)
        self.sizes.append(size)
        self.stamps.append(stamp)
        self.searched.append(searched)

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        return sum(self.sizes)


def expand_inputs(arguments: Sequence[str | os.PathLike[str]], output: Path) -> InputTable:
    """The inputs the arguments stand for: a path, a glob, `@FILE` (a list of paths), `-` (a list on standard input).

    Raises `UsageError` for one that stands for nothing, `MissingInputError` for a path that is not there. In a list
    that is no reason to stop: such a path is an input at fault.
    """
    table = InputTable()
    known: set[str] = set()
    own = os.path.abspath(output)
    inside = 0
    for argument, listed in _listed(arguments):
        for path, root, searched in _found(argument, table.beside, listed=listed):
            where = os.path.abspath(path)
            if where == own or where.startswith(own + os.sep):
                inside += 1
                table.names_output |= where == own and argument == path
            elif where not in known:
                known.add(where)
                table.add(path, root, searched=searched)
    if not table and inside:
        raise UsageError(f"all inputs lie in {output}, where the results are to go: name another place for these")
    if not table:
        raise UsageError(f"there is no file in {', '.join(map(str, arguments)) or 'what is named'}")
    return table


def beside_notes(table: InputTable) -> list[str]:
    """What there is to say of files in and below the directories of runs that are no inputs of their own."""
    if not table.beside:
        return []
    count, shown = len(table.beside), ", ".join(map(path_text, table.beside[:3]))
    what = "1 file is" if count == 1 else f"{count:,} files are"
    more = ", …" if count > 3 else ""
    return [f"{what} in the directory of a run and no input ({shown}{more}): what is to be one is named by its path"]


def path_text(path: str) -> str:
    """A path as an index column holds it: bytes that are no UTF-8 as escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def tree_facts(path: str) -> tuple[int, int]:
    """Bytes of a file, or of all files of a directory, and when the newest was changed (ns)."""
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        raise MissingInputError(path) from None
    if not stat.S_ISDIR(facts.st_mode):
        return facts.st_size, facts.st_mtime_ns
    size, stamp = 0, 0
    for where in files_below(path):
        try:
            entry = os.stat(where)
        except OSError:
            # a link to what is not there any more
            entry = os.lstat(where)
        size, stamp = size + entry.st_size, max(stamp, entry.st_mtime_ns)
    return size, stamp


def _listed(arguments: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[str, bool]]:
    """The arguments, lists of paths written out, and whether they are of a list."""
    for given in arguments:
        argument = os.fspath(given)
        if argument == "-":
            yield from ((line, True) for line in _lines(_standard_input(), "standard input"))
        elif argument.startswith(LIST_MARK) and not os.path.lexists(argument):
            try:
                text = Path(argument[1:]).read_text(encoding="utf-8", errors="surrogateescape")
            except FileNotFoundError:
                raise MissingInputError(argument[1:]) from None
            yield from ((line, True) for line in _lines(text, argument[1:]))
        else:
            yield argument, False


def _standard_input() -> str:
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("- is a list of paths on standard input, which is closed")
    try:
        # names of files may be of any bytes
        return os.fsdecode(sys.stdin.buffer.read())
    except AttributeError:
        return sys.stdin.read()


def _lines(text: str, name: str) -> list[str]:
    """The paths of a list, a line each."""
    if "\0" in text:
        raise UsageError(f"{name} is no list of paths, one a line: it has zero bytes in it")
    lines = [line.removesuffix("\r") for line in text.split("\n") if line.strip()]
    if not lines:
        raise UsageError(f"{name} names no path")
    return lines


def _found(argument: str, beside: list[str], *, listed: bool) -> Iterator[tuple[str, str, bool]]:
    """Path, the directory it was found below, and whether it was searched for."""
    if os.path.isdir(argument):
        yield from _directory(argument.rstrip(os.sep) or os.sep, None, beside)
    elif os.path.exists(argument):
        yield argument, os.path.dirname(argument) or ".", False
    elif glob.has_magic(argument) and not os.path.lexists(argument):
        found = matches(argument)
        if not found:
            raise UsageError(f"no file fits {argument}")
        root = fixed_part(argument)
        for path in found:
            if not os.path.isdir(path):
                yield path, root, False
            elif not argument.rstrip(os.sep).endswith("**"):
                # what '**' finds are the files below; the directories are only on the way to them
                yield from _directory(path.rstrip(os.sep), root, beside)
    elif listed:
        yield argument, os.path.dirname(argument) or ".", False
    else:
        raise MissingInputError(argument)


def _directory(path: str, root: str | None, beside: list[str]) -> Iterator[tuple[str, str, bool]]:
    """A directory that is a source as itself, and further ones below, else the sources in it."""
    found = source_format(path)
    if found is None:
        yield from _searched(path, path if root is None else root, above_of(path), beside)
        return
    root = os.path.dirname(path) or "." if root is None else root
    yield path, root, False
    yield from _below(path, root, found, above_of(path), beside)


def _searched(path: str, root: str, above: Above, beside: list[str]) -> Iterator[tuple[str, str, bool]]:
    """The sources in a directory and below it. One that may not be read is an input, at fault when it is read."""
    try:
        entries = entries_of(path)
    except OSError:
        yield path, root, True
        return
    for entry in entries:
        if not is_directory(entry):
            yield entry.path, root, True
        elif not is_loop(entry.path, above):
            found, further = source_format(entry.path), above | {identity(entry)}
            if found is None:
                yield from _searched(entry.path, root, further, beside)
            else:
                yield entry.path, root, True
                yield from _below(entry.path, root, found, further, beside)


def _below(
    path: str, root: str, found: Format, above: Above, beside: list[str], *, deep: bool = False
) -> Iterator[tuple[str, str, bool]]:
    """Directories that are sources themselves below that of a run; other files, all in a `deep` one, go to `beside`."""
    if not found.combines:
        return
    try:
        entries = entries_of(path)
    except OSError:
        return
    for entry in entries:
        if not is_directory(entry):
            if fits_another(entry.name, found, own=deep):
                beside.append(entry.path)
        elif not is_loop(entry.path, above):
            other, further = source_format(entry.path, sure=True), above | {identity(entry)}
            if other is not None:
                yield entry.path, root, True
            yield from _below(entry.path, root, other or found, further, beside, deep=other is None)
