"""The document of a collection's statistics in the order it is shown: titles, facts, histograms."""

from __future__ import annotations

import html
import importlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_convert.inspect.summary.words import brief, bytes_words

__all__ = ["entries", "facts", "headline", "number_text", "save_picture", "statistics_lines", "statistics_page"]

_SECTIONS = {"index": "index", "frame_values": "frames", "system_values": "system"}


def headline(document: Mapping[str, Any]) -> str:
    """Return one line that says what it is of."""
    name = "collection" if document["path"] is None else os.path.basename(document["path"])
    size = "" if document["bytes"] is None else f", {bytes_words(document['bytes'])}"
    counts = ", ".join(f"{document[key]:,} {key}" for key in ("records", "frames", "atoms"))
    return f"{name}: {counts}{size}"


def entries(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield section, name and distribution of everything that was looked at."""
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
    """Return a number as a person reads it."""
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else f"{value:.6g}"


_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH, _TEXTS = 30, 6


def statistics_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the whole document, a few lines for everything that was looked at."""
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
    """Yield one row of blocks: any bin that has a value shows at least the lowest."""
    counts, edges = histogram["counts"], histogram["edges"]
    most = max(counts)
    row = "".join(_BLOCKS[0 if not n else max(1, round(n / most * 8))] for n in counts)
    yield f"    {number_text(edges[0])} |{row}| {number_text(edges[-1])}   at most {most:,}"


_COLUMNS, _MOST = 3, 60


def save_picture(document: Mapping[str, Any], path: Path) -> None:
    """Draw the document to a PNG file. Raises `UnsupportedError` where matplotlib is not installed."""
    try:
        figures: Any = importlib.import_module("matplotlib.figure")
    except ModuleNotFoundError:
        raise UnsupportedError(
            "pictures need matplotlib, which is not installed: pip install 'molrec-convert[plots]'; "
            "--html writes a page without it"
        ) from None
    drawn = [(section, name, e) for section, name, e in entries(document) if "histogram" in e][:_MOST]
    count = len(drawn) + bool(document["elements"])
    rows = max(math.ceil(count / _COLUMNS), 1)
    figure = figures.Figure(figsize=(4.2 * _COLUMNS, 2.6 * rows + 0.6), layout="constrained", dpi=110)
    figure.suptitle(_plain(headline(document)))
    axes = [figure.add_subplot(rows, _COLUMNS, n + 1) for n in range(count)]
    if document["elements"]:
        axis = axes.pop(0)
        table = list(document["elements"].items())[:20]
        axis.bar([_plain(name) for name, _ in table], [entry["atoms"] for _, entry in table])
        axis.set_title("atoms by element", fontsize=9)
    for axis, (section, name, entry) in zip(axes, drawn, strict=True):
        edges, counts = entry["histogram"]["edges"], entry["histogram"]["counts"]
        axis.stairs(counts, edges, fill=True)
        axis.set_title(_plain(f"{section}: {name}"), fontsize=9)
        axis.set_xlabel(_plain(facts(entry).partition(", mean")[0]), fontsize=7)
    for axis in figure.axes:
        axis.tick_params(labelsize=7)
    figure.savefig(path, format="png", metadata={"Software": None})


def _plain(text: str) -> str:
    """Return a text without what matplotlib takes for mathematics."""
    return text.replace("$", r"\$")


_STYLE = """
:root { color-scheme: light dark; --bar: #3b6ea5; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem; }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem; overflow-wrap: anywhere; }
.card h3 { font-size: 1rem; margin: 0; } .card p { margin: .1rem 0 .5rem; opacity: .75; font-size: .85rem; }
svg { width: 100%; height: auto; display: block; } svg rect { fill: var(--bar); }
svg text { font-size: 11px; fill: currentColor; } svg line { stroke: var(--line); }
@media (prefers-color-scheme: dark) { :root { --bar: #7fb0e6; } }
"""
_PLOT_WIDTH, _HEIGHT = 320, 96


def statistics_page(document: Mapping[str, Any]) -> str:
    """Return the whole page."""
    title = html.escape(headline(document))
    units = ", ".join(f"{html.escape(key)} {html.escape(unit)}" for key, unit in document["units"].items())
    body = [f"<h1>{title}</h1>", f"<p>Units: {units or 'none stated'}</p>", *_elements_table(document["elements"])]
    before = ""
    for section, name, entry in entries(document):
        if section != before:
            body += ["</div>"] if before else []
            body += [f"<h2>{section.capitalize()}</h2>", "<div class='cards'>"]
            before = section
        body += _card(name, entry)
    body.append("</div>")
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _elements_table(table: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    if not table:
        return
    total = sum(entry["atoms"] for entry in table.values())
    yield "<h2>Elements</h2><table><tr><th>element</th><th>atoms</th><th>part</th><th>records</th></tr>"
    for name, entry in table.items():
        cells = (f"{entry['atoms']:,}", f"{entry['atoms'] / total:.2%}", f"{entry['records']:,}")
        numbers = "".join(f"<td class='n'>{cell}</td>" for cell in cells)
        yield f"<tr><td>{html.escape(name)}</td>{numbers}</tr>"
    yield "</table>"


def _card(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    yield f"<div class='card'><h3>{html.escape(name)}</h3><p>{html.escape(facts(entry))}</p>"
    if "histogram" in entry:
        yield _drawing(entry["histogram"])
    if entry.get("most_frequent"):
        rows = (
            f"<tr><td>{html.escape(text) or '(empty)'}</td><td class='n'>{count:,}</td></tr>"
            for text, count in entry["most_frequent"].items()
        )
        yield f"<table>{''.join(rows)}</table>"
    yield "</div>"


def _drawing(histogram: Mapping[str, Sequence[Any]]) -> str:
    """Return bars over their range; each has its range and count as a tooltip."""
    counts, edges = histogram["counts"], histogram["edges"]
    most, width = max(counts), _PLOT_WIDTH / len(counts)
    bars = []
    for n, count in enumerate(counts):
        if not count:
            continue
        height = max(count / most * _HEIGHT, 1)
        about = f"{number_text(edges[n])} to {number_text(edges[n + 1])}: {count:,}"
        place = (
            f"x='{n * width:.2f}' y='{_HEIGHT - height:.2f}' width='{max(width - 1, 0.5):.2f}' height='{height:.2f}'"
        )
        bars.append(f"<rect {place}><title>{about}</title></rect>")
    low, high = number_text(edges[0]), number_text(edges[-1])
    return (
        f"<svg viewBox='0 0 {_PLOT_WIDTH} {_HEIGHT + 18}' role='img' aria-label='histogram from {low} to {high}'>"
        f"{''.join(bars)}<line x1='0' y1='{_HEIGHT}' x2='{_PLOT_WIDTH}' y2='{_HEIGHT}'/>"
        f"<text x='0' y='{_HEIGHT + 14}'>{low}</text>"
        f"<text x='{_PLOT_WIDTH}' y='{_HEIGHT + 14}' text-anchor='end'>{high}</text></svg>"
    )
