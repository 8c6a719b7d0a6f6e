"""The index pass: a quick and an exact way that find the same frames, and the order rows are brought into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from dump_texts import frame, melt, write
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_lammps.dump import header as dump_header
from molrec_lammps.dump import index as dump_index
from molrec_lammps.dump.frames import FileIndex
from molrec_lammps.dump.index import Doubt, exact_index, index_source, quick_index
from molrec_lammps.dump.rows import IdSet, RepeatedId, ascending_order, repeated_row
from molrec_lammps.dump.source import FileSource, StreamSource, TextSource, open_source

TILTED = ("BOX BOUNDS xy xz yz pp ff pp", "-1.5 12 3\n0 9 -4.5\n0 7 2\n")
GENERAL = ("BOX BOUNDS abc origin pp pp fm", "1 0 0 0\n0.5 1 0 -1\n0 0.25 1 2\n")
OLD = ("BOX BOUNDS", "0 8\n0 9\n0 10\n")


def facts(index: FileIndex) -> dict[str, Any]:
    """What an index says, in a form that compares."""
    table = index.table
    found = {name: getattr(table, name).tolist() for name in ("start", "rows", "stop", "line", "step", "count")}
    found["layout"] = [table.layouts[number] for number in table.layout]
    found["time"] = [None if np.isnan(value) else value for value in table.time]
    for name in ("vectors", "origin", "boundary"):
        found[name] = getattr(table, name)[table.box].tolist()
    return {**found, "units": index.units, "truncated": index.truncated, "warnings": index.warnings}


def npt(frames: int, atoms: int) -> str:
    """A run whose cell changes in every frame, with times, and units once."""
    return "".join(
        frame(
            number * 5,
            [f"{i} 1 {number}.5 0 0" for i in range(1, atoms + 1)],
            box=("BOX BOUNDS pp pp pp", f"{-number}e-1 8.{number}\n0 9\n0 1{number}\n"),
            time=number / 4,
            units="real" if not number else None,
        )
        for number in range(frames)
    )


def growing(frames: int) -> str:
    """A run whose number of atoms changes."""
    counts = [0, 3, 1, 7, 7, 0, 2]
    return "".join(
        frame(number, [f"{i} 1 0 0 {number}" for i in range(1, counts[number % 7] + 1)]) for number in range(frames)
    )


TEXTS = {
    "uniform": melt(50, 7),
    "one frame": melt(1, 3),
    "one atom": melt(9, 1),
    "npt": npt(30, 5),
    "growing": growing(40),
    "boxes": "".join(
        frame(n, ["1 1 0 0 0"], box=box) for n, box in enumerate([TILTED, GENERAL, TILTED, GENERAL, OLD, TILTED])
    ),
    "columns": frame(0, ["1 1 0 0 0"]) + frame(1, ["0 0 1 0"], "x y id z") + frame(2, ["1 1 0 0 0"]),
    "blank ends": melt(5, 3).replace("\n", " \n").replace("TIMESTEP ", "TIMESTEP").replace("ATOMS \n", "ATOMS\n"),
    "windows": melt(5, 3).replace("\n", "\r\n"),
    "no last line end": melt(5, 3)[:-1],
    "blank lines behind": melt(5, 3) + "\n \n\n",
    "cut in a row": melt(5, 3)[:-9],
    "cut in the rows": melt(5, 3)[: melt(5, 3)[:-2].rfind("\n") + 1],
    "cut in a header": melt(4, 3) + "ITEM: TIMESTEP\n40\nITEM: NUMBER OF ATOMS\n3\nITEM: BOX BOUNDS pp pp pp\n0 8\n",
    "only an item more": melt(4, 3) + "ITEM: TIME\n",
    "units twice": npt(3, 2) + npt(3, 2),
    "negative steps": frame(-10, ["1 1 0 0 0"]) + frame(0, ["1 1 0 0 0"]),
    "iodine": "".join(frame(n, ["1 I 0 0 0", "2 In 0 0 0"], "id element x y z") for n in range(20)),
}


@pytest.fixture(params=list(TEXTS))
def text(request: pytest.FixtureRequest) -> bytes:
    return TEXTS[request.param].encode()


#: Texts that LAMMPS does not write, or whose end is not whole.
UNUSUAL = {"cut in a header", "only an item more"}


class TestTwoWays:
    @pytest.mark.parametrize("leap", [0, 2**16])
    @pytest.mark.parametrize("block", [64, 200, 1000, 2**20])
    def test_equal_wherever_blocks_end(
        self, text: bytes, block: int, leap: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = facts(exact_index(TextSource(Path("a.dump"), text)))
        monkeypatch.setattr(dump_header, "_BLOCK_BYTES", block)
        monkeypatch.setattr(dump_index, "_BLOCK_BYTES", block)
        monkeypatch.setattr(dump_index, "_HEADER_BYTES", min(block, 2**12))
        monkeypatch.setattr(dump_index, "_LEAP_BYTES", leap)
        assert facts(index_source(TextSource(Path("a.dump"), text))) == expected
        assert facts(exact_index(TextSource(Path("a.dump"), text))) == expected

    @pytest.mark.parametrize("name", sorted(TEXTS))
    def test_the_quick_way_takes_what_lammps_writes(self, name: str) -> None:
        source = TextSource(Path("a.dump"), TEXTS[name].encode())
        if name in UNUSUAL:
            with pytest.raises(Doubt):
                quick_index(source)
        else:
            assert facts(quick_index(source)) == facts(exact_index(source))

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["uniform", "npt", "growing"])
    def test_no_end_of_a_block_is_a_doubt(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        source = TextSource(Path("a.dump"), TEXTS[name].encode())
        expected = facts(exact_index(source))
        for block in range(400, 1900, 13):
            monkeypatch.setattr(dump_index, "_BLOCK_BYTES", block)
            monkeypatch.setattr(dump_index, "_HEADER_BYTES", block // 3)
            assert facts(quick_index(source)) == expected


class Counting(FileSource):
    """A file that counts what is read of it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.bytes = 0

    def read(self, start: int, stop: int) -> bytes:
        data = super().read(start, stop)
        self.bytes += len(data)
        return data


class TestLeaping:
    def test_large_frames_are_leapt_over(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path / "a.dump", melt(30, 4000))
        expected = facts(exact_index(FileSource(path)))
        monkeypatch.setattr(dump_index, "exact_index", None)
        source = Counting(path)
        assert facts(index_source(source)) == expected
        assert source.bytes < path.stat().st_size / 2

    def test_counts_that_change(self, tmp_path: Path) -> None:
        frames = [frame(n, [f"{i} 1 0.{i} 0 0" for i in range(1, 3000 + 1500 * (n % 3))]) for n in range(9)]
        path = write(tmp_path / "a.dump", *frames)
        assert facts(quick_index(FileSource(path))) == facts(exact_index(FileSource(path)))

    @pytest.mark.parametrize("cut", [10, 5000, 120_000])
    def test_a_cut_last_frame(self, tmp_path: Path, cut: int) -> None:
        path = write(tmp_path / "a.dump", melt(6, 4000)[:-cut])
        index = index_source(FileSource(path))
        assert len(index.table) == 5
        assert facts(index) == facts(exact_index(FileSource(path)))


class TestCompressed:
    @pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
    def test_as_a_stream(self, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = npt(200, 5).encode()
        path = tmp_path / "named.dump"
        path.write_bytes(compressed(text, kind))
        monkeypatch.setattr("molrec_lammps.dump.source.MEMORY_BYTES", 1000)
        source = open_source(path)
        assert isinstance(source, StreamSource)
        expected = facts(exact_index(TextSource(path, text)))
        assert facts(index_source(source)) == expected
        assert facts(exact_index(source.again())) == expected

    @pytest.mark.parametrize("margin", [0, 300, 2**24])
    def test_reads_in_any_order(self, margin: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = melt(500, 5).encode()
        path = tmp_path / "a.dump"
        path.write_bytes(compressed(text, "gz"))
        monkeypatch.setattr(StreamSource, "MARGIN", margin)
        source = StreamSource(path)
        for start, stop in [(0, 10), (5, 400), (1000, 1000), (20_000, 30_000), (3, 9), (len(text) - 5, len(text) + 9)]:
            assert source.read(start, stop) == text[start:stop]


def compressed(text: bytes, kind: str) -> bytes:
    if kind == "zst":
        return bytes(zstandard.ZstdCompressor().compress(text))
    module = __import__({"gz": "gzip", "bz2": "bz2", "xz": "lzma"}[kind])
    return bytes(module.compress(text))


GOOD = frame(0, ["1 1 0 0 0", "2 1 0 0 0"])


class TestFaults:
    @pytest.mark.parametrize(
        ("text", "where", "found", "expected"),
        [
            ("", None, "an empty file", "at least one whole frame"),
            ("nothing\n", "line 1", "'nothing'", "'ITEM: TIMESTEP', the first line of a LAMMPS text dump"),
            ("10\nITEM: TIMESTEP\n0\n", "line 1", "'10'", "'ITEM: TIMESTEP', the first line of a LAMMPS text dump"),
            (GOOD.replace("ATOMS\n2", "ATOMS\n-2"), "line 4", "'-2'", "a number of atoms"),
            (GOOD.replace("ATOMS\n2", "ATOMS\n2.0"), "line 4", "'2.0'", "a number of atoms"),
            (GOOD.replace("STEP\n0", "STEP\nzero"), "line 2", "'zero'", "a step number"),
            (GOOD.replace("0 8\n", "0 8 1\n"), "line 6", "'0 8 1'", "2 numbers of the plain box"),
            (GOOD.replace("0 9\n", "0 nan\n"), "line 7", "'0 nan'", "2 numbers of the plain box"),
            (GOOD.replace("pp pp pp", "xy xz yz pp pp pp"), "line 6", "'0 8'", "3 numbers of the tilted box"),
            (GOOD.replace("0 9\n", "9 0\n"), "line 7", "'9 0'", "a low bound below the high one"),
            (
                GOOD.replace("pp pp pp", "xy xz yz pp pp pp").replace("0 8\n0 9\n0 10\n", "0 8 5\n0 9 4\n0 10 0\n"),
                "line 6",
                "'0 8 5'",
                "a low bound below the high one",
            ),
            (GOOD.replace("BOX BOUNDS", "DUMMY"), "line 5", "'ITEM: DUMMY pp pp pp'", "'ITEM: BOX BOUNDS'"),
            (GOOD.replace("id type x y z", ""), "line 9", "'ITEM: ATOMS' without column names", "names of columns"),
            (GOOD.replace("type x", "x x"), "line 9", "the column 'x' twice", "each column once"),
            (
                GOOD.replace("ITEM: NUMBER OF ATOMS\n2\n", ""),
                "line 7",
                "'ITEM: ATOMS id type x y z'",
                "'ITEM: NUMBER OF ATOMS' before it",
            ),
            (
                GOOD.replace("2 1 0 0 0\n", ""),
                "line 11",
                "the end of the file after 1 of the 2 rows of step 0",
                "at least one whole frame",
            ),
            (
                "ITEM: TIMESTEP\n0\nITEM: NUM",
                "line 4",
                "the end of the file inside the header of frame 0",
                "at least one whole frame",
            ),
        ],
    )
    def test_named_with_their_line(self, text: str, where: str | None, found: str, expected: str) -> None:
        for way in (index_source, exact_index):
            with pytest.raises(FormatError) as caught:
                way(TextSource(Path("a.dump"), text.encode()))
            error = caught.value
            assert (error.where, error.found, error.expected) == (where, found, expected)

    @pytest.mark.parametrize(
        ("text", "where", "found", "expected"),
        [
            (
                GOOD + GOOD.replace("ATOMS\n2", "ATOMS\n3") + GOOD,
                "line 23",
                "'ITEM: TIMESTEP'",
                "row 3 of the 3 rows of step 0",
            ),
            (
                GOOD + GOOD.replace("ATOMS\n2", "ATOMS\n1") + GOOD,
                "line 22",
                "'2 1 0 0 0'",
                "'ITEM: TIMESTEP' after the 1 rows of step 0",
            ),
            (GOOD + "\n" + GOOD, "line 12", "''", "'ITEM: TIMESTEP' after the 2 rows of step 0"),
        ],
    )
    def test_a_wrong_number_of_rows_in_the_middle(self, text: str, where: str, found: str, expected: str) -> None:
        with pytest.raises(FormatError) as caught:
            exact_index(TextSource(Path("a.dump"), text.encode()))
        assert (caught.value.where, caught.value.found, caught.value.expected) == (where, found, expected)

    def test_a_dump_of_something_else_is_unsupported(self) -> None:
        text = GOOD.replace("NUMBER OF ATOMS", "NUMBER OF ENTRIES").replace("ATOMS id", "ENTRIES id")
        with pytest.raises(UnsupportedError, match=r"line 3.*a frame of dump local"):
            index_source(TextSource(Path("a.dump"), text.encode()))

    def test_bytes_that_are_no_text(self) -> None:
        with pytest.raises(FormatError, match="line 1"):
            index_source(TextSource(Path("a.dump"), bytes(range(256)) * 100))

    def test_a_file_that_starts_inside_a_frame(self) -> None:
        text = "1.5 0\n3 1 2 3 4\n" + GOOD
        index = index_source(TextSource(Path("a.dump"), text.encode()))
        assert len(index.table) == 1
        assert index.truncated == "a.dump, line 1: the file starts inside a frame; its rows up to line 2 are left out"
        assert index.table.line.tolist() == [12]


class TestOrder:
    ids = st.lists(st.integers(1, 60), unique=True, min_size=1, max_size=12)
    sparse = st.lists(st.integers(1, 2**63 - 1), unique=True, min_size=1, max_size=12)

    @given(st.one_of(ids, sparse), st.randoms(use_true_random=False), st.integers(1, 4))
    def test_an_idset_orders_any_frames_of_its_ids(self, ids: list[int], random: Any, frames: int) -> None:
        ordered = np.array(sorted(ids), dtype=np.int64)
        idset = IdSet(ordered)
        mixed = np.array([i for _ in range(frames) for i in random.sample(ids, len(ids))], dtype=np.int64)
        order = idset.order(mixed)
        assert order is not None
        assert np.array_equal(mixed[order], np.tile(ordered, frames))
        assert idset.in_order(mixed[order])
        assert idset.in_order(mixed) == np.array_equal(mixed, np.tile(ordered, frames))

    @given(st.one_of(ids, sparse), st.integers(0, 11), st.integers(0, 2**63 - 1))
    def test_an_idset_tells_other_ids(self, ids: list[int], place: int, other: int) -> None:
        changed = list(ids)
        changed[place % len(ids)] = other
        order = IdSet(np.array(sorted(ids), dtype=np.int64)).order(np.array(changed, dtype=np.int64))
        assert (order is None) == (sorted(changed) != sorted(ids))

    @given(st.lists(st.one_of(ids, sparse, st.just([])), min_size=1, max_size=5))
    def test_frames_of_any_ids(self, frames: list[list[int]]) -> None:
        mixed = np.array([i for ids in frames for i in ids], dtype=np.int64)
        counts = np.array([len(ids) for ids in frames], dtype=np.int64)
        order = ascending_order(mixed, counts)
        found = mixed if order is None else mixed[order]
        assert found.tolist() == [i for ids in frames for i in sorted(ids)]

    @given(st.one_of(ids, sparse))
    def test_an_id_twice(self, ids: list[int]) -> None:
        twice = np.array([*ids, ids[0]], dtype=np.int64)
        with pytest.raises(RepeatedId):
            ascending_order(twice, np.array([len(twice)]))
        assert repeated_row(twice) == len(ids)
        assert repeated_row(twice[:-1]) is None


@given(st.integers(1, 6), st.integers(0, 5), st.integers(0, 2**31), st.sampled_from([64, 100, 333, 2**22]))
@settings(max_examples=60)
def test_a_text_cut_anywhere(frames: int, atoms: int, seed: int, block: int) -> None:
    text = npt(frames, atoms).encode()
    cut = text[: seed % (len(text) + 1)]
    results = []
    for way in (index_source, exact_index):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dump_header, "_BLOCK_BYTES", block)
            patch.setattr(dump_index, "_BLOCK_BYTES", block)
            patch.setattr(dump_index, "_HEADER_BYTES", min(block, 2**12))
            try:
                results.append(facts(way(TextSource(Path("a.dump"), cut))))
            except FormatError as error:
                results.append(str(error))  # type: ignore[arg-type]
    assert results[0] == results[1]
