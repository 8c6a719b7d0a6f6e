"""Stress, virial and pressure: one symmetric tensor in several forms, orders and signs; and turning with a frame.

Inside, a stress is positive under tension. Forms: "full" is 3×3, "voigt" is xx yy zz yz xz xy (ASE), "lammps" is
xx yy zz xy xz yz. The virial is −volume × stress, a pressure tensor is the stress with the other sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FORMS", "full_tensor", "is_symmetric", "tensor_as", "turn_tensors", "turn_vectors"]

#: Form → the places (row, column) of its numbers in the 3×3 tensor.
FORMS: dict[str, tuple[tuple[int, int], ...]] = {
    "voigt": ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)),
    "lammps": ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)),
}

Reals = NDArray[np.float64]


def full_tensor(values: Any, form: str | None = None) -> Reals:
    """Return tensors as f64[..., 3, 3] of f64[..., 3, 3], [..., 9] (rows) or [..., 6] (`form`, "voigt" by default).

    ValueError for any other shape. No number is changed.
    """
    array = np.asarray(values, np.float64)
    if array.shape[-2:] == (3, 3):
        return array
    if array.shape[-1:] == (9,):
        return array.reshape(*array.shape[:-1], 3, 3)
    if array.shape[-1:] != (6,):
        raise ValueError(f"a tensor has 9 or 6 numbers, found the shape {list(array.shape)}")
    full = np.empty((*array.shape[:-1], 3, 3))
    for number, (row, column) in enumerate(FORMS[form or "voigt"]):
        full[..., row, column] = full[..., column, row] = array[..., number]
    return full


def tensor_as(full: Reals, form: str = "full") -> Reals:
    """Return f64[..., 3, 3] tensors in a form: [..., 3, 3] for "full", else [..., 6].

    Of a tensor that is not symmetric, which six numbers cannot say, both halves are averaged.
    """
    if form == "full":
        return full
    made = np.empty((*full.shape[:-2], 6))
    for number, (row, column) in enumerate(FORMS[form]):
        upper, lower = full[..., row, column], full[..., column, row]
        made[..., number] = np.where(upper == lower, upper, 0.5 * (upper + lower))
    return made


def is_symmetric(full: Reals) -> bool:
    """True if every tensor is symmetric to the bit; not a number equals itself."""
    return bool(np.array_equal(full, np.swapaxes(full, -1, -2), equal_nan=True))


def turn_vectors(vectors: Reals, rotation: Reals) -> Reals:
    """Return vectors f64[n, 3] in a turned frame; `rotation` f64[3, 3] acts on columns."""
    turned: Reals = vectors @ rotation.T
    return turned


def turn_tensors(values: Reals, rotation: Reals) -> Reals:
    """Return tensors f64[n, 6] (Voigt) or f64[n, 9] in a turned frame, in the form they came in."""
    turned = np.einsum("ab,...bc,dc->...ad", rotation, full_tensor(values), rotation)
    if values.shape[-1] == 6:
        return tensor_as(turned, "voigt")
    whole: Reals = turned.reshape(values.shape)
    return whole
