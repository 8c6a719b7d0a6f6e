"""Files we write: read back bit for bit by us, and with equal values by others."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from two_writers import second_is_refused
from xyz_texts import arrays, meta_of, read_text, through

import molrec_convert
from molrec_convert import Block, Box, Column, Frame, MemoryTrajectory, Meta, Record, Report
from molrec_convert.cli import run
from molrec_convert.errors import LossError
from molrec_convert.inspect.diff.records import differences
from molrec_convert.report import Fate

#: Text has one NaN only.
reals = st.floats(allow_nan=False) | st.just(math.nan)
words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=4)
SYMBOLS = ("H", "C", "Cl", "Xe")
COLUMNS: dict[str, tuple[Any, Any]] = {
    "fx": (reals, np.float64),
    "charge": (reals, np.float64),
    "mass": (reals, np.float64),
    "q9": (reals, np.float64),
    "id": (st.integers(0, 2**63 - 1), np.uint64),
    "mol_id": (st.integers(0, 2**63 - 1), np.uint64),
    "type_id": (st.integers(0, 9), np.uint64),
    "tags": (st.integers(-(2**63), 2**63 - 1), np.int64),
    "free": (st.booleans(), np.bool_),
    "fixed": (st.booleans(), np.bool_),
    "label": (words, np.dtypes.StringDType()),
}
KEYS: dict[str, tuple[str, Any]] = {
    "pe": ("f64", reals),
    "total": ("f64", reals),
    "stress": ("f64x9", st.lists(reals, min_size=9, max_size=9)),
    "dipole": ("f64x3", st.lists(reals, min_size=3, max_size=3)),
    "voigt": ("f64x6", st.lists(reals, min_size=6, max_size=6)),
    "count": ("i64", st.integers(-(2**63), 2**63 - 1)),
    "grid": ("i64x3", st.lists(st.integers(-9, 2**62), min_size=3, max_size=3)),
    "done": ("bool", st.booleans()),
    "axes": ("bool3", st.lists(st.booleans(), min_size=3, max_size=3)),
    "config type": ("string", st.text(st.characters(codec="utf-8"))),
}


@st.composite
def frames(draw: st.DrawFn) -> list[Frame]:
    """Frames of one run, of any number of atoms each where that changes."""
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), unique=True, max_size=5))
    keys = draw(st.lists(st.sampled_from(list(KEYS)), unique=True, max_size=5))
    ragged, boxed = draw(st.booleans()), draw(st.booleans())
    count = draw(st.integers(1, 4))
    made = []
    for number in range(draw(st.integers(2, 4))):
        rows = draw(st.integers(0, 4)) if ragged else count
        columns: dict[str, Any] = {
            "element": np.array(draw(_list(st.sampled_from(SYMBOLS), rows)), np.dtypes.StringDType())
        }
        columns |= {axis: np.array(draw(_list(reals, rows)), np.float64) for axis in "xyz"}
        columns |= {name: np.array(draw(_list(COLUMNS[name][0], rows)), COLUMNS[name][1]) for name in names}
        meta = Meta()
        for key in keys:
            meta.put(key, draw(KEYS[key][1]), KEYS[key][0])
        box = None
        if boxed:
            vectors = np.array(draw(st.lists(st.floats(0.5, 1e6), min_size=9, max_size=9))).reshape(3, 3)
            box = Box(vectors, draw(_list(st.floats(-9, 9), 3)), draw(_list(st.booleans(), 3)))
        made.append(Frame({"atoms": Block(columns, count=rows)}, meta, box, step=number))
    return made


def _list(values: Any, count: int) -> Any:
    return st.lists(values, min_size=count, max_size=count)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(frames())
def test_what_is_written_reads_back_bit_for_bit(tmp_path: Path, made: list[Frame]) -> None:
    report = Report()
    record = through(Record(trajectory=MemoryTrajectory(made)), tmp_path / "a.extxyz", report)
    assert [item for item in report.losses() if "precision" not in item] == []
    for index, frame in enumerate(made):
        found = record.trajectory[index]
        system = {} if record.system is None or "atoms" not in record.system else record.system["atoms"].columns
        columns = {**system, **{n: c for block in found.blocks.values() for n, c in block.columns.items()}}
        assert columns == frame["atoms"].columns or not frame["atoms"].count
        assert found["atoms"].count == frame["atoms"].count
        assert found.meta == frame.meta
        assert found.box == frame.box


def molecule(**columns: Any) -> Frame:
    return Frame(
        {"atoms": Block({"element": ["C", "O"], "x": [0.0, 1.1], "y": [0.0, -0.0], "z": [1e-300, 1 / 3], **columns})}
    )


def test_the_text(tmp_path: Path) -> None:
    meta = Meta({"note": "two words", "code": "12"})
    meta.put("pe", -3.5, "f64")
    frame = molecule(fx=[0.1, 0.2], fy=[0.0, 0.0], fz=[0.0, 1e22], tags=[1, -2])
    frame.meta, frame.box, frame.step, frame.time = meta, Box(np.diag([4.0, 5.0, 6.5])), 7, 0.25
    molrec_convert.write(Record(trajectory=MemoryTrajectory([frame])), tmp_path / "a.xyz")
    text = (tmp_path / "a.xyz").read_text()
    head, *rows = text.splitlines()[1:]
    assert head == (
        'Lattice="4.0 0.0 0.0 0.0 5.0 0.0 0.0 0.0 6.5" Properties=species:S:1:pos:R:3:forces:R:3:tags:I:1 '
        'note="two words" code="\\12" energy=-3.5 step=7 time=0.25 pbc="T T T"'
    )
    assert [row.split()[0] for row in rows] == ["C", "O"]
    assert [[float(word) for word in row.split()[1:]] for row in rows] == [
        [0.0, 0.0, 1e-300, 0.1, 0.0, 0.0, 1.0],
        [1.1, -0.0, 1 / 3, 0.2, 0.0, 1e22, -2.0],
    ]
    assert text.endswith("\n")


def test_frames_without_atoms(tmp_path: Path) -> None:
    nothing = np.zeros(0)
    columns = {"element": np.array([], np.dtypes.StringDType()), "x": nothing, "y": nothing, "z": nothing}
    frames = [Frame({"atoms": Block({**columns, "fx": nothing, "fy": nothing, "fz": nothing})}, step=k) for k in (0, 1)]
    record = through(Record(trajectory=MemoryTrajectory(frames)), tmp_path / "a.extxyz", Report())
    assert [line for line in (tmp_path / "a.extxyz").read_text().splitlines() if "Properties" not in line] == ["0", "0"]
    assert [frame["atoms"].count for frame in record.trajectory] == [0, 0]


def test_every_double_arrives_as_it_was(tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    bits = draw.integers(0, 2**64, 3000, np.uint64).view(np.float64)
    columns = {axis: np.where(np.isnan(bits), 0.5, bits)[n::3] for n, axis in enumerate("xyz")}
    record = Record(trajectory=MemoryTrajectory([Frame({"atoms": Block({"element": ["H"] * 1000, **columns})})]))
    assert arrays(through(record, tmp_path / "a.xyz"))["x"] == columns["x"].tolist()


def test_digits(tmp_path: Path) -> None:
    report = Report()
    record = Record(trajectory=MemoryTrajectory([molecule()]))
    found = arrays(through(record, tmp_path / "a.xyz", report, digits=3))
    assert found["z"] == [0.0, 0.333]
    assert report.losses() == ["dropped: digits (numbers are rounded to 3 behind the point, as asked)"]
    assert "O 1.100 -0.000 0.333" in (tmp_path / "a.xyz").read_text()


@pytest.mark.parametrize("word", ["", "two words", "tab\there", " lead", "line\nbreak"])
def test_texts_that_would_break_a_row_are_words(tmp_path: Path, word: str) -> None:
    record = Record(trajectory=MemoryTrajectory([molecule(label=["ok", word])]))
    report = Report()
    found = arrays(through(record, tmp_path / "a.xyz", report))
    assert found["label"] == ["ok", "_".join(word.split()) or "."]
    fate = Fate.DROPPED if word else Fate.CONVERTED
    assert "atoms/label" in {item.name for item in report.of(fate) if "stands for" in item.detail or word}


def test_what_has_no_place_is_named_before(tmp_path: Path) -> None:
    system = Frame(
        {
            "atoms": Block({"element": ["C", "O"]}),
            "bonds": Block({"atomi": np.array([0], np.uint64), "atomj": np.array([1], np.uint64)}),
        }
    )
    system.meta.put("units", {"preset": "metal"}, "json")
    partial = Column(np.array([1.0, 2.0]), np.array([True, False]))
    frame = Frame(
        {
            "atoms": Block(
                {"x": Column(np.zeros(2), precision=1e-3), "y": np.zeros(2), "z": np.zeros(2), "spin": partial}
            )
        }
    )
    record = Record(
        system=system, trajectory=MemoryTrajectory([frame]), status={"state": "done"}, meta={"author": {"name": "A"}}
    )
    molrec_convert.write(record, tmp_path / "a.mrec")
    predicted = Report()
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.xyz", dry_run=True, report=predicted)
    assert {item.name for item in predicted.items if item.fate == "dropped"} == {
        "status", "meta.author", "system/bonds", "precision of x", "spin",
    }  # fmt: skip
    with pytest.raises(LossError):
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.xyz", strict=True)
    found = Report()
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.xyz", report=found)
    assert found.to_json() == predicted.to_json()


def test_columns_that_some_frames_lack(tmp_path: Path) -> None:
    text = (
        '2\nLattice="4 0 0 0 4 0 0 0 4" Properties=species:S:1:pos:R:3\nH 0 0 0\nH 1 0 0\n'
        '2\nProperties=species:S:1:pos:R:3:forces:R:3:tag:I:1 pbc="F F F"\nH 0 0 0 1 2 3 4\nH 1 0 0 5 6 7 8\n'
    )
    reordered = "".join(text.partition("2\nProperties")[1:]) + text.partition("2\nProperties")[0]
    record = read_text(tmp_path, reordered)
    first, second = arrays(record, 0), arrays(record, 1)
    assert (first["fx"], first["tag"]) == ([1.0, 5.0], [4, 8])
    assert (second["fx"], second["tag"]) == ([None, None], [None, None])
    assert record.trajectory[0].box is None
    assert record.trajectory[1].box is not None
    molrec_convert.convert(tmp_path / "a.xyz", tmp_path / "a.mrec")
    molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.xyz")
    heads = (tmp_path / "b.xyz").read_text().splitlines()[1::4]
    assert ["forces:R:3:tag:I:1" in head for head in heads] == [True, False]
    molrec_convert.convert(tmp_path / "b.xyz", tmp_path / "b.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as one, molrec_convert.open(tmp_path / "b.mrec") as other:
        assert list(differences(one, other)) == []


def test_names_that_are_used_otherwise_come_back(tmp_path: Path) -> None:
    text = (
        "1\nProperties=species:S:1:pos:R:3:id:S:1:mass:R:2:offset:R:1:element:S:1 "
        'path/to=1 temp=hot "a b"=2 %41=3 pe=1 energy=2\n'
        "H 0 0 0 x 1 2 3 O\n"
    )
    record = read_text(tmp_path, text)
    found, meta = arrays(record), meta_of(record)
    assert found["%69d"] == ["x"]
    assert found["element"] == ["H"]
    assert meta == {"path%2Fto": 1, "%74emp": "hot", "a b": 2, "%2541": 3, "%70e": 1.0, "pe": 2.0}
    again = through(record, tmp_path / "b.xyz")
    assert arrays(again) == found
    assert meta_of(again) == meta
    head = (tmp_path / "b.xyz").read_text().splitlines()[1]
    assert {"id:S:1", "mass:R:2", "offset:R:1", "element:S:1"} <= set(re.findall(r"[^:=]+:[RISL]:\d", head.split()[0]))


@pytest.mark.parametrize("name", ["a.xyz.gz", "a.extxyz.zst", "a.xyz.xz", "a.xyz.bz2"])
def test_compressed(tmp_path: Path, name: str) -> None:
    record = Record(trajectory=MemoryTrajectory([molecule()]))
    assert arrays(through(record, tmp_path / name))["x"] == [0.0, 1.1]
    if name.endswith(".gz"):
        assert gzip.decompress((tmp_path / name).read_bytes()).startswith(b"2\n")


def test_frames_are_counted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a collection, of records of some frames and of one of a system alone."""
    text = "1\n\nH 0 0 0\n"
    (tmp_path / "a.xyz").write_text(text * 3)
    molrec_convert.convert(tmp_path / "a.xyz", tmp_path / "a.mrec.lmdb")
    for source in ("a.xyz", "a.mrec.lmdb"):
        assert run(["convert", str(tmp_path / source), str(tmp_path / "b.xyz"), "--overwrite"]) == 0
        assert "b.xyz: 3 frames," in capsys.readouterr().err
    molrec_convert.write(Record(system=molecule()), tmp_path / "one.mrec")
    assert run(["convert", str(tmp_path / "one.mrec"), str(tmp_path / "c.xyz")]) == 0
    assert "c.xyz: 1 frame," in capsys.readouterr().err


def test_a_plain_file(tmp_path: Path) -> None:
    frame = molecule()
    frame.meta.put("comment", "one\ntwo", "string")
    molrec_convert.write(Record(trajectory=MemoryTrajectory([frame])), tmp_path / "a.xyz", format="xyz")
    lines = (tmp_path / "a.xyz").read_text().splitlines()
    assert lines[:2] == ["2", "one two"]
    assert [line.split()[0] for line in lines[2:]] == ["C", "O"]


def peer_file(tmp_path: Path) -> tuple[Path, list[Frame]]:
    """Frames as ASE, MDAnalysis and chemfiles can read them."""
    draw = np.random.default_rng(11)
    made = []
    for number in range(3):
        columns = {"element": ["O", "H", "H"], **{axis: draw.normal(size=3) * 10.0**number for axis in "xyz"}}
        columns |= {f"f{axis}": draw.normal(size=3) for axis in "xyz"}
        frame = Frame(
            {"atoms": Block(columns)}, box=Box(np.array([[5.0, 1 / 3, 0], [0, 6.0, 0], [0, 0, 7.1]])), step=number
        )
        frame.meta.put("pe", float(draw.normal()), "f64")
        frame.meta.put("label", "two words", "string")
        made.append(frame)
    path = tmp_path / "peer.xyz"
    molrec_convert.write(Record(trajectory=MemoryTrajectory(made)), path)
    return path, made


def test_ase_reads_the_same(tmp_path: Path) -> None:
    io = pytest.importorskip("ase.io", reason="ase is not installed")
    path, made = peer_file(tmp_path)
    for atoms, frame in zip(io.read(path, index=":"), made, strict=True):
        block = frame["atoms"]
        assert atoms.get_chemical_symbols() == block["element"].tolist()
        np.testing.assert_array_equal(atoms.positions, np.stack([block[axis] for axis in "xyz"], axis=1))
        np.testing.assert_array_equal(atoms.get_forces(), np.stack([block[f"f{axis}"] for axis in "xyz"], axis=1))
        np.testing.assert_array_equal(np.asarray(atoms.cell), frame.box.vectors.T)
        assert atoms.get_potential_energy() == frame.meta["pe"]
        assert atoms.info["label"] == "two words"


def test_mdanalysis_reads_the_same(tmp_path: Path) -> None:
    mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
    path, made = peer_file(tmp_path)
    universe = mda.Universe(str(path), format="XYZ", topology_format="XYZ")
    for step, frame in zip(universe.trajectory, made, strict=True):
        expected = np.stack([frame["atoms"][axis] for axis in "xyz"], axis=1)
        np.testing.assert_array_equal(step.positions, expected.astype(np.float32))


def test_chemfiles_reads_the_same(tmp_path: Path) -> None:
    chemfiles = pytest.importorskip("chemfiles", reason="chemfiles is not installed")
    path, made = peer_file(tmp_path)
    with chemfiles.Trajectory(str(path)) as source:
        assert source.nsteps == len(made)
        for frame in made:
            found = source.read()
            # its own way from text to numbers is off by up to three units in the last place
            expected = np.stack([frame["atoms"][axis] for axis in "xyz"], axis=1)
            np.testing.assert_allclose(found.positions, expected, rtol=1e-15)
            assert [atom.name for atom in found.atoms] == frame["atoms"]["element"].tolist()


def test_a_file_of_labels_that_never_change_does_not_differ_from_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames = [f"2\nProperties=species:S:1:pos:R:3:force_mask:L:1 e={n}.5\nH 0 0 {n} T\nO 1 0 {n} F\n" for n in range(3)]
    source = tmp_path / "a.xyz"
    source.write_text("".join(frames))
    assert run(["convert", str(source), str(tmp_path / "a.mrec")]) == 0
    assert run(["convert", str(tmp_path / "a.mrec"), str(tmp_path / "b.xyz")]) == 0
    capsys.readouterr()
    for pair in (("a.mrec", "b.xyz"), ("a.xyz", "a.mrec"), ("a.xyz", "b.xyz")):
        assert run(["diff", *(str(tmp_path / name) for name in pair)]) == 0
        assert capsys.readouterr().out == ""
    (tmp_path / "b.xyz").write_text("".join(frames).replace("H 0 0 2", "F 0 0 2"))
    assert run(["diff", str(tmp_path / "a.mrec"), str(tmp_path / "b.xyz")]) == 1
    assert "element" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "column", "values", "fate"),
    [
        ("alt.pdb", "altloc", ["", "A", "B"], Fate.CONVERTED),
        ("icode.pdb", "icode", ["", "A"], Fate.CONVERTED),
        ("com.data", "comment", ["C2_RES", "C3_RES"], Fate.DROPPED),
    ],
)
def test_texts_that_are_no_words(
    name: str, column: str, values: list[str], fate: Fate, fixtures: Path, tmp_path: Path
) -> None:
    """Empty texts and those with blanks are written as words, said beforehand, and read by ASE."""
    ase_io = pytest.importorskip("ase.io")
    options = {"elements": ["C"]} if name == "com.data" else {}
    predicted, report = Report(), Report()
    molrec_convert.convert(fixtures / "faults" / name, tmp_path / "a.extxyz", report=predicted, dry_run=True, **options)
    molrec_convert.convert(fixtures / "faults" / name, tmp_path / "a.extxyz", report=report, **options)
    assert predicted.to_json() == report.to_json()
    assert f"atoms/{column}" in {item.name for item in report.of(fate)}
    assert ase_io.read(tmp_path / "a.extxyz").arrays[column].tolist() == [value or "." for value in values]
    record = molrec_convert.read(tmp_path / "a.extxyz")
    assert record.system["atoms"][column].tolist() == values


@pytest.mark.parametrize(("name", "more"), [("t.extxyz", []), ("t.extxyz.gz", []), ("t.xyz", ["--as", "records"])])
def test_two_at_one_target(name: str, more: list[str], tmp_path: Path, capfd: Any) -> None:
    frames = ["".join(f"1\nProperties=species:S:1:pos:R:3\nH 0 0 {n + z}\n" for z in range(3)) for n in (1, 5)]
    for source, text in zip("ab", frames, strict=True):
        (tmp_path / f"{source}.extxyz").write_text(text)
    first, second = (["convert", tmp_path / f"{source}.extxyz", tmp_path / name, *more] for source in "ab")
    second_is_refused(first, second, capfd)
    left = sorted(path.name for path in tmp_path.iterdir())
    if more:
        assert left == ["a.extxyz", "b.extxyz", *(f"t-{number}.xyz" for number in range(3))]
        made = [molrec_convert.read(tmp_path / f"t-{number}.xyz") for number in range(3)]
        heights = [float(record.trajectory[0]["atoms"]["z"][0]) for record in made]
    else:
        assert left == ["a.extxyz", "b.extxyz", name]
        heights = [float(frame["atoms"]["z"][0]) for frame in molrec_convert.read(tmp_path / name).trajectory]
    assert heights == [1.0, 2.0, 3.0]
