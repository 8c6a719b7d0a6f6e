"""A file of a record that is gone is found; an array of zeros, which has none, is in order."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from independent import run_independent

import molrec_convert
from molrec_convert.errors import ContractError
from molrec_convert.formats import WriteContext
from molrec_convert.inspect.validation import Severity, validate
from molrec_convert.model import Block, Frame, MemoryTrajectory, Record
from molrec_convert.stores.zarr.record_writer import pack, unpack, write_record
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter
from molrec_convert.stores.zarr.v3 import metadata as extents

LARGE = 3 * 2**16


def frame(number: int, rows: int = 600) -> Frame:
    x = np.arange(3.0 * rows).reshape(rows, 3)
    atoms = {"x": x[:, 0] + number, "v": np.zeros((rows, 3)), "n": np.full(rows, number % 2, np.int32)}
    return Frame({"atoms": Block(atoms)}, step=number)


def record(frames: int = 30) -> Record:
    system = {"charge": np.zeros(600), "mass": np.ones(600), "name": np.array(["O"] * 600)}
    large = np.arange(1.0, LARGE + 1)
    large[2**16 : 2**17] = 0.0
    snapshot = {"w": large, "zeros": np.zeros(LARGE), "many": np.repeat([0.0, 1.0], LARGE * 3)[: 5 * LARGE]}
    return Record(
        system=Frame({"atoms": Block(system)}),
        frame=Frame({name: Block({name: values}) for name, values in snapshot.items()}),
        trajectory=MemoryTrajectory([frame(i) for i in range(frames)]),
    )


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record some of whose arrays have several files."""
    monkeypatch.setattr(extents, "_SHARD", 2**15)
    write_record(record(), tmp_path / "a.mrec", WriteContext())
    return tmp_path / "a.mrec"


def errors(path: Path) -> list[tuple[str, str]]:
    return [(item.node, item.message) for item in validate(path) if item.severity is Severity.ERROR]


def chunk_files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file() and file.name.isdigit())


def test_every_file_that_goes_is_found(stored: Path) -> None:
    assert validate(stored) == []
    files = chunk_files(stored)
    assert len(files) > 10
    assert sum(file.parent.parent.name == "x" or file.parent.parent.parent.name == "x" for file in files) > 1
    for file in files:
        raw = file.read_bytes()
        file.unlink()
        node = file.relative_to(stored).as_posix().split("/c/")[0]
        found = errors(stored)
        assert found, file
        assert found[0][0] == node
        assert "gone" in found[0][1]
        file.write_bytes(raw)
    assert validate(stored) == []


def test_all_files_of_an_array_that_go_are_found(stored: Path) -> None:
    for file in (stored / "frame/w/w/c").iterdir():
        file.unlink()
    assert errors(stored) == [("frame/w/w", "2 files are gone that held values of it: c/0, c/2")]
    shutil.rmtree(stored / "frame/w/w/c")
    assert errors(stored) == [("frame/w/w", "2 files are gone that held values of it: c/0, c/2")]


def test_zeros_have_no_file_and_are_read_by_zarr_as_zeros(stored: Path, tmp_path: Path) -> None:
    for node in ("system/atoms/charge", "trajectory/atoms/v", "frame/zeros/zeros"):
        assert [file.name for file in (stored / node).iterdir()] == ["zarr.json"]
        assert not zarr.open_array(stored / node, mode="r")[:].any()
    assert zarr.open_array(stored / "frame/w/w", mode="r")[:].sum() == record().frame["w"]["w"].sum()
    pack(stored, tmp_path / "a.mrec.zip")
    assert validate(tmp_path / "a.mrec.zip") == []


@pytest.mark.interop
def test_the_independent_implementation_reads_past_what_says_so(stored: Path, tmp_path: Path) -> None:
    code = """
reader = mrec.MrecReader(Path(sys.argv[1]) / "a.mrec")
frame = reader[3]
assert not np.asarray(frame["atoms"]["v"]).any()
assert np.asarray(frame["atoms"]["x"])[1] == 6.0
"""
    assert json.loads((stored / "frame/w/w/zarr.json").read_text())["attributes"] == {"empty_chunks": [1]}
    run_independent(code, tmp_path)


def test_appending_keeps_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an interrupted writer left a shard that is not committed, and where a listed one was gone before."""
    monkeypatch.setattr(extents, "_SHARD", 2**15)
    path = tmp_path / "a.mrec"
    write_record(record(), path, WriteContext())
    before = (path / "trajectory/zarr.json").read_bytes()
    with molrec_convert.append(path) as writer:
        for number in range(30, 90):
            writer.append_frame(frame(number))
    assert validate(path) == []
    (path / "trajectory/zarr.json").write_bytes(before)
    with TrajectoryWriter.open(path) as again:
        assert again.n_frames == 30
    assert validate(path) == []
    assert len(molrec_convert.read(path).trajectory) == 30
    first = chunk_files(path / "trajectory/atoms/x")[0]
    first.unlink()
    with TrajectoryWriter.open(path) as again:
        again.append_frame(frame(30))
    assert [node for node, _ in errors(path)] == ["trajectory/atoms/x"]


def test_a_shard_that_turns_out_to_hold_zeros_alone_leaves_nothing(tmp_path: Path) -> None:
    """What an interrupted writer had behind the last commit is removed, its folder with it."""
    path = tmp_path / "a.mrec"
    zeros = Frame({"atoms": Block({"x": np.zeros(5000)})})
    write_record(Record(trajectory=MemoryTrajectory([zeros])), path, WriteContext())
    before = (path / "trajectory/zarr.json").read_bytes()
    with TrajectoryWriter.open(path) as writer:
        writer.append_frame(Frame({"atoms": Block({"x": np.ones(5000)})}))
    (path / "trajectory/zarr.json").write_bytes(before)
    TrajectoryWriter.open(path).close()
    assert validate(path) == []
    assert not (path / "trajectory/atoms/x/c").exists()


def test_a_record_that_lost_a_file_is_not_packed(stored: Path, tmp_path: Path) -> None:
    (stored / "frame/w/w/c/2").unlink()
    with pytest.raises(ContractError, match="frame/w/w/c/2: the file is gone"):
        pack(stored, tmp_path / "a.mrec.zip")
    assert not (tmp_path / "a.mrec.zip").exists()


def test_entries_that_are_gone_from_a_packed_record_are_found(stored: Path, tmp_path: Path) -> None:
    pack(stored, tmp_path / "a.mrec.zip")
    with zipfile.ZipFile(tmp_path / "a.mrec.zip") as packed:
        names = packed.namelist()
        assert not [name for name in names if "/." in name]
        for gone in ("system/atoms/mass/c/0", "system/atoms/mass/zarr.json", "frame/w/w/c/2"):
            with zipfile.ZipFile(tmp_path / "b.mrec.zip", "w") as other:
                other.comment = packed.comment
                for name in names:
                    if name != gone:
                        other.writestr(name, packed.read(name))
            message = f"the zip has {len(names) - 1} of the {len(names)} files it was packed with"
            assert ("", message) in errors(tmp_path / "b.mrec.zip")
            with pytest.raises(ContractError, match=message):
                unpack(tmp_path / "b.mrec.zip", tmp_path / "b.mrec")


def test_what_is_unpacked_knows_its_files(stored: Path, tmp_path: Path) -> None:
    pack(stored, tmp_path / "a.mrec.zip")
    unpack(tmp_path / "a.mrec.zip", tmp_path / "b.mrec")
    (tmp_path / "b.mrec/frame/w/w/c/0").unlink()
    assert errors(tmp_path / "b.mrec") == [("frame/w/w", "1 file is gone that held values of it: c/0")]


def test_what_others_wrote_may_lack_files(stored: Path, tmp_path: Path) -> None:
    """No other program says which chunk files are missing by right: they are told of, and no error."""
    meta = json.loads((stored / "meta/zarr.json").read_text())
    meta["attributes"]["creator"] = {"name": "another", "version": "1"}
    (stored / "meta/zarr.json").write_text(json.dumps(meta))
    (stored / "frame/w/w/c/0").unlink()
    assert [str(item) for item in validate(stored)] == [
        "warning: frame/w/w: its values are zeros where there is no file: c/0"
    ]
    pack(stored, tmp_path / "a.mrec.zip")


def test_only_arrays_with_files_and_without_say_so(stored: Path) -> None:
    """Others have the attributes and files any writer would leave, and a reader shows none of it."""
    texts = {str(file.parent.relative_to(stored)): file.read_text() for file in stored.rglob("zarr.json")}
    assert {node for node, text in texts.items() if "empty_chunks" in text} == {"frame/w/w"}
    assert not list(stored.rglob(".*"))
    with molrec_convert.open(stored) as opened:
        assert not opened.frame["w"].attributes
        assert not opened.frame["w"].columns["w"].attributes


@pytest.mark.parametrize("name", [".settled", ".a.1.tmp", ".zarr.json.1.tmp"])
def test_a_block_of_any_name_stays_when_frames_are_appended(name: str, tmp_path: Path) -> None:
    frames = [Frame({name: Block({"x": [1.0 + i]}), "atoms": Block({"y": [2.0 * i]})}, step=i) for i in range(6)]
    molrec_convert.write(Record(trajectory=MemoryTrajectory(frames[:5])), tmp_path / "s.mrec")
    with molrec_convert.append(tmp_path / "s.mrec") as writer:
        writer.append_frame(frames[5])
    with molrec_convert.open(tmp_path / "s.mrec") as opened:
        assert [frame[name]["x"][0] for frame in opened.trajectory] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert validate(tmp_path / "s.mrec") == []


def test_arrays_that_are_declared_and_gone_are_found(stored: Path) -> None:
    shutil.rmtree(stored / "trajectory/atoms/v")
    assert errors(stored) == [("trajectory/atoms/v", "the declared column is missing")]


def test_metadata_that_is_gone_is_found(stored: Path) -> None:
    for node in ("system/atoms/mass", "frame/w", "system"):
        raw = (stored / node / "zarr.json").read_bytes()
        (stored / node / "zarr.json").unlink()
        assert node in [where for where, _ in errors(stored)]
        (stored / node / "zarr.json").write_bytes(raw)
    assert validate(stored) == []
