"""Text columns that repeat a few names: types, labels, elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["names_column"]

_STRING = np.dtypes.StringDType()


def names_column(names: Sequence[str], numbers: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """`names[number]` for each number, as a StringDType array.

    Words of fixed width are picked first and cast at once: five times as fast as picking from a StringDType array.
    """
    fixed = np.array(names, dtype="S" if all(name.isascii() for name in names) else "U")
    column: NDArray[Any] = fixed[numbers].astype(_STRING)
    return column
