"""Damaged stores at the command line: every command ends in a result or in one sentence, never in a traceback."""

from __future__ import annotations

import contextlib
import io
import shutil
from pathlib import Path

import pytest
from hand_stores import ragged, regular, snapshots
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molrec_convert.cli import run


def store_files(path: Path) -> list[Path]:
    return sorted(f for f in path.rglob("*") if f.is_file())


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_every_command(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("damage")
    build = data.draw(st.sampled_from([snapshots, regular, ragged]))
    path, good = build(folder / "bad.mrec"), build(folder / "good.mrec")
    victim = data.draw(st.sampled_from(store_files(path)))
    raw = victim.read_bytes()
    kind = data.draw(st.sampled_from(["cut", "flip", "random", "swap"]))
    if kind == "cut":
        victim.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    elif kind == "flip":
        place = data.draw(st.integers(0, len(raw) - 1))
        victim.write_bytes(raw[:place] + bytes([raw[place] ^ data.draw(st.integers(1, 255))]) + raw[place + 1 :])
    elif kind == "random":
        victim.write_bytes(data.draw(st.binary(max_size=60)))
    else:
        victim.write_bytes(data.draw(st.sampled_from(store_files(path))).read_bytes())
    codes = {}
    for command in (
        ["tree", path],
        ["tree", path, "--files"],
        ["info", path],
        ["validate", path],
        ["diff", path, good],
        ["diff", good, path],
        ["convert", path, folder / "out.mrec"],
        ["pack", path, folder / "out.zip"],
    ):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = codes[str(command[0])] = run([str(word) for word in command])
        text = err.getvalue()
        assert code in (0, 1, 2), (command, text)
        assert "Traceback" not in text
        assert "please report" not in text, (command, text)
    assert not (folder / "out.mrec").exists() or codes["convert"] == 0
    shutil.rmtree(folder)
