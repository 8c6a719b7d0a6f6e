"""What MDAnalysis opens as a record: the reader of the format `mdanalysis`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from molrec_convert.errors import FormatError
from molrec_convert.formats import ReadContext
from molrec_convert.model import Frame, Record
from molrec_convert.report import Report
from molrec_mdanalysis.layout import Layout, layout_of
from molrec_mdanalysis.names import STATE, UNITS
from molrec_mdanalysis.source import open_universe
from molrec_mdanalysis.topology import attributes_of, system_of
from molrec_mdanalysis.trajectory import MdaTrajectory

__all__ = ["read_mdanalysis", "record_of"]


def read_mdanalysis(paths: Sequence[Path], context: ReadContext) -> Record:
    """A topology, and trajectories after it, through MDAnalysis' parsers and readers; frames stay where they are.

    FormatError: MDAnalysis cannot open the files.
    """
    where = [Path(path) for path in paths]
    universe, guessed = open_universe(where, context.options, context.report)
    return record_of(universe, where[-1], context, guessed)


def record_of(universe: Any, path: Path, context: ReadContext, guessed: dict[str, int]) -> Record:
    """The record of a universe; `path` is what errors name."""
    report = context.report
    reader = getattr(universe, "trajectory", None) if universe._trajectory is not None else None
    units = _units(reader, report)
    if reader is None:
        return Record(system=_system(universe, guessed, units, report), path=str(path))
    if not reader.n_frames:
        raise FormatError(path, found="no frames", expected="a trajectory of one at least")
    ts = reader[0]
    celled = ts.dimensions is not None
    system = _system(universe, guessed, units, report)
    _check_whole(reader, path, report)
    layout = layout_of(ts, reader, system["atoms"].columns, context.hints)
    _tell(reader, layout, celled, report)
    trajectory = MdaTrajectory(reader, layout, path, report)
    closing = reader.close
    return Record(system=system, trajectory=trajectory, path=str(path), _close=closing)


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


def _system(universe: Any, guessed: dict[str, int], units: Any, report: Report) -> Frame:
    system = system_of(universe, guessed, units, report)
    said = {"indices", "resindices", "segindices"}
    if not (attributes_of(universe).keys() - said):
        report.warn("no topology: atoms have coordinates only; name one before the trajectory")
    return system


def _units(reader: Any, report: Report) -> dict[str, str] | None:
    """The units of the numbers MDAnalysis hands out; None where the reader does not know its own."""
    stated = {} if reader is None else getattr(reader, "units", None) or {}
    if reader is not None and stated.get("length") is None:
        report.warn("MDAnalysis takes the numbers of this format as they are: the record states no units")
        return None
    report.carried("units", "Å, ps, kJ/mol, u, e, as MDAnalysis hands the numbers out")
    return dict(UNITS)


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
