"""Units of what is written: which LAMMPS style a record is in, and turning any units into those of a style.

Factors and dimensions are those of `molrec_convert.quantities`; dimensions of the table of styles are in its letters
(`E/L^2`). Source: the manual, "units".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Record
from molrec_convert.quantities.dimensions import (
    BASES,
    DERIVED,
    UnitConversion,
    check_dimension,
    unit_of_dimension,
    units_object,
    units_words,
)
from molrec_convert.quantities.standard import dimension_of
from molrec_convert.quantities.units import same_unit
from molrec_convert.report import Report
from molrec_lammps.units import UNITS

__all__ = ["AS_IT_IS", "Conversion", "conversion_of", "preset_of", "style_written", "title_with_units"]

#: What stands in `--target-units` for numbers as they are.
AS_IT_IS = "none"
_TITLE = re.compile(r"\bunits\s*=\s*[a-z]+\b")
_WORD = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True)
class Conversion:
    """From the units of a record to a LAMMPS units style; `target` None converts nothing.

    `source` is the record's `units` object. Factors are those of dimensions such as `E/L^2`; asking for one the
    record's units do not settle is an UnsupportedError that names what is missing.
    """

    target: str | None = None
    source: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.target is not None

    @cached_property
    def _factors(self) -> UnitConversion:
        return UnitConversion(self.source, {"preset": self.target})

    def factor(self, dimension: str, what: str) -> float:
        """By what a number of that dimension is multiplied. `what` names it in the error."""
        if self.target is None:
            return 1.0
        factor = self._factors.factor(dimension)
        if factor is not None:
            return factor
        missing = _unstated(dimension, self.source)
        if missing is not None:
            raise UnsupportedError(
                f"{what}: the record's units do not state the {missing}, so it cannot be converted to units "
                f"{self.target}"
            )
        unit = unit_of_dimension(dimension, self.source)
        raise UnsupportedError(f"{what}: {unit} cannot be converted to units {self.target}")

    def column(self, name: str) -> float:
        """The factor of a column of atoms. UnsupportedError: a column whose dimension is not known."""
        if self.target is None:
            return 1.0
        dimension = dimension_of(name, key=False)
        if dimension is None:
            raise UnsupportedError(
                f"atoms/{name}: its dimension is not known, so it cannot be converted to units {self.target}; write "
                "without --target-units, or leave the column out"
            )
        return self.factor(dimension, f"atoms/{name}")


def conversion_of(record: Record, target: str | None) -> Conversion:
    """The conversion of what a record holds to the units style asked for. UnsupportedError: what has no way there."""
    if target is None or target == AS_IT_IS:
        return Conversion()
    units = units_object(record.units)
    if not units:
        raise UnsupportedError(
            f"the record does not state its units, so nothing can be converted to units {target}; --units names those "
            "of a LAMMPS source"
        )
    if units.get("preset") == target:
        return Conversion()
    if "lj" in (target, units.get("preset")):
        raise UnsupportedError(
            f"units {units.get('preset', units)} cannot be converted to units {target}: reduced units need a length, "
            "an energy and a mass that nothing states"
        )
    return Conversion(target, units)


def preset_of(record: Record, conversion: Conversion | None = None) -> str | None:
    """The LAMMPS units style of what is written, None where the record states none or others."""
    if conversion:
        return conversion.target
    units = units_object(record.units)
    preset = units.get("preset")
    if preset in UNITS:
        return str(preset)
    stated = [name for name in BASES if name in units]
    if not {"length", "energy"} <= set(stated):
        return None
    return next(
        (style for style in UNITS if all(_fits(units, style, name) for name in stated if name != "angle")), None
    )


def style_written(
    record: Record,
    conversion: Conversion,
    columns: Iterable[str],
    others: Iterable[str],
    asked: str | None,
    report: Report,
) -> str | None:
    """Return the units style that columns of atoms are in, and numbers of `others`, which are dimensions.

    None where several fit, or nothing tells. UnsupportedError: the record's units are those of no style, so that a
    file would mix them, and `asked` (`--target-units`) does not say that numbers are to stay as they are.
    """
    own = preset_of(record, conversion)
    units = units_object(record.units)
    if own is not None or not units:
        return own
    dimensions = [*others, *(dimension_of(name, key=False) or "" for name in columns)]
    told = [name for name in dict.fromkeys(dimensions) if name and unit_of_dimension(name, units) is not None]
    fitting = [style for style in UNITS if style != "lj" and all(_fits(units, style, name) for name in told)]
    if fitting and told:
        report.carried("units", f"{units_words(units)}: all that is written is as in units {' and '.join(fitting)}")
    elif told and asked != AS_IT_IS:
        raise UnsupportedError(
            f"the record's units ({units_words(units)}) are those of no units style of LAMMPS, and a file would mix "
            "them; --target-units real (or metal, ...) converts everything, none writes the numbers as they are"
        )
    elif told:
        report.warn(f"the numbers are in {units_words(units)}, as they are: units of no style of LAMMPS")
    return fitting[0] if len(fitting) == 1 and told else None


def title_with_units(title: str, units: str) -> str:
    """The first line of a data file, saying the units."""
    if _TITLE.search(title):
        return _TITLE.sub(f"units = {units}", title, count=1)
    return f"{title}, units = {units}" if title else f"LAMMPS data file, units = {units}"


def _unstated(dimension: str, units: Mapping[str, Any]) -> str | None:
    """The first base quantity of a dimension that units do not state; None where they state all."""
    words = [word for name in _WORD.findall(dimension) for word in _WORD.findall(check_dimension(name, "dimension"))]
    bases = [base for word in words for base in _WORD.findall(DERIVED.get(word, word))]
    return next((base for base in bases if unit_of_dimension(base, units) is None), None)


def _fits(units: Mapping[str, Any], style: str, dimension: str) -> bool:
    """True if numbers of a dimension are the same in the record's units and in those of a style."""
    ours, theirs = (unit_of_dimension(dimension, entry) for entry in (units, {"preset": style}))
    return ours is not None and theirs is not None and same_unit(ours, theirs)
