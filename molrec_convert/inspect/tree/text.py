"""JSON, values and codec lines as `tree` writes them. Source: the tree notation, rules 1 and 4 to 7."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from molrec_convert.model.dtypes import DTYPES

__all__ = [
    "SHOWN",
    "WIDTH",
    "dtype_text",
    "fitting_values",
    "json_lines",
    "plain",
    "row_fits",
    "scalar_text",
    "zarr_text",
]

WIDTH = 88
#: Values shown along the leading axis.
SHOWN = 6

_CONTRACT_NAMES = {dtype.zarr: dtype.name for dtype in DTYPES.values()}
_PARAMETERS = ("level", "elementsize")


def json_lines(head: str, value: Any, continuation: str) -> Iterator[str]:
    """`head` and a JSON value, broken into lines where it does not fit; each further line starts `continuation`."""
    yield from _json_lines(head, value, "", continuation, 0)


def _json_lines(head: str, value: Any, tail: str, continuation: str, indent: int) -> Iterator[str]:
    text = _dumps(value)
    if len(head) + len(text) + len(tail) <= WIDTH or not isinstance(value, (dict, list)) or not value:
        yield f"{head}{text}{tail}"
        return
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    yield head + opening
    inner = continuation + " " * (indent + 2)
    members = [(f"{_dumps(k)}: ", v) for k, v in value.items()] if isinstance(value, dict) else [("", v) for v in value]
    for position, (label, member) in enumerate(members):
        comma = "," if position < len(members) - 1 else ""
        yield from _json_lines(inner + label, member, comma, continuation, indent + 2)
    yield f"{continuation}{' ' * indent}{closing}{tail}"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def plain(name: str) -> str:
    """A name as it is, as JSON where it holds characters that would break the line."""
    return name if name.isprintable() and name == name.strip() else _dumps(name)


def dtype_text(data_type: Any) -> str:
    """The contract's name of a Zarr `data_type`; another type by its own name."""
    name = data_type.get("name") if isinstance(data_type, dict) else data_type
    return _CONTRACT_NAMES.get(name, name) if isinstance(name, str) else "?"


def fitting_values(values: list[Any], total: int, room: int) -> str:
    """A list of leading values, as many of `values` as fit into `room` characters; `total` is the whole length."""
    for shown in range(min(len(values), SHOWN), -1, -1):
        text = _list([*(_value(item) for item in values[:shown]), *(["…"] if shown < total else [])])
        if len(text) <= room:
            return text
    return "[…]"


def row_fits(trailing: tuple[int, ...], room: int) -> bool:
    """Whether a row of this shape could be written in `room` characters at all: a larger one is not worth reading."""
    return math.prod(trailing) * 3 <= room


def _list(parts: list[str]) -> str:
    return f"[{', '.join(parts)}]"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return _list([_value(item) for item in value])
    if isinstance(value, bool):
        return "true" if value else "false"
    return _dumps(value) if isinstance(value, str) else repr(value)


def scalar_text(value: Any) -> str:
    """The value of an array without axes."""
    return _value(value)


def zarr_text(document: dict[str, Any]) -> str:
    """How an array is stored: `chunk [3] · bytes → crc32c`, `shard [m], chunk [n] · …`."""
    codecs = document.get("codecs")
    outer = _grid_shape(document)
    if isinstance(codecs, list) and len(codecs) == 1 and _codec_name(codecs[0]) == "sharding_indexed":
        inner = _configuration(codecs[0])
        extents = f"shard {_dumps(outer)}, chunk {_dumps(inner.get('chunk_shape'))}"
        codecs = inner.get("codecs")
    else:
        extents = f"chunk {_dumps(outer)}"
    pipeline = " → ".join(_codec_text(codec) for codec in codecs) if isinstance(codecs, list) else "?"
    return f"{extents} · {pipeline}"


def _grid_shape(document: dict[str, Any]) -> Any:
    grid = document.get("chunk_grid")
    return _configuration(grid).get("chunk_shape") if isinstance(grid, dict) else None


def _codec_name(codec: Any) -> str:
    name = codec.get("name") if isinstance(codec, dict) else codec
    return name if isinstance(name, str) else "?"


def _configuration(entry: Any) -> dict[str, Any]:
    configuration = entry.get("configuration") if isinstance(entry, dict) else None
    return configuration if isinstance(configuration, dict) else {}


def _codec_text(codec: Any) -> str:
    name = _codec_name(codec).removeprefix("numcodecs.")
    configuration = _configuration(codec)
    parameter = next((configuration[key] for key in _PARAMETERS if key in configuration), None)
    return name if parameter is None else f"{name}({parameter})"
