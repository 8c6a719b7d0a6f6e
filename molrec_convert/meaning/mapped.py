"""What conversions of units and elements share: collections whose records are mapped, force fields in other units."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from molrec_convert.errors import UnsupportedError
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.declaration import ColumnDeclaration, Declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.forcefield.registry import STANDARD, Registry
from molrec_convert.model.forcefield.styles import Parameter, StyleDefinition
from molrec_convert.model.forcefield.tables import Style
from molrec_convert.model.forcefield.units import unit_of
from molrec_convert.model.frame import Block, Column
from molrec_convert.model.record import Record
from molrec_convert.plugins import plugin_manager
from molrec_convert.quantities.dimensions import (
    UnitConversion,
    units_words,
)
from molrec_convert.quantities.units import conversion_factor

__all__ = ["MappedCollection", "converted_force_field"]


def converted_force_field(
    force_field: ForceField, units: Mapping[str, Any], registry: Registry | None = None
) -> ForceField:
    """Return the force field with its numbers in other units, a `units` object; angles stay in the unit they have.

    UnsupportedError names the style or parameter whose dimension is not known, or a unit that cannot be converted.
    """
    registry = STANDARD if registry is None else registry
    own, definitions = force_field.units, force_field.definitions
    angle = {key: own[key] for key in ("angle",) if key in own}
    target = {**{key: text for key, text in units.items() if key != "force"}, **angle}
    tables = dict(force_field.tables)
    entries = []
    for entry, style in zip(force_field.document["styles"], force_field.styles, strict=True):
        known = registry.find(style.category, style.style, definitions)
        factors = _Factors(style, known, own, target, definitions)
        tables[style.block] = factors.table(tables[style.block])
        params = {name: factors.param(name, value) for name, value in style.params.items()}
        entries.append({**entry, "params": params} if params else dict(entry))
    document = {**force_field.document, "units": target, "styles": entries}
    return dataclasses.replace(force_field, document=document, tables=tables)


#: Parameters of a pair style that are no quantity of its own: names of rules, and what every style may have.
_PAIR_PARAMETERS = {"cutoff": "L", "accuracy": "1", "dielectric": "1", "scale": "1", "shift": "1", "coulomb": "E*L/Q^2"}
_TEXTS = ("special", "mixing")
#: Columns of the words of a style nothing is known of.
_WORDS = re.compile(r"c\d+")


class _Factors:
    """The factors of one style's parameters."""

    def __init__(
        self,
        style: Style,
        known: StyleDefinition | None,
        source: Mapping[str, Any],
        target: Mapping[str, Any],
        definitions: int,
    ) -> None:
        self._style, self._known, self._definitions = style, known, definitions
        self._source, self._target = source, target

    def table(self, table: Block) -> Block:
        """Return the style's table, its real columns converted."""
        columns = {
            name: column
            if column.values.dtype.kind != "f"
            else Column(column.values * np.float64(self._column(name)), column.validity, attributes=column.attributes)
            for name, column in table.columns.items()
        }
        for name, column in table.columns.items():
            if _WORDS.fullmatch(name) and column.values.dtype.kind == "T" and any(map(_is_number, column.values)):
                self._factor(name, None)
        return Block(columns, count=table.count, attributes=table.attributes)

    def param(self, name: str, value: float | str) -> float | str:
        """Return a parameter of the style itself."""
        if name in _TEXTS or (isinstance(value, str) and not _is_number(value)):
            return value
        own = () if self._known is None else self._known.style_parameters
        entry = next((p for p in own if p.named(self._definitions) == name), None)
        dimension = entry.dimension if entry is not None else _PAIR_PARAMETERS.get(name)
        factor = self._factor(name, dimension)
        return value if factor == 1.0 else float(value) * factor

    def _column(self, name: str) -> float:
        if name in ("mass", "charge"):
            return self._factor(name, {"mass": "M", "charge": "Q"}[name])
        entry: Parameter | None = None if self._known is None else self._known.parameter(name, self._definitions)
        return self._factor(name, None if entry is None else entry.dimension)

    def _factor(self, name: str, dimension: str | None) -> float:
        if dimension is None:
            return self._foreign_factor(name)
        if dimension == "1" or dimension.startswith("A"):
            return 1.0
        ours = unit_of(dimension, self._source, self._definitions)
        theirs = unit_of(dimension, self._target, self._definitions)
        return self._found(name, None if ours is None or theirs is None else conversion_factor(ours, theirs))

    def _foreign_factor(self, name: str) -> float:
        """Return the factor of a parameter that a plugin knows the dimension of."""
        style = self._style
        dimension = plugin_manager().hook.molrec_style_dimension(
            category=style.category, style=style.style, name=name, definitions=self._definitions
        )
        if dimension is None:
            raise UnsupportedError(
                f"the force field cannot be converted to other units: the dimension of {name} of {self._style.name} is "
                "not known"
            )
        # Angles stay in the unit they have
        source, target = ({**units, "angle": "radian"} for units in (self._source, self._target))
        return self._found(name, UnitConversion(source, target).factor(dimension))

    def _found(self, name: str, factor: float | None) -> float:
        if factor is None:
            raise UnsupportedError(
                f"{name} of {self._style.name} in units {units_words(self._source) or 'nobody states'} cannot be "
                f"converted to units {units_words(self._target)}"
            )
        return factor


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class MappedCollection(Collection):
    """The records of another collection, each changed by `change`; what they become is declared in `declaration`."""

    def __init__(self, source: Collection, change: Callable[[Record], Record], declaration: Declaration) -> None:
        self.source, self._change, self.declaration = source, change, declaration
        self.document, self.path, self.extra = dict(source.document), source.path, source.extra
        self.has_rows, self.random_access, self.reports = source.has_rows, source.random_access, source.reports

    @property
    def index(self) -> Block:
        """See `Collection.index`."""
        return self.source.index

    @property
    def index_columns(self) -> dict[str, ColumnDeclaration]:
        """See `Collection.index_columns`."""
        return self.source.index_columns

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return self.source.n_frames

    @property
    def forcefield(self) -> ForceField | None:
        """See `Collection.forcefield`."""
        return self.source.forcefield

    def __len__(self) -> int:
        return len(self.source)

    def record(self, index: int) -> Record:
        """See `Collection.record`."""
        return self._change(self.source.record(index))

    def members(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.members`."""
        return ((self._change(record), row) for record, row in self.source.members())

    def span(self, start: int, stop: int | None = None) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.span`."""
        return ((self._change(record), row) for record, row in self.source.span(start, stop))

    @property
    def atom_rows(self) -> int:
        """See `Collection.atom_rows`."""
        return self.source.atom_rows

    def outline(self, *, index: bool = True) -> dict[str, Any] | None:
        """See `Collection.outline`."""
        return self.source.outline(index=index)

    def unknown_parts(self, index: int) -> list[str]:
        """See `Collection.unknown_parts`."""
        return self.source.unknown_parts(index)

    def unknown_values(self) -> Iterator[tuple[bytes, bytes]]:
        """See `Collection.unknown_values`."""
        return self.source.unknown_values()

    def close(self) -> None:
        """Close the source's file."""
        self.source.close()
