"""The options of the XYZ formats. From these come the command-line flags, the keywords and the docs."""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.errors import UsageError
from molrec_convert.formats import option
from molrec_convert.meaning.labels import LabelOptions

__all__ = ["SPECIES", "ExtxyzTarget", "XyzOptions", "XyzTarget"]

#: What the first column of a file may hold.
SPECIES = ("elements", "names", "types", "numbers")


@dataclass(frozen=True)
class XyzOptions(LabelOptions):
    """How a file is read."""

    units: str | None = option(None, "units of the numbers, a preset such as metal or real", metavar="PRESET")
    species: str | None = option(
        None, "what the species column holds, where it is not plain: elements, names, types, atomic numbers",
        choices=SPECIES,
    )  # fmt: skip
    steps: str = option(
        "step",
        "where step numbers come from: the keys for it, or the order of the frames",
        choices=("step", "index"),
    )
    allow_truncated: bool = option(False, "exit with 0 although the last frame is cut off")

    def __post_init__(self) -> None:
        from molrec_convert.quantities.units import PRESETS

        if self.units is not None and self.units not in PRESETS:
            raise UsageError(f"--units {self.units}: there are the presets {', '.join(PRESETS)}")


@dataclass(frozen=True)
class XyzTarget(LabelOptions):
    """How a file is written."""

    digits: int | None = option(
        None, "digits after the decimal point; without it the shortest text that reads back the same", metavar="N"
    )

    def __post_init__(self) -> None:
        if self.digits is not None and not 1 <= self.digits <= 17:
            raise UsageError(f"--digits {self.digits}: digits after the point are 1 to 17")

    def name_of(self, quantity: str) -> str:
        """See `LabelOptions`; a name in the data of a row (`data.energy`) says what is read, and is none in a file."""
        name = super().name_of(quantity)
        return quantity if name.startswith("data.") else name


ExtxyzTarget = XyzTarget
