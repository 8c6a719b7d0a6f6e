"""What is written: columns to the last character, overflow, rotation, losses as they are predicted."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molrec_convert import convert, read
from molrec_convert import write as write_record
from molrec_convert.errors import LossError, UnsupportedError
from molrec_convert.inspect.diff import differences
from molrec_convert.model import Block, Box, Frame, MemoryTrajectory, Record
from molrec_convert.report import Fate, Report

pytest.importorskip("gemmi")

from molrec_pdb.header import cell_parameters, cell_vectors
from molrec_pdb.lines import WIDTH, integers, numbers
from molrec_pdb.numbering import decode_hybrid36, encode_hybrid36, largest_hybrid36
from molrec_pdb.write_rows import decimal_field, integer_field

STRING = np.dtypes.StringDType()


def texts(*values: str) -> np.ndarray[Any, Any]:
    return np.array(values, STRING)


def record(
    columns: dict[str, Any] | None = None, *, box: Box | None = None, xyz: Any = None, units: Any = "angstrom",
    bonds: Block | None = None, **state: Any,
) -> Record:  # fmt: skip
    positions = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] if xyz is None else xyz, float)
    atoms = {"element": texts("C", "O"), "name": texts("CA", "O")} if columns is None else columns
    system = Frame({"atoms": Block(atoms, count=len(positions))}, {"units": {"length": units}} if units else {})
    if bonds is not None:
        system.blocks["bonds"] = bonds
    moving = Block({axis: positions[:, n] for n, axis in enumerate("xyz")} | state)
    return Record(system=system, trajectory=MemoryTrajectory([Frame({"atoms": moving}, box=box, step=0)]))


def lines(source: Record, path: Path, **options: Any) -> list[str]:
    write_record(source, path, overwrite=True, **options)
    return path.read_text().splitlines()


@given(st.integers(-999, largest_hybrid36(4)))
def test_hybrid_36_of_four_columns(number: int) -> None:
    text = encode_hybrid36(number, 4)
    assert len(text) == 4
    assert decode_hybrid36(text, 4) == number
    field, wide = integer_field(np.array([number]), np.ones(1, np.bool_), 4, hybrid=True)
    assert bytes(field[0]).decode() == text
    assert not wide[0]


@given(st.integers(-9999, largest_hybrid36(5)))
def test_hybrid_36_of_five_columns(number: int) -> None:
    text = encode_hybrid36(number, 5)
    assert decode_hybrid36(text, 5) == number
    field, _ = integer_field(np.array([number]), np.ones(1, np.bool_), 5, hybrid=True)
    assert bytes(field[0]).decode() == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(9999, "9999"), (10000, "A000"), (10035, "A00Z"), (10036, "A010"), (1223055, "ZZZZ"), (1223056, "a000"),
     (2436111, "zzzz")],
)  # fmt: skip
def test_published_values_of_hybrid_36(number: int, text: str) -> None:
    assert (encode_hybrid36(number, 4), decode_hybrid36(text, 4)) == (text, number)


@pytest.mark.parametrize("number", [-1000, 2436112])
def test_beyond_hybrid_36(number: int) -> None:
    with pytest.raises(ValueError, match="does not fit 4 columns"):
        encode_hybrid36(number, 4)
    assert integer_field(np.array([number]), np.ones(1, np.bool_), 4, hybrid=True)[1][0]


@given(st.lists(st.floats(-1200, 12000) | st.floats() | st.integers(-9999995, 99999995).map(lambda n: n / 10000)))
def test_coordinates_are_written_as_printf_does(values: list[float]) -> None:
    field, wide, back = decimal_field(np.array(values, float), 8, 3)
    for value, characters, flag, again in zip(values, field, wide, back, strict=True):
        expected = f"{value:8.3f}"
        if math.isfinite(value):
            assert flag == (len(expected) > 8)
            if not flag:
                assert bytes(characters).decode() == expected
                assert (again, math.copysign(1, again)) == (float(expected), math.copysign(1, float(expected)))


def padded(count: int) -> np.ndarray:
    rows = np.full((count, WIDTH), 32, np.uint8)
    rows[:, -1] = 10
    return rows


@given(st.lists(st.text("0123456789.- +", min_size=8, max_size=8), min_size=1))
def test_numbers_in_columns_are_those_of_python(fields: list[str]) -> None:
    rows = padded(len(fields))
    for number, text in enumerate(fields):
        rows[number, 30:39] = np.frombuffer(f"{text}7".encode(), np.uint8)
    ((values, flaws),) = numbers(rows, "real", (30, 38))
    whole, is_whole = integers(rows, 30, 8)
    for number, text in enumerate(fields):
        assert (flaws[number] == 1) == (not text.strip())
        try:
            expected = float(text)
        except ValueError:
            assert flaws[number]
        else:
            assert flaws[number] == 0
            assert (values[number], math.copysign(1, values[number])) == (expected, math.copysign(1, expected))
        assert is_whole[number] == (re.fullmatch(r" *[-+]?[0-9]+ *", text) is not None)
        if is_whole[number]:
            assert whole[number] == int(text)


@given(st.floats(-999.9994, 9999.9994), st.floats(-99.994, 999.994))
def test_all_that_is_written_is_read(x: float, b: float) -> None:
    rows = padded(1)
    rows[0, 30:38] = np.frombuffer(f"{x:8.3f}".encode(), np.uint8)
    rows[0, 60:66] = np.frombuffer(f"{b:6.2f}".encode(), np.uint8)
    found = numbers(rows, "real", (30, 38), (60, 66))
    assert [(values[0], flaws[0]) for values, flaws in found] == [(float(f"{x:8.3f}"), 0), (float(f"{b:6.2f}"), 0)]


@given(st.tuples(*[st.integers(1000, 200000)] * 3), st.tuples(*[st.integers(6000, 12000)] * 3))
def test_cells_come_back_from_their_vectors(lengths: tuple[int, ...], angles: tuple[int, ...]) -> None:
    parameters = (*(n / 1000 for n in lengths), *(n / 100 for n in angles))
    try:
        vectors = cell_vectors(parameters)
    except ValueError:
        return
    assert [round(value, 6) for value in cell_parameters(vectors)] == [round(value, 6) for value in parameters]


def test_columns(tmp_path: Path) -> None:
    source = record(
        {
            "id": np.array([7, 99999], np.uint64), "name": texts("HG11", "CA"), "altloc": texts("B", ""),
            "res_name": texts("VAL", "CA"), "chain": texts("A", "B"), "res_id": np.array([12, 345], np.uint64),
            "icode": texts("", "C"), "segid": texts("PROT", "IONS"), "element": texts("H", "Ca"),
            "formal_charge": np.array([0, 2], np.int64), "hetatm": np.array([False, True]),
        },
        xyz=[[1.0, -22.5, 333.125], [-0.5, 9999.999, -999.999]],
        occupancy=np.array([1.0, 0.25]), b_factor=np.array([-1.5, 999.99]),
    )  # fmt: skip
    assert lines(source, tmp_path / "a.pdb")[:2] == [
        "ATOM      7 HG11BVAL A  12       1.000 -22.500 333.125  1.00 -1.50      PROT H0+",
        "HETATM99999 CA    CA B 345C     -0.5009999.999-999.999  0.25999.99      IONSCA2+",
    ]


@pytest.mark.parametrize(
    ("columns", "options", "match"),
    [
        ({"id": np.array([1, 100000], np.uint64)}, {}, r"atoms/id: 100000 in row 1 .* --hybrid-36, or --renumber"),
        ({"id": np.array([1, 2**63], np.uint64)}, {"hybrid_36": True}, "atoms/id: .* --renumber"),
        ({"res_id": np.array([1, 10000], np.uint64)}, {}, "atoms/res_id: 10000 in row 1 .* --hybrid-36"),
        ({"name": texts("C", "TOOLONG")}, {}, r"atoms/name: 'TOOLONG' in row 1 does not fit columns 13-16; mmCIF"),
        ({"chain": texts("A", "AB")}, {}, "atoms/chain: 'AB' in row 1 does not fit columns 22-22"),
        ({"res_name": texts("A", "ABCDE")}, {}, "atoms/res_name: 'ABCDE'"),
        ({"formal_charge": np.array([1, 10], np.int64)}, {}, "atoms/formal_charge: 10"),
    ],
)
def test_overflow_is_refused(tmp_path: Path, columns: dict[str, Any], options: dict[str, Any], match: str) -> None:
    with pytest.raises(UnsupportedError, match=match):
        write_record(record(columns), tmp_path / "a.pdb", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [10000.0, 9999.9996, -1000.0, -999.9996, 1e300, math.nan, math.inf])
def test_coordinates_that_do_not_fit_are_refused(tmp_path: Path, value: float) -> None:
    with pytest.raises(UnsupportedError, match="atoms/y"):
        write_record(record(xyz=[[0, 0, 0], [0, value, 0]]), tmp_path / "a.pdb")
    assert list(tmp_path.iterdir()) == []


def test_wide_numbers_on_request(tmp_path: Path) -> None:
    source = record({"id": np.array([99999, 100000], np.uint64), "res_id": np.array([10000, 2436111], np.uint64)})
    found = [line for line in lines(source, tmp_path / "a.pdb", hybrid_36=True) if line.startswith("HETATM")]
    assert [line[6:11] for line in found] == ["99999", "A0000"]
    assert [line[22:26] for line in found] == ["A000", "zzzz"]
    back = read(tmp_path / "a.pdb").system["atoms"]
    assert (back["id"].tolist(), back["res_id"].tolist()) == ([99999, 100000], [10000, 2436111])


def test_renumbering_is_a_reported_loss(tmp_path: Path) -> None:
    report = Report()
    source = record({"id": np.array([5, 2**40], np.uint64)})
    write_record(source, tmp_path / "a.pdb", renumber=True, report=report)
    assert read(tmp_path / "a.pdb").system["atoms"]["id"].tolist() == [1, 2]
    assert "atoms/id" in [item.name for item in report.of(Fate.DROPPED)]


def test_digits_that_are_lost_are_said_before_and_after(tmp_path: Path) -> None:
    store = tmp_path / "a.mrec"
    write_record(record(xyz=[[1.0004, 2, 3], [4, 5, 6]]), store)
    predicted, report = Report(), Report()
    convert(store, tmp_path / "a.pdb", dry_run=True, report=predicted)
    assert not (tmp_path / "a.pdb").exists()
    convert(store, tmp_path / "a.pdb", report=report)
    assert predicted.to_json() == report.to_json()
    assert [item.name for item in report.of(Fate.DROPPED)] == ["atoms/x"]
    with pytest.raises(LossError):
        convert(store, tmp_path / "b.pdb", strict=True)
    assert not (tmp_path / "b.pdb").exists()


def test_nothing_more_than_reported_is_lost(tmp_path: Path) -> None:
    """A record of another origin: what the report names, and nothing else, is missing when it comes back."""
    source = record(
        {"id": np.array([1, 2], np.uint64), "name": texts("CA", "O"), "element": texts("C", "O"),
         "mass": np.array([12.0, 16.0]), "res_id": np.array([3, 3], np.uint64), "res_name": texts("LIG", "LIG")},
        xyz=[[1, 2, 3], [4, 5, 6.0001]], box=Box(np.diag([10.0, 11.0, 12.0])), vx=np.zeros(2),
    )  # fmt: skip
    write_record(source, tmp_path / "a.mrec")
    report = Report()
    convert(tmp_path / "a.mrec", tmp_path / "a.pdb", report=report)
    dropped = {item.name for item in report.of(Fate.DROPPED)}
    assert dropped == {"atoms/mass", "atoms/vx", "atoms/z"}
    with read(tmp_path / "a.mrec") as one, read(tmp_path / "a.pdb") as other:
        found = list(differences(one, other))
    named = {str(line).split(":")[0].split(",")[0] for line in found}
    assert {"hetatm", "space group"} <= {item.name for item in report.of(Fate.DERIVED)}
    # what a PDB file says beside: which record a row has, the symmetry
    assert {name for name in named if name not in ("system/atoms/hetatm", "system")} == {
        "system/atoms/mass", "trajectory/atoms/vx", "trajectory/atoms/z",
    }, found  # fmt: skip


def test_a_cell_in_another_frame_is_turned(tmp_path: Path) -> None:
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    vectors = cell_vectors((10.0, 11.0, 12.0, 80.0, 95.0, 100.0))
    xyz = np.array([[0.1, 0.2, 0.3], [0.5, 0.25, 0.75]]) @ vectors.T
    report = Report()
    write_record(record(box=Box(turn @ vectors), xyz=xyz @ turn.T), tmp_path / "a.pdb", report=report)
    frame = read(tmp_path / "a.pdb").trajectory[0]
    assert np.allclose(frame.box.vectors, vectors, atol=1e-9)
    assert np.allclose(np.stack([frame["atoms"][axis] for axis in "xyz"], axis=1), xyz, atol=6e-4)
    assert "box" in [item.name for item in report.of(Fate.CONVERTED)]


def test_a_standard_cell_is_not_turned(tmp_path: Path) -> None:
    report = Report()
    box = Box(cell_vectors((10.0, 11.0, 12.0, 80.0, 95.0, 100.0)))
    write_record(record(box=box), tmp_path / "a.pdb", report=report)
    assert "box" not in [item.name for item in report.items]
    assert read(tmp_path / "a.pdb").trajectory[0].box == box


@pytest.mark.parametrize(
    ("box", "name"),
    [
        (Box(np.diag([1.0, -1.0, 1.0])), "box"), (Box(np.eye(3)), "box"), (Box(np.diag([10.00049, 10, 10])), "box"),
        (Box(np.diag([9.0, 9, 9]), np.array([1.0, 0, 0])), "box/origin"),
        (Box(np.diag([9.0, 9, 9]), np.zeros(3), np.array([True, True, False])), "box/boundary"),
    ],
)  # fmt: skip
def test_what_a_cell_cannot_say_is_reported(tmp_path: Path, box: Box, name: str) -> None:
    report = Report()
    write_record(record(box=box), tmp_path / "a.pdb", report=report)
    assert name in [item.name for item in report.of(Fate.DROPPED)]


def test_other_units_become_those_of_the_format(tmp_path: Path) -> None:
    report = Report()
    found = lines(record(units="nm"), tmp_path / "a.pdb", report=report)
    plain = lines(record(units="angstrom"), tmp_path / "b.pdb")
    places = [line[30:54].split() for line in found if line.startswith(("ATOM", "HETATM"))]
    own = [line[30:54].split() for line in plain if line.startswith(("ATOM", "HETATM"))]
    assert [[float(x) for x in row] for row in places] == [[10 * float(x) for x in row] for row in own]
    assert any(item.name == "units" for item in report.of(Fate.DERIVED))


def test_single_bonds_without_others_are_a_reported_loss(tmp_path: Path) -> None:
    bonds = Block(
        {"atomi": np.array([0], np.uint64), "atomj": np.array([1], np.uint64), "bond_type": np.array([1], np.uint64)}
    )
    report = Report()
    found = lines(record(bonds=bonds), tmp_path / "a.pdb", report=report)
    assert [line for line in found if line.startswith("CONECT")] == [
        f"{'CONECT    1    2':<80}", f"{'CONECT    2    1':<80}",
    ]  # fmt: skip
    assert "bonds/bond_type" in [item.name for item in report.of(Fate.DROPPED)]


def test_more_than_four_partners(tmp_path: Path) -> None:
    count = 7
    columns = {"id": np.arange(1, count + 1, dtype=np.uint64)}
    bonds = Block({"atomi": np.zeros(6, np.uint64), "atomj": np.arange(1, 7, dtype=np.uint64)})
    source = record(columns, xyz=np.zeros((count, 3)), bonds=bonds)
    found = [line.rstrip() for line in lines(source, tmp_path / "a.pdb") if line.startswith("CONECT    1")]
    assert found == ["CONECT    1    2    3    4    5", "CONECT    1    6    7"]
    assert read(tmp_path / "a.pdb").system["bonds"].count == 6


@pytest.mark.parametrize("suffix", [".pdb.gz", ".ent", ".pdb.bz2", ".cif", ".cif.xz"])
def test_names_and_compression(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_record(record(), path)
    assert read(path).trajectory[0]["atoms"]["x"].tolist() == [1.0, 4.0]


def test_mmcif_keeps_every_digit(tmp_path: Path) -> None:
    xyz = np.random.default_rng(0).normal(size=(2, 3)) * 1e5
    write_record(record(xyz=xyz), tmp_path / "a.cif")
    frame = read(tmp_path / "a.cif").trajectory[0]["atoms"]
    assert np.array_equal(np.stack([frame[axis] for axis in "xyz"], axis=1), xyz)
