"""What a dry run says a LAMMPS file will not hold is what the writer reports."""

import shutil
from pathlib import Path

import pytest

from molrec_convert import Report, convert
from molrec_convert.errors import MolrecError

RUN = Path(__file__).parents[2] / "fixtures" / "water-run"
TARGETS = {"lammps-data": "b.data", "lammps-dump": "b.dump", "lammps-run": "run", "lammps-settings": "settings.lmp"}


def told(source: Path, target: Path, format: str, *, dry_run: bool) -> tuple[object, str]:
    report = Report()
    try:
        convert(source, target, to_format=format, report=report, dry_run=dry_run)
    except MolrecError as error:
        return None, str(error).replace(str(target), "")
    return report.to_json(), ""


def compare(tmp_path: Path, sources: list[Path]) -> None:
    compared = 0
    for number, source in enumerate(sources):
        record = tmp_path / f"{number}.mrec"
        try:
            convert(source, record)
        except MolrecError:
            continue
        for format, name in TARGETS.items():
            (tmp_path / format).mkdir()
            predicted = told(record, tmp_path / format / name, format, dry_run=True)
            assert not list((tmp_path / format).iterdir())
            assert told(record, tmp_path / format / name, format, dry_run=False) == predicted, (source, format)
            shutil.rmtree(tmp_path / format)
            compared += 1
    assert compared


def test_of_a_run(tmp_path: Path) -> None:
    compare(tmp_path, [RUN, RUN / "water.data", RUN / "water.lammpstrj"])


def test_of_the_corpus(corpus: Path, tmp_path: Path) -> None:
    small = [
        path
        for kind in ("lammps-data", "lammps-dump")
        for path in sorted((corpus / "files" / kind).iterdir())
        if path.stat().st_size < 50_000
    ]
    compare(tmp_path, small[::7])


@pytest.mark.parametrize("format", ["lammps-data", "lammps-dump"])
def test_of_what_has_no_place(tmp_path: Path, format: str) -> None:
    source = tmp_path / "a.extxyz"
    source.write_text(
        '2\nLattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3:spin:R:3:kind:S:1 energy=-1.5\n'
        "H 0 0 0 1 2 3 a\nO 1 1 1 4 5 6 b\n"
    )
    predicted = told(source, tmp_path / TARGETS[format], format, dry_run=True)
    assert not (tmp_path / TARGETS[format]).exists()
    assert told(source, tmp_path / TARGETS[format], format, dry_run=False) == predicted
    assert predicted[1] or predicted[0]
