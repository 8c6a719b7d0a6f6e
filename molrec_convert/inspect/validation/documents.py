"""The documents `meta`, `method` and `status`. Source: Record, "meta" and "Root and sections"."""

from __future__ import annotations

from typing import Any

from molrec_convert.inspect.tree.nodes import Node, read_node
from molrec_convert.inspect.validation.findings import Findings
from molrec_convert.inspect.validation.store import check_group, note_unknown
from molrec_convert.model.record import check_version
from molrec_convert.model.timestamps import is_timestamp
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["check_documents", "check_meta"]


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
