"""Sections of type labels, and sections kept as text: small ones, read line by line."""

from __future__ import annotations

from dataclasses import dataclass

from molrec_convert.errors import FormatError
from molrec_lammps.common.text import Buffer, brief, decode, lines_of, split_comment
from molrec_lammps.data.sections import Section

__all__ = ["RawSection", "label_comments", "raw_section", "read_labels"]


@dataclass(frozen=True)
class RawSection:
    """A section kept as text: its name, the comment after the name, the line of its first row, its rows."""

    name: str
    hint: str | None
    line: int
    rows: int
    text: str

    def lines(self) -> list[str]:
        """The rows, without the ends of their lines."""
        return [line.rstrip("\r") for line in self.text.removesuffix("\n").split("\n")]


def read_labels(path: str, data: Buffer, section: Section | None) -> tuple[bytes, ...]:
    """The labels of types 1, 2, … Every type must have one, and no two the same."""
    if section is None:
        return ()
    labels: dict[int, bytes] = {}
    for row, line in enumerate(lines_of(section.text(data))):
        where = f"line {section.line + row}"
        words = split_comment(line)[0].split()
        expected = f"a type from 1 to {section.rows} and its label"
        if len(words) != 2 or not words[0].isdigit() or not 1 <= int(words[0]) <= section.rows:
            raise FormatError(path, where, found=brief(line) if line.strip() else "a blank line", expected=expected)
        if words[1][:1].isdigit() or words[1][:1] in (b"*", b"#"):
            raise FormatError(
                path, where, found=f"the label {brief(words[1])}", expected="one that begins with no digit, * or #"
            )
        if int(words[0]) in labels or words[1] in labels.values():
            raise FormatError(
                path, where, found=brief(line), expected=f"each type and each label once in {section.name}"
            )
        labels[int(words[0])] = words[1]
    return tuple(labels[number] for number in sorted(labels))


def label_comments(data: Buffer, section: Section | None) -> list[str]:
    """The comments behind the labels of types 1, 2, …, `""` for none; empty where no label has one."""
    if section is None:
        return []
    rows = [split_comment(line) for line in lines_of(section.text(data))]
    said = {int(text.split()[0]): decode(comment or b"").strip() for text, comment in rows}
    return [said[number] for number in sorted(said)] if any(said.values()) else []


def raw_section(data: Buffer, section: Section) -> RawSection:
    """The text of a section."""
    return RawSection(section.name, section.hint, section.line, section.rows, decode(section.text(data)))
