"""The sections of a record together: the page's examples out of our writer."""

from __future__ import annotations

from pathlib import Path

import pytest
import seed_examples as seed

from molrec_convert.formats import WriteContext
from molrec_convert.model import Record
from molrec_convert.stores.zarr.packing import pack
from molrec_convert.stores.zarr.record import write_record
from molrec_convert.tree import overview_lines, tree_lines

CONTEXT = WriteContext(creator=False)


def store(record: Record, path: Path) -> Path:
    write_record(record, path, CONTEXT)
    return path


@pytest.mark.parametrize(
    ("name", "sections", "zarr", "occurrence"),
    [
        ("peroxide", ["forcefield"], True, 0),
        ("peroxide", ["system"], False, 1),
        ("results", ["observables"], True, 0),
        ("fit", [], True, 0),
    ],
)
def test_trees_of_the_page_out_of_our_writer(
    tmp_path: Path, shared: Path, name: str, sections: list[str], zarr: bool, occurrence: int
) -> None:
    path = store(getattr(seed, f"build_{name}")(), tmp_path / f"{name}.mrec")
    assert list(tree_lines(path, sections, zarr=zarr)) == seed.seed_tree(shared, f"{name}.mrec", occurrence)


def test_the_log_of_the_page(tmp_path: Path, shared: Path) -> None:
    path = store(seed.build_fit(), tmp_path / "fit.mrec")
    assert (path / "metrics" / "metrics.jsonl").read_text() == seed.seed_log(shared)


def test_the_overview_of_the_page(tmp_path: Path, shared: Path) -> None:
    path = store(seed.build_tour(), tmp_path / "tour.mrec")
    expected = seed.seed_overview(shared)
    assert len(expected) == 21
    assert list(overview_lines(path)) == expected
    pack(path, tmp_path / "tour.mrec.zip")
    assert list(overview_lines(tmp_path / "tour.mrec.zip", name="tour.mrec")) == expected
