"""The independent implementation of the contract (`molcrafts-molrs`), run in a Python of its own.

`MOLREC_INTEROP_PYTHON` names an interpreter that has it. Without the variable a virtual environment is made once, in
the user's cache folder, with the newest Python from 3.12 on that is found; where that cannot be done the tests that
need it are skipped with the reason.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

REQUIREMENTS = ("molcrafts-molrs==0.19.*", "numpy")
_LEAST = (3, 12)
_PRELUDE = """
import json, sys
from pathlib import Path
import numpy as np
import molrs
import molrs.io
from molrs.io import mrec
"""


class IndependentError(Exception):
    """A snippet ended in an error; the text is what it wrote to its standard error."""


def run_independent(code: str, *arguments: str | os.PathLike[str]) -> str:
    """What a snippet prints. It finds `arguments` in `sys.argv[1:]`; `np json sys Path molrs mrec` are imported.

    Skips the calling test where the implementation is not to be had; raises `IndependentError` when the snippet fails.
    """
    done = subprocess.run(
        [interpreter(), "-c", _PRELUDE + code, *(os.fspath(argument) for argument in arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise IndependentError(done.stderr.strip())
    return done.stdout


@functools.cache
def _found() -> tuple[str | None, str]:
    """The interpreter, or why there is none."""
    named = os.environ.get("MOLREC_INTEROP_PYTHON")
    if named:
        fault = _fault(named)
        return (named, "") if fault is None else (None, f"MOLREC_INTEROP_PYTHON cannot import molrs: {fault}")
    try:
        return _environment()
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"no environment with {REQUIREMENTS[0]} can be made: {error}"


def interpreter() -> str:
    """The Python that has the implementation; skips where there is none."""
    where, reason = _found()
    if where is None:
        _skip(reason)
    return where


def _skip(reason: str) -> NoReturn:
    pytest.skip(reason)


def _environment() -> tuple[str | None, str]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "molrec-convert-tests"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for base in _pythons():
            folder = cache / f"independent-{base.name}"
            python = folder / "bin" / "python"
            if not python.exists() or _fault(str(python)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                subprocess.run([base, "-m", "venv", folder], check=True, capture_output=True, timeout=300)
                install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
                done = subprocess.run(install, check=False, capture_output=True, text=True, timeout=600)
                if done.returncode:
                    shutil.rmtree(folder, ignore_errors=True)
                    return None, f"{REQUIREMENTS[0]} cannot be installed: {done.stderr.strip().splitlines()[-1:]}"
            return str(python), ""
    return None, f"no Python from {'.'.join(map(str, _LEAST))} on is found, which {REQUIREMENTS[0]} needs"


def _pythons() -> Iterator[Path]:
    """Interpreters new enough, newest first."""
    found: dict[tuple[int, ...], Path] = {}
    names = [f"python3.{minor}" for minor in range(_LEAST[1], 20)]
    candidates = [Path(where) for where in map(shutil.which, names) if where]
    roots = [Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")]
    candidates += [p for root in roots for name in names for p in root.glob(f"versions/*/bin/{name}")]
    for candidate in [Path(sys.executable), *candidates]:
        version = _version(candidate)
        if version is not None and version >= _LEAST:
            found.setdefault(version, candidate)
    yield from (found[version] for version in sorted(found, reverse=True))


def _version(python: Path) -> tuple[int, ...] | None:
    code = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(int(part) for part in done.stdout.split()) if done.returncode == 0 else None


def _fault(python: str) -> str | None:
    try:
        done = subprocess.run([python, "-c", _PRELUDE], capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it ends with an error"])[-1]
