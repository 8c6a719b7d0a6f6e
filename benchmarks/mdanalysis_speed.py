"""MDAnalysis' files and records of them, interleaved: `python mdanalysis_speed.py FOLDER [--atoms N] [--frames N]`.

Trajectories of a random walk are made in FOLDER once. In each turn all tasks run one after the other; medians of wall
and processor seconds are printed as a Markdown table, each against MDAnalysis' own reader of the same frames.
"""

import argparse
import shutil
import statistics
import time
import warnings
from pathlib import Path

import MDAnalysis
import numpy as np

import molrec_convert
import molrec_mdanalysis  # noqa: F401 - registers the readers

FORMATS = ("dcd", "xtc")


def make(folder, atoms, frames):
    """A topology and the same frames in every format."""
    rng = np.random.default_rng(1)
    universe = MDAnalysis.Universe.empty(atoms, trajectory=True)
    universe.add_TopologyAttr("names", ["A"] * atoms)
    universe.add_TopologyAttr("resnames", ["X"])
    universe.add_TopologyAttr("resids", [1])
    universe.dimensions = [80, 80, 80, 90, 90, 90]
    start = rng.uniform(0, 80, (atoms, 3)).astype(np.float32)
    universe.atoms.positions = start
    top = folder / f"top{atoms}.gro"
    universe.atoms.write(str(top))
    made = {}
    for name in FORMATS:
        made[name] = folder / f"walk-{atoms}-{frames}.{name}"
        if made[name].exists():
            continue
        with MDAnalysis.Writer(str(made[name]), atoms) as writer:
            for index in range(frames):
                universe.atoms.positions = start = start + rng.normal(0, 0.05, (atoms, 3)).astype(np.float32)
                universe.trajectory.ts.time = index
                writer.write(universe.atoms)
    return top, made


def tasks(top, trajectory, record, chosen):
    """Name → what is timed; the record is made first. A conversion is one to a free name."""
    free = record.with_name(f"free-{record.name}")

    def convert(target=free):
        molrec_convert.convert([top, trajectory], target, from_format="mdanalysis")

    def through(universe):
        for _ in universe.trajectory:
            pass

    def here_and_there(universe):
        for index in chosen:
            universe.trajectory[index]

    shutil.rmtree(record, ignore_errors=True)
    convert(record)
    theirs, ours = MDAnalysis.Universe(str(top), str(trajectory)), MDAnalysis.Universe(str(record))
    return {
        "clear": lambda: shutil.rmtree(free, ignore_errors=True),
        "their pass": lambda: through(MDAnalysis.Universe(str(top), str(trajectory))),
        "convert": convert,
        "our pass": lambda: through(MDAnalysis.Universe(str(record))),
        "their random": lambda: here_and_there(theirs),
        "our random": lambda: here_and_there(ours),
    }


def timed(task):
    wall, processor = time.perf_counter(), time.process_time()
    task()
    return time.perf_counter() - wall, time.process_time() - processor


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--atoms", type=int, default=20_000)
    parser.add_argument("--frames", type=int, default=400)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.folder.mkdir(exist_ok=True)
    top, made = make(options.folder, options.atoms, options.frames)
    chosen = np.random.default_rng(2).permutation(options.frames)[:200].tolist()
    print("| task | MDAnalysis, s | ours, s | ours / MDAnalysis, wall | processor |\n|---|---|---|---|---|")
    for name, trajectory in made.items():
        known = tasks(top, trajectory, options.folder / f"{trajectory.stem}-{name}.mrec", chosen)
        found = {task: [] for task in known}
        for _ in range(options.runs):
            for task, run in known.items():
                found[task].append(timed(run))
        for title, ours, theirs in (
            ("conversion / opening and one pass", "convert", "their pass"),
            ("opening and one pass", "our pass", "their pass"),
            (f"{len(chosen)} frames in any order", "our random", "their random"),
        ):
            walls = [statistics.median(wall for wall, _ in found[task]) for task in (theirs, ours)]
            ratios = [
                statistics.median(a[k] / b[k] for a, b in zip(found[ours], found[theirs], strict=True)) for k in (0, 1)
            ]
            print(f"| {name}: {title} | {walls[0]:.3f} | {walls[1]:.3f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")


if __name__ == "__main__":
    main()
