"""What a file of a dump is, and the refusal of the kinds that other readers, or none, can read.

| kind | file |
|---|---|
| `atoms` | text with `ITEM: ATOMS`, or YAML |
| `local`, `grid` | text with `ITEM: NUMBER OF ENTRIES` (or another label), or `ITEM: GRID CELLS` |
| refused | binary dumps, DCD, XTC and TRR, XYZ, NetCDF or HDF5, text without headers |
"""

from __future__ import annotations

import re
from pathlib import Path

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_lammps.detect import binary_dump
from molrec_lammps.dump.items import kind_of_items
from molrec_lammps.dump.source import open_source
from molrec_lammps.dump.yaml import is_yaml

__all__ = ["OTHER_STYLES", "dump_kind", "how_to_read"]

#: Dump styles that other formats of the converter read: style → format.
OTHER_STYLES = {"xyz": "xyz", "dcd": "mdanalysis", "xtc": "mdanalysis", "netcdf": "mdanalysis", "h5md": "mdanalysis"}
#: What a refusal of a binary dump advises.
BINARY_ADVICE = "LAMMPS' tool binary2txt makes a text dump of it, which is read"

_MAGIC = (
    (b"T\0\0\0CORD", "dcd"),
    (b"\0\0\0TCORD", "dcd"),
    (b"\0\0\x07\xcb", "xtc"),
    (b"\0\0\x07\xe3", "xtc"),
    (b"CDF", "netcdf"),
    (b"\x89HDF", "h5md"),
)
_XYZ = re.compile(rb"\s*\d+[ \t]*\r?\n[^\n]*\n\s*[A-Za-z0-9]+(?:\s+[-+.0-9eE]+){3}")
_ROW = re.compile(rb"\s*[-+]?[0-9.]+(?:[eE][-+]?\d+)?(?:\s+\S+)*\s*$")


def dump_kind(path: Path) -> str:
    """`"atoms"`, `"local"` or `"grid"`. UnsupportedError or FormatError: a kind that is not read here, by name."""
    source = open_source(path)
    head = source.read(0, 4096)
    try:
        if is_yaml(head):
            return "atoms"
        if binary_dump(head):
            raise UnsupportedError(f"{path} is a binary dump: {BINARY_ADVICE}")
        for magic, style in _MAGIC:
            if head.startswith(magic):
                raise UnsupportedError(f"{path} is a dump of style {style}: {how_to_read(style, [path])}")
        kind = kind_of_items(source)
        if kind is not None:
            return kind
        if b"ITEM:" in source.read(0, 2**20):
            return "atoms"
        if _XYZ.match(head):
            raise UnsupportedError(f"{path} is a dump of style xyz: {how_to_read('xyz', [path])}")
        if _ROW.match(head.split(b"\n", 1)[0]):
            raise FormatError(
                path,
                "line 1",
                found=repr(head.split(b"\n", 1)[0].decode("latin-1").strip()[:60]),
                expected="'ITEM: TIMESTEP', the first line of a LAMMPS text dump",
                hint="rows alone (dump_modify header no) tell neither steps nor columns nor the cell",
            )
        return "atoms"
    finally:
        source.close()


def how_to_read(style: str, files: list[Path]) -> str:
    """Which format reads dumps of a style, in words; a format that is not installed is said to be so."""
    from molrec_convert.plugins import formats

    name = OTHER_STYLES.get(style)
    if name is None:
        return "no format reads it; dump custom writes what is"
    known = formats().get(name)
    if known is None or known.reads is None:
        return f"the format {name} reads it, which is not installed"
    return f"mrec convert --from {name} {' '.join(map(str, files[:3]))} {files[0].stem}.mrec reads it"
