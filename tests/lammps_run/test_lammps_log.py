"""Logs: thermo tables of every layout, foreign lines, repeated steps, echoed commands, how a run ended."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lammps_runs import lammps, needs_lammps, run_script

from molrec_convert.model.names import name_fault, unescape_name
from molrec_lammps.log import tables as log_tables
from molrec_lammps.log.averages import numbers
from molrec_lammps.log.log import Log, read_log
from molrec_lammps.log.tables import Thermo, find_tables, header_names, thermo_of

MELT = """
units lj
lattice fcc 0.8442
region box block 0 3 0 3 0 3
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
thermo 5
"""

MEMORY = "Per MPI rank memory allocation (min/avg/max) = 3.0 | 3.0 | 3.0 Mbytes\n"
LOOP = "Loop time of 0.1 on 1 procs for {steps} steps with 108 atoms\n\n"


def log_of(tmp_path: Path, text: str) -> Log:
    path = tmp_path / "log.lammps"
    path.write_text(text)
    return read_log(path)


def table(header: str, rows: list[tuple[float, ...]], *, memory: str = MEMORY, loop: bool = True) -> str:
    lines = [f"{int(row[0]):>8d} " + " ".join(f"{value:<14.8g}" for value in row[1:]) for row in rows]
    text = memory + "   " + header + "   \n" + "".join(line + " \n" for line in lines)
    return text + (LOOP.format(steps=int(rows[-1][0] - rows[0][0])) if loop else "")


@needs_lammps
class TestRealLogs:
    def test_every_layout(self, tmp_path: Path) -> None:
        code = f"""
        lmp.commands_string('''{MELT}''')
        out["values"] = []
        def run(*commands):
            for command in commands:
                lmp.command(command)
            lmp.command("run 10")
            out["values"].append([lmp.get_thermo(w) for w in ("step", "pe", "ke", "etotal", "temp", "press")])
        run()
        run("thermo_style custom step pe ke etotal temp press vol c_thermo_temp lx")
        run("thermo_style multi")
        run("thermo_style one", "thermo_modify line multi")
        run("thermo_style yaml")
        run("thermo_style custom step press temp ke pe", "thermo_modify line yaml")
        """
        expected = np.array(lammps(tmp_path, code)["values"])
        log = read_log(tmp_path / "log.lammps")
        assert len(log.runs) == 6
        assert [run.table.header[0] for run in log.runs] == ["Step"] * 6
        thermo = log.thermo
        assert thermo is not None
        assert thermo.steps.tolist() == list(range(0, 61, 5))
        rows = thermo.rows_of(expected[:, 0].astype(np.int64))
        # Of a step at which one run ends and the next begins, the later row counts.
        kinds = ["custom", "multi", "multi", "yaml", "yaml", "yaml"]
        digits = {"custom": 1e-7, "multi": 1e-4, "yaml": 1e-14}
        for row, kind, values in zip(rows, kinds, expected, strict=True):
            for column, name in ((1, "pe"), (5, "press")):
                value = thermo.columns[name][row]
                assert value == pytest.approx(values[column], rel=digits[kind], abs=digits[kind]), (values, name)
        assert thermo.columns["volume"][3] == pytest.approx(thermo.columns["Lx"][3] ** 3, rel=1e-7)
        assert np.isnan(thermo.columns["volume"][0])
        last = log.runs[1].table
        assert last.header[:6] == ("Step", "PotEng", "KinEng", "TotEng", "Temp", "Press")
        assert last.header[6:] == ("Volume", "c_thermo_temp", "Lx")

    def test_outcome_and_version(self, tmp_path: Path) -> None:
        run_script(tmp_path, MELT + "run 5\n")
        log = read_log(tmp_path / "log.lammps")
        assert log.whole
        assert log.version is not None
        assert log.version.startswith("22 Jul 2025")
        assert log.outcome.state == "finished"
        assert log.runs[0].table.n_atoms == 108
        assert log.runs[0].table.n_steps == 5

    def test_an_error(self, tmp_path: Path) -> None:
        run_script(tmp_path, MELT + "run 5\nfix 2 all nosuchfix\nrun 5\n")
        outcome = read_log(tmp_path / "log.lammps").outcome
        assert outcome.state == "error"
        assert "nosuchfix" in outcome.message
        assert "fix.cpp" not in outcome.message

    def test_lost_atoms(self, tmp_path: Path) -> None:
        text = MELT.replace("fix 1 all nve", "fix 1 all nve\nchange_box all boundary f f f")
        run_script(tmp_path, text + "velocity all scale 50\nthermo_modify lost warn\nthermo 1\nrun 300\n")
        log = read_log(tmp_path / "log.lammps")
        assert any(text.startswith("Lost atoms") for text in log.warnings)
        assert len(log.runs[0].table.steps) == 301
        assert log.runs[0].table.n_atoms is not None
        assert log.runs[0].table.n_atoms < 108

    def test_foreign_lines_with_as_many_numbers_as_a_row(self, tmp_path: Path) -> None:
        script = MELT + (
            'thermo_style custom step pe ke temp\nfix p all print 5 "20 30 40 50"\nrun 20 every 10 "print \'hi\'"\n'
            "thermo_style yaml\nrun 10\nthermo_style multi\nrun 10\n"
        )
        run_script(tmp_path, script)
        log = read_log(tmp_path / "log.lammps")
        assert [run.table.steps.tolist() for run in log.runs] == [[0, 5, 10], [10, 15, 20], [20, 25, 30], [30, 35, 40]]
        assert 30.0 not in log.runs[0].table.values

    def test_pre_no_and_post_no(self, tmp_path: Path) -> None:
        run_script(tmp_path, MELT + "run 10\nrun 10 pre no\nrun 10 pre no post no\n")
        log = read_log(tmp_path / "log.lammps")
        assert log.thermo is not None
        assert log.thermo.steps.tolist() == list(range(0, 31, 5))

    def test_a_renamed_step(self, tmp_path: Path) -> None:
        run_script(tmp_path, MELT + "thermo_style custom temp step pe\nthermo_modify colname step Schritt\nrun 10\n")
        log = read_log(tmp_path / "log.lammps")
        assert log.runs[0].table.header == ("Temp", "Schritt", "PotEng")
        assert log.thermo is not None
        assert log.thermo.steps.tolist() == [0, 5, 10]
        assert list(log.thermo.columns) == ["temp", "pe"]

    def test_minimization(self, tmp_path: Path) -> None:
        run_script(tmp_path, MELT + "displace_atoms all random 0.1 0.1 0.1 5\nminimize 1e-8 1e-8 50 200\nrun 5\n")
        log = read_log(tmp_path / "log.lammps")
        assert [run.kind for run in log.runs] == ["minimize", "run"]
        found = log.runs[0].minimization
        assert found is not None
        assert set(found) == {
            "stopping_criterion",
            "energy_initial",
            "energy_final",
            "iterations",
            "force_evaluations",
        }
        assert found["energy_final"] < found["energy_initial"]
        assert found["iterations"] == log.runs[0].last_step

    def test_echoed_commands_are_those_that_ran(self, tmp_path: Path) -> None:
        script = MELT + (
            'variable n loop 3\nvariable t index 0.001\nvariable s string "5 of $n"\nprint "timestep ${t}"\n'
            "label again\ntimestep $(v_t*v_n)\nrun $(2*v_n) every ${n} NULL # some\nnext n\njump SELF again\n"
            'if "1 > 0" then "run 1" else "run 2"\nprint """run 99\nrun 98"""\n'
        )
        run_script(tmp_path, script)
        log = read_log(tmp_path / "log.lammps")
        timesteps = [float(c.args[0]) for c in log.commands if c.name == "timestep"]
        assert timesteps == [0.001, 0.002, 0.003]
        runs = [c.args for c in log.commands if c.name == "run"]
        assert runs == [("2", "every", "1", "NULL"), ("4", "every", "2", "NULL"), ("6", "every", "3", "NULL"), ("1",)]
        assert not [c for c in log.commands if c.fault]
        assert next(c for c in log.commands if c.name == "run").text == "run $(2*v_n) every ${n} NULL # some"

    def test_a_log_opened_on_the_way(self, tmp_path: Path) -> None:
        run_script(tmp_path, MELT + "run 5\nlog second.log\nrun 5\n")
        first, second = read_log(tmp_path / "log.lammps"), read_log(tmp_path / "second.log")
        assert (first.whole, second.whole) == (True, False)
        assert second.version is None
        assert second.outcome.state == "finished"
        thermo = thermo_of([run.table for log in (first, second) for run in log.runs])
        assert thermo is not None
        assert thermo.steps.tolist() == [0, 5, 10]

    def test_any_beginning_of_a_log_can_be_read(self, tmp_path: Path) -> None:
        run_script(
            tmp_path,
            MELT
            + 'fix p all print 5 "w"\nrun 20\nthermo_style yaml\nrun 20\nthermo_style multi\nrun 20\nfix x all no\n',
        )
        whole = (tmp_path / "log.lammps").read_bytes()
        full = read_log(tmp_path / "log.lammps").thermo
        assert full is not None
        part = tmp_path / "part.log"
        rng = random.Random(3)
        for stop in sorted(rng.sample(range(len(whole)), 250)):
            part.write_bytes(whole[:stop])
            thermo = read_log(part).thermo
            if thermo is None:
                continue
            rows = full.rows_of(thermo.steps)
            assert (rows >= 0).all()
            # Only rows that no later table replaces are the same in both.
            keep = thermo.steps % 20 != 0
            for name, values in thermo.columns.items():
                assert np.array_equal(values[keep], full.columns[name][rows][keep], equal_nan=True), (stop, name)


class TestTables:
    def test_old_logs(self, tmp_path: Path) -> None:
        log = log_of(
            tmp_path,
            "LAMMPS (30 Oct 2014)\nunits real\nSetting up run ...\nMemory usage per processor = 2.2 Mbytes\n"
            "Step Temp E_pair E_mol TotEng Press \n"
            "       0         1.44   -6.7733681            0   -4.6134356   -5.0197073 \n"
            "      50   0.70303849   -5.6796164            0   -4.6250909    0.7314151 \n"
            "Loop time of 0.1 on 1 procs for 50 steps with 4000 atoms\n\n"
            "Memory usage per processor = 2.2 Mbytes\n"
            "---------------- Step       50 ----- CPU =      0.0000 (sec) ----------------\n"
            "TotEng   =        -4.6251 KinEng   =         1.0545 Temp     =         0.7030 \n"
            "PotEng   =        -5.6796 Press    =         0.7314 \n"
            "Loop time of 0.1 on 1 procs for 0 steps with 4000 atoms\n",
        )
        assert log.thermo is not None
        assert log.thermo.steps.tolist() == [0, 50]
        assert log.thermo.columns["etotal"].tolist() == [-4.6134356, -4.6251]
        assert log.outcome.state == "unfinished"

    def test_warnings_between_header_and_rows(self, tmp_path: Path) -> None:
        text = table("Step PotEng Temp", [(0, -1.5, 3.0), (5, -1.25, 4.0)])
        head, row, rest = text.partition("       0")
        warning = "WARNING: Dangerous 5 6 7 (src/x.cpp:12)\n1 2\n7 8 9\n"
        log = log_of(tmp_path, "LAMMPS (1 Jan 2025)\n" + head + warning.replace("7 8 9\n", "") + row + rest)
        assert log.thermo is not None
        assert log.thermo.columns["pe"].tolist() == [-1.5, -1.25]
        assert log.warnings == {"Dangerous 5 6 7": 1}

    @pytest.mark.parametrize("word", ["nan", "-nan", "inf", "-inf"])
    def test_values_that_are_no_numbers(self, tmp_path: Path, word: str) -> None:
        text = MEMORY + f"   Step PotEng\n       0   {word}\n      10   1.5\n" + LOOP.format(steps=10)
        thermo = log_of(tmp_path, text).thermo
        assert thermo is not None
        assert np.array_equal(thermo.columns["pe"], [float(word), 1.5], equal_nan=True)

    def test_a_torn_last_row_is_left_out(self, tmp_path: Path) -> None:
        text = table("Step PotEng", [(0, -1.5), (10, -1.25)], loop=False) + "      20 -1.12"
        thermo = log_of(tmp_path, text).thermo
        assert thermo is not None
        assert thermo.steps.tolist() == [0, 10]

    def test_a_table_cut_by_the_next_launch(self, tmp_path: Path) -> None:
        first = table("Step PotEng", [(0, 1.0), (10, 2.0), (20, 3.0)], loop=False)
        second = table("Step PotEng Temp", [(10, 2.5, 7.0), (20, 3.5, 8.0)])
        log = log_of(tmp_path, first + "      3" + "\n" + second)
        assert [run.table.complete for run in log.runs] == [False, True]
        assert log.thermo is not None
        assert log.thermo.columns["pe"].tolist() == [1.0, 2.5, 3.5]
        assert np.array_equal(log.thermo.columns["temp"], [np.nan, 7.0, 8.0], equal_nan=True)

    def test_a_run_that_goes_back_replaces_what_it_repeats(self, tmp_path: Path) -> None:
        first = table("Step PotEng", [(step, 1.0) for step in range(0, 101, 10)])
        second = table("Step PotEng", [(step, 2.0) for step in range(40, 81, 20)])
        thermo = log_of(tmp_path, first + second).thermo
        assert thermo is not None
        assert thermo.steps.tolist() == [0, 10, 20, 30, 40, 60, 80, 90, 100]
        assert thermo.columns["pe"].tolist() == [1, 1, 1, 1, 2, 2, 2, 1, 1]

    def test_a_run_that_goes_on_keeps_what_it_does_not_print(self, tmp_path: Path) -> None:
        first = table("Step PotEng Temp", [(0, 1.0, 5.0), (10, 2.0, 6.0)])
        second = table("Step PotEng", [(10, 3.0), (20, 4.0)])
        thermo = log_of(tmp_path, first + second).thermo
        assert thermo is not None
        assert thermo.columns["pe"].tolist() == [1.0, 3.0, 4.0]
        assert np.array_equal(thermo.columns["temp"], [5.0, 6.0, np.nan], equal_nan=True)

    def test_steps_beyond_what_a_float_holds(self, tmp_path: Path) -> None:
        steps = [2**53 + 1, 2**53 + 3]
        text = MEMORY + "   Step PotEng\n" + "".join(f"{step} 1.5\n" for step in steps) + LOOP.format(steps=2)
        thermo = log_of(tmp_path, text).thermo
        assert thermo is not None
        assert thermo.steps.tolist() == steps

    def test_text_that_only_looks_like_a_header(self, tmp_path: Path) -> None:
        log = log_of(
            tmp_path,
            'print "Step 1 of 2"\nStep 1 of 2\nStep by Step\nfix t all ave/time 1 1 1 c_1 title1 "# Step x"\n'
            + table("Step PotEng", [(0, 1.0)]),
        )
        assert [run.table.header for run in log.runs] == [("Step", "PotEng")]

    def test_tables_that_a_script_prints(self, tmp_path: Path) -> None:
        """A printed table is none of LAMMPS', wherever it stands; the one around it goes on below."""
        printed = "Step Temp Fake\n0 1 2\n10 1 2\n"
        first = table("Step          Temp", [(0, 300.0), (5, 310.0)])
        second = table("Step          Temp", [(5, 310.0), (10, 320.0)])
        rows = first.splitlines(keepends=True)
        for text in (
            printed + first + second,
            first + "print 'x'\n" + printed + "run 5\n" + second,
            first + second + printed,
            "".join(rows[:3]) + "Step Fake\n7 8\n" + "".join(rows[3:]) + second,
        ):
            thermo = log_of(tmp_path, text).thermo
            assert thermo is not None
            assert thermo.steps.tolist() == [0, 5, 10]
            assert {name: values.tolist() for name, values in thermo.columns.items()} == {"temp": [300, 310, 320]}
        assert "run" in [command.name for command in log_of(tmp_path, first + printed + "run 5\n" + second).commands]
        # a log that lost the blanks at the ends of its lines
        bare = "\n".join(line.rstrip() for line in (first + second).splitlines()) + "\n"
        assert log_of(tmp_path, bare).thermo.steps.tolist() == [0, 5, 10]  # type: ignore[union-attr]

    def test_a_log_without_tables(self, tmp_path: Path) -> None:
        assert log_of(tmp_path, "").thermo is None
        log = log_of(
            tmp_path, "LAMMPS (1 Jan 2025)\nunits lj\nERROR: No such thing (src/a.cpp:1)\nLast input line: x\n"
        )
        assert log.thermo is None
        assert log.outcome.state == "error"
        assert log.outcome.message == "No such thing; Last input line: x"

    def test_compressed(self, tmp_path: Path) -> None:
        path = tmp_path / "log.lammps.gz"
        path.write_bytes(gzip.compress(table("Step PotEng", [(0, 1.0)]).encode()))
        thermo = read_log(path).thermo
        assert thermo is not None
        assert thermo.columns["pe"].tolist() == [1.0]

    def test_an_error_that_a_driver_caught(self, tmp_path: Path) -> None:
        text = "LAMMPS (1 Jan 2025)\nERROR: x\n" + table("Step PotEng", [(0, 1.0)]) + "Total wall time: 0:00:00\n"
        assert log_of(tmp_path, text).outcome.state == "finished"


class TestFastPath:
    """Rows are taken a region at a time; the pattern that picks single rows is the slow twin."""

    def chunk(self, rows: int, seed: int = 1) -> bytes:
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(rows, 4)) * 10.0 ** rng.integers(-300, 300, size=(rows, 4))
        return "".join(
            f"{step:>10d} " + " ".join(f"{v:<24.17g}" for v in row) + "\n" for step, row in enumerate(values)
        ).encode()

    def test_equal_bits(self) -> None:
        chunk = self.chunk(3000)
        fast, steps = log_tables._rows(chunk, 5, 0, 10, True)
        slow, slow_steps = log_tables._rows(chunk + b"WARNING: x\n", 5, 0, 10, True)
        plain = np.array([[float(word) for word in line.split()] for line in chunk.splitlines()])
        assert np.array_equal(fast.view(np.uint64), plain.view(np.uint64))
        assert np.array_equal(slow.view(np.uint64), plain.view(np.uint64))
        assert np.array_equal(steps, slow_steps)

    def test_the_fast_path_is_the_one_in_use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        text = MEMORY.encode() + b"   Step a b c d\n" + self.chunk(50_000) + LOOP.format(steps=1).encode()
        monkeypatch.setattr(log_tables, "_CHUNK", 2**16)
        monkeypatch.setattr(log_tables, "_first_word_end", _once(log_tables._first_word_end))
        (found,) = find_tables(text)
        assert found.values.shape == (50_000, 5)

    @given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=400))
    @settings(max_examples=50)
    def test_numbers(self, values: list[float]) -> None:
        text = b" \n ".join(repr(value).encode() for value in values) * 1
        found = numbers(text)
        assert found is not None
        assert np.array_equal(found.view(np.uint64), np.array(values).view(np.uint64))

    @pytest.mark.parametrize("text", [b"1 2 x", b"1-2", b"--1", b"1e"])
    @pytest.mark.parametrize("more", [b"", b" 5.25" * 1000])
    def test_text_between_numbers(self, text: bytes, more: bytes) -> None:
        assert numbers(text + more) is None

    @given(st.binary(max_size=300))
    def test_no_bytes_break_the_reader(self, raw: bytes) -> None:
        for data in (raw, b"   Step a\n   0 1\n" + raw, MEMORY.encode() + raw + b"Step x\n 1 2\n"):
            for found in find_tables(data):
                assert found.values.shape == (len(found.steps), len(found.header))


def _once(function: object) -> object:
    calls = []

    def counted(line: bytes) -> int:
        calls.append(line)
        assert len(calls) < 3, "rows are looked at one by one"
        return function(line)  # type: ignore[operator, no-any-return]

    return counted


class TestThermo:
    def test_names(self) -> None:
        assert header_names(["PotEng", "pe", "S/CPU", "c_a[1]", "%41"]) == {
            "PotEng": "pe",
            "pe": "%70e",
            "S/CPU": "S%2FCPU",
            "c_a[1]": "c_a[1]",
            "%41": "%2541",
        }

    @given(st.lists(st.text(min_size=1, max_size=4), max_size=8))
    def test_names_are_node_names_of_their_own(self, words: list[str]) -> None:
        words = [*words, "PotEng", "pe"]
        names = header_names(words)
        assert len(set(names.values())) == len(set(words))
        assert not [name for name in names.values() if name_fault(name)]
        assert all(
            unescape_name(name) == word for word, name in names.items() if word != "PotEng" and name not in ("temp",)
        )

    def test_rows_of(self) -> None:
        thermo = Thermo(np.array([0, 10, 20]), {})
        assert thermo.rows_of(np.array([10, 5, 20, 30, -1])).tolist() == [1, -1, 2, -1, -1]
        assert Thermo(np.zeros(0, np.int64)).rows_of(np.array([1])).tolist() == [-1]
