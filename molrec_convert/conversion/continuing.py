"""Records that follow one another in time as one record: a run and those continued from where it ended.

The frames are a `ChainedTrajectory`; nothing is read before they are asked for but steps, times and first frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from molrec_convert.conversion.continuing_system import Source, joined_system, parts_of
from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model.chained.trajectory import ChainedTrajectory, Overlap
from molrec_convert.model.collection.member import collection_units
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.record import Record
from molrec_convert.model.results.metrics import Event, Metrics, Series
from molrec_convert.model.results.observables import Observable, Observables
from molrec_convert.model.tags import canonical_json
from molrec_convert.report import Report

__all__ = ["join_records", "joined_metrics", "joined_observables"]


def joined_observables(sources: Sequence[Source], trajectory: ChainedTrajectory, report: Report) -> Observables | None:
    """Return the observables: those over frames with the rows of the frames taken, others where all say the same."""
    everything = [source.record.observables or Observables() for source in sources]
    if not any(entry for entry in everything):
        return next((entry for entry in everything if entry.attributes), None)
    made: dict[str, Observable] = {}
    for name in dict.fromkeys(name for entry in everything for name in entry):
        having = [(source.name, entry.get(name)) for source, entry in zip(sources, everything, strict=True)]
        first = next(observable for _, observable in having if observable is not None)
        joined = _over_frames(sources, [observable for _, observable in having], trajectory)
        if joined is not None:
            made[name] = joined
        elif all(observable == first for _, observable in having):
            made[name] = first
        else:
            for source, observable in having:
                if observable is not None:
                    report.dropped(f"observables/{name} of {source}", "not all sources have it, over the same frames")
    return Observables(made, everything[0].attributes)


def _over_frames(
    sources: Sequence[Source], entries: Sequence[Observable | None], trajectory: ChainedTrajectory
) -> Observable | None:
    """Return the rows of the frames that are taken, None where an entry has no row for each frame of its source."""
    parts = []
    first = entries[0]
    for source, entry, (start, stop) in zip(sources, entries, trajectory.ranges, strict=True):
        if entry is None or first is None or not entry.time_dependent or not entry.shape:
            return None
        if entry.shape[0] != len(source.trajectory.steps) or entry.dtype != first.dtype:
            return None
        if entry.shape[1:] != first.shape[1:] or canonical_json(entry.metadata) != canonical_json(first.metadata):
            return None
        parts.append(entry.values[start:stop])
    assert first is not None
    return Observable(np.concatenate(parts), first.metadata, first.attributes)


def joined_metrics(sources: Sequence[Source], trajectory: ChainedTrajectory, report: Report) -> Metrics | None:
    """Return the curves one after another; up to the last frame taken of a source its values count, then the next's.

    Steps are shifted as those of the frames are.
    """
    everything = [source.record.metrics for source in sources]
    if all(metrics is None for metrics in everything):
        return None
    ends: list[int | None] = []
    for source, (start, stop), shift in zip(sources, trajectory.ranges, trajectory.step_shifts, strict=True):
        before = ends[-1] if ends else None
        ends.append(int(source.trajectory.steps[stop - 1]) + shift if stop > start else before)
    keys = dict.fromkeys(key for metrics in everything if metrics is not None for key in metrics)
    curves: dict[str, Series] = {}
    total = 0
    for key in keys:
        parts = [
            _shifted(metrics[key], shift) if metrics is not None and key in metrics else None
            for metrics, shift in zip(everything, trajectory.step_shifts, strict=True)
        ]
        curves[key], left = _joined(key, parts, ends)
        total += left
    if total:
        report.converted("metrics", f"{total:,} values at steps that two sources have are left out")
    for source, metrics in zip(sources, everything, strict=True):
        if metrics is not None and any(event.tags is not None for event in metrics.events()):
            report.dropped(f"tags of the metrics of {source.name}", "curves that are joined have none")
    if any(curve.has_step is not None for curve in curves.values()):
        return Metrics.from_events(chain.from_iterable(curve.events(key) for key, curve in curves.items()))
    return Metrics.from_series(curves)


def _shifted(series: Series, shift: int) -> Series:
    return series if not shift or series.steps is None else replace(series, steps=series.steps + shift)


def _joined(key: str, parts: Sequence[Series | None], ends: Sequence[int | None]) -> tuple[Series, int]:
    """Return one curve of several, and how many values are left out: of steps that more than one has one is taken."""
    events: list[Event] = []
    left = 0
    for number, series in enumerate(parts):
        if series is None:
            continue
        seam = None if number == 0 else ends[number - 1]
        new = list(series.events(key))
        kept = [event for event in new if event.step is None or seam is None or event.step > seam]
        if not events:
            kept = new
        begin = min((event.step for event in kept if event.step is not None), default=None)
        before = [event for event in events if event.step is None or begin is None or event.step < begin]
        left += len(new) - len(kept) + len(events) - len(before)
        events = before + kept
    return Series.of(events), left


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
    """Return the last one's, which says how it all ended."""
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
