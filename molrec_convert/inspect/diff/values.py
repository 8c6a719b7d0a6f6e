"""Differences of single columns and values, in words. Everything is compared bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.dtypes import same_bits
from molrec_convert.model.tags import canonical_json

__all__ = ["against", "differing_rows", "json_differences", "presence", "value_text"]

_LONGEST = 60


def against(a: Any, b: Any) -> str:
    """Both values in words; two that look alike (NaN of other bits) are told apart by their bits."""
    first, second = value_text(a), value_text(b)
    if first == second:
        first, second = f"{first} ({_bits(a)})", f"{second} ({_bits(b)})"
    return f"{first} against {second}"


def value_text(value: Any) -> str:
    """A value as a person writes it, shortened."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    try:
        text = repr(value) if isinstance(value, (float, complex)) else canonical_json(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _bits(value: Any) -> str:
    return "0x" + np.ascontiguousarray(value).byteswap().tobytes().hex()[:_LONGEST]


def differing_rows(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """Rows at which two arrays of one dtype and shape differ in any bit."""
    if same_bits(a, b):
        return np.zeros(0, dtype=np.int64)
    if isinstance(a.dtype, np.dtypes.StringDType):
        unequal = a != b
    else:
        raw = [np.ascontiguousarray(values).reshape(len(values), -1).view(np.uint8) for values in (a, b)]
        unequal = raw[0] != raw[1]
    return np.flatnonzero(unequal.reshape(len(a), -1).any(axis=1)).astype(np.int64)


def presence(node: str, a: object, b: object) -> Iterator[str]:
    """A line where only one of two is there."""
    if (a is None) != (b is None):
        yield f"{node}: is in the {'second' if a is None else 'first'} only"


def json_differences(node: str, a: dict[str, Any] | None, b: dict[str, Any] | None) -> Iterator[str]:
    """One line for each key whose values differ; the order of keys does not count, 1 differs from 1.0."""
    first, second = a or {}, b or {}
    for key in sorted({*first, *second}):
        if key not in first or key not in second:
            here, value = ("first", first[key]) if key in first else ("second", second[key])
            yield f"{node}: {key!r} is in the {here} only: {value_text(value)}"
        elif canonical_json(first[key]) != canonical_json(second[key]):
            yield f"{node}: {key!r} is {against(first[key], second[key])}"
