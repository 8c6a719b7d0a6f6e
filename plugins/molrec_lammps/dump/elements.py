"""The elements of a dump's atoms: from `--elements`, an `element` column, labels that are symbols, masses on request.

LAMMPS prints `C` for every type unless `dump_modify element` names others. An `element` column of `C` throughout with
several types or another mass is that default, not a statement: it is kept as the column `element_text`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UsageError
from molrec_convert.meaning.element_guessing import elements_of_types
from molrec_convert.quantities.elements import parse_elements
from molrec_convert.report import Report
from molrec_lammps.common.units import UnitsStyle
from molrec_lammps.dump.batch import RowReader
from molrec_lammps.dump.columns import ByType, OutColumn, Word
from molrec_lammps.dump.facts import RunFacts
from molrec_lammps.dump.values import Rows
from molrec_lammps.options import DumpOptions

__all__ = ["element_columns"]

_CARBON = 12.011
#: A mass that far from carbon's belongs to something else.
_OTHER_MASS = 0.5


def element_columns(
    reader: RowReader,
    first: Rows,
    names: dict[str, bool],
    facts: RunFacts,
    options: DumpOptions,
    units: UnitsStyle | None,
    report: Report,
) -> list[OutColumn]:
    """The columns `element` and `element_text`, as far as there are any.

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
    """An element for each type, where the user, labels or masses tell."""
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
    """The label of each type, where the dump states both."""
    if "typelabel" not in first.values:
        return {}
    numbers, rows = np.unique(first.values["type"], return_index=True)
    words = reader.vocabularies["typelabel"].words
    codes = first.values["typelabel"][rows].tolist()
    return {number: words[code] for number, code in zip(numbers.tolist(), codes, strict=True)}


def _masses(first: Rows, types: NDArray[np.int64]) -> dict[int, float]:
    """The mass of each type, where the dump states masses."""
    if "mass" not in first.values:
        return {}
    numbers, rows = np.unique(types, return_index=True)
    return dict(zip(numbers.tolist(), first.values["mass"][rows].tolist(), strict=True))
