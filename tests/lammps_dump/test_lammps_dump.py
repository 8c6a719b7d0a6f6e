"""Dumps as records: the reference cases, files of others, coordinates and names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import corpus_index
import numpy as np
import pytest
from dump_texts import column, fates, frame, positions, read, value_of, write

from molrec_convert.errors import FormatError, UnsupportedError
from molrec_convert.model import Record

CELL = ("BOX BOUNDS xy xz yz pp pp pp", "-1.5 12 3\n0 9 -4.5\n0 7 2\n")


class TestCases:
    """The reference cases: each states a fault readers have, and what is right."""

    def case(self, fixtures: Path, number: str, name: str, **options: Any) -> tuple[Record, Any]:
        (folder,) = (fixtures / "cases").glob(f"{number}-*")
        return read(folder / name, **options)

    def test_01_rows_in_any_order(self, fixtures: Path) -> None:
        record, _ = self.case(fixtures, "01", "shuffled.lammpstrj")
        assert record.trajectory.steps.tolist() == [0, 50]
        assert record.system["atoms"]["id"].tolist() == [1, 2, 3, 4]
        for number, shift in ((0, 0.0), (1, 0.05)):
            expected = [[n + a / 10 + shift for a in range(3)] for n in (1, 2, 3, 4)]
            assert np.array_equal(positions(record, number), np.round(expected, 2))
            assert column(record, number, "type_id").tolist() == [2, 1, 1, 1]
        box = record.trajectory[1].box
        assert np.array_equal(box.vectors, np.diag([8.0, 9, 10]))
        assert box.boundary.all()

    def test_03_triclinic_bounds(self, fixtures: Path) -> None:
        record, _ = self.case(fixtures, "03", "tilted.lammpstrj")
        box = record.trajectory[0].box
        assert box.vectors.T.tolist() == [[6, 0, 0], [3, 7, 0], [-4.5, 2, 7]]
        assert box.origin.tolist() == [3, 0, 0]
        assert positions(record, 0).tolist() == [[0.5, 0.5, 0.5], [4, 5, 6]]

    def test_06_unwrapped_stays_unwrapped(self, fixtures: Path) -> None:
        record, _ = self.case(fixtures, "06", "unwrapped.lammpstrj")
        assert positions(record, 0).tolist() == [[9.5, 5, 5], [-0.5, 5, 5]]
        assert positions(record, 1).tolist() == [[12.75, 5, 5], [-13.25, 5, 25.5]]
        assert record.system.meta["coordinates"] == "unwrapped"
        record, _ = self.case(fixtures, "06", "scaled_unwrapped.lammpstrj")
        assert positions(record, 0).tolist() == [[12.75, 10, -10]]
        assert record.system.meta["coordinates"] == "unwrapped"

    def test_07_atoms_come_and_go(self, fixtures: Path) -> None:
        record, report = self.case(fixtures, "07", "grow.lammpstrj")
        states = list(record.trajectory)
        assert [state["atoms"]["id"].tolist() for state in states] == [[1], [1, 4, 7], [4, 7], []]
        assert states[1]["atoms"]["x"].tolist() == [1.5, 4, 7]
        assert states[1]["atoms"]["type_id"].tolist() == [1, 1, 2]
        assert "atoms" not in record.system
        assert fates(report, "their number changes (0 to 3)")

    def test_10_a_cut_tail(self, fixtures: Path) -> None:
        record, report = self.case(fixtures, "10", "truncated.lammpstrj")
        assert record.trajectory.steps.tolist() == [0, 10]
        assert any("line 35" in text and "step 20" in text for text in report.truncations)
        record, report = self.case(fixtures, "10", "cut_in_header.lammpstrj")
        assert record.trajectory.steps.tolist() == [0]
        assert any("line 17" in text for text in report.truncations)
        with pytest.raises(FormatError, match=r"line 22: found 'ITEM: TIMESTEP', expected row 2 .* step 10"):
            self.case(fixtures, "10", "short_middle.lammpstrj")

    def test_12_elements(self, fixtures: Path) -> None:
        record, _ = self.case(fixtures, "12", "element.lammpstrj")
        assert column(record, 0, "element").tolist() == ["Si", "O", "O"]
        assert column(record, 0, "type_id").tolist() == [1, 2, 2]
        assert column(record, 0, "type").tolist() == ["1", "2", "2"]

    def test_14_every_column(self, fixtures: Path) -> None:
        record, _ = self.case(fixtures, "14", "cols.lammpstrj")
        expected: dict[str, Any] = {
            "id": [1, 2], "charge": [0.4, -0.4], "mass": [1.008, 15.999], "mol_id": [5, 5], "vx": [0.1, 0.2],
            "fx": [1.0, 0.0], "fy": [0.0, 2.0], "c_pe": [-3.5, -1.25], "v_tag": [8.0, 7.0], "i_flag": [-2, 3],
            "d2_w[1]": [1.5, 0.5], "d2_w[2]": [1.25, 0.25],
        }  # fmt: skip
        for name, values in expected.items():
            assert column(record, 0, name).tolist() == values, name
        dtypes = {"id": "u8", "mol_id": "u8", "i_flag": "i8", "v_tag": "f8", "c_pe": "f8"}
        assert {name: column(record, 0, name).dtype.str[1:] for name in dtypes} == dtypes
        assert not record.trajectory.declaration.meta

    @pytest.mark.parametrize("name", ["traj.lammpstrj.gz", "traj.lammpstrj.zst", "two_members.lammpstrj.gz"])
    def test_17_compressed(self, fixtures: Path, name: str) -> None:
        record, report = self.case(fixtures, "17", name)
        assert record.trajectory.steps.tolist() == [0, 10]
        assert column(record, 1, "x").tolist() == [1.5, 2.5]
        assert not report.truncations

    def test_17_a_cut_stream(self, fixtures: Path) -> None:
        record, report = self.case(fixtures, "17", "cut_short.lammpstrj.gz", steps="index")
        assert len(record.trajectory) == 48
        assert column(record, 47, "x").tolist() == [1.5, 2.5]
        assert any("the gzip stream is cut short" in text for text in report.truncations)

    def test_18_boundaries(self, fixtures: Path) -> None:
        record, report = self.case(fixtures, "18", "flags.lammpstrj")
        boxes = [state.box for state in record.trajectory]
        assert [box.boundary.tolist() for box in boxes] == [[True, True, False], [True, False, False], [True] * 3]
        assert boxes[0].vectors.T.tolist() == [[10, 0, 0], [1, 9, 0], [0, 0, 6]]
        assert boxes[0].origin.tolist() == [0, 0, -3]
        assert [np.diag(box.vectors).tolist() for box in boxes[1:]] == [[10, 9, 7], [10, 9, 6]]
        assert fates(report, "without boundary letters")


class TestFilesOfOthers:
    """Files that LAMMPS and others wrote, and what independent readers and LAMMPS itself found in them."""

    #: Files that are no dumps of atoms, or damaged where they must not be.
    REFUSED: ClassVar = {
        "bad_atom-not-enough-lines.lammpstrj": "after 2 of the 3 rows",
        "bad_box-item-name.lammpstrj": "line 5: found 'ITEM: DUMMY', expected 'ITEM: BOX BOUNDS'",
        "bad_box-not-item.lammpstrj": "line 5: found 'DUMMY'",
        "bad_box-wrong-size.lammpstrj": "line 6: .* expected 3 numbers",
        "bad_timestep-no-item.lammpstrj": "line 1: found 'DUMMY'",
        "gen_chain_bonds.local.dump": "a frame of dump local",
        "mda_spce_no_coords.lammpstrj.bz2": "line 42: found 3 in '88 1 1', expected 2 values",
    }

    def test_values(self, corpus: Path) -> None:
        seen = 0
        for row in corpus_index.rows("lammps-dump"):
            path = corpus / row["path"]
            if path.name in self.REFUSED:
                continue
            record, _ = read(path)
            self._compare(record, row)
            seen += 1
        assert seen >= 15

    def _compare(self, record: Record, row: dict[str, str]) -> None:
        states = list(record.trajectory)
        assert len(states) == int(row["n_frames"]), row["path"]
        counts = [len(value_of(record, state, "x")) for state in states]
        assert [counts[0], counts[-1]] == [int(row["n_atoms_first"]), int(row["n_atoms_last"])], row["path"]
        if row["cell_vectors"]:
            expected = np.array(row["cell_vectors"].split(), dtype=float).reshape(3, 3).T
            assert np.allclose(states[0].box.vectors, expected, rtol=2e-5, atol=2e-5), row["path"]
        if row["box_origin"]:
            expected = np.array(row["box_origin"].split(), dtype=float)
            assert np.allclose(states[0].box.origin, expected, rtol=2e-5, atol=2e-5), row["path"]
        ids = value_of(record, states[0], "id") if "ATOMS x y z type" not in row["other"] else None
        names = row["other"].split("ATOMS ")[-1].split(" |")[0].split()
        for text, place in ((row["first_row"], "first_atom_xyz"), (row["last_row"], "last_atom_xyz")):
            if ids is None or not row[place] or not text or "id" not in names:
                continue
            if place == "last_atom_xyz" and counts[0] != counts[-1]:
                continue
            if not row["xyz_note"].startswith("lammpsio"):  # which sorts by id
                where = ids.tolist().index(int(text.split()[names.index("id")]))
            else:
                where = 0 if place == "first_atom_xyz" else -1
            found = [value_of(record, states[0], axis)[where] for axis in "xyz"]
            expected = np.array(row[place].split(), dtype=float)
            assert np.allclose(found, expected, rtol=2e-5, atol=2e-5), (row["path"], place, found, expected)

    @pytest.mark.parametrize("name", REFUSED)
    def test_refused(self, corpus: Path, name: str) -> None:
        with pytest.raises((FormatError, UnsupportedError), match=self.REFUSED[name]):
            for _ in read(corpus / "files/lammps-dump" / name)[0].trajectory.batches():
                pass

    @pytest.mark.parametrize(
        ("name", "wrapped"),
        [
            ("gen_chain_full.dump", True),
            ("gen_chain_atom_scaled_image.dump", True),
            ("gen_chain_sorted.dump.gz", False),
        ],
    )
    def test_what_lammps_says_of_the_same_run(self, corpus: Path, name: str, wrapped: bool) -> None:
        truth = json.loads((corpus / "files/truth/gen_chain.json").read_text())["frames"]
        record, _ = read(corpus / "files/lammps-dump" / name)
        assert len(record.trajectory) == len(truth)
        for state, expected in zip(record.trajectory, truth, strict=True):
            assert state.step == expected["step"]
            if name == "gen_chain_full.dump":
                assert state.time == expected["time"]
                assert np.allclose([state["atoms"][n][0] for n in ("vx", "vy", "vz")], expected["v_first"], rtol=1e-5)
                assert np.allclose([state["atoms"][n][0] for n in ("fx", "fy", "fz")], expected["f_first"], rtol=1e-5)
                assert [state["atoms"][n][0] for n in ("ix", "iy", "iz")] == expected["image_first"]
            assert np.allclose(state.box.vectors.T, expected["cell"], rtol=1e-15)
            assert np.allclose(state.box.origin, expected["box_lo"], rtol=1e-15)
            kind = "wrapped" if wrapped else "unwrapped"
            for place, row in (("first", 0), ("last", -1)):
                found = [state["atoms"][axis][row] for axis in "xyz"]
                assert np.allclose(found, expected[f"{kind}_{place}"], rtol=1e-5, atol=1e-5), (name, place)

    def test_scaled_and_unwrapped_twins(self, corpus: Path) -> None:
        folder = corpus / "files/lammps-dump"
        one, _ = read(folder / "gen_npt_xsu.dump")
        two, _ = read(folder / "gen_npt_xu.dump")
        for number in range(len(one.trajectory)):
            assert np.allclose(positions(one, number), positions(two, number), atol=2e-4)


class TestCoordinates:
    H = np.array([[6, 3, -4.5], [0, 7, 2], [0, 0, 7.0]])

    def test_scaled_ones_by_lammps_formula(self, tmp_path: Path) -> None:
        text = frame(0, ["1 0.25 0.5 0.75", "2 -0.1 1.3 0.3"], "id xs ys zs", box=CELL)
        record, report = read(write(tmp_path / "a.dump", text))
        s = np.array([[0.25, 0.5, 0.75], [-0.1, 1.3, 0.3]])
        h = self.H
        x = h[0, 0] * s[:, 0] + h[0, 1] * s[:, 1] + h[0, 2] * s[:, 2] + 3.0
        y = h[1, 1] * s[:, 1] + h[1, 2] * s[:, 2] + 0.0
        z = h[2, 2] * s[:, 2] + 0.0
        assert np.array_equal(positions(record, 0), np.stack([x, y, z], axis=1))
        assert fates(report, "xs ys zs (as Cartesian x y z")
        assert "coordinates" not in record.system.meta

    def test_of_a_general_cell(self, tmp_path: Path) -> None:
        box = ("BOX BOUNDS abc origin pp pp pp", "1 2 0 5\n0 1 1 6\n1 0 3 7\n")
        record, _ = read(write(tmp_path / "a.dump", frame(0, ["1 0.5 0.25 2"], "id xs ys zs", box=box)))
        state = record.trajectory[0]
        assert state.box.vectors.T.tolist() == [[1, 2, 0], [0, 1, 1], [1, 0, 3]]
        assert state.box.origin.tolist() == [5, 6, 7]
        assert positions(record, 0).tolist() == [[0.5 + 2 + 5, 1 + 0.25 + 6, 0.25 + 6 + 7]]

    def test_cells_that_change(self, tmp_path: Path) -> None:
        frames = [
            frame(n, ["1 0.5 0.5 0.5", "2 1 1 1"], "id xs ys zs", box=("BOX BOUNDS pp pp pp", f"0 {n + 1}\n1 9\n0 2\n"))
            for n in range(5)
        ]
        record, _ = read(write(tmp_path / "a.dump", *frames))
        for number in range(5):
            assert positions(record, number).tolist() == [[(number + 1) / 2, 5, 1], [number + 1, 9, 2]]

    @pytest.mark.parametrize(
        ("columns", "taken", "kept", "unwrapped"),
        [
            ("id x y z xu yu zu", 0, ["xu", "yu", "zu"], False),
            ("id xs ys zs xu yu zu", 3, ["xs", "ys", "zs"], True),
            ("id xsu ysu zsu xs ys zs", 3, ["xsu", "ysu", "zsu"], False),
            ("id x y xu yu zu", 2, ["%78", "%79"], True),
        ],
    )
    def test_the_best_set_counts(
        self, columns: str, taken: int, kept: list[str], unwrapped: bool, tmp_path: Path
    ) -> None:
        box = ("BOX BOUNDS pp pp pp", "0 1\n0 1\n0 1\n")
        values = [float(number) for number in range(1, len(columns.split()))]
        row = " ".join(["1", *map(str, values)])
        record, _ = read(write(tmp_path / "a.dump", frame(0, [row], columns, box=box)))
        assert positions(record, 0).tolist() == [values[taken : taken + 3]]
        for name in kept:
            assert column(record, 0, name).tolist() == [values[columns.split().index(_unescaped(name)) - 1]]
        assert ("coordinates" in record.system.meta) is unwrapped

    def test_one_flavour_for_all_frames_where_there_is_one(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "a.dump",
            frame(0, ["1 1 1 1 5 5 5"], "id x y z xu yu zu"),
            frame(1, ["1 6 6 6"], "id xu yu zu"),
        )
        record, _ = read(path)
        assert [positions(record, n).tolist() for n in (0, 1)] == [[[5, 5, 5]], [[6, 6, 6]]]
        assert record.system.meta["coordinates"] == "unwrapped"

    def test_image_flags_beside_unwrapped_coordinates_have_other_names(self, tmp_path: Path) -> None:
        record, report = read(write(tmp_path / "a.dump", frame(0, ["1 9 9 9 1 -1 0"], "id xu yu zu ix iy iz")))
        assert [column(record, 0, f"image_{axis}").tolist() for axis in "xyz"] == [[1], [-1], [0]]
        assert column(record, 0, "image_x").dtype == np.int32
        assert fates(report, "named image_x")
        record, _ = read(write(tmp_path / "b.dump", frame(0, ["1 1 1 1 1 -1 0"], "id x y z ix iy iz")))
        assert column(record, 0, "iy").tolist() == [-1]

    def test_none_at_all(self, tmp_path: Path) -> None:
        record, report = read(write(tmp_path / "a.dump", frame(0, ["1 2", "2 1"], "id type")))
        assert column(record, 0, "type_id").tolist() == [2, 1]
        assert fates(report, "no positions")
        record, _ = read(write(tmp_path / "b.dump", *(frame(n, ["1 2", "2 1"], "id type") for n in range(3))))
        assert column(record, 2, "type_id").tolist() == [2, 1]


def _unescaped(name: str) -> str:
    return {"%78": "x", "%79": "y"}.get(name, name)


class TestNames:
    @pytest.mark.parametrize(
        ("name", "own", "dtype"),
        [
            ("c_1[2]", "c_1[2]", "f8"),
            ("f_a/b", "f_a%2Fb", "f8"),
            ("__x", "%5F_x", "f8"),
            ("offset", "%6Fffset", "f8"),
            ("step_index", "%73tep_index", "f8"),
            ("free", "%66ree", "f8"),
            ("atom_map", "%61tom_map", "f8"),
            ("mol_id", "%6Dol_id", "f8"),
            ("a%41", "a%2541", "f8"),
            ("proc", "proc", "i8"),
            ("occupancy", "occupancy", "f8"),
            ("mux", "mux", "f8"),
            ("radius", "radius", "f8"),
            ("types", "types", "f8"),
        ],
    )
    def test_of_their_own(self, name: str, own: str, dtype: str, tmp_path: Path) -> None:
        for frames in (1, 3):
            path = write(
                tmp_path / "a.dump", *(frame(n, [f"1 2 0 0 {n} 5"], f"id type x y z {name}") for n in range(frames))
            )
            record, report = read(path)
            values = column(record, frames - 1, own)
            assert (values.tolist(), values.dtype.str[1:]) == ([5], dtype)
            assert fates(report, f"{name}")

    def test_that_collide(self, tmp_path: Path) -> None:
        record, _ = read(write(tmp_path / "a.dump", frame(0, ["1 0 0 0 0.5 7"], "id x y z q charge")))
        assert column(record, 0, "charge").tolist() == [0.5]
        assert column(record, 0, "%63harge").tolist() == [7]

    def test_a_negative_molecule_is_no_mol_id(self, tmp_path: Path) -> None:
        record, _ = read(write(tmp_path / "a.dump", frame(0, ["1 0 0 0 -1", "2 0 0 0 4"], "id x y z mol")))
        assert column(record, 0, "mol").tolist() == [-1, 4]

    def test_ids_are_exact(self, tmp_path: Path) -> None:
        ids = [2**32 + 3, 2**53 + 1, 2**63 - 1]
        frames = [frame(n, [f"{i} 1 {k} 0 {n}" for k, i in reversed(list(enumerate(ids)))]) for n in range(3)]
        record, _ = read(write(tmp_path / "a.dump", *frames))
        assert record.system["atoms"]["id"].tolist() == ids
        assert column(record, 2, "x").tolist() == [0, 1, 2]

    def test_type_labels(self, tmp_path: Path) -> None:
        text = frame(0, ["2 2 ow 0 0 0", "1 1 hw 1 1 1"], "id type typelabel x y z")
        record, _ = read(write(tmp_path / "a.dump", text))
        assert column(record, 0, "type").tolist() == ["hw", "ow"]
        assert column(record, 0, "type_id").tolist() == [1, 2]
        assert "element" not in record.system["atoms"]
