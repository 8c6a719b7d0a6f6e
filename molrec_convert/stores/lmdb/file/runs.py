"""Values that go into a collection in the order of their numbers, many at a time.

A transaction costs a wait for the disk where a file is durable, and a value by itself a call or two: so both are for
as many values as about 8 MB hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from molrec_convert.stores.lmdb.file.keys import numbered_keys
from molrec_convert.stores.lmdb.file.store import StoreFile

__all__ = ["Runs", "append_runs", "in_runs"]

#: Numbers, ascending, and the values they have; of a bounded size, or one value.
Runs = Iterable[tuple[Sequence[int], list[bytes]]]
_BATCH_BYTES = 8 * 2**20
#: What a value takes in memory beside its bytes: objects, key and pair.
_ITEM_BYTES = 160
_RUN_BYTES, _RUN_VALUES = 2**20, 512


def append_runs(file: StoreFile, *parts: tuple[bytes, Runs]) -> None:
    """Put values under the keys of a prefix and their numbers, which come after all keys that there are."""
    batch: list[tuple[bytes, bytes]] = []
    size = 0
    for prefix, runs in parts:
        for numbers, values in runs:
            batch += zip(numbered_keys(prefix, numbers), values, strict=True)
            size += sum(map(len, values)) + _ITEM_BYTES * len(values)
            if size >= _BATCH_BYTES:
                file.append(batch)
                batch, size = [], 0
    file.append(batch)


def in_runs(items: Iterable[tuple[int, bytes]]) -> Iterator[tuple[list[int], list[bytes]]]:
    """Values that come one by one as runs."""
    numbers: list[int] = []
    values: list[bytes] = []
    size = 0
    for number, value in items:
        numbers.append(number)
        values.append(value)
        size += len(value)
        if size >= _RUN_BYTES or len(values) >= _RUN_VALUES:
            yield numbers, values
            numbers, values, size = [], [], 0
    if values:
        yield numbers, values
