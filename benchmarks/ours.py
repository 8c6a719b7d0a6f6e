"""One measured task of this package in a process of its own: `python ours.py TASK DATA SCRATCH`; prints the seconds."""

import json
import random
import resource
import shutil
import sys
import time
from pathlib import Path

import numpy as np
from make_inputs import write_big

import molrec_convert
from molrec_convert.conversion.convert import convert
from molrec_convert.model import BlockDeclaration, BlockUpdates, BoxUpdates, ColumnDeclaration, Declaration, FrameBatch
from molrec_convert.model.frame import Box
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

SIZES = {"melt": (32_000, 100), "small": (100, 20_000)}


def seconds(function, *args, **kwargs):
    start = time.perf_counter()
    function(*args, **kwargs)
    return time.perf_counter() - start


def warm(scratch, data, name, **kwargs):
    """Convert the first frames once before the clock starts, as the peers read them once."""
    sys.setswitchinterval(0.0005)  # as the command line does
    convert(beginning(scratch, data, name), scratch / "warm.mrec", overwrite=True, **kwargs)


def beginning(scratch, data, name):
    """A dump of the first frames, 2 MB and more."""
    path = scratch / f"first-{name}.dump"
    if not path.exists():
        text = (data / f"{name}.dump").open("rb").read(8_000_000)
        path.write_bytes(text[: text.index(b"ITEM: TIMESTEP", 2_000_000)])
    return path


def convert_all(data, scratch, name):
    warm(scratch, data, name)
    return seconds(convert, data / f"{name}.dump", free(scratch / "out.mrec"))


def convert_rounded(data, scratch, name):
    asked = {"columns": ["x", "y", "z"], "precision": 1e-3}
    warm(scratch, data, name, **asked)
    return seconds(convert, data / f"{name}.dump", free(scratch / "out.mrec"), **asked)


def free(target):
    """A name nothing has: what an earlier run made there is removed before the clock starts, as the peers do."""
    shutil.rmtree(target, ignore_errors=True)
    return target


def make_batches(name):
    """The frames of a benchmark as batches of about 32 MiB, the same numbers for every program."""
    rows, frames = SIZES[name]
    rng = np.random.default_rng(7)
    per = max(1, 32 * 2**20 // (rows * 24))
    for first in range(0, frames, per):
        n = min(per, frames - first)
        columns = {key: rng.random(n * rows) * 33.0 for key in "xyz"}
        yield FrameBatch(
            np.arange(first, first + n, dtype=np.int64) * 10,
            blocks={"atoms": BlockUpdates.uniform(n, rows, columns)},
            box=BoxUpdates.single(Box(np.eye(3) * 33.0)) if first == 0 else None,
        )


def store_write(data, scratch, name, precision=None):
    shutil.rmtree(scratch / "store.mrec", ignore_errors=True)
    rows, _ = SIZES[name]
    column = ColumnDeclaration("f64", precision=precision)
    declaration = Declaration({"atoms": BlockDeclaration(dict.fromkeys("xyz", column), rows=rows)})
    batches = list(make_batches(name))
    molrec_convert.write(molrec_convert.Record(status={"state": "running"}), scratch / "store.mrec")
    start = time.perf_counter()
    with TrajectoryWriter.create(scratch / "store.mrec", declaration) as writer:
        for batch in batches:
            writer.append(batch)
    return time.perf_counter() - start


def store_random(data, scratch, name):
    record = molrec_convert.open(scratch / "store.mrec")
    order = random.Random(3).sample(range(len(record.trajectory)), 100)

    def read():
        for index in order:
            atoms = record.trajectory[index]["atoms"]
            atoms["x"], atoms["y"], atoms["z"]

    return seconds(read)


def store_column(data, scratch, name):
    """One column of one frame, a hundred times."""
    record = molrec_convert.open(scratch / "store.mrec")
    order = random.Random(3).sample(range(len(record.trajectory)), 100)
    return seconds(lambda: [record.trajectory[index]["atoms"]["x"] for index in order])


def store_scan(data, scratch, name):
    record = molrec_convert.open(scratch / "store.mrec")

    def read():
        for batch in record.trajectory.batches():
            columns = batch.blocks["atoms"].columns
            columns["x"], columns["y"], columns["z"]

    return seconds(read)


def read_data(data, scratch, name):
    few = scratch / "few.data"
    write_big(few, chains=2000)
    sys.setswitchinterval(0.0005)  # as the command line does
    molrec_convert.read(few)
    return seconds(molrec_convert.read, data / f"{name}.data")


def write_data(data, scratch, name):
    few = scratch / "few.data"
    if not few.exists():
        read_data(data, scratch, name)
    with molrec_convert.read(few) as record:
        molrec_convert.write(record, scratch / "few-back.data", overwrite=True)
    with molrec_convert.read(data / f"{name}.data") as record:
        return seconds(molrec_convert.write, record, scratch / "back.data", overwrite=True)


def write_dump(data, scratch, name):
    """Read and write; what a conversion from a dump to a dump takes."""
    convert(beginning(scratch, data, name), scratch / "warm.dump", overwrite=True)
    return seconds(convert, data / f"{name}.dump", scratch / "back.dump", overwrite=True)


TASKS = {
    "convert-all": convert_all,
    "convert-1e-3": convert_rounded,
    "write-raw": store_write,
    "write-1e-3": lambda data, scratch, name: store_write(data, scratch, name, 1e-3),
    "read-data": read_data,
    "write-data": write_data,
    "write-dump": write_dump,
    "random": store_random,
    "column": store_column,
    "scan": store_scan,
}

if __name__ == "__main__":
    task, name = sys.argv[1].split(":")
    elapsed = TASKS[task](Path(sys.argv[2]), Path(sys.argv[3]), name)
    print(json.dumps({"seconds": elapsed, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
