"""The second lines of all frames of a file, as keys with their texts, frame by frame.

Lines that are written alike (the same keys in the same order, in the same forms) are taken apart by one expression
made from the first of them, so that a run of many thousand frames costs little more than finding its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.report import Report
from molrec_convert.text.contents import forget
from molrec_xyz.keyvalues import Pair, parse_line
from molrec_xyz.scan import HELD, FrameTable
from molrec_xyz.sniffing import is_extended

__all__ = ["CELL", "COLUMNS", "PERIODIC", "Headers", "Part", "read_headers"]

CELL, COLUMNS, PERIODIC = "Lattice", "Properties", "pbc"
_ROLES = {name.lower(): name for name in (CELL, COLUMNS, PERIODIC)}
_PLAIN_BARE = re.compile(r"""[^\s"'\[\]{}=,\\]+""")
_GROUPS = {
    "double": r'([^"\\]*(?:\\.[^"\\]*)*)',
    "single": r"([^']*)",
    "braces": r"([^{}]*)",
    "bare": r"""([^\s"'\[\]{}=,\\]+)""",
    "list": r'(\[[^\[\]"]*\])',
    "nested": r'(\[\s*\[[^"]*?\]\s*\])',
}
#: Expressions tried on a line before it is taken apart by itself.
_RECENT = 4


@dataclass(frozen=True)
class Part:
    """One key in frames that write it alike: their ordinals, the form, and the text in each."""

    frames: NDArray[np.int64]
    form: str
    raws: list[bytes]


@dataclass
class Headers:
    """What the second lines say: `comments` of plain frames by ordinal, `keys` of extended ones with their parts."""

    extended: NDArray[np.bool_]
    comments: dict[int, str] = field(default_factory=dict)
    keys: dict[str, list[Part]] = field(default_factory=dict)


@dataclass
class _Layout:
    """Lines that are written alike: keys and forms, the texts that are the same in all, and what the frames have."""

    expression: re.Pattern[bytes]
    pairs: list[tuple[str, str, bytes | None]]
    frames: list[int] = field(default_factory=list)
    texts: list[tuple[bytes, ...]] = field(default_factory=list)


def read_headers(path: Path, data: Any, table: FrameTable, report: Report) -> Headers:
    """The second lines of all frames. Bytes that are no UTF-8 are taken as Latin-1, with a warning."""
    headers = Headers(np.zeros(len(table), np.bool_))
    layouts: dict[bytes, _Layout] = {}
    recent: list[_Layout] = []
    last, known, forgotten = b"", None, 0
    starts, stops = table.header.tolist(), table.rows.tolist()
    for frame, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        line = data[start:stop].rstrip(b"\r\n")
        if stop - forgotten > HELD:
            forget(data, forgotten, start)
            forgotten = start
        if line == last and known is not None:
            known.frames.append(frame)
            known.texts.append(known.texts[-1])
            continue
        known = None
        for layout in recent:
            match = layout.expression.fullmatch(line)
            if match is not None:
                known = layout
                layout.frames.append(frame)
                layout.texts.append(match.groups())
                break
        else:
            if not is_extended(line):
                headers.comments[frame] = _decoded(line, path, int(table.line[frame]) + 1, report)
                continue
            known = _new_layout(line, path, int(table.line[frame]) + 1, layouts, report)
            match = known.expression.fullmatch(line)
            assert match is not None
            known.frames.append(frame)
            known.texts.append(match.groups())
            recent = [known, *(layout for layout in recent if layout is not known)][:_RECENT]
        last = line
    for layout in layouts.values():
        _collect(layout, headers)
    return headers


def _decoded(line: bytes, path: Path, number: int, report: Report) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        report.warn(f"{path}, line {number}: bytes that are no UTF-8 are taken as Latin-1, here and further on")
        return line.decode("latin-1")


def _new_layout(line: bytes, path: Path, number: int, layouts: dict[bytes, _Layout], report: Report) -> _Layout:
    text = _decoded(line, path, number, report)
    encoding = "utf-8" if text.encode() == line else "latin-1"
    pairs = parse_line(text)
    _report_oddities(pairs, path, number, report)
    at, expression = 0, ""
    fixed: list[tuple[str, str, bytes | None]] = []
    for pair in pairs:
        start, stop = pair.span
        group = _group(pair)
        if group is not None:
            expression += re.escape(text[at:start]) + group
            at = stop
        fixed.append((pair.key, pair.form, pair.raw.encode() if group is None else None))
    expression += re.escape(text[at:].rstrip()) + r"\s*"
    pattern = expression.encode(encoding)
    if pattern not in layouts:
        layouts[pattern] = _Layout(re.compile(pattern), fixed)
    return layouts[pattern]


def _group(pair: Pair) -> str | None:
    """What matches the text of a value that may be another in the next line; None where the line hangs on it."""
    if pair.form == "bare":
        return _GROUPS["bare"] if _PLAIN_BARE.fullmatch(pair.raw) else None
    if pair.form == "list":
        return next((g for g in (_GROUPS["list"], _GROUPS["nested"]) if re.fullmatch(g, pair.raw)), None)
    return _GROUPS.get(pair.form)


def _report_oddities(pairs: Iterable[Pair], path: Path, number: int, report: Report) -> None:
    there = [pair.key for pair in pairs]
    for key in sorted({key for key in there if there.count(key) > 1}):
        report.warn(f"{path}, line {number}: the key {key} comes more than once, the last one is taken")
    for key in there:
        role = _ROLES.get(key.lower())
        if role is not None and role != key and role not in there:
            report.warn(f"{path}, line {number}: {key} is taken as {role}, as it is spelt in the format")


def _collect(layout: _Layout, headers: Headers) -> None:
    frames = np.array(layout.frames, dtype=np.int64)
    headers.extended[frames] = True
    columns = iter(zip(*layout.texts, strict=True)) if layout.texts and layout.texts[0] else iter(())
    found: dict[str, Part] = {}
    there = {key for key, _, _ in layout.pairs}
    for key, form, fixed in layout.pairs:
        raws = list(next(columns)) if fixed is None else [fixed] * len(frames)
        role = _ROLES.get(key.lower())
        name = role if role is not None and role not in there else key
        found[name] = Part(frames, form, raws)
    for name, part in found.items():
        headers.keys.setdefault(name, []).append(part)
