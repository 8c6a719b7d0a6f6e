"""The stores as formats: `.mrec` directories, packed `.mrec.zip` files and `.mrec.lmdb` collections.

They come in through the same door as any other format.
"""

from __future__ import annotations

import os
from pathlib import Path

from molrec_convert.errors import FormatError
from molrec_convert.formats import Capability, Format
from molrec_convert.hookspecs import hookimpl
from molrec_convert.stores.lmdb.options import CollectionOptions
from molrec_convert.stores.options import MrecOptions, StoreOptions

_EXACT = Capability("exact", "exact")
_SECTIONS = (
    "meta", "system", "frame", "trajectory", "forcefield", "observables", "method", "status", "metrics",
)  # fmt: skip
_ALL = dict.fromkeys(_SECTIONS, _EXACT)
_COLLECTION = {
    **dict.fromkeys(("meta", "system", "trajectory", "forcefield"), _EXACT),
    "frame": Capability("none", "becomes a trajectory of one frame"),
}


def sniff_directory(head: bytes, path: Path) -> float:
    """Return a directory that is a Zarr V3 root."""
    return 1.0 if path.is_dir() and (path / "zarr.json").is_file() else 0.0


def sniff_zip(head: bytes, path: Path) -> float:
    """Return a zip file with a `zarr.json` at its root."""
    if not head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return 0.0
    from molrec_convert.files.regular_files import open_regular
    from molrec_convert.stores.zarr.v3.zip_storage import read_entries

    descriptor = open_regular(path)
    try:
        return 1.0 if any(entry.filename == "zarr.json" for entry in read_entries(descriptor, path)[0]) else 0.0
    except FormatError:
        return 0.9 if path.name.endswith(".mrec.zip") else 0.0
    finally:
        os.close(descriptor)


def sniff_lmdb(head: bytes, path: Path) -> float:
    """Return an LMDB file that is a collection, or a set of them; what tells is imported when a file has something to
    tell.
    """
    if path.is_dir():
        return 1.0 if (path / "mrec-set.json").is_file() else 0.0
    if b'"mrec-lmdb-set"' in head[:4096]:
        return 1.0
    from molrec_convert.stores.lmdb.file.pages import sniff_collection

    return sniff_collection(head, path)


@hookimpl
def molrec_formats() -> list[Format]:
    """Return both forms of a stored record, and collections."""
    return [
        Format(
            "mrec",
            "MolRec record",
            ("*.mrec",),
            sniff_directory,
            reads="molrec_convert.stores.zarr.record:read_store",
            writes="molrec_convert.stores.zarr.record:write_record",
            read_options=StoreOptions,
            write_options=MrecOptions,
            carries=_ALL,
            reference="docs/formats.md",
            resumable=True,
        ),
        Format(
            "mrec-zip",
            "Packed MolRec record",
            ("*.mrec.zip",),
            sniff_zip,
            reads="molrec_convert.stores.zarr.record:read_store",
            writes="molrec_convert.stores.zarr.record:write_packed",
            read_options=StoreOptions,
            write_options=MrecOptions,
            carries=_ALL,
            reference="docs/formats.md",
        ),
        Format(
            "mrec-lmdb",
            "MolRec collection in LMDB",
            ("*.mrec.lmdb",),
            sniff_lmdb,
            reads="molrec_convert.stores.lmdb.format:read_collection",
            writes="molrec_convert.stores.lmdb.format:write_collection",
            write_options=CollectionOptions,
            carries=_COLLECTION,
            extra="lmdb",
            reference="docs/collections.md",
            kind="collection",
            predicts="molrec_convert.stores.lmdb.format:predict",
        ),
    ]
