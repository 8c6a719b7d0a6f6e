"""Frames that are written, and what their atoms are called: names, residues and their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Block, Box, Column, Frame, Record, Trajectory, distinct
from molrec_convert.quantities.units import unit_of_quantity
from molrec_convert.report import Report
from molrec_pdb.identity import STANDARD_RESIDUES
from molrec_pdb.numbering import runs_of

__all__ = [
    "ATOMS",
    "RESIDUE_NUMBERS",
    "Called",
    "Coded",
    "OutFrame",
    "call_atoms",
    "check_lengths",
    "coded",
    "combined",
    "constant",
    "frames_of",
    "known_or",
    "mask_of",
    "placed_name",
    "report_left",
]

ATOMS = "atoms"
#: Quantities whose units are those of the format, or of its titles.
_UNITS = frozenset({"length", "time"})


@dataclass
class OutFrame:
    """One frame: all columns of its atoms, those of them that are its own, its cell."""

    columns: dict[str, Column]
    own: frozenset[str]
    count: int
    frame: Frame
    box: Box | None


def _atom_blocks(trajectory: Trajectory) -> list[str]:
    """Return the blocks whose rows are atoms."""
    blocks = trajectory.declaration.blocks
    return [
        name for name, block in blocks.items() if name == ATOMS or block.aligned_with == ATOMS or block.settles == ATOMS
    ]


def frames_of(record: Record) -> Iterator[OutFrame]:
    """Yield the frames of a record: of its trajectory, else the section `frame`, else what `system` has."""
    system = record.system or Frame()
    fixed = dict(system.blocks[ATOMS].columns) if ATOMS in system.blocks else {}
    count = system.blocks[ATOMS].count if ATOMS in system.blocks else None
    if record.trajectory is None:
        frame = record.frame or Frame()
        block = frame.blocks.get(ATOMS, Block({}, count=count or 0))
        rows = block.count if count is None else count
        yield OutFrame(fixed | block.columns, frozenset(block.columns), rows, frame, frame.box or system.box)
        return
    names = _atom_blocks(record.trajectory)
    for frame in record.trajectory:
        own: dict[str, Column] = {}
        rows = count or 0
        for name in names:
            if name in frame.blocks:
                own |= frame.blocks[name].columns
                rows = frame.blocks[name].count
        yield OutFrame(fixed | own, frozenset(own), rows, frame, frame.box or system.box)


def report_left(record: Record, report: Report, written: frozenset[str], keys: frozenset[str]) -> None:
    """Report columns, blocks and values per step that the file has no place for; `written` are columns of atoms."""
    system = record.system or Frame()
    snapshots = [("system", system), *([("frame", record.frame)] if record.frame is not None else [])]
    names: dict[str, list[str]] = {}
    for section, snapshot in snapshots:
        for block, entry in snapshot.blocks.items():
            names.setdefault(block, []).extend(entry.columns)
        for key in snapshot.meta:
            if key not in keys:
                report.dropped(f"{section}/meta/{key}", "the format has no place for it")
    atom_blocks = {ATOMS}
    if record.trajectory is not None:
        atom_blocks |= set(_atom_blocks(record.trajectory))
        for block, declared in record.trajectory.declaration.blocks.items():
            names.setdefault(block, []).extend(declared.columns)
        for key in record.trajectory.declaration.meta:
            if key != "model":
                report.dropped(f"trajectory/meta/{key}", "the format has no place for it")
    for block, columns in names.items():
        if block in atom_blocks:
            for column in dict.fromkeys(columns):
                if column not in written:
                    report.dropped(f"atoms/{column}", "the format has no column for it")
        elif block == "bonds" and "bonds" in system.blocks:
            for column in dict.fromkeys(columns):
                if column not in ("atomi", "atomj", "kind", "bond_type"):
                    report.dropped(f"bonds/{column}", "the format has no place for it")
        else:
            report.dropped(block, "the format has no place for it")


def check_lengths(units: Any, report: Report) -> None:
    """Raise UnsupportedError for lengths in anything but angstroms; report units that the file does not state."""
    stated = {"preset": units} if isinstance(units, str) else units if isinstance(units, dict) else {}
    length = unit_of_quantity(stated, "length")
    if length not in (None, "angstrom"):
        raise UnsupportedError(
            f"the record's lengths are in {length}, and the format's in angstroms: no file is written of them"
        )
    others = sorted(stated.keys() - _UNITS)
    if others:
        report.dropped("system/meta/units", f"{', '.join(others)}: the file has angstroms and picoseconds alone")


def mask_of(column: Column) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return where a column holds a value."""
    return np.ones(len(column), np.bool_) if column.validity is None else column.validity


@dataclass
class Coded:
    """A column of text: the different texts, and which each row has."""

    different: list[str]
    codes: NDArray[np.intp]

    def mapped(self, one: Callable[[str], str]) -> Coded:
        """Return each text made another."""
        made = [one(text) for text in self.different]
        different = list(dict.fromkeys(made))
        if len(different) == len(made):
            return Coded(made, self.codes)
        places = {text: place for place, text in enumerate(different)}
        return Coded(different, np.array([places[text] for text in made], np.intp)[self.codes])


def constant(text: str, count: int) -> Coded:
    """Return one text in all rows."""
    return Coded([text], np.zeros(count, np.intp))


def coded(column: Column) -> Coded:
    """Return the texts of a column; nulls are empty."""
    found = _coded(column.values)
    if column.validity is not None:
        found = Coded([*found.different, ""], np.where(column.validity, found.codes, len(found.different)))
    return found


def _coded(texts: NDArray[Any]) -> Coded:
    lengths = np.strings.str_len(texts)
    if len(texts) and int(lengths.max()) <= 8:
        try:
            words = texts.astype("S8").view("<u8")
        except UnicodeEncodeError:
            words = np.zeros(0, np.uint64)
        if len(words):
            different = np.unique(words)
            plain = [int(word).to_bytes(8, "little").rstrip(b"\0").decode() for word in different.tolist()]
            codes = np.searchsorted(different, words).astype(np.intp)
            # fixed-width text ends at a NUL, which a text may hold
            if np.array_equal(np.array([len(text) for text in plain])[codes], lengths):
                return Coded(plain, codes)
    every, codes, _ = distinct(texts)
    return Coded(every.tolist(), codes.astype(np.intp))


def combined(one: Coded, other: Coded, join: Callable[[str, str], str]) -> Coded:
    """Return the texts made of two columns row by row, each pair once."""
    keys = one.codes * len(other.different) + other.codes
    different = np.unique(keys)
    texts = [
        join(one.different[key // len(other.different)], other.different[key % len(other.different)])
        for key in different.tolist()
    ]
    return Coded(texts, np.searchsorted(different, keys).astype(np.intp))


def placed_name(name: str, element: str) -> str:
    """Return a name as it stands in columns 13-16: the element right-justified in the first two of them.

    Names of four characters begin in the first, and so does 1HB, as older files have it.
    """
    two = len(element) == 2 and name.upper().startswith(element.upper())
    if not name or len(name) > 3 or two or (len(name) == 3 and name[0] in "0123456789"):
        return name
    return f" {name}"


Int = NDArray[np.int64]
#: Columns that number residues: the first that is there does.
RESIDUE_NUMBERS = ("res_seq", "res_id", "mol_id")


@dataclass
class Called:
    """Names, residue names and residue numbers of the atoms of a frame; symbols, empty where an element is unknown.

    `hetero` are the atoms of residues that are none of the standard.
    """

    names: Coded
    residues: Coded
    numbers: Int
    symbols: Coded
    hetero: NDArray[np.bool_]


def call_atoms(frame: OutFrame, width: int, report: Report) -> Called:
    """Return what the atoms of a frame are called, in names of `width` characters where these are made.

    All residues have a number. `report` is told what is made, and where names the record has stand several times.
    """
    columns, count = frame.columns, frame.count
    symbols = coded(columns["element"]) if "element" in columns else constant("", count)
    residues = coded(columns["res_name"]) if "res_name" in columns else constant("", count)
    if "" in residues.different and count:
        residues = residues.mapped(lambda text: text or "UNK")
        report.derived(
            "res_name", "UNK where an atom has none" if "res_name" in columns else "the record has none: UNK"
        )
    given = coded(columns["name"]) if "name" in columns else constant("", count)
    nameless = np.array([not text for text in given.different], np.bool_)[given.codes]
    bases = _bases(columns, symbols, count) if nameless.any() else given
    numbers, made = _numbers(columns, count)
    begins = np.zeros(count, np.bool_)
    if made.any() and count:
        most = _most_names(bases, nameless, width)
        begins = _new_residues(columns, residues, given, numbers, made, most)
        numbers = _numbered(columns, numbers, made, begins, report)
    residue = _residue_of(columns, numbers, begins)
    names = _named(given, nameless, bases, residue, width) if nameless.any() else given
    if nameless.any():
        what = "elements" if "element" in columns else "types, or X,"
        which = "the record has no names of atoms" if nameless.all() else f"{int(nameless.sum())} atoms have none"
        report.derived("name", f"{which}: {what} and numbers within the residue make them")
    _tell_repeats(columns, names, residue, report)
    if "hetatm" in columns:
        hetero = columns["hetatm"].values
    else:
        report.derived("hetatm", "rows of the standard residues are ATOM, others HETATM")
        hetero = np.array([text not in STANDARD_RESIDUES for text in residues.different], np.bool_)[residues.codes]
    return Called(names, residues, numbers, symbols, hetero)


def _bases(columns: Mapping[str, Column], symbols: Coded, count: int) -> Coded:
    """Return what a name is made of: the element, the type where it is a short word, or X."""
    if "element" in columns:
        return symbols.mapped(lambda text: text.upper() or "X")
    if "type" not in columns or columns["type"].values.dtype.kind != "T":
        return constant("X", count)
    return coded(columns["type"]).mapped(
        lambda text: text if len(text) <= 2 and text.isascii() and text.isalpha() else "X"
    )


def _numbers(columns: Mapping[str, Column], count: int) -> tuple[Int, NDArray[np.bool_]]:
    """Return the numbers of residues the record states, and where they are to be made: molecules or nothing are
    stated.
    """
    name = next((key for key in RESIDUE_NUMBERS if key in columns), None)
    if name is None:
        return np.ones(count, np.int64), np.ones(count, np.bool_)
    values = np.minimum(columns[name].values, 2**60).astype(np.int64)
    known = mask_of(columns[name])
    return np.where(known, values, 1), np.full(count, True) if name == "mol_id" else ~known


def _most_names(bases: Coded, nameless: NDArray[np.bool_], width: int) -> int:
    """Return how many atoms a residue may have whose names are made, so that each gets another one."""
    longest = max((len(bases.different[code]) for code in np.unique(bases.codes[nameless]).tolist()), default=1)
    return int(10 ** (width - longest)) - 1


def _new_residues(
    columns: Mapping[str, Column], residues: Coded, names: Coded, numbers: Int, made: NDArray[np.bool_], most: int
) -> NDArray[np.bool_]:
    """Return where residues that are made begin anew: behind `most` atoms without a name, or where a name stands
    again.
    """
    order = np.argsort(numbers, kind="stable") if "mol_id" in columns else np.arange(len(numbers))
    keys = [numbers, residues.codes, made, *(coded(columns[key]).codes for key in ("chain", "icode") if key in columns)]
    runs = runs_of(*(key[order] for key in keys))
    run = np.zeros(len(order), np.int64)
    run[runs] = 1
    run = np.cumsum(run) - 1
    within = np.arange(len(order)) - runs[run]
    nameless = np.array([not text for text in names.different], np.bool_)[names.codes[order]]
    again = nameless & (within % most == 0) & (within > 0)
    if not nameless.all():
        altloc = coded(columns["altloc"]).codes[order] if "altloc" in columns else np.zeros(len(order), np.intp)
        again |= _first_again(run, names.codes[order], altloc, ~nameless)
    again &= made[order]
    again[runs] |= made[order][runs]
    result = np.zeros(len(order), np.bool_)
    result[order] = again
    return result


def _first_again(run: Int, names: NDArray[np.intp], altloc: NDArray[np.intp], named: NDArray[np.bool_]) -> Any:
    """Return where, within a run, a name stands that has stood there since the last such place."""
    count = len(run)
    key = np.lexsort((np.arange(count), altloc, names, run))
    same = np.zeros(count, np.bool_)
    same[1:] = (run[key][1:] == run[key][:-1]) & (names[key][1:] == names[key][:-1])
    same[1:] &= (altloc[key][1:] == altloc[key][:-1]) & named[key][1:]
    following = np.full(count + 1, count, np.int64)
    following[key[:-1][same[1:]]] = key[1:][same[1:]]
    # the nearest row behind each that repeats a name at or behind it
    nearest = np.minimum.accumulate(following[::-1])[::-1].tolist()
    found = np.zeros(count, np.bool_)
    at = nearest[0]
    while at < count:
        found[at] = True
        at = nearest[at]
    return found


def _numbered(
    columns: Mapping[str, Column], numbers: Int, made: NDArray[np.bool_], begins: NDArray[np.bool_], report: Report
) -> Int:
    """Return numbers of the residues that are made: those of the molecules, or counted on behind the ones that are
    stated.
    """
    if not made.all():
        largest = int(numbers[~made].max())
        report.derived("res_id", f"{int(made.sum())} atoms have no residue number: counted on behind {largest}")
        return np.where(made, largest + np.cumsum(begins), numbers)
    molecules = "mol_id" in columns and not {"res_seq", "res_id"} & columns.keys()
    if not molecules:
        several = int(begins.sum()) > 1
        detail = "counted, a new one where a name would stand twice" if several else "1"
        report.derived("res_id", f"the record has no residue numbers: {detail}")
        return np.cumsum(begins)
    order = np.argsort(numbers, kind="stable")
    place = np.cumsum(begins[order])
    if place[-1] == len(np.unique(numbers)):
        report.derived("res_id", "the record has no residue numbers: those of the molecules")
        return numbers
    report.derived(
        "res_id", "the record has no residue numbers: molecules are counted, a new one where names would stand twice"
    )
    result = np.empty_like(numbers)
    result[order] = place
    return result


def _residue_of(columns: Mapping[str, Column], numbers: Int, begins: NDArray[np.bool_]) -> Int:
    """Return a number for each residue as readers tell them apart: runs of one chain, number and insertion code."""
    keys: list[NDArray[Any]] = [numbers]
    keys += [coded(columns[key]).codes for key in ("chain", "icode", "segid", "res_name") if key in columns]
    if "mol_id" in columns and not {"res_seq", "res_id", "name"} & columns.keys():
        # molecules may stand in any order: their atoms are told apart over all rows
        return np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    starts = np.zeros(len(numbers), np.int64)
    starts[runs_of(*keys)] = 1
    return np.cumsum(starts) - 1


def _named(given: Coded, nameless: NDArray[np.bool_], bases: Coded, residue: Int, width: int) -> Coded:
    """Return the names: as the record has them, else a base and its number in the residue where it stands there
    twice.
    """
    rows = np.flatnonzero(nameless)
    keys = residue[rows] * len(bases.different) + bases.codes[rows]
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    starts = np.cumsum(counts) - counts
    number = np.empty(len(rows), np.int64)
    number[order] = np.arange(len(rows)) - np.repeat(starts, counts) + 1
    # an X alone is no name to some readers
    number[(counts[inverse] == 1) & np.array([text != "X" for text in bases.different])[bases.codes[rows]]] = 0
    suffixes = Coded([str(n) for n in range(int(number.max(initial=0)) + 1)], number.astype(np.intp))
    own = combined(Coded(bases.different, bases.codes[rows]), suffixes, partial(_made_name, width=width))
    codes = given.codes.copy()
    codes[rows] = own.codes + len(given.different)
    return Coded([*given.different, *own.different], codes)


def _made_name(base: str, number: str, width: int) -> str:
    """Return a name of a base and a number, which is left off where it is 0 or does not fit."""
    return base if number == "0" or len(base + number) > width else base + number


def _tell_repeats(columns: Mapping[str, Column], names: Coded, residue: Int, report: Report) -> None:
    """Warn of names that stand several times in a residue."""
    altloc = coded(columns["altloc"]) if "altloc" in columns else constant("", len(residue))
    keys = (residue * len(altloc.different) + altloc.codes) * len(names.different) + names.codes
    different = np.unique(keys)
    if len(different) < len(keys):
        report.warn(
            f"{len(keys) - len(different)} atoms have the name of another one of their residue: programs that find "
            "atoms by name leave such atoms out"
        )


def known_or(column: Column | None, placeholder: float, count: int, name: str, report: Report) -> NDArray[np.float64]:
    """Return the values of a column f64[count], a placeholder where it has none, which `report` is told."""
    if column is None:
        report.derived(name, f"the record has none: {placeholder:.2f} stands for it")
        return np.full(count, placeholder)
    known = mask_of(column)
    strange = known & ~np.isfinite(column.values)
    if strange.any():
        report.dropped(f"atoms/{name}", "values that are no finite numbers")
    if known.all() and not strange.any():
        return np.asarray(column.values, np.float64)
    there = known & ~strange
    report.derived(name, f"{placeholder:.2f} stands where an atom has none")
    return np.where(there, column.values, placeholder)
