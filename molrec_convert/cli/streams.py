"""`-` as a source and as a target: standard input is spooled to a temporary file, standard output filled from one.

A source may be read more than once and a target is only handed out when it is whole, so neither can be a pipe itself.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from molrec_convert.errors import MolrecError, UsageError
from molrec_convert.report import Report

__all__ = ["STREAM", "in_words", "standard_input", "standard_output"]

#: The name that means a stream.
STREAM = "-"
_INPUT, _OUTPUT = "standard input", "standard output"
_Told = TypeVar("_Told", MolrecError, Report)


@contextmanager
def standard_input(sources: Sequence[Path]) -> Iterator[list[Path]]:
    """The sources, with a file that holds all of standard input in the place of `-`."""
    streams = [source for source in sources if str(source) == STREAM]
    if not streams:
        yield list(sources)
        return
    if len(streams) > 1:
        raise UsageError("standard input is one source: name '-' once")
    with tempfile.TemporaryDirectory(prefix="mrec-") as folder:
        spooled = Path(folder) / _INPUT
        with spooled.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 2**20)
        yield [spooled if str(source) == STREAM else source for source in sources]


@contextmanager
def standard_output(target: Path, to_format: str | None, *, dry_run: bool) -> Iterator[Path]:
    """The target; for `-` a file that is copied to standard output when it is whole."""
    if str(target) != STREAM:
        yield target
        return
    if to_format is None:
        raise UsageError("standard output has no name that tells its format: name it with --to")
    with tempfile.TemporaryDirectory(prefix="mrec-") as folder:
        written = Path(folder) / _OUTPUT
        yield written
        if written.is_dir():
            raise UsageError(f"the format {to_format} is a directory and cannot go to standard output: name a target")
        if not dry_run:
            with written.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer, 2**20)
            sys.stdout.buffer.flush()


def in_words(told: _Told, sources: Sequence[Path], target: Path) -> _Told:
    """What is told of temporary files, of the streams they stand for instead."""
    names = {str(path): path.name for path in [*sources, target] if path.name in (_INPUT, _OUTPUT)}

    def said(text: str) -> str:
        for path, name in names.items():
            text = text.replace(path, name)
        return text

    if not names:
        return told
    if isinstance(told, Report):
        items = [replace(item, name=said(item.name), detail=said(item.detail)) for item in told.items]
        told.items[:] = items
        told.warnings[:] = [said(text) for text in told.warnings]
        told.truncations[:] = [said(text) for text in told.truncations]
    else:
        told.args = tuple(said(part) if isinstance(part, str) else part for part in told.args)
    return told
