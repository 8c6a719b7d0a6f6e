"""The page "Layout by example" is what the format was specified with; test_docs holds it against the writer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import make_layout
import pytest
import seed_page
from collection_stores import equal_trajectories
from layout_examples.collection import build_conformers
from layout_examples.records import EXAMPLES
from layout_examples.stores import output, write_examples

from molrec_convert.inspect.diff import differences
from molrec_convert.inspect.validation import validate
from molrec_convert.model import Record
from molrec_convert.model.dtypes import stored
from molrec_convert.stores.lmdb.reader import open_collection
from molrec_convert.stores.zarr.record import open_record


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_examples(tmp_path_factory.mktemp("examples"))


@pytest.fixture(scope="module")
def blocks() -> dict[str, list[str]]:
    """The blocks of the page, without the lines that fence them."""
    found = make_layout.blocks_of(make_layout.PAGE.read_text(encoding="utf-8"))
    return {name: [line for line in lines if not line.startswith("```")][1:-1] for name, lines in found.items()}


@pytest.mark.parametrize(
    "page",
    [
        "<!-- begin a -->\n",
        "<!-- end a -->\n",
        "<!-- begin a -->\n<!-- end b -->\n",
        "<!-- begin a -->\n<!-- begin b -->\n<!-- end b -->\n<!-- end a -->\n",
        "<!-- begin a -->\n<!-- end a -->\n<!-- begin a -->\n<!-- end a -->\n",
    ],
)
def test_a_page_whose_blocks_are_in_disorder_is_not_written(page: str) -> None:
    with pytest.raises(ValueError, match="not closed"):
        make_layout.blocks_of(page)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_valid_and_read_back(stores: Path, name: str) -> None:
    assert list(validate(stores / f"{name}.mrec")) == []
    with open_record(stores / f"{name}.mrec") as record:
        assert list(differences(record, rounded(EXAMPLES[name]()))) == []


def rounded(record: Record) -> Record:
    """The record with the values of its frame as a declared precision has them stored."""
    for block in record.frame.blocks.values() if record.frame else []:
        for column in block.columns.values():
            if column.precision is not None:
                column.values[:] = stored(column.values, column.precision)
    return record


def test_the_example_collection_reads_back(stores: Path) -> None:
    with open_collection(stores / "conformers.mrec.lmdb", verify=True) as collection:
        for record, given in zip(collection, build_conformers(), strict=True):
            assert (record.meta, record.system) == (given.meta, given.system)
            assert [frame.meta for frame in record.trajectory] == [frame.meta for frame in given.trajectory]
        assert equal_trajectories(list(collection[0].trajectory)[:2], list(collection[1].trajectory))


def test_a_command_that_fails_is_no_block(stores: Path) -> None:
    with pytest.raises(RuntimeError, match="has no section 'frame'"):
        output(stores, "mrec tree fit.mrec frame")


# what the format was specified with


TREES = {
    "water": ("water.mrec", 0),
    "vibration": ("vibration.mrec", 0),
    "reaction": ("reaction.mrec", 0),
    "forcefield": ("peroxide.mrec", 0),
    "system": ("peroxide.mrec", 1),
    "observables": ("results.mrec", 0),
    "fit": ("fit.mrec", 0),
}


@pytest.mark.parametrize("block", TREES)
def test_trees(blocks: dict[str, list[str]], fixtures: Path, block: str) -> None:
    tree = seed_page.seed_tree(fixtures, *TREES[block])
    assert len(tree) > 15
    assert blocks[block][1:] == tree


def test_overview(blocks: dict[str, list[str]], fixtures: Path) -> None:
    assert blocks["tour"][1:] == seed_page.seed_overview(fixtures)


def test_log(blocks: dict[str, list[str]], fixtures: Path) -> None:
    assert blocks["log"] == seed_page.seed_log(fixtures).splitlines()
    assert len(blocks["log"]) == 3


def test_packed_form(blocks: dict[str, list[str]], fixtures: Path) -> None:
    assert blocks["listing"][1:] == seed_page.seed_listing(fixtures)
    assert blocks["packed"] == seed_page.following(fixtures, "water.mrec.zip ", 2)


def test_collection(blocks: dict[str, list[str]], fixtures: Path) -> None:
    """Keys, sizes of headers, padding and payload, steps, meta, buffers: line by line."""
    assert blocks["collection"][1:] == seed_page.following(fixtures, "conformers.mrec.lmdb ", 75)
    assert seed_page.following(fixtures, "conformers.mrec.lmdb ", 76)[-1] == ""


def test_bytes_of_a_frame(blocks: dict[str, list[str]], fixtures: Path) -> None:
    assert blocks["frame-bytes"][1:] == seed_page.following(fixtures, "key f ‖ u64be(1) =", 24)
    assert seed_page.following(fixtures, "key f ‖ u64be(1) =", 25)[-1] == ""


@pytest.mark.parametrize(
    ("block", "heads", "rows"), [("resolution", "frame `i`\t`step[i]`", 5), ("links", "system row\t", 6)]
)
def test_tables(blocks: dict[str, list[str]], fixtures: Path, block: str, heads: str, rows: int) -> None:
    expected = [row.split("\t") for row in seed_page.following(fixtures, heads, rows + 1)]
    assert [[cell.replace('"', "") for cell in row] for row in expected] == cells(blocks[block])


def test_what_coordinates_cost(blocks: dict[str, list[str]], fixtures: Path) -> None:
    _, *expected = (row.split("\t") for row in seed_page.following(fixtures, "coordinates `x`, `y`, `z`\t", 4))
    _, *measured = cells(blocks["coordinates"])
    assert [row[:2] for row in measured] == [row[:2] for row in expected]
    assert [float(row[2]) for row in measured] == pytest.approx([float(row[2]) for row in expected], abs=0.06)


def test_what_trajectories_have_beyond_values(blocks: dict[str, list[str]], fixtures: Path) -> None:
    _, *expected = (row.split("\t") for row in seed_page.following(fixtures, "record\tsection\tupdates", 11))
    _, *found = cells(blocks["overhead"])
    assert [[cell.replace("`", "").replace("—", "–") for cell in row] for row in expected] == [
        [cell.replace("`", "") for cell in row] for row in found
    ]


def cells(table: list[str]) -> list[list[str]]:
    """The cells of a table in Markdown, its rule left out."""
    rows: list[Any] = [re.fullmatch(r"\| (.*) \|", line) for line in table if not line.startswith("|---")]
    return [row[1].split(" | ") for row in rows]
