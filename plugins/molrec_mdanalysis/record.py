"""What MDAnalysis opens as a record: the reader of the format `mdanalysis`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UnsupportedError, UsageError
from molrec_convert.formats import Format, ReadContext, make_options
from molrec_convert.meaning.units import in_units
from molrec_convert.model import Column, Frame, Meta, Record, Trajectory
from molrec_convert.plugins import detect, formats
from molrec_convert.quantities.dimensions import UnitConversion, units_object, units_words
from molrec_convert.quantities.units import unit_of_quantity
from molrec_convert.report import Report
from molrec_mdanalysis.frames import Layout, ShownReader, layout_of
from molrec_mdanalysis.names import STATE, UNITS
from molrec_mdanalysis.source import open_frames, open_universe, refusing
from molrec_mdanalysis.topology import attributes_of, selected, system_of
from molrec_mdanalysis.trajectory import ClockedTrajectory, MdaTrajectory, clock_of, counted, is_of_lammps
from molrec_mdanalysis_format.options import MdaOptions

__all__ = ["frames_of_reader", "read_beside", "read_mdanalysis", "reader_of_topology", "record_of"]

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


def read_mdanalysis(paths: Sequence[Path], context: ReadContext) -> Record:
    """Return a topology, and trajectories after it, through MDAnalysis' parsers and readers; frames stay where they
    are.

    A LAMMPS data file in front of trajectories is read by the reader of its own format.
    FormatError: MDAnalysis cannot open the files.
    """

    where = [Path(path) for path in paths]
    own = reader_of_topology(where, context.options)
    if own is not None:
        return read_beside(own, where, context)
    universe, guessed = open_universe(where, context.options, context.report)
    return record_of(universe, where[-1], context, guessed)


def record_of(
    universe: Any,
    path: Path,
    context: ReadContext,
    guessed: Mapping[str, int],
    shown: ShownReader | None = None,
    rows: NDArray[np.int64] | None = None,
) -> Record:
    """Return the record of a universe; `path` is what errors name.

    `shown`: the frames that are wanted, in place of all of its trajectory's; `rows`: the atoms, in place of all.
    """
    report, options = context.report, context.options
    reader = getattr(universe, "trajectory", None) if universe._trajectory is not None else None
    lammps = shown is None and reader is not None and options.dt is None and is_of_lammps(reader)
    units = dict(UNITS) if lammps else _units(reader, options, report)
    system = system_of(universe, guessed, units, report)
    _check_topology(universe, report)
    if rows is not None:
        system = selected(system, rows)
    if reader is None:
        report.warn("no coordinates: the record has the topology alone")
        return Record(system=system, path=str(path))
    columns = system["atoms"].columns
    trajectory: Trajectory
    if not lammps:
        with refusing(path, "its frames", "frames MDAnalysis reads"):
            source, trajectory = _frames(reader, path, context, columns, shown)
        return Record(system=system, trajectory=trajectory, path=str(path), _close=source.close)
    style = None if options.units is None else {"preset": options.units}
    source, trajectory, own = frames_of_reader(reader, path, context, columns, style)
    if own is None:
        report.derived("lengths", f"taken to be in Å, as MDAnalysis takes them: {path.name} states no unit (--units)")
        own = dict(UNITS)
    if own.get("preset") == "lj":
        system.meta.put("units", own, "json")
        report.warn("the frames are in reduced units (lj), which the record states; the topology is as it was read")
        return Record(system=system, trajectory=trajectory, path=str(path), _close=source.close)
    meta = Meta()
    meta.put("units", own, "json")
    frames = Record(system=Frame({}, meta), trajectory=trajectory)
    if UnitConversion(own, UNITS).changes:
        converted = in_units(frames, UNITS, report=report, strict=False)
        assert isinstance(converted, Record)
        assert converted.trajectory is not None
        trajectory = converted.trajectory
    return Record(system=system, trajectory=trajectory, path=str(path), _close=source.close)


def frames_of_reader(
    reader: Any, path: Path, context: ReadContext, taken: Mapping[str, Column], style: Any
) -> tuple[Any, Trajectory, dict[str, Any] | None]:
    """Return what is to be closed, the frames, and the units they are in, None where nothing says.

    `style`: the units of the system beside them, in which LAMMPS' own files are. Times of a DCD file LAMMPS wrote are
    left out where there is none, or a reduced one.
    """
    options, report = context.options, context.report
    stated = units_object(style) or None
    if options.dt is not None or not is_of_lammps(reader):
        units = _units(reader, replace(options, units=None), report, stated)
        with refusing(path, "its frames", "frames MDAnalysis reads"):
            return *_frames(reader, path, context, taken, None), units
    with refusing(path, "its frames", "frames MDAnalysis reads"):
        source, trajectory = _frames(reader, path, context, taken, None)
    steps, times = clock_of(reader)
    if bool((np.diff(steps) <= 0).any()):
        report.dropped("time", f"{path.name}: the steps of files LAMMPS wrote do not ascend from one to the next")
        return source, ClockedTrajectory(trajectory, np.arange(len(steps)), None), stated
    report.carried("steps", "as LAMMPS wrote them: the first one, and how many there are between frames")
    if stated is None or (unit_of_quantity(stated, "time") is None and stated.get("preset") != "lj"):
        report.dropped(
            "time", f"{path.name}: LAMMPS wrote it in the unit of its style, which nothing states; --units names it"
        )
        return source, ClockedTrajectory(trajectory, steps, None), stated
    report.derived("time", f"LAMMPS wrote {path.name}: its time step is in units {units_words(stated)}")
    return source, ClockedTrajectory(trajectory, steps, times), stated


def _frames(
    reader: Any, path: Path, context: ReadContext, taken: Mapping[str, Column], shown: ShownReader | None
) -> tuple[Any, MdaTrajectory]:
    """Return what is to be closed, and the frames; `taken`: columns the system has."""
    report = context.report
    if not reader.n_frames:
        raise FormatError(path, found="no frames", expected="a trajectory of one at least")
    source: Any = shown
    if source is None:
        source = ShownReader(reader) if len(reader.aux_list) else reader
        _check_whole(reader, path, report)
    elif is_of_lammps(reader):
        report.warn(
            f"{path.name} was written by LAMMPS, and MDAnalysis takes its time step for one in AKMA units: open it "
            'with format="LAMMPS", timeunit="fs" (or "ps")'
        )
    layout = layout_of(source[0], source, taken, context.hints | counted(source, path, report))
    _tell(reader, layout, source[0].dimensions is not None, report)
    return source, MdaTrajectory(source, layout, path, report)


def _check_whole(reader: Any, path: Path, report: Report) -> None:
    """Say so where a DCD file breaks off: MDAnalysis counts its whole frames by the size and leaves the rest.

    A file ends with the size of its last record, the coordinates of all atoms that are not fixed.
    """
    if type(reader).__name__ != "DCDReader":
        return
    with open(path, "rb") as file:
        head = file.read(44)
        file.seek(-4, 2)
        last = file.read(4)
    order: Literal["little", "big"] = "little" if head[:4] == b"\x54\0\0\0" else "big"
    fixed = int.from_bytes(head[40:44], order)
    if not fixed and int.from_bytes(last, order) != 4 * reader.n_atoms:
        report.truncated(f"{path}: it breaks off behind {reader.n_frames} whole frames")


def _check_topology(universe: Any, report: Report) -> None:
    """Say so where there is none."""
    said = {"indices", "resindices", "segindices"}
    if not (attributes_of(universe).keys() - said):
        report.warn("no topology: atoms have coordinates only; name one before the trajectory")


def _units(
    reader: Any, options: MdaOptions, report: Report, beside: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return the units of the numbers MDAnalysis hands out; where the reader does not know its own those that are
    stated.

    `beside`: those of a system that is read by others.
    """
    stated = {} if reader is None else getattr(reader, "units", None) or {}
    own: dict[str, Any] | None = getattr(reader, "handed_out", None)  # a record's, through MrecReader
    if own is None and (reader is None or stated.get("length") is not None):
        own = dict(UNITS)
    if own is not None:
        if options.units is not None:
            raise UsageError(
                f"--units {options.units}: MDAnalysis hands these numbers out in {units_words(own)}; --target-units "
                "converts them"
            )
        report.carried("units", f"{units_words(own)}, as MDAnalysis hands the numbers out")
        return own
    if options.units is not None:
        report.carried("units", f"{options.units}, as stated")
        return {"preset": options.units}
    if beside is not None:
        report.derived(
            "units", f"{units_words(beside)}, those of the data file: MDAnalysis takes the numbers as they are"
        )
        return beside
    report.warn("MDAnalysis takes the numbers of this format as they are: the record states no units (--units)")
    return None


def _tell(reader: Any, layout: Layout, celled: bool, report: Report) -> None:
    """What becomes of what the frames hold."""
    for name, sparse in layout.arrays.items():
        columns = " ".join(STATE[name])
        report.carried(name, f"as {columns}" + ("; null in frames that have none" if sparse else ""))
    if not layout.cells:
        report.converted("cells", "as the per-step value dimensions, three lengths and three angles")
    elif celled:
        report.carried("cells", "as vectors: a on x, b in the plane of x and y")
    if layout.timed and type(reader).__name__ == "DumpReader" and "dt" not in reader.ts.data:
        report.derived("time", "MDAnalysis counts 1 ps a step in LAMMPS dumps unless --dt says otherwise")
    elif layout.timed:
        report.carried("time")
    for key, (name, _) in layout.data.items():
        report.carried(f"data[{key!r}]", f"as the per-step value {name}")
    for key, (column, _) in layout.rows.items():
        report.carried(f"data[{key!r}]", f"as the column {column}")
    for key in layout.left_out:
        report.dropped(f"data[{key!r}]", "it is no number, text, or list of them")
