"""What the index says of a record: formula, counts of elements, energy, where it is from, keys that are asked for."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from molrec_convert.errors import ContractError
from molrec_convert.migration.settings import Settings
from molrec_convert.model import FrameBatch, Record, Trajectory
from molrec_convert.model.collection.index import INDEX_COLUMNS, derived_value
from molrec_convert.model.trajectory import MappedTrajectory, MemoryTrajectory
from molrec_convert.quantities.elements import SYMBOLS

__all__ = ["COUNT_PREFIX", "ENERGIES", "GROUP", "Observed", "energy_of", "formula", "index_value", "observe"]

#: Columns every migrated collection has.
COLUMNS = ("formula", "energy", "source", "source_record")
#: The column of `--group-by`, and what the number of atoms of an element is called.
GROUP, COUNT_PREFIX = "molecule_id", "n_"
#: Per-step keys that are the energy, the first that there is.
ENERGIES = ("pe", "energy")


class Observed:
    """What is seen of the frames of one record on their way: the first elements, the last per-step values."""

    def __init__(self) -> None:
        self.elements: list[str] | None = None
        self.last: dict[str, Any] = {}

    def see(self, batch: FrameBatch) -> None:
        """Look at a batch."""
        if self.elements is None and "atoms" in batch.blocks and len(batch.blocks["atoms"].frames):
            updates = batch.blocks["atoms"]
            rows = updates.rows_of(0)
            self.elements = _elements({key: values[rows] for key, values in updates.columns.items()})
        if batch.n_frames:
            self.last = {key: values[-1] for key, values in batch.meta.items()}


def observe(trajectory: Trajectory, observed: Observed) -> Trajectory:
    """The trajectory, whose batches `observed` sees as they pass. Of one frame it is one in memory afterwards."""
    if type(trajectory) is not MemoryTrajectory and trajectory.n_frames == 1 and not trajectory.attributes:
        batches = list(trajectory.batches())
        if len(batches) == 1:
            trajectory = MemoryTrajectory.of_batch(
                batches[0], trajectory.declaration, cell_defined=trajectory.cell_defined
            )
    if type(trajectory) is MemoryTrajectory:
        observed.see(trajectory._batch)
        return trajectory

    def watched(batch: FrameBatch) -> FrameBatch:
        observed.see(batch)
        return batch

    return MappedTrajectory(trajectory, watched)


def index_value(
    record: Record, observed: Observed, own: Mapping[str, Any], source: str, number: int, settings: Settings
) -> dict[str, Any]:
    """One record's row as a document: `columns` by name, and `elements` with the number of each, None if unknown."""
    system = record.system
    elements = None
    if system is not None and "atoms" in system.blocks:
        block = system.blocks["atoms"]
        elements = _elements({key: block.stored(key) for key in ("element", "atomic_number") if key in block.columns})
    counts = _counted(observed.elements if elements is None else elements)
    columns: dict[str, Any] = {
        "formula": None if counts is None else _formula(tuple(counts.items())),
        "energy": energy_of(observed.last),
        "source": source,
        "source_record": number,
    }
    for key in settings.index:
        value = _plain(key, _value(key, record, observed, own, columns))
        columns[key] = _count(key, counts) if value is None else value
    if settings.group_by is not None:
        value = _value(settings.group_by, record, observed, own, columns)
        if value is None:
            why = ""
            if settings.group_by in settings.drop:
                why = ", as --drop leaves it out"
            elif settings.group_by == "formula":
                why = ", as its elements are not known (see --elements)"
            rule = "--group-by names a key the record does not have"
            raise ContractError(f"index/{GROUP}", rule, found=f"no {settings.group_by}{why}")
        columns[GROUP] = str(_plain(settings.group_by, value))
    return {"columns": columns, "elements": counts}


def energy_of(values: Mapping[str, Any]) -> float | None:
    """The energy among per-step values."""
    energy = next((values[key] for key in ENERGIES if key in values), None)
    return None if energy is None or not np.isreal(energy) else float(energy)


def formula(counts: Mapping[str, int]) -> str:
    """The formula in Hill's order: carbon, hydrogen, the others by name; all by name without carbon."""
    first = [name for name in ("C", "H") if name in counts] if "C" in counts else []
    names = [*first, *sorted(name for name in counts if name not in first)]
    return "".join(f"{name}{counts[name] if counts[name] > 1 else ''}" for name in names)


@functools.lru_cache(4096)
def _formula(counts: tuple[tuple[str, int], ...]) -> str:
    return formula(dict(counts))


def check_index_names(settings: Settings) -> Iterator[str]:
    """Names of index columns that are asked for and there anyway."""
    taken = {*INDEX_COLUMNS, *COLUMNS, GROUP}
    return (name for name in settings.index if name in taken)


def _value(key: str, record: Record, observed: Observed, own: Mapping[str, Any], columns: Mapping[str, Any]) -> Any:
    """What a record says under a key: in its source's index, per step (the last frame), in the meta of its system."""
    if key in own:
        return own[key]
    if key in observed.last:
        return observed.last[key]
    found = derived_value(record, key)
    if found is None and key == "directory":
        return str(columns["source"]).rpartition("/")[0] or "."
    return columns.get(key) if found is None else found


def _count(key: str, counts: Mapping[str, int] | None) -> int | None:
    """What a column of that name is where the record says nothing of its own under it: the number of an element."""
    symbol = key.removeprefix(COUNT_PREFIX)
    if counts is None or symbol == key:
        return None
    return counts.get(symbol, 0 if symbol in SYMBOLS else None)


def _plain(key: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ContractError(f"index/{key}", "an index column holds one plain value per record", found=type(value).__name__)


def _elements(columns: Mapping[str, Any]) -> list[str] | None:
    if "element" in columns:
        names: list[str] = columns["element"].tolist()
        return names
    if "atomic_number" in columns:
        numbers = columns["atomic_number"].tolist()
        if all(0 <= number < len(SYMBOLS) for number in numbers):
            return [SYMBOLS[number] for number in numbers]
    return None


def _counted(elements: list[str] | None) -> dict[str, int] | None:
    if elements is None:
        return None
    counts = dict(Counter(elements))
    return counts if all(map(str.isalpha, counts)) else None
