"""Snapshots, systems and packed records exchanged with the independent implementation, both ways."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import frame_stores as stores
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from independent import IndependentError, run_independent
from layout_examples import records as examples

from molrec_convert.errors import ContractError
from molrec_convert.formats import WriteContext
from molrec_convert.model import Block, Box, Column, Frame, MemoryTrajectory, Meta, Record
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.stores.options import MrecOptions
from molrec_convert.stores.zarr.record import open_record, write_packed, write_record

pytestmark = pytest.mark.interop

DESCRIBE = """
import hashlib

def described(frame):
    blocks = {}
    for name in frame.keys():
        block = frame[name]
        columns = {}
        for key in block.keys():
            values, mask = block[key], block.validity(key)
            if values.dtype.kind == "U":
                data = [str(text) for text in values.reshape(-1)]
            else:
                data = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
            dtype = "string" if values.dtype.kind == "U" else values.dtype.name
            mask = None if mask is None else [bool(flag) for flag in mask]
            columns[key] = [dtype, list(values.shape), data, mask, block.precision(key)]
        shape = block.structural_shape
        targets = block.targets() if callable(block.targets) else block.targets
        blocks[name] = [block.n_rows, None if shape is None else list(shape), dict(targets), columns]
    box = None
    if frame.box is not None:
        box = [
            frame.box.is_cell_defined,
            np.asarray(frame.box.matrix, float).tolist(),
            np.asarray(frame.box.origin, float).tolist(),
            [bool(flag) for flag in frame.box.pbc],
        ]
    return {"blocks": blocks, "box": box}

"""

READ = DESCRIBE + "print(json.dumps(described(getattr(mrec.MrecFile(Path(sys.argv[1])), sys.argv[2])())))"
COPY = """
for source, target in zip(sys.argv[1::2], sys.argv[2::2]):
    record = mrec.MrecFile(Path(source))
    parts = {name: getattr(record, name)() for name in ("frame", "system") if name in record.sections()}
    molrs.io.write_mrec(Path(target), meta=record.meta(), **parts)
"""
PACK = COPY.replace("molrs.io.write_mrec(Path(target),", "buffer = bytearray(); molrs.io.write_mrec(buffer,") + (
    "    Path(target).write_bytes(bytes(buffer))\n"
)


def described(frame: Frame) -> dict[str, Any]:
    """What the snippet says of a frame it reads."""
    blocks = {}
    for name in frame:
        block, columns = frame[name], {}
        for key, column in block.columns.items():
            if column.dtype == "string":
                dtype, data = "string", [str(text) for text in column.values.reshape(-1)]
            else:
                dtype, data = DTYPES[column.dtype].numpy.name, hashlib.sha256(column.values.tobytes()).hexdigest()
            mask = None if column.validity is None else column.validity.tolist()
            columns[key] = [dtype, list(column.values.shape), data, mask, column.precision]
        shape = None if block.structural_shape is None else list(block.structural_shape)
        blocks[name] = [block.count, shape, block.targets, columns]
    box = None
    if frame.box is not None:
        cell = frame.box
        box = [cell.defined, cell.vectors.tolist(), cell.origin.tolist(), cell.boundary.tolist()]
    return {"blocks": blocks, "box": box}


def seen_by_others(path: Path, section: str = "frame") -> dict[str, Any]:
    seen: dict[str, Any] = json.loads(run_independent(READ, path, section))
    return seen


def store(path: Path, frame: Frame, **options: Any) -> Path:
    write_record(Record(frame=frame), path, WriteContext(options=MrecOptions(**options)))
    return path


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(11)
    count = int(np.prod(shape))
    if dtype == "string":
        return np.array([f"Å{n}\n" if n % 3 else "" for n in range(count)], DTYPES["string"].numpy).reshape(shape)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    raw = generator.integers(0, 256, count * DTYPES[dtype].numpy.itemsize, dtype=np.uint8)
    return raw.view(DTYPES[dtype].numpy).reshape(shape)


def everything() -> Frame:
    """Every dtype, masks, precisions, references, shapes of rows and blocks, and a tilted cell off its defaults."""
    blocks = {
        f"{dtype}-{'x'.join(map(str, shape))}": Block({"c": values(dtype, shape), "d": values(dtype, shape)})
        for dtype in DTYPES
        for shape in [(0,), (1,), (5,), (4, 3), (3, 2, 2)]
    }
    mask = np.array([True, False, True])
    blocks |= {
        "atoms": Block({"x": Column(np.array([0.1, 2.5 * 2.0**-10, -7.0]), precision=1e-3), "id": values("u64", (3,))}),
        "masked": Block({"f": Column(np.array([1.5, 9.0, 2.5]), mask), "s": Column(np.array(["a", "?", "b"]), mask)}),
        "bonds": Block({"atomi": np.array([0, 1], np.uint64), "atomj": np.array([1, 2], np.uint64)}),
        "links": Block({"site": Column(np.array([2, 77], np.uint64), mask[:2])}, targets={"site": "atoms"}),
        "grid": Block({"rho": np.arange(6.0)}, structural_shape=(1, 2, 3)),
        "none": Block(count=7),
    }
    vectors = np.array([[10.0, 2.0, -1.0], [0.0, 9.0, 0.5], [0.0, 0.0, 8.0]])
    return Frame(blocks, box=Box(vectors, np.array([-1.0, 0.5, 2.0]), np.array([True, False, True])))


def large() -> Frame:
    """Columns of more than four chunks."""
    floats = np.random.default_rng(3).standard_normal(350_000)
    columns = {
        "f": Column(floats),
        "p": Column(floats, precision=1e-2),
        "i": Column(np.arange(350_000, dtype=np.int64)),
    }
    return Frame({"things": Block({**columns, "v": Column(floats.reshape(-1, 1)[:, :1])})})


@pytest.mark.parametrize("options", [{}, {"compression": "gzip:5"}, {"compression": "zstd:7"}], ids=str)
@pytest.mark.parametrize("frame", [everything(), large()], ids=["everything", "large"])
def test_others_read_what_we_write(tmp_path: Path, frame: Frame, options: dict[str, str]) -> None:
    path = store(tmp_path / "ours.mrec", frame, **options)
    with open_record(path) as record:
        assert record.frame is not None
        assert seen_by_others(path) == described(record.frame)
        assert {k: v for k, v in described(record.frame)["blocks"].items() if k not in ("atoms", "things")} == {
            k: v for k, v in described(frame)["blocks"].items() if k not in ("atoms", "things")
        }


@pytest.mark.parametrize("frame", [everything(), large()], ids=["everything", "large"])
def test_we_read_what_others_write(tmp_path: Path, frame: Frame) -> None:
    ours = store(tmp_path / "ours.mrec", frame)
    run_independent(COPY, ours, tmp_path / "theirs.mrec")
    with open_record(ours) as a, open_record(tmp_path / "theirs.mrec") as b:
        assert a.frame == b.frame
        assert b.frame is not None
        b.frame.check()
        assert list(b.unknown.keys()) == []  # type: ignore[union-attr]


def test_a_system_travels(tmp_path: Path) -> None:
    record = examples.build_vibration()
    record.trajectory = None
    write_record(record, tmp_path / "ours.mrec", WriteContext())
    assert record.system is not None
    assert seen_by_others(tmp_path / "ours.mrec", "system") == described(record.system)
    run_independent(COPY, tmp_path / "ours.mrec", tmp_path / "theirs.mrec")
    with open_record(tmp_path / "theirs.mrec") as theirs:
        assert theirs.system == record.system
        assert theirs.meta["molrec_version"] == 1


def test_packed_records_travel(tmp_path: Path) -> None:
    record = examples.build_water()
    write_packed(record, tmp_path / "ours.mrec.zip", WriteContext())
    with open_record(tmp_path / "ours.mrec.zip") as ours:
        assert ours.frame is not None
        assert seen_by_others(tmp_path / "ours.mrec.zip") == described(ours.frame)
        run_independent(PACK, tmp_path / "ours.mrec.zip", tmp_path / "theirs.mrec.zip")
        with open_record(tmp_path / "theirs.mrec.zip") as theirs:
            assert theirs.frame == ours.frame


def test_typed_meta_travels(tmp_path: Path) -> None:
    from test_typed_meta import VALUES

    meta = Meta()
    for tag, value in VALUES.items():
        # Python's own view of a text there ends at its first NUL.
        meta.put(tag, value.replace("\0", "") if tag == "string" else value, tag)
    for number, value in enumerate([float("nan"), float("inf"), -0.0, 1.0]):
        meta.put(f"real{number}", value, "f64")
    ours = store(tmp_path / "ours.mrec", Frame({"atoms": Block(count=1)}, meta))
    run_independent(COPY, ours, tmp_path / "theirs.mrec")
    with open_record(tmp_path / "theirs.mrec") as theirs:
        assert theirs.frame is not None
        assert theirs.frame.meta == meta


def test_documents_travel(tmp_path: Path) -> None:
    meta = {"molrec_version": 1, "null": None, "nested": {"a": [1, 2.5, None, {"b": "Å"}]}, "n": 2**53 + 1}
    write_record(Record(meta=meta, frame=Frame({"atoms": Block(count=1)})), tmp_path / "a", WriteContext(creator=False))
    run_independent(COPY, tmp_path / "a", tmp_path / "b")
    with open_record(tmp_path / "b") as theirs:
        assert theirs.meta == meta


@pytest.mark.parametrize(
    "box",
    [
        Box(np.eye(3) * 3.0),
        Box(np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 4.0]])),
        Box(np.diag([1.0, 2.0, 3.0]), np.array([1e-3, -1e3, 0.1]), np.zeros(3, np.bool_)),
        Box.undefined(),
        Box.undefined([1.0, -2.0, 0.5]),
    ],
    ids=["cubic", "left-handed", "open", "undefined", "undefined off the origin"],
)
def test_cells_travel(tmp_path: Path, box: Box) -> None:
    ours = store(tmp_path / "ours.mrec", Frame({"atoms": Block(count=1)}, box=box))
    assert seen_by_others(ours)["box"] == described(Frame(box=box))["box"]
    run_independent(COPY, ours, tmp_path / "theirs.mrec")
    with open_record(tmp_path / "theirs.mrec") as theirs:
        assert theirs.frame is not None
        assert theirs.frame.box == box


def test_a_frame_others_make(tmp_path: Path) -> None:
    run_independent(
        """
from molrs.core import Block, Box, Frame
atoms = Block({"element": ["O", "H", "H"], "x": [0.0, 0.757, -0.757], "id": np.array([7, 8, 2**63 + 5], np.uint64)})
atoms.set_precision("x", 1e-3)
atoms.set_validity("element", [True, True, False])
bonds = Block({"atomi": np.array([0, 0], np.uint64), "atomj": np.array([1, 2], np.uint64)})
frame = Frame({"atoms": atoms, "bonds": bonds}, meta={"title": "water", "charge": 0, "e": -1.5}, box=Box.cube(10.0))
molrs.io.write_mrec(Path(sys.argv[1]), meta={"source": "made there"}, frame=frame)
""",
        tmp_path / "theirs.mrec",
    )
    with open_record(tmp_path / "theirs.mrec") as record:
        assert record.meta == {"source": "made there"}
        frame = record.frame
        assert frame is not None
        assert frame["atoms"]["id"].tolist() == [7, 8, 2**63 + 5]
        assert frame["atoms"]["x"].tolist() == [0.0, 775 / 1024, -775 / 1024]
        assert frame["atoms"].columns["x"].precision == 1e-3
        assert frame["atoms"].validity("element").tolist() == [True, True, False]
        assert frame["atoms"].columns["x"].attributes == {}
        assert frame["bonds"]["atomj"].tolist() == [1, 2]
        assert dict(frame.meta) == {"title": "water", "charge": 0, "e": -1.5}
        assert frame.meta.tags == {"title": "string", "charge": "i64", "e": "f64"}
        assert frame.box == Box(np.eye(3) * 10.0)
        write_record(record, tmp_path / "ours.mrec", WriteContext())
    with open_record(tmp_path / "ours.mrec") as ours:
        assert seen_by_others(tmp_path / "ours.mrec") == described(ours.frame or Frame())


def test_what_both_refuse(tmp_path: Path) -> None:
    ours = store(tmp_path / "ours.mrec", Frame({"sites": Block({"c": [1.0, 2.0]})}))
    stores.zarr_create(ours / "frame/sites/c", np.ones(2, np.float32))
    with pytest.raises(ContractError):
        open_record(ours)
    with pytest.raises(IndependentError):
        seen_by_others(ours)


@st.composite
def exchangeable(draw: st.DrawFn) -> Frame:
    """Any frame but those the other side has no place for: cells without a volume, rows without a value."""
    frame = draw(stores.frames().filter(can_travel))
    edges = draw(st.lists(st.floats(0.5, 1e3), min_size=3, max_size=3))
    frame.box = draw(st.sampled_from([None, Box(np.diag(edges)), Box.undefined()]))
    return frame


def can_travel(frame: Frame) -> bool:
    """Whether the other side has a place for it: no rows without a value, no integer in JSON beyond 64 bits."""
    empty = any(0 in column.trailing for block in frame.blocks.values() for column in block.columns.values())
    return not empty and not any(
        has_wide_integer(frame.meta[key]) for key in frame.meta if frame.meta.tag(key) == "json"
    )


def has_wide_integer(document: Any) -> bool:
    if isinstance(document, dict):
        return any(has_wide_integer(value) for value in document.values())
    if isinstance(document, list):
        return any(has_wide_integer(value) for value in document)
    return isinstance(document, int) and not -(2**63) <= document < 2**64


@given(st.lists(exchangeable(), min_size=1, max_size=15))
@settings(max_examples=6, derandomize=True, suppress_health_check=list(HealthCheck))
def test_any_frames_travel(tmp_path_factory: pytest.TempPathFactory, frames: list[Frame]) -> None:
    path = tmp_path_factory.mktemp("frames")
    pairs = []
    for number, frame in enumerate(frames):
        pairs += [store(path / f"ours{number}", frame), path / f"theirs{number}"]
    run_independent(COPY, *pairs)
    for number, frame in enumerate(frames):
        with open_record(path / f"theirs{number}") as theirs:
            assert theirs.frame == frame


def test_a_record_with_frame_and_trajectory_is_opened_by_others(tmp_path: Path) -> None:
    frame = Frame({"atoms": Block({"x": [0.0, 1.0]})})
    record = Record(frame=frame, trajectory=MemoryTrajectory([frame, frame]))
    write_record(record, tmp_path / "a.mrec", WriteContext())
    assert seen_by_others(tmp_path / "a.mrec") == described(frame)
    sections = run_independent("print(mrec.MrecFile(Path(sys.argv[1])).sections())", tmp_path / "a.mrec")
    assert sections.strip() == "['frame', 'meta', 'trajectory']"
