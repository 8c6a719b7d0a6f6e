"""Batch migration: thousands to millions of legacy files and rows become one collection, or a tree of records."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from molrec_convert.migration.outputs.outcome import MigrationStopped, Outcome
    from molrec_convert.migration.records_tree import migrate_records
    from molrec_convert.migration.run import migrate
    from molrec_convert.migration.settings import Settings

__all__ = ["MigrationStopped", "Outcome", "Settings", "migrate", "migrate_records"]

#: Where the names are. They are loaded on use: a worker process needs a part of this package only.
_PLACES = {
    "MigrationStopped": "outputs.outcome",
    "Outcome": "outputs.outcome",
    "Settings": "settings",
    "migrate": "run",
    "migrate_records": "records_tree",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
