"""A shard file that grows: encoded chunks land at its tail, its index at the start is rewritten in place.

A shard is never read back or rewritten as a whole, so an append costs the same however full the shard is. The index
goes after the chunk bytes, in one positional write from the first changed entry to the checksum. A kill, or a failure
of the power, can tear that write; what it leaves are old and new entries, and each chunk's own checksum tells which of
them stand. An entry that is committed is replaced when the bytes it leads to are on the disk, so both stand.
Source: Zarr V3 binding, "Shard append".
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.files.disk import replace_file, sync, sync_tree, temporary_path, write_all
from molrec_convert.files.target_file import start_writeback
from molrec_convert.stores.zarr.v3.codecs import Pipeline, crc32c
from molrec_convert.stores.zarr.v3.commit import Unsynced, make_folder
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["MISSING", "ShardFile", "index_size", "is_missing", "pack_index", "read_index", "unpack_index"]

MISSING = 2**64 - 1
_TRIES = 5
_PAUSE = 0.002


def index_size(chunks: int) -> int:
    """Return bytes of the index of a shard of `chunks` inner chunks."""
    return 16 * chunks + 4


def pack_index(entries: NDArray[np.uint64]) -> bytes:
    """Return the stored index of `entries` u64[n, 2]."""
    raw = np.ascontiguousarray(entries, dtype="<u8").tobytes()
    return raw + int(google_crc32c.value(raw)).to_bytes(4, "little")


def unpack_index(raw: bytes) -> tuple[NDArray[np.uint64], bool]:
    """Return the entries u64[n, 2] of a stored index, and whether its checksum is right."""
    entries = np.frombuffer(raw[:-4], dtype="<u8").reshape(-1, 2)
    return entries, int(google_crc32c.value(raw[:-4])) == int.from_bytes(raw[-4:], "little")


def is_missing(entries: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which entries say that there is no chunk."""
    return np.asarray((entries == np.uint64(MISSING)).all(axis=-1))


def read_index(
    storage: Storage, key: str, chunks: int, at: Literal["start", "end"]
) -> tuple[NDArray[np.uint64], bool] | None:
    """Return the entries of a shard file, and whether its checksum is right; None without a file.

    A writer may be at work, so a wrong checksum is looked at again up to five times, 2 ms apart. After that the
    entries are handed out as they are: one that a torn write left is the old one or the new one, and each chunk's own
    checksum tells whether it stands.
    """
    length = index_size(chunks)
    entries: Any = None
    for attempt in range(_TRIES + 1):
        if attempt:
            time.sleep(_PAUSE)
            storage.forget()
        size = storage.size(key)
        if size is None:
            return None
        if size >= length:
            raw = storage.read_range(key, 0 if at == "start" else size - length, length)
            if len(raw) == length:
                entries, sound = unpack_index(raw)
                if sound:
                    return entries, True
    if entries is None:
        raise ContractError(key, "the shard is shorter than its index", found=str(size), expected=str(length))
    return entries, False


#: So many new bytes are on their way to the disk before a flush asks for them.
_AHEAD = 2**20
#: Shards that stay open between writes, of all arrays together: a process may have 1024 files, or fewer.
_KEPT_OPEN = 128
_kept: set[int] = set()


class ShardFile:
    """One shard of `chunks` inner chunks, its index at the start. Nothing is on disk before the first chunk."""

    def __init__(self, path: str, chunks: int, unsynced: Unsynced) -> None:
        self.path = path
        self.chunks = chunks
        #: Chunks from the first one on that a commit counts, whether they are stored or all fill.
        self.committed = 0
        #: Whether one of those lies elsewhere than the index on the disk says.
        self.replaces = False
        self._unsynced = unsynced
        #: Of the chunks up to the last one that was written: a wide record has thousands of shards with one.
        self._entries = _missing(0)
        self._end = index_size(chunks)
        self._started = 0
        self._tail = 0
        self._changed = chunks
        self._exists = False
        self._close: Callable[[], object] | None = None
        self._descriptor = -1

    @property
    def exists(self) -> bool:
        """True if there is a file."""
        return self._exists

    @classmethod
    def reopen(cls, path: str, chunks: int, keep: int, pipeline: Pipeline, node: str, unsynced: Unsynced) -> ShardFile:
        """Return a shard on disk of which the first `keep` chunks are committed.

        Nothing is altered before `cut`; a file with nothing committed is not the shard's, and for others to remove.
        Of a torn index those entries count whose chunks stand; a committed chunk that does not is a `ContractError`.
        """
        shard = cls(path, chunks, unsynced)
        shard.committed = keep
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return shard
        try:
            size = os.fstat(descriptor).st_size
            length = index_size(chunks)
            raw = os.pread(descriptor, length, 0)
            entries, sound = unpack_index(raw.ljust(length, b"\0"))
            shard._entries = entries[:keep].copy()
            if not sound:
                _check_entries(descriptor, shard._entries[:keep], size, pipeline, node)
            kept = shard._entries[~is_missing(shard._entries)]
            if not len(kept):
                return shard
            shard._exists = True
            shard._end = max(length, *(offset + extent for offset, extent in kept.tolist()))
            if shard._end > size:
                raise ContractError(node, "the shard ends before a committed chunk does", found=f"{size} bytes")
            shard._tail = size - shard._end
        finally:
            os.close(descriptor)
        if not sound or not np.array_equal(entries, shard._every_entry()):
            shard._changed = 0
        return shard

    def cut(self) -> None:
        """Cut off what lies behind the committed chunks of a shard that was reopened, and repair its index."""
        if self._tail:
            os.truncate(self.path, self._end)
            self._unsynced.file(self.path)
            self._tail = 0
        if self._exists:
            self.write_index()

    def write(self, chunks: Sequence[tuple[int, Sequence[Any] | None]]) -> None:
        """Append encoded chunks, each `(position in the shard, pieces of its bytes)`; None: the chunk is all fill."""
        pieces: list[bytes | memoryview] = []
        entries = _missing(len(chunks))
        end = self._end
        for number, (_, encoded) in enumerate(chunks):
            if encoded is None:
                continue
            views = [piece if isinstance(piece, bytes) else memoryview(piece).cast("B") for piece in encoded]
            length = sum(map(len, views))
            entries[number] = end, length
            end += length
            pieces += views
        self._set([position for position, _ in chunks], entries)
        if pieces:
            descriptor = self._open()
            write_all(descriptor, pieces, self._end)
            if end - self._started >= _AHEAD:
                start_writeback(descriptor, self._started, end - self._started)
                self._started = end
            self._end = end
            if len(_kept) > _KEPT_OPEN:
                self.close()

    def flush(self) -> None:
        """Have the next commit write the changed part of the index, and let go of the file."""
        if self._changed < self.chunks and self._exists:
            self._unsynced.index(self)
        self.close()

    def write_index(self) -> None:
        """Write the changed part of the index, in place."""
        if self._changed < self.chunks:
            start = 16 * self._changed
            write_all(self._open(), [memoryview(pack_index(self._every_entry()))[start:]], start)
            self._changed = self.chunks
        self.replaces = False
        self.close()

    def close(self) -> None:
        """Let go of the file until the next write."""
        if self._close is not None:
            self._close()
            self._close = None

    def _every_entry(self) -> NDArray[np.uint64]:
        """Return the entries of all chunks."""
        return np.concatenate((self._entries, _missing(self.chunks - len(self._entries))))

    def _set(self, positions: list[int], entries: NDArray[np.uint64]) -> None:
        lacking = max(positions, default=-1) + 1 - len(self._entries)
        if lacking > 0:
            more = min(max(lacking, len(self._entries)), self.chunks - len(self._entries))
            self._entries = np.concatenate((self._entries, _missing(more)))
        other = (self._entries[positions] != entries).any(axis=1)
        if other.any():
            self._entries[positions] = entries
            changed = min(np.array(positions)[other].tolist())
            self._changed = min(self._changed, changed)
            self.replaces = self.replaces or changed < self.committed

    def _open(self) -> int:
        if not self._exists:
            self._appear()
            self._exists = True
        self._unsynced.file(self.path)
        if self._close is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            _kept.add(self._descriptor)
            self._close = weakref.finalize(self, _let_go, self._descriptor)
        return self._descriptor

    def _appear(self) -> None:
        """Make the file, with an index that says there is nothing, as its absence did.

        Chunks of zeros that are committed have no other sign: where there are any it comes in one step with the
        folders that are missing, for an empty one says that its file is gone.
        """
        empty = pack_index(_missing(self.chunks))
        folder = os.path.dirname(self.path)
        if not self.committed or os.path.isdir(folder):
            make_folder(folder, self._unsynced)
            replace_file(self.path, empty, durable=bool(self.committed))
            self._unsynced.folder(folder)
            return
        while not os.path.isdir(os.path.dirname(folder)):
            folder = os.path.dirname(folder)
        temporary = temporary_path(folder)
        path = temporary + self.path[len(folder) :]
        os.makedirs(os.path.dirname(path))
        replace_file(path, empty, durable=False)
        sync_tree(temporary)
        os.rename(temporary, folder)
        sync(os.path.dirname(folder))


def _missing(count: int) -> NDArray[np.uint64]:
    """Return the entries of chunks that are not stored."""
    return np.full((count, 2), MISSING, dtype=np.uint64)


def _let_go(descriptor: int) -> None:
    _kept.discard(descriptor)
    os.close(descriptor)


def _check_entries(descriptor: int, entries: NDArray[np.uint64], size: int, pipeline: Pipeline, node: str) -> None:
    """Refuse committed chunks of a shard with a torn index that lie outside the file or fail their own checksum."""
    for position, (offset, length) in enumerate(entries.tolist()):
        if offset == length == MISSING:
            continue
        body = os.pread(descriptor, length, offset) if offset + length <= size else b""
        if not pipeline.checked or len(body) < 4 or crc32c(body[:-4]) != body[-4:]:
            raise ContractError(
                node, f"the index of the shard is torn and its committed chunk {position} does not stand"
            )
