"""What MDAnalysis' writers have room for. Source: the writers in MDAnalysis.coordinates (2.11)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ROOMS", "Room"]

_PDB = (
    "names resids resnames icodes segids chainIDs altLocs occupancies tempfactors elements record_types ids "
    "formalcharges"
)


@dataclass(frozen=True)
class Room:
    """`arrays` of a time step, `attributes` of atoms, `relations` a format holds, and how it holds numbers and times.

    `times`: "each" frame's, the "interval" between two, or "" none.
    """

    arrays: tuple[str, ...]
    attributes: frozenset[str] = frozenset()
    relations: tuple[str, ...] = ()
    cell: bool = True
    times: str = ""
    steps: bool = False
    digits: str = "single precision"


def _room(arrays: str, attributes: str = "", relations: str = "", **rest: object) -> Room:
    made = Room(tuple(arrays.split()), frozenset(attributes.split()), tuple(relations.split()))
    return Room(**{**vars(made), **rest})


#: Format, as MDAnalysis calls it → its room.
ROOMS: dict[str, Room] = {
    "DCD": _room("positions", times="interval"),
    "XTC": _room("positions", times="each", steps=True, digits="0.01 Å"),
    "TRR": _room("positions velocities forces", times="each", steps=True),
    "NCDF": _room("positions velocities forces", times="each"),
    "TRZ": _room("positions velocities", times="each"),
    "H5MD": _room("positions velocities forces", times="each", steps=True),
    "GRO": _room("positions velocities", "names resids resnames ids", digits="0.01 Å"),
    "CRD": _room("positions", "names resids resnames segids tempfactors", cell=False, digits="10 decimals"),
    "PQR": _room(
        "positions", "names resids resnames icodes segids chainIDs charges radii record_types", cell=False,
        digits="0.001 Å",
    ),
    "PDBQT": _room(
        "positions", "names resids resnames icodes segids chainIDs altLocs occupancies tempfactors charges types "
        "record_types", digits="0.001 Å",
    ),
    "PDB": _room("positions", _PDB, "bonds", digits="0.001 Å"),
    "DATA": _room("positions velocities", "types masses charges ids", "bonds angles dihedrals impropers"),
    "XYZ": _room("positions", "names", cell=False, digits="5 decimals"),
    "COOR": _room("positions", cell=False, digits="double precision, of numbers of single precision"),
    "IN": _room("positions velocities", "names", digits="8 decimals"),
}  # fmt: skip
ROOMS |= {"NC": ROOMS["NCDF"], "ENT": ROOMS["PDB"], "NAMDBIN": ROOMS["COOR"], "FHIAIMS": ROOMS["IN"]}
ROOMS["LAMMPS"] = ROOMS["DCD"]
