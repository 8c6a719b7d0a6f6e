"""The settings of a run from its script and its logs together: which counts, and where they contradict each other."""

from __future__ import annotations

from collections.abc import Sequence

from molrec_convert.report import Report
from molrec_lammps.log.log import Log, echo_everything
from molrec_lammps.run.commands import settings_of
from molrec_lammps.run.settings import Settings
from molrec_lammps.script.script import Script

__all__ = ["merged_settings"]


def merged_settings(script: Script | None, logs: Sequence[Log], report: Report) -> Settings | None:
    """What the commands say: those a whole log echoes, else the script's; the other fills in what these leave open."""
    typed = None if script is None else settings_of(script.commands, complete=not script.missing)
    executed = [command for log in logs for command in log.commands]
    ran = settings_of(executed, complete=echo_everything(logs), executed=True) if executed else None
    if typed is None or ran is None:
        settings = typed or ran
    else:
        base, other = (ran, typed) if ran.complete else (typed, ran)
        _disagreements(typed, ran, base is ran, report)
        settings = base.supplemented(other)
    if settings is not None and settings.complete and (settings.data or settings.created):
        if settings.units is None:
            settings.units = "lj"
            report.derived("units", "lj: the commands state none, and LAMMPS takes these")
        settings.atom_style = settings.atom_style or "atomic"
    for command in settings.faults if settings is not None else ():
        if command.name in ("units", "atom_style", "timestep", "dump", "read_data", "mass"):
            report.warn(
                f"{command.where}: {command.text!r} is not taken into account: {command.fault or 'not understood'}"
            )
    return settings


def _disagreements(typed: Settings, ran: Settings, log_counts: bool, report: Report) -> None:
    taken = "the log counts" if log_counts else "the script counts"
    for what, mine, theirs in (
        ("units", typed.units, ran.units),
        ("atom_style", typed.atom_style, ran.atom_style),
        ("read_data", typed.data[0][0] if typed.data else None, ran.data[0][0] if ran.data else None),
    ):
        if mine is not None and theirs is not None and mine != theirs:
            report.warn(f"the script says {what} {mine}, the log {what} {theirs}; {taken}")
    mine_steps, their_steps = typed.timesteps - {None}, ran.timesteps - {None}
    if mine_steps and their_steps and not typed.time_fault and not their_steps <= mine_steps:
        report.warn(f"the script says timestep {_listed(mine_steps)}, the log timestep {_listed(their_steps)}; {taken}")


def _listed(values: set[float | None]) -> str:
    return ", ".join(f"{value:g}" for value in sorted(value for value in values if value is not None))
