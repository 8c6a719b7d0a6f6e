"""The thirteen column dtypes of the contract, their numpy and Zarr forms.

Nothing is widened or narrowed: an array of any other type is refused.
Source: Containers, "Data types"; Zarr V3 binding, "dtypes".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError

__all__ = [
    "DTYPES",
    "DType",
    "Distinct",
    "as_values",
    "check_precision",
    "distinct",
    "dtype_name",
    "empty",
    "off_grid",
    "plain_values",
    "precision_fault",
    "quantum",
    "same_bits",
    "stored",
]

Array = NDArray[Any]


@dataclass(frozen=True)
class DType:
    """One column dtype: contract name, numpy dtype in memory, Zarr `data_type`, Zarr `fill_value` as JSON."""

    name: str
    numpy: np.dtype[Any]
    zarr: str
    fill: Any

    @property
    def itemsize(self) -> int:
        """Bytes of one value on disk; a string counts 16 wherever extents are worked out."""
        return 16 if self.name == "string" else self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """True if values are binary64, or pairs of binary floats (the codec pipelines tell them from the others)."""
        return self.name in ("f64", "c64", "c128")


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType("f64", np.dtype("<f8"), "float64", 0.0),
        DType("i8", np.dtype("i1"), "int8", 0),
        DType("i16", np.dtype("<i2"), "int16", 0),
        DType("i32", np.dtype("<i4"), "int32", 0),
        DType("i64", np.dtype("<i8"), "int64", 0),
        DType("u8", np.dtype("u1"), "uint8", 0),
        DType("u16", np.dtype("<u2"), "uint16", 0),
        DType("u32", np.dtype("<u4"), "uint32", 0),
        DType("u64", np.dtype("<u8"), "uint64", 0),
        DType("bool", np.dtype("?"), "bool", False),
        DType("string", np.dtypes.StringDType(), "string", ""),
        DType("c64", np.dtype("<c8"), "complex64", [0.0, 0.0]),
        DType("c128", np.dtype("<c16"), "complex128", [0.0, 0.0]),
    )
}

#: Kinds of numpy dtypes → the Python type whose values they hold unchanged, if they are in range.
_PLAIN = {"f": float, "i": int, "u": int, "b": bool, "T": str}
#: Of arrays of these there is nothing to look at.
_OWN = {d.numpy: d.name for d in DTYPES.values() if d.name != "string"}
_BY_NUMPY = {(d.numpy.kind, d.numpy.itemsize): d.name for d in DTYPES.values() if d.name != "string"}


def dtype_name(dtype: np.dtype[Any], node: str = "") -> str:
    """Return the contract name of a numpy dtype; `ContractError` for float16, float32 and everything else outside the
    set.
    """
    if isinstance(dtype, np.dtypes.StringDType):
        return "string"
    name = _BY_NUMPY.get((dtype.kind, dtype.itemsize))
    if name is None:
        raise ContractError(
            node, "the dtype is not one of the contract's", found=str(dtype), expected=", ".join(DTYPES)
        )
    return name


def as_values(values: Any, dtype: str | None = None, node: str = "") -> Array:
    """Return `values` as a C-ordered little-endian array of a contract dtype.

    Python numbers become `i64` (`u64` from 2^63 on) or `f64`, text of any kind a `StringDType` array. With `dtype` an
    empty or untyped sequence takes that dtype; an array that already has another one is refused, never cast.
    """
    if type(values) is np.ndarray and values.flags.c_contiguous:
        own = _OWN.get(values.dtype)
        if own is not None and (dtype is None or dtype == own):
            return values.view()
    if isinstance(values, (np.ndarray, np.generic)) and values.dtype != np.object_:
        array = np.asarray(values)
    else:
        array = _from_sequence(values, dtype, node)
    if array.dtype.kind in "UT" and array.dtype != DTYPES["string"].numpy:
        array = _as_text(array, node)
    name = dtype_name(array.dtype, node)
    if dtype is not None and name != dtype:
        raise ContractError(node, "the dtype differs from the declared one", found=name, expected=dtype)
    # numpy copies texts between equal string dtypes
    target = None if name == "string" else DTYPES[name].numpy
    return np.ascontiguousarray(array, dtype=target).reshape(array.shape)


def plain_values(values: list[Any], dtype: str) -> Array | None:
    """Return values that are all of the one Python type a dtype takes as it is, as an array; None for any others."""
    kinds = set(map(type, values))
    target = DTYPES[dtype].numpy
    if kinds != {_PLAIN.get(target.kind)}:
        return None
    try:
        return np.array(values, dtype=target)
    except (OverflowError, ValueError):
        # out of range, or no valid text
        return None


def _from_sequence(values: Any, dtype: str | None, node: str) -> Array:
    """Return an array of Python objects; numpy alone would cut NULs off texts and take large integers for floats."""
    if isinstance(values, list) and set(map(type, values)) == {str}:
        return _as_text(np.array(values, dtype=object), node)
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise ContractError(node, f"the values are no array: {error}") from None
    if array.size == 0 and dtype is not None:
        return array.astype(DTYPES[dtype].numpy)
    if array.dtype.kind in "UO":
        objects = np.asarray(values, dtype=object).reshape(array.shape)
        if all(isinstance(value, str) for value in objects.reshape(-1)):
            return _as_text(objects, node) if array.size or dtype == "string" else array
        raise ContractError(node, "the values are of no dtype of the contract", found=_kinds(objects))
    if array.dtype.kind == "f" and bool((np.abs(array) >= 2.0**53).any()):
        flat = list(np.asarray(values, dtype=object).reshape(-1))
        whole = [value for value in flat if isinstance(value, int)]
        changed = [value for value in whole if int(float(value)) != value]
        if changed or len(whole) == len(flat):
            found = str(changed[0] if changed else max(whole))
            raise ContractError(node, "an integer does not fit the dtype of the other values", found=found)
    return array if dtype is None else _exact_cast(array, dtype, node)


def _exact_cast(array: Array, dtype: str, node: str) -> Array:
    """Return numbers at another dtype, refused where one would change."""
    target = DTYPES[dtype].numpy
    if array.dtype == target:
        return array
    if array.dtype.kind not in "iufc" or target.kind not in "iufc" or (array.dtype.kind == "c" and target.kind != "c"):
        raise ContractError(node, "the values do not fit the dtype", found=str(array.dtype), expected=dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        cast = array.astype(target)
        back = cast.real if target.kind == "c" and array.dtype.kind != "c" else cast
        same = (cast == array) & (back.astype(array.dtype) == array)
    if target.kind in "fc":
        same |= np.isnan(array) & np.isnan(cast) if array.dtype.kind in "fc" else False
    if not bool(same.all()):
        raise ContractError(node, "the values do not fit the dtype", found=str(array.dtype), expected=dtype)
    return cast


def _as_text(array: Array, node: str) -> Array:
    if hasattr(array.dtype, "na_object"):
        array = array.astype(object)
        if not all(isinstance(value, str) for value in array.reshape(-1)):
            raise ContractError(node, "a text is missing: a column holds a text in every row, beside a mask")
    try:
        return array.astype(DTYPES["string"].numpy)
    except (ValueError, UnicodeError) as error:
        raise ContractError(node, f"the values are not all valid text: {error}") from None


def _kinds(objects: Array) -> str:
    return ", ".join(sorted({type(value).__name__ for value in objects.reshape(-1)})[:4])


def empty(dtype: str, shape: tuple[int, ...]) -> Array:
    """Return a new array of `shape` filled with the dtype's fill value (zero, false, empty text)."""
    return np.zeros(shape, dtype=DTYPES[dtype].numpy)


def same_bits(a: Array, b: Array) -> bool:
    """True if two arrays hold the same dtype, shape and bits: a NaN equals the same NaN, -0.0 differs from 0.0."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if isinstance(a.dtype, np.dtypes.StringDType):
        return bool(np.array_equal(a, b))
    return bool(np.array_equal(_bits(a), _bits(b)))


def _bits(array: Array) -> Array:
    array = np.ascontiguousarray(array)
    return array.reshape(-1).view(np.uint64 if array.dtype.itemsize % 8 == 0 else np.uint8)


_SMALLEST, _LARGEST = 2.0**-1000, 2.0**1000


def check_precision(precision: Any, dtype: str, node: str) -> float:
    """Return `precision` as a float, refused unless finite, within [2^-1000, 2^1000], and on an `f64` column."""
    fault = precision_fault(precision, dtype)
    if fault is not None:
        raise ContractError(node, fault)
    return float(precision)


def precision_fault(precision: Any, dtype: str) -> str | None:
    """Return why a column of `dtype` cannot declare `precision`, or None when it can."""
    if dtype != "f64":
        return f"only an f64 column may declare a precision: found {dtype}"
    if isinstance(precision, (bool, np.bool_)) or not isinstance(precision, (int, float, np.integer, np.floating)):
        return f"a precision is a number: found {precision!r}"
    if not _SMALLEST <= precision <= _LARGEST:
        return f"the precision is outside the allowed range: found {precision!r}, expected 2^-1000 to 2^1000"
    return None


def quantum(precision: float) -> float:
    """Return the largest power of two not above `precision`."""
    return math.ldexp(1.0, math.frexp(precision)[1] - 1)


def stored(
    values: NDArray[np.float64], precision: float, out: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return what a writer stores for `values`: the nearest multiple of the quantum, ties to even.

    NaN, infinities and values of at least 2^52 quanta are untouched. Division and multiplication by a power of two
    are exact, so any writer stores the same bits. With `out`, which must be other memory, the result is there.
    """
    q = quantum(precision)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result: NDArray[np.float64] = np.multiply(values, 1.0 / q, out=out)
        np.rint(result, out=result)
        # One look at the extremes tells whether anything is to be left alone; a NaN shows there too.
        rounded = not result.size or bool(result.min() > -(2.0**52) and result.max() < 2.0**52)
        result *= q
        untouched = None if rounded else ~(np.abs(values) < 2.0**52 * q)
    if untouched is not None:
        result[untouched] = values[untouched]
    return result


def off_grid(values: NDArray[np.float64], precision: float) -> NDArray[np.bool_]:
    """Return which values `stored` would change: a writer's defect that a validator reports."""
    rounded = stored(values, precision)
    return np.asarray(rounded.view(np.uint64) != np.ascontiguousarray(values).view(np.uint64))


class Distinct(NamedTuple):
    """`values`: each once, ascending. `codes`: for each row the place of its own among them. `counts`: rows of each."""

    values: NDArray[Any]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


def distinct(values: NDArray[Any]) -> Distinct:
    """Return the different values of a one-dimensional array of any dtype, texts included."""
    if values.dtype.kind != "T":
        found, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
        return Distinct(found, codes.reshape(-1).astype(np.int64), counts.astype(np.int64))
    # numpy's other sort ends the process with long texts of some orders: its heap sort, which it falls back to
    order = values.argsort(kind="stable")
    ordered = values[order]
    begins = np.ones(len(values), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    codes = np.empty(len(values), np.int64)
    codes[order] = np.cumsum(begins) - 1
    firsts = np.flatnonzero(begins)
    return Distinct(ordered[firsts], codes, np.diff(firsts, append=len(values)))
