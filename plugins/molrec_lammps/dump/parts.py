"""The dumps of a trajectory: one or several files each, and the columns of further dumps joined to the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, MolrecError, UnsupportedError
from molrec_convert.report import Report
from molrec_lammps.dump.batch import RowReader
from molrec_lammps.dump.frames import FileIndex, FrameTable
from molrec_lammps.dump.header import CutHeader
from molrec_lammps.dump.index import first_header, index_source
from molrec_lammps.dump.names import FLAVOURS
from molrec_lammps.dump.pieces import join_pieces
from molrec_lammps.dump.rows import kind_of
from molrec_lammps.dump.source import open_source
from molrec_lammps.dump.steps import frames_at, number_by_order, numeric_order, resolve_steps
from molrec_lammps.dump.units import DumpPart

__all__ = ["Dump", "check_ids_named", "in_pieces", "join_dumps", "leave_out", "open_dump", "open_named"]

#: More files than this are opened one at a time.
_HELD_OPEN = 64
Integers = NDArray[np.int64]


@dataclass
class Dump:
    """One dump, in one or several files: what the index pass found, and its frames in the order that counts."""

    paths: list[Path]
    indexes: list[FileIndex]
    table: FrameTable


def open_dump(paths: Sequence[Path], steps: str, report: Report) -> Dump:
    """Index the files of one dump and put their frames into order; `steps` is `--steps`."""
    files = numeric_order([Path(path) for path in paths])
    indexes = [index_source(open_source(path, hold=len(files) <= _HELD_OPEN)) for path in files]
    for index in indexes:
        for text in index.warnings:
            report.warn(text)
        if index.truncated is not None:
            report.truncated(index.truncated)
    pieces = len(indexes)
    indexes = join_pieces(indexes, _ids_of)
    if len(indexes) < pieces:
        report.converted("rows", f"those of {pieces} files of single processors are joined by step")
    if steps == "index":
        table = number_by_order(indexes)
        report.converted("TIMESTEP", "frames are numbered by their order; the file's own numbers are source_step")
    else:
        table = resolve_steps(indexes, report, steps)
        report.carried("TIMESTEP", f"{len(table)} frames")
    return Dump(files, indexes, table)


def open_named(paths: Sequence[Path], steps: str, report: Report) -> list[Dump]:
    """Return the dumps of files a user named together, whatever their order: one, or several to be joined.

    Files with the same columns are one dump. Those with others are another dump where steps are in both, the first
    being the one with the most frames, of these one with positions; without a step in common they go on in time.
    """
    groups = _by_columns(paths) if steps == "step" else [list(paths)]
    dumps = [open_dump(files, steps, report) for files in groups]
    if len(dumps) == 1:
        return dumps
    found = np.concatenate([np.unique(dump.table.step) for dump in dumps])
    if len(np.unique(found)) == len(found):
        indexes = [index for dump in dumps for index in dump.indexes]
        files = [path for dump in dumps for path in dump.paths]
        return [Dump(files, indexes, resolve_steps(indexes, report, steps))]
    return sorted(dumps, key=_precedence)


def _by_columns(paths: Sequence[Path]) -> list[list[Path]]:
    """Files by the columns of their first frames; all together where one cannot be read, as its reader says."""
    groups: dict[frozenset[str], list[Path]] = {}
    for path in paths:
        try:
            source = open_source(path)
            columns = first_header(source).columns
            source.close()
        except (MolrecError, CutHeader, OSError):
            return [list(paths)]
        groups.setdefault(frozenset(columns), []).append(path)
    return list(groups.values())


def _precedence(dump: Dump) -> tuple[int, bool, int, str]:
    """What makes one of several dumps the one that others are joined to: the least counts."""
    names = {name for layout in dump.table.layouts for name in layout}
    placed = any(names.issuperset(flavour) for flavour in FLAVOURS.values())
    return -len(dump.table), not placed, -len(names), str(dump.paths[0])


def in_pieces(paths: Sequence[Path]) -> bool:
    """Whether files hold pieces of frames, not frames."""
    try:
        dump = open_dump(paths, "last", Report())
    except (MolrecError, OSError):
        return False
    for source in dump.table.sources:
        source.close()
    return len(dump.indexes) < len(paths)


def _ids_of(table: FrameTable, frame: int) -> Integers:
    part = DumpPart(table, np.array([frame], dtype=np.int64), frozenset())
    reader = RowReader([part])
    rows = next(reader.read(np.zeros(1, dtype=np.int64), ()), None) if reader.has_ids else None
    return np.zeros(0, dtype=np.int64) if rows is None or rows.ids is None else rows.ids


def leave_out(dump: Dump, why: str, named: bool, report: Report, what: str = "") -> None:
    """Report a dump that is not joined, or frames of it (`what`). UnsupportedError where a user named it."""
    text = f"{why}; {_by_itself(dump.paths)}"
    if named:
        raise UnsupportedError(f"{what or dump.paths[0]}: {text}")
    report.dropped(what or str(dump.paths[0]), text)


def _by_itself(paths: Sequence[Path]) -> str:
    """How the files of one dump are converted on their own, in words."""
    shown = " ".join(str(path) for path in paths[:3]) + (" …" if len(paths) > 3 else "")
    return f"mrec convert {shown} {paths[0].stem}.mrec converts it by itself"


def join_dumps(dumps: Sequence[Dump], by_order: bool, report: Report, *, named: bool = False) -> list[DumpPart]:
    """The parts of the trajectory: the first dump, and of the others the columns and steps it shares with it.

    A dump whose frames are not those of the first seen otherwise is left out, which is reported; so is every number
    that both state, for they may be written to other digits. UnsupportedError: one that a user `named` is left out.
    """
    first, table = dumps[0], dumps[0].table
    taken = {name for layout in table.layouts for name in layout}
    parts = [DumpPart(table, np.arange(len(table), dtype=np.int64), frozenset(taken - {"id"}))]
    for dump in dumps[1:]:
        path = dump.paths[0]
        stated = {name for layout in dump.table.layouts for name in layout}
        columns = stated - taken
        frames = frames_at(dump.table, table.step)
        there = np.flatnonzero(frames >= 0)
        why = f"it has none of the steps of {first.paths[0]}"
        if len(there):
            why = "" if columns else f"it has no column that {first.paths[0]} lacks"
            why = why or _unlike(first, dump, there, frames[there], by_order)
        if why:
            leave_out(dump, f"{why}, so it is not joined", named, report)
            continue
        alone, absent = len(dump.table) - len(there), len(table) - len(there)
        if alone:
            leave_out(dump, f"{first.paths[0]} has no frame of their steps", named, report, f"{alone} frames of {path}")
        if absent:
            report.warn(f"{path} lacks {absent} of the steps: its columns are null there")
        report.converted(f"columns of {path}", f"{' '.join(sorted(columns))}: joined by step and id")
        twice = sorted(name for name in stated & taken if kind_of(name) == "real")
        if twice:
            what = f"{' '.join(twice)}: those of {first.paths[0]} are taken; {_by_itself(dump.paths)}"
            report.dropped(f"columns of {path}", what)
        taken |= columns
        parts.append(DumpPart(dump.table, frames, frozenset(columns)))
    return parts


def _unlike(first: Dump, dump: Dump, mine: Integers, theirs: Integers, by_order: bool) -> str:
    """Why frames of the same steps cannot be joined, `mine` of the first dump, `theirs` of the other; "": they can."""
    table, other = first.table, dump.table
    for entry, its in ((first, table), (dump, other)):
        if not all("id" in names for names in its.layouts):
            return f"{entry.paths[0]} has no column id"
    if by_order:
        own = [np.concatenate([index.table.step for index in entry.indexes]) for entry in (first, dump)]
        if (own[0][mine] != own[1][theirs]).any():
            return f"its frames are of other steps than those of {first.paths[0]}"
    differ = np.flatnonzero(other.count[theirs] != table.count[mine])
    if len(differ):
        at = differ[0]
        return (
            f"it has {other.count[theirs[at]]} atoms at step {other.step[theirs[at]]} "
            f"and {first.paths[0]} has {table.count[mine[at]]}"
        )
    boxes, back = np.unique(np.stack([table.box[mine], other.box[theirs]]), axis=1, return_inverse=True)
    same = np.isclose(table.vectors[boxes[0]], other.vectors[boxes[1]], 1e-6, 1e-9).all(axis=(1, 2))
    same &= np.isclose(table.origin[boxes[0]], other.origin[boxes[1]], 1e-6, 1e-9).all(axis=1)
    if not same.all():
        at = np.flatnonzero(~same[back.reshape(-1)])[0]
        return f"its cell is not that of {first.paths[0]} at step {other.step[theirs[at]]}"
    return ""


def check_ids_named(reader: RowReader) -> None:
    """Refuse frames without ids among frames with ids."""
    table = reader.table
    having = np.array(["id" in names for names in table.layouts])
    if having.any() and not having.all():
        frame = int(np.flatnonzero(~having[table.layout])[0])
        raise FormatError(
            table.sources[table.source[frame]].path,
            f"line {table.line[frame] - 1}",
            found=f"no column id in the frame of step {table.step[frame]}",
            expected="id, as other frames have it",
        )
