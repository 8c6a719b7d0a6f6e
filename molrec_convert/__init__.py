"""molrec-convert: molecular simulation data to and from MolRec records.

    import molrec_convert

    record = molrec_convert.open("run.mrec")
    len(record.trajectory), record.trajectory[10]["atoms"]["x"]

    molrec_convert.convert("rundir", "run.mrec")

Names are loaded on first use: `import molrec_convert` alone is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from molrec_convert._version import __version__

if TYPE_CHECKING:
    from molrec_convert.conversion import append, convert, open, read, write
    from molrec_convert.errors import (
        ContractError,
        FormatError,
        LossError,
        MolrecError,
        UnsupportedError,
        UsageError,
    )
    from molrec_convert.formats import Capability, Format, ReadContext, WriteContext, option
    from molrec_convert.hookspecs import hookimpl
    from molrec_convert.model import (
        Block,
        Box,
        Column,
        Declaration,
        Frame,
        FrameBatch,
        MemoryTrajectory,
        Meta,
        Record,
        Trajectory,
    )
    from molrec_convert.report import Report

_HOME = {
    **dict.fromkeys(("append", "convert", "open", "read", "write"), "molrec_convert.conversion"),
    **dict.fromkeys(
        ("ContractError", "FormatError", "LossError", "MolrecError", "UnsupportedError", "UsageError"),
        "molrec_convert.errors",
    ),
    **dict.fromkeys(("Capability", "Format", "ReadContext", "WriteContext", "option"), "molrec_convert.formats"),
    "hookimpl": "molrec_convert.hookspecs",
    **dict.fromkeys(
        (
            "Block",
            "Box",
            "Column",
            "Declaration",
            "Frame",
            "FrameBatch",
            "MemoryTrajectory",
            "Meta",
            "Record",
            "Trajectory",
        ),
        "molrec_convert.model",
    ),
    "Report": "molrec_convert.report",
}

__all__ = [
    "Block",
    "Box",
    "Capability",
    "Column",
    "ContractError",
    "Declaration",
    "Format",
    "FormatError",
    "Frame",
    "FrameBatch",
    "LossError",
    "MemoryTrajectory",
    "Meta",
    "MolrecError",
    "ReadContext",
    "Record",
    "Report",
    "Trajectory",
    "UnsupportedError",
    "UsageError",
    "WriteContext",
    "__version__",
    "append",
    "convert",
    "hookimpl",
    "open",
    "option",
    "read",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
