"""The time LAMMPS' steps are at, worked out from the commands and runs that a whole log shows.

LAMMPS adds up the time at the end of a run and at every `timestep` and `reset_timestep`; steps of a minimization are
steps without a duration: the run behind it starts at the time in front of it. Source: the manual, "timestep",
"reset_timestep"; each rule tried on LAMMPS of 22 Jul 2025.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from molrec_lammps.log.log import Log, Run
    from molrec_lammps.script.script import Command

__all__ = ["Clock", "clock_of"]

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
