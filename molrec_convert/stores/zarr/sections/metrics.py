"""The section `metrics`: a catalog, dense series under safe names, and the log. Source: Results, "metrics"."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from molrec_convert.errors import ContractError, UnsupportedError, UsageError
from molrec_convert.files.disk import remove, replace_file, sync, sync_all, sync_tree
from molrec_convert.files.locking import PathLock
from molrec_convert.model.dtypes import empty
from molrec_convert.model.names import escape_name, unescape_name
from molrec_convert.model.results.events import Event, Log, event_line, log_lines, timestamp, whole_bytes
from molrec_convert.model.results.metrics import Curves, Metrics, Series, log_events, watermark
from molrec_convert.report import Report
from molrec_convert.stores.zarr.sections.unknown import KnownNodes, StoredUnknown, write_said
from molrec_convert.stores.zarr.v3.array_reader import ArrayReader
from molrec_convert.stores.zarr.v3.array_writer import write_array
from molrec_convert.stores.zarr.v3.codecs import Stage, column_pipeline
from molrec_convert.stores.zarr.v3.commit import Unsynced, clean_record
from molrec_convert.stores.zarr.v3.metadata import group_document, other_keys, parse_array, shown
from molrec_convert.stores.zarr.v3.storage import (
    DirectoryStorage,
    Storage,
    read_document,
    write_document,
)

__all__ = ["FIELDS", "LOG", "MetricsLog", "StoredLog", "has_metrics", "read_metrics", "write_metrics", "write_series"]

_SECTION = "metrics"
LOG = f"{_SECTION}/metrics.jsonl"
#: The groups of dense arrays, and the dtype of theirs.
FIELDS = {"series": "f64", "steps": "i64", "wall_time": "string"}
_PIECE = 4 * 2**20


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
    """True if a record has the section: its group, or a log somebody began before the group was there."""
    return read_document(storage, _SECTION) is not None or storage.size(LOG) is not None


def read_metrics(storage: Storage) -> tuple[Metrics, KnownNodes]:
    """Return the metrics of a store, series undecoded and the log unread, and the nodes they consist of.

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
        attributes[field] = shown(group["attributes"])
        _read_field(storage, field, dense, attributes, known)
    log: Log | None = None
    if storage.size(LOG) is not None:
        log = StoredLog(storage)
        known.files.add(LOG)
    metrics = Metrics(dense, log, shown(document["attributes"]) if document is not None else {}, attributes)
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
        if others := shown(metadata.attributes):
            attributes[f"{field}/{escape_name(key)}"] = others


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


class MetricsLog:
    """The live log of a record's metrics; a context manager, one writer of a record at a time.

    Events are in the file as soon as `append` returns, on the disk after `flush` or `close`. `close` makes dense
    arrays of the log, which stays. Leaving the context by an exception keeps the log and makes none.
    """

    def __init__(self, root: Path, lock: PathLock, descriptor: int, metrics: Metrics) -> None:
        self._root, self._lock = root, lock
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._metrics = metrics

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> MetricsLog:
        """Open the log of the record in the directory `path`, and begin one where there is none.

        A torn last line is cut off; dense series without a log are written into one first. Raises `UsageError` when
        the directory is no record's, or a writer has it open, `UnsupportedError` for a packed record,
        `ContractError` for metrics that break a rule.
        """
        root = Path(path)
        if root.is_file():
            raise UnsupportedError(f"{root} is packed: unpack it to append metrics")
        storage = DirectoryStorage(root)
        document = read_document(storage, "") if root.is_dir() else None
        if document is None or document["node_type"] != "group":
            raise UsageError(f"{root} is not a record's directory: write a record there before its metrics")
        lock = PathLock(root)
        try:
            if (root / "metrics").is_dir():
                list(storage.keys("metrics"))  # refuses links out of the record before anything is written
            clean_record(root, Unsynced())
            metrics = _prepared(root)
            descriptor = os.open(root / LOG, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except BaseException:
            lock.release()
            raise
        return cls(root, lock, descriptor, metrics)

    def append(
        self,
        key: str,
        value: float,
        step: int | None = None,
        *,
        wall_time: str | datetime | None = None,
        tags: Any = None,
    ) -> None:
        """Append one value of the curve `key`; `wall_time` is this moment when it is not given."""
        stamp = wall_time if isinstance(wall_time, str) else timestamp(wall_time)
        whole = None if step is None else _whole(step)
        self.extend([Event(key, _number(value), stamp, whole, tags)])

    def extend(self, events: Iterable[Event]) -> None:
        """Append events; all of them, or, when one breaks a rule or the disk is full, none."""
        if self._descriptor < 0:
            raise UsageError(f"the metrics of {self._root} are closed")
        data = memoryview(b"".join(map(event_line, events)))
        done = 0
        try:
            while done < len(data):
                done += os.write(self._descriptor, data[done:])
        except BaseException:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += done

    def flush(self) -> None:
        """Have everything appended so far reach the disk."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Flush, make dense arrays of the whole log, let others write. A second time it does nothing."""
        if self._descriptor < 0:
            return
        try:
            self.flush()
            self._densify()
        finally:
            self.release()

    def release(self) -> None:
        """Let others write, without making dense arrays of what was appended."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._lock.release()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.release()

    def _densify(self) -> None:
        """Make the dense series those of the whole log."""
        storage = DirectoryStorage(self._root)
        metrics, nodes = read_metrics(storage)
        said = list(StoredUnknown(storage, lambda: nodes).said())
        assert metrics.log is not None
        curves = Curves().extend(log_events(metrics.log))
        dense = curves.dense()
        kept = {key for key in metrics.dense if key in dense and _is_same(metrics, key, dense[key])}
        section = self._root / "metrics"
        hidden = section / f".dense.{os.getpid()}.tmp"
        fresh = [key for key in dense if key not in kept]
        for key in fresh:
            write_series(hidden, key, dense[key], metrics.attributes)
        hidden.mkdir(exist_ok=True)
        sync_tree(hidden)
        for number, key in enumerate({*metrics.dense, *dense} - kept):
            _take_out(self._root, key, metrics, hidden / str(number))
        for key in fresh:
            _put_in(hidden / "metrics", section, escape_name(key))
        for field in FIELDS:
            folder = section / field
            if folder.is_dir() and not (folder / "zarr.json").is_file():
                write_document(folder, group_document(metrics.attributes.get(field, {})), durable=True)
        write_said(said, self._root, Report())
        sync_all([section, *(section / field for field in FIELDS if (section / field).is_dir())])
        lines = sum(1 for _ in log_lines(metrics.log))
        _commit(self._root, metrics, lines, metrics.log.size, curves.catalog())
        remove(hidden)


def _prepared(root: Path) -> Metrics:
    """Bring the section into the state a writer goes on from: a log that has everything, and a watermark."""
    storage = DirectoryStorage(root)
    metrics = read_metrics(storage)[0]
    mark = watermark(metrics.catalog)
    if metrics.log is None:
        (root / "metrics").mkdir(exist_ok=True)
        text = b"".join(_lines_of(metrics))
        replace_file(root / LOG, text)
        _commit(root, metrics, text.count(b"\n"), len(text))
    else:
        whole = _cut_tail(root / LOG, metrics.log)
        if mark is not None and mark > whole:
            raise ContractError(LOG, "the log is shorter than its watermark", found=str(whole), expected=str(mark))
        if mark is None:
            lines = sum(1 for _ in log_lines(metrics.log)) if metrics.dense else 0
            _commit(root, metrics, lines, whole if metrics.dense else 0)
        elif mark and metrics.log.read(mark - 1, mark) != b"\n":
            raise ContractError("metrics.wal", "the watermark is not at the end of a line of the log")
    sync(root)
    return metrics


def _lines_of(metrics: Metrics) -> Iterable[bytes]:
    """Yield the lines that say the dense series."""
    for key, series in metrics.items():
        yield from map(event_line, series.events(key))


def _commit(
    root: Path, metrics: Metrics, lines: int, size: int, series: Mapping[str, dict[str, Any]] | None = None
) -> None:
    """Replace the catalog: the watermark, and what is known of every series; other keys stay."""
    earlier = metrics.catalog
    known = earlier.get("series", {})
    entries = known if series is None else {key: {**_entry(known.get(key)), **entry} for key, entry in series.items()}
    wal = {**earlier.get("wal", {}), "lines": lines, "bytes": size}
    others = {key: value for key, value in earlier.items() if key not in ("wal", "series")}
    stated = read_document(DirectoryStorage(root), "metrics") or {}
    document = {**group_document({"wal": wal, "series": entries, **others}), **other_keys(stated)}
    write_document(root / "metrics", document, durable=True)


def _entry(known: Any) -> dict[str, Any]:
    return known if isinstance(known, dict) else {}


def _is_same(metrics: Metrics, key: str, series: Series) -> bool:
    try:
        return bool(metrics.dense[key] == series)
    except ContractError:
        return False


def _take_out(root: Path, key: str, metrics: Metrics, target: Path) -> None:
    """Move the arrays of a series, under whatever names, to a folder; the values first: others alone are no series."""
    names = [f"metrics/{field}/{escape_name(key)}" for field in FIELDS]
    if isinstance(metrics.dense, DenseSeries) and key in metrics.dense:
        readers = metrics.dense.readers[key]
        names = [*(readers[field].key for field in FIELDS if field in readers), *names]
    for number, name in enumerate(dict.fromkeys(names)):
        if (root / name).is_dir():
            target.mkdir(exist_ok=True)
            os.rename(root / name, target / str(number))


def _put_in(made: Path, section: Path, name: str) -> None:
    """Move the arrays of a new series to their places, the values last: a series that can be seen is whole."""
    for field in ("steps", "wall_time", "series"):
        if (made / field / name).is_dir():
            (section / field).mkdir(exist_ok=True)
            os.rename(made / field / name, section / field / name)


def _cut_tail(path: Path, log: Log) -> int:
    """Cut what is no complete line off the end of a log; the number of bytes that are left."""
    whole = whole_bytes(log)
    if whole < log.size:
        os.truncate(path, whole)
        sync(path)
    return whole


def _whole(step: Any) -> int:
    try:
        return operator.index(step)
    except TypeError:
        raise ContractError("metrics", "a step is an integer of 64 bits", found=repr(step)[:60]) from None


def _number(value: Any) -> float:
    """Return a number of any kind as a Python float; what is none is left for the event's own check."""
    if isinstance(value, (bool, str, bytes)):
        return value  # type: ignore[return-value]
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ContractError("metrics", "the value of an event is a number", found=repr(value)[:60]) from None
