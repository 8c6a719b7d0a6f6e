"""What a terminal would obey in names and values of a stranger's files is shown by every command, never sent."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from collection_stores import write as write_collection

import molrec_convert
from molrec_convert.cli import main, output, run
from molrec_convert.cli.output import shown
from molrec_convert.model import (
    Block,
    Frame,
    MemoryTrajectory,
    Meta,
    Observable,
    Observables,
    Record,
)
from molrec_convert.stores.zarr.sections.metrics import MetricsLog

#: Red, clears the screen, sets the title, turns the direction, C1, ends a line, hides.
NASTY = "a\x1b[31mb\x1b[2J\x1b]0;t\x07\u202ec\x9b1mz\r\nd\u2028e\u200bf\x7f"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
Capture = pytest.CaptureFixture[str]


def nasty(n: int = 0) -> Record:
    """A record with it in every place that takes any text."""
    name = NASTY.replace("/", "")
    frame = Frame({name: Block({name: np.arange(3.0) + n})}, Meta({name: float(n)}), step=n)
    return Record(
        meta={"note": NASTY, NASTY: [NASTY], "record_id": NASTY},
        system=Frame({f"{name}s": Block({name: [NASTY] * 3})}, Meta({"units": "real", NASTY: NASTY})),
        trajectory=MemoryTrajectory([frame]),
        observables=Observables({name: Observable.of(np.arange(2.0), "vector", NASTY)}),
        method={"type": "classical", "description": NASTY, "engine": {"name": NASTY}},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Records of such names, in files of such names."""
    place = tmp_path / "p\x1b[31m\u202eq\nr"
    place.mkdir()
    molrec_convert.write(nasty(), place / "a.mrec")
    molrec_convert.write(nasty(1), place / "b.mrec")
    with MetricsLog.open(place / "a.mrec") as log:
        log.append(NASTY, 1.0, 1, tags={NASTY: NASTY})
    (place / "a.mrec" / "later\x1b[1m").mkdir()
    (place / "a.mrec" / "later\x1b[1m" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    molrec_convert.convert(place / "a.mrec", place / "c.mrec.lmdb", collection_units="length=angstrom")
    (place / "broken.mrec").mkdir()
    (place / "broken.mrec" / "zarr.json").write_text("{\x1b[31m")
    (place / "x.xyz").write_text(f"1\n{NASTY!r}\x1b[31m\nO 0 0 zero\n")
    return place


COMMANDS: list[list[str]] = [
    ["info", "a.mrec"],
    ["info", "c.mrec.lmdb"],
    ["info", "a.mrec", "--json"],
    ["info", "broken.mrec"],
    ["tree", "a.mrec"],
    ["tree", "a.mrec", "--files"],
    ["tree", "a.mrec", "--overview"],
    ["tree", "c.mrec.lmdb"],
    ["tree", "c.mrec.lmdb", "--files"],
    ["tree", "a.mrec", "no\x1b[31mne"],
    ["validate", "a.mrec"],
    ["validate", "a.mrec", "--json"],
    ["validate", "broken.mrec"],
    ["validate", "c.mrec.lmdb"],
    ["diff", "a.mrec", "b.mrec"],
    ["stats", "c.mrec.lmdb"],
    ["stats", "c.mrec.lmdb", "--json"],
    ["pack", "a.mrec"],
    ["convert", "a.mrec", "d.extxyz", "-v"],
    ["convert", "a.mrec", "d.mrec", "-v"],
    ["convert", "a.mrec", "d.extxyz", "--dry-run", "--report", "-"],
    ["convert", "x.xyz", "d.mrec"],
    ["convert", "gone\x1b[31m", "d.mrec"],
    ["migrate", "x.xyz", "b.mrec", "-o", "m.mrec.lmdb", "--units", "metal", "--dry-run"],
    ["migrate", "x.xyz", "b.mrec", "-o", "m.mrec.lmdb", "--units", "metal", "--workers", "1"],
    ["select", "c.mrec.lmdb", "no\x1b[31mne > 1"],
    ["no\x1b[31mne"],
    ["info", "a.mrec", "--no\x1b[31mne"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: ascii(" ".join(command)))
def test_no_command_sends_what_a_terminal_obeys(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(folder)
    run([command[0], *(str(folder / word) if "." in word else word for word in command[1:])])
    said = capsys.readouterr()
    assert said.out or said.err
    for text in (said.out, said.err):
        assert UNSAFE.findall(text) == []
    if "--json" in command:
        json.loads(said.out)


def test_a_terminal_gets_colours_but_not_those_of_names(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(["info", str(folder / "a.mrec")]) == 0
    said = capsys.readouterr().out
    assert "\\x1b[31m" in said.replace("\n", "")
    assert "\x1b[2J" not in said
    assert "\u202e" not in said


def test_texts_without_anything_to_escape_stay() -> None:
    for text in ("", "Ångström 水 \t x", "C:\\new", "é", "√π·×–…", "👍"):
        assert shown(text) == text
    assert shown("\x1b[1m\n\u202e\u2066") == "\\x1b[1m\\n\\u202e\\u2066"


def test_what_libraries_warn_of_is_shown(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("molrec_convert.cli.run", lambda arguments: warnings.warn(f"of {NASTY}", stacklevel=1))
    monkeypatch.setattr("warnings.showwarning", warnings.showwarning)
    monkeypatch.setattr("sys.exit", lambda code: None)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main()
    said = capsys.readouterr().err
    assert said.startswith("UserWarning: of a\\x1b[31mb")
    assert UNSAFE.findall(said) == []


def test_only_one_module_writes_to_the_streams() -> None:
    """So that none is forgotten."""
    folder = Path(output.__file__).parent
    for path in folder.glob("*.py"):
        found = re.findall(r"click\.s?echo|std(?:out|err)\.write|(?<!Console\(\)\.)\bprint\(", path.read_text())
        assert not found or path.name == "output.py", path


def page(folder: Path) -> str:
    assert run(["stats", str(folder / "c.mrec.lmdb"), "--html", str(folder / "page.html")]) == 0
    return (folder / "page.html").read_text()


def in_a_notebook(folder: Path) -> str:
    with molrec_convert.open(folder / "a.mrec") as record, molrec_convert.open(folder / "c.mrec.lmdb") as collection:
        return str(record._repr_html_() + collection._repr_html_())


@pytest.mark.parametrize("make", [page, in_a_notebook])
def test_pages_escape_names(folder: Path, make: Callable[[Path], str]) -> None:
    evil = "<script>alert(1)</script>"
    record = Record(
        meta={"record_id": evil},
        system=Frame({"atoms": Block({evil.replace("/", "|"): [1.0]})}, Meta({"units": "real"})),
        trajectory=MemoryTrajectory([Frame({"b<i>": Block({"x": [1.0]})}, Meta({"<img src=x>": 1.0}))]),
        method={"type": evil, "description": evil, "engine": {"name": evil}},
    )
    molrec_convert.write(record, folder / "a.mrec", overwrite=True)
    with molrec_convert.open(folder / "a.mrec") as stored:
        assert stored.trajectory is not None
        write_collection(
            folder / "c.mrec.lmdb",
            [Record(meta=record.meta, system=record.system, trajectory=stored.trajectory)],
            stored.trajectory.declaration,
            index_columns={"<img src=x>": lambda _: 1.0, "text<b>": lambda _: evil},
            overwrite=True,
        )
    text = make(folder)
    for tag in ("<script>alert", "<img", "<i>", "<b>"):
        assert tag not in text
    assert "&lt;" in text
