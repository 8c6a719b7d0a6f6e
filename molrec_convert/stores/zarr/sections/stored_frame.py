"""A section of a store as a frame that decodes what is asked for, when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.frame import Block, Box, Column, Frame, check_references
from molrec_convert.model.tags import Meta
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.storage import Storage, read_document

__all__ = ["StoredCell", "StoredColumn", "StoredFrame", "row_count", "stored_rows"]


class StoredColumn(Column):
    """A column of a store: dtype, row shape, length and precision are known, values and mask decoded on first use."""

    def __init__(
        self,
        values: NDArray[Any] | ArrayReader,
        validity: NDArray[np.bool_] | ArrayReader | None = None,
        precision: float | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self._values = values
        self._validity = validity
        self.precision = precision
        self.attributes = attributes or {}

    @property
    def values(self) -> NDArray[Any]:  # type: ignore[override]
        """The rows, decoded now if they are not yet."""
        if isinstance(self._values, ArrayReader):
            self._values = self._values.read(0, self._values.shape[0])
        return self._values

    @property
    def validity(self) -> NDArray[np.bool_] | None:  # type: ignore[override]
        """The mask, decoded now if it is not yet; None when every row holds a value."""
        if isinstance(self._validity, ArrayReader):
            mask = self._validity.read(0, self._validity.shape[0])
            self._validity = None if mask.all() else mask
        return self._validity

    @property
    def nullable(self) -> bool:
        """Whether a mask is stored, told without decoding it."""
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
        return int(self._values.shape[0])


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
        """The cell, absent parts at their defaults."""
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
    """The row counts absolute references are held against, as `check_references` takes them."""
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
    """The `count` of a block's group attributes; refused when there is none."""
    count = attributes.get("count")
    if type(count) is not int or count < 0:
        found = "none" if count is None else repr(count)[:60]
        raise ContractError(node, "a block has a count of rows", found=found, expected="an integer of at least 0")
    return count
