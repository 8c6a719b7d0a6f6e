"""The atom styles of LAMMPS: what the columns of Atoms and Velocities rows mean.

Columns are listed as LAMMPS reads them from a file, which for `template` and `dielectric` differs from the table of
its manual. Each is given the name it has in a record: the standard name where there is one (`mol` is `mol_id`, `q` is
`charge`), else the name of the manual, with the names of dumps for what dumps call otherwise (`wx` is `omegax`, `lx`
is `angmomx`, `espin` is `spin`). Source: the manual, "read_data", checked against the 22 Jul 2025 release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from molrec_convert.errors import UnsupportedError, UsageError

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
    """One atom style: columns of Atoms rows (without image flags) and of Velocities rows, and what it cannot say here.

    `topology` are the sections of relations it allows; `unsupported` says in words why files of the style are not
    read, and is empty for those that are.
    """

    name: str
    columns: tuple[Column, ...]
    velocities: tuple[Column, ...]
    topology: frozenset[str] = frozenset()
    unsupported: str = ""

    def widths(self) -> tuple[int, int]:
        """The two numbers of columns an Atoms row may have: without and with image flags."""
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
_BONDS = ("Bonds",)
_ANGLES = (*_BONDS, "Angles")
_ALL = (*_ANGLES, "Dihedrals", "Impropers")
_VELOCITIES = "id vx vy vz"
_BONUS = "its section {} is not read yet"

# name, columns, relations, velocities, why not read
_TABLE: tuple[tuple[str, str, tuple[str, ...], str, str], ...] = (
    ("atomic", "id type x y z", (), _VELOCITIES, ""),
    ("charge", "id type q x y z", (), _VELOCITIES, ""),
    ("bond", "id mol type x y z", _BONDS, _VELOCITIES, ""),
    ("angle", "id mol type x y z", _ANGLES, _VELOCITIES, ""),
    ("molecular", "id mol type x y z", _ALL, _VELOCITIES, ""),
    ("full", "id mol type q x y z", _ALL, _VELOCITIES, ""),
    ("amoeba", "id mol type q x y z", _ALL, _VELOCITIES, ""),
    (
        "template",
        "id mol molindex molatom type x y z",
        (),
        _VELOCITIES,
        "its bonds and angles are in molecule files, which are not read",
    ),
    ("dielectric", "id mol type q x y z mux muy muz area ed em epsilon curvature", _ALL, _VELOCITIES, ""),
    ("dipole", "id type q x y z mux muy muz", (), _VELOCITIES, ""),
    ("sphere", "id type diameter density x y z", (), "id vx vy vz wx wy wz", ""),
    ("bpm/sphere", "id mol type diameter density x y z", _BONDS, "id vx vy vz wx wy wz", ""),
    (
        "ellipsoid",
        "id type ellipsoidflag density x y z",
        (),
        "id vx vy vz lx ly lz",
        _BONUS.format("Ellipsoids"),
    ),
    ("line", "id mol type lineflag density x y z", (), "id vx vy vz wx wy wz", _BONUS.format("Lines")),
    ("tri", "id mol type triflag density x y z", (), "id vx vy vz wx wy wz lx ly lz", _BONUS.format("Triangles")),
    ("body", "id type bodyflag mass x y z", (), "id vx vy vz lx ly lz", _BONUS.format("Bodies")),
    ("peri", "id type vfrac density x y z", (), _VELOCITIES, ""),
    ("dpd", "id type theta x y z", (), _VELOCITIES, ""),
    ("edpd", "id type edpd_temp edpd_cv x y z", (), _VELOCITIES, ""),
    ("mdpd", "id type rho x y z", (), _VELOCITIES, ""),
    ("tdpd", "id type x y z", (), _VELOCITIES, "the number of its species columns is in the input script only"),
    ("electron", "id type q espin eradius x y z", (), "id vx vy vz ervel", ""),
    ("smd", "id type mol vfrac mass kradius cradius x0 y0 z0 x y z", (), _VELOCITIES, ""),
    ("sph", "id type rho esph cv x y z", (), _VELOCITIES, ""),
    ("rheo", "id type status rho x y z", (), _VELOCITIES, ""),
    ("rheo/thermal", "id type status rho esph x y z", (), _VELOCITIES, ""),
    ("spin", "id type x y z spx spy spz sp", (), _VELOCITIES, ""),
    ("oxdna", "id type x y z", (), _VELOCITIES, "it is used in hybrids with ellipsoid only, whose section is not read"),
    (
        "wavepacket",
        "id type q espin eradius etag cs_re cs_im x y z",
        (),
        "id vx vy vz ervel",
        "its rows are wave packets, several to an electron",
    ),
    ("hybrid", "id type x y z", (), _VELOCITIES, "the file does not say of which; --atom-style 'hybrid A B' does"),
)


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(
        Column(_RECORD_NAMES.get(name, name), "type" if name == "type" else "int" if name in _INTEGERS else "float")
        for name in text.split()
    )


#: All atom styles by name.
ATOM_STYLES: dict[str, AtomStyle] = {
    name: AtomStyle(name, _columns(columns), _columns(velocities), frozenset(topology), unsupported)
    for name, columns, topology, velocities, unsupported in _TABLE
}

#: The styles looked for in a file that does not name its own.
PLAIN_STYLES = tuple(ATOM_STYLES[name] for name in ("atomic", "charge", "bond", "angle", "molecular", "full"))


def style_words(hint: str | None) -> str | None:
    """The style a comment after `Atoms` names (`full`, `hybrid sphere dipole`), or None where it names none.

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
    """The style of that name; `hybrid` is followed by its styles. `source` is where the name stands.

    Refused: an unknown name (UsageError), a style whose files are not read (UnsupportedError).
    """
    name, *rest = words.split() or [""]
    style = ATOM_STYLES.get(name)
    if style is None:
        raise UsageError(f"{source}: {words!r} is no atom style of LAMMPS; there are {', '.join(ATOM_STYLES)}")
    parts = [ATOM_STYLES[word] for word in rest if word in ATOM_STYLES] if name == "hybrid" else []
    for part in parts or [style]:
        if part.unsupported:
            raise UnsupportedError(f"{source}: data files of atom style {words} are not read: {part.unsupported}")
    return _hybrid(words, parts) if parts else style


def _hybrid(words: str, parts: list[AtomStyle]) -> AtomStyle:
    """Columns of `id type x y z`, then those of each style that are not there yet; velocities likewise."""
    columns = {column.name: column for column in ATOM_STYLES["hybrid"].columns}
    velocities: dict[str, Column] = {}
    for part in parts:
        columns |= {column.name: column for column in part.columns if column.name not in columns}
        velocities |= {column.name: column for column in part.velocities if column.name not in velocities}
    topology = frozenset().union(*(part.topology for part in parts))
    return AtomStyle(words, tuple(columns.values()), tuple(velocities.values()), topology)
