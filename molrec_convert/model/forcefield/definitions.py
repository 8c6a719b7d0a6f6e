"""Force fields from one set of definitions to the other, exactly or not at all.

Definitions 2 are LAMMPS's: harmonic force constants without the half, angles in degrees, force constants per radian.
Halving and doubling are exact in binary; angles are rounded correctly, and numbers of up to 15 significant digits come
back as they were. A style without an exact form is refused by name.
Source: Force field, "Version 2 definitions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.model.forcefield.categories import category, converted_angles
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.forcefield.registry import STANDARD, Registry
from molrec_convert.model.forcefield.styles import DEFINITIONS, Parameter, StyleDefinition
from molrec_convert.model.forcefield.tables import Style, parameter_columns
from molrec_convert.model.forcefield.units import angle_unit, is_marked
from molrec_convert.model.frame import Block, Column, Frame

__all__ = ["system_to_definitions", "to_definitions"]

#: The unit of angles in each of the definitions.
_ANGLE = {1: "radian", 2: "degree"}
#: Categories none of whose numbers can be an angle.
_NO_ANGLE = frozenset({"atom", "bond", "pair", "constraint", "virtual_site", "drude"})


@dataclass(frozen=True)
class _Change:
    """What becomes of one column: its name, and how its numbers change ("" not at all)."""

    name: str
    how: str = ""


def to_definitions(forcefield: ForceField, target: int, registry: Registry = STANDARD) -> ForceField:
    """Return the force field with its numbers in the definitions `target` and units that say so.

    The result's `minimum_version` is what a record that holds it must be stamped with. Raises `UnsupportedError` naming
    the style for one without an exact form, `ContractError` for a force field that breaks a rule.
    """
    if target not in DEFINITIONS:
        raise UsageError(f"there are no definitions {target!r}; there are 1 and 2")
    forcefield.check(registry=registry)
    if forcefield.definitions == target:
        return forcefield
    tables = dict(forcefield.tables)
    entries = []
    for style, entry in zip(forcefield.styles, forcefield.document["styles"], strict=True):
        table = tables[style.block]
        changes = _Rules(forcefield, target, registry).changes(style, table.columns, parameter_columns(table))
        tables[style.block] = _converted_table(table, changes, style)
        entries.append(_converted_entry(entry, style, [c.name for c in changes.values()], forcefield, target, registry))
    units = {**forcefield.units, "angle": _ANGLE[target]}
    version = forcefield.molrec_version
    if target == 1 and version == 2:
        version = 1
    elif target == 2 and not is_marked(units):
        version = 2
    document = {**forcefield.document, "units": units, "styles": entries}
    return ForceField(document, tables, version, dict(forcefield.attributes))


def system_to_definitions(system: Frame, forcefield: ForceField, target: int, registry: Registry = STANDARD) -> Frame:
    """Return the system with the parameter columns of its relations in the definitions `target`.

    `forcefield` is the one the system's numbers were written with, before its own conversion. Errors are those of
    `to_definitions`.
    """
    if forcefield.definitions == target:
        return system
    rules = _Rules(forcefield, target, registry)
    blocks = dict(system.blocks)
    for name in blocks:
        styles = [style for style in forcefield.styles if category(style.category).block == name]
        if styles:
            blocks[name] = _converted_relation(blocks[name], name, styles, rules)
    return Frame(blocks, system.meta, system.box, system.step, system.time, dict(system.attributes))


class _Rules:
    """How the columns of styles change on the way from a force field's definitions to others."""

    def __init__(self, forcefield: ForceField, target: int, registry: Registry) -> None:
        self.source, self.target, self.registry = forcefield.definitions, target, registry
        self.angle = angle_unit(forcefield.units, self.source)

    def changes(self, style: Style, present: Iterable[str], columns: Iterable[str]) -> dict[str, _Change]:
        """Return the change of each of the `columns`; `present` are all names that are taken."""
        columns = list(columns)
        before = self.registry.find(style.category, style.style, self.source)
        after = self.registry.find(style.category, style.style, self.target)
        if style.category == "pair14":
            raise _refusal(style, self.target, "1-4 tables have no form there")
        if before is None or after is None:
            self._check_carried(style, before, after, columns)
            return {name: _Change(name) for name in columns}
        changes = {name: self._change(name, columns, style, before, after) for name in columns}
        taken = [change.name for change in changes.values()] + [name for name in present if name not in changes]
        for change in changes.values():
            if taken.count(change.name) > 1:
                raise _refusal(style, self.target, f"two columns would be called {change.name!r}")
        return changes

    def _change(
        self, name: str, columns: list[str], style: Style, before: StyleDefinition, after: StyleDefinition
    ) -> _Change:
        parameter = before.parameter(name, self.source)
        if parameter is None:
            if after.parameter(name, self.target) is not None:
                raise _refusal(style, self.target, f"the column {name!r} would become a parameter")
            return _Change(name)
        number = name.removeprefix(parameter.named(self.source))
        if number and self.target not in parameter.indexed:
            if before.terms(columns, self.source) != ["1"]:
                raise _refusal(style, self.target, "it has one term there, and here several")
            number = ""
        return _Change(parameter.named(self.target) + number, self._how(parameter, style))

    def _how(self, parameter: Parameter, style: Style) -> str:
        if parameter.is_angle:
            if self.angle not in _ANGLE.values():
                stated = "no unit of angles" if self.angle is None else f"angles in {self.angle}"
                raise _refusal(style, self.target, f"the units state {stated}")
            return "" if self.angle == _ANGLE[self.target] else _ANGLE[self.target]
        if parameter.per_angle and self.source == 1 and self.angle != "radian":
            raise _refusal(style, self.target, f"its force constants are not per radian but per {self.angle}")
        if parameter.halved:
            return "half" if self.target == 2 else "double"
        return ""

    def _check_carried(
        self, style: Style, before: StyleDefinition | None, after: StyleDefinition | None, columns: list[str]
    ) -> None:
        """A style that is registered on one side at most keeps its numbers, where it is known what they mean."""
        if before is not None or (after is None and (style.expression is not None or style.category in _NO_ANGLE)):
            return
        if after is None:
            if columns or style.params:
                raise _refusal(style, self.target, "it is not registered and carries no expression")
            return
        if style.expression is not None:
            formula = after.formula(self.target, columns, _ANGLE[self.target])
            if formula is None or "".join(style.expression.split()) != formula:
                raise _refusal(style, self.target, "its expression is not that of the registered style of its name")
            return
        known = [after.parameter(name, self.target) for name in columns]
        if any(entry is not None and (entry.is_angle or entry.per_angle) for entry in known):
            raise _refusal(style, self.target, "it is not registered here and carries no expression")


def _converted_entry(
    entry: Mapping[str, Any], style: Style, columns: list[str], forcefield: ForceField, target: int, registry: Registry
) -> dict[str, Any]:
    """Return the entry of a style: its expression rewritten, written out where the target has no such style."""
    before = registry.find(style.category, style.style, forcefield.definitions)
    after = registry.find(style.category, style.style, target)
    converted = dict(entry)
    if after is not None:
        if before is None:
            converted.pop("expression", None)
        elif style.expression is not None:
            formula = after.formula(target, columns, _ANGLE[target])
            if formula is None:
                raise _refusal(style, target, "its expression cannot be rewritten")
            converted["expression"] = formula
    elif before is not None:
        formula = before.formula(forcefield.definitions, columns, angle_unit(forcefield.units, 2) or "degree")
        if style.expression is None and formula is not None:
            converted["expression"] = formula
        if before.mixing is not None and "mixing" not in style.params:
            converted["params"] = {**style.params, "mixing": before.mixing}
    return converted


def _converted_table(table: Block, changes: Mapping[str, _Change], style: Style) -> Block:
    columns: dict[str, Column] = {}
    for name, column in table.columns.items():
        change = changes.get(name, _Change(name))
        columns[change.name] = _converted_column(column, change, style, None)
    return Block(
        columns,
        count=table.count,
        structural_shape=table.structural_shape,
        targets=table.targets,
        attributes=table.attributes,
    )


def _converted_relation(block: Block, name: str, styles: list[Style], rules: _Rules) -> Block:
    """Return a relation with its own parameter columns changed; its `style` column says which style's rule each row
    takes.
    """
    rows: dict[str, NDArray[np.bool_]] | None = None
    if "style" in block.columns:
        texts = np.array(block.stored("style").tolist(), dtype=object)
        rows = {style.style: texts == style.style for style in styles}
        styles = [style for style in styles if rows[style.style].any()]
    plans: dict[str, dict[str, _Change]] = {}
    for style in styles:
        known = rules.registry.find(style.category, style.style, rules.source)
        own = [key for key in block.columns if known is not None and known.parameter(key, rules.source) is not None]
        plans[style.style] = rules.changes(style, block.columns, own) if own else {}
    columns: dict[str, Column] = {}
    for key, column in block.columns.items():
        changes = {style.style: plans[style.style].get(key, _Change(key)) for style in styles}
        distinct = set(changes.values()) or {_Change(key)}
        names = {change.name for change in distinct}
        if len(names) > 1 or (len(distinct) > 1 and rows is None):
            raise UnsupportedError(
                f"the column {name}/{key} means different things to the styles "
                f"{', '.join(style.name for style in styles)} and has no form in the definitions {rules.target}"
            )
        for style in styles:
            mask = rows[style.style] if rows is not None and len(distinct) > 1 else None
            column = _converted_column(column, changes[style.style], style, mask)
            if mask is None:
                break
        columns[names.pop()] = column
    return Block(
        columns,
        count=block.count,
        structural_shape=block.structural_shape,
        targets=block.targets,
        attributes=block.attributes,
    )


def _converted_column(column: Column, change: _Change, style: Style, rows: NDArray[np.bool_] | None) -> Column:
    if not change.how:
        return column
    if column.dtype != "f64":
        raise UnsupportedError(f"the parameter {change.name!r} of {style.name} is no number and cannot be converted")
    chosen = np.ones(len(column), dtype=np.bool_) if rows is None else rows
    if column.validity is not None:
        chosen = chosen & column.validity
    values = column.values.copy()
    values[chosen] = _converted(column.values[chosen], change, style)
    return Column(values, column.validity, column.precision, dict(column.attributes))


_ARITHMETIC: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "half": lambda values: values * 0.5,
    "double": lambda values: values * 2.0,
    "degree": lambda values: converted_angles(values, "degree"),
    "radian": lambda values: converted_angles(values, "radian"),
}


def _converted(values: NDArray[np.float64], change: _Change, style: Style) -> NDArray[np.float64]:
    with np.errstate(over="ignore", under="ignore"):
        converted = _ARITHMETIC[change.how](values)
        exact = np.isfinite(converted) | ~np.isfinite(values)
        if change.how == "half":
            exact &= (converted * 2.0 == values) | np.isnan(values)
    if not exact.all():
        found = values[~exact][0]
        raise UnsupportedError(
            f"the parameter {change.name!r} of {style.name} has no exact other form: found {found!r}"
        )
    return converted


def _refusal(style: Style, target: int, why: str) -> UnsupportedError:
    return UnsupportedError(f"the style {style.name} has no exact form in the definitions {target}: {why}")
