"""Runs of LAMMPS as records: values against what LAMMPS itself says while it runs."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lammps_runs import lammps, needs_lammps, run_script

import molrec_convert
from molrec_convert.errors import FormatError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Record
from molrec_convert.report import Fate, Report
from molrec_lammps.options import RunOptions
from molrec_lammps.run.run import read_run

pytestmark = [pytest.mark.lammps]

MELT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 3 0 3 0 3
create_box 2 box
create_atoms 1 box
set atom 1*20 type 2
mass 1 1.0
mass 2 2.5
velocity all create 1.44 87287
pair_style lj/cut 2.5
pair_coeff * * 1.0 1.0 2.5
fix 1 all nve
thermo 10
thermo_style custom step pe ke etotal temp press vol
thermo_modify format float %.17g
timestep 0.004
"""

CHAIN = """LAMMPS data file of three chains

9 atoms
6 bonds
3 angles
2 atom types
1 bond types
1 angle types
0 20 xlo xhi
0 20 ylo yhi
0 20 zlo zhi

Masses

1 15.9994
2 1.008

Atoms # full

1 1 1 -0.82 1.0 1.0 1.0 0 0 0
2 1 2 0.41 2.0 1.0 1.0 0 0 0
3 1 2 0.41 0.7 1.9 1.0 0 0 0
9 3 2 0.41 10.7 11.9 1.0 0 0 0
8 3 2 0.41 12.0 11.0 1.0 0 0 0
7 3 1 -0.82 11.0 11.0 1.0 0 0 1
4 2 1 -0.82 6.0 1.0 6.0 0 0 0
5 2 2 0.41 7.0 1.0 6.0 0 0 0
6 2 2 0.41 5.7 1.9 6.0 0 0 0

Bonds

1 1 1 2
2 1 1 3
3 1 4 5
4 1 4 6
5 1 7 8
6 1 7 9

Angles

1 1 2 1 3
2 1 5 4 6
3 1 8 7 9
"""

WATER = """
units real
atom_style full
read_data chain.data
pair_style lj/cut/coul/cut 8.0
pair_coeff 1 1 0.155 3.166
pair_coeff 2 2 0.0 0.0
bond_style harmonic
bond_coeff 1 450 1.0
angle_style harmonic
angle_coeff 1 55 104.52
velocity all create 300 1234
fix 1 all nve
thermo 5
thermo_style custom step pe ke temp press emol
thermo_modify format float %.17g
"""


def play(directory: Path, text: str, **how: Any) -> list[dict[str, Any]]:
    """Run a script command by command; after each `run` note step, positions by id, thermo values and the box."""
    text = textwrap.dedent(text)
    (directory / "in.lmp").write_text(text)
    code = f"""
    out["frames"] = []
    for line in {text!r}.splitlines():
        lmp.command(line)
        if line.startswith(("run", "minimize")):
            n = lmp.extract_setting("nlocal")
            ids, x = lmp.extract_atom("id"), lmp.extract_atom("x")
            state = sorted((ids[i], [x[i][0], x[i][1], x[i][2]]) for i in range(n))
            out["frames"].append(dict(
                step=lmp.extract_global("ntimestep"), ids=[i for i, _ in state], x=[p for _, p in state],
                thermo={{w: lmp.get_thermo(w) for w in ("pe", "ke", "etotal", "temp", "press", "vol")}},
                box=lmp.extract_box()[:5]))
    """
    found = lammps(directory, code, **how)
    assert "error" not in found, found
    frames: list[dict[str, Any]] = found["frames"]
    return frames


def read(*paths: Path, **options: Any) -> tuple[Record, Report]:
    context = ReadContext(RunOptions(**options))
    return read_run(list(paths), context), context.report


def compare(
    record: Record, frames: list[dict[str, Any]], *, names: tuple[str, ...] = (), within: float = 1e-12
) -> None:
    """Frames of the trajectory at the steps LAMMPS was asked about: ids and positions bit for bit, thermo values.

    The next run prints the step at which one ends again, forces worked out anew: the last digits differ.
    """
    trajectory = record.trajectory
    assert trajectory is not None
    steps = trajectory.steps.tolist()
    for expected in frames:
        frame = trajectory[steps.index(expected["step"])]
        if "id" in frame["atoms"]:
            assert frame["atoms"]["id"].tolist() == expected["ids"]
        else:
            assert record.system is not None
            assert record.system["atoms"]["id"].tolist() == expected["ids"]
        x = np.stack([frame["atoms"][axis] for axis in "xyz"], axis=1)
        assert np.array_equal(x, np.array(expected["x"]))
        for name in names:
            word = {"volume": "vol"}.get(name, name)
            assert frame.meta[name] == pytest.approx(expected["thermo"][word], rel=within, abs=within), name
        low, high, xy, yz, xz = expected["box"]
        assert frame.box is not None
        lengths = np.array(high) - np.array(low)
        assert np.allclose(np.diag(frame.box.vectors), lengths, rtol=1e-14)
        assert np.allclose([frame.box.vectors[0, 1], frame.box.vectors[0, 2], frame.box.vectors[1, 2]], [xy, xz, yz])


DUMP = "dump {id} {group} custom 10 {file} {columns}\ndump_modify {id} format float %.17g\n"


def dump(file: str, columns: str = "id type x y z vx vy vz", *, group: str = "all", id: str = "d") -> str:
    return DUMP.format(id=id, group=group, file=file, columns=columns)


@needs_lammps
class TestRuns:
    def test_a_melt(self, tmp_path: Path) -> None:
        frames = play(tmp_path, MELT + dump("melt.dump") + "run 10\nrun 20\n")
        record, report = read(tmp_path)
        compare(record, frames, names=("pe", "ke", "etotal", "temp", "press", "volume"))
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 10, 20, 30]
        assert np.array_equal(record.trajectory.times, np.array([0, 10, 20, 30]) * 0.004)
        assert record.units == {"preset": "lj"}
        assert record.system is not None
        assert record.method is not None
        assert record.method["type"] == "classical"
        assert record.method["engine"]["name"] == "LAMMPS"
        assert record.method["engine"]["version"].startswith("22 Jul 2025")
        assert record.method["settings"]["timestep"] == 0.004
        assert record.method["settings"]["pair_style"] == "lj/cut 2.5"
        assert record.method["settings"]["thermo_normalized"] is True
        assert record.method["commands"] == [line for line in (tmp_path / "in.lmp").read_text().splitlines() if line]
        assert record.status == {"state": "succeeded", "message": "the run ended normally", "global_step": 30}
        assert any("per atom" in item.detail for item in report.of(Fate.CARRIED))
        assert record.forcefield is not None
        assert record.forcefield.table("pair", "lj/cut").count == 3
        assert not report.losses()
        assert any("region" in item.detail for item in report.of(Fate.CARRIED))

    def test_a_melt_as_a_store(self, tmp_path: Path) -> None:
        directory = tmp_path / "melt"
        directory.mkdir()
        frames = play(directory, MELT + dump("melt.dump") + "run 10\nrun 20\n")
        molrec_convert.convert(directory, tmp_path / "melt.mrec")
        with molrec_convert.open(tmp_path / "melt.mrec") as record:
            compare(record, frames, names=("pe", "temp"))
            assert record.system is not None
            types = [2] * 20 + [1] * 88
            assert record.system["atoms"]["type_id"].tolist() == types
            assert record.system["atoms"]["mass"].tolist() == [{1: 1.0, 2: 2.5}[number] for number in types]
            assert record.status is not None
            assert record.status["state"] == "succeeded"
            assert record.method is not None
            assert record.method["settings"]["units"] == "lj"

    def test_molecules_with_a_data_file(self, tmp_path: Path) -> None:
        (tmp_path / "chain.data").write_text(CHAIN)
        script = WATER + "mass 2 2.0\n" + dump("w.lammpstrj", "id type x y z ix iy iz") + "run 10\nrun 10\n"
        frames = play(tmp_path, script)
        record, report = read(tmp_path)
        compare(record, frames, names=("pe", "temp", "press"))
        system = record.system
        assert system is not None
        assert system["atoms"]["id"].tolist() == list(range(1, 10))
        assert system["atoms"]["charge"].tolist() == [-0.82, 0.41, 0.41] * 3
        assert system["atoms"]["mol_id"].tolist() == [1] * 3 + [2] * 3 + [3] * 3
        assert system["atoms"]["mass"].tolist() == [15.9994, 2.0, 2.0] * 3
        assert any("mass 1.008" in text for text in report.warnings)
        assert system["bonds"]["atomi"].tolist() == [0, 0, 3, 3, 6, 6]
        assert system["bonds"]["atomj"].tolist() == [1, 2, 4, 5, 7, 8]
        assert system["angles"]["atomj"].tolist() == [0, 3, 6]
        assert record.units == {"preset": "real"}
        assert system.meta["lammps"]["title"] == "LAMMPS data file of three chains"
        # No timestep command: LAMMPS' default in real units.
        assert record.trajectory is not None
        assert record.trajectory.times.tolist() == [0.0, 10.0, 20.0]
        assert "timestep" in [item.name for item in report.of(Fate.DERIVED)]
        assert "pe" in record.trajectory.declaration.meta
        assert "E_mol" in record.trajectory.declaration.meta

    @pytest.mark.parametrize("how", ["aniso", "tri"])
    def test_a_changing_cell(self, tmp_path: Path, how: str) -> None:
        npt = f"change_box all triclinic\nfix 1 all npt temp 1.4 1.4 0.4 {how} 3.0 3.0 1.0"
        script = MELT.replace("fix 1 all nve", npt)
        frames = play(tmp_path, script + dump("npt.dump") + "run 10\nrun 10\nrun 20\n")
        record, _ = read(tmp_path)
        compare(record, frames, names=("pe", "press", "volume"))
        volumes = [np.linalg.det(frame.box.vectors) for frame in record.trajectory]  # type: ignore[union-attr]
        assert len(set(volumes)) == len(volumes) == 5

    def test_a_subset(self, tmp_path: Path) -> None:
        (tmp_path / "chain.data").write_text(CHAIN)
        script = WATER + "group some id 4 5 6 7 8\n" + dump("s.dump", group="some") + "run 10\n"
        play(tmp_path, script)
        record, report = read(tmp_path)
        assert record.system is not None
        assert record.system["atoms"]["id"].tolist() == [4, 5, 6, 7, 8]
        assert record.system["bonds"]["atomi"].tolist() == [0, 0, 3]
        assert record.system["bonds"]["atomj"].tolist() == [1, 2, 4]
        assert record.system["angles"]["atomj"].tolist() == [0]
        assert report.lossy
        assert record.trajectory is not None
        assert record.trajectory[1]["atoms"].count == 5

    def test_a_dump_of_forces_alone(self, fixtures: Path, tmp_path: Path) -> None:
        """The data file's positions are kept, and LAMMPS has its own energy of step 0 for what is written of them."""
        shutil.copytree(fixtures / "faults/lammps/A1_forces_only_dump", tmp_path / "run")
        molrec_convert.convert(tmp_path / "run", tmp_path / "o.mrec", strict=True)
        with molrec_convert.open(tmp_path / "o.mrec") as record:
            assert record.frame is not None
            assert record.trajectory is not None
            assert record.frame["atoms"]["x"].tolist() == [1.0, 2.0]
            assert [frame["atoms"]["fx"].shape for frame in record.trajectory] == [(2,), (2,)]
        report = molrec_convert.convert(tmp_path / "o.mrec", tmp_path / "back", to_format="lammps-run")
        assert any(text.startswith("dropped: trajectory") for text in report.losses())
        found = lammps(tmp_path / "back", "lmp.file('in.lmp')\nout['pe'] = lmp.get_thermo('pe')")
        assert found["pe"] / 2 == pytest.approx(-0.02571394, rel=1e-7)

    def test_a_dump_of_forces_of_some_atoms(self, tmp_path: Path) -> None:
        """The section frame has the atoms of the dump."""
        text = MELT + dump("x.dump", "id fx fy fz", group="some") + "run 10\nwrite_data end.data\n"
        play(tmp_path, text.replace("fix 1 all nve", "group some id 2:5\nfix 1 all nve"))
        record, _ = read(tmp_path / "end.data", tmp_path / "x.dump", tmp_path / "log.lammps")
        whole, _ = read(tmp_path / "end.data")
        assert record.frame is not None
        assert whole.frame is not None
        assert record.frame["atoms"]["x"].tolist() == whole.frame["atoms"]["x"][1:5].tolist()

    def test_two_dumps_of_one_group(self, tmp_path: Path) -> None:
        script = MELT + dump("x.dump", "id type x y z") + dump("f.dump", "id fx fy fz", id="e") + "run 20\nrun 10\n"
        frames = play(tmp_path, script)
        record, report = read(tmp_path)
        compare(record, frames, names=("pe",))
        trajectory = record.trajectory
        assert trajectory is not None
        forces = lammps_rows(tmp_path / "f.dump")
        for number, frame in enumerate(trajectory):
            found = np.stack([frame["atoms"][name] for name in ("fx", "fy", "fz")], axis=1)
            assert np.array_equal(found, forces[number][:, 1:])
        assert not [text for text in report.losses() if "f.dump" in text]

    def test_two_dumps_whose_steps_differ(self, tmp_path: Path) -> None:
        other = dump("f.dump", "id fx fy fz", id="e").replace("custom 10", "custom 15")
        frames = play(tmp_path, MELT + dump("x.dump", "id type x y z") + other + "run 30\n")
        record, report = read(tmp_path)
        compare(record, frames)
        assert record.trajectory is not None
        forces = lammps_rows(tmp_path / "f.dump")
        for number, (frame, there) in enumerate(zip(record.trajectory, (0, None, None, 2), strict=True)):
            mask = frame["atoms"].validity("fx")
            assert mask.all() if there is not None else not mask.any(), number
            if there is not None:
                assert np.array_equal(frame["atoms"]["fx"], forces[there][:, 1])
        assert [text for text in report.losses() if "f.dump" in text and "mrec convert" in text]

    def test_two_dumps_without_a_common_step(self, tmp_path: Path) -> None:
        script = (
            MELT + dump("eq.dump") + "run 20\nundump d\nrun 5\n" + dump("prod.dump").replace("custom 10", "custom 15")
        )
        frames = play(tmp_path, script + "run 25\n")
        record, report = read(tmp_path)
        compare(record, frames[:1])
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 10, 20]
        assert [text for text in report.losses() if "prod.dump" in text and "mrec convert" in text]

    def test_dumps_of_other_groups(self, tmp_path: Path) -> None:
        script = MELT + "group a id 1:20\n" + dump("x.dump") + dump("a.dump", group="a", id="e") + "run 10\n"
        frames = play(tmp_path, script)
        record, report = read(tmp_path)
        compare(record, frames)
        assert [text for text in report.losses() if "a.dump" in text and f"mrec convert {tmp_path}" in text]

    def test_one_file_for_each_frame(self, tmp_path: Path) -> None:
        frames = play(tmp_path, MELT + dump("d.*.dump") + "run 90\nrun 20\n")
        assert len(list(tmp_path.glob("d.*.dump"))) == 12
        record, _ = read(tmp_path)
        compare(record, frames, names=("pe", "temp"))
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == list(range(0, 111, 10))

    def test_a_restart_that_appends(self, tmp_path: Path) -> None:
        text = MELT + dump("r.dump") + "run 20\nwrite_restart r.restart\nrun 20\n"
        first = play(tmp_path, text)
        assert first[0]["step"] == 20
        again = """
        read_restart r.restart
        pair_style lj/cut 2.5
        pair_coeff * * 1.0 1.0 2.5
        fix 1 all nvt temp 2.0 2.0 0.1
        thermo 10
        thermo_style custom step pe ke etotal temp press vol
        thermo_modify format float %.17g
        timestep 0.004
        """ + dump("r.dump")
        script = textwrap.dedent(again) + "dump_modify d append yes\nrun 20\nrun 10\n"
        second = play(tmp_path, script, log="log.second")
        sources = [tmp_path / name for name in ("in.lmp", "log.lammps", "log.second", "r.dump")]
        with pytest.raises(FormatError, match=r"step 20 again, with other rows.*--steps last"):
            read(*sources)
        record, _ = read(*sources, steps="last")
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 10, 20, 30, 40, 50]
        compare(record, second, names=("pe", "temp"))
        assert record.status is not None
        assert record.status["global_step"] == 50

    def test_a_varying_number_of_atoms(self, tmp_path: Path) -> None:
        script = MELT + "region slab block INF INF INF INF 0 1\nfix 2 all evaporate 7 2 slab 49892\n" + dump("e.dump")
        frames = play(tmp_path, script + "write_data start.data\nrun 10\nrun 20\n")
        assert len({len(frame["ids"]) for frame in frames}) > 1
        record, _ = read(tmp_path)
        compare(record, frames, names=("pe",))
        assert record.system is None or "atoms" not in record.system

    def test_molecules_that_leave(self, tmp_path: Path) -> None:
        (tmp_path / "chain.data").write_text(CHAIN)
        script = WATER + "region far block 4 20 INF INF INF INF\n" + dump("e.dump", "id type q x y z")
        script += "fix 2 all evaporate 7 1 far 4989 molecule yes\nrun 10\nunfix 2\nrun 10\n"
        code = f"""
        out["bonds"] = dict()
        for line in {script!r}.splitlines():
            lmp.command(line)
            if line.startswith("run"):
                count, flat = lmp.gather_bonds()
                pairs = sorted(sorted(flat[3 * n + 1 : 3 * n + 3]) for n in range(count))
                out["bonds"][str(lmp.extract_global("ntimestep"))] = pairs
        """
        (tmp_path / "in.lmp").write_text(script)
        found = lammps(tmp_path, code)
        assert "error" not in found, found
        assert len(found["bonds"]["10"]) == 4
        record, report = read(tmp_path)
        assert record.system is None or "atoms" not in record.system
        trajectory = record.trajectory
        assert trajectory is not None
        assert [frame["bonds"].count for frame in trajectory] == [6, 4, 4]
        for step, expected in found["bonds"].items():
            frame = trajectory[trajectory.steps.tolist().index(int(step))]
            ids = frame["atoms"]["id"].astype(int)
            pairs = np.stack([ids[frame["bonds"]["atomi"]], ids[frame["bonds"]["atomj"]]], axis=1)
            assert sorted(sorted(pair) for pair in pairs.tolist()) == expected
        assert any("bonds" in item.name + item.detail for item in report.items)

    def test_a_minimization(self, tmp_path: Path) -> None:
        script = MELT + "displace_atoms all random 0.1 0.1 0.1 4\n" + dump("m.dump")
        frames = play(tmp_path, script + "minimize 1e-6 1e-8 100 200\n")
        record, _ = read(tmp_path)
        compare(record, frames[-1:] if frames[-1]["step"] % 10 == 0 else [])
        assert record.method is not None
        assert "minimization" in record.method["description"]
        (entry,) = record.method["runs"]
        assert entry["command"] == "minimize"
        assert entry["energy_final"] < entry["energy_initial"]

    @pytest.mark.parametrize("style", ["multi", "yaml"])
    def test_other_thermo_styles(self, tmp_path: Path, style: str) -> None:
        text = MELT.replace("thermo_style custom step pe ke etotal temp press vol", f"thermo_style {style}")
        frames = play(tmp_path, text + dump("x.dump") + "run 10\nrun 10\n")
        record, _ = read(tmp_path)
        compare(record, frames, names=("pe", "ke", "temp", "press"), within={"multi": 6e-5, "yaml": 1e-12}[style])

    def test_a_timestep_that_changes(self, tmp_path: Path) -> None:
        frames = play(tmp_path, MELT + dump("x.dump") + "run 10\ntimestep 0.002\nrun 10\n")
        record, report = read(tmp_path)
        compare(record, frames)
        assert record.trajectory is not None
        assert record.trajectory.times.tolist() == pytest.approx([0.0, 0.04, 0.06])
        (tmp_path / "log.lammps").unlink()
        record, report = read(tmp_path)
        assert record.trajectory.times is None
        assert any("several timesteps (0.002, 0.004)" in text for text in report.warnings)

    @pytest.mark.parametrize(
        "commands",
        [
            "{dump}minimize 0 0 3 100\nrun 10\nminimize 0 0 2 100\nrun 10\n",
            "minimize 0 0 3 100\n{dump}timestep 0.002\nrun 10\n",
            "minimize 0 0 3 100\nreset_timestep 0\n{dump}run 10\ntimestep 0.001\nminimize 0 0 3 100\nrun 20\n",
            "run 7\nreset_timestep 100 time 7.5\n{dump}run 10\nrun 10\n",
            "run 3\n{dump}run 7\nundump d\nreset_timestep 0\ntimestep 0.001\nrun 20\n",
        ],
    )
    def test_times_are_those_of_lammps(self, tmp_path: Path, commands: str) -> None:
        """As LAMMPS writes them into the dump itself (`dump_modify time yes`): minimizations take no time."""
        text = dump("x.dump").replace("custom 10", "custom 1") + "dump_modify d time yes\n"
        play(tmp_path, MELT + commands.format(dump=text))
        record, _ = read(tmp_path)
        assert record.trajectory is not None
        steps, wanted = record.trajectory.steps.tolist(), record.trajectory.times
        lines = (tmp_path / "x.dump").read_text().split("\n")
        stated = [place for place, line in enumerate(lines) if line.startswith("ITEM: TIME") and "STEP" not in line]
        gone = {*stated, *(place + 1 for place in stated)}
        (tmp_path / "x.dump").write_text("\n".join(line for place, line in enumerate(lines) if place not in gone))
        record, _ = read(tmp_path)
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == steps
        assert record.trajectory.times == pytest.approx(wanted, rel=1e-12)

    def test_times_behind_a_restart_that_appends(self, tmp_path: Path) -> None:
        """A restart file holds the time: behind a minimization it is not the step times the timestep."""
        stated = dump("x.dump") + "dump_modify d time yes\n"
        text = MELT + "minimize 0 0 3 100\n" + stated + "run 20\nwrite_restart x.restart\n"
        assert "error" not in run_script(tmp_path, text)
        again = "log log.lammps append\nread_restart x.restart\ntimestep 0.002\nfix 1 all nve\n" + stated
        again += "dump_modify d append yes\nrun 20\n"
        assert "error" not in run_script(tmp_path, again, name="in.again", log="none")
        record, _ = read(tmp_path / "x.dump", tmp_path / "log.lammps")
        assert record.trajectory is not None
        wanted = record.trajectory.times
        lines = (tmp_path / "x.dump").read_text().split("\n")
        stated_at = [place for place, line in enumerate(lines) if line == "ITEM: TIME"]
        gone = {*stated_at, *(place + 1 for place in stated_at)}
        (tmp_path / "x.dump").write_text("\n".join(line for place, line in enumerate(lines) if place not in gone))
        record, _ = read(tmp_path / "x.dump", tmp_path / "log.lammps")
        assert record.trajectory is not None
        assert record.trajectory.times == pytest.approx(wanted, rel=1e-12)

    def test_without_a_log_steps_of_a_minimization_leave_times_open(self, tmp_path: Path) -> None:
        play(tmp_path, MELT + "minimize 0 0 3 100\n" + dump("x.dump") + "run 10\n")
        (tmp_path / "log.lammps").unlink()
        record, report = read(tmp_path)
        assert record.trajectory is not None
        assert record.trajectory.times is None
        assert any("only the log says how many" in text for text in report.warnings)

    def test_times_that_the_dump_states(self, tmp_path: Path) -> None:
        play(tmp_path, MELT + dump("x.dump") + "dump_modify d time yes\nrun 10\ntimestep 0.002\nrun 10\n")
        record, report = read(tmp_path)
        assert record.trajectory is not None
        assert record.trajectory.times.tolist() == pytest.approx([0.0, 0.04, 0.06])
        assert not any("no time" in text for text in report.warnings)

    def test_equilibration_with_another_timestep(self, tmp_path: Path) -> None:
        script = MELT + "run 20\nreset_timestep 0\ntimestep 0.002\n" + dump("x.dump") + "run 10\nrun 10\n"
        frames = play(tmp_path, script)
        record, _ = read(tmp_path)
        compare(record, frames[1:], names=("pe", "temp"))
        assert record.trajectory is not None
        assert record.trajectory.times.tolist() == [0.0, 10 * 0.002, 20 * 0.002]

    def test_variables_from_the_command_line(self, tmp_path: Path) -> None:
        text = MELT.replace("timestep 0.004", "timestep ${dt}") + dump("${name}.dump") + "run 10\n"
        frames = play(tmp_path, text, variables={"dt": 0.003, "name": "mine"})
        record, report = read(tmp_path)
        compare(record, frames)
        assert record.trajectory is not None
        assert record.trajectory.times.tolist() == [0.0, 10 * 0.003]
        assert not [text for text in report.warnings if "not taken into account" in text]

    def test_a_loop(self, tmp_path: Path) -> None:
        loop = "variable i loop 3\nlabel again\nrun 10\nnext i\njump SELF again\n"
        run_script(tmp_path, MELT + dump("x.dump") + loop)
        record, _ = read(tmp_path)
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 10, 20, 30]
        assert np.isfinite([frame.meta["pe"] for frame in record.trajectory]).all()
        assert record.method is not None
        assert record.method["settings"]["runs"] == ["run 10"] * 3

    def test_a_run_that_failed(self, tmp_path: Path) -> None:
        run_script(tmp_path, MELT + dump("x.dump") + "run 10\nfix 2 all nosuchfix\nrun 10\n")
        record, _ = read(tmp_path)
        assert record.status is not None
        assert record.status["state"] == "failed"
        assert "nosuchfix" in record.status["error"]["message"]

    def test_a_run_that_was_killed(self, tmp_path: Path) -> None:
        play(tmp_path, MELT + dump("x.dump") + "run 30\n")
        log = tmp_path / "log.lammps"
        text = log.read_text()
        log.write_text(text[: text.index("\n        20 ") + 15])
        record, _ = read(tmp_path)
        assert record.status is not None
        assert record.status["state"] == "running"
        assert record.status["global_step"] == 10
        assert record.trajectory is not None
        assert "pe" not in record.trajectory[3].meta

    def test_without_a_dump(self, tmp_path: Path) -> None:
        (tmp_path / "chain.data").write_text(CHAIN)
        run_script(tmp_path, WATER.replace("units real", "units real\nboundary p f p") + "run 10\n")
        record, report = read(tmp_path)
        assert record.trajectory is None
        assert record.frame is not None
        assert record.frame["atoms"]["x"][0] == 1.0
        assert record.frame.box is not None
        assert record.frame.box.boundary.tolist() == [True, False, True]
        assert record.status is not None
        assert record.units == {"preset": "real"}
        assert record.metrics is not None
        assert record.metrics["thermo/pe"].steps.tolist() == [0, 5, 10]
        assert "thermo output" in [item.name for item in report.of(Fate.CARRIED)]

    def test_without_a_log(self, tmp_path: Path) -> None:
        (tmp_path / "chain.data").write_text(CHAIN)
        (tmp_path / "in.settings").write_text("units real\natom_style full\ntimestep 0.5\n")
        text = WATER.replace("units real\natom_style full\n", "include in.settings\n")
        frames = play(tmp_path, text + dump("w.dump") + "run 10\n", log="none")
        record, _ = read(tmp_path)
        compare(record, frames)
        assert record.units == {"preset": "real"}
        assert record.status is None
        assert record.method is not None
        assert record.method["engine"] == {"name": "LAMMPS"}
        assert record.trajectory is not None
        assert record.trajectory.times.tolist() == [0.0, 5.0]
        assert not record.trajectory.declaration.meta

    def test_neither_dump_nor_data(self, tmp_path: Path) -> None:
        run_script(tmp_path, MELT + "run 1\n", log="none")
        with pytest.raises(UsageError, match="neither a dump nor a data file"):
            read(tmp_path)

    def test_files_in_any_combination(self, tmp_path: Path) -> None:
        (tmp_path / "chain.data").write_text(CHAIN)
        frames = play(tmp_path, WATER + dump("w.dump") + "run 10\nrun 10\n")
        data, trajectory, log, script = (tmp_path / n for n in ("chain.data", "w.dump", "log.lammps", "in.lmp"))
        whole, _ = read(tmp_path)
        for paths in ([script], [script, log, data, trajectory], [log], [trajectory, script], [data, log]):
            record, _ = read(*paths)
            compare(record, frames, names=("pe", "temp"))
            assert record.system == whole.system
            assert record.method == whole.method or script not in paths
            assert record.status == whole.status
        record, _ = read(data, trajectory, units="real")
        compare(record, frames)
        assert record.system is not None
        assert whole.system is not None
        assert record.system["bonds"] == whole.system["bonds"]
        assert (record.method, record.status) == (None, None)
        assert record.trajectory is not None
        assert record.trajectory.times is None

    def test_contradictions_are_reported(self, tmp_path: Path) -> None:
        (tmp_path / "chain.data").write_text(CHAIN)
        play(tmp_path, WATER + dump("w.dump") + "run 10\n")
        script = (tmp_path / "in.lmp").read_text().replace("units real", "units metal")
        (tmp_path / "in.lmp").write_text(script.replace("read_data", "timestep 5\nread_data"))
        (tmp_path / "chain.data").write_text(CHAIN.replace("LAMMPS data file", "LAMMPS data file, units = electron"))
        record, report = read(tmp_path)
        assert record.units == {"preset": "real"}
        said = " / ".join(report.warnings)
        assert "the script says units metal, the log units real" in said
        assert "units = electron" in said
        record, report = read(tmp_path, units="nano")
        assert record.units == {"preset": "nano"}
        assert any("--units nano" in text for text in report.warnings)


class TestCorpus:
    def test_every_directory_of_the_corpus(self, corpus: Path) -> None:
        directories = sorted(path.parent for path in (corpus / "energies").glob("*/in.lmp"))
        assert len(directories) >= 40
        for directory in directories:
            record, report = read(directory)
            assert record.system is not None
            assert record.frame is not None
            assert record.frame["atoms"].count == record.system["atoms"].count > 0
            assert record.units in ({"preset": "real"}, {"preset": "lj"}, {"preset": "metal"})
            assert record.method is not None
            assert "pair_style" in record.method["settings"]
            assert not report.warnings, directory


def lammps_rows(path: Path) -> list[np.ndarray[Any, Any]]:
    """Rows of each frame of a dump, by id, read plainly."""
    frames = []
    for text in path.read_text().split("ITEM: TIMESTEP\n")[1:]:
        rows = text.split("ITEM: ATOMS")[1].splitlines()[1:]
        table = np.array([[float(word) for word in row.split()] for row in rows])
        frames.append(table[np.argsort(table[:, 0])])
    return frames


CONTINUED = """\
read_restart ../r1/x.restart
timestep 0.004
thermo 10
fix 1 all nve
""" + dump("x.dump")


@needs_lammps
class TestContinued:
    """Run directories named together are one trajectory in time."""

    def runs(self, tmp_path: Path, first: str, second: str) -> tuple[Path, Path]:
        """Two runs, the second in a directory beside the first."""
        folders = tmp_path / "r1", tmp_path / "r2"
        for folder, text in zip(folders, (first, second), strict=True):
            folder.mkdir()
            found = run_script(folder, text)
            assert "error" not in found, found["error"]
        return folders

    def test_a_restart(self, tmp_path: Path) -> None:
        """Frames, times behind a minimization and thermo output are those of one run without a restart."""
        minimized = MELT + dump("x.dump") + "minimize 0 0 5 100\nrun 20\n"
        first, second = self.runs(tmp_path, minimized + "write_restart x.restart\nrun 10\n", CONTINUED + "run 20\n")
        (tmp_path / "whole").mkdir()
        text = minimized.replace("minimize", "dump_modify d time yes\nminimize") + "run 20\n"
        assert "error" not in run_script(tmp_path / "whole", text)
        whole, _ = read(tmp_path / "whole")
        assert whole.trajectory is not None
        with pytest.raises(UsageError, match="--overlap"):
            molrec_convert.convert([first, second], tmp_path / "o.mrec")
        for overlap in ("first", "last"):
            target = tmp_path / f"{overlap}.mrec"
            molrec_convert.convert([first, second], target, overlap=overlap, strict=True)
            with molrec_convert.open(target) as record:
                assert record.trajectory is not None
                assert record.trajectory.steps.tolist() == whole.trajectory.steps.tolist()
                assert record.trajectory.times == pytest.approx(whole.trajectory.times, rel=1e-12)
                for mine, theirs in zip(record.trajectory, whole.trajectory, strict=True):
                    assert np.allclose(mine["atoms"]["x"], theirs["atoms"]["x"], atol=1e-9)
                assert record.metrics is not None
                assert record.metrics["thermo/temp"].steps.tolist()[-2:] == [40, 45]
                assert record.method is not None
                assert record.method["continued"][0]["commands"][0].startswith("read_restart")

    def test_a_restart_of_molecules(self, fixtures: Path, tmp_path: Path) -> None:
        """Topology, charges and force field are those of the run that the restart file is of."""
        script = (fixtures / "faults/lammps/A3_if_exclude/in.lmp").read_text().replace("w.data", "../w.data")
        shutil.copy(fixtures / "faults/lammps/A3_if_exclude/w.data", tmp_path)
        steps = "timestep 0.5\nfix 1 all nve\n" + dump("x.dump", "id type x y z")
        head = script.partition("variable")[0] + "pair_style" + script.partition("pair_style")[2].replace("run 0", "")
        folders = self.runs(
            tmp_path,
            head + steps + "run 20\nwrite_restart x.restart\n",
            "read_restart ../r1/x.restart\n" + steps + "run 20\n",
        )
        molrec_convert.convert([*folders], tmp_path / "o.mrec", strict=True)
        with molrec_convert.open(tmp_path / "o.mrec") as record:
            assert record.system is not None
            assert record.trajectory is not None
            assert record.system["bonds"].count == 54
            assert record.system["atoms"]["charge"].tolist()[:2] == [-0.8476, 0.4238]
            assert record.forcefield is not None
            assert record.trajectory.steps.tolist() == [0, 10, 20, 30, 40]
            assert record.units == {"preset": "real"}

    def test_a_data_file_whose_steps_start_again(self, tmp_path: Path) -> None:
        folders = self.runs(
            tmp_path,
            MELT + dump("x.dump") + "run 20\nwrite_data end.data\n",
            "pair_style lj/cut 2.5\nread_data ../r1/end.data\npair_coeff * * 1.0 1.0 2.5\ntimestep 0.004\n"
            + ("fix 1 all nve\n" + dump("x.dump"))
            + "run 20\n",
        )
        with pytest.raises(UsageError, match="--shift-time"):
            molrec_convert.convert([*folders], tmp_path / "o.mrec")
        molrec_convert.convert([*folders], tmp_path / "o.mrec", shift_time=True)
        with molrec_convert.open(tmp_path / "o.mrec") as record:
            assert record.trajectory is not None
            steps = record.trajectory.steps
            assert steps.tolist() == [0, 10, 20, 30, 40, 50]
            assert record.trajectory.times == pytest.approx(steps * 0.004)

    def test_what_lies_beside(self, tmp_path: Path) -> None:
        """A file named beside belongs to every run; scripts of several folders are told of their directories."""
        first, second = self.runs(
            tmp_path,
            MELT + dump("x.dump") + "run 20\nwrite_restart x.restart\nwrite_data ../end.data\n",
            CONTINUED + "run 20\n",
        )
        record, _ = read(first, second, tmp_path / "end.data", overlap="last")
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 10, 20, 30, 40]
        with pytest.raises(UsageError, match="directories of runs that continue one another: mrec convert"):
            read(first / "in.lmp", second / "in.lmp")
