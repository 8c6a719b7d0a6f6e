"""A record of a store: its force field, observables and metrics are read when they are asked for.

Source: Record, "Root and sections".
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Frame
from molrec_convert.model.record import Record
from molrec_convert.model.results.metrics import Metrics
from molrec_convert.model.results.observables import Observables
from molrec_convert.stores.zarr.sections.frames import read_tables
from molrec_convert.stores.zarr.sections.metrics import has_metrics, read_metrics
from molrec_convert.stores.zarr.sections.observables import read_observables
from molrec_convert.stores.zarr.sections.stored_frame import StoredColumn, StoredFrame
from molrec_convert.stores.zarr.sections.unknown import KnownNodes
from molrec_convert.stores.zarr.v3.storage import Storage, read_document

__all__ = ["LateSections", "StoredRecord", "frame_nodes"]

T = TypeVar("T")


class LateSections:
    """The sections of a store that a record reads on demand, each once."""

    def __init__(self, storage: Storage, molrec_version: int | None) -> None:
        self._storage, self._version = storage, molrec_version
        self._readers: dict[str, Callable[[], tuple[Any, KnownNodes]]] = {}
        if read_document(storage, "forcefield") is not None:
            self._readers["forcefield"] = functools.cache(self._read_forcefield)
        if read_document(storage, "observables") is not None:
            self._readers["observables"] = functools.cache(lambda: read_observables(storage))
        if has_metrics(storage):
            self._readers["metrics"] = functools.cache(lambda: read_metrics(storage))

    def readers(self) -> dict[str, Callable[[], Any]]:
        """What reads each section that is there."""
        return {name: functools.partial(_first, reader) for name, reader in self._readers.items()}

    def nodes(self) -> KnownNodes:
        """The nodes these sections consist of."""
        known = KnownNodes()
        for reader in self._readers.values():
            known.add(reader()[1])
        return known

    def _read_forcefield(self) -> tuple[ForceField, KnownNodes]:
        document, frame = read_tables(self._storage)
        forcefield = ForceField.from_parts(
            document, frame.blocks, molrec_version=self._version, attributes=frame.attributes
        )
        return forcefield, frame_nodes(frame, "forcefield")


class StoredRecord(Record):
    """A record whose force field, observables and metrics are read, and checked, on first use."""

    def read_later(self, readers: dict[str, Callable[[], Any]]) -> None:
        """Say what reads the sections that are there."""
        self.__dict__["_later"] = dict(readers)

    @property
    def forcefield(self) -> ForceField | None:
        """The force field; `ContractError` for one that breaks a rule."""
        forcefield: ForceField | None = self._section("forcefield", ForceField.check)
        return forcefield

    @forcefield.setter
    def forcefield(self, forcefield: ForceField | None) -> None:
        self._set("forcefield", forcefield)

    @property
    def observables(self) -> Observables | None:
        """The observables by name."""
        observables: Observables | None = self._section("observables")
        return observables

    @observables.setter
    def observables(self, observables: Observables | None) -> None:
        self._set("observables", observables)

    @property
    def metrics(self) -> Metrics | None:
        """The curves of a run by key."""
        metrics: Metrics | None = self._section("metrics")
        return metrics

    @metrics.setter
    def metrics(self, metrics: Metrics | None) -> None:
        self._set("metrics", metrics)

    def _section(self, name: str, check: Callable[[Any], None] | None = None) -> Any:
        later = self.__dict__.get("_later", {})
        if name in later:
            section = later[name]()
            if check is not None:
                check(section)
            self._set(name, section)
        return self.__dict__.get(f"_{name}")

    def _set(self, name: str, section: Any) -> None:
        self.__dict__.get("_later", {}).pop(name, None)
        self.__dict__[f"_{name}"] = section

    def _has(self, section: str) -> bool:
        return section in self.__dict__.get("_later", {}) or super()._has(section)


def frame_nodes(frame: Frame, section: str) -> KnownNodes:
    """The nodes of a frame-shaped section; everything else below it is unknown content."""
    known = KnownNodes(groups={section})
    for name, block in frame.blocks.items():
        known.groups |= {f"{section}/{name}", f"{section}/{name}/_validity"}
        for key, column in block.columns.items():
            known.arrays.add(f"{section}/{name}/{key}")
            if isinstance(column, StoredColumn) and column.nullable:
                known.arrays.add(f"{section}/{name}/_validity/{key}")
    if isinstance(frame, StoredFrame) and frame.cell is not None:
        known.groups.add(f"{section}/box")
        known.arrays |= {f"{section}/box/{part}" for part in ("vectors", "origin", "boundary")}
    return known


def _first(reader: Callable[[], tuple[T, KnownNodes]]) -> T:
    return reader()[0]
