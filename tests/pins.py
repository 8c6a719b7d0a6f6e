"""The pinned results: which inputs are converted how, and a digest of everything that comes out.

    python tests/pins.py [AREA ...]          # write the tables fixtures/pins/*.tsv anew, all or some areas
    python tests/pins.py --show 'CASE'       # print the nodes, keys and files of one case, each with its digest

A table has a line for each case: the arguments of `mrec convert` (or `mrec migrate`), then for each target its name,
the exit code, the kinds of the report's lines, and the digests of what was made. Of a record there are two: of its
values (arrays as the Zarr library decodes them, dtypes, attributes) and of the bytes of its files. The area `units` is
a table of factors.
"""

from __future__ import annotations

import contextlib
import csv
import fnmatch
import hashlib
import importlib.metadata
import io
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parent / "support"))
import corpus_index
import pinned_units

FIXTURES = Path(__file__).parent.parent / "fixtures"
TABLES = FIXTURES / "pins"
#: Target → ending of its name and further options. The first is made of the source, the others of that record.
RECORD = "mrec"
TARGETS: dict[str, tuple[str, ...]] = {
    "mrec": ("out.mrec",),
    "lmdb": ("out.mrec.lmdb",),
    "zip": ("out.mrec.zip",),
    "extxyz": ("out.extxyz", "--to", "extxyz"),
    "xyz": ("out.xyz", "--to", "xyz"),
    "dump": ("out.lammpstrj", "--to", "lammps-dump"),
    "data": ("out.data", "--to", "lammps-data"),
    "settings": ("out.settings", "--to", "lammps-settings"),
    "run": ("out-run", "--to", "lammps-run"),
    "pdb": ("out.pdb", "--to", "pdb"),
    "cif": ("out.cif", "--to", "mmcif"),
}
ATOMS = ("mrec", "lmdb", "extxyz", "xyz", "dump", "data", "pdb", "cif")
#: Libraries on which bytes, or what is read, depend: area (or "bytes") → distributions.
LIBRARIES = {
    "bytes": ("zstandard",),
    "mdanalysis": ("MDAnalysis", "MDAnalysisTests"),
    "ase": ("ase",),
    "pdb": ("gemmi",),
}


class Case(NamedTuple):
    """One conversion and what is made further of its record."""

    area: str
    arguments: tuple[str, ...]
    targets: tuple[str, ...]
    command: str = "convert"

    @property
    def name(self) -> str:
        """The arguments as one writes them."""
        words = " ".join(map(shlex.quote, self.arguments))
        return words if self.command == "convert" else f"{self.command}: {words}"


def cases() -> list[Case]:
    """Return every case, in the order of the tables."""
    return [*_files(), *_runs(), *_mdanalysis(), *_migrations()]


def _files() -> Iterator[Case]:
    """Each input file as it is, and with options that take another branch."""
    for path in sorted(inputs()):
        area = _area(path)
        if area is None:
            continue
        targets = ATOMS if area != "data" else (*ATOMS, "settings", "run")
        if path.endswith((".db", ".json")):
            targets = ("lmdb",)
        yield Case(area, (path,), targets)
        for number, options in enumerate(VARIANTS[area]):
            further = ("mrec",) if number else ("mrec", "lmdb", "extxyz", "dump")
            yield Case(area, (path, *options.split()), further if "mrec-lmdb" not in options else ("lmdb",))


VARIANTS: dict[str, tuple[str, ...]] = {
    "xyz": (
        "--units metal --target-units real",
        "--precision 1e-3 --guess-elements",
        "--as collection --units metal --target-units nano --to mrec-lmdb",
    ),
    "dump": (
        "--units real --target-units metal",
        "--precision 1e-3 --elements C,H,O,N",
        "--frames 0:2 --columns x,y,z --steps index",
    ),
    "data": ("--units real --target-units metal", "--molrec-version 2 --units real --guess-elements"),
    "pdb": ("--target-units nano", "--no-infer-elements --precision 1e-2"),
    "ase": ("--target-units real --to mrec-lmdb", "--record 0 --precision 1e-3"),
    "other": ("--units real --target-units metal",),
}
_KINDS = {
    "xyz": "*.xyz *.extxyz *.xyz.* *.extxyz.*",
    "dump": "*.lammpstrj *.lammpstrj.* *.dump *.dump.* *.yaml",
    "data": "*.data *.data.* *.lmp *.lammps",
    "pdb": "*.pdb *.pdb.* *.ent *.ent.* *.cif *.cif.*",
    "ase": "*.db *.traj *.json",
}


def _area(path: str) -> str | None:
    """Return the area of an input file; None for what is part of a run, or no input."""
    if path.startswith(("corpus/energies/", "faults/lammps/", "water-run/", "corpus/files/truth/", "damaged/")):
        return None
    if path.startswith("corpus/files/lammps-data/"):
        return "data"
    if path.startswith("corpus/files/lammps-dump/"):
        return "dump"
    name = Path(path).name
    for area, patterns in _KINDS.items():
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns.split()):
            return area
    return None


def _runs() -> Iterator[Case]:
    """LAMMPS runs: directories, and the files of one by themselves and together."""
    made = ("mrec", "lmdb", "data", "run", "settings", "extxyz", "dump")
    for top in ("corpus/energies", "faults/lammps"):
        for folder in sorted(path for path in (FIXTURES / top).iterdir() if path.is_dir()):
            yield Case("run", (f"{top}/{folder.name}",), made)
    for folder in ("class2", "charmm-cmap", "eam", "opls-hybrid", "yaff", "dreiding"):
        yield Case("run", (f"corpus/energies/{folder}", "--molrec-version", "2"), made)
        yield Case("run", (f"corpus/energies/{folder}", "--target-units", "si"), ("mrec", "run"))
    water = "water-run/water.data", "water-run/water.lammpstrj"
    yield Case("run", ("water-run",), (*made, "zip", "pdb", "cif"))
    yield Case("run", (water[0],), made)
    yield Case("run", (water[1],), made)
    yield Case("run", water, (*made, "zip"))
    yield Case("run", ("water-run/log.lammps",), ("mrec",))
    yield Case("run", (*water, "--precision", "1e-3", "--units", "real"), made)
    yield Case(
        "run", (*water, "--precision", "vx=1e-4", "--precision", "1e-2", "--compression", "gzip:5"), ("mrec", "dump")
    )
    yield Case("run", (*water, "--compression", "none", "--frames", "1,0,5:21:5"), ("mrec", "dump"))
    yield Case("run", (*water, "--compression", "zstd:9", "--target-units", "electron"), ("mrec", "dump"))
    yield Case("run", ("water-run", "--columns", "x,y,z", "--target-units", "length=nm,energy=kJ/mol"), made)
    yield Case("run", ("water-run/water.lammpstrj", "--as", "collection", "--to", "mrec-lmdb"), ("lmdb",))
    for units in ("real", "metal", "si", "cgs", "electron", "micro", "nano"):
        yield Case("run", ("water-run", "--target-units", units), ("mrec", "lmdb", "data", "extxyz"))
    for options in ("--digits 5", "--dump-units --dump-time", "--dump-columns id,type,xs,ys,zs", "--type-order H,O"):
        yield Case(
            "run",
            ("water-run/water.data", "water-run/water.lammpstrj", *options.split(), "--to", "lammps-dump"),
            ("dump",),
        )
    yield Case(
        "run",
        ("water-run/water.data", "--digits", "7", "--target-atom-style", "charge", "--to", "lammps-data"),
        ("data",),
    )
    yield Case("run", ("damaged/twelve.gro", "--precision", "1e-3"), ("mrec",))


#: Topology and trajectory files of `MDAnalysisTests.datafiles`, by their names there.
_UNIVERSES = (
    "GRO PSF PSF+DCD PRM PRMncdf+NCDF PRM+TRJ TPR2020_bonded mol2_molecules two_water_gro COORDINATES_GRO "
    "COORDINATES_TOPOLOGY+COORDINATES_TRR COORDINATES_XYZ+COORDINATES_TRR COORDINATES_TOPOLOGY+COORDINATES_XTC PQR "
    "PDBQT_input TXYZ ARC DMS_DOMAINS GMS_SYMOPT HoomdXMLdata ITP_tip5p PSF+NAMDBIN LAMMPSdata_PairIJ"
)


def _mdanalysis() -> Iterator[Case]:
    for name in _UNIVERSES.split():
        files = tuple(f"@{part}" for part in name.split("+"))
        frames = ("--frames", "0:4") if len(files) > 1 else ()
        yield Case("mdanalysis", (*files, "--from", "mdanalysis", *frames), ("mrec", "lmdb", "pdb", "extxyz"))
    pair = ("@COORDINATES_TOPOLOGY", "@COORDINATES_TRR", "--from", "mdanalysis")
    yield Case(
        "mdanalysis", (*pair, "--precision", "1e-3", "--target-units", "metal", "--guess", "elements"), ("mrec", "lmdb")
    )
    yield Case("mdanalysis", (*pair, "--no-guess", "--dt", "0.5"), ("mrec",))


def _migrations() -> Iterator[Case]:
    """Many inputs in one go: the batch ways of reading and encoding."""
    xyz, dump, pdb, data = (f"corpus/files/{kind}" for kind in ("xyz", "lammps-dump", "pdb", "lammps-data"))
    for arguments in (
        f"{xyz} --units metal --drop config_type",
        f"{xyz} --units metal --only pe,x,y,z",
        f"{xyz} --units metal --only pe,x,y,z --split files",
        f"{xyz} --only energy,forces,pe,fx,fy,fz --units real",
        f"{xyz} --only x --units metal --shard-records 4",
        f"{xyz} faults --from extxyz --units metal --only pe,fx,fy,fz --dedupe",
        f"{dump} --split frames --only x,y,z --units real --drop atoms/id",
        f"{dump} --split frames --units lj --drop atoms/id --drop atoms/mol",
        f"{dump} --split files --only x,y,z,vx,vy,vz --units metal --fill atoms/id=0",
        "water-run/water.lammpstrj --split frames --units real",
        "water-run/water.lammpstrj --split frames --units metal --elements O,H",
        f"{pdb} --split files --drop model",
        f"{pdb} --split frames --only x,y,z --units metal",
        f"{data} --units real --only x,y,z,charge",
        f"{data} --units metal --only x,y,z --guess-elements",
        "cases/87-asedb-row corpus/files/ase-db --units metal --only pe",
        "corpus/files/ase-db/g2.json corpus/files/ase-db/dcdft.json --units metal --group-by name",
        "water-run corpus/energies --units metal",
        "corpus/energies --units real --split files",
        "corpus/files --units metal --only x,y,z --split frames --drop atoms/id",
    ):
        yield Case("migrate", tuple(arguments.split()), ("lmdb",), "migrate")
    for arguments in (f"{xyz} --as records", f"{pdb} --as records", "cases --as records"):
        yield Case("migrate", tuple(arguments.split()), ("records",), "migrate")


def inputs() -> list[str]:
    """Return the input files by their paths in `fixtures`, those that packages bring among them."""
    own = [str(path.relative_to(FIXTURES)) for path in FIXTURES.rglob("*") if path.is_file()]
    packaged = [f"corpus/{row['path']}" for row in corpus_index.rows() if row["package"]]
    return sorted({path for path in (*own, *packaged) if not path.startswith(("pins/", "lammps/"))})


def gather(folder: Path) -> Path:
    """Copy all inputs to a new folder, those that packages bring in their places; return it."""
    shutil.copytree(FIXTURES, folder, ignore=shutil.ignore_patterns("pins", "__pycache__"))
    corpus_index.gather(FIXTURES / "corpus", folder / "corpus")
    return folder


def measure(case: Case, inputs: Path, digests: Callable[[Path], tuple[str, ...]]) -> dict[str, list[str]]:
    """Return target → exit code, kinds of the report's lines, and what `digests` gives of what was made."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(inputs):
        place = Path(scratch)
        arguments = [_found(word) for word in case.arguments]
        found = {}
        for number, target in enumerate(case.targets):
            name, *further = TARGETS.get(target, ("out",))
            made = place / name
            source = arguments if number == 0 or not (place / "out.mrec").exists() else [str(place / "out.mrec")]
            if number and source is arguments:
                break
            if case.command == "migrate":
                line = ["migrate", *arguments, "-o", str(made), "--workers", "1", "-q"]
            elif number == 0 and target != RECORD:
                line = ["convert", *arguments, str(made), "-q"]
            else:
                line = ["convert", *source, str(made), *further, "-q"]
            if target == "run" and (inputs / case.arguments[0]).is_dir():
                line += ["--potential-files", case.arguments[0]]
            report = place / "report.json"
            report.unlink(missing_ok=True)
            code = mrec([*line, "--report", str(report)])
            found[target] = [code, kinds_of(report), *(digests(made) if made.exists() else ())]
        return found


def _found(word: str) -> str:
    if not word.startswith("@"):
        return word
    from MDAnalysisTests import datafiles

    return str(getattr(datafiles, word[1:]))


def mrec(arguments: list[str]) -> str:
    """Run a command line in this process; return its exit code, and the kind of the error if there was one."""
    from molrec_convert.cli import run

    shown = io.StringIO()
    os.environ["MOLREC_TRACEBACK"] = "1"
    try:
        with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(io.StringIO()):
            return str(run(arguments))
    except Exception as error:
        return type(error).__name__
    finally:
        del os.environ["MOLREC_TRACEBACK"]


def kinds_of(report: Path) -> str:
    """Return how many lines of each kind a report has: `carried 3 dropped 1`."""
    if not report.exists():
        return "-"
    document = json.loads(report.read_text(encoding="utf-8"))
    counts = {key: len(value) for key, value in document.items() if isinstance(value, list) and value}
    return " ".join(f"{key} {count}" for key, count in sorted(counts.items())) or "-"


def digests(made: Path) -> tuple[str, ...]:
    """Return the digests of what was made: of a record its values and its bytes, of anything else one."""
    return (values_digest(made), *bytes_digest(made)) if (made / "zarr.json").is_file() else bytes_digest(made)


def bytes_digest(made: Path) -> tuple[str]:
    """Return the digest of all bytes stored, of a collection that of its keys and values."""
    parts = dict(contents(made))
    whole = hashlib.sha256()
    for name in sorted(parts):
        whole.update(f"{name} {parts[name]}\n".encode())
    return (whole.hexdigest()[:12],)


def contents(made: Path) -> Iterator[tuple[str, str]]:
    """Give the name and digest of each stored thing: of files their bytes, of a collection its keys and values."""
    if made.is_dir():
        for path in sorted(made.rglob("*")):
            if path.is_file():
                name = str(path.relative_to(made))
                for part, digest in contents(path):
                    yield f"{name}{part}", digest
    elif made.name.endswith(".lmdb"):
        import lmdb

        with lmdb.open(str(made), subdir=False, readonly=True, lock=False) as store, store.begin() as reading:
            for key, value in reading.cursor():
                if not key.startswith(b"index.crc32c"):
                    yield f":{key!r}", _digest(_without_version(value))
    elif made.name == "mrec-set.json":
        document = json.loads(made.read_bytes())
        for part in document["parts"]:
            del part["bytes"], part["crc32c"]  # of a file whose free space holds what memory held
        yield "", _digest(json.dumps(document).encode())
    else:
        yield "", _digest(_without_version(made.read_bytes()))


def values_digest(record: Path) -> str:
    """Return the digest of all a record holds, as the Zarr library reads it."""
    whole = hashlib.sha256()
    for line in values(record):
        whole.update(f"{line}\n".encode())
    return whole.hexdigest()[:12]


def values(record: Path) -> Iterator[str]:
    """Give a line for each node of a record: path, attributes, and of an array dtype, shape and the values' digest."""
    import zarr

    for path in sorted(record.rglob("zarr.json")):
        folder = path.parent
        document = json.loads(_without_version(path.read_bytes()))
        name = str(folder.relative_to(record))
        attributes = json.dumps(document.get("attributes"), sort_keys=True)
        if document["node_type"] == "group":
            yield f"{name} group {attributes}"
            continue
        array: Any = zarr.open_array(folder, mode="r")[...]
        raw = "\0".join(map(str, array.reshape(-1))).encode() if array.dtype.kind in "OUT" else array.tobytes()
        yield f"{name} {array.dtype.str} {array.shape} {_digest(raw)} {attributes}"
    others = [path for path in record.rglob("*") if path.is_file() and path.name != "zarr.json"]
    for path in sorted(others):
        if "c" not in path.relative_to(record).parts:
            yield f"{path.relative_to(record)} file {_digest(path.read_bytes())}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _without_version(data: bytes) -> bytes:
    """Return the bytes without the version of this package, which a record and written files state."""
    from molrec_convert import __version__

    return bytes(data).replace(__version__.encode(), b"VERSION") if b"molrec" in bytes(data[:4096]) else bytes(data)


def versions(area: str) -> dict[str, str]:
    """Return the installed versions of the libraries on which an area's results depend."""
    found = {}
    for name in LIBRARIES.get(area, ()):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def row(found: dict[str, list[str]]) -> list[str]:
    """Return the cells of a table's line."""
    return [f"{target}: {' | '.join(parts)}" for target, parts in found.items()]


def read_table(area: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the library versions a table was made with, and name of a case → cells."""
    path = TABLES / f"{area}.tsv"
    if not path.exists():
        return {}, {}
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return dict(part.split("==") for part in lines[0][1:]), {line[0]: line[1:] for line in lines[1:]}


def write_tables(areas: list[str]) -> None:
    """Measure the cases of some areas (none named: all) and write their tables."""
    TABLES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = gather(Path(scratch) / "inputs")
        for area in sorted({case.area for case in cases()}):
            if areas and area not in areas:
                continue
            stated = {**versions("bytes"), **versions(area)}
            lines = [["case", *(f"{name}=={version}" for name, version in stated.items())]]
            lines += [[case.name, *row(measure(case, folder, digests))] for case in cases() if case.area == area]
            text = "".join("\t".join(line) + "\n" for line in lines)
            (TABLES / f"{area}.tsv").write_text(text, encoding="utf-8")
            print(f"{area}: {len(lines) - 1} cases")
    if not areas or "units" in areas:
        (TABLES / "units.tsv").write_text("".join(f"{line}\n" for line in pinned_units.lines()), encoding="utf-8")


def show(name: str) -> None:
    """Print every stored thing of one case with its digest, target by target: compare it between two states."""
    case = next(case for case in cases() if case.name == name)
    with tempfile.TemporaryDirectory() as scratch:
        folder = gather(Path(scratch) / "inputs")

        def shown(made: Path) -> tuple[str, ...]:
            print(f"== {made.name}")
            for entry, digest in contents(made):
                print(f"{digest} {entry}")
            if (made / "zarr.json").is_file():
                print(*values(made), sep="\n")
            return ()

        for target, parts in measure(case, folder, shown).items():
            print(target, *parts)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        show(sys.argv[2])
    else:
        write_tables(sys.argv[1:])
