"""XYZ and extended XYZ as formats. Importing this module loads neither numpy nor any reader."""

from __future__ import annotations

from molrec_convert.formats import ARRANGEMENTS, Capability, Format
from molrec_convert.hookspecs import hookimpl
from molrec_xyz import sniffing
from molrec_xyz.options import XyzOptions, XyzTarget

__all__ = ["EXTXYZ", "XYZ", "molrec_formats"]

_READS = {
    "system": "species, and what else never changes",
    "trajectory": "exact",
}

EXTXYZ = Format(
    name="extxyz",
    title="Extended XYZ",
    patterns=("*.extxyz", "*.exyz", "*.xyz"),
    sniff=sniffing.extxyz_score,
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
    sniff=sniffing.xyz_score,
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
    """Plain and extended files."""
    return (EXTXYZ, XYZ)
