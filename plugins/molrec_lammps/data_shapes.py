"""Shapes of atoms: the sections Ellipsoids, Lines, Triangles and Bodies of a data file.

The first three are rows of numbers, one for each atom whose row in Atoms has the style's flag. A body is a line of its
atom's id and two counts, then so many integers and so many numbers over as many lines as it likes, integers and numbers
on lines of their own. Source: the manual, "read_data", checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_lammps.data_checks import AtomIndex
from molrec_lammps.data_sections import SHAPES, Section
from molrec_lammps.data_text import FLOAT, INTEGER, Buffer, brief, lines_of, split_comment

__all__ = ["Bodies", "check_flags", "check_shapes", "check_sizes", "read_bodies", "shape_columns"]


@dataclass
class Bodies:
    """The bodies of a file, in its order: `ids` int64[n] of their atoms; `integers` int64 and `numbers` f64 of all
    bodies end to end, bounded by `integer_offset` and `number_offset` int64[n+1]; `lines` int64[n] where each begins.
    """

    ids: NDArray[np.int64]
    integers: NDArray[np.int64]
    integer_offset: NDArray[np.int64]
    numbers: NDArray[np.float64]
    number_offset: NDArray[np.int64]
    lines: NDArray[np.int64]

    def sorted(self, order: NDArray[np.int64]) -> Bodies:
        """The bodies in another order."""
        ints, floats = np.diff(self.integer_offset), np.diff(self.number_offset)
        return Bodies(
            self.ids[order],
            self.integers[_picked(self.integer_offset, order)],
            _offsets(ints[order]),
            self.numbers[_picked(self.number_offset, order)],
            _offsets(floats[order]),
            self.lines[order],
        )


def read_bodies(path: str, data: Buffer, section: Section, count: int) -> Bodies:
    """The bodies of a section of `count`. Refused: lines that are no body, values that do not fill their lines."""
    lines = [split_comment(line)[0].split() for line in lines_of(section.text(data))]
    sizes = np.array([len(words) for words in lines], dtype=np.int64)
    ends = np.cumsum(sizes)
    heads: list[tuple[int, int, int, int]] = []
    integers: list[tuple[int, int]] = []
    numbers: list[tuple[int, int]] = []
    row = 0
    for body in range(count):
        head = lines[row] if row < len(lines) else []
        where = f"line {section.line + row}"
        if len(head) != 3 or not all(INTEGER.fullmatch(word) for word in head) or min(map(int, head[1:])) < 0:
            raise FormatError(
                path,
                where,
                found=brief(b" ".join(head)) if head else "a blank line" if row < len(lines) else "the end of Bodies",
                expected=f"an atom id and how many integers and numbers follow, body {body + 1} of {count}",
            )
        heads.append((int(head[0]), int(head[1]), int(head[2]), section.line + row))
        first, row = row + 1, row + 1
        for wanted, rows in ((int(head[1]), integers), (int(head[2]), numbers)):
            stop = _rows_of(ends, row, wanted)
            if stop is None or bool((sizes[row:stop] == 0).any()):
                raise FormatError(
                    path,
                    f"line {section.line + min(row, len(lines) - 1)}",
                    found="lines that hold more or fewer values",
                    expected=f"{wanted} {'integers' if rows is integers else 'numbers'} on lines of their own for the "
                    f"body that line {section.line + first - 1} begins",
                )
            rows.append((row, stop))
            row = stop
    if row < len(lines) and any(lines[row:]):
        left = next(n for n in range(row, len(lines)) if lines[n])
        raise FormatError(
            path,
            f"line {section.line + left}",
            found=brief(b" ".join(lines[left])),
            expected=f"the name of a section after the {count} bodies",
        )
    table = np.array(heads, dtype=np.int64).reshape(count, 4)
    return Bodies(
        table[:, 0],
        _values(path, section, lines, integers, INTEGER, np.dtype(np.int64)),
        _offsets(table[:, 1]),
        _values(path, section, lines, numbers, FLOAT, np.dtype(np.float64)),
        _offsets(table[:, 2]),
        table[:, 3],
    )


def _rows_of(ends: NDArray[np.int64], row: int, wanted: int) -> int | None:
    """The line behind those from `row` on that hold `wanted` words exactly; None when no number of lines does."""
    if not wanted:
        return row
    target = wanted + (int(ends[row - 1]) if row else 0)
    last = int(np.searchsorted(ends, target))
    return last + 1 if last < len(ends) and int(ends[last]) == target else None


def _values(
    path: str, section: Section, lines: list[list[bytes]], runs: list[tuple[int, int]], form: Any, dtype: np.dtype[Any]
) -> NDArray[Any]:
    words = [word for first, stop in runs for row in range(first, stop) for word in lines[row]]
    wrong = next((word for word in words if not form.fullmatch(word)), None)
    if wrong is not None:
        row = next(row for first, stop in runs for row in range(first, stop) if wrong in lines[row])
        expected = "an integer" if dtype.kind == "i" else "a number"
        raise FormatError(path, f"line {section.line + row}", found=brief(wrong), expected=f"{expected} of a body")
    try:
        return np.array(words, dtype="S").astype(dtype) if words else np.empty(0, dtype)
    except (ValueError, OverflowError):
        raise FormatError(
            path, f"line {section.line}", found="an integer beyond 64 bits", expected="integers of bodies"
        ) from None


def _offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _picked(offset: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of the values of bodies in `order`."""
    sizes = np.diff(offset)[order]
    starts = np.repeat(offset[:-1][order] - _offsets(sizes)[:-1], sizes)
    picked: NDArray[np.int64] = starts + np.arange(len(starts))
    return picked


def check_shapes(
    path: str,
    name: str,
    ids: NDArray[np.int64],
    lines: NDArray[np.int64],
    flags: NDArray[np.int64],
    index: AtomIndex,
    first: int,
) -> NDArray[np.int64]:
    """Rows (in order of ids) of the atoms that shapes are of.

    `lines` are the lines of the shapes, `flags` the flag of each atom in order of ids, `first` the first line of Atoms.
    Refused: an unknown atom, one twice, one without the flag, a flag without a shape.
    """
    rows, absent = index.rows(ids)
    if absent is not None:
        row = int(np.argmax(absent))
        raise FormatError(
            path, f"line {lines[row]}", found=f"the id {ids[row]} in {name}", expected="the id of an atom"
        )
    counted = np.bincount(rows, minlength=len(index.ids))
    if int(counted.max(initial=0)) > 1:
        row = next(row for row in range(len(rows)) if rows[row] in rows[:row])
        raise FormatError(
            path, f"line {lines[row]}", found=f"a second row of {name} for the atom {ids[row]}", expected="one"
        )
    flag = SHAPES[name].flag
    if not bool((flags[rows] == 1).all()):
        row = int(np.argmax(flags[rows] != 1))
        raise FormatError(
            path,
            f"line {lines[row]}",
            found=f"a row of {name} for the atom {ids[row]}",
            expected=f"none: its {flag} in Atoms is {flags[rows[row]]}",
        )
    bare = (flags == 1) & (counted == 0)
    if bare.any():
        row = int(np.argmax(bare))
        place = row if index.order is None else int(index.order[row])
        raise FormatError(
            path,
            f"line {first + place}",
            found=f"the {flag} 1 of the atom {index.ids[row]}",
            expected=f"a row of {name} for it, or the flag 0",
        )
    return rows


def check_flags(path: str, name: str, flags: NDArray[np.int64], line: int) -> None:
    """Refuse flags in Atoms, in the order of the file, that are neither 0 nor 1."""
    wrong = (flags != 0) & (flags != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FormatError(path, f"line {line + row}", found=f"the {SHAPES[name].flag} {flags[row]}", expected="0 or 1")


def check_sizes(
    path: str, x: NDArray[np.float64], y: NDArray[np.float64], z: NDArray[np.float64], lines: NDArray[np.int64]
) -> None:
    """Refuse diameters of ellipsoids that are not above zero."""
    flat = ~((x > 0) & (y > 0) & (z > 0))
    if flat.any():
        row = int(np.argmax(flat))
        raise FormatError(
            path,
            f"line {lines[row]}",
            found=f"an ellipsoid of {x[row]:g} by {y[row]:g} by {z[row]:g}",
            expected="diameters above zero",
        )


def shape_columns(
    name: str, columns: Mapping[str, NDArray[Any]], rows: NDArray[np.int64], count: int
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.bool_]]:
    """The columns of a shape for all `count` atoms in order of ids, and which of them have it."""
    known = np.zeros(count, dtype=np.bool_)
    known[rows] = True
    spread = {}
    for column in SHAPES[name].columns:
        spread[column] = np.zeros(count)
        spread[column][rows] = columns[column]
    return spread, known
