"""A LAMMPS data file named with a trajectory MDAnalysis reads: each is read by whoever reads it best.

The data file's reader keeps what MDAnalysis' leaves out: coefficients, image flags, labels, the order of relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from molrec_convert.errors import UnsupportedError
from molrec_convert.formats import Format, ReadContext, make_options
from molrec_convert.meaning.units import in_units
from molrec_convert.model import Frame, Meta, Record
from molrec_convert.plugins import detect, formats
from molrec_convert.quantities.dimensions import units_object, units_words
from molrec_mdanalysis.record import frames_of_reader
from molrec_mdanalysis.source import open_frames
from molrec_mdanalysis_format.options import MdaOptions

__all__ = ["read_beside", "reader_of_topology"]

_DATA = "lammps-data"


def reader_of_topology(paths: Sequence[Path], options: MdaOptions) -> Format | None:
    """Return the format whose reader takes the topology; None where MDAnalysis does.

    A name of MDAnalysis for it (`--topology-format DATA`) leaves it to MDAnalysis.
    """
    if len(paths) < 2 or options.topology_format is not None or _DATA not in formats():
        return None
    own = formats()[_DATA]
    return own if detect(paths[:1]) == own else None


def read_beside(own: Format, paths: Sequence[Path], context: ReadContext) -> Record:
    """Return the record of a data file, its state as the section `frame`, with the frames of the trajectories.

    The frames come in the units of the data file. FormatError: a file cannot be read, or has other atoms.
    """
    options, report = context.options, context.report
    told = {"units": options.units, "atom_style": options.atom_style}
    system = own.reader()(paths[:1], replace(context, options=make_options(own.read_options, told, own.name)))
    if not isinstance(system, Record) or system.system is None or not system.system.blocks["atoms"].count:
        raise UnsupportedError(f"{paths[0]}: it has no atoms for a trajectory")
    atoms = system.system.blocks["atoms"]
    reader = open_frames(atoms.count, paths, options, report)
    source, trajectory, units = frames_of_reader(reader, paths[-1], context, atoms.columns, system.units)
    stated = units_object(system.units)
    if units is not None and units != stated:
        meta = Meta()
        meta.put("units", units, "json")
        frames = Record(system=Frame({}, meta), trajectory=trajectory)
        if stated and stated.get("preset") != "lj":
            made = in_units(frames, stated, report=report, strict=False)
            assert isinstance(made, Record)
            assert made.trajectory is not None
            trajectory = made.trajectory
        else:
            report.warn(
                f"{paths[-1].name} is in {units_words(units)}, and nothing says what the data file is in: the record "
                "states no units; --units names those of the data file"
                if not stated
                else f"{paths[-1].name} is in {units_words(units)}, which has no way to the reduced units (lj) of the "
                "data file: its numbers are taken as they are"
            )
    report.carried("trajectory", "read by MDAnalysis; atoms in ascending order of ids, as in the data file")
    report.carried(f"state of {paths[0].name}", "as the section frame, beside the trajectory")
    return replace(system, trajectory=trajectory, path=str(paths[-1]), _close=source.close)
