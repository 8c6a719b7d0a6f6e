"""The proof of a migration: 20,000 files of four formats and a database of 50,000 rows, killed 20 times.

    python migration_proof.py DATA [--files 20000] [--rows 50000] [--kills 20] [--workers 2]

DATA/proof_FILES_ROWS has the inputs, made when they are not there: a quarter each of extended XYZ, plain XYZ, PDB and
LAMMPS data files, of 8 to 24 atoms, and an `ase.db` with energies and forces (which needs `ase`). They are migrated
once without a disturbance, and once more with the whole process group killed (SIGKILL) at random moments and the same
command run again; both collections then have the same keys and values, to the byte. Printed: records per second, the
peak memory of all processes together (the sum of their VmHWM, pages of files and libraries counted in each of them, and
of it what is their own), kills and the time they took.
"""

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

ELEMENTS = {"H": 1.008, "C": 12.011, "N": 14.007, "O": 15.999}
OPTIONS = [
    *("--units", "metal", "--atom-style", "charge"),
    *(word for name in ("pe", "atoms/fx", "atoms/fy", "atoms/fz") for word in ("--fill", f"{name}=NaN")),
    *("--drop", "comment", "--drop", "occupancy", "--drop", "b_factor"),
]


def make_inputs(folder: Path, files: int, rows: int) -> None:
    """All of them; numbers drawn from a fixed seed."""
    draw = random.Random(0)
    makers = {"extxyz": _extxyz, "xyz": _xyz, "pdb": _pdb, "data": _data}
    for number in range(files):
        suffix, make = list(makers.items())[number * 4 // files]
        place = folder / "files" / suffix / f"{number // 1000:03d}"
        place.mkdir(parents=True, exist_ok=True)
        atoms = [
            (draw.choice("HCNO"), *(round(draw.uniform(0, 9), 3) for _ in range(3))) for _ in range(draw.randint(8, 24))
        ]
        (place / f"c{number:06d}.{suffix}").write_text(make(draw, atoms))
    import numpy as np
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.db import connect

    numbers = np.random.default_rng(0)
    with connect(folder / "rows.db") as database:
        for number in range(rows):
            count = int(numbers.integers(8, 25))
            atoms = Atoms(
                numbers.choice([1, 6, 7, 8], count), numbers.uniform(0, 9, (count, 3)), cell=[9.0, 9.0, 9.0], pbc=True
            )
            atoms.calc = SinglePointCalculator(
                atoms, energy=float(-numbers.random()), forces=numbers.normal(size=(count, 3))
            )
            database.write(atoms, key_value_pairs={"name": f"r{number}"})


def _extxyz(draw, atoms):
    head = (
        f'{len(atoms)}\nLattice="9.0 0.0 0.0 0.0 9.0 0.0 0.0 0.0 9.0" Properties=species:S:1:pos:R:3:forces:R:3 '
        f'energy={-draw.random():.10f} pbc="T T T"\n'
    )
    return head + "".join(
        f"{name:2s}{x:14.8f}{y:14.8f}{z:14.8f}" + "".join(f"{draw.uniform(-1, 1):14.8f}" for _ in range(3)) + "\n"
        for name, x, y, z in atoms
    )


def _xyz(draw, atoms):
    return f"{len(atoms)}\nmade by script\n" + "".join(f"{n:2s} {x:.6f} {y:.6f} {z:.6f}\n" for n, x, y, z in atoms)


def _pdb(draw, atoms):
    text = "CRYST1    9.000    9.000    9.000  90.00  90.00  90.00 P 1           1\n"
    for serial, (name, x, y, z) in enumerate(atoms, 1):
        text += f"HETATM{serial:5d}  {name:<3s} MOL A   1    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00          {name:>2s}\n"
    return text + "END\n"


def _data(draw, atoms):
    kinds = list(ELEMENTS)
    text = f"made by script\n\n{len(atoms)} atoms\n4 atom types\n\n0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n\nMasses\n\n"
    text += "".join(f"{number} {mass} # {name}\n" for number, (name, mass) in enumerate(ELEMENTS.items(), 1))
    text += "\nAtoms # charge\n\n"
    for serial, (name, x, y, z) in enumerate(atoms, 1):
        text += f"{serial} {kinds.index(name) + 1} {draw.uniform(-1, 1):.4f} {x} {y} {z}\n"
    return text


class Memory:
    """The most memory the processes of a group had, MB: the sum of their peaks, and of their own pages at one time."""

    def __init__(self) -> None:
        self.peak = self.own = 0.0

    def look(self, group: int) -> None:
        peak = own = 0
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                if os.getpgid(int(entry.name)) != group:
                    continue
                status = Path(entry.path, "status").read_text()
            except (OSError, ProcessLookupError):
                continue
            known = dict(line.split(":", 1) for line in status.splitlines() if line.startswith(("VmHWM", "RssAnon")))
            peak += int(known.get("VmHWM", "0").split()[0])
            own += int(known.get("RssAnon", "0").split()[0])
        self.peak, self.own = max(self.peak, peak / 1024), max(self.own, own / 1024)


def run(command: list[str], memory: Memory, seconds: float | None = None) -> bool:
    """Run a command, or kill its whole group after so many seconds; whether it ended by itself."""
    began = time.monotonic()
    child = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while child.poll() is None:
        if seconds is not None and time.monotonic() - began >= seconds:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return False
        memory.look(child.pid)
        time.sleep(0.05 if seconds is None else min(0.05, max(seconds - time.monotonic() + began, 0)))
    _, said = child.communicate()
    if child.returncode or "could not" in said:
        sys.exit(said)
    return True


def digest(path: Path) -> str:
    """Of all keys and values, in their order."""
    import lmdb

    found = hashlib.blake2b()
    with lmdb.open(os.fspath(path), subdir=False, lock=False, readonly=True) as store, store.begin() as transaction:
        for key, value in transaction.cursor():
            found.update(len(key).to_bytes(8, "little") + len(value).to_bytes(8, "little") + key + value)
    return found.hexdigest()


def remove(target: Path) -> None:
    for path in (target, target.with_name(f"{target.name.partition('.')[0]}.migration.jsonl")):
        path.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    inputs = asked.data / f"proof_{asked.files}_{asked.rows}"
    if not (inputs / "complete").exists():
        make_inputs(inputs, asked.files, asked.rows)
        (inputs / "complete").touch()
    whole, killed = asked.data / "whole.mrec.lmdb", asked.data / "killed.mrec.lmdb"
    sources = [str(inputs / "files"), str(inputs / "rows.db")]

    def command(target: Path) -> list[str]:
        program = [sys.executable, "-m", "molrec_convert.cli", "migrate", *sources, "-o", str(target)]
        return [*program, *OPTIONS, "--workers", str(asked.workers)]

    remove(whole)
    memory = Memory()
    began = time.monotonic()
    run(command(whole), memory)
    alone = time.monotonic() - began
    records = asked.files + asked.rows
    print(f"undisturbed: {records:,} records of {asked.files + 1:,} files in {alone:.1f} s, {records / alone:,.0f}/s")
    print(f"memory of all processes: {memory.peak:.0f} MB (sum of VmHWM), {memory.own:.0f} MB their own at one time")
    draw = random.Random(asked.seed)
    kills = rounds = 0
    began = time.monotonic()
    while kills < asked.kills or not rounds:
        remove(killed)
        rounds += 1
        while True:
            wait = draw.uniform(0, 2 * (1.5 + alone / max(asked.kills, 1))) if kills < asked.kills else None
            if run(command(killed), memory, wait):
                break
            kills += 1
        same = digest(whole) == digest(killed)
        print(f"killed {kills} times so far, {rounds} whole: {'equal, all keys and values' if same else 'NOT EQUAL'}")
        if not same:
            sys.exit(1)
    print(f"killed {kills} times: {time.monotonic() - began:.1f} s altogether; memory at most {memory.peak:.0f} MB")


if __name__ == "__main__":
    main()
