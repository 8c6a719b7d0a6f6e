"""The tree notation: orders, values and lines, and stores no one should meet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hand_built as hand
import numpy as np
import pytest
from layout_examples.records import build_fit

from molrec_convert.errors import FormatError, UsageError
from molrec_convert.formats import WriteContext
from molrec_convert.inspect.tree import file_lines, tree_lines
from molrec_convert.inspect.tree.text import json_lines
from molrec_convert.model import Record
from molrec_convert.stores.zarr.record_writer import write_record


def store(record: Record, path: Path) -> Path:
    write_record(record, path, WriteContext(creator=False))
    return path


def test_root_sections_in_order(tmp_path: Path) -> None:
    path = hand.record(tmp_path / "all.mrec")
    for name in ("zeta", "metrics", "status", "method", "observables", "forcefield", "trajectory", "frame", "system"):
        hand.group(path / name)
    hand.group(path / "alpha")
    shown = [line.removeprefix(" \\-- ") for line in tree_lines(path) if line.startswith(" \\-- ")]
    assert shown == [
        f"{name}/"
        for name in (
            *("meta", "system", "frame", "trajectory", "forcefield", "observables", "method", "status", "metrics"),
            *("alpha", "zeta"),
        )
    ]


def test_block_order_of_a_frame_and_of_a_trajectory(tmp_path: Path) -> None:
    path = hand.record(tmp_path / "order.mrec")
    hand.group(path / "frame")
    for name in ("box", "zinc", "impropers", "dihedrals", "angles", "bonds", "atoms", "grid"):
        hand.group(path / "frame" / name, count=0)
    hand.group(path / "trajectory", sequence_schema={"blocks": {"zinc": {}, "atoms": {}}})
    for name in ("box", "atoms", "zinc", "meta", "extra"):
        hand.group(path / "trajectory" / name)
    hand.array(path / "trajectory" / "step", [0])
    hand.array(path / "trajectory" / "time", [0.0])

    def names(section: str) -> list[str]:
        lines = [line[5:] for line in tree_lines(path, [section], zarr=False)]
        return [line.removeprefix(" \\-- ").split("/")[0].split(":")[0] for line in lines if line.startswith(" \\-- ")]

    assert names("frame") == ["atoms", "bonds", "angles", "dihedrals", "impropers", "grid", "zinc", "box"]
    assert names("trajectory") == ["meta", "step", "time", "zinc", "atoms", "extra", "box"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (np.array(1.5), "x: f64[] = 1.5"),
        (np.zeros(0), "x: f64[0] = []"),
        (np.array([np.nan, np.inf, -0.0, 1e300]), "x: f64[4] = [nan, inf, -0.0, 1e+300]"),
        (np.array([2**64 - 1], np.uint64), "x: u64[1] = [18446744073709551615]"),
        (np.array([1 + 2j]), "x: c128[1] = [(1+2j)]"),
        (np.array(["a\nb", "é"]), 'x: string[2] = ["a\\nb", "é"]'),
        (np.array(["y" * 100]), "x: string[1] = […]"),
        (np.arange(7), "x: i64[7] = [0, 1, 2, 3, 4, 5, …]"),
    ],
)
def test_values(tmp_path: Path, values: Any, shown: str) -> None:
    path = hand.record(tmp_path / "values.mrec")
    hand.group(path / "frame")
    hand.array(path / "frame" / "x", values)
    assert list(tree_lines(path, ["frame"], zarr=False))[-1].strip(" \\-") == shown


def test_a_wide_row_is_not_read(tmp_path: Path) -> None:
    path = hand.record(tmp_path / "wide.mrec")
    hand.group(path / "frame")
    hand.array(path / "frame" / "x", np.ones((2, 1000)))
    assert [line.strip() for line in tree_lines(path, ["frame"])][-3:] == [
        "\\-- x: f64[2][1000] =",
        "[…]",
        "zarr: chunk [2, 1000] · bytes → crc32c",
    ]


def test_json_that_does_not_fit_is_broken_at_88_characters() -> None:
    head = " +-- key: "
    fits = "v" * (88 - len(head) - 2)
    assert list(json_lines(head, fits, " |    ")) == [f'{head}"{fits}"']
    member = "v" * (88 - len(" |      ") - 3)
    assert list(json_lines(head, [member, [], {}], " |    ")) == [
        f"{head}[",
        f' |      "{member}",',
        " |      [],",
        " |      {}",
        " |    ]",
    ]


def test_attributes_with_nothing_below_are_continued_without_a_bar(tmp_path: Path) -> None:
    path = hand.record(tmp_path / "long.mrec", source=["s" * 40, "t" * 40])
    assert list(tree_lines(path))[2:] == [
        "      +-- molrec_version: 1",
        "      +-- source: [",
        "             " + f'"{"s" * 40}",',
        "             " + f'"{"t" * 40}"',
        "           ]",
    ]


def test_unknown_section_is_a_usage_error_that_lists_what_there_is(tmp_path: Path) -> None:
    path = hand.record(tmp_path / "few.mrec")
    hand.group(path / "frame")
    with pytest.raises(UsageError, match=r"has no section 'sytem'; it has meta, frame$"):
        list(tree_lines(path, ["sytem"]))


def test_a_folder_that_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"found no zarr.json, expected a MolRec record"):
        list(tree_lines(tmp_path))
    (tmp_path / "zarr.json").write_bytes(b"\xff\x00{")
    with pytest.raises(FormatError, match=r"zarr\.json is not valid JSON"):
        list(tree_lines(tmp_path))


def test_strange_content_is_shown_and_never_a_crash(tmp_path: Path) -> None:
    path = hand.record(tmp_path / "odd.mrec")
    frame = hand.group(path / "frame", **{"new\nline": 1, "_zarrs": {"cache": 1}})
    (frame / "plain").mkdir()
    (frame / "note.txt").write_text("hello")
    (frame / "broken").mkdir()
    (frame / "broken" / "zarr.json").write_text("{")
    os.symlink(path, frame / "loop")
    hand.array(frame / "f16", [1.0])
    hand.edit_json(frame / "f16", lambda document: document.update(data_type="float16"))
    hand.array(frame / "huge", [1.0])
    hand.edit_json(frame / "huge", lambda document: document.update(shape=[10**15]))
    hand.array(frame / "shapeless", [1.0])
    hand.edit_json(frame / "shapeless", lambda document: document.update(shape="x", codecs=3, chunk_grid=None))
    text = "\n".join(tree_lines(path))
    assert '+-- "new\\nline": 1' in text
    assert "_zarrs" not in text
    assert "plain/    (a plain folder, not a Zarr node)" in text
    assert "note.txt    (a plain file, not a Zarr node)" in text
    assert "broken/    (frame/broken: zarr.json is not valid JSON" in text
    assert "loop/    (a link leads back to a folder above it)" in text
    assert "f16: float16[1] = ? (frame/f16: the array's data type is not one of the contract's" in text
    assert "huge: f64[1000000000000000] = " in text
    assert "shapeless: f64[?] = ?" in text


def test_files_of_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "fit.mrec"
    store(build_fit(), path)
    (path / "metrics" / ".zarr.json.1.tmp").write_text("")
    lines = list(file_lines(path))
    assert "  metrics/metrics.jsonl                       plain file" in lines
    assert "  metrics/series/eval%2FMAE/c/0               chunk 0" in lines
    assert "  zarr.json                                   group metadata" in lines
    assert "  metrics/series/eval%2FMAE/zarr.json         array metadata" in lines
    assert lines == sorted(lines)
    assert not any(".tmp" in line for line in lines)
