"""The section `forcefield` in a store: written, read on demand, refused, carried, validated, exchanged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frame_stores as stores
import hand_built as hand
import numpy as np
import pytest
from forcefields import nullable, single
from frame_stores import WatchedStorage
from independent import run_independent
from layout_examples.peroxide import peroxide, peroxide_system, relation
from layout_examples.records import build_peroxide
from test_forcefield import DOCUMENTS, TABLES, cmap_table
from test_forcefield_interop import TAKE, forcefield_of, good, parts_of

import molrec_convert
from molrec_convert.errors import ContractError, UsageError
from molrec_convert.formats import WriteContext
from molrec_convert.inspect.validation import Severity, validate
from molrec_convert.model import Block, Column, Record
from molrec_convert.model.forcefield.definitions import to_definitions
from molrec_convert.model.forcefield.document import ForceField, table_from_rows
from molrec_convert.stores.zarr import record as record_module
from molrec_convert.stores.zarr.record import open_record, write_packed, write_record
from molrec_convert.stores.zarr.record_writer import pack

CONTEXT = WriteContext(creator=False)


def store(path: Path, forcefield: ForceField | None = None, **sections: Any) -> Path:
    write_record(Record(forcefield=forcefield or peroxide(), **sections), path, CONTEXT)
    return path


def read(path: Path) -> ForceField:
    with open_record(path) as record:
        assert record.forcefield is not None
        for table in record.forcefield.tables.values():
            for column in table.columns.values():
                _ = column.values, column.validity
        return record.forcefield


def two_bond_styles() -> ForceField:
    forcefield = peroxide()
    rows = [{"name": "O1-O1", "itom": "O1", "jtom": "O1", "D": 100.0, "alpha": 2.0, "r0": 1.4}]
    forcefield.add("bond", "morse", table_from_rows("bond", rows))
    forcefield.add("bond", "class2", table_from_rows("bond", [], ["r0", "k2", "k3", "k4"]))
    return forcefield


def unregistered() -> ForceField:
    forcefield = peroxide()
    rows = [{"name": "x", "itom": "O1", "jtom": "", "R0": 1.5}]
    forcefield.add("bond", "fene/é 1.0", table_from_rows("bond", rows), expression="R0*(r-1)^2")
    crosses = [{"name": "c", "itom": "H1", "jtom": "", "ktom": "O1"}]
    forcefield.add("cross_term", "example", table_from_rows("cross_term", crosses))
    return forcefield


def arrays() -> ForceField:
    forcefield = peroxide()
    table = table_from_rows("bond", [{"name": "t", "itom": "O1", "jtom": "O1"}])
    table.columns["energies"] = Column(np.arange(100.0).reshape(1, 100))
    forcefield.add("bond", "table", table)
    grid = np.arange(32.0).reshape(2, 4, 4)
    grid[1] = np.nan
    forcefield.add("cmap", "charmm", cmap_table(grid, [True, False]))
    return forcefield


def unknown_parts() -> ForceField:
    forcefield = peroxide()
    forcefield.document.update(doi=None, large=2**70, small=-(2**63), real=1e22, nothing=-0.0, _meta_types={"a": "b"})
    forcefield.document["styles"][0]["note"] = {"a": [1, 2.5, None]}
    odd = np.array([np.nan, -0.0])
    forcefield.tables["notes"] = Block(
        {"id": np.array([2**63, 1], np.uint64), "c": Column(odd, np.array([True, False]))}
    )
    forcefield.tables["bond.unnamed"] = Block({"k": np.array([1], np.int16)}, attributes={"why": "no style names it"})
    forcefield.tables["empty"] = Block(count=7)
    forcefield.tables["atom.full"].columns["mass"].attributes["from"] = "a book"
    return forcefield


def crosses() -> ForceField:
    rows = [
        {"name": "a", "itom": "A", "jtom": "A", "epsilon": 1.0, "sigma": None},
        {"name": "any name", "itom": "A", "jtom": "B", "epsilon": 0.5, "sigma": 2.0, "desc": "first"},
        {"name": "other", "itom": "B", "jtom": "A", "epsilon": 0.5, "sigma": 2.0, "desc": "second"},
    ]
    return single("pair", "lj/cut", rows)


def by_patterns() -> ForceField:
    table = Block({"name": ["b1"], "smirks": ["[#6:1]-[#6:2]"], "k": [1.0], "r0": [1.5]})
    forcefield = ForceField.new("openff", {"preset": "real"})
    forcefield.add("bond", "harmonic", table, endpoint_key="smirks")
    return forcefield


def by_classes() -> ForceField:
    forcefield = ForceField.new("classes", {"preset": "real"})
    forcefield.add("atom", "full", table_from_rows("atom", [{"name": "C1", "class": "CT", "atomic_number": 6}]))
    bond = table_from_rows("bond", [{"name": "b", "itom": "CT", "jtom": "CT", "k": 1.0, "r0": 1.0}])
    forcefield.add("bond", "harmonic", bond, endpoint_key="class")
    return forcefield


_NM = {"length": "nm", "energy": "kJ/mol", "angle": "radian", "charge": "e", "mass": "dalton"}
_BOND = [{"name": "b", "itom": "A", "jtom": "A", "k": 259408.0, "r0": 0.1529}]
GOOD: dict[str, Callable[[], ForceField]] = {
    "minimal": lambda: ForceField({"name": "none", "units": {"preset": "lj"}, "styles": []}),
    "full": peroxide,
    "two bond styles, one without rows": two_bond_styles,
    "unknown style with expression, unknown category, name encoding": unregistered,
    "array parameters, cmap grid": arrays,
    "unknown keys and tables": unknown_parts,
    "cross rows, equal restatements": crosses,
    "smirks": by_patterns,
    "classes": by_classes,
    "nm and kJ": lambda: single("bond", "harmonic", _BOND, _NM),
    "no special_bonds, lj": lambda: single("bond", "harmonic", _BOND, {"preset": "lj"}),
    "no rows needed": lambda: single("pair", "coul/cut", [], params={"coulomb": 332.0, "cutoff": 10.0}),
    "many rows": lambda: single("bond", "harmonic", [{**_BOND[0], "name": str(n), "k": n / 7} for n in range(70_000)]),
}


@pytest.mark.parametrize("what", GOOD)
def test_what_is_written_is_read(tmp_path: Path, what: str) -> None:
    path = store(tmp_path / "a.mrec", GOOD[what]())
    assert read(path) == GOOD[what]()
    assert json.dumps(read(path).document) == json.dumps(GOOD[what]().document)
    assert [f for f in validate(path) if f.severity is Severity.ERROR] == []
    pack(path, tmp_path / "a.mrec.zip")
    assert read(tmp_path / "a.mrec.zip") == GOOD[what]()
    with open_record(tmp_path / "a.mrec.zip") as record:
        write_record(record, tmp_path / "b.mrec", CONTEXT)
    assert dict(stores.every_file(tmp_path / "b.mrec")) == dict(stores.every_file(path))


def test_the_masks_of_absent_parameters_are_stored(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec")
    mask = stores.zarr_values(path / "forcefield" / "dihedral.periodic" / "_validity" / "k2")
    assert mask.tolist() == [True, False]
    assert "_meta_types" not in stores.attributes(path / "forcefield")


def test_opening_a_record_does_not_read_its_force_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store(tmp_path / "a.mrec", system=peroxide_system())
    watched = WatchedStorage(path)
    monkeypatch.setattr(record_module, "open_storage", lambda where: watched)
    with open_record(path) as record:
        assert record.sections == ["meta", "system", "forcefield"]
        assert [key for key in watched.reads if key.startswith("forcefield/")] == ["forcefield/zarr.json"]
        assert record.forcefield is record.forcefield
        assert "forcefield/bond.harmonic/name/c/0" in watched.reads


# --- what the system takes --------------------------------------------------------------------------------------------

RESOLVED = [
    ("atoms", 0, "atom.full", 0, {"charge": 0.41, "mass": 1.008}),
    ("atoms", 1, "atom.full", 1, {"charge": -0.41, "mass": 15.999}),
    ("bonds", 0, "bond.harmonic", 1, {"k": 1106.0, "r0": 0.967}),
    ("bonds", 1, "bond.harmonic", 0, {"k": 600.0, "r0": 1.475}),
    ("angles", 0, "angle.harmonic", 0, {"k": 100.0, "theta0": 1.7488}),
    ("dihedrals", 0, "dihedral.periodic", 0, {"k1": 1.2, "k2": 0.8, "periodicity1": 1.0, "periodicity2": 2.0,
                                              "phase1": 0.0, "phase2": 3.141592654}),
]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_a_record_resolves(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "peroxide.mrec"
    write_record(build_peroxide(), path, CONTEXT)
    if packed:
        pack(path, tmp_path / "peroxide.mrec.zip")
        path = tmp_path / "peroxide.mrec.zip"
    with molrec_convert.open(path) as record:
        resolution = record.resolve()
        for block, row, table, table_row, parameters in RESOLVED:
            (term,) = resolution[block].terms(row)
            assert (term.table, term.row) == (table, table_row)
            assert {name: term.parameters[name] for name in parameters} == parameters
        (pair,) = resolution.pair("O1", "O1")
        assert pair.parameters == {"epsilon": 0.17, "sigma": 3.0}
        (mixed,) = resolution.pair("H1", "O1")
        assert mixed.parameters["sigma"] == pytest.approx(3.0**0.5, rel=1e-15)
        assert resolution.remarks == []
        assert molrec_convert.resolve(record)["bonds"].terms(0) == resolution["bonds"].terms(0)


@pytest.mark.parametrize(
    ("record", "missing"),
    [(Record(system=peroxide_system()), "forcefield"), (Record(forcefield=peroxide()), "system")],
)
def test_nothing_to_resolve(record: Record, missing: str) -> None:
    with pytest.raises(UsageError, match=f"has no {missing}: there is nothing to resolve"):
        record.resolve()


# --- the version ------------------------------------------------------------------------------------------------------


def test_numbers_of_the_later_definitions_raise_the_version(tmp_path: Path) -> None:
    units = {"length": "angstrom", "energy": "kcal/mol", "angle": "degree"}
    forcefield = ForceField.from_parts({"name": "x", "units": units, "styles": []}, {}, molrec_version=2)
    assert forcefield.definitions == forcefield.minimum_version == 2
    path = store(tmp_path / "a.mrec", forcefield)
    assert stores.attributes(path / "meta") == {"molrec_version": 2}
    assert read(path).definitions == 2


def test_marked_units_need_no_later_version(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", to_definitions(peroxide(), 2))
    assert stores.attributes(path / "meta") == {"molrec_version": 1}
    assert read(path).definitions == 2


def test_numbers_that_would_be_misread_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="definitions 1 and a record of version 2"):
        store(tmp_path / "a.mrec", meta={"molrec_version": 2})
    assert not (tmp_path / "a.mrec").exists()


def test_the_version_of_the_record_tells_the_definitions(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", single("bond", "harmonic", _BOND, {"length": "nm", "energy": "kJ/mol"}))
    for version in (1, 2):
        stores.set_attribute(path / "meta", molrec_version=version)
        assert read(path).definitions == version
    with open_record(path) as record:
        write_record(record, tmp_path / "b.mrec", CONTEXT)
    assert stores.attributes(tmp_path / "b.mrec" / "meta") == {"molrec_version": 2}
    assert read(tmp_path / "b.mrec").definitions == 2


# --- what is refused --------------------------------------------------------------------------------------------------


def by_hand(path: Path, forcefield: ForceField) -> Path:
    """A store with the force field as it is, whatever rules it breaks."""
    hand.record(path)
    section = path / "forcefield"
    hand.write_json(section, {"zarr_format": 3, "node_type": "group", "attributes": forcefield.document})
    for name, table in forcefield.tables.items():
        hand.group(section / name, count=table.count, **table.attributes)
        masks = {key: column.validity for key, column in table.columns.items() if column.validity is not None}
        for key, column in table.columns.items():
            declared = {} if column.precision is None else {"precision": column.precision}
            hand.array(section / name / key, column.values, **declared)
        if masks:
            hand.group(section / name / "_validity")
        for key, mask in masks.items():
            hand.array(section / name / "_validity" / key, mask)
    return path


def errors(path: Path) -> list[tuple[str, str]]:
    return [(finding.node, finding.message) for finding in validate(path) if finding.severity is Severity.ERROR]


@pytest.mark.parametrize("what", DOCUMENTS)
def test_documents_refused_at_read(tmp_path: Path, what: str) -> None:
    change, node, words = DOCUMENTS[what]
    forcefield = peroxide()
    change(forcefield.document)
    path = by_hand(tmp_path / "a.mrec", forcefield)
    with open_record(path) as record, pytest.raises(ContractError, match="forcefield") as error:
        _ = record.forcefield
    assert error.value.node == node
    assert words in str(error.value)
    found = errors(path)
    assert {where for where, _ in found} == {node}
    assert any(words in f"{where}: {text}" for where, text in found)


#: What cannot lie in a store as such: names that are no nodes' names, and the cell, which is none of the blocks.
_NOWHERE = ("box", "name of a block")


@pytest.mark.parametrize("what", [what for what in TABLES if what not in _NOWHERE])
def test_tables_refused_at_read(tmp_path: Path, what: str) -> None:
    apply, node, words = TABLES[what]
    forcefield = peroxide()
    apply(forcefield)
    path = by_hand(tmp_path / "a.mrec", forcefield)
    with open_record(path) as record, pytest.raises(ContractError, match="forcefield") as error:
        _ = record.forcefield
    assert error.value.node == node
    assert words in str(error.value)
    assert {where for where, _ in errors(path)} == {node}


@pytest.mark.parametrize("what", ["missing table", "conflict", "twice"])
def test_refused_at_write(tmp_path: Path, what: str) -> None:
    forcefield = peroxide()
    if what in TABLES:
        TABLES[what][0](forcefield)
    else:
        DOCUMENTS[what][0](forcefield.document)
    with pytest.raises(ContractError, match="forcefield"):
        store(tmp_path / "a.mrec", forcefield)
    assert not (tmp_path / "a.mrec").exists()


def test_attributes_that_mean_something_are_refused_at_write(tmp_path: Path) -> None:
    forcefield = peroxide()
    forcefield.tables["bond.harmonic"].attributes["count"] = 5
    with pytest.raises(ContractError, match=r"forcefield/bond\.harmonic: the attribute 'count'"):
        store(tmp_path / "a.mrec", forcefield)


def remove_count(path: Path) -> None:
    stores.drop_attribute(path / "forcefield" / "bond.harmonic", "count")


def flip_byte(path: Path) -> None:
    chunk = path / "forcefield" / "bond.harmonic" / "k" / "c" / "0"
    data = bytearray(chunk.read_bytes())
    data[3] ^= 1
    chunk.write_bytes(data)


def half_precision(path: Path) -> None:
    stores.edit(path / "forcefield" / "bond.harmonic" / "k", lambda document: document.update(data_type="float32"))


def mask_of_nothing(path: Path) -> None:
    hand.array(path / "forcefield" / "dihedral.periodic" / "_validity" / "other", [True, False])


def an_array(path: Path) -> None:
    shutil.rmtree(path / "forcefield")
    hand.array(path / "forcefield", [1.0])


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "no count": (remove_count, "forcefield/bond.harmonic"),
    "checksum": (flip_byte, "forcefield/bond.harmonic/k"),
    "float32": (half_precision, "forcefield/bond.harmonic/k"),
    "mask of nothing": (mask_of_nothing, "forcefield/dihedral.periodic/_validity/other"),
    "an array": (an_array, "forcefield"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_refused_and_found(tmp_path: Path, what: str) -> None:
    damage, node = DAMAGE[what]
    path = store(tmp_path / "a.mrec")
    damage(path)
    with pytest.raises(ContractError) as error:
        read(path)
    assert error.value.node.startswith(node)
    assert any(where.startswith(node) for where, _ in errors(path))


def test_a_broken_force_field_does_not_keep_the_rest_from_being_read(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", system=peroxide_system())
    stores.drop_attribute(path / "forcefield", "units")
    with open_record(path) as record:
        assert record.system is not None
        assert record.system["atoms"]["type"].tolist() == ["H1", "O1", "O1", "H1"]
        with pytest.raises(ContractError, match="forcefield: the document has no 'units'"):
            _ = record.forcefield


# --- what is carried --------------------------------------------------------------------------------------------------


def with_unknown_nodes(path: Path) -> Path:
    store(path, unknown_parts(), system=peroxide_system())
    section = path / "forcefield"
    for node in ("bond.harmonic", "bond.harmonic/k", "dihedral.periodic/_validity", "dihedral.periodic/_validity/k2"):
        stores.set_attribute(section / node, later={"null": None})
    hand.group(section / "atom.full" / "later", kind="new")
    hand.array(section / "loose", [1.0, 2.0])
    hand.group(section / "box", cell_defined=3)
    hand.array(section / "box" / "vectors", [1.0])
    (section / "atom.full" / "notes.txt").write_text("beside the columns")
    (section / "parameters.xml").write_text("<xml/>")
    return path


@pytest.mark.parametrize("form", ["directory", "packed"])
def test_what_is_unknown_passes_copies(tmp_path: Path, form: str) -> None:
    path = with_unknown_nodes(tmp_path / "a.mrec")
    with open_record(path) as record:
        assert record.unknown is not None
        assert {"forcefield/box/vectors/zarr.json", "forcefield/parameters.xml"} <= set(record.unknown.keys())
        if form == "packed":
            write_packed(record, tmp_path / "b.mrec.zip", CONTEXT)
    if form == "packed":
        path_between = tmp_path / "b.mrec.zip"
    else:
        path_between = path
    with open_record(path_between) as record:
        write_record(record, tmp_path / "c.mrec", CONTEXT)
    before, after = dict(stores.every_file(path)), dict(stores.every_file(tmp_path / "c.mrec"))
    assert before.keys() == after.keys()
    for key, data in before.items():
        if key.endswith("zarr.json"):
            assert json.loads(data) == json.loads(after[key]), key
        else:
            assert data == after[key], key


def test_unknown_nodes_are_warnings(tmp_path: Path) -> None:
    path = with_unknown_nodes(tmp_path / "a.mrec")
    assert errors(path) == []
    warned = {finding.node for finding in validate(path)}
    expected = {"atom.full/later", "loose", "box", "atom.full/notes.txt", "parameters.xml"}
    assert {f"forcefield/{name}" for name in expected} <= warned


# --- validation -------------------------------------------------------------------------------------------------------


def test_names_that_lead_nowhere_are_warnings(tmp_path: Path) -> None:
    system = peroxide_system()
    system["bonds"].columns["type"] = Column(["O1-H1", "nothing", "O1-H1"])
    system["atoms"].columns["type"] = Column(["H1", "O1", "O1", "Xe"])
    path = store(tmp_path / "a.mrec", system=system)
    found = validate(path)
    assert all(finding.severity is Severity.WARNING for finding in found)
    assert any(f.node == "system/bonds/type" and "'nothing' is no bond type" in f.message for f in found)
    assert any(f.node == "system/atoms/type" and "'Xe' is no atom type" in f.message for f in found)


def test_what_nobody_can_price_is_a_warning(tmp_path: Path) -> None:
    forcefield = peroxide()
    forcefield.document["units"] = {**forcefield.document["units"], "time": "fs"}
    forcefield.add("bond", "fene", table_from_rows("bond", [{"name": "x", "itom": "Zz", "jtom": "O1", "R0": np.inf}]))
    forcefield.tables["bond.harmonic"].columns["k"] = nullable([600.0, None])
    path = store(tmp_path / "a.mrec", forcefield, system=peroxide_system())
    messages = [f"{finding}" for finding in validate(path)]
    assert any("bond.fene is not registered and has no expression" in text for text in messages)
    assert any("no atom type of the force field is 'Zz'" in text for text in messages)
    assert any("a number is not finite" in text for text in messages)
    assert any("take bond.harmonic and have no 'k'" in text for text in messages)
    assert all(text.startswith("warning") for text in messages)


@pytest.mark.parametrize("column", ["k", "name"])
def test_huge_claims_end_in_findings(tmp_path: Path, column: str) -> None:
    path = store(tmp_path / "a.mrec", system=peroxide_system())
    table = path / "forcefield" / "bond.harmonic"
    stores.set_attribute(table, count=10**15)
    for child in table.iterdir():
        if child.is_dir():
            stores.edit(child, lambda document: document.update(shape=[10**15]))
            if child.name != column:
                shutil.rmtree(child / "c", ignore_errors=True)
    assert any("far more than are stored" in text for _, text in errors(path))


def test_a_system_of_huge_claims_is_not_resolved(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", system=peroxide_system())
    for name in ("atoms", "bonds", "angles", "dihedrals"):
        block = path / "system" / name
        stores.set_attribute(block, count=10**14)
        for child in block.iterdir():
            if child.is_dir():
                stores.edit(child, lambda document: document.update(shape=[10**14]))
    assert not any("type" in finding.message for finding in validate(path))


# --- exchange ---------------------------------------------------------------------------------------------------------

THEIRS = """
record = mrec.MrecFile(Path(sys.argv[1]))
there = record.forcefield()
there.validate()
print(json.dumps(parts_of(there)))
"""

COMPILED = """
there = mrec.MrecFile(Path(sys.argv[1])).forcefield().to_forcefield()
found = {}
for category in ("bond", "angle"):
    for kind in there.get_types(category):
        found[f"{category} {kind.name}"] = {key: value for key, value in kind.items()}
print(json.dumps([there.units, found]))
"""

WRITE = """
there = section(json.loads(Path(sys.argv[1]).read_text()))
molrs.io.write_mrec(Path(sys.argv[2]), meta={}, forcefield=there)
"""

WRITE_THEIR_OWN = """
forcefield = molrs.ff.forcefield.ForceField("demo", "real")
h = forcefield.def_style("atom", "full").def_type("H1", mass=1.008, charge=0.41)
forcefield.def_style("bond", "harmonic").def_type("H1-H1", h, h, k=553.0, r0=0.967)
forcefield.def_style("angle", "harmonic").def_type("H1-H1-H1", h, h, h, k=50.0, theta0=100.2)
molrs.io.write_mrec(Path(sys.argv[1]), meta={}, forcefield=forcefield)
"""


@pytest.mark.interop
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["first", "second", "more"])
def test_the_independent_implementation_reads_what_we_write(tmp_path: Path, name: str, packed: bool) -> None:
    path = store(tmp_path / "a.mrec", good()[name], system=peroxide_system())
    if packed:
        pack(path, tmp_path / "a.mrec.zip")
        path = tmp_path / "a.mrec.zip"
    assert forcefield_of(json.loads(run_independent(TAKE + THEIRS, path))) == good()[name]


@pytest.mark.interop
def test_it_takes_our_later_definitions_for_what_they_are(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", to_definitions(peroxide(), 2))
    units, types = json.loads(run_independent(TAKE + COMPILED, path))
    assert units == "real"
    assert types["bond O1-H1"] == {"k": 553.0, "r0": 0.967}
    assert types["angle H1-O1-O1"]["k"] == 50.0


@pytest.mark.interop
@pytest.mark.parametrize("name", ["first", "second", "more"])
def test_we_read_what_it_writes(tmp_path: Path, name: str) -> None:
    (tmp_path / "parts.json").write_text(json.dumps(parts_of(good()[name])))
    run_independent(TAKE + WRITE, tmp_path / "parts.json", tmp_path / "a.mrec")
    assert read(tmp_path / "a.mrec") == good()[name]
    assert errors(tmp_path / "a.mrec") == []


@pytest.mark.interop
def test_its_own_force_fields_are_read_by_the_later_definitions(tmp_path: Path) -> None:
    run_independent(WRITE_THEIR_OWN, tmp_path / "a.mrec")
    theirs = read(tmp_path / "a.mrec")
    assert theirs.definitions == 2
    assert to_definitions(theirs, 1).table("bond", "harmonic")["k"].tolist() == [1106.0]
    assert to_definitions(theirs, 1).table("angle", "harmonic")["theta0"][0] == pytest.approx(np.radians(100.2))
    with open_record(tmp_path / "a.mrec") as record:
        write_record(record, tmp_path / "b.mrec", CONTEXT)
    assert read(tmp_path / "b.mrec") == theirs


def test_relations_of_unknown_categories_are_resolved_from_a_store(tmp_path: Path) -> None:
    forcefield = peroxide()
    rows = [{"name": "c", "itom": "H1", "jtom": "O1", "ktom": "O1", "depth": 2.5}]
    forcefield.add("cross_term", "example", table_from_rows("cross_term", rows), expression="depth*theta^2")
    system = peroxide_system()
    system.blocks["cross_terms"] = relation([[0, 1, 2]], type=["c"])
    path = store(tmp_path / "a.mrec", forcefield, system=system)
    with open_record(path) as record:
        (term,) = record.resolve()["cross_terms"].terms(0)
        assert term.parameters == {"depth": 2.5}


def test_a_force_field_alone_is_a_record(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec")
    with open_record(path) as record:
        assert record.sections == ["meta", "forcefield"]
        assert record.system is None
    with pytest.raises(ContractError, match="at least one of"):
        write_record(Record(), tmp_path / "b.mrec", CONTEXT)
