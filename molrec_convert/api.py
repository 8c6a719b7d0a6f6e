"""What plugins offer beside formats: functions that methods of records stand for, loaded when they are called."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from collections.abc import Collection as Names
from typing import TYPE_CHECKING, Any

from molrec_convert.errors import UnsupportedError, UsageError
from molrec_convert.model.forcefield import linking
from molrec_convert.model.forcefield.registry import Registry
from molrec_convert.model.record import Record
from molrec_convert.plugins import plugin_manager, style_registry

if TYPE_CHECKING:
    from molrec_convert.formats import Arrangement
    from molrec_convert.model.collection.collection import Collection
    from molrec_convert.model.record import Record
    from molrec_convert.report import Report

__all__ = ["from_ase", "from_universe", "plugin_function", "resolve"]


def plugin_function(plugin: str, name: str, library: str | None = None) -> Callable[..., Any]:
    """Return a function a plugin offers; extra and library have the name of the plugin unless one is given."""
    library = library or plugin
    found: dict[str, str] = getattr(plugin_manager().get_plugin(plugin), "FUNCTIONS", {})
    try:
        if name in found:
            importlib.import_module(library)
            module, _, attribute = found[name].partition(":")
            function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
            return function
        missing = f"the plugin {plugin!r}"
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("molrec_"):
            raise
        missing = error.name
    raise UnsupportedError(f"{name} needs {missing}, which is not installed: pip install 'molrec-convert[{plugin}]'")


def from_ase(atoms: Any, as_: Arrangement | None = None, *, report: Report | None = None) -> Record | Collection:
    """Return a record of `ase.Atoms`; of several a record with a trajectory, or where their atoms differ a collection.

    `as_` says which. Arrays, cell, constraints, `info` and the results a calculator holds are kept, whatever has no
    form in a record is in `report` as dropped. `UnsupportedError` where ASE is not installed.
    """
    made: Record | Collection = plugin_function("ase", "from_ase")(atoms, as_, report=report)
    return made


def from_universe(
    atoms: Any,
    frames: Any = None,
    *,
    units: str | None = None,
    target_units: str | None = None,
    hints: Names[str] = (),
    report: Report | None = None,
) -> Record:
    """Return a record of an `MDAnalysis.Universe` or an `AtomGroup`, with the topology as it is now.

    `frames`: None for all, a slice, numbers or flags, `u.trajectory[...]`, or "current" for the frame as it stands,
    with what was changed in it. Transformations and auxiliary data take part; frames are read when they are asked
    for. Where the universe has transformations that moves its own trajectory, which goes back to where it stood.
    `units`: a preset, for numbers MDAnalysis takes as they are; `target_units`: the preset to convert to. `hints`: what
    a `LayoutChanged` asks for. `UnsupportedError` where MDAnalysis is not installed.
    """
    made: Record = plugin_function("mdanalysis", "from_universe", "MDAnalysis")(
        atoms, frames, units=units, target_units=target_units, hints=hints, report=report
    )
    return made


def resolve(record: Record, registry: Registry | None = None) -> linking.Resolution:
    """Return what every atom, relation and pair of `record.system` takes from `record.forcefield`.

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
