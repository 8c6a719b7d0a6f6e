"""Files we write, as gemmi, MDAnalysis, ASE and chemfiles read them: with values equal to ours."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from molrec_convert import convert, read
from molrec_convert import write as write_record
from molrec_convert.model import Block, Box, Frame, MemoryTrajectory, Record

pytest.importorskip("gemmi")
pytestmark = pytest.mark.interop

#: A snippet for each peer: from the path in `path` to `frames`, lists of positions, and `facts`, lists by name.
PEERS = {
    "gemmi": """
import gemmi
structure = gemmi.read_structure(path)
frames, facts = [], {}
for number, model in enumerate(structure):
    atoms = sorted(((a.serial, c, r, a) for c in model for r in c for a in r), key=lambda entry: entry[0])
    frames.append([[a.pos.x, a.pos.y, a.pos.z] for _, _, _, a in atoms])
    if number == 0:
        facts = {
            "name": [a.name for *_, a in atoms], "res_name": [r.name for _, _, r, _ in atoms],
            "element": [a.element.name for *_, a in atoms], "chain": [c.name for _, c, _, _ in atoms],
            "number": [r.seqid.num for _, _, r, _ in atoms], "occupancy": [round(a.occ, 2) for *_, a in atoms],
            "b_factor": [round(a.b_iso, 2) for *_, a in atoms], "charge": [a.charge for *_, a in atoms],
        }
cell = list(structure.cell.parameters) if structure.cell.is_crystal() else None
""",
    "MDAnalysis": """
import MDAnalysis
universe = MDAnalysis.Universe(path)
frames = [universe.atoms.positions.tolist() for _ in universe.trajectory]
atoms = universe.atoms
facts = {
    "name": atoms.names.tolist(), "res_name": atoms.resnames.tolist(), "chain": atoms.chainIDs.tolist(),
    "element": atoms.elements.tolist(), "number": atoms.resids.tolist(),
    "occupancy": atoms.occupancies.tolist(), "b_factor": atoms.tempfactors.tolist(),
}
universe.trajectory[0]
cell = None if universe.dimensions is None else universe.dimensions.tolist()
""",
    "ase": """
import ase.io
images = [image for image in ase.io.read(path, ":") if len(image)]
frames = [image.positions.tolist() for image in images]
facts = {"element": images[0].get_chemical_symbols(), "res_name": images[0].arrays["residuenames"].tolist(),
         "number": images[0].arrays["residuenumbers"].tolist(), "b_factor": images[0].arrays["bfactor"].tolist()}
facts["res_name"] = [name.strip() for name in facts["res_name"]]
cell = images[0].cell.cellpar().tolist() if images[0].cell.rank == 3 else None
""",
    "chemfiles": """
import chemfiles
chemfiles.set_warnings_callback(lambda text: None)
frames, facts, cell = [], {}, None
with chemfiles.Trajectory(path) as trajectory:
    for number in range(trajectory.nsteps):
        frame = trajectory.read()
        if not len(frame.atoms):
            continue
        frames.append(frame.positions.tolist())
        if number == 0:
            facts = {"name": [a.name for a in frame.atoms], "element": [a.type for a in frame.atoms]}
            cell = [*frame.cell.lengths, *frame.cell.angles] if any(frame.cell.lengths) else None
            facts["bonds"] = sorted(sorted(pair) for pair in frame.topology.bonds.tolist())
""",
}


@functools.cache
def python_with(peer: str) -> str | None:
    """A Python that can import a peer: the one `MOLREC_INTEROP_PYTHON` names, or this one."""
    for python in (os.environ.get("MOLREC_INTEROP_PYTHON"), sys.executable):
        if (
            python
            and subprocess.run([python, "-c", f"import {peer}"], check=False, capture_output=True).returncode == 0
        ):
            return python
    return None


def ask(peer: str, path: Path) -> dict[str, Any]:
    python = python_with(peer)
    if python is None:
        pytest.skip(f"{peer} is not installed")
    code = f"import json, sys, warnings\nwarnings.simplefilter('ignore')\npath = sys.argv[1]\n{PEERS[peer]}"
    code += "\nprint(json.dumps({'frames': frames, 'facts': facts, 'cell': cell}))"
    done = subprocess.run([python, "-c", code, str(path)], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def ours(path: Path) -> dict[str, Any]:
    from molrec_pdb.header import cell_parameters

    record = read(path)
    block, frames = record.system["atoms"], list(record.trajectory)
    first = frames[0]["atoms"]
    number = block["res_seq"] if "res_seq" in block else block["res_id"]
    facts = {
        "name": block["name"].tolist(), "res_name": block["res_name"].tolist(), "number": number.tolist(),
        "element": block["element"].tolist(),
        "chain": block["chain"].tolist() if "chain" in block else [""] * block.count,
        "charge": (block["formal_charge"] if "formal_charge" in block else np.zeros(block.count, int)).tolist(),
        "occupancy": first["occupancy"].tolist(), "b_factor": first["b_factor"].tolist(),
    }  # fmt: skip
    if "bonds" in record.system:
        bonds = record.system["bonds"]
        facts["bonds"] = sorted(
            sorted(pair) for pair in zip(*(bonds[k].tolist() for k in ("atomi", "atomj")), strict=True)
        )
    positions = [np.stack([frame["atoms"][axis] for axis in "xyz"], axis=1) for frame in frames]
    box = frames[0].box
    return {"frames": positions, "facts": facts, "cell": None if box is None else cell_parameters(box.vectors)}


def same(mine: dict[str, Any], theirs: dict[str, Any], *, leave: tuple[str, ...] = ()) -> None:
    assert len(mine["frames"]) == len(theirs["frames"])
    for one, other in zip(mine["frames"], theirs["frames"], strict=True):
        # MDAnalysis has positions as float32
        assert np.allclose(one, np.array(other), rtol=1e-6, atol=1e-9)
    assert (mine["cell"] is None) == (theirs["cell"] is None)
    if mine["cell"] is not None:
        assert np.allclose(mine["cell"], theirs["cell"], rtol=1e-6)
    for name, values in theirs["facts"].items():
        if name in leave:
            continue
        if name in ("occupancy", "b_factor"):
            assert np.allclose(mine["facts"][name], values, atol=1e-6), name
        else:
            assert mine["facts"][name] == values, name


def melt() -> Record:
    """A liquid in a tilted cell, with bonds and charges, as no PDB file it came from."""
    rng = np.random.default_rng(3)
    count, frames = 30, 3
    names = np.array(["O", "H1", "H2"] * (count // 3), np.dtypes.StringDType())
    system = Frame(
        {
            "atoms": Block(
                {
                    "id": np.arange(1, count + 1, dtype=np.uint64),
                    "name": names,
                    "element": np.array(["O", "H", "H"] * (count // 3), np.dtypes.StringDType()),
                    "res_name": np.array(["HOH"] * count, np.dtypes.StringDType()),
                    "res_id": np.repeat(np.arange(1, count // 3 + 1, dtype=np.uint64), 3),
                    "chain": np.array(["W"] * count, np.dtypes.StringDType()),
                    "occupancy": np.full(count, 0.5),
                    "b_factor": np.round(rng.random(count) * 90, 2),
                }
            ),
            "bonds": Block(
                {
                    "atomi": np.repeat(np.arange(0, count, 3, dtype=np.uint64), 2),
                    "atomj": np.array([n for n in range(count) if n % 3], np.uint64),
                }
            ),
        },
        {"units": {"length": "angstrom"}},
    )
    vectors = np.array([[20.0, 3.0, 0.0], [0.0, 21.0, 0.0], [0.0, 0.0, 22.0]])
    states = [
        Frame(
            {"atoms": Block({axis: np.round(rng.normal(size=count) * 30, 3) for axis in "xyz"})},
            box=Box(vectors),
            step=number,
        )
        for number in range(frames)
    ]
    return Record(system=system, trajectory=MemoryTrajectory(states))


@pytest.mark.slow
@pytest.mark.parametrize("peer", list(PEERS))
def test_a_trajectory_is_read_the_same(peer: str, tmp_path: Path) -> None:
    path = tmp_path / "melt.pdb"
    write_record(melt(), path)
    # CONECT stands behind the last model, where chemfiles does not look for it
    same(ours(path), ask(peer, path), leave=("bonds",))


@pytest.mark.slow
@pytest.mark.parametrize("peer", list(PEERS))
@pytest.mark.parametrize("name", ["gemmi_5wkd.pdb", "mda_1hvr.pdb", "parmed_2koc.pdb", "cf_1bcu.pdb"])
def test_exports_of_real_files_are_read_the_same(peer: str, name: str, corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.pdb"
    convert(corpus / "files/pdb" / name, path)
    # chemfiles adds the bonds of standard residues; ASE knows no placeholder for "no cell"
    same(ours(path), _without_placeholder(ask(peer, path)), leave=("bonds",))


def _without_placeholder(answer: dict[str, Any]) -> dict[str, Any]:
    if answer["cell"] is not None and np.allclose(answer["cell"], [1, 1, 1, 90, 90, 90]):
        answer["cell"] = None
    return answer


@pytest.mark.parametrize("peer", ["gemmi", "MDAnalysis"])
def test_mmcif_is_read_the_same(peer: str, tmp_path: Path) -> None:
    path = tmp_path / "melt.cif"
    write_record(melt(), path)
    answer = ask(peer, path)
    if peer == "MDAnalysis":
        # it reads the first model only
        answer["frames"] += [frame.tolist() for frame in ours(path)["frames"][len(answer["frames"]) :]]
    same(ours(path), answer)


def test_bonds_of_one_model_are_read_by_chemfiles(tmp_path: Path) -> None:
    path = tmp_path / "one.pdb"
    record = melt()
    assert record.trajectory is not None
    record.trajectory = record.trajectory[:1]
    write_record(record, path)
    same(ours(path), ask("chemfiles", path))
