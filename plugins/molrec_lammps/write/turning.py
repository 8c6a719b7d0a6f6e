"""Columns that turn with the cell: which of a record's do, and turning them.

What a column is says the table of standard quantities. Three columns that look like a vector, or numbers of a row that
look like a tensor, under a name nobody knows are left as they are, and named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.names import unescape_name
from molrec_convert.quantities.standard import COLUMNS, VECTORS, Turning, full_tensor, tensor_as

__all__ = ["Turned", "turn", "turned_of", "unturned", "warning_of"]

Reals = NDArray[np.float64]
#: How many numbers a vector and a tensor (Voigt, whole) have.
_WIDTHS = {"point": (3,), "vector": (3,), "tensor": (6, 9)}
_NUMBERED = re.compile(r"(.+)\[(\d+)\]")
_ALONE = frozenset({"image_x", "image_y", "image_z"})


@dataclass(frozen=True)
class Turned:
    """What turns together: the columns of a vector, or one column with several numbers a row; and how."""

    columns: tuple[str, ...]
    kind: Turning


def turned_of(name: str, widths: Mapping[str, tuple[int, ...]]) -> Turned | None:
    """Return what a column of a record turns with, None where it does not turn, or what it belongs to is not there.

    `widths` has the shape of a row of every column there is.
    """
    _, kind = COLUMNS.get(name, ("", ""))
    if kind not in _WIDTHS:
        return None
    if widths[name]:
        return Turned((name,), kind) if len(widths[name]) == 1 and widths[name][0] in _WIDTHS[kind] else None
    group = next((group for group in VECTORS if name in group), None)
    if group is None or any(widths.get(other) != () for other in group):
        return None
    return Turned(group, kind)


def turn(values: Reals, kind: Turning, rotation: Reals, origin: Reals | None = None) -> Reals:
    """Return points or vectors f64[n, 3], or tensors f64[n, 6] (Voigt) or [n, 9], turned; `rotation` is f64[n, 3, 3].

    `origin` f64[n, 3] is what points are turned about.
    """
    if kind == "tensor":
        made = np.einsum("nab,nbc,ndc->nad", rotation, full_tensor(values), rotation)
        return tensor_as(made, "voigt") if values.shape[-1] == 6 else made.reshape(values.shape)
    if kind == "point" and origin is not None:
        return np.asarray(np.einsum("nij,nj->ni", rotation, values - origin) + origin)
    return np.asarray(np.einsum("nij,nj->ni", rotation, values))


def unturned(names: Iterable[str], widths: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return those of the names that may be parts of a vector or tensor, and are not turned."""
    named = list(names)
    rest = [name for name in named if name not in _ALONE and _unknown(name, widths)]
    together: dict[str, list[str]] = {}
    for name in rest:
        own = unescape_name(name)
        numbered = _NUMBERED.fullmatch(own)
        stem = f"{numbered[1]}[]" if numbered else own[:-1] + "?" if own[-1] in "xyz" else own
        together.setdefault(stem, []).append(name)
    found = [name for name in rest if widths[name] and widths[name][0] in (3, 6, 9)]
    found += [name for group in together.values() if len(group) in (3, 6, 9) for name in group]
    found += [name for name in rest if COLUMNS.get(name, ("", ""))[1] == "quaternion"]
    return [name for name in named if name in set(found)]


def warning_of(names: Iterable[str]) -> str:
    """Return what is said of columns that were not turned."""
    return (
        f"not turned with the cell: {' '.join(map(unescape_name, names))}, for nobody says whether they are vectors or "
        "tensors"
    )


def _unknown(name: str, widths: Mapping[str, tuple[int, ...]]) -> bool:
    """True if a column is not turned, and not known to be nothing that turns."""
    if turned_of(name, widths) is not None:
        return False
    return name not in COLUMNS or COLUMNS[name][1] != ""
