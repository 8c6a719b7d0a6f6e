"""What this version has no model for: kept when a record is read and written again, file by file and key by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import frame_stores as stores
import numpy as np
import pytest
from layout_examples import records as examples

from molrec_convert.errors import ContractError
from molrec_convert.formats import WriteContext
from molrec_convert.model import Block, Column, Frame, Record
from molrec_convert.stores.zarr.record import append_record, open_record, write_packed, write_record
from molrec_convert.stores.zarr.record_writer import pack, unpack
from molrec_convert.stores.zarr.v3.storage import write_document

CONTEXT = WriteContext(creator=False)


def group(path: Path, **attributes: Any) -> Path:
    write_document(path, {"zarr_format": 3, "node_type": "group", "attributes": attributes})
    return path


@pytest.fixture
def rich(tmp_path: Path) -> Path:
    """The page's vibration with a snapshot, and something unknown at every place there is."""
    record = examples.build_vibration()
    record.frame = Frame(
        {"sites": Block({"c": Column(np.array([1.0, 2.0]), np.array([True, False])), "d": [1, 2]})},
        box=examples.build_water().frame.box,  # type: ignore[union-attr]
    )
    path = tmp_path / "rich.mrec"
    write_record(record, path, CONTEXT)
    # Sections, groups, arrays and plain files.
    group(path / "plots", kind="later")
    stores.zarr_create(path / "plots" / "rdf", np.arange(5.0))
    stores.zarr_create(path / "loose", np.arange(3, dtype=np.float32))
    (path / "README.txt").write_text("read me")
    (path / "notes").mkdir()
    (path / "notes" / "a.txt").write_text("no node at all")
    group(path / "meta" / "history", first=1)
    group(path / "system" / "atoms" / "groups", kind="residues")
    stores.zarr_create(path / "system" / "loose", np.arange(2))
    stores.zarr_create(path / "frame" / "box" / "strain", np.arange(6.0))
    (path / "frame" / "sites" / "c" / "notes.txt").write_text("beside the chunks")
    group(path / "frame" / "sites" / "_validity" / "later")
    stores.write(path / "trajectory", Frame({"inner": Block({"x": [1.0]})}), "undeclared")
    stores.zarr_create(path / "trajectory" / "atoms" / "charge_later", np.arange(4.0))
    stores.zarr_create(path / "trajectory" / "meta" / "later", np.arange(4.0))
    (path / "trajectory" / "notes.txt").write_text("of a run")
    # Attributes of nodes that are known.
    for node in (
        "", "meta", "system/atoms", "system/atoms/element", "frame/sites/c", "frame/box", "frame/box/vectors",
        "frame/sites/_validity", "frame/sites/_validity/c", "trajectory", "trajectory/atoms", "trajectory/atoms/x",
        "trajectory/box", "trajectory/meta", "trajectory/meta/pe",
    ):  # fmt: skip
        stores.set_attribute(path / node, later={"node": node, "null": None})
    return path


UNKNOWN = {
    "README.txt",
    "frame/box/strain/zarr.json",
    "frame/sites/_validity/later/zarr.json",
    "frame/sites/c/notes.txt",
    "loose/zarr.json",
    "meta/history/zarr.json",
    "notes/a.txt",
    "plots/rdf/c/0",
    "plots/zarr.json",
    "system/atoms/groups/zarr.json",
    "system/loose/zarr.json",
    "trajectory/atoms/charge_later/zarr.json",
    "trajectory/meta/later/zarr.json",
    "trajectory/notes.txt",
    "trajectory/undeclared/inner/x/c/0",
}


def test_unknown_content_is_found(rich: Path) -> None:
    with open_record(rich) as record:
        assert record.unknown is not None
        keys = list(record.unknown.keys())
        assert keys == sorted(keys)
        assert set(keys) >= UNKNOWN
        assert record.unknown.read("README.txt") == b"read me"
        with pytest.raises(KeyError):
            record.unknown.read("missing")


def test_known_content_is_not_unknown(tmp_path: Path) -> None:
    for name in ("water", "vibration", "reaction"):
        record = getattr(examples, f"build_{name}")()
        write_record(record, tmp_path / name, CONTEXT)
        with open_record(tmp_path / name) as read:
            assert read.unknown is not None
            assert list(read.unknown.keys()) == []


@pytest.mark.parametrize("form", ["directory", "packed"])
def test_everything_is_carried(rich: Path, tmp_path: Path, form: str) -> None:
    target = tmp_path / "copy.mrec"
    with open_record(rich) as record:
        if form == "directory":
            write_record(record, target, CONTEXT)
        else:
            write_packed(record, tmp_path / "copy.mrec.zip", CONTEXT)
            unpack(tmp_path / "copy.mrec.zip", target)
        assert record.unknown is not None
        for key in record.unknown.keys():  # noqa: SIM118
            assert (target / key).read_bytes() == (rich / key).read_bytes(), key
    before, after = dict(stores.every_file(rich)), dict(stores.every_file(target))
    assert set(before) == set(after)
    for node in sorted(key.removesuffix("zarr.json").rstrip("/") for key in before if key.endswith("zarr.json")):
        assert stores.attributes(target / node) == stores.attributes(rich / node), node


def test_a_second_copy_is_the_first(rich: Path, tmp_path: Path) -> None:
    with open_record(rich) as record:
        write_record(record, tmp_path / "a", CONTEXT)
    with open_record(tmp_path / "a") as record:
        write_record(record, tmp_path / "b", CONTEXT)
    assert dict(stores.every_file(tmp_path / "a")) == dict(stores.every_file(tmp_path / "b"))


def test_unknown_content_is_carried_out_of_a_zip(rich: Path, tmp_path: Path) -> None:
    pack(rich, tmp_path / "rich.mrec.zip")
    with open_record(tmp_path / "rich.mrec.zip") as packed, open_record(rich) as record:
        assert packed.unknown is not None
        assert record.unknown is not None
        assert list(packed.unknown.keys()) == list(record.unknown.keys())
        write_record(packed, tmp_path / "copy", CONTEXT)
    assert set(dict(stores.every_file(tmp_path / "copy"))) == set(dict(stores.every_file(rich)))


def test_a_changed_record_keeps_what_is_unknown(rich: Path, tmp_path: Path) -> None:
    with open_record(rich) as record:
        assert record.frame is not None
        del record.frame.blocks["sites"]
        record.status = {"state": "succeeded"}
        write_record(record, tmp_path / "copy", CONTEXT)
    with open_record(tmp_path / "copy") as copy:
        assert copy.frame is not None
        assert copy.unknown is not None
        assert list(copy.frame) == []
        keys = set(copy.unknown.keys())
        assert "frame/sites/c/notes.txt" in keys
        assert "frame/sites/c/zarr.json" not in keys


def test_unknown_content_in_the_way_is_refused(rich: Path, tmp_path: Path) -> None:
    with open_record(rich) as record:
        assert record.system is not None
        record.system.blocks["loose"] = Block({"c": [1.0]})
        with pytest.raises(ContractError, match="system/loose"):
            write_record(record, tmp_path / "copy", CONTEXT)


def test_unknown_content_cannot_leave_the_record(tmp_path: Path) -> None:
    class Escaping:
        def keys(self) -> Any:
            return iter(["../escape"])

        def read(self, key: str) -> bytes:
            return b"evil"

    record = Record(frame=Frame({"atoms": Block(count=1)}), unknown=Escaping())
    with pytest.raises(ContractError, match="no plain path"):
        write_record(record, tmp_path / "a", CONTEXT)
    assert not (tmp_path / "escape").exists()


def test_unknown_content_below_a_section_is_enough_for_a_record(tmp_path: Path) -> None:
    group(tmp_path / "a")
    group(tmp_path / "a" / "status" / "later")
    with open_record(tmp_path / "a") as record:
        assert record.sections == ["meta"]
        write_record(record, tmp_path / "b", CONTEXT)
    assert (tmp_path / "b" / "status" / "later" / "zarr.json").is_file()


def test_hidden_files_are_no_content(rich: Path) -> None:
    (rich / ".DS_Store").touch()
    (rich / "frame" / ".zarr.json.1.tmp").touch()
    (rich / ".git").mkdir()
    (rich / ".git" / "config").touch()
    with open_record(rich) as record:
        assert record.unknown is not None
        assert not any("/." in f"/{key}" for key in record.unknown.keys())  # noqa: SIM118


def test_appending_leaves_unknown_content_alone(rich: Path) -> None:
    before = dict(stores.every_file(rich))
    with append_record(rich) as writer:
        writer.append_frame(
            Frame(
                {"atoms": Block({k: [0.0, 1.0, 2.0, 3.0] for k in "xyz"})}, {"pe": 1.0, "temp": 2.0}, step=400, time=2.0
            )  # type: ignore[arg-type]
        )
    after = dict(stores.every_file(rich))
    with open_record(rich) as record:
        assert record.trajectory is not None
        assert len(record.trajectory) == 5
        assert record.unknown is not None
        for key in record.unknown.keys():  # noqa: SIM118
            assert after[key] == before[key], key


@pytest.mark.parametrize("gone", ["frame/zarr.json", "loose/zarr.json", "plots/zarr.json"])
def test_files_of_a_node_whose_metadata_is_gone_are_not_carried(rich: Path, tmp_path: Path, gone: str) -> None:
    (rich / gone).unlink()
    node = gone.removesuffix("/zarr.json")
    with open_record(rich) as record, pytest.raises(ContractError, match=f"{node}.*zarr.json is gone"):
        write_record(record, tmp_path / "copy.mrec", CONTEXT)
