"""The whole text of one file as a buffer that may be read in any order, however long it is.

A plain file is mapped. A compressed one is decompressed once: short text is kept in memory, long text in a temporary
file without a name, so that memory stays bounded and several passes cost one decompression. Text that is hundreds of
times as long as its file, or longer than the disk has room for, is refused before it fills the disk.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from molrec_convert.errors import FormatError
from molrec_convert.text.compression import Decompressed, unreadable

__all__ = ["MEMORY_BYTES", "Contents", "forget"]

#: Decompressed text up to this length stays in memory.
MEMORY_BYTES = 2**25
#: Text that is longer than this, and so many times as long as its file, is none that any program writes.
_PLAUSIBLE_BYTES, _PLAUSIBLE_RATIO = 2**26, 100
#: What the disk keeps free, looked at whenever so much more has been written.
_ROOM_BYTES, _LOOK_BYTES = 2**28, 2**26


class Contents:
    """The decompressed bytes of a file: `data` is bytes or a read-only map of them. A context manager.

    `cut` says how a compressed stream ends before its end, else None. Damage in its middle is a `FormatError`, and so
    is text far longer than its file, or than there is room for.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.cut: str | None = None
        self.data: bytes | mmap.mmap
        with Decompressed(self.path) as source:
            if source.compression is None:
                try:
                    with self.path.open("rb") as file:
                        self.data = _mapped(file)
                except OSError as error:
                    raise unreadable(self.path, error) from error
            else:
                self.data = _spooled(source)
            self.cut = source.cut

    def __len__(self) -> int:
        return len(self.data)

    def close(self) -> None:
        """Let go of the text, unless arrays over it are still in use."""
        if isinstance(self.data, mmap.mmap):
            try:
                self.data.close()
            except BufferError:
                return
        self.data = b""

    def __enter__(self) -> Contents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def forget(data: object, start: int, stop: int) -> None:
    """Let go of the memory of a part of a map that was read; it is read again where it is asked for again."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        begin, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, min(stop, len(data)) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > begin:
            data.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def _mapped(file: BinaryIO) -> bytes | mmap.mmap:
    if os.fstat(file.fileno()).st_size == 0:
        return b""
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _spooled(source: Decompressed) -> bytes | mmap.mmap:
    parts: list[bytes] = []
    blocks = source.blocks()
    size = 0
    for block in blocks:
        parts.append(block)
        size += len(block)
        if size > MEMORY_BYTES:
            break
    else:
        return b"".join(parts)
    with tempfile.TemporaryFile(prefix="molrec-", dir=_folder()) as file:
        for block in parts:
            file.write(block)
        parts.clear()
        looked = 0
        for block in blocks:
            size += len(block)
            if size - looked >= _LOOK_BYTES:
                _check_size(source.path, size)
                looked = size
            file.write(block)
        file.flush()
        return _mapped(file)


def _folder() -> str:
    """Return the folder for long texts: the one the environment names, else that of large temporary files."""
    chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    large = "/var/tmp"
    return tempfile.gettempdir() if chosen or not os.access(large, os.W_OK) else large


def _check_size(path: Path, size: int) -> None:
    """Refuse text that is too long for its file, or for the disk it is kept on."""
    packed = path.stat().st_size
    if size > _PLAUSIBLE_BYTES and size > _PLAUSIBLE_RATIO * packed:
        raise FormatError(
            path, found=f"more than {_PLAUSIBLE_RATIO} times its {packed} bytes when it is decompressed",
            expected="text", hint="if that is right, decompress it yourself and name what comes out",
        )  # fmt: skip
    room = shutil.disk_usage(_folder()).free
    if room < _ROOM_BYTES:
        raise FormatError(
            path, found=f"more than {size} bytes when it is decompressed",
            expected=f"what there is room for in {_folder()}",
            hint="name another folder by TMPDIR, or decompress it yourself and name what comes out",
        )  # fmt: skip
