"""The curves of a run: every thermo row its logs have, and how fast each of its runs was.

| key | holds | at step |
|---|---|---|
| `thermo/<key>` | a thermo column, named as in `trajectory/meta` | of the row |
| `performance/loop_time` | seconds a run took | the run's last |
| `performance/<unit>` | a rate LAMMPS prints (`ns/day`, `timesteps/s`, …), `cpu_use` in percent | the run's last |
| `temper/T<n>` | the number of the temperature that partition n of a `temper` run has | of the swap |

A log does not say when it was written, which a curve has to: its wall times are `UNSTATED`. Source: Results, "metrics".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Metrics, Series
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.report import Report
from molrec_lammps.log.log import Log
from molrec_lammps.log.thermo import Thermo
from molrec_lammps.log.thermo_table import replaced_rows

__all__ = ["UNSTATED", "curve", "metrics_of", "report_unstated", "run_curves", "thermo_curves"]

#: The wall time of values whose source states none: the beginning of Unix time.
UNSTATED = "1970-01-01T00:00:00+00:00"
#: Rates whose unit is the same whatever their size (`katom-step/s` and `Matom-step/s` are not).
_RATES = ("ns/day", "hours/ns", "tau/day", "fs/day", "timesteps/s")


def curve(steps: NDArray[np.int64], values: NDArray[np.float64]) -> Series:
    """A curve of values (f64[n]) by ascending steps (i64[n]), its wall times not stated."""
    return Series(values.astype(np.float64, copy=False), _stamps(len(steps)), steps.astype(np.int64, copy=False))


@lru_cache(maxsize=4)
def _stamps(count: int) -> NDArray[Any]:
    """That many times that are not stated; many curves share them."""
    stamps = np.full(count, UNSTATED, dtype=DTYPES["string"].numpy)
    stamps.flags.writeable = False
    return stamps


def thermo_curves(thermo: Thermo | None) -> dict[str, Series]:
    """A curve for each thermo column, of the rows that print it."""
    curves = {}
    for key, values in () if thermo is None else thermo.columns.items():
        printed = thermo.printed.get(key) if thermo is not None else None
        assert thermo is not None
        own = slice(None) if printed is None else printed
        curves[f"thermo/{key}"] = curve(thermo.steps[own], values[own])
    return curves


def run_curves(logs: Sequence[Log]) -> dict[str, Series]:
    """The speed of the runs of all logs, by their last steps; of two runs that end at one step the later."""
    found: dict[str, dict[int, float]] = {}
    for run in (run for log in logs for run in log.runs):
        if run.last_step is None or not run.performance:
            continue
        rates: Mapping[str, float] = run.performance.get("performance", {})
        values = {name: rates[name] for name in _RATES if name in rates}
        values |= {name: run.performance[name] for name in ("loop_time", "cpu_use") if name in run.performance}
        for name, value in values.items():
            found.setdefault(f"performance/{name}", {})[run.last_step] = value
    return {
        key: curve(np.array(sorted(rows), dtype=np.int64), np.array([rows[step] for step in sorted(rows)]))
        for key, rows in found.items()
    }


def metrics_of(logs: Sequence[Log], thermo: Thermo | None, report: Report) -> dict[str, Series]:
    """All curves of a run's logs; what becomes of their rows is reported."""
    if thermo is not None:
        count = len(thermo.steps)
        report.carried("thermo output", f"{count} row{'s' * (count != 1)}, in metrics as thermo/<key> by step")
        gone, seams = replaced_rows([run.table for log in logs for run in log.runs])
        if gone:
            report.dropped(
                f"{gone} rows of thermo output", "steps went back (restart, reset_timestep): the later run counts"
            )
        if seams:
            report.converted(
                f"{seams} rows of thermo output", "the last step of a run is the next one's first: it counts"
            )
    stepless = sum(log.stepless for log in logs)
    if stepless:
        report.dropped(f"thermo output of {stepless} runs", "it has no column of steps, so its rows belong to none")
    texts = {text for log in logs for text in log.warnings}
    if texts:
        report.carried("warnings of the log", f"{len(texts)} different, in method.log_warnings")
    return {**thermo_curves(thermo), **run_curves(logs), **_swap_curves(logs, report)}


def _swap_curves(logs: Sequence[Log], report: Report) -> dict[str, Series]:
    """A curve for each partition of a `temper` run; of two rows of one step the later counts."""
    rows = {swap[0]: swap[1:] for log in logs for swap in log.swaps}
    width = min((len(row) for row in rows.values()), default=0)
    if not rows:
        return {}
    report.carried("temperatures of replicas", f"{len(rows)} rows, in metrics as temper/T<n> by step")
    steps = sorted(rows)
    table = np.array([rows[step][:width] for step in steps], dtype=np.float64)
    return {f"temper/T{n}": curve(np.array(steps, dtype=np.int64), table[:, n].copy()) for n in range(width)}


def report_unstated(metrics: Metrics | None, report: Report) -> None:
    """Say what stands in for the wall times of curves."""
    if metrics is not None and len(metrics):
        report.converted("wall times of metrics", f"{UNSTATED}: the files do not state when a value was taken")
