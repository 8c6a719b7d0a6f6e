"""The plan of a migration: what the inputs hold, what the collection will declare, what has to be settled first."""

from __future__ import annotations

import dataclasses
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molrec_convert.errors import ContractError, MissingInputError, UsageError
from molrec_convert.files.json_text import read_json
from molrec_convert.migration.inputs.adapting import Adapter, Naming
from molrec_convert.migration.inputs.inputs import InputTable
from molrec_convert.migration.inputs.scan import Scan
from molrec_convert.migration.inputs.tasks import Found
from molrec_convert.migration.settings import RuleBook, Settings
from molrec_convert.migration.state import Failure
from molrec_convert.model.declaration import NO_FILL, BlockDeclaration, ColumnDeclaration, Declaration, MetaDeclaration
from molrec_convert.model.declaration_joining import has_to_be_there, joined_declaration, missing_parts
from molrec_convert.quantities.standard import NamedFactors

__all__ = [
    "Conflict",
    "Content",
    "Plan",
    "conflict_texts",
    "declaration_conflicts",
    "read_declaration",
    "unit_conflicts",
]

#: So many conflicts of one kind have a line each; of more of them so many names are listed.
_MOST_ALONE, _MOST_NAMES = 4, 6


@dataclass(frozen=True)
class Content:
    """What `count` inputs declare, `example` the first of them: declaration under its new names, units, own columns."""

    declaration: Declaration
    units: Mapping[str, str]
    columns: Mapping[str, str]
    forcefield: bool
    count: int
    example: str


@dataclass(frozen=True)
class Conflict:
    """A disagreement: what it is about, what is said by whom, and the options that settle it."""

    name: str
    what: str
    settled_by: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}; settle it with {self.settled_by}"


def conflict_texts(conflicts: Iterable[Conflict]) -> list[str]:
    """Return one sentence for each kind of conflict, with the names it is about, however many there are."""
    kinds: dict[tuple[str, str], list[Conflict]] = {}
    for conflict in conflicts:
        kind = (conflict.what, conflict.settled_by.replace(conflict.name, "NAME"))
        kinds.setdefault(kind, []).append(conflict)
    texts: list[str] = []
    for (what, settled_by), group in kinds.items():
        if len(group) <= _MOST_ALONE:
            texts += map(str, group)
            continue
        names = ", ".join(conflict.name for conflict in group[:_MOST_NAMES])
        more = ", …" if len(group) > _MOST_NAMES else ""
        texts.append(f"{len(group):,} names ({names}{more}): {what}; settle each with {settled_by}")
    return texts


def declaration_conflicts(contents: Iterable[Content], naming: Naming) -> list[Conflict]:
    """Return what keeps the declarations from being one."""
    known = list(contents)
    return [*_key_conflicts(known, naming), *_block_conflicts(known, naming)]


def unit_conflicts(
    contents: Iterable[Content], target: Mapping[str, str] | None, dimensions: Mapping[str, str] | None = None
) -> list[Conflict]:
    """Return units that are not known, differ without a target, or cannot be converted to it.

    `dimensions` are those of names that have none by themselves.
    """
    known = list(contents)
    stated = [content for content in known if content.units]
    silent = [content for content in known if not content.units]
    if target is None:
        found = []
        if silent:
            what = f"{_who(silent)} state none"
            found.append(Conflict("units", what, "--units metal, or whatever they are in (see --help)"))
        sets: dict[str, list[Content]] = {}
        for content in stated:
            sets.setdefault(", ".join(f"{q} {u}" for q, u in sorted(content.units.items())), []).append(content)
        if len(sets) > 1:
            what = "; ".join(f"{_who(group)} in {text}" for text, group in sets.items())
            found.append(Conflict("units", what, "--units, to which all are converted"))
        return found
    return [
        conflict
        for content in stated
        for conflict in _unconverted(content, NamedFactors(content.units, target, dimensions))
    ]


def _unconverted(content: Content, conversion: NamedFactors) -> Iterator[Conflict]:
    if not conversion.changes:
        return
    declaration = content.declaration
    reals = [key for key, entry in declaration.meta.items() if entry.dtype.startswith("f64")]
    reals += [
        f"{name}/{key}"
        for name, block in declaration.blocks.items()
        for key, column in block.columns.items()
        if column.dtype.startswith("f")
    ]
    for name in reals:
        block, _, own = name.rpartition("/")
        if conversion.of_name(own, block=block or None) is None:
            who = _who([content]) + (" is" if content.count == 1 else " are")
            what = f"{who} in other units, and what it is a quantity of is not known"
            yield Conflict(name, what, f"--dimension {name}=energy (none for a number), --drop {name}")


def _who(contents: Iterable[Content]) -> str:
    known = list(contents)
    count = sum(content.count for content in known)
    example = known[0].example
    return example if count == 1 else f"{count:,} inputs ({example}, …)"


def _key_conflicts(contents: list[Content], naming: Naming) -> Iterator[Conflict]:
    declared = [content for content in contents if content.declaration.blocks or content.declaration.meta]
    keys = dict.fromkeys(key for content in declared for key in content.declaration.meta)
    for key in keys:
        dtypes: dict[str, list[Content]] = {}
        for content in declared:
            entry = content.declaration.meta.get(key)
            if entry is not None:
                dtypes.setdefault(entry.dtype, []).append(content)
        without = [content for content in declared if key not in content.declaration.meta]
        if len(dtypes) > 1:
            yield Conflict(key, _variants(dtypes), f"--drop {key}, or a --declaration that states its dtype")
        if without and naming.fill_of(None, key) is None and not all(map(MetaDeclaration.with_missing, dtypes)):
            value = _fill_example(dtypes)
            yield Conflict(key, f"missing in {_who(without)}", f"--fill {key}={value}, --rename, or --drop {key}")


def _block_conflicts(contents: list[Content], naming: Naming) -> Iterator[Conflict]:
    names = dict.fromkeys(name for content in contents for name in content.declaration.blocks)
    for name in names:
        there = [content for content in contents if name in content.declaration.blocks]
        blocks = [content.declaration.blocks[name] for content in there]
        for key in dict.fromkeys(key for block in blocks for key in block.columns):
            yield from _column_conflicts(name, key, there, blocks, naming)
        for what in ("structural_shape", "targets", "aligned_with"):
            variants: dict[str, list[Content]] = {}
            for content, block in zip(there, blocks, strict=True):
                variants.setdefault(str(getattr(block, what)), []).append(content)
            if len(variants) > 1:
                yield Conflict(f"{name}, {what}", _variants(variants), f"--drop {name}")


def _column_conflicts(
    name: str, key: str, there: list[Content], blocks: list[BlockDeclaration], naming: Naming
) -> Iterator[Conflict]:
    whole = f"{name}/{key}"
    variants: dict[str, list[Content]] = {}
    without = []
    for content, block in zip(there, blocks, strict=True):
        column = block.columns.get(key)
        if column is None:
            without.append(content)
            continue
        shape = "".join(f"[{axis}]" for axis in column.trailing)
        precision = "" if column.precision is None else f" at {column.precision!r}"
        variants.setdefault(f"{column.dtype}{shape}{precision}", []).append(content)
    if len(variants) > 1:
        yield Conflict(whole, _variants(variants), f"--drop {whole}, or a --declaration that states its dtype")
    if without and naming.fill_of(name, key) is None and has_to_be_there(key):
        value = _fill_example(variants)
        yield Conflict(whole, f"missing in {_who(without)}", f"--fill {whole}={value}, --rename, or --drop {whole}")


def _fill_example(dtypes: Iterable[str]) -> str:
    """Return what a missing value may be given as; an empty text is one, too."""
    known = list(dtypes)
    if any(dtype.startswith("f") for dtype in known):
        return "NaN"
    return "" if known == ["string"] else "VALUE"


def _variants(groups: Mapping[str, list[Content]]) -> str:
    return ", ".join(f"{text} in {_who(group)}" for text, group in groups.items())


#: Names a note lists.
_NAMED = 8
_UNKNOWN, _ASIDE, _FAULTY = -1, -2, -3


class Plan:
    """All inputs and what is known of them. `content_of[i]` is a number of `contents`, negative where there is none.

    `declaration` and `units` are those of the collection; `conflicts` is empty when it can be made.
    """

    def __init__(self, table: InputTable, settings: Settings) -> None:
        self.table, self.settings = table, settings
        self.naming = Naming.of(settings)
        self._rules = RuleBook(settings)
        self._namings: dict[tuple[int, ...], Naming] = {(): self.naming}
        self.formats: list[str | None] = []
        self.content_of: array[int] = array("i")
        self.records: array[int] = array("q")
        #: Of each input the records it can be read from; 0 where only from the first.
        self.divisible: array[int] = array("q")
        #: What is known of large inputs.
        self.found: dict[int, Found] = {}
        self.contents: list[dict[str, Any]] = []
        self.failures: dict[int, Failure] = {}
        self.nbytes = self.frames = 0
        self._numbers: dict[str, int] = {}
        self.declaration = Declaration()
        self.units: dict[str, str] = {}
        self.conflicts: list[Conflict] = []
        self.notes: list[str] = []
        self._trimmed: Declaration | None = None
        #: Those of options that meet nothing.
        self.idle: list[str] = []
        self.missing: list[str] = []

    @classmethod
    def unscanned(cls, table: InputTable, settings: Settings) -> Plan:
        """Return a plan that knows nothing of its inputs but where they are."""
        plan = cls(table, settings)
        count = len(table)
        plan.formats = [None] * count
        plan.content_of = array("i", [_UNKNOWN]) * count
        plan.records = array("q", [-1]) * count
        plan.divisible = array("q", [0]) * count
        return plan

    @classmethod
    def restored(cls, table: InputTable, settings: Settings, kept: Mapping[str, Any]) -> Plan:
        """Return a plan an earlier attempt made and kept."""
        plan = cls(table, settings)
        names = kept["names"]
        plan.formats = [None if number < 0 else names[number] for number in kept["formats"]]
        plan.content_of = array("i", kept["content_of"])
        plan.records = array("q", kept["records"])
        plan.divisible = array("q", kept["divisible"])
        plan.found = {int(number): Found(**entry) for number, entry in kept["found"].items()}
        plan.contents = kept["contents"]
        plan.failures = {int(number): failure for number, failure in kept["failures"].items()}
        plan.declaration = Declaration.from_json(kept["declaration"])
        plan.units = kept["units"]
        plan.nbytes, plan.frames, plan.notes = kept["nbytes"], kept["frames"], kept["notes"]
        plan.idle, plan.missing = kept.get("idle", []), kept.get("missing", [])
        return plan

    def kept(self) -> dict[str, Any]:
        """Return the plan as a document; what is asked for and the inputs are not in it."""
        names = list(dict.fromkeys(name for name in self.formats if name is not None))
        numbers = {name: number for number, name in enumerate(names)}
        return {
            "names": names,
            "formats": [-1 if name is None else numbers[name] for name in self.formats],
            "content_of": list(self.content_of),
            "sizes": list(self.table.sizes),
            "stamps": list(self.table.stamps),
            "records": list(self.records),
            "divisible": list(self.divisible),
            "found": {number: dataclasses.asdict(entry) for number, entry in self.found.items()},
            "contents": self.contents,
            "failures": self.failures,
            "declaration": self.declaration.to_json(),
            "units": self.units,
            "nbytes": self.nbytes,
            "frames": self.frames,
            "notes": self.notes,
            "idle": self.idle,
            "missing": self.missing,
        }

    def settled(self) -> dict[str, Any]:
        """Return what must not change while a migration is interrupted."""
        return {"declaration": self.declaration.to_json(), "units": self.units}

    def take(self, scan: Scan) -> None:
        """What one task found; tasks come in the order of the inputs."""
        numbers = []
        for text in scan.contents:
            number = self._numbers.setdefault(text, len(self.contents))
            if number == len(self.contents):
                self.contents.append(json.loads(text))
            numbers.append(number)
        for offset, entry in enumerate(scan.inputs):
            self.formats.append(entry.format)
            if entry.error is not None:
                self.failures[scan.first + offset] = entry.error
            kind = _ASIDE if entry.aside else _FAULTY if entry.error is not None else numbers[entry.content]
            self.content_of.append(kind)
            self.records.append(entry.records)
            self.divisible.append(entry.records if entry.divisible else 0)
            if entry.found is not None:
                self.found[scan.first + offset] = entry.found
            self.nbytes += entry.nbytes
            self.frames += max(entry.frames, 0)

    def is_aside(self, number: int) -> bool:
        """True if an input was found in a directory and is of no known format."""
        return self.content_of[number] == _ASIDE

    @property
    def aside(self) -> list[str]:
        """Files found in directories that are of no known format."""
        return [path for path, kind in zip(self.table.paths, self.content_of, strict=True) if kind == _ASIDE]

    @property
    def n_records(self) -> int | None:
        """Records of all inputs; None where only reading to the end tells."""
        counts = [n for n, kind in zip(self.records, self.content_of, strict=True) if kind not in (_ASIDE, _FAULTY)]
        return None if any(count < 0 for count in counts) else sum(counts)

    def settle(self, given: Declaration | None, units: Mapping[str, str] | None) -> None:
        """Work out declaration and units of the collection: those given, or what the inputs agree on."""
        contents = list(self._contents())
        target = self.settings.units if self.settings.units is not None else units
        if contents or target is None:
            self.conflicts = unit_conflicts(contents, target, self.settings.dimensions)
        if target is None and not self.conflicts and contents:
            target = contents[0].units
        self.units = dict(target or {})
        if given is not None:
            self.declaration = given
            self._trimmed = given if self.settings.trim else None
            self._namings = {}
            self.notes += self._misfits()
        else:
            self.conflicts += declaration_conflicts(contents, self.naming)
            if not self.conflicts:
                self.declaration = joined_declaration(
                    _completed([content.declaration for content in contents], self.naming)
                )
        self._note(contents)

    def format_counts(self) -> dict[str, tuple[int, int]]:
        """Format → inputs and records (those that are known)."""
        found: dict[str, tuple[int, int]] = {}
        for name, count in zip(self.formats, self.records, strict=True):
            if name is not None:
                inputs, records = found.get(name, (0, 0))
                found[name] = inputs + 1, records + max(count, 0)
        return found

    def index_dtypes(self) -> dict[str, str]:
        """Return dtypes of the index columns inputs bring themselves and that are asked for."""
        found: dict[str, str] = {}
        for content in self.contents:
            for name, dtype in content["columns"].items():
                if name in self.settings.index:
                    found.setdefault(name, dtype)
        return found

    def _kinds(self) -> dict[int, tuple[int, int]]:
        """Return number of a content → how many inputs have it, and the first of them."""
        found: dict[int, tuple[int, int]] = {}
        for number, kind in enumerate(self.content_of):
            if kind >= 0:
                count, first = found.get(kind, (0, number))
                found[kind] = count + 1, first
        return dict(sorted(found.items()))

    def _contents(self) -> Iterator[Content]:
        for kind, (count, first) in self._kinds().items():
            content = self.contents[kind]
            declaration = self._naming_of(content).declaration(Declaration.from_json(content["declaration"]))
            yield Content(
                declaration,
                content["units"],
                content["columns"],
                content["forcefield"],
                count,
                self.table.paths[first],
            )

    def _naming_of(self, content: Mapping[str, Any]) -> Naming:
        """Return what is done to the names of inputs: by the rules that match them, and by a declaration."""
        numbers = tuple(content.get("rules", ()))
        if numbers not in self._namings:
            self._namings[numbers] = Naming.of(self._rules.by_rules(numbers), self._trimmed)
        return self._namings[numbers]

    def _misfits(self) -> Iterator[str]:
        """Yield inputs that do not follow the declaration that is given, and will be at fault."""
        for kind, (count, first) in self._kinds().items():
            declared = Declaration.from_json(self.contents[kind]["declaration"])
            try:
                Adapter(declared, self.declaration, self._naming_of(self.contents[kind]), None, self.units)
            except ContractError as error:
                more = f" and {count - 1:,} more like it" if count > 1 else ""
                yield f"{self.table.paths[first]}{more} will be at fault: {error}"

    def _missing(self, contents: list[Content]) -> Iterator[str]:
        """Yield what some inputs lack, those lacking in as many of them together."""
        if self.declaration is None or self.conflicts:
            return
        lacking: Counter[str] = Counter()
        for content in contents:
            fits = content.declaration.blocks.keys() <= self.declaration.blocks.keys()
            for part in missing_parts(content.declaration, self.declaration) if fits else ():
                block, _, key = part.rpartition("/")
                if self.naming.fill_of(block or None, key) is None:
                    lacking[part] += content.count
        total = sum(content.count for content in contents)
        for count in dict.fromkeys(lacking.values()):
            names = [name for name, found in lacking.items() if found == count]
            listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if names[_NAMED:] else "")
            verb = "is" if len(names) == 1 else "are"
            yield f"{listed} {verb} missing in {count:,} of {total:,} inputs"

    def _note(self, contents: list[Content]) -> None:
        silent = sum(content.count for content in contents if not content.units)
        if silent and self.settings.units is not None:
            self.notes.append(f"{silent:,} of the inputs state no units: taken as those of --units")
        converted = sum(c.count for c in contents if c.units and _differ(c.units, self.units))
        if converted:
            self.notes.append(f"{converted:,} of the inputs state other units: converted")
        fields = sum(content.count for content in contents if content.forcefield)
        if fields:
            self.notes.append(f"{fields:,} of the inputs have a force field of their own, which is left out")
        self.missing = list(self._missing(contents))
        self.notes += self.missing
        seen = {key for content in self.contents for key in content["declaration"]["meta"]}
        for content in self.contents:
            for name, block in content["declaration"]["blocks"].items():
                seen |= {name, *block["columns"], *(f"{name}/{key}" for key in block["columns"])}
        self.idle = [f"{text} fits no key, column or block of the frames" for text in self.naming.idle(seen)]
        self.notes += self.idle


def _differ(stated: Mapping[str, str], units: Mapping[str, str]) -> bool:
    """True if a unit is another; one that is not stated, or said in other words, is not."""
    return any(units.get(quantity, unit) != unit for quantity, unit in stated.items())


def _completed(declarations: list[Declaration], naming: Naming) -> Iterator[Declaration]:
    """Yield declarations with the columns and keys they lack and a value is given for by `--fill`."""
    keys: dict[str, MetaDeclaration] = {}
    columns: dict[str, dict[str, ColumnDeclaration]] = {}
    for declaration in declarations:
        for key, entry in declaration.meta.items():
            keys.setdefault(key, MetaDeclaration(entry.dtype, NO_FILL, entry.extra))
        for name, block in declaration.blocks.items():
            for key, column in block.columns.items():
                columns.setdefault(name, {}).setdefault(key, dataclasses.replace(column, nullable=False))
    filled = {key: entry for key, entry in keys.items() if naming.value_of(None, key, entry.dtype) is not None}
    for declaration in declarations:
        blocks = {}
        for name, block in declaration.blocks.items():
            given = {key: c for key, c in columns[name].items() if naming.value_of(name, key, c.dtype) is not None}
            blocks[name] = dataclasses.replace(block, columns=block.columns | {**given, **block.columns})
        meta = declaration.meta | {**filled, **declaration.meta} if declaration.blocks or declaration.meta else {}
        yield Declaration(blocks, meta, declaration.extra)


def read_declaration(path: str) -> tuple[Declaration, dict[str, str] | None]:
    """Return declaration and units in a file: a `sequence_schema`, or `{"sequence_schema": …, "units": …}`, or a
    collection.

    Raises `UsageError` where it is neither, `ContractError` for a declaration that breaks a rule.
    """
    where = Path(path)
    if not where.exists():
        raise MissingInputError(path)
    if where.name.endswith(".mrec.lmdb"):
        from molrec_convert.stores.lmdb.reader import open_collection

        with open_collection(where) as collection:
            return collection.declaration, dict(collection.units)
    try:
        document = read_json(where.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no declaration: it is not a JSON object")
    units = document.get("units") if "sequence_schema" in document else None
    if units is not None and not (isinstance(units, dict) and all(isinstance(u, str) for u in units.values())):
        raise UsageError(f"{path}: units are quantity → unit")
    stated = document.get("sequence_schema", document)
    if not (isinstance(stated, dict) and ("blocks" in stated or "meta" in stated)):
        raise UsageError(f"{path} holds no declaration: it names no blocks and no meta")
    return Declaration.from_json(stated), units
