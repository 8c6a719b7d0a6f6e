"""Metrics: events, curves, the closed and the live form, the watermark, torn tails, one writer, validation."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import frame_stores as stores
import hand_built as hand
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_examples.records import build_fit, build_vibration, fit_events

import molrec_convert
from molrec_convert.errors import ContractError, UnsupportedError, UsageError
from molrec_convert.formats import WriteContext
from molrec_convert.inspect.diff import differences
from molrec_convert.inspect.validation import Severity, validate
from molrec_convert.model import Event, Metrics, Record, Series
from molrec_convert.model.names import escape_name
from molrec_convert.model.results.events import MemoryLog, event_line, log_lines
from molrec_convert.stores.zarr.record import open_record, write_packed, write_record
from molrec_convert.stores.zarr.record_writer import pack
from molrec_convert.stores.zarr.sections.metrics import MetricsLog

CONTEXT = WriteContext(creator=False)
STAMP = "2026-08-04T00:00:01+00:00"
STATUS = {"state": "running"}


def store(path: Path, metrics: Metrics | None = None) -> Path:
    """A record of a run; without metrics it has none yet."""
    write_record(Record(status=STATUS, metrics=metrics), path, CONTEXT)
    return path


def live(path: Path, events: list[Event]) -> Path:
    """A record with a log that nobody has made dense arrays of."""
    store(path)
    log = MetricsLog.open(path)
    log.extend(events)
    log.release()
    return path


def curves(path: Path) -> dict[str, Any]:
    """Every curve as lists."""
    with open_record(path) as record:
        assert record.metrics is not None
        return {key: lists(series) for key, series in record.metrics.items()}


def lists(series: Series) -> tuple[Any, list[float], list[str]]:
    steps, values, stamps = series
    assert values is not None
    assert stamps is not None
    if steps is None:
        return None, values.tolist(), stamps.tolist()
    known = np.ones(len(steps), np.bool_) if series.has_step is None else series.has_step
    taken = [step if has else None for step, has in zip(steps.tolist(), known.tolist(), strict=True)]
    return taken, values.tolist(), stamps.tolist()


def catalog(path: Path) -> dict[str, Any]:
    return stores.attributes(path / "metrics")


def log_path(path: Path) -> Path:
    return path / "metrics" / "metrics.jsonl"


def errors(path: Path) -> list[tuple[str, str]]:
    return [(finding.node, finding.message) for finding in validate(path) if finding.severity is Severity.ERROR]


def warnings(path: Path) -> list[tuple[str, str]]:
    return [(finding.node, finding.message) for finding in validate(path) if finding.severity is Severity.WARNING]


def of(key: str, *pairs: tuple[int | None, float]) -> list[Event]:
    return [Event(key, value, STAMP, step) for step, value in pairs]


# --- events and lines -------------------------------------------------------------------------------------------------


def test_the_line_of_an_event() -> None:
    line = event_line(Event("train/loss", 0.5, "2026-08-04T00:00:01+00:00", 1))
    assert line == b'{"t":"scalar","k":"train/loss","s":1,"w":"2026-08-04T00:00:01+00:00","v":0.5}\n'
    line = event_line(Event("é", -0.0, "2026-08-04T00:00:01Z", None, {"rank": 0}))
    assert line.decode() == '{"t":"scalar","k":"é","w":"2026-08-04T00:00:01Z","v":-0.0,"tags":{"rank":0}}\n'


@pytest.mark.parametrize(
    "event",
    [
        Event("", 1.0, STAMP),
        Event("\ud800", 1.0, STAMP),
        Event(3, 1.0, STAMP),  # type: ignore[arg-type]
        Event("k", "1", STAMP),  # type: ignore[arg-type]
        Event("k", True, STAMP),
        Event("k", 1.0, "2026-08-04T00:00:01"),
        Event("k", 1.0, "yesterday"),
        Event("k", 1.0, STAMP, 1.5),  # type: ignore[arg-type]
        Event("k", 1.0, STAMP, True),
        Event("k", 1.0, STAMP, 2**63),
        Event("k", 1.0, STAMP, tags={"x": float("nan")}),
        Event("k", 1.0, STAMP, type="histogram"),
    ],
)
def test_events_refused(tmp_path: Path, event: Event) -> None:
    with pytest.raises(ContractError, match="metrics"):
        event_line(event)
    with MetricsLog.open(store(tmp_path / "a.mrec")) as log:
        log.append("k", 1.0, 1, wall_time=STAMP)
        with pytest.raises(ContractError):
            log.extend([Event("k", 2.0, STAMP, 2), event])
    assert curves(tmp_path / "a.mrec") == {"k": ([1], [1.0], [STAMP])}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, 5e-324, -0.0, 0.1, 2**53 + 1])
def test_values_come_back(tmp_path: Path, value: float) -> None:
    path = live(tmp_path / "a.mrec", [Event("k", value, STAMP, 1)])
    assert stores.bits(np.array(curves(path)["k"][1])) == stores.bits(np.array([float(value)]))
    MetricsLog.open(path).close()
    assert stores.bits(stores.zarr_values(path / "metrics" / "series" / "k")) == stores.bits(np.array([float(value)]))
    assert validate(path) == []


# --- the closed form --------------------------------------------------------------------------------------------------


def test_closed(tmp_path: Path) -> None:
    path = store(tmp_path / "fit.mrec", build_fit().metrics)
    assert catalog(path)["wal"] == {"lines": 3, "bytes": 233}
    assert curves(path) == {
        "train/loss": ([1, 2], [0.5, 0.25], ["2026-08-04T00:00:01+00:00", "2026-08-04T00:00:02+00:00"]),
        "eval/MAE": ([2], [0.1], ["2026-08-04T00:00:02+00:00"]),
    }
    assert validate(path) == []
    with open_record(path) as record:
        assert record.metrics is not None
        assert list(record.metrics.events()) == fit_events()
        with pytest.raises(KeyError):
            _ = record.metrics["loss"]


def test_closed_without_a_log_is_the_whole_record(tmp_path: Path) -> None:
    series = {"a/b": Series.of(of("a/b", (1, 0.5), (2, 0.25))), "free": Series.of(of("free", (None, 1.0)))}
    path = store(tmp_path / "a.mrec", Metrics.from_series(series))
    assert "wal" not in catalog(path)
    assert not log_path(path).exists()
    assert curves(path) == {"a/b": ([1, 2], [0.5, 0.25], [STAMP] * 2), "free": (None, [1.0], [STAMP])}
    assert not (path / "metrics" / "steps" / "free").exists()
    assert validate(path) == []


def test_of_one_key_and_step_the_later_wins(tmp_path: Path) -> None:
    events = of("k", (1, 1.0), (2, 2.0), (1, 3.0), (3, 4.0), (2, 5.0))
    path = store(tmp_path / "a.mrec", Metrics.from_events(events))
    assert curves(path)["k"][:2] == ([1, 2, 3], [3.0, 5.0, 4.0])
    assert catalog(path)["series"]["k"] == {
        "type": "scalar", "count": 3, "latest_step": 2, "latest_timestamp": STAMP
    }  # fmt: skip
    assert len(log_path(path).read_bytes().splitlines()) == 5


def test_events_without_a_step_never_merge(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", Metrics.from_events(of("k", (None, 1.0), (None, 1.0), (None, 2.0))))
    assert curves(path) == {"k": (None, [1.0, 1.0, 2.0], [STAMP] * 3)}
    assert not (path / "metrics" / "steps").exists()
    assert catalog(path)["series"]["k"]["latest_step"] is None


def test_a_key_with_both_kinds_stays_in_the_log(tmp_path: Path) -> None:
    events = of("mixed", (1, 1.0), (None, 2.0), (1, 3.0), (None, 2.0)) + of("k", (1, 1.0))
    path = store(tmp_path / "a.mrec", Metrics.from_events(events))
    assert not (path / "metrics" / "series" / "mixed").exists()
    assert catalog(path)["series"]["mixed"]["count"] == 3
    assert curves(path)["mixed"][:2] == ([1, None, None], [3.0, 2.0, 2.0])
    assert curves(path)["k"][:2] == ([1], [1.0])
    assert validate(path) == []
    with MetricsLog.open(path) as log:
        log.append("k", 2.0, wall_time=STAMP)
    assert not (path / "metrics" / "series" / "k").exists()
    assert curves(path)["k"][:2] == ([1, None], [1.0, 2.0])
    assert validate(path) == []


ODD = ["a/b", ".", "..", "__x", "with spaces", "Ångström/μ", "%41", "a%2Fb", "zarr.json", "a\nb", "x.y-z_0", "c"]


def test_odd_keys_have_safe_names(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", Metrics.from_events([Event(key, 1.5, STAMP, 1) for key in ODD]))
    assert sorted(curves(path)) == sorted(ODD)
    names = {entry.name for entry in (path / "metrics" / "series").iterdir() if entry.is_dir()}
    assert names == {escape_name(key) for key in ODD}
    assert {"a%2Fb", "%2E", "%2E.", "%5F_x", "with%20spaces", "%C3%85ngstr%C3%B6m%2F%CE%BC", "%2541"} <= names
    assert validate(path) == []


def test_many_values_are_one_shard(tmp_path: Path) -> None:
    n = 300_000
    series = Series(np.arange(n) / 7, np.array([STAMP] * n, np.dtypes.StringDType()), np.arange(n))
    path = store(tmp_path / "a.mrec", Metrics.from_series({"k": series}))
    with open_record(path) as record:
        assert record.metrics is not None
        assert record.metrics["k"] == series


@pytest.mark.parametrize("packed", [False, True])
def test_copies_are_equal(tmp_path: Path, packed: bool) -> None:
    path = store(tmp_path / "fit.mrec", build_fit().metrics)
    stores.set_attribute(path / "metrics", later={"a": None})
    stores.set_attribute(path / "metrics" / "steps", later=1)
    stores.set_attribute(path / "metrics" / "series" / "eval%2FMAE", later=2)
    stores.edit(path / "metrics", lambda d: d["attributes"]["series"]["eval/MAE"].update(unit="kcal/mol"))
    with log_path(path).open("ab") as file:
        file.write(b'\n{"t":"note","text":"restarted"}\n')
        file.write(b'{"t":"scalar","k":"x","w":"2026-08-04T00:00:03Z","v":1,"tags":{"rank":1},"host":"n1"}\n')
    hand.group(path / "metrics" / "histograms", kind="later")
    hand.group(path / "metrics" / "series" / "group")
    (path / "metrics" / "notes.txt").write_text("x")
    between = path
    if packed:
        between = tmp_path / "b.mrec.zip"
        with open_record(path) as record:
            write_packed(record, between, CONTEXT)
    with open_record(between) as record:
        assert record.metrics is not None
        assert list(record.metrics) == ["train/loss", "eval/MAE", "x"]
        write_record(record, tmp_path / "c.mrec", CONTEXT)
    before, after = dict(stores.every_file(path)), dict(stores.every_file(tmp_path / "c.mrec"))
    assert before.keys() == after.keys()
    for key, data in before.items():
        assert json.loads(data) == json.loads(after[key]) if key.endswith("zarr.json") else data == after[key], key


# --- the live form ----------------------------------------------------------------------------------------------------


def test_live(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec")
    with MetricsLog.open(path) as log:
        assert catalog(path) == {"wal": {"lines": 0, "bytes": 0}, "series": {}}
        log.append("train/loss", 0.5, 1, wall_time="2026-08-04T00:00:01+00:00")
        assert curves(path) == {"train/loss": ([1], [0.5], ["2026-08-04T00:00:01+00:00"])}
        log.append("train/loss", np.float64(0.25), np.int64(2), wall_time=datetime(2026, 8, 4, 0, 0, 2, tzinfo=UTC))
        log.append("eval/MAE", 0.1, 2, wall_time="2026-08-04T00:00:02+00:00")
        assert not (path / "metrics" / "series").exists()
        assert errors(path) == []
    written, expected = tmp_path / "b.mrec", dict(stores.every_file(path))
    store(written, build_fit().metrics)
    assert dict(stores.every_file(written)) == expected
    assert validate(path) == []


def test_the_time_is_now_when_none_is_given(tmp_path: Path) -> None:
    with MetricsLog.open(store(tmp_path / "a.mrec")) as log:
        log.append("k", 1)
    stamp = datetime.fromisoformat(curves(tmp_path / "a.mrec")["k"][2][0])
    assert abs((datetime.now(UTC) - stamp).total_seconds()) < 60


def test_lines_past_the_watermark_extend_the_series(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", Metrics.from_events(of("a", (1, 1.0), (2, 2.0)) + of("free", (None, 1.0))))
    before = catalog(path)
    log = MetricsLog.open(path)
    log.extend(of("a", (2, 20.0), (3, 30.0)) + of("free", (None, 2.0)) + of("new", (7, 7.0)))
    log.release()
    assert catalog(path) == before
    expected = {
        "a": ([1, 2, 3], [1.0, 20.0, 30.0], [STAMP] * 3),
        "free": (None, [1.0, 2.0], [STAMP] * 2),
        "new": ([7], [7.0], [STAMP]),
    }
    assert curves(path) == expected
    assert errors(path) == []
    pack(path, tmp_path / "a.mrec.zip")
    assert curves(tmp_path / "a.mrec.zip") == expected
    MetricsLog.open(path).close()
    assert catalog(path)["wal"]["lines"] == 7
    assert catalog(path)["series"]["a"]["count"] == 3
    assert curves(path) == expected
    assert validate(path) == []


def test_a_log_without_its_group_is_read(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec")
    (path / "metrics").mkdir()
    log_path(path).write_bytes(event_line(Event("k", 1.0, STAMP, 1)))
    assert curves(path) == {"k": ([1], [1.0], [STAMP])}
    hand.group(path / "metrics")
    assert curves(path) == {"k": ([1], [1.0], [STAMP])}
    MetricsLog.open(path).close()
    assert validate(path) == []


@pytest.mark.parametrize(
    "tail",
    [b"{", b'{"t":"scalar","k":"k","w":"x","v":1', b"\xff\xfe", b'{"t":"scalar"}', b'{"t"\0\0\n{}\n', b"\0" * 5000],
)
def test_a_torn_tail_is_ignored_and_cut_by_the_next_writer(tmp_path: Path, tail: bytes) -> None:
    path = live(tmp_path / "a.mrec", of("k", (1, 1.0)))
    whole = log_path(path).read_bytes()
    log_path(path).write_bytes(whole + tail)
    assert curves(path) == {"k": ([1], [1.0], [STAMP])}
    assert warnings(path) == [("metrics/metrics.jsonl", f"the last line is torn, {len(tail)} bytes are ignored")]
    assert errors(path) == []
    with open_record(path) as record:
        write_record(record, tmp_path / "copy.mrec", CONTEXT)
    assert log_path(tmp_path / "copy.mrec").read_bytes() == whole
    log = MetricsLog.open(path)
    log.append("k", 2.0, 2, wall_time=STAMP)
    log.release()
    assert log_path(path).read_bytes() == whole + event_line(Event("k", 2.0, STAMP, 2))


def test_blank_lines_are_skipped(tmp_path: Path) -> None:
    path = live(tmp_path / "a.mrec", of("k", (1, 1.0)))
    log_path(path).write_bytes(b"\n  \r\n" + log_path(path).read_bytes() + b"\n")
    assert curves(path) == {"k": ([1], [1.0], [STAMP])}
    MetricsLog.open(path).close()
    assert curves(path) == {"k": ([1], [1.0], [STAMP])}
    assert validate(path) == []


CORRUPT: dict[str, bytes] = {
    "no JSON": b"{nonsense}",
    "half an object": b'{"t":"scalar","k":"k"',
    "two objects": b'{"t":"a"}{"t":"b"}',
    "a list": b"[1]",
    "a number": b"3",
    "null": b"null",
    "NaN": b'{"t":"scalar","k":"k","w":"2026-08-04T00:00:01Z","v":NaN}',
    "not UTF-8": b'{"t":"\xff"}',
    "deep": b"[" * 100_000,
    "long number": b'{"t":"x","n":' + b"1" * 5000 + b"}",
    "no key": b'{"t":"scalar","w":"2026-08-04T00:00:01Z","v":1}',
    "empty key": b'{"t":"scalar","k":"","w":"2026-08-04T00:00:01Z","v":1}',
    "no time": b'{"t":"scalar","k":"k","v":1}',
    "no value": b'{"t":"scalar","k":"k","w":"2026-08-04T00:00:01Z"}',
    "text value": b'{"t":"scalar","k":"k","w":"2026-08-04T00:00:01Z","v":"1"}',
    "true": b'{"t":"scalar","k":"k","w":"2026-08-04T00:00:01Z","v":true}',
    "huge value": b'{"t":"scalar","k":"k","w":"2026-08-04T00:00:01Z","v":1' + b"0" * 400 + b"}",
    "real step": b'{"t":"scalar","k":"k","s":1.0,"w":"2026-08-04T00:00:01Z","v":1}',
    "huge step": b'{"t":"scalar","k":"k","s":9223372036854775808,"w":"2026-08-04T00:00:01Z","v":1}',
}


@pytest.mark.parametrize("what", CORRUPT)
def test_a_corrupt_complete_line_is_refused(tmp_path: Path, what: str) -> None:
    path = live(tmp_path / "a.mrec", of("k", (1, 1.0)))
    with log_path(path).open("ab") as file:
        file.write(CORRUPT[what] + b"\n" + event_line(Event("k", 2.0, STAMP, 2)))
    with pytest.raises(ContractError, match=r"metrics/metrics\.jsonl, line 2: "):
        curves(path)
    with open_record(path) as record, pytest.raises(ContractError, match="line 2"):
        write_record(record, tmp_path / "copy.mrec", CONTEXT)
    assert not (tmp_path / "copy.mrec").exists()
    found = errors(path)
    assert [node for node, _ in found] == ["metrics/metrics.jsonl, line 2"]


def test_faults_of_a_long_log_are_counted(tmp_path: Path) -> None:
    path = live(tmp_path / "a.mrec", of("k", (1, 1.0)))
    log_path(path).write_bytes(b"x\n" * 1000)
    found = errors(path)
    assert len(found) == 21
    assert found[-1] == ("metrics/metrics.jsonl", "980 more lines are faulty")


def test_events_of_other_types_are_kept_and_no_curves(tmp_path: Path) -> None:
    path = live(tmp_path / "a.mrec", of("k", (1, 1.0)))
    with log_path(path).open("ab") as file:
        file.write(b'{"t":"histogram","k":"h","v":[1,2]}\n{"note":1}\n')
    assert list(curves(path)) == ["k"]
    MetricsLog.open(path).close()
    assert catalog(path)["wal"]["lines"] == 3
    assert list(curves(path)) == ["k"]
    assert b"histogram" in log_path(path).read_bytes()
    assert all("does not know" in text for _, text in warnings(path))
    assert errors(path) == []


def test_a_dense_record_without_a_log_gets_one_when_events_are_appended(tmp_path: Path) -> None:
    series = {"a/b": Series.of(of("a/b", (1, np.nan), (2, 0.25))), "free": Series.of(of("free", (None, 1.0)))}
    path = store(tmp_path / "a.mrec", Metrics.from_series(series))
    with MetricsLog.open(path) as log:
        assert catalog(path)["wal"]["lines"] == 3
        assert validate(path) == []
        log.append("a/b", 0.125, 3, wall_time=STAMP)
    with open_record(path) as record:
        assert record.metrics is not None
        assert record.metrics["free"] == series["free"]
        steps, values, _ = record.metrics["a/b"]
        assert steps is not None
        assert values is not None
        assert steps.tolist() == [1, 2, 3]
        assert values.tolist()[1:] == [0.25, 0.125]
    assert validate(path) == []


def test_a_closed_record_whose_log_has_no_watermark(tmp_path: Path) -> None:
    """The dense series are the whole record: the lines of the log are in them already."""
    path = store(tmp_path / "a.mrec", Metrics.from_events(of("k", (None, 1.0), (None, 2.0))))
    stores.drop_attribute(path / "metrics", "wal")
    assert curves(path)["k"][1] == [1.0, 2.0]
    assert validate(path) == []
    with MetricsLog.open(path) as log:
        log.append("k", 3.0, wall_time=STAMP)
    assert curves(path)["k"][1] == [1.0, 2.0, 3.0]
    assert catalog(path)["wal"]["lines"] == 3


def test_densifying_keeps_what_it_does_not_know(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", build_fit().metrics)
    stores.set_attribute(path / "metrics", later={"a": None})
    stores.edit(path / "metrics", lambda d: d["attributes"]["series"]["eval/MAE"].update(unit="kcal/mol"))
    stores.set_attribute(path / "metrics" / "series" / "train%2Floss", later=2)
    stores.set_attribute(path / "metrics" / "series", later=3)
    untouched = (path / "metrics" / "series" / "eval%2FMAE" / "zarr.json").stat().st_ino
    with MetricsLog.open(path) as log:
        log.append("train/loss", 0.125, 3, wall_time=STAMP, tags={"rank": [0, 1]})
    assert catalog(path)["later"] == {"a": None}
    assert catalog(path)["series"]["eval/MAE"]["unit"] == "kcal/mol"
    assert stores.attributes(path / "metrics" / "series" / "train%2Floss") == {"later": 2}
    assert stores.attributes(path / "metrics" / "series") == {"later": 3}
    assert (path / "metrics" / "series" / "eval%2FMAE" / "zarr.json").stat().st_ino == untouched
    assert b'"tags":{"rank":[0,1]}' in log_path(path).read_bytes()
    with open_record(path) as record:
        assert record.metrics is not None
        assert [event.tags for event in record.metrics.events()] == [None, None, None, {"rank": [0, 1]}]


def test_unsafe_names_of_others_are_read_and_put_right(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", Metrics.from_events(of("a/b", (1, 1.0))))
    for field in ("series", "steps", "wall_time"):
        os.rename(path / "metrics" / field / "a%2Fb", path / "metrics" / field / "a%2fb")
    assert curves(path) == {"a/b": ([1], [1.0], [STAMP])}
    assert all("the safe name of 'a/b' is a%2Fb" in text for _, text in errors(path))
    with MetricsLog.open(path) as log:
        log.append("a/b", 2.0, 2, wall_time=STAMP)
    assert validate(path) == []
    assert curves(path) == {"a/b": ([1, 2], [1.0, 2.0], [STAMP] * 2)}


# --- one writer, and what it survives ---------------------------------------------------------------------------------


def test_one_writer(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec")
    log = MetricsLog.open(path)
    with pytest.raises(UsageError, match="by this process already"):
        MetricsLog.open(path)
    with pytest.raises(UsageError, match=r"by this process already: complete that first$"):
        pack(path, tmp_path / "a.mrec.zip")
    log.close()
    log.close()
    with pytest.raises(UsageError, match="are closed"):
        log.append("k", 1.0)
    MetricsLog.open(path).close()


@pytest.mark.parametrize("what", ["missing", "file", "no record", "an array"])
def test_where_there_is_no_record(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.mrec"
    if what == "file":
        path.write_bytes(b"")
    elif what == "no record":
        path.mkdir()
    elif what == "an array":
        hand.array(path, [1.0])
    with pytest.raises(UnsupportedError if what == "file" else UsageError):
        MetricsLog.open(path)


def test_an_exception_keeps_the_log(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec")

    def run() -> None:
        with MetricsLog.open(path) as log:
            log.append("k", 1.0, 1, wall_time=STAMP)
            raise RuntimeError("the run failed")

    with pytest.raises(RuntimeError, match="the run failed"):
        run()
    assert curves(path) == {"k": ([1], [1.0], [STAMP])}
    assert not (path / "metrics" / "series").exists()
    MetricsLog.open(path).close()
    assert validate(path) == []


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec")
    log = MetricsLog.open(path)
    log.append("k", 1.0, 1, wall_time=STAMP)
    size = log_path(path).stat().st_size
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with stores.no_room(size + 30), pytest.raises(OSError, match="too large"):
            log.append("k", 2.0, 2, wall_time=STAMP)
    finally:
        signal.signal(signal.SIGXFSZ, previous)
    assert log_path(path).stat().st_size == size
    log.append("k", 3.0, 3, wall_time=STAMP)
    log.close()
    assert curves(path)["k"][:2] == ([1, 3], [1.0, 3.0])


def test_the_log_and_the_watermark_disagree(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", build_fit().metrics)
    whole = log_path(path).read_bytes()
    log_path(path).write_bytes(whole[:100])
    with pytest.raises(ContractError, match=r"shorter than its watermark: found 78, expected 233"):
        MetricsLog.open(path)
    assert curves(path)["train/loss"][1] == [0.5, 0.25]
    assert any(node == "metrics.wal" and "end at 78" in text for node, text in errors(path))
    log_path(path).write_bytes(whole)
    stores.set_attribute(path / "metrics", wal={"lines": 1, "bytes": 50})
    with pytest.raises(ContractError, match="not at the end of a line"):
        MetricsLog.open(path)
    with pytest.raises(ContractError, match="not at the end of a line"):
        curves(path)
    assert any(node == "metrics.wal" and "not at the end of a line" in text for node, text in errors(path))


@pytest.mark.parametrize(
    "wal", [{}, {"lines": 1}, {"lines": -1, "bytes": 0}, {"lines": 1, "bytes": 1.5}, [3, 233], None]
)
def test_a_watermark_that_is_none_is_refused(tmp_path: Path, wal: Any) -> None:
    path = store(tmp_path / "a.mrec", build_fit().metrics)
    stores.set_attribute(path / "metrics", wal=wal)
    with pytest.raises(ContractError, match=r"metrics\.wal: the watermark is not two numbers"):
        curves(path)
    assert (
        "metrics.wal",
        f'the watermark is not two numbers: found {str(wal)[:60]}, expected {{"lines": n, "bytes": m}}',
    ) in errors(path)


CHILD = """
import sys
from molrec_convert.stores.zarr.sections.metrics import MetricsLog
from molrec_convert.model import Event
stamp = "2026-08-04T00:00:01+00:00"
path, start = sys.argv[1], int(sys.argv[2])
log = MetricsLog.open(path)
print("open", flush=True)
n = start
while True:
    for _ in range(50):
        tags = "x" * (n % 300)
        log.extend([Event("a", float(n), stamp, n % 97, tags), Event("free", float(n), stamp, None)])
        n += 1
        print(n, flush=True)
    log.close()
    log = MetricsLog.open(path)
"""


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_that_was_whole(tmp_path: Path) -> None:
    """Killed after any number of events, in the middle of making dense arrays too: every whole line counts, once."""
    path = store(tmp_path / "a.mrec")
    random = np.random.default_rng(7)
    seen = 0
    for _ in range(25):
        child = subprocess.Popen([sys.executable, "-c", CHILD, path, str(seen)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"open\n"
        for _ in range(int(random.integers(0, 120))):
            child.stdout.readline()
        time.sleep(float(random.uniform(0.0, 0.02)))  # not only right after an event
        child.kill()
        child.stdout.read()
        child.wait()
        child.stdout.close()
        lines = [json.loads(line) for line in log_path(path).read_bytes().split(b"\n")[:-1]]
        free = [line["v"] for line in lines if line["k"] == "free"]
        stepped = {line["s"]: line["v"] for line in lines if line["k"] == "a"}
        assert len(free) >= seen
        seen = len(free)
        found = curves(path)
        if free:
            assert found["free"][1] == free
        if stepped:
            assert dict(zip(found["a"][0], found["a"][1], strict=True)) == stepped
    MetricsLog.open(path).close()
    assert validate(path) == []
    assert curves(path)["free"][1] == free
    assert seen > 500


keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
numbers = st.floats(allow_nan=False) | st.sampled_from([np.nan, np.inf, -np.inf])
steps = st.none() | st.integers(-3, 5) | st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=40)
@given(data=st.data())
def test_any_events_in_any_sessions_give_the_same_curves(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    names = data.draw(st.lists(keys, min_size=1, max_size=3, unique=True))
    one = st.builds(Event, st.sampled_from(names), numbers, st.just(STAMP), steps, st.none() | stores.documents)
    sessions = data.draw(st.lists(st.lists(one, max_size=6), max_size=4))
    path = store(tmp_path_factory.mktemp("any") / "a.mrec")
    for events in sessions:
        log = MetricsLog.open(path)
        log.extend(events)
        log.close() if data.draw(st.booleans()) else log.release()
        assert errors(path) == []
    every = [event for events in sessions for event in events]
    expected = Metrics.from_events(every)
    with open_record(path) as record:
        found = record.metrics
        assert set(found or {}) == set(expected)
        for key in expected:
            assert found is not None
            assert found[key] == expected[key]
    if sessions:
        MetricsLog.open(path).close()
        with open_record(path) as record:
            assert record.metrics is not None
            assert {key: record.metrics[key] for key in record.metrics} == dict(expected)
            assert dict(record.metrics.dense) == dict(expected.dense)
        assert validate(path) == []


@given(text=st.binary(max_size=200), stop=st.none() | st.integers(0, 200))
def test_lines_of_any_bytes(text: bytes, stop: int | None) -> None:
    end = len(text) if stop is None else stop
    assert list(log_lines(MemoryLog(text), 0, stop)) == text[:end].split(b"\n")[:-1]


@settings(max_examples=60)
@given(text=st.binary(max_size=120))
def test_any_log_ends_in_findings(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path = live(tmp_path_factory.mktemp("bytes") / "a.mrec", of("k", (1, 1.0)))
    with log_path(path).open("ab") as file:
        file.write(text)
    found = errors(path)
    try:
        curves(path)
        assert found == []
    except ContractError:
        assert found != []


# --- validation -------------------------------------------------------------------------------------------------------


def change_array(where: str, values: Any) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        shutil.rmtree(path / "metrics" / where, ignore_errors=True)
        hand.array(path / "metrics" / where, values)

    return apply


def change_catalog(**values: Any) -> Callable[[Path], None]:
    return lambda path: stores.set_attribute(path / "metrics", **values)


def change_entry(**values: Any) -> Callable[[Path], None]:
    return lambda path: stores.edit(path / "metrics", lambda d: d["attributes"]["series"]["eval/MAE"].update(values))


def remove(where: str) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        target = path / "metrics" / where
        target.unlink() if target.is_file() else (target / "zarr.json").unlink()

    return apply


def both(*changes: Callable[[Path], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        for change in changes:
            change(path)

    return apply


FAULTS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "values differ from the log": (change_array("series/train%2Floss", [0.5, 0.3]), "metrics/series/train%2Floss",
                                   "differs from what the first lines of the log"),
    "steps differ from the log": (change_array("steps/train%2Floss", [1, 3]), "metrics/series/train%2Floss", "differs"),
    "dtype": (change_array("series/train%2Floss", [1, 2]), "metrics/series/train%2Floss", "expected f64[n]"),
    "dtype of steps": (change_array("steps/eval%2FMAE", [2.0]), "metrics/steps/eval%2FMAE", "expected i64[n]"),
    "axes": (change_array("series/train%2Floss", [[0.5, 0.25]]), "metrics/series/train%2Floss", "found f64[1][2]"),
    "lengths": (change_array("steps/train%2Floss", [1]), "metrics/steps/train%2Floss", "has 1 rows, the series has 2"),
    "no wall times": (remove("wall_time/eval%2FMAE"), "metrics/series/eval%2FMAE", "has no wall times"),
    "wall time": (change_array("wall_time/eval%2FMAE", ["noon"]), "metrics/wall_time/eval%2FMAE", "RFC 3339"),
    "a series the log has not": (
        both(change_array("series/new", [1.0]), change_array("wall_time/new", [STAMP])),
        "metrics/series/new", "have no such series"),
    "a series is missing": (
        both(remove("series/eval%2FMAE"), change_catalog(series={})),
        "metrics/series/eval%2FMAE", "is missing"),
    "lines of the watermark": (change_catalog(wal={"lines": 2, "bytes": 233}), "metrics.wal", "are 3 lines: found 2"),
    "catalog": (change_catalog(series=[1]), "metrics.series", "not a JSON object"),
    "entry": (change_catalog(series={"eval/MAE": 3}), "metrics.series.eval/MAE", "not a JSON object"),
    "entry of nothing": (change_catalog(series={"gone": {"type": "scalar", "count": 1}}), "metrics.series.gone",
                         "neither dense nor in the log"),
    "type": (change_entry(type=3), "metrics.series.eval/MAE", "type is not a text"),
    "count": (change_entry(count=-1), "metrics.series.eval/MAE", "not a number of values"),
    "latest step": (change_entry(latest_step="2"), "metrics.series.eval/MAE", "latest_step is not an integer"),
    "latest time": (change_entry(latest_timestamp="now"), "metrics.series.eval/MAE", "RFC 3339"),
    "time of an event": (lambda path: log_path(path).write_bytes(
        log_path(path).read_bytes().replace(b"2026-08-04T00:00:01+00:00", b"2026-08-04T00:00:01......")) and None,
        "metrics/metrics.jsonl", "1 events have no RFC 3339 time"),
    "series is an array": (change_array("series", [1.0]), "metrics/series", "not a Zarr group"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_found(tmp_path: Path, what: str) -> None:
    change, node, words = FAULTS[what]
    path = store(tmp_path / "a.mrec", build_fit().metrics)
    change(path)
    found = errors(path)
    assert any(where == node and words in text for where, text in found), found


@pytest.mark.parametrize("where", ["log", "dense"])
def test_a_time_that_is_none_does_not_pass_into_another_record(tmp_path: Path, where: str) -> None:
    path = store(tmp_path / "a.mrec", build_fit().metrics)
    if where == "log":
        log_path(path).write_bytes(log_path(path).read_bytes().replace(b"00:00:01+00:00", b"00:00:01......"))
        sentence = "metrics/metrics.jsonl, line 1: not an RFC 3339 time with an offset"
    else:
        change_array("wall_time/eval%2FMAE", ["noon"])(path)
        sentence = "metrics/wall_time/eval%2FMAE: not an RFC 3339 time with an offset: found 'noon'"
    with pytest.raises(ContractError) as caught:
        molrec_convert.convert(path, tmp_path / "b.mrec")
    assert str(caught.value).startswith(sentence)
    assert "expected date, time and offset, as in 2026-01-31T12:00:00+00:00" in str(caught.value)
    assert not (tmp_path / "b.mrec").exists()


def test_what_an_interrupted_writer_leaves_is_a_warning(tmp_path: Path) -> None:
    """It was killed after it made new arrays, or removed old ones, and before it moved the watermark."""
    path = store(tmp_path / "a.mrec", Metrics.from_events(of("k", (None, 1.0)) + of("gone", (1, 1.0))))
    earlier = catalog(path)
    with MetricsLog.open(path) as log:
        log.append("k", 2.0, wall_time=STAMP)
    hand.group(path / "metrics", **earlier)
    shutil.rmtree(path / "metrics" / "series" / "gone")
    assert curves(path) == {"k": (None, [1.0, 2.0], [STAMP] * 2), "gone": ([1], [1.0], [STAMP])}
    assert errors(path) == []
    found = warnings(path)
    assert ("metrics/series/k", "is newer than the watermark, left by an interrupted writer") in found
    assert any(node == "metrics/series/gone" and "is missing, left out" in text for node, text in found)
    MetricsLog.open(path).close()
    assert validate(path) == []


def test_what_is_odd_and_readable_is_a_warning(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", build_fit().metrics)
    change_entry(count=5)(path)
    hand.array(path / "metrics" / "steps" / "stray", [1])
    assert errors(path) == []
    assert ("metrics.series.eval/MAE", "the count is 5, the dense series has 1 values") in warnings(path)
    assert ("metrics/steps/stray", "belongs to no series, left by a writer") in warnings(path)
    assert curves(path)["eval/MAE"][1] == [0.1]
    log_path(path).unlink()
    assert ("metrics.wal", "there is a watermark and no log") in warnings(path)


REFUSED = ["dtype", "dtype of steps", "axes", "catalog", "series is an array"]


@pytest.mark.parametrize("what", REFUSED)
def test_arrays_that_are_no_series_are_refused(tmp_path: Path, what: str) -> None:
    change, node, _ = FAULTS[what]
    path = store(tmp_path / "a.mrec", build_fit().metrics)
    change(path)
    with pytest.raises(ContractError) as error:
        curves(path)
    assert error.value.node == node


@pytest.mark.parametrize("what", ["lengths", "no wall times"])
def test_a_series_left_unfinished_is_read_from_the_log(tmp_path: Path, what: str) -> None:
    change, _, _ = FAULTS[what]
    path = store(tmp_path / "a.mrec", build_fit().metrics)
    expected = curves(path)
    change(path)
    assert curves(path) == expected
    log_path(path).unlink()
    with pytest.raises(ContractError, match="metrics/"):
        curves(path)


def test_a_listed_series_that_is_nowhere(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec", build_fit().metrics)
    FAULTS["entry of nothing"][0](path)
    with pytest.raises(ContractError, match=r"metrics\.series\.gone: the series is neither dense nor in the log"):
        curves(path)


@pytest.mark.parametrize("field", ["series", "wall_time"])
def test_huge_claims_end_in_findings(tmp_path: Path, field: str) -> None:
    path = store(tmp_path / "a.mrec", build_fit().metrics)
    for name in ("series", "steps", "wall_time") if field == "series" else (field,):
        stores.edit(path / "metrics" / name / "train%2Floss", lambda document: document.update(shape=[10**15]))
    assert errors(path) != []


def test_a_section_that_is_an_array(tmp_path: Path) -> None:
    path = store(tmp_path / "a.mrec")
    hand.array(path / "metrics", [1.0])
    with pytest.raises(ContractError, match="metrics: the section is not a Zarr group"):
        curves(path)
    assert ("metrics", "the section is not a Zarr group") in errors(path)


# --- diff, and beside a trajectory ------------------------------------------------------------------------------------


def test_the_form_is_no_difference(tmp_path: Path) -> None:
    closed = store(tmp_path / "a.mrec", Metrics.from_events(fit_events()))
    with open_record(closed) as a, open_record(live(tmp_path / "b.mrec", fit_events())) as b:
        assert list(differences(a, b)) == []


def test_differences_of_curves(tmp_path: Path) -> None:
    def lines(one: Metrics | None, other: Metrics | None) -> list[str]:
        return list(differences(Record(metrics=one), Record(metrics=other)))

    events = fit_events()
    a = Metrics.from_events(events)
    assert lines(a, None) == ["metrics: is in the first only"]
    changed = [*events[:2], Event("eval/MAE", 0.2, events[2].wall_time, 3, {"rank": 0})]
    *found, of_the_log = lines(a, Metrics.from_events(changed))
    assert found == ["metrics/eval%2FMAE, values 0: 0.1 against 0.2", "metrics/eval%2FMAE, steps 0: 2 against 3"]
    assert of_the_log.startswith('metrics/metrics.jsonl, line 3: {"k": "eval/MAE", "s": 2, ')
    assert ' against {"k": "eval/MAE", "s": 3, "t": "scalar", "tags": {"rank": 0' in of_the_log
    more = Metrics.from_events([*events, Event("new", 1.0, STAMP)])
    assert lines(a, more) == [
        "metrics/new: is in the second only",
        "metrics/metrics.jsonl: goes on in the second only, from line 4 on",
    ]
    longer = Metrics.from_series({**a.dense, "eval/MAE": Series.of(of("eval/MAE", (None, 1.0), (None, 2.0)))})
    assert lines(a, longer)[0] == "metrics/eval%2FMAE: 1 values against 2"
    assert lines(a, longer)[-1] == "metrics/metrics.jsonl: is in the first only"
    noted = Metrics(a.dense, a.log, {**a.catalog, "later": 1}, {"series": {"x": 1}})
    assert lines(a, noted) == [
        "metrics: 'later' is in the second only: 1",
        "metrics/series: 'x' is in the second only: 1",
    ]


def test_appending_frames_leaves_the_log_alone(tmp_path: Path) -> None:
    record = build_vibration()
    record.metrics = build_fit().metrics
    write_record(record, tmp_path / "a.mrec", CONTEXT)
    before = {k: v for k, v in stores.every_file(tmp_path / "a.mrec") if k.startswith("metrics/")}
    assert record.trajectory is not None
    with molrec_convert.append(tmp_path / "a.mrec") as writer:
        frame = record.trajectory.frame(3)
        frame.step, frame.time = 400, 2.0
        writer.append_frame(frame)
    after = {k: v for k, v in stores.every_file(tmp_path / "a.mrec") if k.startswith("metrics/")}
    assert before == after
