"""One record out of a collection: how a `.mrec.lmdb` file is read where a single record is wanted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from molrec_convert.errors import UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model.record import Record
from molrec_convert.stores.lmdb.format import read_collection, record_of
from molrec_convert.stores.lmdb.options import RecordChoice

__all__ = ["read_record"]


def read_record(paths: Sequence[Path], context: ReadContext) -> Record:
    """The record `context.options.record` of the collection in one file, or its only one.

    `UsageError` when the collection has several and none is named, or not that many. Closing the record closes the
    collection.
    """
    chosen = context.options.record if isinstance(context.options, RecordChoice) else None
    collection = read_collection(paths, context)
    count = len(collection)
    try:
        if chosen is None and count != 1:
            raise UsageError(f"{paths[0]} is a collection of {count} records: name one of them with --record")
        position = 0 if chosen is None else chosen
        if not 0 <= position < count:
            raise UsageError(f"{paths[0]} has no record {position}: it has {count}, counted from 0")
        record = record_of(collection, position, context.report)
        if count > 1:
            context.report.converted("records", f"record {position} of {count} taken as asked")
        return dataclasses.replace(record, path=str(paths[0]), _close=collection.close)
    except BaseException:
        collection.close()
        raise
