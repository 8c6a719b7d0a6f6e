"""Databases of ASE in JSON and LMDB, written through ASE's own back ends: the same as SQLite, and ASE reads them."""

import math

import numpy as np
import pytest

pytest.importorskip("ase")

from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms, FixCartesian
from ase.db import connect
from ase_atoms import assert_same_atoms, documents, random_atoms, same
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import molrec_convert
from molrec_convert import Block, Column, Frame, MemoryTrajectory, Record, Report, UnsupportedError, UsageError

STAMPS = ("id", "unique_id", "ctime", "mtime", "user", "calculator", "calculator_parameters")


@pytest.fixture(params=["json", "aselmdb"])
def kind(request):
    if request.param == "aselmdb":
        pytest.importorskip("ase_db_backends")
    return request.param


def rows(path, gap=True):
    """A database ASE wrote: five rows of one to five atoms, one of them deleted."""
    random = np.random.default_rng(5)
    with connect(path) as database:
        for count in range(1, 6):
            atoms = Atoms(
                random.integers(1, 100, count), random.normal(size=(count, 3)), cell=random.normal(size=(3, 3)) * 9,
                pbc=random.integers(0, 2, 3) > 0, tags=random.integers(-9, 9, count), momenta=random.random((count, 3)),
            )  # fmt: skip
            atoms.positions[0] = [-0.0, 0.1 + 0.2, 5e-324]
            atoms.calc = SinglePointCalculator(
                atoms, energy=-1 / 3 * count, forces=random.normal(size=(count, 3)), stress=random.normal(size=6),
                magmoms=random.random(count), free_energy=-0.0, dipole=random.random(3),
            )  # fmt: skip
            atoms.set_constraint([FixAtoms([0]), FixCartesian([0], [True, False, True])][: count % 3])
            data = {"array": random.normal(size=(2, 3)), "text": "ü", "list": [1, 2.5, None], "deep": {"7": True}}
            data["whole"] = np.arange(3, dtype="u1")
            database.write(
                atoms, {"name": f"row {count}", "gap": 0.1 * count, "n": count, "ok": count > 2, "volume": 1.5},
                data if count % 2 else {"array": data["array"]},
            )  # fmt: skip
        if gap:
            del database[2]
    return path


def facts(path):
    """All that ASE finds in rows."""
    kept = []
    with connect(path) as database:
        for row in database.select(include_data=True):
            results = {name: row.get(name) for name in (*STAMPS, "energy", "forces", "stress", "magmoms", "dipole")}
            results.update({name: np.asarray(row.get(name)) for name in ("numbers", "positions", "cell", "pbc")})
            results.update(tags=np.asarray(row.tags, np.int64), momenta=row.momenta, free_energy=row.free_energy)
            results.update(constraints=[constraint.todict() for constraint in row.constraints])
            kept.append({**results, "numbers": results["numbers"].astype(int), "pairs": row.key_value_pairs,
                         "data": dict(row.data)})  # fmt: skip
    return kept


def test_there_and_back_nothing_differs(tmp_path, kind):
    source = rows(tmp_path / "a.db")
    there, back = tmp_path / f"b.{kind}", tmp_path / "c.db"
    report = molrec_convert.convert(source, there, to_format="ase-db")
    assert not report.lossy
    assert not molrec_convert.convert(there, back).lossy
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.db", there.name, "c.db"])
    one, other = facts(source), facts(back)
    assert [row["id"] for row in one] == [1, 3, 4, 5]
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert all(same(a[name], b[name]) for name in a), [name for name in a if not same(a[name], b[name])]
    with molrec_convert.open(source) as first, molrec_convert.open(back) as second:
        for a, b in zip(first, second, strict=True):
            assert a.system == b.system
            assert a.trajectory[0] == b.trajectory[0]
            assert {**dict(b.system.meta), **dict(b.trajectory[0].meta)}["%76olume"] == 1.5


def test_ase_reads_them(tmp_path, kind):
    source = rows(tmp_path / "a.db")
    there = tmp_path / f"b.{kind}"
    molrec_convert.convert(source, there, to_format="ase-db")
    one, other = facts(source), facts(there)
    changed = {"data", "pairs"} | ({"mtime"} if kind == "aselmdb" else set())
    for a, b in zip(one, other, strict=True):
        for name in a.keys() - changed:
            assert same(a[name], b[name]) or np.all(a[name] == b[name]), name
        pairs = {name: value for name, value in a["pairs"].items() if name != "volume"}
        assert same(pairs, dict(b["pairs"]))
        if "deep" not in a["data"]:
            assert same(a["data"]["array"], b["data"]["array"])
    with connect(there) as database:
        assert database.get(name="row 4").toatoms().get_potential_energy() == -1 / 3 * 4
        assert database.count() == 4


def test_names_and_numbers_json_has_no_form_for(tmp_path, kind):
    atoms = {axis: np.array([-0.0, math.nan]) for axis in "xyz"}
    atoms["7"], atoms["_"] = np.array([2**63 + 1, 3], "u8"), ["a", "ü"]
    atoms["007"] = ["b", "7"]
    frame = Frame({"atoms": Block({"element": ["O", "H"], **atoms})}, {"pe": -0.0, "get": 3, "tags": 5, "_keys": 1.5})
    record = Record(trajectory=MemoryTrajectory([frame, frame]), meta={"title": "two"})
    record_file = tmp_path / "a.mrec"
    molrec_convert.write(record, record_file)
    there, back = tmp_path / f"b.{kind}", tmp_path / "c.mrec"
    molrec_convert.convert(record_file, there, to_format="ase-db")
    molrec_convert.convert(there, back, as_="trajectory")
    with molrec_convert.open(back) as found:
        for a, b in zip(record.trajectory, found.trajectory, strict=True):
            for name in ("x", "7", "007", "_"):
                column = b["atoms"].columns.get(name) or found.system["atoms"].columns[name]
                assert column == a["atoms"].columns[name]
            meta = {**dict(found.system.meta), **dict(b.meta)}
            assert [meta[name] for name in ("get", "tags", "_keys")] == [3, 5, 1.5]
            assert math.copysign(1, meta["pe"]) == -1
    with molrec_convert.open(there) as found:
        assert [one.meta["title"] for one in found] == ["two", "two"]


def test_ids_out_of_order_come_back(tmp_path, kind):
    made = []
    for number, unique in ((10**6, "a"), (3, "b"), (4, "c")):
        atoms = Atoms("H")
        atoms.info.update(id=number, unique_id=unique)
        made.append(atoms)
    there = tmp_path / f"a.{kind}"
    report = Report()
    molrec_convert.write(molrec_convert.from_ase(made, "collection"), there, format="ase-db", report=report)
    assert any(item.name == "id" for item in report.items) == (kind == "aselmdb")
    with molrec_convert.open(there) as found:
        metas = [{**dict(one.system.meta), **dict(one.trajectory[0].meta)} for one in found]
    assert {meta["unique_id"]: meta["id"] for meta in metas} == {"a": 10**6, "b": 3, "c": 4}


def test_what_is_predicted_is_what_is_lost(tmp_path, kind):
    columns = {axis: np.arange(3.0) for axis in "xyz"}
    columns["odd"] = Column(np.arange(3.0), np.array([True, False, True]))
    bonds = Block({"atomi": np.zeros(1, "u8"), "atomj": np.ones(1, "u8")})
    system = Frame({"atoms": Block({"element": ["O", "H", "H"]}), "bonds": bonds})
    record = Record(system=system, trajectory=MemoryTrajectory([Frame({"atoms": Block(columns)})]))
    molrec_convert.write(record, tmp_path / "a.mrec")
    predicted, sqlite = Report(), Report()
    there = tmp_path / f"b.{kind}"
    molrec_convert.convert(tmp_path / "a.mrec", there, to_format="ase-db", dry_run=True, report=predicted)
    assert not there.exists()
    made = molrec_convert.convert(tmp_path / "a.mrec", there, to_format="ase-db")
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.db", report=sqlite)
    assert predicted.losses() == made.losses() == sqlite.losses() != []


def test_nothing_is_left_of_one_that_fails(tmp_path, kind):
    record = Record(frame=Frame({"atoms": Block({axis: np.zeros(1) for axis in "xyz"})}))
    with pytest.raises(molrec_convert.UsageError):
        molrec_convert.write(record, tmp_path / f"a.{kind}", format="ase-db")
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_it_is_named(tmp_path, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "ase_db_backends" else find(name, *more)
    )
    record = molrec_convert.from_ase(Atoms("H"))
    with pytest.raises(UnsupportedError, match="pip install ase-db-backends"):
        molrec_convert.write(record, tmp_path / "a.aselmdb")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(random_atoms(least=1), st.none() | documents), min_size=1, max_size=4))
def test_records_come_back_from_rows(tmp_path_factory, kind, images):
    """Whatever atoms have, and any data: what ASE's JSON has no place for, or would change, stands beside it."""
    for atoms, data in images:
        if data is not None:
            atoms.info["data"] = {"7": data, "some": data}
    images = [atoms for atoms, _ in images]
    try:
        collection = molrec_convert.from_ase(images, "collection")
    except UsageError as error:
        assume("a column is of one kind" not in str(error))
        raise
    path = tmp_path_factory.mktemp("rows") / f"a.{kind}"
    report = Report()
    molrec_convert.write(collection, path, format="ase-db", report=report)
    assert not report.lossy
    with molrec_convert.open(path) as rows:
        for atoms, record, again in zip(images, collection, rows, strict=True):
            assert_same_atoms(atoms, again.to_ase())
            assert record.system == again.system
            assert record.trajectory[0] == again.trajectory[0]
    with connect(path) as database:
        assert [row.natoms for row in database.select()] == [len(atoms) for atoms in images]


@pytest.mark.parametrize("data", [{}, {"7": 1}, {7: 1}, [1, 2]])
def test_an_entry_data_of_info_comes_back(tmp_path, kind, data):
    atoms = Atoms("H")
    atoms.info["data"] = data
    molrec_convert.write(molrec_convert.from_ase([atoms], "collection"), tmp_path / f"a.{kind}", format="ase-db")
    with molrec_convert.open(tmp_path / f"a.{kind}") as rows:
        assert same(dict(rows[0].to_ase().info)["data"], data)


def test_json_is_known_by_its_beginning(tmp_path):
    """The columns a row has no place for stand before its numbers and positions."""
    atoms = Atoms("H" * 20000, positions=np.random.default_rng(1).normal(size=(20000, 3)))
    atoms.set_array("extra", atoms.positions * 2)
    molrec_convert.write(molrec_convert.from_ase(atoms), tmp_path / "a.json", format="ase-db")
    with molrec_convert.open(tmp_path / "a.json") as rows:
        assert same(rows[0].to_ase().arrays["extra"], atoms.arrays["extra"])
