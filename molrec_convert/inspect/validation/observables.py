"""The section `observables`: arrays and documents in pairs. Source: Results, "observables"."""

from __future__ import annotations

from molrec_convert.inspect.tree.nodes import Node, children_of, read_node
from molrec_convert.inspect.validation.arrays import CheckedArray, load_array
from molrec_convert.inspect.validation.findings import Findings
from molrec_convert.inspect.validation.store import check_group, note_unknown
from molrec_convert.model.names import name_fault
from molrec_convert.model.results.observables import metadata_faults
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["check_observables"]

_SECTION = "observables"
_TEXTS = ("unit", "sampling")


def check_observables(storage: Storage, root: Node, findings: Findings) -> None:
    """Everything about the observables."""
    node = read_node(storage, _SECTION) if _SECTION in root.folders else Node(_SECTION, None)
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
        findings.error(f"{_SECTION}/meta/{name}", "the document has no array in observables")


def _documents(storage: Storage, section: Node, findings: Findings) -> dict[str, Node]:
    """The groups of documents by name, each held against what it must say."""
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
        for fault in metadata_faults(child.attributes, child.name):
            findings.raised(child.key, fault)
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
    """Frames of the trajectory, None when there is none that says."""
    if "trajectory" not in root.folders:
        return None
    nstep = read_node(storage, "trajectory").attributes.get("nstep")
    return nstep if type(nstep) is int else None
