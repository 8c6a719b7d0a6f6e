"""The files of a record as a store of the Zarr library, which reads the layouts that are not like ours.

The library sees what our own readers see: no pipe is waited for, no entry of a zip inflated beyond what it may hold.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import cache
from typing import Any

from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["zarr_store"]


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
