"""Force fields as commands: what the tests give back to LAMMPS, written without the package's own exporters."""

from __future__ import annotations

from pathlib import Path

from molrec_lammps.data.file import parse_data
from molrec_lammps.data.potential import potential_of_data
from molrec_lammps.potential.potential import CATEGORIES, Potential
from molrec_lammps.potential.style_table import find_style
from molrec_lammps.script.potential import PotentialReader, ReadData, states_potential
from molrec_lammps.script.script import Command, find_file, read_script

#: Commands that are part of the force field and have to stay where they are.
_STAY = frozenset({"units", "create_box", "read_data", "fix"})


def potential_in(script: Path, beside: Path | None = None) -> tuple[Potential, list[str]]:
    """What a script states, and its doubts; data files lie beside it."""
    read = read_script(script)
    style = next((" ".join(command.args) for command in read.commands if command.name == "atom_style"), None)

    def data(command: Command, words: ReadData) -> Potential | None:
        path = find_file(words.file, [script.parent])
        return None if path is None else potential_of_data(parse_data(path, atom_style=style))

    given = None if beside is None else potential_of_data(parse_data(beside, atom_style=style))
    reader = PotentialReader(data, given)
    return reader.read(read.commands), reader.doubts


def commands_of(potential: Potential) -> list[str]:
    """Commands that state the whole force field again."""
    lines = []
    for category in CATEGORIES:
        styles = potential.styles.get(category, [])
        if not styles:
            continue
        kind = potential.hybrid.get(category)
        if kind is None:
            lines.append(" ".join((f"{category}_style", styles[0].name, *map(quoted, styles[0].args))))
            continue
        words = [f"{category}_style", kind]
        for number, style in enumerate(styles):
            words += [potential.scales[number]] if kind == "hybrid/scaled" else []
            words += [style.name, *style.args]
        lines.append(" ".join(words))
    lines += coefficient_lines(potential)
    lines += [" ".join(("pair_modify", *words)) for words in potential.pair_modify]
    if potential.special_bonds is not None:
        lines.append(" ".join(("special_bonds", *potential.special_bonds)))
    if potential.kspace is not None:
        lines.append(" ".join(("kspace_style", *potential.kspace)))
    lines += [" ".join(("kspace_modify", *words)) for words in potential.kspace_modify]
    lines += [f"dielectric {potential.dielectric}"] if potential.dielectric is not None else []
    return lines + [f"mass {number} {mass}" for number, mass in potential.masses.items()]


def coefficient_lines(potential: Potential) -> list[str]:
    """One command for each row; one for all rows of a style that maps all types at once."""
    lines = []
    for row in potential.final():
        name = row.style or potential.styles[row.category][0].name
        known = find_style("pair", name)
        types = ("*", "*") if known is not None and known.every else tuple(map(str, row.types))
        index = (str(row.index),) if row.index else ()
        sub = (row.style, *index) if row.style else ()
        part = (row.part,) if row.part else ()
        lines.append(" ".join((f"{row.category}_coeff", *types, *sub, *part, *map(quoted, row.words))))
    return list(dict.fromkeys(lines))


def quoted(word: str) -> str:
    """A word that LAMMPS takes for one."""
    return f'"{word}"' if not word or any(letter in word for letter in " #&\t") else word


def restated(script: Path, potential: Potential) -> str:
    """The script with its own force field taken out and the potential's put in, right before the first run."""
    lines: list[str] = []
    placed = False
    for command in read_script(script).commands:
        if command.name in ("write_data", "write_coeff", "include"):
            continue
        if command.name == "run" and not placed:
            lines += commands_of(potential)
            placed = True
        if states_potential(command) and command.name not in _STAY:
            continue
        text = " ".join((command.name, *map(quoted, command.args)))
        lines.append(f"{text} nocoeff" if command.name == "read_data" else text)
    return "\n".join(lines) + "\n"
