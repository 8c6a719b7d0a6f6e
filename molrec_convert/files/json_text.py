"""JSON as it comes from files: refused where it is nested so deep that walking it would end the program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["MOST_NESTED", "check_nesting", "read_json"]

#: Levels of a document. Python takes a thousand calls within one another, and several belong to a level.
MOST_NESTED = 128
#: Levels of a text: a document stands a few levels deep in what holds it.
_MOST_IN_TEXT = MOST_NESTED + 16


def read_json(text: str | bytes, constant: Callable[[str], Any] | None = None) -> Any:
    """Return the document of a JSON text; `constant` is what NaN and Infinity become, as `json.loads` takes it.

    Raises `ValueError` for anything else, and for a document nested too deep.
    """
    try:
        document = json.loads(text, parse_constant=constant)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    check_nesting(document, text)
    return document


def check_nesting(document: Any, text: str | bytes) -> None:
    """Raise `ValueError` for a document that is nested too deep; `text` is what it was read from."""
    # a text with few brackets cannot be nested deep, which is told sooner
    opening = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if opening <= _MOST_IN_TEXT:
        return
    level = [document]
    for _ in range(_MOST_IN_TEXT):
        level = [
            item
            for node in level
            if type(node) in _NODES
            for item in (node.values() if type(node) is dict else node)
            if type(item) in _NODES
        ]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


_NODES = (dict, list)
_TOO_DEEP = f"it is nested deeper than {_MOST_IN_TEXT} levels"
