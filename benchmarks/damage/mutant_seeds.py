"""Small files of every format that is read, whole as they are: from `fixtures/`, and made here."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["ROOT", "Seed", "gather"]

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
#: Files above this size are no seeds: what is wrong with a large file is wrong with a small one.
LARGEST = 150_000


@dataclass(frozen=True)
class Seed:
    """Files that are one source: `files` by their names in a folder, of which `paths` are named to the reader.

    `format` is what the reader is told they are; `kind` the row of the table they are counted in. What stands in
    `altered` is mutated (empty: all), the rest stays as it is.
    """

    kind: str
    name: str
    files: dict[str, bytes]
    paths: tuple[str, ...]
    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    altered: tuple[str, ...] = ()
    store: bool = False


def gather(folder: Path) -> list[Seed]:
    """Return all seeds; `folder` is for those that are made."""
    sys.path.insert(0, str(ROOT / "docs"))
    makers: tuple[Callable[[Path], Iterator[Seed]], ...] = (
        _texts, _compressed, _runs, _series, _records, _collections, _ase, _mdanalysis, _migrations,
    )  # fmt: skip
    seeds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for maker in makers:
            own = folder / maker.__name__
            own.mkdir()
            seeds += [seed for seed in maker(own) if sum(map(len, seed.files.values())) <= LARGEST]
    return seeds


def _file(kind: str, path: Path, format: str | None, **options: Any) -> Seed:
    return Seed(kind, path.name, {path.name: path.read_bytes()}, (path.name,), format, options)


def _tree(path: Path, inside: Path) -> dict[str, bytes]:
    """All files of a folder, or the one file, by their names relative to `inside`."""
    found = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {p.relative_to(inside).as_posix(): p.read_bytes() for p in found}


def _store(kind: str, path: Path, format: str | None = None, **options: Any) -> Seed:
    return Seed(kind, path.name, _tree(path, path.parent), (path.name,), format, options, store=True)


def _texts(folder: Path) -> Iterator[Seed]:
    """Text files of the fixtures, and one of each kind that is not among them."""
    kinds = (
        ("lammps-data", "lammps-data", (".data", ".lmp", ".lammps"), {"units": "real"}),
        ("lammps-dump", "lammps-dump", (".lammpstrj", ".dump", ".yaml"), {"units": "real"}),
        ("xyz", None, (".xyz", ".extxyz"), {}),
        ("pdb", "pdb", (".pdb", ".ent"), {}),
        ("mmcif", "mmcif", (".cif",), {}),
    )
    for path in sorted(FIXTURES.rglob("*")):
        if not path.is_file() or path.name.startswith("in."):
            continue
        for kind, format, suffixes, options in kinds:
            if path.suffix in suffixes:
                yield _file(kind, path, format, **options)
    for pdb in (
        "corpus/files/pdb/off_ALA_GLY.pdb",
        "corpus/files/pdb/off_hexanol-water.pdb",
        "corpus/files/pdb/bio_disordered.pdb",
    ):
        target = folder / f"{Path(pdb).stem}.cif"
        _convert(FIXTURES / pdb, target)
        yield _file("mmcif", target, "mmcif")
    _convert(FIXTURES / "cases/41-xyz-qm9-layout/mol.xyz", folder / "mol.cif")
    yield _file("mmcif", folder / "mol.cif", "mmcif")
    models = folder / "models.pdb"
    _convert(FIXTURES / "cases/01-dump-rows-shuffled/shuffled.lammpstrj", models, units="real")
    yield _file("pdb", models, "pdb")


def _convert(source: Path, target: Path, **options: Any) -> None:
    import molrec_convert

    molrec_convert.convert(source, target, **options)


def _compressed(folder: Path) -> Iterator[Seed]:
    """Compressed text files: those of the fixtures, and two of each kind."""
    import zstandard

    for path in sorted(FIXTURES.rglob("*")):
        if path.suffix in (".gz", ".bz2", ".xz", ".zst"):
            yield _file("compressed", path, None)
    compressors: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard.compress,
    }  # fmt: skip
    sources = (
        ("cases/42-extxyz-quoting/quotes.extxyz", "extxyz"),
        ("corpus/files/pdb/off_ALA_GLY.pdb", "pdb"),
        ("corpus/files/lammps-data/own_charge.data", "lammps-data"),
        ("cases/07-dump-atom-count-changes/grow.lammpstrj", "lammps-dump"),
    )
    for text, format in sources:
        path = FIXTURES / text
        for suffix, compress in compressors.items():
            name = path.name + suffix
            options = {"units": "real"} if format.startswith("lammps") else {}
            yield Seed("compressed", name, {name: compress(path.read_bytes())}, (name,), format, options)


def _runs(folder: Path) -> Iterator[Seed]:
    """LAMMPS runs: directories of a script, data, dumps, a log, averages; any of their files is altered."""
    places = [FIXTURES / "water-run", *sorted((FIXTURES / "faults" / "lammps").iterdir())]
    places += sorted((FIXTURES / "corpus" / "energies").iterdir())
    for place in places:
        files = _tree(place, place.parent)
        if place.name == "water-run":
            files = {name: data[:6000] if name.endswith(".lammpstrj") else data for name, data in files.items()}
        scripts = tuple(
            name for name in files if name.rpartition("/")[2].startswith(("in", "coeffs", "ff1", "rest", "base"))
        )
        logs = tuple(name for name in files if name.endswith("log.lammps"))
        averages = tuple(name for name in files if name.endswith((".txt", ".cmap", ".eam", ".nb3b")))
        for kind, altered in (
            ("lammps-script", scripts),
            ("lammps-log", logs),
            ("lammps-run", averages),
            ("lammps-run", ()),
        ):
            if altered or kind == "lammps-run":
                yield Seed(kind, place.name, files, (place.name,), "lammps-run", {}, altered)
    for path in sorted((FIXTURES / "water-run").glob("*.data")):
        dump = (FIXTURES / "water-run/water.lammpstrj").read_bytes()[:6530]
        yield Seed(
            "lammps-run", "data and dump",
            {path.name: path.read_bytes(), "water.lammpstrj": dump},
            (path.name, "water.lammpstrj"), "lammps-run", {"units": "real"},
        )  # fmt: skip


def _series(folder: Path) -> Iterator[Seed]:
    """Averages of LAMMPS alone, as a file of their own."""
    from molrec_convert.plugins import formats

    if "lammps-ave-time" not in formats():
        return
    for name in ("ave", "chunk", "corr", "histo", "rdf"):
        yield _file("lammps-ave-time", FIXTURES / f"faults/lammps/A7_ave_files/{name}.txt", "lammps-ave-time")


def _records(folder: Path) -> Iterator[Seed]:
    """Records as directories and packed: every section, precision, masks, large and small shards, version 2."""
    from layout_examples.records import EXAMPLES

    from molrec_convert.formats import WriteContext
    from molrec_convert.stores.zarr.record_writer import pack, write_record

    for name, build in EXAMPLES.items():
        path = folder / f"{name}.mrec"
        write_record(build(), path, WriteContext(creator=False))
        pack(path, folder / f"{name}.mrec.zip")
    made: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("ragged", "cases/07-dump-atom-count-changes/grow.lammpstrj", {"units": "real"}),
        ("run", "faults/lammps/A7_ave_files", {"precision": 1e-3}),
        ("run2", "corpus/energies/class2", {"molrec_version": 2}),
        ("frames", "cases/48-extxyz-momenta-and-velocities/momenta.extxyz", {}),
    )
    for name, source, options in made:
        path = folder / f"{name}.mrec"
        _convert(FIXTURES / source, path, **options)
        pack(path, folder / f"{name}.mrec.zip")
    for path in sorted(folder.glob("*.mrec")):
        yield _store("record", path, "mrec")
    for path in sorted(folder.glob("*.mrec.zip")):
        yield _store("packed record", path, "mrec-zip")


def _collections(folder: Path) -> Iterator[Seed]:
    """Collections: of the layout page, of files, of runs; one file and sets of several."""
    from layout_examples.collection import write_conformers

    import molrec_convert

    write_conformers(folder / "conformers.mrec.lmdb")
    random = np.random.default_rng(7)
    rows = []
    for number in range(12):
        count = 2 + number % 3
        rows.append(
            f'{count}\nLattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3:forces:R:3 '
            f'energy={-number / 3} pbc="T T F" tag=t{number}'
        )
        rows += [" ".join(["CHO"[k % 3], *map(str, random.normal(size=6).round(4))]) for k in range(count)]
    xyz = folder / "rows.extxyz"
    xyz.write_text("\n".join(rows) + "\n")
    molrec_convert.convert(xyz, folder / "rows.mrec.lmdb", as_="collection")
    runs = [FIXTURES / "faults/lammps/A7_ave_files", FIXTURES / "faults/lammps/A1_forces_only_dump"]
    molrec_convert.convert(runs, folder / "runs.mrec.lmdb", each=True)
    molrec_convert.convert(xyz, folder / "set.mrec.lmdb", as_="collection", shard_records=5)
    for path in sorted(folder.glob("*.mrec.lmdb")):
        kind = "set of collections" if path.is_dir() else "collection"
        yield _store(kind, path, "mrec-lmdb")


def _ase(folder: Path) -> Iterator[Seed]:
    """Databases and trajectories as ASE writes them."""
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.constraints import FixAtoms, FixCartesian
    from ase.db import connect
    from ase.io import Trajectory

    random = np.random.default_rng(5)
    images = []
    for count in range(1, 6):
        atoms = Atoms(
            random.integers(1, 100, count), random.normal(size=(count, 3)), cell=random.normal(size=(3, 3)) * 9,
            pbc=random.integers(0, 2, 3) > 0, tags=random.integers(-9, 9, count), momenta=random.random((count, 3)),
        )  # fmt: skip
        atoms.calc = SinglePointCalculator(
            atoms, energy=-1 / 3 * count, forces=random.normal(size=(count, 3)), stress=random.normal(size=6),
            magmoms=random.random(count), dipole=random.random(3),
        )  # fmt: skip
        atoms.set_constraint([FixAtoms([0]), FixCartesian([0], [True, False, True])][: count % 3])
        images.append(atoms)
    for suffix in ("db", "json", "aselmdb"):
        path = folder / f"rows.{suffix}"
        with connect(path) as database:
            for number, atoms in enumerate(images):
                data = {"array": random.normal(size=(2, 3)), "text": "ü", "list": [1, 2.5, None], "deep": {"7": True}}
                keys = {"name": f"row {number}", "gap": 0.1 * number, "n": number, "ok": number > 2}
                database.write(atoms, keys, data if number % 2 else {"array": data["array"]})
            del database[2]
        kind = {"db": "ase-db sqlite", "json": "ase-db json", "aselmdb": "ase-db lmdb"}[suffix]
        yield _file(kind, path, "ase-db")
    for path in sorted((FIXTURES / "cases/87-asedb-row").glob("*.db")):
        yield _file("ase-db sqlite", path, "ase-db")
    with Trajectory(str(folder / "same.traj"), "w") as trajectory:
        for shift in range(3):
            moved = images[3].copy()
            moved.positions += shift
            trajectory.write(moved)
    with Trajectory(str(folder / "rows.traj"), "w") as trajectory:
        for atoms in images:
            trajectory.write(atoms)
    for path in (*sorted(folder.glob("*.traj")), FIXTURES / "corpus/files/ase-traj/own_MoS2.traj"):
        yield _file("ase-traj", path, "ase-traj")


def _mdanalysis(folder: Path) -> Iterator[Seed]:
    """Topologies and trajectories as MDAnalysis writes them, each beside one of the other."""
    import MDAnalysis

    universe = MDAnalysis.Universe.empty(
        6, 2, atom_resindex=[0, 0, 0, 1, 1, 1], residue_segindex=[0, 0], trajectory=True, velocities=True, forces=True
    )
    universe.add_TopologyAttr("name", ["OW", "HW1", "HW2"] * 2)
    universe.add_TopologyAttr("type", ["O", "H", "H"] * 2)
    universe.add_TopologyAttr("element", ["O", "H", "H"] * 2)
    universe.add_TopologyAttr("resname", ["SOL", "SOL"])
    universe.add_TopologyAttr("resid", [1, 2])
    universe.add_TopologyAttr("segid", ["A"])
    universe.add_TopologyAttr("chainID", ["A"] * 6)
    universe.add_TopologyAttr("charge", [-0.8, 0.4, 0.4] * 2)
    universe.add_TopologyAttr("mass", [15.999, 1.008, 1.008] * 2)
    random = np.random.default_rng(3)
    universe.atoms.positions = random.normal(size=(6, 3)) * 3
    universe.dimensions = [20, 20, 20, 90, 90, 90]
    for suffix in ("gro", "pdb", "crd", "xyz", "pqr"):
        try:
            universe.atoms.write(folder / f"six.{suffix}")
        except (ValueError, TypeError, AttributeError):
            continue
    for suffix in ("dcd", "xtc", "trr", "nc", "trj", "inpcrd", "h5md", "trz"):
        path = folder / f"six.{suffix}"
        try:
            with MDAnalysis.Writer(str(path), 6, **({"positions": True} if suffix == "h5md" else {})) as writer:
                for shift in range(3):
                    universe.atoms.positions += shift / 8
                    universe.trajectory.ts.frame = shift
                    writer.write(universe.atoms)
        except (ValueError, TypeError, AttributeError, NotImplementedError):
            path.unlink(missing_ok=True)
    gro = folder / "six.gro"
    for path in sorted(folder.iterdir()):
        kind = f"mdanalysis {path.suffix[1:]}"
        if path.suffix in (".gro", ".crd", ".pqr", ".mol2"):
            yield _file(kind, path, "mdanalysis")
        elif path.suffix not in (".pdb", ".xyz"):
            files = {path.name: path.read_bytes(), gro.name: gro.read_bytes()}
            yield Seed(kind, path.name, files, (gro.name, path.name), "mdanalysis", {}, (path.name,))
    for path in sorted((FIXTURES / "faults/dcd-by-lammps").iterdir()):
        if path.suffix == ".dcd":
            files = _tree(path.parent, path.parent)
            yield Seed(
                "mdanalysis dcd",
                path.name,
                files,
                ("full.data", path.name),
                "mdanalysis",
                {"units": "real"},
                (path.name,),
            )
    try:
        from MDAnalysisTests import datafiles
    except ImportError:
        return
    data = Path(datafiles.PSF).parent
    for name in (
        "grovels.gro", "two_water_gro_multiframe.gro", "coordinates/test.gro", "1a2c_ins_code.psf", "nosegid.psf",
        "parmed_ala3.psf", "281_small.tpr", "molecule.sdf", "fhiaims.in", "charges.pdb", "pdbqt_inputpdbqt.pdbqt",
        "Amber/ace_mbondi3.parm7", "Amber/test.inpcrd", "dlpoly/CONFIG_order", "dlpoly/HISTORY_order", "example.gsd",
        "gromos11/gromos11_traj_vac_1.trc.gz", "1A2C.pqr", "gms/surf2wat.gms", "coordinates/test.txyz",
        "coordinates/test.tng", "mol2/Molecule.mol2",
    ):  # fmt: skip
        path = data / name
        if path.is_file() and path.stat().st_size <= LARGEST:
            yield _file(f"mdanalysis {path.suffix[1:] or path.name.lower()}", path, "mdanalysis")


def _migrations(folder: Path) -> Iterator[Seed]:
    """Files of rules, with an input they hold for."""
    rules = (
        '[[input]]\nmatch = "*.extxyz"\nenergy-key = "energy"\nforces_key = "forces"\n',
        '[[input]]\nmatch = ["in/**/*.extxyz", "other.xyz"]\nunits = "real"\ndrop = ["note*"]\n'
        'rename = { total = "pe" }\n'
        'fill = { gap = "0.0" }\nonly = ["x", "y", "z", "pe"]\n\n'
        '[[input]]\nmatch = "a*"\nfrom = "extxyz"\nelements = ["C", "H"]\n',
    )
    frame = (FIXTURES / "faults/two.xyz").read_bytes()
    quoted = (FIXTURES / "cases/42-extxyz-quoting/quotes.extxyz").read_bytes()
    for number, text in enumerate(rules):
        name = f"rules{number}.toml"
        files = {name: text.encode(), "in/a.extxyz": quoted, "in/b.xyz": frame}
        yield Seed("rules", name, files, (name,), "rules", {}, (name,))
