"""Options of the stores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from molrec_convert.errors import UsageError
from molrec_convert.formats import option

__all__ = ["MrecOptions", "StoreOptions"]

_FORM = re.compile(r"(gzip|zstd)(?::(-?\d{1,3}))?")
#: Default, lowest and highest level of each compressor.
_LEVELS = {"gzip": (1, 0, 9), "zstd": (3, 1, 22)}


@dataclass(frozen=True)
class StoreOptions:
    """How a record is read."""

    units: str | None = option(
        None,
        "units of the numbers, where the source does not state them: a preset such as metal",
        metavar="PRESET",
    )

    def __post_init__(self) -> None:
        if self.units is not None:
            from molrec_convert.quantities.dimensions import parse_units

            parse_units(self.units)


@dataclass(frozen=True)
class MrecOptions:
    """How a record is stored."""

    compression: str = option(
        "none",
        "compress columns of floating-point numbers: none, gzip:LEVEL (0 to 9) or zstd:LEVEL (1 to 22)",
        metavar="CODEC",
    )

    def __post_init__(self) -> None:
        self.parse_compression()

    def parse_compression(self) -> tuple[Literal["gzip", "zstd"], int] | None:
        """Return codec and level, None for `none`; `UsageError` for anything else."""
        if self.compression == "none":
            return None
        match = _FORM.fullmatch(self.compression)
        if match is not None:
            default, lowest, highest = _LEVELS[match[1]]
            level = default if match[2] is None else int(match[2])
            if lowest <= level <= highest:
                return ("gzip" if match[1] == "gzip" else "zstd"), level
        raise UsageError(f"compression {self.compression!r} is none of none, gzip:0 to gzip:9, zstd:1 to zstd:22")
