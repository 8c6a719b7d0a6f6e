"""The whole text of one file as a buffer that may be read in any order, however long it is.

A plain file is mapped. A compressed one is decompressed once: short text is kept in memory, long text in a temporary
file without a name, so that memory stays bounded and several passes cost one decompression.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from molrec_convert.compression import Decompressed, unreadable

__all__ = ["MEMORY_BYTES", "Contents", "forget"]

#: Decompressed text up to this length stays in memory.
MEMORY_BYTES = 2**25


class Contents:
    """The decompressed bytes of a file: `data` is bytes or a read-only map of them. A context manager.

    `cut` says how a compressed stream ends before its end, else None. Damage in its middle is a `FormatError`.
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
                self.data = _spooled(source.blocks())
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


def _spooled(blocks: Iterator[bytes]) -> bytes | mmap.mmap:
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        parts.append(block)
        size += len(block)
        if size > MEMORY_BYTES:
            break
    else:
        return b"".join(parts)
    with tempfile.TemporaryFile(prefix="molrec-") as file:
        for block in parts:
            file.write(block)
        parts.clear()
        for block in blocks:
            file.write(block)
        file.flush()
        return _mapped(file)
