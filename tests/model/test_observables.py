"""Observables: arrays of any shape and dtype with their documents, through stores, conversions and validation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frame_stores as stores
import hand_built as hand
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_examples.records import build_results, build_vibration

import molrec_convert
from molrec_convert.errors import ContractError
from molrec_convert.formats import WriteContext
from molrec_convert.inspect.validation import Severity, validate
from molrec_convert.model import Observable, Observables, Record
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.stores.zarr import record as record_module
from molrec_convert.stores.zarr.record import open_record, write_packed, write_record
from molrec_convert.stores.zarr.record_writer import pack

CONTEXT = WriteContext(creator=False)
DOCUMENT = {"kind": "scalar", "description": "something", "time_dependent": False}
STATUS = {"state": "succeeded"}


def store(path: Path, **observables: Any) -> Path:
    entries = {k: v if isinstance(v, Observable) else Observable(v, DOCUMENT) for k, v in observables.items()}
    write_record(Record(status=STATUS, observables=Observables(entries)), path, CONTEXT)
    return path


def read(path: Path) -> Observables:
    with open_record(path) as record:
        assert record.observables is not None
        for entry in record.observables.values():
            _ = entry.values
        return record.observables


def errors(path: Path) -> list[tuple[str, str]]:
    return [(finding.node, finding.message) for finding in validate(path) if finding.severity is Severity.ERROR]


def warnings(path: Path) -> list[tuple[str, str]]:
    return [(finding.node, finding.message) for finding in validate(path) if finding.severity is Severity.WARNING]


SHAPES = [(), (0,), (1,), (5,), (3, 4), (2, 0, 3), (2, 3, 4), (2, 3, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_arrays_of_no_to_four_axes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    numbers = np.arange(np.prod(shape, dtype=int)) % 100
    values = (
        np.asarray(numbers.astype(str) if dtype == "string" else numbers).astype(DTYPES[dtype].numpy).reshape(shape)
    )
    path = store(tmp_path / "a.mrec", v=values)
    found = read(path)["v"]
    assert (found.dtype, found.shape) == (dtype, shape)
    assert stores.bits(found.values) == stores.bits(values)
    assert stores.bits(stores.zarr_values(path / "observables" / "v").astype(values.dtype)) == stores.bits(values)
    assert validate(path) == []
    pack(path, tmp_path / "a.mrec.zip")
    assert stores.bits(read(tmp_path / "a.mrec.zip")["v"].values) == stores.bits(values)


@settings(max_examples=40)
@given(data=st.data())
def test_any_bits_come_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(sorted(DTYPES)))
    rows, trailing = data.draw(st.integers(0, 4)), data.draw(st.sampled_from([(), (2,), (1, 3)]))
    values = data.draw(stores.values_of(dtype, rows, trailing))
    document = {**data.draw(st.dictionaries(stores.texts, stores.documents, max_size=3)), **DOCUMENT}
    name = data.draw(stores.names.filter(lambda name: name != "meta"))
    path = tmp_path_factory.mktemp("any") / "a.mrec"
    write_record(Record(status=STATUS, observables=Observables({name: Observable(values, document)})), path, CONTEXT)
    found = read(path)[name]
    assert stores.bits(found.values) == stores.bits(values)
    assert json.dumps(found.metadata) == json.dumps(document)
    assert errors(path) == []


def test_a_large_array_is_one_shard(tmp_path: Path) -> None:
    values = np.arange(400_000.0).reshape(100_000, 4)
    path = store(tmp_path / "a.mrec", big=values)
    assert stores.bits(read(path)["big"].values) == stores.bits(values)
    document = json.loads((path / "observables" / "big" / "zarr.json").read_text())
    assert document["codecs"][0]["name"] == "sharding_indexed"
    assert document["codecs"][0]["configuration"]["index_location"] == "end"


def test_the_document_says_how_to_read_it(tmp_path: Path) -> None:
    entry = Observable.of([1.0, 2.0], "producer:odd", "what it is", unit="e*angstrom", axes=["q"], later={"a": None})
    found = read(store(tmp_path / "a.mrec", v=entry))["v"]
    assert (found.kind, found.description, found.unit) == ("producer:odd", "what it is", "e*angstrom")
    assert not found.time_dependent
    assert found.metadata == {**entry.metadata}
    assert found == entry
    assert found != Observable.of([1.0, -2.0], "producer:odd", "what it is")


def test_opening_a_record_reads_no_observable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store(tmp_path / "a.mrec", v=[1.0], w=[2.0])
    watched = stores.WatchedStorage(path)
    monkeypatch.setattr(record_module, "open_storage", lambda where: watched)
    with open_record(path) as record:
        assert record.sections == ["meta", "observables", "status"]
        assert [key for key in watched.reads if key.startswith("observables/")] == ["observables/zarr.json"]
        assert record.observables is not None
        assert list(record.observables) == ["v", "w"]
        assert record.observables["w"].shape == (1,)
        assert watched.chunks == []
        assert record.observables["w"].values.tolist() == [2.0]
        assert watched.chunks == ["observables/w/c/0"]


def test_an_observable_that_is_not_there() -> None:
    with pytest.raises(KeyError, match="no observable 'rdf'; there are dipole, msd"):
        _ = build_results().observables["rdf"]  # type: ignore[index]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["meta", ".", "..", "__x", "", "a/b", "a\0b", "zarr.json", "\ud800"])
def test_names_refused_at_write(tmp_path: Path, name: str) -> None:
    record = Record(status=STATUS, observables=Observables({name: Observable([1.0], DOCUMENT)}))
    with pytest.raises(ContractError, match="observables"):
        write_record(record, tmp_path / "a.mrec", CONTEXT)
    assert not (tmp_path / "a.mrec").exists()


DOCUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({"description": "", "time_dependent": False}, "no 'kind'"),
    "kind": ({**DOCUMENT, "kind": 1}, "found 1, expected a text"),
    "no description": ({"kind": "scalar", "time_dependent": False}, "no 'description'"),
    "no time_dependent": ({"kind": "scalar", "description": ""}, "no 'time_dependent'"),
    "time_dependent": ({**DOCUMENT, "time_dependent": 0}, "found 0, expected true or false"),
}


@pytest.mark.parametrize("what", DOCUMENTS)
def test_documents_refused(tmp_path: Path, what: str) -> None:
    document, words = DOCUMENTS[what]
    with pytest.raises(ContractError, match=f"observables/meta/v.*{words}"):
        store(tmp_path / "a.mrec", v=Observable([1.0], document))
    path = store(tmp_path / "b.mrec", v=[1.0])
    hand.group(path / "observables" / "meta" / "v", **document)
    with pytest.raises(ContractError, match=f"observables/meta/v.*{words}"):
        read(path)
    assert [(node, words in text) for node, text in errors(path)] == [("observables/meta/v", True)]


@pytest.mark.parametrize("document", [{**DOCUMENT, "x": float("nan")}, {**DOCUMENT, "x": np.float64(1)}])
def test_a_document_that_is_no_plain_json(tmp_path: Path, document: dict[str, Any]) -> None:
    with pytest.raises(ContractError, match="observables/meta/v"):
        store(tmp_path / "a.mrec", v=Observable([1.0], document))


def test_a_time_dependent_observable_has_an_axis_of_frames(tmp_path: Path) -> None:
    entry = Observable.of(1.5, "scalar", "x", time_dependent=True)
    with pytest.raises(ContractError, match="observables/v: a time-dependent observable has an axis of frames"):
        store(tmp_path / "a.mrec", v=entry)
    path = store(tmp_path / "b.mrec", v=1.5)
    stores.set_attribute(path / "observables" / "meta" / "v", time_dependent=True)
    assert errors(path) == [
        ("observables/v", "a time-dependent observable has an axis of frames: found a single value")
    ]


@pytest.mark.parametrize("values", [np.float32(1), np.zeros(3, np.float16), [object()], np.zeros(2, "M8[s]")])
def test_values_of_no_dtype_of_the_contract(values: Any) -> None:
    with pytest.raises(ContractError):
        Observable(values, DOCUMENT)


def without_document(path: Path) -> None:
    (path / "observables" / "meta" / "v" / "zarr.json").unlink()


def without_array(path: Path) -> None:
    (path / "observables" / "v" / "zarr.json").unlink()


def narrow(path: Path) -> None:
    stores.edit(path / "observables" / "v", lambda document: document.update(data_type="float32"))


def flipped(path: Path) -> None:
    chunk = path / "observables" / "v" / "c" / "0"
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])


def meta_is_an_array(path: Path) -> None:
    hand.array(path / "observables" / "meta", [1.0])


DAMAGE: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "array without metadata": (without_document, "observables/v", "the observable has no document"),
    "metadata without array": (without_array, "observables/meta/v", "the document has no array"),
    "float32": (narrow, "observables/v", "data type"),
    "checksum": (flipped, "observables/v", "checksum"),
    "meta is an array": (meta_is_an_array, "observables/meta", ""),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_refused_and_found(tmp_path: Path, what: str) -> None:
    damage, node, words = DAMAGE[what]
    path = store(tmp_path / "a.mrec", v=[1.5, 2.5])
    damage(path)
    with pytest.raises(ContractError) as error:
        read(path)
    assert error.value.node.startswith(node)
    assert words in str(error.value)
    assert any(where.startswith(node) and words in text for where, text in errors(path))


@pytest.mark.parametrize("shape", [[10**15], [1, 10**12], [10**6, 10**9]])
def test_huge_claims_end_in_findings(tmp_path: Path, shape: list[int]) -> None:
    path = store(tmp_path / "a.mrec", v=np.ones([1] * len(shape)))
    for chunk in (shape, [1] * len(shape), [1, *shape[1:]]):
        grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
        stores.edit(
            path / "observables" / "v", lambda document, grid=grid: document.update(shape=shape, chunk_grid=grid)
        )  # type: ignore[misc]
        for _, text in errors(path):
            assert "\n" not in text


def test_an_array_the_size_of_its_claims_is_zeros_where_nothing_is_stored(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", v=np.zeros((1000, 3)), w=0.0)
    assert not (path / "observables" / "v" / "c").exists()
    assert not read(path)["v"].values.any()
    assert read(path)["w"].values.shape == ()
    assert validate(path) == []


# --- what is carried --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["directory", "packed"])
def test_what_is_unknown_passes_copies(tmp_path: Path, form: str) -> None:
    path = store(tmp_path / "a.mrec", v=[1.0], w=2.5)
    section = path / "observables"
    for node in ("", "meta", "v"):
        stores.set_attribute(section / node, later={"node": node, "null": None})
    hand.group(section / "group", kind="new")
    hand.array(section / "meta" / "loose", [1.0])
    hand.group(section / "meta" / "v" / "inner", a=1)
    hand.array(section / "__later", [3.0])
    (section / "notes.txt").write_text("x")
    between = path
    if form == "packed":
        between = tmp_path / "b.mrec.zip"
        with open_record(path) as record:
            write_packed(record, between, CONTEXT)
    with open_record(between) as record:
        write_record(record, tmp_path / "c.mrec", CONTEXT)
    before, after = dict(stores.every_file(path)), dict(stores.every_file(tmp_path / "c.mrec"))
    assert before.keys() == after.keys()
    for key, data in before.items():
        assert json.loads(data) == json.loads(after[key]) if key.endswith("zarr.json") else data == after[key], key
    assert [node for node, _ in errors(path)] == ["observables/__later", "observables/__later"]


def test_changing_what_was_read(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", v=[1.0], w=[2.0])
    with open_record(path) as record:
        assert record.observables is not None
        del record.observables["v"]
        record.observables["new"] = Observable.of(np.array("text"), "label", "a name")
        write_record(record, tmp_path / "b.mrec", CONTEXT)
    found = read(tmp_path / "b.mrec")
    assert list(found) == ["new", "w"]
    assert str(found["new"].values) == "text"
    assert not (tmp_path / "b.mrec" / "observables" / "v").exists()


def test_no_observables_is_an_empty_section(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec")
    assert len(read(path)) == 0
    assert validate(path) == []


# --- beside a trajectory ----------------------------------------------------------------------------------------------


def test_frames_that_are_taken_take_their_rows_along(tmp_path: Path) -> None:
    molrec_convert.write(build_results(), tmp_path / "a.mrec")
    report = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", frames=slice(1, None, 2))
    with molrec_convert.open(tmp_path / "b.mrec") as record:
        assert len(record.trajectory) == 2  # type: ignore[arg-type]
        assert record.observables is not None
        assert record.observables["msd"].values.tolist() == [0.0011, 0.0031]
        assert record.observables["dipole"].values.tolist() == [0.0, 0.0, 0.3929]
    assert any(item.name == "observables/msd" for item in report.items)
    assert report.warnings == []
    assert validate(tmp_path / "b.mrec") == []


def test_rows_that_are_not_the_frames_are_a_warning(tmp_path: Path) -> None:
    record = build_results()
    record.observables["msd"] = Observable.of([1.0, 2.0], "scalar", "short", time_dependent=True)  # type: ignore[index]
    report = molrec_convert.write(record, tmp_path / "a.mrec")
    assert report.warnings == ["observables/msd is time-dependent and has 2 rows, the trajectory 4 frames"]
    assert warnings(tmp_path / "a.mrec") == [
        ("observables/msd", "is time-dependent and has 2 rows, the trajectory has 4 frames")
    ]
    report = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", frames=slice(0, 2))
    assert "observables/msd is kept whole" in report.warnings[0]


def test_appending_leaves_observables_alone(tmp_path: Path) -> None:
    molrec_convert.write(build_results(), tmp_path / "a.mrec")
    before = dict(stores.every_file(tmp_path / "a.mrec"))
    source = build_vibration().trajectory
    assert source is not None
    with molrec_convert.append(tmp_path / "a.mrec") as writer:
        frame = source.frame(3)
        frame.step, frame.time = 400, 2.0
        writer.append_frame(frame)
    after = dict(stores.every_file(tmp_path / "a.mrec"))
    assert all(after[key] == data for key, data in before.items() if key.startswith("observables/"))


def test_a_unit_that_is_no_text_is_a_warning(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", v=Observable([1.0], {**DOCUMENT, "unit": 3, "sampling": None}))
    assert warnings(path) == [("observables/meta/v", "unit is not a text: found 3")]
    assert read(path)["v"].unit is None
