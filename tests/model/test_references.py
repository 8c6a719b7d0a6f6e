"""Row references: endpoints, `targets`, and what they point at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import frame_stores as stores
import numpy as np
import pytest

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Column, Frame
from molrec_convert.stores.zarr.sections.frames import read_frame, write_frame
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage


def rows(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.uint64)


def molecule(**bonds: Any) -> Frame:
    return Frame({"atoms": Block(count=3), "bonds": Block(bonds)})


def test_standard_relations_in_range(tmp_path: Path) -> None:
    blocks = {
        "atoms": Block({"x": [0.0, 1.0, 2.0, 3.0]}),
        "bonds": Block({"atomi": rows(0, 1), "atomj": rows(1, 3)}),
        "angles": Block({"atomi": rows(0), "atomj": rows(1), "atomk": rows(2)}),
        "dihedrals": Block({"atomi": rows(3), "atomj": rows(2), "atomk": rows(1), "atoml": rows(0)}),
        "members": Block({"ibead": rows(0, 0), "atom": rows(1, 3)}, targets={"ibead": "beads", "atom": "atoms"}),
        "beads": Block(count=1),
    }
    frame = stores.round_trip(tmp_path, Frame(blocks))
    for name in blocks:
        assert frame[name] == blocks[name]
    frame.check()


def test_targets_are_kept(tmp_path: Path) -> None:
    targets = {"atom": "atoms", "site": "/system/atoms"}
    block = Block({"atom": rows(0), "site": rows(0)}, targets=targets)
    read = stores.round_trip(tmp_path, Frame({"atoms": Block(count=1), "links": block}))
    assert read["links"].targets == targets
    assert stores.attributes(tmp_path / "frame" / "links") == {"count": 1, "targets": targets}


def test_an_endpoint_may_reference_something_else(tmp_path: Path) -> None:
    block = Block({"atomi": rows(5)}, targets={"atomi": "beads"})
    frame = stores.round_trip(tmp_path, Frame({"atoms": Block(count=1), "beads": Block(count=6), "links": block}))
    assert frame["links"]["atomi"].tolist() == [5]


def test_a_block_may_reference_itself(tmp_path: Path) -> None:
    block = Block({"parent": Column(rows(0, 0, 1), np.array([False, True, True]))}, targets={"parent": "tree"})
    assert stores.round_trip(tmp_path, Frame({"tree": block}))["tree"] == block


def test_a_null_references_nothing(tmp_path: Path) -> None:
    column = Column(rows(0, 2**64 - 1), np.array([True, False]))
    frame = stores.round_trip(tmp_path, molecule(atomi=column, atomj=rows(1, 2)))
    assert frame["bonds"].stored("atomi").tolist() == [0, 2**64 - 1]
    assert frame["bonds"]["atomi"].tolist() == [0, None]


def test_a_plain_number_is_no_reference(tmp_path: Path) -> None:
    frame = Frame({"atoms": Block({"id": rows(2**40), "handle": rows(2**64 - 1)})})
    assert stores.round_trip(tmp_path, frame) == frame


@pytest.mark.parametrize("value", [3, 2**32, 2**64 - 1])
def test_a_reference_out_of_range_is_refused(tmp_path: Path, value: int) -> None:
    with pytest.raises(ContractError, match="frame/bonds/atomj") as caught:
        write_frame(tmp_path, "frame", molecule(atomi=rows(0, 1), atomj=rows(1, value)))
    assert caught.value.found == str(value)
    assert caught.value.expected == "less than 3"
    assert not list(tmp_path.iterdir())
    folder = stores.write(tmp_path, molecule(atomi=rows(0, 1), atomj=rows(1, 2)))
    stores.zarr_create(folder / "bonds/atomj", rows(1, value))
    frame = stores.read(tmp_path)
    assert frame["atoms"].count == 3
    with pytest.raises(ContractError, match="frame/bonds/atomj"):
        _ = frame["bonds"]
    with pytest.raises(ContractError, match="frame/bonds/atomj"):
        frame.check()


def test_a_reference_to_a_block_that_is_not_there_is_refused(tmp_path: Path) -> None:
    bonds = Block({"atomi": rows(0), "atomj": rows(0)})
    with pytest.raises(ContractError, match="'atoms', which is not there"):
        write_frame(tmp_path, "frame", Frame({"bonds": bonds}))
    folder = stores.write(tmp_path, Frame({"atoms": Block(count=1), "bonds": bonds}))
    (folder / "atoms").rename(folder / "particles")
    frame = stores.read(tmp_path)
    with pytest.raises(ContractError, match="frame/bonds/atomi"):
        _ = frame["bonds"]


def test_no_rows_reference_nothing(tmp_path: Path) -> None:
    empty = Block({"atomi": rows(), "atom": rows()}, targets={"atom": "nowhere"})
    assert stores.round_trip(tmp_path, Frame({"bonds": empty}))["bonds"] == empty


def test_rows_that_are_all_null_need_their_block_all_the_same(tmp_path: Path) -> None:
    bonds = Block({"atomi": Column(rows(0), np.array([False]))})
    with pytest.raises(ContractError, match="which is not there"):
        write_frame(tmp_path, "frame", Frame({"bonds": bonds}))


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.float64])
def test_a_declared_column_that_is_not_u64_is_refused(tmp_path: Path, dtype: type) -> None:
    block = Block({"site": np.zeros(1, dtype)}, targets={"site": "atoms"})
    with pytest.raises(ContractError, match="frame/links/site"):
        write_frame(tmp_path, "frame", Frame({"atoms": Block(count=1), "links": block}))
    plain = Block({"site": np.zeros(1, dtype)})
    folder = stores.write(tmp_path, Frame({"atoms": Block(count=1), "links": plain}))
    stores.set_attribute(folder / "links", targets={"site": "atoms"})
    with pytest.raises(ContractError, match="frame/links/site"):
        stores.read(tmp_path)


@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
def test_an_endpoint_that_is_not_u64_is_refused(tmp_path: Path, dtype: type) -> None:
    folder = stores.write(tmp_path, molecule(atomi=rows(0), atomj=rows(1)))
    stores.zarr_create(folder / "bonds/atomi", np.zeros(1, dtype))
    with pytest.raises(ContractError, match="frame/bonds/atomi"):
        stores.read(tmp_path)


@pytest.mark.parametrize(
    "target",
    [
        "/trajectory/atoms",
        "/atoms",
        "/system/atoms/x",
        "system/atoms",
        "/system/",
        "",
        "/",
        "//atoms",
        "/forcefield/a",
        5,
        None,
    ],
    ids=str,
)
def test_a_target_of_another_form_is_refused(tmp_path: Path, target: Any) -> None:
    block = Block({"site": rows(0)}, targets={"site": target})
    with pytest.raises(ContractError, match="frame/links"):
        write_frame(tmp_path, "frame", Frame({"atoms": Block(count=1), "links": block}))
    folder = stores.write(tmp_path, Frame({"atoms": Block(count=1), "links": Block({"site": rows(0)})}))
    stores.set_attribute(folder / "links", targets={"site": target})
    with pytest.raises(ContractError, match="frame/links"):
        stores.read(tmp_path)


@pytest.mark.parametrize("targets", [{"gone": "atoms"}, ["site"], "atoms"], ids=str)
def test_targets_that_name_no_column_are_refused(tmp_path: Path, targets: Any) -> None:
    folder = stores.write(tmp_path, Frame({"atoms": Block(count=1), "links": Block({"site": rows(0)})}))
    stores.set_attribute(folder / "links", targets=targets)
    with pytest.raises(ContractError, match="frame/links"):
        stores.read(tmp_path)


def absolute(value: int) -> Frame:
    return Frame({"links": Block({"site": rows(value)}, targets={"site": "/system/atoms"})})


def test_an_absolute_target_is_checked_when_its_section_is_there(tmp_path: Path) -> None:
    stores.write(tmp_path, absolute(2))
    assert stores.read(tmp_path)["links"]["site"].tolist() == [2]  # no system: nothing to hold it against
    stores.write(tmp_path, Frame({"atoms": Block(count=3)}), "system")
    assert stores.read(tmp_path)["links"]["site"].tolist() == [2]
    stores.set_attribute(tmp_path / "system/atoms", count=2)
    frame = stores.read(tmp_path)
    with pytest.raises(ContractError, match="frame/links/site") as caught:
        _ = frame["links"]
    assert caught.value.expected == "less than 2"
    with pytest.raises(ContractError, match="frame/links/site"):
        frame.check()


def test_an_absolute_target_must_be_in_its_section(tmp_path: Path) -> None:
    stores.write(tmp_path, absolute(0))
    stores.write(tmp_path, Frame({"sites": Block(count=3)}), "system")
    with pytest.raises(ContractError, match="'/system/atoms', which is not there"):
        _ = stores.read(tmp_path)["links"]


def test_a_snapshot_may_reference_another_snapshot(tmp_path: Path) -> None:
    system = Frame({"links": Block({"site": rows(4)}, targets={"site": "/frame/atoms"})})
    stores.write(tmp_path, Frame({"atoms": Block(count=5)}))
    stores.write(tmp_path, system, "system")
    assert read_frame(DirectoryStorage(tmp_path), "system")["links"]["site"].tolist() == [4]


def test_wide_references_are_checked_row_by_row(tmp_path: Path) -> None:
    column = Column(np.array([[0, 1], [2, 9]], np.uint64), np.array([True, False]))
    frame = Frame({"atoms": Block(count=3), "rings": Block({"members": column}, targets={"members": "atoms"})})
    assert stores.round_trip(tmp_path, frame) == frame
    column = Column(np.array([[0, 1], [2, 9]], np.uint64))
    with pytest.raises(ContractError, match="frame/rings/members"):
        Frame({"atoms": Block(count=3), "rings": Block({"members": column}, targets={"members": "atoms"})}).check()
