"""What independent programs see in a PDB or mmCIF file: each function opens one with a program's own reader."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

__all__ = ["ALL", "CIF", "Seen", "see"]


@dataclass
class Seen:
    """Positions f[frames,n,3] in angstroms, lengths of the cell in angstroms, what each atom is; bonds as row pairs."""

    positions: Any
    cell: list[float] | None = None
    elements: list[str] | None = None
    names: list[str] | None = None
    residues: list[int] | None = None
    bonds: list[tuple[int, int]] | None = None
    occupancy: list[float] | None = field(default=None)


def _pairs(bonds: Any) -> list[tuple[int, int]]:
    return sorted((min(pair), max(pair)) for pair in bonds)


def parmed(path: Path) -> Seen:
    parmed = pytest.importorskip("parmed")

    found = parmed.load_file(str(path))
    atoms = found.atoms
    return Seen(
        found.get_coordinates(), None if found.box is None else found.box.tolist()[:3],
        [atom.element_name for atom in atoms], [atom.name for atom in atoms], [atom.residue.number for atom in atoms],
        _pairs((bond.atom1.idx, bond.atom2.idx) for bond in found.bonds), [atom.occupancy for atom in atoms],
    )  # fmt: skip


def openmm(path: Path) -> Seen:
    app = pytest.importorskip("openmm.app")
    unit = pytest.importorskip("openmm.unit")

    found = (app.PDBxFile if path.suffix == ".cif" else app.PDBFile)(str(path))
    atoms = list(found.topology.atoms())
    frames = [
        found.getPositions(asNumpy=True, frame=n).value_in_unit(unit.angstrom) for n in range(found.getNumFrames())
    ]
    cell = found.topology.getUnitCellDimensions()
    return Seen(
        np.array(frames), None if cell is None else list(cell.value_in_unit(unit.angstrom)),
        [atom.element.symbol if atom.element else "" for atom in atoms], None, [int(atom.residue.id) for atom in atoms],
        _pairs((bond[0].index, bond[1].index) for bond in found.topology.bonds()),
    )  # fmt: skip


def biotite(path: Path) -> Seen:
    fields = ["occupancy", "b_factor"]
    if path.suffix == ".cif":
        import biotite.structure.io.pdbx as pdbx

        found = pdbx.get_structure(pdbx.CIFFile.read(path), extra_fields=fields, include_bonds=True)
    else:
        import biotite.structure.io.pdb as pdb

        found = pdb.PDBFile.read(path).get_structure(extra_fields=fields, include_bonds=True, altloc="all")
    return Seen(
        found.coord, None if found.box is None else np.linalg.norm(found.box[0], axis=1).tolist(),
        [symbol.capitalize() for symbol in found.element.tolist()], found.atom_name.tolist(), found.res_id.tolist(),
        _pairs(tuple(pair) for pair in found.bonds.as_array()[:, :2].tolist()), found.occupancy.tolist(),
    )  # fmt: skip


def chemfiles(path: Path) -> Seen:
    import chemfiles

    chemfiles.set_warnings_callback(lambda text: None)
    with chemfiles.Trajectory(str(path)) as trajectory:
        frames = [trajectory.read_step(number) for number in range(trajectory.nsteps)]
    first = frames[0]
    numbers = [0] * len(first.atoms)
    for residue in first.topology.residues:
        for atom in residue.atoms:
            numbers[atom] = residue.id
    return Seen(
        np.array([frame.positions for frame in frames]), list(first.cell.lengths) if any(first.cell.lengths) else None,
        [atom.type.capitalize() for atom in first.atoms], [atom.name for atom in first.atoms], numbers,
        _pairs(tuple(pair) for pair in first.topology.bonds.tolist()),
    )  # fmt: skip


def gemmi(path: Path) -> Seen:
    import gemmi

    found = gemmi.read_structure(str(path))
    models = [[(atom, residue) for chain in model for residue in chain for atom in residue] for model in found]
    models = [sorted(model, key=lambda pair: pair[0].serial) for model in models]
    return Seen(
        np.array([[atom.pos.tolist() for atom, _ in model] for model in models]),
        list(found.cell.parameters[:3]) if found.cell.is_crystal() else None,
        [atom.element.name for atom, _ in models[0]], [atom.name for atom, _ in models[0]],
        [residue.seqid.num for _, residue in models[0]], None, [atom.occ for atom, _ in models[0]],
    )  # fmt: skip


def ase(path: Path) -> Seen:
    import ase.io

    images = ase.io.read(path, ":")
    first = images[0]
    assert len(ase.io.read(path)) == len(images[-1])
    return Seen(
        np.array([image.positions for image in images]), first.cell.lengths().tolist() if first.cell.rank else None,
        first.get_chemical_symbols(), None, first.arrays["residuenumbers"].tolist(), None,
        first.arrays["occupancy"].tolist(),
    )  # fmt: skip


def mdanalysis(path: Path) -> Seen:
    import MDAnalysis

    found = MDAnalysis.Universe(str(path))
    atoms = found.atoms
    cell = None if found.dimensions is None else found.dimensions.tolist()[:3]
    return Seen(
        np.array([atoms.positions.copy() for _ in found.trajectory]), cell, atoms.elements.tolist(),
        atoms.names.tolist(), atoms.resids.tolist(),
        _pairs(map(tuple, found.bonds.indices.tolist())) if hasattr(found, "bonds") else [], atoms.occupancies.tolist(),
    )  # fmt: skip


def openbabel(path: Path) -> Seen:
    pybel = pytest.importorskip("openbabel.pybel")

    pybel.ob.obErrorLog.SetOutputLevel(0)
    frames = list(pybel.readfile("mmcif" if path.suffix == ".cif" else "pdb", str(path)))
    molecule = frames[0]
    cell = getattr(molecule, "unitcell", None)
    bonds = [(bond.GetBeginAtomIdx() - 1, bond.GetEndAtomIdx() - 1) for bond in pybel.ob.OBMolBondIter(molecule.OBMol)]
    return Seen(
        np.array([[atom.coords for atom in frame.atoms] for frame in frames]),
        None if cell is None else [cell.GetA(), cell.GetB(), cell.GetC()],
        [pybel.ob.GetSymbol(atom.atomicnum) for atom in molecule.atoms], None, None, _pairs(bonds),
    )  # fmt: skip


def mdtraj(path: Path) -> Seen:
    import mdtraj

    found = mdtraj.load(str(path))
    atoms = list(found.topology.atoms)
    return Seen(
        found.xyz * 10, None if found.unitcell_lengths is None else (found.unitcell_lengths[0] * 10).tolist(),
        [atom.element.symbol for atom in atoms], None, [atom.residue.resSeq for atom in atoms],
        _pairs((one.index, other.index) for one, other in found.topology.bonds),
    )  # fmt: skip


def pymatgen(path: Path) -> Seen:
    """Through Open Babel: its own reader of CIF takes the items of small molecules only."""
    pytest.importorskip("openbabel.pybel")
    from pymatgen.io.babel import BabelMolAdaptor

    found = BabelMolAdaptor.from_file(str(path), "mmcif" if path.suffix == ".cif" else "pdb").pymatgen_mol
    return Seen(found.cart_coords[None], None, [site.species_string for site in found])


#: Readers of PDB files, and of mmCIF files.
ALL = {reader.__name__: reader for reader in (
    parmed, openmm, biotite, chemfiles, gemmi, ase, mdanalysis, openbabel, mdtraj, pymatgen,
)}  # fmt: skip
CIF = {name: reader for name, reader in ALL.items() if name != "ase"}


def see(program: str, path: Path) -> Seen:
    """Open a file with a program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ALL[program](path)
