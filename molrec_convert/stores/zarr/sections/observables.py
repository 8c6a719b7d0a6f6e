"""The section `observables`: arrays, and for each the group of its document. Source: Results, "observables"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.names import name_fault
from molrec_convert.model.results.observables import Observable, Observables, check_metadata
from molrec_convert.stores.zarr.sections.unknown import KnownNodes
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.array_writer import write_array
from molrec_convert.stores.zarr.v3.codecs import Stage, column_pipeline
from molrec_convert.stores.zarr.v3.metadata import group_document, parse_array, shown
from molrec_convert.stores.zarr.v3.storage import Storage, read_document, write_document

__all__ = ["read_observables", "write_observables"]

_SECTION = "observables"
_META = f"{_SECTION}/meta"


class StoredObservable(Observable):
    """An observable of a store: dtype, shape and document are known, values decoded on first use."""

    def __init__(self, values: Any, metadata: dict[str, Any], attributes: dict[str, Any]) -> None:
        self._values = values
        self.metadata, self.attributes = metadata, attributes

    @property
    def values(self) -> NDArray[Any]:  # type: ignore[override]
        """The array, decoded now if it is not yet."""
        if isinstance(self._values, ArrayReader):
            self._values = self._values.read()
        values: NDArray[Any] = self._values
        return values

    @property
    def dtype(self) -> str:
        """See `Observable.dtype`."""
        return self._values.dtype if isinstance(self._values, ArrayReader) else super().dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Observable.shape`."""
        return tuple(self._values.shape)


def read_observables(storage: Storage) -> tuple[Observables, KnownNodes]:
    """Return the observables of a store, values undecoded, and the nodes they consist of.

    `ContractError` with the node's path for an array without a document, a document without an array, and a document
    that breaks a rule.
    """
    known = KnownNodes()
    found = Observables()
    _read_group(storage, _SECTION, "", found, known)
    folders = storage.children(_SECTION)[0]
    documents: dict[str, dict[str, Any]] = {}
    if "meta" in folders and read_document(storage, _META) is not None:
        _read_group(storage, _META, "meta", found, known)
        for name in storage.children(_META)[0]:
            document = read_document(storage, f"{_META}/{name}")
            if document is not None and document["node_type"] == "group":
                documents[name] = document["attributes"]
    for name in folders:
        array = None if name == "meta" else read_document(storage, f"{_SECTION}/{name}")
        if array is None or array["node_type"] != "array" or name_fault(name) is not None:
            continue
        metadata = parse_array(array, f"{_SECTION}/{name}")
        if name not in documents:
            raise ContractError(f"{_SECTION}/{name}", "the observable has no document in observables/meta")
        document = documents.pop(name)
        check_metadata(document, name)
        reader = ArrayReader(storage, f"{_SECTION}/{name}", metadata)
        found[name] = StoredObservable(reader, document, shown(metadata.attributes))
        known.arrays.add(f"{_SECTION}/{name}")
        known.groups.add(f"{_META}/{name}")
    for name in documents:
        raise ContractError(f"{_META}/{name}", "the document has no array in observables")
    return found, known


def write_observables(root: Path, observables: Observables, compression: Stage | None = None) -> None:
    """Write the section of the record at `root`; nothing may be there yet.

    `compression` acts on floating-point numbers. `ContractError`, before anything is written, for what breaks a rule.
    """
    observables.check()
    for name, observable in observables.items():
        node = f"{_SECTION}/{name}"
        pipeline = column_pipeline(observable.dtype, compression=compression)
        write_array(root, node, observable.values, pipeline=pipeline, attributes=observable.attributes)
        write_document(Path(root, _META, name), group_document(observable.metadata))
    if observables or "meta" in observables.attributes:
        write_document(Path(root, _META), group_document(observables.attributes.get("meta", {})))
    write_document(Path(root, _SECTION), group_document(observables.attributes.get("", {})))


def _read_group(storage: Storage, node: str, path: str, found: Observables, known: KnownNodes) -> None:
    document = read_document(storage, node)
    if document is None or document["node_type"] != "group":
        raise ContractError(node, "the node is not a Zarr group")
    known.groups.add(node)
    attributes = shown(document["attributes"])
    if attributes or path:
        found.attributes[path] = attributes
