"""The header of one frame of a dump, read line by line, every fault named with its line; and where its rows end.

    ITEM: UNITS / word           once per dump, before its first frame
    ITEM: TIME / value           in every frame, before TIMESTEP
    ITEM: TIMESTEP / n
    ITEM: NUMBER OF ATOMS / n
    ITEM: BOX BOUNDS [xy xz yz | abc origin] [pp pp pp] / 3 lines
    ITEM: ATOMS names            then n rows

Source: the manual, "dump"; order, precision and forms as the 22 Jul 2025 release writes them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_lammps.dump.source import LineReader, Source

__all__ = [
    "CutHeader",
    "Header",
    "RowsEnd",
    "check_rows",
    "check_values",
    "column_names",
    "layout_of_box",
    "read_header",
    "rows_end",
    "shown",
]

#: Digits of the largest number of 64 bits; Python refuses to read thousands of them.
_MOST_DIGITS = 19
_BOX_WORDS = re.compile(r"((xy xz yz|abc origin)( |$))?([pfsm]{1,2}( [pfsm]{1,2}){2})?")
#: A frame of so many atoms would take petabytes; with fewer, numbers of rows can be added up.
_MOST_ATOMS = 2**45
#: Text that is looked through at once for the end of rows.
_BLOCK_BYTES = 2**20
_BLANK = b" \t\r\n"
_ORDER = ("TIMESTEP", "NUMBER OF ATOMS", "BOX BOUNDS", "ATOMS")


class CutHeader(Exception):
    """The text ends inside a header."""


@dataclass(frozen=True)
class Header:
    """One frame's header. `start` and `rows` are the offsets of its first line and of its first row.

    `box_words` are the words after BOX BOUNDS, `bounds` the numbers of the three lines, in order. `lines` is the
    number of lines of the header, `line` that of its first.
    """

    start: int
    rows: int
    line: int
    lines: int
    step: int
    count: int
    columns: tuple[str, ...]
    box_words: tuple[str, ...]
    bounds: tuple[float, ...]
    time: float | None
    units: str | None


def read_header(reader: LineReader) -> Header:
    """Return the header that begins at the reader's line; the reader then stands at the first row.

    `FormatError` names the line of what is wrong; `CutHeader`: the text ends before the header does.
    """
    path, start, first = reader.source.path, reader.offset, reader.line
    items: dict[str, tuple[str, list[bytes]]] = {}
    while "ATOMS" not in items:
        line, number = _line(reader), reader.line - 1
        name, text = _item(line, path, number, items)
        if name in items:
            raise FormatError(path, f"line {number}", found=f"a second {shown(line)}", expected=_next(items))
        values = {"BOX BOUNDS": 3, "ATOMS": 0}.get(name, 1)
        items[name] = (text, [_line(reader) for _ in range(values)])
        if name == "ATOMS":
            missing = [item for item in _ORDER if item not in items]
            if missing:
                raise FormatError(path, f"line {number}", found=shown(line), expected=f"'ITEM: {missing[0]}' before it")
        else:
            check_values(name, text, items[name][1], path, number + 1)
    words = tuple(items["BOX BOUNDS"][0].split())
    bounds = [float(word) for row in items["BOX BOUNDS"][1] for word in row.split()]
    return Header(
        start,
        reader.offset,
        first,
        reader.line - first,
        int(items["TIMESTEP"][1][0]),
        int(items["NUMBER OF ATOMS"][1][0]),
        column_names(items["ATOMS"][0], path, reader.line - 1),
        words,
        tuple(bounds),
        float(items["TIME"][1][0]) if "TIME" in items else None,
        items["UNITS"][1][0].decode("latin-1").strip() if "UNITS" in items else None,
    )


def column_names(words: str, path: Path, line: int) -> tuple[str, ...]:
    """Return the columns an ATOMS item names; none at all, or one named twice, is an error."""
    names = tuple(words.split())
    if not names:
        raise FormatError(path, f"line {line}", found="'ITEM: ATOMS' without column names", expected="names of columns")
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise FormatError(path, f"line {line}", found=f"the column {twice[0]!r} twice", expected="each column once")
    return names


def layout_of_box(words: tuple[str, ...]) -> tuple[str, tuple[bool, bool, bool] | None]:
    """Return `"plain"`, `"tilted"` or `"general"`, and which axes are periodic (None where a file of old does not
    say).
    """
    kind, flags = "plain", words
    if words[:3] == ("xy", "xz", "yz"):
        kind, flags = "tilted", words[3:]
    elif words[:2] == ("abc", "origin"):
        kind, flags = "general", words[2:]
    if not flags:
        return kind, None
    first, second, third = (set(flag) == {"p"} for flag in flags)
    return kind, (first, second, third)


def shown(line: bytes | str, limit: int = 60) -> str:
    """Return a line as an error shows it."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    text = " ".join(text[: 4 * limit].split())
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


def _line(reader: LineReader) -> bytes:
    line = reader.next()
    if line is None or not line.endswith(b"\n"):
        raise CutHeader
    return line


def _item(line: bytes, path: Path, number: int, items: dict[str, tuple[str, list[bytes]]]) -> tuple[str, str]:
    """Return the name of an item and the words after it."""
    text = line.decode("utf-8", "replace").strip()
    if not text.startswith("ITEM:"):
        raise FormatError(path, f"line {number}", found=shown(line), expected=_next(items))
    text = text[5:].strip()
    for name in ("TIMESTEP", "TIME", "UNITS", "NUMBER OF ATOMS", "BOX BOUNDS", "ATOMS"):
        if text == name or (name in ("BOX BOUNDS", "ATOMS") and text.startswith(name + " ")):
            return name, text[len(name) :]
    if text.startswith(("NUMBER OF ", "ENTRIES", "GRID", "DIMENSION")):
        raise UnsupportedError(
            f"{path}, line {number}: found {shown(line)}, expected 'ITEM: NUMBER OF ATOMS': "
            "a frame of dump local or dump grid in a dump of atoms; named as a file of its own it is read beside it"
        )
    raise FormatError(path, f"line {number}", found=shown(line), expected=_next(items))


def _next(items: dict[str, tuple[str, list[bytes]]]) -> str:
    """Return the item that comes next in words."""
    return f"'ITEM: {next(name for name in _ORDER if name not in items)}'"


def check_values(name: str, words: str, lines: list[bytes], path: Path, number: int) -> None:
    """Refuse values of an item that are not what it holds."""
    if name in ("TIMESTEP", "NUMBER OF ATOMS"):
        text = lines[0].strip()
        digits = text.removeprefix(b"-") if name == "TIMESTEP" else text
        most = 2**63 if name == "TIMESTEP" else _MOST_ATOMS
        if not digits.isdigit() or len(digits) > _MOST_DIGITS or not -(2**63) <= int(text) < most:
            what = "a step number" if name == "TIMESTEP" else "a number of atoms"
            raise FormatError(path, f"line {number}", found=shown(lines[0]), expected=what)
    elif name == "TIME":
        _numbers(lines[0], 1, path, number, "the time")
    elif name == "UNITS":
        if len(lines[0].split()) != 1:
            raise FormatError(path, f"line {number}", found=shown(lines[0]), expected="a units style")
    else:
        if not _BOX_WORDS.fullmatch(" ".join(words.split())):
            raise FormatError(
                path,
                f"line {number - 1}",
                found=shown(f"ITEM: BOX BOUNDS {words}"),
                expected="[xy xz yz | abc origin] and the letters of three boundaries, or none",
            )
        kind, _ = layout_of_box(tuple(words.split()))
        width = {"plain": 2, "tilted": 3, "general": 4}[kind]
        for offset, line in enumerate(lines):
            _numbers(line, width, path, number + offset, f"{width} numbers of the {kind} box")
        if kind != "general":
            _check_lengths(lines, path, number)


def _check_lengths(lines: list[bytes], path: Path, number: int) -> None:
    """Refuse bounds that end before they begin, tilts taken off."""
    rows = [[float(word) for word in line.split()] for line in lines]
    xy, xz, yz = (row[2] if len(row) > 2 else 0.0 for row in rows)
    beyond = (max(0, xy, xz, xy + xz) - min(0, xy, xz, xy + xz), abs(yz), 0.0)
    for offset, (row, tilts) in enumerate(zip(rows, beyond, strict=True)):
        # what rounding leaves of a flat cell is no fault
        if row[1] - row[0] - tilts < -1e-9 * max(1.0, tilts, abs(row[0]), abs(row[1])):
            raise FormatError(
                path, f"line {number + offset}", found=shown(lines[offset]), expected="a low bound below the high one"
            )


def _numbers(line: bytes, count: int, path: Path, number: int, what: str) -> None:
    words = line.split()
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = []
    if len(values) != count or not all(map(math.isfinite, values)) or b"_" in line:
        raise FormatError(path, f"line {number}", found=shown(line), expected=what)


@dataclass(frozen=True)
class RowsEnd:
    """Where the rows of a frame end: the next ITEM line, or the end of the text.

    `stop` is that place (without blank lines at the end of the text), `lines` the number of lines before it,
    `item` whether an ITEM line follows, `terminated` whether the last line has its end.
    """

    stop: int
    lines: int
    item: bool
    terminated: bool = True


class _Frame(Protocol):
    """What a header says of the rows after it."""

    @property
    def rows(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def columns(self) -> tuple[str, ...]: ...


def rows_end(source: Source, start: int, block: int = _BLOCK_BYTES) -> RowsEnd:
    """Return where the rows that begin at `start` end; every line is counted. `block` is read first."""
    block = min(block, _BLOCK_BYTES)
    offset, lines, carry = start, 0, b"\n"
    content, content_lines, ending = start, 0, -1
    while text := source.read(offset, offset + block):
        block = min(_BLOCK_BYTES, 4 * block)
        found = (carry + text).find(b"\nITEM:")
        if found >= 0:
            item = offset - len(carry) + found + 1
            return RowsEnd(item, lines + text[: max(0, item - offset)].count(b"\n"), True)
        stripped = text.rstrip(_BLANK)
        if stripped:
            content, content_lines, ending = offset + len(stripped), lines + stripped.count(b"\n"), -1
        if ending < 0:
            newline = text.find(b"\n", max(0, content - offset))
            ending = offset + newline if newline >= 0 else -1
        lines += text.count(b"\n")
        offset += len(text)
        carry = (carry + text)[-5:]
    if content == start:
        return RowsEnd(start, 0, False)
    return RowsEnd(content if ending < 0 else ending + 1, content_lines + 1, False, ending >= 0)


def check_rows(
    reader: LineReader, frame: _Frame, end: RowsEnd, notes: list[str], mark: str = "ITEM: TIMESTEP"
) -> str | None:
    """Refuse a wrong number of rows; return a sentence where the text ends inside them.

    The reader stands at the first row; `mark` is the line that follows the last.
    """
    path, rows = reader.source.path, f"the {frame.count} rows of step {frame.step}"
    if end.item:
        if end.lines < frame.count:
            reader.skip(end.stop, end.lines)
            raise FormatError(
                path,
                f"line {reader.line}",
                found=shown(reader.peek() or b""),
                expected=f"row {end.lines + 1} of {rows}",
            )
        if end.lines == frame.count:
            return None
    rest = LineReader(reader.source.again(), frame.rows, reader.line)
    if end.lines > frame.count:
        for _ in range(frame.count):
            rest.next()
        raise FormatError(path, f"line {rest.line}", found=shown(rest.peek() or b""), expected=f"{mark!r} after {rows}")
    last = end.lines
    if not end.terminated:
        for _ in range(end.lines - 1):
            rest.next()
        if len((rest.peek() or b"").split()) < len(frame.columns):
            last -= 1
        elif end.lines == frame.count:
            notes.append(
                f"{path}, line {rest.line}: the file ends without a line end: its last value may have been cut off"
            )
    if last == frame.count:
        return None
    return f"line {reader.line + last}: the file ends after {last} of {rows}; that frame is left out"
