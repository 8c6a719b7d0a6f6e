"""The fidelity report on stderr, and as a file."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from molrec_convert.errors import UsageError
from molrec_convert.report import Fate, Report

__all__ = ["check_replaced", "check_report_path", "show_breaks", "show_report", "write_report"]

_COLOURS = {"derived": "cyan", "dropped": "yellow", "warning": "yellow", "cut off": "red"}


def show_report(report: Report) -> None:
    """What is derived and what is lost, warnings, and where the source broke off; one line each."""
    for fate in (Fate.DERIVED, Fate.DROPPED):
        for item in report.of(fate):
            _line(fate.value, item.name + (f" ({item.detail})" if item.detail else ""))
    for text in report.warnings:
        _line("warning", text)
    show_breaks(report)


def show_breaks(report: Report) -> None:
    """Where a source broke off, one line each."""
    for text in report.truncations:
        _line("cut off", text)


def check_report_path(path: Path, others: Iterable[Path]) -> None:
    """Refuse, before anything is converted, a report that cannot be written, or that would replace a source."""
    if str(path) == "-":
        return
    named = os.path.realpath(path)
    for other in others:
        if os.path.realpath(other) == named:
            raise UsageError(f"the report would replace {other}: name another file behind --report")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write the report {path}: there is no directory {path.parent}")
    if path.is_dir():
        raise UsageError(f"cannot write the report {path}: it is a directory")
    check_replaced(path, "--report", b'{\n  "')
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def check_replaced(path: Path, flag: str, beginning: bytes) -> None:
    """Refuse to write over a file that is there and does not begin as what an option writes does."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(len(beginning))
    if head and head.lower() != beginning.lower():
        raise UsageError(f"{path} is there and nothing {flag} has written: name another file, or remove it")


def write_report(report: Report, path: Path, facts: dict[str, Any]) -> None:
    """Every item as JSON, with the facts of the conversion in front; `-` is stdout."""
    text = json.dumps({**facts, **report.to_json()}, ensure_ascii=False, indent=2) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        # a name that is no UTF-8 becomes an escape JSON knows
        path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _line(label: str, text: str) -> None:
    click.echo(f"{click.style(label, fg=_COLOURS[label])}: {' '.join(text.split())}", err=True)
