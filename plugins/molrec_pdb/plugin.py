"""PDB and mmCIF as formats. Importing this module loads neither numpy nor any reader."""

from __future__ import annotations

from molrec_convert.formats import Arrangement, Capability, Format
from molrec_convert.hookspecs import hookimpl
from molrec_pdb import sniffing
from molrec_pdb.options import CifTarget, PdbOptions, PdbTarget

__all__ = ["MMCIF", "PDB", "molrec_formats"]

_ARRANGEMENTS: tuple[Arrangement, ...] = ("trajectory", "collection", "records")

PDB = Format(
    name="pdb",
    title="PDB",
    patterns=("*.pdb", "*.ent", "*.pdb[0-9]", "*.pdb[0-9][0-9]"),
    sniff=sniffing.pdb_score,
    reads="molrec_pdb.record:read_pdb",
    read_options=PdbOptions,
    writes="molrec_pdb.write_pdb:write_pdb",
    predicts="molrec_pdb.write_pdb:predict",
    takes_collections=True,
    units={"length": "angstrom", "time": "ps"},
    elements="programs that read a PDB file guess them from the names of the atoms",
    write_options=PdbTarget,
    carries={
        "system": Capability("exact: atoms, bonds, the header", "what has columns; bonds as CONECT, SSBOND, LINK"),
        "frame": Capability("none", "as a model: three decimals"),
        "trajectory": Capability("exact", "as models: three decimals, cells in the standard frame"),
    },
    extra="pdb",
    reference="https://www.wwpdb.org/documentation/file-format-content/format33/v3.3.html",
    arrangements=_ARRANGEMENTS,
    joins="molrec_pdb.joined:read_joined",
)

MMCIF = Format(
    name="mmcif",
    title="mmCIF (PDBx)",
    patterns=("*.cif", "*.mmcif", "*.pdbx"),
    sniff=sniffing.cif_score,
    reads="molrec_pdb.cif_record:read_mmcif",
    writes="molrec_pdb.write_cif:write_mmcif",
    predicts="molrec_pdb.write_cif:predict",
    takes_collections=True,
    units={"length": "angstrom"},
    elements="programs that read an mmCIF file take X for an atom of unknown element",
    write_options=CifTarget,
    carries={
        "system": Capability("exact: atoms, connections, other categories", "atoms, bonds, categories it came with"),
        "frame": Capability("none", "as a model"),
        "trajectory": Capability("exact", "as models; one cell"),
    },
    extra="pdb",
    reference="https://mmcif.wwpdb.org",
    arrangements=_ARRANGEMENTS,
)


@hookimpl
def molrec_formats() -> tuple[Format, ...]:
    """Both formats."""
    return (PDB, MMCIF)
