"""Inputs that could not be read, and warnings of others: what is written of each, and how an error becomes that."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from molrec_convert.errors import MolrecError, UnsupportedError
from molrec_convert.formats import Format
from molrec_convert.migration.checked_lines import read_lines, write_lines
from molrec_convert.plugins import plugin_fault
from molrec_convert.report import shape_of

__all__ = [
    "CUT_OFF",
    "WARNING",
    "Failure",
    "error_document",
    "failure_entry",
    "failure_text",
    "is_error",
    "join_failures",
    "read_failures",
    "remarks_of",
    "warning_document",
    "write_failures",
]

#: An error `{"type", "error", …}`, or of an input that was migrated a warning `{"level", "type", "warning"}`.
Failure = dict[str, Any]
#: Types of warnings: something the user should read, and an input that ends in the middle of a frame.
WARNING, CUT_OFF = "Warning", "CutOff"
#: So many kinds of warnings are told apart.
_MOST_KINDS = 500


def error_document(error: Exception, path: str = "", chosen: Format | None = None) -> Failure:
    """Return an error as a document: its type, its sentence; of an error in the program also where it was.

    `path` and `chosen` say which input was read, and of which format.
    """
    told = plugin_fault(error, [] if chosen is None else [(chosen, f"reading {path}", [path])])
    if told is not None:
        where = {} if isinstance(told, UnsupportedError) else {"traceback": traceback.format_exception(error)[-3:]}
        return {"type": type(told).__name__, "error": " ".join(str(told).split()), **where}
    if isinstance(error, OSError) and not isinstance(error, MolrecError):
        reason = (error.strerror or str(error)).lower()
        text = f"{error.filename}: {reason}" if error.filename else reason
    else:
        text = " ".join(str(error).split()) or type(error).__name__
    document: Failure = {"type": type(error).__name__, "error": text}
    if not isinstance(error, (MolrecError, OSError)):
        document["traceback"] = traceback.format_exception(error)[-3:]
    return document


def warning_document(kind: str, text: str) -> Failure:
    """Return a warning of an input that was migrated as a document; `kind` is its type."""
    return {"level": "warning", "type": kind, "warning": " ".join(text.split())}


def is_error(failure: Failure) -> bool:
    """True if it says of an input, or of a record in it, that it was left out."""
    return failure.get("level") != "warning"


def failure_text(path: str, failure: Failure) -> str:
    """One sentence with the input's name in it, once."""
    text: str = failure["error"] if is_error(failure) else failure["warning"]
    return text if path in text else f"{path}: {text}"


def failure_entry(path: str, failure: Failure) -> dict[str, Any]:
    """Return one line of the file of failures as a document."""
    return {"path": path, "level": "error", **failure}


def write_failures(path: Path, failures: Iterable[tuple[str, Failure]]) -> int:
    """Write the file anew; without a failure or a warning there is none. Returns how many there are."""
    return write_lines(path, (failure_entry(where, failure) for where, failure in failures)).count


def read_failures(path: Path) -> Iterator[tuple[str, Failure]]:
    """Yield path and document of each line of a file of failures; nothing where there is none.

    Raises `FormatError` where it is damaged.
    """
    for entry in read_lines(path, "remove it, and what it said is not known any more"):
        yield entry.pop("path"), entry


def join_failures(sources: Iterable[Path], target: Path) -> None:
    """Write what the files of several collections say in one, that of the collection they are merged into."""
    write_failures(target, (entry for source in sources for entry in read_failures(source)))


def remarks_of(failures: Iterable[tuple[str, Failure]], where: str) -> tuple[list[str], list[str]]:
    """Return the warnings of inputs, and where inputs are cut off: of each kind the first, and how many there are.

    `where` names the file that has all of them.
    """
    kinds: dict[tuple[str, str], list[Any]] = {}
    for path, failure in failures:
        if is_error(failure):
            continue
        shape = shape_of(failure["warning"].replace(path, ""))
        kind = (failure["type"], shape)
        if kind not in kinds and len(kinds) >= _MOST_KINDS:
            kind = (failure["type"], "")
        kinds.setdefault(kind, [failure_text(path, failure), 0])[1] += 1
    texts = [
        (kind, text + (f" (and {count - 1:,} more like it: see {where})" if count > 1 else ""))
        for (kind, _), (text, count) in kinds.items()
    ]
    return [text for kind, text in texts if kind == WARNING], [text for kind, text in texts if kind == CUT_OFF]
