"""The declaration of a stored trajectory, with every fault in it, not only the first.

Source: Trajectory, "sequence_schema".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from molrec_convert.inspect.tree.nodes import Node, children_of, read_node
from molrec_convert.inspect.validation.findings import Findings
from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration, Declaration, MetaDeclaration
from molrec_convert.model.names import RESERVED_BLOCKS, RESERVED_COLUMNS, name_fault
from molrec_convert.model.tags import TAGS
from molrec_convert.stores.zarr.v3.metadata import parse_array
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["read_declaration"]


def read_declaration(storage: Storage, node: Node, findings: Findings) -> Declaration:
    """What the trajectory declares, as far as it is in order; worked out from its groups where it declares nothing."""
    schema = node.attributes.get("sequence_schema")
    if schema is None:
        findings.warning(node.key, "has no sequence_schema, the declaration is worked out from its groups")
        schema = _derived(storage, node, findings).to_json()
    try:
        return Declaration.from_json(schema)
    except Exception as error:
        first = error
    declaration = _salvaged(schema, findings)
    findings.raised(node.key, first)
    return declaration


def _salvaged(schema: Any, findings: Findings) -> Declaration:
    """The parts of a faulty schema that stand on their own; each that does not is an error."""
    document = schema if isinstance(schema, dict) else {}
    blocks: dict[str, BlockDeclaration] = {}
    meta: dict[str, MetaDeclaration] = {}
    aligned: dict[str, Any] = {}
    for name, entry in _items(document.get("blocks")):
        if isinstance(entry, dict) and "aligned_with" in entry:
            aligned[name] = entry["aligned_with"]
            entry = {key: value for key, value in entry.items() if key != "aligned_with"}
        with findings.guard(f"trajectory/{name}"):
            blocks.update(Declaration.from_json({"blocks": {name: entry}}).blocks)
    for key, entry in _items(document.get("meta")):
        with findings.guard(f"trajectory/meta/{key}"):
            meta.update(Declaration.from_json({"meta": {key: entry}}).meta)
    for name, target in aligned.items():
        if name in blocks:
            with findings.guard(f"trajectory/{name}"):
                candidate = {**blocks, name: replace(blocks[name], aligned_with=target)}
                Declaration(candidate).check()
                blocks = candidate
    return Declaration(blocks, meta)


def _items(document: Any) -> list[tuple[str, Any]]:
    return list(document.items()) if isinstance(document, dict) else []


def _derived(storage: Storage, node: Node, findings: Findings) -> Declaration:
    blocks: dict[str, BlockDeclaration] = {}
    meta: dict[str, MetaDeclaration] = {}
    for child in children_of(storage, node):
        if child.kind != "group":
            continue
        if child.name == "meta":
            for entry in children_of(storage, child):
                tag = entry.attributes.get("meta_dtype")
                if isinstance(tag, str) and tag in TAGS:
                    meta[entry.name] = MetaDeclaration(tag)
                elif entry.kind == "array":
                    findings.error(entry.key, f"a per-step array has no tag in meta_dtype: found {tag!r:.40}")
        elif child.name not in RESERVED_BLOCKS and name_fault(child.name) is None:
            with findings.guard(child.key):
                blocks[child.name] = _derived_block(storage, child)
    return Declaration(blocks, meta)


def _derived_block(storage: Storage, node: Node) -> BlockDeclaration:
    masks = read_node(storage, node.child("_validity")).folders
    columns = {}
    for child in children_of(storage, node):
        if child.kind == "array" and child.name not in RESERVED_COLUMNS:
            metadata = parse_array(child.document, child.key)
            columns[child.name] = ColumnDeclaration(metadata.dtype, metadata.shape[1:], child.name in masks)
    return BlockDeclaration(columns)
