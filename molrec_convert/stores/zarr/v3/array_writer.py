"""Arrays of fixed size: everything a record stores outside its trajectory.

Up to four chunks are plain chunk files; more become the inner chunks of one shard that spans the array, its index at
the end. Chunks are full size, the last one padded with the fill value; a chunk of nothing but fill values is not
stored. The array's `zarr.json` comes last: an array that can be seen is whole.
Source: Zarr V3 binding, "Writer's extents" and "Writer's pipelines".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.files.disk import remove, replace_file, temporary_path
from molrec_convert.model.dtypes import DTYPES, as_values, empty
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.codecs import Buffer, Pipeline, crc32c, is_fill
from molrec_convert.stores.zarr.v3.commit import ARRAYS, Unsynced, make_folder
from molrec_convert.stores.zarr.v3.metadata import (
    ArrayMetadata,
    Extents,
    NumberedDocument,
    chunk_key,
    fixed_extents,
    new_array,
    with_empty_chunks,
)
from molrec_convert.stores.zarr.v3.shards import ShardFile
from molrec_convert.stores.zarr.v3.storage import write_document
from molrec_convert.stores.zarr.workers import submit

__all__ = ["ShardAppender", "write_array"]

#: Index entry of an inner chunk that is not stored.
_MISSING = 2**64 - 1


def write_array(
    root: str | os.PathLike[str],
    key: str,
    values: Any,
    *,
    pipeline: Pipeline,
    extents: Extents | None = None,
    attributes: dict[str, Any] | None = None,
) -> None:
    """Write `values` as the array at `key` below `root`; nothing may be there yet.

    `extents` default to those of an array of fixed size and must cover it by one shard where they name one. Raises
    `ContractError` when the values are not of the pipeline's dtype, `OSError` when they cannot be written.
    """
    array = as_values(values, pipeline.dtype, key)
    if extents is None:
        extents = fixed_extents(pipeline.dtype, array.shape)
    if extents.chunks and extents.shard_rows < len(array):
        raise ValueError(f"a shard of {extents.shard_rows} rows cannot hold an array of {len(array)}")
    folder = Path(root, key)
    folder.mkdir(parents=True, exist_ok=True)
    document = new_array(array.shape, pipeline, extents, attributes, index_at="end").document
    if extents.chunks:
        _write_shard(folder, array, pipeline, extents)
    else:
        document = with_empty_chunks(document, _write_chunks(folder, array, pipeline, extents))
    write_document(folder, document)


def _chunks(array: NDArray[Any], pipeline: Pipeline, rows: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield position and values of every full-size chunk that is stored."""
    if not array.size:
        return
    if not array.ndim:
        if not is_fill(array):
            yield 0, array
        return
    for position, start in enumerate(range(0, len(array), rows)):
        chunk = array[start : start + rows]
        if is_fill(chunk):
            continue
        if len(chunk) < rows:
            padded = empty(pipeline.dtype, (rows, *array.shape[1:]))
            padded[: len(chunk)] = chunk
            chunk = padded
        yield position, chunk


def _encode(pipeline: Pipeline, chunk: NDArray[Any]) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else piece.tobytes() for piece in pipeline.encode(chunk))


def _write_chunks(folder: Path, array: NDArray[Any], pipeline: Pipeline, extents: Extents) -> set[int]:
    """Write the chunks, and return the ordinals of those without a file where another one has one."""
    stored = set()
    for position, chunk in _chunks(array, pipeline, extents.rows):
        stored.add(position)
        path = folder / chunk_key((position, *(0 for _ in array.shape[1:])) if array.ndim else ())
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.write(_encode(pipeline, chunk))
    return set(range(-(-len(array) // extents.rows))) - stored if stored and array.ndim else set()


def _write_shard(folder: Path, array: NDArray[Any], pipeline: Pipeline, extents: Extents) -> None:
    index = np.full((extents.chunks, 2), _MISSING, dtype="<u8")
    path = folder / chunk_key((0,) * array.ndim)
    position = 0
    file = None
    try:
        for number, chunk in _chunks(array, pipeline, extents.rows):
            if file is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = open(path, "wb")  # noqa: SIM115
            size = file.write(_encode(pipeline, chunk))
            index[number] = position, size
            position += size
        if file is not None:
            raw = index.tobytes()
            file.write(raw + crc32c(raw))
    finally:
        if file is not None:
            file.close()


#: Chunks are handed to the workers in runs of about this many bytes.
_RUN = 256 * 2**10
_Encoded = list[Buffer] | None
_Encoder = Callable[[], list[_Encoded]]


class ShardAppender:
    """One sharded array under `root` with `rows` rows so far.

    `precision`: values are rounded to its quantum as they are encoded.
    """

    def __init__(
        self,
        root: Path,
        key: str,
        metadata: ArrayMetadata,
        unsynced: Unsynced,
        *,
        precision: float | None = None,
    ) -> None:
        inner = metadata.inner_shape
        ours = metadata.direct and metadata.index_at == "start" and metadata.prefixed and metadata.separator == "/"
        if not ours or inner is None or metadata.pipeline is None:
            raise UnsupportedError(
                f"{key}: this array is stored in a layout that cannot be appended to; convert the record first"
            )
        self.key = key
        self.rows = 0
        self.precision = precision
        self._root, self._metadata, self._unsynced = root, metadata, unsynced
        self._pipeline: Pipeline = metadata.pipeline
        self._folder = os.path.join(root, key)
        self._chunk_rows = inner[0]
        self._chunk_shape = (inner[0], *metadata.shape[1:])
        self._per_shard = metadata.chunk_shape[0] // inner[0]
        self._tail: NDArray[Any] | None = None
        self._tail_rows = 0
        self._tail_changed = False
        self._pending: list[tuple[int, int, Future[list[_Encoded]] | _Encoder]] = []
        #: Bytes of chunks that are encoded only when they are drained: there is nothing to do but a checksum.
        self.undone = 0
        self._shard: tuple[int, ShardFile] | None = None
        #: Shards that have a file; rows and shards without one, as `zarr.json` has them.
        self._files: set[int] = set()
        self._stated: tuple[int, frozenset[int]] | None = None
        self._text = NumberedDocument()

    @classmethod
    def create(
        cls,
        root: Path,
        key: str,
        pipeline: Pipeline,
        extents: Extents,
        unsynced: Unsynced,
        *,
        trailing: tuple[int, ...] = (),
        precision: float | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> ShardAppender:
        """Return a new array; the first commit makes its files."""
        metadata = new_array((0, *trailing), pipeline, extents, attributes)
        remove(os.path.join(root, key, "c"))  # of an array that an interrupted writer began
        return cls(root, key, metadata, unsynced, precision=precision)

    @classmethod
    def reopen(
        cls, reader: ArrayReader, rows: int, unsynced: Unsynced, *, precision: float | None = None
    ) -> ShardAppender:
        """Return an array on disk of which `rows` rows are committed; what lies behind them is cut off."""
        array = cls(reader.storage.path, reader.key, reader.metadata, unsynced, precision=precision)
        list(reader.storage.keys(reader.key))  # refuses links out of the record before anything is written
        array._shrink(rows)
        rest = rows % array._chunk_rows
        if rest:
            array._tail = np.zeros(array._chunk_shape, dtype=DTYPES[reader.dtype].numpy)
            array._tail[:rest] = reader.read(rows - rest, rows)
            array._tail_rows = rest
        array.rows = rows
        return array

    @property
    def chunk_rows(self) -> int:
        """Rows of an inner chunk."""
        return self._chunk_rows

    def append(self, values: NDArray[Any]) -> None:
        """Add rows `[m, …]` of the array's dtype; `values` must stay as it is until `drain` or `flush`."""
        count, at = len(values), 0
        if self._tail_rows and count:
            at = min(self._chunk_rows - self._tail_rows, count)
            self._fill_tail(values[:at])
        whole = (count - at) // self._chunk_rows
        if whole:
            self._encode(self.rows // self._chunk_rows + bool(at), values[at : at + whole * self._chunk_rows])
            at += whole * self._chunk_rows
        if at < count:
            self._fill_tail(values[at:])
        self.rows += count

    def drain(self) -> None:
        """Write the chunks that are encoded by now or are being encoded."""
        pending, self._pending = self._pending, []
        self.undone = 0
        chunks: list[tuple[int, Sequence[Buffer] | None]] = []
        at = -1
        for first, _, result in pending:
            for ordinal, encoded in enumerate(result.result() if isinstance(result, Future) else result(), first):
                shard, position = divmod(ordinal, self._per_shard)
                if shard != at and chunks:
                    self._shard_at(at).write(chunks)
                    chunks = []
                at = shard
                chunks.append((position, encoded))
        if chunks:
            self._shard_at(at).write(chunks)

    @property
    def new(self) -> bool:
        """True if there is no `zarr.json` yet."""
        return self._stated is None

    def flush(self, rank: int = ARRAYS) -> None:
        """Write the chunks of all rows, the unfinished one too; the next commit has the indexes and `zarr.json`.

        `rank` is that of `zarr.json`, which has the shape, among the documents of the commit.
        """
        self.drain()
        if self._tail is not None and self._tail_changed:
            shard, position = divmod(self.rows // self._chunk_rows, self._per_shard)
            encoded = self._pipeline.encode_run(self._tail, self._chunk_rows, self.precision)
            self._shard_at(shard).write([(position, encoded[0])])
            self._tail_changed = False
        if self._shard is not None:
            ordinal, current = self._shard
            self._leave(ordinal, current)
            current.committed = min(-(-self.rows // self._chunk_rows) - ordinal * self._per_shard, self._per_shard)
        if self._stated != self._state(self.rows):
            make_folder(self._folder, self._unsynced)
            self._unsynced.document(self._document_path, self._document(self.rows), rank)
            self._stated = self._state(self.rows)

    def _fill_tail(self, rows: NDArray[Any]) -> None:
        if self._tail is None:
            self._tail = np.zeros(self._chunk_shape, dtype=DTYPES[self._metadata.dtype].numpy)
            self._tail_rows = 0
        self._tail[self._tail_rows : self._tail_rows + len(rows)] = rows
        self._tail_rows += len(rows)
        self._tail_changed = True
        if self._tail_rows == self._chunk_rows:
            self._encode(self.rows // self._chunk_rows, self._tail)
            self._tail, self._tail_rows, self._tail_changed = None, 0, False

    def _encode(self, first: int, values: NDArray[Any]) -> None:
        """Encode whole chunks from chunk `first` on: in the workers, or by whoever drains."""
        rows, count = self._chunk_rows, len(values) // self._chunk_rows
        if self._pipeline.plain and self.precision is None:
            self._pending.append((first, count, partial(self._pipeline.encode_run, values, rows)))
            self.undone += values.nbytes
            return
        run = max(1, _RUN // max(1, values[:rows].nbytes))
        for start in range(0, count, run):
            part = values[start * rows : (start + run) * rows]
            task = partial(self._pipeline.encode_run, part, rows, self.precision)
            self._pending.append((first + start, len(part) // rows, submit(task)))

    def _shard_at(self, ordinal: int) -> ShardFile:
        if self._shard is None or self._shard[0] != ordinal:
            if self._shard is not None:
                self._leave(*self._shard)
            self._shard = (ordinal, ShardFile(self._shard_path(ordinal), self._per_shard, self._unsynced))
        return self._shard[1]

    def _leave(self, ordinal: int, shard: ShardFile) -> None:
        """Bring a shard to its file, and count the file."""
        shard.flush()
        if shard.exists:
            self._files.add(ordinal)

    def _shard_path(self, ordinal: int) -> str:
        trailing = (0,) * (len(self._chunk_shape) - 1)
        return os.path.join(self._folder, self._metadata.key(ordinal, *trailing))

    @property
    def _document_path(self) -> str:
        return os.path.join(self._folder, "zarr.json")

    def _state(self, rows: int) -> tuple[int, frozenset[int]]:
        """Return what `zarr.json` says of so many rows: their number, and the shards without a file beside others."""
        shards = -(-rows // (self._chunk_rows * self._per_shard))
        return rows, frozenset(range(shards)) - self._files if self._files else frozenset()

    def _document(self, rows: int) -> bytes:
        document = with_empty_chunks(self._metadata.document, self._state(rows)[1])
        return self._text.dump(document, ("shape", 0), rows)

    def _shrink(self, rows: int) -> None:
        """Cut off what an earlier writer did not commit: the shape first, on the disk, then shards."""
        chunks = -(-rows // self._chunk_rows)
        last = (chunks - 1) // self._per_shard if chunks else -1
        present = self._present()
        empty = self._metadata.empty_chunks
        if present or empty:
            self._files = set(range(last + 1)) - empty  # those that are gone, too
        if last >= 0:
            path = self._shard_path(last)
            keep = chunks - last * self._per_shard
            node = f"{self.key}/{self._metadata.key(last, *(0,) * (len(self._chunk_shape) - 1))}"
            shard = ShardFile.reopen(path, self._per_shard, keep, self._pipeline, node, self._unsynced)
            self._shard = (last, shard)
            if last in present and not shard.exists:
                self._files.discard(last)
        self._stated = self._state(rows)
        if self._stated != (self._metadata.shape[0], empty):
            replace_file(self._document_path, self._document(rows))
        if self._shard is not None:
            self._shard[1].cut()
        self._remove_shards(present - self._files, every=not self._files and (bool(present) or not rows))

    def _present(self) -> set[int]:
        """Return shards that have a file or folder."""
        folder = os.path.join(self._folder, "c")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return {int(name) for name in names if name.isascii() and name.isdigit()}

    def _remove_shards(self, ordinals: set[int], *, every: bool) -> None:
        """Remove the files of shards of which nothing is committed.

        With the last one goes the folder, in one step: an empty one says that what it held is gone.
        """
        folder = os.path.join(self._folder, "c")
        if every and os.path.isdir(folder):
            hidden = temporary_path(folder)
            remove(hidden)
            os.rename(folder, hidden)
            remove(hidden)
            self._unsynced.folder(self._folder)
            return
        for ordinal in ordinals:
            remove(os.path.join(folder, str(ordinal)))
            self._unsynced.folder(folder)
