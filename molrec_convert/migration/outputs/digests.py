"""A set of digests that takes little more memory than the digests do: most of them lie in one sorted array."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["DigestSet", "record_digest"]

_RECENT = 2**16


class DigestSet:
    """Digests of 16 bytes."""

    def __init__(self) -> None:
        # sorted by their halves, as opaque bytes have no order
        self._old: NDArray[np.uint64] = np.zeros((0, 2), np.uint64)
        self._recent: set[bytes] = set()

    def __contains__(self, digest: bytes) -> bool:
        if digest in self._recent:
            return True
        first, second = np.frombuffer(digest, "<u8")
        start = int(np.searchsorted(self._old[:, 0], first, side="left"))
        stop = int(np.searchsorted(self._old[:, 0], first, side="right"))
        return bool((self._old[start:stop, 1] == second).any())

    def __len__(self) -> int:
        return len(self._old) + len(self._recent)

    def add(self, digest: bytes) -> None:
        """One more; an empty one is none."""
        if not digest:
            return
        self._recent.add(digest)
        if len(self._recent) >= _RECENT:
            recent = np.frombuffer(b"".join(self._recent), "<u8").reshape(-1, 2)
            joined = np.concatenate([self._old, recent])
            self._old = joined[np.argsort(joined[:, 0], kind="stable")]
            self._recent = set()

    def extend(self, lists: Iterable[Iterable[bytes]]) -> None:
        """Those of several lists."""
        for digests in lists:
            for digest in digests:
                self.add(digest)


def record_digest(system: bytes | None, frames: Iterable[bytes]) -> bytes:
    """The digest of a record's content: its system and its frames as they are stored."""
    digest = hashlib.blake2b(system or b"", digest_size=16)
    for value in frames:
        digest.update(value)
    return digest.digest()
