"""What is read of MDAnalysis' files past its readers: every number as they give it, and they where it is not plain."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

MDAnalysis = pytest.importorskip("MDAnalysis")
data = pytest.importorskip("MDAnalysisTests.datafiles")

from MDAnalysis.guesser.default_guesser import DefaultGuesser  # noqa: E402
from MDAnalysis.guesser.tables import atomelements, masses  # noqa: E402

import molrec_convert  # noqa: E402
from molrec_convert.errors import FormatError  # noqa: E402
from molrec_convert.report import Report  # noqa: E402
from molrec_mdanalysis.frames import Gatherer  # noqa: E402
from molrec_mdanalysis.names import vectors_of  # noqa: E402
from molrec_mdanalysis.source import guesser_for  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_FOLDER = Path(os.fspath(data.DCD)).parent
_DCD = sorted(path for path in _FOLDER.rglob("*.dcd") if path.stat().st_size)
#: Of these MDAnalysis counts the frames, and takes the time step for one in AKMA units.
_BY_LAMMPS = ("ifabp_apo_100mM.dcd",)


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


def test_dcd_files_are_read_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one = []
    monkeypatch.setattr(Gatherer, "take", lambda *_: one_by_one.append(1))
    for path in _DCD:
        with molrec_convert.read(path, format="mdanalysis") as record:
            if len(record.trajectory) > 1:  # the time step of a single frame is data of the frame
                assert sum(batch.n_frames for batch in record.trajectory.batches()) == len(record.trajectory)
    assert not one_by_one


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
    "change",
    [lambda raw, atoms: raw, lambda raw, atoms: _swapped(raw, atoms, cell=True), _with_fixed],
    ids=["own", "other byte order", "fixed atom"],
)
def test_kinds_of_dcd_files(tmp_path: Path, change: Callable[[bytes, int], bytes]) -> None:
    assert _check_frames(_made(tmp_path, change)) == 6


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


@pytest.mark.parametrize("suffix", ["xtc", "trr"])
def test_several_files_one_after_the_other(tmp_path: Path, suffix: str) -> None:
    source = _FOLDER / f"{suffix}_test_only_10_frame_10_atoms.{suffix}"
    (source,) = _FOLDER.rglob(source.name)
    paths = [tmp_path / f"{name}.{suffix}" for name in ("a", "b")]
    for path in paths:
        path.write_bytes(source.read_bytes())
    universe = MDAnalysis.Universe(os.fspath(paths[0]), [os.fspath(path) for path in paths])
    molrec_convert.convert([paths[0], *paths], tmp_path / "c.mrec", from_format="mdanalysis")
    with molrec_convert.open(tmp_path / "c.mrec") as record:
        assert len(record.trajectory) == 20
        x = np.concatenate([batch.blocks["atoms"].columns["x"] for batch in record.trajectory.batches()])
    own = np.concatenate([ts.positions[:, 0].copy() for ts in universe.trajectory]).astype(np.float64)
    assert x.tobytes() == own.tobytes()


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
