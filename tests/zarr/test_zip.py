"""The packed form: entries, reading in place, and archives that are none."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import random
import stat
import struct
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import frame_stores as stores
import numpy as np
import pytest
from layout_examples import records as examples
from seed_page import seed_listing

from molrec_convert.errors import ContractError, FormatError, MolrecError, UsageError
from molrec_convert.formats import WriteContext
from molrec_convert.model import Block, Frame, Record
from molrec_convert.stores.plugin import sniff_zip
from molrec_convert.stores.zarr.record import open_record, write_packed
from molrec_convert.stores.zarr.record_writer import pack, unpack
from molrec_convert.stores.zarr.sections.frames import read_frame, write_frame
from molrec_convert.stores.zarr.v3.storage import write_document
from molrec_convert.stores.zarr.v3.zip_storage import ZipStorage


def store(path: Path, record: Record) -> Path:
    """A record's directory: root, meta and frame."""
    write_document(path, {"zarr_format": 3, "node_type": "group", "attributes": {}})
    write_document(path / "meta", {"zarr_format": 3, "node_type": "group", "attributes": record.meta})
    write_frame(path, "frame", record.frame or Frame())
    return path


@pytest.fixture
def water(tmp_path: Path) -> Path:
    return store(tmp_path / "water.mrec", examples.build_water())


def archive(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    """A zip made entry by entry, whatever its names."""
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in entries:
            packed.writestr(name, data)
    return path


def root() -> tuple[str, bytes]:
    return "zarr.json", b'{"zarr_format": 3, "node_type": "group"}'


def test_the_thirty_entries_of_water(tmp_path: Path, water: Path, fixtures: Path) -> None:
    pack(water, tmp_path / "water.mrec.zip")
    expected = [line.split("    ")[0].strip() for line in seed_listing(fixtures)]
    expected = [name for name in expected if (" " not in name and "/" in name) or name == "zarr.json"]
    with zipfile.ZipFile(tmp_path / "water.mrec.zip") as packed:
        assert packed.namelist() == expected
        assert len(packed.namelist()) == 30


def test_every_entry_is_a_stored_file_with_its_bytes(tmp_path: Path, water: Path) -> None:
    pack(water, tmp_path / "water.mrec.zip")
    with zipfile.ZipFile(tmp_path / "water.mrec.zip") as packed:
        for entry in packed.infolist():
            assert entry.compress_type == zipfile.ZIP_STORED
            assert not entry.is_dir()
            assert stat.S_ISREG(entry.external_attr >> 16)
            assert packed.read(entry) == (water / entry.filename).read_bytes()
        assert packed.namelist() == sorted(packed.namelist())
        assert packed.testzip() is None
    assert water.is_dir()


def test_equal_records_give_equal_files(tmp_path: Path, water: Path) -> None:
    pack(water, tmp_path / "a.mrec.zip")
    again = store(tmp_path / "again.mrec", examples.build_water())
    for file in again.rglob("*"):
        os.utime(file, (0, 0))
    pack(again, tmp_path / "b.mrec.zip")
    assert (tmp_path / "a.mrec.zip").read_bytes() == (tmp_path / "b.mrec.zip").read_bytes()


def test_read_in_place(tmp_path: Path, water: Path) -> None:
    pack(water, tmp_path / "water.mrec.zip")
    storage = ZipStorage(tmp_path / "water.mrec.zip")
    frame = read_frame(storage, "frame")
    assert frame == stores.read(water)
    assert frame["atoms"]["y"].tolist() == [0.0, 0.7568359375, -0.7568359375]
    assert frame["atoms"]["x"].tolist() == [0.0, 0.0, 0.0]
    storage.close()


def test_zarr_python_reads_it(tmp_path: Path, water: Path) -> None:
    import zarr

    pack(water, tmp_path / "water.mrec.zip")
    with zarr.storage.ZipStore(tmp_path / "water.mrec.zip", mode="r") as packed:
        group = zarr.open_group(packed, mode="r", use_consolidated=False)
        assert group["frame/bonds"].attrs["count"] == 2
        assert group["frame/bonds/atomj"][:].tolist() == [1, 2]


def test_unpacking_gives_the_directory_back(tmp_path: Path, water: Path) -> None:
    pack(water, tmp_path / "water.mrec.zip")
    unpack(tmp_path / "water.mrec.zip", tmp_path / "back.mrec")
    assert dict(stores.every_file(tmp_path / "back.mrec")) == dict(stores.every_file(water))


def test_entries_in_any_order(tmp_path: Path, water: Path) -> None:
    files = list(stores.every_file(water))
    archive(tmp_path / "other.mrec.zip", *reversed(files))
    assert read_frame(ZipStorage(tmp_path / "other.mrec.zip"), "frame") == stores.read(water)
    unpack(tmp_path / "other.mrec.zip", tmp_path / "back.mrec")
    assert dict(stores.every_file(tmp_path / "back.mrec")) == dict(files)


def test_compressed_entries_and_folder_entries_of_other_tools_are_read_in_place(tmp_path: Path, water: Path) -> None:
    path = tmp_path / "other.mrec.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("frame/", b"")
        for name, data in stores.every_file(water):
            packed.writestr(name, data)
    assert read_frame(ZipStorage(path), "frame") == stores.read(water)


def test_more_entries_than_a_plain_zip_holds(tmp_path: Path, water: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is lowered: what is written is what an archive of more than 65,535 entries gets.
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 20)
    pack(water, tmp_path / "water.mrec.zip")
    monkeypatch.undo()
    assert b"PK\x06\x06" in (tmp_path / "water.mrec.zip").read_bytes()[-200:]  # the end record of ZIP64
    storage = ZipStorage(tmp_path / "water.mrec.zip")
    assert len(list(storage.keys())) == 30
    assert read_frame(storage, "frame") == stores.read(water)
    storage.close()


def test_entries_larger_than_a_plain_zip_holds(tmp_path: Path, water: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is lowered: what is written is what an entry of more than 4 GiB gets.
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 200)
    pack(water, tmp_path / "water.mrec.zip")
    monkeypatch.undo()
    with zipfile.ZipFile(tmp_path / "water.mrec.zip") as packed:
        wide = [entry.filename for entry in packed.infolist() if entry.extract_version >= zipfile.ZIP64_VERSION]
        assert {"frame/zarr.json", "frame/box/vectors/zarr.json"} <= set(wide)
    assert read_frame(ZipStorage(tmp_path / "water.mrec.zip"), "frame") == stores.read(water)
    unpack(tmp_path / "water.mrec.zip", tmp_path / "back.mrec")
    assert dict(stores.every_file(tmp_path / "back.mrec")) == dict(stores.every_file(water))


def test_what_starts_with_a_dot_is_not_packed(tmp_path: Path, water: Path) -> None:
    (water / ".DS_Store").touch()
    (water / "frame" / ".zarr.json.77.tmp").write_text("{}")
    (water / ".cache").mkdir()
    (water / ".cache" / "file").touch()
    pack(water, tmp_path / "water.mrec.zip")
    with zipfile.ZipFile(tmp_path / "water.mrec.zip") as packed:
        assert len(packed.namelist()) == 30


def test_nodes_whose_name_starts_with_a_dot_are_packed(tmp_path: Path) -> None:
    where = store(tmp_path / "a.mrec", Record(frame=Frame({".x": Block({".y": [1.0]})})))
    pack(where, tmp_path / "a.mrec.zip")
    assert read_frame(ZipStorage(tmp_path / "a.mrec.zip"), "frame")[".x"][".y"].tolist() == [1.0]


def test_names_that_are_not_ascii(tmp_path: Path) -> None:
    where = store(tmp_path / "a.mrec", Record(frame=Frame({"Å": Block({"水 b": [1.0]})})))
    pack(where, tmp_path / "a.mrec.zip")
    assert read_frame(ZipStorage(tmp_path / "a.mrec.zip"), "frame")["Å"]["水 b"].tolist() == [1.0]
    unpack(tmp_path / "a.mrec.zip", tmp_path / "b.mrec")
    assert stores.read(tmp_path / "b.mrec")["Å"]["水 b"].tolist() == [1.0]


# What is refused


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../escape",
        "a/../../escape",
        "a\\b",
        "C:/windows",
        "c:file",
        "a//b",
        "./a",
        "a/.",
        "..",
        "a/../b",
    ],
)
def test_escaping_names_are_refused(tmp_path: Path, name: str) -> None:
    # ZipInfo would tidy some of these up, so they are patched into the finished archive.
    place = "x" * len(name)
    path = archive(tmp_path / "evil.mrec.zip", root(), (place, b"evil"))
    path.write_bytes(path.read_bytes().replace(place.encode(), name.encode()))
    for act in (open_record, lambda path: unpack(path, tmp_path / "target.mrec")):
        with pytest.raises(ContractError, match="zip entry has"):
            act(path)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["evil.mrec.zip"]
    assert not (tmp_path.parent / "escape").exists()


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "evil.mrec.zip", root(), ("nameXtail", b"evil"))
    path.write_bytes(path.read_bytes().replace(b"nameXtail", b"name\0tail"))
    with pytest.raises(MolrecError):
        unpack(path, tmp_path / "target.mrec")
    assert not (tmp_path / "target.mrec").exists()


def test_duplicate_entries_are_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        path = archive(tmp_path / "twice.mrec.zip", root(), ("a", b"1"), ("a", b"2"))
    with pytest.raises(ContractError, match="comes twice"):
        unpack(path, tmp_path / "target.mrec")
    with pytest.raises(ContractError, match="comes twice"):
        ZipStorage(path)
    assert not (tmp_path / "target.mrec").exists()


def test_links_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = archive(tmp_path / "link.mrec.zip", root(), (link, b"/etc/passwd"))
    for act in (open_record, lambda path: unpack(path, tmp_path / "target.mrec")):
        with pytest.raises(ContractError, match="link: the zip entry is a link"):
            act(path)
    assert not (tmp_path / "target.mrec").exists()


def test_encrypted_entries_are_refused(tmp_path: Path, water: Path) -> None:
    path = tmp_path / "water.mrec.zip"
    pack(water, path)
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    for act in (open_record, lambda path: unpack(path, tmp_path / "target.mrec")):
        with pytest.raises(ContractError, match="encrypted"):
            act(path)


def test_a_name_no_file_can_have_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "long.mrec.zip", root(), ("frame/" + "水" * 86 + "/zarr.json", b"{}"))
    for act in (open_record, lambda path: unpack(path, tmp_path / "target.mrec")):
        with pytest.raises(ContractError, match="more than 255 bytes"):
            act(path)


def test_entries_over_one_another_are_refused(tmp_path: Path) -> None:
    entries = [(f"frame/a/{number:05}", b"") for number in range(200)]
    path = archive(tmp_path / "overlapping.mrec.zip", root(), ("frame/a/all", bytes(60_000)), *entries)
    raw = bytearray(path.read_bytes())
    place = raw.index(b"PK\x01\x02")
    kernel = raw.index(b"PK\x03\x04", 1)
    for number in range(len(entries) + 2):
        sizes = struct.pack("<II", 60_000, 60_000)
        if number:
            raw[place + 20 : place + 28], raw[place + 42 : place + 46] = sizes, struct.pack("<I", kernel)
        place = raw.index(b"PK\x01\x02", place + 1) if number <= len(entries) else place
    path.write_bytes(raw)
    for act in (open_record, lambda path: unpack(path, tmp_path / "target.mrec")):
        with pytest.raises(FormatError, match="lie over one another"):
            act(path)


def test_folder_entries_are_refused_on_unpack(tmp_path: Path) -> None:
    path = archive(tmp_path / "folder.mrec.zip", root(), ("frame/", b""))
    with pytest.raises(ContractError, match="folder"):
        unpack(path, tmp_path / "target.mrec")


def test_a_name_that_is_a_file_and_a_folder_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "both.mrec.zip", root(), ("a", b"1"), ("a/b", b"2"))
    with pytest.raises(ContractError, match="a: the zip has an entry"):
        unpack(path, tmp_path / "target.mrec")


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_zip_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.mrec.zip"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="zip"):
        unpack(path, tmp_path / "target.mrec")
    with pytest.raises(FormatError, match="zip"):
        ZipStorage(path)


def test_a_zip_with_any_bytes_changed_or_cut_gives_one_of_our_errors(tmp_path: Path, water: Path) -> None:
    path, bad = tmp_path / "water.mrec.zip", tmp_path / "bad.mrec.zip"
    pack(water, path)
    raw = path.read_bytes()
    directory = raw.index(b"PK\x01\x02")
    chance = random.Random(5)
    refused = 0
    for number in range(200):
        altered = bytearray(raw)
        if number % 4 == 0:
            start = chance.randrange(len(raw))
            del altered[start : start + chance.choice([1, 7, 100, len(raw)])]
        else:
            for _ in range(number % 4):
                altered[chance.randrange(directory, len(raw))] = chance.choice([0, 1, 0xFF, chance.randrange(256)])
        bad.write_bytes(altered)
        assert sniff_zip(bytes(altered[:64]), bad) in (0.0, 0.9, 1.0)
        for act in (read_all, lambda where: unpack(where, tmp_path / "target.mrec", overwrite=True)):
            try:
                act(bad)
            except MolrecError:
                refused += 1
    assert refused > 200


def read_all(path: Path) -> Record:
    """Everything of a packed record with a frame, decoded."""
    with open_record(path) as record:
        if record.frame is not None:
            record.frame.check()
        return record


# Several at once


def deflated(source: Path, target: Path) -> Path:
    """A zip as other tools make it, its entries compressed."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(source.rglob("*")):
            if file.is_file():
                packed.write(file, str(file.relative_to(source)))
    return target


@pytest.mark.parametrize("make", [deflated, lambda source, target: pack(source, target) or target])
@pytest.mark.parametrize("way", ["fork", "threads", "spawn"])
def test_an_open_zip_is_read_by_several_at_once(tmp_path: Path, make: Callable[[Path, Path], Path], way: str) -> None:
    columns = {f"c{number}": np.random.default_rng(number).integers(0, 99, 20_000) for number in range(8)}
    where = store(tmp_path / "a.mrec", Record(frame=Frame({"sites": Block(columns)})))
    storage = ZipStorage(make(where, tmp_path / "a.mrec.zip"))
    if way == "spawn":
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            parts = pool.map(sums_of, [(storage.path, name) for name in columns])
    elif way == "fork":
        # the file has been read before, and all of them read it at once
        read_frame(storage, "frame")["sites"]["c0"]
        with multiprocessing.get_context("fork").Pool(4, lambda: shared.append(storage)) as pool:
            parts = pool.map(sums_of_shared, [name for name in columns for _ in range(8)], chunksize=1)[::8]
    else:
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(lambda name: sums(storage, name), [name for name in columns for _ in range(8)]))[::8]
    assert parts == [int((values * np.arange(20_000)).sum()) for values in columns.values()]


shared: list[ZipStorage] = []


def sums(storage: ZipStorage, name: str) -> int:
    """A checksum of a column."""
    return int((read_frame(storage, "frame")["sites"][name] * np.arange(20_000)).sum())


def sums_of_shared(name: str) -> int:
    """The same in a process that was forked when the file was open."""
    return sums(shared[-1], name)


def sums_of(task: tuple[Path, str]) -> int:
    """The same in a process of its own."""
    return sums(ZipStorage(task[0]), task[1])


def test_a_zip_of_something_else_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "else.zip", ("water.mrec/zarr.json", b"{}"))
    with pytest.raises(FormatError, match=r"without a zarr\.json at its root"):
        unpack(path, tmp_path / "target.mrec")


def test_damaged_entries_are_refused_and_nothing_is_left(tmp_path: Path, water: Path) -> None:
    path = tmp_path / "water.mrec.zip"
    pack(water, path)
    raw = path.read_bytes()
    place = raw.index(b'"smiles"')
    path.write_bytes(raw[:place] + b"X" + raw[place + 1 :])
    with pytest.raises(ContractError, match=r"frame/zarr\.json"):
        unpack(path, tmp_path / "target.mrec")
    with pytest.raises(ContractError, match=r"frame/zarr\.json"):
        read_frame(ZipStorage(path), "frame")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["water.mrec", "water.mrec.zip"]


@pytest.mark.parametrize("act", [pack, unpack])
def test_a_target_that_exists_is_kept(tmp_path: Path, water: Path, act: Callable[..., None]) -> None:
    pack(water, tmp_path / "source.mrec.zip")
    target = tmp_path / "target"
    target.write_text("mine")
    source = water if act is pack else tmp_path / "source.mrec.zip"
    with pytest.raises(UsageError, match="exists already"):
        act(source, target)
    assert target.read_text() == "mine"
    act(source, target, overwrite=True)
    assert target.is_dir() == (act is unpack)


def test_unpacking_over_an_older_record(tmp_path: Path, water: Path) -> None:
    pack(water, tmp_path / "water.mrec.zip")
    old = store(tmp_path / "old.mrec", Record(frame=Frame({"other": Block(count=1)})))
    unpack(tmp_path / "water.mrec.zip", old, overwrite=True)
    assert dict(stores.every_file(old)) == dict(stores.every_file(water))
    assert sorted(f.name for f in tmp_path.iterdir()) == ["old.mrec", "water.mrec", "water.mrec.zip"]


def test_what_lies_around_the_source_is_never_replaced(tmp_path: Path, water: Path) -> None:
    packed = tmp_path / "water.mrec.zip"
    pack(water, packed)
    (tmp_path / "thesis.txt").write_text("mine")
    for target in (tmp_path, tmp_path / "empty" / "..", packed):
        with pytest.raises(UsageError):
            unpack(packed, target, overwrite=True)
    with pytest.raises(UsageError):
        pack(water, water, overwrite=True)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["thesis.txt", "water.mrec", "water.mrec.zip"]


def test_what_cannot_be_packed_or_unpacked(tmp_path: Path, water: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source in ("missing", "empty"):
        with pytest.raises(UsageError):
            pack(tmp_path / source, tmp_path / "a.mrec.zip")
        with pytest.raises(UsageError):
            unpack(tmp_path / source, tmp_path / "b.mrec")
    with pytest.raises(UsageError, match="no directory"):
        pack(water, tmp_path / "nowhere" / "a.mrec.zip")
    with pytest.raises(UsageError, match="inside"):
        pack(water, water / "self.mrec.zip")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["empty", "water.mrec"]


def test_a_record_that_is_being_written_is_not_packed(tmp_path: Path, water: Path) -> None:
    descriptor = os.open(water, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match=r"is being written by this process already: complete that first$"):
            pack(water, tmp_path / "water.mrec.zip")
    finally:
        os.close(descriptor)
    pack(water, tmp_path / "water.mrec.zip")


def test_a_link_that_leads_back_is_refused(tmp_path: Path, water: Path) -> None:
    (water / "loop").symlink_to(water)
    with pytest.raises(ContractError, match="leads back"):
        pack(water, tmp_path / "water.mrec.zip")
    assert not (tmp_path / "water.mrec.zip").exists()


def test_large_chunks_are_read_by_range(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal(400_000)
    where = store(tmp_path / "a.mrec", Record(frame=Frame({"sites": Block({"c": values})})))
    pack(where, tmp_path / "a.mrec.zip")
    column = read_frame(ZipStorage(tmp_path / "a.mrec.zip"), "frame")["sites"].columns["c"]
    assert stores.bits(column.values) == stores.bits(values)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal(50_000)
    record = Record(frame=Frame({"sites": Block({"c": values})}))
    where = store(tmp_path / "a.mrec", record)
    with stores.no_room(100_000), pytest.raises(OSError, match="File too large"):
        pack(where, tmp_path / "a.mrec.zip")
    assert [f.name for f in tmp_path.iterdir()] == ["a.mrec"]
    pack(where, tmp_path / "a.mrec.zip")
    with stores.no_room(100_000), pytest.raises(OSError, match="File too large"):
        unpack(tmp_path / "a.mrec.zip", tmp_path / "b.mrec")
    with stores.no_room(100_000), pytest.raises(OSError, match="File too large"):
        write_packed(record, tmp_path / "c.mrec.zip", WriteContext())
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.mrec", "a.mrec.zip"]


def test_writing_a_packed_record(tmp_path: Path) -> None:
    write_packed(examples.build_water(), tmp_path / "a.mrec.zip", WriteContext(creator=False))
    pack(store(tmp_path / "b.mrec", examples.build_water()), tmp_path / "b.mrec.zip")
    assert (tmp_path / "a.mrec.zip").read_bytes() == (tmp_path / "b.mrec.zip").read_bytes()
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.mrec.zip", "b.mrec", "b.mrec.zip"]
    with open_record(tmp_path / "a.mrec.zip") as record:
        assert record.frame == stores.read(tmp_path / "b.mrec")
        assert record.meta == {"molrec_version": 1}


def test_a_refused_record_leaves_no_packed_file(tmp_path: Path) -> None:
    record = Record(frame=Frame({"box": Block(count=1)}))
    with pytest.raises(ContractError, match="frame/box"):
        write_packed(record, tmp_path / "a.mrec.zip", WriteContext())
    assert list(tmp_path.iterdir()) == []
