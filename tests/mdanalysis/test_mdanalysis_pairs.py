"""Every file and pair of files MDAnalysis opens: the record gives MDAnalysis the same as the files do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mdanalysis_pairs import CANNOT, LONG, OTHERS, PAIRS

MDAnalysis = pytest.importorskip("MDAnalysis")
datafiles = pytest.importorskip("MDAnalysisTests.datafiles")

from mdanalysis_comparing import compare, options_of, paths_of  # noqa: E402

import molrec_convert  # noqa: E402
from molrec_convert.errors import FormatError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

#: What a file is read with beyond MDAnalysis itself.
_LIBRARIES = {"H5MD": "h5py", "GSD": "gsd", "TNG": "pytng"}
#: Some of each kind for every run of the tests.
_QUICK = """
    COORDINATES_TOPOLOGY+COORDINATES_TRR PSF_TRICLINIC+DCD_TRICLINIC LAMMPShyd CPPTRAJ_TRAJ_TOP+CPPTRAJ_TRAJ PDB_icodes
    COORDINATES_TOPOLOGY+COORDINATES_XTC GRO_velocity TXYZ PRM+TRJ_bz2 PDB_multiframe INPCRD MMTF_skinny DMS_NO_SEGID
    PSF_cmap TPR_EXTRA_2024 ITP_nomass
"""
#: Of this file MDAnalysis reads no positions, and hands out memory nobody wrote to.
_UNWRITTEN = {("TRC_PDB_VAC", "TRC_CLUSTER_VAC"): ["positions", "positions of the record"]}


def _cases(cases: Any, quick: str) -> list[Any]:
    found = []
    for names, keywords in cases:
        name = "+".join(names)
        said = f"{name} {sorted(keywords)}" if keywords else name
        if said not in LONG:
            marks = () if name in quick.split() and not keywords else (pytest.mark.slow,)
            found.append(pytest.param(names, keywords, id="-".join([name, *map(str, keywords.values())]), marks=marks))
    return found


def _needs(names: tuple[str, ...]) -> None:
    for word, library in _LIBRARIES.items():
        if word in " ".join(names).upper():
            pytest.importorskip(library)


@pytest.mark.slow
@pytest.mark.parametrize(("names", "keywords"), _cases(PAIRS, _QUICK))
def test_pair(names: tuple[str, ...], keywords: dict[str, Any], tmp_path: Path) -> None:
    _needs(names)
    found = compare(names, keywords, tmp_path)
    assert found.differences in ([], _UNWRITTEN.get(names))


_ONE = "PSF+DCD_empty mol2_broken_molecule PRMErr3 TRC_PDB_VAC+TRC_TRAJ1_VAC_MISSING_POS FASTA"


@pytest.mark.parametrize(("names", "keywords"), _cases(CANNOT, _ONE))
def test_what_mdanalysis_cannot_read_is_one_sentence(
    names: tuple[str, ...], keywords: dict[str, Any], tmp_path: Path
) -> None:
    _needs(names)
    with pytest.raises(FormatError) as caught:
        molrec_convert.convert(paths_of(names), tmp_path / "a.mrec", from_format="mdanalysis", **options_of(keywords))
    assert "\n" not in str(caught.value)
    assert any(os.path.basename(path) in str(caught.value) for path in paths_of(names))
    assert not list(tmp_path.iterdir())


def test_every_file_of_the_package_is_accounted_for() -> None:
    listed = {name for names, _ in (*PAIRS, *CANNOT) for name in names} | set(OTHERS.split())
    files = {
        name
        for name in vars(datafiles)
        if not name.startswith("_")
        and isinstance(getattr(datafiles, name), (str, os.PathLike))
        and os.path.isfile(getattr(datafiles, name))
    }
    assert files - listed == set()
    assert listed - files == set()
