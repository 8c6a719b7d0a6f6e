"""The keys of a collection's file as text: each with what its value holds, as the tree shows the nodes of a record.

The file is looked at page by page and never mapped, and of a value no more than its header is read. What cannot be read
is shown as what it is. Source: the tree notation; Collection and its LMDB file.
"""

from __future__ import annotations

import itertools
import json
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from molrec_convert.errors import MolrecError, UsageError
from molrec_convert.inspect.tree.text import SHOWN, WIDTH, json_lines, plain, value_lines
from molrec_convert.stores.lmdb.file.keys import (
    CHECKSUMS,
    FORCEFIELD,
    FRAME,
    INDEX,
    META,
    RECORD,
    SYSTEM,
    is_known,
    key_label,
    numbered,
)
from molrec_convert.stores.lmdb.file.pages import PageFile, StoredValue
from molrec_convert.stores.lmdb.manifest import MANIFEST, is_set, read_manifest
from molrec_convert.stores.lmdb.reader import open_collection
from molrec_convert.stores.lmdb.sharded import ShardedCollection
from molrec_convert.stores.lmdb.values.layout import from_utf8

__all__ = ["collection_lines", "is_collection", "is_set", "key_lines", "key_overview", "set_key_lines", "set_lines"]

_INDENT, _HANGING = " " * 4, " " * 8
_LABEL = 16
#: Headers longer than this are not parsed to be shown.
_LONGEST = 2**24
#: What of a collection a section of a record is.
_SECTIONS = {
    "meta": (META, RECORD),
    "forcefield": (FORCEFIELD,),
    "system": (SYSTEM,),
    "trajectory": (FRAME,),
}
_MEANINGS = {
    FRAME: "the update at each frame",
    FORCEFIELD: "the force field",
    INDEX: "one row per record",
    CHECKSUMS: "the checksums of all values",
    META: "the collection's document",
    RECORD: "the meta document of each record",
    SYSTEM: "the system of each record",
}


def is_collection(path: str | os.PathLike[str]) -> bool:
    """True if a path is an LMDB file, which is shown by its keys."""
    from molrec_convert.stores.lmdb.file.pages import is_lmdb

    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return is_lmdb(file.read(64)) or os.fspath(path).endswith(".mrec.lmdb")


def collection_lines(
    path: str | os.PathLike[str], sections: Sequence[str] = (), *, records: Iterable[int] | None = None
) -> Iterator[str]:
    """Yield every key of a collection in the file's order, of those that are numbered the first six of each letter.

    `sections` restricts it to what a collection has of them, `records` to what those records consist of. Raises
    `FormatError` for a file that is no sound LMDB file.
    """
    missing = [section for section in sections if section not in _SECTIONS]
    if missing:
        known = f"{', '.join(_SECTIONS)}, and the keys index, ff, and r, s or f with a number"
        raise UsageError(f"a collection has no section {missing[0]!r}; it has {known}")
    wanted = {key for section in sections for key in _SECTIONS[section]}
    with PageFile(path) as pages:
        pages.check()
        yield from _head(path)
        if records is None:
            groups: Iterator[tuple[bytes, Iterator[tuple[bytes, StoredValue]]]] = (
                (letter, group) for letter, group in itertools.groupby(pages.items(), lambda item: _letter(item[0]))
            )
        else:
            groups = _of_records(path, pages, records)
        for letter, group in groups:
            if wanted and letter not in wanted:
                # the pages between are passed over by reading on
                continue
            if letter == CHECKSUMS:
                continue
            for name, value in itertools.islice(group, SHOWN if len(letter) == 1 and letter in _MEANINGS else None):
                yield from _entry(name, value)
            rest = sum(1 for _ in group)
            if rest:
                yield f"{letter.decode()} ‖ …{'':<{_LABEL - 5}}{rest:,} more"


def key_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield all keys of a file, each with the bytes of its value."""
    with PageFile(path) as pages:
        pages.check()
        yield from _head(path)
        for name, value in pages.items():
            yield f"{key_label(name):<{_LABEL * 2}}{value.size} B"


def key_overview(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield how many keys of each kind a file has, and the bytes of their values."""
    found: dict[bytes, list[int]] = {}
    with PageFile(path) as pages:
        pages.check()
        for name, value in pages.items():
            entry = found.setdefault(_letter(name), [0, 0])
            entry[0] += 1
            entry[1] += value.size
    yield from _head(path)
    for letter, (count, size) in found.items():
        label = f"{letter.decode()} ‖ u64be" if len(letter) == 1 and letter in _MEANINGS else key_label(letter)
        meaning = _MEANINGS.get(letter, "this version has no meaning for it")
        yield f"{label:<{_LABEL}}{count:>12,} key{' ' if count == 1 else 's'} {size:>16,} B   {meaning}"


def _head(path: str | os.PathLike[str]) -> Iterator[str]:
    yield f"{plain(os.path.basename(os.path.abspath(path)))}    (one file; keys in LMDB's byte order)"
    yield ""


def _letter(key: bytes) -> bytes:
    """Return what a key is one of: its letter when it is numbered, else itself."""
    return key[:1] if len(key) == 9 and is_known(key) else key


def _of_records(
    path: str | os.PathLike[str], pages: PageFile, records: Iterable[int]
) -> Iterator[tuple[bytes, Iterator[tuple[bytes, StoredValue]]]]:
    """Yield the keys some records consist of, by letter."""
    chosen = sorted(records)
    with open_collection(path) as collection:
        first, count = collection.index["first_frame"], collection.index["n_frames"]
        frames = [range(int(first[record]), int(first[record]) + int(count[record])) for record in chosen]
    for letter, numbers in ((FRAME, itertools.chain(*frames)), (RECORD, chosen), (SYSTEM, chosen)):
        yield letter, _values(pages, letter, numbers)


def _values(pages: PageFile, letter: bytes, numbers: Iterable[int]) -> Iterator[tuple[bytes, StoredValue]]:
    for number in numbers:
        name = numbered(letter, number)
        found = next(pages.items(name), None)
        if found is not None and found[0] == name:
            yield found


def _entry(key: bytes, value: StoredValue) -> Iterator[str]:
    label = key_label(key)
    yield f"{label:<{_LABEL - 1}} key bytes {key.hex(' ')}"
    if key != META and _letter(key) != RECORD and (is_known(key) or value.read(4) == b"MRF1"):
        facts = list(_facts(key, value))
        for text in facts:
            yield from textwrap.wrap(
                text,
                WIDTH,
                initial_indent=_INDENT,
                subsequent_indent=_HANGING,
                break_long_words=False,
                break_on_hyphens=False,
            )
        return
    try:
        document = from_utf8(value.read(), key_label(key)) if value.size <= _LONGEST else None
    except MolrecError as error:
        if is_known(key):
            yield f"{_INDENT}({error})"
            return
        document = None
    if document is None and value.read(4) != b"null":
        yield f"{_INDENT}{value.size} B"
        return
    yield from json_lines(_INDENT, document, _INDENT)


def _facts(key: bytes, value: StoredValue) -> Iterator[str]:
    """Yield what a value of frame bytes holds, one fact a line: sizes, step and meta, every block."""
    start = value.read(8)
    size = int.from_bytes(start[4:8], "little")
    pad = -size % 8
    if start[:4] != b"MRF1" or len(start) < 8 or 8 + size + pad > value.size:
        yield f"({value.size} B that are no frame bytes)"
        return
    yield f"MRF1 · header {size} B · pad {pad} B · payload {value.size - 8 - size - pad} B"
    if size > _LONGEST:
        return
    try:
        header = from_utf8(value.read(8 + size)[8:], key_label(key))
        yield from _header_facts(key, header)
    except (MolrecError, AttributeError, KeyError, TypeError) as error:
        yield f"(a header that breaks a rule: {error})"


def _header_facts(key: bytes, header: Mapping[str, Any]) -> Iterator[str]:
    told = [f"{name} {_json(header[name])}" for name in ("step", "time") if name in header]
    meta = header["meta"]
    if meta:
        told.append(f"meta keys {', '.join(meta)}" if key == FORCEFIELD else f"meta {_json(meta)}")
    told += [f"{name} {_json(header[name])}" for name in ("meta_types", "box") if name in header]
    known = ("blocks", "meta", "meta_types", "step", "time", "box")
    told += [f"{plain(name)} {_json(header[name])}" for name in header if name not in known]
    if told:
        yield " · ".join(told)
    for name, block in header["blocks"].items():
        parts = list(_columns(block["columns"]))
        parts += [f"{plain(k)} {_json(v)}" for k, v in block.items() if k not in ("count", "columns") and v is not None]
        yield f"{plain(name)}[{block['count']}]: {'; '.join(parts)}".rstrip(": ")
    if not header["blocks"]:
        first = key == numbered(FRAME, 0) or _letter(key) != FRAME
        yield "no blocks" if first else "no blocks: nothing changed since the previous frame"


def _columns(columns: Mapping[str, Any]) -> Iterator[str]:
    strings = [plain(name) for name, column in columns.items() if column["dtype"] == "string"]
    buffers = []
    for name, column in columns.items():
        if column["dtype"] != "string":
            trailing = "".join(f"[{n}]" for n in column["shape"][1:])
            mask = f" (validity @{column['validity']})" if "validity" in column else ""
            buffers.append(f"{plain(name)} {column['dtype']}{trailing} @{column['offset']}{mask}")
    if strings:
        yield f"strings {', '.join(strings)}"
    if buffers:
        yield f"buffers {', '.join(buffers)}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def set_lines(
    path: str | os.PathLike[str], sections: Sequence[str] = (), *, records: Sequence[int] | None = None
) -> Iterator[str]:
    """Yield the parts, each with its counts, bytes and checksum; with `records` what these consist of, part by part."""
    manifest = read_manifest(path)
    if records is not None:
        yield from _record_lines(ShardedCollection(os.fspath(path), manifest), sections, records)
        return
    if sections:
        first = manifest.where(manifest.parts[0])
        raise UsageError(f"{path} is a set of files: name one of them, like {first}, or --record N")
    yield f"{plain(os.path.basename(os.path.abspath(path)))}    (a set of files)"
    yield ""
    document = manifest.to_json()
    yield f"{MANIFEST if os.path.isdir(path) else 'the manifest'}"
    counts = f"n_records {document['n_records']:,} · n_frames {document['n_frames']:,} · {manifest.nbytes:,} B"
    yield f"    {document['layout']} {document['layout_version']} · {counts}"
    width = max(len(plain(part.path)) for part in manifest.parts)
    for part in manifest.parts:
        counts = f"{part.n_records:>11,} records {part.n_frames:>11,} frames {part.bytes:>15,} B"
        yield f"{plain(part.path):<{width}} {counts}   crc32c {part.crc32c}"


def set_key_lines(path: str | os.PathLike[str], key: bytes) -> Iterator[str]:
    """Yield one value, byte range by byte range; numbers are counted through all files. The index is each file's
    own.
    """
    collection = ShardedCollection(os.fspath(path), read_manifest(path))
    with collection:
        letter, number = key[:1], int.from_bytes(key[1:], "big")
        where, name = 0, key
        if len(key) == 9 and letter in (RECORD, SYSTEM, FRAME):
            counts = [p.n_frames if letter == FRAME else p.n_records for p in collection.manifest.parts]
            while where < len(counts) - 1 and number >= counts[where]:
                number -= counts[where]
                where += 1
            name = numbered(letter, number)
        part = collection.manifest.where(collection.manifest.parts[where])
    yield from value_lines(part, name)


def _record_lines(collection: ShardedCollection, sections: Sequence[str], records: Sequence[int]) -> Iterator[str]:
    with collection:
        found: dict[str, list[int]] = {}
        for record in sorted(records):
            part, number = collection.place(record)
            found.setdefault(part.path, []).append(number)
    for count, (where, numbers) in enumerate(found.items()):
        yield from [""] if count else []
        yield from collection_lines(where, sections, records=numbers)
