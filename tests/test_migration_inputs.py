"""What stands for inputs of a migration, and what is said of what stands for none."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from migration_inputs import extxyz, make_files

from molrec_convert import MolrecError
from molrec_convert.cli import run
from molrec_convert.migration.inputs import expand_inputs

DATA = "made here\n\n1 atoms\n1 atom types\n\n0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n\nAtoms # atomic\n\n1 1 0 0 0\n"


def given(monkeypatch: pytest.MonkeyPatch, data: bytes | None) -> None:
    """What is on standard input; None where that is closed."""
    monkeypatch.setattr(sys, "stdin", None if data is None else io.TextIOWrapper(io.BytesIO(data)))


def test_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path / "in", 3)
    names = sorted(str(path) for path in (tmp_path / "in").iterdir())
    odd = tmp_path / "in" / "a\udcff\x85b.xyz"
    odd.write_text(extxyz(3))
    for text in ("\n".join(names), "\r\n".join([*names, "  ", ""]), "\n".join([*names, *names])):
        given(monkeypatch, text.encode())
        assert expand_inputs(["-"], tmp_path / "out").paths == names
    # a name may have bytes that are no UTF-8, and characters other than "\\n" that end a line
    (tmp_path / "list").write_bytes(bytes(odd) + b"\n")
    assert expand_inputs([f"@{tmp_path}/list"], tmp_path / "out").paths == [str(odd)]
    given(monkeypatch, bytes(odd) + b"\n")
    assert expand_inputs(["-"], tmp_path / "out").paths == [str(odd)]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "standard input, which is closed"),
        (b"", "standard input names no path"),
        (b"\n  \n", "standard input names no path"),
        (b"a\0b\0", "standard input is no list of paths, one a line: it has zero bytes in it"),
        (b"nowhere\n", "there is no file or directory nowhere"),
    ],
)
def test_wrong_lists(
    data: bytes | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given(monkeypatch, data)
    assert run(["migrate", "-", "-o", str(tmp_path / "a.mrec.lmdb")]) in (1, 2)
    captured = capsys.readouterr().err
    assert said in captured
    assert captured.count("\n") == 1
    if data is not None:
        (tmp_path / "list").write_bytes(data)
        with pytest.raises(MolrecError):
            expand_inputs([f"@{tmp_path}/list"], tmp_path / "out")


def test_many_data_files_are_no_run(tmp_path: Path) -> None:
    """A directory of data files that do not belong together is searched; one of a run is an input."""
    for name in ("a.data", "b.data", "run/c.data"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(DATA)
    (tmp_path / "in" / "run" / "in.melt").write_text("units metal\natom_style atomic\nread_data c.data\nrun 0\n")
    table = expand_inputs([tmp_path / "in"], tmp_path / "out")
    assert [Path(path).name for path in table.paths] == ["a.data", "b.data", "run"]


def test_wrong_places_for_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_files(tmp_path / "in", 2)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "a.bin").write_bytes(b"\xff")
    (tmp_path / "listed.migration.jsonl").write_text('{"of": "something else"}\n')
    for arguments, said in (
        ([source, "-o", tmp_path / "a.mrec.lmdb"], "is the name of a collection"),
        ([source, "-o", source], "where the results are to go"),
        ([source, "-o", source / "c00000.extxyz"], "is no directory"),
        ([source, "-o", tmp_path / "listed"], "is not the list of a migration"),
        ([tmp_path / "none", "-o", tmp_path / "out"], "none of the 1 inputs gave a record, none is of a known format"),
    ):
        assert run(["migrate", "--as", "records", "--workers", "1", *map(str, arguments)]) in (1, 2), said
        captured = capsys.readouterr().err
        assert said in captured
        assert captured.count("\n") == 1
