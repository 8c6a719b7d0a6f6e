"""What several commands share: existing paths, printing, sizes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from molrec_convert.errors import MissingInputError

__all__ = ["PATH", "directory_size", "examples", "existing", "human_size", "print_json", "print_lines"]

#: A path argument; whether it exists is checked by `existing`, in our words.
PATH = click.Path(path_type=Path)


def existing(path: Path) -> Path:
    """The path, which must be there."""
    if not path.exists():
        raise MissingInputError(path)
    return path


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def print_lines(lines: Iterable[str]) -> None:
    """Lines on stdout, as they come."""
    write = sys.stdout.write
    for line in lines:
        write(f"{line}\n")


def print_json(document: Any) -> None:
    """A JSON document on stdout."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def human_size(nbytes: float) -> str:
    """Bytes as a person reads them: `1.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 999.5:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 99.95 else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def directory_size(path: Path) -> int:
    """Bytes of a file, or of all files of a directory."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
