"""Compressed files: .gz (several members too), .bz2, .xz and .zst, told by their first bytes, never by their name.

A stream may be cut short by a killed job. Everything before the cut is delivered; then the reader either stops, or
raises. Sources: RFC 1952 (gzip; members follow one another, zero padding between them), RFC 8878 (zstd).
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol

from molrec_convert.errors import FormatError, MissingInputError

__all__ = ["BLOCK_BYTES", "Decompressed", "compression_of", "head_of", "unreadable"]

#: How much is decompressed at a time.
BLOCK_BYTES = 2**20
#: What is read at a time: at the best ratio deflate has, 66 MB of text.
_RAW_BYTES = 2**16

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_FAULTS: tuple[type[Exception], ...] = (zlib.error, OSError, lzma.LZMAError, EOFError)


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes) -> bytes: ...


def compression_of(head: bytes) -> str | None:
    """Return `"gzip"`, `"bzip2"`, `"xz"`, `"zstd"`, or None: how a file that begins with `head` is compressed."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def head_of(file: BinaryIO, size: int) -> bytes:
    """Return the first bytes of a file's content, decompressed: of a damaged stream what is whole of its beginning."""
    raw = file.read(size)
    kind = compression_of(raw)
    if kind is None:
        return raw
    file.seek(0)
    stream: Any
    errors = _FAULTS
    if kind == "zstd":
        import zstandard

        stream, errors = zstandard.ZstdDecompressor().stream_reader(file), (*_FAULTS, zstandard.ZstdError)
    else:
        openers: dict[str, Any] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
        stream = openers[kind](file)
    head = b""
    with stream, contextlib.suppress(*errors):
        while len(head) < size and (piece := stream.read1(size - len(head))):
            head += piece
    return head


def unreadable(path: str | os.PathLike[str], error: OSError) -> OSError:
    """Return what the system says of a file, with its name: an input that is not there, or whatever else keeps it."""
    if error.errno == errno.ENOENT:
        return MissingInputError(path)
    return OSError(error.errno, error.strerror or str(error), os.fspath(path))


class Decompressed:
    """The decompressed bytes of a file, in blocks, front to back.

    After the last block `cut` is None, or says how the compressed stream ends before its end. Damage in the middle of
    a stream is a `FormatError`. A context manager.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.cut: str | None = None
        try:
            self._file = self.path.open("rb")
            head = self._file.read(8)
            self._file.seek(0)
        except OSError as error:
            raise unreadable(self.path, error) from error
        self.compression = compression_of(head)

    def blocks(self) -> Iterator[bytes]:
        """Yield blocks of about a megabyte; never an empty one."""
        if self.compression is None:
            while block := self._file.read(BLOCK_BYTES):
                yield block
            return
        for block in self._decompressed():
            for start in range(0, len(block), 4 * BLOCK_BYTES):
                yield block[start : start + 4 * BLOCK_BYTES]

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Decompressed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _decompressed(self) -> Iterator[bytes]:
        new, faults = _decoder(self.compression or "")
        decoder: _Decoder | None = None
        pending = b""
        while True:
            raw = pending or self._file.read(_RAW_BYTES)
            pending = b""
            if not raw:
                break
            if decoder is None:
                raw = raw.lstrip(b"\0")
                if not raw:
                    continue
                decoder = new()
            try:
                block = decoder.decompress(raw)
            except faults as error:
                at = self._file.tell()
                raise FormatError(
                    self.path,
                    f"byte {at}",
                    found=f"damaged {self.compression} data ({error})",
                    expected=f"a whole {self.compression} stream",
                ) from error
            if block:
                yield block
            if decoder.eof:
                pending = decoder.unused_data
                decoder = None
        if decoder is not None:
            self.cut = f"the {self.compression} stream is cut short"


def _decoder(compression: str) -> tuple[Callable[[], _Decoder], tuple[type[Exception], ...]]:
    """Return a maker of decoders for one member each, and what they raise on damage."""
    if compression == "gzip":
        return lambda: zlib.decompressobj(31), _FAULTS
    if compression == "bzip2":
        return bz2.BZ2Decompressor, _FAULTS
    if compression == "xz":
        return lzma.LZMADecompressor, _FAULTS
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj, (*_FAULTS, zstandard.ZstdError)
