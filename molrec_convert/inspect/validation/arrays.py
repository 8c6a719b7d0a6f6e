"""One array of a store under validation: its metadata held against the contract, its values streamed.

Only what is stored is read: an array may claim any shape. Rows that no chunk backs are the fill value.
Source: Zarr V3 binding, "dtypes", "Must-decode codecs".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.inspect.tree.nodes import Node
from molrec_convert.inspect.validation.findings import Findings
from molrec_convert.model.dtypes import DTYPES, off_grid
from molrec_convert.model.frame import out_of_range
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.metadata import ArrayMetadata, parse_array
from molrec_convert.stores.zarr.v3.storage import Storage
from molrec_convert.stores.zarr.v3.zip_storage import missing_files, stored_ordinals

__all__ = ["CheckedArray", "load_array", "reference_faults", "scan_column"]

#: Rows are read in pieces of about this size, whole chunks each.
_PIECE = 4 * 2**20
#: Values an array may claim that no chunk backs.
_FEW = 2**20
#: A chunk larger than this is decoded only when as much is stored as data leaves of it: it may be made to fill memory.
_LARGEST_CHUNK = 2**30
_PLAUSIBLE = 50
#: No compressor among ours packs tighter: zstd makes 128 KiB of 4 bytes.
_MOST_PACKED = 2**15
#: So many files that are gone are named.
_NAMED = 4


class CheckedArray:
    """An array whose metadata is in order. `rows` counts its leading axis."""

    def __init__(self, storage: Storage, node: Node, metadata: ArrayMetadata, findings: Findings) -> None:
        self.node, self.metadata, self.findings = node.key, metadata, findings
        self.attributes = node.attributes
        self._storage = storage
        self._warnings: list[str] = []
        self._reader = ArrayReader(storage, node.key, metadata, self._warnings)
        self._stored: list[tuple[int, int]] | None = None

    @property
    def dtype(self) -> str:
        """Contract name of the dtype."""
        return self.metadata.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape."""
        return self.metadata.shape

    @property
    def rows(self) -> int:
        """Length of the leading axis."""
        return self.shape[0] if self.shape else 0

    @property
    def signature(self) -> str:
        """The dtype and trailing shape in words."""
        return f"{self.dtype}{''.join(f'[{n}]' for n in self.shape[1:])}"

    @property
    def layout(self) -> str:
        """The dtype and whole shape in words."""
        return f"{self.dtype}{''.join(f'[{n}]' for n in self.shape)}"

    @property
    def backed(self) -> bool:
        """True if not many more rows are claimed than stored: then the array may be held in memory as a whole."""
        if not self.shape or math.prod(self.shape) <= _FEW:
            return True
        stored = sum(high - low for low, high in self._stored_ranges())
        return self._decodable() and self.rows <= stored + _FEW // max(1, math.prod(self.shape[1:]))

    def pieces(self, stop: int | None = None) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the stored values among the first `stop` rows, as (first row, values); what cannot be read is a
        finding.
        """
        end = (self.rows if stop is None else min(stop, self.rows)) if self.shape else 1
        if not math.prod(self.shape[1:]) or not self._decodable():
            return
        step = self._step()
        for low, high in self._stored_ranges():
            for start in range(low, min(high, end), step):
                values = self._read(start, min(start + step, high, end))
                if values is not None:
                    yield start, values
        self._pass_on_warnings()

    def unreadable(self) -> bool:
        """True if the Zarr library refuses the metadata of an array that is not laid out like ours."""
        before = len(self.findings.items)
        with self.findings.guard(self.node):
            self._reader.read_with_zarr(0, 1)
        return len(self.findings.items) > before

    def scan(self, stop: int | None = None) -> None:
        """Decode everything that is stored."""
        for _ in self.pieces(stop):
            pass

    def whole(self, stop: int) -> NDArray[Any] | None:
        """Return the first `stop` rows of an index array in memory, None when they cannot be had."""
        if not self._decodable():
            return None
        stored = sum(max(0, min(high, stop) - low) for low, high in self._stored_ranges())
        values = self._read(0, stop) if stop <= stored + 2**20 else None
        if values is None and stop > stored + 2**20:
            self.findings.error(self.node, f"claims {stop} rows of which {stored} are stored")
        self._pass_on_warnings()
        return values

    def gaps(self, stop: int) -> Iterator[tuple[int, int]]:
        """Yield ranges among the first `stop` rows that no chunk backs: the fill value."""
        position = 0
        for low, high in self._stored_ranges():
            if low >= stop:
                break
            if low > position:
                yield position, low
            position = high
        if position < stop:
            yield position, stop

    def zeros(self, stop: int, most: int = _FEW) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the ranges of `gaps` as (first row, values), `most` rows of each at the most."""
        if math.prod(self.shape[1:]) and self.shape:
            for low, high in self.gaps(stop):
                yield low, np.zeros((min(high - low, most), *self.shape[1:]), dtype=DTYPES[self.dtype].numpy)

    def rows_between(self, start: int, stop: int) -> NDArray[Any] | None:
        """Return some rows, for a mask beside a piece of its column."""
        return self._read(start, stop)

    def _decodable(self) -> bool:
        """True if its chunks are of a size that can be decoded in bounded memory; else a finding says so."""
        size = math.prod(self.metadata.inner_shape or self.metadata.chunk_shape) * DTYPES[self.dtype].itemsize
        if size <= _LARGEST_CHUNK:
            return True
        stored = max((self._storage.size(key) or 0 for key in self._chunk_keys()), default=0)
        if stored * _MOST_PACKED < size:
            if stored:
                self.findings.error(
                    self.node, f"its chunks are {size} bytes by its metadata, of which {stored} are stored"
                )
            return False
        if stored * _PLAUSIBLE < size:
            self.findings.warning(self.node, f"its chunks of {size} bytes are too large to be checked")
            return False
        return True

    def _read(self, start: int, stop: int) -> NDArray[Any] | None:
        try:
            return self._reader.read(start, stop)
        except Exception as error:
            self.findings.raised(self.node, error)
            return None

    def _step(self) -> int:
        """Return rows of a piece: whole chunks."""
        shape = self.metadata.inner_shape or self.metadata.chunk_shape
        row = max(1, math.prod(self.shape[1:]) * DTYPES[self.dtype].itemsize)
        chunk = shape[0] if shape else 1
        return max(chunk, _PIECE // row // chunk * chunk)

    def _stored_ranges(self) -> list[tuple[int, int]]:
        """Return row ranges of the stored chunks or shards, ascending, neighbours joined."""
        if self._stored is None:
            extent = self.metadata.chunk_shape[0] if self.metadata.chunk_shape else 1
            ranges: list[tuple[int, int]] = []
            for ordinal in sorted(self._ordinals()):
                low, high = ordinal * extent, min((ordinal + 1) * extent, max(self.rows, 1))
                if low >= high:
                    continue
                if ranges and ranges[-1][1] == low:
                    ranges[-1] = (ranges[-1][0], high)
                else:
                    ranges.append((low, high))
            self._stored = ranges
        return self._stored

    def _ordinals(self) -> set[int]:
        """Return leading ordinals of the chunk files that are there."""
        start = len(self.node) + 1
        return stored_ordinals(self.metadata, [key[start:] for key in self._chunk_keys()])

    def check_files(self) -> None:
        """An error where chunk files are gone, whose values would be read as the fill value."""
        if not math.prod(self.shape):
            return
        with self.findings.guard(self.node):
            gone = missing_files(self._storage, self.node, self.metadata, self._ordinals())
            if gone == ["c/"]:
                self.findings.error(self.node, "the file of its values is gone from the folder c, which is empty")
            elif gone:
                names = f"{', '.join(gone[:_NAMED])}{', …' if len(gone) > _NAMED else ''}"
                if self.findings.foreign:
                    self.findings.warning(self.node, f"its values are zeros where there is no file: {names}")
                    return
                verb = "file is" if len(gone) == 1 else "files are"
                self.findings.error(self.node, f"{len(gone)} {verb} gone that held values of it: {names}")

    def _chunk_keys(self) -> list[str]:
        with self.findings.guard(self.node):
            return [key for key in self._storage.keys(self.node) if not key.endswith("zarr.json")]
        return []

    def _pass_on_warnings(self) -> None:
        for text in self._warnings:
            node, _, message = text.partition(": ")
            self.findings.warning(node if message else self.node, message or text)
        self._warnings.clear()


def scan_column(
    array: CheckedArray, mask: CheckedArray | None, precision: float | None, findings: Findings, stop: int | None = None
) -> None:
    """Decode a column; one warning for the values that lie off the grid of a declared precision, null rows aside."""
    count, first = 0, -1
    for start, values in array.pieces(stop):
        if precision is None:
            continue
        off = np.asarray(off_grid(values, precision).reshape(len(values), -1).any(axis=1))
        if off.any() and mask is not None:
            valid = mask.rows_between(start, start + len(values))
            if valid is not None and len(valid) == len(off):
                off &= valid
        if off.any():
            first = start + int(np.flatnonzero(off)[0]) if first < 0 else first
            count += int(off.sum())
    if count:
        rows = "row is" if count == 1 else "rows are"
        findings.warning(
            array.node, f"{count} {rows} off the grid of the declared precision {precision!r}, the first is row {first}"
        )


def load_array(storage: Storage, node: Node, findings: Findings) -> CheckedArray | None:
    """Return the array at a node, None (and an error) when its metadata breaks a rule."""
    if node.kind != "array":
        what = "is a group where an array is expected" if node.kind else "is a folder without zarr.json"
        findings.error(node.key, node.fault or what)
        return None
    findings.check_finite(node.attributes, node.key)
    try:
        metadata = parse_array(node.document, node.key)
        metadata.check_codecs(node.key)
        array = CheckedArray(storage, node, metadata, findings)
    except Exception as error:
        findings.raised(node.key, error)
        return None
    if not metadata.direct and math.prod(metadata.shape) > 0 and array.unreadable():
        return None
    array.check_files()
    if metadata.fill != DTYPES[metadata.dtype].fill:
        findings.warning(node.key, f"the fill value is {metadata.fill!r:.40}, not {DTYPES[metadata.dtype].fill!r}")
    return array


def reference_faults(
    array: CheckedArray, mask: CheckedArray | None, target: str, limit: int
) -> Iterator[ContractError]:
    """Yield a fault at the first row that refers to a row the block of a section does not have."""
    for start, values in itertools.chain(array.pieces(), array.zeros(array.rows)):
        largest = values.reshape(len(values), -1).max(axis=1)
        beyond = np.asarray(largest >= np.uint64(limit))
        if beyond.any() and mask is not None:
            valid = mask.rows_between(start, start + len(values))
            if valid is not None and len(valid) == len(beyond):
                beyond &= valid
        if beyond.any():
            row = int(np.flatnonzero(beyond)[0])
            yield out_of_range(array.node, target, int(largest[row]), limit, f" in row {start + row}")
            return
