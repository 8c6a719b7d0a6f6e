"""What trajectories cost on disk, measured in stores written for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from layout_examples.array_text import shard
from molrec_convert.formats import WriteContext
from molrec_convert.inspect.tree.nodes import read_node
from molrec_convert.inspect.tree.text import zarr_text
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Record,
)
from molrec_convert.stores.zarr.record_writer import write_record
from molrec_convert.stores.zarr.v3.shards import MISSING
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage

__all__ = ["ATOMS", "FRAMES", "coordinate_rows", "overhead_rows"]

ATOMS, FRAMES, EDGE, SEED = 3000, 40, 40.0, 2026
_CASES = [("lossless `f64`", None), ("precision `p = 1e-3`", 1e-3), ("precision `p = 1e-2`", 1e-2)]


def coordinate_rows(folder: Path) -> Iterator[list[str]]:
    """How coordinates are declared, their codecs, bytes per atom and frame, other bytes of the shard files."""
    scattered = np.random.default_rng(SEED).random((FRAMES, 3, ATOMS)) * EDGE
    for number, (title, precision) in enumerate(_CASES):
        column = ColumnDeclaration("f64", precision=precision)
        declaration = Declaration({"atoms": BlockDeclaration(dict.fromkeys("xyz", column), rows=ATOMS)})
        blocks = (Block(dict(zip("xyz", xyz, strict=True))) for xyz in scattered)
        frames = [Frame({"atoms": block}, step=step) for step, block in enumerate(blocks)]
        root = folder / f"scattered-{number}.mrec"
        write_record(Record(trajectory=MemoryTrajectory(frames, declaration)), root, WriteContext(creator=False))
        chunks, indexes, codecs = _stored(root)
        yield [title, codecs, f"{chunks / (ATOMS * FRAMES):.1f}", f"{indexes:,}"]


def _stored(root: Path) -> tuple[int, int, str]:
    """Bytes of the chunks of x, y and z, all other bytes of their shards, and their codecs."""
    chunks = files = 0
    codecs = ""
    for name in "xyz":
        document, _, entries = shard(root, f"trajectory/atoms/{name}")
        chunks += int(entries[entries[:, 1] != MISSING, 1].sum())
        files += sum(file.stat().st_size for file in (root / "trajectory" / "atoms" / name / "c").iterdir())
        codecs = zarr_text(document).rpartition(" · ")[2]
    return chunks, files - chunks, codecs


def overhead_rows(folder: Path, record: str) -> Iterator[list[str]]:
    """Per section of a record's trajectory: how often it was written, and what is on disk beside its values."""
    storage = DirectoryStorage(folder / record)
    trajectory = read_node(storage, "trajectory")
    for name in ("step", "time"):
        if f"{name}_progression" in trajectory.attributes:
            yield [f"`{name}`", "–", f"attribute `{name}_progression`"]
        elif name in trajectory.folders:
            yield [f"`{name}`", "–", f"`{name}` array, {_length(storage, f'trajectory/{name}')} entries"]
    for block in [*trajectory.attributes["sequence_schema"]["blocks"], "box"]:
        node = read_node(storage, f"trajectory/{block}")
        if "step_index" in node.folders:
            updates = _length(storage, f"trajectory/{block}/step_index")
            if block == "box":
                beside = f"`step_index` ({updates}) + `vectors` ({updates}×3×3)"
            else:
                offsets = _length(storage, f"trajectory/{block}/offset")
                beside = f"`step_index` ({updates}) + `offset` ({offsets}): {8 * (updates + offsets)} B raw"
        elif block == "box":
            updates, beside = 1, "nothing: attribute `vectors` on `box/`"
        else:
            rows = _length(storage, f"trajectory/{block}/{node.folders[0]}")
            updates = rows // int(node.attributes["uniform_rows"])
            beside = "nothing: `uniform_rows` + `dense_updates` attributes"
        yield [f"`{block}`", str(updates), beside]


def _length(storage: DirectoryStorage, node: str) -> int:
    return int(read_node(storage, node).document["shape"][0])
