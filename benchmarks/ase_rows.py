"""Rows of an ASE database: our batches and records against ASE's `select` and `toatoms`.

    python ase_rows.py [ROWS] [RUNS]

Each side reads all rows in turn, in one process, after one run of both that is not counted. Medians are printed.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from ase.build import bulk
from ase.calculators.singlepoint import SinglePointCalculator
from ase.db import connect

import molrec_convert


def make(path: Path, rows: int) -> None:
    draw = np.random.default_rng(0)
    with connect(path) as database:
        for number in range(rows):
            atoms = bulk("Cu", cubic=True).repeat(3)
            atoms.positions += draw.normal(size=(108, 3))
            atoms.calc = SinglePointCalculator(
                atoms, energy=float(number), forces=draw.normal(size=(108, 3)), stress=draw.normal(size=6)
            )
            database.write(atoms, name=f"r{number}", n=number)


def theirs(path: Path) -> int:
    return sum(len(row.toatoms()) for row in connect(path).select())


def batches(path: Path) -> int:
    with molrec_convert.read(path, as_="trajectory") as record:
        return sum(int(batch.blocks["atoms"].offset[-1]) for batch in record.trajectory.batches())


def records(path: Path) -> int:
    with molrec_convert.read(path) as collection:
        return sum(record.system["atoms"].count for record in collection)


def main(rows: int = 3000, runs: int = 7) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.db"
        make(path, rows)
        times = {side: [] for side in (theirs, batches, records)}
        for run in range(runs + 1):
            for side, found in times.items():
                start = time.perf_counter()
                assert side(path) == 108 * rows
                if run:
                    found.append(time.perf_counter() - start)
        medians = {side.__name__: statistics.median(found) for side, found in times.items()}
        for name, seconds in medians.items():
            print(f"{name:8} {seconds:.3f} s  {medians['theirs'] / seconds:.1f} x")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
