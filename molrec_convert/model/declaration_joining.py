"""Several declarations as one that records of all of them follow: what some of them lack is missing there.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import BlockUpdates, FrameBatch
from molrec_convert.model.collection.declaration import joined_block
from molrec_convert.model.declaration import (
    NO_FILL,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    MetaDeclaration,
)
from molrec_convert.model.dtypes import empty
from molrec_convert.model.names import ENDPOINTS, IDENTITY_COLUMNS
from molrec_convert.model.trajectory import MappedTrajectory, Trajectory
from molrec_convert.report import Report

__all__ = [
    "following",
    "has_to_be_there",
    "joined_declaration",
    "joined_sources",
    "missing_parts",
    "null_columns",
]


def has_to_be_there(column: str) -> bool:
    """True if a column says what the rows of a block are, so that it cannot be missing in some records of a collection.

    It may be of the system where the trajectory does not have it.
    """
    return column in ENDPOINTS or column in IDENTITY_COLUMNS


def joined_declaration(declarations: Iterable[Declaration]) -> Declaration:
    """Return what records of all `declarations` can follow together: see `following`.

    A column that some of those lack which have its block is nullable, a per-step key that some lack may be missing;
    one whose tag cannot express that is left out. Raises `ContractError` where they disagree on anything else.
    """
    stated = [declaration for declaration in declarations if declaration.blocks or declaration.meta]
    blocks: dict[str, BlockDeclaration] = {}
    for declaration in stated:
        for name, block in declaration.blocks.items():
            known = blocks.get(name)
            if known is None:
                blocks[name] = replace(block, settles=None)
                continue
            ours, theirs = _with_nullable(block, known.columns), _with_nullable(known, block.columns)
            blocks[name] = joined_block(name, theirs, replace(ours, settles=None))
    meta: dict[str, MetaDeclaration] = {}
    for key in dict.fromkeys(key for declaration in stated for key in declaration.meta):
        entry = _joined_key(
            key, [declaration.meta[key] for declaration in stated if key in declaration.meta], len(stated)
        )
        if entry is not None:
            meta[key] = entry
    return Declaration(blocks, meta, dict(stated[0].extra) if stated else {})


def joined_sources(named: Sequence[tuple[str, Declaration]], report: Report) -> Declaration:
    """Return the joined declaration of sources, each with its name; what some of them lack is reported once.

    Raises `ContractError` that names the first source that cannot be joined with those before it.
    """
    try:
        joined = joined_declaration(declaration for _, declaration in named)
    except ContractError as error:
        text = str(error).removeprefix(f"{error.node}: ")
        raise ContractError(error.node, f"{_culprit(named)}: {text}") from None
    lacking = Counter(part for _, declaration in named for part in missing_parts(declaration, joined))
    for part, count in lacking.items():
        report.converted(f"trajectory/{part}", f"missing in {count} of {len(named)} sources")
    return joined


def _culprit(named: Sequence[tuple[str, Declaration]]) -> str:
    """Return the name of the first source whose declaration breaks a rule against those before it."""
    for last in range(2, len(named)):
        try:
            joined_declaration(declaration for _, declaration in named[:last])
        except ContractError:
            return named[last - 1][0]
    return named[-1][0]


def _with_nullable(block: BlockDeclaration, others: Mapping[str, ColumnDeclaration]) -> BlockDeclaration:
    """Return a block with the columns of another that it lacks, as far as these can be null."""
    lacking = {key: column for key, column in others.items() if key not in block.columns and not has_to_be_there(key)}
    columns = {**block.columns, **{key: replace(column, nullable=True) for key, column in lacking.items()}}
    return replace(block, columns=columns)


def _joined_key(key: str, entries: list[MetaDeclaration], count: int) -> MetaDeclaration | None:
    """Return what a key is where `entries` of `count` declarations state it; None where it is left out."""
    first = entries[0]
    for entry in entries:
        if (entry.dtype, entry.extra) != (first.dtype, first.extra):
            raise ContractError(
                f"trajectory/meta/{key}",
                "records declare the key differently",
                found=str(entry.to_json()),
                expected=str(first.to_json()),
            )
    if len(entries) < count or any(entry.has_missing for entry in entries):
        return MetaDeclaration.with_missing(first.dtype, first.extra)
    # every value is written where fills differ
    return first if all(entry == first for entry in entries) else MetaDeclaration(first.dtype, NO_FILL, first.extra)


def missing_parts(declaration: Declaration, joined: Declaration) -> list[str]:
    """Return the keys and columns ("atoms/fx") of `joined` that records declared as `declaration` lack."""
    if not (declaration.blocks or declaration.meta):
        return []
    found = [key for key in joined.meta if key not in declaration.meta]
    for name, block in declaration.blocks.items():
        found += [f"{name}/{key}" for key in joined.blocks[name].columns if key not in block.columns]
    return found


def following(trajectory: Trajectory, joined: Declaration) -> Trajectory:
    """Return a trajectory under a joined declaration: what it lacks is missing, keys that are left out are left out."""
    own = trajectory.declaration
    blocks = {name: replace(joined.blocks[name], rows=block.rows) for name, block in own.blocks.items()}
    if own.meta == joined.meta and all(block.columns == own.blocks[name].columns for name, block in blocks.items()):
        return trajectory

    def change(batch: FrameBatch) -> FrameBatch:
        updates = {name: null_columns(found, blocks[name].columns) for name, found in batch.blocks.items()}
        meta = {key: batch.meta[key] for key in joined.meta if key in batch.meta}
        for key, entry in own.meta.items():
            if key in joined.meta and key not in meta:
                meta[key] = entry.repeated(batch.n_frames)
        return replace(batch, blocks=updates, meta=meta)

    return MappedTrajectory(trajectory, change, Declaration(blocks, dict(joined.meta), dict(joined.extra)), whole=True)


def null_columns(updates: BlockUpdates, columns: Mapping[str, ColumnDeclaration]) -> BlockUpdates:
    """Return updates with the columns they lack, null in every row, in the order of `columns`."""
    lacking = [key for key in columns if key not in updates.columns]
    if not lacking:
        return updates
    rows = int(updates.offset[-1])
    made = {key: empty(columns[key].dtype, (rows, *columns[key].trailing)) for key in lacking}
    masks = {key: np.zeros(rows, np.bool_) for key in lacking}
    whole = {**updates.columns, **made}
    ordered = {key: whole[key] for key in columns} | whole
    return BlockUpdates(updates.frames, updates.offset, ordered, {**updates.validity, **masks})
