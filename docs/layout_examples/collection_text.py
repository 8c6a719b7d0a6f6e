"""A collection's file as text: every key with what its value holds, and single values byte range by byte range.

The bytes are taken apart here by the rules the page states, not by the package's reader.
"""

from __future__ import annotations

import json
import math
import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

from molrec_convert.model.dtypes import DTYPES
from molrec_convert.tree.text import WIDTH, json_lines

__all__ = ["byte_map", "contents", "listing"]

_INDENT, _HANGING, _JSON = " " * 4, " " * 8, " " * 16


def contents(path: Path) -> dict[bytes, bytes]:
    """Every key and value, in the file's order."""
    with (
        lmdb.open(os.fspath(path), subdir=False, lock=False, readonly=True) as environment,
        environment.begin() as transaction,
    ):
        return {bytes(key): bytes(value) for key, value in transaction.cursor()}


def listing(path: Path) -> Iterator[str]:
    """All keys in the file's order, each with what its value holds."""
    yield f"{path.name}    (one file; keys in LMDB's byte order)"
    yield ""
    for key, value in contents(path).items():
        yield f"{_label(key):<16}key bytes {key.hex(' ')}"
        if value[:4] == b"MRF1":
            for text in _facts(key, value):
                yield from textwrap.wrap(
                    text,
                    WIDTH,
                    initial_indent=_INDENT,
                    subsequent_indent=_HANGING,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
        else:
            yield from json_lines(_INDENT, json.loads(value), _INDENT)


def byte_map(path: Path, key: bytes) -> Iterator[str]:
    """One value of frame bytes: magic, length, header, padding, and every buffer with its values."""
    value = contents(path)[key]
    size, header, start = _split(value)
    yield f"key {_label(key)} = {key.hex(' ')}; value {len(value)} B"
    yield ""
    yield _line(0, 4, "magic", repr(value[:4].decode()))
    yield _line(4, 8, "header_length", f"{size} (u32, little-endian)")
    yield _line(8, 8 + size, "header", "UTF-8 JSON:")
    yield from json_lines(_JSON, header, _JSON)
    end, buffers = 8 + size, list(_buffers(header, start))
    width = max([16, *(len(name) + 2 for _, _, name, _, _ in buffers)])
    for first, last, name, dtype, count in [*buffers, (len(value), len(value), "", "", 0)]:
        if first > end:
            if any(value[end:first]):
                raise ValueError(f"bytes {end} to {first} are no padding")
            yield _line(end, first, "padding", f"{first - end} zero byte{'s' if first - end > 1 else ''}", width)
        if dtype:
            shown = _json(np.frombuffer(value, DTYPES[dtype].numpy, count, first).tolist())
            yield _line(first, last, name, f"{dtype} = {shown}", width)
        end = last


def _label(key: bytes) -> str:
    return key.decode() if len(key) != 9 else f"{key[:1].decode()} ‖ u64be({int.from_bytes(key[1:], 'big')})"


def _split(value: bytes) -> tuple[int, dict[str, Any], int]:
    """Length of the header, the header, where the payload starts."""
    size = int.from_bytes(value[4:8], "little")
    return size, json.loads(value[8 : 8 + size]), 8 + size + -size % 8


def _facts(key: bytes, value: bytes) -> Iterator[str]:
    """What a value of frame bytes holds, one fact a line: sizes, step and meta, every block."""
    size, header, start = _split(value)
    yield f"MRF1 · header {size} B · pad {start - size - 8} B · payload {len(value) - start} B"
    told = [f"step {header['step']}"] if "step" in header else []
    if header["meta"]:
        told.append(f"meta keys {', '.join(header['meta'])}" if key == b"ff" else f"meta {_json(header['meta'])}")
    if "meta_types" in header:
        told.append(f"meta_types {_json(header['meta_types'])}")
    if told:
        yield " · ".join(told)
    for name, block in header["blocks"].items():
        yield f"{name}[{block['count']}]: {'; '.join(_columns(block['columns']))}"
    if not header["blocks"]:
        yield "no blocks: nothing changed since the previous frame"


def _columns(columns: Mapping[str, Any]) -> Iterator[str]:
    strings = [name for name, column in columns.items() if column["dtype"] == "string"]
    buffers = [
        f"{name} {column['dtype']} @{column['offset']}"
        + (f" (validity @{column['validity']})" if "validity" in column else "")
        for name, column in columns.items()
        if column["dtype"] != "string"
    ]
    if strings:
        yield f"strings {', '.join(strings)}"
    if buffers:
        yield f"buffers {', '.join(buffers)}"


def _buffers(header: Mapping[str, Any], start: int) -> Iterator[tuple[int, int, str, str, int]]:
    """First and last byte, name, dtype and number of values of every buffer, in the payload's order."""
    for block_name, block in header["blocks"].items():
        for name, column in block["columns"].items():
            count = math.prod(column["shape"])
            if "offset" in column:
                first = start + column["offset"]
                size = count * DTYPES[column["dtype"]].itemsize
                yield first, first + size, f"{block_name}/{name}", column["dtype"], count
            if "validity" in column:
                first = start + column["validity"]
                yield first, first + block["count"], f"{block_name}/{name} mask", "bool", block["count"]


def _line(first: int, last: int, name: str, what: str, width: int = 16) -> str:
    return f"{f'[{first}, {last})':<12}{name:<{width}}{what}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
