"""What the columns of a dump are called in a record.

| dump | record |
|---|---|
| `x y z`, else `xu yu zu`, `xs ys zs`, `xsu ysu zsu` | `x y z`, Cartesian; the other sets under their own names |
| `q` · `mol` · `type` | `charge` · `mol_id` · `type_id`, and `type`: the label, or the number as text |
| `typelabel` · `element` | `type` · `element`, or `element_text` where it is only LAMMPS' default |
| `ix iy iz` | the same; `image_x image_y image_z` where coordinates came unwrapped, so that nobody adds them twice |
| any other | its own name; escaped by the `%XX` rule where that names no node or is a standard name of another dtype |

The first complete set of coordinates in the order above counts: what needs no arithmetic before what does, and wrapped
(as a record has it) before unwrapped. Source: the manual, "dump"; Record, "Names", "Units and coordinates".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from molrec_convert.model.names import RESERVED_COLUMNS, STANDARD_DTYPES, escape_name, name_fault, unescape_name
from molrec_lammps.dump.rows import kind_of

__all__ = ["AXES", "COORDINATES", "FLAVOURS", "flavours_of", "is_scaled", "is_unwrapped", "own_names"]

AXES = ("x", "y", "z")
#: Sets of coordinates, the first complete one counts.
FLAVOURS: dict[str, tuple[str, str, str]] = {
    "x": ("x", "y", "z"),
    "xu": ("xu", "yu", "zu"),
    "xs": ("xs", "ys", "zs"),
    "xsu": ("xsu", "ysu", "zsu"),
}
#: Every column that is a coordinate.
COORDINATES = frozenset(name for names in FLAVOURS.values() for name in names)

_DTYPES = {"integer": "i64", "text": "string", "real": "f64"}


def flavours_of(combinations: Sequence[Iterable[str]]) -> list[str | None]:
    """The flavour that counts for each set of columns of a dump whose frames do not all have the same.

    One that all frames have is preferred, then one kind, wrapped or unwrapped; else each frame's own counts.
    """
    sets = [set(columns) for columns in combinations]
    complete = [[flavour for flavour, names in FLAVOURS.items() if there.issuperset(names)] for there in sets]
    for allowed in (("x",), ("xu",), ("x", "xs"), ("xu", "xsu"), tuple(FLAVOURS)):
        chosen = [next((flavour for flavour in own if flavour in allowed), None) for own in complete]
        if all(flavour is not None or not own for flavour, own in zip(chosen, complete, strict=True)):
            return chosen
    raise AssertionError("every flavour is allowed in the end")


def is_unwrapped(flavour: str | None) -> bool:
    """Whether coordinates of a flavour are unwrapped."""
    return flavour in ("xu", "xsu")


def is_scaled(flavour: str | None) -> bool:
    """Whether coordinates of a flavour are fractions of the cell."""
    return flavour in ("xs", "xsu")


def own_names(columns: Sequence[str], taken: Iterable[str]) -> dict[str, str]:
    """Names in the record of columns that keep their own; names in `taken` are others' already."""
    used = set(taken)
    names = {}
    for column in columns:
        name = column
        standard = STANDARD_DTYPES.get(column, _DTYPES[kind_of(column)])
        if (
            name_fault(column) is not None
            or column in RESERVED_COLUMNS
            or column in used
            or standard != _DTYPES[kind_of(column)]
            or _unescaped(column) != column
        ):
            name = escape_name(column)
            if name == column:
                first = column[0].encode()
                name = "".join(f"%{byte:02X}" for byte in first) + column[1:]
        names[column] = name
        used.add(name)
    return names


def _unescaped(name: str) -> str | None:
    try:
        return unescape_name(name)
    except UnicodeDecodeError:
        return None
