"""The bytes of a data file, its lines one at a time (header, headings, small sections), and names of types.

Rows of sections go through `data_rows`, whole sections at once.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.text.contents import Contents

__all__ = [
    "FLOAT",
    "INTEGER",
    "Buffer",
    "Cursor",
    "brief",
    "decode",
    "lines_of",
    "load",
    "names_column",
    "split_comment",
]

#: A whole file in memory, or mapped.
Buffer = bytes | mmap.mmap

#: A number as LAMMPS reads one: no Fortran exponent, no nan, no inf, no hexadecimal.
FLOAT = re.compile(rb"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
INTEGER = re.compile(rb"[-+]?[0-9]+")

_BLANKS = re.compile(r"[ \t\r\n]+")
_COMMENT = re.compile(rb"(?:^|(?<=[ \t\r]))#")


def load(path: str | PathLike[str]) -> Buffer:
    """Return the text of a file: mapped into memory, or decompressed (.gz .bz2 .xz .zst, told by content)."""
    contents = Contents(path)
    if contents.cut is not None:
        raise FormatError(path, "its end", found=contents.cut, expected="the end of the compressed stream")
    return contents.data


def decode(raw: bytes) -> str:
    """Return text of a title, label or comment: UTF-8, else Latin-1, so that no byte is lost."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def lines_of(raw: bytes) -> list[bytes]:
    """Return the lines of a section, without their ends."""
    return [line.rstrip(b"\r") for line in raw.removesuffix(b"\n").split(b"\n")] if raw else []


def brief(raw: bytes, limit: int = 60) -> str:
    """Return a line or word as an error shows it: quoted, shortened, blanks squeezed."""
    text = _BLANKS.sub(" ", decode(raw[: 4 * limit])).strip(" ")
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


def split_comment(line: bytes) -> tuple[bytes, bytes | None]:
    """Return a row and its comment: `#` begins one at the start of a line or after a blank (`C#1` is a label)."""
    found = _COMMENT.search(line)
    return (line, None) if found is None else (line[: found.start()], line[found.end() :])


class Cursor:
    """A place in the file that moves line by line. `line` is the 1-based number of the line at `position`."""

    def __init__(self, data: Buffer, position: int = 0, line: int = 1) -> None:
        self.data, self.position, self.line = data, position, line

    @property
    def at_end(self) -> bool:
        """Whether no line is left."""
        return self.position >= len(self.data)

    def peek(self) -> bytes:
        """Return the line at the cursor, without its end; empty at the end of the file."""
        return self.data[self.position : self._end()].rstrip(b"\r\n")

    def advance(self) -> None:
        """To the next line."""
        self.position = self._end()
        self.line += 1

    def lines(self) -> Iterator[bytes]:
        """Yield the lines from here on. While one is in hand the cursor still stands on it."""
        while not self.at_end:
            yield self.peek()
            self.advance()

    def _end(self) -> int:
        end = self.data.find(b"\n", self.position)
        return len(self.data) if end < 0 else end + 1


_STRING = np.dtypes.StringDType()


def names_column(names: Sequence[str], numbers: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Return `names[number]` for each number, as a StringDType array.

    Words of fixed width are picked first and cast at once: five times as fast as picking from a StringDType array.
    """
    fixed = np.array(names, dtype="S" if all(name.isascii() for name in names) else "U")
    column: NDArray[Any] = fixed[numbers].astype(_STRING)
    return column
