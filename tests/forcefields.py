"""Force fields the tests share: the seed's peroxide, and one with something of everything."""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_convert.model import Block, Column, Frame, Meta
from molrec_convert.model.forcefield import ForceField, table_from_rows


def peroxide() -> ForceField:
    """The force field of "Layout by example"."""
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


def peroxide_system() -> Frame:
    """The system of the same record."""
    meta = Meta()
    meta.put("smiles", "OO")
    meta.put("total_charge", 0, "i64")
    return Frame(
        {
            "atoms": Block({"element": ["H", "O", "O", "H"], "type": ["H1", "O1", "O1", "H1"]}),
            "bonds": relation([[0, 1], [1, 2], [2, 3]], type=["O1-H1", "O1-O1", "O1-H1"]),
            "angles": relation([[0, 1, 2], [3, 2, 1]], type=["H1-O1-O1", "H1-O1-O1"]),
            "dihedrals": relation([[0, 1, 2, 3]], type=["H1-O1-O1-H1"]),
        },
        meta,
    )


def relation(atoms: list[list[int]], **columns: Any) -> Block:
    """A relation block: its endpoints by row, and further columns."""
    rows = np.array(atoms, dtype=np.uint64).reshape(len(atoms), -1)
    ends = {f"atom{letter}": rows[:, at] for at, letter in enumerate("ijklm"[: rows.shape[1]])}
    return Block({**ends, **columns}, targets={"atomm": "atoms"} if rows.shape[1] == 5 else None)


def nullable(values: list[float | None]) -> Column:
    """A column of numbers, null where there is None."""
    return Column(
        np.array([0.0 if value is None else value for value in values]),
        np.array([value is not None for value in values]),
    )


def single(
    category: str, style: str, rows: list[dict[str, Any]], units: dict[str, str] | None = None, **how: Any
) -> ForceField:
    """A force field of one style."""
    forcefield = ForceField.new("one", units or {"preset": "real"})
    forcefield.add(category, style, table_from_rows(category, rows), **how)
    return forcefield
