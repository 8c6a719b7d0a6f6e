"""What the rows of a style table parameterize, and how tables and their columns are named.

Source: Force field, "Document" and the table of categories.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError

__all__ = [
    "ANNOTATIONS",
    "CATEGORIES",
    "ENDPOINT_COLUMNS",
    "ENDPOINT_KEYS",
    "PAIR_CATEGORIES",
    "Category",
    "block_name",
    "category",
    "converted_angles",
    "split_block_name",
    "to_degrees",
    "to_radians",
]

#: The columns that name the atom types (or classes) a row is about, in order.
ENDPOINT_COLUMNS = ("itom", "jtom", "ktom", "ltom", "mtom")
#: Columns of text about a row that are no parameters.
ANNOTATIONS = ("class", "element", "smarts", "smirks", "overrides", "desc", "doi")
#: What endpoints may name: atom types, atom classes, or nothing.
ENDPOINT_KEYS = ("type", "class", "smirks")
#: Categories whose rows are found by the types of two atoms, never by name.
PAIR_CATEGORIES = ("pair", "pair14")


@dataclass(frozen=True)
class Category:
    """One category.

    `arity` is the number of endpoints (None: as many as the table has), `block` the block of a system whose rows take
    parameters from it, `directed` whether a row matches its atoms in the order listed only.
    """

    name: str
    arity: int | None
    block: str
    directed: bool = False


CATEGORIES: dict[str, Category] = {
    entry.name: entry
    for entry in (
        Category("atom", 0, "atoms"),
        Category("bond", 2, "bonds"),
        Category("angle", 3, "angles"),
        Category("dihedral", 4, "dihedrals"),
        Category("improper", 4, "impropers", directed=True),
        Category("pair", 2, "atoms"),
        Category("pair14", 2, "pairs"),
        Category("constraint", 2, "constraints"),
        Category("virtual_site", 0, "virtual_sites"),
        Category("drude", 2, "drudes", directed=True),
        Category("cmap", 5, "cmaps"),
    )
}

_CATEGORY = re.compile(r"[a-z][a-z0-9_]*")
_PLAIN = re.compile(rb"[A-Za-z0-9_-]")
_ESCAPE = re.compile(r"%([0-9A-F]{2})")


def category(name: str) -> Category:
    """Return the category of that name; one outside the table has the endpoints its tables have, and the block
    `<name>s`.
    """
    return CATEGORIES.get(name) or Category(name, None, f"{name}s")


def is_category(name: object) -> bool:
    """True if a category may be called so: it is the part of a block's name before the first point."""
    return isinstance(name, str) and _CATEGORY.fullmatch(name) is not None


def block_name(category: str, style: str) -> str:
    """Return the block of a style's table: `pair.lj%2Fcut` for `lj/cut` of `pair`.

    Every byte of the style's UTF-8 form outside `A-Za-z0-9-_` is `%XX`. `ContractError` for a name without a block.
    """
    if not is_category(category):
        raise ContractError(
            "forcefield", "a category is lower-case letters, digits and '_', a letter first", found=repr(category)
        )
    try:
        raw = style.encode()
    except UnicodeEncodeError:
        raise ContractError("forcefield", "a style's name is not valid Unicode", found=ascii(style)) from None
    if not raw:
        raise ContractError("forcefield", "a style's name is empty")
    return f"{category}." + "".join(chr(byte) if _PLAIN.fullmatch(bytes([byte])) else f"%{byte:02X}" for byte in raw)


def split_block_name(name: str) -> tuple[str, str] | None:
    """Return the category and the style whose table has this name; None for a block that can be no style's table."""
    head, point, tail = name.partition(".")
    if not point or not tail or not is_category(head):
        return None
    try:
        style = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), tail).encode("latin-1").decode()
    except UnicodeError:
        return None
    return (head, style) if block_name(head, style) == name else None


#: pi to sixty digits, as a fraction: its error is far below what rounding to 53 bits can notice.
_PI = 314159265358979323846264338327950288419716939937510582097494
_ONE = 10**59


def to_radians(degrees: float) -> float:
    """Return an angle in radians."""
    return _shortest(degrees, _radians, _degrees)


def to_degrees(radians: float) -> float:
    """Return an angle in degrees."""
    return _shortest(radians, _degrees, _radians)


def converted_angles(values: NDArray[np.float64], unit: str) -> NDArray[np.float64]:
    """Return angles of any shape in another `unit`, `"degree"` or `"radian"`, from the other one of the two."""
    convert = to_degrees if unit == "degree" else to_radians
    # Tables repeat their angles; every bit pattern is converted once. Zeros of either sign stay apart.
    bits, where = np.unique(np.ascontiguousarray(values).reshape(-1).view(np.uint64), return_inverse=True)
    distinct = np.array([convert(value) for value in bits.view(np.float64).tolist()], dtype=np.float64)
    return np.asarray(distinct[where].reshape(values.shape))


def _shortest(value: float, there: Callable[[float], float], back: Callable[[float], float]) -> float:
    if value == 0.0 or not math.isfinite(value):
        return value
    exact = there(value)
    short = float(f"{exact:.15g}")
    return short if math.isfinite(short) and back(short) == value else exact


def _radians(degrees: float) -> float:
    numerator, denominator = degrees.as_integer_ratio()
    return _quotient(numerator * _PI, denominator * _ONE * 180)


def _degrees(radians: float) -> float:
    numerator, denominator = radians.as_integer_ratio()
    return _quotient(numerator * _ONE * 180, denominator * _PI)


def _quotient(numerator: int, denominator: int) -> float:
    """Return the quotient of two integers, correctly rounded."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf
