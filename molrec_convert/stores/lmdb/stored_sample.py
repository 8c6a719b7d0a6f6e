"""Values of a collection as flat dicts of arrays, in one pass: no block or column is made on the way.

What has to be done for values of one layout is worked out once. The arrays of an item share one copy of its value,
which is theirs alone. Anything out of the ordinary is left to `frame_sample`, which gives the same.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from molrec_convert.model.frame import Box
from molrec_convert.model.samples import meta_sample
from molrec_convert.stores.lmdb.frame_bytes import MAGIC, FrameBytes, decode, prefix_of
from molrec_convert.stores.lmdb.frame_layout import ColumnLayout, Layout
from molrec_convert.stores.lmdb.header_json import from_utf8
from molrec_convert.stores.lmdb.shared_declaration import SharedDeclaration

__all__ = ["Sampler"]

_SIZE = struct.Struct("<I")
#: What follows the blocks in the header of a system without a meta.
_NO_META = b'"meta":{}}'
_EXACT = 2**53


class _Run(NamedTuple):
    """Columns of one dtype and shape that lie one after the other, `shape` being that of all of them."""

    keys: tuple[str, ...]
    shape: tuple[int, ...]
    numpy: np.dtype[Any]
    offset: int


class _Other(NamedTuple):
    """A column of texts or flags, without values, or with a mask."""

    block: str
    column: str


class _Plan(NamedTuple):
    """How values of a layout become a sample; `limits` has the rows each referencing column may name."""

    steps: tuple[_Run | _Other, ...]
    limits: tuple[tuple[str, int], ...]


class _Front(NamedTuple):
    """How a value begins that has the layout of the one before, and its runs where it has nothing else."""

    prefix: bytes
    length: int
    extent: int
    runs: tuple[_Run, ...]
    limits: tuple[tuple[str, int], ...]


class Sampler:
    """Samples of the values of one collection; every method gives None where it takes the long way."""

    def __init__(self, shared: SharedDeclaration) -> None:
        self._shared = shared
        self._numbers = all(tag == "f64" for tag in shared.tags.values())
        self._keys = shared.tags.keys()
        self._plans: dict[int, tuple[Layout, _Plan | None]] = {}
        self._fronts: dict[str, _Front] = {}

    def system(self, value: bytearray, record: int) -> dict[str, Any] | None:
        """The sample of a system."""
        known: dict[str, Any] = {}
        rest = self._known("s", value, known)
        if rest is not None and bytes(rest) == _NO_META:
            return known
        frame = decode(value, ("s", record))
        sample = self._columns(frame, "s")
        if sample is not None:
            sample.update(meta_sample(frame.meta()))
            _add_box(sample, frame.box)
        return sample

    def first_frame(self, value: bytearray, ordinal: int) -> dict[str, Any] | None:
        """The sample of the first frame of a record, whose value holds all there is of it."""
        known: dict[str, Any] = {}
        if self.add_first_frame(known, value, ordinal):
            return known
        frame = decode(value, ("f", ordinal))
        self._shared.check(frame)
        sample = self._columns(frame, "f")
        if sample is None:
            return None
        sample.update(meta_sample(self._shared.meta(frame)))
        _add_box(sample, frame.box)
        sample["step"] = frame.step
        if frame.time is not None:
            sample["time"] = frame.time
        return sample

    def add_first_frame(self, sample: dict[str, Any], value: bytearray, ordinal: int) -> bool:
        """Add what `first_frame` gives; False where that takes more than the short way, some of it added then."""
        rest = self._known("f", value, sample)
        if rest is None or not self._numbers:
            return False
        others = from_utf8(b"{" + rest, ("f", ordinal))
        document, step = others.get("meta"), others.get("step")
        if len(others) != 2 or type(document) is not dict or document.keys() != self._keys:
            return False
        for number in document.values():
            if type(number) is not float or number - number != 0.0:
                return False
        if type(step) is not int or not -_EXACT <= step <= _EXACT:
            return False
        sample.update(document)
        sample["step"] = step
        return True

    def _known(self, kind: str, value: bytearray, sample: dict[str, Any]) -> bytearray | None:
        """Add the columns of a value that begins as the one before did; returns the rest of its header."""
        front = self._fronts.get(kind)
        if front is None:
            return None
        prefix, length, extent, runs, limits = front
        if not (value.startswith(prefix, 8) and value.startswith(MAGIC)):
            return None
        size = _SIZE.unpack_from(value, 4)[0]
        base = 8 + size + -size % 8
        if length >= size or base + extent > len(value):
            return None
        for keys, shape, dtype, offset in runs:
            array = np.ndarray(shape, dtype, value, base + offset)
            if len(keys) == 1:
                sample[keys[0]] = array
            else:
                # as many as the plan says; checking that would take a third of the time
                sample.update(zip(keys, array))  # noqa: B905
        for key, limit in limits:
            if int(sample[key].max()) >= limit:
                return None
        return value[length : 8 + size]

    def _columns(self, value: FrameBytes, kind: str) -> dict[str, Any] | None:
        layout = value.layout
        known = self._plans.get(id(layout))
        plan = known[1] if known is not None and known[0] is layout else self._plan(layout)
        if plan is None:
            return None
        prefix = prefix_of(kind, layout)
        if prefix is not None:
            runs = tuple(step for step in plan.steps if isinstance(step, _Run))
            if len(runs) == len(plan.steps):
                self._fronts[kind] = _Front(prefix, len(prefix), layout.extent, runs, plan.limits)
        sample: dict[str, Any] = {}
        for step in plan.steps:
            if isinstance(step, _Other):
                _add_column(sample, value, step)
                continue
            array = value.numbers(step.shape, step.numpy, step.offset)
            if len(step.keys) == 1:
                sample[step.keys[0]] = array
            else:
                sample.update(zip(step.keys, array, strict=True))
        for key, limit in plan.limits:
            if int(sample[key].max()) >= limit:
                return None
        return sample

    def _plan(self, layout: Layout) -> _Plan | None:
        plan = _plan_of(layout, self._shared.aligned)
        if not layout.has_strings:
            # a layout with texts is that of one value
            if len(self._plans) >= 1024:
                self._plans.clear()
            self._plans[id(layout)] = layout, plan
        return plan


def _plan_of(layout: Layout, aligned: Mapping[str, str]) -> _Plan | None:
    """The plan of a layout, None where something has to be looked at more closely."""
    steps: list[_Run | _Other] = []
    limits: list[tuple[str, int]] = []
    blocks = layout.blocks
    for name, block in blocks.items():
        if name in aligned and (aligned[name] not in blocks or blocks[aligned[name]].count != block.count):
            return None
        for key, column in block.columns.items():
            if column.values is not None or column.validity is not None or column.dtype == "bool" or not column.items:
                steps.append(_Other(name, key))
            else:
                _add_run(steps, f"{name}/{key}", column)
        if block.count:
            for key, target in block.references.items():
                if target not in blocks or block.columns[key].validity is not None or not block.columns[key].items:
                    return None
                limits.append((f"{name}/{key}", blocks[target].count))
    return _Plan(tuple(steps), tuple(limits))


def _add_run(steps: list[_Run | _Other], key: str, column: ColumnLayout) -> None:
    """A column of numbers: with those before it where they lie in one piece."""
    assert column.offset is not None
    last = steps[-1] if steps else None
    if isinstance(last, _Run) and last.numpy == column.numpy:
        shape = last.shape if len(last.keys) == 1 else last.shape[1:]
        if shape == column.shape and last.offset + len(last.keys) * column.nbytes == column.offset:
            steps[-1] = _Run((*last.keys, key), (len(last.keys) + 1, *shape), last.numpy, last.offset)
            return
    steps.append(_Run((key,), column.shape, column.numpy, column.offset))


def _add_column(sample: dict[str, Any], value: FrameBytes, which: _Other) -> None:
    block, key = which
    entry = value.layout.blocks[block].columns[key]
    if entry.values is not None and len(entry.shape) == 1:
        sample[f"{block}/{key}"] = list(entry.values)
    else:
        values = value.values(block, key)
        sample[f"{block}/{key}"] = values if entry.values is None else values.tolist()
    mask = value.mask(block, key)
    if mask is not None:
        sample[f"{block}/_validity/{key}"] = mask


def _add_box(sample: dict[str, Any], box: Box | None) -> None:
    if box is not None:
        sample["box/vectors"], sample["box/origin"], sample["box/boundary"] = box.vectors, box.origin, box.boundary
