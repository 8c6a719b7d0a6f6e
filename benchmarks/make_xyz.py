"""The extended XYZ inputs of the benchmarks: `python make_xyz.py DIRECTORY`, after `make_inputs.py DIRECTORY`.

small.extxyz: the frames of small.dump (100 atoms × 20,000), every number `%16.8f` as ASE writes it (213 MB).
uneven.extxyz: a training set of 40,000 configurations of 15 to 25 atoms, shortest texts that read back to the same
double, parted by single blanks (100 MB).
"""

import sys
from pathlib import Path

import numpy as np

SYMBOLS = np.array(["X", "H", "C", "N", "O"])
ROW = "%-2s" + " %16.8f" * 6 + "\n"


def frames_of(dump: Path):
    """Cell lengths, types and positions of each frame of a dump with the columns `id type x y z`."""
    with dump.open() as file:
        while file.readline():
            lines = [file.readline() for _ in range(8)]
            count = int(lines[2])
            bounds = np.array([line.split()[:2] for line in lines[4:7]], dtype=float)
            rows = np.array([file.readline().split() for _ in range(count)], dtype=float)
            yield bounds[:, 1] - bounds[:, 0], rows[:, 1].astype(int), rows[:, 2:5]


def write_small(dump: Path, path: Path) -> None:
    """Fixed-width rows."""
    draw = np.random.default_rng(0)
    with path.open("w") as file:
        for number, (cell, types, places) in enumerate(frames_of(dump)):
            a, b, c = cell.tolist()
            energy = -100 - 0.01 * (number % 77)
            file.write(
                f'{len(types)}\nLattice="{a!r} 0.0 0.0 0.0 {b!r} 0.0 0.0 0.0 {c!r}" '
                f'Properties=species:S:1:pos:R:3:forces:R:3 energy={energy:.8f} pbc="T T T"\n'
            )
            values = np.hstack([places, draw.normal(size=places.shape)]).tolist()
            file.writelines(ROW % (s, *row) for s, row in zip(SYMBOLS[types].tolist(), values, strict=True))


def write_uneven(path: Path, count: int = 40_000) -> None:
    """Rows of any width, frames of any size."""
    draw = np.random.default_rng(1)
    with path.open("w") as file:
        for number in range(count):
            atoms = int(draw.integers(15, 26))
            values = (draw.normal(size=(atoms, 6)) * [3, 3, 3, 1, 1, 1]).tolist()
            symbols = draw.choice(SYMBOLS[1:], atoms).tolist()
            file.write(
                f"{atoms}\nProperties=species:S:1:pos:R:3:forces:R:3 energy={draw.normal():.12g} "
                f'name=mol{number} pbc="F F F"\n'
            )
            file.writelines(f"{s} {' '.join(map(repr, row))}\n" for s, row in zip(symbols, values, strict=True))


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    write_small(directory / "small.dump", directory / "small.extxyz")
    write_uneven(directory / "uneven.extxyz")
