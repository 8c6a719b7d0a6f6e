"""Units of what is written: which LAMMPS style a record is in, and force fields and scripts in the units of a style.

Columns, cells and times come in the units that are written. Factors are those of `molrec_convert.quantities`, which
knows the letters of the table of styles (`E/L^2`). Source: the manual, "units".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import Record
from molrec_convert.quantities.dimensions import (
    BASES,
    UnitConversion,
    check_dimension,
    unit_of_dimension,
    units_object,
    units_words,
    written_out,
)
from molrec_convert.quantities.standard import dimension_of
from molrec_convert.quantities.units import same_unit
from molrec_convert.report import Report
from molrec_convert.text.output import Column, real_text, word_column, write_rows
from molrec_lammps.common.units import UNITS

__all__ = [
    "SECTIONS",
    "Conversion",
    "as_text",
    "follow_units",
    "number_text",
    "number_texts",
    "preset_of",
    "row_pieces",
    "style_written",
    "tiled",
    "title_with_units",
]

#: Block of the system with sections kept as text.
SECTIONS = "lammps_sections"
_TITLE = re.compile(r"\bunits\s*=\s*[a-z]+\b")


@dataclass(frozen=True)
class Conversion:
    """Of words of a force field, or of a script, from the units they state to a LAMMPS units style.

    `source` is a `units` object; `target` None converts nothing. Factors are those of dimensions such as `E/L^2`;
    asking for one the units do not settle is an UnsupportedError that names what is missing.
    """

    target: str | None = None
    source: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def between(cls, source: Mapping[str, Any], target: str | None) -> Conversion:
        """Return the conversion from units that are stated to those written; one of nothing where they are the same.

        UnsupportedError: one of them is reduced (lj), the other not.
        """
        stated = {name: text for name, text in written_out(source).items() if name in BASES and name != "angle"}
        preset = source.get("preset")
        if target is None or preset == target or not (stated or preset):
            return cls()
        if "lj" in (preset, target):
            raise UnsupportedError(
                f"the force field is in units {units_words(source)}, the record in units {target}: reduced units need "
                "a length, an energy and a mass that nothing states"
            )
        return cls() if all(_fits(source, target, name) for name in stated) else cls(target, source)

    def __bool__(self) -> bool:
        return self.target is not None

    @cached_property
    def _factors(self) -> UnitConversion:
        return UnitConversion(self.source, {"preset": self.target})

    def factor(self, dimension: str, what: str) -> float:
        """Return by what a number of that dimension is multiplied. `what` names it in the error."""
        if self.target is None:
            return 1.0
        factor = self._factors.factor(dimension)
        if factor is not None:
            return factor
        unit = unit_of_dimension(dimension, self.source)
        if unit is None:
            raise UnsupportedError(
                f"{what}: {units_words(self.source)} state no unit of {check_dimension(dimension)}, so it cannot be "
                f"converted to units {self.target}"
            )
        raise UnsupportedError(f"{what}: {unit} cannot be converted to units {self.target}")


def follow_units(record: Record, source: Record, conversion: UnitConversion, report: Report) -> None:
    """Convert the masses of the document of a data file, and state the units of what stays as it stands.

    These are sections kept as text (`section_units`), words of the force field (`lammps` of its document, `units`),
    and the commands of a script (`method.settings`, `units`), without which they are taken out. See the hook
    `molrec_units_converted`.
    """
    document = None if record.system is None else record.system.meta.get("lammps")
    if record.system is not None and isinstance(document, dict):
        record.system.meta.put("lammps", _followed(document, record, conversion, report), "json")
    old, new = source.forcefield, record.forcefield
    if old is not None and new is not None and old.units != new.units:
        words = new.document.get("lammps")
        stated = old.units if written_out(old.units).keys() - {"angle"} else conversion.source
        if isinstance(words, dict):
            record.forcefield = replace(new, document={**new.document, "lammps": {"units": dict(stated), **words}})
    method = record.method
    settings = method.get("settings") if isinstance(method, dict) else None
    known = isinstance(settings, dict) and "units" in settings
    if isinstance(method, dict) and "setup" in method and "commands" in method and not known:
        record.method = {key: value for key, value in method.items() if key != "setup"}
        report.dropped("method/setup", "commands whose units nothing states, in a record that is in others now")


def _followed(
    document: Mapping[str, Any], record: Record, conversion: UnitConversion, report: Report
) -> dict[str, Any]:
    """Return what a data file said, in the units of the record."""
    made = dict(document)
    preset, title = conversion.target.get("preset"), document.get("title")
    if isinstance(title, str) and _TITLE.search(title):
        made["title"] = title_with_units(title, str(preset)) if preset else _TITLE.sub("", title).rstrip(" ,")
    if "masses" in document:
        factor = conversion.factor("mass")
        made["masses"] = [mass if mass is None or factor is None else mass * factor for mass in document["masses"]]
        if factor is None:
            del made["masses"]
            report.dropped("lammps/masses", "the unit of mass is not stated, and the record is in other units now")
    if record.system is not None and SECTIONS in record.system.blocks:
        made.setdefault("section_units", dict(conversion.source))
    return made


def preset_of(record: Record) -> str | None:
    """Return the LAMMPS units style of a record, None where it states none or others."""
    units = units_object(record.units)
    preset = units.get("preset")
    if preset in UNITS:
        return str(preset)
    stated = [name for name in BASES if name in units]
    if not {"length", "energy"} <= set(stated):
        return None
    return next(
        (style for style in UNITS if all(_fits(units, style, name) for name in stated if name != "angle")), None
    )


def style_written(
    record: Record,
    columns: Iterable[str],
    others: Iterable[str],
    report: Report,
    *,
    kept: bool,
) -> str | None:
    """Return the units style that columns of atoms are in, and numbers of `others`, which are dimensions.

    None where several fit, or nothing tells. UnsupportedError: the record's units are those of no style, so that a
    file would mix them, and numbers are not to be `kept` as they are (`--target-units none`).
    """
    own = preset_of(record)
    units = units_object(record.units)
    if own is not None or not units:
        return own
    dimensions = [*others, *(dimension_of(name, key=False) or "" for name in columns)]
    told = [name for name in dict.fromkeys(dimensions) if name and unit_of_dimension(name, units) is not None]
    fitting = [style for style in UNITS if style != "lj" and all(_fits(units, style, name) for name in told)]
    if fitting and told:
        report.carried("units", f"{units_words(units)}: all that is written is as in units {' and '.join(fitting)}")
    elif told and not kept:
        raise UnsupportedError(
            f"the record's units ({units_words(units)}) are those of no units style of LAMMPS, and a file would mix "
            "them; --target-units real (or metal, ...) converts everything, none writes the numbers as they are"
        )
    elif told:
        report.warn(f"the numbers are in {units_words(units)}, as they are: units of no style of LAMMPS")
    return fitting[0] if len(fitting) == 1 and told else None


def title_with_units(title: str, units: str) -> str:
    """Return the first line of a data file, saying the units."""
    if _TITLE.search(title):
        return _TITLE.sub(f"units = {units}", title, count=1)
    return f"{title}, units = {units}" if title else f"LAMMPS data file, units = {units}"


def _fits(units: Mapping[str, Any], style: str, dimension: str) -> bool:
    """True if numbers of a dimension are the same in the record's units and in those of a style."""
    ours, theirs = (unit_of_dimension(dimension, entry) for entry in (units, {"preset": style}))
    return ours is not None and theirs is not None and same_unit(ours, theirs)


#: Rows of one piece: some megabytes of text.
_PIECE = 2**15


def number_text(value: float, digits: int | None = None) -> str:
    """Return one number as text: the shortest that reads back to it, or `digits` significant digits."""
    return real_text(value, digits)


def number_texts(values: Sequence[float], digits: int | None = None) -> str:
    """Return several numbers as text, a blank between them."""
    return " ".join(real_text(value, digits) for value in values)


def as_text(column: NDArray[Any], digits: int | None = None) -> Column:
    """Return a column as `row_pieces` writes it, to be given to it again and again."""
    kind = column.dtype.kind
    if kind in "TU":
        return word_column(column.tolist())
    if kind == "f":
        return Column("shortest" if digits is None else "general", column, digits=digits or 0, whole_point=False)
    return Column("int", column.astype(np.int64, copy=False))


def tiled(column: Column, times: int) -> Column:
    """Return a column several times over."""
    return column if times == 1 else column._replace(values=np.tile(column.values, times))


def row_pieces(
    columns: Sequence[NDArray[Any] | Column], *, comments: NDArray[Any] | None = None, digits: int | None = None
) -> Iterator[bytes]:
    """Write rows of some columns (1-D, of one length; integers, f64, text, or what `as_text` made) as pieces of bytes.

    `comments` (text, `""` for none) stand behind the numbers after ` # `. Pieces come in order; not more than a few
    are in memory.
    """
    parts = [column if isinstance(column, Column) else as_text(column, digits) for column in columns]
    rows = len(parts[0].values) if parts else 0
    if parts:
        parts[0] = parts[0]._replace(before=b"")
    if comments is not None:
        parts.append(word_column([f" # {text}" if text else "" for text in comments.tolist()], b""))

    def piece(start: int) -> bytes:
        own = [column._replace(values=column.values[start : start + _PIECE]) for column in parts]
        return write_rows(own, min(_PIECE, rows - start))[0]

    starts = range(0, rows, _PIECE)
    if len(starts) < 2:
        yield from map(piece, starts)
        return
    with ThreadPoolExecutor(2) as pool:
        waiting: deque[Future[bytes]] = deque()
        for start in starts:
            waiting.append(pool.submit(piece, start))
            if len(waiting) > 3:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
