"""LAMMPS text dumps as a record: the reader of the format `lammps-dump`, and of the dumps of a run.

    read_dump([Path("melt.lammpstrj")], context)
    dump_record(paths, context, RunFacts(system=..., thermo=...), joined=[other_paths])

`system` has what the particles are (from a data file, or what never changes in the dump), `trajectory` the frames.
Rows ascend by id in both. What becomes of every column is in
`dump.rows` and `dump.trajectory`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, LayoutChanged, UnsupportedError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Block, Column, Frame, MetaDeclaration, Record
from molrec_convert.model.names import STATE_COLUMNS
from molrec_convert.report import Report
from molrec_lammps.common.units import UNITS, UnitsStyle, check_units
from molrec_lammps.dump.batch import APART, LARGE_FRAME, RAGGED, RowReader
from molrec_lammps.dump.frames import series_of
from molrec_lammps.dump.parts import Dump, check_ids_named, join_dumps, leave_out, open_dump, open_named
from molrec_lammps.dump.plan import Plan, plan_columns, system_columns
from molrec_lammps.dump.rows import COORDINATES, IdSet, Rows
from molrec_lammps.dump.sidecar.augmented import SideSource, add_sides, bare_record, open_sides, without_restated
from molrec_lammps.dump.sidecar.items import dump_kind
from molrec_lammps.dump.sidecar.local import told_columns
from molrec_lammps.dump.system import Relations, RunFacts, atoms_of, relations_of, report_differences, restricted
from molrec_lammps.dump.trajectory import DumpTrajectory, PerFrame, Placement, place_aligned, place_ragged, place_single
from molrec_lammps.log.tables import Thermo

__all__ = [
    "RunFacts",
    "Thermo",
    "dump_record",
    "read_dump",
]

#: How far out, in lattice vectors, no atom drifts before LAMMPS folds it back.
_FAR = 0.5
#: More than this part of the atoms out by more than `_LITTLE` is no drift either, where there are `_SOME` at least.
_PART = 0.2
_LITTLE = 0.01
_SOME = 16


def _refuse_rotated(reader: RowReader, rows: Rows) -> None:
    """Refuse a YAML dump whose first frame has its wrapped coordinates out of its tilted cell. `rows` begin with it.

    With `dump_modify triclinic/general yes` a YAML dump has the coordinates of the general cell and the box of the
    restricted one. No line says so; it shows where wrapped coordinates lie far out of the cell.
    Source: dumps of the 22 Jul 2025 release.
    """
    table = reader.table
    source = table.sources[table.source[0]]
    names = table.layouts[int(table.layout[0])]
    if source.translate is None or not {"x", "y", "z"} <= set(names) & set(rows.values):
        return
    box = int(table.box[0])
    vectors, boundary = table.vectors[box], table.boundary[box]
    if not (vectors[0, 1] or vectors[0, 2] or vectors[1, 2]) or not boundary.any():
        return
    own = slice(0, int(rows.offset[1]))
    places = np.stack([rows.values[axis][own] for axis in ("x", "y", "z")], axis=1) - table.origin[box]
    fractions = np.linalg.solve(vectors, places.T).T[:, boundary]
    out = np.maximum(-fractions, fractions - 1.0).max(axis=1, initial=0.0)
    if (out > _FAR).any() or (len(out) >= _SOME and (out > _LITTLE).mean() > _PART):
        raise UnsupportedError(
            f"{source.path} contradicts itself: at step {table.step[0]} {int((out > _LITTLE).sum())} of {len(out)} "
            "atoms lie out of the periodic cell, as in a YAML dump with dump_modify triclinic/general, whose "
            "coordinates are rotated and whose box is not; dump custom writes both"
        )


#: More bytes than any job has.
_ONE_JOB = 2**62

Integers = NDArray[np.int64]


def read_dump(paths: Sequence[Path], context: ReadContext) -> Record:
    """Read one dump, in one or several files, into a record; local and grid dumps named beside it are joined to it."""
    kinds: dict[str, list[Path]] = {"atoms": [], "local": [], "grid": []}
    for path in map(Path, paths):
        kinds[dump_kind(path)].append(path)
    told = told_columns(context.options.local_columns)
    sides = [SideSource(files, attributes=told) for kind in ("local", "grid") for files in series_of(kinds[kind])]
    if kinds["atoms"]:
        return dump_record(kinds["atoms"], context, sides=sides, named=True)
    if context.options.steps == "index":
        raise UnsupportedError(f"{paths[0]}: frames of a local or grid dump are not numbered by their order")
    opened = open_sides(sides, context.report, context.options.steps)
    return bare_record(opened, context.options.units, context.report)


def dump_record(
    paths: Sequence[Path],
    context: ReadContext,
    facts: RunFacts | None = None,
    *,
    joined: Sequence[Sequence[Path]] = (),
    sides: Sequence[SideSource] = (),
    named: bool = False,
) -> Record:
    """Return a record of a dump: its frames in step order, and what `facts` says beside it.

    The columns of the dumps in `joined` are joined by step and id; a column the first has too is taken from there, and
    a dump that holds other atoms is left out. With `named` the paths are all a user named: those with other columns at
    the same steps are dumps to be joined, and one that cannot be is refused. The dumps of `sides`, local and grid,
    become blocks of the trajectory. With the hint `ragged` in the context the atoms of a frame may be any.
    FormatError names the line of what is wrong.
    """
    apart = {hint for hint in context.hints if hint.startswith(APART)}
    facts = RunFacts() if facts is None else facts
    if sides and context.options.steps == "index":
        for side in sides:
            context.report.dropped(
                str(side.files[0]), "frames are numbered by their order, so their steps are not known"
            )
        sides = ()
    opened = open_sides(sides, context.report, context.options.steps)
    facts = without_restated(facts, opened, context.report)
    while True:
        mark = context.report.mark()
        try:
            return add_sides(_record(paths, context, facts, joined, apart, named), opened, context.report)
        except LayoutChanged as changed:
            if not changed.hint.startswith(APART) or changed.hint in apart:
                raise
            context.report.rewind(mark)
            apart.add(changed.hint)


def _record(
    paths: Sequence[Path],
    context: ReadContext,
    facts: RunFacts,
    joined: Sequence[Sequence[Path]],
    apart: Collection[str],
    named: bool,
) -> Record:
    report, options = context.report, context.options
    by_order = options.steps == "index"
    dumps = open_named(paths, options.steps, report) if named else [open_dump(paths, options.steps, report)]
    first = dumps[0]
    dumps += [open_dump(others, options.steps, report) for others in joined]
    for dump in list(dumps[1:]):
        if any(f"{APART}{path}" in apart for path in dump.paths):
            leave_out(dump, f"its frames hold other atoms than {first.paths[0]}", named, report)
            dumps.remove(dump)
    units = _units(dumps, facts, options.units, report)
    parts = join_dumps(dumps, by_order, report, named=named)
    reader = RowReader(parts)
    check_ids_named(reader)
    everything = frozenset(name for part in parts for name in part.columns)
    rows, compared = _first_rows(reader, everything)
    _refuse_rotated(reader, rows)
    ragged = _is_ragged(reader, compared, RAGGED in context.hints, report)
    plan = plan_columns(reader, rows, facts, options, units, report)
    placement = _place(reader, compared, plan, facts, ragged)
    idset = _fix_ids(reader, rows, ragged)
    system, relations = _system(reader, rows, placement, plan, facts, idset, report)
    _put_meta(system, plan, units)
    per_frame = PerFrame(_times(first, facts, by_order, report), _per_step(first, facts, by_order, report))
    trajectory = DumpTrajectory(reader, placement, per_frame, report, relations, rows)
    return Record(system=system, trajectory=trajectory, _close=lambda: _close(dumps))


def _units(dumps: Sequence[Dump], facts: RunFacts, asked: str | None, report: Report) -> UnitsStyle | None:
    """Return the units style: `--units`, else what the dump states, else what the run knows."""
    stated: tuple[str, str] | None = None
    for dump in dumps:
        for index in dump.indexes:
            path = index.table.sources[0].path
            for word, line in index.units:
                if stated is not None and stated[0] != word:
                    raise FormatError(
                        path, f"line {line + 1}", found=f"units {word}", expected=f"{stated[0]}, as in {stated[1]}"
                    )
                if word not in UNITS:
                    raise FormatError(
                        path, f"line {line + 1}", found=f"units {word}", expected=f"one of {', '.join(UNITS)}"
                    )
                stated = (word, f"{path}, line {line + 1}")
    known = asked or (stated[0] if stated is not None else None) or facts.units
    if known is None:
        report.warn(
            "neither the dump nor an option states the units, and the record leaves them open; --units names them"
        )
        return None
    if stated is not None and known != stated[0]:
        report.warn(f"{stated[1]}: the dump says units {stated[0]}; --units {known} is taken")
    elif stated is not None and facts.units not in (None, known):
        report.warn(f"{stated[1]}: the dump says units {known}, the run units {facts.units}; the dump's are taken")
    if stated is not None:
        report.carried("UNITS", stated[0])
    return check_units(known)


def _first_rows(reader: RowReader, columns: frozenset[str]) -> tuple[Rows, Rows]:
    """Return all columns of the first frames, and of at least two frames what tells where columns go.

    Of large frames only one is read whole.
    """
    frames = np.arange(len(reader.table), dtype=np.int64)
    if len(frames) > 1 and reader.frame_bytes(columns) > LARGE_FRAME:
        rows = next(reader.read(frames[:1], columns, _ONE_JOB))
        telling = columns - COORDINATES - frozenset(STATE_COLUMNS)
        return rows, next(reader.read(frames[:2], telling, _ONE_JOB))
    count = max(2, len(reader.jobs(frames, columns)[0]))
    rows = next(reader.read(frames[:count], columns, _ONE_JOB))
    return rows, rows


def _is_ragged(reader: RowReader, first: Rows, hinted: bool, report: Report) -> bool:
    """True if the atoms change: their number, or at an equal number their ids in the first frames or the last."""
    counts = reader.table.count
    if (counts != counts[0]).any():
        report.converted(
            "atoms", f"their number changes ({counts.min()} to {counts.max()}): all columns are in trajectory/atoms"
        )
        return True
    ids = first.ids
    if ids is None:
        report.warn("the dump has no column id: rows keep the order of the file, which may differ between frames")
        return False
    frames = ids.reshape(len(first.frames), -1)
    changing = hinted or bool((frames != frames[0]).any())
    if not changing and len(counts) > len(first.frames):
        last = next(reader.read(np.array([len(counts) - 1], dtype=np.int64), ()))
        changing = last.ids is None or not np.array_equal(last.ids, frames[0])
    if changing:
        report.converted("atoms", "their ids change though their number does not: all columns are in trajectory/atoms")
    else:
        report.converted("rows", "in order of ids")
    return changing


def _place(reader: RowReader, compared: Rows, plan: Plan, facts: RunFacts, ragged: bool) -> Placement:
    rows = int(reader.table.count.max())
    if ragged:
        return place_ragged([*plan.columns, *system_columns(plan, facts)], rows, with_ids=reader.has_ids)
    if len(reader.table) == 1:
        return place_single(plan.columns, rows)
    return place_aligned(plan.columns, rows, compared)


def _fix_ids(reader: RowReader, first: Rows, ragged: bool) -> IdSet | None:
    """From here on every frame has the ids of the first, unless they change."""
    if ragged or first.ids is None:
        return None
    reader.idset = IdSet(first.ids[: int(first.offset[1])].copy())
    first.ids = None
    return reader.idset


def _system(
    reader: RowReader,
    first: Rows,
    placement: Placement,
    plan: Plan,
    facts: RunFacts,
    idset: IdSet | None,
    report: Report,
) -> tuple[Frame, Relations | None]:
    """Return the section `system`, and the relations that are in the trajectory instead, because atoms come and go."""
    relations, others = relations_of(facts)
    system = Frame(others)
    if placement.ragged and facts.atoms is not None and reader.has_ids:
        if not relations:
            return system, None
        report.converted(" ".join(relations), "restated in the trajectory wherever the ids change")
        return system, Relations(relations, facts.atoms.stored("id"))
    if idset is None:
        if facts.system is not None:
            names = ["atoms", *relations]
            report.dropped(
                f"{' '.join(names)} of the data file", "the dump has no column id, so its rows cannot be told apart"
            )
        if placement.system:
            system.blocks["atoms"] = Block(_columns(placement, first))
        return system, None
    settled = _columns(placement, first)
    stated = {column.name: _column(column, first.take(np.zeros(1, dtype=np.int64))) for column in plan.columns}
    report_differences(facts, idset.ids, stated, report)
    atoms = atoms_of(facts, idset.ids, plan.names(), report)
    columns = {"id": atoms.columns["id"], **settled, **{n: c for n, c in atoms.columns.items() if n != "id"}}
    system.blocks = {"atoms": Block(columns), **restricted(relations, facts, idset.ids, report), **others}
    return system, None


def _columns(placement: Placement, first: Rows) -> dict[str, Column]:
    return {column.name: _column(column, first) for column in placement.system}


def _column(column: Any, rows: Rows) -> Column:
    values, mask = column.make(rows)
    return Column(values, mask)


def _put_meta(system: Frame, plan: Plan, units: UnitsStyle | None) -> None:
    if units is not None:
        system.meta.put("units", units.record, "json")
    if plan.unwrapped:
        system.meta.put("coordinates", "unwrapped", "string")


def _times(dump: Dump, facts: RunFacts, by_order: bool, report: Report) -> NDArray[np.float64] | None:
    """Return times: TIME items, else those of the clock; all frames or none."""
    times, steps = dump.table.time.copy(), dump.table.step
    missing = np.isnan(times)
    if not missing.any():
        report.carried("TIME")
        return times
    if facts.clock is not None and not by_order:
        times[missing] = facts.clock.times(steps[missing])
        report.derived("trajectory/time", facts.clock.described)
        return times
    if not missing.all():
        stated = int((~missing).sum())
        report.dropped("TIME", f"{stated} of {len(times)} frames state a time; a run has one in every frame or in none")
    return None


def _per_step(
    dump: Dump, facts: RunFacts, by_order: bool, report: Report
) -> dict[str, tuple[MetaDeclaration, NDArray[Any]]]:
    """Return thermo output for the steps it has, and the file's own step numbers where frames are numbered anew."""
    if by_order:
        own = np.concatenate([index.table.step for index in dump.indexes])
        if facts.thermo is not None:
            report.warn(
                "frames are numbered by their order, so that thermo output is in metrics only, by its own steps"
            )
        if any(index.thermo is not None for index in dump.indexes):
            report.dropped("thermo", "frames are numbered by their order, not by the steps it belongs to")
        return {"source_step": (MetaDeclaration("i64"), own)}
    found = _stated_thermo(dump, report)
    if facts.thermo is None:
        return found
    rows = facts.thermo.rows_of(dump.table.step)
    there = rows >= 0
    if not there.any():
        report.warn("the log has thermo output of none of the steps of the dump: it is in metrics only")
        return found
    report.carried("thermo output", f"{' '.join(facts.thermo.columns)} for {int(there.sum())} of {len(rows)} frames")
    return found | {
        key: (MetaDeclaration("f64", math.nan), np.where(there, values[np.maximum(rows, 0)], math.nan))
        for key, values in facts.thermo.columns.items()
        if key not in found
    }


def _stated_thermo(dump: Dump, report: Report) -> dict[str, tuple[MetaDeclaration, NDArray[Any]]]:
    """Return the thermo output that stands in the frames of a YAML dump, as printed; it counts before that of a log."""
    steps = dump.table.step
    found: dict[str, NDArray[np.float64]] = {}
    for index in dump.indexes:
        thermo = index.thermo
        if thermo is None:
            continue
        rows = thermo.rows_of(steps)
        there = rows >= 0
        for key, values in thermo.columns.items():
            own = found.setdefault(key, np.full(len(steps), math.nan))
            own[there] = values[rows[there]]
    if found:
        report.carried("thermo", f"{' '.join(found)} of the dump's own frames")
    return {key: (MetaDeclaration("f64", math.nan), values) for key, values in found.items()}


def _close(dumps: Sequence[Dump]) -> None:
    for dump in dumps:
        for source in dump.table.sources:
            source.close()
