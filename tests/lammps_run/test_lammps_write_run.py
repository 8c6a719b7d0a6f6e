"""Directories that are written run in LAMMPS as they stand, with the energies of the scripts they came from."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Any

import corpus_index
import numpy as np
import pytest
from lammps_runs import lammps, needs_lammps
from two_writers import second_is_refused

import molrec_convert
from molrec_convert import Record
from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.inspect.diff.records import differences
from molrec_convert.model import Block, Box, Frame
from molrec_convert.model.forcefield.definitions import to_definitions
from molrec_convert.model.forcefield.document import ForceField, table_from_rows
from molrec_convert.quantities.units import unit_of_quantity
from molrec_convert.report import Fate, Report
from molrec_lammps.potential.potential import Coefficient, Potential, PotentialStyle
from molrec_lammps.write.commands import coefficient_commands, coefficient_sections, style_commands
from molrec_lammps.write.units import Conversion

#: What real LAMMPS ran, with the terms of its energy: see `energies.tsv` of the reference files.
SYSTEMS = tuple(corpus_index.systems())
TERMS = ["ebond", "eangle", "edihed", "eimp", "evdwl", "ecoul", "elong", "etail", "epair", "emol", "pe"]
#: Sums over the mesh, and what holds them.
LONG = {"elong", "epair", "pe", "ecoul"}
ENERGIES = """
lmp.file('in.lmp')
for term in {terms!r}:
    out[term] = lmp.get_thermo(term)
"""


def energies(directory: Path, *others: str) -> dict[str, float]:
    """The terms of the energy a script in a directory ends with, in full precision."""
    found: dict[str, Any] = lammps(directory, ENERGIES.format(terms=[*TERMS, *others]))
    assert "error" not in found, found["error"]
    return found


def sources(folder: Path) -> list[Path]:
    """The script of a system, and the data file beside it where the script makes its atoms itself."""
    written = folder / "written_ii.data"
    return [folder / "in.lmp", *([written] if written.exists() else [])]


def assert_same(first: dict[str, float], second: dict[str, float], what: str) -> None:
    """Every term to 1e-12, sums over the mesh to 1e-9: atoms stand in another order, so sums round otherwise."""
    for term, value in first.items():
        tolerance = 1e-9 if term in LONG and first["elong"] else 1e-12
        assert math.isclose(value, second[term], rel_tol=tolerance, abs_tol=1e-300), (what, term, value, second[term])


@needs_lammps
@pytest.mark.slow
class TestEnergies:
    def test_there_are_enough_systems(self) -> None:
        assert len(SYSTEMS) >= 40

    @pytest.mark.parametrize("name", SYSTEMS)
    def test_come_back(self, name: str, corpus: Path, tmp_path: Path) -> None:
        """The script's own energies; those of its record written back, stored and packed, and in definitions 2."""
        folder = tmp_path / "source"
        shutil.copytree(corpus / "energies" / name, folder)
        how = {"potential_files": str(folder)}
        record = molrec_convert.read(*sources(folder))
        molrec_convert.write(record, tmp_path / "direct", format="lammps-run", **how)
        molrec_convert.write(record, tmp_path / "packed.mrec.zip")
        molrec_convert.convert(tmp_path / "packed.mrec.zip", tmp_path / "packed", to_format="lammps-run", **how)
        molrec_convert.convert(sources(folder), tmp_path / "two.mrec", molrec_version=2)
        with molrec_convert.read(tmp_path / "two.mrec") as second:
            assert second.forcefield is not None
            assert second.forcefield.definitions == 2
            molrec_convert.write(second, tmp_path / "two", format="lammps-run", **how)
        wanted = energies(folder)
        assert_same(wanted, energies(tmp_path / "direct"), "written back")
        for other in ("packed", "two"):
            for file in sorted((tmp_path / "direct").iterdir()):
                if file.suffix != ".lammps":
                    assert (tmp_path / other / file.name).read_bytes() == file.read_bytes(), (other, file.name)

    @pytest.mark.parametrize("name", ["pair-lj_cut", "cvff", "class2"])
    @pytest.mark.parametrize("units", ["metal", "si", "cgs", "electron", "micro", "nano"])
    def test_come_back_in_other_units(self, name: str, units: str, corpus: Path, tmp_path: Path) -> None:
        folder = corpus / "energies" / name
        record = molrec_convert.read(folder / "in.lmp")
        molrec_convert.write(record, tmp_path / "real", format="lammps-run")
        molrec_convert.write(record, tmp_path / "other", format="lammps-run", target_units=units)
        factor = Conversion(units, {"preset": "real"}).factor("E", "energy")
        first, second = energies(tmp_path / "real"), energies(tmp_path / "other")
        for term in ("ebond", "eangle", "edihed", "eimp", "evdwl"):
            assert math.isclose(first[term] * factor, second[term], rel_tol=1e-11, abs_tol=1e-300), term
        # LAMMPS' constants of two styles agree to six digits
        assert math.isclose(first["ecoul"] * factor, second["ecoul"], rel_tol=1e-5, abs_tol=1e-300)


@needs_lammps
class TestRunsAsItStands:
    def test_what_a_directory_holds(self, corpus: Path, tmp_path: Path) -> None:
        folder = corpus / "energies/pair-lj_cut"
        report = molrec_convert.convert(folder / "in.lmp", tmp_path / "run", to_format="lammps-run")
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["in.lmp", "settings.lmp", "system.data"]
        assert report.losses() == ["dropped: method (LAMMPS run (directory, input script, log) has no place for it)"]
        script = (tmp_path / "run/in.lmp").read_text()
        assert script.splitlines()[-1] == "run 0"
        assert_same(energies(folder_copy(folder, tmp_path)), energies(tmp_path / "run"), "one command")
        assert list(tmp_path.glob(".*")) == []

    def test_the_record_of_what_was_written_is_the_same(self, corpus: Path, tmp_path: Path) -> None:
        folder = corpus / "energies/class2"
        with molrec_convert.read(folder / "in.lmp") as record:
            molrec_convert.write(record, tmp_path / "run", format="lammps-run")
            with molrec_convert.read(tmp_path / "run/in.lmp") as again:
                found = [line for line in differences(record, again) if not line.startswith("method")]
        assert found == []

    def test_a_map_of_cmap_is_written_from_the_record(self, corpus: Path, tmp_path: Path) -> None:
        folder = folder_copy(corpus / "energies/charmm-cmap", tmp_path)
        molrec_convert.convert(folder / "in.lmp", tmp_path / "a.mrec")
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "run", to_format="lammps-run")
        assert (tmp_path / "run/charmm.cmap").is_file()
        first, second = energies(folder, "f_cmap"), energies(tmp_path / "run", "f_cmap")
        assert math.isclose(first["f_cmap"], second["f_cmap"], rel_tol=1e-12)
        record = molrec_convert.read(tmp_path / "a.mrec")
        with pytest.raises(UnsupportedError, match=r"fix cmap charmm.cmap: .* units si"):
            molrec_convert.write(record, tmp_path / "si", format="lammps-run", target_units="si")

    def test_files_of_coefficients(self, corpus: Path, tmp_path: Path) -> None:
        folder = corpus / "energies/eam"
        record = molrec_convert.read(*sources(folder))
        with pytest.raises(
            UsageError, match=r"Cu_own.eam \(sha256 [0-9a-f]{64}\), which is not in .*--potential-files"
        ):
            molrec_convert.write(record, tmp_path / "run", format="lammps-run")
        assert list(tmp_path.iterdir()) == []
        other = tmp_path / "other"
        other.mkdir()
        (other / "Cu_own.eam").write_bytes((folder / "Cu_own.eam").read_bytes() + b"\n")
        with pytest.raises(UsageError, match=r"is not the file Cu_own\.eam of the force field"):
            molrec_convert.write(record, tmp_path / "run", format="lammps-run", potential_files=str(other))
        with pytest.raises(UsageError, match="there is no such folder"):
            molrec_convert.write(record, tmp_path / "run", format="lammps-run", potential_files=str(tmp_path / "no"))
        molrec_convert.write(record, tmp_path / "run", format="lammps-run", potential_files=str(folder))
        assert (tmp_path / "run/Cu_own.eam").read_bytes() == (folder / "Cu_own.eam").read_bytes()
        with pytest.raises(UnsupportedError, match="its numbers are in a file"):
            molrec_convert.write(record, tmp_path / "si", format="lammps-run", target_units="si")

    def test_a_record_from_elsewhere(self, tmp_path: Path) -> None:
        """Elements, a tilted cell in any orientation, a force field in names: nothing of it is LAMMPS'."""
        record = argon(np.array([[0.0, 9.0, 0.0], [9.0, 0.5, 1.0], [0.0, 0.0, -9.0]]))
        plain = argon(np.array([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]]))
        found = []
        for number, (one, how) in enumerate(
            ((record, {}), (record, {"rotate": True}), (plain, {"target_units": "metal"}), (plain, {}))
        ):
            molrec_convert.write(one, tmp_path / str(number), format="lammps-run", **how)
            found.append(energies(tmp_path / str(number))["pe"])
        assert math.isclose(found[0], found[1], rel_tol=1e-10)
        assert math.isclose(found[2], found[3] * 0.043364104241800934, rel_tol=1e-12)
        images = np.stack(np.meshgrid(*[np.arange(-1, 2) * 9.0] * 3), axis=-1).reshape(-1, 3)
        distances = np.linalg.norm(np.array([3.0, 1.5, 0.0]) + images, axis=1)
        near = 3.4 / distances[distances < 8.0]
        assert math.isclose(found[3], 4 * 0.238 * (near**12 - near**6).sum(), rel_tol=1e-12)

    def test_without_a_force_field(self, tmp_path: Path) -> None:
        record = argon(np.eye(3) * 9.0)
        record.forcefield = None
        molrec_convert.write(record, tmp_path / "run", format="lammps-run")
        assert energies(tmp_path / "run")["pe"] == 0.0
        molrec_convert.write(record, tmp_path / "si", format="lammps-run", target_units="si")
        assert energies(tmp_path / "si")["pe"] == 0.0


class TestRefusals:
    def test_units_that_are_not_stated(self, tmp_path: Path) -> None:
        record = argon(np.eye(3) * 9.0)
        assert record.system is not None
        del record.system.meta["units"]
        with pytest.raises(UnsupportedError, match="does not state LAMMPS' units"):
            molrec_convert.write(record, tmp_path / "run", format="lammps-run")

    def test_a_style_lammps_has_nothing_for(self, tmp_path: Path) -> None:
        record = argon(np.eye(3) * 9.0)
        assert record.forcefield is not None
        rows = [{"name": "a", "itom": "Ar", "jtom": "Ar", "r0": 1.0}]
        record.forcefield.add("constraint", "fixed", table_from_rows("constraint", rows))
        with pytest.raises(UnsupportedError, match=r"constraint\.fixed"):
            molrec_convert.write(record, tmp_path / "run", format="lammps-run")
        assert list(tmp_path.iterdir()) == []

    def test_types_without_a_mass(self, tmp_path: Path) -> None:
        record = argon(np.eye(3) * 9.0)
        assert record.system is not None
        atoms = record.system["atoms"]
        del atoms.columns["element"]
        atoms.columns["type"] = molrec_convert.model.Column(np.array(["Ar", "Ar"], dtype=np.dtypes.StringDType()))
        with pytest.raises(UnsupportedError, match=r"atom type 1 \(Ar\) has no mass"):
            molrec_convert.write(record, tmp_path / "run", format="lammps-run")
        assert record.forcefield is not None
        rows = [{"name": "Ar", "mass": 39.5, "charge": 0.0}]
        record.forcefield.add("atom", "full", table_from_rows("atom", rows))
        molrec_convert.write(record, tmp_path / "run", format="lammps-run")
        assert "Masses\n\n1 39.5\n" in (tmp_path / "run/system.data").read_text()

    def test_styles_without_their_arguments(self, tmp_path: Path) -> None:
        """A data file names a style by a comment, without the cutoff a run needs."""
        text = (
            "title, units = real\n\n1 atoms\n1 atom types\n\n0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n\nMasses\n\n1 1\n\n"
        )
        text += "Pair Coeffs # lj/cut\n\n1 0.1 3\n\nAtoms # atomic\n\n1 1 1 1 1\n"
        (tmp_path / "a.data").write_text(text)
        record = molrec_convert.read(tmp_path / "a.data")
        with pytest.raises(UnsupportedError, match=r"pair style lj/cut without its arguments .*--pair-style"):
            molrec_convert.write(record, tmp_path / "run", format="lammps-run")
        with pytest.raises(UsageError, match="the coefficients of the record are those of lj/cut"):
            molrec_convert.write(record, tmp_path / "run", format="lammps-run", pair_style="buck 9.0")
        molrec_convert.write(record, tmp_path / "run", format="lammps-run", pair_style="lj/cut 9.0")
        assert "pair_style lj/cut 9.0\n" in (tmp_path / "run/settings.lmp").read_text()

    @needs_lammps
    def test_a_pair_style_for_a_record_without_one(self, fixtures: Path, tmp_path: Path) -> None:
        """One that needs no coefficients is written with the energies it has; of any other the option is refused."""
        molrec_convert.convert(fixtures / "faults/two-waters.data", tmp_path / "w.mrec", units="real")
        how = {"to_format": "lammps-run"}
        for style in ("lj/cut 5.0", "nonsense"):
            with pytest.raises(UsageError, match="no pair coefficients"):
                molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "run", pair_style=style, **how)
        molrec_convert.convert(tmp_path / "w.mrec", tmp_path / "run", pair_style="coul/cut 9.0", **how)
        text = (tmp_path / "run/settings.lmp").read_text()
        assert "pair_style coul/cut 9.0" in text
        assert "pair_coeff * *\n" in text
        assert "bond_style" not in text
        script = (tmp_path / "run/in.lmp").read_text()
        (tmp_path / "run/in.lmp").write_text(script.replace("include", "bond_style zero\nbond_coeff *\ninclude"))
        assert energies(tmp_path / "run")["ecoul"] != 0

    def test_a_target_that_is_there(self, tmp_path: Path) -> None:
        record = argon(np.eye(3) * 9.0)
        (tmp_path / "run").mkdir()
        (tmp_path / "run/notes").write_text("mine")
        with pytest.raises(UsageError, match="run"):
            molrec_convert.write(record, tmp_path / "run", format="lammps-run", overwrite=True)
        assert (tmp_path / "run/notes").read_text() == "mine"

    def test_an_earlier_run_directory_is_replaced_while_it_holds_nothing_else(self, tmp_path: Path) -> None:
        molrec_convert.write(argon(np.eye(3) * 9.0), tmp_path / "run", format="lammps-run")
        first = (tmp_path / "run/system.data").read_text()
        with pytest.raises(UsageError, match="exists already"):
            molrec_convert.write(argon(np.eye(3) * 8.0), tmp_path / "run", format="lammps-run")
        molrec_convert.write(argon(np.eye(3) * 8.0), tmp_path / "run", format="lammps-run", overwrite=True)
        second = (tmp_path / "run/system.data").read_text()
        assert second != first
        (tmp_path / "run/log.lammps").write_text("a run of mine")
        with pytest.raises(UsageError, match="holds more than this format writes"):
            molrec_convert.write(argon(np.eye(3) * 9.0), tmp_path / "run", format="lammps-run", overwrite=True)
        assert (tmp_path / "run/log.lammps").read_text() == "a run of mine"
        assert (tmp_path / "run/system.data").read_text() == second


@needs_lammps
class TestAtomsOutsideTheBox:
    """LAMMPS loses atoms outside the box where it is not periodic, and refuses to run: the box is widened."""

    def atoms(self, folder: Path) -> Any:
        found = lammps(folder, "lmp.file('in.lmp')\nout['n'] = lmp.get_natoms()\nout['pe'] = lmp.get_thermo('pe')")
        assert "error" not in found, found["error"]
        return found

    @pytest.mark.parametrize("boundary", ["p p f", "p p s", "f f f"])
    def test_a_run(self, tmp_path: Path, fixtures: Path, boundary: str) -> None:
        shutil.copy(fixtures / "faults/outside.data", tmp_path / "outside.data")
        (tmp_path / "in.lmp").write_text(
            f"units metal\nboundary {boundary}\natom_style atomic\nread_data outside.data\npair_style lj/cut 9\n"
            "pair_coeff * * 0.01 3\nrun 0\n"
        )
        report = molrec_convert.convert(tmp_path / "in.lmp", tmp_path / "run", to_format="lammps-run")
        assert any("widened on" in item.detail for item in report.of(Fate.DERIVED))
        assert f"boundary {boundary}\n" in (tmp_path / "run/in.lmp").read_text()
        found = self.atoms(tmp_path / "run")
        assert found["n"] == 3
        points = np.array([[1.0, 1.0, -0.5], [5.0, 5.0, 5.0], [12.0, 1.0, 10.5]])
        if boundary == "f f f":
            near = [np.linalg.norm(points[i] - points[j]) for i, j in ((0, 1), (1, 2), (0, 2))]
            wanted = sum(0.04 * ((3 / r) ** 12 - (3 / r) ** 6) for r in near if r < 9)
            assert math.isclose(found["pe"], wanted, rel_tol=1e-12)

    def test_a_box_just_around_the_atoms_and_one_that_is_tilted(self, tmp_path: Path) -> None:
        points = {axis: np.array([0.0, 4.0]) for axis in "xyz"}
        tilted = Box(np.array([[5.0, 1.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 3.0]]), boundary=np.array([1, 1, 0], bool))
        for name, box, options in (("a", None, {"box": ("atoms", "0")}), ("b", tilted, {})):
            block = Block({"element": np.array(["Ar", "Ar"], np.dtypes.StringDType())})
            record = Record(system=Frame({"atoms": block}), frame=Frame({"atoms": Block(points)}, box=box))
            assert record.system is not None
            record.system.meta.put("units", "metal", "string")
            molrec_convert.write(record, tmp_path / name, format="lammps-run", **options)
            assert self.atoms(tmp_path / name)["n"] == 2


class TestSettings:
    def test_an_include_alone(self, tmp_path: Path) -> None:
        record = argon(np.eye(3) * 9.0)
        molrec_convert.write(record, tmp_path / "settings.lmp")
        lines = (tmp_path / "settings.lmp").read_text().splitlines()
        assert lines[1:] == ["# units real", "", "pair_style lj/cut 8", "", "pair_coeff * * 0.238 3.4"]
        record.forcefield = None
        with pytest.raises(UnsupportedError, match="no force field"):
            molrec_convert.write(record, tmp_path / "other.settings")

    @needs_lammps
    def test_a_data_file_and_an_include_as_the_docs_say(self, fixtures: Path, tmp_path: Path) -> None:
        """The script of the documentation runs, with the energies of the run directory."""
        page = (Path(__file__).parents[2] / "docs/lammps.md").read_text()
        script = next(text for text in page.split("```") if "include settings.lmp" in text)
        molrec_convert.convert(fixtures / "water-run", tmp_path / "sys.mrec")
        for name in ("sys.data", "settings.lmp"):
            molrec_convert.convert(tmp_path / "sys.mrec", tmp_path / name)
        molrec_convert.convert(tmp_path / "sys.mrec", tmp_path / "run", to_format="lammps-run")
        assert "Coeffs" in (tmp_path / "sys.data").read_text()
        (tmp_path / "in.lmp").write_text(script.replace("run 0", "thermo_modify norm no\nrun 0"))
        wanted = energies(tmp_path / "run")
        assert wanted["pe"] != 0
        assert_same(wanted, energies(tmp_path), "data file and settings")

    def test_commands(self) -> None:
        potential = Potential(
            styles={
                "pair": [PotentialStyle("lj/cut", ("8.0",), 1), PotentialStyle("lj/cut", ("9.0",), 2)],
                "angle": [PotentialStyle("class2")],
            },
            hybrid={"pair": "hybrid/scaled"},
            scales=["0.5", "v_f"],
            coefficients=[
                Coefficient("pair", (1, 1), ("0.1", "3"), "lj/cut", 1),
                Coefficient("pair", (1, 2), ("0.2", "3"), "lj/cut", 2, comment="a note"),
                Coefficient("pair", (2, 2), ("0.1", "3"), "lj/cut", 1),
                Coefficient("angle", (1,), ("1", "2"), part="bb"),
                Coefficient("pair", (1, 1), ("0.3", "3"), "lj/cut", 1),
            ],
            special_bonds=("lj/coul", "0", "0", "0.5"),
            pair_modify=[("mix", "arithmetic"), ("pair", "lj/cut", "1", "special", "lj", "0", "0", "1")],
            kspace=("pppm", "1e-4"),
            kspace_modify=[("gewald", "0.3")],
            dielectric="2.5",
        )
        assert list(style_commands(potential)) == [
            "pair_style hybrid/scaled 0.5 lj/cut 8.0 v_f lj/cut 9.0",
            "angle_style class2",
            "kspace_style pppm 1e-4",
            "kspace_modify gewald 0.3",
            "dielectric 2.5",
            "special_bonds lj/coul 0 0 0.5",
            "pair_modify mix arithmetic",
            "pair_modify pair lj/cut 1 special lj 0 0 1",
        ]
        assert list(coefficient_commands(potential, {"atom": 2})) == [
            "pair_coeff 1 2 lj/cut 2 0.2 3 # a note",
            "pair_coeff 2 2 lj/cut 1 0.1 3",
            "pair_coeff 1 1 lj/cut 1 0.3 3",
            "angle_coeff 1 bb 1 2",
        ]

    def test_rows_that_hold_for_all_pairs_are_one_command(self) -> None:
        rows = [Coefficient("pair", pair, ("a b.sw", "Si", "C")) for pair in ((1, 1), (1, 2), (2, 2))]
        potential = Potential(styles={"pair": [PotentialStyle("sw")]}, coefficients=rows)
        assert list(coefficient_commands(potential, {"atom": 2})) == ['pair_coeff * * "a b.sw" Si C']

    def test_sections(self) -> None:
        potential = Potential(
            styles={"pair": [PotentialStyle("lj/cut", ("8.0",))], "bond": [PotentialStyle("harmonic")]},
            coefficients=[
                *(Coefficient("pair", pair, ("0.1", "3")) for pair in ((1, 1), (2, 2), (1, 2))),
                Coefficient("bond", (2,), ("5", "1"), comment="second"),
            ],
        )
        report = Report()
        sections = list(coefficient_sections(potential, {"atom": 2, "bond": 2}, report))
        assert [(s.name, s.hint, s.rows) for s in sections] == [
            ("PairIJ Coeffs", "lj/cut", ["1 1 0.1 3", "1 2 0.1 3", "2 2 0.1 3"])
        ]
        lost = " ".join(report.losses())
        assert "Bond Coeffs (1 of 2 types have no coefficients" in lost
        assert "pair_style arguments (lj/cut 8.0" in lost
        potential.coefficients.pop(2)
        (section,) = coefficient_sections(potential, {"atom": 2, "bond": 0}, Report())
        assert section.name == "Pair Coeffs"

    def test_cross_terms_under_a_hybrid(self) -> None:
        potential = Potential(
            styles={"angle": [PotentialStyle("harmonic"), PotentialStyle("class2")]},
            hybrid={"angle": "hybrid"},
            coefficients=[
                Coefficient("angle", (1,), ("5", "100"), "harmonic"),
                Coefficient("angle", (2,), ("100", "1", "2", "3"), "class2"),
                Coefficient("angle", (2,), ("1", "1.1", "1.2"), "class2", part="bb"),
            ],
        )
        found = {s.name: (s.hint, s.rows) for s in coefficient_sections(potential, {"angle": 2}, Report())}
        assert found == {
            "Angle Coeffs": ("hybrid", ["1 harmonic 5 100", "2 class2 100 1 2 3"]),
            "BondBond Coeffs": ("", ["1 skip", "2 class2 1 1.1 1.2"]),
        }


def folder_copy(folder: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    return copy


def argon(vectors: Any) -> Record:
    """Two atoms of argon and a Lennard-Jones force field by element names, in units real."""
    forcefield = ForceField.new("argon", {"preset": "real", "angle": "radian"})
    rows = [{"name": "Ar-Ar", "itom": "Ar", "jtom": "Ar", "epsilon": 0.238, "sigma": 3.4}]
    forcefield.add("pair", "lj/cut", table_from_rows("pair", rows), params={"cutoff": 8.0})
    system = Frame({"atoms": Block({"element": np.array(["Ar", "Ar"], dtype=np.dtypes.StringDType())})})
    system.meta.put("units", {"preset": "real"}, "json")
    state = {"x": np.array([1.0, 4.0]), "y": np.array([2.0, 3.5]), "z": np.array([-1.0, -1.0])}
    return Record(system=system, frame=Frame({"atoms": Block(state)}, box=Box(vectors)), forcefield=forcefield)


def test_definitions_of_the_two_versions_give_one_directory(tmp_path: Path) -> None:
    record = argon(np.eye(3) * 9.0)
    assert record.forcefield is not None
    rows = [{"name": "a", "itom": "Ar", "jtom": "Ar", "k": 501.0, "r0": 1.09}]
    record.forcefield.add("bond", "harmonic", table_from_rows("bond", rows))
    molrec_convert.write(record, tmp_path / "one", format="lammps-run")
    record.forcefield = to_definitions(record.forcefield, 2)
    molrec_convert.write(record, tmp_path / "two", format="lammps-run")
    for name in ("in.lmp", "settings.lmp", "system.data"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert "bond_coeff 1 250.5 1.09" in (tmp_path / "one/settings.lmp").read_text()
    assert unit_of_quantity({"preset": "real"}, "energy") == "kcal/mol"


class TestFilesThatAreOnlyNamed:
    """A record may be a stranger's: what it names outside of its own folder is not copied."""

    def run(self, corpus: Path, place: Path, word: str) -> Path:
        """A record in a folder of its own of a run that names its file of coefficients by `word`."""
        source = place / "source"
        shutil.copytree(corpus / "energies/eam", source)
        script = (source / "in.lmp").read_text()
        (source / word).parent.mkdir(parents=True, exist_ok=True)
        if not (source / word).exists():
            (source / "Cu_own.eam").rename(source / word)
        (source / "in.lmp").write_text(script.replace("Cu_own.eam", word))
        (place / "rec").mkdir()
        molrec_convert.convert(source / "in.lmp", place / "rec/a.mrec")
        return place / "rec/a.mrec"

    def write(self, record: Path, place: Path, **how: Any) -> None:
        molrec_convert.convert(record, place / "run", to_format="lammps-run", **how)

    @pytest.mark.parametrize("word", ["{place}/secret/key.eam", "../secret/key.eam", "../source/../secret/key.eam"])
    def test_nothing_from_elsewhere(self, corpus: Path, tmp_path: Path, word: str) -> None:
        """Absolute and climbing names, with the right sum too; where the folder is asked for, from there."""
        record = self.run(corpus, tmp_path, word.format(place=tmp_path))
        secret = tmp_path / "secret/key.eam"
        assert secret.is_file()
        with pytest.raises(UsageError, match=r"key\.eam.* is copied from nowhere else: --potential-files FOLDER"):
            self.write(record, tmp_path)
        assert not (tmp_path / "run").exists()
        self.write(record, tmp_path, potential_files=str(secret.parent))
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
            "in.lmp",
            "key.eam",
            "settings.lmp",
            "system.data",
        ]
        assert "pair_coeff * * key.eam" in (tmp_path / "run/settings.lmp").read_text()

    def test_no_link_out_of_the_records_folder(self, corpus: Path, tmp_path: Path) -> None:
        record = self.run(corpus, tmp_path, "Cu_own.eam")
        (record.parent / "Cu_own.eam").symlink_to(tmp_path / "source/Cu_own.eam")
        with pytest.raises(UsageError, match="is copied from nowhere else"):
            self.write(record, tmp_path)
        (record.parent / "Cu_own.eam").unlink()
        shutil.copy(tmp_path / "source/Cu_own.eam", record.parent)
        self.write(record, tmp_path)
        assert (tmp_path / "run/Cu_own.eam").is_file()

    def test_without_a_sum_from_no_folder_that_only_happens_to_be_current(
        self, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record = self.run(corpus, tmp_path, "Cu_own.eam")
        for file in record.rglob("zarr.json"):
            file.write_text(re.sub(r'_sha256"', '_other"', file.read_text()))
        for folder in record.rglob("*_sha256"):
            folder.rename(folder.with_name(folder.name.replace("_sha256", "_other")))
        monkeypatch.chdir(tmp_path / "source")
        with pytest.raises(UsageError, match=r"Cu_own\.eam \(sha256 unknown\)"):
            self.write(record, tmp_path)
        self.write(record, tmp_path, potential_files=".")
        assert (tmp_path / "run/Cu_own.eam").is_file()


def test_two_at_one_run_directory(tmp_path: Path, capfd: Any) -> None:
    for name, size in (("a", 9.0), ("b", 12.0)):
        molrec_convert.write(argon(np.eye(3) * size), tmp_path / f"{name}.mrec")
    first, second = (["convert", tmp_path / f"{name}.mrec", tmp_path / "run", "--to", "lammps-run"] for name in "ab")
    second_is_refused(first, second, capfd)
    assert "0 9 xlo xhi" in (tmp_path / "run" / "system.data").read_text()
    second_is_refused([*second, "--overwrite"], [*first, "--overwrite"], capfd)
    assert "0 12 xlo xhi" in (tmp_path / "run" / "system.data").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mrec", "b.mrec", "run"]
