"""ASE's files with anything in them: a sentence that names file and place, in memory that follows the file."""

import json
import random
import shutil
import sqlite3
import struct
import zlib

import pytest

pytest.importorskip("ase")

import lmdb
import numpy as np
from ase import Atoms
from ase.db import connect
from ase.io import Trajectory
from bounded_child import read_everything, sentences

import molrec_convert
from molrec_ase.databases.connection import connect as bounded
from molrec_ase.reading.ulm import UlmFile
from molrec_convert import FormatError, MolrecError, Record

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "


def images(count=4):
    found = []
    for number in range(count):
        atoms = Atoms("OH2", positions=np.arange(9.0).reshape(3, 3) + number, cell=[5, 6, 7], pbc=True)
        atoms.info["note"] = {"n": [number]}
        found.append(atoms)
    return found


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("ase") / "a.db"
    with connect(path) as rows:
        for atoms in images():
            rows.write(atoms, data={"a": [1, {"b": 2.5}]}, name="x")
    return path


@pytest.fixture(scope="module")
def trajectory(tmp_path_factory):
    path = tmp_path_factory.mktemp("ase") / "a.traj"
    with Trajectory(path, "w") as target:
        for atoms in images():
            target.write(atoms)
    return path


def fault(path, format):
    """What is said of a file, None where all of it is read."""
    try:
        with molrec_convert.read(path, format=format) as found:
            for record in [found] if isinstance(found, Record) else found:
                for frame in record.trajectory or ():
                    frame.check()
    except MolrecError as error:
        return str(error)
    return None


def data(text):
    return "UPDATE systems SET data = ? WHERE id = 3", (text,)


SCHEMAS = {
    "rows without end": ("ALTER TABLE systems RENAME TO s", f"CREATE VIEW systems AS {ENDLESS} SELECT s.* FROM s, n"),
    "another table without end": (
        "INSERT INTO information VALUES ('external_table_name', 'v')",
        f"CREATE VIEW v AS {ENDLESS} SELECT 'k' AS key, i AS value, i AS id FROM n",
    ),
    "facts without end": (
        "ALTER TABLE information RENAME TO i",
        f"CREATE VIEW information AS {ENDLESS} SELECT 'k' || i AS name, i AS value FROM n",
    ),
    "computed values": (
        "ALTER TABLE systems RENAME COLUMN numbers TO n",
        "ALTER TABLE systems ADD COLUMN numbers BLOB GENERATED ALWAYS AS (zeroblob(1000000000))",
    ),
    "a virtual table": ("ALTER TABLE systems RENAME TO s", "CREATE VIRTUAL TABLE systems USING fts5(numbers, id)"),
    "nested data": (data('{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),),
    "an array of nothing": (data('{"a": {"__ndarray__": [[1000000000000], "float64", 0.0]}}'),),
    "wide texts": (data('{"a": {"__ndarray__": [[1], "<U500000000", ["a"]]}}'),),
    "an unknown dtype": (data('{"a": {"__ndarray__": [[1], "floaty", [1]]}}'),),
    "a calculator whose name is no text": ("UPDATE systems SET calculator = x'6162' WHERE id = 3",),
    "a constraint whose arguments are no mapping": (
        """UPDATE systems SET constraints = '[{"name": "FixAtoms", "kwargs": 3}]' WHERE id = 3""",
    ),
    "text that is no text": ("UPDATE systems SET key_value_pairs = CAST(x'ff7b' AS TEXT) WHERE id = 3",),
}


@pytest.fixture(scope="module")
def told(database, tmp_path_factory):
    """What becomes of each of these databases, all read in one process of bounded memory."""
    folder = tmp_path_factory.mktemp("schemas")
    paths = []
    for number, statements in enumerate(SCHEMAS.values()):
        paths.append(folder / f"{number}.db")
        shutil.copy(database, paths[-1])
        connection = sqlite3.connect(paths[-1])
        for statement in statements:
            connection.execute(*([statement] if isinstance(statement, str) else statement))
        connection.commit()
        connection.close()
    return dict(zip(SCHEMAS, zip(paths, sentences(paths), strict=True), strict=True))


@pytest.mark.parametrize("name", SCHEMAS)
def test_databases_that_are_none(told, name):
    path, sentence = told[name]
    assert str(path) in sentence


@pytest.mark.parametrize("word", [b"unique_id TEXT", b"CREATE TABLE systems", b"calculator TEXT", b"unique_id_index"])
def test_schemas_that_are_no_utf8(database, tmp_path, word):
    path = tmp_path / "a.db"
    raw = database.read_bytes()
    assert word in raw
    path.write_bytes(raw.replace(word, word[:8] + b"\xff" + word[9:]))
    sentence = fault(path, "ase-db")
    assert sentence is None or str(path) in sentence


def test_a_query_without_end_is_stopped(database):
    connection = bounded(database)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute(f"{ENDLESS} SELECT count(*) FROM n").fetchone()
    with pytest.raises(sqlite3.DataError, match="too big"):
        connection.execute("SELECT zeroblob(100000000)").fetchone()
    assert connection.execute("SELECT count(*) FROM systems").fetchone() == (4,)
    connection.close()


def with_item(path, target, change):
    """A trajectory whose last item says something else, at its end."""
    raw = path.read_bytes()
    first, count = struct.unpack_from("<q", raw, 40)[0], struct.unpack_from("<q", raw, 32)[0]
    place = first + 8 * (count - 1)
    (offset,) = struct.unpack_from("<q", raw, place)
    (length,) = struct.unpack_from("<q", raw, offset)
    item = json.loads(raw[offset + 8 : offset + 8 + length])
    changed = change(item)
    text = changed if isinstance(changed, bytes) else json.dumps(item).encode()
    head = raw[:place] + struct.pack("<q", len(raw)) + raw[place + 8 :]
    target.write_bytes(head + struct.pack("<q", len(text)) + text)
    return target


def positions(item, **changes):
    shape, dtype, offset = item["positions."]["ndarray"]
    place = {"shape": shape, "dtype": dtype, "offset": offset, **changes}
    item["positions."]["ndarray"] = [place["shape"], place["dtype"], place["offset"]]


CHANGES = {
    "an unknown dtype": lambda item: positions(item, dtype="floaty"),
    "a dtype of objects": lambda item: positions(item, dtype="O"),
    "a dtype of texts": lambda item: positions(item, dtype="U1000000000"),
    "a dtype that is none": lambda item: positions(item, dtype=7),
    "a huge shape": lambda item: positions(item, shape=[10**12, 3]),
    "a shape beyond integers": lambda item: positions(item, shape=[10**30, 3]),
    "a negative shape": lambda item: positions(item, shape=[-3, 3]),
    "no atoms in many rows": lambda item: positions(item, shape=[10**15, 0]),
    "an offset before the file": lambda item: positions(item, offset=-8),
    "an offset behind it": lambda item: positions(item, offset=10**18),
    "nested lists": lambda item: b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "nested parts": lambda item: b'{"a.":' * 900 + b"{}" + b"}" * 900,
    "a list": lambda item: b"[]",
    "no text": lambda item: b"\xff\xfe",
    "an array of nothing": lambda item: item.update(a={"__ndarray__": [[10**12], "float64", 0.0]}),
    "no positions": lambda item: item.pop("positions."),
    "positions that are a part": lambda item: item.update({"positions.": {"a": 1}}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_trajectories_that_are_none(trajectory, tmp_path, name):
    path = with_item(trajectory, tmp_path / "a.traj", CHANGES[name])
    with pytest.raises(FormatError, match="frame 3") as caught:
        read_everything(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("place", "value"), [(32, 10**12), (32, -1), (40, 10**12), (40, -8), (40, 2**63 - 1)])
def test_tables_of_items_that_are_none(trajectory, tmp_path, place, value):
    path = tmp_path / "a.traj"
    raw = bytearray(trajectory.read_bytes())
    struct.pack_into("<q", raw, place, value)
    path.write_bytes(raw)
    with pytest.raises(FormatError, match="a table of"):
        read_everything(path)


def test_what_ulm_reads_is_what_ase_reads(trajectory):
    from ase.io import ulm

    ours, theirs = UlmFile(trajectory), ulm.open(str(trajectory))
    assert len(ours) == len(theirs) == 4
    for number in range(4):
        item = ours.item(number)
        assert set(item) == set(theirs[number].keys())
        assert np.array_equal(item["positions"].read(), theirs[number].positions)
        assert item["info"] == theirs[number].info
    ours.close()
    theirs.close()


@pytest.mark.parametrize("kind", ["traj", "db", "json", "aselmdb"])
def test_altered_and_cut_files(database, trajectory, tmp_path, kind):
    if kind == "aselmdb":
        pytest.importorskip("ase_db_backends")
    source = {"traj": trajectory, "db": database}.get(kind)
    if source is None:
        source = tmp_path / f"whole.{kind}"
        molrec_convert.convert(database, source, to_format="ase-db")
    raw, path, chance, refused = source.read_bytes(), tmp_path / f"a.{kind}", random.Random(7), 0
    for number in range(100):
        altered = bytearray(raw)
        if number % 3 == 0:
            del altered[chance.randrange(len(altered)) :]
        else:
            for _ in range(number % 7 + 1):
                altered[chance.randrange(len(altered))] = chance.choice([0, 0xFF, chance.randrange(256)])
        path.write_bytes(altered)
        sentence = fault(path, "ase-traj" if kind == "traj" else "ase-db")
        refused += sentence is not None
        assert sentence is None or str(path) in sentence
    assert refused > 20


# Databases in LMDB and JSON


def packed(document):
    return zlib.compress(json.dumps(document).encode())


ROW = {"numbers": [1], "positions": [[0.0, 0.0, 0.0]]}
LMDB_ROWS = {
    "a row that grows": {b"1": zlib.compress(b'{"numbers": [1], "a": "' + b" " * 2**28 + b'"}'), b"nextid": packed(2)},
    "rows that are not there": {b"1": packed(ROW), b"nextid": packed(10**12)},
    "a number of rows that is none": {b"1": packed(ROW), b"nextid": packed([1])},
    "deleted rows that are none": {b"1": packed(ROW), b"nextid": packed(2), b"deleted_ids": packed([[1]])},
    "a nested row": {b"1": zlib.compress(b"[" * 10**6), b"nextid": packed(2)},
    "an array of nothing": {
        b"1": packed({**ROW, "forces": {"__ndarray__": [[10**12], "float64", 0.0]}}),
        b"nextid": packed(2),
    },
    "a row that is not packed": {b"1": b"{}", b"nextid": packed(2)},
    "a row that is packed in part": {b"1": packed(ROW)[:-9], b"nextid": packed(2)},
}


def test_databases_in_lmdb_that_are_none(tmp_path):
    paths = []
    for number, items in enumerate(LMDB_ROWS.values()):
        paths.append(tmp_path / f"{number}.aselmdb")
        with lmdb.open(str(paths[-1]), subdir=False, lock=False, map_size=2**28) as env, env.begin(write=True) as rows:
            for key, value in items.items():
                rows.put(key, value)
    for name, path, sentence in zip(LMDB_ROWS, paths, sentences(paths), strict=True):
        assert str(path) in sentence, (name, sentence)


def test_a_database_in_lmdb_that_is_cut_short_is_refused(tmp_path):
    """It is read without being mapped, where a page that is not there ends the process."""
    whole, path = tmp_path / "whole.aselmdb", tmp_path / "a.aselmdb"
    with lmdb.open(str(whole), subdir=False, lock=False, map_size=2**28) as env, env.begin(write=True) as rows:
        for number in range(1, 400):
            rows.put(b"%d" % number, packed({**ROW, "id": number, "note": random.Random(number).random()}))
        rows.put(b"nextid", packed(400))
    with molrec_convert.open(whole) as found:
        assert len(found) == 399
    raw = whole.read_bytes()
    for size in range(0, len(raw), len(raw) // 20):
        path.write_bytes(raw[:size])
        with pytest.raises(FormatError, match=r"a\.aselmdb"):
            read_everything(path)


@pytest.mark.parametrize(
    "text",
    [
        '{"ids": [1], "nextid": 2}',
        '{"ids": 1, "1": {}}',
        '{"ids": {"__ndarray__": [[1000000000000], "int64", 0]}, "1": {}}',
        '{"ids": [1], "1": []}',
        '{"ids": [1], "1": {"numbers": [1]}}',
        '{"ids": [1], "1": {"numbers": {"__ndarray__": [[1000000000000], "int64", [1]]}, "positions": [[0, 0, 0]]}}',
        '{"ids": [1], "1": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"ids": [1], "metadata": [1], "1": {}}',
        "[1, 2",
    ],
)
def test_databases_in_json_that_are_none(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"a\.json"), molrec_convert.read(path, format="ase-db") as found:
        _ = [record.system for record in found]
