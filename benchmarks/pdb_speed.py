"""A PDB file of 99,999 atoms against its peers: `python pdb_speed.py DATA PEER_PYTHON [PAIR ...] [--runs N]`.

DATA is a folder the input is made in, PEER_PYTHON an interpreter with `biotite`, `gemmi` and `MDAnalysis`. Each task
runs in a process of its own, ours and the peer's in turn; the clock starts after the imports and one pass over the
first 20,000 rows. Medians of wall seconds, and of the ratio peer / ours within one turn, are printed as a Markdown
table, with the ratio of processor seconds, which other work on the machine disturbs least.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

PAIRS = {
    "99,999 atoms: read / biotite": ("ours-read", "biotite-read", 1.0),
    "99,999 atoms: read / gemmi, objects": ("ours-read", "gemmi-read", 1.0),
    "99,999 atoms: read / MDAnalysis": ("ours-read", "mdanalysis-read", 1.0),
    "99,999 atoms: write / biotite": ("ours-write", "biotite-write", 1.0),
}
COUNT = 99_999


def make_input(path):
    """Water in a cubic cell, as programs of molecular dynamics write it."""
    places = np.random.default_rng(0).random((COUNT, 3)) * 100
    with path.open("w") as file:
        file.write("CRYST1  100.000  100.000  100.000  90.00  90.00  90.00 P 1           1\n")
        for row, (x, y, z) in enumerate(places.tolist()):
            residue, kind = divmod(row, 3)
            file.write(
                f"HETATM{row + 1:5d} {(' O  ', ' H1 ', ' H2 ')[kind]} HOH {'ABCDEFGHIJ'[residue // 10000 % 10]}"
                f"{residue % 10000:4d}    {x:8.3f}{y:8.3f}{z:8.3f}{1.0:6.2f}{0.0:6.2f}          {'OHH'[kind]:>2}  \n"
            )
        file.write("END\n")


def ours_read(path, scratch):
    import molrec_convert

    with molrec_convert.read(path) as record:
        atoms = record.trajectory[0]["atoms"]
        record.system["atoms"]["name"][0]
        return float(atoms["x"].sum())


def ours_write(path, scratch):
    import molrec_convert

    with molrec_convert.read(path) as record:
        start = time.perf_counter()
        molrec_convert.write(record, scratch / "ours.pdb", overwrite=True)
        return time.perf_counter() - start


def biotite_read(path, scratch):
    import biotite.structure.io.pdb as pdb

    fields = ["atom_id", "b_factor", "occupancy", "charge"]
    return float(pdb.PDBFile.read(str(path)).get_structure(model=1, extra_fields=fields).coord.sum())


def biotite_write(path, scratch):
    import biotite.structure.io.pdb as pdb

    fields = ["atom_id", "b_factor", "occupancy", "charge"]
    atoms = pdb.PDBFile.read(str(path)).get_structure(model=1, extra_fields=fields)
    start = time.perf_counter()
    file = pdb.PDBFile()
    file.set_structure(atoms)
    file.write(str(scratch / "biotite.pdb"))
    return time.perf_counter() - start


def gemmi_read(path, scratch):
    import gemmi

    return gemmi.read_pdb(str(path))


def mdanalysis_read(path, scratch):
    import MDAnalysis

    universe = MDAnalysis.Universe(str(path))
    return float(universe.atoms.positions.sum())


TASKS = {
    "ours-read": ours_read,
    "ours-write": ours_write,
    "biotite-read": biotite_read,
    "biotite-write": biotite_write,
    "gemmi-read": gemmi_read,
    "mdanalysis-read": mdanalysis_read,
}


def one(task, data, scratch):
    """Run one task and print what it took."""
    warnings.simplefilter("ignore")
    source = data / "water.pdb"
    first = scratch / "first.pdb"
    if not first.exists():
        lines = source.open().readlines()[:20_000]
        first.write_text("".join(lines) + "END\n")
    TASKS[task](first, scratch)
    wall, processor = time.perf_counter(), time.process_time()
    answer = TASKS[task](source, scratch)
    seconds = answer if task.endswith("write") else time.perf_counter() - wall
    taken = {"seconds": seconds, "processor": time.process_time() - processor}
    print(json.dumps({**taken, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def run(python, task, data, scratch):
    done = subprocess.run([python, __file__, "--one", task, data, scratch], capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise SystemExit(f"{task} failed:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("peer_python")
    parser.add_argument("pairs", nargs="*", help="parts of the names of the pairs to measure; all when none")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    if not (arguments.data / "water.pdb").exists():
        make_input(arguments.data / "water.pdb")
    print("| pair | ours, s | peer, s | peer / ours | processor, peer / ours | goal | our peak, MB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name, (ours, theirs, goal) in PAIRS.items():
            if arguments.pairs and not any(part in name for part in arguments.pairs):
                continue
            turns = [
                (
                    run(sys.executable, ours, arguments.data, scratch),
                    run(arguments.peer_python, theirs, arguments.data, scratch),
                )
                for _ in range(arguments.runs)
            ]
            middle = [statistics.median(turn[side]["seconds"] for turn in turns) for side in (0, 1)]
            ratios = [
                statistics.median(turn[1][key] / turn[0][key] for turn in turns) for key in ("seconds", "processor")
            ]
            peak = max(turn[0]["peak_mb"] for turn in turns)
            cells = [name, *(f"{value:.3f}" for value in middle), *(f"{value:.2f}" for value in ratios), goal]
            print(f"| {' | '.join(map(str, cells))} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
