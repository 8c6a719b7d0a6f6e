"""Many small files read in one go: their texts one after another are a file of the same kind.

Only where each of them would be read to the same end alone: all frames are extended, or all plain; they have the same
columns and the same keys, every value of a key would be of the same dtype by itself, second lines that are plain state
nothing but text, and all labels are elements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from molrec_convert.formats import NotBatchable, ReadContext
from molrec_convert.model import Declaration, Frame
from molrec_convert.model.collection.collection import Collection
from molrec_convert.quantities.elements import NUMBERS
from molrec_convert.report import Report
from molrec_convert.text.compression import compression_of
from molrec_convert.text.contents import Contents
from molrec_xyz.collection import XyzCollection
from molrec_xyz.headers import COLUMNS, INTEGER, Headers, Part, read_headers
from molrec_xyz.per_step import KeyFault, per_step, read_cells, reads_as_real
from molrec_xyz.plugin import XyzOptions
from molrec_xyz.reader import Reader
from molrec_xyz.record import (
    _STEPS,
    _TIMES,
    UNITS_ARE_OPEN,
    _layouts,
    _per_frame,
    _sampled_words,
    is_of_names,
    states_facts,
)
from molrec_xyz.scan import FrameTable, scan_frames
from molrec_xyz.trajectory import Source, plan_places, species_kind

__all__ = ["read_joined"]

#: Texts are in memory together.
_MOST_BYTES = 2**25
_BOM = b"\xef\xbb\xbf"
_WHOLE = re.compile(INTEGER.encode())


class _Texts(Contents):
    """Joined texts in the place of a file's contents."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.cut, self.data = path, None, data


def read_joined(paths: Sequence[Path], context: ReadContext) -> tuple[Collection, list[int]] | None:
    """Return the records of all files and how many are of each; None where they are to be read one by one.

    Raises `NotBatchable` for those that are, and `FormatError` for one that is at fault, whose line is counted through
    all of them.
    """
    texts = [_text(path) for path in paths]
    if sum(map(len, texts)) > _MOST_BYTES:
        return None
    odd = [number for number, text in enumerate(texts) if not _is_plain(text)]
    if odd:
        raise NotBatchable(odd)
    data = b"".join(texts)
    table = scan_frames(paths[0], data)
    starts = np.cumsum([0, *map(len, texts)])[:-1]
    counts = _counts(table, starts)
    if counts is None:
        return None
    path, report = paths[0], context.report
    options = context.options if isinstance(context.options, XyzOptions) else XyzOptions()
    mark = report.mark()
    headers = read_headers(path, data, table, report)
    plain = bool(headers.comments)
    if not _alike(headers, len(table)) or (plain and report.mark() != mark):
        return None
    layouts, layout_of = _layouts(path, data, table, headers, context.hints, report)
    cells = read_cells(path, headers, table, report)
    if len(layouts) != 1 or cells.periodic:
        return None
    reader = Reader(path, data, table, layouts, layout_of)
    words = _sampled_words(reader)
    if not words or any(word not in NUMBERS for word in words):
        return None
    kind = species_kind(words, False, options.species, False, report)
    places = plan_places(layouts, [2], path, kind, options, context.hints, report)
    per_frame = _per_frame(path, headers, cells, table, options, report)
    meta = {key: declared for key, (declared, _) in per_frame.meta.items()}
    system = Frame()
    if options.units is not None:
        system.meta.put("units", {"preset": options.units}, "json")
    elif plain:
        report.warn(UNITS_ARE_OPEN)
    source = Source(reader, places, per_frame, options.species)
    collection = XyzCollection(source, Declaration({}, meta), system, _Texts(path, data))
    if plain:
        # nothing is said of them but what each would say
        collection.reports = [_taken(report, mark)] * len(paths)
    return collection, counts


def _taken(report: Report, mark: tuple[int, int, int]) -> Report:
    """Return what a report says since a mark, which it forgets."""
    taken = Report()
    items, warnings, truncations = mark
    taken.extend(Report(report.items[items:], report.warnings[warnings:], report.truncations[truncations:]))
    report.rewind(mark)
    return taken


def _text(path: Path) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _is_plain(text: bytes) -> bool:
    """True if a text ends with its last line, and begins with a frame."""
    return text[-1:] == b"\n" and text[:3] != _BOM and compression_of(text) is None


def _counts(table: FrameTable, starts: NDArray[np.int64]) -> list[int] | None:
    """Return the frames of each file, where frames fill all of them and none reaches into the next."""
    if table.rest is not None or table.short is not None or table.blanks or table.vectors or not len(table):
        return None
    begins = np.concatenate([[0], table.end[:-1]])
    first = np.searchsorted(begins, starts)
    if first[-1] >= len(begins) or (begins[first] != starts).any() or table.end[-1] <= starts[-1]:
        return None
    counts: list[int] = np.diff(np.append(first, len(table))).tolist()
    return counts


def _alike(headers: Headers, frames: int) -> bool:
    """True if every frame has the same keys, and the values of each would have one dtype in any of them alone."""
    if headers.comments:
        texts = headers.comments.values()
        return len(texts) == frames and not any(states_facts(text) or is_of_names(text) for text in texts)
    if {*_STEPS, *_TIMES} & headers.keys.keys():
        return False
    for key, parts in headers.keys.items():
        if sum(len(part.frames) for part in parts) != frames:
            return False
        if key in ("Lattice", "pbc", "Origin", COLUMNS):
            continue
        try:
            declared = per_step(key, parts, frames).declared
        except KeyFault:
            return False  # read by itself, the frame tells where
        plain = declared.dtype == "f64" and all(part.form == "bare" for part in parts)
        if plain and (reads_as_real(key) or not any(_WHOLE.fullmatch(raw) for part in parts for raw in part.raws)):
            continue
        one = np.zeros(1, np.int64)
        forms = {(part.form, raw) for part in parts for raw in part.raws}
        if any(per_step(key, [Part(one, form, [raw])], 1).declared != declared for form, raw in forms):
            return False
    return True
