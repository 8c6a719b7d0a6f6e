"""The options of the ASE formats. From these come the command-line flags, the keywords and the docs."""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.meaning.labels import LabelOptions

__all__ = ["AseOptions", "AseTarget"]


@dataclass(frozen=True)
class AseOptions(LabelOptions):
    """How a file is read: `data.NAME` is what stands under a name in the data of a row."""


@dataclass(frozen=True)
class AseTarget(LabelOptions):
    """How a database is written: `data.NAME` is what stands under a name in the data of a row."""
