"""The sixteen meta tags and the typed JSON form of their values.

A frame's meta document and the per-step values of a trajectory are typed by one tag each. In memory a value is a
Python `bool`, `int`, `float` or `str`, a numpy vector, or (tag `json`) a JSON document of native Python objects.
Source: Record, "The sixteen meta tags".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from molrec_convert.errors import ContractError
from molrec_convert.files.json_text import MOST_NESTED
from molrec_convert.model.dtypes import DTYPES, same_bits
from molrec_convert.model.names import is_unicode

__all__ = [
    "TAGS",
    "Meta",
    "Tag",
    "check_json",
    "coerce",
    "from_typed_json",
    "infer_tag",
    "same_value",
    "to_typed_json",
]


@dataclass(frozen=True)
class Tag:
    """One tag: its name, the column dtype of its elements (None for `json`), its width (0 for a scalar)."""

    name: str
    dtype: str | None
    width: int = 0

    @property
    def trailing(self) -> tuple[int, ...]:
        """Trailing shape of a per-step array of this tag."""
        return (self.width,) if self.width else ()

    @property
    def storage(self) -> str:
        """The dtype of a per-step array of this tag: JSON documents are stored as text."""
        return self.dtype or "string"


TAGS: dict[str, Tag] = {
    tag.name: tag
    for tag in (
        *(Tag(name, name) for name in ("bool", "i32", "i64", "u32", "u64", "f64", "string")),
        Tag("json", None),
        *(Tag(f"{name}x3", name, 3) for name in ("i32", "i64", "u32", "u64", "f64")),
        Tag("bool3", "bool", 3),
        Tag("f64x6", "f64", 6),
        Tag("f64x9", "f64", 9),
    )
}

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DECIMAL = re.compile(r"-?[1-9][0-9]{15,19}")
#: Integers above this are written as decimal strings: not every JSON reader holds them exactly.
_EXACT = 2**53


def infer_tag(value: Any) -> str:
    """Return the tag of a value that came without one."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        name = next((t.name for t in TAGS.values() if t.width == value.size and _holds(t, value)), None)
        return name or "json"
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, np.integer)):
        if -(2**63) <= value < 2**63:
            return "i64"
        if 0 < value < 2**64:
            return "u64"
        # "Other number": f64, unless that would change it.
        return "f64" if _exact_float(int(value)) else "json"
    if isinstance(value, (float, np.floating)):
        return "f64"
    if isinstance(value, str):
        return "string"
    return "json"


def coerce(value: Any, tag: str, node: str) -> Any:
    """Return `value` as the tag's Python form, refused where the coercion is not exact."""
    spec = _tag(tag, node)
    if spec.dtype is None:
        check_json(value, node)
        return value
    if not spec.width:
        return _scalar(value, spec.dtype, node)
    items = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(items, (list, tuple)) or len(items) != spec.width:
        raise ContractError(node, f"a {tag} value has {spec.width} elements", found=_brief(value))
    return np.array([_scalar(item, spec.dtype, node) for item in items], dtype=DTYPES[spec.dtype].numpy)


def to_typed_json(value: Any, tag: str, node: str = "") -> Any:
    """Return the typed JSON form of a tagged value: what stands in attributes and headers."""
    value = coerce(value, tag, node)
    spec = TAGS[tag]
    if spec.dtype is None:
        return value
    if spec.width:
        return [_element_to_json(item) for item in value.tolist()]
    return _element_to_json(value)


def from_typed_json(document: Any, tag: str, node: str) -> Any:
    """Return the value a typed JSON form stands for; anything but the exact form is refused."""
    spec = _tag(tag, node)
    if spec.dtype is None:
        check_json(document, node)
        return document
    if not spec.width:
        return _element_from_json(document, spec.dtype, node)
    if not isinstance(document, list) or len(document) != spec.width:
        raise ContractError(node, f"a {tag} value is a list of {spec.width}", found=_brief(document))
    return np.array([_element_from_json(item, spec.dtype, node) for item in document], dtype=DTYPES[spec.dtype].numpy)


def same_value(a: Any, b: Any, tag: str) -> bool:
    """True if two values of one tag are equal bit for bit."""
    if tag == "json":
        return canonical_json(a) == canonical_json(b)
    if TAGS[tag].width:
        return same_bits(np.asarray(a), np.asarray(b))
    if tag == "f64":
        return same_bits(np.array([a], np.float64), np.array([b], np.float64))
    return type(a) is type(b) and bool(a == b)


def canonical_json(document: Any) -> str:
    """Return a text equal for equal JSON documents, whatever the order of keys (1 and 1.0 differ)."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False)


def check_json(document: Any, node: str) -> None:
    """Refuse what is not plain finite JSON of native Python objects, or is nested deeper than can be read again."""
    _check_json(document, node, 0)


def _check_json(document: Any, node: str, depth: int) -> None:
    if isinstance(document, np.generic):
        raise ContractError(node, "a JSON document holds native Python values", found=type(document).__name__)
    if document is None or isinstance(document, (bool, int)):
        return
    if isinstance(document, str):
        _check_text(document, node)
    elif isinstance(document, float):
        if not math.isfinite(document):
            raise ContractError(node, "a JSON document holds finite numbers only", found=repr(document))
    elif isinstance(document, (list, tuple, dict)) and depth >= MOST_NESTED:
        raise ContractError(node, f"the JSON document is nested deeper than {MOST_NESTED} levels")
    elif isinstance(document, (list, tuple)):
        for item in document:
            _check_json(item, node, depth + 1)
    elif isinstance(document, dict):
        for key, item in document.items():
            if not isinstance(key, str):
                raise ContractError(node, "keys of a JSON document are strings", found=repr(key))
            _check_text(key, node)
            _check_json(item, f"{node}.{key}" if node else key, depth + 1)
    else:
        raise ContractError(node, "not a plain JSON value", found=type(document).__name__)


def _check_text(text: str, node: str) -> None:
    if not is_unicode(text):
        raise ContractError(node, "a text is not valid Unicode", found=ascii(text)[:60])


class Meta(MutableMapping[str, Any]):
    """A typed meta document: key → value, each with a tag.

    `meta["smiles"] = "O"` infers the tag; `meta.put("charge", 0, "f64")` states it. A value read back has its tag's
    Python form. Reading from a plain mapping infers every tag.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, tags: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, Any] = {}
        self._tags: dict[str, str] = {}
        if isinstance(values, Meta):
            self._values.update(values._values)
            self._tags.update(values._tags)
            return
        for key, value in (values or {}).items():
            self.put(key, value, (tags or {}).get(key))

    @classmethod
    def trusted(cls, values: dict[str, Any], tags: dict[str, str]) -> Meta:
        """Return a document of values that have the Python forms of their tags already; nothing is checked or
        copied.
        """
        meta = cls.__new__(cls)
        meta._values, meta._tags = values, tags
        return meta

    def put(self, key: str, value: Any, tag: str | None = None) -> None:
        """Set `key`; without a tag it is inferred from the value."""
        if not isinstance(key, str):
            raise ContractError("", "meta keys are strings", found=repr(key))
        if key == "_meta_types":
            raise ContractError(key, "the key is reserved for the tags themselves")
        _check_text(key, "")
        tag = infer_tag(value) if tag is None else tag
        self._values[key] = coerce(value, tag, key)
        self._tags[key] = tag

    def tag(self, key: str) -> str:
        """Return the tag of `key`."""
        return self._tags[key]

    @property
    def tags(self) -> dict[str, str]:
        """Key → tag, in the order of the keys."""
        return dict(self._tags)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: str) -> None:
        del self._values[key]
        del self._tags[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Meta({self._values!r})"

    def __eq__(self, other: object) -> bool:
        """Return equal keys, tags and values, bit for bit; the order of keys does not count."""
        if not isinstance(other, Meta):
            return NotImplemented
        return self._tags == other._tags and all(
            same_value(value, other._values[key], self._tags[key]) for key, value in self._values.items()
        )

    __hash__ = None  # type: ignore[assignment]


def _tag(tag: Any, node: str) -> Tag:
    spec = TAGS.get(tag) if isinstance(tag, str) else None
    if spec is None:
        raise ContractError(node, "unknown meta tag", found=repr(tag), expected=", ".join(TAGS))
    return spec


def _holds(tag: Tag, value: np.ndarray[Any, Any]) -> bool:
    return tag.dtype is not None and value.dtype == DTYPES[tag.dtype].numpy


def _scalar(value: Any, dtype: str, node: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if dtype == "string":
        if isinstance(value, str):
            _check_text(value, node)
            return str(value)
    elif dtype == "bool":
        if isinstance(value, bool):
            return value
    elif isinstance(value, bool):
        pass
    elif dtype == "f64":
        if isinstance(value, float):
            return value
        if isinstance(value, int) and _exact_float(value):
            return float(value)
    elif isinstance(value, int):
        bounds = np.iinfo(DTYPES[dtype].numpy)
        if int(bounds.min) <= value <= int(bounds.max):
            return value
        raise ContractError(node, f"the value does not fit {dtype}", found=str(value))
    raise ContractError(node, f"the value is not {dtype}", found=_brief(value))


def _exact_float(value: int) -> bool:
    return abs(value) < 2**1024 and (abs(value) <= _EXACT or int(float(value)) == value)


def _element_to_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return str(value)
    return value


def _element_from_json(document: Any, dtype: str, node: str) -> Any:
    if dtype == "f64" and isinstance(document, str):
        if document not in _NON_FINITE:
            raise ContractError(node, "not a number in typed JSON", found=repr(document))
        return _NON_FINITE[document]
    if dtype not in ("string", "bool", "f64") and isinstance(document, str):
        if not _DECIMAL.fullmatch(document) or abs(int(document)) <= _EXACT:
            raise ContractError(
                node,
                "not an integer in typed JSON",
                found=_brief(document),
                expected="a number, or the digits of one above 2^53 as a string",
            )
        return _scalar(int(document), dtype, node)
    if isinstance(document, float) and not math.isfinite(document):
        raise ContractError(node, "typed JSON writes a number that is not finite as a string", found=repr(document))
    return _scalar(document, dtype, node)


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
