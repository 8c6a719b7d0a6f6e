"""What the energies or the start of a run need beside its force field comes back in the directory that is written.

Each case is run by LAMMPS twice: as it came, and as it was written from the stored record.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from lammps_runs import lammps, needs_lammps, run_script

import molrec_convert
from molrec_convert.errors import LossError, UnsupportedError
from molrec_convert.report import Report

#: Water with a cutoff that needs no long-range part; what comes in front of `run 0` is filled in.
WATER = """\
units real
atom_style full
read_data w.data
pair_style lj/cut/coul/cut 4.5
pair_coeff * * 0.1 2
bond_style harmonic
bond_coeff 1 450 0.9572
angle_style harmonic
angle_coeff 1 55 104.52
{lines}
run 0
"""
ENERGY = """
lmp.file('in.lmp')
lmp.command('thermo_style custom step pe press')
lmp.command('thermo_modify norm no')
lmp.command('run 0')
out['pe'], out['press'] = lmp.get_thermo('pe'), lmp.get_thermo('press')
"""


def energy(folder: Path) -> dict[str, float]:
    """The potential energy and the pressure that the script of a folder ends with."""
    found: dict[str, Any] = lammps(folder, ENERGY, log="none")
    assert "error" not in found, found["error"]
    return found


def folder_of(case: Path, tmp_path: Path) -> Path:
    shutil.copytree(case, tmp_path / "source")
    return tmp_path / "source"


def water(fixtures: Path, tmp_path: Path, lines: str) -> Path:
    """A folder with a script of water that has further lines."""
    folder = tmp_path / "source"
    folder.mkdir()
    shutil.copy(fixtures / "faults/lammps/A3_if_exclude/w.data", folder)
    (folder / "in.lmp").write_text(WATER.format(lines=lines))
    return folder


def written(source: Path, tmp_path: Path, **options: Any) -> tuple[Path, Report]:
    """The directory that is written from a stored record of the source; the report of writing."""
    molrec_convert.convert(source, tmp_path / "o.mrec")
    folder = source if source.is_dir() else source.parent
    how = {"potential_files": str(folder), **options}
    return tmp_path / "back", molrec_convert.convert(
        tmp_path / "o.mrec", tmp_path / "back", to_format="lammps-run", **how
    )


def assert_same(first: dict[str, float], second: dict[str, float]) -> None:
    for name, value in first.items():
        assert math.isclose(value, second[name], rel_tol=1e-11, abs_tol=1e-9), (name, value, second[name])


TEMPLATE = """\
dimer

2 atoms
1 bonds

Coords

1 0 0 0
2 1 0 0

Types

1 1
2 1

Bonds

1 1 1 2

Special Bond Counts

1 1 0 0
2 1 0 0

Special Bonds

1 2
2 1
"""
DIMERS = """\
dimers

4 atoms
1 atom types
1 bond types

0 10 xlo xhi
0 10 ylo yhi
0 10 zlo zhi

Masses

1 1

Atoms # template

1 1 1 1 1 1 1 1
2 1 1 2 1 2 1 1
3 2 1 1 1 5 5 5
4 2 1 2 1 6.2 5 5
"""
DRUDE = """\
two cores, each with its Drude particle

4 atoms
2 bonds
2 atom types
1 bond types

0 20 xlo xhi
0 20 ylo yhi
0 20 zlo zhi

Masses

1 15
2 0.4

Atoms # full

1 1 1 1.0 5 5 5
2 1 2 -1.5 5.1 5 5
3 2 1 1.0 8 5 5
4 2 2 -1.5 8 5.1 5

Bonds

1 1 1 2
2 1 3 4

Extra # d_w i_k

1 0.5 1
2 0.25 2
3 1.5 1
4 2 3
"""
#: Scripts that do not start without what they say in front of `read_data`, or behind it.
STARTS = {
    "template": (
        DIMERS,
        "units lj\nmolecule m mol.txt\natom_style template m\nread_data s.data\npair_style lj/cut 2.5\n"
        "pair_coeff * * 1 1\nbond_style harmonic\nbond_coeff 1 100 1.1\nrun 0\n",
    ),
    "drude": (
        DRUDE,
        "units real\natom_style full\nfix p all property/atom d_w i_k ghost yes\nread_data s.data fix p NULL Extra\n"
        "fix DRUDE all drude C D\npair_style hybrid/overlay lj/cut/coul/cut 9.0 thole 2.6 9.0\n"
        "pair_coeff * * lj/cut/coul/cut 0 1\npair_coeff 1 1 lj/cut/coul/cut 0.1 3\npair_coeff * * thole 1.0 2.6\n"
        "bond_style harmonic\nbond_coeff 1 500 0\nspecial_bonds lj/coul 0.0 0.5 0.5\ncomm_modify vel yes\nrun 0\n",
    ),
}


@needs_lammps
class TestEnergies:
    @pytest.mark.parametrize("name", STARTS)
    def test_of_what_does_not_start_otherwise(self, name: str, tmp_path: Path) -> None:
        folder = tmp_path / "source"
        folder.mkdir()
        for file, text in (("s.data", STARTS[name][0]), ("in.lmp", STARTS[name][1]), ("mol.txt", TEMPLATE)):
            (folder / file).write_text(text)
        back, _ = written(folder / "in.lmp", tmp_path)
        assert_same(energy(folder), energy(back))
        assert "ghost yes" in (back / "in.lmp").read_text() or name == "template"

    @pytest.mark.parametrize(
        "name",
        ["A3_if_exclude", "B_granular", "B_hyb_scaled", "B_include_jump", "B_pairstyle_var", "C_delete_bonds"],
    )
    def test_of_a_run_directory(self, name: str, fixtures: Path, tmp_path: Path) -> None:
        folder = folder_of(fixtures / "faults/lammps" / name, tmp_path)
        molrec_convert.convert(folder, tmp_path / "strict.mrec", strict=True)
        back, _ = written(folder, tmp_path)
        assert_same(energy(folder), energy(back))

    @pytest.mark.parametrize(
        "lines",
        [
            "neigh_modify exclude type 1 1 exclude type 1 2 every 1",
            "variable h index 2\nneigh_modify exclude type ${h} ${h}",
            "special_bonds lj/coul 0.5 0.5 0.5\nneigh_modify exclude molecule/intra all",
            "group oxygen type 1\ngroup some id 1:40\ngroup both intersect oxygen some\n"
            "neigh_modify exclude group both oxygen",
            "group some molecule 1 2 3\nneigh_modify exclude molecule/inter some",
            "group some id < 30\natom_modify first some\nneigh_modify include some",
            "delete_bonds all bond 1",
            "delete_bonds all bond 1 any remove special",
            "group some id 4:9\ndelete_bonds some multi remove special",
            "fix s all shake 0.0001 20 0 b 1 a 1",
            "fix s all shake 0.0001 20 0 m 1.008 a 1\nunfix s",
            "fix s all shake 0.0001 20 0 a 1 b 1\nunfix s\nfix s all shake 0.0001 20 0 b 1",
            "neighbor 0.5 bin\ncomm_modify cutoff 8.0 vel yes\ntimestep 0.25",
            "fix q all qeq/point 1 4.0 1.0e-6 400 param.qeq",
            "fix extra all property/atom d_weight i_kind",
        ],
    )
    def test_with_a_further_command(self, lines: str, fixtures: Path, tmp_path: Path) -> None:
        folder = water(fixtures, tmp_path, lines)
        (folder / "param.qeq").write_text("1 8.5 10.0 0 0 0\n2 4.5 13.0 0 0 0\n")
        back, report = written(folder / "in.lmp", tmp_path)
        assert not [text for text in report.losses() if not text.startswith("dropped: method")]
        wanted = energy(folder)
        assert_same(wanted, energy(back))
        (back / "plain").mkdir()
        shutil.copy(folder / "w.data", back / "plain")
        (back / "plain/in.lmp").write_text(WATER.format(lines=""))
        alike = lines.startswith(("neighbor", "fix extra", "special_bonds")) or lines.endswith("unfix s")
        assert math.isclose(wanted["pe"], energy(back / "plain")["pe"], rel_tol=1e-9) == alike

    @pytest.mark.parametrize("name", ["B_include_jump", "B_pairstyle_var", "B_granular", "C_delete_bonds"])
    def test_of_a_script_alone(self, name: str, fixtures: Path, tmp_path: Path) -> None:
        folder = folder_of(fixtures / "faults/lammps" / name, tmp_path)
        back, _ = written(folder / "in.lmp", tmp_path)
        assert_same(energy(folder), energy(back))

    @pytest.mark.parametrize("lines", ["include ff1.inc\njump rest.lmp\n", "jump in.rest\n", "include in.rest\n"])
    def test_of_scripts_that_lead_elsewhere(self, lines: str, fixtures: Path, tmp_path: Path) -> None:
        folder = folder_of(fixtures / "faults/lammps/B_include_jump", tmp_path)
        wanted = energy(folder)
        (folder / "in.rest").write_text((folder / "in.lmp").read_text())
        (folder / "in.lmp").write_text(lines)
        back, _ = written(folder / "in.lmp", tmp_path)
        assert_same(wanted, energy(back))

    @pytest.mark.parametrize("formula", ["$(lx/2-0.15)", "$(2*atoms/36)", "$((xhi-xlo)/(yhi-ylo)*4.5)", "${cut}"])
    def test_cutoffs_worked_out_from_the_box(self, formula: str, fixtures: Path, tmp_path: Path) -> None:
        folder = water(fixtures, tmp_path, "")
        script = (folder / "in.lmp").read_text()
        script = script.replace("read_data", "variable cut equal vol^(1/3)/2.1\nread_data").replace("4.5", formula)
        (folder / "in.lmp").write_text(script)
        back, _ = written(folder / "in.lmp", tmp_path)
        assert_same(energy(folder), energy(back))

    def test_in_other_units(self, fixtures: Path, tmp_path: Path) -> None:
        """Skin, communication cutoff and masses of a constraint are converted with all else."""
        lines = "neighbor 0.5 bin\ncomm_modify cutoff 8.0\ntimestep 2.0\nfix s all shake 0.0001 20 0 m 1.008"
        folder = water(fixtures, tmp_path, lines)
        back, _ = written(folder / "in.lmp", tmp_path, target_units="electron")
        script = (back / "in.lmp").read_text().split()
        assert float(script[script.index("neighbor") + 1]) == pytest.approx(0.5 / 0.529177, rel=1e-5)
        assert float(script[script.index("cutoff") + 1]) == pytest.approx(8 / 0.529177, rel=1e-5)
        assert energy(back)["pe"] * 627.5095 == pytest.approx(energy(folder)["pe"], rel=1e-4)

    def test_units_the_user_names(self, fixtures: Path, tmp_path: Path) -> None:
        """Where `--units` says what the numbers are in, those of commands are in that, too."""
        folder = water(fixtures, tmp_path, "neighbor 0.5 bin")
        with molrec_convert.read(folder / "in.lmp", units="metal") as record:
            assert record.units == {"preset": "metal"}
            molrec_convert.write(record, tmp_path / "same", format="lammps-run")
            molrec_convert.write(record, tmp_path / "other", format="lammps-run", target_units="nano")
        assert "neighbor 0.5 bin" in (tmp_path / "same/in.lmp").read_text()
        assert "neighbor 0.05 bin" in (tmp_path / "other/in.lmp").read_text()

    def test_what_an_if_executed(self, fixtures: Path, tmp_path: Path) -> None:
        """Without the log nothing tells what ran, which is said."""
        folder = folder_of(fixtures / "faults/lammps/A3_if_exclude", tmp_path)
        (folder / "log.lammps").unlink()
        _, report = written(folder, tmp_path)
        assert any("if" in text and "whether it was executed" in text for text in report.losses())

    def test_bonds_that_were_taken_out(self, fixtures: Path, tmp_path: Path) -> None:
        """The data file that the run wrote behind it is the system; given by the user under any name, too."""
        folder = folder_of(fixtures / "faults/lammps/C_delete_bonds", tmp_path)
        wanted = energy(folder)
        record = molrec_convert.read(folder)
        assert record.system is not None
        assert "bonds" not in record.system.blocks
        assert "setup" not in record.method
        (folder / "after.data").rename(folder / "mine.data")
        (folder / "log.lammps").unlink()
        molrec_convert.convert([folder / "in.lmp", folder / "mine.data"], tmp_path / "back", to_format="lammps-run")
        assert_same(wanted, energy(tmp_path / "back"))


class TestWhatIsNotWritten:
    def test_a_style_that_only_a_run_tells(self, fixtures: Path, tmp_path: Path) -> None:
        """The style's line is what is told, not that coefficients have none; a box that changed tells no lengths."""
        folder = water(fixtures, tmp_path, "")
        script = (folder / "in.lmp").read_text()
        for before, cutoff in (("", "$(temp)"), ("boundary s s s\n", "$(lx/2)")):
            (folder / "in.lmp").write_text(before + script.replace("4.5", cutoff))
            with pytest.raises(UnsupportedError, match=r"pair_style lj/cut/coul/cut.*no value outside"):
                molrec_convert.read(folder / "in.lmp")
            report = Report()
            record = molrec_convert.read(folder, report=report)
            assert record.forcefield is None
            assert any("pair_style lj/cut/coul/cut" in text for text in report.warnings)

    def test_groups_that_only_a_run_tells(self, fixtures: Path, tmp_path: Path) -> None:
        lines = "region r block 0 4 INF INF INF INF\ngroup low region r\n{}"
        for line in ("neigh_modify exclude group low low", "delete_bonds low bond 1"):
            folder = water(fixtures, tmp_path, lines.format(line))
            with pytest.raises(UnsupportedError, match="group low region r"):
                written(folder / "in.lmp", tmp_path)
            shutil.rmtree(folder)
            (tmp_path / "o.mrec").rename(tmp_path / line.split()[0])
        assert not (tmp_path / "back").exists()

    def test_types_that_get_other_numbers(self, fixtures: Path, tmp_path: Path) -> None:
        folder = water(fixtures, tmp_path, "neigh_modify exclude type 1 2")
        with pytest.raises(UnsupportedError, match=r"--type-order.*exclude type 1 2"):
            written(folder / "in.lmp", tmp_path, type_order="2,1")

    def test_fixes_that_count_are_said(self, fixtures: Path, tmp_path: Path) -> None:
        lines = "fix l all langevin 300 300 100 1\nfix n all nve\nfix e all efield 0 0 1\nfix_modify e energy yes\n"
        folder = water(fixtures, tmp_path, lines + "fix w all wall/lj93 zlo EDGE 1 1 2.5")
        _, report = written(folder / "in.lmp", tmp_path)
        assert [text.split()[2] for text in report.losses() if "dropped: fix" in text] == ["efield", "wall/lj93"]

    @pytest.mark.parametrize(
        "command",
        [
            "change_box all x scale 1.5 remap",
            "displace_atoms all random 0.1 0.1 0.1 87",
            "delete_atoms group all",
            "replicate 2 1 1",
            "set type 1 charge 0.1",
        ],
    )
    def test_what_alters_the_system_behind_the_data_file(self, command: str, fixtures: Path, tmp_path: Path) -> None:
        folder = water(fixtures, tmp_path, command)
        shutil.copy(fixtures / "faults/lammps/A4_change_box/log.lammps", folder)
        text = (folder / "log.lammps").read_text()
        (folder / "log.lammps").write_text(text.replace("change_box all x scale 1.5 remap", command))
        with pytest.raises(LossError, match=command.split()[0]):
            molrec_convert.convert(folder, tmp_path / "o.mrec", strict=True)

    @needs_lammps
    def test_a_dump_has_what_moved(self, fixtures: Path, tmp_path: Path) -> None:
        """The cell and the positions behind it are the dump's, and the energies those of the written run."""
        lines = "change_box all x scale 1.5 remap\ndump d all custom 1 d.dump id type x y z\n"
        lines += "dump_modify d format float %.17g"
        folder = water(fixtures, tmp_path, lines)
        run_script(folder, (folder / "in.lmp").read_text())
        molrec_convert.convert(folder, tmp_path / "strict.mrec", strict=True)
        back, _ = written(folder, tmp_path)
        assert_same(energy(folder), energy(back))
