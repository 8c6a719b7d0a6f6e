"""The options of the ASE formats. From these come the command-line flags, the keywords and the docs."""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.formats import option

__all__ = ["AseTarget"]


@dataclass(frozen=True)
class AseTarget:
    """How a database is written."""

    elements: tuple[str, ...] = option(
        (), "element of each atom type, for atoms that have none: C,H,O from type 1 on, or CT=C,HC=H", metavar="SYMBOLS"
    )
