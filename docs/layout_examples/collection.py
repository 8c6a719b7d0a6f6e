"""The example collection: two conformer records of hydrogen peroxide, which share a declaration and a force field."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from layout_examples.peroxide import molecule, peroxide
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.stores.lmdb.writer import CollectionWriter

#: Coordinates before they are rounded to 0.001 Å.
_FIRST = {
    "x": [0.8397, -0.0102, 0.0114, -0.8759],
    "y": [0.9072, 0.728, -0.7351, -0.8487],
    "z": [0.4465, -0.0105, 0.0149, 0.4201],
}
_SECOND = {
    "x": [0.8213, -0.0518, -0.0078, -0.8369],
    "y": [0.9005, 0.7519, -0.7519, -0.8768],
    "z": [0.4345, -0.0175, -0.0127, 0.375],
}
DECLARATION = Declaration(
    {"atoms": BlockDeclaration({name: ColumnDeclaration("f64", precision=1e-3) for name in "xyz"})},
    {"pe": MetaDeclaration("f64")},
)


def build_conformers() -> list[Record]:
    """Record 0 with three frames, the third repeating the second's coordinates; record 1 with two."""
    states = [(_FIRST, -12.4), (_SECOND, -12.3), (_SECOND, -12.2)]
    records = []
    for number, count in enumerate((3, 2)):
        frames = [
            Frame(
                {"atoms": Block({name: np.array(values) for name, values in columns.items()})},
                Meta({"pe": energy}),
                step=step,
            )
            for step, (columns, energy) in enumerate(states[:count])
        ]
        trajectory = MemoryTrajectory(frames, DECLARATION)
        records.append(Record(meta={"record_id": f"h2o2-{number}"}, system=molecule(), trajectory=trajectory))
    return records


def write_conformers(path: Path) -> Path:
    """Write the collection as an LMDB file."""
    with CollectionWriter.create(
        path,
        declaration=DECLARATION,
        document={"units": {"length": "angstrom", "energy": "kcal/mol"}},
        index_columns={"smiles": "string"},
        forcefield=peroxide(),
    ) as writer:
        writer.extend(build_conformers())
    return path
