"""Count the functions called for each further frame, atom, file, record: `counting_child.py FOLDER [NAME ...]`.

Each case is done with a small and a large input; what is printed is (calls of the large - calls of the small) / (how
many more there are), of Python functions and of functions in C together, in all threads. Where something is done for
many at once that is next to nothing, where a loop in Python goes over each it is several.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

Command = Callable[[], Any]


class Counted(NamedTuple):
    """`make(folder, n)` writes an input with n of a thing and returns what is done with it."""

    small: int
    large: int
    make: Callable[[Path, int], Command]


def mrec(*arguments: object) -> Command:
    from molrec_convert.cli import run

    def command() -> None:
        code = run([*map(str, arguments), "-q", "--overwrite"])
        if code != 0:
            raise SystemExit(f"{' '.join(map(str, arguments))}: exit code {code}")

    return command


def numbers(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    return [f"{draw.uniform(-9, 9):.6g}" for _ in range(count)]


def dump(path: Path, frames: int, atoms: int, shuffled: bool = False) -> Path:
    values = numbers(1, 3 * atoms * min(frames, 7))
    with path.open("w") as file:
        for frame in range(frames):
            file.write(f"ITEM: TIMESTEP\n{frame}\nITEM: NUMBER OF ATOMS\n{atoms}\nITEM: BOX BOUNDS pp pp pp\n")
            file.write("-9 9\n" * 3 + "ITEM: ATOMS id type x y z\n")
            order = list(range(atoms))
            if shuffled:
                random.Random(frame).shuffle(order)
            at = 3 * atoms * (frame % 7)
            for k in order:
                file.write(f"{k + 1} {k % 2 + 1} {' '.join(values[at + 3 * k : at + 3 * k + 3])}\n")
    return path


def extxyz(path: Path, counts: Iterable[int]) -> Path:
    values = numbers(2, 6000)
    with path.open("w") as file:
        for frame, atoms in enumerate(counts):
            file.write(f'{atoms}\nLattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3:forces:R:3 ')
            file.write(f"energy={values[frame % 97]}\n")
            for k in range(atoms):
                at = (6 * k + frame) % 5990
                file.write(f"{'HCNO'[k % 4]} {' '.join(values[at : at + 6])}\n")
    return path


def plain_xyz(path: Path, frames: int, atoms: int) -> Path:
    values = numbers(3, 3000)
    with path.open("w") as file:
        for frame in range(frames):
            file.write(f"{atoms}\nframe {frame}\n")
            for k in range(atoms):
                at = (3 * k + frame) % 2990
                file.write(f"{'HCNO'[k % 4]} {' '.join(values[at : at + 3])}\n")
    return path


def data(path: Path, atoms: int) -> Path:
    values = numbers(4, 3000)
    lines = [f"LAMMPS\n\n{atoms} atoms\n{atoms - 1} bonds\n1 atom types\n1 bond types\n\n-9 9 xlo xhi\n-9 9 ylo yhi"]
    lines.append("-9 9 zlo zhi\n\nMasses\n\n1 12.011\n\nAtoms # full\n")
    lines += [f"{k + 1} 1 1 0.5 {' '.join(values[k % 2900 : k % 2900 + 3])} 0 0 0" for k in range(atoms)]
    lines += ["\nVelocities\n", *(f"{k + 1} {' '.join(values[k % 2900 : k % 2900 + 3])}" for k in range(atoms))]
    lines += ["\nBonds\n", *(f"{k + 1} 1 {k + 1} {k + 2}" for k in range(atoms - 1))]
    path.write_text("\n".join(lines) + "\n")
    return path


def pdb(path: Path, models: int, atoms: int) -> Path:
    draw = random.Random(5)
    with path.open("w") as file:
        file.write("CRYST1   90.000   90.000   90.000  90.00  90.00  90.00 P 1           1\n")
        for model in range(models):
            file.write(f"MODEL     {model + 1:4d}\n" if models > 1 else "")
            for k in range(atoms):
                x, y, z = (draw.uniform(-90, 90) for _ in range(3))
                residue = k // 5 % 9999 + 1
                file.write(
                    f"ATOM  {k + 1:5d}  CA  GLY A{residue:4d}    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00           C  \n"
                )
            file.write("ENDMDL\n" if models > 1 else "")
        file.write("END\n")
    return path


def log(path: Path, rows: int) -> Path:
    values = numbers(6, 900)
    head = "LAMMPS (22 Jul 2025)\nunits real\nthermo 1\nrun 100\nPer MPI rank memory allocation = 3 | 3 | 3 Mbytes\n"
    body = "".join(f"{k:10d} {' '.join(values[k % 890 : k % 890 + 3])}\n" for k in range(rows))
    tail = f"Loop time of 1 on 1 procs for {rows} steps with 9 atoms\n"
    path.write_text(f"{head}   Step          Temp          PotEng         Press\n{body}{tail}")
    return path


def files(folder: Path, count: int, make: Callable[[Path, int], Path]) -> Path:
    folder.mkdir()
    for number in range(count):
        make(folder / f"f{number:04d}", number)
    return folder


def rows(path: Path, count: int) -> Path:
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.db import connect

    draw = random.Random(7)
    with connect(str(path)) as base:
        for number in range(count):
            atoms = Atoms("CH4", [[draw.uniform(-3, 3) for _ in range(3)] for _ in range(5)], cell=[9, 9, 9], pbc=True)
            atoms.calc = SinglePointCalculator(atoms, energy=draw.random(), forces=[[0.5] * 3] * 5)
            base.write(atoms, name=f"n{number}")
    return path


def converting(make: Callable[[Path, int], Path], *options: str, target: str = "out.mrec") -> Callable[..., Command]:
    return lambda folder, n: mrec("convert", make(folder, n), folder / target, *options)


def migrating(make: Callable[[Path, int], Path], *options: str) -> Callable[[Path, int], Command]:
    return lambda folder, n: mrec("migrate", make(folder, n), "-o", folder / "out.mrec.lmdb", "--workers", 1, *options)


def writing(make: Callable[[Path, int], Path], target: str, *options: str) -> Callable[[Path, int], Command]:
    """What is made is converted to a record first, and that written back out."""

    def prepare(folder: Path, n: int) -> Command:
        mrec("convert", make(folder, n), folder / "stored.mrec")()
        return mrec("convert", folder / "stored.mrec", folder / target, *options)

    return prepare


def collection(folder: Path, count: int, name: str = "made.mrec.lmdb") -> Path:
    source = extxyz(folder / f"{name}.extxyz", [5] * count)
    mrec("convert", source, folder / name, "--as", "collection", "--units", "metal")()
    return folder / name


def merging(folder: Path, n: int) -> Command:
    parts = [collection(folder, n // 2, f"part{k}.mrec.lmdb") for k in range(2)]
    return mrec("merge", *parts, "-o", folder / "out.mrec.lmdb")


def scanning(*columns: str) -> Callable[[Path, int], Command]:
    def prepare(folder: Path, n: int) -> Command:
        mrec("convert", dump(folder / "in.lammpstrj", n, 5), folder / "stored.mrec", "--precision", "1e-3")()

        def scan() -> None:
            import molrec_convert

            with molrec_convert.open(folder / "stored.mrec") as record:
                for batch in record.trajectory.batches(columns=list(columns)):
                    batch.blocks["atoms"].columns["x"].sum()

        return scan

    return prepare


CASES = {
    "dump frames": Counted(60, 240, converting(lambda f, n: dump(f / "in.lammpstrj", n, 5))),
    "dump frames at a precision": Counted(
        100, 500, converting(lambda f, n: dump(f / "in.lammpstrj", n, 5), "--precision", "1e-3")
    ),
    "dump frames in any order of atoms": Counted(
        100, 500, converting(lambda f, n: dump(f / "in.lammpstrj", n, 5, shuffled=True))
    ),
    "dump atoms": Counted(400, 1600, converting(lambda f, n: dump(f / "in.lammpstrj", 2, n))),
    "extended XYZ frames": Counted(60, 240, converting(lambda f, n: extxyz(f / "in.extxyz", [5] * n))),
    "extended XYZ frames of any size": Counted(
        60,
        240,
        converting(
            lambda f, n: extxyz(f / "in.extxyz", [2 + k % 5 for k in range(n)]),
            "--as",
            "collection",
            target="out.mrec.lmdb",
        ),
    ),
    "extended XYZ frames to a collection": Counted(
        60,
        240,
        converting(lambda f, n: extxyz(f / "in.extxyz", [5] * n), "--as", "collection", target="out.mrec.lmdb"),
    ),
    "extended XYZ atoms": Counted(400, 1600, converting(lambda f, n: extxyz(f / "in.extxyz", [n, n]))),
    "XYZ frames": Counted(60, 240, converting(lambda f, n: plain_xyz(f / "in.xyz", n, 5))),
    "XYZ atoms": Counted(400, 1600, converting(lambda f, n: plain_xyz(f / "in.xyz", 2, n))),
    "data file atoms": Counted(400, 1600, converting(lambda f, n: data(f / "in.data", n))),
    "PDB atoms": Counted(400, 1600, converting(lambda f, n: pdb(f / "in.pdb", 1, n))),
    "PDB models": Counted(20, 100, converting(lambda f, n: pdb(f / "in.pdb", n, 10))),
    "mmCIF atoms": Counted(
        400,
        1600,
        lambda f, n: (
            writing(lambda g, m: pdb(g / "in.pdb", 1, m), "made.cif")(f, n)(),
            mrec("convert", f / "made.cif", f / "out.mrec"),
        )[1],
    ),
    "log rows": Counted(60, 240, converting(lambda f, n: log(f / "log.lammps", n))),
    "migration of XYZ files": Counted(
        10,
        40,
        migrating(
            lambda f, n: files(f / "in", n, lambda p, k: extxyz(p.with_suffix(".extxyz"), [3 + k % 4])),
            "--units",
            "metal",
        ),
    ),
    "migration of dump files": Counted(
        10,
        40,
        migrating(
            lambda f, n: files(f / "in", n, lambda p, k: dump(p.with_suffix(".lammpstrj"), 1, 4)), "--units", "metal"
        ),
    ),
    "migration of PDB files": Counted(
        50, 150, migrating(lambda f, n: files(f / "in", n, lambda p, k: pdb(p.with_suffix(".pdb"), 1, 4)))
    ),
    "migration of data files": Counted(
        10,
        40,
        migrating(lambda f, n: files(f / "in", n, lambda p, k: data(p.with_suffix(".data"), 4)), "--units", "real"),
    ),
    "migration of the frames of an XYZ file": Counted(
        100, 500, migrating(lambda f, n: extxyz(f / "in.extxyz", [3 + k % 4 for k in range(n)]), "--units", "metal")
    ),
    "migration of the frames of a dump": Counted(
        100, 500, migrating(lambda f, n: dump(f / "in.lammpstrj", n, 5), "--split", "frames", "--units", "metal")
    ),
    "migration of rows of a database": Counted(
        50, 150, migrating(lambda f, n: rows(f / "in.db", n), "--units", "metal")
    ),
    "merging records": Counted(60, 240, merging),
    "record to record frames": Counted(60, 240, writing(lambda f, n: dump(f / "in.lammpstrj", n, 5), "out.mrec")),
    "writing dump frames": Counted(60, 240, writing(lambda f, n: dump(f / "in.lammpstrj", n, 5), "out.lammpstrj")),
    "writing dump atoms": Counted(400, 1600, writing(lambda f, n: dump(f / "in.lammpstrj", 2, n), "out.lammpstrj")),
    "writing extended XYZ atoms": Counted(
        1000, 5000, writing(lambda f, n: extxyz(f / "in.extxyz", [n, n]), "out.extxyz")
    ),
    "writing a data file's atoms": Counted(400, 1600, writing(lambda f, n: data(f / "in.data", n), "out.data")),
    "writing PDB atoms": Counted(400, 1600, writing(lambda f, n: pdb(f / "in.pdb", 1, n), "out.pdb")),
    "scanning frames at a precision": Counted(60, 240, scanning("x", "y", "z")),
    "scanning one column": Counted(60, 240, scanning("x")),
    "selecting records": Counted(
        100, 500, lambda f, n: mrec("select", collection(f, n), "n_atoms > 2", "-o", f / "out.mrec.lmdb")
    ),
}


def calls(command: Command) -> int:
    """Return how many functions a command calls, in all threads."""
    count = 0

    def counted(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    threading.setprofile(counted)
    sys.setprofile(counted)
    try:
        command()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count


def main(folder: Path, names: list[str]) -> None:
    found = {}
    for name in names or CASES:
        case, place = CASES[name], folder / name.replace(" ", "-")
        prepared = []
        for size in (case.large, case.small, case.large):
            inside = place / str(len(prepared))
            inside.mkdir(parents=True)
            prepared.append(case.make(inside, size))
        prepared[0]()  # what is loaded and kept the first time is not counted
        small, large = calls(prepared[1]), calls(prepared[2])
        found[name] = round((large - small) / (case.large - case.small), 3)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
