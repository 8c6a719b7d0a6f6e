"""The files that others made: the index of `fixtures/corpus`, and where each file lies.

Most lie in the folder itself. Those whose licence asks for more than ours come from the packages that hold them, which
are installed with the tests.
"""

from __future__ import annotations

import csv
import importlib.util
import shutil
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "fixtures" / "corpus"


def rows(kind: str | None = None) -> list[dict[str, str]]:
    """Return the rows of the index, those of one format or all."""
    with (FOLDER / "INDEX.tsv").open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file, delimiter="\t") if kind in (None, row["format"])]


def systems() -> list[str]:
    """Return the names of the LAMMPS systems whose energies are known."""
    return sorted(folder.name for folder in (FOLDER / "energies").iterdir())


def gather(source: Path, target: Path) -> Path:
    """Copy `source` to the empty folder `target` with the files of packages in their places; return `target`."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    for row in rows():
        if row["package"]:
            place = target / row["path"]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(_in_package(row["package"]))
    return target


def _in_package(name: str) -> Path:
    package, _, rest = name.partition("/")
    found = importlib.util.find_spec(package)
    assert found is not None, f"{package} is not installed: it comes with the extra `test`"
    assert found.origin is not None
    return Path(found.origin).parent / rest
