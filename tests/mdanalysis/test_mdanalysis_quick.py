"""What is read of MDAnalysis' files past its readers: every number as they give it, and they where it is not plain."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MDAnalysis = pytest.importorskip("MDAnalysis")
data = pytest.importorskip("MDAnalysisTests.datafiles")

from MDAnalysis.coordinates.DCD import DCDReader  # noqa: E402
from MDAnalysis.coordinates.TRR import TRRReader  # noqa: E402
from MDAnalysis.coordinates.XTC import XTCReader  # noqa: E402
from MDAnalysis.guesser.default_guesser import DefaultGuesser  # noqa: E402
from MDAnalysis.guesser.tables import atomelements, masses  # noqa: E402

import molrec_convert  # noqa: E402
from molrec_convert.errors import FormatError  # noqa: E402
from molrec_convert.report import Report  # noqa: E402
from molrec_mdanalysis.cells import vectors_of  # noqa: E402
from molrec_mdanalysis.dcd import PlainDcd  # noqa: E402
from molrec_mdanalysis.guessing import guesser_for  # noqa: E402
from molrec_mdanalysis.unlocked import unlock  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_FOLDER = Path(os.fspath(data.DCD)).parent
_DCD = sorted(path for path in _FOLDER.rglob("*.dcd") if path.stat().st_size)
#: Of these MDAnalysis counts the frames, and takes the time step for one in AKMA units.
_BY_LAMMPS = ("ifabp_apo_100mM.dcd",)
_XDR = sorted(path for suffix in ("xtc", "trr") for path in _FOLDER.rglob(f"*.{suffix}"))


def _names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def _check_frames(path: Path, start: int = 0, stop: int | None = None, step: int = 1) -> int:
    """Hold the batches of a file against MDAnalysis' frames, bit for bit; returns how many there are."""
    with molrec_convert.read(path, format="mdanalysis") as record:
        universe = MDAnalysis.Universe(os.fspath(path))
        chosen = range(*slice(start, stop, step).indices(len(universe.trajectory)))
        position = 0
        cell = None
        for batch in record.trajectory.batches(start, stop, step, batch_bytes=200_000):
            columns = batch.blocks["atoms"].columns
            for at in range(batch.n_frames):
                ts = universe.trajectory[chosen[position]]
                rows = slice(at * ts.n_atoms, (at + 1) * ts.n_atoms)
                for axis, name in enumerate("xyz"):
                    own = np.ascontiguousarray(ts.positions[:, axis], np.float64)
                    assert columns[name][rows].tobytes() == own.tobytes(), (position, name)
                if path.name in _BY_LAMMPS:
                    assert batch.step[at] == 250 * chosen[position]
                    assert batch.time is None
                else:
                    assert batch.step[at] == ts.data["step"]
                    assert batch.time is not None
                    assert batch.time[at] == ts.time
                found = [] if batch.box is None else np.flatnonzero(batch.box.frames == at).tolist()
                cell = batch.box.vectors[found[0]] if found else cell
                if ts.dimensions is None:
                    assert cell is None
                else:
                    assert np.array_equal(cell, vectors_of(ts.dimensions)[0][0])
                position += 1
        assert position == len(chosen)
        return position


@pytest.mark.parametrize("path", _DCD, ids=_names(_DCD))
def test_frames_of_dcd_files_are_mdanalysis_own(path: Path) -> None:
    count = _check_frames(path)
    _check_frames(path, 1, count - 1, 3)


def test_most_dcd_files_are_plain() -> None:
    plain = []
    for path in _DCD:
        reader = DCDReader(os.fspath(path))
        made = PlainDcd.of(reader)
        if made is not None:
            made.close()
            plain.append(path.name)
        else:
            assert reader.n_frames < 4, path.name
    assert {"adk_dims.dcd", "ifabp_apo_100mM.dcd", "tip125_tric_C36.dcd", "test.dcd"} <= set(plain)


def _swapped(raw: bytes, atoms: int, cell: bool) -> bytes:
    """The same DCD file in the other byte order."""
    words = np.frombuffer(raw, "<u4").byteswap().copy()
    words[1] = words[1].byteswap()
    titles = int.from_bytes(raw[92:96], "little")
    texts = slice(25, 25 + (titles - 4) // 4)
    words[texts] = words[texts].byteswap()
    start = (92 + 8 + titles + 12) // 4
    frames = words[start:].reshape(-1, (14 if cell else 0) + 3 * (atoms + 2))
    if cell:
        frames[:, 1:13] = frames[:, 1:13].reshape(-1, 6, 2)[:, :, ::-1].reshape(-1, 12)
    return words.tobytes()


def _with_fixed(raw: bytes, atoms: int) -> bytes:
    """The same DCD file with its last atom fixed: later frames are without it."""
    head = bytearray(raw[: 100 + int.from_bytes(raw[92:96], "little") + 12])
    head[40:44] = (1).to_bytes(4, "little")
    size = (4 * (atoms - 1)).to_bytes(4, "little")
    free = np.arange(1, atoms, dtype="<u4").tobytes()
    frames = np.frombuffer(raw[len(head) :], "<u4").reshape(-1, 14 + 3 * (atoms + 2))
    parts = [bytes(head), size, free, size, frames[0].tobytes()]
    for frame in frames[1:]:
        parts.append(frame[:14].tobytes())
        for axis in range(3):
            values = frame[15 + axis * (atoms + 2) :][: atoms - 1]
            parts += [size, values.tobytes(), size]
    return b"".join(parts)


def _made(tmp_path: Path, change: Callable[[bytes, int], bytes]) -> Path:
    """A DCD file of six frames with cells that change, changed."""
    universe = MDAnalysis.Universe.empty(7, trajectory=True)
    rng = np.random.default_rng(3)
    with MDAnalysis.Writer(os.fspath(tmp_path / "a.dcd"), 7, dt=0.5) as writer:
        for frame in range(6):
            universe.atoms.positions = rng.normal(0, 30, (7, 3))
            universe.dimensions = [20 + frame // 2, 21, 22, 80, 90, 100]
            writer.write(universe.atoms)
    target = tmp_path / "changed.dcd"
    target.write_bytes(change((tmp_path / "a.dcd").read_bytes(), 7))
    return target


@pytest.mark.parametrize(
    ("change", "plain"),
    [
        (lambda raw, atoms: raw, True),
        (lambda raw, atoms: _swapped(raw, atoms, cell=True), True),
        (_with_fixed, False),
    ],
    ids=["own", "other byte order", "fixed atom"],
)
def test_kinds_of_dcd_files(tmp_path: Path, change: Callable[[bytes, int], bytes], plain: bool) -> None:
    path = _made(tmp_path, change)
    reader = DCDReader(os.fspath(path))
    made = PlainDcd.of(reader)
    assert (made is not None) == plain
    if made is not None:
        made.close()
    assert _check_frames(path) == 6


def test_a_dcd_file_that_breaks_off_has_its_whole_frames(tmp_path: Path) -> None:
    path = _made(tmp_path, lambda raw, _: raw[:-50])
    report = Report()
    with molrec_convert.read(path, format="mdanalysis", report=report) as record:
        assert len(record.trajectory) == 5
    assert _check_frames(path) == 5


def test_a_frame_whose_records_are_others_is_left_to_mdanalysis(tmp_path: Path) -> None:
    def broken(raw: bytes, atoms: int) -> bytes:
        size = 4 * (14 + 3 * (atoms + 2))
        at = len(raw) - 3 * size + 56
        assert int.from_bytes(raw[at : at + 4], "little") == 4 * atoms
        return raw[:at] + (4 * atoms + 4).to_bytes(4, "little") + raw[at + 4 :]

    path = _made(tmp_path, broken)
    with molrec_convert.read(path, format="mdanalysis") as record, pytest.raises(FormatError, match="frame"):
        list(record.trajectory.batches())


@pytest.mark.parametrize("path", _XDR, ids=_names(_XDR))
def test_frames_read_without_the_lock_are_mdanalysis_own(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    os.link(path, copy) if os.stat(path).st_dev == os.stat(tmp_path).st_dev else copy.write_bytes(path.read_bytes())
    kind: Any = XTCReader if path.suffix == ".xtc" else TRRReader
    own, other = kind(os.fspath(copy)), kind(os.fspath(copy))
    end = unlock(other)
    count = own.n_frames
    assert (type(other._xdr) is type(own._xdr)) == (count < 2)
    orders = [range(count), range(count - 1, -1, -1), range(1, count, 3)]
    for order in orders:
        for frame in order:
            assert _same(own[frame], other[frame])
    for a, b in zip(own, other, strict=True):
        assert _same(a, b)
    with pytest.raises(IndexError):
        other[count]
    end()
    assert type(other._xdr) is type(own._xdr)
    assert _same(own[0], other[0])


@pytest.mark.parametrize("suffix", ["xtc", "trr"])
def test_several_files_one_after_the_other(tmp_path: Path, suffix: str) -> None:
    (source,) = (path for path in _XDR if path.name == f"{suffix}_test_only_10_frame_10_atoms.{suffix}")
    paths = []
    for name in ("a", "b"):
        paths.append(tmp_path / f"{name}.{suffix}")
        paths[-1].write_bytes(source.read_bytes())
    universe = MDAnalysis.Universe(os.fspath(paths[0]), [os.fspath(path) for path in paths])
    reader = universe.trajectory.copy()
    end = unlock(reader)
    assert [type(each._xdr).__name__ for each in reader.readers] == [f"_Unlocked{suffix.title()}"] * 2
    end()
    reader.close()
    molrec_convert.convert([paths[0], *paths], tmp_path / "c.mrec", from_format="mdanalysis")
    with molrec_convert.open(tmp_path / "c.mrec") as record:
        assert len(record.trajectory) == 20
        x = np.concatenate([batch.blocks["atoms"].columns["x"] for batch in record.trajectory.batches()])
    own = np.concatenate([ts.positions[:, 0].copy() for ts in universe.trajectory]).astype(np.float64)
    assert x.tobytes() == own.tobytes()


def _same(a: Any, b: Any) -> bool:
    arrays = ("positions", "velocities", "forces")
    there = [name for name in arrays if getattr(a, f"has_{name}")]
    return (
        there == [name for name in arrays if getattr(b, f"has_{name}")]
        and all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in there)
        and (a.frame, a.time, a.data) == (b.frame, b.time, b.data)
        and np.array_equal(a.dimensions, b.dimensions)
    )


@pytest.mark.parametrize("suffix", ["xtc", "trr"])
def test_what_breaks_off_fails_as_it_does_with_the_lock(tmp_path: Path, suffix: str) -> None:
    source = Path(os.fspath(data.XTC if suffix == "xtc" else data.TRR))
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(source.read_bytes())
    reader = (XTCReader if suffix == "xtc" else TRRReader)(os.fspath(path))
    os.truncate(path, path.stat().st_size - 1000)
    end = unlock(reader)
    reader._xdr.seek(reader.n_frames - 1)
    with pytest.raises((OSError, StopIteration)):
        reader._read_next_timestep()
    end()


def test_guesses_are_mdanalysis_own() -> None:
    names = [*atomelements, *masses, "", "1HB2", "CL-", "NA+", "123", "Xx9", "hB", "*", "CA", "ca", "ZN2"]
    universe = MDAnalysis.Universe.empty(len(names))
    universe.add_TopologyAttr("names", names)
    own, quick = DefaultGuesser(universe), guesser_for(universe)
    assert type(quick) is not DefaultGuesser
    assert quick.guess_types().tolist() == own.guess_types().tolist()
    types = own.guess_types()
    assert quick.guess_masses(types).tolist() == own.guess_masses(types).tolist()
    assert quick.guess_masses(types, np.arange(5)).tolist() == own.guess_masses(types, np.arange(5)).tolist()
