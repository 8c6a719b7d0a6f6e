"""What kind a dump is, and the index pass over those that hold no atoms: `dump local` and `dump grid`.

    ITEM: TIMESTEP / n                      before it possibly UNITS and TIME
    ITEM: NUMBER OF ENTRIES / n             local; ENTRIES is another label with dump_modify label
    ITEM: BOX BOUNDS ... / 3 lines
    ITEM: ENTRIES names                     local; then n rows
    ITEM: DIMENSION / 2 or 3                grid
    ITEM: GRID SIZE nx ny nz / 3 numbers    grid
    ITEM: GRID CELLS names                  grid; then nx*ny*nz rows, x fastest

Source: LAMMPS manual, "dump"; files of the 22 Jul 2025 release.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.model import Box
from molrec_lammps.detect import binary_dump
from molrec_lammps.dump.frames import cells_of, truncation
from molrec_lammps.dump.header import CutHeader, check_rows, check_values, column_names, rows_end, shown
from molrec_lammps.dump.source import LineReader, Source, open_source
from molrec_lammps.dump.yaml import is_yaml

__all__ = [
    "OTHER_STYLES",
    "ItemFrame",
    "ItemIndex",
    "dump_kind",
    "how_to_read",
    "index_items",
]

_GRID = "GRID CELLS"
#: Items of one line of values each.
_LINES = {"TIMESTEP": 1, "TIME": 1, "UNITS": 1, "BOX BOUNDS": 3, "DIMENSION": 1, "GRID SIZE": 1}


@dataclass(frozen=True)
class ItemFrame:
    """One frame: its step, time, cell, columns, and where its `count` rows are.

    `label` is the word of a local dump (`ENTRIES`), `shape` the size of a grid (nx, ny, nz).
    """

    step: int
    time: float | None
    box: Box
    label: str
    columns: tuple[str, ...]
    count: int
    rows: int
    stop: int
    line: int
    shape: tuple[int, ...] | None = None
    units: str | None = None


@dataclass
class ItemIndex:
    """The frames of one file in order; `truncated` says where it breaks off, `warnings` what else there is to say."""

    source: Source
    frames: list[ItemFrame] = field(default_factory=list)
    truncated: str | None = None
    warnings: list[str] = field(default_factory=list)


def _kind_of_items(source: Source) -> str | None:
    """Return `"local"`, `"grid"` or `"atoms"`: what the first frame of a text dump holds; None where it is no dump."""
    reader = LineReader(source, block=2**12)
    for _ in range(40):
        line = reader.next()
        if line is None:
            return None
        text = line.decode("utf-8", "replace").strip()
        if text.startswith("ITEM: GRID "):
            return "grid"
        if text == "ITEM: NUMBER OF ATOMS":
            return "atoms"
        if text.startswith("ITEM: NUMBER OF "):
            return "local"
        if text.startswith("ITEM: ATOMS"):
            return "atoms"
    return None


def index_items(source: Source) -> ItemIndex:
    """Return the frames of a file. FormatError names the line of what is wrong, or says that no frame is whole."""
    reader = LineReader(source, block=2**12)
    index = ItemIndex(source)
    breaks: list[str] = []
    while (line := reader.peek()) is not None:
        if not line.strip():
            reader.next()
            continue
        number = len(index.frames)
        try:
            frame = _frame(reader)
        except CutHeader:
            breaks.append(f"line {reader.line}: the file ends inside the header of frame {number}, which is left out")
            break
        end = rows_end(source, frame.rows, 256 + 16 * frame.count)
        fault = check_rows(reader, frame, end, index.warnings)
        if fault is not None:
            breaks.append(fault)
            break
        index.frames.append(replace(frame, stop=end.stop))
        reader.skip(end.stop, end.lines)
    index.truncated = truncation(source, breaks)
    if not index.frames:
        found = breaks[0] if breaks else "an empty file"
        raise FormatError(source.path, None, found=found, expected="at least one whole frame")
    return index


def _frame(reader: LineReader) -> ItemFrame:
    """Return the header at the reader's line; the reader then stands at the first row."""
    path = reader.source.path
    items: dict[str, tuple[str, list[bytes]]] = {}
    label: str | None = None
    while True:
        number = reader.line
        line = _line(reader)
        text = line.decode("utf-8", "replace").strip()
        if not text.startswith("ITEM: "):
            raise FormatError(path, f"line {number}", found=shown(line), expected="'ITEM: ...'")
        text = text[6:]
        if text.startswith("NUMBER OF "):
            label, name, words = text[10:], "NUMBER", ""
            values = [_line(reader)]
        elif text.startswith(_GRID) or (label is not None and (text == label or text.startswith(label + " "))):
            own = _GRID if text.startswith(_GRID) else label or ""
            return _finish(items, label, column_names(text[len(own) :], path, number), reader, number)
        else:
            name = next((item for item in _LINES if text == item or text.startswith(item + " ")), "")
            if not name:
                raise FormatError(
                    path, f"line {number}", found=shown(line), expected="an item of a dump local or dump grid"
                )
            words = text[len(name) :]
            values = [_line(reader) for _ in range(_LINES[name])]
        if name in items:
            raise FormatError(path, f"line {number}", found=f"a second {shown(line)}", expected="each item once")
        if name in ("TIMESTEP", "TIME", "UNITS", "BOX BOUNDS"):
            check_values(name, words, values, path, number + 1)
        elif name != "NUMBER" or not values[0].strip().isdigit():
            _check_counts(name, values[0], path, number + 1)
        items[name] = (words, values)


def _finish(
    items: dict[str, tuple[str, list[bytes]]],
    label: str | None,
    columns: tuple[str, ...],
    reader: LineReader,
    number: int,
) -> ItemFrame:
    path = reader.source.path
    wanted = ["TIMESTEP", "BOX BOUNDS", "NUMBER" if label is not None else "GRID SIZE"]
    missing = [name for name in wanted if name not in items]
    if missing:
        raise FormatError(
            path, f"line {number}", found="the names of columns", expected=f"'ITEM: {missing[0]}' before them"
        )
    words, bounds = items["BOX BOUNDS"]
    box = _box(words, tuple(bounds))
    shape: tuple[int, ...] | None = None
    if label is None:
        shape = tuple(int(word) for word in items["GRID SIZE"][1][0].split())
        count = math.prod(shape)
    else:
        count = int(items["NUMBER"][1][0])
    return ItemFrame(
        int(items["TIMESTEP"][1][0]),
        float(items["TIME"][1][0]) if "TIME" in items else None,
        box,
        label or "GRID",
        columns,
        count,
        reader.offset,
        reader.offset,
        reader.line,
        shape,
        items["UNITS"][1][0].decode("latin-1").strip() if "UNITS" in items else None,
    )


@lru_cache(maxsize=64)
def _box(words: str, bounds: tuple[bytes, ...]) -> Box:
    """Return the cell; many frames have the same."""
    values = np.array([[float(word) for word in row.split()] for row in bounds])
    return Box(*(part[0] for part in cells_of(tuple(words.split()), values[None])))


def _check_counts(name: str, line: bytes, path: Path, number: int) -> None:
    """Refuse a count, a dimension or a grid size that is none."""
    words: Sequence[bytes] = line.split()
    expected = {"NUMBER": (1, "a number of entries"), "DIMENSION": (1, "2 or 3"), "GRID SIZE": (3, "three sizes")}
    count, what = expected[name]
    if len(words) != count or not all(word.isdigit() for word in words) or (name != "NUMBER" and b"0" in words):
        raise FormatError(path, f"line {number}", found=shown(line), expected=what)


def _line(reader: LineReader) -> bytes:
    line = reader.next()
    if line is None or not line.endswith(b"\n"):
        raise CutHeader
    return line


#: Dump styles that other formats of the converter read: style → format.
OTHER_STYLES = {"xyz": "xyz", "dcd": "mdanalysis", "xtc": "mdanalysis", "netcdf": "mdanalysis", "h5md": "mdanalysis"}
#: What a refusal of a binary dump advises.
BINARY_ADVICE = "LAMMPS' tool binary2txt makes a text dump of it, which is read"

_MAGIC = (
    (b"T\0\0\0CORD", "dcd"),
    (b"\0\0\0TCORD", "dcd"),
    (b"\0\0\x07\xcb", "xtc"),
    (b"\0\0\x07\xe3", "xtc"),
    (b"CDF", "netcdf"),
    (b"\x89HDF", "h5md"),
)
_XYZ = re.compile(rb"\s*\d+[ \t]*\r?\n[^\n]*\n\s*[A-Za-z0-9]+(?:\s+[-+.0-9eE]+){3}")
_ROW = re.compile(rb"\s*[-+]?[0-9.]+(?:[eE][-+]?\d+)?(?:\s+\S+)*\s*$")


def dump_kind(path: Path) -> str:
    """Return `"atoms"`, `"local"` or `"grid"`. UnsupportedError or FormatError: a kind that is not read here, by
    name.
    """
    source = open_source(path)
    head = source.read(0, 4096)
    try:
        if is_yaml(head):
            return "atoms"
        if binary_dump(head):
            raise UnsupportedError(f"{path} is a binary dump: {BINARY_ADVICE}")
        for magic, style in _MAGIC:
            if head.startswith(magic):
                raise UnsupportedError(f"{path} is a dump of style {style}: {how_to_read(style, [path])}")
        kind = _kind_of_items(source)
        if kind is not None:
            return kind
        if b"ITEM:" in source.read(0, 2**20):
            return "atoms"
        if _XYZ.match(head):
            raise UnsupportedError(f"{path} is a dump of style xyz: {how_to_read('xyz', [path])}")
        if _ROW.match(head.split(b"\n", 1)[0]):
            raise FormatError(
                path,
                "line 1",
                found=repr(head.split(b"\n", 1)[0].decode("latin-1").strip()[:60]),
                expected="'ITEM: TIMESTEP', the first line of a LAMMPS text dump",
                hint="rows alone (dump_modify header no) tell neither steps nor columns nor the cell",
            )
        return "atoms"
    finally:
        source.close()


def how_to_read(style: str, files: list[Path]) -> str:
    """Return which format reads dumps of a style, in words; a format that is not installed is said to be so."""
    from molrec_convert.plugins import formats

    name = OTHER_STYLES.get(style)
    if name is None:
        return "no format reads it; dump custom writes what is"
    known = formats().get(name)
    if known is None or known.reads is None:
        return f"the format {name} reads it, which is not installed"
    return f"mrec convert --from {name} {' '.join(map(str, files[:3]))} {files[0].stem}.mrec reads it"
