"""Which sources a migration has: globs, directories, lists of paths; in one fixed order, each once.

A directory that is a source itself (a run, a record) is one input; any other is searched, its files in the order of
their names. Below the directory of a run there may be further ones, and files that are no part of it.
"""

from __future__ import annotations

import fnmatch
import functools
import glob
import hashlib
import os
import re
import stat
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from molrec_convert.errors import MissingInputError, MolrecError, UsageError
from molrec_convert.formats import Format
from molrec_convert.migration.inputs.sources import Sources
from molrec_convert.migration.settings import Settings
from molrec_convert.plugins import detect, formats
from molrec_convert.report import Report

__all__ = [
    "Above",
    "InputTable",
    "above_of",
    "beside_notes",
    "content_digest",
    "entries_of",
    "expand_inputs",
    "files_below",
    "fits_another",
    "fixed_part",
    "identity",
    "is_directory",
    "is_loop",
    "matches",
    "path_text",
    "source_format",
    "tree_facts",
]

#: What tells the directories on the way to a place from others: device and number of each.
Above = frozenset[tuple[int, int]]
_ANY_DEPTH = "**"


def above_of(path: str) -> Above:
    """Return a directory and all those it lies in, by the way it is named."""
    found = set()
    where = os.path.abspath(path)
    while True:
        found.add(_identity(where))
        parent = os.path.dirname(where)
        if parent == where:
            return frozenset(found)
        where = parent


def is_loop(path: str, above: Above) -> bool:
    """True if a directory is one of those it was reached through. Raises `OSError` for a link to itself."""
    return os.path.islink(path) and _identity(path) in above


def files_below(path: str) -> Iterator[str]:
    """Yield the files in a directory and below, in a fixed order; hidden ones are no part of a source."""
    for folder, names, files in os.walk(path):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                yield os.path.join(folder, name)


def fixed_part(pattern: str) -> str:
    """Return the directory of a glob that no wildcard is in."""
    fixed = []
    for part in pattern.split(os.sep)[:-1]:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return os.sep.join(fixed) or (os.sep if pattern.startswith(os.sep) else ".")


def matches(pattern: str) -> list[str]:
    """Return what a glob fits, `**` for any depth, sorted by name; names that begin with a dot only where the glob says
    so.
    """
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
    """Yield what the rest of a glob fits in a directory and below; all that is there where nothing follows."""
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
    """Return names in a directory; of one that may not be read none, as with any glob."""
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


#: How sure a format is of a directory that says itself what it is.
_CERTAIN = 0.9
_COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")


def entries_of(path: str) -> list[os.DirEntry[str]]:
    """Return what is in a directory, by name; hidden entries left out. Raises `OSError`."""
    return sorted((entry for entry in os.scandir(path) if not entry.name.startswith(".")), key=lambda entry: entry.name)


def identity(entry: os.DirEntry[str]) -> tuple[int, int]:
    """Return what tells an entry from others: device and number."""
    facts = entry.stat()
    return facts.st_dev, facts.st_ino


def is_directory(entry: os.DirEntry[str]) -> bool:
    """True if an entry is a directory, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:
        # a link to itself
        return False


def source_format(path: str, *, sure: bool = False) -> Format | None:
    """Return the format of a directory that is a source itself, None of any other; with `sure` of one that says so
    itself.

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
    """True if a directory has what a run there would not have: files of other formats, or any further below."""
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
    """True if the name of a file is one of formats that have nothing to do with a run of the format `found`.

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
    """Return the inputs the arguments stand for: a path, a glob, `@FILE` (a list of paths), `-` (a list on standard
    input).

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
    """Return what there is to say of files in and below the directories of runs that are no inputs of their own."""
    if not table.beside:
        return []
    count, shown = len(table.beside), ", ".join(map(path_text, table.beside[:3]))
    what = "1 file is" if count == 1 else f"{count:,} files are"
    more = ", …" if count > 3 else ""
    return [f"{what} in the directory of a run and no input ({shown}{more}): what is to be one is named by its path"]


def path_text(path: str) -> str:
    """Return a path as an index column holds it: bytes that are no UTF-8 as escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def tree_facts(path: str) -> tuple[int, int]:
    """Return bytes of a file, or of all files of a directory, and when the newest was changed (ns)."""
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
    """Yield the arguments, lists of paths written out, and whether they are of a list."""
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
    """Return the paths of a list, a line each."""
    if "\0" in text:
        raise UsageError(f"{name} is no list of paths, one a line: it has zero bytes in it")
    lines = [line.removesuffix("\r") for line in text.split("\n") if line.strip()]
    if not lines:
        raise UsageError(f"{name} names no path")
    return lines


def _found(argument: str, beside: list[str], *, listed: bool) -> Iterator[tuple[str, str, bool]]:
    """Yield path, the directory it was found below, and whether it was searched for."""
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
    """Yield a directory that is a source as itself, and further ones below, else the sources in it."""
    found = source_format(path)
    if found is None:
        yield from _searched(path, path if root is None else root, above_of(path), beside)
        return
    root = os.path.dirname(path) or "." if root is None else root
    yield path, root, False
    yield from _below(path, root, found, above_of(path), beside)


def _searched(path: str, root: str, above: Above, beside: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield the sources in a directory and below it. One that may not be read is an input, at fault when it is read."""
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
    """Yield directories that are sources themselves below that of a run; other files, all in a `deep` one, go to
    `beside`.
    """
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


_DIGEST = 16


def content_digest(path: str, wanted: Callable[[], bool] = lambda: True) -> str:
    """Return the hash of a file, or of all files of a directory and their names; of less once it is not `wanted`."""
    digest = hashlib.blake2b(digest_size=_DIGEST)
    try:
        _feed(digest, path, wanted)
    except IsADirectoryError:
        for whole in files_below(path):
            digest.update(os.path.relpath(whole, path).encode("utf-8", "surrogateescape") + b"\0")
            if os.path.isfile(whole):
                _feed(digest, whole, wanted)
    return digest.hexdigest()


def _feed(digest: Any, path: str, wanted: Callable[[], bool]) -> None:
    # most files are small: a large buffer costs more than they do
    size = 2**16
    with open(path, "rb", buffering=0) as file:
        while (block := file.read(size)) and wanted():
            digest.update(block)
            size = 2**20
