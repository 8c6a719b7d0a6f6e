"""Sections beside rows of atoms and relations: shapes, properties of atoms, and those kept as they stand.

Where a record keeps them is in `data_record`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Column
from molrec_convert.quantities.dimensions import same_units, units_words
from molrec_lammps.common.atom_styles import AtomStyle
from molrec_lammps.data.sections import SHAPES, Shape
from molrec_lammps.write.box import Cell
from molrec_lammps.write.types import State
from molrec_lammps.write.units import SECTIONS, number_text, row_pieces

__all__ = ["Preserved", "TextSection", "preserved_of"]


@dataclass
class TextSection:
    """One section: its name, the comment behind the name, its rows as pieces of bytes.

    `words` are those of the `fix property/atom` that reads it; `known`: LAMMPS reads it without a fix.
    """

    name: str
    comment: str
    pieces: list[Any]
    words: tuple[str, ...] = ()
    known: bool = False


@dataclass
class Preserved:
    """Sections to write, the header counts that go with them, and the columns and blocks they hold."""

    sections: list[TextSection] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    blocks: set[str] = field(default_factory=set)


def preserved_of(
    state: State,
    style: AtomStyle,
    document: Mapping[str, Any],
    ids: NDArray[np.int64],
    cell: Cell,
    digits: int | None,
    units: Mapping[str, Any],
) -> Preserved:
    """Return what is written back beside atoms and relations, of a record in `units`.

    UnsupportedError: shapes that cannot be turned, text in other units.
    """
    found = Preserved()
    for name, shape in SHAPES.items():
        if shape.style not in style.name.split():
            continue
        if cell.rotation is not None:
            raise UnsupportedError(f"{name}: shapes are not turned with the cell; leave --rotate off")
        if name == "Bodies":
            _bodies(state, ids, digits, found)
        elif all(column in state.atoms for column in shape.columns):
            _shapes(name, shape.count, shape.columns, state, ids, digits, found)
        _check_flags(name, shape, state, found)
    _properties(state, document, ids, digits, found)
    _texts(state, document, units, found)
    header = document.get("header")
    if isinstance(header, Mapping):
        found.counts.update({str(key): int(count) for key, count in header.items()})
    return found


def _check_flags(name: str, shape: Shape, state: State, found: Preserved) -> None:
    """Refuse atoms that say they have a shape where the state has none for them: LAMMPS reads no such file."""
    flag = state.atoms.get(shape.flag)
    flagged = 0 if flag is None else int((flag.values != 0).sum())
    there = found.counts.get(shape.count, 0)
    if flagged <= there:
        return
    needed = shape.columns or ("bodies", "body_integers", "body_numbers")
    missing = " ".join(name for name in needed if name not in state.atoms and name not in state.blocks)
    raise UnsupportedError(
        f"{name}: {shape.flag} is set for {flagged} atoms and the state has the shapes of {there}, which LAMMPS refuses"
        f"{f' ({missing} missing)' if missing else ''}; dump what is missing, take another state, or name an atom "
        "style without shapes (--target-atom-style)"
    )


def _shapes(
    name: str,
    keyword: str,
    columns: Sequence[str],
    state: State,
    ids: NDArray[np.int64],
    digits: int | None,
    found: Preserved,
) -> None:
    known = _known([state.atoms[column] for column in columns], state.count)
    found.written.update((*columns, "shape_comment"))
    if not known.any():
        return
    comments = _comments(state.atoms.get("shape_comment"), known)
    values = [state.values(column)[known] for column in columns]
    found.counts[keyword] = int(known.sum())
    found.sections.append(
        TextSection(name, "", list(row_pieces([ids[known], *values], comments=comments, digits=digits)), known=True)
    )


def _bodies(state: State, ids: NDArray[np.int64], digits: int | None, found: Preserved) -> None:
    blocks = [state.blocks.get(name) for name in ("bodies", "body_integers", "body_numbers")]
    bodies, integers, numbers = blocks
    if bodies is None or integers is None or numbers is None or not bodies.count:
        return
    found.blocks.update(("bodies", "body_integers", "body_numbers"))
    atoms = ids[bodies.stored("atomi").astype(np.int64)].tolist()
    counts = [np.bincount(part.stored("body").astype(np.int64), minlength=len(atoms)) for part in (integers, numbers)]
    ends = [np.cumsum(count).tolist() for count in counts]
    whole, real = integers.stored("value").tolist(), numbers.stored("value").tolist()
    lines: list[str] = []
    for body, atom in enumerate(atoms):
        sizes = [int(count[body]) for count in counts]
        lines.append(f"{atom} {sizes[0]} {sizes[1]}")
        lines += _wrapped([str(value) for value in whole[ends[0][body] - sizes[0] : ends[0][body]]], 10)
        texts = [number_text(value, digits) for value in real[ends[1][body] - sizes[1] : ends[1][body]]]
        lines += _wrapped(texts, 3)
    found.counts["bodies"] = bodies.count
    found.sections.append(TextSection("Bodies", "", ["".join(f"{line}\n" for line in lines).encode()], known=True))


def _wrapped(words: Sequence[str], width: int) -> Iterator[str]:
    return (" ".join(words[start : start + width]) for start in range(0, len(words), width))


def _properties(
    state: State, document: Mapping[str, Any], ids: NDArray[np.int64], digits: int | None, found: Preserved
) -> None:
    """Sections of `fix property/atom`: the words of the comment, and a row for each atom that has one."""
    sections = document.get("property_sections")
    for name, words in sections.items() if isinstance(sections, Mapping) else ():
        names = [("mol" if str(c) == "mol_id" and "mol" in state.atoms else str(c)) for _, c in words]
        if not all(column in state.atoms for column in names):
            continue
        columns = [state.atoms[column] for column in names]
        known = _known(columns, state.count)
        values = [state.values(column)[known] for column in names]
        pieces = list(row_pieces([ids[known], *values], digits=digits))
        said = tuple(str(word) for word, _ in words)
        found.sections.append(TextSection(str(name), " ".join(said), pieces, said))
        found.written.update(names)


def _texts(state: State, document: Mapping[str, Any], units: Mapping[str, Any], found: Preserved) -> None:
    block = state.blocks.get(SECTIONS)
    if block is None:
        return
    stated = document.get("section_units")
    if isinstance(stated, Mapping) and not same_units(stated, units):
        named = ", ".join(dict.fromkeys(block.stored("section").tolist()))
        raise UnsupportedError(
            f"{named}: kept as text in units {units_words(stated)}, and cannot be converted to units "
            f"{units_words(units)}; write in those (--target-units)"
        )
    found.blocks.add(SECTIONS)
    comments = document.get("section_comments")
    rows: dict[str, list[str]] = {}
    for name, line in zip(block.stored("section").tolist(), block.stored("line").tolist(), strict=True):
        rows.setdefault(name, []).append(line)
    for name, lines in rows.items():
        comment = str(comments.get(name, "")) if isinstance(comments, Mapping) else ""
        found.sections.append(TextSection(name, comment, ["".join(f"{line}\n" for line in lines).encode()]))


def _known(columns: Sequence[Column], count: int) -> NDArray[np.bool_]:
    """Return the rows in which all columns hold a value."""
    known = np.ones(count, dtype=np.bool_)
    for column in columns:
        if column.validity is not None:
            known &= column.validity
    return known


def _comments(column: Column | None, known: NDArray[np.bool_]) -> NDArray[Any] | None:
    if column is None:
        return None
    blank = np.array("", dtype=column.values.dtype)
    texts = column.values if column.validity is None else np.where(column.validity, column.values, blank)
    return np.asarray(texts[known])
