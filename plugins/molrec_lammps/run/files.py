"""The data files that the commands of a run read, each parsed once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from molrec_lammps.data.file import DataFile, parse_data
from molrec_lammps.script.read_data import ReadData
from molrec_lammps.script.script import find_file, plain_name

__all__ = ["DataFiles"]


class DataFiles:
    """Finds data files in the `folders` of a run and reads them; `atom_style` is that of the commands.

    Of files of one name those the user `named` count.
    """

    def __init__(
        self, folders: Sequence[Path], atom_style: str | None, stated_by: str, named: Sequence[Path] = ()
    ) -> None:
        self.folders, self.atom_style, self.stated_by = list(folders), atom_style, stated_by
        self.named = {plain_name(path): path for path in reversed(named)}
        self._parsed: dict[Path, DataFile] = {}

    def read(self, words: ReadData) -> DataFile | None:
        """The file a command names; None where it is not there."""
        path = self.named.get(plain_name(words.file)) or find_file(words.file, self.folders)
        return None if path is None else self.parse(path, [header for _, header, _ in words.fixes if header])

    def parse(self, path: Path, counts: Sequence[str] = ()) -> DataFile:
        """One file; `counts` are the header keywords of fixes."""
        if path not in self._parsed:
            self._parsed[path] = parse_data(
                path, atom_style=self.atom_style, stated_by=self.stated_by, counts=tuple(counts)
            )
        return self._parsed[path]
