"""Batch migration: thousands to millions of legacy files and rows become one collection, or a tree of records."""

from __future__ import annotations

from molrec_convert.migration.outcome import MigrationStopped, Outcome
from molrec_convert.migration.run import migrate
from molrec_convert.migration.settings import Settings
from molrec_convert.migration.trees import migrate_records

__all__ = ["MigrationStopped", "Outcome", "Settings", "migrate", "migrate_records"]
