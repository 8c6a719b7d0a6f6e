"""Collections divided at random: nothing twice, nothing lost, no group on two sides, the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import POINTS, UNITS, contents, molecule, points, write
from hypothesis import given, settings
from hypothesis import strategies as st

import molrec_convert
from molrec_convert import MemoryCollection, ShardedCollectionWriter, UsageError
from molrec_convert.cli import run
from molrec_convert.conversion.collections import parse_fractions, split_positions
from molrec_convert.model import Record

THIRDS = parse_fractions("train=0.8,valid=0.1,test=0.1")


def collection(values: list[Any], dtype: str | None = None) -> MemoryCollection:
    records = [Record(meta={} if v is None else {"group": v}, system=molecule()) for v in values]
    return MemoryCollection(records, units=UNITS, index_columns={"group": dtype})


def check(sides: dict[str, Any], count: int) -> None:
    together = np.concatenate(list(sides.values()))
    assert np.sort(together).tolist() == list(range(count))
    assert all((np.diff(side) > 0).all() for side in sides.values())


def test_sizes_are_those_asked_for() -> None:
    sides = split_positions(collection(["a"] * 1000), THIRDS)
    assert {name: len(side) for name, side in sides.items()} == {"train": 800, "valid": 100, "test": 100}
    check(sides, 1000)


def test_the_division_is_the_same_anywhere() -> None:
    """Fixed numbers: whoever changes them changes the sets people have."""
    values = [f"m{n % 17}" for n in range(60)]
    sides = split_positions(collection(values), parse_fractions("train=0.5,test=0.5"), by="group", seed=3)
    assert sorted({values[n] for n in sides["test"]}) == EXPECTED
    assert split_positions(collection(values), {"train": 0.5, "test": 0.5}, by="group", seed=4).keys() == sides.keys()
    other = split_positions(collection(values), {"train": 0.5, "test": 0.5}, by="group", seed=4)
    assert sorted({values[n] for n in other["test"]}) != EXPECTED


EXPECTED = ["m1", "m11", "m12", "m13", "m15", "m16", "m2", "m3", "m9"]


@given(
    st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "c", "", "ä"]), st.text(max_size=2)), min_size=30),
    st.integers(-(2**70), 2**70),
)
@settings(max_examples=60)
def test_no_group_on_two_sides(values: list[str | None], seed: int) -> None:
    try:
        sides = split_positions(collection(values, "string"), {"train": 0.7, "test": 0.3}, by="group", seed=seed)
    except UsageError:
        assert len({v for v in values if v is not None}) + sum(v is None for v in values) < 30
        return
    check(sides, len(values))
    there = [{values[n] for n in side} - {None} for side in sides.values()]
    assert not there[0] & there[1]


@pytest.mark.parametrize(
    "values",
    [
        [0.0, -0.0, 1.0, float("nan"), float("nan"), 2.0] * 10,
        [n % 7 for n in range(60)],
        [bool(n % 2) for n in range(60)],
    ],
)
def test_groups_of_numbers(values: list[Any]) -> None:
    sides = split_positions(collection(values), {"a": 0.5, "b": 0.5}, by="group")
    check(sides, 60)
    there = [{"nan" if values[n] != values[n] else values[n] for n in side} for side in sides.values()]
    assert not there[0] & there[1]


def test_groups_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="of 2 groups of equal group none is left for 'valid'"):
        split_positions(collection(["a", "b"] * 20), THIRDS, by="group")
    with pytest.raises(UsageError, match="has no index column 'other'"):
        split_positions(collection(["a"]), THIRDS, by="other")
    with pytest.raises(UsageError, match="of 2 records none is left"):
        split_positions(collection(["a", "b"]), THIRDS)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("train=0.8,test=0.3", "add up to 1.1"),
        ("train=0.8,test", "found 'test'"),
        ("train=0.8,test=x", "found 'test=x'"),
        ("train=0,test=1", "found 'train=0'"),
        ("train=nan,test=1", "found 'train=nan'"),
        ("a=0.5,a=0.5", "named twice"),
        ("../a=0.5,b=0.5", "part of a file's name"),
        ("", "found ''"),
    ],
)
def test_wrong_fractions(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        parse_fractions(text)


def records(count: int) -> list[Record]:
    return [
        Record(
            meta={"record_id": f"r{n}"},
            system=molecule("OH", molecule_id=f"m{n // 4}"),
            trajectory=points(n, n % 3 + 1).trajectory,
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("shards", [False, True])
def test_the_command(tmp_path: Path, shards: bool, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "all.mrec.lmdb"
    if shards:
        with ShardedCollectionWriter.create(
            source, shard_records=30, declaration=POINTS, units=UNITS, index_columns=["molecule_id"]
        ) as writer:
            writer.extend(records(100))
    else:
        write(source, records(100), index_columns=["molecule_id"])
    assert run(["split", str(source), "--by", "molecule_id", "--seed", "5"]) == 0
    err = capsys.readouterr().err
    assert f"{tmp_path / 'all-train.mrec.lmdb'}: 80 records, " in err
    groups, names = [], []
    for side in ("train", "valid", "test"):
        path = tmp_path / f"all-{side}.mrec.lmdb"
        assert run(["validate", str(path)]) == 0
        with molrec_convert.open(path) as part:
            groups.append(set(part.index["molecule_id"].tolist()))
            names += [record.meta["record_id"] for record in part]
            assert part.frame(0)["atoms"]["x"].tolist() == [int(names[-len(part)][1:]) * 100 + k for k in (0.0, 1.0)]
    assert sorted(names) == sorted(f"r{n}" for n in range(100))
    assert not groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2]
    before = contents(tmp_path / "all-test.mrec.lmdb")
    assert run(["split", str(source), "--by", "molecule_id", "--seed", "5"]) == 2
    assert run(["split", str(source), "--by", "molecule_id", "--seed", "5", "--overwrite"]) == 0
    assert contents(tmp_path / "all-test.mrec.lmdb") == before
    (tmp_path / "sets").mkdir()
    pattern = str(tmp_path / "sets" / "{}.mrec.lmdb")
    assert run(["split", str(source), "--fractions", "a=0.5,b=0.5", "-o", pattern]) == 0
    assert sorted(p.name for p in (tmp_path / "sets").iterdir()) == ["a.mrec.lmdb", "b.mrec.lmdb"]


def test_wrong_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "all.mrec.lmdb", records(20), index_columns=["molecule_id"])
    molrec_convert.write(points(0), tmp_path / "r.mrec")
    for arguments, text in (
        (["--by", "nosuch"], "has no index column 'nosuch'"),
        (["--fractions", "a=0.5"], "add up to 0.5"),
        (["-o", "x.mrec.lmdb"], "has no {}"),
        (["-o", str(tmp_path / "no" / "{}.mrec.lmdb")], "there is no directory"),
        (["-o", str(tmp_path / "{}.mrec")], "must end in .mrec.lmdb"),
    ):
        assert run(["split", str(source), *arguments]) == 2
        assert text in capsys.readouterr().err
    assert run(["split", str(tmp_path / "r.mrec")]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.mrec.lmdb", "r.mrec"]
