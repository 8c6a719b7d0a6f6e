"""What a run's commands say that its record needs: units, timestep, files, thermo output, key settings.

What LAMMPS takes as the value where the commands state none is filled in only when they are known to be complete.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise

from molrec_lammps.common.units import UNITS
from molrec_lammps.script.script import Command

__all__ = ["DumpCommand", "Settings"]

_READABLE = re.compile(r"(atom|custom|yaml)(/gz|/zstd|/mpiio)?$")
_BESIDE = re.compile(r"(local|grid)(/gz|/zstd)?$")


@dataclass(frozen=True)
class DumpCommand:
    """One `dump` command: its style, file name as given, attributes, the timesteps in effect while it was written.

    A timestep of None is LAMMPS' default. `append`: frames are added to a file that is there (`dump_modify append`);
    `modified` are the words of all its `dump_modify` commands, `shifted` says why times are not steps times timestep.
    """

    id: str
    group: str
    style: str
    every: str
    file: str
    attributes: tuple[str, ...]
    text: str
    timesteps: frozenset[float | None] = frozenset()
    append: bool = False
    modified: tuple[str, ...] = ()
    shifted: str = ""

    @property
    def readable(self) -> bool:
        """Whether the dump is text, or YAML, with atoms."""
        return _READABLE.match(self.style) is not None and not self.unreadable

    @property
    def beside(self) -> bool:
        """Whether the dump is one of rows beside the atoms: `dump local` or `dump grid`."""
        return _BESIDE.match(self.style) is not None and not self.unreadable

    @property
    def unreadable(self) -> str:
        """Why a dump of a style that is read is not, "" where it is."""
        if self.file.endswith(".bin"):
            return "a binary dump is not read; LAMMPS' tool binary2txt makes a text dump of it"
        if self._says("header", "no"):
            return "rows alone (dump_modify header no) tell neither steps nor columns nor the cell"
        if self.style == "yaml" and self._says("triclinic/general", "yes"):
            return (
                "with dump_modify triclinic/general a YAML dump has rotated coordinates in a cell that is not rotated; "
                "dump custom writes both"
            )
        return ""

    def _says(self, word: str, value: str) -> bool:
        """Whether the last `dump_modify` of a keyword gives it this value."""
        found = [after for before, after in pairwise(self.modified) if before == word]
        return found[-1:] == [value]


@dataclass
class Settings:
    """What commands state. None and empty: not stated. `complete`: nothing of the script stayed unread.

    `data` are the names behind `read_data` (with the words after it), `written` those behind `write_data`; `renumbered`
    names the command after which the data file describes the atoms no more, `changed` are the fixes that alter
    some of it, `altered` the last command that does and whose effect a `write_data` behind it (`written`) states.
    `time_fault` says why `timesteps` (all in effect during runs; None is the default) are not to be used.
    """

    units: str | None = None
    atom_style: str | None = None
    complete: bool = True
    timesteps: set[float | None] = field(default_factory=set)
    time_fault: str = ""
    data: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    restarted: bool = False
    created: bool = False
    renumbered: str = ""
    altered: str = ""
    changed: list[str] = field(default_factory=list)
    dumps: list[DumpCommand] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    masses: list[tuple[str, float]] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    types: int | None = None
    normalized: set[bool | None] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)
    fixes: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    coefficients: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    faults: list[Command] = field(default_factory=list)

    def timestep_of(self, dump: DumpCommand | None, units: str | None) -> tuple[float | None, str]:
        """The one timestep a dump was written at (None: any dump), or None and why there is none."""
        if self.time_fault:
            return None, self.time_fault
        if dump is not None and dump.shifted:
            return None, dump.shifted
        used = self.timesteps if dump is None else dump.timesteps
        default = UNITS[units].timestep if units in UNITS and self.complete else None
        values = {default if value is None else value for value in used}
        if None in values or not values:
            return None, "no timestep command was found"
        if len(values) > 1:
            words = ", ".join(f"{value:g}" for value in sorted(value for value in values if value is not None))
            return None, f"the runs up to the last frame used several timesteps ({words})"
        return values.pop(), ""

    def mass_of_types(self, types: int | None) -> dict[int, float]:
        """Mass by atom type from the `mass` commands, `*` and ranges resolved with the number of types."""
        found: dict[int, float] = {}
        labels = {label: number for number, label in self.labels.items()}
        for word, mass in self.masses:
            low, star, high = word.partition("*")
            if word in labels:
                found[labels[word]] = mass
            elif not star and low.isdigit():
                found[int(low)] = mass
            elif star and (high.isdigit() or types is not None) and (low.isdigit() or not low):
                found.update((n, mass) for n in range(int(low or 1), int(high or types or 0) + 1))
        return found

    def supplemented(self, other: Settings) -> Settings:
        """These settings, and where they state nothing what `other` states; dumps of both, by file name."""
        known = {dump.file for dump in self.dumps}
        found = replace(self)
        for name in ("units", "atom_style", "types"):
            if getattr(found, name) is None:
                setattr(found, name, getattr(other, name))
        for name in ("data", "written", "masses", "labels", "coefficients", "timesteps"):
            if not getattr(found, name):
                setattr(found, name, getattr(other, name))
        found.kept = {**other.kept, **found.kept}
        found.logs = list(dict.fromkeys([*found.logs, *other.logs]))
        found.dumps = [*found.dumps, *(dump for dump in other.dumps if dump.file not in known)]
        return found
