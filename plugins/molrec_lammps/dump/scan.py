"""The index pass over small frames: whole blocks are searched for headers with numpy.

A frame's header is told by its ITEM lines; what differs from frame to frame (step, cell, time, count) is read from
the bytes between them. Anything unusual is a `Doubt`, which the exact pass settles.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_lammps.common.triclinic import restricted_cell, undo_bounds
from molrec_lammps.dump.exact import Doubt, check_rows, rows_end, truncation, unstated_boundary
from molrec_lammps.dump.frames import FileIndex, FrameTable
from molrec_lammps.dump.header import CutHeader, Header, layout_of_box, read_header
from molrec_lammps.dump.source import LineReader, Source, TextSource

__all__ = ["scan_index"]

_BLOCK_BYTES = 2**22
#: Longest header that is told whole across the edge of two blocks.
_OVERLAP = 2**16
_DIGITS = 18
_POWERS = 10 ** np.arange(_DIGITS - 1, -1, -1, dtype=np.int64)

_ITEM = int.from_bytes(b"ITEM: ", "little")
_TIMESTEP, _NUMBER, _BOX, _ATOMS, _TIME, _UNITS = range(6)
_WORDS = {
    _TIMESTEP: b"TIMESTEP",
    _NUMBER: b"NUMBER O",
    _BOX: b"BOX BOUN",
    _ATOMS: b"ATOMS",
    _TIME: b"TIME\n",
    _UNITS: b"UNITS\n",
}
_PATTERNS = (
    (_TIMESTEP, _NUMBER, _BOX, _ATOMS),
    (_TIME, _TIMESTEP, _NUMBER, _BOX, _ATOMS),
    (_UNITS, _TIMESTEP, _NUMBER, _BOX, _ATOMS),
    (_UNITS, _TIME, _TIMESTEP, _NUMBER, _BOX, _ATOMS),
)

Integers = NDArray[np.int64]


@dataclass
class _Block:
    """Frames whose header begins in one block. `head` counts in `heads`: the bytes from NUMBER to BOX, and ATOMS."""

    start: Integers
    rows: Integers
    step: Integers
    items: Integers
    head: Integers
    box: Integers
    heads: list[tuple[bytes, bytes]] = field(default_factory=list)
    boxes: list[bytes] = field(default_factory=list)
    times: list[bytes] = field(default_factory=list)
    units: list[tuple[int, bytes]] = field(default_factory=list)


def scan_index(source: Source) -> FileIndex:
    """The frames of one file. `Doubt`: something is not as LAMMPS writes it."""
    if source.sequential or (source.size or 0) <= _BLOCK_BYTES:
        blocks = [_scan(text, base, own, last) for text, base, own, last in _windows(source)]
    else:
        # numpy lets go of the interpreter, and so does reading: two threads are almost twice as fast
        with ThreadPoolExecutor(2) as pool:
            size = source.size or 0
            starts = range(0, size, _BLOCK_BYTES)
            blocks = list(pool.map(lambda start: _scan_at(source, start, size), starts))
    return _assemble(source, [block for block in blocks if len(block.start)])


def _scan_at(source: Source, start: int, size: int) -> _Block:
    base = max(0, start - _OVERLAP)
    text = source.read(base, start + _BLOCK_BYTES + _OVERLAP)
    return _scan(text, base, start, start + _BLOCK_BYTES >= size)


def _windows(source: Source) -> Iterator[tuple[bytes, int, int, bool]]:
    """Text, its offset, where the block's own part begins, and whether it is the last: one after the other."""
    start, last = 0, False
    while not last:
        base = max(0, start - _OVERLAP)
        text = source.read(base, start + _BLOCK_BYTES + _OVERLAP)
        last = base + len(text) <= start + _BLOCK_BYTES
        yield text, base, start, last
        start += _BLOCK_BYTES


def _scan(text: bytes, base: int, own: int, last: bool) -> _Block:
    """The frames whose first item lies in `own : own + _BLOCK_BYTES` of a text that begins at `base`."""
    at, kind = _items(text, base, last)
    ends = np.flatnonzero(kind == _ATOMS)
    first = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64) if len(ends) else ends
    mine = (at[first] + base >= own) & (at[first] + base < own + _BLOCK_BYTES)
    rest = at[ends[-1] + 1 :] if len(ends) else at
    if ((rest + base >= own) & (rest + base < own + _BLOCK_BYTES)).any():
        raise Doubt
    first, ends = first[mine], ends[mine]
    lengths = ends - first + 1
    known = np.zeros(len(ends), dtype=np.bool_)
    for pattern in _PATTERNS:
        which = np.flatnonzero(lengths == len(pattern))
        known[which] |= (kind[first[which, None] + np.arange(len(pattern))] == pattern).all(axis=1)
    if not known.all():
        raise Doubt
    block = _Block(at[first] + base, at[ends], np.zeros(0, np.int64), lengths, np.zeros(0, np.int64), ends * 0)
    if len(ends):
        _read_steps(block, text, at[ends - 3], at[ends - 2])
        _read_heads(block, text, at[ends - 2], at[ends - 1], at[ends])
        _read_extras(block, text, at, kind, first)
    block.rows += base
    return block


def _items(text: bytes, base: int, last: bool) -> tuple[Integers, Integers]:
    """Places and kinds of the ITEM lines of a text; what stands at its very edges belongs to other blocks."""
    data = np.frombuffer(text, dtype=np.uint8)
    none = np.zeros(0, dtype=np.int64)
    if len(data) < 32:
        if b"ITEM:" in text:
            raise Doubt
        return none, none
    hits = data == ord("I")
    whole = len(data) // 8 * 8
    words = np.flatnonzero(hits[:whole].view(np.uint64) != 0)
    row, byte = np.nonzero(hits[:whole].reshape(-1, 8)[words])
    at = (words[row] * 8 + byte).astype(np.int64)
    at = at[(at <= len(data) - 16) & (at >= min(base, 1))]
    lanes = _lanes(text)
    at = at[(lanes[at] & np.uint64(0xFFFFFFFFFFFF)) == _ITEM]
    before = data[np.maximum(at - 1, 0)]
    if not ((before == ord("\n")) | (at + base == 0)).all():
        raise Doubt
    kind = np.full(len(at), -1, dtype=np.int64)
    values = lanes[at + 6]
    for number, word in _WORDS.items():
        mask = np.uint64(256 ** len(word) - 1)
        kind[(values & mask) == int.from_bytes(word, "little")] = number
    if (kind < 0).any() or (last and b"ITEM:" in text[len(data) - 16 :]):
        raise Doubt
    return at, kind


def _lanes(text: bytes) -> NDArray[np.uint64]:
    """Eight bytes from every place of a text on, as numbers."""
    return np.ndarray((len(text) - 7,), dtype="<u8", buffer=text, strides=(1,))


def _read_steps(block: _Block, text: bytes, timestep: Integers, number: Integers) -> None:
    """The step numbers: the digits between the end of the TIMESTEP line and the NUMBER line."""
    data = np.frombuffer(text, dtype=np.uint8)
    begin, end = timestep + len("ITEM: TIMESTEP\n"), number - 1
    length = end - begin
    if (data[begin - 1] != ord("\n")).any() or (length < 1).any() or (length > _DIGITS).any():
        raise Doubt
    places = end[:, None] - np.arange(_DIGITS, 0, -1)
    digits = data[np.maximum(places, 0)] - np.uint8(ord("0"))
    digits[places < begin[:, None]] = 0
    if (digits > 9).any():
        raise Doubt
    block.step = digits.astype(np.int64) @ _POWERS


def _read_heads(block: _Block, text: bytes, number: Integers, bounds: Integers, atoms: Integers) -> None:
    """Count, box line, cell and column names. Where the bytes equal those of the first frame they are its own."""
    frames = len(atoms)
    stop = text.find(b"\n", int(atoms[0])) + 1
    if not stop:
        raise Doubt
    length, heading = stop - int(number[0]), stop - int(atoms[0])
    places = np.append(np.arange(0, length - 8, 8), length - 8)
    lanes = _lanes(text)
    same = np.zeros(frames, dtype=np.bool_)
    fits = np.flatnonzero((atoms - number == atoms[0] - number[0]) & (number + length <= len(text)))
    same[fits] = (lanes[number[fits, None] + places] == lanes[number[0] + places]).all(axis=1)
    block.head, block.box = np.zeros(frames, dtype=np.int64), np.zeros(frames, dtype=np.int64)
    block.rows = atoms + heading
    heads: dict[tuple[bytes, bytes], int] = {}
    boxes: dict[bytes, int] = {}
    for frame in [0, *np.flatnonzero(~same).tolist()]:
        n, b, a = int(number[frame]), int(bounds[frame]), int(atoms[frame])
        box, end = text.find(b"\n", b) + 1, text.find(b"\n", a) + 1
        if not box or not end:
            raise Doubt
        block.head[frame] = heads.setdefault((text[n:box], text[a:end]), len(heads))
        block.box[frame] = boxes.setdefault(text[box:a], len(boxes))
        block.rows[frame] = end
    block.heads, block.boxes = list(heads), list(boxes)


def _read_extras(block: _Block, text: bytes, at: Integers, kind: Integers, first: Integers) -> None:
    """Values of the TIME and UNITS items."""
    for place in np.flatnonzero(block.items > 4).tolist():
        item = int(first[place])
        for number in range(item, item + int(block.items[place]) - 4):
            begin = text.index(b"\n", int(at[number])) + 1
            value = text[begin : int(at[number + 1])]
            if value.count(b"\n") != 1:
                raise Doubt
            if kind[number] == _UNITS:
                block.units.append((place, value))
            else:
                block.times.append(value)


def _assemble(source: Source, blocks: list[_Block]) -> FileIndex:
    """The index from the frames of all blocks."""
    if not blocks or blocks[0].start[0] != 0:
        raise Doubt
    heads: dict[tuple[bytes, bytes], int] = {}
    boxes: dict[tuple[bytes, bytes], int] = {}
    head, box = [], []
    for block in blocks:
        numbers = np.array([heads.setdefault(key, len(heads)) for key in block.heads], dtype=np.int64)
        head.append(numbers[block.head])
        pairs, inverse = np.unique(block.head * len(block.boxes) + block.box, return_inverse=True)
        bounds = [_box_line(key) for key in block.heads]
        cells = [
            boxes.setdefault((bounds[h], block.boxes[b]), len(boxes))
            for h, b in zip(*np.divmod(pairs, len(block.boxes)), strict=True)
        ]
        box.append(np.array(cells, dtype=np.int64)[inverse])
    samples = dict(boxes.keys())
    headers = [_header(source, key, samples[_box_line(key)]) for key in heads]
    vectors, origin, boundary = _cells(list(boxes))
    layouts: dict[tuple[str, ...], int] = {}
    layout = np.array([layouts.setdefault(header.columns, len(layouts)) for header in headers], dtype=np.int64)
    which = np.concatenate(head)
    start, rows, step, items = (
        np.concatenate([getattr(block, name) for block in blocks]) for name in ("start", "rows", "step", "items")
    )
    count = np.array([header.count for header in headers], dtype=np.int64)[which]
    lines = 2 * items + 1
    line = 1 + np.cumsum(lines + count) - count
    size = source.size if source.size is not None else rows[-1]
    table = FrameTable(
        start,
        rows,
        np.append(start[1:], size),
        line,
        step,
        count,
        layout[which],
        np.concatenate(box),
        np.zeros(len(start), dtype=np.int64),
        _times(blocks),
        tuple(layouts),
        vectors,
        origin,
        boundary,
        (source,),
    )
    index = _without_cut_frame(source, table, headers[int(which[-1])])
    _add_units(index, blocks, start, line - lines)
    unstated = np.array([layout_of_box(header.box_words)[1] is None for header in headers])[which]
    if unstated.any():
        index.warnings.append(unstated_boundary(source, int(unstated.sum()), int(step[unstated.argmax()])))
    return index


def _box_line(head: tuple[bytes, bytes]) -> bytes:
    """The BOX line of a head."""
    return head[0][head[0].rindex(b"ITEM:") :]


def _header(source: Source, head: tuple[bytes, bytes], box: bytes) -> Header:
    """A distinct header, read by the exact reader."""
    text = b"ITEM: TIMESTEP\n0\n" + head[0] + box + head[1]
    try:
        return read_header(LineReader(TextSource(source.path, text)))
    except CutHeader:
        raise Doubt from None


def _cells(boxes: list[tuple[bytes, bytes]]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Vectors, origins and boundaries of cells given by their BOX line and the three lines after it."""
    kinds: dict[str, list[int]] = {}
    boundary = np.ones((len(boxes), 3), dtype=np.bool_)
    for number, (line, text) in enumerate(boxes):
        kind, periodic = layout_of_box(tuple(line.decode("latin-1").split()[3:]))
        kinds.setdefault(kind, []).append(number)
        if periodic is not None:
            boundary[number] = periodic
        width = {"plain": 2, "tilted": 3, "general": 4}[kind]
        if [len(row.split()) for row in text.split(b"\n")] != [width, width, width, 0] or b"_" in text:
            raise Doubt
    vectors, origin = np.empty((len(boxes), 3, 3)), np.empty((len(boxes), 3))
    for kind, numbers in kinds.items():
        values = _floats(b" ".join(boxes[number][1] for number in numbers)).reshape(len(numbers), 3, -1)
        if kind == "general":
            vectors[numbers], origin[numbers] = values[:, :, :3].transpose(0, 2, 1), values[:, :, 3]
        elif kind == "tilted":
            low, high = undo_bounds(values[:, :, 0], values[:, :, 1], values[:, :, 2])
            vectors[numbers], origin[numbers] = restricted_cell(low, high, values[:, :, 2])
        else:
            vectors[numbers], origin[numbers] = restricted_cell(values[:, :, 0], values[:, :, 1])
        if kind != "general" and (vectors[numbers].diagonal(axis1=1, axis2=2) < 0).any():
            raise Doubt
    return vectors, origin, boundary


def _times(blocks: list[_Block]) -> NDArray[np.float64]:
    """The TIME values of all frames, NaN where there is none."""
    timed, texts = [], []
    for block in blocks:
        has_units = np.zeros(len(block.start), dtype=np.int64)
        has_units[[place for place, _ in block.units]] = 1
        timed.append(block.items - has_units > 4)
        texts += block.times
    result = np.full(sum(len(block.start) for block in blocks), np.nan)
    if any(len(text.split()) != 1 or b"_" in text for text in texts):
        raise Doubt
    result[np.concatenate(timed)] = _floats(b" ".join(texts))
    return result


def _floats(text: bytes) -> NDArray[np.float64]:
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        raise Doubt from None
    if not np.isfinite(values).all():
        raise Doubt
    return values


def _without_cut_frame(source: Source, table: FrameTable, last: Header) -> FileIndex:
    """The index, without the last frame where the text ends inside it."""
    end = rows_end(source, int(table.rows[-1]))
    if end.item:
        raise Doubt
    notes: list[str] = []
    reader = LineReader(source, int(table.rows[-1]), int(table.line[-1]))
    header = replace(last, rows=int(table.rows[-1]), step=int(table.step[-1]))
    fault = check_rows(reader, header, end, notes)
    table.stop[-1] = end.stop
    if fault is not None:
        table = table.take(slice(0, -1))
    if not len(table):
        raise Doubt
    return FileIndex(table, truncated=truncation(source, [] if fault is None else [fault]), warnings=notes)


def _add_units(index: FileIndex, blocks: list[_Block], start: Integers, line: Integers) -> None:
    before = 0
    for block in blocks:
        for place, value in block.units:
            if before + place < len(index.table):
                index.units.append((value.decode("latin-1").strip(), int(line[before + place])))
        before += len(block.start)
