"""Dumps that are written: what is read back is the record that was written; LAMMPS and other readers agree."""

from __future__ import annotations

import gzip
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_texts import frame, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lammps_runs import lammps, needs_lammps
from test_lammps_dump_random import dumps

import molrec_convert
from molrec_convert import Record
from molrec_convert.errors import MolrecError, UnsupportedError, UsageError
from molrec_convert.inspect.diff.records import differences
from molrec_convert.model import Block, Box, Column, Frame, MemoryTrajectory
from molrec_convert.report import Report
from molrec_lammps.common.triclinic import restricted_cell, undo_bounds
from molrec_lammps.dump.write.frames import bounds_around

CELL = Box(np.diag([8.0, 9.0, 10.0]))


def strings(*texts: str) -> Any:
    return np.array(texts, dtype=np.dtypes.StringDType())


def state(step: int, rows: int = 3, box: Box | None = CELL, **columns: Any) -> Frame:
    values = {axis: np.arange(rows) + 0.25 * n + step for n, axis in enumerate("xyz")}
    return Frame({"atoms": Block({**values, **columns})}, box=box, step=step)


def record_of(*frames: Frame, **system: Any) -> Record:
    held = Frame({"atoms": Block(system)}) if system else None
    return Record(system=held, trajectory=MemoryTrajectory(frames))


def written(record: Record, path: Path, **options: Any) -> tuple[str, Report]:
    report = Report()
    molrec_convert.write(record, path, format="lammps-dump", overwrite=True, report=report, **options)
    return path.read_text(), report


def rewritten(path: Path, target: Path, **options: Any) -> list[str]:
    with molrec_convert.read(path, format="lammps-dump", **options) as record:
        first = None if record.trajectory is None else next(iter(record.trajectory), None)
        stated = {"dump_units": record.units is not None, "dump_time": first is not None and first.time is not None}
        molrec_convert.write(record, target, format="lammps-dump", overwrite=True, **stated)
        with molrec_convert.read(target, format="lammps-dump", **options) as again:
            return list(differences(record, again))


class TestRoundTrip:
    @pytest.mark.slow
    @settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
    @given(text=dumps())
    def test_random_dumps(self, text: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "a.dump"), Path(folder, "b.dump")
            source.write_text(text)
            assert rewritten(source, target) == []

    @pytest.mark.slow
    def test_the_reference_files(self, corpus: Path, tmp_path: Path) -> None:
        equal = 0
        for path in sorted(corpus.glob("files/lammps-dump/*")):
            options: dict[str, Any] = {}
            try:
                molrec_convert.read(path, format="lammps-dump").close()
            except MolrecError as error:
                if "steps" not in str(error):
                    continue
                options = {"steps": "index"}
            if "local" in path.name:  # no atoms
                continue
            found = rewritten(path, tmp_path / path.name, **options)
            if path.name == "cf_detect_best_pos_repr.lammpstrj":  # every frame states x as xu as well, or not
                found = [line for line in found if "u: is declared in the first only" not in line]
            assert found == [], path.name
            equal += 1
        assert equal >= 15

    def test_the_reference_cases(self, fixtures: Path, tmp_path: Path) -> None:
        for path in sorted(fixtures.glob("cases/*-dump-*/*.lammpstrj*")):
            try:
                molrec_convert.read(path).close()
            except MolrecError:
                continue
            assert rewritten(path, tmp_path / path.name) == [], path

    def test_through_a_store_and_in_batches(self, tmp_path: Path) -> None:
        """A store keeps a block where it changes only; every frame of the dump has it."""
        charges = [0.5, 0.5, 0.25, 0.25, 0.75]
        texts = [
            frame(10 * n, [f"{i} 1 {charge} {i + n} {n} 0.125" for i in (1, 2)], "id type q x y z", time=2 * n)
            for n, charge in enumerate(charges)
        ]
        write(tmp_path / "a.dump", *texts)
        molrec_convert.convert(tmp_path / "a.dump", tmp_path / "a.mrec")
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.dump", dump_time=True)
        text = (tmp_path / "b.dump").read_text()
        assert [line.split()[2] for line in text.splitlines() if line.startswith("2 ")] == [str(c) for c in charges]
        assert (
            list(differences(molrec_convert.read(tmp_path / "a.dump"), molrec_convert.read(tmp_path / "b.dump"))) == []
        )
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "c.dump", frames=slice(1, 5, 3), dump_time=True)
        assert (tmp_path / "c.dump").read_text() == "".join(texts[1::3])

    def test_compressed_by_its_name(self, tmp_path: Path) -> None:
        record = record_of(state(0), state(10), id=np.array([1, 2, 3], np.uint64))
        text, _ = written(record, tmp_path / "a.dump")
        for suffix in ("gz", "bz2", "xz", "zst"):
            path = tmp_path / f"a.dump.{suffix}"
            molrec_convert.write(record, path)
            assert list(differences(molrec_convert.read(path), molrec_convert.read(tmp_path / "a.dump"))) == []
        assert gzip.decompress((tmp_path / "a.dump.gz").read_bytes()).decode() == text

    def test_frames_without_a_column(self, tmp_path: Path) -> None:
        whole = frame(0, ["1 1 2 3 0.5", "2 1 2 3 0.5"], "id x y z c_pe")
        write(tmp_path / "a.dump", whole, frame(10, ["1 1 2 3", "2 1 2 3"], "id x y z"))
        assert rewritten(tmp_path / "a.dump", tmp_path / "b.dump") == []
        assert (tmp_path / "b.dump").read_text().count("c_pe") == 1


class TestBoxes:
    @given(
        low=st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
        length=st.lists(st.floats(1, 1e3), min_size=3, max_size=3),
        tilt=st.lists(st.floats(-40, 40), min_size=3, max_size=3),
    )
    def test_undoing_the_bounds_gives_the_cell_back(
        self, low: list[float], length: list[float], tilt: list[float]
    ) -> None:
        bottom, top = undo_bounds(np.array([low]), np.array([low]) + np.array([length]) + 100.0, np.array([tilt]))
        vectors, origin = restricted_cell(bottom, top, np.array([tilt]))
        again = undo_bounds(*bounds_around(vectors, origin), np.array([tilt]))
        back, corner = restricted_cell(*again, np.array([tilt]))
        assert (back == vectors).all()
        assert (corner == origin).all()

    def test_what_lammps_prints(self, tmp_path: Path) -> None:
        cell = Box(np.array([[4.0, 1.5, -0.5], [0.0, 4.0, 0.25], [0.0, 0.0, 4.0]]), np.array([0.5, 0.0, 0.0]))
        text, _ = written(record_of(state(0, box=cell)), tmp_path / "a.dump")
        assert "ITEM: BOX BOUNDS xy xz yz pp pp pp\n0 6 1.5\n0 4.25 -0.5\n0 4 0.25\n" in text
        fixed = Box(np.diag([4.0, 5.0, 6.0]), boundary=np.array([True, False, True]))
        text, _ = written(record_of(state(0, box=fixed)), tmp_path / "a.dump")
        assert "ITEM: BOX BOUNDS pp ff pp\n0 4\n0 5\n0 6\n" in text

    def test_cells_of_any_orientation(self, tmp_path: Path) -> None:
        cell = Box(np.array([[0.0, 5.0, 0.0], [5.0, 0.5, 1.0], [0.0, 0.0, -6.0]]), np.array([0.5, 0.25, -1.0]))
        vectors = {f"v{axis}": np.array([1.0, 2.0, 3.0]) for axis in "xyz"}
        record = record_of(state(0, box=cell, **vectors), state(10, box=cell, **vectors))
        text, _ = written(record, tmp_path / "a.dump")
        assert "ITEM: BOX BOUNDS abc origin pp pp pp\n0 5 0 0.5\n5 0.5 0 0.25\n0 1 -6 -1\n" in text
        text, report = written(record, tmp_path / "b.dump", rotate=True)
        assert "BOX BOUNDS xy xz yz" in text
        assert any("turned" in str(item) for item in report.items)
        first, second = (molrec_convert.read(tmp_path / name).trajectory for name in ("a.dump", "b.dump"))
        assert first is not None
        assert second is not None
        for one, other in zip(first, second, strict=True):
            assert one.box is not None
            assert other.box is not None
            places = [
                np.linalg.solve(f.box.vectors, np.stack([f["atoms"][a] for a in "xyz"]) - f.box.origin[:, None])
                for f in (one, other)
                if f.box is not None
            ]
            assert np.allclose(places[0], places[1], atol=1e-12)
            speeds = [np.linalg.norm(np.stack([f["atoms"][f"v{a}"] for a in "xyz"]), axis=0) for f in (one, other)]
            assert np.allclose(speeds[0], speeds[1], rtol=1e-14)
        text, _ = written(record, tmp_path / "c.dump", rotate=True, dump_columns=("id", "vx"))
        assert "ITEM: ATOMS id vx\n" in text

    def test_cells_that_change(self, tmp_path: Path) -> None:
        boxes = [Box(np.diag([8.0 + n, 9.0, 10.0])) for n in range(3)]
        frames = [state(n, box=box) for n, box in enumerate(boxes)]
        text, _ = written(record_of(*frames), tmp_path / "a.dump")
        assert [f"0 {8 + n}\n0 9\n0 10\n" in text for n in range(3)] == [True] * 3

    def test_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UnsupportedError, match="at step 7 has no volume or left-handed"):
            written(record_of(state(0), state(7, box=Box(np.diag([1.0, 1.0, -1.0])))), tmp_path / "a.dump")
        with pytest.raises(UnsupportedError, match=r"no cell.*--box"):
            written(record_of(state(0, box=None)), tmp_path / "a.dump")
        with pytest.raises(UnsupportedError, match=r"no cell.*--box"):
            written(record_of(state(0, box=Box.undefined())), tmp_path / "a.dump")
        assert list(tmp_path.iterdir()) == []
        text, _ = written(record_of(state(0, box=None), state(4, box=None)), tmp_path / "a.dump", box=("atoms", "1"))
        assert "ITEM: BOX BOUNDS ff ff ff\n-1 3\n-0.75 3.25\n-0.5 3.5\n" in text
        assert "ITEM: BOX BOUNDS ff ff ff\n3 7\n" in text


class TestColumns:
    def test_names(self, tmp_path: Path) -> None:
        rows = state(0, mol_id=np.array([1, 1, 2], np.uint64), **{"c_a%5B1%5D": np.zeros(3), "force": np.zeros((3, 2))})
        record = record_of(
            rows,
            id=np.array([1, 2, 3], np.uint64),
            type_id=np.array([1, 2, 1], np.uint64),
            type=strings("A", "B", "A"),
            charge=np.array([0.5, 0.25, 0.0]),
            element=strings("C", "H", "C"),
        )
        text, _ = written(record, tmp_path / "a.dump")
        assert "ITEM: ATOMS id mol type typelabel element q x y z c_a[1] force[1] force[2]\n" in text
        assert "2 1 2 B H 0.25 1 1.25 1.5 0 0 0\n" in text
        again = molrec_convert.read(tmp_path / "a.dump").system
        assert again is not None
        assert again["atoms"]["type"].tolist() == ["A", "B", "A"]

    def test_from_elsewhere(self, tmp_path: Path) -> None:
        record = record_of(state(0), state(10), element=strings("O", "H", "H"))
        text, report = written(record, tmp_path / "a.dump")
        assert "ITEM: ATOMS id type element x y z\n1 1 O 0 0.25 0.5\n2 2 H 1 1.25 1.5\n" in text
        derived = " ".join(str(item) for item in report.of(molrec_convert.report.Fate.DERIVED))
        assert "numbered by row" in derived
        assert "O is 1" in derived

    def test_chosen(self, tmp_path: Path) -> None:
        record = record_of(state(0), id=np.array([1, 2, 3], np.uint64), charge=np.zeros(3))
        text, _ = written(record, tmp_path / "a.dump", dump_columns=("x", "id", "q"))
        assert "ITEM: ATOMS x id q\n0 1 0\n1 2 0\n" in text
        for name in ("vx", "nonsense"):
            with pytest.raises(UsageError, match=f"no column '{name}'"):
                written(record, tmp_path / "a.dump", dump_columns=("id", name))
        with pytest.raises(UnsupportedError, match="no images to unwrap"):
            written(record, tmp_path / "a.dump", dump_columns=("id", "xu"))

    def test_a_single_state(self, tmp_path: Path) -> None:
        record = Record(system=Frame({"atoms": Block({"element": strings("C", "H", "H")})}), frame=state(0))
        text, _ = written(record, tmp_path / "a.dump")
        assert text.startswith("ITEM: TIMESTEP\n0\nITEM: NUMBER OF ATOMS\n3\n")
        with pytest.raises(UnsupportedError, match="no frames"):
            written(Record(status={"state": "running"}), tmp_path / "b.dump")

    def test_units_and_times(self, tmp_path: Path) -> None:
        record = record_of(state(0, vx=np.ones(3)), state(10, vx=np.ones(3)))
        assert record.trajectory is not None
        frames = [Frame(f.blocks, box=f.box, step=f.step, time=float(f.step or 0) / 4) for f in record.trajectory]
        record = Record(system=Frame(), trajectory=MemoryTrajectory(frames))
        assert record.system is not None
        record.system.meta.put("units", {"preset": "metal"}, "json")
        text, report = written(record, tmp_path / "a.dump")
        assert text.startswith("ITEM: TIMESTEP\n0\n")
        assert "UNITS" not in text
        assert "TIME\n" not in text
        lost = " ".join(report.losses())
        assert "units (metal: stated with --dump-units only)" in lost
        assert "trajectory/time" in lost
        text, report = written(record, tmp_path / "a.dump", dump_units=True, dump_time=True)
        assert report.losses() == []
        assert text.startswith("ITEM: UNITS\nmetal\nITEM: TIME\n0\nITEM: TIMESTEP\n0\n")
        assert text.count("UNITS") == 1
        assert "ITEM: TIME\n2.5\n" in text
        text, _ = written(record, tmp_path / "b.dump", target_units="nano", dump_units=True, dump_time=True)
        assert text.startswith("ITEM: UNITS\nnano\n")
        assert "ITEM: TIME\n0.0025\n" in text
        assert "BOX BOUNDS pp pp pp\n0 0.8\n0 0.9\n0 1\n" in text
        assert "\n2 0.1 0.125 0.15 100\n" in text.replace("0.15000000000000002", "0.15")

    def test_units_of_no_style(self, tmp_path: Path) -> None:
        """Numbers are not mixed: those that are written are all in the units of one style, or converted."""
        units = {"length": "angstrom", "time": "ps", "energy": "kJ/mol"}
        record = record_of(state(0, **{f"v{axis}": np.ones(3) for axis in "xyz"}), charge=np.zeros(3))
        assert record.system is not None
        record.system.meta.put("units", units, "json")
        text, report = written(record, tmp_path / "a.dump", dump_units=True)
        assert text.startswith("ITEM: UNITS\nmetal\n")
        assert "all that is written is as in units metal" in " ".join(map(str, report.items))
        forces = record_of(state(0, **{f"f{axis}": np.ones(3) for axis in "xyz"}), charge=np.zeros(3))
        assert forces.system is not None
        forces.system.meta.put("units", units | {"charge": "e"}, "json")
        with pytest.raises(UnsupportedError, match=r"kJ/mol, ps, e.*of no units style.*--target-units real"):
            written(forces, tmp_path / "a.dump")
        text, _ = written(forces, tmp_path / "b.dump", target_units="real", dump_units=True)
        assert text.startswith("ITEM: UNITS\nreal\n")
        assert np.isclose(float(text.split()[-1]), 1 / 4.184, rtol=1e-12)
        text, report = written(forces, tmp_path / "c.dump", target_units="none")
        assert "units of no style of LAMMPS" in " ".join(report.warnings)
        assert text.split()[-1] == "1"
        text, report = written(forces, tmp_path / "a.dump", dump_columns=("id", "x", "y", "z"))
        assert "as in units real and metal" in " ".join(map(str, report.items))

    def test_digits(self, tmp_path: Path) -> None:
        record = record_of(state(0, vx=np.full(3, 1 / 3)), charge=np.full(3, 2 / 3))
        text, _ = written(record, tmp_path / "a.dump", digits=6)
        assert "0.666667 0 0.25 0.5 0.333333\n" in text

    def test_nulls(self, tmp_path: Path) -> None:
        partly = np.array([True, False, True])
        text, report = written(record_of(state(0, c_pe=Column(np.ones(3), partly))), tmp_path / "a.dump")
        assert " nan\n" in text
        assert any("nan" in str(item) for item in report.items)
        text, report = written(record_of(state(0, kind=Column(np.full(3, 7), partly))), tmp_path / "a.dump")
        assert [line.split()[-1] for line in text.splitlines()[-3:]] == ["7", "nan", "7"]
        with pytest.raises(UnsupportedError, match="row 1 has no value"):
            written(record_of(state(0, i_a=Column(np.ones(3, np.int64), partly))), tmp_path / "a.dump")

    def test_what_a_dump_has_no_place_for(self, tmp_path: Path) -> None:
        frames = [state(0), state(10)]
        for number, one in enumerate(frames):
            one.meta.put("temp", 300.0 + number, "f64")
        ends = {"atomi": np.array([0], np.uint64), "atomj": np.array([1], np.uint64)}
        record = record_of(*frames, charge=np.zeros(3), comment=strings("a b", "", "c"))
        assert record.system is not None
        record.system.blocks["bonds"] = Block(ends)
        _, report = written(record, tmp_path / "a.dump")
        lost = " ".join(report.losses())
        for name in ("atoms/comment", "bonds", "trajectory/meta/temp"):
            assert name in lost


@needs_lammps
class TestLammps:
    def test_flavours_are_what_lammps_computes(self, tmp_path: Path) -> None:
        """LAMMPS reads the written dump, with tilted cells, and its own scaled columns are ours."""
        rng = np.random.default_rng(3)
        cell = Box(np.array([[6.0, 1.5, -0.5], [0.0, 7.0, 0.75], [0.0, 0.0, 8.0]]), np.array([-1.0, 0.5, 0.25]))
        points = rng.random((5, 3)) @ cell.vectors.T + cell.origin
        images = rng.integers(-2, 3, (5, 3)).astype(np.int32)
        columns = {axis: points[:, n].copy() for n, axis in enumerate("xyz")}
        columns |= {f"i{axis}": images[:, n].copy() for n, axis in enumerate("xyz")}
        names = ("id", "type", "x", "y", "z", "xs", "ys", "zs", "xu", "yu", "zu", "xsu", "ysu", "zsu", "ix", "iy", "iz")
        frames = [Frame({"atoms": Block(columns)}, box=cell, step=n) for n in (0, 5)]
        system = Frame(
            {
                "atoms": Block(
                    {
                        "id": np.arange(1, 6, dtype=np.uint64),
                        "type_id": np.array([1, 2, 1, 2, 1], np.uint64),
                        "mass": np.array([1.0, 2.0, 1.0, 2.0, 1.0]),
                    }
                )
            }
        )
        system.meta.put("units", {"preset": "real"}, "json")
        record = Record(system=system, trajectory=MemoryTrajectory(frames))
        written(record, tmp_path / "ours.dump", dump_columns=names)
        molrec_convert.write(record, tmp_path / "system.data")
        lammps(
            tmp_path,
            f"""
            lmp.commands_string('''
            units real
            atom_style atomic
            read_data system.data
            pair_style zero 2.0
            pair_coeff * *
            read_dump ours.dump 5 x y z ix iy iz box yes
            dump d all custom 1 theirs.dump {" ".join(names)}
            dump_modify d format float %.17g sort id
            run 0
            ''')
            """,
        )
        read = [molrec_convert.read(tmp_path / name) for name in ("ours.dump", "theirs.dump")]
        ours, theirs = (record.trajectory for record in read)
        assert ours is not None
        assert theirs is not None
        one, other = ours[1], theirs[0]
        held = [
            {name: b[name] for source in (record.system, state) if source for b in source.blocks.values() for name in b}
            for record, state in zip(read, (one, other), strict=True)
        ]
        for name in ("x", "y", "z", "xs", "ys", "zs", "xu", "yu", "zu", "xsu", "ysu", "zsu"):
            assert np.allclose(held[0][name], held[1][name], atol=1e-13), name
        assert one.box is not None
        assert other.box is not None
        assert np.allclose(one.box.vectors, other.box.vectors, rtol=1e-14)

    def test_wrapped_from_unwrapped(self, tmp_path: Path) -> None:
        write(tmp_path / "a.dump", frame(0, ["1 9.5 -0.25 3", "2 1 2 10"], "id xu yu zu"))
        record = molrec_convert.read(tmp_path / "a.dump")
        text, _ = written(record, tmp_path / "b.dump", dump_columns=("id", "x", "y", "z", "xs", "xsu"))
        rows = [list(map(float, line.split())) for line in text.splitlines()[-2:]]
        assert np.allclose(rows, [[1, 1.5, 8.75, 3, 0.1875, 1.1875], [2, 1, 2, 0, 0.125, 0.125]])
        assert math.isclose(rows[0][5] - rows[0][4], 1.0)
