"""Inputs that could not be read: what is written of each, and how an error becomes that."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from molrec_convert.errors import MolrecError

__all__ = ["Failure", "error_document", "failure_line", "failure_text", "write_failures"]

Failure = dict[str, Any]


def error_document(error: BaseException) -> Failure:
    """An error as a document: its type, its sentence; of an error in the program also where it was."""
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
