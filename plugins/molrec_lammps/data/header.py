"""The header of a data file: counts, type counts, and the box. Source: the manual, "read_data".

Line 1 is a title whatever it holds; `units = WORD` in it states the units. From line 2 on stand header lines, a value
or more before a keyword, in any order, with blank lines and `#` comments between, up to the first line that is the name
of a section.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_lammps.common.text import FLOAT, Cursor, brief, decode

__all__ = ["COUNTS", "TYPE_KINDS", "Header", "check_type_counts", "read_header"]

#: What has numbered types, in the order of the manual: the word before ` types` and before ` Type Labels`.
TYPE_KINDS = ("atom", "bond", "angle", "dihedral", "improper")
#: Header lines of one whole number.
COUNTS = (
    "atoms",
    *(f"{kind}s" for kind in TYPE_KINDS[1:]),
    *(f"{kind} types" for kind in TYPE_KINDS),
    *(f"extra {kind} per atom" for kind in (*TYPE_KINDS[1:], "special")),
    "ellipsoids",
    "lines",
    "triangles",
    "bodies",
    "crossterms",
    "bitorsions",
    "pitorsions",
    "pitorsion types",
)
_BOUNDS = {"xlo xhi": 2, "ylo yhi": 2, "zlo zhi": 2}
_GENERAL = {"avec": 3, "bvec": 3, "cvec": 3, "abc origin": 3}
_BOX = {**_BOUNDS, "xy xz yz": 3, **_GENERAL}

_COUNT = re.compile(rb"[0-9]{1,19}")
_UNITS = re.compile(r"\bunits\s*=\s*([a-z]+)\b")
#: So many types may be stated without a word of them; each further one takes room in the file, such as its mass.
_BARE_TYPES, _BYTES_OF_TYPE = 10**5, 8
#: Names of header lines in nothing but their own words.
_PLAIN = frozenset((*COUNTS, *_BOX))


@dataclass
class Header:
    """What stands before the first section.

    `counts` has every count the file states, by keyword (`"atoms"`, `"atom types"`); `box` the numbers of each line
    of the box by keyword; `lines` the line number of each keyword; `comments` the comments between and behind them.
    """

    title: str
    units: str | None
    counts: dict[str, int] = field(default_factory=dict)
    box: dict[str, tuple[float, ...]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)

    def count(self, keyword: str) -> int:
        """Return the count of that keyword; 0 when the file has no such line."""
        return self.counts.get(keyword, 0)

    @property
    def general(self) -> bool:
        """Whether the cell is given by three vectors."""
        return "avec" in self.box

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return low and high bounds f64[3] of a cell that is not general; -0.5 and 0.5 where the file gives none."""
        pairs = np.array([self.box.get(keyword, (-0.5, 0.5)) for keyword in _BOUNDS])
        return pairs[:, 0], pairs[:, 1]

    def tilt(self) -> NDArray[np.float64] | None:
        """Return tilts xy xz yz f64[3], or None for an orthogonal cell."""
        tilt = self.box.get("xy xz yz")
        return None if tilt is None else np.array(tilt)

    def keywords(self) -> dict[str, float]:
        """Return LAMMPS' thermo keywords of the box and of the counts; {} for a general cell."""
        if self.general:
            return {}
        low, high = self.bounds()
        found = {f"{axis}lo": float(value) for axis, value in zip("xyz", low, strict=True)}
        found |= {f"{axis}hi": float(value) for axis, value in zip("xyz", high, strict=True)}
        found |= {f"l{axis}": found[f"{axis}hi"] - found[f"{axis}lo"] for axis in "xyz"}
        tilt = self.tilt()
        found |= dict(zip(("xy", "xz", "yz"), (0.0, 0.0, 0.0) if tilt is None else tilt.tolist(), strict=True))
        found["vol"] = found["lx"] * found["ly"] * found["lz"]
        return found | {kind: float(self.count(kind)) for kind in ("atoms", *(f"{kind}s" for kind in TYPE_KINDS[1:]))}

    def missing_bounds(self) -> list[str]:
        """Return the axes (`"xlo xhi"`) for which the file gives no bounds and LAMMPS' default holds."""
        return [] if self.general else [keyword for keyword in _BOUNDS if keyword not in self.box]


def read_header(path: str, cursor: Cursor, further: Collection[str] = ()) -> Header:
    """Read title and header; the cursor is left on the first line that begins with a letter, or at the end.

    `further` are keywords of counts beside LAMMPS' own, which fixes read.
    """
    title = decode(cursor.peek().removeprefix(b"\xef\xbb\xbf")).strip()
    units = _UNITS.search(title)
    header = Header(title, units[1] if units else None)
    cursor.advance()
    for line in cursor.lines():
        text, _, comment = line.partition(b"#")
        if text.lstrip()[:1].isalpha():
            break
        if comment.strip():
            header.comments.append(decode(comment).strip())
        if text.strip():
            _read_line(path, header, text, cursor.line, further)
    if not header.lines:
        raise FormatError(
            path,
            f"line {min(cursor.line, 2)}",
            found=brief(cursor.peek()) if not cursor.at_end else "the end of the file",
            expected="a header line of a LAMMPS data file such as '100 atoms'",
        )
    _check_box(path, header)
    return header


def check_type_counts(path: str, header: Header, size: int) -> None:
    """Refuse more types of one kind than a file of `size` bytes has anything to say of: each has a name in a record."""
    most = _BARE_TYPES + size // _BYTES_OF_TYPE
    for kind in TYPE_KINDS:
        keyword = f"{kind} types"
        if header.count(keyword) > most:
            raise FormatError(
                path,
                f"line {header.lines[keyword]}",
                found=f"{header.count(keyword)} {keyword} in a file of {size} bytes",
                expected=f"at most {most}",
                hint="state the highest type that is used",
            )


def _read_line(path: str, header: Header, text: bytes, line: int, further: Collection[str]) -> None:
    where, words = f"line {line}", text.split()
    start = next((number for number, word in enumerate(words) if word[:1].isalpha()), len(words))
    values, name = words[:start], b" ".join(words[start:]).decode("latin-1")
    keyword: str | None = name
    if name not in _PLAIN:
        keyword = next((k for k in (*COUNTS, *_BOX, *further) if name == k or name.startswith(k + " ")), None)
    if keyword is None:
        raise FormatError(
            path, where, found=brief(text), expected="a header line such as '100 atoms', or the name of a section"
        )
    if keyword in _BOX:
        numbers = tuple(float(value) for value in values if FLOAT.fullmatch(value))
        if len(numbers) != len(values) or len(values) != _BOX[keyword] or not np.isfinite(numbers).all():
            raise FormatError(path, where, found=brief(text), expected=f"{_BOX[keyword]} numbers before {keyword!r}")
        known: object = header.box.setdefault(keyword, numbers)
        same = known == numbers
    else:
        if len(values) != 1 or not _COUNT.fullmatch(values[0]) or int(values[0]) >= 2**63:
            raise FormatError(path, where, found=brief(text), expected=f"a whole number before {keyword!r}")
        same = header.counts.setdefault(keyword, int(values[0])) == int(values[0])
    if not same:
        raise FormatError(
            path, where, found=brief(text), expected=f"one value of {keyword!r}, which line {header.lines[keyword]} has"
        )
    header.lines.setdefault(keyword, line)


def _check_box(path: str, header: Header) -> None:
    general = [keyword for keyword in _GENERAL if keyword in header.box]
    plain = [keyword for keyword in _BOX if keyword in header.box and keyword not in _GENERAL]
    if general:
        where = f"line {header.lines[general[0]]}"
        if plain:
            raise FormatError(
                path,
                where,
                found=f"{general[0]!r} beside {plain[0]!r}",
                expected="a cell given by vectors or by bounds, not by both",
            )
        missing = [keyword for keyword in ("avec", "bvec", "cvec") if keyword not in header.box]
        if missing:
            raise FormatError(path, where, found=f"no {missing[0]!r}", expected="all of avec, bvec and cvec")
        vectors = np.array([header.box[keyword] for keyword in ("avec", "bvec", "cvec")])
        if not np.linalg.det(vectors) > 0:
            raise FormatError(path, where, found="a cell of no volume or left-handed", expected="right-handed vectors")
        return
    for keyword in _BOUNDS:
        low, high = header.box.get(keyword, (-0.5, 0.5))
        if not low < high:
            raise FormatError(
                path, f"line {header.lines[keyword]}", found=f"{low!r} {high!r} {keyword}", expected="low below high"
            )
