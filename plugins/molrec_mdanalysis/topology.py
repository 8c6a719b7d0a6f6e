"""What MDAnalysis' topology says, as the `system` of a record: one row an atom, and relations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model import Block, Column, Frame, Meta
from molrec_convert.model.dtypes import as_values
from molrec_convert.model.names import escape_name, name_fault
from molrec_convert.report import Report
from molrec_mdanalysis.grouping import groups_of
from molrec_mdanalysis.names import ATTRIBUTES, RELATIONS, STATE
from molrec_mdanalysis.relations import relation_blocks

__all__ = ["attributes_of", "system_of"]

#: Attributes that only say where things stand, or that stand for what a record says otherwise.
_PLACES = {"indices", "resindices", "segindices"}
_STATE = {column for columns in STATE.values() for column in columns}


def attributes_of(universe: Any) -> dict[str, Any]:
    """The attributes of a universe's topology by name."""
    return {attribute.attrname: attribute for attribute in universe._topology.attrs}


def system_of(universe: Any, guessed: Mapping[str, int], units: Any, report: Report) -> Frame:
    """The system of a universe. `guessed`: attributes MDAnalysis guessed, with the number of atoms they are of.

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
    return Frame({**blocks, **relation_blocks(attributes, report)}, meta)


def _same(one: Any, other: Any) -> bool:
    """Whether two attributes have the same values."""
    return bool(np.array_equal(one.values, other.values))


def _per_atom(name: str, attribute: Any, table: Any) -> NDArray[Any]:
    """The values of an attribute of atoms, residues or segments, one for each atom."""
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
    """The number of the residue of every atom."""
    found = np.asarray(table.atoms2residues(np.arange(table.n_atoms)), dtype=np.int64)
    if len(found) and not 0 <= int(found.min()) <= int(found.max()) < table.n_residues:
        rule = "the topology puts atoms into residues it does not have"
        raise ContractError("system/atoms", rule, found=str(int(found.max())), expected=f"less than {table.n_residues}")
    return found


def _unnamed(segids: NDArray[Any]) -> bool:
    """Whether the only segment has the name MDAnalysis gives where there is none."""
    return len(segids) == 1 and segids[0] == "SYSTEM"


def _column(name: str, values: NDArray[Any], guessed: Mapping[str, int], report: Report) -> tuple[str, Column | None]:
    """The name and values an attribute has in a record."""
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
    """A guessed mass of zero is one MDAnalysis does not know: null."""
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
    """Values as a column of the dtype they have; None where a record has none for them."""
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
    """Which residue and segment an atom is in, where the other columns do not say it."""
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
