"""Data files that are written: what is read back is the record that was written, and what LAMMPS lacks is refused."""

from __future__ import annotations

import gzip
import math
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lammps_data_systems import systems, write

import molrec_convert
from molrec_convert import Record
from molrec_convert.cli import run
from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.inspect.diff.records import differences
from molrec_convert.model import Block, Box, Column, Frame, MemoryTrajectory, Meta
from molrec_convert.model.dtypes import same_bits
from molrec_convert.report import Report
from molrec_lammps.write.box import bounds_of
from molrec_lammps.write.units import as_text, number_text, row_pieces, tiled

SMALL = """small system, units = real

# a comment of the header
3 atoms
1 bonds
2 atom types
1 bond types
1 extra bond per atom

-1 9 xlo xhi
0 10.5 ylo yhi
0 11 zlo zhi

Atom Type Labels

1 CT
2 H*

Masses

1 12.011 # carbon
2 1.008

Bond Coeffs # harmonic

1 250.5 1.09

Atoms # full

3 1 2 -0.1 1.5 2.5 3.5 0 -1 2 # the last
1 1 1 0.2 0.1 0.25 1e-7 0 0 0
2 2 2 -0.1 4 5 6 0 0 0

Velocities

1 0.5 0.25 -0.125
2 1 2 3
3 0 0 0

Bonds

1 1 1 3 # a bond
"""


def strings(*texts: str) -> Any:
    return np.array(texts, dtype=np.dtypes.StringDType())


def plain(count: int = 3, *, box: Box | None = None, **columns: Any) -> Record:
    """A record from elsewhere: positions and elements."""
    atoms = {axis: np.arange(count) + 0.25 * n for n, axis in enumerate("xyz")}
    system = Frame({"atoms": Block({"element": strings(*(["C", "H"] * count)[:count]), **columns})})
    frame = Frame({"atoms": Block(atoms)}, box=Box(np.eye(3) * 10.0) if box is None else box)
    return Record(system=system, frame=frame)


def written(record: Record, path: Path, **options: Any) -> tuple[str, Report]:
    report = Report()
    molrec_convert.write(record, path, format="lammps-data", overwrite=True, report=report, **options)
    return path.read_text(), report


def rewritten(path: Path, target: Path, **options: Any) -> list[str]:
    """Read a file, write it under the same name elsewhere, read that: what differs."""
    with molrec_convert.read(path, format="lammps-data", **options) as record:
        molrec_convert.write(record, target, format="lammps-data", overwrite=True)
        with molrec_convert.read(target, format="lammps-data", **options) as again:
            return list(differences(record, again))


class TestRoundTrip:
    def test_everything_a_small_file_says(self, tmp_path: Path) -> None:
        (tmp_path / "back").mkdir()
        (tmp_path / "a.data").write_text(SMALL)
        assert rewritten(tmp_path / "a.data", tmp_path / "back/a.data") == []
        text = (tmp_path / "back/a.data").read_text()
        assert text.splitlines()[0] == "small system, units = real"
        for line in (
            "# a comment of the header",
            "1 extra bond per atom",
            "1 12.011 # carbon",
            "2 H*",
            "Bond Coeffs # harmonic",
            "1 250.5 1.09",
            "Atoms # full",
            "3 1 2 -0.1 1.5 2.5 3.5 0 -1 2 # the last",
            "1 1 1 3 # a bond",
        ):
            assert line in text.splitlines()

    @settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
    @given(system=systems(), seed=st.integers(0, 2**32))
    def test_random_systems(self, system: Any, seed: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "a.data"), Path(folder, "b.data")
            source.write_bytes(write(system, Random(seed)))
            assert rewritten(source, target) == []

    @pytest.mark.slow
    def test_the_reference_files(self, corpus: Path, tmp_path: Path) -> None:
        styles = {
            "own_electron_unnamed.data": "electron",
            "own_hybrid.data": "hybrid charge sphere dipole",
            "own_spin_unnamed.data": "spin",
        }
        refused = []
        for path in sorted(corpus.glob("files/lammps-data/*")):
            if path.is_dir():
                continue
            options = {"atom_style": styles[path.name]} if path.name in styles else {}
            try:
                molrec_convert.read(path, format="lammps-data", **options)
            except molrec_convert.errors.MolrecError as error:
                refused.append((path.name, str(error)))
                continue
            assert rewritten(path, tmp_path / path.name, **options) == [], path.name
        assert refused == []

    def test_a_compressed_target(self, tmp_path: Path) -> None:
        (tmp_path / "a.data").write_text(SMALL)
        record = molrec_convert.read(tmp_path / "a.data")
        molrec_convert.write(record, tmp_path / "b.data.gz")
        molrec_convert.write(record, tmp_path / "b.data")
        assert gzip.decompress((tmp_path / "b.data.gz").read_bytes()) == (tmp_path / "b.data").read_bytes()


class TestNumbers:
    @given(values=st.lists(st.floats(allow_nan=False), min_size=1, max_size=40), times=st.integers(1, 3))
    def test_text_reads_back_to_the_same_number(self, values: list[float], times: int) -> None:
        array = np.array(values)
        text = b"".join(bytes(piece) for piece in row_pieces([np.arange(len(values)), array]))
        assert same_bits(np.array([float(line.split()[1]) for line in text.splitlines()]), array)
        assert same_bits(np.array([float(number_text(value)) for value in values]), array)
        again = b"".join(bytes(piece) for piece in row_pieces([tiled(as_text(array), times)]))
        assert [float(line) for line in again.split()] == values * times

    @given(values=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20), digits=st.integers(1, 17))
    def test_digits_are_those_of_printf(self, values: list[float], digits: int) -> None:
        text = b"".join(bytes(piece) for piece in row_pieces([np.array(values)], digits=digits)).decode()
        assert text.split() == [f"%.{digits}g" % value for value in values]

    def test_pieces_are_in_order(self) -> None:
        rows = 3 * 2**16 + 5
        numbers = np.arange(rows)
        comments = np.where(numbers % 1000 == 0, 'a, "b" #c', "").astype(np.dtypes.StringDType())
        plainly = b"".join(bytes(piece) for piece in row_pieces([numbers, numbers / 8]))
        noted = b"".join(bytes(piece) for piece in row_pieces([numbers, numbers / 8], comments=comments))
        assert [int(line.split()[0]) for line in plainly.splitlines()] == list(range(rows))
        assert noted.replace(b' # a, "b" #c', b"") == plainly
        assert noted.count(b"#c") == len(range(0, rows, 1000))

    @given(low=st.floats(-1e6, 1e6), length=st.floats(1e-3, 1e6))
    def test_bounds_give_the_length_back(self, low: float, length: float) -> None:
        high = low + length  # what a file said
        length = high - low
        if length <= 0:
            return
        origin, top, _ = bounds_of(Box(np.diag([length] * 3), np.full(3, low)))
        assert origin[0] == low
        assert (top - origin == length).all()

    def test_digits_of_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "a.data").write_text(SMALL)
        text, _ = written(molrec_convert.read(tmp_path / "a.data"), tmp_path / "b.data", digits=2)
        assert "1 1 1 0.2 0.1 0.25 1e-07 0 0 0" in text
        assert "1 12 # carbon" in text
        with pytest.raises(UsageError, match="--digits 18"):
            written(plain(), tmp_path / "c.data", digits=18)


class TestFromElsewhere:
    def test_ids_types_and_masses_are_worked_out(self, tmp_path: Path) -> None:
        text, report = written(plain(), tmp_path / "a.data")
        assert "1 C\n2 H\n" in text
        assert "1 12.011\n2 1.008\n" in text
        assert "1 1 0 0.25 0.5\n2 2 1 1.25 1.5\n3 1 2 2.25 2.5\n" in text
        derived = [item.name for item in report.of(molrec_convert.report.Fate.DERIVED)]
        assert {"atoms/id", "atoms/type_id", "atom style", "Masses"} <= set(derived)
        assert "dropped: atoms/element" not in " ".join(map(str, report.items))

    def test_the_least_atom_style_that_holds_everything(self, tmp_path: Path) -> None:
        def style(record: Record) -> str:
            text, _ = written(record, tmp_path / "a.data")
            return next(line for line in text.splitlines() if line.startswith("Atoms"))

        ends = {"atomi": np.array([0], np.uint64), "atomj": np.array([1], np.uint64)}
        charges = np.array([0.5, -0.5, 0.0])
        assert style(plain()) == "Atoms # atomic"
        assert style(plain(charge=charges)) == "Atoms # charge"
        bonded = plain()
        assert bonded.system is not None
        bonded.system.blocks["bonds"] = Block(ends)
        assert style(bonded) == "Atoms # bond"
        both = plain(charge=charges)
        assert both.system is not None
        both.system.blocks["bonds"] = Block(ends)
        assert style(both) == "Atoms # full"
        assert style(plain(diameter=np.ones(3), density=np.ones(3))) == "Atoms # sphere"

    def test_the_last_frame_of_a_trajectory(self, tmp_path: Path) -> None:
        record = plain()
        assert record.frame is not None
        frames = [
            Frame({"atoms": Block({axis: np.full(3, float(n)) for axis in "xyz"})}, box=record.frame.box, step=n)
            for n in range(3)
        ]
        record = Record(system=record.system, trajectory=MemoryTrajectory(frames))
        text, report = written(record, tmp_path / "a.data")
        assert "1 1 2 2 2\n" in text
        assert any("last of 3 frames (step 2)" in loss for loss in report.losses())
        first = tmp_path / "first.data"
        molrec_convert.write(record, tmp_path / "a.mrec")
        molrec_convert.convert(tmp_path / "a.mrec", first, frames=slice(0, 1), strict=False)
        assert "1 1 0 0 0\n" in first.read_text()

    def test_cells_of_any_orientation(self, tmp_path: Path) -> None:
        vectors = np.array([[0.0, 5.0, 0.0], [5.0, 0.5, 1.0], [0.0, 0.0, -6.0]])
        record = plain(box=Box(vectors, np.array([0.5, 0.25, -1.0])))
        text, _ = written(record, tmp_path / "a.data")
        assert "0 5 0 avec\n5 0.5 0 bvec\n0 1 -6 cvec\n0.5 0.25 -1 abc origin\n" in text
        again = molrec_convert.read(tmp_path / "a.data")
        assert again.frame is not None
        assert record.frame is not None
        assert again.frame.box == record.frame.box
        text, report = written(record, tmp_path / "a.data", rotate=True)
        assert "xy xz yz" in text
        assert any("turned" in str(item) for item in report.items)
        turned = molrec_convert.read(tmp_path / "a.data").frame
        assert turned is not None
        assert turned.box is not None
        original, moved = record.frame, turned
        for i, j in ((0, 1), (0, 2), (1, 2)):
            spans = [
                np.array([frame["atoms"][axis][j] - frame["atoms"][axis][i] for axis in "xyz"])
                for frame in (original, moved)
            ]
            assert math.isclose(np.linalg.norm(spans[0]), np.linalg.norm(spans[1]), rel_tol=1e-12)
        fractions = [
            np.linalg.solve(f.box.vectors, np.stack([f["atoms"][a] for a in "xyz"]) - f.box.origin[:, None])
            for f in (original, moved)
            if f.box is not None
        ]
        assert np.allclose(fractions[0], fractions[1], atol=1e-12)

    def test_a_cell_that_is_asked_for(self, tmp_path: Path) -> None:
        record = plain(box=Box.undefined())
        with pytest.raises(UnsupportedError, match=r"no cell.*--box"):
            written(record, tmp_path / "a.data")
        assert not (tmp_path / "a.data").exists()
        text, _ = written(record, tmp_path / "a.data", box=("0", "9", "-1", "8", "0", "7.5"))
        assert "0 9 xlo xhi\n-1 8 ylo yhi\n0 7.5 zlo zhi\n" in text
        text, report = written(record, tmp_path / "a.data", box=("atoms", "1.5"))
        assert "-1.5 3.5 xlo xhi\n" in text
        assert any("box boundary" in loss for loss in report.losses())
        for words in (("0", "9"), ("atoms", "x"), ("9", "0", "0", "1", "0", "1"), ("atoms", "1", "2")):
            with pytest.raises(UsageError, match="--box"):
                written(record, tmp_path / "a.data", box=words)
        with pytest.raises(UsageError, match="a cell of its own"):
            written(plain(), tmp_path / "a.data", box=("atoms", "1"))


class TestRefusals:
    def refuses(self, record: Record, tmp_path: Path, match: str, **options: Any) -> None:
        with pytest.raises(UnsupportedError, match=match):
            written(record, tmp_path / "a.data", **options)
        assert list(tmp_path.iterdir()) == []

    def test_ids(self, tmp_path: Path) -> None:
        self.refuses(plain(id=np.array([0, 1, 2], np.uint64)), tmp_path, "the id 0")
        self.refuses(plain(id=np.array([5, 1, 5], np.uint64)), tmp_path, "the id 5 is there twice")
        self.refuses(plain(id=np.array([1, 2, 2**63], np.uint64)), tmp_path, "beyond")
        missing = Column(np.array([1, 2, 3], np.uint64), np.array([True, False, True]))
        self.refuses(plain(id=missing), tmp_path, "row 1 has no id")

    def test_ids_beyond_the_usual_build(self, tmp_path: Path) -> None:
        text, report = written(plain(id=np.array([1, 2, 2**33], np.uint64)), tmp_path / "a.data")
        assert f"\n{2**33} " in text
        assert any("BIGBIG" in warning for warning in report.warnings)

    def test_types(self, tmp_path: Path) -> None:
        self.refuses(plain(type_id=np.array([1, 0, 2], np.uint64)), tmp_path, "the type 0")
        self.refuses(plain(type_id=np.array([1, 1, 10**9], np.uint64)), tmp_path, "set up 1000000000 types")

    def test_cells(self, tmp_path: Path) -> None:
        self.refuses(plain(box=Box(np.diag([5.0, 5.0, -5.0]))), tmp_path, "left-handed")
        self.refuses(plain(box=Box(np.zeros((3, 3)))), tmp_path, "no volume")
        self.refuses(plain(box=Box(np.diag([5.0, 5.0, math.inf]))), tmp_path, "not finite")

    def test_masses_that_differ_within_a_type(self, tmp_path: Path) -> None:
        record = plain(type_id=np.array([1, 1, 1], np.uint64), mass=np.array([1.0, 1.0, 2.0]))
        self.refuses(record, tmp_path, "atoms of type 1 .* have the masses 1.0 and 2.0")

    def test_atoms_nowhere(self, tmp_path: Path) -> None:
        record = plain()
        assert record.frame is not None
        record.frame["atoms"]["x"][1] = math.nan
        self.refuses(record, tmp_path, "atom 2 is at")
        del record.frame["atoms"].columns["x"]
        self.refuses(record, tmp_path, r"no positions \(x\)")
        self.refuses(Record(status={"state": "running"}), tmp_path, "no atoms")

    def test_what_an_atom_style_lacks(self, tmp_path: Path) -> None:
        bonded = plain()
        assert bonded.system is not None
        ends = {"atomi": np.array([0], np.uint64), "atomj": np.array([1], np.uint64)}
        bonded.system.blocks["bonds"] = Block(ends)
        self.refuses(bonded, tmp_path, "bonds: atom style atomic has none", target_atom_style="atomic")
        self.refuses(plain(), tmp_path, "atoms/diameter: atom style sphere needs", target_atom_style="sphere")
        with pytest.raises(UsageError, match="no atom style"):
            written(plain(), tmp_path / "a.data", target_atom_style="spheroid")
        with pytest.raises(UsageError, match="--target-atom-style"):
            written(plain(), tmp_path / "a.data", target_atom_style="nothing")

    def test_losses_are_said(self, tmp_path: Path) -> None:
        record = plain(charge=np.array([0.5, -0.5, 0.0]))
        _, report = written(record, tmp_path / "a.data", target_atom_style="atomic")
        assert any("atoms/charge" in loss for loss in report.losses())


def test_diff_finds_nothing_in_what_was_rewritten(fixtures: Path, tmp_path: Path) -> None:
    """A force field has no name of its own in a data file: the file's is no difference; a number is."""
    source = fixtures / "corpus/files/lammps-data/own_full.data"
    assert run(["convert", str(source), str(tmp_path / "b.data")]) == 0
    assert run(["diff", str(source), str(tmp_path / "b.data")]) == 0
    text = (tmp_path / "b.data").read_text()
    start = text.index("Bond Coeffs")
    row = text[start:].split("\n")[2]
    (tmp_path / "c.data").write_text(text.replace(row, f"{row}1", 1))
    assert run(["diff", str(source), str(tmp_path / "c.data")]) == 1


class TestUnits:
    def record(self, units: Any) -> Record:
        record = plain(charge=np.array([0.5, -0.5, 0.0]))
        assert record.system is not None
        assert record.frame is not None
        record.system.meta.put("units", units, "json")
        record.frame["atoms"].columns.update({f"v{axis}": Column(np.array([1.0, 2.0, 3.0])) for axis in "xyz"})
        return record

    def test_the_title_says_them(self, tmp_path: Path) -> None:
        text, _ = written(self.record({"preset": "real"}), tmp_path / "a.data")
        assert text.splitlines()[0].endswith(", units = real")
        assert molrec_convert.read(tmp_path / "a.data").units == {"preset": "real"}
        text, _ = written(self.record("metal"), tmp_path / "a.data")
        assert text.splitlines()[0].endswith(", units = metal")

    def test_stated_quantities_of_one_style(self, tmp_path: Path) -> None:
        units = {"length": "angstrom", "energy": "eV", "time": "ps", "mass": "g/mol", "charge": "e"}
        text, _ = written(self.record(units), tmp_path / "a.data")
        assert text.splitlines()[0].endswith(", units = metal")

    def test_conversion(self, tmp_path: Path) -> None:
        units = {"length": "angstrom", "energy": "kJ/mol", "time": "ps"}
        text, _ = written(self.record(units), tmp_path / "a.data")
        assert text.splitlines()[0].endswith(", units = metal")  # of its units those that are written
        with pytest.raises(UnsupportedError, match=r"are those of no units style.*--target-units"):
            written(self.record({**units, "length": "nm"}), tmp_path / "a.data")
        text, _ = written(self.record({"preset": "real"}), tmp_path / "a.data", target_units="si")
        assert "0 1e-9 xlo xhi\n" in text or "0 1e-09 xlo xhi\n" in text
        record = molrec_convert.read(tmp_path / "a.data")
        assert record.system is not None
        assert record.frame is not None
        assert np.allclose(record.frame["atoms"]["vx"], np.array([1.0, 2.0, 3.0]) * 1e5, rtol=1e-14)
        assert np.allclose(record.system["atoms"]["charge"][0], 0.5 * 1.602176634e-19, rtol=1e-14)
        assert math.isclose(record.system["atoms"]["mass"][0], 12.011 * 1.66053906892e-27, rel_tol=1e-8)

    def test_own_quantities(self, tmp_path: Path) -> None:
        units = {"length": "nm", "energy": "kJ/mol", "time": "ps", "mass": "dalton", "charge": "e"}
        text, _ = written(self.record(units), tmp_path / "a.data", target_units="metal")
        assert "0 100 xlo xhi\n" in text
        assert "1 10 10 10\n" in text

    def test_what_cannot_be_converted(self, tmp_path: Path) -> None:
        for units, target, match in (
            ({"preset": "lj"}, "real", "reduced units"),
            ({"preset": "real"}, "lj", "reduced units"),
            ({"length": "nm", "energy": "eV"}, "real", "atoms/charge.* nm, eV and no unit for it"),
        ):
            with pytest.raises(UnsupportedError, match=match):
                written(self.record(units), tmp_path / "a.data", target_units=target)
        with pytest.raises(UnsupportedError, match="does not state its units"):
            written(plain(), tmp_path / "a.data", target_units="real")
        unknown = self.record({"preset": "real"})
        assert unknown.frame is not None
        unknown.frame["atoms"].columns.update({"eradius": Column(np.ones(3)), "vfrac": Column(np.ones(3))})
        unknown.frame["atoms"].columns["density"] = Column(np.ones(3))
        with pytest.raises(UnsupportedError, match=r"dimension of atoms/vfrac is not known.*--dimension atoms/vfrac="):
            written(unknown, tmp_path / "a.data", target_units="metal", target_atom_style="peri")
        known = {"vfrac": "length**3"}
        written(unknown, tmp_path / "a.data", target_units="nano", target_atom_style="peri", dimensions=known)
        back = molrec_convert.read(tmp_path / "a.data", atom_style="peri")
        assert back.frame is not None
        assert back.frame["atoms"]["vfrac"].tolist() == [0.001] * 3

    def test_a_style_in_words(self, tmp_path: Path) -> None:
        """Quantities that are those of a style are that style; any others are refused by the names of the styles."""
        words = "energy=eV,time=ps"
        written(self.record({"preset": "real"}), tmp_path / "a.data", target_units=words)
        assert molrec_convert.read(tmp_path / "a.data").units == {"preset": "metal"}
        for wrong in ("energy=eV", "length=nm,energy=kJ/mol"):
            with pytest.raises(UsageError, match=r"one of the units styles lj, real, metal, .*nano;"):
                written(self.record({"preset": "real"}), tmp_path / "b.data", target_units=wrong)
        assert not (tmp_path / "b.data").exists()
        written(self.record({"preset": "real"}), tmp_path / "b.data", target_units="none")
        written(self.record({"preset": "real"}), tmp_path / "c.data")
        assert (tmp_path / "b.data").read_bytes() == (tmp_path / "c.data").read_bytes()


def test_meta_of_units_stays(tmp_path: Path) -> None:
    meta = Meta()
    meta.put("units", "real", "string")
    record = plain()
    assert record.system is not None
    record.system.meta = meta
    text, _ = written(record, tmp_path / "a.data")
    assert text.splitlines()[0].endswith("units = real")


@pytest.mark.parametrize("name", ["e.extxyz", "e2.extxyz"])
@pytest.mark.parametrize("target", ["a.data", "a.dump", "a"])
def test_energies_and_notes_are_said_to_be_left_out(
    fixtures: Path, tmp_path: Path, name: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = fixtures / "faults" / name
    to = ["--to", "lammps-run"] if target == "a" else []
    arguments = ["convert", str(source), str(tmp_path / target), *to, "--units", "metal", "--verbose"]
    assert run([*arguments, "--strict"]) == 3
    told = capsys.readouterr().err
    assert "meta/pe" in told or "meta/energy" in told
    with molrec_convert.read(source, units="metal") as record:
        assert record.trajectory is not None
        for key in record.trajectory.declaration.meta:
            assert f"meta/{key}" in told
    assert run(arguments) == 0


def test_header_texts_are_said_to_be_left_out(fixtures: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.pdb"
    source.write_text("HEADER    SOMETHING\nREMARK   1 A REMARK\n" + (fixtures / "faults/alt.pdb").read_text())
    for target in ("a.data", "a.dump"):
        report = molrec_convert.convert(source, tmp_path / target, box=("atoms", "3"))
        lost = " ".join(report.losses())
        with molrec_convert.read(source) as record:
            assert record.system is not None
            keys = [key for key in record.system.meta if key != "units"]
            assert keys
            assert [key for key in keys if f"system/meta/{key}" not in lost] == []
            assert "units (" in lost
