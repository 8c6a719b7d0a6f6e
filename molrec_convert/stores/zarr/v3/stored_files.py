"""Which chunk files of an array there must be, so that one that is gone is told from one that never was.

A chunk of nothing but fill values has no file, so a file that is gone reads as zeros. What tells them apart is a
folder `c` that holds nothing, which no writer leaves, and, of an array that has other files, the attribute
`empty_chunks`: the ordinals of those it never had, left out where there are none. Of a packed record the comment of
the zip says how many files there are, and a checksum of their names.
Source: Zarr V3 binding, "Writer's pipelines", "Packed form".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from molrec_convert.errors import ContractError
from molrec_convert.stores.zarr.v3.codecs import crc32c
from molrec_convert.stores.zarr.v3.metadata import ArrayMetadata, parse_array
from molrec_convert.stores.zarr.v3.storage import Storage, read_document

__all__ = ["leaves_no_sign", "lost_files", "missing_files", "packed_comment", "packed_fault", "stored_ordinals"]

#: So many times the files that are there are counted at most.
_MANY = 1000


def stored_ordinals(metadata: ArrayMetadata, names: Iterable[str]) -> set[int]:
    """Return the leading ordinals of the chunk files among names below an array, `c/0/0` or `0.0`."""
    found: set[int] = set()
    for name in names:
        parts = name.replace(".", "/").split("/") if metadata.separator == "." else name.split("/")
        if metadata.prefixed:
            if parts[0] != "c":
                continue
            parts = parts[1:]
        first = parts[0] if parts else "0"
        if first.isascii() and first.isdigit() and len(first) < 19:
            found.add(int(first))
    return found


def missing_files(storage: Storage, key: str, metadata: ArrayMetadata, present: set[int]) -> list[str]:
    """Return the names below the array at `key` of chunk files that were there, of which `present` are."""
    if not present and not metadata.empty_chunks:
        return ["c/"] if metadata.prefixed and "c" in storage.children(key)[0] else []
    if not metadata.direct or not metadata.shape:
        return []  # one file, or files along other axes
    count = -(-metadata.shape[0] // metadata.chunk_shape[0])
    if count > _MANY * (len(present) + len(metadata.empty_chunks)):
        return [f"all but {len(present)} of {count}"]
    trailing = (0,) * (len(metadata.shape) - 1)
    gone = set(range(count)) - present - metadata.empty_chunks
    return [metadata.key(each, *trailing) for each in sorted(gone)]


def leaves_no_sign(storage: Storage) -> bool:
    """True if another program wrote the record: none is known to say which chunk files are missing by right."""
    document = read_document(storage, "meta")
    creator = None if document is None else document["attributes"].get("creator")
    return isinstance(creator, dict) and creator.get("name") != "molrec-convert"


def lost_files(storage: Storage) -> Iterator[str]:
    """Return the keys of chunk files that are gone from a record."""
    yield from _lost(storage, "", certain=leaves_no_sign(storage))


def _lost(storage: Storage, key: str, *, certain: bool) -> Iterator[str]:
    document = read_document(storage, key)
    if document is not None and document["node_type"] == "array":
        try:
            metadata = parse_array(document, key)
        except ContractError:
            return  # content of no section, in a layout this version does not know
        names = [each[len(key) + 1 :] for each in storage.keys(key)]
        if metadata.shape and 0 not in metadata.shape:
            found = missing_files(storage, key, metadata, stored_ordinals(metadata, names))
            yield from (f"{key}/{name}" for name in found if name == "c/" or not certain)
        return
    for name in storage.children(key)[0]:
        yield from _lost(storage, f"{key}/{name}" if key else name, certain=certain)


def packed_comment(names: Iterable[str]) -> bytes:
    """Return the comment of a zip that has a file of each of these names."""
    every = sorted(names)
    return json.dumps({"files": len(every), "names_crc32c": _checksum(every)}).encode()


def packed_fault(comment: bytes, names: Iterable[str]) -> str | None:
    """Return what tells that a zip has not the files it was packed with; None where it has, or does not say."""
    try:
        stated = json.loads(comment)
    except ValueError:
        return None
    if not isinstance(stated, dict) or type(stated.get("files")) is not int or "names_crc32c" not in stated:
        return None
    every = sorted(names)
    if len(every) != stated["files"]:
        return f"the zip has {len(every)} of the {stated['files']} files it was packed with"
    if stated["names_crc32c"] != _checksum(every):
        return "the zip has files of other names than it was packed with"
    return None


def _checksum(names: list[str]) -> str:
    return crc32c("\n".join(names).encode()).hex()
