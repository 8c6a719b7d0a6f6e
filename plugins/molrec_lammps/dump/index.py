"""The index pass: where each frame of a dump is, and what its header says, without parsing a row.

The quick pass reads the headers only, and looks for the next one where it can stand: behind the shortest text that the
rows of a frame can have, or, where frames are large, near where the last one lets expect it. Parts of headers are told
by their bytes and read once. Whatever is unusual makes the exact pass read the file anew: it reads every header line by
line and counts every line, so that a fault is named with its line. What the quick pass takes on trust, the number of
rows of each frame, is checked where the rows are parsed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.text.rows import RowFault
from molrec_lammps.dump.frames import FileIndex, FoundFrames, finish
from molrec_lammps.dump.header import CutHeader, Header, check_rows, read_header, rows_end, shown
from molrec_lammps.dump.source import LineReader, Source, TextSource
from molrec_lammps.dump.yaml import is_yaml, read_yaml_header, yaml_index, yaml_rows

__all__ = ["exact_index", "first_header", "index_source"]

_BLOCK_BYTES = 2**20
#: Frames of more bytes of rows are leapt over.
_LEAP_BYTES = 2**16
#: Text that is read for the header of a large frame. A file of no more is read by the exact pass, as quickly.
_HEADER_BYTES = 2**12
#: How far from where it is looked for the header of a large frame may stand, to begin with.
_REACH = 2**16
#: Longest distance of two items of a header.
_ITEM_BYTES = 256
#: Longest step number that the quick pass reads.
_STEP_DIGITS = 18
_TIMESTEP = np.frombuffer(b"ITEM: TIMESTEP\n", dtype=np.uint8)
#: What can stand before the number of atoms.
_ITEMS = (
    [b"ITEM: TIMESTEP"],
    [b"ITEM: TIME", b"ITEM: TIMESTEP"],
    [b"ITEM: UNITS", b"ITEM: TIMESTEP"],
    [b"ITEM: UNITS", b"ITEM: TIME", b"ITEM: TIMESTEP"],
)


Integers = NDArray[np.int64]


class Doubt(Exception):
    """The quick pass met something it does not know; the exact pass decides."""


@dataclass(frozen=True)
class _Heading:
    """What a header says besides its step, time and bounds: atoms, columns, words of the box, and its own lines."""

    count: int
    columns: tuple[str, ...]
    layout: int
    box_words: tuple[str, ...]
    lines: int


def index_source(source: Source) -> FileIndex:
    """Return the frames of one file. A file without a whole frame, or with a fault in a header, is a `FormatError`."""
    if is_yaml(source.read(0, 256)):
        source.translate = yaml_rows
        return yaml_index(source)
    if source.size is not None and source.size <= _HEADER_BYTES:
        return exact_index(source)
    try:
        return quick_index(source)
    except (Doubt, FormatError, CutHeader, RowFault):
        return exact_index(source)


def first_header(source: Source) -> Header:
    """Return the header of the first frame, of a text or a YAML dump."""
    if is_yaml(source.read(0, 256)):
        return read_yaml_header(LineReader(source))
    return read_header(LineReader(source))


class _QuickHeaders:
    """Headers told by their bytes: what comes again is read once."""

    def __init__(self, found: FoundFrames) -> None:
        self.found = found
        self._headings: dict[tuple[bytes, bytes], _Heading] = {}
        #: All but step and time of the last header, and what it says.
        self.last = b""
        self._heading, self._box = _Heading(0, (), 0, (), 0), 0

    def read(self, before: bytes, rest: bytes, line: int) -> tuple[_Heading, int, int, int, float | None]:
        """Return what the header from `line` on says: heading, lines, box, step and time.

        `before` is what stands before the number of atoms, `rest` the other lines.
        """
        if rest is not self.last:
            self._read_heading(rest)
            self.last = rest
        if before.startswith(b"ITEM: TIMESTEP\n"):
            lines, step, time = 2, before[15:].strip(), None
        else:
            values = before.split(b"\n")
            lines, step, time = len(values), values[-1].strip(), self._extras(values, line)
        if not step.removeprefix(b"-").isdigit() or len(step) > _STEP_DIGITS:
            raise Doubt
        return self._heading, self._heading.lines + lines, self._box, int(step), time

    def _read_heading(self, rest: bytes) -> None:
        box = rest.find(b"\n", rest.find(b"\nITEM: BOX") + 1) + 1
        item = rest.find(b"\nITEM: ATOMS") + 1
        if not 0 < box < item or rest.count(b"\n", box, item) != 3:
            raise Doubt
        key, bounds = (rest[:box], rest[item:]), rest[box:item]
        heading = self._headings.get(key)
        if heading is None:
            text = b"ITEM: TIMESTEP\n0" + rest
            reader = LineReader(TextSource(self.found.source.path, text))
            said = read_header(reader)
            if reader.offset != len(text):
                raise Doubt
            layout = self.found.layout(said.columns)
            heading = _Heading(said.count, said.columns, layout, said.box_words, said.lines - 2)
            self._headings[key] = heading
        self._heading, self._box = heading, self.found.box(heading.box_words, bounds)

    def _extras(self, values: Sequence[bytes], line: int) -> float | None:
        """Return the time, and note the units, that stand before the step."""
        items = [item.rstrip() for item in values[::2]]
        if items not in _ITEMS or len(values) % 2:
            raise Doubt
        said = dict(zip(items, values[1::2], strict=True))
        if b"ITEM: UNITS" in said:
            words = said[b"ITEM: UNITS"].split()
            if len(words) != 1:
                raise Doubt
            self.found.units.append((words[0].decode("latin-1"), line))
        time = said.get(b"ITEM: TIME")
        if time is None:
            return None
        try:
            value = float(time)
        except ValueError:
            raise Doubt from None
        if not math.isfinite(value) or b"_" in time:
            raise Doubt
        return value


class _Window:
    """The stretch of a source that the quick pass looks at: `text` from `base` on."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._ran = b""
        self.move(0)

    def move(self, offset: int) -> None:
        """Look at a header that begins at `offset`, and at little else."""
        self.text, self.base, self._block = self.source.read(offset, offset + _HEADER_BYTES), offset, _HEADER_BYTES

    def header(self, offset: int, last: bytes) -> tuple[bytes, bytes]:
        """Return what stands before the number of atoms in the header that begins at `offset`, and its other lines.

        Where these are as in the last header, they are `last` itself.
        """
        while True:
            begin = offset - self.base
            number = self.text.find(b"\nITEM: NUMBER", begin, begin + _ITEM_BYTES)
            if number >= 0 and last and self.text.startswith(last, number):
                return self.text[begin:number], last
            item = self.text.find(b"\nITEM: ATOMS", begin) + 1
            end = self.text.find(b"\n", item) + 1 if item else 0
            if end and number < 0:
                raise Doubt
            if end:
                return self.text[begin:number], self.text[number:end]
            known = len(self.text) - begin
            self._block = min(_BLOCK_BYTES, max(4 * self._block, 2 * known))
            self.text, self.base = self.source.read(offset, offset + self._block), offset
            if len(self.text) <= known:
                raise Doubt

    def next_item(self, low: int) -> int | None:
        """Return the place of the first ITEM line from `low` on, None where there is none."""
        while True:
            begin = max(0, low - self.base)
            place = self.text.find(b"I", begin)
            if place >= 0 and not self.text.startswith(b"\nITEM:", place - 1):
                place = self.text.find(b"\nITEM:", max(0, begin - 1)) + 1 or -1
            if place >= 0:
                return self.base + place
            # an ITEM line may begin at the very end of what is known
            known = self.base + len(self.text)
            start = max(low - 1, known - 5)
            self._block = min(_BLOCK_BYTES, 4 * self._block)
            text = self.source.read(start, start + self._block)
            if start + len(text) <= known:
                return None
            self.text, self.base = text, start

    def run(self, offset: int, rest: bytes) -> Integers | None:
        """Return start, first row and step of the frames from `offset` on, as int64[3, n]; all have the header `rest`.

        The last one may be cut off by the end of the window. None: there are none, or one of them has another header.
        """
        if self._ran is self.text:
            return None
        self._ran = self.text
        begin = offset - self.base
        sizes = list(map(len, self.text[begin:].split(rest)))[:-1]
        if len(sizes) < 2:
            return None
        data = np.frombuffer(self.text, dtype=np.uint8)
        end = begin + np.cumsum(sizes) + len(rest) * np.arange(len(sizes))
        digits = data[np.maximum(end[:, None] - np.arange(1, _STEP_DIGITS + 1), 0)] - np.uint8(ord("0"))
        known = np.logical_and.accumulate(digits <= 9, axis=1)
        start = end - known.sum(axis=1) - len(_TIMESTEP)
        if start[0] != begin or (data[np.maximum(start[:, None], 0) + np.arange(len(_TIMESTEP))] != _TIMESTEP).any():
            return None
        if self.text.count(b"\nITEM:", begin, int(start[-1])) != 4 * (len(sizes) - 1) - 1 or not known[:, 0].all():
            return None
        step = np.where(known, digits, 0).astype(np.int64) @ 10 ** np.arange(_STEP_DIGITS, dtype=np.int64)
        return np.stack([start + self.base, end + len(rest) + self.base, step])

    def leap(self, rows: int, guess: int, width: int) -> int | None:
        """Return the place of an ITEM line near `guess`; None: the text ends near it, or there is none near it."""
        for reach in (width, 16 * width):
            start, stop = max(rows, guess - reach) - 1, guess + reach
            if stop >= (self.source.size or 0):
                return None
            found = self.source.read(start, stop + 6).find(b"\nITEM:")
            # what begins inside a header would miss its first items
            if found >= _ITEM_BYTES or (found >= 0 and start < rows):
                self.move(start + found + 1)
                return self.base
        return None


def quick_index(source: Source) -> FileIndex:
    """Return the frames of a text dump. `Doubt`, or a fault: something is not as LAMMPS writes it."""
    found = FoundFrames(source)
    headers, window = _QuickHeaders(found), _Window(source)
    offset, line, width, ratio = 0, 1, _REACH, 0.0
    while True:
        before, rest = window.header(offset, headers.last)
        heading, lines, box, step, time = headers.read(before, rest, line)
        rows, count = offset + len(before) + len(rest), heading.count
        line += lines
        if count * ratio > _LEAP_BYTES and not source.sequential:
            guess = rows + int(count * ratio)
            stop = window.leap(rows, guess, width)
            width = _REACH if stop is None else max(2**11, min(_REACH, 4 * abs(stop - guess)))
        else:
            # a row has a letter and a blank, or its end, for each of its columns
            stop = window.next_item(rows + 2 * count * len(heading.columns))
        if stop is None:
            end = rows_end(source, rows)
            if not end.item:
                break
            if end.lines != count:
                raise Doubt
            stop = end.stop
            window.move(stop)
        found.put(offset, rows, stop, line, step, count, heading.layout, box, time)
        ratio = (stop - rows) / count if count else ratio
        offset, line = stop, line + count
        run = window.run(stop, rest) if before.startswith(b"ITEM: TIMESTEP\n") and ratio * count < _LEAP_BYTES else None
        if run is not None:
            found.put_run(run, line + lines, lines + count, count, heading.layout, box)
            offset, line = int(run[0, -1]), line + (run.shape[1] - 1) * (lines + count)
    notes: list[str] = []
    last = Header(offset, rows, line - lines, lines, step, count, heading.columns, heading.box_words, (), time, None)
    fault = check_rows(LineReader(source, rows, line), last, end, notes)
    if fault is not None:
        found.units = [(word, place) for word, place in found.units if place != last.line]
    else:
        found.put(offset, rows, end.stop, line, step, count, heading.layout, box, time)
    index = finish(found, [] if fault is None else [fault], notes)
    if found.has_inverted_cells(index.table):
        raise Doubt
    return index


def exact_index(source: Source) -> FileIndex:
    """Return the frames of one file, every header read and every line counted."""
    reader = LineReader(source, block=2**12)
    found = FoundFrames(source)
    notes: list[str] = []
    breaks = _skip_headless(reader)
    while (line := reader.peek()) is not None:
        if not line.strip():
            _only_blanks(reader)
            break
        try:
            header = read_header(reader)
        except CutHeader:
            breaks.append(
                f"line {reader.line}: the file ends inside the header of frame {len(found)}, which is left out"
            )
            break
        end = rows_end(source, header.rows, 256 + 32 * header.count)
        fault = check_rows(reader, header, end, notes)
        if fault is not None:
            breaks.append(fault)
            break
        found.add(header, end.stop)
        reader.skip(end.stop, end.lines)
    return finish(found, breaks, notes)


def _skip_headless(reader: LineReader) -> list[str]:
    """Step over rows of a frame whose header is missing, at the start of a file: a sentence about them, if any.

    Anything that is no row of the frame that follows makes the file no dump.
    """
    line = reader.peek()
    if line is None or line.startswith(b"ITEM:"):
        return []
    path, first = reader.source.path, shown(line)
    end = rows_end(reader.source, reader.offset)
    last = LineReader(reader.source.again(), reader.offset)
    words = 0
    for _ in range(end.lines):
        words = len((last.next() or b"").split())
    reader.skip(end.stop, end.lines)
    try:
        following = reader.peek() or b""
        header = read_header(LineReader(reader.source.again(), end.stop)) if end.item and _begins(following) else None
    except (FormatError, CutHeader):
        header = None
    if header is None or len(header.columns) != words:
        raise FormatError(
            path, "line 1", found=first, expected="'ITEM: TIMESTEP', the first line of a LAMMPS text dump"
        )
    return [f"line 1: the file starts inside a frame; its rows up to line {end.lines} are left out"]


def _begins(line: bytes) -> bool:
    return line.split()[1:] in ([b"TIMESTEP"], [b"TIME"], [b"UNITS"])


def _only_blanks(reader: LineReader) -> None:
    """At a blank line behind the last frame: nothing but blank lines may follow."""
    number = reader.line
    while (line := reader.peek()) is not None:
        if line.strip():
            raise FormatError(reader.source.path, f"line {number}", found="a blank line", expected="'ITEM: TIMESTEP'")
        reader.next()


#: Frames of more bytes of rows are leapt over.
_LEAP_BYTES = 2**16
#: Of so few frames the exact pass is the quickest: it matters where every frame has a file of its own.
_FEW_FRAMES = 4
