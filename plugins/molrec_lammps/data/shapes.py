"""Shapes of atoms: the sections Ellipsoids, Lines, Triangles and Bodies of a data file.

The first three are rows of numbers, one for each atom whose row in Atoms has the style's flag. A body is a line of its
atom's id and two counts, then so many integers and so many numbers over as many lines as it likes, integers and numbers
on lines of their own. Source: the manual, "read_data", checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_lammps.common.atom_styles import Kind
from molrec_lammps.common.text import INTEGER, Buffer, brief, decode, lines_of, split_comment
from molrec_lammps.data.checks import AtomIndex
from molrec_lammps.data.rows import DTYPES, BadRow, read_words
from molrec_lammps.data.sections import SHAPES, Section

__all__ = ["Bodies", "check_flags", "check_shape_numbers", "check_shapes", "read_bodies"]

#: How far from its atom the centre of a line or triangle may be, in parts of its extent.
_CENTRED = 1e-3


@dataclass
class Bodies:
    """The bodies of a file, in its order: `ids` int64[n] of their atoms; `integers` int64 and `numbers` f64 of all
    bodies end to end, bounded by `integer_offset` and `number_offset` int64[n+1]; `lines` int64[n] where each begins.
    `comments` are those behind their lines.
    """

    ids: NDArray[np.int64]
    integers: NDArray[np.int64]
    integer_offset: NDArray[np.int64]
    numbers: NDArray[np.float64]
    number_offset: NDArray[np.int64]
    lines: NDArray[np.int64]
    comments: list[str] = field(default_factory=list)

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
            self.comments,
        )


def read_bodies(path: str, data: Buffer, section: Section, count: int) -> Bodies:
    """The bodies of a section of `count`. Refused: lines that are no body, values that do not fill their lines."""
    parts = [split_comment(line) for line in lines_of(section.text(data))]
    lines = [text.split() for text, _ in parts]
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
        _values(path, section, lines, integers, "int"),
        _offsets(table[:, 1]),
        _values(path, section, lines, numbers, "float"),
        _offsets(table[:, 2]),
        table[:, 3],
        [decode(comment).strip() for _, comment in parts if comment and comment.strip()],
    )


def _rows_of(ends: NDArray[np.int64], row: int, wanted: int) -> int | None:
    """The line behind those from `row` on that hold `wanted` words exactly; None when no number of lines does."""
    if not wanted:
        return row
    target = wanted + (int(ends[row - 1]) if row else 0)
    last = int(np.searchsorted(ends, target))
    return last + 1 if last < len(ends) and int(ends[last]) == target else None


def _values(
    path: str, section: Section, lines: list[list[bytes]], runs: list[tuple[int, int]], kind: Kind
) -> NDArray[Any]:
    words = [word for first, stop in runs for row in range(first, stop) for word in lines[row]]
    if not words:
        return np.empty(0, DTYPES[kind])
    try:
        return read_words(words, kind)
    except BadRow as bad:
        row = [row for first, stop in runs for row in range(first, stop) for _ in lines[row]][bad.row]
        expected = "an integer of 64 bits" if kind == "int" else "a finite number"
        raise FormatError(
            path, f"line {section.line + row}", found=bad.found, expected=f"{expected} of a body"
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


def check_shape_numbers(
    path: str,
    name: str,
    columns: Mapping[str, NDArray[Any]],
    atoms: Mapping[str, NDArray[Any]],
    ids: NDArray[np.int64],
    lines: NDArray[np.int64],
) -> None:
    """Refuse ellipsoids without extent, and lines and triangles that have their atom elsewhere than in their centre.

    `atoms` are the columns of Atoms, `ids` int64[n] the atoms that the n shapes are of.
    """
    values = np.stack([columns[column] for column in SHAPES[name].columns], axis=1)
    if name == "Ellipsoids":
        wrong = ~(values[:, :3] > 0).all(axis=1)
        found, expected = "an ellipsoid of {}, {} and {}", "diameters above zero"
    else:
        axes = 2 if name == "Lines" else 3
        corners = values.reshape(len(values), -1, axes)
        order = np.argsort(atoms["id"], kind="stable")
        rows = order[np.searchsorted(atoms["id"], ids, sorter=order)]
        places = np.stack([atoms[axis][rows] for axis in "xyz"[:axes]], axis=1)
        sizes = np.linalg.norm(corners[:, 1:] - corners[:, :1], axis=2).max(axis=1)
        wrong = ~(np.linalg.norm(corners.mean(axis=1) - places, axis=1) <= _CENTRED * sizes)
        found = f"{'a line' if axes == 2 else 'a triangle'} from {{}}, {{}}{'' if axes == 2 else ', {}'}"
        expected = "one whose centre is its atom, and of some extent"
    if wrong.any():
        row = int(np.argmax(wrong))
        numbers = [f"{number:g}" for number in values[row, : found.count("{}")]]
        raise FormatError(path, f"line {lines[row]}", found=found.format(*numbers), expected=expected)
