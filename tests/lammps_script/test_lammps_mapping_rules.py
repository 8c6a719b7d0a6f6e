"""What the mapping of LAMMPS' force fields promises, rule by rule, and what it refuses."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_lammps_mapping import DEFINITIONS, assert_same, decimal, round_trip

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.model import Block, ForceField, Frame, Record
from molrec_convert.model.forcefield.definitions import to_definitions
from molrec_convert.model.forcefield.document import table_from_rows
from molrec_convert.model.frame import Column
from molrec_convert.report import Fate, Report
from molrec_lammps.potential.potential import Coefficient, Potential, PotentialStyle
from molrec_lammps.potential.record import force_field, potential_of, relation_styles, type_names
from molrec_lammps.potential.rows import cmap_text, read_cmap, special_bonds
from molrec_lammps.potential.style_table import Pattern, number_word


def rows(category: str, *texts: str, style: str = "", index: int = 0, part: str = "") -> list[Coefficient]:
    """Rows from texts `1 2 | words`."""
    found = []
    for text in texts:
        types, _, words = text.partition("|")
        found.append(Coefficient(category, tuple(map(int, types.split())), tuple(words.split()), style, index, part))
    return found


def pairs(style: str, args: str = "10.0", *texts: str, **others: object) -> Potential:
    potential = Potential(units="real", type_counts={"atom": 2}, **others)
    potential.styles["pair"] = [PotentialStyle(style, tuple(args.split()))]
    potential.coefficients = rows("pair", *(texts or ("1 1 | 0.1 3.2", "2 2 | 0.2 3.0")))
    return potential


def written(potential: Potential, definitions: int = 1, **others: object) -> ForceField:
    found = force_field(potential, Report(), definitions=definitions, **others)
    found.check()
    return found


class TestNumbers:
    @settings(max_examples=400)
    @given(seed=st.integers(0, 2**32))
    def test_angles_and_harmonic_constants_are_the_same_decimals(self, seed):
        rng = random.Random(seed)
        word, constant = decimal(rng), decimal(rng)
        potential = Potential(units="real", type_counts={"angle": 1})
        potential.styles["angle"] = [PotentialStyle("harmonic")]
        potential.coefficients = rows("angle", f"1 | {constant} {word}")
        (back,) = potential_of(written(potential)).coefficients
        assert [float(w) for w in back.words] == [float(constant), float(word)]
        assert [f"{float(w):.15g}" for w in back.words] == [f"{float(constant):.15g}", f"{float(word):.15g}"]

    def test_harmonic_numbers_in_both_definitions(self):
        potential = Potential(units="real", type_counts={"bond": 1, "angle": 1, "improper": 1})
        potential.styles = {name: [PotentialStyle("harmonic")] for name in ("bond", "angle", "improper")}
        potential.coefficients = rows("bond", "1 | 450.0 0.9572") + rows("angle", "1 | 55.0 104.52")
        potential.coefficients += rows("improper", "1 | 1.1 180.0")
        one, two = written(potential), written(potential, 2)
        assert one.units == {"preset": "real", "angle": "radian"}
        assert two.units == {"preset": "real", "angle": "degree"}
        assert one.table("bond", "harmonic")["k"].tolist() == [900.0]
        assert one.table("angle", "harmonic")["k"].tolist() == [110.0]
        assert one.table("angle", "harmonic")["theta0"].tolist() == [pytest.approx(np.radians(104.52))]
        assert one.table("improper", "harmonic")["k"].tolist() == [1.1]
        assert two.table("bond", "harmonic")["k"].tolist() == [450.0]
        assert two.table("angle", "harmonic")["theta0"].tolist() == [104.52]

    def test_morse_has_another_name_later(self):
        potential = Potential(units="metal", type_counts={"bond": 1})
        potential.styles["bond"] = [PotentialStyle("morse")]
        potential.coefficients = rows("bond", "1 | 90.0 1.8 1.09")
        assert "D" in written(potential).table("bond", "morse").columns
        assert "d0" in written(potential, 2).table("bond", "morse").columns

    @pytest.mark.parametrize(
        ("value", "word"), [(3.0, "3"), (0.1, "0.1"), (1e22, "1e+22"), (-0.0, "-0"), (5, "5"), (1e16, "1e+16")]
    )
    def test_words_of_numbers(self, value, word):
        assert number_word(value) == word
        assert float(word) == value

    def test_fourier_rows_of_different_lengths(self):
        potential = Potential(units="real", type_counts={"dihedral": 3})
        potential.styles["dihedral"] = [PotentialStyle("fourier")]
        potential.coefficients = rows("dihedral", "1 | 1 1.5 3 180.0", "2 | 3 1 1 0 2 2 10.5 -3 -3 90.0", "3 | 0")
        table = written(potential).table("dihedral", "periodic")
        assert table.columns["k2"].validity.tolist() == [False, True, False]
        assert table["periodicity3"].tolist()[1] == -3.0
        for definitions in (1, 2):
            round_trip(potential, definitions)


class TestTypes:
    def test_names_are_labels_else_numbers(self):
        potential = Potential(type_counts={"atom": 2, "bond": 2}, labels={"atom": ["C-1", "H"]})
        assert type_names(potential, "atom") == ["C-1", "H"]
        assert type_names(potential, "bond") == ["1", "2"]
        assert type_names(potential, "improper") == []

    def test_endpoints_of_relations_are_any_and_those_of_pairs_are_names(self):
        potential = pairs("lj/cut", "10.0", "1 1 | 0.1 3.2", "2 1 | 0.3 3.1")
        potential.labels["atom"] = ["a-b", "c"]
        table = written(potential).table("pair", "lj/cut")
        assert table["itom"].tolist() == ["a-b", "a-b"]
        assert table["jtom"].tolist() == ["a-b", "c"]
        assert len(set(table["name"].tolist())) == 2

    def test_a_later_row_replaces_an_earlier_one(self):
        potential = pairs("lj/cut", "10.0", "1 1 | 0.1 3.2", "1 2 | 0.3 3.1", "1 1 | 0.5 3.5")
        table = written(potential).table("pair", "lj/cut")
        assert sorted(table["epsilon"].tolist()) == [0.3, 0.5]

    def test_a_pair_is_one_in_either_order(self):
        potential = pairs("lj/cut", "10.0", "1 1 | 0.1 3.2", "1 2 | 0.3 3.1", "2 1 | 0.5 3.5", "2 2 | 0.1 3.0")
        back = potential_of(written(potential))
        assert {row.types: row.words for row in back.coefficients}[(1, 2)] == ("0.5", "3.5")

    def test_counts_beyond_what_is_used_come_back(self):
        potential = pairs("lj/cut", "10.0", "1 1 | 0.1 3.2")
        potential.type_counts = {"atom": 5, "bond": 6, "improper": 2}
        assert potential_of(written(potential)).type_counts == {"atom": 5, "bond": 6, "improper": 2}

    def test_types_the_caller_numbers(self):
        found = ForceField.new("ff", {"preset": "real", "angle": "radian"})
        table = [{"name": name, "k": 2.0 * n, "r0": 1.0, "itom": "", "jtom": ""} for n, name in enumerate("abc", 1)]
        found.add("bond", "harmonic", table_from_rows("bond", table))
        report = Report()
        back = potential_of(found, types={"bond": ["c", "a"]}, report=report)
        assert {row.types: row.words[0] for row in back.coefficients} == {(1,): "3", (2,): "1"}
        assert [item.name for item in report.of(Fate.DROPPED)] == ["forcefield bond type b"]


class TestPairs:
    def test_charges_stand_apart(self):
        potential = pairs("lj/cut/coul/long", "8.0 12.0", kspace=("pppm", "1.0e-5"))
        potential = replace(potential, dielectric="2.0")
        found = written(potential)
        assert [style.name for style in found.of_category("pair")] == ["pair.lj/cut", "pair.coul/long/pme"]
        assert found.style("pair", "lj/cut").params == {"cutoff": 8.0, "mixing": "geometric"}
        params = found.style("pair", "coul/long/pme").params
        assert params["coulomb"] == 332.06371 / 2.0
        assert params["cutoff"] == 12.0
        assert params["accuracy"] == 1e-5
        round_trip(potential, 1)

    @pytest.mark.parametrize(
        ("style", "args", "command", "rule"),
        [
            ("lj/cut", "8", (), "geometric"),
            ("lj/cut", "8", ("mix", "arithmetic"), "arithmetic"),
            ("lj/cut", "8", ("shift", "yes", "mix", "sixthpower", "tail", "yes"), "sixthpower"),
            ("lj/charmm/coul/long", "8 10", (), "arithmetic"),
            ("lj/charmm/coul/long", "8 10", ("mix", "geometric"), "geometric"),
            ("lj/class2", "8", ("mix", "arithmetic"), "sixthpower"),
            ("buck", "8", ("mix", "arithmetic"), None),
        ],
    )
    def test_mixing_is_what_lammps_takes(self, style, args, command, rule):
        words = "1.0 2.0 3.0" if style == "buck" else "0.1 3.2"
        potential = pairs(style, args, f"1 1 | {words}", f"2 2 | {words}")
        potential.pair_modify = [command] if command else []
        found = written(potential)
        assert found.of_category("pair")[0].params.get("mixing") == rule
        for definitions in (1, 2):
            round_trip(potential, definitions)

    def test_a_hint_alone_says_nothing_of_mixing_or_cutoffs(self):
        potential = pairs("lj/cut", "")
        potential.styles["pair"] = [PotentialStyle("lj/cut", stated=False)]
        found = written(potential)
        assert found.style("pair", "lj/cut").params == {}
        assert found.special_bonds is None
        assert potential_of(found).styles["pair"] == [PotentialStyle("lj/cut", stated=False)]

    def test_mixed_pairs_resolve_to_what_lammps_mixes(self):
        potential = pairs("lj/cut", "10.0", "1 1 | 0.1 3.2 9", "2 2 | 0.2 3.0")
        system = Frame({"atoms": Block({"type": Column(np.array(["1", "2"], dtype=np.dtypes.StringDType()))})})
        record = Record(system=system, forcefield=written(potential))
        (term,) = record.resolve().pair(0, 1)
        assert term.parameters["sigma"] == pytest.approx(np.sqrt(3.2 * 3.0))
        assert term.parameters["cutoff"] == pytest.approx(np.sqrt(90.0))

    def test_a_row_of_unlike_types_has_the_cutoff_of_the_style(self):
        potential = pairs("lj/cut", "10.0", "1 1 | 0.1 3.2 9", "1 2 | 0.3 3.3", "2 2 | 0.2 3.0")
        table = written(potential).table("pair", "lj/cut")
        assert table["cutoff"][1] == 10.0
        assert table.columns["cutoff"].validity.tolist() == [True, True, False]

    def test_an_edited_record_is_written_as_edited(self):
        potential = pairs("lj/cut/coul/cut", "8.0 12.0", special_bonds=("amber",))
        found = written(potential)
        for entry in found.document["styles"]:
            if entry["style"] == "lj/cut":
                entry["params"] = {"cutoff": 9.5, "mixing": "arithmetic"}
        found.document["special_bonds"] = {"lj": [0.0, 0.0, 0.25], "coul": [0.0, 0.0, 1.0]}
        back = potential_of(found)
        assert back.styles["pair"] == [PotentialStyle("lj/cut/coul/cut", ("9.5", "12"))]
        assert back.pair_modify == [("mix", "arithmetic")]
        assert back.special_bonds == ("lj", "0", "0", "0.25", "coul", "0", "0", "1")


class TestHybrids:
    def hybrid(self, kind: str, styles: list[PotentialStyle], coefficients: list[Coefficient]) -> Potential:
        potential = Potential(units="real", type_counts={"atom": 2}, hybrid={"pair": kind})
        potential.styles["pair"] = styles
        potential.coefficients = coefficients
        return potential

    @DEFINITIONS
    def test_a_sub_style_listed_twice(self, definitions):
        styles = [PotentialStyle("lj/cut", ("8.0",), 1), PotentialStyle("lj/cut", ("12.0",), 2)]
        coefficients = rows("pair", "1 1 | 0.1 3.2", style="lj/cut", index=1)
        coefficients += rows("pair", "1 2 | 0.1 3.1", "2 2 | 0.2 3.0", style="lj/cut", index=2)
        potential = self.hybrid("hybrid", styles, coefficients)
        found = round_trip(potential, definitions)
        assert [style.style for style in found.of_category("pair")] == ["lj/cut", "lj/cut 2"]
        assert found.style("pair", "lj/cut 2").expression is not None

    @DEFINITIONS
    def test_scaled_sub_styles(self, definitions):
        styles = [PotentialStyle("lj/cut", ("8.0",)), PotentialStyle("coul/cut", ("12.0",))]
        coefficients = rows("pair", "1 1 | 0.1 3.2", "1 2 | 0.1 3.1", "2 2 | 0.2 3.0", style="lj/cut")
        coefficients += rows("pair", "1 1 |", "1 2 |", "2 2 |", style="coul/cut")
        potential = self.hybrid("hybrid/scaled", styles, coefficients)
        potential.scales = ["0.5", "v_lambda"]
        found = round_trip(potential, definitions)
        assert found.style("pair", "lj/cut 1").expression.startswith("scale*(")
        assert found.style("pair", "coul/cut 1").params["scale"] == "v_lambda"

    def test_charges_of_some_pairs_are_not_those_of_all(self):
        styles = [PotentialStyle("lj/cut", ("8.0",)), PotentialStyle("coul/cut", ("12.0",))]
        both = rows("pair", "1 1 | 0.1 3.2", "1 2 | 0.1 3.1", "2 2 | 0.2 3.0", style="lj/cut")
        some = self.hybrid("hybrid/overlay", styles, both + rows("pair", "1 1 |", style="coul/cut"))
        every = self.hybrid("hybrid/overlay", styles, both + rows("pair", "1 1 |", "1 2 |", "2 2 |", style="coul/cut"))
        assert [style.style for style in round_trip(some, 1).of_category("pair")] == ["lj/cut", "coul/cut 1"]
        assert [style.style for style in round_trip(every, 1).of_category("pair")] == ["lj/cut", "coul/cut"]

    def test_pairs_that_are_mixed_beside_others_that_are_not_are_written_out(self):
        styles = [PotentialStyle("lj/cut", ("8.0",)), PotentialStyle("morse", ("8.0",))]
        own = rows("pair", "1 1 | 0.1 3.2 9", "2 2 | 0.2 3.0", "3 3 | 0.3 2.5", style="lj/cut")
        potential = self.hybrid("hybrid", styles, own + rows("pair", "1 2 | 0.2 2.1 2.5", style="morse"))
        potential.type_counts["atom"] = 3
        potential.pair_modify = [("mix", "arithmetic")]
        found = round_trip(potential, 1)
        table = found.table("pair", "lj/cut")
        mixed = {name: n for n, name in enumerate(table["name"].tolist()) if n > 2}
        assert list(mixed) == ["1-3", "2-3"]
        assert table["sigma"][3:].tolist() == [0.5 * (3.2 + 2.5), 0.5 * (3.0 + 2.5)]
        assert table["cutoff"][3] == 8.5
        assert table.columns["cutoff"].validity.tolist() == [True, False, False, True, False]
        # Once somebody changes an own row the others are what they were, and have to be said.
        table.columns["sigma"].values[0] = 4.0
        back = {row.types: row.words for row in potential_of(found).coefficients if row.style == "lj/cut"}
        assert back.keys() == {(1, 1), (2, 2), (3, 3), (1, 3)}

    def test_pairs_of_another_sub_style_are_not_mixed(self):
        styles = [PotentialStyle("lj/cut", ("8.0",)), PotentialStyle("morse", ("8.0",))]
        own = rows("pair", "1 1 | 0.1 3.2", "2 2 | 0.2 3.0", style="lj/cut")
        potential = self.hybrid("hybrid", styles, own + rows("pair", "1 2 | 0.2 2.1 2.5", style="morse"))
        found = round_trip(potential, 1)
        assert "mixing" not in found.style("pair", "lj/cut").params
        assert found.table("pair", "lj/cut").count == 2

    def test_relations_say_their_style_and_class2_adds(self):
        potential = Potential(units="real", type_counts={"angle": 4}, hybrid={"angle": "hybrid"})
        potential.styles["angle"] = [PotentialStyle(name) for name in ("class2", "harmonic", "cosine")]
        potential.coefficients = rows("angle", "1 | 110.5 50.0 1 2", style="class2")
        potential.coefficients += rows("angle", "1 | 3.4 1.4 1.3", style="class2", part="bb")
        potential.coefficients += rows("angle", "2 | 50.0 109.5", style="harmonic") + rows(
            "angle", "3 | 5", style="cosine"
        )
        potential.coefficients += rows("angle", "4 |", style="none") + rows("angle", "2 | skip", part="bb")
        assert relation_styles(potential, "angle") == [None, "harmonic", "cosine", "none"]
        assert relation_styles(potential, "bond") is None
        found = written(potential)
        text = np.dtypes.StringDType()
        angles = Block(
            {
                "atomi": Column(np.array([0, 0, 0], dtype=np.uint64)),
                "atomj": Column(np.array([1, 1, 1], dtype=np.uint64)),
                "atomk": Column(np.array([2, 2, 2], dtype=np.uint64)),
                "type": Column(np.array(["1", "2", "4"], dtype=text)),
                "style": Column(np.array(["", "harmonic", "none"], dtype=text), np.array([False, True, True])),
            }
        )
        atoms = Block({"type": Column(np.array(["1", "1", "1"], dtype=text))})
        links = Record(system=Frame({"atoms": atoms, "angles": angles}), forcefield=found).resolve()["angles"]
        assert [[term.table for term in links.terms(n)] for n in range(3)] == [
            ["angle.class2", "angle.class2%2Fbb"],
            ["angle.harmonic"],
            ["angle.none"],
        ]
        back = potential_of(found)
        assert back.hybrid == {"angle": "hybrid"}
        assert [style.name for style in back.styles["angle"]] == ["class2", "harmonic", "cosine"]
        assert Coefficient("angle", (4,), (), "none") in back.coefficients


class TestSettings:
    @pytest.mark.parametrize(
        ("words", "lj", "coul"),
        [
            ("amber", [0, 0, 0.5], [0, 0, 0.8333333333333334]),
            ("charmm", [0, 0, 0], [0, 0, 0]),
            ("dreiding", [0, 0, 1], [0, 0, 1]),
            ("fene", [0, 1, 1], [0, 1, 1]),
            ("lj 0 0 0.3", [0, 0, 0.3], [0, 0, 0]),
            ("coul 0.1 0.2 0.3", [0, 0, 0], [0.1, 0.2, 0.3]),
            ("lj/coul 0 0 1", [0, 0, 1], [0, 0, 1]),
            ("amber lj 0 0 0.3 angle yes", [0, 0, 0.3], [0, 0, 0.8333333333333334]),
        ],
    )
    def test_special_bonds(self, words, lj, coul):
        potential = pairs("lj/cut", special_bonds=tuple(words.split()))
        assert written(potential).special_bonds == {"lj": lj, "coul": coul}
        round_trip(potential, 2)

    def test_special_bonds_that_are_none(self):
        with pytest.raises(FormatError, match="special_bonds"):
            special_bonds(("lj", "0", "0"))

    def test_everything_beside_the_coefficients_comes_back(self):
        potential = pairs(
            "lj/cut/coul/long",
            "10.0",
            pair_modify=[("table", "0"), ("shift", "yes", "mix", "arithmetic")],
            kspace=("pppm", "1.0e-4"),
            kspace_modify=[("gewald", "0.3"), ("mesh", "8", "9", "10", "order", "5")],
            dielectric="1.5",
        )
        found = round_trip(potential, 1)
        params = found.style("pair", "coul/long/pme").params
        assert params["alpha"] == 0.3
        assert params["grid_z"] == 10
        assert params["order"] == 5
        assert found.style("pair", "lj/cut").params["shift"] == 1

    @pytest.mark.parametrize("units", ["lj", "real", "metal", "si", "cgs", "electron", "micro", "nano"])
    @DEFINITIONS
    def test_units(self, units, definitions):
        round_trip(replace(pairs("lj/cut"), units=units), definitions)

    def test_units_nobody_states_are_not_guessed(self):
        report = Report()
        found = force_field(replace(pairs("coul/cut", "9", "1 1 |"), units=None), report)
        assert found.units == {"angle": "radian"}
        assert "coulomb" not in found.style("pair", "coul/cut").params
        assert any("units" in text for text in report.warnings)
        assert potential_of(found).units is None


class TestFiles:
    def test_a_style_names_its_file_its_sum_and_an_element_a_type(self, tmp_path: Path):
        (tmp_path / "Cu.eam.alloy").write_text("made up\n")
        potential = pairs("eam/alloy", "", *(f"{p} | Cu.eam.alloy Cu NULL" for p in ("1 1", "1 2", "2 2")))
        found = written(potential, directory=tmp_path)
        style = found.style("pair", "eam/alloy")
        assert style.params == {
            "file": "Cu.eam.alloy",
            "file_sha256": hashlib.sha256(b"made up\n").hexdigest(),
        }
        assert found.table("pair", "eam/alloy")["element"].tolist() == ["Cu", "NULL"]
        assert_same(potential, potential_of(found))

    def test_a_file_a_row(self, tmp_path: Path):
        (tmp_path / "a.table").write_text("x")
        potential = pairs("table", "linear 1000", "1 1 | a.table AA 9.5", "1 2 | b.table AB", "2 2 | a.table BB")
        report = Report()
        found = force_field(potential, report, directory=tmp_path)
        found.check()
        table = found.table("pair", "table")
        assert table.columns["file_sha256"].validity.tolist() == [True, False, True]
        assert any("b.table" in text for text in report.warnings)
        assert_same(potential, potential_of(found))

    def test_maps(self, tmp_path: Path):
        grids = np.random.default_rng(3).normal(size=(3, 24, 24))
        (tmp_path / "charmm.cmap").write_text(cmap_text(grids))
        potential = replace(pairs("lj/cut"), cmap=["charmm.cmap"])
        for definitions in (1, 2):
            found = written(potential, definitions, directory=tmp_path)
            assert found.table("cmap", "charmm")["grid"].tobytes() == grids.tobytes()
            assert potential_of(found).cmap == ["charmm.cmap"]

    def test_several_files_of_maps_have_no_place(self, tmp_path: Path):
        with pytest.raises(UnsupportedError, match=r"a\.cmap, b\.cmap"):
            force_field(replace(pairs("lj/cut"), cmap=["a.cmap", "b.cmap"]), Report())

    @pytest.mark.parametrize("text", ["", "1 2 3", "1.0 " * 575 + "x"])
    def test_maps_that_are_none(self, tmp_path: Path, text: str):
        (tmp_path / "bad.cmap").write_text(text)
        with pytest.raises(FormatError, match=r"bad\.cmap"):
            read_cmap(tmp_path / "bad.cmap")


class TestOtherOrigins:
    def foreign(self, *tables: tuple[str, str, list[dict], dict], definitions: int = 1) -> ForceField:
        found = ForceField.new("ff", {"preset": "real", "angle": "degree" if definitions == 2 else "radian"})
        for category, style, table, params in tables:
            found.add(category, style, table_from_rows(category, table), params=params)
        found.check()
        return found

    def torsion(self, **values: float) -> dict:
        return {"name": "t", "itom": "", "jtom": "", "ktom": "", "ltom": "", **values}

    def test_a_polynomial_in_the_other_angle(self):
        found = self.foreign(("dihedral", "rb", [self.torsion(c0=1.0, c1=2.0, c2=3.0, c5=4.0)], {}))
        (row,) = potential_of(found).coefficients
        assert row.words == ("6", "1", "-2", "3", "-0", "0", "-4") or row.words[1:4] == ("1", "-2", "3")

    def test_a_cosine_without_number_and_terms_with_a_gap(self):
        found = self.foreign(("dihedral", "periodic", [self.torsion(k=1.5, periodicity=3.0, phase=np.pi)], {}))
        assert potential_of(found).coefficients[0].words == ("1", "1.5", "3", "180")
        gap = self.torsion(k1=1.0, periodicity1=1.0, phase1=0.0, k3=2.0, periodicity3=3.0)
        assert potential_of(self.foreign(("dihedral", "periodic", [gap], {}))).coefficients[0].words == (
            *("2", "1", "1", "0"),
            *("2", "3", "0"),
        )

    def test_an_improper_cosine_is_cvff_or_refused(self):
        ok = self.foreign(("improper", "periodic", [self.torsion(k=1.5, periodicity=2.0, phase=np.pi)], {}))
        assert potential_of(ok).coefficients[0].words == ("1.5", "-1", "2")
        bad = self.foreign(("improper", "periodic", [self.torsion(k=1.5, periodicity=2.0, phase=1.0)], {}))
        with pytest.raises(UnsupportedError, match=r"improper\.periodic"):
            potential_of(bad)

    def test_pairs_and_charges_are_one_style(self):
        table = [{"name": n, "itom": n, "jtom": n, "epsilon": 0.1, "sigma": 3.0} for n in "ab"]
        lj = ("pair", "lj/cut", table, {"cutoff": 10.0, "mixing": "arithmetic"})
        back = potential_of(self.foreign(lj, ("pair", "coul/cut", [], {"cutoff": 12.0, "dielectric": 2.0})))
        assert back.styles["pair"] == [PotentialStyle("lj/cut/coul/cut", ("10", "12"))]
        assert back.pair_modify == [("mix", "arithmetic")]
        assert back.dielectric == "2"
        report = Report()
        back = potential_of(self.foreign(lj, ("pair", "coul/long/pme", [], {"cutoff": 10.0})), report=report)
        assert back.styles["pair"] == [PotentialStyle("lj/cut/coul/long", ("10",))]
        assert back.kspace == ("pppm", "1e-05")
        assert [i.name for i in report.of(Fate.DERIVED)] == ["kspace_style"]

    def test_several_tables_are_an_overlay(self):
        ends = {"name": "a", "itom": "a", "jtom": "a"}
        back = potential_of(
            self.foreign(
                ("pair", "lj/cut", [{**ends, "epsilon": 0.1, "sigma": 3.0}], {"cutoff": 10.0}),
                ("pair", "buck", [{**ends, "a": 1.0, "rho": 0.3, "c": 2.0}], {"cutoff": 9.0}),
                ("pair", "coul/cut", [], {"cutoff": 9.0}),
            )
        )
        assert back.hybrid["pair"] == "hybrid/overlay"
        assert [style.name for style in back.styles["pair"]] == ["lj/cut", "buck", "coul/cut"]
        assert {(row.style, row.words) for row in back.coefficients} == {
            ("lj/cut", ("0.1", "3")),
            ("buck", ("1", "0.3", "2")),
            ("coul/cut", ()),
        }

    def test_a_null_of_a_cross_row_is_the_mix(self):
        table = [{"name": n, "itom": n, "jtom": n, "epsilon": e, "sigma": 3.0} for n, e in (("a", 0.1), ("b", 0.4))]
        table.append({"name": "x", "itom": "b", "jtom": "a", "sigma": 3.5})
        found = self.foreign(("pair", "lj/cut", table, {"cutoff": 10.0, "mixing": "arithmetic"}))
        words = {row.types: row.words for row in potential_of(found).coefficients}
        assert words[(1, 2)] == ("0.2", "3.5")

    def test_wildcards_and_classes_are_worked_out(self):
        atoms = [{"name": "a", "class": "C"}, {"name": "b", "class": "C"}, {"name": "h", "class": "H"}]
        table = [
            {"name": "cc", "itom": "C", "jtom": "C", "epsilon": 0.1, "sigma": 3.0},
            {"name": "any", "itom": "H", "jtom": "", "epsilon": 0.2, "sigma": 2.0},
        ]
        found = ForceField.new("ff", {"preset": "real"})
        found.add("atom", "full", table_from_rows("atom", atoms))
        found.add("pair", "lj/cut", table_from_rows("pair", table), params={"cutoff": 9.0}, endpoint_key="class")
        words = {row.types: row.words for row in potential_of(found, types={"atom": ["a", "b", "h"]}).coefficients}
        assert words == {
            **dict.fromkeys([(1, 1), (1, 2), (2, 2)], ("0.1", "3")),
            **dict.fromkeys([(1, 3), (2, 3), (3, 3)], ("0.2", "2")),
        }

    @pytest.mark.parametrize(("version", "unit", "value"), [(1, "degree", 109.5), (2, "radian", np.radians(109.5))])
    def test_angles_in_another_unit_than_usual(self, version, unit, value):
        units = {"angle": unit, "length": "angstrom", "energy": "kcal/mol"}
        found = ForceField.new("ff", units)
        found.molrec_version = version
        row = {"name": "a", "itom": "", "jtom": "", "ktom": "", "k": 100.0, "theta0": value}
        found.add("angle", "harmonic", table_from_rows("angle", [row]))
        if version == 1:
            with pytest.raises(UnsupportedError, match="per degree"):
                potential_of(found)
            return
        back = potential_of(found)
        assert back.units == "real"
        assert [float(word) for word in back.coefficients[0].words] == [100.0, pytest.approx(109.5, rel=1e-15)]

    def test_mie_exponents(self):
        ends = {"name": "a", "itom": "a", "jtom": "a"}
        params = {"cutoff": 10.0, "n": 9.0, "m": 6.0}
        back = potential_of(self.foreign(("pair", "lj/cut", [{**ends, "epsilon": 0.1, "sigma": 3.0}], params)))
        assert back.styles["pair"][0].name == "mie/cut"
        assert back.coefficients[0].words == ("0.1", "3", "9", "6")

    @pytest.mark.parametrize(
        ("category", "style", "params"),
        [
            ("pair14", "lj/cut", {}),
            ("constraint", "fixed", {}),
            ("drude", "harmonic", {}),
            ("improper", "trefoil", {}),
            ("bond", "invented", {}),
            ("pair", "invented", {}),
            ("pair", "lj/cut", {}),
        ],
    )
    def test_what_lammps_has_no_form_for_is_refused_by_name(self, category, style, params):
        found = ForceField.new("ff", {"preset": "real"})
        found.add(category, style, table_from_rows(category, []), params=params)
        with pytest.raises(UnsupportedError, match=style):
            potential_of(found)


class TestFaults:
    def test_a_row_with_too_many_numbers_names_its_line(self):
        potential = Potential(units="real", type_counts={"bond": 1})
        potential.styles["bond"] = [PotentialStyle("harmonic")]
        potential.coefficients = [Coefficient("bond", (1,), ("1", "2", "3"), where="in.lmp, line 7")]
        with pytest.raises(FormatError, match=r"in\.lmp, line 7.*K:E"):
            force_field(potential, Report())

    def test_a_phase_of_charmm_is_a_whole_number(self):
        potential = Potential(units="real", type_counts={"dihedral": 1})
        potential.styles["dihedral"] = [PotentialStyle("charmm")]
        potential.coefficients = rows("dihedral", "1 | 0.2 3 160.5 0.0")
        with pytest.raises(FormatError, match=r"160\.5"):
            force_field(potential, Report())

    def test_an_unknown_style_keeps_its_words(self):
        potential = Potential(units="real", type_counts={"bond": 2})
        potential.styles["bond"] = [PotentialStyle("made/up", ("1.50", "word"))]
        potential.coefficients = rows("bond", "1 | 1.5 3", "2 | 2.5 x 4")
        report = Report()
        found = force_field(potential, report)
        found.check()
        table = found.table("bond", "made/up")
        assert table["c1"].tolist() == [1.5, 2.5]
        assert table["c2"].tolist() == ["3", "x"]
        assert any("made/up" in item.name for item in report.of(Fate.CONVERTED))
        assert_same(potential, potential_of(found))

    def test_coefficients_whose_style_nothing_names(self):
        potential = Potential(units="real", type_counts={"bond": 1}, coefficients=rows("bond", "1 | 450 1.5"))
        report = Report()
        found = force_field(potential, report)
        found.check()
        assert any("style of the bond" in text for text in report.warnings)
        back = potential_of(found)
        assert not back.styles
        assert back.coefficients == potential.coefficients

    def test_a_bond_angle_term_has_the_angle_of_its_row(self):
        potential = Potential(units="real", type_counts={"angle": 1})
        potential.styles["angle"] = [PotentialStyle("class2")]
        potential.coefficients = rows("angle", "1 | 110.5 50 1 2") + rows("angle", "1 | 1 2 3 4", part="ba")
        found = written(potential)
        assert found.table("angle", "class2/ba")["theta0"].tolist() == [110.5]
        found.tables["angle.class2%2Fba"].columns["theta0"].values[0] = 100.0
        with pytest.raises(UnsupportedError, match="theta0"):
            potential_of(found)


class TestDefinitions:
    @pytest.mark.parametrize("style", ["harmonic", "charmm", "class2", "cosine/delta", "quartic"])
    def test_converting_a_record_is_writing_it_in_the_other_definitions(self, style):
        words = {"harmonic": "5 100.5", "charmm": "5 100.5 1 2", "cosine/delta": "5 100.5"}.get(style, "100.5 1 2 3")
        potential = Potential(units="real", type_counts={"angle": 1})
        potential.styles["angle"] = [PotentialStyle(style)]
        potential.coefficients = rows("angle", f"1 | {words}")
        one, two = written(potential), written(potential, 2)
        assert to_definitions(one, 2) == two
        assert to_definitions(two, 1) == one


def test_malformed_patterns_are_noticed():
    with pytest.raises(ValueError, match="malformed"):
        Pattern.parse("K:E ]")
