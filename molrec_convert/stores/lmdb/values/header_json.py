"""JSON of headers and documents: compact UTF-8 text out, strictly JSON in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from molrec_convert.errors import ContractError
from molrec_convert.files.json_text import MOST_NESTED, check_nesting

__all__ = ["Name", "from_utf8", "mapping", "node_text", "to_json"]

#: What a value is called in errors: a text, or the letter and number of its key, put together when it is needed.
Name = str | tuple[str, int]


def _refuse_constant(token: str) -> Any:
    raise ValueError(f"{token} is no JSON value")


#: The decoder's own scanner: no copies, no search for blanks around the document.
_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder(parse_constant=_refuse_constant))["scan_once"]

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def _make_to_json() -> Callable[[Any], str]:
    """The encoder's own C half, kept: `JSONEncoder.encode` makes a new one for every document."""
    parts = vars(json.encoder)
    make, quote = parts.get("c_make_encoder"), parts.get("c_encode_basestring")
    if make is None or quote is None:
        return _ENCODER.encode
    pieces = make(None, _ENCODER.default, quote, None, ":", ",", False, False, False)

    def encode(document: Any) -> str:
        return "".join(pieces(document, 0))

    return encode


#: A plain document as compact text. The caller has held it against `check_json`.
to_json = _make_to_json()


def node_text(name: Name) -> str:
    """A name of a value as text: `("f", 3)` is `f[3]`."""
    return name if isinstance(name, str) else f"{name[0]}[{name[1]}]"


def from_utf8(data: bytes, name: Name) -> Any:
    """The document in UTF-8 bytes; refused unless it is one JSON value and nothing more."""
    try:
        text = data.decode()
        document, end = _scan(text, 0)
        check_nesting(document, text)
    except UnicodeDecodeError as error:
        raise ContractError(node_text(name), f"is not valid UTF-8: {error.reason} at byte {error.start}") from None
    except StopIteration:
        raise ContractError(node_text(name), "is not valid JSON: no value where one should begin") from None
    except RecursionError:
        raise ContractError(node_text(name), f"is nested deeper than {MOST_NESTED} levels") from None
    except ValueError as error:
        raise ContractError(node_text(name), f"is not valid JSON: {error}") from None
    if end != len(text) and text[end:].strip():
        raise ContractError(node_text(name), "is not valid JSON: something follows the document")
    return document


def mapping(document: Any, node: str) -> dict[str, Any]:
    """`document`, refused unless it is a JSON object."""
    if not isinstance(document, dict):
        raise ContractError(node, "is not a JSON object", found=type(document).__name__)
    return document
