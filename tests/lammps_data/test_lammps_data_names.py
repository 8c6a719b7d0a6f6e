"""What LAMMPS readers share: units styles, elements of types, cells, atom styles."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molrec_convert.errors import UsageError
from molrec_convert.meaning import element_guessing as elements
from molrec_convert.report import Fate, Report
from molrec_lammps.common.atom_styles import ATOM_STYLES, PLAIN_STYLES, style_named, style_words
from molrec_lammps.common.text import names_column
from molrec_lammps.common.triclinic import (
    bounding_box,
    general_rotation,
    restricted_cell,
    restricted_vectors,
    undo_bounds,
)
from molrec_lammps.common.units import UNITS, check_units
from molrec_lammps.options import UNITS_STYLES

# --- units -----------------------------------------------------------------------------------------------------------


def test_every_units_style_has_its_preset_and_timestep():
    assert tuple(UNITS) == UNITS_STYLES
    assert {name: style.timestep for name, style in UNITS.items()} == {
        "lj": 0.005,
        "real": 1.0,
        "metal": 0.001,
        "si": 1e-8,
        "cgs": 1e-8,
        "electron": 0.001,
        "micro": 2.0,
        "nano": 0.00045,
    }
    assert check_units("metal").record == {"preset": "metal"}


def test_masses_of_units_styles_in_dalton():
    """Kilograms, grams, picograms and attograms by Avogadro's number of 2019."""
    masses = {"real": 1.0, "metal": 1.0, "si": 6.02214076e26, "cgs": 6.02214076e23, "electron": 1.0}
    masses |= {"micro": 6.02214076e11, "nano": 6.02214076e5}
    for name, value in masses.items():
        assert UNITS[name].mass == pytest.approx(value, rel=2e-9)  # a dalton is not quite a gram per mole
    assert UNITS["lj"].mass is None


def test_an_unknown_units_word_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"--units: 'SI' is no units style.*lj, real, metal"):
        check_units("SI")


# --- elements --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mass", "element"),
    [
        *[(1.008, "H"), (1.00794, "H"), (12.0, "C"), (12.011, "C"), (12.0107, "C"), (14.01, "N"), (14.0067, "N")],
        *[(15.9994, "O"), (16.0, "O"), (22.98977, "Na"), (23.0, "Na"), (35.453, "Cl"), (32.065, "S"), (63.55, "Cu")],
        *[(1.0, None), (3.024, None), (4.032, None), (14.027, None), (14.02, None), (15.035, None), (16.043, None)],
        *[(72.0, None), (45.0, None), (54.0, None), (58.80, None), (11.991, None), (13.019, None), (98.0, None)],
        *[(209.0, None), (0.000544617, None), (1e9, None)],
    ],
)
def test_a_mass_proposes_an_element_only_where_it_is_sure(mass, element):
    assert elements.element_of_mass(mass) == element


def test_labels_tell_elements_where_they_are_symbols_and_the_mass_agrees():
    report = Report()
    found = elements.elements_of_types(
        5, report, labels=["C", "HC", "H", "W", "O"], masses={1: 12.011, 2: 1.008, 3: 3.024, 4: 72.0}
    )
    assert found == ["C", None, None, None, "O"]
    assert any("label H is not taken" in warning for warning in report.warnings)
    assert any("label W is not taken" in warning for warning in report.warnings)
    assert [item.name for item in report.of(Fate.DERIVED)] == ["atoms/element"]


def test_masses_tell_nothing_unless_asked():
    masses = {1: 1.008, 2: 3.024, 3: 15.035}
    assert elements.elements_of_types(3, Report(), masses=masses) is None
    report = Report()
    assert elements.elements_of_types(3, report, masses=masses, guess=True) == ["H", None, None]
    assert "from its mass 1.008" in str(next(report.of(Fate.DERIVED)))
    assert "2 (mass 3.024), 3 (mass 15.035)" in report.warnings[0]


def test_masses_are_taken_in_the_units_of_the_file():
    kilogram = {1: 12.011 / UNITS["si"].mass}
    assert elements.elements_of_types(1, Report(), masses=kilogram, guess=True, mass_factor=UNITS["si"].mass) == ["C"]
    report = Report()
    assert elements.elements_of_types(1, report, masses={1: 1.008}, guess=True, mass_factor=UNITS["lj"].mass) is None
    assert "lj units" in report.warnings[0]


# --- cells -----------------------------------------------------------------------------------------------------------


def test_a_restricted_cell_has_its_vectors_as_columns():
    vectors, origin = restricted_cell([-1, -2, -3], [9, 18, 27], [1, 2, 3])
    assert vectors.tolist() == [[10, 1, 2], [0, 20, 3], [0, 0, 30]]
    assert origin.tolist() == [-1, -2, -3]


def test_many_cells_at_once_are_the_same_as_one_by_one():
    rng = np.random.default_rng(1)
    lo, hi, tilt = rng.normal(size=(3, 7, 3))
    many, origins = restricted_cell(lo, hi, tilt)
    low, high = undo_bounds(lo, hi, tilt)
    for k in range(7):
        one, origin = restricted_cell(lo[k], hi[k], tilt[k])
        assert np.array_equal(many[k], one)
        assert np.array_equal(origins[k], origin)
        assert np.array_equal(np.stack(undo_bounds(lo[k], hi[k], tilt[k])), np.stack([low[k], high[k]]))


def test_bounds_of_a_dump_are_undone():
    # The corners of the cell at z = 0 reach from min(0, xy, xz, xy + xz) to 10 + max(...).
    low, high = undo_bounds([-4.0, -3.0, 0.0], [12.0, 20.0, 30.0], [2.0, -4.0, -3.0])
    assert low.tolist() == [0.0, 0.0, 0.0]
    assert high.tolist() == [10.0, 20.0, 30.0]


@given(st.lists(st.integers(-50, 50), min_size=3, max_size=3))
def test_bounds_and_their_undoing_are_inverse(tilt):
    lo, hi = np.array([1.0, 2.0, 3.0]), np.array([41.0, 52.0, 63.0])
    low, high = undo_bounds(*bounding_box(lo, hi, tilt), tilt)
    assert low.tolist() == lo.tolist()
    assert high.tolist() == hi.tolist()
    vectors, origin = restricted_cell(lo, hi, tilt)
    corners = origin + np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, 8).T @ vectors.T
    box = bounding_box(lo, hi, tilt)
    assert np.array_equal(corners.min(axis=0), box[0])
    assert np.array_equal(corners.max(axis=0), box[1])


@given(st.lists(st.floats(-5, 5), min_size=9, max_size=9))
def test_the_rotation_of_a_general_cell_is_proper_and_brings_it_into_restricted_form(numbers):
    vectors = np.array(numbers).reshape(3, 3) + 12 * np.eye(3)
    if np.linalg.det(vectors) < 1:
        return
    rotation = general_rotation(vectors)
    assert np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1)
    restricted = restricted_vectors(vectors)
    assert np.allclose(restricted.T @ restricted, vectors.T @ vectors, atol=1e-9)
    assert np.array_equal(restricted, np.triu(restricted))
    assert (np.diag(restricted) > 0).all()


# --- atom styles -----------------------------------------------------------------------------------------------------


def test_the_table_of_atom_styles_is_the_reference_table(fixtures):
    with (fixtures / "lammps/atom_styles.tsv").open() as file:
        rows = {row["atom_style"]: row for row in csv.DictReader(file, delimiter="\t")}
    assert set(ATOM_STYLES) == set(rows)
    names = {"mol": "mol_id", "q": "charge", "espin": "spin"}
    for name, style in ATOM_STYLES.items():
        if name in ("hybrid", "tdpd"):
            continue
        columns = rows[name]["atoms_columns (as the code reads; + optional ix iy iz at the end)"].split()
        assert [column.name for column in style.columns] == [names.get(c, c) for c in columns], name
        velocities = [c.replace("w", "omega") if c[0] == "w" else c for c in rows[name]["velocities_columns"].split()]
        velocities = [f"angmom{c[1]}" if c in ("lx", "ly", "lz") else c for c in velocities]
        assert [column.name for column in style.velocities] == velocities, name


def test_the_plain_styles_are_read():
    assert [style.name for style in PLAIN_STYLES] == ["atomic", "charge", "bond", "angle", "molecular", "full"]


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        *[("full", "full"), ("full/kk", "full"), ("dielectric: id mol type", "dielectric"), ("", None), (None, None)],
        *[("id mol type q x y z", None), ("hybrid sphere dipole", "hybrid sphere dipole"), ("FULL", None)],
    ],
)
def test_a_comment_names_a_style_or_none(hint, words):
    assert style_words(hint) == words


def test_a_hybrid_has_the_columns_of_its_styles_in_order():
    style = style_named("hybrid full sphere dipole", "here")
    expected = "id type x y z mol_id charge diameter density mux muy muz"
    assert [column.name for column in style.columns] == expected.split()
    assert [column.name for column in style.velocities] == ["id", "vx", "vy", "vz", "omegax", "omegay", "omegaz"]
    assert "Bonds" in style.topology


def test_a_hybrid_has_what_styles_share_once():
    # LAMMPS keeps densities and masses in one place, diameters and the radii of kernels in another
    names = [column.name for column in style_named("hybrid sphere smd", "here").columns]
    assert names == ["id", "type", "x", "y", "z", "diameter", "density", "mol_id", "vfrac", "cradius", "x0", "y0", "z0"]
    style = style_named("hybrid bond ellipsoid oxdna", "here")
    assert [column.name for column in style.columns] == [
        "id",
        "type",
        "x",
        "y",
        "z",
        "mol_id",
        "ellipsoidflag",
        "density",
    ]
    assert style.bonus == {"Ellipsoids"}


def test_arguments_of_a_style_are_told_from_styles():
    style = style_named("hybrid sphere 1 tdpd 2 template mols charge", "here")
    names = [
        "id",
        "type",
        "x",
        "y",
        "z",
        "diameter",
        "density",
        "cc1",
        "cc2",
        "mol_id",
        "molindex",
        "molatom",
        "charge",
    ]
    assert [column.name for column in style.columns] == names
    assert style.name == "hybrid sphere 1 tdpd 2 template mols charge"
    assert style_named("body nparticle 2 6", "here").name == "body nparticle 2 6"
    assert [column.name for column in style_named("tdpd 1", "here").columns] == ["id", "type", "x", "y", "z", "cc1"]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("fulll", "'fulll' is no atom style"),
        ("", "is no atom style"),
        ("hybrid", "named with its styles"),
        ("hybrid foo full", "'foo' is no atom style that a hybrid combines"),
        ("hybrid hybrid", "'hybrid' is no atom style that a hybrid combines"),
        ("tdpd", "how many species"),
        ("hybrid tdpd sphere", "how many species"),
    ],
)
def test_a_style_that_does_not_tell_its_columns_is_refused(words, match):
    with pytest.raises(UsageError, match=f"--atom-style: .*{match}"):
        style_named(words, "--atom-style")


# --- names -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1), st.data())
def test_columns_of_names_hold_the_names(names, data):
    numbers = data.draw(st.lists(st.integers(0, len(names) - 1)))
    column = names_column(names, np.array(numbers, dtype=np.int64))
    assert isinstance(column.dtype, np.dtypes.StringDType)
    assert column.tolist() == [names[number] for number in numbers]
