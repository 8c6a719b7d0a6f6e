"""What independent programs see in the files of every format: each function opens one with a program's own reader."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lammps_runs
import numpy as np
from numpy.typing import NDArray
from pdb_readers import ALL as PDB_READERS
from pdb_readers import CIF as CIF_READERS

from molrec_convert.quantities.standard import QUANTITIES, full_tensor

__all__ = ["READERS", "UNITS", "Seen", "readers_of"]

#: What a program sees: quantity → values [frames, …] and their unit (None: the file's numbers).
Seen = dict[str, tuple[Any, str | None]]
#: Dimension → the unit in which physical values are compared where a program has no other: LAMMPS' metal units.
UNITS = {
    "length": "angstrom", "energy": "eV", "velocity": "angstrom/ps", "force": "eV/angstrom", "mass": "dalton",
    "charge": "e", "dipole": "e*angstrom", "charge*length": "e*angstrom", "pressure": "bar", "time": "ps",
    "energy/length**3": "eV/angstrom**3", "length**3": "angstrom**3",
}  # fmt: skip


def _stack(values: Sequence[Any]) -> NDArray[Any]:
    """Return values of frames as one array; a frame without any has NaN."""
    shape = np.shape(next(value for value in values if value is not None))
    return np.array([np.full(shape, np.nan) if value is None else value for value in values])


def _of_images(images: list[Any]) -> Seen:
    import ase.units

    seen: Seen = {
        "position": (np.array([image.positions for image in images]), "angstrom"),
        "element": ([image.get_chemical_symbols() for image in images], None),
    }
    if all(image.cell.rank == 3 for image in images):
        seen["cell"] = (np.array([image.cell.array for image in images]), "angstrom")
    if all(image.has("momenta") for image in images):
        seen["velocity"] = (np.array([image.get_velocities() * ase.units.fs for image in images]), "angstrom/fs")
        seen["momentum"] = (np.array([image.get_momenta() for image in images]), None)
    for name, quantity, unit in (
        ("initial_charges", "charge", "e"), ("initial_magmoms", "initial_magnetic_moment", None),
        ("masses", "mass", "dalton"),
    ):  # fmt: skip
        if all(image.has(name) for image in images):
            seen[quantity] = (np.array([image.arrays[name] for image in images]), unit)
    results = [{} if image.calc is None else image.calc.results for image in images]
    for name, quantity, unit in (
        ("energy", "energy", "eV"), ("free_energy", "free_energy", "eV"), ("forces", "force", "eV/angstrom"),
        ("charges", "computed_charge", "e"), ("magmoms", "magnetic_moment", None), ("energies", "atomic_energy", "eV"),
        ("magmom", "total_magnetic_moment", None), ("dipole", "total_dipole", "e*angstrom"),
        ("stress", "stress", "eV/angstrom**3"), ("stresses", "atomic_stress", "eV/angstrom**3"),
        ("polarization", "polarization", None), ("dielectric_tensor", "dielectric_tensor", None),
    ):  # fmt: skip
        found = [one.get(name) for one in results]
        if any(value is not None for value in found):
            if QUANTITIES[quantity].turning == "tensor":
                found = [None if value is None else full_tensor(np.asarray(value)) for value in found]
            seen[quantity] = (_stack(found), unit)
    _further(images, seen)
    return seen


def _further(images: list[Any], seen: Seen) -> None:
    """Add what ASE keeps by name: keys of `info`, columns of `arrays`."""
    infos = [{**image.info, **image.info.get("key_value_pairs", {}), **image.info.get("data", {})} for image in images]
    for key in dict.fromkeys(key for info in infos for key in info):
        found = [info.get(key) for info in infos]
        quantity = next((q for q in QUANTITIES.values() if q.key == key), None)
        if isinstance(next(value for value in found if value is not None), (str, dict, list)):
            seen[f"key {key}"] = (found, None)
        elif quantity is None:
            seen[f"key {key}"] = (_stack(found), None)
        elif quantity.name not in seen:
            values = _stack(found)
            if quantity.turning == "tensor":
                values = full_tensor(values)
            seen[quantity.name] = (values, UNITS.get(quantity.dimension))
    arrays = images[0].arrays
    for quantity in QUANTITIES.values():
        if quantity.columns and quantity.name not in seen and all(name in arrays for name in quantity.columns):
            columns = [np.array([image.arrays[name] for image in images]) for name in quantity.columns]
            seen[quantity.name] = (
                columns[0] if len(columns) == 1 else np.stack(columns, -1),
                UNITS.get(quantity.dimension),
            )
    for name in arrays:
        if all(name in image.arrays for image in images):
            seen[f"column {name}"] = ([image.arrays[name].tolist() for image in images], None)


def ase(path: Path, style: str) -> Seen:
    import ase.io

    if path.suffix == ".data":
        return _of_images([ase.io.read(path, format="lammps-data", units=style)])
    if path.suffix == ".lammpstrj":
        seen = _of_images(ase.io.read(path, ":", format="lammps-dump-text", units=style))
        seen.pop("energy", None)  # ASE says 0, though a dump has no energies
        return seen
    return _of_images(ase.io.read(path, ":", **({"format": "extxyz"} if path.suffix == ".xyz" else {})))


def ase_db(path: Path, style: str) -> Seen:
    import ase.db

    with ase.db.connect(path) as database:
        return _of_images([row.toatoms(add_additional_information=True) for row in database.select()])


def mdanalysis(path: Path, style: str) -> Seen:
    import MDAnalysis
    from MDAnalysis.lib.mdamath import triclinic_vectors

    seen: Seen = {}
    if path.suffix in (".dcd", ".xtc", ".trr", ".ncdf"):
        frames: Any = MDAnalysis.coordinates.core.get_reader_for(str(path))(str(path))
    else:
        kind = {".data": "DATA", ".lammpstrj": "LAMMPSDUMP", ".extxyz": "XYZ"}.get(path.suffix)
        topology = {} if kind is None else {"format": kind, "topology_format": kind}
        if kind == "DATA":
            word = (
                next(line for line in path.read_text().splitlines() if line.startswith("Atoms")).split("#")[1].strip()
            )
            columns = {
                "atomic": "id type x y z",
                "charge": "id type charge x y z",
                "full": "id resid type charge x y z",
            }
            topology["atom_style"] = columns.get(word, "id type x y z")
        universe = MDAnalysis.Universe(str(path), **topology)
        frames = universe.trajectory
        if kind is None and hasattr(universe.atoms, "elements"):
            seen["element"] = ([universe.atoms.elements.tolist()], None)
        if kind == "DATA" and hasattr(universe.atoms, "charges") and "charge" in topology["atom_style"]:
            seen["charge"] = ([universe.atoms.charges] * len(frames), "e")
        if path.suffix == ".gro":
            for attribute, column in (("names", "name"), ("resnames", "res_name"), ("resids", "res_id")):
                seen[f"column {column}"] = ([getattr(universe.atoms, attribute).tolist()], None)
    found: dict[str, list[Any]] = {}
    for ts in frames:
        found.setdefault("position", []).append(ts.positions.copy())
        found.setdefault("time", []).append(ts.time)
        if ts.dimensions is not None:
            found.setdefault("cell", []).append(triclinic_vectors(ts.dimensions))
        found.setdefault("velocity", []).append(ts.velocities.copy() if ts.has_velocities else None)
        found.setdefault("force", []).append(ts.forces.copy() if ts.has_forces else None)
    units = {"position": "angstrom", "cell": "angstrom", "velocity": "angstrom/ps", "force": "kJ/mol/angstrom"}
    raw = path.suffix in (".data", ".lammpstrj")
    if path.suffix not in (".dcd", ".xtc", ".trr", ".ncdf"):
        found.pop("time")
    found = {name: values for name, values in found.items() if any(value is not None for value in values)}
    seen |= {name: (_stack(values), None if raw else units.get(name, "ps")) for name, values in found.items()}
    if path.suffix == ".data" and "velocity" in seen:  # taken for angstroms a femtosecond, whatever the style
        seen["velocity"] = (seen["velocity"][0].astype(np.float64) / 1000.0, None)
    return seen


def chemfiles(path: Path, style: str) -> Seen:
    import chemfiles

    chemfiles.set_warnings_callback(lambda text: None)
    kind = {".data": "LAMMPS Data", ".lammpstrj": "LAMMPS", ".extxyz": "XYZ", ".ncdf": "Amber NetCDF"}.get(
        path.suffix, ""
    )
    with chemfiles.Trajectory(str(path), "r", kind) as trajectory:
        frames = [trajectory.read_step(number) for number in range(trajectory.nsteps)]
    seen: Seen = {"position": (np.array([frame.positions for frame in frames]), "angstrom")}
    if path.suffix in (".extxyz", ".xyz", ".pdb", ".cif"):
        seen["element"] = ([[atom.type.capitalize() for atom in frame.atoms] for frame in frames], None)
    if any(frames[0].cell.lengths) and path.suffix != ".xyz":
        seen["cell"] = (np.array([frame.cell.matrix for frame in frames]), "angstrom")
    if all(frame.has_velocities() for frame in frames):
        unit = None if path.suffix == ".lammpstrj" else "angstrom/ps"
        seen["velocity"] = (np.array([frame.velocities for frame in frames]), unit)
    return seen


def openbabel(path: Path, style: str) -> Seen:
    from openbabel import pybel

    pybel.ob.obErrorLog.SetOutputLevel(0)
    frames = list(pybel.readfile("xyz", str(path)))
    return {
        "position": (np.array([[atom.coords for atom in frame.atoms] for frame in frames]), "angstrom"),
        "element": ([[pybel.ob.GetSymbol(atom.atomicnum) for atom in frame.atoms] for frame in frames], None),
    }


def pymatgen(path: Path, style: str) -> Seen:
    if path.suffix == ".data":
        from pymatgen.io.lammps.data import LammpsData

        word = next(line for line in path.read_text().splitlines() if line.startswith("Atoms")).split("#")[1].strip()
        data = LammpsData.from_file(str(path), atom_style=word)
        seen: Seen = {
            "position": (data.atoms[["x", "y", "z"]].to_numpy(np.float64)[None], None),
            "cell": (np.diag([high - low for low, high in data.box.bounds])[None], None),
        }
        if "q" in data.atoms:
            seen["charge"] = (data.atoms["q"].to_numpy(np.float64)[None], None)
        if data.velocities is not None:
            seen["velocity"] = (data.velocities[["vx", "vy", "vz"]].to_numpy(np.float64)[None], None)
        return seen
    if path.suffix == ".lammpstrj":
        from pymatgen.io.lammps.outputs import parse_lammps_dumps

        frames = list(parse_lammps_dumps(str(path)))
        seen = {"step": (np.array([frame.timestep for frame in frames]), None)}
        for name, columns in (("position", "x y z"), ("velocity", "vx vy vz"), ("force", "fx fy fz"), ("charge", "q")):
            if all(set(columns.split()) <= set(frame.data.columns) for frame in frames):
                table = np.array([frame.data[columns.split()].to_numpy(np.float64) for frame in frames])
                seen[name] = (table[..., 0] if " " not in columns else table, None)
        return seen
    from pymatgen.io.xyz import XYZ

    molecules = XYZ.from_file(str(path)).all_molecules
    return {
        "position": (np.array([molecule.cart_coords for molecule in molecules]), "angstrom"),
        "element": ([[site.species_string for site in molecule] for molecule in molecules], None),
    }


def mdtraj(path: Path, style: str) -> Seen:
    import mdtraj.formats as formats

    if path.suffix == ".gro":
        import mdtraj

        found = mdtraj.load(str(path))
        return {"position": (found.xyz, "nm"), "cell": (found.unitcell_vectors, "nm")}
    kinds = {
        ".dcd": (formats.DCDTrajectoryFile, "angstrom"), ".xtc": (formats.XTCTrajectoryFile, "nm"),
        ".trr": (formats.TRRTrajectoryFile, "nm"), ".ncdf": (formats.NetCDFTrajectoryFile, "angstrom"),
        ".lammpstrj": (formats.LAMMPSTrajectoryFile, None),
    }  # fmt: skip
    opener, unit = kinds[path.suffix]
    with opener(str(path)) as file:
        read = file.read()
    xyz = read[0]
    seen: Seen = {"position": (xyz, unit)}
    if path.suffix in (".dcd", ".ncdf", ".lammpstrj"):
        lengths = read[1] if path.suffix in (".dcd", ".lammpstrj") else read[2]
        if lengths is not None:
            seen["cell"] = (np.array([np.diag(frame) for frame in lengths]), unit)
    else:
        seen["cell"] = (read[3], unit)
        seen["time"] = (read[1], "ps")
        seen["step"] = (read[2], None)
    return seen


def parmed(path: Path, style: str) -> Seen:
    if path.suffix == ".gro":
        import parmed as program

        found = program.load_file(str(path))
        seen: Seen = {
            "position": (found.get_coordinates(), "angstrom"),
            "cell": (np.array([np.diag(found.box[:3])]), "angstrom"),
        }
        if found.velocities is not None:
            seen["velocity"] = (found.velocities[None], "angstrom/ps")
        return seen
    from parmed.amber import NetCDFTraj

    file = NetCDFTraj.open_old(str(path))
    seen = {"position": (np.array(file.coordinates), "angstrom"), "time": (np.array(file.time), "ps")}
    if file.hasbox:
        seen["cell"] = (np.array([np.diag(frame[:3]) for frame in file.box]), "angstrom")
    if file.hasvels:
        seen["velocity"] = (np.array(file.velocities), "angstrom/ps")
    file.close()
    return seen


def openmm(path: Path, style: str) -> Seen:
    from openmm import app, unit

    found = app.GromacsGroFile(str(path))
    cell = found.getPeriodicBoxVectors()
    seen: Seen = {"position": (np.array([found.getPositions(asNumpy=True).value_in_unit(unit.nanometer)]), "nm")}
    if cell is not None:
        seen["cell"] = (np.array([cell.value_in_unit(unit.nanometer)]), "nm")
    return seen


def run_ase(path: Path, style: str) -> Seen:
    """ASE, of the data file of a run."""
    return ase(next(path.glob("*.data")), style)


def lammps(path: Path, style: str) -> Seen:
    """LAMMPS itself: of a data file `read_data`; of a run's directory its script."""
    run = path.is_dir()
    first = next(path.glob("*.data") if run else iter([path]))
    word = next(line for line in first.read_text().splitlines() if line.startswith("Atoms")).split("#")[1].strip()
    script = next(path.glob("in.*")).name if run else ""
    commands = (
        f"lmp.file({script!r})"
        if run
        else f"lmp.command('units {style}')\nlmp.command('atom_style {word}')\nlmp.command('read_data {path.name}')"
    )
    names = "x v q rmass mass mu image" if word not in ("atomic",) else "x v"
    code = f"""
{commands}
n = lmp.get_natoms()
ids = lmp.numpy.extract_atom("id")[:n]
order = ids.argsort()
out["cell"] = [[h - l for l, h in zip(*lmp.extract_box()[:2])]]
for name in {names.split()!r}:
    try:
        found = lmp.numpy.extract_atom(name)
    except Exception:
        found = None
    if found is None:
        continue
    if name == "mass":
        types = lmp.numpy.extract_atom("type")[:n]
        out[name] = [float(found.reshape(-1)[t]) for t in types[order]]
    else:
        out[name] = found[:n][order].tolist()
"""
    found = lammps_runs.lammps(path if run else path.parent, code)
    assert "error" not in found, found["error"]
    seen: Seen = {"cell": (np.array([np.diag(found["cell"][0])]), None), "position": (np.array([found["x"]]), None)}
    for name, quantity in (("v", "velocity"), ("q", "charge"), ("mass", "mass")):
        if name in found and (name != "v" or "Velocities" in first.read_text()):
            seen[quantity] = (np.array([found[name]]), None)
    return seen


def _structures(program: Callable[[Path], Any]) -> Callable[[Path, str], Seen]:
    def reader(path: Path, style: str) -> Seen:
        found = program(path)
        positions = np.asarray(found.positions)
        count = len(positions)
        seen: Seen = {"position": (positions, "angstrom")}
        if found.cell is not None:
            seen["cell"] = (np.array([np.diag(found.cell)] * count), "angstrom")
        if found.elements is not None and any(found.elements):
            seen["element"] = ([[symbol.capitalize() for symbol in found.elements]], None)
        if found.names is not None:
            seen["column name"] = ([found.names] * count, None)
        if found.residues is not None:
            seen["column res_id"] = ([found.residues] * count, None)
        if found.occupancy is not None:
            seen["occupancy"] = (np.array([found.occupancy] * count), None)
        return seen

    return reader


def gemmi_atoms(path: Path, style: str) -> Seen:
    """Gemmi, all that it says of an atom."""
    import gemmi

    found = gemmi.read_structure(str(path))
    models = [
        sorted(
            ((chain, residue, atom) for chain in model for residue in chain for atom in residue),
            key=lambda t: t[2].serial,
        )
        for model in found
    ]
    blank = {"\0": "", " ": ""}
    return {
        "b_factor": (np.array([[atom.b_iso for _, _, atom in model] for model in models]), None),
        "column altloc": ([[blank.get(atom.altloc, atom.altloc) for _, _, atom in model] for model in models], None),
        "column icode": ([[blank.get(r.seqid.icode, r.seqid.icode) for _, r, _ in model] for model in models], None),
        "column chain": ([[chain.name for chain, _, _ in model] for model in models], None),
        "column res_name": ([[residue.name for _, residue, _ in model] for model in models], None),
    }


#: Open Babel takes the models of an mmCIF file for one molecule and knows no CL, which wwPDB writes; pymatgen uses it.
_NO_CIF = ("mdanalysis", "openbabel", "pymatgen")
#: Format → the programs that read it. chemfiles 0.10 is not asked for data files: it never ends on labels of types.
READERS: dict[str, dict[str, Callable[[Path, str], Seen]]] = {
    "extxyz": {"ase": ase, "chemfiles": chemfiles, "openbabel": openbabel},
    "xyz": {"ase": ase, "MDAnalysis": mdanalysis, "chemfiles": chemfiles, "openbabel": openbabel, "pymatgen": pymatgen},
    "ase-db": {"ase": ase_db},
    "pdb": {**{name: _structures(read) for name, read in PDB_READERS.items()}, "gemmi ": gemmi_atoms},
    "mmcif": {
        **{name: _structures(read) for name, read in CIF_READERS.items() if name not in _NO_CIF},
        "gemmi ": gemmi_atoms,
    },
    "lammps-data": {"ase": ase, "MDAnalysis": mdanalysis, "pymatgen": pymatgen, "lammps": lammps},
    "lammps-dump": {
        "ase": ase, "MDAnalysis": mdanalysis, "chemfiles": chemfiles, "pymatgen": pymatgen, "mdtraj": mdtraj,
    },
    "lammps-run": {"lammps": lammps, "ase": run_ase},
    "dcd": {"MDAnalysis": mdanalysis, "mdtraj": mdtraj, "chemfiles": chemfiles},
    "xtc": {"MDAnalysis": mdanalysis, "mdtraj": mdtraj, "chemfiles": chemfiles},
    "trr": {"MDAnalysis": mdanalysis, "mdtraj": mdtraj, "chemfiles": chemfiles},
    "gro": {
        "MDAnalysis": mdanalysis, "mdtraj": mdtraj, "chemfiles": chemfiles, "parmed": parmed, "openmm": openmm,
        "ase": ase,
    },
    "ncdf": {"MDAnalysis": mdanalysis, "mdtraj": mdtraj, "chemfiles": chemfiles, "parmed": parmed},
}  # fmt: skip


def readers_of(format: str, style: str) -> dict[str, Callable[[Path, str], Seen]]:
    """Return the programs that read a format and are installed."""
    found = {}
    for name, read in READERS.get(format, {}).items():
        module = name.strip() if name != "mdanalysis" else "MDAnalysis"
        if module == "ase" and style == "lj" and format.startswith("lammps"):
            continue  # ASE has no reduced units
        if importlib.util.find_spec(module) is not None and (module != "lammps" or lammps_runs.available()):
            found[name] = read
    return found


def see(read: Callable[[Path, str], Seen], path: Path, style: str) -> Seen:
    """Open a file with a program that may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read(path, style)
        except BaseException as error:  # an error of chemfiles is no Exception
            if type(error).__module__.startswith("chemfiles"):
                raise ValueError(str(error)) from error
            raise
