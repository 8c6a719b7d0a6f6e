"""The force field that commands state: rows as LAMMPS has them, and the energies LAMMPS gets from them."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from lammps_potentials import potential_in, restated
from lammps_runs import lammps, needs_lammps

from molrec_convert.errors import FormatError
from molrec_lammps.potential.potential import Potential
from molrec_lammps.script.settings import BadType, pairs_of, types_of

TERMS = ("ebond", "eangle", "edihed", "eimp", "evdwl", "ecoul", "elong", "etail", "epair", "emol", "pe")

DATA = """two chains of three

6 atoms
4 bonds
2 angles
3 atom types
2 bond types
2 angle types
0 12 xlo xhi
0 12 ylo yhi
0 12 zlo zhi

Masses

1 12.011
2 1.008
3 15.9994
{coefficients}
Atoms # full

1 1 1 0.5 1.0 1.0 1.0
2 1 2 -0.25 2.1 1.0 1.1
3 1 3 -0.25 2.9 2.0 1.0
4 2 1 0.5 4.3 1.2 1.0
5 2 3 -0.25 5.6 1.0 1.4
6 2 2 -0.25 6.3 2.2 1.0

Bonds

1 1 1 2
2 2 2 3
3 1 4 5
4 2 5 6

Angles

1 1 1 2 3
2 2 4 5 6
"""

COEFFICIENTS = """
Pair Coeffs # lj/cut

1 0.1 1.5
2 0.2 1.0
3 0.3 1.7

Bond Coeffs # harmonic

1 300 1.1
2 250 1.2

Angle Coeffs # harmonic

1 50 110
2 40 105
"""

#: Sections of a hybrid, its sub-styles before the numbers.
HYBRID = """
Pair Coeffs # hybrid

1 lj/cut 0.1 1.5
2 lj/cut 0.2 1.0
3 morse 0.3 1.7 1.9

Bond Coeffs # hybrid

1 harmonic 300 1.1
2 class2 1.2 250 -20 3

Angle Coeffs # hybrid

1 harmonic 50 110
2 class2 105 40 1.0 0.5

BondBond Coeffs

1 skip
2 class2 3.5 1.2 1.3

BondAngle Coeffs

1 skip
2 class2 2.5 1.5 1.2 1.3
"""

HEAD = "units real\natom_style full\n"
BONDED = "bond_style harmonic\nangle_style harmonic\n"
READ = HEAD + BONDED + "pair_style lj/cut 6\nread_data system.data\n"
BARE = HEAD + "read_data system.data nocoeff\n"
SET = "bond_style harmonic\nbond_coeff * 300 1.1\nangle_style harmonic\nangle_coeff * 50 110\n"
ALL = "pair_coeff * * 0.1 1.5\n"
LABELS = "labelmap atom 1 C 2 H 3 O\nlabelmap bond 1 C-H 2 H-O\n"
LISTED = "pair_coeff 1 1 0.1 1.5\npair_coeff 2 2 0.2 1.0\npair_coeff 3 3 0.3 1.9\n"

#: Name → script, sections of the data file.
CASES: dict[str, tuple[str, str]] = {
    "data file alone": (READ, COEFFICIENTS),
    "later rows count": (READ + "pair_coeff 1 3 0.5 2\nbond_coeff 2 99 1.4\nangle_coeff 1* 33 100\n", COEFFICIENTS),
    "rows before the file's": (HEAD + BONDED + "pair_style lj/cut 5\nread_data system.data\n" + ALL, COEFFICIENTS),
    "nocoeff": (BARE + SET + "pair_style lj/cut 6\n" + LISTED, COEFFICIENTS),
    "ranges": (BARE + SET + "pair_style lj/cut 6\npair_coeff * * 1 1\npair_coeff * 1 9 2\npair_coeff 1 2* 3 2\n", ""),
    "falling pair": (BARE + SET + "pair_style lj/cut 6\npair_coeff * * 0.1 1\npair_coeff 3 2 0.9 2.5\n", ""),
    "ranges of bonds": (BARE + SET + "pair_style zero 6\npair_coeff * *\nbond_coeff *1 5 1\nangle_coeff 2* 4 90\n", ""),
    "mixing": (BARE + SET + "pair_style lj/cut 6\npair_modify mix arithmetic\n" + LISTED, ""),
    "mixing after rows": (BARE + SET + "pair_style lj/cut 6\n" + LISTED + "pair_modify mix sixthpower\n", ""),
    "same name again": (
        BARE + SET + "pair_style lj/cut 6\npair_modify mix arithmetic shift yes\n"
        "pair_coeff 1 1 0.1 1.5 2.0\npair_coeff 2 2 0.2 1 3\npair_coeff 3 3 0.3 1.9 1.0\npair_style lj/cut 5\n",
        "",
    ),
    "same name again, cutoffs of like types stay": (
        BARE + SET + "pair_style cosine/squared 6\npair_coeff * * 0.4 1.5 2.5 wca\npair_style cosine/squared 5\n",
        "",
    ),
    "same name again, cutoffs stay": (
        BARE + SET + "pair_style lepton 6\npair_coeff * * 'k*r^2;k=0.3' 2.5\npair_style lepton 5\n",
        "",
    ),
    "another name starts over": (
        BARE + SET + "pair_style lj/cut 6\npair_modify mix arithmetic shift yes\n" + ALL
        + "pair_style morse 4\npair_style lj/cut 6\n" + LISTED,
        "",
    ),
    "bonds again start over": (BARE + "pair_style zero 6\npair_coeff * *\n" + SET + "bond_coeff 1 1 1\n" + SET, ""),
    "hybrid": (
        BARE + SET + "pair_style hybrid lj/cut 6 morse 5 coul/cut 4\npair_coeff * * lj/cut 0.1 1.5\n"
        "pair_coeff 1 2* morse 0.3 1.7 1.9\npair_coeff 1 2 coul/cut\npair_coeff 3 3 none\n",
        "",
    ),
    "hybrid, the last sub-style counts": (
        BARE + SET + "pair_style hybrid lj/cut 6 morse 5\npair_coeff * * morse 0.3 1.7 1.9\n"
        "pair_coeff 1*2 1*2 lj/cut 0.1 1.5\npair_coeff 2 2 morse 0.2 1 1\npair_coeff 2 2 none\n"
        "pair_coeff 2 2 lj/cut 1 1\n",
        "",
    ),
    "hybrid mixes within a sub-style": (
        BARE + SET + "pair_style hybrid lj/cut 6 morse 5\npair_modify pair lj/cut mix arithmetic\n"
        "pair_coeff 1 1 lj/cut 0.1 1.5\npair_coeff 2 2 lj/cut 0.4 1\npair_coeff * 3 morse 0.3 1.7 1.9\n"
        "pair_coeff 3 3 morse 0.3 1.7 1.9\n",
        "",
    ),
    "hybrid again starts over": (
        BARE + SET + "pair_style hybrid lj/cut 6 morse 5\npair_modify mix arithmetic\npair_coeff * * morse 1 1 1\n"
        "pair_style hybrid lj/cut 6 morse 5\npair_coeff 1 1 lj/cut 0.1 1.5\npair_coeff 2 2 lj/cut 0.4 3\n"
        "pair_coeff * 3 morse 0.3 1.7 1.9\npair_coeff 3 3 morse 0.3 1.7 1.9\n",
        "",
    ),
    "overlay": (
        BARE + SET + "pair_style hybrid/overlay lj/cut 6 coul/cut 5\npair_coeff * * lj/cut 0.1 1.5\n"
        "pair_coeff * * coul/cut\npair_coeff 1 3 none\npair_coeff 2 3 none\npair_coeff 2 3 coul/cut 4\n",
        "",
    ),
    "overlay of one style twice": (
        BARE + SET + "pair_style hybrid/overlay lj/cut 6 lj/cut 3 morse 5\npair_coeff * * lj/cut 1 0.1 1.5\n"
        "pair_coeff * * lj/cut 2 0.5 1.0\npair_coeff 1 1 morse 1 1 1\npair_modify pair lj/cut 2 shift yes\n",
        "",
    ),
    "scaled": (
        BARE + SET + "pair_style hybrid/scaled 0.5 lj/cut 6 0.25 coul/cut 5\npair_coeff * * lj/cut 0.1 1.5\n"
        "pair_coeff * * coul/cut\n",
        "",
    ),
    "labels": (
        BARE + LABELS + "bond_style harmonic\nbond_coeff C-H 300 1.1\nbond_coeff H-O 200 1.2\nangle_style zero\n"
        "angle_coeff *\npair_style lj/cut 6\npair_coeff * * 0.1 1.5\npair_coeff O C 0.7 1.9\npair_coeff H H 0.4 1.1\n",
        "",
    ),
    "hybrid in the data file": (
        HEAD + "bond_style hybrid harmonic class2\nangle_style hybrid class2 harmonic\n"
        "pair_style hybrid lj/cut 6 morse 5\n"
        "read_data system.data\npair_coeff 1 3 morse 0.1 1 1\npair_coeff 2 3 morse 0.1 1 1\n",
        HYBRID,
    ),
    "hybrid bonds": (
        BARE + "bond_style hybrid harmonic morse\nbond_coeff * harmonic 300 1.1\nbond_coeff 1 morse 90 1.8 1.09\n"
        "angle_style hybrid class2 harmonic\nangle_coeff 1 class2 105 40 1 0.5\nangle_coeff 1 class2 bb 3.5 1.2 1.3\n"
        "angle_coeff 1 class2 ba 2.5 1.5 1.2 1.3\nangle_coeff 2 harmonic 50 110\npair_style zero 6\npair_coeff * *\n",
        "",
    ),
    "special bonds start from zero": (
        READ + "special_bonds amber\nspecial_bonds lj 0 0.5 0.3\nspecial_bonds coul 0.1 0.2 0.3\n",
        COEFFICIENTS,
    ),
    "dielectric": (BARE + SET + "pair_style lj/cut/coul/cut 6\npair_coeff * * 0.1 1\ndielectric 4\ndielectric 2\n", ""),
    "kspace again": (
        BARE + SET + "kspace_style pppm 1e-3\nkspace_modify gewald 0.25\npair_style lj/cut/coul/long 5\n" + ALL
        + "kspace_style ewald 1e-5\nkspace_modify gewald 0.3\n",
        "",
    ),
    "variables": (
        "variable e equal 0.1*2\nvariable s string 1.5\nvariable n index 3\nvariable d getenv NOWHERE\n" + BARE + SET
        + "pair_style lj/cut $(2*3)\npair_coeff * * ${e} $s\npair_coeff $n $n $(v_e/3:%.8f) &\n  1.25 # a comment\n",
        "",
    ),
    "a suffix": (BARE + SET + "pair_style lj/cut/opt 6\n" + ALL, ""),
}  # fmt: skip


@pytest.fixture
def system(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Writes a script and its data file, gives the script's path."""

    def write(script: str, coefficients: str = "") -> Path:
        (tmp_path / "system.data").write_text(DATA.format(coefficients=coefficients))
        (tmp_path / "in.lmp").write_text(script)
        return tmp_path / "in.lmp"

    return write


def rows(potential: Potential, category: str) -> dict[tuple[object, ...], str]:
    """The words of the rows in force, by sub-style (where there is one) and types."""
    found = [row for row in potential.final() if row.category == category]
    return {(*([row.style] if row.style else []), *row.types): " ".join(row.words) for row in found}


def energies(folder: Path, name: str) -> dict[str, float]:
    """The energy terms LAMMPS has after a script."""
    out = lammps(folder, f"lmp.file({name!r})\nfor n in {TERMS!r}: out[n] = lmp.get_thermo(n)")
    assert "error" not in out, out["error"]
    return dict(out)


@needs_lammps
class TestEngine:
    @pytest.mark.parametrize("name", CASES)
    def test_the_same_energies(self, system, name: str) -> None:  # type: ignore[no-untyped-def]
        """What we understood, told LAMMPS in other words, gives the same numbers to the last bit."""
        text, coefficients = CASES[name]
        script = system(text + "run 0\n", coefficients)
        potential, doubts = potential_in(script)
        assert not doubts
        (script.parent / "again.lmp").write_text(restated(script, potential))
        original, again = energies(script.parent, "in.lmp"), energies(script.parent, "again.lmp")
        assert original == again
        assert original["pe"] != 0

    @pytest.mark.parametrize(
        ("lines", "found"),
        [
            ("pair_coeff 4 4 1 1", "'4' with 3 atom types"),
            ("pair_coeff 0 1 1 1", "'0' with 3 atom types"),
            ("pair_coeff 2*1 1 1 1", r"'2\*1' with 3 atom types"),
            ("pair_coeff +1 2 1 1", r"'\+1' as atom type"),
            ("pair_coeff 2* 1 1 1", r"'2\* 1', which holds no pair I <= J"),
            ("pair_coeff X 1 1 1", "the atom type label 'X'"),
            ("bond_coeff 3 1 1", "'3' with 2 bond types"),
            ("dihedral_style harmonic\ndihedral_coeff 1 1 1 1", "'1' with 0 dihedral types"),
            ("improper_coeff 1 1 1", "improper_coeff without a style"),
            ("pair_style none\npair_coeff 1 1 1 1", "pair_coeff without a style"),
            ("pair_style none\npair_modify mix arithmetic", "pair_modify without a style"),
            ("pair_modify pair lj/cut mix arithmetic", "'pair' without a hybrid pair style"),
            ("pair_style hybrid lj/cut 5 morse 4\npair_coeff 1 1 buck 1 1 1", "'buck'"),
            ("pair_style hybrid/overlay lj/cut 5 lj/cut 4\npair_coeff * * lj/cut 0.1 1", "'0.1' after lj/cut"),
            ("pair_style hybrid 5", "'5'"),
            ("bond_style hybrid harmonic hybrid", "'hybrid'"),
            ("kspace_modify gewald 0.3", "kspace_modify without a style"),
            ("special_bonds lj 0 0", "'lj 0 0'"),
            ("special_bonds", "'special_bonds' alone"),
            ("special_bonds opls", "'opls'"),
            ("mass 4 1", "'4' with 3 atom types"),
            ("mass 1 0", "the mass '0'"),
            ("mass 1", "'mass 1'"),
            ("labelmap atom 4 C", "the atom type '4'"),
            ("labelmap atom 1 C 2 C", "the label 'C' again"),
            ("labelmap atom 1 1C", "the label '1C'"),
            ("read_data system.data", "a second read_data"),
            ("read_data system.data add wibble", "'wibble'"),
            ("read_data system.data add append extra/atom/types 1", "'extra/.../types' with 'add'"),
            ("units real\nunits wibble", "'wibble'"),
        ],
    )
    def test_what_lammps_refuses(self, system, lines: str, found: str) -> None:  # type: ignore[no-untyped-def]
        """LAMMPS stops there, and so do we, with file and line."""
        script = system(READ + lines + "\n", COEFFICIENTS)
        number = len((READ + lines).splitlines())
        with pytest.raises(FormatError, match=rf"in\.lmp, line {number}: found {found}.*, expected "):
            potential_in(script)
        assert "error" in lammps(script.parent, "lmp.file('in.lmp')")

    @pytest.mark.slow
    def test_the_corpus(self, corpus: Path, tmp_path: Path) -> None:
        """Every script of the corpus: what we read of it gives LAMMPS the energies that are on record."""
        with (corpus / "energies.tsv").open() as table:
            known = {row["name"]: row for row in csv.DictReader(table, delimiter="\t")}
        folders = sorted((corpus / "energies").iterdir())
        assert len(folders) >= 40
        for source in folders:
            folder = tmp_path / source.name
            shutil.copytree(source, folder)
            folder.chmod(0o755)
            written = folder / "written_ii.data"
            potential, doubts = potential_in(folder / "in.lmp", written if written.exists() else None)
            assert not doubts
            (folder / "again.lmp").write_text(restated(folder / "in.lmp", potential))
            for name, value in energies(folder, "again.lmp").items():
                assert value == pytest.approx(float(known[source.name][name]), rel=2e-11, abs=2e-10), source.name


class TestRows:
    def test_ranges(self, system) -> None:  # type: ignore[no-untyped-def]
        script = system(BARE + "pair_style lj/cut 6\npair_coeff 1*2 2* 1 1\npair_coeff * 1 2 2\npair_coeff 3 2 3 3 4\n")
        assert rows(potential_in(script)[0], "pair") == {
            (1, 2): "1 1",
            (1, 3): "1 1",
            (2, 2): "1 1",
            (1, 1): "2 2",
            (2, 3): "3 3 4",
        }

    def test_words_stay_as_they_are_written(self, system) -> None:  # type: ignore[no-untyped-def]
        script = system(BARE + SET + "pair_style lj/cut 6.0\npair_coeff * * 0.100 1.50e+00\nbond_coeff 1 +300. 1.1\n")
        potential, _ = potential_in(script)
        assert rows(potential, "pair")[(1, 1)] == "0.100 1.50e+00"
        assert rows(potential, "bond")[(1,)] == "+300. 1.1"
        assert potential.styles["pair"][0].args == ("6.0",)
        assert {row.where.rpartition(", ")[2] for row in potential.coefficients} == {
            "line 5",
            "line 7",
            "line 9",
            "line 10",
        }

    def test_data_file_and_commands_in_order(self, system) -> None:  # type: ignore[no-untyped-def]
        potential, _ = potential_in(system(READ + "pair_coeff 2 2 9 9\nmass 2 2.016\n", COEFFICIENTS))
        assert rows(potential, "pair") == {(1, 1): "0.1 1.5", (3, 3): "0.3 1.7", (2, 2): "9 9"}
        assert potential.masses == {1: "12.011", 2: "2.016", 3: "15.9994"}
        assert potential.type_counts == {"atom": 3, "bond": 2, "angle": 2}
        assert potential.units == "real"

    def test_a_file_whose_styles_come_too_late(self, system) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(FormatError, match=r"line 3: found coefficients of pair types \(.*system\.data, line 21\)"):
            potential_in(system(HEAD + "read_data system.data\npair_style lj/cut 6\n", COEFFICIENTS))

    def test_a_file_of_another_hybrid(self, system) -> None:  # type: ignore[no-untyped-def]
        text = HEAD + BONDED.replace("harmonic", "hybrid harmonic morse", 1) + "pair_style hybrid lj/cut 6 morse 5\n"
        with pytest.raises(
            FormatError, match=r"system\.data, line 28: found 'class2', expected a sub-style of the bond"
        ):
            potential_in(system(text + "read_data system.data\n", HYBRID))

    def test_extra_types(self, system) -> None:  # type: ignore[no-untyped-def]
        text = BARE.replace("nocoeff", "nocoeff extra/atom/types 2 extra/bond/types 1 extra/special/per/atom 4")
        potential, _ = potential_in(system(text + "pair_style lj/cut 6\npair_coeff 4* 4* 1 1\nmass 4* 7\n"))
        assert list(rows(potential, "pair")) == [(4, 4), (4, 5), (5, 5)]
        assert potential.type_counts == {"atom": 5, "bond": 3, "angle": 2}
        assert potential.masses[5] == "7"

    def test_a_style_that_maps_elements(self, system) -> None:  # type: ignore[no-untyped-def]
        text = (
            BARE
            + "pair_style hybrid/overlay sw lj/cut 6\npair_coeff * * sw a.sw Si NULL C\npair_coeff 2 2 lj/cut 1 1\n"
        )
        potential, _ = potential_in(system(text))
        assert list(rows(potential, "pair")) == [("sw", 1, 1), ("sw", 1, 3), ("sw", 3, 3), ("lj/cut", 2, 2)]
        again, _ = potential_in(system(text + "pair_coeff * * sw a.sw NULL NULL C\n"))
        assert list(rows(again, "pair")) == [("lj/cut", 2, 2), ("sw", 3, 3)]

    def test_what_another_style_ends(self, system) -> None:  # type: ignore[no-untyped-def]
        script = system(READ + "pair_style none\nbond_style none\nspecial_bonds amber\n", COEFFICIENTS)
        potential, _ = potential_in(script)
        assert set(potential.styles) == {"angle"}
        assert {row.category for row in potential.coefficients} == {"angle"}
        assert potential.special_bonds == ("amber",)

    def test_cmap(self, system) -> None:  # type: ignore[no-untyped-def]
        text = BARE + "fix a all cmap one.cmap\nfix b all cmap two.cmap\nunfix a\n"
        assert potential_in(system(text))[0].cmap == ["two.cmap"]


class TestDoubts:
    @pytest.mark.parametrize(
        "line",
        [
            'if "$(step) > 1" then "pair_coeff 1 1 1 1"',
            "pair_coeff 1 1 ${unknown} 1",
            "variable r equal random(0,1,77)\npair_coeff 1 1 ${r} 1",
            "read_data missing.data add append",
            "read_restart some.restart",
            "kim init model real",
            "run 10 every 5 'pair_coeff 1 1 1 1'",
        ],
    )
    def test_what_only_lammps_knows(self, system, line: str) -> None:  # type: ignore[no-untyped-def]
        _, doubts = potential_in(system(READ + line + "\n", COEFFICIENTS))
        assert len(doubts) == 1
        assert "in.lmp, line" in doubts[0]

    def test_a_loop_that_runs_is_none(self, system) -> None:  # type: ignore[no-untyped-def]
        loop = "label again\nvariable i loop 3\nrun 10\nif '$i > 5' then 'jump SELF done'\nnext i\njump SELF again\n"
        assert not potential_in(system(READ + loop + "label done\n", COEFFICIENTS))[1]


class TestTypes:
    @pytest.mark.parametrize(
        ("word", "types"),
        [("2", [2]), ("*", [1, 2, 3, 4]), ("3*", [3, 4]), ("*2", [1, 2]), ("2*3", [2, 3]), ("b*", [2])],
    )
    def test_forms(self, word: str, types: list[int]) -> None:
        assert list(types_of(word, 4, ["a", "b*", "c", "d"], "atom")) == types

    @pytest.mark.parametrize(
        "word", ["", "0", "5", "*5", "0*", "3*2", "**", "1**", "1-2", "+1", "-1", "1.0", "x", "#1"]
    )
    def test_none(self, word: str) -> None:
        with pytest.raises(BadType):
            types_of(word, 4, ["a", "b", "c", "d"], "atom")

    def test_pairs(self) -> None:
        assert pairs_of("3", "1", 3, []) == [(1, 3)]
        assert pairs_of("c", "a", 3, ["a", "b", "c"]) == [(1, 3)]
        assert pairs_of("2*", "*", 3, []) == [(2, 2), (2, 3), (3, 3)]
        with pytest.raises(BadType):
            pairs_of("2*", "1", 3, [])
