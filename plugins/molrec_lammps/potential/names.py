"""What the types of a potential are called, and which table a relation's type has its row in."""

from __future__ import annotations

from molrec_lammps.potential.potential import Potential
from molrec_lammps.potential.style_maps import style_map

__all__ = ["relation_styles", "type_count", "type_names"]


def type_count(potential: Potential, kind: str) -> int:
    """How many types of a kind (`atom bond angle dihedral improper`) there are: as stated, and no fewer than named."""
    category = "pair" if kind == "atom" else kind
    used = [max(row.types, default=0) for row in potential.coefficients if row.category == category]
    masses = list(potential.masses) if kind == "atom" else []
    return max(potential.type_counts.get(kind, 0), len(potential.labels.get(kind, [])), *used, *masses, 0)


def type_names(potential: Potential, kind: str) -> list[str]:
    """The names of all types of a kind in the order of their numbers: labels, else the decimal numbers."""
    count = type_count(potential, kind)
    labels = potential.labels.get(kind, [])
    return [labels[n] if n < len(labels) and labels[n] else str(n + 1) for n in range(count)]


def relation_styles(potential: Potential, category: str) -> list[str | None] | None:
    """For every type of bonds (angles …) the value of a row's `style` column; None where no hybrid needs the column.

    A type whose terms stand in several tables (class2 with its cross terms) has None: its tables add.
    """
    if category not in potential.hybrid:
        return None
    found: list[str | None] = [None] * type_count(potential, category)
    crossed: set[int] = set()
    for row in potential.final():
        if row.category != category or row.style == "skip" or row.words == ("skip",):
            continue
        for number in row.types:
            if row.part:
                crossed.add(number)
            else:
                found[number - 1] = style_map(category, row.style, "", 1).table if row.style else None
    return [None if number + 1 in crossed else style for number, style in enumerate(found)]
