"""Whole stores written by hand, in order as they are; tests break one thing in each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hand_built as hand
import numpy as np

U64, I64 = np.uint64, np.int64


def u64(*values: int) -> Any:
    return np.array(values, U64)


def snapshots(path: Path) -> Path:
    """A record with `system`, `frame`, `method` and `status`."""
    hand.record(path, creator={"name": "hand", "version": "1"}, created_at="2026-01-02T03:04:05.6+01:00")
    system = hand.group(path / "system", units={"preset": "real"}, _meta_types={"units": "json"})
    hand.block(system / "atoms", {"id": u64(3, 5, 7), "element": ["O", "H", "H"], "charge": [-0.8, 0.4, 0.0]})
    masks = hand.group(system / "atoms" / "_validity")
    hand.array(masks / "charge", [True, True, False])
    bonds = {"atomi": u64(0, 0), "atomj": u64(1, 2), "owner": u64(0, 2)}
    hand.block(system / "bonds", bonds, targets={"owner": "/frame/atoms"})
    frame = hand.group(path / "frame", pe="NaN", _meta_types={"pe": "f64"})
    hand.block(frame / "atoms", {"id": u64(3, 5, 7), "y": [1.0, 2.0, 3.0]})
    hand.array(frame / "atoms" / "x", [0.0, 0.5, -0.25], precision=0.3)
    hand.block(frame / "grid", {"rho": np.arange(8.0)}, structural_shape=[2, 2, 2])
    box = hand.group(frame / "box")
    hand.array(box / "vectors", np.eye(3) * 10)
    hand.array(box / "origin", [0.0, 0.0, 1.0])
    hand.array(box / "boundary", [True, False, True])
    hand.group(path / "method", type="md", description="a run", engine={"name": "LAMMPS"})
    hand.group(path / "status", state="succeeded")
    return path


def schema(**blocks: Any) -> dict[str, Any]:
    return {"blocks": blocks, "meta": {"pe": {"dtype": "f64"}}}


def declared(*columns: str, dtype: str = "f64", **options: Any) -> dict[str, Any]:
    return {"columns": {name: {"dtype": dtype, "trailing": []} for name in columns}, **options}


def regular(path: Path) -> Path:
    """Three frames of two atoms in a regular block, progressions, a fixed cell, a `system` with ids."""
    hand.record(path)
    hand.group(path / "system")
    hand.block(path / "system" / "atoms", {"id": u64(1, 2), "element": ["H", "O"]})
    columns = declared("x", "y")
    columns["columns"]["id"] = {"dtype": "u64", "trailing": []}
    columns["columns"]["y"]["precision"] = 0.5
    trajectory = hand.group(
        path / "trajectory",
        sequence_schema=schema(atoms=columns),
        nstep=3,
        step_progression={"start": -5, "stride": 10},
        time_progression={"start": 0.0, "stride": 0.5},
    )
    hand.group(trajectory / "meta")
    hand.array(trajectory / "meta" / "pe", [1.0, np.nan, 3.0], meta_dtype="f64")
    atoms = hand.group(trajectory / "atoms", uniform_rows=2, dense_updates=True)
    hand.array(atoms / "x", np.arange(6) + 0.1)
    hand.array(atoms / "y", np.arange(6) * 0.5)
    hand.array(atoms / "id", u64(1, 2, 1, 2, 1, 2))
    hand.group(trajectory / "box", vectors=(np.eye(3) * 5).tolist(), boundary=[True, True, False])
    return path


def ragged(path: Path) -> Path:
    """Four frames with an index, an aligned block, references, masks, documents per step, a changing cell."""
    hand.record(path)
    bonds = declared("atomi", "atomj", dtype="u64")
    types = declared("type", dtype="string", aligned_with="atoms")
    types["columns"]["type"]["nullable"] = True
    document = schema(atoms=declared("x"), bonds=bonds, atom_types=types, later=declared("v"))
    document["meta"]["notes"] = {"dtype": "json", "fill": None}
    trajectory = hand.group(path / "trajectory", sequence_schema=document, nstep=4)
    hand.array(trajectory / "step", np.array([0, 10, 15, 40]))
    hand.array(trajectory / "time", [0.0, 0.1, np.nan, 0.7])
    hand.group(trajectory / "meta")
    hand.array(trajectory / "meta" / "pe", [1.0, 2.0, 3.0, 4.0], meta_dtype="f64")
    hand.array(trajectory / "meta" / "notes", ["null", '{"a": 1}', "[]", '"x"'], meta_dtype="json")
    atoms = hand.group(trajectory / "atoms")
    hand.array(atoms / "step_index", u64(0, 1, 2, 3))
    hand.array(atoms / "offset", u64(0, 2, 4, 7, 10))
    hand.array(atoms / "x", np.arange(10) + 0.5)
    types_group = hand.group(trajectory / "atom_types")
    hand.array(types_group / "step_index", u64(0, 2))
    hand.array(types_group / "offset", u64(0, 2, 5))
    hand.array(types_group / "type", ["A", "B", "A", "B", "C"])
    hand.group(types_group / "_validity")
    hand.array(types_group / "_validity" / "type", [True, True, True, True, False])
    bonds_group = hand.group(trajectory / "bonds")
    hand.array(bonds_group / "step_index", u64(1, 2, 3))
    hand.array(bonds_group / "offset", u64(0, 1, 3, 3))
    hand.array(bonds_group / "atomi", u64(0, 0, 1))
    hand.array(bonds_group / "atomj", u64(1, 1, 2))
    box = hand.group(trajectory / "box")
    hand.array(box / "step_index", u64(0, 3))
    hand.array(box / "vectors", np.stack([np.eye(3), np.eye(3) * 2]))
    return path
