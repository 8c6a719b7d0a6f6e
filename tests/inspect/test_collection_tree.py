"""`tree` of a collection: its keys, each with what its value holds, in the notation of the layout page."""

from __future__ import annotations

from pathlib import Path

import pytest
from collection_stores import POINTS, UNITS, cubic, edit_json, key, molecule, point, points, put, write
from layout_examples.collection import write_conformers

from molrec_convert.cli import run
from molrec_convert.model import MemoryTrajectory, Record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conformers.mrec.lmdb"


def shown(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> list[str]:
    assert run(["tree", *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    return (out if code == 0 else err).splitlines()


def test_the_seed(path: Path, fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (fixtures / "layout-by-example.txt").read_text().splitlines()
    start = page.index("conformers.mrec.lmdb    (one file; keys in LMDB's byte order)")
    stop = next(i for i in range(start, len(page)) if page[i].startswith("Keys are bytes"))
    assert shown(capsys, write_conformers(path)) == page[start : stop - 1]


def test_a_value_of_the_seed(path: Path, fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (fixtures / "layout-by-example.txt").read_text().splitlines()
    start = next(i for i, line in enumerate(page) if line.startswith("key f ‖ u64be(1) ="))
    stop = next(i for i in range(start, len(page)) if page[i].startswith("[304, 336)"))
    assert shown(capsys, write_conformers(path), "f1") == page[start : stop + 1]


def test_the_first_six_of_each_letter(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(path, [points(n, 3) for n in range(10)])
    lines = shown(capsys, path)
    keys = [line for line in lines if "key bytes" in line]
    assert [line.split()[0] for line in keys] == [*"f" * 6, "index", "meta", *"r" * 6]
    assert [line for line in lines if "more" in line] == ["f ‖ …           24 more", "r ‖ …           4 more"]
    every = shown(capsys, path, "--files")
    assert len(every) == 2 + 30 + 10 + 3
    assert every[2].split() == ["f", "‖", "u64be(0)", "168", "B"]
    overview = shown(capsys, path, "--overview")[2:]
    assert [line.split()[:3] for line in overview] == [
        ["f", "‖", "u64be"],
        ["index", "1", "key"],
        ["index.crc32c", "1", "key"],
        ["meta", "1", "key"],
        ["r", "‖", "u64be"],
    ]


def test_sections_and_records(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        Record(meta={"n": n}, system=molecule("OH", smiles="O" * n), trajectory=points(n, 2).trajectory)
        for n in range(4)
    ]
    write(path, records, index_columns=["smiles"])
    assert [line[0] for line in shown(capsys, path, "system") if "key bytes" in line] == [*"ssss"]
    keys = [
        line.partition(" key bytes")[0].strip() for line in shown(capsys, path, "--record", "2") if "key bytes" in line
    ]
    assert keys == ["f ‖ u64be(4)", "f ‖ u64be(5)", "r ‖ u64be(2)", "s ‖ u64be(2)"]
    keys = [
        line for line in shown(capsys, path, "meta", "--select", "smiles == OO or smiles == ''") if "key bytes" in line
    ]
    assert [line[:12] for line in keys] == ["r ‖ u64be(0)", "r ‖ u64be(2)"]
    assert shown(capsys, path, "frame", code=2) == [
        "mrec: a collection has no section 'frame'; it has meta, forcefield, system, trajectory, "
        "and the keys index, ff, and r, s or f with a number"
    ]
    assert "has no record 9: it has 4" in shown(capsys, path, "--record", "9", code=2)[0]
    assert "fits the condition" in shown(capsys, path, "--select", "n_atoms > 9", code=2)[0]


def test_a_value_byte_by_byte(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the layout page shows one; with masks and many rows."""
    write_conformers(path)
    lines = shown(capsys, path, "f1")
    assert lines[:5] == [
        "key f ‖ u64be(1) = 66 00 00 00 00 00 00 00 01; value 336 B",
        "",
        "[0, 4)      magic           'MRF1'",
        "[4, 8)      header_length   228 (u32, little-endian)",
        "[8, 236)    header          UTF-8 JSON:",
    ]
    assert lines[-4:] == [
        "[236, 240)  padding         4 zero bytes",
        "[240, 272)  atoms/x         f64 = [0.8212890625, -0.0517578125, -0.0078125, -0.8369140625]",
        "[272, 304)  atoms/y         f64 = [0.900390625, 0.751953125, -0.751953125, -0.876953125]",
        "[304, 336)  atoms/z         f64 = [0.4345703125, -0.017578125, -0.0126953125, 0.375]",
    ]
    masks = [line for line in shown(capsys, path, "ff") if " mask " in line]
    assert len(masks) == 3
    assert masks[0] == "[2648, 2650) dihedral.periodic/k2 mask            bool = [true, false]"
    assert shown(capsys, path, "r1")[2:] == ['{"record_id": "h2o2-1"}']
    write(path.with_name("many.mrec.lmdb"), [points(0, atoms=99)])
    lines = shown(capsys, path.with_name("many.mrec.lmdb"), "f0", "index")
    assert lines[-1].endswith("7 zero bytes")
    assert any(line.endswith("f64 = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, …]") for line in lines)
    assert "has no key f ‖ u64be(9)" in shown(capsys, path, "f9", code=2)[0]
    assert "leave out sections" in shown(capsys, path, "f0", "system", code=2)[0]


def test_what_a_header_may_say(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = [point([1, 2], 0.5, 3, time=1.5, box=cubic(4))]
    write(path, [Record(trajectory=MemoryTrajectory(frames, POINTS))], document={"units": UNITS})
    put(path, b"later", b"\x00\x01")
    put(path, b"notes", b'{"a": 1}')
    lines = shown(capsys, path)
    text = " ".join(" ".join(lines).split())
    assert 'step 3 · time 1.5 · meta {"pe": 0.5} · box {"vectors": [[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]' in text
    assert lines[lines.index("later           key bytes 6c 61 74 65 72") + 1] == "    2 B"
    assert lines[lines.index("notes           key bytes 6e 6f 74 65 73") + 1] == '    {"a": 1}'
    assert max(map(len, lines)) <= 88


def test_what_breaks_a_rule_is_shown_as_it_is(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(path, [points(0), points(1)])
    put(path, key("f", 0), b"MRF1\xff\xff\xff\x7f{}")
    put(path, key("f", 1), b"MRF1\x0b\0\0\0" + b'{"meta":{}}' + bytes(5))
    put(path, key("r", 0), b"{")
    edit_json(path, b"meta", lambda document: document.update(n_records=99))
    text = " ".join(shown(capsys, path))
    assert "(10 B that are no frame bytes)" in text
    assert "(a header that breaks a rule: 'blocks')" in text
    assert "is not valid JSON" in text
    path.write_bytes(path.read_bytes()[:-4096])
    assert "the file is cut short" in shown(capsys, path, code=1)[0]


def test_a_record_has_no_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import molrec_convert

    molrec_convert.write(points(0, 2), tmp_path / "a.mrec")
    assert "is one record" in shown(capsys, tmp_path / "a.mrec", "--record", "0", code=2)[0]
