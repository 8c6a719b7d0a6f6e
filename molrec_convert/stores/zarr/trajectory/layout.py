"""What is stored of a trajectory and how much of it is committed: reader and reopening writer both go by this.

Only metadata is read; index arrays and values follow when they are asked for. Refused with the node's path is what
breaks the contract; groups, arrays and attributes it does not know are noted and left alone.
Source: Trajectory; Zarr V3 binding, "Reopen".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration, Declaration, MetaDeclaration
from molrec_convert.model.frame import Box
from molrec_convert.model.names import RESERVED_BLOCKS, RESERVED_COLUMNS, name_fault
from molrec_convert.model.tags import TAGS
from molrec_convert.stores.zarr.trajectory.batch import MASKS, mask_key
from molrec_convert.stores.zarr.trajectory.series import progression_steps, progression_times
from molrec_convert.stores.zarr.trajectory.stored import StoredBlock, StoredBox
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.metadata import document_path, other_keys, parse_array, shown
from molrec_convert.stores.zarr.v3.storage import Storage, read_document

__all__ = ["TRAJECTORY", "Layout", "Series", "derived_declaration", "read_layout", "unknown_attributes"]

#: Key of the section's group.
TRAJECTORY = "trajectory"


def derived_declaration(storage: Storage) -> Declaration:
    """Return the declaration of a store that states none, from its groups and arrays."""
    blocks: dict[str, BlockDeclaration] = {}
    meta: dict[str, MetaDeclaration] = {}
    for name in storage.children(TRAJECTORY)[0]:
        document = read_document(storage, f"{TRAJECTORY}/{name}")
        if document is None or document["node_type"] != "group":
            continue
        if name == "meta":
            meta = {key: MetaDeclaration(tag) for key, tag in _derived_meta(storage)}
        elif name not in RESERVED_BLOCKS and name_fault(name) is None:
            blocks[name] = BlockDeclaration(_derived_columns(storage, f"{TRAJECTORY}/{name}"))
    declaration = Declaration(blocks, meta)
    declaration.check()
    return declaration


def _derived_meta(storage: Storage) -> Iterator[tuple[str, str]]:
    for key in storage.children(f"{TRAJECTORY}/meta")[0]:
        node = f"{TRAJECTORY}/meta/{key}"
        document = read_document(storage, node)
        if document is None or document["node_type"] != "array":
            continue
        tag = document["attributes"].get("meta_dtype")
        if not isinstance(tag, str) or tag not in TAGS:
            raise ContractError(node, "a per-step array has no tag in meta_dtype", found=repr(tag)[:60])
        yield key, tag


def _derived_columns(storage: Storage, node: str) -> dict[str, ColumnDeclaration]:
    masks = set(storage.children(f"{node}/{MASKS}")[0])
    columns = {}
    for key in storage.children(node)[0]:
        document = read_document(storage, f"{node}/{key}")
        if key in RESERVED_COLUMNS or document is None or document["node_type"] != "array":
            continue
        metadata = parse_array(document, f"{node}/{key}")
        columns[key] = ColumnDeclaration(metadata.dtype, metadata.shape[1:], nullable=key in masks)
    return columns


_KNOWN = ("sequence_schema", "step_progression", "time_progression", "nstep")
_KNOWN_OF_BLOCK = ("structural_shape", "uniform_rows", "dense_updates")
_KNOWN_OF_BOX = ("vectors", "origin", "boundary", "cell_defined")
_KNOWN_OF_COLUMN = ("precision",)
_KNOWN_OF_META = ("meta_dtype",)


@dataclass
class Series:
    """Step numbers or times: a progression, or an array."""

    start: Any = None
    stride: Any = None
    array: ArrayReader | None = None

    def steps(self, first: int, last: int) -> NDArray[np.int64]:
        """Return step numbers of frames `first:last`."""
        if self.array is not None:
            return self.array.read(first, last)
        return progression_steps(self.start, self.stride, first, last)

    def step_at(self, frame: int) -> int:
        """Return step number of one frame."""
        return (
            int(self.start) + (self.stride or 0) * frame if self.array is None else int(self.steps(frame, frame + 1)[0])
        )

    def times(self, first: int, last: int) -> NDArray[np.float64]:
        """Return times of frames `first:last`."""
        if self.array is not None:
            return self.array.read(first, last)
        return progression_times(self.start, self.stride, first, last)

    def time_at(self, frame: int) -> float:
        """Return time of one frame."""
        if self.array is not None:
            return float(self.array.read(frame, frame + 1)[0])
        return float(self.start) if self.stride is None else float(self.start) + float(frame) * float(self.stride)


@dataclass
class Layout:
    """A stored trajectory: its declaration, committed frames, series, blocks and cell.

    `attributes` are those this version does not know, by node below the section; `groups` and `arrays` the paths it
    does know, there or not; `stray` those of arrays that an interrupted writer left beside what takes precedence.
    """

    storage: Storage
    document: dict[str, Any]
    declaration: Declaration
    n_frames: int
    step: Series = field(default_factory=Series)
    time: Series | None = None
    meta: dict[str, ArrayReader] = field(default_factory=dict)
    blocks: dict[str, StoredBlock] = field(default_factory=dict)
    box: StoredBox = field(default_factory=lambda: StoredBox(0))
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: set[str] = field(default_factory=lambda: {"", "meta", "box"})
    arrays: set[str] = field(default_factory=set)
    stray: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_layout(storage: Storage, warnings: list[str] | None = None) -> Layout:
    """Return the layout of the trajectory of a store. Raises `ContractError`, with the node's path, for a broken
    one.
    """
    document = read_document(storage, TRAJECTORY)
    if document is None or document["node_type"] != "group":
        raise ContractError(TRAJECTORY, "the section is not a Zarr group")
    attributes = document["attributes"]
    if "sequence_schema" in attributes:
        declaration = Declaration.from_json(attributes["sequence_schema"])
    else:
        declaration = derived_declaration(storage)
    layout = Layout(storage, document, declaration, 0, warnings=[] if warnings is None else warnings)
    _keep_node(layout, "", document, _KNOWN)
    layout.n_frames = _n_frames(layout, attributes)
    layout.step = _step(layout, attributes)
    layout.time = _time(layout, attributes)
    for key, declared_meta in declaration.meta.items():
        _read_meta(layout, key, declared_meta)
    meta = read_document(storage, f"{TRAJECTORY}/meta")
    if meta is not None and meta["node_type"] == "group":
        _keep_node(layout, "meta", meta)
    blocks = dict(declaration.blocks)
    for name, declared in declaration.blocks.items():
        layout.blocks[name], blocks[name] = _read_block(layout, name, declared)
    layout.declaration = replace(declaration, blocks=blocks)
    layout.box = _read_box(layout)
    return layout


def _n_frames(layout: Layout, attributes: dict[str, Any]) -> int:
    count = attributes.get("nstep")
    if count is None:
        for name in ("step_progression", "time_progression"):
            if name in attributes:
                raise ContractError(TRAJECTORY, f"has {name} but no nstep")
        step = _array(layout, "step", "i64", ())
        return 0 if step is None else len(step)
    if type(count) is not int or count < 0:
        raise ContractError(TRAJECTORY, "nstep is not a number of frames", found=repr(count)[:60])
    return count


def _step(layout: Layout, attributes: dict[str, Any]) -> Series:
    array = _array(layout, "step", "i64", ())
    if "step_progression" not in attributes:
        if layout.n_frames and (array is None or len(array) < layout.n_frames):
            raise _too_short("step", array, layout.n_frames)
        return Series(array=array)
    if array is not None:
        layout.stray.append("step")
    start, stride = _progression(attributes["step_progression"], "step_progression", layout.n_frames)
    if type(start) is not int or not (stride is None or (type(stride) is int and stride > 0)):
        raise ContractError(
            TRAJECTORY, "step_progression holds integers, the stride above 0", found=f"{start}, {stride}"
        )
    if not -(2**63) <= start < 2**63 or start + (stride or 0) * max(0, layout.n_frames - 1) >= 2**63:
        raise ContractError(TRAJECTORY, "step_progression leaves the range of i64", found=f"{start}, {stride}")
    return Series(start, stride)


def _time(layout: Layout, attributes: dict[str, Any]) -> Series | None:
    array = _array(layout, "time", "f64", ())
    if "time_progression" not in attributes:
        if array is None:
            return None
        if len(array) < layout.n_frames:
            raise _too_short("time", array, layout.n_frames)
        return Series(array=array) if layout.n_frames else None
    if array is not None:
        layout.stray.append("time")
    start, stride = _progression(attributes["time_progression"], "time_progression", layout.n_frames)
    for number in (start, stride):
        if number is not None and (isinstance(number, bool) or not isinstance(number, (int, float))):
            raise ContractError(TRAJECTORY, "time_progression holds numbers", found=repr(number)[:60])
    return Series(float(start), None if stride is None else float(stride)) if layout.n_frames else None


def _progression(value: Any, name: str, n_frames: int) -> tuple[Any, Any]:
    if not isinstance(value, dict) or "start" not in value:
        raise ContractError(TRAJECTORY, f"{name} has no start", found=repr(value)[:60])
    if "stride" not in value and n_frames > 1:
        raise ContractError(TRAJECTORY, f"{name} has no stride, and there are {n_frames} frames")
    return value["start"], value.get("stride") if n_frames > 1 else None


def _read_meta(layout: Layout, key: str, declared: MetaDeclaration) -> None:
    tag = TAGS[declared.dtype]
    reader = _array(layout, f"meta/{key}", tag.storage, tag.trailing, _KNOWN_OF_META)
    if reader is None:
        if layout.n_frames:
            raise _too_short(f"meta/{key}", None, layout.n_frames)
        return
    stated = reader.metadata.attributes.get("meta_dtype")
    if stated != tag.name:
        raise ContractError(
            f"{TRAJECTORY}/meta/{key}", "meta_dtype is not the declared tag", found=repr(stated), expected=tag.name
        )
    if len(reader) < layout.n_frames:
        raise _too_short(f"meta/{key}", reader, layout.n_frames)
    layout.meta[key] = reader


def _read_block(layout: Layout, name: str, declared: BlockDeclaration) -> tuple[StoredBlock, BlockDeclaration]:
    node = f"{TRAJECTORY}/{name}"
    layout.groups |= {name, f"{name}/{MASKS}"}
    layout.arrays |= {f"{name}/{key}" for key in (*declared.columns, "step_index", "offset")}
    document = read_document(layout.storage, node)
    block = StoredBlock(name, declared, layout.n_frames)
    if document is None:
        return block, declared
    if document["node_type"] != "group":
        raise ContractError(node, "a declared block is not a Zarr group")
    attributes = document["attributes"]
    _keep_node(layout, name, document, _KNOWN_OF_BLOCK)
    declared = block.declared = _with_shape(declared, attributes.get("structural_shape"), node)
    for key, column in declared.columns.items():
        reader = _array(layout, f"{name}/{key}", column.dtype, column.trailing, _KNOWN_OF_COLUMN)
        if reader is not None:
            block.arrays[key] = reader
    for key, reader in _masks(layout, name, declared):
        block.arrays[mask_key(key)] = reader
    step_index = _array(layout, f"{name}/step_index", "u64", ())
    offset = _array(layout, f"{name}/offset", "u64", ())
    markers = [marker for marker in ("uniform_rows", "dense_updates") if marker in attributes]
    if step_index is not None and (offset is not None or not markers):
        block.index = (step_index, offset)
    else:
        # An interrupted writer may have left one half of an index.
        layout.stray.extend(
            f"{name}/{half}" for half, reader in (("step_index", step_index), ("offset", offset)) if reader is not None
        )
        block.regular = _markers(attributes, markers, block, node)
    return block, declared


def _markers(attributes: dict[str, Any], markers: list[str], block: StoredBlock, node: str) -> int | None:
    if not markers:
        return None
    rows = attributes.get("uniform_rows")
    if len(markers) == 1 or attributes["dense_updates"] is not True:
        raise ContractError(node, "uniform_rows and dense_updates (true) stand together or not at all")
    if type(rows) is not int or not 0 < rows < 2**63:
        raise ContractError(node, "uniform_rows is not a positive row count", found=repr(rows)[:60])
    if not block.declared.columns:
        raise ContractError(node, "a block without columns has an index, not markers")
    for key in block.declared.columns:
        if key not in block.arrays:
            raise ContractError(f"{node}/{key}", "a declared column is missing from a block that has rows")
    return rows


def _with_shape(declared: BlockDeclaration, shape: Any, node: str) -> BlockDeclaration:
    """Return the declaration with the structural shape of the group, which must not be another one than declared."""
    if shape is None:
        return declared
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise ContractError(node, "a structural shape is a list of row counts", found=repr(shape)[:60])
    if declared.structural_shape is not None and list(declared.structural_shape) != shape:
        raise ContractError(
            node,
            "the structural shape differs from the declared one",
            found=str(shape),
            expected=str(list(declared.structural_shape)),
        )
    return replace(declared, structural_shape=tuple(shape))


def _masks(layout: Layout, name: str, declared: BlockDeclaration) -> Iterator[tuple[str, ArrayReader]]:
    node = f"{name}/{MASKS}"
    document = read_document(layout.storage, f"{TRAJECTORY}/{node}")
    if document is None:
        return
    _keep_node(layout, node, document)
    for key in layout.storage.children(f"{TRAJECTORY}/{node}")[0]:
        if read_document(layout.storage, f"{TRAJECTORY}/{node}/{key}") is None:
            continue
        here = f"{TRAJECTORY}/{node}/{key}"
        if key not in declared.columns:
            raise ContractError(here, "the mask names no column of the block")
        if not declared.columns[key].nullable:
            raise ContractError(here, "there is a mask of a column that is not declared nullable")
        reader = _array(layout, f"{node}/{key}", "bool", ())
        if reader is not None:
            yield key, reader


def _read_box(layout: Layout) -> StoredBox:
    node = f"{TRAJECTORY}/box"
    document = read_document(layout.storage, node)
    box = StoredBox(layout.n_frames)
    if document is None:
        return box
    if document["node_type"] != "group":
        raise ContractError(node, "the cell is not a Zarr group")
    attributes = document["attributes"]
    _keep_node(layout, "box", document, _KNOWN_OF_BOX)
    defined = attributes.get("cell_defined", True)
    if not isinstance(defined, bool):
        raise ContractError(node, "cell_defined is true or false", found=repr(defined)[:60])
    box.defined = defined
    # In the opposite order to the writer's: once `vectors` is there the others are.
    for name, dtype, trailing in (
        ("vectors", "f64", (3, 3)),
        ("origin", "f64", (3,)),
        ("boundary", "bool", (3,)),
        ("step_index", "u64", ()),
    ):
        reader = _array(layout, f"box/{name}", dtype, trailing)
        if reader is not None:
            box.arrays[name] = reader
    if box.arrays and "vectors" not in box.arrays and (defined or "step_index" not in box.arrays):
        # An interrupted writer makes `vectors` last: without it the attributes hold.
        layout.stray.extend(f"box/{name}" for name in box.arrays)
        box.arrays = {}
    if not box.arrays and ("vectors" in attributes or not defined):
        box.fixed = _fixed_box(attributes, defined)
    return box


def _fixed_box(attributes: dict[str, Any], defined: bool) -> Box:
    node = f"{TRAJECTORY}/box"
    origin = _numbers(attributes.get("origin", [0.0, 0.0, 0.0]), (3,), node, "origin")
    flags = attributes.get("boundary", [defined] * 3)
    if not isinstance(flags, list) or len(flags) != 3 or any(not isinstance(flag, bool) for flag in flags):
        raise ContractError(node, "boundary is three booleans", found=repr(flags)[:60])
    if not defined:
        if any(flags):
            raise ContractError(node, "a cell that is not defined is periodic on no axis")
        return Box.undefined(origin)
    return Box(_numbers(attributes["vectors"], (3, 3), node, "vectors"), origin, np.array(flags))


def _numbers(value: Any, shape: tuple[int, ...], node: str, what: str) -> NDArray[np.float64]:
    def fits(item: Any, depth: int) -> bool:
        if depth == len(shape):
            return isinstance(item, (int, float)) and not isinstance(item, bool)
        return isinstance(item, list) and len(item) == shape[depth] and all(fits(i, depth + 1) for i in item)

    if not fits(value, 0):
        raise ContractError(node, f"{what} is not an array of {math.prod(shape)} numbers", found=repr(value)[:60])
    return np.array(value, dtype=np.float64).reshape(shape)


def _array(
    layout: Layout, path: str, dtype: str, trailing: tuple[int, ...], known: tuple[str, ...] = ()
) -> ArrayReader | None:
    """Return a reader of the array at `path` below the section, None when there is none; another dtype is refused."""
    node = f"{TRAJECTORY}/{path}"
    layout.arrays.add(path)
    document = read_document(layout.storage, node)
    if document is None:
        return None
    if document["node_type"] != "array":
        raise ContractError(node, "is a group where an array is expected")
    metadata = parse_array(document, node)
    if metadata.dtype != dtype or metadata.shape[1:] != trailing or not metadata.shape:
        raise ContractError(
            node,
            "the array has another dtype or shape than declared",
            found=f"{metadata.dtype}{list(metadata.shape)}",
            expected=f"{dtype}{['n', *trailing]}",
        )
    _keep_node(layout, path, document, known)
    return ArrayReader(layout.storage, node, metadata, layout.warnings)


def _keep_node(layout: Layout, path: str, document: dict[str, Any], known: tuple[str, ...] = ()) -> None:
    """Keep what a node says; keys beside its attributes under the path of its `zarr.json`, which is no node's."""
    _keep(layout, path, document["attributes"], known)
    others = other_keys(document)
    if others:
        layout.attributes[document_path(path)] = others


def _keep(layout: Layout, path: str, attributes: dict[str, Any], known: tuple[str, ...] = ()) -> None:
    unknown = {key: value for key, value in shown(attributes).items() if key not in known}
    if unknown:
        layout.attributes[path] = unknown


def unknown_attributes(
    attributes: Mapping[str, Mapping[str, Any]], declaration: Declaration
) -> dict[str, dict[str, Any]]:
    """Return attributes by node below the section, without those that say something to this version."""
    known: dict[str, tuple[str, ...]] = {"": _KNOWN, "box": _KNOWN_OF_BOX}
    known |= {f"meta/{key}": _KNOWN_OF_META for key in declaration.meta}
    for name, block in declaration.blocks.items():
        known[name] = _KNOWN_OF_BLOCK
        known |= {f"{name}/{key}": _KNOWN_OF_COLUMN for key in block.columns}
    others = {
        path: {key: value for key, value in shown(entries).items() if key not in known.get(path, ())}
        for path, entries in copy.deepcopy(dict(attributes)).items()
    }
    return {path: entries for path, entries in others.items() if entries}


def _too_short(path: str, array: ArrayReader | None, n_frames: int) -> ContractError:
    return ContractError(
        f"{TRAJECTORY}/{path}",
        "the array is shorter than the committed frames",
        found="no array" if array is None else str(len(array)),
        expected=str(n_frames),
    )
