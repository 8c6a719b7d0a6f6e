"""`mrec join`: whole records that follow one another in time, from any source, to any record, killed in between."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lammps_runs import needs_lammps, run_script
from test_trajectory_random import runs

import molrec_convert
from molrec_convert import (
    Block,
    Box,
    ContractError,
    Event,
    ForceField,
    Frame,
    MemoryTrajectory,
    Metrics,
    Observable,
    Observables,
    Record,
    Report,
    UsageError,
    convert,
    join,
    join_records,
    write,
)
from molrec_convert.cli import run as mrec
from molrec_convert.inspect.diff import differences
from molrec_convert.inspect.diff.trajectories import declaration_differences
from molrec_convert.model import Declaration

WATER = Path(__file__).parents[2] / "fixtures" / "water-run"


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole run and three pieces of it; `b` begins with the last frame of `a`, `c` after `b`."""
    root = tmp_path_factory.mktemp("pieces")
    convert(WATER, root / "whole.mrec")
    for name, frames in (("a", slice(0, 8)), ("b", slice(7, 15)), ("c", slice(15, None))):
        convert(root / "whole.mrec", root / f"{name}.mrec", frames=frames)
    return root


def water(steps: range, *, ids: tuple[int, ...] = (1, 2, 3), units: Any = "metal", **system: Any) -> Record:
    """Three atoms, whose x is their id and a tenth of the step."""
    atoms = Block({"id": np.array(ids, dtype=np.uint64), "type_id": np.array([1, 2, 2], dtype=np.uint64), **system})
    x = np.array(ids, dtype=np.float64)
    frames = [Frame({"atoms": Block({"x": x + step / 10})}, box=Box(np.eye(3)), step=step) for step in steps]
    meta = {} if units is None else {"units": units}
    return Record(system=Frame({"atoms": atoms}, meta), trajectory=MemoryTrajectory(frames))


def joined(*records: Record, **options: Any) -> Record:
    return join_records([("abc"[n], record) for n, record in enumerate(records)], **options)


def same(a: Path, b: Path) -> list[str]:
    with molrec_convert.open(a) as first, molrec_convert.open(b) as second:
        return list(differences(first, second))


@pytest.mark.parametrize("suffix", [".mrec", ".mrec.zip"])
def test_pieces_become_the_whole(pieces: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / f"all{suffix}"
    parts = [str(pieces / f"{name}.mrec") for name in "abc"]
    assert mrec(["join", *parts, "-o", str(target), "--report", str(tmp_path / "report.json")]) == 0
    assert same(pieces / "whole.mrec", target) == []
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["dropped"] == []
    assert any("taken once" in item["detail"] for item in report["converted"])
    assert mrec(["join", *parts, "-o", str(target)]) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_overlap_is_refused_with_one_sentence(pieces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "c.mrec"
    arguments = ["join", str(pieces / "a.mrec"), str(pieces / "whole.mrec"), "-o", str(target)]
    assert mrec(arguments) == 2
    told = capsys.readouterr().err
    for word in ("the steps 0 to 350", "a.mrec", "whole.mrec", "--overlap first", "--overlap last"):
        assert word in told
    assert list(tmp_path.iterdir()) == []
    assert mrec([*arguments, "--overlap", "last", "--dry-run"]) == 0
    assert list(tmp_path.iterdir()) == []
    assert mrec([*arguments, "--overlap", "first"]) == 0
    assert same(pieces / "whole.mrec", target) == []


def test_convert_of_two_records_names_the_way(pieces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = str(pieces / "a.mrec"), str(pieces / "b.mrec"), str(tmp_path / "c.mrec")
    assert mrec(["convert", a, b, c]) == 2
    assert f"mrec join {a} {b} -o {c}" in capsys.readouterr().err


def test_foreign_files_and_records_are_joined(pieces: Path, tmp_path: Path) -> None:
    """A dump whose types and charges are in its frames goes on a record that has them in its system, and back."""
    for source, name in ((pieces / "a.mrec", "a"), (pieces / "c.mrec", "c")):
        convert(source, tmp_path / f"{name}.lammpstrj", columns=["x", "y", "z"])
    for first, second in (("a.mrec", "c.lammpstrj"), ("a.lammpstrj", "c.mrec"), ("a.lammpstrj", "c.lammpstrj")):
        sources = [(pieces if name.endswith("mrec") else tmp_path) / name for name in (first, second)]
        target = tmp_path / f"{first}-{second}.mrec"
        join(sources, target, units="real")
        with molrec_convert.open(target) as record, molrec_convert.open(pieces / "whole.mrec") as whole:
            assert "type_id" in record.system["atoms"]
            assert list(record.trajectory.declaration.blocks) == ["atoms"]
            for frame, expected in zip(
                record.trajectory, [*whole.trajectory][:8] + [*whole.trajectory][15:], strict=True
            ):
                assert frame.step == expected.step
                np.testing.assert_array_equal(frame["atoms"]["x"], expected["atoms"]["x"])


def test_extended_xyz_counts_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    comment = 'Lattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3 energy={}'
    for name, energies in (("a", (-1.0, -2.0)), ("b", (-3.0, -4.0, -5.0))):
        frames = [f"1\n{comment.format(energy)}\nAr {energy} 0 0\n" for energy in energies]
        (tmp_path / f"{name}.extxyz").write_text("".join(frames))
    a, b, c = (str(tmp_path / name) for name in ("a.extxyz", "b.extxyz", "c.mrec"))
    assert mrec(["join", a, b, "-o", c]) == 2
    assert "--shift-time" in capsys.readouterr().err
    assert mrec(["join", a, b, "-o", c, "--shift-time"]) == 0
    with molrec_convert.open(c) as record:
        assert record.trajectory.steps.tolist() == [0, 1, 2, 3, 4]
        assert [float(frame["atoms"]["x"][0]) for frame in record.trajectory] == [-1, -2, -3, -4, -5]


def test_atoms_in_another_order_are_ordered_by_their_ids() -> None:
    report = Report()
    mass = np.array([1.0, 2.0, 3.0])
    with pytest.raises(ContractError, match=r"atoms/type_id: row 0 in b is not what it is in a"):
        joined(water(range(3)), water(range(3, 6), ids=(3, 1, 2)))
    second = water(range(3, 6), ids=(3, 1, 2))
    second.system = Frame(
        {
            "atoms": Block(
                {"id": np.array([3, 1, 2], np.uint64), "type_id": np.array([2, 1, 2], np.uint64), "mass": mass}
            )
        },
        {"units": "metal"},
    )
    made = joined(water(range(3)), second, report=report)
    assert [frame["atoms"]["x"].tolist() for frame in made.trajectory][3:] == [
        [1 + s / 10, 2 + s / 10, 3 + s / 10] for s in (3, 4, 5)
    ]
    assert made.system["atoms"]["mass"].tolist() == [2.0, 3.0, 1.0]
    assert "converted: order of the atoms of b (by their ids, as in a)" in [str(item) for item in report.items]


def test_other_atoms_are_refused_by_name() -> None:
    with pytest.raises(ContractError, match=r"atoms/id: the atoms of b are not those of a: found the id 9"):
        joined(water(range(3)), water(range(3, 6), ids=(1, 2, 9)))
    fewer = Record(
        system=Frame({"atoms": Block({"id": np.array([1, 2], np.uint64)})}, {"units": "metal"}),
        trajectory=MemoryTrajectory([Frame({"atoms": Block({"x": [1.0, 2.0]})}, step=5)]),
    )
    with pytest.raises(ContractError, match=r"atoms: b has not as many as a, .*found 2, expected 3"):
        joined(water(range(3)), fewer)
    bonded = [water(range(3)), water(range(3, 6))]
    for record, end in zip(bonded, (1, 2), strict=True):
        bonds = Block({"atomi": np.array([0], np.uint64), "atomj": np.array([end], np.uint64)})
        record.system = dataclasses.replace(record.system, blocks={**record.system.blocks, "bonds": bonds})
    with pytest.raises(ContractError, match="system/bonds: those of b are not those of the first source"):
        joined(*bonded)


def test_what_one_says_in_its_system_and_another_in_its_frames_comes_to_one_place(tmp_path: Path) -> None:
    """Bonds and charges that change in the second run are there in the frames of the first, too."""
    first, second = water(range(3), charge=[0.5, 0.25, 0.25]), water(range(3, 6))
    bonds = Block({"atomi": np.array([0, 0], np.uint64), "atomj": np.array([1, 2], np.uint64)})
    first.system = dataclasses.replace(first.system, blocks={**first.system.blocks, "bonds": bonds})
    frames = []
    for number, frame in enumerate(second.trajectory):
        ends = {key: bonds[key][: 2 - number] for key in bonds}
        atoms = Block({"x": frame["atoms"]["x"], "charge": [0.5, 0.25 + number, 0.25]})
        blocks = {"atoms": atoms, **({"bonds": Block(ends)} if number < 2 else {})}
        frames.append(dataclasses.replace(frame, blocks=blocks))
    second.trajectory = MemoryTrajectory(frames)
    write(joined(first, second), tmp_path / "c.mrec")
    with molrec_convert.open(tmp_path / "c.mrec") as made:
        assert sorted(made.system["atoms"]) == ["id", "type_id"]
        assert "bonds" not in made.system
        assert [frame["atoms"]["charge"].tolist()[1] for frame in made.trajectory] == [0.25] * 4 + [1.25, 2.25]
        assert [frame["bonds"]["atomj"].tolist() for frame in made.trajectory] == [[1, 2]] * 4 + [[1], [1]]


def test_units_agree_or_are_refused_by_name() -> None:
    with pytest.raises(ContractError, match="units: b is in other units than a: convert it with --target-units first"):
        joined(water(range(3)), water(range(3, 6), units="real"))
    with pytest.raises(UsageError, match="b states no units, and others do"):
        joined(water(range(3)), water(range(3, 6), units=None))
    report = Report()
    joined(water(range(3), units=None), water(range(3, 6), units=None), report=report)
    assert report.warnings == ["no source states units: their numbers are taken to be in the same"]
    assert joined(water(range(3)), water(range(3, 6), units={"preset": "metal"})).units == "metal"


def test_units_a_record_does_not_state_are_named(tmp_path: Path) -> None:
    for name, steps, units in (("a", range(3), "metal"), ("b", range(3, 6), None)):
        molrec_convert.write(water(steps, units=units), tmp_path / f"{name}.mrec")
    sources = [tmp_path / "a.mrec", tmp_path / "b.mrec"]
    report = molrec_convert.join(sources, tmp_path / "whole.mrec", units="metal")
    assert [str(item) for item in report.items if item.name == "units"] == [
        f"derived: units (those of --units metal: {sources[1]} states none)"
    ]
    assert not report.warnings
    with molrec_convert.open(tmp_path / "whole.mrec") as made:
        assert len(made.trajectory) == 6
        assert made.units == "metal"
    with molrec_convert.open(sources[1], units="metal") as named:
        assert named.units == {"preset": "metal"}
    report = molrec_convert.convert(sources[0], tmp_path / "c.mrec", units="real")
    assert report.warnings == [
        f"{sources[0]} states its units (metal): --units real is not taken; --target-units converts"
    ]
    with pytest.raises(UsageError, match="did you mean metal"):
        molrec_convert.open(sources[1], units="metall")


def test_a_record_without_frames_over_time_is_refused() -> None:
    still = Record(frame=Frame({"atoms": Block({"x": [1.0, 2.0, 3.0]})}, {"units": "metal"}))
    with pytest.raises(UsageError, match="b has no trajectory to join, it has a single frame"):
        joined(water(range(3)), still)


def test_force_fields_are_equal_but_for_their_names() -> None:
    records = [water(range(3)), water(range(3, 6))]
    for name, record in zip(("a.data", "b.data"), records, strict=True):
        record.forcefield = ForceField.new(name, {"energy": "eV"})
    assert joined(*records).forcefield.name == "a.data"
    records[1].forcefield = ForceField.new("b.data", {"energy": "kcal/mol"})
    with pytest.raises(ContractError, match="forcefield: b has another one than a"):
        joined(*records)


def test_results_are_joined_where_they_can_be() -> None:
    first, second = water(range(0, 6, 2)), water(range(4, 10, 2))
    first.observables = Observables(
        {
            "rg": Observable.of([0.0, 1.0, 2.0], "scalar", "radius", time_dependent=True),
            "msd": Observable.of([1.0, 2.0], "vector", "of the run"),
            "same": Observable.of(3.0, "scalar", "in both"),
        }
    )
    second.observables = Observables(
        {
            "rg": Observable.of([2.0, 3.0, 4.0], "scalar", "radius", time_dependent=True),
            "msd": Observable.of([1.0, 2.5], "vector", "of the run"),
            "same": Observable.of(3.0, "scalar", "in both"),
        }
    )
    stamp = "2026-01-01T00:00:00+00:00"
    first.metrics = Metrics.from_events([Event("pe", float(step), stamp, step) for step in range(6)])
    second.metrics = Metrics.from_events([Event("pe", step + 0.5, stamp, step) for step in range(4, 9)])
    report = Report()
    made = joined(first, second, report=report)
    assert made.trajectory.steps.tolist() == [0, 2, 4, 6, 8]
    assert made.observables["rg"].values.tolist() == [0, 1, 2, 3, 4]
    assert set(made.observables) == {"rg", "same"}
    assert [item.name for item in report.items if item.fate == "dropped"] == [
        "observables/msd of a",
        "observables/msd of b",
    ]
    steps, values, _ = made.metrics["pe"]
    assert steps.tolist() == list(range(9))
    assert values.tolist() == [0, 1, 2, 3, 4, 5.5, 6.5, 7.5, 8.5]


def test_documents_that_differ_are_reported() -> None:
    first, second = water(range(3)), water(range(3, 6))
    first.meta, second.meta = {"title": "one"}, {"title": "two", "project": "p"}
    first.method = {"type": "classical", "description": "nve", "engine": {"name": "LAMMPS"}}
    second.method = {**first.method, "description": "nvt"}
    first.status, second.status = {"state": "cancelled"}, {"state": "succeeded"}
    report = Report()
    made = joined(first, second, report=report)
    assert made.meta == {"title": "one", "project": "p"}
    assert (made.method["description"], made.status["state"]) == ("nve", "succeeded")
    assert [item.name for item in report.items if item.fate == "dropped"] == ["meta/title of b"]
    assert made.method["continued"] == [second.method]
    third = water(range(6, 8))
    third.method = {**first.method, "description": "npt"}
    again = joined(made, third).method
    assert [entry["description"] for entry in again["continued"]] == ["nvt", "npt"]
    assert "continued" not in first.method


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(drawn=runs(), data=st.data())
def test_any_run_is_split_on_the_disk_and_joined(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[Declaration, list[Frame]], data: st.DataObject
) -> None:
    declaration, frames = drawn
    root = tmp_path_factory.mktemp("run")
    timed = [dataclasses.replace(f, time=None if f.time is None else 0.5 * n) for n, f in enumerate(frames)]
    whole = MemoryTrajectory(timed, declaration)
    overlap = data.draw(st.integers(0, 2))
    cut = data.draw(st.integers(min(overlap, len(frames)), len(frames)))
    pieces = whole[:cut], whole[max(0, cut - overlap) :]
    for name, trajectory in zip(("whole", "a", "b"), (whole, *pieces), strict=True):
        write(Record(trajectory=trajectory), root / f"{name}.mrec")
    asked = "refuse" if overlap < 2 else data.draw(st.sampled_from(["first", "last"]))
    counts = [{p[n]["atoms"].count for n in (0, -1) if len(p) and "atoms" in p[n]} for p in pieces]
    other = len(counts[0]) == 1 == len(counts[1]) and counts[0] != counts[1]
    if other and declaration.blocks["atoms"].columns:
        with pytest.raises(ContractError, match="only frames of the same atoms are joined"):
            join([root / "a.mrec", root / "b.mrec"], root / "c.mrec", overlap=asked)
        return
    join([root / "a.mrec", root / "b.mrec"], root / "c.mrec", overlap=asked)
    assert same(root / "whole.mrec", root / "c.mrec") == []


_KILLED = """
import os, signal, sys
from molrec_convert import join

class Watch:
    frames = 0
    def start(self, label, total): pass
    def advance(self, frames, nbytes=0):
        self.frames += frames
        if self.frames >= int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)

join(sys.argv[3:], sys.argv[2], progress=Watch())
"""


@pytest.mark.slow
@pytest.mark.parametrize("frames", [0, 1, 9, 21])
def test_what_is_killed_leaves_nothing_under_the_name(pieces: Path, tmp_path: Path, frames: int) -> None:
    target = tmp_path / "all.mrec"
    parts = [str(pieces / f"{name}.mrec") for name in "abc"]
    child = [sys.executable, "-c", _KILLED, str(frames), str(target), *parts]
    assert subprocess.run(child, capture_output=True).returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []
    join(parts, target, resume=frames == 9)
    assert same(pieces / "whole.mrec", target) == []
    assert [path.name for path in tmp_path.iterdir()] == ["all.mrec"]


@needs_lammps
def test_a_run_continued_from_a_restart_joins_to_what_one_run_gives(tmp_path: Path) -> None:
    head, _, rest = (WATER / "in.water").read_text().partition("read_data       water.data")
    settings = rest.partition("velocity")[0]
    start = f"{head}read_data water.data\n{settings}velocity all create 300.0 4928459\n"
    output = (
        "fix 1 all nve\ntimestep 0.5\nthermo 10\nthermo_style custom step temp pe ke etotal press vol\n"
        "dump d all custom 10 w.lammpstrj id mol type q x y z ix iy iz vx vy vz\ndump_modify d sort id\n"
    )
    restart = f"units real\natom_style full\nread_restart ../run.restart\n{settings}"
    for name, script in (
        ("one", f"{start}{output}run 50\nrun 50\n"),
        ("run1", f"{start}{output}run 50\nwrite_restart ../run.restart\n"),
        ("run2", f"{restart}{output}run 50\n"),
    ):
        (tmp_path / name).mkdir()
        if name != "run2":
            shutil.copy(WATER / "water.data", tmp_path / name)
        assert run_script(tmp_path / name, script, name="in.water") == {}
    join([tmp_path / "run1", tmp_path / "run2"], tmp_path / "joined.mrec", overlap="first")
    convert(tmp_path / "one", tmp_path / "one.mrec")
    with molrec_convert.open(tmp_path / "joined.mrec") as a, molrec_convert.open(tmp_path / "one.mrec") as b:
        assert a.trajectory.steps.tolist() == list(range(0, 101, 10))
        assert list(differences(Record(system=a.system), Record(system=b.system))) == []
        assert a.forcefield == b.forcefield
        for name in "xyz":
            for one, other in zip(a.trajectory, b.trajectory, strict=True):
                np.testing.assert_allclose(one["atoms"][name], other["atoms"][name], rtol=1e-4, atol=1e-4)
        assert list(declaration_differences(a.trajectory.declaration, b.trajectory.declaration)) == []
        steps, values, _ = a.metrics["thermo/etotal"]
        assert steps.tolist() == list(range(0, 101, 10))
        np.testing.assert_allclose(values, b.metrics["thermo/etotal"].values, rtol=1e-5)
