"""How a record becomes a member of a collection: its snapshot a trajectory of one frame, what has no place reported.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from molrec_convert.errors import ContractError
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Column, Frame, references
from molrec_convert.model.names import IDENTITY_COLUMNS
from molrec_convert.model.record import Record
from molrec_convert.model.rules import Alignment
from molrec_convert.model.tags import Meta, same_value
from molrec_convert.model.trajectory import MemoryTrajectory
from molrec_convert.quantities.dimensions import units_object, written_out
from molrec_convert.report import Report

__all__ = [
    "RELATIONS",
    "as_member",
    "collection_units",
    "is_bare",
    "report_losses",
    "with_units",
]

#: Blocks that relate particles to each other, whatever the state.
RELATIONS = frozenset(
    {
        "angles",
        "bonds",
        "cmaps",
        "constraints",
        "dihedrals",
        "drudes",
        "exclusions",
        "impropers",
        "members",
        "pairs",
        "virtual_sites",
    }
)
#: The sections of a record that a member does not have.
_OTHER_SECTIONS = tuple(
    entry.name
    for entry in dataclasses.fields(Record)
    if entry.default is None
    and not entry.name.startswith("_")
    and entry.name not in ("system", "frame", "trajectory", "forcefield", "unknown", "path")
)
_others = operator.attrgetter(*_OTHER_SECTIONS)
_NO_OTHERS = (None,) * len(_OTHER_SECTIONS)
_all_others = operator.attrgetter(*_OTHER_SECTIONS, "frame", "forcefield", "unknown", "attributes")
_NOTHING_ELSE: tuple[Any, ...] = (*_NO_OTHERS, None, None, None, {})


def is_bare(record: Record) -> bool:
    """True if a record is a member as it stands: there is nothing in it but meta, system and trajectory.

    Attributes in its system, which a collection has no place for, are not looked at.
    """
    trajectory = record.trajectory
    if trajectory is None:
        return record.system is not None and _all_others(record) == _NOTHING_ELSE
    return not trajectory.attributes and _all_others(record) == _NOTHING_ELSE


def as_member(record: Record, report: Report | None = None, declaration: Declaration | None = None) -> Record:
    """Return the record with its `frame` as a trajectory of one frame: identity columns, relations and meta go to
    `system`.

    Reported as converted. A frame beside a trajectory has no place and is dropped; a record without a frame is itself.
    `declaration` is what the frame is declared as, where that is known; a frame outside it is refused.
    """
    if record.frame is None:
        return record
    report = Report() if report is None else report
    if record.trajectory is not None:
        report.dropped("frame", "a collection's record has one trajectory, and no frame beside it")
        return dataclasses.replace(record, frame=None, _close=None)
    Alignment(record.system).check_frame(record.frame)
    system, state = _divide(record.frame, record.system, report)
    report.converted("frame", "became a trajectory of one frame; identity columns, relations and meta belong to system")
    trajectory = MemoryTrajectory([state]) if declaration is None else MemoryTrajectory.of_frame(state, declaration)
    return dataclasses.replace(record, system=system, frame=None, trajectory=trajectory, _close=None)


def report_losses(record: Record, report: Report) -> None:
    """Report what a record holds and a collection has no place for."""
    system, trajectory = record.system, record.trajectory
    if system is not None and _has_attributes(system):
        _report_attributes("system", system.attributes, system.blocks, report)
    if trajectory is not None:
        for path in trajectory.attributes:
            report.dropped(f"attributes of trajectory/{path}".rstrip("/"), "a collection has no place for them")
    others = _others(record)
    if others != _NO_OTHERS:
        for section, content in zip(_OTHER_SECTIONS, others, strict=True):
            if content is not None:
                report.dropped(section, "a collection's records hold meta, system and trajectory")
    if record.attributes:
        report.dropped("attributes of the root", "a collection has no place for them")
    if record.unknown is not None:
        for node in dict.fromkeys(_node_of(key) for key in record.unknown.keys()):  # noqa: SIM118
            report.dropped(node, "a collection has no place for content this version does not know")


def _has_attributes(system: Frame) -> bool:
    if system.attributes:
        return True
    for block in system.blocks.values():
        for column in block.columns.values():
            if column.attributes:
                return True
    return False


def report_forcefield_losses(forcefield: ForceField, report: Report) -> None:
    """Report what a force field holds beside its document and tables."""
    _report_attributes("forcefield", forcefield.attributes, forcefield.tables, report)


def _report_attributes(
    section: str, attributes: Mapping[str, Any], blocks: Mapping[str, Block], report: Report
) -> None:
    for path in attributes:
        report.dropped(f"attributes of {section}/{path}", "a collection has no place for them")
    for name, block in blocks.items():
        for key, column in block.columns.items():
            if column.attributes:
                report.dropped(f"attributes of {section}/{name}/{key}", "a collection has no place for them")


def _node_of(key: str) -> str:
    """Return the node a file of a store belongs to."""
    return key.removesuffix("/zarr.json").partition("/c/")[0]


def _divide(frame: Frame, system: Frame | None, report: Report) -> tuple[Frame, Frame]:
    """Return what a snapshot says of what the particles are, with the `system` there was, and of the state they are
    in.
    """
    blocks: dict[str, Block] = {} if system is None else dict(system.blocks)
    state: dict[str, Block] = {}
    for name, block in frame.blocks.items():
        related = references(block.columns, block.targets)
        if name in RELATIONS or related:
            blocks[name] = _join(blocks.get(name), block, block.columns, name)
            continue
        kept = {key: c for key, c in block.columns.items() if key in IDENTITY_COLUMNS} if name == "atoms" else {}
        if kept or name == "atoms":
            blocks[name] = _join(blocks.get(name), block, kept, name)
        rest = {key: column for key, column in block.columns.items() if key not in kept}
        if rest or not block.columns:
            state[name] = _with_columns(block, rest)
            if block.attributes or any(c.attributes for c in rest.values()):
                report.dropped(f"attributes of frame/{name}", "a collection has no place for them")
    for path in frame.attributes:
        report.dropped(f"attributes of frame/{path}", "a collection has no place for them")
    for name in list(blocks):
        for target in references(blocks[name].columns, blocks[name].targets).values():
            if not target.startswith("/") and target not in blocks and target in state:
                # the rows stay referable: system says how many there are
                blocks[target] = Block(count=state[target].count)
    meta = Meta() if system is None else Meta(system.meta)
    _merge_meta(meta, frame.meta, report)
    attributes = {} if system is None else system.attributes
    box = None if system is None else system.box
    step = 0 if frame.step is None else frame.step
    return Frame(blocks, meta, box, attributes=attributes), Frame(state, Meta(), frame.box, step, frame.time)


def _join(known: Block | None, block: Block, columns: Mapping[str, Column], name: str) -> Block:
    """Return the block of `system` with more columns; the frame's targets count in `system` from now on."""
    targets = {key: target.removeprefix("/frame/") for key, target in block.targets.items() if key in columns}
    if known is None:
        return Block(
            columns,
            count=block.count,
            structural_shape=block.structural_shape,
            targets=targets,
            attributes=block.attributes,
        )
    if known.count != block.count:
        raise ContractError(f"frame/{name}", "the block has another row count than in system")
    joined = {**columns, **known.columns}
    ordered = {key: joined[key] for key in [*known.columns, *(k for k in columns if k not in known.columns)]}
    return Block(
        ordered,
        count=known.count,
        structural_shape=known.structural_shape or block.structural_shape,
        targets={**targets, **known.targets},
        attributes={**block.attributes, **known.attributes},
    )


def _with_columns(block: Block, columns: Mapping[str, Column]) -> Block:
    targets = {key: target for key, target in block.targets.items() if key in columns}
    return Block(columns, count=block.count, structural_shape=block.structural_shape, targets=targets)


def _merge_meta(meta: Meta, other: Meta, report: Report) -> None:
    for key in _keys(other):
        tag = other.tag(key)
        if key not in meta:
            meta.put(key, other[key], tag)
        elif meta.tag(key) != tag or not same_value(meta[key], other[key], tag):
            report.dropped(f"frame.{key}", "system states another value")


def _keys(meta: Meta) -> Iterable[str]:
    return list(meta)


def member_rows(record: Record, first_atoms: int | None) -> int:
    """Return `n_atoms`: the system's rows of `atoms`, else those of the first update, else 0."""
    atoms = None if record.system is None else record.system.blocks.get("atoms")
    return (first_atoms or 0) if atoms is None else atoms.count


def first_update_rows(record: Record) -> int | None:
    """Return rows of the first update of a trajectory's `atoms`, None where there is none or `system` tells anyway."""
    trajectory = record.trajectory
    if trajectory is None or "atoms" not in trajectory.declaration.blocks:
        return None
    if record.system is not None and "atoms" in record.system.blocks:
        return None
    columns = [f"atoms/{key}" for key in trajectory.declaration.blocks["atoms"].columns]
    for batch in trajectory.batches(columns=columns or None):
        updates = batch.blocks.get("atoms")
        if updates is not None and len(updates.frames):
            return int(updates.offset[1] - updates.offset[0])
    return None


def collection_units(units: Any) -> dict[str, str]:
    """Return a collection's units from a record's: those it states, a preset written out. Reduced units are none.

    The force is stated beside energy and length; angles have no unit here.
    """
    stated = units_object(units)
    found = written_out(stated)
    if "angle" not in stated:
        found.pop("angle", None)
    if "preset" in stated and "force" not in found and {"energy", "length"} <= found.keys():
        found["force"] = f"{found['energy']}/{found['length']}"
    return found


def with_units(system: Frame | None, units: Mapping[str, str]) -> Frame:
    """Return a record's system that states units, a `units` object."""
    meta = Meta() if system is None else Meta(system.meta)
    meta.put("units", dict(units), "json")
    return Frame(meta=meta) if system is None else dataclasses.replace(system, meta=meta)
