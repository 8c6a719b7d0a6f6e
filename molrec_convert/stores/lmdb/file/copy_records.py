"""Some records of a collection as a collection of their own: values go over as they are stored.

Source: Collection and its LMDB file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molrec_convert.formats import NoProgress, Progress
from molrec_convert.model.collection.collection import Collection, CollectionView
from molrec_convert.report import Report
from molrec_convert.stores.lmdb.file.footer import collection_meta, last_values
from molrec_convert.stores.lmdb.file.keys import FRAME, RECORD, SYSTEM, is_known, key_text
from molrec_convert.stores.lmdb.file.runs import append_runs, in_runs
from molrec_convert.stores.lmdb.file.store import StoreFile
from molrec_convert.stores.lmdb.reader import StoredCollection
from molrec_convert.stores.lmdb.sharded import ShardedCollection

__all__ = ["is_stored", "places", "take_records"]


def is_stored(source: Collection) -> bool:
    """Whether the records of a collection are as they stand in a file, or in the files of a set."""
    while isinstance(source, CollectionView):
        source = source.source
    return isinstance(source, (StoredCollection, ShardedCollection))


def places(source: Collection) -> Iterator[tuple[StoredCollection, int]]:
    """The files the records are in, and their numbers there; only for a collection that `is_stored`."""
    numbers: Sequence[int] = range(len(source))
    while isinstance(source, CollectionView):
        numbers = source.positions[np.asarray(numbers, np.int64)].tolist()
        source = source.source
    if isinstance(source, ShardedCollection):
        return map(source.place, numbers)
    assert isinstance(source, StoredCollection)
    stored = source
    return ((stored, number) for number in numbers)


def take_records(
    source: Collection,
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    report: Report | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the records of a view of a stored collection; the file has its name when it is complete.

    Nothing is decoded. What this version has no meaning for in the file itself is reported as dropped. Raises
    `UsageError` where the name is taken, `OSError` where the system refuses.
    """
    report = Report() if report is None else report
    progress = NoProgress() if progress is None else progress
    whole: Any = source
    while isinstance(whole, CollectionView):
        whole = whole.source
    for key, _ in whole.unknown_values():
        reason = "the collection does not count it" if is_known(key) else "only some records are taken"
        report.dropped(f"key {key_text(key)}", reason)
    first: StoredCollection = whole.open_part(0) if isinstance(whole, ShardedCollection) else whole
    progress.start("records", len(source))
    file = StoreFile(Path(target), overwrite=overwrite)
    try:
        append_runs(file, *((prefix, in_runs(_values(source, prefix, progress))) for prefix in (FRAME, RECORD, SYSTEM)))
        index = source.index
        meta = collection_meta(source.document, source.declaration, index, source.extra)
        file.put(last_values(file.checksums(meta["n_records"], meta["n_frames"]), meta, index, first.stored_forcefield()))
        file.complete()
    except BaseException:
        file.discard()
        raise


def _values(source: Collection, prefix: bytes, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Yield the values of one letter of all records, and their numbers in the new file."""
    frames = 0
    for number, (part, position) in enumerate(places(source)):
        for value in part.stored_values(position, prefix):
            if value is not None:
                yield (frames if prefix == FRAME else number), value
            frames += 1
        progress.advance(1 if prefix == FRAME else 0)
