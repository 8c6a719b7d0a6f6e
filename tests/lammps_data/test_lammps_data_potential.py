"""Coefficients of data files: rows by section, styles by comments, hybrids; refused where LAMMPS refuses them."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lammps_data_oracle import INSTALLED, Lammps

from molrec_convert.errors import FormatError
from molrec_convert.formats import ReadContext
from molrec_convert.report import Fate
from molrec_lammps.data.file import parse_data
from molrec_lammps.data.potential import potential_of_data
from molrec_lammps.data.record import read_data
from molrec_lammps.options import DataOptions
from molrec_lammps.potential.potential import Coefficient
from molrec_lammps.potential.record import potential_of

HEAD = """title

4 atoms
2 atom types
2 bonds
2 bond types
1 angles
2 angle types
1 dihedrals
2 dihedral types
1 impropers
1 improper types
0 10 xlo xhi
0 10 ylo yhi
0 10 zlo zhi
"""
BODY = """
Masses

1 12.0110 # C
2 1.00800

Atoms # full

1 1 1 0.0 1 1 1
2 1 2 0.0 2 1 2
3 1 1 0.0 3 2 3
4 1 1 0.0 4 4 3

Bonds

1 1 1 2
2 2 2 3

Angles

1 2 1 2 3

Dihedrals

1 1 1 2 3 4

Impropers

1 1 1 2 3 4
"""


def data_file(sections, head=HEAD):
    return head + "".join(f"\n{name}\n\n{rows}\n" for name, rows in sections.items()) + BODY


@pytest.fixture
def potential(tmp_path):
    def stated(sections, head=HEAD):
        path = tmp_path / "text.data"
        path.write_text(data_file(sections, head))
        return potential_of_data(parse_data(path))

    return stated


@pytest.fixture
def read(tmp_path):
    def reader(sections):
        path = tmp_path / "text.data"
        path.write_text(data_file(sections))
        context = ReadContext(options=DataOptions())
        return read_data([path], context), context.report

    return reader


def rows(found):
    return [(c.category, c.types, c.words, c.style, c.index, c.part) for c in found.coefficients]


def styles(found):
    return {category: [(s.name, s.index, s.stated) for s in entries] for category, entries in found.styles.items()}


def test_words_stay_as_they_stand(potential, tmp_path):
    found = potential(
        {"Pair Coeffs # lj/cut/coul/long/omp": "2 1e-1 +3.50 10. # H\n1\t0.10 3#x", "Bond Coeffs": "+2 1 1\n1 2 2"}
    )
    assert found.coefficients[0] == Coefficient(
        "pair", (2, 2), ("1e-1", "+3.50", "10."), where=f"{tmp_path / 'text.data'}, line 19", comment="H"
    )
    assert (found.coefficients[1].words, found.coefficients[1].comment) == (("0.10", "3"), "x")
    assert rows(found)[2:] == [("bond", (2,), ("1", "1"), "", 0, ""), ("bond", (1,), ("2", "2"), "", 0, "")]
    assert styles(found) == {"pair": [("lj/cut/coul/long", 0, False)]}
    assert found.masses == {1: "12.0110", 2: "1.00800"}
    assert found.type_counts == {"atom": 2, "bond": 2, "angle": 2, "dihedral": 2, "improper": 1}
    assert found.units is None


def test_units_and_labels_come_along(potential):
    head = HEAD.replace("title", "LAMMPS data file, timestep = 0, units = metal")
    found = potential({"Bond Type Labels": "2 C-H\n1 C-C", "Bond Coeffs # harmonic": "1 1 1\n2 2 2"}, head)
    assert found.units == "metal"
    assert found.labels == {"bond": ["C-C", "C-H"]}


def test_every_pair_has_a_row_and_the_later_one_counts(potential):
    found = potential({"Pair Coeffs # lj/cut": "1 1 1\n2 2 2", "PairIJ Coeffs # lj/cut": "1 1 3 3\n1 2 4 4\n2 2 5 5"})
    assert [(c.types, c.words) for c in found.final()] == [
        ((1, 1), ("3", "3")),
        ((1, 2), ("4", "4")),
        ((2, 2), ("5", "5")),
    ]


CROSS = {
    "Angle Coeffs": ("1 100 1 2 3\n2 101 1 2 3", "angle", ""),
    "BondBond Coeffs": ("1 1 2 3\n2 1 2 3", "angle", "bb"),
    "BondAngle Coeffs": ("1 1 2 3 4\n2 1 2 3 4", "angle", "ba"),
    "Dihedral Coeffs": ("1 1 0 2 0 3 0\n2 1 0 2 0 3 0", "dihedral", ""),
    "MiddleBondTorsion Coeffs": ("1 1 2 3 4\n2 1 2 3 4", "dihedral", "mbt"),
    "EndBondTorsion Coeffs": ("1 1 2 3 4 5 6 7 8\n2 1 2 3 4 5 6 7 8", "dihedral", "ebt"),
    "AngleTorsion Coeffs": ("1 1 2 3 4 5 6 7 8\n2 1 2 3 4 5 6 7 8", "dihedral", "at"),
    "AngleAngleTorsion Coeffs": ("1 1 2 3\n2 1 2 3", "dihedral", "aat"),
    "BondBond13 Coeffs": ("1 1 2 3\n2 1 2 3", "dihedral", "bb13"),
    "Improper Coeffs": ("1 1 2", "improper", ""),
    "AngleAngle Coeffs": ("1 1 2 3 4 5 6", "improper", "aa"),
}


def test_cross_terms_have_their_word_and_tell_the_style(potential):
    found = potential({name: text for name, (text, _, _) in CROSS.items()})
    expected = [
        (category, (int(line.split()[0]),), tuple(line.split()[1:]), "", 0, part)
        for text, category, part in CROSS.values()
        for line in text.split("\n")
    ]
    assert sorted(rows(found)) == sorted(expected)
    assert styles(found) == {name: [("class2", 0, False)] for name in ("angle", "dihedral", "improper")}


def test_urey_bradley_terms_are_of_amoeba(potential):
    found = potential(
        {
            "Angle Coeffs": "1 1 2\n2 1 2",
            "BondAngle Coeffs": "1 1 2 3 4\n2 0 0 0 0",
            "UreyBradley Coeffs": "1 1 2\n2 0 0",
        }
    )
    assert styles(found) == {"angle": [("amoeba", 0, False)]}
    assert {row[5] for row in rows(found)} == {"", "ba", "ub"}


def test_bond_angles_alone_do_not_tell_the_style(potential):
    found = potential({"Angle Coeffs": "1 1 2\n2 1 2", "BondAngle Coeffs": "1 1 2 3 4\n2 0 0 0 0"})
    assert styles(found) == {}


@pytest.mark.parametrize("hint", [" # hybrid", ""])
def test_rows_of_hybrids_name_their_style(potential, hint):
    sections = {
        f"Bond Coeffs{hint}": "1 harmonic 80.0 1.2\n2 morse 1 2 3",
        f"Angle Coeffs{hint}": "1 harmonic 80.0 1.2\n2 class2 100 1 2 3",
        "BondBond Coeffs": "1 skip\n2 class2 1 2 3",
        "BondAngle Coeffs": "1 skip\n2 class2 1 2 3 4",
        f"Pair Coeffs{hint}": "1 lj/cut/omp 0.1 3.0\n2 none",
    }
    found = potential(sections)
    assert found.hybrid == dict.fromkeys(("pair", "bond", "angle"), "hybrid")
    assert styles(found) == {
        "pair": [("lj/cut", 0, False)],
        "bond": [("harmonic", 0, False), ("morse", 0, False)],
        "angle": [("harmonic", 0, False), ("class2", 0, False)],
    }
    assert ("angle", (2,), ("1", "2", "3"), "class2", 0, "bb") in rows(found)
    assert not any("skip" in words for _, _, words, *_ in rows(found))


def test_a_style_a_hybrid_has_twice_is_numbered(potential):
    sections = {"PairIJ Coeffs # hybrid": "1 1 lj/cut 1 0.1 3.0\n1 2 lj/cut 2 0.2 3.5 9.0\n2 2 coul/cut"}
    assert [row[2:5] for row in rows(potential(sections))] == [
        (("0.1", "3.0"), "lj/cut", 1),
        (("0.2", "3.5", "9.0"), "lj/cut", 2),
        ((), "coul/cut", 0),
    ]


def test_a_whole_number_is_a_coefficient_where_it_can_be_one(potential):
    found = potential({"Pair Coeffs # hybrid/overlay": "1 lj/cut 1 1 2.5\n2 lj/cut 2 1"})
    assert [row[2:5] for row in rows(found)] == [(("1", "1", "2.5"), "lj/cut", 0), (("2", "1"), "lj/cut", 0)]
    assert found.hybrid == {"pair": "hybrid/overlay"}


def test_a_comment_that_names_no_style_does_not_pass_for_one(read):
    record, report = read({"Bond Coeffs # charmm36": "1 1 1\n2 2 2"})
    assert "bond" not in potential_of(record.forcefield).styles
    assert record.system.meta["lammps"]["section_comments"] == {"Bond Coeffs": "charmm36"}
    assert any("line 17: Bond Coeffs # charmm36 does not name a bond style" in warning for warning in report.warnings)


def test_coefficients_without_a_style_come_back_as_they_were(read):
    record, report = read({"Pair Coeffs": "1 0.1 3.5\n2 0.2 1e-3 7 # x", "Dihedral Coeffs": "1 a.txt key\n2 b.txt 5"})
    assert not report.lossy
    found = {(c.category, c.types): c.words for c in potential_of(record.forcefield).final()}
    assert [float(word) for word in found["pair", (2, 2)]] == [0.2, 1e-3, 7]
    assert found["dihedral", (1,)] == ("a.txt", "key")
    assert any("pair" in item.name and item.fate is Fate.CONVERTED for item in report.items)


def test_relations_of_a_hybrid_carry_their_style(read):
    record, _ = read(
        {"Bond Coeffs # hybrid": "1 harmonic 80.0 1.2\n2 morse 1 2 3", "Angle Coeffs # harmonic": "1 1 1\n2 2 90"}
    )
    assert record.system["bonds"]["style"].tolist() == ["harmonic", "morse"]
    assert record.system["bonds"]["type"].tolist() == ["1", "2"]
    assert "style" not in record.system["angles"]
    assert record.forcefield.tables["bond.morse"]["name"].tolist() == ["2"]


def test_a_file_without_coefficients_has_no_force_field(read):
    assert read({})[0].forcefield is None


# --- faults ----------------------------------------------------------------------------------------------------------

#: name → (section, rows, place, found, expected, commands before)
FAULTS = {
    "a label in place of a type": ("Bond Coeffs", "C-C 1 1\n2 1 1", 19, "'C-C 1 1'", "a type number and coefficients"),
    "a range of types": ("Bond Coeffs", "1*2 1 1\n2 1 1", 19, "'1*2 1 1'", "a type number and coefficients"),
    "a type beyond the count": ("Bond Coeffs", "1 1 1\n3 1 1", 20, "type 3 in Bond Coeffs", "a type from 1 to 2"),
    "the type 0": ("Pair Coeffs", "0 1 1\n2 1 1", 19, "type 0 in Pair Coeffs", "a type from 1 to 2"),
    "a pair the wrong way round": (
        *("PairIJ Coeffs", "1 1 1 1\n2 1 1 1\n2 2 1 1", 20),
        *("types 2 1 in PairIJ Coeffs", "two types, the lower first, from 1 to 2"),
    ),
    "a blank line": ("Bond Coeffs", "1 1 1\n", 20, "a blank line", "row 2 of 2 of Bond Coeffs"),
    "a comment line": ("Bond Coeffs", "1 1 1\n# 2 1 1", 20, "a comment line", "row 2 of 2 of Bond Coeffs"),
    "a hybrid without a style": (
        *("Bond Coeffs # hybrid", "1 harmonic 1 1\n2 1 1", 20),
        *("'1 1'", "the bond style before the coefficients, as Bond Coeffs of a hybrid have it"),
    ),
    "a hybrid's cross term without a style": (
        *("BondBond Coeffs", "1 skip\n2 1 2 3", 25),
        *("'1 2 3'", "the angle style before the coefficients"),
    ),
}


def faulty(name):
    section, text, *_ = FAULTS[name]
    sections = {section: text}
    if section == "BondBond Coeffs":
        sections = {"Angle Coeffs # hybrid": "1 harmonic 1 1\n2 class2 100 1 2 3", **sections}
    return sections


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_refused_with_its_line(potential, name):
    _, _, line, found, expected = FAULTS[name]
    with pytest.raises(FormatError) as caught:
        potential(faulty(name))
    assert caught.value.where == f"line {line}"
    assert found in caught.value.found
    assert expected in caught.value.expected


@pytest.fixture(scope="module")
def ask_lammps(tmp_path_factory):
    with Lammps(tmp_path_factory.mktemp("lammps")) as lammps:
        yield lammps


@pytest.mark.lammps
@pytest.mark.skipif(not INSTALLED, reason="LAMMPS is not installed")
def test_lammps_refuses_the_coefficients_that_are_refused_here(tmp_path, ask_lammps):
    path = Path(tmp_path / "file.data")
    styles = ["pair_style lj/cut 3", "dihedral_style zero", "improper_style zero"]
    hybrids = ["bond_style hybrid harmonic morse", "angle_style hybrid harmonic class2"]
    plain = ["bond_style harmonic", "angle_style harmonic"]
    path.write_text(data_file({"Bond Coeffs": "1 1 1\n2 1 1"}))
    assert not isinstance(ask_lammps(path, "full", "", before=[*styles, *plain]), str)
    accepted = []
    for name in FAULTS:
        path.write_text(data_file(faulty(name)))
        before = [*styles, *(hybrids if "hybrid" in name else plain)]
        if not isinstance(ask_lammps(path, "full", "", before=before), str):
            accepted.append(name)
    assert accepted == []


# --- any numbers -----------------------------------------------------------------------------------------------------

WORDS = {"lj/cut": ("pair", 2), "harmonic": ("bond", 2), "morse": ("bond", 3), "charmm": ("angle", 4)}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_numbers_of_fifteen_digits_come_back(read, data):
    number = st.integers(1, 10**15 - 1).flatmap(lambda digits: st.integers(-8, 8).map(lambda e: f"{digits}e{e - 14}"))
    sections = {}
    for style, (category, width) in data.draw(st.permutations(sorted(WORDS.items()))):
        sections[f"{category.capitalize()} Coeffs # {style}"] = "\n".join(
            " ".join([str(n), *(data.draw(number) for _ in range(width))]) for n in data.draw(st.permutations([1, 2]))
        )
    chosen = {name.split()[0]: (name, text) for name, text in sections.items()}
    record, _ = read(dict(chosen.values()))
    found = {
        (c.category, c.types[0]): [float(word) for word in c.words] for c in potential_of(record.forcefield).final()
    }
    for category, (_, text) in chosen.items():
        for line in text.split("\n"):
            words = line.split()
            assert found[category.lower(), int(words[0])] == [float(word) for word in words[1:]]
