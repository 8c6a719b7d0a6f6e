"""The command line in a process that lacks some libraries: `python without_libraries.py ase,gemmi COMMAND...`."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class Absent(importlib.abc.MetaPathFinder):
    """Finds no module of some packages, as where these are not installed."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = frozenset(packages)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in self._packages:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, Absent(sys.argv[1].split(",")))
    from molrec_convert.cli import run

    # several commands, as each start costs time: each one's code and what it said, a line
    for line in sys.stdin:
        print(f"== {line.strip()}", file=sys.stderr)
        print(f"exit {run(line.split())}", flush=True)
