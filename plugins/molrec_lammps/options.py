"""The options of the LAMMPS formats. From these come the command-line flags, the keywords and the docs.

What several formats share is defined once, in `CommonOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.errors import UsageError
from molrec_convert.formats import option

__all__ = [
    "UNITS_STYLES",
    "CommonOptions",
    "DataOptions",
    "DataTarget",
    "DumpOptions",
    "DumpTarget",
    "ForceFieldOptions",
    "RunOptions",
    "RunTarget",
    "SettingsTarget",
]

#: The words of the `units` command. Source: the manual, "units".
UNITS_STYLES = ("lj", "real", "metal", "si", "cgs", "electron", "micro", "nano")
#: Checked by `atom_styles.style_named`: a hybrid is several words ("hybrid full dipole"), so there is no list of them.
_ATOM_STYLE_HELP = "atom style of a data file whose Atoms section does not state it: full, charge, ..."


@dataclass(frozen=True)
class CommonOptions:
    """What every LAMMPS format can be told."""

    units: str | None = option(None, "LAMMPS units style, where the files do not state it", choices=UNITS_STYLES)
    elements: tuple[str, ...] = option(
        (), "element of each atom type: C,H,O from type 1 on, or 1=C,HC=H; X for none", metavar="SYMBOLS"
    )
    guess_elements: bool = option(False, "propose elements from the masses of the atom types")


@dataclass(frozen=True)
class ForceFieldOptions(CommonOptions):
    """Options of what states a force field."""

    molrec_version: int = option(
        1, "version of the record to write: 1, or 2, whose force field has LAMMPS' own definitions", metavar="VERSION"
    )

    def __post_init__(self) -> None:
        if self.molrec_version not in (1, 2):
            raise UsageError(f"--molrec-version {self.molrec_version}: there are the versions 1 and 2")


@dataclass(frozen=True)
class DataOptions(ForceFieldOptions):
    """Options of data files."""

    atom_style: str | None = option(None, _ATOM_STYLE_HELP, metavar="STYLE")


@dataclass(frozen=True)
class DumpOptions(CommonOptions):
    """Options of dumps."""

    steps: str = option(
        "step",
        "step numbers: those of the TIMESTEP items; where they go back or come again, first or last takes the frames "
        "of the earlier or the later run, index keeps all frames and numbers them by their order",
        choices=("step", "index", "first", "last"),
    )
    allow_truncated: bool = option(False, "exit with 0 although the last frame is cut off")
    local_columns: tuple[str, ...] = option(
        (),
        "what columns of a local dump are, as in compute property/local: c_b[1]=batom1,c_b[2]=batom2,c_b[3]=btype",
        metavar="NAMES",
    )


@dataclass(frozen=True)
class RunOptions(DumpOptions, ForceFieldOptions):
    """Options of runs: those of data files and of dumps."""

    atom_style: str | None = option(None, _ATOM_STYLE_HELP, metavar="STYLE")
    overlap: str = option(
        "refuse",
        "of run directories that continue one another, where steps overlap: the frames of the first, of the last, or "
        "neither",
        choices=("first", "last", "refuse"),
    )
    shift_time: bool = option(
        False, "let steps and times of a run directory that starts again go on where the one before it ended"
    )


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
