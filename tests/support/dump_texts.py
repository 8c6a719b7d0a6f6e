"""Texts of LAMMPS dumps for tests, and short ways to read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molrec_convert.formats import ReadContext
from molrec_convert.model import Frame, Record
from molrec_convert.report import Report
from molrec_lammps.dump.record import RunFacts, dump_record
from molrec_lammps.options import DumpOptions

BOX = ("BOX BOUNDS pp pp pp", "0 8\n0 9\n0 10\n")


def frame(
    step: int,
    rows: Sequence[str] | str,
    columns: str = "id type x y z",
    *,
    box: tuple[str, str] = BOX,
    count: int | None = None,
    time: Any = None,
    units: str | None = None,
) -> str:
    """The text of one frame; `rows` are its lines."""
    lines = rows.splitlines() if isinstance(rows, str) else list(rows)
    text = "" if units is None else f"ITEM: UNITS\n{units}\n"
    text += "" if time is None else f"ITEM: TIME\n{time}\n"
    text += f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{len(lines) if count is None else count}\n"
    text += f"ITEM: {box[0]}\n{box[1]}ITEM: ATOMS {columns}\n"
    return text + "".join(f"{line}\n" for line in lines)


def melt(frames: int = 3, atoms: int = 4, seed: int = 0, first: int = 0, stride: int = 10) -> str:
    """A small run: ids in another order in each frame, x y z of six digits."""
    random = np.random.default_rng(seed)
    types = random.integers(1, 4, atoms + 1)
    texts = []
    for number in range(frames):
        ids = random.permutation(atoms) + 1
        rows = [f"{i} {types[i]} " + " ".join(f"{v:g}" for v in random.normal(0, 5, 3)) for i in ids]
        texts.append(frame(first + number * stride, rows))
    return "".join(texts)


def write(path: Path, *frames: str) -> Path:
    """Write frames to a file."""
    path.write_text("".join(frames))
    return path


def read(
    paths: Path | Sequence[Path],
    facts: RunFacts | None = None,
    *,
    joined: Sequence[Sequence[Path]] = (),
    hints: Sequence[str] = (),
    named: bool = False,
    **options: Any,
) -> tuple[Record, Report]:
    """A dump as a record, and the report of reading it."""
    context = ReadContext(DumpOptions(**options), hints=frozenset(hints))
    files = [paths] if isinstance(paths, Path) else list(paths)
    return dump_record(files, context, facts, joined=joined, named=named), context.report


def column(record: Record, number: int, name: str) -> Any:
    """A column of the atoms at a frame, wherever it is."""
    assert record.trajectory is not None
    return value_of(record, record.trajectory[number], name)


def value_of(record: Record, state: Frame, name: str) -> Any:
    """A column of the atoms in a resolved frame, or in system."""
    blocks = [block for block in state.blocks.values() if name in block]
    if record.system is not None and "atoms" in record.system and name in record.system["atoms"]:
        blocks.append(record.system["atoms"])
    assert len(blocks) == 1, f"{name} is in {len(blocks)} places"
    return blocks[0][name]


def positions(record: Record, number: int) -> np.ndarray:
    """x y z of a frame, [atoms, 3]."""
    return np.stack([column(record, number, axis) for axis in "xyz"], axis=1)


def fates(report: Report, word: str) -> list[str]:
    """Lines of a report that contain a word, with warnings and truncations."""
    return [line for line in [*map(str, report.items), *report.warnings, *report.truncations] if word in line]
