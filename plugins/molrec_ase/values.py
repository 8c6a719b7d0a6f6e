"""Values of a configuration as keys of a record: their tags, and their form both ways."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.files.json_text import read_json
from molrec_convert.quantities.elements import SYMBOLS

__all__ = [
    "NONE",
    "SYMBOL_ARRAY",
    "NotPlain",
    "as_value",
    "fixing",
    "free_atoms",
    "from_plain",
    "from_value",
    "is_missing",
    "modern",
    "number_keys",
    "parse_json",
    "plain_dtype",
    "tag_of",
    "to_plain",
]

_OWN = frozenset({"__ndarray__", "__complex__", "__float__", "__items__", "__none__"})
#: What stands for nothing where nothing would mean that there is no such key.
NONE = {"__none__": True}
#: Bytes an array of texts of fixed width may take, and how many times those of its texts.
_TEXTS, _PADDED = 2**26, 64


class NotPlain(TypeError):
    """A value has no JSON form."""


def to_plain(value: Any) -> Any:
    """Return the document of a value. `NotPlain` for objects that are no data."""
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
    """Return the value of a document."""
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
    """Return a value from JSON as ASE writes it: arrays and complex numbers in its notation, NaN and Infinity as
    words.
    """
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


_PLAIN = {str: "string", float: "f64", bool: "bool", dict: "json", list: "json"}
_VECTORS = {3: "f64x3", 6: "f64x6", 9: "f64x9"}


def as_value(value: Any) -> Any:
    """Return a value in the form its tag has in memory: a scalar, a vector of 3, 6 or 9, or a JSON document."""
    if value is None:
        return dict(NONE)
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == 1 and value.size in _VECTORS:
        return np.ascontiguousarray(value, np.float64)
    plain = to_plain(value)
    if isinstance(plain, dict) and "__float__" in plain:
        return float(value)
    return plain


def tag_of(value: Any) -> str:
    """Return the tag of a value that `as_value` gave."""
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
    """Return what a key of a record holds, as it was before `as_value`."""
    return from_plain(value) if tag == "json" else value


def is_missing(value: Any, tag: str) -> bool:
    """True if a value stands for none: null, or not a number."""
    if tag == "json":
        return value is None
    if tag == "f64":
        return bool(value != value)
    return tag.startswith("f64") and bool(np.isnan(np.asarray(value)).all())


SYMBOL_ARRAY = np.array(SYMBOLS, dtype=np.dtypes.StringDType())


def modern(constraints: Any) -> list[dict[str, Any]]:
    """Return constraints in today's notation; old files have the name among the arguments and module paths in it."""
    if not isinstance(constraints, list):
        raise ValueError("constraints are not a list")
    found = []
    for entry in constraints:
        if not isinstance(entry, dict):
            raise ValueError("a constraint is not a mapping")
        if "__name__" in entry:
            entry = {"name": entry["__name__"], "kwargs": {k: v for k, v in entry.items() if k != "__name__"}}
        if not isinstance(entry.get("name"), str):
            raise ValueError("a constraint has no name")
        if entry["name"].startswith("ase"):
            entry = {**entry, "name": entry["name"].rsplit(".", 1)[-1]}
        if not isinstance(entry.get("kwargs") or {}, dict):
            raise ValueError(f"the arguments of the constraint {entry['name']} are not a mapping")
        found.append(entry)
    return found


def free_atoms(constraints: list[dict[str, Any]], count: int) -> NDArray[np.bool_] | None:
    """Return false for atoms fixed in all three directions; None where no constraint fixes atoms like that."""
    free: NDArray[np.bool_] | None = None
    for entry in constraints:
        kwargs = entry.get("kwargs") or {}
        if entry["name"] == "FixAtoms":
            chosen = kwargs.get("indices", [])
        elif entry["name"] == "FixCartesian" and np.asarray(kwargs.get("mask", True)).all():
            chosen = kwargs.get("a", [])
        else:
            continue
        if free is None:
            free = np.ones(count, np.bool_)
        indices = np.atleast_1d(np.asarray(chosen))
        if indices.size == 0:
            continue
        if indices.dtype != np.bool_:
            if not (indices.max() < count and indices.min() >= -count and (indices == np.trunc(indices)).all()):
                raise ValueError(f"a constraint names atoms from {indices.min()} to {indices.max()}, of {count}")
            indices = indices.astype(np.int64)
        free[indices] = False
    return free


def fixing(free: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Return the constraint of atoms that are not free."""
    fixed = np.flatnonzero(~free).tolist()
    return [{"name": "FixAtoms", "kwargs": {"indices": fixed}}] if fixed else []
