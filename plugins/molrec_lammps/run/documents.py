"""The documents of a run's record: `method` (engine, settings, commands as text) and `status` (how it ended).

Source: Results, "status", "method". Beyond the keys named there `method` has

| key | holds |
|---|---|
| `settings` | what the commands say, by name: `units`, `atom_style`, `timestep`, `pair_style`, ... |
| `commands` | the commands of the script as typed, continuations joined, without comment lines |
| `setup` | the commands beside the force field that the energies or the start of the run need, variables substituted |
| `setup_files` | sha256 of each file that these name |
| `skipped` | names of the commands whose effect is not read, only kept as text |
| `runs` | one entry per thermo table of the log: `command`, `first_step`, `last_step`, speed, what a minimiser said |
| `total_wall_time` | seconds of all launches of the logs, as they state them |
| `log_warnings` | texts of the log's WARNING lines and how often each came |
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Block, Column, Frame, Record
from molrec_convert.report import Report
from molrec_lammps.data.file import DataFile
from molrec_lammps.data.record import data_frame
from molrec_lammps.log.log import Log
from molrec_lammps.run.settings import Settings
from molrec_lammps.script.script import Command, RunSetup

__all__ = ["keep_state", "method_document", "status_document", "with_properties"]

_STATES = {"finished": "succeeded", "error": "failed", "unfinished": "running"}
#: Entries of `runs` kept: a `run ... every` makes thousands.
_RUNS_KEPT = 1000


def method_document(
    settings: Settings, commands: Sequence[Command], setup: RunSetup, logs: Sequence[Log], timestep: float | None
) -> dict[str, Any]:
    """Return the `method` of a run; `timestep` where there is one for the whole trajectory."""
    versions = [log.version for log in logs if log.version is not None]
    engine = {"name": "LAMMPS", **({"version": versions[-1]} if versions else {})}
    document: dict[str, Any] = {
        "type": "classical",
        "description": _description(settings),
        "engine": engine,
        "settings": _settings(settings, timestep),
        "commands": [command.text for command in commands],
    }
    if setup.commands:
        document["setup"] = list(setup.commands)
    if setup.files:
        document["setup_files"] = dict(setup.files)
    if settings.skipped:
        document["skipped"] = list(settings.skipped)
    runs = [_run(run) for log in logs for run in log.runs]
    if runs:
        document["runs"] = runs[:_RUNS_KEPT]
    seconds = [seconds for log in logs for seconds in log.wall_times]
    if seconds:
        document["total_wall_time"] = sum(seconds)
    warnings: dict[str, int] = {}
    for log in logs:
        for text, count in log.warnings.items():
            warnings[text] = warnings.get(text, 0) + count
    if warnings:
        document["log_warnings"] = warnings
    return document


def status_document(logs: Sequence[Log]) -> dict[str, Any] | None:
    """Return the `status` of a run as its last log shows it, None without a log."""
    if not logs:
        return None
    outcome = logs[-1].outcome
    document: dict[str, Any] = {"state": _STATES[outcome.state], "message": outcome.message}
    if outcome.state == "error":
        document["error"] = {"message": outcome.message}
    steps = [run.last_step for log in logs for run in log.runs if run.last_step is not None]
    if steps:
        document["global_step"] = steps[-1]
    return document


def normalized(settings: Settings) -> bool | None:
    """Return whether the log's extensive values are per atom: what `thermo_modify norm` says, else yes in units lj
    alone.

    None where the runs differ, or the units are not known.
    """
    if not settings.normalized:
        return None
    default = None if settings.units is None else settings.units == "lj"
    values = {default if value is None else value for value in settings.normalized}
    return values.pop() if len(values) == 1 else None


def _description(settings: Settings) -> str:
    kinds = [run.split()[0] for run in settings.runs]
    what = "LAMMPS run"
    if "run" in kinds:
        what = "molecular dynamics with LAMMPS" + (" after minimization" if "minimize" in kinds else "")
    elif "minimize" in kinds:
        what = "energy minimization with LAMMPS"
    elif "rerun" in kinds:
        what = "rerun of a trajectory with LAMMPS"
    details = []
    if "pair_style" in settings.kept:
        details.append(f"pair_style {settings.kept['pair_style']}")
    if settings.fixes:
        details.append(f"fix {', '.join(settings.fixes)}")
    if settings.units is not None:
        details.append(f"units {settings.units}")
    return f"{what}: {'; '.join(details)}" if details else what


def _settings(settings: Settings, timestep: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if settings.units is not None:
        found["units"] = settings.units
    if settings.atom_style is not None:
        found["atom_style"] = settings.atom_style
    if timestep is not None:
        found["timestep"] = timestep
    found.update(settings.kept)
    if settings.fixes:
        found["fixes"] = list(settings.fixes)
    if settings.runs:
        found["runs"] = settings.runs[:_RUNS_KEPT]
    per_atom = normalized(settings)
    if per_atom is not None:
        found["thermo_normalized"] = per_atom
    return found


def _run(run: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"command": run.kind}
    if run.first_step is not None:
        entry.update(first_step=run.first_step, last_step=run.last_step)
    if run.table.n_atoms is not None:
        entry["atoms"] = run.table.n_atoms
    entry["complete"] = run.table.complete
    if run.table.n_steps is not None:
        entry["steps"] = run.table.n_steps
    entry.update(run.performance)
    if run.minimization is not None:
        entry.update(run.minimization)
    return entry


_IMAGES = ("ix", "iy", "iz")
#: Columns that change while a run goes on. All others of a data file are what an atom is.
_MOMENTARY = frozenset(f"corner{corner}{axis}" for corner in "123" for axis in "xyz") | {
    *("x", "y", "z", "ix", "iy", "iz", "vx", "vy", "vz", "ervel", "velocity_comment"),
    *("omegax", "omegay", "omegaz", "angmomx", "angmomy", "angmomz", "quatw", "quati", "quatj", "quatk"),
    *("end1x", "end1y", "end2x", "end2y", "mux", "muy", "muz", "spx", "spy", "spz"),
    *("theta", "edpd_temp", "rho", "esph", "status", "eradius", "cs_re", "cs_im", "curvature"),
}
#: Columns that LAMMPS takes as zero where a data file does not state them: zeros say nothing.
_ZERO = {name for name in _MOMENTARY if name in _IMAGES or name.startswith(("v", "omega", "angmom", "ervel"))}
#: What the dump calls a column of a data file, where it has another name.
_ELSEWHERE = {"ix": "image_x", "iy": "image_y", "iz": "image_z"}
_BODIES = ("bodies", "body_integers", "body_numbers")


def with_properties(
    system: Frame, data: DataFile, boundary: Sequence[bool] | None, report: Report
) -> tuple[Frame, Frame]:
    """Return the system with the columns of the data file that say what an atom is; and the rest, which is of one
    moment.

    `boundary` says which axes are periodic, where the commands do.
    """
    state = data_frame(data, Report(), boundary=boundary)
    atoms = state.blocks["atoms"]
    lasting = {name: column for name, column in atoms.columns.items() if not _momentary(name)}
    own = system.blocks["atoms"]
    added = {name: column for name, column in lasting.items() if name not in own.columns}
    if added:
        report.carried(
            f"{' '.join(added)} of {Path(data.path).name}", "columns of the system, where the dump does not state them"
        )
        block = Block({**own.columns, **added}, count=own.count, targets=own.targets, attributes=own.attributes)
        system = replace(system, blocks={**system.blocks, "atoms": block})
    rest = {name: column for name, column in atoms.columns.items() if _momentary(name)}
    return system, Frame({**state.blocks, "atoms": Block(rest, count=atoms.count)}, box=state.box)


def keep_state(state: Frame, data: DataFile, record: Record, report: Report) -> None:
    """Make the data file's state the section `frame`, where the dump states no positions of the atoms.

    Where it does, report which of that state the trajectory states, and which is nowhere.
    """
    assert record.trajectory is not None
    blocks = record.trajectory.declaration.blocks.values()
    stated = {name for block in blocks for name in block.columns}
    atoms = None if record.system is None else record.system.blocks.get("atoms")
    settled = set() if atoms is None else set(atoms.columns)
    if not {"x", "y", "z"} <= stated | settled and "id" in settled and atoms is not None:
        rows = np.flatnonzero(np.isin(data.index.ids, atoms.stored("id")))
        if len(rows) == atoms.count:
            record.frame = _of_rows(state, rows, data, report)
            return
    _report_state(stated, state, data, record, report)


def _of_rows(state: Frame, rows: NDArray[np.int64], data: DataFile, report: Report) -> Frame:
    """Return the state of some atoms of the data file, in order of ids."""
    block = state.blocks["atoms"]
    columns = {
        name: Column(column.values[rows], None if column.validity is None else column.validity[rows])
        for name, column in block.columns.items()
    }
    blocks = {"atoms": Block(columns, count=len(rows))}
    others = [name for name in _BODIES if name in state.blocks]
    if len(rows) == block.count:
        blocks |= {name: state.blocks[name] for name in others}
    elif others:
        report.dropped(f"{' '.join(others)} of {Path(data.path).name}", "the dump holds a part of the atoms")
    report.carried(
        f"{' '.join(columns)} of {Path(data.path).name}", "in the section frame: the dump states no positions"
    )
    return Frame(blocks, box=state.box)


def _report_state(stated: Set[str], state: Frame, data: DataFile, record: Record, report: Report) -> None:
    unwrapped = record.system is not None and record.system.meta.get("coordinates") == "unwrapped"
    columns = state.blocks["atoms"].columns
    file = Path(data.path).name
    lost: list[str] = []
    still: list[str] = []
    for name, column in columns.items():
        if name in stated or _ELSEWHERE.get(name) in stated or (name in _IMAGES and unwrapped):
            continue
        (still if name in _ZERO and _is_zero(column) else lost).append(name)
    taken = [name for name in columns if name not in (*lost, *still)]
    if taken:
        report.converted(f"{' '.join(taken)} of {file}", "the trajectory has its own, which are taken")
    if still:
        report.converted(f"{' '.join(still)} of {file}", "zero for all atoms, as LAMMPS takes what is not stated")
    lost += [name for name in _BODIES if name in state.blocks]
    if lost:
        report.dropped(
            f"{' '.join(lost)} of {file}",
            "the state of one moment, which the dump does not state: the frames are the dump's; "
            f"mrec convert {shlex.quote(str(data.path))} {Path(data.path).stem}.mrec keeps it",
        )


def _momentary(name: str) -> bool:
    return name in _MOMENTARY or (name.startswith("cc") and name[2:].isdigit())


def _is_zero(column: Column) -> bool:
    """True if a column of numbers is zero in every row."""
    return column.values.dtype.kind in "if" and not np.any(column.values)
