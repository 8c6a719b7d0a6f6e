"""The options of the PDB formats. From these come the command-line flags, the keywords and the docs."""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.formats import option

__all__ = ["CifTarget", "PdbOptions", "PdbTarget"]


@dataclass(frozen=True)
class PdbOptions:
    """How a file is read."""

    infer_elements: bool = option(
        True, "leave elements open where columns 77-78 are blank, in place of working them out from the names"
    )


@dataclass(frozen=True)
class PdbTarget:
    """How a PDB file is written."""

    hybrid_36: bool = option(False, "write numbers that are too wide for their columns as hybrid-36")
    renumber: bool = option(False, "number the atoms 1, 2, ... in their order instead of by their ids")


@dataclass(frozen=True)
class CifTarget:
    """How an mmCIF file is written."""
