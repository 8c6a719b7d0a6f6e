"""What completes a file whose records are copied from others: force field, index, and last of all `meta`.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from molrec_convert.model.declaration import Declaration
from molrec_convert.model.frame import Block
from molrec_convert.stores.lmdb.file.checksums import Sums, checksum, encode_checksums
from molrec_convert.stores.lmdb.file.keys import CHECKSUMS, FORCEFIELD, INDEX, LAYOUT, LAYOUT_VERSION, META
from molrec_convert.stores.lmdb.values.frame_writing import encode_tables
from molrec_convert.stores.lmdb.values.header_json import to_json

__all__ = ["collection_meta", "last_values"]


def collection_meta(
    document: Mapping[str, Any], declaration: Declaration, index: Block, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """What stands under the key `meta`."""
    return {
        "layout": LAYOUT,
        "layout_version": LAYOUT_VERSION,
        "collection": document,
        "sequence_schema": declaration.to_json(),
        "n_records": index.count,
        "n_frames": int(index["n_frames"].sum()),
        **extra,
    }


def last_values(
    sums: Mapping[bytes, Sums], meta: Mapping[str, Any], index: Block, forcefield: bytes | None
) -> list[tuple[bytes, bytes]]:
    """Return keys and values in the order they are put; `sums` are those of the numbered values, `forcefield` stored."""
    values = [] if forcefield is None else [(FORCEFIELD, forcefield)]
    values += [(INDEX, encode_tables({}, {"records": index}, "index")), (META, to_json(meta).encode())]
    values.insert(-1, (CHECKSUMS, encode_checksums(sums, {key.decode(): checksum(value) for key, value in values})))
    return values
