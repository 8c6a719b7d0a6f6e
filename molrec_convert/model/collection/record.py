"""A record and a collection: the units of one as the other states them, and a member as it stands alone.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.frame import Frame
from molrec_convert.model.record import Record
from molrec_convert.model.tags import Meta
from molrec_convert.quantities.dimensions import units_object, written_out
from molrec_convert.report import Report

__all__ = ["collection_units", "record_of", "with_units"]


def collection_units(units: Any) -> dict[str, str]:
    """Return a collection's units from a record's: those it states, a preset written out. Reduced units are none.

    The force is stated beside energy and length; angles have no unit here.
    """
    stated = units_object(units)
    found = written_out(stated)
    if "angle" not in stated:
        found.pop("angle", None)
    if "preset" in stated and "force" not in found and {"energy", "length"} <= found.keys():
        found["force"] = f"{found['energy']}/{found['length']}"
    return found


def record_of(collection: Collection, index: int, report: Report | None = None) -> Record:
    """A record of a collection as it stands alone: with the collection's force field, version and units.

    Units go to the meta of its system, where that states none.
    """
    report = Report() if report is None else report
    record = collection[index]
    changes: dict[str, Any] = {}
    version = collection.document.get("molrec_version")
    if version is not None and "molrec_version" not in record.meta:
        changes["meta"] = {"molrec_version": version, **record.meta}
    if collection.units and record.units is None:
        report.converted("units", "the collection's, which the record's system states now")
        changes["system"] = with_units(record.system, collection.units)
    if collection.forcefield is not None:
        changes["forcefield"] = collection.forcefield
    return dataclasses.replace(record, **changes) if changes else record


def with_units(system: Frame | None, units: Mapping[str, str]) -> Frame:
    """Return a record's system that states units, a `units` object."""
    meta = Meta() if system is None else Meta(system.meta)
    meta.put("units", dict(units), "json")
    return Frame(meta=meta) if system is None else dataclasses.replace(system, meta=meta)
