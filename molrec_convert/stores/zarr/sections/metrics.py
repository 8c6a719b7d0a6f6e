"""The section `metrics`: a catalog, dense series under safe names, and the log. Source: Results, "metrics"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import empty
from molrec_convert.model.names import escape_name, unescape_name
from molrec_convert.model.results.events import Log, whole_bytes
from molrec_convert.model.results.metrics import Metrics, Series
from molrec_convert.stores.zarr.sections.unknown import KnownNodes
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.array_writer import write_array
from molrec_convert.stores.zarr.v3.codecs import Stage, column_pipeline
from molrec_convert.stores.zarr.v3.metadata import group_document, parse_array
from molrec_convert.stores.zarr.v3.storage import Storage, read_document, write_document

__all__ = ["FIELDS", "LOG", "StoredLog", "has_metrics", "read_metrics", "write_metrics", "write_series"]

_SECTION = "metrics"
LOG = f"{_SECTION}/metrics.jsonl"
#: The groups of dense arrays, and the dtype of theirs.
FIELDS = {"series": "f64", "steps": "i64", "wall_time": "string"}
_PIECE = 4 * 2**20
_UNSHOWN = "_zarrs"


class StoredLog:
    """The log of a store as long as it was when it was opened."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.size = storage.size(LOG) or 0

    def read(self, start: int, stop: int) -> bytes:
        """See `Log.read`."""
        return self._storage.read_range(LOG, start, min(stop, self.size) - start)


class DenseSeries(Mapping[str, Series]):
    """The dense series of a store, each decoded when it is first asked for."""

    def __init__(self) -> None:
        self.readers: dict[str, dict[str, ArrayReader]] = {}
        self._read: dict[str, Series] = {}

    def __getitem__(self, key: str) -> Series:
        if key not in self._read:
            arrays = {field: reader.read() for field, reader in self.readers[key].items()}
            # Without wall times it is a series with a fault.
            stamps = arrays["wall_time"] if "wall_time" in arrays else empty("string", (0,))
            self._read[key] = Series(arrays["series"], stamps, arrays.get("steps"))
        return self._read[key]

    def __contains__(self, key: object) -> bool:
        return key in self.readers

    def __iter__(self) -> Iterator[str]:
        return iter(self.readers)

    def __len__(self) -> int:
        return len(self.readers)


def has_metrics(storage: Storage) -> bool:
    """Whether a record has the section: its group, or a log somebody began before the group was there."""
    return read_document(storage, _SECTION) is not None or storage.size(LOG) is not None


def read_metrics(storage: Storage) -> tuple[Metrics, KnownNodes]:
    """The metrics of a store, series undecoded and the log unread, and the nodes they consist of.

    `ContractError` with the node's path for a section that is no group, a watermark that is none, arrays of a wrong
    dtype or shape, two arrays of one key.
    """
    document = read_document(storage, _SECTION)
    if document is not None and document["node_type"] != "group":
        raise ContractError(_SECTION, "the section is not a Zarr group")
    known = KnownNodes(groups=set() if document is None else {_SECTION})
    dense = DenseSeries()
    attributes: dict[str, dict[str, Any]] = {}
    for field in FIELDS:
        group = read_document(storage, f"{_SECTION}/{field}")
        if group is None:
            continue
        if group["node_type"] != "group":
            raise ContractError(f"{_SECTION}/{field}", "the node is not a Zarr group")
        known.groups.add(f"{_SECTION}/{field}")
        attributes[field] = _shown(group["attributes"])
        _read_field(storage, field, dense, attributes, known)
    log: Log | None = None
    if storage.size(LOG) is not None:
        log = StoredLog(storage)
        known.files.add(LOG)
    metrics = Metrics(dense, log, _shown(document["attributes"]) if document is not None else {}, attributes)
    metrics.check_catalog()
    return metrics, known


def _read_field(
    storage: Storage, field: str, dense: DenseSeries, attributes: dict[str, dict[str, Any]], known: KnownNodes
) -> None:
    """The arrays of one group. What belongs to no series was left by an interrupted writer and stays unread."""
    for name in storage.children(f"{_SECTION}/{field}")[0]:
        node = f"{_SECTION}/{field}/{name}"
        document = read_document(storage, node)
        key = unescape_name(name)
        if document is None or document["node_type"] != "array" or not (field == "series" or key in dense.readers):
            continue
        metadata = parse_array(document, node)
        if metadata.dtype != FIELDS[field] or len(metadata.shape) != 1:
            found = f"{metadata.dtype}{''.join(f'[{n}]' for n in metadata.shape)}"
            raise ContractError(node, "the array is not what a series has", found=found, expected=f"{FIELDS[field]}[n]")
        readers = dense.readers.setdefault(key, {})
        if field in readers:
            raise ContractError(node, f"two arrays are of the key {key!r}")
        readers[field] = ArrayReader(storage, node, metadata)
        known.arrays.add(node)
        if shown := _shown(metadata.attributes):
            attributes[f"{field}/{escape_name(key)}"] = shown


def write_metrics(root: Path, metrics: Metrics, compression: Stage | None = None) -> None:
    """Write the section of the record at `root`; nothing may be there yet.

    The log is written as it is, up to the last complete line. `compression` acts on floating-point numbers.
    `ContractError`, before anything is written, for what breaks a rule.
    """
    metrics.check()
    fields = {field for field in FIELDS if field in metrics.attributes}
    for key, series in metrics.dense.items():
        write_series(root, key, series, metrics.attributes, compression)
        fields |= {"series", "wall_time", *(() if series.steps is None else ("steps",))}
    for field in sorted(fields):
        write_document(Path(root, _SECTION, field), group_document(metrics.attributes.get(field, {})))
    Path(root, _SECTION).mkdir(parents=True, exist_ok=True)
    if metrics.log is not None:
        _write_log(Path(root, LOG), metrics.log)
    write_document(Path(root, _SECTION), group_document(metrics.catalog))


def write_series(
    root: Path,
    key: str,
    series: Series,
    attributes: Mapping[str, dict[str, Any]],
    compression: Stage | None = None,
) -> None:
    """Write the arrays of one dense series, the values last: a series that can be seen is whole."""
    name = escape_name(key)
    for field, values in (("steps", series.steps), ("wall_time", series.wall_time), ("series", series.values)):
        if values is not None:
            path = f"{field}/{name}"
            pipeline = column_pipeline(FIELDS[field], compression=compression)
            write_array(root, f"{_SECTION}/{path}", values, pipeline=pipeline, attributes=attributes.get(path))


def _write_log(path: Path, log: Log) -> None:
    """Copy a log, what is no complete line at its end left out."""
    whole = whole_bytes(log)
    with open(path, "wb") as file:
        for start in range(0, whole, _PIECE):
            file.write(log.read(start, min(whole, start + _PIECE)))


def _shown(attributes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if key != _UNSHOWN}
