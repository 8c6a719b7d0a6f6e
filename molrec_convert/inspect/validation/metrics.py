"""The section `metrics`: dense series, the log and its watermark, the catalog over both, and that they agree.

Source: Results, "metrics".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molrec_convert.errors import ContractError
from molrec_convert.inspect.tree.nodes import Node, children_of, read_node
from molrec_convert.inspect.validation.arrays import CheckedArray, load_array
from molrec_convert.inspect.validation.findings import Findings, check_group, note_unknown
from molrec_convert.model.names import escape_name, unescape_name
from molrec_convert.model.results.events import LOG, SCALAR, is_timestamp, line_object, log_lines, scalar_event
from molrec_convert.model.results.metrics import Curves, Series, watermark
from molrec_convert.stores.zarr.sections.metrics import FIELDS, StoredLog
from molrec_convert.stores.zarr.v3.storage import Storage

__all__ = ["check_metrics"]

_SECTION = "metrics"
_LOG_NAME = "metrics.jsonl"
#: Faulty lines of a log that are listed one by one.
_LISTED = 20


def check_metrics(storage: Storage, root: Node, findings: Findings) -> None:
    """Everything about the metrics."""
    node = read_node(storage, _SECTION) if _SECTION in root.folders else Node(_SECTION, None)
    if node.kind == "group":
        _MetricsChecks(storage, node, findings).check()


@dataclass
class _Log:
    """What a log says: the curves of its first lines, up to the watermark, and of all; the number of those lines."""

    first: Curves = field(default_factory=Curves)
    whole: Curves = field(default_factory=Curves)
    lines: int = 0
    faulty: int = 0
    #: Whether the watermark is where a line ends.
    marked: bool = True


class _MetricsChecks:
    def __init__(self, storage: Storage, node: Node, findings: Findings) -> None:
        self._storage, self._node, self._findings = storage, node, findings
        self._mark: int | None = None

    def check(self) -> None:
        check_group(self._node, self._findings)
        with self._findings.guard(_SECTION):
            self._mark = watermark(self._node.attributes)
        arrays = {name: self._arrays(name) for name in FIELDS if name in self._node.folders}
        note_unknown(self._storage, self._node, {*arrays, _LOG_NAME}, self._findings)
        series = self._series(arrays)
        log = None
        if _LOG_NAME in self._node.files:
            with self._findings.guard(LOG):
                log = self._check_log(bool(series))
        elif self._mark:
            self._findings.warning(f"{_SECTION}.wal", "there is a watermark and no log")
        self._check_catalog(series, log)
        if log is not None and log.marked and not log.faulty:
            self._compare(series, log)

    def _arrays(self, name: str) -> dict[str, CheckedArray]:
        """Return the arrays of one group by key."""
        node = read_node(self._storage, self._node.child(name))
        if node.kind != "group":
            self._findings.error(node.key, node.fault or "the node is not a Zarr group")
            return {}
        check_group(node, self._findings)
        found: dict[str, CheckedArray] = {}
        known = set()
        for child in children_of(self._storage, node):
            if child.kind != "array":
                continue
            known.add(child.name)
            key = unescape_name(child.name)
            if escape_name(key) != child.name:
                self._findings.error(child.key, f"the safe name of {key!r} is {escape_name(key)}")
            if key in found:
                self._findings.error(child.key, f"two arrays are of the key {key!r}")
            array = load_array(self._storage, child, self._findings)
            if array is not None and (array.dtype != FIELDS[name] or len(array.shape) != 1):
                self._findings.error(child.key, f"found {array.layout}, expected {FIELDS[name]}[n]")
            elif array is not None:
                found[key] = array
        note_unknown(self._storage, node, known, self._findings)
        return found

    def _series(self, arrays: dict[str, dict[str, CheckedArray]]) -> dict[str, Series | None]:
        """Return the dense series; None for one that is not in order."""
        found: dict[str, Series | None] = {}
        for key, values in arrays.get("series", {}).items():
            with self._findings.guard(values.node):
                found[key] = None
                found[key] = self._one_series(key, values, arrays)
        for name in ("steps", "wall_time"):
            for key in arrays.get(name, {}).keys() - found.keys():
                self._findings.warning(arrays[name][key].node, "belongs to no series, left by a writer")
        return found

    def _one_series(self, key: str, values: CheckedArray, arrays: dict[str, dict[str, CheckedArray]]) -> Series | None:
        others = {name: arrays.get(name, {}).get(key) for name in ("steps", "wall_time")}
        if others["wall_time"] is None:
            self._findings.error(values.node, "the series has no wall times")
            return None
        before = len(self._findings.items)
        for array in others.values():
            if array is not None and array.rows != values.rows:
                self._findings.error(array.node, f"has {array.rows} rows, the series has {values.rows}")
        for array in (values, *others.values()):
            if array is not None and not array.backed:
                self._findings.error(array.node, f"claims {array.rows} rows, far more than are stored")
        if self._findings.has_error(_SECTION, before):
            return None
        read = {name: None if array is None else array.whole(array.rows) for name, array in others.items()}
        numbers = values.whole(values.rows)
        stamps = read["wall_time"]
        if numbers is None or stamps is None or self._findings.has_error(_SECTION, before):
            return None
        wrong = next((at for at, stamp in enumerate(stamps.tolist()) if not is_timestamp(stamp)), None)
        if wrong is not None:
            node = others["wall_time"].node
            self._findings.error(
                node, f"row {wrong} is not an RFC 3339 time with an offset: found {str(stamps[wrong])!r:.60}"
            )
        steps = read["steps"]
        if steps is not None and len(np.unique(steps)) < len(steps):
            self._findings.warning(values.node, "a step comes twice, the later value counts")
        return Series(numbers, stamps, steps)

    def _check_log(self, dense: bool) -> _Log:
        """Return every line; what the log says as a whole and up to the watermark."""
        stored = StoredLog(self._storage)
        found = _Log()
        limit = self._mark if self._mark is not None else stored.size if dense else 0
        found.marked = limit == 0
        position = 0
        types: set[str] = set()
        untimed = 0
        for number, line in enumerate(log_lines(stored), 1):
            before, position = position, position + len(line) + 1
            inside = before < limit
            found.lines += inside
            found.marked = found.marked or position == limit
            try:
                document = line_object(line, number)
                event = None if document is None else scalar_event(document, number)
            except ContractError as error:
                found.faulty += 1
                if found.faulty <= _LISTED:
                    self._findings.raised(LOG, error)
                continue
            if event is not None:
                untimed += not is_timestamp(event.wall_time)
                found.whole.add(event)
                if inside:
                    found.first.add(event)
            elif document is not None:
                types.add(f"{document.get('t')!r:.40}")
        if found.faulty > _LISTED:
            self._findings.error(LOG, f"{found.faulty - _LISTED} more lines are faulty")
        if untimed:
            self._findings.error(LOG, f"{untimed} events have no RFC 3339 time with an offset")
        for kind in sorted(types)[:_LISTED]:
            self._findings.warning(
                LOG, f"has events of the type {kind}, which this version does not know ({SCALAR!r} it does)"
            )
        self._check_end(stored, position, found, limit)
        return found

    def _check_end(self, log: StoredLog, position: int, found: _Log, limit: int) -> None:
        if position < log.size:
            self._findings.warning(LOG, f"the last line is torn, {log.size - position} bytes are ignored")
        if self._mark is None:
            found.marked = True
            return
        node = f"{_SECTION}.wal"
        if limit > position:
            self._findings.error(node, f"the watermark is at byte {limit}, the lines of the log end at {position}")
        elif not found.marked:
            self._findings.error(node, f"the watermark at byte {limit} is not at the end of a line of the log")
        elif found.lines != self._node.attributes["wal"]["lines"]:
            stated = self._node.attributes["wal"]["lines"]
            self._findings.error(node, f"the first {limit} bytes of the log are {found.lines} lines: found {stated}")

    def _check_catalog(self, series: dict[str, Series | None], log: _Log | None) -> None:
        node = f"{_SECTION}.series"
        catalog = self._node.attributes.get("series", {})
        if not isinstance(catalog, dict):
            self._findings.error(node, "the catalog of series is not a JSON object")
            return
        for key, entry in catalog.items():
            here = f"{node}.{key}"
            if not isinstance(entry, dict):
                self._findings.error(here, f"the entry is not a JSON object: found {entry!r:.60}")
                continue
            if key not in series and (log is None or key not in log.whole):
                self._findings.error(here, "the series is neither dense nor in the log")
            for name, fault in _entry_faults(entry):
                self._findings.error(here, f"{name} {fault}")
            dense = series.get(key)
            if dense is not None and type(entry.get("count")) is int and entry["count"] != len(dense):
                self._findings.warning(here, f"the count is {entry['count']}, the dense series has {len(dense)} values")
        for key in series.keys() - catalog.keys():
            self._findings.warning(f"{node}.{key}", "the catalog does not list the series")

    def _count_disagrees(self, key: str, dense: Series) -> bool:
        """True if the catalog counts other values than are stored: readers then go by the log."""
        listed = self._node.attributes.get("series")
        entry = listed.get(key) if isinstance(listed, dict) else None
        count = entry.get("count") if isinstance(entry, dict) else None
        return type(count) is int and count != len(dense)

    def _compare(self, series: dict[str, Series | None], log: _Log) -> None:
        """The dense series hold exactly the first lines of the log; newer ones are those of an interrupted writer."""
        expected, newest = log.first.dense(), log.whole.dense()
        for key, dense in series.items():
            node = f"{_SECTION}/series/{escape_name(key)}"
            if dense is None or (key in expected and dense == expected[key]):
                continue
            if key in newest and dense == newest[key]:
                self._findings.warning(node, "is newer than the watermark, left by an interrupted writer")
            elif self._count_disagrees(key, dense):
                # Several interrupted closings leave what some earlier end of the log said.
                self._findings.warning(node, "is not what the catalog counts, left by an interrupted writer")
            elif key not in log.first:
                self._findings.error(node, "the first lines of the log, up to the watermark, have no such series")
            elif key not in expected:
                self._findings.error(node, "a series with steps in some events only stays in the log")
            else:
                self._findings.error(node, "differs from what the first lines of the log, up to the watermark, say")
        listed = self._node.attributes.get("series")
        for key in expected.keys() - series.keys():
            node = f"{_SECTION}/series/{escape_name(key)}"
            if isinstance(listed, dict) and key in listed:
                self._findings.warning(node, "is missing, left out by an interrupted writer: readers go by the log")
            else:
                self._findings.error(
                    node, "is missing: the first lines of the log, up to the watermark, have the series"
                )


def _entry_faults(entry: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is wrong in an entry of the catalog, by key."""
    faults = []
    if not isinstance(entry.get("type"), str):
        faults.append(("type", "is not a text"))
    count, step, stamp = (entry.get(name) for name in ("count", "latest_step", "latest_timestamp"))
    if type(count) is not int or count < 0:
        faults.append(("count", f"is not a number of values: found {count!r:.40}"))
    if step is not None and type(step) is not int:
        faults.append(("latest_step", f"is not an integer: found {step!r:.40}"))
    if stamp is not None and not is_timestamp(stamp):
        faults.append(("latest_timestamp", f"is not an RFC 3339 time with an offset: found {stamp!r:.60}"))
    return faults
