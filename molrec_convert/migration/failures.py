"""Inputs that could not be read: what is written of each, and how an error becomes that."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from molrec_convert.errors import MolrecError, UnsupportedError
from molrec_convert.formats import Format
from molrec_convert.plugin_faults import plugin_fault

__all__ = ["Failure", "error_document", "failure_line", "failure_text", "write_failures"]

Failure = dict[str, Any]


def error_document(error: Exception, path: str = "", chosen: Format | None = None) -> Failure:
    """Return an error as a document: its type, its sentence; of an error in the program also where it was.

    `path` and `chosen` say which input was read, and of which format.
    """
    told = plugin_fault(error, [] if chosen is None else [(chosen, f"reading {path}")])
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


def failure_text(path: str, failure: Failure) -> str:
    """One sentence with the input's name in it, once."""
    text: str = failure["error"]
    return text if path in text else f"{path}: {text}"


def failure_line(path: str, failure: Failure) -> str:
    """One line of the file of failures."""
    return json.dumps({"path": path, **failure}, ensure_ascii=True) + "\n"


def write_failures(path: Path, failures: Iterable[tuple[str, Failure]]) -> int:
    """Write the file anew; without a failure there is none. Returns how many there are."""
    lines = [failure_line(where, failure) for where, failure in failures]
    if lines:
        path.write_text("".join(lines), encoding="utf-8")
    else:
        path.unlink(missing_ok=True)
    return len(lines)
