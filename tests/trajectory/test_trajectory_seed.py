"""The two trajectories of "Layout by example", built with the writer and checked node by node.

What the page prints is written down here: attributes, dtypes, shapes, chunk and shard extents, codecs, leading values,
and the table of how frames resolve.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trajectory_stores as ts
from layout_examples.records import build_reaction, build_vibration

from molrec_convert.model import Record
from molrec_convert.stores.zarr.trajectory.reader import StoredTrajectory
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

RAW = ["bytes", "crc32c"]
GZIP = ["bytes", "gzip(1)", "crc32c"]
TEXT = ["vlen-utf8", "gzip(1)", "crc32c"]
DENSE = (262144, 1024)


def build(root: Path, record: Record) -> StoredTrajectory:
    assert record.trajectory is not None
    with TrajectoryWriter.create(root, record.trajectory.declaration) as writer:
        for batch in record.trajectory.batches():
            writer.append(batch)
    return ts.opened(root)


def codecs(entries: list[dict[str, Any]]) -> list[str]:
    return [
        f"{e['name']}({e['configuration']['level']})" if "level" in e.get("configuration", {}) else e["name"]
        for e in entries
    ]


def described(root: Path, path: str) -> tuple[str, list[int], tuple[int, int], list[str], dict[str, Any]]:
    """dtype, shape, rows of a shard and of a chunk, codec line, attributes of an array."""
    document = ts.node(root, path)
    (sharding,) = document["codecs"]
    assert sharding["name"] == "sharding_indexed"
    configuration = sharding["configuration"]
    assert configuration["index_location"] == "start"
    assert codecs(configuration["index_codecs"]) == ["bytes", "crc32c"]
    outer, inner = document["chunk_grid"]["configuration"]["chunk_shape"], configuration["chunk_shape"]
    assert outer[1:] == inner[1:] == document["shape"][1:]
    return (
        document["data_type"],
        document["shape"],
        (outer[0], inner[0]),
        codecs(configuration["codecs"]),
        document["attributes"],
    )


def arrays(root: Path) -> set[str]:
    section = root / "trajectory"
    nodes = {str(path.parent.relative_to(section)) for path in section.rglob("zarr.json")}
    return {node for node in nodes if ts.node(root, node)["node_type"] == "array"}


def test_vibration(tmp_path: Path) -> None:
    build(tmp_path, build_vibration())
    f64 = {"dtype": "f64", "trailing": []}
    assert ts.attributes(tmp_path) == {
        "sequence_schema": {
            "blocks": {"atoms": {"columns": {"x": f64, "y": f64, "z": f64}}},
            "meta": {"pe": {"dtype": "f64"}, "temp": {"dtype": "f64"}},
        },
        "step_progression": {"start": 0, "stride": 100},
        "time_progression": {"start": 0.0, "stride": 0.5},
        "nstep": 4,
    }
    assert list(ts.attributes(tmp_path)) == ["sequence_schema", "step_progression", "time_progression", "nstep"]
    assert arrays(tmp_path) == {"meta/pe", "meta/temp", "atoms/x", "atoms/y", "atoms/z"}
    for key in ("pe", "temp"):
        assert described(tmp_path, f"meta/{key}") == ("float64", [4], DENSE, GZIP, {"meta_dtype": "f64"})
    assert ts.array(tmp_path, "meta/pe").tolist() == [-12.4, -12.1476, -12.1272, -12.3577]
    assert ts.array(tmp_path, "meta/temp").tolist() == [300.0, 302.5, 297.1, 300.0]
    assert ts.attributes(tmp_path, "atoms") == {"uniform_rows": 4, "dense_updates": True}
    leading = {
        "x": [0.8397, -0.0102, 0.0114, -0.8759, 0.8526, 0.0093],
        "y": [0.9072, 0.728, -0.7351, -0.8487, 0.8773, 0.7505],
        "z": [0.4465, -0.0105, 0.0149, 0.4201, 0.4144, -0.0041],
    }
    for key, values in leading.items():
        assert described(tmp_path, f"atoms/{key}") == ("float64", [16], (8388608, 2048), RAW, {})
        assert ts.array(tmp_path, f"atoms/{key}")[:6].tolist() == values
    assert ts.attributes(tmp_path, "box") == {"vectors": [[20.0, 0.0, 0.0], [0.0, 20.0, 0.0], [0.0, 0.0, 20.0]]}


def test_reaction(tmp_path: Path) -> None:
    build(tmp_path, build_reaction())
    f64, u64, text = ({"dtype": name, "trailing": []} for name in ("f64", "u64", "string"))
    assert ts.attributes(tmp_path) == {
        "sequence_schema": {
            "blocks": {
                "atoms": {"columns": {"element": text, "x": f64, "y": f64, "z": f64}},
                "bonds": {"columns": {"atomi": u64, "atomj": u64}},
                "atom_types": {"columns": {"type": text}, "aligned_with": "atoms"},
                "insertions": {"columns": {"atomi": u64}},
            },
            "meta": {"pe": {"dtype": "f64"}},
        },
        "nstep": 5,
    }
    expected = {
        "step": ("int64", [5], DENSE, GZIP, [0, 10, 20, 25, 30]),
        "meta/pe": ("float64", [5], DENSE, GZIP, [-4.1, -4.3, -12.2, -12.4, -12.3]),
        "atoms/step_index": ("uint64", [5], DENSE, GZIP, [0, 1, 2, 3, 4]),
        "atoms/offset": ("uint64", [6], DENSE, GZIP, [0, 4, 8, 12, 17, 22]),
        "atoms/element": ("string", [22], (8396800, 2050), TEXT, ["H", "O", "O", "H", "H", "O"]),
        "atoms/x": ("float64", [22], (8396800, 2050), RAW, [0.8501, -0.0464, 0.0182, -0.8224, 0.8329, -0.0046]),
        "atoms/y": ("float64", [22], (8396800, 2050), RAW, [0.8844, 0.7426, -0.7219, -0.874, 0.9102, 0.7195]),
        "atoms/z": ("float64", [22], (8396800, 2050), RAW, [0.4208, -0.0425, 0.0166, 0.4113, 0.4104, -0.0103]),
        "bonds/step_index": ("uint64", [2], DENSE, GZIP, [0, 2]),
        "bonds/offset": ("uint64", [3], DENSE, GZIP, [0, 2, 5]),
        "bonds/atomi": ("uint64", [5], (8392704, 2049), GZIP, [0, 2, 0, 1, 2]),
        "bonds/atomj": ("uint64", [5], (8392704, 2049), GZIP, [1, 3, 1, 2, 3]),
        "atom_types/step_index": ("uint64", [3], DENSE, GZIP, [0, 2, 3]),
        "atom_types/offset": ("uint64", [4], DENSE, GZIP, [0, 4, 8, 13]),
        "atom_types/type": ("string", [13], (4198400, 1025), TEXT, ["HO", "OH", "OH", "HO", "H1", "O1"]),
        "insertions/step_index": ("uint64", [2], DENSE, GZIP, [3, 4]),
        "insertions/offset": ("uint64", [3], DENSE, GZIP, [0, 1, 1]),
        "insertions/atomi": ("uint64", [1], (8388608, 2048), GZIP, [4]),
        "box/step_index": ("uint64", [2], DENSE, GZIP, [0, 4]),
        "box/vectors": ("float64", [2, 3, 3], DENSE, GZIP, [(np.eye(3) * 12).tolist()]),
    }
    assert arrays(tmp_path) == set(expected)
    for path, (dtype, shape, extents, pipeline, leading) in expected.items():
        attributes = {"meta_dtype": "f64"} if path == "meta/pe" else {}
        assert described(tmp_path, path) == (dtype, shape, extents, pipeline, attributes), path
        assert ts.array(tmp_path, path)[: len(leading)].tolist() == leading, path
    for group in ("atoms", "bonds", "atom_types", "insertions", "box", "meta"):
        assert ts.attributes(tmp_path, group) == {}


#: The page's table: per frame the step, and of each block the update and its rows; the update of the cell, its edge.
RESOLUTION = [
    (0, (0, 0, 4), (0, 0, 2), (0, 0, 4), None, 0, 12.0),
    (10, (1, 4, 8), (0, 0, 2), (0, 0, 4), None, 0, 12.0),
    (20, (2, 8, 12), (1, 2, 5), (1, 4, 8), None, 0, 12.0),
    (25, (3, 12, 17), (1, 2, 5), (2, 8, 13), (0, 0, 1), 0, 12.0),
    (30, (4, 17, 22), (1, 2, 5), (2, 8, 13), (1, 1, 1), 1, 12.25),
]


def test_how_the_reaction_resolves(tmp_path: Path) -> None:
    trajectory = build(tmp_path, build_reaction())
    for i, (step, *blocks, cell, edge) in enumerate(RESOLUTION):
        frame = trajectory.frame(i)
        assert frame.step == step
        assert [trajectory.resolve(name, i) for name in trajectory.declaration.blocks] == blocks
        assert trajectory.resolve_box(i) == cell
        assert frame.box is not None
        assert frame.box.vectors[0, 0] == edge
        assert ("insertions" in frame) == (blocks[3] is not None)
    assert trajectory.frame(4)["insertions"].count == 0


@pytest.mark.parametrize("build_record", [build_vibration, build_reaction])
def test_they_read_back_equal(tmp_path: Path, build_record: Any) -> None:
    record = build_record()
    trajectory = build(tmp_path, record)
    ts.same_frames(trajectory, record.trajectory)
    ts.same_frames((trajectory.frame(i) for i in range(len(trajectory))), record.trajectory)
    ts.same_as_zarr(tmp_path, trajectory)


def test_the_table_on_the_page_is_this_one(fixtures: Path) -> None:
    page = (fixtures / "layout-by-example.txt").read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(page) if line.startswith("frame `i`\t`step[i]`"))

    def cell(rows: tuple[int, int, int] | None) -> str:
        if rows is None:
            return "absent"
        update, first, last = rows
        count = last - first
        what = "empty" if not count else f"{count} row" + ("s" if count > 1 else "")
        return f"j={update} → `{first}:{last}` ({what})"

    for i, (step, *blocks, update, edge) in enumerate(RESOLUTION):
        row = [str(i), str(step), *(cell(block) for block in blocks), f'j={update} (edge "{edge}")']
        assert page[start + 1 + i].split("\t") == row
