"""The curves of a run: its thermo rows and how fast it was; and its clock, times by steps.

| key | holds | at step |
|---|---|---|
| `thermo/<key>` | a thermo column, named as in `trajectory/meta` | of the row |
| `performance/loop_time` | seconds a run took | the run's last |
| `performance/<unit>` | a rate LAMMPS prints (`ns/day`, `timesteps/s`, …), `cpu_use` in percent | the run's last |
| `temper/T<n>` | the number of the temperature that partition n of a `temper` run has | of the swap |

A log does not say when it was written, which a curve has to: its wall times are `UNSTATED`. Source: Results, "metrics".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Metrics, Series
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.report import Report
from molrec_lammps.log.log import Log
from molrec_lammps.log.tables import Thermo, replaced_rows

if TYPE_CHECKING:
    from molrec_lammps.log.log import Log, Run
    from molrec_lammps.script.script import Command

__all__ = ["UNSTATED", "Clock", "clock_of", "curve", "metrics_of", "report_unstated", "run_curves", "thermo_curves"]

#: The wall time of values whose source states none: the beginning of Unix time.
UNSTATED = "1970-01-01T00:00:00+00:00"
#: Rates whose unit is the same whatever their size (`katom-step/s` and `Matom-step/s` are not).
_RATES = ("ns/day", "hours/ns", "tau/day", "fs/day", "timesteps/s")


def curve(steps: NDArray[np.int64], values: NDArray[np.float64]) -> Series:
    """Return a curve of values (f64[n]) by ascending steps (i64[n]), its wall times not stated."""
    return Series(values.astype(np.float64, copy=False), _stamps(len(steps)), steps.astype(np.int64, copy=False))


@lru_cache(maxsize=4)
def _stamps(count: int) -> NDArray[Any]:
    """Return that many times that are not stated; many curves share them."""
    stamps = np.full(count, UNSTATED, dtype=DTYPES["string"].numpy)
    stamps.flags.writeable = False
    return stamps


def thermo_curves(thermo: Thermo | None) -> dict[str, Series]:
    """Return a curve for each thermo column, of the rows that print it."""
    curves = {}
    for key, values in () if thermo is None else thermo.columns.items():
        printed = thermo.printed.get(key) if thermo is not None else None
        assert thermo is not None
        own = slice(None) if printed is None else printed
        curves[f"thermo/{key}"] = curve(thermo.steps[own], values[own])
    return curves


def run_curves(logs: Sequence[Log]) -> dict[str, Series]:
    """Return the speed of the runs of all logs, by their last steps; of two runs that end at one step the later."""
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
    """Return all curves of a run's logs; what becomes of their rows is reported."""
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
    """Return a curve for each partition of a `temper` run; of two rows of one step the later counts."""
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


#: Commands behind which steps and time begin at zero.
_STARTING = frozenset({"clear", "create_box", "read_data", "read_restart"})


@dataclass(frozen=True)
class Piece:
    """Steps from `first` on: their time is `time` at the step `start`, and goes on by `timestep` a step."""

    timestep: float
    first: int = 0
    start: int = 0
    time: float = 0.0


@dataclass(frozen=True)
class Clock:
    """Times by step; each of the `pieces`, in order of their first steps, counts up to the first step of the next."""

    pieces: tuple[Piece, ...]

    @staticmethod
    def even(timestep: float) -> Clock:
        """Return the clock of a run that has one timestep and starts at step and time zero."""
        return Clock((Piece(timestep),))

    @property
    def timestep(self) -> float | None:
        """The timestep, None where there are several."""
        found = {piece.timestep for piece in self.pieces}
        return found.pop() if len(found) == 1 else None

    @property
    def described(self) -> str:
        """How times come about, in words."""
        piece, *others = self.pieces
        if not others and not piece.start and not piece.time:
            return f"step times the timestep {piece.timestep!r}"
        words = ", ".join(f"{value:g}" for value in dict.fromkeys(piece.timestep for piece in self.pieces))
        return f"as LAMMPS counts it by the log: timestep {words}, steps of a minimization take no time"

    def times(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the times (f64[n]) of steps (i64[n])."""
        firsts = [piece.first for piece in self.pieces]
        place = np.maximum(np.searchsorted(firsts, steps, side="right") - 1, 0)
        start = np.array([piece.start for piece in self.pieces], dtype=np.int64)[place]
        time = np.array([piece.time for piece in self.pieces], dtype=np.float64)[place]
        timestep = np.array([piece.timestep for piece in self.pieces], dtype=np.float64)[place]
        with np.errstate(over="ignore"):  # a damaged log may state any timestep
            found: NDArray[np.float64] = time + (steps - start) * timestep
        return found


def clock_of(logs: Sequence[Log], dump: str | None, default: float | None, before: Clock | None = None) -> Clock | None:
    """Return the clock of the frames of a dump (its ID; None: of all runs), None where the logs do not tell it.

    `default` is the timestep without a command, `before` the clock of a run whose restart file is read. The logs echo
    every command of the run.
    """
    walk = _Walk(dump, default, before)
    for log in logs:
        if log.stepless:
            return None
        done = 0
        for run in log.runs:
            if not walk.take_all(log.commands[done : run.before]) or not walk.ran(run):
                return None
            done = run.before
        if not walk.take_all(log.commands[done:]):
            return None
    pieces = list(_in_force(walk.pieces))
    return Clock(tuple(pieces)) if pieces else None


def _in_force(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield the pieces that no later one replaces, one for all that go on alike.

    A run that went back replaces what it repeats.
    """
    kept: list[Piece] = []
    for piece in reversed(pieces):
        if not kept or piece.first < kept[-1].first:
            kept.append(piece)
    before: Piece | None = None
    for piece in reversed(kept):
        origin = before or Piece(piece.timestep)
        reached = origin.time + (piece.start - origin.start) * origin.timestep
        goes_on = origin.timestep == piece.timestep and math.isclose(
            reached, piece.time, rel_tol=1e-12, abs_tol=1e-9 * abs(piece.timestep)
        )
        if goes_on and before is not None:
            continue
        before = replace(origin, first=piece.first) if goes_on else piece
        yield before


@dataclass
class _Walk:
    """Where step and time are, as LAMMPS counts them: `time` holds at the step `start`."""

    dump: str | None
    default: float | None
    before: Clock | None = None
    timestep: float | None = None
    step: int = 0
    start: int = 0
    time: float = 0.0
    writing: bool = False
    written: int | None = None
    restarted: bool = False
    pieces: list[Piece] = field(default_factory=list)
    all_pieces: list[Piece] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.timestep = self.default
        self.writing = self.dump is None

    def take_all(self, commands: Sequence[Command]) -> bool:
        """Take commands between two runs; False where one is not understood."""
        for command in commands:
            name, args = command.name, command.args
            try:
                if name == "timestep":
                    if command.fault:
                        return False
                    self.settle()
                    self.timestep = float(args[0])
                elif name == "reset_timestep":
                    self.reset(args)
                elif name in _STARTING and "add" not in args:
                    self.step, self.start, self.time = 0, 0, 0.0
                    self.restarted = name == "read_restart"
                elif name == "dump" and args[0] == self.dump:
                    self.writing, self.written = True, None
                elif name == "undump" and args[0] == self.dump:
                    self.writing = False
            except (IndexError, ValueError):
                return False
        return True

    def settle(self) -> None:
        """Add up the time since it was added up last."""
        if self.step != self.start and self.timestep is not None:
            self.time += (self.step - self.start) * self.timestep
        self.start = self.step

    def reset(self, words: Sequence[str]) -> None:
        """`reset_timestep N [time T]`."""
        self.step = int(words[0])
        self.settle()
        if "time" in words:
            self.time = float(words[words.index("time") + 1])

    def ran(self, run: Run) -> bool:
        """Take a run, or a minimization; False where its steps are not known."""
        first, last = run.first_step, run.last_step
        if first is None or last is None or self.timestep is None:
            return False
        if run.kind == "rerun":
            return True
        moved = run.kind != "minimize"
        if moved and self.step == first:
            self.start = self.step
        elif self.step != first:
            # steps of a restart file, or of a run that the log does not show
            self.step, self.start, self.time = first, 0, 0.0
            before = self.before or (Clock(tuple(_in_force(self.all_pieces))) if self.all_pieces else None)
            if before is not None and self.restarted:
                self.start, self.time = first, float(before.times(np.array([first]))[0])
        if self.writing:
            # a step that both runs have is written by the first of them
            again = self.written == first
            self.pieces.append(Piece(self.timestep, first + again, self.start, self.time))
            self.written = last
        self.all_pieces.append(Piece(self.timestep, first, self.start, self.time))
        self.step = last
        if moved:
            self.settle()
        return True
