"""Helpers of the tests of force fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from molrec_convert.model import Column
from molrec_convert.model.forcefield.document import ForceField, table_from_rows


def nullable(values: list[float | None]) -> Column:
    """A column of numbers, null where there is None."""
    return Column(
        np.array([0.0 if value is None else value for value in values]),
        np.array([value is not None for value in values]),
    )


def single(
    category: str, style: str, rows: list[dict[str, Any]], units: dict[str, str] | None = None, **how: Any
) -> ForceField:
    """A force field of one style."""
    forcefield = ForceField.new("one", units or {"preset": "real"})
    forcefield.add(category, style, table_from_rows(category, rows), **how)
    return forcefield
