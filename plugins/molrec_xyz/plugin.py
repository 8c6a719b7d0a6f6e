"""XYZ and extended XYZ as formats. Importing this module loads neither numpy nor any reader."""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.errors import UsageError
from molrec_convert.formats import ARRANGEMENTS, Capability, Format, option
from molrec_convert.hookspecs import hookimpl
from molrec_convert.meaning.labels import LabelOptions
from molrec_xyz.detect import extxyz_score, xyz_score

__all__ = ["EXTXYZ", "SPECIES", "XYZ", "ExtxyzTarget", "XyzOptions", "XyzTarget", "molrec_formats"]

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


_READS = {
    "system": "species, and what else never changes",
    "trajectory": "exact",
}

EXTXYZ = Format(
    name="extxyz",
    title="Extended XYZ",
    patterns=("*.extxyz", "*.exyz", "*.xyz"),
    sniff=extxyz_score,
    reads="molrec_xyz.record:read_xyz",
    read_options=XyzOptions,
    writes="molrec_xyz.write:write_extxyz",
    write_options=XyzTarget,
    carries={
        "meta": Capability("none", "not written, beyond what the frames say"),
        "system": Capability(_READS["system"], "columns of the atoms and keys, in every frame; no relations, no units"),
        "frame": Capability("none", "as a frame"),
        "trajectory": Capability(_READS["trajectory"], "columns of the atoms, cells, steps, times, values per step"),
    },
    reference="https://github.com/libAtoms/extxyz",
    arrangements=ARRANGEMENTS,
    takes_collections=True,
    predicts="molrec_xyz.write:predict",
    read_many="molrec_xyz.joined:read_joined",
    units={"preset": "metal"},
    elements="the species are the types' labels, or X: ASE reads no species that are not symbols of elements",
)

XYZ = Format(
    name="xyz",
    title="XYZ (plain)",
    sniff=xyz_score,
    reads="molrec_xyz.record:read_xyz",
    read_options=XyzOptions,
    writes="molrec_xyz.write:write_xyz",
    write_options=XyzTarget,
    carries={
        "meta": Capability("none", "not written, beyond what the frames say"),
        "system": Capability(_READS["system"], "what names the species"),
        "frame": Capability("none", "species and positions"),
        "trajectory": Capability(_READS["trajectory"], "species, positions and the key comment"),
    },
    reference="https://en.wikipedia.org/wiki/XYZ_file_format",
    arrangements=ARRANGEMENTS,
    takes_collections=True,
    predicts="molrec_xyz.write:predict_plain",
    read_many="molrec_xyz.joined:read_joined",
    units={"preset": "metal"},
    elements="the species are the types' labels, or X: ASE reads no species that are not symbols of elements",
)


@hookimpl
def molrec_formats() -> tuple[Format, ...]:
    """Return plain and extended files."""
    return (EXTXYZ, XYZ)
