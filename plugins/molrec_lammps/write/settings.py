"""The force field of a record as commands: the writer of the format `lammps-settings`.

Styles, coefficients, mixing, special bonds, k-space and dielectric of a script, to be included after `read_data …
nocoeff` (LAMMPS takes coefficients of a data file only where the styles stand before it). Files of coefficients lie
beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from molrec_convert import __version__
from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.files.target_file import open_target
from molrec_convert.formats import WriteContext
from molrec_convert.model import Record
from molrec_convert.report import Report
from molrec_lammps.potential.potential import CATEGORIES, Potential
from molrec_lammps.potential.style_table import find_style
from molrec_lammps.write.coefficients import coefficient_commands, style_commands
from molrec_lammps.write.commands import setup_lines
from molrec_lammps.write.force_field import FileFolder, PotentialFiles, potential_of_record, with_pair_style
from molrec_lammps.write.state import ATOMS, lammps_document
from molrec_lammps.write.types import atom_types, relation_types
from molrec_lammps.write.units import preset_of

__all__ = ["check_stated", "file_folders", "renamed", "settings_text", "write_settings"]

_RELATIONS = {"bonds": "bond", "angles": "angle", "dihedrals": "dihedral", "impropers": "improper"}


def write_settings(record: Record, path: Path, context: WriteContext) -> None:
    """Write the force field as an include. UnsupportedError: there is none, or LAMMPS has nothing for it."""
    target = path if context.target is None else context.target
    potential = _potential(record, target, context)
    units = None if context.units_kept else preset_of(record)
    variables = setup_lines(record, (), units, Report()).variables
    with open_target(path, target.name) as file:
        file.write(settings_text(potential, variables).encode())


def predict_settings(record: Record, context: WriteContext) -> None:
    """Report what the file will not hold."""
    _potential(record, Path() if context.target is None else context.target, context)


def _potential(record: Record, target: Path, context: WriteContext) -> Potential:
    options, report = context.options, context.report
    names = _names(record, report)
    units = preset_of(record)
    potential = potential_of_record(record, names, context, units)
    if potential is None:
        raise UnsupportedError("the record has no force field, and settings are made of one")
    potential = with_pair_style(potential, options.pair_style, len(names.get("atom", ())))
    check_stated(potential)
    files = PotentialFiles.of(record.forcefield, potential, units)
    beside = target.parent
    missing = [word for word in files.sums if not (beside / word).is_file()]
    for word in missing:
        report.warn(f"the settings name the file {word}, which is not beside them; --to lammps-run copies it")
    for name in files.texts:
        report.warn(f"fix cmap needs the file {name}, and stands before read_data; --to lammps-run writes both")
    return potential


def settings_text(potential: Potential, variables: Sequence[str] = ()) -> str:
    """The commands as one text; `variables` are those that define the variables its words name."""
    return "".join(f"{line}\n" for line in _lines(potential, variables))


def check_stated(potential: Potential) -> None:
    """Refuse styles that are known by name only where LAMMPS needs arguments: nothing would say where a cutoff is."""
    for category in CATEGORIES:
        for style in potential.styles.get(category, []):
            row = find_style(category, style.name)
            if style.stated or style.args or row is None or row.arguments.required == 0:
                continue
            way = "; --pair-style gives it" if category == "pair" else ""
            raise UnsupportedError(
                f"the record names the {category} style {style.name} without its arguments "
                f"({row.arguments.text}), which LAMMPS needs: a data file does not say them, its script does{way}"
            )
        if not potential.styles.get(category) and any(row.category == category for row in potential.coefficients):
            raise UnsupportedError(
                f"the record has {category} coefficients and no {category} style, which a script or a comment behind "
                "the name of their section would say"
            )


def renamed(potential: Potential, names: Mapping[str, str]) -> Potential:
    """The potential with files called by other names."""
    if all(word == name for word, name in names.items()):
        return potential

    def words(own: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(word, word) for word in own)

    return replace(
        potential,
        styles={c: [replace(s, args=words(s.args)) for s in styles] for c, styles in potential.styles.items()},
        coefficients=[replace(row, words=words(row.words)) for row in potential.coefficients],
    )


def file_folders(record: Record, asked: str | None, *beside: Path) -> list[FileFolder]:
    """Return where files of coefficients are looked for, in order: what was asked for and set first.

    A record may be a stranger's: what it names is taken from its own directory only, and from others, the current one
    and those `beside` the target, where its sha256 is the one the record states.
    """
    folders: list[FileFolder] = []
    if asked is not None:
        if not Path(asked).is_dir():
            raise UsageError(f"--potential-files {asked}: there is no such folder")
        folders.append(FileFolder(Path(asked), chosen=True))
    if record.path is not None:
        folders.append(FileFolder(Path(record.path).parent, own=True))
    folders += [FileFolder(folder) for folder in (Path(), *beside)]
    stated = os.environ.get("LAMMPS_POTENTIALS", "").split(os.pathsep)
    folders += [FileFolder(Path(part), chosen=True) for part in stated if part]
    return list(dict.fromkeys(folders))


def _lines(potential: Potential, variables: Sequence[str]) -> Iterator[str]:
    yield f"# Force field, written by molrec-convert {__version__}; include it after 'read_data FILE nocoeff'."
    if potential.units is not None:
        yield f"# units {potential.units}"
    yield ""
    yield from variables
    yield from style_commands(potential)
    yield ""
    yield from coefficient_commands(potential, potential.type_counts)


def _names(record: Record, report: Report) -> dict[str, Sequence[str]]:
    """The names of the types of a record's atoms and relations, by kind."""
    system = record.system
    if system is None:
        return {}
    document = lammps_document(record)
    found: dict[str, Sequence[str]] = {}
    if ATOMS in system.blocks:
        block = system.blocks[ATOMS]
        found["atom"] = atom_types(block.columns, block.count, document, report).names
    for name, kind in _RELATIONS.items():
        if name in system.blocks and system.blocks[name].count:
            found[kind] = relation_types(system.blocks[name], kind, document, report, name).names
    return found
