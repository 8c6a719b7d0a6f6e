"""YAML dumps (`dump yaml`): where each frame is and what it says, and its rows in the form of a text dump.

    ---
    creator: LAMMPS
    timestep: 0
    units: real                            dump_modify units yes, in the first document only
    time: 0                                dump_modify time yes
    natoms: 2
    boundary: [ p, p, p, p, p, p, ]
    thermo:                                dump_modify thermo yes
      - keywords: [ Step, Temp, ]
      - data: [ 0, 1.5, ]
    box:
      - [ 0, 6 ]                           the bounds of the box around a tilted cell
      - [ 0, 4 ]
      - [ 0, 4 ]
      - [ 1.5, -0.5, 0 ]                   xy xz yz, of a tilted cell only
    keywords: [ id, type, x, y, z,  ]
    data:
      - [ 1 , 1 , 0 , 0 , 0, ]
    ...

Only headers are read line by line; rows are looked for as whole stretches of text. With `dump_modify triclinic/general`
the coordinates are rotated and the box is not, so that the file contradicts itself: it is refused where that shows.
Source: LAMMPS manual, "dump yaml"; files of the 22 Jul 2025 release.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from molrec_convert.errors import FormatError
from molrec_lammps.dump.frames import FileIndex, FoundFrames, finish
from molrec_lammps.dump.header import CutHeader, Header, RowsEnd, check_rows, column_names, shown
from molrec_lammps.dump.source import LineReader, Source
from molrec_lammps.log.tables import Thermo, header_names

__all__ = ["is_yaml", "read_yaml_header", "yaml_index", "yaml_rows"]

_BLOCK_BYTES = 2**20
_END = b"\n..."
_LIST = re.compile(r"\[\s*(.*?)[\s,]*\]\s*$")
_INTEGER = re.compile(r"-?\d+")


def is_yaml(head: bytes) -> bool:
    """True if a text begins like a YAML dump."""
    lines = [line.strip() for line in head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 3)[:3]]
    return lines[:2] == [b"---", b"creator: LAMMPS"] and (len(lines) < 3 or lines[2].startswith(b"timestep:"))


def yaml_rows(text: bytes) -> bytes:
    """Return rows of a YAML dump as those of a text dump: values parted by single blanks, a row a line."""
    if text.startswith(b"  - [ "):
        text = text[6:]
    text = text.replace(b", ]\n  - [ ", b"\n").replace(b" , ", b" ")
    return text.removesuffix(b", ]\n") + b"\n" if text.endswith(b", ]\n") else _slow_rows(text)


def yaml_index(source: Source) -> FileIndex:
    """Return the frames of a YAML dump. `FormatError`: no frame is whole, or a header has a fault."""
    reader = LineReader(source, block=2**12)
    found = FoundFrames(source)
    breaks: list[str] = []
    thermo = _Rows()
    while (line := reader.peek()) is not None:
        if not line.strip():
            reader.next()
            continue
        try:
            document = _document(reader)
        except CutHeader:
            breaks.append(
                f"line {reader.line}: the file ends inside the header of frame {len(found)}, which is left out"
            )
            break
        header = document.header
        end = _rows_end(source, header)
        fault = check_rows(reader, header, end, [], "...")
        if fault is not None:
            breaks.append(fault)
            break
        found.add(header, end.stop)
        thermo.add(header.step, document.thermo)
        reader.skip(end.stop, end.lines)
        if end.item:
            reader.next()
    index = finish(found, breaks, [])
    index.thermo = thermo.thermo()
    return index


def read_yaml_header(reader: LineReader) -> Header:
    """Return the header of the document at the reader's line."""
    return _document(reader).header


@dataclass
class _Document:
    """The header of one document: as that of a text frame, and the thermo output it states."""

    header: Header
    thermo: tuple[list[str], list[float]] | None


@dataclass
class _Rows:
    """Thermo output of the frames; the words may change between them."""

    rows: list[tuple[int, list[str], list[float]]] = field(default_factory=list)

    def add(self, step: int, thermo: tuple[list[str], list[float]] | None) -> None:
        if thermo is not None:
            self.rows.append((step, *thermo))

    def thermo(self) -> Thermo | None:
        """Return all of it by step, of one step the later."""
        if not self.rows:
            return None
        by_step = {step: dict(zip(words, values, strict=True)) for step, words, values in self.rows}
        names = header_names(word for _, words, _ in self.rows for word in words if word != "Step")
        steps = sorted(by_step)
        columns = {
            name: np.array([by_step[step].get(word, math.nan) for step in steps], dtype=np.float64)
            for word, name in names.items()
        }
        there = {name: np.array([word in by_step[step] for step in steps]) for word, name in names.items()}
        return Thermo(
            np.array(steps, dtype=np.int64), columns, {name: known for name, known in there.items() if not known.all()}
        )


def _document(reader: LineReader) -> _Document:
    """Return the header that begins at the reader's line; the reader then stands at the first row."""
    path, start, first = reader.source.path, reader.offset, reader.line
    _expect(reader, "---")
    values: dict[str, str] = {}
    lists: dict[str, list[tuple[int, str]]] = {}
    while True:
        number = reader.line
        text = _line(reader)
        key, colon, value = text.partition(":")
        if not colon or text[:1].isspace():
            raise FormatError(path, f"line {number}", found=shown(text), expected="'key: value' of a YAML dump")
        if key in values:
            raise FormatError(path, f"line {number}", found=f"a second {key!r}", expected="each key once")
        values[key] = value.strip()
        if key == "data":
            break
        if key in ("box", "thermo"):
            lists[key] = []
            while (reader.peek() or b"").startswith(b"  - "):
                lists[key].append((reader.line, _line(reader)[4:]))
    missing = [key for key in ("timestep", "natoms", "boundary", "box", "keywords") if key not in values]
    if missing:
        raise FormatError(path, f"line {number}", found="'data:'", expected=f"'{missing[0]}:' before it")
    for key in ("timestep", "natoms"):
        if not _INTEGER.fullmatch(values[key]) or (key == "natoms" and values[key].startswith("-")):
            raise FormatError(path, f"line {first}", found=f"{key} {values[key]!r}", expected="a whole number")
    words, bounds = _box(lists["box"], values["boundary"], path, first)
    names = _items(values["keywords"], path, number - 1)
    time = _number(values["time"], path, first) if "time" in values else None
    header = Header(
        start,
        reader.offset,
        first,
        reader.line - first,
        int(values["timestep"]),
        int(values["natoms"]),
        column_names(" ".join(names), path, number - 1),
        words,
        bounds,
        time,
        values.get("units"),
    )
    return _Document(header, _thermo(lists.get("thermo"), path))


def _box(
    rows: Sequence[tuple[int, str]], boundary: str, path: Path, line: int
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the cell as the words and numbers of a text dump's BOX BOUNDS."""
    letters = _items(boundary, path, line)
    if len(letters) != 6 or not set(letters) <= set("pfsm"):
        raise FormatError(path, f"line {line}", found=f"boundary {boundary}", expected="the letters of six boundaries")
    flags = tuple(low + high for low, high in zip(letters[::2], letters[1::2], strict=True))
    numbers = [[_number(word, path, at) for word in _items(text, path, at)] for at, text in rows]
    if [len(row) for row in numbers] not in ([2, 2, 2], [2, 2, 2, 3]):
        at = rows[0][0] if rows else line
        raise FormatError(
            path, f"line {at}", found="another box", expected="three rows [lo, hi] and, tilted, [xy, xz, yz]"
        )
    if len(numbers) == 3:
        return flags, tuple(value for row in numbers for value in row)
    return ("xy", "xz", "yz", *flags), tuple(
        v for row, tilt in zip(numbers[:3], numbers[3], strict=True) for v in (*row, tilt)
    )


def _thermo(rows: Sequence[tuple[int, str]] | None, path: Path) -> tuple[list[str], list[float]] | None:
    if not rows:
        return None
    found: dict[str, list[str]] = {}
    for at, text in rows:
        key, _, value = text.partition(":")
        found[key.strip()] = _items(value, path, at)
    words, data = found.get("keywords", []), found.get("data", [])
    if len(words) != len(data):
        raise FormatError(
            path, f"line {rows[-1][0]}", found=f"{len(data)} values of thermo output", expected=f"{len(words)}"
        )
    return words, [_number(word, path, rows[-1][0], finite=False) for word in data]


def _items(text: str, path: Path, line: int) -> list[str]:
    match = _LIST.match(text.strip())
    if match is None:
        raise FormatError(path, f"line {line}", found=shown(text), expected="a list '[ ... ]'")
    return [word.strip().strip("'\"") for word in match[1].split(",")] if match[1].strip() else []


def _number(word: str, path: Path, line: int, *, finite: bool = True) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
        finite = finite or word.lower().lstrip("+-") != "nan"
    if (finite and not math.isfinite(value)) or "_" in word:
        raise FormatError(path, f"line {line}", found=shown(word), expected="a number")
    return value


def _line(reader: LineReader) -> str:
    line = reader.next()
    if line is None or not line.endswith(b"\n"):
        raise CutHeader
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _expect(reader: LineReader, word: str) -> None:
    number = reader.line
    line = _line(reader)
    if line.strip() != word:
        raise FormatError(reader.source.path, f"line {number}", found=shown(line), expected=f"'{word}'")


def _rows_end(source: Source, header: Header) -> RowsEnd:
    """Return where the rows end: at the end of the document, or after the last whole line."""
    offset, lines, carry = header.rows, 0, b"\n"
    stop = offset
    block = min(_BLOCK_BYTES, 256 + 24 * header.count)
    while text := source.read(offset, offset + block):
        block = min(_BLOCK_BYTES, 4 * block)
        found = (carry + text).find(_END)
        if found >= 0:
            stop = offset - len(carry) + found + 1
            return RowsEnd(stop, lines + text[: max(0, stop - offset)].count(b"\n"), True)
        lines += text.count(b"\n")
        stop = offset + text.rfind(b"\n") + 1 if b"\n" in text else stop
        offset += len(text)
        carry = (carry + text)[-3:]
    return RowsEnd(stop, lines, False)


def _slow_rows(text: bytes) -> bytes:
    """Return rows that another program wrote, whatever their white space."""
    lines = []
    for line in text.split(b"\n")[: -1 if text.endswith(b"\n") else None]:
        bare = line.strip().removeprefix(b"- [").removesuffix(b"]").strip()
        lines.append(b" ".join(bare.rstrip(b",").replace(b",", b" ").split()))
    return b"\n".join(lines) + b"\n"
