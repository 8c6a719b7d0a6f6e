"""Findings, and how what goes wrong while looking becomes one."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from molrec_convert.errors import ContractError, MolrecError
from molrec_convert.files.regular_files import open_regular
from molrec_convert.inspect.tree.nodes import Node, children_of, read_node
from molrec_convert.model.names import name_fault
from molrec_convert.model.tags import check_json
from molrec_convert.stores.zarr.v3.storage import Storage
from molrec_convert.stores.zarr.v3.zip_storage import entry_faults, packed_fault, read_entries, shown

__all__ = ["Finding", "Findings", "Severity", "check_root", "check_zip", "known_children", "note_unknown"]


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One fault of a store: the node it is at ("" is the root), and what is wrong there."""

    severity: Severity
    node: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.node or 'the record'}: {self.message}"


@dataclass
class Findings:
    """All findings so far, each once."""

    items: list[Finding] = field(default_factory=list)
    #: Whether another program wrote the record, which does not say which chunk files are missing by right.
    foreign: bool = False
    _seen: set[Finding] = field(default_factory=set, repr=False)

    def error(self, node: str, message: str) -> None:
        """A rule is broken."""
        self._add(Finding(Severity.ERROR, node, _one_line(message)))

    def warning(self, node: str, message: str) -> None:
        """Readers cope, but it should not be."""
        self._add(Finding(Severity.WARNING, node, _one_line(message)))

    def has_error(self, section: str, start: int = 0) -> bool:
        """True if there is an error in a section among the findings from the one at `start` on."""
        return any(
            item.severity is Severity.ERROR and re.split(r"[/.,]", item.node, maxsplit=1)[0] == section
            for item in self.items[start:]
        )

    @contextmanager
    def guard(self, node: str) -> Iterator[None]:
        """Take what is raised inside as an error at `node`, or at the node it names itself."""
        try:
            yield
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except Exception as error:
            self.raised(node, error)
            # Frames that hold the error, and memory of a mapped file with it, would wait for the garbage collector.
            raised: BaseException | None = error
            while raised is not None:
                raised.__traceback__ = None
                raised = raised.__context__

    def take(self, faults: Iterable[ContractError]) -> None:
        """Take faults of the contract as findings."""
        for fault in faults:
            self.raised(fault.node, fault)

    def raised(self, node: str, error: Exception) -> None:
        """Take what was raised at `node` as a finding."""
        place, text = node, str(error)
        if isinstance(error, ContractError) and error.node:
            place = error.node
            text = text.removeprefix(f"{error.node}: ")
        elif isinstance(error, OSError) and error.strerror:
            text = f"cannot be read: {error.strerror.lower()}"
        elif isinstance(error, MemoryError):
            text = "needs more memory than there is"
        elif isinstance(error, RecursionError):
            text = "is nested too deeply"
        elif not isinstance(error, (MolrecError, OSError)):
            text = f"cannot be read: {type(error).__name__}: {error}"
        self.error(place, text)

    def check_finite(self, document: Mapping[str, Any], node: str) -> None:
        """Attributes are plain finite JSON."""
        with self.guard(node):
            for key, value in document.items():
                check_json({key: None}, node)
                check_json(value, f"{node}.{key}" if node else key)

    def _add(self, finding: Finding) -> None:
        if finding not in self._seen:
            self._seen.add(finding)
            self.items.append(finding)


def _one_line(text: str) -> str:
    return " ".join(text.split())


SECTIONS = (
    "meta", "system", "frame", "trajectory", "forcefield", "observables", "method", "status", "metrics",
)  # fmt: skip
_SUFFICIENT = ("frame", "system", "trajectory", "forcefield", "status")


def check_zip(path: Path, findings: Findings) -> None:
    """Entries of a packed record: plain relative names, stored, sorted, no folders, each once."""
    descriptor = open_regular(path)
    try:
        entries, comment = read_entries(descriptor, path)
    finally:
        os.close(descriptor)
    for name, fault, _ in entry_faults(entries):
        findings.error(name, fault)
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED:
            name = shown(entry.orig_filename)
            findings.error(name, "the zip entry is compressed, a packed record stores its files as they are")
    names = [entry.orig_filename for entry in entries]
    gone = packed_fault(comment, names)
    if gone is not None:
        findings.error("", gone)
    if names != sorted(names):
        findings.warning("", "the zip entries are not sorted by name")


def check_root(storage: Storage, findings: Findings) -> Node | None:
    """Return the root group, None when there is none to look into."""
    root = read_node(storage, "")
    if root.kind is None:
        findings.error("", root.fault or "there is no zarr.json: this is not a Zarr V3 root")
        return None
    if root.kind == "array":
        findings.error("", "the root is an array, a record's is a group")
        return None
    check_group(root, findings)
    present = {child.name: child for child in children_of(storage, root)}
    sections = [name for name in SECTIONS if name in present]
    for name in sections:
        if present[name].kind != "group":
            findings.error(name, present[name].fault or "the section is not a Zarr group")
    if "meta" not in present:
        findings.warning("meta", "the section is missing, every record has one")
    if not any(name in present for name in _SUFFICIENT):
        findings.error("", f"the record has none of the sections {', '.join(_SUFFICIENT)}")
    note_unknown(storage, root, known_children(root, set(SECTIONS)), findings)
    return root


def check_group(node: Node, findings: Findings) -> None:
    """What holds for every group: finite attributes, no consolidated metadata."""
    findings.check_finite(node.attributes, node.key)
    if node.document.get("consolidated_metadata") is not None:
        findings.warning(node.key, "has consolidated metadata, which goes stale; readers of records ignore it")


def _held_a_node(storage: Storage, node: Node) -> bool:
    """True if a folder without metadata looks like an array's or a group's: chunks, or nodes, lie in it."""
    chunks = storage.children(node.child("c"))[1] if "c" in node.folders else []
    nodes = (storage.size(f"{node.child(name)}/zarr.json") for name in node.folders)
    return any(name.isdigit() for name in chunks) or any(size is not None for size in nodes)


def known_children(node: Node, names: set[str]) -> set[str]:
    """Return those of `names` that are folders of the node."""
    return names & set(node.folders)


def note_unknown(storage: Storage, node: Node, known: set[str], findings: Findings) -> None:
    """A warning for each child, and each plain file, of a node that is none of `known`."""
    for child in children_of(storage, node):
        if child.name in known:
            continue
        fault = name_fault(child.name)
        if fault is not None:
            findings.error(child.key, f"the name {fault} and cannot name a node")
        elif child.fault is not None:
            findings.error(child.key, child.fault)
        elif child.kind is None and not child.key.startswith("metrics/") and _held_a_node(storage, child):
            findings.error(child.key, "its zarr.json is gone: what lies in the folder is read by nobody")
        elif child.kind is None:
            findings.warning(child.key, "a folder without zarr.json is no Zarr node")
        else:
            findings.warning(child.key, f"this version does not know the {child.kind}, it is kept as it is")
    for name in node.files:
        if name in known:
            continue
        findings.warning(node.child(name), "a plain file that no section has, it is kept as it is")
