"""Differences of two snapshots: typed meta, blocks, columns, cells, and attributes this version does not know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from molrec_convert.inspect.diff.values import against, differing_rows, json_differences, presence, value_text
from molrec_convert.model.frame import Block, Box, Column, Frame
from molrec_convert.model.standard import ENDPOINTS
from molrec_convert.model.tags import Meta, same_value

__all__ = ["block_differences", "column_differences", "frame_differences"]


def frame_differences(node: str, a: Frame | None, b: Frame | None) -> Iterator[str]:
    """What differs between two snapshots, either of which may be missing."""
    if a is None or b is None:
        yield from presence(node, a, b)
        return
    yield from _typed_differences(node, a.meta, b.meta)
    for name in sorted({*a.blocks, *b.blocks}):
        first, second = a.blocks.get(name), b.blocks.get(name)
        if first is None or second is None:
            yield from presence(f"{node}/{name}", first, second)
        else:
            yield from block_differences(f"{node}/{name}", first, second)
    yield from _box_differences(f"{node}/box", a.box, b.box)
    for path in sorted({*a.attributes, *b.attributes}):
        yield from json_differences(f"{node}/{path}", a.attributes.get(path), b.attributes.get(path))


def _typed_differences(node: str, a: Meta, b: Meta) -> Iterator[str]:
    for key in sorted({*a, *b}):
        if key not in a or key not in b:
            here, value = ("first", a[key]) if key in a else ("second", b[key])
            yield f"{node}: the key {key!r} is in the {here} only: {value_text(value)}"
        elif a.tag(key) != b.tag(key):
            yield f"{node}: the key {key!r} is {a.tag(key)} against {b.tag(key)}"
        elif not same_value(a[key], b[key], a.tag(key)):
            yield f"{node}: the key {key!r} is {against(a[key], b[key])}"


def block_differences(node: str, a: Block, b: Block) -> Iterator[str]:
    """What differs between two blocks of one name."""
    if a.count != b.count:
        yield f"{node}: {a.count} rows against {b.count}"
    if a.structural_shape != b.structural_shape:
        yield f"{node}: the structural shape is {against(a.structural_shape, b.structural_shape)}"
    yield from json_differences(f"{node}: targets", declared_targets(a.targets), declared_targets(b.targets))
    yield from json_differences(node, a.attributes, b.attributes)
    for name in sorted({*a.columns, *b.columns}):
        here = f"{node}/{name}"
        if name not in a.columns or name not in b.columns:
            yield from presence(here, a.columns.get(name), b.columns.get(name))
        else:
            yield from column_differences(here, a.columns[name], b.columns[name])


def declared_targets(targets: Mapping[str, str]) -> dict[str, str]:
    """The targets that are not what a standard endpoint has anyway."""
    return {key: target for key, target in targets.items() if not (key in ENDPOINTS and target == "atoms")}


def column_differences(node: str, a: Column, b: Column) -> Iterator[str]:
    """What differs between two columns of one name."""
    yield from json_differences(node, a.attributes, b.attributes)
    if a.precision != b.precision:
        yield f"{node}: the precision is {against(a.precision, b.precision)}"
    if a.dtype != b.dtype or a.trailing != b.trailing:
        yield f"{node}: {a.dtype}{list(a.trailing)} against {b.dtype}{list(b.trailing)}"
        return
    if len(a) != len(b):
        return
    rows = differing_rows(a.values, b.values)
    if len(rows):
        row = int(rows[0])
        yield f"{node}, row {row}: {against(a.values[row], b.values[row])}{_more(rows, len(a))}"
    if a.validity is None and b.validity is None:
        return
    masks = [np.ones(len(a), np.bool_) if column.validity is None else column.validity for column in (a, b)]
    rows = differing_rows(*masks)
    if len(rows):
        row = int(rows[0])
        yield f"{node}, row {row}: the mask is {against(masks[0][row], masks[1][row])}{_more(rows, len(a))}"


def _more(rows: Any, total: int) -> str:
    return f" ({len(rows)} of {total} rows differ)" if len(rows) > 1 else ""


def _box_differences(node: str, a: Box | None, b: Box | None) -> Iterator[str]:
    if a is None or b is None:
        yield from presence(node, a, b)
        return
    if a.defined != b.defined:
        yield f"{node}: the cell is {'defined' if a.defined else 'undefined'} against its opposite"
    for name in ("vectors", "origin", "boundary"):
        first, second = getattr(a, name), getattr(b, name)
        if len(differing_rows(first, second)):
            yield f"{node}/{name}: {against(first, second)}"
