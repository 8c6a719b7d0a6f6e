"""Input scripts as the source of a record: alone, beside a data file, and in the folder of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lammps_runs import lammps, needs_lammps
from test_lammps_script_potential import BARE, COEFFICIENTS, DATA, HEAD, HYBRID, LABELS, READ, SET

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.errors import FormatError, LossError, UnsupportedError, UsageError
from molrec_convert.model import Record
from molrec_convert.report import Fate, Report

WAY_OUT = (
    r"let LAMMPS write the system.*give the data file beside the script: mrec convert in\.lmp system\.data out\.mrec"
)
RULED = "pair_style lj/cut 6\npair_coeff * * 0.1 1.5\n"


@pytest.fixture
def folder(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Writes a script and its data file, gives the folder."""

    def write(script: str, coefficients: str = "", data: str = "system.data") -> Path:
        if data:
            (tmp_path / data).write_text(DATA.format(coefficients=coefficients))
        (tmp_path / "in.lmp").write_text(script)
        return tmp_path

    return write


def read(*paths: Path, **options: Any) -> tuple[Record, Report]:
    """A record of the paths, and its report."""
    report = Report()
    return molrec_convert.read(*paths, report=report, **options), report


class TestAlone:
    def test_system_state_and_force_field(self, folder, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        here = folder(
            READ + "special_bonds amber\npair_coeff 1 3 0.7 2.5\nfix 1 all nve\ncompute a all pe\n", COEFFICIENTS
        )
        report = molrec_convert.convert(here / "in.lmp", tmp_path / "out.mrec", strict=True)
        assert not report.losses()
        with molrec_convert.open(tmp_path / "out.mrec") as record:
            assert record.sections == ["meta", "system", "frame", "forcefield", "method"]
            assert record.units == {"preset": "real"}
            assert record.frame is not None
            assert record.forcefield is not None
            assert record.frame["atoms"]["x"].tolist() == [1.0, 2.1, 2.9, 4.3, 5.6, 6.3]
            table = record.forcefield.table("pair", "lj/cut")
            pairs = list(zip(table["itom"].tolist(), table["jtom"].tolist(), strict=True))
            assert dict(zip(pairs, table["epsilon"].tolist(), strict=True))[("1", "3")] == 0.7
            assert record.forcefield.special_bonds == {"lj": [0, 0, 0.5], "coul": [0, 0, 5 / 6]}
            assert not record.resolve().remarks
            assert record.method is not None
            assert record.method["commands"][-2:] == ["fix 1 all nve", "compute a all pe"]
        kept = {item.name: item.detail for item in report.of(Fate.CARRIED)}
        assert kept["fixes"].startswith("nve: kept as text")
        assert "compute" in kept["commands not read"]

    def test_compressed_data_included_force_field_and_masses(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder("include first\n" + RULED + "mass 3 18\n")
        (here / "first").write_text(BARE)
        (here / "system.data").rename(here / "system.data.gz")
        import gzip

        (here / "system.data.gz").write_bytes(gzip.compress((here / "system.data.gz").read_bytes()))
        record, report = read(here / "in.lmp")
        assert record.system is not None
        assert record.forcefield is not None
        assert record.system["atoms"]["mass"].tolist() == [12.011, 1.008, 18, 12.011, 18, 1.008]
        assert record.system.meta["lammps"]["masses"] == [12.011, 1.008, 18]
        assert any("the data file says mass 15.9994" in text for text in report.warnings)

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            ("create_atoms 1 single 1 1 1", "commands that build or change atoms are not carried out"),
            ("set type 1 charge 0.5", "commands that build or change atoms are not carried out"),
            ("replicate 2 2 2", "commands that build or change atoms are not carried out"),
            ("delete_atoms group all", "commands that build or change atoms are not carried out"),
            ("displace_atoms all move 1 0 0", "commands that build or change atoms are not carried out"),
            ("change_box all x final 0 20", "commands that build or change atoms are not carried out"),
            ("read_restart old.restart", "commands that build or change atoms are not carried out"),
            ("create_bonds many all all 1 0 2", "commands that build or change atoms are not carried out"),
            ("reset_atoms id", "commands that build or change atoms are not carried out"),
            ('if "$(step) > 1" then "print a"', "which commands an 'if' executes"),
            ("label a\nnext i", "loops are not followed"),
            ("jump SELF a", "loops are not followed"),
            ("python f source here 'pass'", "what Python code does"),
            ("shell cd elsewhere", "other programs are not run"),
            ("clear", "another system begins here"),
        ],
    )
    def test_what_only_running_tells(self, folder, line: str, why: str) -> None:  # type: ignore[no-untyped-def]
        """Refused with the line and the way out; with the data file named the way out works."""
        here = folder(BARE + SET + RULED + line + "\n")
        number = len((BARE + SET + RULED + line).splitlines())
        with pytest.raises(UnsupportedError, match=rf"in\.lmp, line {number}: .*: {why}.*; {WAY_OUT}"):
            read(here / "in.lmp")
        record, _ = read(here / "in.lmp", here / "system.data")
        assert record.system is not None
        assert record.system["atoms"].count == 6

    def test_a_script_that_builds_its_atoms(self, folder) -> None:  # type: ignore[no-untyped-def]
        box = HEAD + "region b block 0 9 0 9 0 9\ncreate_box 3 b bond/types 2\ncreate_atoms 1 single 1 1 1\n" + RULED
        here = folder(box, data="")
        with pytest.raises(UnsupportedError, match=rf"in\.lmp, line 4: .*create_box.*{WAY_OUT}"):
            read(here / "in.lmp")
        (here / "my.data").write_text(DATA.format(coefficients=COEFFICIENTS))
        record, _ = read(here / "in.lmp", here / "my.data")
        assert record.forcefield is not None
        assert set(record.forcefield.tables) == {"atom.full", "bond.harmonic", "angle.harmonic", "pair.lj%2Fcut"}
        assert set(record.forcefield.table("pair", "lj/cut")["epsilon"].tolist()) == {0.1}

    def test_coefficients_of_a_file_beside_the_script_wait_for_their_style(self, folder) -> None:  # type: ignore[no-untyped-def]
        text = HEAD + "read_data first.data\nreplicate 2 1 1\npair_style lj/cut 6\npair_coeff 2 2 0.9 1\n"
        here = folder(text + "bond_style harmonic\nangle_style cosine\nangle_coeff * 4\n", COEFFICIENTS)
        record, _ = read(here / "in.lmp", here / "system.data")
        assert record.forcefield is not None
        table = record.forcefield.table("pair", "lj/cut")
        assert dict(zip(table["itom"].tolist(), table["epsilon"].tolist(), strict=True)) == {
            "1": 0.1,
            "2": 0.9,
            "3": 0.3,
        }
        assert set(record.forcefield.tables) == {"atom.full", "bond.harmonic", "angle.cosine", "pair.lj%2Fcut"}

    def test_the_named_one_of_two_files_of_a_name(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ, COEFFICIENTS)
        (here / "other").mkdir()
        other = here / "other" / "system.data"
        other.write_text(
            DATA.format(coefficients=COEFFICIENTS.replace("0.1 1.5", "0.9 1.1")).replace(" 1.1\n", " 3.5\n")
        )
        record, _ = read(here / "in.lmp", other)
        assert record.forcefield is not None
        assert record.frame is not None
        assert record.forcefield.table("pair", "lj/cut")["epsilon"].tolist()[0] == 0.9
        assert record.frame["atoms"]["z"].tolist()[1] == 3.5

    def test_nothing_that_says_what_the_atoms_are(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder(HEAD + "pair_style zero 5\n", data="")
        with pytest.raises(FormatError, match=rf"in\.lmp, line 1: found no read_data command .*{WAY_OUT}"):
            read(here / "in.lmp")

    @pytest.mark.parametrize(
        ("line", "found"), [("include more", "include more"), ("read_data more.data", "read_data")]
    )
    def test_a_file_that_is_not_there(self, folder, line: str, found: str) -> None:  # type: ignore[no-untyped-def]
        here = folder(HEAD + line + "\n" + RULED, data="")
        with pytest.raises(FormatError, match=rf"in\.lmp, line 3: found {found}.*, which is not there"):
            read(here / "in.lmp")

    def test_bad_words(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ + "pair_coeff 4 4 1 1\n", COEFFICIENTS)
        expected = r"expected a type from 1 to 3, a range such as '1\*3', or a type label"
        with pytest.raises(FormatError, match=rf"in\.lmp, line 7: found '4' with 3 atom types, {expected}"):
            read(here / "in.lmp")
        with pytest.raises(FormatError, match=r"in\.lmp, line 7"):
            read(here / "in.lmp", here / "system.data")

    def test_a_variable_without_a_value(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ + "pair_coeff 1 1 ${eps} 1\n", COEFFICIENTS)
        with pytest.raises(UnsupportedError, match=r"in\.lmp, line 7: .*the variable 'eps' is not defined"):
            read(here / "in.lmp")
        record, report = read(here / "in.lmp", here / "system.data")
        assert record.forcefield is None
        assert any("the variable 'eps' is not defined" in text for text in report.warnings)

    def test_running_and_velocities_do_not_matter(self, folder) -> None:  # type: ignore[no-untyped-def]
        text = BARE + SET + "velocity all create 300 1\nminimize 0 0 1 1\nrun 10\n" + RULED
        record, report = read(folder(text) / "in.lmp")
        assert record.forcefield is not None
        assert record.frame is not None
        assert "vx" not in record.frame["atoms"].columns
        assert any("the force field changes after a run" in text for text in report.warnings)

    def test_the_exit_code_and_one_sentence(self, folder, capsys) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ + "replicate 2 1 1\n", COEFFICIENTS)
        assert run(["convert", str(here / "in.lmp"), str(here / "out.mrec")]) == 1
        assert "line 7" in capsys.readouterr().err
        assert not (here / "out.mrec").exists()
        assert run(["convert", str(here / "in.lmp"), str(here / "system.data"), str(here / "out.mrec")]) == 0


class TestRelations:
    def test_styles_and_labels(self, folder) -> None:  # type: ignore[no-untyped-def]
        text = HEAD + "bond_style hybrid harmonic class2\nangle_style hybrid class2 harmonic\n"
        text += "pair_style hybrid lj/cut 6 morse 5\nread_data system.data\npair_coeff * 3 morse 1 1 1\n" + LABELS
        record, _ = read(folder(text, HYBRID) / "in.lmp")
        assert record.system is not None
        assert record.forcefield is not None
        bonds, atoms = record.system["bonds"], record.system["atoms"]
        assert bonds["type"].tolist() == ["C-H", "H-O", "C-H", "H-O"]
        assert bonds["type_id"].tolist() == [1, 2, 1, 2]
        assert bonds["style"].tolist() == ["harmonic", "class2"] * 2
        assert atoms["type"].tolist() == ["C", "H", "O", "C", "O", "H"]
        assert record.forcefield.table("bond", "class2")["name"].tolist() == ["H-O"]
        assert record.system.meta["lammps"]["type_labels"]["bond"] == ["C-H", "H-O"]
        angles = record.system["angles"]
        assert angles["type_id"].tolist() == [1, 2]
        assert angles["style"].tolist()[0] == "harmonic"
        assert angles.validity("style").tolist() == [True, False]


class TestSeveralFiles:
    TEXT = HEAD + "bond_style harmonic\nangle_style harmonic\npair_style lj/cut 6\nread_data system.data "
    FIRST = "extra/atom/types 3 extra/bond/types 2 extra/angle/types 2\n"

    @pytest.mark.parametrize(
        "add",
        [
            "add append",
            "add append offset 3 2 2 0 0 shift 3 0 5",
            "add 100 7 shift 0 0 4",
            "add 20 0 nocoeff shift 0 -3 4 offset 3 2 2 0 0",
        ],
    )
    @needs_lammps
    def test_as_lammps_joins_them(self, folder, add: str) -> None:  # type: ignore[no-untyped-def]
        here = folder(self.TEXT + self.FIRST + f"read_data other.data {add}\n", COEFFICIENTS)
        other = DATA.format(coefficients=COEFFICIENTS.replace("0.1 1.5", "0.9 1.1").replace("300", "99"))
        (here / "other.data").write_text(other + "\nVelocities\n\n" + "".join(f"{n} {n} 1 2\n" for n in range(1, 7)))
        code = """
        lmp.file('in.lmp')
        import numpy as np
        order = np.argsort(lmp.numpy.extract_atom('id')[:12])
        for name in ('id', 'type', 'molecule', 'x', 'v', 'q'):
            out[name] = np.array(lmp.numpy.extract_atom(name)[:12])[order].tolist()
        out['bonds'] = lmp.numpy.gather_bonds().tolist()
        out['angles'] = lmp.numpy.gather_angles().tolist()
        out['box'] = lmp.extract_box()[:2]
        out['counts'] = [lmp.extract_setting(k) for k in ('ntypes', 'nbondtypes', 'nangletypes')]
        """
        there = lammps(here, code)
        assert "error" not in there, there
        record, _ = read(here / "in.lmp")
        assert record.system is not None
        assert record.frame is not None
        assert record.forcefield is not None
        atoms, state = record.system["atoms"], record.frame["atoms"]
        assert atoms["id"].tolist() == there["id"]
        assert atoms["type_id"].tolist() == there["type"]
        assert atoms["mol_id"].tolist() == there["molecule"]
        assert atoms["charge"].tolist() == there["q"]
        wrapped = np.array([state[axis] for axis in "xyz"]).T
        box = record.frame.box
        assert box is not None
        lengths = np.diag(box.vectors)
        assert box.origin.tolist() == there["box"][0]
        assert (box.origin + lengths).tolist() == there["box"][1]
        assert np.allclose((wrapped - there["x"]) % lengths % lengths, 0, atol=1e-12)
        assert np.array_equal(np.array([state[axis] for axis in ("vx", "vy", "vz")]).T, there["v"])
        for name, ends in (("bonds", ("atomi", "atomj")), ("angles", ("atomi", "atomj", "atomk"))):
            block = record.system[name]
            ids = np.array([block["type_id"], *(atoms["id"][block[end]] for end in ends)]).T
            assert sorted(ids.tolist()) == sorted(there[name])
        assert [record.system.meta["lammps"]["type_counts"][kind] for kind in ("atom", "bond", "angle")] == there[
            "counts"
        ]

    def test_masses_and_coefficients_move_along(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder(self.TEXT + self.FIRST + "read_data other.data add append offset 3 2 2 0 0\n", COEFFICIENTS)
        other = DATA.format(coefficients=COEFFICIENTS.replace("0.1 1.5", "0.9 1.1").replace("300", "99"))
        (here / "other.data").write_text(other)
        record, _ = read(here / "in.lmp")
        assert record.forcefield is not None
        assert record.system is not None
        bonds = record.forcefield.table("bond", "harmonic")
        assert bonds["name"].tolist() == ["1", "2", "3", "4"]
        assert (bonds["k"] / bonds["k"][0]).tolist() == [1, 250 / 300, 99 / 300, 250 / 300]
        assert record.system.meta["lammps"]["masses"] == [12.011, 1.008, 15.9994] * 2
        assert record.system["atoms"]["type"].tolist()[6:] == ["4", "5", "6", "4", "6", "5"]

    def test_ids_that_meet(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder(self.TEXT + "\nread_data system.data add merge\n", COEFFICIENTS)
        with pytest.raises(FormatError, match="atom ids that another file has too"):
            read(here / "in.lmp")

    def test_types_there_is_no_room_for(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder(self.TEXT + "\nread_data system.data add append offset 3 0 0 0 0 nocoeff\n", COEFFICIENTS)
        with pytest.raises(FormatError, match=r"atom type 6.*3 atom types"):
            read(here / "in.lmp")

    def test_one_named_beside_the_script_counts_for_all(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder(self.TEXT + self.FIRST + "read_data system.data add append\n" + RULED, COEFFICIENTS)
        (here / "whole.data").write_text(DATA.format(coefficients=""))
        record, _ = read(here / "in.lmp", here / "whole.data")
        assert record.system is not None
        assert record.forcefield is not None
        assert record.system["atoms"].count == 6


class TestVersions:
    @pytest.mark.parametrize("source", ["in.lmp", "system.data"])
    def test_both_say_the_same(self, folder, tmp_path: Path, source: str) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ, COEFFICIENTS)
        for version in (1, 2):
            molrec_convert.convert(here / source, tmp_path / f"{version}.mrec", molrec_version=version)
        with molrec_convert.open(tmp_path / "1.mrec") as old, molrec_convert.open(tmp_path / "2.mrec") as new:
            assert (old.meta["molrec_version"], new.meta["molrec_version"]) == (1, 2)
            assert old.forcefield is not None
            assert new.forcefield is not None
            assert (old.forcefield.definitions, new.forcefield.definitions) == (1, 2)
            assert new.forcefield.table("bond", "harmonic")["k"].tolist() == [300, 250]
            assert new.forcefield.table("angle", "harmonic")["theta0"].tolist() == [110, 105]
            assert old.forcefield.table("bond", "harmonic")["k"].tolist() == [600, 500]

    def test_the_flag(self, folder, capsys) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ, COEFFICIENTS)
        assert run(["convert", str(here / "in.lmp"), str(here / "o.mrec"), "--molrec-version", "2"]) == 0
        assert json.loads((here / "o.mrec" / "meta" / "zarr.json").read_text())["attributes"]["molrec_version"] == 2
        assert run(["convert", str(here / "in.lmp"), str(here / "p.mrec"), "--molrec-version", "3"]) == 2
        assert "there are the versions 1 and 2" in capsys.readouterr().err
        with pytest.raises(UsageError):
            read(here / "in.lmp", molrec_version=0)


class TestRuns:
    """Folders of runs: what is not certain stays text, and nothing is refused."""

    @pytest.mark.parametrize(
        "lines",
        [
            "variable i loop 3\nlabel again\nrun 10\nnext i\njump SELF again\n",
            'if "$(step) > 10" then "quit"\n',
            "run 10 every 5 'print a'\n",
            "",
        ],
    )
    def test_flow_beside_the_force_field(self, folder, lines: str) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ + lines, COEFFICIENTS)
        record, report = read(here)
        assert record.forcefield is not None
        assert not report.losses()

    @pytest.mark.parametrize(
        "lines",
        [
            'if "$(step) > 10" then "pair_coeff 1 1 1 1"\n',
            "jump SELF on\npair_coeff 1 1 1 1\nlabel on\n",
            "pair_coeff 1 1 $(random(0,1,7)) 1\n",
            "pair_coeff 9 9 1 1\n",
            "include missing\n",
        ],
    )
    def test_what_is_not_certain(self, folder, lines: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ + lines, COEFFICIENTS)
        record, report = read(here)
        assert record.forcefield is None
        kept = {item.name: item.detail for item in report.of(Fate.CONVERTED)}
        assert kept["force field"].startswith("kept as text in method.commands alone: ")
        assert any(text.startswith("the record has no force field but the commands") for text in report.warnings)

    def test_the_log_knows_what_an_if_chose(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ + 'if "1 > 0" then "pair_coeff 1 1 0.5 1"\nrun 0\n', COEFFICIENTS)
        log = "LAMMPS (22 Jul 2025)\n" + READ + 'if "1 > 0" then "pair_coeff 1 1 0.5 1"\npair_coeff 1 1 0.5 1\nrun 0\n'
        table = (
            "Per MPI rank memory allocation (min/avg/max) = 1 | 1 | 1 Mbytes\n   Step          Temp\n         0   0\n"
        )
        end = "Loop time of 1e-06 on 1 procs for 0 steps with 6 atoms\n\nTotal wall time: 0:00:00\n"
        (here / "log.lammps").write_text(log + table + end)
        record, _ = read(here)
        assert record.forcefield is not None
        assert record.forcefield.table("pair", "lj/cut")["epsilon"].tolist()[-1] == 0.5

    @needs_lammps
    def test_an_ordinary_run_loses_nothing(self, folder, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        text = READ + "dump 1 all custom 5 run.dump id type x y z vx vy vz\nfix 1 all nve\ntimestep 0.01\n"
        here = folder(text + "variable i loop 2\nlabel more\nrun 5\nnext i\njump SELF more\n", COEFFICIENTS)
        out = lammps(here, "lmp.file('in.lmp')")
        assert "error" not in out
        report = molrec_convert.convert(here, tmp_path / "run.mrec", strict=True)
        assert not report.losses()
        with molrec_convert.open(tmp_path / "run.mrec") as record:
            assert record.forcefield is not None
            assert record.trajectory is not None
            assert record.forcefield.table("pair", "lj/cut").count == 3
            assert not record.resolve().remarks

    def test_a_log_beside_the_script_makes_it_a_run(self, folder) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ + 'if "1 > 0" then "print a"\n', COEFFICIENTS)
        (here / "log.a").write_text("LAMMPS (22 Jul 2025)\n" + READ + "ERROR: no more\n")
        record, _ = read(here / "in.lmp", here / "log.a")
        assert record.forcefield is not None
        assert record.status is not None

    def test_strict_still_refuses_losses(self, folder, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        here = folder(READ, COEFFICIENTS)
        (here / "second.data").write_text(DATA.format(coefficients=""))
        with pytest.raises(LossError, match=r"second\.data"):
            molrec_convert.convert(here, tmp_path / "o.mrec", strict=True)
