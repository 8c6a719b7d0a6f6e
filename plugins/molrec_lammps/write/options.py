"""The options of what is written in LAMMPS' formats. From these come the flags, the keywords and the docs."""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.errors import UsageError
from molrec_convert.formats import option

__all__ = ["DataTarget", "DumpTarget", "RunTarget", "SettingsTarget"]


@dataclass(frozen=True)
class _Target:
    """What every target in a LAMMPS format can be told."""

    digits: int | None = option(
        None, "significant digits of numbers, 1 to 17; without it as many as read back to the same number", metavar="N"
    )

    def __post_init__(self) -> None:
        if self.digits is not None and not 1 <= self.digits <= 17:
            raise UsageError(f"--digits {self.digits}: a number has 1 to 17 significant digits")


@dataclass(frozen=True)
class _Atoms(_Target):
    """What a target that holds atoms can be told."""

    box: tuple[str, ...] = option(
        (),
        "cell for a record that has none: xlo,xhi,ylo,yhi,zlo,zhi, or atoms,DISTANCE for a box that far around them",
        metavar="BOUNDS",
    )
    type_order: tuple[str, ...] = option(
        (), "number atom types in this order, by their names or elements: C,H,O", metavar="TYPES"
    )
    rotate: bool = option(False, "turn a cell of any orientation into LAMMPS' own, instead of writing it as general")


@dataclass(frozen=True)
class DataTarget(_Atoms):
    """Options of a data file that is written."""

    target_atom_style: str | None = option(
        None, "atom style to write, where it is not to be the record's own: full, charge, ...", metavar="STYLE"
    )


@dataclass(frozen=True)
class DumpTarget(_Atoms):
    """Options of a dump that is written."""

    dump_columns: tuple[str, ...] = option(
        (),
        "columns of the dump, by LAMMPS' names or the record's: id,type,x,y,z; xs xu xsu are worked out",
        metavar="COLUMNS",
    )
    dump_units: bool = option(
        False, "state the units in the dump (ITEM: UNITS), which MDAnalysis, pymatgen and mdtraj do not read"
    )
    dump_time: bool = option(
        False, "state the time of each frame (ITEM: TIME), which MDAnalysis, pymatgen and mdtraj do not read"
    )


@dataclass(frozen=True)
class SettingsTarget(_Target):
    """Options of an include with the force field."""

    pair_style: str | None = option(
        None, "pair style with its arguments, where the record does not state them: 'lj/cut 10.0'", metavar="STYLE"
    )


@dataclass(frozen=True)
class RunTarget(DataTarget):
    """Options of a runnable directory: those of a data file and of the settings."""

    potential_files: str | None = option(
        None, "folder where files of coefficients are looked for, beside those the record names", metavar="FOLDER"
    )
    pair_style: str | None = option(
        None, "pair style with its arguments, where the record does not state them: 'lj/cut 10.0'", metavar="STYLE"
    )
