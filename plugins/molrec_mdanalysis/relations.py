"""Bonds, angles and the like: MDAnalysis' connections as blocks of relations, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Column
from molrec_convert.model.dtypes import as_values
from molrec_convert.report import Report
from molrec_mdanalysis.names import RELATIONS

__all__ = ["connection_values", "relation_blocks"]

_ENDS = ("atomi", "atomj", "atomk", "atoml", "atomm")
#: A bond order as MDAnalysis' parsers have it → `bond_type`.
_ORDERS = {"1": 1, "2": 2, "3": 3, "1.0": 1, "2.0": 2, "3.0": 3, "1.5": 4, "ar": 4}
_ORDER_OF = {1: 1.0, 2: 2.0, 3: 3.0, 4: 1.5}


def relation_blocks(attributes: Mapping[str, Any], report: Report) -> dict[str, Block]:
    """The blocks of all connections among a topology's attributes by name, rows in the order of the parser."""
    blocks = {}
    for name, (block, ends) in RELATIONS.items():
        attribute = attributes.get(name)
        if attribute is None:
            continue
        blocks[block] = _block(attribute, name, block, ends, report)
    return blocks


def _block(attribute: Any, name: str, block: str, ends: int, report: Report) -> Block:
    try:
        atoms = np.array(attribute.values, dtype=np.uint64).reshape(-1, ends)
    except (ValueError, TypeError, OverflowError) as error:
        raise ContractError(f"system/{block}", f"{name} of no atoms: {error}") from None
    columns: dict[str, Any] = {_ENDS[end]: np.ascontiguousarray(atoms[:, end]) for end in range(ends)}
    columns |= _types(list(attribute.types)) if len(atoms) else {}
    if name == "bonds" and len(atoms):
        columns |= _orders(list(attribute.order))
    guessed = np.array([bool(flag) for flag in attribute._guessed])
    if not len(atoms):
        return Block(columns, targets={"atomm": "atoms"} if ends == 5 else None)
    if guessed.any():
        report.derived(block, f"{int(guessed.sum())} of {len(guessed)} guessed by MDAnalysis")
        if not guessed.all():
            columns["guessed"] = guessed
    report.carried(name, f"as {block}; an end of a lower index first, repeated ones once, as MDAnalysis holds them")
    return Block(columns, targets={"atomm": "atoms"} if ends == 5 else None)


def _types(types: list[Any]) -> dict[str, Any]:
    """`type`, and `type_id` where the types are numbers."""
    known = np.array([kind is not None for kind in types])
    if not known.any():
        return {}
    listed = [" ".join(map(str, t)) if isinstance(t, tuple) else "" if t is None else str(t) for t in types]
    texts = Column(as_values(listed, "string"), None if known.all() else known)
    columns: dict[str, Any] = {"type": texts}
    if all(isinstance(kind, (int, np.integer)) and kind >= 0 for kind in types):
        columns["type_id"] = np.array(types, dtype=np.uint64)
    return columns


def _orders(orders: list[Any]) -> dict[str, Any]:
    """`bond_type`, and `order`, the text, where that says more."""
    if all(order is None for order in orders):
        return {}
    texts = ["" if order is None else str(order) for order in orders]
    columns: dict[str, Any] = {"bond_type": np.array([_ORDERS.get(text, 0) for text in texts], dtype=np.uint64)}
    if any(isinstance(order, str) for order in orders) or any(t and t not in _ORDERS for t in texts):
        columns["order"] = texts
    return columns


def connection_values(
    blocks: Mapping[str, Block],
) -> dict[str, tuple[list[tuple[int, ...]], list[Any] | None, list[Any] | None, list[bool]]]:
    """Connection of MDAnalysis → its tuples, types, orders and which are guessed; rows in order."""
    found = {}
    for name, (block_name, ends) in RELATIONS.items():
        block = blocks.get(block_name)
        if block is None or not all(end in block.columns for end in _ENDS[:ends]):
            continue
        atoms = np.stack([block.stored(end) for end in _ENDS[:ends]], axis=1).astype(np.int64)
        kept = _whole(block, ends)
        values = [tuple(row) for row in atoms[kept].tolist()]
        guessed = block.stored("guessed")[kept].tolist() if "guessed" in block.columns else [False] * len(values)
        found[name] = (values, _types_of(block, kept), _orders_of(block, kept), guessed)
    return found


def _whole(block: Block, ends: int) -> NDArray[np.bool_]:
    """Rows that name all their atoms."""
    kept = np.ones(block.count, np.bool_)
    for end in _ENDS[:ends]:
        kept &= block.validity(end)
    return kept


def _types_of(block: Block, kept: NDArray[np.bool_]) -> list[Any] | None:
    if "type_id" in block.columns and block.columns["type_id"].validity is None:
        numbers = block.stored("type_id")
        if "type" not in block.columns or block.stored("type").tolist() == [str(n) for n in numbers.tolist()]:
            kinds: list[Any] = numbers[kept].tolist()
            return kinds
    if "type" not in block.columns:
        return None
    known = block.validity("type")
    return [
        text if there else None for text, there in zip(block.stored("type")[kept].tolist(), known[kept], strict=True)
    ]


def _orders_of(block: Block, kept: NDArray[np.bool_]) -> list[Any] | None:
    if "order" in block.columns:
        return [text or None for text in block.stored("order")[kept].tolist()]
    if "bond_type" not in block.columns:
        return None
    return [_ORDER_OF.get(number) for number in block.stored("bond_type")[kept].tolist()]
