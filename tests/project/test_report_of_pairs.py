"""The report of a conversion held against what was written: for small sources of each format and every writer."""

from pathlib import Path

import pytest

import molrec_convert
from molrec_convert.errors import LossError, MolrecError
from molrec_convert.model import Record
from molrec_convert.report import Fate, Report

FAULTS = Path(__file__).parents[2] / "fixtures/faults"
SOURCES = (
    *("e.extxyz", "e2.extxyz", "stress.extxyz", "q_calc_ase.extxyz", "z.xyz"),
    *("alt.pdb", "icode.pdb", "com.data", "two-waters.data", "dv.dump"),
)
TARGETS = ("o.mrec", "o.extxyz", "o.db", "o.pdb", "o.cif", "o.data", "o.lammpstrj")


def _keys(record: Record) -> set[str]:
    """Return the keys of the frames."""
    found = set() if record.frame is None else set(record.frame.meta)
    return found | (set() if record.trajectory is None else set(record.trajectory.declaration.meta))


def _record(path: Path) -> Record:
    read = molrec_convert.read(path)
    return read if isinstance(read, Record) else read[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_what_is_not_there_is_said_to_be_dropped(source: str, target: str, tmp_path: Path) -> None:
    report, predicted = Report(), Report()
    try:
        molrec_convert.convert(FAULTS / source, tmp_path / target, report=report)
    except MolrecError as error:
        with pytest.raises(type(error)):
            molrec_convert.convert(FAULTS / source, tmp_path / f"dry-{target}", dry_run=True)
        return
    molrec_convert.convert(FAULTS / source, tmp_path / f"dry-{target}", dry_run=True, report=predicted)
    assert set(predicted.losses()) == set(report.losses())
    if report.lossy:
        with pytest.raises(LossError):
            molrec_convert.convert(FAULTS / source, tmp_path / f"strict-{target}", strict=True)
    else:
        molrec_convert.convert(FAULTS / source, tmp_path / f"strict-{target}", strict=True)
    dropped = {part for item in report.of(Fate.DROPPED) for part in item.name.split("/")[-1:]}
    carried = {item.name.rpartition("/")[2] for item in report.of(Fate.CARRIED)}
    assert not carried & dropped
    before, after = _record(FAULTS / source), _record(tmp_path / target)
    converted = {item.name.rpartition("/")[2] for item in report.of(Fate.CONVERTED)}
    assert _keys(before) - _keys(after) - dropped - converted == set()


def test_an_energy_that_a_data_file_drops_is_not_carried(tmp_path: Path) -> None:
    report = molrec_convert.convert(FAULTS / "e.extxyz", tmp_path / "e.data")
    assert {"trajectory/meta/pe", "trajectory/meta/note"} <= {item.name for item in report.of(Fate.DROPPED)}
    assert not {"energy", "note"} & {item.name for item in report.of(Fate.CARRIED)}
    assert not {"energy", "note"} & {item["name"] for item in report.to_json()["carried"]}
