"""What a record says of the energy of a style is what LAMMPS computes: expressions evaluated, and `run 0`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from lammps_runs import lammps, needs_lammps

from molrec_convert.model import ForceField
from molrec_convert.model.forcefield.expression import Expression
from molrec_convert.model.forcefield.registry import STANDARD
from molrec_convert.model.forcefield.units import angle_unit
from molrec_convert.report import Report
from molrec_lammps.potential.potential import Coefficient, Potential, PotentialStyle
from molrec_lammps.potential.record import force_field, potential_of
from molrec_lammps.potential.style_table import style_rows
from molrec_lammps.potential.to_lammps import table_rows

POINTS = np.array([[0.03, 0.02, -0.05], [1.43, 0.11, 0.2], [1.92, 1.38, 0.02], [3.15, 1.51, 0.81]])
#: Around the second and, mirrored, around the first atom.
IMPROPER = np.array([[0.9, 0.31, -0.25], [0.02, 0.01, 0.03], [-0.62, 0.93, 0.1], [-0.41, -0.77, 0.36]])
IMPROPER_FIRST = IMPROPER[[1, 0, 2, 3]]
CHARGES = (0.41, -0.33)
DISTANCE = 3.7

#: Category → style → coefficients (of cross terms by their word), behind `|` the arguments of the style.
BONDED: dict[str, dict[str, Any]] = {
    "bond": {
        "harmonic": "250.5 1.38",
        "morse": "90.0 1.8 1.3",
        "class2": "1.35 300.1 -400.5 500.25",
        "fene": "30.0 2.5 0.3 1.2",
        "fene/expand": "30.0 2.5 0.3 1.2 0.1",
        "fene/nm": "30.0 2.5 0.3 1.6 12 6",
        "gromos": "120.5 1.3",
        "harmonic/shift": "20.5 1.2 2.0",
        "harmonic/shift/cut": "20.5 1.2 2.0",
        "mm3": "200.0 1.36",
        "nonlinear": "100.0 1.2 1.5",
        "zero": "1.5",
    },
    "angle": {
        "harmonic": "58.35 112.7",
        "charmm": "33.43 110.1 22.53 2.179",
        "class2": {"": "111.2 50.1 -7.5 3.25", "bb": "3.4 1.4 1.3", "ba": "12.5 -7.25 1.4 1.3"},
        "class2/p6": {"": "111.2 50.1 -7.5 3.25 2.5 1.25", "bb": "3.4 1.4 1.3", "ba": "12.5 -7.25 1.4 1.3"},
        "cosine": "75.0",
        "cosine/delta": "75.0 100.5",
        "cosine/periodic": "75.0 -1 3",
        "cosine/shift": "10.0 100.5",
        "cosine/shift/exp": "10.0 100.5 2.0",
        "cosine/squared": "75.0 100.5",
        "cosine/squared/restricted": "75.0 100.5",
        "cross": "200.0 100.0 90.0 1.2 1.5 110.5",
        "fourier": "75.0 1.0 0.5 0.25",
        "fourier/simple": "75.0 -1.0 2.5",
        "mm3": "60.0 105.5",
        "quartic": "107.5 40.0 -10.0 5.5",
        "zero": "",
    },
    "dihedral": {
        "charmm": "0.16 3 160 0",
        "class2": {
            "": "1.1 10.5 0.7 -20.25 0.3 30.0",
            "mbt": "1.1 0.9 0.7 1.2",
            "ebt": "1.1 0.9 0.7 0.6 0.5 0.4 1.35 1.25",
            "at": "1.1 0.9 0.7 0.6 0.5 0.4 110.5 105.25",
            "aat": "4.5 110.5 105.25",
            "bb13": "7.5 1.3 1.4",
        },
        "cosine/shift/exp": "10.0 35.5 2.0",
        "cosine/squared/restricted": "5.0 35.5",
        "fourier": "3 1.3 1 180.0 -0.4 2 35.5 0.7 4 0.0",
        "harmonic": "1.5 -1 2",
        "helix": "1.5 0.7 0.3",
        "multi/harmonic": "1.5 0.7 -0.3 0.25 0.1",
        "nharmonic": "4 1.5 0.7 -0.3 0.25",
        "opls": "1.3 -0.05 0.2 0.4",
        "quadratic": "8.0 -170.5",
        "zero": "",
    },
    "improper": {
        "harmonic": "4.5 35.5",
        "cvff": "1.5 -1 2",
        "class2": {"": "35.5 3.25", "aa": "4.5 3.5 2.5 110.5 105.25 120.0"},
        "cossq": "45.0 20.5",
        "distance": "12.5 3.5",
        "distharm": "12.5 0.3",
        "sqdistharm": "12.5 0.2",
        "fourier": "14.5 1.0 0.5 0.25",
        "inversion/harmonic": "14.5 20.5",
        "ring": "0.75 120.5",
        "umbrella": "14.5 20.5",
        "zero": "",
    },
}
#: Styles whose central atom is the first.
FIRST = ("distance", "distharm", "sqdistharm", "fourier", "inversion/harmonic", "umbrella")

PAIRS: dict[str, str] = {
    "lj/cut": "8.0 | 0.12 3.3",
    "lj/cut/coul/cut": "8.0 9.0 | 0.12 3.3",
    "lj/class2": "8.0 | 0.12 3.3",
    "lj/class2/coul/cut": "8.0 | 0.12 3.3",
    "lj/charmm/coul/charmm": "3.0 8.0 | 0.12 3.3",
    "buck": "8.0 | 1000.0 0.3 20.0",
    "buck/coul/cut": "8.0 | 1000.0 0.3 20.0",
    "morse": "8.0 | 0.2 2.1 2.5",
    "coul/cut": "8.0 | ",
    "lj/expand": "8.0 | 0.12 3.3 0.4",
    "lj96/cut": "8.0 | 0.12 3.3",
    "mie/cut": "8.0 | 0.12 3.3 11.5 5.5",
    "lj/smooth/linear": "8.0 | 0.12 3.3",
    "lj/sf": "8.0 | 0.12 3.3",
    "born": "8.0 | 2.5 0.35 1.8 29.0 141.0",
    "born/gauss": "8.0 | 82.4 2.48 0.42 0.44 3.56",
    "yukawa": "0.5 8.0 | 13.5",
    "coul/debye": "0.5 8.0 | ",
    "coul/slater/cut": "0.9 8.0 | ",
    "soft": "8.0 | 2.6",
    "gauss": "8.0 | 2.6 0.13",
    "gauss/cut": "8.0 | 2.6 3.2 0.65",
    "harmonic/cut": " | 2.6 4.5",
    "nm/cut": "8.0 | 0.02 2.5 12.0 6.0",
    "ufm": "8.0 | 10.0 3.2",
    "pedone": "8.0 | 0.03 2.24 2.92 5.0",
    "dpd": "300.0 8.0 4711 | 25.0 4.5",
    "lj/cut/soft": "1.0 0.5 8.0 | 0.12 3.3 0.7",
    "zero": "8.0 | ",
}

_RUN = """
import pathlib
out["energies"] = {}
for key, commands in json.loads(pathlib.Path("cases.json").read_text()).items():
    lmp.command("clear")
    for line in commands:
        lmp.command(line)
    lmp.command("run 0 post no")
    out["energies"][key] = [lmp.get_thermo(name) for name in ("ebond", "eangle", "edihed", "eimp", "evdwl", "ecoul")]
"""


def start(atoms: np.ndarray) -> list[str]:
    lines = ["units real", "atom_style full", "boundary f f f", "comm_modify vel yes cutoff 20.0"]
    lines.append("region box block -20 20 -20 20 -20 20")
    lines.append(
        "create_box 2 box bond/types 1 angle/types 1 dihedral/types 1 improper/types 1 extra/bond/per/atom 3 "
        "extra/angle/per/atom 3 extra/dihedral/per/atom 3 extra/improper/per/atom 3 extra/special/per/atom 6"
    )
    for n, (x, y, z) in enumerate(atoms.tolist()):
        lines.append(f"create_atoms {1 if n == 0 else 2} single {x!r} {y!r} {z!r}")
    return [
        *lines,
        "mass * 12.0",
        "thermo_style custom step ebond eangle edihed eimp evdwl ecoul",
        "thermo_modify norm no",
    ]


def points_of(category: str, style: str) -> np.ndarray:
    if category != "improper":
        return POINTS
    return IMPROPER_FIRST if style in FIRST else IMPROPER


def bonded_potential(category: str, style: str) -> Potential:
    given = BONDED[category][style]
    parts = given if isinstance(given, dict) else {"": given}
    potential = Potential(units="real", type_counts={"atom": 2, category: 1})
    potential.styles[category] = [PotentialStyle(style)]
    potential.coefficients = [Coefficient(category, (1,), tuple(w.split()), part=part) for part, w in parts.items()]
    return potential


def bonded_case(potential: Potential, category: str, style: str) -> list[str]:
    count = {"bond": 2, "angle": 3}.get(category, 4)
    lines = start(points_of(category, style)[:count])
    lines += ["pair_style zero 15.0", "pair_coeff * *", "special_bonds lj/coul 1 1 1"]
    lines += [f"{category}_style {used.name} {' '.join(used.args)}" for used in potential.styles[category]]
    lines += [f"{category}_coeff 1 {row.part} {' '.join(row.words)}" for row in potential.coefficients]
    # Terms that need not be there are set to nothing, where LAMMPS wants all.
    if style.startswith("class2") and category == "angle" and not any(row.part for row in potential.coefficients):
        lines += ["angle_coeff 1 bb 0 1 1", "angle_coeff 1 ba 0 0 1 1"]
    return [*lines, f"create_bonds single/{category} 1 {' '.join(map(str, range(1, count + 1)))}"]


def pair_potential(style: str) -> Potential:
    args, _, words = PAIRS[style].partition("|")
    potential = Potential(units="real", type_counts={"atom": 2})
    potential.styles["pair"] = [PotentialStyle(style, tuple(args.split()))]
    rows = [(1, 1), (1, 2), (2, 2)]
    potential.coefficients = [Coefficient("pair", pair, tuple(words.split())) for pair in rows]
    return potential


def pair_case(potential: Potential) -> list[str]:
    lines = start(np.array([[0.0, 0.0, 0.0], [DISTANCE, 0.0, 0.0]]))
    lines += [f"set atom {n + 1} charge {charge}" for n, charge in enumerate(CHARGES)]
    lines += [f"pair_style {used.name} {' '.join(used.args)}" for used in potential.styles["pair"]]
    rows = potential.coefficients
    return lines + [f"pair_coeff {row.types[0]} {row.types[1]} {' '.join(row.words)}" for row in rows]


def cases() -> dict[str, tuple[str, str, Potential]]:
    found = {f"{c} {style}": (c, style, bonded_potential(c, style)) for c in BONDED for style in BONDED[c]}
    return found | {f"pair {style}": ("pair", style, pair_potential(style)) for style in PAIRS}


@pytest.fixture(scope="module")
def energies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """What LAMMPS computes of each case: as stated, and from both definitions of the record back again."""
    commands: dict[str, list[str]] = {}
    for key, (category, style, potential) in cases().items():
        versions = {"": potential}
        for definitions in (1, 2):
            versions[f" {definitions}"] = potential_of(force_field(potential, Report(), definitions=definitions))
        for suffix, version in versions.items():
            commands[key + suffix] = pair_case(version) if category == "pair" else bonded_case(version, category, style)
    directory = tmp_path_factory.mktemp("energies")
    (directory / "cases.json").write_text(json.dumps(commands))
    out = lammps(directory, _RUN)
    assert "error" not in out, (out["error"], list(out["energies"])[-1:])
    return out["energies"]


def variables(category: str, points: np.ndarray) -> dict[str, Any]:
    named = {f"p{n + 1}": point for n, point in enumerate(points)}
    if category == "pair":
        return {"r": DISTANCE, "q1": CHARGES[0], "q2": CHARGES[1], "coulomb": 332.06371, "dielectric": 1.0}
    text = {"bond": "r=distance(p1,p2)", "angle": "theta=angle(p1,p2,p3)"}.get(category, "phi=dihedral(p1,p2,p3,p4)")
    name, _, formula = text.partition("=")
    value = Expression(formula).evaluate(named)
    return {**named, name: value, **({"chi": abs(value)} if category == "improper" else {})}


def energy(forcefield: ForceField, category: str, style: str, *, only: str | None = None) -> float:
    """The sum of all tables of a category (or of one), by the formulas the registry and the record state."""
    total = 0.0
    known = variables(category, points_of(category, style))
    for entry in forcefield.of_category(category):
        if only is not None and entry.style != only:
            continue
        table = forcefield.tables[entry.block]
        registered = STANDARD.find(category, entry.style, forcefield.definitions)
        formula = entry.expression
        defaults: dict[str, Any] = {}
        if registered is not None:
            angle = angle_unit(forcefield.units, forcefield.definitions)
            formula = registered.formula(forcefield.definitions, table.columns, str(angle))
            parameters = (*registered.parameters, *registered.style_parameters)
            defaults = {p.named(forcefield.definitions): p.default for p in parameters if p.default is not None}
        assert formula is not None, entry.name
        rows = table_rows(table) or [{}]
        row = rows[0] if category != "pair" else next((r for r in rows if r.get("name") == "1-2"), {})
        total += float(Expression(formula).evaluate({**known, **defaults, **entry.params, **row}))
    return total


@needs_lammps
@pytest.mark.parametrize("key", cases())
@pytest.mark.parametrize("definitions", [1, 2])
def test_energies_are_those_of_lammps(energies: dict[str, list[float]], key: str, definitions: int) -> None:
    category, style, potential = cases()[key]
    forcefield = force_field(potential, Report(), definitions=definitions)
    expected = sum(energies[key])
    assert energies[f"{key} {definitions}"] == pytest.approx(energies[key], rel=1e-13, abs=1e-300)
    if style not in ("zero",):
        assert expected != 0.0
    assert energy(forcefield, category, style) == pytest.approx(expected, rel=2e-9)


def test_every_formula_of_the_table_is_checked_or_known_why_not() -> None:
    """Styles with a formula that need more than four plain atoms, or other styles beside them."""
    others = {"charmmfsw", "quartic", "oxdna/fene", "oxdna2/fene", "oxrna2/fene", "none", "amoeba"}
    checked = {(c, style) for c in BONDED for style in BONDED[c]} | {("pair", style) for style in PAIRS}
    open_ones = {(r.category, r.style) for r in style_rows().values() if r.expression is not None} - checked
    assert {style for _, style in open_ones} <= others
