"""One text, or many joined, as one buffer: what rows are read from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert._kernel import address

__all__ = ["Texts"]

_ONE = np.zeros(1, np.int64)


class Texts:
    """A buffer of bytes (mapped, decompressed or joined) and where each text in it begins.

    `data` is what was given, `view` uint8[size] the same memory, `starts` int64[n] ascends from 0.
    """

    __slots__ = ("data", "handle", "size", "starts", "view")

    def __init__(self, data: Any, starts: NDArray[np.int64] | None = None) -> None:
        self.data = data
        self.size = len(data)
        self.view: NDArray[np.uint8] = np.frombuffer(data, np.uint8) if self.size else np.zeros(0, np.uint8)
        #: What a function of the kernel takes as the place of the first byte.
        self.handle: Any = data if isinstance(data, bytes) else address(self.view)
        self.starts = _ONE if starts is None else starts

    @classmethod
    def join(cls, parts: Sequence[bytes]) -> Texts:
        """Return several texts as one buffer; each but the last should end with its last line."""
        starts = np.zeros(len(parts), np.int64)
        np.cumsum([len(part) for part in parts[:-1]], out=starts[1:])
        return cls(b"".join(parts), starts)

    def piece(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to before `stop`."""
        return (
            bytes(self.data[start:stop]) if not isinstance(self.data, np.ndarray) else self.data[start:stop].tobytes()
        )

    def which(self, offset: int) -> int:
        """Return the number of the text that has a byte."""
        return int(np.searchsorted(self.starts, offset, side="right")) - 1

    def line(self, offset: int) -> int:
        """Return the number of the line of a byte, counted from 1 in its own text."""
        start = int(self.starts[self.which(offset)])
        return 1 + int(np.count_nonzero(self.view[start:offset] == 10))
