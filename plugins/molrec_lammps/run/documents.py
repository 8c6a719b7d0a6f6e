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

from collections.abc import Sequence
from typing import Any

from molrec_lammps.log.log import Log
from molrec_lammps.run.settings import Settings
from molrec_lammps.script.script import Command
from molrec_lammps.script.setup import RunSetup

__all__ = ["method_document", "status_document"]

_STATES = {"finished": "succeeded", "error": "failed", "unfinished": "running"}
#: Entries of `runs` kept: a `run ... every` makes thousands.
_RUNS_KEPT = 1000


def method_document(
    settings: Settings, commands: Sequence[Command], setup: RunSetup, logs: Sequence[Log], timestep: float | None
) -> dict[str, Any]:
    """The `method` of a run; `timestep` where there is one for the whole trajectory."""
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
    """The `status` of a run as its last log shows it, None without a log."""
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
    """Whether the log's extensive values are per atom: what `thermo_modify norm` says, else yes in units lj alone.

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
