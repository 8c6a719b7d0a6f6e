"""What is asked of a migration, and which options hold for which inputs: rules by patterns of their paths, in TOML.

    [[input]]
    match = "old/**/*.xyz"
    units = "real"
    energy_key = "REF_energy"

All rules that match an input hold for it, in their order: a later one overrides an earlier one and the command line.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from molrec_convert.errors import MissingInputError, UsageError
from molrec_convert.files.json_text import check_nesting, read_json
from molrec_convert.formats import Option, options_of
from molrec_convert.meaning.species import ElementOptions
from molrec_convert.model.collection.member import collection_units
from molrec_convert.plugins import format_named, formats
from molrec_convert.quantities import dimensions

__all__ = [
    "SPLITS",
    "OnError",
    "RuleBook",
    "Settings",
    "Split",
    "check_rules",
    "glob_pattern",
    "idle_rules",
    "parse_pairs",
    "parse_units",
    "parse_value",
    "read_rules",
]

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
        """True if the index is to have keys of the inputs."""
        return bool(self.index) or self.group_by is not None

    def facts(self) -> dict[str, Any]:
        """Return what must be the same for an interrupted migration to go on."""
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
        """Return what was done to the records on purpose, as the collection says it under `migration`; see `stated`."""
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
        """Return the settings of a collection's document `migration`; the defaults where it says nothing."""
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
    """Return options of formats: JSON has lists for those with several values."""
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
    """Return `NAME=VALUE` texts, of which the value may be `empty`.

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
    """Return the value of a fill: a number, NaN, true, false, a list of numbers; any other text is itself."""
    try:
        return read_json(text)
    except ValueError:
        words = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
        return words.get(text.lower(), text)


_LISTS, _TABLES = ("drop", "exclude", "only"), ("rename", "fill")
#: What a rule may say beside options of formats.
_OWN = ("match", "from", "units", *_LISTS, *_TABLES)


class RuleBook:
    """The settings of each input: those of all, and what the rules that match its path say."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._patterns = [[glob_pattern(text) for text in rule["match"]] for rule in settings.rules]
        self._known: dict[tuple[int, ...], Settings] = {(): settings}

    def matching(self, path: str | os.PathLike[str]) -> tuple[int, ...]:
        """Return the numbers of the rules that match a path."""
        if not self._patterns:
            return ()
        where = Path(os.path.abspath(path)).as_posix()
        return tuple(
            number
            for number, patterns in enumerate(self._patterns)
            if any(pattern.fullmatch(where) is not None for pattern in patterns)
        )

    def of(self, path: str | os.PathLike[str]) -> Settings:
        """Return the settings of one input; the same object for all inputs the same rules match."""
        return self.by_rules(self.matching(path))

    def by_rules(self, numbers: Sequence[int]) -> Settings:
        """Return the settings of inputs that some rules match."""
        key = tuple(numbers)
        if key not in self._known:
            made = self._settings
            for number in key:
                made = _with_rule(made, self._settings.rules[number])
            self._known[key] = made
        return self._known[key]


def _with_rule(settings: Settings, rule: Mapping[str, Any]) -> Settings:
    options = {name: tuple(v) if isinstance(v, list) else v for name, v in rule.items() if name not in _OWN}
    changes: dict[str, Any] = {
        "options": {**settings.options, **options},
        "drop": (*settings.drop, *rule.get("drop", ()), *rule.get("exclude", ())),
        "only": (*settings.only, *rule.get("only", ())),
        "rename": {**settings.rename, **rule.get("rename", {})},
        "fill": {**settings.fill, **rule.get("fill", {})},
    }
    if "from" in rule:
        changes["format"] = rule["from"]
    if "units" in rule:
        # where a format takes them they say more than what numbers without a unit are in: what steps are in time
        changes["options"]["units"] = rule["units"]
        changes["input_units"] = parse_units(rule["units"])
    return dataclasses.replace(settings, **changes)


def glob_pattern(text: str) -> re.Pattern[str]:
    """Return the expression for a glob: one without '/' matches the name of a file, any other the end of a path.

    '*' and '?' stay within a name, '**/' is any number of directories.
    """
    made = ""
    for part in re.split(r"(\*\*/|\*|\?)", text):
        made += {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    return re.compile(made if text.startswith("/") else f"(?:.*/)?{made}", re.DOTALL)


def read_rules(path: str | os.PathLike[str]) -> tuple[dict[str, Any], ...]:
    """Return the rules in a TOML file. Raises `UsageError` for what it should not say, with the nearest right word."""
    where = Path(path)
    if not where.exists():
        raise MissingInputError(path)
    try:
        text = where.read_text(encoding="utf-8")
        document = tomllib.loads(text)
        check_nesting(document, text)
    except RecursionError:
        raise UsageError(f"--rules {path}: it is nested too deep") from None
    except ValueError as error:
        raise UsageError(f"--rules {path}: no TOML: {error}") from None
    inputs = document.get("input")
    if set(document) != {"input"} or not isinstance(inputs, list) or not all(isinstance(one, dict) for one in inputs):
        raise UsageError(f"--rules {path}: expected rules, each under [[input]], and nothing else")
    rules = tuple(
        {(name if name in _OWN else name.replace("-", "_")): value for name, value in rule.items()} for rule in inputs
    )
    return check_rules(rules, f"--rules {path}")


def check_rules(rules: Sequence[Mapping[str, Any]], where: str) -> tuple[dict[str, Any], ...]:
    """Return rules with their patterns as lists. Raises `UsageError` for an unknown option or a wrong value."""
    options = {
        entry.name: entry for chosen in formats().values() if chosen.reads for entry in options_of(chosen.read_options)
    }
    options |= {entry.name: entry for entry in options_of(ElementOptions)}
    found = []
    for number, rule in enumerate(rules, 1):
        here = f"{where}, rule {number}"
        match = rule.get("match")
        match = [match] if isinstance(match, str) else match
        if not match or not _is_texts(match):
            raise UsageError(f"{here}: match is to be a pattern of paths, or a list of them")
        for name, value in rule.items():
            if name not in _OWN and name not in options:
                near = difflib.get_close_matches(name, [*_OWN, *options], 1)
                hint = f"did you mean {near[0]}?" if near else "no format that is read has one"
                raise UsageError(f"{here}: there is no option {name}, {hint}")
            _check_value(here, name, value, options.get(name))
        found.append({**rule, "match": match})
    return tuple(found)


def _check_value(here: str, name: str, value: Any, option: Option | None) -> None:
    if name in _LISTS and not _is_texts(value):
        raise UsageError(f"{here}: {name} is to be a list of names")
    if name in _TABLES and not (isinstance(value, dict) and all(isinstance(text, str) for text in value.values())):
        raise UsageError(f"{here}: {name} is to be a table of names and texts")
    if name in ("from", "units") and not isinstance(value, str):
        raise UsageError(f"{here}: {name} is to be a text")
    if name == "from":
        try:
            format_named(value)
        except UsageError as error:
            raise UsageError(f"{here}: {error}") from None
    if name == "units":
        try:
            parse_units(value)
        except UsageError as error:
            raise UsageError(f"{here}: {error}") from None
        return
    if option is None:
        return
    kinds = {tuple: (list, tuple), float: (float, int)}.get(option.kind, (option.kind,))
    if not isinstance(value, kinds) or (option.kind is tuple and not _is_texts(value)):
        expected = "a list of texts" if option.kind is tuple else f"of the kind {option.kind.__name__}"
        raise UsageError(f"{here}: {name} is to be {expected}, not {value!r}")
    if option.choices and value not in option.choices:
        raise UsageError(f"{here}: {name} is one of {', '.join(option.choices)}, not {value!r}")


def _is_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(text, str) and text for text in value)


def idle_rules(settings: Settings, paths: Iterable[str]) -> list[str]:
    """Return a sentence for each pattern of the rules that matches no path."""
    left = {(number, text): glob_pattern(text) for number, rule in enumerate(settings.rules) for text in rule["match"]}
    for path in paths:
        if not left:
            break
        where = Path(os.path.abspath(path)).as_posix()
        left = {key: pattern for key, pattern in left.items() if pattern.fullmatch(where) is None}
    return [f"--rules: {text}, of rule {number + 1}, matches no input" for number, text in left]
