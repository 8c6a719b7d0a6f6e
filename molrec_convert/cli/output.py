"""What every command says, on its way to the terminal: control characters of names and values are shown, not sent.

A name of a stranger's file may hold escape sequences, which a terminal obeys, line ends, and characters that turn the
direction of what follows. Nothing else in this folder writes to the streams.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

import click

__all__ = ["print_json", "print_json_text", "print_lines", "show_warning", "shown", "tell"]

#: Controls but the tab, what is invisible and turns or joins text, ends of lines, tags.
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)


def shown(text: str) -> str:
    r"""Return a text of one line with what a terminal would obey as an escape: `\x1b`, `\n`, `\u202e`."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def print_lines(lines: Iterable[str]) -> None:
    """Lines on stdout, as they come."""
    write = sys.stdout.write
    for line in lines:
        write(f"{shown(line)}\n")


def print_json(document: Any) -> None:
    """Print a JSON document on stdout."""
    print_json_text(json.dumps(document, ensure_ascii=False, indent=2))


def print_json_text(text: str) -> None:
    """JSON on stdout; what a terminal would obey is an escape JSON knows."""
    lines = (_UNSAFE.sub(_json_escape, line) for line in text.split("\n"))
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def tell(text: str, label: str = "", colour: str | None = None) -> None:
    """One line on stderr, after a label in its colour."""
    start = f"{click.style(label, fg=colour)}: " if label else ""
    click.echo(f"{start}{shown(text)}", err=True)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print what a library warns of, in the place of `warnings.showwarning`."""
    tell(" ".join(str(message).split()), category.__name__, "yellow")


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]
