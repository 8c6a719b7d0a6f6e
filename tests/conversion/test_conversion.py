"""Read, write, convert: what is asked for happens, the target is complete or untouched, interrupted work goes on."""

import dataclasses
import gc
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import molrec_convert
from molrec_convert import plugins
from molrec_convert.conversion import writing as resuming
from molrec_convert.errors import FormatError, LayoutChanged, LossError, MissingInputError, UsageError
from molrec_convert.formats import Capability, Format, option
from molrec_convert.inspect.diff import differences
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Record,
    Trajectory,
)
from molrec_convert.report import Report


def trajectory(n_frames=12, rows=5, **block):
    rng = np.random.default_rng(1)
    columns = {key: rng.normal(size=(n_frames, rows)) for key in ("x", "y", "z", "vx")}
    frames = [
        Frame(
            {"atoms": Block({k: v[i] for k, v in columns.items()})},
            {"pe": -float(i)},
            Box(np.eye(3) * 9) if i == 0 else None,
            step=10 * i,
            time=0.5 * i,
        )
        for i in range(n_frames)
    ]
    return MemoryTrajectory(frames)


def record(**sections):
    system = Frame({"atoms": Block({"id": np.arange(1, 6, dtype=np.uint64), "type": list("abcab")})}, {"units": "real"})
    return Record(system=system, trajectory=trajectory(), **sections)


def same(a, b):
    return list(differences(molrec_convert.open(a) if isinstance(a, Path) else a, molrec_convert.open(b))) == []


def test_a_record_written_and_read_is_the_same(tmp_path):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    assert same(record(meta={"molrec_version": 1}), tmp_path / "a.mrec")
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec.zip")
    assert same(tmp_path / "a.mrec", tmp_path / "b.mrec.zip")


@pytest.mark.parametrize("frames", [slice(2, 9, 3), slice(-3, None), slice(None, 4), slice(5, 5), slice(0, 100, 7)])
def test_frames_are_sliced(tmp_path, frames):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", frames=frames)
    whole = record().trajectory
    part = molrec_convert.open(tmp_path / "b.mrec").trajectory
    wanted = range(12)[frames]
    assert [f.step for f in part] == [10 * i for i in wanted]
    for frame, i in zip(part, wanted, strict=True):
        assert frame["atoms"] == whole[i]["atoms"]
        assert frame.meta == whole[i].meta
        assert (frame.time, frame.box) == (whole[i].time, Box(np.eye(3) * 9))


def test_frames_of_a_source_without_a_trajectory_are_refused(tmp_path):
    molrec_convert.write(Record(frame=Frame({"atoms": Block({"x": [1.0]})})), tmp_path / "a.mrec")
    with pytest.raises(UsageError, match="no trajectory to take frames from"):
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", frames=slice(0, 1))
    molrec_convert.write(record(), tmp_path / "c.mrec")
    with pytest.raises(UsageError, match="frames are taken forward only"):
        molrec_convert.convert(tmp_path / "c.mrec", tmp_path / "b.mrec", frames=slice(None, None, -1))
    assert not (tmp_path / "b.mrec").exists()


def test_columns_are_kept_as_asked_in_trajectory_and_frame(tmp_path):
    frame = Frame({"atoms": Block({"x": [1.0], "vx": [2.0]}), "grid": Block({"rho": [1.0]})})
    molrec_convert.write(record(frame=None), tmp_path / "a.mrec")
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", columns=["x", "atoms/z"])
    kept = molrec_convert.open(tmp_path / "b.mrec")
    assert list(kept.trajectory.declaration.blocks["atoms"].columns) == ["x", "z"]
    assert list(kept.system["atoms"]) == ["id", "type"]
    molrec_convert.write(Record(frame=frame), tmp_path / "c.mrec")
    molrec_convert.convert(tmp_path / "c.mrec", tmp_path / "d.mrec", columns=["vx"])
    assert list(molrec_convert.open(tmp_path / "d.mrec").frame["atoms"]) == ["vx"]
    assert list(molrec_convert.open(tmp_path / "d.mrec").frame) == ["atoms"]
    with pytest.raises(UsageError, match=r"no column 'q'; they have vx, x, y, z"):
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "e.mrec", columns=["q"])
    # what stays in `system` may be named too
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "f.mrec", columns=["id", "x", "atoms/z"])
    assert same(tmp_path / "b.mrec", tmp_path / "f.mrec")


def test_what_a_particle_is_stays_where_atoms_come_and_go(tmp_path):
    frames = [
        Frame({"atoms": Block({"id": np.arange(n, dtype=np.uint64), "x": np.ones(n), "vx": np.ones(n)})}, step=n)
        for n in (2, 3)
    ]
    molrec_convert.write(Record(trajectory=MemoryTrajectory(frames)), tmp_path / "a.mrec")
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", columns=["x"])
    kept = molrec_convert.open(tmp_path / "b.mrec").trajectory
    assert sorted(kept.declaration.blocks["atoms"].columns) == ["id", "x"]
    assert kept[1]["atoms"]["id"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("frames", [slice(12, 13), slice(20, 30), slice(-13, None), slice(99, None, 5)])
def test_frames_that_are_not_there_are_an_error(tmp_path, frames):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    with pytest.raises(UsageError, match="the source has the frames 0 to 11, there is no frame"):
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", frames=frames)
    assert os.listdir(tmp_path) == ["a.mrec"]


def test_one_frame_by_its_number(tmp_path):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", frames=-1)
    with molrec_convert.open(tmp_path / "a.mrec") as whole, molrec_convert.open(tmp_path / "b.mrec") as last:
        assert [frame.step for frame in last.trajectory] == [whole.trajectory[-1].step]


@pytest.mark.parametrize("frames", [slice(0, 0), slice(5, 3), slice(-1, 0)])
def test_no_frames_are_reported(tmp_path, frames):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    report = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", frames=frames)
    assert any("none of the 12 frames is asked for" in text for text in report.warnings)
    assert len(molrec_convert.open(tmp_path / "b.mrec").trajectory) == 0


def test_precision_is_for_positions_or_for_named_columns(tmp_path):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    report = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", precision=1e-3)
    columns = molrec_convert.open(tmp_path / "b.mrec").trajectory.declaration.blocks["atoms"].columns
    assert {k: c.precision for k, c in columns.items()} == {"x": 1e-3, "y": 1e-3, "z": 1e-3, "vx": None}
    assert "converted: trajectory/atoms/x (rounded to precision 0.001, quantum 0.0009765625)" in map(str, report.items)
    rounded = molrec_convert.open(tmp_path / "b.mrec").trajectory[3]["atoms"]["x"]
    assert np.array_equal(rounded, np.rint(record().trajectory[3]["atoms"]["x"] * 1024) / 1024)
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "c.mrec", precision={"vx": 0.25})
    columns = molrec_convert.open(tmp_path / "c.mrec").trajectory.declaration.blocks["atoms"].columns
    assert {k: c.precision for k, c in columns.items()} == {"x": None, "y": None, "z": None, "vx": 0.25}
    with pytest.raises(UsageError, match="no column 'q'"):
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "d.mrec", precision={"q": 1.0})


@pytest.mark.parametrize("precision", [0.25, {"x": 0.25, "y": 0.25, "z": 0.25}])
def test_precision_is_for_those_positions_that_are_kept(tmp_path, precision):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", precision=precision, columns=["y", "vx"])
    columns = molrec_convert.open(tmp_path / "b.mrec").trajectory.declaration.blocks["atoms"].columns
    assert {k: c.precision for k, c in columns.items()} == {"y": 0.25, "vx": None}
    for asked in (precision, {"x": 0.25}):
        with pytest.raises(UsageError, match="no column 'x'"):
            molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "c.mrec", precision=asked, columns=["vx"])


def test_only_reals_are_rounded(tmp_path):
    frames = [Frame({"atoms": Block({"x": [0.5], "n": np.array([n], dtype=np.int64)})}, step=n) for n in (1, 2)]
    molrec_convert.write(Record(trajectory=MemoryTrajectory(frames)), tmp_path / "a.mrec")
    molrec_convert.write(Record(frame=frames[0]), tmp_path / "f.mrec")
    for source in ("a.mrec", "f.mrec"):
        with pytest.raises(UsageError, match="the column 'n' is i64, and only f64 is rounded"):
            molrec_convert.convert(tmp_path / source, tmp_path / "b.mrec", precision={"n": 1.0})


def test_precision_of_a_frame(tmp_path):
    molrec_convert.write(
        Record(frame=Frame({"atoms": Block({"x": [0.3], "y": [0.3], "z": [1.0]})})), tmp_path / "a.mrec"
    )
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", precision=0.25)
    atoms = molrec_convert.open(tmp_path / "b.mrec").frame["atoms"]
    assert atoms["x"][0] == 0.25
    assert atoms.columns["x"].precision == 0.25


def test_an_existing_target_is_left_alone_unless_asked(tmp_path):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    with pytest.raises(UsageError, match="exists already"):
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.mrec", frames=slice(0, 1))
    assert len(molrec_convert.open(tmp_path / "a.mrec").trajectory) == 12
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.mrec", frames=slice(0, 1), overwrite=True)
    assert len(molrec_convert.open(tmp_path / "a.mrec").trajectory) == 1
    assert os.listdir(tmp_path) == ["a.mrec"]


@pytest.mark.parametrize("name", ["a.mrec", "a.mrec.zip"])
def test_records_nobody_closes_let_go_of_their_files(tmp_path, name):
    def held():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    molrec_convert.write(record(), tmp_path / name)
    before = held()
    for _ in range(20):
        opened = molrec_convert.open(tmp_path / name).trajectory
        assert opened[3]["atoms"]["x"].shape == (5,)
    assert held() > before
    # what is still in use keeps them open
    assert opened[4]["atoms"]["y"].shape == (5,)
    del opened
    assert held() == before


def test_a_pipe_is_no_source(tmp_path):
    os.mkfifo(tmp_path / "a.dump")
    for call in (molrec_convert.read, lambda path: molrec_convert.convert(path, tmp_path / "b.mrec")):
        with pytest.raises(UsageError, match=r"is a named pipe.*save it to a file first"):
            call(tmp_path / "a.dump")


def test_unknown_options_and_inputs_are_errors(tmp_path):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    with pytest.raises(
        UsageError, match=r"converting mrec to mrec takes no --atom-style .*; it takes compression, units"
    ):
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", atom_style="full")
    with pytest.raises(UsageError, match="has no option 'nope'"):
        molrec_convert.read(tmp_path / "a.mrec", nope=1)
    with pytest.raises(MissingInputError, match="there is no file or directory"):
        molrec_convert.open(tmp_path / "absent.mrec")
    with pytest.raises(UsageError, match="reads one input at a time, 2 are named"):
        molrec_convert.convert([tmp_path / "a.mrec", tmp_path / "a.mrec"], tmp_path / "b.mrec", from_format="mrec")


# Formats made for the purpose: a source whose frames come from a list in memory, and targets that lose or fail.


class Streamed(Trajectory):
    """A source that yields frames one batch each and may break off."""

    def __init__(self, source, breaks_at=None, error=None):
        super().__init__()
        self.source, self.breaks_at, self.error = source, breaks_at, error
        self.declaration = source.declaration
        self.asked = []

    @property
    def n_frames(self):
        return self.source.n_frames

    def batches(self, start=0, stop=None, step=1, columns=None, batch_bytes=0):
        self.asked.append(start)
        for i in range(start, self.n_frames):
            if self.breaks_at is not None and i == self.breaks_at:
                raise self.error
            yield from self.source.batches(i, i + 1)


@dataclass(frozen=True)
class SourceOptions:
    flavour: str = option("plain", "a choice")


@pytest.fixture
def formats(monkeypatch):
    """Adds formats to those there are; returns the dictionary."""
    known = dict(plugins.formats())
    monkeypatch.setattr(plugins, "formats", lambda: known)

    def add(**fields):
        known[fields["name"]] = Format(title=fields["name"].capitalize(), patterns=(f"*.{fields['name']}",), **fields)

    return add


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "one.source"
    path.write_text("source")
    return path


def test_a_source_that_breaks_off_leaves_nothing(tmp_path, formats, source):
    error = FormatError(source, "line 7", found="nonsense", expected="sense")
    formats(name="source", reads=lambda p, c: Record(trajectory=Streamed(trajectory(), 6, error)))
    with pytest.raises(FormatError, match=r"one.source, line 7: found nonsense, expected sense"):
        molrec_convert.convert(source, tmp_path / "out.mrec")
    assert sorted(os.listdir(tmp_path)) == ["one.source"]


def test_an_interrupted_conversion_goes_on_at_its_last_committed_frame(tmp_path, formats, source):
    streams = []

    def read(paths, context):
        streams.append(Streamed(trajectory(), 7 if not streams else None, KeyboardInterrupt()))
        return Record(trajectory=streams[-1])

    formats(name="source", reads=read)
    with pytest.raises(KeyboardInterrupt):
        molrec_convert.convert(source, tmp_path / "out.mrec")
    assert not (tmp_path / "out.mrec").exists()
    assert (tmp_path / ".out.mrec.partial").is_dir()
    molrec_convert.convert(source, tmp_path / "out.mrec", resume=True)
    committed = streams[1].asked[-1]
    assert 0 <= committed <= 7
    assert same(Record({"molrec_version": 1}, trajectory=trajectory()), tmp_path / "out.mrec")
    assert sorted(os.listdir(tmp_path)) == ["one.source", "out.mrec"]


def test_resuming_with_other_options_or_another_source_is_refused(tmp_path, formats, source):
    formats(
        name="source",
        reads=lambda p, c: Record(trajectory=Streamed(trajectory(), 7, KeyboardInterrupt())),
        read_options=SourceOptions,
    )
    with pytest.raises(KeyboardInterrupt):
        molrec_convert.convert(source, tmp_path / "out.mrec")
    with pytest.raises(UsageError, match="was begun with other options than now: run again without --resume"):
        molrec_convert.convert(source, tmp_path / "out.mrec", resume=True, flavour="other")
    with pytest.raises(UsageError, match="was begun with other frames than now"):
        molrec_convert.convert(source, tmp_path / "out.mrec", resume=True, frames=slice(0, 3))
    source.write_text("another source")
    with pytest.raises(UsageError, match="was begun with other sources than now"):
        molrec_convert.convert(source, tmp_path / "out.mrec", resume=True)


def test_an_attempt_that_was_interrupted_in_another_layout_goes_on_in_it(tmp_path, formats, source):
    hints = []

    def read(paths, context):
        hints.append(context.hints)
        first = not context.hints
        frames = trajectory() if first else trajectory(rows=6)
        error = LayoutChanged("ragged", "ids change") if first else KeyboardInterrupt()
        return Record(trajectory=Streamed(frames, 7 if len(hints) < 3 else None, error))

    formats(name="source", reads=read)
    with pytest.raises(KeyboardInterrupt):
        molrec_convert.convert(source, tmp_path / "out.mrec")
    assert hints == [frozenset(), frozenset({"ragged"})]
    molrec_convert.convert(source, tmp_path / "out.mrec", resume=True)
    assert hints[2:] == [frozenset({"ragged"})]
    assert same(Record({"molrec_version": 1}, trajectory=trajectory(rows=6)), tmp_path / "out.mrec")


def test_resume_without_anything_to_resume_starts(tmp_path, formats, source):
    formats(name="source", reads=lambda p, c: Record(trajectory=trajectory()))
    molrec_convert.convert(source, tmp_path / "out.mrec", resume=True)
    assert len(molrec_convert.open(tmp_path / "out.mrec").trajectory) == 12


def test_a_source_that_needs_another_layout_is_read_again(tmp_path, formats, source):
    hints = []

    def read(paths, context):
        hints.append(context.hints)
        context.report.converted("rows", "any order" if context.hints else "in order of ids")
        change = LayoutChanged("ragged", "ids change at frame 5")
        return Record(trajectory=Streamed(trajectory(), None if "ragged" in context.hints else 5, change))

    formats(name="source", reads=read)
    report = molrec_convert.convert(source, tmp_path / "out.mrec")
    assert hints == [frozenset(), frozenset({"ragged"})]
    assert report.warnings == ["ids change at frame 5: started over with the layout for that"]
    assert [str(item) for item in report.items] == ["converted: rows (any order)"]
    assert same(Record({"molrec_version": 1}, trajectory=trajectory()), tmp_path / "out.mrec")


def test_a_lossy_target_is_predicted_reported_and_refused_when_strict(tmp_path, formats):
    written = []
    formats(
        name="narrow",
        writes=lambda r, p, c: (written.append(p), p.write_text("x")),
        carries={"meta": Capability("none", "exact"), "trajectory": Capability("none", "exact")},
    )
    molrec_convert.write(record(), tmp_path / "a.mrec")
    target = tmp_path / "a.narrow"
    dry = molrec_convert.convert(tmp_path / "a.mrec", target, dry_run=True)
    assert dry.losses() == ["dropped: system (Narrow has no place for it)"]
    assert not written
    with pytest.raises(LossError, match=r"would lose something: dropped: system"):
        molrec_convert.convert(tmp_path / "a.mrec", target, strict=True)
    assert not written
    assert not target.exists()
    report = molrec_convert.convert(tmp_path / "a.mrec", target)
    assert report.losses() == dry.losses()
    assert target.read_text() == "x"


def test_a_loss_found_while_writing_is_refused_too(tmp_path, formats):
    def write(rec, path, context):
        context.report.dropped("velocities", "no column for them")
        path.write_text("half")

    formats(
        name="late",
        writes=write,
        carries=dict.fromkeys(("meta", "system", "trajectory"), Capability("none", "exact")),
    )
    target = tmp_path / "a.late"
    target.write_text("old")
    with pytest.raises(LossError, match="velocities"):
        molrec_convert.write(record(), target, overwrite=True, strict=True)
    assert target.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["a.late"]


def test_a_writer_that_fails_leaves_the_target_as_it_was(tmp_path, formats):
    def write(rec, path, context):
        path.write_text("half")
        raise OSError(28, "No space left on device", str(path))

    formats(name="full", writes=write, carries={})
    target = tmp_path / "a.full"
    target.write_text("old")
    with pytest.raises(OSError, match="No space left"):
        molrec_convert.write(record(), target, overwrite=True)
    assert target.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["a.full"]


def test_identity_columns_on_their_way_to_the_system_outlive_a_choice_of_columns(tmp_path, formats, source):
    base = trajectory()
    frames = list(base)
    for frame in frames:
        frame.blocks["atom_types"] = Block({"type_id": np.arange(1, 6, dtype=np.uint64)})
    declaration = Declaration(
        {
            "atoms": base.declaration.blocks["atoms"],
            "atom_types": BlockDeclaration(
                {"type_id": ColumnDeclaration("u64")}, aligned_with="atoms", rows=5, settles="atoms"
            ),
        },
        base.declaration.meta,
    )
    formats(name="source", reads=lambda p, c: Record(trajectory=MemoryTrajectory(frames, declaration)))
    molrec_convert.convert(source, tmp_path / "out.mrec", columns=["x"])
    stored = molrec_convert.open(tmp_path / "out.mrec")
    assert list(stored.trajectory.declaration.blocks) == ["atoms"]
    assert stored.system["atoms"]["type_id"].tolist() == [1, 2, 3, 4, 5]


def test_hooks_see_records_on_their_way(tmp_path):
    seen = []

    class Watcher:
        @molrec_convert.hookimpl
        def molrec_record_read(self, record, context):
            record.meta["note"] = "amended"

        @molrec_convert.hookimpl
        def molrec_record_written(self, record, target, report):
            seen.append((target, isinstance(report, Report)))

    molrec_convert.write(record(), tmp_path / "a.mrec")
    watcher = Watcher()
    plugins.plugin_manager().register(watcher)
    try:
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec")
    finally:
        plugins.plugin_manager().unregister(watcher)
    assert seen == [(tmp_path / "b.mrec", True)]
    assert molrec_convert.open(tmp_path / "b.mrec").meta["note"] == "amended"


def test_a_target_inside_the_source_directory_is_no_source(tmp_path):
    (tmp_path / "data.txt").write_text("x")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "out.mrec").mkdir()
    (tmp_path / "out.mrec/zarr.json").write_text("{}")
    assert list(resuming._source_files(tmp_path, tmp_path / "out.mrec")) == [tmp_path / "data.txt"]


def test_a_record_is_a_dataclass_people_can_replace_parts_of(tmp_path):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as stored:
        changed = dataclasses.replace(stored, status={"state": "succeeded"})
        molrec_convert.write(changed, tmp_path / "b.mrec")
    assert molrec_convert.open(tmp_path / "b.mrec").status == {"state": "succeeded"}
