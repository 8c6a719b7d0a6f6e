"""The lines of a PDB file that are no atoms: kept as they are, and what they say, read by gemmi.

The document `pdb` in the meta of `system` has the lines themselves (`lines` before the first atom, `inside` behind it,
`trailing` behind the last frame, `frames` for those of later frames), `space_group` and `z` of CRYST1, and by name what
the header says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import gemmi

from molrec_convert.report import Report
from molrec_pdb.cells import space_group
from molrec_pdb.lines import FrameLines, Scan

__all__ = ["Header", "Link", "frame_times", "read_header"]

_INFO = {
    "_entry.id": "id",
    "_struct.title": "title",
    "_exptl.method": "method",
    "_struct_keywords.pdbx_keywords": "classification",
    "_struct_keywords.text": "keywords",
    "_pdbx_database_status.recvd_initial_deposition_date": "date",
}
#: Records that gemmi makes something of; a file without them is not given to it.
_SPEAKING = ("HEADER", "TITLE", "EXPDTA", "REMARK", "SSBOND", "LINK", "ORIGX", "SCALE", "MTRIX", "KEYWDS", "AUTHOR")
_KINDS = {"Disulf": "disulfide", "MetalC": "metal", "Hydrog": "hydrogen"}
_TIME = re.compile(r"\bt= *([-+]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)")
_STEP = re.compile(r"\bstep= *([0-9]{1,18})\b")

Partner = tuple[str, int, str, str, str, str]


@dataclass
class Link:
    """A SSBOND or LINK record, or a connection, and its atoms: chain, number, icode, residue, name, altloc of each."""

    kind: str
    partners: tuple[Partner, Partner]
    #: Order of the bond, 0 where it is not stated.
    order: int = 0


@dataclass
class Header:
    """The document, and the bonds that SSBOND and LINK records state."""

    document: dict[str, Any]
    links: list[Link] = field(default_factory=list)

    def leave_symmetry(self) -> None:
        """Forget the symmetry of a cell that is none."""
        self.document.pop("space_group", None)
        self.document.pop("z", None)


def read_header(scan: Scan, frame: FrameLines, frames: Sequence[FrameLines], report: Report) -> Header:
    """What stands beside the atoms of a record of some frames, of which `frame` is the first."""
    document: dict[str, Any] = {}
    if frame.lines:
        document["lines"] = frame.lines
    if frame.inside:
        document["inside"] = frame.inside
    later = {
        str(number): {key: lines for key, lines in (("lines", one.lines), ("inside", one.inside)) if lines}
        for number, one in enumerate(frames)
        if number and (one.lines or one.inside)
    }
    if later:
        document["frames"] = later
    if scan.trailing:
        document["trailing"] = scan.trailing
    if frame.cell is not None:
        group, number = space_group(frame.cell)
        if group:
            document["space_group"] = group
        if number is not None:
            document["z"] = number
    header = Header(document)
    # the first frame of a file has the header of all
    lines = [*(scan.frames[0].lines if frame is not scan.frames[0] else []), *frame.lines, *frame.inside]
    if any(line.upper().startswith(_SPEAKING) for line in lines):
        _interpret(header, lines, frame.cell, report)
    if lines or later or scan.trailing:
        count = sum(len(one.lines) + len(one.inside) for one in frames) + len(scan.trailing)
        report.carried("records beside the atoms", f"{count} lines, as they are, in system's meta pdb")
    return header


def _interpret(header: Header, lines: list[str], cell: str | None, report: Report) -> None:
    text = "\n".join([*([] if cell is None else [cell]), *lines, "END", ""])
    try:
        # fields end at columns, in the middle of a character where one has several bytes
        structure: Any = gemmi.read_pdb_string(text.encode("ascii", "replace").decode())
    except Exception as error:
        report.warn(f"the header is kept as text and not interpreted: {str(error).splitlines()[0]}")
        return
    for key, name in _INFO.items():
        if key in dict(structure.info):
            header.document[name] = structure.info[key]
    if structure.resolution:
        header.document["resolution"] = float(structure.resolution)
    if structure.has_origx and not structure.origx.is_identity():
        report.warn("the matrix of ORIGX is not the identity: coordinates and records are kept as they stand")
    if structure.cell.explicit_matrices:
        report.warn("another frame than the standard one is stated by SCALE: all is kept as it stands")
    if len(structure.ncs):
        report.warn(f"{len(structure.ncs)} further copies stated by MTRIX are kept as text: no atoms are made of them")
    images = 0
    for connection in structure.connections:
        if str(connection.asu).endswith("Different"):
            images += 1
            continue
        kind = _KINDS.get(str(connection.type).rpartition(".")[2], "link")
        header.links.append(Link(kind, (_partner(connection.partner1), _partner(connection.partner2))))
    if images:
        report.warn(f"{images} SSBOND and LINK records go to an image of the cell: they are kept as text, not as bonds")


def _partner(address: Any) -> Partner:
    residue = address.res_id
    number = residue.seqid.num
    return (
        address.chain_name.strip(), -(10**6) if number is None else int(number), residue.seqid.icode.strip(),
        residue.name, address.atom_name, address.altloc.strip("\0 "),
    )  # fmt: skip


def frame_times(frames: Sequence[FrameLines]) -> tuple[list[float] | None, list[int] | None]:
    """Times and steps as GROMACS writes them into TITLEs (`t= 1.00000 step= 500`), where all frames have them."""
    times: list[float] = []
    steps: list[int] = []
    for frame in frames:
        title = " ".join(line for line in frame.lines if line.startswith("TITLE"))
        time, step = _TIME.search(title), _STEP.search(title)
        if time is None:
            return None, None
        times.append(float(time[1]))
        steps += [int(step[1])] if step else []
    ascending = len(steps) == len(frames) and all(a < b for a, b in pairwise(steps))
    return times, steps if ascending else None
