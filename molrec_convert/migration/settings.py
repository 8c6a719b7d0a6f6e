"""What is asked of a migration, as it travels to its worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from molrec_convert.errors import UsageError
from molrec_convert.files.json_text import read_json
from molrec_convert.model.collection.member import collection_units
from molrec_convert.quantities import dimensions

__all__ = ["SPLITS", "OnError", "Settings", "Split", "parse_pairs", "parse_units", "parse_value"]

Split = Literal["frames", "files", "rows"]
OnError = Literal["skip", "stop"]
SPLITS: tuple[Split, ...] = ("frames", "files", "rows")


@dataclass(frozen=True)
class Settings:
    """What is asked for.

    `split`: what becomes a record (None: what the format holds). `units` are those of the collection, `dimensions` says
    what names are that have no known dimension, `fill`, `rename`
    and `drop` settle conflicts of names ("pe", "x", "atoms/x"), `index` are further index columns, `group_by` names
    the key whose values become `molecule_id`. `options` are those of the formats' readers, `format` is one for all.
    With `shard_records` the collection is a set of files of so many records each.

    Names in `drop` may have `*` and `?` in them, and so those in `only`: where there are any, per-step keys and columns
    of the atoms that fit none of them are left out, but what says what an atom is and where. `trim`: what the
    `declaration` does not have is left out. `rules` say what else holds for inputs whose paths match (`rules.py`),
    `input_units` which units the numbers of an input are in that states none.
    """

    split: Split | None = None
    units: Mapping[str, str] | None = None
    dimensions: Mapping[str, str] = field(default_factory=dict)
    fill: Mapping[str, str] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    group_by: str | None = None
    on_error: OnError = "skip"
    dedupe: bool = False
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    declaration: str | None = None
    shard_records: int | None = None
    only: tuple[str, ...] = ()
    trim: bool = False
    rules: tuple[Mapping[str, Any], ...] = ()
    input_units: Mapping[str, str] | None = None

    @property
    def has_keys(self) -> bool:
        """Whether the index is to have keys of the inputs."""
        return bool(self.index) or self.group_by is not None

    def facts(self) -> dict[str, Any]:
        """What must be the same for an interrupted migration to go on."""
        return {
            "split": self.split,
            "units": None if self.units is None else dict(self.units),
            "dimensions": dict(self.dimensions),
            "fill": dict(self.fill),
            "rename": dict(self.rename),
            "drop": sorted(self.drop),
            "index": list(self.index),
            "group-by": self.group_by,
            "dedupe": self.dedupe,
            "from": self.format,
            "options": {key: repr(value) for key, value in sorted(self.options.items())},
            "declaration": self.declaration,
            "shard-records": self.shard_records,
            "only": sorted(self.only),
            "rules": [dict(rule) for rule in self.rules],
        }

    def document(self) -> dict[str, Any]:
        """What was done to the records on purpose, as the collection says it under `migration`; see `stated`."""
        said = {
            "split": self.split,
            "dimensions": dict(self.dimensions),
            "fill": dict(self.fill),
            "rename": dict(self.rename),
            "drop": sorted(self.drop),
            "index": list(self.index),
            "group_by": self.group_by,
            "dedupe": self.dedupe,
            "from": self.format,
            "options": {key: list(v) if isinstance(v, tuple) else v for key, v in sorted(self.options.items())},
            "only": sorted(self.only),
            "trim": self.trim,
            "rules": [dict(rule) for rule in self.rules],
        }
        return {key: value for key, value in said.items() if value}

    @classmethod
    def stated(cls, document: Any) -> Settings:
        """The settings of a collection's document `migration`; the defaults where it says nothing."""
        if not isinstance(document, Mapping):
            return cls()
        fill, rename, drop = (document.get(key) for key in ("fill", "rename", "drop"))
        options = document.get("options")
        split, format, group_by = (document.get(key) for key in ("split", "from", "group_by"))
        return cls(
            split=split if split in ("frames", "files", "rows") else None,
            dimensions=_texts(document.get("dimensions")),
            fill=_texts(fill),
            rename=_texts(rename),
            drop=_names(drop),
            index=_names(document.get("index")),
            group_by=group_by if isinstance(group_by, str) else None,
            dedupe=document.get("dedupe") is True,
            format=format if isinstance(format, str) else None,
            options=_values(options),
            only=_names(document.get("only")),
            trim=document.get("trim") is True,
            rules=_rules(document.get("rules")),
        )


def _names(names: Any) -> tuple[str, ...]:
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _rules(rules: Any) -> tuple[Mapping[str, Any], ...]:
    """Return those that can be rules."""
    found = rules if isinstance(rules, list) else []
    return tuple(rule for rule in found if isinstance(rule, Mapping) and isinstance(rule.get("match"), list))


def _texts(mapping: Any) -> dict[str, str]:
    if not isinstance(mapping, Mapping):
        return {}
    return {key: value for key, value in mapping.items() if isinstance(value, str)}


def _values(options: Any) -> dict[str, Any]:
    """Options of formats: JSON has lists for those with several values."""
    if not isinstance(options, Mapping):
        return {}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}


def default_workers() -> int:
    """As many processes as there are processors for us."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse_units(text: str) -> dict[str, str]:
    """Return the units of a collection of a preset ("metal"), or quantities (`length=angstrom,energy=eV`).

    Raises `UsageError` as `molrec_convert.quantities.dimensions.parse_units` does.
    """
    return collection_units(dimensions.parse_units(text))


def parse_pairs(values: Iterable[str], flag: str, *, empty: bool = False) -> dict[str, str]:
    """`NAME=VALUE` texts, of which the value may be `empty`.

    Raises `UsageError` for one without a name or '=', or a name twice.
    """
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name.strip() or not (empty or rest.strip()):
            raise UsageError(f"{flag} {value}: expected NAME=VALUE")
        if name.strip() in pairs:
            raise UsageError(f"{flag} {value}: {name.strip()} has a value already")
        pairs[name.strip()] = rest.strip()
    return pairs


def parse_value(text: str) -> Any:
    """The value of a fill: a number, NaN, true, false, a list of numbers; any other text is itself."""
    try:
        return read_json(text)
    except ValueError:
        words = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
        return words.get(text.lower(), text)
