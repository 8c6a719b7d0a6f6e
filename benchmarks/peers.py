"""One measured task of a peer, run by the Python that has it: `python peers.py TASK DATA SCRATCH`; prints the seconds.

Peers: ovito (reader), molcrafts-molrs (reader, MrecWriter, MrecReader).
"""

import json
import os
import random
import resource
import shutil
import sys
import time
from pathlib import Path

os.environ["OVITO_GUI_MODE"] = "0"
SIZES = {"melt": (32_000, 100), "small": (100, 20_000)}


def ovito_read(data, scratch, name):
    import numpy as np
    from ovito.io import import_file

    def read(path):
        pipeline = import_file(str(path))
        for index in range(pipeline.source.num_frames):
            np.asarray(pipeline.source.compute(index).particles.positions)[0, 0]

    read(beginning(scratch, data, name))
    start = time.perf_counter()
    read(data / f"{name}.dump")
    return time.perf_counter() - start


def beginning(scratch, data, name):
    """A dump of the first frames, 2 MB and more: read once before the clock starts."""
    path = scratch / f"first-{name}.dump"
    if not path.exists():
        text = (data / f"{name}.dump").open("rb").read(8_000_000)
        path.write_bytes(text[: text.index(b"ITEM: TIMESTEP", 2_000_000)])
    return path


def ovito_read_data(data, scratch, name):
    import numpy as np
    from make_inputs import write_big
    from ovito.io import import_file

    def read(path):
        particles = import_file(str(path), atom_style="full").compute().particles
        np.asarray(particles.positions)[0, 0]

    write_big(scratch / "few.data", chains=2000)
    read(scratch / "few.data")
    start = time.perf_counter()
    read(data / f"{name}.data")
    return time.perf_counter() - start


def molrs_read_data(data, scratch, name):
    import molrs
    from make_inputs import write_big

    def read(path):
        molrs.io.read_lammps_data(path, atom_style="full")["atoms"]["x"]

    write_big(scratch / "few.data", chains=2000)
    read(scratch / "few.data")
    start = time.perf_counter()
    read(data / f"{name}.data")
    return time.perf_counter() - start


def molrs_convert(data, scratch, name):
    import molrs
    from molrs.io.mrec import MrecWriter, SequenceSchema

    def run(source):
        target = scratch / "molrs.mrec"
        shutil.rmtree(target, ignore_errors=True)
        declared = schema(SequenceSchema, SIZES[name][0], 1e-3)
        declared.declare_meta("timestep", "i64")
        # Its quicker way in for each: many small frames from bytes, large ones from the path.
        reader = molrs.io.lammps.LammpsDumpReader(source.read_bytes() if name == "small" else source)
        writer = MrecWriter(target, declared, durable=True)
        for index, frame in enumerate(reader):
            atoms = frame["atoms"]
            for key in list(atoms.keys()):
                if key not in "xyz":
                    del atoms[key]
            writer.append(frame, step=index)
        writer.close()

    run(beginning(scratch, data, name))
    start = time.perf_counter()
    run(data / f"{name}.dump")
    return time.perf_counter() - start


def schema(kind, rows, precision):
    declared = kind.from_frames([])
    declared.declare_block("atoms", rows)
    for key in "xyz":
        declared.declare_column("atoms", key, "f64")
        if precision:
            declared.declare_precision("atoms", key, precision)
    return declared


def store_write(data, scratch, name, precision=None):
    import molrs
    import numpy as np
    from molrs.io.mrec import MrecWriter, SequenceSchema

    target = scratch / "molrs-store.mrec"
    shutil.rmtree(target, ignore_errors=True)
    rows, count = SIZES[name]
    rng = np.random.default_rng(7)
    box = molrs.Box.cube(33.0)
    frames = []
    for _ in range(count):
        columns = {key: rng.random(rows) * 33.0 for key in "xyz"}
        frames.append(molrs.Frame({"atoms": columns}, box=box))
    start = time.perf_counter()
    writer = MrecWriter(target, schema(SequenceSchema, rows, precision), durable=True)
    for index, frame in enumerate(frames):
        writer.append(frame, step=index * 10)
    writer.close()
    return time.perf_counter() - start


def store_random(data, scratch, name):
    from molrs.io.mrec import MrecReader

    reader = MrecReader(scratch / "molrs-store.mrec")
    order = random.Random(3).sample(range(len(reader)), 100)
    start = time.perf_counter()
    for index in order:
        atoms = reader[index]["atoms"]
        atoms["x"], atoms["y"], atoms["z"]
    return time.perf_counter() - start


def store_scan(data, scratch, name):
    from molrs.io.mrec import MrecReader

    reader = MrecReader(scratch / "molrs-store.mrec")
    start = time.perf_counter()
    for frame in reader:
        atoms = frame["atoms"]
        atoms["x"], atoms["y"], atoms["z"]
    return time.perf_counter() - start


TASKS = {
    "ovito-read": ovito_read,
    "ovito-read-data": ovito_read_data,
    "molrs-read-data": molrs_read_data,
    "molrs-convert-1e-3": molrs_convert,
    "write-raw": store_write,
    "write-1e-3": lambda data, scratch, name: store_write(data, scratch, name, 1e-3),
    "random": store_random,
    "scan": store_scan,
}

if __name__ == "__main__":
    task, name = sys.argv[1].split(":")
    elapsed = TASKS[task](Path(sys.argv[2]), Path(sys.argv[3]), name)
    print(json.dumps({"seconds": elapsed, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
    sys.stdout.flush()
    os._exit(0)
