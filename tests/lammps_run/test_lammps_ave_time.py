"""Files of `fix ave/time` and its kin, alone and in a run, against what LAMMPS holds at the same steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lammps_runs import lammps, needs_lammps

import molrec_convert
from molrec_convert.errors import FormatError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Record
from molrec_convert.report import Report
from molrec_lammps.log.averages import ave_commands, parse_ave_time, read_ave_time
from molrec_lammps.log.metrics import UNSTATED
from molrec_lammps.options import RunOptions
from molrec_lammps.run.run import read_run
from molrec_lammps.script.script import parse_script

MELT = """
units lj
lattice fcc 0.8442
region box block 0 3 0 3 0 3
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 8728 loop geom
pair_style lj/cut 2.0
pair_coeff * * 1.0 1.0
fix move all nve
compute t all temp
compute r all rdf 8
variable twice equal step*2
fix one all ave/time 1 1 10 c_t v_twice file one.txt format " %.17g"
fix two all ave/time 1 1 10 c_r[*] mode vector file two.txt format " %.17g"
fix three all ave/time 1 1 10 c_t v_twice file three.yaml
fix four all ave/time 1 1 10 c_r[*] mode vector file four.yaml
fix five all ave/time 1 1 10 c_t[1] c_t[4] file five.txt title1 "mine" title2 "and mine" format " %.17g"
fix six all ave/time 1 1 10 c_r[2] c_r[3] mode vector file six.txt title1 "" title2 "t2" title3 "t3" format " %.17g"
"""
#: What the fixes themselves hold after each output.
PLAY = f"""
lmp.commands_string({MELT!r})
out["one"], out["two"], out["six"], out["five"] = [], [], [], []
for number in range(5):
    lmp.command("run 10 post no" if number else "run 0 post no")
    if number == 0:
        continue
    out["one"].append([lmp.extract_fix("one", 0, 1, n, 0) for n in range(2)])
    out["five"].append([lmp.extract_fix("five", 0, 1, n, 0) for n in range(2)])
    out["two"].append([[lmp.extract_fix("two", 0, 2, row, n) for n in range(3)] for row in range(8)])
"""


def read(*paths: Path) -> tuple[Record, Report]:
    context = ReadContext()
    return read_ave_time(list(paths), context), context.report


@needs_lammps
class TestRuns:
    def test_every_layout(self, tmp_path: Path) -> None:
        held = lammps(tmp_path, PLAY)
        assert "error" not in held, held["error"]
        (tmp_path / "in.lmp").write_text(MELT + "run 0\n" + "run 10\n" * 4)
        record = read_run([tmp_path], ReadContext(RunOptions()))
        assert record.metrics is not None
        assert record.observables is not None
        metrics, observables = record.metrics, record.observables
        one = np.array(held["one"])
        for name, column in (("c_t", 0), ("v_twice", 1)):
            for fix, exact in (("one", True), ("three", False)):
                curve = metrics[f"ave_time/{fix}/{name}"]
                # an output at step 0 comes first, which no extraction above sees
                assert curve.steps is not None
                assert curve.steps.tolist()[-4:] == [10, 20, 30, 40]
                found = curve.values[-4:]
                assert (
                    np.array_equal(found, one[:, column]) if exact else np.allclose(found, one[:, column], rtol=1e-14)
                )
        five = np.array(held["five"])
        assert np.array_equal(metrics["ave_time/five/c_t[1]"].values[-4:], five[:, 0])
        assert np.array_equal(metrics["ave_time/five/c_t[4]"].values[-4:], five[:, 1])
        two = np.array(held["two"])
        for number in range(3):
            exact = observables[f"two.c_r[{number + 1}]"]
            assert np.array_equal(exact.values[-4:], two[:, :, number])
            assert np.allclose(observables[f"four.c_r[{number + 1}]"].values[-4:], two[:, :, number], rtol=1e-14)
        assert observables["two.step"].values.tolist()[-4:] == [10, 20, 30, 40]
        assert np.array_equal(observables["six.c_r[2]"].values[-4:], two[:, :, 1])
        assert (exact.kind, exact.time_dependent) == ("vector", False)

    def test_a_file_alone(self, tmp_path: Path) -> None:
        assert "error" not in lammps(tmp_path, PLAY)
        for name in ("one.txt", "two.txt", "three.yaml", "four.yaml"):
            molrec_convert.convert(tmp_path / name, tmp_path / f"{name}.mrec")
            with molrec_convert.open(tmp_path / f"{name}.mrec") as record:
                assert record.status is not None
                assert record.status["state"] == "unknown"
                assert (record.metrics is None) == (name in ("two.txt", "four.yaml"))
                if record.metrics is not None:
                    assert set(record.metrics["ave_time/" + name.split(".")[0] + "/c_t"].wall_time) == {UNSTATED}
        record, _ = read(tmp_path / "five.txt")
        assert record.metrics is not None
        assert sorted(record.metrics) == ["ave_time/five.txt/column_1", "ave_time/five.txt/column_2"]

    def test_named_beside_a_log(self, tmp_path: Path) -> None:
        assert "error" not in lammps(tmp_path, PLAY)
        molrec_convert.convert([tmp_path / "log.lammps", tmp_path / "one.txt"], tmp_path / "run.mrec")
        with molrec_convert.open(tmp_path / "run.mrec") as record:
            assert record.metrics is not None
            assert {"thermo/temp", "ave_time/one/c_t"} <= set(record.metrics)


SCALARS = "# Time-averaged data for fix 7\n# TimeStep c_a v_b\n10 1 2\n20 3 -0\n"
VECTORS = "# Time-averaged data for fix 7\n# TimeStep Number-of-rows\n# Row c_a\n10 2\n1 5\n2 6\n20 1\n1 7\n"


OTHERS = (
    MELT.partition("fix one")[0]
    + """
compute l all chunk/atom bin/1d z lower 0.2 units reduced
fix chunk all ave/chunk 1 5 10 l density/mass vx file chunk.txt
fix histo all ave/histo 1 5 10 0 1.5 6 x mode vector file histo.txt
fix weight all ave/histo/weight 1 5 10 0 1.5 6 x vy mode vector file weight.txt title1 "# mine"
fix corr all ave/correlate 1 4 10 c_t v_twice type auto/upper file corr.txt ave running
fix long all ave/correlate/long 1 10 c_t v_twice file long.txt
"""
)
#: Rows and columns of each fix, and how many numbers its output has as a whole.
SHAPES = {"chunk": (5, 4, 1), "histo": (6, 3, 4), "weight": (6, 3, 4), "corr": (4, 5, 0), "long": (20, 3, 0)}


@needs_lammps
class TestOfRows:
    """`fix ave/chunk`, `ave/histo`, `ave/correlate` and their variants."""

    def test_every_style(self, tmp_path: Path) -> None:
        """The last output of each is what the fix holds; alone, and in a run with titles of one's own."""
        code = f"""
        lmp.commands_string({OTHERS!r})
        lmp.command("run 20")
        for name, (rows, columns, totals) in {SHAPES!r}.items():
            if name == "long":
                continue
            out[name] = [[lmp.extract_fix(name, 0, 2, row, n) for n in range(columns)] for row in range(rows)]
            out["total " + name] = [lmp.extract_fix(name, 0, 1, n, 0) for n in range(totals)] if totals > 1 else []
        """
        found = lammps(tmp_path, code)
        assert "error" not in found, found["error"]
        last_output = (tmp_path / "long.txt").read_text().rpartition("# Timestep: 20\n")[2]
        found |= {"long": np.loadtxt(last_output.splitlines()).tolist(), "total long": []}
        (tmp_path / "in.lmp").write_text(OTHERS + "run 20\n")
        report = Report()
        record = read_run([tmp_path], ReadContext(RunOptions(), report=report))
        assert not report.losses()
        assert record.observables is not None
        for name, (_, columns, totals) in SHAPES.items():
            own = {
                key.partition(".")[2]: value.values for key, value in record.observables.items() if key.startswith(name)
            }
            assert own.pop("step").tolist()[-1] == 20
            numbers = own.pop("rows", None)
            names = [key for key in own if own[key].ndim == 2 or numbers is not None]
            assert len(own) == columns + totals, (name, list(own))
            last = [own[key][-1] if numbers is None else own[key][-int(numbers[-1]) :] for key in names]
            table = np.array(found[name])[: len(last[0])]
            assert np.allclose(np.stack(last, axis=1), table, rtol=2e-5, atol=1e-5), name
            whole = [own[key][-1] for key in own if key not in names]
            assert np.allclose(whole[: len(found[f"total {name}"])], found[f"total {name}"], rtol=1e-6), name
            if name != "weight":
                alone = molrec_convert.read(tmp_path / f"{name}.txt")
                assert alone.observables is not None
                assert np.array_equal(
                    alone.observables[f"{name}.step"].values, record.observables[f"{name}.step"].values
                )

    def test_of_a_run_directory(self, fixtures: Path, tmp_path: Path) -> None:
        report = molrec_convert.convert(fixtures / "faults/lammps/A7_ave_files", tmp_path / "o.mrec", strict=True)
        assert not report.losses()
        with molrec_convert.open(tmp_path / "o.mrec") as record:
            assert record.observables is not None
            kinds = {"ach": "chunk.txt", "h": "histo.txt", "co": "corr.txt", "rd": "rdf.txt"}
            for fix, file in kinds.items():
                lines = (fixtures / "faults/lammps/A7_ave_files" / file).read_text().splitlines()
                heads = [line.split() for line in lines if not line.startswith(("#", " "))]
                steps = record.observables[f"{fix}.step"].values
                assert len(steps) > 1
                assert {str(step) for step in steps.tolist()} <= {head[0] for head in heads}
            assert record.observables["ach.Total-count"].values.tolist() == [81.0] * len(
                record.observables["ach.step"].values
            )
            assert record.observables["h.Min-value"].values[0] == 0.6280265875328573
            assert record.observables["co.TimeDelta"].values[0].tolist() == [0, 1, 2, 3, 4]


class TestTexts:
    def test_swaps_of_a_temper_run(self, tmp_path: Path) -> None:
        """The log of all partitions, as LAMMPS writes it."""
        text = "LAMMPS (22 Jul 2025)\nRunning on 2 partitions of processors\nStep T0 T1\n0 0 1\n10 1 0\n20 0 1\n"
        (tmp_path / "log.lammps").write_text(text)
        report = Report()
        record = read_run([tmp_path / "log.lammps"], ReadContext(RunOptions(), report=report))
        assert record.metrics is not None
        assert record.metrics["temper/T0"].steps.tolist() == [0, 10, 20]
        assert record.metrics["temper/T1"].values.tolist() == [1, 0, 1]
        assert any("temperatures of replicas" in str(item) for item in report.items)

    def test_totals_without_titles(self) -> None:
        raw = b"mine\n# \n# a b\n5 2 7 0.5\n1 0.5 3\n2 1.5 4\n10 2 9 0.25\n1 0.5 5\n2 1.5 4\n"
        output = parse_ave_time(raw, Path("histo.txt"), True)
        assert {name: values.tolist() for name, values in output.whole.items()} == {
            "total_1": [7, 9],
            "total_2": [0.5, 0.25],
        }
        assert output.values.tolist() == [[0.5, 3], [1.5, 4], [0.5, 5], [1.5, 4]]
        with pytest.raises(FormatError, match="line 7"):
            parse_ave_time(raw.replace(b"10 2 9 0.25", b"10 2 9"), Path("histo.txt"), True)

    def test_rows_that_change_in_number(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text(VECTORS)
        record, _ = read(tmp_path / "a")
        assert record.observables is not None
        assert {name: entry.values.tolist() for name, entry in record.observables.items()} == {
            "7.step": [10, 20],
            "7.rows": [2, 1],
            "7.c_a": [5, 6, 7],
        }

    def test_a_restart_that_appends(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text(SCALARS + SCALARS.replace("\n10 1 2", "\n15 9 9").replace("20 3", "20 4"))
        record, report = read(tmp_path / "a")
        assert record.metrics is not None
        curve = record.metrics["ave_time/7/c_a"]
        assert curve.steps is not None
        assert curve.steps.tolist() == [10, 15, 20]
        assert curve.values.tolist() == [1, 9, 4]
        assert report.losses() == [
            "dropped: 1 outputs of fix 7 (the same steps come again later: the later output counts)"
        ]

    def test_one_fix_in_two_files(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text(SCALARS)
        (tmp_path / "b").write_text(SCALARS.replace("10 1 2\n20", "30"))
        record, _ = read(tmp_path / "a", tmp_path / "b")
        assert record.metrics is not None
        assert record.metrics["ave_time/7/c_a"].values.tolist() == [1, 3, 3]
        (tmp_path / "b").write_text(VECTORS)
        with pytest.raises(UsageError, match="hold other columns"):
            read(tmp_path / "a", tmp_path / "b")

    @pytest.mark.parametrize("text", [SCALARS[:-1], VECTORS[:-1], VECTORS[:-4]])
    def test_a_torn_end(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "a").write_text(text)
        record, report = read(tmp_path / "a")
        steps = record.observables["7.step"].values if record.observables else record.metrics["ave_time/7/c_a"].steps  # type: ignore[index]
        assert steps is not None
        assert steps.tolist() == [10]
        assert len(report.truncations) == 1

    def test_titles_of_ones_own(self) -> None:
        found = parse_ave_time(b"my data\nof today\nand more\n0 2\n1 0.5\n2 1.5\n5 2\n1 2.5\n2 3.5\n", Path("a"))
        assert found.vector
        assert found.values.tolist() == [[0.5], [1.5], [2.5], [3.5]]
        assert (found.fix, found.names) == (None, ())
        assert not parse_ave_time(b"my data\n0 2\n10 3\n", Path("a")).vector

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (SCALARS + "30 1\n", "line 5: found '30 1', expected a step and 2 values"),
            (SCALARS + "x y z\n", "line 5: found 'x y z', expected numbers"),
            (SCALARS + "1.5 2 3\n", "line 5: found '1.5', expected a step number"),
            (VECTORS + "30 2\n1 5\n3 6\n", "line 11: found '3 6', expected row 2 of 2"),
            (VECTORS + "30\n", "line 9: found '30', expected a step and a number of rows"),
            ("keywords: ['Step', 'a', ]\ndata:\n  - [1, x, ]\n", "line 3: found .* expected 2 numbers"),
            ("keywords: ['Step', 'a', ]\ndata:\n  - [1, 2, ]\nwhat\n", "line 4: found 'what', expected a row"),
        ],
    )
    def test_faults(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "a").write_text(text)
        with pytest.raises(FormatError, match=message) as caught:
            read(tmp_path / "a")
        assert "\n" not in str(caught.value)

    def test_commands(self) -> None:
        text = (
            "fix 1 all ave/time 10 5 100 c_a c_b[1] ave window 5 file one off 2 title1 'file two'\n"
            "fix 2 all ave/time 10 5 100 v_x append two mode vector\nfix 3 all ave/time 10 5 100 v_x\nfix 4 all nve\n"
        )
        found = ave_commands(parse_script(text, Path("in")).commands)
        assert [(entry.id, entry.file, entry.values, entry.vector) for entry in found] == [
            ("1", "one", ("c_a", "c_b[1]"), False),
            ("2", "two", ("v_x",), True),
        ]

    @given(
        blocks=st.lists(st.lists(st.tuples(st.floats(), st.floats()), max_size=4), min_size=1, max_size=6),
        yaml=st.booleans(),
    )
    @settings(max_examples=80)
    def test_any_rows(self, blocks: list[list[tuple[float, float]]], yaml: bool) -> None:
        lines = ["# Time-averaged data for fix f"]
        if yaml:
            lines += ["---", "keywords: ['a', 'b', ]", "data:"]
            for step, rows in enumerate(blocks):
                lines += [f"  {step}:", *(f"  - [{a:.17g}, {b:.17g}, ]" for a, b in rows)]
        else:
            lines += ["# TimeStep Number-of-rows", "# Row a b"]
            for step, rows in enumerate(blocks):
                lines += [f"{step} {len(rows)}", *(f"{n} {a:.17g} {b:.17g}" for n, (a, b) in enumerate(rows, 1))]
        found = parse_ave_time("\n".join([*lines, ""]).encode(), Path("a"))
        assert found.rows.tolist() == [len(rows) for rows in blocks]
        flat = np.array([row for rows in blocks for row in rows], dtype=np.float64).reshape(-1, 2)
        if len(flat):
            assert found.names == ("a", "b")
            assert np.array_equal(found.values, flat, equal_nan=True)

    @given(raw=st.binary(max_size=300))
    @settings(max_examples=150)
    def test_no_bytes_break_the_reader(self, raw: bytes) -> None:
        for text in (raw, SCALARS.encode() + raw, VECTORS.encode() + raw + b"\n"):
            try:
                found = parse_ave_time(text, Path("a"))
            except FormatError:
                continue
            assert len(found.values) == int(found.rows.sum())
