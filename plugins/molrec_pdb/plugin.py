"""PDB and mmCIF as formats. Importing this module loads neither numpy nor any reader."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from molrec_convert.formats import Arrangement, Capability, Format, option
from molrec_convert.hookspecs import hookimpl

__all__ = ["MMCIF", "PDB", "CifTarget", "PdbOptions", "PdbTarget", "cif_score", "molrec_formats", "pdb_score"]

_ATOM = re.compile(rb"^(?:ATOM[ 0-9]{2}|HETATM)[ 0-9A-Za-z*-]{6,7}", re.MULTILINE | re.IGNORECASE)
#: Records that begin a file, of PDB and of nothing else.
_RECORD = re.compile(
    rb"^(?:HEADER    |CRYST1[ 0-9.-]{6}|REMARK(?: +\S| *$)|TITLE  |COMPND  |MODEL +[0-9]+ *\r?$|OBSLTE  |SPLIT  |"
    rb"CAVEAT  |SSBOND +[0-9]|LINK  |SEQRES|EXPDTA  |AUTHOR  )",
    re.MULTILINE,
)
_SITE = re.compile(rb"^_atom_site\.", re.MULTILINE | re.IGNORECASE)
_BLOCK = re.compile(rb"^data_\S*", re.MULTILINE | re.IGNORECASE)


def pdb_score(head: bytes, path: Path) -> float:
    """Return a PDB file: records in columns."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    if _BLOCK.match(text.lstrip()):
        return 0.0
    row = _ATOM.search(text)
    if row is not None:
        line = text[row.start() :].split(b"\n", 1)[0]
        return 0.95 if len(line.rstrip()) >= 54 or b"." in line else 0.0
    found = _RECORD.search(text[:4096])
    return 0.8 if found is not None else 0.0


def cif_score(head: bytes, path: Path) -> float:
    """Return an mmCIF file: a data block with atoms."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    if b"#" in text:
        text = re.sub(rb"^#.*$", b"", text, flags=re.MULTILINE)
    text = text.lstrip()
    if not _BLOCK.match(text):
        return 0.0
    if _SITE.search(text):
        return 1.0
    mm = re.search(rb"^_(?:entry\.id|audit_conform\.dict_name|struct\.)", text, re.MULTILINE)
    return 0.7 if mm and not re.search(rb"^_refln\.", text, re.MULTILINE) else 0.0


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


_ARRANGEMENTS: tuple[Arrangement, ...] = ("trajectory", "collection", "records")

PDB = Format(
    name="pdb",
    title="PDB",
    patterns=("*.pdb", "*.ent", "*.pdb[0-9]", "*.pdb[0-9][0-9]"),
    sniff=pdb_score,
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
    read_many="molrec_pdb.joined:read_joined",
)

MMCIF = Format(
    name="mmcif",
    title="mmCIF (PDBx)",
    patterns=("*.cif", "*.mmcif", "*.pdbx"),
    sniff=cif_score,
    reads="molrec_pdb.mmcif.record:read_mmcif",
    writes="molrec_pdb.mmcif.write:write_mmcif",
    predicts="molrec_pdb.mmcif.write:predict",
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
    """Return both formats."""
    return (PDB, MMCIF)
