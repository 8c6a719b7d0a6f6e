"""Where the files of a record are: a directory, or the entries of a zip (`zip_storage.py`).

Keys are relative to the record root with `/` between parts ("frame/atoms/x/c/0"). Files whose name starts with `.` are
a writer's temporary files, or litter, and are never seen; a folder of such a name is seen when it is a Zarr node.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.files.disk import replace_file
from molrec_convert.files.regular_files import implausible, kind_of, pread_all, stored_bytes
from molrec_convert.stores.zarr.v3.metadata import dump_document, parse_document

__all__ = [
    "METADATA",
    "SMALL",
    "DirectoryStorage",
    "Storage",
    "check_size",
    "fill",
    "most_bytes",
    "read_document",
    "read_metadata",
    "write_document",
    "zarr_store",
]

METADATA = "zarr.json"
#: Up to here no value is too large for what is stored, and beyond it up to this many times of that.
SMALL, _GROWTH = 2**28, 64
_MOST_METADATA = 2**28
_OPEN_FILES = 64
#: A pipe is not waited for.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_IOVECS = 1024
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


class Storage(Protocol):
    """Read access to the files of one record."""

    path: Path

    def read(self, key: str, most: int | None = None) -> bytes | None:
        """Return a whole file, None when it is not there; `ContractError` for one of more than `most` bytes."""

    def size(self, key: str) -> int | None:
        """Return bytes of a file, None when it is not there."""

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`; fewer where the file ends, none where there is no file."""

    def read_into(self, key: str, start: int, buffers: Sequence[NDArray[Any]]) -> int:
        """Fill writable byte arrays one after the other with the bytes from `start` on; how many bytes there were."""

    def children(self, key: str) -> tuple[list[str], list[str]]:
        """Return names of the folders and of the files directly below a folder ("" is the root), each sorted."""

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield keys of all files below a folder, sorted."""

    def most_bytes(self) -> int:
        """Return the most bytes worth making at once of what is stored: values beyond all proportion are refused."""

    def forget(self) -> None:
        """Let go of cached file handles: files may have been replaced."""

    def close(self) -> None:
        """Let go of everything."""


class _File:
    """An open file, closed when nobody uses it any more: not while another thread reads it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


class DirectoryStorage:
    """A record's directory. It may be reached through a link itself; no link in it is followed out of it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._root = os.fspath(self.path)
        self._files: OrderedDict[str, _File] = OrderedDict()
        #: Folders that are known to lie in the directory.
        self._inside = {""}

    def read(self, key: str, most: int | None = None) -> bytes | None:
        """See `Storage.read`."""
        file = self._opened(key)
        if file is None:
            return None
        status = os.fstat(file.descriptor)
        check_size(key, status.st_size, most)
        self._check_plausible(key, status.st_size, stored_bytes(status))
        return pread_all(file.descriptor, status.st_size, 0)

    def size(self, key: str) -> int | None:
        """See `Storage.size`."""
        self._enter(key.rpartition("/")[0])
        try:
            status = os.lstat(f"{self._root}/{key}")
            if stat.S_ISLNK(status.st_mode):
                self._check_link(key)
                status = os.stat(f"{self._root}/{key}")
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        return status.st_size if self._is_file(key, status) else None

    def most_bytes(self) -> int:
        """See `Storage.most_bytes`."""
        return most_bytes(sum(stored_bytes(os.stat(f"{self._root}/{key}")) for key in self.keys()))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See `Storage.read_range`; open files are kept, so that the next range costs one system call."""
        file = self._kept(key)
        if file is None:
            return b""
        if length > SMALL:
            self._check_plausible(key, length, stored_bytes(os.fstat(file.descriptor)))
        return pread_all(file.descriptor, length, start)

    def read_into(self, key: str, start: int, buffers: Sequence[NDArray[Any]]) -> int:
        """See `Storage.read_into`."""
        file = self._kept(key)
        return 0 if file is None else fill(file.descriptor, start, buffers)

    def _kept(self, key: str) -> _File | None:
        """Return a file that stays open for the next time."""
        file = self._files.get(key)
        if file is None:
            file = self._opened(key)
            if file is None:
                return None
            self._files[key] = file
        with contextlib.suppress(KeyError):  # another thread may have let go of them
            self._files.move_to_end(key)
            if len(self._files) > _OPEN_FILES:
                self._files.popitem(last=False)
        return file

    def _opened(self, key: str) -> _File | None:
        """Return a file that was opened now, None where there is none; a pipe is not waited for."""
        self._enter(key.rpartition("/")[0])
        try:
            try:
                descriptor = os.open(f"{self._root}/{key}", _FLAGS | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                self._check_link(key)
                descriptor = os.open(f"{self._root}/{key}", _FLAGS)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            if error.errno == errno.ENXIO:
                raise ContractError(key, "is a socket or a device, where a file is expected") from None
            raise
        file = _File(descriptor)
        return file if self._is_file(key, os.fstat(descriptor)) else None

    def _enter(self, folder: str) -> None:
        """Refuse a folder that a link leads to out of the directory, itself or one above it."""
        if folder not in self._inside:
            self._enter(folder.rpartition("/")[0])
            self._check_link(folder)
            self._inside.add(folder)

    def _check_link(self, key: str) -> None:
        path = f"{self._root}/{key}"
        if os.path.islink(path):
            root = os.path.realpath(self._root)
            target = os.path.realpath(path)
            if os.path.commonpath([root, target]) != root:
                raise ContractError(key, f"is a link out of the record, which nobody follows: it leads to {target}")

    def _is_file(self, key: str, status: os.stat_result) -> bool:
        """True if there is a file, False if there is a folder; `ContractError` for anything else."""
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            return stat.S_ISREG(status.st_mode)
        raise ContractError(key, f"is {kind_of(status)}, where a file is expected")

    def _check_plausible(self, key: str, size: int, stored: int) -> None:
        if implausible(size, stored):
            raise ContractError(key, f"the file claims {size} bytes, of which {stored} are stored")

    def children(self, key: str) -> tuple[list[str], list[str]]:
        """See `Storage.children`."""
        folders: list[str] = []
        files: list[str] = []
        self._enter(key)
        try:
            with os.scandir(f"{self._root}/{key}" if key else self._root) as entries:
                for entry in entries:
                    if entry.is_dir():
                        if not entry.name.startswith(".") or os.path.isfile(f"{entry.path}/{METADATA}"):
                            folders.append(entry.name)
                    elif not entry.name.startswith("."):
                        files.append(entry.name)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
        return sorted(folders), sorted(files)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Storage.keys`."""
        yield from sorted(self._walk(prefix, frozenset()))

    def _walk(self, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
        status = os.stat(f"{self._root}/{prefix}" if prefix else self._root)
        here = (status.st_dev, status.st_ino)
        if here in above:
            raise ContractError(prefix, "a link leads back to a folder above it")
        folders, files = self.children(prefix)
        start = f"{prefix}/" if prefix else ""
        for name in files:
            self._check_link(start + name)
        yield from (start + name for name in files)
        for name in folders:
            yield from self._walk(start + name, above | {here})

    def forget(self) -> None:
        """See `Storage.forget`."""
        self._files.clear()

    close = forget


def most_bytes(stored: int) -> int:
    """Return the most bytes that may be made at once of a store that takes `stored` bytes on the disk."""
    return SMALL + _GROWTH * stored


def check_size(key: str, size: int, most: int | None) -> None:
    """Raise `ContractError` for a file beyond `most` bytes."""
    if most is not None and size > most:
        raise ContractError(key, "the file is larger than any of its kind", found=f"{size} bytes", expected=f"{most}")


def fill(descriptor: int, start: int, buffers: Sequence[Any]) -> int:
    """Return `preadv` until the buffers are full or the file ends: one call reads at most 2 GiB and `IOV_MAX`
    buffers.
    """
    done = 0
    if len(buffers) <= _IOVECS:
        done = os.preadv(descriptor, buffers, start)
        if done == sum(buffer.nbytes for buffer in buffers):
            return done
    pending = _behind([memoryview(buffer) for buffer in buffers if buffer.nbytes], done)
    while pending:
        got = os.preadv(descriptor, pending[:_IOVECS], start + done)
        if not got:
            break
        done += got
        pending = _behind(pending, got)
    return done


def _behind(pieces: list[memoryview], done: int) -> list[memoryview]:
    """Return what is left of some memory when its first `done` bytes are."""
    for position, piece in enumerate(pieces):
        if done < len(piece):
            return [piece[done:], *pieces[position + 1 :]]
        done -= len(piece)
    return []


def read_metadata(storage: Storage, folder: str) -> bytes | None:
    """Return the bytes of the `zarr.json` of the node at a folder, None when the folder is no node."""
    return storage.read(f"{folder}/{METADATA}" if folder else METADATA, _MOST_METADATA)


def read_document(storage: Storage, folder: str) -> dict[str, Any] | None:
    """Return the `zarr.json` of the node at a folder, None when the folder is no node; refused when it is no Zarr
    V3.
    """
    raw = read_metadata(storage, folder)
    return None if raw is None else parse_document(raw, folder)


def write_document(folder: str | os.PathLike[str], document: dict[str, Any], *, durable: bool = False) -> None:
    """Write the `zarr.json` of a node, making its folder; the file appears whole or not at all."""
    os.makedirs(folder, exist_ok=True)
    replace_file(os.path.join(folder, METADATA), dump_document(document), durable=durable)


def zarr_store(storage: Storage) -> Any:
    """Return a read-only store of the Zarr library over the files of `storage`."""
    return _store_class()(storage)


@cache
def _store_class() -> Any:
    """Return the class of such stores; the library is slow to import."""
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest

    class StorageStore(Store):  # type: ignore[misc]
        """Read-only, synchronous beneath."""

        supports_writes = supports_deletes = supports_partial_writes = False
        supports_listing = True

        def __init__(self, storage: Storage) -> None:
            super().__init__(read_only=True)
            self._storage = storage

        def __eq__(self, other: object) -> bool:
            return isinstance(other, StorageStore) and other._storage is self._storage

        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            size = self._storage.size(key)
            if size is None:
                return None
            if byte_range is None:
                data = self._storage.read(key)
                return None if data is None else prototype.buffer.from_bytes(data)
            start, stop = 0, size
            if isinstance(byte_range, RangeByteRequest):
                start, stop = byte_range.start, byte_range.end
            elif isinstance(byte_range, OffsetByteRequest):
                start = byte_range.offset
            elif isinstance(byte_range, SuffixByteRequest):
                start = size - byte_range.suffix
            start, stop = max(0, start), min(stop, size)
            return prototype.buffer.from_bytes(self._storage.read_range(key, start, max(0, stop - start)))

        async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> list[Any]:
            return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

        async def exists(self, key: str) -> bool:
            return self._storage.size(key) is not None

        async def list(self) -> AsyncIterator[str]:
            for key in self._storage.keys():  # noqa: SIM118
                yield key

        async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
            for key in self._storage.keys():  # noqa: SIM118
                if key.startswith(prefix):
                    yield key

        async def list_dir(self, prefix: str) -> AsyncIterator[str]:
            folders, files = self._storage.children(prefix.rstrip("/"))
            for name in (*folders, *files):
                yield name

        async def set(self, key: str, value: Any) -> None:
            self._check_writable()

        async def delete(self, key: str) -> None:
            self._check_writable()

    return StorageStore
