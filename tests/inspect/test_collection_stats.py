"""Statistics of a collection: exact counts and ranges, histograms that count every value, text, page and picture."""

from __future__ import annotations

import html.parser
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collection_stores import UNITS, molecule, points, write
from hypothesis import given, settings
from hypothesis import strategies as st

import molrec_convert
from molrec_convert import MemoryCollection
from molrec_convert.cli import run
from molrec_convert.inspect.stats import collect_statistics, statistics_page
from molrec_convert.inspect.stats.collecting import Distribution
from molrec_convert.model import Block, Column, Frame, Record


@pytest.fixture
def many(tmp_path: Path) -> Path:
    records = [
        Record(
            meta={"record_id": f"r{n}"},
            system=molecule("OHH"[: n % 3 + 1], smiles="<O>" * (n % 2), energy=-n / 2),
            trajectory=points(n, 2, atoms=n % 3 + 1).trajectory,
        )
        for n in range(12)
    ]
    columns = {"smiles": "string", "energy": lambda r: None if r.meta["record_id"] == "r3" else r.system.meta["energy"]}
    return write(tmp_path / "many.mrec.lmdb", records, index_columns=columns)


def test_counts_and_ranges(many: Path) -> None:
    document = collect_statistics(molrec_convert.open(many))
    assert [document[key] for key in ("records", "frames", "atoms", "units")] == [12, 24, 24, UNITS]
    assert document["elements"] == {
        "O": {"atoms": 12, "records": 12},
        "H": {"atoms": 12, "records": 8},
    }
    x = np.concatenate([frame["atoms"]["x"] for record in molrec_convert.open(many) for frame in record.trajectory])
    found = document["frame_values"]["atoms/x"]
    assert (found["count"], found["least"], found["most"]) == (len(x), x.min(), x.max())
    assert found["mean"] == pytest.approx(x.mean())
    assert found["deviation"] == pytest.approx(x.std())
    assert sum(found["histogram"]["counts"]) == len(x)
    energy = document["index"]["energy"]
    assert (energy["count"], energy["nulls"], energy["least"], energy["most"]) == (11, 1, -5.5, 0.0)
    assert document["index"]["smiles"]["most_frequent"] == {"": 6, "<O>": 6}
    assert document["atoms_per_record"]["histogram"] == {"edges": [1, 2, 3, 4], "counts": [4, 4, 4]}


@given(
    st.lists(
        st.lists(st.floats(width=64), min_size=1, max_size=30).map(np.array)
        | st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=30).map(np.array),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=200)
def test_histograms_count_every_value(batches: list[Any]) -> None:
    entry = Distribution()
    for batch in batches:
        entry.add(batch)
    together = np.concatenate([batch.astype(np.float64) for batch in batches])
    finite = together[np.isfinite(together)]
    assert entry.count == len(finite)
    assert (entry.nan, entry.infinite) == (np.isnan(together).sum(), np.isinf(together).sum())
    if not len(finite):
        return
    assert (float(entry.least), float(entry.most)) == (finite.min(), finite.max())
    if np.abs(finite).max() > 1e300:
        assert entry.bins == []
        return
    assert len(entry.bins) <= 42
    assert sum(count for _, _, count in entry.bins) == len(finite)
    for low, high, count in entry.bins:
        assert count == int(((finite >= low) & (finite < high)).sum())
    json.dumps(entry.to_json(), allow_nan=False)


def test_nulls_nan_and_what_is_no_number() -> None:
    values = np.array([1.0, np.nan, 3.0, np.inf])
    mask = np.array([True, True, False, True])
    block = Block(
        {
            "q": Column(values, mask),
            "note": Column(np.array(["a", "b", "a", "a"], np.dtypes.StringDType()), mask),
            "on": np.array([True, False, True, True]),
            "tensor": np.ones((4, 3, 3)),
            "atomic_number": np.array([1, 1, 8, 6], np.uint64),
        }
    )
    document = collect_statistics(MemoryCollection([Record(system=Frame({"atoms": block}))], units=UNITS))
    found = document["system_values"]
    assert found["atoms/q"] == {
        "count": 1,
        "least": 1.0,
        "most": 1.0,
        "mean": 1.0,
        "deviation": 0.0,
        "nulls": 1,
        "nan": 1,
        "infinite": 1,
    }
    assert found["atoms/note"] == {"count": 3, "different": 2, "nulls": 1, "most_frequent": {"a": 2, "b": 1}}
    assert found["atoms/on"]["most_frequent"] == {"True": 3, "False": 1}
    assert found["atoms/tensor"]["count"] == 36
    assert list(document["elements"]) == ["H", "C", "O"]


def test_the_command(many: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats", str(many)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("many.mrec.lmdb: 12 records, 24 frames, 24 atoms")
    assert "  O                  12 atoms  50.00%  in          12 records  ███████████████" in text
    assert "  energy: f64, -5.5 to 0, mean -2.86364 ± " in text
    assert "1 null" in text
    assert run(["stats", str(many), "--json", "--select", "n_atoms == 3"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 4
    assert run(["stats", str(many), "--record", "2"]) == 0
    assert "1 records, 2 frames, 3 atoms" in capsys.readouterr().out
    assert run(["stats", str(many), "--html", str(tmp_path / "no" / "a.html")]) == 2


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "line", "rect"):
            self.stack.append(tag)
        if tag == "rect":
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def test_the_page(many: Path, tmp_path: Path) -> None:
    """Every tag is closed, texts of the data are quoted, nothing is fetched."""
    page = tmp_path / "s.html"
    assert run(["stats", str(many), "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.stack == []
    assert tags.seen.count("svg") == text.count("<svg") > 3
    assert "&lt;O&gt;" in text
    assert "<O>" not in text
    assert "http" not in text
    assert "<script" not in text
    assert statistics_page(collect_statistics(molrec_convert.open(many))) == text


def test_the_picture(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "s.png"
    assert run(["stats", str(many), "--png", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.stat().st_size > 20_000
    capsys.readouterr()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(["stats", str(many), "--png", str(tmp_path / "t.png")]) == 1
    assert "pip install 'molrec-convert[plots]'" in capsys.readouterr().err
    assert not (tmp_path / "t.png").exists()


def test_nothing_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "e.mrec.lmdb", [])
    assert run(["stats", str(tmp_path / "e.mrec.lmdb"), "--html", str(tmp_path / "e.html")]) == 0
    assert "0 records, 0 frames, 0 atoms" in capsys.readouterr().out
