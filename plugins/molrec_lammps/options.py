"""The options of the LAMMPS formats. From these come the command-line flags, the keywords and the docs.

What several formats share is defined once, in `CommonOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.errors import UsageError
from molrec_convert.formats import option

__all__ = ["UNITS_STYLES", "CommonOptions", "DataOptions", "DumpOptions", "ForceFieldOptions", "RunOptions"]

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
