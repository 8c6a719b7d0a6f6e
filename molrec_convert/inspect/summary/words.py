"""The words of a summary: one row for each thing a person wants to know, from the document of `summarize`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Row",
    "brief",
    "bytes_words",
    "forcefield_row",
    "formula",
    "one_line",
    "summary_rows",
    "text_lines",
]

_RELATIONS = ("bonds", "angles", "dihedrals", "impropers", "pairs", "exclusions", "constraints")


@dataclass(frozen=True)
class Row:
    """One line of a summary with its label, and lines that say more."""

    label: str
    text: str
    more: tuple[str, ...] = ()


def summary_rows(summary: Mapping[str, Any]) -> list[Row]:
    """Return the lines of a summary, from the document `summarize` makes."""
    rows = [Row("record", _title(summary))]
    rows.append(Row("units", _units(summary["units"])))
    for section in ("system", "frame"):
        if summary[section] is not None:
            rows.append(_frame_row(section, summary[section]))
    if summary["trajectory"] is not None:
        rows.extend(_trajectory_rows(summary["trajectory"]))
    if summary["forcefield"] is not None:
        rows.append(forcefield_row(summary["forcefield"]))
    if summary["observables"]:
        results = [_observable_words(name, entry) for name, entry in summary["observables"].items()]
        rows.append(Row("observables", results[0], tuple(results[1:])))
    if summary["method"] is not None:
        rows.append(Row("method", _method(summary["method"])))
    if summary["status"] is not None:
        rows.append(Row("status", str(summary["status"].get("state"))))
    if summary["metrics"]:
        curves = [_curve_words(key, entry) for key, entry in summary["metrics"].items()]
        rows.append(Row("metrics", curves[0], tuple(curves[1:])))
    if summary["meta"]:
        facts = [f"{key}: {brief(value)}" for key, value in summary["meta"].items()]
        rows.append(Row("meta", facts[0], tuple(facts[1:])))
    if summary["unknown"]:
        rows.append(Row("also", f"{', '.join(summary['unknown'])} (kept as it is)"))
    return rows


def text_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows as plain text, labels in a column of their own."""
    width = max(len(row.label) for row in rows)
    for row in rows:
        yield f"{row.label:<{width}}  {row.text}".rstrip()
        yield from (f"{'':<{width}}  {line}" for line in row.more)


def _title(summary: Mapping[str, Any]) -> str:
    version = summary["molrec_version"]
    creator = summary["creator"]
    parts = [] if summary["path"] is None else [os.path.basename(os.path.normpath(summary["path"]))]
    foreign = bool(parts) and summary["bytes"] is None
    parts.append("read as MolRec" if foreign else "MolRec" if version is None else f"MolRec {version}")
    if isinstance(creator, dict):
        parts.append(f"written by {creator.get('name')} {creator.get('version') or ''}".rstrip())
    if summary["bytes"] is not None:
        parts.append(bytes_words(summary["bytes"]))
    return ", ".join(parts)


def bytes_words(size: float) -> str:
    """Return a number of bytes as a person reads it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:,.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return ""


def _units(units: Any) -> str:
    if units is None:
        return "not stated"
    if isinstance(units, dict) and set(units) == {"preset"}:
        return str(units["preset"])
    if isinstance(units, dict) and all(isinstance(unit, str) for unit in units.values()):
        return ", ".join(f"{quantity}: {unit}" for quantity, unit in units.items())
    return units if isinstance(units, str) else brief(units)


def _frame_row(section: str, document: Mapping[str, Any]) -> Row:
    blocks = document["blocks"]
    counts = [_count(blocks["atoms"]["rows"], "atom")] if "atoms" in blocks else []
    counts += [_count(blocks[name]["rows"], name[:-1]) for name in _RELATIONS if name in blocks]
    more = []
    if document["elements"]:
        untold = blocks["atoms"]["rows"] - sum(document["elements"].values())
        rest = f", {_count(untold, 'atom')} of no stated element" if untold else ""
        more.append(f"elements  {formula(document['elements'])}{rest}")
    if document["types"]:
        shown = list(document["types"].items())
        listed = ", ".join(f"{name} ({count:,})" for name, count in shown[:8])
        more.append(f"types     {listed}{', …' if len(shown) > 8 else ''}")
    if document["box"] is not None:
        more.append(f"box       {_box_words(document['box'])}")
    for name, block in blocks.items():
        shape = block.get("structural_shape")
        rows = _count(block["rows"], "row") if shape is None else " × ".join(map(str, shape))
        more.append(f"{name}: {rows}; {_columns(block['columns'])}")
    more += [f"{key}: {brief(value)}" for key, value in document["meta"].items() if key != "units"]
    return Row(section, ", ".join(counts) or "no atoms", tuple(more))


def formula(elements: Mapping[str, int]) -> str:
    """Return the composition in Hill order: with carbon, C and H first; all else by the alphabet."""
    first = ("C", "H") if "C" in elements else ()
    symbols = [*(s for s in first if s in elements), *sorted(s for s in elements if s not in first)]
    return "".join(f"{symbol or '?'}{elements[symbol] if elements[symbol] > 1 else ''}" for symbol in symbols)


def _trajectory_rows(document: Mapping[str, Any]) -> list[Row]:
    frames = document["frames"]
    text = "frames not counted before they are read" if frames is None else _count(frames, "frame")
    for name in ("step", "time"):
        if document[name] is not None:
            text += f", {name} {_range_words(document[name])}"
    more = []
    if document["box"] is not None:
        more.append(f"box       {_box_words(document['box'])}, in the first frame")
    for name, block in document["blocks"].items():
        rows = "" if block["rows"] is None else f"{_count(block['rows'], 'row')}; "
        if block.get("first_rows") is not None:
            rows = f"{_count(block['first_rows'], 'row')} in the first frame, {block['rows']:,} in the last; "
        aligned = f"; rows of {block['aligned_with']}" if "aligned_with" in block else ""
        more.append(f"{name}: {rows}{_columns(block['columns'])}{aligned}")
    summaries = [Row("trajectory", text, tuple(more))]
    if document["values"]:
        values = [_value_words(key, value, frames) for key, value in document["values"].items()]
        summaries.append(Row("per step", values[0], tuple(values[1:])))
    return summaries


def forcefield_row(document: Mapping[str, Any]) -> Row:
    """Return the line of a force field, from its summary."""
    text = f"{document['name']}, units {_units(document['units'])}"
    if document["definitions"] != 1:
        text += f", definitions {document['definitions']}"
    more = [f"{name}: {_count(rows, 'row')}" for name, rows in document["styles"].items()]
    if document["other_blocks"]:
        more.append(f"also {', '.join(document['other_blocks'])}")
    return Row("force field", text, tuple(more))


def _observable_words(name: str, entry: Mapping[str, Any]) -> str:
    shape = "".join(f"[{n}]" for n in entry["shape"])
    unit = f" in {entry['unit']}" if isinstance(entry.get("unit"), str) else ""
    words = f"{brief(entry['description'])}, {entry['kind']} {entry['dtype']}{shape}{unit}"
    return f"{one_line(name)}: {one_line(words)}"


def _curve_words(key: str, entry: Mapping[str, Any]) -> str:
    text = f"{one_line(key)}: {_count(entry['count'], 'value')}"
    if entry["value"] is None:
        return text
    step = "" if entry["step"] is None else f" at step {entry['step']:,}"
    return f"{text}, {_number(entry['value'])}{step}"


def _value_words(key: str, value: Mapping[str, Any], frames: int | None) -> str:
    if frames == 0:
        return f"{key} ({value['dtype']})"
    first = f"{key}: {brief(value['first'])}"
    return first if frames in (None, 1) else f"{first} → {brief(value['last'])}"


def _range_words(values: Mapping[str, Any]) -> str:
    if values["last"] is None:
        return f"from {values['first']}"
    if values["first"] == values["last"]:
        return str(values["first"])
    stride = "" if values["stride"] is None else f" every {values['stride']:.10g}"
    return f"{values['first']} to {values['last']}{stride}"


def _columns(columns: Mapping[str, Any]) -> str:
    """Return columns of one kind together: `x y z f64 (precision 0.001), id u64`."""
    kinds: dict[str, list[str]] = {}
    for name, column in columns.items():
        kind = column["dtype"] + "".join(f"[{n}]" for n in column["trailing"])
        if column.get("precision") is not None:
            kind += f" (precision {column['precision']!r})"
        kinds.setdefault(kind, []).append(name)
    return ", ".join(f"{' '.join(names)} {kind}" for kind, names in kinds.items()) or "no columns"


def _box_words(box: Mapping[str, Any]) -> str:
    if not box["defined"]:
        return "no cell"
    text = " × ".join(_number(length) for length in box["lengths"])
    if any(angle != 90 for angle in box["angles"]):
        text += f", angles {' '.join(_number(angle) for angle in box['angles'])}"
    periodic = "".join(axis for axis, flag in zip("xyz", box["boundary"], strict=True) if flag)
    return f"{text}, {f'periodic in {periodic}' if periodic else 'not periodic'}"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float)) else str(value)


def _method(method: Mapping[str, Any]) -> str:
    engine = method.get("engine")
    name = f"{engine.get('name', '')} {engine.get('version') or ''}".strip() if isinstance(engine, dict) else ""
    facts = [str(method[key]) for key in ("type", "description") if method.get(key)]
    return ", ".join(part for part in (name, *facts) if part)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def one_line(text: str) -> str:
    """Return a text that stays on its line."""
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False)


def brief(value: Any) -> str:
    """Return a value as text, shortened."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 72 else text[:71] + "…"
