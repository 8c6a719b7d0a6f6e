"""The lines of a PDB file: its atoms and their frames, lines of other kinds, fields by their columns.

A frame ends at ENDMDL, at END, at the next MODEL, or at the end of the file. Some programs write frames with END alone
between them; an END with no atom since the last frame closes none. Source: Contents Guide 3.3, "MODEL", "END".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.text.rows import Field, Kind, read_rows

__all__ = [
    "PLACEHOLDER_REMARKS",
    "WIDTH",
    "FrameLines",
    "Scan",
    "atom_lines",
    "integers",
    "line_number",
    "numbers",
    "padded_rows",
    "parse_float",
    "rows_beyond",
    "scan_lines",
    "shown",
    "text_of",
    "texts",
    "whole",
    "word",
]

#: Bytes of a padded row: 80 columns, what lets the last field be read as a word, and the end of the line.
WIDTH = 96
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
Words = NDArray[np.uint64]
Rows = NDArray[np.uint8]
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:inf|nan|infinity)", re.IGNORECASE)


def _u(value: int) -> np.uint64:
    return np.uint64(value)


def _low(width: int) -> int:
    return (1 << (8 * width)) - 1


def word(rows: Rows, column: int, width: int) -> Words:
    """Return the `width` characters from `column` (0-based) on as words, the first in the lowest byte."""
    if not len(rows):
        return np.zeros(0, np.uint64)
    view: NDArray[Any] = np.ndarray((len(rows),), dtype="<u8", buffer=rows, offset=column, strides=(rows.strides[0],))
    words: Words = view.astype(np.uint64)
    words &= _u(_low(width))
    return words


def numbers(rows: Rows, kind: Kind, *columns: tuple[int, int]) -> list[tuple[NDArray[Any], NDArray[np.uint8]]]:
    """Read numbers from columns (from, to before; 0-based) of padded rows.

    Each column gives its values and what is wrong with them: 0 nothing, 1 the field is blank, else it holds none.
    """
    spans = np.array([[0, rows.size, len(rows)]])
    table = read_rows(rows.reshape(-1), spans, [Field(kind, column, lenient=True) for column in columns])
    none = np.zeros(len(rows), np.uint8)
    return [(v, none if flaw is None else flaw) for v, flaw in zip(table.columns, table.flaws, strict=True)]


def integers(rows: Rows, column: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return integers, and where a field holds one."""
    ((values, flaws),) = numbers(rows, "int", (column, column + width))
    return values, flaws == 0


def parse_float(text: str) -> float:
    """Return the number in a field, blanks around it left off; ValueError where it holds none."""
    if _NUMBER.fullmatch(text.strip()) is None:
        raise ValueError(text)
    return float(text)


def whole(text: str) -> int:
    """Return the integer of 64 bits a text is; ValueError where it is none."""
    if _INTEGER.fullmatch(text) is None or not -(2**63) <= int(text) < 2**63:
        raise ValueError(text)
    return int(text)


def shown(text: str) -> str:
    """Return a text as an error shows it."""
    return repr(text if len(text) <= 60 else text[:59] + "…")


def texts(words: Words, width: int) -> tuple[list[bytes], NDArray[np.intp]]:
    """Return the different fields among words, and which each row has."""
    if width <= 2:
        there = np.bincount(words.astype(np.intp), minlength=2**16)
        different = np.flatnonzero(there).astype(np.uint64)
        places = np.zeros(2**16, np.intp)
        places[different.astype(np.intp)] = np.arange(len(different))
        codes = places[words.astype(np.intp)]
    elif len(words) and bool((words == words[0]).all()):
        different, codes = words[:1], np.zeros(len(words), np.intp)
    else:
        different = np.unique(words)
        codes = np.searchsorted(different, words)
    return [int(value).to_bytes(8, "little")[:width] for value in different], codes


_PIECE = 2**24
_COLUMNS = 80
#: Lines that say of a column that all its values are placeholders: the column, and the text of a value.
PLACEHOLDER_REMARKS = {
    "REMARK  99 OCCUPANCY 1.00 OF ALL ATOMS: A PLACEHOLDER, NONE IS KNOWN": "occupancy",
    "REMARK  99 B FACTOR 0.00 OF ALL ATOMS: A PLACEHOLDER, NONE IS KNOWN": "b_factor",
}
#: How far behind the last column text is looked for.
_LOOKED_AT = 256
_SIX = np.uint64(0xFFFFFFFFFFFF)
Int = NDArray[np.int64]


def _code(text: str) -> int:
    return int.from_bytes(text.encode().ljust(6)[:6], "little")


_ATOM, _HETATM = _code("ATOM"), _code("HETATM")
_FOUR = np.uint64(0xFFFFFFFF)
#: A line that speaks of an atom, whatever its columns.
_ATOM_WORD = re.compile(r"\s*(?:ATOM|HETATM)[-+\d*]*(?:\s|$)", re.IGNORECASE)
_PLENTY = {name: _code(name) for name in ("ANISOU", "CONECT")}
#: Uncertainties of earlier versions of the format, one line for each atom.
_SIGMAS = {name: _code(name) for name in ("SIGATM", "SIGUIJ")}


@dataclass
class FrameLines:
    """One frame: its atoms are the rows `start:stop`; `model` is the number of its MODEL record."""

    start: int
    stop: int
    model: int | None = None
    cell: str | None = None
    cell_line: int = 0
    #: Lines of other kinds before its first atom, and behind it.
    lines: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)


@dataclass
class Scan:
    """Starts and ends of lines in the file: of atoms, ANISOU and CONECT records; the frames; what stands behind them.

    `ter` are the rows of atoms before TER records, `ter_numbered` says whether any of these has more than its name;
    `conect_frame` is the frame a CONECT record stands in, the number of frames where it stands behind the last.
    """

    starts: Int
    ends: Int
    frames: list[FrameLines]
    anisou: tuple[Int, Int]
    anisou_row: Int
    conect: tuple[Int, Int]
    conect_frame: Int
    ter: Int
    trailing: list[str]
    sigmas: int
    #: The last model has no ENDMDL.
    unfinished: bool
    has_models: bool
    #: Columns of which the file says that their values are placeholders.
    placeholders: frozenset[str] = frozenset()


def text_of(data: Any, start: int, end: int) -> str:
    """Return one line as text."""
    raw: bytes = data[start:end]
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def line_number(data: Any, position: int) -> int:
    """Return the number of the line at a byte position."""
    count, at = 1, 0
    while at < position:
        count += data[at : min(at + _PIECE, position)].count(b"\n")
        at += _PIECE
    return count


def _starts_and_ends(data: Any) -> tuple[Int, Int]:
    size = len(data)
    found = []
    for at in range(0, size, _PIECE):
        piece = np.frombuffer(data, np.uint8, min(_PIECE, size - at), at)
        found.append(np.flatnonzero(piece == 10).astype(np.int64) + at)
    ends = np.concatenate(found) if found else np.zeros(0, np.int64)
    if size and (not len(ends) or ends[-1] != size - 1):
        ends = np.append(ends, size)
    starts = np.empty_like(ends)
    if len(ends):
        starts[0] = 3 if data[:3] == b"\xef\xbb\xbf" else 0
        starts[1:] = ends[:-1] + 1
    return starts, ends


def _codes(data: Any, starts: Int, ends: Int) -> NDArray[np.uint64]:
    """Return the first six characters of each line, in upper case, as words; a shorter line is padded with blanks."""
    size = len(data)
    codes = np.full(len(starts), _code(""), np.uint64)
    inner = int(np.searchsorted(starts, size - 8, side="right")) if size >= 8 else 0
    if inner:
        sliding: NDArray[Any] = np.ndarray((size - 7,), "<u8", data, 0, (1,))
        codes[:inner] = sliding[starts[:inner]]
    for line in range(inner, len(starts)):
        codes[line] = int.from_bytes(bytes(data[starts[line] : starts[line] + 8]).ljust(8), "little")
    codes &= _SIX
    for line in np.flatnonzero(ends - starts < 6).tolist():
        codes[line] = int.from_bytes(bytes(data[starts[line] : ends[line]]).ljust(6)[:6], "little")
    letters = (codes & np.uint64(0x404040404040)) >> np.uint64(1)
    return codes & ~letters


def atom_lines(codes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which lines are atoms, by their first six characters: ATOM may have digits of a long serial behind it."""
    found: NDArray[np.bool_] = (codes == np.uint64(_ATOM)) | (codes == np.uint64(_HETATM))
    others = np.flatnonzero(((codes & _FOUR) == np.uint64(_ATOM) & _FOUR) & ~found)
    fifth, sixth = ((codes[others] >> np.uint64(shift)) & np.uint64(0xFF) for shift in (32, 40))
    digits = [(one >= 48) & (one <= 57) for one in (fifth, sixth)]
    found[others[digits[1] & (digits[0] | (fifth == 32))]] = True
    return found


def scan_lines(path: Path, data: Any) -> Scan:
    """Find atoms and frames; FormatError where there is neither an atom nor a record of the format."""
    starts, ends = _starts_and_ends(data)
    codes = _codes(data, starts, ends)
    is_atom = atom_lines(codes)
    atoms = np.flatnonzero(is_atom)
    plenty = {name: np.flatnonzero(codes == np.uint64(code)) for name, code in _PLENTY.items()}
    sigmas = sum(int((codes == np.uint64(code)).sum()) for code in _SIGMAS.values())
    rest_mask = ~is_atom
    for code in (*_PLENTY.values(), *_SIGMAS.values()):
        rest_mask &= codes != np.uint64(code)
    rest = np.flatnonzero(rest_mask)
    ranks = np.searchsorted(atoms, rest)
    walk = _Walk(path, data)
    spans = zip(rest.tolist(), starts[rest].tolist(), ends[rest].tolist(), ranks.tolist(), strict=True)
    for line, start, end, rank in spans:
        walk.take(line, text_of(data, start, end).rstrip("\r\n \0"), rank)
    walk.finish(len(atoms))
    if not len(atoms) and not walk.known:
        raise FormatError(
            path, "line 1", found=text_of(data, 0, min(60, int(ends[0]) if len(ends) else 0)) or "no text",
            expected="records of a PDB file (ATOM, HETATM, HEADER, CRYST1 ...)",
        )  # fmt: skip
    stops = np.array([frame.stop for frame in walk.frames], np.int64)
    conect_rank = np.searchsorted(atoms, plenty["CONECT"])
    conect_frame = np.searchsorted(stops, conect_rank, side="left")
    if len(walk.closings):
        behind = plenty["CONECT"] > walk.closings[-1]
        conect_frame = np.where(behind & (len(stops) > 1), len(stops), np.minimum(conect_frame, len(stops) - 1))
    else:
        conect_frame = np.minimum(conect_frame, len(stops) - 1)
    return Scan(
        starts[atoms], ends[atoms], walk.frames,
        (starts[plenty["ANISOU"]], ends[plenty["ANISOU"]]), np.searchsorted(atoms, plenty["ANISOU"]) - 1,
        (starts[plenty["CONECT"]], ends[plenty["CONECT"]]), conect_frame.astype(np.int64),
        np.unique(np.array(walk.ter, np.int64)), walk.trailing, sigmas, walk.unfinished, walk.has_models,
        frozenset(walk.placeholders),
    )  # fmt: skip


#: Records of the format, by their first six characters; a file of none of them is another's.
_RECORD_NAMES = (
    "HEADER OBSLTE TITLE SPLIT CAVEAT COMPND SOURCE KEYWDS EXPDTA NUMMDL MDLTYP AUTHOR REVDAT SPRSDE JRNL REMARK DBREF "
    "DBREF1 DBREF2 SEQADV SEQRES MODRES HET HETNAM HETSYN FORMUL HELIX SHEET TURN SSBOND LINK CISPEP SITE CRYST1 "
    "ORIGX1 ORIGX2 ORIGX3 SCALE1 SCALE2 SCALE3 MTRIX1 MTRIX2 MTRIX3 MODEL TER ENDMDL MASTER END CONECT"
)
_RECORDS = frozenset(_RECORD_NAMES.split())


class _Walk:
    """The lines that are no atoms, one after the other."""

    def __init__(self, path: Path, data: Any) -> None:
        self.path, self.data = path, data
        self.frames: list[FrameLines] = []
        self.closings: list[int] = []
        self.ter: list[int] = []
        self.trailing: list[str] = []
        self.placeholders: set[str] = set()
        self.has_models = False
        self.known = False
        self.unfinished = False
        self._open = FrameLines(0, 0)
        self._in_model = False
        self._cells: list[tuple[int, str, int]] = []

    def take(self, line: int, text: str, rank: int) -> None:
        """One line; `rank` atoms stand before it."""
        word = text[:6].strip().upper()
        self.known |= word in _RECORDS
        if word == "TER":
            if rank:
                self.ter.append(rank - 1)
        elif word == "MODEL":
            if self._in_model or rank > self._open.start:
                self._close(line, rank)
            self._in_model = self.has_models = True
            number = text[6:].split()
            if number and number[0].isdigit() and len(number[0]) < 10:
                self._open.model = int(number[0])
        elif word == "ENDMDL":
            if self._in_model or rank > self._open.start:
                self._close(line, rank)
        elif word == "END":
            if rank > self._open.start:
                self._close(line, rank)
        elif word == "CRYST1":
            self._cells.append((len(self.frames), text, line + 1))
        elif text in PLACEHOLDER_REMARKS and not rank:
            self.placeholders.add(PLACEHOLDER_REMARKS[text])
        elif text:
            if _ATOM_WORD.match(text):
                raise FormatError(
                    self.path, f"line {line + 1}", found=repr(text[:30]),
                    expected="an atom in the columns of the format: ATOM or HETATM in 1-6, its serial in 7-11",
                )  # fmt: skip
            (self._open.inside if rank > self._open.start else self._open.lines).append(text)

    def _close(self, line: int, rank: int) -> None:
        self._open.stop = rank
        self.frames.append(self._open)
        self.closings.append(line)
        self._open = FrameLines(rank, rank)
        self._in_model = False

    def finish(self, count: int) -> None:
        """The end of the file: what is open is the last frame, or lines behind it."""
        if count > self._open.start or self._in_model or not self.frames:
            self._open.stop = count
            self.unfinished = self._in_model
            self.frames.append(self._open)
        else:
            self.trailing = self._open.lines
        self._place_cells()

    def _place_cells(self) -> None:
        """The cell of each frame: the one before its end, or behind it where the first frame has none otherwise."""
        if not self._cells:
            return
        shift = 1 if min(frame for frame, _, _ in self._cells) == 1 and len(self._cells) >= len(self.frames) else 0
        for number, text, line in self._cells:
            position = min(number - shift, len(self.frames) - 1)
            self.frames[position].cell, self.frames[position].cell_line = text, line


def padded_rows(data: Any, starts: Int, ends: Int) -> NDArray[np.uint8]:
    """Return lines as rows of `WIDTH` characters, short ones padded with blanks."""
    rows = np.full((len(starts), WIDTH), 32, np.uint8)
    rows[:, -1] = 10
    if not len(starts):
        return rows
    buffer = np.frombuffer(data, np.uint8)
    lengths = np.minimum(ends - starts, _COLUMNS)
    steps = np.diff(starts)
    same = (steps[1:] == steps[:-1]) if len(steps) > 1 else np.zeros(0, np.bool_)
    breaks = int((~same).sum())
    if len(starts) > 1 and breaks * 8 < len(starts):
        _copy_runs(buffer, starts, ends, rows)
    else:
        across = np.arange(_COLUMNS)
        for at in range(0, len(starts), 4096):
            part = slice(at, at + 4096)
            index = starts[part, None] + across
            inside = across < lengths[part, None]
            rows[part, :_COLUMNS] = np.where(inside, buffer[np.where(inside, index, 0)], 32)
    if bool((buffer[ends - 1] == 13).any()):
        rows[rows == 13] = 32
    if not rows.all():
        # padding of programs that write strings as they are in memory
        rows[rows == 0] = 32
    return rows


def rows_beyond(data: Any, starts: Int, ends: Int) -> Int:
    """Return which lines have more than blanks behind the last column of the format."""
    rows = np.flatnonzero(ends - starts > _COLUMNS)
    if not len(rows):
        return rows.astype(np.int64)
    buffer = np.frombuffer(data, np.uint8)
    # an end of two characters
    rows = rows[(ends[rows] - starts[rows] > _COLUMNS + 1) | (buffer[ends[rows] - 1] > 32)]
    found = []
    for at in range(0, len(rows), 4096):
        part = rows[at : at + 4096]
        first, stop = starts[part, None] + _COLUMNS, ends[part, None]
        index = first + np.arange(min(int((stop - first).max()), _LOOKED_AT))
        inside = index < stop
        found.append(part[((buffer[np.where(inside, index, 0)] > 32) & inside).any(axis=1)])
    return np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)


def _copy_runs(buffer: NDArray[np.uint8], starts: Int, ends: Int, rows: NDArray[np.uint8]) -> None:
    """Runs of lines of one length that stand one behind the other, each copied at once."""
    lengths = ends - starts
    breaks = (starts[1:] != ends[:-1] + 1) | (lengths[1:] != lengths[:-1])
    bounds = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(starts)]
    for first, stop in pairwise(bounds):
        stride, start, count = int(lengths[first]) + 1, int(starts[first]), stop - first
        width = min(stride - 1, _COLUMNS)
        lines: NDArray[np.uint8] = np.ndarray((count, width), np.uint8, buffer, start, (stride, 1))
        rows[first:stop, :width] = lines
