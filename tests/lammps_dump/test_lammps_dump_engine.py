"""Dumps that LAMMPS writes, compared with what LAMMPS itself holds at the same steps."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_texts import column, positions, read
from lammps_runs import lammps, needs_lammps

import molrec_convert
from molrec_convert._kernel import library
from molrec_convert.text import rows as text_rows
from molrec_convert.text import twin
from molrec_lammps.dump import index as dump_index

#: A bead-spring system that moves fast: atoms cross the boundaries, and bins reorder them.
SYSTEM = """
units lj
atom_style charge
boundary p p {z}
lattice fcc 0.8442
region cell {region}
create_box 3 cell
create_atoms 1 region cell
set type 1 type/fraction 2 0.4 1234
set type 1 type/fraction 3 0.3 4321
mass 1 1.0
mass 2 2.5
mass 3 4.0
set type 2 charge 0.125
velocity all create 5.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff * * 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 5 delay 0 check no
"""
CUBE = "block 0 3 0 3.5 0 4"
PRISM = "prism 0 4 0 4 0 4 1.2 -0.7 0.9"

#: Runs `commands`, then `count` times `stride` steps, and says what atoms are like at each of these steps.
RUN = """
import numpy as np
lmp.commands_string({commands!r})
out["frames"] = []
for number in range({count} + 1):
    lmp.command("run {stride} post no" if number else "run 0 post no")
    n = lmp.extract_global("natoms")
    ids = np.array(lmp.numpy.extract_atom("id")[:n])
    order = np.argsort(ids)
    box = lmp.extract_box()
    frame = {{"step": lmp.extract_global("ntimestep"), "ids": ids[order].tolist(), "box": [box[0], box[1], *box[2:5]]}}
    for name in ("x", "v", "f", "type", "q", "image"):
        frame[name] = np.array(lmp.numpy.extract_atom(name)[:n])[order].tolist()
    out["frames"].append(frame)
"""
EXACT = "format float %.17g"


def run(folder: Path, commands: str, *, region: str = CUBE, z: str = "p", count: int = 4, stride: int = 20) -> Any:
    """Run a system with further commands (dumps, fixes) and return what LAMMPS held at each frame."""
    text = SYSTEM.format(region=region, z=z) + commands
    if "fix" not in commands:
        text += "\nfix move all nve"
    result = lammps(folder, RUN.format(commands=text, count=count, stride=stride))
    assert "error" not in result, result["error"]
    return result["frames"]


def images(frame: Any) -> np.ndarray:
    packed = np.array(frame["image"], dtype=np.int64)
    return np.stack([(packed & 1023) - 512, (packed >> 10 & 1023) - 512, (packed >> 20) - 512], axis=1)


def cell(frame: Any) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (columns) and origin."""
    low, high, xy, yz, xz = frame["box"]
    h = np.diag(np.array(high) - np.array(low))
    h[0, 1], h[0, 2], h[1, 2] = xy, xz, yz
    return h, np.array(low)


def unwrapped(frame: Any) -> np.ndarray:
    return np.array(frame["x"]) + images(frame) @ cell(frame)[0].T


@needs_lammps
class TestFlavours:
    @pytest.mark.parametrize("region", [CUBE, PRISM])
    def test_every_column_bit_for_bit(self, region: str, tmp_path: Path) -> None:
        commands = f"""
dump d all custom 20 all.dump type id vz vy vx q ix iy iz fx fy fz x y z mass proc
dump_modify d {EXACT} time yes units yes
"""
        frames = run(tmp_path, commands, region=region)
        record, report = read(tmp_path / "all.dump")
        trajectory = record.trajectory
        assert trajectory.steps.tolist() == [frame["step"] for frame in frames]
        assert trajectory.times.tolist() == [frame["step"] * 0.005 for frame in frames]
        assert record.system.meta["units"] == {"preset": "lj"}
        moved = 0
        for number, (state, frame) in enumerate(zip(trajectory, frames, strict=True)):
            assert record.system["atoms"]["id"].tolist() == frame["ids"]
            assert np.array_equal(positions(record, number), frame["x"])
            for names, key in (("vx vy vz", "v"), ("fx fy fz", "f")):
                found = np.stack([state["atoms"][name] for name in names.split()], axis=1)
                assert np.array_equal(found, frame[key]), key
            assert column(record, number, "type_id").tolist() == frame["type"]
            assert column(record, number, "charge").tolist() == frame["q"]
            assert np.array_equal(np.stack([state["atoms"][f"i{axis}"] for axis in "xyz"], axis=1), images(frame))
            h, origin = cell(frame)
            assert np.allclose(state.box.vectors, h, rtol=1e-15)
            assert np.allclose(state.box.origin, origin, atol=1e-15)
            moved += int(np.abs(images(frame)).sum())
        assert moved, "no atom crossed a boundary"
        assert column(record, 0, "proc").dtype == np.int64
        assert not report.lossy

    @pytest.mark.parametrize("region", [CUBE, PRISM])
    def test_coordinates_of_all_flavours(self, region: str, tmp_path: Path) -> None:
        flavours = {"x": "x y z", "xs": "xs ys zs", "xu": "xu yu zu", "xsu": "xsu ysu zsu"}
        commands = "".join(
            f"dump {name} all custom 20 {name}.dump id type {columns}\ndump_modify {name} {EXACT}\n"
            for name, columns in flavours.items()
        )
        commands += "fix shake all npt temp 3 3 0.1 iso 1 1 0.5\n"
        frames = run(tmp_path, commands, region=region)
        for name in flavours:
            record, _ = read(tmp_path / f"{name}.dump")
            for number, frame in enumerate(frames):
                expected = np.array(frame["x"]) if name in ("x", "xs") else unwrapped(frame)
                found = positions(record, number)
                if name == "x":
                    assert np.array_equal(found, expected)
                assert np.allclose(found, expected, rtol=1e-14, atol=1e-12), name
            assert ("coordinates" in record.system.meta) is (name in ("xu", "xsu"))
        boxes = [state.box.vectors for state in read(tmp_path / "x.dump")[0].trajectory]
        assert not np.array_equal(boxes[0], boxes[-1])

    def test_style_atom(self, tmp_path: Path) -> None:
        commands = f"""
dump s all atom 20 scaled.dump
dump i all atom 20 image.dump
dump c all atom 20 cartesian.dump
dump_modify s {EXACT.replace("float", "3*")}
dump_modify i image yes
dump_modify c scale no
""".replace(f"dump_modify s {EXACT.replace('float', '3*')}\n", "")
        frames = run(tmp_path, commands)
        for name in ("scaled", "image", "cartesian"):
            record, _ = read(tmp_path / f"{name}.dump")
            for number, frame in enumerate(frames):
                assert np.allclose(positions(record, number), frame["x"], atol=1e-4)
        state = read(tmp_path / "image.dump")[0].trajectory[4]
        assert np.array_equal(np.stack([state["atoms"][f"i{axis}"] for axis in "xyz"], axis=1), images(frames[4]))

    def test_a_general_cell(self, tmp_path: Path) -> None:
        commands = """
units lj
boundary p p p
lattice custom 1.0 a1 1.0 0.2 0.0 a2 0.0 1.1 0.3 a3 0.25 0.0 0.9 basis 0 0 0 basis 0.4 0.1 0.6 triclinic/general
create_box 1 NULL 0 3 0 3 0 3
create_atoms 1 box
mass 1 1.0
velocity all create 0.5 4928
pair_style zero 2.0
pair_coeff * *
fix move all nve
dump g all custom 10 general.dump id type x y z
dump_modify g triclinic/general yes format float %.17g
dump s all custom 10 scaled.dump id type xs ys zs
dump_modify s triclinic/general yes format float %.17g
run 20
"""
        result = lammps(tmp_path, f"lmp.commands_string({commands!r})")
        assert "error" not in result, result["error"]
        general, scaled = read(tmp_path / "general.dump")[0], read(tmp_path / "scaled.dump")[0]
        assert len(general.trajectory) == 3
        for number in range(3):
            box = general.trajectory[number].box
            cell = np.array([[1, 0.2, 0], [0, 1.1, 0.3], [0.25, 0, 0.9]])
            assert np.allclose(box.vectors.T, cell * box.vectors[0, 0], atol=1e-12)
            assert np.allclose(positions(scaled, number), positions(general, number), atol=1e-12)

    def test_boundaries_of_all_kinds(self, tmp_path: Path) -> None:
        commands = f"dump d all custom 20 d.dump id x y z\ndump_modify d {EXACT}\n"
        commands += "fix w all wall/reflect zlo EDGE zhi EDGE\nfix m all nve\n"
        run(tmp_path, commands, z="f")
        assert read(tmp_path / "d.dump")[0].trajectory[2].box.boundary.tolist() == [True, True, False]

    def test_atoms_come_and_go(self, tmp_path: Path) -> None:
        commands = f"""
dump hot all custom 20 hot.dump id type vx x y z
dump_modify hot thresh vx > 1.0 {EXACT}
"""
        frames = run(tmp_path, commands)
        record, _ = read(tmp_path / "hot.dump")
        counts = set()
        for state, frame in zip(record.trajectory, frames, strict=True):
            keep = np.array(frame["v"])[:, 0] > 1.0
            counts.add(int(keep.sum()))
            assert state["atoms"]["id"].tolist() == np.array(frame["ids"])[keep].tolist()
            assert np.array_equal(state["atoms"]["vx"], np.array(frame["v"])[keep, 0])
            assert np.array_equal(state["atoms"]["y"], np.array(frame["x"])[keep, 1])
            assert state["atoms"]["type_id"].tolist() == np.array(frame["type"])[keep].tolist()
        assert len(counts) > 1

    def test_types_that_change(self, tmp_path: Path) -> None:
        """What reactions and swaps make of atoms: types (and charges) by step, beside what never changes."""
        swap = "fix move all nve\nfix swap all atom/swap 40 20 29494 8.0 types 1 2\n"
        dump = "dump 1 all custom 20 d id type q mass x y z\ndump_modify 1 " + EXACT
        frames = run(tmp_path, swap + dump)
        record, _ = read(tmp_path / "d")
        assert record.trajectory is not None
        types = [frame["type"] for frame in frames]
        changes = sum(before != after for before, after in pairwise(types))
        assert 0 < changes < 4
        for number, frame in enumerate(frames):
            assert column(record, number, "type_id").tolist() == frame["type"]
            assert column(record, number, "type").tolist() == [str(n) for n in frame["type"]]
            assert column(record, number, "charge").tolist() == frame["q"]
        declared = record.trajectory.declaration.blocks
        assert "type_id" in declared.get("atom_types", declared["atoms"]).columns
        molrec_convert.convert(tmp_path / "d", tmp_path / "d.mrec", units="lj")
        with molrec_convert.open(tmp_path / "d.mrec") as stored:
            assert stored.trajectory is not None
            block = "atom_types" if "atom_types" in declared else "atoms"
            assert [state[block]["type_id"].tolist() for state in stored.trajectory] == types

    def test_a_group_keeps_its_ids(self, tmp_path: Path) -> None:
        commands = "group two type 2\ndump d two custom 20 two.dump id type xu yu zu\n"
        frames = run(tmp_path, commands)
        record, _ = read(tmp_path / "two.dump")
        keep = np.array(frames[0]["type"]) == 2
        assert record.system["atoms"]["id"].tolist() == np.array(frames[0]["ids"])[keep].tolist()
        assert np.allclose(positions(record, 4), unwrapped(frames[4])[keep], rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zst"])
    def test_compressed_by_lammps_itself(self, suffix: str, tmp_path: Path) -> None:
        style, name = ("custom/gz", "d.dump.gz") if suffix == "gz" else ("custom", f"d.dump.{suffix}")
        program = {"bz2": "bzip2", "xz": "xz", "zst": "zstd"}.get(suffix)
        if program is not None and __import__("shutil").which(program) is None:
            pytest.skip(f"{program} is not installed, and LAMMPS pipes through it")
        frames = run(tmp_path, f"dump d all {style} 20 {name} id x y z\ndump_modify d {EXACT}\n")
        record, _ = read(tmp_path / name)
        assert np.array_equal(positions(record, 3), frames[3]["x"])

    def test_one_file_for_each_frame(self, tmp_path: Path) -> None:
        commands = f"dump d all custom 20 d.*.lammpstrj id x y z\ndump_modify d {EXACT} pad 4\n"
        commands += f"dump e all custom 20 e.*.lammpstrj id x y z\ndump_modify e {EXACT}\n"
        frames = run(tmp_path, commands)
        for pattern in ("d.*.lammpstrj", "e.*.lammpstrj"):
            record, _ = read(sorted(tmp_path.glob(pattern)))
            assert record.trajectory.steps.tolist() == [frame["step"] for frame in frames]
            assert np.array_equal(positions(record, 3), frames[3]["x"])

    def test_columns_of_every_kind(self, tmp_path: Path) -> None:
        commands = """
compute pe all pe/atom
compute s all stress/atom NULL
fix prop all property/atom i_tag d_weight i2_two 2 d2_pair 2
set type 1 i_tag -7
set group all d_weight 0.1
variable big atom id*1e300*1e300
variable odd atom "x > 1.0"
fix move all nve
dump d all custom 20 d.dump id type element x y z c_pe c_s[1] c_s[6] i_tag d_weight i2_two[1] d2_pair[2] v_big v_odd mol
dump_modify d element C H O
""".replace(" mol\n", "\n")
        frames = run(tmp_path, commands)
        record, report = read(tmp_path / "d.dump")
        assert column(record, 4, "i_tag").dtype == np.int64
        assert set(column(record, 4, "i_tag").tolist()) == {-7, 0}
        assert column(record, 4, "i2_two[1]").dtype == np.int64
        assert column(record, 4, "d_weight").tolist() == [0.1] * len(frames[0]["ids"])
        assert np.isposinf(column(record, 4, "v_big")).all()
        assert set(column(record, 4, "element")) == {"C", "H", "O"}
        assert column(record, 4, "c_s[6]").dtype == np.float64
        assert not report.lossy

    def test_an_appended_restart(self, tmp_path: Path) -> None:
        write = "dump d all custom 10 d.dump id x y z\ndump_modify d append yes units yes time yes\n"
        run(tmp_path, write, count=3, stride=10)
        run(tmp_path, write, count=5, stride=10)
        record, report = read(tmp_path / "d.dump")
        assert record.trajectory.steps.tolist() == [0, 10, 20, 30, 40, 50]
        assert any("4 frames of steps 0 to 30 come again unchanged" in text for text in report.warnings)
        assert not report.lossy


@needs_lammps
def test_the_quick_ways_are_the_ones_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On what LAMMPS writes neither the exact index pass nor, with a kernel, its twin is needed."""
    commands = f"""
dump a all custom 5 a.dump id type x y z vx vy vz
dump b all custom 5 b.dump id type element xs ys zs ix iy iz
dump_modify b time yes units yes sort id element A B C
dump c all atom 5 c.dump
dump e all custom 5 e.dump id x y z
dump_modify e thresh x > 1.0 {EXACT}
fix shake all npt temp 3 3 0.1 iso 1 1 0.5
"""
    run(tmp_path, commands, count=20, stride=5)
    monkeypatch.setattr(dump_index, "exact_index", None)
    if library() is not None:
        monkeypatch.setattr(twin, "fill", None)
    for name in "abce":
        for leap in (0, 2**16):
            monkeypatch.setattr(dump_index, "_LEAP_BYTES", leap)
            assert len(list(read(tmp_path / f"{name}.dump")[0].trajectory)) == 21


@needs_lammps
def test_the_kernel_and_plain_python_read_a_run_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, f"dump a all custom 5 a.dump id type x y z vx vy vz fx\ndump_modify a {EXACT}\n", count=10, stride=5)
    quick = list(read(tmp_path / "a.dump")[0].trajectory)
    monkeypatch.setattr(text_rows, "library", lambda: None)
    plain = list(read(tmp_path / "a.dump")[0].trajectory)
    assert [state.blocks for state in quick] == [state.blocks for state in plain]
