"""mmCIF files as records: the reader of the format. gemmi reads the syntax, columns of a category at a time.

Several data blocks with atoms are records of their own. Models whose atoms agree are one trajectory; others are records
of their own. Source: PDBx/mmCIF dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gemmi
import numpy as np

from molrec_convert.errors import FormatError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Block, Box, Frame, MemoryTrajectory, Record
from molrec_convert.model.collection.collection import Collection, MemoryCollection
from molrec_convert.report import Report
from molrec_convert.text.contents import Contents
from molrec_pdb.bonds import bond_block
from molrec_pdb.cells import cell_vectors
from molrec_pdb.cif_columns import CifAtoms, identity_of, read_atoms
from molrec_pdb.cif_text import UNKNOWN, CifText, made_items
from molrec_pdb.header import Link
from molrec_pdb.numbers import whole

__all__ = ["read_mmcif"]

_CELL = ("length_a", "length_b", "length_c", "angle_alpha", "angle_beta", "angle_gamma")
_KINDS = {"disulf": "disulfide", "metalc": "metal", "hydrog": "hydrogen"}
_ORDERS = {"sing": 1, "doub": 2, "trip": 3}
#: Categories that become columns.
_ATOMS = ("_atom_site.", "_atom_site_anisotrop.")


def read_mmcif(paths: Sequence[Path], context: ReadContext) -> Record | Collection:
    """Read one file: a record with a trajectory, or a collection of one record for each data block or model."""
    with Contents(paths[0]) as contents:
        if contents.cut is not None:
            context.report.truncated(f"{paths[0]}: {contents.cut}")
        return _Reader(paths[0], CifText(paths[0], contents), context).read()


class _Reader:
    def __init__(self, path: Path, text: CifText, context: ReadContext) -> None:
        self.path, self.text, self.context, self.report = path, text, context, context.report
        blocks = [block for block in text.document if len(block.find_mmcif_category("_atom_site."))]
        if not blocks:
            raise FormatError(path, found="no category _atom_site with atoms", expected="a model in mmCIF")
        if len(blocks) < len(text.document):
            self.report.dropped("data blocks", f"{len(text.document) - len(blocks)} without atoms")
        self.blocks = blocks

    def read(self) -> Record | Collection:
        """The record, or the records, of the file."""
        asked = self.context.arrangement
        if len(self.blocks) == 1:
            models = self._atoms(self.blocks[0])
            difference = _difference(models)
        else:
            difference = f"{len(self.blocks)} data blocks with atoms"
        if asked == "trajectory" and difference is not None:
            raise FormatError(
                self.path, found=difference, expected="the same atoms in all models of a trajectory",
                hint="--as collection, or --as records, makes a record of each",
            )  # fmt: skip
        if asked in ("collection", "records") or (asked is None and difference is not None):
            if difference is not None:
                self.report.converted("models", f"a record each: {difference}")
            return self._collection()
        self.context.progress.start("frames", len(models))
        return _BlockReader(self.path, self.blocks[0], self.report).record(models)

    def _atoms(self, block: Any) -> list[CifAtoms]:
        tables = [self.text.table(block, category) for category in _ATOMS]
        return read_atoms(self.path, tables[0], tables[1], self.report)

    def _collection(self) -> Collection:
        """A record of each block; of each model of it where asked, or where they differ."""
        self.context.progress.start("records", len(self.blocks))
        records = []
        for block in self.blocks:
            reader, models = _BlockReader(self.path, block, self.report), self._atoms(block)
            together = len(self.blocks) > 1 and _difference(models) is None
            records += [reader.record(models)] if together else [reader.record([model]) for model in models]
            self.context.progress.advance(1)
        collection = MemoryCollection(records, units={"length": "angstrom"}, report=self.report)
        collection.path = str(self.path)
        return collection


class _BlockReader:
    """One data block."""

    def __init__(self, path: Path, block: Any, report: Report) -> None:
        self.path, self.block, self.report = path, block, report

    def record(self, models: list[CifAtoms]) -> Record:
        """The record of some models of the block."""
        first = models[0]
        columns = {name: column for name, column in first.columns.items() if name not in first.state}
        if len(models) > 1 and any(model.columns["id"] != first.columns["id"] for model in models):
            del columns["id"]
            for model in models:
                model.state.add("id")
        blocks = {"atoms": Block(columns, count=first.count)}
        identity = identity_of(first)
        links = self._links()
        pairs = np.zeros((0, 2), np.int64)
        bonds = bond_block(pairs, np.zeros(0, np.int64), links, identity, self.report)
        if bonds is not None:
            blocks["bonds"] = bonds
            self.report.carried("_struct_conn", f"{bonds.count} bonds")
        system = Frame(blocks)
        system.meta.put("units", {"length": "angstrom"}, "json")
        other = self._categories()
        if other:
            system.meta.put("mmcif", other, "json")
            self.report.carried("other categories", f"{len(other) - 1}, as they are, in system's meta mmcif")
        box = self._box()
        frames = []
        for number, model in enumerate(models):
            state = {name: model.columns[name] for name in model.columns if name in model.state}
            frame = Frame({"atoms": Block(state, count=model.count)}, box=box if number == 0 else None, step=number)
            if model.model is not None:
                frame.meta.put("model", model.model, "i64")
            frames.append(frame)
        return Record(system=system, trajectory=MemoryTrajectory(frames, cell_defined=True))

    def _box(self) -> Box | None:
        texts = [self.block.find_value(f"_cell.{item}") for item in _CELL]
        values = [gemmi.cif.as_number(text) if text else float("nan") for text in texts]
        if all(np.isnan(values)):
            return None
        parameters = tuple(float(value) for value in values)
        if parameters == (1.0, 1.0, 1.0, 90.0, 90.0, 90.0) or not any(parameters[:3]):
            self.report.converted("_cell", "no cell: 1 1 1 90 90 90, or zeros, stand for none")
            return None
        try:
            return Box(cell_vectors(parameters))
        except ValueError as error:
            found = " ".join(str(text) for text in texts)
            raise FormatError(self.path, "_cell", found=found, expected=f"a cell: {error}") from None

    def _links(self) -> list[Link]:
        table = self.block.find_mmcif_category("_struct_conn.")
        if not len(table):
            return []
        items = {tag.partition(".")[2]: list(table.column(place)) for place, tag in enumerate(table.tags)}

        def texts(*names: str) -> list[str]:
            for name in names:
                if name in items:
                    return [_plain(text) for text in items[name]]
            return [""] * len(table)

        # a chain that was made is none
        made = "auth_asym_id" in made_items(self.block)
        ends = []
        for end in ("1", "2"):
            ends.append(
                list(
                    zip(
                        [""] * len(table) if made else texts(f"ptnr{end}_auth_asym_id", f"ptnr{end}_label_asym_id"),
                        [_sequence(text) for text in texts(f"ptnr{end}_auth_seq_id")],
                        texts(f"pdbx_ptnr{end}_PDB_ins_code"),
                        texts(f"ptnr{end}_auth_comp_id", f"ptnr{end}_label_comp_id"),
                        texts(f"ptnr{end}_auth_atom_id", f"ptnr{end}_label_atom_id"),
                        texts(f"pdbx_ptnr{end}_label_alt_id"),
                        strict=True,
                    )
                )
            )
        same = [a == b for a, b in zip(texts("ptnr1_symmetry"), texts("ptnr2_symmetry"), strict=True)]
        if not all(same):
            self.report.warn(f"{same.count(False)} connections go to an image of the cell: they are no bonds here")
        kinds = [_KINDS.get(kind, "link") for kind in texts("conn_type_id")]
        stated = [order.lower() for order in texts("pdbx_value_order")]
        unknown = sorted(set(stated) - _ORDERS.keys() - {""})
        if unknown:
            self.report.dropped("_struct_conn.pdbx_value_order", f"orders that bonds do not have: {' '.join(unknown)}")
        orders = [_ORDERS.get(order, 0) for order in stated]
        return [
            Link(kind, (one, other), order)
            for kind, one, other, order, here in zip(kinds, *ends, orders, same, strict=True)
            if here
        ]  # fmt: skip

    def _categories(self) -> dict[str, Any]:
        """Every other category as its items and their texts, and the name of the block."""
        found: dict[str, Any] = {}
        for name in self.block.get_mmcif_category_names():
            if name in (*_ATOMS, "_molrec.", f"{UNKNOWN}."):
                continue
            table = self.block.find_mmcif_category(name)
            found[name.strip(".")] = {
                tag.partition(".")[2]: list(table.column(place)) for place, tag in enumerate(table.tags)
            }
        return {"data": self.block.name, **found} if found else {}


def _sequence(text: str) -> int:
    """Return the number of a residue, one that none has where the text is no number."""
    try:
        return whole(text)
    except ValueError:
        return -(10**6)


def _plain(text: str) -> str:
    return "" if text in (".", "?") else str(gemmi.cif.as_string(text))


def _difference(models: list[CifAtoms]) -> str | None:
    first = models[0]
    for number, model in enumerate(models[1:], 1):
        if model.count != first.count:
            return f"model {number} has {model.count} atoms, the first {first.count}"
        if model.state != first.state or model.columns.keys() != first.columns.keys():
            return f"model {number} has other items than the first"
        for name, column in model.columns.items():
            if name not in model.state and name != "id" and column != first.columns[name]:
                return f"model {number} has other values of {name} than the first"
    return None
