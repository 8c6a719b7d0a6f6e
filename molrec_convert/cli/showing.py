"""The fidelity report on stderr, and as a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from molrec_convert.report import Fate, Report

__all__ = ["show_report", "write_report"]

_COLOURS = {"derived": "cyan", "dropped": "yellow", "warning": "yellow", "cut off": "red"}


def show_report(report: Report) -> None:
    """What is derived and what is lost, warnings, and where the source broke off; one line each."""
    for fate in (Fate.DERIVED, Fate.DROPPED):
        for item in report.of(fate):
            _line(fate.value, item.name + (f" ({item.detail})" if item.detail else ""))
    for text in report.warnings:
        _line("warning", text)
    for text in report.truncations:
        _line("cut off", text)


def write_report(report: Report, path: Path, facts: dict[str, Any]) -> None:
    """Every item as JSON, with the facts of the conversion in front; `-` is stdout."""
    text = json.dumps({**facts, **report.to_json()}, ensure_ascii=False, indent=2) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        path.write_text(text, encoding="utf-8")


def _line(label: str, text: str) -> None:
    click.echo(f"{click.style(label, fg=_COLOURS[label])}: {' '.join(text.split())}", err=True)
