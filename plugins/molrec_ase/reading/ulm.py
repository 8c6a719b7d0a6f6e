"""ULM files, in which ASE's trajectories are: items of a JSON document each, with arrays behind one another.

Everything a file says of itself is held against its size before it is read, so that a damaged one takes no more memory
than it has bytes. Source: `ase.io.ulm`.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import Part
from molrec_ase.names import ATOM_RESULTS, RESULTS
from molrec_ase.parts import make_part
from molrec_ase.reading.source import PartSource
from molrec_ase.values import from_plain, modern, number_keys, parse_json, plain_dtype
from molrec_convert.errors import FormatError
from molrec_convert.files.json_text import read_json
from molrec_convert.files.regular_files import open_regular, pread_all
from molrec_convert.report import Report

__all__ = ["BreaksOff", "StoredArray", "UlmFile", "open_frames"]

_HEADER = struct.Struct("<8s16sqqq")
_MAGIC = (b"- of Ulm", b"AFFormat")


class BreaksOff(ValueError):
    """The file ends before what it should hold."""


class StoredArray:
    """Where an array stands."""

    def __init__(self, file: UlmFile, place: Any, little_endian: bool) -> None:
        shape, name, offset = place
        self._file = file
        self._shape = tuple(shape)
        if any(type(extent) is not int or extent < 0 for extent in self._shape) or type(offset) is not int:
            raise ValueError(f"an array of shape {shape!r:.60} at {offset!r:.20}")
        dtype = plain_dtype(name)
        self._dtype = dtype.newbyteorder("<" if little_endian else ">")
        size = dtype.itemsize
        for extent in self._shape:
            size *= extent
        self._offset, self._size = offset, size

    def read(self) -> NDArray[Any]:
        """Return its values; `BreaksOff` where the file has not all of them."""
        data = self._file.read(self._offset, self._size)
        return np.frombuffer(data, self._dtype).astype(self._dtype.newbyteorder("=")).reshape(self._shape)


class UlmFile:
    """An open file with `len` items. Raises `FormatError` for what is no such file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._descriptor = open_regular(path)
        try:
            self._size = os.fstat(self._descriptor).st_size
            head = os.pread(self._descriptor, _HEADER.size, 0)
            if len(head) < _HEADER.size or head[:8] not in _MAGIC:
                raise FormatError(path, found="what is no ULM file", expected="a trajectory of ASE")
            _, tag, _, self._count, self._first = _HEADER.unpack(head)
            self.tag = tag.decode("ascii", "replace").rstrip()
            if not (0 <= self._count <= self._size // 8 and 0 <= self._first <= self._size - 8 * self._count):
                found = f"a table of {self._count} items at byte {self._first} in {self._size} bytes"
                raise FormatError(path, found=found, expected="a trajectory of ASE")
        except BaseException:
            os.close(self._descriptor)
            raise

    def __len__(self) -> int:
        return int(self._count)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file; `BreaksOff` where it has fewer."""
        if offset < 0 or size < 0:
            raise ValueError(f"{size} bytes at byte {offset}")
        if offset + size > self._size:
            raise BreaksOff(f"{size} bytes at byte {offset} of {self._size}")
        return pread_all(self._descriptor, size, offset)

    def item(self, number: int) -> dict[str, Any]:
        """Return the document of an item, its arrays as `StoredArray`.

        Raises `BreaksOff` where the file ends before its end, `ValueError` or `TypeError` for what is no item.
        """
        (offset,) = struct.unpack("<q", self.read(self._first + 8 * number, 8))
        (length,) = struct.unpack("<q", self.read(offset, 8))
        document = read_json(self.read(offset + 8, length).decode())
        if not isinstance(document, dict):
            raise TypeError("an item is no JSON object")
        return self._content(document, bool(document.pop("_little_endian", True)))

    def _content(self, document: dict[str, Any], little_endian: bool) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for name, value in document.items():
            if not name.endswith("."):
                content[name] = number_keys(from_plain(value))
            elif not isinstance(value, dict):
                raise TypeError(f"{name!r} is neither an array nor a part of an item")
            elif "ndarray" in value:
                content[name[:-1]] = StoredArray(self, value["ndarray"], little_endian)
            else:
                content[name[:-1]] = self._content(value, little_endian)
        return content


_ARRAYS = {"tags": "tags", "momenta": "momenta", "magmoms": "initial_magmoms", "charges": "initial_charges"}
_RESULTS = ("forces", *ATOM_RESULTS, *RESULTS)


def open_frames(path: Path, report: Report) -> PartSource:
    """Return the frames of a file. FormatError where it is none, or breaks off; whole frames before that are kept."""
    if path.stat().st_size == 0:
        raise FormatError(path, found="an empty file", expected="a trajectory of ASE")
    items = UlmFile(path)
    try:
        if items.tag != "ASE-Trajectory":
            raise FormatError(path, found=f"a ULM file of {items.tag}", expected="a trajectory of ASE")
        count = _whole_frames(path, items, report)
    except BaseException:
        items.close()
        raise

    def make(number: int) -> Part:
        try:
            return _part(items, number, report)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise FormatError(path, f"frame {number}", found=f"a frame that is not ASE's ({_told(error)})") from None

    return PartSource(count, make, path=str(path), close=items.close)


def _told(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _whole_frames(path: Path, items: UlmFile, report: Report) -> int:
    """Return how many frames are whole: of a file that is cut off those before the end."""
    total = count = len(items)
    while count:
        try:
            # what describes an item stands behind its arrays
            items.item(count - 1)
            break
        except BreaksOff:
            count -= 1
        except (ValueError, TypeError, OverflowError):
            break  # whoever reads it is told
    if count < total:
        if count == 0:
            raise FormatError(path, found="a file that breaks off in its first frame", expected=f"{total} frames")
        report.truncated(f"{path}: the file breaks off, of {total} frames {count} are whole")
    report.carried("trajectory", f"{count} frames")
    return count


def _part(items: UlmFile, number: int, report: Report) -> Part:
    frame = items.item(number)
    head = frame if "numbers" in frame else items.item(0)
    arrays = {own: _value(frame[name]) for name, own in _ARRAYS.items() if frame.get(name) is not None}
    masses = head.get("masses")
    if masses is not None:
        arrays["masses"] = _value(masses)
    constraints = _value(head.get("constraints", "[]"))
    calculator, results = None, {}
    if "calculator" in frame:
        own = frame["calculator"]
        results = {name: _value(own[name]) for name in _RESULTS if name in own}
        calculator = (str(own["name"]), _value(own.get("parameters", {})))
    return make_part(
        _value(head["numbers"]),
        _value(frame["positions"]),
        _value(frame.get("cell", [[0.0] * 3] * 3)),
        _value(head["pbc"]),
        report=report,
        arrays=arrays,
        results=results,
        constraints=modern(parse_json(constraints) if isinstance(constraints, str) else constraints),
        calculator=calculator,
        info=_value(frame.get("info") or {}),
    )


def _value(value: Any) -> Any:
    """Return a value of an item, arrays in it read."""
    if isinstance(value, StoredArray):
        return value.read()
    return {name: _value(part) for name, part in value.items()} if isinstance(value, dict) else value
