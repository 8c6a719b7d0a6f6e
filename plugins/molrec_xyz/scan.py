"""Where the frames of a file are, found without reading a row: the index pass.

A frame is a number of atoms, a line of any text, and that many rows. Frames of one length after another are found
many at a time by looking at where their lines must end; others line by line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.text.contents import forget
from molrec_convert.text.rows import Field, Kind, RowFault, read_rows
from molrec_convert.text.texts import Texts
from molrec_xyz.columns import RowLayout, is_number

__all__ = ["HELD", "FrameTable", "fault_sentence", "read_fields", "scan_frames", "shown"]

_NEWLINE = 10
_WINDOW = 2**22
#: Bytes of the file that are held in memory at most.
HELD = 2**26
#: Bytes of frames that are looked at together.
_RUN_BYTES = 2**20
_COUNT = re.compile(rb"[ \t]*\+?([0-9]{1,15})[ \t]*\r?")
#: Translation vectors that some programs write as rows after a frame, and do not count.
_VECTOR = re.compile(rb"[ \t]*VEC[1-3][ \t]", re.IGNORECASE)
_BOM = b"\xef\xbb\xbf"

Integers = NDArray[np.int64]


@dataclass
class FrameTable:
    """The frames of a file: offsets of the second line, of the rows and of their end; atoms; line of the number.

    `blanks` counts blank lines between frames, `vectors` rows of translation vectors, `rest` is the line and the
    beginning of what follows the last frame, `short` says how a last frame that is not whole breaks off.
    """

    header: Integers
    rows: Integers
    end: Integers
    count: Integers
    line: Integers
    blanks: int = 0
    vectors: int = 0
    rest: tuple[int, str] | None = None
    short: str | None = None

    def __len__(self) -> int:
        return len(self.count)


class _Found:
    """Frames as they are found: one by one, or a run of them."""

    def __init__(self) -> None:
        self.one: list[tuple[int, int, int, int, int]] = []
        self._parts: list[Integers] = []

    def run(self, *columns: Any) -> None:
        """Many frames: an array, or one number, for each column of the table."""
        self._flush()
        self._parts.append(np.stack(np.broadcast_arrays(*columns), axis=1).astype(np.int64))

    def __bool__(self) -> bool:
        return bool(self.one or self._parts)

    def table(self) -> FrameTable:
        """Return all of them."""
        self._flush()
        rows = np.concatenate([np.zeros((0, 5), np.int64), *self._parts])
        header, begin, end, count, line = (np.ascontiguousarray(column) for column in rows.T)
        return FrameTable(header, begin, end, count, line)

    def _flush(self) -> None:
        if self.one:
            self._parts.append(np.array(self.one, dtype=np.int64))
            self.one = []


class _Ends:
    """Ends of lines (the offset after each), a window at a time."""

    def __init__(self, data: Any) -> None:
        self.data, self.size = data, len(data)
        self.view = np.frombuffer(data, np.uint8)
        self._ends: list[int] = []
        self._from = self._to = 0
        self._next = 0

    def after(self, position: int, lines: int) -> int | None:
        """Return the offset after `lines` lines from `position`, where a line begins; None where there are fewer."""
        ends, at = self._ends, self._next
        if at and ends[at - 1] == position and at + lines <= len(ends):
            self._next = at + lines
            return ends[at + lines - 1]
        if not self._from <= position <= self._to or self._passed() > position:
            self._load(position)
        while self._next < len(self._ends) and self._ends[self._next] <= position:
            self._next += 1
        while True:
            at = self._next + lines - 1
            if at < len(self._ends):
                self._next = at + 1
                return self._ends[at]
            lines -= len(self._ends) - self._next
            if self._to >= self.size:
                # the last line may have no end
                last = self._ends[-1] if self._ends and self._ends[-1] > position else position
                if lines == 1 and last < self.size:
                    self._next = len(self._ends)
                    return self.size
                return None
            self._load(self._to)

    def _passed(self) -> int:
        return self._ends[self._next - 1] if self._next else self._from

    def _load(self, start: int) -> None:
        stop = min(start + _WINDOW, self.size)
        found = np.flatnonzero(self.view[start:stop] == _NEWLINE)
        found += start + 1
        self._ends, self._from, self._to, self._next = found.tolist(), start, stop, 0


def scan_frames(path: Path, data: Any) -> FrameTable:
    """Return the frames in `data`, the text of `path`. FormatError where a frame does not begin with a number of
    atoms.
    """
    ends = _Ends(data)
    found = _Found()
    position = len(_BOM) if data[:3] == _BOM else 0
    line, blanks, pending, vectors, forgotten, count = 1, 0, 0, 0, 0, 0
    rest: tuple[int, str] | None = None
    short: str | None = None
    while position < ends.size:
        after = ends.after(position, 1)
        assert after is not None
        text = data[position:after]
        match = _COUNT.fullmatch(text.rstrip(b"\n"))
        if match is None:
            if not text.strip():
                pending += 1
            elif found and _VECTOR.match(text):
                vectors += 1
            elif not found:
                raise FormatError(
                    path, f"line {line}", found=shown(text), expected="a number of atoms", hint=_other_format(text)
                )
            else:
                _check_rest(path, ends, position, line, found)
                if not pending and not vectors:
                    _check_further(path, data, position, text, line, count)
                rest = (line, shown(text))
                break
            position, line = after, line + 1
            continue
        blanks, pending = blanks + pending, 0
        count = int(match[1])
        rows = ends.after(after, 1) if after < ends.size else None
        end = rows if count == 0 else None if rows is None else ends.after(rows, count)
        if rows is None or end is None:
            short = _short(path, ends, after, count, line, found)
            break
        found.one.append((after, rows, end, count, line))
        length = end - position
        position, line = end, line + count + 2
        if position - forgotten > HELD:
            forget(data, forgotten, position)
            forgotten = position
        more = _like_last(ends.view, position, length, after, rows, end, count)
        if more:
            steps = np.arange(1, more + 1, dtype=np.int64)
            found.run(
                after + steps * length, rows + steps * length, end + steps * length,
                count, line + (steps - 1) * (count + 2),
            )  # fmt: skip
            position, line = position + more * length, line + more * (count + 2)
    table = found.table()
    table.blanks, table.vectors, table.rest, table.short = blanks, vectors, rest, short
    return table


def _like_last(
    view: NDArray[np.uint8], position: int, length: int, header: int, rows: int, end: int, count: int
) -> int:
    """Return how many frames from `position` on have their lines where the frame of `length` bytes before it has them.

    Rows of a frame must be of one length for that, so that a few bytes of each tell.
    """
    if count == 0 or (end - rows) % count:
        return 0
    width = (end - rows) // count
    start = position - length
    if view[position : position + header - start].tobytes() != view[start:header].tobytes():
        return 0
    if (view[rows + width - 1 : end : width] != _NEWLINE).any():
        return 0
    total, run = 0, 1
    while True:
        frames = min(run, (len(view) - position) // length)
        if frames == 0 or total * length > HELD:
            return total
        grid = np.lib.stride_tricks.as_strided(view[position:], (frames, length), (length, 1), writeable=False)
        same = (grid[:, : header - start] == view[start:header]).all(axis=1)
        head = grid[:, header - start : rows - start] == _NEWLINE
        same &= head[:, -1] & ~head[:, :-1].any(axis=1)
        same &= (grid[:, rows - start + width - 1 :: width] == _NEWLINE).all(axis=1)
        fits = frames if same.all() else int(np.argmin(same))
        lines = np.count_nonzero(view[position : position + fits * length] == _NEWLINE)
        if lines != fits * (count + 2):
            # a line that ends where it need not: frames of another kind that happen to be as long
            if run == 1:
                return total
            run = 1
            continue
        total += fits
        position += fits * length
        if fits < frames:
            return total
        run = min(2 * run, max(_RUN_BYTES // length, 1))


def _short(path: Path, ends: _Ends, after: int, count: int, line: int, found: _Found) -> str:
    """Return what is said of a frame that the file ends in; refused when it is the only one."""
    rows = 0
    position = after
    while position < ends.size and (following := ends.after(position, 1)) is not None:
        position, rows = following, rows + 1
    there = f"{max(rows - 1, 0)} rows before the end of the file"
    if not found:
        raise FormatError(path, f"line {line + rows}", found=there, expected=f"{count}, as line {line} says")
    return f"{path}, line {line}: the last frame has {there}, {count} are expected; it is left out"


def _check_rest(path: Path, ends: _Ends, position: int, line: int, found: _Found) -> None:
    """Refuse text between frames: what follows the last frame may be anything but another frame."""
    start, here = position, line
    while start < ends.size and (after := ends.after(start, 1)) is not None:
        match = _COUNT.fullmatch(ends.data[start:after].rstrip(b"\n"))
        if match is not None and ends.after(after, 1 + int(match[1])) is not None:
            first = after if position == start else ends.after(position, 1)
            raise FormatError(
                path, f"line {line}", found=shown(ends.data[position:first]),
                expected="a number of atoms: the rows of the frame before are complete",
            )  # fmt: skip
        start, here = after, here + 1


def _check_further(path: Path, data: Any, position: int, text: bytes, line: int, count: int) -> None:
    """Refuse a line behind the last frame, at `position`, that is written as the row of an atom before it is."""
    last = data[data.rfind(b"\n", 0, position - 1) + 1 : position]
    kinds = [is_number(field) for field in text.split()]
    if count and len(kinds) > 3 and kinds == [is_number(field) for field in last.split()] and not all(kinds):
        raise FormatError(
            path, f"line {line}", found=f"one more row of atoms, {shown(text)}",
            expected=f"{count} rows, as line {line - count - 2} says",
        )  # fmt: skip


def _other_format(text: bytes) -> str | None:
    words = text.split()
    if len(words) > 1 and words[0].isdigit():
        return "a number with a title behind it begins a Tinker file, which is another format"
    return None


def shown(text: bytes) -> str:
    """Return a piece of a file as a message shows it."""
    words = bytes(text).decode("utf-8", "replace").strip()
    return repr(words if len(words) <= 60 else words[:59] + "…") if words else "an empty line"


_KINDS: dict[str, Kind] = {"R": "fortran", "I": "int", "S": "word", "L": "bool"}
_EXPECTED = {"R": "a number", "I": "an integer", "L": "T or F"}
_IN_RANGE = {"R": "a number within the range of binary64", "I": "an integer of at most 63 bits"}


@lru_cache(maxsize=256)
def _fields(letters: str, wanted: tuple[bool, ...], surplus: int) -> tuple[Field, ...]:
    own = [Field(_KINDS[letter] if asked else "skip") for letter, asked in zip(letters, wanted, strict=True)]
    return (*own, *[Field("skip")] * surplus)


def read_fields(
    texts: Texts,
    spans: NDArray[np.int64],
    layout: RowLayout,
    out: Sequence[NDArray[Any] | None],
    wanted: Sequence[bool],
) -> list[Any]:
    """Read the fields of rows that are wanted: arrays of float64, int64, bool, or `Words`; None for the others.

    `spans` has begin, end and number of rows of each piece of text, `out` arrays for the values of some fields.
    """
    surplus = 0 if layout.open else layout.surplus
    fields = _fields(layout.letters, tuple(wanted), surplus)
    table = read_rows(texts, spans, fields, extra=layout.open, out=[*out, *[None] * surplus])
    return table.columns[: len(wanted)]


def fault_sentence(fault: RowFault, layout: RowLayout) -> tuple[str, str]:
    """Return what is found in a row at fault, and what is expected there."""
    if fault.field is None or "fields" in fault.reason:
        letters = len(layout.letters)
        columns = " ".join(map(str, layout.columns))
        return f"{len(fault.found.split())} fields in {shown(fault.found)}", f"{letters} ({columns})"
    letter = layout.letters[fault.field]
    owner = [column.name for column in layout.columns for _ in range(column.width)][fault.field]
    return shown(fault.found), f"{(_IN_RANGE if fault.reason == 'range' else _EXPECTED)[letter]} ({owner})"
