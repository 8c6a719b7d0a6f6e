"""Links out of a record are followed by nobody; one that leads to a record is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.errors import ContractError
from molrec_convert.inspect.validation import Severity, validate
from molrec_convert.model import Block, Frame, MemoryTrajectory, Metrics, Record
from molrec_convert.stores.zarr.record_writer import pack
from molrec_convert.stores.zarr.sections.metrics import MetricsLog

OUT = "is a link out of the record, which nobody follows"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    frames = [Frame({"atoms": Block({"x": np.arange(3.0) + n})}, step=n) for n in range(3)]
    system = Frame({"atoms": Block({"mass": np.ones(3)})})
    record = Record(system=system, trajectory=MemoryTrajectory(frames), metrics=Metrics())
    molrec_convert.write(record, tmp_path / "a.mrec")
    with MetricsLog.open(tmp_path / "a.mrec") as log:
        log.append("loss", 1.0, 1)
    assert validate(tmp_path / "a.mrec") == []
    return tmp_path / "a.mrec"


def moved_out(place: Path) -> None:
    """Put something outside of the record, and a link to it in its place."""
    outside = Path(f"{next(p for p in place.parents if p.name == 'a.mrec')}.out") / place.name
    outside.parent.mkdir(exist_ok=True)
    shutil.move(place, outside)
    place.symlink_to(outside)


PLACES = [
    "system/atoms/mass/c/0",
    "system/atoms/mass/zarr.json",
    "system/atoms/mass/c",
    "system/atoms/mass",
    "system",
    "trajectory/atoms/x/c/0",
    "trajectory/zarr.json",
    "metrics/metrics.jsonl",
    "zarr.json",
]


def everything(path: Path) -> None:
    with molrec_convert.open(path) as record:
        assert record.system is not None
        assert record.system["atoms"]["mass"].tolist() == [1.0] * 3
        assert [frame["atoms"]["x"][0] for frame in record.trajectory] == [0.0, 1.0, 2.0]
        assert record.metrics is not None
        assert list(record.metrics["loss"].values) == [1.0]


@pytest.mark.parametrize("place", PLACES)
def test_links_out_of_a_record_are_refused(path: Path, tmp_path: Path, place: str) -> None:
    everything(path)
    moved_out(path / place)
    acts: list[Callable[[], object]] = [
        lambda: pack(path, tmp_path / "b.mrec.zip"),
        lambda: molrec_convert.convert(path, tmp_path / "b.mrec"),
        lambda: everything(path),
    ]
    for act in acts:
        with pytest.raises(ContractError, match=OUT):
            act()
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith("b.")) == []
    found = [str(item) for item in validate(path) if item.severity is Severity.ERROR]
    assert any(OUT in text for text in found), found
    assert run(["pack", str(path), str(tmp_path / "b.mrec.zip")]) == 1


def test_nothing_is_written_through_a_link(path: Path) -> None:
    for place in ("trajectory/atoms/x/c/0", "metrics/metrics.jsonl"):
        moved_out(path / place)
    outside = [path.with_name("a.mrec.out") / name for name in ("0", "metrics.jsonl")]
    before = [file.read_bytes() for file in outside]
    with pytest.raises(ContractError, match=OUT), molrec_convert.append(path) as writer:
        writer.append_frame(Frame({"atoms": Block({"x": np.zeros(3)})}))
    with pytest.raises(ContractError, match=OUT), MetricsLog.open(path) as log:
        log.append("loss", 2.0, 2)
    assert [file.read_bytes() for file in outside] == before


def test_links_to_a_record_and_within_it_are_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.mrec").symlink_to(path)
    shutil.move(path / "system/atoms/mass/c/0", path / "system/atoms/mass/c/.0")
    (path / "system/atoms/mass/c/0").symlink_to(".0")
    everything(tmp_path / "link.mrec")
    pack(tmp_path / "link.mrec", tmp_path / "b.mrec.zip")
    everything(tmp_path / "b.mrec.zip")
    os.link(path / "zarr.json", tmp_path / "hard")
    everything(path)
