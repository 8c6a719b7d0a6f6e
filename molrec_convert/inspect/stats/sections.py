"""The document of a collection's statistics in the order it is shown: titles, facts, histograms."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from molrec_convert.inspect.summary.words import bytes_words

__all__ = ["entries", "facts", "headline", "number_text"]

_SECTIONS = {"index": "index", "frame_values": "frames", "system_values": "system"}


def headline(document: Mapping[str, Any]) -> str:
    """One line that says what it is of."""
    name = "collection" if document["path"] is None else os.path.basename(document["path"])
    size = "" if document["bytes"] is None else f", {bytes_words(document['bytes'])}"
    counts = ", ".join(f"{document[key]:,} {key}" for key in ("records", "frames", "atoms"))
    return f"{name}: {counts}{size}"


def entries(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Section, name and distribution of everything that was looked at."""
    yield "records", "atoms per record", document["atoms_per_record"]
    yield "records", "frames per record", document["frames_per_record"]
    for key, section in _SECTIONS.items():
        for name, entry in document[key].items():
            yield section, name, entry


def facts(entry: Mapping[str, Any]) -> str:
    """Range, mean and spread, or how many texts there are; nulls and NaN."""
    words = [entry["dtype"]] if "dtype" in entry else []
    if "least" in entry:
        words.append(f"{number_text(entry['least'])} to {number_text(entry['most'])}")
        words.append(f"mean {number_text(entry['mean'])} ± {number_text(entry['deviation'])}")
    if "different" in entry:
        words.append(f"{entry['different']:,} different")
    words.append(f"{entry['count']:,} value{'' if entry['count'] == 1 else 's'}")
    for key, noun in (("nulls", "null"), ("nan", "NaN"), ("infinite", "infinite")):
        if key in entry:
            words.append(f"{entry[key]:,} {noun}")
    return ", ".join(words)


def number_text(value: Any) -> str:
    """A number as a person reads it."""
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else f"{value:.6g}"
