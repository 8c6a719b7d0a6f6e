"""Samples: flat dicts of arrays, made in one pass from stored values, equal to those made from frames."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from collection_stores import UNITS
from frame_stores import frames
from hypothesis import given, settings

from molrec_convert.errors import ContractError, MolrecError
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.model.collection.collection import Collection, MemoryCollection
from molrec_convert.model.record import frame_sample, record_sample
from molrec_convert.stores.lmdb.dataset import CollectionDataset
from molrec_convert.stores.lmdb.reader import open_collection
from molrec_convert.stores.lmdb.writer import CollectionWriter

F64, U64 = ColumnDeclaration("f64"), ColumnDeclaration("u64")
#: Columns of every kind a sample tells apart: runs of equal ones, others between, flags, texts, masks, rows of several.
COLUMNS = {
    "x": F64,
    "y": F64,
    "n": ColumnDeclaration("i16"),
    "m": ColumnDeclaration("i16"),
    "s": ColumnDeclaration("f64", (3,)),
    "t": ColumnDeclaration("f64", (3,)),
    "zero": ColumnDeclaration("i32", (0,)),
    "flag": ColumnDeclaration("bool"),
    "name": ColumnDeclaration("string"),
    "held": ColumnDeclaration("f64", nullable=True),
    "w": ColumnDeclaration("c128"),
}


def block(rows: int, seed: int) -> Block:
    draw = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for key, declared in COLUMNS.items():
        shape = (rows, *declared.trailing)
        values: Any = draw.normal(size=shape) * 10
        if declared.dtype == "string":
            values = np.array([f"n{v:.2f}" for v in values.flat], dtype="T").reshape(shape)
        elif declared.dtype == "bool":
            values = values > 0
        else:
            values = values.astype({"f64": "f8", "i16": "i2", "i32": "i4", "c128": "c16"}[declared.dtype])
        mask = draw.integers(0, 2, rows).astype(bool) if declared.nullable else None
        columns[key] = Column(values, mask)
    return Block(columns, count=rows)


def members(declaration: Declaration, *, rows: tuple[int, ...] = (4, 4, 7, 0, 4)) -> list[Record]:
    records = []
    for number, count in enumerate(rows):
        states = []
        for step in range(1 + number % 2):
            state = block(count, 10 * number + step)
            state = Block({key: state.columns[key] for key in declaration.blocks["atoms"].columns}, count=count)
            meta = Meta()
            for key, entry in declaration.meta.items():
                meta.put(key, {"f64": 0.25 * number, "i64": -number, "json": {"a": [number]}}[entry.dtype], entry.dtype)
            box = Box(np.eye(3) * (5 + number)) if number == 2 else None
            states.append(Frame({"atoms": state}, meta, box, step=step, time=0.5 * step if number == 4 else None))
        bonds = Block({"atomi": np.arange(count, dtype=np.uint64)[:2], "atomj": np.arange(count, dtype=np.uint64)[:2]})
        names = Block({"element": np.array(["H"] * count, dtype="T"), "id": np.arange(count, dtype=np.uint64)})
        system = Frame({"atoms": names, "bonds": bonds}, Meta({"smiles": "O", "doc": {"b": 1}} if number else {}))
        if number == 1:
            system.box = Box(np.eye(3))
        records.append(Record(system=None if number == 3 else system, trajectory=MemoryTrajectory(states, declaration)))
    return records


def store(path: Path, records: list[Record], declaration: Declaration) -> Path:
    with CollectionWriter.create(path, declaration=declaration, units=UNITS) as writer:
        writer.extend(records)
    return path


def bits(sample: Any) -> Any:
    """A sample in a form that is equal only bit for bit."""
    if isinstance(sample, dict):
        return {key: bits(value) for key, value in sample.items()}
    if isinstance(sample, list):
        return [bits(value) for value in sample]
    if isinstance(sample, np.ndarray):
        return sample.dtype, sample.shape, sample.tobytes()
    return type(sample), struct.pack("<d", sample) if isinstance(sample, float) else sample


def by_hand(collection: Collection, frame: int) -> dict[str, Any]:
    record, position = collection.locate(frame)
    member = collection[record]
    assert member.trajectory is not None
    system = {} if member.system is None else frame_sample(member.system)
    return {**system, **frame_sample(member.trajectory[position], member.trajectory.declaration)}


META = {"pe": MetaDeclaration("f64"), "step_of": MetaDeclaration("i64"), "doc": MetaDeclaration("json")}


@pytest.mark.parametrize("columns", [["x"], ["x", "y"], ["x", "y", "n", "m"], ["s", "t", "x"], list(COLUMNS)])
@pytest.mark.parametrize("meta", [[], ["pe"], list(META)])
@pytest.mark.parametrize("single", [True, False])
def test_samples_are_those_of_the_frames(tmp_path: Path, columns: list[str], meta: list[str], single: bool) -> None:
    declaration = Declaration(
        {"atoms": BlockDeclaration({key: COLUMNS[key] for key in columns})}, {key: META[key] for key in meta}
    )
    records = members(declaration, rows=(4, 4, 7, 0, 4))
    if single:
        records = [record for record in records if len(record.trajectory or ()) == 1] * 3
    with open_collection(store(tmp_path / "c.mrec.lmdb", records, declaration)) as collection:
        assert (collection.index["n_frames"] == 1).all() == single
        for _ in range(2):
            for n in range(collection.n_frames):
                sample = collection.sample(n)
                assert bits(sample) == bits(by_hand(collection, n))
                assert list(sample) == list(by_hand(collection, n))
            for n in range(len(collection)):
                assert bits(collection.record_sample(n)) == bits(record_sample(collection[n]))
        chosen = collection.select([2, 0])
        for n in range(chosen.n_frames):
            assert bits(chosen.sample(n)) == bits(by_hand(chosen, n))
        assert bits(chosen.record_sample(1)) == bits(collection.record_sample(0))
        memory = MemoryCollection(records, units=UNITS, declaration=declaration)
        assert bits(memory.sample(0)) == bits(collection.sample(0))
        assert bits(memory.record_sample(-1)) == bits(collection.record_sample(len(collection) - 1))
        assert bits(collection.sample(-1)) == bits(collection.sample(collection.n_frames - 1))
        for wrong in (collection.n_frames, -collection.n_frames - 1):
            with pytest.raises(IndexError):
                collection.sample(wrong)


@settings(max_examples=60)
@given(frames())
def test_samples_of_systems_of_any_kind(tmp_path_factory: pytest.TempPathFactory, system: Frame) -> None:
    system.attributes = {}
    for table in system.blocks.values():
        table.targets, table.attributes = {k: t for k, t in table.targets.items() if t[0] != "/"}, {}
        for column in table.columns.values():
            column.attributes = {}
    try:
        system.check("system")
    except ContractError:
        return
    declaration = Declaration({"state": BlockDeclaration({"x": F64})})
    frame = Frame({"state": Block({"x": np.ones(2)})}, step=0)
    record = Record(system=system, trajectory=MemoryTrajectory([frame], declaration))
    path = store(tmp_path_factory.mktemp("c") / "c.mrec.lmdb", [record, record], declaration)
    with open_collection(path) as collection:
        for n in (0, 1, 0):
            assert bits(collection.sample(n)) == bits(by_hand(collection, n))


def test_an_items_arrays_are_its_own(tmp_path: Path) -> None:
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64, "y": F64})}, {"pe": MetaDeclaration("f64")})
    records = members(declaration, rows=(3, 3, 3))
    dataset = CollectionDataset(store(tmp_path / "c.mrec.lmdb", records, declaration), of="frames")
    items = [dataset[0], dataset[0], dataset[1], dataset[np.int64(-1)]]
    before = bits(items[1])
    for value in items[0].values():
        if isinstance(value, np.ndarray):
            value[...] = 0
    assert bits(items[1]) == bits(dataset[0]) == before
    assert items[0]["atoms/x"].flags.c_contiguous
    assert items[3]["step"] == 0


def patched(path: Path, key: bytes, change: Any) -> None:
    with lmdb.open(str(path), subdir=False, lock=False) as environment, environment.begin(write=True) as transaction:
        transaction.put(key, change(transaction.get(key)))


def test_a_broken_value_is_refused_on_the_short_way_too(tmp_path: Path) -> None:
    """After a sound value of the same layout, which is when the short way is taken."""
    declaration = Declaration({"atoms": BlockDeclaration({"x": F64})}, {"pe": MetaDeclaration("f64")})

    def record(reference: int = 0) -> Record:
        bonds = Block({"atomi": np.array([reference], np.uint64), "atomj": np.array([1], np.uint64)})
        system = Frame({"atoms": Block({"q": np.zeros(2)}), "bonds": bonds})
        state = Frame({"atoms": Block({"x": np.array([1.0, 2.0])})}, Meta({"pe": 0.5}), step=0)
        return Record(system=system, trajectory=MemoryTrajectory([state], declaration))

    def key(letter: bytes) -> bytes:
        return letter + (1).to_bytes(8, "big")

    def reference_out_of_range(value: bytes) -> bytes:
        return value[:-8] + (2).to_bytes(8, "little")

    def longer_header(value: bytes) -> bytes:
        return value[:4] + struct.pack("<I", len(value)) + value[8:]

    changes: list[tuple[bytes, Any, str]] = [
        (b"s", reference_out_of_range, "atom[ij]: a reference into 'atoms' is out of range|out of range"),
        (b"s", lambda value: value[:-8], "a buffer reaches past the value"),
        (b"f", lambda value: value[:-8], "a buffer reaches past the value"),
        (b"f", longer_header, "the header reaches past the value"),
        (b"f", lambda value: b"MRF2" + value[4:], "no frame bytes"),
        (b"f", lambda value: value.replace(b'"pe":0.5', b'"pf":0.5'), "per-step key"),
        (b"f", lambda value: value.replace(b'"pe":0.5', b'"pe":NaN'), "JSON"),
        (b"f", lambda value: value.replace(b'"step":0', b'"step":x'), "JSON"),
        (b"f", lambda value: value.replace(b'"step":0', b'"stop":0'), "states no step"),
        (b"f", lambda value: b"", "no frame bytes"),
    ]
    for number, (letter, change, message) in enumerate(changes):
        path = store(tmp_path / f"{number}.mrec.lmdb", [record(), record()], declaration)
        patched(path, key(letter), change)
        with open_collection(path) as collection:
            for _ in range(3):
                assert collection.sample(0)["pe"] == 0.5
                with pytest.raises(MolrecError, match=message):
                    collection.sample(1)
