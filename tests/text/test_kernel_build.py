"""The kernel is compiled where there is a compiler, and the package works where there is none."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from molrec_convert import _kernel
from molrec_convert._kernel import build
from molrec_convert.cli.app import App
from molrec_convert.text import rows
from molrec_convert.text.rows import Field, read_rows

ROOT = Path(__file__).parents[2]
has_compiler = pytest.mark.skipif(build.compiler() is None, reason="there is no C compiler")


@has_compiler
def test_the_library_is_that_of_the_sources(tmp_path: Path) -> None:
    made = build.build(tmp_path / build.library_name())
    assert made is not None
    assert ctypes.CDLL(str(made)).molrec_abi() == _kernel._ABI


def test_without_a_compiler_one_is_asked_for_or_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    assert build.compiler() is None
    monkeypatch.setattr(build.sys, "platform", "linux")
    monkeypatch.setattr(build.platform, "machine", lambda: "x86_64")
    assert build.requirements() == ["ziglang"]
    monkeypatch.setattr(build.platform, "machine", lambda: "riscv64")
    assert build.requirements() == []
    assert build.build(tmp_path / "kernel.so") is None
    assert "no C compiler" in capfd.readouterr().err
    monkeypatch.setenv("CC", sys.executable)
    assert build.build(tmp_path / "kernel.so") is None
    assert not list(tmp_path.iterdir())


def test_a_library_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    _kernel._load.cache_clear()
    monkeypatch.setattr(_kernel, "_ABI", -1)
    try:
        assert _kernel._load()[0] is None
        assert _kernel.status().startswith("plain Python")
    finally:
        _kernel._load.cache_clear()


def test_the_command_line_says_which_code_reads_rows() -> None:
    result = CliRunner().invoke(App(), ["--version", "-v"])
    assert result.exit_code == 0
    assert result.output.splitlines()[1] == f"rows of text: {_kernel.status()}"
    assert len(CliRunner().invoke(App(), ["--version"]).output.splitlines()) == 1


def test_plain_python_warns_once_when_there_is_much_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "library", lambda: None)
    monkeypatch.setattr(rows, "_MUCH", 10)
    monkeypatch.setattr(rows, "_read_plainly", 0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(5):
            read_rows(b"1 2\n", None, [Field("int"), Field("int")])
    assert len(said) == 1


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [pytest.param(True, marks=has_compiler), False])
def test_wheels_have_the_kernel_and_the_tag_of_its_platform(tmp_path: Path, compiled: bool) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("molrec_convert", "plugins"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("kernel.*", "__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    if not compiled:
        environment |= {"PATH": str(tmp_path), "CC": ""}
        # no compiler of PyPI either
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['ziglang'] = None\n")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=source, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    names = [name for name in zipfile.ZipFile(wheel).namelist() if "_kernel/kernel." in name]
    if compiled:
        assert names == [f"molrec_convert/_kernel/{build.library_name()}"]
        assert wheel.name.endswith(f"-py3-none-{build.platform_tag()}.whl")
    else:
        assert not names
        assert wheel.name.endswith("-py3-none-any.whl")
