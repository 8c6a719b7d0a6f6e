"""What a run adds to its dump: topology, thermo output, times, labels and masses, joined dumps."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from dump_texts import column, fates, frame, positions, read, write

from molrec_convert.errors import LayoutChanged
from molrec_convert.model import Block, Column, Frame
from molrec_convert.report import Fate
from molrec_lammps.dump import batch as dump_batch
from molrec_lammps.dump.record import RunFacts, Thermo
from molrec_lammps.log.metrics import Clock


def topology() -> Frame:
    """Six atoms in three pairs, an angle, and a table that names no atoms."""
    ids = np.array([1, 2, 3, 4, 7, 9], dtype=np.uint64)
    atoms = Block(
        {
            "id": ids,
            "type": np.array(["1", "2", "1", "2", "1", "2"], dtype=np.dtypes.StringDType()),
            "type_id": np.array([1, 2, 1, 2, 1, 2], dtype=np.uint64),
            "mass": Column(np.array([1.0, 2, 1, 2, 1, 2]), np.array([True] * 5 + [False])),
            "charge": np.arange(6) / 10,
        }
    )
    ends = {"atomi": np.array([0, 2, 4], dtype=np.uint64), "atomj": np.array([1, 3, 5], dtype=np.uint64)}
    bonds = Block({**ends, "type_id": np.array([1, 1, 2], dtype=np.uint64)})
    five = Block(
        {"site": Column(np.array([5, 1], dtype=np.uint64), np.array([True, False]))}, targets={"site": "atoms"}
    )
    table = Block({"energy": np.array([1.5])})
    return Frame({"atoms": atoms, "bonds": bonds, "sites": five, "table": table})


def rows(ids: list[int], shift: float = 0) -> list[str]:
    return [f"{i} {2 - i % 2 if i < 5 else 1 + (i == 9)} {i + shift} 0 0" for i in reversed(ids)]


ALL = [1, 2, 3, 4, 7, 9]


class TestSystem:
    def test_of_all_atoms(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", *(frame(n, rows(ALL, n)) for n in range(3)))
        record, report = read(path, RunFacts(system=topology()))
        atoms = record.system["atoms"]
        assert atoms["id"].tolist() == ALL
        assert atoms["charge"].tolist() == [0, 0.1, 0.2, 0.3, 0.4, 0.5]
        assert atoms.validity("mass").tolist() == [True] * 5 + [False]
        assert "type_id" not in atoms
        assert record.trajectory[2]["atom_types"]["type_id"].tolist() == [1, 2, 1, 2, 1, 2]
        assert record.system["bonds"]["atomj"].tolist() == [1, 3, 5]
        assert record.system["table"]["energy"].tolist() == [1.5]
        assert fates(report, "the first frame agrees")
        record.system.check("system")

    def test_of_a_subset(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", *(frame(n, rows([2, 3, 4, 9])) for n in range(2)))
        record, report = read(path, RunFacts(system=topology()))
        assert record.system["atoms"]["id"].tolist() == [2, 3, 4, 9]
        assert record.system["atoms"]["charge"].tolist() == [0.1, 0.2, 0.3, 0.5]
        assert (record.system["bonds"]["atomi"].tolist(), record.system["bonds"]["atomj"].tolist()) == ([1], [2])
        assert record.system["sites"]["site"][0] == 3
        assert record.system["sites"].validity("site").tolist() == [True, False]
        assert fates(report, "restricted to the 4 atoms of the dump; the data file has 6")
        assert fates(report, "dropped: system/bonds (2 of 3 rows")
        record.system.check("system")

    def test_the_dump_counts_where_both_say_something(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "a.dump", *(frame(n, [f"{i} {i} 0 0 0.25" for i in ALL], "id x y z q") for n in range(2))
        )
        record, report = read(path, RunFacts(system=topology()))
        assert "charge" not in record.system["atoms"]
        assert column(record, 0, "charge").tolist() == [0.25] * 6
        assert fates(report, "the data file says otherwise for 6 of 6 atoms")
        assert record.system["atoms"]["type_id"].tolist() == [1, 2, 1, 2, 1, 2]

    def test_atoms_the_data_file_does_not_have(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", *(frame(n, rows([1, 2, 4, 5])) for n in range(2)))
        record, report = read(path, RunFacts(system=topology()))
        atoms = record.system["atoms"]
        assert atoms.validity("charge").tolist() == [True, True, True, False]
        assert fates(report, "1 atoms of the dump are not in the data file")

    def test_a_single_frame(self, tmp_path: Path) -> None:
        record, _ = read(write(tmp_path / "a.dump", frame(5, rows(ALL))), RunFacts(system=topology()))
        assert list(record.system["atoms"])[:3] == ["id", "type_id", "type"]
        assert set(record.system["atoms"]) == {"id", "type", "type_id", "mass", "charge"}
        record.system.check("system")

    def test_a_dump_without_ids_cannot_be_put_beside_it(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", *(frame(n, ["1 0 0 0"] * 6, "type x y z") for n in range(2)))
        record, report = read(path, RunFacts(system=topology()))
        assert "atoms" not in record.system
        assert "bonds" not in record.system
        assert fates(report, "dropped: atoms bonds sites of the data file")


class TestRelationsThatMove:
    SETS = ([1, 2, 3, 4, 7, 9], [1, 2, 3, 4, 7, 9], [1, 2, 4, 7, 9], [1, 2, 4, 7, 9], [], [7, 9], [1, 2, 3, 4, 7, 9])

    @pytest.mark.parametrize("job", [1, 2**23])
    def test_restated_where_ids_change(self, job: int, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", *(frame(n, rows(ids)) for n, ids in enumerate(self.SETS)))
        record, report = read(path, RunFacts(system=topology()))
        assert set(record.system.blocks) == {"table"}
        stated: list[tuple[int, list[list[int]]]] = []
        first = 0
        for batch in record.trajectory.batches(batch_bytes=job):
            updates = batch.blocks.get("bonds")
            if updates is not None:
                for k, place in enumerate(updates.frames.tolist()):
                    own = updates.rows_of(k)
                    pairs = np.stack([updates.columns["atomi"][own], updates.columns["atomj"][own]], axis=1)
                    stated.append((first + place, pairs.tolist()))
            first += batch.n_frames
        assert stated == [
            (0, [[0, 1], [2, 3], [4, 5]]),
            (2, [[0, 1], [3, 4]]),
            (4, []),
            (5, [[0, 1]]),
            (6, [[0, 1], [2, 3], [4, 5]]),
        ]
        assert fates(report, "dropped: trajectory/bonds (6 rows left out")

    def test_what_the_data_file_says_follows_the_ids(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", *(frame(n, rows(ids)) for n, ids in enumerate(self.SETS)))
        record, _ = read(path, RunFacts(system=topology()))
        states = list(record.trajectory)
        assert states[2]["atoms"]["charge"].tolist() == [0, 0.1, 0.3, 0.4, 0.5]
        assert states[5]["atoms"].validity("mass").tolist() == [True, False]
        assert states[0]["sites"].validity("site").tolist() == [True, False]
        for state in states:
            state.check("frame")

    def test_ids_without_any_atom_in_the_data_file(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", frame(0, rows([1])), frame(1, ["100 1 0 0 0", "200 1 0 0 0"]))
        record, _ = read(path, RunFacts(system=topology()))
        assert record.trajectory[1]["bonds"].count == 0
        assert record.trajectory[1]["atoms"].validity("charge").tolist() == [False, False]


class TestThermoAndTime:
    def test_values_where_the_log_has_the_step(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", *(frame(n * 10, rows(ALL)) for n in range(4)))
        thermo = Thermo(np.array([0, 5, 20]), {"pe": np.array([1.5, 2, math.inf]), "c_x": np.array([0.1, 0.2, 0.3])})
        record, report = read(path, RunFacts(thermo=thermo))
        states = list(record.trajectory)
        assert [state.meta.get("pe") for state in states][::2] == [1.5, math.inf]
        assert "pe" not in states[1].meta
        assert states[2].meta["c_x"] == 0.3
        assert record.trajectory.declaration.meta["pe"].dtype == "f64"
        assert math.isnan(record.trajectory.declaration.meta["pe"].fill)
        assert fates(report, "pe c_x for 2 of 4 frames")
        # rows at other steps are in metrics, which the run's reader writes
        assert not report.losses()

    def test_a_log_of_another_run(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", frame(3, rows(ALL)))
        record, report = read(path, RunFacts(thermo=Thermo(np.array([0, 5]), {"pe": np.array([1.0, 2])})))
        assert not record.trajectory.declaration.meta
        assert any("none of the steps of the dump" in text for text in report.warnings)

    def test_time_from_the_timestep(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", *(frame(n * 10, rows(ALL)) for n in range(3)))
        record, report = read(path, RunFacts(clock=Clock.even(0.005)))
        assert record.trajectory.times.tolist() == [0, 10 * 0.005, 20 * 0.005]
        assert fates(report, "derived: trajectory/time")
        path = write(tmp_path / "b.dump", *(frame(n * 10, rows(ALL), time=n + 100) for n in range(3)))
        assert read(path, RunFacts(clock=Clock.even(0.005)))[0].trajectory.times.tolist() == [100, 101, 102]

    def test_frames_numbered_by_their_order_have_neither(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", frame(10, rows(ALL)), frame(5, rows(ALL)))
        thermo = Thermo(np.array([0, 1]), {"pe": np.array([1.0, 2])})
        record, report = read(path, RunFacts(thermo=thermo, clock=Clock.even(0.5)), steps="index")
        assert record.trajectory.times is None
        assert list(record.trajectory.declaration.meta) == ["source_step"]
        assert any("thermo output is in metrics only" in text for text in report.warnings)


class TestTypes:
    def test_labels_and_masses_by_type(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", *(frame(n, rows(ALL)) for n in range(2)))
        facts = RunFacts(type_labels={1: "O", 2: "Hw"}, masses={1: 15.999, 2: 1.008}, units="real")
        record, report = read(path, facts)
        state = record.trajectory[0]
        assert state["atom_types"]["type"].tolist() == ["O", "Hw"] * 3
        assert state["atom_mass"]["mass"].tolist() == [15.999, 1.008] * 3
        assert state["atom_types"]["element"].tolist() == ["O", None] * 3
        assert state["atom_types"].validity("element").tolist() == [True, False] * 3
        assert record.system.meta["units"] == {"preset": "real"}
        assert fates(report, "derived: atoms/mass")

    def test_a_dump_that_states_masses_counts(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", frame(0, ["1 1 2.5 0 0 0"], "id type mass x y z"))
        assert column(read(path, RunFacts(masses={1: 7.0}))[0], 0, "mass").tolist() == [2.5]

    def test_units_of_the_dump_count_before_those_of_the_run(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.dump", frame(0, rows(ALL), units="metal"))
        record, report = read(path, RunFacts(units="real"))
        assert record.system.meta["units"] == {"preset": "metal"}
        assert fates(report, "the run units real")


class TestJoined:
    """Several dumps of one group: their columns are joined by step and id."""

    def first(self, tmp_path: Path, steps: list[int]) -> Path:
        return write(tmp_path / "a.dump", *(frame(s, rows(ALL, s)) for s in steps))

    def other(self, tmp_path: Path, steps: list[int], ids: list[int] = ALL) -> Path:
        texts = [frame(s, [f"{i} 9 {i * 100 + s} -{i} e{i}" for i in ids], "id type vx c_a element") for s in steps]
        return write(tmp_path / "b.dump", *texts)

    @pytest.mark.parametrize("job", [1, 2**23])
    def test_by_step_and_id(self, job: int, tmp_path: Path) -> None:
        one, two = self.first(tmp_path, [0, 10, 20]), self.other(tmp_path, [0, 10, 20])
        record, report = read(one, joined=[[two]])
        for number, batch in enumerate(record.trajectory.batches(batch_bytes=job)):
            if job == 1 and number == 1:
                assert batch.blocks["atoms"].columns["vx"].tolist() == [i * 100 + 10 for i in ALL]
        assert positions(record, 2)[:, 0].tolist() == [i + 20 for i in ALL]
        assert column(record, 2, "vx").tolist() == [i * 100 + 20 for i in ALL]
        assert column(record, 1, "c_a").tolist() == [-i for i in ALL]
        assert column(record, 1, "element").tolist() == [f"e{i}" for i in ALL]
        assert column(record, 0, "type_id").tolist() == [1, 2, 1, 2, 1, 2]
        assert fates(report, "c_a element vx: joined by step and id")

    def test_steps_only_one_has(self, tmp_path: Path) -> None:
        one, two = self.first(tmp_path, [0, 10, 20]), self.other(tmp_path, [10, 15, 20, 25])
        record, report = read(one, joined=[[two]])
        states = list(record.trajectory)
        assert [state.step for state in states] == [0, 10, 20]
        assert [state["atoms"].validity("vx").all() for state in states] == [False, True, True]
        assert states[2]["atoms"]["vx"].tolist() == [i * 100 + 20 for i in ALL]
        assert fates(report, "lacks 1 of the steps")
        assert fates(report, "dropped: 2 frames of")

    @pytest.mark.parametrize(
        ("ids", "why"),
        [
            (ALL[:5], r"it has 5 atoms at step 0 and .*a\.dump has 6, so it is not joined"),
            ([1, 2, 3, 4, 7, 8], r"its frames hold other atoms than .*a\.dump; mrec convert .*b\.dump b\.mrec"),
        ],
    )
    def test_a_dump_of_other_atoms_is_left_out(self, tmp_path: Path, ids: list[int], why: str) -> None:
        record, report = read(self.first(tmp_path, [0, 10]), joined=[[self.other(tmp_path, [0, 10], ids)]])
        assert positions(record, 1)[:, 0].tolist() == [i + 10 for i in ALL]
        assert "vx" not in record.trajectory.declaration.blocks["atoms"].columns
        dropped = [str(item) for item in report.of(Fate.DROPPED)]
        assert len(dropped) == 1
        assert re.search(why, dropped[0])
        assert not fates(report, "joined by step and id")

    def test_other_atoms_further_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dump_batch.RowReader.jobs, "__defaults__", (1,))
        one = self.first(tmp_path, [0, 10, 20, 30])
        texts = [
            frame(s, [f"{i} {s}" for i in ([1, 2, 3, 4, 5, 9] if s == 20 else ALL)], "id vx") for s in range(0, 31, 10)
        ]
        two = write(tmp_path / "b.dump", *texts)
        record, report = read(one, joined=[[two]])
        assert fates(report, "vx: joined by step and id")
        with pytest.raises(LayoutChanged, match=r"b\.dump, line 32: .* step 20 has other ids than .*a\.dump") as caught:
            list(record.trajectory)
        record, report = read(one, joined=[[two]], hints=[caught.value.hint])
        assert len(list(record.trajectory)) == 4
        assert fates(report, "its frames hold other atoms")

    def test_a_dump_in_another_frame_of_reference_is_left_out(self, tmp_path: Path) -> None:
        one = self.first(tmp_path, [0, 10])
        turned = ("BOX BOUNDS abc origin pp pp pp", "0 8 0 0\n-9 0 0 0\n0 0 10 0\n")
        two = write(tmp_path / "b.dump", *(frame(s, [f"{i} {s}" for i in ALL], "id vx", box=turned) for s in (0, 10)))
        record, report = read(one, joined=[[two]])
        assert fates(report, "its cell is not that of")
        assert "vx" not in record.trajectory.declaration.blocks["atoms"].columns

    @pytest.mark.parametrize("which", [0, 1])
    def test_a_dump_without_ids_is_left_out(self, tmp_path: Path, which: int) -> None:
        columns = [["id", "type", "x", "y", "z"], ["id", "vx"]]
        columns[which][0] = "proc"
        one = write(tmp_path / "a.dump", frame(0, [f"{i} 1 {i} 0 0" for i in ALL], " ".join(columns[0])))
        two = write(tmp_path / "b.dump", frame(0, [f"{i} {i}" for i in ALL], " ".join(columns[1])))
        record, report = read(one, joined=[[two]])
        assert fates(report, f"{'ab'[which]}.dump has no column id, so it is not joined")
        assert positions(record, 0)[:, 0].tolist() == ALL

    def test_frames_numbered_by_order_are_joined_when_their_steps_agree(self, tmp_path: Path) -> None:
        one = self.first(tmp_path, [0, 10, 5])
        record, report = read(one, joined=[[self.other(tmp_path, [0, 10, 5])]], steps="index")
        assert column(record, 2, "vx").tolist() == [i * 100 + 5 for i in ALL]
        record, report = read(one, joined=[[self.other(tmp_path, [0, 20, 5])]], steps="index")
        assert fates(report, "its frames are of other steps than those of")
        assert "vx" not in record.trajectory.declaration.blocks["atoms"].columns

    def test_numbers_both_state_are_reported(self, tmp_path: Path) -> None:
        one = self.first(tmp_path, [0])
        two = write(tmp_path / "b.dump", frame(0, [f"{i} 1 0.125 0.125 0.125 7" for i in ALL], "id type x y z vx"))
        record, report = read(one, joined=[[two]])
        assert fates(report, f"dropped: columns of {two} (x y z: those of {one} are taken; mrec convert {two} b.mrec")
        assert column(record, 0, "vx").tolist() == [7] * 6

    def test_nothing_to_join(self, tmp_path: Path) -> None:
        one = self.first(tmp_path, [0, 10])
        _, report = read(one, joined=[[one]])
        assert fates(report, f"it has no column that {one} lacks")
        _, report = read(one, joined=[[self.other(tmp_path, [5])]])
        assert fates(report, f"it has none of the steps of {one}")

    @pytest.mark.parametrize("job", [1, 2**23])
    def test_where_atoms_come_and_go(self, job: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        sets = ([1, 2, 3], [1, 3], [], [2, 3, 9])
        one = write(tmp_path / "a.dump", *(frame(n, rows(ids)) for n, ids in enumerate(sets)))
        texts = [frame(n, [f"{i} {i * 100 + n}" for i in sorted(ids)], "id vx") for n, ids in enumerate(sets)]
        two = write(tmp_path / "b.dump", *texts)
        monkeypatch.setattr(dump_batch.RowReader.jobs, "__defaults__", (job,))
        record, _ = read(one, joined=[[two]])
        assert [state["atoms"]["vx"].tolist() for state in record.trajectory] == [
            [i * 100 + n for i in ids] for n, ids in enumerate(sets)
        ]
        other = write(tmp_path / "c.dump", *texts[:3], frame(3, ["1 0", "2 0", "3 0"], "id vx"))
        if job == 1:
            with pytest.raises(LayoutChanged, match="the frame of step 3 has other ids than"):
                list(read(one, joined=[[other]])[0].trajectory)
        else:
            assert fates(read(one, joined=[[other]])[1], "its frames hold other atoms")
