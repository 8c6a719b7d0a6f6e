"""XYZ files as records: the reader of both formats.

Plain and extended frames may stand in one file. All frames of the file share one declaration, the union of what they
have; it comes from their second lines, before any row is read.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, LayoutChanged
from molrec_convert.formats import ReadContext
from molrec_convert.meaning.species import propose
from molrec_convert.model import NO_FILL, Declaration, Frame, MetaDeclaration, Record
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.names import PER_STEP_KEYS
from molrec_convert.quantities.dimensions import units_words
from molrec_convert.quantities.standard import OPTIONS, full_tensor
from molrec_convert.quantities.units import conversion_factor
from molrec_convert.report import Report
from molrec_convert.text.contents import Contents
from molrec_xyz.collection import XyzCollection, one_record
from molrec_xyz.columns import (
    PLAIN,
    RowLayout,
    apart,
    is_number,
    parse_properties,
    plain_layout,
    record_name,
    width_of,
    words_for,
)
from molrec_xyz.headers import CELL, COLUMNS, Headers, Part, read_headers
from molrec_xyz.per_step import Cells, KeyFault, PerStep, per_step, read_cells
from molrec_xyz.plugin import XyzOptions
from molrec_xyz.reader import FOUR_COLUMNS, Reader
from molrec_xyz.scan import FrameTable, scan_frames, shown
from molrec_xyz.trajectory import LABELS, PerFrame, Source, XyzTrajectory, declare_blocks, plan_places, species_kind

__all__ = ["comment_facts", "extra_names", "is_lammps", "is_of_names", "read_xyz", "states_facts", "take_units"]

_LAMMPS = re.compile(r"\s*Atoms(?:\. Timestep: (-?[0-9]+)(?:\s+Time: ([-+.0-9Ee]+))?)?\s*")
_CP2K = re.compile(r"\s*i\s*=\s*([0-9]+),\s*time\s*=\s*([-+.0-9Ee]+)(?:,\s*E\s*=\s*([-+.0-9Ee]+))?.*")
_IPI = re.compile(r"\s*#\s*CELL.*\bStep:\s*([0-9]+).*")
_IPI_CELL = re.compile(r"\s*#\s*CELL\(abcABC\):\s*((?:[-+.0-9Ee]+\s+){6}).*")
_IPI_UNIT = re.compile(r"\b(positions|cell)\{(\w+)\}")
#: i-PI's words for units of length. Source: ipi.utils.units.
_IPI_LENGTHS = {"atomic_unit": "bohr", "angstrom": "angstrom", "nanometer": "nm", "meter": "m", "micrometer": "um"}
#: What CP2K has in the second lines of a trajectory of positions. Source: its manual, "PRINT%TRAJECTORY".
_CP2K_UNITS = {"length": "angstrom", "energy": "hartree", "time": "fs", "mass": "dalton", "charge": "e"}
_QM9 = re.compile(r"gdb\s+[0-9]+\s")

Reading = tuple[re.Pattern[str], dict[str, tuple[int, Callable[[str], Any]]]]
_READINGS: tuple[Reading, ...] = (
    (_LAMMPS, {"step": (1, int), "time": (2, float)}),
    (_CP2K, {"step": (1, int), "time": (2, float), "energy": (3, float)}),
    (_IPI, {"step": (1, int)}),
)


def is_lammps(comment: str) -> bool:
    """True if a frame is from a LAMMPS dump, whose numbers for species are types."""
    return _LAMMPS.fullmatch(comment) is not None


def is_of_names(comment: str) -> bool:
    """True if a frame is from a program that writes names of atoms, not elements."""
    return "Written by MDAnalysis" in comment


def states_facts(comment: str) -> bool:
    """True if a frame is from a program that writes its step or time, or other columns than it names."""
    return any(pattern.fullmatch(comment) for pattern, _ in _READINGS) or bool(extra_names(comment))


def extra_names(comment: str) -> Sequence[str]:
    """Return names of the columns behind the fourth, where the program that wrote the file is known."""
    return ("charge",) if _QM9.match(comment) else ()


def comment_facts(comments: Mapping[int, str], frames: int) -> dict[str, PerStep]:
    """Return steps and times that the second lines of all frames state in the words of one program."""
    if len(comments) != frames or not frames:
        return {}
    texts = [comments[frame] for frame in range(frames)]
    for pattern, names in _READINGS:
        if not pattern.fullmatch(texts[0]):
            continue
        matches = [pattern.fullmatch(text) for text in texts]
        facts = {}
        for name, (group, kind) in names.items():
            words = [None if match is None else match[group] for match in matches]
            try:
                values = [kind(word) for word in words if word is not None]
            except ValueError:
                continue
            if len(values) == frames and all(-(2**63) <= value < 2**63 for value in values):
                tag, dtype = ("i64", np.int64) if kind is int else ("f64", np.float64)
                facts[name] = PerStep(MetaDeclaration(tag), np.array(values, dtype=dtype))
            elif values and kind is float:
                known = [math.nan if word is None else kind(word) for word in words]
                facts[name] = PerStep(MetaDeclaration("f64", math.nan), np.array(known))
        return facts
    return {}


def take_units(headers: Headers, frames: int) -> dict[str, str]:
    """Return the units that the second lines of all frames state, or that the program has that wrote them.

    Cells of i-PI are put among the keys of `headers`, in the unit of the positions. {} where nothing is known.
    """
    comments = headers.comments
    if len(comments) != frames or not frames:
        return {}
    if all(_CP2K.fullmatch(text) for text in comments.values()):
        return dict(_CP2K_UNITS)
    if not all(_IPI.fullmatch(text) for text in comments.values()):
        return {}
    stated = {tuple(sorted(_IPI_UNIT.findall(text))) for text in comments.values()}
    units = {name: _IPI_LENGTHS.get(word) for name, word in stated.pop()} if len(stated) == 1 else {}
    positions = units.get("positions")
    if positions is None:
        return {}
    cells = {frame: _IPI_CELL.fullmatch(text) for frame, text in comments.items()}
    factor = conversion_factor(units.get("cell") or positions, positions)
    if factor is not None and all(cells.values()):
        texts = [_lattice(found[1], factor) for found in cells.values() if found is not None]
        headers.keys[CELL] = [Part(np.array(list(cells), np.int64), "double", texts)]
    return {"length": positions}


def _lattice(numbers: str, factor: float) -> bytes:
    """Return the nine numbers of `Lattice` for three lengths and three angles in degrees, as i-PI orients a cell."""
    a, b, c, alpha, beta, gamma = map(float, numbers.split())
    angles = [math.pi / 2 if angle == 90.0 else math.radians(angle) for angle in (alpha, beta, gamma)]
    cosines = [0.0 if angle == math.pi / 2 else math.cos(angle) for angle in angles]
    sine = 1.0 if cosines[2] == 0.0 else math.sin(angles[2])
    cx, cy = c * cosines[1], c * (cosines[0] - cosines[1] * cosines[2]) / sine
    cz = math.sqrt(c * c - cx * cx - cy * cy)
    vectors = (a, 0.0, 0.0, b * cosines[2], b * sine, 0.0, cx, cy, cz)
    return " ".join(repr(number * factor) for number in vectors).encode()


COMMENT = "comment"
_STEPS = ("step", "Step", "Timestep", "timestep")
_TIMES = ("time", "Time")
_LONGEST_ROW = 2**16
_PROPERTIES = re.compile(rb"""Properties\s*=\s*["']?([^\s"']+)""", re.IGNORECASE)
#: Frames whose labels are looked at before the rest is read.
_SAMPLED = 24
UNITS_ARE_OPEN = "the file does not state the units of its numbers, and the record leaves them open; --units names them"


def read_xyz(paths: Sequence[Path], context: ReadContext) -> Record | Collection:
    """Read one file: a record with a trajectory, or a collection of one record for each frame.

    FormatError names the line of what is wrong.
    """
    contents = Contents(paths[0])
    try:
        while True:
            mark = context.report.mark()
            try:
                return _read(paths[0], contents, context)
            except LayoutChanged as changed:
                if changed.hint in context.hints:
                    raise
                context.report.rewind(mark)
                context = dataclasses.replace(context, hints=context.hints | {changed.hint})
    except BaseException:
        contents.close()
        raise


def _read(path: Path, contents: Contents, context: ReadContext) -> Record | Collection:
    report, options = context.report, context.options
    if not isinstance(options, XyzOptions):
        options = XyzOptions()
    data = contents.data
    table = scan_frames(path, data)
    if not len(table):
        raise FormatError(path, found="no frame", expected="a number of atoms in the first line")
    _report_scan(path, table, contents.cut, report)
    table = _without_torn(path, data, table, report)
    headers = read_headers(path, data, table, report)
    own_units = take_units(headers, len(table))
    layouts, layout_of = _layouts(path, data, table, headers, context.hints, report)
    cells = read_cells(path, headers, table, report)
    first = [int(table.line[np.argmax(layout_of == number)]) + 1 for number in range(len(layouts))]
    reader = Reader(path, data, table, layouts, layout_of)
    kind = species_kind(
        _sampled_words(reader), LABELS in context.hints, options.species,
        any(is_lammps(text) for text in list(headers.comments.values())[:1]), report,
    )  # fmt: skip
    if kind == "element" and any(map(is_of_names, list(headers.comments.values())[:1])):
        report.warn(
            "the labels are names of atoms, taken as elements as all are symbols; --species names keeps the names"
        )
    places = plan_places(layouts, first, path, kind, options, context.hints, report)
    per_frame = _per_frame(path, headers, cells, table, options, report)
    meta = {key: declared for key, (declared, _) in per_frame.meta.items()}
    source = Source(reader, places, per_frame, options.species)
    system = Frame()
    if own_units:
        system.meta.put("units", own_units, "json")
        report.carried("units", f"{units_words(own_units)}, as the program that wrote the file has them")
    elif options.units is not None:
        system.meta.put("units", {"preset": options.units}, "json")
        report.carried("units", f"{options.units}, as asked")
    else:
        report.warn(UNITS_ARE_OPEN)
    made = _made(path, table, layouts, source, meta, system, contents, context)
    if own_units and options.units is not None:
        from molrec_convert.meaning.units import in_units

        return in_units(made, {"preset": options.units}, report=report, strict=False)
    return made


def _made(
    path: Path, table: FrameTable, layouts: list[RowLayout], source: Source, meta: dict[str, MetaDeclaration],
    system: Frame, contents: Contents, context: ReadContext,
) -> Record | Collection:  # fmt: skip
    """Return the record or collection of the frames, as it is asked for or as they suggest."""
    per_frame, places = source.per_frame, source.places
    arrangement = _arrangement(path, table, layouts, per_frame, context)
    context.progress.start("frames", len(table))
    if arrangement != "trajectory":
        return XyzCollection(source, Declaration({}, meta), system, contents)
    if len(table) == 1:
        record = one_record(source, Declaration({}, meta), system)
        record._close = contents.close
        return record
    settling = bool((table.count == table.count[0]).all())
    blocks = declare_blocks(places, int(table.count.max()), settling=settling)
    declaration = Declaration({name: declared for name, (declared, _) in blocks.items()}, meta)
    declaration.check()
    trajectory = XyzTrajectory(
        source, declaration, {name: own for name, (_, own) in blocks.items()}, np.arange(len(table), dtype=np.int64)
    )
    return Record(system=system if system.meta else None, trajectory=trajectory, _close=contents.close)


def _report_scan(path: Path, table: FrameTable, cut: str | None, report: Report) -> None:
    if table.blanks:
        report.warn(f"{path}: {table.blanks} blank lines before or between frames are passed over")
    if table.vectors:
        report.dropped(f"{table.vectors} rows of translation vectors (VEC1 ...)", "they are no atoms")
    if table.rest is not None:
        line, text = table.rest
        report.dropped(f"text after the last frame, from line {line}", f"{text}: it is no frame")
    if cut is not None:
        report.truncated(f"{path}: {cut}; frames that are whole are kept")
    if table.short is not None:
        report.truncated(table.short)


def _without_torn(path: Path, data: Any, table: FrameTable, report: Report) -> FrameTable:
    """Return the frames without a last one whose last row breaks off in the middle."""
    last = len(table) - 1
    start, end, count = int(table.rows[last]), int(table.end[last]), int(table.count[last])
    if not count or data[end - 1 : end] == b"\n":
        return table
    torn = data[data.rfind(b"\n", start, end) + 1 if count > 1 else start : end].split()
    head = _PROPERTIES.search(data[int(table.header[last]) : start])
    if head is not None:
        needed = sum(width_of(width.decode()) or 0 for width in head[1].split(b":")[2::3])
    else:
        needed = len(data[start : data.find(b"\n", start, end)].split()) if count > 1 else len(PLAIN) + 2
    if len(torn) >= needed:
        _say_shorter(path, data, start, end, report)
        return table
    line = int(table.line[last]) + 1 + count
    if last == 0:
        raise FormatError(
            path, f"line {line}", found=f"the end of the file after {len(torn)} fields", expected=str(needed)
        )
    report.truncated(f"{path}, line {line}: the last row breaks off; its frame is left out")
    return FrameTable(table.header[:last], table.rows[:last], table.end[:last], table.count[:last], table.line[:last])


def _say_shorter(path: Path, data: Any, start: int, end: int, report: Report) -> None:
    """Say so where a last row without an end is shorter than the one before: half a number is a number, too."""
    rows: list[bytes] = bytes(data[max(start, end - _LONGEST_ROW) : end]).rstrip().rsplit(b"\n", 2)
    if len(rows) > 1 and len(rows[-1]) < len(rows[-2].rstrip()):
        report.warn(
            f"{path}: the last row has no end and is shorter than the one before: its last value may be cut off"
        )


def _layouts(
    path: Path, data: Any, table: FrameTable, headers: Headers, hints: frozenset[str], report: Report
) -> tuple[list[RowLayout], NDArray[np.int64]]:
    """Return the different columns that frames have, and which each frame has."""
    known: dict[RowLayout, int] = {}
    layout_of = np.full(len(table), -1, np.int64)
    for part in headers.keys.pop(COLUMNS, []):
        numbers: dict[bytes, int] = {}
        for frame, raw in zip(part.frames.tolist(), part.raws, strict=True):
            if raw not in numbers:
                layout = parse_properties(raw.decode("utf-8", "replace"), path, int(table.line[frame]) + 1, report)
                numbers[raw] = known.setdefault(layout, len(known))
        layout_of[part.frames] = [numbers[raw] for raw in part.raws]
    rest = np.flatnonzero(layout_of < 0).tolist()
    four = FOUR_COLUMNS in hints
    for frame in rest:
        row = b""
        if table.count[frame]:
            start, end = int(table.rows[frame]), int(table.end[frame])
            row = data[start:end] if table.count[frame] == 1 else data[start : data.find(b"\n", start, end)]
        _check_plain(path, row, int(table.line[frame]) + 2)
        names = extra_names(headers.comments.get(frame, ""))
        layout = plain_layout(row, names, four=four)
        layout_of[frame] = known.setdefault(layout, len(known))
    plain = [list(known)[number] for number in set(layout_of[rest].tolist())]
    if any(layout.open and layout.columns[:2] == PLAIN for layout in plain):
        report.dropped(
            "fields behind the fourth", "they are not numbers in every row, and the file has no names for them"
        )
    return list(known), layout_of


def _check_plain(path: Path, row: bytes, line: int) -> None:
    """Refuse a file whose rows begin with a number and a label: that is Tinker's."""
    fields = row.split()
    if len(fields) > 5 and fields[0].isdigit() and not is_number(fields[1]) and all(map(is_number, fields[2:5])):
        raise FormatError(
            path, f"line {line}", found=shown(row), expected="a label and three numbers",
            hint="rows that begin with their own number are those of a Tinker file, which is another format",
        )  # fmt: skip


#: Bytes of a file of one frame that is read whole where others are sampled.
_SMALL_FILE = 2**20


def _sampled_words(reader: Reader) -> list[str]:
    """Return the labels of some frames from the beginning to the end."""
    if not any(column.name == "species" for layout in reader.layouts for column in layout.columns):
        return []
    if len(reader.table) == 1 and len(reader.data) < _SMALL_FILE:
        codes = reader.read_only_frame().fields["species", 0]
        return [reader.words[code] for code in np.unique(codes).tolist()]
    frames = np.unique(np.linspace(0, len(reader.table) - 1, _SAMPLED).astype(np.int64))
    sizes = np.cumsum(reader.table.end[frames] - reader.table.rows[frames])
    few = frames[: max(1, int(np.searchsorted(sizes, 2**22)))]
    for _ in reader.read(few, frozenset({"species"}), 2**24):
        pass
    return list(reader.words)


def _per_frame(
    path: Path, headers: Headers, cells: Cells, table: FrameTable, options: XyzOptions, report: Report
) -> PerFrame:
    """Return steps, times and values per step."""
    frames = len(table)
    facts = comment_facts(headers.comments, frames)
    if headers.comments:
        ordinals = np.array(sorted(headers.comments), np.int64)
        texts = [headers.comments[frame].encode() for frame in ordinals.tolist()]
        headers.keys.setdefault(COMMENT, []).append(Part(ordinals, "text", texts))
    if cells.periodic:
        ordinals = np.array(sorted(cells.periodic), np.int64)
        words = [" ".join("T" if axis else "F" for axis in cells.periodic[f]).encode() for f in ordinals.tolist()]
        headers.keys["pbc"] = [Part(ordinals, "double", words)]
    try:
        found = {key: per_step(key, parts, frames) for key, parts in headers.keys.items()}
    except KeyFault as fault:
        line = int(table.line[fault.frame]) + 1
        raise FormatError(path, f"line {line}", found=fault.found, expected=fault.expected) from None
    found |= {key: value for key, value in facts.items() if key not in found}
    steps = None if options.steps == "index" else _take(found, _STEPS, "i64", report, "step numbers")
    numbered = steps is not None
    if steps is None:
        steps = np.arange(frames, dtype=np.int64)
    times = _take(found, _TIMES, "f64", report, "times")
    meta = _named(path, found, options, report)
    return PerFrame(steps, times, meta, cells.number_of, cells.vectors, cells.origin, cells.boundary, numbered)


def _take(found: dict[str, PerStep], names: Sequence[str], tag: str, report: Report, what: str) -> NDArray[Any] | None:
    """Return the values of the first of some keys that can be steps, or times, of all frames; the key is used up."""
    for name in names:
        entry = found.get(name)
        if entry is None or entry.declared.dtype != tag or isinstance(entry.values, list):
            continue
        if tag == "i64" and bool((np.diff(entry.values) <= 0).any()):
            report.warn(f"the key {name} does not ascend from frame to frame: frames are numbered by their order")
            continue
        if tag == "f64" and not bool(np.isfinite(entry.values).all()):
            continue
        report.converted(name, f"as {what}")
        values: NDArray[Any] = found.pop(name).values
        return values
    return None


def _named(
    path: Path, found: dict[str, PerStep], options: XyzOptions, report: Report
) -> dict[str, tuple[MetaDeclaration, Any]]:
    """Return keys under the names a record has for them; the energy, the stress and the virial under the standard
    ones.
    """
    for quantity, key in options.chosen().items():
        if quantity != "forces" and key not in found:
            raise FormatError(
                path, found=f"the keys {', '.join(found) or 'none'}", expected=f"{key}, as {OPTIONS[quantity]} says"
            )  # fmt: skip
    if options.energy_key is not None:
        found[options.energy_key] = _as_number(path, options.energy_key, found[options.energy_key])
    standard = _standard(found, options)
    meta: dict[str, tuple[MetaDeclaration, Any]] = {}
    for key, entry in found.items():
        if entry.loss is not None:
            report.dropped(key, entry.loss)
        if key in standard:
            name, entry = standard[key]
            words = f"as {name}" + (TENSORS if name in ("stress", "virial") else "")
            (report.carried if entry is found[key] else report.converted)(key, words)
            meta[name] = (entry.declared, entry.values)
            continue
        name = record_name(key)
        if name in {own for own, _ in standard.values()} or (name in PER_STEP_KEYS and entry.declared.dtype != "f64"):
            name = apart(key)
        if entry.note is not None:
            report.converted(key, entry.note)
        elif name == key:
            report.carried(key, words_for(key))
        else:
            report.converted(key, f"named {name}: its own name is another key's, or none a record can have")
        meta[name] = (entry.declared, entry.values)
    if "pe" not in meta:
        propose("energy", [key for key, entry in found.items() if entry.declared.dtype == "f64"], report)
    return meta


#: How the numbers of a stress or virial are kept.
TENSORS = ": nine numbers, 3×3 in rows; a stress is positive under tension, a virial is -V stress"


def _standard(found: dict[str, PerStep], options: XyzOptions) -> dict[str, tuple[str, PerStep]]:
    """Return key → its standard name and its entry in the standard form, for those that are standard quantities."""
    made: dict[str, tuple[str, PerStep]] = {}
    energy = found.get(options.name_of("energy"))
    if energy is not None and energy.declared.dtype == "f64":
        made[options.name_of("energy")] = ("pe", energy)
    for quantity in ("stress", "virial"):
        entry = found.get(options.name_of(quantity))
        if entry is not None and entry.declared.dtype in ("f64x9", "f64x6"):
            made[options.name_of(quantity)] = (quantity, _tensor(entry))
    return made


def _as_number(path: Path, key: str, entry: PerStep) -> PerStep:
    """Return the key that is chosen as the energy, which is a number: texts that are numbers are taken as such."""
    if entry.declared.dtype == "f64":
        return entry
    values = np.full(len(entry.values), np.nan)
    missing = False
    for frame, value in enumerate(entry.values if isinstance(entry.values, list) else entry.values.tolist()):
        if value is None:
            missing = True
            continue
        try:
            values[frame] = float(value)
        except (TypeError, ValueError, OverflowError):
            raise FormatError(
                path, f"frame {frame}", found=f"{key} {shown(str(value).encode())}", expected="a number",
                hint="--energy-key names the key that is the energy",
            ) from None  # fmt: skip
    return PerStep(MetaDeclaration("f64", np.nan if missing else NO_FILL), values)


def _tensor(entry: PerStep) -> PerStep:
    """Return a tensor as nine numbers in rows. In a file nine stand in columns, six as xx yy zz yz xz xy (ASE)."""
    nested = entry.note is not None and entry.note.startswith("3×3")
    full = full_tensor(entry.values)
    values = full if nested else np.swapaxes(full, -1, -2)
    fill = entry.declared.fill
    fill = fill if fill is NO_FILL else np.full(9, np.nan)
    return PerStep(MetaDeclaration("f64x9", fill), np.ascontiguousarray(values).reshape(-1, 9), entry.note, entry.loss)


def _arrangement(
    path: Path, table: FrameTable, layouts: list[RowLayout], per_frame: PerFrame, context: ReadContext
) -> str:
    """Return trajectory or collection: what is asked for, else what the target and the frames suggest, which is
    reported.
    """
    cell = per_frame.cell_of >= 0
    lost = np.flatnonzero(cell[:-1] & ~cell[1:]) + 1
    asked = context.arrangement
    unrelated = bool((table.count != table.count[0]).any()) or len(layouts) > 1 or bool(len(lost))
    if asked is None and len(table) > 1 and context.target == "collection":
        asked = "collection"
        context.report.converted(
            "configurations", "one record each, as the target is a collection; --as trajectory makes one run of them"
        )
    elif asked is None and context.target is None and len(lost):
        asked = "collection"
        context.report.converted("configurations", "one record each: some have a cell, later ones have none")
    elif asked is None and len(table) > 1:
        kind = (
            "they have the same number of atoms and the same columns" if not unrelated else "the target is one record"
        )
        context.report.converted("configurations", f"one trajectory: {kind}; --as collection makes a record of each")
    if asked in (None, "trajectory") and len(lost):
        line = int(table.line[lost[0]]) + 1
        raise FormatError(
            path, f"line {line}", found=f"no Lattice in frame {int(lost[0])}",
            expected="a cell, as the frame before has one", hint="a run that had a cell keeps one; --as collection, or "
            "--as records, makes a record of each frame",
        )  # fmt: skip
    return "trajectory" if asked in (None, "trajectory") else "collection"
