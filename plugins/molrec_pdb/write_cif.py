"""Records as mmCIF files: the writer of the format. Numbers are the shortest texts that read back to the same doubles.

gemmi quotes and lays out. Source: PDBx/mmCIF dictionary.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gemmi
import numpy as np

from molrec_convert.errors import UnsupportedError
from molrec_convert.formats import WriteContext
from molrec_convert.model import Box, Column, Record, distinct
from molrec_convert.model.collection import Collection
from molrec_convert.report import Report
from molrec_convert.target_file import open_target
from molrec_pdb.cells import cell_parameters, cell_vectors
from molrec_pdb.write_frames import OutFrame, check_lengths, frames_of, mask_of, report_left

__all__ = ["predict", "write_mmcif"]

_CELL = ("length_a", "length_b", "length_c", "angle_alpha", "angle_beta", "angle_gamma")
_ANISOU = ("U[1][1]", "U[2][2]", "U[3][3]", "U[1][2]", "U[1][3]", "U[2][3]")
_PLACES = (
    "id name altloc res_name chain res_id res_seq icode x y z occupancy b_factor element element_text formal_charge "
    "anisou hetatm label_asym_id label_entity_id label_seq_id label_atom_id label_comp_id"
)
_WRITTEN = frozenset(_PLACES.split())
_KEYS = frozenset({"mmcif", "units"})
_CONNECTIONS = {"disulfide": "disulf", "metal": "metalc", "hydrogen": "hydrog"}
_ORDERS = {1: "sing", 2: "doub", 3: "trip"}


def write_mmcif(source: Record | Collection, path: Path, context: WriteContext) -> None:
    """Write all frames as models, each record as a data block, compressed as the name says."""
    name = path.name if context.target is None else context.target.name
    context.progress.start("write", None)
    text = _document(source, context).as_string()
    with open_target(path, name) as file:
        file.write(text.encode())


def predict(source: Record | Collection, context: WriteContext) -> None:
    """Report what the file will not hold."""
    _document(source, context)


def _document(source: Record | Collection, context: WriteContext) -> Any:
    document: Any = gemmi.cif.Document()
    records = [source] if isinstance(source, Record) else source
    names: set[str] = set()
    for number, record in enumerate(records, 1):
        builder = _Builder(record, context.report)
        name = builder.name if isinstance(source, Record) or builder.stated else f"{builder.name}{number}"
        if name.upper() in names:
            context.report.converted("data", "names of blocks that stand twice: numbered")
            while name.upper() in names:
                name = f"{name}-{number}"
        names.add(name.upper())
        builder.build(document.add_new_block(name))
    if not len(document):
        raise UnsupportedError("the collection has no records, and a file of the format has a data block at least")
    return document


class _Builder:
    def __init__(self, record: Record, report: Report) -> None:
        self.record, self.report = record, report
        self.block: Any = None
        system = record.system
        other = None if system is None else system.meta.get("mmcif")
        self.other: dict[str, Any] = other if isinstance(other, dict) else {}
        name = re.sub(r"\s", "_", str(self.other.get("data", "")))
        self.name, self.stated = name or "record", bool(name)

    def build(self, block: Any) -> None:
        """Fill a data block of the document."""
        self.block = block
        report_left(self.record, self.report, _WRITTEN, _KEYS)
        check_lengths(self.record.units, self.report)
        frames = list(frames_of(self.record))
        if not frames:
            raise UnsupportedError("the record has no frames, and a file of the format is made of them")
        times = None if self.record.trajectory is None else self.record.trajectory.times
        if times is not None:
            self.report.dropped("trajectory/time", "models have numbers only")
        if any(frame.frame.step not in (None, number) for number, frame in enumerate(frames)):
            self.report.dropped("trajectory/step", "models have numbers only")
        rotation = self._cell(frames)
        self._categories()
        self._atoms(frames, rotation)
        self._bonds(frames[0])

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

    def _cell(self, frames: list[OutFrame]) -> Any:
        box = frames[0].box
        if any(frame.box != box for frame in frames):
            self.report.dropped("box", "cells of later frames: a block has one")
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

    def _atoms(self, frames: list[OutFrame], rotation: Any) -> None:
        tables = [self._rows(number, frame, rotation) for number, frame in enumerate(frames)]
        tags = list(dict.fromkeys(tag for table in tables for tag in table))
        values: list[list[str]] = [[] for _ in tags]
        for table, frame in zip(tables, frames, strict=True):
            for place, tag in enumerate(tags):
                values[place] += table.get(tag) or ["?"] * frame.count
        self.block.init_loop("_atom_site.", tags).set_all_values(values)
        self._anisou(frames, rotation)

    def _rows(self, number: int, frame: OutFrame, rotation: Any) -> dict[str, list[str]]:
        columns, count = frame.columns, frame.count
        if any(axis not in columns for axis in "xyz"):
            raise UnsupportedError("the atoms have no positions, and rows of _atom_site are made of them")
        table: dict[str, list[str]] = {}
        hetatm = columns["hetatm"].values.tolist() if "hetatm" in columns else [False] * count
        table["group_PDB"] = ["HETATM" if flag else "ATOM" for flag in hetatm]
        if "id" in columns:
            table["id"] = _numbers(columns["id"])
        else:
            self.report.derived("id", "the record has no ids: atoms are numbered in their order")
            table["id"] = [str(n) for n in range(number * count + 1, (number + 1) * count + 1)]
        symbols = [symbol.upper() for symbol in _texts(columns.get("element"), count, "X")]
        if "element_text" in columns:
            texts = _texts(columns["element_text"], count, "")
            symbols = [text if symbol == "X" and text not in ("", ".") else symbol for symbol, text in zip(
                symbols, texts, strict=True)]  # fmt: skip
        table["type_symbol"] = symbols
        names = _texts(columns.get("name", columns.get("element")), count, "X")
        residues = _texts(columns.get("res_name"), count, "UNK")
        chains = _texts(columns.get("chain"), count, "A")
        table["label_atom_id"] = (
            _texts(columns.get("label_atom_id"), count, "") if "label_atom_id" in columns else names
        )
        table["label_alt_id"] = _texts(columns.get("altloc"), count, ".")
        table["label_comp_id"] = (
            _texts(columns.get("label_comp_id"), count, ".") if "label_comp_id" in columns else residues
        )
        for label, default in (("label_asym_id", chains), ("label_entity_id", None), ("label_seq_id", None)):
            if label in columns:
                table[label] = _texts(columns[label], count, "." if label == "label_seq_id" else "?")
            elif default is not None:
                self.report.derived("label_asym_id", "the chain")
                table[label] = default
        table["pdbx_PDB_ins_code"] = _texts(columns.get("icode"), count, "?")
        turned = None if rotation is None else rotation @ np.stack([columns[axis].values for axis in "xyz"])
        for place, axis in enumerate("xyz"):
            values = columns[axis].values if turned is None else turned[place]
            if not np.isfinite(values).all() or not mask_of(columns[axis]).all():
                raise UnsupportedError(f"atoms/{axis}: an atom has no position, and the format needs one")
            table[f"Cartn_{axis}"] = [repr(value) for value in values.tolist()]
        for name, item in (("occupancy", "occupancy"), ("b_factor", "B_iso_or_equiv")):
            if name in columns:
                table[item] = self._reals(name, columns[name])
        if "formal_charge" in columns:
            table["pdbx_formal_charge"] = _numbers(columns["formal_charge"])
        own = next((columns[key] for key in ("res_seq", "res_id", "mol_id") if key in columns), None)
        table["auth_seq_id"] = ["1"] * count if own is None else _numbers(own)
        self._renumbered(columns)
        table["auth_comp_id"], table["auth_atom_id"] = residues, names
        table["auth_asym_id"] = _texts(columns.get("chain"), count, "?") if "chain" in columns else ["?"] * count
        model = frame.frame.meta.get("model", number + 1)
        if "model" not in frame.frame.meta:
            self.report.derived("pdbx_PDB_model_num", "models are numbered in the order of the frames")
        table["pdbx_PDB_model_num"] = [str(model)] * count
        return table

    def _renumbered(self, columns: Mapping[str, Column]) -> None:
        """Say so where residues have numbers that readers of the file's own do not come to."""
        if not {"res_id", "res_seq"} <= columns.keys():
            return
        own, number = columns["res_seq"], columns["res_id"]
        there = mask_of(own) & mask_of(number)
        if bool((there & (own.values >= 0) & (own.values != number.values)).any()):
            self.report.dropped("atoms/res_id", "where res_seq, which is written, is another number")

    def _reals(self, name: str, column: Column) -> list[str]:
        values, known = column.values, mask_of(column)
        if not np.isfinite(values[known]).all():
            self.report.dropped(f"atoms/{name}", "values that are no finite numbers: unknown")
            known = known & np.isfinite(values)
        return [repr(value) if there else "?" for value, there in zip(values.tolist(), known.tolist(), strict=True)]

    def _anisou(self, frames: list[OutFrame], rotation: Any) -> None:
        rows: list[list[str]] = [[] for _ in range(7)]
        for frame in frames:
            column = frame.columns.get("anisou")
            if column is None or column.trailing != (6,):
                continue
            if rotation is not None or "id" not in frame.columns:
                self.report.dropped("atoms/anisou", "the atoms are turned, or have no ids these could name")
                return
            chosen = mask_of(column)
            rows[0] += [str(number) for number in frame.columns["id"].values[chosen].tolist()]
            for part in range(6):
                rows[part + 1] += [repr(value) for value in column.values[chosen, part].tolist()]
        if rows[0]:
            self.block.init_loop("_atom_site_anisotrop.", ["id", *_ANISOU]).set_all_values(rows)

    def _bonds(self, frame: OutFrame) -> None:
        """Bonds that no category states yet, as connections."""
        system = self.record.system
        if system is None or "bonds" not in system.blocks or not system.blocks["bonds"].count:
            return
        bonds = system.blocks["bonds"]
        if "_struct_conn" in self.other:
            if "kind" not in bonds.columns or "conect" in " ".join(bonds.stored("kind").tolist()):
                self.report.dropped("bonds", "those that _struct_conn, kept as it came, does not state")
            return
        columns, count = frame.columns, frame.count
        if "name" not in columns or not {"res_id", "res_seq"} & columns.keys():
            self.report.dropped("bonds", "connections name residues and atoms, and these have none")
            return
        kinds = bonds.stored("kind").tolist() if "kind" in bonds.columns else ["link"] * bonds.count
        types = [_CONNECTIONS.get(kind.rpartition("+")[2], "covale") for kind in kinds]
        if "kind" in bonds.columns and any("conect" in kind for kind in kinds):
            self.report.dropped("bonds/kind", "a connection does not say that a record CONECT stated it")
        table = {"id": [f"{kind}{number}" for number, kind in enumerate(types, 1)], "conn_type_id": types}
        number = columns.get("res_seq", columns.get("res_id"))
        assert number is not None
        parts = {
            "auth_asym_id": _texts(columns.get("chain"), count, "?"),
            "auth_comp_id": _texts(columns.get("res_name"), count, "?"),
            "auth_seq_id": _numbers(number),
            "label_atom_id": _texts(columns["name"], count, "?"),
        }
        extra = {
            "PDB_ins_code": _texts(columns.get("icode"), count, "?"),
            "label_alt_id": _texts(columns.get("altloc"), count, "?"),
        }
        ends = [bonds.stored(key).tolist() for key in ("atomi", "atomj")]
        clear = self._clear(list(zip(*parts.values(), *extra.values(), strict=True)), ends)
        for end, rows in zip("12", ends, strict=True):
            table |= {f"ptnr{end}_{item}": [texts[row] for row in rows] for item, texts in parts.items()}
            table |= {f"pdbx_ptnr{end}_{item}": [texts[row] for row in rows] for item, texts in extra.items()}
        if "bond_type" in bonds.columns:
            stated = bonds.stored("bond_type").tolist()
            if any(order > 3 for order in stated):
                self.report.dropped("bonds/bond_type", "aromatic bonds: connections have single, double and triple")
            table["pdbx_value_order"] = [_ORDERS.get(order, "?") for order in stated]
        if clear:
            values = [[column[row] for row in clear] for column in table.values()]
            self.block.init_loop("_struct_conn.", list(table)).set_all_values(values)

    def _clear(self, names: list[tuple[str, ...]], ends: list[list[int]]) -> list[int]:
        """The bonds between atoms whose names tell them from all others."""
        counts = Counter(names)
        clear = [n for n, pair in enumerate(zip(*ends, strict=True)) if all(counts[names[row]] == 1 for row in pair)]
        if len(clear) < len(ends[0]):
            self.report.dropped(
                "bonds", f"{len(ends[0]) - len(clear)} of atoms that have their names in common with others"
            )
        return clear


def _texts(column: Column | None, count: int, nothing: str) -> list[str]:
    """Texts, quoted where the syntax needs it; `nothing` for empty ones and nulls."""
    if column is None or column.values.dtype.kind != "T":
        return [nothing] * count
    different, codes, _ = distinct(column.values)
    quoted = [gemmi.cif.quote(text) if text else nothing for text in different.tolist()]
    found = [quoted[code] for code in codes.tolist()]
    if column.validity is not None:
        found = [text if there else nothing for text, there in zip(found, column.validity.tolist(), strict=True)]
    return found


def _numbers(column: Column) -> list[str]:
    known = mask_of(column).tolist()
    return [str(value) if there else "?" for value, there in zip(column.values.tolist(), known, strict=True)]
