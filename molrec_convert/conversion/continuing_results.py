"""Observables and metrics of records that follow one another in time, as those of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from molrec_convert.conversion.continuing_system import Source
from molrec_convert.model.chained.trajectory import ChainedTrajectory
from molrec_convert.model.results.metrics import Event, Metrics, Series
from molrec_convert.model.results.observables import Observable, Observables
from molrec_convert.model.tags import canonical_json
from molrec_convert.report import Report

__all__ = ["joined_metrics", "joined_observables"]


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
    """The rows of the frames that are taken, None where an entry has no row for each frame of its source."""
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
    """One curve of several, and how many values are left out: of steps that more than one has one is taken."""
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
