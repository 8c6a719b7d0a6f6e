"""Rows of text to exact doubles and integers, a whole piece at once, by compiled code that lets other threads run.

The loop is `number_rows.wat`, a WebAssembly module of our own, which wasmtime compiles for the machine at hand in some
hundredths of a second. It takes what programs print: values parted by blanks and tabs, numbers of at most 19 digits
with or without an exponent, integers of at most 18, words of at most eight bytes where they are asked for. For all
else (`nan`, `+1`, `.5`, more digits, subnormal numbers, a row of another length) the answer is None, as it is without
wasmtime: the text is left to a parser that knows every form and names what is wrong.

Memory of the module, in bytes: powers of ten as doubles from 0 and as integers from 256, 128 bits of every power of ten
from 1024, the kinds of the columns from 12288, then the text, the columns one after the other, and the pieces of the
text.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fill", "coded", "number_rows", "read_number_rows"]

#: Where text begins in the memory of the module, and where the tables do.
_TEXT, _WIDE, _INTEGERS, _KINDS = 16384, 1024, 256, 12288
_MOST_COLUMNS = _TEXT - _KINDS
_PAGE = 2**16
#: Longest text that is taken, and the least that is worth loading wasmtime for, in one piece or in many.
_LONGEST, _WORTH_LOADING = 2**25, 2**16
_LETTERS = "RIS-"
_DTYPES = {"R": np.float64, "I": np.int64}
#: Different words in a column that are looked for one by one.
_FEW = 24

_lock = threading.Lock()
_loaded: list[Any] = []
#: Instances nobody is using.
_idle: list[_Instance] = []
#: Bytes of the texts that were too short to load anything for.
_short = 0


Fill = Callable[[NDArray[np.uint8]], bool]


def read_number_rows(text: bytes, rows: int, kinds: str) -> list[Any] | None:
    """The columns of `rows` lines of text (the last may lack its end); None where another parser has to decide.

    `kinds` has a letter for every column: `R` gives float64[rows], the doubles nearest to the text, `I` int64[rows],
    `S` codes int32[rows] and the words (bytes) they count in, `-` None (that something is there is certain).
    """
    data = np.frombuffer(text, np.uint8)

    def fill(memory: NDArray[np.uint8]) -> bool:
        memory[:] = data
        return True

    with number_rows(fill, len(text), np.array([[rows, 0, len(text)]]), kinds) as columns:
        if columns is None:
            return None
        return [column.copy() if isinstance(column, np.ndarray) else column for column in columns]


@contextmanager
def number_rows(fill: Fill, size: int, pieces: NDArray[np.int64], kinds: str) -> Iterator[list[Any] | None]:
    """The columns, as of `read_number_rows`, of rows in some pieces of a text. They may be used in the block only.

    `fill` puts the `size` bytes of the text where it is told to, and says whether they were there. `pieces` int64[n,3]
    ascends: how many rows there are up to the end of each piece, where it begins in the text, and where it has to end.
    """
    rows = int(pieces[-1, 0]) if len(pieces) else 0
    instance = None
    global _short
    loaded = bool(_loaded) or _short + size >= _WORTH_LOADING or "wasmtime" in sys.modules
    if not loaded:
        _short += size
    if loaded and rows and kinds and size <= _LONGEST and len(kinds) <= _MOST_COLUMNS:
        instance = _take()
    if instance is None:
        yield None
        return
    try:
        values = instance.read(fill, size, pieces, kinds)
        yield None if values is None else _columns(values, rows, kinds)
    finally:
        _idle.append(instance)


def _columns(values: NDArray[np.uint64], rows: int, kinds: str) -> list[Any]:
    columns: list[Any] = []
    place = 0
    for kind in kinds:
        if kind == "-":
            columns.append(None)
            continue
        column = values[place : place + rows]
        columns.append(_words(column) if kind == "S" else column.view(_DTYPES[kind]))
        place += rows
    return columns


class _Instance:
    """The module with a memory of its own; one thread at a time may use it."""

    def __init__(self, engine: Any, module: Any) -> None:
        import wasmtime

        self._store = wasmtime.Store(engine)
        exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        self._memory, self._rows = exports["memory"], exports["rows"]
        self._room = np.zeros(0, np.uint8)
        self._reserve(2**21)
        self._put(0, np.array([float(10**power) for power in range(23)]))
        self._put(_INTEGERS, np.array([10**power for power in range(9)], dtype=np.uint64))
        self._put(_WIDE, _wide_powers())

    def read(self, fill: Fill, length: int, pieces: NDArray[np.int64], kinds: str) -> NDArray[np.uint64] | None:
        """The columns that are asked for, one after the other, eight bytes a value; None where a row is not plain.

        They are part of the memory of the module.
        """
        rows = int(pieces[-1, 0])
        size = rows * (len(kinds) - kinds.count("-"))
        # what is read at the end of the text reaches beyond it
        out = (_TEXT + length + 16) // 8 * 8
        table = out + 8 * size
        self._reserve(table + 12 * len(pieces))
        end = _TEXT + length
        if not fill(self._room[_TEXT:end]):
            return None
        places = pieces + np.array([0, _TEXT, _TEXT])
        if places[-1, 2] == end and self._room[end - 1] != ord("\n"):
            self._room[end] = ord("\n")
            end += 1
            places[-1, 2] = end
        self._room[end] = 0
        self._put(_KINDS, np.array([_LETTERS.index(kind) for kind in kinds], dtype=np.uint8))
        self._put(table, places.astype(np.int32).reshape(-1))
        if self._rows(self._store, table, rows, len(kinds), out) != rows:
            return None
        return self._room[out:table].view(np.uint64)

    def _reserve(self, size: int) -> None:
        if size > len(self._room):
            self._memory.grow(self._store, (size - len(self._room)) // _PAGE + 1)
            self._room = np.frombuffer(self._memory.get_buffer_ptr(self._store), dtype=np.uint8)

    def _put(self, place: int, values: NDArray[Any]) -> None:
        self._room[place : place + values.nbytes] = values.view(np.uint8)


def _take() -> _Instance | None:
    """An instance to use; None where there is no wasmtime, or it cannot have what it needs here."""
    try:
        return _idle.pop()
    except IndexError:
        pass
    with _lock:
        if not _loaded:
            _loaded.append(_load())
    if _loaded[0] is None:
        return None
    try:
        return _Instance(*_loaded[0])
    except Exception:  # no more address space, say: every cause means to do without
        return None


def _load() -> tuple[Any, Any] | None:
    try:
        import wasmtime

        config = wasmtime.Config()
        config.parallel_compilation = False  # of threads that compile none would be left after a fork
        engine = wasmtime.Engine(config)
        source = files("molrec_convert").joinpath("number_rows.wat").read_text(encoding="utf-8")
        return engine, wasmtime.Module(engine, source)
    except Exception:  # not installed, no such processor, no right to make code executable
        return None


@atexit.register
def _let_go() -> None:
    """Free what wasmtime holds while its own functions are still there."""
    _idle.clear()
    _loaded[:] = [None]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _wide_powers() -> NDArray[np.uint64]:
    """The first 128 bits of 10^-342 to 10^308, high and low half in turn: cut off, of negative powers rounded up."""
    halves = []
    for power in range(-342, 309):
        five = 5 ** abs(power)
        if power < 0:
            bits = (five - 1).bit_length()
            five = (1 << (bits + 127 if power >= -27 else 2 * bits + 128)) // five + 1
        shift = 128 - five.bit_length()
        five = five << shift if shift >= 0 else five >> -shift
        halves += [five >> 64, five & (2**64 - 1)]
    return np.array(halves, dtype=np.uint64)


def _words(values: NDArray[np.uint64]) -> tuple[NDArray[np.int32], list[bytes]]:
    """A code for each row, and the words the codes count in, from the bytes of each word as a number."""
    codes, found = coded(values)
    return codes, [value.to_bytes(8, "little").rstrip(b"\0") for value in found]


def coded(values: NDArray[np.uint64]) -> tuple[NDArray[np.int32], list[int]]:
    """A code int32[n] for each of `values`, and the values the codes count in: few, as the words of a column are."""
    codes = np.empty(len(values), np.int32)
    left = np.ones(len(values), np.bool_)
    found: list[int] = []
    while left.any():
        if len(found) == _FEW:
            unique, inverse = np.unique(values, return_inverse=True)
            return inverse.astype(np.int32), unique.tolist()
        value = values[int(np.argmax(left))]
        same = values == value
        codes[same] = len(found)
        left &= ~same
        found.append(int(value))
    return codes, found
