"""The atom styles of LAMMPS: what the columns of Atoms and Velocities rows mean.

Columns are listed as LAMMPS reads them from a file, which for `template` and `dielectric` differs from the table of
its manual. Each is given the name it has in a record: the standard name where there is one (`mol` is `mol_id`, `q` is
`charge`), else the name of the manual, with the names of dumps for what dumps call otherwise (`wx` is `omegax`, `lx`
is `angmomx`, `espin` is `spin`). Source: the manual, "read_data", checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from molrec_convert.errors import UsageError

__all__ = ["ATOM_STYLES", "IMAGE_COLUMNS", "PLAIN_STYLES", "AtomStyle", "Column", "Kind", "style_named", "style_words"]

#: What a column holds: `int` an integer; `type` one from 1 to a count of types, or a label; `image` a count of periodic
#: images; `float` a number; `skip` what LAMMPS reads over.
Kind = Literal["int", "type", "image", "float", "skip"]


@dataclass(frozen=True)
class Column:
    """One column of a section's rows: its name in a record and what it holds."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class AtomStyle:
    """One atom style: columns of Atoms rows (without image flags) and of Velocities rows.

    `name` has the style's arguments, where it was named with some. `topology` are the sections of relations it allows,
    `bonus` the sections of shapes (`Ellipsoids` …), `note` what a file of the style leaves to other files.
    """

    name: str
    columns: tuple[Column, ...]
    velocities: tuple[Column, ...]
    topology: frozenset[str] = frozenset()
    bonus: frozenset[str] = frozenset()
    note: str = ""

    def positive(self) -> list[str]:
        """Return the columns that LAMMPS wants above zero."""
        names = [column.name for column in self.columns]
        return [name for name in names if name in ("density", "theta") or (name == "mass" and "bodyflag" in names)]

    def widths(self) -> tuple[int, int]:
        """Return the two numbers of columns an Atoms row may have: without and with image flags."""
        return len(self.columns), len(self.columns) + len(IMAGE_COLUMNS)


IMAGE_COLUMNS = tuple(Column(name, "image") for name in ("ix", "iy", "iz"))

#: Names in a record of columns that the manual names otherwise.
_RECORD_NAMES = {
    "mol": "mol_id",
    "q": "charge",
    "wx": "omegax",
    "wy": "omegay",
    "wz": "omegaz",
    "lx": "angmomx",
    "ly": "angmomy",
    "lz": "angmomz",
    "espin": "spin",
}
_INTEGERS = {"id", "mol", "molindex", "molatom", "espin", "etag", "status", "ellipsoidflag", "lineflag", "triflag"} | {
    "bodyflag"
}
#: Columns of several styles that LAMMPS keeps in one place, so that a hybrid has them once: the first one's.
_SHARED = {"density": "rmass", "mass": "rmass", "diameter": "radius", "kradius": "radius"}

_BONDS = "Bonds"
_ANGLES = "Bonds Angles"
_ALL = "Bonds Angles Dihedrals Impropers"
_STILL = "id vx vy vz"
_TURNING = "id vx vy vz wx wy wz"
_ROTATING = "id vx vy vz lx ly lz"
_TEMPLATE_NOTE = "its bonds and angles are in the molecule files of the template, which a data file does not name"

# style: columns of Atoms; of Velocities; relations; section of shapes
_TABLE: dict[str, tuple[str, str, str, str]] = {
    "atomic": ("id type x y z", _STILL, "", ""),
    "charge": ("id type q x y z", _STILL, "", ""),
    "bond": ("id mol type x y z", _STILL, _BONDS, ""),
    "angle": ("id mol type x y z", _STILL, _ANGLES, ""),
    "molecular": ("id mol type x y z", _STILL, _ALL, ""),
    "full": ("id mol type q x y z", _STILL, _ALL, ""),
    "amoeba": ("id mol type q x y z", _STILL, _ALL, ""),
    "template": ("id mol molindex molatom type x y z", _STILL, "", ""),
    "dielectric": ("id mol type q x y z mux muy muz area ed em epsilon curvature", _STILL, _ALL, ""),
    "dipole": ("id type q x y z mux muy muz", _STILL, "", ""),
    "sphere": ("id type diameter density x y z", _TURNING, "", ""),
    "bpm/sphere": ("id mol type diameter density x y z", _TURNING, _BONDS, ""),
    "ellipsoid": ("id type ellipsoidflag density x y z", _ROTATING, "", "Ellipsoids"),
    "line": ("id mol type lineflag density x y z", _TURNING, "", "Lines"),
    "tri": ("id mol type triflag density x y z", f"{_TURNING} lx ly lz", "", "Triangles"),
    "body": ("id type bodyflag mass x y z", _ROTATING, "", "Bodies"),
    "peri": ("id type vfrac density x y z", _STILL, "", ""),
    "dpd": ("id type theta x y z", _STILL, "", ""),
    "edpd": ("id type edpd_temp edpd_cv x y z", _STILL, "", ""),
    "mdpd": ("id type rho x y z", _STILL, "", ""),
    "tdpd": ("id type x y z", _STILL, "", ""),
    "electron": ("id type q espin eradius x y z", f"{_STILL} ervel", "", ""),
    "smd": ("id type mol vfrac mass kradius cradius x0 y0 z0 x y z", _STILL, "", ""),
    "sph": ("id type rho esph cv x y z", _STILL, "", ""),
    "rheo": ("id type status rho x y z", _STILL, "", ""),
    "rheo/thermal": ("id type status rho esph x y z", _STILL, "", ""),
    "spin": ("id type x y z spx spy spz sp", _STILL, "", ""),
    "oxdna": ("id type x y z", _STILL, "", ""),
    "wavepacket": ("id type q espin eradius etag cs_re cs_im x y z", f"{_STILL} ervel", "", ""),
    "hybrid": ("id type x y z", _STILL, "", ""),
}


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(
        Column(_RECORD_NAMES.get(name, name), "type" if name == "type" else "int" if name in _INTEGERS else "float")
        for name in text.split()
    )


#: All atom styles by name.
ATOM_STYLES: dict[str, AtomStyle] = {
    name: AtomStyle(
        name,
        _columns(columns),
        _columns(velocities),
        frozenset(topology.split()),
        frozenset(bonus.split()),
        _TEMPLATE_NOTE if name == "template" else "",
    )
    for name, (columns, velocities, topology, bonus) in _TABLE.items()
}

#: The styles looked for in a file that does not name its own.
PLAIN_STYLES = tuple(ATOM_STYLES[name] for name in ("atomic", "charge", "bond", "angle", "molecular", "full"))


def style_words(hint: str | None) -> str | None:
    """Return the style a comment after `Atoms` names (`full`, `hybrid sphere dipole`), or None where it names none.

    A suffix of an accelerator (`full/kk`) and a colon before an explanation (`dielectric: id mol ...`) are left off.
    """
    words = (hint or "").replace(":", " ").split()
    if not words:
        return None
    for suffix in ("/kk", "/omp", "/intel", "/gpu", "/opt"):
        words[0] = words[0].removesuffix(suffix)
    if words[0] not in ATOM_STYLES:
        return None
    return " ".join(words) if words[0] in ("hybrid", "template", "body", "tdpd") else words[0]


def style_named(words: str, source: str) -> AtomStyle:
    """Return the style of that name, with its arguments (`tdpd 3`); `hybrid` is followed by its styles and theirs.

    `source` is where the name stands. UsageError refuses an unknown name, and one whose columns it does not tell.
    """
    name, *rest = words.split() or [""]
    style = ATOM_STYLES.get(name)
    if style is None:
        raise UsageError(f"{source}: {words!r} is no atom style of LAMMPS; there are {', '.join(ATOM_STYLES)}")
    if name != "hybrid":
        return _with_arguments(style, rest, words, source)
    parts: list[tuple[str, list[str]]] = []
    for word in rest:
        if word in ATOM_STYLES and word != "hybrid":
            parts.append((word, []))
        elif parts:
            parts[-1][1].append(word)
        else:
            raise UsageError(f"{source}: {words!r}: {word!r} is no atom style that a hybrid combines")
    if not parts:
        raise UsageError(f"{source}: a hybrid atom style is named with its styles, in order: --atom-style 'hybrid A B'")
    return _hybrid(words, [_with_arguments(ATOM_STYLES[part], args, words, source) for part, args in parts])


def _with_arguments(style: AtomStyle, args: list[str], words: str, source: str) -> AtomStyle:
    """Return a style with the columns its arguments add: of `tdpd` one for each species."""
    name = " ".join((style.name, *args))
    if style.name != "tdpd":
        return replace(style, name=name)
    if not args or not args[0].isdigit():
        raise UsageError(f"{source}: {words!r} leaves open how many species there are; --atom-style 'tdpd N' says it")
    species = tuple(Column(f"cc{number}", "float") for number in range(1, int(args[0]) + 1))
    return replace(style, name=name, columns=style.columns + species)


def _hybrid(words: str, parts: list[AtomStyle]) -> AtomStyle:
    """Return columns of `id type x y z`, then those of each style that are not there yet; velocities likewise."""
    columns = {column.name: column for column in ATOM_STYLES["hybrid"].columns}
    velocities: dict[str, Column] = {}
    for part in parts:
        for column in part.columns:
            columns.setdefault(_SHARED.get(column.name, column.name), column)
        for column in part.velocities:
            velocities.setdefault(column.name, column)
    return AtomStyle(
        words,
        tuple(columns.values()),
        tuple(velocities.values()),
        frozenset().union(*(part.topology for part in parts)),
        frozenset().union(*(part.bonus for part in parts)),
        next((part.note for part in parts if part.note), ""),
    )
