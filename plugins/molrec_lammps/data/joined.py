"""Many small data files looked at in one go: of the first the state is read, of the others whether theirs is like it.

Only files of atoms, velocities, masses, labels and relations whose atoms have the same columns. Their rows
are read together, a record is made of each when it is asked for, and is the one `read_data` gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from molrec_convert.errors import MolrecError
from molrec_convert.formats import NotBatchable, ReadContext
from molrec_convert.model import Declaration, Record
from molrec_convert.model.collection.collection import Collection, JoinedCollection
from molrec_convert.model.collection.member import as_member, collection_units
from molrec_convert.report import Report
from molrec_convert.text.compression import compression_of
from molrec_lammps.common.atom_styles import Column
from molrec_lammps.data.file import DataFile, Outline, fill_together, filled, outline_data
from molrec_lammps.data.header import TYPE_KINDS
from molrec_lammps.data.record import record_of_data
from molrec_lammps.data.sections import RELATIONS

__all__ = ["read_joined"]

#: Texts are in memory together.
_MOST_BYTES = 2**25
_SECTIONS = frozenset(
    {"Atoms", "Masses", "Velocities", *RELATIONS, *(f"{kind.capitalize()} Type Labels" for kind in TYPE_KINDS)}
)


def read_joined(paths: Sequence[Path], context: ReadContext) -> tuple[Collection, list[int]] | None:
    """Return the records of all files, one of each; None where they are to be read one by one.

    Raises `NotBatchable` for those that are.
    """
    texts = [_text(path) for path in paths]
    if sum(map(len, texts)) > _MOST_BYTES:
        return None
    found = [_outline(path, text, context) for path, text in zip(paths, texts, strict=True)]
    plain = Counter(_kind(outline) for outline in found if outline is not None)
    if not plain:
        return None
    most = plain.most_common(1)[0][0]
    outlines = [outline for outline in found if outline is not None and _kind(outline) == most]
    if len(outlines) < len(found):
        raise NotBatchable([n for n, outline in enumerate(found) if outline is None or _kind(outline) != most])
    files = _Files(_read(outlines), context)
    counts = [outline.sections["Atoms"].rows for outline in outlines]
    made = JoinedCollection(paths, counts, files.declaration, files.units, files.record, files.reports)
    return made, [1] * len(paths)


def _text(path: Path) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _read(outlines: Sequence[Outline]) -> list[DataFile]:
    """Return the files with their rows; `NotBatchable` names those at fault."""
    read: list[DataFile] = []
    faults = []
    for number, (outline, rows) in enumerate(zip(outlines, fill_together(outlines), strict=True)):
        try:
            read.append(filled(outline, rows))
        except MolrecError:
            faults.append(number)
    if faults:
        raise NotBatchable(faults)
    return read


def _outline(path: Path, text: bytes, context: ReadContext) -> Outline | None:
    """Return what is known of a file before its rows are read; None of one at fault, and where it is no plain one."""
    if not text or compression_of(text) is not None:
        return None
    try:
        outline = outline_data(path, text, atom_style=context.options.atom_style)
    except MolrecError:
        return None
    return outline if _is_plain(outline) else None


def _is_plain(outline: Outline) -> bool:
    """True if a file has atoms, and nothing that makes columns of the state but Atoms and Velocities."""
    sections, style = outline.sections, outline.choice.style
    if style is None or style.bonus or outline.beyond is not None or not sections.keys() <= _SECTIONS:
        return False
    if "Atoms" not in sections or not sections["Atoms"].rows:
        return False
    # comments of velocities are a column of the state
    return "Velocities" not in sections or b"#" not in sections["Velocities"].text(outline.data)


def _kind(outline: Outline) -> tuple[tuple[Column, ...], tuple[Column, ...], str | None]:
    """Return what makes the columns of the state, and the units."""
    style = outline.choice.style
    moving = style.velocities if style is not None and "Velocities" in outline.sections else ()
    return outline.choice.columns, moving, outline.header.units


class _Files:
    """Files that are alike, and how the record of one is made of it."""

    def __init__(self, files: Sequence[DataFile], context: ReadContext) -> None:
        self._files, self._context = files, context
        self.reports = [Report() for _ in files]
        member = as_member(self._read(0))
        assert member.trajectory is not None
        self.declaration = _widened(member.trajectory.declaration, max(len(one.index.ids) for one in files))
        self.units = collection_units(member.units)

    def record(self, number: int) -> Record:
        """Return the record of one file."""
        return as_member(self._read(number), self.reports[number], self.declaration)

    def _read(self, number: int) -> Record:
        return record_of_data(self._files[number], replace(self._context, report=self.reports[number]))


def _widened(declaration: Declaration, rows: int) -> Declaration:
    """Return a declaration with the most rows any of the files has."""
    return replace(declaration, blocks={"atoms": replace(declaration.blocks["atoms"], rows=rows)})
