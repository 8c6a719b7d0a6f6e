"""Trajectories exchanged with the independent implementation, both ways: frames, updates, steps, times, cells."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trajectory_stores as ts
from append_child import DECLARATION
from append_child import frame as appended
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from independent import run_independent
from layout_examples.records import build_reaction, build_vibration
from test_trajectory_random import runs
from test_trajectory_reading import MIXED, mixed_frames

from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    Meta,
    MetaDeclaration,
)
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter
from molrec_convert.stores.zarr.v3.metadata import group_document
from molrec_convert.stores.zarr.v3.storage import write_document

pytestmark = pytest.mark.interop

#: Prints what the reader sees: numbers as their bytes, so that nothing is rounded on the way.
READ = """
def cells(values):
    if values.dtype.kind == "U":
        return ["string", list(values.shape), [str(text) for text in values.reshape(-1)]]
    return [values.dtype.name, list(values.shape), np.ascontiguousarray(values).tobytes().hex()]

def plain(value):
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()} if hasattr(value, "items") else value

def seen(path):
    reader = mrec.MrecReader(Path(path))
    frames = []
    for i in range(len(reader)):
        frame = reader[i]
        blocks, updates = {}, {}
        for name in frame.keys():
            block = frame[name]
            updates[name] = reader.block_update_at(name, i)
            columns = {}
            for key in block.keys():
                mask = block.validity(key)
                columns[key] = [*cells(block[key]), None if mask is None else [bool(flag) for flag in mask]]
            shape = block.structural_shape
            blocks[name] = [block.n_rows, None if shape is None else list(shape), columns]
        box = frame.box
        if box is not None:
            box = [box.is_cell_defined, *(cells(np.asarray(part)) for part in (box.matrix, box.origin, box.pbc))]
        meta = {key: [frame.meta.dtype(key), plain(frame.meta[key])] for key in frame.meta.keys()}
        frames.append({"blocks": blocks, "updates": updates, "meta": meta, "box": box})
    return {"step": reader.step, "time": reader.time, "frames": frames}

print(json.dumps([seen(path) for path in sys.argv[1:]]))
"""

#: Writes the frames of a JSON file with the other writer, appending some of them to a reopened store.
WRITE = """
from molrs.core import Block, Box, Cell, Frame, MetaValue

def values(dtype, shape, data):
    if dtype == "string":
        return np.array(data, dtype=str).reshape(shape)
    return np.frombuffer(bytes.fromhex(data), dtype=dtype).reshape(shape).copy()

def build(parts):
    frame = Frame()
    for name, (count, shape, columns) in parts["blocks"].items():
        block = Block()
        for key, (dtype, extent, data, mask) in columns.items():
            block.insert(key, values(dtype, extent, data), mask)
        if shape is not None:
            block.set_shape(shape)
        frame[name] = block
    for key, (tag, value) in parts["meta"].items():
        frame.meta[key] = MetaValue(tag, value)
    if parts["box"] is not None:
        defined, matrix, origin, pbc = parts["box"]
        cell = Cell.matrix(values(*matrix)) if defined else Cell.undefined()
        frame.box = Box(cell, values(*origin), values(*pbc))
    return frame

source, target = sys.argv[1:3]
run = json.loads(Path(source).read_text())
# A nullable column is declared by a frame that has a null in it.
sample = Frame()
for name, block in run["schema"]["blocks"].items():
    if any(column.get("nullable") for column in block["columns"].values()):
        sample[name], rows = Block(), run["rows"].get(name) or 1
        for key, column in block["columns"].items():
            tag = column["dtype"]
            dtype = {"string": "U1", "bool": "?"}.get(tag) or tag[0] + str(int(tag[1:]) // 8)
            mask = np.arange(rows) > 0 if column.get("nullable") else None
            sample[name].insert(key, np.zeros((rows, *column["trailing"]), dtype), mask)
schema = mrec.SequenceSchema.from_frames([sample])
for name, block in run["schema"]["blocks"].items():
    if name in sample.keys():
        continue
    schema.declare_block(name, run["rows"].get(name))
    for key, column in block["columns"].items():
        schema.declare_column(name, key, column["dtype"], column["trailing"])
        if "precision" in column:
            schema.declare_precision(name, key, column["precision"])
    if "structural_shape" in block:
        schema.declare_structural_shape(name, block["structural_shape"])
    for key, of in block.get("targets", {}).items():
        schema.declare_target(name, key, of)
for name, block in run["schema"]["blocks"].items():
    if "aligned_with" in block:
        schema.declare_aligned(name, block["aligned_with"])
for key, meta in run["schema"]["meta"].items():
    schema.declare_meta(key, meta["dtype"], **({"fill": meta["fill"]} if meta.get("fill") is not None else {}))
half = len(run["frames"]) // 2
writer = mrec.MrecWriter(Path(target), schema)
for number, parts in enumerate(run["frames"]):
    if number == half and number:
        writer.close()
        writer = mrec.MrecWriter.open(Path(target))
    writer.append(build(parts), step=parts["step"], time=parts["time"])
writer.close()
"""


def cells(values: np.ndarray) -> list[Any]:
    if values.dtype.kind == "T":
        # The other one hands texts out as fixed-width arrays, which cut NULs off their ends.
        return ["string", list(values.shape), [str(text).rstrip("\0") for text in values.reshape(-1)]]
    return [values.dtype.name, list(values.shape), np.ascontiguousarray(values).tobytes().hex()]


def described(frame: Frame) -> dict[str, Any]:
    """What the snippet prints of a frame."""
    blocks = {}
    for name, block in frame.blocks.items():
        columns = {
            key: [*cells(column.values), None if column.validity is None else column.validity.tolist()]
            for key, column in block.columns.items()
        }
        blocks[name] = [block.count, None if block.structural_shape is None else list(block.structural_shape), columns]
    box = None
    if frame.box is not None:
        parts = (frame.box.vectors, frame.box.origin, frame.box.boundary)
        box = [frame.box.defined, *(cells(part) for part in parts)]
    meta = {key: [frame.meta.tag(key), plain(value)] for key, value in frame.meta.items()}
    return {"blocks": blocks, "meta": meta, "box": box}


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def record(root: Path) -> Path:
    """The groups around a trajectory that make it a record."""
    write_document(root, group_document({}))
    write_document(root / "meta", group_document({"molrec_version": 1}))
    return root


def seen_by_others(*roots: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run_independent(READ, *roots))
    return found


def same_text(a: Any, b: Any) -> bool:
    """Whether two JSON values agree, a NaN with a NaN."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def check_seen(seen: dict[str, Any], root: Path, expected: list[Frame]) -> None:
    """What others see of a store is what was written, update by update."""
    trajectory = ts.opened(root)
    assert (seen["step"] or []) == [frame.step for frame in expected]
    times = [frame.time for frame in expected]
    assert same_text(seen["time"], times if times and times[0] is not None else None)
    assert len(seen["frames"]) == len(expected)
    for number, (other, frame) in enumerate(zip(seen["frames"], expected, strict=True)):
        ours = described(frame)
        assert set(other["blocks"]) == set(ours["blocks"]), number
        for name, block in ours["blocks"].items():
            assert same_text(other["blocks"][name], block), (number, name)
            resolved = trajectory.resolve(name, number)
            assert resolved is not None
            assert other["updates"][name] == resolved[0]
        declared = trajectory.declaration.meta
        # theirs says what stands in the place of a value that is missing
        stated = {k: v for k, v in other["meta"].items() if k in frame.meta or not declared[k].has_missing}
        assert same_text(stated, ours["meta"]), number
        assert other["box"] == ours["box"], number


def runs_of_ours() -> dict[str, tuple[list[Frame], Declaration, dict[str, Any]]]:
    f64, u64 = ColumnDeclaration("f64"), ColumnDeclaration("u64")
    vibration, reaction = build_vibration().trajectory, build_reaction().trajectory
    assert vibration is not None
    assert reaction is not None
    rounded = Declaration({"atoms": BlockDeclaration({"x": ColumnDeclaration("f64", precision=1e-3)}, rows=500)})
    rng = np.random.default_rng(3)
    shaped = Declaration({"grid": BlockDeclaration({"rho": f64}, structural_shape=(2, 3, 2), rows=12)})
    linked = Declaration(
        {"beads": BlockDeclaration({"m": f64}), "members": BlockDeclaration({"ibead": u64}, targets={"ibead": "beads"})}
    )
    member = Block({"ibead": np.array([1, 0], np.uint64)}, targets={"ibead": "beads"})
    return {
        "vibration": (list(vibration), vibration.declaration, {}),
        "reaction": (list(reaction), reaction.declaration, {}),
        "ragged, aligned, masked, changing cell": (mixed_frames(), MIXED, {"flush_every": 3}),
        "many frames": ([appended(i) for i in range(330)], DECLARATION, {"flush_every": 50}),
        "precision": (
            [Frame({"atoms": Block({"x": rng.normal(size=500) * 30})}, step=i) for i in range(12)],
            rounded,
            {},
        ),
        "shaped": (
            [
                Frame({"grid": Block({"rho": np.arange(12.0) + i}, structural_shape=(2, 3, 2))}, step=i)
                for i in range(3)
            ],
            shaped,
            {},
        ),
        "linked": ([Frame({"beads": Block({"m": np.ones(2)}), "members": member}, step=4)], linked, {}),
        "zeros": ([Frame({"atoms": Block({"x": np.zeros(500)})}, step=i) for i in range(3)], rounded, {}),
        "never presented": (
            [Frame({"atoms": ts.atoms(i)}, step=i) for i in range(2)],
            Declaration({"atoms": BlockDeclaration({"x": f64}), "ghost": BlockDeclaration({"q": f64})}),
            {},
        ),
        "nothing": ([], rounded, {}),
        "undefined cell": (
            [Frame(box=Box.undefined([1.0, 2.0, 3.0]), step=i) for i in range(2)],
            Declaration(),
            {"cell_defined": False},
        ),
        "no cell and then one": (
            [Frame(box=Box(np.eye(3) * i, boundary=[True, True, False]) if i else None, step=i * i) for i in range(3)],
            Declaration(),
            {},
        ),
    }


def test_others_open_our_trajectories(tmp_path: Path) -> None:
    stores, expected = {}, {}
    for number, (name, (frames, declaration, options)) in enumerate(runs_of_ours().items()):
        stores[name] = record(ts.write(tmp_path / f"run{number}.mrec", frames, declaration, **options))
        expected[name] = ts.resolved(frames, declaration)
    for name, seen in zip(stores, seen_by_others(*stores.values()), strict=True):
        check_seen(seen, stores[name], expected[name])


def test_others_open_every_dtype(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    columns = {}
    for name, dtype in DTYPES.items():
        for trailing in ((), (3,)):
            if name == "string":
                values = np.array(["é", "", "line\n"] * math.prod(trailing), dtype.numpy).reshape(3, *trailing)
            elif name == "bool":
                values = rng.integers(0, 2, (3, *trailing)).astype(np.bool_)
            else:
                raw = rng.integers(0, 256, 3 * math.prod(trailing) * dtype.itemsize, dtype=np.uint8)
                values = raw.view(dtype.numpy).reshape(3, *trailing)
            columns[f"{name}_{len(trailing)}"] = Column(values, np.array([True, False, True]) if trailing else None)
    frames = [Frame({"atoms": Block(columns)}, step=0)]
    declaration = Declaration.derive(frames)
    root = record(ts.write(tmp_path / "run.mrec", frames, declaration))
    check_seen(seen_by_others(root)[0], root, ts.resolved(frames, declaration))


@pytest.mark.slow
@settings(max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(runs(), min_size=8, max_size=8))
def test_others_open_random_trajectories(tmp_path_factory: Any, many: list[tuple[Declaration, list[Frame]]]) -> None:
    roots, expected = [], []
    for declaration, frames in many:
        root = tmp_path_factory.mktemp("run")
        roots.append(record(ts.write(root / "run.mrec", frames, declaration, flush_every=2)))
        expected.append(ts.resolved(frames, declaration))
    for seen, root, frames in zip(seen_by_others(*roots), roots, expected, strict=True):
        check_seen(seen, root, frames)


def spec(path: Path, frames: list[Frame], declaration: Declaration) -> Path:
    """The frames as the JSON file the other writer's snippet reads."""
    parts = []
    for frame in frames:
        parts.append({**described(frame), "step": frame.step, "time": frame.time})
    rows = {name: block.rows for name, block in declaration.blocks.items()}
    path.write_text(json.dumps({"schema": declaration.to_json(), "rows": rows, "frames": parts}))
    return path


@pytest.mark.parametrize("name", [n for n in runs_of_ours() if n not in ("undefined cell", "nothing")])
def test_we_open_the_trajectories_of_others(tmp_path: Path, name: str) -> None:
    frames, declaration, _ = runs_of_ours()[name]
    root = tmp_path / "run.mrec"
    run_independent(WRITE, spec(tmp_path / "run.json", frames, declaration), root)
    trajectory = ts.opened(root)
    expected = ts.resolved(frames, trajectory.declaration)
    ts.same_frames((trajectory.frame(i) for i in range(len(trajectory))), expected)
    ts.same_frames(trajectory, expected)
    trajectory.check()
    ours = ts.opened(ts.write(tmp_path / "ours", frames, declaration))
    for block in declaration.blocks:
        for i in range(len(frames)):
            assert trajectory.resolve(block, i) == ours.resolve(block, i), (block, i)
    for path in sorted((tmp_path / "ours/trajectory").rglob("zarr.json")):
        node = str(path.parent.relative_to(tmp_path / "ours/trajectory"))
        mine, other = ts.node(tmp_path / "ours", node), ts.node(root, node)
        for key in ("node_type", "shape", "data_type", "chunk_grid", "codecs", "fill_value"):
            assert same_text(mine.get(key), other.get(key)), (node, key)


@pytest.mark.slow
@settings(max_examples=20, derandomize=True, suppress_health_check=list(HealthCheck))
@given(runs())
def test_we_open_random_trajectories_of_others(tmp_path_factory: Any, run: tuple[Declaration, list[Frame]]) -> None:
    """What is written, and which presentations are updates. Left out: what the other one's frames cannot carry.

    That is: blocks without columns have no rows there, texts no trailing axes and no NULs at their ends, an origin no
    negative zero, and a negative zero among times is taken for zero. Its writer goes on with a store half way; what it
    forgets then is told in `test_a_writer_of_theirs_that_goes_on_forgets_masks`.
    """
    declaration, frames = run
    columns = [column for block in declaration.blocks.values() for column in block.columns.values()]
    assume(all(block.columns for block in declaration.blocks.values()))
    assume(not any(column.dtype == "string" and column.trailing for column in columns))
    frames = [
        Frame(
            {name: without_nuls(block) for name, block in frame.blocks.items()},
            full.meta,
            frame.box and Box(frame.box.vectors),
            frame.step,
            full.time and abs(full.time),
        )
        for frame, full in zip(frames, ts.resolved(frames, declaration), strict=True)
    ]
    assume(not is_forgotten(frames, declaration))
    declaration = replace(declaration, meta={key: MetaDeclaration(m.dtype) for key, m in declaration.meta.items()})
    root = tmp_path_factory.mktemp("run")
    run_independent(WRITE, spec(root / "run.json", frames, declaration), root / "theirs.mrec")
    theirs = ts.opened(root / "theirs.mrec")
    ts.same_frames(theirs, ts.resolved(frames, theirs.declaration))
    ours = ts.opened(ts.write(root / "ours.mrec", frames, declaration))
    for block in declaration.blocks:
        for i in range(len(frames)):
            assert theirs.resolve(block, i) == ours.resolve(block, i), (block, i)


def without_nuls(block: Block) -> Block:
    """The block without NULs at the ends of its texts: the other one takes texts as fixed-width arrays."""
    columns = {}
    for key, column in block.columns.items():
        values = column.values
        if column.dtype == "string":
            values = np.array([text.rstrip("\0") for text in values.flat], values.dtype).reshape(values.shape)
        columns[key] = Column(values, column.validity)
    return Block(columns, count=block.count)


def is_forgotten(frames: list[Frame], declaration: Declaration) -> bool:
    """Whether the other writer, going on half way, meets the values of the last update, which has nulls, once more.

    It compares values alone then: without nulls it takes them for that update, with the same nulls for another one.
    """
    full, half = ts.resolved(frames, declaration), len(frames) // 2
    for name in declaration.blocks:
        again = next((n for n in range(half, len(frames)) if name in frames[n].blocks), None)
        if not half or again is None or name not in full[half - 1].blocks:
            continue
        last, new = full[half - 1][name], full[again][name]
        if last.count != new.count or all(column.validity is None for column in last.columns.values()):
            continue
        if all(Column(last.stored(key)) == Column(new.stored(key)) for key in last.columns):
            return True
    return False


def test_a_writer_of_theirs_that_goes_on_forgets_masks(tmp_path: Path) -> None:
    """What the other writer (0.19) does with a store it reopens, and ours with either's.

    The first presentation of a block is compared with the stored update before by its values alone. So values without
    nulls that repeat one with nulls are not written, and the nulls stay; the same nulls again are written again.
    """
    declaration = Declaration({"a": BlockDeclaration({"x": ColumnDeclaration("f64", nullable=True)})})
    mask = np.array([True, False, True])

    def frame(step: int, validity: Any) -> Frame:
        return Frame({"a": Block({"x": Column(np.array([1.0, 2.0, 3.0]), validity)})}, step=step)

    for number, (second, theirs_sees) in enumerate([(None, [0, 0]), (mask, [0, 1]), (~mask, [0, 1])]):
        frames = [frame(0, mask), frame(1, second)]
        assert is_forgotten(frames, declaration)
        root = tmp_path / f"theirs{number}.mrec"
        run_independent(WRITE, spec(tmp_path / "run.json", frames, declaration), root)
        theirs = ts.opened(root)
        assert [theirs.resolve("a", n)[0] for n in range(2)] == theirs_sees  # type: ignore[index]
        stays = frame(1, mask if theirs_sees == [0, 0] else second)
        ts.same_frames(theirs, [frames[0], stays])
        # nothing of it is how we read: the other reader finds the same
        check_seen(seen_by_others(record(root))[0], root, [frames[0], stays])

        begun = tmp_path / f"begun{number}.mrec"
        run_independent(WRITE, spec(tmp_path / "run.json", frames[:1], declaration), begun)
        ours = ts.write(tmp_path / f"ours{number}.mrec", frames[:1], declaration)
        for store in (begun, ours):
            with TrajectoryWriter.open(store) as writer:
                writer.append_frame(frames[1])
            ts.same_frames(ts.opened(store), frames)
            assert [ts.opened(store).resolve("a", n)[0] for n in range(2)] == [0, int(second is not mask)]  # type: ignore[index]


def test_we_open_an_empty_trajectory_of_others(tmp_path: Path) -> None:
    code = "mrec.MrecWriter(Path(sys.argv[1]), mrec.SequenceSchema.from_frames([])).close()"
    run_independent(code, tmp_path / "run.mrec")
    trajectory = ts.opened(tmp_path / "run.mrec")
    assert trajectory.n_frames == 0
    assert list(trajectory) == []


def test_either_goes_on_where_the_other_stopped(tmp_path: Path) -> None:
    """A store begun by one writer, taken up by the other, and the other way round."""
    frames = [appended(i) for i in range(330)]
    declaration = DECLARATION
    theirs = tmp_path / "theirs.mrec"
    run_independent(WRITE, spec(tmp_path / "first.json", frames[:130], declaration), theirs)
    with TrajectoryWriter.open(theirs) as writer:
        for frame in frames[130:]:
            writer.append_frame(frame)
    expected = ts.resolved(frames, ts.opened(theirs).declaration)
    ts.same_frames(ts.opened(theirs), expected)
    check_seen(seen_by_others(theirs)[0], theirs, expected)
    ours = record(ts.write(tmp_path / "ours.mrec", frames[:310], declaration))
    go_on = WRITE.replace("mrec.MrecWriter(Path(target), schema)", "mrec.MrecWriter.open(Path(target))")
    run_independent(go_on, spec(tmp_path / "rest.json", frames[310:], declaration), ours)
    ts.same_frames(ts.opened(ours), ts.resolved(frames, declaration))


def test_tags_of_per_step_values_survive(tmp_path: Path) -> None:
    from test_trajectory_series import VALUES

    declaration = Declaration(meta={tag: MetaDeclaration(tag) for tag in VALUES})
    frames = []
    for number in range(2):
        meta = Meta()
        for tag, pair in VALUES.items():
            meta.put(tag, pair[number] if tag != "string" else pair[number].replace("\0", ""), tag)
        frames.append(Frame(meta=meta, step=number))
    root = record(ts.write(tmp_path / "ours.mrec", frames, declaration))
    check_seen(seen_by_others(root)[0], root, frames)
    run_independent(WRITE, spec(tmp_path / "run.json", frames, declaration), tmp_path / "theirs.mrec")
    ts.same_frames(ts.opened(tmp_path / "theirs.mrec"), frames)
