"""Quantities of a record by name: in any unit, form and sign, for all frames or some; what is missing is missing.

Where a quantity comes from is settled here, once, in the order of `molrec_convert.quantities.standard`: an element from
`element`, `atomic_number` (`Z`), or the force field's table of types; a stress from `stress`, `virial` or the pressure
tensor; never from type numbers, labels or masses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.model.batch import BlockUpdates
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.record import Record
from molrec_convert.model.trajectory import Trajectory
from molrec_convert.quantities.dimensions import unit_of_dimension, units_object, units_words
from molrec_convert.quantities.elements import NUMBERS, SYMBOLS
from molrec_convert.quantities.standard import FORMS, QUANTITIES, Quantity, full_tensor, quantity_named, tensor_as
from molrec_convert.quantities.units import conversion_factor, nearest_quantity, nearest_unit, size_of

__all__ = [
    "AtomRows",
    "atom_blocks",
    "atom_rows",
    "cell_volumes",
    "quantity",
    "quantity_batches",
    "symbols_of_numbers",
    "type_elements",
]

_ATOMS = "atoms"
Sign = Literal["tension", "compression"]
Frames = int | slice | None
#: Blocks and columns that say what element an atom is, in order.
_ELEMENTS = ("element", "atomic_number", "Z")


@dataclass
class AtomRows:
    """Columns of the atoms of some consecutive frames: `offset` int64[n+1] bounds the rows of each frame.

    `columns` hold the rows as they are stored, `validity` bool[rows] the masks of those that have one.
    """

    offset: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]
    validity: dict[str, NDArray[np.bool_]]


def quantity(
    record: Record,
    name: str,
    *,
    units: str | None = None,
    form: str | None = None,
    sign: Sign = "tension",
    frames: Frames = None,
) -> NDArray[Any] | None:
    """Return a quantity of a record, None where the record does not have it.

    Shapes: [atoms, …] of what never changes and of a single frame (`frames` a number), [frames, atoms, …] else;
    [frames, …] and […] of a value per frame. The last axis is 3 for vectors, 4 for orientations; tensors are 3×3, or
    six numbers with `form` "voigt" (xx yy zz yz xz xy) or "lammps" (xx yy zz xy xz yz). `sign="compression"` turns the
    sign of a stress, which is positive under tension by default.

    `units` is the unit wanted ("eV"). What is missing is NaN in reals, masked (`numpy.ma`) in anything else.
    Raises UsageError for a name that is no quantity, or frames of different numbers of atoms (`quantity_batches` has
    those), a unit that is none or has another dimension; UnsupportedError for a unit the record does not state.
    """
    single = isinstance(frames, (int, np.integer))
    parts = list(quantity_batches(record, name, units=units, form=form, sign=sign, frames=frames))
    if not parts:
        return None
    if parts[0][1] is None:
        whole = _joined([values for values, _ in parts])
        return whole[0] if single or record.trajectory is None or _is_static(record, name) else whole
    counts = np.concatenate([np.diff(offset) for _, offset in parts if offset is not None])
    rows = _joined([values for values, _ in parts])
    if len(counts) and (counts != counts[0]).any():
        raise UsageError(
            f"{name} has {counts.min()} to {counts.max()} rows, as the number of atoms changes from frame to frame: "
            "quantity_batches gives it with row offsets"
        )
    if single or _is_static(record, name):
        return rows
    shaped: NDArray[Any] = rows.reshape(len(counts), int(counts[0]) if len(counts) else 0, *rows.shape[1:])
    return shaped


def quantity_batches(
    record: Record,
    name: str,
    *,
    units: str | None = None,
    form: str | None = None,
    sign: Sign = "tension",
    frames: Frames = None,
) -> Iterator[tuple[NDArray[Any], NDArray[np.int64] | None]]:
    """Yield a quantity batch by batch, in bounded memory; nothing where the record does not have it.

    Of the atoms: rows of consecutive frames, and int64[n+1] offsets that bound each frame's. Of a value per frame:
    [n, …] and None. What never changes is one batch of one frame. Arguments and errors are those of `quantity`.
    """
    entry = quantity_named(name)
    if entry is None:
        near = nearest_quantity(name, list(QUANTITIES))
        hint = f"did you mean {near}?" if near else f"there are {', '.join(QUANTITIES)}"
        raise UsageError(f"{name!r} is no quantity; {hint}")
    if form is not None and (entry.turning != "tensor" or form not in (*FORMS, "full")):
        raise UsageError(f"{name} has no form {form!r}; tensors have full, {', '.join(FORMS)}")
    factor = _factor(record, entry, units)
    if entry.name in ("element", "atomic_number"):
        yield from _elements(record, frames, as_numbers=entry.name == "atomic_number")
        return
    parts = _stresses(record, frames) if entry.name == "stress" else _plain(record, entry, frames)
    for values, offset in parts:
        if entry.turning == "tensor":
            values = tensor_as(full_tensor(values), form or "full")
        factors = factor * (-1.0 if sign == "compression" and "stress" in entry.name else 1.0)
        yield (values * factors if factors != 1.0 else values), offset


def atom_rows(trajectory: Trajectory, names: tuple[str, ...], frames: Frames = None) -> Iterator[AtomRows]:
    """Yield columns of the atoms, wherever the trajectory has them: in `atoms`, or in blocks aligned with it.

    Blocks that a frame does not present are those of the frame before. Nothing where a column is not declared.
    """
    where = _places(trajectory.declaration, names)
    if where is None:
        return
    start, stop, step = _bounds(trajectory, frames)
    carried: dict[str, BlockUpdates] = {}
    wanted = [f"{block}/{name}" for name, block in where.items()]
    for batch in trajectory.batches(start, stop, step, wanted):
        found = AtomRows(np.zeros(batch.n_frames + 1, np.int64), {}, {})
        for block in dict.fromkeys(where.values()):
            updates = _with_carried(carried.get(block), batch.blocks.get(block))
            if updates is None:
                continue
            carried[block] = _last(updates)
            which = np.searchsorted(updates.frames, np.arange(batch.n_frames), side="right") - 1
            rows, found.offset = _gather(updates, which)
            for name, own in where.items():
                if own == block:
                    found.columns[name] = updates.columns[name][rows]
                    if name in updates.validity:
                        found.validity[name] = updates.validity[name][rows]
        if len(found.columns) == len(where):
            yield found


def _factor(record: Record, entry: Quantity, units: str | None) -> float:
    if units is None:
        return 1.0
    own = units_object(record.units)
    if entry.dimension in ("", "temperature"):
        raise UsageError(f"{entry.name} has no unit to choose, found {units!r}")
    text = unit_of_dimension(entry.dimension, own)
    if text is None:
        raise UnsupportedError(
            f"the record states {units_words(own) or 'no units'}, and no unit of {entry.name}: it cannot be given in "
            f"{units}"
        )
    factor = conversion_factor(text, units)
    if factor is None:
        near = nearest_unit(entry.dimension, units)
        text = re.sub(r"\(([\w/]+)\)$", r"\1", re.sub(r"\((\w+)\)", r"\1", text))
        if size_of(units) is not None:
            raise UsageError(f"{entry.name} is in {text}, which cannot be converted to {units}")
        hint = "" if near == entry.dimension else f"; did you mean {near}?"
        raise UsageError(f"{units!r} is no unit, and {entry.name} is in {text}{hint}")
    return factor


def _is_static(record: Record, name: str) -> bool:
    """True if a quantity is said once for all frames."""
    entry = quantity_named(name)
    trajectory = record.trajectory
    if trajectory is None or entry is None:
        return True
    if entry.name in ("element", "atomic_number"):
        return all(_places(trajectory.declaration, (own,)) is None for own in _ELEMENTS)
    if entry.name == "stress":
        declared = trajectory.declaration.meta
        return not ({"stress", "virial", "pressure_tensor"} & declared.keys())
    if entry.key is not None:
        return entry.key not in trajectory.declaration.meta
    return _places(trajectory.declaration, entry.columns) is None


def _plain(record: Record, entry: Quantity, frames: Frames) -> Iterator[tuple[NDArray[Any], NDArray[np.int64] | None]]:
    if entry.key is not None:
        for values in _values(record, entry.key, frames):
            yield values, None
        return
    for rows in _rows(record, entry.columns, frames):
        columns = [_shown(rows.columns[name], rows.validity.get(name)) for name in entry.columns]
        yield columns[0] if len(columns) == 1 else _stacked(columns), rows.offset


def _rows(record: Record, names: tuple[str, ...], frames: Frames) -> Iterator[AtomRows]:
    """Yield columns of the atoms from where the record has them: the trajectory, the frame, the system."""
    trajectory = record.trajectory
    if trajectory is not None and _places(trajectory.declaration, names) is not None:
        yield from atom_rows(trajectory, names, frames)
        return
    for section in (record.frame, record.system):
        block = None if section is None else section.blocks.get(_ATOMS)
        if block is not None and all(name in block.columns for name in names):
            masks = {name: block.columns[name].validity for name in names}
            yield AtomRows(
                np.array([0, block.count], np.int64),
                {name: block.columns[name].values for name in names},
                {name: mask for name, mask in masks.items() if mask is not None},
            )
            return


def _values(record: Record, key: str, frames: Frames) -> Iterator[NDArray[Any]]:
    """Yield the values of a per-step key, [n, …]; of a record without a trajectory the frame's, or the system's."""
    trajectory = record.trajectory
    if trajectory is not None and key in trajectory.declaration.meta:
        entry = trajectory.declaration.meta[key]
        start, stop, step = _bounds(trajectory, frames)
        for batch in trajectory.batches(start, stop, step, ()):
            values = batch.meta.get(key)
            if values is None:
                values = [entry.fill] * batch.n_frames
            yield values if isinstance(values, np.ndarray) else _of_documents(values)
        return
    for section in (record.frame, record.system):
        if section is not None and key in section.meta:
            yield _of_documents([section.meta[key]])
            return


def _stresses(record: Record, frames: Frames) -> Iterator[tuple[NDArray[Any], None]]:
    """Yield stresses [n, 3, 3], positive under tension: stated, or from the virial and the cell, or the pressure."""
    found = False
    for values in _values(record, "stress", frames):
        found = True
        yield full_tensor(values), None
    if found:
        return
    volumes = _volumes(record, frames)
    for values in _values(record, "virial", frames):
        found = True
        volume = next(volumes, None)
        if volume is None:
            raise UnsupportedError("the record has a virial and no cell, so a stress does not follow from it")
        yield -full_tensor(values) / volume[:, None, None], None
    if found:
        return
    own = units_object(record.units)
    pressure, stress = (unit_of_dimension(text, own) for text in ("pressure", "energy/length**3"))
    factor = None if pressure is None or stress is None else conversion_factor(pressure, stress)
    for values in _values(record, "pressure_tensor", frames):
        if factor is None:
            raise UnsupportedError("the record states no unit of pressure, so a stress does not follow from it")
        yield -full_tensor(values) * factor, None


def _volumes(record: Record, frames: Frames) -> Iterator[NDArray[np.float64]]:
    """Yield the volume of the cell of each frame, batch by batch, as `_values` yields per-step keys."""
    trajectory = record.trajectory
    if trajectory is None:
        boxes = [s.box for s in (record.frame, record.system) if s is not None and s.box is not None and s.box.defined]
        if boxes:
            yield cell_volumes(boxes[0].vectors[None])
        return
    last: NDArray[np.float64] | None = None
    start, stop, step = _bounds(trajectory, frames)
    for batch in trajectory.batches(start, stop, step, ()):
        vectors = np.zeros((0, 3, 3)) if batch.box is None else batch.box.vectors
        places = np.zeros(0, np.int64) if batch.box is None else batch.box.frames
        if last is not None:
            vectors, places = np.concatenate([last[None], vectors]), np.concatenate([[-1], places])
        if not len(vectors) or not trajectory.cell_defined:
            return
        last = vectors[-1]
        which = np.searchsorted(places, np.arange(batch.n_frames), side="right") - 1
        yield cell_volumes(vectors)[which]


def cell_volumes(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the volumes of cells f64[n, 3, 3], whose vectors are columns."""
    a, b, c = (vectors[:, :, axis] for axis in range(3))
    volumes: NDArray[np.float64] = np.abs((a * np.cross(b, c)).sum(axis=1))
    return volumes


def _elements(record: Record, frames: Frames, *, as_numbers: bool) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    for name in _ELEMENTS:
        found = False
        for rows in _rows(record, (name,), frames):
            found = True
            values, mask = rows.columns[name], rows.validity.get(name)
            if (name == "element") == as_numbers:
                values, mask = _numbers(values, mask) if as_numbers else symbols_of_numbers(values, mask)
            yield _shown(values, mask), rows.offset
        if found:
            return
    table = type_elements(record)
    if not table:
        return
    for rows in _rows(record, ("type",), frames):
        words, codes = np.unique(rows.columns["type"], return_inverse=True)
        symbols = [table.get(str(word), "") for word in words]
        values = np.array(symbols, np.dtypes.StringDType())[codes.reshape(-1)]
        mask = np.array([bool(symbol) for symbol in symbols])[codes.reshape(-1)]
        if as_numbers:
            values, mask = _numbers(values, mask)
        yield _shown(values, mask), rows.offset


def type_elements(record: Record) -> dict[str, str]:
    """Return the element of each type, as the atom tables of the force field state it."""
    found: dict[str, str] = {}
    for name, table in ({} if record.forcefield is None else record.forcefield.tables).items():
        if name.partition(".")[0] == "atom" and {"name", "element"} <= table.columns.keys():
            column = table.columns["element"]
            valid = np.ones(table.count, np.bool_) if column.validity is None else column.validity
            pairs = zip(table.columns["name"].values.tolist(), column.values.tolist(), valid.tolist(), strict=True)
            found |= {label: symbol for label, symbol, there in pairs if there and symbol in NUMBERS}
    return found


def _numbers(values: NDArray[Any], mask: NDArray[np.bool_] | None) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return atomic numbers of symbols; one that is no element's is missing."""
    words, codes = np.unique(values, return_inverse=True)
    numbers = np.array([NUMBERS.get(str(word), 0) for word in words], np.uint64)[codes.reshape(-1)]
    known = numbers > 0
    return numbers, known if mask is None else known & mask


def symbols_of_numbers(
    values: NDArray[Any], mask: NDArray[np.bool_] | None
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return the symbols of atomic numbers, and which are there: 0 and what is no element's is missing."""
    numbers = values.astype(np.int64)
    known = (numbers > 0) & (numbers < len(SYMBOLS))
    symbols = np.array(SYMBOLS, np.dtypes.StringDType())[np.where(known, numbers, 0)]
    return symbols, known if mask is None else known & mask


def _places(declaration: Declaration, names: tuple[str, ...]) -> dict[str, str] | None:
    """Return the block of the trajectory that has each column of the atoms, None where one is in none."""
    found: dict[str, str] = {}
    for block in atom_blocks(declaration):
        columns = declaration.blocks[block].columns
        found |= {name: block for name in names if name in columns and name not in found}
    return found if len(found) == len(names) else None


def atom_blocks(declaration: Declaration) -> list[str]:
    """Return the blocks of a trajectory that have a row for each atom: `atoms` and those aligned with it."""
    aligned = (_ATOMS, f"/system/{_ATOMS}")
    return [name for name, entry in declaration.blocks.items() if name == _ATOMS or entry.aligned_with in aligned]


def _bounds(trajectory: Trajectory, frames: Frames) -> tuple[int, int | None, int]:
    if frames is None:
        return 0, None, 1
    if isinstance(frames, slice):
        if trajectory.n_frames is None:
            return frames.start or 0, frames.stop, frames.step or 1
        return frames.indices(trajectory.n_frames)
    if not isinstance(frames, (int, np.integer)):
        raise UsageError(f"frames are a number, a slice, or None for all, found {frames!r}")
    index = int(frames)
    if index < 0 and trajectory.n_frames is not None:
        index += trajectory.n_frames
    if index < 0 or (trajectory.n_frames is not None and index >= trajectory.n_frames):
        raise IndexError(f"frame {frames} of a trajectory of {trajectory.n_frames}")
    return index, index + 1, 1


def _with_carried(before: BlockUpdates | None, updates: BlockUpdates | None) -> BlockUpdates | None:
    """Return the updates of a batch behind the one that was in force, at position -1."""
    if before is None or updates is None:
        return before if updates is None else updates
    if len(updates.frames) and updates.frames[0] == 0:
        return updates
    rows = int(before.offset[-1])
    return BlockUpdates(
        np.concatenate([before.frames, updates.frames]),
        np.concatenate([before.offset[:-1], updates.offset + rows]),
        {name: np.concatenate([before.columns[name], values]) for name, values in updates.columns.items()},
        {name: np.concatenate([before.validity[name], mask]) for name, mask in updates.validity.items()},
    )


def _last(updates: BlockUpdates) -> BlockUpdates:
    rows = updates.rows_of(len(updates.frames) - 1)
    return BlockUpdates(
        np.array([-1], np.int64),
        np.array([0, rows.stop - rows.start], np.int64),
        {name: values[rows] for name, values in updates.columns.items()},
        {name: mask[rows] for name, mask in updates.validity.items()},
    )


def _gather(updates: BlockUpdates, which: NDArray[np.int64]) -> tuple[Any, NDArray[np.int64]]:
    """Return the rows of the update each frame has, and the offsets of the frames in them."""
    counts = np.diff(updates.offset)[which]
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if len(which) == len(updates.frames) and (which == np.arange(len(which))).all():
        return slice(None), offset
    starts = np.repeat(updates.offset[:-1][which] - offset[:-1], counts)
    return starts + np.arange(offset[-1]), offset


def _shown(values: NDArray[Any], mask: NDArray[np.bool_] | None) -> NDArray[Any]:
    """Return values with what is missing as NaN in reals, masked in anything else."""
    if mask is None or bool(mask.all()):
        return values
    if values.dtype.kind in "fc":
        wide = mask.reshape(mask.shape + (1,) * (values.ndim - 1))
        return np.where(wide, values, np.nan)
    masked = np.repeat(~mask, int(np.prod(values.shape[1:]))).reshape(values.shape)
    return np.ma.MaskedArray(values, masked)


def _stacked(columns: list[NDArray[Any]]) -> NDArray[Any]:
    stacked: NDArray[Any] = (np.ma if any(map(np.ma.isMaskedArray, columns)) else np).stack(columns, axis=1)
    return stacked


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    joined: NDArray[Any] = (np.ma if any(map(np.ma.isMaskedArray, parts)) else np).concatenate(parts)
    return joined


def _of_documents(values: list[Any]) -> NDArray[Any]:
    """Return values of a meta document as an array; of reals with None where there are none as NaN."""
    if all(value is None or isinstance(value, (int, float, list)) for value in values):
        width = next((np.shape(value) for value in values if value is not None), ())
        missing = np.full(width, np.nan)
        return np.array([missing if value is None else value for value in values], np.float64)
    return np.array(values)
