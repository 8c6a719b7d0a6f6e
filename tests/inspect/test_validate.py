"""`validate`: every rule has a store that breaks it, all findings are listed, nothing crashes."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hand_built as hand
import numpy as np
import pytest
from hand_stores import ragged, regular, snapshots, u64
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from independent import run_independent
from layout_examples.records import build_reaction, build_vibration, build_water

from molrec_convert.errors import MolrecError
from molrec_convert.formats import WriteContext
from molrec_convert.inspect.validation import Finding, Severity, validate
from molrec_convert.model import Record
from molrec_convert.stores.zarr.record import open_record
from molrec_convert.stores.zarr.record_writer import write_record
from molrec_convert.stores.zarr.v3.shards import index_size

Change = Callable[[Path], None]


def found(path: Path, severity: Severity = Severity.ERROR) -> list[tuple[str, str]]:
    return [(finding.node, finding.message) for finding in validate(path) if finding.severity is severity]


@pytest.mark.parametrize("build", [snapshots, regular, ragged])
def test_stores_in_order_have_no_findings(tmp_path: Path, build: Callable[[Path], Path]) -> None:
    assert validate(build(tmp_path / "good.mrec")) == []


def null_attribute(node: str, key: str) -> Change:
    """Set an attribute of a node to null."""
    return lambda path: hand.edit_json(path / node, lambda document: document["attributes"].update({key: None}))


def attribute(node: str, **changes: Any) -> Change:
    """Set attributes of a node; `None` removes."""

    def change(path: Path) -> None:
        def edit(document: dict[str, Any]) -> None:
            for key, value in changes.items():
                if value is None:
                    document["attributes"].pop(key, None)
                else:
                    document["attributes"][key] = value

        hand.edit_json(path / node, edit)

    return change


def schema_entry(*keys: str, value: Any) -> Change:
    def change(path: Path) -> None:
        def edit(document: dict[str, Any]) -> None:
            place = document["attributes"]["sequence_schema"]
            for key in keys[:-1]:
                place = place[key]
            place[keys[-1]] = value

        hand.edit_json(path / "trajectory", edit)

    return change


def metadata(node: str, **changes: Any) -> Change:
    return lambda path: hand.edit_json(path / node, lambda document: document.update(changes))


def array(node: str, values: Any, **attributes: Any) -> Change:
    def change(path: Path) -> None:
        shutil.rmtree(path / node, ignore_errors=True)
        hand.array(path / node, values, **attributes)

    return change


def remove(node: str) -> Change:
    return lambda path: shutil.rmtree(path / node)


def both(*changes: Change) -> Change:
    def change(path: Path) -> None:
        for one in changes:
            one(path)

    return change


def flip_byte(key: str) -> Change:
    def change(path: Path) -> None:
        raw = bytearray((path / key).read_bytes())
        raw[0] ^= 1
        (path / key).write_bytes(raw)

    return change


BROKEN_SNAPSHOTS: list[tuple[str, Change, str, str]] = [
    ("version 0", attribute("meta", molrec_version=0), "meta", "molrec_version is not one this package reads"),
    ("version true", attribute("meta", molrec_version=True), "meta", "molrec_version"),
    ("version text", attribute("meta", molrec_version="1"), "meta", "molrec_version"),
    ("version newer", attribute("meta", molrec_version=99), "meta", "found 99, expected 1 to 2"),
    ("creator", attribute("meta", creator="me"), "meta", "creator is not an object with a 'name'"),
    ("author email", attribute("meta", author={"name": "a", "email": 1}), "meta", "the email of author"),
    ("created_at", attribute("meta", created_at="2026-01-02T03:04:05"), "meta", "created_at is not an RFC 3339 time"),
    ("created_at day", attribute("meta", created_at="2026-02-30T03:04:05Z"), "meta", "created_at"),
    ("modules", attribute("meta", modules={"x": {"version": [1]}}), "meta", "modules does not map"),
    ("infinite number", attribute("meta", weight=float("inf")), "meta.weight", "finite numbers only"),
    ("method type", attribute("method", type=None), "method", "the document has no 'type'"),
    ("method description", attribute("method", description=3), "method", "description is not a text"),
    ("method engine", attribute("method", engine=None), "method", "the document has no 'engine'"),
    ("engine name", attribute("method", engine={}), "method", "the engine has no 'name'"),
    ("status state", attribute("status", state=None), "status", "the document has no 'state'"),
    ("tag", attribute("frame", _meta_types={"pe": "f32"}), "frame.pe", "unknown meta tag"),
    ("tag mismatch", attribute("frame", pe=1.5, _meta_types={"pe": "i32"}), "frame.pe", "the value is not i32"),
    ("tag range", attribute("frame", pe=2**40, _meta_types={"pe": "i32"}), "frame.pe", "does not fit i32"),
    ("tags", attribute("frame", _meta_types=3), "frame", "_meta_types is not an object"),
    ("no count", attribute("frame/atoms", count=None), "frame/atoms", "a block has a count of rows: found none"),
    ("negative count", attribute("frame/atoms", count=-1), "frame/atoms", "found -1, expected an integer"),
    ("column length", attribute("frame/atoms", count=4), "frame/atoms/x", "found 3, expected 4"),
    ("shape", attribute("frame/grid", structural_shape=[3, 3]), "frame/grid", "does not multiply to the count 8"),
    ("shape kind", attribute("frame/grid", structural_shape="x"), "frame/grid", "a list of integers"),
    ("targets kind", attribute("system/bonds", targets=[]), "system/bonds", "targets is not an object"),
    ("targets column", attribute("system/bonds", targets={"no": "atoms"}), "system/bonds", "does not exist: 'no'"),
    ("targets form", attribute("system/bonds", targets={"owner": "/trajectory/a"}), "system/bonds/owner",
     "a target is"),
    ("targets block", attribute("system/bonds", targets={"owner": "no"}), "system/bonds/owner", "is not there"),
    ("absolute block", attribute("system/bonds", targets={"owner": "/frame/no"}), "system/bonds/owner", "not there"),
    ("reference", array("system/bonds/atomj", u64(1, 3)), "system/bonds/atomj",
     "out of range in row 1: found 3, expected less than 3"),
    ("absolute reference", array("system/bonds/owner", u64(0, 9)), "system/bonds/owner",
     "out of range in row 1: found 9"),
    ("reference dtype", array("system/bonds/atomi", np.array([0, 0])), "system/bonds/atomi", "a row reference is u64"),
    ("standard dtype", array("system/atoms/id", np.array([3, 5, 7])), "system/atoms/id", "a standard column"),
    ("f16", metadata("frame/atoms/y", data_type="float16"), "frame/atoms/y", "found float16"),
    ("f32", metadata("frame/atoms/y", data_type="float32"), "frame/atoms/y", "found float32"),
    ("codec", metadata("frame/atoms/y", codecs=["bytes", {"name": "blosc"}]), "frame/atoms/y", "the codec 'blosc'"),
    ("no axes", array("frame/atoms/y", np.array(1.0)), "frame/atoms/y", "a column has a leading axis"),
    ("precision", attribute("frame/atoms/x", precision=0), "frame/atoms/x", "outside the allowed range"),
    ("precision null", null_attribute("frame/atoms/x", "precision"), "frame/atoms/x", "a number: found None"),
    ("precision dtype", attribute("frame/atoms/id", precision=1.0), "frame/atoms/id", "only an f64 column"),
    ("precision of a reference", attribute("system/bonds/atomi", precision=1.0), "system/bonds/atomi",
     "only an f64 column"),
    ("mask dtype", array("system/atoms/_validity/charge", u64(1, 1, 0)), "system/atoms/_validity/charge", "is bool"),
    ("mask length", array("system/atoms/_validity/charge", [True]), "system/atoms/_validity/charge", "found bool[1]"),
    ("mask name", array("system/atoms/_validity/no", [True] * 3), "system/atoms/_validity/no", "names no column"),
    ("checksum", flip_byte("frame/atoms/y/c/0"), "frame/atoms/y/c/0", "the checksum of a chunk does not match"),
    ("box shape", array("frame/box/vectors", np.eye(2)), "frame/box/vectors", "found f64[2, 2], expected f64[3, 3]"),
    ("box vectors", remove("frame/box/vectors"), "frame/box/vectors", "the cell has no vectors"),
    ("box attribute", attribute("frame/box", boundary=[True] * 3), "frame/box", "boundary is an attribute"),
    ("box flag", attribute("frame/box", cell_defined=False), "frame/box/boundary", "periodic on no axis"),
    ("box flag kind", attribute("frame/box", cell_defined=1), "frame/box", "cell_defined is true or false"),
    ("both sides", array("frame/atoms/element", ["O", "H", "H"]), "frame/atoms/element", "the column is in system too"),
    ("ids", array("frame/atoms/id", u64(3, 6, 7)), "frame/atoms/id", "differs from the id in system, first in row 1"),
    ("section", metadata("status", node_type="other"), "status", "zarr.json has no node type"),
    ("name", lambda path: hand.array(path / "frame/atoms/__x", [1.0] * 3) and None, "frame/atoms/__x", "cannot name"),
    ("attributes", metadata("frame", attributes=[]), "frame", "the attributes are not a JSON object"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "node", "message"), [case[1:] for case in BROKEN_SNAPSHOTS],
                         ids=[case[0] for case in BROKEN_SNAPSHOTS])  # fmt: skip
def test_broken_snapshots(tmp_path: Path, change: Change, node: str, message: str) -> None:
    path = snapshots(tmp_path / "bad.mrec")
    change(path)
    errors = found(path)
    assert any(where == node and message in text for where, text in errors), errors


BROKEN_REGULAR: list[tuple[str, Change, str, str]] = [
    ("nstep", attribute("trajectory", nstep=-1), "trajectory", "nstep is an integer"),
    ("no nstep", attribute("trajectory", nstep=None), "trajectory", "step_progression without nstep"),
    ("start", attribute("trajectory", step_progression={}), "trajectory", "is not an object with a start"),
    ("stride", attribute("trajectory", step_progression={"start": 0}), "trajectory", "has no stride for 3 frames"),
    ("stride 0", attribute("trajectory", step_progression={"start": 0, "stride": 0}), "trajectory", "not positive"),
    ("time", attribute("trajectory", time_progression={"start": "0", "stride": 1}), "trajectory", "time_progression"),
    ("step range", attribute("trajectory", step_progression={"start": 2**63 - 5, "stride": 3}), "trajectory",
     "leaves the range of i64"),
    ("no steps", attribute("trajectory", step_progression=None), "trajectory/step", "neither an array nor"),
    ("meta length", array("trajectory/meta/pe", [1.0], meta_dtype="f64"), "trajectory/meta/pe", "has 1 values for 3"),
    ("meta dtype", array("trajectory/meta/pe", [1, 2, 3], meta_dtype="f64"), "trajectory/meta/pe", "found i64[3]"),
    ("meta tag", attribute("trajectory/meta/pe", meta_dtype="i64"), "trajectory/meta/pe", "is the declared tag"),
    ("no meta tag", attribute("trajectory/meta/pe", meta_dtype=None), "trajectory/meta/pe", "found none"),
    ("no meta array", remove("trajectory/meta/pe"), "trajectory/meta/pe", "has no array for its 3 frames"),
    ("one marker", attribute("trajectory/atoms", dense_updates=None), "trajectory/atoms", "without the other marker"),
    ("marker 0", attribute("trajectory/atoms", uniform_rows=0), "trajectory/atoms", "a positive number and true"),
    ("marker false", attribute("trajectory/atoms", dense_updates=False), "trajectory/atoms", "dense_updates False"),
    ("rows of system", attribute("trajectory/atoms", uniform_rows=3), "trajectory/atoms",
     "another row count than in system at frame 0: found 3"),
    ("ids", array("trajectory/atoms/id", u64(1, 2, 1, 3, 1, 2)), "trajectory/atoms/id", "at frame 1, row 1: found 3"),
    ("dtype", array("trajectory/atoms/x", np.arange(6)), "trajectory/atoms/x", "differs from its declaration"),
    ("column", remove("trajectory/atoms/x"), "trajectory/atoms/x", "the declared column is missing"),
    ("schema", attribute("trajectory", sequence_schema=[]), "trajectory: sequence_schema", "is not a JSON object"),
    ("schema dtype", schema_entry("blocks", "atoms", "columns", "x", "dtype", value="f32"), "trajectory/atoms/x",
     "unknown dtype"),
    ("schema name", schema_entry("blocks", "step", value={}), "trajectory/step", "reserved"),
    ("schema column", schema_entry("blocks", "atoms", "columns", "offset", value={"dtype": "f64"}),
     "trajectory/atoms/offset", "reserved"),
    ("schema tag", schema_entry("meta", "pe", "dtype", value="c64"), "trajectory/meta/pe", "unknown meta tag"),
    ("schema fill", schema_entry("meta", "pe", "fill", value=None), "trajectory/meta/pe", "a null fill is for json"),
    ("schema align", schema_entry("blocks", "atoms", "aligned_with", value="no"), "trajectory/atoms", "aligned with"),
    ("system side", schema_entry("blocks", "atoms", "columns", "element", value={"dtype": "string", "trailing": []}),
     "trajectory/atoms/element", "the column is in system too"),
    ("cell", attribute("trajectory/box", vectors=[[1.0]]), "trajectory/box", "vectors is no f64[3, 3]"),
    ("cell flags", attribute("trajectory/box", boundary=[1, 1, 1]), "trajectory/box", "boundary is no bool[3]"),
    ("cell defined", attribute("trajectory/box", cell_defined=False), "trajectory/box", "periodic on no axis"),
    ("cell vectors", attribute("trajectory/box", vectors=None), "trajectory/box", "the cell has no vectors"),
    ("checksum", flip_byte("trajectory/atoms/x/c/0"), "trajectory/atoms/x/c/0", "the checksum of a chunk"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "node", "message"), [case[1:] for case in BROKEN_REGULAR],
                         ids=[case[0] for case in BROKEN_REGULAR])  # fmt: skip
def test_broken_regular_trajectories(tmp_path: Path, change: Change, node: str, message: str) -> None:
    path = regular(tmp_path / "bad.mrec")
    change(path)
    errors = found(path)
    assert any(where == node and message in text for where, text in errors), errors


BROKEN_RAGGED: list[tuple[str, Change, str, str]] = [
    ("steps", array("trajectory/step", np.array([0, 10, 10, 40])), "trajectory/step", "10 follows 10 at frame 2"),
    ("steps all fill", array("trajectory/step", np.zeros(4, np.int64)), "trajectory/step", "steps strictly increase"),
    ("few steps", array("trajectory/step", np.array([0])), "trajectory/step", "has 1 values for 4 frames"),
    ("step dtype", array("trajectory/step", u64(0, 1, 2, 3)), "trajectory/step", "found u64[4], expected i64[4]"),
    ("few times", array("trajectory/time", [0.0]), "trajectory/time", "has 1 values for 4 frames"),
    ("no offset", remove("trajectory/atoms/offset"), "trajectory/atoms", "step_index without the other array"),
    ("descends", array("trajectory/atoms/step_index", u64(0, 2, 1, 3)), "trajectory/atoms/step_index",
     "found frame 1 after 2 at update 2"),
    ("index dtype", array("trajectory/atoms/step_index", np.arange(4)), "trajectory/atoms/step_index", "found i64[4]"),
    ("offset start", array("trajectory/atoms/offset", u64(1, 2, 4, 7, 10)), "trajectory/atoms/offset", "begins at 0"),
    ("offset falls", array("trajectory/atoms/offset", u64(0, 2, 1, 7, 10)), "trajectory/atoms/offset",
     "found 1 after 2"),
    ("short offset", array("trajectory/atoms/offset", u64(0, 2, 4)), "trajectory/atoms/offset", "has 3 entries for 4"),
    ("short column", array("trajectory/atoms/x", np.arange(9) + 0.5), "trajectory/atoms/x",
     "has 9 rows, the index asks for 10"),
    ("aligned", array("trajectory/atom_types/step_index", u64(0, 3)), "trajectory/atom_types",
     "at frame 2 the block has another row count than 'atoms', with which it is aligned: found 2, expected 3"),
    ("aligned late", both(array("trajectory/atoms/step_index", u64(1, 2, 3)),
                          array("trajectory/atoms/offset", u64(0, 2, 5, 8))), "trajectory/atom_types",
     "frame 0 has the aligned block but not 'atoms'"),
    ("reference", array("trajectory/bonds/atomj", u64(2, 1, 2)), "trajectory/bonds/atomj",
     "a reference into 'atoms' is out of range at frame 1: found 2, expected less than 2"),
    ("carried reference", both(array("trajectory/bonds/step_index", u64(1, 2)),
                               array("trajectory/bonds/offset", u64(0, 1, 3)),
                               array("trajectory/atoms/offset", u64(0, 2, 4, 7, 9))), "trajectory/bonds/atomj",
     "a reference into 'atoms' is out of range at frame 3: found 2, expected less than 2"),
    ("early reference", both(array("trajectory/atoms/step_index", u64(2, 3)),
                             array("trajectory/atoms/offset", u64(0, 3, 6))), "trajectory/bonds/atomi",
     "is not there at frame 1"),
    ("mask undeclared", schema_entry("blocks", "atom_types", "columns", "type", "nullable", value=False),
     "trajectory/atom_types/_validity/type", "not declared nullable"),
    ("mask length", array("trajectory/atom_types/_validity/type", [True]), "trajectory/atom_types/_validity/type",
     "has 1 flags for 5 rows"),
    ("shape", schema_entry("blocks", "atoms", "structural_shape", value=[2]), "trajectory/atoms",
     "the structural shape [2] fixes the row count at frame 2 too: found 3"),
    ("document", array("trajectory/meta/notes", ["null", "{", "1", "2"], meta_dtype="json"), "trajectory/meta/notes",
     "frame 1 holds no finite JSON"),
    ("infinite document", array("trajectory/meta/notes", ["NaN", "1", "1", "2"], meta_dtype="json"),
     "trajectory/meta/notes", "frame 0 holds no finite JSON"),
    ("cell index", array("trajectory/box/step_index", u64(3, 0)), "trajectory/box/step_index", "ascends"),
    ("no cell index", remove("trajectory/box/step_index"), "trajectory/box/step_index", "more than one cell"),
    ("few cells", array("trajectory/box/vectors", np.eye(3)[None]), "trajectory/box/vectors", "has 1 cells for 2"),
    ("cell flag", both(attribute("trajectory/box", cell_defined=False),
                       array("trajectory/box/boundary", np.ones((2, 3), bool))), "trajectory/box/boundary",
     "periodic on no axis"),
    ("system block", lambda path: hand.block(hand.group(path / "system") / "atoms", {"id": u64(1, 2)}) and None,
     "trajectory/atoms", "another row count than in system at frame 2: found 3, expected 2"),
    ("system aligned", lambda path: hand.block(hand.group(path / "system") / "atom_types", {"q": u64(1, 2)}) and None,
     "trajectory/atom_types", "an aligned block must not have the name of a block of system"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "node", "message"), [case[1:] for case in BROKEN_RAGGED],
                         ids=[case[0] for case in BROKEN_RAGGED])  # fmt: skip
def test_broken_ragged_trajectories(tmp_path: Path, change: Change, node: str, message: str) -> None:
    path = ragged(tmp_path / "bad.mrec")
    change(path)
    errors = found(path)
    assert any(where == node and message in text for where, text in errors), errors


LEGAL: list[tuple[str, Callable[[Path], Path], Change]] = [
    ("no meta tags of an empty document", regular, attribute("system", _meta_types=None)),
    ("null reference", snapshots, both(array("system/bonds/atomj", u64(1, 99)),
                                       array("system/bonds/_validity/atomj", [True, False]),
                                       lambda path: hand.group(path / "system/bonds/_validity") and None)),
    ("fewer updates", regular, both(array("trajectory/atoms/x", np.arange(2) + 0.1))),
    ("uncommitted tails", ragged, attribute("trajectory", nstep=2)),
    ("no block group", ragged, remove("trajectory/atom_types")),
    ("precision attribute", ragged, attribute("trajectory/atoms/x", precision="odd")),
    ("stale tag", snapshots, attribute("frame", _meta_types={"pe": "f64", "gone": "x"})),
    ("version absent", snapshots, attribute("meta", molrec_version=None)),
    ("stated structural shape", regular, both(schema_entry("blocks", "atoms", "structural_shape", value=[1, 2]),
                                              attribute("trajectory/atoms", structural_shape=[1, 2]))),
    ("undeclared structural shape", regular, attribute("trajectory/atoms", structural_shape=[1, 2])),
    ("undefined cell", regular, attribute("trajectory/box", cell_defined=False, vectors="none", boundary=None)),
    ("undefined cell of a frame", snapshots, both(attribute("frame/box", cell_defined=False),
                                                  remove("frame/box/vectors"),
                                                  array("frame/box/boundary", np.zeros(3, bool)))),
    ("a flag of a cell on an array", snapshots, both(attribute("frame/box/vectors", cell_defined=True),
                                                     attribute("system/atoms/_validity/charge", cell_defined=1))),
    ("a flag of a cell on an array of a run", ragged, attribute("trajectory/box/vectors", cell_defined=True)),
    ("one cell without index", ragged, both(remove("trajectory/box/step_index"),
                                            array("trajectory/box/vectors", np.eye(3)[None]))),
]  # fmt: skip


@pytest.mark.parametrize(("build", "change"), [case[1:] for case in LEGAL], ids=[case[0] for case in LEGAL])
def test_legal_variants(tmp_path: Path, build: Callable[[Path], Path], change: Change) -> None:
    path = build(tmp_path / "legal.mrec")
    change(path)
    assert validate(path) == []


WARNINGS: list[tuple[str, Callable[[Path], Path], Change, str, str]] = [
    ("off grid", snapshots, array("frame/atoms/x", [0.0, 0.5, 0.3], precision=0.3), "frame/atoms/x",
     "1 row is off the grid of the declared precision 0.3, the first is row 2"),
    ("off grid in frames", regular, array("trajectory/atoms/y", np.arange(6) * 0.3), "trajectory/atoms/y",
     "4 rows are off the grid of the declared precision 0.5, the first is row 1"),
    ("consolidated", snapshots, metadata("", consolidated_metadata={"metadata": {}}), "", "has consolidated metadata"),
    ("unknown section", snapshots, lambda path: hand.group(path / "plots") and None, "plots",
     "does not know the group"),
    ("unknown array", snapshots, lambda path: hand.array(path / "frame/v", [1.0]) and None, "frame/v",
     "does not know the array"),
    ("undeclared block", ragged, lambda path: hand.group(path / "trajectory/extra") and None, "trajectory/extra",
     "does not know the group"),
    ("plain file", snapshots, lambda path: (path / "system/x.txt").write_text("x") and None, "system/x.txt",
     "a plain file"),
    ("plain folder", snapshots, lambda path: (path / "system/x").mkdir(), "system/x", "without zarr.json"),
    ("no tag", snapshots, attribute("frame", q=1), "frame", "the key 'q' has no tag"),
    ("no meta", snapshots, remove("meta"), "meta", "the section is missing"),
    ("both forms of the cell", ragged, attribute("trajectory/box", vectors=np.eye(3).tolist()), "trajectory/box",
     "the arrays count"),
    ("both forms of steps", regular, array("trajectory/step", np.arange(3)), "trajectory/step", "which counts"),
    ("markers beside an index", ragged, attribute("trajectory/atoms", uniform_rows=2, dense_updates=True),
     "trajectory/atoms", "which counts"),
    ("no schema", regular, attribute("trajectory", sequence_schema=None), "trajectory", "has no sequence_schema"),
    ("no nstep", ragged, attribute("trajectory", nstep=None), "trajectory", "has no nstep"),
    ("fill value", snapshots, metadata("frame/atoms/y", fill_value=1.5), "frame/atoms/y", "the fill value is 1.5"),
    ("undefined cell", snapshots, both(attribute("frame/box", cell_defined=False), remove("frame/box/boundary")),
     "frame/box/boundary", "states that it is periodic on no axis"),
    ("half an index", regular, array("trajectory/atoms/step_index", u64(0, 1)), "trajectory/atoms", "left by a writer"),
    ("half a cell", regular, array("trajectory/box/step_index", u64(0)), "trajectory/box", "without vectors"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "change", "node", "message"), [case[1:] for case in WARNINGS],
                         ids=[case[0] for case in WARNINGS])  # fmt: skip
def test_warnings(tmp_path: Path, build: Callable[[Path], Path], change: Change, node: str, message: str) -> None:
    path = build(tmp_path / "odd.mrec")
    change(path)
    warnings = found(path, Severity.WARNING)
    assert any(where == node and message in text for where, text in warnings), warnings
    assert found(path) == []


@pytest.mark.parametrize("build", [build_water, build_vibration, build_reaction])
def test_what_our_writer_stores_is_in_order(tmp_path: Path, build: Callable[[], Record]) -> None:
    path = tmp_path / "ours.mrec"
    write_record(build(), path, WriteContext())
    assert validate(path) == []


def test_a_torn_shard_index_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "torn.mrec"
    write_record(build_reaction(), path, WriteContext())
    shard = path / "trajectory/atoms/x/c/0"
    raw = bytearray(shard.read_bytes())
    raw[index_size(4096) - 1] ^= 1
    shard.write_bytes(raw)
    assert found(path) == []
    ((node, message),) = found(path, Severity.WARNING)
    assert node == "trajectory/atoms/x/c/0"
    assert "the checksum of the shard index is wrong" in message


@pytest.mark.interop
def test_what_the_independent_implementation_stores_is_in_order(tmp_path: Path) -> None:
    code = """
from molrs.core import Box, Frame
for name, growth in (("regular", 0), ("ragged", 1)):
    frames = []
    for i in range(5):
        rows = np.arange(5.0 + growth * i)
        atoms = {"element": ["C"] * len(rows), "x": rows + i, "y": rows * 0.2, "z": rows * 0.3}
        frame = Frame({"atoms": atoms}, box=Box.cube(10.0 + growth * (i // 3)))
        frame.meta["pe"] = -1.5 * i
        frames.append(frame)
    writer = mrec.MrecWriter(f"{sys.argv[1]}/{name}.mrec", mrec.SequenceSchema.from_frames(frames))
    for i, frame in enumerate(frames):
        writer.append(frame, 10 * i * (1 + growth * i))
    writer.close()
"""
    run_independent(code, tmp_path)
    for name in ("regular", "ragged"):
        assert validate(tmp_path / f"{name}.mrec") == []


def refusal(path: Path) -> Exception | None:
    """What our reader refuses when it reads everything a record holds; None when it refuses nothing."""
    try:
        with open_record(path) as record:
            for frame in (record.system, record.frame):
                if frame is not None:
                    frame.check()
                    for block in frame.blocks.values():
                        for column in block.columns.values():
                            _ = column.values, column.validity
            if record.trajectory is not None:
                record.trajectory.check()
                for _ in record.trajectory.batches():
                    pass
    except (MolrecError, OSError) as error:
        return error
    return None


@pytest.mark.parametrize(
    ("build", "change"),
    [(build, case[1]) for build, cases in
     ((snapshots, BROKEN_SNAPSHOTS), (regular, BROKEN_REGULAR), (ragged, BROKEN_RAGGED)) for case in cases],
    ids=[f"{name}-{case[0]}" for name, cases in
         (("snapshots", BROKEN_SNAPSHOTS), ("regular", BROKEN_REGULAR), ("ragged", BROKEN_RAGGED)) for case in cases],
)  # fmt: skip
def test_what_a_reader_refuses_is_an_error(tmp_path: Path, build: Callable[[Path], Path], change: Change) -> None:
    path = build(tmp_path / "bad.mrec")
    change(path)
    error = refusal(path)
    assert error is None or found(path)


@pytest.mark.parametrize(("build", "change"), [case[1:] for case in LEGAL] + [case[1:3] for case in WARNINGS])
def test_what_is_no_error_is_read(tmp_path: Path, build: Callable[[Path], Path], change: Change) -> None:
    path = build(tmp_path / "odd.mrec")
    change(path)
    assert refusal(path) is None


def test_null_rows_may_lie_off_the_grid(tmp_path: Path) -> None:
    path = snapshots(tmp_path / "null.mrec")
    array("frame/atoms/x", [0.0, 0.5, 0.3], precision=0.3)(path)
    hand.group(path / "frame/atoms/_validity")
    hand.array(path / "frame/atoms/_validity/x", [True, True, False])
    assert validate(path) == []


def test_all_findings_not_only_the_first(tmp_path: Path) -> None:
    path = snapshots(tmp_path / "bad.mrec")
    attribute("meta", molrec_version=0)(path)
    array("system/bonds/atomj", u64(1, 3))(path)
    flip_byte("frame/atoms/y/c/0")(path)
    attribute("frame/grid", count=None)(path)
    attribute("status", state=None)(path)
    nodes = {node for node, _ in found(path)}
    assert nodes == {"meta", "system/bonds/atomj", "frame/atoms/y/c/0", "frame/grid", "status"}


def test_every_fault_of_a_declaration(tmp_path: Path) -> None:
    path = regular(tmp_path / "bad.mrec")
    schema_entry("blocks", "box", value={})(path)
    schema_entry("blocks", "a", value={"columns": {"v": {"dtype": "f16", "trailing": []}}})(path)
    schema_entry("meta", "pe", "dtype", value="no")(path)
    assert {"trajectory/box", "trajectory/a/v", "trajectory/meta/pe"} <= {node for node, _ in found(path)}


def test_a_record_without_any_section(tmp_path: Path) -> None:
    path = hand.record(tmp_path / "empty.mrec")
    assert found(path) == [("", "the record has none of the sections frame, system, trajectory, forcefield, status")]


def test_what_is_no_record(tmp_path: Path) -> None:
    assert found(tmp_path)[0][1].startswith("there is no zarr.json")
    text = tmp_path / "text.mrec"
    text.write_text("hello")
    assert "no readable zip file" in found(text)[0][1]
    assert "no such file" in found(tmp_path / "absent.mrec")[0][1]
    hand.array(tmp_path / "array", [1.0])
    assert found(tmp_path / "array") == [("", "the root is an array, a record's is a group")]


def pack(source: Path, target: Path, names: Callable[[list[str]], list[str]] = sorted, **options: Any) -> Path:
    with zipfile.ZipFile(target, "w", **options) as packed:
        for name in names([str(f.relative_to(source)) for f in source.rglob("*") if f.is_file()]):
            packed.write(source / name, name)
    return target


def test_packed_records(tmp_path: Path) -> None:
    source = regular(tmp_path / "r.mrec")
    assert validate(pack(source, tmp_path / "r.mrec.zip")) == []
    backwards = pack(source, tmp_path / "b.zip", lambda names: sorted(names, reverse=True))
    assert found(backwards, Severity.WARNING) == [("", "the zip entries are not sorted by name")]
    assert "compressed" in found(pack(source, tmp_path / "c.zip", compression=zipfile.ZIP_DEFLATED))[0][1]
    bad = pack(source, tmp_path / "d.zip")
    with zipfile.ZipFile(bad, "a") as packed:
        packed.writestr("../evil", b"x")
        packed.writestr("folder/", b"")
        packed.writestr("/absolute", b"x")
    messages = dict(found(bad))
    assert messages["../evil"] == "the zip entry has a name that is no plain path below the root"
    assert messages["/absolute"] == "the zip entry has an absolute name"
    assert "is a folder" in messages["folder/"]
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(bad, "a") as packed:
        packed.writestr("zarr.json", b"x")
    assert any("comes twice" in message for _, message in found(bad))


def test_links_that_lead_back(tmp_path: Path) -> None:
    path = snapshots(tmp_path / "loop.mrec")
    os.symlink(path, path / "system" / "loop")
    os.symlink(path / "frame", path / "frame" / "atoms" / "again")
    os.symlink(path / "nowhere", path / "frame" / "broken")
    errors = found(path)
    assert ("system/loop", "a link leads back to a folder above it") in errors
    assert ("frame/atoms/again", "a link leads back to a folder above it") in errors


@pytest.mark.parametrize("node", ["frame/atoms/y", "frame/atoms/id", "system/atoms/element", "system/bonds/atomi"])
@pytest.mark.parametrize(
    "change",
    [
        {"shape": [2**60]},
        {"shape": [3, 2**40, 2**40]},
        {"shape": [2**62], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**61]}}},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**33]}}},
        {"chunk_grid": None},
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0]}}},
        {"chunk_key_encoding": {"name": "no"}},
        {"codecs": []},
        {"codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": []}}]},
        {"codecs": [{"name": "sharding_indexed"}]},
        {"codecs": [["bytes"]]},
        {"shape": "3"},
        {"shape": [-1]},
        {"data_type": {"name": "r16"}},
        {"data_type": 3},
        {"attributes": None},
    ],
    ids=lambda change: str(change)[:60],
)  # fmt: skip
def test_hostile_metadata(tmp_path: Path, node: str, change: dict[str, Any]) -> None:
    path = snapshots(tmp_path / "hostile.mrec")
    metadata(node, **change)(path)
    if node == "system/bonds/atomi" and str(2**33) in str(change):
        return  # zeros of which nothing is stored may have chunks of any size
    assert any(finding.node.startswith(node) for finding in validate(path))


def test_hostile_counts(tmp_path: Path) -> None:
    """A trajectory that claims 10^18 frames is looked at in no time: nothing is stored for them."""
    path = regular(tmp_path / "huge.mrec")
    attribute("trajectory", nstep=10**18)(path)
    for column in ("x", "y", "id"):
        metadata(f"trajectory/atoms/{column}", shape=[2 * 10**17])(path)
    assert ("trajectory/meta/pe", f"has 3 values for {10**18} frames") in found(path)
    path = ragged(tmp_path / "huge2.mrec")
    attribute("trajectory", nstep=10**15)(path)
    for name in ("step", "atoms/step_index", "atoms/offset", "atoms/x", "box/step_index", "box/vectors"):
        metadata(f"trajectory/{name}", shape=[10**15, 3, 3] if name.endswith("vectors") else [10**15])(path)
    nodes = {node for node, _ in found(path)}
    assert {"trajectory/step", "trajectory/atoms/step_index", "trajectory/box/step_index"} <= nodes


def store_files(path: Path) -> list[Path]:
    return sorted(f for f in path.rglob("*") if f.is_file())


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_random_damage_never_crashes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("damage")
    build = data.draw(st.sampled_from([snapshots, regular, ragged]))
    path = build(folder / "r.mrec")
    for _ in range(data.draw(st.integers(1, 3))):
        victim = data.draw(st.sampled_from(store_files(path)))
        raw = victim.read_bytes()
        kind = data.draw(st.sampled_from(["cut", "flip", "random", "remove", "swap"]))
        if kind == "cut":
            victim.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
        elif kind == "flip" and raw:
            place = data.draw(st.integers(0, len(raw) - 1))
            victim.write_bytes(raw[:place] + bytes([raw[place] ^ data.draw(st.integers(1, 255))]) + raw[place + 1 :])
        elif kind == "random":
            victim.write_bytes(data.draw(st.binary(max_size=60)))
        elif kind == "remove":
            victim.unlink()
        elif kind == "swap":
            victim.write_bytes(data.draw(st.sampled_from(store_files(path))).read_bytes())
    findings = validate(path)
    for finding in findings:
        assert isinstance(finding, Finding)
        assert "\n" not in str(finding)
    error = refusal(path)
    assert error is None or any(finding.severity is Severity.ERROR for finding in findings), error


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_random_json_never_crashes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Any JSON value in place of any value of any `zarr.json`."""
    path = data.draw(st.sampled_from([snapshots, regular, ragged]))(tmp_path_factory.mktemp("json") / "r.mrec")
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    )
    victim = data.draw(st.sampled_from([f.parent for f in store_files(path) if f.name == "zarr.json"]))
    steps = data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=6))
    value = data.draw(values)

    def edit(document: Any) -> None:
        place = document
        for position, step in enumerate(steps):
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                return
            key = keys[step % len(keys)]
            if position == len(steps) - 1 or not isinstance(place[key], (dict, list)):
                place[key] = value
                return
            place = place[key]

    hand.edit_json(victim, edit)
    findings = validate(path)
    for finding in findings:
        assert "\n" not in str(finding)
    error = refusal(path)
    assert error is None or any(finding.severity is Severity.ERROR for finding in findings), error
