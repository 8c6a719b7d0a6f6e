"""Frame-shaped groups: blocks, columns, masks, both ways; typed meta and the cell of `system` and `frame`.

Opening one reads metadata alone. A column decodes its values when they are asked for, a block has its references
checked when it is taken, `Frame.check` checks all of them.
Source: Containers; Zarr V3 binding, "Frame-shaped group".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import precision_fault, same_bits, stored
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Box, Column, Frame, check_references
from molrec_convert.model.names import name_fault
from molrec_convert.model.tags import Meta, from_typed_json, infer_tag, to_typed_json
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.array_writer import write_array
from molrec_convert.stores.zarr.v3.codecs import Stage, column_pipeline, dense_pipeline
from molrec_convert.stores.zarr.v3.metadata import ArrayMetadata, group_document, parse_array, shown
from molrec_convert.stores.zarr.v3.storage import Storage, read_document, write_document

__all__ = [
    "StoredCell",
    "StoredColumn",
    "StoredFrame",
    "read_frame",
    "read_tables",
    "row_count",
    "stored_rows",
    "write_forcefield",
    "write_frame",
]


class StoredColumn(Column):
    """A column of a store: dtype, row shape, length and precision are known, values and mask decoded on first use.

    `rows` are those that it has of the stored array; all without.
    """

    def __init__(
        self,
        values: NDArray[Any] | ArrayReader,
        validity: NDArray[np.bool_] | ArrayReader | None = None,
        precision: float | None = None,
        attributes: dict[str, Any] | None = None,
        rows: tuple[int, int] | None = None,
    ) -> None:
        self._values = values
        self._validity = validity
        self.precision = precision
        self.attributes = attributes or {}
        self._rows = (0, values.shape[0]) if rows is None else rows

    @property
    def values(self) -> NDArray[Any]:
        """The rows, decoded now if they are not yet."""
        if isinstance(self._values, ArrayReader):
            self._values = self._values.read(*self._rows)
        return self._values

    @values.setter
    def values(self, values: NDArray[Any]) -> None:
        """Replace the values, as those of any column."""
        self._values, self._rows = values, (0, values.shape[0])

    @property
    def validity(self) -> NDArray[np.bool_] | None:  # type: ignore[override]
        """The mask, decoded now if it is not yet; None when every row holds a value."""
        if isinstance(self._validity, ArrayReader):
            mask = self._validity.read(*self._rows)
            self._validity = None if mask.all() else mask
        return self._validity

    @property
    def nullable(self) -> bool:
        """True if a mask is stored, told without decoding it."""
        return self._validity is not None

    @property
    def dtype(self) -> str:
        """See `Column.dtype`."""
        return self._values.dtype if isinstance(self._values, ArrayReader) else super().dtype

    @property
    def trailing(self) -> tuple[int, ...]:
        """See `Column.trailing`."""
        return tuple(self._values.shape[1:])

    def __len__(self) -> int:
        return self._rows[1] - self._rows[0]


class StoredFrame(Frame):
    """A frame-shaped section of a store. Taking a block checks its references, `check` those of all blocks."""

    _box: Box | None
    #: The cell as long as it is not decoded.
    cell: StoredCell | None = None

    def __init__(
        self,
        blocks: dict[str, Block] | None = None,
        meta: Meta | None = None,
        box: Box | None = None,
        step: int | None = None,
        time: float | None = None,
        attributes: dict[str, dict[str, Any]] | None = None,
        *,
        storage: Storage | None = None,
        section: str = "frame",
        cell: StoredCell | None = None,
    ) -> None:
        super().__init__(
            {} if blocks is None else blocks, Meta() if meta is None else meta, box, step, time, attributes or {}
        )
        self.cell = cell
        self._storage = storage
        self._section = section
        self._taken: set[str] = set()

    @property
    def box(self) -> Box | None:
        """The cell, decoded now if it is not yet."""
        if self.cell is not None:
            self._box = self.cell.decode()
            self.cell = None
        return self._box

    @box.setter
    def box(self, box: Box | None) -> None:
        self._box = box
        self.cell = None

    def __getitem__(self, name: str) -> Block:
        block = super().__getitem__(name)
        if name not in self._taken:
            check_references(self._section, {name: block}, self.rows, self._absolute([block]))
            self._taken.add(name)
        return block

    def check(self, node: str | None = None, absolute: Mapping[str, int] | None = None) -> None:
        """See `Frame.check`; references into other sections are held against those of the same store."""
        found = self._absolute(list(self.blocks.values())) if absolute is None else absolute
        super().check(self._section if node is None else node, found)
        _ = self.box

    def _absolute(self, blocks: list[Block]) -> Mapping[str, int] | None:
        wanted = any(target.startswith("/") for block in blocks for target in block.targets.values())
        return stored_rows(self._storage) if wanted and self._storage is not None else None


class StoredCell:
    """The group `box` of a frame-shaped section, its parts held against the contract, its values not read yet."""

    def __init__(self, defined: bool, parts: dict[str, ArrayReader], node: str) -> None:
        self._defined, self._parts, self._node = defined, parts, node

    def decode(self) -> Box:
        """Return the cell, absent parts at their defaults."""
        vectors = self._parts["vectors"].read(0, 3) if self._defined else np.eye(3)
        origin = self._parts["origin"].read(0, 3) if "origin" in self._parts else np.zeros(3)
        boundary = np.full(3, self._defined)
        if "boundary" in self._parts:
            boundary = self._parts["boundary"].read(0, 3)
        if not self._defined and boundary.any():
            raise ContractError(
                f"{self._node}/boundary", "an undefined cell is periodic on no axis", found="a true flag"
            )
        return Box(vectors, origin, boundary, self._defined)


def stored_rows(storage: Storage) -> dict[str, int]:
    """Return the row counts absolute references are held against, as `check_references` takes them."""
    rows: dict[str, int] = {}
    for section in ("system", "frame"):
        if read_document(storage, section) is None:
            continue
        rows[f"/{section}"] = 0
        for name in storage.children(section)[0]:
            document = read_document(storage, f"{section}/{name}")
            if name != "box" and document is not None and document["node_type"] == "group":
                rows[f"/{section}/{name}"] = row_count(document["attributes"], f"{section}/{name}")
    return rows


def row_count(attributes: dict[str, Any], node: str) -> int:
    """Return the `count` of a block's group attributes; refused when there is none."""
    count = attributes.get("count")
    if type(count) is not int or count < 0:
        found = "none" if count is None else repr(count)[:60]
        raise ContractError(node, "a block has a count of rows", found=found, expected="an integer of at least 0")
    return count


#: Blocks people look for first; the others follow by name.
_FIRST = ("atoms", "bonds", "angles", "dihedrals", "impropers")
_MASKS = "_validity"
_TYPES = "_meta_types"


def write_frame(root: str | os.PathLike[str], section: str, frame: Frame, *, compression: Stage | None = None) -> None:
    """Write `frame` as the section `section` of the record at `root`; nothing may be there yet.

    Values of a column with a precision are stored on its grid. `compression` acts on columns of floating-point
    numbers. Raises `ContractError`, before anything is written, for a frame that breaks a rule.
    """
    frame.check(section)
    for name, block in frame.blocks.items():
        _write_block(root, section, name, block, frame, compression)
    if frame.box is not None:
        _write_box(root, section, frame.box, frame)
    attributes = {
        key: to_typed_json(value, frame.meta.tag(key), f"{section}.{key}") for key, value in frame.meta.items()
    }
    if attributes:
        attributes[_TYPES] = frame.meta.tags
    write_document(Path(root, section), group_document(attributes))


def write_forcefield(root: str | os.PathLike[str], forcefield: ForceField, *, compression: Stage | None = None) -> None:
    """Write the section `forcefield` of the record at `root`: the document as it is, a block for each table.

    Nothing may be there yet. Raises `ContractError`, before anything is written, for one that breaks a rule.
    """
    section = "forcefield"
    forcefield.check(section)
    frame = Frame(forcefield.tables, attributes=forcefield.attributes)
    frame.check_attributes(section)
    for name, block in frame.blocks.items():
        _write_block(root, section, name, block, frame, compression)
    write_document(Path(root, section), group_document(forcefield.document))


def _write_block(
    root: str | os.PathLike[str], section: str, name: str, block: Block, frame: Frame, compression: Stage | None
) -> None:
    node = f"{section}/{name}"
    for key, column in block.columns.items():
        declared = {} if column.precision is None else {"precision": column.precision}
        write_array(
            root,
            f"{node}/{key}",
            _values_to_store(column),
            pipeline=column_pipeline(column.dtype, column.precision, compression),
            attributes={**column.attributes, **declared},
        )
    masks = {key: column.validity for key, column in block.columns.items() if column.validity is not None}
    for key in block.columns:
        if key not in masks and f"{name}/{_MASKS}/{key}" in frame.attributes:
            # what is said of a mask needs one
            masks[key] = np.ones(block.count, np.bool_)
    for key, mask in masks.items():
        _write_array(root, section, f"{name}/{_MASKS}/{key}", mask, frame, "bool")
    others = frame.attributes.get(f"{name}/{_MASKS}", {})
    if masks or others:
        write_document(Path(root, node, _MASKS), group_document(others))
    attributes: dict[str, Any] = {"count": block.count}
    if block.structural_shape is not None:
        attributes["structural_shape"] = list(block.structural_shape)
    if block.targets:
        attributes["targets"] = dict(block.targets)
    write_document(Path(root, node), group_document({**attributes, **block.attributes}))


def _values_to_store(column: Column) -> NDArray[Any]:
    """Return the values on the grid of the declared precision; those under null rows as they are."""
    if column.precision is None:
        return column.values
    values = stored(column.values, column.precision)
    if column.validity is not None:
        values[~column.validity] = column.values[~column.validity]
    return values


def _write_box(root: str | os.PathLike[str], section: str, box: Box, frame: Frame) -> None:
    _write_array(root, section, "box/vectors", box.vectors, frame, "f64")
    if not same_bits(box.origin, np.zeros(3)) or "box/origin" in frame.attributes:
        _write_array(root, section, "box/origin", box.origin, frame, "f64")
    if not box.boundary.all() or "box/boundary" in frame.attributes:
        _write_array(root, section, "box/boundary", box.boundary, frame, "bool")
    attributes = dict(frame.attributes.get("box", {}))
    if not box.defined:
        attributes["cell_defined"] = False
    write_document(Path(root, section, "box"), group_document(attributes))


def _write_array(
    root: str | os.PathLike[str], section: str, path: str, values: NDArray[Any], frame: Frame, dtype: str
) -> None:
    """A mask, or an array of the cell."""
    pipeline = column_pipeline(dtype) if dtype == "f64" else dense_pipeline(dtype)
    write_array(root, f"{section}/{path}", values, pipeline=pipeline, attributes=frame.attributes.get(path))


def read_frame(storage: Storage, section: str) -> StoredFrame:
    """Return the frame-shaped section of a store, columns and cell undecoded.

    Refused with the node's path: a section that is no group, meta values that do not fit their tags, blocks without a
    count, columns of a foreign dtype or another length, masks that mark no rows of a column, malformed cells.
    """
    meta = _read_meta(_group_attributes(storage, section), section)
    frame = StoredFrame(meta=meta, storage=storage, section=section)
    folders, _ = storage.children(section)
    for name in sorted(folders, key=lambda n: (_FIRST.index(n) if n in _FIRST else len(_FIRST), n)):
        if name == "box":
            frame.cell = _read_cell(storage, section, read_document(storage, f"{section}/{name}"), frame)
        elif _add_block(storage, section, name, frame):
            frame.blocks[name].check(f"{section}/{name}")
    return frame


def read_tables(storage: Storage, section: str = "forcefield") -> tuple[dict[str, Any], StoredFrame]:
    """Return the document of a section without typed meta and without a cell, and its blocks, columns undecoded.

    A child `box` is no block, and none of the section's: it is left to those who carry what is unknown.
    """
    document = shown(_group_attributes(storage, section))
    frame = StoredFrame(storage=storage, section=section)
    for name in storage.children(section)[0]:
        if name != "box":
            _add_block(storage, section, name, frame)
    return document, frame


def _group_attributes(storage: Storage, section: str) -> dict[str, Any]:
    document = read_document(storage, section)
    if document is None or document["node_type"] != "group":
        raise ContractError(section, "the section is not a Zarr group")
    attributes: dict[str, Any] = document["attributes"]
    return attributes


def _add_block(storage: Storage, section: str, name: str, frame: StoredFrame) -> bool:
    """Take a child as a block when it is one; others are unknown content."""
    child = read_document(storage, f"{section}/{name}")
    if child is None or child["node_type"] != "group" or name_fault(name) is not None:
        return False
    frame.blocks[name] = _read_block(storage, section, name, child["attributes"], frame)
    return True


def _read_meta(attributes: dict[str, Any], section: str) -> Meta:
    tags = attributes.get(_TYPES, {})
    if not isinstance(tags, dict):
        raise ContractError(f"{section}.{_TYPES}", "the tags are not a JSON object", found=type(tags).__name__)
    meta = Meta()
    for key, value in attributes.items():
        if key == _TYPES:
            continue
        tag = tags[key] if key in tags else infer_tag(value)
        meta.put(key, from_typed_json(value, tag, f"{section}.{key}"), tag)
    return meta


def _read_block(storage: Storage, section: str, name: str, attributes: dict[str, Any], frame: StoredFrame) -> Block:
    node = f"{section}/{name}"
    count = row_count(attributes, node)
    shape = attributes.get("structural_shape")
    if shape is not None and (not isinstance(shape, list) or any(type(n) is not int for n in shape)):
        raise ContractError(node, "a structural shape is a list of integers", found=repr(shape)[:60])
    targets = attributes.get("targets", {})
    if not isinstance(targets, dict):
        raise ContractError(node, "targets is not a JSON object", found=type(targets).__name__)
    columns, masks = _read_arrays(storage, node)
    extra = {key: value for key, value in attributes.items() if key not in ("count", "structural_shape", "targets")}
    block = Block(
        count=count, structural_shape=None if shape is None else tuple(shape), targets=targets, attributes=extra
    )
    for key, metadata in columns.items():
        if not metadata.shape:
            raise ContractError(f"{node}/{key}", "a column has a leading axis", found="an array without axes")
        mask = masks.pop(key, None)
        if mask is not None:
            _check_mask(mask, count, f"{node}/{_MASKS}/{key}")
            _keep_attributes(frame, f"{name}/{_MASKS}/{key}", mask.attributes)
        precision, others = _precision(metadata)
        block.columns[key] = StoredColumn(
            ArrayReader(storage, f"{node}/{key}", metadata),
            None if mask is None else ArrayReader(storage, f"{node}/{_MASKS}/{key}", mask),
            precision,
            others,
        )
    for key in masks:
        raise ContractError(f"{node}/{_MASKS}/{key}", "the mask names no column of the block")
    group = read_document(storage, f"{node}/{_MASKS}")
    if group is not None:
        _keep_attributes(frame, f"{name}/{_MASKS}", group["attributes"])
    return block


def _read_arrays(storage: Storage, node: str) -> tuple[dict[str, ArrayMetadata], dict[str, ArrayMetadata]]:
    """Return the columns and the masks of a block."""
    columns: dict[str, ArrayMetadata] = {}
    masks: dict[str, ArrayMetadata] = {}
    for name in storage.children(node)[0]:
        here = f"{node}/{name}"
        document = read_document(storage, here)
        if document is None:
            continue
        if name == _MASKS:
            if document["node_type"] != "group":
                raise ContractError(here, "the name is reserved for the masks of a block, which are a group")
            for key in storage.children(here)[0]:
                mask = read_document(storage, f"{here}/{key}")
                if mask is not None and mask["node_type"] == "array":
                    masks[key] = parse_array(mask, f"{here}/{key}")
        elif document["node_type"] == "array" and name_fault(name) is None:
            columns[name] = parse_array(document, here)
    return columns, masks


def _check_mask(mask: ArrayMetadata, count: int, node: str) -> None:
    if mask.dtype != "bool" or mask.shape != (count,):
        raise ContractError(
            node,
            "a mask holds one bool per row of its block",
            found=f"{mask.dtype}{list(mask.shape)}",
            expected=f"bool[{count}]",
        )


def _read_cell(storage: Storage, section: str, document: dict[str, Any] | None, frame: StoredFrame) -> StoredCell:
    node = f"{section}/box"
    if document is None or document["node_type"] != "group":
        raise ContractError(node, "the cell is not a Zarr group")
    attributes = document["attributes"]
    defined = attributes.get("cell_defined", True)
    if not isinstance(defined, bool):
        raise ContractError(node, "cell_defined is true or false", found=repr(defined)[:60])
    _keep_attributes(frame, "box", {key: value for key, value in attributes.items() if key != "cell_defined"})
    parts: dict[str, ArrayReader] = {}
    for name, shape, dtype in (("vectors", (3, 3), "f64"), ("origin", (3,), "f64"), ("boundary", (3,), "bool")):
        here = f"{node}/{name}"
        part = read_document(storage, here)
        if part is None:
            if name == "vectors" and defined:
                raise ContractError(here, "the cell has no vectors")
            continue
        if part["node_type"] != "array":
            raise ContractError(here, f"{name} is not an array")
        if name == "vectors" and not defined:
            _keep_attributes(frame, f"box/{name}", part["attributes"])
            continue
        metadata = parse_array(part, here)
        if metadata.shape != shape or metadata.dtype != dtype:
            found = f"{metadata.dtype}{list(metadata.shape)}"
            raise ContractError(here, "the array is not what a cell has", found=found, expected=f"{dtype}{list(shape)}")
        _keep_attributes(frame, f"box/{name}", metadata.attributes)
        parts[name] = ArrayReader(storage, here, metadata)
    return StoredCell(defined, parts, node)


def _precision(metadata: ArrayMetadata) -> tuple[float | None, dict[str, Any]]:
    """Return the declared precision and the other attributes; a precision that no writer may declare stays one of
    those.
    """
    others = shown(metadata.attributes)
    declared = others.get("precision")
    if declared is None or precision_fault(declared, metadata.dtype) is not None:
        return None, others
    del others["precision"]
    return float(declared), others


def _keep_attributes(frame: StoredFrame, path: str, attributes: dict[str, Any]) -> None:
    kept = shown(attributes)
    if kept:
        frame.attributes[path] = kept
