"""`info`: what a person wants to see first, from metadata alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layout_examples.records import build_reaction, build_vibration, build_water

import molrec_convert
from molrec_convert.inspect.summary.record import summarize, summary_html, summary_text
from molrec_convert.inspect.summary.words import formula
from molrec_convert.model import (
    Block,
    Box,
    Declaration,
    Frame,
    FrameBatch,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
    Trajectory,
)


def test_text_of_a_snapshot() -> None:
    assert summary_text(build_water()).splitlines() == [
        "record  MolRec 1",
        "units   length: angstrom, mass: dalton",
        "frame   3 atoms, 2 bonds",
        "        elements  H2O",
        "        box       10 × 10 × 10, periodic in xyz",
        "        atoms: 3 rows; element string, mass b_factor f64, x y z f64 (precision 0.001)",
        "        bonds: 2 rows; atomi atomj bond_type u64",
        "        density: 2 × 2 × 2; rho f64",
        "        smiles: O",
        "        total_charge: 0",
    ]


def test_text_of_a_trajectory() -> None:
    assert summary_text(build_vibration()).splitlines() == [
        "record      MolRec 1",
        "units       not stated",
        "system      4 atoms, 3 bonds",
        "            elements  H2O2",
        "            types     H1 (2), O1 (2)",
        "            atoms: 4 rows; element type string",
        "            bonds: 3 rows; atomi atomj u64, type string",
        "            smiles: OO",
        "            total_charge: 0",
        "trajectory  4 frames, step 0 to 300 every 100, time 0.0 to 1.5 every 0.5",
        "            box       20 × 20 × 20, periodic in xyz, in the first frame",
        "            atoms: 4 rows; x y z f64",
        "per step    pe: -12.4 → -12.3577",
        "            temp: 300.0 → 300.0",
    ]


def test_uneven_steps_and_aligned_blocks() -> None:
    text = summary_text(build_reaction())
    assert "5 frames, step 0 to 30\n" in text
    assert "atom_types: 5 rows; type string; rows of atoms" in text
    assert "time" not in text


@pytest.mark.parametrize("build", [build_water, build_vibration, build_reaction])
def test_the_summary_is_strict_json(build: Any) -> None:
    summary = summarize(build())
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_json_of_a_trajectory() -> None:
    summary = summarize(build_vibration())
    assert summary["sections"] == ["meta", "system", "trajectory"]
    assert summary["system"]["elements"] == {"H": 2, "O": 2}
    trajectory = summary["trajectory"]
    assert trajectory["frames"] == 4
    assert trajectory["step"] == {"first": 0, "last": 300, "stride": 100}
    assert trajectory["time"] == {"first": 0.0, "last": 1.5, "stride": 0.5}
    assert trajectory["values"]["pe"] == {"dtype": "f64", "first": -12.4, "last": -12.3577}
    assert trajectory["box"]["lengths"] == [20.0, 20.0, 20.0]
    assert trajectory["box"]["angles"] == [90.0, 90.0, 90.0]


def test_numbers_json_has_no_form_for() -> None:
    declaration = Declaration(meta={"pe": MetaDeclaration("f64"), "id": MetaDeclaration("u64")})
    frames = [Frame(meta=Meta({"pe": np.nan, "id": 2**64 - 1}), time=np.nan) for _ in range(2)]
    record = Record(frame=Frame(meta=Meta({"q": np.inf})), trajectory=MemoryTrajectory(frames[:1], declaration))
    summary = summarize(record)
    json.dumps(summary, allow_nan=False)
    assert summary["frame"]["meta"] == {"q": "Infinity"}
    assert summary["trajectory"]["time"]["first"] == "NaN"
    assert summary["trajectory"]["values"]["id"]["first"] == str(2**64 - 1)
    assert "NaN" in summary_text(record)


def test_cells() -> None:
    def text(box: Box | None) -> str:
        return summary_text(Record(frame=Frame(box=box)))

    tilted = Box(np.array([[10.0, 5.0, 0.0], [0.0, 10.0, 0.0], [0.0, 0.0, 7.5]]), boundary=np.array([1, 0, 1], bool))
    assert "10 × 11.1803 × 7.5, angles 90 90 63.4349, periodic in xz" in text(tilted)
    assert "no cell" in text(Box.undefined())
    assert "10 × 10 × 0, angles NaN NaN 90" in text(Box(np.diag([10.0, 10.0, 0.0])))
    assert "box" not in text(None)


def test_formulas_in_hill_order() -> None:
    assert formula({"H": 6, "C": 2, "O": 1}) == "C2H6O"
    assert formula({"O": 1, "H": 2}) == "H2O"
    assert formula({"Na": 1, "Cl": 1}) == "ClNa"
    assert formula({"": 3, "C": 1}) == "C?3"


def test_elements_of_null_rows_do_not_count() -> None:
    from molrec_convert.model import Column

    column = Column(np.array(["C", "X"]), np.array([True, False]))
    bond = Block({"atomi": np.zeros(1, dtype=np.uint64), "atomj": np.ones(1, dtype=np.uint64)})
    record = Record(system=Frame({"atoms": Block({"element": column}), "bonds": bond}))
    assert summarize(record)["system"]["elements"] == {"C": 1}
    assert "elements  C, 1 atom of no stated element" in summary_text(record)
    assert "2 atoms, 1 bond\n" in summary_text(record)


def test_many_types_are_cut_short() -> None:
    types = Block({"type_id": np.arange(20, dtype=np.uint64)})
    text = summary_text(Record(system=Frame({"atoms": types})))
    assert "types     0 (1), 1 (1), 2 (1), 3 (1), 4 (1), 5 (1), 6 (1), 7 (1), …" in text


def test_documents_and_unknown_content() -> None:
    class Files(dict[str, bytes]):
        def read(self, key: str) -> bytes:
            return self[key]

    record = Record(
        meta={"molrec_version": 2, "creator": {"name": "x", "version": "3"}, "source": "s"},
        method={"type": "md", "description": "NVT", "engine": {"name": "LAMMPS", "version": "2Aug2023"}},
        status={"state": "succeeded"},
        unknown=Files({"plots/zarr.json": b"", "plots/a": b"", "z": b""}),
    )
    assert summary_text(record).splitlines() == [
        "record  MolRec 2, written by x 3",
        "units   not stated",
        "method  LAMMPS 2Aug2023, md, NVT",
        "status  succeeded",
        "meta    source: s",
        "also    plots, z (kept as it is)",
    ]


def test_html_is_escaped() -> None:
    record = build_water()
    record.meta["source"] = "<script>"
    text = summary_html(record)
    assert text.startswith("<table")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert record._repr_html_() == text


class Untold(Trajectory):
    """A streamed source: only its first frame may be asked for, and no column."""

    def __init__(self) -> None:
        super().__init__()
        vibration = build_vibration().trajectory
        assert isinstance(vibration, MemoryTrajectory)
        self.source = vibration
        self.declaration = vibration.declaration

    @property
    def n_frames(self) -> int | None:
        return None

    def batches(
        self, start: Any = 0, stop: Any = None, step: Any = 1, columns: Any = None, batch_bytes: Any = 0
    ) -> Iterator[FrameBatch]:
        assert (start, stop, step, columns) == (0, 1, 1, ())
        return self.source.batches(start, stop, step, columns)


def test_a_stream_is_not_read() -> None:
    text = summary_text(Record(trajectory=Untold()))
    assert "trajectory  frames not counted before they are read, step from 0, time from 0.0" in text
    assert "pe: -12.4\n" in text


def test_rows_that_come_and_go(tmp_path: Path) -> None:
    frames = [Frame({"atoms": Block({"x": np.ones(n)})}, step=step) for step, n in enumerate((5, 2, 3))]
    molrec_convert.write(Record(trajectory=MemoryTrajectory(frames)), tmp_path / "a.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        summary = summarize(record)
        assert "atoms: 5 rows in the first frame, 3 in the last; x f64" in summary_text(record)
    assert summary["trajectory"]["blocks"]["atoms"]["rows"] == 3
    assert summary["trajectory"]["blocks"]["atoms"]["first_rows"] == 5


def test_an_empty_trajectory() -> None:
    record = Record(trajectory=MemoryTrajectory([], Declaration(meta={"pe": MetaDeclaration("f64")})))
    assert "0 frames\n" in summary_text(record)
    assert "pe (f64)" in summary_text(record)
