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
from molrec_convert.wiring import register

if TYPE_CHECKING:
    from molrec_convert.api import from_ase, from_universe, resolve
    from molrec_convert.conversion.continuing import join_records
    from molrec_convert.conversion.convert import convert, join, write
    from molrec_convert.conversion.reading import append, open, read
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
    from molrec_convert.report import Report
    from molrec_convert.stores.lmdb.dataset import CollectionDataset
    from molrec_convert.stores.lmdb.merging import merge_collections
    from molrec_convert.stores.lmdb.sharded import ShardedCollectionWriter, open_collection
    from molrec_convert.stores.lmdb.writer import CollectionWriter
    from molrec_convert.stores.zarr.sections.metrics import MetricsLog

#: Module → the public names it has.
_PUBLIC = {
    "molrec_convert.conversion.continuing": "join_records",
    "molrec_convert.conversion.convert": "convert join write",
    "molrec_convert.conversion.reading": "append open read",
    "molrec_convert.errors": "ContractError FormatError LossError MolrecError UnsupportedError UsageError",
    "molrec_convert.formats": "Capability Format ReadContext WriteContext option",
    "molrec_convert.hookspecs": "hookimpl",
    "molrec_convert.model": "Block Box Column Declaration Event ForceField Frame FrameBatch MemoryTrajectory Meta "
    "Metrics Observable Observables Record Series Trajectory",
    "molrec_convert.model.collection.collection": "Collection MemoryCollection",
    "molrec_convert.api": "from_ase from_universe resolve",
    "molrec_convert.report": "Report",
    "molrec_convert.stores.lmdb.dataset": "CollectionDataset",
    "molrec_convert.stores.lmdb.merging": "merge_collections",
    "molrec_convert.stores.lmdb.sharded": "ShardedCollectionWriter open_collection",
    "molrec_convert.stores.lmdb.writer": "CollectionWriter",
    "molrec_convert.stores.zarr.sections.metrics": "MetricsLog",
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names.split()}

# What the model calls and cannot import, as it stands above it.
for _name, _where in {
    "collection_html": "molrec_convert.inspect.summary.collection:collection_html",
    "plugin_function": "molrec_convert.api:plugin_function",
    "quantity": "molrec_convert.meaning.quantities:quantity",
    "quantity_batches": "molrec_convert.meaning.quantities:quantity_batches",
    "record_html": "molrec_convert.inspect.summary.record:summary_html",
    "resolve": "molrec_convert.api:resolve",
}.items():
    register(_name, _where)

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
