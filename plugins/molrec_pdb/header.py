"""The lines of a PDB file that are no atoms: kept as they are, what they say, and cells.

The document `pdb` in the meta of `system` has the lines themselves (`lines` before the first atom, `inside` behind it,
`trailing` behind the last frame, `frames` for those of later frames), `space_group` and `z` of CRYST1, and by name what
the header says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import gemmi
import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.model import Box
from molrec_convert.report import Report
from molrec_pdb.lines import FrameLines, Scan, parse_float

__all__ = [
    "Header",
    "Link",
    "OutCell",
    "cell_parameters",
    "cell_vectors",
    "frame_times",
    "out_cell",
    "read_cell",
    "read_header",
    "space_group",
]

_COLUMNS = ((6, 15), (15, 24), (24, 33), (33, 40), (40, 47), (47, 54))
#: Cosines that are exact, so that right angles give zeros.
_EXACT = {90.0: 0.0, 60.0: 0.5, 120.0: -0.5}


def _cosine(angle: float) -> float:
    return _EXACT.get(angle, math.cos(math.radians(angle)))


def cell_vectors(parameters: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the vectors of a cell in the standard frame, as columns, f64[3,3]; ValueError where there is no such
    cell.
    """
    a, b, c, alpha, beta, gamma = parameters
    if not all(math.isfinite(value) and value > 0 for value in parameters):
        raise ValueError("lengths and angles are greater than 0")
    cos_a, cos_b, cos_g = _cosine(alpha), _cosine(beta), _cosine(gamma)
    sin_g = 1.0 if gamma == 90.0 else math.sin(math.radians(gamma))
    across = (cos_a - cos_b * cos_g) / sin_g
    rest = 1.0 - cos_b * cos_b - across * across
    if rest <= 1e-12 or max(alpha, beta, gamma) >= 180.0:
        raise ValueError("the angles do not form a cell")
    return np.array([[a, b * cos_g, c * cos_b], [0.0, b * sin_g, c * across], [0.0, 0.0, c * math.sqrt(rest)]])


def cell_parameters(vectors: NDArray[np.float64]) -> tuple[float, ...]:
    """Return lengths, and angles in degrees, of the vectors in the columns of a matrix."""
    a, b, c = (vectors[:, axis] for axis in range(3))
    lengths = [float(np.linalg.norm(vector)) for vector in (a, b, c)]

    def angle(one: int, other: int) -> float:
        dot = float(vectors[:, one] @ vectors[:, other])
        cross = float(np.linalg.norm(np.cross(vectors[:, one], vectors[:, other])))
        return math.degrees(math.atan2(cross, dot))

    return (*lengths, angle(1, 2), angle(0, 2), angle(0, 1))


def read_cell(path: Path, text: str, line: int, report: Report) -> NDArray[np.float64] | None:
    """Return the vectors a CRYST1 record states, None where it says that there is no cell."""
    fields = [text[start:stop] for start, stop in _COLUMNS]
    try:
        parameters = tuple(parse_float(field) for field in fields)
    except ValueError:
        try:
            parameters = tuple(parse_float(word) for word in text[6:].split()[:6])
        except ValueError:
            parameters = ()
        if len(parameters) != 6:
            raise FormatError(
                path, f"line {line}", found=text[6:54].strip() or "no number",
                expected="three lengths and three angles in columns 7-54 of CRYST1",
            ) from None  # fmt: skip
        report.warn("the cell in CRYST1 is not in its columns: read by its words")
    if parameters == (1.0, 1.0, 1.0, 90.0, 90.0, 90.0) or not any(parameters[:3]):
        report.converted("CRYST1", f"no cell: {' '.join(f'{value:g}' for value in parameters)} stands for none")
        return None
    try:
        return cell_vectors(parameters)
    except ValueError as error:
        raise FormatError(
            path, f"line {line}", found=" ".join(f"{value:g}" for value in parameters), expected=f"a cell: {error}"
        ) from None


def space_group(text: str) -> tuple[str, int | None]:
    """Space group and Z of a CRYST1 record, where it states them."""
    number = text[66:70].strip()
    return text[55:66].strip(), int(number) if number.isascii() and number.isdigit() else None


_PLACEHOLDER = (1.0, 1.0, 1.0, 90.0, 90.0, 90.0)


@dataclass
class OutCell:
    """The record, and the matrix positions are turned with (None: they stay)."""

    line: str
    rotation: NDArray[np.float64] | None
    #: What a reader makes of the record.
    vectors: NDArray[np.float64]


def out_cell(box: Box, document: dict[str, Any], report: Report, *, foreign: bool) -> OutCell | None:
    """Return the CRYST1 record of a cell; None where the box is none, or one the format has no way to state."""
    if not box.defined:
        return None
    if not box.boundary.all():
        report.dropped("box/boundary", "a cell is periodic along all of its vectors, as readers take it")
    if box.origin.any():
        report.dropped("box/origin", "a cell has no origin of its own")
    vectors = box.vectors
    determinant = float(np.linalg.det(vectors))
    if not np.isfinite(vectors).all() or determinant <= 0.0:
        what = "its vectors are left-handed" if determinant < 0 else "its vectors span no volume"
        report.dropped("box", f"{what}, and six lengths and angles cannot say so")
        return None
    exact = cell_parameters(vectors)
    parameters = tuple(round(value, 3 if place < 3 else 2) for place, value in enumerate(exact))
    if parameters == _PLACEHOLDER:
        report.dropped("box", "a cell of 1 1 1 90 90 90 means that there is none")
        return None
    if max(parameters[:3]) > 99999.999 or min(parameters[:3]) < 0.001:
        raise UnsupportedError(
            f"box: lengths {parameters[0]:g} {parameters[1]:g} {parameters[2]:g} do not fit the 9 columns of CRYST1"
        )
    stated = cell_vectors(parameters)
    size = float(np.abs(vectors).max())
    below = np.abs(np.tril(vectors, -1)).max()
    rotation = None
    frame = vectors
    if below > 1e-9 * size or (np.diag(vectors) <= 0).any():
        frame = cell_vectors(exact)
        rotation = frame @ np.linalg.inv(vectors)
        report.converted("box", "positions and cell are turned into the standard frame: a along x, b in the xy plane")
    if float(np.abs(stated - frame).max()) > 1e-9 * size:
        report.dropped("box", "digits beyond three decimals of a length and two of an angle")
    if foreign and "space_group" not in document:
        report.derived("space group", "P 1 with Z 1")
    z = document.get("z", 1 if foreign else None)
    group = str(document.get("space_group", "P 1" if foreign else ""))[:11]
    number = f"{z:4d}" if isinstance(z, int) and 0 <= z <= 9999 else "    "
    line = "CRYST1" + "".join(f"{value:9.3f}" for value in parameters[:3])
    line += "".join(f"{value:7.2f}" for value in parameters[3:]) + f" {group:<11}{number}"
    return OutCell(f"{line:<80}", rotation, stated)


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
    """Return what stands beside the atoms of a record of some frames, of which `frame` is the first."""
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
    """Return times and steps as GROMACS writes them into TITLEs (`t= 1.00000 step= 500`), where all frames have
    them.
    """
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
