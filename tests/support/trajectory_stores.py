"""Trajectories for tests: built from a few frames, stored, opened by our reader, and read by a second reader.

`through_zarr` resolves every frame with the Zarr library and the rules of the page "How a reader resolves frame i",
sharing no code with the package's reader.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molrec_convert.model import NO_FILL, Block, Declaration, Frame, MemoryTrajectory, Meta
from molrec_convert.stores.zarr.trajectory.reader import StoredTrajectory
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage


def atoms(*x: float, **columns: Any) -> Block:
    """A block with the column x."""
    return Block({"x": np.array(x, dtype=np.float64), **columns})


def frames_of(*blocks: dict[str, Block], **common: Any) -> list[Frame]:
    """One frame for each dictionary of blocks."""
    return [Frame(dict(presented), **common) for presented in blocks]


def write(
    root: Path,
    frames: Iterable[Frame],
    declaration: Declaration | None = None,
    *,
    flush_every: int = 0,
    **options: Any,
) -> Path:
    """Store frames one by one, with a durable flush after every `flush_every` of them."""
    frames = list(frames)
    declaration = Declaration.derive(frames) if declaration is None else declaration
    with TrajectoryWriter.create(root, declaration, **options) as writer:
        for number, frame in enumerate(frames, 1):
            writer.append_frame(frame)
            if flush_every and number % flush_every == 0:
                writer.flush()
    return root


def opened(root: Path) -> StoredTrajectory:
    """The trajectory of the record at `root`."""
    return StoredTrajectory(DirectoryStorage(root))


def stored(root: Path, frames: Iterable[Frame], declaration: Declaration | None = None, **options: Any) -> Any:
    """Store frames and open what was stored."""
    return opened(write(root, frames, declaration, **options))


def node(root: Path, path: str) -> dict[str, Any]:
    """The `zarr.json` of a node below the section."""
    return json.loads((root / "trajectory" / path / "zarr.json").read_text(encoding="utf-8"))


def attributes(root: Path, path: str = "") -> dict[str, Any]:
    """The attributes of a node below the section."""
    return node(root, path)["attributes"]


def exists(root: Path, path: str) -> bool:
    """Whether a node below the section is there."""
    return (root / "trajectory" / path / "zarr.json").exists()


def array(root: Path, path: str) -> np.ndarray:
    """The values of an array below the section, through the Zarr library."""
    return zarr_array(root, f"trajectory/{path}")


def zarr_array(root: Path, key: str) -> np.ndarray:
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = zarr.storage.LocalStore(root, read_only=True)
        return np.asarray(zarr.open_array(store=store, path=key, mode="r", zarr_format=3)[...])


def same_frames(a: Iterable[Frame], b: Iterable[Frame]) -> None:
    """Fail unless the frames agree in blocks, tagged meta, cell, step and time, bit for bit."""
    left, right = list(a), list(b)
    assert len(left) == len(right)
    for number, (one, other) in enumerate(zip(left, right, strict=True)):
        assert list(one.blocks) == list(other.blocks), number
        for name, block in one.blocks.items():
            assert block == other.blocks[name], (number, name)
        assert one.meta == other.meta, number
        assert one.box == other.box, number
        assert one.step == other.step, number
        assert np.array_equal(np.array([one.time], object), np.array([other.time], object)) or (
            one.time is not None and other.time is not None and bits(one.time) == bits(other.time)
        ), number


def bits(*values: float) -> list[int]:
    return np.array(values, dtype=np.float64).view(np.uint64).tolist()


def stands_for_none(value: Any, fill: Any) -> bool:
    """Whether a per-step value says that the frame has none: null or NaN, where that is the fill, too."""
    if fill is None or value is None:
        return fill is None and value is None
    if fill is NO_FILL or isinstance(fill, str) or np.asarray(fill).dtype.kind != "f":
        return False
    return bool(np.isnan(fill).all() and np.isnan(value).all())


def resolved(frames: Sequence[Frame], declaration: Declaration) -> list[Frame]:
    """Frames as a store hands them out: what a frame omits carried forward, values rounded."""
    from molrec_convert.model.dtypes import stored as rounded

    carried: dict[str, Block] = {}
    box = None
    result = []
    for number, frame in enumerate(frames):
        for name, block in frame.blocks.items():
            columns = {}
            for key, declared in declaration.blocks[name].columns.items():
                column = block.columns[key]
                values = column.values
                if declared.precision is not None:
                    values = rounded(values, declared.precision)
                    if column.validity is not None:
                        values[~column.validity] = column.values[~column.validity]
                columns[key] = type(column)(values, column.validity, declared.precision)
            carried[name] = Block(
                columns,
                count=block.count,
                structural_shape=declaration.blocks[name].structural_shape,
                targets=declaration.blocks[name].targets,
            )
        box = frame.box if frame.box is not None else box
        present = {name: carried[name] for name in declaration.blocks if name in carried}
        step = number if frame.step is None else frame.step
        meta = Meta()
        for key, entry in declaration.meta.items():
            value = frame.meta.get(key, entry.fill)
            if value is not NO_FILL and not stands_for_none(value, entry.fill):
                meta.put(key, value, entry.dtype)
        result.append(Frame(present, meta, box, step, frame.time))
    return result


def through_zarr(root: Path) -> list[dict[str, Any]]:
    """Every frame as `{"step", "time", "meta", "box", "blocks": {name: {column: (values, mask)}}}`."""
    section = attributes(root)
    schema, count = section["sequence_schema"], section["nstep"]
    frames: list[dict[str, Any]] = []
    steps = _series(root, section, "step", count)
    times = _series(root, section, "time", count)
    for i in range(count):
        blocks = {}
        for name, declared in schema["blocks"].items():
            rows = _rows(root, name, declared, i, count)
            if rows is not None:
                blocks[name] = {
                    key: (
                        array(root, f"{name}/{key}")[rows],
                        array(root, f"{name}/_validity/{key}")[rows]
                        if exists(root, f"{name}/_validity/{key}")
                        else None,
                    )
                    for key in declared["columns"]
                }
                blocks[name][""] = (rows.stop - rows.start, None)
        meta = {key: array(root, f"meta/{key}")[i] for key in schema["meta"]}
        frames.append(
            {
                "step": None if steps is None else int(steps[i]),
                "time": None if times is None else float(times[i]),
                "meta": meta,
                "box": _cell(root, i),
                "blocks": blocks,
            }
        )
    return frames


def _series(root: Path, section: dict[str, Any], name: str, count: int) -> Any:
    progression = section.get(f"{name}_progression")
    if progression is not None:
        start, stride = progression["start"], progression.get("stride", 0)
        if name == "step":
            return [start + i * stride for i in range(count)]
        return [start + float(i) * stride if "stride" in progression else start for i in range(count)]
    return array(root, name) if exists(root, name) else None


def _rows(root: Path, name: str, declared: dict[str, Any], frame: int, count: int) -> slice | None:
    if not exists(root, name):
        return None
    group = attributes(root, name)
    if exists(root, f"{name}/step_index"):
        index = array(root, f"{name}/step_index")
        offset = array(root, f"{name}/offset")
        at = int(np.searchsorted(index, frame, side="right")) - 1
        return None if at < 0 else slice(int(offset[at]), int(offset[at + 1]))
    if "uniform_rows" not in group:
        return None
    rows = group["uniform_rows"]
    shortest = min(node(root, f"{name}/{key}")["shape"][0] for key in declared["columns"])
    updates = min(shortest // rows, count)
    at = min(frame, updates - 1)
    return None if at < 0 else slice(at * rows, (at + 1) * rows)


def _cell(root: Path, frame: int) -> Any:
    if not exists(root, "box"):
        return None
    group = attributes(root, "box")
    defined = group.get("cell_defined", True)
    if not exists(root, "box/vectors"):
        if "vectors" not in group:
            return None
        return (
            np.array(group["vectors"]),
            np.array(group.get("origin", [0.0] * 3)),
            np.array(group.get("boundary", [defined] * 3)),
        )
    at = int(np.searchsorted(array(root, "box/step_index"), frame, side="right")) - 1
    if at < 0:
        return None
    return (
        array(root, "box/vectors")[at],
        array(root, "box/origin")[at] if exists(root, "box/origin") else np.zeros(3),
        array(root, "box/boundary")[at] if exists(root, "box/boundary") else np.array([defined] * 3),
    )


def same_as_zarr(root: Path, trajectory: StoredTrajectory) -> None:
    """Fail unless both readers give the same frames, bit for bit."""
    from molrec_convert.model.dtypes import as_values, same_bits

    second = through_zarr(root)
    assert len(second) == len(trajectory)
    for ours, other in zip((trajectory.frame(i) for i in range(len(trajectory))), second, strict=True):
        assert ours.step == other["step"]
        assert (ours.time is None) == (other["time"] is None)
        assert ours.time is None or bits(ours.time) == bits(other["time"])
        assert list(ours.blocks) == list(other["blocks"])
        for name, columns in other["blocks"].items():
            assert ours[name].count == columns.pop("")[0]
            for key, (values, mask) in columns.items():
                assert same_bits(ours[name].stored(key), as_values(values, ours[name].columns[key].dtype)), (name, key)
                assert mask is None or np.array_equal(ours[name].validity(key), mask)
        for key, value in other["meta"].items():
            entry = trajectory.declaration.meta[key]
            tag = entry.dtype
            missing = stands_for_none(json.loads(value) if tag == "json" else value, entry.fill)
            assert (key in ours.meta) is not missing
            if missing:
                continue
            if tag == "json":
                assert json.loads(value) == ours.meta[key]
            elif tag.startswith("f64"):
                assert bits(*np.ravel(value)) == bits(*np.ravel(ours.meta[key]))
            else:
                assert np.array_equal(np.asarray(value), np.asarray(ours.meta[key]))
        assert (ours.box is None) == (other["box"] is None)
        if ours.box is not None:
            for mine, theirs in zip((ours.box.vectors, ours.box.origin, ours.box.boundary), other["box"], strict=True):
                assert same_bits(mine, theirs)


def memory(frames: Sequence[Frame], declaration: Declaration | None = None, **options: Any) -> MemoryTrajectory:
    return MemoryTrajectory(frames, declaration, **options)
