"""How fast a run was: what LAMMPS prints below a thermo table, and at the end of a launch.

    Loop time of 0.0191403 on 1 procs for 40 steps with 125 atoms
    Performance: 902807.921 tau/day, 2089.833 timesteps/s, 261.229 katom-step/s
    58.2% CPU use with 1 MPI tasks x 1 OpenMP threads
    Neighbor list builds = 3
    Total wall time: 0:00:00

Source: LAMMPS manual, "Screen and logfile output"; the forms of releases since 2012.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["performance_of", "wall_seconds"]

_LOOP = re.compile(
    r"^Loop time of (\S+) on (\d+) procs (?:\((\d+) MPI x (\d+) OpenMP\) )?for (\d+) steps with (\d+) atoms", re.M
)
_PERFORMANCE = re.compile(r"^Performance: (.*)$", re.M)
_RATE = re.compile(r"([0-9.eE+-]+) ([^\s,]+/[^\s,]+)")
_CPU = re.compile(r"^([0-9.]+)% CPU use with (\d+) MPI tasks x (\d+|no) OpenMP threads", re.M)
_BUILDS = re.compile(r"^(Neighbor list|Dangerous) builds = (\d+)", re.M)
_WALL = re.compile(r"\nTotal wall time: (\d+):(\d+):(\d+)")


def performance_of(text: str) -> dict[str, Any]:
    """What the text below a table says, by name; empty where the run did not end.

    `loop_time` (s), `processors`, `performance` (the rates as printed, by unit), `cpu_use` (%), `mpi_tasks`,
    `openmp_threads`, `neighbor_builds`, `dangerous_builds`.
    """
    loop = _LOOP.search(text)
    if loop is None:
        return {}
    following = _LOOP.search(text, loop.end())
    text = text[loop.start() : len(text) if following is None else following.start()]
    found: dict[str, Any] = {"loop_time": float(loop[1]), "processors": int(loop[2])}
    rates = _PERFORMANCE.search(text)
    if rates is not None:
        found["performance"] = {unit: float(value) for value, unit in _RATE.findall(rates[1])}
    cpu = _CPU.search(text)
    if cpu is not None:
        found.update(cpu_use=float(cpu[1]), mpi_tasks=int(cpu[2]))
        if cpu[3] != "no":
            found["openmp_threads"] = int(cpu[3])
    for kind, count in _BUILDS.findall(text):
        found["neighbor_builds" if kind == "Neighbor list" else "dangerous_builds"] = int(count)
    return found


def wall_seconds(text: str) -> list[int]:
    """Seconds of every `Total wall time` of a log."""
    return [int(h) * 3600 + int(m) * 60 + int(s) for h, m, s in _WALL.findall(text)]
