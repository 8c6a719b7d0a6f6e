"""Make the page of quantities and formats from the matrix of the tests; `make_pages.py` writes it."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / name) for name in ("meaning", "pdb", "support")]

from matrix import FORMATS, SAMPLES, Cell, cells, known, samples  # noqa: E402
from matrix_readers import READERS  # noqa: E402

_PAGE = """# Quantities in every format

What becomes of each quantity in each format, as other programs find it there. A test writes small records of three
atoms in three frames with every writer, opens the files with every program below, and compares the physical value with
its unit. This page is made from that test.

| word | what the programs find |
|---|---|
| exact | the same number, to the last bit; as a program shows it, where it converts or rounds by itself |
| converted | the same value in the units of the format |
| single | single precision, as the format holds it; the report says so |
| 3 decimals | so many digits behind the point in the unit the program shows; the report says so |
| placeholder | a point where a text is empty: read back as empty, and said in the report |
| as columns | numbers of a row as columns of their own |
| refused | the conversion ends with a sentence that says why, and writes nothing |
| – | not there, and the report has said so before anything was written |

Stores are records on disk: `.mrec`, `.mrec.zip` and `.mrec.lmdb`. Formats of one frame (`lammps-data`, `lammps-run`,
`gro`) have the last.

{tables}
## What other programs make of it

{notes}
## Programs

| format | opened with |
|---|---|
{programs}
"""
#: Columns of the tables.
_COLUMNS = {"stores": "mrec", **{name: name for name in FORMATS if not name.startswith("mrec")}}
_PROGRAMS = {
    "ase": "ASE", "chemfiles": "chemfiles", "openbabel": "Open Babel", "MDAnalysis": "MDAnalysis",
    "mdanalysis": "MDAnalysis", "pymatgen": "pymatgen", "mdtraj": "mdtraj", "parmed": "ParmEd", "openmm": "OpenMM",
    "gemmi": "gemmi", "biotite": "biotite", "lammps": "LAMMPS",
}  # fmt: skip


def meaning_page() -> str:
    """Return the page: a table for each sample, notes on cells that are not as they should be, and the programs."""
    notes: dict[str, int] = {}
    tables = []
    for name in SAMPLES:
        sample = samples()[name]
        title = f"{sample.title[0].upper()}{sample.title[1:]}"
        head = f"## {title}\n\n| | {' | '.join(_COLUMNS)} |\n|---|{'---|' * len(_COLUMNS)}\n"
        rows = []
        for row in sample.rows:
            words = [_word(cells()[name, row, f], known(name, row, f), notes) for f in _COLUMNS.values()]
            rows.append(f"| {row.replace('_', ' ')} | {' | '.join(words)} |\n")
        tables.append(head + "".join(rows))
    said = "".join(f"{number}. {text}\n" for text, number in notes.items())
    programs = "\n".join(
        f"| `{name}` | {', '.join(sorted({_PROGRAMS[one.strip()] for one in readers}, key=str.lower))} |"
        for name, readers in READERS.items()
    )
    return _PAGE.format(tables="\n".join(tables), notes=said, programs=programs)


def _word(cell: Cell, reason: str | None, notes: dict[str, int]) -> str:
    word = cell.word
    return word if reason is None else f"{word} ({notes.setdefault(reason, len(notes) + 1)})"
