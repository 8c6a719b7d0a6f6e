"""Keys and values as text that reads back the same: every string quoted, numbers in their shortest exact form.

A string that reads like a number, a truth value or a list has a backslash before one of its letters, which the grammar
takes as that letter: only a quoted string can have one. What no string can hold is written as JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from molrec_xyz.keyvalues import ValueFault, typed

__all__ = ["key_text", "real_text", "value_text"]

_BARE_KEY = re.compile(r"[^\s=\"',\[\]{}\\]+")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x85\u2028\u2029]")

Real = Callable[[float], str]


def real_text(digits: int | None) -> Real:
    """How a real number is written."""
    if digits is None:
        return repr
    return lambda value: f"{value:.{digits}f}" if math.isfinite(value) else repr(value)


def key_text(key: str) -> str:
    """A key as it stands before its sign."""
    if _BARE_KEY.fullmatch(key):
        return key
    return '"' + _escaped(key) + '"'


def value_text(value: Any, tag: str, real: Real) -> str:
    """A value of a tag as it stands behind its sign."""
    if tag == "f64":
        return real(float(value))
    if tag == "bool":
        return "T" if value else "F"
    if tag in ("i32", "i64", "u32", "u64"):
        return str(int(value))
    if tag == "string":
        return string_text(str(value))
    if tag == "json":
        return json_text(value)
    items = np.asarray(value).tolist()
    if tag == "bool3":
        words = ["T" if item else "F" for item in items]
    elif tag.startswith("f64"):
        words = [real(item) for item in items]
    else:
        words = [str(item) for item in items]
    return '"' + " ".join(words) + '"'


def string_text(text: str) -> str:
    """A string in quotes."""
    if _CONTROL.search(text):
        return json_text(text)
    body = _escaped(text)
    if not _reads_as_text(body, text):
        place = 1 if body[:1] == "n" and len(body) > 1 else 0
        body = f"{body[:place]}\\{body[place:]}"
    return f'"{body}"'


def _reads_as_text(body: str, text: str) -> bool:
    """Whether what stands between quotes reads back as that text, not as a number or a list."""
    try:
        value = typed("double", body)
    except ValueFault:
        return False
    return isinstance(value, str) and value == text


def json_text(document: Any) -> str:
    """A JSON document: as a value of the grammar where it has one that reads back the same, else as `_JSON`."""
    if isinstance(document, bool):
        return "T" if document else "F"
    if isinstance(document, int):
        return str(document)
    if isinstance(document, float):
        return repr(document)
    if isinstance(document, str) and not _CONTROL.search(document):
        return string_text(document)
    if isinstance(document, list) and document and all(type(item) in (int, float) for item in document):
        kinds = {type(item) for item in document}
        if len(kinds) == 1 and len(document) not in (3, 6, 9):
            return "[" + ", ".join(map(repr, document)) + "]"
    text = json.dumps(document, ensure_ascii=True, allow_nan=False)
    return '"' + _escaped(f"_JSON {text}") + '"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
