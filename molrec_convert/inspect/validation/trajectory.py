"""The section `trajectory`: commit marker, steps, times, per-step values, the cell; its blocks are checked beside it.

Source: Trajectory; Zarr V3 binding, "Commit protocol".
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from molrec_convert.files.json_text import read_json
from molrec_convert.inspect.tree.nodes import Node, children_of, read_node
from molrec_convert.inspect.validation.arrays import CheckedArray, load_array
from molrec_convert.inspect.validation.blocks import BlockChecks, ascending_frames
from molrec_convert.inspect.validation.findings import Findings, check_group, note_unknown
from molrec_convert.inspect.validation.frames import CELL, FrameChecks, cell_defined
from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration, Declaration, MetaDeclaration
from molrec_convert.model.names import RESERVED_BLOCKS, RESERVED_COLUMNS, name_fault
from molrec_convert.model.rules import step_faults
from molrec_convert.model.tags import TAGS, check_json
from molrec_convert.stores.zarr.v3.metadata import parse_array
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["TrajectoryChecks", "read_declaration"]


def read_declaration(storage: Storage, node: Node, findings: Findings) -> Declaration:
    """Return what the trajectory declares, as far as it is in order; worked out from its groups where it declares
    nothing.
    """
    schema = node.attributes.get("sequence_schema")
    if schema is None:
        findings.warning(node.key, "has no sequence_schema, the declaration is worked out from its groups")
        schema = _derived(storage, node, findings).to_json()
    try:
        return Declaration.from_json(schema)
    except Exception as error:
        first = error
    declaration = _salvaged(schema, findings)
    findings.raised(node.key, first)
    return declaration


def _salvaged(schema: Any, findings: Findings) -> Declaration:
    """Return the parts of a faulty schema that stand on their own; each that does not is an error."""
    document = schema if isinstance(schema, dict) else {}
    blocks: dict[str, BlockDeclaration] = {}
    meta: dict[str, MetaDeclaration] = {}
    aligned: dict[str, Any] = {}
    for name, entry in _items(document.get("blocks")):
        if isinstance(entry, dict) and "aligned_with" in entry:
            aligned[name] = entry["aligned_with"]
            entry = {key: value for key, value in entry.items() if key != "aligned_with"}
        with findings.guard(f"trajectory/{name}"):
            blocks.update(Declaration.from_json({"blocks": {name: entry}}).blocks)
    for key, entry in _items(document.get("meta")):
        with findings.guard(f"trajectory/meta/{key}"):
            meta.update(Declaration.from_json({"meta": {key: entry}}).meta)
    for name, target in aligned.items():
        if name in blocks:
            with findings.guard(f"trajectory/{name}"):
                candidate = {**blocks, name: replace(blocks[name], aligned_with=target)}
                Declaration(candidate).check()
                blocks = candidate
    return Declaration(blocks, meta)


def _items(document: Any) -> list[tuple[str, Any]]:
    return list(document.items()) if isinstance(document, dict) else []


def _derived(storage: Storage, node: Node, findings: Findings) -> Declaration:
    blocks: dict[str, BlockDeclaration] = {}
    meta: dict[str, MetaDeclaration] = {}
    for child in children_of(storage, node):
        if child.kind != "group":
            continue
        if child.name == "meta":
            for entry in children_of(storage, child):
                tag = entry.attributes.get("meta_dtype")
                if isinstance(tag, str) and tag in TAGS:
                    meta[entry.name] = MetaDeclaration(tag)
                elif entry.kind == "array":
                    findings.error(entry.key, f"a per-step array has no tag in meta_dtype: found {tag!r:.40}")
        elif child.name not in RESERVED_BLOCKS and name_fault(child.name) is None:
            with findings.guard(child.key):
                blocks[child.name] = _derived_block(storage, child)
    return Declaration(blocks, meta)


def _derived_block(storage: Storage, node: Node) -> BlockDeclaration:
    masks = read_node(storage, node.child("_validity")).folders
    columns = {}
    for child in children_of(storage, node):
        if child.kind == "array" and child.name not in RESERVED_COLUMNS:
            metadata = parse_array(child.document, child.key)
            columns[child.name] = ColumnDeclaration(metadata.dtype, metadata.shape[1:], child.name in masks)
    return BlockDeclaration(columns)


_SECTION = "trajectory"


class TrajectoryChecks:
    """Checks the trajectory of a store; `frames` knows the blocks of `system` and `frame`."""

    def __init__(self, storage: Storage, root: Node, frames: FrameChecks, findings: Findings) -> None:
        self._storage, self._frames, self._findings = storage, frames, findings
        self._node = read_node(storage, _SECTION) if _SECTION in root.folders else Node(_SECTION, None)
        self._n = 0

    def check(self) -> None:
        """Everything below the section."""
        if self._node.kind != "group":
            return
        check_group(self._node, self._findings)
        self._n = self._frame_count()
        declaration = read_declaration(self._storage, self._node, self._findings)
        for check in (self._check_steps, self._check_times):
            with self._findings.guard(_SECTION):
                check()
        with self._findings.guard(f"{_SECTION}/meta"):
            self._check_meta(declaration)
        BlockChecks(self._storage, self._node, declaration, self._n, self._frames, self._findings).check()
        with self._findings.guard(f"{_SECTION}/box"):
            self._check_box()
        known = {name for name in RESERVED_BLOCKS | declaration.blocks.keys() if name in self._node.folders}
        note_unknown(self._storage, self._node, known, self._findings)

    def _frame_count(self) -> int:
        """Return `nstep`, without it the length of the step array."""
        nstep = self._node.attributes.get("nstep")
        if nstep is not None:
            if type(nstep) is int and nstep >= 0:
                return nstep
            self._findings.error(_SECTION, f"nstep is an integer of at least 0: found {nstep!r:.40}")
        else:
            self._findings.warning(_SECTION, "has no nstep, the length of step is taken")
            for name in ("step_progression", "time_progression"):
                if name in self._node.attributes:
                    self._findings.error(_SECTION, f"{name} without nstep tells no number of frames")
        array = self._array("step")
        return array.rows if array is not None else 0

    def _array(self, name: str) -> CheckedArray | None:
        if name not in self._node.folders:
            return None
        return load_array(self._storage, read_node(self._storage, self._node.child(name)), self._findings)

    def _check_steps(self) -> None:
        here = f"{_SECTION}/step"
        progression = self._node.attributes.get("step_progression")
        if progression is not None:
            self._check_progression("step_progression", progression, lambda value: type(value) is int)
            self._check_step_range(progression)
        array = self._array("step")
        if array is None:
            if progression is None and self._n and "step" not in self._node.folders:
                self._findings.error(here, f"neither an array nor a progression gives the steps of {self._n} frames")
            return
        if progression is not None:
            self._findings.warning(here, "an array beside step_progression, which counts")
            return
        if self._fits(array, "i64", ()):
            self._check_ascending(array)

    def _check_step_range(self, progression: Any) -> None:
        start = progression.get("start") if isinstance(progression, dict) else None
        stride = progression.get("stride", 1) if isinstance(progression, dict) else 1
        if type(start) is not int or type(stride) is not int:
            return
        if stride <= 0 and self._n > 1:
            self._findings.error(_SECTION, f"the stride of step_progression is not positive: found {stride}")
        elif not -(2**63) <= start < 2**63 or start + stride * max(0, self._n - 1) >= 2**63:
            self._findings.error(_SECTION, f"step_progression leaves the range of i64: found {progression}")

    def _check_ascending(self, array: CheckedArray) -> None:
        last: int | None = None
        position = 0
        for start, values in array.pieces(self._n):
            if start > position:
                break
            faults = list(step_faults(values, last, start, _SECTION))
            if faults:
                self._findings.take(faults)
                return
            last, position = int(values[-1]), start + len(values)
        if position + 1 < min(self._n, array.rows):
            self._findings.error(array.node, f"steps strictly increase: frames from {position} on have none stored")

    def _check_times(self) -> None:
        here = f"{_SECTION}/time"
        progression = self._node.attributes.get("time_progression")
        if progression is not None:
            self._check_progression("time_progression", progression, _is_finite)
        array = self._array("time")
        if array is None:
            return
        if progression is not None:
            self._findings.warning(here, "an array beside time_progression, which counts")
        elif self._fits(array, "f64", ()):
            array.scan(self._n)

    def _check_progression(self, name: str, document: Any, holds: Any) -> None:
        if not isinstance(document, dict) or not holds(document.get("start")):
            self._findings.error(_SECTION, f"{name} is not an object with a start: found {document!r:.60}")
        elif "stride" not in document and self._n > 1:
            self._findings.error(_SECTION, f"{name} has no stride for {self._n} frames")
        elif "stride" in document and document["stride"] is not None and not holds(document["stride"]):
            self._findings.error(_SECTION, f"the stride of {name} is no number of its kind: {document['stride']!r:.40}")
        elif self._n == 0:
            self._findings.warning(_SECTION, f"{name} of a trajectory without frames")

    def _fits(self, array: CheckedArray, dtype: str, trailing: tuple[int, ...]) -> bool:
        """True if an array holds one value of its kind for each frame."""
        expected = f"{dtype}[{self._n}]{''.join(f'[{n}]' for n in trailing)}"
        if array.dtype != dtype or not array.shape or array.shape[1:] != trailing:
            self._findings.error(array.node, f"found {array.layout}, expected {expected}")
            return False
        if array.rows < self._n:
            self._findings.error(array.node, f"has {array.rows} values for {self._n} frames")
            return False
        return True

    def _check_meta(self, declaration: Declaration) -> None:
        node = read_node(self._storage, f"{_SECTION}/meta") if "meta" in self._node.folders else None
        if node is not None and node.kind != "group":
            self._findings.error(node.key, node.fault or "is not a Zarr group")
            return
        if node is not None:
            check_group(node, self._findings)
            note_unknown(self._storage, node, declaration.meta.keys() & set(node.folders), self._findings)
        for key, declared in declaration.meta.items():
            here = f"{_SECTION}/meta/{key}"
            if node is None or key not in node.folders:
                if self._n:
                    self._findings.error(here, f"the declared key has no array for its {self._n} frames")
                continue
            array = load_array(self._storage, read_node(self._storage, here), self._findings)
            if array is None:
                continue
            stated = array.attributes.get("meta_dtype")
            if stated != declared.dtype:
                found = "none" if stated is None else repr(stated)
                self._findings.error(
                    here, f"meta_dtype is the declared tag: found {found}, expected {declared.dtype!r}"
                )
            tag = TAGS[declared.dtype]
            if not self._fits(array, tag.storage, tag.trailing):
                continue
            if tag.dtype is None:
                self._check_documents(array)
            else:
                array.scan(self._n)

    def _check_documents(self, array: CheckedArray) -> None:
        for low, _ in array.gaps(self._n):
            self._findings.error(array.node, f"frame {low} holds no finite JSON: nothing is stored for it")
            return
        for start, values in array.pieces(self._n):
            for row, text in enumerate(values.tolist()):
                try:
                    check_json(read_json(text), array.node)
                except Exception as error:
                    self._findings.error(array.node, f"frame {start + row} holds no finite JSON: {error}")
                    return

    def _check_box(self) -> None:
        if "box" not in self._node.folders:
            return
        node = read_node(self._storage, f"{_SECTION}/box")
        if node.kind != "group":
            self._findings.error(node.key, node.fault or "the cell is not a Zarr group")
            return
        check_group(node, self._findings)
        defined = cell_defined(node, self._findings)
        note_unknown(self._storage, node, {*CELL, "step_index"}, self._findings)
        fixed = [name for name in CELL if name in node.attributes]
        arrays = [name for name in (*CELL, "step_index") if name in node.folders]
        if arrays and "vectors" not in arrays and (defined or "step_index" not in arrays):
            self._findings.warning(
                node.key, f"{', '.join(arrays)} without vectors, left by a writer; they do not count"
            )
            arrays = []
        elif fixed and arrays:
            self._findings.warning(node.key, "arrays beside the attributes of a fixed cell, the arrays count")
        if arrays:
            self._check_cell_arrays(node, defined)
        else:
            self._check_fixed_cell(node, defined)

    def _check_fixed_cell(self, node: Node, defined: bool) -> None:
        if defined and "vectors" not in node.attributes and {"origin", "boundary"} & node.attributes.keys():
            self._findings.error(node.key, "the cell has no vectors")
        for name, (dtype, shape) in CELL.items():
            if not defined and name == "vectors":
                continue
            if name in node.attributes and not _is_nested(node.attributes[name], dtype, shape):
                self._findings.error(
                    node.key, f"{name} is no {dtype}{list(shape)} as nested lists: found {node.attributes[name]!r:.60}"
                )
        boundary = node.attributes.get("boundary")
        if not defined and isinstance(boundary, list) and any(boundary):
            self._findings.error(node.key, "an undefined cell is periodic on no axis: found a true flag in boundary")

    def _check_cell_arrays(self, node: Node, defined: bool) -> None:
        children = {child.name: child for child in children_of(self._storage, node)}
        arrays = {
            name: array
            for name in ("step_index", *CELL)
            if name in children and (array := load_array(self._storage, children[name], self._findings)) is not None
        }
        updates = 1
        if "step_index" in children:
            index = arrays.get("step_index")
            frames = None if index is None else ascending_frames(index, self._n, self._findings)
            if frames is None:
                return
            updates = len(frames)
        elif arrays.get("vectors") is not None and arrays["vectors"].rows > 1:
            self._findings.error(f"{node.key}/step_index", "is missing, and there is more than one cell")
        for name, (dtype, trailing) in CELL.items():
            array = arrays.get(name)
            if array is None:
                continue
            if array.dtype != dtype or array.shape[1:] != trailing:
                self._findings.error(array.node, f"found {array.layout}, expected {dtype}[n]{list(trailing)}")
            elif array.rows < min(updates, self._n):
                self._findings.error(array.node, f"has {array.rows} cells for {updates} updates")
            elif name != "boundary" or defined:
                array.scan(updates)
            elif any(values.any() for _, values in array.pieces(updates)):
                self._findings.error(array.node, "an undefined cell is periodic on no axis: found a true flag")


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_nested(value: Any, dtype: str, shape: tuple[int, ...]) -> bool:
    if not shape:
        return isinstance(value, bool) if dtype == "bool" else _is_finite(value)
    return isinstance(value, list) and len(value) == shape[0] and all(_is_nested(v, dtype, shape[1:]) for v in value)
