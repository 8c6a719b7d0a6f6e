"""Libraries that are not installed, and faults inside plugins: each a sentence that says what to do or whose it is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from migration_inputs import extxyz

import molrec_convert
from molrec_convert import Capability, Format, MemoryTrajectory, Record, plugins
from molrec_convert.cli import run
from molrec_convert.errors import FormatError, PluginError
from molrec_convert.model import Block, Frame

HERE = Path(__file__).parent

_PDB = "ATOM      1  O   HOH A   1       0.000   0.000   0.000  1.00  0.00           O\nEND\n"
#: Extra → its libraries, and what to run in a directory that has a file of each kind.
_EXTRAS = {
    "ase": (["ase"], ["convert run.mrec o.db", "convert run.mrec o.db --dry-run", "convert set.mrec.lmdb o.db"]),
    "lmdb": (
        ["lmdb"],
        ["convert run.mrec o.mrec.lmdb", "convert run.mrec o.mrec.lmdb --dry-run", "info set.mrec.lmdb"],
    ),
    "pdb": (["gemmi"], ["convert a.pdb o.mrec", "convert run.mrec o.pdb", "convert run.mrec o.cif --dry-run"]),
    "mdanalysis": (["MDAnalysis"], ["convert run.mrec o.gro", "convert run.mrec o.dcd --strict"]),
    "lammps": (["periodictable"], ["convert ow.data o.mrec --guess-elements"]),
    "plots": (["matplotlib"], ["stats set.mrec.lmdb --png o.png"]),
    "dask": (["dask", "distributed"], ["migrate a.extxyz -o o.mrec.lmdb --units metal --engine dask"]),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a file of each kind."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "a.extxyz").write_text(extxyz(1) + extxyz(2))
    (folder / "a.pdb").write_text(_PDB)
    (folder / "ow.data").write_text(
        "water\n\n1 atoms\n1 atom types\n0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n\nMasses\n\n1 15.9994\n\n"
        "Atoms # atomic\n\n1 1 0 0 0\n"
    )
    molrec_convert.convert(folder / "a.extxyz", folder / "run.mrec", as_="trajectory")
    molrec_convert.convert(folder / "a.extxyz", folder / "set.mrec.lmdb", as_="collection")
    return folder


def codes(text: str) -> list[int]:
    """Return the exit codes among the lines that were printed."""
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("exit ")]


@pytest.mark.slow
@pytest.mark.parametrize("extra", _EXTRAS)
def test_a_library_that_is_missing_is_named_with_its_extra(extra: str, files: Path) -> None:
    libraries, commands = _EXTRAS[extra]
    done = subprocess.run(
        [sys.executable, str(HERE / "without_libraries.py"), ",".join(libraries)],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        cwd=files,
    )
    assert codes(done.stdout) == [1] * len(commands), done.stderr
    for told in done.stderr.split("== ")[1:]:
        command, *lines = told.splitlines()
        assert lines, command
        assert f"molrec-convert[{extra}]'" in lines[-1], told
        assert any(library in lines[-1] for library in libraries), told


def test_what_only_makes_it_faster_may_be_missing(files: Path) -> None:
    commands = ["convert a.extxyz p.mrec --units metal", "convert ow.data q.mrec", "convert p.mrec p.extxyz"]
    done = subprocess.run(
        [sys.executable, str(HERE / "without_libraries.py"), "periodictable"],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        cwd=files,
    )
    assert codes(done.stdout) == [0] * len(commands), done.stderr


class Breaking(MemoryTrajectory):
    """A trajectory whose frames cannot be read."""

    def batches(self, *arguments: Any, **keywords: Any) -> Iterator[Any]:
        raise KeyError("column 7")


def _read(paths: Any, context: Any) -> Record:
    word = paths[0].read_text().split()[1]
    if word == "now":
        raise ZeroDivisionError("division by zero")
    if word == "number":
        np.array([int(paths[0].read_text().split()[2])], np.int64)
    if word == "library":
        import a_library_nobody_has  # noqa: F401
    frame = Frame({"atoms": Block({"x": np.zeros(2), "y": np.zeros(2), "z": np.zeros(2)})})
    if word == "later":
        return Record(trajectory=Breaking([frame, frame]))
    return Record(frame=frame)


def _write(record: Any, path: Path, context: Any) -> None:
    raise IndexError("list index out of range")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A plugin of someone else, which fails in many ways."""
    entry = Format(
        "broken",
        "Broken",
        ("*.broken",),
        lambda head, path: 1.0 if head.startswith(b"#broken") else 0.0,
        reads=_read,
        writes=_write,
        carries={"frame": Capability("exact", "exact")},
    )
    plugin = ModuleType(__name__)
    plugin.molrec_formats = molrec_convert.hookimpl(lambda: [entry])  # type: ignore[attr-defined]
    manager = plugins.plugin_manager()
    manager.register(plugin, "fragile")
    plugins.formats.cache_clear()
    yield
    manager.unregister(plugin)
    plugins.formats.cache_clear()


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("word", ["now", "later"])
def test_a_fault_in_a_reader_names_plugin_format_and_file(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "a.broken"
    source.write_text(f"#broken {word}\n")
    assert run(["convert", str(source), str(tmp_path / "a.mrec")]) == 1
    raised = {"now": "ZeroDivisionError: division by zero", "later": "KeyError: 'column 7'"}[word]
    assert capsys.readouterr().err == (
        f"mrec: an error in the plugin 'fragile' while reading {source} as broken, please report it to its authors: "
        f"{raised} (MOLREC_TRACEBACK=1 shows where)\n"
    )
    assert not (tmp_path / "a.mrec").exists()
    with pytest.raises(PluginError) as caught:
        molrec_convert.convert(source, tmp_path / "a.mrec")
    assert type(caught.value.__cause__).__name__ == raised.partition(":")[0]


@pytest.mark.usefixtures("broken")
def test_a_fault_in_a_writer_and_a_library_of_the_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "a.broken", tmp_path / "b.broken"
    source.write_text("#broken fine\n")
    molrec_convert.convert(source, tmp_path / "a.mrec")
    assert run(["convert", str(tmp_path / "a.mrec"), str(target)]) == 1
    told = capsys.readouterr().err
    assert f"an error in the plugin 'fragile' while writing {target} as broken" in told
    assert "IndexError: list index out of range" in told
    source.write_text("#broken library\n")
    assert run(["info", str(source)]) == 1
    told = f"mrec: {source}: Broken needs a_library_nobody_has, which is not installed: install it\n"
    assert told in capsys.readouterr().err


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("digits", [30, 5000])
def test_a_number_that_is_found_out_late(digits: int, tmp_path: Path) -> None:
    """Where a reader does not look at a number before Python or numpy refuses it, the file is searched for it."""
    source = tmp_path / "a.broken"
    source.write_text(f"#broken number\n{'9' * digits}\n")
    with pytest.raises(FormatError, match=rf"a\.broken, line 2: found a number of {digits} digits, expected"):
        molrec_convert.read(source)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("word", ["now", "later"])
def test_a_migration_notes_whose_fault_it_is(word: str, tmp_path: Path) -> None:
    (tmp_path / "a.broken").write_text(f"#broken {word}\n")
    (tmp_path / "b.broken").write_text("#broken fine\n")
    arguments = ["migrate", str(tmp_path), "-o", str(tmp_path / "o.mrec.lmdb"), "--units", "metal", "--workers", "1"]
    assert run(arguments) == 4
    failure = json.loads((tmp_path / "o.failures.jsonl").read_text())
    assert failure["type"] == "PluginError"
    assert f"the plugin 'fragile' while reading {tmp_path / 'a.broken'} as broken" in failure["error"]
