"""Databases of ASE: ASE is the oracle of every field, rows come back as they were to the byte."""

import json
import sqlite3
import subprocess
import sys
import warnings

import corpus_index
import numpy as np
import pytest

pytest.importorskip("ase")

from ase import Atoms
from ase.calculators.calculator import Calculator
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase.db import connect
from ase_atoms import assert_same_atoms, documents, random_atoms, same
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from two_writers import second_is_refused

import molrec_convert
from molrec_convert import FormatError, Report, UsageError
from molrec_convert.model.collection.index import index_rows

pairs = st.dictionaries(
    st.sampled_from(["relaxed", "label", "n", "gap", "units", "pe", "temp", "smiles"]),
    st.one_of(
        st.booleans(),
        st.integers(-(2**40), 2**40),
        st.floats(),
        st.text("abü -", min_size=1, max_size=4).map("z".__add__),
    ),
    max_size=4,
)
data = st.dictionaries(st.sampled_from(["hist", "d", "z"]), st.one_of(documents, st.builds(
    lambda n, kind: {"x": np.arange(n).astype(kind)}, st.integers(0, 4), st.sampled_from(["f8", "i2", "f4", "c16"])
)), max_size=2)  # fmt: skip
TABLES = {
    "systems": "id", "species": "id, Z", "keys": "id, key", "text_key_values": "id, key",
    "number_key_values": "id, key", "information": "name",
}  # fmt: skip


def raw(path, table):
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    rows = connection.execute(f"SELECT * FROM {table} ORDER BY {TABLES[table]}").fetchall()
    connection.close()
    pairs_at = 25 if table == "systems" else None
    return [tuple(_shown(value, at == pairs_at) for at, value in enumerate(row)) for row in rows]


def _shown(value, unordered):
    """A value to the byte; of key-value pairs the order is not told."""
    return json.dumps(json.loads(value), sort_keys=True) if unordered else repr(value)


def mrec(*arguments):
    """Exit code, and what stands on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "molrec_convert.cli", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr + done.stdout


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.tuples(random_atoms(least=1), pairs, data), max_size=4))
def test_rows_come_back_to_the_byte(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("db")
    source, target = folder / "a.db", folder / "b.db"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with connect(source) as database:
            database.count()
            for atoms, keys, extra in rows:
                flat = atoms.arrays.get("initial_magmoms")
                if flat is not None and flat.ndim > 1:
                    del atoms.arrays["initial_magmoms"]
                database.write(atoms, data=extra, **keys)
        with molrec_convert.open(source) as collection:
            molrec_convert.write(collection, folder / "c.mrec.lmdb")
            assert len(collection) == len(rows)
        report = Report()
        with molrec_convert.open(folder / "c.mrec.lmdb") as collection:
            molrec_convert.write(collection, target, report=report)
    assert not report.lossy
    for table in TABLES:
        for row, again in zip(raw(source, table), raw(target, table), strict=True):
            assert [(a, b) for a, b in zip(row, again, strict=True) if a != b] == []


@settings(max_examples=20)
@given(st.lists(st.tuples(random_atoms(least=1), pairs), min_size=1, max_size=3))
def test_ase_reads_the_same_atoms(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("db")
    source = folder / "a.db"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with connect(source) as database:
            for atoms, keys in rows:
                flat = atoms.arrays.get("initial_magmoms")
                if flat is not None and flat.ndim > 1:
                    del atoms.arrays["initial_magmoms"]
                database.write(atoms, **keys)
        theirs = list(connect(source).select())
    with molrec_convert.open(source) as collection:
        for row, record in zip(theirs, collection, strict=True):
            expected = row.toatoms()
            found = record.to_ase()
            if expected.calc is None and found.calc is not None:
                assert found.calc.results == {}
                found.calc = None
            if expected.calc is not None:
                expected.calc.name = expected.calc.name.lower()
            assert_same_atoms(expected, found, info=False)
            assert same(row.key_value_pairs, {key: found.info[key] for key in row.key_value_pairs})
            assert (found.info["id"], found.info["unique_id"]) == (row.id, row.unique_id)


@settings(max_examples=20)
@given(st.lists(random_atoms(least=1), min_size=1, max_size=4))
def test_records_come_back_from_rows(tmp_path_factory, images):
    """What a row has no column for stands beside it."""
    folder = tmp_path_factory.mktemp("db")
    try:
        collection = molrec_convert.from_ase(images, "collection")
    except UsageError as error:
        assume("a column is of one kind" not in str(error))
        raise
    report = Report()
    molrec_convert.write(collection, folder / "a.db", report=report)
    assert not report.lossy
    with molrec_convert.open(folder / "a.db") as rows:
        for atoms, record, again in zip(images, collection, rows, strict=True):
            assert_same_atoms(atoms, again.to_ase())
            assert record.system == again.system
            assert record.trajectory[0] == again.trajectory[0]
    connect(folder / "a.db").get(id=1)


def test_case_of_a_row(fixtures):
    folder = fixtures / "cases" / "87-asedb-row"
    with molrec_convert.open(folder / "t.db") as rows:
        first, second = rows[0], rows[1]
        atoms, frame = first.system["atoms"], first.trajectory[0]
        assert atoms["element"].tolist() == ["Pt", "Pt", "O"]
        assert atoms["tags"].tolist() == [2, 1, 0]
        assert atoms["free"].tolist() == [False, False, True]
        assert frame.meta["pe"] == -9.5
        assert frame.meta["stress"].tolist() == (np.array([0, 5, 4, 5, 1, 3, 4, 3, 2]) * 0.1).tolist()
        forces = np.stack([frame["atoms"][axis] for axis in ("fx", "fy", "fz")], axis=1)
        assert forces.tolist() == [[0.3, 0.2, 0.1], [-0.4, 0, 0.5], [0.1, -0.2, -0.6]]
        assert frame.box.boundary.tolist() == [True, True, False]
        assert frame["atoms"]["momenta"].tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
        assert (first.system.meta["relaxed"], first.system.meta["label"]) == (True, "run7")
        assert first.to_ase().info["data"]["hist"] == [1, 2]
        assert first.to_ase().info["data"]["d"]["x"].tolist() == [[1, 0], [0, 1]]
        assert second.to_ase().calc is None
        assert second.trajectory[0]["atoms"].columns["fx"].validity.tolist() == [False]
        assert len(rows.select("relaxed == true")) == 1
    with molrec_convert.open(folder / "holes.db") as rows:
        assert rows.index["id"].tolist() == [1, 3]
        assert [record.system["atoms"]["element"][0] for record in rows] == ["He", "Ar"]
        assert len(set(rows.index["unique_id"].tolist())) == 2


def test_corpus_files_give_their_index_values(corpus):
    seen = 0
    for row in corpus_index.rows("ase-db"):
        other = json.loads(row["other"])
        with molrec_convert.open(corpus / row["path"]) as rows:
            assert len(rows) == int(row["n_frames"])
            if not len(rows):
                continue
            seen += 1
            assert int(rows.index["n_atoms"].sum()) == other["n_atoms_total"]
            assert [int(rows.index["id"][0]), int(rows.index["id"][-1])] == other["ids"]
            first, last = rows[0], rows[-1]
            assert first.system["atoms"].count == int(row["n_atoms_first"])
            assert last.system["atoms"].count == int(row["n_atoms_last"])
            for number, words in ((0, row["first_atom_xyz"]), (-1, row["last_atom_xyz"])):
                found = [float(first.trajectory[0]["atoms"][axis][number]) for axis in "xyz"]
                assert found == pytest.approx([float(word) for word in words.split()], abs=1e-8)
            for key, value in other["kvp"].items():
                assert str(first.system.meta[key]) == value
    assert seen >= 2


def test_json_and_sqlite_give_the_same(corpus, tmp_path):
    text = corpus / "files" / "ase-db" / "g2.json"
    with connect(text) as source, connect(tmp_path / "g2.db") as target:
        for row in source.select():
            target.write(row.toatoms(), data=row.data, **row.key_value_pairs)
    with molrec_convert.open(text) as one, molrec_convert.open(tmp_path / "g2.db") as other:
        for a, b in zip(one, other, strict=True):
            assert a.system["atoms"] == b.system["atoms"]
            assert a.trajectory[0] == b.trajectory[0]


def test_lmdb_of_ase_is_read_through_ase(tmp_path):
    pytest.importorskip("ase_db_backends")
    with connect(tmp_path / "a.aselmdb") as database:
        for symbol in ("H", "He", "Li"):
            database.write(Atoms(symbol), name=f"an {symbol}")
    with molrec_convert.open(tmp_path / "a.aselmdb") as rows:
        assert [record.system["atoms"]["element"][0] for record in rows] == ["H", "He", "Li"]


class Single(Calculator):
    """One that gives numbers of 4 bytes."""

    implemented_properties = ("energy", "forces", "stress")

    def calculate(self, atoms, properties, changes):
        super().calculate(atoms, properties, changes)
        self.results = {
            "energy": 1.0,
            "forces": np.arange(3 * len(atoms), dtype=np.float32).reshape(-1, 3) / 8,
            "stress": np.arange(6, dtype=np.float32),
        }


def test_numbers_of_four_bytes_are_told_by_their_length(tmp_path):
    atoms = Atoms("H2", positions=[[0, 0, 0], [0, 0, 1]])
    atoms.calc = Single()
    atoms.get_potential_energy()
    plain = Atoms("He3", positions=np.eye(3))
    plain.calc = SinglePointCalculator(plain, forces=np.eye(3))
    with connect(tmp_path / "a.db") as database:
        database.write(atoms)
        database.write(plain)
    with molrec_convert.open(tmp_path / "a.db") as rows:
        assert rows[0].trajectory[0]["atoms"]["fz"].tolist() == [0.25, 0.625]
        assert rows[0].trajectory[0].meta["stress"].tolist() == [0, 5, 4, 5, 1, 3, 4, 3, 2]
        assert rows[1].trajectory[0]["atoms"]["fy"].tolist() == [0, 1, 0]


def database(path, count=5):
    with connect(path) as rows:
        for number in range(count):
            atoms = Atoms("CO", positions=[[0, 0, 0], [0, 0, 1.1 + number]], cell=[9, 9, 9], pbc=True)
            atoms.set_constraint(FixAtoms([0]))
            atoms.calc = SinglePointCalculator(atoms, energy=-float(number), forces=np.full((2, 3), number))
            rows.write(atoms, step=number, even=number % 2 == 0)
    return path


@pytest.mark.slow
def test_rows_as_a_trajectory_a_collection_or_records(tmp_path):
    source = database(tmp_path / "a.db")
    assert mrec("convert", source, tmp_path / "t.mrec", "--as", "trajectory")[0] == 0
    with molrec_convert.open(tmp_path / "t.mrec") as record:
        assert record.trajectory.n_frames == 5
        assert record.trajectory[3].meta["pe"] == -3.0
        assert record.system["atoms"]["free"].tolist() == [False, True]
        assert [atoms.info["even"] for atoms in record.iter_ase()] == [True, False, True, False, True]
    assert mrec("convert", source, tmp_path / "c.mrec.lmdb")[0] == 0
    with molrec_convert.open(tmp_path / "c.mrec.lmdb") as collection:
        assert len(collection.select("even == true")) == 3
    assert mrec("convert", source, tmp_path / "r.mrec", "--as", "records")[0] == 0
    assert sorted(path.name for path in tmp_path.glob("r-*.mrec")) == [f"r-{n}.mrec" for n in range(5)]
    assert mrec("convert", source, tmp_path / "one.mrec", "--record", "2")[0] == 0
    with molrec_convert.open(tmp_path / "one.mrec") as record:
        assert (record.system.meta["id"], record.trajectory[0].meta["pe"]) == (3, -2.0)
        assert record.to_ase().info["even"] is True
    code, output = mrec("convert", source, tmp_path / "bad.mrec")
    assert code == 2
    assert "collection of 5 records" in output


def test_large_databases_are_read_in_pieces(tmp_path, monkeypatch):
    from molrec_ase.databases import rows as sqlite_rows

    source = database(tmp_path / "a.db")
    with molrec_convert.open(source) as rows:
        whole = [(record.system, record.trajectory[0]) for record in rows]
    monkeypatch.setattr(sqlite_rows, "_HELD", 0)
    monkeypatch.setattr(sqlite_rows, "_ROWS", 2)
    with molrec_convert.open(source) as rows:
        assert [(record.system, record.trajectory[0]) for record in rows] == whole
        assert rows[3].system == whole[3][0]
        assert rows.index["id"].tolist() == [1, 2, 3, 4, 5]
    with molrec_convert.read(source, as_="trajectory") as record:
        assert [batch.n_frames for batch in record.trajectory.batches(0, 5, 2)] == [2, 1]
        assert [frame.meta["pe"] for frame in record.trajectory[::2]] == [0.0, -2.0, -4.0]


@pytest.mark.parametrize("slicing", [slice(1, 4, 2), slice(0, 5, 1), slice(4, 5, 1)])
def test_frames_of_rows_are_sliced(tmp_path, slicing):
    with molrec_convert.read(database(tmp_path / "a.db"), as_="trajectory") as record:
        view = record.trajectory[slicing]
        assert [frame.meta["pe"] for frame in view] == [-float(n) for n in range(5)[slicing]]
        batch = next(view.batches(columns=["atoms/z"]))
        assert batch.blocks["atoms"].columns["z"][1::2].tolist() == [1.1 + n for n in range(5)[slicing]]


def test_bad_databases_are_one_sentence(tmp_path):
    source = database(tmp_path / "a.db")

    def broken(name, statement, *values):
        path = tmp_path / name
        path.write_bytes(source.read_bytes())
        connection = sqlite3.connect(path)
        connection.execute(statement, values)
        connection.commit()
        connection.close()
        return path

    cases = [
        (broken("b.db", "UPDATE systems SET forces = ? WHERE id = 3", b"1234567"), "row id 3", "7 bytes"),
        (broken("c.db", "UPDATE systems SET numbers = ? WHERE id = 2", b"123"), "row id 2", "3 bytes"),
        (broken("d.db", "UPDATE systems SET key_value_pairs = '{' WHERE id = 2"), "row id 2", "JSON"),
        (broken("e.db", "UPDATE systems SET data = ? WHERE id = 4", b"12345678{}"), "row id 4", "JSON"),
        (broken("f.db", "UPDATE information SET value = '77' WHERE name = 'version'"), "version 77", "5 to 9"),
        (broken("g.db", "UPDATE systems SET constraints = '[{}]' WHERE id = 5"), "row id 5", "name"),
        (broken("k.db", "UPDATE systems SET energy = 'abc' WHERE id = 3"), "row id 3", "energy of 'abc'"),
        (broken("l.db", "UPDATE systems SET pbc = 'x' WHERE id = 4"), "row id 4", "pbc of 'x'"),
        (broken("h.db", "DROP TABLE systems"), "systems", ""),
    ]
    cut = tmp_path / "i.db"
    cut.write_bytes(source.read_bytes()[:20000])
    text = tmp_path / "j.db"
    text.write_text("no database")
    cases += [(cut, "", ""), (text, "", "")]
    for path, *words in cases:
        with pytest.raises((FormatError, UsageError)) as caught:
            for _ in molrec_convert.read(path, format="ase-db" if path.name != "h.db" else None):
                pass
        assert all(word in str(caught.value) for word in words), str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_database_is_not_written_to_and_waits_for_no_lock(tmp_path):
    source = database(tmp_path / "a.db")
    before = source.read_bytes()
    (tmp_path / "a.db.lock").write_text("")
    source.chmod(0o444)
    with molrec_convert.open(source) as rows:
        assert len(rows) == 5
    assert source.read_bytes() == before


def test_the_sign_of_a_zero_survives(tmp_path):
    atoms = Atoms("H")
    atoms.calc = SinglePointCalculator(atoms, energy=-0.0, free_energy=0.0)
    molrec_convert.write(molrec_convert.from_ase([atoms], "collection"), tmp_path / "a.db")
    with molrec_convert.open(tmp_path / "a.db") as rows:
        assert same(rows[0].to_ase().calc.results, {"energy": -0.0, "free_energy": 0.0})
    assert connect(tmp_path / "a.db").get(id=1).energy == 0.0


def test_ids_that_are_taken_are_new_ones(tmp_path):
    atoms = [Atoms("H"), Atoms("He"), Atoms("Li")]
    for image, number in zip(atoms, (7, 7, 3), strict=True):
        image.info.update(id=number, unique_id="x")
    report = Report()
    molrec_convert.write(molrec_convert.from_ase(atoms, "collection"), tmp_path / "a.db", report=report)
    assert [row.id for row in connect(tmp_path / "a.db").select(sort="id")] == [3, 7, 8]
    assert any("taken" in item.detail for item in report.items)
    assert len({row.unique_id for row in connect(tmp_path / "a.db").select()}) == 3


def test_what_records_say_of_themselves_survives_as_one_run(tmp_path):
    records = [molrec_convert.from_ase([Atoms("H2")], "trajectory") for _ in range(3)]
    for record, said in zip(records, ({"b": "x"}, {"b": "y"}, {"d": 2}), strict=True):
        record.meta.update({"a": 1, "c": [1], **said})
    molrec_convert.write(molrec_convert.MemoryCollection(records, units={"preset": "metal"}), tmp_path / "rows.db")
    report = Report()
    with molrec_convert.read(tmp_path / "rows.db", as_="trajectory", report=report) as run:
        assert run.meta == {"a": 1, "c": [1]}
    assert [line.partition(" (")[0] for line in report.losses()] == ["dropped: meta/b", "dropped: meta/d"]
    with molrec_convert.read(tmp_path / "rows.db") as rows:
        assert [row.meta for row in rows] == [record.meta for record in records]


def test_the_index_of_rows_is_told_by_their_records(tmp_path):
    """What a record says of itself is what the index says of it, with the dtype of the column."""
    with connect(tmp_path / "rows.db") as database:
        for number in range(5):
            pairs = {"n": number, "value": number if number % 2 else number + 0.5, "flag": bool(number % 2)}
            if number == 3:
                pairs["only"] = "here"
            database.write(Atoms("H" * (number + 1)), **pairs)
    with molrec_convert.read(tmp_path / "rows.db") as rows:
        columns = {name: column for name, column in rows.index.columns.items() if name in rows.index_columns}
        assert {"id", "unique_id", "n", "value", "flag", "only"} <= set(columns)
        for name, declared in rows.index_columns.items():
            assert (declared.dtype, declared.nullable) == (columns[name].dtype, columns[name].validity is not None)
        expected = list(index_rows(rows.index))
        told = [own for _, own in rows.members()]
        assert told == expected
        assert [[type(value) for value in row.values()] for row in told] == [
            [type(value) for value in row.values()] for row in expected
        ]
        assert [own for _, own in rows.span(2, 4)] == expected[2:4]
        assert rows.atom_rows == 15


@pytest.mark.parametrize("name", ["t.db", "t.json"])
def test_two_at_one_database(tmp_path, capfd, name):
    for source, count in (("a.db", 3), ("b.db", 2)):
        with connect(tmp_path / source) as database:
            for number in range(count):
                database.write(Atoms("H" * (number + count)))
    first, second = (["convert", tmp_path / source, tmp_path / name, "--to", "ase-db"] for source in ("a.db", "b.db"))
    second_is_refused(first, second, capfd)
    assert [row.natoms for row in connect(tmp_path / name).select()] == [3, 4, 5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "b.db", name]
