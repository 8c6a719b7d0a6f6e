"""Dumps that are refused, by name and with what to do: LAMMPS writes each, alone and in a run."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from dump_texts import frame, write
from hypothesis import given, settings
from hypothesis import strategies as st
from lammps_runs import needs_lammps, run_script

import molrec_convert
from molrec_convert.errors import FormatError, MolrecError, UnsupportedError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Record
from molrec_lammps.detect import kind_of
from molrec_lammps.dump.record import read_dump
from molrec_lammps.dump.sidecar.items import dump_kind, how_to_read, index_items
from molrec_lammps.dump.source import TextSource
from molrec_lammps.dump.yaml import yaml_index
from molrec_lammps.options import DumpOptions, RunOptions
from molrec_lammps.run.run import read_run

SCRIPT = """
units lj
lattice fcc 0.8442
region box block 0 2 0 2 0 2
create_box 1 box
create_atoms 1 box
mass 1 1.0
pair_style lj/cut 1.5
pair_coeff * * 1.0 1.0
fix move all nve
dump A all atom 10 a.bin
dump C all custom 10 c.bin id type x y z
dump X all xyz 10 x.xyz
dump D all dcd 10 d.dcd
dump T all xtc 10 t.xtc
dump_modify D sort id
dump_modify T sort id
dump H all custom 10 h.dump id type x y z
dump_modify H header no
dump Y all cfg 10 y.*.cfg mass type xs ys zs
dump G all custom 10 g.dump id type x y z
run 10
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a dump of every kind."""
    folder = tmp_path_factory.mktemp("kinds")
    assert "error" not in run_script(folder, SCRIPT)
    return folder


def read(path: Path) -> Record:
    return read_dump([path], ReadContext(DumpOptions()))


@needs_lammps
class TestKinds:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("a.bin", "is a binary dump: LAMMPS' tool binary2txt makes a text dump of it"),
            ("c.bin", "is a binary dump: LAMMPS' tool binary2txt makes a text dump of it"),
            ("x.xyz", "is a dump of style xyz: .*format xyz|is a dump of style xyz: mrec convert --from xyz"),
            ("d.dcd", "is a dump of style dcd: .*mdanalysis"),
            ("h.dump", r"line 1: found '1 1 0 0 0', expected 'ITEM: TIMESTEP'.*header no"),
        ],
    )
    def test_a_file_alone(self, written: Path, name: str, message: str) -> None:
        with pytest.raises((UnsupportedError, FormatError), match=message) as caught:
            read(written / name)
        assert "\n" not in str(caught.value)

    def test_binary_dumps_are_detected(self, written: Path, tmp_path: Path) -> None:
        assert kind_of(written / "a.bin") == "dump"
        with pytest.raises(UnsupportedError, match="binary2txt"):
            molrec_convert.convert(written / "c.bin", tmp_path / "c.mrec")
        assert not (tmp_path / "c.mrec").exists()

    def test_in_a_run(self, written: Path) -> None:
        context = ReadContext(RunOptions())
        record = read_run([written], context)
        assert record.trajectory is not None
        assert record.trajectory.steps.tolist() == [0, 10]
        losses = {text.split(" ")[2]: text for text in context.report.losses() if text.startswith("dropped: dump ")}
        assert "binary2txt" in losses["A"]
        assert "binary2txt" in losses["C"]
        assert "xyz" in losses["X"].rpartition(";")[2]
        assert "mdanalysis" in losses["D"]
        assert "mdanalysis" in losses["T"]
        assert "header no" in losses["H"]
        assert "no format reads it" in losses["Y"]
        assert "G" not in losses
        with pytest.raises(UnsupportedError, match="binary2txt"):
            read_run([written / "in.lmp", written / "a.bin"], ReadContext(RunOptions()))


class TestTexts:
    def test_kinds(self, tmp_path: Path) -> None:
        assert dump_kind(write(tmp_path / "a", frame(0, ["1 1 0 0 0"]))) == "atoms"
        (tmp_path / "t").write_bytes(b"\x00\x00\x07\xcb" + bytes(40))
        with pytest.raises(UnsupportedError, match=r"style xtc: .*mdanalysis"):
            dump_kind(tmp_path / "t")
        (tmp_path / "n").write_bytes(b"CDF\x02" + bytes(40))
        with pytest.raises(UnsupportedError, match=r"style netcdf: .*mdanalysis"):
            dump_kind(tmp_path / "n")
        (tmp_path / "b").write_bytes((-8).to_bytes(8, "big", signed=True) + b"DUMPATOM" + bytes(90))
        with pytest.raises(UnsupportedError, match="binary dump"):
            dump_kind(tmp_path / "b")

    def test_formats_that_are_installed_are_named_with_the_command(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(
            __import__("molrec_lammps.dump.sidecar.items", fromlist=["x"]).OTHER_STYLES, "odd", "lammps-dump"
        )
        assert how_to_read("odd", [Path("a/b.odd")]) == "mrec convert --from lammps-dump a/b.odd b.mrec reads it"
        assert "which is not installed" in how_to_read("dcd", [Path("a")]) or "--from mdanalysis" in how_to_read(
            "dcd", [Path("a")]
        )

    @given(raw=st.binary(max_size=300))
    @settings(max_examples=150)
    def test_no_bytes_break_a_reader(self, raw: bytes) -> None:
        local = b"ITEM: TIMESTEP\n0\nITEM: NUMBER OF ENTRIES\n1\nITEM: BOX BOUNDS pp pp pp\n0 8\n0 9\n0 10\n"
        yaml = b"---\ncreator: LAMMPS\ntimestep: 0\nnatoms: 1\nboundary: [ p, p, p, p, p, p, ]\nbox:\n"
        for head in (b"", local, local + b"ITEM: ENTRIES a b\n1 2\n"):
            with contextlib.suppress(MolrecError):
                assert index_items(TextSource(Path("a"), head + raw)).frames
        for head in (b"", yaml, yaml + b"  - [ 0, 1 ]\n" * 3 + b"keywords: [ id, x,  ]\ndata:\n"):
            with contextlib.suppress(MolrecError):
                assert len(yaml_index(TextSource(Path("a"), head + raw)).table)
