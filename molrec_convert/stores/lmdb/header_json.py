"""JSON of headers and documents: compact UTF-8 text out, strictly JSON in."""

from __future__ import annotations

import json
from typing import Any

from molrec_convert.errors import ContractError

__all__ = ["from_json", "from_utf8", "mapping", "to_json"]


def _refuse_constant(token: str) -> Any:
    raise ValueError(f"{token} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)

#: A plain document as compact text. The caller has held it against `check_json`.
to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def from_json(text: str, node: str) -> Any:
    """The document in `text`; refused unless it is one JSON value and nothing more."""
    try:
        document, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise ContractError(node, f"is not valid JSON: {error}") from None
    if end != len(text) and text[end:].strip():
        raise ContractError(node, "is not valid JSON: something follows the document")
    return document


def from_utf8(data: bytes, node: str) -> Any:
    """The document in UTF-8 bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ContractError(node, f"is not valid UTF-8: {error.reason} at byte {error.start}") from None
    return from_json(text, node)


def mapping(document: Any, node: str) -> dict[str, Any]:
    """`document`, refused unless it is a JSON object."""
    if not isinstance(document, dict):
        raise ContractError(node, "is not a JSON object", found=type(document).__name__)
    return document
