"""Checksums of a collection's values: of every writer, kept by every copy, held against the values by `validate`."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pytest
from collection_stores import contents, key, molecule, points, put, raw, write

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.errors import ContractError
from molrec_convert.inspect.validation import validate
from molrec_convert.model import Record
from molrec_convert.stores.lmdb.file import environment
from molrec_convert.stores.lmdb.file.store import StoreFile
from molrec_convert.stores.lmdb.merging import merge_collections
from molrec_convert.stores.lmdb.reader import open_collection
from molrec_convert.stores.lmdb.writer import CollectionWriter

CHECKSUMS = b"index.crc32c"


def record(number: int) -> Record:
    """Two in three with a system, of one to three frames."""
    system = molecule("OH", smiles="O" * number) if number % 3 else None
    return Record(meta={"record_id": f"r{number}"}, system=system, trajectory=points(number, 1 + number % 3).trajectory)


def made(path: Path, count: int = 7, first: int = 0) -> Path:
    return write(path, [record(first + n) for n in range(count)])


def check(path: Path) -> int:
    """Every value of the file has its checksum; returns how many there are."""
    values = contents(path)
    with open_collection(path) as collection:
        sums = collection.checksums
        assert sums is not None
        assert sums.named == {
            name: google_crc32c.value(values[name.encode()])
            for name in ("index", "ff", "meta")
            if name.encode() in values
        }
        for letter, known in sums.of.items():
            assert known.tolist() == [
                google_crc32c.value(values.get(key(letter.decode(), number), b"")) for number in range(len(known))
            ]
        counted = len(collection) * 2 + collection.n_frames
    assert validate(path) == []
    return counted


def flip(path: Path, name: bytes, draw: random.Random) -> bytes:
    """Flip one bit of a value where it lies; returns the value as it was."""
    value = contents(path)[name]
    changed = bytearray(value)
    changed[draw.randrange(len(value))] ^= 1 << draw.randrange(8)
    with raw(path, write=True) as transaction:
        transaction.put(name, bytes(changed))
    return value


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    path = made(tmp_path / "c.mrec.lmdb")
    assert check(path) == 14 + 13
    draw = random.Random(1)
    for name in contents(path):
        for _ in range(3):
            value = flip(path, name, draw)
            assert [item for item in validate(path) if item.severity == "error"], name
            with raw(path, write=True) as transaction:
                transaction.put(name, value)
    assert validate(path) == []


def test_validating_a_damaged_file_leaves_nothing_open(tmp_path: Path) -> None:
    """Also where the error of a value would keep it mapped."""
    path = made(tmp_path / "c.mrec.lmdb")
    value = contents(path)[b"index"]
    for broken in (value[:-8], value[:40], b"MRF1" + bytes(100), value[:-8] + b"\2" * 8):
        put(path, b"index", broken)
        kept = []
        with pytest.raises(ContractError) as caught, open_collection(path) as collection:
            _ = collection.index
        kept.append(caught)
        assert validate(path)
        assert not environment._open
        kept.clear()
        del caught
        gc.collect()
        assert not environment._lingering


def test_a_number_that_is_another_number_is_named(tmp_path: Path) -> None:
    path = made(tmp_path / "c.mrec.lmdb")
    value = bytearray(contents(path)[key("f", 4)])
    value[-2] ^= 1
    with raw(path, write=True) as transaction:
        transaction.put(key("f", 4), bytes(value))
    (finding,) = validate(path)
    assert str(finding) == "error: f[4]: a bit of the value, or of its checksum, is not what was written"
    assert run(["validate", str(path)]) == 1
    with open_collection(path) as collection:
        assert len(collection[3].trajectory) > 0


def copied(path: Path, target: Path) -> None:
    molrec_convert.convert(path, target)


def selected(path: Path, target: Path) -> None:
    molrec_convert.convert(path, target, select="n_frames > 0")


def appended(path: Path, target: Path) -> None:
    target.write_bytes(path.read_bytes())
    with CollectionWriter.open(target) as writer:
        writer.append(record(7))


def sharded(path: Path, target: Path) -> None:
    molrec_convert.convert(path, target, shard_records=3)


COPIES: list[Callable[[Path, Path], None]] = [copied, selected, appended, sharded]


@pytest.mark.parametrize("copy", COPIES)
def test_what_is_copied_has_them_and_hides_no_damage(tmp_path: Path, copy: Callable[[Path, Path], None]) -> None:
    path = made(tmp_path / "c.mrec.lmdb")
    target = tmp_path / "d.mrec.lmdb"
    copy(path, target)
    for file in sorted(target.glob("part-*")) if target.is_dir() else [target]:
        assert check(file) > 0
    flip(path, key("f", 5), random.Random(3))
    with pytest.raises(ContractError, match=r"f\[5\]: the value is damaged"):
        copy(path, tmp_path / "e.mrec.lmdb")


def test_merging_takes_them_along(tmp_path: Path) -> None:
    """Values are held against those of their source; where a source has none they are taken."""
    parts = [made(tmp_path / f"{n}.mrec.lmdb", 5 + n, 10 * n) for n in range(3)]
    merge_collections(parts, tmp_path / "m.mrec.lmdb")
    assert check(tmp_path / "m.mrec.lmdb") > 0
    put(parts[1], b"later", b"x")  # and with it goes what is known of the values
    assert CHECKSUMS not in contents(parts[1])
    merge_collections(parts, tmp_path / "n.mrec.lmdb")
    assert contents(tmp_path / "n.mrec.lmdb") == contents(tmp_path / "m.mrec.lmdb")
    flip(parts[2], key("f", 3), random.Random(2))
    with pytest.raises(ContractError, match=r"f\[3\]: the value is damaged"):
        merge_collections(parts, tmp_path / "o.mrec.lmdb")


def test_a_system_that_is_gone_is_found(tmp_path: Path) -> None:
    path = made(tmp_path / "c.mrec.lmdb")
    with raw(path, write=True) as transaction:
        transaction.delete(key("s", 4))
    assert [str(item) for item in validate(path)] == ["error: s[4]: the key is gone that has a checksum"]


def test_a_collection_without_them_is_in_order(tmp_path: Path) -> None:
    path = made(tmp_path / "c.mrec.lmdb")
    put(path, CHECKSUMS, None)
    assert validate(path) == []
    with open_collection(path) as collection:
        assert collection.checksums is None
        assert collection.unknown_keys() == []
    copied(path, tmp_path / "d.mrec.lmdb")
    assert check(tmp_path / "d.mrec.lmdb") > 0


@pytest.mark.parametrize("count", [0, 5, 8])
def test_checksums_that_are_none_are_told(tmp_path: Path, count: int) -> None:
    """Of another number of records than there are, or no frame bytes."""
    path, other = made(tmp_path / "c.mrec.lmdb"), made(tmp_path / "d.mrec.lmdb", count)
    for value in (contents(other)[CHECKSUMS], b"MRF1", b""):
        with raw(path, write=True) as transaction:
            transaction.put(CHECKSUMS, value)
        assert "index.crc32c" in [item.node.partition("/")[0] for item in validate(path)]
        with open_collection(path) as collection:
            assert len(list(collection)) == 7  # reading asks for none


def test_a_file_that_is_gone_on_with(tmp_path: Path) -> None:
    """What an earlier attempt put is read once; what was cut off counts no more."""
    file = StoreFile(tmp_path / "c", durable=True)
    values = [bytes([n]) * n for n in range(1, 9)]
    items = [(key("f", n), value) for n, value in enumerate(values)]
    file.append(items[:5])
    file.suspend()
    file = StoreFile(tmp_path / "c", overwrite=True, resume=True)
    file.remove_from(key("f", 4))
    file.append(items[4:7])
    file.remove_from(key("f", 6))
    file.append(items[6:])
    file.append([(key("r", 0), b"a"), (key("r", 1), b"b"), (key("s", 1), b"c")])
    found = file.checksums(2, 8)
    assert found[b"f"].tolist() == [google_crc32c.value(value) for value in values]
    assert found[b"r"].tolist() == [google_crc32c.value(b"a"), google_crc32c.value(b"b")]
    assert found[b"s"].tolist() == [0, google_crc32c.value(b"c")]
    file.remove_from(key("f", 2))
    assert file.checksums(0, 2)[b"f"].tolist() == found[b"f"][:2].tolist()
    file.discard()


def test_migrations_have_them(tmp_path: Path) -> None:
    """One file, a set, one that was added to."""
    for n in range(6):
        lines = [f"2\nProperties=species:S:1:pos:R:3 energy={n}\nO 0 0 {n}\nH 0 0 {n + 1}\n" for _ in range(1 + n % 2)]
        (tmp_path / f"{n}.xyz").write_text("".join(lines))
    sources = [str(tmp_path / f"{n}.xyz") for n in range(6)]
    common = ["--units", "metal", "--workers", "1"]
    assert run(["migrate", *sources[:4], "-o", str(tmp_path / "m.mrec.lmdb"), *common]) == 0
    assert check(tmp_path / "m.mrec.lmdb") > 0
    assert run(["migrate", *sources, "-o", str(tmp_path / "s.mrec.lmdb"), "--shard-records", "2", *common]) == 0
    parts = sorted((tmp_path / "s.mrec.lmdb").glob("part-*"))
    assert len(parts) > 2
    for part in parts:
        assert check(part) > 0


def test_equal_content_has_equal_checksums(tmp_path: Path) -> None:
    one, two = made(tmp_path / "a.mrec.lmdb"), made(tmp_path / "b.mrec.lmdb", 3)
    with CollectionWriter.open(two) as writer:
        writer.extend(record(n) for n in range(3, 7))
    assert contents(one) == contents(two)
