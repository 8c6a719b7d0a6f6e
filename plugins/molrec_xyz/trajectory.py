"""The frames of a file as a trajectory, read when they are asked for, any slice of them, any columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, LayoutChanged
from molrec_convert.meaning.species import propose
from molrec_convert.model import (
    BATCH_BYTES,
    BlockDeclaration,
    BlockUpdates,
    BoxUpdates,
    ColumnDeclaration,
    Declaration,
    FrameBatch,
    MetaDeclaration,
    Trajectory,
)
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.names import STANDARD_DTYPES, STATE_COLUMNS
from molrec_convert.quantities.elements import NUMBERS
from molrec_convert.quantities.standard import velocity_factor
from molrec_convert.report import Report
from molrec_xyz.columns import (
    BLANK_WHERE_EMPTY,
    EMPTY,
    POSITIONS,
    SINGLE,
    FileColumn,
    RowLayout,
    apart,
    record_name,
    words_for,
)
from molrec_xyz.plugin import XyzOptions
from molrec_xyz.reader import Batch, Reader

__all__ = [
    "ATOMS",
    "LABELS",
    "WIDE",
    "PerFrame",
    "Place",
    "Source",
    "XyzTrajectory",
    "check_labels",
    "column_values",
    "declare_blocks",
    "is_state",
    "plan_places",
    "species_kind",
]

#: Hints: labels that are no symbols come later; numbers that do not fit a standard column do.
LABELS, WIDE = "xyz: labels", "xyz: wide "
_DTYPES = {"R": "f64", "I": "i64", "S": "string", "L": "bool"}
_NUMBER = re.compile(r"[-+]?[0-9]+")
_KINDS = {"elements": "element", "names": "name", "types": "type", "numbers": "atomic_number"}
RESERVED = frozenset({"offset", "step_index", "_validity"})


@dataclass(frozen=True)
class Place:
    """A column of the record: its dtype and shape, and the column of the file and the field it is made from."""

    name: str
    dtype: str
    trailing: tuple[int, ...]
    source: str
    part: int
    nullable: bool
    #: The column the numbers are divided by, and what the quotients are multiplied with.
    divided_by: str | None = None
    factor: float = 1.0

    @property
    def declared(self) -> ColumnDeclaration:
        """Its declaration."""
        return ColumnDeclaration(self.dtype, self.trailing, self.nullable)


def is_state(place: Place) -> bool:
    """True if a column says what state an atom is in: every real number but the mass."""
    return place.name in STATE_COLUMNS or (place.dtype == "f64" and place.name != "mass")


def species_kind(words: Sequence[str], hinted: bool, asked: str | None, lammps: bool, report: Report) -> str:
    """Return the column of the record that has the labels of a file whose first frames have these `words`."""
    if asked is not None:
        return _KINDS[asked]
    if words and all(_NUMBER.fullmatch(word) for word in words) and not hinted:
        if lammps:
            report.converted("species", "as type: numbers in a file of LAMMPS are types")
        else:
            report.warn(
                "the species are numbers, taken as types; with --species numbers they are taken as atomic numbers"
            )
        return "type"
    if hinted or any(word not in NUMBERS for word in words):
        strange = sorted({word for word in words if word not in NUMBERS})[:3]
        report.converted(
            "species", f"as name: labels such as {', '.join(strange)} are no elements" if strange else "as name"
        )
        return "name"
    report.converted("species", "as element")
    return "element"


def plan_places(
    layouts: Sequence[RowLayout], lines: Sequence[int], path: object, kind: str, options: XyzOptions,
    hints: frozenset[str], report: Report,
) -> list[Place]:  # fmt: skip
    """Return the columns of the record, in the order of the file's. `lines` says where each layout comes first."""
    columns = _union(layouts, lines, path)
    names = list(columns)
    everywhere = [name for name in names if all(any(c.name == name for c in lay.columns) for lay in layouts)]
    special = _special(columns, path, kind, options, report)
    taken = {target for targets in special.values() for target in targets}
    places: list[Place] = []
    for name, column in columns.items():
        nullable = name not in everywhere
        if nullable:
            report.warn(f"some frames have no column {name}: its values are null there")
        targets = special.get(name)
        if targets is not None:
            for part, target in enumerate(targets):
                dtype = STANDARD_DTYPES.get(target, "f64")
                if f"{WIDE}{target}" in hints:
                    target, dtype = apart(target), "i64"
                places.append(Place(target, dtype, (), name, part, nullable))
            continue
        own = record_name(name, {*taken, *RESERVED})
        dtype = _DTYPES[column.letter]
        trailing = (column.width,) if column.width > 1 else ()
        standard = STANDARD_DTYPES.get(own)
        if standard is not None and (trailing or not _fits(dtype, standard) or f"{WIDE}{own}" in hints):
            own, standard = apart(own), None
        places.append(Place(own, standard or dtype, trailing, name, 0, nullable))
        if own == name:
            report.carried(name, words_for(name))
        else:
            report.converted(name, f"named {own}: its own name is another column's, or none a record can have")
    places += _velocities(columns, places, options, report)
    if ("fx", "fy", "fz") not in special.values():
        propose("forces", names, report)
    return places


def _velocities(
    columns: dict[str, FileColumn], places: Sequence[Place], options: XyzOptions, report: Report
) -> list[Place]:
    """Return velocities from momenta of ASE, in the units that are asked for, where masses stand beside them."""
    momenta = columns.get("momenta")
    factor = None if options.units is None else velocity_factor({"preset": options.units})
    mass = next((place.source for place in places if place.name == "mass"), None)
    if momenta is None or momenta.width != 3 or factor is None or any(p.name in ("vx", "vy", "vz") for p in places):
        return []
    if mass is None:
        report.warn("momenta without a column of masses: no velocities are worked out")
        return []
    report.derived("vx vy vz", f"momenta over masses, in units of {options.units}: momenta of ASE are in sqrt(u eV)")
    nullable = any(place.nullable for place in places if place.source in ("momenta", mass))
    return [Place(f"v{axis}", "f64", (), "momenta", part, nullable, mass, factor) for part, axis in enumerate("xyz")]


def _union(layouts: Sequence[RowLayout], lines: Sequence[int], path: object) -> dict[str, FileColumn]:
    columns: dict[str, FileColumn] = {}
    for layout, line in zip(layouts, lines, strict=True):
        for column in layout.columns:
            known = columns.setdefault(column.name, column)
            if known == column:
                continue
            if known.width == column.width and {known.letter, column.letter} == {"R", "I"}:
                columns[column.name] = FileColumn(column.name, "R", column.width)
                continue
            raise FormatError(
                str(path), f"line {line}", found=str(column), expected=f"{known}, as in the frames before",
                hint="take the configurations apart into files of one kind each",
            )  # fmt: skip
    return columns


def _special(
    columns: dict[str, FileColumn], path: object, kind: str, options: XyzOptions, report: Report
) -> dict[str, tuple[str, ...]]:
    """Return columns of the file that have columns of another name in the record."""
    found: dict[str, tuple[str, ...]] = {}
    species = columns.get("species")
    if species is not None and species.letter == "S" and species.width == 1:
        found["species"] = (kind,)
    if options.forces_key is not None and options.forces_key not in columns:
        raise FormatError(
            str(path),
            found=f"the columns {', '.join(columns)}",
            expected=f"{options.forces_key}, as --forces-key says",
        )
    candidates = {
        ("x", "y", "z"): POSITIONS,
        ("fx", "fy", "fz"): (options.name_of("forces"),),
    }
    for targets, names in candidates.items():
        name = next((n for n in names if n in columns and columns[n].width == 3 and columns[n].letter in "RI"), None)
        if name is not None and not any(target in columns for target in targets):
            found[name] = targets
            report.carried(name, f"as {' '.join(targets)}")
    if not any(targets == ("x", "y", "z") for targets in found.values()) and not {"x", "y", "z"} <= columns.keys():
        report.warn("no column pos of three numbers: the atoms have no positions")
    for target, (names, letter) in SINGLE.items():
        name = next(
            (n for n in names if n in columns and columns[n].width == 1 and columns[n].letter in _letters(letter)), None
        )
        if name is None or (target in columns and target != name) or (target,) in found.values():
            continue
        found[name] = (target,)
        if name == target:
            report.carried(name)
        else:
            report.converted(name, f"as {target}")
    return found


def _letters(letter: str) -> str:
    return "RI" if letter == "R" else letter


def _fits(dtype: str, standard: str) -> bool:
    """True if numbers of a file's type may be those of a standard column."""
    return dtype == standard or (dtype == "i64" and standard in ("u64", "i32", "f64"))


ATOMS = "atoms"
_ATOMIC_NUMBER = re.compile(r"[0-9]{1,3}")


@dataclass
class PerFrame:
    """What is known of every frame from its second line: steps, times, values per step, the number of its cell.

    `cell_of` int64[frames] is -1 for a frame without a cell; `vectors`, `origin`, `boundary` are those of the cells.
    """

    steps: NDArray[np.int64]
    times: NDArray[np.float64] | None
    meta: dict[str, tuple[MetaDeclaration, Any]]
    cell_of: NDArray[np.int64]
    vectors: NDArray[np.float64]
    origin: NDArray[np.float64]
    boundary: NDArray[np.bool_]
    #: Whether the file states the steps, or they count the frames.
    numbered: bool


@dataclass
class Source:
    """What is needed to read frames: rows, the places of their columns, the second lines."""

    reader: Reader
    places: list[Place]
    per_frame: PerFrame
    asked: str | None = None


def declare_blocks(
    places: Sequence[Place], rows: int, *, settling: bool
) -> dict[str, tuple[BlockDeclaration, list[Place]]]:
    """Return the blocks of the trajectory and the places of their columns.

    With `settling` (the same number of atoms in every frame) what says what an atom is has blocks of its own,
    `atom_<column>`, which go to the system when they never change.
    """
    state = [place for place in places if is_state(place) or not settling]
    blocks = {ATOMS: (BlockDeclaration({p.name: p.declared for p in state}, rows=rows), state)}
    for place in places:
        if settling and not is_state(place):
            declared = BlockDeclaration(
                {place.name: place.declared}, rows=rows, aligned_with=ATOMS, settles=ATOMS
            )  # fmt: skip
            blocks[f"atom_{place.name}"] = (declared, [place])
    return blocks


class XyzTrajectory(Trajectory):
    """Some frames of a file (`frames`, ordinals), under a declaration made for all of them."""

    def __init__(
        self, source: Source, declaration: Declaration, blocks: dict[str, list[Place]], frames: NDArray[np.int64]
    ) -> None:
        super().__init__()
        self._source, self._blocks, self._frames = source, blocks, frames
        self.declaration = declaration

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self._frames)

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step numbers of all frames."""
        return self._source.per_frame.steps[self._frames]

    @property
    def times(self) -> NDArray[np.float64] | None:
        """Times of all frames, None when the file states none."""
        times = self._source.per_frame.times
        return None if times is None else times[self._frames]

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        """See `Trajectory.batches`.

        FormatError: a row is not as it should be. LayoutChanged: a label is of another kind than those before.
        """
        declaration = self.declaration.select(columns)
        frames = self._frames[start:stop:step]
        blocks = {
            name: [place for place in self._blocks[name] if place.name in declared.columns]
            for name, declared in declaration.blocks.items()
        }
        state = _Pass(self._source, blocks)
        every = [place for places in blocks.values() for place in places]
        wanted = frozenset(name for place in every for name in (place.source, place.divided_by) if name is not None)
        if not wanted:
            for first in range(0, len(frames), 2**16):
                yield state.facts(frames[first : first + 2**16], state.empty(frames[first : first + 2**16]))
            return
        for batch in self._source.reader.read(frames, wanted, batch_bytes):
            yield state.facts(batch.frames, state.updates(batch))


class _Pass:
    """One pass over frames: remembers the frame before, so that only what changes is presented."""

    def __init__(self, source: Source, blocks: dict[str, list[Place]]) -> None:
        self._source, self._blocks = source, blocks
        self._before: dict[str, list[Any]] = {}
        self._cell = -1
        self._begun = False

    def empty(self, frames: NDArray[np.int64]) -> dict[str, BlockUpdates]:
        """Return updates of blocks without a column: how many atoms there are, where that is another number than
        before.
        """
        if not self._blocks or not len(frames):
            return {}
        counts = self._source.reader.table.count[frames]
        changed = np.append(not self._begun, counts[1:] != counts[:-1])
        positions = np.flatnonzero(changed)
        offset = np.concatenate([[0], np.cumsum(counts[positions])]).astype(np.int64)
        return {name: BlockUpdates(positions, offset, {}) for name in self._blocks} if len(positions) else {}

    def updates(self, batch: Batch) -> dict[str, BlockUpdates]:
        """Return the updates of the blocks in a batch."""
        made = {}
        frames = len(batch.frames)
        for name, places in self._blocks.items():
            if name == ATOMS:
                if places or not self._begun:
                    made[name] = self._block(batch, places, np.arange(frames, dtype=np.int64), batch.offset)
                continue
            positions = np.flatnonzero(self._changed(name, places[0], batch))
            if len(positions):
                sizes = np.diff(batch.offset)[positions]
                offset = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
                made[name] = self._block(batch, places, positions, offset)
        return made

    def _block(
        self, batch: Batch, places: list[Place], positions: NDArray[np.int64], offset: NDArray[np.int64]
    ) -> BlockUpdates:
        whole = len(positions) == len(batch.frames)
        rows: Any = slice(None)
        if not whole:
            sizes = np.diff(offset)
            rows = np.repeat(batch.offset[positions] - offset[:-1], sizes) + np.arange(offset[-1])
        columns, validity = {}, {}
        for place in places:
            columns[place.name] = column_values(self._source, batch, place, rows)
            if place.nullable:
                there = batch.present.get(place.source, np.ones(len(batch.frames), np.bool_))
                validity[place.name] = np.repeat(there[positions], np.diff(offset))
        return BlockUpdates(positions, offset, columns, validity)

    def _changed(self, name: str, place: Place, batch: Batch) -> NDArray[np.bool_]:
        """Return which frames have other values in a column than the frame before them; all have the same number of
        atoms.
        """
        frames = len(batch.frames)
        changed = np.zeros(frames, np.bool_)
        there = batch.present.get(place.source, np.ones(frames, np.bool_))
        changed[1:] |= there[1:] != there[:-1]
        parts = range(place.trailing[0]) if place.trailing else (place.part,)
        last: list[Any] = [there[-1]]
        before = self._before.get(name)
        changed[0] = before is None or bool(before[0] != there[0])
        for number, part in enumerate(parts):
            values = batch.fields[place.source, part]
            grid = (values.view(np.int64) if values.dtype == np.float64 else values).reshape(frames, -1)
            changed[1:] |= (grid[1:] != grid[:-1]).any(axis=1)
            if before is not None:
                changed[0] |= bool((grid[0] != before[1 + number]).any())
            last.append(grid[-1].copy())
        self._before[name] = last
        return changed

    def facts(self, frames: NDArray[np.int64], blocks: dict[str, BlockUpdates]) -> FrameBatch:
        """Return a batch with steps, times, values per step and cells."""
        per_frame = self._source.per_frame
        self._begun = True
        cells = per_frame.cell_of[frames]
        before = np.concatenate([[self._cell], cells[:-1]])
        positions = np.flatnonzero((cells != before) & (cells >= 0))
        box = None
        if len(positions):
            own = cells[positions]
            box = BoxUpdates(positions, per_frame.vectors[own], per_frame.origin[own], per_frame.boundary[own])
        self._cell = int(cells[-1]) if len(cells) else -1
        return FrameBatch(
            per_frame.steps[frames],
            None if per_frame.times is None else per_frame.times[frames],
            blocks,
            {
                key: [values[frame] for frame in frames.tolist()] if isinstance(values, list) else values[frames]
                for key, (_, values) in per_frame.meta.items()
            },
            box,
        )


def column_values(source: Source, batch: Batch, place: Place, rows: Any) -> NDArray[Any]:
    """Return the values of a column of the record in some rows of a batch."""
    reader = source.reader
    if place.trailing:
        parts = [batch.fields[place.source, part] for part in range(place.trailing[0])]
        values = np.stack(parts, axis=1)[rows]
    else:
        values = batch.fields[place.source, place.part][rows]
    if place.divided_by is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            quotients: NDArray[Any] = values / batch.fields[place.divided_by, 0][rows] * place.factor
        return quotients
    letter = _letter(reader, place.source)
    if letter == "S":
        return _texts(source, place, values)
    if place.dtype == "f64" or letter == "L":
        return np.asarray(values, dtype=DTYPES[place.dtype].numpy)
    if place.name == "atomic_number" or place.dtype in ("u64", "i32"):
        limits = np.iinfo(DTYPES[place.dtype].numpy)
        low, high = max(int(limits.min), -(2**63)), min(int(limits.max), 2**63 - 1)
        if len(values) and (int(values.min()) < low or int(values.max()) > high):
            raise LayoutChanged(f"{WIDE}{place.name}", f"{reader.path}: {place.source} does not fit {place.name}")
    cast: NDArray[Any] = values.astype(DTYPES[place.dtype].numpy)
    return cast


def _letter(reader: Reader, name: str) -> str:
    return next(c.letter for layout in reader.layouts for c in layout.columns if c.name == name)


def _texts(source: Source, place: Place, codes: NDArray[np.int32]) -> NDArray[Any]:
    reader = source.reader
    words = list(reader.words)
    if place.source == "species" and place.name in ("element", "atomic_number", "type"):
        _check_labels(source, place, codes)
    if place.name == "atomic_number" and place.dtype == "u64":
        numbers = np.array(
            [NUMBERS.get(w, int(w) if _ATOMIC_NUMBER.fullmatch(w) else 0) for w in words] or [0], np.uint64
        )
        found: NDArray[Any] = numbers[codes]
        return found
    if place.name in BLANK_WHERE_EMPTY:
        words = ["" if word == EMPTY else word for word in words]
    table = np.array([*words, ""], dtype=np.dtypes.StringDType())
    texts: NDArray[Any] = table[codes]
    return texts


def check_labels(source: Source, batch: Batch, place: Place) -> None:
    """Refuse labels in a batch that are not what the first frames' are, or what they were said to be."""
    _check_labels(source, place, batch.fields[place.source, place.part])


def _check_labels(source: Source, place: Place, codes: NDArray[np.int32]) -> None:
    for code in np.unique(codes).tolist():
        _check_label(source, place, source.reader.words[code])


def _check_label(source: Source, place: Place, word: str) -> None:
    """Refuse a label that is not what the first frames' are, or what it was said to be."""
    number = word.lstrip("+-").isdecimal()
    fits = {
        "element": word in NUMBERS,
        "type": source.asked == "types" or number,
        "atomic_number": _ATOMIC_NUMBER.fullmatch(word) is not None or word in NUMBERS,
    }[place.name]
    if fits:
        return
    if source.asked is not None:
        raise FormatError(source.reader.path, found=f"the species {word!r}", expected=f"one of the {source.asked}")
    raise LayoutChanged(LABELS, f"{source.reader.path}: the label {word!r} is of another kind than those before it")
