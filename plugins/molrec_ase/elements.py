"""Symbols of the chemical elements by atomic number, as an array."""

from __future__ import annotations

import numpy as np

from molrec_convert.quantities.elements import SYMBOLS

__all__ = ["SYMBOL_ARRAY"]

SYMBOL_ARRAY = np.array(SYMBOLS, dtype=np.dtypes.StringDType())
