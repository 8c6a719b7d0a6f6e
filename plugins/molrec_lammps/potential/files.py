"""Files a potential names: their sums, and the maps of `fix cmap`.

A cmap file holds one or more maps of 24 by 24 numbers, `#` starting comments. Source: the manual, "fix cmap".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.model import Block
from molrec_convert.model.frame import Column
from molrec_convert.report import Report
from molrec_lammps.potential.style_patterns import is_number

__all__ = ["CMAP_SIZE", "FileFacts", "cmap_text", "read_cmap"]

#: Rows and columns of a map.
CMAP_SIZE = 24


class FileFacts:
    """What is to be known of the files a potential names, found below `directory`."""

    def __init__(self, directory: Path | None, report: Report) -> None:
        self.directory, self.report = directory, report

    def sums(self, name: str, file: str) -> dict[str, float | str]:
        """`<name>_sha256` of a file; nothing for one that is not there. The word NULL names none."""
        path = self._path(file)
        if file == "NULL":
            return {}
        if path is None:
            self.report.warn(f"the file {file!r} that a style names was not found; the record names it without its sum")
            return {}
        return {f"{name}_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    def sums_of_words(self, words: Mapping[str, float | str]) -> dict[str, float | str]:
        """`<name>_sha256` of the words of a style nothing is known of that are names of files beside the script."""
        found: dict[str, float | str] = {}
        for name, word in words.items() if self.directory is not None else ():
            path = None if self.directory is None or not isinstance(word, str) else self.directory / word
            if path is not None and path.is_file():
                found[f"{name}_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def params(self, name: str, file: str) -> dict[str, float | str]:
        """A file and its sum, as parameters."""
        return {name: file, **self.sums(name, file)}

    def cmap(self, file: str) -> NDArray[np.float64] | None:
        """The maps of a file, None (and said so) when it is not there."""
        path = self._path(file)
        if path is None:
            self.report.dropped(f"fix cmap {file}", "the file was not found")
            return None
        return read_cmap(path)

    def cmap_table(self, names: Sequence[str], grids: NDArray[np.float64]) -> Block:
        """The table of some maps: their endpoints are any."""
        text = np.array(list(names), dtype=np.dtypes.StringDType())
        blank = np.array([""] * len(names), dtype=np.dtypes.StringDType())
        ends = {f"{letter}tom": Column(blank) for letter in "ijklm"}
        return Block({"name": Column(text), **ends, "grid": Column(grids)})

    def _path(self, file: str) -> Path | None:
        for directory in (self.directory, None):
            path = Path(file) if directory is None else directory / file
            if path.is_file():
                return path
        return None


def read_cmap(path: Path) -> NDArray[np.float64]:
    """The maps of a file, f64[maps, 24, 24] in the file's units. `FormatError` for a text that is none."""
    words: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="surrogateescape").splitlines(), 1):
        found = line.partition("#")[0].split()
        wrong = next((word for word in found if not is_number(word)), None)
        if wrong is not None:
            raise FormatError(path, f"line {number}", found=repr(wrong), expected="a number")
        words += found
    size = CMAP_SIZE * CMAP_SIZE
    if not words or len(words) % size:
        raise FormatError(path, found=f"{len(words)} numbers", expected=f"a multiple of {size}")
    return np.array(words, dtype=np.float64).reshape(-1, CMAP_SIZE, CMAP_SIZE)


def cmap_text(grids: NDArray[np.float64]) -> str:
    """A file of `fix cmap` with some maps, every number exact. `FormatError` for maps of another size."""
    if grids.ndim != 3 or grids.shape[1:] != (CMAP_SIZE, CMAP_SIZE):
        raise FormatError("cmap", found=f"maps of {grids.shape[1:]}", expected=f"{CMAP_SIZE} by {CMAP_SIZE}")
    lines = []
    for number, grid in enumerate(grids.tolist(), 1):
        lines += [f"# map {number}", ""]
        for at, row in enumerate(grid):
            lines.append(f"# {-180 + 15 * at}")
            lines += [" ".join(map(repr, row[n : n + 5])) for n in range(0, CMAP_SIZE, 5)]
            lines.append("")
    return "\n".join(lines) + "\n"
