"""The file an export writes: compressed when its name says so, and nothing but bytes in order.

The suffixes are `.gz .bz2 .xz .zst`. The same content gives the same file: no times or
names are put into it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from molrec_convert.files.writeback import FileAhead

__all__ = ["open_target"]

_BUFFER = 2**20


@contextmanager
def open_target(path: Path, name: str) -> Iterator[BinaryIO]:
    """A file to write at `path`, compressed as `name`, the name it will get, asks for; synced when it is closed."""
    with io.BufferedWriter(FileAhead(path), _BUFFER) as raw:
        with _compressed(raw, Path(name).suffix.lower()) as file:
            yield file
        raw.flush()
        os.fsync(raw.fileno())


def _compressed(raw: BinaryIO, suffix: str) -> Any:
    if suffix == ".gz":
        return gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0)
    if suffix == ".bz2":
        return bz2.open(raw, "wb")
    if suffix == ".xz":
        return lzma.open(raw, "wb")
    if suffix == ".zst":
        import zstandard

        return cast(Any, zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False))
    return _Plain(raw)


class _Plain:
    """The file itself; whoever opened it closes it."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw

    def __enter__(self) -> BinaryIO:
        return self._raw

    def __exit__(self, *how: object) -> None:
        return None
