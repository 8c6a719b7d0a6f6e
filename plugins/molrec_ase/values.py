"""Values of a configuration as keys of a record: their tags, and their form both ways."""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_ase.plain import NONE, from_plain, to_plain

__all__ = ["as_value", "from_value", "is_missing", "tag_of"]

_PLAIN = {str: "string", float: "f64", bool: "bool", dict: "json", list: "json"}
_VECTORS = {3: "f64x3", 6: "f64x6", 9: "f64x9"}


def as_value(value: Any) -> Any:
    """A value in the form its tag has in memory: a scalar, a vector of 3, 6 or 9, or a JSON document."""
    if value is None:
        return dict(NONE)
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == 1 and value.size in _VECTORS:
        return np.ascontiguousarray(value, np.float64)
    plain = to_plain(value)
    if isinstance(plain, dict) and "__float__" in plain:
        return float(value)
    return plain


def tag_of(value: Any) -> str:
    """The tag of a value that `as_value` gave."""
    known = _PLAIN.get(type(value))
    if known is not None:
        return known
    if isinstance(value, np.ndarray):
        return _VECTORS[value.size]
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "i64" if -(2**63) <= value < 2**63 else "json"
    if isinstance(value, float):
        return "f64"
    return "string" if isinstance(value, str) else "json"


def from_value(value: Any, tag: str) -> Any:
    """What a key of a record holds, as it was before `as_value`."""
    return from_plain(value) if tag == "json" else value


def is_missing(value: Any, tag: str) -> bool:
    """Whether a value stands for none: null, or not a number."""
    if tag == "json":
        return value is None
    if tag == "f64":
        return bool(value != value)
    return tag.startswith("f64") and bool(np.isnan(np.asarray(value)).all())
