"""Records as mmCIF files: the writer of the format. Numbers are the shortest texts that read back to the same doubles.

Categories but those of the atoms are laid out by gemmi. Source: PDBx/mmCIF dictionary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gemmi
import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.files.target_file import open_target
from molrec_convert.formats import WriteContext
from molrec_convert.model import Box, Column, Record
from molrec_convert.model.collection.collection import Collection
from molrec_convert.report import Report
from molrec_pdb.atoms import PLACEHOLDERS
from molrec_pdb.header import cell_parameters, cell_vectors
from molrec_pdb.mmcif.text import MADE, UNKNOWN
from molrec_pdb.numbering import runs_of
from molrec_pdb.write_atoms import (
    Called,
    Coded,
    OutFrame,
    call_atoms,
    check_lengths,
    coded,
    combined,
    constant,
    frames_of,
    known_or,
    mask_of,
    report_left,
)

__all__ = ["WRITTEN", "Atoms", "SiteWriter", "loop_text", "predict", "write_mmcif"]

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
    """Return the head of a loop."""
    return "loop_\n" + "".join(f"{category}.{item}\n" for item in items)


def quoted(text: str) -> str:
    """Return a value as it stands in a loop."""
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
        """Return what the atoms of a frame are. `fixed`: it comes from the system, as in the frames before."""
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
        """Return the head of the loop."""
        return loop_text("_atom_site", _ITEMS)

    def _reals(self, frame: OutFrame, rotation: NDArray[np.float64] | None) -> dict[str, NDArray[np.float64]]:
        """Return positions, occupancies and B factors, by their items."""
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
    """Return what the atoms of a frame are, as texts; `before` rows stand before them."""
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
    """Return places in a chain: the numbers of residues, or, where these do not tell them apart, counted."""
    numbers = called.numbers
    if icode is not None or (count and int(numbers.min()) < 1):
        codes = coded(icode).codes if icode is not None else np.zeros(count, np.intp)
        starts = np.zeros(count, np.int64)
        starts[runs_of(chains.codes, numbers, codes, called.residues.codes)] = 1
        numbers = np.cumsum(starts)
    different, codes = np.unique(numbers, return_inverse=True)
    return Coded(list(map(str, different.tolist())), codes.astype(np.intp))


def _texts(column: Column, nothing: str) -> Coded:
    """Return texts, quoted where the syntax needs it; `nothing` for empty ones and nulls."""
    if column.values.dtype.kind != "T":
        return constant(nothing, len(column))
    return coded(column).mapped(lambda text: quoted(text) if text else nothing)


def _spread(texts: Coded, part: slice) -> list[str]:
    different = texts.different
    return [different[code] for code in texts.codes[part].tolist()]


def _integers(column: Column, part: slice) -> list[str]:
    known = mask_of(column)[part].tolist()
    return [str(value) if there else "?" for value, there in zip(column.values[part].tolist(), known, strict=True)]


_CELL = ("length_a", "length_b", "length_c", "angle_alpha", "angle_beta", "angle_gamma")
_STATE = frozenset({"x", "y", "z", "occupancy", "b_factor", "anisou"})
_KEYS = frozenset({"mmcif", "units"})
_CONNECTIONS = {"disulfide": "disulf", "metal": "metalc", "hydrogen": "hydrog"}
_ORDERS = {1: "sing", 2: "doub", 3: "trip"}


def write_mmcif(source: Record | Collection, path: Path, context: WriteContext) -> None:
    """Write all frames as models, each record as a data block, compressed as the name says."""
    name = path.name if context.target is None else context.target.name
    context.progress.start("write", None)
    with open_target(path, name) as file:
        _write(source, context, file.write)


def predict(source: Record | Collection, context: WriteContext) -> None:
    """Report what the file will not hold."""
    _write(source, context, lambda data: None)


def _write(source: Record | Collection, context: WriteContext, put: Callable[[bytes], Any]) -> None:
    records = [source] if isinstance(source, Record) else source
    names: set[str] = set()
    for number, record in enumerate(records, 1):
        writer = _BlockWriter(record, context.report, put)
        name = writer.name if isinstance(source, Record) or writer.stated else f"{writer.name}{number}"
        if name.upper() in names:
            context.report.converted("data", "names of blocks that stand twice: numbered")
            while name.upper() in names:
                name = f"{name}-{number}"
        names.add(name.upper())
        writer.write(name)
        context.progress.advance(1)
    if not names:
        raise UnsupportedError("the collection has no records, and a file of the format has a data block at least")


class _BlockWriter:
    """One record: a data block."""

    def __init__(self, record: Record, report: Report, put: Callable[[bytes], Any]) -> None:
        self.record, self.report, self.put = record, report, put
        self.block: Any = None
        system = record.system
        other = None if system is None else system.meta.get("mmcif")
        self.other: dict[str, Any] = other if isinstance(other, dict) else {}
        name = re.sub(r"\s", "_", str(self.other.get("data", "")))
        self.name, self.stated = name or "record", bool(name)

    def write(self, name: str) -> None:
        """Write the block under a name."""
        report_left(self.record, self.report, WRITTEN, _KEYS)
        check_lengths(self.record.units, self.report)
        frames = frames_of(self.record)
        first = next(frames, None)
        if first is None:
            raise UnsupportedError("the record has no frames, and a file of the format is made of them")
        if not first.count:
            raise UnsupportedError("the record has no atoms, and a file of the format has a row of them at least")
        if self.record.trajectory is not None and self.record.trajectory.times is not None:
            self.report.dropped("trajectory/time", "models have numbers only")
        site = SiteWriter(self.report, self.put)
        atoms = site.atoms(first, fixed=False)
        document: Any = gemmi.cif.Document()
        self.block = document.add_new_block(name)
        rotation = self._cell(first.box)
        self._categories()
        self._space_group()
        if atoms.made:
            self.block.set_pair(MADE, gemmi.cif.quote(" ".join(atoms.made)))
        self.put(f"{document.as_string()}\n{site.head()}".encode())
        number, frame, model = 0, first, 0
        anisou = False
        while True:
            model = self._model_number(frame, model, number)
            self._model(site, frame, number, model, first.box, rotation)
            anisou |= "anisou" in frame.columns
            following = next(frames, None)
            if following is None:
                break
            number, frame = number + 1, following
        site.unknown()
        if anisou:
            site.anisou(frames_of(self.record), rotation)
        self._bonds(first, atoms)

    def _model(
        self, site: SiteWriter, frame: OutFrame, number: int, model: int, box: Box | None,
        rotation: NDArray[np.float64] | None,
    ) -> None:  # fmt: skip
        """Write one frame."""
        if frame.box != box:
            self.report.dropped("box", "cells of later frames: a block has one")
        if frame.frame.step not in (None, number):
            self.report.dropped("trajectory/step", "models have numbers only")
        atoms = site.atoms(frame, fixed=frame.own <= _STATE)
        if number == 0:
            self._renumbered(frame.columns)
        site.write(frame, atoms, model, rotation)

    def _model_number(self, frame: OutFrame, last: int, ordinal: int) -> int:
        """Return the number of a model: its own where these ascend, else the one behind the `last`."""
        if "model" not in frame.frame.meta:
            self.report.derived("pdbx_PDB_model_num", "models are numbered in the order of the frames")
            return last + 1
        number = int(frame.frame.meta["model"])
        if not ordinal or number > last:
            return number
        self.report.dropped("trajectory/meta/model", "models whose numbers do not ascend are numbered in their order")
        return last + 1

    def _space_group(self) -> None:
        """State the symmetry that the CRYST1 record of a PDB file did."""
        header = None if self.record.system is None else self.record.system.meta.get("pdb")
        group = header.get("space_group") if isinstance(header, dict) else None
        if isinstance(group, str) and group and not {"_symmetry", "_space_group"} & self.other.keys():
            self.report.converted("system/meta/pdb/space_group", "_symmetry.space_group_name_H-M")
            self.block.set_pair("_symmetry.space_group_name_H-M", gemmi.cif.quote(group))

    def _categories(self) -> None:
        for category, items in self.other.items():
            if category in ("data", "_cell") or not isinstance(items, dict):
                continue
            columns = [[str(text) for text in values] for values in items.values() if isinstance(values, list)]
            if len(columns) != len(items) or len({len(column) for column in columns}) != 1:
                self.report.dropped(f"system/meta/mmcif/{category}", "it is no table of items")
            elif len(columns[0]) == 1:
                for item, column in zip(items, columns, strict=True):
                    self.block.set_pair(f"{category}.{item}", column[0])
            else:
                self.block.init_loop(f"{category}.", list(items)).set_all_values(columns)

    def _cell(self, box: Box | None) -> Any:
        stated = self.other.get("_cell")
        if box is None or not box.defined:
            if isinstance(stated, dict):
                self._pairs("_cell", stated)
            return None
        return self._stated_cell(box, stated if isinstance(stated, dict) else {})

    def _stated_cell(self, box: Box, stated: dict[str, Any]) -> Any:
        if not box.boundary.all():
            self.report.dropped("box/boundary", "a cell is periodic along all of its vectors, as readers take it")
        if box.origin.any():
            self.report.dropped("box/origin", "a cell has no origin of its own")
        if not np.linalg.det(box.vectors) > 0:
            self.report.dropped("box", "its vectors are left-handed or span no volume")
            return None
        values = [gemmi.cif.as_number(str(stated.get(item, ["?"])[0])) for item in _CELL]
        parameters = cell_parameters(box.vectors)
        if not np.isnan(values).any() and np.allclose(values, parameters, rtol=1e-9):
            parameters = tuple(float(value) for value in values)
            self._pairs("_cell", {item: stated[item] for item in _CELL})
        else:
            # what is 90 but for rounding is 90
            parameters = tuple(round(value, 10) for value in parameters)
            self._pairs("_cell", {item: [repr(value)] for item, value in zip(_CELL, parameters, strict=True)})
        rest = {item: value for item, value in stated.items() if item not in _CELL}
        self._pairs("_cell", rest)
        frame = cell_vectors(parameters)
        size = float(np.abs(box.vectors).max())
        if float(np.abs(np.tril(box.vectors, -1)).max()) > 1e-9 * size or (np.diag(box.vectors) <= 0).any():
            self.report.converted("box", "positions and cell are turned into the standard frame")
            return frame @ np.linalg.inv(box.vectors)
        if not np.array_equal(frame, box.vectors):
            self.report.converted("box", "lengths and angles stand for its vectors: the last digits may differ")
        return None

    def _pairs(self, category: str, items: dict[str, Any]) -> None:
        for item, values in items.items():
            if isinstance(values, list) and len(values) == 1:
                self.block.set_pair(f"{category}.{item}", str(values[0]))

    def _renumbered(self, columns: Mapping[str, Column]) -> None:
        """Say so where residues have numbers that readers of the file's own do not come to."""
        if not {"res_id", "res_seq"} <= columns.keys():
            return
        own, number = columns["res_seq"], columns["res_id"]
        there = mask_of(own) & mask_of(number)
        if bool((there & (own.values >= 0) & (own.values != number.values)).any()):
            self.report.dropped("atoms/res_id", "where res_seq, which is written, is another number")

    def _bonds(self, frame: OutFrame, atoms: Atoms) -> None:
        """Bonds that no category states yet, as connections."""
        system = self.record.system
        if system is None or "bonds" not in system.blocks or not system.blocks["bonds"].count:
            return
        bonds = system.blocks["bonds"]
        if "_struct_conn" in self.other:
            if "kind" not in bonds.columns or "conect" in " ".join(bonds.stored("kind").tolist()):
                self.report.dropped("bonds", "those that _struct_conn, kept as it came, does not state")
            return
        kinds = bonds.stored("kind").tolist() if "kind" in bonds.columns else ["link"] * bonds.count
        types = [_CONNECTIONS.get(kind.rpartition("+")[2], "covale") for kind in kinds]
        if "kind" in bonds.columns and any("conect" in kind for kind in kinds):
            self.report.dropped("bonds/kind", "a connection does not say that a record CONECT stated it")
        ends = [bonds.stored(key).astype(np.int64) for key in ("atomi", "atomj")]
        named = _named(frame, atoms)
        clear = self._clear(named, ends)
        table = {"id": [f"{kind}{number}" for number, kind in enumerate(types, 1)], "conn_type_id": types}
        for end, rows in zip("12", ends, strict=True):
            for item, texts in named.items():
                before = "pdbx_ptnr" if item in ("PDB_ins_code", "label_alt_id") else "ptnr"
                table[f"{before}{end}_{item}"] = [texts[row] for row in rows.tolist()]
        if "bond_type" in bonds.columns:
            stated = bonds.stored("bond_type").tolist()
            if any(order > 3 for order in stated):
                self.report.dropped("bonds/bond_type", "aromatic bonds: connections have single, double and triple")
            table["pdbx_value_order"] = [_ORDERS.get(order, "?") for order in stated]
        if clear:
            lines = zip(*([column[row] for row in clear] for column in table.values()), strict=True)
            text = loop_text("_struct_conn", table) + "\n".join(map(" ".join, lines)) + "\n"
            self.put(f"\n{text}".encode())

    def _clear(self, named: Mapping[str, list[str]], ends: list[NDArray[np.int64]]) -> list[int]:
        """Return the bonds between atoms whose names tell them from all others."""
        names = list(zip(*named.values(), strict=True))
        counts = Counter(names)
        alone = np.array([counts[name] == 1 for name in names], np.bool_)
        clear: list[int] = np.flatnonzero(alone[ends[0]] & alone[ends[1]]).tolist()
        if len(clear) < len(ends[0]):
            self.report.dropped(
                "bonds", f"{len(ends[0]) - len(clear)} of atoms that have their names in common with others"
            )
        return clear


def _named(frame: OutFrame, atoms: Atoms) -> dict[str, list[str]]:
    """Return what connections name the atoms of a frame by: item → texts."""

    def texts(item: str) -> list[str]:
        found = atoms.items[item]
        return [found.different[code] for code in found.codes.tolist()]

    return {
        "auth_asym_id": texts("auth_asym_id"),
        "auth_comp_id": texts("auth_comp_id"),
        "auth_seq_id": list(map(str, atoms.called.numbers.tolist())),
        "label_asym_id": texts("label_asym_id"),
        "label_comp_id": texts("label_comp_id"),
        "label_seq_id": texts("label_seq_id"),
        "label_atom_id": texts("label_atom_id"),
        "PDB_ins_code": texts("pdbx_PDB_ins_code"),
        "label_alt_id": texts("label_alt_id"),
    }
