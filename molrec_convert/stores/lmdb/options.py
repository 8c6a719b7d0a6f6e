"""What can be told to the writer of a collection."""

from __future__ import annotations

import dataclasses

from molrec_convert.errors import UsageError
from molrec_convert.formats import option

__all__ = ["CollectionOptions"]


@dataclasses.dataclass(frozen=True)
class CollectionOptions:
    """How a collection is written."""

    index: tuple[str, ...] = option(
        (), "index columns beside its own: keys of the records' system or meta", metavar="NAME,..."
    )
    collection_units: tuple[str, ...] = option(
        (), "units of the collection's numbers, where the source states none", metavar="QUANTITY=UNIT,..."
    )
    shard_records: int | None = option(
        None, "write a directory of collections with so many records each, read as one collection", metavar="N"
    )

    def units(self) -> dict[str, str]:
        """Return the units named; `UsageError` for anything but QUANTITY=UNIT."""
        stated = {}
        for text in self.collection_units:
            quantity, equals, unit = text.partition("=")
            if not equals or not quantity.strip() or not unit.strip():
                raise UsageError(f"collection units are QUANTITY=UNIT, like length=angstrom: found {text!r}")
            stated[quantity.strip()] = unit.strip()
        return stated
