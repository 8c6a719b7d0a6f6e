"""The options of what goes through MDAnalysis. From these come the command-line flags, the keywords and the docs."""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.formats import option

__all__ = ["MdaOptions", "MdaTarget"]


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
        None, "columns of the atoms in a LAMMPS data file MDAnalysis reads, as it takes them", metavar="WORDS"
    )
    dt: float | None = option(None, "ps between frames, in place of what the trajectory says", metavar="PS")
    no_guess: bool = option(False, "leave out the types and masses MDAnalysis guesses where the topology has none")
    guess: tuple[str, ...] = option((), "what else MDAnalysis is to guess: elements, bonds, angles, dihedrals")


@dataclass(frozen=True)
class MdaTarget:
    """How MDAnalysis is asked to write."""

    writer_format: str | None = option(
        None, "MDAnalysis' name of the format to write, where the name of the target does not tell", metavar="NAME"
    )
