"""What the rows of a record's system take from its force field."""

from __future__ import annotations

from molrec_convert.errors import UsageError
from molrec_convert.model.forcefield import linking
from molrec_convert.model.forcefield.registry import Registry
from molrec_convert.model.record import Record
from molrec_convert.plugins import style_registry

__all__ = ["resolve"]


def resolve(record: Record, registry: Registry | None = None) -> linking.Resolution:
    """What every atom, relation and pair of `record.system` takes from `record.forcefield`.

    `registry` knows the styles; without one those of the contract and of the plugins. `UsageError` for a record
    without a system or without a force field.
    """
    system, forcefield = record.system, record.forcefield
    for name, section in (("system", system), ("forcefield", forcefield)):
        if section is None:
            where = record.path or "the record"
            raise UsageError(f"{where} has no {name}: there is nothing to resolve")
    assert system is not None
    assert forcefield is not None
    return linking.resolve(system, forcefield, style_registry() if registry is None else registry)
