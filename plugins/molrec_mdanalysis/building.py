"""The topology MDAnalysis has of a record: columns as attributes, relations as connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import MDAnalysis
import numpy as np
from MDAnalysis.core.topology import Topology
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.meaning.quantities import atom_blocks, quantity
from molrec_convert.model import Block, Column, Frame, Record
from molrec_mdanalysis.names import COLUMNS, RELATIONS, STATE
from molrec_mdanalysis.topology import Groups, connection_values, groups_of

__all__ = ["ATOMS", "first_frame", "topology_of"]

ATOMS = "atoms"
_TEXTS = {"names", "types", "elements", "resnames", "icodes", "segids", "chainIDs", "altLocs", "record_types"}
_HANDLED = {"resids", "resnums", "segids"}


def first_frame(record: Record) -> Frame | None:
    """Return the configuration a record begins with: the first of its trajectory, else its `frame`."""
    if record.trajectory is not None and record.trajectory.n_frames != 0:
        return record.trajectory.frame(0)
    return record.frame


def topology_of(record: Record) -> Topology:
    """Return a record's atoms and relations. UnsupportedError: it has no atoms, or none MDAnalysis can hold."""
    blocks: dict[str, Block] = {}
    for part in (first_frame(record), record.system):
        if part is not None:
            for name, block in part.blocks.items():
                blocks[name] = _joined(blocks[name], block) if name in blocks else block
    for name in () if record.trajectory is None else atom_blocks(record.trajectory.declaration):
        if name != ATOMS and name in blocks:
            blocks[ATOMS] = _joined(blocks.pop(name), blocks.get(ATOMS, Block()))
    if ATOMS not in blocks or not blocks[ATOMS].count:
        raise UnsupportedError("a record without atoms is no universe of MDAnalysis")
    count = blocks[ATOMS].count
    columns = {**_elements(record), **blocks[ATOMS].columns}
    groups = groups_of(columns, count)
    attributes = [*_groups_attributes(columns, groups), *_attributes(record, columns, groups)]
    attributes += _connections(blocks)
    return Topology(
        count,
        len(groups.first),
        int(groups.segindex.max()) + 1,
        attrs=attributes,
        atom_resindex=groups.resindex,
        residue_segindex=groups.segindex,
    )


def _elements(record: Record) -> dict[str, Column]:
    """Return the column of elements, of atomic numbers where a record has these; nothing where it has neither."""
    found = quantity(record, "element", frames=0)
    if found is None:
        return {}
    mask = ~np.ma.getmaskarray(found)
    values: NDArray[Any] = np.ma.getdata(found)
    return {"element": Column(values, None if mask.all() else mask)}


def _joined(first: Block, second: Block) -> Block:
    return Block({**first.columns, **second.columns}, count=second.count)


def _kind(attribute: str) -> Any:
    return MDAnalysis._TOPOLOGY_ATTRS[attribute]


def _groups_attributes(columns: Mapping[str, Column], groups: Groups) -> list[Any]:
    """Return what every topology has to have: numbers of residues, names of segments."""
    number = next((name for name in ("res_id", "res_seq", "mol_id") if name in columns), None)
    if number is None:
        resids = np.arange(1, len(groups.first) + 1)
    else:
        resids = _filled(columns[number])[groups.first].astype(np.int64)
    resnums = resids.copy()
    if "resnum" in columns:
        resnums = columns["resnum"].values[groups.first].astype(np.int64)
    name = next((name for name in ("segid", "chain") if name in columns), None)
    count = len(groups.first_of_segment)
    segids: list[str] = ["SYSTEM"] * count if name is None else _filled(columns[name])[groups.first_of_segment].tolist()
    if name == "chain" and not any(segids):
        segids = ["SYSTEM"] * count
    return [
        _kind("resids")(resids),
        _kind("resnums")(resnums),
        _kind("segids")(np.array(segids, dtype=object)),
    ]


def _attributes(record: Record, columns: Mapping[str, Column], groups: Groups) -> list[Any]:
    """Return all other attributes MDAnalysis has a name for."""
    state = {name for names in STATE.values() for name in names}
    made: dict[str, Any] = {}
    for name, column in columns.items():
        attribute = _attribute_name(name, columns)
        if attribute is None or attribute in made or attribute in _HANDLED or name in state:
            continue
        kind = _kind(attribute)
        values = _filled(column)
        if column.trailing or attribute in RELATIONS:
            continue
        values = _as_objects(values, attribute)
        if kind.per_object == "residue":
            values = values[groups.first]
        elif kind.per_object == "segment":
            values = values[groups.first_of_segment]
        made[kind.attrname] = kind(values)
    if "ids" not in made:
        made["ids"] = _kind("ids")(np.arange(1, len(groups.resindex) + 1))
    return list(made.values())


def _attribute_name(column: str, columns: Mapping[str, Column]) -> str | None:
    """Return the attribute a column of a record is; None for one MDAnalysis has no attribute for."""
    if column in COLUMNS:
        return COLUMNS[column]
    if column == "serial":
        return "ids"
    if column == "molnum":
        return "molnums"
    if column == "type_id":
        return None if "type" in columns else "types"
    known = MDAnalysis._TOPOLOGY_ATTRS.get(column)
    places = ("indices", "resindices", "segindices")
    if known is None or known.attrname != column or column in places or column in COLUMNS.values():
        return None
    return column


def _filled(column: Column) -> NDArray[Any]:
    """Return values with NaN, no text, 0 of whole numbers, where there is none."""
    values = column.values
    if column.validity is None:
        return values
    filled = values.copy()
    filled[~column.validity] = "" if values.dtype.kind == "T" else np.nan if values.dtype.kind == "f" else 0
    return filled


def _as_objects(values: NDArray[Any], attribute: str) -> NDArray[Any]:
    """Return texts as the objects MDAnalysis keeps them as, numbers at the width it has."""
    if values.dtype.kind == "T":
        return np.array(values.tolist(), dtype=object)
    if attribute in _TEXTS:
        return np.array([str(value) for value in values.tolist()], dtype=object)
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    return values.copy()


def _connections(blocks: Mapping[str, Block]) -> list[Any]:
    found = []
    for name, (values, types, orders, guessed) in connection_values(blocks).items():
        found.append(_kind(name)(values, types=types, guessed=guessed, order=orders))
    return found
