"""molrec-convert: molecular simulation data to and from MolRec records.

    import molrec_convert

    record = molrec_convert.open("run.mrec")
    len(record.trajectory), record.trajectory[10]["atoms"]["x"]

    molrec_convert.convert("rundir", "run.mrec")

    with molrec_convert.open("conformers.mrec.lmdb") as collection:
        collection[7].trajectory[0]["atoms"]["x"], collection.select("n_atoms < 20")

Names are loaded on first use: `import molrec_convert` alone is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from molrec_convert._version import __version__
from molrec_convert.wiring import provide

if TYPE_CHECKING:
    from molrec_convert.conversion.continuing import join_records
    from molrec_convert.conversion.convert import append, convert, join, open, read, write
    from molrec_convert.errors import (
        ContractError,
        FormatError,
        LossError,
        MolrecError,
        UnsupportedError,
        UsageError,
    )
    from molrec_convert.formats import Capability, Format, ReadContext, WriteContext, option
    from molrec_convert.hookspecs import hookimpl
    from molrec_convert.model import (
        Block,
        Box,
        Column,
        Declaration,
        Event,
        ForceField,
        Frame,
        FrameBatch,
        MemoryTrajectory,
        Meta,
        Metrics,
        Observable,
        Observables,
        Record,
        Series,
        Trajectory,
    )
    from molrec_convert.model.collection.collection import Collection, MemoryCollection
    from molrec_convert.offered import from_ase, from_universe
    from molrec_convert.report import Report
    from molrec_convert.resolving import resolve
    from molrec_convert.stores.lmdb.dataset import CollectionDataset
    from molrec_convert.stores.lmdb.merging import merge_collections
    from molrec_convert.stores.lmdb.sharded import open_collection
    from molrec_convert.stores.lmdb.sharded_writer import ShardedCollectionWriter
    from molrec_convert.stores.lmdb.writer import CollectionWriter
    from molrec_convert.stores.zarr.sections.metrics_log import MetricsLog

_HOME = {
    **dict.fromkeys(("append", "convert", "join", "open", "read", "write"), "molrec_convert.conversion.convert"),
    **dict.fromkeys(
        ("ContractError", "FormatError", "LossError", "MolrecError", "UnsupportedError", "UsageError"),
        "molrec_convert.errors",
    ),
    **dict.fromkeys(("Capability", "Format", "ReadContext", "WriteContext", "option"), "molrec_convert.formats"),
    "hookimpl": "molrec_convert.hookspecs",
    "join_records": "molrec_convert.conversion.continuing",
    **dict.fromkeys(
        (
            "Block",
            "Box",
            "Column",
            "Declaration",
            "Event",
            "ForceField",
            "Frame",
            "FrameBatch",
            "MemoryTrajectory",
            "Meta",
            "Metrics",
            "Observable",
            "Observables",
            "Record",
            "Series",
            "Trajectory",
        ),
        "molrec_convert.model",
    ),
    **dict.fromkeys(("Collection", "MemoryCollection"), "molrec_convert.model.collection.collection"),
    "CollectionDataset": "molrec_convert.stores.lmdb.dataset",
    "CollectionWriter": "molrec_convert.stores.lmdb.writer",
    "ShardedCollectionWriter": "molrec_convert.stores.lmdb.sharded_writer",
    "merge_collections": "molrec_convert.stores.lmdb.merging",
    "MetricsLog": "molrec_convert.stores.zarr.sections.metrics_log",
    "Report": "molrec_convert.report",
    "from_ase": "molrec_convert.offered",
    "from_universe": "molrec_convert.offered",
    "open_collection": "molrec_convert.stores.lmdb.sharded",
    "resolve": "molrec_convert.resolving",
}

# What the model calls and cannot import, as it stands above it.
provide("resolve", "molrec_convert.resolving:resolve")
provide("offered", "molrec_convert.offered:offered")
provide("record_html", "molrec_convert.inspect.summary.record:summary_html")
provide("collection_html", "molrec_convert.inspect.summary.collection:collection_html")

__all__ = [
    "Block",
    "Box",
    "Capability",
    "Collection",
    "CollectionDataset",
    "CollectionWriter",
    "Column",
    "ContractError",
    "Declaration",
    "Event",
    "ForceField",
    "Format",
    "FormatError",
    "Frame",
    "FrameBatch",
    "LossError",
    "MemoryCollection",
    "MemoryTrajectory",
    "Meta",
    "Metrics",
    "MetricsLog",
    "MolrecError",
    "Observable",
    "Observables",
    "ReadContext",
    "Record",
    "Report",
    "Series",
    "ShardedCollectionWriter",
    "Trajectory",
    "UnsupportedError",
    "UsageError",
    "WriteContext",
    "__version__",
    "append",
    "convert",
    "from_ase",
    "from_universe",
    "hookimpl",
    "join",
    "join_records",
    "merge_collections",
    "open",
    "open_collection",
    "option",
    "read",
    "resolve",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


provide("quantity", "molrec_convert.meaning.quantities:quantity")
provide("quantity_batches", "molrec_convert.meaning.quantities:quantity_batches")
