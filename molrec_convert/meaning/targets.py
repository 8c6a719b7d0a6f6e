"""The units of what is written: those of the target's format, or those asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from molrec_convert.formats import Format
from molrec_convert.model.collection import Collection
from molrec_convert.model.record import Record
from molrec_convert.quantities.dimensions import UnitConversion, check_unit, parse_units, units_object, units_words
from molrec_convert.report import Report

__all__ = ["TargetUnits", "for_target", "settles_elements", "with_own_units"]

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
    if "target_units" in {entry.name for entry in dataclasses.fields(target.write_options)}:
        return source
    own = units_object(source.units)
    if asked is not None:
        wanted = _parsed(asked)
        if not wanted:
            report.converted(
                "units", f"numbers are written as they are, in {units_words(own) or 'units nobody states'}"
            )
            return source
        from molrec_convert.meaning.units import in_units

        keeps = target.carries.get("forcefield")
        return in_units(
            source,
            wanted,
            dimensions=dimensions,
            report=report,
            force_field=keeps is not None and keeps.write != "none",
        )
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
    from molrec_convert.meaning.units import in_units

    return in_units(source, target.units, dimensions=dimensions, report=report, strict=False, force_field=False)


def with_own_units(options: Mapping[str, Any], target: Format, asked: TargetUnits) -> dict[str, Any]:
    """Return the options of formats, the units asked for among those of a writer that converts by itself."""
    own = {entry.name for entry in dataclasses.fields(target.write_options)}
    return {**options, "target_units": asked} if asked is not None and "target_units" in own else dict(options)


def settles_elements(*options: type) -> bool:
    """True if one of the options classes of readers and writers has `elements`: that format settles them by itself."""
    return any(entry.name == "elements" for cls in options for entry in dataclasses.fields(cls))


def _parsed(asked: str | Mapping[str, str]) -> dict[str, Any]:
    if isinstance(asked, str):
        return {} if asked.strip() == "none" else parse_units(asked, "--target-units")
    for quantity, unit in asked.items():
        if quantity != "preset":
            check_unit(quantity, unit, f"target_units {quantity}={unit}")
    return dict(asked)
