"""The record: the one noun that flows from importers through the codec to exporters."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Frame, with_missing
from molrec_convert.model.results.metrics import Metrics
from molrec_convert.model.results.observables import Observables
from molrec_convert.model.rules import Alignment
from molrec_convert.model.tags import Meta, check_json
from molrec_convert.model.trajectory import Trajectory
from molrec_convert.wiring import resolve

if TYPE_CHECKING:
    from molrec_convert.model.forcefield.linking import Resolution
    from molrec_convert.model.forcefield.registry import Registry
    from molrec_convert.report import Report

__all__ = [
    "NEWEST_VERSION",
    "Coded",
    "Record",
    "RecordBatch",
    "RecordColumns",
    "TextGroups",
    "UnknownContent",
    "absolute_rows",
    "check_document",
    "check_documents",
    "check_record",
    "check_version",
    "frame_sample",
    "meta_sample",
    "record_sample",
]

#: The newest `molrec_version` this package reads.
NEWEST_VERSION = 2
#: A record holds one of these sections at least.
_SUFFICIENT = frozenset({"frame", "system", "trajectory", "forcefield", "status"})
_SECTIONS = ("system", "frame", "trajectory", "forcefield", "observables", "method", "status", "metrics")


class UnknownContent(Protocol):
    """Stored content this version has no model for: whole files by key, copied as they are."""

    def keys(self) -> Iterator[str]:
        """Yield keys relative to the record root, sorted ("plots/zarr.json", "system/atoms/later/c/0")."""

    def read(self, key: str) -> bytes:
        """Return the bytes of one file."""


@dataclass
class Record:
    """One record: documents, snapshots, at most one trajectory, a force field, results and curves.

    `meta`, `method`, `status` are plain JSON documents. `system` says what the particles are, `frame` and
    `trajectory` what state they are in, `forcefield` what energy they have; `observables` are results by name,
    `metrics` curves of a run by key. `unknown` is what a store holds beside that, `attributes` what its root group
    says. A record opened from a store reads lazily and is a context manager; `close` is safe to call twice.
    """

    meta: dict[str, Any] = field(default_factory=dict)
    system: Frame | None = None
    frame: Frame | None = None
    trajectory: Trajectory | None = None
    forcefield: ForceField | None = None
    observables: Observables | None = None
    method: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    metrics: Metrics | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    unknown: UnknownContent | None = None
    path: str | None = None
    _close: Callable[[], None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.trajectory is not None:
            self.trajectory.system = self.system

    def __repr__(self) -> str:
        """Return the sections in one line: `<Record a.mrec: system (6 atoms, 4 bonds), trajectory (200 frames),
        metrics>`.
        """
        parts = []
        for section in self.sections[1:]:
            content = getattr(self, section) if section in ("system", "frame", "trajectory") else None
            if isinstance(content, Frame):
                rows = ", ".join(f"{count:,} {name}" for name, count in content.rows.items())
                parts.append(f"{section} ({rows or 'no blocks'})")
            elif isinstance(content, Trajectory):
                frames = "frames are counted as they are read" if content.n_frames is None else None
                parts.append(f"{section} ({frames or f'{content.n_frames:,} frames'})")
            else:
                parts.append(section)
        path = "" if self.path is None else f" {self.path}"
        return f"<Record{path}: {', '.join(parts) or 'empty'}>"

    @property
    def units(self) -> Any:
        """The record's units: `system`'s, without a system `frame`'s; None when unstated. A string is a preset."""
        for section in (self.system, self.frame):
            if section is not None:
                return section.meta.get("units")
        return None

    @property
    def sections(self) -> list[str]:
        """Names of the sections present, `meta` first."""
        return ["meta", *(name for name in _SECTIONS if self._has(name))]

    def resolve(self, registry: Registry | None = None) -> Resolution:
        """Return what every atom, relation and pair of `system` takes from `forcefield`: see
        `molrec_convert.resolve`.
        """
        resolution: Resolution = resolve("resolve")(self, registry)
        return resolution

    def quantity(
        self,
        name: str,
        *,
        units: str | None = None,
        form: str | None = None,
        sign: Literal["tension", "compression"] = "tension",
        frames: int | slice | None = None,
    ) -> NDArray[Any] | None:
        """Return a quantity by its name ("energy", "position", "stress", "element"), None where there is none.

        `record.quantity("position", units="nm", frames=slice(0, 100))` is f64[100, atoms, 3]. What is missing is NaN in
        reals, masked in anything else. See `molrec_convert.meaning.quantities.quantity` for names, forms, errors.
        """
        found: NDArray[Any] | None = resolve("quantity")(self, name, units=units, form=form, sign=sign, frames=frames)
        return found

    def quantity_batches(self, name: str, **options: Any) -> Iterator[tuple[NDArray[Any], NDArray[np.int64] | None]]:
        """Yield a quantity batch by batch, rows of the atoms with the offsets of the frames; see `quantity`."""
        batches: Iterator[tuple[NDArray[Any], NDArray[np.int64] | None]] = resolve("quantity_batches")(
            self, name, **options
        )
        return batches

    def to_ase(self, index: int = -1, *, elements: Sequence[str] = (), report: Report | None = None) -> Any:
        """Return a frame as `ase.Atoms`, the last one by default: in ASE's units, with results, constraints, `info`.

        `elements` names those of the atom types where a record has none ("C", "H" from type 1 on, or "CT=C").
        What `Atoms` cannot hold is in `report`. `UsageError` without elements or positions, `UnsupportedError`
        where ASE is not installed.
        """
        return resolve("plugin_function")("ase", "to_ase")(self, index, elements=elements, report=report)

    def iter_ase(self, *, elements: Sequence[str] = (), report: Report | None = None) -> Iterator[Any]:
        """Yield every frame as `ase.Atoms`, one after another; see `to_ase`."""
        frames: Iterator[Any] = resolve("plugin_function")("ase", "iter_ase")(
            self.trajectory, self, elements=elements, report=report
        )
        return frames

    def to_universe(self, **keywords: Any) -> Any:
        """Return the record as `MDAnalysis.Universe`, which reads its frames from here as long as the record is open.

        `keywords` are those of its reader: `convert_units=False` gives the numbers as they are, else those of a record
        that states units come in MDAnalysis' own. `UnsupportedError` for a record without atoms, or where MDAnalysis is
        not installed.
        """
        return resolve("plugin_function")("mdanalysis", "to_universe", "MDAnalysis")(self, **keywords)

    def _has(self, section: str) -> bool:
        """True if a section is there, told without reading it."""
        return getattr(self, section) is not None

    def close(self) -> None:
        """Let go of the files behind a lazy record."""
        if self._close is not None:
            self._close()
            self._close = None

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repr_html_(self) -> str:
        text: str = resolve("record_html")(self)
        return text


def check_version(meta: Mapping[str, Any], node: str = "meta") -> int | None:
    """Return the `molrec_version` of a meta document: refused unless an integer from 1 to the newest; None when
    absent.
    """
    if "molrec_version" not in meta:
        return None
    version = meta["molrec_version"]
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= NEWEST_VERSION:
        raise ContractError(
            node, "molrec_version is not one this package reads", found=repr(version), expected=f"1 to {NEWEST_VERSION}"
        )
    return version


def check_documents(record: Record) -> None:
    """Refuse documents that are not plain finite JSON, or lack what their section requires."""
    for name in ("meta", "method", "status"):
        document = getattr(record, name)
        if document is not None:
            check_document(document, name)
    check_json(record.attributes, "")


def check_document(document: Any, section: str) -> None:
    """Refuse one document: `meta` with a wrong version, `method` or `status` without their required keys."""
    if not isinstance(document, dict):
        raise ContractError(section, "the document is not a JSON object", found=type(document).__name__)
    check_json(document, section)
    if section == "meta":
        check_version(document)
    elif section == "method":
        for key in ("type", "description"):
            _check_text_key(document, key, "method")
        engine = document.get("engine")
        if not isinstance(engine, dict):
            raise ContractError("method", "the document has no 'engine'")
        _check_text_key(engine, "name", "method.engine")
    elif section == "status":
        _check_text_key(document, "state", "status")


def check_record(record: Record) -> None:
    """Refuse a record that breaks a rule before any frame of its trajectory is read.

    Documents, `system` and `frame` with their references, force field, observables, metrics, the trajectory's
    declaration, and how the sections go together. The frames are checked as they pass, by `Alignment` and the
    trajectory's writer.
    """
    check_documents(record)
    keys: Iterable[str] = () if record.unknown is None else record.unknown.keys()
    other = {key.partition("/")[0] for key in keys}
    if not {*record.sections, *other} & _SUFFICIENT:
        raise ContractError("", f"a record holds at least one of {', '.join(sorted(_SUFFICIENT))}")
    absolute = absolute_rows(record.system, record.frame)
    for section in ("system", "frame"):
        snapshot: Frame | None = getattr(record, section)
        if snapshot is not None:
            snapshot.check(section, absolute)
    alignment = Alignment(record.system)
    if record.frame is not None:
        alignment.check_frame(record.frame)
    for part in (record.forcefield, record.observables, record.metrics):
        if part is not None:
            part.check()
    if record.trajectory is not None:
        record.trajectory.declaration.check()
        alignment.check_declaration(record.trajectory.declaration)


def absolute_rows(system: Frame | None, frame: Frame | None) -> dict[str, int]:
    """Return what absolute references are held against: the row count of each block, and an entry for each section."""
    rows: dict[str, int] = {}
    for section, snapshot in (("/system", system), ("/frame", frame)):
        if snapshot is not None:
            rows[section] = 0
            rows.update({f"{section}/{name}": count for name, count in snapshot.rows.items()})
    return rows


def _check_text_key(document: Mapping[str, Any], key: str, node: str) -> None:
    if not isinstance(document.get(key), str):
        found = repr(document[key])[:60] if key in document else "none"
        raise ContractError(node, f"the document has no {key!r}", found=found, expected="a text")


@dataclass(frozen=True)
class Coded:
    """A column of texts: `texts[codes[row]]` in each row."""

    codes: NDArray[Any]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class TextGroups:
    """Lists of texts that several records share: `lists[of[record]]` is that of a record."""

    lists: list[list[str]]
    of: list[int]


@dataclass
class RecordColumns:
    """Records of one frame each: record `i` has frame `i` of `frames`, which presents every block.

    `counts` has the rows of `atoms` in each, of the system's block as of the frame's. `identity` are the columns of
    the system's, with the rows of all records; `said` the keys of its meta: a value of each record and its tag, ""
    for none. `own` are the values the collection's index has for each record. Nothing else is in them.
    """

    declaration: Declaration
    counts: NDArray[np.int64]
    frames: FrameBatch
    identity: dict[str, NDArray[Any] | Coded] = field(default_factory=dict)
    said: dict[str, tuple[list[Any], list[str]]] = field(default_factory=dict)
    own: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.counts)

    @functools.cached_property
    def offset(self) -> NDArray[np.int64]:
        """Where the rows of each record begin, and the end."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    @functools.cached_property
    def text_groups(self) -> dict[str, TextGroups]:
        """The columns of texts in `identity`."""
        ends = self.offset.tolist()
        found = {}
        for name, column in self.identity.items():
            if isinstance(column, Coded):
                found[name] = _coded_groups(column, ends)
            elif column.dtype.kind == "T":
                found[name] = _text_groups(column.tolist(), ends)
        return found


@dataclass(frozen=True)
class RecordBatch:
    """`count` records: by themselves with the values of their collection's index, and as columns where they are alike.

    `members` gives them from a position in the batch on.
    """

    count: int
    members: Callable[[int], Iterator[tuple[Record, dict[str, Any]]]]
    columns: RecordColumns | None


def _coded_groups(column: Coded, ends: list[int]) -> TextGroups:
    data = np.ascontiguousarray(column.codes)
    width, whole = data.itemsize, data.tobytes()
    numbers: dict[bytes, int] = {}
    of = [numbers.setdefault(whole[a * width : b * width], len(numbers)) for a, b in itertools.pairwise(ends)]
    texts = column.texts
    return TextGroups([[texts[code] for code in np.frombuffer(key, data.dtype).tolist()] for key in numbers], of)


def _text_groups(texts: list[str], ends: list[int]) -> TextGroups:
    numbers: dict[tuple[str, ...], int] = {}
    of = [numbers.setdefault(tuple(texts[a:b]), len(numbers)) for a, b in itertools.pairwise(ends)]
    return TextGroups([list(key) for key in numbers], of)


def record_sample(record: Record) -> dict[str, Any]:
    """Return a record as `{"system": {...}, "frames": [{...}, ...]}`, each as `frame_sample` has it."""
    trajectory = record.trajectory
    frames = [] if trajectory is None else [frame_sample(frame, trajectory.declaration) for frame in trajectory]
    return {"system": {} if record.system is None else frame_sample(record.system), "frames": frames}


def frame_sample(frame: Frame, declaration: Declaration | None = None) -> dict[str, Any]:
    """Return a snapshot as a flat dict; arrays are copies. `declaration` is that of its trajectory."""
    sample: dict[str, Any] = {}
    for name in frame:
        block = frame[name]
        for key, column in block.columns.items():
            values = with_missing(column.values, column.validity)
            sample[f"{name}/{key}"] = values.tolist() if values.dtype.kind == "T" else values.copy()
            if column.validity is not None:
                sample[f"{name}/_validity/{key}"] = np.array(column.validity)
    sample.update(meta_sample(frame.meta, declaration))
    if frame.box is not None:
        for part in ("vectors", "origin", "boundary"):
            sample[f"box/{part}"] = getattr(frame.box, part)
    for name in ("step", "time"):
        value = getattr(frame, name)
        if value is not None:
            sample[name] = value
    return sample


def meta_sample(meta: Meta, declaration: Declaration | None = None) -> dict[str, Any]:
    """Return a typed meta document without its JSON documents; with a `declaration` NaN where one of its keys is
    missing.
    """
    sample = {key: value for key, value in meta.items() if meta.tag(key) != "json"}
    if declaration is None or len(meta) == len(declaration.meta):
        return sample
    fills = {key: entry.fill for key, entry in declaration.meta.items() if entry.has_missing and entry.dtype != "json"}
    whole = {key: fill if isinstance(fill, float) else np.array(fill) for key, fill in fills.items()} | sample
    return {key: whole[key] for key in declaration.meta if key in whole}
