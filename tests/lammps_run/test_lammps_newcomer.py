"""What a newcomer to LAMMPS runs meets: what is kept of files that belong together, and what is said of the rest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lammps_runs import lammps, needs_lammps

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.formats import ReadContext
from molrec_convert.model import Record
from molrec_convert.report import Fate, Report
from molrec_lammps.options import RunOptions
from molrec_lammps.run.run import read_run

ELLIPSOIDS = """LAMMPS data file, units = lj

3 atoms
1 atom types
2 ellipsoids

0 10 xlo xhi
0 10 ylo yhi
0 10 zlo zhi

Atoms # ellipsoid

3 1 1 2.5 1 2 3
1 1 1 1.5 2 2 3
2 1 0 3.5 3 2 3

Velocities

1 {moving} 0 0 0 0 0
2 0 0 0 0 0 0
3 0 0 0 0 0 0

Ellipsoids

1 1 2 3 1 0 0 0
3 4 5 6 0 1 0 0
"""
BODIES = """LAMMPS data file, units = lj

1 atoms
1 atom types
1 bodies

-15 15 xlo xhi
-15 15 ylo yhi
-15 15 zlo zhi

Atoms # body

1 1 1 4.0 0 0 0

Bodies

1 1 12
1
1 1 4 0 0 0
1 0 0
0 1 0
"""


@dataclass
class Done:
    """How a command ended, and what it said on stderr."""

    code: int
    said: str


Mrec = Callable[..., Done]


@pytest.fixture
def mrec(capsys: pytest.CaptureFixture[str]) -> Mrec:
    """Runs a command line."""

    def call(*arguments: object) -> Done:
        code = run([str(argument) for argument in arguments])
        return Done(code, capsys.readouterr().err)

    return call


def dump(path: Path, columns: str, frames: list[list[str]]) -> Path:
    """A dump of the frames, in a box from 0 to 10; each frame is its rows."""
    head = "ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{count}\nITEM: BOX BOUNDS pp pp pp\n" + "0 10\n" * 3
    path.write_text(
        "".join(
            head.format(step=step, count=len(rows)) + f"ITEM: ATOMS {columns}\n" + "".join(f"{row}\n" for row in rows)
            for step, rows in enumerate(frames)
        )
    )
    return path


def together(*paths: Path, **options: Any) -> tuple[Record, Report]:
    context = ReadContext(RunOptions(**options))
    return read_run(list(paths), context), context.report


class TestDataFileBesideDump:
    """Columns of a data file that the dump does not state."""

    ROWS = ("1 1 1 1 1", "2 1 2 2 2", "3 1 3 3 3")

    def files(self, folder: Path, frames: list[list[str]], moving: float = 0.0) -> tuple[Path, Path]:
        (folder / "system.data").write_text(ELLIPSOIDS.format(moving=moving))
        return folder / "system.data", dump(folder / "run.dump", "id type x y z", frames)

    def test_properties_are_columns_of_the_system(self, tmp_path: Path) -> None:
        record, report = together(*self.files(tmp_path, [list(self.ROWS)] * 2))
        assert record.system is not None
        atoms = record.system["atoms"]
        assert atoms["density"].tolist() == [1.5, 3.5, 2.5]
        assert atoms["ellipsoidflag"].tolist() == [1, 0, 1]
        assert atoms["shapey"][[0, 2]].tolist() == [2.0, 5.0]
        assert atoms.validity("shapey").tolist() == [True, False, True]
        assert "vx" not in atoms.columns
        assert "quatw" not in atoms.columns
        [carried] = [item for item in report.of(Fate.CARRIED) if "density" in item.name]
        assert carried.name == "ellipsoidflag density shapex shapey shapez of system.data"

    def test_of_a_subset_too(self, tmp_path: Path) -> None:
        record, _ = together(*self.files(tmp_path, [[self.ROWS[2], self.ROWS[1]]] * 2))
        assert record.system is not None
        assert record.system["atoms"]["density"].tolist() == [3.5, 2.5]

    def test_where_atoms_come_and_go(self, tmp_path: Path) -> None:
        record, _ = together(*self.files(tmp_path, [list(self.ROWS), [self.ROWS[2], self.ROWS[0]]]))
        assert record.trajectory is not None
        assert record.trajectory[0]["atoms"]["density"].tolist() == [1.5, 3.5, 2.5]
        assert record.trajectory[1]["atoms"]["density"].tolist() == [1.5, 2.5]

    def test_the_dump_counts(self, tmp_path: Path) -> None:
        data, _ = self.files(tmp_path, [])
        rows = [f"{number} 1 1 1 1 {number}.25" for number in (1, 2, 3)]
        record, report = together(data, dump(tmp_path / "run.dump", "id type x y z density", [rows] * 2))
        target = tmp_path / "run.mrec"
        molrec_convert.write(record, target)
        with molrec_convert.open(target) as stored:
            assert stored.system is not None
            assert stored.system["atoms"]["density"].tolist() == [1.25, 2.25, 3.25]
        assert any("atoms/density" in item.name for item in report.of(Fate.CONVERTED))

    def test_a_state_of_its_own_is_named(self, tmp_path: Path) -> None:
        _, report = together(*self.files(tmp_path, [list(self.ROWS)] * 2, moving=1.0))
        [lost] = report.of(Fate.DROPPED)
        assert lost.name == "vx quatw quati quatj quatk of system.data"
        assert "the dump does not state" in lost.detail
        assert f"mrec convert {tmp_path / 'system.data'} system.mrec" in lost.detail
        [zero] = [item for item in report.of(Fate.CONVERTED) if "zero for all atoms" in item.detail]
        assert zero.name == "vy vz angmomx angmomy angmomz of system.data"
        [taken] = [item for item in report.of(Fate.CONVERTED) if "the trajectory has its own" in item.detail]
        assert taken.name == "x y z of system.data"

    def test_strict_refuses_real_losses_only(self, tmp_path: Path, mrec: Mrec) -> None:
        plain = ELLIPSOIDS[: ELLIPSOIDS.index("Ellipsoids")].replace("2 ellipsoids\n", "")
        plain = plain.replace("# ellipsoid", "# sphere").replace(" 1 1 1.5", " 1 1 2.5").replace(" 1 0 3.5", " 1 1 3.5")
        rows = dump(tmp_path / "run.dump", "id type x y z", [list(self.ROWS)] * 2)
        for moving, code in ((0.0, 0), (1.0, 3)):
            (tmp_path / "system.data").write_text(plain.format(moving=moving))
            target = tmp_path / f"{code}.mrec"
            done = mrec("convert", tmp_path / "system.data", rows, target, "--strict")
            assert done.code == code, done.said
            assert target.exists() == (code == 0)

    def test_unwrapped_positions_state_the_images(self, tmp_path: Path) -> None:
        text = ELLIPSOIDS.format(moving=0).replace(" 1 2 3\n", " 1 2 3 1 0 -1\n").replace(" 2 2 3\n", " 2 2 3 0 0 0\n")
        (tmp_path / "system.data").write_text(text.replace(" 3 2 3\n", " 3 2 3 0 0 0\n"))
        for columns, lost in (("id type xu yu zu", False), ("id type x y z", True)):
            rows = dump(tmp_path / "run.dump", columns, [list(self.ROWS)] * 2)
            _, report = together(tmp_path / "system.data", rows)
            assert any("ix" in item.name for item in report.of(Fate.DROPPED)) == lost

    def test_bodies(self, tmp_path: Path) -> None:
        (tmp_path / "system.data").write_text(BODIES)
        _, report = together(tmp_path / "system.data", dump(tmp_path / "a.dump", "id type x y z", [["1 1 0 0 0"]] * 2))
        assert [item.name for item in report.of(Fate.DROPPED)] == ["bodies body_integers body_numbers of system.data"]


class TestWrittenRuns:
    def test_shapes_that_are_not_there_are_refused(self, tmp_path: Path, mrec: Mrec) -> None:
        """LAMMPS reads no file whose flags say more shapes than it has."""
        files = TestDataFileBesideDump().files(tmp_path, [list(TestDataFileBesideDump.ROWS)] * 2)
        source = tmp_path / "run.mrec"
        assert mrec("convert", *files, source, "--units", "lj").code == 0
        for target, arguments in ((tmp_path / "out.data", ()), (tmp_path / "out", ("--to", "lammps-run"))):
            done = mrec("convert", source, target, *arguments)
            assert done.code == 1
            assert "ellipsoidflag is set for 2 atoms and the state has the shapes of 0" in done.said
            assert "quatw quati quatj quatk missing" in done.said
            assert "--target-atom-style" in done.said
            assert not target.exists()
        assert mrec("convert", source, tmp_path / "out.data", "--target-atom-style", "atomic").code == 0

    def test_bodies_that_are_not_there_are_refused(self, tmp_path: Path, mrec: Mrec) -> None:
        (tmp_path / "system.data").write_text(BODIES)
        rows = dump(tmp_path / "a.dump", "id type x y z", [["1 1 0 0 0"]] * 2)
        source = tmp_path / "run.mrec"
        assert mrec("convert", tmp_path / "system.data", rows, source).code == 0
        done = mrec("convert", source, tmp_path / "out.data")
        assert done.code == 1
        assert "bodies body_integers body_numbers missing" in done.said

    def test_without_a_force_field_the_user_is_told(self, tmp_path: Path, mrec: Mrec) -> None:
        rows = dump(tmp_path / "a.dump", "id type x y z", [["1 1 0 0 0"]])
        done = mrec("convert", rows, tmp_path / "out", "--to", "lammps-run", "--units", "real", "--elements", "C")
        assert done.code == 0, done.said
        assert "warning: the record states no force field" in done.said
        assert "pair_style zero" in (tmp_path / "out/settings.lmp").read_text()


@needs_lammps
@pytest.mark.parametrize("columns", ["id type x y z", "id type x y z vx vy vz"])
def test_a_run_of_spheres_runs_again(tmp_path: Path, mrec: Mrec, columns: str) -> None:
    """Diameters and densities of the data file reach the run that is written from the trajectory."""
    code = """
    lmp.commands_string('''
units lj
atom_style sphere
lattice fcc 0.5
region box block 0 2 0 2 0 2
create_box 1 box
create_atoms 1 box
set group all diameter 1.25
set group all density 1.5
velocity all create 1.0 1
pair_style lj/cut 2.5
pair_coeff * * 1 1
write_data system.data nocoeff
''')
    """
    folder = tmp_path / "run"
    folder.mkdir()
    assert "error" not in lammps(folder, code, log="none")
    (folder / "in.lmp").write_text(
        "units lj\natom_style sphere\nread_data system.data\npair_style lj/cut 2.5\npair_coeff * * 1 1\n"
        f"fix 1 all nve\ndump 1 all custom 10 t.dump {columns}\ndump_modify 1 format float %.17g\n"
        "thermo_style custom step pe\nthermo_modify norm no format float %.15g\nthermo 10\nrun 20\n"
    )
    energy = lammps(folder, "lmp.file('in.lmp'); out['pe'] = lmp.get_thermo('pe')")["pe"]
    assert mrec("convert", folder, tmp_path / "run.mrec").code == 0
    done = mrec("convert", tmp_path / "run.mrec", tmp_path / "again", "--to", "lammps-run")
    assert done.code == 0, done.said
    again = lammps(
        tmp_path / "again",
        "lmp.file('in.lmp'); out['pe'] = lmp.get_thermo('pe'); n = lmp.get_natoms()\n"
        "out['radius'] = lmp.numpy.extract_atom('radius')[:n].tolist()\n"
        "out['rmass'] = lmp.numpy.extract_atom('rmass')[:n].tolist()",
    )
    assert again["pe"] == pytest.approx(energy, rel=1e-12)
    assert set(again["radius"]) == {0.625}
    assert np.allclose(again["rmass"], 1.5 * np.pi / 6 * 1.25**3, rtol=1e-12, atol=0)


PLAIN = """LAMMPS data file, units = {units}

2 atoms
2 atom types

0 10 xlo xhi
0 10 ylo yhi
0 10 zlo zhi

Masses

1 1.5
2 2.5

Atoms # atomic

1 1 1 1 1
2 2 2.5 1 1
"""
SCRIPT = """units lj
{first}
atom_style atomic
pair_style lj/cut 3.0
read_data system.data
pair_coeff 1 1 1.5 1.0
pair_coeff 2 2 0.5 1.25
fix 1 all nve
thermo_style custom step pe
thermo_modify norm no format float %.15g
dump 1 all custom 5 a.dump id type x y z
dump_modify 1 format float %.17g
run 10
"""


class TestWhatFilesSayOfEachOther:
    def test_the_data_files_title_states_the_units(self, tmp_path: Path) -> None:
        (tmp_path / "system.data").write_text(PLAIN.format(units="metal"))
        rows = dump(tmp_path / "a.dump", "id type x y z", [["1 1 1 1 1", "2 2 2 1 1"]] * 2)
        record, report = together(tmp_path / "system.data", rows)
        assert record.units == {"preset": "metal"}
        assert not any("units" in text for text in report.warnings)
        record, report = together(tmp_path / "system.data", rows, units="real")
        assert record.units == {"preset": "real"}
        assert any("--units real is taken" in text for text in report.warnings)

    @pytest.mark.parametrize("stated", ["ITEM: UNITS\nmetal\n", "ITEM: TIME\n0\nITEM: UNITS\nmetal\n"])
    def test_the_dumps_units_are_those_of_the_data_file(self, tmp_path: Path, stated: str) -> None:
        text = PLAIN.format(units="x").replace(", units = x", "").replace("# atomic", "# charge")
        (tmp_path / "system.data").write_text(text.replace("1 1 1 1 1", "1 1 0 1 1 1").replace("2 2 2.5", "2 2 0 2.5"))
        rows = dump(tmp_path / "a.dump", "id type x y z", [["1 1 1 1 1", "2 2 2 1 1"]])
        rows.write_text(stated + rows.read_text())
        record, report = together(tmp_path / "system.data", rows)
        assert record.units == {"preset": "metal"}
        assert not report.warnings

    def test_a_dump_of_another_system_is_doubted(self, tmp_path: Path) -> None:
        (tmp_path / "system.data").write_text(PLAIN.format(units="metal"))
        rows = dump(tmp_path / "a.dump", "id type x y z", [["1 1 1 1 1", "2 1 2 1 1"]] * 2)
        _, report = together(tmp_path / "system.data", rows)
        assert [text for text in report.warnings if "are they of one run" in text] == [
            "type_id: the data file and the first frame of the dump differ for 1 of 2 atoms; the dump's is taken: "
            "are they of one run?"
        ]

    @pytest.mark.parametrize("name", ["a b", "run"])
    def test_the_command_for_another_dump_can_be_copied(self, tmp_path: Path, mrec: Mrec, name: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "system.data").write_text(PLAIN.format(units="lj"))
        dumps = "group one id 1\ndump 2 one custom 1 one.*.dump id type x y z\n"
        (folder / "in.lmp").write_text(SCRIPT.format(first="").replace("run 10\n", dumps + "run 10\n"))
        dump(folder / "a.dump", "id type x y z", [["1 1 1 1 1", "2 2 2 1 1"]] * 5)
        for step in range(5):
            text = dump(tmp_path / "one", "id type x y z", [["1 1 1 1 1"]]).read_text()
            (folder / f"one.{step}.dump").write_text(text.replace("STEP\n0\n", f"STEP\n{step}\n"))
        _, report = together(folder)
        [lost] = report.of(Fate.DROPPED)
        command = lost.detail.rpartition("; ")[2].removesuffix(" converts it")
        program = f"{sys.executable} -c 'from molrec_convert.cli import main; main()'"
        done = subprocess.run(
            ["sh", "-c", command.replace("mrec", program, 1)], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "5 frames" in mrec_info(tmp_path / "one.mrec")


def mrec_info(path: Path) -> str:
    with molrec_convert.open(path) as record:
        assert record.trajectory is not None
        return f"{len(record.trajectory)} frames"


class TestFilesOfAnotherKind:
    def test_a_restart_file(self, tmp_path: Path, mrec: Mrec) -> None:
        (tmp_path / "r.restart").write_bytes(b"LammpS RestartT\0\1\0\0\0" + bytes(range(200)))
        (tmp_path / "system.data").write_text(PLAIN.format(units="lj"))
        done = mrec("convert", tmp_path / "r.restart", tmp_path / "x.mrec")
        assert done.code == 1
        assert "lmp -restart2data r.restart r.data" in done.said
        done = mrec("convert", tmp_path / "r.restart", tmp_path / "x.mrec", "--from", "lammps-run")
        assert done.code == 1
        assert "lmp -restart2data r.restart r.data" in done.said

    def test_restart_files_in_a_run_are_nothing_to_it(self, tmp_path: Path) -> None:
        (tmp_path / "r.restart").write_bytes(b"LammpS RestartT\0\1\0\0\0" + bytes(range(200)))
        (tmp_path / "system.data").write_text(PLAIN.format(units="lj"))
        dump(tmp_path / "a.dump", "id type x y z", [["1 1 1 1 1", "2 2 2 1 1"]] * 2)
        _, report = together(tmp_path)
        assert not report.lossy

    @pytest.mark.parametrize("second", ["read_data gone.data", "read_restart gone.restart"])
    @pytest.mark.parametrize("third", ["pair_coeff 1 1 1.0 1.0", "mass 1 2.0", "bond_coeff 1 1.0 1.0"])
    def test_a_script_whose_data_is_gone(self, tmp_path: Path, mrec: Mrec, second: str, third: str) -> None:
        """Beside a dump its coefficients stay text; without one there is nothing to convert."""
        folder = tmp_path / "run"
        folder.mkdir()
        head = "units lj\natom_style bond\npair_style lj/cut 2.5\nbond_style harmonic\n"
        (folder / "in.lmp").write_text(f"{head}{second}\n{third}\ndump 1 all custom 1 a.dump id type x y z\nrun 1\n")
        done = mrec("convert", folder, tmp_path / "x.mrec")
        assert done.code == 2
        assert "neither a dump nor a data file" in done.said
        assert ("gone.data, which the script reads, is not there" in done.said) == ("data" in second)
        dump(folder / "a.dump", "id type x y z", [["1 1 1 1 1", "2 2 2 1 1"]] * 2)
        done = mrec("convert", folder, tmp_path / "x.mrec")
        assert done.code == 0, done.said
        assert "warning: the record has no force field but the commands as text" in done.said

    def test_a_style_that_does_not_exist(self, tmp_path: Path, mrec: Mrec) -> None:
        (tmp_path / "system.data").write_text(PLAIN.format(units="lj"))
        text = SCRIPT.format(first="").replace("lj/cut 3.0", "lj/cutt 3.0")
        (tmp_path / "in.lmp").write_text(text)
        done = mrec("convert", tmp_path / "in.lmp", tmp_path / "x.mrec")
        assert done.code == 0
        assert "warning: pair_style lj/cutt: no style of this name is known" in done.said

    def test_an_empty_log(self, tmp_path: Path, mrec: Mrec) -> None:
        (tmp_path / "log.lammps").write_bytes(b"")
        done = mrec("convert", tmp_path / "log.lammps", tmp_path / "x.mrec")
        assert done.code == 1
        assert "found an empty file" in done.said


@needs_lammps
class TestRunsWhoseLogSaysLess:
    """The log does not have all commands: the script's count."""

    @pytest.mark.parametrize("first", ["echo screen", "echo none", "log second.log", "log none", "echo both"])
    @pytest.mark.parametrize("there", [True, False])
    def test_the_force_field_is_the_scripts(self, tmp_path: Path, mrec: Mrec, first: str, there: bool) -> None:
        folder = tmp_path / "run"
        folder.mkdir()
        (folder / "system.data").write_text(PLAIN.format(units="lj"))
        (folder / "in.lmp").write_text(SCRIPT.format(first=first))
        energy = lammps(folder, "lmp.file('in.lmp'); out['pe'] = lmp.get_thermo('pe')")["pe"]
        if not there:
            (folder / "second.log").unlink(missing_ok=True)
        assert mrec("convert", folder, tmp_path / "run.mrec").code == 0
        done = mrec("convert", tmp_path / "run.mrec", tmp_path / "again", "--to", "lammps-run")
        assert done.code == 0, done.said
        again = lammps(tmp_path / "again", "lmp.file('in.lmp'); out['pe'] = lmp.get_thermo('pe')")["pe"]
        assert again == pytest.approx(energy, rel=1e-12)


@needs_lammps
def test_masses_that_come_with_the_pair_style(tmp_path: Path, mrec: Mrec, corpus: Path) -> None:
    """EAM files state masses: a run without a data file has none elsewhere."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copyfile(corpus / "energies/eam/Cu_own.eam", folder / "Cu_own.eam")
    (folder / "in.lmp").write_text(
        "units metal\nlattice fcc 3.615\nregion box block 0 2 0 2 0 2\ncreate_box 1 box\ncreate_atoms 1 box\n"
        "pair_style eam\npair_coeff 1 1 Cu_own.eam\nvelocity all create 300 1\nfix 1 all nve\n"
        "dump 1 all custom 5 a.dump id type x y z\ndump_modify 1 format float %.17g\nrun 10\n"
    )
    energy = lammps(folder, "lmp.file('in.lmp'); out['pe'] = lmp.get_thermo('pe')")["pe"]
    assert mrec("convert", folder, tmp_path / "run.mrec").code == 0
    done = mrec("convert", tmp_path / "run.mrec", tmp_path / "out", "--to", "lammps-run", "--potential-files", folder)
    assert done.code == 0, done.said
    again = lammps(tmp_path / "out", "lmp.file('in.lmp'); out['pe'] = lmp.get_thermo('pe')")
    assert again["pe"] == pytest.approx(energy, rel=1e-12), again


class TestOtherCommandsOnFilesOfLammps:
    """What only stored records have is refused with the way to one."""

    @pytest.mark.parametrize("command", ["validate", "tree"])
    def test_a_data_file_is_no_record(self, tmp_path: Path, mrec: Mrec, command: str) -> None:
        (tmp_path / "a b.data").write_text(PLAIN.format(units="lj"))
        done = mrec(command, tmp_path / "a b.data")
        assert done.code == 1
        assert "found the format lammps-data, expected a MolRec record" in done.said
        assert "'a b.mrec' makes one" in done.said

    def test_info_names_the_file(self, tmp_path: Path, mrec: Mrec, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "system.data").write_text(PLAIN.format(units="lj"))
        assert run(["info", str(tmp_path / "system.data")]) == 0
        assert capsys.readouterr().out.startswith("record  system.data, read as MolRec\n")

    @pytest.mark.parametrize(("files", "words"), [(0, "an empty directory"), (1, "a directory without files of any")])
    def test_directories_without_a_run(self, tmp_path: Path, mrec: Mrec, files: int, words: str) -> None:
        folder = tmp_path / "run"
        folder.mkdir()
        for number in range(files):
            (folder / f"notes{number}.txt").write_text("hello\n")
        done = mrec("convert", folder, tmp_path / "x.mrec")
        assert done.code == 1
        assert f"found {words}" in done.said
