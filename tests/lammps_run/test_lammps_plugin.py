"""The LAMMPS plugin: its descriptors, what it loads, and what it takes a file for."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path

import corpus_index
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molrec_lammps import detect as sniffing
from molrec_lammps.common.commands import COEFFICIENTS, COMMANDS, FLOW, OPAQUE, TELLING, UNDERSTOOD
from molrec_lammps.detect import kind_of, read_head, run_score
from molrec_lammps.plugin import AVE_TIME, DATA, DUMP, RUN, molrec_formats

SCORES = {kind: getattr(sniffing, f"{kind}_score") for kind in ("dump", "data", "log", "script")}

DUMP_TEXT = b"""ITEM: TIMESTEP
0
ITEM: NUMBER OF ATOMS
1
ITEM: BOX BOUNDS pp pp pp
0 1
0 1
0 1
ITEM: ATOMS id x
1 0.5
"""
DATA_TEXT = b"""whatever, 3 atoms

1 atoms
1 atom types
0 1 xlo xhi

Masses

1 12.0
"""
SCRIPT_TEXT = b"""# a run
units real
atom_style full
read_data x.data # here
pair_coeff 1 1 &
   0.1 3.4
variable x string \"\"\"
not a command
\"\"\"
${go} on
run 10
"""
LOG_TEXT = b"""LAMMPS (22 Jul 2025 - Update 4)
units lj
run 10
"""


def scores(text: bytes) -> dict[str, float]:
    return {kind: score for kind, function in SCORES.items() if (score := function(text, Path("x")))}


class TestDescriptors:
    def test_formats(self) -> None:
        assert {entry.name for entry in molrec_formats()} >= {
            "lammps-data",
            "lammps-dump",
            "lammps-run",
            "lammps-ave-time",
        }
        for entry in molrec_formats():
            assert callable(entry.reader() if entry.reads is not None else entry.writer())
        assert set(RUN.combines) == {DATA.name, DUMP.name, AVE_TIME.name}
        assert DUMP.many_inputs
        assert RUN.many_inputs
        assert not DATA.many_inputs

    def test_importing_the_plugin_loads_no_reader(self) -> None:
        code = "import sys, molrec_lammps.plugin; print(*sorted(m for m in sys.modules if '.' not in m))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert not {"numpy", "pyarrow", "zarr", "zstandard"} & set(done.stdout.split())

    def test_tables_of_commands(self) -> None:
        for table in (FLOW, OPAQUE, COEFFICIENTS, UNDERSTOOD, TELLING):
            assert table <= COMMANDS
        assert not FLOW & TELLING
        assert not UNDERSTOOD & COEFFICIENTS
        assert not {"print", "echo", "if", "shell", "run", "log", "label", "include"} & TELLING


class TestSniffing:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (DUMP_TEXT, {"dump": 1.0}),
            (DUMP_TEXT[17:], {"dump": 0.6}),
            (b"1 2 3\n" + DUMP_TEXT, {"dump": 0.5}),
            (b"ITEM: UNITS\nreal\n" + DUMP_TEXT, {"dump": 1.0}),
            (b"ITEM: TIME\n0\n" + DUMP_TEXT, {"dump": 1.0}),
            (DATA_TEXT, {"data": 1.0}),
            (DATA_TEXT.split(b"Masses")[0], {"data": 0.8}),
            (DATA_TEXT.replace(b"Masses", b"Tinker Types"), {"data": 0.8}),
            (DATA_TEXT.replace(b"\n", b"\r\n"), {"data": 1.0}),
            (SCRIPT_TEXT, {"script": 0.9}),
            (LOG_TEXT, {"log": 1.0}),
            (b"mpirun says\n" + LOG_TEXT, {"log": 0.95}),
            (b"run 5\nPer MPI rank memory allocation (min/avg/max) = 1\nStep\n", {"log": 0.9}),
            (b"Memory usage per processor = 1 Mbytes\nStep\n", {"log": 0.9}),
        ],
    )
    def test_what_a_file_is(self, text: bytes, expected: dict[str, float]) -> None:
        assert scores(text) == expected

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"\n\n",
            b"3\n2 atoms\nO 0 0 0\nH 1 0 0\nH 0 1 0\n",
            b"3\nLAMMPS (22 Jul 2025) was here\nO 0 0 0\nH 1 0 0\nH 0 1 0\n",
            b'2\nLattice="1 0 0 0 1 0 0 0 1" Properties=species:S:1:pos:R:3 run=5\nC 0 0 0\nC 0 0 1\n',
            b"HEADER    HYDROLASE\nATOM      1  N   MET A   1      27.340  24.430   2.614  1.00  9.67\nEND\n",
            b"atoms,types\n2 atoms,1 atom types\n",
            b"step,temp,press\n0,300,1\n10,301,2\n",
            b'{"units": "real", "run": 10}\n',
            b"[1, 2, 3]\n",
            b"#!/bin/sh\necho hello\nif true\nshell run\nprint 5\nlog x\nrun 5\n",
            b"echo hello\nprint x\ninclude y\nrun 5\nif 1\n",
            b"run this program first, then\nthermo output is shown below\n",
            b"data_1ABC\nloop_\n_atom_site.id\n1\n",
            b"\x89HDF\r\n\x1a\n" + bytes(200),
            b"units real\0\0",
            b"Step Temp\n0 300\n",
            b"2 atoms\n1 atom types\n0 1 xlo xhi\nA sentence, not a section.\n",
            b"comment\n2 atoms\nAtoms\n\n1 1 0 0 0\n",
        ],
    )
    def test_other_texts_score_nothing(self, text: bytes) -> None:
        assert scores(text) == {}

    @given(st.binary(max_size=200))
    def test_any_bytes(self, text: bytes) -> None:
        for function in SCORES.values():
            assert 0.0 <= function(text, Path("x")) <= 1.0

    def test_long_files_are_judged_by_their_whole_lines(self) -> None:
        script = (SCRIPT_TEXT + b"pair_coeff 1 1 0.1 3.4\n" * 4000)[: sniffing.HEAD_BYTES]
        assert scores(script) == {"script": 0.9}

    @pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
    def test_compressed(self, tmp_path: Path, compress: object) -> None:
        path = tmp_path / "x"
        packed = compress(DUMP_TEXT)  # type: ignore[operator]
        path.write_bytes(packed)
        assert kind_of(path) == "dump"
        path.write_bytes(packed[:-12] if compress is gzip.compress else packed)
        assert kind_of(path) == "dump"
        path.write_bytes(packed[:6] + b"damaged")
        assert kind_of(path) is None

    def test_zstd(self, tmp_path: Path) -> None:
        import zstandard

        path = tmp_path / "x"
        path.write_bytes(zstandard.compress(DATA_TEXT))
        assert read_head(path) == DATA_TEXT
        path.write_bytes(zstandard.compress(DATA_TEXT)[:9])
        assert kind_of(path) is None

    def test_what_cannot_be_read(self, tmp_path: Path) -> None:
        assert kind_of(tmp_path / "missing") is None
        assert kind_of(tmp_path) is None


class TestDirectories:
    def test_a_run(self, tmp_path: Path) -> None:
        assert run_score(b"", tmp_path) == 0.0
        (tmp_path / "notes.txt").write_text("run well\n")
        assert run_score(b"", tmp_path) == 0.0
        (tmp_path / "x.txt").write_bytes(DUMP_TEXT)
        assert run_score(b"", tmp_path) == 0.7
        (tmp_path / "job").write_bytes(SCRIPT_TEXT)
        assert run_score(b"", tmp_path) == 0.9

    def test_a_store_is_no_run(self, tmp_path: Path) -> None:
        (tmp_path / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group"}))
        (tmp_path / "in.lmp").write_bytes(SCRIPT_TEXT)
        assert run_score(b"", tmp_path) == 0.0

    def test_scripts_and_logs_are_runs(self, tmp_path: Path) -> None:
        assert run_score(SCRIPT_TEXT, tmp_path / "in") == 0.9
        assert run_score(LOG_TEXT, tmp_path / "in") == 1.0
        assert run_score(DATA_TEXT, tmp_path / "in") == 0.0
        assert run_score(DUMP_TEXT, tmp_path / "in") == 0.0


class TestCorpus:
    def test_every_file_is_what_the_index_says(self, corpus: Path) -> None:
        rows = corpus_index.rows()
        assert len(rows) > 100
        seen = {"data": 0, "dump": 0}
        for row in rows:
            path = corpus / row["path"]
            expected = {"lammps-data": "data", "lammps-dump": "dump"}.get(row["format"])
            if path.is_file() and path.suffix != ".json" and path.parent.name != "template_mols":
                assert kind_of(path) == expected, path
                if expected is not None:
                    seen[expected] += 1
        assert seen["data"] >= 30
        assert seen["dump"] >= 20

    def test_scripts(self, corpus: Path) -> None:
        for path in (corpus / "energies").glob("*/*"):
            if path.name == "in.lmp":
                assert kind_of(path) == "script"
            elif "data" in path.name:
                assert kind_of(path) == "data", path
            else:
                assert kind_of(path) != "script"

    def test_cases(self, fixtures: Path) -> None:
        for path in (fixtures / "cases").glob("*/*"):
            if path.is_file() and path.name != "CASE.md":
                expected = {"dump": "dump", "data": "data"}.get(path.parent.name.split("-")[1])
                assert kind_of(path) == expected, path
