"""Helpers of the XYZ tests: texts into records, records as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import molrec_convert
from molrec_convert import Record, Report

__all__ = ["arrays", "meta_of", "read_text", "through"]


def read_text(tmp_path: Path, text: str | bytes, report: Report | None = None, **options: Any) -> Any:
    """The record, or collection, of a text."""
    path = tmp_path / "a.xyz"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return molrec_convert.read(path, report=report, **options)


def arrays(record: Record, index: int = 0) -> dict[str, Any]:
    """All columns of the atoms in one frame, of the system too, as lists."""
    assert record.trajectory is not None
    found: dict[str, Any] = {}
    if record.system is not None and "atoms" in record.system:
        found |= {name: record.system["atoms"].stored(name).tolist() for name in record.system["atoms"]}
    for block in record.trajectory[index].blocks.values():
        found |= {
            name: [
                value if ok else None for value, ok in zip(column.values.tolist(), block.validity(name), strict=True)
            ]
            for name, column in block.columns.items()
        }
    return found


def meta_of(record: Record, index: int = 0) -> dict[str, Any]:
    """The values per step of one frame, arrays as lists."""
    assert record.trajectory is not None
    meta = record.trajectory[index].meta
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in meta.items()}


def through(source: Any, path: Path, report: Report | None = None, **options: Any) -> Any:
    """What comes back of a record that is written to a file."""
    molrec_convert.write(source, path, overwrite=True, report=report, **options)
    return molrec_convert.read(path)
