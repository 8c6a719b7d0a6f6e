"""The independent implementation prices what the mapping writes in definitions 2 as LAMMPS does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from independent import run_independent
from test_lammps_energies import BONDED, bonded_potential, energy, points_of

from molrec_convert.report import Report
from molrec_lammps.potential.record import force_field
from molrec_lammps.potential.to_lammps import table_rows

pytestmark = pytest.mark.interop

#: Styles both sides have, by category.
STYLES = {
    "bond": ("harmonic", "morse", "class2"),
    "angle": ("harmonic", "charmm"),
    "dihedral": ("opls", "charmm", "harmonic", "fourier", "multi/harmonic", "nharmonic"),
    "improper": ("harmonic", "cvff"),
}

PRICE = """
from molrs.ff import style_registry
from molrs.ff.compile import ExplicitTerms
from molrs.ff.potential import Potentials

found = {}
for key, (category, style, atoms, points, row, expression) in json.loads(Path(sys.argv[1]).read_text()).items():
    if expression is not None:
        parameters = {name: "1" for name in row}
        style_registry.register_style(category, style, params=parameters, expression=expression)
    terms = Potentials()
    terms.push(ExplicitTerms(category, style, [atoms], **row).compile())
    found[key] = float(terms.evaluate(np.array(points).ravel())[0])
print(json.dumps(found))
"""


def test_energies_are_those_of_the_independent_implementation(tmp_path: Path) -> None:
    """Those of styles it knows, and those the record has a formula for, which it takes from there."""
    cases, expected = {}, {}
    for category, styles in BONDED.items():
        for style in styles:
            forcefield = force_field(bonded_potential(category, style), Report(), definitions=2)
            points = points_of(category, style)
            for entry in forcefield.of_category(category):
                (row,) = table_rows(forcefield.tables[entry.block])
                numbers = {name: value for name, value in row.items() if isinstance(value, float)}
                if not numbers or (entry.expression is None and style not in STYLES[category]):
                    continue
                atoms = list(range({"bond": 2, "angle": 3}.get(category, 4)))
                key = f"{category} {entry.style}"
                cases[key] = [category, entry.style, atoms, points.tolist(), numbers, entry.expression]
                expected[key] = energy(forcefield, category, style, only=entry.style)
    assert len(cases) > 50
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    found = json.loads(run_independent(PRICE, tmp_path / "cases.json"))
    assert found == pytest.approx(expected, rel=1e-9)


JUDGE = """
from molrs.core import Block

verdicts = {}
for name, (document, tables) in json.loads(Path(sys.argv[1]).read_text()).items():
    blocks = {}
    for table, columns in tables.items():
        blocks[table] = Block()
        for key, (dtype, values, mask) in columns.items():
            blocks[table].insert(key, values if dtype == "string" else np.array(values, dtype), mask)
    try:
        there = mrec.ForceFieldSection(document, blocks)
        there.validate()
        forcefield = there.to_forcefield()
        categories = ("bond", "angle", "dihedral", "improper")
        verdicts[name] = {c: sorted({kind.name for kind in forcefield.get_types(c)}) for c in categories}
    except (ValueError, TypeError) as error:
        verdicts[name] = str(error)
print(json.dumps(verdicts))
"""


def test_force_fields_of_the_reference_systems_are_read(corpus: Path, tmp_path: Path) -> None:
    import molrec_convert
    from molrec_lammps.potential.record import potential_of

    cases, expected = {}, {}
    for script in sorted((corpus / "energies").glob("*/in.lmp")):
        record = molrec_convert.read(script)
        assert record.forcefield is not None
        later = force_field(potential_of(record.forcefield), Report(), definitions=2, directory=script.parent)
        tables = {
            name: {
                key: ["string" if column.dtype == "string" else "float64", column.values.tolist(), masked(column)]
                for key, column in table.columns.items()
            }
            for name, table in later.tables.items()
        }
        cases[script.parent.name] = [later.document, tables]
        expected[script.parent.name] = {
            category: sorted(
                {name for style in later.of_category(category) for name in later.tables[style.block]["name"].tolist()}
            )
            for category in ("bond", "angle", "dihedral", "improper")
        }
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    assert json.loads(run_independent(JUDGE, tmp_path / "cases.json")) == expected


def masked(column: object) -> list[bool] | None:
    validity = column.validity  # type: ignore[attr-defined]
    return None if validity is None else validity.tolist()
