"""What completes a file: force field, index, checksums of all values, and last of all `meta`.

The CRC-32C of every value is kept under a key of its own beside `index`.

| in the value of `index.crc32c` | |
|---|---|
| block `records` | columns `r`, `s`: u32, of each record's meta document and system, 0 without one |
| block `frames` | column `f`: u32, of each frame |
| meta | `index`, `ff`, `meta`: of these values |

Frame bytes as `index` is. A reader that does not know the key passes over it; a collection without it is none the less
whole, only a flipped bit in it shows nowhere. Sums are taken as values are put, and go along where values do.
Source: Collection and its LMDB file.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Block
from molrec_convert.stores.lmdb.file.keys import (
    CHECKSUMS,
    FORCEFIELD,
    FRAME,
    INDEX,
    LAYOUT,
    LAYOUT_VERSION,
    META,
    RECORD,
    SYSTEM,
    key_text,
    numbered,
)
from molrec_convert.stores.lmdb.values.decode import Buffer, decode
from molrec_convert.stores.lmdb.values.encode import encode_tables
from molrec_convert.stores.lmdb.values.layout import to_json

__all__ = [
    "Checksums",
    "GrowingSums",
    "checksum",
    "collection_meta",
    "encode_checksums",
    "last_values",
    "read_checksums",
    "refuse_damaged",
]

Sums = NDArray[np.uint32]
_VALUE = itemgetter(1)
_COLUMNS = {RECORD: ("records", "r"), SYSTEM: ("records", "s"), FRAME: ("frames", "f")}


def checksum(value: Buffer | bytes) -> int:
    """Return the CRC-32C of a value."""
    return int(google_crc32c.value(value if isinstance(value, bytes) else bytes(value)))


class Checksums:
    """The checksums of a complete collection: by letter an array of them, by name those of the other values."""

    def __init__(self, numbered_sums: Mapping[bytes, Sums], named: Mapping[str, int]) -> None:
        self.of, self.named = dict(numbered_sums), dict(named)

    def check(self, letter: bytes, numbers: slice | NDArray[np.int64], values: Sequence[bytes | None]) -> None:
        """Refuse values of one letter (None: there is none), the first that does not match its checksum."""
        expected = self.of[letter][numbers]
        found = np.fromiter(map(google_crc32c.value, (value or b"" for value in values)), np.uint32, len(values))
        wrong = np.flatnonzero(found != expected)
        if len(wrong):
            first = int(wrong[0])
            number = numbers.start + first if isinstance(numbers, slice) else int(numbers[first])
            refuse_damaged(numbered(letter, number))


class GrowingSums:
    """The checksums of the values of a file as they are put, each letter's in the order of its numbers."""

    def __init__(self) -> None:
        self._sums = {letter: array("I") for letter in _COLUMNS}
        #: The number of the first frame whose checksum is known: those before it were put by somebody else.
        self.known_from = 0

    def add(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        """Take numbered keys and their values in the order of the keys."""
        values = list(map(google_crc32c.value, map(_VALUE, items)))
        first, last = items[0][0], items[-1][0]
        if first[:1] == last[:1] and first[:1] in self._sums:
            self._extend(first[:1], items, values)
            return
        start = 0
        for position in range(1, len(items) + 1):
            letter = items[start][0][:1]
            if position == len(items) or items[position][0][:1] != letter:
                if letter in self._sums:
                    self._extend(letter, items[start:position], values[start:position])
                start = position

    def _extend(self, letter: bytes, items: Sequence[tuple[bytes, bytes]], values: list[int]) -> None:
        known = self._sums[letter]
        first, last = (int.from_bytes(items[place][0][1:], "big") for place in (0, -1))
        if letter == FRAME and not known:
            self.known_from = first
        begin = first - (self.known_from if letter == FRAME else 0)
        known.extend([0] * (begin - len(known)))
        if last - first + 1 == len(values):
            known.extend(values)
            return
        known.extend([0] * (last - first + 1))
        for (key, _), value in zip(items, values, strict=True):
            known[int.from_bytes(key[1:], "big")] = value

    def cut(self, key: bytes) -> None:
        """Forget `key` and all keys after it."""
        for letter, known in self._sums.items():
            number = int.from_bytes(key[1:], "big") if letter == key[:1] else 0 if letter > key[:1] else None
            if number is not None:
                del known[max(0, number - (self.known_from if letter == FRAME else 0)) :]

    def complete(self, records: int, frames: int, before: Callable[[int], Iterable[bytes]]) -> dict[bytes, Sums]:
        """Return the arrays of so many records and frames; `before` gives the values of the first so many frames.

        It is asked for those that were there when the file was opened.
        """
        unknown = self.known_from if self._sums[FRAME] else frames
        earlier = array("I", map(google_crc32c.value, before(unknown) if unknown else ()))
        counts = {RECORD: records, SYSTEM: records, FRAME: frames}
        made = {}
        for letter, known in self._sums.items():
            values = np.zeros(counts[letter], np.uint32)
            found = np.frombuffer(earlier + known if letter == FRAME else known, np.uint32)
            values[: len(found)] = found[: len(values)]
            made[letter] = values
        return made


def encode_checksums(sums: Mapping[bytes, Sums], named: Mapping[str, int]) -> bytes:
    """Return the value of the key."""
    tables: dict[str, dict[str, Sums]] = {}
    for letter, (block, column) in _COLUMNS.items():
        tables.setdefault(block, {})[column] = sums[letter]
    blocks = {name: Block(columns, count=len(next(iter(columns.values())))) for name, columns in tables.items()}
    return encode_tables(dict(named), blocks, CHECKSUMS.decode())


def read_checksums(value: Buffer | bytes, records: int, frames: int) -> Checksums:
    """Return what the value of the key says. `ContractError` where it is not of so many records and frames."""
    node = CHECKSUMS.decode()
    frame = decode(value, node)
    counts = {RECORD: records, SYSTEM: records, FRAME: frames}
    sums: dict[bytes, Sums] = {}
    for letter, (block, column) in _COLUMNS.items():
        stored = frame.blocks.get(block)
        layout = None if stored is None else stored.columns.get(column)
        if layout is None or layout.dtype != "u32" or len(layout.shape) != 1:
            raise ContractError(f"{node}/{block}/{column}", "there is no column of u32")
        sums[letter] = np.array(frame.values(block, column), np.uint32)
        if len(sums[letter]) != counts[letter]:
            raise ContractError(
                f"{node}/{block}", "not one row each", found=str(len(sums[letter])), expected=str(counts[letter])
            )
    named = {name: number for name, number in frame.document.items() if type(number) is int}
    return Checksums(sums, named)


def refuse_damaged(key: bytes) -> None:
    """Raise the error of a value that is not what it was."""
    raise ContractError(key_text(key), "the value is damaged: it does not match its checksum")


def collection_meta(
    document: Mapping[str, Any], declaration: Declaration, index: Block, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what stands under the key `meta`."""
    return {
        "layout": LAYOUT,
        "layout_version": LAYOUT_VERSION,
        "collection": document,
        "sequence_schema": declaration.to_json(),
        "n_records": index.count,
        "n_frames": int(index["n_frames"].sum()),
        **extra,
    }


def last_values(
    sums: Mapping[bytes, Sums], meta: Mapping[str, Any], index: Block, forcefield: bytes | None
) -> list[tuple[bytes, bytes]]:
    """Return the last keys and values in their order; `sums` are those of numbered values, `forcefield` is stored."""
    values = [] if forcefield is None else [(FORCEFIELD, forcefield)]
    values += [(INDEX, encode_tables({}, {"records": index}, "index")), (META, to_json(meta).encode())]
    values.insert(-1, (CHECKSUMS, encode_checksums(sums, {key.decode(): checksum(value) for key, value in values})))
    return values
