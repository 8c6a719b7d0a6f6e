"""LAMMPS reads the data files that are written, and holds the same atoms as from the files they came from."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import corpus_index
import pytest
from lammps_runs import lammps, needs_lammps

import molrec_convert

#: Files whose atom style has arguments, or is not stated in the file.
STYLES = {
    "own_squares.data": "body rounded/polygon 4 4",
    "own_electron_unnamed.data": "electron",
    "own_hybrid.data": "hybrid charge sphere dipole",
    "own_spin_unnamed.data": "spin",
}
#: Sections whose rows begin with a number that means nothing.
NUMBERED = ("Bonds", "Angles", "Dihedrals", "Impropers")
FLAT = ("own_squares.data",)
#: The files that LAMMPS opens, and needs no fix for.
NAMES = [
    name
    for name in (Path(row["path"]).name for row in corpus_index.rows("lammps-data"))
    if not name.endswith((".gz", ".bz2")) and "property" not in name and "triclinic-2" not in name
]
READ = """
lmp.commands_string('''
units {units}
boundary p p p
dimension {dimension}
atom_style {style}
read_data {name} nocoeff{extra}
{mass}
pair_style zero 1.0
pair_coeff * *
write_data {target} nocoeff
''')
"""


def held(directory: Path, name: str, target: str, **how: Any) -> dict[str, list[str]]:
    """What LAMMPS writes of the file it read: the sorted rows of every section."""
    found = lammps(directory, READ.format(name=name, target=target, **how), log=f"log.{target}")
    if "error" in found:
        pytest.skip(f"LAMMPS does not read it: {found['error']}")
    sections: dict[str, list[str]] = {}
    rows: list[str] = []
    section = ""
    for line in (directory / target).read_text().splitlines()[1:]:
        text = line.partition("#")[0].strip()
        if text[:1].isalpha():
            section, rows = text, sections.setdefault(text, [])
        elif text:
            rows.append(text.partition(" ")[2] if section in NUMBERED else text)
    return {name: sorted(lines) for name, lines in sections.items()}


@needs_lammps
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_lammps_holds_the_same(name: str, corpus: Path, tmp_path: Path) -> None:
    source = corpus / "files/lammps-data" / name
    options = {"atom_style": STYLES[name]} if name in STYLES else {}
    record = molrec_convert.read(source, format="lammps-data", **options)
    assert record.system is not None
    style = record.system.meta["lammps"]["atom_style"]
    (tmp_path / "original.data").write_bytes(source.read_bytes())
    molrec_convert.write(record, tmp_path / "ours.data")
    how = {"units": "lj", "style": style, "dimension": 2 if name in FLAT else 3, "extra": ""}
    how["mass"] = "" if style.split()[0] in ("body", "sphere", "ellipsoid") else "mass * 1.0"
    theirs = held(tmp_path, "original.data", "original.back", **how)
    ours = held(tmp_path, "ours.data", "ours.back", **how)
    assert ours.keys() == theirs.keys()
    for section, rows in theirs.items():
        assert ours[section] == rows, section


@needs_lammps
def test_lammps_reads_a_compressed_one(tmp_path: Path) -> None:
    text = "a\n\n2 atoms\n1 atom types\n\n0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n\nMasses\n\n1 1\n\n"
    text += "Atoms # atomic\n\n1 1 1 1 1\n2 1 5 5 5\n"
    (tmp_path / "a.data").write_text(text)
    molrec_convert.write(molrec_convert.read(tmp_path / "a.data"), tmp_path / "b.data.gz")
    assert gzip.decompress((tmp_path / "b.data.gz").read_bytes()).startswith(b"a\n")
    code = READ.format(name="b.data.gz", target="c.data", units="lj", style="atomic", dimension=3, extra="", mass="")
    found = lammps(tmp_path, code + "\nout['n'] = lmp.get_natoms()")
    if "error" in found:
        pytest.skip(f"LAMMPS cannot decompress here: {found['error']}")
    assert found["n"] == 2
