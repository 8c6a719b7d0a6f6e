"""Force fields: the document, the tables, and every refusal of the chapter. Source: Force field; Conformance."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forcefields import nullable, single
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_examples.peroxide import peroxide
from layout_examples.records import build_peroxide

from molrec_convert.errors import ContractError
from molrec_convert.formats import WriteContext
from molrec_convert.model import Block, Column
from molrec_convert.model.forcefield.categories import CATEGORIES, block_name, split_block_name
from molrec_convert.model.forcefield.document import ForceField, table_from_rows
from molrec_convert.model.forcefield.units import unit_of
from molrec_convert.quantities.units import PRESETS, QUANTITIES, dimension_fault, same_unit
from molrec_convert.stores.zarr.record_writer import write_record
from molrec_convert.stores.zarr.sections.frames import read_frame
from molrec_convert.stores.zarr.v3.storage import read_document
from molrec_convert.stores.zarr.v3.zip_storage import open_storage


def refused(forcefield: ForceField, node: str, words: str) -> None:
    """The force field is refused at the node, in these words, and for nothing else."""
    found = [(fault.node, str(fault)) for fault in forcefield.faults()]
    assert [place for place, _ in found] == [node], found
    assert words in found[0][1]
    with pytest.raises(ContractError, match="forcefield"):
        forcefield.check()


# --- what must hold ---------------------------------------------------------------------------------------------------


def test_minimal() -> None:
    forcefield = ForceField({"name": "none", "units": {"preset": "lj"}, "styles": []})
    forcefield.check()
    assert forcefield.styles == ()
    assert forcefield.special_bonds is None
    assert forcefield.definitions == 1


def test_full() -> None:
    forcefield = peroxide()
    forcefield.check()
    assert [style.block for style in forcefield.styles] == [
        "atom.full",
        "bond.harmonic",
        "angle.harmonic",
        "dihedral.periodic",
        "pair.lj%2Fcut",
    ]
    assert forcefield.style("pair", "lj/cut").params == {"cutoff": 10.0, "mixing": "geometric"}
    assert forcefield.table("bond", "harmonic")["k"].tolist() == [600.0, 1106.0]
    assert forcefield == ForceField.from_parts(copy.deepcopy(forcefield.document), dict(forcefield.tables))


def test_wildcards_absent_params_and_string_params() -> None:
    tables = peroxide().tables
    torsion = tables["dihedral.periodic"]
    assert torsion["itom"].tolist() == ["H1", ""]
    assert torsion.validity("k2").tolist() == [True, False]
    assert torsion.stored("k2").tolist() == [0.8, 0.0]
    assert torsion["k2"][0] == 0.8
    assert np.isnan(torsion["k2"][1])
    assert tables["atom.full"]["ptype"].tolist() == ["A", "A"]


@pytest.mark.parametrize(
    ("category", "style", "block"),
    [
        ("pair", "lj/cut/coul/long", "pair.lj%2Fcut%2Fcoul%2Flong"),
        ("bond", "harmonic", "bond.harmonic"),
        ("cross_term", "example", "cross_term.example"),
        ("bond", "a.b %é_-", "bond.a%2Eb%20%25%C3%A9_-"),
    ],
)
def test_name_encoding(category: str, style: str, block: str) -> None:
    assert block_name(category, style) == block
    assert split_block_name(block) == (category, style)


@given(st.sampled_from(sorted(CATEGORIES)), st.text(min_size=1).filter(lambda text: text.isprintable() or True))
def test_any_style_name_is_encoded_and_decoded(category: str, style: str) -> None:
    try:
        style.encode()
    except UnicodeEncodeError:
        with pytest.raises(ContractError):
            block_name(category, style)
        return
    block = block_name(category, style)
    assert set(block.partition(".")[2]) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_%")
    assert split_block_name(block) == (category, style)


@pytest.mark.parametrize("name", ["atoms", ".x", "bond.", "Bond.x", "bond.%2f", "bond.a.b", "bond.%FF", "bond.%41"])
def test_a_block_that_is_no_table_has_no_style(name: str) -> None:
    assert split_block_name(name) is None


def test_cross_rows_and_equal_restatements() -> None:
    rows = [
        {"name": "a", "itom": "A", "jtom": "A", "epsilon": 1.0, "sigma": None},
        {"name": "any name", "itom": "A", "jtom": "B", "epsilon": 0.5, "sigma": 2.0, "desc": "first"},
        {"name": "other", "itom": "B", "jtom": "A", "epsilon": 0.5, "sigma": 2.0, "desc": "second"},
    ]
    single("pair", "lj/cut", rows).check()


def test_two_bond_styles_and_a_style_without_rows() -> None:
    forcefield = peroxide()
    forcefield.add("bond", "morse", table_from_rows("bond", [], ["D", "alpha", "r0"]))
    forcefield.add("pair", "coul/cut", Block(count=0))
    forcefield.check()


def test_unknown_style_with_expression_and_unknown_category() -> None:
    forcefield = peroxide()
    forcefield.add(
        "bond",
        "fene",
        table_from_rows("bond", [{"name": "x", "itom": "O1", "jtom": "O1", "R0": 1.5}]),
        expression="-0.5 * k*R0^2*log(1-(r/R0)^2)",
    )
    forcefield.add(
        "cross_term", "example", table_from_rows("cross_term", [{"name": "c", "itom": "H1", "jtom": "", "ktom": "O1"}])
    )
    forcefield.check()
    assert forcefield.style("bond", "fene").expression == "-0.5 * k*R0^2*log(1-(r/R0)^2)"


def test_array_parameters_and_a_cmap_grid() -> None:
    forcefield = peroxide()
    table = table_from_rows("bond", [{"name": "t", "itom": "O1", "jtom": "O1"}])
    table.columns["energies"] = Column(np.zeros((1, 100)))
    forcefield.add("bond", "table", table)
    forcefield.add("cmap", "charmm", cmap_table(np.arange(18.0).reshape(2, 3, 3)))
    forcefield.check()


def cmap_table(grid: Any, mask: list[bool] | None = None) -> Block:
    """A table of maps for five atoms."""
    ends = {f"{letter}tom": "O1" for letter in "ijklm"}
    table = table_from_rows("cmap", [{"name": str(n), **ends} for n in range(len(grid))])
    table.columns["grid"] = Column(grid, None if mask is None else np.array(mask))
    return table


def test_a_cmap_grid_that_is_null_may_hold_anything() -> None:
    forcefield = peroxide()
    grid = np.zeros((2, 4, 4))
    grid[1] = np.nan
    forcefield.add("cmap", "charmm", cmap_table(grid, [True, False]))
    forcefield.check()


def test_numbers_of_any_units_stay_as_they_are() -> None:
    units = {"length": "nm", "energy": "kJ/mol", "angle": "radian", "charge": "e", "mass": "dalton"}
    forcefield = single(
        "bond", "harmonic", [{"name": "b", "itom": "A", "jtom": "A", "k": 259408.0, "r0": 0.1529}], units
    )
    forcefield.check()
    assert forcefield.units == units
    assert forcefield.table("bond", "harmonic")["k"].tolist() == [259408.0]


def test_smirks_keys() -> None:
    rows = [{"name": "b1", "smirks": "[#6:1]-[#6:2]", "k": 1.0, "r0": 1.5}]
    table = Block({name: [row[name] for row in rows] for row in rows for name in row})
    forcefield = ForceField.new("openff", {"preset": "real"})
    forcefield.add("bond", "harmonic", table, endpoint_key="smirks")
    forcefield.check()


def test_class_keys() -> None:
    forcefield = ForceField.new("classes", {"preset": "real"})
    forcefield.add("atom", "full", table_from_rows("atom", [{"name": "C1", "class": "CT"}]))
    bond = table_from_rows("bond", [{"name": "b", "itom": "CT", "jtom": "CT", "k": 1.0, "r0": 1.0}])
    forcefield.add("bond", "harmonic", bond, endpoint_key="class")
    forcefield.check()


def test_unknown_document_keys_and_tables_are_kept() -> None:
    forcefield = peroxide()
    forcefield.document["doi"] = None
    forcefield.document["styles"][0]["note"] = {"a": [1, 2.5]}
    forcefield.tables["notes"] = Block({"id": np.array([2**63], dtype=np.uint64), "flag": np.array([True])})
    forcefield.tables["bond.unnamed"] = Block({"k": np.array([1], dtype=np.int16)})
    forcefield.check()
    assert forcefield != peroxide()


def test_equality_is_bit_for_bit_and_by_definitions() -> None:
    def with_k(value: float) -> ForceField:
        return single("bond", "harmonic", [{"name": "b", "itom": "", "jtom": "", "k": value}])

    assert with_k(np.nan) == with_k(np.nan)
    assert with_k(0.0) != with_k(-0.0)
    assert ForceField({**peroxide().document}, peroxide().tables, 2) != peroxide()
    reordered = peroxide()
    reordered.document["styles"].reverse()
    assert reordered != peroxide()
    shuffled = peroxide()
    shuffled.tables = dict(reversed(shuffled.tables.items()))
    assert shuffled == peroxide()


def test_a_standard_column_has_its_own_dtype() -> None:
    table = table_from_rows("atom", [{"name": "C", "atomic_number": 6}])
    assert table.columns["atomic_number"].dtype == "u64"
    forcefield = ForceField.new("numbers", {"preset": "real"})
    forcefield.add("atom", "full", table)
    forcefield.check()


def test_a_lookup_of_what_is_not_there_names_what_is() -> None:
    with pytest.raises(KeyError, match=r"no style bond\.morse; the force field has atom\.full, bond\.harmonic"):
        peroxide().table("bond", "morse")


# --- the document -----------------------------------------------------------------------------------------------------

DOCUMENTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str, str]] = {
    "no name": (lambda d: d.pop("name"), "forcefield", "the document has no 'name'"),
    "name": (lambda d: d.update(name=3), "forcefield", "found 3, expected a text"),
    "no units": (lambda d: d.pop("units"), "forcefield", "the document has no 'units'"),
    "units": (lambda d: d.update(units="real"), "forcefield.units", "not a JSON object"),
    "empty units": (lambda d: d.update(units={"note": 1}), "forcefield.units", "neither a preset nor a quantity"),
    "preset": (lambda d: d.update(units={"preset": "lammps"}), "forcefield.units.preset", "unknown preset"),
    "unit": (lambda d: d.update(units={"length": 1}), "forcefield.units.length", "a unit is a text"),
    "blank": (lambda d: d.update(units={"length": " "}), "forcefield.units.length", "a unit is a text"),
    "conflict": (
        lambda d: d.update(units={"preset": "real", "length": "nm"}),
        "forcefield.units.length",
        "found nm, expected angstrom",
    ),
    "angle": (
        lambda d: d.update(units={"preset": "real", "angle": "turn"}),
        "forcefield.units.angle",
        "disagrees with the preset 'real'",
    ),
    "reduced": (
        lambda d: d.update(units={"preset": "lj", "length": "angstrom"}),
        "forcefield.units.length",
        "the preset 'lj' has no unit of length",
    ),
    "no unit": (
        lambda d: d.update(units={"preset": "real", "length": "furlongish"}),
        "forcefield.units.length",
        "disagrees",
    ),
    "no styles": (lambda d: d.pop("styles"), "forcefield", "the document has no 'styles'"),
    "styles": (lambda d: d.update(styles={}), "forcefield", "expected a list"),
    "style": (lambda d: d["styles"].append("bond"), "forcefield.styles[5]", "a style is a JSON object"),
    "twice": (lambda d: d["styles"].append(dict(d["styles"][1])), "forcefield.styles[5]", "the style appears twice"),
    "category": (
        lambda d: d["styles"].append({"category": "Bond", "style": "x"}),
        "forcefield.styles[5]",
        "no lower-case name",
    ),
    "no style": (lambda d: d["styles"].append({"category": "bond"}), "forcefield.styles[5]", "the style has no name"),
    "empty style": (
        lambda d: d["styles"].append({"category": "bond", "style": ""}),
        "forcefield.styles[5]",
        "the style has no name",
    ),
    "expression": (
        lambda d: d["styles"][1].update(expression=["k"]),
        "forcefield.styles[1].expression",
        "an expression is a text",
    ),
    "endpoint key": (
        lambda d: d["styles"][1].update(endpoint_key="smarts"),
        "forcefield.styles[1].endpoint_key",
        "expected type, class, smirks",
    ),
    "params": (lambda d: d["styles"][1].update(params=[1]), "forcefield.styles[1].params", "not a JSON object"),
    "param": (
        lambda d: d["styles"][1].update(params={"a": True}),
        "forcefield.styles[1].params.a",
        "a finite number or a text",
    ),
    "null param": (lambda d: d["styles"][1].update(params={"a": None}), "forcefield.styles[1].params.a", "None"),
    "huge param": (lambda d: d["styles"][1].update(params={"a": 10**400}), "forcefield.styles[1].params.a", "finite"),
    "special": (
        lambda d: d["styles"][4]["params"].update(special="vdw"),
        "forcefield.styles[4].params.special",
        "expected lj, coul",
    ),
    "mixing": (
        lambda d: d["styles"][4]["params"].update(mixing="waldman"),
        "forcefield.styles[4].params.mixing",
        "expected arithmetic, geometric, sixthpower",
    ),
    "cutoff": (
        lambda d: d["styles"][4]["params"].update(cutoff="10"),
        "forcefield.styles[4].params.cutoff",
        "a cutoff is a number",
    ),
    "special bonds": (lambda d: d.update(special_bonds=[1]), "forcefield.special_bonds", "not a JSON object"),
    "weights": (
        lambda d: d.update(special_bonds={"lj": [0, 0], "coul": [0, 0, 1]}),
        "forcefield.special_bonds.lj",
        "no three numbers",
    ),
    "no weights": (
        lambda d: d.update(special_bonds={"lj": [0, 0, 1]}),
        "forcefield.special_bonds.coul",
        "found none",
    ),
    "source": (lambda d: d.update(source={"uri": "x"}), "forcefield.source", "does not say its format"),
    "source uri": (lambda d: d.update(source={"format": "lammps", "uri": 1}), "forcefield.source.uri", "not a text"),
    "infinity": (lambda d: d.update(note=float("inf")), "forcefield.note", "finite numbers only"),
}


@pytest.mark.parametrize("what", DOCUMENTS)
def test_documents_refused(what: str) -> None:
    change, node, words = DOCUMENTS[what]
    forcefield = peroxide()
    change(forcefield.document)
    if what in ("category", "no style", "empty style", "style"):
        assert forcefield.tables  # the tables of the others are still checked
    refused(forcefield, node, words)


def test_a_document_that_is_no_object() -> None:
    refused(ForceField([], {}), "forcefield", "not a JSON object")  # type: ignore[arg-type]


def test_a_style_that_is_not_valid_unicode() -> None:
    forcefield = peroxide()
    forcefield.document["styles"].append({"category": "bond", "style": "\ud800"})
    assert {fault.node for fault in forcefield.faults()} == {"forcefield.styles.style", "forcefield.styles[5]"}


def test_all_faults_are_found() -> None:
    forcefield = peroxide()
    del forcefield.document["name"]
    forcefield.document["units"] = {"preset": "real", "length": "nm", "charge": "C"}
    forcefield.tables["bond.harmonic"].columns["k"] = Column(np.array([1, 2]))
    del forcefield.tables["angle.harmonic"]
    assert [fault.node for fault in forcefield.faults()] == [
        "forcefield",
        "forcefield.units.length",
        "forcefield.units.charge",
        "forcefield/bond.harmonic/k",
        "forcefield/angle.harmonic",
    ]


# --- the tables -------------------------------------------------------------------------------------------------------


def change(table: str, column: str, values: Any) -> Callable[[ForceField], Any]:
    def apply(forcefield: ForceField) -> None:
        forcefield.tables[table].columns[column] = values if isinstance(values, Column) else Column(values)

    return apply


def drop(table: str, column: str) -> Callable[[ForceField], Any]:
    return lambda forcefield: forcefield.tables[table].columns.pop(column)


NULL = np.array([True, False])
TABLES: dict[str, tuple[Callable[[ForceField], Any], str, str]] = {
    "missing table": (
        lambda f: f.tables.pop("bond.harmonic"),
        "forcefield/bond.harmonic",
        "the style bond.harmonic has no table",
    ),
    "no names": (drop("bond.harmonic", "name"), "forcefield/bond.harmonic/name", "have no names"),
    "duplicate name": (
        change("bond.harmonic", "name", ["O1-O1", "O1-O1"]),
        "forcefield/bond.harmonic/name",
        "two rows have one name: found 'O1-O1'",
    ),
    "null name": (
        change("bond.harmonic", "name", Column(np.array(["a", "b"], "T"), NULL)),
        "forcefield/bond.harmonic/name",
        "never null, and is in row 1",
    ),
    "name dtype": (change("bond.harmonic", "name", np.array([1.0, 2.0])), "forcefield/bond.harmonic/name", "string"),
    "arity": (drop("bond.harmonic", "jtom"), "forcefield/bond.harmonic", "found itom, expected itom, jtom"),
    "arity beyond": (
        change("bond.harmonic", "ktom", ["O1", "O1"]),
        "forcefield/bond.harmonic",
        "found itom, jtom, ktom, expected itom, jtom",
    ),
    "arity of atoms": (
        change("atom.full", "itom", ["O1", "O1"]),
        "forcefield/atom.full",
        "found itom, expected none",
    ),
    "null endpoint": (
        change("bond.harmonic", "jtom", Column(np.array(["a", "b"], "T"), NULL)),
        "forcefield/bond.harmonic/jtom",
        "never null",
    ),
    "endpoint dtype": (
        change("bond.harmonic", "jtom", np.array([1.0, 2.0])),
        "forcefield/bond.harmonic/jtom",
        "found f64[T], expected string",
    ),
    "parameter dtype": (
        change("bond.harmonic", "k", np.array([1, 2])),
        "forcefield/bond.harmonic/k",
        "found i64, expected f64 or string",
    ),
    "parameter bool": (
        change("bond.harmonic", "flag", np.array([True, False])),
        "forcefield/bond.harmonic/flag",
        "found bool",
    ),
    "standard dtype": (
        change("atom.full", "mass", ["1", "16"]),
        "forcefield/atom.full/mass",
        "a standard column has its own dtype",
    ),
    "annotation": (
        change("bond.harmonic", "desc", np.array([1.0, 2.0])),
        "forcefield/bond.harmonic/desc",
        "one text per row",
    ),
    "length": (change("bond.harmonic", "k", np.array([1.0])), "forcefield/bond.harmonic/k", "one row per row"),
    "precision": (
        change("bond.harmonic", "k", Column(np.array([1.0, 2.0]), precision=0.1)),
        "forcefield/bond.harmonic/k",
        "declares no precision",
    ),
    "array": (
        change("bond.harmonic", "k", np.zeros((2, 3))),
        "forcefield/bond.harmonic/k",
        "bond.harmonic takes one value per row: found f64[T][3]",
    ),
    "grid elsewhere": (
        change("bond.harmonic", "grid", np.zeros((2, 3, 3))),
        "forcefield/bond.harmonic/grid",
        "one value per row",
    ),
    "class key": (
        lambda f: f.document["styles"][1].update(endpoint_key="class"),
        "forcefield/atom.full",
        "the atom table has no 'class'",
    ),
    "box": (lambda f: f.tables.update(box=Block(count=1)), "forcefield/box", "reserved for the cell"),
    "name of a block": (lambda f: f.tables.update(__x=Block(count=1)), "forcefield/__x", "starts with '__'"),
    "block": (
        lambda f: f.tables.update(other=Block({"id": np.array([1.0])})),
        "forcefield/other/id",
        "a standard column has its own dtype",
    ),
}


@pytest.mark.parametrize("what", TABLES)
def test_tables_refused(what: str) -> None:
    apply, node, words = TABLES[what]
    forcefield = peroxide()
    apply(forcefield)
    refused(forcefield, node, words)


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        (np.zeros((1, 3, 4)), "not square: found f64[T][3][4]"),
        (np.zeros((1, 9)), "not square"),
        (np.zeros(1), "not square: found f64[T]"),
        (np.zeros((1, 1, 1)), "N of at least 2"),
        (np.zeros((1, 2, 2, 2)), "not square"),
        (np.full((1, 2, 2), np.nan), "not finite"),
        (np.full((1, 2, 2), -np.inf), "not finite"),
    ],
)
def test_bad_cmap_grids(grid: Any, words: str) -> None:
    forcefield = peroxide()
    forcefield.add("cmap", "charmm", cmap_table(grid))
    refused(forcefield, "forcefield/cmap.charmm/grid", words)


def test_cmap_needs_five_endpoints() -> None:
    forcefield = peroxide()
    table = cmap_table(np.zeros((1, 2, 2)))
    del table.columns["mtom"]
    forcefield.add("cmap", "charmm", table)
    refused(forcefield, "forcefield/cmap.charmm", "expected itom, jtom, ktom, ltom, mtom")


def test_smirks_keys_need_patterns_and_no_endpoints() -> None:
    forcefield = ForceField.new("openff", {"preset": "real"})
    forcefield.add("bond", "harmonic", Block({"name": ["b1"], "k": [1.0]}), endpoint_key="smirks")
    refused(forcefield, "forcefield/bond.harmonic/smirks", "have no column of patterns")
    table = forcefield.tables["bond.harmonic"]
    table.columns["smirks"] = Column(np.array([""], "T"), np.array([False]))
    refused(forcefield, "forcefield/bond.harmonic/smirks", "never null")
    table.columns["smirks"] = Column(["[#6:1]"])
    table.columns["itom"] = Column(["A"])
    refused(forcefield, "forcefield/bond.harmonic", "found itom, expected none")


def test_endpoints_of_an_unknown_category_have_no_gap() -> None:
    forcefield = ForceField.new("gap", {"preset": "real"})
    forcefield.add("urey", "x", Block({"name": ["u"], "itom": ["A"], "ktom": ["A"]}))
    refused(forcefield, "forcefield/urey.x", "found itom, ktom, expected itom, jtom")


@pytest.mark.parametrize("category", ["pair", "pair14"])
@pytest.mark.parametrize("order", [("A", "B"), ("B", "A")])
@pytest.mark.parametrize("second", [{"epsilon": 2.0}, {"epsilon": None}, {"epsilon": 1.0, "word": "x"}])
def test_conflicting_pair_restatement(category: str, order: tuple[str, str], second: dict[str, Any]) -> None:
    rows = [
        {"name": "1", "itom": "A", "jtom": "A", "epsilon": 3.0},
        {"name": "2", "itom": "A", "jtom": "B", "epsilon": 1.0},
        {"name": "3", "itom": order[0], "jtom": order[1], **second},
    ]
    refused(
        single(category, "lj/cut", rows),
        f"forcefield/{category}.lj%2Fcut",
        "the rows 1 and 2 give different parameters to one pair",
    )


def test_restatements_of_nan_and_far_apart() -> None:
    names = [f"T{n}" for n in range(40)]
    rows = [{"name": n, "itom": n, "jtom": n, "epsilon": float(at), "c": None} for at, n in enumerate(names)]
    rows.append({"name": "again", "itom": "T3", "jtom": "T3", "epsilon": 3.0})
    single("pair", "x", rows).check()
    rows.append({"name": "once more", "itom": "T3", "jtom": "T3", "epsilon": 4.0})
    refused(single("pair", "x", rows), "forcefield/pair.x", "'T3' and 'T3'")
    nan = {"itom": "A", "jtom": "A", "epsilon": np.nan}
    single("pair", "x", [{"name": "1", **nan}, {"name": "2", **nan}]).check()


# --- units and definitions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("units", "version", "definitions"),
    [
        ({"preset": "real"}, None, 1),
        ({"preset": "real"}, 1, 1),
        ({"preset": "real"}, 2, 2),
        ({"preset": "real", "angle": "radian"}, 1, 1),
        ({"preset": "real", "angle": "degree"}, None, 2),
        ({"preset": "real", "angle": "degrees"}, 1, 2),
        ({"preset": "lj", "angle": "deg"}, None, 2),
        ({"length": "nm", "angle": "degree"}, None, 1),
        ({"length": "nm", "angle": "degree"}, 2, 2),
    ],
)
def test_definitions(units: dict[str, str], version: int | None, definitions: int) -> None:
    forcefield = ForceField({"name": "x", "units": units, "styles": []}, molrec_version=version)
    forcefield.check()
    assert forcefield.definitions == definitions
    marked = "preset" in units and units.get("angle", "").startswith("deg")
    assert forcefield.minimum_version == (2 if definitions == 2 and not marked else 1)


def test_radians_beside_a_preset_contradict_version_2() -> None:
    forcefield = ForceField({"name": "x", "units": {"preset": "real", "angle": "radian"}, "styles": []}, {}, 2)
    refused(forcefield, "forcefield.units.angle", "found radian, expected degree")


def test_a_record_of_another_version_would_misread_the_numbers() -> None:
    first, second = peroxide(), ForceField(peroxide().document, peroxide().tables, 2)
    for version in (None, 1):
        first.check_version(version)
        with pytest.raises(ContractError, match="follow the definitions 2 and a record of version 1"):
            second.check_version(version)
    second.check_version(2)
    with pytest.raises(ContractError, match="follow the definitions 1 and a record of version 2"):
        first.check_version(2)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_agree_with_themselves_and_with_other_spellings(preset: str) -> None:
    spellings = {
        "angstrom": "Å",
        "kcal/mol": "kilocalorie / mole",
        "radian": "rad",
        "dalton": "unified_atomic_mass_unit * 1.0000000000001",
        "picogram * micrometer**2 / microsecond**2": "picogram·micrometer²/microsecond²",
        "nm": "1e-9 m",
        "hartree": "E_h",
    }
    stated = {name: spellings.get(text, text) for name, text in PRESETS[preset].items()}
    ForceField({"name": "x", "units": {"preset": preset, **stated}, "styles": []}).check()
    for quantity, text in PRESETS[preset].items():
        assert dimension_fault(quantity, text) is None


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "m**99**99",
        "(((9**99)**99)**99)**99",
        "10**999999999",
        "__import__('os').getcwd()",
        "m" * 1000,
        "m.real",
        "[1]*10**9",
        "m**(9**9)",
        "",
        "degC",
        "0 m",
        "-1 m",
        "1/0",
        "\x00",
        "é\ud800",
    ],
)
def test_texts_that_are_no_units_are_told_at_once(text: str) -> None:
    assert not same_unit(text, "angstrom")
    assert dimension_fault("length", text) is not None


@given(st.text(alphabet="m9*^()/ .e²-+kgs%°·", max_size=30))
def test_any_text_is_a_unit_or_none(text: str) -> None:
    assert same_unit(text, "angstrom") in (True, False)


def test_units_of_parameters() -> None:
    real = {"preset": "real"}
    assert unit_of("E/L^2", real) == "(kcal/mol)/angstrom**2"
    assert unit_of("A", real, 1) == "radian"
    assert unit_of("A", real, 2) == "degree"
    assert unit_of("E/A^2", {**real, "angle": "degree"}, 2) == "(kcal/mol)/radian**2"
    assert unit_of("E/A^2", {"energy": "eV", "angle": "degree"}, 1) == "eV/degree**2"
    assert unit_of("E", {"length": "nm"}) is None
    assert unit_of("E/L^2", {"preset": "lj"}) is None
    for dimension in ("E/L^2", "E*L/Q^2", "L^3", "1/L", "M"):
        text = unit_of(dimension, real)
        assert same_unit(str(text), f"{text} ")
    assert set(QUANTITIES) == {"length", "energy", "angle", "charge", "mass", "time"}


def test_tables_from_rows() -> None:
    table = table_from_rows("bond", [{"name": "a", "itom": "A", "jtom": "B", "k": 1}, {"name": "b", "word": "w"}])
    assert list(table.columns) == ["name", "itom", "jtom", "k", "word"]
    assert table.columns["k"] == nullable([1.0, None])
    assert table.columns["word"].validity is not None
    assert table_from_rows("pair", [], ["epsilon"]).count == 0
    with pytest.raises(ContractError):
        table_from_rows("bond", [{"name": "a", "k": 2**60 + 1}])
    with pytest.raises(ContractError):
        table_from_rows("bond", [{"name": "a", "k": 1.0}, {"name": "b", "k": "x"}])


def test_read_from_its_store(tmp_path: Path) -> None:
    """The tables of a store are blocks, the attributes of its group are the document."""
    write_record(build_peroxide(), tmp_path / "peroxide.mrec", WriteContext())
    storage = open_storage(tmp_path / "peroxide.mrec")
    document = read_document(storage, "forcefield")
    assert document is not None
    made = ForceField.from_parts(document["attributes"], read_frame(storage, "forcefield").blocks)
    made.check()
    assert made == peroxide()
    assert list(made.document) == list(peroxide().document)


KEYS = [
    *(
        "name",
        "units",
        "styles",
        "source",
        "special_bonds",
        "category",
        "style",
        "params",
        "expression",
        "endpoint_key",
    ),
    *("preset", "length", "angle", "lj", "coul", "format", "mixing", "cutoff", "special"),
]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = st.recursive(
    LEAVES | st.sampled_from(["real", "bond", "type"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
ENTRIES = st.fixed_dictionaries(
    {"category": st.sampled_from(["bond", "pair", "cmap", "x"]), "style": st.just("a")},
    optional={"params": JSON, "expression": JSON, "endpoint_key": st.sampled_from(["type", "class", "smirks", "no"])},
)
COLUMNS = st.dictionaries(
    st.sampled_from(["name", "itom", "jtom", "ktom", "mtom", "class", "smirks", "k", "grid", "mass", "id"]),
    st.sampled_from(
        [
            Column(np.zeros(2)),
            Column(np.zeros((2, 3, 3))),
            Column(np.array([1, 2])),
            Column(["a", "b"]),
            Column(["a", ""]),
            nullable([None, 1.0]),
            Column(np.array(["a", "a"], "T"), np.array([True, False])),
            Column(np.zeros(1)),
            Column(np.array([["a"], ["b"]])),
            Column(np.full((2, 2, 2), np.nan)),
            Column(np.zeros(2, np.uint64)),
        ]
    ),
)
TABLE_NAMES = st.sampled_from(["bond.a", "pair.a", "cmap.a", "x.a", "box", "notes", "", "a/b"])


@settings(max_examples=200)
@given(
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6),
    st.lists(ENTRIES | JSON, max_size=3) | JSON,
    st.dictionaries(TABLE_NAMES, COLUMNS, max_size=4),
    st.sampled_from([None, 1, 2]),
)
def test_any_document_and_tables_end_in_faults(
    document: dict[str, Any], styles: Any, tables: dict[str, dict[str, Column]], version: int | None
) -> None:
    blocks = {name: Block(columns) for name, columns in tables.items()}
    for fault in ForceField({**document, "styles": styles}, blocks, version).faults():
        assert isinstance(fault, ContractError)
        assert fault.node.startswith("forcefield")


def test_the_file_it_was_read_from_is_no_part_of_it() -> None:
    """A force field without a name of its own is called as its file; a name of its own counts."""
    one, other = peroxide(), peroxide()
    for forcefield, file in ((one, "a.data"), (other, "b.data")):
        forcefield.document |= {"name": file, "source": {"format": "lammps-data", "uri": file}}
    assert one == other
    other.document["source"] = {"format": "lammps-data", "uri": "c.data"}
    assert one != other
    other.document["name"] = "c.data"
    assert one == other
    other.document["styles"][0]["params"] = {"k": 2.0}
    assert one != other
