"""Files others made: their INDEX values, gemmi as the oracle of every row, and the way there and back."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus_index
import numpy as np
import pytest

from molrec_convert import convert, read
from molrec_convert.errors import FormatError
from molrec_convert.inspect.diff import collection_differences, differences
from molrec_convert.model import Record
from molrec_convert.report import Fate, Report

gemmi = pytest.importorskip("gemmi")

#: No PDB file, for all its name says.
REFUSED = "own_structure_factors.ent"
#: What comes back otherwise than it went, and the item of the report that says so.
CHANGED = {
    "cf_end-endmdl.pdb": {"trajectory/meta/model"},
    "cf_water.pdb": {"MODEL"},
}
#: Rows gemmi reads in a way of its own: other dialects of numbers, END between frames, models of one number.
NOT_GEMMI = {"mda_5digitResid.pdb", "mda_xl_serial.pdb", "gemmi_pdb1gdr.ent", "cf_water.pdb", "mda_incomplete.pdb"}


@pytest.fixture(scope="module")
def index() -> dict[str, dict[str, str]]:
    return {Path(row["path"]).name: row for row in corpus_index.rows("pdb")}


def records(source: Any) -> list[Record]:
    return [source] if isinstance(source, Record) else list(source)


def files(corpus: Path, index: dict[str, dict[str, str]]) -> Iterator[Path]:
    for name, row in index.items():
        if name != REFUSED:
            yield corpus / row["path"]


def parameters(box: Any) -> list[float]:
    from molrec_pdb.header import cell_parameters

    return [] if box is None else [round(value, 3) for value in cell_parameters(box.vectors)]


def test_index_values(corpus: Path, index: dict[str, dict[str, str]]) -> None:
    for path in files(corpus, index):
        row = index[path.name]
        frames = [frame for record in records(read(path)) for frame in record.trajectory]
        assert str(len(frames)) == row["n_frames"], path
        assert str(frames[0]["atoms"].count) == row["n_atoms_first"], path
        assert str(frames[-1]["atoms"].count) == row["n_atoms_last"], path
        cell = [float(text) for text in row["cell_lengths_angles"].split()]
        assert np.allclose(parameters(frames[0].box), cell, atol=1e-3) if cell else frames[0].box is None, path
        if row["first_atom_xyz"]:
            # the first and the last row of the first frame
            for at, key in ((0, "first_atom_xyz"), (-1, "last_atom_xyz")):
                found = [float(f"{frames[0]['atoms'][axis][at]:.6g}") for axis in "xyz"]
                assert found == pytest.approx([float(text) for text in row[key].split()], rel=1e-5), path


def test_what_is_no_pdb_file_is_refused(corpus: Path, index: dict[str, dict[str, str]]) -> None:
    path = corpus / index[REFUSED]["path"]
    with pytest.raises(FormatError, match="line 1: found data_r1abcsf, expected records of a PDB file"):
        read(path, format="pdb")


def test_rows_are_what_gemmi_reads(corpus: Path, index: dict[str, dict[str, str]]) -> None:
    compared = 0
    for path in files(corpus, index):
        if path.name in NOT_GEMMI or not int(index[path.name]["n_atoms_first"]):
            continue
        opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
        with opener(path, "rb") as file:
            structure = gemmi.read_pdb_string(file.read().decode("latin-1"))
        record = records(read(path))[0]
        theirs = [
            (
                atom.serial, atom.name, residue.name + chain.name.strip(), residue.seqid.num,
                residue.seqid.icode.strip(), atom.altloc.strip("\0"), atom.pos.x, atom.pos.y, atom.pos.z,
                atom.charge, residue.segment.strip(), residue.het_flag == "H",
            )
            for chain in structure[0] for residue in chain for atom in residue
        ]  # fmt: skip
        assert record.system is not None
        assert record.trajectory is not None
        block, frame = record.system["atoms"], record.trajectory[0]["atoms"]

        def texts(name: str, block: Any = block) -> list[str]:
            return block.stored(name).tolist() if name in block else [""] * block.count

        # a name of four letters leaves gemmi a chain of two
        residues = [one + other for one, other in zip(texts("res_name"), texts("chain"), strict=True)]
        number = block["res_seq"] if "res_seq" in block else block["res_id"]
        charges = block.stored("formal_charge") if "formal_charge" in block else np.zeros(block.count, int)
        ours = list(
            zip(
                (block if "id" in block else frame)["id"].tolist(), texts("name"), residues,
                number.tolist(), texts("icode"), texts("altloc"), frame["x"].tolist(), frame["y"].tolist(),
                frame["z"].tolist(), charges.tolist(), texts("segid"), block["hetatm"].tolist(), strict=True,
            )
        )  # fmt: skip
        # gemmi brings the atoms of a residue together; the rows are the same
        assert sorted(theirs) == sorted(ours), path
        compared += 1
    assert compared > 30


@pytest.mark.slow
def test_there_and_back(corpus: Path, index: dict[str, dict[str, str]], tmp_path: Path) -> None:
    for path in files(corpus, index):
        first, out, second = tmp_path / "a.mrec", tmp_path / "b.pdb", tmp_path / "c.mrec"
        source = read(path)
        if not isinstance(source, Record):
            first, second = tmp_path / "a.mrec.lmdb", tmp_path / "c.mrec.lmdb"
        convert(path, first, overwrite=True)
        predicted, report = Report(), Report()
        options = {"hybrid_36": True, "overwrite": True}
        convert(first, out, report=predicted, dry_run=True, **options)
        assert not out.exists(), path
        convert(first, out, report=report, **options)
        assert predicted.to_json() == report.to_json(), path
        convert(out, second, overwrite=True)
        changed = CHANGED.get(path.name, set())
        told = {item.name for fate in (Fate.DROPPED, Fate.DERIVED, Fate.CONVERTED) for item in report.of(fate)}
        assert changed <= told, path
        compare: Any = differences if first.suffix == ".mrec" else collection_differences
        with read(first) as one, read(second) as other:
            lines = [str(line) for line in compare(one, other)]
        assert lines or not changed, path
        if path.name not in CHANGED:
            # nothing has changed but what the report names
            assert [line for line in lines if not any(f"/{name.rpartition('/')[2]}" in line for name in told)] == [], (
                path
            )
        out.unlink()


def test_header_is_kept_and_interpreted(corpus: Path) -> None:
    record = read(corpus / "files/pdb/gemmi_5moo_header.pdb")
    document = record.system.meta["pdb"]
    assert (document["id"], document["resolution"], document["space_group"]) == ("5MOO", 1.44, "P 21 21 21")
    text = (corpus / "files/pdb/gemmi_5moo_header.pdb").read_text().splitlines()
    kept = {line.rstrip() for line in document["lines"]} | {line.rstrip() for line in document.get("inside", [])}
    assert {line.rstrip() for line in text if not line.startswith(("CRYST1", "END"))} <= kept


def test_written_rows_are_those_of_the_file(corpus: Path, tmp_path: Path) -> None:
    """A file in the standard form comes back character for character."""
    for name in ("parmed_4lzt.pdb", "gemmi_1orc.pdb", "cf_1bcu.pdb", "mda_1hvr.pdb"):
        path = corpus / "files/pdb" / name
        convert(path, tmp_path / "b.pdb", overwrite=True)
        theirs = [line.ljust(80) for line in path.read_text().splitlines()]
        ours = (tmp_path / "b.pdb").read_text().splitlines()
        for kind in ("ATOM", "HETATM", "ANISOU", "TER", "CRYST1", "SSBOND", "LINK", "REMARK"):
            mine, yours = ([line for line in lines if line.startswith(kind)] for lines in (ours, theirs))
            assert mine == yours, (name, kind)
