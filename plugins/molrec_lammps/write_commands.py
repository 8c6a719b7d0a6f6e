"""What of a script's own commands goes into a directory that is written, and what changes its energies if left out.

A record keeps the commands of its script as text (`method.commands`). Those of the force field are in `forcefield`;
of the others some count for the energy all the same. Source: the manual, "neigh_modify", "delete_bonds", "fix shake",
"fix_modify".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Record
from molrec_convert.report import Report

__all__ = ["exclusions", "stated_settings"]

#: Fixes that change what the force field gives at the first step: bonds that are constrained count no more, charges and
#: coefficients become others.
_CHANGING = ("shake", "rattle", "qeq", "qtpie", "acks2", "adapt", "electrode", "conp")


def stated_settings(record: Record) -> dict[str, Any]:
    """What the commands of the record's own script set (`method.settings`), {} where there was none."""
    settings = record.method.get("settings") if isinstance(record.method, dict) else None
    return settings if isinstance(settings, dict) else {}


def exclusions(record: Record, report: Report) -> list[str]:
    """The `neigh_modify exclude` commands to write; what else counts for the energy is reported as dropped.

    UnsupportedError: one that needs groups, or takes bonds out: the energy would be another without it.
    """
    found: list[str] = []
    styles: dict[str, str] = {}
    for words in _commands(record):
        name = words[0]
        if name == "neigh_modify":
            found += _excluded(words)
        elif name == "delete_bonds":
            raise UnsupportedError(
                f"the script says {' '.join(words)!r}, which changes the energy and is not in the record: let LAMMPS "
                "write the system behind it (write_data), and convert that"
            )
        elif name == "fix" and len(words) > 3:
            styles[words[1]] = words[3]
            if words[3].startswith(_CHANGING):
                report.dropped(
                    f"fix {words[3]}", "it changes energies of the first step, and the written script has none"
                )
        elif name == "fix_modify" and words[2:4] == ["energy", "yes"] and styles.get(words[1]) != "cmap":
            style = styles.get(words[1], words[1])
            report.dropped(f"fix {style}", "its energy counts in pe, and the written script does not have it")
    return found


def _excluded(words: list[str]) -> list[str]:
    """The commands that say again which pairs are left out: `none` takes all back."""
    found: list[str] = []
    for place, word in enumerate(words):
        if word != "exclude":
            continue
        what = words[place + 1 : place + 4]
        if what[:1] == ["none"]:
            found.append("neigh_modify exclude none")
        elif len(what) == 3 and what[0] == "type" and not any("$" in part for part in what):
            found.append(f"neigh_modify exclude {' '.join(what)}")
        else:
            raise UnsupportedError(
                f"the script says {' '.join(words)!r}, which changes the energy, and a record holds no groups: only "
                "exclusions by type are written"
            )
    return found


def _commands(record: Record) -> Iterator[list[str]]:
    commands = record.method.get("commands") if isinstance(record.method, dict) else None
    for text in commands if isinstance(commands, list) else ():
        words = str(text).partition("#")[0].split()
        if words:
            yield words
