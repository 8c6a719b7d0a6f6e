"""What must be the same for an interrupted conversion to go on: sources, options, declaration, frames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from molrec_convert.errors import UsageError
from molrec_convert.files.staging import Staging
from molrec_convert.formats import Format, ReadContext, WriteContext
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.picked import PickedTrajectory
from molrec_convert.model.record import Record
from molrec_convert.model.trajectory import Trajectory, TrajectoryView

__all__ = ["fingerprint", "resumes"]


def fingerprint(
    record: Record | Collection,
    chosen: Format,
    writing: WriteContext,
    paths: Sequence[Path] = (),
    reading: ReadContext | None = None,
    read_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what is noted beside an attempt: sources, options, declaration, as JSON."""
    files = sorted({file for path in paths for file in _source_files(path, writing.target)})
    note: dict[str, Any] = {
        "format": chosen.name,
        "options": [repr(writing.options), *map(repr, (read_options or {"": ""}).values())],
        "sources": [[os.path.abspath(f), f.stat().st_size, f.stat().st_mtime_ns] for f in files],
        "hints": [] if reading is None else sorted(reading.hints),
    }
    if isinstance(record, Record) and record.trajectory is not None:
        trajectory: Any = record.trajectory
        declaration = trajectory.declaration
        note["declaration"] = declaration.to_json()
        note["settling"] = {name: block.settles for name, block in declaration.blocks.items() if block.settles}
        note["frames"] = _view_words(trajectory)
    return note


def _source_files(path: Path, target: Path | None) -> Iterable[Path]:
    """The files of a source; in a directory neither hidden ones nor the target that may lie there too."""
    if not path.is_dir():
        return [path]
    mine = None if target is None else target.absolute()
    return (
        file
        for file in path.rglob("*")
        if file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
        and (mine is None or mine not in (file.absolute(), *file.absolute().parents))
    )


def resumes(staging: Staging, note: dict[str, Any], chosen: Format, asked: bool) -> bool:
    """True if an earlier attempt of the same conversion goes on; `UsageError` where it was another one."""
    if not asked or not staging.started:
        return False
    if not chosen.resumable:
        raise UsageError(f"a conversion to {chosen.name} cannot be resumed: run it again without --resume")
    earlier = staging.read_note()
    for key in sorted({*note, *earlier}):
        if note.get(key) != earlier.get(key):
            raise UsageError(
                f"{staging.path} was begun with other {key} than now: run again without --resume to start over"
            )
    return True


def _view_words(trajectory: Trajectory) -> list[list[int | None]]:
    words: list[list[int | None]] = []
    while isinstance(trajectory, TrajectoryView | PickedTrajectory):
        if isinstance(trajectory, PickedTrajectory):
            words.append([*map(int, trajectory.ordinals)])
        else:
            words.append([trajectory.start, trajectory.stop, trajectory.step])
        trajectory = trajectory.source
    return words
