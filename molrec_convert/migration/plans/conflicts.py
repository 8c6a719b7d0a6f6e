"""What the inputs do not agree on, all at once, and the option that settles each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from molrec_convert.migration.inputs.names import Naming
from molrec_convert.model.declaration import BlockDeclaration, Declaration, MetaDeclaration
from molrec_convert.model.declaration_joining import has_to_be_there
from molrec_convert.quantities.standard import NamedFactors

__all__ = ["Conflict", "Content", "conflict_texts", "declaration_conflicts", "unit_conflicts"]

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
    """What keeps the declarations from being one."""
    known = list(contents)
    return [*_key_conflicts(known, naming), *_block_conflicts(known, naming)]


def unit_conflicts(
    contents: Iterable[Content], target: Mapping[str, str] | None, dimensions: Mapping[str, str] | None = None
) -> list[Conflict]:
    """Units that are not known, differ without a target, or cannot be converted to it.

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
    """What a missing value may be given as; an empty text is one, too."""
    known = list(dtypes)
    if any(dtype.startswith("f") for dtype in known):
        return "NaN"
    return "" if known == ["string"] else "VALUE"


def _variants(groups: Mapping[str, list[Content]]) -> str:
    return ", ".join(f"{text} in {_who(group)}" for text, group in groups.items())
