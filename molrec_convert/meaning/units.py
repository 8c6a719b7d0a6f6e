"""Records and collections in other units: every number of known dimension, so that never two units stand in one.

A view multiplies the batches of a trajectory as they pass; nothing is read early. What has no known dimension is named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection as Names
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.meaning.mapped import MappedCollection, converted_force_field
from molrec_convert.model.batch import BlockUpdates, FrameBatch
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.member import collection_units
from molrec_convert.model.declaration import NO_FILL, Declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Column, Frame
from molrec_convert.model.record import Record
from molrec_convert.model.results.metrics import Metrics, Series
from molrec_convert.model.results.observables import Observable, Observables
from molrec_convert.model.tags import Meta
from molrec_convert.model.trajectory import MappedTrajectory, Trajectory
from molrec_convert.plugins import plugin_manager, style_registry
from molrec_convert.quantities.dimensions import (
    BASES,
    DERIVED,
    parse_dimensions,
    unit_of_dimension,
    units_object,
    units_words,
    written_out,
)
from molrec_convert.quantities.standard import NamedFactors
from molrec_convert.quantities.units import same_unit
from molrec_convert.report import Report

__all__ = ["Scaling", "UnitsCollection", "in_units", "target_units"]


def target_units(source: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the units asked for, those of quantities that are not named filled in from the source.

    A derived quantity whose unit follows from the others in the source (force) goes on to do so.
    """
    if "preset" in asked:
        return dict(asked)
    kept = written_out(source)
    bases = {name: text for name, text in kept.items() if name not in DERIVED}
    for name, made_of in DERIVED.items():
        if name in kept and name not in asked:
            follows = unit_of_dimension(made_of, bases)
            if follows is not None and same_unit(follows, kept[name]):
                del kept[name]
    return {**kept, **asked}


def stated_units(source: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """Return the target units without those of base quantities the source does not state, whose numbers stay open."""
    stated, wanted = written_out(source), written_out(target)
    silent = {name for name in wanted if name in BASES and name not in stated} - {"angle"}
    return {name: text for name, text in wanted.items() if name not in silent} if silent else dict(target)


def in_units(
    source: Record | Collection,
    asked: Mapping[str, Any],
    *,
    dimensions: Mapping[str, str] | None = None,
    report: Report | None = None,
    strict: bool = True,
    leave: Names[str] = (),
) -> Record | Collection:
    """Return a record or collection whose numbers are in the units asked for, a `units` object (`{"preset": "metal"}`).

    `dimensions` gives those of names that have none by themselves ("gap" or "atoms/gap" → "energy", "" for a pure
    number). With `strict` a number of unknown dimension is an UnsupportedError that names all of them; without it they
    are left as they are, and the report warns. `leave` are sections that keep their units, as nobody reads them, or
    whoever does converts them: "forcefield", "metrics", "observables", and "meta", the keys of frames.

    Raises UnsupportedError where the source states no units or reduced ones, or a unit has no way to the other.
    """
    report = Report() if report is None else report
    own = units_object(source.units)
    if not own:
        raise UnsupportedError(
            "the source does not state its units, so nothing can be converted: name them with --units when it is read"
        )
    if "lj" in (own.get("preset"), asked.get("preset")) and own != dict(asked):
        raise UnsupportedError(
            f"units {units_words(own)} cannot be converted to units {units_words(asked)}: reduced units need a length, "
            "an energy and a mass that nothing states"
        )
    if own == dict(asked):
        return source
    wanted = target_units(own, asked)
    scaling = Scaling(NamedFactors(own, wanted, parse_dimensions(dimensions or {})), wanted, report, leave)
    if isinstance(source, Record):
        made: Record | Collection = scaling.record(source)
    else:
        made = UnitsCollection(source, scaling)
    scaling.tell(report, strict=strict)
    idle = sorted(scaling.conversion.idle)
    if idle and isinstance(source, Record):  # records of a collection are met one by one, later
        report.warn(f"--dimension {', '.join(idle)}: there are no numbers of that name")
    return made


class Scaling:
    """Multiplies everything a record holds by the factors of one conversion of units."""

    def __init__(
        self,
        conversion: NamedFactors,
        units: Mapping[str, Any],
        report: Report | None = None,
        leave: Names[str] = (),
    ) -> None:
        self.conversion, self.leave = conversion, frozenset(leave)
        self.report = Report() if report is None else report
        self.units = stated_units(conversion.source, units)
        self.changes = conversion.changes
        self._known: dict[tuple[str | None, str], float] = {}
        #: Names whose dimension is not known, in order of their appearance, with the block and name of each.
        self.unknown: dict[str, tuple[str | None, str]] = {}
        #: What is of a known dimension whose unit the source does not state.
        self.unstated: dict[str, None] = {}
        self._rounded: set[str] = set()
        self._declared: tuple[Declaration, Declaration] | None = None

    def factor(self, name: str, *, block: str | None = None) -> float:
        """Return the factor of a column of a block, or of a key; 1 for one of unknown dimension, which is noted.

        UnsupportedError: a unit of its dimension is none, or has no way to the other.
        """
        known = self._known.get((block, name))
        if known is not None:
            return known
        whole = f"{block}/{name}" if block else name
        dimension = self.conversion.dimension(name, block=block)
        found = 1.0
        if dimension is None:
            if self.changes:
                self.unknown[whole] = block, name
        elif dimension:
            found = self.quantity(dimension, whole)
        self._known[block, name] = found
        return found

    def quantity(self, dimension: str, what: str) -> float:
        """Return the factor of a dimension; 1, which is noted, where the source does not state the unit.

        UnsupportedError, naming `what`: the unit is none, or has no way to the other.
        """
        found = self.conversion.factor(dimension)
        if found is not None:
            return found
        ours, theirs = (unit_of_dimension(dimension, u) for u in (self.conversion.source, self.conversion.target))
        if ours is not None and theirs is not None:
            raise UnsupportedError(f"{what} in {ours} cannot be converted to {theirs}")
        if self.changes:
            self.unstated[what] = None
        return 1.0

    def record(self, record: Record) -> Record:
        """Return a record in the target units, which its system states; plugins see to their documents."""
        if not self.changes and units_object(record.units) == self.units:
            return record
        system = self._frame(record.system if record.system is not None else Frame(), "system")
        system.meta.put("units", dict(self.units), "json")
        changes: dict[str, Any] = {
            "system": system,
            "frame": None if record.frame is None else self._frame(record.frame, "frame"),
            "trajectory": None if record.trajectory is None else self.trajectory(record.trajectory),
        }
        if record.metrics is not None and "metrics" not in self.leave:
            changes["metrics"] = self._metrics(record.metrics)
        if record.observables is not None and "observables" not in self.leave:
            changes["observables"] = self._observables(record.observables)
        if record.forcefield is not None and self.changes:
            own = self._stating(record.forcefield)
            left = "forcefield" in self.leave
            changes["forcefield"] = own if left else converted_force_field(own, self.units, style_registry())
        return self.followed(dataclasses.replace(record, **changes), record)

    def force_field(self, force_field: ForceField | None) -> ForceField | None:
        """Return the force field of a collection in the target units."""
        return self.record(Record(forcefield=force_field)).forcefield

    def _stating(self, force_field: ForceField) -> ForceField:
        """Return the force field; one that states no units is in those of the record, and states them."""
        if written_out(force_field.units).keys() - {"angle"}:
            return force_field
        own = {key: text for key, text in self.conversion.source.items() if key != "force"}
        document = {**force_field.document, "units": {**own, **force_field.units}}
        return dataclasses.replace(force_field, document=document)

    def followed(self, record: Record, source: Record) -> Record:
        """Return the record, its documents amended by the plugins whose they are."""
        if self.changes:
            plugin_manager().hook.molrec_units_converted(
                record=record, source=source, conversion=self.conversion, report=self.report
            )
        return record

    def trajectory(self, trajectory: Trajectory) -> Trajectory:
        """Return a view whose batches are in the target units."""
        defined = trajectory.cell_defined
        if self._declared is None or self._declared[0] is not trajectory.declaration:
            # the records of a collection share one declaration
            self._declared = trajectory.declaration, self.declaration(trajectory.declaration)
        declaration = self._declared[1]

        def change(batch: FrameBatch) -> FrameBatch:
            return self.batch(batch, defined=defined)

        return MappedTrajectory(trajectory, change, declaration)

    def declaration(self, declaration: Declaration) -> Declaration:
        """Return the declaration with its fills scaled, and without precisions of columns that are scaled."""
        blocks = {}
        for name, block in declaration.blocks.items():
            columns = dict(block.columns)
            for key, column in columns.items():
                if column.dtype.startswith("f") and self.factor(key, block=name) != 1.0:
                    if column.precision is not None:
                        self._rounded.add(f"{name}/{key}")
                    columns[key] = dataclasses.replace(column, precision=None)
            blocks[name] = dataclasses.replace(block, columns=columns)
        meta = dict(declaration.meta)
        for key, entry in meta.items() if "meta" not in self.leave else ():
            if entry.fill is not NO_FILL:
                meta[key] = dataclasses.replace(entry, fill=self._value(key, entry.fill, entry.dtype))
            elif entry.dtype.startswith("f64"):
                self.factor(key)
        return dataclasses.replace(declaration, blocks=blocks, meta=meta)

    def batch(self, batch: FrameBatch, *, defined: bool = True) -> FrameBatch:
        """Return one batch in the target units; `defined`: whether its box is a cell."""
        blocks = {name: self._updates(name, updates) for name, updates in batch.blocks.items()}
        box, time = batch.box, batch.time
        if box is not None:
            length = self.quantity("length", "the cell")
            vectors = scaled(box.vectors, length) if defined else box.vectors
            box = dataclasses.replace(box, vectors=vectors, origin=scaled(box.origin, length))
        if time is not None:
            time = scaled(time, self.quantity("time", "the times"))
        return FrameBatch(batch.step, time, blocks, {k: self.values(k, v) for k, v in batch.meta.items()}, box)

    def take_unknown(self) -> list[str]:
        """Return the names whose dimension is not known that were met since the last call."""
        names = list(self.unknown)
        for key in self.unknown.values():
            del self._known[key]
        self.unknown.clear()
        return names

    def tell(self, report: Report, *, strict: bool) -> None:
        """Report the conversion, and what could not be converted; UnsupportedError for that with `strict`."""
        if self.unstated and strict:
            raise UnsupportedError(
                f"{', '.join(self.unstated)} cannot be converted to units {units_words(self.conversion.target)}: the "
                f"source states {units_words(self.conversion.source) or 'nothing'} and no unit for it"
            )
        if self.unknown and strict:
            names = ", ".join(self.unknown)
            raise UnsupportedError(
                f"the dimension of {names} is not known, so it cannot be converted to units "
                f"{units_words(self.units)}: name it with --dimension {next(iter(self.unknown))}=energy "
                "(none for a pure number), or leave it out"
            )
        if not self.changes:
            return
        report.derived("units", f"converted from {units_words(self.conversion.source)} to {units_words(self.units)}")
        if self.unstated:
            report.warn(f"left as they are, as their unit is not stated: {', '.join(self.unstated)}")
        for name in sorted(self._rounded):
            report.converted(f"precision of {name}", "not declared any more, as the numbers are in another unit")
        if self.unknown:
            example = next(iter(self.unknown))
            report.warn(
                f"left as they are, as their dimension is not known: {', '.join(self.unknown)}; "
                f"--dimension {example}=energy names it (none for a pure number)"
            )

    def _updates(self, name: str, updates: BlockUpdates) -> BlockUpdates:
        columns = {
            key: scaled(values, self.factor(key, block=name)) if values.dtype.kind in "fc" else values
            for key, values in updates.columns.items()
        }
        return BlockUpdates(updates.frames, updates.offset, columns, updates.validity)

    def values(self, key: str, values: Any) -> Any:
        """Return the per-step values of a batch: an array, or a list of documents."""
        if "meta" in self.leave:
            return values
        if isinstance(values, list):
            return [self._document(key, value) for value in values]
        return scaled(values, self.factor(key)) if values.dtype.kind == "f" else values

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a record in an index in the target units."""
        return {name: value * self.factor(name) if type(value) is float else value for name, value in row.items()}

    def _value(self, key: str, value: Any, tag: str) -> Any:
        """Return one value of a meta document."""
        if tag == "json":
            return value if key == "units" else self._document(key, value)
        if not tag.startswith("f64"):
            return value
        factor = self.factor(key)
        return (
            value if factor == 1.0 else _scaled_document(value, factor) if isinstance(value, list) else value * factor
        )

    def meta(self, meta: Meta) -> Meta:
        """Return a typed meta document in the target units."""
        made = Meta()
        for key, value in meta.items():
            left = "meta" in self.leave
            made.put(key, value if left else self._value(key, value, meta.tag(key)), meta.tag(key))
        return made

    def _document(self, key: str, value: Any) -> Any:
        """Return a JSON document with the numbers of known keys scaled: those of a mapping by its own keys."""
        if isinstance(value, dict):
            return {name: self._document(name, entry) for name, entry in value.items()}
        if not _has_reals(value):
            return value
        factor = self.factor(key) if self.conversion.dimension(key) else 1.0
        return value if factor == 1.0 else _scaled_document(value, factor)

    def _frame(self, frame: Frame, section: str) -> Frame:
        blocks = {name: self._block(name, block) for name, block in frame.blocks.items()}
        box = frame.box
        if box is not None:
            length = self.quantity("length", f"{section}/box")
            vectors = scaled(box.vectors, length) if box.defined else box.vectors
            box = dataclasses.replace(box, vectors=vectors, origin=scaled(box.origin, length))
        time = frame.time if frame.time is None else frame.time * self.quantity("time", f"{section}: time")
        return Frame(blocks, self.meta(frame.meta), box, frame.step, time, frame.attributes)

    def _block(self, name: str, block: Block) -> Block:
        columns = {}
        for key, column in block.columns.items():
            factor = self.factor(key, block=name) if column.values.dtype.kind in "fc" else 1.0
            columns[key] = (
                column if factor == 1.0 else Column(column.values * factor, column.validity, None, column.attributes)
            )
        return Block(
            columns,
            count=block.count,
            structural_shape=block.structural_shape,
            targets=block.targets,
            attributes=block.attributes,
        )

    def _metrics(self, metrics: Metrics) -> Metrics:
        if metrics.log is None:
            return Metrics.from_series({key: self._series(key, metrics[key]) for key in metrics})
        return Metrics.from_events(
            dataclasses.replace(event, value=event.value * self._curve(event.key)) for event in metrics.events()
        )

    def _curve(self, key: str) -> float:
        """Return the factor of a curve; performance and other counts have no dimension that changes."""
        group, _, name = key.rpartition("/")
        return self.factor(name) if group in ("", "thermo") else 1.0

    def _series(self, key: str, series: Series) -> Series:
        return dataclasses.replace(series, values=scaled(series.values, self._curve(key)))

    def _observables(self, observables: Observables) -> Observables:
        """Return the observables; one that states its unit is in that, and stays so."""
        made: dict[str, Observable] = {}
        for name, entry in observables.items():
            real = entry.values.dtype.kind in "fc" and entry.unit is None
            factor = self.factor(name) if real else 1.0
            made[name] = entry if factor == 1.0 else Observable(entry.values * factor, entry.metadata, entry.attributes)
        return Observables(made, observables.attributes)


class UnitsCollection(MappedCollection):
    """A collection whose records are in other units; nothing is read before it is used."""

    def __init__(self, source: Collection, scaling: Scaling) -> None:
        super().__init__(source, scaling.record, scaling.declaration(source.declaration))
        self._scaling = scaling
        self.document["units"] = collection_units(scaling.units)
        self._forcefield = scaling.force_field(source.forcefield)
        if scaling.changes and "meta" not in scaling.leave:
            # what is not known of them is told beforehand
            for name, column in source.index_columns.items():
                if column.dtype == "f64":
                    scaling.factor(name)

    @property
    def index(self) -> Block:
        """See `Collection.index`; energies among its columns are converted."""
        source = self.source.index
        columns = {name: self._column(name, column) for name, column in source.columns.items()}
        return Block(columns, count=source.count)

    @property
    def forcefield(self) -> ForceField | None:
        """See `Collection.forcefield`."""
        return self._forcefield

    def members(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.members`."""
        return ((record, self._scaling.row(row)) for record, row in super().members())

    def span(self, start: int, stop: int | None = None) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.span`."""
        return ((record, self._scaling.row(row)) for record, row in super().span(start, stop))

    def _column(self, name: str, column: Column) -> Column:
        factor = self._scaling.factor(name) if column.values.dtype.kind == "f" else 1.0
        return column if factor == 1.0 else Column(column.values * factor, column.validity, None, column.attributes)


def scaled(values: NDArray[Any], factor: float) -> NDArray[Any]:
    """Return the values times a factor; the same array where there is nothing to do."""
    return values if factor == 1.0 else values * factor


def _has_reals(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_reals, value))
    return isinstance(value, float)


def _scaled_document(value: Any, factor: float) -> Any:
    if isinstance(value, list):
        return [_scaled_document(entry, factor) for entry in value]
    return value * factor if isinstance(value, (int, float)) and not isinstance(value, bool) else value
