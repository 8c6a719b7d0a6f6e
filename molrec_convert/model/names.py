"""Node names: what a block, column, observable or per-step key may be called, and the `%XX` escape for others.

Source: Record, "Names"; Results, "Safe name".
"""

from __future__ import annotations

import re

from molrec_convert.errors import ContractError

__all__ = [
    "ENDPOINTS",
    "IDENTITY_COLUMNS",
    "PER_STEP_KEYS",
    "RESERVED_BLOCKS",
    "RESERVED_COLUMNS",
    "STANDARD_DTYPES",
    "STATE_COLUMNS",
    "check_name",
    "check_standard_dtype",
    "escape_name",
    "is_unicode",
    "name_fault",
    "unescape_name",
]

#: Child groups and arrays of `trajectory/` that are no blocks.
RESERVED_BLOCKS = frozenset({"step", "time", "meta", "box"})
#: Children of a trajectory block that are no columns.
RESERVED_COLUMNS = frozenset({"offset", "step_index", "_validity"})

_SAFE = re.compile(rb"[A-Za-z0-9._-]")


def name_fault(name: str) -> str | None:
    """Return why `name` cannot name a node, or None when it can."""
    if not name:
        return "is empty"
    if "/" in name:
        return "contains '/'"
    if "\0" in name:
        return "contains a NUL character"
    if name in (".", "..", "zarr.json"):
        return "is reserved"
    if name.startswith("__"):
        return "starts with '__'"
    if not is_unicode(name):
        return "is not valid Unicode"
    return None


def is_unicode(text: str) -> bool:
    """True if a text can be stored: a lone surrogate has no UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_name(name: str, node: str) -> None:
    """Refuse a name that cannot name a node; `node` is the path of the node that would bear it."""
    fault = name_fault(name)
    if fault is not None:
        raise ContractError(node, f"the name {name!r} {fault} and cannot name a node")


def escape_name(text: str) -> str:
    """Return `text` with every byte outside `A-Za-z0-9._-` as `%XX`; a leading `__`, `.` or `..` has its first byte
    escaped.

    The result is a node name, and `unescape_name` gives `text` back. The empty text has no escape and is refused.
    """
    if not text:
        raise ContractError("", "an empty name cannot be escaped")
    if not is_unicode(text):
        raise ContractError("", f"the name {text!r} is not valid Unicode and cannot be escaped")
    raw = text.encode()
    escaped = "".join(chr(byte) if _SAFE.fullmatch(bytes([byte])) else f"%{byte:02X}" for byte in raw)
    if text in (".", "..") or text.startswith("__") or text == "zarr.json":
        escaped = f"%{raw[0]:02X}" + escaped[1:]
    return escaped


def unescape_name(name: str) -> str:
    """Return the text whose `escape_name` is `name`; a name without `%XX` is itself."""
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), name.encode())
    try:
        return raw.decode()
    except UnicodeDecodeError:
        # Not an escape of ours: a name that merely looks like one.
        return name


STANDARD_DTYPES: dict[str, str] = {
    name: dtype
    for dtype, names in {
        "f64": "x y z vx vy vz fx fy fz charge mass quatw quati quatj quatk mux muy muz axis_x axis_y axis_z "
        "occupancy b_factor",
        "u64": "id atomic_number type_id mol_id res_id atom_map atomi atomj atomk atoml ibead bond_type bond_number",
        "i64": "formal_charge",
        "i32": "ix iy iz",
        "bool": "free is_14 exclude_14",
        "string": "element type name res_name bead_type chain icode altloc style",
    }.items()
    for name in names.split()
}

#: Columns that reference rows of the `atoms` block of the same container unless `targets` says otherwise.
ENDPOINTS = ("atomi", "atomj", "atomk", "atoml")
#: Columns that say what a particle is; the rest say what state it is in.
IDENTITY_COLUMNS = ("id", "type", "type_id", "element", "mass", "charge", "mol_id")
#: Columns that belong to the state of a frame whatever they do.
STATE_COLUMNS = ("x", "y", "z", "vx", "vy", "vz", "fx", "fy", "fz", "ix", "iy", "iz")
#: Conventional per-step keys, all `f64`.
PER_STEP_KEYS = ("pe", "ke", "etotal", "temp", "press", "volume")


def check_standard_dtype(name: str, dtype: str, node: str, trailing: tuple[int, ...] = ()) -> None:
    """Refuse a standard column name at another dtype than its own, or with more than one value a row."""
    expected = STANDARD_DTYPES.get(name)
    if expected is None:
        return
    if dtype != expected:
        raise ContractError(node, "a standard column has its own dtype", found=dtype, expected=expected)
    if trailing:
        raise ContractError(
            node, "a standard column has one value per row", found="".join(f"[{n}]" for n in trailing) + " per row"
        )
