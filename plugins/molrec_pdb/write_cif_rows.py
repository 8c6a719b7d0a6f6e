"""The atoms of a frame as rows of `_atom_site` and `_atom_site_anisotrop`, some thousand rows at a time.

All items that readers ask for are there: what the record does not have is made, and named in the file, so that it is
not taken for what the record said. Source: PDBx/mmCIF dictionary, category ATOM_SITE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import gemmi
import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Column
from molrec_convert.report import Report
from molrec_pdb.atoms import PLACEHOLDERS
from molrec_pdb.cif_text import UNKNOWN
from molrec_pdb.coded import Coded, coded, combined, constant
from molrec_pdb.numbering import runs_of
from molrec_pdb.write_frames import OutFrame, mask_of
from molrec_pdb.write_names import Called, call_atoms, known_or

__all__ = ["WRITTEN", "Atoms", "SiteWriter", "loop_text"]

_ANISOU = ("U[1][1]", "U[2][2]", "U[3][3]", "U[1][2]", "U[1][3]", "U[2][3]")
_PLACES = (
    "id name altloc res_name chain res_id res_seq icode x y z occupancy b_factor element element_text formal_charge "
    "anisou hetatm label_asym_id label_entity_id label_seq_id label_atom_id label_comp_id"
)
WRITTEN = frozenset(_PLACES.split())
_EVERY = (
    "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id label_entity_id label_seq_id "
    "pdbx_PDB_ins_code Cartn_x Cartn_y Cartn_z occupancy B_iso_or_equiv pdbx_formal_charge auth_seq_id auth_comp_id "
    "auth_asym_id auth_atom_id pdbx_PDB_model_num"
)
_ITEMS = tuple(_EVERY.split())
#: Rows whose texts are in memory at a time.
_ROWS = 2**13
#: Names are made with numbers of any length.
_NAME = 12
#: Item → the column of what its values are, for the two there is a placeholder for.
_REALS = {"occupancy": "occupancy", "B_iso_or_equiv": "b_factor"}


@dataclass
class Atoms:
    """What the atoms of a frame are: item → texts; what they are called; which items were made."""

    items: dict[str, Coded]
    ids: NDArray[np.int64]
    called: Called
    made: list[str]


def loop_text(category: str, items: Iterable[str]) -> str:
    """The head of a loop."""
    return "loop_\n" + "".join(f"{category}.{item}\n" for item in items)


def quoted(text: str) -> str:
    """A value as it stands in a loop."""
    value = str(gemmi.cif.quote(text))
    return f"\n{value}\n" if value.startswith(";") else value


class SiteWriter:
    """Writes the rows of frames; what stays the same from frame to frame is made once."""

    def __init__(self, report: Report, put: Callable[[bytes], Any]) -> None:
        self._report, self._put = report, put
        self._atoms: Atoms | None = None
        self._count = 0
        #: Item → the rows, from 0, that have no value of their own.
        self._unknown: dict[str, list[int]] = {}

    def atoms(self, frame: OutFrame, *, fixed: bool) -> Atoms:
        """What the atoms of a frame are. `fixed`: it comes from the system, as in the frames before."""
        if self._atoms is None or not fixed or len(self._atoms.ids) != frame.count:
            self._atoms = _atoms(frame, self._count, self._report)
        elif "id" not in frame.columns:
            self._atoms.ids = np.arange(self._count + 1, self._count + frame.count + 1)
        return self._atoms

    def write(self, frame: OutFrame, atoms: Atoms, model: int, rotation: NDArray[np.float64] | None) -> None:
        """Write the rows of a frame as those of a model."""
        reals = self._reals(frame, rotation)
        charges = frame.columns.get("formal_charge")
        for at in range(0, frame.count, _ROWS):
            part = slice(at, at + _ROWS)
            table = {item: _spread(texts, part) for item, texts in atoms.items.items()}
            table |= {item: list(map(repr, values[part].tolist())) for item, values in reals.items()}
            table["id"] = list(map(str, atoms.ids[part].tolist()))
            table["auth_seq_id"] = list(map(str, atoms.called.numbers[part].tolist()))
            count = len(table["id"])
            table["pdbx_formal_charge"] = ["?"] * count if charges is None else _integers(charges, part)
            table["pdbx_PDB_model_num"] = [str(model)] * count
            rows = zip(*(table[item] for item in _ITEMS), strict=True)
            self._put(("\n".join(map(" ".join, rows)) + "\n").encode())
        self._count += frame.count

    def head(self) -> str:
        """The head of the loop."""
        return loop_text("_atom_site", _ITEMS)

    def _reals(self, frame: OutFrame, rotation: NDArray[np.float64] | None) -> dict[str, NDArray[np.float64]]:
        """Positions, occupancies and B factors, by their items."""
        columns = frame.columns
        for axis in "xyz":
            if axis not in columns:
                raise UnsupportedError("the atoms have no positions, and rows of _atom_site are made of them")
            if not np.isfinite(columns[axis].values).all() or not mask_of(columns[axis]).all():
                raise UnsupportedError(f"atoms/{axis}: an atom has no position, and the format needs one")
        xyz = [columns[axis].values for axis in "xyz"]
        if rotation is not None:
            xyz = list(rotation @ np.stack(xyz))
        values = {f"Cartn_{axis}": values for axis, values in zip("xyz", xyz, strict=True)}
        for item, name in _REALS.items():
            values[item] = known_or(columns.get(name), PLACEHOLDERS[name], frame.count, name, self._report)
            if name in columns:
                known = mask_of(columns[name]) & np.isfinite(columns[name].values)
                self._unknown.setdefault(item, []).extend((np.flatnonzero(~known) + self._count).tolist())
        return values

    def unknown(self) -> None:
        """Write a loop of values that are placeholders in some rows."""
        rows = [f"{item} {row}\n" for item, rows in self._unknown.items() for row in rows]
        if rows:
            self._put(f"\n{loop_text(UNKNOWN, ['item', 'row'])}{''.join(rows)}".encode())

    def anisou(self, frames: Iterator[OutFrame], rotation: NDArray[np.float64] | None) -> None:
        """Write the loop of anisotropic displacements."""
        head = "\n" + loop_text("_atom_site_anisotrop", ["id", *_ANISOU])
        for frame in frames:
            column = frame.columns.get("anisou")
            if column is None or column.trailing != (6,):
                continue
            if rotation is not None or "id" not in frame.columns:
                self._report.dropped("atoms/anisou", "the atoms are turned, or have no ids these could name")
                return
            chosen = np.flatnonzero(mask_of(column))
            ids = frame.columns["id"].values
            for at in range(0, len(chosen), _ROWS):
                rows = chosen[at : at + _ROWS]
                lines = zip(ids[rows].tolist(), column.values[rows].tolist(), strict=True)
                text = "".join(f"{number} {' '.join(map(repr, values))}\n" for number, values in lines)
                self._put((head + text).encode())
                head = ""


def _atoms(frame: OutFrame, before: int, report: Report) -> Atoms:
    """What the atoms of a frame are, as texts; `before` rows stand before them."""
    columns, count = frame.columns, frame.count
    made = [item for item, name in _REALS.items() if name not in columns]
    called = call_atoms(frame, _NAME, report)
    ids = _ids(columns.get("id"), count, before, report)
    symbols = called.symbols.mapped(lambda text: text.upper() or "X")
    if "element_text" in columns:
        texts = coded(columns["element_text"])
        symbols = combined(symbols, texts, lambda one, other: other if one == "X" and other not in ("", ".") else one)
    names, residues = called.names.mapped(quoted), called.residues.mapped(quoted)
    if "chain" in columns:
        chains = _texts(columns["chain"], "?")
    else:
        chains = constant("A", count)
        made.append("auth_asym_id")
    labels = {
        "label_asym_id": chains if "chain" in columns else constant("A", count),
        "label_entity_id": constant("1", count),
        "label_seq_id": _sequence(called, chains, columns.get("icode"), count),
    }
    labels["label_asym_id"] = labels["label_asym_id"].mapped(lambda text: "A" if text == "?" else text)
    for item in labels:
        if item in columns:
            labels[item] = _texts(columns[item], "." if item == "label_seq_id" else "?")
        else:
            made.append(item)
    items = {
        "group_PDB": Coded(["ATOM", "HETATM"], called.hetero.astype(np.intp)),
        "type_symbol": symbols.mapped(quoted),
        "label_atom_id": _texts(columns["label_atom_id"], "?") if "label_atom_id" in columns else names,
        "label_alt_id": _texts(columns["altloc"], ".") if "altloc" in columns else constant(".", count),
        "label_comp_id": _texts(columns["label_comp_id"], ".") if "label_comp_id" in columns else residues,
        **labels,
        "pdbx_PDB_ins_code": _texts(columns["icode"], "?") if "icode" in columns else constant("?", count),
        "auth_comp_id": residues,
        "auth_asym_id": chains,
        "auth_atom_id": names,
    }
    if set(made) & {"auth_asym_id", *labels}:
        report.derived("auth_asym_id, label_*", "chains, entities and places in a chain that the record does not have")
    return Atoms(items, ids, called, made)


def _ids(column: Column | None, count: int, before: int, report: Report) -> NDArray[np.int64]:
    if column is None:
        report.derived("id", "the record has no ids: atoms are numbered in their order")
        return np.arange(before + 1, before + count + 1)
    known = mask_of(column)
    numbers = column.values.astype(np.int64)
    if known.all():
        return numbers
    report.derived("id", "of atoms that have none: counted on")
    return np.where(known, numbers, int(numbers[known].max(initial=0)) + np.cumsum(~known))


def _sequence(called: Called, chains: Coded, icode: Column | None, count: int) -> Coded:
    """Places in a chain: the numbers of residues, or, where these do not tell them apart, counted."""
    numbers = called.numbers
    if icode is not None or (count and int(numbers.min()) < 1):
        codes = coded(icode).codes if icode is not None else np.zeros(count, np.intp)
        starts = np.zeros(count, np.int64)
        starts[runs_of(chains.codes, numbers, codes, called.residues.codes)] = 1
        numbers = np.cumsum(starts)
    different, codes = np.unique(numbers, return_inverse=True)
    return Coded(list(map(str, different.tolist())), codes.astype(np.intp))


def _texts(column: Column, nothing: str) -> Coded:
    """Texts, quoted where the syntax needs it; `nothing` for empty ones and nulls."""
    if column.values.dtype.kind != "T":
        return constant(nothing, len(column))
    return coded(column).mapped(lambda text: quoted(text) if text else nothing)


def _spread(texts: Coded, part: slice) -> list[str]:
    different = texts.different
    return [different[code] for code in texts.codes[part].tolist()]


def _integers(column: Column, part: slice) -> list[str]:
    known = mask_of(column)[part].tolist()
    return [str(value) if there else "?" for value, there in zip(column.values[part].tolist(), known, strict=True)]
