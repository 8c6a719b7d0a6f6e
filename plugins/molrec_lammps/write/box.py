"""Cells as LAMMPS states them: bounds and tilts, or three vectors for a cell in any orientation.

A reader takes `hi - lo` for a length: of the numbers near `lo + length` that is written which gives the length back
bit for bit. Source: the manual, "read_data", "Howto triclinic".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.model import Box
from molrec_convert.model.names import unescape_name
from molrec_convert.quantities.standard import COLUMNS, VECTORS, Turning, full_tensor, tensor_as
from molrec_convert.report import Report
from molrec_lammps.common.atom_styles import ATOM_STYLES, AtomStyle, style_named
from molrec_lammps.common.triclinic import general_rotation, restricted_vectors
from molrec_lammps.write.types import State
from molrec_lammps.write.units import number_text, number_texts

__all__ = [
    "Cell",
    "Turned",
    "asked_box",
    "bounds_of",
    "cell_of",
    "header_lines",
    "held",
    "style_of_state",
    "turn",
    "turned_of",
    "unturned",
    "warning_of",
]

Floats = NDArray[np.float64]
_AXES = "xyz"
#: A box that is widened ends at hundredths of its lengths.
_STEPS = 100


@dataclass(frozen=True)
class Cell:
    """A cell to write: `box`, whether it is `general`, and the rotation f64[3,3] that atoms are turned by (or None)."""

    box: Box
    general: bool
    rotation: Floats | None = None

    @property
    def triclinic(self) -> bool:
        """Whether it needs tilts or vectors."""
        return self.general or bool(np.triu(self.box.vectors, 1).any())


def cell_of(box: Box | None, asked: Sequence[str], positions: Floats, rotate: bool, report: Report) -> Cell:
    """Return the cell to write. `asked` is `--box`, `positions` f64[n, 3].

    UnsupportedError: there is no cell, or one LAMMPS cannot hold.
    """
    if box is None or not box.defined:
        if not asked:
            raise UnsupportedError(
                "the record has no cell, and a LAMMPS file needs one: give it with --box xlo,xhi,ylo,yhi,zlo,zhi or "
                "--box atoms,DISTANCE"
            )
        box = asked_box(asked, positions)
        report.derived("box", f"from --box {','.join(asked)}: {_words(box)}, periodic on no axis")
    elif asked:
        raise UsageError(f"--box {','.join(asked)}: the record has a cell of its own")
    vectors = box.vectors
    if not np.isfinite(vectors).all() or not np.isfinite(box.origin).all():
        raise UnsupportedError("the cell has numbers that are not finite, which LAMMPS cannot hold")
    volume = float(np.linalg.det(vectors))
    if volume <= 0.0:
        what = "no volume" if volume == 0.0 else "left-handed vectors"
        raise UnsupportedError(f"the cell has {what}, and LAMMPS holds right-handed cells only")
    if not np.tril(vectors, -1).any() and (np.diag(vectors) > 0).all():
        return Cell(box, general=False)
    if not rotate:
        report.carried("box", "of another orientation than LAMMPS' own: written as a general triclinic cell")
        return Cell(box, general=True)
    report.converted("box", "turned into LAMMPS' orientation, atoms with it; without --rotate it is written as it is")
    turned = Box(restricted_vectors(vectors), box.origin, box.boundary)
    return Cell(turned, general=False, rotation=general_rotation(vectors))


def held(cell: Cell, positions: Floats, report: Report) -> Cell:
    """Return the cell, widened where it is not periodic until it holds all positions f64[n, 3].

    LAMMPS keeps an atom where low <= x < high on such an axis, and refuses to run without it otherwise.
    """
    box = cell.box
    if box.boundary.all() or not len(positions):
        return cell
    fractions = np.linalg.solve(box.vectors, (positions - box.origin).T).T
    low, high = np.zeros(3), np.ones(3)
    for axis in np.flatnonzero(~box.boundary).tolist():
        least, most = float(fractions[:, axis].min()), float(fractions[:, axis].max())
        if least < 0.0:
            low[axis] = (np.ceil(least * _STEPS) - 1.0) / _STEPS
        if most >= 1.0:
            high[axis] = (np.floor(most * _STEPS) + 1.0) / _STEPS
    if not low.any() and (high == 1.0).all():
        return cell
    wide = Box(box.vectors * (high - low), box.origin + box.vectors @ low, box.boundary)
    axes = " ".join(name for name, a, b in zip(_AXES, low, high, strict=True) if a != 0.0 or b != 1.0)
    report.derived(
        "box",
        f"widened on {axes} to {_words(wide)}: atoms are outside it where it is not periodic, and LAMMPS loses those",
    )
    return replace(cell, box=wide)


def asked_box(words: Sequence[str], positions: Floats) -> Box:
    """Return the cell `--box` asks for."""
    try:
        if words[0] == "atoms" and len(words) <= 2 and len(positions):
            around = float(words[1]) if len(words) > 1 else 0.0
            low, high = positions.min(axis=0) - around, positions.max(axis=0) + around
        else:
            numbers = np.array([float(word) for word in words]).reshape(3, 2)
            low, high = numbers[:, 0], numbers[:, 1]
    except ValueError:
        low, high = np.zeros(3), np.zeros(3)
    if not (high > low).all() or not np.isfinite([low, high]).all():
        raise UsageError(
            f"--box {','.join(words)}: neither xlo,xhi,ylo,yhi,zlo,zhi with each low below its high, nor atoms,DISTANCE"
        )
    return Box(np.diag(high - low), low, np.zeros(3, dtype=np.bool_))


def bounds_of(box: Box) -> tuple[Floats, Floats, Floats]:
    """Return low and high bounds and tilts (xy xz yz) of a cell in LAMMPS' orientation, each f64[3]."""
    vectors, low = box.vectors, box.origin
    high = np.array([_high(float(low[axis]), float(vectors[axis, axis])) for axis in range(3)])
    return low.copy(), high, np.array([vectors[0, 1], vectors[0, 2], vectors[1, 2]])


def header_lines(cell: Cell, digits: int | None = None, *, tilted: bool = False) -> list[str]:
    """Return the lines of a data file's header. `tilted`: tilts of zero are written too."""
    box = cell.box
    if cell.general:
        named = zip(("avec", "bvec", "cvec"), box.vectors.T.tolist(), strict=True)
        lines = [f"{number_texts(vector, digits)} {name}" for name, vector in named]
        if box.origin.any() or np.signbit(box.origin).any():
            lines.append(f"{number_texts(box.origin.tolist(), digits)} abc origin")
        return lines
    low, high, tilts = bounds_of(box)
    lines = [
        f"{number_text(low[axis], digits)} {number_text(high[axis], digits)} {name}lo {name}hi"
        for axis, name in enumerate(_AXES)
    ]
    if tilts.any() or tilted:
        lines.append(f"{number_texts(tilts.tolist(), digits)} xy xz yz")
    return lines


def _high(low: float, length: float) -> float:
    """Return the high bound nearest `low + length` whose distance from `low` is the length, the shortest to write."""
    start = low + length
    near: list[Any] = [start]
    for direction in (-np.inf, np.inf):
        value = start
        for _ in range(4):
            value = float(np.nextafter(value, direction))
            near.append(value)
    exact = [value for value in near if value - low == length]
    return float(min(exact, key=lambda value: (len(repr(value)), abs(value - start)))) if exact else start


def _words(box: Box) -> str:
    low, high, _ = bounds_of(box)
    return ", ".join(f"{name} {low[axis]:g} to {high[axis]:g}" for axis, name in enumerate(_AXES))


Reals = NDArray[np.float64]
#: How many numbers a vector and a tensor (Voigt, whole) have.
_WIDTHS = {"point": (3,), "vector": (3,), "tensor": (6, 9)}
_NUMBERED = re.compile(r"(.+)\[(\d+)\]")
_ALONE = frozenset({"image_x", "image_y", "image_z"})


@dataclass(frozen=True)
class Turned:
    """What turns together: the columns of a vector, or one column with several numbers a row; and how."""

    columns: tuple[str, ...]
    kind: Turning


def turned_of(name: str, widths: Mapping[str, tuple[int, ...]]) -> Turned | None:
    """Return what a column of a record turns with, None where it does not turn, or what it belongs to is not there.

    `widths` has the shape of a row of every column there is.
    """
    _, kind = COLUMNS.get(name, ("", ""))
    if kind not in _WIDTHS:
        return None
    if widths[name]:
        return Turned((name,), kind) if len(widths[name]) == 1 and widths[name][0] in _WIDTHS[kind] else None
    group = next((group for group in VECTORS if name in group), None)
    if group is None or any(widths.get(other) != () for other in group):
        return None
    return Turned(group, kind)


def turn(values: Reals, kind: Turning, rotation: Reals, origin: Reals | None = None) -> Reals:
    """Return points or vectors f64[n, 3], or tensors f64[n, 6] (Voigt) or [n, 9], turned; `rotation` is f64[n, 3, 3].

    `origin` f64[n, 3] is what points are turned about.
    """
    if kind == "tensor":
        made = np.einsum("nab,nbc,ndc->nad", rotation, full_tensor(values), rotation)
        return tensor_as(made, "voigt") if values.shape[-1] == 6 else made.reshape(values.shape)
    if kind == "point" and origin is not None:
        return np.asarray(np.einsum("nij,nj->ni", rotation, values - origin) + origin)
    return np.asarray(np.einsum("nij,nj->ni", rotation, values))


def unturned(names: Iterable[str], widths: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return those of the names that may be parts of a vector or tensor, and are not turned."""
    named = list(names)
    rest = [name for name in named if name not in _ALONE and _unknown(name, widths)]
    together: dict[str, list[str]] = {}
    for name in rest:
        own = unescape_name(name)
        numbered = _NUMBERED.fullmatch(own)
        stem = f"{numbered[1]}[]" if numbered else own[:-1] + "?" if own[-1] in "xyz" else own
        together.setdefault(stem, []).append(name)
    found = [name for name in rest if widths[name] and widths[name][0] in (3, 6, 9)]
    found += [name for group in together.values() if len(group) in (3, 6, 9) for name in group]
    found += [name for name in rest if COLUMNS.get(name, ("", ""))[1] == "quaternion"]
    return [name for name in named if name in set(found)]


def warning_of(names: Iterable[str]) -> str:
    """Return what is said of columns that were not turned."""
    return (
        f"not turned with the cell: {' '.join(map(unescape_name, names))}, for nobody says whether they are vectors or "
        "tensors"
    )


def _unknown(name: str, widths: Mapping[str, tuple[int, ...]]) -> bool:
    """True if a column is not turned, and not known to be nothing that turns."""
    if turned_of(name, widths) is not None:
        return False
    return name not in COLUMNS or COLUMNS[name][1] != ""


_RELATIONS = ("bonds", "angles", "dihedrals", "impropers")
#: Styles by the columns that tell them, the first that fits counts.
_TOLD_BY = (
    ("sphere", ("diameter", "density")),
    ("spin", ("spx", "spy", "spz", "sp")),
    ("dipole", ("mux", "muy", "muz", "charge")),
    ("electron", ("eradius", "spin")),
)


def style_of_state(state: State, document: Mapping[str, Any], asked: str | None, report: Report) -> AtomStyle:
    """Return the atom style to write. UsageError: `asked` (`--target-atom-style`) names none."""
    if asked is not None:
        return style_named(asked, "--target-atom-style")
    own = document.get("atom_style")
    if isinstance(own, str) and own:
        return style_named(own, "the record's atom style")
    style = _least(state)
    report.derived("atom style", f"{style.name}, the least that holds what the record has")
    return style


def _least(state: State) -> AtomStyle:
    related = [name for name in _RELATIONS if name in state.blocks and state.blocks[name].count]
    molecules = bool(related) or "mol_id" in state.atoms or "mol" in state.atoms
    charged = "charge" in state.atoms
    if not molecules:
        for name, columns in _TOLD_BY:
            if all(column in state.atoms for column in columns):
                return ATOM_STYLES[name]
        return ATOM_STYLES["charge" if charged else "atomic"]
    if charged:
        return ATOM_STYLES["full"]
    if any(name in related for name in ("dihedrals", "impropers")):
        return ATOM_STYLES["molecular"]
    return ATOM_STYLES["angle" if "angles" in related else "bond"]
