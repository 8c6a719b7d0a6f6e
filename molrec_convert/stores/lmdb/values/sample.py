"""Values of a collection as flat dicts of arrays, in one pass: no block or column is made on the way.

What has to be done for values of one layout is worked out once; values whose headers begin alike have one. The arrays
of an item share one copy of its value, which is theirs alone. Anything out of the ordinary is left
to `frame_sample`, which gives the same.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.frame import Box, with_missing
from molrec_convert.model.record import meta_sample
from molrec_convert.stores.lmdb.values.decode import MAGIC, FrameBytes, decode, prefix_of
from molrec_convert.stores.lmdb.values.layout import ColumnLayout, Layout, to_json
from molrec_convert.stores.lmdb.values.stored_trajectory import SharedDeclaration

__all__ = ["Sampler"]

_START = struct.Struct("<4sI")
#: What follows the blocks in the header of a system without a meta.
_NO_META = b'"meta":{}}'
_META = b'},"meta":{'
#: A number that is no integer, and a step, as JSON has them.
_NUMBER = r"(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))"
_STEP = r"(-?(?:0|[1-9][0-9]{0,14}))"
_MOST = 1024


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


class _Short(NamedTuple):
    """The columns of a value whose header begins with a known text, where all of them are runs.

    Each run has its keys (or one), the shape, dtype and place in the payload of what it covers.
    """

    extent: int
    runs: tuple[tuple[tuple[str, ...] | str, tuple[int, ...], np.dtype[Any], int], ...]
    limits: tuple[tuple[str, int], ...]


class Sampler:
    """Samples of the values of one collection; every method gives None where it takes the long way."""

    def __init__(self, shared: SharedDeclaration) -> None:
        self._shared = shared
        self._plans: dict[int, tuple[Layout, _Plan | None]] = {}
        #: Headers of systems that say nothing beside their blocks, and what frames say up to their meta.
        self._systems: dict[bytes, _Short] = {}
        self._frames: dict[bytes, _Short] = {}
        self._last_frame = b"none yet"
        self._keys = tuple(shared.tags)
        self._rest = None
        if all(tag == "f64" for tag in shared.tags.values()):
            meta = ",".join(f"{re.escape(to_json(key))}:{_NUMBER}" for key in shared.tags)
            self._rest = re.compile(rf'"meta":\{{{meta}\}},"step":{_STEP}\}}'.encode()).fullmatch

    def short(self, system: memoryview | None, frame: memoryview) -> dict[str, Any] | None:
        """Return the sample of a record's first frame and its system from values whose headers begin as others did."""
        sample: dict[str, Any] = {}
        if system is not None and not self._add_system(sample, bytearray(system)):
            return None
        return sample if self._add_frame(sample, bytearray(frame)) else None

    def system(self, value: bytearray, record: int) -> dict[str, Any] | None:
        """Return the sample of a system."""
        known: dict[str, Any] = {}
        if self._add_system(known, value):
            return known
        frame = decode(value, ("s", record))
        sample = self._columns(frame)
        if sample is not None:
            header = _header(value)
            prefix = prefix_of(header, frame.layout)
            if prefix is not None and header[len(prefix) :] == _NO_META:
                self._learn(self._systems, header, frame.layout)
            sample.update(meta_sample(frame.meta()))
            _add_box(sample, frame.box)
        return sample

    def first_frame(self, value: bytearray, ordinal: int) -> dict[str, Any] | None:
        """Return the sample of the first frame of a record, whose value holds all there is of it."""
        known: dict[str, Any] = {}
        if self._add_frame(known, value):
            return known
        frame = decode(value, ("f", ordinal))
        self._shared.check(frame)
        sample = self._columns(frame)
        if sample is None:
            return None
        prefix = prefix_of(_header(value), frame.layout)
        if prefix is not None:
            self._learn(self._frames, prefix, frame.layout)
        sample.update(meta_sample(self._shared.meta(frame), self._shared.declaration))
        _add_box(sample, frame.box)
        sample["step"] = frame.step
        if frame.time is not None:
            sample["time"] = frame.time
        return sample

    def _add_system(self, sample: dict[str, Any], value: bytearray) -> bool:
        """Add the columns of a system whose header is known whole; False, and nothing added, otherwise."""
        if len(value) < 8:
            return False
        magic, size = _START.unpack_from(value)
        short = self._systems.get(bytes(value[8 : 8 + size]))
        return short is not None and magic == MAGIC and _add_short(sample, short, value, 8 + size + -size % 8)

    def _add_frame(self, sample: dict[str, Any], value: bytearray) -> bool:
        """Add the columns and values of a first frame of a known layout; False otherwise, some added then."""
        prefix = self._last_frame
        if not value.startswith(prefix, 8):
            cut = value.find(_META, 8)
            prefix = bytes(value[8 : max(cut + 2, 8)])
        short = self._frames.get(prefix)
        if short is None or self._rest is None:
            return False
        self._last_frame = prefix
        magic, size = _START.unpack_from(value)
        rest = self._rest(value, 8 + len(prefix), 8 + size)
        if rest is None or magic != MAGIC or not _add_short(sample, short, value, 8 + size + -size % 8):
            return False
        numbers = rest.groups()
        for key, text in zip(self._keys, numbers):  # noqa: B905 - the step comes last
            sample[key] = number = float(text)
            if number - number != 0.0:
                return False
        sample["step"] = int(numbers[-1])
        return True

    def _learn(self, known: dict[bytes, _Short], text: bytes, layout: Layout) -> None:
        """Keep how values with a header that begins with `text` become a sample, where they have nothing but runs."""
        plan = self._plans[id(layout)][1]
        if plan is None or not all(isinstance(step, _Run) for step in plan.steps):
            return
        if len(known) >= _MOST:
            known.clear()
        runs = tuple(
            (run.keys if len(run.keys) > 1 else run.keys[0], run.shape, run.numpy, run.offset)
            for run in plan.steps
            if isinstance(run, _Run)
        )
        known[text] = _Short(layout.extent, runs, plan.limits)

    def _columns(self, value: FrameBytes) -> dict[str, Any] | None:
        layout = value.layout
        known = self._plans.get(id(layout))
        plan = known[1] if known is not None and known[0] is layout else self._plan(layout)
        if plan is None:
            return None
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
            if len(self._plans) >= _MOST:
                self._plans.clear()
            self._plans[id(layout)] = layout, plan
        return plan


def _header(value: bytearray) -> bytes:
    return bytes(value[8 : 8 + int.from_bytes(value[4:8], "little")])


def _add_short(sample: dict[str, Any], short: _Short, value: bytearray, base: int) -> bool:
    """Add the columns of a value whose payload begins at `base`; False where they break a rule."""
    extent, runs, limits = short
    if base + extent > len(value):
        return False
    for keys, shape, dtype, offset in runs:
        array: NDArray[Any] = np.ndarray(shape, dtype, value, base + offset)
        if type(keys) is str:
            sample[keys] = array
        else:
            # as many as the plan says; checking that would take a third of the time
            sample.update(zip(keys, array))  # noqa: B905
    return not limits or all(int(sample[key].max()) < limit for key, limit in limits)


def _plan_of(layout: Layout, aligned: Mapping[str, str]) -> _Plan | None:
    """Return the plan of a layout, None where something has to be looked at more closely."""
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
    mask = value.mask(block, key)
    if entry.values is not None and len(entry.shape) == 1 and mask is None:
        sample[f"{block}/{key}"] = list(entry.values)
    else:
        values = with_missing(value.values(block, key), mask)
        sample[f"{block}/{key}"] = values if entry.values is None else values.tolist()
    if mask is not None:
        sample[f"{block}/_validity/{key}"] = mask


def _add_box(sample: dict[str, Any], box: Box | None) -> None:
    if box is not None:
        sample["box/vectors"], sample["box/origin"], sample["box/boundary"] = box.vectors, box.origin, box.boundary
