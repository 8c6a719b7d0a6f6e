"""A collection as a map-style dataset, used the way a data loader uses one."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import POINTS, cubic, molecule, points, write

from molrec_convert.errors import UsageError
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.stores.lmdb.dataset import CollectionDataset, frame_sample

DECLARED = Declaration(
    {"atoms": BlockDeclaration({"x": ColumnDeclaration("f64", nullable=True)})},
    {"pe": MetaDeclaration("f64"), "note": MetaDeclaration("json")},
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    records = [
        Record(system=molecule("OH", smiles=f"{n}"), trajectory=points(n, frames=2).trajectory) for n in range(12)
    ]
    return write(tmp_path / "c.mrec.lmdb", records)


def collate(items: list[Any]) -> Any:
    """What a data loader's default does: arrays are stacked, numbers joined, dicts and lists gone into."""
    first = items[0]
    if isinstance(first, np.ndarray):
        assert first.dtype.kind in "biufc", "an array that cannot become a tensor"
        return np.stack(items)
    if isinstance(first, (bool, int, float)):
        return np.array(items)
    if isinstance(first, str):
        return items
    if isinstance(first, Mapping):
        return {key: collate([item[key] for item in items]) for key in first}
    if isinstance(first, (list, tuple)):
        assert len({len(item) for item in items}) == 1
        return [collate(list(column)) for column in zip(*items, strict=True)]
    raise TypeError(f"default_collate cannot take {type(first)}")


def load(dataset: CollectionDataset, indices: list[int]) -> Any:
    """One batch of a worker."""
    return collate([dataset[i] for i in indices])


def test_records(path: Path) -> None:
    dataset = CollectionDataset(path)
    assert len(dataset) == 12
    item = dataset[np.int64(3)]
    assert list(item) == ["system", "frames"]
    assert item["system"] == {"atoms/element": ["O", "H"], "smiles": "3"}
    assert [frame["pe"] for frame in item["frames"]] == [-3.0, -3.125]
    assert item["frames"][1]["atoms/x"].tolist() == [310.0, 311.0]
    assert item["frames"][1]["step"] == 1
    assert dataset[-1]["system"]["smiles"] == "11"
    for wrong in (12, -13):
        with pytest.raises(IndexError):
            dataset[wrong]


def test_frames(path: Path) -> None:
    dataset = CollectionDataset(path, of="frames")
    assert len(dataset) == 24
    item = dataset[7]
    assert item["atoms/x"].tolist() == [310.0, 311.0]
    assert item["atoms/element"] == ["O", "H"]
    assert (item["pe"], item["step"], item["smiles"]) == (-3.125, 1, "3")
    item["atoms/x"][0] = 0.0
    assert dataset[7]["atoms/x"][0] == 310.0


def test_transform(path: Path) -> None:
    assert CollectionDataset(path, len_of_record)[2] == (2, "2")
    assert CollectionDataset(path, energy_of_frame, of="frames")[5] == -2.125


def len_of_record(record: Record) -> tuple[int, str]:
    assert record.trajectory is not None
    assert record.system is not None
    return len(record.trajectory), record.system.meta["smiles"]


def energy_of_frame(record: Record, position: int) -> float:
    assert record.trajectory is not None
    return float(record.trajectory[position].meta["pe"])


def test_selection(path: Path) -> None:
    dataset = CollectionDataset(path, of="frames", select=[4, 1])
    assert len(dataset) == 4
    assert [dataset[n]["smiles"] for n in range(4)] == ["4", "4", "1", "1"]
    assert len(CollectionDataset(path, select="n_frames == 3")) == 0
    with pytest.raises(UsageError, match="of records or of frames"):
        CollectionDataset(path, of="atoms")  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["fork", "spawn"])
@pytest.mark.parametrize("of", ["records", "frames"])
def test_workers(path: Path, how: str, of: Any) -> None:
    """Batches of several workers, each with the dataset it was given, in shuffled order."""
    dataset = CollectionDataset(path, of=of)
    first = dataset[0]
    order = np.random.default_rng(0).permutation(len(dataset)).tolist()
    batches = [order[i : i + 4] for i in range(0, len(order), 4)]
    with multiprocessing.get_context(how).Pool(3) as pool:
        loaded = pool.starmap_async(load, [(dataset, batch) for batch in batches]).get(60)
    for batch, result in zip(batches, loaded, strict=True):
        expected = load(dataset, batch)
        assert pickle.dumps(result) == pickle.dumps(expected)
        if of == "frames":
            assert result["atoms/x"].shape == (4, 2)
    assert pickle.dumps(dataset[0]) == pickle.dumps(first)


def test_a_sample_is_plain(tmp_path: Path) -> None:
    """Masks, cells, vectors and texts; JSON documents are left out."""
    meta = Meta({"pe": 1.5, "note": {"a": 1}})
    frame = Frame(
        {"atoms": Block({"x": Column(np.array([1.0, 2.0]), np.array([True, False]))})},
        meta,
        cubic(3.0),
        step=4,
        time=0.5,
    )
    path = write(tmp_path / "c.mrec.lmdb", [Record(trajectory=MemoryTrajectory([frame], DECLARED))], DECLARED)
    item = CollectionDataset(path, of="frames")[0]
    assert sorted(item) == [
        "atoms/_validity/x", "atoms/x", "box/boundary", "box/origin", "box/vectors", "pe", "step", "time",
    ]  # fmt: skip
    assert item["atoms/_validity/x"].tolist() == [True, False]
    assert (item["step"], item["time"], item["pe"]) == (4, 0.5, 1.5)
    assert collate([item, item])["box/vectors"].shape == (2, 3, 3)
    assert frame_sample(frame).keys() == item.keys()


def test_a_record_without_frames(tmp_path: Path) -> None:
    path = write(tmp_path / "c.mrec.lmdb", [Record(system=molecule()), points(1)], POINTS)
    dataset = CollectionDataset(path)
    assert dataset[0]["frames"] == []
    assert dataset[1]["system"] == {}
    assert len(CollectionDataset(path, of="frames")) == 1


def test_torch_is_not_imported(path: Path) -> None:
    script = (
        "import sys\nfrom molrec_convert.stores.lmdb.dataset import CollectionDataset\n"
        f"CollectionDataset({str(path)!r})[0]\nassert 'torch' not in sys.modules and 'zarr' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_lmdb_is_loaded_only_when_used() -> None:
    script = (
        "import sys\nimport molrec_convert.stores.lmdb.reader, molrec_convert.stores.lmdb.writer\n"
        "import molrec_convert.stores.lmdb.file.pages, molrec_convert.stores.lmdb.dataset\n"
        "assert 'lmdb' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
