"""Statistics as a PNG picture: the elements and every histogram, drawn by matplotlib."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molrec_convert.errors import UnsupportedError
from molrec_convert.inspect.stats.sections import entries, facts, headline

__all__ = ["save_picture"]

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
    """A text without what matplotlib takes for mathematics."""
    return text.replace("$", r"\$")
