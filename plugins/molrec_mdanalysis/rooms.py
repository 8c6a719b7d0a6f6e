"""What MDAnalysis' writers have room for. Source: the writers in MDAnalysis.coordinates (2.11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ELSEWHERE", "ROOMS", "Room"]


@dataclass(frozen=True)
class Room:
    """What a format holds of a record, and how.

    `arrays` of a time step; `attributes` of atoms, of `either` the first that is there; `relations`, with their types
    where `typed`. `cell`: "each" frame's, only the "first", or "" none; `times`: "each" frame's, the "interval" between
    two, or "" none. `widths`: characters a text may have, or the largest number, from which on it is cut; `decimals` of
    an attribute's numbers. `counts`: atoms are numbered from 1 on when they are read, whatever their ids were.
    `sparse`: a frame may lack arrays that others have.
    """

    arrays: tuple[str, ...]
    attributes: frozenset[str] = frozenset()
    relations: tuple[str, ...] = ()
    cell: str = "each"
    times: str = ""
    steps: bool = False
    digits: str = "single precision"
    either: tuple[str, ...] = ()
    typed: bool = False
    widths: Mapping[str, int] = field(default_factory=dict)
    decimals: Mapping[str, int] = field(default_factory=dict)
    counts: bool = False
    data: frozenset[str] = frozenset()
    sparse: bool = False


def _room(arrays: str, attributes: str = "", relations: str = "", **rest: object) -> Room:
    made = Room(tuple(arrays.split()), frozenset(attributes.split()), tuple(relations.split()))
    return Room(**{**vars(made), **rest})


_PDB = _room(
    "positions",
    "names resids resnames icodes segids chainIDs altLocs occupancies tempfactors elements record_types ids "
    "formalcharges",
    "bonds",
    cell="first",
    digits="0.001 Å",
    widths={
        "names": 4, "resnames": 4, "segids": 4, "altLocs": 1, "icodes": 1, "chainIDs": 1, "resids": 9999, "ids": 99999,
    },
    decimals={"occupancies": 2, "tempfactors": 2},
)  # fmt: skip

#: Format, as MDAnalysis calls it → its room.
ROOMS: dict[str, Room] = {
    "DCD": _room("positions", times="interval"),
    "XTC": _room("positions", times="each", steps=True, digits="0.01 Å"),
    "TRR": _room("positions velocities forces", times="each", steps=True, sparse=True),
    "NCDF": _room("positions velocities forces", times="each"),
    "TRZ": _room("positions velocities", times="each"),
    "H5MD": _room("positions velocities forces", times="each", steps=True),
    "GRO": _room(
        "positions velocities", "names resids resnames ids", digits="0.01 Å", counts=True,
        widths={"names": 5, "resnames": 5, "resids": 99999, "ids": 99999},
    ),
    "CRD": _room(
        "positions", "names resids resnames tempfactors", cell="", digits="5 decimals", counts=True,
        either=("chainIDs", "segids"), decimals={"tempfactors": 5},
        widths={"names": 4, "resnames": 4, "chainIDs": 4, "segids": 4, "resids": 9999},
    ),
    "PQR": _room(
        "positions", "names resids resnames segids charges radii", cell="", digits="0.001 Å", counts=True,
        decimals={"charges": 4, "radii": 4}, widths={"names": 4, "resnames": 4, "segids": 1, "resids": 9999},
    ),
    "PDBQT": _room(
        "positions", "names resids resnames icodes segids occupancies tempfactors charges types",
        digits="0.001 Å", counts=True, decimals={"occupancies": 2, "tempfactors": 2, "charges": 3},
        widths={"names": 4, "resnames": 4, "icodes": 1, "segids": 1, "types": 2, "resids": 9999},
    ),
    "PDB": _PDB,
    "DATA": _room(
        "positions velocities", "types masses charges", "bonds angles dihedrals impropers", typed=True, counts=True,
        digits="10 decimals", decimals={"charges": 6},
    ),
    "XYZ": _room("positions", cell="", digits="5 decimals", either=("elements", "names"), counts=True),
    "COOR": _room("positions", cell="", digits="double precision, of numbers of single precision"),
    "IN": _room("positions velocities", "names", digits="8 decimals", counts=True),
    "MOL2": _room(
        "positions", "names types resids resnames charges", "bonds", cell="", digits="4 decimals", counts=True,
        decimals={"charges": 4}, data=frozenset(("molecule", "substructure")),
    ),
}  # fmt: skip
ROOMS |= {"NC": ROOMS["NCDF"], "ENT": ROOMS["PDB"], "NAMDBIN": ROOMS["COOR"], "FHIAIMS": ROOMS["IN"]}
ROOMS["LAMMPS"] = ROOMS["DCD"]

#: Formats MDAnalysis reads and does not write, and who does: the name of a format here.
ELSEWHERE = {
    "LAMMPSDUMP": "lammps-dump", "DUMP": "lammps-dump", "LAMMPSTRJ": "lammps-dump", "CIF": "mmcif", "MMCIF": "mmcif",
    "PDBX": "mmcif", "XPDB": "pdb", "TRAJ": "ase-traj", "EXTXYZ": "extxyz",
}  # fmt: skip
