"""A record as a directory LAMMPS runs as it stands: the writer of the format `lammps-run`.

`system.data` has the atoms, `settings.lmp` the force field, `in.lmp` reads both and computes the energy; files of
coefficients lie beside them. What a script decides about the box is in `in.lmp`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from molrec_convert import __version__
from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.files.target_file import open_target
from molrec_convert.formats import WriteContext
from molrec_convert.model import Record
from molrec_convert.report import Report
from molrec_lammps.common.units import UNITS
from molrec_lammps.potential.potential import CATEGORIES, Potential
from molrec_lammps.potential.style_table import find_style
from molrec_lammps.write.commands import SetupLines, coefficient_commands, setup_lines, stated_settings, style_commands
from molrec_lammps.write.data import DataPlan, data_plan, write_plan
from molrec_lammps.write.force_field import FileFolder, PotentialFiles, potential_of_record, with_pair_style
from molrec_lammps.write.types import ATOMS, atom_types, lammps_document, relation_types
from molrec_lammps.write.units import number_text, preset_of

__all__ = [
    "DATA_FILE",
    "SCRIPT_FILE",
    "SETTINGS_FILE",
    "check_stated",
    "file_folders",
    "is_written_run",
    "renamed",
    "settings_text",
    "write_run",
    "write_settings",
]

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
    """Return the commands as one text; `variables` are those that define the variables its words name."""
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
    """Return the potential with files called by other names."""
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
    """Return the names of the types of a record's atoms and relations, by kind."""
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


DATA_FILE, SETTINGS_FILE, SCRIPT_FILE = "system.data", "settings.lmp", "in.lmp"
_FIRST_WORDS = "# Written by molrec-convert"
_TERMS = "step atoms ebond eangle edihed eimp evdwl ecoul elong etail epair emol pe"
_CMAP = "cmap"
#: Names that the files of a run have.
_FILES = (".in", ".log", ".lmp", ".data")
#: How far the atoms of a record without a force field see, times the largest length of its cell.
_BLIND = 0.01
#: LAMMPS' default skin of neighbour lists by units style, and what takes its place in a small cell, times its height.
_SKINS = {"lj": 0.3, "real": 2.0, "metal": 2.0, "si": 0.001, "cgs": 0.1, "electron": 2.0, "micro": 0.1, "nano": 0.1}
_NARROW = 0.1


def write_run(record: Record, path: Path, context: WriteContext) -> None:
    """Write a directory with a data file, the force field and a script.

    UnsupportedError names what LAMMPS cannot hold or run; UsageError a file of coefficients that is not at hand.
    """
    options, report = context.options, context.report
    target = path if context.target is None else context.target
    if target.suffix in _FILES or target.name.startswith(("in.", "log.")):
        raise UsageError(f"{target} is named like a file, and a run is a directory: name one")
    plan = data_plan(record, context, run=True)
    if plan.units not in UNITS:
        raise UnsupportedError(
            "the record does not state LAMMPS' units, which a script must: --units names those of a LAMMPS source, "
            "--target-units converts others"
        )
    potential = potential_of_record(record, plan.names, context, plan.units)
    if options.pair_style is not None:
        potential = with_pair_style(potential or Potential(), options.pair_style, plan.counts.get("atom", 0))
    if potential is not None and potential:
        check_stated(potential)
    sections = [section.words for section in plan.preserved.sections if section.words]
    style, renumbered = plan.style.name, plan.renumbered
    to = None if context.units_kept else plan.units
    setup = setup_lines(record, sections, to, report, style=style, renumbered=renumbered)
    path.mkdir()
    files = PotentialFiles.of(record.forcefield, potential, plan.units) if potential is not None else PotentialFiles()
    beside = target.absolute().parent
    files.sums |= setup.files
    names = files.copy(path, file_folders(record, options.potential_files, beside), report)
    if potential is not None:
        potential = renamed(potential, names)
    setup.after = [_with_files(line, names) for line in setup.after]
    setup.molecules = [_with_files(line, names) for line in setup.molecules]
    with open_target(path / DATA_FILE, DATA_FILE) as file:
        write_plan(file, plan)
    with open_target(path / SETTINGS_FILE, SETTINGS_FILE) as file:
        text = _settings(potential, plan, setup, report)
        unnamed = sorted(set(names.values()) - set(text.split()))
        file.write((text + "".join(f"# {name} is read by LAMMPS, too\n" for name in unnamed)).encode())
    with open_target(path / SCRIPT_FILE, SCRIPT_FILE) as file:
        file.write("".join(f"{line}\n" for line in _script(record, plan, potential, files, setup)).encode())


def predict_run(record: Record, context: WriteContext) -> None:
    """Report what the directory will not hold: it is written to a place of its own, and removed."""
    with tempfile.TemporaryDirectory() as folder:
        write_run(record, Path(folder) / "run", context)


def is_written_run(directory: Path) -> bool:
    """True if a directory is one `write_run` made and holds nothing but that: files that its script reads."""
    try:
        script = (directory / SCRIPT_FILE).read_text(encoding="utf-8", errors="replace")
        settings = (directory / SETTINGS_FILE).read_text(encoding="utf-8", errors="replace")
        entries = list(directory.iterdir())
    except OSError:
        return False
    words = {SCRIPT_FILE, *script.split(), *settings.split()}
    return script.startswith(_FIRST_WORDS) and all(entry.is_file() and entry.name in words for entry in entries)


def _with_files(line: str, names: Mapping[str, str]) -> str:
    """Return a command with files called by the names they have in the directory."""
    words = line.split(" ")
    return " ".join(names.get(word, word) for word in words) if any(word in names for word in words) else line


def _settings(potential: Potential | None, plan: DataPlan, setup: SetupLines, report: Report) -> str:
    if potential is not None and potential:
        for kind, count in plan.counts.items():
            potential.type_counts.setdefault(kind, count)
        text = settings_text(potential, setup.variables)
        if potential.styles.get("pair"):
            return text
        report.warn("the force field states no pair style: the script runs with pair_style zero")
        return text + _blind(plan)
    report.warn("the record states no force field: the script runs with pair_style zero, and its energies are zero")
    return "# The record states no force field.\n" + _blind(plan)


def _blind(plan: DataPlan) -> str:
    """Return a pair style that adds nothing: LAMMPS does not set up a run without one."""
    reach = float(np.abs(np.diag(plan.cell.box.vectors)).max()) * _BLIND
    return f"pair_style zero {number_text(reach, 6)}\npair_coeff * *\n"


def _script(
    record: Record, plan: DataPlan, potential: Potential | None, files: PotentialFiles, setup: SetupLines
) -> Iterator[str]:
    settings = stated_settings(record)
    yield f"{_FIRST_WORDS} {__version__}: {SCRIPT_FILE} reads {DATA_FILE} and {SETTINGS_FILE}."
    yield f"units {plan.units}"
    dimension = str(settings.get("dimension", "3"))
    if dimension == "2":
        yield "dimension 2"
    if "newton" in settings:
        yield f"newton {settings['newton']}"
    yield f"boundary {_boundary(settings, plan)}"
    yield from setup.molecules
    yield f"atom_style {plan.style.name}"
    if plan.cell.triclinic and not plan.cell.general:
        yield "box tilt large"
    if not setup.skin:
        yield from _neighbor(plan)
    yield from setup.before
    read = f"read_data {DATA_FILE}"
    for number, section in enumerate((s for s in plan.preserved.sections if s.words), 1):
        words = [*section.words, *setup.properties.get(section.words, ())]
        yield f"fix property_{number} all property/atom {' '.join(words)}"
        read += f" fix property_{number} NULL {section.name}"
    if "cmaps" in {relation.block for relation in plan.relations}:
        name = Path(potential.cmap[0]).name if potential is not None and potential.cmap else None
        if name is None or name not in files.texts:
            raise UnsupportedError("cmaps: the record has rows of them and no maps, and LAMMPS runs neither alone")
        yield f"fix {_CMAP} all cmap {name}"
        yield f"fix_modify {_CMAP} energy yes"
        read += f" fix {_CMAP} crossterm CMAP"
    yield read
    yield f"include {SETTINGS_FILE}"
    yield from setup.after
    yield ""
    yield f"thermo_style custom {_TERMS}{f' f_{_CMAP}' if _CMAP in read else ''}"
    yield "thermo_modify norm no format float %.15g"
    yield "run 0"


def _neighbor(plan: DataPlan) -> Iterator[str]:
    """Yield a skin, where LAMMPS' own is wider than the cell: in units of metres it is a millimetre."""
    smallest = 1.0 / float(np.linalg.norm(np.linalg.inv(plan.cell.box.vectors), axis=1).max())
    if _SKINS[str(plan.units)] > smallest:
        yield f"neighbor {number_text(_NARROW * smallest, 6)} bin"


def _boundary(settings: dict[str, Any], plan: DataPlan) -> str:
    """Return the boundary command's words: those of the script where they say what the cell does, else p and f."""
    periodic = plan.cell.box.boundary.tolist()
    words = str(settings.get("boundary", "")).split()
    if len(words) == 3 and [word in ("p", "pp") for word in words] == periodic:
        return " ".join(words)
    return " ".join("p" if flag else "f" for flag in periodic)
