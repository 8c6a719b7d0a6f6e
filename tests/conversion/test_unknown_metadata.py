"""What nodes say that this version has never heard of: attributes, and keys of `zarr.json`, at every node there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import frame_stores as stores
import numpy as np
import pytest
from layout_examples import records as examples

import molrec_convert
from molrec_convert.formats import WriteContext
from molrec_convert.inspect.validation import Severity, validate
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    BlockUpdates,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    FrameBatch,
    Record,
)
from molrec_convert.report import Fate, Report
from molrec_convert.stores.zarr.record import append_record, open_record, write_packed, write_record
from molrec_convert.stores.zarr.record_writer import pack, unpack
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

CONTEXT = WriteContext(creator=False)
LATER = {"later": {"a": [1, None, "é"]}, "null": None}
EXAMPLES = ("water", "slab", "vacuum", "vibration", "reaction", "peroxide", "results", "fit", "tour")
#: Sections whose attributes are a document of the section itself, typed or not.
_TYPED = ("system", "frame")


def speak(root: Path) -> list[str]:
    """Let every node of a store say something unknown; returns the nodes."""
    nodes = []
    for path in sorted(root.rglob("zarr.json")):
        node = path.parent.relative_to(root).as_posix()
        document = json.loads(path.read_text())
        if node not in _TYPED:
            document["attributes"].update(LATER)
        document["later"] = {"must_understand": False, "name": node}
        if document["node_type"] == "array":
            document["dimension_names"] = [None if n % 2 else f"axis {n}" for n in range(len(document["shape"]))]
        path.write_text(json.dumps(document))
        nodes.append(node)
    return nodes


def said(root: Path) -> dict[str, Any]:
    """What nodes say beside what has to be there: attributes, names of dimensions, keys of later versions."""
    found = {}
    for path in sorted(root.rglob("zarr.json")):
        document = json.loads(path.read_text())
        attributes = {key: value for key, value in document["attributes"].items() if key != "nstep"}
        found[path.parent.relative_to(root).as_posix()] = (
            attributes,
            document.get("dimension_names"),
            document.get("later"),
        )
    return found


def example(name: str, path: Path) -> Path:
    write_record(getattr(examples, f"build_{name}")(), path, CONTEXT)
    assert speak(path)
    return path


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_node_keeps_what_it_says(name: str, tmp_path: Path) -> None:
    root = example(name, tmp_path / "a.mrec")
    with open_record(root) as record:
        write_record(record, tmp_path / "copy.mrec", CONTEXT)
        write_packed(record, tmp_path / "copy.mrec.zip", CONTEXT)
    assert said(tmp_path / "copy.mrec") == said(root)
    unpack(tmp_path / "copy.mrec.zip", tmp_path / "unpacked.mrec")
    assert said(tmp_path / "unpacked.mrec") == said(root)


@pytest.mark.parametrize("name", EXAMPLES)
def test_conversions_between_directory_and_zip_keep_it(name: str, tmp_path: Path) -> None:
    root = example(name, tmp_path / "a.mrec")
    molrec_convert.convert(root, tmp_path / "b.mrec.zip")
    molrec_convert.convert(tmp_path / "b.mrec.zip", tmp_path / "c.mrec")
    before, after = said(root), said(tmp_path / "c.mrec")
    for attributes, _, _ in (before["meta"], after["meta"]):
        attributes.pop("creator", None)
        attributes.pop("molrec_version", None)
    assert after == before
    pack(root, tmp_path / "d.mrec.zip")
    unpack(tmp_path / "d.mrec.zip", tmp_path / "e.mrec")
    assert dict(stores.every_file(tmp_path / "e.mrec")) == dict(stores.every_file(root))


@pytest.mark.parametrize("name", ["vibration", "reaction"])
def test_appending_keeps_it(name: str, tmp_path: Path) -> None:
    root = example(name, tmp_path / "a.mrec")
    before = said(root)
    with open_record(root) as record:
        assert record.trajectory is not None
        last = record.trajectory[-1]
        blocks = {key: Block(dict(block.columns), count=block.count) for key, block in last.blocks.items()}
    step, time = last.step or 0, last.time
    for more in (1, 2):
        with append_record(root) as writer:
            for block in blocks.values():
                for column in block.columns.values():
                    if column.dtype == "f64":
                        column.values = column.values + 1.0
            writer.append_frame(
                Frame(blocks, last.meta, last.box, step + 1000 * more, None if time is None else time + 10 * more)
            )
    after = said(root)
    for node, (attributes, dimensions, later) in before.items():
        assert after[node][1:] == (dimensions, later), node
        assert {key: after[node][0].get(key, "") for key in LATER} == {k: attributes.get(k, "") for k in LATER}, node


def test_masks_without_nulls_and_default_parts_of_cells_stay_where_they_say_something(tmp_path: Path) -> None:
    """An all-true mask is no mask, and an origin of zeros the default: only what is said there keeps them."""
    sites = Block({"c": Column(np.array([1.0, 2.0]), np.array([True, False])), "d": [1, 2]})
    record = Record(frame=Frame({"sites": sites}, box=examples.build_water().frame.box))  # type: ignore[union-attr]
    root = tmp_path / "a.mrec"
    write_record(record, root, CONTEXT)
    stores.zarr_create(root / "frame/sites/_validity/d", np.ones(2, np.bool_))
    stores.zarr_create(root / "frame/box/origin", np.zeros(3))
    stores.zarr_create(root / "frame/box/boundary", np.ones(3, np.bool_))
    speak(root)
    with open_record(root) as read:
        write_record(read, tmp_path / "b.mrec", CONTEXT)
    assert said(tmp_path / "b.mrec") == said(root)
    with open_record(tmp_path / "b.mrec") as read:
        assert read.frame == record.frame
    # said nothing, they go
    for path in root.rglob("zarr.json"):
        document = json.loads(path.read_text())
        for key in ("later", "dimension_names"):
            document.pop(key, None)
        for key in LATER:
            document["attributes"].pop(key, None)
        path.write_text(json.dumps(document))
    with open_record(root) as read:
        write_record(read, tmp_path / "c.mrec", CONTEXT)
    nodes = set(said(tmp_path / "c.mrec"))
    assert "frame/sites/_validity/c" in nodes
    assert nodes.isdisjoint({"frame/sites/_validity/d", "frame/box/origin", "frame/box/boundary"})


#: Arrays of a run that its writer leaves out while they say nothing of their own.
ELIDED = (
    "step",
    "time",
    "atoms/step_index",
    "atoms/offset",
    "box/vectors",
    "box/step_index",
    "box/origin",
    "box/boundary",
)


def spelled_out(root: Path) -> Path:
    """The page's vibration with everything as arrays that could be attributes."""
    record = examples.build_vibration()
    write_record(record, root, CONTEXT)
    run, count = root / "trajectory", len(record.trajectory or ())
    frames = list(record.trajectory or ())
    for key in ("step_progression", "time_progression"):
        stores.drop_attribute(run, key)
    for key in ("uniform_rows", "dense_updates"):
        stores.drop_attribute(run / "atoms", key)
    stores.drop_attribute(run / "box", "vectors")
    cell = frames[0].box
    assert cell is not None
    values: dict[str, Any] = {
        "step": np.array([frame.step for frame in frames]),
        "time": np.array([frame.time for frame in frames]),
        "atoms/step_index": np.arange(count, dtype=np.uint64),
        "atoms/offset": np.arange(count + 1, dtype=np.uint64) * np.uint64(frames[0]["atoms"].count),
        "box/vectors": cell.vectors[None],
        "box/step_index": np.zeros(1, np.uint64),
        "box/origin": np.zeros((1, 3)),
        "box/boundary": np.ones((1, 3), np.bool_),
    }
    assert tuple(values) == ELIDED
    for path, array in values.items():
        stores.zarr_create(run / path, array)
    return root


def test_arrays_that_could_be_left_out_stay_where_they_say_something(tmp_path: Path) -> None:
    root = spelled_out(tmp_path / "a.mrec")
    with open_record(root) as read:
        write_record(read, tmp_path / "short.mrec", CONTEXT)
    assert not any((tmp_path / "short.mrec/trajectory" / path).exists() for path in ELIDED)
    speak(root)
    report = Report()
    with open_record(root) as read:
        write_record(read, tmp_path / "b.mrec", WriteContext(creator=False, report=report))
    assert said(tmp_path / "b.mrec") == said(root)
    assert not report.lossy
    with open_record(tmp_path / "b.mrec") as read:
        assert read.trajectory is not None
        assert list(read.trajectory) == list(examples.build_vibration().trajectory or ())


@pytest.mark.parametrize("path", ELIDED)
@pytest.mark.parametrize("how", ["attribute", "dimension"])
def test_one_such_array_stays_alone(path: str, how: str, tmp_path: Path) -> None:
    root = spelled_out(tmp_path / "a.mrec")
    document = json.loads((root / "trajectory" / path / "zarr.json").read_text())
    if how == "attribute":
        document["attributes"].update(LATER)
    else:
        document["dimension_names"] = ["n"] * len(document["shape"])
    (root / "trajectory" / path / "zarr.json").write_text(json.dumps(document))
    with open_record(root) as read:
        write_record(read, tmp_path / "b.mrec", CONTEXT)
    after = said(tmp_path / "b.mrec")
    assert after[f"trajectory/{path}"][0] == (LATER if how == "attribute" else {})
    assert after[f"trajectory/{path}"][1] == document.get("dimension_names")
    there = {other for other in ELIDED if f"trajectory/{other}" in after}
    # a block's index and the arrays of a cell come together
    together = {"step": {"step"}, "time": {"time"}, "atoms": {"atoms/step_index", "atoms/offset"}}
    assert there == together.get(path.split("/")[0], {"box/vectors", "box/step_index", path})
    with open_record(tmp_path / "b.mrec") as read:
        assert list(read.trajectory or ()) == list(examples.build_vibration().trajectory or ())


def test_what_is_said_of_a_node_that_changed_is_reported(tmp_path: Path) -> None:
    root = example("water", tmp_path / "a.mrec")
    with open_record(root) as record:
        assert record.frame is not None
        record.frame.blocks["atoms"].columns["x"] = Column(np.zeros((len(record.frame.blocks["atoms"]["y"]), 2)))
        del record.frame.blocks["atoms"].columns["y"]
        report = Report()
        with pytest.raises(molrec_convert.ContractError):
            write_record(record, tmp_path / "b.mrec", CONTEXT)
        record.frame.blocks["atoms"].columns["w"] = record.frame.blocks["atoms"].columns.pop("x")
        write_record(record, tmp_path / "c.mrec", WriteContext(creator=False, report=report))
    dropped = {item.name for item in report.of(Fate.DROPPED)}
    assert {"zarr.json of frame/atoms/x", "zarr.json of frame/atoms/y"} <= dropped


def test_a_block_that_never_got_an_update_keeps_what_its_group_says(tmp_path: Path) -> None:
    declared = {
        "atoms": BlockDeclaration({"x": ColumnDeclaration("f64")}),
        "later": BlockDeclaration({"a": ColumnDeclaration("i32")}),
    }
    batch = FrameBatch(np.arange(2), blocks={"atoms": BlockUpdates.uniform(2, 1, {"x": np.arange(2.0)})})
    molrec_convert.write(Record(status={"state": "running"}), tmp_path / "a.mrec")
    with TrajectoryWriter.create(tmp_path / "a.mrec", Declaration(declared)) as writer:
        writer.append(batch)
    group = tmp_path / "a.mrec" / "trajectory" / "later"
    assert not group.exists()
    group.mkdir()
    (group / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": LATER}))
    write_record(open_record(tmp_path / "a.mrec"), tmp_path / "b.mrec", CONTEXT)
    with TrajectoryWriter.open(tmp_path / "b.mrec") as writer:
        writer.append(
            FrameBatch(np.array([5]), blocks={"later": BlockUpdates.uniform(1, 1, {"a": np.array([7], np.int32)})})
        )
    for name, frames in (("a", 2), ("b", 3)):
        record = open_record(tmp_path / f"{name}.mrec")
        assert len(record.trajectory) == frames
        assert said(tmp_path / f"{name}.mrec")["trajectory/later"][0].items() >= LATER.items()
    assert record.trajectory[2]["later"]["a"].tolist() == [7]
    assert not [finding for finding in validate(tmp_path / "b.mrec") if finding.severity is Severity.ERROR]
