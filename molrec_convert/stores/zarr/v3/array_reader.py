"""Reading any array of a store: whole, or rows of its leading axis.

Arrays laid out like ours (plain chunks, or shards cut on the leading axis, known codecs) are read directly: one system
call for chunks that lie together, checksums checked, values decoded into place. All others go through the Zarr
library, which gives the same values. Source: Zarr V3 binding; Zarr V3 core and sharding specifications.
"""

from __future__ import annotations

import math
import warnings as python_warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.stores.zarr.v3.codecs import Pipeline, crc32c, inflate
from molrec_convert.stores.zarr.v3.metadata import ArrayMetadata, parse_array
from molrec_convert.stores.zarr.v3.shards import MISSING, is_missing, read_index
from molrec_convert.stores.zarr.v3.storage import SMALL, Storage, read_document, zarr_store
from molrec_convert.stores.zarr.workers import run_all

__all__ = ["ArrayReader", "read_together"]

_Task = Callable[[], None]
#: Chunks that lie together are read by one call up to this many bytes.
_RUN = 4 * 2**20
#: Bytes of values that are decoded by one task.
_TOGETHER = 512 * 2**10
#: Indexes of shards, and unpacked chunks that were read in part, kept for the next read.
_KEPT_INDEXES = 64
_KEPT_BYTES = 512 * 2**10
#: With more chunks than this to visit, those that exist are listed first.
_LIST_FROM = 4096


class _Piece(NamedTuple):
    """Where one encoded chunk lies: its ordinal on the leading axis, the file, offset and length."""

    chunk: int
    key: str
    offset: int
    length: int


class ArrayReader:
    """One array of a store.

    `warnings` collects what a reader should hear of but need not stop at (a torn shard index).
    """

    def __init__(
        self,
        storage: Storage,
        key: str,
        metadata: ArrayMetadata | None = None,
        warnings: list[str] | None = None,
    ) -> None:
        self.storage = storage
        self.key = key
        self.metadata = _load(storage, key) if metadata is None else metadata
        self.warnings = warnings if warnings is not None else []
        self.direct = self.metadata.direct
        shape = self.metadata.shape
        inner = self.metadata.inner_shape or self.metadata.chunk_shape
        self._rows = inner[0] if inner else 1
        self._chunk_shape = (self._rows, *shape[1:]) if shape else ()
        self._per_shard = self.metadata.chunk_shape[0] // self._rows if self.metadata.chunk_shape else 1
        self._itemsize = DTYPES[self.dtype].numpy.itemsize
        self._chunk_bytes = math.prod(self._chunk_shape) * self._itemsize
        #: Chunks small enough to be kept when rows of them are read.
        self._in_parts = self.direct and bool(shape) and self._chunk_bytes <= _KEPT_BYTES
        self._kept = _KEPT_BYTES // max(1, self._chunk_bytes)
        #: Chunks whose bytes are the values, so that one that is read alone needs no plan.
        self._alone = self.direct and bool(shape) and self._pipeline.plain
        self._indexes: OrderedDict[int, tuple[str, int, Any]] = OrderedDict()
        self._unpacked: OrderedDict[int, NDArray[Any]] = OrderedDict()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole array."""
        return self.metadata.shape

    @property
    def dtype(self) -> str:
        """Contract name of the dtype."""
        return self.metadata.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows `start:stop` of the leading axis (of a 0-d array: its value), in a new array.

        `ContractError` with the array's path for a bad checksum, a chunk of the wrong size, or anything undecodable.
        """
        start, stop = self._bounds(start, stop)
        if self._in_parts and stop > start:
            chunk = start // self._rows
            if (stop - 1) // self._rows == chunk and stop - start < self._rows:
                return self._read_part(chunk, start, stop)
        if self._alone and stop - start == self._rows and not start % self._rows:
            return self._read_whole(start // self._rows)
        return read_together([(self, start, stop)])[0]

    def read_with_zarr(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return the same through the Zarr library, whatever the layout."""
        self.metadata.check_codecs(self.key)
        start, stop = self._bounds(start, stop)
        inner = self.metadata.inner_shape or self.metadata.chunk_shape
        index = 16 * math.prod(-(-c // i) for c, i in zip(self.metadata.chunk_shape, inner, strict=False))
        self._check_backed(stop - start, max(math.prod(inner) * self._itemsize, index))
        import zarr

        try:
            with python_warnings.catch_warnings(), zarr.config.set(_bounded_codecs()):
                python_warnings.simplefilter("ignore")
                array = zarr.open_array(store=zarr_store(self.storage), path=self.key, mode="r", zarr_format=3)
                values = array[start:stop] if self.shape else array[()]
                return np.array(values, dtype=DTYPES[self.dtype].numpy)
        except KeyboardInterrupt:
            raise
        except Exception as error:
            if isinstance(error, ContractError) and error.node:
                raise
            raise ContractError(self.key, f"the array cannot be decoded: {error}") from error

    def _bounds(self, start: int, stop: int | None) -> tuple[int, int]:
        shape = self.metadata.shape
        if not shape:
            return 0, 1
        stop = shape[0] if stop is None else min(stop, shape[0])
        start = max(0, start)
        return start, max(start, stop)

    # What is read directly.

    def _read_part(self, chunk: int, start: int, stop: int) -> NDArray[Any]:
        """Return rows within one chunk, which is kept unpacked for the next read."""
        pipeline = self._pipeline
        body = self._unpacked.get(chunk)
        first = chunk * self._rows
        if body is None:
            piece = self._find(chunk)
            if piece is None:
                return self._allocate(stop - start)
            key, offset, length = piece
            body = pipeline.unpack(self.storage.read_range(key, offset, length), self._chunk_shape, key)
            self._unpacked[chunk] = body
            if len(self._unpacked) > self._kept:
                self._unpacked.popitem(last=False)
        values = pipeline.rows(body, self._chunk_shape, start - first, stop - first)
        return values if values.base is None else values.copy()

    def _read_whole(self, chunk: int) -> NDArray[Any]:
        """Return one chunk that is its values as they are in memory."""
        piece = self._find(chunk)
        if piece is None:
            return self._allocate(self._rows)
        key, offset, length = piece
        self._check_size(key, length)
        values = np.empty(self._chunk_shape, dtype=DTYPES[self.dtype].numpy)
        body = values.reshape(-1).view(np.uint8)
        closing = np.empty(4 if self._pipeline.checked else 0, dtype=np.uint8)
        if self.storage.read_into(key, offset, (body, closing)) != length:
            raise ContractError(key, "the file ends within a chunk")
        if len(closing) and crc32c(body) != closing.tobytes():
            raise ContractError(key, "the checksum of a chunk does not match its bytes")
        return values

    def _check_size(self, key: str, length: int) -> None:
        """Refuse a chunk of plain values that is not of their size."""
        expected = self._chunk_bytes + (4 if self._pipeline.checked else 0)
        if length != expected:
            raise ContractError(key, "a chunk has the wrong size", found=str(length), expected=str(expected))

    def _find(self, chunk: int) -> tuple[str, int, int] | None:
        """Return file, offset and length of one encoded chunk, None when it is not stored."""
        if self.metadata.sharded:
            shard, position = divmod(chunk, self._per_shard)
            index = self._index(shard, self._per_shard)
            if index is None:
                return None
            key, size, entries = index
            offset, length = entries[position].tolist() if position < len(entries) else (MISSING, MISSING)
            if offset == length == MISSING:
                return None
            if offset + length <= size:
                return key, offset, length
        pieces = self._locate(chunk, chunk + 1)
        return (pieces[0].key, pieces[0].offset, pieces[0].length) if pieces else None

    def _plan(self, start: int, stop: int) -> tuple[NDArray[Any], list[_Task], int]:
        """Return the result of reading rows `start:stop`, the tasks that fill it in, the bytes they touch."""
        out = self._allocate(stop - start)
        if not out.size:
            return out, [], 0
        first, last = start // self._rows, -(-stop // self._rows)
        pieces = self._locate(first, last) if self.shape else self._locate(0, 1)
        fill = self._fill_plain if self._pipeline.plain else self._fill_packed
        if pieces and not self._pipeline.plain:
            self._check_backed(0, self._chunk_bytes)
        tasks: list[_Task] = []
        for run in _runs(pieces):
            tasks.extend(fill(run, out, start, stop))
        return out, tasks, len(pieces) * self._chunk_bytes

    def _fill_plain(self, run: list[_Piece], out: NDArray[Any], start: int, stop: int) -> list[_Task]:
        """Return chunks that are the values themselves, read straight to where they belong."""
        closing = 4 if self._pipeline.checked else 0
        for piece in run:
            self._check_size(piece.key, piece.length)
        buffers: list[NDArray[np.uint8]] = []
        partial_chunks: list[tuple[_Piece, NDArray[np.uint8]]] = []
        for piece in run:
            first = piece.chunk * self._rows
            if not self.shape or (first >= start and first + self._rows <= stop):
                whole = out if not self.shape else out[first - start : first - start + self._rows]
                body = whole.reshape(-1).view(np.uint8)
            else:
                body = np.empty(self._chunk_bytes, dtype=np.uint8)
                partial_chunks.append((piece, body))
            buffers.append(body)
            if closing:
                buffers.append(np.empty(closing, dtype=np.uint8))
        wanted = sum(piece.length for piece in run)
        if self.storage.read_into(run[0].key, run[0].offset, buffers) != wanted:
            raise ContractError(run[0].key, "the file ends within a chunk")
        if closing:
            for body, checksum in zip(buffers[::2], buffers[1::2], strict=True):
                if crc32c(body) != checksum.tobytes():
                    raise ContractError(run[0].key, "the checksum of a chunk does not match its bytes")
        for piece, body in partial_chunks:
            self._take(piece.chunk, body, out, start, stop)
        return []

    def _fill_packed(self, run: list[_Piece], out: NDArray[Any], start: int, stop: int) -> list[_Task]:
        """Return tasks that decode chunks to where they belong: whole ones some at a time, those at the ends one by
        one.
        """
        wanted = sum(piece.length for piece in run)
        data = np.frombuffer(self.storage.read_range(run[0].key, run[0].offset, wanted), dtype=np.uint8)
        tasks: list[_Task] = []
        together: list[tuple[int, int]] = []
        position = 0
        for piece, after in zip(run, [*run[1:], None], strict=True):
            place = (position, piece.length)
            position += piece.length
            first = piece.chunk * self._rows
            if not self.shape or first < start or first + self._rows > stop:
                part = data[place[0] : position]
                tasks.append(partial(self._decode, piece, part, out, start, stop))
                continue
            together.append(place)
            ends = after is None or after.chunk != piece.chunk + 1 or (after.chunk + 1) * self._rows > stop
            if ends or (len(together) + 1) * self._chunk_bytes > _TOGETHER:
                last = first + self._rows - start
                whole = out[last - len(together) * self._rows : last]
                tasks.append(partial(self._pipeline.decode_run, data, together, self._chunk_shape, whole, piece.key))
                together = []
        return tasks

    def _decode(self, piece: _Piece, data: Any, out: NDArray[Any], start: int, stop: int) -> None:
        body = self._pipeline.unpack(data, self._chunk_shape, piece.key)
        self._take(piece.chunk, body, out, start, stop)

    def _take(self, chunk: int, body: NDArray[Any], out: NDArray[Any], start: int, stop: int) -> None:
        """Copy what a chunk has of rows `start:stop` into `out`."""
        if not self.shape:
            self._pipeline.rows(body, (), out=out)
            return
        first = chunk * self._rows
        low, high = max(start, first), min(stop, first + self._rows)
        self._pipeline.rows(body, self._chunk_shape, low - first, high - first, out[low - start : high - start])

    def _locate(self, first: int, last: int) -> list[_Piece]:
        """Return the stored ones of chunks `first:last`, in order."""
        if self.metadata.sharded:
            return self._locate_in_shards(first, last)
        trailing = (0,) * (len(self.shape) - 1)
        pieces = []
        for chunk in self._stored(first, last):
            key = f"{self.key}/{self.metadata.key(*((chunk, *trailing) if self.shape else ()))}"
            size = self.storage.size(key)
            if size is not None:
                pieces.append(_Piece(chunk, key, 0, size))
        return pieces

    def _locate_in_shards(self, first: int, last: int) -> list[_Piece]:
        each = self._per_shard
        pieces = []
        for shard in self._stored(first // each, -(-last // each)):
            index = self._index(shard, each)
            if index is None:
                continue
            key, size, entries = index
            low, high = max(first - shard * each, 0), min(last - shard * each, each)
            part = entries[low:high]
            present = np.flatnonzero(~is_missing(part))
            for chunk, (offset, length) in zip((present + low).tolist(), part[present].tolist(), strict=True):
                if offset + length > size:
                    raise ContractError(
                        key, f"the index entry of chunk {chunk} lies outside the shard", found=f"{offset}+{length}"
                    )
                pieces.append(_Piece(shard * each + chunk, key, offset, length))
        return pieces

    def _index(self, shard: int, each: int) -> tuple[str, int, NDArray[np.uint64]] | None:
        """Return file, size and entries of one shard up to its last chunk, None when there is no file."""
        known = self._indexes.get(shard)
        if known is not None:
            self._indexes.move_to_end(shard)
            return known
        key = f"{self.key}/{self.metadata.key(shard, *(0,) * (len(self.shape) - 1))}"
        found = read_index(self.storage, key, each, self.metadata.index_at or "end")
        if found is None:
            return None
        entries, sound = found
        if not sound:
            if not self._pipeline.checked:
                raise ContractError(key, "the checksum of the shard index does not match, nor do the chunks have one")
            self.warnings.append(f"{key}: the checksum of the shard index is wrong; its chunks are read by their own")
        present = np.flatnonzero(~is_missing(entries))
        # a view would keep the whole index, 64 kB of every column of a wide record
        entries = entries[: int(present[-1]) + 1 if len(present) else 0].copy()
        self._indexes[shard] = known = (key, self.storage.size(key) or 0, entries)
        if len(self._indexes) > _KEPT_INDEXES:
            self._indexes.popitem(last=False)
        return known

    def _stored(self, first: int, last: int) -> Sequence[int]:
        """Return leading ordinals of the stored chunks or shards among `first:last` that are worth looking for."""
        if last - first <= _LIST_FROM:
            return range(first, last)
        found = set()
        skip = len(self.key) + 1
        for key in self.storage.keys(self.key):
            parts = key[skip:].split("/") if self.metadata.separator == "/" else key[skip:].split("/")[-1].split(".")
            if self.metadata.prefixed and parts[0] == "c":
                parts = parts[1:]
            if parts and parts[0].isascii() and parts[0].isdigit() and first <= int(parts[0]) < last:
                found.add(int(parts[0]))
        return sorted(found)

    def _allocate(self, rows: int) -> NDArray[Any]:
        """Return zeros, which take memory only where they are written to."""
        self._check_backed(rows, 0)
        shape = (rows, *self.shape[1:]) if self.shape else ()
        try:
            return np.zeros(shape, dtype=DTYPES[self.dtype].numpy)
        except (MemoryError, ValueError, OverflowError):
            raise ContractError(self.key, "the array is too large to be held in memory", found=str(shape)) from None

    def _check_backed(self, rows: int, chunk_bytes: int) -> None:
        """Refuse to make values, or to decode chunks, beyond all proportion to what the store holds."""
        wanted = max(rows * math.prod(self.shape[1:]) * self._itemsize, chunk_bytes)
        if wanted > SMALL and wanted > self.storage.most_bytes():
            raise ContractError(
                self.key,
                f"{wanted} bytes of values are out of all proportion to what the store holds",
                found=f"shape {list(self.shape)}, chunks {list(self._chunk_shape)}",
            )

    @property
    def _pipeline(self) -> Pipeline:
        assert self.metadata.pipeline is not None, "asked of direct arrays only"
        return self.metadata.pipeline


def read_together(requests: Sequence[tuple[ArrayReader, int, int]]) -> list[NDArray[Any]]:
    """Return rows `start:stop` of several arrays, decoded side by side."""
    results: list[NDArray[Any]] = []
    tasks: list[_Task] = []
    total = 0
    for reader, start, stop in requests:
        start, stop = reader._bounds(start, stop)
        row_values = math.prod(reader.shape[1:])
        if not reader.direct and stop > start and row_values:
            results.append(reader.read_with_zarr(start, stop))
            continue
        out, more, nbytes = reader._plan(start, stop)
        results.append(out)
        tasks.extend(more)
        total += nbytes if more else 0
    run_all(tasks, total)
    return results


def _runs(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Return pieces that lie one behind the other in one file, together."""
    runs: list[list[_Piece]] = []
    end, size = -1, 0
    for piece in pieces:
        if runs and runs[-1][-1].key == piece.key and piece.offset == end and size + piece.length <= _RUN:
            runs[-1].append(piece)
            size += piece.length
        else:
            runs.append([piece])
            size = piece.length
        end = piece.offset + piece.length
    return runs


def _load(storage: Storage, key: str) -> ArrayMetadata:
    document = read_document(storage, key)
    if document is None:
        raise ContractError(key, "there is no such array")
    if document["node_type"] != "array":
        raise ContractError(key, "is a group where an array is expected")
    return parse_array(document, key)


@cache
def _bounded_codecs() -> dict[str, str]:
    """Register codecs that inflate within bounds, and return the configuration that makes the library use them."""
    from zarr.codecs import GzipCodec, ZstdCodec
    from zarr.registry import register_codec

    def bounded(name: str, base: Any) -> str:
        def decode(self: Any, data: Any, spec: Any) -> Any:
            plain = inflate(name, data.to_bytes(), None, math.prod(spec.shape), "")
            return spec.prototype.buffer.from_bytes(bytes(plain))

        async def decode_single(self: Any, data: Any, spec: Any) -> Any:
            return decode(self, data, spec)

        methods = {"_decode_sync": decode, "_decode_single": decode_single, "__module__": __name__}
        codec = type(f"Bounded{base.__name__}", (base,), methods)
        register_codec(name, codec)
        return f"{codec.__module__}.{codec.__qualname__}"

    return {"codecs.gzip": bounded("gzip", GzipCodec), "codecs.zstd": bounded("zstd", ZstdCodec)}
