"""`validate` of a collection: every rule has a finding, sound files have none, damage of any kind ends in findings."""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import (
    POINTS,
    contents,
    cubic,
    edit_header,
    edit_json,
    frame_value,
    key,
    molecule,
    parts,
    point,
    points,
    put,
    with_header,
    write,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layout_examples.collection import write_conformers

from molrec_convert.cli import run
from molrec_convert.inspect.validation import Severity, validate
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    ForceField,
    Frame,
    MemoryTrajectory,
    Meta,
    Record,
)

F64 = ColumnDeclaration("f64")
WIDE = Declaration(
    {
        "atoms": BlockDeclaration(
            {"x": ColumnDeclaration("f64", precision=1e-3), "flag": ColumnDeclaration("bool", nullable=True)}
        ),
        "bonds": BlockDeclaration({"atomi": ColumnDeclaration("u64")}),
    },
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.mrec.lmdb"


@pytest.fixture
def good(path: Path) -> Path:
    """Three records of two frames with systems, index columns, a force field."""
    records = [
        Record(meta={"record_id": f"r{n}"}, system=molecule("OH", smiles="OH", n=n), trajectory=points(n, 2).trajectory)
        for n in range(3)
    ]
    return write(path, records, index_columns={"smiles": "string"}, forcefield=ForceField.new("f", {"preset": "real"}))


def told(path: Path) -> list[str]:
    return [str(finding) for finding in validate(path)]


def wide(count: int = 2) -> Record:
    frames = [
        Frame(
            {
                "atoms": Block({"x": np.arange(3.0) + k, "flag": np.array([True, False, True])}),
                "bonds": Block({"atomi": np.array([2], np.uint64)}),
            },
            step=k,
        )
        for k in range(count)
    ]
    return Record(trajectory=MemoryTrajectory(frames, WIDE))


def test_sound_collections_have_no_findings(path: Path, tmp_path: Path) -> None:
    assert told(write_conformers(path)) == []
    assert told(write(tmp_path / "empty.mrec.lmdb", [])) == []
    assert told(write(tmp_path / "wide.mrec.lmdb", [wide(), wide(0), wide(1)], WIDE)) == []
    cells = [point([1], 0.5, k, time=0.5 * k, box=cubic(4 + k)) for k in range(3)]
    assert told(write(tmp_path / "cells.mrec.lmdb", [Record(trajectory=MemoryTrajectory(cells, POINTS))])) == []


def test_a_good_one(good: Path) -> None:
    assert [line for line in told(good) if "warning: s[" not in line] == []


META_FAULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "layout": (lambda d: d.update(layout="x"), "the layout is not a collection's"),
    "newer": (lambda d: d.update(layout_version=2), "has layout version 2"),
    "units": (lambda d: d["collection"].pop("units"), "states the units of its numbers"),
    "unit": (lambda d: d["collection"]["units"].update(length=1), "a unit is a text"),
    "version": (lambda d: d["collection"].update(molrec_version=99), "molrec_version"),
    "count": (lambda d: d.update(n_records=-1), "is not a count"),
    "more": (lambda d: d.update(n_records=10**6), "counts more than the file has keys"),
    "fewer": (lambda d: d.update(n_frames=3), "the frames do not add up"),
    "schema": (lambda d: d["sequence_schema"]["blocks"]["atoms"]["columns"]["x"].update(dtype="f16"), "dtype"),
    "huge": (lambda d: d.update(n_frames=2**61), "counts more than the file has keys"),
}


@pytest.mark.parametrize("name", META_FAULTS)
def test_faults_of_the_meta_key(good: Path, name: str) -> None:
    change, said = META_FAULTS[name]
    edit_json(good, b"meta", change)
    lines = told(good)
    assert any(line.startswith("error: ") and said in line for line in lines), lines


def test_no_meta(good: Path) -> None:
    put(good, b"meta", None)
    assert told(good) == ["error: meta: the file has no key 'meta': it is no collection, or one never completed"]


COLUMN = ["blocks", "atoms", "columns", "x"]


def at(document: Any, *names: str) -> Any:
    for name in names:
        document = document[name]
    return document


FRAME_FAULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "misaligned": (lambda h: at(h, *COLUMN).update(offset=4), "is not a multiple of 8"),
    "negative": (lambda h: at(h, *COLUMN).update(offset=-8), "is not a position in the payload"),
    "overrun": (lambda h: at(h, *COLUMN).update(offset=2**40), "a buffer reaches past the value"),
    "rows": (lambda h: at(h, *COLUMN).update(shape=[3]), "one row per row of its block"),
    "count": (
        lambda h: (h["blocks"]["atoms"].update(count=2**60), at(h, *COLUMN).update(shape=[2**60])),
        "past the value",
    ),
    "axes": (lambda h: at(h, *COLUMN).update(shape=[2, 2**61, 2**61]), "one value per row"),
    "dtype": (lambda h: at(h, *COLUMN).update(dtype="f16"), "unknown dtype"),
    "other dtype": (lambda h: at(h, *COLUMN).update(dtype="i64"), "its own dtype"),
    "mask": (lambda h: at(h, *COLUMN).update(validity=16), "reaches past the value"),
    "name": (lambda h: h["blocks"].update({"../a": {"count": 0, "columns": {}}}), "cannot"),
    "undeclared": (lambda h: h["blocks"].update(more={"count": 0, "columns": {}}), "the block is not declared"),
    "meta": (lambda h: h["meta"].update(more=1.0), "the per-step key is not declared"),
    "no meta": (lambda h: h["meta"].clear(), "omits a per-step key"),
    "tag": (lambda h: h["meta"].update(pe="x"), "pe"),
    "step": (lambda h: h.update(step=1.5), "step"),
    "no step": (lambda h: h.pop("step"), "the update states no step"),
    "time": (lambda h: h.update(time="x"), "time"),
    "box": (lambda h: h.update(box={"vectors": [[1]]}), "three rows of three numbers"),
    "undefined": (lambda h: h.update(box={"cell_defined": False, "boundary": [True] * 3}), "periodic on no axis"),
    "blocks": (lambda h: h.pop("blocks"), "blocks"),
}


@pytest.mark.parametrize("name", FRAME_FAULTS)
def test_faults_of_a_frame(good: Path, name: str) -> None:
    change, said = FRAME_FAULTS[name]
    edit_header(good, key("f", 3), change)
    lines = [line for line in told(good) if line.startswith("error: ")]
    assert any(line.startswith("error: f[3]") and said in line for line in lines), lines


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (key("f", 0), b"", "the value is no frame bytes"),
        (key("f", 0), b"MRF2" + bytes(20), "no frame bytes"),
        (key("f", 0), b"MRF1\xff\xff\xff\xff", "the header reaches past the value"),
        (key("f", 0), frame_value(b"{" * 5000), "is not valid JSON"),
        (key("f", 0), frame_value(b'{"blocks":' + b"[" * 100_000), "is nested deeper than 128 levels"),
        (key("f", 0), frame_value(b"\xff\xfe"), "is not valid UTF-8"),
        (key("s", 1), frame_value({"blocks": {}, "meta": {"a": 1.5}, "meta_types": {"a": "i32"}}), "s[1].a"),
        (key("s", 1), None, "has another number of atoms: 2, found 2"),
        (key("r", 1), b"[]", "is not a JSON object"),
        (key("r", 1), b'{"molrec_version": 0}', "molrec_version"),
        (key("r", 1), b'{"created_at": "yesterday"}', "created_at is not an RFC 3339 time"),
        (key("r", 1), None, "the key is not there, of 3 counted"),
        (key("f", 5), None, "the key is not there, of 6 counted"),
        (b"ff", frame_value({"blocks": {}, "meta": {}}), "name"),
        (b"index", frame_value({"blocks": {}, "meta": {}}), "the index has one block"),
        (b"index", b"x", "no frame bytes"),
    ],
)
def test_faults_of_a_value(good: Path, name: bytes, value: bytes | None, said: str) -> None:
    put(good, name, value)
    lines = [line for line in told(good) if line.startswith("error: ")]
    if name == key("s", 1) and value is None:
        # the first frame has two atoms too: nothing contradicts the index
        assert lines == []
    else:
        assert any(said in line for line in lines), lines


def test_the_index_against_the_records(path: Path) -> None:
    write(path, [points(0, 2), points(1, 2, atoms=3)])
    header, payload = parts(contents(path)[b"index"])
    counts = header["blocks"]["records"]["columns"]["n_atoms"]["offset"]
    changed = payload[:counts] + struct.pack("<QQ", 2, 7) + payload[counts + 16 :]
    put(path, b"index", frame_value(header, changed))
    assert told(path) == ["error: index/n_atoms: record 1 has another number of atoms: 7, found 3"]
    first = header["blocks"]["records"]["columns"]["first_frame"]["offset"]
    put(path, b"index", frame_value(header, payload[:first] + struct.pack("<QQ", 0, 1) + payload[first + 16 :]))
    assert told(path) == [
        "error: index/first_frame: is not the exclusive prefix sum of n_frames at record 1: found 1, expected 2"
    ]


def test_what_holds_between_frames(path: Path) -> None:
    write(path, [wide(3)], WIDE)
    edit_header(path, key("f", 1), lambda h: h.update(step=9))
    edit_header(path, key("f", 2), lambda h: h.update(step=9))
    assert [line for line in told(path) if "steps strictly increase" in line] == [
        "error: f[0…]/step: steps strictly increase: 9 follows 9 at frame 2"
    ]
    write(path, [wide(3)], WIDE, overwrite=True)
    header, payload = parts(contents(path)[key("f", 0)])
    place = header["blocks"]["bonds"]["columns"]["atomi"]["offset"]
    put(path, key("f", 0), frame_value(header, payload[:place] + struct.pack("<Q", 3) + payload[place + 8 :]))
    assert any("a reference into 'atoms' is out of range" in line for line in told(path))


def test_the_system_against_the_frames(path: Path) -> None:
    record = Record(system=molecule("OH"), trajectory=points(0, 2).trajectory)
    write(path, [record, record])
    put(path, key("s", 1), contents(path)[key("s", 1)].replace(b'"element"', b'"name"   '))
    three = with_header(
        contents(path)[key("s", 0)],
        lambda h: (
            h["blocks"]["atoms"].update(count=3),
            h["blocks"]["atoms"]["columns"]["element"].update(shape=[3], values=["O", "H", "H"]),
        ),
    )
    put(path, key("s", 0), three)
    lines = told(path)
    assert "error: f[0…]/atoms: the block has another row count than in system at frame 0: found 2, expected 3" in lines


def test_values_off_their_grid_and_flags_that_are_none(path: Path) -> None:
    write(path, [wide(1)], WIDE)
    header, payload = parts(contents(path)[key("f", 0)])
    place = header["blocks"]["atoms"]["columns"]["x"]["offset"]
    put(path, key("f", 0), frame_value(header, payload[:place] + struct.pack("<d", 0.0001) + payload[place + 8 :]))
    assert told(path) == [
        "warning: f[0]/atoms/x: 1 row is off the grid of the declared precision 0.001, the first is row 0"
    ]
    flags = header["blocks"]["atoms"]["columns"]["flag"]["offset"]
    put(path, key("f", 0), frame_value(header, payload[:flags] + b"\2" + payload[flags + 1 :]))
    assert told(path) == ["error: f[0]/atoms/flag: a bool is one byte, 0 or 1: found 2"]


def test_unresolved_types_and_units(path: Path) -> None:
    forcefield = ForceField(
        {"name": "f", "units": {"preset": "real"}, "styles": [{"category": "atom", "style": "full"}]},
        {"atom.full": Block({"name": ["A"], "mass": np.array([1.0]), "charge": np.array([0.0])})},
    )
    system = Frame({"atoms": Block({"type": ["A", "B"]})})
    write(
        path,
        [Record(system=system)] * 9,
        forcefield=forcefield,
        units={"length": "kcal/mol", "energy": "nonsense", "other": "x"},
    )
    lines = told(path)
    assert all(line.startswith("warning: ") for line in lines)
    assert any("units.length" in line for line in lines)
    assert any("units.energy" in line for line in lines)
    alike = [line for line in lines if "'B'" in line]
    # nine records say the same: five are told, the others counted
    assert len(alike) == 6
    assert "and 4 more like the 5 told" in alike[-1]


def test_what_readers_cope_with_is_a_warning(path: Path) -> None:
    write(path, [points(0)])
    value = contents(path)[key("f", 0)]
    size = struct.unpack_from("<I", value, 4)[0]

    def say(changed: bytes, *said: str) -> None:
        put(path, key("f", 0), changed)
        lines = told(path)
        assert [line.partition(": ")[0] for line in lines] == ["warning"] * len(said)
        for line, text in zip(lines, said, strict=True):
            assert text in line

    assert -size % 8
    say(value[: 8 + size] + b"\1" + value[9 + size :], "the padding behind the header is not zero")
    say(value + bytes(4), "no multiple of 8")
    say(value + bytes(8), "belong to no column")
    say(with_header(value, lambda h: h.update(later=1)), "does not know the key 'later'")
    say(with_header(value, lambda h: h.update(meta_types={"pe": "f64"})), "only a system types its meta")
    say(with_header(value, lambda h: at(h, *COLUMN).update(precision=1e-3)), "that of a value does not count")
    put(path, key("f", 0), value)
    put(path, b"later", b"1")
    put(path, key("f", 9), b"1")
    edit_json(path, b"meta", lambda d: d.update(note=1))
    assert len(told(path)) == 3


def test_overlapping_buffers(path: Path) -> None:
    write(path, [wide(1)], WIDE)
    edit_header(path, key("f", 0), lambda h: at(h, "blocks", "atoms", "columns", "flag").update(offset=0))
    assert any("its buffer overlaps that of atoms/flag" in line for line in told(path))


def test_rows_no_byte_backs(path: Path) -> None:
    """A column without values may claim any number of rows: its mask would fill memory."""
    declaration = Declaration({"atoms": BlockDeclaration({"v": ColumnDeclaration("f64", (0,), nullable=True)})})
    frames = [Frame({"atoms": Block({"v": np.zeros((2, 0))})}, step=0)]
    write(path, [Record(trajectory=MemoryTrajectory(frames, declaration))], declaration)
    assert told(path) == []
    edit_header(
        path,
        key("f", 0),
        lambda h: (
            h["blocks"]["atoms"].update(count=2**36),
            h["blocks"]["atoms"]["columns"]["v"].update(shape=[2**36, 0]),
        ),
    )
    assert told(path) == [f"error: f[0]/atoms: claims {2**36} rows that no byte of the file backs"]


def test_exit_codes_and_json(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(good, [points(0)], overwrite=True)
    assert run(["validate", str(good)]) == 0
    assert capsys.readouterr().err == f"{good}: valid, 0 errors, 0 warnings\n"
    edit_header(good, key("f", 0), lambda h: h.pop("step"))
    assert run(["validate", str(good), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["findings"] == [{"severity": "error", "node": "f[0]", "message": "the update states no step"}]


@pytest.mark.parametrize("data", [b"", b"x", bytes(8192), os.urandom(5000), b"PK\3\4" + bytes(9)])
def test_other_files_of_that_name(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    findings = validate(path)
    assert [finding.severity for finding in findings] == [Severity.ERROR]


def test_a_sparse_file_that_claims_a_large_value(path: Path) -> None:
    """A value of 3 GB of which nothing is stored is refused before it is read."""
    write(
        path,
        [wide(1) for _ in range(3)] + [Record(trajectory=MemoryTrajectory([], WIDE), meta={"a": "b" * 9000})],
        WIDE,
    )
    data = bytearray(path.read_bytes())
    size = len(data)
    place = data.index(struct.pack("<HHHH", 9008 & 0xFFFF, 0, 1, 9))
    struct.pack_into("<HH", data, place, 0, 0xC000)
    first = struct.unpack_from("<Q", data, place + 8 + 9)[0]
    struct.pack_into("<I", data, first * 4096 + 12, 2**20)
    for meta in (0, 4096):
        struct.pack_into("<Q", data, meta + 16 + 24 + 96, first + 2**20)
    path.write_bytes(data)
    os.truncate(path, size + 2**32 + 8192)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = told(path)
    assert len(lines) == 1
    assert "of which" in lines[0] or "reached twice" in lines[0], lines
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


# Damage anywhere: the commands run in a process of their own, whose death would be seen.

_CHILD = """
import contextlib, io, resource, sys
from molrec_convert.cli import run
def peak():
    try:
        # what getrusage says counts the process this one was forked from
        return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for line in sys.stdin:
    words = line.rstrip("\\n").split("\\t")
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(words)
    odd = [text for text in err.getvalue().splitlines() if "error in this program" in text]
    print(code, peak(), *odd, flush=True)
"""


class Child:
    """A process that runs commands of ours, one a line."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *words: object) -> tuple[int, int]:
        """Exit code, and the most memory ever taken in KiB."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the process died of {words}: {self.process.wait()}"
        code, memory, *odd = answer.split(maxsplit=2)
        assert not odd, odd
        return int(code), int(memory)


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    made = Child()
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    made.process.wait()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with branch pages, values in leaves and on pages of their own, every kind of key."""
    records = []
    for n in range(60):
        frames = [
            Frame(
                {"atoms": Block({"x": np.full(5 if n % 3 else 700, float(n))})},
                Meta({"pe": 1.0}),
                step=k,
                box=cubic(4 + k),
            )
            for k in range(2)
        ]
        records.append(
            Record(
                meta={"n": n}, system=Frame(meta=molecule(smiles="C").meta), trajectory=MemoryTrajectory(frames, POINTS)
            )
        )
    return write(
        tmp_path_factory.mktemp("whole") / "c.mrec.lmdb",
        records,
        index_columns=["smiles"],
        forcefield=ForceField.new("f", {"preset": "real"}),
    )


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_damage_anywhere_ends_in_findings(
    data: st.DataObject, whole: Path, child: Child, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Bytes altered, pages exchanged, the end cut off: exit code 0 or 1 (2: the damage left no such record)."""
    sound = whole.read_bytes()
    damaged = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 8))):
        where = data.draw(st.integers(0, len(sound) // 4096 - 1)) * 4096
        where += data.draw(st.integers(0, 4095) | st.integers(0, 160))
        damaged[where] = data.draw(st.integers(0, 255) | st.sampled_from([0, 255, 1, 128]))
    if data.draw(st.booleans()):
        pages = len(sound) // 4096
        a, b = (data.draw(st.integers(0, pages - 1)) * 4096 for _ in range(2))
        damaged[a : a + 4096] = damaged[b : b + 4096]
    if data.draw(st.integers(0, 4)) == 0:
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    path = tmp_path_factory.mktemp("damaged") / "c.mrec.lmdb"
    path.write_bytes(damaged)
    code, memory = child.run("validate", path)
    assert code in (0, 1)
    for words in (["tree", path], ["info", path], ["info", path, "--record", "3"], ["diff", path, path, "-q"]):
        other, memory = child.run(*words)
        assert other in (0, 1, 2)
    target = path.with_name("d.mrec.lmdb")
    other, memory = child.run("convert", path, target)
    assert other in (0, 1)
    assert other == 0 or not target.exists()
    assert memory < 500_000
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_header_ends_in_findings(
    data: st.DataObject, child: Child, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Values of sound pages whose JSON says anything: numbers of any size, other types, missing and odd names."""
    path = write(
        tmp_path_factory.mktemp("header") / "c.mrec.lmdb", [points(0, 2), points(1, 2)], index_columns=["name"]
    )
    name = data.draw(st.sampled_from([key("f", 0), key("f", 1), key("f", 2), b"index", b"meta", key("r", 1)]))
    value = contents(path)[name]
    document = parts(value)[0] if value[:4] == b"MRF1" else json.loads(value)
    for _ in range(data.draw(st.integers(1, 3))):
        _mutate(document, data)
    try:
        put(
            path,
            name,
            frame_value(document, parts(value)[1]) if value[:4] == b"MRF1" else json.dumps(document).encode(),
        )
    except (UnicodeEncodeError, ValueError):
        return
    code, memory = child.run("validate", path)
    assert code in (0, 1)
    assert memory < 500_000
    for words in (["tree", path], ["info", path]):
        assert child.run(*words)[0] in (0, 1)
    path.unlink()
    path.parent.rmdir()


_ANYTHING = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        3,
        8,
        2**31,
        2**53,
        2**62,
        2**64,
        10**30,
        1.5,
        "",
        "x",
        "f64",
        "../x",
        "a/b",
        ".",
        "\0",
        [],
        {},
    ]
)


def _mutate(document: Any, data: st.DataObject) -> None:
    """Change one place of a JSON document."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for place in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, place))
            walk(node[place])

    walk(document)
    if not places:
        return
    node, place = data.draw(st.sampled_from(places))
    what = data.draw(st.sampled_from(["set", "set", "drop", "rename"]))
    if what == "set" or not isinstance(node, dict):
        node[place] = data.draw(_ANYTHING)
    elif what == "drop":
        del node[place]
    else:
        node[str(data.draw(_ANYTHING))] = node.pop(place)
