"""Many small files, or rows of a database, into one collection: `python migration.py DATA PEER_PYTHON [--rows N]`.

DATA/small_files has 20,000 extended XYZ files of 12 to 28 atoms, made when they are not there. Three tasks, each a
process of its own, one after another, so many times as asked for:

ours    `mrec migrate` with two workers: plan, read, encode, append, commit, index
script  ASE reads each file, pickles the Atoms into LMDB, a commit every 1,000
ase     ASE reads each file

With `--rows` DATA/rows_N.db takes their place, rows of 108 atoms with forces, energy and stress, and `ase` is a loop
over `select` and `toatoms`. A quarter of the rows is timed as well, in the same turn: what the other three quarters
take is the steady state, without the start of processes.

PEER_PYTHON is an interpreter with `ase` and `lmdb`. Whole processes are timed, their imports included; of all of them
the byte code is there already, as it is of whatever was installed and used once.
On a machine with other work the processors' seconds tell more than the clock: two workers want two free cores.
"""

import argparse
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
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
ROWS = """
import sys
from ase.db import connect
print(sum(len(row.toatoms()) for row in connect(sys.argv[1]).select()))
"""
#: Of each side the seconds by the clock and of the processors, run by run.
Figures = dict[str, list[tuple[float, float]]]
#: Rows that are made by ASE; the others repeat their numbers under ids of their own.
_MADE_ROWS = 3000


def make_rows(path: Path, count: int, peer: str) -> None:
    """The database."""
    part = path.with_name(f"part-{path.name}")
    part.unlink(missing_ok=True)
    made = f"from pathlib import Path; from ase_rows import make; make(Path({str(part)!r}), {min(count, _MADE_ROWS)})"
    script = f"import sys, types; sys.modules['molrec_convert'] = types.ModuleType('none'); {made}"
    subprocess.run([peer, "-c", script], check=True, cwd=Path(__file__).parent)
    with closing(sqlite3.connect(part)) as database:
        names = [row[1] for row in database.execute("PRAGMA table_info(systems)")]
        for first in range(_MADE_ROWS, count, _MADE_ROWS):
            own = {"id": f"id + {first}", "unique_id": f"substr(unique_id, 1, 24) || '{first:08x}'"}
            values = ", ".join(own.get(name, name) for name in names)
            most = min(_MADE_ROWS, count - first)
            database.execute(f"INSERT INTO systems SELECT {values} FROM systems WHERE id <= {most}")
        database.commit()
    part.rename(path)


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


def timed(command: list[str], cache: Path) -> tuple[float, float]:
    """Seconds by the clock, and of the processors, those of worker processes included; byte code is in `cache`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**environment, "PYTHONPYCACHEPREFIX": str(cache)},
    )
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def warm_up(peer: str, cache: Path) -> None:
    """Both sides once with very little, so that the byte code of all they load is there."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "few"
        make_files(files, 600)
        make_rows(Path(folder) / "few.db", 3, peer)
        for number, source in enumerate((files, Path(folder) / "few.db")):
            target = f"{folder}/{number}.mrec.lmdb"
            ours = [sys.executable, "-m", "molrec_convert.cli", "migrate", str(source), "-o", target]
            timed([*ours, "--units", "metal", "--workers", "2"], cache)
        timed([peer, "-c", SCRIPT, str(files), f"{folder}/b"], cache)
        timed([peer, "-c", ROWS, f"{folder}/few.db"], cache)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("peer")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, help="rows of a database in the place of files")
    options = parser.parse_args()
    rows = options.rows is not None
    if rows:
        sources = [options.data / f"rows_{count}.db" for count in (options.rows // 4, options.rows)]
    else:
        sources = [options.data / f"small_files_{options.count}"]
    for source in sources:
        if not source.exists():
            count = int(source.stem.rpartition("_")[2])
            make_rows(source, count, options.peer) if rows else make_files(source, count)
    theirs = {"ase": ROWS} if rows else {"script": SCRIPT, "ase": READING}
    figures: list[Figures] = [{name: [] for name in ("ours", *theirs)} for _ in sources]
    with tempfile.TemporaryDirectory(dir=options.data) as cache:
        warm_up(options.peer, Path(cache))
        for _ in range(options.runs):
            for source, found in zip(sources, figures, strict=True):
                with tempfile.TemporaryDirectory(dir=options.data) as folder:
                    ours = [sys.executable, "-m", "molrec_convert.cli", "migrate", str(source)]
                    ours += ["-o", f"{folder}/a.mrec.lmdb", "--units", "metal", "--workers", str(options.workers)]
                    found["ours"].append(timed(ours, Path(cache)))
                    for name, script in theirs.items():
                        theirs_ = [options.peer, "-c", script, str(source), f"{folder}/b"]
                        found[name].append(timed(theirs_, Path(cache)))
    for source, found in zip(sources, figures, strict=True):
        show(source.name, found)
    if rows:
        part, whole = figures
        rest = {
            name: [(b[0] - a[0], b[1] - a[1]) for a, b in zip(part[name], whole[name], strict=True)] for name in whole
        }
        show("steady state: the one less the other", rest)


def show(title: str, figures: Figures) -> None:
    """Medians, and their ratios to ours."""

    def median(name: str, which: int) -> float:
        return statistics.median(entry[which] for entry in figures[name])

    print(title)
    for name, seconds in figures.items():
        each = ", ".join(f"{clock:.1f}" for clock, _ in seconds)
        clock, processor = median(name, 0), median(name, 1)
        print(
            f"  {name:8s}{clock:8.1f} s {clock / median('ours', 0):5.1f} × ours ({each}); "
            f"processors {processor:6.1f} s {processor / median('ours', 1):5.1f} × ours"
        )


if __name__ == "__main__":
    main()
