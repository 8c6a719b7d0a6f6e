"""Whether a file is PDB or mmCIF, from its beginning. Importing this module loads neither numpy nor any reader."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["cif_score", "pdb_score"]

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
    """A PDB file: records in columns."""
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
    """An mmCIF file: a data block with atoms."""
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
