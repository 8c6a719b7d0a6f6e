"""What a person wants to see of a collection first, as data, text and HTML.

The key `meta` and the index are looked at, and the force field; of the records nothing. Texts of an index that is
large are not read.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from molrec_convert.inspect.summary.record import forcefield_summary
from molrec_convert.inspect.summary.words import Row, brief, bytes_words, forcefield_row, one_line
from molrec_convert.model.collection.collection import Collection, CollectionView
from molrec_convert.model.dtypes import distinct
from molrec_convert.model.frame import Column

__all__ = ["collection_html", "collection_rows", "summarize_collection"]

#: Texts of the index are read up to this many records, and so many different ones are listed.
_FEW_ROWS, _FEW_TEXTS = 100_000, 6


def summarize_collection(collection: Collection) -> dict[str, Any]:
    """Return the summary as a JSON document."""
    index = collection.index
    path = collection.path
    whole = collection
    while isinstance(whole, CollectionView):
        whole = whole.source
    forcefield = collection.forcefield
    document = collection.document
    atoms = index["n_atoms"]
    return {
        "kind": "collection",
        "path": path,
        "bytes": _bytes(whole),
        "files": getattr(whole, "n_parts", 1) if path is not None else None,
        "molrec_version": document.get("molrec_version"),
        "units": collection.units,
        "records": len(collection),
        "records_in_file": len(whole),
        "frames": collection.n_frames,
        "without_trajectory": int(np.count_nonzero(~index["has_trajectory"])),
        "atoms": {"least": int(atoms.min()), "most": int(atoms.max())} if len(atoms) else None,
        "blocks": {name: block.to_json() for name, block in collection.declaration.blocks.items()},
        "values": {key: entry.dtype for key, entry in collection.declaration.meta.items()},
        "index": {name: _column(index.columns[name]) for name in collection.index_columns},
        "forcefield": None if forcefield is None else forcefield_summary(forcefield),
        "document": {key: value for key, value in document.items() if key not in ("molrec_version", "units")},
        "unknown": [key.decode("utf-8", "backslashreplace") for key, _ in collection.unknown_values()],
    }


def collection_rows(summary: Mapping[str, Any]) -> list[Row]:
    """Return the lines of a summary, from the document `summarize_collection` makes."""
    rows = [Row("collection", _title(summary))]
    rows.append(Row("units", ", ".join(f"{key}: {unit}" for key, unit in summary["units"].items()) or "none stated"))
    rows.append(Row("records", _records(summary)))
    blocks = [
        f"{name}: {', '.join(_declared(key, column) for key, column in block['columns'].items()) or 'no columns'}"
        for name, block in summary["blocks"].items()
    ]
    if blocks or summary["values"]:
        values = [f"per step: {', '.join(f'{key} ({tag})' for key, tag in summary['values'].items())}"]
        lines = [*blocks, *(values if summary["values"] else [])]
        rows.append(Row("frames", lines[0], tuple(lines[1:])))
    if summary["index"]:
        lines = [f"{name}: {_index_words(entry)}" for name, entry in summary["index"].items()]
        rows.append(Row("index", lines[0], tuple(lines[1:])))
    if summary["forcefield"] is not None:
        rows.append(forcefield_row(summary["forcefield"]))
    if summary["document"]:
        lines = [f"{key}: {brief(value)}" for key, value in summary["document"].items()]
        rows.append(Row("document", lines[0], tuple(lines[1:])))
    if summary["unknown"]:
        rows.append(Row("also", f"{', '.join(summary['unknown'])} (kept as it is)"))
    return [Row(row.label, one_line(row.text), tuple(map(one_line, row.more))) for row in rows]


def collection_html(collection: Collection) -> str:
    """Return the summary as an HTML table, for notebooks."""
    cells = []
    for row in collection_rows(summarize_collection(collection)):
        text = "<br>".join(html.escape(line) for line in (row.text, *row.more))
        cells.append(f"<tr><th style='text-align:left'>{html.escape(row.label)}</th><td>{text}</td></tr>")
    return f"<table class='molrec'>{''.join(cells)}</table>"


def _bytes(collection: Collection) -> int | None:
    """Return bytes of the file, or of all files of a set."""
    path = collection.path
    nbytes: int | None = getattr(collection, "nbytes", None)
    if nbytes is None and path is not None and os.path.isfile(path):
        nbytes = os.path.getsize(path)
    return nbytes


def _column(column: Column) -> dict[str, Any]:
    """dtype, number of nulls, and the range of numbers or the most frequent texts."""
    document: dict[str, Any] = {"dtype": column.dtype}
    mask = column.validity
    if mask is not None:
        document["nulls"] = int(np.count_nonzero(~mask))
    if column.trailing or (column.dtype == "string" and len(column) > _FEW_ROWS):
        return document
    values = column.values if mask is None else column.values[mask]
    if not len(values) or column.dtype in ("c64", "c128"):
        return document
    if column.dtype == "bool":
        document["true"] = int(np.count_nonzero(values))
    elif column.dtype == "string":
        found, _, counts = distinct(values)
        order = np.argsort(-counts, kind="stable")[:_FEW_TEXTS]
        document["different"] = len(found)
        document["most_frequent"] = {str(found[n]): int(counts[n]) for n in order}
    else:
        known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
        if len(known):
            document["least"], document["most"] = (_finite(known.min().item()), _finite(known.max().item()))
    return document


def _finite(value: Any) -> Any:
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _title(summary: Mapping[str, Any]) -> str:
    parts = [] if summary["path"] is None else [os.path.basename(summary["path"])]
    parts.append(f"MolRec {summary['molrec_version']}")
    if summary["bytes"] is not None:
        parts.append(bytes_words(summary["bytes"]))
    if (summary["files"] or 1) > 1:
        parts.append(f"{summary['files']:,} files")
    return ", ".join(parts)


def _records(summary: Mapping[str, Any]) -> str:
    count, whole = summary["records"], summary["records_in_file"]
    text = f"{count:,}" + (f" of {whole:,}" if whole != count else "")
    text += f", {summary['frames']:,} frame{'' if summary['frames'] == 1 else 's'}"
    if summary["without_trajectory"]:
        text += f", {summary['without_trajectory']:,} without a trajectory"
    atoms = summary["atoms"]
    if atoms is not None:
        low, high = atoms["least"], atoms["most"]
        each = " each" if count > 1 else ""
        text += f", {high:,} atom{'' if high == 1 else 's'}{each}" if low == high else f", {low:,} to {high:,} atoms"
    return text


def _declared(name: str, column: Mapping[str, Any]) -> str:
    shape = "".join(f"[{n}]" for n in column["trailing"])
    precision = f", precision {column['precision']}" if "precision" in column else ""
    return f"{name} ({column['dtype']}{shape}{precision})"


def _index_words(entry: Mapping[str, Any]) -> str:
    words = [entry["dtype"]]
    if "least" in entry:
        words.append(f"{entry['least']} to {entry['most']}" if entry["least"] != entry["most"] else str(entry["least"]))
    if "true" in entry:
        words.append(f"{entry['true']:,} true")
    if "different" in entry:
        shown = entry["most_frequent"]
        listed = ", ".join(f"{brief(text) or repr(text)} ({count:,})" for text, count in shown.items())
        words.append(listed + (", …" if entry["different"] > len(shown) else ""))
    if entry.get("nulls"):
        words.append(f"{entry['nulls']:,} null")
    return ", ".join(words)
