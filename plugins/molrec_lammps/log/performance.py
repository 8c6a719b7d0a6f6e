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

#: Numbers as LAMMPS prints them; what is longer is damage, and no line of this kind.
_COUNT, _REAL = r"(\d{1,18})", r"(\d{1,18}(?:\.\d{0,18})?(?:e[+-]\d\d)?)"
_LOOP = re.compile(
    rf"^Loop time of {_REAL} on {_COUNT} procs (?:\({_COUNT} MPI x {_COUNT} OpenMP\) )?"
    rf"for {_COUNT} steps with {_COUNT} atoms",
    re.M,
)
_PERFORMANCE = re.compile(r"^Performance: (.*)$", re.M)
_RATE = re.compile(rf"(?<!\S){_REAL} ([^\s,]+/[^\s,]+)")
_CPU = re.compile(rf"^{_REAL}% CPU use with {_COUNT} MPI tasks x {_COUNT[:-1]}|no) OpenMP threads", re.M)
_BUILDS = re.compile(rf"^(Neighbor list|Dangerous) builds = {_COUNT}", re.M)
_WALL = re.compile(rf"\nTotal wall time: {_COUNT}:{_COUNT}:{_COUNT}")


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
