"""Thermo tables of a log: where they are, their rows as numbers, and those of a run joined by step.

Three layouts: one line per output under a header (styles one and custom), blocks of `Name = value` (multi), and YAML.
Warnings, `print` and `fix print` output may stand between the rows. Rows are taken whole regions at a time; only where
foreign lines mix in does a pattern pick the rows first. Source: LAMMPS manual, "thermo_style"; logs of several
releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.names import escape_name, name_fault
from molrec_convert.text.rows import Field, RowFault, count_lines, read_rows
from molrec_lammps.common.commands import COMMANDS
from molrec_lammps.common.text import Buffer

__all__ = ["HEADER_NAMES", "Table", "Thermo", "find_tables", "header_names", "replaced_rows", "thermo_of"]

_CHUNK = 4 * 2**20
#: Lines between a header and its first row that may be foreign.
_FOREIGN_LINES = 50
_NUMBER = rb"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?|NAN|INF)"
_NUMERIC = re.compile(rb"\s*" + _NUMBER + rb"(?:\s+" + _NUMBER + rb")*\s*$")
_ENDS = (b"\nLoop time of ", b"\nERROR", b"\nLAMMPS (")
_MULTI = re.compile(rb"^-+ Step +(\d{1,18}) -+ CPU = +(" + _NUMBER + rb") \(sec(?:s)?\) -+[ \t]*\r?$", re.MULTILINE)
_GROUP = re.compile(rb"(\S+) *= +(" + _NUMBER + rb")(?=\s)")
_YAML_ROW = re.compile(rb"^  - \[([^\]\n]*), *\][ \t]*\r?$", re.MULTILINE)
_YAML_HEADER = re.compile(rb"^keywords: \[(.*)\][ \t]*\r?$")
_LOOP = re.compile(
    rb"\nLoop time of (\S+) on \d+ procs (?:\(\d+ MPI x \d+ OpenMP\) )?for (\d{1,18}) steps with (\d{1,18}) atoms"
)
_INTEGER = re.compile(rb"[-+]?\d+")


@dataclass(frozen=True)
class Table:
    """One thermo table: bytes `start:end` of the log, `header` words, the column of the step, values f64[rows, words].

    `steps` int64[rows] are exact. `complete`: a `Loop time` line closes the table, which states the numbers of `steps`
    taken and of `atoms`.
    """

    start: int
    end: int
    header: tuple[str, ...]
    step_column: int
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    complete: bool
    n_steps: int | None = None
    n_atoms: int | None = None


def find_tables(data: Buffer, step_words: Sequence[str] = ("Step",)) -> Iterator[Table]:
    """Yield every thermo table of a log (bytes or a memory map of them), in order.

    `step_words` are the header words of the step (`thermo_modify colname` renames it). A table whose header has none
    of them is passed over: its rows belong to no step.
    """
    finder = _Finder(data)
    words = [word.encode() for word in step_words]
    position = 0
    while True:
        hit = min((found for word in words if (found := finder.find(word, position)) >= 0), default=-1)
        if hit < 0:
            return
        table = _table_at(data, hit, finder, step_words)
        if table is None:
            position = _line_end(data, hit)
        else:
            position = table.end
            yield table


class _Finder:
    """Next occurrence of several patterns, each looked for once per stretch of the log."""

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.known: dict[bytes, tuple[int, int]] = {}

    def find(self, pattern: bytes, start: int) -> int:
        since, found = self.known.get(pattern, (0, -2))
        if found == -2 or not (since <= start and (found == -1 or found >= start)):
            found = self.data.find(pattern, start)
            self.known[pattern] = (start, found)
        return found

    def first(self, patterns: Sequence[bytes], start: int) -> int:
        found = [place for pattern in patterns if (place := self.find(pattern, start)) >= 0]
        return min(found, default=len(self.data))


def _table_at(data: Buffer, hit: int, finder: _Finder, step_words: Sequence[str]) -> Table | None:
    start = data.rfind(b"\n", 0, hit) + 1
    below = _line_end(data, hit)
    line = data[start:below].rstrip(b"\n")
    end = finder.first(_ENDS, max(below - 1, 0))
    parsed_lines = False
    if line.startswith(b"keywords: ["):
        parsed = _yaml_table(data, line, below, end, step_words)
    elif _MULTI.match(line):
        parsed = _multi_table(data, start, end)
    else:
        parsed, parsed_lines = _line_table(data, line, below, end, step_words), True
    if parsed is None:
        return None
    header, column, values, steps, end = parsed
    loop = _LOOP.match(data[end : end + 300])
    if loop is None and parsed_lines and not _of_lammps(data, start, line):
        return None
    counts = (None, None) if loop is None else (int(loop[2]), int(loop[3]))
    return Table(start, end, tuple(header), column, steps, values, loop is not None, *counts)


_Parsed = tuple[list[str], int, NDArray[np.float64], NDArray[np.int64], int]


def _line_table(data: Buffer, line: bytes, below: int, end: int, step_words: Sequence[str]) -> _Parsed | None:
    header = [word.decode("utf-8", "replace") for word in line.split()]
    column = _step_column(line, step_words)
    if column < 0:
        return None
    first = _first_row(data, below, end, len(header))
    if first is None:
        return None
    end = _next_header(data, below, end, step_words)
    parts = [np.zeros((0, len(header)))]
    steps = [np.zeros(0, dtype=np.int64)]
    minimum = _first_word_end(first)
    for lo, hi in _chunks(data, below, end):
        rows = _rows(data[lo:hi], len(header), column, minimum, first[:1].isspace())
        parts.append(rows[0])
        steps.append(rows[1])
    return header, column, np.concatenate(parts), np.concatenate(steps), end


def _next_header(data: Buffer, start: int, end: int, step_words: Sequence[str]) -> int:
    """Return where the region ends: before the header of another table, where a killed run was followed by a new
    one.
    """
    for word in (step.encode() for step in step_words):
        position = start
        while (position := data.find(word, position, end)) >= 0:
            line_start = data.rfind(b"\n", 0, position) + 1
            position = _line_end(data, position)
            if _opens(data[line_start:position], data, position, end, step_words, line_start):
                end = max(line_start - 1, start)
                break
    return end


def _opens(line: bytes, data: Buffer, below: int, end: int, step_words: Sequence[str], start: int) -> bool:
    bare = line.rstrip(b"\r\n")
    if _MULTI.match(bare) or _YAML_HEADER.match(bare):
        return True
    if not _of_lammps(data, start, line):
        return False
    return _step_column(bare, step_words) >= 0 and _first_row(data, below, end, len(bare.split())) is not None


def _of_lammps(data: Buffer, start: int, line: bytes) -> bool:
    """True if LAMMPS wrote a header line, not a `print`: a blank is behind every word, or memory use stands above."""
    if line.rstrip(b"\r\n").endswith((b" ", b"\t")):
        return True
    above = data.rfind(b"\n", 0, max(start - 1, 0)) + 1
    return data[above:start].startswith((b"Per MPI rank memory", b"Memory usage"))


def _step_column(line: bytes, step_words: Sequence[str]) -> int:
    """Return which word of a header line is the step; -1 when the line is no header."""
    words = [word.decode("utf-8", "replace") for word in line.split()]
    column = next((i for i, word in enumerate(words) if word in step_words), -1)
    if column < 0 or words[0] in COMMANDS or any(_NUMERIC.match(word) for word in line.split()):
        return -1
    return column


def _first_row(data: Buffer, start: int, end: int, words: int) -> bytes | None:
    for _ in range(_FOREIGN_LINES):
        if start >= end:
            return None
        below = _line_end(data, start)
        line = data[start:below]
        if line.endswith(b"\n") and _NUMERIC.match(line) and len(line.split()) == words:
            return line
        start = below
    return None


def _rows(
    chunk: bytes, words: int, column: int, minimum: int, indented: bool
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rows of whole lines: values [rows, words] and exact steps; lines that are no rows are passed over.

    A row has `words` numbers, the first one ending `minimum` characters or more into the line: columns are padded to
    a width, which tells a row from numbers that `fix print` happens to write.
    """
    table = _read(chunk, words)
    if table is not None and _ascending(table[:, column]) and (not indented or _all_indented(chunk)):
        return table, table[:, column].astype(np.int64)
    pattern = re.compile(
        rb"^[ \t]*" + _NUMBER + rb"(?:[ \t]+" + _NUMBER + rb"){%d}[ \t]*\r?$" % (words - 1), re.MULTILINE
    )
    rows = [row for row in pattern.findall(chunk) if _first_word_end(row) >= minimum]
    table = _read(b"\n".join(rows), words)
    if table is None:
        table = np.array([list(map(float, row.split())) for row in rows]).reshape(len(rows), words)
    steps = [_step(row.split()[column]) for row in rows]
    whole = np.array([step is not None for step in steps], np.bool_)
    return table[whole], np.array([step for step in steps if step is not None], dtype=np.int64)


def _read(text: bytes, words: int) -> NDArray[np.float64] | None:
    """Return lines of `words` numbers as f64[lines, words]; None where a line is another, or a number has no bound."""
    lines = count_lines(text, np.array([[0, len(text)]]))
    table = np.empty((int(lines[0, 2]), words))
    try:
        read_rows(text, lines, [Field("real")] * words, out=list(table.T))
    except RowFault:
        return None
    return table


def _step(word: bytes) -> int | None:
    """Return the step a word says, None for one that is none."""
    if _INTEGER.fullmatch(word):
        return int(word)
    number = float(word)
    return int(number) if number.is_integer() and abs(number) < 2.0**53 else None


def _ascending(steps: NDArray[np.float64]) -> bool:
    return bool(
        np.isfinite(steps).all()
        and (steps == np.rint(steps)).all()
        and (np.diff(steps) > 0).all()
        and (not len(steps) or abs(steps[-1]) < 2.0**53)
    )


def _all_indented(chunk: bytes) -> bool:
    codes = np.frombuffer(chunk, dtype=np.uint8)
    starts = np.flatnonzero(codes == 10)[:-1] + 1
    return bool((codes[starts] == 32).all() and codes[0] == 32)


def _first_word_end(line: bytes) -> int:
    bare = line.lstrip()
    return len(line) - len(bare) + len(bare.split(None, 1)[0])


def _chunks(data: Buffer, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield stretches of whole lines. A last line without its newline is a torn one and is left out."""
    end = end + 1 if data[end : end + 1] == b"\n" else data.rfind(b"\n", start, end) + 1
    while start < end:
        cut = data.rfind(b"\n", start, min(start + _CHUNK, end)) + 1 or _line_end(data, start)
        yield start, cut
        start = cut


def _multi_table(data: Buffer, start: int, end: int) -> _Parsed | None:
    region = data[start : end + 1]
    marks = list(_MULTI.finditer(region))
    stops = [*(mark.start() for mark in marks[1:]), len(region)]
    header: list[str] = []
    rows: list[list[bytes]] = []
    steps: list[int] = []
    for mark, stop in zip(marks, stops, strict=True):
        groups = _GROUP.findall(region, mark.end(), stop)
        names = ["Step", "CPU", *(name.decode("utf-8", "replace") for name, _ in groups)]
        if not header:
            header = names
        if names[: len(header)] != header:
            continue
        rows.append([mark[1], mark[2], *(value for _, value in groups[: len(header) - 2])])
        steps.append(int(mark[1]))
    values = np.array(rows, dtype=np.bytes_).astype(np.float64).reshape(len(rows), len(header))
    return header, 0, values, np.array(steps, dtype=np.int64), end


def _yaml_table(data: Buffer, line: bytes, below: int, end: int, step_words: Sequence[str]) -> _Parsed | None:
    match = _YAML_HEADER.match(line)
    if match is None:
        return None
    header = [word.decode("utf-8", "replace") for word in re.findall(rb"'([^']*)'", match[1])]
    column = next((i for i, word in enumerate(header) if word in step_words), -1)
    another = data.find(b"\nkeywords: [", below - 1, end)
    end = end if another < 0 else another
    if column < 0:
        return None
    rows = [row.replace(b",", b" ") for row in _YAML_ROW.findall(data[below : end + 1])]
    rows = [row for row in rows if _NUMERIC.match(row) and len(row.split()) == len(header)]
    rows = [row for row in rows if _step(row.split()[column]) is not None]
    values = _read(b"\n".join(rows), len(header))
    assert values is not None
    steps = np.array([_step(row.split()[column]) for row in rows], dtype=np.int64)
    return header, column, values, steps, end


def _line_end(data: Buffer, position: int) -> int:
    """Return just behind the newline that ends the line of `position`."""
    found = data.find(b"\n", position)
    return len(data) if found < 0 else found + 1


#: Header word of a thermo table → per-step key of a record. Source: Record, "Per-step keys"; LAMMPS `thermo_style`.
HEADER_NAMES = {
    "PotEng": "pe",
    "KinEng": "ke",
    "TotEng": "etotal",
    "Temp": "temp",
    "Press": "press",
    "Volume": "volume",
}


@dataclass(frozen=True)
class Thermo:
    """Thermo rows of a run: `steps` int64[n] ascending and unique, `columns` per-step key → float64[n].

    A column that some tables of a log print and others do not is NaN where it was not printed; `printed` says of such
    a column which rows have it (bool[n]). A column that is not in `printed` is in all.
    """

    steps: NDArray[np.int64]
    columns: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    printed: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    def rows_of(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return row of each of `steps` (int64[m]), -1 where there is none."""
        if not len(self.steps):
            return np.full(len(steps), -1, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.steps, steps), len(self.steps) - 1)
        return np.where(self.steps[rows] == steps, rows, -1).astype(np.int64)


def header_names(words: Iterable[str]) -> dict[str, str]:
    """Return header word → per-step key: the standard keys by `HEADER_NAMES`, others under themselves.

    A word that cannot name a node (`S/CPU`), or that is itself the key another word maps to (`pe` beside `PotEng`,
    possible through `thermo_modify colname`), is escaped by the `%XX` rule, so that distinct words have distinct keys.
    """
    words = list(dict.fromkeys(words))
    names = {word: HEADER_NAMES[word] for word in words if word in HEADER_NAMES}
    taken = set(names.values())
    for word in words:
        if word in names:
            continue
        name = escape_name(word) if "%" in word or name_fault(word) is not None else word
        if name in taken:
            name = f"%{ord(name[0]):02X}{name[1:]}"
        names[word] = name
        taken.add(name)
    return names


def thermo_of(tables: Sequence[Table]) -> Thermo | None:
    """Return the rows of all tables by step. Of a step that comes again the later row counts.

    Rows of earlier tables that lie within the steps of a later one give way to it too: a run that went back (a
    restart, `reset_timestep`) replaces what it repeats, also where it printed at other steps. Where one run goes on
    from the last step of the one before, what only the one before printed of that step is kept.
    """
    tables = [table for table in tables if len(table.steps)]
    if not tables:
        return None
    names = header_names(word for table in tables for i, word in enumerate(table.header) if i != table.step_column)
    kept = _kept_rows(tables)
    total = sum(int(rows.size) for rows in kept)
    steps = np.zeros(total, dtype=np.int64)
    columns = {name: np.full(total, np.nan) for name in names.values()}
    printed = {name: np.zeros(total, dtype=np.bool_) for name in names.values()}
    start = 0
    before: Table | None = None
    for table, rows in zip(tables, kept, strict=True):
        stop = start + rows.size
        steps[start:stop] = table.steps[rows]
        for index, word in enumerate(table.header):
            if index != table.step_column:
                columns[names[word]][start:stop] = table.values[rows, index]
                printed[names[word]][start:stop] = True
        if before is not None and rows.size and rows[0] == 0 and before.steps[-1] == table.steps[0]:
            for index, word in enumerate(before.header):
                if word not in table.header:
                    columns[names[word]][start] = before.values[-1, index]
                    printed[names[word]][start] = True
        start, before = stop, table
    order = np.argsort(steps, kind="stable")
    return Thermo(
        steps[order],
        {name: values[order] for name, values in columns.items()},
        {name: known[order] for name, known in printed.items() if not known.all()},
    )


def replaced_rows(tables: Sequence[Table]) -> tuple[int, int]:
    """Return how many rows give way to later ones: because steps went back, and where a run goes on from the one
    before.

    A run that goes on repeats the last step of the one before, so that its first row is that row again.
    """
    tables = [table for table in tables if len(table.steps)]
    lost = sum(len(table.steps) - int(rows.size) for table, rows in zip(tables, _kept_rows(tables), strict=True))
    seams = sum(before.steps[-1] == table.steps[0] for before, table in pairwise(tables))
    return max(0, lost - int(seams)), min(lost, int(seams))


def _kept_rows(tables: Sequence[Table]) -> list[NDArray[np.int64]]:
    """Return rows of each table that no later row replaces, the last of equal steps within a table."""
    covered: list[tuple[int, int]] = []
    kept = []
    for table in reversed(tables):
        steps = table.steps
        if bool((np.diff(steps) > 0).all()):
            rows = np.arange(len(steps), dtype=np.int64)
        else:
            _, last = np.unique(steps[::-1], return_index=True)
            rows = np.sort(len(steps) - 1 - last).astype(np.int64)
        low, high = int(steps.min()), int(steps.max())
        merged = [(low, high)]
        for first, final in covered:
            if final < low or first > high:
                merged.append((first, final))
                continue
            rows = rows[(steps[rows] < first) | (steps[rows] > final)]
            merged[0] = (min(merged[0][0], first), max(merged[0][1], final))
        covered = merged
        kept.append(rows)
    return kept[::-1]
