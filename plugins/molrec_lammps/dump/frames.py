"""The frame table: what an index pass knows of every frame of a dump, one array per fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_lammps.dump.source import Source
from molrec_lammps.log.thermo import Thermo

__all__ = ["FileIndex", "FrameTable", "join_tables"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class FrameTable:
    """Frames of one or several files, in order.

    Offsets: `start` of the header, `rows` of the first row, `stop` behind the last row. `line` is the number of the
    first row's line. `layout` counts in `layouts` (the column names of a frame), `box` in the cells `vectors` [m,3,3]
    (columns), `origin` [m,3], `boundary` [m,3]; `source` in `sources`. `time` is NaN where a frame has no TIME item.
    """

    start: Integers
    rows: Integers
    stop: Integers
    line: Integers
    step: Integers
    count: Integers
    layout: Integers
    box: Integers
    source: Integers
    time: NDArray[np.float64]
    layouts: tuple[tuple[str, ...], ...]
    vectors: NDArray[np.float64]
    origin: NDArray[np.float64]
    boundary: NDArray[np.bool_]
    sources: tuple[Source, ...]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, frames: Any) -> FrameTable:
        """The table of some frames."""
        return replace(self, **{name: getattr(self, name)[frames] for name in _PER_FRAME})

    def pruned(self) -> FrameTable:
        """The table without the layouts that no frame has."""
        used, layout = np.unique(self.layout, return_inverse=True)
        if len(used) == len(self.layouts):
            return self
        layouts = tuple(self.layouts[number] for number in used.tolist())
        return replace(self, layout=layout.astype(np.int64), layouts=layouts)

    def place(self, frame: int) -> str:
        """Where the rows of a frame begin, in words."""
        return f"line {self.line[frame]}"

    def where(self, frame: int) -> str:
        """A frame by its file and the line of its step number, in words."""
        path, line = self.sources[self.source[frame]].place(int(self.line[frame]))
        return f"{path}, line {max(1, line - 8)}"


_PER_FRAME = ("start", "rows", "stop", "line", "step", "count", "layout", "box", "source", "time")


@dataclass
class FileIndex:
    """What the index pass finds in one file.

    `units` are the UNITS items (word, line); `truncated` says where the file breaks off, `warnings` what else a user
    should know, `thermo` is the thermo output that stands in the dump itself (YAML).
    """

    table: FrameTable
    units: list[tuple[str, int]] = field(default_factory=list)
    truncated: str | None = None
    warnings: list[str] = field(default_factory=list)
    thermo: Thermo | None = None


def join_tables(tables: Sequence[FrameTable]) -> FrameTable:
    """One table of the frames of several files, file after file."""
    if len(tables) == 1:
        return tables[0]
    layouts: dict[tuple[str, ...], int] = {}
    parts = []
    boxes = sources = 0
    for table in tables:
        numbers = np.array([layouts.setdefault(names, len(layouts)) for names in table.layouts], dtype=np.int64)
        parts.append(
            replace(
                table,
                layout=numbers[table.layout] if len(table) else table.layout,
                box=table.box + boxes,
                source=table.source + sources,
            )
        )
        boxes += len(table.vectors)
        sources += len(table.sources)
    joined = {
        entry.name: np.concatenate([getattr(part, entry.name) for part in parts])
        for entry in fields(FrameTable)
        if entry.name not in ("layouts", "sources")
    }
    return FrameTable(**joined, layouts=tuple(layouts), sources=tuple(s for t in tables for s in t.sources))
