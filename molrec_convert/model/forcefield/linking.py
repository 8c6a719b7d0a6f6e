"""Linking: which parameters the atoms, relations and pairs of a system take from a force field.

By name: `atoms.type` names a row of an atom table, a relation's `type` a row of a table of its category; its `style`
picks the table, without it several that hold the name add. Rows that name nothing are found by the types of their
atoms. Whole columns at a time: each distinct name is looked up once. Source: Force field, "Linking".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.forcefield.categories import CATEGORIES, PAIR_CATEGORIES, category
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.forcefield.links import BlockLinks, Labels, Link, Term, endpoint_rows, unordered_rows
from molrec_convert.model.forcefield.pairs import PairLinks
from molrec_convert.model.forcefield.registry import STANDARD, Registry
from molrec_convert.model.forcefield.tables import Style, text_codes
from molrec_convert.model.frame import Block, Frame

__all__ = ["Remark", "Resolution", "resolve"]

_ATOMS = ("atomi", "atomj", "atomk", "atoml", "atomm")
#: Pairs of types that are looked at together, and at all; names a remark lists.
_CHUNK, _MOST, _LISTED = 1 << 18, 1 << 24, 5


@dataclass(frozen=True)
class Remark:
    """Something that is legal and still worth reporting: the node, and a sentence."""

    node: str
    text: str

    def __str__(self) -> str:
        return f"{self.node}: {self.text}"


@dataclass(eq=False)
class Resolution(Mapping[str, BlockLinks]):
    """What every row of a system takes: links by block, pair styles by table, and what resolves to nothing.

    `resolution["bonds"].terms(0)`, `resolution.pair("O1", "H1")`. `types` are the distinct atom types, `atom_types`
    int64[atoms] the position of each atom's in them, -1 for an atom without.
    """

    blocks: dict[str, BlockLinks] = field(default_factory=dict)
    pairs: dict[str, PairLinks] = field(default_factory=dict)
    types: list[str] = field(default_factory=list)
    atom_types: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    remarks: list[Remark] = field(default_factory=list)

    def __getitem__(self, block: str) -> BlockLinks:
        return self.blocks[block]

    def __iter__(self) -> Iterator[str]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def pair(self, a: str | int, b: str | int) -> list[Term]:
        """Return what every pair style gives to two atom types, or to the types of two atoms (rows)."""
        names = [self._type(atom) for atom in (a, b)]
        return [links.pair(*names) for links in self.pairs.values()]

    def _type(self, atom: str | int) -> str:
        if isinstance(atom, str):
            return atom
        code = int(self.atom_types[atom])
        if code < 0:
            raise KeyError(f"the atom {atom} names no type")
        return self.types[code]


def resolve(system: Frame, forcefield: ForceField, registry: Registry = STANDARD) -> Resolution:
    """Return what the rows of `system` take from `forcefield`; names that resolve to nothing are among the remarks."""
    return _Linker(system, forcefield, registry).resolution


class _Linker:
    def __init__(self, system: Frame, forcefield: ForceField, registry: Registry) -> None:
        self.system, self.forcefield, self.registry = system, forcefield, registry
        self.definitions = forcefield.definitions
        self.resolution = Resolution()
        self._read_types()
        self.labels = Labels(forcefield, self.resolution.types)
        by_category: dict[str, list[Style]] = {}
        for style in forcefield.styles:
            by_category.setdefault(style.category, []).append(style)
        self._link_atoms(by_category)
        relations = [name for name in CATEGORIES if name not in ("atom", *PAIR_CATEGORIES)]
        for name in dict.fromkeys([*relations, *by_category]):
            if name not in ("atom", *PAIR_CATEGORIES):
                self._link_relation(name, by_category.get(name, []))
        self._link_pairs14(by_category.get("pair14", []))
        linked = [links for style in by_category.get("pair", []) if (links := self._link_pair_style(style)) is not None]
        if linked:
            self._report_pairs(linked)

    def _read_types(self) -> None:
        if "atoms" not in self.system.blocks:
            return
        atoms = self.system["atoms"]
        names = _Names.of(atoms, "type")
        if names is None:
            self.resolution.atom_types = np.full(atoms.count, -1, dtype=np.int64)
        else:
            self.resolution.types, self.resolution.atom_types = names.texts, names.codes

    def _link_atoms(self, by_category: Mapping[str, list[Style]]) -> None:
        """Atoms name rows of atom tables; without any, rows of the pair tables that are keyed by patterns."""
        styles = by_category.get("atom") or [s for s in by_category.get("pair", []) if s.endpoint_key == "smirks"]
        if "atoms" in self.system.blocks:
            links = self._named("atoms", styles)
            self._report_names("atoms", links, "atom")

    def _link_relation(self, name: str, styles: list[Style]) -> None:
        block = category(name).block
        if block not in self.system.blocks or block in self.resolution.blocks:
            return
        links = self._named(block, styles)
        self._find_unnamed(block, links)
        self._take_from_system(block, links)
        self._report_names(block, links, name)
        self._report_missing(block, links)

    def _named(self, block: str, styles: Sequence[Style]) -> BlockLinks:
        """Return links of a block by the names its rows have."""
        relation = self.system[block]
        names, picks = _Names.of(relation, "type"), _Names.of(relation, "style")
        links = self.resolution.blocks[block] = BlockLinks(block, relation.count)
        for style in styles:
            row = np.full(relation.count, -1, dtype=np.int64)
            table = self.forcefield.tables[style.block]
            if names is not None and "name" in table.columns:
                row = names.found({name: at for at, name in enumerate(table.stored("name").tolist())})
            if picks is not None:
                row[~picks.allows(style.style)] = -1
            links.links[style.block] = self._link(style, row, relation, np.zeros(relation.count, dtype=np.bool_))
        return links

    def _link(self, style: Style, row: NDArray[np.int64], relation: Block, by_endpoints: NDArray[np.bool_]) -> Link:
        registered = self.registry.find(style.category, style.style, self.definitions)
        table = self.forcefield.tables[style.block]
        return Link(style, row, row >= 0, by_endpoints, table, relation, registered, self.definitions)

    def _find_unnamed(self, block: str, links: BlockLinks) -> None:
        """Rows that name nothing take the row that fits the types of their atoms."""
        relation = self.system[block]
        names, picks = _Names.of(relation, "type"), _Names.of(relation, "style")
        unnamed = np.ones(relation.count, dtype=np.bool_) if names is None else names.codes < 0
        atoms = [name for name in _ATOMS if name in relation.columns]
        if not unnamed.any() or not atoms or not len(self.resolution.atom_types):
            return
        for link in links.links.values():
            chosen = unnamed if picks is None else unnamed & picks.allows(link.style.style)
            table = self.forcefield.tables[link.table]
            arity = sum(f"{letter}tom" in table.columns for letter in "ijklm")
            if not chosen.any() or not arity or len(atoms) < arity:
                continue
            ends = [self._types_of(relation, name) for name in atoms[:arity]]
            types = np.stack([end[chosen] for end in ends], axis=1)
            found = endpoint_rows(table, link.style, self.labels, types)
            link.row[chosen] = found
            link.by_endpoints[chosen] = found >= 0
            link.applies |= link.row >= 0

    def _types_of(self, relation: Block, name: str) -> NDArray[np.int64]:
        """Return the type of the atom each row of a relation references, -1 for none."""
        column = relation.columns[name]
        known = self.resolution.atom_types
        valid = relation.validity(name) & (column.values < len(known))
        return np.where(valid, known[np.where(valid, column.values, 0).astype(np.int64)], -1)

    def _take_from_system(self, block: str, links: BlockLinks) -> None:
        """A style whose table has no rows acts where the system has parameters for it."""
        picks = _Names.of(self.system[block], "style")
        for link in links.links.values():
            if self.forcefield.tables[link.table].count or not link.overrides:
                continue
            stated = np.zeros(links.count, dtype=np.bool_)
            for name in link.overrides:
                stated |= self.system[block].validity(name)
            free = ~links.resolved if picks is None else picks.allows(link.style.style)
            link.applies |= stated & free

    def _link_pairs14(self, styles: Sequence[Style]) -> None:
        if "pairs" not in self.system.blocks or not styles:
            return
        relation = self.system["pairs"]
        links = self.resolution.blocks["pairs"] = BlockLinks("pairs", relation.count)
        if "is_14" not in relation.columns or not {"atomi", "atomj"} <= set(relation.columns):
            return
        close = relation.stored("is_14") & relation.validity("is_14")
        a, b = self._types_of(relation, "atomi"), self._types_of(relation, "atomj")
        close = close & (a >= 0) & (b >= 0)
        for style in styles:
            row = np.full(relation.count, -1, dtype=np.int64)
            table = self.forcefield.tables[style.block]
            row[close] = unordered_rows(table, style, self.labels, a[close], b[close])
            links.links[style.block] = self._link(style, row, relation, row >= 0)

    def _link_pair_style(self, style: Style) -> PairLinks | None:
        """Link a style of pairs; returned where a pair of types cannot do without a row of it or of another."""
        table = self.forcefield.tables[style.block]
        registered = self.registry.find("pair", style.style, self.definitions)
        links = PairLinks(style, self.resolution.types, table, self.labels, registered, self.definitions)
        self.resolution.pairs[style.block] = links
        needs_rows = table.count > 0 if registered is None else registered.rows
        return links if needs_rows and style.endpoint_key != "smirks" else None

    def _report_names(self, block: str, links: BlockLinks, category_name: str) -> None:
        relation = self.system[block]
        names, picks = _Names.of(relation, "type"), _Names.of(relation, "style")
        resolved = links.resolved
        if picks is not None:
            known = {link.style.style for link in links.links.values()}
            for code, text in enumerate(picks.texts):
                if text not in known:
                    rows = int((picks.codes == code).sum())
                    self._remark(f"system/{block}/style", f"{text!r} is no style of the force field ({_rows(rows)})")
        if names is not None:
            counts = np.bincount(names.codes[~resolved & (names.codes >= 0)], minlength=len(names.texts))
            for code in np.flatnonzero(counts).tolist():
                text = (
                    f"{names.texts[code]!r} is no {category_name} type of the force field ({_rows(int(counts[code]))})"
                )
                self._remark(f"system/{block}/type", text)
        unnamed = ~resolved if names is None else ~resolved & (names.codes < 0)
        if block != "atoms" and links.links and unnamed.any():
            text = f"no type is named and no {category_name} type fits the atoms ({_rows(int(unnamed.sum()))})"
            self._remark(f"system/{block}", text)

    def _report_missing(self, block: str, links: BlockLinks) -> None:
        """Registered styles have parameters a row cannot be without."""
        for link in links.links.values():
            for name in link.ignored:
                text = f"the column is not of the kind {link.style.name} has and overrides nothing"
                self._remark(f"system/{block}/{name}", text)
            definition = self.registry.find(link.style.category, link.style.style, self.definitions)
            if definition is None or not link.applies.any():
                continue
            for entry in definition.parameters:
                name = entry.named(self.definitions)
                if not entry.required or self.definitions in entry.indexed:
                    continue
                column = link.parameters.get(name)
                has = False if column is None else True if column.validity is None else column.validity
                missing = link.applies & ~np.broadcast_to(has, link.applies.shape)
                if missing.any():
                    text = f"{_rows(int(missing.sum()))} take {link.style.name} and have no {name!r}"
                    self._remark(f"system/{block}", text)

    def _report_pairs(self, linked: Sequence[PairLinks]) -> None:
        """Remark on pairs of types that no style has parameters for: of several each acts on some."""
        types = linked[0].types
        open_pairs: list[str] = []
        total = seen = 0
        for a, b in _type_pairs(len(types)):
            missing = np.flatnonzero(~np.any([links.complete(a, b) for links in linked], axis=0))
            total += len(missing)
            for at in missing[: _LISTED - len(open_pairs)]:
                open_pairs.append(f"{types[a[at]]!r} and {types[b[at]]!r}")
            seen += len(a)
            if seen > _MOST:
                break
        if total:
            least = "at least " if seen > _MOST else ""
            more = "" if total <= len(open_pairs) else f" and {least}{total - len(open_pairs)} more pairs"
            node = f"forcefield/{linked[0].table}" if len(linked) == 1 else "forcefield"
            self._remark(node, f"no parameters for {', '.join(open_pairs)}{more} of the system")

    def _remark(self, node: str, text: str) -> None:
        self.resolution.remarks.append(Remark(node, text))


@dataclass
class _Names:
    """A column of names: the distinct ones, and for each row the position of its own, -1 for null."""

    texts: list[str]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, block: Block, name: str) -> _Names | None:
        """Return the names of a column, None when there is none of texts."""
        if name not in block.columns or block.columns[name].dtype != "string" or block.columns[name].trailing:
            return None
        column = block.columns[name]
        texts, (codes,) = text_codes(column.values if column.validity is None else column.values[column.validity])
        if column.validity is None:
            return cls(texts, codes)
        spread = np.full(block.count, -1, dtype=np.int64)
        spread[column.validity] = codes
        return cls(texts, spread)

    def found(self, rows: Mapping[str, int]) -> NDArray[np.int64]:
        """For each row what its name is mapped to, -1 for nothing."""
        of_text = np.array([*(rows.get(text, -1) for text in self.texts), -1], dtype=np.int64)
        return of_text[self.codes]

    def allows(self, text: str) -> Any:
        """Return where the name is that one, or null."""
        code = self.texts.index(text) if text in self.texts else -2
        return (self.codes == code) | (self.codes == -1)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _type_pairs(types: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield all pairs of some types, each once, in parts."""
    step = max(1, _CHUNK // max(1, types))
    for start in range(0, types, step):
        a, b = np.divmod(np.arange(start * types, min(types, start + step) * types, dtype=np.int64), types)
        yield a[a <= b], b[a <= b]
