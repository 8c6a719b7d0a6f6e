"""One value of a collection as text, byte range by byte range: magic, header, padding, every buffer with its values.

Source: Collection and its LMDB file, "Frame bytes"; the tree notation.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

from molrec_convert.errors import UsageError
from molrec_convert.inspect.tree.text import SHOWN, json_lines
from molrec_convert.stores.lmdb.file.keys import key_label, numbered
from molrec_convert.stores.lmdb.file.pages import PageFile
from molrec_convert.stores.lmdb.values.frame_bytes import MAGIC, decode
from molrec_convert.stores.lmdb.values.header_json import from_utf8

__all__ = ["key_named", "value_lines"]

_JSON = " " * 16
_NUMBERED = re.compile(r"([rsf])(\d{1,20})")


def key_named(text: str) -> bytes | None:
    """The key a person means by `f12`, `r0`, `s3`, `ff` or `index`; None for another text."""
    match = _NUMBERED.fullmatch(text)
    if match is not None and int(match[2]) < 2**64:
        return numbered(match[1].encode(), int(match[2]))
    return text.encode() if text in ("ff", "index") else None


def value_lines(path: str | os.PathLike[str], key: bytes) -> Iterator[str]:
    """The value of a key, line by line. `UsageError` where there is none, `ContractError` where it is broken."""
    with PageFile(path) as pages:
        pages.check()
        value = pages.find(key)
    label = key_label(key)
    if value is None:
        raise UsageError(f"{path} has no key {label}")
    yield f"key {label} = {key.hex(' ')}; value {len(value)} B"
    yield ""
    if value[:4] != MAGIC:
        yield from json_lines("", from_utf8(value, label), "")
        return
    frame = decode(value, label)
    size = int.from_bytes(value[4:8], "little")
    start = 8 + size + -size % 8
    yield _line(0, 4, "magic", repr(MAGIC.decode()))
    yield _line(4, 8, "header_length", f"{size} (u32, little-endian)")
    yield _line(8, 8 + size, "header", "UTF-8 JSON:")
    yield from json_lines(_JSON, from_utf8(value[8 : 8 + size], label), _JSON)
    buffers: list[tuple[int, int, str, str]] = []
    for name, block in frame.blocks.items():
        for column, entry in block.columns.items():
            if entry.offset is not None:
                shown = _shown(frame.values(name, column)[:SHOWN].tolist(), entry.shape[0])
                first = start + entry.offset
                buffers.append((first, first + entry.nbytes, f"{name}/{column}", f"{entry.dtype} = {shown}"))
            if entry.validity is not None:
                mask = value[start + entry.validity :][: min(block.count, SHOWN)]
                shown = _shown([bool(flag) for flag in mask], block.count)
                first = start + entry.validity
                buffers.append((first, first + block.count, f"{name}/{column} mask", f"bool = {shown}"))
    width = max([16, *(len(name) + 2 for _, _, name, _ in buffers)])
    end = 8 + size
    for first, last, name, text in [*sorted(buffers), (len(value), len(value), "", "")]:
        if first > end:
            what = "zero" if not any(value[end:first]) else "unused"
            yield _line(end, first, "padding", f"{first - end} {what} byte{'' if first - end == 1 else 's'}", width)
        if text:
            yield _line(first, last, name, text, width)
        end = max(end, last)


def _shown(values: list[object], total: int) -> str:
    text = ", ".join(json.dumps(value) if isinstance(value, (bool, list)) else repr(value) for value in values)
    return f"[{text}{', …' if total > len(values) else ''}]"


def _line(first: int, last: int, name: str, what: str, width: int = 16) -> str:
    return f"{f'[{first}, {last})':<11} {name:<{width}}{what}"
