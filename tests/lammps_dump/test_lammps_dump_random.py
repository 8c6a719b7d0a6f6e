"""Random dumps, read by the reader and by a plain one written here: the same frames, however they are cut."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_texts import read, value_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molrec_lammps.dump import batch as dump_batch
from molrec_lammps.dump import batch as dump_units
from molrec_lammps.dump import index as dump_index

#: Column of a dump → column of a record, and what a value of it is.
COLUMNS: dict[str, tuple[str, Any]] = {
    "type": ("type_id", int),
    "q": ("charge", float),
    "mol": ("mol_id", int),
    "ix": ("ix", int),
    "vx": ("vx", float),
    "c_pe[1]": ("c_pe[1]", float),
    "i_flag": ("i_flag", int),
    "element": ("element", str),
    "radius": ("radius", float),
}
reals = st.one_of(st.floats(-50, 50).map(lambda v: f"{v:g}"), st.floats(-1e9, 1e9).map(repr), st.just("0"))
VALUES = {
    float: reals,
    int: st.integers(0, 9).map(str),
    str: st.sampled_from(["C", "H", "Xe", "In"]),
}


@st.composite
def dumps(draw: st.DrawFn) -> str:
    """The text of a dump of some frames, with all that may differ between frames of one run."""
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), unique=True, max_size=5))
    ids = draw(st.lists(st.one_of(st.integers(1, 12), st.integers(1, 2**62)), unique=True, min_size=1, max_size=6))
    whole = draw(st.booleans())
    shuffled = draw(st.booleans())
    boxes = draw(st.sampled_from(["one", "plain", "any"]))
    timed, united = draw(st.booleans()), draw(st.booleans())
    end = draw(st.sampled_from(["\n", "\n", " \n"]))
    steady = {(n, i): draw(VALUES[COLUMNS[n][1]]) for n in names for i in ids}
    texts = []
    step = 0
    for number in range(draw(st.integers(1, 6))):
        step += draw(st.integers(1, 300))
        own = ids if whole else draw(st.lists(st.sampled_from(ids), unique=True, max_size=len(ids)))
        own = draw(st.permutations(own))
        columns = ["id", *names, "x", "y", "z"]
        columns = draw(st.permutations(columns)) if shuffled else columns
        text = "ITEM: UNITS\nreal\n" if united and not number else ""
        text += f"ITEM: TIME\n{number / 4}\n" if timed else ""
        text += f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{len(own)}\n"
        text += draw(box_lines(boxes, number)) + f"ITEM: ATOMS {' '.join(columns)}\n"
        moving = draw(st.sets(st.sampled_from(names))) if names else set()
        for i in own:
            row = {n: draw(VALUES[COLUMNS[n][1]]) if n in moving else steady[n, i] for n in names}
            row |= {"id": str(i), **{axis: draw(reals) for axis in "xyz"}}
            text += " ".join(row[name] for name in columns) + end
        texts.append(text)
    return "".join(texts)


@st.composite
def box_lines(draw: st.DrawFn, kind: str, number: int) -> str:
    letters = draw(st.sampled_from(["pp pp pp", "pp ff ss"])) if kind == "any" else "pp pp pp"
    if kind == "one":
        return f"ITEM: BOX BOUNDS {letters}\n0 8\n0 9\n0 10\n"
    if kind == "plain" or draw(st.booleans()):
        return f"ITEM: BOX BOUNDS {letters}\n-1 {number}.5\n0 9\n{-number}e-1 1.0e+01\n"
    return f"ITEM: BOX BOUNDS xy xz yz {letters}\n-1 7.5 0.5\n0 9 -{number}\n0 10 0.25\n"


def plainly(text: str) -> list[dict[str, Any]]:
    """A reader of a few lines: step, time, box lines and rows by id of each frame."""
    lines = iter(text.splitlines())
    frames: list[dict[str, Any]] = []
    time, count = None, 0
    for line in lines:
        if line == "ITEM: UNITS":
            next(lines)
        elif line == "ITEM: TIME":
            time = float(next(lines))
        elif line == "ITEM: TIMESTEP":
            frames.append({"step": int(next(lines)), "time": time})
        elif line.startswith("ITEM: BOX"):
            frames[-1]["box"] = line.split()[3:], [[float(v) for v in next(lines).split()] for _ in range(3)]
        elif line.startswith("ITEM: ATOMS"):
            names = line.split()[2:]
            rows = [dict(zip(names, next(lines).split(), strict=True)) for _ in range(count)]
            frames[-1]["rows"] = dict(sorted((int(row["id"]), row) for row in rows))
        else:
            count = int(next(lines))
    return frames


def cell(words: list[str], lines: list[list[float]]) -> tuple[list[list[float]], list[float], list[bool]]:
    xy, xz, yz = (line[2] for line in lines) if "xy" in words else (0.0, 0.0, 0.0)
    low = [lines[0][0] - min(0, xy, xz, xy + xz), lines[1][0] - min(0, yz), lines[2][0]]
    high = [lines[0][1] - max(0, xy, xz, xy + xz), lines[1][1] - max(0, yz), lines[2][1]]
    vectors = [[high[0] - low[0], xy, xz], [0, high[1] - low[1], yz], [0, 0, high[2] - low[2]]]
    return vectors, low, [word == "pp" for word in words[-3:]]


@pytest.mark.slow
@given(
    text=dumps(),
    job=st.sampled_from([1, 100, 2**23]),
    unit=st.sampled_from([(1, 1), (40, 2**22), (2**20, 2**22)]),
    leap=st.sampled_from([0, 2**16]),
    block=st.sampled_from([50, 400, 2**22]),
    exact=st.booleans(),
)
@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_equal_to_a_plain_reader(
    text: str, job: int, unit: tuple[int, int], leap: int, block: int, exact: bool
) -> None:
    expected = plainly(text)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(dump_batch.RowReader.jobs, "__defaults__", (job,))
        patch.setattr(dump_units, "_UNIT_BYTES", unit[0])
        patch.setattr(dump_units, "_LONGEST_UNIT", unit[1])
        patch.setattr(dump_index, "_LEAP_BYTES", leap)
        if exact:
            patch.setattr(dump_index, "quick_index", dump_index.exact_index)
        patch.setattr(dump_index, "_BLOCK_BYTES", block)
        patch.setattr(dump_index, "_HEADER_BYTES", min(block, 2**12))
        path = Path(folder) / "a.dump"
        path.write_text(text)
        record, _ = read(path)
        trajectory = record.trajectory
        assert trajectory is not None
        states = list(trajectory)
        alone = [trajectory[number] for number in range(len(trajectory))]
    assert [state.step for state in states] == [frame["step"] for frame in expected]
    assert [state.time for state in states] == [frame["time"] for frame in expected]
    for state, single, frame in zip(states, alone, expected, strict=True):
        assert single.blocks == state.blocks
        rows = frame["rows"]
        vectors, origin, boundary = cell(*frame["box"])
        assert state.box is not None
        assert (state.box.vectors.tolist(), state.box.origin.tolist()) == (vectors, origin)
        assert state.box.boundary.tolist() == boundary
        assert value_of(record, state, "id").tolist() == list(rows)
        for name in next(iter(rows.values()), {}):
            if name == "id":
                continue
            own, kind = COLUMNS.get(name, (name, float))
            if name == "element":
                own = "element" if has(record, state, "element") else "element_text"
            found = value_of(record, state, own)
            values = [kind(row[name]) for row in rows.values()]
            if kind is float:
                assert np.array_equal(found.view(np.int64), np.array(values).view(np.int64)), name
            else:
                assert found.tolist() == values, name


def has(record: Any, state: Any, name: str) -> bool:
    blocks = [*state.blocks.values(), *record.system.blocks.values()]
    return any(name in block for block in blocks)
