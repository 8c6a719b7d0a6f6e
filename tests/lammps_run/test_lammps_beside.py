"""Local and grid dumps, alone, beside a dump of atoms and in a run, against what LAMMPS holds at the same steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_texts import frame, write
from hypothesis import given, settings
from hypothesis import strategies as st
from lammps_runs import lammps, needs_lammps

import molrec_convert
from molrec_convert.errors import FormatError, UnsupportedError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Frame, Record
from molrec_convert.report import Fate, Report
from molrec_lammps.dump.record import read_dump
from molrec_lammps.dump.sidecar.local import local_attributes
from molrec_lammps.options import DumpOptions, RunOptions
from molrec_lammps.run.run import read_run
from molrec_lammps.script.script import parse_script

#: A lattice whose neighbors are bonded; bonds break, and others form.
BONDED = """
units lj
atom_style bond
comm_modify cutoff 3.5
lattice sc 0.8
region box block 0 4 0 4 0 4
create_box 2 box bond/types 2 extra/bond/per/atom 8 extra/special/per/atom 80
create_atoms 1 box
mass * 1.0
velocity all create 4.0 8728 loop geom
pair_style lj/cut 2.0
pair_coeff * * 1.0 1.0
bond_style harmonic
bond_coeff 1 10.0 1.1
bond_coeff 2 5.0 1.2
special_bonds lj 0 1 1
create_bonds many all all 1 0.9 1.1
neighbor 0.3 bin
neigh_modify every 1 delay 0
fix move all nve
compute ends all property/local batom1 batom2 btype
compute held all bond/local dist engpot
"""
PLAY = """
import numpy as np
lmp.commands_string({commands!r})
out["frames"] = []
for number in range({count} + 1):
    lmp.command("run 10 post no" if number else "run 0 post no")
    if number == 3:
        lmp.commands_string({between!r})
        continue
    bonds = np.array(lmp.gather_bonds()[1]).reshape(-1, 3)
    n = lmp.extract_global("natoms")
    out["frames"].append({{
        "step": lmp.extract_global("ntimestep"),
        "ids": sorted(np.array(lmp.numpy.extract_atom("id")[:n]).tolist()),
        "bonds": sorted([int(t), *sorted((int(a), int(b)))] for t, a, b in bonds),
    }})
"""


def play(folder: Path, commands: str, count: int = 5, between: str = "") -> list[Any]:
    (folder / "in.lmp").write_text(commands + "run 10\n" * count)
    result = lammps(folder, PLAY.format(commands=commands, count=count, between=between))
    assert "error" not in result, result["error"]
    return result["frames"]


def read_files(*paths: Path, **options: Any) -> tuple[Record, Report]:
    context = ReadContext(DumpOptions(**options))
    return read_dump(list(paths), context), context.report


def run_record(*paths: Path) -> tuple[Record, Report]:
    context = ReadContext(RunOptions())
    return read_run(list(paths), context), context.report


def ids_of(record: Record, state: Frame) -> Any:
    if "id" in state["atoms"].columns:
        return state["atoms"]["id"]
    assert record.system is not None
    return record.system["atoms"]["id"]


def bonds_of(record: Record, state: Frame, block: str = "bonds") -> list[list[int]]:
    """Bonds as LAMMPS says them: type, lower id, higher id, sorted."""
    ids = ids_of(record, state).astype(int)
    ends = np.sort(np.stack([ids[state[block][name].astype(int)] for name in ("atomi", "atomj")], axis=1), axis=1)
    types = state[block]["type_id"].astype(int)
    return sorted([int(t), *pair] for t, pair in zip(types, ends.tolist(), strict=True))


@needs_lammps
class TestBonds:
    DUMPS = """
dump A all custom 10 a.dump id type x y z
dump_modify A format float %.17g
dump L all local 10 l.dump index c_ends[1] c_ends[2] c_ends[3] c_held[1] c_held[2]
dump_modify L format float %.17g label BONDS
"""
    CHANGE = "fix break all bond/break 2 1 1.5\nfix make all bond/create 5 1 1 1.0 2\n"

    def test_bonds_that_change(self, tmp_path: Path) -> None:
        frames = play(tmp_path, BONDED + self.CHANGE + self.DUMPS)
        assert len({len(state["bonds"]) for state in frames}) > 3
        record, report = run_record(tmp_path)
        assert record.trajectory is not None
        states = {state.step: state for state in record.trajectory}
        for expected in frames:
            state = states[expected["step"]]
            assert bonds_of(record, state) == expected["bonds"]
            x = np.stack([state["atoms"][axis] for axis in "xyz"], axis=1)
            ends = [x[state["bonds"][name].astype(int)] for name in ("atomi", "atomj")]
            assert state.box is not None
            lengths = np.diag(state.box.vectors)
            apart = ends[1] - ends[0]
            apart -= lengths * np.rint(apart / lengths)
            assert np.allclose(np.linalg.norm(apart, axis=1), state["bonds"]["c_held[1]"], rtol=0, atol=1e-12)
        assert record.trajectory.declaration.blocks["bonds"].targets == {"atomi": "atoms", "atomj": "atoms"}
        assert any("trajectory/bonds" in item.detail for item in report.of(Fate.CONVERTED))

    def test_stored_and_sliced(self, tmp_path: Path) -> None:
        play(tmp_path, BONDED + self.CHANGE + self.DUMPS)
        record, _ = run_record(tmp_path)
        molrec_convert.write(record, tmp_path / "run.mrec")
        again, _ = run_record(tmp_path)
        with molrec_convert.open(tmp_path / "run.mrec") as stored:
            assert stored.trajectory is not None
            assert again.trajectory is not None
            whole = list(again.trajectory)
            assert [state["bonds"] for state in stored.trajectory] == [state["bonds"] for state in whole]
        for part in (slice(2, None), slice(1, None, 2), slice(4, 5)):
            assert list(again.trajectory[part]) == whole[part]
        only = next(iter(again.trajectory.batches(columns=["bonds/atomi"])))
        assert list(only.blocks) == ["bonds"]
        assert list(only.blocks["bonds"].columns) == ["atomi"]

    def test_atoms_that_leave(self, tmp_path: Path) -> None:
        leave = "region cut block 0 1 0 4 0 4 units lattice\ngroup gone region cut\ndelete_atoms group gone bond yes\n"
        commands = BONDED + self.DUMPS.replace("special", "special")
        frames = play(tmp_path, commands, between=leave)
        record, _ = run_record(tmp_path)
        assert record.trajectory is not None
        states = {state.step: state for state in record.trajectory}
        assert len({len(state["ids"]) for state in frames}) == 2
        for expected in frames:
            state = states[expected["step"]]
            assert ids_of(record, state).tolist() == expected["ids"]
            assert bonds_of(record, state) == expected["bonds"]
        only = list(record.trajectory.batches(columns=["bonds/atomi", "bonds/atomj", "atoms/x"]))
        assert next(list(batch.blocks["atoms"].columns) for batch in only if "atoms" in batch.blocks) == ["x"]

    def test_written_less_often_than_atoms(self, tmp_path: Path) -> None:
        frames = play(tmp_path, BONDED + self.CHANGE + self.DUMPS.replace("dump L all local 10", "dump L all local 20"))
        record, report = run_record(tmp_path)
        assert record.trajectory is not None
        known = {state["step"]: state["bonds"] for state in frames if state["step"] % 20 == 0}
        states = list(record.trajectory)
        assert [state.step for state in states] == [0, 10, 20, 30, 40, 50]
        for state, step in zip(states, (0, 0, 20, 20, 40, 40), strict=True):
            assert bonds_of(record, state) == known[step]
        assert list(record.trajectory[1:4]) == states[1:4]
        assert any("3 of the trajectory's 6 steps" in text for text in report.warnings)

    def test_bonds_of_a_data_file(self, tmp_path: Path) -> None:
        """What the local dump states otherwise counts; the same bonds with lengths stand beside."""
        build, _, rest = BONDED.partition("fix move")
        lammps(tmp_path, f"lmp.commands_string({build + 'write_data start.data nocoeff'!r})")
        words = ("velocity", "pair_coeff", "bond_coeff", "special_bonds")
        read = "read_data start.data extra/bond/per/atom 8 extra/special/per/atom 80\n"
        head = "units lj\natom_style bond\ncomm_modify cutoff 3.5\npair_style lj/cut 2.0\nbond_style harmonic\n" + read
        rest = "".join(f"{line}\n" for line in build.splitlines() if line.split(" ")[0] in words) + "fix move" + rest
        frames = play(tmp_path, head + rest + self.CHANGE + self.DUMPS)
        record, report = run_record(tmp_path)
        assert record.system is not None
        assert record.trajectory is not None
        assert "bonds" not in record.system
        assert any("bonds of the data file" in item.name for item in report.of(Fate.DROPPED))
        for expected, state in zip(frames[:3], record.trajectory, strict=False):
            assert bonds_of(record, state) == expected["bonds"]
        frames = play(tmp_path, head + rest + self.DUMPS)
        record, report = run_record(tmp_path)
        assert record.system is not None
        assert record.trajectory is not None
        assert record.system["bonds"].count == len(frames[0]["bonds"])
        assert bonds_of(record, record.trajectory[2], "local_bonds") == frames[2]["bonds"]
        assert all("bonds" not in item.name for item in report.of(Fate.DROPPED))

    def test_without_the_script(self, tmp_path: Path) -> None:
        frames = play(
            tmp_path, BONDED + self.DUMPS + "dump_modify L colname 2 batom1 colname 3 batom2 colname 4 btype\n"
        )
        record, _ = read_files(tmp_path / "a.dump", tmp_path / "l.dump", units="lj")
        assert record.trajectory is not None
        assert bonds_of(record, record.trajectory[1]) == frames[1]["bonds"]
        alone, report = read_files(tmp_path / "l.dump", units="lj")
        assert alone.trajectory is not None
        block = alone.trajectory[1]["local_bonds"]
        pairs = sorted(sorted(map(int, pair)) for pair in zip(block["batom1"], block["batom2"], strict=True))
        assert pairs == sorted(bond[1:] for bond in frames[1]["bonds"])
        assert block.columns["index"].dtype == "i64"
        assert alone.units == {"preset": "lj"}
        assert report.items

    def test_a_run_without_a_dump_of_atoms(self, tmp_path: Path) -> None:
        build, _, rest = BONDED.partition("fix move")
        lammps(tmp_path, f"lmp.commands_string({build + 'write_data start.data nocoeff'!r})")
        words = ("velocity", "pair_coeff", "bond_coeff", "special_bonds")
        head = "units lj\natom_style bond\ncomm_modify cutoff 3.5\npair_style lj/cut 2.0\nbond_style harmonic\n"
        head += "read_data start.data extra/bond/per/atom 8 extra/special/per/atom 80\n"
        rest = "".join(f"{line}\n" for line in build.splitlines() if line.split(" ")[0] in words) + "fix move" + rest
        dump = "".join(f"{line}\n" for line in self.DUMPS.splitlines() if " L " in line)
        frames = play(tmp_path, head + rest + self.CHANGE + dump)
        record, _ = run_record(tmp_path)
        assert record.trajectory is not None
        assert record.system is not None
        assert record.frame is not None
        ids = record.system["atoms"]["id"].astype(int)
        states = {state.step: state["local_bonds"] for state in record.trajectory}
        for expected in frames:
            block = states[expected["step"]]
            ends = [ids[block[name].astype(int)] for name in ("atomi", "atomj")]
            pairs = sorted([int(t), *sorted(map(int, pair))] for t, *pair in zip(block["type_id"], *ends, strict=True))
            assert pairs == expected["bonds"]


@needs_lammps
class TestGrid:
    def test_values_by_cell(self, tmp_path: Path) -> None:
        commands = BONDED + (
            "fix gr all ave/grid 5 2 10 3 4 5 vx density/number\n"
            "dump G all grid 10 g.dump f_gr:grid:data[1] f_gr:grid:data[2] f_gr:grid:count\n"
            "dump_modify G format float %.17g\n"
            "dump A all custom 10 a.dump id x y z vx\ndump_modify A format float %.17g\n"
        )
        commands = commands.replace("ave/grid 5 2 10", "ave/grid 10 1 10")
        play(tmp_path, commands)
        record, report = run_record(tmp_path)
        assert record.trajectory is not None
        declared = record.trajectory.declaration.blocks["grid"]
        assert declared.structural_shape == (3, 4, 5)
        for state in list(record.trajectory)[1:]:
            assert state.box is not None
            lengths = np.diag(state.box.vectors)
            x = np.stack([state["atoms"][axis] for axis in "xyz"], axis=1)
            cells = np.floor(x / lengths % 1.0 * [3, 4, 5]).astype(int)
            counts = np.zeros((3, 4, 5))
            speeds = np.zeros((3, 4, 5))
            np.add.at(counts, tuple(cells.T), 1)
            np.add.at(speeds, tuple(cells.T), state["atoms"]["vx"])
            grid = {name: state["grid"][name].reshape(3, 4, 5) for name in declared.columns}
            assert np.array_equal(grid["f_gr:grid:count"], counts)
            mean = np.divide(speeds, counts, out=np.zeros_like(speeds), where=counts > 0)
            assert np.allclose(grid["f_gr:grid:data[1]"], mean, rtol=0, atol=1e-12)
            assert np.allclose(grid["f_gr:grid:data[2]"] * np.prod(lengths) / 60, counts, rtol=0, atol=1e-9)
        assert any("z fastest" in item.detail for item in report.of(Fate.CONVERTED))
        molrec_convert.convert(tmp_path / "g.dump", tmp_path / "g.mrec")
        with molrec_convert.open(tmp_path / "g.mrec") as stored:
            assert stored.trajectory is not None
            whole = list(record.trajectory)
            assert [state["grid"] for state in stored.trajectory] == [state["grid"] for state in whole]
            assert [state.box for state in stored.trajectory] == [state.box for state in whole]


LOCAL = "ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF {label}\n{count}\nITEM: BOX BOUNDS pp pp pp\n0 8\n0 9\n0 10\n"


def local(step: int, rows: list[str], columns: str = "index batom1 batom2", label: str = "ENTRIES") -> str:
    text = LOCAL.format(step=step, label=label, count=len(rows)) + f"ITEM: {label} {columns}\n"
    return text + "".join(f"{row} \n" for row in rows)


def grid(step: int, shape: tuple[int, int, int], rows: list[str], columns: str = "f_1") -> str:
    text = f"ITEM: TIMESTEP\n{step}\nITEM: BOX BOUNDS pp pp pp\n0 8\n0 9\n0 10\nITEM: DIMENSION\n3\n"
    text += "ITEM: GRID SIZE nx ny nz\n{} {} {}\n".format(*shape) + f"ITEM: GRID CELLS {columns}\n"
    return text + "".join(f"{row}\n" for row in rows)


ATOMS = [f"{n} 1 {n} 0 0" for n in (1, 2, 4, 7)]


class TestTexts:
    def test_references_are_rows(self, tmp_path: Path) -> None:
        atoms = write(tmp_path / "a", *(frame(step, ATOMS) for step in (0, 10, 20)))
        bonds = write(tmp_path / "b", local(0, ["1 7 4", "2 1 2"]), local(10, []), local(20, ["1 2 4"]))
        record, _ = read_files(atoms, bonds)
        assert record.trajectory is not None
        found = [state["bonds"] for state in record.trajectory]
        assert [block.count for block in found] == [2, 0, 1]
        assert found[0]["atomi"].tolist() == [3, 0]
        assert found[0]["atomj"].tolist() == [2, 1]
        assert found[2]["atomi"].tolist() == [1]

    def test_rows_that_name_absent_atoms(self, tmp_path: Path) -> None:
        atoms = write(tmp_path / "a", frame(0, ATOMS))
        record, report = read_files(atoms, write(tmp_path / "b", local(0, ["1 7 5", "2 1 2"])))
        assert record.trajectory is not None
        assert [state["bonds"].count for state in record.trajectory] == [1]
        assert any("1 rows left out" in text for text in report.losses())

    def test_ids_of_which_digits_were_lost(self, tmp_path: Path) -> None:
        atoms = write(tmp_path / "a", frame(0, ATOMS))
        bonds = write(tmp_path / "b", local(0, ["1 1 2", "2 1.23457e+06 2"]))
        record, _ = read_files(atoms, bonds)
        assert record.trajectory is not None
        with pytest.raises(FormatError, match=r"b, line 11: found '1.23457e\+06' \(batom1\), expected a whole number"):
            list(record.trajectory)

    def test_atoms_without_ids(self, tmp_path: Path) -> None:
        atoms = write(tmp_path / "a", frame(0, ["1 0 0 0", "1 1 1 1"], "type x y z"))
        record, _ = read_files(atoms, write(tmp_path / "b", local(0, ["1 1 2"])))
        assert record.trajectory is not None
        assert set(record.trajectory[0].blocks) == {"atoms", "local"}

    def test_a_restart_repeats_frames(self, tmp_path: Path) -> None:
        path = write(tmp_path / "b", local(0, ["1 1 2"]), local(10, ["1 1 2"]), local(10, ["1 1 2"]))
        record, report = read_files(path)
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 10]
        assert not report.lossy
        assert any("1 frames come again unchanged" in text for text in report.warnings)

    def test_runs_that_overlap(self, tmp_path: Path) -> None:
        path = write(tmp_path / "b", local(0, ["1 1 2"]), local(10, ["1 1 2"]), local(10, ["1 3 4"]))
        with pytest.raises(FormatError, match=r"other rows of step 10 than before.*--steps last, or first"):
            read_files(path)
        for which, partner in (("last", 3), ("first", 1)):
            record, report = read_files(path, steps=which)
            assert record.trajectory is not None
            assert record.trajectory[1]["local"]["batom1"].tolist() == [partner]
            assert report.lossy

    def test_other_steps_than_the_atoms(self, tmp_path: Path) -> None:
        atoms = write(tmp_path / "a", frame(5, ATOMS))
        record, report = read_files(atoms, write(tmp_path / "b", local(0, ["1 1 2"])))
        assert record.trajectory is not None
        assert list(record.trajectory.declaration.blocks) == ["atoms"]
        assert "none of the trajectory's steps" in report.losses()[0]

    def test_several_of_one_kind(self, tmp_path: Path) -> None:
        one = write(tmp_path / "one", local(0, ["1 2"], "index c_1"))
        two = write(tmp_path / "two", local(0, ["1 3"], "index c_1"))
        record, _ = read_files(one, two)
        assert record.trajectory is not None
        assert {name: block["c_1"].tolist() for name, block in record.trajectory[0].blocks.items()} == {
            "local": [2.0],
            "local_2": [3.0],
        }

    def test_one_file_for_each_step(self, tmp_path: Path) -> None:
        paths = [write(tmp_path / f"b.{step}.dump", local(step, [f"1 {step} 2"])) for step in (20, 0, 100)]
        record, _ = read_files(*paths)
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 20, 100]
        assert [state["local"]["batom1"].tolist() for state in record.trajectory] == [[0], [20], [100]]

    def test_pieces_of_processors(self, tmp_path: Path) -> None:
        atoms = write(tmp_path / "a", *(frame(step, ATOMS) for step in (0, 10)))
        one = write(tmp_path / "l.0", local(0, ["1 1 2"]), local(10, []))
        two = write(tmp_path / "l.1", local(0, ["1 4 7"]), local(10, ["1 2 7", "2 1 7"]))
        with pytest.raises(UsageError, match="have the same steps"):
            read_files(atoms, one, two)
        script = tmp_path / "in"
        text = "units lj\ndump A all custom 10 a id type x y z\ndump L all local 10 l.% index batom1 batom2\nrun 10\n"
        script.write_text(text)
        record, _ = run_record(script)
        assert record.trajectory is not None
        blocks = [state["bonds"] for state in record.trajectory]
        pairs = [list(zip(block["atomi"].tolist(), block["atomj"].tolist(), strict=True)) for block in blocks]
        assert pairs == [[(0, 1), (2, 3)], [(1, 3), (0, 3)]]
        write(two, local(0, ["1 4 7"]), local(10, ["1 2 7", "2 1 7.5"]))
        record, _ = run_record(script)
        with pytest.raises(FormatError, match=r"l.1, line 21: found '7.5'"):
            list(record.trajectory or ())

    def test_cut_files(self, tmp_path: Path) -> None:
        text = local(0, ["1 1 2"]) + local(10, ["1 1 2", "2 3 4"])
        for stop, frames in ((len(text) - 3, 1), (len(local(0, ["1 1 2"])) + 30, 1)):
            (tmp_path / "b").write_text(text[:stop])
            record, report = read_files(tmp_path / "b")
            assert record.trajectory is not None
            assert len(record.trajectory) == frames
            assert len(report.truncations) == 1
        (tmp_path / "b").write_text(text[:40])
        with pytest.raises(FormatError, match="at least one whole frame"):
            read_files(tmp_path / "b")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (local(0, ["1 1 2"]).replace("OF ENTRIES\n1", "OF ENTRIES\nx"), "line 4: found 'x', expected a number of"),
            (local(0, ["1 1 2", "2 1"]), "line 11: found 2 in '2 1', expected 3 values"),
            (local(0, ["1 1 x"]), "line 10: found 'x', expected a number"),
            (local(0, ["1 1 2.5"]), r"line 10: found '2.5' \(batom2\), expected a whole number"),
            (local(0, ["1 1 2"]) + local(5, ["1 1"], "index batom1"), "line 19: found columns index batom1"),
            (
                local(0, ["1 1 2"]).replace("TIMESTEP\n0", "TIMESTEP\n0.5"),
                "line 2: found '0.5', expected a step number",
            ),
            (local(0, ["1 1 2"]).replace("BOX BOUNDS", "BOX"), "line 5: found 'ITEM: BOX pp pp pp'"),
            (local(0, ["1 1 2", "2 3 4"]).replace("ENTRIES\n2", "ENTRIES\n1"), "line 11: found '2 3 4'"),
            (
                local(0, ["1 1 2"]).replace("ENTRIES\n1", "ENTRIES\n3") + local(9, []),
                "line 11: found 'ITEM: TIMESTEP', expected row 2 of the 3 rows",
            ),
            (grid(0, (1, 1, 2), ["1", "2"]).replace("1 1 2", "1 1"), "line 10: found '1 1', expected three sizes"),
            (grid(0, (1, 1, 2), ["1", "2"]) + grid(1, (1, 1, 1), ["1"]), "of a grid 1 x 1 x 1 in the frame of step 1"),
            (grid(0, (1, 1, 3), ["1", "2"]) + grid(1, (1, 1, 3), ["1"]), "expected row 3 of the 3 rows of step 0"),
        ],
    )
    def test_faults_are_one_sentence_with_the_line(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "b").write_text(text)
        with pytest.raises(FormatError, match=message) as caught:
            list(read_files(tmp_path / "b")[0].trajectory or ())
        assert "\n" not in str(caught.value)

    def test_by_order(self, tmp_path: Path) -> None:
        with pytest.raises(UnsupportedError, match="not numbered by their order"):
            read_files(write(tmp_path / "b", local(0, ["1 1 2"])), steps="index")

    def test_attributes_of_computes(self) -> None:
        text = "compute 1 all property/local batom1 batom2\ncompute b all property/local btype\ncompute 2 all temp\n"
        commands = parse_script(text, Path("in")).commands
        assert local_attributes(commands) == {"c_1[1]": "batom1", "c_1[2]": "batom2", "c_b": "btype"}

    @given(data=st.data())
    @settings(max_examples=40)
    def test_any_grid(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        shape = data.draw(st.tuples(*(st.integers(1, 4) for _ in range(3))))
        frames = data.draw(st.integers(1, 3))
        numbers = st.floats(width=64)
        values = [
            data.draw(st.lists(numbers, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
            for _ in range(frames)
        ]
        path = tmp_path_factory.mktemp("grid") / "g"
        write(path, *(grid(n, shape, [f"{value:.17g}" for value in own]) for n, own in enumerate(values)))
        record, _ = read_files(path)
        assert record.trajectory is not None
        for state, own in zip(record.trajectory, values, strict=True):
            expected = np.array(own).reshape(shape[::-1]).transpose(2, 1, 0)
            found = state["grid"]["f_1"].reshape(shape)
            assert np.array_equal(found, expected, equal_nan=True)
            assert np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


class TestCorpus:
    def test_a_local_dump(self, corpus: Path) -> None:
        record, _ = read_files(corpus / "files/lammps-dump/gen_chain_bonds.local.dump", units="real")
        assert record.trajectory is not None
        states = list(record.trajectory)
        assert [state.step for state in states] == [1000, 1005, 1010, 1015, 1020]
        assert [state["local"].count for state in states] == [26] * 5
        rows = [
            [float(state["local"][name][row]) for name in ("index", "c_b[1]", "c_b[2]", "c_b[3]", "c_d")]
            for state, row in ((states[0], 0), (states[0], 25))
        ]
        assert rows == [[1, 2, 1, 2, 1.13186], [26, 5, 27, 29, 0.90254]]
        box = states[0].box
        assert box is not None
        assert np.diag(box.vectors).tolist() == [16.5, 15.5, 14.25]
        assert box.origin.tolist() == [-8, -7.5, -7]

    def test_bonds_of_a_chain(self, corpus: Path) -> None:
        """Both dumps are of one run; the types and atoms of its bonds are those of every frame."""
        files = corpus / "files/lammps-dump"
        told = ("c_b[1]=btype", "c_b[2]=batom1", "c_b[3]=batom2")
        paths = (files / "gen_chain_full.dump", files / "gen_chain_bonds.local.dump")
        record, _ = read_files(*paths, local_columns=told)
        assert record.trajectory is not None
        assert record.system is not None
        ids = record.system["atoms"]["id"]
        state = record.trajectory[0]
        block = state["bonds"]
        assert [int(block["type_id"][0]), *(int(ids[int(block[end][0])]) for end in ("atomi", "atomj"))] == [2, 1, 2]
        x = np.stack([state["atoms"][axis] for axis in "xyz"], axis=1)
        assert state.box is not None
        lengths = np.diag(state.box.vectors)
        apart = x[block["atomj"].astype(int)] - x[block["atomi"].astype(int)]
        apart -= lengths * np.rint(apart / lengths)
        assert np.allclose(np.linalg.norm(apart, axis=1), block["c_d"], rtol=0, atol=5e-4)
        with pytest.raises(UsageError, match="--local-columns: found 'c_b'"):
            read_files(*paths, local_columns=("c_b",))
