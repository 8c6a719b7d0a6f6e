"""Byte planes by the kernel and by numpy."""

from __future__ import annotations

import numpy as np
import pytest

from molrec_convert._kernel import planes
from molrec_convert._kernel.planes import merge_planes, split_planes


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "shape", [(1, 1, 8), (2, 7, 8), (3, 16, 8), (2, 1003, 8), (2, 9, 4), (1, 5, 1), (1, 0, 8), (0, 4, 8)]
)
def test_planes_are_split_and_merged(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], plain: bool) -> None:
    if plain:
        monkeypatch.setattr(planes, "library", lambda: None)
    values = np.random.default_rng(3).integers(0, 256, shape, np.uint8)
    apart = split_planes(values)
    assert (apart == values.transpose(0, 2, 1)).all()
    assert (merge_planes(apart) == values).all()
    # some values of each chunk
    part = apart[:, :, 1:-1]
    assert (merge_planes(part) == values[:, 1:-1]).all()
    strided = np.zeros((*shape[:2], 2 * shape[2]), np.uint8)
    merge_planes(apart, strided[:, :, ::2])
    assert (strided[:, :, ::2] == values).all()
