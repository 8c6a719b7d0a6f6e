"""Checks a collection in several files: the manifest, checksums, each part, and that they go together.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

import os

from molrec_convert.inspect.validation.collection import check_collection
from molrec_convert.inspect.validation.findings import Findings, Severity
from molrec_convert.stores.lmdb.manifest import file_checksum, read_manifest
from molrec_convert.stores.lmdb.sharded import ShardedCollection

__all__ = ["check_set"]


def check_set(path: str | os.PathLike[str], findings: Findings) -> None:
    """Everything about a set."""
    with findings.guard("the manifest"):
        manifest = read_manifest(path)
        sound = True
        for part in manifest.parts:
            where = manifest.where(part)
            if not where.is_file():
                findings.error(part.path, "the part is not there")
                sound = False
                continue
            checksum = file_checksum(where)
            if checksum != part.crc32c:
                findings.error(part.path, f"the checksum is {checksum}, by the manifest {part.crc32c}")
            found = Findings()
            with found.guard("the file"):
                check_collection(where, found)
            for item in found.items:
                error = item.severity is Severity.ERROR
                sound = sound and not error
                note = findings.error if error else findings.warning
                note(f"{part.path}: {item.node}", item.message)
        if not sound:
            return
        with ShardedCollection(os.fspath(path), manifest) as collection:
            for number, part in enumerate(manifest.parts):
                with findings.guard(part.path):
                    collection.open_part(number)
            with findings.guard("index"):
                _ = {name: column.values for name, column in collection.index.columns.items()}
