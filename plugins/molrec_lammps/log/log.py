"""Log files: thermo output by step, commands that ran, LAMMPS' version, performance, how the run ended.

Everything that is no table row is read line by line; the tables go through `log_tables`. A log that was appended to
holds several launches one after the other. Source: LAMMPS manual, "log", "thermo_style", "Screen and logfile output".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from molrec_lammps.common.commands import COMMANDS
from molrec_lammps.common.text import Buffer, load
from molrec_lammps.log.tables import Table, Thermo, find_tables, thermo_of
from molrec_lammps.script.script import Command, parse_line
from molrec_lammps.script.syntax import decode, split_at_variable, strip_comment

__all__ = [
    "Echo",
    "Log",
    "Outcome",
    "Run",
    "echo_everything",
    "echoed_commands",
    "performance_of",
    "read_log",
    "wall_seconds",
]

_TRIPLE = '"""'


@dataclass(frozen=True)
class Echo:
    """One echoed command, where in the log (byte) it stands, and its line as last echoed."""

    command: Command
    position: int
    line: str


def echoed_commands(lines: Iterable[tuple[int, int, str]], path: Path) -> list[Echo]:
    """Return the commands among the `lines` (byte position, line number, text) outside the thermo tables of a log."""
    found: list[Echo] = []
    printed: list[re.Pattern[str]] = []
    for position, number, text in _joined(lines):
        if printed and printed[0].fullmatch(text.strip()):
            printed.pop(0)
            continue
        words = text.split(None, 1)
        command = parse_line(text, path, number) if words and words[0] in COMMANDS else None
        if command is None or command.args[:2] == ("CPU", "="):
            continue
        if found and _substitutes(found[-1].line, text):
            typed = found[-1].command
            command = replace(command, text=typed.text, raw_args=typed.raw_args, line=typed.line)
            found[-1] = Echo(command, found[-1].position, text)
        else:
            found.append(Echo(command, position, text))
        printed = [_output_of(line) for line in command.args[0].split("\n")] if _prints(command) else []
    return [_judged(echo) for echo in found]


def _prints(command: Command) -> bool:
    return command.name == "print" and bool(command.args)


def _output_of(text: str) -> re.Pattern[str]:
    """Return what a line of a `print` looks like when it is printed: anything where its variables stand."""
    pattern = ""
    rest = text.strip()
    while (parts := split_at_variable(rest)) is not None:
        pattern += re.escape(parts[0]) + ".*"
        rest = parts[1]
    return re.compile(pattern + re.escape(rest))


def _joined(lines: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Yield echoed commands whole: one with an open triple quote goes on over the lines below."""
    pending: tuple[int, int, str] | None = None
    for position, number, text in lines:
        if pending is not None:
            pending = (pending[0], pending[1], f"{pending[2]}\n{text}")
        elif text.count(_TRIPLE) % 2 and text.split(None, 1)[0] in COMMANDS:
            pending = (position, number, text)
        else:
            yield position, number, text
            continue
        if pending[2].count(_TRIPLE) % 2 == 0:
            yield pending
            pending = None
    if pending is not None:
        yield pending


def _substitutes(typed: str, text: str) -> bool:
    """True if `text` is the line `typed` with its first `$` outside quotes replaced."""
    parts = split_at_variable(strip_comment(typed).strip())
    below = text.strip()
    return parts is not None and below.startswith(parts[0]) and below.endswith(parts[1])


def _judged(echo: Echo) -> Echo:
    """Return the echo, with a fault where a `$` is left that LAMMPS would have replaced."""
    if split_at_variable(strip_comment(echo.line)) is None:
        return echo
    return replace(echo, command=replace(echo.command, fault="the log does not show its variables substituted"))


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
    """Return what the text below a table says, by name; empty where the run did not end.

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
    """Return seconds of every `Total wall time` of a log."""
    return [int(h) * 3600 + int(m) * 60 + int(s) for h, m, s in _WALL.findall(text)]


State = Literal["finished", "error", "unfinished"]

_VERSION = re.compile(rb"LAMMPS \((.*)\)[ \t]*\r?$", re.MULTILINE)
_WALL_TIME = b"\nTotal wall time: "
_LOOP_TIME = b"\nLoop time of "
_STOPPING = re.compile(r"^  Stopping criterion = (.*)$", re.MULTILINE)
_ENERGIES = re.compile(r"^  Energy initial, next-to-last, final = *\n +(\S+) +(\S+) +(\S+)", re.MULTILINE)
_ITERATIONS = re.compile(r"^  Iterations, force evaluations = (\d+) (\d+)", re.MULTILINE)
_SOURCE = re.compile(r" *\((?:\.\./|src/|/)[^()]*:\d+\)$")
_SWAPS = re.compile(rb"Step(?: T\d+)+ *\r?$")
#: Different warnings kept; the counts of these go on.
_WARNINGS_KEPT = 100


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `"finished"`, `"error"`, or `"unfinished"` (killed, or still running), and in words."""

    state: State
    message: str


@dataclass(frozen=True)
class Run:
    """One thermo table: the kind of command behind it, its rows, what a minimiser said at its end, its speed.

    `before` is how many commands the log echoes before the table.
    """

    kind: str
    table: Table
    minimization: dict[str, Any] | None = None
    performance: dict[str, Any] = field(default_factory=dict)
    before: int = 0

    @property
    def first_step(self) -> int | None:
        """The first step of the table, None when it has no rows."""
        return int(self.table.steps[0]) if len(self.table.steps) else None

    @property
    def last_step(self) -> int | None:
        """The last step of the table."""
        return int(self.table.steps[-1]) if len(self.table.steps) else None


@dataclass(frozen=True)
class Log:
    """What a log says. `whole`: it begins with LAMMPS' launch and echoes on, so `commands` are all that ran while
    it was written.

    `warnings` counts each text of a WARNING line. `wall_times` are the seconds each launch states at its end;
    `stepless` counts the runs whose table has no column of steps, so that its rows belong to none. `swaps` are the rows
    of a `temper` command in the log of all partitions: a step, and the number of the temperature each of them has.
    """

    path: Path
    version: str | None
    whole: bool
    commands: tuple[Command, ...]
    runs: tuple[Run, ...]
    warnings: dict[str, int]
    outcome: Outcome
    wall_times: tuple[int, ...] = ()
    stepless: int = 0
    swaps: tuple[tuple[int, ...], ...] = ()

    @property
    def thermo(self) -> Thermo | None:
        """The thermo rows by step, None when the log has none."""
        return thermo_of([run.table for run in self.runs])


def read_log(path: Path) -> Log:
    """Read a log, plain or compressed, finished or not. Lines that are nothing known are passed over."""
    data = load(path)
    words = _step_words(data)
    tables = list(find_tables(data, words))
    echoes = echoed_commands(_outside(data, tables), path)
    versions = [decode(match[1]) for match in _line_matches(data, b"LAMMPS (", _VERSION)]
    return Log(
        path,
        versions[-1] if versions else None,
        data[:8] == b"LAMMPS (" and not any(_silences(echo.command) for echo in echoes),
        tuple(echo.command for echo in echoes),
        _runs(data, tables, echoes),
        _warnings(data),
        _outcome(data, tables),
        tuple(second for match in _all(data, _WALL_TIME) for second in wall_seconds(decode(data[match : match + 60]))),
        sum(1 for _ in _all(data, _LOOP_TIME)) - sum(table.complete for table in tables),
        tuple(_swaps(data)),
    )


def _swaps(data: Buffer) -> Iterator[tuple[int, ...]]:
    """Yield the rows below the headers `Step T0 T1 …`."""
    for header in _line_matches(data, b"Step T0", _SWAPS):
        position = data.find(header[0] + b"\n")
        for line in data[position + len(header[0]) + 1 :].split(b"\n"):
            words = line.split()
            if len(words) != len(header[0].split()) or not all(word.isdigit() for word in words):
                break
            yield tuple(map(int, words))


def echo_everything(logs: Sequence[Log]) -> bool:
    """True if the commands of the logs are all that ran: none was silenced, and none went on in a file not there."""
    names = {name for log in logs for name in (log.path.name, log.path.stem)}
    moved = (command for log in logs for command in log.commands if command.name == "log" and command.args)
    return bool(logs) and logs[0].whole and all(Path(command.args[0]).name in names for command in moved)


def _silences(command: Command) -> bool:
    return command.name == "echo" and command.args[:1] in (("none",), ("screen",))


def _all(data: Buffer, word: bytes) -> Iterator[int]:
    """Yield where `word` stands."""
    position = -1
    while (position := data.find(word, position + 1)) >= 0:
        yield position


def _step_words(data: Buffer) -> list[str]:
    """Return header words of the step: `Step`, and what `thermo_modify colname` made of it."""
    words = ["Step"]
    position = 0
    while (position := data.find(b"colname", position)) >= 0:
        start = data.rfind(b"\n", 0, position) + 1
        end = data.find(b"\n", position)
        position = len(data) if end < 0 else end
        line = decode(data[start:position]).split()
        if line and line[0] == "thermo_modify":
            for index, word in enumerate(line[:-2]):
                if word == "colname" and line[index + 1] in ("step", "Step", "1") and line[index + 2] not in words:
                    words.append(line[index + 2].strip("\"'"))
    return words


def _outside(data: Buffer, tables: Sequence[Table]) -> Iterator[tuple[int, int, str]]:
    """Yield lines outside the tables: byte position, line number, text."""
    number = 1
    start = 0
    for stop, resume in [*((table.start, table.end) for table in tables), (len(data), len(data))]:
        piece = data[start:stop]
        position = start
        for line in piece.split(b"\n"):
            if line.strip():
                yield position, number, decode(line).rstrip("\r")
            position += len(line) + 1
            number += 1
        number += data[stop:resume].count(b"\n") - 1
        start = resume


def _runs(data: Buffer, tables: Sequence[Table], echoes: Sequence[Echo]) -> tuple[Run, ...]:
    """Return the tables with the command that made each: the last echoed before it that runs anything."""
    running = ("run", "minimize", "rerun", "temper", "neb", "prd", "tad", "hyper", "dynamical_matrix")
    makers = [(echo.position, echo.command.name) for echo in echoes if echo.command.name in running]
    positions = [position for position, _ in makers]
    places = [echo.position for echo in echoes]
    runs = []
    for index, table in enumerate(tables):
        following = tables[index + 1].start if index + 1 < len(tables) else len(data)
        below = decode(data[table.end : min(following, table.end + 4000)])
        minimization = _minimization(below)
        before = bisect_right(positions, table.start) - 1
        kind = makers[before][1] if before >= 0 else "run"
        speed = performance_of(below) if table.complete else {}
        echoed = bisect_right(places, table.start)
        runs.append(Run("minimize" if minimization else kind, table, minimization, speed, echoed))
    return tuple(runs)


def _minimization(text: str) -> dict[str, Any] | None:
    stopping = _STOPPING.search(text)
    if stopping is None:
        return None
    found: dict[str, Any] = {"stopping_criterion": stopping[1].strip()}
    energies = _ENERGIES.search(text)
    if energies is not None:
        initial, _, final = (float(word) for word in energies.groups())
        if np.isfinite([initial, final]).all():
            found.update(energy_initial=initial, energy_final=final)
    iterations = _ITERATIONS.search(text)
    if iterations is not None:
        found.update(iterations=int(iterations[1]), force_evaluations=int(iterations[2]))
    return found


def _warnings(data: Buffer) -> dict[str, int]:
    counts: dict[str, int] = {}
    for match in _line_matches(data, b"WARNING", re.compile(rb"WARNING[^:\n]*: *(.*)$", re.MULTILINE)):
        text = _SOURCE.sub("", decode(match[1]).strip())
        if text in counts or len(counts) < _WARNINGS_KEPT:
            counts[text] = counts.get(text, 0) + 1
    return counts


def _outcome(data: Buffer, tables: Sequence[Table]) -> Outcome:
    """Return how the last launch ended: what stands nearest to the end of the log decides."""
    launch = 0 if data[:8] == b"LAMMPS (" else -1
    launch = max(launch, data.rfind(b"\nLAMMPS ("))
    loop = max(data.rfind(_LOOP_TIME), launch)
    error = data.rfind(b"\nERROR")
    if error > loop:
        return Outcome("error", _error_text(data, error + 1))
    if data.rfind(_WALL_TIME) > launch:
        return Outcome("finished", "the run ended normally")
    if tables and not tables[-1].complete and tables[-1].start > launch:
        last = f" at step {int(tables[-1].steps[-1])}" if len(tables[-1].steps) else ""
        return Outcome("unfinished", f"the log breaks off within a run{last}")
    return Outcome("unfinished", "the log has no closing line 'Total wall time'")


def _error_text(data: Buffer, start: int) -> str:
    """Return the message of an ERROR line, the lines LAMMPS adds to it joined, its place in LAMMPS' own code left
    off.
    """
    parts = []
    for line in decode(data[start : start + 2000]).split("\n"):
        bare = line.strip()
        if not bare or bare.startswith("Total wall time") or set(bare) == {"^"}:
            break
        parts.append(re.sub(r"^ERROR(?: on proc \d+)?: *", "", _SOURCE.sub("", bare)))
        if bare.startswith("Last input line") or len(parts) == 4:
            break
    return "; ".join(parts)


def _line_matches(data: Buffer, word: bytes, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """Yield matches of `pattern` on the lines that begin with `word`."""
    position = 0
    while (position := data.find(word, position)) >= 0:
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        if position == 0 or data[position - 1 : position] == b"\n":
            match = pattern.match(data[position:end])
            if match is not None:
                yield match
        position = end
