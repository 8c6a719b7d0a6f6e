"""What is read is never run: no reader unpickles, evaluates or imports what a file says."""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from molrec_convert.cli import run

ROOT = Path(__file__).parents[2]


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return Path.touch, (self.mark,)


def payloads(mark: Path) -> dict[str, bytes]:
    """A pickle by itself, in an array of numpy, in an archive of arrays."""
    array, archive = io.BytesIO(), io.BytesIO()
    values = np.array([Bomb(mark)], dtype=object)
    np.save(array, values)
    np.savez(archive, offsets=values)
    return {"pickle": pickle.dumps(Bomb(mark)), "npy": array.getvalue(), "npz": archive.getvalue()}


@pytest.mark.parametrize("kind", ["pickle", "npy", "npz"])
def test_no_file_of_any_name_is_unpickled(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    mark = tmp_path / "run"
    content = payloads(mark)[kind]
    suffixes = "pkl pickle p npy npz db json aselmdb traj xyz extxyz pdb cif data lammpstrj dump yaml h5md trr xtc tpr "
    suffixes += "mrec.zip mrec.lmdb log"
    for suffix in suffixes.split():
        path = tmp_path / f"evil.{suffix}"
        path.write_bytes(content)
        for command in (["info", str(path)], ["convert", str(path), str(tmp_path / "out.mrec")]):
            assert run(command) in (1, 2), command
        assert "an error in this program" not in capsys.readouterr().err
        assert not mark.exists(), suffix
    pickle.loads(payloads(mark)["pickle"])
    assert mark.exists(), "the payload works"


def test_offsets_beside_a_trajectory_are_not_unpickled(tmp_path: Path) -> None:
    """MDAnalysis keeps where the frames of a trajectory begin in an archive beside it."""
    mda = pytest.importorskip("MDAnalysis")
    universe = mda.Universe.empty(3, trajectory=True)
    universe.add_TopologyAttr("names", ["O", "H", "H"])
    with pytest.warns(UserWarning, match="attribute"):
        universe.atoms.write(tmp_path / "a.gro")
    with mda.Writer(str(tmp_path / "a.xtc"), 3) as writer:
        for _ in range(3):
            writer.write(universe)
    mark = tmp_path / "run"
    (tmp_path / ".a.xtc_offsets.npz").write_bytes(payloads(mark)["npz"])
    run(["convert", str(tmp_path / "a.gro"), str(tmp_path / "a.xtc"), str(tmp_path / "out.mrec")])
    assert not mark.exists()


def test_a_zip_of_pickles_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "run"
    with zipfile.ZipFile(tmp_path / "a.mrec.zip", "w") as packed:
        packed.writestr("zarr.json", payloads(mark)["pickle"])
        packed.writestr("data.pkl", payloads(mark)["pickle"])
    assert run(["validate", str(tmp_path / "a.mrec.zip")]) == 1
    assert not mark.exists()


def test_nothing_that_is_read_is_run_in_the_source() -> None:
    """Pickles pass between the processes of a migration only, by pipes of their own."""
    run_by = re.compile(
        r"\bpickle\.loads?\(|\beval\(|\bexec\(|allow_pickle|yaml\.(?:unsafe_)?load\(|\bshelve\b|np\.load\("
    )
    found = {
        path.name
        for folder in ("molrec_convert", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        if run_by.search(path.read_text())
    }
    assert found == {"pool.py"}
