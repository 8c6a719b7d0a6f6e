"""Statistics as lines of text, histograms as rows of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from molrec_convert.inspect.stats.sections import entries, facts, headline, number_text
from molrec_convert.inspect.summary.words import brief

__all__ = ["statistics_lines"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH, _TEXTS = 30, 6


def statistics_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The whole document, a few lines for everything that was looked at."""
    yield headline(document)
    yield f"units: {', '.join(f'{key} {unit}' for key, unit in document['units'].items()) or 'none stated'}"
    yield from _elements(document["elements"])
    before = ""
    for section, name, entry in entries(document):
        if section != before:
            yield from ("", section)
            before = section
        yield f"  {brief(name)}: {facts(entry)}"
        if "histogram" in entry:
            yield from _histogram(entry["histogram"])
        if entry.get("most_frequent"):
            shown = list(entry["most_frequent"].items())[:_TEXTS]
            listed = ", ".join(f"{brief(text) or repr(text)} ({count:,})" for text, count in shown)
            yield f"    {listed}{', …' if entry['different'] > len(shown) else ''}"


def _elements(table: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    if not table:
        return
    yield from ("", "elements")
    total = sum(entry["atoms"] for entry in table.values())
    for name, entry in table.items():
        part = entry["atoms"] / total
        bar = "█" * round(part * _WIDTH)
        counts = f"{entry['atoms']:>14,} atoms {part:>7.2%}  in {entry['records']:>11,} records"
        yield f"  {brief(name):<6} {counts}  {bar}".rstrip()


def _histogram(histogram: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """One row of blocks: any bin that has a value shows at least the lowest."""
    counts, edges = histogram["counts"], histogram["edges"]
    most = max(counts)
    row = "".join(_BLOCKS[0 if not n else max(1, round(n / most * 8))] for n in counts)
    yield f"    {number_text(edges[0])} |{row}| {number_text(edges[-1])}   at most {most:,}"
