"""The log of records and the index that is made of it: late elements, unknown ones, keys of several kinds."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from migration_inputs import extxyz, run

from molrec_convert.errors import ContractError
from molrec_convert.migration import Settings
from molrec_convert.migration.outputs import files as log_module
from molrec_convert.migration.outputs.files import RecordLog, log_entry
from molrec_convert.migration.outputs.index import build_index, build_plain_index
from molrec_convert.migration.verify import verify_collection
from molrec_convert.model.collection.index import column_values
from molrec_convert.model.declaration import ColumnDeclaration
from molrec_convert.model.dtypes import DTYPES, plain_values
from molrec_convert.stores.lmdb.reader import open_collection

ENTRIES = st.lists(
    st.tuples(
        st.binary(max_size=40),
        st.none() | st.binary(max_size=200),
        st.binary(max_size=40),
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**64 - 1),
        st.booleans(),
        st.sampled_from([b"", b"d" * 16]),
    ),
    max_size=20,
)


def logged(path: Path, entries: list[Any]) -> RecordLog:
    """A log of entries, given as the arguments of `log_entry` but for the checksum of frames."""
    log = RecordLog(path)
    log.cut(0)
    log.append(log_entry(*entry, 0) for entry in entries)
    return log


def flat(runs: Any) -> list[tuple[int, bytes]]:
    """Numbers and values of runs."""
    return [pair for numbers, values in runs for pair in zip(numbers, values, strict=True)]


@given(ENTRIES, st.integers(1, 400), st.integers(1, 5))
def test_a_log_gives_back_what_went_in_whatever_the_buffer(tmp_path_factory, entries, buffer, every):
    folder = tmp_path_factory.mktemp("log")
    log = logged(folder / "log", entries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_module, "_BUFFER", buffer)
        assert flat(log.metas()) == [(n, entry[0]) for n, entry in enumerate(entries)]
        assert flat(log.systems()) == [(n, entry[1]) for n, entry in enumerate(entries) if entry[1] is not None]
        assert [digest for some in log.digests() for digest in some] == [entry[6] for entry in entries]
        rows = list(log.rows())
        for field, at in (("texts", 2), ("n_frames", 3), ("n_atoms", 4), ("has_trajectory", 5)):
            assert [value for some in rows for value in getattr(some, field)] == [entry[at] for entry in entries]
        starts = [*log.starts(every), (log.size, 0)]
        assert [frames for _, frames in starts[:-1]] == [
            sum(entry[3] for entry in entries[:n]) for n in range(0, len(entries), every)
        ]
        for part, ((start, _), (stop, _)) in enumerate(itertools.pairwise(starts)):
            own = entries[part * every : (part + 1) * every]
            assert flat(log.metas(start, stop)) == [(n, entry[0]) for n, entry in enumerate(own)]
            assert flat(log.systems(start, stop)) == [(n, e[1]) for n, e in enumerate(own) if e[1] is not None]
    log.close()


def test_an_entry_larger_than_the_buffer_is_read_whole(tmp_path):
    big = random.Random(3).randbytes(5 * 2**20)
    entries = [(b"{}", big[:n], b"row", 1, 2, True, b"") for n in (10, len(big), 7, 3 * 2**20)]
    log = logged(tmp_path / "log", entries)
    assert [value for _, value in flat(log.systems())] == [entry[1] for entry in entries]
    assert [text for rows in log.rows() for text in rows.texts] == [b"row"] * 4


def test_a_log_that_ends_in_an_entry_says_so(tmp_path):
    log = logged(tmp_path / "log", [(b"{}", b"system", b"row", 1, 2, True, b"")] * 2)
    log.cut(log.size - 3)
    with pytest.raises(EOFError, match="in the middle of an entry"):
        list(log.metas())


def row(columns: dict[str, Any], elements: dict[str, Any] | None) -> bytes:
    """The text of a row."""
    return json.dumps({"columns": columns, "elements": elements}).encode()


def table_log(path: Path, rows: list[bytes]) -> RecordLog:
    """A log of records of one frame."""
    return logged(path, [(b"{}", None, text, 1, 3, True, b"") for text in rows])


def values_of(block: Any) -> dict[str, tuple[str, list[Any]]]:
    """Dtypes and values of an index, by the names of its columns."""
    return {name: (column.dtype, column_values(column)) for name, column in block.columns.items()}


def test_elements_that_turn_up_late_are_zero_before_and_null_where_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(log_module, "_BUFFER", 256)
    tables: list[Any] = [{"H": 2, "O": 1}, None, {}, {"H": 4, "C": 1}, {"Zr": 5}, None, {"H": 2, "O": 1}] * 5
    tables.append({"Au": 2**32 - 1})
    log = table_log(tmp_path / "log", [row({"energy": float(n)}, table) for n, table in enumerate(tables)])
    found = values_of(build_index(log, Settings(), {}, {}))
    own = [name for name in found if name.startswith("n_") and name not in ("n_frames", "n_atoms")]
    assert own == ["n_Au", "n_C", "n_H", "n_O", "n_Zr"]
    assert list(found)[4:8] == ["formula", "energy", "source", "source_record"]
    for name in own:
        expected = [None if table is None else table.get(name[2:], 0) for table in tables]
        assert found[name] == ("u32", expected), name
    assert found["formula"] == ("string", [None] * len(tables))
    assert found["energy"] == ("f64", [float(n) for n in range(len(tables))])


def test_nothing_is_counted_where_no_elements_are_known(tmp_path):
    log = table_log(tmp_path / "log", [row({}, None), row({}, {})])
    assert [*values_of(build_index(log, Settings(), {}, {}))][4:] == ["formula", "energy", "source", "source_record"]
    log.cut(0)
    empty = build_index(log, Settings(group_by="x"), {}, {})
    assert empty.count == 0
    assert [*empty.columns][-1] == "molecule_id"


def test_keys_of_several_kinds_are_texts_and_others_as_their_values_are(tmp_path, monkeypatch):
    monkeypatch.setattr(log_module, "_BUFFER", 300)
    kinds: dict[str, list[Any]] = {
        "mixed": [1, 2.5, "word", True, None, 2**70],
        "number": [1, 2.5, None, -0.0, 7, 2**40],
        "whole": [1, None, 3, -4, 5, 2**40],
        "large": [2**63 + n for n in range(6)],
        "flag": [True, False, None, True, True, False],
        "word": ["a", "b\0", "", None, "é", "x"],
        "nothing": [None] * 6,
    }
    rows = [row({name: values[n % 6] for name, values in kinds.items()}, {"H": 1}) for n in range(60)]
    log = table_log(tmp_path / "log", rows)
    found = values_of(build_index(log, Settings(index=tuple(kinds)), {}, {}))
    assert [*found][-7:] == [*kinds]
    texts = ["1", "2.5", "word", "True", None, str(2**70)]
    assert found["mixed"] == ("string", texts * 10)
    assert found["number"] == ("f64", [1.0, 2.5, None, -0.0, 7.0, 2.0**40] * 10)
    dtypes = {"whole": "i64", "large": "u64", "flag": "bool", "word": "string", "nothing": "string"}
    for name, dtype in dtypes.items():
        assert found[name] == (dtype, kinds[name] * 10), name
    before = {"whole": ColumnDeclaration("u8"), "word": ColumnDeclaration("string"), "old": ColumnDeclaration("f64")}
    with pytest.raises(ContractError, match="index/whole: a value does not fit u8"):
        build_index(log, Settings(), {}, before)
    del before["whole"]
    assert [*values_of(build_index(log, Settings(), {"word": "string"}, before)).items()][-2:] == [
        ("word", ("string", kinds["word"] * 10)),
        ("old", ("f64", [None] * 60)),
    ]


def test_values_that_are_not_plain_are_looked_at_together(tmp_path, monkeypatch):
    monkeypatch.setattr(log_module, "_BUFFER", 300)
    rows = [row({"energy": n, "source_record": n}, {"H": 2.0 if n == 9 else 2, "C": 1}) for n in range(20)]
    found = values_of(build_index(table_log(tmp_path / "a", rows), Settings(), {}, {}))
    assert found["energy"] == ("f64", [float(n) for n in range(20)])
    assert found["n_H"] == ("u32", [2] * 20)
    assert found["n_C"] == ("u32", [1] * 20)
    for table, message in (({"H": 2.5}, "a value does not fit u32"), ({"H": -1}, "a value does not fit u32")):
        log = table_log(tmp_path / "b", [*rows, row({}, table)])
        with pytest.raises(ContractError, match=f"index/n_H: {message}"):
            build_index(log, Settings(), {}, {})
        with pytest.raises(ContractError, match="index/source_record: a value does not fit u64"):
            build_plain_index(table_log(tmp_path / "c", [*rows, row({"source_record": -1}, None)]))


@given(st.data(), st.sampled_from([name for name in DTYPES if name not in ("c64", "c128")]))
def test_plain_values_are_those_that_stay_what_they_are(data, dtype):
    kinds = st.integers(-(2**65), 2**65) | st.floats() | st.booleans() | st.text(max_size=5)
    near = st.integers(-130, 260)
    values = data.draw(st.lists(data.draw(st.sampled_from([kinds, near, st.floats(), st.booleans()])), max_size=8))
    found = plain_values(values, dtype)
    kind = DTYPES[dtype].numpy.kind
    type_ = {"f": float, "b": bool, "T": str}.get(kind, int)
    fits = bool(values) and all(type(value) is type_ for value in values)
    if fits and kind in "iu":
        limits = np.iinfo(DTYPES[dtype].numpy)
        fits = all(limits.min <= value <= limits.max for value in values)
    assert (found is not None) == fits
    if found is not None:
        assert found.dtype == DTYPES[dtype].numpy
        assert repr(found.tolist()) == repr(values)
    assert plain_values(["\ud800"], "string") is None


def test_a_key_that_is_called_like_a_count_has_its_own_values(tmp_path):
    for folder, count in (("a", 3), ("b", 2)):
        (tmp_path / folder).mkdir()
        for number in range(count):
            text = extxyz(number, n_bonds=number + 5)
            (tmp_path / folder / f"{number}.extxyz").write_text(text)
    target = tmp_path / "out.mrec.lmdb"
    for inputs in ([tmp_path / "a"], [tmp_path / "b"]):
        # the second time records are added to those there are
        run(inputs, target, index=("n_bonds", "n_H", "n_Xe"))
    with open_collection(target) as collection:
        found = values_of(collection.index)
        systems = [collection[number].system for number in range(5)]
        counts = [system.blocks["atoms"]["element"].tolist().count("H") for system in systems]
        assert verify_collection(collection, [str(tmp_path / "a"), str(tmp_path / "b")]).is_equal
    assert found["n_bonds"] == ("i64", [5, 6, 7, 5, 6])
    assert found["n_H"] == ("i64", counts)
    assert found["n_Xe"] == ("i64", [0] * 5)
    # without being asked for it is kept as it is
    (tmp_path / "c.extxyz").write_text(extxyz(9, n_bonds=9))
    run([tmp_path / "c.extxyz"], target)
    with open_collection(target) as collection:
        assert values_of(collection.index)["n_bonds"][1][:5] == [5, 6, 7, 5, 6]
