"""Force fields exchanged, as documents and tables, with the independent implementation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from independent import run_independent
from layout_examples.peroxide import peroxide
from test_forcefield import DOCUMENTS, TABLES
from test_forcefield_definitions import forcefield_of as forcefield_of_style
from test_forcefield_definitions import registered

from molrec_convert.formats import WriteContext
from molrec_convert.model import Block, Column, Record
from molrec_convert.model.forcefield.definitions import to_definitions
from molrec_convert.model.forcefield.document import ForceField, table_from_rows
from molrec_convert.model.names import escape_name
from molrec_convert.stores.zarr.record import open_record
from molrec_convert.stores.zarr.record_writer import write_record

pytestmark = pytest.mark.interop
CONTEXT = WriteContext(creator=False)

TAKE = """
from molrs.core import Block

def section(parts):
    tables = {}
    for name, columns in parts["tables"].items():
        block = Block()
        for key, (dtype, values, mask) in columns.items():
            block.insert(key, values if dtype == "string" else np.array(values, dtype), mask)
        tables[name] = block
    return mrec.ForceFieldSection(parts["document"], tables)

def parts_of(section):
    tables = {}
    for name, block in section.tables.items():
        columns = {}
        for key in block.keys():
            values, mask = block[key], block.validity(key)
            dtype = "string" if values.dtype.kind == "U" else values.dtype.name
            columns[key] = [dtype, values.tolist(), None if mask is None else [bool(flag) for flag in mask]]
        tables[name] = columns
    return {"document": section.document, "tables": tables}

"""

JUDGE = """
verdicts = {}
for name, parts in json.loads(Path(sys.argv[1]).read_text()).items():
    try:
        section(parts).validate()
        verdicts[name] = ""
    except (ValueError, TypeError) as error:
        verdicts[name] = str(error)
print(json.dumps(verdicts))
"""

RETURN = """
parts = json.loads(Path(sys.argv[1]).read_text())
there = section(parts)
there.validate()
molrs.io.write_mrec(Path(sys.argv[2]), meta={}, forcefield=there)
print(json.dumps(parts_of(mrec.MrecFile(Path(sys.argv[2])).forcefield())))
"""

TYPES = """
there = section(json.loads(Path(sys.argv[1]).read_text()))
forcefield = there.to_forcefield()
found = {}
for category in ("bond", "angle", "dihedral", "pair"):
    for kind in forcefield.get_types(category):
        found[f"{category} {kind.name}"] = {key: value for key, value in kind.items()}
print(json.dumps([forcefield.units, found]))
"""

EVERY = """
found = {}
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        there = mrec.MrecFile(path).forcefield()
    except ValueError as error:
        found[path.name] = str(error)
        continue
    there.validate()
    compiled, types = there.to_forcefield(), {}
    for category in ("atom", "bond", "angle", "dihedral", "improper", "pair"):
        for kind in compiled.get_types(category):
            types[kind.name] = {key: value for key, value in kind.items()}
    found[path.name] = [parts_of(there), types]
print(json.dumps(found))
"""

MADE = """
forcefield = molrs.ff.forcefield.ForceField("demo", "real")
atom = forcefield.def_style("atom", "full")
h, o = (atom.def_type(n, mass=m, charge=q) for n, m, q in (("H1", 1.008, 0.41), ("O1", 15.999, -0.41)))
forcefield.def_style("bond", "harmonic").def_type("O1-H1", o, h, k=553.0, r0=0.967)
forcefield.def_style("angle", "harmonic").def_type("H1-O1-O1", h, o, o, k=50.0, theta0=100.2)
lj = forcefield.def_style("pair", "lj/cut", {"cutoff": 10.0, "mixing": "geometric"})
lj.def_type("O1", o, epsilon=0.17, sigma=3.0)
forcefield.def_style("pair", "coul/cut", {"coulomb": 332.0, "cutoff": 10.0})
forcefield.set_special_bonds([0, 0, 0.5], [0, 0, 0.8333])
print(json.dumps(parts_of(mrec.ForceFieldSection.from_forcefield(forcefield))))
"""


def parts_of(forcefield: ForceField) -> dict[str, Any]:
    """Document and tables as JSON."""
    tables = {}
    for name, block in forcefield.tables.items():
        tables[name] = {
            key: [
                "string" if column.dtype == "string" else column.values.dtype.name,
                column.values.tolist(),
                None if column.validity is None else column.validity.tolist(),
            ]
            for key, column in block.columns.items()
        }
    return {"document": forcefield.document, "tables": tables}


def forcefield_of(parts: dict[str, Any]) -> ForceField:
    tables = {}
    for name, columns in parts["tables"].items():
        tables[name] = Block(
            {
                key: Column(
                    np.array(values, np.dtypes.StringDType() if dtype == "string" else dtype),
                    None if mask is None else np.array(mask),
                )
                for key, (dtype, values, mask) in columns.items()
            }
        )
    return ForceField.from_parts(parts["document"], tables)


def judged(forcefields: dict[str, ForceField], folder: Path) -> dict[str, str]:
    (folder / "parts.json").write_text(json.dumps({name: parts_of(made) for name, made in forcefields.items()}))
    found: dict[str, str] = json.loads(run_independent(TAKE + JUDGE, folder / "parts.json"))
    return found


def good() -> dict[str, ForceField]:
    """Force fields both accept, in definitions 2 where that matters to the other."""
    second = to_definitions(peroxide(), 2)
    more = to_definitions(peroxide(), 2)
    more.add("pair", "coul/cut", table_from_rows("pair", []), params={"coulomb": 332.06371, "cutoff": 10.0})
    more.add(
        "bond", "fene", table_from_rows("bond", [{"name": "x", "itom": "O1", "jtom": "", "R0": 1.5}]), expression="r-R0"
    )
    grid = table_from_rows("cmap", [{"name": "1", **{f"{letter}tom": "O1" for letter in "ijklm"}}])
    grid.columns["grid"] = Column(np.arange(16.0).reshape(1, 4, 4))
    more.add("cmap", "charmm", grid)
    more.tables["notes"] = Block({"id": np.array([2**63], dtype=np.uint64)})
    more.document["doi"] = "10.1/x"
    return {"first": peroxide(), "second": second, "more": more}


@pytest.mark.slow
def test_what_we_accept_is_accepted(tmp_path: Path) -> None:
    for made in good().values():
        made.check()
    assert judged(good(), tmp_path) == dict.fromkeys(good(), "")


#: Rules of the contract that the other does not check, and one number it cannot take.
UNCHECKED = frozenset(
    {
        *("no styles", "blank", "cutoff", "expression", "huge param"),
        *("array", "grid elsewhere", "precision", "box", "name of a block"),
    }
)


def test_what_we_refuse_is_refused(tmp_path: Path) -> None:
    """The other refuses too what the checklist names; it checks less than the whole contract."""
    made = {}
    for name, (change, _, _) in DOCUMENTS.items():
        if name not in UNCHECKED:
            made[f"document {name}"] = to_definitions(peroxide(), 2)
            change(made[f"document {name}"].document)
    for name, (apply, _, _) in TABLES.items():
        if name not in UNCHECKED:
            made[f"table {name}"] = to_definitions(peroxide(), 2)
            apply(made[f"table {name}"])
    verdicts = judged(made, tmp_path)
    assert [name for name, verdict in verdicts.items() if not verdict] == []
    assert len(verdicts) > 30


@pytest.mark.parametrize("name", ["first", "second", "more"])
def test_documents_and_tables_pass_through_its_store(name: str, tmp_path: Path) -> None:
    (tmp_path / "parts.json").write_text(json.dumps(parts_of(good()[name])))
    back = json.loads(run_independent(TAKE + RETURN, tmp_path / "parts.json", tmp_path / "x.mrec"))
    assert forcefield_of(back) == good()[name]


def test_numbers_in_definitions_2_mean_to_it_what_they_mean_to_us(tmp_path: Path) -> None:
    (tmp_path / "parts.json").write_text(json.dumps(parts_of(to_definitions(peroxide(), 2))))
    units, types = json.loads(run_independent(TAKE + TYPES, tmp_path / "parts.json"))
    assert units == "real"
    assert types["bond O1-H1"] == {"k": 553.0, "r0": 0.967}
    assert types["angle H1-O1-O1"]["k"] == 50.0
    assert types["dihedral X-O1-O1-X"] == {"k1": 0.5, "periodicity1": 3.0, "phase1": 0.0}


def test_its_force_fields_follow_definitions_2(tmp_path: Path) -> None:
    made = forcefield_of(json.loads(run_independent(TAKE + MADE)))
    made.check()
    assert made.definitions == 2
    assert made.minimum_version == 1
    first = to_definitions(made, 1)
    assert first.table("bond", "harmonic")["k"].tolist() == [1106.0]
    assert to_definitions(first, 2) == made


#: Categories whose numbers the other does not compile into types.
NOT_COMPILED = frozenset({"cmap", "constraint", "drude", "pair14", "virtual_site"})


def test_every_registered_style_is_read_from_our_stores(tmp_path: Path) -> None:
    """Document and tables in either definitions; what is written in definitions 2 it takes number by number.

    Definitions 1 are those of the page, which state no angle: with radians beside a preset the other refuses the
    section, so that nobody takes its numbers for degrees.
    """
    made: dict[str, ForceField] = {}
    for definitions in (1, 2):
        for seed, style in enumerate(registered(definitions)):
            forcefield = forcefield_of_style(style, definitions, seed)
            name = f"{definitions} {escape_name(f'{style.category}.{style.style}')}"
            if definitions == 1:
                write_record(Record(forcefield=forcefield), tmp_path / "stores" / f"{name} radian", CONTEXT)
                forcefield = forcefield_of_style(style, definitions, seed)
                forcefield.document["units"] = {"preset": "real"}
            write_record(Record(forcefield=forcefield), tmp_path / "stores" / name, CONTEXT)
            made[name] = forcefield
            assert forcefield.definitions == definitions
    found = json.loads(run_independent(TAKE + EVERY, tmp_path / "stores"))
    refused = {name.removesuffix(" radian"): found.pop(name) for name in list(found) if name.endswith(" radian")}
    assert set(refused) == {name for name in made if name[0] == "1"}
    assert all("radian" in words and "degree" in words for words in refused.values())
    assert set(found) == set(made)
    for name, (parts, types) in found.items():
        forcefield = made[name]
        assert forcefield_of(parts) == forcefield, name
        style = forcefield.styles[0]
        if name[0] == "2" and style.category not in NOT_COMPILED:
            table = forcefield.tables[style.block]
            numbers = {key: table[key].tolist()[0] for key in table if table.columns[key].dtype == "f64"}
            assert types == {"x": numbers}, name
    assert len(found) > 50


BACK = """
for path in sorted(Path(sys.argv[1]).iterdir()):
    compiled = mrec.MrecFile(path).forcefield().to_forcefield()
    molrs.io.write_mrec(Path(sys.argv[2]) / path.name, meta={}, forcefield=compiled)
"""


def test_every_registered_style_it_writes_is_read_by_definitions_2(tmp_path: Path) -> None:
    """It compiles what we wrote and writes it in words of its own: a preset, every unit, degrees."""
    made: dict[str, ForceField] = {}
    for seed, style in enumerate(registered(2)):
        name = escape_name(f"{style.category}.{style.style}")
        made[name] = forcefield_of_style(style, 2, seed)
        write_record(Record(forcefield=made[name]), tmp_path / "ours" / name, CONTEXT)
    (tmp_path / "theirs").mkdir()
    run_independent(BACK, tmp_path / "ours", tmp_path / "theirs")
    for name, ours in made.items():
        with open_record(tmp_path / "theirs" / name) as record:
            theirs = record.forcefield
            assert theirs is not None
            assert theirs.definitions == 2
            assert theirs.units["preset"] == "real"
            assert theirs.units["angle"] == "degree"
            block = ours.styles[0].block
            assert {key: c for key, c in theirs.tables[block].columns.items() if c.dtype == "f64"} == {
                key: c for key, c in ours.tables[block].columns.items() if c.dtype == "f64"
            }
