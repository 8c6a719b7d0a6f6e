"""What the package offers with `Atoms`: `Record.to_ase`, `Trajectory.iter_ase`, `molrec_convert.from_ase`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from molrec_ase.atoms import atoms_of, part_of_atoms
from molrec_ase.configuration import Configuration, Maker
from molrec_ase.plugin import ASE_DB
from molrec_ase.reader import arranged
from molrec_ase.reading.source import PartSource
from molrec_convert.errors import ContractError, UsageError
from molrec_convert.formats import ARRANGEMENTS, Arrangement
from molrec_convert.meaning.quantities import atom_blocks
from molrec_convert.meaning.species import with_elements
from molrec_convert.meaning.targets import for_target
from molrec_convert.model import NO_FILL, Record, Trajectory
from molrec_convert.model.collection.collection import Collection
from molrec_convert.quantities.dimensions import units_object
from molrec_convert.report import Report

__all__ = ["configurations", "from_ase", "iter_ase", "of_record", "prepared", "tells_steps", "to_ase"]

Source = TypeVar("Source", Record, Collection, Record | Collection)
_STAMPS = frozenset({"molrec_version", "creator"})


def configurations(source: Record | Collection, report: Report) -> Iterator[tuple[Configuration, dict[str, Any]]]:
    """Yield each frame, with what the meta of its record says beside its version and creator."""
    if isinstance(source, Record):
        yield from of_record(source, report)
        return
    several = False
    for number, record in enumerate(source):
        for count, entry in enumerate(of_record(record, report, f"record {number}", units=source.units)):
            several = several or count > 0
            yield entry
    if several:
        report.converted("records", "a row for each frame: which frames belong to one record is not told")


def of_record(
    record: Record, report: Report, where: str = "", start: int = 0, stop: int | None = None, step: int = 1,
    units: Any = None,
) -> Iterator[tuple[Configuration, dict[str, Any]]]:  # fmt: skip
    """Yield the frames of one record; without a trajectory its section `frame`, or its system.

    `units` are those of its collection, which hold where it states none.
    """
    trajectory = record.trajectory
    blocks = ["atoms"] if trajectory is None else atom_blocks(trajectory.declaration)
    maker = Maker(record, units_object(record.units or units), blocks, report)
    meta = {key: value for key, value in record.meta.items() if key not in _STAMPS}
    if trajectory is None:
        if record.frame is None and record.system is None:
            raise UsageError(f"{where or 'the record'} has no atoms")
        yield maker.make(record.system, record.frame, where=where), meta
        return
    fills = {key: None if entry.fill is NO_FILL else entry.fill for key, entry in trajectory.declaration.meta.items()}
    if (start, stop, step) != (0, None, 1):
        trajectory = trajectory[slice(start, stop, step)]
    for frame in trajectory:
        yield maker.make(record.system, frame, fills=fills, where=where), meta


def tells_steps(record: Record) -> bool:
    """True if the frames of a record have other step numbers than their own."""
    if record.trajectory is None:
        return False
    steps = record.trajectory.steps
    return not bool((steps == np.arange(len(steps))).all())


def prepared(source: Source, elements: str | Sequence[str], report: Report) -> Source:
    """Return the record or collection in ASE's units, with the elements named for its types, as a conversion prepares
    it.
    """
    told = with_elements(source, elements, report=report)
    made: Source = for_target(told, ASE_DB, None, None, report)  # type: ignore[assignment]
    return made


def to_ase(record: Record, index: int = -1, *, elements: Sequence[str] = (), report: Report | None = None) -> Any:
    """Return a frame of a record as `ase.Atoms`, in ASE's units; see `Record.to_ase`."""
    report = Report() if report is None else report
    trajectory = record.trajectory
    count = 1 if trajectory is None else len(trajectory)
    number = index + count if index < 0 else index
    if not 0 <= number < count:
        raise IndexError(f"frame {index} of a record of {count}")
    return next(_atoms(record, elements, report, number, number + 1, 1))


def iter_ase(
    trajectory: Trajectory | None,
    record: Record | None = None,
    *,
    elements: Sequence[str] = (),
    report: Report | None = None,
) -> Iterator[Any]:
    """Yield the frames of a trajectory, or of a record, as `ase.Atoms`, one after another; see
    `Trajectory.iter_ase`.
    """
    if record is None:
        assert trajectory is not None
        record = Record(system=trajectory.system, trajectory=trajectory)
    yield from _atoms(record, elements, Report() if report is None else report, 0, None, 1)


def from_ase(atoms: Any, as_: Arrangement | None = None, *, report: Report | None = None) -> Record | Collection:
    """Return a record of `ase.Atoms`, a record or a collection of several; see `molrec_convert.from_ase`."""
    from ase import Atoms

    if as_ is not None and as_ not in ARRANGEMENTS:
        raise UsageError(f"atoms cannot be taken as {as_!r}; there are {', '.join(ARRANGEMENTS)}")
    report = Report() if report is None else report
    images = [atoms] if isinstance(atoms, Atoms) else list(atoms)
    for number, image in enumerate(images):
        if not isinstance(image, Atoms):
            raise UsageError(f"atoms are ase.Atoms, number {number} is {type(image).__name__}")
    steps, times = _counted(images, "step", int), _counted(images, "time", float)
    if isinstance(atoms, Atoms):
        as_ = as_ or "trajectory"
    elif as_ is None:
        first = images[0].numbers.tolist() if images else []
        as_ = "trajectory" if all(image.numbers.tolist() == first for image in images) else "collection"
    if steps is not None and (0 in steps if as_ == "collection" else steps == list(range(len(steps)))):
        # a record whose frames are merely counted does not tell that somebody said so: it stays a key
        steps = None

    def make(number: int) -> Any:
        image = images[number]
        taken = [key for key, found in (("step", steps), ("time", times)) if found is not None]
        if taken:
            image = image.copy()
            image.calc = images[number].calc
            for key in taken:
                del image.info[key]
        part = part_of_atoms(image, report)
        part.step = None if steps is None else steps[number]
        part.time = None if times is None else times[number]
        return part

    try:
        return arranged(PartSource(len(images), make), as_)
    except ContractError:
        raise
    except ValueError as error:
        raise UsageError(f"the atoms cannot be one {as_}: {error}; take fewer, or as_='collection'") from None


def _atoms(
    record: Record, elements: Sequence[str], report: Report, start: int, stop: int | None, step: int
) -> Iterator[Any]:
    told = tells_steps(record)
    for made, _ in of_record(prepared(record, elements, report), report, "", start, stop, step):
        yield atoms_of(made, step=made.step if told else None, time=made.time)


def _counted(images: list[Any], key: str, kind: type) -> list[Any] | None:
    """Return what `info` says of all images under a key, where it ascends as steps and times do."""
    found = [image.info.get(key) for image in images]
    if not found or not all(type(value) is kind for value in found):
        return None
    return found if all(a < b for a, b in itertools.pairwise(found)) else None
