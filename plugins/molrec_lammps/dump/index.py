"""The index pass: where each frame of a dump is, and what its header says, without parsing a row.

Three ways, equal in result: *leap* over the rows of large frames to where the next header should be; *scan* whole
blocks for headers (`dump_scan`); read the headers one by one and count every line (`dump_exact`). The first two give
up at the slightest doubt, and the exact way then reads the file anew, so that a fault is named with its line. What a
quick pass takes on trust, the number of rows of each frame, is checked where the rows are parsed.
"""

from __future__ import annotations

from molrec_convert.errors import FormatError
from molrec_lammps.dump.exact import Doubt, check_rows, exact_index, finish, rows_end
from molrec_lammps.dump.frames import FileIndex
from molrec_lammps.dump.header import CutHeader, Header, read_header
from molrec_lammps.dump.scan import scan_index
from molrec_lammps.dump.source import LineReader, Source
from molrec_lammps.dump.yaml import is_yaml, read_yaml_header, yaml_index, yaml_rows

__all__ = ["first_header", "index_source", "leap_index"]

#: Frames of more bytes of rows are leapt over.
_LEAP_BYTES = 2**16
#: Of so few frames the exact pass is the quickest: it matters where every frame has a file of its own.
_FEW_FRAMES = 4


def index_source(source: Source) -> FileIndex:
    """The frames of one file. A file without a whole frame, or with a fault in a header, is a `FormatError`."""
    if is_yaml(source.read(0, 256)):
        source.translate = yaml_rows
        return yaml_index(source)
    try:
        reader = LineReader(source)
        if not (reader.peek() or b"").startswith(b"ITEM: "):
            raise Doubt
        first = read_header(reader)
        sample = source.read(first.rows, first.rows + 4096)
        length = first.count * (len(sample) / max(1, sample.count(b"\n")))
        if length > _LEAP_BYTES and not source.sequential:
            return leap_index(source)
        if source.size is not None and source.size < _FEW_FRAMES * (first.rows + length):
            return exact_index(source)
        return scan_index(source)
    except (Doubt, FormatError, CutHeader):
        return exact_index(source)


def first_header(source: Source) -> Header:
    """The header of the first frame, of a text or a YAML dump."""
    if is_yaml(source.read(0, 256)):
        return read_yaml_header(LineReader(source))
    return read_header(LineReader(source))


def leap_index(source: Source) -> FileIndex:
    """The frames of one file whose frames are large: only headers are read, each where the last frame lets expect it.

    `Doubt`: something is not as expected.
    """
    size = source.size or 0
    headers: list[Header] = []
    stops: list[int] = []
    notes: list[str] = []
    breaks: list[str] = []
    offset, line, width, ratio = 0, 1, 2**16, 0.0
    while offset < size:
        reader = LineReader(source, offset, line, block=2**12)
        try:
            header = read_header(reader)
        except CutHeader:
            raise Doubt from None
        guess = header.rows + int(header.count * ratio)
        stop = _look_near(source, header.rows, guess, width) if ratio and header.count else None
        if stop is None:
            end = rows_end(source, header.rows)
            if end.item and end.lines != header.count:
                raise Doubt
            if not end.item:
                fault = check_rows(reader, header, end, notes)
                if fault is None:
                    headers.append(header)
                    stops.append(end.stop)
                else:
                    breaks.append(fault)
                break
            stop = end.stop
        else:
            width = max(2**11, min(2**16, 4 * abs(stop - guess)))
        headers.append(header)
        stops.append(stop)
        if header.count:
            ratio = (stop - header.rows) / header.count
        offset, line = stop, line + header.lines + header.count
    return finish(source, headers, stops, breaks, notes)


def _look_near(source: Source, low: int, guess: int, width: int) -> int | None:
    """The place of an ITEM line near `guess`; None when the text ends near it, or none is found where it should be."""
    size = source.size or 0
    for reach in (width, 16 * width):
        start, stop = max(low, guess - reach) - 1, guess + reach
        if stop >= size:
            return None
        found = source.read(start, stop + 6).find(b"\nITEM:")
        if found >= 0:
            return start + found + 1
    return None
