"""Dumps in several files, restarts, units, times and elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dump_texts import column, fates, frame, melt, positions, read, write

from molrec_convert.errors import FormatError, UsageError
from molrec_lammps.dump import batch as dump_batch


class TestFiles:
    def test_in_step_order(self, tmp_path: Path) -> None:
        one = write(tmp_path / "one.dump", *(frame(n, [f"1 1 {n} 0 0"]) for n in (0, 10, 20, 30)))
        two = write(tmp_path / "two.dump", *(frame(n, [f"1 1 {n} 0 0"]) for n in (15, 40, 50)))
        for order in ([one, two], [two, one]):
            record, report = read(order)
            assert record.trajectory.steps.tolist() == [0, 10, 15, 20, 30, 40, 50]
            assert [column(record, n, "x")[0] for n in range(7)] == [0, 10, 15, 20, 30, 40, 50]
            assert not report.lossy

    @pytest.mark.parametrize("together", [True, False])
    def test_frames_that_come_again_as_they_were(self, tmp_path: Path, together: bool) -> None:
        """What a restart writes a second time, in another order of atoms, is there once."""
        first = [frame(n, [f"1 1 {n} 0 0", "2 1 5 5 5"]) for n in (0, 10, 20)]
        second = [frame(n, ["2 1 5 5 5", f"1 1 {n} 0 0"], units="metal" if n == 20 else None) for n in (20, 30)]
        if together:
            paths = [write(tmp_path / "a.dump", *first, *second)]
        else:
            paths = [write(tmp_path / "a.dump", *first), write(tmp_path / "b.dump", *second)]
        for order in (paths, paths[::-1]):
            record, report = read(order)
            assert record.trajectory.steps.tolist() == [0, 10, 20, 30]
            assert [column(record, n, "x")[0] for n in range(4)] == [0, 10, 20, 30]
            assert any("the frame of step 20 come again unchanged" in text for text in report.warnings)
            assert not report.lossy

    @pytest.mark.parametrize("together", [True, False])
    def test_runs_that_overlap(self, tmp_path: Path, together: bool) -> None:
        """Nothing is thrown away before the user says which run counts."""
        first = [frame(s, [f"1 1 {n} 0 0"]) for n, s in enumerate((0, 10, 20, 30))]
        second = [frame(s, [f"1 1 {n} 0 0"]) for n, s in enumerate((20, 35, 50), 4)]
        if together:
            paths = [write(tmp_path / "a.dump", *first, *second)]
        else:
            paths = [write(tmp_path / "a.dump", *first), write(tmp_path / "b.dump", *second)]
        with pytest.raises(FormatError, match=r"step 20 again, with other rows.*--steps index.*--steps last, or first"):
            read(paths)
        for which, steps, values in (
            ("last", [0, 10, 20, 35, 50], [0, 1, 4, 5, 6]),
            ("first", [0, 10, 20, 30, 35, 50], [0, 1, 2, 3, 5, 6]),
        ):
            record, report = read(paths, steps=which)
            assert record.trajectory.steps.tolist() == steps
            assert [column(record, n, "x")[0] for n in range(len(steps))] == values
            assert fates(report, f"--steps {which} takes those of")
        record, report = read(paths, steps="index")
        assert len(record.trajectory) == 7
        assert not report.lossy

    @pytest.mark.parametrize("name", ["rr.dump", "same.dump"])
    def test_two_runs_in_one_file(self, fixtures: Path, name: str) -> None:
        path = fixtures / "faults" / name
        with pytest.raises(FormatError, match=r"step 0 again, with other rows.*--steps index"):
            read(path)
        record, report = read(path, steps="index")
        assert [state["atoms"]["x"][0] for state in record.trajectory] == (
            [1, 2, 10, 20] if name == "rr.dump" else [1, 2]
        )
        assert not report.lossy

    def test_columns_of_frames_that_give_way(self, tmp_path: Path) -> None:
        """What only frames had that a later run replaced is no column any more, and is named."""
        one = write(tmp_path / "a.dump", *(frame(n, ["1 2 0 0 0"], "type mol xu yu zu") for n in (0, 10)))
        two = write(tmp_path / "b.dump", *(frame(n, ["1 1 5 0 0"]) for n in (0, 10)))
        record, report = read([one, two], steps="last")
        assert column(record, 1, "x").tolist() == [5]
        assert record.system["atoms"]["id"].tolist() == [1]
        assert sorted(record.trajectory.declaration.blocks["atoms"].columns) == ["x", "y", "z"]
        assert fates(report, f"{one}: --steps last takes those of a later run, without mol xu yu zu")
        path = write(tmp_path / "d.dump", frame(0, ["1 0 0 0"], "type x y z"), frame(0, ["1 1 7 0 0"]))
        assert column(read(path, steps="last")[0], 0, "id").tolist() == [1]

    def test_steps_that_go_back_for_good(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", *(frame(s, [f"1 1 {n} 0 0"]) for n, s in enumerate((0, 10, 20, 5, 15))))
        with pytest.raises(FormatError, match=r"line 32: found step 5 after step 20.*--steps index"):
            read(path)
        assert read(path, steps="last")[0].trajectory.steps.tolist() == [0, 5, 15]
        record, _ = read(path, steps="index")
        assert record.trajectory.steps.tolist() == [0, 1, 2, 3, 4]
        states = list(record.trajectory)
        assert [state.meta["source_step"] for state in states] == [0, 10, 20, 5, 15]
        assert [state["atoms"]["x"][0] for state in states] == [0, 1, 2, 3, 4]

    def test_one_file_for_each_step(self, tmp_path: Path) -> None:
        paths = [write(tmp_path / f"dump.{n}.lammpstrj", frame(n, [f"1 1 {n} 0 0"])) for n in (0, 100, 20, 1000)]
        record, _ = read(sorted(paths))
        assert record.trajectory.steps.tolist() == [0, 20, 100, 1000]
        assert [column(record, n, "x")[0] for n in range(4)] == [0, 20, 100, 1000]
        record, _ = read(sorted(paths), steps="index")
        assert [column(record, n, "x")[0] for n in range(4)] == [0, 20, 100, 1000]

    def test_very_many_files(self, tmp_path: Path) -> None:
        paths = [write(tmp_path / f"d.{n:05}", frame(n, [f"1 1 {n} 0 0"])) for n in range(1500)]
        record, _ = read(paths)
        assert np.array_equal(
            np.concatenate([b.blocks["atoms"].columns["x"] for b in record.trajectory.batches()]), np.arange(1500.0)
        )
        record.close()

    def test_parts_of_single_processors_are_not_taken_for_a_restart(self, tmp_path: Path) -> None:
        one = write(tmp_path / "d.0", frame(0, ["1 1 0 0 0"]))
        two = write(tmp_path / "d.1", frame(0, ["2 1 0 0 0"]))
        record, report = read([one, two])
        assert column(record, 0, "id").tolist() == [1, 2]
        assert not report.losses()

    def test_a_frame_cut_in_the_middle_of_a_chain(self, tmp_path: Path) -> None:
        one = write(tmp_path / "one.dump", melt(3, 4)[:-20])
        two = write(tmp_path / "two.dump", melt(3, 4, first=20))
        record, report = read([one, two])
        assert record.trajectory.steps.tolist() == [0, 10, 20, 30, 40]
        assert len(report.truncations) == 1

    def test_compressed_and_plain_together(self, tmp_path: Path) -> None:
        import bz2

        one = tmp_path / "one.dump.bz2"
        one.write_bytes(bz2.compress(melt(2, 5).encode()))
        two = write(tmp_path / "two.dump", melt(2, 5, first=20))
        record, _ = read([one, two])
        assert np.array_equal(positions(record, 1), positions(read(write(tmp_path / "x", melt(2, 5)))[0], 1))
        assert len(list(record.trajectory)) == 4


class TestUnitsAndTimes:
    def test_units_are_never_guessed(self, tmp_path: Path) -> None:
        plain = write(tmp_path / "a.dump", frame(0, ["1 1 0 0 0"]))
        record, report = read(plain)
        assert "units" not in record.system.meta
        assert fates(report, "leaves them open; --units names them")
        record, report = read(plain, units="metal")
        assert record.system.meta["units"] == {"preset": "metal"}
        assert not fates(report, "leaves them open")

    def test_stated_by_the_dump(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", frame(0, ["1 1 0 0 0"], units="real"), frame(1, ["1 1 0 0 0"], units="real"))
        assert read(path)[0].system.meta["units"] == {"preset": "real"}
        record, report = read(path, units="metal")
        assert record.system.meta["units"] == {"preset": "metal"}
        assert fates(report, "the dump says units real")
        path = write(tmp_path / "b.dump", frame(0, ["1 1 0 0 0"], units="real"), frame(1, ["1 1 0 0 0"], units="lj"))
        with pytest.raises(FormatError, match="line 14: found units lj, expected real"):
            read(path)
        path = write(tmp_path / "c.dump", frame(0, ["1 1 0 0 0"], units="furlong"))
        with pytest.raises(FormatError, match="furlong"):
            read(path)

    def test_time_is_all_or_nothing(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "a.dump", *(frame(n, ["1 1 0 0 0"], time=t) for n, t in enumerate(["0.5", "1e-3", "2"]))
        )
        assert read(path)[0].trajectory.times.tolist() == [0.5, 1e-3, 2]
        path = write(tmp_path / "b.dump", frame(0, ["1 1 0 0 0"], time=1), frame(1, ["1 1 0 0 0"]))
        record, report = read(path)
        assert record.trajectory.times is None
        assert fates(report, "1 of 2 frames state a time")


class TestElements:
    ROWS = ("1 1 C 12.011 0 0 0", "2 2 C 1.008 0 0 0")

    def test_c_throughout_with_several_types_is_the_default(self, tmp_path: Path) -> None:
        text = frame(0, ["1 1 C 0 0 0", "2 2 C 0 0 0"], "id type element x y z")
        record, report = read(write(tmp_path / "a.dump", text))
        assert column(record, 0, "element_text").tolist() == ["C", "C"]
        assert "element" not in record.system["atoms"]
        assert fates(report, "LAMMPS' default")

    def test_c_throughout_with_another_mass_is_too(self, tmp_path: Path) -> None:
        text = frame(0, ["1 C 39.9 0 0 0", "2 C 39.9 0 0 0"], "id element mass x y z")
        assert column(read(write(tmp_path / "a.dump", text))[0], 0, "element_text").tolist() == ["C", "C"]

    def test_carbon_is_carbon(self, tmp_path: Path) -> None:
        text = frame(0, ["1 1 C 12.0107 0 0 0", "2 1 C 12.0107 0 0 0"], "id type element mass x y z")
        assert column(read(write(tmp_path / "a.dump", text))[0], 0, "element").tolist() == ["C", "C"]

    def test_given_by_the_user(self, tmp_path: Path) -> None:
        text = frame(0, self.ROWS, "id type element mass x y z")
        record, report = read(write(tmp_path / "a.dump", text), elements=("C", "H"))
        assert column(record, 0, "element").tolist() == ["C", "H"]
        assert column(record, 0, "element_text").tolist() == ["C", "C"]
        assert fates(report, "derived: atoms/element")
        with pytest.raises(UsageError, match="1 symbols, but there are atoms of type 2"):
            read(tmp_path / "a.dump", elements=("C",))

    def test_a_type_nobody_named(self, tmp_path: Path) -> None:
        frames = [frame(n, [f"1 {1 + (n == 9)} 0 0 {n}"]) for n in range(10)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dump_batch.RowReader.jobs, "__defaults__", (1,))
            record, _ = read(write(tmp_path / "a.dump", *frames), elements=("C",))
        with pytest.raises(FormatError, match="atom type 2 in the frame of step 9"):
            list(record.trajectory.batches())

    def test_from_masses_on_request_only(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", frame(0, self.ROWS, "id type element mass x y z"))
        assert "element" not in read(path)[0].system["atoms"]
        record, report = read(path, guess_elements=True)
        assert column(record, 0, "element").tolist() == ["C", "H"]
        assert fates(report, "H for atom type 2: from its mass")

    def test_what_is_asked_for_and_cannot_be(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", frame(0, ["1 0 0 0"], "id x y z"))
        with pytest.raises(UsageError, match="--elements: the dump has no column type"):
            read(path, elements=("C",))
        assert fates(read(path, guess_elements=True)[1], "--guess-elements: the dump has no column type")
        path = write(tmp_path / "b.dump", frame(0, ["1 1 0 0 0"]))
        assert fates(read(path, guess_elements=True)[1], "--guess-elements: nothing states the masses")

    def test_from_labels_that_are_symbols(self, tmp_path: Path) -> None:
        text = frame(0, ["1 1 O 0 0 0", "2 2 Hx 0 0 0"], "id type typelabel x y z")
        record, _ = read(write(tmp_path / "a.dump", text))
        atoms = record.system["atoms"]
        assert atoms["element"][0] == "O"
        assert atoms.validity("element").tolist() == [True, False]
