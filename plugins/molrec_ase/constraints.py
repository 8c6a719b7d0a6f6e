"""Constraints as ASE states them, `{"name": ..., "kwargs": {...}}`, and the flags of atoms that are free to move."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["fixing", "free_atoms", "modern"]


def modern(constraints: Any) -> list[dict[str, Any]]:
    """Constraints in today's notation; old files have the name among the arguments and module paths in it."""
    if not isinstance(constraints, list):
        raise ValueError("constraints are not a list")
    found = []
    for entry in constraints:
        if not isinstance(entry, dict):
            raise ValueError("a constraint is not a mapping")
        if "__name__" in entry:
            entry = {"name": entry["__name__"], "kwargs": {k: v for k, v in entry.items() if k != "__name__"}}
        if not isinstance(entry.get("name"), str):
            raise ValueError("a constraint has no name")
        if entry["name"].startswith("ase"):
            entry = {**entry, "name": entry["name"].rsplit(".", 1)[-1]}
        if not isinstance(entry.get("kwargs") or {}, dict):
            raise ValueError(f"the arguments of the constraint {entry['name']} are not a mapping")
        found.append(entry)
    return found


def free_atoms(constraints: list[dict[str, Any]], count: int) -> NDArray[np.bool_] | None:
    """False for atoms fixed in all three directions; None where no constraint fixes atoms like that."""
    free: NDArray[np.bool_] | None = None
    for entry in constraints:
        kwargs = entry.get("kwargs") or {}
        if entry["name"] == "FixAtoms":
            chosen = kwargs.get("indices", [])
        elif entry["name"] == "FixCartesian" and np.asarray(kwargs.get("mask", True)).all():
            chosen = kwargs.get("a", [])
        else:
            continue
        if free is None:
            free = np.ones(count, np.bool_)
        indices = np.atleast_1d(np.asarray(chosen))
        if indices.size == 0:
            continue
        if indices.dtype != np.bool_:
            if not (indices.max() < count and indices.min() >= -count and (indices == np.trunc(indices)).all()):
                raise ValueError(f"a constraint names atoms from {indices.min()} to {indices.max()}, of {count}")
            indices = indices.astype(np.int64)
        free[indices] = False
    return free


def fixing(free: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """The constraint of atoms that are not free."""
    fixed = np.flatnonzero(~free).tolist()
    return [{"name": "FixAtoms", "kwargs": {"indices": fixed}}] if fixed else []
