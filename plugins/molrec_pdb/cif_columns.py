"""The category `_atom_site` as columns of a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gemmi
import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.model import Column, distinct
from molrec_convert.report import Report
from molrec_pdb.elements import symbol_of
from molrec_pdb.identity import Identity
from molrec_pdb.numbering import ResidueNumbers, Serials, positive

__all__ = ["CifAtoms", "identity_of", "read_atoms"]

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
    """The items of `_atom_site`, as texts."""

    def __init__(self, path: Path, block: Any, report: Report) -> None:
        self.path, self.report = path, report
        table = block.find_mmcif_category("_atom_site.")
        self.items = {tag.partition(".")[2]: list(table.column(place)) for place, tag in enumerate(table.tags)}
        self.count = len(table)
        self.used: set[str] = set()

    def first(self, names: Sequence[str]) -> list[str] | None:
        """The texts of the first item that is there."""
        for name in names:
            if name in self.items:
                self.used.add(name)
                return self.items[name]
        return None

    def texts(self, names: Sequence[str]) -> NDArray[Any] | None:
        """Texts without quotes; `.` and `?` are nothing."""
        raw = self.first(names)
        if raw is None:
            return None
        plain = {text: "" if text in (".", "?") else gemmi.cif.as_string(text) for text in set(raw)}
        return np.array([plain[text] for text in raw], _STRING)

    def _each(self, raw: list[str], one: Callable[[str], Any], what: str) -> list[Any]:
        known: dict[str, Any] = {}
        for text in dict.fromkeys(raw):
            try:
                known[text] = None if text in (".", "?") else one(text)
            except ValueError:
                row = raw.index(text) + 1
                raise FormatError(self.path, f"row {row} of _atom_site", found=text, expected=what) from None
        return [known[text] for text in raw]

    def numbers(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
        """Real numbers; an uncertainty in brackets is left off."""
        raw = self.first((name,))
        if raw is None:
            return None
        try:
            values = np.array(raw, "S").astype(np.float64)
            return values, np.ones(len(raw), np.bool_)
        except ValueError:
            found = self._each(raw, _real, f"a number, {name}")
            known = np.array([value is not None for value in found], np.bool_)
            return np.array([0.0 if value is None else value for value in found]), known

    def integers(self, names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
        """Whole numbers."""
        raw = self.first(names)
        if raw is None:
            return None
        found = self._each(raw, int, f"an integer, {names[0]}")
        known = np.array([value is not None for value in found], np.bool_)
        return np.array([value or 0 for value in found], np.int64), known


def _real(text: str) -> float:
    value = float(gemmi.cif.as_number(text))
    if np.isnan(value):
        raise ValueError(text)
    return value


def read_atoms(path: Path, block: Any, report: Report) -> list[CifAtoms]:
    """The atoms of each model, in the order of the file."""
    site = _Site(path, block, report)
    columns: dict[str, Column] = {}
    ids = site.integers(("id",))
    if ids is None:
        ids = np.arange(1, site.count + 1, dtype=np.int64), np.ones(site.count, np.bool_)
        report.derived("id", "the file has none: atoms are numbered in their order")
    good = ids[1] & (ids[0] >= 0)
    columns["id"] = Column(np.where(good, ids[0], 0).astype(np.uint64), good)
    for name, items in _TEXTS.items():
        texts = site.texts(items)
        if texts is not None and (name in ("name", "res_name") or bool((texts != "").any())):
            columns[name] = Column(texts)
    numbers = site.integers(("auth_seq_id", "label_seq_id")) or (
        np.zeros(site.count, np.int64), np.zeros(site.count, np.bool_)
    )  # fmt: skip
    raw, known = numbers
    chains = columns["chain"].values if "chain" in columns else np.full(site.count, "", _STRING)
    codes = distinct(chains).codes
    renumbered = positive(raw, known, codes, report)
    columns["res_id"] = Column(np.where(known, renumbered, 0).astype(np.uint64), known)
    if bool((renumbered != raw)[known].any()):
        columns["res_seq"] = Column(raw, known)
    groups = site.first(("group_PDB",))
    columns["hetatm"] = Column(np.array([text == "HETATM" for text in groups or [""] * site.count], np.bool_))
    columns |= _elements(site)
    charges = site.integers(("pdbx_formal_charge",))
    if charges is not None and charges[1].any():
        columns["formal_charge"] = Column(*charges)
    for label in _LABELS:
        if label in site.items and label not in site.used:
            texts = site.texts((label,))
            own = {"label_atom_id": "name", "label_comp_id": "res_name"}.get(label)
            if texts is not None and not (own and np.array_equal(texts, columns[own].values)):
                columns[label] = Column(texts)
    for axis in "xyz":
        found = site.numbers(f"Cartn_{axis}")
        if found is None or not found[1].all():
            raise FormatError(path, "_atom_site", found=f"atoms without Cartn_{axis}", expected="a position of each")
        columns[axis] = Column(found[0])
    for name, item in _NUMBERS.items():
        found = site.numbers(item)
        if found is not None and found[1].any():
            columns[name] = Column(*found)
    anisou = _anisou(block, columns["id"], report)
    if anisou is not None:
        columns["anisou"] = anisou
    models = site.integers(("pdbx_PDB_model_num",))
    for item in sorted(site.items.keys() - site.used):
        if any(text not in (".", "?") for text in site.items[item]):
            report.dropped(f"_atom_site.{item}", "no column of a record")
    return _split(columns, site.count, raw, known, models, report)


def _elements(site: _Site) -> dict[str, Column]:
    texts = site.texts(("type_symbol",))
    if texts is None:
        return {}
    different, codes, _ = distinct(texts)
    symbols = [symbol_of(text) for text in different.tolist()]
    odd = [code for code, symbol in enumerate(symbols) if symbol is None]
    strange = [different[code] for code in odd]
    columns = {
        "element": Column(
            np.array([symbol or "" for symbol in symbols], _STRING)[codes],
            np.array([symbol is not None for symbol in symbols])[codes],
        )
    }
    if any(text not in ("", "X") for text in strange):
        site.report.warn(f"type_symbol has what is no element, such as {strange[-1]}: kept as element_text")
        columns["element_text"] = Column(np.where(np.isin(codes, odd) & (texts != "X"), texts, "").astype(_STRING))
    return columns


def _anisou(block: Any, ids: Column, report: Report) -> Column | None:
    table = block.find_mmcif_category("_atom_site_anisotrop.")
    if not len(table):
        return None
    items = {tag.partition(".")[2]: list(table.column(place)) for place, tag in enumerate(table.tags)}
    if "id" not in items or any(name not in items for name in _ANISOU):
        report.dropped("_atom_site_anisotrop", "items of another form than id and U[1][1] to U[2][3]")
        return None
    values = np.array([[gemmi.cif.as_number(text) for text in items[name]] for name in _ANISOU]).T
    owners = np.array([int(text) for text in items["id"]], np.uint64)
    order = np.argsort(ids.values, kind="stable")
    places = np.minimum(np.searchsorted(ids.values[order], owners), len(order) - 1)
    rows = order[places]
    own = ids.values[rows] == owners
    if not own.all():
        report.dropped("_atom_site_anisotrop", f"{int((~own).sum())} rows whose id no atom has")
    result = np.zeros((len(ids), 6))
    there = np.zeros(len(ids), np.bool_)
    result[rows[own]] = values[own]
    there[rows[own]] = True
    return Column(result, there)


def _split(
    columns: dict[str, Column], count: int, raw: NDArray[np.int64], known: NDArray[np.bool_],
    models: tuple[NDArray[np.int64], NDArray[np.bool_]] | None, report: Report,
) -> list[CifAtoms]:  # fmt: skip
    numbers = None if models is None or not models[1].all() else models[0]
    if numbers is None or (count and bool((numbers == numbers[0]).all())):
        return [CifAtoms(columns, count, raw, known, None if numbers is None else int(numbers[0]))]
    different, first = np.unique(numbers, return_index=True)
    if int((numbers[1:] != numbers[:-1]).sum()) + 1 > len(different):
        report.converted("atoms", "rows of one model stand apart: brought together in their order")
    found = []
    for number in different[np.argsort(first)].tolist():
        rows = np.flatnonzero(numbers == number)
        own = {
            name: Column(column.values[rows], None if column.validity is None else column.validity[rows])
            for name, column in columns.items()
        }
        found.append(CifAtoms(own, len(rows), raw[rows], known[rows], number))
    return found


def identity_of(atoms: CifAtoms) -> Identity:
    """What connections find atoms by."""
    ids = atoms.columns["id"]
    mask = np.ones(atoms.count, np.bool_) if ids.validity is None else ids.validity
    serials = Serials(ids.values.astype(np.int64), mask, ids.values, mask)
    numbers = ResidueNumbers(atoms.raw, atoms.known, atoms.columns["res_id"].values, np.zeros(0, np.uint8))
    return Identity(atoms.columns, serials, numbers)
