"""The index of a collection, read column by column: numbers at once, texts when someone asks for them.

The texts of an index of a million records are most of its bytes, and they stand in the header, so it is walked entry by
entry and the lists of texts are passed over. A header in any other form than our writer's is parsed whole.
Source: Collection and its LMDB file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.collection.index import INDEX_COLUMNS, check_index
from molrec_convert.model.dtypes import DTYPES
from molrec_convert.model.frame import Block
from molrec_convert.stores.lmdb.values.decode import MAGIC, decode
from molrec_convert.stores.lmdb.values.layout import BlockLayout, ColumnLayout, from_utf8, padding, parse_column
from molrec_convert.stores.lmdb.values.stored_frame import StoredBlock

__all__ = ["read_index"]

_NODE = "index"
_BLOCK = "records"
_START = re.compile(rb'\{"blocks":\{"records":\{"count":(0|[1-9]\d{0,17}),"structural_shape":null,"columns":\{')
_NAME = re.compile(rb'("(?:[^"\\]|\\.)*"):(?=\{)')
#: A text column up to its texts, and any other column whole.
_TEXTS = re.compile(rb'\{"dtype":"string","shape":\[\d{1,18}\],"values":\[')
_NUMBERS = re.compile(rb'\{(?!"dtype":"string")[^{}]{0,4096}\}')
#: The end of a list of texts is told by what follows it. A quote within the list may be followed by `]` too, when it
#: begins a text or is escaped; but no key can stand there, for between two texts there is a comma and nothing else.
_TEXTS_END = re.compile(rb'"\](?=(?:,"validity":\d{1,18})?\}(?:,"(?:[^"\\]|\\.)*":\{"dtype":"|\}\}\},"meta":\{\}\}\Z))')
_REST = re.compile(rb'(?:,"validity":(\d{1,18}))?\}')


class IndexBytes:
    """Where the columns of an index lie in its value, which `fetch` gives in place for as long as it is looked at."""

    def __init__(self, fetch: Callable[[], NDArray[np.uint8]]) -> None:
        self._fetch = fetch
        value = fetch()
        size = int.from_bytes(bytes(value[4:8]), "little")
        self._base = 8 + size + padding(size)
        if len(value) < 8 or bytes(value[:4]) != MAGIC or self._base > len(value):
            decode(value, _NODE)
        self.count = 0
        self.columns: dict[str, ColumnLayout] = {}
        #: Name of a text column → where its list of texts is in the value.
        self._texts: dict[str, tuple[int, int]] = {}
        if not self._walk(value, 8 + size):
            self._parse(value)
        self._check_extents(len(value))

    def values(self, _: str, name: str) -> NDArray[Any]:
        """Return a column, copied."""
        entry = self.columns[name]
        if entry.dtype == "string":
            return self._text_values(name, entry)
        dtype = DTYPES[entry.dtype].numpy
        if not entry.nbytes:
            return np.zeros(entry.shape, dtype)
        assert entry.offset is not None
        part = self._fetch()[self._base + entry.offset :][: entry.nbytes]
        if entry.dtype == "bool" and part.max() > 1:
            raise ContractError(f"{_NODE}/{name}", "a bool is one byte, 0 or 1", found=str(part.max()))
        return np.array(part).view(dtype).reshape(entry.shape)

    def arrays(self, _: str) -> dict[str, NDArray[Any]]:
        """Return nothing is made before it is asked for."""
        return {}

    def mask(self, _: str, name: str) -> NDArray[np.bool_] | None:
        """Return the mask of a column, copied; None when every record has a value."""
        position = self.columns[name].validity
        if position is None or not self.count:
            return None
        part = self._fetch()[self._base + position :][: self.count]
        if part.max() > 1:
            raise ContractError(f"{_NODE}/_validity/{name}", "a bool is one byte, 0 or 1", found=str(part.max()))
        mask = np.array(part).view(np.bool_)
        return None if mask.all() else mask

    def _text_values(self, name: str, entry: ColumnLayout) -> NDArray[Any]:
        if name in self._texts:
            start, stop = self._texts[name]
            texts = from_utf8(bytes(self._fetch()[start:stop]), f"{_NODE}/{name}")
            document = {"dtype": "string", "shape": list(entry.shape), "values": texts}
            entry = parse_column(document, name, self.count, f"{_NODE}/{name}")
        return np.array(entry.values, dtype=DTYPES["string"].numpy).reshape(entry.shape)

    def _walk(self, value: NDArray[np.uint8], end: int) -> bool:
        """Find the columns without parsing texts; False when the header is not in our writer's form."""
        header = value.data[:end]
        start = _START.match(header, 8)
        if start is None:
            return False
        self.count, position = int(start[1]), start.end()
        while bytes(header[position : position + 1]) != b"}":
            named = _NAME.match(header, position)
            if named is None:
                return False
            name = from_utf8(named[1], _NODE)
            found = self._walk_column(header, name, named.end())
            if found is None or name in self.columns:
                return False
            self.columns[name], position = found
            if bytes(header[position : position + 1]) == b",":
                position += 1
        return bytes(header[position:]) == b'}}},"meta":{}}'

    def _walk_column(self, header: memoryview, name: str, position: int) -> tuple[ColumnLayout, int] | None:
        numbers = _NUMBERS.match(header, position)
        if numbers is not None:
            document = from_utf8(numbers[0], f"{_NODE}/{name}")
            return parse_column(document, name, self.count, f"{_NODE}/{name}"), numbers.end()
        texts = _TEXTS.match(header, position)
        if texts is None:
            return None
        start = texts.end() - 1
        stop = start + 2 if bytes(header[start + 1 : start + 2]) == b"]" else _end_of_texts(header, start)
        rest = None if stop is None else _REST.match(header, stop)
        if stop is None or rest is None:
            return None
        self._texts[name] = start, stop
        document = {"dtype": "string", "shape": [self.count], "values": []}
        document["shape"] = from_utf8(texts[0][texts[0].index(b"[") : texts[0].index(b"]") + 1], f"{_NODE}/{name}")
        if document["shape"] != [self.count]:
            raise ContractError(
                f"{_NODE}/{name}",
                "a column has one row per record",
                found=str(document["shape"]),
                expected=f"[{self.count}]",
            )
        mask = None if rest[1] is None else int(rest[1])
        if mask is not None and mask % 8:
            raise ContractError(f"{_NODE}/{name}: validity", "is not a multiple of 8", found=str(mask))
        parse_column({"dtype": "string", "shape": [0], "values": []}, name, 0, f"{_NODE}/{name}")
        return ColumnLayout("string", (self.count,), validity=mask), rest.end()

    def _parse(self, value: NDArray[np.uint8]) -> None:
        self.columns, self._texts = {}, {}
        frame = decode(value, _NODE)
        if list(frame.blocks) != [_BLOCK]:
            raise ContractError(_NODE, "the index has one block, records", found=", ".join(frame.blocks) or "none")
        layout = frame.blocks[_BLOCK]
        self.count, self.columns = layout.count, dict(layout.columns)

    def _check_extents(self, total: int) -> None:
        for name, entry in self.columns.items():
            ends = [0 if entry.offset is None else entry.offset + entry.nbytes]
            if entry.validity is not None:
                ends.append(entry.validity + self.count)
            if max(ends) > total - self._base:
                raise ContractError(f"{_NODE}/{name}", "a buffer reaches past the value", found=f"{max(ends)} bytes")


def read_index(fetch: Callable[[], NDArray[np.uint8]], n_records: int, n_frames: int) -> Block:
    """Return the index, its own columns checked: their dtypes, and that they add up to the counts."""
    source = IndexBytes(fetch)
    # numbers first: a fault among them shows before a text is read
    columns = {**{n: c for n, c in source.columns.items() if n in INDEX_COLUMNS}, **source.columns}
    index = StoredBlock(source, _BLOCK, BlockLayout(source.count, columns))
    check_index(index, n_records, n_frames, _NODE)
    return index


def _end_of_texts(header: memoryview, start: int) -> int | None:
    """Return where a list of texts ends."""
    position = start
    while True:
        found = _TEXTS_END.search(header, position)
        if found is None:
            return None
        before = found.start() - 1
        while header[before] == ord("\\"):
            before -= 1
        if (found.start() - 1 - before) % 2 == 0:
            return found.end()
        position = found.start() + 1
