"""What MDAnalysis opens as a record: the reader of the format `mdanalysis`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Record
from molrec_convert.report import Report
from molrec_mdanalysis.layout import Layout, layout_of
from molrec_mdanalysis.names import STATE, UNITS
from molrec_mdanalysis.selecting import scaled, selected
from molrec_mdanalysis.shown import ShownReader
from molrec_mdanalysis.source import open_universe
from molrec_mdanalysis.topology import attributes_of, system_of
from molrec_mdanalysis.trajectory import MdaTrajectory, counted
from molrec_mdanalysis.units import Factors, factors_between, said
from molrec_mdanalysis_format.options import MdaOptions

__all__ = ["read_mdanalysis", "record_of"]


def read_mdanalysis(paths: Sequence[Path], context: ReadContext) -> Record:
    """A topology, and trajectories after it, through MDAnalysis' parsers and readers; frames stay where they are.

    FormatError: MDAnalysis cannot open the files.
    """
    where = [Path(path) for path in paths]
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
    """The record of a universe; `path` is what errors name.

    `shown`: the frames that are wanted, in place of all of its trajectory's; `rows`: the atoms, in place of all.
    """
    report, options = context.report, context.options
    reader = getattr(universe, "trajectory", None) if universe._trajectory is not None else None
    own = _units(reader, options, report)
    units, factors = _wanted_units(own, options, report)
    system = system_of(universe, guessed, units, report)
    _check_topology(universe, report)
    system = scaled(system if rows is None else selected(system, rows), factors)
    if reader is None:
        report.warn("no coordinates: the record has the topology alone")
        return Record(system=system, path=str(path))
    if not reader.n_frames:
        raise FormatError(path, found="no frames", expected="a trajectory of one at least")
    source: Any = shown
    if source is None:
        plain = factors == Factors() and not len(reader.aux_list)
        source = reader if plain else ShownReader(reader, factors=factors)
        _check_whole(reader, path, report)
    else:
        source.factors = factors
    hints = context.hints | counted(source, path, report)
    ts = source[0]
    layout = layout_of(ts, source, system["atoms"].columns, hints)
    _tell(reader, layout, ts.dimensions is not None, report)
    apart = [
        name
        for key, (name, tag) in layout.data.items()
        if tag not in ("string", "i64") and factors.of_value(key) is None
    ]
    if factors != Factors() and apart:
        report.warn(f"per-step values {', '.join(apart)}: kept as they are, as nothing says their units")
    trajectory = MdaTrajectory(source, layout, path, report)
    return Record(system=system, trajectory=trajectory, path=str(path), _close=source.close)


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


def _units(reader: Any, options: MdaOptions, report: Report) -> dict[str, str] | None:
    """The units of the numbers MDAnalysis hands out; where the reader does not know its own those that are stated."""
    stated = {} if reader is None else getattr(reader, "units", None) or {}
    own: dict[str, str] | None = getattr(reader, "handed_out", None)  # a record's, through MrecReader
    if own is None and (reader is None or stated.get("length") is not None):
        own = dict(UNITS)
    if own is not None:
        if options.units is not None:
            raise UsageError(
                f"--units {options.units}: MDAnalysis hands these numbers out in {said(own)}; --target-units "
                "converts them"
            )
        return own
    if options.units is not None:
        return {"preset": options.units}
    report.warn("MDAnalysis takes the numbers of this format as they are: the record states no units (--units)")
    return None


def _wanted_units(
    own: dict[str, str] | None, options: MdaOptions, report: Report
) -> tuple[dict[str, str] | None, Factors]:
    """The units the record is to have, and what numbers are multiplied by to be in them."""
    if options.target_units is None:
        if own == UNITS:
            report.carried("units", "Å, ps, kJ/mol, u, e, as MDAnalysis hands the numbers out")
        elif own is not None:
            report.carried("units", f"{said(own)}, as stated")
        return own, Factors()
    if own is None:
        raise UsageError(
            f"--target-units {options.target_units}: nothing says what the numbers are in now; --units does"
        )
    wanted = {"preset": options.target_units}
    factors = Factors() if own == wanted else factors_between(own, wanted)
    report.converted("units", f"to those of the preset {options.target_units}")
    return wanted, factors


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
