"""Many small files into one collection against what people do by hand: `python migration.py DATA PEER_PYTHON`.

DATA/small_files has 20,000 extended XYZ files of 12 to 28 atoms, made when they are not there. Three tasks, each a
process of its own, one after another, so many times as asked for:

ours    `mrec migrate` with two workers: plan, read, encode, append, commit, index
script  ASE reads each file, pickles the Atoms into LMDB, a commit every 1,000
ase     ASE reads each file

PEER_PYTHON is an interpreter with `ase` and `lmdb`. Whole processes are timed, their imports included.
On a machine with other work the processors' seconds tell more than the clock: two workers want two free cores.
"""

import argparse
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = """
import glob, pickle, sys
import lmdb
from ase.io import read
env = lmdb.open(sys.argv[2], subdir=False, map_size=2**34)
txn = env.begin(write=True)
for number, path in enumerate(sorted(glob.glob(sys.argv[1] + '/*/*.extxyz'))):
    txn.put(b'%010d' % number, pickle.dumps(read(path), protocol=5))
    if number % 1000 == 999:
        txn.commit()
        txn = env.begin(write=True)
txn.commit()
env.close()
"""
READING = """
import glob, sys
from ase.io import read
for path in sorted(glob.glob(sys.argv[1] + '/*/*.extxyz')):
    read(path)
"""


def make_files(folder: Path, count: int) -> None:
    """The files, a thousand in a directory; numbers as ASE writes them."""
    draw = random.Random(0)
    for number in range(count):
        place = folder / f"{number // 1000:03d}"
        place.mkdir(parents=True, exist_ok=True)
        atoms = draw.randint(12, 28)
        a, b, c = (10 + draw.random() for _ in range(3))
        lines = [
            f"{atoms}",
            f'Lattice="{a:.8f} 0.0 0.0 0.0 {b:.8f} 0.0 0.0 0.0 {c:.8f}" '
            f'Properties=species:S:1:pos:R:3:forces:R:3 energy={-100 * draw.random():.10f} pbc="T T T"',
        ]
        for _ in range(atoms):
            numbers = "".join(f"{draw.uniform(-5, 5):16.8f}" for _ in range(6))
            lines.append(f"{draw.choice('HCNO'):2s}{numbers}")
        (place / f"c{number:06d}.extxyz").write_text("\n".join(lines) + "\n")


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds by the clock, and of the processors, those of worker processes included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("peer")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    files = options.data / f"small_files_{options.count}"
    if not files.exists():
        make_files(files, options.count)
    figures: dict[str, list[tuple[float, float]]] = {"ours": [], "script": [], "ase": []}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(dir=options.data) as folder:
            ours = [sys.executable, "-m", "molrec_convert.cli", "migrate", str(files), "-o", f"{folder}/a.mrec.lmdb"]
            figures["ours"].append(timed([*ours, "--units", "metal", "--workers", str(options.workers)]))
            figures["script"].append(timed([options.peer, "-c", SCRIPT, str(files), f"{folder}/b.lmdb"]))
            figures["ase"].append(timed([options.peer, "-c", READING, str(files)]))
            shutil.rmtree(folder, ignore_errors=True)
            Path(folder).mkdir()

    def median(name: str, which: int) -> float:
        return statistics.median(entry[which] for entry in figures[name])

    for name, seconds in figures.items():
        each = ", ".join(f"{clock:.1f}" for clock, _ in seconds)
        clock, processor = median(name, 0), median(name, 1)
        print(
            f"{name:8s}{clock:8.1f} s {clock / median('ours', 0):5.1f} × ours ({each}); "
            f"processors {processor:6.1f} s {processor / median('ours', 1):5.1f} × ours"
        )


if __name__ == "__main__":
    main()
