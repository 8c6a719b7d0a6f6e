"""The force field of a record: a plain JSON document and one table per style.

Nothing is converted and nothing checked when one is built; `check` applies every rule.
Source: Force field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import as_values
from molrec_convert.model.forcefield.categories import ENDPOINT_COLUMNS, block_name, category
from molrec_convert.model.forcefield.registry import STANDARD, Registry
from molrec_convert.model.forcefield.tables import (
    Style,
    document_faults,
    entry_faults,
    json_faults,
    style_of,
    table_faults,
    whole_styles,
)
from molrec_convert.model.forcefield.units import definitions_of, is_marked
from molrec_convert.model.frame import Block, Column
from molrec_convert.model.names import STANDARD_DTYPES, name_fault
from molrec_convert.model.tags import canonical_json

__all__ = ["ForceField", "Style", "table_from_rows"]


@dataclass(eq=False, repr=False)
class ForceField:
    """A document (`name`, `units`, `styles`, …) and its tables, block by block name.

    `molrec_version` is that of the record it is part of (None: unstamped, or none yet): it tells, with the units, which
    `definitions` the numbers follow. `attributes` holds what a store has beside what this version knows, as in `Frame`.
    Keys of the document and tables that mean nothing to this version are kept as they are.
    """

    document: dict[str, Any]
    tables: dict[str, Block] = field(default_factory=dict)
    molrec_version: int | None = None
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def from_parts(
        cls,
        document: Mapping[str, Any],
        tables: Mapping[str, Block],
        *,
        molrec_version: int | None = None,
        attributes: Mapping[str, dict[str, Any]] | None = None,
    ) -> ForceField:
        """Return a force field of a store: the attributes of its group, its blocks, the version of the record."""
        return cls(dict(document), dict(tables), molrec_version, dict(attributes or {}))

    @classmethod
    def new(cls, name: str, units: Mapping[str, str], **others: Any) -> ForceField:
        """Return a force field without styles; `others` are further keys of the document (`special_bonds`,
        `source`).
        """
        return cls({"name": name, "units": dict(units), **others, "styles": []})

    def add(
        self,
        category: str,
        style: str,
        table: Block,
        *,
        params: Mapping[str, float | str] | None = None,
        expression: str | None = None,
        endpoint_key: str | None = None,
    ) -> None:
        """Append a style and its table."""
        entry: dict[str, Any] = {"category": category, "style": style}
        optional = {"params": dict(params) if params else None, "expression": expression, "endpoint_key": endpoint_key}
        entry.update({key: value for key, value in optional.items() if value is not None})
        self.tables[block_name(category, style)] = table
        self.document["styles"].append(entry)

    @property
    def name(self) -> str:
        """The force field's name."""
        return str(self.document["name"])

    @property
    def content(self) -> dict[str, Any]:
        """The document without where it was read: its `source`, and a name that is that of the source's file."""
        source = self.document.get("source")
        named = isinstance(source, Mapping) and source.get("uri") == self.document.get("name")
        return {key: value for key, value in self.document.items() if key != "source" and not (named and key == "name")}

    @property
    def units(self) -> dict[str, Any]:
        """The units every number is in."""
        units = self.document.get("units")
        return units if isinstance(units, dict) else {}

    @property
    def special_bonds(self) -> dict[str, list[float]] | None:
        """Weights of 1-2, 1-3 and 1-4 neighbours, `lj` and `coul`; None when the force field states none."""
        return self.document.get("special_bonds")

    @property
    def styles(self) -> tuple[Style, ...]:
        """The entries in order. `ContractError` for entries that are malformed."""
        for fault in entry_faults(self.document, "forcefield"):
            raise fault
        return tuple(style_of(entry) for entry in self.document["styles"])

    def of_category(self, category: str) -> tuple[Style, ...]:
        """Return the styles of one category, in order."""
        return tuple(style for style in self.styles if style.category == category)

    def style(self, category: str, style: str) -> Style:
        """Return one style; `KeyError` when there is none of that name."""
        for entry in self.styles:
            if (entry.category, entry.style) == (category, style):
                return entry
        known = ", ".join(entry.name for entry in self.styles) or "none"
        raise KeyError(f"no style {category}.{style}; the force field has {known}")

    def table(self, category: str, style: str) -> Block:
        """Return the table of one style; `KeyError` when there is none."""
        return self.tables[self.style(category, style).block]

    @property
    def definitions(self) -> int:
        """The definitions the numbers follow: 1, or 2 in a record of version 2 and where the units mark it."""
        return definitions_of(self.document.get("units"), self.molrec_version)

    @property
    def minimum_version(self) -> int:
        """The `molrec_version` a record must be stamped with so that the numbers are not misread."""
        return 2 if self.definitions == 2 and not is_marked(self.units) else 1

    def check_version(self, molrec_version: int | None, node: str = "forcefield") -> None:
        """Refuse to be part of a record of that version when it would be read with other definitions."""
        read = definitions_of(self.document.get("units"), molrec_version)
        if read != self.definitions:
            raise ContractError(
                node,
                f"the numbers follow the definitions {self.definitions} and a record of version "
                f"{1 if molrec_version is None else molrec_version} is read with the definitions {read}",
            )

    def check(self, node: str = "forcefield", registry: Registry = STANDARD) -> None:
        """Refuse a document or tables that break the contract. `node` is the section's path.

        `registry` knows which styles take array parameters.
        """
        for fault in self.faults(node, registry):
            raise fault

    def faults(self, node: str = "forcefield", registry: Registry = STANDARD) -> Iterator[ContractError]:
        """Yield every rule `check` refuses, one by one."""
        yield from document_faults(self.document, node, self.molrec_version)
        named = {style.block: style for style in reversed(list(whole_styles(self.document)))}
        for block, style in reversed(named.items()):
            if block in self.tables:
                registered = registry.find(style.category, style.style, self.definitions)
                yield from table_faults(self.tables[block], style, f"{node}/{block}", registered)
            else:
                yield ContractError(f"{node}/{block}", f"the style {style.name} has no table")
        yield from self._class_faults(named, node)
        for name, table in self.tables.items():
            if name not in named:
                yield from _block_faults(table, name, f"{node}/{name}")
            yield from json_faults(table.attributes, f"{node}/{name}")
        for path, attributes in self.attributes.items():
            yield from json_faults(attributes, f"{node}/{path}")

    def _class_faults(self, named: Mapping[str, Style], node: str) -> Iterator[ContractError]:
        keyed = next((style for style in named.values() if style.endpoint_key == "class"), None)
        for name, style in named.items():
            if keyed is not None and style.category == "atom" and "class" not in self.tables.get(name, Block()):
                yield ContractError(
                    f"{node}/{name}", f"the endpoints of {keyed.name} name classes and the atom table has no 'class'"
                )

    def __eq__(self, other: object) -> bool:
        """Return equal contents, tables (bit for bit) and definitions; the order of keys and tables does not count."""
        if not isinstance(other, ForceField):
            return NotImplemented
        return (
            self.definitions == other.definitions
            and self.tables == other.tables
            and canonical_json(self.content) == canonical_json(other.content)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        tables = ", ".join(f"{name}: {table.count} rows" for name, table in self.tables.items()) or "no tables"
        return f"ForceField({self.document.get('name')!r}, definitions {self.definitions}; {tables})"


def table_from_rows(category_name: str, rows: Sequence[Mapping[str, Any]], columns: Iterable[str] = ()) -> Block:
    """Return a table of rows `{"name": …, "itom": …, "k": …}`: a parameter a row lacks, or that is None, is null there.

    Numbers become `f64`, texts `string`. `columns` are there even without rows. `name` and the endpoints of the
    category always are.
    """
    arity = category(category_name).arity
    names = ["name", *ENDPOINT_COLUMNS[: arity or 0], *columns]
    for row in rows:
        names.extend(row)
    return Block({name: _column([row.get(name) for row in rows], name) for name in dict.fromkeys(names)})


def _column(values: list[Any], name: str) -> Column:
    mask = np.array([value is not None for value in values], dtype=np.bool_)
    present = [value for value in values if value is not None]
    text = isinstance(present[0], str) if present else name == "name" or name in ENDPOINT_COLUMNS
    dtype = STANDARD_DTYPES.get(name, "string" if text else "f64")
    filled = [("" if dtype == "string" else 0) if value is None else value for value in values]
    return Column(as_values(filled, dtype, name), mask)


def _block_faults(table: Block, name: str, node: str) -> Iterator[ContractError]:
    """Yield a block that is no style's table is a block like any other."""
    fault = name_fault(name) or ("is reserved for the cell" if name == "box" else None)
    if fault is not None:
        yield ContractError(node, f"the name {name!r} {fault} and cannot name a block")
    try:
        table.check(node)
    except ContractError as error:
        yield error
