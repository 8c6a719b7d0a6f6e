"""Stores that claim more than they hold: memory that follows the file, a sentence, no waiting for what never comes."""

from __future__ import annotations

import gzip
import json
import os
import socket
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from bounded_child import read_everything, sentences
from collection_stores import contents, points, put, write

import molrec_convert
from molrec_convert.errors import ContractError, MolrecError
from molrec_convert.files.json_text import MOST_NESTED, read_json
from molrec_convert.inspect.validation.record import validate
from molrec_convert.migration.plan import read_declaration
from molrec_convert.migration.settings import read_rules
from molrec_convert.model import Block, Frame, MemoryTrajectory, Observable, Observables, Record
from molrec_convert.model.tags import check_json
from molrec_convert.stores.zarr.record_writer import unpack
from molrec_convert.stores.zarr.v3.codecs import crc32c

FOREIGN = {"name": "transpose", "configuration": {"order": [0]}}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A small record with a frame and a trajectory."""
    rows = np.arange(1.0, 40.0)
    frames = [Frame({"atoms": Block({"x": rows + step, "name": ["a"] * 39})}) for step in range(3)]
    path = tmp_path / "a.mrec"
    molrec_convert.write(
        Record(
            frame=Frame({"sites": Block({"q": rows, "n": np.arange(39), "t": ["b"] * 39})}),
            trajectory=MemoryTrajectory(frames),
        ),
        path,
    )
    return path


def altered(record: Path, name: str, node: str, **changes: Any) -> Path:
    """A copy of a record whose array at `node` says something else, its counts with it."""
    path = record.with_name(name)
    for file in sorted(record.rglob("*")):
        goal = path / file.relative_to(record)
        goal.mkdir(parents=True) if file.is_dir() else goal.write_bytes(file.read_bytes())
    document = json.loads((path / node / "zarr.json").read_text())
    chunk = changes.pop("chunk", None)
    document.update(changes)
    if chunk is not None:
        document["chunk_grid"]["configuration"]["chunk_shape"] = chunk
    (path / node / "zarr.json").write_text(json.dumps(document))
    above = path / node.rpartition("/")[0] / "zarr.json"
    if "shape" in changes:
        group = json.loads(above.read_text())
        group["attributes"]["count"] = changes["shape"][0]
        above.write_text(json.dumps(group))
    return path


def zipped(source: Path, target: Path, replaced: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(target, "w", method) as packed:
        for file in sorted(source.rglob("*")):
            name = str(file.relative_to(source))
            if file.is_file() and not file.name.startswith("."):
                packed.writestr(name, replaced.pop(name, None) or file.read_bytes())
        for name, data in replaced.items():
            packed.writestr(name, data)
    return target


def sparse(path: Path, size: int, begin: bytes = b"") -> None:
    path.write_bytes(begin)
    os.truncate(path, size)


def test_claims_take_no_memory(record: Path, tmp_path: Path) -> None:
    """Within 1 GiB in all: shapes, chunks and indexes of shards far beyond what is there."""
    q, t = "frame/sites/q", "frame/sites/t"
    sharded = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [1],
            "codecs": [LITTLE, {"name": "crc32c"}],
            "index_codecs": [LITTLE, {"name": "crc32c"}],
            "index_location": "end",
        },
    }
    zeros = gzip.compress(bytes(2**20)) * 2000
    grown = altered(record, "gzip.mrec", "frame/sites/n")
    (grown / "frame/sites/n/c/0").write_bytes(zeros + crc32c(zeros))
    texts = altered(record, "texts-gzip.mrec", t)
    (texts / t / "c/0").write_bytes(zeros + crc32c(zeros))
    huge_index = altered(record, "index.mrec", q, chunk=[10**9], codecs=[sharded], shape=[10**9])
    sparse(huge_index / q / "c/0", 16 * 10**9 + 4)
    chunk = altered(record, "sparse-chunk.mrec", q, shape=[10**9], chunk=[10**9])
    sparse(chunk / q / "c/0", 8 * 10**9 + 4)
    paths = [
        altered(record, "rows.mrec", q, shape=[10**15]),
        altered(record, "texts.mrec", t, shape=[10**15]),
        altered(record, "chunks.mrec", q, shape=[10**12], chunk=[10**12]),
        altered(record, "foreign.mrec", q, shape=[10**12], chunk=[10**12], codecs=[FOREIGN, LITTLE]),
        altered(record, "foreign-chunk.mrec", q, chunk=[10**12], codecs=[FOREIGN, LITTLE]),
        altered(record, "filled.mrec", q, shape=[10**10], fill_value=1.5),
        grown,
        texts,
        huge_index,
        chunk,
    ]
    for path, told in zip(paths, sentences(paths), strict=True):
        assert told != "read", path.name
        assert "frame/sites" in told, told


def test_packed_metadata_takes_no_memory(record: Path, tmp_path: Path) -> None:
    """Lists that take 1.6 GB when they are read, in a zip of 65 kB."""
    lists = b'{"zarr_format": 3, "node_type": "group", "attributes": {"a": [' + b"[]," * 2**23 + b"[]]}}"
    path = zipped(record, tmp_path / "lists.mrec.zip", {"frame/zarr.json": lists})
    assert path.stat().st_size < 2**17
    assert "frame/zarr.json: the compressed metadata of the zip file claim" in sentences([path], memory=2**29)[0]
    with pytest.raises(ContractError, match="claim"):
        unpack(path, tmp_path / "unpacked.mrec")


@pytest.mark.slow
@pytest.mark.parametrize(
    "node", ["zarr.json", "frame/zarr.json", "frame/sites/q/c/0", "frame/sites/t/c/0", "trajectory/atoms/x/c/0"]
)
def test_packed_claims_take_no_memory(record: Path, tmp_path: Path, node: str) -> None:
    """A deflated file of a megabyte that says it holds half a gigabyte, whatever it is called."""
    path = zipped(record, tmp_path / "a.mrec.zip", {node: (b" " if node.endswith("n") else b"\0") * 2**29})
    assert path.stat().st_size < 2 * 2**20
    assert node in sentences([path], memory=2**29)[0]
    with pytest.raises(ContractError, match="claim"):
        unpack(path, tmp_path / "unpacked.mrec")


def test_a_large_zarr_json_is_refused_unread(record: Path, tmp_path: Path) -> None:
    paths = []
    for name, size in (("sparse", 2**40), ("large", 2**28 + 1)):
        path = altered(record, f"{name}.mrec", "frame/sites/q")
        sparse(path / "frame/zarr.json", size, b"{")
        paths.append(path)
    assert all("frame/zarr.json" in told for told in sentences(paths))


def test_many_entries_are_read_within_bounds(record: Path, tmp_path: Path) -> None:
    names = {f"extra/{number:05}": b"" for number in range(6_000)}
    many = zipped(record, tmp_path / "many.mrec.zip", names, zipfile.ZIP_STORED)
    directory = tmp_path / "directory.mrec.zip"
    end = b"PK\5\6" + bytes(4) + (b"\1\0" * 2) + (2**31).to_bytes(4, "little") + bytes(4) + bytes(2)
    sparse(directory, 2**31)
    with directory.open("ab") as file:
        file.write(end)
    told = sentences([many, directory], memory=2**29)
    assert told[0] == "read"
    assert "no readable zip file" in told[1]


# What is no file


def fifo(path: Path) -> None:
    os.mkfifo(path)


def local_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [fifo, local_socket, device])
@pytest.mark.timeout(60)
def test_what_is_no_file_is_not_waited_for(record: Path, tmp_path: Path, make: Callable[[Path], None]) -> None:
    for name in (
        "zarr.json", "frame/zarr.json", "frame/sites/q/zarr.json", "frame/sites/q/c/0", "frame/sites/t/c/0",
        "trajectory/atoms/x/c/0", "trajectory/zarr.json", "trajectory/step/c/0",
    ):  # fmt: skip
        where = record / name
        if not where.exists():
            continue
        kept = where.read_bytes()
        where.unlink()
        make(where)
        assert [finding for finding in validate(record) if finding.severity == "error"], name
        with pytest.raises(MolrecError):
            read_everything(record)
        with pytest.raises(MolrecError):
            molrec_convert.convert(record, tmp_path / "b.mrec", overwrite=True)
        where.unlink()
        where.write_bytes(kept)
    read_everything(record)


def test_what_is_no_file_in_a_foreign_layout(record: Path) -> None:
    path = altered(record, "foreign.mrec", "frame/sites/q", codecs=[FOREIGN, LITTLE])
    (path / "frame/sites/q/c/0").unlink()
    fifo(path / "frame/sites/q/c/0")
    with pytest.raises(ContractError, match="named pipe"):
        read_everything(path)


@pytest.mark.parametrize("foreign", [True, False], ids=["through the library", "direct"])
def test_numbers_without_a_byte_order(record: Path, foreign: bool) -> None:
    path = altered(record, "a-mute.mrec", "frame/sites/q", codecs=[*([FOREIGN] if foreign else []), {"name": "bytes"}])
    with pytest.raises(ContractError, match="frame/sites/q: its codec 'bytes' does not say in which order the bytes"):
        read_everything(path)
    assert "does not say in which order" in str(validate(path))


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_foreign_layout_is_inflated_within_bounds(record: Path, name: str) -> None:
    """A chunk of 39 numbers that grows to two gigabytes; what is of its size is read."""
    whole = {"gzip": lambda data: gzip.compress(data), "zstd": zstandard.compress}[name]
    grown = {"gzip": gzip.compress(bytes(2**20)) * 2000, "zstd": zstandard.compress(bytes(2**20)) * 2000}[name]
    configuration = {"level": 1} if name == "gzip" else {"level": 1, "checksum": False}
    path = altered(
        record, "g.mrec", "frame/sites/q", codecs=[FOREIGN, LITTLE, {"name": name, "configuration": configuration}]
    )
    (path / "frame/sites/q/c/0").write_bytes(whole(np.arange(1.0, 40.0).tobytes()))
    with molrec_convert.open(path) as stored:
        assert stored.frame["sites"]["q"].tolist() == list(range(1, 40))
    (path / "frame/sites/q/c/0").write_bytes(grown)
    with pytest.raises(ContractError, match=r"frame/sites/q: the array cannot be decoded: a chunk .* holds more than"):
        read_everything(path)


# Documents


def nested(levels: int) -> Any:
    document: Any = 1
    for _ in range(levels):
        document = [document]
    return document


def test_what_is_written_is_not_nested_too_deep_to_be_read(tmp_path: Path) -> None:
    deepest = nested(MOST_NESTED)
    check_json(deepest, "")
    frames = [Frame({"atoms": Block({"x": [1.0]})}, {"d": deepest})]
    record = Record(meta={"molrec_version": 1, "d": deepest[0]}, frame=frames[0], trajectory=MemoryTrajectory(frames))
    for name in ("a.mrec", "a.mrec.zip"):
        molrec_convert.write(record, tmp_path / name)
        with molrec_convert.open(tmp_path / name) as stored:
            assert stored.meta["d"] == deepest[0]
            assert stored.frame.meta["d"] == deepest
            assert stored.trajectory[0].meta["d"] == deepest
        assert [finding for finding in validate(tmp_path / name) if finding.severity == "error"] == []
    molrec_convert.write(Record(meta=record.meta, trajectory=record.trajectory), tmp_path / "a.mrec.lmdb")
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as stored:
        assert stored[0].trajectory[0].meta["d"] == deepest
    with pytest.raises(ContractError, match="nested deeper"):
        Frame({}, {"d": nested(MOST_NESTED + 1)})


@pytest.mark.parametrize("levels", [200, 900, 5000, 200_000])
def test_documents_nested_deep_are_refused(record: Path, levels: int) -> None:
    text = "[" * levels + "]" * levels
    with pytest.raises(ValueError, match="nested"):
        read_json(text)
    for node in ("", "meta", "frame", "frame/sites", "frame/sites/q", "trajectory", "trajectory/atoms"):
        where = record / node / "zarr.json"
        kept = where.read_text()
        where.write_text(kept.rstrip().removesuffix("}") + f', "later": {text}}}')
        with pytest.raises(ContractError, match="nested deeper"):
            read_everything(record)
        assert any("nested" in finding.message for finding in validate(record))
        where.write_text(kept)


# Names and columns


@pytest.mark.parametrize("where", ["block", "column", "meta", "observable"])
@pytest.mark.parametrize("target", ["a.mrec", "a.mrec.zip"])
def test_a_name_no_file_can_have_is_refused_at_write(tmp_path: Path, where: str, target: str) -> None:
    name = "水" * 86
    block = Block({name if where == "column" else "x": [1.0]})
    frame = Frame({name if where == "block" else "atoms": block}, {name: 1.0} if where == "meta" else {})
    observables = Observables({name: Observable.of([1.0], "vector", "d")}) if where == "observable" else None
    record = Record(trajectory=MemoryTrajectory([frame]), observables=observables)
    with pytest.raises(ContractError, match="more than the 255 bytes"):
        molrec_convert.write(record, tmp_path / target)
    assert list(tmp_path.iterdir()) == []


def test_the_index_of_a_shard_takes_memory_for_its_chunks_only(tmp_path: Path) -> None:
    """Many columns of one frame: 64 kB of index each on disk, nearly nothing in memory."""
    columns = {f"c{number}": [1.0 + number] for number in range(1100)}
    record = Record(trajectory=MemoryTrajectory([Frame({"atoms": Block(columns)})]))
    report = molrec_convert.Report()
    tracemalloc.start()
    molrec_convert.write(record, tmp_path / "a.mrec", report=report)
    with molrec_convert.open(tmp_path / "a.mrec") as stored:
        assert stored.trajectory[0]["atoms"]["c1099"].tolist() == [1100.0]
        assert len(stored.trajectory[0]["atoms"].columns) == 1100
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # a chunk of each is 16 kB, its index four times that
    assert peak < 45 * 2**20
    assert any("1100 columns" in text for text in report.warnings)


@pytest.mark.parametrize("levels", [200, 5000])
def test_rules_and_declarations_nested_deep_are_refused(tmp_path: Path, levels: int) -> None:
    text = "[" * levels + "]" * levels
    (tmp_path / "rules.toml").write_text(f'[[input]]\nmatch = "*"\nunits = {text}\n')
    with pytest.raises(molrec_convert.UsageError, match=r"rules\.toml"):
        read_rules(tmp_path / "rules.toml")
    (tmp_path / "declaration.json").write_text(f'{{"blocks": {text}}}')
    with pytest.raises(molrec_convert.UsageError, match=r"declaration\.json"):
        read_declaration(str(tmp_path / "declaration.json"))


def test_values_of_a_collection_nested_deep_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "c.mrec.lmdb", [points(0)])
    later = b'"later":' + b"[" * 3000 + b"]" * 3000 + b","
    for name, value in contents(path).items():
        if name.startswith(b"index") or b"{" not in value:
            continue
        end = value.index(b"{") + 1
        head = value[:end]
        if head.startswith(b"MRF1"):
            head = head[:4] + struct.pack("<I", len(later) + struct.unpack_from("<I", head, 4)[0]) + head[8:]
        put(path, name, head + later + value[end:])
        with pytest.raises(MolrecError, match="nested deeper"):
            read_everything(path)
        assert any(finding.severity == "error" for finding in validate(path))
        put(path, name, value)
    read_everything(path)
