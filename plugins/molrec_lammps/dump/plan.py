"""The plan of a record's particle columns: which there are, and what each is made from.

Elements come from `--elements`, an `element` column, labels that are symbols, masses on request.
LAMMPS prints `C` for every type unless `dump_modify element` names others. An `element` column of `C` throughout with
several types or another mass is that default, not a statement: it is kept as the column `element_text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UsageError
from molrec_convert.meaning.element_guessing import elements_of_types
from molrec_convert.model.names import STATE_COLUMNS
from molrec_convert.quantities.elements import parse_elements
from molrec_convert.report import Report
from molrec_lammps.common.units import UnitsStyle
from molrec_lammps.dump.batch import RowReader
from molrec_lammps.dump.columns import ById, ByType, Cartesian, OutColumn, Plain, TypeName, Word
from molrec_lammps.dump.rows import AXES, COORDINATES, FLAVOURS, Rows, flavours_of, is_unwrapped, kind_of, own_names
from molrec_lammps.dump.system import RunFacts
from molrec_lammps.options import DumpOptions

__all__ = ["Plan", "plan_columns", "system_columns"]

_CARBON = 12.011
#: A mass that far from carbon's belongs to something else.
_OTHER_MASS = 0.5


def _element_columns(
    reader: RowReader,
    first: Rows,
    names: dict[str, bool],
    facts: RunFacts,
    options: DumpOptions,
    units: UnitsStyle | None,
    report: Report,
) -> list[OutColumn]:
    """Return the columns `element` and `element_text`, as far as there are any.

    `names` has the columns of the dump, and whether each is absent from some frames.
    """
    columns = []
    stated = "element" in names
    believed = stated and not options.elements and not _is_default(reader, first, facts)
    if stated:
        name = "element" if believed else "element_text"
        columns.append(OutColumn(name, "string", ("element",), Word("element", reader), names["element"]))
        if believed:
            report.carried("element")
        elif options.elements:
            report.converted("element", "kept as element_text: --elements says what the elements are")
        else:
            report.converted(
                "element", "C throughout with several types or another mass is LAMMPS' default: kept as element_text"
            )
            report.warn("the element column says C for every atom, LAMMPS' default; --elements names the elements")
    if believed or facts.knows("element"):
        return columns
    if "type" not in names:
        if options.elements:
            raise UsageError("--elements: the dump has no column type, so nothing tells which atom is of which element")
        if options.guess_elements:
            report.warn("--guess-elements: the dump has no column type, so no element is proposed")
    else:
        derived = _by_type(reader, first, names, facts, options, units, report)
        if derived is not None:
            columns.append(derived)
    return columns


def _is_default(reader: RowReader, first: Rows, facts: RunFacts) -> bool:
    words = reader.vocabularies["element"].words
    mask = first.mask(("element",))
    codes = first.values["element"] if mask is None else first.values["element"][mask]
    if {words[code] for code in np.unique(codes).tolist()} != {"C"}:
        return False
    types = np.unique(first.values["type"]) if "type" in first.values else np.zeros(0)
    masses = list((facts.masses or {}).values())
    if "mass" in first.values:
        masses += np.unique(first.values["mass"]).tolist()
    elif facts.atoms is not None and "mass" in facts.atoms.columns:
        masses += np.unique(facts.atoms.stored("mass")[facts.atoms.validity("mass")]).tolist()
    return len(types) > 1 or any(abs(mass - _CARBON) > _OTHER_MASS for mass in masses)


def _by_type(
    reader: RowReader,
    first: Rows,
    names: dict[str, bool],
    facts: RunFacts,
    options: DumpOptions,
    units: UnitsStyle | None,
    report: Report,
) -> OutColumn | None:
    """Return an element for each type, where the user, labels or masses tell."""
    types = first.values["type"]
    highest = int(types.max(initial=0))
    given = parse_elements(options.elements)
    if given.ordered and highest > len(given.ordered):
        raise UsageError(
            f"--elements: {len(given.ordered)} symbols, but there are atoms of type {highest}; name one for each"
        )
    labels = facts.type_labels or _labels(reader, first)
    masses = facts.masses or _masses(first, types)
    numbers: Sequence[int] = sorted(number for number in {*np.unique(types).tolist(), *labels, *masses} if number > 0)
    if given:
        numbers = range(1, (len(given.ordered) or max(highest, given.highest, *labels, 0)) + 1)
    if not numbers:
        return None
    found = elements_of_types(
        numbers,
        report,
        given=options.elements,
        guess=options.guess_elements,
        labels=labels,
        masses=masses,
        mass_factor=1.0 if units is None else units.mass,
    )
    if found is None:
        return None
    symbols: NDArray[np.str_] = np.array(["", *(symbol or "" for symbol in found)])
    table = symbols.astype(np.dtypes.StringDType())
    known = symbols != ""
    whole = bool(given) and bool(known[1:].all())
    told = f"one of the {len(numbers)} types --elements names" if given else None
    make = ByType(table, known, reader, told, np.array(numbers, np.int64))
    return OutColumn("element", "string", ("type",), make, names["type"] or not whole)


def _labels(reader: RowReader, first: Rows) -> dict[int, str]:
    """Return the label of each type, where the dump states both."""
    if "typelabel" not in first.values:
        return {}
    numbers, rows = np.unique(first.values["type"], return_index=True)
    words = reader.vocabularies["typelabel"].words
    codes = first.values["typelabel"][rows].tolist()
    return {number: words[code] for number, code in zip(numbers.tolist(), codes, strict=True)}


def _masses(first: Rows, types: NDArray[np.int64]) -> dict[int, float]:
    """Return the mass of each type, where the dump states masses."""
    if "mass" not in first.values:
        return {}
    numbers, rows = np.unique(types, return_index=True)
    return dict(zip(numbers.tolist(), first.values["mass"][rows].tolist(), strict=True))


_IMAGES = {"ix": "image_x", "iy": "image_y", "iz": "image_z"}
_DTYPES = {"integer": "i64", "real": "f64"}
_IDS = (0, 2**63 - 1)


@dataclass(frozen=True)
class Plan:
    """The columns, state first, and whether the coordinates are unwrapped."""

    columns: list[OutColumn]
    unwrapped: bool

    def names(self) -> set[str]:
        """Return names of the columns."""
        return {column.name for column in self.columns}


def plan_columns(
    reader: RowReader,
    first: Rows,
    facts: RunFacts,
    options: DumpOptions,
    units: UnitsStyle | None,
    report: Report,
) -> Plan:
    """Return the columns that come from the dump. `first` has all columns of its first frames."""
    kinds, combinations = _combinations(reader)
    flavours = flavours_of(combinations)
    unwrapped = any(is_unwrapped(flavour) for flavour in flavours)
    names = _names(combinations, flavours)
    columns = _coordinates(reader, kinds, flavours, report)
    if not columns and facts.atoms is None:
        report.warn("no complete set of coordinates (x y z, xu yu zu, xs ys zs or xsu ysu zsu): no positions")
    columns += _images(names, unwrapped, report)
    columns += _types(reader, names, facts, report)
    columns += _element_columns(reader, first, names, facts, options, units, report)
    columns += _identities(reader, first, names, facts, report)
    done = {name for column in columns for name in column.reads if name not in COORDINATES}
    rest = [name for name in names if name not in done]
    taken = {"id", *(column.name for column in columns)}
    for name, own in own_names(rest, taken).items():
        if kind_of(name) == "text":
            columns.append(OutColumn(own, "string", (name,), Word(name, reader), names[name]))
        else:
            dtype = _DTYPES[kind_of(name)]
            columns.append(OutColumn(own, dtype, (name,), Plain(name, dtype), names[name]))
        if own == name:
            report.carried(name)
        else:
            report.converted(name, f"named {own}: its own name is another column's, or none a record can have")
    missing = [name for name, absent in names.items() if absent]
    if missing:
        report.warn(f"some frames have no columns {' '.join(missing)}: their values are null there")
    order = {name: number for number, name in enumerate(STATE_COLUMNS)}
    columns.sort(key=lambda column: order.get(column.name, len(order)))
    return Plan(columns, unwrapped)


def system_columns(plan: Plan, facts: RunFacts) -> list[OutColumn]:
    """Return the columns of the data file that the dump does not have, by id: for frames whose atoms come and go."""
    atoms = facts.atoms
    if atoms is None:
        return []
    there = plan.names() | {"id"}
    return [
        OutColumn(name, column.dtype, (), ById.of(atoms, name), True)
        for name, column in atoms.columns.items()
        if name not in there
    ]


def _combinations(reader: RowReader) -> tuple[NDArray[np.int64], list[dict[str, None]]]:
    """Return the sets of columns frames have, and which of them each frame has."""
    code = np.zeros(len(reader.parts[0].frames), dtype=np.int64)
    layouts = []
    for part in reader.parts:
        layout = np.where(part.frames >= 0, part.table.layout[np.maximum(part.frames, 0)], -1)
        code = code * (len(part.table.layouts) + 1) + layout + 1
        layouts.append(layout)
    _, frames, kinds = np.unique(code, return_index=True, return_inverse=True)
    combinations = []
    for frame in frames.tolist():
        names: dict[str, None] = {}
        for part, layout in zip(reader.parts, layouts, strict=True):
            if layout[frame] >= 0:
                names |= dict.fromkeys(name for name in part.table.layouts[layout[frame]] if name in part.columns)
        combinations.append(names)
    return kinds, combinations


def _names(combinations: list[dict[str, None]], flavours: list[str | None]) -> dict[str, bool]:
    """Return columns besides the coordinates that count, in order, and whether each is absent from some frames."""
    names: dict[str, bool] = {}
    for here, flavour in zip(combinations, flavours, strict=True):
        counted = FLAVOURS[flavour] if flavour is not None else ()
        names |= {name: any(name not in other for other in combinations) for name in here if name not in counted}
    return names


def _coordinates(
    reader: RowReader, kinds: NDArray[np.int64], flavours: list[str | None], report: Report
) -> list[OutColumn]:
    found = {flavour for flavour in flavours if flavour is not None}
    if not found:
        return []
    for flavour in FLAVOURS:
        if flavour in found:
            _report_flavour(flavour, report)
    if len({is_unwrapped(flavour) for flavour in found}) > 1:
        report.warn("coordinates are unwrapped in some frames and wrapped in others")
    columns = []
    for axis, name in enumerate(AXES):
        make = Cartesian(axis, reader, flavours, kinds)
        columns.append(OutColumn(name, "f64", make.reads, make, None in flavours))
    return columns


def _report_flavour(flavour: str, report: Report) -> None:
    names = " ".join(FLAVOURS[flavour])
    how = {
        "xu": "as x y z, unwrapped",
        "xs": "as Cartesian x y z: cell times fractions plus origin",
        "xsu": "as Cartesian x y z, unwrapped: cell times fractions plus origin",
    }
    if flavour in how:
        report.converted(names, how[flavour])
    else:
        report.carried(names)


def _images(names: dict[str, bool], unwrapped: bool, report: Report) -> list[OutColumn]:
    columns = []
    for name, other in _IMAGES.items():
        if name not in names:
            continue
        if unwrapped:
            report.converted(name, f"named {other}: the coordinates are unwrapped already")
        else:
            report.carried(name)
        columns.append(OutColumn(other if unwrapped else name, "i32", (name,), Plain(name, "i32"), names[name]))
    return columns


def _types(reader: RowReader, names: dict[str, bool], facts: RunFacts, report: Report) -> list[OutColumn]:
    columns = []
    if "type" in names:
        columns.append(OutColumn("type_id", "u64", ("type",), Plain("type", "u64"), names["type"]))
        report.carried("type", "as type_id, and as text under type")
    if "typelabel" in names:
        columns.append(OutColumn("type", "string", ("typelabel",), Word("typelabel", reader), names["typelabel"]))
        report.carried("typelabel", "as type")
    elif "type" in names:
        make = TypeName(facts.type_labels or {})
        columns.append(OutColumn("type", "string", ("type",), make, names["type"]))
    return columns


def _identities(
    reader: RowReader, first: Rows, names: dict[str, bool], facts: RunFacts, report: Report
) -> list[OutColumn]:
    """Charge, molecule, and the mass of each type where a run knows it and nothing else does."""
    columns = []
    if "q" in names:
        columns.append(OutColumn("charge", "f64", ("q",), Plain("q", "f64"), names["q"]))
        report.carried("q", "as charge")
    if "mol" in names and int(first.values["mol"].min(initial=0)) >= 0:
        columns.append(OutColumn("mol_id", "u64", ("mol",), Plain("mol", "u64"), names["mol"]))
        reader.bounds["mol"] = _IDS
        report.carried("mol", "as mol_id")
    if facts.masses and "mass" not in names and "type" in names and not facts.knows("mass"):
        count = max(facts.masses) + 1
        values, known = np.zeros(count), np.zeros(count, dtype=np.bool_)
        values[list(facts.masses)] = list(facts.masses.values())
        known[list(facts.masses)] = True
        whole = facts.types == count - 1 and bool(known[1:].all())
        make = ByType(values, known, reader, f"one of the {count - 1} types of the run" if whole else None)
        columns.append(OutColumn("mass", "f64", ("type",), make, names["type"] or not whole))
        report.derived("atoms/mass", "from the masses of the types")
    return columns
