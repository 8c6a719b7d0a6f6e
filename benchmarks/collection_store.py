"""Measure collections against databases of structures: `python collection_store.py [--records N] [--runs N]`.

Records of two kilobytes: 40 atoms with positions, forces, atomic numbers and an energy. Raw `lmdb` puts and gets values
of 2000 bytes, 1000 a transaction. `samples` are all columns of system and frame as arrays, and the energy, in a flat
dict; `arrays` the same through `Record` and `Frame`; `frame_arrays` those of the frame alone. `ase` and
`ase-db-backends` (`aselmdb`) are measured where they are installed. All in one process, interleaved; medians and ratios
are printed. Only ratios within one run count.
"""

import argparse
import os
import random
import shutil
import statistics
import struct
import tempfile
import time
from pathlib import Path

import lmdb
import numpy as np

from molrec_convert.model import (
    Block,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.stores.lmdb.reader import open_collection
from molrec_convert.stores.lmdb.writer import CollectionWriter

ATOMS = 40
#: So many different records are written over and over: a source hands them over warm from its parser, too.
POOL = 200
COLUMNS = ("x", "y", "z", "fx", "fy", "fz")
DECLARATION = Declaration(
    {"atoms": BlockDeclaration({name: ColumnDeclaration("f64") for name in COLUMNS})}, {"pe": MetaDeclaration("f64")}
)


def make_records(count, draw):
    records = []
    for n in range(min(count, POOL)):
        values = draw.normal(size=(6, ATOMS))
        state = Block({name: values[i] for i, name in enumerate(COLUMNS)})
        frame = Frame({"atoms": state}, Meta({"pe": float(values[0, 0])}), step=0)
        system = Frame({"atoms": Block({"atomic_number": draw.integers(1, 9, ATOMS).astype(np.uint64)})})
        trajectory = MemoryTrajectory([frame], DECLARATION)
        records.append(Record(meta={"record_id": f"r{n}"}, system=system, trajectory=trajectory))
    return [records[n % len(records)] for n in range(count)]


class Ours:
    name = "collection"

    def __init__(self, folder, records):
        self.path, self.records = folder / "c.mrec.lmdb", records

    def write(self):
        with CollectionWriter.create(
            self.path, declaration=DECLARATION, units={"length": "angstrom"}, overwrite=True
        ) as writer:
            for record in self.records:
                writer.append(record)

    def open(self):
        self.collection = open_collection(self.path)
        _ = self.collection.index

    def lazy(self, order):
        for n in order:
            self.collection.frame(n)

    def arrays(self, order):
        for n in order:
            record = self.collection[n]
            frame = record.trajectory[0]
            atoms = frame["atoms"]
            _ = [atoms[name] for name in COLUMNS], record.system["atoms"]["atomic_number"], frame.meta["pe"]

    def frame_arrays(self, order):
        for n in order:
            atoms = self.collection.frame(n)["atoms"]
            _ = [atoms[name] for name in COLUMNS]

    def samples(self, order):
        for n in order:
            self.collection.sample(n)


class RawLmdb:
    name = "raw lmdb"

    def __init__(self, folder, records):
        self.path, self.count, self.value = folder / "raw.lmdb", len(records), os.urandom(2000)

    def write(self):
        self.path.unlink(missing_ok=True)
        env = lmdb.open(os.fspath(self.path), subdir=False, lock=False, map_size=2**36, sync=False)
        for first in range(0, self.count, 1000):
            with env.begin(write=True) as transaction:
                for n in range(first, min(first + 1000, self.count)):
                    transaction.put(struct.pack(">Q", n), self.value, append=True)
        env.sync(True)
        env.close()

    def open(self):
        self.env = lmdb.open(os.fspath(self.path), subdir=False, lock=False, readonly=True)

    def lazy(self, order):
        with self.env.begin() as transaction:
            for n in order:
                transaction.get(struct.pack(">Q", n))


class Ase:
    def __init__(self, folder, records, suffix):
        from ase import Atoms
        from ase.calculators.singlepoint import SinglePointCalculator

        self.name, self.path = {"db": "ase.db", "aselmdb": "aselmdb"}[suffix], folder / f"a.{suffix}"
        pool = []
        for record in records[:POOL]:
            atoms = record.trajectory[0]["atoms"]
            made = Atoms(record.system["atoms"]["atomic_number"], np.stack([atoms[c] for c in "xyz"], 1))
            forces = np.stack([atoms[f"f{c}"] for c in "xyz"], 1)
            made.calc = SinglePointCalculator(made, energy=record.trajectory[0].meta["pe"], forces=forces)
            pool.append(made)
        self.atoms = [pool[n % len(pool)] for n in range(len(records))]

    def write(self):
        from ase.db import connect

        for path in self.path.parent.glob(self.path.name + "*"):
            path.unlink()
        with connect(self.path) as database:
            for atoms in self.atoms:
                database.write(atoms)

    def open(self):
        from ase.db import connect

        self.database = connect(self.path)

    def arrays(self, order):
        for n in order:
            row = self.database.get(n + 1)
            _ = row.numbers, row.positions, row.forces, row.energy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        measure(folder, arguments.records, arguments.runs)
    finally:
        shutil.rmtree(folder)


def measure(folder, count, runs):
    records = make_records(count, np.random.default_rng(0))
    peers = [Ours(folder, records), RawLmdb(folder, records)]
    for suffix in ("db", "aselmdb"):
        try:
            peers.append(Ase(folder, records, suffix))
            peers[-1].write()
        except (ImportError, ValueError) as error:
            print(f"{suffix} is left out: {error}")
            peers = [peer for peer in peers if getattr(peer, "path", folder).suffix != f".{suffix}"]
    times = {}
    order = list(range(count))
    random.Random(1).shuffle(order)
    for _ in range(runs):
        for peer in peers:
            for task in ("write", "lazy", "frame_arrays", "samples", "arrays"):
                if not hasattr(peer, task):
                    continue
                if task != "write" and not hasattr(peer, "opened"):
                    peer.open()
                    peer.opened = True
                wall, busy = time.perf_counter(), time.process_time()
                getattr(peer, task)(*([] if task == "write" else [order]))
                spent = time.perf_counter() - wall, time.process_time() - busy
                times.setdefault((peer.name, task), []).append(tuple(seconds / count * 1e6 for seconds in spent))
            if hasattr(peer, "opened"):
                close(peer)
    print("| who | task | µs a record | of them processor |")
    print("|---|---|---|---|")
    for (name, task), values in times.items():
        walls, processor = zip(*values, strict=True)
        print(f"| {name} | {task} | {statistics.median(walls):.2f} | {statistics.median(processor):.2f} |")
    show(times, ("collection", "write"), ("raw lmdb", "write"), 0.1)
    show(times, ("collection", "write"), ("ase.db", "write"), 30)
    show(times, ("collection", "lazy"), ("raw lmdb", "lazy"), 0.1)
    show(times, ("collection", "frame_arrays"), ("ase.db", "arrays"), 20)
    show(times, ("collection", "frame_arrays"), ("aselmdb", "arrays"), 20)
    show(times, ("collection", "samples"), ("ase.db", "arrays"), 20)
    show(times, ("collection", "samples"), ("aselmdb", "arrays"), 20)
    show(times, ("collection", "arrays"), ("ase.db", "arrays"), 20)
    show(times, ("collection", "arrays"), ("aselmdb", "arrays"), 20)
    opening(folder)


def close(peer):
    for name in ("collection", "env"):
        if hasattr(peer, name):
            getattr(peer, name).close()
    del peer.opened


def show(times, ours, theirs, goal):
    if ours in times and theirs in times:
        pairs = list(zip(times[ours], times[theirs], strict=True))
        wall, busy = (statistics.median(b[view] / a[view] for a, b in pairs) for view in (0, 1))
        print(f"{' '.join(ours)} / {' '.join(theirs)}: {wall:.3g} times as fast, {busy:.3g} by processor (goal {goal})")


def opening(folder):
    """Opening many records costs what opening few does."""
    empty = Record(system=Frame({"atoms": Block({"atomic_number": np.ones(1, np.uint64)})}))
    seconds = {}
    for count in (1000, 1_000_000):
        path = folder / f"{count}.mrec.lmdb"
        with CollectionWriter.create(path, declaration=Declaration(), units={}, index_columns=["smiles"]) as writer:
            for n in range(count):
                writer.append(empty, {"smiles": f"C{n}"})
        tries = []
        for _ in range(50):
            start = time.perf_counter()
            with open_collection(path) as collection:
                len(collection)
            tries.append(time.perf_counter() - start)
        start = time.perf_counter()
        with open_collection(path) as collection:
            _ = collection[count // 2]
        print(f"{count} records: opened in {statistics.median(tries) * 1e6:.0f} µs, ", end="")
        print(f"first record after {(time.perf_counter() - start) * 1e3:.1f} ms")
        seconds[count] = statistics.median(tries)
    print(f"opening a million / a thousand: {seconds[1_000_000] / seconds[1000]:.2f} (goal at most 3)")


if __name__ == "__main__":
    main()
