"""What each frame has once: values of the keys of its second line, and its cell.

A key becomes values of one tag. Where it is missing in some frames, floats and vectors of them are filled with NaN,
everything else is kept as JSON, whose fill is null: nothing is invented. A frame that states NaN itself is then no
longer told from one that states nothing, which is reported. `None` in place of a number, as Python programs write it,
says that there is none.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.model import NO_FILL, MetaDeclaration
from molrec_convert.model.names import PER_STEP_KEYS
from molrec_convert.report import Report
from molrec_xyz.headers import CELL, FLOAT, INTEGER, PERIODIC, Document, Headers, Part, ValueFault, number, typed
from molrec_xyz.scan import FrameTable, shown

__all__ = ["Cells", "KeyFault", "PerStep", "per_step", "read_cells", "reads_as_real"]

_NUMBERS = re.compile(rb"(?:(?:" + INTEGER.encode() + rb"|" + FLOAT.encode() + rb")\n)*", re.IGNORECASE)
_INTEGERS = re.compile(rb"(?:" + INTEGER.encode() + rb"\n)*")
#: Quantities that are real numbers also where a file writes one without a point.
_REAL = re.compile(r"energ|stress|viri|dipole|forces?$|magmom|^e$|temperature|pressure|^time$", re.IGNORECASE)
#: What Python programs write for a value that is not there.
NONE = b"None"
#: Letters of an integer of 64 bits with its sign.
_LONGEST = 20
_INT64 = range(-(2**63), 2**63)
_WIDTHS = {(int, 3): "i64x3", (bool, 3): "bool3", (float, 3): "f64x3", (float, 6): "f64x6", (float, 9): "f64x9"}


@dataclass(frozen=True)
class PerStep:
    """The declaration of a key, its value in each frame (an array, or a list of documents), what was changed, and what
    was lost."""

    declared: MetaDeclaration
    values: Any
    note: str | None = None
    loss: str | None = None


class KeyFault(ValueError):
    """A text of a key that nothing can hold: the frame, the key with what it has, and what it may have."""

    def __init__(self, frame: int, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.frame, self.found, self.expected = frame, found, expected


def per_step(key: str, parts: Sequence[Part], frames: int) -> PerStep:
    """Return the values of one key, of whose frames `parts` has the texts. `KeyFault` for what no value can hold."""
    if any(part.form == "bare" and NONE in part.raws for part in parts):
        return _with_none(key, parts, frames)
    quick = _quick(key, parts, frames)
    if quick is not None:
        return quick
    return _of_texts(key, parts, frames)


def _of_texts(key: str, parts: Sequence[Part], frames: int) -> PerStep:
    """Return a key whose texts are looked at one by one."""
    raws: list[tuple[str, bytes] | None] = [None] * frames
    for part in parts:
        for frame, raw in zip(part.frames.tolist(), part.raws, strict=True):
            raws[frame] = (part.form, raw)
    values = _typed(key, parts)
    missing = None in raws
    tag, note = _tag(key, list(values.values()))
    if missing and tag not in ("f64", "f64x3", "f64x6", "f64x9"):
        if tag not in ("json", "string"):
            note = _missing(tag)
        elif tag == "string":
            note = _missing("a text")
        tag = "json"
    if tag == "json" and not all(_is_json(value) for value in values.values()):
        # the text of each, as numbers that are not finite have no place in JSON
        values, tag = {entry: _text(entry[1]) for entry in values}, "json" if missing else "string"
        note = "kept as text"
    return _filled(tag, raws, values, note)


def _typed(key: str, parts: Sequence[Part]) -> dict[tuple[str, bytes], Any]:
    """Return form and text → value, of all texts of a key."""
    values: dict[tuple[str, bytes], Any] = {}
    for part in parts:
        for raw in dict.fromkeys(part.raws):
            if (part.form, raw) not in values:
                try:
                    values[part.form, raw] = typed(part.form, _text(raw))
                except ValueFault as fault:
                    frame = int(part.frames[part.raws.index(raw)])
                    raise KeyFault(frame, f"{key} with {fault.found}", fault.expected) from None
    return values


def _with_none(key: str, parts: Sequence[Part], frames: int) -> PerStep:
    """Return a key that is `None` in some frames: missing in these where it has no texts in the others."""
    count, stated = 0, []
    for part in parts:
        there = np.array([part.form != "bare" or raw != NONE for raw in part.raws], np.bool_)
        count += len(there) - int(there.sum())
        raws = [raw for raw, flag in zip(part.raws, there.tolist(), strict=True) if flag]
        if raws:
            stated.append(Part(part.frames[there], part.form, raws))
    if not stated:
        if not reads_as_real(key):
            return _of_texts(key, parts, frames)
        nothing = np.full(frames, math.nan)
        return PerStep(MetaDeclaration("f64", math.nan), nothing, f"None in {count} of {frames} frames: missing there")
    if any(isinstance(value, (str, Document)) for value in _typed(key, stated).values()):
        return _of_texts(key, parts, frames)
    found = per_step(key, stated, frames)
    note = f"None in {count} of {frames} frames: missing there"
    return dataclasses.replace(found, note=note if found.note is None else f"{note}; {found.note}")


def _quick(key: str, parts: Sequence[Part], frames: int) -> PerStep | None:
    """Return a key that is a number wherever it stands."""
    if any(part.form != "bare" for part in parts):
        return None
    joined = [b"\n".join(part.raws) + b"\n" for part in parts]
    if not all(_NUMBERS.fullmatch(text) for text in joined):
        return None
    whole = sum(len(part.frames) for part in parts) == frames
    real = bool(_REAL.search(key)) or key in PER_STEP_KEYS
    if not real and all(_INTEGERS.fullmatch(text) for text in joined):
        if not whole or max(len(raw) for part in parts for raw in part.raws) > _LONGEST:
            return None
        numbers = [int(raw) for part in parts for raw in part.raws]
        if not all(value in _INT64 for value in (min(numbers), max(numbers))):
            return None
        integers = np.zeros(frames, np.int64)
        integers[np.concatenate([part.frames for part in parts])] = numbers
        return PerStep(MetaDeclaration("i64"), integers)
    values = np.full(frames, math.nan)
    stated = beyond = 0
    for part in parts:
        values[part.frames] = found = np.array(_numbers(part.raws))
        stated += int(np.isnan(found).sum())
        infinite = np.flatnonzero(np.isinf(found)).tolist()
        beyond += sum(b"inf" not in part.raws[number].lower() for number in infinite)
    loss = _blurred(stated, whole)
    if beyond:
        loss = f"{beyond} numbers are beyond the range of doubles and read as infinite" if beyond > 1 else _BEYOND
    return PerStep(MetaDeclaration("f64", NO_FILL if whole else math.nan), values, loss=loss)


_BEYOND = "a number is beyond the range of doubles and reads as infinite"


def _numbers(raws: list[bytes]) -> list[float]:
    try:
        return list(map(float, raws))
    except ValueError:
        return [number(raw.decode()) for raw in raws]


def _tag(key: str, values: list[Any]) -> tuple[str, str | None]:
    """Return the tag all values can have, and a note where they are not kept as they are written."""
    shapes = {_shape(value) for value in values}
    if any(shape is None for shape in shapes) or len({shape[1] for shape in shapes if shape}) != 1:
        return "json", None
    kinds = {shape[0] for shape in shapes if shape}
    width = next(shape[1] for shape in shapes if shape)
    nested = any(shape[2] for shape in shapes if shape)
    if kinds <= {int, float}:
        real = float in kinds or bool(_REAL.search(key)) or key in PER_STEP_KEYS or width in (6, 9)
        if any(not _exact(value) for value in values) and real:
            return "json", None
        if width == 0:
            if real:
                return "f64", None
            fits = all(value in _INT64 for value in values)
            return ("i64", None) if fits else ("json", None)
        if not real and not all(item in _INT64 for value in values for item in value):
            return "json", None
        tag = _WIDTHS.get((float if real else int, width), "json")
        note = "integers as real numbers" if real and float not in kinds and tag != "json" else None
        return tag, "3×3 in rows" if nested and tag == "f64x9" else note
    if len(kinds) == 1:
        kind = kinds.pop()
        if width == 0:
            return ("bool" if kind is bool else "string"), None
        return _WIDTHS.get((kind, width), "json"), None
    return "json", None


def _shape(value: Any) -> tuple[type, int, bool] | None:
    """Return type of the elements, width (0: one value), whether it is 3×3; None for what only JSON can hold."""
    if isinstance(value, (bool, int, float, str)):
        return type(value), 0, False
    if not isinstance(value, list) or not value:
        return None
    if len(value) == 3 and all(isinstance(row, list) and len(row) == 3 for row in value):
        kinds = {type(item) for row in value for item in row}
        if kinds <= {int, float}:
            return float, 9, True
    kinds = {type(item) for item in value}
    return (kinds.pop(), len(value), False) if len(kinds) == 1 and not isinstance(value[0], list) else None


def _filled(tag: str, raws: list[tuple[str, bytes] | None], values: dict[Any, Any], note: str | None) -> PerStep:
    missing = None in raws
    if tag == "json":
        documents = {entry: value.value if isinstance(value, Document) else value for entry, value in values.items()}
        fill = None if missing else NO_FILL
        return PerStep(MetaDeclaration("json", fill), [None if raw is None else documents[raw] for raw in raws], note)
    if tag == "string":
        return PerStep(MetaDeclaration("string"), _strings([values[raw] for raw in raws]), note)
    if tag.startswith("f64"):
        width = int(tag[4:] or 0)
        nothing = [math.nan] * width if width else math.nan
        made = {entry: _floats(value) for entry, value in values.items()}
        array = np.array([nothing if raw is None else made[raw] for raw in raws], np.float64)
        absent: Any = (np.full(width, math.nan) if width else math.nan) if missing else NO_FILL
        stated = int(np.isnan(array).reshape(len(raws), -1).all(axis=1).sum()) - raws.count(None)
        return PerStep(MetaDeclaration(tag, absent), array, note, _blurred(stated, not missing))
    kind = np.bool_ if tag.startswith("bool") else np.int64
    return PerStep(MetaDeclaration(tag), np.array([values[raw] for raw in raws], kind), note)


def _floats(value: Any) -> Any:
    if isinstance(value, list):
        flat = [item for row in value for item in row] if isinstance(value[0], list) else value
        return [float(item) for item in flat]
    return float(value)


def _strings(values: list[Any]) -> Any:
    return np.array(values, dtype=np.dtypes.StringDType())


def _missing(tag: str) -> str:
    return f"{tag} as JSON, null in the frames that have none"


def _blurred(stated: int, whole: bool) -> str | None:
    """Return what is lost where some frames state NaN and others nothing."""
    return None if whole or not stated else f"which frames state NaN ({stated}) and which nothing: both are NaN"


def _leaves(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list) else [value]


def _exact(value: Any) -> bool:
    return all(
        not isinstance(item, int) or abs(item) <= 2**53 or (abs(item) < 2**1023 and int(float(item)) == item)
        for item in _leaves(value)
    )


def _is_json(value: Any) -> bool:
    if isinstance(value, Document):
        return _is_json(value.value) if not isinstance(value.value, dict) else all(map(_is_json, value.value.values()))
    if isinstance(value, dict):
        return all(_is_json(item) for item in value.values())
    if isinstance(value, list):
        return all(_is_json(item) for item in value)
    return not isinstance(value, float) or math.isfinite(value)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def reads_as_real(key: str) -> bool:
    """True if the numbers of a key are real numbers also where a file writes them without a point."""
    return _REAL.search(key) is not None or key in PER_STEP_KEYS


ORIGIN = "Origin"
#: Numbers as most programs write them, which need no closer look.
_DECIMALS = re.compile(rb"(?:-?[0-9]+\.[0-9]+ +)*-?[0-9]+\.[0-9]+")
_NOWHERE = (0.0, 0.0, 0.0)
_LETTERS = {"t": True, "f": False, "1": True, "0": False, "true": True, "false": False}


class Cells:
    """The different cells of a file: `number_of` int64[frames] (-1: none), `vectors` (columns), `origin`, `boundary`.

    `periodic` is what frames without a cell state of their periodicity, by ordinal, where they state any.
    """

    def __init__(self, frames: int) -> None:
        self.number_of = np.full(frames, -1, np.int64)
        self.vectors: NDArray[np.float64] = np.zeros((0, 3, 3))
        self.origin: NDArray[np.float64] = np.zeros((0, 3))
        self.boundary: NDArray[np.bool_] = np.zeros((0, 3), np.bool_)
        self.periodic: dict[int, tuple[bool, ...]] = {}


def read_cells(path: Path, headers: Headers, table: FrameTable, report: Report) -> Cells:
    """Return the cells of all frames; the keys they come from are taken out of `headers`."""
    lattice = _by_frame(headers.keys.pop(CELL, []), len(table))
    periodic = _by_frame(headers.keys.pop(PERIODIC, []), len(table))
    origins = headers.keys.get(ORIGIN, [])
    has_origin = all(lattice[f] is not None for part in origins for f in part.frames.tolist())
    origin = _by_frame(headers.keys.pop(ORIGIN), len(table)) if origins and has_origin else [None] * len(table)
    cells = Cells(len(table))
    known: dict[Any, int] = {}
    made: list[tuple[Any, Any, Any]] = []
    flags: dict[Any, tuple[bool, ...]] = {}
    # nearly all frames of a file say the same of their axes
    said: dict[Any, tuple[bool, ...]] = {}
    for frame, (cell, pbc, corner) in enumerate(zip(lattice, periodic, origin, strict=True)):
        if cell is None and pbc is None:
            continue
        key = (cell, pbc, corner)
        number = known.get(key)
        if number is None:
            place = f"line {int(table.line[frame]) + 1}"
            axes = None if pbc is None else said.get(pbc)
            if pbc is not None and axes is None:
                axes = said[pbc] = _periodic(pbc, path, place, report)
            vectors = None if cell is None else _vectors(cell, path, place)
            if vectors is None or not vectors.any():
                if vectors is not None:
                    report.warn(f"{path}, {place}: a Lattice of zeros is no cell")
                flags[key] = axes or (False,) * 3
                number = -1
            else:
                corner_ = _NOWHERE if corner is None else _cell_numbers(corner, 3, path, place, ORIGIN)
                made.append((vectors.T, corner_, axes or (True,) * 3))
                number = len(made) - 1
            known[key] = number
        if number >= 0:
            cells.number_of[frame] = number
        elif any(flags[key]):
            cells.periodic[frame] = flags[key]
    if made:
        cells.vectors = np.array([vectors for vectors, _, _ in made])
        cells.origin = np.array([corner for _, corner, _ in made])
        cells.boundary = np.array([axes for _, _, axes in made], dtype=np.bool_)
        report.carried(CELL, "the cell of each frame")
    if cells.periodic:
        report.warn(f"{len(cells.periodic)} frames are said to be periodic and have no Lattice: kept as the key pbc")
    return cells


def _by_frame(parts: list[Part], frames: int) -> list[tuple[str, bytes] | None]:
    found: list[tuple[str, bytes] | None] = [None] * frames
    for part in parts:
        # one pair for each text, as there are few
        pairs = {raw: (part.form, raw) for raw in set(part.raws)}
        for frame, raw in zip(part.frames.tolist(), part.raws, strict=True):
            found[frame] = pairs[raw]
    return found


def _vectors(entry: tuple[str, bytes], path: Path, place: str) -> NDArray[np.float64]:
    """Return the cell vectors as rows."""
    return _cell_numbers(entry, 9, path, place, CELL).reshape(3, 3)


def _cell_numbers(entry: tuple[str, bytes], count: int, path: Path, place: str, key: str) -> NDArray[np.float64]:
    if entry[0] == "double" and _DECIMALS.fullmatch(entry[1]) and len(words := entry[1].split()) == count:
        return np.array([float(word) for word in words])
    try:
        value = typed(entry[0], entry[1].decode("latin-1").replace("*^", "e"))
        if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
            value = [item for row in value for item in row]
        numbers = value if isinstance(value, list) else [value]
        if len(numbers) == count and all(type(item) in (int, float) for item in numbers):
            return np.array([float(item) for item in numbers])
    except ValueFault as fault:
        raise FormatError(path, place, found=f"{key} with {fault.found}", expected=fault.expected) from None
    except OverflowError:
        raise FormatError(path, place, found=f"{key}={shown(entry[1])}", expected="doubles, below 1.8e308") from None
    raise FormatError(path, place, found=f"{key}={shown(entry[1])}", expected=f"{count} numbers")


def _periodic(entry: tuple[str, bytes], path: Path, place: str, report: Report) -> tuple[bool, ...]:
    raw = entry[1].decode("latin-1")
    words = raw.strip("[]").replace(",", " ").replace('"', " ").split()
    if len(words) == 1 and len(words[0]) == 3 and words[0].lower() not in _LETTERS:
        words = list(words[0])
        report.warn(f"{path}, {place}: pbc={raw} is taken as {' '.join(words)}")
    axes = [_LETTERS.get(word.lower()) for word in words]
    if len(axes) == 1:
        axes *= 3
    if len(axes) != 3 or any(axis is None for axis in axes):
        raise FormatError(path, place, found=f"pbc={shown(entry[1])}", expected="three of T and F")
    return tuple(bool(axis) for axis in axes)
