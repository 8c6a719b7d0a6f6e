"""The sections of a record together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frame_stores as stores
import hand_built as hand
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from independent import run_independent
from layout_examples import records as examples

import molrec_convert
from molrec_convert.cli.app import App
from molrec_convert.errors import ContractError
from molrec_convert.formats import WriteContext
from molrec_convert.inspect.diff import differences
from molrec_convert.inspect.summary.record import summarize, summary_html, summary_text
from molrec_convert.inspect.tree import overview_lines
from molrec_convert.inspect.validation import Severity, validate
from molrec_convert.model import Block, Column, ForceField, Frame, Observable, Record
from molrec_convert.stores.zarr.record import open_record, write_record
from molrec_convert.stores.zarr.record_writer import pack

CONTEXT = WriteContext(creator=False)
SECTIONS = ["meta", "system", "frame", "trajectory", "forcefield", "observables", "method", "status", "metrics"]


def store(record: Record, path: Path) -> Path:
    write_record(record, path, CONTEXT)
    return path


# --- a record with every section --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(examples.build_tour(), tmp_path_factory.mktemp("tour") / "tour.mrec")


def lines(a: Path | Record, b: Path | Record) -> list[str]:
    opened = [one if isinstance(one, Record) else open_record(one) for one in (a, b)]
    try:
        return list(differences(*opened))
    finally:
        for record in opened:
            record.close()


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(App(), [str(argument) for argument in arguments])


def test_a_record_with_every_section(tour: Path) -> None:
    assert validate(tour) == []
    with open_record(tour) as record:
        assert record.sections == SECTIONS
        assert list(record.unknown.keys()) == []  # type: ignore[union-attr]
        assert list(differences(record, examples.build_tour())) == []


def test_every_section_passes_conversions(tour: Path, tmp_path: Path) -> None:
    report = molrec_convert.convert(tour, tmp_path / "a.mrec.zip")
    assert not report.lossy
    assert {item.name for item in report.items} >= set(SECTIONS)
    molrec_convert.convert(tmp_path / "a.mrec.zip", tmp_path / "b.mrec")
    assert lines(tour, tmp_path / "b.mrec") == lines(tour, tmp_path / "a.mrec.zip") == []
    before, after = dict(stores.every_file(tour)), dict(stores.every_file(tmp_path / "b.mrec"))
    assert before.keys() == after.keys()
    assert {key for key in before if before[key] != after[key]} == {"meta/zarr.json"}
    assert validate(tmp_path / "a.mrec.zip") == []


def test_a_resumed_conversion_has_every_section(tour: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mrec"
    with open_record(tour) as record:
        write_record(record, path, CONTEXT)
        shutil.rmtree(path / "metrics" / "series")
        (path / "observables" / "msd" / "zarr.json").write_text("half")
        write_record(record, path, WriteContext(creator=False, resume=True))
    assert dict(stores.every_file(path)) == dict(stores.every_file(tour))


def test_a_summary_of_every_section(tour: Path) -> None:
    with open_record(tour) as record:
        summary = json.loads(json.dumps(summarize(record)))
        assert summary["sections"] == SECTIONS
        assert summary["forcefield"]["styles"]["pair.lj/cut"] == 2
        assert summary["observables"]["msd"]["shape"] == [4]
        assert summary["metrics"]["train/loss"] == {
            "count": 2, "step": 2, "value": 0.25, "wall_time": "2026-08-04T00:00:02+00:00"
        }  # fmt: skip
        text = summary_text(record)
        assert "force field  h2o2-demo, units real" in text
        assert "dipole: molecular dipole moment, vector f64[3] in e*angstrom" in text
        assert "train/loss: 2 values, 0.25 at step 2" in text
        assert "h2o2-demo" in summary_html(record)


def test_a_summary_stays_on_its_lines(tmp_path: Path) -> None:
    events = [molrec_convert.Event("a\nb", float("nan"), "2026-08-04T00:00:01+00:00")]
    record = Record(status={"state": "running"}, metrics=molrec_convert.Metrics.from_events(events))
    assert 'metrics  "a\\nb": 1 value, NaN' in summary_text(record)


def test_the_command_line(tour: Path, tmp_path: Path) -> None:
    overview = invoke("tree", tour, "--overview")
    assert overview.exit_code == 0
    assert overview.output.splitlines() == list(overview_lines(tour))
    for arguments in (["--overview", "--files"], ["--overview", "system"], ["--overview", "--no-zarr"]):
        assert invoke("tree", tour, *arguments).exit_code == 2
    assert invoke("validate", tour).exit_code == 0
    pack(tour, tmp_path / "b.mrec.zip")
    assert invoke("diff", tour, tmp_path / "b.mrec.zip").exit_code == 0
    assert json.loads(invoke("info", tour, "--json").output)["sections"] == SECTIONS


def test_an_overview_of_what_is_unknown(tmp_path: Path) -> None:
    path = hand.record(tmp_path / "odd.mrec")
    stores.set_attribute(path, later={"key": "v" * 75})
    hand.group(path / "plots", kind="later")
    hand.array(path / "plots" / "rdf", [1.0])
    hand.array(path / "loose", [1.0])
    (path / "folder").mkdir()
    (path / "status").mkdir()
    (path / "README.txt").write_text("x")
    assert list(overview_lines(path)) == [
        "odd.mrec/           the root group; its attributes: {",
        '       "later": {',
        f'         "key": "{"v" * 75}"',
        "       }",
        "     }",
        " \\-- meta/          document         attributes: molrec_version",
        " \\-- status/        plain folder",
        " \\-- folder/        plain folder",
        " \\-- loose          array",
        " \\-- plots/         group            attributes: kind",
        " |                                   children:   rdf",
        " \\-- README.txt    (a plain file, not a Zarr node)",
    ]


# --- what diff sees ---------------------------------------------------------------------------------------------------

PLACES = [
    "", "system", "system/atoms", "system/atoms/type", "frame", "frame/atoms", "frame/atoms/b_factor",
    "frame/atoms/_validity", "frame/atoms/_validity/b_factor", "frame/box", "frame/box/vectors", "trajectory",
    "trajectory/meta", "trajectory/meta/pe", "trajectory/atoms", "trajectory/atoms/x", "trajectory/box", "forcefield",
    "forcefield/bond.harmonic", "forcefield/bond.harmonic/k", "forcefield/dihedral.periodic/_validity",
    "forcefield/dihedral.periodic/_validity/k2", "observables", "observables/meta", "observables/meta/msd",
    "observables/msd", "method", "status", "metrics", "metrics/series", "metrics/steps/eval%2FMAE",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [None, {"a": [1, 2.5]}])
def test_an_unknown_attribute_anywhere_is_carried_and_a_difference(
    tour: Path, tmp_path: Path, place: str, value: Any
) -> None:
    path = tmp_path / "a.mrec"
    shutil.copytree(tour, path)
    stores.set_attribute(path / place, later=value)
    found = lines(tour, path)
    assert len(found) == 1
    assert "later" in found[0]
    assert "in the second only" in found[0]
    molrec_convert.convert(path, tmp_path / "b.mrec.zip")
    molrec_convert.convert(tmp_path / "b.mrec.zip", tmp_path / "c.mrec")
    assert lines(path, tmp_path / "c.mrec") == []
    assert stores.attributes(tmp_path / "c.mrec" / place)["later"] == value


def alter(record: Record, what: str) -> None:
    assert record.forcefield is not None
    assert record.observables is not None
    document, tables = record.forcefield.document, record.forcefield.tables
    if what == "style":
        document["styles"][4]["params"]["cutoff"] = 12.0
    elif what == "order":
        document["styles"].reverse()
    elif what == "units":
        document["units"] = {"preset": "real", "angle": "degree"}
    elif what == "table":
        tables["bond.harmonic"].columns["k"] = Column(np.array([600.0, 1107.0]))
    elif what == "mask":
        tables["dihedral.periodic"].columns["k2"] = Column(np.array([0.8, 0.0]))
    elif what == "more":
        tables["notes"] = Block(count=1)
        document["styles"].append({"category": "bond", "style": "morse"})
        tables["bond.morse"] = Block(count=0)
    elif what == "values":
        record.observables["dipole"] = Observable([0.0, 0.0, 0.4], record.observables["dipole"].metadata)
    elif what == "shape":
        record.observables["dipole"] = Observable([[0.0]], record.observables["dipole"].metadata)
    elif what == "scalar":
        record.observables["e"] = Observable.of(1.5, "scalar", "")
    elif what == "document":
        record.observables["dipole"].metadata["unit"] = "debye"


ALTERED = {
    "style": ["forcefield: the style pair.lj/cut: 'params' is "],
    "order": ["forcefield: the styles are in another order"],
    "units": ["forcefield: the definitions are 1 against 2", "forcefield: 'units' is "],
    "table": ["forcefield/bond.harmonic/k, row 1: 1106.0 against 1107.0"],
    "mask": ["forcefield/dihedral.periodic/k2, row 1: the mask is false against true"],
    "more": ["forcefield: the style bond.morse: is in the second only", "forcefield/bond.morse: is in the second only",
             "forcefield/notes: is in the second only"],
    "values": ["observables/dipole, row 2: 0.3929 against 0.4"],
    "shape": ["observables/dipole: f64[3] against f64[1, 1]"],
    "scalar": ["observables/e: is in the second only"],
    "document": ["observables/meta/dipole: 'unit' is \"e*angstrom\" against \"debye\""],
}  # fmt: skip


@pytest.mark.parametrize("what", ALTERED)
def test_differences(what: str) -> None:
    a, b = examples.build_tour(), examples.build_tour()
    alter(b, what)
    found = list(differences(a, b))
    assert len(found) == len(ALTERED[what])
    for line, start in zip(found, ALTERED[what], strict=True):
        assert line.startswith(start)


def test_differences_of_single_values() -> None:
    a, b = (Record(observables=molrec_convert.Observables({"e": Observable.of(v, "s", "")})) for v in (1.5, -1.5))
    assert list(differences(a, b)) == ["observables/e: 1.5 against -1.5"]


@pytest.mark.parametrize("name", ["forcefield", "observables", "metrics"])
def test_a_missing_section_is_a_difference(name: str) -> None:
    a, b = examples.build_tour(), examples.build_tour()
    setattr(b, name, None)
    assert list(differences(a, b)) == [f"{name}: is in the first only"]


# --- documents --------------------------------------------------------------------------------------------------------

METHOD = {"type": "workflow", "description": "", "engine": {"name": "x"}}
DOCUMENTS: dict[str, tuple[str, dict[str, Any], Severity | None, str]] = {
    "workflow": ("method", {**METHOD, "order": ["a", "b"], "stages": {"a": {}, "b": {}}}, None, ""),
    "stages in a list": ("method", {**METHOD, "order": ["a"], "stages": [{"name": "a"}]}, None, ""),
    "no order": ("method", {**METHOD, "stages": {}}, Severity.WARNING, "a workflow states its order"),
    "no stages": ("method", {**METHOD, "order": []}, Severity.WARNING, "a workflow states its stages"),
    "order": ("method", {**METHOD, "order": [1], "stages": {}}, Severity.ERROR, "order is not a list of texts"),
    "stages": ("method", {**METHOD, "order": [], "stages": 3}, Severity.ERROR, "neither an object nor a list"),
    "stage": ("method", {**METHOD, "order": ["a", "b"], "stages": {"a": 1}}, Severity.ERROR, "there is none of: 'b'"),
    "other type": ("method", {**METHOD, "type": "own", "order": 3}, None, ""),
    "engine version": ("method", {**METHOD, "type": "ml", "engine": {"name": "x", "version": 3}}, Severity.ERROR,
                       "the version of the engine is not a text"),
    "status": ("status", {"state": "own", "stage": "s", "epoch": 1, "global_step": 2, "message": None, "progress": 0.5,
                          "started_at": "2026-08-04T00:00:00Z", "error": {"message": "m", "traceback": "t"}}, None, ""),
    "time": ("status", {"state": "failed", "finished_at": "now"}, Severity.ERROR, "finished_at is not an RFC 3339"),
    "step": ("status", {"state": "failed", "global_step": 1.5}, Severity.ERROR, "global_step is not an integer"),
    "epoch": ("status", {"state": "failed", "epoch": True}, Severity.ERROR, "epoch is not an integer"),
    "message": ("status", {"state": "failed", "message": 3}, Severity.ERROR, "message is not a text"),
    "error": ("status", {"state": "failed", "error": "boom"}, Severity.ERROR, "error is not an object"),
    "trace": ("status", {"state": "failed", "error": {"message": "", "type": 1}}, Severity.ERROR, "the type of error"),
}  # fmt: skip


@pytest.mark.parametrize("what", DOCUMENTS)
def test_documents(tmp_path: Path, what: str) -> None:
    section, document, severity, words = DOCUMENTS[what]
    path = hand.record(tmp_path / "a.mrec")
    hand.group(path / "status", state="succeeded")
    hand.group(path / section, **document)
    found = validate(path)
    if severity is None:
        assert found == []
    else:
        assert [(finding.severity, finding.node, words in finding.message) for finding in found] == [
            (severity, section, True)
        ]
    with open_record(path) as record:
        write_record(record, tmp_path / "b.mrec", CONTEXT)
    assert stores.attributes(tmp_path / "b.mrec" / section) == document


# --- hostile stores ---------------------------------------------------------------------------------------------------


def cut(data: bytes, at: int) -> bytes:
    return data[: at % (len(data) + 1)]


def flip(data: bytes, at: int) -> bytes:
    return (
        data if not data else data[: at % len(data)] + bytes([data[at % len(data)] ^ 0x55]) + data[at % len(data) + 1 :]
    )


@pytest.mark.slow
@settings(max_examples=40)
@given(
    choice=st.integers(0, 10**6),
    change=st.sampled_from([cut, flip]) | st.binary(max_size=40).map(lambda raw: lambda data, at: raw),
    at=st.integers(0, 10**6),
)
def test_damage_to_any_file_ends_in_findings(
    tour: Path, tmp_path_factory: pytest.TempPathFactory, choice: int, change: Callable[[bytes, int], bytes], at: int
) -> None:
    path = tmp_path_factory.mktemp("damage") / "a.mrec"
    shutil.copytree(tour, path)
    ours = [key for key, _ in stores.every_file(path) if key.startswith(("forcefield/", "observables/", "metrics/"))]
    file = path / ours[choice % len(ours)]
    file.write_bytes(change(file.read_bytes(), at))
    found = validate(path)
    assert all("Traceback" not in finding.message for finding in found)
    refused = _reading(path)
    assert not refused or any(finding.severity is Severity.ERROR for finding in found), refused
    shutil.rmtree(path.parent)


def _reading(path: Path) -> str:
    """What reading everything is refused for, nothing when it is not."""
    try:
        with open_record(path) as record:
            for part in ("forcefield", "observables", "metrics"):
                section = getattr(record, part)
                entries = section.tables.values() if isinstance(section, ForceField) else (section or {}).values()
                for entry in entries:
                    for column in entry.columns.values() if isinstance(entry, Block) else [entry]:
                        _ = getattr(column, "values", None)
    except ContractError as error:
        return str(error)
    return ""


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
KEYS = {
    "forcefield": ["name", "units", "styles", "special_bonds", "source"],
    "forcefield/bond.harmonic": ["count", "structural_shape", "targets"],
    "observables/meta/msd": ["kind", "description", "time_dependent", "unit", "axes"],
    "metrics": ["wal", "series"],
    "method": ["type", "engine", "order", "stages"],
    "status": ["state", "error", "started_at", "progress"],
}


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_any_attributes_end_in_findings(
    tour: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("attributes") / "a.mrec"
    shutil.copytree(tour, path)
    place = data.draw(st.sampled_from(sorted(KEYS)))
    stores.set_attribute(path / place, **{data.draw(st.sampled_from(KEYS[place])): data.draw(documents)})
    found = validate(path)
    refused = _reading(path)
    assert not refused or any(finding.severity is Severity.ERROR for finding in found), refused
    shutil.rmtree(path.parent)


@pytest.mark.interop
@pytest.mark.parametrize("packed", [False, True])
def test_the_independent_implementation_opens_a_record_with_every_section(
    tour: Path, tmp_path: Path, packed: bool
) -> None:
    path = tour
    if packed:
        path = tmp_path / "tour.mrec.zip"
        pack(tour, path)
    code = """
record = mrec.MrecFile(Path(sys.argv[1]))
frames = mrec.MrecReader(Path(sys.argv[1]))
system = record.system()
found = {
    "sections": sorted(record.sections()),
    "types": system["atoms"]["type"].tolist(),
    "name": record.forcefield().name,
    "frames": len(frames),
    "x": frames[3]["atoms"]["x"].tolist(),
}
print(json.dumps(found))
"""
    found = json.loads(run_independent(code, path))
    assert set(found["sections"]) >= {"frame", "system", "trajectory", "forcefield"}
    assert (found["name"], found["frames"], found["types"]) == ("h2o2-demo", 4, ["H1", "O1", "O1", "H1"])
    assert found["x"] == examples.build_vibration().trajectory.frame(3)["atoms"]["x"].tolist()  # type: ignore[union-attr]


def test_a_record_of_one_section_each(tmp_path: Path) -> None:
    tour = examples.build_tour()
    for name in ("forcefield", "observables", "metrics"):
        status = None if name == "forcefield" else {"state": "pending"}
        path = store(Record(status=status, **{name: getattr(tour, name)}), tmp_path / f"{name}.mrec")
        with open_record(path) as record:
            assert name in record.sections
            assert list(differences(record, Record(status=status, **{name: getattr(tour, name)}))) == []


def test_replacing_a_part_of_a_stored_record(tour: Path, tmp_path: Path) -> None:
    import dataclasses

    with open_record(tour) as record:
        changed = dataclasses.replace(record, frame=Frame({"sites": Block({"c": [1.0]})}), metrics=None, _close=None)
        assert changed.sections == [name for name in SECTIONS if name != "metrics"]
        write_record(changed, tmp_path / "a.mrec", CONTEXT)
    with open_record(tmp_path / "a.mrec") as record:
        assert record.metrics is None
        assert record.forcefield == examples.build_tour().forcefield
