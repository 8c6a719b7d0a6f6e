"""Random declarations and update sequences, written in random flush sizes, read back equal through both readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trajectory_stores as ts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molrec_convert.model import (
    TAGS,
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
from molrec_convert.stores.zarr.trajectory.arrays import EVERY_BOUNDARY
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

NAMES = st.sampled_from(["a", "b.1", "é", "%41", "x y", ".hidden", "type_", "_validity2"])
TRAILING = st.sampled_from([(), (), (), (3,), (2, 2), (0,)])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e-3, 1e300, float("nan"), float("inf"), -1e-310])
TEXTS = st.sampled_from(["", "a", "é\0b", "line\n", "x" * 40])
Draw = Any


@st.composite
def columns(draw: Draw) -> ColumnDeclaration:
    dtype = draw(st.sampled_from(["f64", "f64", *DTYPES]))
    precision = draw(st.sampled_from([None, 1e-3, 2.0, 1e-12])) if dtype == "f64" else None
    return ColumnDeclaration(dtype, draw(TRAILING), draw(st.booleans()), precision)


@st.composite
def declarations(draw: Draw) -> Declaration:
    """Free blocks, blocks aligned with the first, relations into it, per-step keys with and without fills."""
    rows = st.sampled_from([None, 0, 1, 3, 700])
    blocks = {"atoms": BlockDeclaration(draw(st.dictionaries(NAMES, columns(), max_size=3)), rows=draw(rows))}
    for name in draw(st.lists(NAMES, max_size=2, unique=True)):
        blocks[name] = BlockDeclaration(draw(st.dictionaries(NAMES, columns(), max_size=2)), rows=draw(rows))
    if draw(st.booleans()):
        blocks["kinds"] = BlockDeclaration({"kind": draw(columns())}, aligned_with="atoms")
    if draw(st.booleans()):
        blocks["bonds"] = BlockDeclaration({"atomi": ColumnDeclaration("u64", (), draw(st.booleans()))})
    meta = {}
    for key in draw(st.lists(NAMES, max_size=2, unique=True)):
        tag = draw(st.sampled_from(sorted(TAGS)))
        meta[key] = MetaDeclaration(tag, draw(meta_values(tag)))
    return Declaration(blocks, meta)


def meta_values(tag: str) -> st.SearchStrategy[Any]:
    spec = TAGS[tag]
    if spec.dtype is None:
        return st.sampled_from([None, 1, [1.5, "é"], {"k": [True, None]}])
    one = {
        "bool": st.booleans(),
        "f64": FLOATS,
        "string": TEXTS,
    }.get(spec.dtype)
    if one is None:
        bounds = np.iinfo(DTYPES[spec.dtype].numpy)
        one = st.sampled_from([int(bounds.min), 0, 7, int(bounds.max)])
    if not spec.width:
        return one
    dtype = DTYPES[spec.dtype].numpy
    return st.lists(one, min_size=spec.width, max_size=spec.width).map(lambda values: np.array(values, dtype))


def values(rng: np.random.Generator, column: ColumnDeclaration, rows: int) -> Column:
    """Few different values, so that presentations repeat and chunks of zeros come up."""
    shape = (rows, *column.trailing)
    level = int(rng.integers(0, 3))
    raw = rng.integers(0, 1 + level, shape)
    if column.dtype == "string":
        data = np.array(["", "é", "a\0"], DTYPES["string"].numpy)[raw]
    elif column.dtype in ("f64", "c64", "c128"):
        data = np.array([0.0, -0.0 if level == 1 else 0.7001, float("nan")])[raw].astype(DTYPES[column.dtype].numpy)
    else:
        data = raw.astype(DTYPES[column.dtype].numpy)
    mask = rng.random(rows) < 0.7 if column.nullable and rng.random() < 0.7 else None
    return Column(np.asarray(data).reshape(shape), mask)


@st.composite
def runs(draw: Draw) -> tuple[Declaration, list[Frame]]:
    declaration = draw(declarations())
    timed = draw(st.booleans())
    frames: list[Frame] = []
    counts: dict[str, int] = {}
    largest = -1
    step = draw(st.integers(-5, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    for number in range(draw(st.integers(0, 9))):
        blocks: dict[str, Block] = {}
        for name, declared in declaration.blocks.items():
            atoms = counts.get("atoms", 0)
            must = declared.aligned_with == "atoms" and name in counts and counts[name] != atoms
            must |= name == "bonds" and largest >= atoms
            if not (must or rng.random() < 0.6) or (declared.aligned_with and "atoms" not in counts):
                continue
            rows = atoms if declared.aligned_with else int(rng.choice([0, 1, 2, 3, 3, 3]))
            if name == "bonds":
                rows = rows if atoms else 0
                column = declared.columns["atomi"]
                ends = Column(
                    rng.integers(0, max(1, atoms), rows).astype(np.uint64), values(rng, column, rows).validity
                )
                block = Block({"atomi": ends})
                kept = ends.values if ends.validity is None else ends.values[ends.validity]
                largest = int(kept.max()) if kept.size else -1
            else:
                cells = {key: values(rng, column, rows) for key, column in declared.columns.items()}
                block = Block(cells, count=rows)
            blocks[name], counts[name] = block, rows
        meta = Meta()
        for key, entry in declaration.meta.items():
            if rng.random() < 0.6:
                meta.put(key, draw(meta_values(entry.dtype)), entry.dtype)
        box = Box(np.eye(3) * rng.integers(1, 3), rng.integers(0, 2, 3) * -0.0) if rng.random() < 0.4 else None
        time = float(rng.choice([0.5 * number, -0.0])) if timed else None
        frames.append(Frame(blocks, meta, box, step, time))
        step += int(rng.choice([10, 10, 10, 1]))
    return declaration, frames


@pytest.mark.slow
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(run=runs(), data=st.data())
def test_what_is_written_is_read(
    tmp_path_factory: Any, run: tuple[Declaration, list[Frame]], data: st.DataObject
) -> None:
    declaration, frames = run
    root = Path(tmp_path_factory.mktemp("run"))
    expected = ts.resolved(frames, declaration)
    flush_bytes = data.draw(st.sampled_from([1, 100, 2**22]))
    writer = TrajectoryWriter.create(root, declaration, flush_bytes=flush_bytes, pace=EVERY_BOUNDARY)
    at = 0
    while at < len(frames):
        count = data.draw(st.integers(1, len(frames) - at))
        then = data.draw(st.sampled_from(["frames", "batch"]))
        if then == "frames":
            for frame in frames[at : at + count]:
                writer.append_frame(frame)
        else:
            (batch,) = ts.memory(frames[at : at + count], declaration).batches()
            writer.append(batch)
        at += count
        if data.draw(st.booleans()):
            writer.flush()
        if data.draw(st.booleans()):
            writer.close()
            writer = TrajectoryWriter.open(root)
    writer.close()
    trajectory = ts.opened(root)
    ts.same_frames((trajectory.frame(i) for i in range(len(trajectory))), expected)
    ts.same_frames(trajectory, expected)
    trajectory.check()
    ts.same_as_zarr(root, trajectory)
    start = data.draw(st.integers(0, max(0, len(frames) - 1)))
    step = data.draw(st.integers(1, 3))
    copy = Path(tmp_path_factory.mktemp("copy"))
    with TrajectoryWriter.create(copy, trajectory.declaration) as writer:
        for batch in trajectory.batches(start, None, step, batch_bytes=data.draw(st.sampled_from([1, 300, 2**25]))):
            writer.append(batch)
    ts.same_frames(ts.opened(copy), expected[start::step])
    assert json.loads(json.dumps(ts.attributes(copy)["sequence_schema"])) == declaration.to_json()
