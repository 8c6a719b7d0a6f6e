"""Some records of a collection as a collection: copied as they are stored where they are, else written anew."""

from __future__ import annotations

import os
from pathlib import Path

from molrec_convert.conversion.convert import write
from molrec_convert.errors import UsageError
from molrec_convert.formats import Progress
from molrec_convert.model.collection.collection import Collection
from molrec_convert.plugins import detect_target
from molrec_convert.report import Report

__all__ = ["write_some"]


def write_some(
    chosen: Collection,
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the records of a view; the target appears when it is complete. Raises `UsageError` for another target."""
    try:
        found = detect_target(Path(target))
    except UsageError:
        raise UsageError(f"{target} must end in .mrec.lmdb: a collection is written") from None
    if found.kind != "collection":
        raise UsageError(f"{target} must end in .mrec.lmdb: a collection is written, not {found.title}")
    if found.name == "mrec-lmdb":
        from molrec_convert.stores.lmdb.file.copy_records import is_stored, take_records

        if is_stored(chosen):
            take_records(chosen, target, overwrite=overwrite, report=report, progress=progress)
            return
    write(chosen, target, overwrite=overwrite, report=report, progress=progress)
