"""Reading and writing for `ase.io`: the functions its format `mrec` names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import molrec_convert
from molrec_ase.api import configurations, from_ase, of_record, prepared, tells_steps
from molrec_ase.atoms import atoms_of
from molrec_convert.errors import UsageError
from molrec_convert.model import Record
from molrec_convert.model.collection.collection import Collection
from molrec_convert.report import Report

__all__ = ["read_mrec", "write_mrec"]


def read_mrec(name: str, index: Any = slice(None), *, elements: tuple[str, ...] = (), **options: Any) -> Iterator[Any]:
    """Yield the `Atoms` of some frames of a record, or of the frames of some records of a collection.

    `index` is a slice; only what it takes is read. `elements` names those of the atom types where a record has none.
    """
    if not isinstance(index, slice):
        raise UsageError(f"{name} has frames that are counted: a number or a slice, not {index!r}")
    with molrec_convert.open(name, **options) as source:
        report = Report()
        if isinstance(source, Record):
            yield from _frames(source, index, elements, report)
        else:
            yield from _records(source, index, elements, report)


def write_mrec(name: str, images: Any, *, append: bool = False, as_: Any = None, **options: Any) -> None:
    """Write `Atoms` as a record, or where their atoms differ as a collection in a file `.mrec.lmdb`.

    A record that has the name is overwritten, as `ase.io.write` does; with `append` the frames go behind its own.
    """
    from ase import Atoms

    wanted = [images] if isinstance(images, Atoms) else list(images)
    target = Path(name)
    if append and target.exists():
        with molrec_convert.open(target) as known:
            report = Report()
            told = isinstance(known, Record) and tells_steps(known)
            every = [
                atoms_of(made, step=made.step if told else None, time=made.time)
                for made, _ in configurations(prepared(known, (), report), report)
            ]
        wanted = [*every, *wanted]
    if as_ is None:
        as_ = "collection" if target.name.lower().endswith(".lmdb") else "trajectory"
    molrec_convert.write(from_ase(wanted, as_), target, overwrite=True, **options)


def _frames(record: Record, index: slice, elements: tuple[str, ...], report: Report) -> Iterator[Any]:
    count = 1 if record.trajectory is None else len(record.trajectory)
    start, stop, step = index.indices(count)
    forward = range(start, stop, step)
    if step < 0:
        forward = forward[::-1]
    made = _made(record, forward, elements, report)
    yield from made if step > 0 else reversed(list(made))


def _made(record: Record, numbers: range, elements: Sequence[str], report: Report) -> Iterator[Any]:
    if not len(numbers):
        return
    where = (numbers.start, numbers[-1] + 1, numbers.step)
    if record.trajectory is None:
        where = (0, None, 1)  # type: ignore[assignment]
    told = tells_steps(record)
    found = of_record(prepared(record, elements, report), report, "", *where)
    for made, _ in found:
        yield atoms_of(made, step=made.step if told else None, time=made.time)


def _records(collection: Collection, index: slice, elements: tuple[str, ...], report: Report) -> Iterator[Any]:
    """Yield the frames of a collection are numbered through its records."""
    numbers = range(*index.indices(collection.n_frames))
    source = prepared(collection, elements, report)
    for number in numbers:
        record, position = collection.locate(number)
        member = source[record]
        for made, _ in of_record(member, report, "", position, position + 1, units=source.units):
            yield atoms_of(made, step=made.step if tells_steps(member) else None, time=made.time)
