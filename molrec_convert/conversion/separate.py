"""The records of a collection one by one, each under a numbered name of its own beside the name asked for."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Iterator
from pathlib import Path

from molrec_convert.conversion.collecting import standing_alone
from molrec_convert.formats import Format
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.record import Record
from molrec_convert.report import Report

__all__ = ["numbered", "records_of"]

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


def numbered(target: Path, number: int, count: int, chosen: Format) -> Path:
    """The name of one of `count` records: the number, with as many digits as the last has, before the suffix."""
    name, suffix = target.name, ""
    for ending in _COMPRESSED:
        if name.lower().endswith(ending):
            name, suffix = name[: -len(ending)], name[-len(ending) :]
    endings = [
        pattern[1:]
        for pattern in chosen.patterns
        if pattern.startswith("*.") and fnmatch.fnmatch(name.lower(), pattern.lower())
    ]
    length = max((len(ending) for ending in endings), default=len(Path(name).suffix))
    stem, ending = (name[:-length], name[-length:]) if length else (name, "")
    return target.with_name(f"{stem}-{number:0{len(str(max(count - 1, 0)))}d}{ending}{suffix}")


def records_of(
    collection: Collection, target: Path, chosen: Format, report: Report
) -> Iterator[tuple[Path, Callable[[], Record]]]:
    """The name of each record, and what opens it as it stands alone; closing it leaves the collection open."""
    count = len(collection)
    for number in range(count):

        def opened(number: int = number) -> Record:
            return dataclasses.replace(standing_alone(collection, number, report), _close=None)

        yield numbered(target, number, count, chosen), opened
