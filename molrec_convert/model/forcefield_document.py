"""The rules of a force field's document: its keys, its units, and the entries of its styles.

Source: Force field, "Document".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from molrec_convert.errors import ContractError
from molrec_convert.forcefield.categories import ENDPOINT_KEYS, block_name, is_category
from molrec_convert.forcefield.units import unit_faults
from molrec_convert.model.names import is_unicode
from molrec_convert.model.tags import check_json

__all__ = ["Style", "document_faults", "entry_faults", "json_faults", "style_of", "whole_styles"]

_MIXING = ("arithmetic", "geometric", "sixthpower")
_SPECIAL = ("lj", "coul")


@dataclass(frozen=True)
class Style:
    """One entry of a force field's `styles`.

    `params` are the parameters of the style itself (a pair style's `cutoff` and `mixing`), `expression` its energy,
    `endpoint_key` what the endpoints of its rows name: `type`, `class`, or nothing (`smirks`).
    """

    category: str
    style: str
    params: Mapping[str, float | str] = field(default_factory=dict)
    expression: str | None = None
    endpoint_key: str = "type"

    @property
    def name(self) -> str:
        """`pair.lj/cut`: category and style, for messages."""
        return f"{self.category}.{self.style}"

    @property
    def block(self) -> str:
        """The block that is its table: `pair.lj%2Fcut`."""
        return block_name(self.category, self.style)


def style_of(entry: Mapping[str, Any]) -> Style:
    """The style an entry of the document states."""
    return Style(
        entry["category"],
        entry["style"],
        entry.get("params", {}),
        entry.get("expression"),
        entry.get("endpoint_key", "type"),
    )


def whole_styles(document: Any) -> Iterator[Style]:
    """The entries that name a style whose table can be looked for."""
    entries = document.get("styles") if isinstance(document, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if not any(True for _ in _style_faults(entry, "")):
            yield style_of(entry)


def document_faults(document: Any, node: str, molrec_version: int | None) -> Iterator[ContractError]:
    """Every rule a document breaks, one by one."""
    if not isinstance(document, dict):
        yield ContractError(node, "the document is not a JSON object", found=type(document).__name__)
        return
    yield from json_faults(document, node)
    if not isinstance(document.get("name"), str):
        yield _missing(document, "name", node, "a text")
    if "units" in document:
        yield from unit_faults(document["units"], f"{node}.units", molrec_version)
    else:
        yield _missing(document, "units", node, "a JSON object")
    yield from _source_faults(document.get("source"), f"{node}.source")
    yield from _special_bonds_faults(document, f"{node}.special_bonds")
    yield from entry_faults(document, node)


def _missing(document: Mapping[str, Any], key: str, node: str, expected: str) -> ContractError:
    found = repr(document[key])[:60] if key in document else "none"
    return ContractError(node, f"the document has no {key!r}", found=found, expected=expected)


def json_faults(document: Any, node: str) -> Iterator[ContractError]:
    """The fault of a document that is not plain finite JSON."""
    try:
        check_json(document, node)
    except ContractError as fault:
        yield fault


def _source_faults(source: Any, node: str) -> Iterator[ContractError]:
    if source is None:
        return
    if not isinstance(source, dict) or not isinstance(source.get("format"), str):
        yield ContractError(node, "the source does not say its format", found=repr(source)[:60])
        return
    for key in ("uri", "sha256"):
        if key in source and not isinstance(source[key], str):
            yield ContractError(f"{node}.{key}", "not a text", found=repr(source[key])[:60])


def _special_bonds_faults(document: Mapping[str, Any], node: str) -> Iterator[ContractError]:
    if "special_bonds" not in document:
        return
    weights = document["special_bonds"]
    if not isinstance(weights, dict):
        yield ContractError(node, "special_bonds is not a JSON object", found=repr(weights)[:60])
        return
    for key in _SPECIAL:
        triple = weights.get(key)
        if (
            not isinstance(triple, (list, tuple))
            or len(triple) != 3
            or not all(_is_number(weight) for weight in triple)
        ):
            yield ContractError(
                f"{node}.{key}",
                "the weights are no three numbers",
                found=repr(triple)[:60] if key in weights else "none",
                expected="[w12, w13, w14]",
            )


def entry_faults(document: Mapping[str, Any], node: str) -> Iterator[ContractError]:
    """Every rule the entries of `styles` break."""
    entries = document.get("styles")
    if not isinstance(entries, list):
        yield _missing(document, "styles", node, "a list")
        return
    seen = set()
    for index, entry in enumerate(entries):
        here = f"{node}.styles[{index}]"
        faults = list(_style_faults(entry, here))
        yield from faults
        if not faults:
            name = (entry["category"], entry["style"])
            if name in seen:
                yield ContractError(here, "the style appears twice", found=".".join(name))
            seen.add(name)


def _style_faults(entry: Any, node: str) -> Iterator[ContractError]:
    if not isinstance(entry, dict):
        yield ContractError(node, "a style is a JSON object", found=repr(entry)[:60])
        return
    if not is_category(entry.get("category")):
        yield ContractError(
            node,
            "the category is no lower-case name",
            found=repr(entry.get("category"))[:60],
            expected="a letter, then letters, digits and '_'",
        )
    style = entry.get("style")
    if not isinstance(style, str) or not style or not is_unicode(style):
        yield ContractError(node, "the style has no name", found=ascii(style)[:60])
    expression = entry.get("expression")
    if expression is not None and not isinstance(expression, str):
        yield ContractError(f"{node}.expression", "an expression is a text", found=repr(expression)[:60])
    key = entry.get("endpoint_key", "type")
    if key not in ENDPOINT_KEYS:
        yield ContractError(
            f"{node}.endpoint_key", "unknown kind of endpoint", found=repr(key)[:60], expected=", ".join(ENDPOINT_KEYS)
        )
    yield from _param_faults(entry.get("params", {}), entry.get("category") == "pair", f"{node}.params")


def _param_faults(params: Any, pair: bool, node: str) -> Iterator[ContractError]:
    if not isinstance(params, dict):
        yield ContractError(node, "the parameters are not a JSON object", found=repr(params)[:60])
        return
    for key, value in params.items():
        if not isinstance(value, str) and not _is_number(value):
            yield ContractError(f"{node}.{key}", "a parameter is a finite number or a text", found=repr(value)[:60])
        elif pair and key == "cutoff" and isinstance(value, str):
            yield ContractError(f"{node}.{key}", "a cutoff is a number", found=repr(value)[:60])
        elif pair and key in ("special", "mixing"):
            allowed = _SPECIAL if key == "special" else _MIXING
            if value not in allowed:
                yield ContractError(
                    f"{node}.{key}", "the value is reserved", found=repr(value)[:60], expected=", ".join(allowed)
                )


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023
