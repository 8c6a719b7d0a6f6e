"""Node names: what is refused at write, and the escape of names that cannot be."""

from __future__ import annotations

from pathlib import Path

import frame_stores as stores
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molrec_convert.errors import ContractError
from molrec_convert.formats import WriteContext
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.model.names import check_name, escape_name, name_fault, unescape_name
from molrec_convert.stores.zarr.record import open_record, write_record
from molrec_convert.stores.zarr.sections.frames import write_frame

FORBIDDEN = ["", "a/b", "/", "a\0b", ".", "..", "zarr.json", "__", "__x", "\ud800"]
FINE = ["a", "A b", "Å", ".x", "...", "_x", "a.b", "c", "0", "%2F", "meta", "zarr", "a\nb", "-", "x" * 200]


@pytest.mark.parametrize("name", FORBIDDEN, ids=ascii)
def test_forbidden_names(name: str) -> None:
    assert name_fault(name) is not None
    with pytest.raises(ContractError, match="cannot name a node"):
        check_name(name, "frame")


@pytest.mark.parametrize("name", FINE, ids=ascii)
def test_names_that_are_fine(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize("name", FORBIDDEN, ids=ascii)
def test_blocks_and_columns_of_a_frame(tmp_path: Path, name: str) -> None:
    for frame in (Frame({name: Block(count=1)}), Frame({"atoms": Block({name: [1.0]})})):
        with pytest.raises(ContractError, match="cannot name a node"):
            write_frame(tmp_path, "frame", frame)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FORBIDDEN, ids=ascii)
def test_blocks_columns_and_keys_of_a_trajectory(tmp_path: Path, name: str) -> None:
    column = ColumnDeclaration("f64")
    for declaration in (
        Declaration({name: BlockDeclaration({"c": column})}),
        Declaration({"sites": BlockDeclaration({name: column})}),
        Declaration({}, {name: MetaDeclaration("f64")}),
    ):
        with pytest.raises(ContractError, match="cannot name a node"):
            MemoryTrajectory([], declaration)


@pytest.mark.parametrize("name", [name for name in FINE if name != "meta"], ids=ascii)
def test_fine_names_travel(tmp_path: Path, name: str) -> None:
    frame = Frame({name: Block({name: [1.0]})}, Meta({name: 1.0}))
    record = Record(frame=frame, trajectory=MemoryTrajectory([frame, Frame({}, Meta({name: 2.0}))]))
    write_record(record, tmp_path / "a", WriteContext())
    with open_record(tmp_path / "a") as read:
        assert read.frame == frame
        assert read.trajectory is not None
        assert read.trajectory[1][name][name].tolist() == [1.0]
        assert read.trajectory[1].meta[name] == 2.0


def test_a_name_the_file_system_cannot_hold_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        write_frame(tmp_path, "frame", Frame({"x" * 300: Block({"c": [1.0]})}))


# The escape


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("train/loss", "train%2Floss"),
        ("a b", "a%20b"),
        ("Å", "%C3%85"),
        ("100%", "100%25"),
        (".", "%2E"),
        ("..", "%2E."),
        ("__x", "%5F_x"),
        ("zarr.json", "%7Aarr.json"),
        ("v_msd[4]", "v_msd%5B4%5D"),
        ("a.b-c_d", "a.b-c_d"),
        ("\0", "%00"),
        ("%2F", "%252F"),
    ],
)
def test_the_escape(text: str, escaped: str) -> None:
    assert escape_name(text) == escaped
    assert unescape_name(escaped) == text
    assert name_fault(escaped) is None


def test_the_empty_name_has_no_escape() -> None:
    with pytest.raises(ContractError, match="empty"):
        escape_name("")


@pytest.mark.parametrize("name", ["100%", "%GG", "%C3", "plain", "%c3%85"])
def test_names_that_only_look_escaped(name: str) -> None:
    assert unescape_name(name) in (name, "Å")


@given(stores.texts.filter(bool))
def test_every_text_has_a_name_and_comes_back(text: str) -> None:
    escaped = escape_name(text)
    assert name_fault(escaped) is None
    assert escaped.isascii()
    assert unescape_name(escaped) == text


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8"), min_size=1))
def test_different_texts_have_different_names(a: str, b: str) -> None:
    assert (escape_name(a) == escape_name(b)) == (a == b)
