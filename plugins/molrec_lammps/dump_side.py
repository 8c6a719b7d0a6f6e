"""Dumps beside the atoms: the frames of `dump local` and `dump grid`, and reading their rows.

A frame that comes again (a restart) replaces the earlier one, within a file and between files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.report import Report
from molrec_lammps.dump_items import ItemFrame, index_items
from molrec_lammps.dump_rows import RowFault, kind_of, parse_rows
from molrec_lammps.dump_source import Source, open_source
from molrec_lammps.dump_steps import numeric_order

__all__ = ["SideDump", "open_side"]

#: Text of one call of the parser.
_UNIT_BYTES = 2**22
#: More files than this are opened one at a time.
_HELD_OPEN = 64

Integers = NDArray[np.int64]


@dataclass
class SideDump:
    """A dump without atoms: its frames by ascending steps, each with the file it is in. All have the same columns."""

    paths: list[Path]
    frames: list[ItemFrame]
    sources: list[Source]

    @property
    def first(self) -> ItemFrame:
        """The first frame."""
        return self.frames[0]

    @property
    def steps(self) -> Integers:
        """The step of each frame."""
        return np.array([frame.step for frame in self.frames], dtype=np.int64)

    @property
    def counts(self) -> Integers:
        """The rows of each frame."""
        return np.array([frame.count for frame in self.frames], dtype=np.int64)

    @property
    def name(self) -> str:
        """The dump, for messages."""
        return str(self.paths[0]) + (" …" if len(self.paths) > 1 else "")

    def read(self, frames: Sequence[int]) -> Iterator[tuple[list[int], dict[str, NDArray[np.float64]], bytes]]:
        """Columns (f64, NaN where a number is `nan`) of some frames at a time, and their text.

        FormatError: a row is not as it should be.
        """
        batch: list[int] = []
        size = 0
        for number in frames:
            length = self.frames[number].stop - self.frames[number].rows
            if batch and size + length > _UNIT_BYTES:
                yield self._parse(batch)
                batch, size = [], 0
            batch.append(number)
            size += length
        if batch:
            yield self._parse(batch)

    def close(self) -> None:
        """Let go of the files."""
        for source in self.sources:
            source.close()

    def _parse(self, batch: list[int]) -> tuple[list[int], dict[str, NDArray[np.float64]], bytes]:
        parts = []
        for number in batch:
            frame = self.frames[number]
            part = self.sources[number].read(frame.rows, frame.stop)
            parts.append(part if part.endswith(b"\n") or not part else part + b"\n")
        text = b"".join(parts)
        rows = sum(self.frames[number].count for number in batch)
        names = self.first.columns
        plain = [f"column {place}" if kind_of(name) != "real" else name for place, name in enumerate(names)]
        try:
            columns = parse_rows(text, rows, plain, plain)
        except RowFault as fault:
            raise self._fault(batch, fault) from None
        return batch, {name: columns[own] for name, own in zip(names, plain, strict=True)}, text

    def _fault(self, batch: list[int], fault: RowFault) -> FormatError:
        row = fault.row or 0
        for number in batch:
            frame = self.frames[number]
            if row < frame.count:
                return FormatError(
                    self.sources[number].path, f"line {frame.line + row}", found=fault.found, expected=fault.expected
                )
            row -= frame.count
        return FormatError(self.sources[batch[0]].path, None, found=fault.found, expected=fault.expected)


def open_side(paths: Sequence[Path], report: Report) -> SideDump:
    """Index the files of one dump. FormatError: frames with other columns, or another grid, than the first."""
    files = numeric_order([Path(path) for path in paths])
    latest: dict[int, tuple[ItemFrame, Source]] = {}
    gone = 0
    opened = [open_source(path, hold=len(files) <= _HELD_OPEN) for path in files]
    indexes = sorted(map(index_items, opened), key=lambda index: index.frames[0].step)
    for index in indexes:
        if index.truncated is not None:
            report.truncated(index.truncated)
        for frame in index.frames:
            gone += frame.step in latest
            latest[frame.step] = (frame, index.source)
    ordered = [latest[step] for step in sorted(latest)]
    dump = SideDump(files, [frame for frame, _ in ordered], [source for _, source in ordered])
    if gone:
        report.dropped(f"{gone} frames of {dump.name}", "the same steps come again later")
    for frame, source in ordered:
        if (frame.columns, frame.label, frame.shape) != (dump.first.columns, dump.first.label, dump.first.shape):
            raise FormatError(
                source.path,
                f"line {frame.line - 1}",
                found=f"{_what(frame)} in the frame of step {frame.step}",
                expected=f"{_what(dump.first)}, as in the frame of step {dump.first.step}",
            )
    return dump


def _what(frame: ItemFrame) -> str:
    size = "" if frame.shape is None else f" of a grid {' x '.join(map(str, frame.shape))}"
    return f"columns {' '.join(frame.columns)}{size}"
