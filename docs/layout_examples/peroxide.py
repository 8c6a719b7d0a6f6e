"""Hydrogen peroxide: a molecule that several examples share, and a force field for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_convert.model import Block, Frame, Meta
from molrec_convert.model.forcefield.document import ForceField, table_from_rows

__all__ = ["molecule", "peroxide", "peroxide_system", "relation"]


def peroxide() -> ForceField:
    """A force field for hydrogen peroxide: one style of every category, a generic row, masked parameters."""
    forcefield = ForceField.new(
        "h2o2-demo",
        {"preset": "real"},
        special_bonds={"lj": [0.0, 0.0, 0.5], "coul": [0.0, 0.0, 0.8333]},
    )
    forcefield.add(
        "atom",
        "full",
        table_from_rows(
            "atom",
            [
                {"name": "H1", "element": "H", "ptype": "A", "mass": 1.008, "charge": 0.41},
                {"name": "O1", "element": "O", "ptype": "A", "mass": 15.999, "charge": -0.41},
            ],
        ),
    )
    forcefield.add(
        "bond",
        "harmonic",
        table_from_rows(
            "bond",
            [
                {"name": "O1-O1", "itom": "O1", "jtom": "O1", "k": 600.0, "r0": 1.475},
                {"name": "O1-H1", "itom": "O1", "jtom": "H1", "k": 1106.0, "r0": 0.967},
            ],
        ),
    )
    forcefield.add(
        "angle",
        "harmonic",
        table_from_rows(
            "angle",
            [{"name": "H1-O1-O1", "itom": "H1", "jtom": "O1", "ktom": "O1", "k": 100.0, "theta0": 1.7488}],
        ),
    )
    ends = {"jtom": "O1", "ktom": "O1"}
    specific = {"k1": 1.2, "periodicity1": 1.0, "phase1": 0.0, "k2": 0.8, "periodicity2": 2.0, "phase2": 3.141592654}
    generic = {"k1": 0.5, "periodicity1": 3.0, "phase1": 0.0}
    forcefield.add(
        "dihedral",
        "periodic",
        table_from_rows(
            "dihedral",
            [
                {"name": "H1-O1-O1-H1", "itom": "H1", **ends, "ltom": "H1", **specific},
                {"name": "X-O1-O1-X", "itom": "", **ends, "ltom": "", **generic},
            ],
        ),
    )
    forcefield.add(
        "pair",
        "lj/cut",
        table_from_rows(
            "pair",
            [
                {"name": "O1-O1", "itom": "O1", "jtom": "O1", "epsilon": 0.17, "sigma": 3.0},
                {"name": "H1-H1", "itom": "H1", "jtom": "H1", "epsilon": 0.0, "sigma": 1.0},
            ],
        ),
        params={"cutoff": 10.0, "mixing": "geometric"},
    )
    return forcefield


def molecule() -> Frame:
    """One molecule, H–O–O–H: its atoms and bonds, with the names of their types."""
    meta = Meta()
    meta.put("smiles", "OO")
    meta.put("total_charge", 0, "i64")
    return Frame(
        {
            "atoms": Block({"element": ["H", "O", "O", "H"], "type": ["H1", "O1", "O1", "H1"]}),
            "bonds": relation([[0, 1], [1, 2], [2, 3]], type=["O1-H1", "O1-O1", "O1-H1"]),
        },
        meta,
    )


def peroxide_system() -> Frame:
    """The molecule with all its relations."""
    frame = molecule()
    frame.blocks["angles"] = relation([[0, 1, 2], [3, 2, 1]], type=["H1-O1-O1", "H1-O1-O1"])
    frame.blocks["dihedrals"] = relation([[0, 1, 2, 3]], type=["H1-O1-O1-H1"])
    return frame


def relation(atoms: list[list[int]], **columns: Any) -> Block:
    """A relation block: its endpoints by row, and further columns."""
    rows = np.array(atoms, dtype=np.uint64).reshape(len(atoms), -1)
    ends = {f"atom{letter}": rows[:, at] for at, letter in enumerate("ijklm"[: rows.shape[1]])}
    return Block({**ends, **columns}, targets={"atomm": "atoms"} if rows.shape[1] == 5 else None)
