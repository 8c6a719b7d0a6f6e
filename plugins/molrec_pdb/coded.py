"""Columns of text as different texts and codes, and how names of atoms stand in their columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model import Column, distinct

__all__ = ["Coded", "coded", "combined", "constant", "placed_name"]


@dataclass
class Coded:
    """A column of text: the different texts, and which each row has."""

    different: list[str]
    codes: NDArray[np.intp]

    def mapped(self, one: Callable[[str], str]) -> Coded:
        """Each text made another."""
        made = [one(text) for text in self.different]
        different = list(dict.fromkeys(made))
        if len(different) == len(made):
            return Coded(made, self.codes)
        places = {text: place for place, text in enumerate(different)}
        return Coded(different, np.array([places[text] for text in made], np.intp)[self.codes])


def constant(text: str, count: int) -> Coded:
    """One text in all rows."""
    return Coded([text], np.zeros(count, np.intp))


def coded(column: Column) -> Coded:
    """The texts of a column; nulls are empty."""
    found = _coded(column.values)
    if column.validity is not None:
        found = Coded([*found.different, ""], np.where(column.validity, found.codes, len(found.different)))
    return found


def _coded(texts: NDArray[Any]) -> Coded:
    lengths = np.strings.str_len(texts)
    if len(texts) and int(lengths.max()) <= 8:
        try:
            words = texts.astype("S8").view("<u8")
        except UnicodeEncodeError:
            words = np.zeros(0, np.uint64)
        if len(words):
            different = np.unique(words)
            plain = [int(word).to_bytes(8, "little").rstrip(b"\0").decode() for word in different.tolist()]
            codes = np.searchsorted(different, words).astype(np.intp)
            # fixed-width text ends at a NUL, which a text may hold
            if np.array_equal(np.array([len(text) for text in plain])[codes], lengths):
                return Coded(plain, codes)
    every, codes, _ = distinct(texts)
    return Coded(every.tolist(), codes.astype(np.intp))


def combined(one: Coded, other: Coded, join: Callable[[str, str], str]) -> Coded:
    """The texts made of two columns row by row, each pair once."""
    keys = one.codes * len(other.different) + other.codes
    different = np.unique(keys)
    texts = [
        join(one.different[key // len(other.different)], other.different[key % len(other.different)])
        for key in different.tolist()
    ]
    return Coded(texts, np.searchsorted(different, keys).astype(np.intp))


def placed_name(name: str, element: str) -> str:
    """A name as it stands in columns 13-16: the element right-justified in the first two of them.

    Names of four characters begin in the first, and so does 1HB, as older files have it.
    """
    two = len(element) == 2 and name.upper().startswith(element.upper())
    if not name or len(name) > 3 or two or (len(name) == 3 and name[0] in "0123456789"):
        return name
    return f" {name}"
