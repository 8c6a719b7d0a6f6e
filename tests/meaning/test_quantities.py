"""The table of units, dimensions and tensors: exact factors, one on every way, and wrong texts refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molrec_convert.errors import UsageError
from molrec_convert.quantities.dimensions import (
    UnitConversion,
    check_dimension,
    parse_units,
    same_units,
    unit_of_dimension,
    units_words,
    written_out,
)
from molrec_convert.quantities.standard import (
    COLUMNS,
    FORMS,
    KEYS,
    dimension_of,
    full_tensor,
    is_symmetric,
    tensor_as,
    turn_tensors,
    turn_vectors,
)
from molrec_convert.quantities.units import (
    PRESETS,
    conversion_factor,
    dimension_fault,
    same_unit,
    size_of,
    unit_of_quantity,
)

# Source: CODATA 2022, and the SI brochure for what is exact.
EXACT = {
    ("kcal/mol", "eV"): Fraction(4184) / (Fraction("1.602176634e-19") * Fraction("6.02214076e23")),
    ("kJ/mol", "eV"): Fraction(1000) / (Fraction("1.602176634e-19") * Fraction("6.02214076e23")),
    ("hartree", "eV"): Fraction("4.3597447222060e-18") / Fraction("1.602176634e-19"),
    ("bohr", "angstrom"): Fraction("0.529177210544"),
    ("fs", "ps"): Fraction("0.001"),
    ("ps", "fs"): Fraction(1000),
    ("atm", "bar"): Fraction("1.01325"),
    ("eV/angstrom**3", "GPa"): Fraction("160.2176634"),
    ("kcal/mol/angstrom", "eV/angstrom"): Fraction(4184) / (Fraction("1.602176634e-19") * Fraction("6.02214076e23")),
    ("kg", "dalton"): 1 / Fraction("1.66053906892e-27"),
    ("C", "e"): 1 / Fraction("1.602176634e-19"),
    ("statcoulomb", "C"): Fraction(1, 2997924580),
    ("micrometer", "nm"): Fraction(1000),
}


@pytest.mark.parametrize(("pair", "ratio"), EXACT.items(), ids=["->".join(pair) for pair in EXACT])
def test_factors_are_the_nearest_doubles(pair: tuple[str, str], ratio: Fraction) -> None:
    assert conversion_factor(*pair) == float(ratio)
    assert conversion_factor(*reversed(pair)) == float(1 / ratio)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("kcal/mol", "kilocalorie / mole"), ("Hartree/Bohr", "hartree/bohr"), ("eV/Ang", "eV / angstrom"),
        ("g/mol", "dalton"), ("Å", "angstrom"), ("picogram * micrometer**2 / microsecond**2", "femtojoule"),
        ("eV/angstrom^3", "eV * angstrom**-3"), ("m^(1/2) m^(1/2)", "meter"), ("u", "amu"), ("kJ mol^-1", "kJ/mol"),
        ("angstrom⁻¹", "1/angstrom"),
    ],
)  # fmt: skip
def test_spellings_of_one_unit(a: str, b: str) -> None:
    assert same_unit(a, b)


@pytest.mark.parametrize("text", ["", "furlongish", "eV/", "2**3", "angstrom**999", "(eV", "eV)", "__import__", "0"])
def test_texts_that_are_no_unit(text: str) -> None:
    assert size_of(text) is None
    assert conversion_factor(text, "eV") is None


def test_a_kilocalorie_alone_is_no_energy_of_a_particle() -> None:
    assert conversion_factor("kcal", "eV") == pytest.approx(2.6114473967543833e22)
    with pytest.raises(UsageError, match=r"lenght.*did you mean length"):
        parse_units("lenght=angstrom")
    with pytest.raises(UsageError, match=r"'angstrom' is no unit of energy; name one such as"):
        parse_units("energy=angstrom")


@pytest.mark.parametrize(
    ("quantity", "text", "fault"),
    [
        ("length", "nm", None),
        ("length", "eV", "is no unit of length"),
        ("length", "angstroem", "is no unit"),
        ("energy", "J", None),
        ("energy", "kcal/mol", None),
        ("energy", "kcal", "is an energy of moles, not of particles"),
        ("charge", "statcoulomb", None),
        ("charge", "C/m", "is no unit of charge"),
    ],
)
def test_units_are_those_of_their_quantity(quantity: str, text: str, fault: str | None) -> None:
    assert dimension_fault(quantity, text) == fault


@pytest.mark.parametrize(
    ("units", "quantity", "definitions", "unit"),
    [
        ({"preset": "real"}, "angle", 1, "radian"),
        ({"preset": "real"}, "angle", 2, "degree"),
        ({"preset": "real", "angle": "radian"}, "angle", 2, "radian"),
        ({"preset": "real"}, "energy", 2, "kcal/mol"),
        ({}, "angle", 1, None),
    ],
)
def test_angles_are_degrees_in_definitions_2(units: dict[str, str], quantity: str, definitions: int, unit: str) -> None:
    assert unit_of_quantity(units, quantity, definitions) == unit


def test_the_rounding_of_a_definition_is_no_conversion() -> None:
    assert conversion_factor("bohr", "0.5291772105*angstrom") == 1.0
    assert conversion_factor("0.5291772105*angstrom", "bohr") == 1.0
    assert conversion_factor("bohr", "0.5291773*angstrom") == pytest.approx(1 - 1.69e-7, abs=1e-9)


def test_powers_are_bounded() -> None:
    assert size_of(" ".join(["m**2"] * 16)) is not None
    assert size_of(" ".join(["m**2"] * 17)) is None


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("metal", {"preset": "metal"}),
        ("lj", {"preset": "lj"}),
        ("length=nm, energy=kJ/mol", {"length": "nm", "energy": "kJ/mol"}),
        ("pressure=GPa", {"pressure": "GPa"}),
        (
            "si,length=nm",
            {
                "length": "nm",
                "energy": "J",
                "angle": "radian",
                "charge": "C",
                "mass": "kg",
                "time": "s",
                "pressure": "Pa",
            },
        ),
    ],
)
def test_units_are_named_by_a_preset_or_one_by_one(text: str, units: dict[str, str]) -> None:
    assert parse_units(text) == units
    assert same_units(parse_units(text), {**written_out(units)})


@pytest.mark.parametrize(
    "text",
    ["", "metall", "length=eV", "pressure=eV", "pressure=foo", "colour=red", "temperature=K", "length=nm,metal"],
)
def test_units_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_units(text)


def test_reduced_units_have_no_other_beside_them() -> None:
    with pytest.raises(UsageError, match="reduced units"):
        parse_units("lj,length=nm")


def test_units_objects_are_written_out_and_compared() -> None:
    assert written_out({"preset": 7, "length": "nm", "note": 3}) == {"length": "nm"}
    assert written_out({"preset": "unheard-of", "length": "nm"}) == {"length": "nm"}
    assert written_out({"preset": "metal", "length": "nm"})["length"] == "nm"
    assert same_units({"length": "nm"}, {"length": "10*angstrom"})
    assert not same_units({"length": "nm"}, {"length": "angstrom"})
    assert not same_units({"length": "nm"}, {"length": "nm", "energy": "eV"})
    assert units_words({"length": "nm", "angle": "degree", "force": "N"}) == "nm"


def test_units_of_a_preset_that_do_not_follow_from_others() -> None:
    assert unit_of_dimension("pressure", {"preset": "real"}) == "(atm)"
    assert unit_of_dimension("pressure", {"preset": "metal"}) == "(bar)"
    assert unit_of_dimension("pressure", {"length": "angstrom", "energy": "eV"}) == "((eV)/(angstrom)**3)"
    assert UnitConversion({"preset": "real"}, {"preset": "metal"}).factor("pressure") == 1.01325
    assert UnitConversion({"preset": "real"}, {"preset": "metal"}).factor("E/L^2") == conversion_factor(
        "kcal/mol", "eV"
    )
    assert UnitConversion({"preset": "lj"}, {"preset": "metal"}).factor("length") is None


@pytest.mark.parametrize("source", [name for name in PRESETS if name != "lj"])
@pytest.mark.parametrize("target", [name for name in PRESETS if name != "lj"])
def test_a_preset_and_its_units_written_out_convert_alike(source: str, target: str) -> None:
    ways = [
        UnitConversion(a, b)
        for a in ({"preset": source}, written_out({"preset": source}))
        for b in ({"preset": target}, written_out({"preset": target}))
    ]
    for dimension in {d for d, _ in (*COLUMNS.values(), *KEYS.values())} | {"E", "E/L^2", "force"}:
        factors = {way.factor(dimension) for way in ways}
        assert len(factors) == 1, dimension
        assert None not in factors
    assert ways[0].changes == (source != target)


def test_dimensions_are_checked() -> None:
    assert check_dimension("charge*length") == "charge*length"
    assert check_dimension("E/L^2") == "energy/length**2"
    assert check_dimension("none") == ""
    with pytest.raises(UsageError, match=r"'enrgy' is no quantity; did you mean energy"):
        check_dimension("enrgy")
    with pytest.raises(UsageError, match="is no dimension such as"):
        check_dimension("energy+length")


def test_names_of_columns_and_keys_have_dimensions() -> None:
    assert dimension_of("fx", key=False) == "force"
    assert dimension_of("stress", key=True) == "energy/length**3"
    assert dimension_of("press", key=True) == "pressure"
    assert dimension_of("whatever", key=True) is None


reals = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(reals, min_size=6, max_size=6), st.sampled_from(sorted(FORMS)))
def test_six_numbers_of_a_tensor_come_back(numbers: list[float], form: str) -> None:
    full = full_tensor(np.array(numbers), form)
    assert is_symmetric(full)
    assert tensor_as(full, form).tolist() == numbers
    assert full_tensor(full.reshape(9)).tolist() == full.tolist()


@given(st.floats(-3, 3), st.lists(reals, min_size=6, max_size=6), st.lists(reals, min_size=3, max_size=3))
def test_tensors_turn_as_products_of_vectors_do(angle: float, numbers: list[float], vector: list[float]) -> None:
    cos, sin = np.cos(angle), np.sin(angle)
    rotation = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
    outer = np.outer(vector, vector)
    turned = turn_vectors(np.array([vector]), rotation)[0]
    six = tensor_as(outer, "voigt")[None]
    expected = np.outer(turned, turned)
    np.testing.assert_allclose(turn_tensors(outer.reshape(1, 9), rotation)[0].reshape(3, 3), expected, atol=1e-3)
    np.testing.assert_allclose(full_tensor(turn_tensors(six, rotation))[0], expected, atol=1e-3)
    back = turn_tensors(turn_tensors(np.array([numbers]), rotation), rotation.T)
    np.testing.assert_allclose(back[0], numbers, atol=1e-8 * max(1.0, np.abs(numbers).max()))
