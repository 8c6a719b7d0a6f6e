"""What is missing is missing in Python: NaN in columns of real numbers, masked in others, no key in the meta."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ase.io
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import molrec_convert
from molrec_convert import Block, Column, Frame, MemoryTrajectory, Record
from molrec_convert.errors import ContractError, FormatError, UsageError
from molrec_convert.migration import Settings, migrate
from molrec_convert.migration.verify import verify_collection
from molrec_convert.model import MetaDeclaration
from molrec_convert.model.collection.collection import MemoryCollection
from molrec_convert.model.dtypes import DTYPES, same_bits
from molrec_convert.model.tags import Meta

UNITS = {"length": "angstrom", "energy": "eV", "time": "ps"}
STORES = ("r.mrec", "r.mrec.zip", "c.mrec.lmdb")


@st.composite
def columns(draw: st.DrawFn) -> Column:
    """Any column with any mask."""
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    rows = draw(st.integers(1, 5))
    trailing = draw(st.sampled_from([(), (3,), (2, 2)]))
    mask = draw(hnp.arrays(np.bool_, rows))
    if dtype == "string":
        texts = draw(hnp.arrays(object, (rows, *trailing), elements=st.text(st.characters(codec="utf-8"), max_size=3)))
        return Column(texts.astype(np.dtypes.StringDType()), mask)
    return Column(draw(hnp.arrays(DTYPES[dtype].numpy, (rows, *trailing))), mask)


def record_of(column: Column) -> Record:
    """A column in the system and in both frames of a trajectory."""
    block = Block({"c": column, "n": np.arange(len(column))})
    frames = [Frame({"things": block}, step=0), Frame({"things": Block(block.columns)}, step=1)]
    system = Frame({"others": Block({"c": column}), "atoms": Block({"id": np.arange(1, 3, dtype=np.uint64)})})
    system.meta["units"] = {"preset": "metal"}
    return Record(system=system, trajectory=MemoryTrajectory(frames))


def stored(record: Record, path: Path) -> Any:
    """The record read back from a store of any kind, and what closes it."""
    if path.suffix == ".lmdb":
        molrec_convert.write(MemoryCollection([record], units={"length": "angstrom"}), path)
        collection = molrec_convert.open(path)
        return collection[0], collection
    molrec_convert.write(record, path)
    opened = molrec_convert.open(path)
    return opened, opened


def holds(block: Block, name: str, column: Column) -> None:
    """Fail unless a block gives a column by the rule."""
    values, raw = block[name], block.stored(name)
    assert same_bits(raw, column.values)
    assert np.array_equal(
        block.validity(name), np.ones(len(column), bool) if column.validity is None else column.validity
    )
    if column.validity is None:
        assert values is raw or same_bits(values, raw)
        assert not isinstance(values, np.ma.MaskedArray)
        return
    there = column.validity
    if column.dtype == "f64":
        assert not isinstance(values, np.ma.MaskedArray)
        assert np.isnan(values[~there]).all()
        assert same_bits(values[there], column.values[there])
    else:
        assert isinstance(values, np.ma.MaskedArray)
        hidden = np.ma.getmaskarray(values)
        assert not hidden[there].any()
        assert hidden[~there].all()
        assert same_bits(np.ma.getdata(values), column.values)


@given(columns())
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("store", STORES)
def test_any_column_with_any_mask(store: str, tmp_path_factory: pytest.TempPathFactory, column: Column) -> None:
    made = record_of(column)
    read, opened = stored(made, tmp_path_factory.mktemp("missing") / store)
    with opened:
        for record in (made, read):
            assert record.system is not None
            assert record.trajectory is not None
            holds(record.system["others"], "c", column)
            for frame in (record.trajectory[0], record.trajectory[1:][0], *record.trajectory):
                holds(frame["things"], "c", column)
                holds(frame["things"], "n", Column(np.arange(len(column))))
            (batch,) = record.trajectory.batches()
            updates = batch.blocks["things"]
            whole = Block({"c": Column(updates.columns["c"], updates.validity.get("c"))})
            assert bits_of(updates["c"]) == bits_of(whole["c"])


def bits_of(values: np.ndarray) -> Any:
    """Values and mask in a form that is equal only bit for bit."""
    data = np.ma.getdata(values)
    return data.tolist() if data.dtype.kind == "T" else data.tobytes(), np.ma.getmaskarray(values).tolist()


def test_without_nulls_nothing_is_copied() -> None:
    block = Block({"x": np.arange(3.0), "q": Column(np.arange(3), np.ones(3, bool))})
    for name in ("x", "q"):
        assert block[name] is block.columns[name].values
        assert block[name] is block.stored(name)


@given(columns())
@settings(deadline=None, max_examples=50)
def test_what_was_read_can_be_written_again(column: Column) -> None:
    """A masked array brings its mask into a block; NaN is a number like others."""
    block = Block({"c": column})
    again = Block({"c": block["c"]})
    if column.dtype == "f64" and column.validity is not None:
        assert again.columns["c"].validity is None
    else:
        assert again == block


def test_a_mask_of_single_values_has_no_place() -> None:
    values = np.ma.MaskedArray([[1, 2], [3, 4]], [[True, False], [False, False]])
    with pytest.raises(ContractError, match="a row is null as a whole"):
        Block({"c": values})


def test_a_block_is_counted_by_rows_and_goes_over_names() -> None:
    block = Block({"x": [1.0, 2.0, 3.0], "element": ["O", "H", "H"]})
    assert len(block) == 3
    assert list(block) == ["x", "element"]
    assert "x" in block
    assert "y" not in block
    assert list(block.columns) == ["x", "element"]
    assert bool(Block())
    with pytest.raises(KeyError, match="no column 'y'; the block has x, element"):
        block.stored("y")


def test_vectors_of_a_frame() -> None:
    atoms = {axis: [1.0 + at, 2.0] for at, axis in enumerate("xyz")}
    atoms |= {f"f{axis}": Column(np.array([0.5, 0.0]), np.array([True, False])) for axis in "xyz"}
    frame = Frame({"atoms": Block(atoms)})
    assert frame.positions.tolist() == [[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]]
    assert frame.velocities is None
    assert frame.forces[0].tolist() == [0.5, 0.5, 0.5]
    assert np.isnan(frame.forces[1]).all()
    assert Frame().positions is None


KEYS: dict[str, tuple[str, Any]] = {
    "pe": ("f64", -1.5),
    "stress": ("f64x9", np.arange(9.0)),
    "note": ("json", {"a": 1}),
}


@pytest.mark.parametrize("store", STORES)
def test_a_key_that_is_missing_in_a_frame(store: str, tmp_path: Path) -> None:
    whole, none = Meta(), Meta()
    for key, (tag, value) in KEYS.items():
        whole.put(key, value, tag)
    atoms = Block({"x": [0.0]})
    frames = [Frame({"atoms": atoms}, meta, step=n) for n, meta in enumerate((whole, none, whole))]
    trajectory = MemoryTrajectory(frames)
    assert trajectory.declaration.meta == {
        "pe": MetaDeclaration("f64", math.nan),
        "stress": MetaDeclaration("f64x9", [math.nan] * 9),
        "note": MetaDeclaration("json", None),
    }
    system = Frame({"atoms": Block({"id": np.ones(1, np.uint64)})})
    system.meta["units"] = {"preset": "metal"}
    read, opened = stored(Record(system=system, trajectory=trajectory), tmp_path / store)
    with opened:
        for there in (trajectory, read.trajectory):
            for found in ([there[n] for n in range(3)], list(there), [there[n:][0] for n in range(3)]):
                assert [dict(frame.meta.tags) for frame in found] == [whole.tags, {}, whole.tags]
                assert found[1].meta.get("pe") is None
                assert found[2].meta == whole


def test_a_value_that_a_frame_states_is_there_whatever_it_is() -> None:
    """NaN of a key all frames have, a null in a document, an explicit fill: none of them says that nothing is there."""
    frames = [
        Frame(meta=Meta({"pe": math.nan, "note": [None], "n": 0})),
        Frame(meta=Meta({"pe": 1.0, "note": [], "n": 1})),
    ]
    declaration = MemoryTrajectory(frames).declaration
    declaration.meta["n"] = MetaDeclaration("i64", 0)
    first = MemoryTrajectory(frames, declaration)[0].meta
    assert math.isnan(first["pe"])
    assert (first["note"], first["n"]) == ([None], 0)


def test_samples_have_the_same_keys_and_say_what_is_missing(tmp_path: Path) -> None:
    """NaN for numbers, masked for others, None among texts; the mask stands beside."""
    mask = np.array([True, False])
    atoms = {"fx": Column(np.array([1.0, 0.0]), mask), "q": Column(np.array([1, 0]), mask)}
    atoms["name"] = Column(np.array(["a", ""], np.dtypes.StringDType()), mask)
    frames = [
        Frame({"atoms": Block(atoms)}, Meta({"pe": -1.0}), step=0),
        Frame({"atoms": Block(atoms)}, Meta(), step=1),
    ]
    records = [Record(system=Frame(), trajectory=MemoryTrajectory(frames))]
    molrec_convert.write(MemoryCollection(records, units={}), tmp_path / "c.mrec.lmdb")
    with molrec_convert.open(tmp_path / "c.mrec.lmdb") as collection:
        for number, sample in enumerate([*map(collection.sample, range(2)), *collection.record_sample(0)["frames"]]):
            assert list(sample)[-2:] == ["pe", "step"]
            assert sample["fx" if "fx" in sample else "atoms/fx"][0] == 1.0
            assert math.isnan(sample["atoms/fx"][1])
            assert sample["atoms/q"].tolist() == [1, None]
            assert sample["atoms/name"] == ["a", None]
            assert sample["atoms/_validity/fx"].tolist() == [True, False]
            assert sample["pe"] == -1.0 if number % 2 == 0 else math.isnan(sample["pe"])


FAULTS = Path(__file__).parents[2] / "fixtures" / "faults"


def of_two_files(kind: str, target: Path, **options: Any) -> None:
    """One file has a stress, the other has none: migrated, or converted together."""
    inputs = [FAULTS / "pa.extxyz", FAULTS / "pb.extxyz"]
    if kind == "migrate":
        migrate([str(path) for path in inputs], target, Settings(units=UNITS, **options), workers=1)
        return
    for number, path in enumerate(inputs):
        molrec_convert.convert(path, target.parent / f"{number}.mrec.lmdb", units="metal")
    molrec_convert.convert([target.parent / f"{number}.mrec.lmdb" for number in range(2)], target)


@pytest.mark.parametrize("kind", ["migrate", "convert"])
def test_a_key_some_inputs_lack_is_missing_there(kind: str, tmp_path: Path) -> None:
    """Nobody is asked for a fill, and ASE reads a stress from the one frame that has one."""
    target = tmp_path / "all.mrec.lmdb"
    of_two_files(kind, target)
    with molrec_convert.open(target) as collection:
        assert collection.declaration.meta["stress"] == MetaDeclaration("f64x9", [math.nan] * 9)
        first, second = (record.trajectory[0].meta for record in collection)
        assert first["stress"].tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 1]
        assert "stress" not in second
        assert second["pe"] == -2.0
    molrec_convert.convert(target, tmp_path / "back.extxyz")
    assert "nan" not in (tmp_path / "back.extxyz").read_text().lower()
    stressed, other = ase.io.read(tmp_path / "back.extxyz", ":")
    assert stressed.get_stress().tolist() == [1, 1, 1, 0, 0, 0]
    assert "stress" not in other.calc.results
    assert other.get_potential_energy() == -2.0
    if kind == "migrate":
        with molrec_convert.open(target) as collection:
            assert verify_collection(collection, [str(FAULTS / "p[ab].extxyz")]).is_equal


def test_a_fill_that_is_asked_for_is_a_value(tmp_path: Path) -> None:
    of_two_files("migrate", tmp_path / "a.mrec.lmdb", fill={"stress": "0.5"})
    of_two_files("migrate", tmp_path / "b.mrec.lmdb", fill={"stress": "NaN"})
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as filled, molrec_convert.open(tmp_path / "b.mrec.lmdb") as left:
        assert filled[1].trajectory[0].meta["stress"].tolist() == [0.5] * 9
        assert "stress" not in left[1].trajectory[0].meta


def rows(**columns: Any) -> Record:
    atoms = Block({"x": np.zeros(2), **columns})
    meta = Meta({"pe": -1.0}) if "fx" in columns else Meta()
    system = Frame({"atoms": Block({"id": np.arange(2, dtype=np.uint64)})})
    system.meta["units"] = {"preset": "metal"}
    return Record(system=system, trajectory=MemoryTrajectory([Frame({"atoms": atoms}, meta, step=0)]))


@pytest.mark.parametrize("kind", ["migrate", "convert"])
def test_a_column_some_inputs_lack_is_null_there(kind: str, tmp_path: Path) -> None:
    texts = np.array(["a", "b"], np.dtypes.StringDType())
    molrec_convert.write(rows(fx=np.ones(2), q=np.array([1, 2]), note=texts), tmp_path / "a.mrec")
    molrec_convert.write(rows(), tmp_path / "b.mrec")
    inputs, target = [str(tmp_path / "a.mrec"), str(tmp_path / "b.mrec")], tmp_path / "all.mrec.lmdb"
    if kind == "migrate":
        outcome = migrate(inputs, target, Settings(), workers=1)
        assert "pe, atoms/fx, atoms/q, atoms/note are missing in 1 of 2 inputs" in outcome.report.warnings
    else:
        molrec_convert.convert(inputs, target)
    with molrec_convert.open(target) as collection:
        first, second = (record.trajectory[0]["atoms"] for record in collection)
        assert first.columns["fx"].validity is None
        assert np.isnan(second["fx"]).all()
        assert second["q"].tolist() == [None, None]
        assert second["note"].tolist() == [None, None]
        assert list(second) == ["x", "fx", "q", "note"]
        if kind == "migrate":
            assert verify_collection(collection, inputs).is_equal


def test_what_rows_are_is_not_left_open(tmp_path: Path) -> None:
    """Elements in the trajectory of one input may be in the system of the other."""
    molrec_convert.write(rows(element=np.array(["H", "H"], np.dtypes.StringDType())), tmp_path / "a.mrec")
    molrec_convert.write(rows(), tmp_path / "b.mrec")
    inputs = [str(tmp_path / "a.mrec"), str(tmp_path / "b.mrec")]
    with pytest.raises(UsageError, match="atoms/element: missing in"):
        migrate(inputs, tmp_path / "all.mrec.lmdb", Settings(), workers=1)
    with pytest.raises(ContractError, match="element"):
        molrec_convert.convert(inputs, tmp_path / "all.mrec.lmdb")


def test_none_in_place_of_an_energy(tmp_path: Path) -> None:
    """-1.0 and missing; ASE reads an energy from the first frame only."""
    molrec_convert.convert(FAULTS / "enone.extxyz", tmp_path / "a.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        assert [frame.meta.get("pe") for frame in record.trajectory] == [-1.0, None]
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.extxyz")
    first, second = ase.io.read(tmp_path / "b.extxyz", ":")
    assert first.get_potential_energy() == -1.0
    assert second.calc is None


def test_more_rows_than_are_counted(tmp_path: Path) -> None:
    path = FAULTS / "count_too_small.extxyz"
    with pytest.raises(FormatError, match=r"line 5: found one more row of atoms, .* expected 2 rows, as line 1 says"):
        molrec_convert.read(path)
    outcome = migrate(
        [str(path), str(FAULTS / "pa.extxyz")], tmp_path / "o.mrec.lmdb", Settings(units=UNITS), workers=1
    )
    assert (outcome.records, outcome.failures) == (1, 1)
