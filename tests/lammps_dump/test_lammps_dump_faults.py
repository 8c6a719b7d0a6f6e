"""Bad dumps: one sentence with the line, the right exit code, and nothing written."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_texts import fates, frame, melt, read, write

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.errors import FormatError, LossError, MolrecError
from molrec_convert.report import Report
from molrec_convert.text import rows as text_rows
from molrec_lammps.dump import batch as dump_batch
from molrec_lammps.dump import batch as dump_units
from molrec_lammps.dump import index as dump_index

FRAMES = [frame(n, [f"{i} 1 {i}.25 {n} -{i}e-3" for i in (3, 1, 2, 4)]) for n in range(6)]


def damaged(number: int, row: int, line: str | None) -> str:
    """Six frames; in one of them a row is another, or missing."""
    lines = FRAMES[number].splitlines()
    if line is None:
        del lines[9 + row]
    else:
        lines[9 + row] = line
    return "".join([*FRAMES[:number], "\n".join(lines) + "\n", *FRAMES[number + 1 :]])


FAULTS = {
    "short frame": (damaged(2, 3, None), "line 39: found 'ITEM: TIMESTEP', expected row 4 of the 4 rows of step 2"),
    "long frame": (
        damaged(2, 3, "4 1 0 0 0\n5 1 0 0 0"),
        "line 40: found '5 1 0 0 0', expected 'ITEM: TIMESTEP' after",
    ),
    "a row moved over the header": (
        damaged(2, 3, "4 1 0 0 0\n3 1 3.25 3 0").replace("3 1 3.25 3 -3e-3\n", "", 1),
        "line 40: found '3 1 3.25 3 0', expected 'ITEM: TIMESTEP' after the 4 rows of step 2",
    ),
    "short row": (damaged(3, 1, "1 1 0 0"), "line 50: found 4 in '1 1 0 0', expected 5 values (id type x y z)"),
    "long row": (damaged(3, 1, "1 1 0 0 0 7"), "line 50: found 6 in '1 1 0 0 0 7', expected 5 values (id type x y z)"),
    "words": (damaged(3, 2, "2 1 0 zero 0"), "line 51: found 'zero', expected a number (y)"),
    "nan": (damaged(5, 0, "3 1 nan 0 0"), "line 75: found 'nan', expected a finite number (x)"),
    "inf": (damaged(5, 0, "3 1 0 0 -inf"), "line 75: found '-inf', expected a finite number (z)"),
    "overflow": (damaged(5, 0, "3 1 1e999 0 0"), "line 75: found '1e999', expected a finite number (x)"),
    "an id twice": (damaged(4, 3, "1 1 0 0 0"), "line 65: found the id 1 a second time, expected each id once in the"),
    "an id that is none": (damaged(4, 3, "4.0 1 0 0 0"), "line 65: found '4.0', expected an integer (id)"),
    "a negative id": (damaged(4, 3, "-4 1 0 0 0"), "line 65: found -4 (id), expected an integer from 0 to"),
    "a huge id": (
        damaged(4, 3, "9223372036854775808 1 0 0 0"),
        "line 65: found '9223372036854775808', expected an integer",
    ),
    "a type that is none": (damaged(1, 0, "3 C 0 0 0"), "line 23: found 'C', expected an integer (type)"),
    "a negative type": (damaged(1, 0, "3 -1 0 0 0"), "line 23: found -1 (type), expected an integer from 0 to"),
    "cell": ("".join(FRAMES).replace("0 9\n", "0 9 9\n", 1), "line 7: found '0 9 9', expected 2 numbers"),
    "four boundaries": (
        "".join(FRAMES).replace("pp pp pp\n", "pp pp pp pp\n").replace("pp pp pp pp\n", "pp pp pp\n", 4),
        "line 57: found 'ITEM: BOX BOUNDS pp pp pp pp', expected",
    ),
    "no id in one frame": (
        "".join(FRAMES[:2]) + frame(2, ["1 0 0 0"] * 4, "type x y z"),
        "line 35: found no column id in the frame of step 2, expected id",
    ),
    "no dump": ("once upon a time\n", "line 1: found 'once upon a time', expected 'ITEM: TIMESTEP'"),
    "more atoms than there can be": (
        "".join(FRAMES).replace("NUMBER OF ATOMS\n4\n", f"NUMBER OF ATOMS\n{2**62}\n", 1),
        f"line 4: found '{2**62}', expected a number of atoms",
    ),
    "steps back": ("".join(reversed(FRAMES)), "line 15: found step 4 after step 5"),
}


def stream(path: Path, **options: Any) -> None:
    for _ in read(path, **options)[0].trajectory.batches():
        pass


class TestEveryFault:
    @pytest.fixture(params=list(FAULTS))
    def fault(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        return FAULTS[request.param]

    @pytest.mark.parametrize("job", [1, 2**23])
    @pytest.mark.parametrize("form", ["plain", "gz", "without the kernel", "leapt", "pieces", "stream"])
    def test_is_named_with_its_line(
        self, fault: tuple[str, str], form: str, job: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text, message = fault
        path = write(tmp_path / "bad.dump", text)
        if form in ("gz", "stream"):
            path = tmp_path / "bad.dump.gz"
            path.write_bytes(gzip.compress(text.encode()))
        if form == "stream":
            monkeypatch.setattr("molrec_lammps.dump.source.MEMORY_BYTES", 100)
        if form == "without the kernel":
            monkeypatch.setattr(text_rows, "library", lambda: None)
        if form == "leapt":
            monkeypatch.setattr(dump_index, "_LEAP_BYTES", 0)
        if form == "pieces":
            monkeypatch.setattr(dump_units, "_UNIT_BYTES", 20)
            monkeypatch.setattr(dump_units, "_LONGEST_UNIT", 20)
        monkeypatch.setattr(dump_batch.RowReader.jobs, "__defaults__", (job,))
        monkeypatch.setattr(dump_batch, "JOB_BYTES", job)
        with pytest.raises(FormatError) as caught:
            stream(path)
        assert message in str(caught.value)
        assert str(path) in str(caught.value)

    def test_leaves_the_target_as_it_was(self, fault: tuple[str, str], tmp_path: Path) -> None:
        path = write(tmp_path / "bad.dump", fault[0])
        target = tmp_path / "out.mrec"
        with pytest.raises(MolrecError):
            molrec_convert.convert(path, target, from_format="lammps-dump")
        assert sorted(tmp_path.iterdir()) == [path]


class TestTheCommandLine:
    def run(self, *arguments: Any) -> int:
        return run([str(argument) for argument in arguments])

    def test_a_fault_is_one_sentence(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = write(tmp_path / "bad.dump", FAULTS["words"][0])
        assert self.run("convert", path, tmp_path / "out.mrec") == 1
        stderr = capsys.readouterr().err
        assert "line 51: found 'zero', expected a number (y)" in stderr
        assert "Traceback" not in stderr
        assert sorted(tmp_path.iterdir()) == [path]

    def test_a_cut_last_frame(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = write(tmp_path / "cut.dump", melt(4, 5)[:-12])
        target = tmp_path / "out.mrec"
        assert self.run("convert", path, target) == 1
        assert "the file ends after 4 of the 5 rows of step 30" in capsys.readouterr().err
        assert len(molrec_convert.open(target).trajectory) == 3
        assert self.run("convert", path, tmp_path / "ok.mrec", "--allow-truncated") == 0
        assert self.run("convert", path, tmp_path / "no.mrec", "--strict") == 3
        assert not (tmp_path / "no.mrec").exists()


class TestCuts:
    def test_strict_refuses(self, tmp_path: Path) -> None:
        path = write(tmp_path / "cut.dump", melt(4, 5)[:-12])
        with pytest.raises(LossError, match="ends after 4 of the 5 rows"):
            molrec_convert.convert(path, tmp_path / "out.mrec", strict=True)

    def test_a_line_without_its_end_is_kept_and_reported(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", melt(2, 3)[:-1])
        record, report = read(path)
        assert len(list(record.trajectory)) == 2
        assert fates(report, "its last value may have been cut off")
        assert not report.truncations

    def test_a_value_cut_off_with_others_missing(self, tmp_path: Path) -> None:
        record, report = read(write(tmp_path / "a.dump", melt(2, 3)[: -1 - len(" -3.5")]))
        assert len(record.trajectory) in (1, 2)
        assert bool(report.truncations) is (len(record.trajectory) == 1)

    @pytest.mark.parametrize("kind", ["gz", "xz", "bz2"])
    def test_a_compressed_stream_cut_anywhere(self, kind: str, tmp_path: Path) -> None:
        text = melt(200, 20).encode()
        raw = __import__({"gz": "gzip", "xz": "lzma", "bz2": "bz2"}[kind]).compress(text)
        path = tmp_path / f"a.{kind}"
        for part in (0.3, 0.7, 0.95):
            path.write_bytes(raw[: int(len(raw) * part)])
            if kind == "bz2":  # nothing comes out of a block that is not whole
                with pytest.raises(FormatError, match="at least one whole frame"):
                    read(path)
                continue
            record, report = read(path)
            assert "cut short" in report.truncations[0]
            whole = read(write(tmp_path / "whole", text.decode()))[0]
            found = list(record.trajectory)
            assert found
            for state, expected in zip(found, whole.trajectory, strict=False):
                assert state.blocks == expected.blocks

    def test_a_cut_between_two_frames(self, tmp_path: Path) -> None:
        """The text ends with a whole frame, the stream does not."""
        raw = gzip.compress(melt(3, 4).encode())
        (tmp_path / "a.gz").write_bytes(raw[:-4])
        record, report = read(tmp_path / "a.gz")
        assert len(list(record.trajectory)) == 3
        assert len(report.truncations) == 1

    def test_damage_in_a_stream(self, tmp_path: Path) -> None:
        raw = bytearray(gzip.compress(melt(200, 20).encode()))
        raw[len(raw) // 2] ^= 0xFF
        (tmp_path / "a.gz").write_bytes(bytes(raw))
        with pytest.raises(FormatError, match="damaged gzip data"):
            stream(tmp_path / "a.gz")


class TestConversions:
    def test_what_never_changes_settles(self, tmp_path: Path) -> None:
        columns = "id type q x y z c_a mol"
        frames = [frame(n, [f"{i} 1 {i / 2} {i} {n} 0 {n // 4} 7" for i in (2, 3, 1)], columns) for n in range(12)]
        report = molrec_convert.convert(write(tmp_path / "a.dump", *frames), tmp_path / "a.mrec")
        record = molrec_convert.open(tmp_path / "a.mrec")
        assert set(record.system["atoms"]) == {"id", "type", "type_id", "charge", "mol_id"}
        assert set(record.trajectory.declaration.blocks) == {"atoms", "atom_c_a"}
        assert [state["atom_c_a"]["c_a"][0] for state in record.trajectory] == [n // 4 for n in range(12)]
        assert record.trajectory[11]["atoms"]["y"].tolist() == [11, 11, 11]
        assert not report.lossy

    def test_started_over_where_ids_change_late(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dump_batch.RowReader.jobs, "__defaults__", (1,))
        sets = [[1, 2, 3]] * 6 + [[1, 2, 9]] + [[1, 2, 3]] * 3
        texts = [frame(n, [f"{i} 1 {i} {n} 0" for i in ids]) for n, ids in enumerate(sets)]
        report = Report()
        molrec_convert.convert(write(tmp_path / "a.dump", *texts), tmp_path / "a.mrec", report=report)
        record = molrec_convert.open(tmp_path / "a.mrec")
        assert [state["atoms"]["id"].tolist() for state in record.trajectory] == sets
        assert fates(report, "started over")

    def test_equal_through_the_store(self, tmp_path: Path) -> None:
        random = np.random.default_rng(1)
        counts = random.integers(0, 9, 30)
        texts = [
            frame(
                n,
                [f"{i} {1 + i % 3} {n} {i} 0 {i % 2}" for i in random.permutation(9)[: counts[n]] + 1],
                "id type x y z c_a",
            )
            for n in range(30)
        ]
        path = write(tmp_path / "a.dump", *texts)
        molrec_convert.convert(path, tmp_path / "a.mrec")
        stored, source = molrec_convert.open(tmp_path / "a.mrec"), read(path)[0]
        for one, two in zip(stored.trajectory, source.trajectory, strict=True):
            assert one.blocks == two.blocks
            assert (one.step, one.box) == (two.step, two.box)
