"""The text of an mmCIF file: small categories read by gemmi at once, the loops of atoms a part at a time.

gemmi's document of a file takes some thirty times its size, so the long loops are left in the file. Their rows are
found by their lines: a part ends at the end of a line, and where rows do not end with lines, some lines later.
Source: S. R. Hall and others, CIF 1.1 syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gemmi

from molrec_convert.errors import FormatError
from molrec_convert.text.contents import Contents, forget

__all__ = ["MADE", "UNKNOWN", "CifText", "Table", "find_category", "made_items"]

#: The item of a block that names items of its atoms which were made, since readers ask for them.
MADE = "_molrec.made_of_atom_site"
#: The category of the rows, from 0, that have no value of an item.
UNKNOWN = "_molrec_unknown"

#: Characters of rows that are read at a time.
_PART = 2**20
#: A row may end so many lines later than a part does.
_MORE_LINES = 50
#: Categories whose loops stay in the file, and the item that stands for one.
_LONG = ("_atom_site.", "_atom_site_anisotrop.")
_SPAN = "molrec_span"
_NUMBER = re.compile("[0-9]{1,18}")
_HEAD = re.compile(rb"[ \t]*loop_[ \t\r]*\n((?:[ \t]*_atom_site(?:_anisotrop)?\.[^\s#'\"]+[ \t\r]*\n)+)", re.IGNORECASE)
#: What ends a loop, or is a text over several lines.
_END = re.compile(rb"\n[ \t]*(?:[_;]|(?:loop|data|save|global|stop)_)", re.IGNORECASE)


@dataclass
class _Span:
    """A loop that is left in the file: its items, where its rows are, and the line these begin in."""

    items: list[str]
    start: int
    stop: int
    line: int


def made_items(block: Any) -> frozenset[str]:
    """Return the items of the atoms of a block that were made, as it says."""
    made = block.find_value(MADE)
    return frozenset(str(gemmi.cif.as_string(made)).split() if made else ())


class Table:
    """The items of a category of a data block, which of them were made, which values are unknown; its rows in parts."""

    def __init__(self, text: CifText, block: Any, items: list[str], columns: Any, span: _Span | None) -> None:
        self.items = items
        self.made = made_items(block)
        unknown = [(str(row[0]), str(row[1])) for row in block.find(f"{UNKNOWN}.", ["item", "row"])]
        self.unknown = [(item, int(row)) for item, row in unknown if _NUMBER.fullmatch(row)]
        self._text, self._columns, self._span = text, columns, span

    def parts(self) -> Iterator[dict[str, list[str]]]:
        """Yield some rows at a time: item → texts, as they stand in the file."""
        if self._span is not None:
            yield from self._text.rows(self._span)
        elif self.items:
            yield {item: list(self._columns.column(place)) for place, item in enumerate(self.items)}


def find_category(path: Path, block: Any, category: str) -> Any:
    """Return gemmi's table of a category; FormatError where its loop has items of another one."""
    try:
        return block.find_mmcif_category(category)
    except RuntimeError as error:
        raise FormatError(path, found=str(error).rstrip("."), expected="items of one category") from None


class CifText:
    """A file: `document` has all of it but the long loops. FormatError names the line of what is no CIF."""

    def __init__(self, path: Path, contents: Contents) -> None:
        self.path, self._data = path, contents.data
        self._spans: list[_Span] = []
        # lines of the text that gemmi reads, and the lines of the file they are
        self._lines: list[tuple[int, int]] = [(1, 1)]
        self.document: Any = self._read(self._rest())

    def table(self, block: Any, category: str) -> Table:
        """Return the rows of a category; without items where the block has none."""
        found = find_category(self.path, block, category)
        items = [tag.partition(".")[2] for tag in found.tags]
        if items == [_SPAN]:
            number = str(found[0][0])
            if _NUMBER.fullmatch(number) and int(number) < len(self._spans):
                span = self._spans[int(number)]
                return Table(self, block, span.items, None, span)
        return Table(self, block, items if len(found) else [], found, None)

    def _rest(self) -> str:
        """Return the text without the rows of long loops, which the number of a span stands for."""
        data, pieces, done, line = self._data, [], 0, 1
        kept, texts = 1, 0
        at = data.find(_LONG[0][:-1].encode())
        while at >= 0:
            begin = data.rfind(b"\n", 0, max(data.rfind(b"\n", 0, at), 0)) + 1
            head = _HEAD.match(data, begin) if begin >= done else None
            before = data[done:begin] if head is not None else b""
            # a loop within a text is none
            inside = (texts + before.count(b"\n;") + before.startswith(b";")) % 2
            end = None if head is None or inside else _END.search(data, head.end() - 1)
            stop = len(data) if end is None else end.start() + 1
            if head is None or inside or (end is not None and end.group().lstrip() == b";"):
                at = data.find(_LONG[0][:-1].encode(), at + 1 if head is None else max(head.end(), stop))
                continue
            texts += before.count(b"\n;") + before.startswith(b";")
            items = [tag.decode("utf-8", "replace").partition(".") for tag in head[1].split()]
            line += before.count(b"\n")
            rows = line + data[begin : head.end()].count(b"\n")
            self._check_items(items[0][0], head.end(), rows)
            category = items[0][0] + "."
            marker = f"{category}{_SPAN} {len(self._spans)}\n".encode()
            pieces += [before, marker]
            self._spans.append(_Span([item for _, _, item in items], head.end(), stop, rows))
            kept += before.count(b"\n") + 1
            line = rows + self._count(head.end(), stop)
            self._lines.append((kept, line))
            done = stop
            at = data.find(_LONG[0][:-1].encode(), stop)
        pieces.append(data[done:])
        return b"".join(pieces).decode("utf-8", "replace")

    def _check_items(self, category: str, at: int, line: int) -> None:
        """Refuse an item of another category behind those of a loop of atoms."""
        text = self._data[at : min(self._line_end(at, len(self._data)), at + 80)].strip()
        if text.startswith(b"_"):
            raise FormatError(
                self.path, f"line {line}", found=f"{text.decode('utf-8', 'replace')} in a loop of {category}",
                expected="items of one category",
            )  # fmt: skip

    def _count(self, start: int, stop: int) -> int:
        """Return the number of lines that end in a part of the file."""
        count = 0
        for at in range(start, stop, _PART):
            count += self._data[at : min(at + _PART, stop)].count(b"\n")
            forget(self._data, at, min(at + _PART, stop))
        return count

    def _read(self, text: str, shift: int | None = None) -> Any:
        """Return a document of a text; `shift` lines of the file stand before its first, None where they are known."""
        try:
            return gemmi.cif.read_string(text)
        except Exception as error:
            where, _, what = str(error).splitlines()[0].removeprefix("string:").partition(": ")
            line = where.partition(":")[0]
        number = int(line) if line.isdigit() else None
        if number is not None:
            kept, own = max((pair for pair in self._lines if pair[0] <= number), default=(1, 1))
            number = number - kept + own if shift is None else number + shift
        raise FormatError(
            self.path, None if number is None else f"line {number}", found=what or where, expected="the syntax of CIF"
        )

    def rows(self, span: _Span) -> Iterator[dict[str, list[str]]]:
        """Yield the rows of a loop that was left in the file, in parts."""
        data, at, line = self._data, span.start, span.line
        head = "data_\nloop_\n" + "".join(f"_a.{item}\n" for item in span.items)
        before = head.count("\n")
        while at < span.stop:
            stop = self._line_end(min(at + _PART, span.stop), span.stop)
            for more in range(_MORE_LINES):
                rows = data[at:stop]
                last = stop == span.stop or more == _MORE_LINES - 1
                try:
                    document = self._read(head + rows.decode("utf-8", "replace"), line - before - 1)
                    break
                except FormatError:
                    if last:
                        raise
                    stop = self._line_end(stop, span.stop)
            table = document[0].find_mmcif_category("_a.")
            if len(table):
                yield {item: list(table.column(place)) for place, item in enumerate(span.items)}
            line += rows.count(b"\n")
            forget(data, at, stop)
            at = stop

    def _line_end(self, at: int, stop: int) -> int:
        """Return the end of the line at a place."""
        found = self._data.find(b"\n", at, stop)
        return stop if found < 0 else found + 1
