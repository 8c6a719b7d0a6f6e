"""Observables: named result arrays, each with a document that says what it is.

Source: Results, "observables".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import as_values, dtype_name, same_bits
from molrec_convert.model.names import check_name
from molrec_convert.model.tags import canonical_json, check_json

__all__ = ["Observable", "Observables", "check_metadata", "check_observable_name", "metadata_faults"]

#: What a document says at least.
_REQUIRED: dict[str, tuple[type, str]] = {
    "kind": (str, "a text"),
    "description": (str, "a text"),
    "time_dependent": (bool, "true or false"),
}


class Observable:
    """One result: an array of any shape (of a single value: without axes) and any column dtype, and its document.

    `metadata` says at least `kind` (`scalar`, `vector`, or a producer's own), `description` and `time_dependent`: the
    leading axis is the trajectory's. `attributes` are what a store has beside the array that this version does not
    know.
    """

    def __init__(self, values: Any, metadata: Mapping[str, Any], attributes: Mapping[str, Any] | None = None) -> None:
        self.values: NDArray[Any] = as_values(values)
        self.metadata = dict(metadata)
        self.attributes = dict(attributes or {})

    @classmethod
    def of(cls, values: Any, kind: str, description: str, *, time_dependent: bool = False, **others: Any) -> Observable:
        """Return an observable of these values; `others` are further keys of its document (`unit`, `axes`,
        `sampling`).
        """
        document = {"kind": kind, "description": description, "time_dependent": time_dependent, **others}
        return cls(values, document)

    @property
    def dtype(self) -> str:
        """The contract name of the dtype."""
        return dtype_name(self.values.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(self.values.shape)

    @property
    def kind(self) -> str:
        """How the array is read."""
        return str(self.metadata["kind"])

    @property
    def description(self) -> str:
        """What it is, in words."""
        return str(self.metadata["description"])

    @property
    def unit(self) -> str | None:
        """The unit of the values, None when unstated."""
        unit = self.metadata.get("unit")
        return unit if isinstance(unit, str) else None

    @property
    def time_dependent(self) -> bool:
        """True if the leading axis is the trajectory's."""
        return self.metadata.get("time_dependent") is True

    def check(self, name: str) -> None:
        """Refuse a name or a document that breaks the contract."""
        check_observable_name(name)
        check_metadata(self.metadata, name)
        check_json(self.attributes, f"observables/{name}")
        if self.time_dependent and not self.shape:
            raise ContractError(
                f"observables/{name}", "a time-dependent observable has an axis of frames", found="a single value"
            )

    def __eq__(self, other: object) -> bool:
        """Return equal dtype, shape, values bit for bit, and document."""
        if not isinstance(other, Observable):
            return NotImplemented
        return same_bits(self.values, other.values) and canonical_json(self.metadata) == canonical_json(other.metadata)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Observable({self.dtype}{''.join(f'[{n}]' for n in self.shape)}; {self.metadata.get('kind')})"


class Observables(MutableMapping[str, Observable]):
    """The observables of a record by name. `attributes` are those of the section's own groups, by path below it."""

    def __init__(
        self,
        observables: Mapping[str, Observable] | None = None,
        attributes: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        self._items = dict(observables or {})
        self.attributes = dict(attributes or {})

    def __getitem__(self, name: str) -> Observable:
        try:
            return self._items[name]
        except KeyError:
            raise KeyError(f"no observable {name!r}; there are {', '.join(self._items) or 'none'}") from None

    def __setitem__(self, name: str, observable: Observable) -> None:
        self._items[name] = observable

    def __delitem__(self, name: str) -> None:
        del self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Observables({self._items!r})"

    def check(self) -> None:
        """Refuse names and documents that break the contract."""
        for name, observable in self._items.items():
            observable.check(name)
        for path, attributes in self.attributes.items():
            check_json(attributes, f"observables/{path}".rstrip("/"))


def check_observable_name(name: str) -> None:
    """Refuse a name that cannot name an observable."""
    check_name(name, f"observables/{name}")
    if name == "meta":
        raise ContractError("observables/meta", "the name is reserved for the documents of the observables")


def check_metadata(document: Any, name: str) -> None:
    """Refuse a document of an observable that breaks the contract."""
    for fault in metadata_faults(document, name):
        raise fault


def metadata_faults(document: Any, name: str) -> Iterator[ContractError]:
    """Yield every rule the document of an observable breaks, one by one."""
    node = f"observables/meta/{name}"
    if not isinstance(document, dict):
        yield ContractError(node, "the document is not a JSON object", found=type(document).__name__)
        return
    try:
        check_json(document, node)
    except ContractError as fault:
        yield fault
    for key, (kind, words) in _REQUIRED.items():
        if not isinstance(document.get(key), kind):
            found = repr(document[key])[:60] if key in document else "none"
            yield ContractError(node, f"the document has no {key!r}", found=found, expected=words)
