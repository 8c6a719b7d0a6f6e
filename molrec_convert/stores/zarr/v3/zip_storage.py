"""A packed record read in place, its entries checked before any of them is read.

The file is read by position alone, so that threads, and processes forked after it was opened, do not disturb one
another. Nothing is inflated beyond what an entry says it holds, and what it says is held against the size of the file.
Source: PKWARE, "APPNOTE.TXT", 4.3; Zarr V3 binding, "Packed form".
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import struct
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, FormatError
from molrec_convert.files.regular_files import implausible, open_regular, pread_all, stored_bytes
from molrec_convert.stores.zarr.v3.codecs import crc32c
from molrec_convert.stores.zarr.v3.metadata import ArrayMetadata, parse_array
from molrec_convert.stores.zarr.v3.storage import (
    METADATA,
    DirectoryStorage,
    Storage,
    check_size,
    fill,
    most_bytes,
    read_document,
)

__all__ = [
    "UNIX",
    "ZipStorage",
    "check_claims",
    "check_entries",
    "entry_faults",
    "leaves_no_sign",
    "lost_files",
    "missing_files",
    "open_storage",
    "packed_comment",
    "packed_fault",
    "read_entries",
    "read_entry",
    "shown",
    "stored_ordinals",
]

#: What reading a damaged zip file, or an entry of one, may raise.
_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    OverflowError,
    MemoryError,
)
UNIX, _ENCRYPTED = 3, 0x1
_DRIVE = re.compile(r"[A-Za-z]:")
_LOCAL = struct.Struct("<4s22xHH")
#: Compressed metadata may grow by the first and by this many times the whole file's bytes.
_METADATA_FLOOR, _METADATA_GROWTH = 4 * 2**20, 16
_PIECE = 2**20
#: The last inflated entry is kept up to this size: a shard is read by its index and by its chunks.
_KEPT = 64 * 2**20


class _Window(io.RawIOBase):
    """Bytes of a descriptor from `start` up to `end`, read by position."""

    def __init__(self, descriptor: int, start: int, end: int, stored: int) -> None:
        self._descriptor, self._start, self._end, self._stored = descriptor, start, end, stored
        self._at = start

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def seekable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """See `io.RawIOBase`."""
        base = {0: self._start, 1: self._at, 2: self._end}[whence]
        if base + offset < self._start:
            raise ValueError("a position before the beginning")
        self._at = base + offset
        return self._at - self._start

    def tell(self) -> int:
        """See `io.RawIOBase`."""
        return self._at - self._start

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes; `ValueError` for more than a sparse file can hold."""
        left = max(0, self._end - self._at)
        length = left if size is None or size < 0 else min(size, left)
        if implausible(length, self._stored):
            raise ValueError(f"{length} bytes of which {self._stored} at most are stored")
        data = pread_all(self._descriptor, length, self._at)
        self._at += len(data)
        return data


def read_entries(descriptor: int, path: Path) -> tuple[list[zipfile.ZipInfo], bytes]:
    """Return the entries a zip file lists, and its comment; `FormatError` for what is no readable zip file."""
    status = os.fstat(descriptor)
    try:
        with zipfile.ZipFile(_Window(descriptor, 0, status.st_size, stored_bytes(status))) as packed:
            entries, comment = packed.infolist(), packed.comment
    except _FAULTS as error:
        raise FormatError(path, found=f"no readable zip file ({error})", expected="a packed record") from None
    # memory and time are bounded by the file's size only where no byte of it belongs to two entries
    if sum(entry.compress_size for entry in entries) > status.st_size:
        raise FormatError(path, found="entries of a zip file that lie over one another", expected="a packed record")
    return entries, comment


def entry_faults(entries: Sequence[zipfile.ZipInfo]) -> Iterator[tuple[str, str, bool]]:
    """Yield what keeps entries from being the files of one record: name, fault, whether it is only a folder."""
    names: set[str] = set()
    for entry in entries:
        # What zipfile cut off at a NUL, or turned into another separator, is judged as it stands in the file.
        name = entry.orig_filename
        fault = "comes twice" if name in names else _fault(name, entry)
        if fault is not None:
            yield shown(name), f"the zip entry {fault}", False
        elif name.endswith("/"):
            yield shown(name), "the zip entry is a folder: a packed record holds files only", True
        names.add(name)
    # a folder's own entry stands for itself
    folders = {name[:end] for name in names for end in range(len(name) - 1) if name[end] == "/"}
    for name in sorted(names & folders):
        yield shown(name), "the zip has an entry of this name and others below it", False


def check_entries(entries: Sequence[zipfile.ZipInfo], *, folders: bool = False) -> None:
    """Raise `ContractError` for a zip whose entries are not exactly files of one record; `folders` lets those pass."""
    for name, fault, folder in entry_faults(entries):
        if not (folder and folders):
            raise ContractError(name, fault)


def shown(name: str) -> str:
    """Return a name as it may be printed."""
    return name if name.isprintable() else ascii(name)[1:-1]


def _fault(name: str, entry: zipfile.ZipInfo) -> str | None:
    if name.startswith("/") or _DRIVE.match(name):
        return "has an absolute name"
    if "\\" in name or "\0" in name:
        return "has a name with a backslash or a NUL"
    parts = name.removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "has a name that is no plain path below the root"
    if any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in parts):
        return "has a name of more than 255 bytes, which no file can have"
    mode = stat.S_IFMT(entry.external_attr >> 16) if entry.create_system == UNIX else 0
    if mode not in (0, stat.S_IFREG) and not (mode == stat.S_IFDIR and name.endswith("/")):
        return "is a link or a special file"
    if entry.flag_bits & _ENCRYPTED:
        return "is encrypted"
    if entry.compress_type == zipfile.ZIP_STORED and entry.compress_size != entry.file_size:
        return "says two sizes"
    return None


def check_claims(entries: Sequence[zipfile.ZipInfo], descriptor: int, *, whole: bool = False) -> int:
    """Raise `ContractError` where compressed metadata, or `whole` the entries together, would grow beyond reason.

    Returns the bytes the file takes on the disk, which that is measured by.
    """
    status = os.fstat(descriptor)
    stored = min(status.st_size, stored_bytes(status))
    packed = [entry for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    metadata = [entry for entry in packed if entry.filename.rpartition("/")[2] == METADATA]
    for what, some, most in (
        ("metadata", metadata, _METADATA_FLOOR + _METADATA_GROWTH * stored),
        ("entries", packed if whole else [], most_bytes(stored)),
    ):
        claimed = sum(entry.file_size for entry in some)
        if claimed > most:
            largest = max(some, key=lambda entry: entry.file_size)
            raise ContractError(
                shown(largest.filename),
                f"the compressed {what} of the zip file claim {claimed} bytes, the whole file has {stored}",
            )
    return stored


def read_entry(descriptor: int, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of an entry in pieces; no more than its size is made, and its checksum is checked.

    Raises `ContractError` where the entry is damaged, or another than the zip file says.
    """
    left = entry.file_size
    try:
        start = entry_start(descriptor, entry)
        window = _Window(descriptor, start, start + entry.compress_size, stored_bytes(os.fstat(descriptor)))
        with zipfile.ZipExtFile(window, "r", entry) as file:
            while piece := file.read(min(left + 1, _PIECE)):
                left -= len(piece)
                yield piece
    except _FAULTS as error:
        raise ContractError(shown(entry.filename), f"the zip entry cannot be read: {error}") from None
    if left:
        raise ContractError(shown(entry.filename), "the zip entry ends early")


def entry_start(descriptor: int, entry: zipfile.ZipInfo) -> int:
    """Return where an entry's bytes begin: behind its local header, whose name and extra lengths are its own."""
    header = os.pread(descriptor, _LOCAL.size, entry.header_offset) if entry.header_offset >= 0 else b""
    if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile("it has no local header")
    _, name, extra = _LOCAL.unpack(header)
    return int(entry.header_offset + _LOCAL.size + name + extra)


class ZipStorage:
    """The entries of a packed record, read in place.

    Entries that are not the files of one record are refused, those of folders are left out. Stored entries are read by
    range; a compressed one (other tools may make them) is read whole, and the last one kept.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._descriptor = open_regular(self.path)
        self._release = weakref.finalize(self, os.close, self._descriptor)
        try:
            entries, _ = read_entries(self._descriptor, self.path)
            check_entries(entries, folders=True)
            self._stored = check_claims(entries, self._descriptor)
        except BaseException:
            self._release()
            raise
        self._entries = {entry.filename: entry for entry in entries}
        self._folders: dict[str, tuple[set[str], set[str]]] = {}
        self._starts: dict[str, int] = {}
        self._inflated: tuple[str, bytes] | None = None
        for name in self._entries:
            self._register(name)

    def _register(self, name: str) -> None:
        if self._hidden(name):
            return
        parts = name.split("/")
        for depth in range(len(parts) - 1):
            self._folders.setdefault("/".join(parts[:depth]), (set(), set()))[0].add(parts[depth])
        if parts[-1]:
            self._folders.setdefault("/".join(parts[:-1]), (set(), set()))[1].add(parts[-1])

    def _hidden(self, name: str) -> bool:
        """True if a file, or a folder on the way to it, is one nobody sees."""
        if not name.startswith(".") and "/." not in name:
            return False
        parts = name.split("/")
        folders = ("/".join(parts[: depth + 1]) for depth in range(len(parts) - 1) if parts[depth].startswith("."))
        return parts[-1].startswith(".") or any(f"{folder}/{METADATA}" not in self._entries for folder in folders)

    def read(self, key: str, most: int | None = None) -> bytes | None:
        """See `Storage.read`; the bytes are held against the entry's own checksum."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        check_size(key, entry.file_size, most)
        if entry.compress_type != zipfile.ZIP_STORED:
            return self._inflate(key, entry)
        data = self.read_range(key, 0, entry.file_size)
        if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
            raise ContractError(key, "the zip entry does not match its checksum")
        return data

    def _inflate(self, key: str, entry: zipfile.ZipInfo) -> bytes:
        """Return the content of a compressed entry."""
        kept = self._inflated
        if kept is not None and kept[0] == key:
            return kept[1]
        if entry.file_size > self.most_bytes():
            raise ContractError(key, f"the zip entry claims {entry.file_size} bytes, the whole file has {self._stored}")
        data = b"".join(read_entry(self._descriptor, entry))
        if len(data) <= _KEPT:
            self._inflated = key, data
        return data

    def size(self, key: str) -> int | None:
        """See `Storage.size`."""
        entry = self._entries.get(key)
        return None if entry is None else entry.file_size

    def most_bytes(self) -> int:
        """See `Storage.most_bytes`."""
        return most_bytes(self._stored)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See `Storage.read_range`."""
        entry = self._entries.get(key)
        if entry is None:
            return b""
        if entry.compress_type != zipfile.ZIP_STORED:
            return self._inflate(key, entry)[start : start + length]
        length = min(length, entry.file_size - start)
        if length <= 0:
            return b""
        if length > self.most_bytes():
            raise ContractError(key, f"the zip entry claims {length} bytes, the whole file has {self._stored}")
        return pread_all(self._descriptor, length, self._start(key, entry) + start)

    def read_into(self, key: str, start: int, buffers: Sequence[NDArray[Any]]) -> int:
        """See `Storage.read_into`."""
        entry = self._entries.get(key)
        if entry is None:
            return 0
        wanted = sum(buffer.nbytes for buffer in buffers)
        if entry.compress_type == zipfile.ZIP_STORED and start + wanted <= entry.file_size:
            return fill(self._descriptor, self._start(key, entry) + start, buffers)
        data = np.frombuffer(self.read_range(key, start, wanted), dtype=np.uint8)
        done = 0
        for buffer in buffers:
            part = data[done : done + buffer.nbytes]
            buffer[: len(part)] = part
            done += len(part)
        return done

    def _start(self, key: str, entry: zipfile.ZipInfo) -> int:
        """Return where a stored entry's bytes begin."""
        if key not in self._starts:
            try:
                self._starts[key] = entry_start(self._descriptor, entry)
            except zipfile.BadZipFile as error:
                raise ContractError(key, f"the zip entry cannot be read: {error}") from None
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

    def forget(self) -> None:
        """See `Storage.forget`."""

    def close(self) -> None:
        """See `Storage.close`."""
        self._release()
        self._descriptor = -1


def open_storage(path: str | os.PathLike[str]) -> Storage:
    """Return the storage at a path: a directory, or a zip file."""
    where = Path(path)
    if where.is_dir():
        return DirectoryStorage(where)
    if where.exists():
        return ZipStorage(where)
    raise FileNotFoundError(f"no such file or directory: {where}")


#: So many times the files that are there are counted at most.
_MANY = 1000


def stored_ordinals(metadata: ArrayMetadata, names: Iterable[str]) -> set[int]:
    """Return the leading ordinals of the chunk files among names below an array, `c/0/0` or `0.0`."""
    found: set[int] = set()
    for name in names:
        parts = name.replace(".", "/").split("/") if metadata.separator == "." else name.split("/")
        if metadata.prefixed:
            if parts[0] != "c":
                continue
            parts = parts[1:]
        first = parts[0] if parts else "0"
        if first.isascii() and first.isdigit() and len(first) < 19:
            found.add(int(first))
    return found


def missing_files(storage: Storage, key: str, metadata: ArrayMetadata, present: set[int]) -> list[str]:
    """Return the names below the array at `key` of chunk files that were there, of which `present` are."""
    if not present and not metadata.empty_chunks:
        return ["c/"] if metadata.prefixed and "c" in storage.children(key)[0] else []
    if not metadata.direct or not metadata.shape:
        return []  # one file, or files along other axes
    count = -(-metadata.shape[0] // metadata.chunk_shape[0])
    if count > _MANY * (len(present) + len(metadata.empty_chunks)):
        return [f"all but {len(present)} of {count}"]
    trailing = (0,) * (len(metadata.shape) - 1)
    gone = set(range(count)) - present - metadata.empty_chunks
    return [metadata.key(each, *trailing) for each in sorted(gone)]


def leaves_no_sign(storage: Storage) -> bool:
    """True if another program wrote the record: none is known to say which chunk files are missing by right."""
    document = read_document(storage, "meta")
    creator = None if document is None else document["attributes"].get("creator")
    return isinstance(creator, dict) and creator.get("name") != "molrec-convert"


def lost_files(storage: Storage) -> Iterator[str]:
    """Return the keys of chunk files that are gone from a record."""
    yield from _lost(storage, "", certain=leaves_no_sign(storage))


def _lost(storage: Storage, key: str, *, certain: bool) -> Iterator[str]:
    document = read_document(storage, key)
    if document is not None and document["node_type"] == "array":
        try:
            metadata = parse_array(document, key)
        except ContractError:
            return  # content of no section, in a layout this version does not know
        names = [each[len(key) + 1 :] for each in storage.keys(key)]
        if metadata.shape and 0 not in metadata.shape:
            found = missing_files(storage, key, metadata, stored_ordinals(metadata, names))
            yield from (f"{key}/{name}" for name in found if name == "c/" or not certain)
        return
    for name in storage.children(key)[0]:
        yield from _lost(storage, f"{key}/{name}" if key else name, certain=certain)


def packed_comment(names: Iterable[str]) -> bytes:
    """Return the comment of a zip that has a file of each of these names."""
    every = sorted(names)
    return json.dumps({"files": len(every), "names_crc32c": _checksum(every)}).encode()


def packed_fault(comment: bytes, names: Iterable[str]) -> str | None:
    """Return what tells that a zip has not the files it was packed with; None where it has, or does not say."""
    try:
        stated = json.loads(comment)
    except ValueError:
        return None
    if not isinstance(stated, dict) or type(stated.get("files")) is not int or "names_crc32c" not in stated:
        return None
    every = sorted(names)
    if len(every) != stated["files"]:
        return f"the zip has {len(every)} of the {stated['files']} files it was packed with"
    if stated["names_crc32c"] != _checksum(every):
        return "the zip has files of other names than it was packed with"
    return None


def _checksum(names: list[str]) -> str:
    return crc32c("\n".join(names).encode()).hex()
