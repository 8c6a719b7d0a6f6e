"""Measure collections of many records: `python collection_scale.py [--records N] [--readers N] [--seconds S]`.

A collection of N records of 20 atoms (positions, forces, atomic numbers, an energy) is merged from ten of a tenth,
which is timed against `cp` of the same files, both followed by `sync`. Then as many reader processes as asked for draw
random samples (`collection.sample`) from it, and from a collection of 10,000, in turn, four seconds before the clock
starts too: a process has to meet the pages of a file once, many of one and few of the other. Printed are samples per
second of all readers, their ratio, failures, and how the memory of a reader that is its own (RssAnon) grew as it read.
Only ratios within one run count.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import collection_store
import numpy as np

from molrec_convert import CollectionWriter, merge_collections, open_collection

ATOMS = 20
FEW = 10_000


def write(path, count, seed):
    collection_store.ATOMS = ATOMS
    records = collection_store.make_records(min(count, 200), np.random.default_rng(seed))
    with CollectionWriter.create(
        path, declaration=collection_store.DECLARATION, units={"length": "angstrom", "energy": "eV"}
    ) as writer:
        for number in range(count):
            writer.append(records[number % len(records)])


def timed(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def own_memory():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) / 1024


def read(path, seed, start, seconds, queue):
    draw = random.Random(seed)
    collection = open_collection(path)
    count = collection.n_frames
    while not start.is_set():
        for _ in range(200):
            collection.sample(draw.randrange(count))
    before = own_memory()
    done = failed = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(50):
            sample = collection.sample(draw.randrange(count))
            done += 1
            failed += len(sample["atoms/x"]) != ATOMS or "pe" not in sample
    queue.put((done, failed, own_memory() - before, before))


def readers(path, count, seconds, seed):
    context = multiprocessing.get_context("spawn")
    queue, start = context.Queue(), context.Event()
    workers = [context.Process(target=read, args=(path, seed + n, start, seconds, queue)) for n in range(count)]
    for worker in workers:
        worker.start()
    time.sleep(4)
    start.set()
    found = [queue.get(timeout=seconds + 120) for _ in workers]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    return found


def sync(*paths):
    subprocess.run(["sync", *map(os.fspath, paths)], check=True)


def compare_merge(folder, parts, runs):
    ratios = []
    for _ in range(runs):
        target = folder / "all.mrec.lmdb"
        target.unlink(missing_ok=True)
        copies = [folder / f"copy-{number}.mrec.lmdb" for number in range(len(parts))]

        def copy(copies=copies):
            for part, other in zip(parts, copies, strict=True):
                subprocess.run(["cp", part, other], check=True)
            sync(*copies)

        copying = timed(copy)
        for other in copies:
            other.unlink()
        merging = timed(lambda target=target: merge_collections(parts, target))
        ratios.append(copying / merging)
        size = target.stat().st_size / 1e6
        figures = f"cp {copying:.2f} s, merge {merging:.2f} s, cp / merge {ratios[-1]:.2f}"
        print(f"merge {len(parts)} files, {size:,.0f} MB: {figures}", flush=True)
    print(f"cp / merge, median {statistics.median(ratios):.2f}", flush=True)
    return folder / "all.mrec.lmdb"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="collection_scale"))
    try:
        few, part = folder / "few.mrec.lmdb", folder / "part.mrec.lmdb"
        write(few, FEW, 1)
        seconds = timed(lambda: write(part, arguments.records // 10, 2))
        print(f"writing {arguments.records // 10:,} records: {seconds:.1f} s", flush=True)
        many = compare_merge(folder, [part] * 10, arguments.runs)
        with open_collection(many) as collection:
            print(f"{len(collection):,} records, {os.path.getsize(many) / 1e9:.2f} GB", flush=True)
        rates = {few: [], many: []}
        for run in range(arguments.runs):
            # both from memory: what is compared is finding records, not a disk
            for path in rates:
                subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
            for path, found in rates.items():
                result = readers(path, arguments.readers, arguments.seconds, 100 * run)
                rate = sum(done for done, *_ in result) / arguments.seconds
                found.append(rate)
                grown, base = max(r[2] for r in result), max(r[3] for r in result)
                print(
                    f"{path.name}: {arguments.readers} readers, {rate:,.0f} samples/s, failures "
                    f"{sum(r[1] for r in result)}, own memory {base:.1f} MB, grown by {grown:.1f} MB at most",
                    flush=True,
                )
        print(f"many / few, median: {statistics.median(rates[many]) / statistics.median(rates[few]):.2f}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
