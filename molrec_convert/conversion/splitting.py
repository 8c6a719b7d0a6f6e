"""A collection divided at random, records that belong together on one side.

The division depends on the seed, the fractions and the values alone, not on the machine or a library's random numbers:
groups are ordered by a keyed hash of their value, and each goes to the side that lacks most. So sides have the records
asked for, as far as groups are not larger than what is lacking.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UsageError
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.distinct_values import distinct
from molrec_convert.model.frame import Column

__all__ = ["parse_fractions", "split_positions"]


def parse_fractions(text: str) -> dict[str, float]:
    """`train=0.8,valid=0.1,test=0.1`; refused unless they are positive and add up to one (`UsageError`)."""
    fractions: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = part.partition("=")
        name = name.strip()
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not equals or not name or not 0 < value <= 1:
            raise UsageError(f"fractions are NAME=PART,... like train=0.8,valid=0.1,test=0.1: found {part.strip()!r}")
        if name in fractions:
            raise UsageError(f"the side {name!r} is named twice")
        if "/" in name or name.startswith("."):
            raise UsageError(f"a side becomes part of a file's name, which {name!r} cannot be")
        fractions[name] = value
    total = math.fsum(fractions.values())
    if abs(total - 1) > 1e-9:
        raise UsageError(f"the fractions add up to {total:.12g}, not to 1")
    return fractions


def split_positions(
    collection: Collection, fractions: Mapping[str, float], *, by: str | None = None, seed: int = 0
) -> dict[str, NDArray[np.int64]]:
    """The records of each side, in their order. With `by` those with equal values of that index column stay together.

    A record without a value is a group of its own. Raises `UsageError` for an unknown column, or an empty side.
    """
    count = len(collection)
    if by is None:
        groups, labels = np.arange(count), [b"#%d" % n for n in range(count)]
    else:
        columns = collection.index.columns
        if by not in columns:
            raise UsageError(f"the collection has no index column {by!r}; it has {', '.join(columns)}")
        if columns[by].trailing:
            raise UsageError(f"the index column {by!r} has several values per record: records are not divided by it")
        groups, labels = _groups(columns[by])
    sizes = np.bincount(groups, minlength=len(labels)).tolist()
    order = sorted(range(len(labels)), key=lambda group: _hash(labels[group], seed))
    sides = _assign(order, sizes, list(fractions.values()), count)
    side_of = np.asarray(sides, np.int64)[groups] if count else np.zeros(0, np.int64)
    found = {name: np.flatnonzero(side_of == side).astype(np.int64) for side, name in enumerate(fractions)}
    for name, positions in found.items():
        if not len(positions):
            groups_of = f"{len(labels):,} group{'' if len(labels) == 1 else 's'} of equal {by}"
            what = f"{count:,} records" if by is None else groups_of
            raise UsageError(f"of {what} none is left for {name!r}: name fewer sides with --fractions, or other parts")
    return found


def _groups(column: Column) -> tuple[NDArray[np.int64], list[bytes]]:
    """The group of each record, and a label of each group that says what its value is."""
    values = column.values
    if values.dtype.kind == "f":
        # equal numbers are one group, whatever their sign or their NaN
        values = np.where(values == 0, 0.0, values)
    elif values.dtype.kind == "c":
        raise UsageError("records are not divided by complex numbers")
    unique, groups, _ = distinct(values)
    labels = [_label(value) for value in unique.tolist()]
    if column.validity is not None:
        missing = np.flatnonzero(~column.validity)
        groups[missing] = len(labels) + np.arange(len(missing))
        labels += [b"#%d" % n for n in missing.tolist()]
        # values that only nulls had are of no group
        used, groups = np.unique(groups, return_inverse=True)
        groups = groups.reshape(-1).astype(np.int64)
        labels = [labels[group] for group in used.tolist()]
    return groups, labels


def _label(value: Any) -> bytes:
    return f"{type(value).__name__}:{value if isinstance(value, str) else repr(value)}".encode("utf-8", "surrogatepass")


def _hash(label: bytes, seed: int) -> bytes:
    return hashlib.blake2b(label, digest_size=16, key=str(seed).encode()[:64]).digest() + label


def _assign(order: Sequence[int], sizes: Sequence[int], fractions: Sequence[float], count: int) -> list[int]:
    """The side of each group: each goes, in this order, where most records are lacking."""
    lacking = [fraction * count for fraction in fractions]
    sides = [0] * len(sizes)
    for group in order:
        side = max(range(len(lacking)), key=lacking.__getitem__)
        sides[group] = side
        lacking[side] -= sizes[group]
    return sides
