"""Statistics as one HTML page with drawings of its own: nothing is fetched, no script runs."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from molrec_convert.inspect.stats.sections import entries, facts, headline, number_text

__all__ = ["statistics_page"]

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
_WIDTH, _HEIGHT = 320, 96


def statistics_page(document: Mapping[str, Any]) -> str:
    """The whole page."""
    title = html.escape(headline(document))
    units = ", ".join(f"{html.escape(key)} {html.escape(unit)}" for key, unit in document["units"].items())
    body = [f"<h1>{title}</h1>", f"<p>Units: {units or 'none stated'}</p>", *_elements(document["elements"])]
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


def _elements(table: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
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
    """Bars over their range; each has its range and count as a tooltip."""
    counts, edges = histogram["counts"], histogram["edges"]
    most, width = max(counts), _WIDTH / len(counts)
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
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT + 18}' role='img' aria-label='histogram from {low} to {high}'>"
        f"{''.join(bars)}<line x1='0' y1='{_HEIGHT}' x2='{_WIDTH}' y2='{_HEIGHT}'/>"
        f"<text x='0' y='{_HEIGHT + 14}'>{low}</text>"
        f"<text x='{_WIDTH}' y='{_HEIGHT + 14}' text-anchor='end'>{high}</text></svg>"
    )
