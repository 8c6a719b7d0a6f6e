"""Data files that are wrong: one sentence with file, line, found and expected; LAMMPS refuses them as well."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lammps_data_oracle import INSTALLED, Lammps

from molrec_convert.errors import FormatError, MissingInputError, UnsupportedError, UsageError
from molrec_convert.text import rows
from molrec_lammps.data.file import parse_data
from molrec_lammps.data.potential import potential_of_data

HEADER = """title

4 atoms
2 atom types
2 bonds
1 bond types
1 angles
1 angle types
0 10 xlo xhi
0 10 ylo yhi
0 10 zlo zhi
"""
MASSES = """
Masses

1 1.0
2 2.0
"""
ATOMS = """
Atoms # full

1 1 1 0.0 1 1 1
2 1 2 0.0 2 2 2
3 1 1 0.0 3 3 3
4 1 1 0.0 4 4 4
"""
RELATIONS = """
Velocities

1 0.1 0 0
2 0.2 0 0
3 0.3 0 0
4 0.4 0 0

Bonds

1 1 1 2
2 1 2 3

Angles

1 1 1 2 3
"""
GOOD = HEADER + MASSES + ATOMS + RELATIONS


def edit(*changes):
    """The good file with each `(old, new)` replaced once."""
    text = GOOD
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


#: name → (text, place, found, expected, whether LAMMPS refuses it too)
FAULTS = {
    "fewer atoms than counted": (
        edit(("4 1 1 0.0 4 4 4\n", "")),
        "line 23",
        "a blank line",
        "a row of 7 columns",
        True,
    ),
    "more atoms than counted": (
        edit(("4 1 1 0.0 4 4 4\n", "4 1 1 0.0 4 4 4\n5 1 1 0 5 5 5\n")),
        "line 24",
        "'5 1 1 0 5 5 5'",
        "the name of a section after the 4 rows of Atoms that line 3 counts",
        True,
    ),
    "fewer velocities than atoms": (
        edit(("4 0.4 0 0\n", "")),
        "line 30",
        "a blank line",
        "row 4 of 4 of Velocities",
        False,
    ),
    "fewer bonds than counted": (edit(("2 1 2 3\n", "")), "line 35", "a blank line", "row 2 of 2 of Bonds", True),
    "more bonds than counted": (
        edit(("2 1 2 3\n", "2 1 2 3\n3 1 3 4\n")),
        "line 36",
        "'3 1 3 4'",
        "after the 2 rows of Bonds that line 5 counts",
        True,
    ),
    "fewer masses than types": (edit(("2 2.0\n", "")), "line 16", "a blank line", "row 2 of 2 of Masses", True),
    "an end in the middle of Atoms": (
        GOOD[: GOOD.index("4 1 1 0.0")],
        "line 23",
        "the end of the file after 3 rows",
        "4 rows of Atoms that line 3 counts",
        True,
    ),
    "an end in the middle of a row": (
        GOOD[: GOOD.index(" 3 3 3\n") + 4],
        "line 23",
        "the end of the file after 3 rows",
        "4 rows of Atoms",
        True,
    ),
    "an end in the last row": (GOOD.rstrip()[:-2], "line 39", "4 columns: '1 1 1 2'", "5 columns", True),
    "no Atoms": (
        HEADER + MASSES,
        "line 3",
        "4 atoms, and no section Atoms in the file",
        "a section Atoms",
        True,
    ),
    "no Bonds": (
        edit(("\nBonds\n\n1 1 1 2\n2 1 2 3\n", "")),
        "line 5",
        "2 bonds, and no section Bonds in the file",
        "a section Bonds",
        True,
    ),
    "Bonds without a count": (
        edit(("2 bonds\n", "")),
        "line 31",
        "a section Bonds",
        "a header line '... bonds' before it",
        True,
    ),
    "two blank lines after a heading": (
        edit(("Bonds\n\n", "Bonds\n\n\n")),
        "line 34",
        "a blank line",
        "row 1 of the 2 rows of Bonds that line 5 counts",
        True,
    ),
    "no line between heading and rows": (
        edit(("Bonds\n\n", "Bonds\n")),
        "line 35",
        "a blank line",
        "row 2 of 2 of Bonds",
        True,
    ),
    "a blank line in a section": (
        edit(("2 1 2 0.0", "\n2 1 2 0.0")),
        "line 21",
        "a blank line",
        "row 2 of the 4 rows of Atoms that line 3 counts",
        True,
    ),
    "a comment line in a section": (
        edit(("2 1 2 0.0", "# two\n2 1 2 0.0")),
        "line 21",
        "a comment line",
        "row 2 of the 4 rows of Atoms that line 3 counts",
        True,
    ),
    "an id twice": (
        edit(("3 1 1 0.0", "2 1 1 0.0")),
        "line 22",
        "a second atom with the id 2",
        "one, which line 21 has",
        True,
    ),
    "the id 0": (edit(("3 1 1 0.0", "0 1 1 0.0")), "line 22", "the atom id 0", "an id from 1 on", True),
    "a negative id": (edit(("3 1 1 0.0", "-3 1 1 0.0")), "line 22", "the atom id -3", "an id from 1 on", True),
    "a type beyond the count": (
        edit(("2 1 2 0.0", "2 1 3 0.0")),
        "line 21",
        "atom type 3 in Atoms",
        "a type from 1 to 2, the count of line 4",
        True,
    ),
    "the type 0": (edit(("2 1 2 0.0", "2 1 0 0.0")), "line 21", "atom type 0 in Atoms", "a type from 1 to 2", True),
    "a bond type beyond the count": (
        edit(("2 1 2 3", "2 2 2 3")),
        "line 35",
        "bond type 2 in Bonds",
        "a type from 1 to 1, the count of line 6",
        True,
    ),
    "a mass of a type beyond the count": (
        edit(("\n2 2.0\n", "\n3 2.0\n")),
        "line 16",
        "atom type 3 in Masses",
        "a type from 1 to 2",
        True,
    ),
    "a mass twice": (
        edit(("\n2 2.0\n", "\n1 2.0\n")),
        "line 16",
        "a second mass of atom type 1",
        "one, which line 15 has",
        False,
    ),
    "a mass of 0": (edit(("\n2 2.0\n", "\n2 0\n")), "line 16", "the mass 0.0", "one above zero", True),
    "an atom that is not there": (
        edit(("2 1 2 3", "2 1 2 7")),
        "line 35",
        "the atom 7 in Bonds",
        "the id of an atom in Atoms",
        True,
    ),
    "an atom that is not there, among ids with gaps": (
        GOOD.replace("4 1 1 0.0 4 4 4", "9 1 1 0.0 4 4 4").replace("4 0.4", "9 0.4").replace("2 1 2 3", "2 1 2 7"),
        "line 35",
        "the atom 7 in Bonds",
        "the id of an atom in Atoms",
        True,
    ),
    "an atom bound to itself": (
        edit(("2 1 2 3", "2 1 2 2")),
        "line 35",
        "the atom 2 twice in a row of Bonds",
        "different atoms",
        True,
    ),
    "an atom twice in an angle": (
        edit(("1 1 1 2 3\n", "1 1 1 2 1\n")),
        "line 39",
        "the atom 1 twice in a row of Angles",
        "different atoms",
        True,
    ),
    "a velocity of no atom": (
        edit(("3 0.3", "7 0.3")),
        "line 29",
        "the id 7 in Velocities",
        "the id of an atom",
        True,
    ),
    "a velocity twice": (
        edit(("3 0.3", "2 0.3")),
        "line 29",
        "a second row of Velocities for the atom 2",
        "one, which line 28 has",
        False,
    ),
    "a short row": (edit(("2 1 2 0.0 2 2 2", "2 1 2 0.0 2 2")), "line 21", "6 columns", "7 columns (id mol_id", True),
    "a long row": (edit(("2 1 2 0.0 2 2 2", "2 1 2 0.0 2 2 2 0")), "line 21", "8 columns", "7 columns", True),
    "image flags on one row": (
        edit(("2 1 2 0.0 2 2 2", "2 1 2 0.0 2 2 2 0 0 0")),
        "line 21",
        "10 columns",
        "7 columns",
        True,
    ),
    "image flags but on one row": (
        edit(("1 1 1 0.0 1 1 1", "1 1 1 0.0 1 1 1 0 0 0")),
        "line 21",
        "7 columns",
        "10 columns",
        True,
    ),
    "columns of another style": (
        edit(("Atoms # full", "Atoms # charge")),
        "line 20",
        "7 columns",
        "6 (id type charge x y z) or 9 (with image flags), as atom style charge has; --atom-style names another style",
        False,
    ),
    "nan": (edit(("2 2 2\n", "2 2 nan\n")), "line 21", "'nan'", "a finite number as 'z'", True),
    "inf": (edit(("2 2 2\n", "2 2 inf\n")), "line 21", "'inf'", "a finite number as 'z'", True),
    "overflow": (edit(("2 2 2\n", "2 2 1e999\n")), "line 21", "'1e999'", "a finite number as 'z'", True),
    "a Fortran exponent": (edit(("2 2 2\n", "2 2 2.0d0\n")), "line 21", "'2.0d0'", "a finite number as 'z'", True),
    "a hexadecimal number": (edit(("2 2 2\n", "2 2 0x2\n")), "line 21", "'0x2'", "a finite number as 'z'", True),
    "an id with a point": (edit(("2 1 2 0.0", "2.0 1 2 0.0")), "line 21", "'2.0'", "an integer as 'id'", True),
    "a comment glued to a number": (edit(("2 2 2\n", "2 2 2#c\n")), "line 21", "'2#c'", "a finite number", True),
    "an endpoint with a point": (edit(("2 1 2 3", "2 1 2 3.0")), "line 35", "'3.0'", "an integer as 'atomj'", True),
    "a label without labels": (
        edit(("2 1 2 0.0", "2 1 CT 0.0")),
        "line 21",
        "'CT'",
        "an integer (the file has no type labels) as 'type'",
        True,
    ),
    "Masses twice": (
        GOOD + MASSES,
        "line 41",
        "a second section Masses",
        "one, whose rows begin at line 15",
        False,
    ),
    "Atoms twice": (
        GOOD + ATOMS,
        "line 41",
        "a second section Atoms",
        "one, whose rows begin at line 20",
        True,
    ),
    "a section name in lower case": (edit(("\nBonds\n", "\nbonds\n")), "line 32", "'bonds'", "'Bonds'", True),
    "words after a section name": (edit(("\nBonds\n", "\nBonds 2\n")), "line 32", "'Bonds 2'", "the name of", True),
    "a header line after a section": (
        edit(("\nBonds\n", "\n2 bonds\n\nBonds\n")),
        "line 32",
        "'2 bonds'",
        "the name of a section after the 4 rows of Velocities that line 3 counts",
        True,
    ),
    "a count with a point": (edit(("4 atoms", "4.0 atoms")), "line 3", "'4.0 atoms'", "a whole number", True),
    "a negative count": (edit(("2 bonds", "-2 bonds")), "line 5", "'-2 bonds'", "a whole number before 'bonds'", True),
    "a count in capitals": (edit(("4 atoms", "4 Atoms")), "line 3", "'4 Atoms'", "a header line such as", True),
    "two counts": (
        edit(("4 atoms", "4 atoms\n5 atoms")),
        "line 4",
        "'5 atoms'",
        "one value of 'atoms', which line 3 has",
        True,
    ),
    "a bound alone": (edit(("0 10 xlo", "0 xlo")), "line 9", "'0 xlo xhi'", "2 numbers before 'xlo xhi'", True),
    "a bound that is no number": (
        edit(("0 10 xlo", "0 1d1 xlo")),
        "line 9",
        "'0 1d1 xlo xhi'",
        "2 numbers before 'xlo xhi'",
        True,
    ),
    "bounds the wrong way round": (
        edit(("0 10 zlo", "10 0 zlo")),
        "line 11",
        "10.0 0.0 zlo zhi",
        "low below high",
        True,
    ),
    "a cell of no height": (edit(("0 10 zlo", "1 1 zlo")), "line 11", "1.0 1.0 zlo zhi", "low below high", True),
    "a left-handed cell": (
        edit(
            ("0 10 xlo xhi\n0 10 ylo yhi\n0 10 zlo zhi\n", "10 0 0 avec\n0 0 10 bvec\n0 10 0 cvec\n"),
        ),
        "line 9",
        "a cell of no volume or left-handed",
        "right-handed vectors",
        True,
    ),
    "two vectors": (
        edit(("0 10 xlo xhi\n0 10 ylo yhi\n0 10 zlo zhi\n", "10 0 0 avec\n0 10 0 bvec\n")),
        "line 9",
        "no 'cvec'",
        "all of avec, bvec and cvec",
        False,
    ),
    "vectors beside bounds": (
        edit(("0 10 zlo zhi\n", "10 0 0 avec\n0 10 0 bvec\n0 0 10 cvec\n")),
        "line 11",
        "'avec' beside 'xlo xhi'",
        "a cell given by vectors or by bounds, not by both",
        True,
    ),
    "a label of a type that is not there": (
        edit((MASSES, "\nAtom Type Labels\n\n1 C\n3 H\n" + MASSES)),
        "line 16",
        "'3 H'",
        "a type from 1 to 2 and its label",
        True,
    ),
    "a label twice": (
        edit((MASSES, "\nAtom Type Labels\n\n1 C\n2 C\n" + MASSES)),
        "line 16",
        "'2 C'",
        "each type and each label once in Atom Type Labels",
        True,
    ),
    "a label that begins with a digit": (
        edit((MASSES, "\nAtom Type Labels\n\n1 C\n2 3H\n" + MASSES)),
        "line 16",
        "the label '3H'",
        "one that begins with no digit",
        True,
    ),
    "a label that no type has": (
        edit((MASSES, "\nAtom Type Labels\n\n1 C\n2 H\n" + MASSES), ("2 1 2 0.0", "2 1 N 0.0")),
        "line 26",
        "'N'",
        "an integer or one of the file's type labels as 'type'",
        True,
    ),
    "labels behind masses": (
        edit((MASSES, MASSES + "\nAtom Type Labels\n\n1 C\n2 H\n")),
        "line 18",
        "Atom Type Labels after Masses",
        "labels before every section that has types",
        True,
    ),
    "labels behind atoms": (
        edit((ATOMS, ATOMS + "\nAtom Type Labels\n\n1 C\n2 H\n"), (MASSES, "")),
        "line 20",
        "Atom Type Labels after Atoms",
        "labels before every section that has types",
        True,
    ),
    "bond labels behind bonds": (
        edit((MASSES, ""), ("\nAngles\n", "\nBond Type Labels\n\n1 b\n\nAngles\n")),
        "line 32",
        "Bond Type Labels after Bonds",
        "labels before every section that has types",
        True,
    ),
    "bond labels behind bond coefficients": (
        edit((MASSES, "\nBond Coeffs\n\n1 1 1\n\nBond Type Labels\n\n1 b\n")),
        "line 17",
        "Bond Type Labels after Bond Coeffs",
        "labels before every section that has types",
        True,
    ),
    "velocities before atoms": (
        HEADER + MASSES + RELATIONS[: RELATIONS.index("\nBonds")] + ATOMS + RELATIONS[RELATIONS.index("\nBonds") :],
        "line 18",
        "Velocities before Atoms",
        "Atoms before Velocities",
        True,
    ),
    "bonds before atoms": (
        HEADER + "\nBonds\n\n1 1 1 2\n2 1 2 3\n" + ATOMS + "\nAngles\n\n1 1 1 2 3\n",
        "line 13",
        "Bonds before Atoms",
        "Atoms before Bonds",
        True,
    ),
    "a section of no bonds": (
        edit(("2 bonds", "0 bonds"), ("1 1 1 2\n2 1 2 3\n", "")),
        "line 32",
        "a section Bonds",
        "none: line 5 counts no bonds",
        True,
    ),
    "a misspelt section": (
        edit(("\nAngles\n", "\nAngels\n")),
        "line 37",
        "a section 'Angels'",
        "'Angles'",
        True,
    ),
    "Urey-Bradley terms first": (
        edit((MASSES, "\nUreyBradley Coeffs\n\n1 1.0 1.0\n" + MASSES)),
        "line 13",
        "UreyBradley Coeffs as the first section",
        "another section before it",
        True,
    ),
    "an ellipsoid of an atom that has none": (
        edit(("4 atoms", "4 atoms\n1 ellipsoids"), ("\nBonds", "\nEllipsoids\n\n1 1 1 1 1 0 0 0\n\nBonds")),
        "line 4",
        "1 ellipsoids",
        "none: atoms of style full have no section Ellipsoids; --atom-style names another style",
        True,
    ),
    "fewer coefficients than types": (
        edit((MASSES, "\nPair Coeffs # lj/cut\n\n1 1.0 1.0\n" + MASSES)),
        "line 16",
        "a blank line",
        "a type number and coefficients, row 2 of 2 of Pair Coeffs",
        True,
    ),
}
NO_DATA_FILES = {
    "nothing": "",
    "one line": "title\n",
    "prose": "Dear reader,\nthis is a letter.\n",
    "numbers": "1 2 3\n4 5 6\n",
    "a PDB file": "HEADER    PROTEIN\nATOM      1  N   ALA A   1      11.104  13.207   2.100  1.00 20.00\nEND\n",
    "an XYZ file": "2\nwater\nH 0 0 0\nO 0 0 1\n",
    "a dump": "ITEM: TIMESTEP\n0\nITEM: NUMBER OF ATOMS\n1\n",
    "an input script": "units real\natom_style full\nread_data x.data\n",
    "bytes": "\x00\x01\x02\n\x7f\x00\n",
}


def refusal(tmp_path, text, **options):
    path = tmp_path / "bad.data"
    path.write_text(text)
    with pytest.raises((FormatError, UsageError, UnsupportedError)) as caught:
        potential_of_data(parse_data(path, **options))
    return caught.value, str(path)


def test_the_good_file_is_good(tmp_path):
    path = tmp_path / "good.data"
    path.write_text(GOOD)
    data = parse_data(path)
    assert data.atoms["id"].tolist() == [1, 2, 3, 4]
    assert {name: table.rows for name, table in data.relations.items()} == {"Bonds": 2, "Angles": 1}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_refused_with_its_line(tmp_path, name):
    text, place, found, expected, _ = FAULTS[name]
    error, path = refusal(tmp_path, text)
    assert isinstance(error, FormatError)
    assert (error.path, error.where) == (path, place)
    assert found in error.found
    sentence = str(error)
    assert sentence.startswith(f"{path}, {place}: found {error.found}, expected ")
    assert expected in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("name", NO_DATA_FILES)
def test_what_is_no_data_file_is_refused(tmp_path, name):
    error, path = refusal(tmp_path, NO_DATA_FILES[name])
    assert isinstance(error, FormatError)
    assert str(error).startswith(path)
    assert "\n" not in str(error)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MissingInputError, match=re.escape(str(tmp_path / "none.data"))):
        parse_data(tmp_path / "none.data")
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        parse_data(tmp_path)


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (
            ("1 1 2 1.5 2.5 3.5", "2 1 1 4.5 5.5 6.5"),
            "each of charge, bond, angle, molecular fits its rows of 6 columns",
        ),
        (("1 1 2 5", "2 1 1 4"), "none of atomic, charge, bond, angle, molecular, full has 4 columns"),
        (("1 5.5 2.5 1 2 3", "2 1.5 1 4 5 6"), "none of charge, bond, angle, molecular fits its rows of 6 columns"),
    ],
)
def test_a_style_that_cannot_be_told_is_asked_for(tmp_path, rows, match):
    text = "t\n\n2 atoms\n2 atom types\n\nAtoms\n\n" + "\n".join(rows) + "\n"
    error, _ = refusal(tmp_path, text)
    assert isinstance(error, UsageError)
    assert re.search(match, str(error))
    assert "--atom-style" in str(error)


def test_a_file_of_spheres_is_not_taken_for_one_of_charges(fixtures, tmp_path):
    """Ten columns are those of full with image flags, or of sphere: a diameter is no type, a density no charge."""
    path = fixtures / "faults/sphere.data"
    error, _ = refusal(tmp_path, path.read_text())
    assert isinstance(error, UsageError)
    assert "each of full, sphere, peri fits its rows of 10 columns" in str(error)
    assert "--atom-style sphere" in str(error)
    spheres = parse_data(path, atom_style="sphere")
    assert spheres.atoms["diameter"].tolist() == [1.0, 1.0]
    assert spheres.atoms["density"].tolist() == [2.5, 2.5]


@pytest.mark.parametrize(
    ("charges", "style"),
    [(("2.5", "-2.5"), "full"), (("0", "0"), "full"), (("2.5", "2.5"), None)],
)
def test_no_density_is_zero_or_below(fixtures, tmp_path, charges, style):
    rows = (fixtures / "faults/sphere.data").read_text().replace("1 1 2.5 1.0", f"1 1 {charges[0]} 1.0")
    (tmp_path / "a.data").write_text(rows.replace("1 1 2.5 4.0", f"1 1 {charges[1]} 4.0"))
    if style is None:
        with pytest.raises(UsageError, match="--atom-style sphere"):
            parse_data(tmp_path / "a.data")
    else:
        assert parse_data(tmp_path / "a.data").style.name == style


@pytest.mark.parametrize(
    ("velocities", "told"),
    [
        ("1 0 0 0 1 1 1\n2 0 0 0 1 1 1", "none of .* has 10 columns and 7 columns of Velocities; --atom-style sphere"),
        ("1 0 0 0\n2 0 0 0", "each of full, peri fits"),
    ],
)
def test_velocities_give_the_style_away(fixtures, tmp_path, velocities, told):
    text = (fixtures / "faults/sphere.data").read_text() + f"\nVelocities\n\n{velocities}\n"
    error, _ = refusal(tmp_path, text)
    assert isinstance(error, UsageError)
    assert re.search(told, str(error))


def test_a_hybrid_is_asked_for_its_styles(tmp_path):
    error, path = refusal(tmp_path, "t\n\n1 atoms\n1 atom types\n\nAtoms # hybrid\n\n1 1 0 0 0 1\n")
    assert isinstance(error, UsageError)
    assert str(error).startswith(f"{path}, line 6: ")
    assert "--atom-style 'hybrid A B'" in str(error)


def test_a_wrong_atom_style_is_a_usage_error_before_the_file_is_read(tmp_path):
    error, _ = refusal(tmp_path, "", atom_style="fulll")
    assert isinstance(error, UsageError)
    assert "'fulll' is no atom style" in str(error)


def test_a_guessed_style_is_named_where_a_row_does_not_fit(tmp_path):
    error, _ = refusal(tmp_path, "t\n\n1 atoms\n1 atom types\n\nAtoms\n\n1 1 1 0.5 0 0 0.0 0\n")
    assert "found '0.0', expected an integer as 'iy'" in str(error)
    assert "the file does not name its atom style, atomic is found by the 8 columns of Atoms" in str(error)


def outcome(path, kernel):
    """What the kernel or its twin gives, or the text of its refusal."""
    with pytest.MonkeyPatch.context() as patch:
        if not kernel:
            patch.setattr(rows, "library", lambda: None)
        try:
            data = parse_data(path)
        except (FormatError, UsageError, UnsupportedError) as error:
            return str(error)
    tables = {"Atoms": data.atoms, "Velocities": data.velocities, "Masses": data.masses, **data.relations}
    return {
        (name, column): values.tobytes()
        for name, table in tables.items()
        if table is not None
        for column, values in table.columns.items()
    }


edits = st.tuples(
    st.sampled_from(["cut", "insert", "replace", "double", "drop"]),
    st.integers(0, len(GOOD) - 1),
    st.sampled_from(
        ["\n", " ", "#", "-", "0", "9", ".", "e", "x", "\t", "\r", "\v", "\0", "C", "é", "Atoms", "1 ", "nan"]
    ),
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(edits, min_size=1, max_size=3))
def test_a_damaged_file_is_read_alike_or_refused_in_the_same_words(tmp_path, changes):
    text = GOOD
    for kind, place, word in changes:
        lines = text.splitlines(keepends=True) or [""]
        row = place % len(lines)
        if kind == "cut":
            text = text[:place]
        elif kind == "insert":
            text = text[:place] + word + text[place:]
        elif kind == "replace":
            text = text[:place] + word + text[place + 1 :]
        elif kind == "double":
            text = "".join([*lines[:row], lines[row], *lines[row:]])
        else:
            text = "".join(lines[:row] + lines[row + 1 :])
    path = tmp_path / "damaged.data"
    path.write_bytes(text.encode())
    assert outcome(path, kernel=True) == outcome(path, kernel=False)


def test_an_empty_section_of_no_atoms_is_no_fault(tmp_path):
    path = tmp_path / "none.data"
    path.write_text("title\n\n0 atoms\n0 bonds\n\nAtoms\n\nVelocities\n\n")
    data = parse_data(path)
    assert data.atoms is None
    assert data.velocities is None


@pytest.fixture(scope="module")
def ask_lammps(tmp_path_factory):
    with Lammps(tmp_path_factory.mktemp("lammps")) as lammps:
        yield lammps


@pytest.mark.lammps
@pytest.mark.skipif(not INSTALLED, reason="LAMMPS is not installed")
def test_lammps_refuses_what_is_refused_here(tmp_path, ask_lammps):
    path = tmp_path / "file.data"
    path.write_text(GOOD)
    assert not isinstance(ask_lammps(path, "full"), str)
    verdicts = {}
    for name, (text, *_, refused) in FAULTS.items():
        path.write_text(text)
        verdicts[name] = (isinstance(ask_lammps(path, "full"), str), refused)
    assert {name: pair for name, pair in verdicts.items() if pair[0] != pair[1]} == {}
