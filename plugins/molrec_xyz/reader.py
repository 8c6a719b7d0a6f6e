"""Fields of the rows of some frames, read from the text in pieces by two threads.

A piece is about a megabyte of rows of one layout, which are read where they stand in the file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, LayoutChanged
from molrec_convert.text.contents import forget
from molrec_convert.text.rows import RowFault, Words, count_lines
from molrec_convert.text.texts import Texts
from molrec_xyz.columns import RowLayout
from molrec_xyz.scan import FrameTable, fault_sentence, read_fields

__all__ = ["FOUR_COLUMNS", "Batch", "Reader"]

#: Hint: rows of plain frames have four columns, whatever stands behind them in the first.
FOUR_COLUMNS = "xyz: four columns"
_PIECE_BYTES = 2**20
_BATCH_BYTES = 2**24
#: A file of no more bytes is read without threads.
_SMALL_BYTES = 2**16
_DTYPES = {"R": np.float64, "I": np.int64, "L": np.bool_, "S": np.int32}

Key = tuple[str, int]


@dataclass
class Batch:
    """Frames and their rows: `fields[name, n]` is field n of a column; of text columns codes into `Reader.words`.

    `present[name]` says of each frame whether it has the column; a column that is not there is present in all.
    """

    frames: NDArray[np.int64]
    offset: NDArray[np.int64]
    fields: dict[Key, NDArray[Any]]
    present: dict[str, NDArray[np.bool_]]


@dataclass
class _Piece:
    """Rows of one layout: their text, as spans of the file with so many rows, and where they go in the batch."""

    spans: list[tuple[int, int, int]]
    layout: int
    at: int
    rows: int


class Reader:
    """The rows of a file. `layouts` are the different columns frames have, `layout_of` says which each has."""

    def __init__(
        self, path: Path, data: Any, table: FrameTable, layouts: list[RowLayout], layout_of: NDArray[np.int64]
    ) -> None:
        self.path, self.data, self.table = path, data, table
        self.layouts, self.layout_of = layouts, layout_of
        self.words: list[str] = []
        self._codes: dict[bytes, int] = {}
        self._lock = threading.Lock()
        self._texts = Texts(data)
        self._only: Batch | None = None

    def read(self, frames: NDArray[np.int64], columns: frozenset[str], batch_bytes: int) -> Iterator[Batch]:
        """Yield batches of some frames, in order; a batch is being read while the one before it is in use."""
        only, self._only = self._only, None
        if only is not None and len(frames):
            yield only
            return
        groups = self._groups(frames, min(batch_bytes, _BATCH_BYTES))
        if len(self.data) <= _SMALL_BYTES:
            # starting threads would take longer than reading
            for group in groups:
                batch = self._new_batch(group, columns)
                for piece in self._pieces(group, batch):
                    try:
                        self._read(piece, batch)
                    except RowFault as fault:
                        raise self._error(piece, fault) from None
                yield batch
            return
        with ThreadPoolExecutor(2, thread_name_prefix="molrec-xyz") as pool:
            waiting: list[tuple[Batch, list[tuple[_Piece, Future[None]]]]] = []
            try:
                for group in groups:
                    batch = self._new_batch(group, columns)
                    pieces = list(self._pieces(group, batch))
                    waiting.append((batch, [(p, pool.submit(self._read, p, batch)) for p in pieces]))
                    if len(waiting) == 2:
                        yield self._ready(*waiting.pop(0))
                while waiting:
                    yield self._ready(*waiting.pop(0))
            finally:
                for _, futures in waiting:
                    for _, future in futures:
                        future.cancel()

    def read_only_frame(self) -> Batch:
        """Read all columns of the only frame of a file, and keep them for the pass that comes next, too."""
        columns = frozenset(column.name for layout in self.layouts for column in layout.columns)
        (only,) = self.read(np.zeros(1, np.int64), columns, _BATCH_BYTES)
        self._only = only
        return only

    def _ready(self, batch: Batch, pieces: list[tuple[_Piece, Future[None]]]) -> Batch:
        for piece, future in pieces:
            try:
                future.result()
            except RowFault as fault:
                raise self._error(piece, fault) from None
        spans = [span for piece, _ in pieces for span in piece.spans]
        if spans:
            forget(self.data, spans[0][0], spans[-1][1])
        return batch

    def _groups(self, frames: NDArray[np.int64], batch_bytes: int) -> Iterator[NDArray[np.int64]]:
        if not len(frames):
            return
        ends = np.cumsum(self.table.end[frames] - self.table.rows[frames] + 1)
        start = 0
        while start < len(frames):
            done = int(ends[start - 1]) if start else 0
            stop = max(int(np.searchsorted(ends, done + batch_bytes, side="right")), start + 1)
            yield frames[start:stop]
            start = stop

    def _new_batch(self, frames: NDArray[np.int64], columns: frozenset[str]) -> Batch:
        offset = np.concatenate([[0], np.cumsum(self.table.count[frames])]).astype(np.int64)
        fields: dict[Key, NDArray[Any]] = {}
        owners: dict[str, list[int]] = {}
        used = np.unique(self.layout_of[frames]).tolist()
        letters: dict[str, set[str]] = {}
        for number, layout in enumerate(self.layouts):
            for column in layout.columns:
                if column.name in columns:
                    letters.setdefault(column.name, set()).add(column.letter)
                    if number in used:
                        owners.setdefault(column.name, []).append(number)
                    for part in range(column.width):
                        fields.setdefault((column.name, part), np.empty(0))
        for name, part in fields:
            letter = "R" if "R" in letters[name] else next(iter(letters[name]))
            whole = len(owners.get(name, ())) == len(used)
            make = np.empty if whole else np.zeros
            fields[name, part] = make(int(offset[-1]), _DTYPES[letter])
        present = {
            name: np.isin(self.layout_of[frames], owners.get(name, []))
            for name, _ in fields
            if len(owners.get(name, ())) != len(used)
        }
        return Batch(frames, offset, fields, present)

    def _pieces(self, frames: NDArray[np.int64], batch: Batch) -> Iterator[_Piece]:
        starts, ends = self.table.rows[frames].tolist(), self.table.end[frames].tolist()
        counts, layouts = self.table.count[frames].tolist(), self.layout_of[frames].tolist()
        piece: _Piece | None = None
        size = 0
        at = 0
        for start, end, count, layout in zip(starts, ends, counts, layouts, strict=True):
            if piece is not None and (piece.layout != layout or size + end - start > _PIECE_BYTES):
                yield piece
                piece = None
            if end - start > 2 * _PIECE_BYTES:
                yield from self._parts(start, end, count, layout, at)
            elif count:
                if piece is None:
                    piece, size = _Piece([], layout, at, 0), 0
                piece.spans.append((start, end, count))
                piece.rows += count
                size += end - start
            at += count
        if piece is not None:
            yield piece

    def _parts(self, start: int, end: int, count: int, layout: int, at: int) -> Iterator[_Piece]:
        """Yield the pieces of one large frame."""
        stop_row = at + count
        while start < end:
            stop = self.data.find(b"\n", start + _PIECE_BYTES, end) + 1 or end
            rows = stop_row - at if stop == end else int(count_lines(self._texts, np.array([[start, stop]]))[0, 2])
            yield _Piece([(start, stop, rows)], layout, at, rows)
            start, at = stop, at + rows

    def _read(self, piece: _Piece, batch: Batch) -> None:
        layout = self.layouts[piece.layout]
        rows = slice(piece.at, piece.at + piece.rows)
        targets: list[NDArray[Any] | None] = []
        for column in layout.columns:
            for part in range(column.width):
                target = batch.fields.get((column.name, part))
                targets.append(None if target is None else target[rows])
        # where a column has other types in other frames its values are converted
        out = [
            target if target is not None and letter != "S" and target.dtype == _DTYPES[letter] else None
            for target, letter in zip(targets, layout.letters, strict=True)
        ]
        wanted = [target is not None for target in targets]
        for target, values in zip(
            targets, read_fields(self._texts, np.array(piece.spans, np.int64), layout, out, wanted), strict=True
        ):
            if isinstance(values, Words):
                values = self._interned(values)
            if target is not None and values is not target:
                target[:] = values

    def _interned(self, column: Words) -> NDArray[np.int32]:
        """Return codes that mean the same in every batch."""
        with self._lock:
            for word in column.words:
                if word not in self._codes:
                    self._codes[word] = len(self.words)
                    self.words.append(_decoded(word))
            own = np.array([self._codes[word] for word in column.words] or [0], np.int32)
        return own[column.codes]

    def _error(self, piece: _Piece, fault: RowFault) -> Exception:
        """Return what is said of a row at fault, with its line."""
        frame = int(np.searchsorted(self.table.rows, fault.start, side="right")) - 1
        begin = int(self.table.rows[frame])
        line = int(self.table.line[frame]) + 2 + self._texts.piece(begin, fault.start).count(b"\n")
        layout = self.layouts[piece.layout]
        if "fields" in fault.reason and layout.plain and len(layout.columns) > 2:
            return LayoutChanged(
                FOUR_COLUMNS, f"{self.path}, line {line}: the row has not all the columns the first row has"
            )
        found, expected = fault_sentence(fault, layout)
        return FormatError(self.path, f"line {line}", found=found, expected=expected)


def _decoded(word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return word.decode("latin-1")
