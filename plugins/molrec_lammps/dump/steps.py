"""The frames of a trajectory out of those of its files: step order, overlaps of restarts, joined dumps.

A run that goes on from a restart begins with frames that are there already. Those that say the same as before, row for
row, are taken once. Where others have a step a second time, or steps go back, nothing tells which of the runs counts:
`--steps` does. Files follow one another by their first step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.report import Report
from molrec_lammps.dump.frames import FileIndex, FrameTable, join_tables

__all__ = ["frames_at", "number_by_order", "numeric_order", "resolve_steps", "series_of"]

Integers = NDArray[np.int64]


def numeric_order(paths: Sequence[Path]) -> list[Path]:
    """Files whose names differ in numbers only, by these numbers; others as they are given."""
    parts = [re.split(r"(\d+)", path.name) for path in paths]
    if len({tuple(words[::2]) for words in parts}) != 1 or len({path.parent for path in paths}) != 1:
        return list(paths)
    return [path for _, path in sorted(zip([[int(n) for n in w[1::2]] for w in parts], paths, strict=True))]


def series_of(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Files whose names differ in numbers only, together; others each by itself."""
    groups: dict[tuple[str, Path], list[Path]] = {}
    for path in paths:
        groups.setdefault((re.sub(r"\d+", "*", path.name), path.parent), []).append(path)
    return [tuple(numeric_order(files)) for files in groups.values()]


def number_by_order(indexes: Sequence[FileIndex]) -> FrameTable:
    """All frames, file after file as given, with their ordinals as steps."""
    table = join_tables([index.table for index in indexes])
    return replace(table, step=np.arange(len(table), dtype=np.int64))


def resolve_steps(indexes: Sequence[FileIndex], report: Report, which: str = "step") -> FrameTable:
    """Return the frames in step order, each step once; frames that give way are reported.

    `which` is `--steps`: where steps go back or come again, "first" keeps the earlier run as far as it goes, "last"
    takes the later one from where it begins, "step" keeps both where they say the same or have no step in common, and
    is a FormatError otherwise.
    """
    tables = sorted((index.table for index in indexes), key=lambda table: int(table.step[0]))
    table = join_tables(tables)
    steps = table.step
    if (np.diff(steps) > 0).all():
        return table
    kept = np.zeros(0, dtype=np.int64)
    again: list[Integers] = []
    for run in np.split(np.arange(len(steps)), np.flatnonzero(np.diff(steps) <= 0) + 1):
        if not len(kept) or steps[run[0]] > steps[kept[-1]]:
            kept = np.concatenate([kept, run])
        elif which == "first":
            again.append(run[steps[run] <= steps[kept[-1]]])
            kept = np.concatenate([kept, run[steps[run] > steps[kept[-1]]]])
        elif which == "last":
            again.append(kept[steps[kept] >= steps[run[0]]])
            kept = np.concatenate([kept[steps[kept] < steps[run[0]]], run])
        else:
            kept, same = _merged(table, kept, run)
            again.append(same)
    gone = np.concatenate([np.zeros(0, dtype=np.int64), *again])
    if len(gone) and which == "step":
        report.warn(f"{_places(table, gone)}: {_frames(steps[gone])} come again unchanged, and are taken once")
    elif len(gone):
        _report_gone(table, gone, kept, which, report)
    return table.take(kept).pruned()


def _merged(table: FrameTable, kept: Integers, run: Integers) -> tuple[Integers, Integers]:
    """The frames of two runs in step order, and those of the later one that the earlier one has already.

    FormatError: frames of one step that differ, or a run that goes back to steps between those of the same file.
    """
    steps = table.step
    places = np.minimum(np.searchsorted(steps[kept], steps[run]), len(kept) - 1)
    there = steps[kept][places] == steps[run]
    for frame, before in zip(run[there].tolist(), kept[places[there]].tolist(), strict=True):
        if not _same(table, before, frame):
            raise _step_fault(table, frame, f"step {steps[frame]} again, with other rows than at {table.where(before)}")
    new = run[~there]
    inside = new[steps[new] < steps[kept[-1]]]
    if len(inside) and (table.source[kept[-1]] == table.source[inside[0]] or there.any()):
        raise _step_fault(table, int(inside[0]), f"step {steps[inside[0]]} after step {steps[kept[-1]]}")
    joined = np.concatenate([kept, new])
    return joined[np.argsort(steps[joined], kind="stable")], run[there]


def _same(table: FrameTable, one: int, other: int) -> bool:
    """True if two frames say the same: cell, columns, time, and rows in any order."""
    if table.layout[one] != table.layout[other] or table.count[one] != table.count[other]:
        return False
    times = table.time[[one, other]]
    if times[0] != times[1] and not np.isnan(times).all():
        return False
    boxes = table.box[[one, other]]
    for cells in (table.vectors, table.origin, table.boundary):
        if not np.array_equal(cells[boxes[0]], cells[boxes[1]]):
            return False
    texts = [
        table.sources[int(table.source[n])].read(int(table.rows[n]), int(table.stop[n])).split(b"\n")
        for n in (one, other)
    ]
    first, second = (sorted(line.rstrip() for line in lines if line.strip()) for lines in texts)
    return first == second


def _step_fault(table: FrameTable, frame: int, found: str) -> FormatError:
    path, line = table.sources[int(table.source[frame])].place(int(table.line[frame]))
    return FormatError(
        path,
        f"line {max(1, line - 8)}",
        found=found,
        expected="steps that ascend, or the same frames again as a restart writes them",
        hint="--steps index keeps all frames, numbered by their order; --steps last, or first, takes one of two runs",
    )


def _places(table: FrameTable, frames: Integers) -> str:
    """The files of some frames, in words."""
    return ", ".join(dict.fromkeys(str(table.sources[number].path) for number in table.source[frames].tolist()))


def _report_gone(table: FrameTable, gone: Integers, kept: Integers, which: str, report: Report) -> None:
    """Report the frames of runs that give way, and the columns only they have."""
    there = {name for number in np.unique(table.layout[kept]).tolist() for name in table.layouts[number]}
    for number in np.unique(table.source[gone]).tolist():
        own = gone[table.source[gone] == number]
        names = dict.fromkeys(
            name for layout in np.unique(table.layout[own]).tolist() for name in table.layouts[layout]
        )
        lost = [name for name in names if name not in there]
        how = f", without {' '.join(lost)}" if lost else ""
        instead = "an earlier" if which == "first" else "a later"
        report.dropped(
            _frames(table.step[own]),
            f"{table.sources[number].path}: --steps {which} takes those of {instead} run{how}",
        )


def frames_at(table: FrameTable, steps: Integers) -> Integers:
    """The frame of each step in a table whose steps ascend, -1 where it has none."""
    places = np.minimum(np.searchsorted(table.step, steps), len(table) - 1)
    return np.where(table.step[places] == steps, places, -1).astype(np.int64)


def _frames(steps: Integers) -> str:
    if len(steps) == 1:
        return f"the frame of step {steps[0]}"
    return f"{len(steps)} frames of steps {steps.min()} to {steps.max()}"
