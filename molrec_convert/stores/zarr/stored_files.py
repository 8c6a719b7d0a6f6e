"""Which chunk files of an array there must be, so that one that is gone is told from one that never was.

A chunk of nothing but fill values has no file, so a file that is gone reads as zeros. What tells them apart is a
folder `c` that holds nothing, which no writer leaves, and, of an array with more files than one, a list of them in
`.stored` beside its `zarr.json`, which readers pass over as every file of such a name. The list never names a file
that is not there: it is written after the files and before any is removed. Of a packed record the comment of the zip
says how many files there are, and a checksum of their names.
Source: Zarr V3 binding, "Writer's pipelines", "Commit protocol", "Packed form".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator

from molrec_convert.errors import ContractError
from molrec_convert.stores.zarr.codecs import crc32c
from molrec_convert.stores.zarr.metadata import ArrayMetadata, parse_array
from molrec_convert.stores.zarr.storage import Storage, read_document

__all__ = [
    "STORED",
    "list_stored",
    "listed",
    "lost_files",
    "missing_files",
    "packed_comment",
    "packed_fault",
    "stored_ordinals",
    "stored_text",
]

STORED = ".stored"
_CHUNK_FILE = re.compile(r"(.+)/c/(\d+)(?:/0)*")


def stored_text(ordinals: Iterable[int]) -> bytes:
    """Return the bytes of a list of files, by their ordinals on the leading axis."""
    return json.dumps(sorted(ordinals)).encode()


def listed(raw: bytes | None) -> set[int]:
    """Return the ordinals a list names; none where there is none, or it cannot be read."""
    try:
        found = json.loads(raw or b"[]")
    except ValueError:
        return set()
    return {each for each in found if type(each) is int and each >= 0} if isinstance(found, list) else set()


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
    trailing = (0,) * max(0, len(metadata.shape) - 1)
    gone = listed(storage.read(f"{key}/{STORED}")) - present
    if not gone and not present and metadata.prefixed and "c" in storage.children(key)[0]:
        return ["c/"]
    return [metadata.key(*((each, *trailing) if metadata.shape else ())) for each in sorted(gone)]


def lost_files(storage: Storage, key: str = "") -> Iterator[str]:
    """Return the keys of chunk files that are gone from the arrays at `key` and below."""
    document = read_document(storage, key)
    if document is not None and document["node_type"] == "array":
        try:
            metadata = parse_array(document, key)
        except ContractError:
            return  # content of no section, in a layout this version does not know
        names = [each[len(key) + 1 :] for each in storage.keys(key)]
        if metadata.shape and 0 not in metadata.shape:
            found = missing_files(storage, key, metadata, stored_ordinals(metadata, names))
            yield from (f"{key}/{name}" for name in found)
        return
    for name in storage.children(key)[0]:
        yield from lost_files(storage, f"{key}/{name}" if key else name)


def list_stored(root: str | os.PathLike[str], names: Iterable[str]) -> None:
    """Write the lists of files of a record's arrays, of which `names` are all files, into its directory."""
    found: dict[str, set[int]] = {}
    for match in filter(None, map(_CHUNK_FILE.fullmatch, names)):
        found.setdefault(match[1], set()).add(int(match[2]))
    for folder, ordinals in found.items():
        if len(ordinals) > 1:
            with open(os.path.join(root, folder, STORED), "wb") as file:
                file.write(stored_text(ordinals))


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
    return (
        None
        if stated["names_crc32c"] == _checksum(every)
        else "the zip has files of other names than it was packed with"
    )


def _checksum(names: list[str]) -> str:
    return crc32c("\n".join(names).encode()).hex()
