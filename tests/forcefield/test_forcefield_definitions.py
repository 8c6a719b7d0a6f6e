"""Definitions 1 and 2: exact there and back for every registered style, refusals for what has no exact form."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from forcefields import nullable, single
from hypothesis import example, given
from hypothesis import strategies as st
from layout_examples.peroxide import peroxide, relation

from molrec_convert.errors import ContractError, UnsupportedError, UsageError
from molrec_convert.model import Block, Column, Frame
from molrec_convert.model.forcefield.categories import (
    ENDPOINT_COLUMNS,
    category,
    converted_angles,
    to_degrees,
    to_radians,
)
from molrec_convert.model.forcefield.definitions import system_to_definitions, to_definitions
from molrec_convert.model.forcefield.document import ForceField, table_from_rows
from molrec_convert.model.forcefield.expression import Expression
from molrec_convert.model.forcefield.registry import STANDARD
from molrec_convert.model.forcefield.styles import StyleDefinition

RADIAN = {"preset": "real", "angle": "radian"}
DEGREE = {"preset": "real", "angle": "degree"}


# --- angles -----------------------------------------------------------------------------------------------------------


@st.composite
def short_numbers(draw: st.DrawFn) -> float:
    """Numbers of up to 15 significant digits."""
    digits = draw(st.integers(1, 15))
    mantissa = draw(st.integers(0, 10**digits - 1))
    return float(f"{draw(st.sampled_from('+-'))}{mantissa}e{draw(st.integers(-40, 40))}")


@given(short_numbers())
@example(104.52)
@example(180.0)
@example(3.141592654)
def test_short_decimals_come_back_as_they_were(number: float) -> None:
    assert to_degrees(to_radians(number)) == number
    assert to_radians(to_degrees(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_angles_are_within_half_a_unit_of_the_fifteenth_digit(number: float) -> None:
    pi = Fraction("3.14159265358979323846264338327950288419716939937510582")
    exact = Fraction(number) * pi / 180
    found = to_radians(number)
    assert abs(Fraction(found) - exact) <= abs(exact) * Fraction(1, 2 * 10**14) + Fraction(5e-324)


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324])
def test_special_angles(value: float) -> None:
    there = to_radians(value)
    assert math.copysign(1.0, there) == math.copysign(1.0, value)
    assert math.isnan(there) == math.isnan(value)
    assert math.isinf(there) == math.isinf(value)


def test_arrays_of_angles() -> None:
    degrees = np.array([[180.0, -0.0], [104.52, 180.0]])
    radians = converted_angles(degrees, "radian")
    assert radians.tolist() == [[math.pi, 0.0], [to_radians(104.52), math.pi]]
    assert np.signbit(radians[0, 1])
    assert np.array_equal(converted_angles(radians, "degree"), degrees)


# --- every registered style -------------------------------------------------------------------------------------------


def filled(style: StyleDefinition, definitions: int, random: np.random.Generator) -> dict[str, Any]:
    """A row with a number of up to 15 digits for each parameter; two terms where there may be several."""
    row: dict[str, Any] = {"name": "x"}
    arity = category(style.category).arity or 0
    row |= dict.fromkeys(ENDPOINT_COLUMNS[:arity], "A")
    for entry in style.parameters:
        numbered = definitions in entry.indexed and 2 in entry.indexed
        for number in ("1", "2") if numbered else ("",):
            row[entry.named(definitions) + number] = float(f"{random.uniform(0.1, 180.0):.15g}")
    return row


def registered(definitions: int) -> list[StyleDefinition]:
    return [style for style in STANDARD if definitions in style.definitions]


def forcefield_of(style: StyleDefinition, definitions: int, seed: int) -> ForceField:
    units = RADIAN if definitions == 1 else DEGREE
    random = np.random.default_rng(seed)
    if not any(entry.axes for entry in style.parameters):
        return single(style.category, style.style, [filled(style, definitions, random)], units)
    table = table_from_rows(style.category, [{"name": "x", **dict.fromkeys(ENDPOINT_COLUMNS, "A")}])
    table.columns["grid"] = Column(random.uniform(size=(1, 4, 4)))
    forcefield = ForceField.new("grid", units)
    forcefield.add(style.category, style.style, table)
    return forcefield


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("definitions", [1, 2])
def test_there_and_back_is_exact_for_every_registered_style(definitions: int, seed: int) -> None:
    for style in registered(definitions):
        before = forcefield_of(style, definitions, seed)
        if style.category == "pair14":
            continue
        other = to_definitions(before, 3 - definitions)
        other.check()
        assert other.definitions == 3 - definitions
        back = to_definitions(other, definitions)
        if style.mixing is not None:
            # What the style mixes by default in definitions 2 is stated from then on.
            before.document["styles"][0]["params"] = {"mixing": style.mixing}
        assert back == before, style.name


def energy(forcefield: ForceField, geometry: dict[str, Any]) -> Any:
    """The energy of the only row of the only style, by the registry's expression."""
    (style,) = forcefield.styles
    definition = STANDARD.find(style.category, style.style, forcefield.definitions)
    assert definition is not None
    table = forcefield.tables[style.block]
    angle = "radian" if forcefield.definitions == 1 else "degree"
    formula = definition.formula(forcefield.definitions, table.columns, angle)
    if formula is None:
        return None
    values = {e.named(1): e.default for e in definition.style_parameters if e.default is not None}
    values |= {"coulomb": 332.0, "inner": 2.0, "cutoff": 4.0} | geometry
    values |= {name: table[name][0] for name in table.columns}
    return Expression(formula).evaluate(values)


def test_both_definitions_give_every_style_the_same_energy() -> None:
    random = np.random.default_rng(7)
    geometry = {
        "r": random.uniform(0.9, 3.0, 50),
        "theta": random.uniform(0.1, 3.0, 50),
        "phi": random.uniform(-3.0, 3.0, 50),
        "q1": 0.4,
        "q2": -0.8,
    }
    geometry["chi"] = np.abs(geometry["phi"])
    priced = 0
    for style in registered(1):
        if 2 not in style.definitions:
            continue
        first = forcefield_of(style, 1, 3)
        a, b = energy(first, geometry), energy(to_definitions(first, 2), geometry)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=style.name)
            priced += 1
    assert priced >= 20


def test_what_changes() -> None:
    second = to_definitions(peroxide(), 2)
    assert second.units == {"preset": "real", "angle": "degree"}
    assert second.molrec_version is None
    assert second.minimum_version == 1
    assert second.tables["bond.harmonic"]["k"].tolist() == [300.0, 553.0]
    assert second.tables["angle.harmonic"]["k"].tolist() == [50.0]
    assert second.tables["angle.harmonic"]["theta0"].tolist() == [to_degrees(1.7488)]
    assert second.tables["dihedral.periodic"].stored("phase2").tolist() == [to_degrees(3.141592654), 0.0]
    assert second.tables["dihedral.periodic"].validity("phase2").tolist() == [True, False]
    assert second.tables["pair.lj%2Fcut"] == peroxide().tables["pair.lj%2Fcut"]
    first = to_definitions(second, 1)
    assert first.units == RADIAN
    expected = peroxide()
    expected.document["units"] = RADIAN
    assert first == expected
    assert to_definitions(second, 2) is second


def test_without_a_preset_the_version_of_the_record_marks_them() -> None:
    units = {"length": "nm", "energy": "kJ/mol", "angle": "radian"}
    first = single("angle", "harmonic", [angle(k=1.0, theta0=2.0)], units)
    second = to_definitions(first, 2)
    assert (second.molrec_version, second.minimum_version, second.definitions) == (2, 2, 2)
    assert second.units["angle"] == "degree"
    back = to_definitions(second, 1)
    assert back == first
    assert back.molrec_version == 1


def angle(**parameters: Any) -> dict[str, Any]:
    return {"name": "a", "itom": "A", "jtom": "A", "ktom": "A", **parameters}


def test_the_depth_of_a_morse_bond_is_renamed() -> None:
    row = {"name": "b", "itom": "A", "jtom": "A", "D": 70.0, "alpha": 2.0, "r0": 1.1, "note": "x"}
    second = to_definitions(single("bond", "morse", [row], RADIAN), 2)
    assert list(second.tables["bond.morse"]) == ["name", "itom", "jtom", "d0", "alpha", "r0", "note"]
    assert list(to_definitions(second, 1).tables["bond.morse"]) == list(row)


def test_null_cells_and_what_stands_under_them_stay() -> None:
    forcefield = single("angle", "harmonic", [angle(k=1.0, theta0=1.0)], RADIAN)
    table = table_from_rows("angle", [angle(k=1.0, theta0=None), {**angle(k=2.0, theta0=1.5), "name": "b"}])
    table.columns["theta0"].values[0] = 77.0
    forcefield.tables["angle.harmonic"] = table
    second = to_definitions(forcefield, 2).tables["angle.harmonic"]
    assert second.stored("theta0").tolist() == [77.0, to_degrees(1.5)]
    assert second.validity("theta0").tolist() == [False, True]


def test_degrees_without_a_preset_are_definitions_1_and_stay_degrees() -> None:
    units = {"length": "nm", "energy": "kJ/mol", "angle": "degree"}
    ends = {"name": "d", "itom": "A", "jtom": "A", "ktom": "A", "ltom": "A"}
    first = single("dihedral", "charmm", [{**ends, "k": 1.0, "periodicity": 2.0, "phase": 180.0, "w": 0.0}], units)
    second = to_definitions(first, 2)
    assert second.definitions == 2
    assert second.tables["dihedral.charmm"]["phase"].tolist() == [180.0]


def test_one_term_of_an_improper_keeps_its_meaning() -> None:
    ends = {"name": "d", "itom": "A", "jtom": "A", "ktom": "A", "ltom": "A"}
    first = single(
        "improper", "periodic", [{**ends, "k1": 1.0, "periodicity1": 2.0, "phase1": 3.141592653589793}], RADIAN
    )
    second = to_definitions(first, 2).tables["improper.periodic"]
    assert [second[name].tolist() for name in ("k", "periodicity", "phase")] == [[1.0], [2.0], [180.0]]


# --- refusals ---------------------------------------------------------------------------------------------------------

ENDS = {f"{letter}tom": "A" for letter in "ijkl"}
IMPROPER = {"name": "i", **ENDS, "k1": 1.0, "periodicity1": 2.0, "k2": 1.0, "periodicity2": 3.0}
BOND = {"name": "b", "itom": "A", "jtom": "A"}
PER_DEGREE = {"length": "nm", "energy": "kJ/mol", "angle": "degree"}

REFUSED: dict[str, tuple[ForceField, str]] = {
    "1-4 tables": (
        single("pair14", "lj/cut", [{**BOND, "epsilon": 1.0, "sigma": 1.0}], RADIAN),
        r"pair14\.lj/cut .* definitions 2: 1-4 tables have no form",
    ),
    "per degree": (
        single("angle", "harmonic", [angle(k=1.0, theta0=90.0)], PER_DEGREE),
        r"angle\.harmonic .* not per radian but per degree",
    ),
    "gradian": (
        single("angle", "harmonic", [angle(theta0=100.0)], {"energy": "eV", "angle": "gradian"}),
        r"angle\.harmonic .* angles in gradian",
    ),
    "no angle": (
        single("angle", "harmonic", [angle(theta0=1.0)], {"energy": "eV"}),
        r"angle\.harmonic .* no unit of angles",
    ),
    "several terms": (single("improper", "periodic", [IMPROPER], RADIAN), r"improper\.periodic .* here several"),
    "taken name": (
        single("bond", "morse", [{**BOND, "D": 1.0, "d0": 2.0}], RADIAN),
        r"bond\.morse .* the column 'd0' would become a parameter",
    ),
    "odd subnormal": (
        single("bond", "harmonic", [{**BOND, "k": 5e-324, "r0": 1.0}], RADIAN),
        r"'k' of bond\.harmonic has no exact other form: found .*5e-324",
    ),
    "overflow": (
        single("angle", "harmonic", [angle(k=1.0, theta0=1e308)], RADIAN),
        r"'theta0' of angle\.harmonic has no exact other form",
    ),
    "word": (
        single("bond", "harmonic", [{**BOND, "k": "stiff"}], RADIAN),
        r"'k' of bond\.harmonic is no number",
    ),
    "unregistered": (
        single("angle", "cosine/delta", [angle(K=1.0, theta0=1.0)], RADIAN),
        r"angle\.cosine/delta .* carries no expression",
    ),
    "only later": (
        single("angle", "charmm", [angle(k=1.0, theta0=1.0, k_ub=1.0, r_ub=1.0)], RADIAN),
        r"angle\.charmm .* not registered here and carries no expression",
    ),
    "other meaning": (
        single("angle", "charmm", [angle(k=1.0, theta0=1.0)], RADIAN, expression="k*theta0"),
        r"angle\.charmm .* not that of the registered style",
    ),
    "unwritable": (
        single("pair", "coul/long/pme", [{**BOND, "name": "p"}], RADIAN, expression="q1*q2/r"),
        r"pair\.coul/long/pme .* cannot be rewritten",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals_name_the_style(what: str) -> None:
    forcefield, words = REFUSED[what]
    assert forcefield.definitions == 1
    with pytest.raises(UnsupportedError, match=words):
        to_definitions(forcefield, 2)


def test_doubling_that_overflows_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"'k' of bond\.harmonic has no exact other form"):
        to_definitions(single("bond", "harmonic", [{**BOND, "k": 1.5e308}], DEGREE), 1)


def test_a_broken_force_field_and_unknown_definitions_are_refused() -> None:
    with pytest.raises(UsageError, match="no definitions 3"):
        to_definitions(peroxide(), 3)
    broken = peroxide()
    del broken.tables["bond.harmonic"]
    with pytest.raises(ContractError, match="has no table"):
        to_definitions(broken, 2)


# --- styles that are not registered, or on one side only --------------------------------------------------------------


def test_an_expression_says_what_its_numbers_mean_in_either_definitions() -> None:
    row = angle(K=1.0, theta0=109.5)
    text = "K*(1-cos(theta-theta0*0.017453292519943295))"
    first = single("angle", "cosine/delta", [row], RADIAN, expression=text)
    second = to_definitions(first, 2)
    assert second.tables == first.tables
    assert second.document["styles"] == first.document["styles"]


def test_bonds_and_pairs_outside_the_registry_carry_no_angle() -> None:
    first = single("bond", "fene", [{**BOND, "K": 30.0, "R0": 1.5}], RADIAN)
    assert to_definitions(first, 2).tables == first.tables


def test_what_only_definitions_2_know_is_written_out_in_1() -> None:
    second = single("angle", "charmm", [angle(k=60.0, theta0=104.52, k_ub=10.0, r_ub=1.5)], DEGREE)
    first = to_definitions(second, 1)
    assert first.tables == second.tables
    (style,) = first.styles
    assert style.expression == "k*(theta-(theta0*0.017453292519943295))^2+k_ub*(distance(p1,p3)-r_ub)^2"
    assert to_definitions(first, 2) == second


def test_expressions_of_registered_styles_are_rewritten() -> None:
    first = single("bond", "harmonic", [{**BOND, "k": 2.0, "r0": 1.0}], RADIAN, expression="k*(r-r0)^2/2")
    second = to_definitions(first, 2)
    assert second.styles[0].expression == "k*(r-r0)^2"
    assert second.tables["bond.harmonic"]["k"].tolist() == [1.0]


# --- the columns of a system ------------------------------------------------------------------------------------------


def test_columns_of_a_system_change_with_the_force_field() -> None:
    forcefield = peroxide()
    forcefield.document["units"] = RADIAN
    system = Frame(
        {
            "atoms": Block({"type": ["H1", "O1"]}),
            "bonds": relation([[0, 1], [1, 0]], k=nullable([10.0, None]), r0=np.array([1.0, 2.0])),
            "angles": relation([[0, 1, 0]], theta0=np.array([3.141592653589793]), note=np.array([1.0])),
            "members": relation([[0, 1]], k=np.array([1.0])),
        }
    )
    second = system_to_definitions(system, forcefield, 2)
    assert second["bonds"].columns["k"] == nullable([5.0, None])
    assert second["bonds"]["r0"].tolist() == [1.0, 2.0]
    assert second["angles"]["theta0"].tolist() == [180.0]
    assert second["angles"]["note"].tolist() == [1.0]
    assert second["members"] == system["members"]
    assert system_to_definitions(second, to_definitions(forcefield, 2), 1) == system
    assert system_to_definitions(system, forcefield, 1) is system


def mixed_bonds() -> tuple[Frame, ForceField]:
    forcefield = single("bond", "harmonic", [{**BOND, "k": 1.0}], RADIAN)
    forcefield.add("bond", "mine", table_from_rows("bond", [{**BOND, "k": 1.0}]))
    system = Frame({"atoms": Block({"type": ["A", "A"]}), "bonds": relation([[0, 1], [0, 1]], k=np.array([4.0, 4.0]))})
    return system, forcefield


def test_the_style_of_a_row_says_how_its_numbers_change() -> None:
    system, forcefield = mixed_bonds()
    system.blocks["bonds"].columns["style"] = Column(["harmonic", "mine"])
    assert system_to_definitions(system, forcefield, 2)["bonds"]["k"].tolist() == [2.0, 4.0]


def test_a_column_two_styles_read_differently_is_refused() -> None:
    system, forcefield = mixed_bonds()
    with pytest.raises(
        UnsupportedError, match=r"bonds/k means different things to the styles bond\.harmonic, bond\.mine"
    ):
        system_to_definitions(system, forcefield, 2)


def test_renamed_columns_of_a_system() -> None:
    forcefield = single("bond", "morse", [{**BOND, "D": 1.0}], RADIAN)
    system = Frame({"atoms": Block({"type": ["A", "A"]}), "bonds": relation([[0, 1]], D=np.array([4.0]))})
    second = system_to_definitions(system, forcefield, 2)
    assert list(second["bonds"]) == ["atomi", "atomj", "d0"]
