"""The frames of a trajectory out of those of its files: step order, overlaps of restarts, joined dumps.

A restart repeats frames: of frames with one step the last counts, within a file and between files; files follow one
another by their first step. Steps that then still go back are an error, unless frames are numbered by their order.
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
from molrec_lammps.dump_frames import FileIndex, FrameTable, join_tables

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


def resolve_steps(indexes: Sequence[FileIndex], report: Report) -> FrameTable:
    """The frames in step order, each step once; frames that give way are reported.

    FormatError: within a file steps go back for good.
    """
    tables = [_resolve_file(index.table, report) for index in indexes]
    order = sorted(range(len(tables)), key=lambda number: int(tables[number].step[0]))
    table = join_tables([tables[number] for number in order])
    if len(tables) == 1:
        return table
    by_step = np.argsort(table.step, kind="stable")
    steps = table.step[by_step]
    last = np.append(steps[1:] != steps[:-1], True)
    gone, kept = table.take(by_step[~last]), table.take(by_step[last])
    for number in np.unique(gone.source).tolist():
        own = gone.take(gone.source == number)
        lost = _columns_lost(own, kept)
        how = f", without {' '.join(lost)}; named with the input script the dumps of a run are joined" if lost else ""
        report.dropped(_frames(own.step), f"{table.sources[number].path}: a later file has the same steps{how}")
    return kept.pruned()


def _columns_lost(gone: FrameTable, kept: FrameTable) -> list[str]:
    """The columns of frames that give way which some frame in their place does not have."""
    instead = np.unique(kept.layout[np.searchsorted(kept.step, gone.step)]).tolist()
    there = set.intersection(*(set(kept.layouts[number]) for number in instead))
    names = dict.fromkeys(name for number in np.unique(gone.layout).tolist() for name in gone.layouts[number])
    return [name for name in names if name not in there]


def frames_at(table: FrameTable, steps: Integers) -> Integers:
    """The frame of each step in a table whose steps ascend, -1 where it has none."""
    places = np.minimum(np.searchsorted(table.step, steps), len(table) - 1)
    return np.where(table.step[places] == steps, places, -1).astype(np.int64)


def _resolve_file(table: FrameTable, report: Report) -> FrameTable:
    steps = table.step
    if (np.diff(steps) > 0).all():
        return table
    path = table.sources[0].path
    _, reverse = np.unique(steps[::-1], return_index=True)
    keep = np.sort(len(steps) - 1 - reverse)
    back = np.flatnonzero(np.diff(steps[keep]) <= 0)
    if len(back):
        frame, before = int(keep[back[0] + 1]), int(steps[keep[back[0]]])
        raise FormatError(
            path,
            f"line {max(1, int(table.line[frame]) - 8)}",
            found=f"step {steps[frame]} after step {before}",
            expected="steps that ascend, or come again later",
            hint="--steps index numbers frames by their order",
        )
    gone = np.setdiff1d(np.arange(len(steps)), keep)
    report.dropped(_frames(steps[gone]), f"{path}: the same steps come again later in the file")
    return table.take(keep).pruned()


def _frames(steps: Integers) -> str:
    if len(steps) == 1:
        return f"the frame of step {steps[0]}"
    return f"{len(steps)} frames of steps {steps.min()} to {steps.max()}"
