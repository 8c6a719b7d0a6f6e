"""The manifest of a collection in several files: its parts in order, with counts and checksums.

    NAME.mrec.lmdb/mrec-set.json      the manifest
    NAME.mrec.lmdb/part-00000.mrec.lmdb, …

A part is a complete collection; all have one declaration, document and force field. A part is named by its path from
the manifest's folder, so that it may lie elsewhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import google_crc32c

from molrec_convert.errors import ContractError, FormatError, MissingInputError, UnsupportedError
from molrec_convert.files.disk import replace_file
from molrec_convert.files.json_text import read_json

__all__ = [
    "MANIFEST",
    "Manifest",
    "Part",
    "file_checksum",
    "files_of",
    "is_set",
    "manifest_path",
    "manifest_text",
    "part_name",
    "read_manifest",
    "save_manifest",
]

MANIFEST = "mrec-set.json"
SET_LAYOUT, SET_VERSION = "mrec-lmdb-set", 1
_PIECE = 8 * 2**20
#: A manifest is read whole: one that is longer than this has another purpose.
_LONGEST = 2**28
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Part:
    """One file of a set: its path from the manifest's folder, counts, bytes, and CRC-32C in hexadecimal."""

    path: str
    n_records: int
    n_frames: int
    bytes: int
    crc32c: str


@dataclass(frozen=True)
class Manifest:
    """All parts of a set, in the order of their records; `folder` is where the manifest lies."""

    folder: Path
    parts: tuple[Part, ...]

    def where(self, part: Part) -> Path:
        """Return the file of a part."""
        return Path(os.path.normpath(self.folder / part.path))

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.bytes for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as it is stored."""
        return {
            "layout": SET_LAYOUT,
            "layout_version": SET_VERSION,
            "n_records": sum(part.n_records for part in self.parts),
            "n_frames": sum(part.n_frames for part in self.parts),
            "parts": [asdict(part) for part in self.parts],
        }


def part_name(number: int) -> str:
    """Return the name of a part's file."""
    return f"part-{number:05d}.mrec.lmdb"


def manifest_path(path: str | os.PathLike[str]) -> Path:
    """Return the manifest a path stands for: itself, or that in the directory."""
    where = Path(os.path.abspath(path))
    return where / MANIFEST if where.is_dir() else where


def is_set(path: str | os.PathLike[str]) -> bool:
    """True if a path is a set of collections: a directory with a manifest, or a manifest."""
    where = Path(path)
    if where.is_dir():
        return (where / MANIFEST).is_file()
    if not where.is_file():
        return False
    with open(where, "rb") as file:
        return is_manifest(file.read(4096))


def is_manifest(head: bytes) -> bool:
    """True if a file that begins with these bytes is a manifest."""
    return head.lstrip()[:1] == b"{" and f'"{SET_LAYOUT}"'.encode() in head[:4096]


def file_checksum(path: str | os.PathLike[str]) -> str:
    """CRC-32C of a file, eight hexadecimal digits."""
    value = 0
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            value = google_crc32c.extend(value, piece)
    return f"{value:08x}"


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Return the manifest at a path, or in the directory at a path.

    Raises `MissingInputError`, `FormatError` where it is no JSON, `ContractError` where it breaks a rule,
    `UnsupportedError` where it is of a newer version.
    """
    where = manifest_path(path)
    if not where.exists():
        raise MissingInputError(path)
    if where.stat().st_size > _LONGEST:
        raise FormatError(where, found=f"{where.stat().st_size} bytes", expected="a manifest of a set")
    try:
        document = read_json(where.read_bytes().decode())
    except ValueError as error:
        raise FormatError(where, found=f"no JSON ({error})", expected="a manifest of a set") from None
    if not isinstance(document, dict) or document.get("layout") != SET_LAYOUT:
        raise ContractError(where.name, "the layout is not a set's")
    version = document.get("layout_version")
    if type(version) is not int or version < 1:
        raise ContractError(where.name, "the layout has no version", found=repr(version)[:60])
    if version > SET_VERSION:
        raise UnsupportedError(f"{where} has layout version {version}: this version reads up to {SET_VERSION}")
    entries = document.get("parts")
    if not isinstance(entries, list):
        raise ContractError(f"{where.name}: parts", "is not a list")
    manifest = Manifest(
        where.parent, tuple(_part(entry, f"{where.name}: parts[{n}]") for n, entry in enumerate(entries))
    )
    if not manifest.parts:
        raise ContractError(f"{where.name}: parts", "a set has at least one part")
    for key, value in manifest.to_json().items():
        if key.startswith("n_") and document.get(key) != value:
            found = repr(document.get(key))[:60]
            raise ContractError(f"{where.name}: {key}", "the parts do not add up", found=found, expected=str(value))
    return manifest


def files_of(path: Path) -> list[Path]:
    """Return a source and, of a set, the files it consists of: what is made of it must replace none of them."""
    if not is_set(path):
        return [path]
    manifest = read_manifest(path)
    return [path, manifest_path(path), *(manifest.where(part) for part in manifest.parts)]


def save_manifest(folder: Path, parts: Sequence[Part]) -> None:
    """Write the manifest of a set into its folder, in one step."""
    replace_file(folder / MANIFEST, manifest_text(folder, parts))


def manifest_text(folder: Path, parts: Sequence[Part]) -> bytes:
    """Return the manifest of parts, whose paths are those from `folder`."""
    text = json.dumps(Manifest(folder, tuple(parts)).to_json(), ensure_ascii=False, indent=1)
    return f"{text}\n".encode()


def _part(entry: Any, node: str) -> Part:
    if not isinstance(entry, dict):
        raise ContractError(node, "is not a JSON object", found=type(entry).__name__)
    path, checksum = entry.get("path"), entry.get("crc32c")
    if not isinstance(path, str) or not 0 < len(path) < _LONGEST_PATH or "\0" in path:
        raise ContractError(f"{node}.path", "is not a path", found=repr(path)[:60])
    if not isinstance(checksum, str) or len(checksum) != 8 or set(checksum) - set("0123456789abcdef"):
        raise ContractError(f"{node}.crc32c", "is not eight hexadecimal digits", found=repr(checksum)[:60])
    counts = {}
    for key in ("n_records", "n_frames", "bytes"):
        count = entry.get(key)
        if type(count) is not int or not 0 <= count < 2**62:
            raise ContractError(f"{node}.{key}", "is not a count", found=repr(count)[:60])
        counts[key] = count
    return Part(path, counts["n_records"], counts["n_frames"], counts["bytes"], checksum)
