"""The documents `meta`, `method` and `status`. Source: Record, "meta" and "Root and sections"."""

from __future__ import annotations

from typing import Any

from molrec_convert.errors import ContractError
from molrec_convert.inspect.tree.nodes import Node, children_of, read_node
from molrec_convert.inspect.validation.arrays import CheckedArray, load_array, scan_column
from molrec_convert.inspect.validation.findings import Findings, check_group, note_unknown
from molrec_convert.inspect.validation.frames import CheckedBlock, FrameChecks
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.forcefield.findings import remarks
from molrec_convert.model.forcefield.linking import resolve
from molrec_convert.model.names import name_fault
from molrec_convert.model.record import check_version
from molrec_convert.model.results.events import is_timestamp
from molrec_convert.model.results.observables import metadata_faults
from molrec_convert.plugins import style_registry
from molrec_convert.stores.zarr.sections.frames import read_frame, read_tables
from molrec_convert.stores.zarr.v3.storage import Storage, read_document

__all__ = ["check_documents", "check_forcefield", "check_meta", "check_observables"]


def check_documents(storage: Storage, root: Node, findings: Findings) -> None:
    """Each document section that is there."""
    checks = {"meta": check_meta, "method": _check_method, "status": _check_status}
    for name, check in checks.items():
        if name not in root.folders:
            continue
        node = read_node(storage, name)
        if node.kind == "group":
            check_group(node, findings)
            check(node.attributes, findings)
            note_unknown(storage, node, set(), findings)


def check_meta(document: dict[str, Any], findings: Findings, node: str = "meta") -> None:
    """The keys of a record's meta document that have a form of their own."""
    with findings.guard(node):
        check_version(document, node)
    for key, required, optional in (("creator", "name", "version"), ("author", "name", "email")):
        value = document.get(key)
        if value is None:
            continue
        if not isinstance(value, dict) or not isinstance(value.get(required), str):
            findings.error(node, f"{key} is not an object with a {required!r}")
        elif not isinstance(value.get(optional, ""), str):
            findings.error(node, f"the {optional} of {key} is not a text")
    for key in ("record_id", "content_hash"):
        if not isinstance(document.get(key, ""), (str, type(None))):
            findings.error(node, f"{key} is not a text")
    stamp = document.get("created_at")
    if stamp is not None and not is_timestamp(stamp):
        findings.error(node, f"created_at is not an RFC 3339 time with an offset: found {stamp!r}")
    modules = document.get("modules")
    if modules is not None and not (isinstance(modules, dict) and all(map(_is_module, modules.values()))):
        findings.error(node, "modules does not map names to {version: [major, minor]}")


def _is_module(module: Any) -> bool:
    version = module.get("version") if isinstance(module, dict) else None
    return isinstance(version, list) and len(version) == 2 and all(type(n) is int and n >= 0 for n in version)


def _check_method(document: dict[str, Any], findings: Findings) -> None:
    for key in ("type", "description"):
        _check_text(document, key, "method", findings)
    engine = document.get("engine")
    if not isinstance(engine, dict):
        findings.error("method", "the document has no 'engine'")
    elif not isinstance(engine.get("name"), str):
        findings.error("method", "the engine has no 'name'")
    elif not isinstance(engine.get("version"), (str, type(None))):
        findings.error("method", f"the version of the engine is not a text: found {engine['version']!r:.60}")
    if document.get("type") == "workflow":
        _check_workflow(document, findings)


def _check_workflow(document: dict[str, Any], findings: Findings) -> None:
    """The keys of a workflow: the names of its stages in order, and the stages."""
    order, stages = document.get("order"), document.get("stages")
    for key in ("order", "stages"):
        if document.get(key) is None:
            findings.warning("method", f"a workflow states its {key}")
    if order is not None and not (isinstance(order, list) and all(isinstance(name, str) for name in order)):
        findings.error("method", f"order is not a list of texts: found {order!r:.60}")
    if stages is not None and not isinstance(stages, (dict, list)):
        findings.error("method", f"stages are neither an object nor a list: found {stages!r:.60}")
    elif isinstance(order, list) and isinstance(stages, dict):
        for name in order:
            if isinstance(name, str) and name not in stages:
                findings.error("method", f"order names a stage there is none of: {name!r:.60}")


def _check_status(document: dict[str, Any], findings: Findings) -> None:
    _check_text(document, "state", "status", findings)
    for key in ("stage", "message"):
        if not isinstance(document.get(key), (str, type(None))):
            findings.error("status", f"{key} is not a text: found {document[key]!r:.60}")
    for key in ("epoch", "global_step"):
        if document.get(key) is not None and type(document[key]) is not int:
            findings.error("status", f"{key} is not an integer: found {document[key]!r:.60}")
    for key in ("started_at", "updated_at", "finished_at"):
        if document.get(key) is not None and not is_timestamp(document[key]):
            findings.error("status", f"{key} is not an RFC 3339 time with an offset: found {document[key]!r:.60}")
    error = document.get("error")
    if error is None:
        return
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        findings.error("status", f"error is not an object with a 'message': found {error!r:.60}")
        return
    for key in ("type", "traceback"):
        if not isinstance(error.get(key), (str, type(None))):
            findings.error("status", f"the {key} of error is not a text: found {error[key]!r:.60}")


def _check_text(document: dict[str, Any], key: str, node: str, findings: Findings) -> None:
    if key not in document:
        findings.error(node, f"the document has no {key!r}")
    elif not isinstance(document[key], str):
        findings.error(node, f"{key} is not a text: found {document[key]!r:.60}")


_TEXTS = ("unit", "sampling")


def check_observables(storage: Storage, root: Node, findings: Findings) -> None:
    """Everything about the observables."""
    node = read_node(storage, "observables") if "observables" in root.folders else Node("observables", None)
    if node.kind != "group":
        return
    check_group(node, findings)
    documents = _documents(storage, node, findings)
    frames = _frame_count(storage, root)
    known = {"meta"} if "meta" in node.folders else set()
    arrays = set()
    for child in children_of(storage, node):
        if child.kind != "array" or child.name == "meta":
            continue
        known.add(child.name)
        arrays.add(child.name)
        fault = name_fault(child.name)
        if fault is not None:
            findings.error(child.key, f"the name {fault} and cannot name a node")
        if child.name not in documents:
            findings.error(child.key, "the observable has no document in observables/meta")
        with findings.guard(child.key):
            array = load_array(storage, child, findings)
            if array is not None:
                array.scan()
                if child.name in documents:
                    _check_frames(array, documents[child.name], frames, findings)
    note_unknown(storage, node, known, findings)
    for name in documents.keys() - arrays:
        findings.error(f"observables/meta/{name}", "the document has no array in observables")


def _documents(storage: Storage, section: Node, findings: Findings) -> dict[str, Node]:
    """Return the groups of documents by name, each held against what it must say."""
    if "meta" not in section.folders:
        return {}
    node = read_node(storage, section.child("meta"))
    if node.kind != "group":
        findings.error(node.key, node.fault or "the name is reserved for the documents of the observables")
        return {}
    check_group(node, findings)
    found = {}
    for child in children_of(storage, node):
        if child.kind != "group":
            continue
        found[child.name] = child
        check_group(child, findings)
        findings.take(metadata_faults(child.attributes, child.name))
        for key in _TEXTS:
            if not isinstance(child.attributes.get(key), (str, type(None))):
                findings.warning(child.key, f"{key} is not a text: found {child.attributes[key]!r:.60}")
        note_unknown(storage, child, set(), findings)
    note_unknown(storage, node, set(found), findings)
    return found


def _check_frames(array: CheckedArray, document: Node, frames: int | None, findings: Findings) -> None:
    if document.attributes.get("time_dependent") is not True:
        return
    if not array.shape:
        findings.error(array.node, "a time-dependent observable has an axis of frames: found a single value")
    elif frames is not None and array.rows != frames:
        findings.warning(array.node, f"is time-dependent and has {array.rows} rows, the trajectory has {frames} frames")


def _frame_count(storage: Storage, root: Node) -> int | None:
    """Return frames of the trajectory, None when there is none that says."""
    if "trajectory" not in root.folders:
        return None
    nstep = read_node(storage, "trajectory").attributes.get("nstep")
    return nstep if type(nstep) is int else None


def check_forcefield(storage: Storage, root: Node, frames: FrameChecks, findings: Findings) -> None:
    """Everything about the force field; `frames` knows the blocks of `system`."""
    node = read_node(storage, "forcefield") if "forcefield" in root.folders else Node("forcefield", None)
    if node.kind != "group":
        return
    before = len(findings.items)
    check_group(node, findings)
    if "_meta_types" in node.attributes:
        findings.warning("forcefield", "the document is plain JSON, its keys have no tags: found _meta_types")
    sound = _check_blocks(storage, node, frames, findings)
    if not sound or findings.has_error("forcefield", before):
        return
    document, frame = read_tables(storage)
    forcefield = ForceField.from_parts(
        document, frame.blocks, molrec_version=_version(storage), attributes=frame.attributes
    )
    registry = style_registry()
    findings.take(forcefield.faults("forcefield", registry))
    if findings.has_error("forcefield", before):
        return
    for remark in remarks(forcefield, registry, "forcefield"):
        findings.warning(remark.node, remark.text)
    if "system" in frames.blocks and _is_sound(frames.blocks["system"], findings):
        for remark in resolve(read_frame(storage, "system"), forcefield, registry).remarks:
            findings.warning(remark.node, remark.text)


def _check_blocks(storage: Storage, node: Node, frames: FrameChecks, findings: Findings) -> bool:
    """Return the blocks as they are stored, decoded once; whether they may be held in memory."""
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
    """True if `system` is in order, and what is looked at of it may be held in memory."""
    if findings.has_error("system"):
        return False
    return all(array.backed for block in blocks.values() for array in _arrays(block) if array.dtype != "f64")


def _arrays(block: CheckedBlock) -> list[CheckedArray]:
    return [*block.columns.values(), *block.masks.values()]


def _version(storage: Storage) -> int | None:
    """Return the version the definitions depend on; one that is none is a finding of `meta`."""
    try:
        meta = read_document(storage, "meta")
        return None if meta is None else check_version(meta["attributes"])
    except ContractError:
        return None
