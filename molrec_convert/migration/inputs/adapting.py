"""Records of one declaration made into records of another: renamed, left out, filled, converted, cast where exact."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.meaning.units import Scaling
from molrec_convert.migration.settings import Settings, parse_value
from molrec_convert.model import Block, Column, Declaration, Frame, FrameBatch, Record
from molrec_convert.model.batch import BlockUpdates
from molrec_convert.model.collection.declaration import key_fits
from molrec_convert.model.declaration import NO_FILL, BlockDeclaration, MetaDeclaration
from molrec_convert.model.declaration_joining import null_columns
from molrec_convert.model.dtypes import DTYPES, as_values
from molrec_convert.model.names import IDENTITY_COLUMNS
from molrec_convert.model.tags import TAGS, Meta, coerce
from molrec_convert.model.trajectory import MappedTrajectory, MemoryTrajectory

__all__ = ["Adapter", "Naming"]

#: Columns of the atoms that stay whatever --only says, beside those that say what an atom is.
_POSITIONS = ("x", "y", "z")


class Naming:
    """What `--rename`, `--drop`, `--exclude`, `--only` and `--fill` ask for.

    Names that are left out, and those that stay, may have `*` and `?` in them. With `trimmed`, a declaration, what
    that does not have is left out, too.
    """

    def __init__(
        self,
        rename: Mapping[str, str],
        drop: tuple[str, ...],
        fill: Mapping[str, str],
        only: tuple[str, ...] = (),
        trimmed: Declaration | None = None,
    ) -> None:
        self._rename, self._fill, self._trimmed = dict(rename), dict(fill), trimmed
        self._drop, self._only = _Names(drop), _Names(only)
        self._asked = drop, only
        self._idle = not (rename or drop or only or trimmed is not None)

    @classmethod
    def of(cls, settings: Settings, trimmed: Declaration | None = None) -> Naming:
        """Return what the settings ask for."""
        return cls(settings.rename, settings.drop, settings.fill, settings.only, trimmed)

    def key(self, name: str) -> str | None:
        """Return the name of a per-step key; None where it is left out."""
        if self._idle:
            return name
        new = self._rename.get(name, name)
        if self._drop.has(name) or not (self._only.has(name, empty=True) or self._only.has(new)):
            return None
        return None if self._trimmed is not None and new not in self._trimmed.meta else new

    def block(self, name: str) -> str | None:
        """Return the name of a block; None where it is left out."""
        if self._trimmed is not None and name not in self._trimmed.blocks:
            return None
        return None if self._drop.has(name) else name

    def column(self, block: str, name: str) -> str | None:
        """Return the name of a column; None where it is left out."""
        if self._idle:
            return name
        whole = f"{block}/{name}"
        new = self._rename.get(whole, self._rename.get(name, name)).rpartition("/")[2]
        if self._drop.has(whole) or self._drop.has(name):
            return None
        stays = block != "atoms" or name in _POSITIONS or name in IDENTITY_COLUMNS or new in _POSITIONS
        if not (stays or self._only.has(name, empty=True) or any(map(self._only.has, (whole, new, f"{block}/{new}")))):
            return None
        return new if self._trimmed is None or self._is_declared(block, new) else None

    def left_out(self, declaration: Declaration) -> list[str]:
        """Return the names of the per-step keys, columns and blocks of a declaration that are left out."""
        if self._idle:
            return []
        keys = [name for name in declaration.meta if self.key(name) is None]
        for name, block in declaration.blocks.items():
            if self.block(name) is None:
                keys.append(name)
            else:
                keys += [f"{name}/{key}" for key in block.columns if self.column(name, key) is None]
        return keys

    def _is_declared(self, block: str, column: str) -> bool:
        assert self._trimmed is not None
        declared = self._trimmed.blocks.get(block)
        return declared is None or column in declared.columns

    def fill_of(self, block: str | None, name: str) -> str | None:
        """Return the text a missing column (a per-step key without a block) is filled with; None where none is
        given.
        """
        found = self._fill.get(name)
        return found if block is None else self._fill.get(f"{block}/{name}", found)

    def value_of(self, block: str | None, name: str, dtype: str) -> str | None:
        """Return the text a missing column or key has a value by; None also for NaN of a real number, which is none."""
        text = self.fill_of(block, name)
        is_nan = text is not None and dtype.startswith("f64") and text.strip().lower() == "nan"
        return None if is_nan else text

    def touches(self, declaration: Declaration) -> bool:
        """True if frames of a declaration are others afterwards, or their system may be."""
        return not self._idle

    def declaration(self, declaration: Declaration) -> Declaration:
        """Return a declaration under its new names. Raises `UsageError` where two things get one name."""
        if self._idle:
            return declaration
        blocks: dict[str, BlockDeclaration] = {}
        for name, block in declaration.blocks.items():
            if self.block(name) is None:
                continue
            columns = {}
            for key, column in block.columns.items():
                new = self.column(name, key)
                if new in columns:
                    raise UsageError(f"--rename gives two columns of {name} the name {new}")
                if new is not None:
                    columns[new] = column
            targets = {self.column(name, key) or "": target for key, target in block.targets.items()}
            targets = {key: target for key, target in targets.items() if key in columns}
            blocks[name] = dataclasses.replace(block, columns=columns, targets=targets)
        blocks = {
            name: block if block.aligned_with in (None, *blocks) else dataclasses.replace(block, aligned_with=None)
            for name, block in blocks.items()
        }
        meta = {}
        for old, entry in declaration.meta.items():
            new = self.key(old)
            if new in meta:
                raise UsageError(f"--rename gives two per-step keys the name {new}")
            if new is not None:
                meta[new] = entry
        return dataclasses.replace(declaration, blocks=blocks, meta=meta)

    def idle(self, seen: set[str]) -> Iterator[str]:
        """Yield what was asked for and met nothing: names no input has. `seen` are the names of all of them."""
        # what a name becomes may be filled as well
        filled = {name for name in self._fill if name not in self._rename.values()}
        drop, only = self._asked
        for flag, names in (("--rename", self._rename), ("--drop", drop), ("--only", only), ("--fill", filled)):
            patterns = flag in ("--drop", "--only")
            for name in sorted(names):
                if name not in seen and not (patterns and any(map(_Names((name,)).has, seen))):
                    yield f"{flag} {name}"


class _Names:
    """Some names, of which any may have `*` and `?` in it; a name with these signs is itself, too."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._exact = frozenset(names)
        globs = [re.escape(name).replace(r"\*", ".*").replace(r"\?", ".") for name in names if set(name) & set("*?")]
        self._pattern = re.compile("|".join(globs), re.DOTALL) if globs else None
        self._matches = lru_cache(2**16)(self._fits)

    def has(self, name: str, *, empty: bool = False) -> bool:
        """True if it is one of the names; `empty` where there are none."""
        if not self._exact:
            return empty
        return name in self._exact or (self._pattern is not None and self._matches(name))

    def _fits(self, name: str) -> bool:
        return self._pattern is not None and self._pattern.fullmatch(name) is not None


class Adapter:
    """Makes members that were declared as `source` follow `target`.

    `conversion` is None where the numbers are in the units of the collection already, whose `units` a record's system
    states afterwards. Raises `ContractError` where `target` does not hold what the source has.
    """

    def __init__(
        self,
        source: Declaration,
        target: Declaration,
        naming: Naming,
        conversion: Scaling | None,
        units: Mapping[str, str],
    ) -> None:
        self._source, self._target, self._naming = source, target, naming
        self._conversion, self._units = conversion, dict(units)
        named = naming.declaration(source)
        blocks = {name: target.blocks.get(name, entry) for name, entry in named.blocks.items()}
        self.declaration = Declaration(blocks, dict(target.meta), dict(target.extra))
        self._fills = {
            name: {key: naming.fill_of(name, key) for key in entry.columns if key not in named.blocks[name].columns}
            for name, entry in blocks.items()
        }
        for name, missing in self._fills.items():
            for key, value in list(missing.items()):
                column = blocks[name].columns[key]
                here = f"trajectory/{name}/{key}"
                if naming.value_of(name, key, column.dtype) is None:
                    if not column.nullable:
                        raise _missing(here, "column", f"{name}/{key}", value)
                    del missing[key]
        for key, entry in target.meta.items():
            if key in named.meta or naming.value_of(None, key, entry.dtype) is not None:
                continue
            fill = naming.fill_of(None, key)
            if entry.fill is NO_FILL or (fill is not None and not entry.has_missing):
                raise _missing(f"trajectory/meta/{key}", "per-step key", key, fill)
        for key in named.meta.keys() - target.meta.keys():
            raise ContractError(f"trajectory/meta/{key}", "the per-step key is not one of the collection")
        self.same = conversion is None and not naming.touches(source) and self._equal(named)

    def _equal(self, named: Declaration) -> bool:
        """True if frames of the source are frames of the target as they stand."""
        if list(named.meta) != list(self._target.meta):
            return False
        if not all(key_fits(entry, self._target.meta[key]) for key, entry in named.meta.items()):
            return False
        return all(
            list(entry.columns) == list(self.declaration.blocks[name].columns)
            and all(c.dtype == self.declaration.blocks[name].columns[k].dtype for k, c in entry.columns.items())
            for name, entry in named.blocks.items()
        )

    def member(self, record: Record) -> Record:
        """Return the record as one of the collection; itself where there is nothing to do."""
        if self.same:
            return record
        changes: dict[str, Any] = {"system": self._system(record.system), "_close": None}
        trajectory = record.trajectory
        if type(trajectory) is MemoryTrajectory:
            changes["trajectory"] = MemoryTrajectory.of_batch(
                self.batch(trajectory._batch, defined=trajectory.cell_defined),
                self.declaration,
                cell_defined=trajectory.cell_defined,
            )
        elif trajectory is not None:
            change = functools.partial(self.batch, defined=trajectory.cell_defined)
            changes["trajectory"] = MappedTrajectory(trajectory, change, self.declaration, whole=True)
        return dataclasses.replace(record, **changes)

    def row(self, own: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the index of the source says of a record, in the units of the collection."""
        return own if self._conversion is None or not own else self._conversion.row(own)

    def batch(self, batch: FrameBatch, *, defined: bool = True) -> FrameBatch:
        """Return one batch of the trajectory; `defined` is its `cell_defined`."""
        blocks = {}
        for old, updates in batch.blocks.items():
            name = self._naming.block(old)
            if name is not None:
                blocks[name] = self._updates(old, name, updates)
        box, factor = batch.box, self._quantity("length")
        if box is not None and factor != 1.0:
            vectors = box.vectors * factor if defined else box.vectors
            box = dataclasses.replace(box, vectors=vectors, origin=box.origin * factor)
        time, factor = batch.time, self._quantity("time")
        if time is not None and factor != 1.0:
            time = time * factor
        return FrameBatch(batch.step, time, blocks, self._meta(batch), box)

    def _updates(self, old: str, name: str, updates: BlockUpdates) -> BlockUpdates:
        declared = self.declaration.blocks[name].columns
        columns, validity = {}, {}
        for key, values in updates.columns.items():
            new = self._naming.column(old, key)
            if new is None:
                continue
            here = f"trajectory/{name}/{new}"
            mask = updates.validity.get(key)
            columns[new] = self._values(new, values, declared[new].dtype if new in declared else None, here, block=name)
            if mask is not None:
                validity[new] = mask
        rows = int(updates.offset[-1])
        for key, value in self._fills[name].items():
            column = declared[key]
            columns[key] = _filled((rows, *column.trailing), value, column.dtype, f"trajectory/{name}/{key}")
        ordered = {key: columns[key] for key in declared if key in columns} | columns
        return null_columns(BlockUpdates(updates.frames, updates.offset, ordered, validity), declared)

    def _meta(self, batch: FrameBatch) -> dict[str, Any]:
        there = {self._naming.key(old): (old, values) for old, values in batch.meta.items()}
        made: dict[str, Any] = {}
        for key, entry in self._target.meta.items():
            here = f"trajectory/meta/{key}"
            if key in there:
                values = there[key][1]
                dtype = TAGS[entry.dtype].dtype
                if isinstance(values, np.ndarray) and dtype is not None:
                    values = self._values(key, values, dtype, here)
                elif isinstance(values, list) and self._conversion is not None:
                    values = self._conversion.values(key, values)
                made[key] = values
                continue
            made[key] = _repeated(self._missing(key, entry, here), entry, batch.n_frames, here)
        return made

    def _missing(self, key: str, entry: MetaDeclaration, here: str) -> Any:
        """Return what stands for a key the frames do not say: what the source fills it with, else what is asked for."""
        for old, declared in self._source.meta.items():
            if self._naming.key(old) == key and declared.fill is not NO_FILL:
                return declared.fill
        text = self._naming.fill_of(None, key)
        if text is None:
            if entry.fill is NO_FILL:
                raise ContractError(here, "the frames omit the key, which has no fill")
            return entry.fill
        spec = TAGS[entry.dtype]
        value = text if spec.dtype == "string" else parse_value(text)
        return [value] * spec.width if spec.width and not isinstance(value, list) else value

    def _values(self, name: str, values: Any, dtype: str | None, here: str, *, block: str | None = None) -> Any:
        if self._conversion is not None and values.dtype.kind == "f":
            factor = self._conversion.factor(name, block=block)
            if factor != 1.0:
                values = values * factor
        if dtype is None or values.dtype == DTYPES[dtype].numpy or (values.dtype.kind == "T" and dtype == "string"):
            return values
        if values.dtype.kind == "T" or dtype == "string":
            raise ContractError(
                here, "has another dtype than in the collection", found=str(values.dtype), expected=dtype
            )
        with np.errstate(invalid="ignore", over="ignore"):
            cast = values.astype(DTYPES[dtype].numpy)
            exact = bool(np.array_equal(cast.astype(values.dtype), values, equal_nan=values.dtype.kind in "fc"))
        if not exact or (dtype == "bool") != (values.dtype.kind == "b"):
            raise ContractError(here, f"a value does not fit {dtype}", found=str(values.dtype))
        return cast

    def _quantity(self, quantity: str) -> float:
        return 1.0 if self._conversion is None else self._conversion.quantity(quantity, "a record")

    def _system(self, system: Frame | None) -> Frame | None:
        if system is None:
            return None
        blocks = {}
        for old, block in system.blocks.items():
            name = self._naming.block(old)
            if name is None:
                continue
            columns = {}
            for key, column in block.columns.items():
                new = self._naming.column(old, key)
                if new is not None:
                    columns[new] = self._column(new, column, name)
            targets = {k: t for k, t in block.targets.items() if k in columns}
            blocks[name] = Block(
                columns,
                count=block.count,
                structural_shape=block.structural_shape,
                targets=targets,
                attributes=block.attributes,
            )
        meta, box = Meta(system.meta), system.box
        if self._conversion is not None:
            meta = self._conversion.meta(meta)
            meta.put("units", dict(self._units), "json")
            if box is not None:
                factor = self._quantity("length")
                vectors = box.vectors * factor if box.defined else box.vectors
                box = dataclasses.replace(box, vectors=vectors, origin=box.origin * factor)
        made = Frame(blocks, meta, box, attributes=system.attributes)
        if self._conversion is not None:
            self._conversion.followed(Record(system=made), Record(system=system))
        return made

    def _column(self, name: str, column: Column, block: str) -> Column:
        if self._conversion is None or column.values.dtype.kind != "f":
            return column
        factor = self._conversion.factor(name, block=block)
        if factor == 1.0:
            return column
        return Column(column.values * factor, column.validity)


def _missing(node: str, what: str, name: str, fill: str | None) -> ContractError:
    """Return the error of a column or key that an input lacks, and that has a value in every record of the
    collection.
    """
    rule = f"the {what} of the collection is missing here"
    if fill is not None:
        rule += (
            f", where --fill {name}={fill} is no value, and the collection was made with one in every record: fill it "
            f"with a number, or make the collection anew, with --overwrite"
        )
    return ContractError(node, rule)


def _filled(shape: tuple[int, ...], text: str | None, dtype: str, here: str) -> Any:
    """Return an array of one value."""
    value = parse_value(text or "")
    one = as_values([_scalar(value, dtype, here)], dtype, here)
    return np.broadcast_to(one.reshape((1,) * len(shape)), shape).copy()


def _scalar(value: Any, dtype: str, here: str) -> Any:
    if dtype == "string":
        return value if isinstance(value, str) else str(value)
    if isinstance(value, str):
        raise ContractError(here, "the fill is no number", found=repr(value), expected=dtype)
    return coerce(value, dtype, here) if dtype in TAGS else value


def _repeated(value: Any, entry: MetaDeclaration, count: int, here: str) -> Any:
    """Return a per-step value in every frame of a batch."""
    spec = TAGS[entry.dtype]
    if spec.dtype is None:
        return [value] * count
    coerced = coerce(float(value) if spec.dtype == "f64" and type(value) is int else value, entry.dtype, here)
    one = as_values(coerced if spec.width else [coerced], spec.dtype, here)
    return np.repeat(one[None], count, axis=0) if spec.width else np.repeat(one, count, axis=0)
