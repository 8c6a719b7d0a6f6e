"""Extended XYZ against its peers, interleaved: `python xyz_speed.py DATA PEER_PYTHON [PAIR ...] [--runs N]`.

DATA is the folder `make_inputs.py` filled, PEER_PYTHON an interpreter with `extxyz` (its C reader,
which is used without the grammar of its second lines), `ase`, `chemfiles` and `molcrafts-molrs`. Each task runs in a
process of its own, ours and the peer's in turn; the clock starts after the imports and one pass over the first 2 MB.
Medians of wall seconds, and of the ratio peer / ours within one turn, are printed as a Markdown table, with the
ratio of processor seconds, which other work on the machine disturbs least.
"""

import shutil
import sys
import time

from interleaved import answer, main

PAIRS = {
    "small.extxyz, fixed width: read / extxyz, C": ("ours-read:small", "extxyz-read:small", 1.0),
    "small.extxyz: read / ASE": ("ours-read:small", "ase-read:small", 8.0),
    "small.extxyz: read / chemfiles": ("ours-read:small", "chemfiles-read:small", 1.0),
    "uneven.extxyz: read / extxyz, C": ("ours-read:uneven", "extxyz-read:uneven", 0.5),
    "small.extxyz: to .mrec / molrs": ("ours-convert:small", "molrs-convert:small", 3.0),
    "fifteen.extxyz, one frame of 15 atoms, 200 times: read / ASE": ("ours-again:fifteen", "ase-again:fifteen", 1.0),
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


def ours_again(path, scratch):
    return sum(ours_read(path, scratch) for _ in range(200))


def ase_again(path, scratch):
    return sum(ase_read(path, scratch) for _ in range(200))


def write_fifteen(data):
    """Write a file of one small frame, where there is none."""
    path = data / "fifteen.extxyz"
    if not path.exists():
        rows = (f"{'HCO'[k % 3]} {k * 0.731 - 5:.8f} {k * -0.317:.8f} {k * 0.119:.8f}\n" for k in range(15))
        cell = "9.5 0.0 0.0 0.0 9.5 0.0 0.0 0.0 9.5"
        path.write_text(f'15\nLattice="{cell}" Properties=species:S:1:pos:R:3 energy=-41.5\n' + "".join(rows))


TASKS = {
    "ours-again": ours_again,
    "ase-again": ase_again,
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
    answer(time.perf_counter() - wall, time.process_time() - processor)


if __name__ == "__main__":
    main(__file__, __doc__, PAIRS, one, write_fifteen)
