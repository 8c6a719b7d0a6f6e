"""Any value ASE keeps beside its arrays, as a plain finite JSON document, and back.

An array is `{"__ndarray__": [shape, dtype, values]}`, as ASE's own JSON has it; one with numbers that are not finite
has its bytes in base64 instead of values. `{"__complex__": [re, im]}` and `{"__float__": "nan"}` are numbers,
`{"__items__": [[key, value], ...]}` a mapping whose keys are not all texts.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from molrec_convert.files.json_text import read_json

__all__ = ["NONE", "NotPlain", "from_plain", "number_keys", "parse_json", "plain_dtype", "to_plain"]

_OWN = frozenset({"__ndarray__", "__complex__", "__float__", "__items__", "__none__"})
#: What stands for nothing where nothing would mean that there is no such key.
NONE = {"__none__": True}
#: Bytes an array of texts of fixed width may take, and how many times those of its texts.
_TEXTS, _PADDED = 2**26, 64


class NotPlain(TypeError):
    """A value has no JSON form."""


def to_plain(value: Any) -> Any:
    """The document of a value. `NotPlain` for objects that are no data."""
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, np.generic):
        return to_plain(np.asarray(value) if value.dtype.kind not in "biufcU" else value.item())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"__float__": repr(float(value))}
    if isinstance(value, complex):
        return {"__complex__": [to_plain(value.real), to_plain(value.imag)]}
    if isinstance(value, np.ndarray):
        return {"__ndarray__": _array_to_plain(value)}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and not _OWN & value.keys():
            return {str(key): to_plain(item) for key, item in value.items()}
        return {"__items__": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    kind = getattr(value, "ase_objtype", None)
    if kind is not None:
        return {**to_plain(value.todict()), "__ase_objtype__": kind}
    raise NotPlain(f"{type(value).__name__} is no data")


def from_plain(document: Any) -> Any:
    """The value of a document."""
    if isinstance(document, list):
        return [from_plain(item) for item in document]
    if not isinstance(document, dict):
        return document
    if len(document) == 1:
        ((key, content),) = document.items()
        if key == "__none__":
            return None
        if key == "__float__":
            return float(content)
        if key == "__complex__":
            return complex(*(from_plain(part) for part in content))
        if key == "__ndarray__":
            return _array_from_plain(*content)
        if key == "__items__":
            return {_hashable(from_plain(name)): from_plain(item) for name, item in content}
    return {key: from_plain(item) for key, item in document.items()}


def parse_json(text: str) -> Any:
    """A value from JSON as ASE writes it: arrays and complex numbers in its notation, NaN and Infinity as words."""
    return from_plain(read_json(text))


def number_keys(document: Any) -> Any:
    """Return a document whose keys that are integers are numbers, as ASE reads them."""
    if not isinstance(document, dict):
        return document
    return {_number_key(key): number_keys(value) for key, value in document.items()}


def _number_key(key: Any) -> Any:
    try:
        return int(key)
    except (ValueError, TypeError):
        return key


def plain_dtype(name: Any) -> np.dtype[Any]:
    """Return the dtype of numbers, truth values or texts of that name; `ValueError` for any other."""
    try:
        dtype = np.dtype(name) if isinstance(name, str) else None
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None or dtype.kind not in "biufcUO" or dtype.shape:
        raise ValueError(f"an array of the unknown dtype {name!r:.40}")
    return dtype


def _array_to_plain(array: np.ndarray[Any, Any]) -> list[Any]:
    kind = array.dtype.kind
    if kind == "O" and all(isinstance(item, str) for item in array.reshape(-1)):
        return [list(array.shape), "object", array.reshape(-1).tolist()]
    if kind not in "biufcU":
        raise NotPlain(f"an array of {array.dtype} is no data")
    array = np.asarray(array, array.dtype.newbyteorder("<"))
    name = array.dtype.str if kind == "U" else array.dtype.name
    if kind in "c" or (kind == "f" and (array.itemsize > 8 or not np.isfinite(array).all())):
        return [list(array.shape), name, {"base64": base64.b64encode(array.tobytes()).decode()}]
    return [list(array.shape), name, array.reshape(-1).tolist()]


def _array_from_plain(shape: Any, name: str, values: Any) -> np.ndarray[Any, Any]:
    dtype = plain_dtype(name)
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["base64"]), dtype).reshape(shape).copy()
    if dtype.kind == "c" and values:
        # ASE has pairs of numbers, flat
        flat = np.asarray(values, np.float64).reshape(-1)
        return flat.view(np.complex128).astype(dtype).reshape(shape)
    if dtype.kind == "U" and len(values) * dtype.itemsize > _TEXTS + _PADDED * sum(map(len, values)):
        raise ValueError(f"an array of {len(values)} texts of dtype {name!r:.40}")
    return np.array(values, dtype).reshape(shape)


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key
