"""A record becomes a collection of one and comes back; one record of many is taken by number."""

import subprocess
import sys

import numpy as np
import pytest

import molrec_convert
from molrec_convert.errors import ContractError, LossError, UsageError
from molrec_convert.inspect.diff import differences
from molrec_convert.model import Block, Box, ForceField, Frame, MemoryTrajectory, Record

pytest.importorskip("lmdb")


def record(shift=0.0, **sections):
    system = Frame({"atoms": Block({"id": np.arange(1, 4, dtype=np.uint64), "type": list("aba")})}, {"units": "real"})
    frames = [
        Frame({"atoms": Block({"x": np.arange(3.0) + i + shift})}, {"pe": -1.0 * i}, Box(np.eye(3) * 9), step=10 * i)
        for i in range(5)
    ]
    return Record(system=system, trajectory=MemoryTrajectory(frames), **sections)


def test_a_record_comes_back_from_a_collection_of_one(tmp_path):
    molrec_convert.write(record(), tmp_path / "a.mrec")
    report = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.mrec.lmdb")
    assert report.losses() == []
    molrec_convert.convert(tmp_path / "a.mrec.lmdb", tmp_path / "b.mrec")
    with molrec_convert.open(tmp_path / "a.mrec") as a, molrec_convert.open(tmp_path / "b.mrec") as b:
        assert list(differences(a, b)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mrec", "a.mrec.lmdb", "b.mrec"]


def test_what_a_collection_has_no_place_for_is_said_once(tmp_path):
    method = {"type": "classical", "description": "d", "engine": {"name": "e"}}
    molrec_convert.write(record(method=method), tmp_path / "a.mrec")
    dry = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.mrec.lmdb", dry_run=True)
    report = molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "a.mrec.lmdb")
    assert report.losses() == dry.losses() == ["dropped: method (MolRec collection in LMDB has no place for it)"]


@pytest.fixture
def many(tmp_path):
    """Three records, x shifted by 0, 0.5, 0.25, with their shift in the index."""
    members = [record(shift) for shift in (0.0, 0.5, 0.25)]
    with molrec_convert.CollectionWriter.create(
        tmp_path / "many.mrec.lmdb",
        declaration=members[0].trajectory.declaration,
        units={"length": "angstrom", "energy": "eV"},
        index_columns={"shift": "f64"},
    ) as writer:
        for member, shift in zip(members, (0.0, 0.5, 0.25), strict=True):
            writer.append(member, {"shift": shift})
    return tmp_path / "many.mrec.lmdb"


def xs(source):
    return [member.trajectory[0]["atoms"]["x"].tolist() for member in source]


def test_one_record_of_many_is_taken_by_number(many, tmp_path):
    with pytest.raises(UsageError, match=r"is a collection of 3 records: choose one by its number \(--record N\)"):
        molrec_convert.convert(many, tmp_path / "one.mrec")
    with pytest.raises(UsageError, match=r"has no record 3: it has 3, counted from 0"):
        molrec_convert.read(many, record=3)
    with molrec_convert.read(many, record=1) as one:
        assert one.trajectory[2]["atoms"]["x"].tolist() == [2.5, 3.5, 4.5]
    with molrec_convert.read(many, record=-1) as one:
        assert one.trajectory[0]["atoms"]["x"].tolist() == [0.25, 1.25, 2.25]
    molrec_convert.convert(many, tmp_path / "one.mrec", record=2)
    assert molrec_convert.open(tmp_path / "one.mrec").trajectory[0]["atoms"]["x"].tolist() == [0.25, 1.25, 2.25]


def test_open_gives_a_collection_also_of_one(many, tmp_path):
    with molrec_convert.open(many) as collection:
        assert isinstance(collection, molrec_convert.Collection)
        assert len(collection) == 3
    molrec_convert.write(record(), tmp_path / "one.mrec.lmdb")
    with molrec_convert.open(tmp_path / "one.mrec.lmdb") as collection:
        assert isinstance(collection, molrec_convert.Collection)
        assert len(collection) == 1
    with molrec_convert.open(tmp_path / "one.mrec.lmdb", record=0) as one:
        assert isinstance(one, Record)
        assert one.trajectory[0]["atoms"]["x"].tolist() == [0.0, 1.0, 2.0]
    molrec_convert.write(molrec_convert.open(tmp_path / "one.mrec.lmdb"), tmp_path / "back.mrec")
    with pytest.raises(UsageError, match="is one record: there is nothing to choose from"):
        molrec_convert.open(tmp_path / "back.mrec", record=0)


def test_selections_become_collections(many, tmp_path):
    """By condition, by slice, by bools: index columns and shared parts go with them."""
    for name, chosen in {
        "condition": {"select": "shift > 0 and n_atoms == 3"},
        "slice": {"record": slice(1, None)},
        "bools": {"select": [False, True, True]},
    }.items():
        target = tmp_path / f"{name}.mrec.lmdb"
        report = molrec_convert.convert(many, target, **chosen)
        assert report.losses() == []
        assert [item.detail for item in report.items] == ["2 of 3 taken as asked"]
        with molrec_convert.open(target) as some:
            assert xs(some) == [[0.5, 1.5, 2.5], [0.25, 1.25, 2.25]]
            assert some.index["shift"].tolist() == [0.5, 0.25]
            assert some.units == {"length": "angstrom", "energy": "eV"}
    with pytest.raises(UsageError, match=r"no record of .* fits the condition 'shift > 9': it has 3"):
        molrec_convert.convert(many, tmp_path / "none.mrec.lmdb", select="shift > 9")
    with pytest.raises(UsageError, match="by number or by condition, not by both"):
        molrec_convert.convert(many, tmp_path / "none.mrec.lmdb", select="shift > 0", record=0)
    assert not (tmp_path / "none.mrec.lmdb").exists()


def test_a_condition_that_fits_one_gives_a_record(many, tmp_path):
    report = molrec_convert.convert(many, tmp_path / "one.mrec", select="shift == 0.25")
    assert molrec_convert.open(tmp_path / "one.mrec").trajectory[0]["atoms"]["x"].tolist() == [0.25, 1.25, 2.25]
    assert report.losses() == ["dropped: index/shift (a record has no index, and its own meta does not say the same)"]


def test_frames_columns_and_precision_of_every_record(many, tmp_path):
    report = molrec_convert.convert(
        many, tmp_path / "some.mrec.lmdb", frames=slice(1, None, 2), columns=["x"], precision=1e-2
    )
    assert report.losses() == []
    with molrec_convert.open(tmp_path / "some.mrec.lmdb") as some:
        assert some.index["n_frames"].tolist() == [2, 2, 2]
        assert [frame.step for frame in some[1].trajectory] == [10, 30]
        assert some.declaration.blocks["atoms"].columns["x"].precision == 1e-2
    with pytest.raises(UsageError, match="the frames have no column 'w'; they have x"):
        molrec_convert.convert(many, tmp_path / "w.mrec.lmdb", columns=["w"])
    with pytest.raises(UsageError, match="the records have 5 frames at most, none has those asked for"):
        molrec_convert.convert(many, tmp_path / "no.mrec.lmdb", frames=slice(7, 8))
    with molrec_convert.CollectionWriter.open(many) as writer:
        writer.append(Record(system=record().system, trajectory=record().trajectory[:2]), {"shift": 1.0})
    report = molrec_convert.convert(many, tmp_path / "some2.mrec.lmdb", frames=slice(3, 5))
    assert report.warnings == ["none of the frames asked for is in 1 of 4 records"]
    with molrec_convert.open(tmp_path / "some2.mrec.lmdb") as some:
        assert some.index["n_frames"].tolist() == [2, 2, 2, 0]


def test_several_records_become_one_collection(tmp_path):
    for number, shift in enumerate((0.0, 0.5, 0.25)):
        molrec_convert.write(record(shift, meta={"name": f"r{number}"}), tmp_path / f"{number}.mrec")
    sources = [tmp_path / f"{n}.mrec" for n in range(3)]
    report = molrec_convert.convert(sources, tmp_path / "all.mrec.lmdb", index=("name",))
    assert report.losses() == []
    with molrec_convert.open(tmp_path / "all.mrec.lmdb") as collection:
        assert xs(collection) == [[0.0, 1.0, 2.0], [0.5, 1.5, 2.5], [0.25, 1.25, 2.25]]
        assert collection.index["name"].tolist() == ["r0", "r1", "r2"]
        assert collection.units["energy"] == "kcal/mol"
    # each as it was
    molrec_convert.convert(tmp_path / "all.mrec.lmdb", tmp_path / "back.mrec", record=1)
    with molrec_convert.open(sources[1]) as a, molrec_convert.open(tmp_path / "back.mrec") as b:
        assert list(differences(a, b)) == []
    # and collections with records
    molrec_convert.convert([tmp_path / "all.mrec.lmdb", sources[0]], tmp_path / "more.mrec.lmdb")
    with molrec_convert.open(tmp_path / "more.mrec.lmdb") as more:
        assert len(more) == 4
        assert more.index["name"].tolist() == ["r0", "r1", "r2", "r0"]
    some = molrec_convert.convert([*sources, sources[0]], tmp_path / "n.mrec.lmdb", select="n_frames == 5", record=None)
    assert some.losses() == []


def test_what_the_records_do_not_share_is_dropped_or_refused(tmp_path):
    plain = record()
    more = [warm_frame(i) for i in range(2)]
    molrec_convert.write(plain, tmp_path / "a.mrec")
    molrec_convert.write(Record(trajectory=MemoryTrajectory(more)), tmp_path / "b.mrec")
    method = {"type": "classical", "description": "d", "engine": {"name": "e"}}
    molrec_convert.write(record(method=method), tmp_path / "c.mrec")
    report = molrec_convert.convert(
        [tmp_path / "a.mrec", tmp_path / "b.mrec", tmp_path / "c.mrec"], tmp_path / "all.mrec.lmdb", dry_run=True
    )
    assert report.losses() == [
        "dropped: method (a collection's records hold meta, system and trajectory)",
    ]
    assert ("trajectory/temp", "missing in 2 of 3 sources") in [(item.name, item.detail) for item in report.items]
    assert any("no units are stated by" in text for text in report.warnings)
    with pytest.raises(LossError):
        molrec_convert.convert([tmp_path / "a.mrec", tmp_path / "c.mrec"], tmp_path / "all.mrec.lmdb", strict=True)
    other = Record(system=Frame(meta={"units": "metal"}), trajectory=plain.trajectory)
    molrec_convert.write(other, tmp_path / "metal.mrec")
    with pytest.raises(ContractError, match=r"units.energy: the numbers of a collection are in one unit: .*a.mrec and"):
        molrec_convert.convert([tmp_path / "a.mrec", tmp_path / "metal.mrec"], tmp_path / "all.mrec.lmdb")
    shaped = Block({"x": np.zeros(2)}, structural_shape=(2,))
    molrec_convert.write(
        Record(trajectory=MemoryTrajectory([Frame({"atoms": shaped}, step=0)])), tmp_path / "wide.mrec"
    )
    with pytest.raises(ContractError, match="records declare the block differently"):
        molrec_convert.convert([tmp_path / "a.mrec", tmp_path / "wide.mrec"], tmp_path / "all.mrec.lmdb")
    assert not (tmp_path / "all.mrec.lmdb").exists()


def warm_frame(i):
    return Frame({"atoms": Block({"x": np.arange(2.0) + i})}, {"pe": 1.0 * i, "temp": 300.0}, step=i)


def test_force_fields_of_several_records(tmp_path):
    same, other = ForceField.new("f", {"preset": "real"}), ForceField.new("g", {"preset": "real"})
    for name, forcefield in {"a": same, "b": same, "c": other, "d": None}.items():
        molrec_convert.write(record(forcefield=forcefield), tmp_path / f"{name}.mrec")
    molrec_convert.convert([tmp_path / "a.mrec", tmp_path / "b.mrec"], tmp_path / "ab.mrec.lmdb")
    with molrec_convert.open(tmp_path / "ab.mrec.lmdb") as collection:
        assert collection.forcefield == same
    for pair in ("ac", "ad"):
        report = molrec_convert.convert([tmp_path / f"{n}.mrec" for n in pair], tmp_path / f"{pair}.mrec.lmdb")
        assert all(text.startswith("dropped: forcefield of ") for text in report.losses())
        assert len(report.losses()) == (2 if pair == "ac" else 1)


def test_each_source_is_a_record_of_its_own(tmp_path):
    text = "ITEM: TIMESTEP\n{}\nITEM: NUMBER OF ATOMS\n1\nITEM: BOX BOUNDS pp pp pp\n0 9\n0 9\n0 9\n"
    text += "ITEM: ATOMS id type x y z\n1 1 1 2 3\n"
    for number in range(2):
        (tmp_path / f"{number}.lammpstrj").write_text(text.format(number * 10))
    sources = [tmp_path / "0.lammpstrj", tmp_path / "1.lammpstrj"]
    molrec_convert.convert(sources, tmp_path / "one.mrec.lmdb")
    molrec_convert.convert(sources, tmp_path / "each.mrec.lmdb", each=True)
    assert [len(molrec_convert.open(tmp_path / f"{n}.mrec.lmdb")) for n in ("one", "each")] == [1, 2]
    with pytest.raises(UsageError, match="is one record: several become a collection"):
        molrec_convert.convert(sources, tmp_path / "each.mrec", each=True)


def test_numpy_conventions(many):
    with molrec_convert.open_collection(many) as collection:
        assert collection[np.int64(1)].trajectory.n_frames == 5
        assert xs(collection[[2, 0]]) == [[0.25, 1.25, 2.25], [0.0, 1.0, 2.0]]
        assert len(collection[collection.index["shift"] > 0]) == 2
        assert len(collection[np.array([], dtype=np.int64)]) == 0
        assert len(collection[1:]) == 2
        assert xs([collection[-1]]) == [[0.25, 1.25, 2.25]]
        with pytest.raises(IndexError, match="record 3 of a collection of 3"):
            collection[3]
        with pytest.raises(TypeError, match="select"):
            collection["shift"]
        assert "3 records" in repr(collection)
        assert "angstrom" in collection._repr_html_()
        assert "2 of 3" in collection[1:]._repr_html_()


def test_the_package_is_quick_to_import():
    code = (
        "import molrec_convert, sys; print(*(m for m in ('lmdb', 'numpy', 'molrec_convert.model') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    for name in ("Collection", "CollectionDataset", "CollectionWriter", "MemoryCollection", "open_collection"):
        assert getattr(molrec_convert, name).__name__ == name
