"""`mrec convert`: options to the letter, reports, exit codes, interruption."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import toy_plugin

import molrec_convert
from molrec_convert import plugins
from molrec_convert.cli import run

FRAMES = "0 0.125\n10 0.3\n20 0.7\n30 0.9\n"


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    """The toy formats, as if a distribution had brought them."""
    manager = plugins.plugin_manager()
    manager.register(toy_plugin, "toy")
    plugins.formats.cache_clear()
    yield
    manager.unregister(toy_plugin)
    plugins.formats.cache_clear()


@pytest.fixture
def toy(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str = FRAMES, name: str = "a.toy") -> Path:
        path = tmp_path / name
        path.write_text(f"#toy\n{text}")
        return path

    return write


def steps(path: Path) -> list[int]:
    with molrec_convert.open(path) as record:
        assert record.trajectory is not None
        return [int(step) for step in record.trajectory.steps]


def column(path: Path, name: str) -> list[float]:
    with molrec_convert.open(path) as record:
        assert record.trajectory is not None
        return [float(frame["atoms"][name][0]) for frame in record.trajectory]


def assert_sentence(text: str) -> None:
    """Messages are one line, one sentence, no traceback, no full stop."""
    line = text.strip().splitlines()[-1]
    assert line.startswith("mrec: "), text
    assert not line.endswith("."), text
    assert "Traceback" not in text


def test_convert(toy: Any, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "a.mrec"
    assert run(["convert", str(toy()), str(target)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"{target}: 4 frames, [\d.]+ kB in [\d.]+ s\n", err)
    assert steps(target) == [0, 10, 20, 30]


def test_formats_by_flag(toy: Any, tmp_path: Path) -> None:
    source, target = toy(name="a.txt"), tmp_path / "a.store"
    assert run(["convert", str(source), str(target), "--from", "toy2", "--to", "mrec"]) == 0
    assert steps(target) == [0, 10, 20, 30]


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ("1:3", [10, 20]),
        ("::2", [0, 20]),
        ("2:", [20, 30]),
        (":1", [0]),
        ("1", [10]),
        ("1:4:2", [10, 30]),
    ],
)
def test_frames(toy: Any, tmp_path: Path, frames: str, expected: list[int]) -> None:
    target = tmp_path / "a.mrec"
    assert run(["convert", str(toy()), str(target), "--frames", frames]) == 0
    assert steps(target) == expected


@pytest.mark.parametrize(("frames", "expected"), [("-1", [30]), ("-3:-1", [10, 20])])
def test_frames_from_the_end(toy: Any, tmp_path: Path, frames: str, expected: list[int]) -> None:
    first, target = tmp_path / "a.mrec", tmp_path / "b.mrec"
    assert run(["convert", str(toy()), str(first)]) == 0
    assert run(["convert", str(first), str(target), "--frames", frames]) == 0
    assert steps(target) == expected


@pytest.mark.parametrize("frames", ["a", "1:2:3:4", "", ":x"])
def test_frames_that_are_none(toy: Any, tmp_path: Path, capsys: Any, frames: str) -> None:
    assert run(["convert", str(toy()), str(tmp_path / "a.mrec"), "--frames", frames]) == 2
    err = capsys.readouterr().err
    assert "is not a slice of frames like 100:200:10" in err
    assert_sentence(err)


def test_precision_is_of_positions_only(toy: Any, tmp_path: Path) -> None:
    target = tmp_path / "a.mrec"
    assert run(["convert", str(toy()), str(target), "--precision", "0.3"]) == 0
    assert column(target, "x") == [0.0, 0.25, 0.75, 1.0]
    with molrec_convert.open(target) as record:
        assert record.trajectory is not None
        columns = record.trajectory.declaration.blocks["atoms"].columns
        assert {name: entry.precision for name, entry in columns.items()} == {"x": 0.3, "y": 0.3, "z": 0.3}


def test_precision_of_named_columns(toy: Any, tmp_path: Path) -> None:
    def precisions(*options: str) -> dict[str, float | None]:
        target = tmp_path / "a.mrec"
        assert run(["convert", str(toy()), str(target), "--overwrite", *options]) == 0
        with molrec_convert.open(target) as record:
            assert record.trajectory is not None
            columns = record.trajectory.declaration.blocks["atoms"].columns
            return {name: entry.precision for name, entry in columns.items()}

    assert precisions("--precision", "y=0.5") == {"x": None, "y": 0.5, "z": None}
    assert precisions("--precision", "y=0.5", "--precision", "1e-3") == {"x": 1e-3, "y": 0.5, "z": 1e-3}
    assert precisions("--precision", "y=0.5", "--precision", "z=2") == {"x": None, "y": 0.5, "z": 2.0}


@pytest.mark.parametrize("precision", ["0", "-1", "nan", "inf", "x=", "=1", "x=y", "abc"])
def test_precision_that_is_none(toy: Any, tmp_path: Path, capsys: Any, precision: str) -> None:
    assert run(["convert", str(toy()), str(tmp_path / "a.mrec"), "--precision", precision]) == 2
    err = capsys.readouterr().err
    assert "is neither a positive number nor COLUMN=NUMBER" in err
    assert_sentence(err)


def test_precision_twice(toy: Any, tmp_path: Path, capsys: Any) -> None:
    assert run(["convert", str(toy()), str(tmp_path / "a"), "--precision", "1", "--precision", "2"]) == 2
    assert "name other columns as COLUMN=P" in capsys.readouterr().err


def test_columns(toy: Any, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "a.mrec"
    assert run(["convert", str(toy()), str(target), "--columns", "x, z"]) == 0
    with molrec_convert.open(target) as record:
        assert record.trajectory is not None
        assert list(record.trajectory.declaration.blocks["atoms"].columns) == ["x", "z"]
    assert run(["convert", str(toy()), str(target), "--columns", "q", "--overwrite"]) == 2
    assert "no column 'q'" in capsys.readouterr().err


def test_options_of_formats(toy: Any, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "a.mrec"
    options = ["--toy-scale", "2", "--toy-flag", "--toy-words", "a, b", "--toy-mode", "fancy", "--no-toy-shift"]
    assert run(["convert", str(toy()), str(target), *options, "--compression", "gzip"]) == 0
    assert column(target, "x") == [0.25, 0.6, 1.4, 1.8]
    err = capsys.readouterr().err
    assert "warning: the flag is up\nwarning: word a\nwarning: word b\n" in err


def test_the_same_option_of_two_formats_is_one_flag(capsys: Any) -> None:
    assert run(["convert", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("--toy-scale") == 1
    assert "multiply x by this [toy, toy2]" in text
    assert "--no-toy-shift" in text
    assert "[plain|fancy]" in text


def test_an_option_the_formats_do_not_have(toy: Any, tmp_path: Path, capsys: Any) -> None:
    first, target = tmp_path / "a.mrec", tmp_path / "b.mrec"
    assert run(["convert", str(toy()), str(first)]) == 0
    assert run(["convert", str(first), str(target), "--toy-flag"]) == 2
    assert_sentence(capsys.readouterr().err)
    assert not target.exists()


def test_report_of_fates(toy: Any, tmp_path: Path, capsys: Any) -> None:
    source = toy(f"drop charge\nderive mass\nwarn odd file\n{FRAMES}")
    target, report = tmp_path / "a.mrec", tmp_path / "report.json"
    assert run(["convert", str(source), str(target), "--report", str(report)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        "derived: mass (from nothing)",
        "dropped: charge (toys have no place for it)",
        "warning: odd file",
    ]
    document = json.loads(report.read_text())
    assert document["dropped"] == [{"name": "charge", "detail": "toys have no place for it"}]
    assert document["sources"] == [str(source)]
    assert document["target"] == str(target)
    assert document["warnings"] == ["odd file"]


def test_strict_refuses_before_it_writes(toy: Any, tmp_path: Path, capsys: Any) -> None:
    target, report = tmp_path / "a.mrec", tmp_path / "report.json"
    source = toy(f"drop charge\n{FRAMES}")
    assert run(["convert", str(source), str(target), "--strict", "--report", str(report)]) == 3
    err = capsys.readouterr().err
    assert "refused, the conversion would lose something: dropped: charge" in err
    assert err.splitlines()[0] == "dropped: charge (toys have no place for it)"
    assert_sentence(err)
    assert list(tmp_path.iterdir()) == [source, report] or set(tmp_path.iterdir()) == {source, report}
    assert run(["convert", str(toy()), str(target), "--strict"]) == 0


def test_dry_run_writes_nothing(toy: Any, tmp_path: Path, capsys: Any) -> None:
    source, target = toy(f"drop charge\n{FRAMES}"), tmp_path / "a.mrec"
    assert run(["convert", str(source), str(target), "--dry-run"]) == 0
    err = capsys.readouterr().err
    assert err.splitlines() == [
        "dropped: charge (toys have no place for it)",
        f"{target}: nothing written (dry run)",
    ]
    assert set(tmp_path.iterdir()) == {source}


def test_a_cut_source(toy: Any, tmp_path: Path, capsys: Any) -> None:
    source, target = toy(f"{FRAMES}cut\n"), tmp_path / "a.mrec"
    assert run(["convert", str(source), str(target)]) == 1
    err = capsys.readouterr().err
    assert f"cut off: {source}, line 6: the last frame is cut off" in err
    assert f"its whole frames are in {target}; accept that with --allow-truncated" in err
    assert_sentence(err)
    assert steps(target) == [0, 10, 20, 30]
    assert run(["convert", str(source), str(target), "--overwrite", "--allow-truncated"]) == 0
    assert "cut off: " in capsys.readouterr().err


def test_a_cut_source_is_refused_by_strict(toy: Any, tmp_path: Path, capsys: Any) -> None:
    source, target = toy(f"{FRAMES}cut\n"), tmp_path / "a.mrec"
    assert run(["convert", str(source), str(target), "--strict", "--allow-truncated"]) == 3
    assert set(tmp_path.iterdir()) == {source}
    assert_sentence(capsys.readouterr().err)


def test_a_bad_source_names_the_line(toy: Any, tmp_path: Path, capsys: Any) -> None:
    source, target = toy("drop charge\n0 1\nx 2\n"), tmp_path / "a.mrec"
    assert run(["convert", str(source), str(target)]) == 1
    assert capsys.readouterr().err == f"mrec: {source}, line 4: found 'x', expected a step\n"
    assert set(tmp_path.iterdir()) == {source}


def test_interruption_says_how_to_go_on(toy: Any, tmp_path: Path, capsys: Any) -> None:
    source, target = toy(f"{FRAMES}interrupt\n"), tmp_path / "a.mrec"
    assert run(["convert", str(source), str(target)]) == 130
    err = capsys.readouterr().err
    assert err == f"mrec: interrupted, {target} is not written; the same command with --resume continues from here\n"
    assert not target.exists()
    assert run(["convert", str(toy()), str(target), "--overwrite"]) == 0


def test_an_interrupted_conversion_is_resumed(toy: Any, tmp_path: Path, capsys: Any) -> None:
    flag, target, whole = tmp_path / "flag", tmp_path / "a.mrec", tmp_path / "whole.mrec"
    source = toy(f"{FRAMES}interrupt {flag}\n40 1.0\n")
    assert run(["convert", str(source), str(whole)]) == 0
    flag.touch()
    assert run(["convert", str(source), str(target)]) == 130
    assert "--resume continues from here" in capsys.readouterr().err
    flag.unlink()
    assert run(["convert", str(source), str(target), "--resume", "--frames", "1:"]) == 2
    err = capsys.readouterr().err
    assert "run again without --resume to start over" in err
    assert_sentence(err)
    assert run(["convert", str(source), str(target), "--resume"]) == 0
    assert steps(target) == [0, 10, 20, 30, 40]
    assert run(["diff", str(target), str(whole)]) == 0
    assert not [path for path in tmp_path.iterdir() if "partial" in path.name]


def test_a_full_disk_is_one_sentence(toy: Any, tmp_path: Path, capsys: Any) -> None:
    source, target = toy(f"warn odd\n{FRAMES}full\n"), tmp_path / "a.mrec"
    assert run(["convert", str(source), str(target)]) == 1
    assert capsys.readouterr().err == (
        f"mrec: {target}: no space left on device; free some space, then continue with --resume\n"
    )
    assert not target.exists()


def test_targets_that_cannot_be(toy: Any, tmp_path: Path, capsys: Any) -> None:
    source = toy()
    taken = tmp_path / "taken.mrec"
    taken.write_text("mine")
    assert run(["convert", str(source), str(taken)]) == 2
    err = capsys.readouterr().err
    assert "--overwrite" in err
    assert_sentence(err)
    assert taken.read_text() == "mine"
    assert run(["convert", str(source), str(tmp_path / "no" / "a.mrec")]) == 2
    assert "there is no directory" in capsys.readouterr().err
    assert run(["convert", str(source), str(tmp_path / "a.odd")]) == 2
    assert "name one with --to" in capsys.readouterr().err
    assert run(["convert", str(source), str(tmp_path / "a.mrec"), "--to", "nothing"]) == 2
    assert "there is no format 'nothing'" in capsys.readouterr().err


def test_sources_that_cannot_be(toy: Any, tmp_path: Path, capsys: Any) -> None:
    target = str(tmp_path / "a.mrec")
    assert run(["convert", str(tmp_path / "absent.toy"), target]) == 1
    assert capsys.readouterr().err == f"mrec: there is no file or directory {tmp_path / 'absent.toy'}\n"
    assert run(["convert", str(toy())]) == 2
    assert "name at least one source and the target" in capsys.readouterr().err
    odd = tmp_path / "odd.bin"
    odd.write_bytes(bytes(range(256)))
    assert run(["convert", str(odd), target]) == 1
    err = capsys.readouterr().err
    assert "nor a name of a known format" in err
    assert_sentence(err)
    assert run(["convert", str(toy()), str(toy(name="b.toy")), target]) == 2
    assert_sentence(capsys.readouterr().err)


def test_a_report_that_cannot_be_written_is_refused_at_once(toy: Any, tmp_path: Path, capsys: Any) -> None:
    source, target = toy(), tmp_path / "a.mrec"
    for report in (tmp_path / "no" / "r.json", tmp_path, source, target):
        assert run(["convert", str(source), str(target), "--report", str(report)]) == 2
        assert_sentence(capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]
    assert source.read_text() == f"#toy\n{FRAMES}"


def test_an_unwritable_report_does_not_hide_the_result(
    toy: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    source, target, report = toy(f"drop charge\n{FRAMES}"), tmp_path / "a.mrec", tmp_path / "r.json"
    monkeypatch.setattr("molrec_convert.cli.convert.write_report", fail)
    assert run(["convert", str(source), str(target), "--report", str(report)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"mrec: {report}: no space left on device")
    assert lines[1].startswith("dropped: charge")
    assert steps(target) == [0, 10, 20, 30]


def test_a_report_on_standard_output(toy: Any, tmp_path: Path, capsys: Any) -> None:
    assert run(["convert", str(toy()), str(tmp_path / "a.mrec"), "--report", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["target"] == str(tmp_path / "a.mrec")


def test_frames_from_an_end_nobody_knows(toy: Any, tmp_path: Path, capsys: Any) -> None:
    assert run(["convert", str(toy()), str(tmp_path / "a.mrec"), "--frames", "-1"]) == 2
    assert_sentence(capsys.readouterr().err)


def test_a_plugin_adds_a_command(capsys: Any) -> None:
    assert run(["toys"]) == 0
    assert capsys.readouterr().out == "no toys\n"
    assert run(["--help"]) == 0
    assert re.search(r"toys +Count toys", capsys.readouterr().out)
