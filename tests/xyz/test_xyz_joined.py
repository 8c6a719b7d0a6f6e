"""Many files read in one go are what each is alone, or are not read so."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from migration_inputs import extxyz

import molrec_convert
from molrec_convert.formats import NotBatchable, ReadContext
from molrec_xyz.joined import read_joined
from molrec_xyz.plugin import XyzOptions


def joined(folder, texts):
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.extxyz"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(path)
    return paths, read_joined(paths, ReadContext(XyzOptions(), arrangement="collection", target="collection"))


def alone(paths):
    return [record for path in paths for record in molrec_convert.read(path, as_="collection")]


def test_records_and_declaration_are_those_of_each(tmp_path):
    paths, found = joined(tmp_path, [extxyz(n, frames=1 + n % 3, tag=f"t{n}", level=str(n)) for n in range(12)])
    assert found is not None
    collection, counts = found
    assert counts == [1 + n % 3 for n in range(12)]
    each = alone(paths)
    assert [r.system["atoms"] for r in collection] == [r.system["atoms"] for r in each]
    assert [r.trajectory[0] for r in collection] == [r.trajectory[0] for r in each]
    for path in paths:
        with molrec_convert.read(path, as_="collection") as single:
            assert single.declaration.to_json() == collection.declaration.to_json()


FIRST = extxyz(1)


@pytest.mark.parametrize(
    "other",
    [
        extxyz(2, energy=None),
        extxyz(2, extra="1"),
        extxyz(2, step="5"),
        extxyz(2).replace("forces", "force2"),
        extxyz(2).replace("H ", "H1 ").replace("C ", "H1 ").replace("N ", "H1 ").replace("O ", "H1 "),
        extxyz(2).rstrip("\n"),
        "\n" + extxyz(2),
        extxyz(2) + "the end\n",
        "2\nplain\nH 0 0 0\nH 0 0 1\n",
        extxyz(2)[:-40],
        "\ufeff" + extxyz(2),
        gzip.compress(extxyz(2).encode()),
        b"",
    ],
    ids=range(13),
)
@pytest.mark.parametrize("first", [True, False])
def test_files_that_are_not_alike_are_read_one_by_one(tmp_path, other, first):
    texts = [other, FIRST] if first else [FIRST, other]
    try:
        _, found = joined(tmp_path, texts)
    except (molrec_convert.FormatError, NotBatchable):
        return
    assert found is None


def test_a_blank_line_at_the_end_is_nothing(tmp_path):
    paths, found = joined(tmp_path, [FIRST, extxyz(2) + "\n"])
    assert found is not None
    assert [r.trajectory[0] for r in found[0]] == [r.trajectory[0] for r in alone(paths)]


def test_numbers_that_would_be_integers_alone(tmp_path):
    _, found = joined(tmp_path, [extxyz(1, level="1.5"), extxyz(2, level="2")])
    assert found is None


VALUES = st.sampled_from(["1", "2.5", "-3", "T", "abc", '"1 2 3"', '"1 2.5 3"', '"a b"', "nan", None])


@settings(max_examples=60)
@given(st.lists(VALUES, min_size=2, max_size=4))
def test_whatever_keys_are(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("files")
    paths, found = joined(folder, [extxyz(n, some_key=value) for n, value in enumerate(values)])
    if found is None:
        return
    for record, single in zip(found[0], alone(paths), strict=True):
        assert record.trajectory[0] == single.trajectory[0]
    for path in paths:
        with molrec_convert.read(path, as_="collection") as single:
            assert single.declaration.to_json() == found[0].declaration.to_json()
