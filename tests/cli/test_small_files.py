"""Many small PDB, LAMMPS data and plain XYZ files read in one go are what each is alone, and say the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from collection_stores import contents
from hypothesis import given, settings
from hypothesis import strategies as st
from migration_inputs import run

from molrec_convert.formats import NotBatchable, ReadContext
from molrec_convert.migration.inputs.sources import Sources
from molrec_convert.model import Record
from molrec_convert.model.collection.member import as_member
from molrec_convert.plugins import format_named
from molrec_convert.report import Fate, Report

pytest.importorskip("gemmi")
pytest.importorskip("lmdb")


# Texts


def pdb(seed: int, *features: str) -> str:
    """A file of one molecule; `features` are what it has beside."""
    draw = random.Random(seed)
    count = draw.randint(3, 9)
    has = set(features).__contains__
    edge = 5 + 5 * draw.random()
    lines = [f"HEADER    MOLECULE {seed}", f"AUTHOR    {'BOTH' if has('title') else 'ONE'}"]
    lines += ["TITLE     RUN t= 1.50000 step= 40"] * has("time")
    lines += ["SSBOND   1 LIG A   1    LIG A   2"] * has("ssbond")
    lines += ["CRYST1    1.000    1.000    1.000  90.00  90.00  90.00 P 1           1"] * has("no cell")
    lines += [f"CRYST1{edge:9.3f}{edge:9.3f}{edge:9.3f}  90.00  90.00 {100 + edge:6.2f} P 21 21 21    4"] * has("cell")
    lines += ["MODEL        1"] * has("model")
    for row in range(count):
        element = draw.choice(["C", "H", "N", "O", "S"] + ["CL", "X"] * has("odd"))
        name = f"{element}{row + 1}".ljust(4) if has("left") else f" {element}{row + 1}".ljust(4)
        residue = draw.choice(["ALA", "HOH"]) if has("standard") else "LIG"
        serial = f"{row + 1:5d}" if not has("stars") or row else "*****"
        number = f"{1 + row // 3 - 5 * has('negative'):4d}"
        chain, icode = " " if has("no chain") else "AB"[row % 2], "C" if has("icode") else " "
        altloc = "AB"[row % 2] if has("altloc") else " "
        x, y, z = (draw.uniform(-99, 99) for _ in range(3))
        occupancy = "" if has("no occupancy") else "  1.00"
        symbol = "" if has("no elements") else element.rjust(2)
        charge = "1-" if has("charges") and row % 2 else ""
        segment = "SEG1" if has("segments") else ""
        begin = ("ATOM  " if row % 2 else "HETATM") + f"{serial} {name}{altloc}{residue:3s} {chain}{number}{icode}"
        line = f"{begin:30s}{x:8.3f}{y:8.3f}{z:8.3f}{occupancy:6s}{draw.uniform(0, 50):6.2f}"
        lines.append(f"{line:72s}{segment:4s}{symbol:2s}{charge:2s}".rstrip() if has("short") else
                     f"{line:72s}{segment:4s}{symbol:2s}{charge:2s}")  # fmt: skip
        lines += [f"ANISOU{lines[-1][6:27]} {1:7d}{2:7d}{3:7d}{4:7d}{5:7d}{6:7d}"] * has("anisou")
        lines += ["TER"] * (has("ter") and row == count - 2)
    lines += ["ENDMDL"] * has("model")
    if not has("no bonds"):
        for row in range(1, count):
            again = row + 1 if has("double") and row == 1 else None
            lines.append(f"CONECT{row:5d}{row + 1:5d}" + (f"{again:5d}" if again else ""))
    lines += ["CONECT    1  900"] * has("nobody")
    lines += ["REMARK   behind"] * has("remark")
    return "\n".join([*lines, "END"]) + "\n" * (not has("no end"))


def data_file(seed: int, *features: str) -> str:
    """A data file of one molecule; `features` are what it has beside, or not."""
    draw = random.Random(seed)
    count = draw.randint(2, 7)
    has = set(features).__contains__
    lines = [f"molecule {seed}" + ", units = real" * has("units"), "", f"{count} atoms", f"{count - 1} bonds"]
    lines += ["3 atom types", "2 bond types", "0 9.5 xlo xhi", "0 9 ylo yhi", "-1 9 zlo zhi"]
    lines += ["1.5 0 0 xy xz yz"] * has("tilted")
    lines += ["", "Atom Type Labels", "", "1 C", "2 H", "3 O"] * has("labels")
    lines += [] if has("no masses") else ["", "Masses", "", "1 12.011", "2 1.008", "3 15.9994 # oxygen"]
    lines += ["", "Pair Coeffs # lj/cut", "", "1 0.1 3", "2 0.1 2", "3 0.2 3"] * has("coefficients")
    lines += ["", "Atoms" + "" if has("no style") else "\nAtoms # full", ""]
    order = list(range(1, count + 1))
    if has("shuffled"):
        draw.shuffle(order)
    for number in order:
        kind = draw.choice("CHO") if has("labels") else draw.randint(1, 3 + has("bad type"))
        x, y, z = (repr(draw.uniform(0, 9)) for _ in range(3))
        molecule = -1 if has("negative") else 1
        images = " 0 -1 2" if has("images") else ""
        comment = " # ours" if has("comments") else ""
        lines.append(f"{number} {molecule} {kind} {draw.uniform(-1, 1):.4f} {x} {y} {z}{images}{comment}")
    if not has("still"):
        lines += ["", "Velocities", ""]
        lines += [f"{number} {draw.gauss(0, 1)!r} 0.5 {'x' if has('bad row') else -1e-3!r}" for number in order]
    lines += ["", "Bonds", ""]
    lines += [f"{row} {draw.randint(1, 2)} {row} {row + 1}" for row in range(1, count)]
    return "\n".join(lines) + "\n" * (not has("no end"))


def xyz(seed: int, *features: str) -> str:
    """A plain file; `features` are what it has beside."""
    draw = random.Random(seed)
    has = set(features).__contains__
    text = ""
    for frame in range(1 + has("frames")):
        count = draw.randint(1, 6)
        comment = f'molecule {seed} "x" \\ é' if not has("lammps") else f"Atoms. Timestep: {frame}"
        comment = "" if has("empty") else "gdb 5 x" if has("gdb") else "caf\xe9" if has("latin") else comment
        text += f"{count}\n{comment}\n"
        for row in range(count):
            label = "C1" if has("labels") and not row else draw.choice("HCNO")
            numbers = " ".join(repr(draw.uniform(-9, 9)) for _ in range(3 + has("charge")))
            text += f"{label} {numbers}{' x' if has('text') else ''}\n"
    return text + "\n" * has("blank") + "the end\n" * has("rest")


def words(text: str) -> list[str]:
    """Names of features."""
    return text.split("|")


KINDS = {"pdb": (pdb, "pdb"), "data": (data_file, "lammps-data"), "xyz": (xyz, "xyz")}
FEATURES = {
    "pdb": words(
        "title|time|ssbond|no cell|cell|model|odd|left|standard|stars|negative|no chain|icode|altloc|no occupancy|"
        "no elements|charges|segments|short|anisou|ter|no bonds|double|nobody|remark|no end"
    ),
    "data": words(
        "units|tilted|labels|no masses|coefficients|no style|shuffled|bad type|negative|images|comments|still|bad row|"
        "no end"
    ),
    "xyz": words("frames|lammps|empty|gdb|latin|labels|charge|text|blank|rest"),
}
#: What is read in one go where all files have it.
TOGETHER = {
    "pdb": words(
        "title|time|ssbond|no cell|cell|left|standard|no chain|icode|altloc|no occupancy|no elements|charges|segments|"
        "short|ter|no bonds|double|remark"
    ),
    "data": words("units|tilted|labels|no masses|shuffled|negative|images|comments|still|no end"),
    "xyz": words("frames|empty|charge|text"),
}


def write(folder: Path, kind: str, files: list[tuple[str, ...]]) -> list[Path]:
    """A file for each list of features."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, features in enumerate(files):
        paths.append(folder / f"{number:03d}.{kind}")
        text = KINDS[kind][0](number, *features)
        paths[-1].write_bytes(text.encode("latin-1" if "latin" in features else "utf-8"))
    return paths


def said(report: Report) -> list[str]:
    """What a report says beside what is merely carried."""
    items = [str(item) for item in report.items if item.fate is not Fate.CARRIED]
    return sorted([*items, *report.warnings, *report.truncations])


def check(kind: str, paths: list[Path], ours: dict[str, str]) -> bool:
    """Hold files read in one go against each of them; whether they are read so."""
    chosen = format_named(KINDS[kind][1])

    def context() -> ReadContext:
        options = chosen.read_options(**ours)
        return ReadContext(options, arrangement="collection" if chosen.arrangements else None, target="collection")

    joiner = chosen.many_reader()
    assert joiner is not None
    try:
        found = joiner(paths, context())
        records = None if found is None else list(found[0])
    except Exception:
        return False
    if found is None or records is None:
        return False
    collection, counts = found
    assert collection.reports is not None
    assert len(counts) == len(paths)
    assert collection.index["n_atoms"].tolist() == [
        (r.system if r.system and "atoms" in r.system.blocks else r.trajectory[0])["atoms"].count for r in records
    ]
    at = 0
    for number, path in enumerate(paths):
        alone = context()
        source = chosen.reader()([path], alone)
        singles = [as_member(source, alone.report)] if isinstance(source, Record) else list(source)
        assert len(singles) == counts[number]
        for one, single in zip(records[at:], singles, strict=False):
            assert one.system == single.system
            assert one.trajectory[0] == single.trajectory[0]
            assert len(one.trajectory) == len(single.trajectory) == 1
            declared = collection.declaration.to_json()
            assert one.trajectory.declaration.to_json() == single.trajectory.declaration.to_json() == declared
        assert said(collection.reports[number]) == said(alone.report)
        at += counts[number]
    return True


# Tests


def test_files_apart_divide_the_others():
    assert NotBatchable([3, 0, 3]).spans(10, 15) == [(10, 11), (11, 13), (13, 14), (14, 15)]
    assert NotBatchable([4]).spans(10, 15) == [(10, 14), (14, 15)]
    assert NotBatchable([0, 1]).spans(0, 2) == [(0, 1), (1, 2)]
    assert NotBatchable([]).spans(3, 5) == NotBatchable([7]).spans(3, 5) == [(3, 4), (4, 5)]


#: What takes a file to be read by itself, and is seen before its rows are read as numbers.
ODD = {
    "pdb": words("model|stars|negative|anisou|nobody|no end"),
    "data": ["coefficients"],
    "xyz": ["no end"],
}


@pytest.mark.parametrize(("kind", "feature"), [(kind, feature) for kind, all_ in ODD.items() for feature in all_])
def test_one_that_is_odd_is_named(tmp_path, kind, feature):
    paths = write(tmp_path, kind, [(), (), (feature,), (), ()])
    if feature == "no end":
        paths[2].write_bytes(paths[2].read_bytes().rstrip())
    joiner = format_named(KINDS[kind][1]).many_reader()
    assert joiner is not None
    options = format_named(KINDS[kind][1]).read_options()
    with pytest.raises(NotBatchable) as told:
        joiner(paths, ReadContext(options, arrangement="collection", target="collection"))
    assert told.value.positions == [2]


@pytest.mark.parametrize(("kind", "feature"), [(kind, f) for kind, all_ in TOGETHER.items() for f in ("", *all_)])
def test_files_of_a_kind_are_read_together(tmp_path, kind, feature):
    files = [(feature,) if feature else ()] * 5
    assert check(kind, write(tmp_path, kind, files), {})


@pytest.mark.parametrize("kind", list(KINDS))
@settings(max_examples=70)
@given(data=st.data())
def test_whatever_files_have(tmp_path_factory, kind, data):
    some = st.sets(st.sampled_from(FEATURES[kind]), max_size=4).map(lambda one: tuple(sorted(one)))
    shared = data.draw(some)
    files = [tuple({*shared, *own}) for own in data.draw(st.lists(some | st.just(()), min_size=2, max_size=4))]
    check(kind, write(tmp_path_factory.mktemp("files"), kind, files), {})


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_migration_is_the_same(tmp_path, monkeypatch, kind):
    draw = random.Random(kind)
    odd = [tuple(draw.sample(FEATURES[kind], draw.randint(0, 2))) for _ in range(12)]
    # of those with another declaration none is left over
    files = [f for f in odd if not {"no occupancy", "anisou", "model", "lammps", "gdb", "charge", "text", "images",
                                    "still", "comments", "units", "time", "frames", "labels"} & set(f)]  # fmt: skip
    paths = write(tmp_path / "in", kind, [()] * 9 + files + [()] * 9)
    assert len(files) > 2
    for name in "ab":
        (tmp_path / name).mkdir()
    together = run(paths, tmp_path / "a" / "x.mrec.lmdb")
    calls: list[int] = []
    monkeypatch.setattr(Sources, "open_together", lambda *_: calls.append(1))
    alone = run(paths, tmp_path / "b" / "x.mrec.lmdb")
    assert calls
    assert contents(tmp_path / "a" / "x.mrec.lmdb") == contents(tmp_path / "b" / "x.mrec.lmdb")
    assert together.records == alone.records > 17
    assert said(together.report) == said(alone.report) != []
    assert together.failures == alone.failures
