"""The units of what is written: those of the target's format, or those asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from molrec_convert.errors import UsageError
from molrec_convert.formats import Format
from molrec_convert.meaning.units import in_units, target_units
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.record import Record
from molrec_convert.quantities.dimensions import (
    BASES,
    UnitConversion,
    check_unit,
    parse_units,
    unit_of_dimension,
    units_object,
    units_words,
    written_out,
)
from molrec_convert.quantities.units import same_unit
from molrec_convert.report import Report

__all__ = ["TargetUnits", "for_target", "keeps_units", "settles_elements"]

#: What `target_units` may be: a text, a `units` object, or None for the format's own.
TargetUnits = str | Mapping[str, str] | None


def for_target(
    source: Record | Collection,
    target: Format,
    asked: TargetUnits,
    dimensions: Mapping[str, str] | None,
    report: Report,
) -> Record | Collection:
    """Return what is to be written, in the units asked for, else in those the target's format has by convention.

    Numbers whose units are not stated, or reduced (lj), stay as they are where nothing is asked for, and that is said.
    Raises UsageError for units that are none, UnsupportedError for what cannot be converted as asked.
    """
    own = units_object(source.units)
    leave = _unconverted(target)
    if keeps_units(asked):
        report.converted("units", f"numbers are written as they are, in {units_words(own) or 'units nobody states'}")
        return source
    if asked is not None:
        wanted = _parsed(asked)
        if target.unit_styles:
            wanted = _style(own, wanted, target)
        return in_units(source, wanted, dimensions=dimensions, report=report, leave=leave)
    if target.units is None:
        return source
    if not own:
        report.warn(
            f"the source does not state its units: the numbers are written as they are, and {target.title} is read in "
            f"{units_words(target.units)}"
        )
        return source
    if own.get("preset") == "lj":
        report.warn("the source is in reduced units (lj): the numbers are written as they are")
        return source
    if not UnitConversion(own, target.units).changes:
        return source
    return in_units(source, target.units, dimensions=dimensions, report=report, strict=False, leave=leave)


def keeps_units(asked: TargetUnits) -> bool:
    """True if numbers are to be written as they are."""
    return isinstance(asked, str) and asked.strip() == "none"


def settles_elements(*options: type) -> bool:
    """True if one of the options classes of readers and writers has `elements`: that format settles them by itself."""
    return any(entry.name == "elements" for cls in options for entry in dataclasses.fields(cls))


def _unconverted(target: Format) -> frozenset[str]:
    """Return the sections that stay in their own units: the writer sees to them, or writes none."""
    written = {name for name, way in target.carries.items() if way.write != "none"}
    return frozenset({"forcefield", "metrics", "observables"} - written | set(target.unconverted))


def _style(own: Mapping[str, Any], wanted: Mapping[str, Any], target: Format) -> dict[str, Any]:
    """Return units asked for as the preset they are; UsageError: they are none that such a file can be in."""
    filled = written_out(target_units(own, wanted))
    told = {name: text for name, text in filled.items() if name in wanted or (name in BASES and name != "angle")}
    for style in target.unit_styles:
        theirs = {name: unit_of_dimension(name, {"preset": style}) for name in told}
        if wanted.get("preset") == style or (
            "preset" not in wanted and all(unit and same_unit(unit, told[name]) for name, unit in theirs.items())
        ):
            return {"preset": style}
    words = ",".join(str(text) if name == "preset" else f"{name}={text}" for name, text in wanted.items())
    raise UsageError(
        f"--target-units {words}: {target.title} ({target.name}) is in one of the units styles "
        f"{', '.join(target.unit_styles)}; with the source's other units ({units_words(own) or 'none'}) these are none "
        "of them"
    )


def _parsed(asked: str | Mapping[str, str]) -> dict[str, Any]:
    if isinstance(asked, str):
        return parse_units(asked, "--target-units")
    for quantity, unit in asked.items():
        if quantity != "preset":
            check_unit(quantity, unit, f"target_units {quantity}={unit}")
    return dict(asked)
