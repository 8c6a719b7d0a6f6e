"""What a file is, told from its first bytes: dump, data file, input script or log.

Scores run from 0 (not that) to 1 (certainly). Each function looks at lines that only its kind of file has, so that
other text (XYZ, PDB, CSV, JSON, prose) scores 0 whatever its name. Nothing here imports numpy.

| kind | score | when |
|---|---|---|
| dump | 1 | the first line is `ITEM: TIMESTEP`, `ITEM: UNITS` or `ITEM: TIME` |
| | 1 | YAML of LAMMPS', or a binary dump |
| | 0.6 | the first line is another `ITEM:`; 0.5: an item line of a dump stands further on |
| data | 1 | after line 1 only header lines, among them `N atoms` and types or a box, then a known section |
| | 0.8 | the same, with an unknown section, or at the end of the file |
| log | 1 | the first line is `LAMMPS (version)`; 0.95: another line is |
| | 0.9 | a memory line before, or a `Loop time` line after a thermo table |
| ave | 1 | the first line is the title of `fix ave/time`, `ave/chunk`, `ave/histo` or `ave/correlate` |
| script | 0.9 | every line begins with a command, at least one that no other text begins with (or a `variable`) |
| | 0.9 | every line begins with a command, and the file is named as scripts are |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from molrec_convert.errors import UnsupportedError
from molrec_convert.text.compression import head_of
from molrec_lammps.common.commands import COMMANDS, TELLING, VARIABLE_STYLES
from molrec_lammps.options import UNITS_STYLES

__all__ = [
    "HEAD_BYTES",
    "ave_score",
    "binary_dump",
    "data_format_score",
    "data_score",
    "dump_score",
    "kind_of",
    "log_score",
    "read_head",
    "refuse_restart",
    "run_score",
    "script_score",
]

#: How much of a file a sniffer sees.
HEAD_BYTES = 65536
#: How many files of a directory are opened to tell whether it holds a run.
_FILES_LOOKED_AT = 200

_NUMBER = rb"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_COUNT = re.compile(
    rb"\s*\d+\s+(?:(atoms)|bonds|angles|dihedrals|impropers|ellipsoids|lines|triangles|bodies|crossterms|bitorsions"
    rb"|pitorsions|((?:atom|bond|angle|dihedral|improper)\s+types)"
    rb"|extra\s+(?:bond|angle|dihedral|improper|special)\s+per\s+atom)(?:\s|#|$)"
)
_BOX = re.compile(
    rb"\s*(?:" + _NUMBER + rb"\s+){2,3}(?:xlo\s+xhi|ylo\s+yhi|zlo\s+zhi|xy\s+xz\s+yz|[abc]vec|abc\s+origin)(?:\s|#|$)"
)
_SECTION = re.compile(
    rb"\s*(?:Atoms|Masses|Velocities|Bonds|Angles|Dihedrals|Impropers|Ellipsoids|Lines|Triangles|Bodies|CMAP"
    rb"|(?:Atom|Bond|Angle|Dihedral|Improper) Type Labels|[A-Za-z0-9]+ Coeffs)\s*(?:#.*)?$"
)
_OTHER_SECTION = re.compile(rb"\s*[A-Z][A-Za-z]*(?: [A-Za-z]+)*\s*(?:#.*)?$")
_FIX_HEADER = re.compile(rb"\s*\d+(?:\s+[a-z]+)+\s*(?:#.*)?$")
_AVERAGES = re.compile(rb"# (?:Time-averaged|Chunk-averaged|Histogrammed|Time-correlated) data for fix ")
_SCRIPT = re.compile(r"(?i)^in\.|\.(in|lmp|lammps)$")
_ITEM = re.compile(rb"^ITEM: (?:TIMESTEP|NUMBER OF ATOMS|BOX BOUNDS|ATOMS |ENTRIES |GRID CELLS )", re.MULTILINE)
_YAML = re.compile(rb"\s*---\s*\ncreator: LAMMPS\s*\ntimestep:")
_BINARY: tuple[tuple[bytes, Literal["little", "big"]], ...] = (
    (b"DUMPATOM", "little"),
    (b"DUMPATOM", "big"),
    (b"DUMPCUSTOM", "little"),
    (b"DUMPCUSTOM", "big"),
)
_RESTART = b"LammpS RestartT"
_VERSION = re.compile(rb"^LAMMPS \(\d{1,2} [A-Z][a-z]{2} \d{4}[^\n]*\)[ \t]*\r?$", re.MULTILINE)
_TABLE = re.compile(
    rb"^(?:Per MPI rank memory allocation |Memory usage per processor = "
    rb"|Loop time of [0-9.e+-]+ on \d+ procs (?:\(\d+ [^)]*\) )?for \d+ steps)",
    re.MULTILINE,
)
_TABLE_WORDS = (b"Per MPI rank memory allocation ", b"Memory usage per processor = ", b"Loop time of ")


def dump_score(head: bytes, path: Path) -> float:
    """Return whether the file is a dump: text, YAML, or a binary one, which its reader refuses with advice."""
    if binary_dump(head) or _YAML.match(head):
        return 1.0
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0].split()
    if first[:1] == [b"ITEM:"]:
        return 1.0 if first[1:] in ([b"TIMESTEP"], [b"UNITS"], [b"TIME"]) else 0.6
    return 0.5 if b"ITEM: " in head and _ITEM.search(head) else 0.0


def binary_dump(head: bytes) -> bool:
    """True if the file is a binary dump: its kind stands behind the length of the word, counted negative."""
    return any(head.startswith((-len(word)).to_bytes(8, order, signed=True) + word) for word, order in _BINARY)


def ave_score(head: bytes, path: Path) -> float:
    """Return whether the file is one of `fix ave/time` or its kin; with titles of one's own nothing tells it."""
    return 1.0 if _AVERAGES.match(head) else 0.0


def data_score(head: bytes, path: Path) -> float:
    """Return whether the file is a data file; its first line may say anything."""
    lines = head.splitlines()[1:]
    if len(head) >= HEAD_BYTES:
        lines = lines[:-1]
    atoms = shape = False
    for line in lines:
        if not line.split(b"#", 1)[0].strip():
            continue
        count = _COUNT.match(line)
        if count is not None:
            atoms = atoms or count[1] is not None
            shape = shape or count[2] is not None
        elif _BOX.match(line):
            shape = True
        elif not _FIX_HEADER.match(line):
            if not (atoms and shape):
                return 0.0
            if _SECTION.match(line):
                return 1.0
            return 0.8 if _OTHER_SECTION.match(line) else 0.0
    return 0.8 if atoms and shape else 0.0


def log_score(head: bytes, path: Path) -> float:
    """Return whether the file is a log, or the screen output of a run."""
    # to look for words costs a tenth of looking for the beginnings of lines
    version = _VERSION.search(head) if b"LAMMPS (" in head else None
    if version is not None:
        return 1.0 if version.start() == 0 else 0.95
    return 0.9 if any(words in head for words in _TABLE_WORDS) and _TABLE.search(head) else 0.0


def script_score(head: bytes, path: Path) -> float:
    """Return whether the file is an input script."""
    if log_score(head, path) or b"\0" in head:
        return 0.0
    text = head.decode("latin-1")
    if len(head) >= HEAD_BYTES:
        text = text[: text.rfind("\n") + 1]
    named = _SCRIPT.search(path.name) is not None
    telling = False
    for word, argument, style in _first_words(text):
        if word not in COMMANDS:
            return 0.0
        telling = telling or word in TELLING or (word == "units" and argument in UNITS_STYLES)
        telling = telling or named or (word == "variable" and style in VARIABLE_STYLES)
    return 0.9 if telling else 0.0


def run_score(head: bytes, path: Path) -> float:
    """Return whether the path is a run: an input script, a log, or a directory with such files or at least a dump or
    data.
    """
    if not path.is_dir():
        return max(log_score(head, path), script_score(head, path))
    if (path / "zarr.json").exists():
        return 0.0
    found = 0.0
    for number, file in enumerate(_likely_first(path)):
        if number >= _FILES_LOOKED_AT:
            break
        kind = kind_of(file)
        if kind in ("script", "log"):
            return 0.9
        if kind is not None:
            found = 0.7
    return found


def data_format_score(head: bytes, path: Path) -> float:
    """Return whether the file is a data file, or a restart file, which the reader of data files refuses with advice."""
    return 1.0 if head.startswith(_RESTART) else data_score(head, path)


def refuse_restart(head: bytes, path: Path) -> None:
    """UnsupportedError for a restart file: its layout is LAMMPS' own and changes with its version."""
    if head.startswith(_RESTART):
        raise UnsupportedError(
            f"{path} is a restart file of LAMMPS, binary and of one version; make a data file of it: "
            f"lmp -restart2data {path.name} {path.stem}.data"
        )


def kind_of(path: Path) -> str | None:
    """Return `"dump"`, `"data"`, `"log"`, `"script"`, `"ave"` or None: what the file's beginning shows it to be."""
    head = read_head(path)
    if not head:
        return None
    for kind, score in _SCORES.items():
        if score(head, path) >= 0.5:
            return kind
    return None


_SCORES = {
    "dump": dump_score,
    "log": log_score,
    "ave": ave_score,
    "data": data_score,
    "script": script_score,
}


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """Return the first bytes of a file, decompressed (.gz .bz2 .xz .zst by content); empty when that cannot be done.

    A compressed file that is cut short gives what is whole of its beginning.
    """
    try:
        with path.open("rb") as file:
            return head_of(file, size)
    except OSError:
        return b""


def _first_words(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield first three words of each command: comments, continuations and the inside of triple quotes left out."""
    quoted = continued = False
    for line in text.splitlines():
        triples = line.count('"""')
        if quoted or continued:
            quoted ^= bool(triples % 2)
            continued = line.rstrip().endswith("&")
            continue
        words = line.split("#", 1)[0].split(None, 3)
        quoted = bool(triples % 2)
        continued = line.rstrip().endswith("&")
        if words and not words[0].startswith("$"):
            first, second, third, *_ = [*words, "", ""]
            yield first, second, third


def _likely_first(directory: Path) -> Iterable[Path]:
    try:
        files = [file for file in directory.iterdir() if file.is_file() and not file.name.startswith(".")]
    except OSError:
        return []
    likely = re.compile(r"(?i)^(in|log|data|dump)\.|\.(in|lmp|lammps|log|data|dump|lammpstrj)(\.|$)")
    return sorted(files, key=lambda file: (likely.search(file.name) is None, file.name))
