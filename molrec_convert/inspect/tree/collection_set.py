"""The tree of a collection in several files: the manifest, a line for each part; or the keys of some records.

Source: the tree notation; Collection and its LMDB file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from molrec_convert.errors import UsageError
from molrec_convert.inspect.tree.collection import collection_lines
from molrec_convert.inspect.tree.text import plain
from molrec_convert.inspect.tree.value import value_lines
from molrec_convert.stores.lmdb.file.keys import FRAME, RECORD, SYSTEM, numbered
from molrec_convert.stores.lmdb.manifest import MANIFEST, is_set, read_manifest
from molrec_convert.stores.lmdb.sharded import ShardedCollection

__all__ = ["is_set", "set_key_lines", "set_lines"]


def set_lines(
    path: str | os.PathLike[str], sections: Sequence[str] = (), *, records: Sequence[int] | None = None
) -> Iterator[str]:
    """The parts, each with its counts, bytes and checksum; with `records` what these consist of, part by part."""
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
    """One value, byte range by byte range; numbers are counted through all files. The index is each file's own."""
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
