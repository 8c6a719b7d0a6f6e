"""The record: the one noun that flows from importers through the codec to exporters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from molrec_convert.errors import ContractError
from molrec_convert.model.frame import Frame
from molrec_convert.model.tags import check_json
from molrec_convert.model.trajectory import Trajectory

__all__ = ["NEWEST_VERSION", "Record", "UnknownContent", "check_version"]

#: The newest `molrec_version` this package reads.
NEWEST_VERSION = 2


class UnknownContent(Protocol):
    """Stored content this version has no model for: whole files by key, copied as they are."""

    def keys(self) -> Iterator[str]:
        """Keys relative to the record root, sorted ("plots/zarr.json", "system/atoms/later/c/0")."""

    def read(self, key: str) -> bytes:
        """The bytes of one file."""


@dataclass
class Record:
    """One record: documents, snapshots, and at most one trajectory.

    `meta`, `method`, `status` are plain JSON documents. `system` says what the particles are, `frame` and
    `trajectory` what state they are in. `unknown` is what a store holds beside that. A record opened from a store
    reads lazily and is a context manager; `close` is safe to call twice.
    """

    meta: dict[str, Any] = field(default_factory=dict)
    system: Frame | None = None
    frame: Frame | None = None
    trajectory: Trajectory | None = None
    method: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    unknown: UnknownContent | None = None
    path: str | None = None
    _close: Callable[[], None] | None = field(default=None, repr=False)

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
        names = ("system", "frame", "trajectory", "method", "status")
        return ["meta", *(name for name in names if getattr(self, name) is not None)]

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
        from molrec_convert.model.summary import summary_html

        return summary_html(self)


def check_version(meta: Mapping[str, Any], node: str = "meta") -> int | None:
    """The `molrec_version` of a meta document: refused unless an integer from 1 to the newest; None when absent."""
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
            check_json(document, name)
    check_version(record.meta)
    if record.method is not None:
        for key in ("type", "description"):
            if not isinstance(record.method.get(key), str):
                raise ContractError("method", f"the document has no {key!r}")
        engine = record.method.get("engine")
        if not isinstance(engine, dict) or not isinstance(engine.get("name"), str):
            raise ContractError("method", "the document has no engine name")
    if record.status is not None and not isinstance(record.status.get("state"), str):
        raise ContractError("status", "the document has no 'state'")
