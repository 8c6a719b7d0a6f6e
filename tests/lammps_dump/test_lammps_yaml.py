"""YAML dumps: twins of text dumps that LAMMPS writes in the same run, thermo output, cells, faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dump_texts import column, read
from hypothesis import given, settings
from hypothesis import strategies as st
from lammps_runs import lammps, needs_lammps

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Record
from molrec_convert.report import Fate
from molrec_lammps.detect import kind_of
from molrec_lammps.dump.yaml import yaml_rows
from molrec_lammps.options import RunOptions
from molrec_lammps.run.run import read_run

MELT = """
units lj
atom_style charge
region box {region}
{lattice}
create_box 2 box
create_atoms 1 box
set type 1 type/fraction 2 0.4 1234
mass * 1.0
set type 2 charge 0.125
velocity all create 3.0 8728 loop geom
pair_style lj/cut 2.0
pair_coeff * * 1.0 1.0
fix move all nve
thermo 10
"""
CUBE = {"region": "block 0 3 0 3 0 3", "lattice": "lattice fcc 0.8442"}
PRISM = {"region": "prism 0 3 0 3 0 3 0.9 -0.6 0.4", "lattice": "lattice fcc 0.8442"}
TWINS = """
dump T all custom 10 t.dump id type q x y z vx ix
dump Y all yaml 10 y.yaml id type q x y z vx ix
dump_modify T format float %.17g units yes time yes
dump_modify Y format float %.17g units yes time yes {more}
"""


def run(folder: Path, cell: dict[str, str], more: str = "", after: str = "") -> None:
    region, lattice = cell["region"], cell["lattice"]
    text = MELT.format(region=region, lattice="").replace(f"region box {region}\n", f"{lattice}\nregion box {region}\n")
    text += TWINS.format(more=more) + after + "run 40\n"
    (folder / "in.lmp").write_text(text)
    result = lammps(folder, "lmp.file('in.lmp')")
    assert "error" not in result, result["error"]


def same(one: Record, other: Record) -> None:
    assert one.system == other.system
    assert one.trajectory is not None
    assert other.trajectory is not None
    assert one.trajectory.declaration.blocks == other.trajectory.declaration.blocks
    for mine, theirs in zip(one.trajectory, other.trajectory, strict=True):
        assert mine.blocks == theirs.blocks
        assert (mine.step, mine.time) == (theirs.step, theirs.time)
        assert mine.box is not None
        assert theirs.box is not None
        # text has the bounds in 17 digits of another form: the last bit may differ
        assert np.allclose(mine.box.vectors, theirs.box.vectors, rtol=1e-15, atol=1e-15)
        assert np.allclose(mine.box.origin, theirs.box.origin, rtol=1e-15, atol=1e-15)
        assert np.array_equal(mine.box.boundary, theirs.box.boundary)


@needs_lammps
class TestTwins:
    @pytest.mark.parametrize("cell", [CUBE, PRISM])
    def test_of_a_text_dump(self, tmp_path: Path, cell: dict[str, str]) -> None:
        run(tmp_path, cell)
        same(read(tmp_path / "y.yaml")[0], read(tmp_path / "t.dump")[0])
        assert kind_of(tmp_path / "y.yaml") == "dump"

    def test_a_varying_number_of_atoms(self, tmp_path: Path) -> None:
        run(tmp_path, CUBE, "thresh x < 2.0", "dump_modify T thresh x < 2.0\n")
        same(read(tmp_path / "y.yaml")[0], read(tmp_path / "t.dump")[0])

    def test_thermo_output(self, tmp_path: Path) -> None:
        run(tmp_path, CUBE, "thermo yes", "variable late equal step*3\nthermo_style custom step temp pe press v_late\n")
        record, report = read(tmp_path / "y.yaml")
        assert record.trajectory is not None
        states = list(record.trajectory)
        assert [state.meta["v_late"] for state in states] == [0, 30, 60, 90, 120]
        log = lammps(
            tmp_path,
            "lmp.commands_string(open('in.lmp').read().replace('run 40', ''))\n"
            "out['pe'] = []\n"
            "for number in range(5):\n"
            "    lmp.command('run 10 post no' if number else 'run 0 post no')\n"
            "    out['pe'].append([lmp.get_thermo('pe'), lmp.get_thermo('temp')])\n",
            log="none",
        )
        assert "error" not in log, log["error"]
        # 16 digits are printed
        assert np.allclose([[s.meta["pe"], s.meta["temp"]] for s in states], log["pe"], rtol=1e-14)
        assert any(item.name == "thermo" for item in report.of(Fate.CARRIED))

    def test_in_a_run(self, tmp_path: Path) -> None:
        run(tmp_path, CUBE, "thermo yes")
        text = (tmp_path / "in.lmp").read_text().replace("dump T", "#").replace("dump_modify T", "#")
        (tmp_path / "in.lmp").write_text(text)
        (tmp_path / "t.dump").unlink()
        assert "error" not in lammps(tmp_path, "lmp.file('in.lmp')")
        record = read_run([tmp_path], ReadContext(RunOptions()))
        assert record.trajectory is not None
        assert record.metrics is not None
        assert record.metrics["thermo/temp"].steps.tolist() == [0, 10, 20, 30, 40]
        printed = record.metrics["thermo/temp"].values
        assert np.allclose([state.meta["temp"] for state in record.trajectory], printed, rtol=1e-7)

    def test_a_general_cell_is_refused(self, tmp_path: Path) -> None:
        text = (
            "units lj\natom_style atomic\n"
            "lattice custom 1.0 a1 0.0 1.0 1.0 a2 1.0 0.0 1.0 a3 1.0 1.0 0.0 basis 0 0 0 triclinic/general\n"
            "create_box 1 NULL 0 3 0 3 0 3\ncreate_atoms 1 box\nmass * 1\npair_style lj/cut 1.2\npair_coeff * * 1 1\n"
            "dump Y all yaml 10 y.yaml id type x y z\ndump Z all yaml 10 z.yaml id type x y z\n"
            "dump_modify Y triclinic/general yes\nrun 0\n"
        )
        (tmp_path / "in.lmp").write_text(text)
        assert "error" not in lammps(tmp_path, "lmp.file('in.lmp')")
        with pytest.raises(UnsupportedError, match=r"y.yaml contradicts itself.*triclinic/general"):
            read(tmp_path / "y.yaml")
        record, _ = read(tmp_path / "z.yaml")
        assert record.trajectory is not None
        context = ReadContext(RunOptions())
        read_run([tmp_path], context)
        assert any("dump Y (y.yaml)" in text and "triclinic/general" in text for text in context.report.losses())


DOCUMENT = """---
creator: LAMMPS
timestep: {step}
natoms: {count}
boundary: [ p, p, f, s, m, m, ]
box:
  - [ 0, 8 ]
  - [ -1, 9 ]
  - [ 0.5, 10 ]
keywords: [ {names},  ]
data:
{rows}...
"""


def document(step: int, rows: list[str], names: str = "id, type, x, y, z") -> str:
    lines = "".join("  - [ " + " , ".join(row.split()) + ", ]\n" for row in rows)
    return DOCUMENT.format(step=step, count=len(rows), names=names, rows=lines)


ROWS = ["2 1 0.5 1 2", "1 2 nan 1e300 -0"]


class TestTexts:
    def test_boundary_and_empty_frames(self, tmp_path: Path) -> None:
        path = tmp_path / "y.yaml"
        path.write_text(document(0, ["2 1 0.5 1 2"]) + document(5, []))
        record, _ = read(path)
        assert record.trajectory is not None
        states = list(record.trajectory)
        assert [state["atoms"].count for state in states] == [1, 0]
        assert states[0].box is not None
        assert states[0].box.boundary.tolist() == [True, False, False]
        assert states[0].box.origin.tolist() == [0, -1, 0.5]

    def test_text_columns(self, tmp_path: Path) -> None:
        path = tmp_path / "y.yaml"
        path.write_text(document(0, ["1 O 0 0 0", "2 H 1 1 1"], "id, element, x, y, z"))
        assert column(read(path)[0], 0, "element").tolist() == ["O", "H"]

    def test_rows_of_other_programs(self) -> None:
        text = b"  - [1,2, 3.5]\n  - [4, 5,6.5]\n"
        assert yaml_rows(text) == b"1 2 3.5\n4 5 6.5\n"

    def test_cut_files(self, tmp_path: Path) -> None:
        path = tmp_path / "y.yaml"
        whole, more = document(0, ["1 1 0 0 0"]), document(5, ["1 1 0 0 0"])
        for stop in (len(whole) + 20, len(whole) + len(more) - 15):
            path.write_text((whole + more)[:stop])
            record, report = read(path)
            assert record.trajectory is not None
            assert len(record.trajectory) == 1
            assert len(report.truncations) == 1
        path.write_text((whole + more)[:-4])
        record, report = read(path)
        assert record.trajectory is not None
        assert len(record.trajectory) == 2
        assert not report.truncations

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (("natoms: 2", "natoms: 3"), r"line 14: found '\.\.\.', expected row 3"),
            (("natoms: 2", "natoms: 1"), "line 13: found .* expected '...' after the 1 rows"),
            (("natoms: 2", "natoms: two"), "natoms 'two', expected a whole number"),
            (("box:", "cell:"), "line 7: found"),
            (("  - [ 0, 8 ]\n", ""), "another box, expected three rows"),
            (("  - [ 0, 8 ]", "  - [ 0, x ]"), "line 7: found 'x', expected a number"),
            (("boundary: [ p, p, f, s, m, m, ]", "boundary: [ p ]"), "the letters of six boundaries"),
            (("type, x", "x, x"), "the column 'x' twice"),
            (("0.5 ,", "abc ,"), "line 12: found 'abc', expected a number"),
            (("keywords", "words"), "expected 'keywords:' before it"),
        ],
    )
    def test_faults(self, tmp_path: Path, change: tuple[str, str], message: str) -> None:
        path = tmp_path / "y.yaml"
        path.write_text(document(0, ["2 1 0.5 1 2", "1 2 1 1 1"]).replace(*change))
        with pytest.raises(FormatError, match=message) as caught:
            list(read(path)[0].trajectory or ())
        assert "\n" not in str(caught.value)

    @given(rows=st.lists(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3), min_size=1, max_size=20))
    @settings(max_examples=60)
    def test_any_numbers(self, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, ...]]) -> None:
        path = tmp_path_factory.mktemp("yaml") / "y.yaml"
        path.write_text(document(0, [f"{n} 1 " + " ".join(f"{v:.17g}" for v in row) for n, row in enumerate(rows, 1)]))
        record, _ = read(path)
        assert record.trajectory is not None
        state = record.trajectory[0]
        found = np.stack([state["atoms"][axis] for axis in "xyz"], axis=1)
        assert found.tobytes() == np.array(rows, dtype=np.float64).tobytes()


class TestCorpus:
    def test_a_sheared_cell(self, corpus: Path) -> None:
        record, _ = read(corpus / "files/lammps-dump/gen_shear.yaml")
        assert record.trajectory is not None
        assert len(record.trajectory) == 5
        first = record.trajectory[0]
        assert first.box is not None
        vectors = np.array([[3.35919, 0.671838, -1.00776], [0, 3.35919, 0.470287], [0, 0, 3.35919]])
        assert np.allclose(first.box.vectors, vectors, rtol=2e-5, atol=1e-5)
        assert [float(first["atoms"][axis][0]) for axis in "xyz"] == [0, 0, 0]
        assert [float(first["atoms"][axis][31]) for axis in "xyz"] == [3.35919, 3.35919, 1.6796]
