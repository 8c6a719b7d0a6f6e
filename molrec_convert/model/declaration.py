"""The declaration of a trajectory: every block, column and per-step key it may ever carry.

It is pinned when the trajectory is created and stored as the attribute `sequence_schema`. `rows` and `settles` are
known to a running conversion only and are never stored. Source: Trajectory, "sequence_schema".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model.dtypes import DTYPES, check_precision
from molrec_convert.model.frame import Frame, check_target
from molrec_convert.model.names import (
    PER_STEP_KEYS,
    RESERVED_BLOCKS,
    RESERVED_COLUMNS,
    check_name,
    check_standard_dtype,
)
from molrec_convert.model.tags import TAGS, canonical_json, from_typed_json, to_typed_json

__all__ = ["NO_FILL", "BlockDeclaration", "ColumnDeclaration", "Declaration", "MetaDeclaration"]


class _NoFill:
    """The absence of a fill: a frame that omits the key is refused (`None` is a fill of a `json` key)."""

    def __repr__(self) -> str:
        return "NO_FILL"

    def __reduce__(self) -> str:
        # copied or pickled it is still the one there is
        return "NO_FILL"


NO_FILL = _NoFill()


@dataclass(frozen=True)
class ColumnDeclaration:
    """dtype, shape of a row, whether rows may be null, the declared precision; `extra` keys are carried as they are."""

    dtype: str
    trailing: tuple[int, ...] = ()
    nullable: bool = False
    precision: float | None = None
    extra: dict[str, Any] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """Return the entry in `sequence_schema`."""
        document: dict[str, Any] = {"dtype": self.dtype, "trailing": list(self.trailing)}
        if self.nullable:
            document["nullable"] = True
        if self.precision is not None:
            document["precision"] = self.precision
        document.update(self.extra)
        return document

    def check(self, node: str) -> None:
        """Refuse an unknown dtype, a bad shape or a precision off an `f64`."""
        if self.dtype not in DTYPES:
            raise ContractError(node, "unknown dtype", found=repr(self.dtype), expected=", ".join(DTYPES))
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in self.trailing):
            raise ContractError(node, "trailing axes are non-negative integers", found=str(list(self.trailing)))
        if self.precision is not None:
            check_precision(self.precision, self.dtype, node)


@dataclass(frozen=True)
class BlockDeclaration:
    """One block: its columns and how its rows relate to others.

    `rows` is the row count of the representative frame (the largest known), which fixes the chunk extents; None when
    unknown. `settles`: when the block's only update turns out to be frame 0, a completed conversion moves its columns
    into this block of `system` and drops it from the declaration.
    """

    columns: dict[str, ColumnDeclaration] = field(default_factory=dict)
    structural_shape: tuple[int, ...] | None = None
    targets: dict[str, str] = field(default_factory=dict)
    aligned_with: str | None = None
    rows: int | None = None
    settles: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the entry in `sequence_schema`: optional keys only when set."""
        document: dict[str, Any] = {"columns": {name: column.to_json() for name, column in self.columns.items()}}
        if self.structural_shape is not None:
            document["structural_shape"] = list(self.structural_shape)
        if self.targets:
            document["targets"] = dict(self.targets)
        if self.aligned_with is not None:
            document["aligned_with"] = self.aligned_with
        document.update(self.extra)
        return document


@dataclass(frozen=True, eq=False)
class MetaDeclaration:
    """One per-step key: its tag, the value of a frame that omits it (`NO_FILL`: none may); `extra` keys are carried.

    A fill of NaN, or of null for `json`, stands for no value: in frames that have it the key is missing.
    """

    dtype: str
    fill: Any = NO_FILL
    extra: dict[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def with_missing(cls, dtype: str, extra: dict[str, Any] | None = None) -> MetaDeclaration | None:
        """Return the declaration of a key that is missing in some frames; None where the tag cannot express that."""
        tag = TAGS[dtype]
        if tag.dtype == "f64":
            return cls(dtype, [math.nan] * tag.width if tag.width else math.nan, extra or {})
        return cls(dtype, None, extra or {}) if dtype == "json" else None

    @property
    def has_missing(self) -> bool:
        """True if the key may be missing in a frame: its fill stands for no value."""
        if self.fill is NO_FILL:
            return False
        return self.fill is None if self.dtype == "json" else _is_nan(self.fill)

    def repeated(self, count: int) -> Any:
        """Return the fill in each of `count` frames, as a batch has it."""
        tag = TAGS[self.dtype]
        if tag.dtype is None:
            return [self.fill] * count
        one = np.array([self.fill], DTYPES[tag.dtype].numpy).reshape(1, *tag.trailing)
        return np.repeat(one, count, axis=0)

    def is_missing(self, value: Any) -> bool:
        """True if a frame with this value has none for the key."""
        if self.dtype == "json":
            return value is None and self.fill is None
        return _is_nan(value) and self.has_missing

    def to_json(self, node: str = "") -> dict[str, Any]:
        """Return the entry in `sequence_schema`."""
        document: dict[str, Any] = {"dtype": self.dtype}
        if self.fill is not NO_FILL:
            document["fill"] = self._fill_json(node)
        document.update(self.extra)
        return document

    def check(self, node: str) -> None:
        """Refuse an unknown tag, or a fill that the tag cannot hold (`null` is one of `json` only)."""
        if self.dtype not in TAGS:
            raise ContractError(node, "unknown meta tag", found=repr(self.dtype), expected=", ".join(TAGS))
        if self.fill is not NO_FILL:
            self._fill_json(node)

    def __eq__(self, other: object) -> bool:
        """Return equal tags, fills (bit for bit) and other keys."""
        if not isinstance(other, MetaDeclaration):
            return NotImplemented
        return canonical_json(self.to_json()) == canonical_json(other.to_json())

    def __hash__(self) -> int:
        return hash(self.dtype)

    def _fill_json(self, node: str) -> Any:
        if self.fill is None and self.dtype != "json":
            raise ContractError(node, "a null fill is for json keys only", found=self.dtype)
        return to_typed_json(self.fill, self.dtype, node)


@dataclass(frozen=True)
class Declaration:
    """Blocks and per-step keys of a trajectory, in the order they are stored."""

    blocks: dict[str, BlockDeclaration] = field(default_factory=dict)
    meta: dict[str, MetaDeclaration] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the attribute `sequence_schema`."""
        return {
            "blocks": {name: block.to_json() for name, block in self.blocks.items()},
            "meta": {key: meta.to_json(f"trajectory/meta/{key}") for key, meta in self.meta.items()},
            **self.extra,
        }

    @classmethod
    def from_json(cls, document: Any, node: str = "trajectory") -> Declaration:
        """Read and check a `sequence_schema`; unknown keys are kept."""
        top = _mapping(document, f"{node}: sequence_schema")
        blocks = {
            name: _block_from_json(entry, f"{node}/{name}")
            for name, entry in _mapping(top.get("blocks", {}), f"{node}: sequence_schema.blocks").items()
        }
        meta = {}
        for key, entry in _mapping(top.get("meta", {}), f"{node}: sequence_schema.meta").items():
            here = f"{node}/meta/{key}"
            entry = _mapping(entry, here)
            tag = entry.get("dtype")
            if not isinstance(tag, str) or tag not in TAGS:
                raise ContractError(here, "unknown meta tag", found=repr(tag), expected=", ".join(TAGS))
            fill: Any = NO_FILL
            if "fill" in entry:
                if entry["fill"] is None and tag != "json":
                    raise ContractError(here, "a null fill is for json keys only", found=tag)
                fill = from_typed_json(entry["fill"], tag, here)
            meta[key] = MetaDeclaration(tag, fill, _others(entry, "dtype", "fill"))
        declaration = cls(blocks, meta, _others(top, "blocks", "meta"))
        declaration.check(node)
        return declaration

    @classmethod
    def derive(cls, frames: Iterable[Frame], *, nullable: bool = False) -> Declaration:
        """Return the union of what `frames` present: blocks, columns, tags, masks, precisions, and each block's largest
        size.

        Blocks of one name must agree on columns and dtypes. With `nullable` every column may hold nulls. A key some
        frames lack may be missing where its tag can express that.
        """
        blocks: dict[str, BlockDeclaration] = {}
        meta: dict[str, MetaDeclaration] = {}
        count, stated = 0, Counter[str]()
        for frame in frames:
            count += 1
            stated.update(frame.meta.keys())
            for name, block in frame.blocks.items():
                columns = {
                    key: ColumnDeclaration(
                        column.dtype, column.trailing, nullable or column.validity is not None, column.precision
                    )
                    for key, column in block.columns.items()
                }
                known = blocks.get(name)
                if known is not None:
                    if {k: replace(c, nullable=False) for k, c in columns.items()} != {
                        k: replace(c, nullable=False) for k, c in known.columns.items()
                    }:
                        raise ContractError(f"trajectory/{name}", "frames disagree on the columns of the block")
                    if (block.structural_shape, block.targets) != (known.structural_shape, known.targets):
                        raise ContractError(
                            f"trajectory/{name}", "frames disagree on the structural shape or the targets of the block"
                        )
                    columns = {
                        k: replace(c, nullable=c.nullable or columns[k].nullable) for k, c in known.columns.items()
                    }
                blocks[name] = BlockDeclaration(
                    columns, block.structural_shape, block.targets, rows=max(block.count, (known and known.rows) or 0)
                )
            for key in frame.meta:
                meta[key] = _derived_key(key, frame.meta.tag(key), meta.get(key))
        for key, entry in meta.items():
            if stated[key] < count:
                meta[key] = MetaDeclaration.with_missing(entry.dtype) or entry
        return cls(blocks, meta)

    def check(self, node: str = "trajectory") -> None:
        """Refuse names, dtypes and relations between blocks that the contract forbids."""
        for name, block in self.blocks.items():
            here = f"{node}/{name}"
            check_name(name, here)
            if name in RESERVED_BLOCKS:
                raise ContractError(here, "the block name is reserved in a trajectory")
            for key, column in block.columns.items():
                at = f"{here}/{key}"
                check_name(key, at)
                if key in RESERVED_COLUMNS:
                    raise ContractError(at, "the column name is reserved in a trajectory")
                column.check(at)
                check_standard_dtype(key, column.dtype, at, column.trailing)
            if block.structural_shape is not None and any(n < 0 for n in block.structural_shape):
                raise ContractError(here, "a structural shape has no negative axis")
            for key, target in block.targets.items():
                check_target(target, f"{here}/{key}")
                if key not in block.columns:
                    raise ContractError(here, f"targets names a column that does not exist: {key!r}")
                if block.columns[key].dtype != "u64":
                    raise ContractError(f"{here}/{key}", "a row reference is u64", found=block.columns[key].dtype)
            if block.aligned_with is not None:
                self._check_alignment(name, block, here)
        for key, meta in self.meta.items():
            here = f"{node}/meta/{key}"
            check_name(key, here)
            meta.check(here)

    def _check_alignment(self, name: str, block: BlockDeclaration, here: str) -> None:
        target = self.blocks.get(block.aligned_with or "")
        if target is None or block.aligned_with == name:
            raise ContractError(here, f"is aligned with {block.aligned_with!r}, which is no other declared block")
        if target.aligned_with is not None:
            raise ContractError(here, f"is aligned with {block.aligned_with!r}, which is aligned itself")
        if block.structural_shape is not None:
            raise ContractError(here, "an aligned block has no structural shape")
        shared = set(block.columns) & set(target.columns)
        if shared:
            raise ContractError(
                here, f"shares the column {min(shared)!r} with the block {block.aligned_with!r} of its rows"
            )

    def select(self, columns: Iterable[str] | None) -> Declaration:
        """Return the declaration restricted to `columns`, each `"x"` (of any block) or `"atoms/x"`; None keeps
        everything.
        """
        if columns is None:
            return self
        wanted = list(columns)
        hit: set[str] = set()
        blocks = {}
        for name, block in self.blocks.items():
            kept = {}
            for key, column in block.columns.items():
                for pattern in (key, f"{name}/{key}"):
                    if pattern in wanted:
                        kept[key] = column
                        hit.add(pattern)
            if kept:
                blocks[name] = replace(
                    block, columns=kept, targets={k: t for k, t in block.targets.items() if k in kept}
                )
        self._refuse_missing([pattern for pattern in wanted if pattern not in hit])
        blocks = {
            name: block if block.aligned_with in blocks else replace(block, aligned_with=None)
            for name, block in blocks.items()
        }
        return replace(self, blocks=blocks)

    def with_precision(self, precision: Mapping[str, float]) -> Declaration:
        """Return the declaration with the precision of some columns set, named `"x"` (of any block) or `"atoms/x"`."""
        blocks = {}
        hit: set[str] = set()
        for name, block in self.blocks.items():
            columns = dict(block.columns)
            for key, column in columns.items():
                for pattern in (key, f"{name}/{key}"):
                    if pattern in precision:
                        value = check_precision(precision[pattern], column.dtype, f"trajectory/{name}/{key}")
                        columns[key] = replace(column, precision=value)
                        hit.add(pattern)
            blocks[name] = replace(block, columns=columns)
        self._refuse_missing([pattern for pattern in precision if pattern not in hit])
        return replace(self, blocks=blocks)

    def _refuse_missing(self, missing: list[str]) -> None:
        if missing:
            known = ", ".join(f"{n}/{c}" for n, b in self.blocks.items() for c in b.columns)
            raise UsageError(f"the trajectory has no column {missing[0]!r}; it has {known or 'none'}")

    @property
    def frame_bytes(self) -> int:
        """Bytes of one representative frame with every block presented (0 rows where `rows` is unknown)."""
        return sum(
            (block.rows or 0) * sum(DTYPES[c.dtype].itemsize * math.prod(c.trailing) for c in block.columns.values())
            for block in self.blocks.values()
        )


def _is_nan(value: Any) -> bool:
    """True if a value is NaN, or a vector of nothing else."""
    if isinstance(value, float):
        return value != value
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    return kind == "f" and isinstance(value, (list, np.ndarray)) and bool(np.isnan(value).all())


def _derived_key(key: str, tag: str, known: MetaDeclaration | None) -> MetaDeclaration:
    """Return the tag all frames can have: an integer among numbers is one of them."""
    if tag == "i64" and (key in PER_STEP_KEYS or (known is not None and known.dtype == "f64")):
        tag = "f64"
    if known is None or known.dtype == tag or (known.dtype == "i64" and tag == "f64"):
        return MetaDeclaration(tag)
    raise ContractError(f"trajectory/meta/{key}", "frames disagree on the tag", found=tag, expected=known.dtype)


def _others(document: dict[str, Any], *known: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in known}


def _mapping(document: Any, node: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ContractError(node, "is not a JSON object", found=type(document).__name__)
    return document


def _block_from_json(document: Any, node: str) -> BlockDeclaration:
    entry = _mapping(document, node)
    columns = {}
    for key, value in _mapping(entry.get("columns", {}), f"{node}: columns").items():
        here = f"{node}/{key}"
        column = _mapping(value, here)
        dtype, trailing = column.get("dtype"), column.get("trailing", [])
        if not isinstance(dtype, str) or not isinstance(trailing, list):
            raise ContractError(here, "a declared column has a dtype and a trailing shape", found=repr(value))
        nullable = column.get("nullable", False)
        if not isinstance(nullable, bool):
            raise ContractError(here, "nullable is true or false", found=repr(nullable))
        columns[key] = ColumnDeclaration(
            dtype,
            tuple(trailing),
            nullable,
            column.get("precision"),
            _others(column, "dtype", "trailing", "nullable", "precision"),
        )
        columns[key].check(here)
    shape = entry.get("structural_shape")
    if shape is not None and not (isinstance(shape, list) and all(type(n) is int for n in shape)):
        raise ContractError(node, "a structural shape is a list of integers", found=repr(shape))
    aligned = entry.get("aligned_with")
    if aligned is not None and not isinstance(aligned, str):
        raise ContractError(node, "aligned_with names a block", found=repr(aligned))
    return BlockDeclaration(
        columns,
        None if shape is None else tuple(shape),
        dict(_mapping(entry.get("targets", {}), f"{node}: targets")),
        aligned,
        extra=_others(entry, "columns", "structural_shape", "targets", "aligned_with"),
    )
