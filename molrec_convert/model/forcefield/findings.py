"""What is legal in a force field and still worth reporting: for validation, as warnings.

Source: Force field; what "should" be there and what consumers cannot price.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from molrec_convert.errors import UnsupportedError
from molrec_convert.model.forcefield.categories import ENDPOINT_COLUMNS
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.forcefield.expression import FUNCTIONS, Expression
from molrec_convert.model.forcefield.linking import Remark
from molrec_convert.model.forcefield.registry import STANDARD, Registry
from molrec_convert.model.forcefield.styles import StyleDefinition
from molrec_convert.model.forcefield.tables import Style, endpoint_columns, parameter_columns
from molrec_convert.model.forcefield.units import angle_unit, unit_of
from molrec_convert.model.frame import Block
from molrec_convert.quantities.units import QUANTITIES, dimension_fault

__all__ = ["remarks"]

_LISTED = 5


def remarks(forcefield: ForceField, registry: Registry = STANDARD, node: str = "forcefield") -> Iterator[Remark]:
    """Yield units that are none, numbers that are none, endpoints and expressions that lead nowhere. Needs a checked
    one.
    """
    units, definitions = forcefield.units, forcefield.definitions
    for quantity in QUANTITIES:
        text = units.get(quantity)
        fault = dimension_fault(quantity, text) if isinstance(text, str) else None
        if fault is not None:
            yield Remark(f"{node}.units.{quantity}", f"{text!r} {fault}")
    labels = _labels(forcefield)
    for index, style in enumerate(forcefield.styles):
        table = forcefield.tables[style.block]
        registered = registry.find(style.category, style.style, definitions)
        here = f"{node}/{style.block}"
        yield from _number_remarks(table, here)
        yield from _endpoint_remarks(table, style, labels, here)
        if registered is None:
            yield from _unregistered_remarks(style, table, f"{node}.styles[{index}]")
            continue
        yield from _unit_remarks(registered, style, table, forcefield, here)
        if style.expression is not None:
            formula = registered.formula(definitions, table.columns, angle_unit(units, definitions) or "radian")
            fault = _disagreement(style, registered, formula)
            if fault is not None:
                yield Remark(f"{node}.styles[{index}].expression", fault)


def _number_remarks(table: Block, node: str) -> Iterator[Remark]:
    for name in parameter_columns(table):
        column = table.columns[name]
        if column.dtype != "f64":
            continue
        values = column.values if column.validity is None else column.values[column.validity]
        if not np.isfinite(values).all():
            yield Remark(f"{node}/{name}", "a number is not finite: a parameter a row lacks is null")


def _labels(forcefield: ForceField) -> dict[str, frozenset[str]]:
    """Return what endpoints may name, by endpoint key; empty without an atom table."""
    found: dict[str, set[str]] = {}
    for atom in forcefield.of_category("atom"):
        table = forcefield.tables[atom.block]
        for key, name in (("type", "name"), ("class", "class")):
            if name in table.columns:
                found.setdefault(key, {""}).update(table.stored(name).tolist())
    return {key: frozenset(names) for key, names in found.items()}


def _endpoint_remarks(table: Block, style: Style, labels: Mapping[str, frozenset[str]], node: str) -> Iterator[Remark]:
    known = labels.get(style.endpoint_key)
    if known is None:
        return
    for name in endpoint_columns(table):
        strange = sorted(set(table.stored(name).tolist()) - known)
        if strange:
            listed = ", ".join(repr(text) for text in strange[:_LISTED])
            more = "" if len(strange) <= _LISTED else f" and {len(strange) - _LISTED} more"
            yield Remark(f"{node}/{name}", f"no atom {style.endpoint_key} of the force field is {listed}{more}")


def _unregistered_remarks(style: Style, table: Block, node: str) -> Iterator[Remark]:
    if style.category in ("atom", "constraint", "virtual_site"):
        return
    if style.expression is None:
        if table.count or style.params:
            yield Remark(node, f"the style {style.name} is not registered and has no expression: nobody can price it")
        return
    try:
        Expression(style.expression)
    except UnsupportedError as error:
        yield Remark(f"{node}.expression", str(error))


def _unit_remarks(
    registered: StyleDefinition, style: Style, table: Block, forcefield: ForceField, node: str
) -> Iterator[Remark]:
    if forcefield.units.get("preset") == "lj":
        return
    for name in [*parameter_columns(table), *style.params]:
        entry = registered.parameter(name, forcefield.definitions)
        if entry is None:
            entry = next((p for p in registered.style_parameters if p.name == name), None)
        if entry is not None and unit_of(entry.dimension, forcefield.units, forcefield.definitions) is None:
            yield Remark(f"{node}/{name}", f"the units do not say what a number of dimension {entry.dimension} is in")


def _disagreement(style: Style, registered: StyleDefinition, formula: str | None) -> str | None:
    """Return how the expression of a registered style differs from what the style means, tried at a few points."""
    if formula is None or style.expression is None:
        return None
    try:
        own, meant = Expression(style.expression), Expression(formula)
        values = _sample(own.variables | meant.variables, style, registered)
        a, b = own.evaluate(values), meant.evaluate(values)
    except UnsupportedError as error:
        return str(error)
    if np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True):
        return None
    return f"the expression is not the energy of {style.name}"


def _sample(variables: frozenset[str], style: Style, registered: StyleDefinition) -> dict[str, Any]:
    """Return values for the variables of an expression: a few geometries, made-up parameters, the style's own
    settings.
    """
    random = np.random.default_rng(0)
    values: dict[str, Any] = {name: random.uniform(0.5, 2.0) for name in sorted(variables)}
    values |= {entry.named(1): entry.default for entry in registered.style_parameters if entry.default is not None}
    values |= {name: value for name, value in style.params.items() if not isinstance(value, str)}
    points = {f"p{n}": random.uniform(-2.0, 2.0, (4, 3)) for n in range(1, len(ENDPOINT_COLUMNS) + 1)}
    ends = list(points.values())
    values |= points
    values["r"] = FUNCTIONS["distance"][1](*ends[:2])
    values["theta"] = FUNCTIONS["angle"][1](*ends[:3])
    values["phi"] = FUNCTIONS["dihedral"][1](*ends[:4])
    values["chi"] = np.abs(values["phi"])
    return values
