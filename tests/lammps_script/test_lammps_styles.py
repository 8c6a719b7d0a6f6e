"""Styles of LAMMPS: the table has all of them, runs come back with their energies, in other units too or not at all."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lammps_style_cases
import numpy as np
import pytest
from lammps_runs import lammps, needs_lammps
from numpy.typing import NDArray

import molrec_convert
from molrec_convert.errors import UnsupportedError
from molrec_lammps.potential.potential import HYBRID
from molrec_lammps.potential.style_table import bare_style, find_style, is_style, style_rows

CATEGORIES = ("pair", "bond", "angle", "dihedral", "improper")
CASES = lammps_style_cases.scripts()
#: One unit of energy of a units style, in kcal/mol.
KCAL = {"real": 1.0, "metal": 23.060549, "electron": 627.509474, "si": 6.02214076e23 / 4184.0}
ANGSTROM = {"real": 1.0, "metal": 1.0, "electron": 0.529177211, "si": 1e10}
#: LAMMPS' Coulomb constants of two units styles agree to about five digits; energies are of some kcal/mol.
AGREE, SIZE = 1e-5, 50.0


def units_of(name: str) -> str:
    return CASES[name][1][0].removeprefix("units ")


def targets(name: str) -> list[str]:
    return ["metal", "electron", "si"] if units_of(name) == "real" else ["real"]


def styles_of(name: str) -> list[tuple[str, str]]:
    """The category and style a case is about; of a hybrid all it names."""
    category, _, style = name.partition(" ")
    if (category, style, "") in style_rows():
        return [(category, style)]
    words = [word for line in CASES[name][1] if line.startswith("pair_style") for word in line.split()[1:]]
    return [("pair", word) for word in words if is_style("pair", word)]


def unconvertible(name: str, target: str) -> bool:
    rows = [find_style(category, style) for category, style in styles_of(name)]
    return any(row is not None and row.unconvertible(target) for row in rows)


def potentials() -> Path:
    """The folder of potential files that comes with LAMMPS."""
    spec = importlib.util.find_spec("lammps")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "share/lammps/potentials"


@dataclass
class Runs:
    """What LAMMPS computes of cases, by name and what was made of them ("" for the case itself), and refusals."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def energy(self, name: str) -> float:
        assert "error" not in self.found[name], (name, self.found[name])
        return float(self.found[name]["pe"])

    def forces(self, name: str) -> NDArray[np.float64]:
        return np.array(self.found[name]["f"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """All cases, and each written back from a stored record: in its own units, and in others."""
    top = tmp_path_factory.mktemp("styles")
    files = {path.name: path for path in potentials().iterdir()}
    result, folders = Runs(), {}
    for number, (name, (data, commands)) in enumerate(CASES.items()):
        folder = top / f"{number}"
        lammps_style_cases.write_case(folder, data, commands)
        for word in {word for line in commands for word in line.split()} & files.keys():
            shutil.copy(files[word], folder / word)
        folders[name] = folder
        with molrec_convert.read(folder / "in.lmp") as record:
            molrec_convert.write(record, top / f"{number}.mrec.zip")
        with molrec_convert.read(top / f"{number}.mrec.zip") as record:
            for target in ("", *targets(name)):
                out, key = top / f"{number}{target or '_same'}", f"{name} {target}"
                how = {"target_units": target} if target else {}
                try:
                    molrec_convert.write(record, out, format="lammps-run", potential_files=str(folder), **how)
                    folders[key] = out
                except UnsupportedError as error:
                    result.refused[key] = str(error)
    lammps_style_cases.jobs(top, folders)
    result.found = lammps(top, lammps_style_cases.RUN_ALL)
    return result


@needs_lammps
def test_the_table_has_every_style_of_lammps(tmp_path: Path) -> None:
    found = lammps(tmp_path, f"out['styles'] = {{c: lmp.available_styles(c) for c in {CATEGORIES!r}}}")["styles"]
    assert len(found["pair"]) > 290
    missing = [
        (category, name)
        for category in CATEGORIES
        for name in found[category]
        if not is_style(category, name) and bare_style(name) not in HYBRID
    ]
    assert not missing


def test_a_style_is_convertible_only_where_a_case_shows_it() -> None:
    """Those without a case here need other kinds of atoms; their energies were compared elsewhere."""
    others = {
        *("lj/long/tip4p/long", "lj/cut/dipole/cut", "lj/cut/dipole/long", "lj/sf/dipole/sf", "lj/long/dipole/long"),
        *("born/coul/dsf/cs", "born/coul/wolf/cs", "coul/wolf/cs", "harmonic/restrain", "none"),
        *("amoeba", "dipole", "spica", "sdk", "charmmfsw"),
    }
    shown = {style for name in CASES for style in styles_of(name)}
    open_ones = [(row.category, row.style) for row in style_rows().values() if not row.part and not row.unconvertible()]
    assert {style for category, style in open_ones if (category, style) not in shown} <= others


@needs_lammps
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_run_comes_back(runs: Runs, name: str) -> None:
    first = runs.energy(name)
    assert first != 0.0 or name.endswith(("zero", "agni", "nb3b/harmonic"))
    assert runs.energy(f"{name} ") == pytest.approx(first, rel=1e-12)
    scale = np.abs(runs.forces(name)).max()
    np.testing.assert_allclose(runs.forces(f"{name} "), runs.forces(name), rtol=0, atol=1e-11 * scale)


@needs_lammps
@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [(name, target) for name in CASES for target in targets(name)])
def test_other_units_give_the_same_energy_or_are_refused(runs: Runs, name: str, target: str) -> None:
    key, own = f"{name} {target}", units_of(name)
    if unconvertible(name, target):
        assert any(style in runs.refused[key] for _, style in styles_of(name))
        assert f"not converted to units {target}" in runs.refused[key]
        return
    assert key not in runs.refused, runs.refused[key]
    energies = [runs.energy(name) * KCAL[own], runs.energy(key) * KCAL[target]]
    assert energies[1] == pytest.approx(energies[0], rel=AGREE, abs=AGREE * SIZE)
    if name.startswith("pair dpd"):
        return  # Forces have a random part, which depends on the timestep
    forces = [runs.forces(n) * KCAL[units] / ANGSTROM[units] for n, units in ((name, own), (key, target))]
    np.testing.assert_allclose(forces[1], forces[0], rtol=0, atol=3e-5 * (SIZE + np.abs(forces[0]).max()))


class TestOtherUnits:
    """What no energy shows: lengths of styles without any, settings of k-space, styles nothing is known of."""

    def written(self, tmp_path: Path, *commands: str, target: str = "electron") -> list[str]:
        start = ["units real", "atom_style full", "read_data s.data"]
        lammps_style_cases.write_case(tmp_path / "run", lammps_style_cases.molecules(), [*start, *commands])
        with molrec_convert.read(tmp_path / "run/in.lmp") as record:
            molrec_convert.write(record, tmp_path / "s.lmp", format="lammps-settings", target_units=target)
        return (tmp_path / "s.lmp").read_text().splitlines()

    def test_lengths_of_zero(self, tmp_path: Path) -> None:
        bonds = ["bond_style zero", "bond_coeff * 1.5"]
        lines = self.written(tmp_path, "pair_style zero 8.0", "pair_coeff * *", *bonds)
        values = {
            line.split()[0]: float(line.split()[-1]) for line in lines if "zero 1" in line or "bond_coeff" in line
        }
        assert values["bond_coeff"] == pytest.approx(1.5 / 0.529177210544, rel=1e-9)
        assert values["pair_style"] == pytest.approx(8.0 / 0.529177210544, rel=1e-9)

    def test_forces_of_dispersion(self, tmp_path: Path) -> None:
        commands = [
            "pair_style lj/long/coul/long long long 8.0",
            "pair_coeff * * 0.1 3.0",
            "kspace_style pppm/disp 1e-4",
        ]
        lines = self.written(
            tmp_path,
            *commands,
            "kspace_modify force/disp/real 0.01 force/disp/kspace 0.02 gewald/disp 0.3",
            target="metal",
        )
        words = next(line.split() for line in lines if line.startswith("kspace_modify"))
        values = dict(zip(words[1::2], map(float, words[2::2]), strict=True))
        assert values["force/disp/real"] == pytest.approx(0.01 / 23.0605, rel=1e-5)
        assert values["force/disp/kspace"] == pytest.approx(0.02 / 23.0605, rel=1e-5)
        assert values["gewald/disp"] == 0.3

    @pytest.mark.parametrize(
        ("solver", "target", "why"),
        [("pppm/cg 1e-4", "si", "leaves out small charges"), ("pppm/electrode 1e-4", "metal", "were not compared")],
    )
    def test_solvers_that_differ_are_refused(self, tmp_path: Path, solver: str, target: str, why: str) -> None:
        commands = ["pair_style coul/long 8.0", "pair_coeff * *", f"kspace_style {solver}"]
        with pytest.raises(UnsupportedError, match=f"kspace_style {solver.split()[0]}: .*{why}"):
            self.written(tmp_path, *commands, target=target)

    def test_unknown_styles_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UnsupportedError, match=r"pair_style made/up: no style of this name is known"):
            self.written(tmp_path, "pair_style made/up 8.0", "pair_coeff * * 1.0 word")


def test_unknown_styles_pass_word_for_word_with_their_files(tmp_path: Path) -> None:
    start = ["units real", "atom_style full", "read_data s.data"]
    commands = [
        *start,
        "pair_style made/up 8.0 model.bin",
        "pair_coeff * * table.txt O H C 1.5",
        "pair_coeff 1 2 0.25 x",
    ]
    lammps_style_cases.write_case(tmp_path / "run", lammps_style_cases.molecules(), commands)
    (tmp_path / "run/model.bin").write_bytes(b"\x00\xffmodel")
    (tmp_path / "run/table.txt").write_text("numbers")
    molrec_convert.convert(tmp_path / "run/in.lmp", tmp_path / "a.mrec")
    molrec_convert.convert(
        tmp_path / "a.mrec", tmp_path / "out", to_format="lammps-run", potential_files=str(tmp_path / "run")
    )
    lines = (tmp_path / "out/settings.lmp").read_text().splitlines()
    assert "pair_style made/up 8.0 model.bin" in lines
    assert "pair_coeff 1 1 table.txt O H C 1.5" in lines
    assert "pair_coeff 1 2 0.25 x" in lines
    assert (tmp_path / "out/model.bin").read_bytes() == b"\x00\xffmodel"
    assert (tmp_path / "out/table.txt").read_text() == "numbers"


def test_unknown_styles_in_a_hybrid(tmp_path: Path) -> None:
    start = ["units real", "atom_style full", "read_data s.data", "variable s equal 0.5"]
    commands = [
        "pair_style hybrid/scaled 1.0 lj/cut 8.0 v_s own/model 3 model.bin 0.25 morse 8.0",
        "pair_coeff * * lj/cut 0.1 3.0",
        "pair_coeff 1 2* own/model C 1.5",
        "pair_coeff 3 3 morse 0.2 2.1 2.5",
    ]
    lammps_style_cases.write_case(tmp_path / "run", lammps_style_cases.molecules(), [*start, *commands])
    (tmp_path / "run/model.bin").write_bytes(b"model")
    with molrec_convert.read(tmp_path / "run/in.lmp") as record:
        molrec_convert.write(record, tmp_path / "out", format="lammps-run", potential_files=str(tmp_path / "run"))
    lines = (tmp_path / "out/settings.lmp").read_text().splitlines()
    assert "pair_style hybrid/scaled 1.0 lj/cut 8.0 v_s own/model 3 model.bin 0.25 morse 8.0" in lines
    assert {"pair_coeff 1 2 own/model C 1.5", "pair_coeff 1 3 own/model C 1.5", "pair_coeff * * lj/cut 0.1 3"} <= {
        *lines
    }
    assert (tmp_path / "out/model.bin").is_file()


@needs_lammps
def test_files_that_files_name_are_copied(tmp_path: Path) -> None:
    """`comb3` reads a library nobody names; an overwritten run is known again with it."""
    (tmp_path / "run").mkdir()
    commands = ["units metal", "atom_style charge", "read_data s.data", "pair_style comb3 polar_off"]
    lammps_style_cases.write_case(
        tmp_path / "run/a", lammps_style_cases.crystal(), [*commands, "pair_coeff * * ffield.comb3 O Cu"]
    )
    for name in ("ffield.comb3", "lib.comb3"):
        shutil.copy(potentials() / name, tmp_path / "run/a" / name)
    molrec_convert.convert(tmp_path / "run/a/in.lmp", tmp_path / "a.mrec")
    for _ in range(2):
        molrec_convert.convert(
            tmp_path / "a.mrec",
            tmp_path / "out",
            to_format="lammps-run",
            potential_files=str(tmp_path / "run/a"),
            overwrite=True,
        )
    assert (tmp_path / "out/lib.comb3").is_file()
    lammps_style_cases.jobs(tmp_path, {"first": tmp_path / "run/a", "second": tmp_path / "out"})
    found = lammps(tmp_path, lammps_style_cases.RUN_ALL)
    assert found["second"].get("pe") == pytest.approx(found["first"].get("pe"), rel=1e-12)


def test_coefficients_of_three_types_are_no_row_of_two(tmp_path: Path) -> None:
    start = ["units real", "atom_style full", "read_data s.data", "pair_style atm 6.0 5.0"]
    lammps_style_cases.write_case(
        tmp_path / "run", lammps_style_cases.molecules(), [*start, "pair_coeff * * * 0.1", "pair_coeff 1 1 2 0.2"]
    )
    with pytest.raises(UnsupportedError, match=r"pair_coeff 1 1 2 0.2.*of three types"):
        molrec_convert.read(tmp_path / "run/in.lmp")
