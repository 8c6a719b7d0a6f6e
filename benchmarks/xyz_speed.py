"""Extended XYZ against its peers, interleaved: `python xyz_speed.py DATA PEER_PYTHON [PAIR ...] [--runs N]`.

DATA is the folder `make_inputs.py` and `make_xyz.py` filled, PEER_PYTHON an interpreter with `extxyz` (its C reader,
which is used without the grammar of its second lines), `ase`, `chemfiles` and `molcrafts-molrs`. Each task runs in a
process of its own, ours and the peer's in turn; the clock starts after the imports and one pass over the first 2 MB.
Medians of wall seconds, and of the ratio peer / ours within one turn, are printed as a Markdown table, with the
ratio of processor seconds, which other work on the machine disturbs least.
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = {
    "small.extxyz, fixed width: read / extxyz, C": ("ours-read:small", "extxyz-read:small", 1.0),
    "small.extxyz: read / ASE": ("ours-read:small", "ase-read:small", 8.0),
    "small.extxyz: read / chemfiles": ("ours-read:small", "chemfiles-read:small", 1.0),
    "uneven.extxyz: read / extxyz, C": ("ours-read:uneven", "extxyz-read:uneven", 0.5),
    "small.extxyz: to .mrec / molrs": ("ours-convert:small", "molrs-convert:small", 3.0),
}


def beginning(scratch, source):
    """The whole frames in the first 2 MB."""
    path = scratch / f"first-{source.name}"
    if not path.exists():
        lines = source.open("rb").read(2_000_000).split(b"\n")
        at = 0
        while at + 2 < len(lines) and at + 2 + int(lines[at]) < len(lines):
            at += 2 + int(lines[at])
        path.write_bytes(b"\n".join(lines[:at]) + b"\n")
    return path


def ours_read(path, scratch):
    import molrec_convert

    sys.setswitchinterval(0.0005)  # as the command line does
    total = 0.0
    with molrec_convert.read(path) as record:
        for batch in record.trajectory.batches():
            total += sum(float(batch.blocks["atoms"].columns[axis].sum()) for axis in "xyz")
    return total


def ours_convert(path, scratch):
    from molrec_convert import convert

    sys.setswitchinterval(0.0005)
    convert(path, scratch / "ours.mrec", overwrite=True)


def extxyz_read(path, scratch):
    import extxyz

    return sum(float(frame.arrays["pos"].sum()) for frame in extxyz.iread_dicts(str(path), use_cleri=False))


def ase_read(path, scratch):
    import ase.io

    return sum(float(atoms.positions.sum()) for atoms in ase.io.iread(str(path), index=":", format="extxyz"))


def chemfiles_read(path, scratch):
    import chemfiles

    chemfiles.set_warnings_callback(lambda text: None)
    total = 0.0
    with chemfiles.Trajectory(str(path), "r", "XYZ") as source:
        for _ in range(source.nsteps):
            total += float(source.read().positions.sum())
    return total


def molrs_convert(path, scratch):
    """All columns it finds, as they are; the frames from bytes, its quicker way."""
    import molrs
    from molrs.io.mrec import MrecWriter, SequenceSchema

    target = scratch / "molrs.mrec"
    shutil.rmtree(target, ignore_errors=True)
    writer = None
    for index, frame in enumerate(molrs.io.xyz.XyzReader(path.read_bytes())):
        if writer is None:
            writer = MrecWriter(target, SequenceSchema.from_frames([frame]), durable=True)
        writer.append(frame, step=index)
    writer.close()


TASKS = {
    "ours-read": ours_read,
    "ours-convert": ours_convert,
    "extxyz-read": extxyz_read,
    "ase-read": ase_read,
    "chemfiles-read": chemfiles_read,
    "molrs-convert": molrs_convert,
}


def one(task, data, scratch):
    """Run one task and print what it took."""
    name, _, file = task.partition(":")
    source = data / f"{file}.extxyz"
    TASKS[name](beginning(scratch, source), scratch)
    wall, processor = time.perf_counter(), time.process_time()
    TASKS[name](source, scratch)
    taken = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor}
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
                statistics.median(peer[what] / mine[what] for mine, peer in turns) for what in ("seconds", "processor")
            ]
            peak = max(mine["peak_mb"] for mine, _ in turns)
            numbers = " | ".join(f"{number:.2f}" for number in (*middle, *ratios))
            print(f"| {name} | {numbers} | {goal} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
