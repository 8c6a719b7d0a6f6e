"""Whatever is done to a file, it is read or refused in one sentence; nothing else happens."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import molrec_convert
from molrec_convert import Record
from molrec_convert.errors import MolrecError

TEXT = (
    b'3\nLattice="5.0 0 0 0 5 0 0 0 5" Properties=species:S:1:pos:R:3:forces:R:3:id:I:1:fixed:L:1 energy=-1.5 '
    b'name="two words" stress="1 0 0 0 2 0 0 0 3" list=[1,2] flag pbc="T T F" step=4\n'
    b"H       1.00000000     -2.50000000      0.12500000      0.10000000     -0.20000000      0.30000000 1 T\n"
    b"Cl      1.50000000      2.50000000     10.12500000      0.10000000     -0.20000000      0.30000000 2 F\n"
    b"H      -1.25000000     22.50000000     -0.00000000      0.10000000     -0.20000000      0.30000000 3 T\n"
    b"2\nplain comment\nO 0.5 1e-3 -7 0.25\nC1 1 2 3 0.5\n"
    b"1\nProperties=species:S:1:pos:R:3 energy=-2 name=x\nH 0 0 0\n"
)
PIECES = [
    b"\n",
    b" ",
    b"",
    b"\t",
    b"\r",
    b'"',
    b"=",
    b"[",
    b"]",
    b"{",
    b":",
    b"-",
    b".",
    b"0",
    b"99",
    b"x",
    b"\\",
    b"\0",
    b"\xff",
    b"T",
    b"e5",
]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, 6), st.sampled_from(PIECES)), min_size=1, max_size=4),
    st.sampled_from([None, "trajectory", "collection"]),
)
def test_damaged_files(tmp_path: Path, changes: list[tuple[int, int, bytes]], form: str | None) -> None:
    text = TEXT
    for start, length, piece in changes:
        text = text[:start] + piece + text[start + length :]
    path = tmp_path / "a.xyz"
    path.write_bytes(text)
    told = ""
    try:
        with molrec_convert.read(path, format="extxyz", as_=form) as source:
            for record in [source] if isinstance(source, Record) else source:
                for batch in record.trajectory.batches():
                    assert batch.n_frames
    except MolrecError as error:
        told = str(error)
    assert "\n" not in told
