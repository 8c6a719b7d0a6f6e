"""Where the text of a dump comes from: a plain file read by position, text in memory, or a stream read forward.

All three answer `read(start, stop)` in offsets of the decompressed text. A stream answers in ascending order of
`start`; going back means beginning again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.text.compression import Decompressed, compression_of, unreadable

__all__ = ["MEMORY_BYTES", "FileSource", "LineReader", "Source", "StreamSource", "TextSource", "open_source"]

#: Compressed text up to this length is kept once it is decompressed.
MEMORY_BYTES = 2**23
#: A line longer than this is no text.
_LONGEST_LINE = 2**24


class Source:
    """The text of one file. `size` is its length, None where only reading to the end tells."""

    #: Whether ranges have to be read in ascending order, by one thread.
    sequential = False
    #: What makes rows of a text dump of the text, where it is another kind of dump.
    translate: Callable[[bytes], bytes] | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size: int | None = None
        #: How a compressed stream ends before its end, once that is known.
        self.cut: str | None = None

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to `stop`, fewer where the text ends before."""
        raise NotImplementedError

    def read_into(self, start: int, memory: NDArray[np.uint8]) -> int:
        """Put the bytes from `start` on into memory; how many there were."""
        text = self.read(start, start + len(memory))
        memory[: len(text)] = np.frombuffer(text, np.uint8)
        return len(text)

    def again(self) -> Source:
        """Return a source of the same text for another pass."""
        return self

    def parts(self) -> list[Source]:
        """Return the files the text comes from."""
        return [self]

    def place(self, line: int) -> tuple[Path, int]:
        """Return the file a line of the text stands in, and its number there."""
        return self.path, line

    def close(self) -> None:
        """Let go of the file."""


class FileSource(Source):
    """A plain file. Its length is that at the time of opening: a run may still append to it.

    With `hold` the file stays open between reads; without, thousands of files can be sources at once.
    """

    def __init__(self, path: Path, *, hold: bool = True) -> None:
        super().__init__(path)
        self._file = _open(path)
        self.size = os.fstat(self._file).st_size
        if not hold:
            self.close()

    def read(self, start: int, stop: int) -> bytes:
        """See `Source.read`; any thread may call it."""
        stop = min(stop, self.size or 0)
        if stop <= start:
            return b""
        held = self._file
        file = _open(self.path) if held < 0 else held
        try:
            data = os.pread(file, stop - start, start)
            while len(data) < stop - start:
                more = os.pread(file, stop - start - len(data), start + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise unreadable(self.path, error) from error
        finally:
            if held < 0:
                os.close(file)
        return data

    def read_into(self, start: int, memory: NDArray[np.uint8]) -> int:
        """See `Source.read_into`; any thread may call it."""
        if self._file < 0:
            return super().read_into(start, memory)
        room, done = memory[: max(0, (self.size or 0) - start)], 0
        try:
            while done < len(room):
                more = os.preadv(self._file, [room[done:].data], start + done)
                if not more:
                    break
                done += more
        except OSError as error:
            raise unreadable(self.path, error) from error
        return done

    def close(self) -> None:
        """See `Source.close`."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            self.close()


class TextSource(Source):
    """Text in memory."""

    def __init__(self, path: Path, text: bytes, cut: str | None = None) -> None:
        super().__init__(path)
        self.text, self.size, self.cut = text, len(text), cut

    def read(self, start: int, stop: int) -> bytes:
        """See `Source.read`; any thread may call it."""
        return self.text[start:stop]


class StreamSource(Source):
    """A compressed file, decompressed as it is read. It keeps what lies less than `MARGIN` before the last `start`."""

    MARGIN = 2**23

    sequential = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._base, self._kept = 0, bytearray()
        self._stream = Decompressed(path)
        self._blocks: Iterator[bytes] | None = self._stream.blocks()

    def read(self, start: int, stop: int) -> bytes:
        """See `Source.read`; one thread at a time."""
        if start < self._base:
            self._stream.close()
            self._base, self._kept = 0, bytearray()
            self._stream = Decompressed(self.path)
            self._blocks = self._stream.blocks()
        self._forget(start - self.MARGIN)
        while self._base + len(self._kept) < stop and self._blocks is not None:
            block = next(self._blocks, None)
            if block is None:
                self._blocks = None
                self.size = self._base + len(self._kept)
                self.cut = self._stream.cut
                break
            self._kept += block
            self._forget(start - self.MARGIN)
        begin = start - self._base
        return bytes(memoryview(self._kept)[begin : begin + stop - start]) if begin <= len(self._kept) else b""

    def again(self) -> Source:
        """See `Source.again`."""
        source = StreamSource(self.path)
        source.size, source.cut, source.translate = self.size, self.cut, self.translate
        return source

    def close(self) -> None:
        """See `Source.close`."""
        self._stream.close()
        self._blocks = iter(())

    def _forget(self, start: int) -> None:
        """Drop kept bytes before `start`."""
        if start > self._base:
            gone = min(start - self._base, len(self._kept))
            del self._kept[:gone]
            self._base += gone


def open_source(path: Path, *, hold: bool = True) -> Source:
    """Return the source for a file: plain by position; compressed from memory if its text is short, else a stream."""
    file = FileSource(path, hold=hold)
    if compression_of(file.read(0, 8)) is None:
        return file
    file.close()
    stream = StreamSource(path)
    text = stream.read(0, MEMORY_BYTES + 1)
    if len(text) <= MEMORY_BYTES:
        stream.close()
        return TextSource(path, text, stream.cut)
    stream.close()
    return StreamSource(path)


class LineReader:
    """Lines of a source from an offset on. `line` is the number of the line that comes next, `offset` its place."""

    def __init__(self, source: Source, offset: int = 0, line: int = 1, block: int = 2**16) -> None:
        self.source, self.offset, self.line = source, offset, line
        self._block = block
        self._base, self._text = offset, b""

    def peek(self) -> bytes | None:
        """Return the next line with its end, as far as there is one; None at the end of the text."""
        while True:
            at = self.offset - self._base
            end = self._text.find(b"\n", at)
            if end >= 0:
                return self._text[at : end + 1]
            known = self._base + len(self._text)
            more = self.source.read(known, known + self._block) if len(self._text) - at < _LONGEST_LINE else b""
            if not more:
                return self._text[at:] or None
            self._text = self._text[at:] + more
            self._base = self.offset

    def skip(self, offset: int, lines: int) -> None:
        """Go on at `offset`, `lines` lines further on."""
        self.offset, self.line = offset, self.line + lines
        if offset - self._base > len(self._text):
            self._base, self._text = offset, b""

    def next(self) -> bytes | None:
        """Return the next line, stepped over."""
        line = self.peek()
        if line is not None:
            self.offset += len(line)
            self.line += 1
        return line


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise unreadable(path, error) from error
