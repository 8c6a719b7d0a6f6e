"""Files of `fix ave/time`: averages by step, of single values (mode scalar) or of columns of rows (mode vector).

    # Time-averaged data for fix a1          the titles; `title1` to `title3` of the command may be any lines
    # TimeStep c_t v_f                       mode vector: `# TimeStep Number-of-rows` and `# Row c_r[1] c_r[2]`
    10 0.960749 16                           mode vector: `10 5`, then five lines `1 0.2 0`

Files of `fix ave/chunk`, `ave/histo` and `ave/correlate` are like those of mode vector, with numbers of the whole
output behind the number of rows (`10 5 81`); those of `ave/correlate/long` have `# Timestep: 10` above the rows of one.

A file that ends in `.yaml` has `keywords: ['Step', 'c_t', ]`, `data:` and `  - [10, 0.96, ]`; in mode vector `  10:`
stands above the rows of a step. Source: LAMMPS manual, "fix ave/time" and its kin; files of the 22 Jul 2025 release.

In a record averages of single values are curves, columns of rows are observables:

| mode | record |
|---|---|
| scalar | metrics `ave_time/<fix>/<column>`, by step |
| vector | observables `<fix>.<column>`, f64[outputs, rows], and `<fix>.step`, i64[outputs] |
| vector, rows that change | `<fix>.<column>`, f64[all rows], and `<fix>.rows`, i64[outputs], how many each output has |
| chunk, histo, correlate | as vector; what an output has as a whole (`Total-count`) as `<fix>.<name>`, f64[outputs] |

`<fix>` is the ID of the fix; where neither the file nor a script tells it, the name of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Metrics, Observable, Observables, Record, Series
from molrec_convert.model.names import escape_name, name_fault
from molrec_convert.report import Report
from molrec_convert.text.rows import Field, RowFault, read_rows
from molrec_lammps.common.text import load
from molrec_lammps.log.metrics import curve, report_unstated
from molrec_lammps.script.script import Command
from molrec_lammps.script.syntax import decode

__all__ = [
    "AveCommand",
    "AveTime",
    "Averages",
    "ave_commands",
    "averages_of",
    "join_outputs",
    "numbers",
    "parse_ave_time",
    "read_ave_time",
    "read_ave_time_file",
]


def numbers(text: bytes) -> NDArray[np.float64] | None:
    """Return all numbers of `text` as f64[n], correctly rounded; None when anything else stands between them."""
    try:
        values: NDArray[np.float64] = read_rows(b"\n".join(text.split()), None, [Field("real")]).columns[0]
    except RowFault:
        return None
    return values


#: What the first title line calls the averages of each style.
_STYLES = {
    "Time-averaged": "ave/time",
    "Chunk-averaged": "ave/chunk",
    "Histogrammed": "ave/histo",
    "Time-correlated": "ave/correlate",
}
_TITLE = re.compile(rf"# ({'|'.join(_STYLES)}) data for fix (\S+)(?: and group \S+)?\s*$")
#: First words of the title line that names the columns of rows.
_ROWS = ("Row", "Chunk", "Bin", "Index")
_LONG_STEP = re.compile(rb"# Timestep: (-?\d+)\s*$")
_NUMBER = rb"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI][nN][fF])"
_NUMERIC = re.compile(rb"\s*" + _NUMBER + rb"(?:\s+" + _NUMBER + rb")*\s*$")
_KEYWORDS = re.compile(rb"^keywords: \[(.*)\]\s*$")
_YAML_STEP = re.compile(rb"^  (-?\d+):\s*$")
_YAML_ROW = re.compile(rb"^  - \[(.*?),? *\]\s*$")

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class AveTime:
    """The outputs of one file, in its order.

    `steps` i64[n], `rows` i64[n] the number of rows of each output (1 in mode scalar), `values` f64[rows, columns].
    `fix` is the fix named in the title, None where the title says nothing of it. `names` are empty where no title line
    names as many columns as there are. `whole` f64[n] are the numbers of each output as a whole, by name (how many
    counts a histogram has). `style` is that of the fix, by the title.
    `truncated` says where the file breaks off.
    """

    path: Path
    fix: str | None
    names: tuple[str, ...]
    vector: bool
    steps: Integers
    rows: Integers
    values: Floats
    truncated: str | None = None
    whole: Mapping[str, Floats] = field(default_factory=dict)
    style: str = "ave/time"

    @property
    def offset(self) -> Integers:
        """Where the rows of each output begin: i64[n + 1]."""
        return np.concatenate([[0], np.cumsum(self.rows)]).astype(np.int64)

    def latest(self) -> AveTime:
        """Return one output a step, the later of two, by ascending steps."""
        _, back = np.unique(self.steps[::-1], return_index=True)
        keep = len(self.steps) - 1 - back
        if np.array_equal(keep, np.arange(len(self.steps))):
            return self
        offset = self.offset
        places = [np.arange(offset[i], offset[i + 1]) for i in keep.tolist()]
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *places])
        whole = {name: values[keep] for name, values in self.whole.items()}
        return replace(self, steps=self.steps[keep], rows=self.rows[keep], values=self.values[rows], whole=whole)


def read_ave_time_file(path: Path, vector: bool | None = None) -> AveTime:
    """Read a file; `vector` says which mode it was written in, where that is known. FormatError names the line."""
    return parse_ave_time(bytes(load(path)), path, vector)


def parse_ave_time(text: bytes, path: Path, vector: bool | None = None) -> AveTime:
    """Return the outputs a text holds. A line or an output that is cut off at the end is left out."""
    lines = text.split(b"\n")
    torn = lines.pop() if lines else b""
    broken = f"{path}, line {len(lines) + 1}: the file ends inside a line, which is left out" if torn.strip() else None
    titles, fix, style = _titles(lines)
    return replace(_parsed(lines, path, vector, titles, fix, broken), style=style)


def _parsed(
    lines: Sequence[bytes],
    path: Path,
    vector: bool | None,
    titles: Sequence[str],
    fix: str | None,
    broken: str | None,
) -> AveTime:
    if any(_KEYWORDS.match(line) for line in lines[: len(titles) + 3]):
        return _from_yaml(lines, path, fix, broken)
    if any(_LONG_STEP.match(line) for line in lines):
        return _long(lines, path, fix, titles, broken)
    data = [(number, line) for number, line in enumerate(lines, 1) if number > len(titles) and _is_data(line)]
    width = len(data[0][1].split()) if data else 0
    if vector is None:
        vector = any("Number-of-" in title for title in titles) or _looks_like_rows(data)
    for number, line in data:
        if not _NUMERIC.match(line):
            raise FormatError(path, f"line {number}", found=_shown(line), expected="numbers of an average")
    if not vector:
        return _scalars(data, width, path, fix, titles, broken)
    return _vectors(data, path, fix, titles, broken)


def join_outputs(parts: Sequence[AveTime]) -> AveTime:
    """Return outputs of one fix in several files, file after file."""
    first = parts[0]
    for part in parts[1:]:
        if (part.vector, part.values.shape[1], [*part.whole]) != (first.vector, first.values.shape[1], [*first.whole]):
            raise UsageError(f"{first.path} and {part.path} are of one fix, {first.fix!r}, and hold other columns")
    return replace(
        first,
        steps=np.concatenate([part.steps for part in parts]),
        rows=np.concatenate([part.rows for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        whole={name: np.concatenate([part.whole[name] for part in parts]) for name in first.whole},
    )


def _titles(lines: Sequence[bytes]) -> tuple[list[str], str | None, str]:
    """Return the lines before the first numbers, three at most unless comments; the fix they name, and its style."""
    titles: list[str] = []
    for line in lines:
        if _NUMERIC.match(line) or line.strip() == b"---" or (len(titles) >= 3 and not line.startswith(b"#")):
            break
        titles.append(decode(line).rstrip())
    match = next((match for title in titles if (match := _TITLE.match(title))), None)
    return titles, None if match is None else match[2], "ave/time" if match is None else _STYLES[match[1]]


def _is_data(line: bytes) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(b"#")


def _looks_like_rows(data: Sequence[tuple[int, bytes]]) -> bool:
    """True if the first line counts the lines below it, which are numbered from 1."""
    words = data[0][1].split() if data else []
    if len(words) != 2 or not words[1].isdigit() or not 0 < int(words[1]) < len(data):
        return False
    numbered = [line.split() for _, line in data[1 : int(words[1]) + 1]]
    return all(len(row) > 1 and row[0] == b"%d" % number for number, row in enumerate(numbered, 1))


def _scalars(
    data: Sequence[tuple[int, bytes]],
    width: int,
    path: Path,
    fix: str | None,
    titles: Sequence[str],
    broken: str | None,
) -> AveTime:
    for number, line in data:
        if len(line.split()) != width or width < 2:
            raise FormatError(
                path, f"line {number}", found=_shown(line), expected=f"a step and {max(1, width - 1)} values"
            )
    table = _floats([line for _, line in data]).reshape(len(data), max(width, 2))
    steps = _steps([(number, line.split()[0]) for number, line in data], path)
    names = _named(titles, "TimeStep", width - 1) if data else ()
    return AveTime(path, fix, names, False, steps, np.ones(len(data), dtype=np.int64), table[:, 1:], broken)


def _vectors(
    data: Sequence[tuple[int, bytes]], path: Path, fix: str | None, titles: Sequence[str], broken: str | None
) -> AveTime:
    steps: list[tuple[int, bytes]] = []
    rows: list[int] = []
    kept: list[bytes] = []
    whole: list[bytes] = []
    width = place = 0
    wanted = len(data[0][1].split()) if data else 2
    while place < len(data):
        number, line = data[place]
        words = line.split()
        if len(words) != wanted or wanted < 2 or not words[1].isdigit():
            raise FormatError(path, f"line {number}", found=_shown(line), expected="a step and a number of rows")
        count = int(words[1])
        block = data[place + 1 : place + 1 + count]
        for row, (at, below) in enumerate(block, 1):
            own = below.split()
            width = width or len(own)
            if len(own) != width or own[0] != b"%d" % row:
                raise FormatError(
                    path, f"line {at}", found=_shown(below), expected=f"row {row} of {count}, {width} numbers"
                )
        if len(block) < count:
            broken = f"{path}, line {number}: the file ends after {len(block)} of {count} rows; they are left out"
            break
        steps.append((number, words[0]))
        rows.append(count)
        kept += [below for _, below in block]
        whole.append(b" ".join(words[2:]))
        place += 1 + count
    table = _floats(kept).reshape(len(kept), max(width, 1))
    names = next((found for word in _ROWS if (found := _named(titles, word, width - 1))), ()) if kept else ()
    counts = np.array(rows, dtype=np.int64)
    totals = _whole(whole, wanted - 2, titles)
    return AveTime(path, fix, names, True, _steps(steps, path), counts, table[:, 1:], broken, totals)


def _whole(lines: Sequence[bytes], count: int, titles: Sequence[str]) -> dict[str, Floats]:
    """Return what stands behind the number of rows of each output, `count` numbers, as the titles name it."""
    table = _floats(lines).reshape(len(lines), count) if count else np.zeros((len(lines), 0))
    names = next((found for word in ("Timestep", "TimeStep") if (found := _named(titles, word, count + 1))), ())
    names = names[1:] or tuple(f"total_{number}" for number in range(1, count + 1))
    return {name: table[:, number].copy() for number, name in enumerate(names)}


def _long(lines: Sequence[bytes], path: Path, fix: str | None, titles: Sequence[str], broken: str | None) -> AveTime:
    """Return a file of `fix ave/correlate/long`: outputs of any number of rows, the time first."""
    steps: list[tuple[int, bytes]] = []
    counts: list[int] = []
    kept: list[bytes] = []
    for number, line in enumerate(lines, 1):
        if (step := _LONG_STEP.match(line)) is not None:
            steps.append((number, step[1]))
            counts.append(0)
        elif steps and _is_data(line):
            if not _NUMERIC.match(line) or len(line.split()) != len((kept or [line])[0].split()):
                raise FormatError(path, f"line {number}", found=_shown(line), expected="a time and correlations at it")
            kept.append(line)
            counts[-1] += 1
    width = len(kept[0].split()) if kept else 1
    table = _floats(kept).reshape(len(kept), width)
    names = ("Time", *_named(titles, "Time", width - 1))
    names = names if len(names) == width else ()
    return AveTime(path, fix, names, True, _steps(steps, path), np.array(counts, dtype=np.int64), table, broken)


def _from_yaml(lines: Sequence[bytes], path: Path, fix: str | None, broken: str | None) -> AveTime:
    names: tuple[str, ...] = ()
    steps: list[tuple[int, bytes]] = []
    counts: list[int] = []
    kept: list[bytes] = []
    for number, line in enumerate(lines, 1):
        if (keywords := _KEYWORDS.match(line)) is not None:
            words = tuple(decode(word) for word in re.findall(rb"'([^']*)'", keywords[1]))
            if names and words != names:
                raise FormatError(path, f"line {number}", found=_shown(line), expected=f"the columns {' '.join(names)}")
            names = words
        elif (step := _YAML_STEP.match(line)) is not None:
            steps.append((number, step[1]))
            counts.append(0)
        elif (row := _YAML_ROW.match(line)) is not None:
            bare = row[1].replace(b",", b" ")
            if not _NUMERIC.match(bare) or len(bare.split()) != len(names):
                raise FormatError(path, f"line {number}", found=_shown(line), expected=f"{len(names)} numbers")
            kept.append(bare)
            if counts:
                counts[-1] += 1
            else:
                steps.append((number, bare.split()[0]))
        elif names and line.strip() not in (b"", b"---", b"...", b"data:") and not line.startswith(b"#"):
            raise FormatError(path, f"line {number}", found=_shown(line), expected="a row '  - [...]'")
    table = _floats(kept).reshape(len(kept), len(names))
    if counts:
        if broken is not None:
            # which rows a step has is not said beforehand: the last may lack some
            kept_rows = sum(counts[:-1])
            table, steps, counts = table[:kept_rows], steps[:-1], counts[:-1]
            broken = broken.replace("inside a line, which is", "inside an output, which is")
        return AveTime(path, fix, names, True, _steps(steps, path), np.array(counts, dtype=np.int64), table, broken)
    scalar = names[:1] == ("Step",)
    if not scalar and kept:
        raise FormatError(path, "keywords", found=f"{names[0]!r} as the first column", expected="'Step'")
    ones = np.ones(len(kept), dtype=np.int64)
    return AveTime(path, fix, names[1:], False, _steps(steps, path), ones, table[:, 1:], broken)


def _named(titles: Sequence[str], first: str, count: int) -> tuple[str, ...]:
    """Return the columns that a title line names behind `# TimeStep` or `# Row`; none where none names as many."""
    for title in titles:
        words = title.lstrip("#").split()
        if words[:1] == [first] and len(words) == count + 1:
            return tuple(words[1:])
    return ()


def _floats(lines: Sequence[bytes]) -> Floats:
    text = b"\n".join(lines)
    values = numbers(text)
    return np.array([float(word) for word in text.split()]) if values is None else values


def _steps(words: Sequence[tuple[int, bytes]], path: Path) -> Integers:
    for number, word in words:
        if not word.removeprefix(b"-").isdigit() or not -(2**63) <= int(word) < 2**63:
            raise FormatError(path, f"line {number}", found=_shown(word), expected="a step number")
    return np.array([int(word) for _, word in words], dtype=np.int64)


def _shown(line: bytes) -> str:
    return repr(decode(line).strip()[:60])


#: Styles whose files hold rows, whatever their keywords say.
_OF_ROWS = frozenset({"ave/chunk", "ave/histo", "ave/histo/weight", "ave/correlate", "ave/correlate/long"})
#: Keywords of `fix ave/time` and how many words follow each. Source: LAMMPS manual, "fix ave/time".
_COMMAND_KEYWORDS = {
    "mode": 1,
    "file": 1,
    "append": 1,
    "ave": 1,
    "start": 1,
    "off": 1,
    "overwrite": 0,
    "format": 1,
    "title1": 1,
    "title2": 1,
    "title3": 1,
}


@dataclass(frozen=True)
class AveCommand:
    """One command: the fix, its style, the file as given, the values that are averaged, if they are columns of rows."""

    id: str
    style: str
    file: str
    values: tuple[str, ...]
    vector: bool
    text: str


def ave_commands(commands: Iterable[Command]) -> list[AveCommand]:
    """Return the commands that write a file, in order; those that cannot be evaluated are left out."""
    found = []
    for command in commands:
        if command.name == "fix" and len(command.args) > 6 and not command.fault:
            style = command.args[2]
            entry = _command_of(command) if style == "ave/time" else _of_rows(command) if style in _OF_ROWS else None
            if entry is not None:
                found.append(entry)
    return found


def _command_of(command: Command) -> AveCommand | None:
    values: list[str] = []
    file: str | None = None
    vector = False
    words = list(command.args[6:])
    while words:
        word = words.pop(0)
        if word not in _COMMAND_KEYWORDS:
            values.append(word)
            continue
        argument = words[: _COMMAND_KEYWORDS[word]]
        del words[: _COMMAND_KEYWORDS[word]]
        if word == "ave" and argument == ["window"]:
            del words[:1]
        elif word in ("file", "append") and argument:
            file = argument[0]
        elif word == "mode":
            vector = argument == ["vector"]
    return None if file is None else AveCommand(command.args[0], "ave/time", file, tuple(values), vector, command.text)


def _of_rows(command: Command) -> AveCommand | None:
    words = command.args[5:]
    files = [after for word, after in pairwise(words) if word in ("file", "append")]
    return AveCommand(command.args[0], command.args[2], files[-1], (), True, command.text) if files else None


_UNKNOWN = {"state": "unknown", "message": "files of averages do not say how the run ended"}


@dataclass(frozen=True)
class Averages:
    """The curves and the observables of some files."""

    curves: dict[str, Series]
    observables: dict[str, Observable]


def read_ave_time(paths: Sequence[Path], context: ReadContext) -> Record:
    """Read files of averages by themselves: a record of metrics and observables."""
    found = averages_of([Path(path) for path in paths], {}, context.report)
    metrics = Metrics.from_series(found.curves) if found.curves else None
    report_unstated(metrics, context.report)
    return Record(
        metrics=metrics,
        observables=Observables(found.observables) if found.observables else None,
        status=dict(_UNKNOWN),
    )


def averages_of(paths: Sequence[Path], commands: Mapping[Path, AveCommand], report: Report) -> Averages:
    """Return what files hold; `commands` are those that wrote them, where a script tells."""
    fixes: dict[str, list[AveTime]] = {}
    named: dict[str, AveCommand] = {}
    for path in paths:
        command = commands.get(path)
        output = read_ave_time_file(path, None if command is None else command.vector)
        if output.truncated is not None:
            report.truncated(output.truncated)
        if not len(output.steps):
            report.warn(f"{path}: holds no output")
            continue
        fix = output.fix or (path.name if command is None else command.id)
        fixes.setdefault(fix, []).append(output)
        if command is not None:
            named[fix] = command
    curves: dict[str, Series] = {}
    observables: dict[str, Observable] = {}
    for fix, parts in fixes.items():
        output = join_outputs(parts)
        latest = output.latest()
        gone = len(output.steps) - len(latest.steps)
        if gone:
            report.dropped(f"{gone} outputs of fix {fix}", "the same steps come again later: the later output counts")
        names = _names(latest, named.get(fix))
        title = f"fix {_style(latest, named.get(fix))} {fix}"
        if latest.vector:
            observables |= _observables(fix, title, names, latest)
            report.carried(title, f"{len(latest.steps)} outputs of {' '.join(names)}, in observables as {_node(fix)}.*")
        else:
            for number, name in enumerate(names):
                curves[f"ave_time/{fix}/{name}"] = curve(latest.steps, latest.values[:, number])
            report.carried(title, f"{len(latest.steps)} outputs of {' '.join(names)}, in metrics as ave_time/{fix}/*")
    return Averages(curves, observables)


def _names(output: AveTime, command: AveCommand | None) -> list[str]:
    """Return the columns: as the titles name them, else as the command does, else by number; no name twice."""
    count = output.values.shape[1]
    names = list(output.names)
    if len(names) != count and command is not None and len(command.values) == count:
        names = list(command.values)
    if len(names) != count:
        names = [f"column_{number}" for number in range(1, count + 1)]
    return [name if name not in names[:place] else f"{name}_{place + 1}" for place, name in enumerate(names)]


def _style(output: AveTime, command: AveCommand | None) -> str:
    """Return the style of the fix, as far as the command or the titles tell."""
    return command.style if command is not None else output.style


def _observables(fix: str, title: str, names: Sequence[str], output: AveTime) -> dict[str, Observable]:
    base = _node(fix)
    even = len(set(output.rows.tolist())) == 1
    what = f"by {title}"
    others: dict[str, Any] = {"sampling": f"at the steps in {base}.step", "steps": f"{base}.step"}
    found = {
        f"{base}.step": Observable.of(output.steps, "vector", f"steps of the outputs {what}", axes=["output"]),
    }
    if not even:
        others["rows"] = f"{base}.rows"
        found[f"{base}.rows"] = Observable.of(output.rows, "vector", f"rows of each output {what}", axes=["output"])
    for name, values in output.whole.items():
        found[f"{base}.{_node(name)}"] = Observable.of(
            values, "vector", f"{name} of each output {what}", axes=["output"]
        )
    for number, name in enumerate(names):
        values = output.values[:, number]
        key = f"{base}.{_node(name)}"
        if key in found:
            key = f"{key}_{number + 1}"
        found[key] = Observable.of(
            np.ascontiguousarray(values.reshape(len(output.steps), -1) if even else values),
            "vector",
            f"{name} {what}",
            axes=["output", "row"] if even else ["row"],
            **others,
        )
    return found


def _node(name: str) -> str:
    return escape_name(name) if "%" in name or name_fault(name) is not None else name
