"""Files of JSON documents, one a line, in which a changed byte is found.

A line ends in the member `crc32c`: the checksum of all that stands before it in the file, other checksums left out. So
a line that was altered, moved, doubled or taken out breaks those that follow as well. Where a file is whole its last
line says as `of` how many lines there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import google_crc32c

from molrec_convert.errors import FormatError
from molrec_convert.files import disk

__all__ = ["Chain", "LineFile", "Standing", "read_document", "read_lines", "standing_lines", "write_lines"]

_SUM, _OF = "crc32c", "of"
_TAIL = f', "{_SUM}": "%08x"}}\n'
_TAIL_SIZE = len(_TAIL % 0)
#: A line longer than this is none: what was written is shorter.
_LONGEST = 2**31


class Chain:
    """The checksum of the lines of one file so far, from which the next line's comes."""

    def __init__(self, value: int = 0, count: int = 0) -> None:
        self.value, self.count = value, count

    def line(self, entry: Mapping[str, Any], *, last: bool = False) -> bytes:
        """Return a document that is not empty as the next line; the `last` one says that the file is whole."""
        self.count += 1
        told = {**entry, _OF: self.count} if last else entry
        body = json.dumps(told).encode()[:-1]
        self.value = google_crc32c.extend(self.value, body)
        return body + (_TAIL % self.value).encode()

    def take(self, line: bytes) -> bytes | None:
        """Return the JSON of the line that comes next in the file; None where it is another than was written."""
        body, tail = line[:-_TAIL_SIZE], line[-_TAIL_SIZE:]
        value = google_crc32c.extend(self.value, body)
        if tail != (_TAIL % value).encode():
            return None
        self.value, self.count = value, self.count + 1
        return body + b"}"


class Standing(NamedTuple):
    """A line that stands: its JSON, and where it ends: the byte, the checksum."""

    text: bytes
    end: int
    sum: int

    def document(self) -> dict[str, Any]:
        """Return what the line says."""
        found: dict[str, Any] = json.loads(self.text)
        return found


def standing_lines(file: IO[bytes]) -> Iterator[Standing]:
    """Yield the lines of a file from its beginning, up to the first one that is not as it was written."""
    chain, end = Chain(), 0
    while line := file.readline(_LONGEST):
        text = chain.take(line)
        if text is None:
            return
        end += len(line)
        yield Standing(text, end, chain.value)


def read_lines(path: Path, hint: str) -> Iterator[dict[str, Any]]:
    """Yield the documents of a file that is whole; none where there is no file.

    Raises `FormatError` for one that is damaged, which says what to do (`hint`), at the end of what stands.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        count, whole, last = 0, False, 0
        for count, line in enumerate(standing_lines(file), 1):
            entry = line.document()
            whole, last = entry.pop(_OF, None) == count, line.end
            yield entry
        if last < path.stat().st_size:
            raise FormatError(path, f"line {count + 1}", found="a line that is not as it was written", hint=hint)
        if not whole:
            raise FormatError(path, found=f"an end after {count} lines", expected="more of them", hint=hint)


def read_document(path: Path, hint: str) -> dict[str, Any] | None:
    """Return the document of a file of one line; None where there is no file. Raises as `read_lines`."""
    found = list(read_lines(path, hint))
    return found[0] if found else None


def write_lines(path: Path, entries: Iterable[Mapping[str, Any]]) -> Chain:
    """Write a file anew, in one step, on disk when this returns; without an entry there is none. Returns its chain."""
    chain = Chain()
    following = iter(entries)
    entry = next(following, None)
    if entry is None:
        disk.remove(path)
        return chain

    def lines(entry: Mapping[str, Any]) -> Iterator[bytes]:
        for after in following:
            yield chain.line(entry)
            entry = after
        yield chain.line(entry, last=True)

    disk.replace_file(path, lines(entry))
    return chain


class LineFile:
    """A file that is written anew with some entries, and grows: after each `append` it is whole."""

    def __init__(self, path: Path, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self.path = path
        self._chain = write_lines(path, entries)

    def append(self, entries: list[dict[str, Any]]) -> None:
        """Add entries at the end."""
        if entries:
            lines = [self._chain.line(entry, last=number == len(entries)) for number, entry in enumerate(entries, 1)]
            with self.path.open("ab") as file:
                file.write(b"".join(lines))
