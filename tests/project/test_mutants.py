"""Damaged inputs: each is read to its end, or refused in a sentence that names its file; what was wrong."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hand_built as hand
import numpy as np
import pytest
from hand_stores import snapshots

import molrec_convert
from molrec_convert.cli.output import sentence
from molrec_convert.errors import FormatError, MolrecError, PluginError
from molrec_convert.inspect.summary.record import summarize
from molrec_convert.inspect.validation import validate
from molrec_convert.model.frame import Box, Frame
from molrec_convert.model.record import Record

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "damage"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Any:
    for library in ("ase", "ase_db_backends", "MDAnalysis", "gemmi", "lmdb"):
        pytest.importorskip(library)
    import mutant_seeds
    import mutants

    return mutants.Bench(mutant_seeds.gather(tmp_path_factory.mktemp("seeds")), seed=1)


def _none_wrong(bench: Any, trials: range, folder: Path) -> None:
    import mutants

    mutants.SLOW = mutants.HANGS  # a slow machine is no fault
    results = mutants.run(bench, trials, folder)
    assert sum(counts.trials for counts in results.counts.values()) == len(trials)
    assert not list(results.faults())


def test_some_mutants_of_every_format(bench: Any, tmp_path: Path) -> None:
    _none_wrong(bench, range(len(bench.kinds) * 6), tmp_path)


@pytest.mark.slow
def test_mutants_of_every_format(bench: Any, tmp_path: Path) -> None:
    _none_wrong(bench, range(1_000, 2_500), tmp_path)


def test_a_mutant_is_always_the_same(bench: Any) -> None:
    import mutations

    for trial in range(len(bench.kinds)):
        seed, chance = bench.chosen(trial)
        again, other = bench.chosen(trial)
        assert seed is again
        if not any(name.endswith((".db", ".lmdb", ".aselmdb", ".gz", ".xz")) for name in seed.files):
            assert mutations.mutate(seed.files, bench.words, chance) == mutations.mutate(
                again.files, bench.words, other
            )


def test_what_is_wrong_is_seen(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that fails with an error of its own, one that ends the process, and a sentence without a file."""
    import os
    import signal

    import mutants

    def failing(*_: object) -> None:
        raise KeyError("x")

    def ending(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def nameless(*_: object) -> None:
        raise FormatError("", found="nothing")

    for reader, key in ((failing, "KeyError"), (ending, "signal 11"), (nameless, "no file named")):
        monkeypatch.setattr(mutants, "_walk", reader)
        results = mutants.run(bench, range(3), tmp_path)
        assert sum(len(told) for told in results.wrong.values()) == 3
        assert all(key in found for found in results.wrong)


def _run(fixtures: Path, folder: Path, name: str, file: str, change: Callable[[bytes], bytes]) -> Path:
    """A run of the fixtures with one of its files changed."""
    place = folder / name
    shutil.copytree(fixtures / name, place)
    altered = change((place / file).read_bytes())
    (place / file).write_bytes(altered)
    return place


@pytest.mark.parametrize("rate", ["r.8835e-05", "e6382.552", "2.130x10", "1e400", "9" * 5000])
def test_rates_of_a_log_that_are_no_numbers(rate: str, fixtures: Path, tmp_path: Path) -> None:
    for line in (f"Loop time of {rate} on 1 procs for 100 steps with 81 atoms", f"Performance: {rate} ns/day, 2 x/y"):
        place = _run(fixtures, tmp_path, "water-run", "log.lammps", lambda text, line=line: text + f"{line}\n".encode())
        with molrec_convert.read(place) as record:
            assert record.status is not None
        shutil.rmtree(place)


@pytest.mark.parametrize("step", [b"1e20", b"1e3", b"0.5", b"nan"])
def test_steps_of_a_table_that_are_none(step: bytes, fixtures: Path, tmp_path: Path) -> None:
    place = _run(
        fixtures, tmp_path, "water-run", "log.lammps", lambda text: text.replace(b"\n       100 ", b"\n " + step + b" ")
    )
    with molrec_convert.read(place) as record:
        assert record.metrics is not None
        assert len(record.metrics) > 3


def test_a_step_of_a_table_that_no_integer_holds(fixtures: Path, tmp_path: Path) -> None:
    place = _run(
        fixtures,
        tmp_path,
        "water-run",
        "log.lammps",
        lambda text: text.replace(b"\n       100 ", b"\n " + b"9" * 20 + b" "),
    )
    with pytest.raises(FormatError, match=r"log\.lammps, line \d+: found a number of 20 digits"):
        molrec_convert.read(place).close()


def test_coefficients_of_a_data_file_before_any_style(fixtures: Path, tmp_path: Path) -> None:
    name = "corpus/energies/intermol_pair_modify-mix-arithmetic"
    kept = ("units", "atom_style", "read_data")
    for more in (b"", b"pair_coeff 1 1 0.1 3.0\n", b"bond_coeff 1 100 1\n"):
        place = _run(
            fixtures, tmp_path, name, "in.lmp",
            lambda text, more=more: b"".join(
                line for line in text.splitlines(keepends=True) if line.decode().startswith(kept)
            ) + more,
        )  # fmt: skip
        try:
            with molrec_convert.read(place) as record:
                assert record.system is not None
        except FormatError as error:
            refused = str(error)
            assert more and "in.lmp" in refused  # noqa: PT018
        shutil.rmtree(tmp_path / "corpus")


@pytest.mark.parametrize(
    ("file", "change", "found"),
    [
        ("coordinates/test.txyz", lambda text: b"\xc3\n" + text, "codec"),
        ("gms/surf2wat.gms", lambda text: text[:5993] + b"\xff" + text[5993:], "codec"),
        ("Amber/ace_mbondi3.parm7", lambda text: text.replace(b"RESIDUE_POINTER", b"RESIDUE_POINTEX"), ""),
    ],
)
def test_what_mdanalysis_raises_late(file: str, change: Any, found: str, tmp_path: Path) -> None:
    datafiles = pytest.importorskip("MDAnalysisTests.datafiles")
    source = Path(datafiles.PSF).parent / file
    path = tmp_path / source.name
    path.write_bytes(change(source.read_bytes()))
    with pytest.raises(MolrecError) as raised, molrec_convert.read(path, format="mdanalysis") as record:
        list(record.trajectory.batches())
    assert not isinstance(raised.value, PluginError)
    assert found in str(raised.value)


def test_atoms_that_cannot_be() -> None:
    pytest.importorskip("ase")
    from molrec_ase.parts import table_masses
    from molrec_ase.values import free_atoms

    for number in (2**40, -1, 119):
        with pytest.raises(ValueError, match="atomic numbers"):
            table_masses(np.array([1, number]))
    for index in (np.inf, 0.5, 1e300):
        with pytest.raises(ValueError, match="a constraint names"):
            free_atoms([{"name": "FixAtoms", "kwargs": {"indices": [0, index]}}], 4)


def test_bytes_that_are_no_text_and_versions_that_are_none(fixtures: Path, tmp_path: Path) -> None:
    pytest.importorskip("gemmi")
    pytest.importorskip("ase")
    path = tmp_path / "a.cif"
    path.write_bytes(b"data_a\nloop_\n_atom_site.id\n_atom_site.x\x80\n1 2\n")
    with pytest.raises(MolrecError) as raised:
        molrec_convert.read(path, format="mmcif")
    assert not isinstance(raised.value, PluginError)
    path = tmp_path / "a.db"
    shutil.copy(fixtures / "cases/87-asedb-row/t.db", path)
    with sqlite3.connect(path) as database:
        database.execute("update information set value = NULL where name = 'version'")
    database.close()
    with pytest.raises(FormatError, match="version"):
        molrec_convert.read(path)


def test_the_lengths_of_a_huge_cell() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summary = summarize(Record(frame=Frame({}, box=Box(np.eye(3) * 1e200))))
    assert summary["frame"]["box"]["lengths"] == [1e200] * 3


def test_vectors_of_an_undefined_cell_that_cannot_be_read(tmp_path: Path) -> None:
    path = snapshots(tmp_path / "a.mrec")
    hand.edit_json(path / "frame" / "box", lambda document: document["attributes"].update(cell_defined=False))
    hand.array(path / "frame" / "box" / "boundary", [False, False, False])
    (path / "frame" / "box" / "vectors" / "zarr.json").write_text("{}")
    assert any(finding.node == "frame/box/vectors" and finding.severity == "error" for finding in validate(path))


def test_what_stands_in_a_file_is_shown_in_part() -> None:
    text = sentence(FormatError("a.xyz", "line 1", found="x" * 5000, expected="a number"))
    assert text == f"a.xyz, line 1: found {'x' * 979} … {'x' * 981}, expected a number"


@pytest.mark.parametrize(
    ("file", "place", "number", "found"),
    [
        ("test.xtc", 52, 6, "atoms"),
        ("test.xtc", 4, -1, "atoms"),
        ("test.xtc", 0, 1994, "magic number"),
        ("test.trr", 8, 14, "magic number"),
        ("test.trr", 32, 37, "parts of"),
        ("test.trr", 52, -60, "parts of"),
        ("test.trr", 64, 0, "atoms"),
        ("xtc_test_only_10_frame_10_atoms.xtc", 60, 2**31 - 1, "coordinates between"),
        ("xtc_test_only_10_frame_10_atoms.xtc", 84, 0, "width"),
        ("xtc_test_only_10_frame_10_atoms.xtc", 84, 2**31 - 1, "width"),
        ("xtc_test_only_10_frame_10_atoms.xtc", 88, -4, "bytes"),
        ("xtc_test_only_10_frame_10_atoms.xtc", 88, 2**20, "breaks off"),
    ],
)
def test_headers_at_which_a_c_library_ends_the_process(
    file: str, place: int, number: int, found: str, tmp_path: Path
) -> None:
    datafiles = pytest.importorskip("MDAnalysisTests.datafiles")
    source = next(Path(datafiles.PSF).parent.rglob(file))
    path = tmp_path / "a.{}".format(file.rpartition(".")[2])
    data = source.read_bytes()
    path.write_bytes(data[:place] + number.to_bytes(4, "big", signed=True) + data[place + 4 :])
    with pytest.raises(FormatError, match=found) as raised:
        molrec_convert.read(path, format="mdanalysis")
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("line", ["7" * 60_000, "1." * 3 + "3" * 60_000, " ".join(["12"] * 3) + " " * 60_000 + "x"])
def test_long_lines_are_looked_at_once(line: str, tmp_path: Path) -> None:
    """Within the time of a test: patterns that try every part of a long number take minutes."""
    path = tmp_path / "a"
    for text in (f"x\n\n3 atoms\n{line}\n", f"3\n{line}\nH 0 0 0\n", f"# {line}\n{line}\n", f"ATOM {line}\n"):
        path.write_text(text)
        with pytest.raises(MolrecError):
            molrec_convert.read(path)
