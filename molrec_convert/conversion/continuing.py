"""Records that follow one another in time as one record: a run and those continued from where it ended.

The frames are a `ChainedTrajectory`; nothing is read before they are asked for but steps, times and first frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from molrec_convert.conversion.continuing_results import joined_metrics, joined_observables
from molrec_convert.conversion.continuing_system import Source, joined_system, parts_of
from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model.chained.trajectory import ChainedTrajectory, Overlap
from molrec_convert.model.collection.record import collection_units
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.record import Record
from molrec_convert.model.tags import canonical_json
from molrec_convert.report import Report

__all__ = ["join_records"]

#: Keys of `meta` that every writer stamps.
_STAMPS = ("molrec_version", "creator")


def join_records(
    records: Sequence[tuple[str, Record]],
    *,
    overlap: Overlap = "refuse",
    shift_time: bool = False,
    report: Report | None = None,
) -> Record:
    """Return one record of several that follow one another in time; each is named as messages are to call it.

    Frames are taken as `ChainedTrajectory` says. The atoms must be the same: their number and what identifies them;
    those whose ids are in another order are ordered as the first record's. Units and force fields must agree.
    `system`, `meta` and `method` are the first record's (methods of later ones that differ are its key `continued`),
    `status` is the last one's; observables over frames and metrics are joined. What is said otherwise by a later record
    is reported as dropped.

    The records stay open as long as this one is; closing it closes them. Raises `UsageError` for a record without a
    trajectory, steps that overlap, a clock that starts again; `ContractError` for records of different things.
    """
    report = Report() if report is None else report
    sources = [Source(name, record) for name, record in records]
    if not sources:
        raise UsageError("no record is named to join")
    for source in sources:
        _ = source.trajectory
    _check_units(sources, report)
    forcefield = _forcefield(sources, report)
    trajectory = ChainedTrajectory(parts_of(sources, report), overlap=overlap, shift_time=shift_time, report=report)
    trajectory.attributes = _attributes(sources, report)
    first = sources[0].record
    _report_rest(sources, report)
    return Record(
        meta=_meta(sources, report),
        system=joined_system(sources, report),
        frame=first.frame,
        trajectory=trajectory,
        forcefield=forcefield,
        observables=joined_observables(sources, trajectory, report),
        method=_method(sources, report),
        status=_status(sources, report),
        metrics=joined_metrics(sources, trajectory, report),
        attributes=first.attributes,
        unknown=first.unknown,
        _close=lambda: _close([source.record for source in sources]),
    )


def _close(records: Sequence[Record]) -> None:
    for record in records:
        record.close()


def _check_units(sources: Sequence[Source], report: Report) -> None:
    """Refuse units that differ, and numbers without units beside others that have them."""
    first = sources[0]
    if all(source.record.units is None for source in sources):
        report.warn("no source states units: their numbers are taken to be in the same")
        return
    for source in sources:
        if source.record.units is None:
            raise UsageError(
                f"{source.name} states no units, and others do: name them with --units real, or what they are"
            )
    for source in sources[1:]:
        mine, theirs = first.record.units, source.record.units
        spelled = collection_units(mine)
        if canonical_json(mine) != canonical_json(theirs) and (not spelled or spelled != collection_units(theirs)):
            raise ContractError(
                "units",
                f"{source.name} is in other units than {first.name}: convert it with --target-units first",
                found=canonical_json(theirs),
                expected=canonical_json(mine),
            )


def _forcefield(sources: Sequence[Source], report: Report) -> ForceField | None:
    """Return the force field of all, whose name may be that of its file. `ContractError` where two differ."""
    having = [(source.name, source.record.forcefield) for source in sources if source.record.forcefield is not None]
    if not having:
        return None
    first_name, first = having[0]
    assert first is not None
    for name, forcefield in having[1:]:
        assert forcefield is not None
        document = {**forcefield.document, "name": first.document.get("name")}
        if replace(forcefield, document=document) != first:
            raise ContractError("forcefield", f"{name} has another one than {first_name}, and a record has one")
    without = [source.name for source in sources if source.record.forcefield is None]
    if without:
        report.warn(f"no force field is stated by {', '.join(without)}: that of {first_name} is taken for all frames")
    return first


def _attributes(sources: Sequence[Source], report: Report) -> dict[str, dict[str, Any]]:
    """Return the attributes of the trajectories, those of the first where they differ."""
    found: dict[str, dict[str, Any]] = {}
    for source in sources:
        for path, attributes in source.trajectory.attributes.items():
            known = found.setdefault(path, attributes)
            if canonical_json(known) != canonical_json(attributes):
                report.dropped(f"attributes of trajectory/{path} of {source.name}", "another source has others there")
    return found


def _meta(sources: Sequence[Source], report: Report) -> dict[str, Any]:
    """Return the first record's, with what others add; the version is the newest of all."""
    meta = dict(sources[0].record.meta)
    for source in sources[1:]:
        for key, value in source.record.meta.items():
            if key in _STAMPS:
                continue
            if canonical_json(meta.setdefault(key, value)) != canonical_json(value):
                report.dropped(f"meta/{key} of {source.name}", "the first source says something else")
    versions = [source.record.meta.get("molrec_version", 1) for source in sources]
    if max(versions) > 1:
        meta["molrec_version"] = max(versions)
    return meta


def _method(sources: Sequence[Source], report: Report) -> dict[str, Any] | None:
    """Return the first there is; what later records say otherwise is kept in it, under `continued`."""
    having = [source for source in sources if source.record.method is not None]
    if not having:
        return None
    method = dict(having[0].record.method or {})
    later: list[dict[str, Any]] = []
    for source in having[1:]:
        own = source.record.method or {}
        if all(canonical_json(own) != canonical_json(known) for known in (having[0].record.method, *later)):
            later.append(own)
            report.converted(f"method of {source.name}", "is kept in that of the first source, as continued")
    if later:
        method["continued"] = [*method.get("continued", []), *later]
    return method


def _status(sources: Sequence[Source], report: Report) -> dict[str, Any] | None:
    """The last one's, which says how it all ended."""
    having = [source for source in sources if source.record.status is not None]
    if len(having) > 1:
        report.converted("status", f"is that of {having[-1].name}, the last")
    return having[-1].record.status if having else None


def _report_rest(sources: Sequence[Source], report: Report) -> None:
    """Report what is of the first record only, and of others not taken."""
    for source in sources[1:]:
        record = source.record
        if record.frame is not None and record.frame != sources[0].record.frame:
            report.dropped(f"frame of {source.name}", "a record has one, that of the first source")
        if record.attributes and canonical_json(record.attributes) != canonical_json(sources[0].record.attributes):
            report.dropped(f"attributes of the root of {source.name}", "those of the first source are taken")
        if record.unknown is not None and next(iter(record.unknown.keys()), None) is not None:
            report.dropped(f"unknown content of {source.name}", "that of the first source is taken")
