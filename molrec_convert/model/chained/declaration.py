"""What trajectories that follow one another in time declare together.

Blocks and per-step keys that all of them have must agree; what only some have is missing in the frames of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from molrec_convert.model.frame import Block
from molrec_convert.model.tags import canonical_json
from molrec_convert.report import Report

__all__ = ["chained_declaration"]

Named = tuple[str, Declaration]


def chained_declaration(
    parts: Sequence[Named], report: Report, constants: Sequence[Mapping[str, Block]] | None = None
) -> Declaration:
    """Return the declaration of all parts, each a name for messages and what it declares.

    `constants` are blocks, or columns of them, that hold in every frame of a part beside those it declares.

    A column that only some of the blocks of its name have may be null, a per-step key that only some parts have has a
    fill that says so: NaN, or null of a JSON document, which is what any other tag becomes. Raises `ContractError`
    where two parts contradict each other.
    """
    if constants is not None:
        parts = [
            (part, _with_constants(declared, more, parts))
            for (part, declared), more in zip(parts, constants, strict=True)
        ]
    blocks: dict[str, BlockDeclaration] = {}
    for name in dict.fromkeys(name for _, declared in parts for name in declared.blocks):
        blocks[name] = _block(name, parts, report)
    meta = {
        key: _key(key, parts, report) for key in dict.fromkeys(key for _, declared in parts for key in declared.meta)
    }
    extra: dict[str, Any] = {}
    for part, declared in parts:
        _take_extra(extra, declared.extra, "trajectory", part, report)
    declaration = Declaration(blocks, meta, extra)
    declaration.check()
    return declaration


def _with_constants(declared: Declaration, constants: Mapping[str, Block], parts: Sequence[Named]) -> Declaration:
    """Return a declaration with blocks and columns that hold in all frames; what is new is as others declare it."""
    blocks = dict(declared.blocks)
    for name, block in constants.items():
        known = blocks.get(name)
        if known is None:
            like = next(other.blocks[name] for _, other in parts if name in other.blocks)
            known = replace(like, columns={}, rows=block.count)
        columns = {
            key: ColumnDeclaration(column.dtype, column.trailing, column.validity is not None, column.precision)
            for key, column in block.columns.items()
        }
        blocks[name] = replace(known, columns={**columns, **known.columns})
    return replace(declared, blocks=blocks)


def _block(name: str, parts: Sequence[Named], report: Report) -> BlockDeclaration:
    here = f"trajectory/{name}"
    owners = [(part, declared.blocks[name]) for part, declared in parts if name in declared.blocks]
    first_part, first = owners[0]
    for part, block in owners[1:]:
        for what, mine, theirs in (
            ("structural shape", first.structural_shape, block.structural_shape),
            ("aligned block", first.aligned_with, block.aligned_with),
            ("targets", first.targets, block.targets),
        ):
            if mine != theirs:
                raise ContractError(
                    here, f"the {what} in {part} is not that in {first_part}", found=str(theirs), expected=str(mine)
                )
    names = dict.fromkeys(key for _, block in owners for key in block.columns)
    columns = {key: _column(f"{here}/{key}", key, owners, report) for key in names}
    settling = {block.settles for _, block in owners}
    if len(owners) < len(parts) and (first.aligned_with is not None or first.structural_shape is not None):
        # rows that have to be there in the frames of the others, too
        nullable = settling == {None}
        columns = {key: replace(column, nullable=nullable or column.nullable) for key, column in columns.items()}
    extra: dict[str, Any] = {}
    for part, block in owners:
        _take_extra(extra, block.extra, here, part, report)
    rows = [block.rows for _, block in owners if block.rows is not None]
    return replace(
        first,
        columns=columns,
        rows=max(rows, default=None),
        settles=settling.pop() if len(settling) == 1 else None,
        extra=extra,
    )


def _column(here: str, key: str, owners: Sequence[tuple[str, BlockDeclaration]], report: Report) -> ColumnDeclaration:
    """The declaration of a column; a precision that not all state is none, so that no value is rounded."""
    having = [(part, block.columns[key]) for part, block in owners if key in block.columns]
    first_part, first = having[0]
    extra: dict[str, Any] = {}
    for part, column in having:
        if (column.dtype, column.trailing) != (first.dtype, first.trailing):
            raise ContractError(
                here,
                f"the column in {part} is not what it is in {first_part}",
                found=f"{column.dtype}{list(column.trailing)}",
                expected=f"{first.dtype}{list(first.trailing)}",
            )
        _take_extra(extra, column.extra, here, part, report)
    precision = first.precision
    if any(column.precision != precision for _, column in having):
        precision = None
        report.converted(here, "states no precision: not all sources have the same; the values are as they are")
    nullable = len(having) < len(owners) or any(column.nullable for _, column in having)
    return ColumnDeclaration(first.dtype, first.trailing, nullable, precision, extra)


def _key(key: str, parts: Sequence[Named], report: Report) -> MetaDeclaration:
    here = f"trajectory/meta/{key}"
    having = [(part, declared.meta[key]) for part, declared in parts if key in declared.meta]
    first_part, first = having[0]
    tags = {entry.dtype for _, entry in having}
    tag = first.dtype
    if tags == {"i64", "f64"}:
        tag = "f64"
    elif len(tags) > 1:
        part, other = next((part, entry) for part, entry in having if entry.dtype != tag)
        raise ContractError(here, f"the tag in {part} is not that in {first_part}", found=other.dtype, expected=tag)
    extra: dict[str, Any] = {}
    for part, entry in having:
        _take_extra(extra, entry.extra, here, part, report)
    if len(having) == len(parts):
        if all(canonical_json(entry.to_json()) == canonical_json(first.to_json()) for _, entry in having):
            return MetaDeclaration(tag, first.fill, extra)
        if not any(entry.has_missing for _, entry in having):
            return MetaDeclaration(tag, NO_FILL, extra)
    made = MetaDeclaration.with_missing(tag, extra)
    if made is None:
        report.converted(here, f"is a JSON document: of the tag {tag} no value says that it is missing")
        made = MetaDeclaration("json", None, extra)
    return made


def _take_extra(taken: dict[str, Any], other: dict[str, Any], here: str, part: str, report: Report) -> None:
    """Take keys this version does not know; one that is said otherwise already is reported as dropped."""
    for key, value in other.items():
        if key not in taken:
            taken[key] = value
        elif canonical_json(taken[key]) != canonical_json(value):
            report.dropped(f"{here}: {key!r} of {part}", "another source says something else")
