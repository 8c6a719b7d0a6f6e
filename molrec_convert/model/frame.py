"""Columns, blocks, frames and boxes: one snapshot in memory.

A block is a table of named columns that share one row count; a frame is a set of blocks, a typed meta document and an
optional box. Source: Containers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import as_values, check_precision, dtype_name, same_bits
from molrec_convert.model.names import ENDPOINTS, check_name, check_standard_dtype
from molrec_convert.model.tags import Meta, check_json, same_value

__all__ = [
    "Block",
    "Box",
    "Column",
    "Frame",
    "TextColumn",
    "check_references",
    "check_target",
    "missing_target",
    "out_of_range",
    "references",
    "with_missing",
]

#: Attributes of a block's group, and of a column's array, that say something to this version.
BLOCK_ATTRIBUTES = frozenset({"count", "structural_shape", "targets"})
COLUMN_ATTRIBUTES = frozenset({"precision"})


@dataclass
class Column:
    """A typed array whose leading axis is the block's rows, an optional mask, an optional declared precision.

    `validity` has one flag per row, true where the row holds a value; an all-true mask is kept as None. A masked array
    brings its mask with it, which must be one of whole rows. `attributes` are what a store holds beside the array that
    this version does not know.
    """

    values: NDArray[Any]
    validity: NDArray[np.bool_] | None = None
    precision: float | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.values, np.ma.MaskedArray) and self.validity is None:
            self.validity = _validity_of(self.values)
        self.values = as_values(self.values)
        if self.values.ndim == 0:
            raise ContractError("", "a column has a leading axis", found="a scalar")
        if self.validity is not None:
            mask = np.asarray(self.validity)
            if mask.dtype != np.bool_ or mask.shape != (len(self.values),):
                raise ContractError(
                    "",
                    "a mask holds one bool per row",
                    found=f"{mask.dtype}{list(mask.shape)}",
                    expected=f"bool[{len(self.values)}]",
                )
            self.validity = None if mask.all() else mask
        if self.precision is not None:
            self.precision = check_precision(self.precision, self.dtype, "")

    @property
    def dtype(self) -> str:
        """The contract name of the dtype."""
        return dtype_name(self.values.dtype)

    @property
    def trailing(self) -> tuple[int, ...]:
        """Shape of one row."""
        return tuple(self.values.shape[1:])

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        """Return equal dtype, values bit for bit, mask and precision."""
        if not isinstance(other, Column):
            return NotImplemented
        if (self.validity is None) != (other.validity is None) or self.precision != other.precision:
            return False
        if self.validity is not None and other.validity is not None and not same_bits(self.validity, other.validity):
            return False
        return same_bits(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]


class TextColumn(Column):
    """A column of `rows` texts; `values` makes their array, StringDType[rows], when it is asked for first."""

    def __init__(
        self,
        values: NDArray[Any] | Callable[[], NDArray[Any]],
        validity: NDArray[np.bool_] | None = None,
        precision: None = None,
        attributes: dict[str, Any] | None = None,
        *,
        rows: int = 0,
    ) -> None:
        self._values, self._rows = values, rows
        self.validity = None if validity is None or validity.all() else validity
        self.precision = precision
        self.attributes = attributes or {}

    @property
    def values(self) -> NDArray[Any]:
        """The texts, made now if they are not yet."""
        if callable(self._values):
            self._values = self._values()
        return self._values

    @values.setter
    def values(self, values: NDArray[Any]) -> None:
        self._values = as_values(values)

    @property
    def dtype(self) -> str:
        """See `Column.dtype`."""
        return "string" if callable(self._values) else super().dtype

    @property
    def trailing(self) -> tuple[int, ...]:
        """See `Column.trailing`."""
        return () if callable(self._values) else super().trailing

    def __len__(self) -> int:
        return self._rows if callable(self._values) else len(self._values)


def with_missing(values: NDArray[Any], validity: NDArray[np.bool_] | None) -> NDArray[Any]:
    """Return the rows of a column as Python has them: NaN where a real number is null, any other dtype masked there.

    Without nulls it is `values` itself. `validity` bool[rows] is true where a row holds a value.
    """
    if validity is None or validity.all():
        return values
    missing = ~validity
    if values.dtype.kind == "f":
        filled = np.array(values)
        filled[missing] = math.nan
        return filled
    mask = np.broadcast_to(missing.reshape(-1, *[1] * (values.ndim - 1)), values.shape)
    return np.ma.MaskedArray(values, mask.copy())


def _validity_of(values: np.ma.MaskedArray[Any, Any]) -> NDArray[np.bool_] | None:
    """Return the mask of a column that is given as a masked array: true in the rows that hold a value."""
    if not values.ndim:
        return None
    hidden = np.ma.getmaskarray(values).reshape(len(values), math.prod(values.shape[1:]))
    some, every = np.logical_or.reduce(hidden, axis=1), np.logical_and.reduce(hidden, axis=1)
    if (some & ~every).any():
        raise ContractError("", "a row is null as a whole: the mask of the array hides only some values of one")
    there: NDArray[np.bool_] = np.logical_not(some)
    return there


class Block:
    """A table: `block["x"]` is the array of column `x`, `len(block)` its number of rows, iterating gives column names.

    Where a column has nulls, `block["x"]` has NaN there for real numbers, and is a `numpy.ma.MaskedArray` of any other
    dtype; without nulls it is the array itself. `block.stored("x")` is the array as it is on disk in either case,
    `block.validity("x")` the mask. `block.columns` is the mapping of names to `Column`.

    `count` is needed only when there are no columns. `structural_shape` must multiply to the count. `targets` maps a
    referencing column to the block whose rows it names (`"atoms"`, or `"/system/atoms"` in another section).
    `attributes` are group attributes this version does not know, carried as they are.
    """

    def __init__(
        self,
        columns: Mapping[str, Column | Any] | None = None,
        *,
        count: int | None = None,
        structural_shape: tuple[int, ...] | None = None,
        targets: Mapping[str, str] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.columns: dict[str, Column] = {}
        self.structural_shape = None if structural_shape is None else tuple(_whole(n) for n in structural_shape)
        self.targets: dict[str, str] = dict(targets or {})
        self.attributes: dict[str, Any] = dict(attributes or {})
        self._count = None if count is None else _whole(count)
        for name, column in (columns or {}).items():
            self.columns[name] = column if isinstance(column, Column) else _column(name, column)

    @property
    def count(self) -> int:
        """Number of rows."""
        if self._count is not None:
            return self._count
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def validity(self, name: str) -> NDArray[np.bool_]:
        """Return the mask of a column: all true where the column has none."""
        mask = self.columns[name].validity
        return np.ones(self.count, dtype=np.bool_) if mask is None else mask

    def check(self, node: str, *, name: str | None = None) -> None:
        """Refuse names, dtypes, lengths, shapes and targets that break the contract. `node` is the block's path."""
        if name is not None:
            check_name(name, node)
        if self.count < 0:
            raise ContractError(node, "a block's count is not negative", found=str(self.count))
        if self.structural_shape is not None and (
            any(n < 0 for n in self.structural_shape) or math.prod(self.structural_shape) != self.count
        ):
            raise ContractError(
                node,
                "the structural shape does not multiply to the count",
                found=str(list(self.structural_shape)),
                expected=str(self.count),
            )
        for key, column in self.columns.items():
            here = f"{node}/{key}"
            check_name(key, here)
            if key == "_validity":
                raise ContractError(here, "the name is reserved for the masks of a block")
            if len(column) != self.count:
                raise ContractError(
                    here, "a column has one row per row of its block", found=str(len(column)), expected=str(self.count)
                )
            check_standard_dtype(key, column.dtype, here, column.trailing)
            if column.precision is not None:
                check_precision(column.precision, column.dtype, here)
        for key, target in self.targets.items():
            check_target(target, f"{node}/{key}")
            if key not in self.columns:
                raise ContractError(node, f"targets names a column that does not exist: {key!r}")
            if self.columns[key].dtype != "u64":
                raise ContractError(
                    f"{node}/{key}", "a row reference is u64", found=self.columns[key].dtype, expected="u64"
                )

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self._named(name)
        return with_missing(column.values, column.validity)

    def stored(self, name: str) -> NDArray[Any]:
        """Return the array of a column as it is on disk: where a row is null, what stands there means nothing."""
        return self._named(name).values

    def _named(self, name: str) -> Column:
        try:
            return self.columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; the block has {', '.join(self.columns) or 'none'}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        """Return equal count, shape, targets and columns; the order of columns does not count."""
        if not isinstance(other, Block):
            return NotImplemented
        return (
            self.count == other.count
            and self.structural_shape == other.structural_shape
            and self.targets == other.targets
            and self.columns == other.columns
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}: {c.dtype}{''.join(f'[{n}]' for n in c.trailing)}" for k, c in self.columns.items())
        return f"Block({self.count} rows; {inner})"


def _column(name: str, values: Any) -> Column:
    masked = isinstance(values, np.ma.MaskedArray)
    return Column(values if masked else as_values(values, node=name))


def _whole(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ContractError("", "a number of rows is an integer", found=repr(value)) from None


def _check_attributes(attributes: Mapping[str, Any], reserved: frozenset[str], node: str) -> None:
    for key in attributes:
        if key in reserved:
            raise ContractError(node, f"the attribute {key!r} has a meaning of its own and cannot be set freely")
    check_json(dict(attributes), node)


def _matrix(values: Any) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


@dataclass
class Box:
    """A triclinic cell: `vectors` f64 3×3 with the lattice vectors as **columns**, `origin` f64[3], `boundary` bool[3].

    With `defined=False` there is no cell: the vectors are the identity and no axis is periodic.
    """

    vectors: NDArray[np.float64]
    origin: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    boundary: NDArray[np.bool_] = field(default_factory=lambda: np.ones(3, dtype=np.bool_))
    defined: bool = True

    def __post_init__(self) -> None:
        self.vectors, self.origin = _matrix(self.vectors), _matrix(self.origin)
        self.boundary = np.array(self.boundary, dtype=np.bool_)
        if self.vectors.shape != (3, 3) or self.origin.shape != (3,) or self.boundary.shape != (3,):
            raise ContractError("box", "vectors are 3×3, origin and boundary have 3 values")
        if not self.defined:
            if self.boundary.any():
                self.boundary = np.zeros(3, dtype=np.bool_)
            self.vectors = np.eye(3)

    @classmethod
    def undefined(cls, origin: Any = (0.0, 0.0, 0.0)) -> Box:
        """Return a reference point without a cell."""
        return cls(np.eye(3), _matrix(origin), np.zeros(3, dtype=np.bool_), defined=False)

    def __eq__(self, other: object) -> bool:
        """Return equal bit for bit, defaults filled in."""
        if not isinstance(other, Box):
            return NotImplemented
        return (
            self.defined == other.defined
            and same_bits(self.vectors, other.vectors)
            and same_bits(self.origin, other.origin)
            and same_bits(self.boundary, other.boundary)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(eq=False, repr=False)
class Frame:
    """A snapshot: blocks by name, a typed meta document, an optional box; `step` and `time` when of a trajectory.

    `frame["atoms"]["x"]` is a numpy array, `frame.positions` f64[n,3]. A per-step key that is missing in a frame of a
    trajectory is not in its `meta`. `attributes` holds what a store has beside what this version knows, where
    no block or column carries it: node path below the section ("box/vectors", "atoms/_validity") → attributes.
    """

    blocks: dict[str, Block] = field(default_factory=dict)
    meta: Meta = field(default_factory=Meta)
    box: Box | None = None
    step: int | None = None
    time: float | None = None
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.meta, Meta):
            self.meta = Meta(self.meta)

    def __getitem__(self, name: str) -> Block:
        try:
            return self.blocks[name]
        except KeyError:
            raise KeyError(f"no block {name!r}; the frame has {', '.join(self.blocks) or 'none'}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.blocks

    def __iter__(self) -> Iterator[str]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def __eq__(self, other: object) -> bool:
        """Return equal blocks, tagged meta, box, step and time, bit for bit; the order of blocks does not count."""
        if not isinstance(other, Frame):
            return NotImplemented
        return (
            self.blocks == other.blocks
            and self.meta == other.meta
            and self.box == other.box
            and self.step == other.step
            and (self.time is None) == (other.time is None)
            and (self.time is None or other.time is None or same_value(self.time, other.time, "f64"))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        blocks = ", ".join(f"{name}: {count} rows" for name, count in self.rows.items()) or "no blocks"
        return f"Frame({blocks}; meta: {', '.join(self.meta) or 'none'})"

    def check(self, node: str = "frame", absolute: Mapping[str, int] | None = None) -> None:
        """Refuse blocks and references that break the contract. `node` is the section ("frame", "system").

        `absolute` has the row counts other sections are referenced by, as `check_references` takes them.
        """
        for name, block in self.blocks.items():
            if name == "box":
                raise ContractError(f"{node}/box", "the name is reserved for the cell, which is no block")
            block.check(f"{node}/{name}", name=name)
        self.check_attributes(node)
        check_references(node, self.blocks, self.rows, absolute)

    def check_attributes(self, node: str = "frame") -> None:
        """Refuse attributes that are not plain finite JSON, or have a meaning of their own."""
        for name, block in self.blocks.items():
            _check_attributes(block.attributes, BLOCK_ATTRIBUTES, f"{node}/{name}")
            for key, column in block.columns.items():
                _check_attributes(column.attributes, COLUMN_ATTRIBUTES, f"{node}/{name}/{key}")
        for path, attributes in self.attributes.items():
            # on another node it says nothing
            reserved = frozenset({"cell_defined"} if path == "box" else ())
            _check_attributes(attributes, reserved, f"{node}/{path}")

    @property
    def rows(self) -> dict[str, int]:
        """Block → number of rows."""
        return {name: block.count for name, block in self.blocks.items()}

    @property
    def positions(self) -> NDArray[np.float64] | None:
        """Positions f64[atoms, 3] of `x y z` in a new array, NaN where null; None where the frame has none."""
        return self._vectors(("x", "y", "z"))

    @property
    def velocities(self) -> NDArray[np.float64] | None:
        """Velocities f64[atoms, 3] of `vx vy vz` in a new array, NaN where null; None where the frame has none."""
        return self._vectors(("vx", "vy", "vz"))

    @property
    def forces(self) -> NDArray[np.float64] | None:
        """Forces f64[atoms, 3] of `fx fy fz` in a new array, NaN where null; None where the frame has none."""
        return self._vectors(("fx", "fy", "fz"))

    def _vectors(self, names: tuple[str, str, str]) -> NDArray[np.float64] | None:
        """Return three columns of the block `atoms` side by side."""
        atoms = self.blocks.get("atoms")
        if atoms is None or not all(name in atoms.columns for name in names):
            return None
        return np.stack([atoms[name] for name in names], axis=1)


def check_target(target: Any, node: str) -> None:
    """Refuse a `targets` entry that is neither `<block>` nor `/system/<block>` nor `/frame/<block>`."""
    if isinstance(target, str):
        if target.startswith("/"):
            parts = target.split("/")
            if len(parts) == 3 and parts[1] in ("system", "frame") and parts[2]:
                return
        elif target and "/" not in target:
            return
    raise ContractError(node, "a target is <block>, /system/<block> or /frame/<block>", found=repr(target))


def references(columns: Mapping[str, Any], targets: Mapping[str, str]) -> dict[str, str]:
    """Return column → target for every referencing column of a block: the declared ones and the standard endpoints."""
    found = {name: "atoms" for name in ENDPOINTS if name in columns}
    found.update(targets)
    return found


def check_references(
    node: str, blocks: Mapping[str, Block], rows: Mapping[str, int], absolute: Mapping[str, int] | None = None
) -> None:
    """Refuse references out of range or to a block that is not there.

    `rows` has the row count of every block of the container. `absolute` has those of the blocks of other sections by
    their absolute target ("/system/atoms"), and an entry of any value for each section that is there ("/system"): a
    reference into a section that is not there goes unchecked.
    """
    for name, block in blocks.items():
        if not block.count:
            continue
        for key, target in references(block.columns, block.targets).items():
            column = block.columns[key]
            here = f"{node}/{name}/{key}"
            known = (absolute or {}) if target.startswith("/") else rows
            limit = known.get(target)
            if limit is None:
                if target.startswith("/") and target.rpartition("/")[0] not in known:
                    continue
                raise missing_target(here, target)
            if column.dtype != "u64":
                raise ContractError(here, "a row reference is u64", found=column.dtype, expected="u64")
            values = column.values if column.validity is None else column.values[column.validity]
            if values.size and int(values.max()) >= limit:
                raise out_of_range(here, target, int(values.max()), limit)


def missing_target(node: str, target: str, where: str = "") -> ContractError:
    """Return the fault of references into a block that is not there; `where` says at which frame."""
    return ContractError(node, f"references rows of the block {target!r}, which is not there{where}")


def out_of_range(node: str, target: str, found: int, limit: int, where: str = "") -> ContractError:
    """Return the fault of a reference beyond the rows of a block; `where` says in which row, or at which frame."""
    return ContractError(
        node, f"a reference into {target!r} is out of range{where}", found=str(found), expected=f"less than {limit}"
    )
