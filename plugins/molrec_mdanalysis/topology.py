"""What MDAnalysis' topology says, as the `system` of a record: one row an atom, and relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Column, Frame, Meta
from molrec_convert.model.dtypes import as_values
from molrec_convert.model.frame import references
from molrec_convert.model.names import escape_name, name_fault
from molrec_convert.report import Report
from molrec_mdanalysis.names import ATTRIBUTES, RELATIONS, STATE

__all__ = ["Groups", "attributes_of", "connection_values", "groups_of", "relation_blocks", "selected", "system_of"]

_ENDS = ("atomi", "atomj", "atomk", "atoml", "atomm")
#: A bond order as MDAnalysis' parsers have it → `bond_type`.
_ORDERS = {"1": 1, "2": 2, "3": 3, "1.0": 1, "2.0": 2, "3.0": 3, "1.5": 4, "ar": 4}
_ORDER_OF = {1: 1.0, 2: 2.0, 3: 3.0, 4: 1.5}


def relation_blocks(attributes: Mapping[str, Any], count: int, report: Report) -> dict[str, Block]:
    """Return the blocks of all connections between `count` atoms by name, rows in the order of the parser.

    ContractError: one names an atom that is not there.
    """
    blocks = {}
    for name, (block, ends) in RELATIONS.items():
        attribute = attributes.get(name)
        if attribute is None:
            continue
        blocks[block] = _block(attribute, name, block, ends, count, report)
    return blocks


def _block(attribute: Any, name: str, block: str, ends: int, count: int, report: Report) -> Block:
    try:
        atoms = np.array(attribute.values, dtype=np.uint64).reshape(-1, ends)
    except (ValueError, TypeError, OverflowError) as error:
        raise ContractError(f"system/{block}", f"{name} of no atoms: {error}") from None
    if len(atoms) and int(atoms.max()) >= count:
        raise ContractError(f"system/{block}", f"{name} name atom {int(atoms.max()) + 1} of {count}")
    columns: dict[str, Any] = {_ENDS[end]: np.ascontiguousarray(atoms[:, end]) for end in range(ends)}
    columns |= _types(list(attribute.types)) if len(atoms) else {}
    if name == "bonds" and len(atoms):
        columns |= _orders(list(attribute.order))
    guessed = np.array([bool(flag) for flag in attribute._guessed])
    if not len(atoms):
        return Block(columns, targets={"atomm": "atoms"} if ends == 5 else None)
    if guessed.any():
        report.derived(block, f"{int(guessed.sum())} of {len(guessed)} guessed by MDAnalysis")
        if not guessed.all():
            columns["guessed"] = guessed
    report.carried(name, f"as {block}; an end of a lower index first, repeated ones once, as MDAnalysis holds them")
    return Block(columns, targets={"atomm": "atoms"} if ends == 5 else None)


def _types(types: list[Any]) -> dict[str, Any]:
    """Return `type`, and `type_id` where the types are numbers."""
    known = np.array([kind is not None for kind in types])
    if not known.any():
        return {}
    listed = [" ".join(map(str, t)) if isinstance(t, tuple) else "" if t is None else str(t) for t in types]
    texts = Column(as_values(listed, "string"), None if known.all() else known)
    columns: dict[str, Any] = {"type": texts}
    if all(isinstance(kind, (int, np.integer)) and kind >= 0 for kind in types):
        columns["type_id"] = np.array(types, dtype=np.uint64)
    return columns


def _orders(orders: list[Any]) -> dict[str, Any]:
    """Return `bond_type`, and `order`, the text, where that says more."""
    if all(order is None for order in orders):
        return {}
    texts = ["" if order is None else str(order) for order in orders]
    columns: dict[str, Any] = {"bond_type": np.array([_ORDERS.get(text, 0) for text in texts], dtype=np.uint64)}
    if any(isinstance(order, str) for order in orders) or any(t and t not in _ORDERS for t in texts):
        columns["order"] = texts
    return columns


def connection_values(
    blocks: Mapping[str, Block],
) -> dict[str, tuple[list[tuple[int, ...]], list[Any] | None, list[Any] | None, list[bool]]]:
    """Return connection of MDAnalysis → its tuples, types, orders and which are guessed; rows in order."""
    found = {}
    for name, (block_name, ends) in RELATIONS.items():
        block = blocks.get(block_name)
        if block is None or not all(end in block.columns for end in _ENDS[:ends]):
            continue
        atoms = np.stack([block.stored(end) for end in _ENDS[:ends]], axis=1).astype(np.int64)
        kept = _whole(block, ends)
        values = [tuple(row) for row in atoms[kept].tolist()]
        guessed = block.stored("guessed")[kept].tolist() if "guessed" in block.columns else [False] * len(values)
        found[name] = (values, _types_of(block, kept), _orders_of(block, kept), guessed)
    return found


def _whole(block: Block, ends: int) -> NDArray[np.bool_]:
    """Return rows that name all their atoms."""
    kept = np.ones(block.count, np.bool_)
    for end in _ENDS[:ends]:
        kept &= block.validity(end)
    return kept


def _types_of(block: Block, kept: NDArray[np.bool_]) -> list[Any] | None:
    if "type_id" in block.columns and block.columns["type_id"].validity is None:
        numbers = block.stored("type_id")
        if "type" not in block.columns or block.stored("type").tolist() == [str(n) for n in numbers.tolist()]:
            kinds: list[Any] = numbers[kept].tolist()
            return kinds
    if "type" not in block.columns:
        return None
    known = block.validity("type")
    return [
        text if there else None for text, there in zip(block.stored("type")[kept].tolist(), known[kept], strict=True)
    ]


def _orders_of(block: Block, kept: NDArray[np.bool_]) -> list[Any] | None:
    if "order" in block.columns:
        return [text or None for text in block.stored("order")[kept].tolist()]
    if "bond_type" not in block.columns:
        return None
    return [_ORDER_OF.get(number) for number in block.stored("bond_type")[kept].tolist()]


_RESIDUE = ("res_id", "res_seq", "icode", "res_name", "segid", "mol_id", "molnum", "moltype")


@dataclass
class Groups:
    """`resindex` int64[atoms], `segindex` int64[residues], `first` int64[residues]: the first atom of each."""

    resindex: NDArray[np.int64]
    segindex: NDArray[np.int64]
    first: NDArray[np.int64]

    @property
    def first_of_segment(self) -> NDArray[np.int64]:
        """The first atom of each segment."""
        return self.first[np.unique(self.segindex, return_index=True)[1]]


def groups_of(columns: Mapping[str, Column], count: int) -> Groups:
    """Return the residues and segments of `count` atoms."""
    if "resindex" in columns:
        resindex = np.unique(columns["resindex"].values, return_inverse=True)[1].astype(np.int64)
    elif "mol_id" in columns and not {"res_id", "res_seq"} & columns.keys():
        resindex = np.unique(columns["mol_id"].values, return_inverse=True)[1].astype(np.int64)
    else:
        names = [name for name in _RESIDUE if name in columns]
        if "segid" not in columns and "chain" in columns:
            names.append("chain")
        resindex = _runs(columns, names, np.arange(count, dtype=np.int64))
    first = np.unique(resindex, return_index=True)[1].astype(np.int64)
    if "segindex" in columns:
        segindex = np.unique(columns["segindex"].values[first], return_inverse=True)[1].astype(np.int64)
    else:
        name = next((name for name in ("segid", "chain") if name in columns), None)
        segindex = _runs(columns, [] if name is None else [name], first)
    return Groups(resindex, segindex, first)


def _runs(columns: Mapping[str, Column], names: list[str], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the run every row is in: a run ends where a column changes."""
    changed = np.zeros(len(rows), np.bool_)
    for name in names:
        values = columns[name].values[rows]
        changed[1:] |= values[1:] != values[:-1]
    return np.cumsum(changed).astype(np.int64)


#: Attributes that only say where things stand, or that stand for what a record says otherwise.
_PLACES = {"indices", "resindices", "segindices"}
_STATE = {column for columns in STATE.values() for column in columns}


def attributes_of(universe: Any) -> dict[str, Any]:
    """Return the attributes of a universe's topology by name."""
    return {attribute.attrname: attribute for attribute in universe._topology.attrs}


def system_of(universe: Any, guessed: Mapping[str, int], units: Any, report: Report) -> Frame:
    """Return the system of a universe. `guessed`: attributes MDAnalysis guessed, with the number of atoms they are of.

    `units`: what the numbers are in, None where nobody says.
    """
    attributes = attributes_of(universe)
    table = universe._topology.tt
    columns: dict[str, Column] = {}
    for name, attribute in attributes.items():
        if name in _PLACES or name in RELATIONS:
            continue
        values = _per_atom(name, attribute, table)
        if name == "segids" and "chainIDs" not in attributes and _unnamed(attribute.values):
            continue
        if name == "resnums" and "resids" in attributes and _same(attribute, attributes["resids"]):
            report.carried(name, "the same as resids")
            continue
        column, made = _column(name, values, guessed, report)
        if made is None:
            report.dropped(name, "its values are neither numbers, nor flags, nor texts")
            continue
        if column in columns or column in _STATE or name_fault(column) is not None:
            column = escape_name(f"topology.{column}")
        columns[column] = made
        if name not in guessed:
            report.carried(name, "" if column == name else f"as {column}")
    columns |= _membership(columns, table)
    meta = Meta()
    if units is not None:
        meta.put("units", units, "json")
    blocks = {"atoms": Block(columns, count=int(table.n_atoms))}
    return Frame({**blocks, **relation_blocks(attributes, int(table.n_atoms), report)}, meta)


def _same(one: Any, other: Any) -> bool:
    """True if two attributes have the same values."""
    return bool(np.array_equal(one.values, other.values))


def _per_atom(name: str, attribute: Any, table: Any) -> NDArray[Any]:
    """Return the values of an attribute of atoms, residues or segments, one for each atom."""
    values: NDArray[Any] = np.asarray(attribute.values)
    expected = {"residue": table.n_residues, "segment": table.n_segments}.get(attribute.per_object, table.n_atoms)
    if len(values) != expected:
        rule = f"the topology has a value for every {attribute.per_object or 'atom'}"
        raise ContractError(f"system/atoms ({name})", rule, found=str(len(values)), expected=str(expected))
    if attribute.per_object == "residue":
        return values[_residues(table)]
    if attribute.per_object == "segment":
        return np.asarray(values[table.residues2segments(_residues(table))])
    return values


def _residues(table: Any) -> NDArray[np.int64]:
    """Return the number of the residue of every atom."""
    found = np.asarray(table.atoms2residues(np.arange(table.n_atoms)), dtype=np.int64)
    if len(found) and not 0 <= int(found.min()) <= int(found.max()) < table.n_residues:
        rule = "the topology puts atoms into residues it does not have"
        raise ContractError("system/atoms", rule, found=str(int(found.max())), expected=f"less than {table.n_residues}")
    return found


def _unnamed(segids: NDArray[Any]) -> bool:
    """True if the only segment has the name MDAnalysis gives where there is none."""
    return len(segids) == 1 and segids[0] == "SYSTEM"


def _column(name: str, values: NDArray[Any], guessed: Mapping[str, int], report: Report) -> tuple[str, Column | None]:
    """Return the name and values an attribute has in a record."""
    column = ATTRIBUTES.get(name, name)
    if column in ("id", "res_id", "mol_id"):
        whole = _integers(values)
        if whole is None:
            return name, _plain(values)
        if bool((whole < 0).any()):
            other = {"id": "serial", "res_id": "res_seq", "mol_id": "molnum"}[column]
            report.converted(name, f"as {other}: {column} has no negative numbers")
            return other, Column(whole)
        return column, Column(whole.astype(np.uint64))
    if column == "formal_charge":
        whole = _integers(values)
        return (column, Column(whole)) if whole is not None else ("formalcharges", _plain(values))
    if column in ("mass", "charge", "occupancy", "b_factor", "radius"):
        made = _floats(values)
        if made is None:
            return name if name != column else f"{name}_text", _plain(values)
        return column, _guessed(name, made, guessed, report)
    if column in ("name", "type", "element", "res_name", "icode", "segid", "chain", "altloc"):
        if name in guessed:
            report.derived(column, f"{guessed[name]} of {len(values)} guessed by MDAnalysis")
        return column, _texts(values.tolist())
    return column, _plain(values)


def _guessed(name: str, values: NDArray[np.float64], guessed: Mapping[str, int], report: Report) -> Column:
    """Return a guessed mass of zero is one MDAnalysis does not know: null."""
    if name not in guessed:
        return Column(values)
    known = values != 0.0 if name == "masses" else np.ones(len(values), np.bool_)
    unknown = int((~known).sum())
    report.derived(
        ATTRIBUTES.get(name, name),
        f"{guessed[name] - unknown} of {len(values)} guessed by MDAnalysis"
        + (f", {unknown} it does not know are null" if unknown else ""),
    )
    return Column(values, None if known.all() else known)


def _integers(values: NDArray[Any]) -> NDArray[np.int64] | None:
    try:
        whole = np.array(values.tolist() if values.dtype == object else values)
        if whole.dtype.kind not in "iuf" or (whole.dtype.kind == "f" and not bool((whole == np.trunc(whole)).all())):
            return None
        return whole.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        return None


def _floats(values: NDArray[Any]) -> NDArray[np.float64] | None:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _texts(values: list[Any]) -> Column:
    return Column(as_values(["" if value is None else str(value) for value in values], "string"))


def _plain(values: NDArray[Any]) -> Column | None:
    """Return values as a column of the dtype they have; None where a record has none for them."""
    if values.dtype == object:
        listed = values.tolist()
        if all(value is None or isinstance(value, str) for value in listed):
            return _texts(listed) if listed else None
        values = np.array(listed) if all(isinstance(v, (bool, int, float, np.generic)) for v in listed) else values
    if values.dtype.kind == "f":
        return Column(values.astype(np.float64))
    if values.dtype.kind in "iu":
        return Column(values.astype(np.int64 if values.dtype.kind == "i" else np.uint64))
    if values.dtype.kind == "b":
        return Column(values)
    return Column(values) if values.dtype.kind in "UT" else None


def _membership(columns: Mapping[str, Column], table: Any) -> dict[str, Column]:
    """Return which residue and segment an atom is in, where the other columns do not say it."""
    own = groups_of(columns, int(table.n_atoms))
    residues = _residues(table)
    found = {}
    same = np.array_equal(own.resindex, residues)
    if not same and table.n_residues > 1:
        found["resindex"] = Column(residues.astype(np.uint64))
    segments = np.asarray(table.residues2segments(residues), dtype=np.int64)
    if table.n_segments > 1 and not np.array_equal(own.segindex[own.resindex], segments):
        found["segindex"] = Column(segments.astype(np.uint64))
    return found


def selected(system: Frame, rows: NDArray[np.int64]) -> Frame:
    """Return the system of the atoms in these rows, in their order; relations that reach beyond them are left out."""
    count = system["atoms"].count
    if np.array_equal(rows, np.arange(count)):
        return system
    place = np.full(count, -1, np.int64)
    place[rows[::-1]] = np.arange(len(rows))[::-1]
    blocks = {"atoms": _taken(system["atoms"], rows)}
    for name, block in system.blocks.items():
        if name == "atoms":
            continue
        ends = [column for column in references(block.columns, block.targets) if column in block.columns]
        inside = np.ones(block.count, np.bool_)
        for end in ends:
            inside &= place[block.stored(end).astype(np.int64)] >= 0
        kept = _taken(block, np.flatnonzero(inside))
        for end in ends:
            values = place[kept.stored(end).astype(np.int64)].astype(np.uint64)
            kept.columns[end] = Column(values, kept.columns[end].validity)
        if kept.count:
            blocks[name] = kept
    return Frame(blocks, system.meta)


def _taken(block: Block, rows: NDArray[np.int64]) -> Block:
    columns = {
        name: Column(column.values[rows], None if column.validity is None else column.validity[rows], column.precision)
        for name, column in block.columns.items()
    }
    return Block(columns, count=len(rows), targets=block.targets)
