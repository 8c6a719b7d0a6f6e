"""`meta`, `method`, `status`: versions, required keys, plain finite JSON, what a conversion stamps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import frame_stores as stores
import numpy as np
import pytest

import molrec_convert
from molrec_convert.errors import ContractError, FormatError, UsageError
from molrec_convert.formats import WriteContext
from molrec_convert.model import Block, Frame, MemoryTrajectory, Record
from molrec_convert.report import Fate
from molrec_convert.stores.options import MrecOptions
from molrec_convert.stores.zarr.record import open_record, read_store, write_record

METHOD = {"type": "classical", "description": "a run", "engine": {"name": "LAMMPS"}}
STATUS = {"state": "succeeded"}


def small(**documents: Any) -> Record:
    return Record(frame=Frame({"atoms": Block({"x": [0.0, 1.0]})}), **documents)


def store(path: Path, record: Record, **context: Any) -> Path:
    write_record(record, path, WriteContext(**{"creator": False, **context}))
    return path


def test_documents_come_back(tmp_path: Path) -> None:
    meta = {"molrec_version": 1, "record_id": "r1", "modules": {"m": {"version": [1, 2]}}, "author": {"name": "Å"}}
    with open_record(store(tmp_path / "a", small(meta=meta, method=METHOD, status=STATUS))) as record:
        assert record.meta == meta
        assert record.method == METHOD
        assert record.status == STATUS
        assert record.sections == ["meta", "frame", "method", "status"]


def test_sections_that_are_not_there_are_none(tmp_path: Path) -> None:
    with open_record(store(tmp_path / "a", small())) as record:
        assert (record.system, record.trajectory, record.method, record.status) == (None, None, None, None)


# The version


def test_every_writer_stamps_version_1(tmp_path: Path) -> None:
    store(tmp_path / "a", small())
    assert stores.attributes(tmp_path / "a" / "meta") == {"molrec_version": 1}


@pytest.mark.parametrize("version", [1, 2])
def test_a_valid_version_is_kept(tmp_path: Path, version: int) -> None:
    with open_record(store(tmp_path / "a", small(meta={"molrec_version": version}))) as record:
        assert record.meta == {"molrec_version": version}


def test_a_record_without_a_version_is_opened(tmp_path: Path) -> None:
    stores.drop_attribute(store(tmp_path / "a", small()) / "meta", "molrec_version")
    with open_record(tmp_path / "a") as record:
        assert record.meta == {}


@pytest.mark.parametrize("version", [None, 0, "1", 1.5, 1.0, True, 99, -1, 3, [1]], ids=str)
def test_any_other_version_is_refused(tmp_path: Path, version: Any) -> None:
    stores.set_attribute(store(tmp_path / "a", small()) / "meta", molrec_version=version)
    with pytest.raises(ContractError, match="molrec_version"):
        open_record(tmp_path / "a")
    with pytest.raises(ContractError, match="molrec_version"):
        store(tmp_path / "b", small(meta={"molrec_version": version}))
    assert not (tmp_path / "b").exists()


# What a conversion stamps


def test_a_conversion_names_its_creator(tmp_path: Path) -> None:
    store(tmp_path / "a", small(meta={"source": "x"}), creator=True)
    assert stores.attributes(tmp_path / "a" / "meta") == {
        "molrec_version": 1,
        "creator": {"name": "molrec-convert", "version": molrec_convert.__version__},
        "source": "x",
    }


def test_another_creator_gives_way_and_is_reported(tmp_path: Path) -> None:
    record = small(meta={"molrec_version": 1, "creator": {"name": "other"}, "created_at": "2026-01-01T00:00:00Z"})
    context = WriteContext()
    write_record(record, tmp_path / "a", context)
    meta = stores.attributes(tmp_path / "a" / "meta")
    assert meta["creator"]["name"] == "molrec-convert"
    assert meta["created_at"] == "2026-01-01T00:00:00Z"
    assert [item.name for item in context.report.of(Fate.CONVERTED)] == ["meta/creator"]
    assert record.meta["creator"] == {"name": "other"}


# Keys nobody knows


def test_unknown_keys_are_kept_null_ones_too(tmp_path: Path) -> None:
    unknown = {"empty": None, "nested": {"a": [None, {"b": 1.5}]}, "n": 2**60, "Å/b": "c", "__x": 0}
    meta, method, status = ({**known, **unknown} for known in ({"molrec_version": 1}, METHOD, STATUS))
    with open_record(store(tmp_path / "a", small(meta=meta, method=method, status=status))) as record:
        assert (record.meta, record.method, record.status) == (meta, method, status)
        store(tmp_path / "b", record)
    with open_record(tmp_path / "b") as again:
        assert (again.meta, again.method, again.status) == (meta, method, status)


# Required keys


@pytest.mark.parametrize("key", ["type", "description", "engine"])
def test_method_without_a_required_key_is_refused(tmp_path: Path, key: str) -> None:
    method = {name: value for name, value in METHOD.items() if name != key}
    with pytest.raises(ContractError, match=f"method.*{key}"):
        store(tmp_path / "b", small(method=method))
    stores.drop_attribute(store(tmp_path / "a", small(method=METHOD)) / "method", key)
    with pytest.raises(ContractError, match=f"method.*{key}"):
        open_record(tmp_path / "a")


@pytest.mark.parametrize("engine", [{}, {"name": 5}, "LAMMPS", None], ids=str)
def test_method_without_the_name_of_its_engine_is_refused(tmp_path: Path, engine: Any) -> None:
    stores.set_attribute(store(tmp_path / "a", small(method=METHOD)) / "method", engine=engine)
    with pytest.raises(ContractError, match="method"):
        open_record(tmp_path / "a")


@pytest.mark.parametrize("state", [None, 5, True])
def test_status_without_a_state_is_refused(tmp_path: Path, state: Any) -> None:
    with pytest.raises(ContractError, match=r"status.*state"):
        store(tmp_path / "b", small(status={"state": state}))
    stores.set_attribute(store(tmp_path / "a", small(status=STATUS)) / "status", state=state)
    with pytest.raises(ContractError, match=r"status.*state"):
        open_record(tmp_path / "a")


@pytest.mark.parametrize("kind", ["training", "workflow", "of my own"])
def test_any_type_of_method(tmp_path: Path, kind: str) -> None:
    with open_record(store(tmp_path / "a", small(method={**METHOD, "type": kind}))) as record:
        assert record.method is not None
        assert record.method["type"] == kind


# Plain finite JSON


@pytest.mark.parametrize("section", ["meta", "method", "status"])
@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {"a": [float("-inf")]}, np.float64(1), np.int64(1), {1: 2}, 1j]
)
def test_what_is_not_plain_finite_json_is_refused_at_write(tmp_path: Path, section: str, value: Any) -> None:
    documents: dict[str, dict[str, Any]] = {"meta": {}, "method": dict(METHOD), "status": dict(STATUS)}
    documents[section]["key"] = value
    with pytest.raises(ContractError, match=section):
        store(tmp_path / "a", small(**documents))
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("section", ["meta", "status"])
@pytest.mark.parametrize("literal", ["NaN", "-Infinity", "1e999"])
def test_numbers_json_does_not_have_are_refused_at_read(tmp_path: Path, section: str, literal: str) -> None:
    folder = store(tmp_path / "a", small(status=STATUS)) / section
    stores.set_attribute(folder, key="PLACE")
    path = folder / "zarr.json"
    path.write_text(path.read_text().replace('"PLACE"', literal))
    with pytest.raises(ContractError, match=section):
        open_record(tmp_path / "a")


@pytest.mark.parametrize("section", ["meta", "method"])
def test_a_document_that_is_an_array_is_refused(tmp_path: Path, section: str) -> None:
    store(tmp_path / "a", small())
    stores.zarr_create(tmp_path / "a" / section, np.ones(2))
    with pytest.raises(ContractError, match=section):
        open_record(tmp_path / "a")


# Root and record


def test_a_missing_meta_is_empty(tmp_path: Path) -> None:
    folder = store(tmp_path / "a", small())
    (folder / "meta" / "zarr.json").unlink()
    (folder / "meta").rmdir()
    with open_record(folder) as record:
        assert record.meta == {}


def test_meta_may_be_empty(tmp_path: Path) -> None:
    folder = store(tmp_path / "a", small())
    stores.edit(folder / "meta", lambda document: document.pop("attributes"))
    stores.edit(folder, lambda document: document.pop("attributes"))
    with open_record(folder) as record:
        assert record.meta == {}


def test_attributes_of_the_root_are_kept(tmp_path: Path) -> None:
    stores.set_attribute(store(tmp_path / "a", small()), note={"by": "hand"})
    with open_record(tmp_path / "a") as record:
        assert record.attributes == {"note": {"by": "hand"}}
        store(tmp_path / "b", record)
    assert stores.attributes(tmp_path / "b") == {"note": {"by": "hand"}}


def test_a_record_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="at least one of"):
        store(tmp_path / "a", Record(meta={"source": "x"}, method=METHOD))
    assert not (tmp_path / "a").exists()
    with open_record(store(tmp_path / "b", Record(status=STATUS))) as record:
        assert record.sections == ["meta", "status"]


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no zip")
    stores.zarr_create(tmp_path / "array", np.ones(3))
    for name in ("empty", "file", "array"):
        with pytest.raises(FormatError, match=name):
            open_record(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        open_record(tmp_path / "missing")


def test_a_directory_with_something_in_it_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UsageError, match="holds something"):
        store(tmp_path, small())
    assert [f.name for f in tmp_path.iterdir()] == ["mine"]


def test_a_place_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        store(tmp_path / "file" / "a", small())


def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal(50_000)
    record = Record(frame=Frame({"sites": Block({"c": values})}))
    with stores.no_room(100_000), pytest.raises(OSError, match="File too large"):
        store(tmp_path / "a", record)
    assert not (tmp_path / "a/frame/zarr.json").exists()
    assert not (tmp_path / "a/frame/sites/c/zarr.json").exists()
    frames = [Frame({"sites": Block({"c": values})})] * 3
    with stores.no_room(100_000), pytest.raises(OSError, match="File too large"):
        store(tmp_path / "b", Record(trajectory=MemoryTrajectory(frames)))


def test_a_frame_of_a_trajectory_leaves_step_and_time_behind_and_says_so(tmp_path: Path) -> None:
    context = WriteContext()
    write_record(Record(frame=Frame({"atoms": Block(count=1)}, step=5, time=0.5)), tmp_path / "a", context)
    assert [item.name for item in context.report.of(Fate.DROPPED)] == ["frame/step", "frame/time"]


def test_a_store_as_a_source_is_carried(tmp_path: Path) -> None:
    from molrec_convert.formats import ReadContext

    context = ReadContext()
    with read_store([store(tmp_path / "a", small(status=STATUS))], context) as record:
        assert record.path == str(tmp_path / "a")
    assert [item.name for item in context.report.of(Fate.CARRIED)] == ["meta", "frame", "status"]


@pytest.mark.parametrize(
    ("text", "codec"),
    [("none", None), ("gzip:6", ("gzip", 6)), ("zstd:12", ("zstd", 12)), ("gzip", ("gzip", 1)), ("zstd", ("zstd", 3))],
)
def test_compression_of_float_columns(tmp_path: Path, text: str, codec: tuple[str, int] | None) -> None:
    store(tmp_path / "a", small(), options=MrecOptions(compression=text))
    import json

    codecs = json.loads((tmp_path / "a/frame/atoms/x/zarr.json").read_text())["codecs"]
    found = [(c["name"], c["configuration"]["level"]) for c in codecs if "level" in c.get("configuration", {})]
    assert found == ([] if codec is None else [codec])


@pytest.mark.parametrize("text", ["", "lz4", "gzip:10", "zstd:0", "zstd:23", "gzip:-1", "gzip:x", "none:1", "zstd:3:4"])
def test_other_compressions_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="compression"):
        MrecOptions(compression=text)
