"""Where the columns of a dump go, atoms that come and go, and slices that equal the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_texts import column, fates, frame, read, write
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_convert.model import Record
from molrec_convert.model.names import STATE_COLUMNS
from molrec_convert.text import rows as text_rows
from molrec_lammps.dump import batch as dump_batch
from molrec_lammps.dump import batch as dump_units
from molrec_lammps.dump import record as dump_record
from molrec_lammps.dump import rows as dump_rows


class TestPlaces:
    """Where columns go: state to the trajectory, the rest by what changes."""

    def frames(self, n: int, values: Any, columns: str = "id type x y z c_a") -> list[str]:
        return [frame(k, [f"2 1 0 0 {k} {values(k)}", f"1 2 0 0 {k} 3"], columns) for k in range(n)]

    def declared(self, record: Record) -> dict[str, tuple[str, ...]]:
        return {name: tuple(block.columns) for name, block in record.trajectory.declaration.blocks.items()}

    def test_what_never_changes_costs_one_update(self, tmp_path: Path) -> None:
        record, _ = read(write(tmp_path / "a.dump", *self.frames(6, lambda k: 7)))
        assert self.declared(record) == {
            "atoms": ("x", "y", "z"),
            "atom_types": ("type_id", "type"),
            "atom_c_a": ("c_a",),
        }
        blocks = record.trajectory.declaration.blocks
        assert [blocks[n].settles for n in ("atoms", "atom_types", "atom_c_a")] == [None, "atoms", "atoms"]
        assert {block.rows for block in blocks.values()} == {2}
        batches = list(record.trajectory.batches())
        assert [b.blocks["atom_c_a"].frames.tolist() for b in batches if "atom_c_a" in b.blocks] == [[0]]
        assert record.system["atoms"]["id"].tolist() == [1, 2]

    @pytest.mark.parametrize(("changes", "aligned"), [(range(1, 6), False), ([1, 3, 5], False), ([2, 4], True)])
    def test_half_of_the_first_comparisons_decide(self, changes: Any, aligned: bool, tmp_path: Path) -> None:
        values = np.cumsum([k in changes for k in range(6)])
        record, _ = read(write(tmp_path / "a.dump", *self.frames(6, lambda k: values[k])))
        assert ("atom_c_a" in self.declared(record)) is aligned
        assert ("c_a" in self.declared(record)["atoms"]) is not aligned
        for k in range(6):
            assert column(record, k, "c_a").tolist() == [3, values[k]]

    def test_state_columns_stay_though_they_never_change(self, tmp_path: Path) -> None:
        columns = "id vx vy vz fx fy fz ix iy iz x y z"
        frames = [frame(k, ["1 1 1 1 2 2 2 0 0 0 1 1 1"], columns) for k in range(4)]
        record, _ = read(write(tmp_path / "a.dump", *frames))
        assert self.declared(record) == {"atoms": STATE_COLUMNS}

    def test_a_single_frame(self, tmp_path: Path) -> None:
        text = frame(0, ["1 2 C 12 0.5 4 0 0 0 9"], "id type element mass q mol x y z c_a")
        record, _ = read(write(tmp_path / "a.dump", text))
        assert list(record.system["atoms"]) == ["id", "type_id", "type", "element", "charge", "mol_id", "mass"]
        assert self.declared(record) == {"atoms": ("x", "y", "z", "c_a")}

    def test_columns_that_come_and_go_are_null_in_between(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "a.dump",
            frame(0, ["1 1 0 0 0", "2 1 0 0 0"]),
            frame(1, ["2 1 0 0 0 5 -1", "1 1 0 0 0 6 0"], "id type x y z c_a vx"),
            frame(2, ["1 1 0 0 0", "2 1 0 0 0"]),
        )
        record, report = read(path)
        states = list(record.trajectory)
        block = next(
            name for name in ("atoms", "atom_c_a") if "c_a" in record.trajectory.declaration.blocks[name].columns
        )
        assert [state[block].validity("c_a").tolist() for state in states] == [[False] * 2, [True] * 2, [False] * 2]
        assert states[1][block]["c_a"].tolist() == [6, 5]
        assert states[1]["atoms"]["vx"].tolist() == [0, -1]
        assert states[2]["atoms"].validity("vx").tolist() == [False, False]
        assert fates(report, "some frames have no columns c_a vx")

    def test_types_that_change_late(self, tmp_path: Path) -> None:
        frames = [frame(k, [f"1 {1 + (k >= 8)} 0 0 {k}", f"2 1 0 0 {k}"]) for k in range(10)]
        record, _ = read(write(tmp_path / "a.dump", *frames))
        states = list(record.trajectory)
        assert [state["atom_types"]["type"].tolist() for state in states] == [["1", "1"]] * 8 + [["2", "1"]] * 2


class TestAtomsThatChange:
    def texts(self) -> list[str]:
        """Frames of four atoms; in the middle of the run one is replaced by another."""
        return [
            frame(k, [f"{i} {i % 2 + 1} {i} 0 {k}" for i in ([4, 2, 1, 3] if k < 4 or k > 5 else [4, 2, 9, 3])])
            for k in range(10)
        ]

    def test_seen_in_the_first_frames(self, tmp_path: Path) -> None:
        record, report = read(write(tmp_path / "a.dump", *self.texts()))
        states = list(record.trajectory)
        assert [state["atoms"]["id"].tolist() for state in states] == [[1, 2, 3, 4]] * 4 + [[2, 3, 4, 9]] * 2 + [
            [1, 2, 3, 4]
        ] * 4
        assert states[4]["atoms"]["x"].tolist() == [2, 3, 4, 9]
        assert fates(report, "their ids change though their number does not")
        assert "atoms" not in record.system

    def test_seen_only_later(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from molrec_convert.errors import LayoutChanged

        monkeypatch.setattr(dump_batch, "JOB_BYTES", 1)
        monkeypatch.setattr(dump_batch.RowReader.jobs, "__defaults__", (1,))
        path = write(tmp_path / "a.dump", *self.texts())
        record, report = read(path)
        assert "atoms" in record.system
        with pytest.raises(LayoutChanged, match="step 4 has other ids than the first") as caught:
            list(record.trajectory.batches(batch_bytes=1))
        again, report = read(path, hints=[caught.value.hint])
        assert [len(state["atoms"]["id"]) for state in again.trajectory] == [4] * 10
        assert again.trajectory[5]["atoms"]["id"].tolist() == [2, 3, 4, 9]
        assert fates(report, "their ids change")

    def test_in_the_last_frame_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dump_batch.RowReader.jobs, "__defaults__", (1,))
        record, _ = read(write(tmp_path / "a.dump", *self.texts()[:6]))
        assert record.trajectory[5]["atoms"]["id"].tolist() == [2, 3, 4, 9]

    def test_without_ids_the_order_of_the_file_stays(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "a.dump",
            frame(0, ["2 5 0 0", "1 3 0 0"], "type x y z"),
            frame(1, ["1 7 0 0", "2 8 0 0"], "type x y z"),
        )
        record, report = read(path)
        assert [column(record, k, "x").tolist() for k in (0, 1)] == [[5, 3], [7, 8]]
        assert [column(record, k, "type_id").tolist() for k in (0, 1)] == [[2, 1], [1, 2]]
        assert fates(report, "no column id")
        path = write(
            tmp_path / "b.dump", frame(0, ["2 5 0 0"], "type x y z"), frame(1, ["1 7 0 0", "2 8 0 0"], "type x y z")
        )
        record, _ = read(path)
        assert record.trajectory[1]["atoms"]["x"].tolist() == [7, 8]

    def test_frames_without_atoms_only(self, tmp_path: Path) -> None:
        record, _ = read(write(tmp_path / "a.dump", frame(0, []), frame(1, [])))
        assert [state["atoms"].count for state in record.trajectory] == [0, 0]
        assert record.system["atoms"].count == 0


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dumps")
    random = np.random.default_rng(5)
    frames = []
    for number in range(40):
        rows = [
            f"{i} {1 + (i + number // 17) % 3} {i}.5 {number} -{i}e-3 {number // 7}" for i in random.permutation(9) + 1
        ]
        box = ("BOX BOUNDS pp pp pp", f"0 {9 + number // 11}\n0 9\n0 9\n")
        frames.append(frame(number, rows, "id type x y z c_a", box=box, time=number / 8))
    fixed = write(folder / "fixed.dump", *frames)
    import gzip

    (folder / "fixed.dump.gz").write_bytes(gzip.compress(fixed.read_bytes()))
    ragged = write(
        folder / "ragged.dump",
        *(frame(n, [f"{i} 1 {i} {n} 0 2" for i in range(n % 4, 0, -1)], "id type x y z c_a") for n in range(40)),
    )
    return {"fixed": fixed, "stream": folder / "fixed.dump.gz", "ragged": ragged}


class TestSlices:
    """Any slice, any columns, any size of batch: the same frames."""

    @pytest.mark.parametrize("name", ["fixed", "stream", "ragged"])
    @given(
        start=st.integers(0, 42),
        stop=st.one_of(st.none(), st.integers(0, 45)),
        step=st.integers(1, 9),
        batch=st.sampled_from([1, 700, 3000, 2**25]),
        columns=st.sampled_from([None, ("x",), ("c_a", "z"), ("type",), ()]),
    )
    @settings(max_examples=40)
    def test_equal_to_the_whole(
        self,
        name: str,
        paths: dict[str, Path],
        start: int,
        stop: int | None,
        step: int,
        batch: int,
        columns: tuple[str, ...] | None,
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("molrec_lammps.dump.source.MEMORY_BYTES", 500)
            record, _ = read(paths[name])
            trajectory = record.trajectory
            whole = list(trajectory)
            declaration = trajectory.declaration.select(columns)
            expected = whole[start:stop:step]
            number, state = 0, {}
            for part in trajectory.batches(start, stop, step, columns, batch):
                for position in range(part.n_frames):
                    resolved = part.frame(position, declaration)
                    state.update(resolved.blocks)
                    assert resolved.step == expected[number].step
                    assert resolved.time == expected[number].time
                    for block, declared in declaration.blocks.items():
                        assert set(state[block]) == set(declared.columns)
                        for key in declared.columns:
                            assert state[block].columns[key] == expected[number][block].columns[key]
                    if part.box is not None and not number:
                        assert resolved.box == expected[number].box
                    number += 1
            assert number == len(expected)

    @pytest.mark.parametrize("name", ["fixed", "stream", "ragged"])
    def test_single_frames(self, name: str, paths: dict[str, Path]) -> None:
        record, _ = read(paths[name])
        whole = list(record.trajectory)
        for number in (39, 0, 17, 18, 3):
            state = record.trajectory[number]
            assert state.blocks == whole[number].blocks
            assert (state.box, state.step, state.time) == (whole[number].box, number, whole[number].time)

    def test_steps_and_times_cost_no_parsing(self, paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
        record, _ = read(paths["fixed"])
        monkeypatch.setattr(dump_batch, "parse_rows", None)
        assert record.trajectory.steps.tolist() == list(range(40))
        assert record.trajectory.times.tolist() == [n / 8 for n in range(40)]
        assert len(record.trajectory) == 40

    def test_columns_that_are_not_asked_for_are_not_parsed(
        self, paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record, _ = read(paths["fixed"])
        asked = []
        parse = dump_rows.parse_rows

        def spy(text: Any, spans: Any, names: Any, wanted: Any, finite: Any) -> Any:
            asked.append(sorted(wanted))
            return parse(text, spans, names, wanted, finite)

        monkeypatch.setattr(dump_batch, "parse_rows", spy)
        list(record.trajectory.batches(20, columns=["x"]))
        assert asked
        assert all(names == ["id", "x"] for names in asked)

    @pytest.mark.parametrize(("unit", "longest"), [(300, 2**22), (300, 100), (2**20, 2**22)])
    def test_however_the_text_is_cut(
        self, unit: int, longest: int, paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("fixed", "ragged"):
            expected = list(read(paths[name])[0].trajectory)
            with monkeypatch.context() as patch:
                patch.setattr(dump_units, "_UNIT_BYTES", unit)
                patch.setattr(dump_units, "_LONGEST_UNIT", longest)
                found = list(read(paths[name])[0].trajectory)
            assert [state.blocks for state in found] == [state.blocks for state in expected]

    def test_large_frames_one_at_a_time(self, paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("fixed", "stream", "ragged"):
            expected, _ = read(paths[name])
            states = list(expected.trajectory)
            with monkeypatch.context() as patch:
                patch.setattr(dump_batch, "LARGE_FRAME", 0)
                patch.setattr(dump_record, "LARGE_FRAME", 0)
                record, _ = read(paths[name])
                sizes = [batch.n_frames for batch in record.trajectory.batches(batch_bytes=1)]
                assert sum(sizes) == 40
                assert name == "ragged" or max(sizes) == 1
                again = list(read(paths[name])[0].trajectory)
            assert [state.blocks for state in again] == [state.blocks for state in states]
            assert record.trajectory.declaration.blocks["atoms"] == expected.trajectory.declaration.blocks["atoms"]

    def test_plain_python_gives_the_same(self, paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
        expected = list(read(paths["fixed"])[0].trajectory)
        monkeypatch.setattr(text_rows, "library", lambda: None)
        assert [state.blocks for state in read(paths["fixed"])[0].trajectory] == [state.blocks for state in expected]

    def test_threads_are_gone_when_nobody_reads_on(self, paths: dict[str, Path]) -> None:
        import threading

        record, _ = read(paths["fixed"])
        before = threading.active_count()
        batches = record.trajectory.batches(batch_bytes=1)
        next(batches)
        batches.close()
        assert threading.active_count() == before
