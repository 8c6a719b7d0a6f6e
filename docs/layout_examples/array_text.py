"""Arrays as their files: the metadata in full, and a shard byte range by byte range."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from molrec_convert.inspect.tree.text import json_lines
from molrec_convert.stores.zarr.v3.shards import MISSING

__all__ = ["metadata", "shard", "shard_map", "text_map"]


def metadata(folder: Path, node: str) -> Iterator[str]:
    """The `zarr.json` of a node, broken into lines."""
    yield from json_lines("", json.loads((folder / node / "zarr.json").read_bytes()), "")


def text_map(folder: Path, node: str) -> Iterator[str]:
    """The first chunk of a text column that is compressed with gzip, once decompressed."""
    raw = (folder / node / "c" / "0").read_bytes()
    _checked(raw, 0, len(raw) - 4)
    data = gzip.decompress(raw[:-4])
    yield f"{node}/c/0, decompressed    ({len(data)} B)"
    yield ""
    count = int.from_bytes(data[:4], "little")
    yield _line(0, 4, data[:4].hex(" "), f"{count} texts", 24)
    at = 4
    for _ in range(count):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        text = json.dumps(data[at + 4 : end].decode(), ensure_ascii=False)
        yield _line(at, end, data[at:end].hex(" "), text, 24)
        at = end
    if at != len(data):
        raise ValueError(f"{node}: {len(data) - at} bytes follow the last text")


def shard_map(folder: Path, node: str) -> Iterator[str]:
    """The first shard of an array of one axis of f64 without compression."""
    document, rows, entries = shard(folder, node)
    raw = (folder / node / "c" / "0").read_bytes()
    size = entries.nbytes
    written = [(int(offset), int(length)) for offset, length in entries if length != MISSING]

    yield f"{node}/c/0    ({len(raw)} B)"
    yield ""
    for position, (offset, length) in enumerate(written):
        yield _line(16 * position, 16 * position + 16, f"entry {position}", f"u64le offset {offset}, length {length}")
    rest = f"entries {len(written)} … {len(entries) - 1}"
    yield _line(16 * len(written), size, rest, "2^64-1 twice each: no chunk there, all fill value")
    yield _line(size, size + 4, "crc32c", f"of the index: {_checked(raw, 0, size)}")
    for position, (offset, length) in enumerate(written):
        end = offset + length - 4
        leading = np.frombuffer(raw, "<f8", min(rows, document["shape"][0], 4), offset).tolist()
        what = f"f64[{rows}] = {json.dumps(leading)[:-1]}, …]"
        yield _line(offset, end, f"chunk {position}", what)
        yield _line(end, end + 4, "crc32c", f"of the chunk: {_checked(raw, offset, end)}")


def shard(folder: Path, node: str) -> tuple[dict[str, Any], int, NDArray[np.uint64]]:
    """The metadata of an array, rows of its inner chunks, and the index of its first shard: u64[n, 2]."""
    document = json.loads((folder / node / "zarr.json").read_bytes())
    (sharding,) = document["codecs"]
    outer, inner = (entry["configuration"]["chunk_shape"][0] for entry in (document["chunk_grid"], sharding))
    with open(folder / node / "c" / "0", "rb") as file:
        entries = np.frombuffer(file.read(16 * (outer // inner)), "<u8").reshape(-1, 2)
    if not np.array_equal(entries[:, 0] == MISSING, entries[:, 1] == MISSING):
        raise ValueError(f"{node}: an entry of the index is neither whole nor missing")
    return document, inner, entries


def _checked(raw: bytes, start: int, end: int) -> str:
    """The checksum behind a range of bytes, which has to be right, as it is stored."""
    stored = raw[end : end + 4]
    if int.from_bytes(stored, "little") != google_crc32c.value(raw[start:end]):
        raise ValueError(f"the checksum at byte {end} is wrong")
    return stored.hex(" ")


def _line(first: int, last: int, name: str, what: str, width: int = 18) -> str:
    return f"{f'[{first}, {last})':<16}{name:<{width}}{what}"
