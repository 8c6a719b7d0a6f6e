"""Momenta in the place of velocities: what ASE reads, in its own units, from velocities and masses of a record."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from molrec_convert.meaning.quantities import atom_blocks
from molrec_convert.model import ColumnDeclaration, FrameBatch, Record
from molrec_convert.model.trajectory import MappedTrajectory
from molrec_convert.quantities.dimensions import unit_of_dimension, units_object
from molrec_convert.quantities.standard import momenta_of, velocity_factor
from molrec_convert.quantities.units import conversion_factor
from molrec_convert.report import Report

__all__ = ["with_momenta"]

_VELOCITIES = ("vx", "vy", "vz")


def with_momenta(record: Record, report: Report) -> Record:
    """Return the record with the column `momenta` beside its velocities, (dalton eV)**0.5, as ASE's files have them.

    Itself where it has none to make: no velocities, momenta already, no masses, or units that are not stated.
    """
    trajectory = record.trajectory
    if trajectory is None:
        return record
    declared = trajectory.declaration.blocks
    block = next((name for name in atom_blocks(trajectory.declaration) if "vx" in declared[name].columns), None)
    if block is None or not all(axis in declared[block].columns for axis in _VELOCITIES):
        return record
    if any("momenta" in declared[name].columns for name in atom_blocks(trajectory.declaration)):
        return record
    units = units_object(record.units)
    per_velocity, mass_unit = velocity_factor(units), unit_of_dimension("mass", units)
    per_mass = None if mass_unit is None else conversion_factor(mass_unit, "dalton")
    if per_velocity is None or per_mass is None:
        return record
    system = None if record.system is None else record.system.blocks.get("atoms")
    fixed = None
    if "mass" not in declared[block].columns:
        if system is None or "mass" not in system.columns or system.columns["mass"].validity is not None:
            report.warn("the velocities are written as velo, which ASE does not read: the record has no masses")
            return record
        fixed = system.columns["mass"].values * per_mass

    def change(batch: FrameBatch) -> FrameBatch:
        updates = batch.blocks.get(block)
        if updates is None:
            return batch
        masses: NDArray[np.float64] = (
            updates.columns["mass"] * per_mass if fixed is None else np.tile(fixed, len(updates.frames))
        )
        velocities = np.stack([updates.columns[axis] for axis in _VELOCITIES], axis=1)
        columns = {**updates.columns, "momenta": momenta_of(velocities, masses, per_velocity)}
        validity = dict(updates.validity)
        if "vx" in validity:
            validity["momenta"] = validity["vx"]
        made = dataclasses.replace(updates, columns=columns, validity=validity)
        return dataclasses.replace(batch, blocks={**batch.blocks, block: made})

    own = declared[block]
    column = ColumnDeclaration("f64", (3,), own.columns["vx"].nullable)
    blocks = {**declared, block: dataclasses.replace(own, columns={**own.columns, "momenta": column})}
    declaration = dataclasses.replace(trajectory.declaration, blocks=blocks)
    report.converted("atoms/vx, vy, vz", "as momenta, with the masses of the atoms: ASE reads these")
    return dataclasses.replace(record, trajectory=MappedTrajectory(trajectory, change, declaration, whole=True))
