"""Where each trajectory of a chain begins and ends: overlapping steps, repeated frames, clocks that start again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model.declaration import (
    NO_FILL,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    MetaDeclaration,
)
from molrec_convert.model.frame import Block
from molrec_convert.model.tags import canonical_json
from molrec_convert.report import Report

__all__ = ["Clock", "Overlap", "Place", "chained_declaration", "places"]

#: What is taken where the steps of two trajectories overlap.
Overlap = Literal["first", "last", "refuse"]
#: What the first frame of a later trajectory says that a frame of an earlier one does not: (earlier, frame, later).
Difference = Callable[[int, int, int], str]


@dataclass
class Clock:
    """The steps int64[n] and times f64[n] (None: it states none) of a trajectory, by the name messages call it."""

    name: str
    steps: NDArray[np.int64]
    times: NDArray[np.float64] | None

    def check(self) -> None:
        """Refuse steps that do not ascend."""
        back = np.flatnonzero(np.diff(self.steps) <= 0)
        if len(back):
            at = int(back[0])
            raise ContractError(
                "trajectory/step",
                f"the steps of {self.name} do not ascend: step {self.steps[at + 1]} comes after {self.steps[at]}; "
                "--steps index takes the order of the frames",
            )


@dataclass
class Place:
    """The frames [start, stop) taken of a trajectory, and what is added to their steps and times."""

    start: int
    stop: int
    step_shift: int = 0
    time_shift: float = 0.0

    @property
    def count(self) -> int:
        """Number of frames that are taken."""
        return max(0, self.stop - self.start)

    def shifted(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return times as they are in the chain."""
        return times + self.time_shift if self.time_shift else times


def places(
    clocks: Sequence[Clock], difference: Difference, *, overlap: Overlap, shift: bool, report: Report
) -> list[Place]:
    """Return what is taken of each trajectory; see `ChainedTrajectory`. Raises `UsageError`, `ContractError`."""
    if overlap not in ("first", "last", "refuse"):
        raise UsageError(f"overlap is first, last or refuse, not {overlap!r}")
    chain = _Chain(clocks, difference, overlap, shift, report)
    for number, clock in enumerate(clocks):
        clock.check()
        chain.add(number)
    return chain.places


class _Chain:
    """What was placed so far."""

    def __init__(
        self, clocks: Sequence[Clock], difference: Difference, overlap: Overlap, shift: bool, report: Report
    ) -> None:
        self._clocks, self._difference, self._overlap, self._shift, self._report = (
            clocks,
            difference,
            overlap,
            shift,
            report,
        )
        self.places: list[Place] = []

    def add(self, number: int) -> None:
        """Place the next trajectory."""
        clock = self._clocks[number]
        self.places.append(Place(0, len(clock.steps)))
        if not len(clock.steps):
            self._report.warn(f"{clock.name} has no frames")
            return
        earlier = next((n for n in range(number - 1, -1, -1) if self.places[n].count), None)
        if earlier is None:
            return
        if clock.steps[0] <= self._end(earlier):
            self._settle(earlier, number)
        if clock.times is not None and self.places[number].count:
            self._set_time(number)

    def _end(self, number: int) -> int:
        """Return the last step that is taken of a trajectory."""
        place = self.places[number]
        return int(self._clocks[number].steps[place.stop - 1]) + place.step_shift

    def _settle(self, earlier: int, later: int) -> None:
        """Place a trajectory that begins at or before the end of the one before it."""
        one, other = self._clocks[earlier], self._clocks[later]
        place, end, start = self.places[later], self._end(earlier), int(other.steps[0])
        first = next(n for n, known in enumerate(self.places) if known.count)
        begin = int(self._clocks[first].steps[self.places[first].start]) + self.places[first].step_shift
        if self._shift and self._overlap == "refuse" and start <= begin:
            self._start_again(earlier, later)
            return
        if int(other.steps[-1]) < begin:
            raise UsageError(
                f"{other.name} ends at step {other.steps[-1]}, before {self._clocks[first].name} begins at step "
                f"{begin}: name the sources in the order of time"
            )
        differs = self._difference(earlier, self.places[earlier].stop - 1, later) if start == end else ""
        if start == end and not differs:
            place.start = 1
            self._tell_repeated(one.name, other.name, start)
            return
        shared = f"step {start}" if start == min(end, int(other.steps[-1])) else f"the steps {start} to {end}"
        if self._overlap == "refuse":
            differ = f", where {differs} differs" if differs else ""
            again = ", or --shift-time where its clock started again" if start <= begin else ""
            raise UsageError(
                f"{shared} {'is' if start == end else 'are'} in {one.name} and in {other.name}{differ}: "
                f"say which frames are taken with --overlap first or --overlap last{again}"
            )
        if self._overlap == "first":
            place.start = int(np.searchsorted(other.steps, end, side="right"))
            self._tell(other.name, place.start, f"up to step {end} the frames of {one.name} are taken")
            return
        for number in range(later):
            known = self.places[number]
            stop = int(np.searchsorted(self._clocks[number].steps + known.step_shift, start))
            left = known.stop - max(known.start, min(stop, known.stop))
            known.stop -= left
            self._tell(self._clocks[number].name, left, f"from step {start} on the frames of {other.name} are taken")

    def _start_again(self, earlier: int, later: int) -> None:
        """Let the steps of a trajectory that go back to the beginning go on at the end of the one before it."""
        one, other, place = self._clocks[earlier], self._clocks[later], self.places[later]
        end, start = self._end(earlier), int(other.steps[0])
        if not self._difference(earlier, self.places[earlier].stop - 1, later):
            place.start, place.step_shift = 1, end - start
            self._tell_repeated(one.name, other.name, end)
        else:
            spacing = other.steps if len(other.steps) > 1 else one.steps
            place.step_shift = end - start + (int(spacing[1] - spacing[0]) if len(spacing) > 1 else 1)
        self._report.derived(
            f"trajectory/step of {other.name}", f"{place.step_shift} more than in the source: its steps start again"
        )

    def _set_time(self, later: int) -> None:
        """Hold the times of a trajectory against those before it."""
        earlier = next((n for n in range(later - 1, -1, -1) if self.places[n].count), None)
        if earlier is None:
            return
        one, other, place, before = self._clocks[earlier], self._clocks[later], self.places[later], self.places[earlier]
        assert one.times is not None
        assert other.times is not None
        end, begin = float(one.times[before.stop - 1]) + before.time_shift, float(other.times[place.start])
        step = int(other.steps[place.start]) + place.step_shift
        shared = place.start > 0 and int(other.steps[place.start - 1]) + place.step_shift == self._end(earlier)
        known = float(other.times[place.start - 1]) if shared else begin
        # at the step both have, the clocks may differ by less than there is between two frames
        if begin > end and (not shared or abs(known - end) < begin - known):
            return
        if not self._shift:
            raise UsageError(
                f"the time of {other.name} starts again: {begin!r} at step {step}, after {end!r} at the end of "
                f"{one.name}; let it go on from there with --shift-time"
            )
        if shared:
            place.time_shift = end - known
        else:
            place.time_shift = end + self._rate(one, other) * (step - self._end(earlier)) - begin
        self._report.derived(
            f"trajectory/time of {other.name}", f"{place.time_shift!r} more than in the source: its clock starts again"
        )

    def _rate(self, one: Clock, other: Clock) -> float:
        """Time per step, as the trajectory says or the one before it."""
        for clock in (other, one):
            if clock.times is not None and len(clock.steps) > 1:
                return float(clock.times[1] - clock.times[0]) / int(clock.steps[1] - clock.steps[0])
        raise UsageError(
            f"the time of {other.name} starts again, and a single frame does not tell how long a step is: "
            "it cannot be shifted"
        )

    def _tell_repeated(self, one: str, other: str, step: int) -> None:
        self._report.converted(
            "trajectory", f"step {step}, the last of {one} and the first of {other}, equal bit for bit, is taken once"
        )

    def _tell(self, name: str, count: int, why: str) -> None:
        if count:
            frames = "1 frame is" if count == 1 else f"{count:,} frames are"
            self._report.converted(f"trajectory of {name}", f"{frames} left out as asked: {why}")


Named = tuple[str, Declaration]


def chained_declaration(
    parts: Sequence[Named], report: Report, constants: Sequence[Mapping[str, Block]] | None = None
) -> Declaration:
    """Return the declaration of all parts, each a name for messages and what it declares.

    `constants` are blocks, or columns of them, that hold in every frame of a part beside those it declares.

    A column that only some of the blocks of its name have may be null, a per-step key that only some parts have has a
    fill that says so: NaN, or null of a JSON document, which is what any other tag becomes. Raises `ContractError`
    where two parts contradict each other.
    """
    if constants is not None:
        parts = [
            (part, _with_constants(declared, more, parts))
            for (part, declared), more in zip(parts, constants, strict=True)
        ]
    blocks: dict[str, BlockDeclaration] = {}
    for name in dict.fromkeys(name for _, declared in parts for name in declared.blocks):
        blocks[name] = _block(name, parts, report)
    meta = {
        key: _key(key, parts, report) for key in dict.fromkeys(key for _, declared in parts for key in declared.meta)
    }
    extra: dict[str, Any] = {}
    for part, declared in parts:
        _take_extra(extra, declared.extra, "trajectory", part, report)
    declaration = Declaration(blocks, meta, extra)
    declaration.check()
    return declaration


def _with_constants(declared: Declaration, constants: Mapping[str, Block], parts: Sequence[Named]) -> Declaration:
    """Return a declaration with blocks and columns that hold in all frames; what is new is as others declare it."""
    blocks = dict(declared.blocks)
    for name, block in constants.items():
        known = blocks.get(name)
        if known is None:
            like = next(other.blocks[name] for _, other in parts if name in other.blocks)
            known = replace(like, columns={}, rows=block.count)
        columns = {
            key: ColumnDeclaration(column.dtype, column.trailing, column.validity is not None, column.precision)
            for key, column in block.columns.items()
        }
        blocks[name] = replace(known, columns={**columns, **known.columns})
    return replace(declared, blocks=blocks)


def _block(name: str, parts: Sequence[Named], report: Report) -> BlockDeclaration:
    here = f"trajectory/{name}"
    owners = [(part, declared.blocks[name]) for part, declared in parts if name in declared.blocks]
    first_part, first = owners[0]
    for part, block in owners[1:]:
        for what, mine, theirs in (
            ("structural shape", first.structural_shape, block.structural_shape),
            ("aligned block", first.aligned_with, block.aligned_with),
            ("targets", first.targets, block.targets),
        ):
            if mine != theirs:
                raise ContractError(
                    here, f"the {what} in {part} is not that in {first_part}", found=str(theirs), expected=str(mine)
                )
    names = dict.fromkeys(key for _, block in owners for key in block.columns)
    columns = {key: _column(f"{here}/{key}", key, owners, report) for key in names}
    settling = {block.settles for _, block in owners}
    if len(owners) < len(parts) and (first.aligned_with is not None or first.structural_shape is not None):
        # rows that have to be there in the frames of the others, too
        nullable = settling == {None}
        columns = {key: replace(column, nullable=nullable or column.nullable) for key, column in columns.items()}
    extra: dict[str, Any] = {}
    for part, block in owners:
        _take_extra(extra, block.extra, here, part, report)
    rows = [block.rows for _, block in owners if block.rows is not None]
    return replace(
        first,
        columns=columns,
        rows=max(rows, default=None),
        settles=settling.pop() if len(settling) == 1 else None,
        extra=extra,
    )


def _column(here: str, key: str, owners: Sequence[tuple[str, BlockDeclaration]], report: Report) -> ColumnDeclaration:
    """Return the declaration of a column; a precision that not all state is none, so that no value is rounded."""
    having = [(part, block.columns[key]) for part, block in owners if key in block.columns]
    first_part, first = having[0]
    extra: dict[str, Any] = {}
    for part, column in having:
        if (column.dtype, column.trailing) != (first.dtype, first.trailing):
            raise ContractError(
                here,
                f"the column in {part} is not what it is in {first_part}",
                found=f"{column.dtype}{list(column.trailing)}",
                expected=f"{first.dtype}{list(first.trailing)}",
            )
        _take_extra(extra, column.extra, here, part, report)
    precision = first.precision
    if any(column.precision != precision for _, column in having):
        precision = None
        report.converted(here, "states no precision: not all sources have the same; the values are as they are")
    nullable = len(having) < len(owners) or any(column.nullable for _, column in having)
    return ColumnDeclaration(first.dtype, first.trailing, nullable, precision, extra)


def _key(key: str, parts: Sequence[Named], report: Report) -> MetaDeclaration:
    here = f"trajectory/meta/{key}"
    having = [(part, declared.meta[key]) for part, declared in parts if key in declared.meta]
    first_part, first = having[0]
    tags = {entry.dtype for _, entry in having}
    tag = first.dtype
    if tags == {"i64", "f64"}:
        tag = "f64"
    elif len(tags) > 1:
        part, other = next((part, entry) for part, entry in having if entry.dtype != tag)
        raise ContractError(here, f"the tag in {part} is not that in {first_part}", found=other.dtype, expected=tag)
    extra: dict[str, Any] = {}
    for part, entry in having:
        _take_extra(extra, entry.extra, here, part, report)
    if len(having) == len(parts):
        if all(canonical_json(entry.to_json()) == canonical_json(first.to_json()) for _, entry in having):
            return MetaDeclaration(tag, first.fill, extra)
        if not any(entry.has_missing for _, entry in having):
            return MetaDeclaration(tag, NO_FILL, extra)
    made = MetaDeclaration.with_missing(tag, extra)
    if made is None:
        report.converted(here, f"is a JSON document: of the tag {tag} no value says that it is missing")
        made = MetaDeclaration("json", None, extra)
    return made


def _take_extra(taken: dict[str, Any], other: dict[str, Any], here: str, part: str, report: Report) -> None:
    """Take keys this version does not know; one that is said otherwise already is reported as dropped."""
    for key, value in other.items():
        if key not in taken:
            taken[key] = value
        elif canonical_json(taken[key]) != canonical_json(value):
            report.dropped(f"{here}: {key!r} of {part}", "another source says something else")
