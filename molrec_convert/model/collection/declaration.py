"""The one declaration all records of a collection follow, and the document that says what their numbers are in.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from molrec_convert.errors import ContractError
from molrec_convert.model.declaration import (
    NO_FILL,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    MetaDeclaration,
)
from molrec_convert.model.record import check_version
from molrec_convert.model.tags import canonical_json, check_json

__all__ = [
    "MIGRATION",
    "check_collection_document",
    "check_member_declaration",
    "collection_document",
    "derive_declaration",
    "joined_block",
    "joined_migrations",
    "key_fits",
    "part_document",
]

#: Index column that says which of a collection's migrations made a record, where there were several.
MIGRATION = "migration"

#: Stamped unless the document states its own.
_VERSION = 1


def collection_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document as it is stored: with its version first; refused without `units`."""
    stamped = {"molrec_version": document.get("molrec_version", _VERSION), **document}
    check_collection_document(stamped, "collection")
    return stamped


def part_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return what some records of a collection say of themselves: where it was migrated, that they are not all that
    was.
    """
    migration = document.get("migration")
    if not isinstance(migration, dict) or migration.get("part") is True:
        return document
    return {**document, "migration": {**migration, "part": True}}


def joined_migrations(documents: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[list[int]]] | None:
    """Return what several collections that become one say of how they were made, and the numbers of each one's parts.

    The first is the `migration` of the result: `{"parts": [...]}`, each way once. The second gives for every document
    the numbers of its own parts among these. None where all say the same, or none says anything.
    """
    stated = [document.get("migration") for document in documents]
    ways: dict[str, int] = {}
    parts: list[Any] = []
    numbers = []
    for migration in stated:
        own = migration.get("parts") if isinstance(migration, dict) else None
        part = {"part": True} if isinstance(migration, dict) and migration.get("part") is True else {}
        mine = []
        for way in own if isinstance(own, list) else [migration or {}]:
            way = {**way, **part}
            number = ways.setdefault(canonical_json(way), len(parts))
            if number == len(parts):
                parts.append(way)
            mine.append(number)
        numbers.append(mine)
    if all(migration == stated[0] for migration in stated):
        return None
    return {"parts": parts}, numbers


def check_collection_document(document: Any, node: str) -> None:
    """Refuse what is no JSON object, has a wrong version, or does not say what units its numbers are in."""
    if not isinstance(document, dict):
        raise ContractError(node, "the document is not a JSON object", found=type(document).__name__)
    check_json(document, node)
    check_version(document, node)
    units = document.get("units")
    if not isinstance(units, dict):
        found = "none" if units is None else type(units).__name__
        raise ContractError(
            f"{node}.units", "a collection states the units of its numbers", found=found, expected="quantity → unit"
        )
    for quantity, unit in units.items():
        if not isinstance(unit, str) or not unit.strip():
            raise ContractError(f"{node}.units.{quantity}", "a unit is a text", found=repr(unit)[:60])


def derive_declaration(declarations: Iterable[Declaration]) -> Declaration:
    """Return the union of the blocks, which must agree, and the per-step keys that all declare, which must agree too.

    A column is nullable where any of them lets it be. A block's `rows` are the largest.
    """
    blocks: dict[str, BlockDeclaration] = {}
    result: Declaration | None = None
    for declaration in declarations:
        for name, block in declaration.blocks.items():
            known = blocks.get(name)
            blocks[name] = replace(block, settles=None) if known is None else joined_block(name, known, block)
        if result is None:
            result = replace(declaration)
            continue
        meta = {}
        for key, entry in result.meta.items():
            other = declaration.meta.get(key)
            if other is None:
                continue
            if other != entry:
                raise ContractError(
                    f"trajectory/meta/{key}",
                    "records declare the key differently",
                    found=str(other.to_json()),
                    expected=str(entry.to_json()),
                )
            meta[key] = entry
        result = replace(result, meta=meta)
    return Declaration() if result is None else replace(result, blocks=blocks)


def joined_block(name: str, known: BlockDeclaration, block: BlockDeclaration) -> BlockDeclaration:
    """Return the declaration of a block that two agree on; refused where they do not."""
    fault = block_difference(block, known, exact=True)
    if fault is not None:
        raise ContractError(f"trajectory/{name}", f"records declare the block differently: {fault}")
    columns = {
        key: replace(column, nullable=column.nullable or block.columns[key].nullable)
        for key, column in known.columns.items()
    }
    return replace(known, columns=columns, rows=max(known.rows or 0, block.rows or 0) or None)


def check_member_declaration(declaration: Declaration, collection: Declaration, node: str) -> None:
    """Refuse a record outside the collection's declaration: other blocks or columns, or not exactly its per-step keys.

    A record may declare fewer blocks. A precision it does not state is the collection's, whose grid it is put on.
    """
    if declaration is collection:
        return
    for name, block in declaration.blocks.items():
        here = f"{node}/{name}"
        known = collection.blocks.get(name)
        if known is None:
            raise ContractError(here, "the block is not in the collection's declaration")
        fault = block_difference(block, known)
        if fault is not None:
            raise ContractError(here, f"is declared otherwise than in the collection: {fault}")
    for key in {**declaration.meta, **collection.meta}:
        if not key_fits(declaration.meta.get(key), collection.meta.get(key)):
            raise ContractError(
                f"{node}/meta/{key}",
                "the per-step keys of a record are exactly the collection's",
                found="none" if key not in declaration.meta else str(declaration.meta[key].to_json()),
                expected="none" if key not in collection.meta else str(collection.meta[key].to_json()),
            )


def key_fits(entry: MetaDeclaration | None, known: MetaDeclaration | None) -> bool:
    """True if a key of a record is the collection's: it may be missing there and have a value in all frames here."""
    if entry is None or known is None or entry == known:
        return entry is known or entry == known
    return entry.fill is NO_FILL and known.has_missing and (entry.dtype, entry.extra) == (known.dtype, known.extra)


def block_difference(block: BlockDeclaration, known: BlockDeclaration, *, exact: bool = False) -> str | None:
    """Return how a block's declaration goes beyond a known one; None when it does not. `exact`: precisions must be
    equal.
    """
    for key in {**known.columns, **block.columns}:
        ours, theirs = block.columns.get(key), known.columns.get(key)
        if ours is None or theirs is None:
            return f"the column {key!r} is {'missing' if ours is None else 'not there'}"
        if ours is not theirs and not _fits(ours, theirs, exact):
            return f"{key} is {ours.to_json()}, expected {theirs.to_json()}"
    for what in ("structural_shape", "targets", "aligned_with"):
        if getattr(block, what) != getattr(known, what):
            return f"{what} is {getattr(block, what)}, expected {getattr(known, what)}"
    return None


def _fits(column: ColumnDeclaration, known: ColumnDeclaration, exact: bool) -> bool:
    if column.dtype != known.dtype or column.trailing != known.trailing:
        return False
    if column.precision != known.precision and (exact or column.precision is not None):
        return False
    return exact or known.nullable or not column.nullable
