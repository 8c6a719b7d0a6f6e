"""Thermo output in metrics, every row of it, and the speed of runs, against what LAMMPS says itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lammps_runs import lammps, needs_lammps

import molrec_convert
from molrec_convert.formats import ReadContext
from molrec_convert.model import Metrics, Record, Series
from molrec_convert.report import Fate, Report
from molrec_lammps.log.log import performance_of, wall_seconds
from molrec_lammps.log.metrics import UNSTATED, Clock, curve
from molrec_lammps.options import RunOptions
from molrec_lammps.run.run import read_run

MELT = """
units lj
lattice fcc 0.8442
region box block 0 3 0 3 0 3
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 8728 loop geom
pair_style lj/cut 2.0
pair_coeff * * 1.0 1.0
fix move all nve
thermo 5
"""
#: Runs a script piece by piece; after each piece what thermo output says now.
PLAY = """
out["said"] = []
for piece in {pieces!r}:
    lmp.commands_string(piece)
    step = lmp.extract_global("ntimestep")
    out["said"].append([step, *(lmp.get_thermo(name) for name in {names!r})])
"""


def play(folder: Path, *pieces: str, names: tuple[str, ...] = ("temp", "pe", "press")) -> Any:
    result = lammps(folder, PLAY.format(pieces=pieces, names=names))
    assert "error" not in result, result["error"]
    return result["said"]


def read(*paths: Path) -> tuple[Record, Report]:
    context = ReadContext(RunOptions())
    return read_run(list(paths), context), context.report


def curves(record: Record) -> Metrics:
    assert record.metrics is not None
    return record.metrics


def at(series: Series, step: int) -> float:
    assert series.steps is not None
    return float(series.values[series.steps.tolist().index(step)])


@needs_lammps
class TestRuns:
    @pytest.mark.parametrize(
        ("style", "digits"),
        [
            ("thermo_style one", 1e-7),
            ("thermo_style custom step temp pe press density", 1e-7),
            ("thermo_style custom step temp pe press\nthermo_modify line multi", 1e-3),
            ("thermo_style custom step temp pe press\nthermo_modify line yaml", 1e-14),
            ("thermo_style custom step temp pe press\nthermo_modify format float %.17g", 1e-14),
        ],
    )
    def test_every_style(self, tmp_path: Path, style: str, digits: float) -> None:
        said = play(tmp_path, MELT + style + "\nrun 10\n", "run 15\n", "run 3\n")
        record, report = read(tmp_path / "log.lammps")
        temp, press = (curves(record)[f"thermo/{key}"] for key in ("temp", "press"))
        assert temp.steps is not None
        assert temp.steps.tolist() == [0, 5, 10, 15, 20, 25, 28]
        for step, *values in said:
            assert np.allclose([at(temp, step), at(press, step)], [values[0], values[2]], rtol=digits, atol=digits)
        assert any(item.name == "2 rows of thermo output" for item in report.of(Fate.CONVERTED))
        assert not [item for item in report.of(Fate.DROPPED) if "thermo" in item.name]
        assert record.system is None or not record.system.blocks
        assert record.frame is None
        assert record.status is not None
        assert record.status["state"] == "succeeded"

    def test_steps_that_go_back(self, tmp_path: Path) -> None:
        said = play(tmp_path, MELT + "run 20\n", "reset_timestep 5\nrun 10\n")
        record, report = read(tmp_path / "log.lammps")
        temp = curves(record)["thermo/temp"]
        assert temp.steps is not None
        assert temp.steps.tolist() == [0, 5, 10, 15, 20]
        assert at(temp, 20) == pytest.approx(said[0][1], rel=1e-7)
        assert at(temp, 15) == pytest.approx(said[1][1], rel=1e-7)
        assert any("3 rows of thermo output" in text and "later run counts" in text for text in report.losses())

    def test_a_restart_with_its_log_appended(self, tmp_path: Path) -> None:
        play(tmp_path, MELT + "restart 10 old.*\nrun 25\n")
        again = "log log.lammps append\nread_restart old.10\npair_style lj/cut 2.0\npair_coeff * * 1.0 1.0\n"
        code = PLAY.format(pieces=(again + "fix move all nve\nthermo 5\nrun 20\n",), names=("temp",))
        said = lammps(tmp_path, code, log="none")
        assert "error" not in said, said["error"]
        record, report = read(tmp_path / "log.lammps")
        temp = curves(record)["thermo/temp"]
        assert temp.steps is not None
        assert temp.steps.tolist() == [0, 5, 10, 15, 20, 25, 30]
        assert at(temp, 30) == pytest.approx(said["said"][0][1], rel=1e-6)
        assert any("rows of thermo output" in text for text in report.losses())

    def test_columns_that_some_runs_print(self, tmp_path: Path) -> None:
        one, two = "thermo_style custom step temp\n", "thermo_style custom step pe\n"
        play(tmp_path, MELT + one + "run 10\n", two + "run 10\n", names=())
        record, _ = read(tmp_path / "log.lammps")
        found = {key: series.steps.tolist() for key, series in curves(record).items() if series.steps is not None}
        assert found["thermo/temp"] == [0, 5, 10]
        assert found["thermo/pe"] == [10, 15, 20]

    def test_a_minimization_and_its_end(self, tmp_path: Path) -> None:
        play(tmp_path, MELT + "thermo_style custom step pe press\nminimize 1e-4 1e-6 20 200\n", names=())
        record, _ = read(tmp_path / "log.lammps")
        assert record.method is not None
        (run,) = record.method["runs"]
        assert run["command"] == "minimize"
        assert run["iterations"] == run["last_step"]
        assert at(curves(record)["thermo/pe"], run["last_step"]) == pytest.approx(run["energy_final"], rel=1e-6)

    def test_a_rerun(self, tmp_path: Path) -> None:
        said = play(tmp_path, MELT + "dump 1 all custom 10 d.dump id type x y z vx vy vz\nrun 20\n")
        code = PLAY.format(pieces=(MELT + "rerun d.dump dump x y z vx vy vz\n",), names=())
        assert "error" not in lammps(tmp_path, code, log="again.log")
        record, _ = read(tmp_path / "again.log")
        assert record.method is not None
        assert record.method["runs"][0]["command"] == "rerun"
        temp = curves(record)["thermo/temp"]
        assert temp.steps is not None
        assert temp.steps.tolist() == [0, 10, 20]
        assert at(temp, 20) == pytest.approx(said[0][1], rel=1e-4)

    def test_speed(self, tmp_path: Path) -> None:
        play(tmp_path, MELT + "run 20\n", "run 10 post no\n")
        record, _ = read(tmp_path / "log.lammps")
        assert record.method is not None
        first, second = record.method["runs"]
        assert first["processors"] == second["processors"] == 1
        assert (first["steps"], second["steps"]) == (20, 10)
        assert first["performance"]["timesteps/s"] == pytest.approx(20 / first["loop_time"], rel=1e-3)
        assert "performance" not in second
        assert record.method["total_wall_time"] >= 0
        loop = curves(record)["performance/loop_time"]
        assert loop.steps is not None
        assert (loop.steps.tolist(), loop.values.tolist()) == ([20, 30], [first["loop_time"], second["loop_time"]])

    def test_warnings_and_errors(self, tmp_path: Path) -> None:
        result = lammps(tmp_path, PLAY.format(pieces=(MELT + "run 5\n", "pair_coeff 1 7 1 1\n"), names=()))
        assert "error" in result
        record, _ = read(tmp_path / "log.lammps")
        assert record.status is not None
        assert record.status["state"] == "failed"
        assert record.status["error"]["message"]
        assert "thermo/temp" in curves(record)

    def test_without_a_column_of_steps(self, tmp_path: Path) -> None:
        play(tmp_path, MELT + "thermo_style custom temp pe\nrun 10\n", names=())
        record, report = read(tmp_path / "log.lammps")
        assert not [key for key in record.metrics or {} if key.startswith("thermo/")]
        assert any("no column of steps" in text for text in report.losses())

    def test_stored(self, tmp_path: Path) -> None:
        play(tmp_path, MELT + "run 20\n")
        molrec_convert.convert(tmp_path / "log.lammps", tmp_path / "log.mrec")
        record, report = read(tmp_path / "log.lammps")
        with molrec_convert.open(tmp_path / "log.mrec") as stored:
            assert stored.metrics is not None
            assert dict(stored.metrics) == dict(curves(record))
            assert stored.method == record.method
            assert stored.status == record.status
        assert set(curves(record)["thermo/temp"].wall_time.tolist()) == {UNSTATED}
        assert [item.name for item in report.of(Fate.CONVERTED)].count("wall times of metrics") == 1


class TestTexts:
    def test_rates_of_old_and_new_releases(self) -> None:
        old = "\nLoop time of 0.5 on 8 procs (4 MPI x 2 OpenMP) for 10 steps with 32 atoms\n"
        assert performance_of(old) == {"loop_time": 0.5, "processors": 8}
        new = (
            "Loop time of 2.5 on 4 procs for 100 steps with 32000 atoms\n\n"
            "Performance: 3.456 ns/day, 6.944 hours/ns, 40.000 timesteps/s, 1.280 Matom-step/s\n"
            "99.7% CPU use with 4 MPI tasks x no OpenMP threads\n\nNeighbor list builds = 8\nDangerous builds = 1\n"
            "run 5\nLoop time of 9 on 1 procs for 5 steps with 7 atoms\n"
        )
        assert performance_of(new) == {
            "loop_time": 2.5,
            "processors": 4,
            "performance": {"ns/day": 3.456, "hours/ns": 6.944, "timesteps/s": 40.0, "Matom-step/s": 1.28},
            "cpu_use": 99.7,
            "mpi_tasks": 4,
            "neighbor_builds": 8,
            "dangerous_builds": 1,
        }
        assert performance_of("nothing\n") == {}
        assert wall_seconds("x\nTotal wall time: 1:02:03\nTotal wall time: 100:00:01\n") == [3723, 360001]

    @given(values=st.lists(st.floats(), max_size=20))
    def test_the_last_event_of_a_curve(self, values: list[float]) -> None:
        series = curve(np.arange(len(values), dtype=np.int64), np.array(values, dtype=np.float64))
        events = list(series.events("k"))
        last = series.last("k")
        assert (last is None) == (not events)
        if last is not None:
            assert (last.step, last.wall_time) == (events[-1].step, events[-1].wall_time)
            assert np.array([last.value]).tobytes() == np.array([events[-1].value]).tobytes()

    @given(raw=st.text(max_size=200))
    @settings(max_examples=100)
    def test_no_text_breaks_the_reader(self, raw: str) -> None:
        performance_of(raw)
        performance_of("Loop time of 2.5 on 4 procs for 100 steps with 32000 atoms\nPerformance: " + raw)


@pytest.mark.filterwarnings("error")
def test_a_timestep_no_run_has_gives_times_beyond_all_numbers() -> None:
    assert Clock.even(1e308).times(np.array([0, 100])).tolist() == [0.0, float("inf")]
