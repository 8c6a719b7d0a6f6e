"""Thermodynamic output by step: what a log says about the frames of a trajectory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.names import escape_name, name_fault

__all__ = ["HEADER_NAMES", "Thermo", "header_names"]

#: Header word of a thermo table → per-step key of a record. Source: Record, "Per-step keys"; LAMMPS `thermo_style`.
HEADER_NAMES = {
    "PotEng": "pe",
    "KinEng": "ke",
    "TotEng": "etotal",
    "Temp": "temp",
    "Press": "press",
    "Volume": "volume",
}


@dataclass(frozen=True)
class Thermo:
    """Thermo rows of a run: `steps` int64[n] ascending and unique, `columns` per-step key → float64[n].

    A column that some tables of a log print and others do not is NaN where it was not printed; `printed` says of such
    a column which rows have it (bool[n]). A column that is not in `printed` is in all.
    """

    steps: NDArray[np.int64]
    columns: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    printed: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    def rows_of(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each of `steps` (int64[m]), -1 where there is none."""
        if not len(self.steps):
            return np.full(len(steps), -1, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.steps, steps), len(self.steps) - 1)
        return np.where(self.steps[rows] == steps, rows, -1).astype(np.int64)


def header_names(words: Iterable[str]) -> dict[str, str]:
    """Header word → per-step key: the standard keys by `HEADER_NAMES`, others under themselves.

    A word that cannot name a node (`S/CPU`), or that is itself the key another word maps to (`pe` beside `PotEng`,
    possible through `thermo_modify colname`), is escaped by the `%XX` rule, so that distinct words have distinct keys.
    """
    words = list(dict.fromkeys(words))
    names = {word: HEADER_NAMES[word] for word in words if word in HEADER_NAMES}
    taken = set(names.values())
    for word in words:
        if word in names:
            continue
        name = escape_name(word) if "%" in word or name_fault(word) is not None else word
        if name in taken:
            name = f"%{ord(name[0]):02X}{name[1:]}"
        names[word] = name
        taken.add(name)
    return names
