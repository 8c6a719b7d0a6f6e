"""Labels that stand under names of their own: key-value pairs, entries of `info`, arrays, the data of a row.

What `--energy-key` and its like name becomes the standard quantity of the record, and what had its place keeps a name
of its own (`energy`, `forces`); a writer does it the other way round. `data.NAME` is what stands in the data of a row.

The metadata of a database may state units (`_distance_unit`, `_property_unit_dict`; source: SchNetPack,
`ASEAtomsData`): positions, cells and properties are converted from them to ASE's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molrec_ase.chunk import Chunk, Part, join_parts, split_chunk
from molrec_ase.configuration import Configuration
from molrec_ase.names import DATA, VECTORS, VIRIAL, array_name, key_name
from molrec_ase.parts import result_value
from molrec_ase.reading.source import Source
from molrec_ase.reading.survey import Survey, survey_parts
from molrec_ase.values import as_value, from_plain, to_plain
from molrec_convert.errors import FormatError
from molrec_convert.meaning.labels import LabelOptions
from molrec_convert.meaning.species import free_name, propose
from molrec_convert.quantities.dimensions import unit_of_dimension
from molrec_convert.quantities.standard import OPTIONS, dimension_of, full_tensor, tensor_as
from molrec_convert.quantities.units import conversion_factor
from molrec_convert.report import Report

__all__ = ["LabelledSource", "StatedUnits", "propose_labels", "put_labels", "stated_units"]

_METAL = {"preset": "metal"}
_IN_DATA = "data."
#: Quantity → the key of a record; forces are columns.
_KEYS = {"energy": "pe", "stress": "stress", "virial": VIRIAL}
#: Dimension → its unit in ASE's databases, in the words of SchNetPack.
_UNITS = {
    "energy": "eV",
    "force": "eV/Ang",
    "length": "Ang",
    "energy/length**3": "eV/Ang/Ang/Ang",
    "charge*length": "e*Ang",
    "charge": "e",
    "length**2": "Ang*Ang",
    "length**3": "Ang*Ang*Ang",
    "mass": "dalton",
    "time": "ps",
}
_OF_LABELS = {"energy": "energy", "forces": "force", "stress": "energy/length**3", "virial": "energy"}
_OTHERS = {"dipole_moment": "charge*length", "forces": "force", "polarizability": "length**3"}


@dataclass
class StatedUnits:
    """What numbers are multiplied by: lengths of the atoms, and properties by their names; `metadata` as it is then."""

    length: float = 1.0
    properties: dict[str, float] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)


def stated_units(metadata: Mapping[str, Any], labels: LabelOptions, report: Report) -> StatedUnits | None:
    """Return what units the metadata of a database state come to in ASE's; None where they state none, or ASE's."""
    distance, properties = metadata.get("_distance_unit"), metadata.get("_property_unit_dict")
    made = StatedUnits(metadata=dict(metadata))
    told = []
    if isinstance(distance, str):
        factor = conversion_factor(distance, "angstrom")
        if factor is None:
            report.warn(
                f"the metadata state {distance!r} as _distance_unit, which is no unit: lengths are left as they are"
            )
        elif factor != 1.0:
            made.length, made.metadata["_distance_unit"] = factor, "Ang"
            told.append(f"positions from {distance}")
    named = {name.removeprefix(_IN_DATA): _OF_LABELS[quantity] for quantity, name in labels.chosen().items()}
    units = dict(properties) if isinstance(properties, Mapping) else {}
    for name, unit in units.items():
        dimension = named.get(name) or _OTHERS.get(name) or dimension_of(name, key=True)
        found = _factor(unit, [dimension] if dimension in _UNITS else list(_UNITS))
        if found is None:
            if unit not in (None, "", "1", 1, 1.0):
                report.warn(
                    f"{name} is left as it is: the metadata state {unit!r}, which is no unit that can be converted"
                )
        elif found[0] != 1.0:
            made.properties[name], units[name] = found
            told.append(f"{name} from {unit}")
    if not told:
        return None
    if units:
        made.metadata["_property_unit_dict"] = units
    report.converted("units", f"{', '.join(told)}, as the metadata of the database state them, to ASE's")
    return made


def _factor(unit: Any, dimensions: Sequence[str | None]) -> tuple[float, str] | None:
    """Return the factor to ASE's unit of the first dimension a unit is of, and that unit."""
    for dimension in dimensions if isinstance(unit, str) and unit else ():
        target = None if dimension is None else unit_of_dimension(dimension, _METAL)
        factor = None if target is None else conversion_factor(unit, target)
        if factor is not None and dimension is not None:
            return factor, _UNITS[dimension]
    return None


class LabelledSource(Source):
    """Another source whose labels are where a record has them, its numbers in ASE's units."""

    def __init__(self, source: Source, labels: LabelOptions, stated: StatedUnits | None) -> None:
        self._source, self._stated, self._labels = source, stated, labels.chosen()
        self.path, self.has_rows = source.path, source.has_rows
        self.metadata = source.metadata if stated is None else stated.metadata

    def __len__(self) -> int:
        return len(self._source)

    def _look(self) -> Survey:
        missing, seen = dict(self._labels), dict[str, None]()

        def told() -> Iterator[Part]:
            for part in self._every_part():
                seen.update(dict.fromkeys(_names(part)))
                yield self._changed(part, missing)

        survey = survey_parts(told())
        for quantity, name in missing.items() if len(self) else ():
            raise FormatError(
                self.path or "configurations",
                found=f"the names {', '.join(seen) or 'none'}",
                expected=f"{name}, as {OPTIONS[quantity]} says",
            )
        return survey

    def _every_part(self) -> Iterator[Part]:
        """Yield the configurations as they are; of a row at fault, which whoever reads it is told of, nothing."""
        if not self.has_rows:
            yield from (part for chunk in self._source.chunks(range(len(self))) for part in split_chunk(chunk))
            return
        for number in range(len(self)):
            try:
                yield split_chunk(next(self._source.chunks([number])))[0]
            except FormatError:
                yield Part(0)

    def outline(self) -> dict[str, Any]:
        """See `Source.outline`."""
        return self._source.outline()

    def chunks(self, numbers: Sequence[int], *, numbered: bool = False) -> Iterator[Chunk]:
        """See `Source.chunks`."""
        for chunk in self._source.chunks(numbers):
            yield join_parts([self._changed(part, {}) for part in split_chunk(chunk)])

    def close(self) -> None:
        """See `Source.close`."""
        self._source.close()

    def _changed(self, part: Part, missing: dict[str, str]) -> Part:
        """Return a configuration with its labels in their places; those that are found are not `missing` any more."""
        data = from_plain(part.values.pop(DATA, None))
        content = dict(data) if isinstance(data, dict) else {}
        if self._stated is not None:
            _scale(part, content, self._stated)
        taken = {quantity: _take(part, content, name) for quantity, name in self._labels.items()}
        for quantity, name in self._labels.items():
            _set_apart(part, quantity, name)
        for quantity, value in taken.items():
            if value is not None:
                missing.pop(quantity, None)
                _put(part, quantity, value, self._labels[quantity], self.path)
        left = content if isinstance(data, dict) else data
        if left not in (None, {}) or (data == {} and left == {}):
            part.values[DATA] = to_plain(left)
        return part


def propose_labels(source: Source, report: Report) -> None:
    """Say which key-value pairs, entries of `info` or of the data look like an energy, where rows have none."""
    if not len(source) or "pe" in source.array_survey.values:
        return
    facts = source.survey.values
    names = [name for name, fact in facts.items() if fact.tags <= {"f64", "i64"}]
    inside = from_plain(facts[DATA].first) if DATA in facts else None
    propose("energy", [*names, *(f"{_IN_DATA}{name}" for name in (inside if isinstance(inside, dict) else ()))], report)


def _names(part: Part) -> list[str]:
    """Return the names labels of a configuration may be chosen from."""
    data = from_plain(part.values.get(DATA))
    inside = [f"{_IN_DATA}{name}" for name in data] if isinstance(data, dict) else []
    return [*(name for name in part.values if name != DATA), *inside]


def _take(part: Part, content: dict[str, Any], name: str) -> Any:
    """Take a label out of where it stands; None where there is none."""
    if not name.startswith(_IN_DATA):
        if key_name(name) in part.values:
            return from_plain(part.values.pop(key_name(name)))
        if array_name(name) in part.columns:
            return part.columns.pop(array_name(name))
    return content.pop(name.removeprefix(_IN_DATA), None)


def _set_apart(part: Part, quantity: str, name: str) -> None:
    """Give the result that another label takes the place of a name of its own, as it is ASE's."""
    if name == quantity:
        return
    if quantity == "forces":
        if all(axis in part.columns for axis in VECTORS["forces"]):
            stacked = np.stack([part.columns.pop(axis) for axis in VECTORS["forces"]], axis=1)
            part.columns[free_name("forces", part.columns)] = stacked
    elif _KEYS[quantity] in part.values:
        own = free_name(key_name(quantity), part.values)
        part.values[own] = part.values.pop(_KEYS[quantity])
        part.per_step |= {own}


def _put(part: Part, quantity: str, value: Any, name: str, path: str | None) -> None:
    """Put a label in its place. FormatError: it has not the shape of the quantity."""
    shapes = {"energy": "a number", "forces": f"{part.count} rows of 3 numbers"}
    try:
        array = np.asarray(value, np.float64)
        if quantity == "forces":
            for axis, column in zip(VECTORS["forces"], array.reshape(part.count, 3).T, strict=True):
                part.columns[axis] = np.ascontiguousarray(column)
        elif quantity == "energy":
            if not np.isnan(array).all():
                part.values["pe"] = float(array.reshape(()) if array.size == 1 else array)
        else:
            part.values[_KEYS[quantity]] = full_tensor(array.reshape(-1)).reshape(9)
    except (TypeError, ValueError):
        raise FormatError(
            path or "configurations", found=f"{name} of shape {list(np.shape(value))}",
            expected=shapes.get(quantity, "3x3, 9 or 6 numbers"), hint=f"{OPTIONS[quantity]} names the {quantity}",
        ) from None  # fmt: skip


def _scale(part: Part, content: dict[str, Any], stated: StatedUnits) -> None:
    if stated.length != 1.0:
        for axis in VECTORS["positions"]:
            part.columns[axis] = part.columns[axis] * stated.length
        part.vectors, part.origin = part.vectors * stated.length, part.origin * stated.length
    for name, factor in stated.properties.items():
        if name in content:
            content[name] = np.asarray(content[name], np.float64) * factor
        elif isinstance(part.values.get(key_name(name)), (int, float, np.ndarray)):
            part.values[key_name(name)] = as_value(part.values[key_name(name)] * factor)


def put_labels(made: Configuration, labels: LabelOptions, report: Report) -> None:
    """Give the standard quantities of a configuration the names chosen, and what had these names the standard ones."""
    for quantity, name in labels.chosen().items():
        if name == quantity:
            continue
        value = _given(made, quantity)
        _take_back(made, quantity)
        if value is None:
            continue
        if np.ndim(value) == 0 and not name.startswith(_IN_DATA):
            made.keys[key_name(name)] = (float(value), "f64")
            continue
        data = dict(made.data) if isinstance(made.data, dict) else {}
        own = name.removeprefix(_IN_DATA)
        if own in data:
            data[free_name(own, data)] = data.pop(own)
        if own == name:
            report.converted(quantity, f"as {_IN_DATA}{name}: no key-value pair of ASE holds an array")
        made.data = {**data, own: value}


def _given(made: Configuration, quantity: str) -> Any:
    """Take the standard quantity out of a configuration: a number, forces f64[n, 3], or a tensor 3×3."""
    if quantity in ("energy", "forces"):
        return made.results.pop(quantity, None)
    if quantity == "virial":
        found = made.keys.pop(VIRIAL, None)
        return None if found is None else full_tensor(found[0])
    if "stress" in made.without:
        return None
    voigt, exact = made.results.pop("stress", None), made.exact.pop("stress", None)
    return full_tensor(exact[0]) if exact is not None else None if voigt is None else full_tensor(voigt)


def _take_back(made: Configuration, quantity: str) -> None:
    """Give what was set apart by a reader its place among the results again."""
    if quantity == "forces":
        values = made.others.get("forces")
        if values is not None and values.dtype == np.float64 and values.shape == made.positions.shape:
            made.results["forces"] = made.others.pop("forces")
        return
    key = key_name(quantity)
    value, tag = made.keys.get(key, (None, ""))
    if quantity == "energy" and tag == "f64":
        made.results["energy"] = made.keys.pop(key)[0]
    elif quantity == "stress" and tag in ("f64x6", "f64x9"):
        made.keys.pop(key)
        made.results["stress"] = tensor_as(full_tensor(value), "voigt")
    elif quantity == "virial" and tag in ("f64x6", "f64x9"):
        made.keys[VIRIAL] = (result_value(VIRIAL, value), made.keys.pop(key)[1])
