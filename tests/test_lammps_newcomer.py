"""What a newcomer to LAMMPS runs meets: what is kept of files that belong together, and what is said of the rest."""

from __future__ import annotations

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
from molrec_lammps.run import read_run

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
