"""The section `forcefield`: its blocks as they are stored, its document and tables, what the system takes from them.

What breaks a rule is an error; numbers nobody can price, names that lead nowhere and units that are none are warnings.
Source: Force field.
"""

from __future__ import annotations

from molrec_convert.errors import ContractError
from molrec_convert.inspect.tree.nodes import Node, children_of, read_node
from molrec_convert.inspect.validation.arrays import CheckedArray, scan_column
from molrec_convert.inspect.validation.findings import Findings
from molrec_convert.inspect.validation.frames import CheckedBlock, FrameChecks
from molrec_convert.inspect.validation.store import check_group, note_unknown
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.forcefield.findings import remarks
from molrec_convert.model.forcefield.linking import resolve
from molrec_convert.model.record import check_version
from molrec_convert.plugins import style_registry
from molrec_convert.stores.zarr.sections.frames import read_frame, read_tables
from molrec_convert.stores.zarr.v3.storage import Storage, read_document

__all__ = ["check_forcefield"]

_SECTION = "forcefield"


def check_forcefield(storage: Storage, root: Node, frames: FrameChecks, findings: Findings) -> None:
    """Everything about the force field; `frames` knows the blocks of `system`."""
    node = read_node(storage, _SECTION) if _SECTION in root.folders else Node(_SECTION, None)
    if node.kind != "group":
        return
    before = len(findings.items)
    check_group(node, findings)
    if "_meta_types" in node.attributes:
        findings.warning(_SECTION, "the document is plain JSON, its keys have no tags: found _meta_types")
    sound = _check_blocks(storage, node, frames, findings)
    if not sound or findings.has_error(_SECTION, before):
        return
    document, frame = read_tables(storage)
    forcefield = ForceField.from_parts(
        document, frame.blocks, molrec_version=_version(storage), attributes=frame.attributes
    )
    registry = style_registry()
    for fault in forcefield.faults(_SECTION, registry):
        findings.raised(_SECTION, fault)
    if findings.has_error(_SECTION, before):
        return
    for remark in remarks(forcefield, registry, _SECTION):
        findings.warning(remark.node, remark.text)
    if "system" in frames.blocks and _is_sound(frames.blocks["system"], findings):
        for remark in resolve(read_frame(storage, "system"), forcefield, registry).remarks:
            findings.warning(remark.node, remark.text)


def _check_blocks(storage: Storage, node: Node, frames: FrameChecks, findings: Findings) -> bool:
    """The blocks as they are stored, decoded once; whether they may be held in memory."""
    blocks, known = [], set()
    for child in children_of(storage, node):
        if child.kind == "group" and child.name != "box":
            known.add(child.name)
            with findings.guard(child.key):
                blocks.append(frames.check_block(child))
    note_unknown(storage, node, known, findings)
    for block in blocks:
        for name, array in block.columns.items():
            with findings.guard(array.node):
                scan_column(array, block.masks.get(name), None, findings)
        for mask in block.masks.values():
            mask.scan()
    return all(_is_backed(array, findings) for block in blocks for array in _arrays(block))


def _is_backed(array: CheckedArray, findings: Findings) -> bool:
    if array.backed:
        return True
    findings.error(array.node, f"claims {array.rows} rows, far more than are stored")
    return False


def _is_sound(blocks: dict[str, CheckedBlock], findings: Findings) -> bool:
    """Whether `system` is in order, and what is looked at of it may be held in memory."""
    if findings.has_error("system"):
        return False
    return all(array.backed for block in blocks.values() for array in _arrays(block) if array.dtype != "f64")


def _arrays(block: CheckedBlock) -> list[CheckedArray]:
    return [*block.columns.values(), *block.masks.values()]


def _version(storage: Storage) -> int | None:
    """The version the definitions depend on; one that is none is a finding of `meta`."""
    try:
        meta = read_document(storage, "meta")
        return None if meta is None else check_version(meta["attributes"])
    except ContractError:
        return None
