"""The `data` of a row: bytes as version 9 of a database has them, text as the versions before.

Bytes 0-7 are the offset of a JSON text (int64, little-endian); arrays stand between one after another and appear in the
text as `{"__ndarray__": [shape, dtype, offset]}`. Source: `ase.db.core.object_to_bytes`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from molrec_ase.plain import parse_json, plain_dtype
from molrec_convert.files.json_text import read_json

__all__ = ["read_data", "write_data"]


def read_data(content: bytes | str | None) -> Any:
    """The value; None where there is none. ValueError for bytes that are no data."""
    if content is None or content == "":
        return None
    if isinstance(content, str):
        return parse_json(content)
    offset = int(np.frombuffer(content[:8], "<i8")[0])
    if not 8 <= offset <= len(content):
        raise ValueError(f"its text begins at byte {offset} of {len(content)}")
    return _decoded(read_json(content[offset:]), content)


def write_data(value: Any) -> bytes:
    """The bytes of a value."""
    parts = [b""]
    text = json.dumps(_encoded(value, parts, [8]), separators=(",", ":")).encode()
    parts[0] = np.array(8 + sum(map(len, parts)), "<i8").tobytes()
    return b"".join([*parts, text])


def _decoded(document: Any, content: bytes) -> Any:
    if isinstance(document, list):
        return [_decoded(item, content) for item in document]
    if not isinstance(document, dict):
        return document
    if "__complex__" in document:
        return complex(*document["__complex__"])
    if "__ndarray__" in document:
        shape, name, offset = document["__ndarray__"]
        dtype = plain_dtype(name)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(content[offset : offset + size], dtype).reshape(shape)
    return {key: _decoded(item, content) for key, item in document.items()}


def _encoded(value: Any, parts: list[bytes], end: list[int]) -> Any:
    if isinstance(value, dict):
        return {key: _encoded(item, parts, end) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encoded(item, parts, end) for item in value]
    if isinstance(value, np.ndarray):
        raw = np.asarray(value, value.dtype.newbyteorder("<")).tobytes()
        parts.append(raw)
        end[0] += len(raw)
        return {"__ndarray__": [list(value.shape), value.dtype.name, end[0] - len(raw)]}
    if isinstance(value, complex):
        return {"__complex__": [value.real, value.imag]}
    return value.item() if isinstance(value, np.generic) else value
