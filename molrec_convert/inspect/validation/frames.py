"""The frame-shaped sections `system` and `frame`, and how they go together.

Source: Containers; Record, "Standard names"; Zarr V3 binding, "Frame-shaped group".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molrec_convert.inspect.tree.nodes import Node, children_of, read_node
from molrec_convert.inspect.validation.arrays import CheckedArray, load_array, reference_faults, scan_column
from molrec_convert.inspect.validation.findings import Findings, check_group, note_unknown
from molrec_convert.model.dtypes import check_precision
from molrec_convert.model.frame import check_target, missing_target, references
from molrec_convert.model.names import check_standard_dtype, name_fault
from molrec_convert.model.rules import RowCounts, column_faults, row_count_faults
from molrec_convert.model.tags import from_typed_json, infer_tag
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["CELL", "CheckedBlock", "FrameChecks", "read_masks"]

_TYPES, _MASKS = "_meta_types", "_validity"


@dataclass
class CheckedBlock:
    """A block of a frame-shaped section as far as it is in order."""

    node: str
    count: int | None
    columns: dict[str, CheckedArray] = field(default_factory=dict)
    masks: dict[str, CheckedArray] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)


class FrameChecks:
    """Checks `system` and `frame`. `blocks` has what was found, by section and name."""

    def __init__(self, storage: Storage, root: Node, findings: Findings) -> None:
        self._storage, self._root, self._findings = storage, root, findings
        self.blocks: dict[str, dict[str, CheckedBlock]] = {}

    def check(self) -> None:
        """Both sections, then what holds between blocks."""
        for section in ("system", "frame"):
            node = read_node(self._storage, section)
            if node.kind == "group":
                with self._findings.guard(section):
                    self._check_section(node)
        for blocks in self.blocks.values():
            for block in blocks.values():
                with self._findings.guard(block.node):
                    self._check_values(block, blocks)
        self._check_alignment()

    def absolute(self, target: str) -> int | None:
        """Return rows of the block an absolute target names; None when its section is not there, -1 when only the block
        is.
        """
        _, section, name = target.split("/")
        if section not in self.blocks:
            return None
        block = self.blocks[section].get(name)
        return -1 if block is None or block.count is None else block.count

    def _check_section(self, node: Node) -> None:
        check_group(node, self._findings)
        _check_meta(node, self._findings)
        blocks: dict[str, CheckedBlock] = {}
        self.blocks[node.key] = blocks
        known = set()
        for child in children_of(self._storage, node):
            if child.name == "box":
                known.add(child.name)
                self._check_box(child)
            elif child.kind == "group":
                known.add(child.name)
                _check_name(child, self._findings)
                with self._findings.guard(child.key):
                    blocks[child.name] = self.check_block(child)
        note_unknown(self._storage, node, known, self._findings)

    def check_block(self, node: Node) -> CheckedBlock:
        """Return a block of a frame-shaped section as it is stored; its values are not looked at."""
        check_group(node, self._findings)
        block = CheckedBlock(node.key, _count(node, self._findings))
        known = {_MASKS}
        for child in children_of(self._storage, node):
            if child.kind == "array" and child.name != _MASKS:
                known.add(child.name)
                _check_name(child, self._findings)
                array = load_array(self._storage, child, self._findings)
                if array is not None and self._check_column(array, child.name, block):
                    block.columns[child.name] = array
        note_unknown(self._storage, node, known, self._findings)
        block.masks = read_masks(self._storage, node, set(block.columns), self._findings)
        for name, mask in list(block.masks.items()):
            if block.count is not None and mask.shape != (block.count,):
                found, expected = mask.layout, f"bool[{block.count}]"
                self._findings.error(mask.node, f"a mask has one flag per row: found {found}, expected {expected}")
                del block.masks[name]
        block.targets = _targets(node, known, block, self._findings)
        return block

    def _check_column(self, array: CheckedArray, name: str, block: CheckedBlock) -> bool:
        with self._findings.guard(array.node):
            check_standard_dtype(name, array.dtype, array.node)
        if not array.shape:
            self._findings.error(array.node, "a column has a leading axis: found an array without axes")
            return False
        if block.count is not None and array.rows != block.count:
            self._findings.error(
                array.node, f"a column has one row per row of its block: found {array.rows}, expected {block.count}"
            )
            return False
        return True

    def _check_values(self, block: CheckedBlock, siblings: dict[str, CheckedBlock]) -> None:
        targets = references(block.columns, block.targets)
        for name, array in block.columns.items():
            mask = block.masks.get(name)
            limit = self._limit(targets[name], block, siblings, array) if name in targets else None
            precision = _precision(array, self._findings)
            if limit is not None and array.dtype == "u64":
                self._findings.take(reference_faults(array, mask, targets[name], limit))
            else:
                scan_column(array, mask, precision, self._findings)
        for mask in block.masks.values():
            mask.scan()

    def _limit(
        self, target: str, block: CheckedBlock, siblings: dict[str, CheckedBlock], array: CheckedArray
    ) -> int | None:
        """Return row count a reference is held against, None when it cannot or need not be checked."""
        if array.dtype != "u64":
            self._findings.error(array.node, f"a row reference is u64: found {array.dtype}")
        if not block.count:
            return None
        if target.startswith("/"):
            limit = self.absolute(target)
        else:
            limit = -1 if target not in siblings else siblings[target].count
        if limit is not None and limit < 0:
            self._findings.raised(array.node, missing_target(array.node, target))
            return None
        return limit

    def _check_box(self, node: Node) -> None:
        if node.kind != "group":
            self._findings.error(node.key, node.fault or "the cell is not a Zarr group")
            return
        check_group(node, self._findings)
        defined = cell_defined(node, self._findings)
        parts: dict[str, CheckedArray] = {}
        for child in children_of(self._storage, node):
            if child.name in CELL and not defined and child.name == "vectors":
                if child.fault is not None:
                    self._findings.error(child.key, child.fault)
            elif child.name in CELL:
                array = load_array(self._storage, child, self._findings)
                dtype, shape = CELL[child.name]
                if array is None:
                    continue
                if array.dtype != dtype or array.shape != shape:
                    self._findings.error(
                        child.key, f"found {array.dtype}{list(array.shape)}, expected {dtype}{list(shape)}"
                    )
                    continue
                parts[child.name] = array
        note_unknown(self._storage, node, set(CELL), self._findings)
        if "vectors" not in node.folders and defined:
            self._findings.error(f"{node.key}/vectors", "the cell has no vectors")
        for name in ("origin", "boundary", "vectors"):
            if name in node.attributes:
                self._findings.error(node.key, f"{name} is an attribute where an array is expected")
        self._check_cell_values(node, parts, defined)

    def _check_cell_values(self, node: Node, parts: dict[str, CheckedArray], defined: bool) -> None:
        values = {name: array.whole(3) for name, array in parts.items()}
        if defined:
            return
        boundary = values.get("boundary")
        if boundary is not None and boundary.any():
            self._findings.error(f"{node.key}/boundary", "an undefined cell is periodic on no axis: found a true flag")
        if "boundary" not in parts:
            self._findings.warning(f"{node.key}/boundary", "an undefined cell states that it is periodic on no axis")

    def _check_alignment(self) -> None:
        """Blocks that `system` and `frame` share have the same rows, and no column but `id` in common."""
        system, frame = self.blocks.get("system", {}), self.blocks.get("frame", {})
        for name in system.keys() & frame.keys():
            compare_blocks(system[name], frame[name], self._findings)


CELL: dict[str, tuple[str, tuple[int, ...]]] = {
    "vectors": ("f64", (3, 3)),
    "origin": ("f64", (3,)),
    "boundary": ("bool", (3,)),
}


def compare_blocks(system: CheckedBlock, other: CheckedBlock, findings: Findings) -> None:
    """A block of `frame` against the one of the same name in `system`."""
    if system.count is not None and other.count is not None and system.count != other.count:
        counts = RowCounts(np.zeros(1, np.int64), np.array([other.count]))
        findings.take(row_count_faults(other.node, counts, system.count, ""))
    findings.take(column_faults(other.node, other.columns, system.columns))
    if "id" in system.columns and "id" in other.columns:
        first, second = system.columns["id"], other.columns["id"]
        row = None if first.rows != second.rows else _first_difference(first, second)
        if row is not None:
            findings.error(second.node, f"differs from the id in system, first in row {row}")


def _first_difference(a: CheckedArray, b: CheckedArray) -> int | None:
    """Return the first row at which two columns differ; what neither stores is equal."""
    for one, other in ((a, b), (b, a)):
        for start, values in one.pieces():
            rows = other.rows_between(start, start + len(values))
            if rows is not None and not np.array_equal(rows, values):
                return start + int(np.flatnonzero(rows != values)[0])
    return None


def read_masks(storage: Storage, block: Node, columns: set[str], findings: Findings) -> dict[str, CheckedArray]:
    """Return the masks of a block: boolean arrays, each of a column that is there."""
    if _MASKS not in block.folders:
        return {}
    node = read_node(storage, block.child(_MASKS))
    if node.kind != "group":
        findings.error(node.key, "the name is reserved for the group of masks")
        return {}
    check_group(node, findings)
    masks = {}
    known = set()
    for child in children_of(storage, node):
        if child.kind is None or (child.kind == "group" and child.name not in columns):
            continue
        known.add(child.name)
        array = load_array(storage, child, findings)
        if child.name not in columns:
            findings.error(child.key, "the mask names no column of the block")
        elif array is not None and array.dtype != "bool":
            findings.error(child.key, f"a mask is bool: found {array.dtype}")
        elif array is not None and len(array.shape) != 1:
            findings.error(child.key, f"a mask has one axis: found {list(array.shape)}")
        elif array is not None:
            masks[child.name] = array
    note_unknown(storage, node, known, findings)
    return masks


def cell_defined(node: Node, findings: Findings) -> bool:
    """Return the attribute of a cell's group, true when absent."""
    defined = node.attributes.get("cell_defined", True)
    if not isinstance(defined, bool):
        findings.error(node.key, f"cell_defined is true or false: found {defined!r:.40}")
        return True
    return defined


def _check_name(node: Node, findings: Findings) -> None:
    fault = name_fault(node.name)
    if fault is not None:
        findings.error(node.key, f"the name {fault} and cannot name a node")


def _check_meta(node: Node, findings: Findings) -> None:
    attributes = node.attributes
    tags = attributes.get(_TYPES, {})
    if not isinstance(tags, dict):
        findings.error(node.key, f"{_TYPES} is not an object that maps keys to tags")
        tags = {}
    for key, value in attributes.items():
        if key == _TYPES:
            continue
        if key not in tags:
            findings.warning(node.key, f"the key {key!r} has no tag in {_TYPES}")
        with findings.guard(node.key):
            from_typed_json(value, tags.get(key, infer_tag(value)), f"{node.key}.{key}")


def _count(node: Node, findings: Findings) -> int | None:
    count = node.attributes.get("count")
    if type(count) is not int or count < 0:
        found = "none" if count is None else f"{count!r:.40}"
        findings.error(node.key, f"a block has a count of rows: found {found}, expected an integer of at least 0")
        return None
    shape = node.attributes.get("structural_shape")
    if shape is None:
        return count
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        findings.error(node.key, f"a structural shape is a list of integers of at least 0: found {shape!r:.60}")
    elif math.prod(shape) != count:
        findings.error(node.key, f"the structural shape {shape} does not multiply to the count {count}")
    return count


def _targets(node: Node, arrays: set[str], block: CheckedBlock, findings: Findings) -> dict[str, str]:
    document = node.attributes.get("targets", {})
    if not isinstance(document, dict):
        findings.error(node.key, "targets is not an object that maps columns to blocks")
        return {}
    targets = {}
    for key, target in document.items():
        here = node.child(key)
        if key not in arrays:
            findings.error(node.key, f"targets names a column that does not exist: {key!r}")
            continue
        with findings.guard(here):
            check_target(target, here)
            targets[key] = target
    return {key: target for key, target in targets.items() if key in block.columns}


def _precision(array: CheckedArray, findings: Findings) -> float | None:
    """Return the declared precision of a column, when it is one a column may declare."""
    if "precision" in array.attributes:
        declared: Any = array.attributes["precision"]
        with findings.guard(array.node):
            return check_precision(declared, array.dtype, array.node)
    return None
