"""The declaration of a stored trajectory that states none: worked out from its groups and arrays.

Source: Trajectory, "sequence_schema".
"""

from __future__ import annotations

from collections.abc import Iterator

from molrec_convert.errors import ContractError
from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration, Declaration, MetaDeclaration
from molrec_convert.model.names import RESERVED_BLOCKS, RESERVED_COLUMNS, name_fault
from molrec_convert.model.tags import TAGS
from molrec_convert.stores.zarr.trajectory.batch import MASKS
from molrec_convert.stores.zarr.v3.metadata import parse_array
from molrec_convert.stores.zarr.v3.storage import Storage, read_document

__all__ = ["TRAJECTORY", "derived_declaration"]

#: Key of the section's group.
TRAJECTORY = "trajectory"


def derived_declaration(storage: Storage) -> Declaration:
    """The declaration of a store that states none, from its groups and arrays."""
    blocks: dict[str, BlockDeclaration] = {}
    meta: dict[str, MetaDeclaration] = {}
    for name in storage.children(TRAJECTORY)[0]:
        document = read_document(storage, f"{TRAJECTORY}/{name}")
        if document is None or document["node_type"] != "group":
            continue
        if name == "meta":
            meta = {key: MetaDeclaration(tag) for key, tag in _derived_meta(storage)}
        elif name not in RESERVED_BLOCKS and name_fault(name) is None:
            blocks[name] = BlockDeclaration(_derived_columns(storage, f"{TRAJECTORY}/{name}"))
    declaration = Declaration(blocks, meta)
    declaration.check()
    return declaration


def _derived_meta(storage: Storage) -> Iterator[tuple[str, str]]:
    for key in storage.children(f"{TRAJECTORY}/meta")[0]:
        node = f"{TRAJECTORY}/meta/{key}"
        document = read_document(storage, node)
        if document is None or document["node_type"] != "array":
            continue
        tag = document["attributes"].get("meta_dtype")
        if not isinstance(tag, str) or tag not in TAGS:
            raise ContractError(node, "a per-step array has no tag in meta_dtype", found=repr(tag)[:60])
        yield key, tag


def _derived_columns(storage: Storage, node: str) -> dict[str, ColumnDeclaration]:
    masks = set(storage.children(f"{node}/{MASKS}")[0])
    columns = {}
    for key in storage.children(node)[0]:
        document = read_document(storage, f"{node}/{key}")
        if key in RESERVED_COLUMNS or document is None or document["node_type"] != "array":
            continue
        metadata = parse_array(document, f"{node}/{key}")
        columns[key] = ColumnDeclaration(metadata.dtype, metadata.shape[1:], nullable=key in masks)
    return columns
