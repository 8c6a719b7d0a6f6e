"""What a migration tells: on its way to whoever watches, and in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from molrec_convert.errors import MolrecError, UsageError
from molrec_convert.migration.plan import Plan, conflict_texts
from molrec_convert.report import Fate, Item, Report

__all__ = ["ConflictsError", "MigrationStopped", "NobodyWatches", "Outcome", "Watcher", "no_record", "report_of"]


class Watcher(Protocol):
    """Whoever watches."""

    def stage(self, label: str, inputs: int, nbytes: int) -> None:
        """Work on that many inputs and bytes begins."""

    def advance(self, inputs: int, nbytes: int, records: int, failures: int) -> None:
        """So much more is done; `records` and `failures` are totals so far."""


class NobodyWatches:
    """Nobody watches."""

    def stage(self, label: str, inputs: int, nbytes: int) -> None:
        """See `Watcher.stage`."""

    def advance(self, inputs: int, nbytes: int, records: int, failures: int) -> None:
        """See `Watcher.advance`."""


def no_record(count: int) -> str:
    """Return that no input gave a record, for a message."""
    return "the only input gave no record" if count == 1 else f"none of the {count:,} inputs gave a record"


class ConflictsError(UsageError):
    """The inputs do not agree; `plan` has the conflicts, each of which an option settles."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        count = len(plan.conflicts)
        many = f"{count:,} things are" if count > 1 else "one thing is"
        super().__init__(f"{many} to be settled before: {'; '.join(conflict_texts(plan.conflicts))}")


class MigrationStopped(MolrecError):
    """An input is at fault, and `--on-error stop` was asked for. What was done before is kept."""


@dataclass
class Outcome:
    """How a migration ended: what is in the target, what was left out and why."""

    target: Path
    inputs: int = 0
    records: int = 0
    frames: int = 0
    failures: int = 0
    duplicates: int = 0
    known: int = 0
    left_aside: list[str] = field(default_factory=list)
    resumed: bool = False
    failures_path: Path | None = None
    plan: Plan | None = None
    report: Report = field(default_factory=Report)

    @property
    def aside(self) -> int:
        """Files of no known format that were left aside."""
        return len(self.left_aside)


def report_of(tallies: Mapping[str, int]) -> Report:
    """Return the items of all inputs, each once, with the number of times it was met."""
    report = Report()
    for key, count in Counter(dict(tallies)).items():
        fate, tab, rest = key.partition("\t")
        if not tab:
            continue
        name, _, detail = rest.partition("\t")
        times = f" ({count:,} times)" if count > 1 else ""
        report.add(Item(Fate(fate), name, detail + times))
    return report
