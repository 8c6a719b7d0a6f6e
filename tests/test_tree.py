"""The tree notation: the page's trees line by line, and stores no one should meet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hand_built as hand
import numpy as np
import pytest
from seed_examples import build_reaction, build_vibration, build_water, seed_listing, seed_tree

from molrec_convert.errors import FormatError, UsageError
from molrec_convert.formats import WriteContext
from molrec_convert.model import Record
from molrec_convert.stores.zarr.packing import pack
from molrec_convert.stores.zarr.record_writer import write_record
from molrec_convert.tree import file_lines, tree_lines
from molrec_convert.tree.text import json_lines


def build_force_field(path: Path) -> None:
    hand.group(
        path,
        name="h2o2-demo",
        units={"preset": "real"},
        special_bonds={"lj": [0.0, 0.0, 0.5], "coul": [0.0, 0.0, 0.8333]},
        styles=[
            {"category": "atom", "style": "full"},
            {"category": "bond", "style": "harmonic"},
            {"category": "angle", "style": "harmonic"},
            {"category": "dihedral", "style": "periodic"},
            {"category": "pair", "style": "lj/cut", "params": {"cutoff": 10.0, "mixing": "geometric"}},
        ],
    )
    tables: dict[str, dict[str, Any]] = {
        "angle.harmonic": {
            "k": [100.0],
            "theta0": [1.7488],
            "name": ["H1-O1-O1"],
            "itom": ["H1"],
            "jtom": ["O1"],
            "ktom": ["O1"],
        },
        "atom.full": {
            "mass": [1.008, 15.999],
            "charge": [0.41, -0.41],
            "name": ["H1", "O1"],
            "element": ["H", "O"],
            "ptype": ["A", "A"],
        },
        "bond.harmonic": {
            "k": [600.0, 1106.0],
            "r0": [1.475, 0.967],
            "name": ["O1-O1", "O1-H1"],
            "itom": ["O1", "O1"],
            "jtom": ["O1", "H1"],
        },
        "dihedral.periodic": {
            "k1": [1.2, 0.5],
            "k2": [0.8, 0.0],
            "periodicity1": [1.0, 3.0],
            "periodicity2": [2.0, 0.0],
            "phase1": [0.0, 0.0],
            "phase2": [3.141592654, 0.0],
            "name": ["H1-O1-O1-H1", "X-O1-O1-X"],
            "itom": ["H1", ""],
            "jtom": ["O1", "O1"],
            "ktom": ["O1", "O1"],
            "ltom": ["H1", ""],
        },
        "pair.lj%2Fcut": {
            "epsilon": [0.17, 0.0],
            "sigma": [3.0, 1.0],
            "name": ["O1-O1", "H1-H1"],
            "itom": ["O1", "H1"],
            "jtom": ["O1", "H1"],
        },
    }
    for name, columns in tables.items():
        hand.block(path / name, columns)
    masks = hand.group(path / "dihedral.periodic" / "_validity")
    for name in ("k2", "periodicity2", "phase2"):
        hand.array(masks / name, [True, False])


def build_peroxide_system(path: Path) -> None:
    hand.group(path, smiles="OO", total_charge=0, _meta_types={"smiles": "string", "total_charge": "i64"})
    u64 = np.uint64
    hand.block(path / "atoms", {"type": ["H1", "O1", "O1", "H1"], "element": ["H", "O", "O", "H"]})
    hand.block(
        path / "bonds",
        {
            "type": ["O1-H1", "O1-O1", "O1-H1"],
            "atomi": np.array([0, 1, 2], u64),
            "atomj": np.array([1, 2, 3], u64),
        },
    )
    hand.block(
        path / "angles",
        {
            "atomi": np.array([0, 3], u64),
            "atomj": np.array([1, 2], u64),
            "atomk": np.array([2, 1], u64),
            "type": ["H1-O1-O1", "H1-O1-O1"],
        },
    )
    ends = {name: np.array([row], u64) for row, name in enumerate(("atomi", "atomj", "atomk", "atoml"))}
    hand.block(path / "dihedrals", {**ends, "type": ["H1-O1-O1-H1"]})


def build_observables(path: Path) -> None:
    hand.group(path)
    hand.group(path / "meta")
    hand.array(path / "dipole", [0.0, 0.0, 0.3929])
    hand.array(path / "msd", [0.0, 0.0011, 0.0024, 0.0031])
    hand.group(
        path / "meta" / "dipole",
        kind="vector",
        description="molecular dipole moment",
        time_dependent=False,
        unit="e*angstrom",
    )
    hand.group(
        path / "meta" / "msd",
        kind="scalar",
        description="mean squared displacement",
        time_dependent=True,
        unit="angstrom**2",
        sampling="per_frame",
    )


def build_fit(path: Path) -> None:
    stamp = "2026-08-04T00:00:0{}+00:00"
    hand.record(path, creator={"name": "molrec-fixtures", "version": "0.0.0"}, created_at=stamp.format(0))
    hand.group(
        path / "method",
        type="training",
        description="fit a potential to the H2O2 conformers",
        engine={"name": "molnex", "version": "0.0.0"},
    )
    hand.group(
        path / "status",
        state="succeeded",
        stage="train",
        global_step=2,
        started_at=stamp.format(0),
        finished_at=stamp.format(2),
    )
    latest = {"latest_step": 2, "latest_timestamp": stamp.format(2)}
    metrics = hand.group(
        path / "metrics",
        wal={"lines": 3, "bytes": 233},
        series={
            "train/loss": {"type": "scalar", "count": 2, **latest},
            "eval/MAE": {"type": "scalar", "count": 1, **latest},
        },
    )
    (metrics / "metrics.jsonl").write_text("{}\n")
    for field in ("series", "steps", "wall_time"):
        hand.group(metrics / field)
    hand.array(metrics / "series" / "eval%2FMAE", [0.1])
    hand.array(metrics / "series" / "train%2Floss", [0.5, 0.25])
    hand.array(metrics / "steps" / "eval%2FMAE", [2])
    hand.array(metrics / "steps" / "train%2Floss", [1, 2])
    hand.array(metrics / "wall_time" / "eval%2FMAE", [stamp.format(2)])
    hand.array(metrics / "wall_time" / "train%2Floss", [stamp.format(1), stamp.format(2)])


def store(record: Record, path: Path) -> Path:
    write_record(record, path, WriteContext(creator=False))
    return path


@pytest.mark.parametrize(
    ("name", "build"), [("water", build_water), ("vibration", build_vibration), ("reaction", build_reaction)]
)
def test_trees_of_the_page_out_of_our_writer(tmp_path: Path, shared: Path, name: str, build: Any) -> None:
    path = store(build(), tmp_path / f"{name}.mrec")
    assert list(tree_lines(path)) == seed_tree(shared, f"{name}.mrec")


def test_listing_of_the_page_out_of_our_packer(tmp_path: Path, shared: Path) -> None:
    path, packed = store(build_water(), tmp_path / "water.mrec"), tmp_path / "water.mrec.zip"
    pack(path, packed)
    listing = seed_listing(shared)
    assert len(listing) == 30
    assert list(file_lines(packed)) == listing
    assert list(file_lines(path)) == listing
    assert list(tree_lines(packed, name="water.mrec")) == seed_tree(shared, "water.mrec")


def test_force_field_tree_of_the_page(tmp_path: Path, shared: Path) -> None:
    path = hand.record(tmp_path / "peroxide.mrec")
    build_force_field(path / "forcefield")
    assert list(tree_lines(path, ["forcefield"])) == seed_tree(shared, "peroxide.mrec")


def test_system_tree_of_the_page_without_codec_lines(tmp_path: Path, shared: Path) -> None:
    path = hand.record(tmp_path / "peroxide.mrec")
    build_force_field(path / "forcefield")
    build_peroxide_system(path / "system")
    assert list(tree_lines(path, ["system"], zarr=False)) == seed_tree(shared, "peroxide.mrec", 1)


def test_observables_tree_of_the_page(tmp_path: Path, shared: Path) -> None:
    path = hand.record(tmp_path / "results.mrec")
    build_observables(path / "observables")
    assert list(tree_lines(path, ["observables"])) == seed_tree(shared, "results.mrec")


def test_metrics_tree_of_the_page(tmp_path: Path, shared: Path) -> None:
    path = tmp_path / "fit.mrec"
    build_fit(path)
    assert list(tree_lines(path)) == seed_tree(shared, "fit.mrec")


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
    build_fit(path)
    (path / "metrics" / ".zarr.json.1.tmp").write_text("")
    lines = list(file_lines(path))
    assert "  metrics/metrics.jsonl                       plain file" in lines
    assert "  metrics/series/eval%2FMAE/c/0               chunk 0" in lines
    assert "  zarr.json                                   group metadata" in lines
    assert "  metrics/series/eval%2FMAE/zarr.json         array metadata" in lines
    assert lines == sorted(lines)
    assert not any(".tmp" in line for line in lines)
