"""Arrays of a database's rows: blobs whose dtype and shape follow from their length and the number of atoms.

Source of the layout: `ase.db.sqlite`, `encode` and `deblob`; numbers of 4 bytes are those of other writers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError

__all__ = ["BLOBS", "BlobKind", "blob_values", "check_numbers"]


@dataclass(frozen=True)
class BlobKind:
    """A column of blobs: the numbers it may have per atom, or per row; bytes of one; dtype of the usual ones."""

    per_atom: bool
    widths: tuple[int, ...]
    sizes: tuple[int, ...] = (8, 4)
    dtype: str = "<f8"


BLOBS = {
    "positions": BlobKind(True, (3,)),
    "momenta": BlobKind(True, (3,)),
    "forces": BlobKind(True, (3,)),
    "initial_magmoms": BlobKind(True, (1, 3)),
    "initial_charges": BlobKind(True, (1,)),
    "masses": BlobKind(True, (1,)),
    "magmoms": BlobKind(True, (1, 3)),
    "charges": BlobKind(True, (1,)),
    "cell": BlobKind(False, (9,)),
    "stress": BlobKind(False, (6,)),
    "dipole": BlobKind(False, (3,)),
    "tags": BlobKind(True, (1,), (4,), "<i4"),
}


def check_numbers(path: Path, blobs: Sequence[Any], ids: Sequence[int]) -> NDArray[np.int64]:
    """The atoms of rows by their atomic numbers. FormatError names the row where they are none."""
    if not set(map(type, blobs)) <= {bytes} or any(size % 4 for size in set(map(len, blobs))):
        for number, blob in zip(ids, blobs, strict=True):
            if not isinstance(blob, bytes) or len(blob) % 4:
                found = f"numbers of {len(blob)} bytes" if isinstance(blob, (bytes, str)) else "numbers of None bytes"
                raise FormatError(path, f"row id {number}", found=found, expected="4 bytes for each atom")
    return np.array(list(map(len, blobs)), np.int64) // 4


def blob_values(
    path: Path, name: str, width: int, blobs: Sequence[Any], ids: Sequence[int], counts: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.bool_] | None] | None:
    """The numbers of a column in rows of so many atoms, and who has it (None: everyone); None where no row has it.

    One line of `width` numbers for each atom, or row, zeros where there is no blob; without that axis where it is one
    number. FormatError names the row whose blob does not fit.
    """
    kind = BLOBS[name]
    owned = counts if kind.per_atom else np.ones(len(blobs), np.int64)
    there = None
    if None in blobs:
        there = np.array([blob is not None for blob in blobs])
        if not there.any():
            return None
    held = blobs if there is None else [blob for blob in blobs if blob is not None]
    expected = width * (owned if there is None else owned[there])
    try:
        data = b"".join(held)
    except TypeError:
        raise _misfit(path, name, width, blobs, ids, counts) from None
    sizes = np.array(list(map(len, held)), np.int64)
    size, *others = kind.sizes
    fits = sizes == size * expected
    if fits.all():
        values = np.frombuffer(data, kind.dtype)
    elif others and bool((fits | (sizes == 4 * expected)).all()):
        whole = (blob if fit else np.frombuffer(blob, "<f4") for blob, fit in zip(held, fits.tolist(), strict=True))
        values = np.frombuffer(b"".join(_wide(part) for part in whole), kind.dtype)
    else:
        raise _misfit(path, name, width, blobs, ids, counts)
    lines = values.reshape(-1, width) if width > 1 else values
    if there is None:
        return lines, None
    spread = np.zeros((int(owned.sum()), width) if width > 1 else int(owned.sum()), kind.dtype)
    spread[np.repeat(there, owned)] = lines
    return spread, there


def _wide(part: bytes | NDArray[np.float32]) -> bytes:
    return part if isinstance(part, bytes) else part.astype("<f8").tobytes()


def _misfit(
    path: Path, name: str, width: int, blobs: Sequence[Any], ids: Sequence[int], counts: NDArray[np.int64]
) -> FormatError:
    """The error of the first blob that does not fit."""
    kind = BLOBS[name]
    for number, blob, count in zip(ids, blobs, counts.tolist(), strict=True):
        lines = count if kind.per_atom else 1
        if blob is None or (isinstance(blob, bytes) and len(blob) in [size * width * lines for size in kind.sizes]):
            continue
        size = f"{len(blob)} bytes" if isinstance(blob, bytes) else f"type {type(blob).__name__}"
        expected = f"{kind.sizes[0] * width * lines} for {count} atoms"
        return FormatError(path, f"row id {number}", found=f"{name} of {size}", expected=expected)
    return FormatError(path, found=f"{name} that fit no number of atoms")
