"""The fidelity report: what became of every item of a source.

Importers and exporters record each item as *carried*, *converted* (how), *derived* (from what) or *dropped* (why).
The command line prints the last two, `--report FILE` writes everything, `--strict` refuses what is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Fate", "Item", "Report", "shape_of"]


def shape_of(text: str) -> str:
    """Return a text without its numbers and what stands in quotes or parentheses: texts of one shape say the same."""
    return re.sub(r"\d+(\.\d+)?", "#", re.sub(r"'[^']*'|\([^()]*\)", "…", text))


class Fate(StrEnum):
    """What became of an item of the source."""

    CARRIED = "carried"
    CONVERTED = "converted"
    DERIVED = "derived"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Item:
    """One item of a source: its name (`Velocities`, `trajectory/atoms/x`), its fate, and how or why."""

    fate: Fate
    name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.fate}: {self.name}" + (f" ({self.detail})" if self.detail else "")


def _last(name: str) -> str:
    """Return the last part of a node's path: `pe` of `trajectory/meta/pe`."""
    return name.rpartition("/")[2]


def _called(item: Item) -> set[str]:
    """Return what a record calls an item of a source: its own name, and `x y z` of one that is carried "as x y z"."""
    words = item.detail.partition(";")[0].partition(" (")[0].split()
    return {_last(item.name), *(words[1:] if words[:1] == ["as"] else ())}


@dataclass
class Report:
    """All items of one conversion, its warnings, and the places where a source broke off.

    Items are kept in the order of their arrival; the same item recorded again is kept once.
    """

    items: list[Item] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    truncations: list[str] = field(default_factory=list)
    #: How many records and frames were written, where that is known.
    records: int | None = None
    frames: int | None = None
    _seen: set[Item] = field(default_factory=set, repr=False)

    def carried(self, name: str, detail: str = "") -> None:
        """Record an item that is in the target as it was in the source."""
        self.add(Item(Fate.CARRIED, name, detail))

    def converted(self, name: str, detail: str) -> None:
        """Record an item that is in the target in another form; `detail` says how."""
        self.add(Item(Fate.CONVERTED, name, detail))

    def derived(self, name: str, detail: str) -> None:
        """Record what the target states and the source does not; `detail` says what it was derived from."""
        self.add(Item(Fate.DERIVED, name, detail))

    def dropped(self, name: str, detail: str) -> None:
        """Record an item that the target does not hold; `detail` says why."""
        self.add(Item(Fate.DROPPED, name, detail))

    def warn(self, text: str) -> None:
        """Record what the user should read, though nothing is lost."""
        if text not in self.warnings:
            self.warnings.append(text)

    def truncated(self, text: str) -> None:
        """Record that a source ends in the middle of an item; what was whole before it is in the target."""
        if text not in self.truncations:
            self.truncations.append(text)

    def mark(self) -> tuple[int, int, int]:
        """Return where the report stands now, for `rewind`."""
        return len(self.items), len(self.warnings), len(self.truncations)

    def rewind(self, mark: tuple[int, int, int]) -> None:
        """Remove what was recorded since `mark`, by a reading that was given up."""
        items, warnings, truncations = mark
        self._seen.difference_update(self.items[items:])
        del self.items[items:], self.warnings[warnings:], self.truncations[truncations:]

    def of(self, fate: Fate) -> Iterator[Item]:
        """Return the items of one fate, in order; what a writer drops of what a reader carried is not carried."""
        gone = {_last(item.name) for item in self.items if item.fate is Fate.DROPPED}
        return (i for i in self.items if i.fate is fate and not (fate is Fate.CARRIED and _called(i) & gone))

    @property
    def lossy(self) -> bool:
        """Whether anything was dropped or cut off."""
        return bool(self.truncations) or any(True for _ in self.of(Fate.DROPPED))

    def losses(self) -> list[str]:
        """Return one line for each thing that is not in the target."""
        return [*self.truncations, *(str(item) for item in self.of(Fate.DROPPED))]

    def to_json(self) -> dict[str, Any]:
        """Return the whole report as a JSON document: one list of `{name, detail}` per fate, warnings, truncations."""
        document: dict[str, Any] = {
            fate.value: [{"name": item.name, "detail": item.detail} for item in self.of(fate)] for fate in Fate
        }
        document["warnings"] = list(self.warnings)
        document["truncated"] = list(self.truncations)
        return document

    def extend(self, other: Report) -> None:
        """Add all that another report says."""
        for item in other.items:
            self.add(item)
        for text in other.warnings:
            self.warn(text)
        for text in other.truncations:
            self.truncated(text)

    def add(self, item: Item) -> None:
        """Record an item as it is, once."""
        if item not in self._seen:
            self._seen.add(item)
            self.items.append(item)
