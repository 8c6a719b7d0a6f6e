"""Pieces of work whose interruption leaves nothing lost: each small, each with all its commits."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import molrec_convert
from crashes import inputs
from crashes.trials import Promise
from molrec_convert import Frame, MemoryTrajectory, MetricsLog, Record
from molrec_convert.cli import run as command_line

#: Frames between automatic commits.
OFTEN = 7
_CLOCK = "2024-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class Workload:
    """A piece of work in the current folder.

    `prepare` makes its inputs; `targets` are the names it writes, each either complete or as it was before. `run` does
    it. `recover` does it again in a folder where it was interrupted; the results are as if it never was. `check` says
    what is wrong with a target that grows, for which so much was promised; `command`: whether it is one of the command
    line, whose errors are sentences.
    """

    name: str
    prepare: Callable[[Path], None]
    targets: tuple[str, ...]
    run: Callable[[Promise], int | None]
    recover: Callable[[random.Random], int | None]
    check: Callable[[Path, int], list[str]] | None = None
    command: bool = True


WORKLOADS: dict[str, Workload] = {}
#: Work that is not done with care: what the harness must find fault with.
CARELESS = "careless"


def _add(workload: Workload) -> None:
    WORKLOADS[workload.name] = workload


def _command(
    name: str,
    prepare: Callable[[Path], None],
    command: str,
    *targets: str,
    resumes: bool = False,
    replaces: bool = True,
    accepted: Sequence[int] = (0,),
) -> None:
    """A workload that is one command; called again it has to `--overwrite` a target that is there, may `--resume`.

    `replaces`: the command has the option --overwrite; `accepted`: exit codes of success.
    """
    words = command.split()

    def call(arguments: list[str]) -> int:
        code = command_line(arguments)
        return 0 if code in accepted else code

    def run(promise: Promise) -> int:
        return call(words)

    def recover(draw: random.Random) -> int:
        more = ["--resume"] if resumes and draw.random() < 0.7 else []
        if replaces and "--overwrite" not in words and any(map(os.path.lexists, targets)):
            more.append("--overwrite")
        return call(words + more)

    _add(Workload(name, prepare, targets, run, recover))


def _text(name: str, text: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    return prepare


def _steps(*steps: Callable[[Path], None]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        for step in steps:
            step(folder)

    return prepare


def _called(command: str) -> Callable[[Path], None]:
    """A step that calls the command line in the folder."""

    def prepare(folder: Path) -> None:
        here = os.getcwd()
        os.chdir(folder)
        try:
            assert command_line(command.split()) in (0, 4), command
        finally:
            os.chdir(here)

    return prepare


def _moved(name: str, other: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        os.rename(folder / name, folder / other)

    return prepare


def _record(name: str, frames: int) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        inputs.record(folder / name, frames)

    return prepare


def commit_often() -> None:
    """Have everything in this process be committed as often as if it were large."""
    import molrec_convert.migration.outputs.output as output
    import molrec_convert.migration.run as migration_run
    import molrec_convert.stores.zarr.trajectory.arrays as arrays
    import molrec_convert.stores.zarr.trajectory.batch as buffer

    append = arrays.TrajectoryArrays.append

    def in_pieces(self: arrays.TrajectoryArrays, frames: arrays.Accepted) -> None:
        while len(frames.steps) > OFTEN:
            some, frames = frames.split(OFTEN)
            append(self, some)
        append(self, frames)

    arrays.TrajectoryArrays.append = in_pieces  # type: ignore[method-assign]
    arrays.TrajectoryArrays._is_due = lambda self, count: True  # type: ignore[method-assign]
    arrays.TrajectoryArrays.cadence = property(lambda self: OFTEN)  # type: ignore[assignment,method-assign]
    arrays.TrajectoryArrays._is_due = lambda self, count: True  # type: ignore[method-assign]
    buffer._MOST = OFTEN
    for function in (output.Output.__init__, migration_run.migrate):
        assert function.__kwdefaults__ is not None
        function.__kwdefaults__["commit_seconds"] = 0.0


# Records of dumps.
_DUMP = _text("a.lammpstrj", inputs.dump(40, 6))
_RAGGED = _text("a.lammpstrj", inputs.dump(40, 5, ragged=True))
_OLD = _steps(_text("b.lammpstrj", inputs.dump(30, 4, seed=9)), _called("convert b.lammpstrj out.mrec"))
_command("convert", _DUMP, "convert a.lammpstrj out.mrec --units metal", "out.mrec", resumes=True)
_command("convert-again", _DUMP, "convert a.lammpstrj out.mrec --units metal", "out.mrec")
_command("convert-ragged", _RAGGED, "convert a.lammpstrj out.mrec --precision 1e-3", "out.mrec", resumes=True)
_command("convert-overwrite", _steps(_DUMP, _OLD), "convert a.lammpstrj out.mrec --overwrite", "out.mrec", resumes=True)
_command("convert-zip", _DUMP, "convert a.lammpstrj out.mrec.zip", "out.mrec.zip")
_command(
    "convert-zip-overwrite",
    _steps(_DUMP, _called("convert a.lammpstrj out.mrec.zip --frames 0:9")),
    "convert a.lammpstrj out.mrec.zip --overwrite",
    "out.mrec.zip",
)
_command(
    "join",
    _steps(_DUMP, _text("b.lammpstrj", inputs.dump(20, 6, seed=4, first=40))),
    "join a.lammpstrj b.lammpstrj -o out.mrec",
    "out.mrec",
)


# Appending.
_Make = Callable[[int], Frame]


def _appending(total: int, every: int, make: _Make) -> Callable[[Promise], None]:
    """Append up to so many frames, with a durable flush after every so many; 0 for none."""

    def run(promise: Promise) -> None:
        with molrec_convert.append("out.mrec") as writer:
            promise(writer.n_frames)
            for i in range(writer.n_frames, total):
                writer.append_frame(make(i))
                if every and i % every == 0:
                    writer.flush()
                    promise(i + 1)
        promise(total)

    return run


def _frames_fault(record: Record, promised: int, make: _Make) -> list[str]:
    trajectory = record.trajectory
    if trajectory is None or len(trajectory) < promised:
        return [f"{0 if trajectory is None else len(trajectory)} frames of {promised} that were promised"]
    for i in range(len(trajectory)):
        if not inputs.same_frame(trajectory[i], make(i)):
            return [f"frame {i} of {len(trajectory)} is not right, {promised} were promised"]
    return []


def _append(name: str, first: int, total: int, every: int, make: _Make = inputs.frame, *, small: bool = False) -> None:
    """A workload that appends; with `small` to a record of small chunks, few of them to a shard."""
    run = _appending(total, every, make)

    def recover(draw: random.Random) -> None:
        run(lambda number: None)

    def prepare(folder: Path) -> None:
        if small:
            small_extents()
        inputs.record(folder / "out.mrec", first, make)

    def check(folder: Path, promised: int) -> list[str]:
        with molrec_convert.open(folder / "out.mrec") as record:
            return _frames_fault(record, promised, make)

    _add(Workload(name, prepare, ("out.mrec",), run, recover, check, command=False))


def small_extents() -> None:
    """Have arrays that this process makes cut into chunks of a few rows, and shards of a few chunks."""
    import molrec_convert.stores.zarr.trajectory.series as series
    import molrec_convert.stores.zarr.v3.metadata as extents

    extents._TRAJECTORY_CHUNK, extents._SHARD = 64, 256
    series.DENSE = extents.Extents(4, 3)


_append("append-flush", 9, 70, 17)
_append("append-automatic", 9, 70, 0)
_append("append-each", 1, 24, 1)
_append("append-shards", 9, 70, 11, small=True)
_append("append-varied", 9, 70, 11, inputs.varied)
_append("append-varied-shards", 9, 70, 13, inputs.varied, small=True)


def _begin_trajectory(promise: Promise) -> None:
    """Give a record that has none a trajectory, or go on with the one it has."""
    from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

    there = os.path.exists("out.mrec/trajectory/zarr.json")
    declared = MemoryTrajectory([inputs.varied(0)]).declaration
    with TrajectoryWriter.open("out.mrec") if there else TrajectoryWriter.create("out.mrec", declared) as writer:
        for i in range(writer.n_frames, 30):
            writer.append_frame(inputs.varied(i))
            if i == 10:
                writer.flush()
                promise(11)
    promise(30)


def _single_frame(folder: Path) -> None:
    molrec_convert.write(
        Record(meta={"title": "t"}, frame=Frame({"atoms": inputs.frame(0)["atoms"]})), folder / "out.mrec"
    )


def _trajectory_is_right(folder: Path, promised: int) -> list[str]:
    with molrec_convert.open(folder / "out.mrec") as record:
        if record.frame is None or record.frame["atoms"]["x"].tolist() != inputs.frame(0)["atoms"]["x"].tolist():
            return ["what the record had is not right"]
        return [] if record.trajectory is None and not promised else _frames_fault(record, promised, inputs.varied)


_add(
    Workload(
        "begin-trajectory",
        _single_frame,
        ("out.mrec",),
        _begin_trajectory,
        lambda draw: _begin_trajectory(lambda number: None),
        _trajectory_is_right,
        command=False,
    )
)


# Metrics.
def _log_events(promise: Promise) -> None:
    with MetricsLog.open("out.mrec") as log:
        for i in range(12):
            log.append("train/loss", i * 0.5, i, wall_time=_CLOCK)
            log.append("val", i * 0.25, i, wall_time=_CLOCK)
            if i % 5 == 4:
                log.flush()
                promise(2 * i + 2)
    promise(24)


def _some_events(folder: Path) -> None:
    with MetricsLog.open(folder / "out.mrec") as log:
        for i in range(7):
            log.append("old", float(i), i, wall_time=_CLOCK)


def _events_are_right(folder: Path, promised: int) -> list[str]:
    with molrec_convert.open(folder / "out.mrec") as record:
        metrics = record.metrics
        counts = {} if metrics is None else {key: len(metrics[key].values) for key in metrics}
        if counts.pop("old", 0) != 7 or sum(counts.values()) < promised:
            return [f"events {counts} where {promised} were promised"]
        scale = {"train/loss": 0.5, "val": 0.25}
        for key, n in counts.items():
            if metrics is None or list(metrics[key].values) != [i * scale[key] for i in range(n)]:
                return [f"events of {key} are not right"]
    return []


def _log_on(draw: random.Random) -> None:
    """Log the events that are not there; old ones are not logged twice."""
    with molrec_convert.open("out.mrec") as record:
        metrics = record.metrics
        assert metrics is not None
        there = {key: len(metrics[key].values) for key in metrics}
    with MetricsLog.open("out.mrec") as log:
        for i in range(12):
            for key, scale in (("train/loss", 0.5), ("val", 0.25)):
                if i >= there.get(key, 0):
                    log.append(key, i * scale, i, wall_time=_CLOCK)


_add(
    Workload(
        "metrics",
        _steps(_record("out.mrec", 5), _some_events),
        ("out.mrec",),
        _log_events,
        _log_on,
        _events_are_right,
        command=False,
    )
)

# Packed records.
_PACKED = _steps(_record("out.mrec", 30), _called("pack out.mrec a.mrec.zip"))
_command("pack", _record("out.mrec", 30), "pack out.mrec out.mrec.zip", "out.mrec.zip")
_command("pack-overwrite", _steps(_PACKED, _record("b.mrec", 40)), "pack b.mrec a.mrec.zip --overwrite", "a.mrec.zip")
_command("unpack", _steps(_PACKED, _moved("out.mrec", "old.mrec")), "unpack a.mrec.zip out.mrec", "out.mrec")
_command(
    "unpack-overwrite",
    _steps(_PACKED, _moved("out.mrec", "old.mrec"), _record("out.mrec", 12)),
    "unpack a.mrec.zip out.mrec --overwrite",
    "out.mrec",
)

# Collections.
_METAL = "--as collection --units metal"


def _collection(name: str, records: int, seed: int) -> Callable[[Path], None]:
    text = _text(f"{name}.extxyz", inputs.extxyz(records, seed=seed))
    return _steps(text, _called(f"convert {name}.extxyz {name}.mrec.lmdb {_METAL}"))


_XYZ = _text("a.extxyz", inputs.extxyz(60))
_TWO = _steps(_collection("out", 15, 1), _collection("more", 150, 2))
_command("collection", _XYZ, f"convert a.extxyz out.mrec.lmdb {_METAL}", "out.mrec.lmdb")
_command(
    "collection-overwrite",
    _steps(_XYZ, _collection("out", 10, 3)),
    f"convert a.extxyz out.mrec.lmdb {_METAL} --overwrite",
    "out.mrec.lmdb",
)
_command("merge", _TWO, "merge out.mrec.lmdb more.mrec.lmdb -o all.mrec.lmdb", "all.mrec.lmdb")
_command("select", _TWO, "convert more.mrec.lmdb sel.mrec.lmdb --select n_atoms<=4", "sel.mrec.lmdb")
_command(
    "split",
    _TWO,
    "split more.mrec.lmdb --by n_atoms --fractions train=0.6,test=0.4",
    "more-train.mrec.lmdb",
    "more-test.mrec.lmdb",
)
_command("shards", _TWO, "convert more.mrec.lmdb set.mrec.lmdb --shard-records 40", "set.mrec.lmdb")
_command(
    "shards-overwrite",
    _steps(_TWO, _called("convert out.mrec.lmdb set.mrec.lmdb --shard-records 4")),
    "convert more.mrec.lmdb set.mrec.lmdb --shard-records 40 --overwrite",
    "set.mrec.lmdb",
)


def _append_records(promise: Promise) -> None:
    with molrec_convert.append("out.mrec.lmdb") as writer:
        if len(writer) == 15:
            with molrec_convert.open("more.mrec.lmdb") as source:
                for record in source:
                    writer.append(record)


_add(
    Workload(
        "collection-append",
        _TWO,
        ("out.mrec.lmdb",),
        _append_records,
        lambda draw: _append_records(lambda number: None),
        command=False,
    )
)

# Other formats.
_MREC = _steps(_DUMP, _called("convert a.lammpstrj a.mrec --elements C,H --units metal"))
for _name, _target, _more in (
    ("extxyz", "o.extxyz", ""),
    ("dump", "o.lammpstrj", ""),
    ("dump-gz", "o.lammpstrj.gz", ""),
    ("pdb", "o.pdb", ""),
    ("mmcif", "o.cif", ""),
    ("ase-db", "o.db", ""),
    ("lammps-data", "o.data", " --frames 0"),
    ("lammps-run", "run", " --to lammps-run"),
    ("netcdf", "o.nc", " --to mdanalysis"),
):
    _command(f"to-{_name}", _MREC, f"convert a.mrec {_target}{_more}", _target)
_command(
    "to-extxyz-overwrite",
    _steps(_MREC, _text("o.extxyz", "1\n\nH 0 0 0\n")),
    "convert a.mrec o.extxyz --overwrite",
    "o.extxyz",
)
_command(
    "to-ase-db-overwrite",
    _steps(_MREC, _called("convert a.mrec o.db --frames 0:3")),
    "convert a.mrec o.db --overwrite",
    "o.db",
)
_command(
    "to-lammps-run-overwrite",
    _steps(_MREC, _called("convert a.mrec run --to lammps-run --frames 0:3")),
    "convert a.mrec run --to lammps-run --overwrite",
    "run",
)
_command("stats-page", _TWO, "stats more.mrec.lmdb --html page.html", "page.html", replaces=False)


# Migrations.
def _files(folder: Path) -> None:
    (folder / "in").mkdir()
    for i in range(10):
        (folder / f"in/f{i:03d}.extxyz").write_text(inputs.extxyz(4 if i != 6 else 25, seed=50 + i))
    (folder / "in/f007.extxyz").write_text("3\nbroken\n")


def _half_migrated(folder: Path) -> None:
    _files(folder)
    (folder / "later").mkdir()
    for i in range(5, 10):
        os.rename(folder / f"in/f{i:03d}.extxyz", folder / f"later/f{i:03d}.extxyz")
    _called("migrate in -o all.mrec.lmdb --units metal --workers 1")(folder)
    for i in range(5, 10):
        os.rename(folder / f"later/f{i:03d}.extxyz", folder / f"in/f{i:03d}.extxyz")
    (folder / "later").rmdir()


def _runs(folder: Path) -> None:
    (folder / "in").mkdir()
    for i in range(4):
        (folder / f"in/f{i}.lammpstrj").write_text(inputs.dump(12, 4, seed=i))


for _name, _prepare, _arguments, _targets, _accepted in (
    # one of the inputs is broken
    ("migrate", _files, "-o all.mrec.lmdb --units metal", ["all.mrec.lmdb"], (0, 4)),
    ("migrate-set", _files, "-o all.mrec.lmdb --units metal --shard-records 15", ["all.mrec.lmdb"], (0, 4)),
    ("migrate-add", _half_migrated, "-o all.mrec.lmdb --units metal", ["all.mrec.lmdb"], (0, 4)),
    ("migrate-records", _runs, "-o recs --as records", [f"recs/f{i}.mrec" for i in range(4)], (0,)),
):
    _command(_name, _prepare, f"migrate in {_arguments} --workers 1", *_targets, replaces=False, accepted=_accepted)


def _written_in_place(promise: Promise) -> None:
    """Write a file under its own name, and take it for done when it is closed."""
    with open("out.txt", "w", encoding="utf-8") as file:
        for i in range(40):
            file.write(f"line {i}\n")
            file.flush()


WRITTEN_IN_PLACE = Workload(
    CARELESS,
    _text("out.txt", "what was there\n"),
    ("out.txt",),
    _written_in_place,
    lambda draw: _written_in_place(lambda number: None),
    command=False,
)
