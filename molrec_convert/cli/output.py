"""What commands print, errors as one sentence, and exit codes. Nothing else in this folder writes to the streams.

Control characters are shown, not sent: a name in a stranger's file may hold escape sequences, which a terminal obeys,
line ends, and characters that turn the direction of the text.
"""

from __future__ import annotations

import errno
import json
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

import click

from molrec_convert.errors import ContractError, LossError, MolrecError, PluginError, UnsupportedError, UsageError

__all__ = [
    "BROKEN_PIPE",
    "DONE",
    "FAULT",
    "INTERRUPTED",
    "LOSSY",
    "SOME_FAILED",
    "USAGE",
    "exit_code",
    "print_error",
    "print_json",
    "print_json_text",
    "print_lines",
    "print_message",
    "sentence",
    "show_warning",
    "shown",
]

#: Controls but the tab, what is invisible and turns or joins text, ends of lines, tags.
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)


def shown(text: str) -> str:
    r"""Return one line of text with what a terminal would obey escaped: `\x1b`, `\n`, `\u202e`."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout, as they come."""
    write = sys.stdout.write
    for line in lines:
        write(f"{shown(line)}\n")


def print_json(document: Any) -> None:
    """Print a JSON document on stdout."""
    print_json_text(json.dumps(document, ensure_ascii=False, indent=2))


def print_json_text(text: str) -> None:
    """Print JSON on stdout; what a terminal would obey is escaped as JSON does."""
    lines = (_UNSAFE.sub(_json_escape, line) for line in text.split("\n"))
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def print_message(text: str, label: str = "", colour: str | None = None) -> None:
    """Print one line on stderr, after a label in its colour."""
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
    """Print the warning of a library, in place of `warnings.showwarning`."""
    print_message(" ".join(str(message).split()), category.__name__, "yellow")


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


DONE = 0
#: An input or a record is at fault, or the system refuses (no permission, a full disk).
FAULT = 1
USAGE = 2
#: Refused: something would be lost.
LOSSY = 3
#: Some of several inputs failed; the others are done.
SOME_FAILED = 4
INTERRUPTED = 130
BROKEN_PIPE = 141

#: How many letters of a sentence are shown: what a file holds may be of any length.
_LONGEST = 2000

_REMEDIES = {
    errno.ENOSPC: "free some space, then {again}",
    errno.EDQUOT: "free some space, then {again}",
    errno.EIO: "check the disk, then {again}",
    errno.EFBIG: "raise the limit with 'ulimit -f', or name a place where files may be larger",
    errno.EACCES: "check its permissions, or name another place",
    errno.EPERM: "check its permissions, or name another place",
    errno.EROFS: "name a place that can be written",
    errno.EMFILE: "raise the limit with 'ulimit -n'",
}


def exit_code(error: BaseException) -> int:
    """Return the exit code an error ends the program with."""
    if isinstance(error, UsageError):
        return USAGE
    return LOSSY if isinstance(error, LossError) else FAULT


def sentence(error: BaseException, place: str = "", *, again: str = "try again") -> str:
    """Return an error in one sentence: what is wrong, where, and what to do.

    `place` is where, in case the error does not say; `again` says how to go on once the cause is gone. An error inside
    a record names only the node.
    """
    if isinstance(error, Exception) and not isinstance(error, (MolrecError, OSError)):
        from molrec_convert.plugins import plugin_fault

        error = plugin_fault(error) or error
    if isinstance(error, PluginError):
        text = f"{error} (MOLREC_TRACEBACK=1 shows where)"
    elif isinstance(error, MolrecError):
        text = str(error)
        if isinstance(error, (ContractError, UnsupportedError)) and not any(name in text for name in place.split(", ")):
            text = f"{place}: {text}"
    elif isinstance(error, OSError) and error.errno is not None:
        where = error.filename2 or error.filename or place
        reason = (error.strerror or "the system refuses").lower()
        text = f"{where}: {reason}" if where else reason
        remedy = _REMEDIES.get(error.errno)
        text = f"{text}; {remedy.format(again=again)}" if remedy else text
    elif isinstance(error, MemoryError):
        text = f"{place or 'this'} needs more memory than there is"
    elif isinstance(error, OSError):
        text = str(error)
    else:
        text = (
            f"an error in this program, please report it: {type(error).__name__}: {error} "
            "(MOLREC_TRACEBACK=1 shows where)"
        )
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


def print_error(text: str) -> None:
    """Print one sentence on stderr."""
    print_message(f"mrec: {' '.join(text.split())}")
