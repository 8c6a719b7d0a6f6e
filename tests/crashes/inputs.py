"""Small inputs for workloads: texts of foreign formats, frames that are a function of their ordinal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from molrec_convert import Block, Box, Frame, MemoryTrajectory, Record, write


def dump(frames: int, atoms: int, *, seed: int = 0, ragged: bool = False, first: int = 0) -> str:
    """A LAMMPS dump; `ragged`: with now and then some atoms more."""
    draw, parts = np.random.default_rng(seed), []
    for i in range(first, first + frames):
        n = atoms + (i // 7 % 3 if ragged else 0)
        parts.append(f"ITEM: TIMESTEP\n{i * 10}\nITEM: NUMBER OF ATOMS\n{n}\nITEM: BOX BOUNDS pp pp pp\n")
        parts.append(f"0 {10 + i // 12 * 0.5}\n0 10\n0 10\nITEM: ATOMS id type mass x y z\n")
        for k, (x, y, z) in enumerate(draw.random((n, 3)) * 10):
            parts.append(f"{k + 1} {1 + k % 2} {1.0 + k % 2} {x:.6f} {y:.6f} {z:.6f}\n")
    return "".join(parts)


def extxyz(frames: int, *, seed: int = 0) -> str:
    """Configurations of three to five atoms with energies and forces."""
    draw, parts = np.random.default_rng(seed), []
    for i in range(frames):
        n = 3 + int(draw.integers(0, 3))
        parts.append(
            f'{n}\nLattice="10 0 0 0 10 0 0 0 10" Properties=species:S:1:pos:R:3:forces:R:3 '
            f'energy={draw.normal():.8f} config_type=c{i % 3} pbc="T T T"\n'
        )
        for k in range(n):
            parts.append(f"{'HOC'[k % 3]} " + " ".join(f"{v:.8f}" for v in draw.normal(size=6)) + "\n")
    return "".join(parts)


def frame(i: int) -> Frame:
    """Frame `i` of the records that are appended to: rows, the cell and the stride of the steps change on the way."""
    draw = np.random.default_rng(1000 + i)
    n = 5 + i // 16 % 3
    atoms = Block({name: draw.normal(size=n) for name in "xyz"})
    return Frame(
        {"atoms": atoms},
        step=i * 10 if i < 40 else i * 10 + 3,
        time=i * 0.5,
        meta={"pe": float(draw.normal())},
        box=Box(np.eye(3) * (10 + i // 12)),
    )


def varied(i: int) -> Frame:
    """Frame `i` of records whose parts change their form: zeros end, a block stops and goes on, a cell is not fixed."""
    draw = np.random.default_rng(2000 + i)
    last = i if i < 12 else max(11, i - i % 9)
    return Frame(
        {
            "atoms": Block({"x": draw.normal(size=3), "v": draw.normal(size=3) * (i >= 20)}),
            "slow": Block({"q": np.array([last + 0.5, -last])}),
        },
        step=i * 10 if i < 40 else i * 10 + 3,
        time=i * 0.5 if i < 44 else i * 0.25 + 11.1,
        meta={"pe": float(draw.normal())},
        box=Box(np.eye(3) * (10 + max(0, i - 25) // 5)),
    )


def same_frame(found: Frame, expected: Frame) -> bool:
    """Whether a frame that was read is the one that was written, bit for bit."""
    return (
        found.step == expected.step
        and found.time == expected.time
        and found.meta["pe"] == expected.meta["pe"]
        and found.box is not None
        and expected.box is not None
        and np.array_equal(found.box.vectors, expected.box.vectors)
        and all(
            np.array_equal(found[name][key], column.values)
            for name, block in expected.blocks.items()
            for key, column in block.columns.items()
        )
    )


def record(path: Path, frames: int, make: Callable[[int], Frame] = frame) -> None:
    """Write a record of so many frames."""
    write(Record(meta={"title": "t"}, trajectory=MemoryTrajectory([make(i) for i in range(frames)])), path)
