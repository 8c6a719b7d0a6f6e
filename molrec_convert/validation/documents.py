"""The documents `meta`, `method` and `status`. Source: Record, "meta" and "Root and sections"."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from molrec_convert.model.record import check_version
from molrec_convert.stores.zarr.storage import Storage
from molrec_convert.tree.nodes import Node, read_node
from molrec_convert.validation.findings import Findings
from molrec_convert.validation.store import check_group, note_unknown

__all__ = ["check_documents"]

_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")


def check_documents(storage: Storage, root: Node, findings: Findings) -> None:
    """Each document section that is there."""
    checks = {"meta": _check_meta, "method": _check_method, "status": _check_status}
    for name, check in checks.items():
        if name not in root.folders:
            continue
        node = read_node(storage, name)
        if node.kind == "group":
            check_group(node, findings)
            check(node.attributes, findings)
            note_unknown(storage, node, set(), findings)


def _check_meta(document: dict[str, Any], findings: Findings) -> None:
    with findings.guard("meta"):
        check_version(document)
    for key, required, optional in (("creator", "name", "version"), ("author", "name", "email")):
        value = document.get(key)
        if value is None:
            continue
        if not isinstance(value, dict) or not isinstance(value.get(required), str):
            findings.error("meta", f"{key} is not an object with a {required!r}")
        elif not isinstance(value.get(optional, ""), str):
            findings.error("meta", f"the {optional} of {key} is not a text")
    for key in ("record_id", "content_hash"):
        if not isinstance(document.get(key, ""), (str, type(None))):
            findings.error("meta", f"{key} is not a text")
    stamp = document.get("created_at")
    if stamp is not None and not _is_timestamp(stamp):
        findings.error("meta", f"created_at is not an RFC 3339 time with an offset: found {stamp!r}")
    modules = document.get("modules")
    if modules is not None and not (isinstance(modules, dict) and all(map(_is_module, modules.values()))):
        findings.error("meta", "modules does not map names to {version: [major, minor]}")


def _is_timestamp(stamp: Any) -> bool:
    if not isinstance(stamp, str) or not _RFC3339.fullmatch(stamp):
        return False
    try:
        # A leap second is legal and unknown to datetime.
        datetime.fromisoformat(re.sub(r":60(?=[.Zz+-])", ":59", stamp).upper().replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


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


def _check_status(document: dict[str, Any], findings: Findings) -> None:
    _check_text(document, "state", "status", findings)


def _check_text(document: dict[str, Any], key: str, node: str, findings: Findings) -> None:
    if key not in document:
        findings.error(node, f"the document has no {key!r}")
    elif not isinstance(document[key], str):
        findings.error(node, f"{key} is not a text: found {document[key]!r:.60}")
