"""Bad input in one sentence, files that break off, frames that change, and what a file becomes."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xyz_texts import arrays, meta_of, read_text

import molrec_convert
from molrec_convert import Record, Report
from molrec_convert.errors import FormatError, UsageError
from molrec_convert.model.collection.collection import Collection
from molrec_xyz.detect import extxyz_score, xyz_score
from molrec_xyz.scan import scan_frames

EXT = "Properties=species:S:1:pos:R:3"


def read_all(source: Any) -> None:
    for record in [source] if isinstance(source, Record) else source:
        for _ in record.trajectory.batches():
            pass


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2\nc\nH 0 0 0\nH 0 0\n", "line 4: found 3 fields in 'H 0 0', expected 4 (species:S:1 pos:R:3)"),
        ("2\nc\nH 0 0 0\nH 0 x 0\n", "line 4: found 'x', expected a number (pos)"),
        (f"2\n{EXT}:charge:R:1\nH 0 0 0 1\nH 0 0 0\n", "line 4: found 4 fields in 'H 0 0 0', expected 5"),
        (f"2\n{EXT}\nH 0 0 0\nH 0 0 0 0\n", "line 4: found 5 fields in 'H 0 0 0 0', expected 4"),
        ("1\nc\nH 0 0 0\n2\nc\nH 0 0 0\nH 0 0 zero\n", "line 7: found 'zero', expected a number (pos)"),
        ("1\nc\nH 0 0 0\nH 0 0 0\n1\nc\nH 0 0 0\n", "line 4: found 'H 0 0 0', expected a number of atoms"),
        (f"1\n{EXT}:tag:I:1\nH 0 0 0 1.0\n", "line 3: found '1.0', expected an integer (tag)"),
        (f"1\n{EXT}:flag:L:1\nH 0 0 0 1\n", "line 3: found '1', expected T or F (flag)"),
        (
            "1\nProperties=species:S:99999999999\nH 0 0 0\n",
            "line 2: found 'species:S:99999999999', expected Properties",
        ),
        ("1\nProperties=species:S\nH 0 0 0\n", "line 2: found 'species:S', expected Properties of name:type:number"),
        ("1\nProperties=pos:R:3:pos:R:3\nH 0 0 0\n", "line 2: found two columns 'pos'"),
        (f"1\n{EXT}:q:R:1\nH 0 0 0 1\n1\n{EXT}:q:S:1\nH 0 0 0 1\n", "line 5: found q:S:1, expected q:R:1"),
        ("3\nc\nH 0 0 0\n", "line 3: found 1 rows before the end of the file, expected 3, as line 1 says"),
        ("1\nc\nH 0 0\n", "line 3: found 3 fields in 'H 0 0', expected 4"),
        ("\n\n2\nc\nH 0 0 0\nH 0 x 0\n", "line 6: found 'x'"),
    ],
)
def test_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_all(read_text(tmp_path, text, format="xyz"))
    assert f"a.xyz, {words}" in str(caught.value)
    with pytest.raises(FormatError):
        molrec_convert.convert(tmp_path / "a.xyz", tmp_path / "a.mrec", from_format="xyz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.xyz"]


@pytest.mark.parametrize("text", ["", "\n\n", "H 0 0 0\n", "3 water\n1 O 0 0 0 1 2\n"])
def test_no_frame(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError, match=r"a\.xyz.*expected a number of atoms"):
        read_text(tmp_path, text, format="xyz")


def test_a_fault_deep_in_a_long_file(tmp_path: Path) -> None:
    rows = "".join(f"H {n / 7:.8f} 0.00000000 1.00000000\n" for n in range(3))
    text = (
        "".join(f"3\n{EXT}\n{rows}" for _ in range(20_000))
        + f"2\n{EXT}\nH 0 0 0\nH 0 0 oops\n"
        + f"3\n{EXT}\n{rows}" * 10
    )
    record = read_text(tmp_path, text)
    with pytest.raises(FormatError, match=rf"line {20_000 * 5 + 4}: found 'oops'"):
        read_all(record)


def test_a_fault_in_a_large_frame(tmp_path: Path) -> None:
    rows = [f"H {n / 7!r} 0.5 {n}.25\n" for n in range(200_000)]
    rows[150_000] = "H 1 2\n"
    path = tmp_path / "a.xyz"
    path.write_text(f"200000\n{EXT}\n" + "".join(rows))
    with pytest.raises(FormatError, match=r"line 150003: found 3 fields in 'H 1 2'"):
        molrec_convert.convert(path, tmp_path / "a.mrec")


def test_a_large_frame(tmp_path: Path) -> None:
    values = np.random.default_rng(2).normal(size=(120_000, 3))
    text = f"120000\n{EXT}\n" + "".join(f"H {x!r} {y!r} {z!r}\n" for x, y, z in values.tolist())
    found = read_text(tmp_path, text).trajectory[0]["atoms"]
    np.testing.assert_array_equal(np.stack([found[axis] for axis in "xyz"], axis=1), values)


def test_a_file_that_breaks_off(tmp_path: Path) -> None:
    frame = "2\nc\nH 0 0 0\nH 1 0 0\n"
    for cut, words in ((2, "the last row breaks off"), (10, "the last frame has"), (20, "")):
        report = Report()
        record = read_text(tmp_path, (frame * 3)[: -cut or None].encode(), report)
        assert len(record.trajectory) == 2
        assert bool(report.truncations) == bool(words)
        assert words in "".join(report.truncations)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1\nc\nH 0 0 0\n1\nc\nH 0 0", 1),
        (f"1\n{EXT}:q:R:1\nH 0 0 0 1\n1\n{EXT}:q:R:1\nH 0 0 0", 1),
        (f"1\n{EXT}:q:R:1\nH 0 0 0 1\n1\n{EXT}\nH 0 0 0", 2),
        ("1\nc\nH 0 0 0\n1\nc\nH 0 0 0", 2),
    ],
)
def test_a_last_frame_of_one_row(tmp_path: Path, text: str, count: int) -> None:
    report = Report()
    assert len(read_text(tmp_path, text, report, as_="trajectory").trajectory) == count
    assert len(report.truncations) == 2 - count


def test_a_compressed_file_that_breaks_off(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    text = "".join(f"2\nc\nH {draw.normal()!r} 0 0\nH 1 0 0\n" for _ in range(5000))
    packed = gzip.compress(text.encode())
    report = Report()
    record = read_text(tmp_path, packed[: len(packed) // 2], report)
    assert 1000 < len(record.trajectory) < 4000
    assert any("the gzip stream is cut short" in words for words in report.truncations)


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        ("free text\nmore\n", "text after the last frame, from line 4"),
        ("VEC1 1 0 0\nVEC2 0 1 0\n", "2 rows of translation vectors (VEC1 ...)"),
    ],
)
def test_text_behind_the_last_frame(tmp_path: Path, rest: str, name: str) -> None:
    report = Report()
    record = read_text(tmp_path, f"1\nc\nH 0 0 0\n{rest}", report)
    assert len(record.trajectory) == 1
    assert [item.name for item in report.items if item.fate == "dropped"] == [name]


def test_vectors_between_frames(tmp_path: Path) -> None:
    assert len(read_text(tmp_path, "1\nc\nH 0 0 0\nVEC1 1 0 0\n1\nc\nH 0 0 0\n").trajectory) == 2


def test_a_cell_that_is_lost(tmp_path: Path) -> None:
    with_cell = f'1\n{EXT} Lattice="3 0 0 0 3 0 0 0 3"\nH 0 0 0\n'
    path = tmp_path / "a.xyz"
    path.write_text(with_cell * 2 + f"1\n{EXT}\nH 0 0 0\n")
    with pytest.raises(FormatError, match=r"line 8: found no Lattice in frame 2, .*--as collection"):
        molrec_convert.convert(path, tmp_path / "a.mrec")
    assert isinstance(molrec_convert.read(path), Collection)
    molrec_convert.convert(path, tmp_path / "a.mrec", as_="records")
    boxes = []
    for number in range(3):
        with molrec_convert.open(tmp_path / f"a-{number}.mrec") as record:
            boxes.append(record.trajectory[0].box is not None)
    assert boxes == [True, True, False]
    path.write_text(f"1\n{EXT}\nH 0 0 0\n" + with_cell * 2)
    molrec_convert.convert(path, tmp_path / "b.mrec")
    with molrec_convert.open(tmp_path / "b.mrec") as record:
        assert [frame.box is not None for frame in record.trajectory] == [False, True, True]


def test_what_a_file_becomes(tmp_path: Path) -> None:
    uniform, mixed = tmp_path / "a.xyz", tmp_path / "b.xyz"
    uniform.write_text("1\nc\nH 0 0 0\n" * 3)
    mixed.write_text("1\nc\nH 0 0 0\n2\nc\nH 0 0 0\nO 1 0 0\n")
    for source, name, options, count in (
        (uniform, "1.mrec.lmdb", {}, 3),
        (uniform, "2.mrec.lmdb", {"as_": "trajectory"}, 1),
        (mixed, "3.mrec.lmdb", {}, 2),
        (mixed, "4.mrec.lmdb", {"as_": "trajectory"}, 1),
    ):
        report = Report()
        molrec_convert.convert(source, tmp_path / name, report=report, **options)  # type: ignore[arg-type]
        with molrec_convert.open(tmp_path / name) as collection:
            assert len(collection) == count
        told = [item.detail for item in report.items if item.name == "configurations"]
        assert len(told) == (0 if options else 1)
    report = Report()
    molrec_convert.convert(mixed, tmp_path / "c.mrec", report=report)
    with molrec_convert.open(tmp_path / "c.mrec") as record:
        assert [frame["atoms"].count for frame in record.trajectory] == [1, 2]


def test_a_collection_holds_what_the_file_does(tmp_path: Path) -> None:
    path = tmp_path / "a.xyz"
    path.write_text(
        f'1\n{EXT}:forces:R:3 energy=-1.5 Lattice="3 0 0 0 3 0 0 0 3"\nH 0 0 0 1 2 3\n'
        f"2\n{EXT} name=b\nO 0 0 0.5\nH 1 0 0\n"
    )
    molrec_convert.convert(path, tmp_path / "a.mrec.lmdb")
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as collection:
        assert collection.index["n_atoms"].tolist() == [1, 2]
        first, second = arrays(collection[0]), arrays(collection[1])
        assert first == {"element": ["H"], "x": [0.0], "y": [0.0], "z": [0.0], "fx": [1.0], "fy": [2.0], "fz": [3.0]}
        assert second["element"] == ["O", "H"]
        assert second["fx"] == [None, None]
        assert meta_of(collection[0])["pe"] == -1.5
        assert "pe" not in meta_of(collection[1])
        assert [meta_of(record).get("name") for record in collection] == [None, "b"]
        assert [record.trajectory[0].box is not None for record in collection] == [True, False]
    molrec_convert.convert(tmp_path / "a.mrec.lmdb", tmp_path / "b.xyz")
    molrec_convert.convert(tmp_path / "b.xyz", tmp_path / "b.mrec.lmdb")
    with molrec_convert.open(tmp_path / "a.mrec.lmdb") as one, molrec_convert.open(tmp_path / "b.mrec.lmdb") as other:
        for a, b in zip(one, other, strict=True):
            assert a.system == b.system
            assert list(a.trajectory) == list(b.trajectory)
    assert "energy" not in (tmp_path / "b.xyz").read_text().splitlines()[4]


@pytest.mark.parametrize(
    ("labels", "options", "column", "expected"),
    [
        (["H", "Cl"], {}, "element", ["H", "Cl"]),
        (["C1", "Ow"], {}, "name", ["C1", "Ow"]),
        (["D", "H"], {}, "name", ["D", "H"]),
        (["1", "2"], {}, "type", ["1", "2"]),
        (["-1", "2"], {}, "type", ["-1", "2"]),
        (["1", "8"], {"species": "numbers"}, "atomic_number", [1, 8]),
        (["C", "O"], {"species": "names"}, "name", ["C", "O"]),
        (["C", "O"], {"species": "types"}, "type", ["C", "O"]),
    ],
)
def test_labels(tmp_path: Path, labels: list[str], options: dict[str, str], column: str, expected: list[Any]) -> None:
    record = read_text(tmp_path, f"2\nc\n{labels[0]} 0 0 0\n{labels[1]} 0 0 0\n", **options)
    assert arrays(record)[column] == expected


def test_a_label_of_another_kind_that_comes_late(tmp_path: Path) -> None:
    path = tmp_path / "a.xyz"
    path.write_text("1\nc\nH 0 0 0\n" * 300 + "1\nc\nH1 0 0 0\n" + "1\nc\nH 0 0 0\n" * 300)
    molrec_convert.convert(path, tmp_path / "a.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        assert [arrays(record, index)["name"] for index in (0, 300, 600)] == [["H"], ["H1"], ["H"]]
    with pytest.raises(FormatError, match="the species 'H1', expected one of the elements"):
        molrec_convert.convert(path, tmp_path / "b.mrec", species="elements")


def test_further_columns_of_plain_files(tmp_path: Path) -> None:
    report = Report()
    record = read_text(tmp_path, "2\nc\nH 0 0 0 1.5 2 # text\nH 0 0 0 2.5 3 # more text\n", report)
    found = arrays(record)
    assert (found["column5"], found["column6"]) == ([1.5, 2.5], [2.0, 3.0])
    assert [item.name for item in report.items if item.fate == "dropped"] == ["fields behind the fourth"]
    path = tmp_path / "b.xyz"
    path.write_text("2\nc\nH 0 0 0 1.5\nH 0 0 0\n")
    molrec_convert.convert(path, tmp_path / "b.mrec")
    with molrec_convert.open(tmp_path / "b.mrec") as again:
        assert "column5" not in arrays(again)


def test_numbers_that_do_not_fit_a_standard_column(tmp_path: Path) -> None:
    path = tmp_path / "a.xyz"
    path.write_text(f"1\n{EXT}:id:I:1\nH 0 0 0 1\n1\n{EXT}:id:I:1\nH 0 0 0 -1\n")
    molrec_convert.convert(path, tmp_path / "a.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        assert [arrays(record, index)["%69d"] for index in range(2)] == [[1], [-1]]


@pytest.mark.parametrize(
    ("comments", "steps", "times"),
    [
        (["Atoms. Timestep: 100", "Atoms. Timestep: 200"], [100, 200], None),
        ([" i = 0, time = 0.000, E = -17.1", " i = 5, time = 2.500, E = -17.2"], [0, 5], [0.0, 2.5]),
        (
            ["# CELL(abcABC): 1 1 1 90 90 90 Step: 3 Bead: 0", "# CELL(abcABC): 1 1 1 90 90 90 Step: 4 Bead: 0"],
            [3, 4],
            None,
        ),
        (["Atoms. Timestep: 200", "Atoms. Timestep: 100"], [0, 1], None),
        (["a", "b"], [0, 1], None),
        ([f"{EXT} step=5 time=0.5", f"{EXT} step=9 time=1"], [5, 9], [0.5, 1.0]),
        ([f"{EXT} Timestep=5", f"{EXT} Timestep=9"], [5, 9], None),
        ([f"{EXT} step=5", f"{EXT}"], [0, 1], None),
    ],
)
def test_steps_and_times(tmp_path: Path, comments: list[str], steps: list[int], times: list[float] | None) -> None:
    record = read_text(tmp_path, "".join(f"1\n{comment}\nH 0 0 0\n" for comment in comments))
    assert record.trajectory.steps.tolist() == steps
    found = record.trajectory.times
    assert (None if found is None else found.tolist()) == times


def test_options_that_name_what_is_not_there(tmp_path: Path) -> None:
    text = f"1\n{EXT}:dft_forces:R:3 dft_energy=1\nH 0 0 0 1 2 3\n"
    record = read_text(tmp_path, text, energy_key="dft_energy", forces_key="dft_forces")
    assert meta_of(record) == {"pe": 1.0}
    assert arrays(record)["fz"] == [3.0]
    with pytest.raises(FormatError, match="expected REF_energy"):
        read_text(tmp_path, text, energy_key="REF_energy")
    with pytest.raises(FormatError, match="expected forces, as --forces-key says"):
        read_text(tmp_path, text, forces_key="forces")
    with pytest.raises(UsageError, match="there are the presets"):
        read_text(tmp_path, text, units="parsec")


def test_slices_and_columns(tmp_path: Path) -> None:
    record = read_text(tmp_path, "".join(f"2\nk={n}\nH {n} 0 0\nO 0 {n} 0\n" for n in range(40)))
    assert [frame["atoms"]["x"].tolist() for frame in record.trajectory[3:20:8]] == [
        [3.0, 0.0],
        [11.0, 0.0],
        [19.0, 0.0],
    ]
    batches = list(record.trajectory.batches(5, 9, 2, columns=["y", "element"]))
    assert [b.blocks["atoms"].columns["y"].tolist() for b in batches] == [[0.0, 5.0, 0.0, 7.0]]
    assert batches[0].blocks["atom_element"].frames.tolist() == [0]
    assert sum(batch.n_frames for batch in record.trajectory.batches(columns=())) == 40


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from(["", "c", "comment"]), st.sampled_from(["H 0 0 0", "H 0.5 0.5 0.5"])
        ),
        min_size=1, max_size=40,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)  # fmt: skip
def test_frames_are_found_wherever_they_are(frames: list[tuple[int, str, str]], end: str, final: bool) -> None:
    lines: list[str] = []
    expected = []
    for count, comment, row in frames:
        expected.append((count, len(lines) + 1))
        lines += [str(count), comment, *[row] * count]
    text = end.join(lines) + (end if final or not lines[-1] else "")
    table = scan_frames(Path("a.xyz"), text.encode())
    assert list(zip(table.count.tolist(), table.line.tolist(), strict=True)) == expected
    assert table.short is None
    whole = text.encode()
    for position, (count, comment, row) in enumerate(frames):
        assert whole[table.header[position] : table.rows[position]].decode().strip() == comment
        assert whole[table.rows[position] : table.end[position]].decode().split() == row.split() * count


@pytest.mark.parametrize(
    ("head", "scores"),
    [
        (b"1\nc\nH 0 0 0\n", (0.9, 0.0)),
        (b'1\nLattice="1 0 0 0 1 0 0 0 1"\nH 0 0 0\n', (0.0, 1.0)),
        (b"  2  \r\nProperties=species:S:1:pos:R:3\r\nH 0 0 0\r\n", (0.0, 1.0)),
        (b"ITEM: TIMESTEP\n0\n", (0.0, 0.0)),
        (b"12 title\n1 C 0 0 0 1\n", (0.0, 0.0)),
        (b"3\n1 2\n3 4\n", (0.0, 0.0)),
        (b"", (0.0, 0.0)),
    ],
)
def test_sniffing(head: bytes, scores: tuple[float, float]) -> None:
    path = Path("a.xyz")
    assert (xyz_score(head, path), extxyz_score(head, path)) == scores


@pytest.mark.parametrize(
    ("end", "said"), [("H 0.25 1.50 2.7", True), ("H 0.25 1.50 2.75", False), ("H 0.25 1.50 2.7\n", False)]
)
def test_a_last_number_that_may_be_cut_is_kept_and_said(end: str, said: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.xyz"
    path.write_text(f"2\n\nH 0.25 1.50 2.75\n{end}")
    report = Report()
    with molrec_convert.read(path, report=report) as record:
        assert record.trajectory[0]["atoms"]["z"].tolist() == [2.75, float(end.split()[3])]
    assert any("its last value may be cut off" in warning for warning in report.warnings) == said
    assert not report.truncations
