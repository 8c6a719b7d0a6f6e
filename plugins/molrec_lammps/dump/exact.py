"""The exact index pass over a dump: every header read, every line counted, every fault named with its line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from molrec_convert.errors import FormatError
from molrec_lammps.dump.frames import FileIndex, FrameTable
from molrec_lammps.dump.header import CutHeader, Header, box_of, layout_of_box, read_header, shown
from molrec_lammps.dump.source import LineReader, Source

__all__ = ["Doubt", "RowsEnd", "check_rows", "exact_index", "finish", "rows_end", "truncation", "unstated_boundary"]

_BLOCK_BYTES = 2**20
_BLANK = b" \t\r\n"


class Doubt(Exception):
    """A quick pass met something it does not know; the exact pass decides."""


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


def exact_index(source: Source) -> FileIndex:
    """The frames of one file, every header read and every line counted."""
    reader = LineReader(source, block=2**12)
    headers: list[Header] = []
    stops: list[int] = []
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
                f"line {reader.line}: the file ends inside the header of frame {len(headers)}, which is left out"
            )
            break
        end = rows_end(source, header.rows, 256 + 32 * header.count)
        fault = check_rows(reader, header, end, notes)
        if fault is not None:
            breaks.append(fault)
            break
        headers.append(header)
        stops.append(end.stop)
        reader.skip(end.stop, end.lines)
    return finish(source, headers, stops, breaks, notes)


def rows_end(source: Source, start: int, block: int = _BLOCK_BYTES) -> RowsEnd:
    """Where the rows that begin at `start` end; every line is counted. `block` is the length that is read first."""
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


def finish(
    source: Source, headers: Sequence[Header], stops: Sequence[int], breaks: Sequence[str], notes: Sequence[str]
) -> FileIndex:
    """The index from the headers of all whole frames; without one there is nothing to read.

    `breaks` say where the text breaks off, `notes` what else a user should know.
    """
    truncated = truncation(source, breaks)
    if not headers:
        where, _, what = breaks[0].partition(": ") if breaks else ("", "", source.cut or "an empty file")
        # of a frame that is left out nobody needs to be told where there is no other
        what = what.removesuffix("; that frame is left out").removesuffix(", which is left out")
        found = what.replace("the file ends", "the end of the file", 1)
        raise FormatError(source.path, where or None, found=found, expected="at least one whole frame")
    index = FileIndex(_table_of(source, headers, stops), truncated=truncated, warnings=list(notes))
    index.units = [(header.units, header.line) for header in headers if header.units is not None]
    unstated = [header for header in headers if layout_of_box(header.box_words)[1] is None]
    if unstated:
        index.warnings.append(unstated_boundary(source, len(unstated), unstated[0].step))
    return index


def truncation(source: Source, breaks: Sequence[str]) -> str | None:
    """One sentence about where a file breaks off, None where it does not."""
    parts = [*breaks, *filter(None, [source.cut])]
    if not parts:
        return None
    return f"{source.path}{', ' if parts[0].startswith('line ') else ': '}{'; '.join(parts)}"


def unstated_boundary(source: Source, frames: int, step: int) -> str:
    """The warning about frames whose box line has no boundary letters."""
    return (
        f"{source.path}: {frames} frame{'s' * (frames > 1)} (first: step {step}) without boundary letters after "
        "BOX BOUNDS: every axis is taken as periodic, the default of a record"
    )


def _table_of(source: Source, headers: Sequence[Header], stops: Sequence[int]) -> FrameTable:
    """The table of frames read one by one."""
    layouts: dict[tuple[str, ...], int] = {}
    boxes: dict[tuple[tuple[str, ...], tuple[float, ...]], int] = {}
    layout = [layouts.setdefault(header.columns, len(layouts)) for header in headers]
    box = [boxes.setdefault((header.box_words, header.bounds), len(boxes)) for header in headers]
    cells = [box_of(*key) for key in boxes]

    def integers(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, dtype=np.int64)

    return FrameTable(
        integers([header.start for header in headers]),
        integers([header.rows for header in headers]),
        integers(stops),
        integers([header.line + header.lines for header in headers]),
        integers([header.step for header in headers]),
        integers([header.count for header in headers]),
        integers(layout),
        integers(box),
        np.zeros(len(headers), dtype=np.int64),
        np.array([math.nan if header.time is None else header.time for header in headers]),
        tuple(layouts),
        np.array([cell.vectors for cell in cells]).reshape(-1, 3, 3),
        np.array([cell.origin for cell in cells]).reshape(-1, 3),
        np.array([cell.boundary for cell in cells], dtype=np.bool_).reshape(-1, 3),
        (source,),
    )


def check_rows(reader: LineReader, header: Header, end: RowsEnd, notes: list[str]) -> str | None:
    """Refuse a wrong number of rows; a sentence where the text ends inside them. The reader stands at the first row."""
    path, frame = reader.source.path, f"the {header.count} rows of step {header.step}"
    if end.item:
        if end.lines < header.count:
            reader.skip(end.stop, end.lines)
            raise FormatError(
                path,
                f"line {reader.line}",
                found=shown(reader.peek() or b""),
                expected=f"row {end.lines + 1} of {frame}",
            )
        if end.lines == header.count:
            return None
    rest = LineReader(reader.source.again(), header.rows, reader.line)
    if end.lines > header.count:
        for _ in range(header.count):
            rest.next()
        raise FormatError(
            path, f"line {rest.line}", found=shown(rest.peek() or b""), expected=f"'ITEM: TIMESTEP' after {frame}"
        )
    last = end.lines
    if not end.terminated:
        for _ in range(end.lines - 1):
            rest.next()
        if len((rest.peek() or b"").split()) < len(header.columns):
            last -= 1
        elif end.lines == header.count:
            notes.append(
                f"{path}, line {rest.line}: the file ends without a line end: its last value may have been cut off"
            )
    if last == header.count:
        return None
    return f"line {reader.line + last}: the file ends after {last} of {frame}; that frame is left out"


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
