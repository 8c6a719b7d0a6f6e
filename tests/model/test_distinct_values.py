"""The different values of a column, texts of any length in any order included."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from molrec_convert.model import distinct

#: Long texts in an order for which numpy's quicksort of texts gives its work to its heap sort, which reads past memory.
CHILD = """
import numpy as np
from molrec_convert.model import distinct
names = [f"../in1/a/c{n:05d}.extxyz" for n in range(1200)]
texts = []
for part in range(2):
    texts += [name for name in names for _ in range(1 + 7 * (name == names[600]))]
    texts += ["../in1/a/many.extxyz"] * 400 + ["../in1/big.extxyz"] * 8393
texts += ["../in1/big.extxyz"] * 21542
found = distinct(np.array(texts, np.dtypes.StringDType()))
assert found.values.tolist() == sorted(set(texts))
assert found.values[found.codes].tolist() == texts
"""


@given(st.lists(st.text(max_size=40), max_size=60))
def test_texts(texts: list[str]) -> None:
    found = distinct(np.array(texts, np.dtypes.StringDType()))
    assert found.values.tolist() == sorted(set(texts))
    assert found.values[found.codes].tolist() == texts
    assert found.counts.tolist() == [texts.count(text) for text in found.values.tolist()]


@pytest.mark.parametrize("dtype", [np.float64, np.uint32, np.bool_])
def test_numbers(dtype: type) -> None:
    values: NDArray[Any] = np.array([3, 0, 1, 3, 3], dtype)
    found = distinct(values)
    assert found.values[found.codes].tolist() == values.tolist()
    assert found.counts.sum() == 5
    assert distinct(values[:0]).values.tolist() == []


def test_long_texts_in_an_order_that_ends_other_sorts() -> None:
    assert subprocess.run([sys.executable, "-c", CHILD], timeout=300).returncode == 0
