"""Which files make up a run: named, told by the script, told by content, or a clear error."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from molrec_convert.errors import FormatError, UnsupportedError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.report import Fate, Report
from molrec_lammps.options import RunOptions
from molrec_lammps.run.discovery import choose_data, choose_dumps, classify, find_logs, find_script
from molrec_lammps.run.run import read_run
from molrec_lammps.run.settings import Settings, settings_of
from molrec_lammps.script.script import read_script

DATA = "title\n\n1 atoms\n1 atom types\n0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n\nAtoms # atomic\n\n1 1 1 2 3\n"
LOG = (
    "LAMMPS (22 Jul 2025)\n{commands}Per MPI rank memory allocation (min/avg/max) = 1 | 1 | 1 Mbytes\n   Step PotEng\n"
)
LOG += "         0 {value}\nLoop time of 1 on 1 procs for 0 steps with 1 atoms\n\nTotal wall time: 0:00:00\n"


def dump(*steps: int, columns: str = "id x y z") -> str:
    row = "1" + " 0.5" * (len(columns.split()) - 1)
    return "".join(
        f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n1\nITEM: BOX BOUNDS pp pp pp\n0 9\n0 9\n0 9\n"
        f"ITEM: ATOMS {columns}\n{row}\n"
        for step in steps
    )


@pytest.fixture
def write(tmp_path: Path):  # type: ignore[no-untyped-def]
    def files(**texts: str) -> Path:
        for name, text in texts.items():
            path = tmp_path / name.replace("__", ".")
            path.write_text(text)
        return tmp_path

    return files


def settings(text: str, directory: Path) -> Settings:
    path = directory / "in.of.the.test"
    path.write_text(text)
    found = settings_of(read_script(path).commands)
    path.unlink()
    return found


class TestUnitsAreNeverGuessed:
    """A `units` command nobody can evaluate is not the same as none."""

    @pytest.mark.parametrize("line", ["units ${u}", "units furlong", "${word} real", 'if "${a}" then "units real"', ""])
    def test_lj_is_the_default_of_a_script_without_the_command(self, write, line: str) -> None:  # type: ignore[no-untyped-def]
        script = f"{line}\ncreate_box 1 box\ndump a all custom 1 b id x y z\nrun 1\n"
        report = Report()
        record = read_run([write(a=script, b=dump(0, 1))], ReadContext(RunOptions(), report))
        assert record.system is not None
        assert record.system.meta.get("units") == (None if line else {"preset": "lj"})
        assert any("--units names them" in text for text in report.warnings) == bool(line)

    def test_a_word_of_the_dump_that_is_none(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(b="ITEM: UNITS\nfurlong\n" + dump(0))
        with pytest.raises(FormatError, match=r"b, line 2: found units furlong, expected one of lj, real"):
            read_run([folder], ReadContext(RunOptions()))


class TestAtomStyleOfTheScript:
    @pytest.mark.parametrize("style", ["wibble", "smooth"])
    def test_one_that_is_not_read_leaves_the_data_file_out(self, write, style: str) -> None:  # type: ignore[no-untyped-def]
        script = f"units lj\natom_style {style}\nread_data a\ndump a all custom 1 b id x y z\nrun 1\n"
        report = Report()
        folder = write(s=script, a=DATA, b=dump(0, 1))
        assert len(read_run([folder], ReadContext(RunOptions(), report)).trajectory) == 2  # type: ignore[arg-type]
        assert any(item.name == "a" and "the atom_style command: " in item.detail for item in report.of(Fate.DROPPED))
        (folder / "b").unlink()
        with pytest.raises(UnsupportedError, match="the atom_style command: "):
            read_run([folder], ReadContext(RunOptions()))

    def test_is_named_as_what_told_it(self, write) -> None:  # type: ignore[no-untyped-def]
        report = Report()
        read_run([write(s="atom_style atomic\nread_data a\nrun 1\n", a=DATA)], ReadContext(RunOptions(), report))
        assert "atom style atomic (from the atom_style command)" in " ".join(map(str, report.items))


class TestClassify:
    def test_by_content(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=DATA, b=dump(0), c="units lj\nrun 1\n", d=LOG.format(commands="", value=1), e="nothing\n")
        sources = classify([folder])
        assert {kind: [p.name for p in paths] for kind, paths in sources.found.items()} == {
            "script": ["c"],
            "data": ["a"],
            "dump": ["b"],
            "log": ["d"],
            "ave": [],
        }

    def test_nothing_there(self, write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(UsageError, match="holds no LAMMPS"):
            classify([write(a="nothing\n")])
        with pytest.raises(UsageError, match="is no LAMMPS"):
            classify([tmp_path / "a"])
        with pytest.raises(UsageError, match="no such file"):
            classify([tmp_path / "missing"])


class TestScript:
    def test_the_one_no_other_includes(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(ff="pair_style lj/cut 2\n", in__a="units lj\ninclude ff\n")
        script = find_script(classify([folder]), [], Report())
        assert script is not None
        assert script.path.name == "in.a"

    def test_the_one_the_log_echoes(self, write) -> None:  # type: ignore[no-untyped-def]
        commands = "units lj\natom_style atomic\nrun 0\n"
        folder = write(
            in__a=commands, in__b=commands.replace("lj", "real"), log__lammps=LOG.format(commands=commands, value=1)
        )
        sources, report = classify([folder]), Report()
        script = find_script(sources, find_logs(sources, Report()), report)
        assert script is not None
        assert script.path.name == "in.a"
        assert [item.name for item in report.of(Fate.DERIVED)] == ["input script"]

    def test_several(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(in__a="units lj\npair_style none\n", in__b="units real\npair_style none\n")
        with pytest.raises(UsageError, match=r"several input scripts: in\.a, in\.b; name the files"):
            find_script(classify([folder]), [], Report())
        script = find_script(classify([folder / "in.b"]), [], Report())
        assert script is not None
        assert script.path.name == "in.b"


class TestLogs:
    def test_log_lammps_and_those_of_the_script(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(
            log__lammps=LOG.format(commands="", value=1),
            second=LOG.format(commands="", value=2),
            third=LOG.format(commands="", value=3),
        )
        logs = find_logs(classify([folder]), report := Report(), ["second"])
        assert [log.path.name for log in logs] == ["log.lammps", "second"]
        assert [text.split()[1] for text in report.losses()] == ["third"]

    def test_the_screen_output_beside_the_log(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=LOG.format(commands="", value=1), b="hello\n" + LOG.format(commands="", value=1))
        assert [log.path.name for log in find_logs(classify([folder]), Report())] == ["a"]

    def test_several(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=LOG.format(commands="", value=1), b=LOG.format(commands="", value=2))
        with pytest.raises(UsageError, match="several logs: a, b"):
            find_logs(classify([folder]), Report())
        assert [log.path.name for log in find_logs(classify([folder / "b"]), Report())] == ["b"]

    def test_logs_nearby_are_not_taken_for_files_that_were_named(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=DATA, b=dump(0), log__lammps=LOG.format(commands="", value=1))
        assert find_logs(classify([folder / "a", folder / "b"]), Report()) == []


class TestData:
    def choose(self, folder: Path, text: str | None, *names: str) -> tuple[str | None, Report]:
        report = Report()
        sources = classify([folder / name for name in names] or [folder])
        found = choose_data(sources, None if text is None else settings(text, folder), report)
        return None if found is None else found.name, report

    def test_what_the_script_reads(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=DATA, b=DATA)
        chosen, report = self.choose(folder, "read_data b\nwrite_data a\nrun 1\n")
        assert chosen == "b"
        assert [item.name for item in report.of(Fate.DROPPED)] == ["a"]

    def test_what_the_run_writes(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=DATA, b=DATA)
        for text in ("create_box 1 b\nwrite_data a\n", "read_data b\nreplicate 2 2 2\nwrite_data a\n"):
            chosen, report = self.choose(folder, text)
            assert chosen == "a"
            assert "data file" in [item.name for item in report.of(Fate.DERIVED)]

    def test_none_that_describes_the_atoms(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=DATA)
        for text, why in (
            ("create_box 1 b\nrun 1\n", "not the data file of the run"),
            ("read_data a\nread_data a add append\n", "several data files"),
            ("read_data a\nreset_atoms id\n", "reset_atoms"),
            ("read_data gone\n", "not there"),
        ):
            chosen, report = self.choose(folder, text)
            assert chosen is None
            assert why in " ".join(report.losses())

    def test_the_only_one(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=DATA)
        assert self.choose(folder, None)[0] == "a"
        assert self.choose(folder, "read_restart r\n")[0] == "a"

    def test_several(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=DATA, b=DATA)
        with pytest.raises(UsageError, match="several data files: a, b"):
            self.choose(folder, None)
        with pytest.raises(UsageError, match="several data files: a, b"):
            self.choose(folder, None, "a", "b")
        assert self.choose(folder, None, "b")[0] == "b"
        assert self.choose(folder, "read_data b\n", "a", "b")[0] == "b"


class TestDumps:
    def choose(self, folder: Path, text: str | None, *names: str) -> tuple[list[list[str]], Report]:
        report = Report()
        sources = classify([folder / name for name in names] or [folder])
        dumps = choose_dumps(sources, None if text is None else settings(text, folder), report)
        return [[path.name for path in found.files] for found in dumps], report

    def test_in_the_order_of_the_script(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=dump(0), b=dump(0), c=dump(0))
        text = (
            "dump 1 all custom 1 c id x\ndump 2 all xyz 1 x.xyz\ndump 3 all atom 1 a\ndump 4 all atom 1 gone\nrun 1\n"
        )
        dumps, report = self.choose(folder, text)
        assert dumps == [["c"], ["a"]]
        assert "gone" in report.warnings[0]
        assert "mrec convert" in report.losses()[0]
        assert report.losses()[0].startswith("dropped: b")

    def test_one_file_for_each_frame(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(**{f"d__{step}__x": dump(step) for step in (0, 5, 10, 100)}, d__y__x=dump(0))
        dumps, _ = self.choose(folder, "dump 1 all custom 5 d.*.x id x\nrun 1\n")
        assert dumps == [["d.0.x", "d.5.x", "d.10.x", "d.100.x"]]

    def test_files_compressed_since(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=dump(0), d__0=dump(0), d__5=dump(5))
        for path in folder.iterdir():
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        assert self.choose(folder, "dump 1 all atom 1 a\nrun 1\n")[0] == [["a.gz"]]
        assert self.choose(folder, "dump 1 all atom 1 d.*\nrun 1\n")[0] == [["d.0.gz", "d.5.gz"]]
        assert self.choose(folder, "dump 1 all atom 1 a\nrun 1\n", "a.gz")[0] == [["a.gz"]]

    def test_a_file_of_two_commands_is_one_dump(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=dump(0, 1))
        text = "dump 1 all atom 1 a\nrun 1\nundump 1\ndump 2 all atom 1 a\ndump_modify 2 append yes\nrun 1\n"
        assert self.choose(folder, text)[0] == [["a"]]

    def test_the_timesteps_of_a_file_written_twice(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=dump(0, 1))
        text = "dump 1 all atom 1 a\ntimestep 1\nrun 1\nundump 1\nreset_timestep 0\ntimestep 2\ndump 2 all atom 1 a\n"
        for more, timesteps in (("run 1\n", {2.0}), ("dump_modify 2 append yes\nrun 1\n", {1.0, 2.0})):
            (found,) = choose_dumps(classify([folder]), settings(text + more, folder), Report())
            assert found.command is not None
            assert found.command.timesteps == timesteps

    def test_files_of_processors(self, write) -> None:  # type: ignore[no-untyped-def]
        text = "dump 1 all atom 1 d.%.*\nrun 1\n"
        folder = write(**{f"d__0__{step}": dump(step) for step in (0, 10)})
        assert self.choose(folder, text)[0] == [["d.0.0", "d.0.10"]]
        write(**{f"d__1__{step}": dump(step) for step in (0, 10)})
        dumps, report = self.choose(folder, text)
        assert dumps == [["d.0.0", "d.0.10", "d.1.0", "d.1.10"]]
        assert not report.losses()

    def test_dumps_of_other_styles(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=dump(0), x="1\n\nC 0 0 0\n")
        dumps, report = self.choose(folder, "dump 1 all xyz 1 x\ndump 2 all atom 1 a\ndump 3 all dcd 1 y\nrun 1\n")
        assert dumps == [["a"]]
        assert report.losses()[0].startswith("dropped: dump 1 (x) (a dump of style xyz is not read with a run; ")
        assert "xyz" in report.losses()[0].rpartition(";")[2]

    def test_a_series_by_content(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(d10=dump(10), d9=dump(9), d100=dump(100))
        assert self.choose(folder, None)[0] == [["d9", "d10", "d100"]]

    @pytest.mark.parametrize(
        "texts",
        [
            {"d1": dump(0), "d2": dump(0)},
            {"d1": dump(0), "e1": dump(1)},
            {"d1": dump(0), "d2": dump(1, columns="id vx")},
        ],
    )
    def test_several(self, write, texts: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
        folder = write(**texts)
        names = ", ".join(sorted(texts))
        with pytest.raises(UsageError, match=f"several dumps: {re.escape(names)}"):
            self.choose(folder, None)
        assert self.choose(folder, None, *sorted(texts))[0] == [sorted(texts)]

    def test_named_files_the_script_does_not_write(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a=dump(0), b=dump(0))
        text = "dump 1 all atom 1 a\nrun 1\n"
        assert self.choose(folder, text, "a")[0] == [["a"]]
        assert self.choose(folder, text, "b")[0] == [["b"]]
        with pytest.raises(UsageError, match="does not write this dump"):
            self.choose(folder, text, "a", "b")

    def test_broken_dumps_are_left_to_their_reader(self, write) -> None:  # type: ignore[no-untyped-def]
        folder = write(a="ITEM: TIMESTEP\nx\n", b="ITEM: TIMESTEP\n1\n")
        with pytest.raises(UsageError, match="several dumps"):
            self.choose(folder, None)
        assert self.choose(folder, None, "a")[0] == [["a"]]
