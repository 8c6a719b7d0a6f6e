"""The report as a command prints it: a line a kind, with --verbose every item, with --quiet errors only."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import ase.io
import pytest
from ase.build import molecule
from ase.db import connect

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.cli.reporting import report_lines
from molrec_convert.report import Report

WATER = Path(__file__).parents[2] / "fixtures" / "water-run"


def test_one_line_a_kind():
    report = Report()
    for key in "abcdefgh":
        report.dropped(f"system/meta/{key}", "the format has no place for it")
    report.dropped("metrics", "XYZ has no place for it")
    report.dropped("status", "XYZ has no place for it")
    for number, symbol in enumerate("HCO", 1):
        report.derived("Masses", f"type {number} ({symbol}): the atomic weight of its element")
    report.dropped("atoms/name", "no such column (string)")
    report.dropped("atoms/chain", "no such column (u64)")
    report.dropped("atoms/ter", "null for some atoms")
    report.carried("atoms/x")
    report.warn("a.xyz, line 3: a blank line is passed over")
    report.warn("b.xyz, line 17: a blank line is passed over")
    report.warn("a.xyz, line 70: a blank line is passed over")
    report.truncated("a.xyz breaks off in frame 3")
    assert list(report_lines(report)) == [
        ("derived", "Masses (type 1 (H): the atomic weight of its element, and 2 more like it)"),
        ("dropped", "8 of system/meta: a, b, c, d, e, f, … (the format has no place for it)"),
        ("dropped", "metrics, status (XYZ has no place for it)"),
        ("dropped", "2 of atoms: name, chain (no such column (string), …)"),
        ("dropped", "atoms/ter (null for some atoms)"),
        ("warning", "a.xyz, line 3: a blank line is passed over (and 1 more like it)"),
        ("warning", "b.xyz, line 17: a blank line is passed over"),
        ("cut off", "a.xyz breaks off in frame 3"),
    ]
    every = list(report_lines(report, grouped=False))
    assert len(every) == len(report.items) + len(report.warnings) + len(report.truncations)
    assert ("carried", "atoms/x") in every


def test_verbose_and_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "w.mrec"
    assert run(["convert", str(WATER), str(record), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")

    def told(*flags: str) -> list[str]:
        target = tmp_path / "w.extxyz"
        assert run(["convert", str(record), str(target), "--overwrite", *flags]) == 0
        return capsys.readouterr().err.splitlines()

    report = tmp_path / "report.json"
    grouped, verbose = told(), told("-v", "--report", str(report))
    items = json.loads(report.read_text())
    for fate in ("carried", "converted", "derived", "dropped"):
        assert sum(line.startswith(f"{fate}: ") for line in verbose) == len(items[fate])
    dropped = sum(line.startswith("dropped: ") for line in grouped)
    assert 0 < dropped < len(items["dropped"])
    assert told("-q") == []
    # errors are no report
    assert run(["convert", str(record), str(tmp_path / "w.extxyz"), "-q"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert run(["convert", str(record), str(tmp_path / "v.extxyz"), "-q", "--strict"]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert run(["convert", str(record), str(tmp_path / "v.extxyz"), "-q", "-v"]) == 2
    assert "leave out one" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["convert", "join", "migrate", "merge", "select", "split"])
def test_every_command_with_a_report_has_the_flags(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "--verbose" in text
    assert "--quiet" in text


class Bar:
    """Remembers what was begun, and how far it came."""

    def __init__(self) -> None:
        self.label, self.total, self.done = "", -1, 0

    def start(self, label: str, total: int | None) -> None:
        self.label, self.total, self.done = label, -1 if total is None else total, 0

    def advance(self, frames: int, nbytes: int = 0) -> None:
        self.done += frames


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of three rows, a file of five frames, a record of them and a collection."""
    folder = tmp_path_factory.mktemp("counted")
    water = molecule("H2O")
    with connect(folder / "a.db") as database:
        for number in range(3):
            water.rattle(0.01, seed=number)
            database.write(water)
    ase.io.write(folder / "a.extxyz", [water] * 5)
    molrec_convert.convert(folder / "a.extxyz", folder / "a.mrec", as_="trajectory")
    molrec_convert.convert(folder / "a.extxyz", folder / "a.mrec.lmdb", as_="collection")
    molrec_convert.convert([folder / "a.mrec", folder / "a.db"], folder / "b.mrec.lmdb")
    return folder


_ROWS, _RUNS = ("o.extxyz", "o.xyz", "o.db"), ("o.pdb", "o.lammpstrj", "o.dcd", "o.mrec")
_SOURCES = {"a.db": 3, "a.extxyz": 5, "a.mrec": 5, "a.mrec.lmdb": 5, "b.mrec.lmdb": 8}


@pytest.mark.parametrize(
    ("source", "target"),
    [(source, target) for source in _SOURCES for target in _ROWS + (() if source.endswith(".lmdb") else _RUNS)],
)
def test_what_is_written_is_counted_once(
    source: str, target: str, counted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line and the bar say how many frames were written, whoever reads them and however often."""
    frames = _SOURCES[source]
    flags: list[str] = []
    options: dict[str, Any] = {}
    if target in _RUNS and source in ("a.db", "a.extxyz"):
        flags, options = ["--as", "trajectory"], {"as_": "trajectory"}
    if (source, target) == ("a.extxyz", "o.db"):
        flags, options = ["--as", "collection"], {"as_": "collection"}
    if target == "o.lammpstrj":
        flags, options = [*flags, "--box", "atoms,3"], {**options, "box": ("atoms", "3")}
    done = run(["convert", str(counted / source), str(tmp_path / target), *flags])
    last = capsys.readouterr().err.splitlines()[-1]
    assert done == 0, last
    assert re.search(rf": {frames} frames, ", last), last
    bar = Bar()
    molrec_convert.convert(counted / source, tmp_path / target, overwrite=True, progress=bar, **options)
    assert (bar.total, bar.done) == (frames, frames), bar.label
