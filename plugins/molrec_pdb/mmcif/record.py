"""mmCIF files as records: the reader of the format. gemmi reads the syntax, columns of a category at a time.

Several data blocks with atoms are records of their own. Models whose atoms agree are one trajectory; others are records
of their own. Source: PDBx/mmCIF dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gemmi
import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Block, Box, Column, Frame, MemoryTrajectory, Record
from molrec_convert.model.collection.collection import Collection, MemoryCollection
from molrec_convert.report import Report
from molrec_convert.text.contents import Contents
from molrec_pdb.atoms import PLACEHOLDERS
from molrec_pdb.bonds import bond_block
from molrec_pdb.header import Link, cell_vectors
from molrec_pdb.identity import Identity, symbol_of
from molrec_pdb.lines import shown, whole
from molrec_pdb.mmcif.text import UNKNOWN, CifText, Table, find_category, made_items
from molrec_pdb.numbering import ResidueNumbers, Serials, positive
from molrec_pdb.write_atoms import Coded

__all__ = ["CifAtoms", "identity_of", "read_atoms", "read_mmcif"]

#: Letters of the longest number that is read with the others of its column.
_LONGEST = 64
_STRING = np.dtypes.StringDType()
_ANISOU = ("U[1][1]", "U[2][2]", "U[3][3]", "U[1][2]", "U[1][3]", "U[2][3]")
#: Column of the record → items, the first that is there.
_TEXTS = {
    "name": ("auth_atom_id", "label_atom_id"),
    "res_name": ("auth_comp_id", "label_comp_id"),
    "chain": ("auth_asym_id", "label_asym_id"),
    "icode": ("pdbx_PDB_ins_code",),
    "altloc": ("label_alt_id",),
}
_LABELS = ("label_asym_id", "label_entity_id", "label_seq_id", "label_atom_id", "label_comp_id")
_NUMBERS = {"occupancy": "occupancy", "b_factor": "B_iso_or_equiv"}
_POSITIONS = ("Cartn_x", "Cartn_y", "Cartn_z")
_SEQUENCE = ("auth_seq_id", "label_seq_id")


@dataclass
class CifAtoms:
    """The atoms of one model; `state` names the columns that say what state they are in."""

    columns: dict[str, Column]
    count: int
    raw: NDArray[np.int64]
    known: NDArray[np.bool_]
    model: int | None
    state: set[str] = field(default_factory=lambda: {"x", "y", "z", "occupancy", "b_factor", "anisou"})

    def __post_init__(self) -> None:
        self.state &= self.columns.keys()


class _Site:
    """The items of `_atom_site`: `texts`, `reals` and `integers` of all rows, read a part at a time."""

    def __init__(self, path: Path, table: Table, report: Report) -> None:
        self.path, self.report, self.items = path, report, table.items
        self._made, self._unknown = table.made, table.unknown
        reading = self._readers()
        #: Item → raw text → text → number of it.
        self._different: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
        found: dict[str, list[Any]] = {item: [] for item in reading}
        unread = set(self.items) - reading.keys() - self._made
        self.count = 0
        for part in table.parts():
            for item, reader in reading.items():
                found[item].append(reader(item, part[item]))
            unread -= self._tell_unread(unread, part)
            self.count += len(part[self.items[0]])
        if not self.count:
            raise FormatError(path, found="no category _atom_site with atoms", expected="a model in mmCIF")
        self._found = {item: _joined(found.pop(item)) for item in list(found)}
        for item, (_, different) in self._different.items():
            self._found[item] = Coded(list(different), self._found[item])

    def _readers(self) -> dict[str, Callable[[str, list[str]], Any]]:
        """Return item → what reads it, of those that become columns."""
        readers: dict[str, Callable[[str, list[str]], Any]] = dict.fromkeys(
            [item for item in (*map(self._first, _TEXTS.values()), "type_symbol", *_LABELS) if item], self._texts
        )
        readers["group_PDB"] = lambda item, raw: np.array([text == "HETATM" for text in raw], np.bool_)
        readers |= dict.fromkeys(("id", "pdbx_formal_charge", "pdbx_PDB_model_num"), self._integers)
        number = self._first(_SEQUENCE)
        if number is not None:
            readers[number] = self._integers
        readers |= dict.fromkeys((*_NUMBERS.values(), *_POSITIONS), self._numbers)
        return {item: reader for item, reader in readers.items() if item in self.items}

    def _first(self, names: Sequence[str]) -> str | None:
        """Return the first item that is there."""
        return next((name for name in names if name in self.items and name not in self._made), None)

    def _tell_unread(self, items: set[str], part: dict[str, list[str]]) -> set[str]:
        told = {item for item in items if any(text not in (".", "?") for text in part[item])}
        for item in sorted(told):
            self.report.dropped(f"_atom_site.{item}", "no column of a record")
        return told

    def take(self, *names: str) -> Any:
        """Return what was read of the first item that is there and was not made, once; None where there is none."""
        item = self._first(names)
        return None if item is None else self._found.pop(item, None)

    def stated(self, name: str, item: str) -> Any:
        """Return numbers and which are known; None for none. Placeholders the file names, and that are some, are
        unknown.
        """
        if item not in self._found:
            return None
        values, known = self._found.pop(item)
        placeholders = values == PLACEHOLDERS[name]
        rows = [row for named, row in self._unknown if named == item and row < self.count]
        known[rows] &= ~placeholders[rows]
        values[~known] = 0.0
        return None if (item in self._made and bool(placeholders.all())) or not known.any() else (values, known)

    def _texts(self, item: str, raw: list[str]) -> NDArray[np.int32]:
        """Return texts without quotes, by the number of each different one; `.` and `?` are nothing."""
        codes, different = self._different.setdefault(item, ({}, {}))
        for text in dict.fromkeys(raw):
            if text not in codes:
                plain = "" if text in (".", "?") else str(gemmi.cif.as_string(text))
                codes[text] = different.setdefault(plain, len(different))
        return np.array([codes[text] for text in raw], np.int32)

    def _each(self, raw: list[str], one: Callable[[str], Any], what: str) -> list[Any]:
        known: dict[str, Any] = {}
        for text in dict.fromkeys(raw):
            try:
                known[text] = None if text in (".", "?") else one(text)
            except ValueError:
                row = self.count + raw.index(text) + 1
                place = f"row {row} of _atom_site"
                raise FormatError(self.path, place, found=shown(text), expected=what) from None
        return [known[text] for text in raw]

    def _numbers(self, item: str, raw: list[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return real numbers; an uncertainty in brackets is left off."""
        try:
            values = _fields(raw).astype(np.float64)
            return values, np.ones(len(raw), np.bool_)
        except ValueError:
            found = self._each(raw, _real, f"a number, {item}")
            known = np.array([value is not None for value in found], np.bool_)
            return np.array([0.0 if value is None else value for value in found]), known

    def _integers(self, item: str, raw: list[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return whole numbers."""
        try:
            return _fields(raw).astype(np.int64), np.ones(len(raw), np.bool_)
        except (ValueError, OverflowError):
            pass
        found = self._each(raw, whole, f"an integer of 64 bits, {item}")
        known = np.array([value is not None for value in found], np.bool_)
        return np.array([value or 0 for value in found], np.int64), known


def _joined(parts: list[Any]) -> Any:
    """Return arrays, or tuples of arrays, of all rows; the parts are let go of."""
    if isinstance(parts[0], tuple):
        return tuple(_joined([part[place] for part in parts]) for place in range(len(parts[0])))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _fields(raw: list[str]) -> NDArray[Any]:
    """Return texts as an array, each with room for the longest; ValueError where one is longer than any number."""
    if max(map(len, raw), default=0) > _LONGEST:
        raise ValueError("longer than a number")
    return np.array(raw, "S")


def _real(text: str) -> float:
    value = float(gemmi.cif.as_number(text))
    if np.isnan(value):
        raise ValueError(text)
    return value


def read_atoms(path: Path, table: Table, anisou: Table, report: Report) -> list[CifAtoms]:
    """Return the atoms of each model, in the order of the file, of the tables `_atom_site` and
    `_atom_site_anisotrop`.
    """
    site = _Site(path, table, report)
    columns: dict[str, Column | Coded] = {}
    ids = site.take("id")
    if ids is None:
        ids = np.arange(1, site.count + 1, dtype=np.int64), np.ones(site.count, np.bool_)
        report.derived("id", "the file has none: atoms are numbered in their order")
    good = ids[1] & (ids[0] >= 0)
    own_ids = columns["id"] = Column(np.where(good, ids[0], 0).astype(np.uint64), good)
    for name, items in _TEXTS.items():
        texts = site.take(*items)
        if texts is not None and (name in ("name", "res_name") or any(texts.different)):
            columns[name] = texts
    raw, known = site.take(*_SEQUENCE) or (np.zeros(site.count, np.int64), np.zeros(site.count, np.bool_))
    renumbered = raw
    if bool((raw < 0).any()):
        chains = columns.get("chain")
        codes = chains.codes if isinstance(chains, Coded) else np.zeros(site.count, np.intp)
        renumbered = positive(raw, known, codes, report)
    columns["res_id"] = Column(np.where(known, renumbered, 0).astype(np.uint64), known)
    if bool((renumbered != raw)[known].any()):
        columns["res_seq"] = Column(raw, known)
    groups = site.take("group_PDB")
    columns["hetatm"] = Column(np.zeros(site.count, np.bool_) if groups is None else groups)
    columns |= _elements(site)
    charges = site.take("pdbx_formal_charge")
    if charges is not None and charges[1].any():
        columns["formal_charge"] = Column(*charges)
    for label in _LABELS:
        texts = site.take(label)
        own = {"label_atom_id": "name", "label_comp_id": "res_name"}.get(label)
        if texts is not None and not (own and _same_texts(texts, columns.get(own))):
            columns[label] = texts
    for axis, item in zip("xyz", _POSITIONS, strict=True):
        found = site.take(item)
        if found is None or not found[1].all():
            raise FormatError(path, "_atom_site", found=f"atoms without Cartn_{axis}", expected="a position of each")
        columns[axis] = Column(found[0])
    for name, item in _NUMBERS.items():
        found = site.stated(name, item)
        if found is not None:
            columns[name] = Column(*found)
    displacements = _anisou(path, anisou, own_ids, report)
    if displacements is not None:
        columns["anisou"] = displacements
    return _split(columns, site.count, raw, known, site.take("pdbx_PDB_model_num"), report)


def _same_texts(one: Coded, other: Column | Coded | None) -> bool:
    same = isinstance(other, Coded) and one.different == other.different
    return same and isinstance(other, Coded) and np.array_equal(one.codes, other.codes)


def _elements(site: _Site) -> dict[str, Column | Coded]:
    texts = site.take("type_symbol")
    if texts is None:
        return {}
    symbols = [symbol_of(text) for text in texts.different]
    strange = ["" if symbol or text == "X" else text for text, symbol in zip(texts.different, symbols, strict=True)]
    columns: dict[str, Column | Coded] = {
        "element": Column(
            np.array([symbol or "" for symbol in symbols], _STRING)[texts.codes],
            np.array([symbol is not None for symbol in symbols])[texts.codes],
        )
    }
    if any(strange):
        site.report.warn(f"type_symbol has what is no element, such as {max(strange)}: kept as element_text")
        columns["element_text"] = Coded(strange, texts.codes)
    return columns


def _anisou(path: Path, table: Table, ids: Column, report: Report) -> Column | None:
    if not table.items:
        return None
    if "id" not in table.items or any(name not in table.items for name in _ANISOU):
        report.dropped("_atom_site_anisotrop", "items of another form than id and U[1][1] to U[2][3]")
        return None
    order = np.argsort(ids.values, kind="stable")
    ascending = ids.values[order]
    result = np.zeros((len(ids), 6))
    there = np.zeros(len(ids), np.bool_)
    lost = 0
    for part in table.parts():
        values = np.array([[gemmi.cif.as_number(text) for text in part[name]] for name in _ANISOU]).T
        try:
            owners = np.array([whole(text) for text in part["id"]], np.int64).astype(np.uint64)
        except ValueError as error:
            raise FormatError(
                path, "_atom_site_anisotrop.id", found=shown(str(error)), expected="an integer of 64 bits"
            ) from None
        places = np.minimum(np.searchsorted(ascending, owners), len(order) - 1)
        own = ascending[places] == owners
        lost += int((~own).sum())
        result[order[places[own]]] = values[own]
        there[order[places[own]]] = True
    if lost:
        report.dropped("_atom_site_anisotrop", f"{lost} rows whose id no atom has")
    return Column(result, there)


def _split(
    columns: dict[str, Column | Coded], count: int, raw: NDArray[np.int64], known: NDArray[np.bool_],
    models: tuple[NDArray[np.int64], NDArray[np.bool_]] | None, report: Report,
) -> list[CifAtoms]:  # fmt: skip
    numbers = None if models is None or not models[1].all() else models[0]
    if numbers is None or (count and bool((numbers == numbers[0]).all())):
        number = None if numbers is None else int(numbers[0])
        return [CifAtoms(_model(columns, slice(None), None, {}), count, raw, known, number)]
    different, first = np.unique(numbers, return_index=True)
    if int((numbers[1:] != numbers[:-1]).sum()) + 1 > len(different):
        report.converted("atoms", "rows of one model stand apart: brought together in their order")
    found: list[CifAtoms] = []
    for number in different[np.argsort(first)].tolist():
        rows: Any = np.flatnonzero(numbers == number)
        if int(rows[-1] - rows[0]) == len(rows) - 1:
            rows = slice(int(rows[0]), int(rows[-1]) + 1)
        if not found:
            first_rows = rows
        own = _model(columns, rows, first_rows if found else None, found[0].columns if found else {})
        found.append(CifAtoms(own, len(raw[rows]), raw[rows], known[rows], number))
    return found


def _model(columns: dict[str, Column | Coded], rows: Any, first: Any, shared: dict[str, Column]) -> dict[str, Column]:
    """Return the columns of some rows; texts that are those of the rows of the `first` model are `shared` with it."""
    found = {}
    for name, column in columns.items():
        if isinstance(column, Column):
            found[name] = Column(column.values[rows], None if column.validity is None else column.validity[rows])
        elif first is not None and np.array_equal(column.codes[rows], column.codes[first]):
            found[name] = shared[name]
        else:
            found[name] = Column(np.array(column.different, _STRING)[column.codes[rows]])
    return found


def identity_of(atoms: CifAtoms) -> Identity:
    """Return what connections find atoms by."""
    ids = atoms.columns["id"]
    mask = np.ones(atoms.count, np.bool_) if ids.validity is None else ids.validity
    serials = Serials(ids.values.astype(np.int64), mask, ids.values, mask)
    numbers = ResidueNumbers(atoms.raw, atoms.known, atoms.columns["res_id"].values, np.zeros(0, np.uint8))
    return Identity(atoms.columns, serials, numbers)


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
        blocks = [block for block in text.document if len(find_category(path, block, "_atom_site."))]
        if not blocks:
            raise FormatError(path, found="no category _atom_site with atoms", expected="a model in mmCIF")
        if len(blocks) < len(text.document):
            self.report.dropped("data blocks", f"{len(text.document) - len(blocks)} without atoms")
        self.blocks = blocks

    def read(self) -> Record | Collection:
        """Return the record, or the records, of the file."""
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
        """Return a record of each block; of each model of it where asked, or where they differ."""
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
        """Return the record of some models of the block."""
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
        table = find_category(self.path, self.block, "_struct_conn.")
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
        """Return every other category as its items and their texts, and the name of the block."""
        found: dict[str, Any] = {}
        for name in self.block.get_mmcif_category_names():
            if name in (*_ATOMS, "_molrec.", f"{UNKNOWN}."):
                continue
            table = find_category(self.path, self.block, name)
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
