"""The options of what goes through MDAnalysis. From these come the command-line flags, the keywords and the docs."""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.formats import option

__all__ = ["MdaOptions", "MdaTarget"]

#: Presets of the record's `units`. Source: Force field, "Document".
UNITS_PRESETS = ("real", "metal", "si", "cgs", "electron", "micro", "nano", "lj")


@dataclass(frozen=True)
class MdaOptions:
    """How MDAnalysis is asked to open its files."""

    topology_format: str | None = option(
        None, "MDAnalysis' name of the topology's format, where its file name does not tell", metavar="NAME"
    )
    trajectory_format: str | None = option(
        None, "MDAnalysis' name of the trajectory's format, where its file name does not tell", metavar="NAME"
    )
    atom_style: str | None = option(
        None,
        "atom style of a LAMMPS data file: full, charge, ...; with --topology-format DATA its columns, as MDAnalysis "
        "takes them",
        metavar="WORDS",
    )
    dt: float | None = option(None, "ps between frames, in place of what the trajectory says", metavar="PS")
    no_guess: bool = option(False, "leave out the types and masses MDAnalysis guesses where the topology has none")
    guess: tuple[str, ...] = option((), "what else MDAnalysis is to guess: elements, bonds, angles, dihedrals")
    aux: tuple[str, ...] = option(
        (),
        "auxiliary data beside the frames: XVG files as NAME=FILE, all terms of an EDR file as FILE",
        metavar="NAME=FILE,...",
    )
    units: str | None = option(
        None,
        "units of LAMMPS data files, of DCD files LAMMPS wrote, and of what MDAnalysis takes as it is (dumps, GSD)",
        choices=UNITS_PRESETS,
    )
    keywords: tuple[str, ...] = option(
        (),
        "further keywords of MDAnalysis.Universe, such as continuous=true: values in JSON, or texts",
        metavar="NAME=VALUE,...",
    )


@dataclass(frozen=True)
class MdaTarget:
    """How MDAnalysis is asked to write."""

    writer_format: str | None = option(
        None, "MDAnalysis' name of the format to write, where the name of the target does not tell", metavar="NAME"
    )
