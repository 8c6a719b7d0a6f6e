"""A process that appends frames to a record until it is killed: `append_child.py ROOT FRAMES SEED`.

After each commit it prints the number of committed frames. The frames are a function of their ordinal alone, so that
whoever goes on makes the same ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    Meta,
    MetaDeclaration,
)
from molrec_convert.stores.zarr.trajectory.arrays import EVERY_BOUNDARY
from molrec_convert.stores.zarr.trajectory.writer import TrajectoryWriter

F64 = ColumnDeclaration("f64")
DECLARATION = Declaration(
    {
        "atoms": BlockDeclaration({"x": F64, "y": ColumnDeclaration("f64", precision=1e-3)}, rows=40),
        "kinds": BlockDeclaration({"type": ColumnDeclaration("string", nullable=True)}, aligned_with="atoms", rows=40),
        "bonds": BlockDeclaration({"atomi": ColumnDeclaration("u64"), "atomj": ColumnDeclaration("u64")}, rows=8),
        "grown": BlockDeclaration({"q": F64}, rows=5),
    },
    {"pe": MetaDeclaration("f64"), "note": MetaDeclaration("string", "")},
)


def frame(i: int) -> Frame:
    """Frame `i`: atoms move at every frame and gain one at 300; bonds change rarely; one block stops being regular."""
    n = 40 if i < 300 else 41
    rng = np.random.default_rng(i)
    blocks = {"atoms": Block({"x": rng.random(n), "y": rng.random(n) * 9})}
    if i in (0, 300) or i % 97 == 0:
        types = np.array([f"t{(j + i // 97) % 5}" for j in range(n)])
        blocks["kinds"] = Block({"type": Column(types, np.arange(n) % 7 != i % 7)})
    if i % 50 == 7:
        ends = rng.integers(0, 40, (8, 2)).astype(np.uint64)
        blocks["bonds"] = Block({"atomi": ends[:, 0].copy(), "atomj": ends[:, 1].copy()})
    if i < 120 or i % 60 == 0:
        blocks["grown"] = Block({"q": np.full(5, float(i))})
    meta = Meta({"pe": -float(i)} | ({"note": f"é{i}"} if i % 11 == 0 else {}))
    box = Box(np.eye(3) * (10 + i // 150)) if i % 30 == 0 else None
    return Frame(blocks, meta, box, step=i * 10 if i < 200 else i * 10 + 5, time=i * 0.5)


def main() -> None:
    root, frames, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = np.random.default_rng(seed)
    # Small enough that automatic commits fall between the durable ones.
    with TrajectoryWriter.open(root, flush_bytes=30_000, pace=EVERY_BOUNDARY) as writer:
        print("open", writer.n_frames, flush=True)
        while writer.n_frames < frames:
            for _ in range(int(rng.integers(1, 12))):
                if writer.n_frames < frames:
                    writer.append_frame(frame(writer.n_frames))
            if rng.random() < 0.5:
                writer.flush()
                print(writer.n_frames, flush=True)
    print("closed", flush=True)


if __name__ == "__main__":
    main()
