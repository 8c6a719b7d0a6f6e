"""A record or a collection to its target: what is lost is predicted, the writer called, the result given its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from molrec_convert.conversion.resuming import fingerprint, resumes
from molrec_convert.conversion.separate import records_of
from molrec_convert.errors import LossError, MolrecError
from molrec_convert.files.staging import Staging, check_target
from molrec_convert.formats import Format, NoProgress, WriteContext
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.record import Record
from molrec_convert.plugins import plugin_manager
from molrec_convert.report import Report

__all__ = ["check_lossless", "predict", "staged", "write_apart", "write_staged"]

#: Keys of `meta` that every writer stamps.
_STAMPS = {"molrec_version", "creator"}


@contextmanager
def staged(
    target: Path, *, overwrite: bool, owns: Callable[[Path], bool] | None, dry_run: bool
) -> Iterator[Staging | None]:
    """Yield the place where a target is written; None where nothing is, and the target has only to be a right one."""
    if dry_run:
        check_target(target, overwrite=True, owns=owns)
        yield None
        return
    with Staging(target, overwrite=overwrite, owns=owns) as staging:
        yield staging


def predict(record: Record | Collection, chosen: Format, context: WriteContext, *, ahead: bool) -> None:
    """Report what the target has no place for, before anything is written; `ahead`: all of it has to be known now."""
    report = context.report
    for section in record.sections if isinstance(record, Record) else ():
        capability = chosen.carries.get(section)
        stamped = isinstance(record, Record) and not record.meta.keys() - _STAMPS
        if section == "meta" and capability is None and stamped:
            continue  # says nothing of what the record holds
        if capability is None or capability.write == "none":
            report.dropped(section, f"{chosen.title} has no place for it")
        elif capability.write != "exact":
            report.converted(section, capability.write)
    predictor = chosen.predictor() if ahead or not chosen.rehearses else None
    if predictor is not None and (
        isinstance(record, Record) or chosen.takes_collections or chosen.kind == "collection"
    ):
        predictor(record, context)


def check_lossless(report: Report) -> None:
    """Refuse to go on when something is lost. Raises `LossError`."""
    losses = report.losses()
    if report.lossy:
        more = f" and {len(losses) - 1} more" if len(losses) > 1 else ""
        raise LossError(f"refused, the conversion would lose something: {losses[0]}{more}")


def write_staged(
    record: Record | Collection,
    chosen: Format,
    staging: Staging,
    context: WriteContext,
    note: dict[str, Any],
    *,
    resume: bool,
    strict: bool,
) -> None:
    """Write at the staging place, or go on with what an attempt of the same `note` left there, and commit it."""
    if strict:
        check_lossless(context.report)
    writer = chosen.writer()
    context.resume = resumes(staging, note, chosen, resume)
    if not context.resume:
        staging.begin(note if chosen.resumable else None)
    try:
        writer(record, staging.path, context)
        if strict:
            check_lossless(context.report)
    except MolrecError:
        # The same input would fail the same way: there is nothing to resume.
        staging.discard()
        raise
    staging.commit()
    if isinstance(record, Record):
        plugin_manager().hook.molrec_record_written(record=record, target=staging.target, report=context.report)


def write_apart(
    source: Collection, chosen: Format, context: WriteContext, *, overwrite: bool, strict: bool, dry_run: bool
) -> None:
    """Write each record of a collection under a name of its own; all names are looked at before the first is written.

    The caller holds the right to write under the name that those are made of.
    """
    assert context.target is not None
    owns = chosen.owner()
    members = list(records_of(source, context.target, chosen, context.report))
    for path, _ in members:
        check_target(path, overwrite=overwrite or dry_run, owns=owns)
    context.progress.start("records", len(members))
    for path, opened in members:
        record = opened()
        predict(record, chosen, context, ahead=strict or dry_run)
        if strict:
            check_lossless(context.report)
        if not dry_run:
            own = dataclasses.replace(context, progress=NoProgress(), target=path)
            note = fingerprint(record, chosen, own)
            with Staging(path, overwrite=overwrite, owns=owns) as staging:
                write_staged(record, chosen, staging, own, note, resume=False, strict=strict)
        context.progress.advance(1)
