"""Files of `fix ave/time`: averages by step, of single values (mode scalar) or of columns of rows (mode vector).

    # Time-averaged data for fix a1          the titles; `title1` to `title3` of the command may be any lines
    # TimeStep c_t v_f                       mode vector: `# TimeStep Number-of-rows` and `# Row c_r[1] c_r[2]`
    10 0.960749 16                           mode vector: `10 5`, then five lines `1 0.2 0`

Files of `fix ave/chunk`, `ave/histo` and `ave/correlate` are like those of mode vector, with numbers of the whole
output behind the number of rows (`10 5 81`); those of `ave/correlate/long` have `# Timestep: 10` above the rows of one.

A file that ends in `.yaml` has `keywords: ['Step', 'c_t', ]`, `data:` and `  - [10, 0.96, ]`; in mode vector `  10:`
stands above the rows of a step. Source: LAMMPS manual, "fix ave/time" and its kin; files of the 22 Jul 2025 release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UsageError
from molrec_lammps.common.text import load
from molrec_lammps.log.numbers import numbers
from molrec_lammps.script.lines import decode

__all__ = ["AveTime", "join_outputs", "parse_ave_time", "read_ave_time_file"]

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
        """One output a step, the later of two, by ascending steps."""
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
    """The outputs a text holds. A line cut off at the end of the text, or an output not whole there, is left out."""
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
    """Outputs of one fix in several files, file after file."""
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
    """The lines before the first numbers, three at most unless they are comments; the fix they name, and its style."""
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
    """Whether the first line counts the lines below it, which are numbered from 1."""
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
    """What stands behind the number of rows of each output, `count` numbers, as the titles name it."""
    table = _floats(lines).reshape(len(lines), count) if count else np.zeros((len(lines), 0))
    names = next((found for word in ("Timestep", "TimeStep") if (found := _named(titles, word, count + 1))), ())
    names = names[1:] or tuple(f"total_{number}" for number in range(1, count + 1))
    return {name: table[:, number].copy() for number, name in enumerate(names)}


def _long(lines: Sequence[bytes], path: Path, fix: str | None, titles: Sequence[str], broken: str | None) -> AveTime:
    """A file of `fix ave/correlate/long`: outputs of any number of rows, the time first."""
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
    """The columns that a title line names behind `# TimeStep` or `# Row`; none where none names as many."""
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
