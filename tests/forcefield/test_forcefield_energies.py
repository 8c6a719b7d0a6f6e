"""Energies of the registered styles: against formulas written out here, and against LAMMPS. Source: Force field."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forcefields import single
from lammps_runs import lammps, needs_lammps

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.model import Block, Frame
from molrec_convert.model.forcefield.categories import ENDPOINT_COLUMNS, category
from molrec_convert.model.forcefield.definitions import to_definitions
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.forcefield.expression import FUNCTIONS, Expression
from molrec_convert.model.forcefield.linking import resolve
from molrec_convert.model.forcefield.registry import STANDARD, Registry
from molrec_convert.model.forcefield.styles import Parameter, StyleDefinition

cos, exp, pi = math.cos, math.exp, math.pi
P = dict[str, float]

#: Style → definitions → parameters, geometry, and the energy by hand. Angles in radians and, in definitions 2, degrees.
BY_HAND: list[tuple[str, int, P, P, Callable[..., float]]] = [
    ("bond.harmonic", 1, {"k": 600.0, "r0": 1.5}, {"r": 1.6}, lambda k, r0, r: k * (r - r0) ** 2 / 2),
    ("bond.harmonic", 2, {"k": 600.0, "r0": 1.5}, {"r": 1.6}, lambda k, r0, r: k * (r - r0) ** 2),
    (
        "bond.morse",
        1,
        {"D": 90.0, "alpha": 2.0, "r0": 1.1},
        {"r": 1.3},
        lambda D, alpha, r0, r: D * (1 - exp(alpha * (r0 - r))) ** 2,
    ),
    (
        "bond.morse",
        2,
        {"d0": 90.0, "alpha": 2.0, "r0": 1.1},
        {"r": 1.3},
        lambda d0, alpha, r0, r: d0 * (1 - exp(alpha * (r0 - r))) ** 2,
    ),
    (
        "bond.class2",
        1,
        {"r0": 1.5, "k2": 300.0, "k3": -600.0, "k4": 700.0},
        {"r": 1.45},
        lambda r0, k2, k3, k4, r: (r - r0) ** 2 * (k2 + (r - r0) * (k3 + (r - r0) * k4)),
    ),
    (
        "angle.harmonic",
        1,
        {"k": 110.0, "theta0": 1.9},
        {"theta": 2.0},
        lambda k, theta0, theta: k / 2 * (theta - theta0) ** 2,
    ),
    (
        "angle.harmonic",
        2,
        {"k": 55.0, "theta0": 104.52},
        {"theta": 2.0},
        lambda k, theta0, theta: k * (theta - math.radians(theta0)) ** 2,
    ),
    (
        "angle.class2",
        2,
        {"theta0": 110.0, "k2": 40.0, "k3": -9.0, "k4": 3.0},
        {"theta": 2.1},
        lambda theta0, k2, k3, k4, theta: sum(
            k * (theta - math.radians(theta0)) ** n for n, k in ((2, k2), (3, k3), (4, k4))
        ),
    ),
    (
        "dihedral.periodic",
        1,
        {"k1": 1.2, "periodicity1": 1.0, "phase1": 0.3, "k2": 0.8, "periodicity2": 2.0, "phase2": pi},
        {"phi": -1.1},
        lambda phi, k1, k2, phase1, phase2, **n: k1 * (1 + cos(phi - phase1)) + k2 * (1 + cos(2 * phi - phase2)),
    ),
    (
        "dihedral.periodic",
        2,
        {"k": 1.2, "periodicity": 3.0, "phase": 30.0},
        {"phi": 0.4},
        lambda phi, k, periodicity, phase: k * (1 + cos(3 * phi - pi / 6)),
    ),
    (
        "dihedral.opls",
        1,
        {"k1": 1.3, "k2": -0.05, "k3": 0.2, "k4": 0.4},
        {"phi": 2.0},
        lambda phi, k1, k2, k3, k4: (
            (k1 * (1 + cos(phi)) + k2 * (1 - cos(2 * phi)) + k3 * (1 + cos(3 * phi)) + k4 * (1 - cos(4 * phi))) / 2
        ),
    ),
    (
        "dihedral.rb",
        1,
        {f"c{n}": 1.0 + n for n in range(6)},
        {"phi": 0.7},
        lambda phi, **c: sum(c[f"c{n}"] * cos(phi - pi) ** n for n in range(6)),
    ),
    (
        "dihedral.charmm",
        1,
        {"k": 0.16, "periodicity": 3.0, "phase": pi / 2, "w": 0.5},
        {"phi": 1.0},
        lambda phi, k, periodicity, phase, w: k * (1 + cos(3 * phi - phase)),
    ),
    (
        "dihedral.harmonic",
        1,
        {"k": 2.0, "sign": -1.0, "periodicity": 2.0},
        {"phi": 1.0},
        lambda phi, k, sign, periodicity: k * (1 - cos(2 * phi)),
    ),
    (
        "dihedral.multi/harmonic",
        1,
        {f"a{n}": 1.0 / n for n in range(1, 6)},
        {"phi": 1.0},
        lambda phi, **a: sum(a[f"a{n}"] * cos(phi) ** (n - 1) for n in range(1, 6)),
    ),
    (
        "dihedral.nharmonic",
        2,
        {f"a{n}": 1.0 / n for n in range(1, 8)},
        {"phi": 1.0},
        lambda phi, **a: sum(a[f"a{n}"] * cos(phi) ** (n - 1) for n in range(1, 8)),
    ),
    (
        "dihedral.class2",
        2,
        {"k1": 1.0, "phi1": 10.0, "k2": 2.0, "phi2": 20.0, "k3": 3.0, "phi3": 30.0},
        {"phi": 1.0},
        lambda phi, **p: sum(p[f"k{n}"] * (1 - cos(n * phi - math.radians(p[f"phi{n}"]))) for n in (1, 2, 3)),
    ),
    ("improper.harmonic", 1, {"k": 5.0, "chi0": 0.1}, {"phi": -0.3}, lambda phi, k, chi0: k * (abs(phi) - chi0) ** 2),
    (
        "improper.harmonic",
        2,
        {"k": 5.0, "chi0": 10.0},
        {"phi": -0.3},
        lambda phi, k, chi0: k * (0.3 - math.radians(10)) ** 2,
    ),
    (
        "improper.cvff",
        1,
        {"k": 5.0, "sign": -1.0, "periodicity": 2.0},
        {"phi": -0.3},
        lambda phi, k, sign, periodicity: k * (1 - cos(0.6)),
    ),
    (
        "improper.periodic",
        1,
        {"k": 5.0, "periodicity": 2.0, "phase": pi},
        {"phi": -0.3},
        lambda phi, k, periodicity, phase: k * (1 + cos(2 * phi - pi)),
    ),
    (
        "pair.lj/cut",
        1,
        {"epsilon": 0.17, "sigma": 3.0},
        {"r": 3.3},
        lambda r, epsilon, sigma: 4 * epsilon * ((sigma / r) ** 12 - (sigma / r) ** 6),
    ),
    (
        "pair.lj/cut",
        1,
        {"epsilon": 0.17, "sigma": 3.0},
        {"r": 3.3, "n": 9.0, "m": 6.0, "shift": 1.0, "cutoff": 10.0},
        lambda r, epsilon, sigma, cutoff, **_: (
            27 / 4 * epsilon * ((sigma / r) ** 9 - (sigma / r) ** 6 - (sigma / cutoff) ** 9 + (sigma / cutoff) ** 6)
        ),
    ),
    (
        "pair.lj/class2",
        1,
        {"epsilon": 0.17, "sigma": 3.0},
        {"r": 3.3},
        lambda r, epsilon, sigma: epsilon * (2 * (sigma / r) ** 9 - 3 * (sigma / r) ** 6),
    ),
    (
        "pair.buck",
        1,
        {"a": 1000.0, "rho": 0.3, "c": 30.0},
        {"r": 2.0},
        lambda r, a, rho, c: a * exp(-r / rho) - c / r**6,
    ),
    (
        "pair.morse",
        1,
        {"d0": 0.4, "alpha": 1.5, "r0": 2.2},
        {"r": 2.5},
        lambda r, d0, alpha, r0: d0 * (exp(-2 * alpha * (r - r0)) - 2 * exp(-alpha * (r - r0))),
    ),
    (
        "pair.coul/cut",
        1,
        {},
        {"r": 2.0, "q1": 0.4, "q2": -0.8, "coulomb": 332.0, "dielectric": 2.0},
        lambda r, q1, q2, coulomb, dielectric: coulomb * q1 * q2 / dielectric / r,
    ),
    (
        "pair14.lj/cut",
        1,
        {"epsilon": 0.17, "sigma": 3.0},
        {"r": 3.3},
        lambda r, epsilon, sigma: 4 * epsilon * ((sigma / r) ** 12 - (sigma / r) ** 6),
    ),
    ("drude.harmonic", 1, {"k": 1000.0}, {"r": 0.1}, lambda r, k: k / 2 * r * r),
    ("drude.harmonic", 2, {"k": 1000.0}, {"r": 0.1}, lambda r, k: k * r * r),
]


def definition(name: str, definitions: int) -> StyleDefinition:
    found = STANDARD.find(*name.split(".", 1), definitions)
    assert found is not None
    return found


def energy(name: str, definitions: int, parameters: P, geometry: dict[str, Any]) -> Any:
    style = definition(name, definitions)
    formula = style.formula(definitions, parameters, "radian" if definitions == 1 else "degree")
    assert formula is not None
    defaults = {
        e.named(definitions): e.default for e in (*style.parameters, *style.style_parameters) if e.default is not None
    }
    derived = {"chi": np.abs(geometry["phi"])} if "phi" in geometry else {}
    return Expression(formula).evaluate(defaults | parameters | geometry | derived)


@pytest.mark.parametrize(("name", "definitions", "parameters", "geometry", "by_hand"), BY_HAND)
def test_energies_by_hand(
    name: str, definitions: int, parameters: P, geometry: P, by_hand: Callable[..., float]
) -> None:
    expected = by_hand(**parameters, **geometry)
    assert energy(name, definitions, parameters, geometry) == pytest.approx(expected, rel=1e-12)


def test_every_style_with_an_expression_is_checked_by_hand_or_against_lammps() -> None:
    by_hand = {name for name, *_ in BY_HAND}
    by_lammps = {name for name, *_ in CASES} | {"pair.lj/charmm", "pair.coul/charmm"}
    for style in STANDARD:
        if style.expression is not None:
            assert style.name in by_hand | by_lammps, style.name


def test_registered_parameters_are_all_used() -> None:
    """An expression has no variable that is neither geometry nor a parameter, and leaves none out but those it may."""
    for style in STANDARD:
        for definitions in style.definitions:
            formula = style.formula(definitions, ["a1"] if style.style == "nharmonic" else [])
            if formula is None:
                continue
            known = {entry.named(definitions) for entry in (*style.parameters, *style.style_parameters)} | {"a1"}
            variables = Expression(formula).variables
            assert variables <= known | {"r", "theta", "phi", "chi", "q1", "q2", "p1", "p3"}, style.name
            required = {entry.named(definitions) for entry in style.parameters if entry.required} - {"a"}
            assert required <= variables, style.name


# --- LAMMPS -----------------------------------------------------------------------------------------------------------

POINTS = [[0.1, 0.2, -0.1], [1.4, 0.1, 0.3], [2.0, 1.5, 0.2], [3.1, 1.8, 1.3]]

#: Style, LAMMPS' commands, the row as LAMMPS writes it, the thermo keyword.
CASES: list[tuple[str, list[str], P, str]] = [
    ("bond.harmonic", ["bond_style harmonic", "bond_coeff 1 268.0 1.529"], {"k": 268.0, "r0": 1.529}, "ebond"),
    (
        "bond.morse",
        ["bond_style morse", "bond_coeff 1 90.0 1.8 1.09"],
        {"d0": 90.0, "alpha": 1.8, "r0": 1.09},
        "ebond",
    ),
    (
        "bond.class2",
        ["bond_style class2", "bond_coeff 1 1.5 300 -500 700"],
        {"r0": 1.5, "k2": 300.0, "k3": -500.0, "k4": 700.0},
        "ebond",
    ),
    (
        "angle.harmonic",
        ["angle_style harmonic", "angle_coeff 1 58.35 112.7"],
        {"k": 58.35, "theta0": 112.7},
        "eangle",
    ),
    (
        "angle.charmm",
        ["angle_style charmm", "angle_coeff 1 33.43 110.1 22.53 2.179"],
        {"k": 33.43, "theta0": 110.1, "k_ub": 22.53, "r_ub": 2.179},
        "eangle",
    ),
    (
        "angle.class2",
        [
            "angle_style class2",
            "angle_coeff 1 110.0 40.0 -9.0 3.0",
            "angle_coeff 1 bb 0 1 1",
            "angle_coeff 1 ba 0 0 1 1",
        ],
        {"theta0": 110.0, "k2": 40.0, "k3": -9.0, "k4": 3.0},
        "eangle",
    ),
    (
        "dihedral.opls",
        ["dihedral_style opls", "dihedral_coeff 1 1.3 -0.05 0.2 0.4"],
        {"k1": 1.3, "k2": -0.05, "k3": 0.2, "k4": 0.4},
        "edihed",
    ),
    (
        "dihedral.charmm",
        ["dihedral_style charmm", "dihedral_coeff 1 0.16 3 160 0.0"],
        {"k": 0.16, "periodicity": 3.0, "phase": 160.0, "w": 0.0},
        "edihed",
    ),
    (
        "dihedral.harmonic",
        ["dihedral_style harmonic", "dihedral_coeff 1 2.0 -1 3"],
        {"k": 2.0, "sign": -1.0, "periodicity": 3.0},
        "edihed",
    ),
    (
        "dihedral.multi/harmonic",
        ["dihedral_style multi/harmonic", "dihedral_coeff 1 1.0 0.5 -0.3 0.2 0.1"],
        {"a1": 1.0, "a2": 0.5, "a3": -0.3, "a4": 0.2, "a5": 0.1},
        "edihed",
    ),
    (
        "dihedral.nharmonic",
        ["dihedral_style nharmonic", "dihedral_coeff 1 3 1.0 0.5 -0.3"],
        {"a1": 1.0, "a2": 0.5, "a3": -0.3},
        "edihed",
    ),
    (
        "dihedral.periodic",
        ["dihedral_style fourier", "dihedral_coeff 1 2 1.2 1 20.0 0.8 2 180.0"],
        {"k1": 1.2, "periodicity1": 1.0, "phase1": 20.0, "k2": 0.8, "periodicity2": 2.0, "phase2": 180.0},
        "edihed",
    ),
    (
        "dihedral.class2",
        [
            "dihedral_style class2",
            "dihedral_coeff 1 1.0 10.0 2.0 20.0 3.0 30.0",
            "dihedral_coeff 1 mbt 0 0 0 1",
            "dihedral_coeff 1 ebt 0 0 0 0 0 0 1 1",
            "dihedral_coeff 1 at 0 0 0 0 0 0 90 90",
            "dihedral_coeff 1 aat 0 90 90",
            "dihedral_coeff 1 bb13 0 1 1",
        ],
        {"k1": 1.0, "phi1": 10.0, "k2": 2.0, "phi2": 20.0, "k3": 3.0, "phi3": 30.0},
        "edihed",
    ),
    (
        "improper.harmonic",
        ["improper_style harmonic", "improper_coeff 1 5.0 12.5"],
        {"k": 5.0, "chi0": 12.5},
        "eimp",
    ),
    (
        "improper.cvff",
        ["improper_style cvff", "improper_coeff 1 5.0 -1 2"],
        {"k": 5.0, "sign": -1.0, "periodicity": 2.0},
        "eimp",
    ),
    (
        "pair.lj/cut",
        ["pair_style lj/cut 10.0", "pair_coeff * * 0.17 1.3"],
        {"epsilon": 0.17, "sigma": 1.3},
        "evdwl",
    ),
    (
        "pair.lj/class2",
        ["pair_style lj/class2 10.0", "pair_coeff * * 0.17 1.3"],
        {"epsilon": 0.17, "sigma": 1.3},
        "evdwl",
    ),
    (
        "pair.buck",
        ["pair_style buck 10.0", "pair_coeff * * 1000.0 0.3 30.0"],
        {"a": 1000.0, "rho": 0.3, "c": 30.0},
        "evdwl",
    ),
    (
        "pair.morse",
        ["pair_style morse 10.0", "pair_coeff * * 0.4 1.5 2.2"],
        {"d0": 0.4, "alpha": 1.5, "r0": 2.2},
        "evdwl",
    ),
    ("pair.coul/cut", ["pair_style coul/cut 10.0", "pair_coeff * *"], {}, "ecoul"),
]

SETUP = """
units real
atom_style full
boundary f f f
region box block -20 20 -20 20 -20 20
create_box 2 box bond/types 1 angle/types 1 dihedral/types 1 improper/types 1 extra/bond/per/atom 4 &
  extra/angle/per/atom 4 extra/dihedral/per/atom 4 extra/improper/per/atom 4 extra/special/per/atom 8
mass * 1.0
special_bonds lj/coul 1 1 1
"""

RUN = """
setup, cases = {setup!r}, {cases!r}
energies = []
for points, commands, keyword in cases:
    lmp.command("clear")
    lmp.commands_string(setup)
    for n, point in enumerate(points):
        lmp.command(f"create_atoms {{n % 2 + 1}} single {{point[0]}} {{point[1]}} {{point[2]}}")
    lmp.command("set type 1 charge 0.4")
    lmp.command("set type 2 charge -0.8")
    styles = [command for command in commands if not command.startswith("create_bonds")]
    if not any(command.startswith("pair_style") for command in styles):
        styles = ["pair_style zero 12.0", "pair_coeff * *", *styles]
    lmp.commands_list([*styles, *(c for c in commands if c.startswith("create_bonds")), "run 0"])
    energies.append(lmp.get_thermo(keyword))
out["energies"] = energies
"""


def energies_of_lammps(directory: Path, cases: list[tuple[list[list[float]], list[str], str]]) -> list[float]:
    result = lammps(directory, RUN.format(setup=SETUP, cases=cases))
    assert "error" not in result, result
    return result["energies"]


def geometry_of(points: list[list[float]]) -> dict[str, Any]:
    """What an expression may know of four atoms."""
    atoms = {f"p{n}": np.array([point]) for n, point in enumerate(points, start=1)}
    ends = list(atoms.values())
    return {
        **atoms,
        "r": FUNCTIONS["distance"][1](*ends[:2]),
        "theta": FUNCTIONS["angle"][1](*ends[:3]),
        "phi": FUNCTIONS["dihedral"][1](*ends[:4]),
        "q1": 0.4,
        "q2": -0.8,
        "coulomb": 332.06371,
    }


@needs_lammps
def test_energies_of_lammps_in_both_definitions(tmp_path: Path) -> None:
    cases = []
    for name, commands, _, keyword in CASES:
        kind = name.partition(".")[0]
        atoms = 2 if kind == "pair" else 4
        ends = " ".join(str(n) for n in range(1, (category(kind).arity or 0) + 1))
        build = [] if kind == "pair" else [f"create_bonds single/{kind} 1 {ends} special no"]
        cases.append((POINTS[:atoms], [*commands, *build], keyword))
    found = energies_of_lammps(tmp_path, cases)
    geometry = geometry_of(POINTS)
    for (name, _, row, _), expected in zip(CASES, found, strict=True):
        assert abs(expected) > 1e-6
        assert energy(name, 2, row, geometry)[0] == pytest.approx(expected, rel=1e-10), name
        later = one_row(name, row)
        earlier = to_definitions(later, 1)
        (table,) = earlier.tables.values()
        if STANDARD.find(*name.split(".", 1), 1) is not None:
            values = {column: float(table[column][0]) for column in table if column not in ("name", *ENDPOINT_COLUMNS)}
            assert energy(name, 1, values, geometry)[0] == pytest.approx(expected, rel=1e-10), name
        else:
            written = earlier.styles[0].expression
            assert written is not None
            assert Expression(written).evaluate(row | geometry)[0] == pytest.approx(expected, rel=1e-10), name


def one_row(name: str, row: P) -> ForceField:
    kind, _, style = name.partition(".")
    ends = dict.fromkeys(ENDPOINT_COLUMNS[: category(kind).arity or 0], "A")
    return single(kind, style, [{"name": "x", **ends, **row}], {"preset": "real", "angle": "degree"})


@needs_lammps
def test_harmonic_constants_of_lammps_hold_the_half(tmp_path: Path) -> None:
    """K of LAMMPS is k of definitions 2 and half the k of definitions 1."""
    commands = ["bond_style harmonic", "bond_coeff 1 450.0 0.9572", "create_bonds single/bond 1 1 2 special no"]
    (found,) = energies_of_lammps(tmp_path, [([[0, 0, 0], [1.0572, 0, 0]], commands, "ebond")])
    assert found == pytest.approx(450.0 * 0.1**2)
    (table,) = to_definitions(one_row("bond.harmonic", {"k": 450.0, "r0": 0.9572}), 1).tables.values()
    assert table["k"].tolist() == [900.0]
    assert energy("bond.harmonic", 1, {"k": 900.0, "r0": 0.9572}, {"r": 1.0572}) == pytest.approx(found)


@needs_lammps
def test_the_switch_of_charmm(tmp_path: Path) -> None:
    commands = ["pair_style lj/charmm/coul/charmm 2.0 4.0", "pair_coeff * * 0.17 3.0"]
    distances = [1.5, 2.5, 3.9]
    cases = [([[0, 0, 0], [r, 0, 0]], commands, key) for r in distances for key in ("evdwl", "ecoul")]
    found = energies_of_lammps(tmp_path, cases)
    for r, lj, coul in zip(distances, found[::2], found[1::2], strict=True):
        geometry = {"r": r, "inner": 2.0, "cutoff": 4.0, "q1": 0.4, "q2": -0.8, "coulomb": 332.06371}
        assert energy("pair.lj/charmm", 2, {"epsilon": 0.17, "sigma": 3.0}, geometry) == pytest.approx(lj, rel=1e-10)
        assert energy("pair.coul/charmm", 2, {}, geometry) == pytest.approx(coul, rel=1e-10)


@needs_lammps
@pytest.mark.parametrize("rule", ["arithmetic", "geometric", "sixthpower"])
def test_mixed_pairs_are_those_of_lammps(tmp_path: Path, rule: str) -> None:
    own = ["pair_coeff 1 1 0.17 1.2 9.0", "pair_coeff 2 2 0.05 2.1 4.0"]
    commands = ["pair_style lj/cut 10.0", *own, f"pair_modify mix {rule}"]
    distances = [1.7, 5.5, 6.4, 6.49, 6.51, 7.5]
    found = energies_of_lammps(tmp_path, [([[0, 0, 0], [r, 0, 0]], commands, "evdwl") for r in distances])
    rows = [
        {"name": "1", "itom": "1", "jtom": "1", "epsilon": 0.17, "sigma": 1.2, "cutoff": 9.0},
        {"name": "2", "itom": "2", "jtom": "2", "epsilon": 0.05, "sigma": 2.1, "cutoff": 4.0},
    ]
    forcefield = single("pair", "lj/cut", rows, params={"mixing": rule})
    system = Frame({"atoms": Block({"type": ["1", "2"]})})
    mixed = resolve(system, forcefield).pair("1", "2")[0].parameters
    for r, expected in zip(distances, found, strict=True):
        inside = energy("pair.lj/cut", 1, mixed, {"r": r})
        assert (inside if r < mixed["cutoff"] else 0.0) == pytest.approx(expected, rel=1e-12), r


# --- expressions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-a^2", -9.0),
        ("a^-2", 1 / 9),
        ("a^b^2", 3.0**16),
        ("2-3-4", -5.0),
        ("8/4/2", 1.0),
        ("-2*-3", 6.0),
        ("1.5e1+.5", 15.5),
        ("c;c=d*2;d=a+1", 8.0),
        ("select(step(a-3),10,20)+delta(0)+min(1,2)+max(1,2)", 14.0),
        ("sqrt(a+6)+abs(-1)+square(2)+cube(2)+recip(4)", 16.25),
        ("atan2(0,-1)", pi),
        (" ( a ) ;", 3.0),
    ],
)
def test_expressions(text: str, value: float) -> None:
    assert Expression(text).evaluate({"a": 3.0, "b": 4.0}) == pytest.approx(value)


def test_a_definition_may_only_use_those_to_its_right() -> None:
    assert Expression("x;x=y+1;y=2").evaluate({}) == 3.0
    with pytest.raises(UnsupportedError, match="needs 'y', which has no value"):
        Expression("x;y=2;x=y+1").evaluate({})


MALFORMED = ["", "a b", "1+", "nothing(2)", "sin(1,2)", "a=2", "2;a", "é", "1 2", "a..b", "2^", "a[0]", "a.b"]


@pytest.mark.parametrize(
    "text", [*MALFORMED, "(" * 3000, "-" * 3000 + "1", "1" * 200_000, "__import__('os')", "lambda: 1"]
)
def test_malformed_expressions(text: str) -> None:
    with pytest.raises(UnsupportedError):
        Expression(text)


def test_long_sums_and_division_by_zero() -> None:
    assert Expression("+".join(["a"] * 20_000)).evaluate({"a": 1.0}) == 20_000.0
    assert math.isinf(Expression("1/a").evaluate({"a": 0.0}))


def test_geometry_of_points() -> None:
    a, b, c = np.eye(3)
    zero = np.zeros(3)
    values = {"p1": a, "p2": zero, "p3": b, "p4": b + c}
    assert Expression("distance(p1,p3)").evaluate(values) == pytest.approx(math.sqrt(2))
    assert Expression("angle(p1,p2,p3)").evaluate(values) == pytest.approx(pi / 2)
    assert Expression("dihedral(p1,p2,p3,p4)").evaluate(values) == pytest.approx(-pi / 2)


# --- the registry -----------------------------------------------------------------------------------------------------


def test_a_plugin_extends_the_registry() -> None:
    mine = StyleDefinition(
        "bond", "fene", (Parameter("K", "E/L^2"), Parameter("R0", "L")), "-0.5*K*R0^2*log(1-(r/R0)^2)"
    )
    registry = STANDARD.extended([mine])
    assert registry.find("bond", "fene", 1) is mine
    assert len(registry) == len(STANDARD) + 1
    assert len(registry.extended([mine])) == len(registry)


@pytest.mark.parametrize(
    ("style", "words"),
    [
        (StyleDefinition("bond", "harmonic", (Parameter("k"),)), "registered twice"),
        (StyleDefinition("bond", "x", (Parameter("k", "energy"),)), "has no dimension"),
        (StyleDefinition("bond", "x", (Parameter("k", mixing="both"),)), "mixes in no known way"),
        (StyleDefinition("bond", "x", definitions=(3,)), "definitions there are not"),
        (StyleDefinition("bond", "x", expression="k*"), "malformed"),
    ],
)
def test_styles_that_cannot_be_registered(style: StyleDefinition, words: str) -> None:
    with pytest.raises((UsageError, UnsupportedError), match=words):
        STANDARD.extended([style])
    assert isinstance(STANDARD, Registry)
