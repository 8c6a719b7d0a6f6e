"""Where the files of a record are: a directory, or the entries of a zip read in place.

Keys are relative to the record root with `/` between parts ("frame/atoms/x/c/0"). Files whose name starts with `.` are
a writer's temporary files, or litter, and are never seen; a folder of such a name is seen when it is a Zarr node.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import weakref
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from molrec_convert.disk import replace_file
from molrec_convert.errors import ContractError, FormatError
from molrec_convert.stores.zarr.metadata import dump_document, parse_document

__all__ = [
    "DirectoryStorage",
    "Storage",
    "ZipStorage",
    "open_storage",
    "read_document",
    "write_document",
]

_OPEN_FILES = 64
_IOVECS = 1024
_METADATA = "zarr.json"
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
_ENCRYPTED = 0x1


class Storage(Protocol):
    """Read access to the files of one record."""

    path: Path

    def read(self, key: str) -> bytes | None:
        """A whole file, None when it is not there."""

    def size(self, key: str) -> int | None:
        """Bytes of a file, None when it is not there."""

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start`; fewer where the file ends, none where there is no file."""

    def read_into(self, key: str, start: int, buffers: Sequence[NDArray[Any]]) -> int:
        """Fill writable byte arrays one after the other with the bytes from `start` on; how many bytes there were."""

    def children(self, key: str) -> tuple[list[str], list[str]]:
        """Names of the folders and of the files directly below a folder ("" is the root), each sorted."""

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Keys of all files below a folder, sorted."""

    def zarr_store(self) -> Any:
        """A read-only store of the Zarr library over the same files."""

    def forget(self) -> None:
        """Let go of cached file handles: files may have been replaced."""

    def close(self) -> None:
        """Let go of everything."""


def open_storage(path: str | os.PathLike[str]) -> Storage:
    """The storage at a path: a directory, or a zip file."""
    where = Path(path)
    if where.is_dir():
        return DirectoryStorage(where)
    if where.is_file():
        return ZipStorage(where)
    raise FileNotFoundError(f"no such file or directory: {where}")


class DirectoryStorage:
    """A record's directory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._root = os.fspath(self.path)
        self._files: OrderedDict[str, int] = OrderedDict()
        # a record nobody closes lets go of its files when nobody holds it any more
        weakref.finalize(self, _close_files, self._files)

    def read(self, key: str) -> bytes | None:
        """See `Storage.read`."""
        try:
            with open(f"{self._root}/{key}", "rb") as file:
                return file.read()
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise

    def size(self, key: str) -> int | None:
        """See `Storage.size`."""
        try:
            status = os.stat(f"{self._root}/{key}")
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See `Storage.read_range`; open files are kept, so that the next range costs one system call."""
        descriptor = self._open(key)
        return b"" if descriptor is None else os.pread(descriptor, length, start)

    def read_into(self, key: str, start: int, buffers: Sequence[NDArray[Any]]) -> int:
        """See `Storage.read_into`."""
        descriptor = self._open(key)
        return 0 if descriptor is None else _fill(descriptor, start, buffers)

    def _open(self, key: str) -> int | None:
        descriptor = self._files.get(key)
        if descriptor is not None:
            self._files.move_to_end(key)
            return descriptor
        try:
            descriptor = os.open(f"{self._root}/{key}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return None
        self._files[key] = descriptor
        if len(self._files) > _OPEN_FILES:
            os.close(self._files.popitem(last=False)[1])
        return descriptor

    def children(self, key: str) -> tuple[list[str], list[str]]:
        """See `Storage.children`."""
        folders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(f"{self._root}/{key}" if key else self._root) as entries:
                for entry in entries:
                    if entry.is_dir():
                        if not entry.name.startswith(".") or os.path.isfile(f"{entry.path}/{_METADATA}"):
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
        yield from (start + name for name in files)
        for name in folders:
            yield from self._walk(start + name, above | {here})

    def zarr_store(self) -> Any:
        """See `Storage.zarr_store`."""
        from zarr.storage import LocalStore

        return LocalStore(self.path, read_only=True)

    def forget(self) -> None:
        """See `Storage.forget`."""
        _close_files(self._files)

    close = forget


def _close_files(files: OrderedDict[str, int]) -> None:
    while files:
        os.close(files.popitem()[1])


class ZipStorage:
    """The entries of a packed record, read in place.

    Duplicate entry names are refused. Stored entries are read by range; a compressed one (other tools may make them)
    is read whole.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._descriptor = -1
        try:
            self._zip = zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as error:
            raise FormatError(self.path, found=f"no readable zip file ({error})", expected="a packed record") from None
        self._entries: dict[str, zipfile.ZipInfo] = {}
        self._folders: dict[str, tuple[set[str], set[str]]] = {}
        self._starts: dict[str, int] = {}
        try:
            for entry in self._zip.infolist():
                if entry.filename in self._entries:
                    raise ContractError(entry.filename, "the zip file has two entries of this name")
                self._entries[entry.filename] = entry
            for name in self._entries:
                self._register(name)
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            self._zip.close()
            raise
        self._release = weakref.finalize(self, os.close, self._descriptor)

    def _register(self, name: str) -> None:
        if self._hidden(name):
            return
        parts = name.split("/")
        for depth in range(len(parts) - 1):
            self._folders.setdefault("/".join(parts[:depth]), (set(), set()))[0].add(parts[depth])
        if parts[-1]:
            self._folders.setdefault("/".join(parts[:-1]), (set(), set()))[1].add(parts[-1])

    def _hidden(self, name: str) -> bool:
        """Whether a file, or a folder on the way to it, is one nobody sees."""
        if not name.startswith(".") and "/." not in name:
            return False
        parts = name.split("/")
        folders = ("/".join(parts[: depth + 1]) for depth in range(len(parts) - 1) if parts[depth].startswith("."))
        return parts[-1].startswith(".") or any(f"{folder}/{_METADATA}" not in self._entries for folder in folders)

    def read(self, key: str) -> bytes | None:
        """See `Storage.read`; the bytes are held against the entry's own checksum."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.flag_bits & _ENCRYPTED:
            raise ContractError(key, "the zip entry is encrypted")
        if entry.compress_type == zipfile.ZIP_STORED:
            data = self.read_range(key, 0, entry.file_size)
            if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
                raise ContractError(key, "the zip entry does not match its checksum")
            return data
        try:
            return self._zip.read(entry)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error, OSError) as error:
            raise ContractError(key, f"the zip entry cannot be read: {error}") from None

    def size(self, key: str) -> int | None:
        """See `Storage.size`."""
        entry = self._entries.get(key)
        return None if entry is None else entry.file_size

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See `Storage.read_range`."""
        entry = self._entries.get(key)
        if entry is None:
            return b""
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & _ENCRYPTED:
            return (self.read(key) or b"")[start : start + length]
        length = min(length, entry.file_size - start)
        return os.pread(self._descriptor, length, self._start(key, entry) + start) if length > 0 else b""

    def read_into(self, key: str, start: int, buffers: Sequence[NDArray[Any]]) -> int:
        """See `Storage.read_into`."""
        entry = self._entries.get(key)
        if entry is None:
            return 0
        wanted = sum(buffer.nbytes for buffer in buffers)
        plain = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & _ENCRYPTED
        if plain and start + wanted <= entry.file_size:
            return _fill(self._descriptor, self._start(key, entry) + start, buffers)
        data = np.frombuffer(self.read_range(key, start, wanted), dtype=np.uint8)
        done = 0
        for buffer in buffers:
            part = data[done : done + buffer.nbytes]
            buffer[: len(part)] = part
            done += len(part)
        return done

    def _start(self, key: str, entry: zipfile.ZipInfo) -> int:
        """Where an entry's bytes begin: behind its local header, whose name and extra lengths are its own."""
        if key not in self._starts:
            header = os.pread(self._descriptor, 30, entry.header_offset)
            if len(header) < 30 or header[:4] != b"PK\x03\x04":
                raise ContractError(key, "the zip entry has no local header")
            name, extra = struct.unpack("<HH", header[26:30])
            self._starts[key] = entry.header_offset + 30 + name + extra
        return self._starts[key]

    def children(self, key: str) -> tuple[list[str], list[str]]:
        """See `Storage.children`."""
        folders, files = self._folders.get(key, (set(), set()))
        return sorted(folders), sorted(files)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """See `Storage.keys`."""
        start = f"{prefix}/" if prefix else ""
        yield from sorted(
            name
            for name in self._entries
            if name.startswith(start) and not name.endswith("/") and not self._hidden(name)
        )

    def zarr_store(self) -> Any:
        """See `Storage.zarr_store`."""
        from zarr.storage import ZipStore

        return ZipStore(self.path, mode="r")

    def forget(self) -> None:
        """See `Storage.forget`."""

    def close(self) -> None:
        """See `Storage.close`."""
        self._zip.close()
        self._release()
        self._descriptor = -1


def _fill(descriptor: int, start: int, buffers: Sequence[Any]) -> int:
    """`preadv` until the buffers are full or the file ends: one call reads at most 2 GiB and `IOV_MAX` buffers."""
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
    """What is left of some memory when its first `done` bytes are."""
    for position, piece in enumerate(pieces):
        if done < len(piece):
            return [piece[done:], *pieces[position + 1 :]]
        done -= len(piece)
    return []


def read_document(storage: Storage, folder: str) -> dict[str, Any] | None:
    """The `zarr.json` of the node at a folder, None when the folder is no node; refused when it is no Zarr V3."""
    raw = storage.read(f"{folder}/{_METADATA}" if folder else _METADATA)
    return None if raw is None else parse_document(raw, folder)


def write_document(folder: str | os.PathLike[str], document: dict[str, Any], *, durable: bool = False) -> None:
    """Write the `zarr.json` of a node, making its folder; the file appears whole or not at all."""
    os.makedirs(folder, exist_ok=True)
    replace_file(os.path.join(folder, _METADATA), dump_document(document), durable=durable)
