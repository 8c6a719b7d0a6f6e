"""Files through a record against the same files in MDAnalysis: what differs, named."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np
from MDAnalysisTests import datafiles

import molrec_convert
import molrec_mdanalysis  # noqa: F401
from molrec_convert.report import Report

__all__ = ["Comparison", "compare", "options_of", "paths_of", "resolved", "universe_of"]

_OPTIONS = {"format": "trajectory_format", "topology_format": "topology_format", "atom_style": "atom_style", "dt": "dt"}
_ARRAYS = {"positions": "x y z", "velocities": "vx vy vz", "forces": "fx fy fz"}
#: Coordinates of all frames up to which every frame is compared.
_ALL = 3_000_000


@dataclass
class Comparison:
    """What was found of one pair; `differences` names each thing that is not the same, once."""

    format: str
    atoms: int
    frames: int
    looked: int = 0
    has: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def note(self, same: bool, what: str) -> None:
        if not same and what not in self.differences:
            self.differences.append(what)


def paths_of(names: tuple[str, ...]) -> list[str]:
    """The files with these names in MDAnalysisTests."""
    return [os.fspath(getattr(datafiles, name)) for name in names]


def options_of(keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords of a universe as options of ours."""
    options: dict[str, Any] = {_OPTIONS[key]: value for key, value in keywords.items() if key in _OPTIONS}
    further = tuple(f"{key}={json.dumps(value)}" for key, value in keywords.items() if key not in _OPTIONS)
    return {**options, **({"keywords": further} if further else {})}


def universe_of(names: tuple[str, ...], keywords: dict[str, Any]) -> Any:
    """What MDAnalysis makes of the files."""
    return MDAnalysis.Universe(*paths_of(names), **resolved(keywords))


def resolved(keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords with the paths of the files they name."""
    return {
        key: paths_of((value[1:],))[0] if isinstance(value, str) and value.startswith("@") else value
        for key, value in keywords.items()
    }


def compare(names: tuple[str, ...], keywords: dict[str, Any], folder: Path) -> Comparison:
    """Convert, pack, and hold the record, and the universes of both its forms, against the universe of the files."""
    report = Report()
    target, packed = folder / "run.mrec", folder / "run.mrec.zip"
    paths = paths_of(names)
    molrec_convert.convert(paths, target, from_format="mdanalysis", report=report, **options_of(resolved(keywords)))
    with molrec_convert.open(target) as record:
        molrec_convert.write(record, packed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = universe_of(names, keywords)
        ours, again = MDAnalysis.Universe(str(target)), MDAnalysis.Universe(str(packed))
        moving = theirs._trajectory is not None
        found = Comparison("none", len(theirs.atoms), 0)
        found.note(not report.lossy, "something is lost: " + "; ".join(report.losses()))
        for universe in (ours, again):
            _topology(found, universe, theirs)
            found.note((universe._trajectory is not None) == moving, "coordinates")
        if moving and not found.differences:
            with molrec_convert.open(target) as record:
                _frames(found, record, (ours, again), theirs)
    return found


def _frames(found: Comparison, record: Any, universes: tuple[Any, Any], theirs: Any) -> None:
    reader = theirs.trajectory
    found.format, found.frames = getattr(reader, "format", type(reader).__name__), int(reader.n_frames)
    found.format = found.format if isinstance(found.format, str) else found.format[0]
    found.note(all(universe.trajectory.n_frames == found.frames for universe in universes), "number of frames")
    count = max(4, _ALL // max(1, found.atoms))
    wanted = range(found.frames)
    if found.frames > count:
        wanted = sorted({*np.linspace(0, found.frames - 1, count).astype(int).tolist()})
    found.looked = len(wanted)
    for index in wanted:
        ts = reader[index]
        for name in _ARRAYS:
            if getattr(ts, f"has_{name}") and name not in found.has:
                found.has.append(name)
        if ts.dimensions is not None and "cell" not in found.has:
            found.has.append("cell")
        for universe in universes:
            _frame(found, universe.trajectory[index], ts)
        _exact(found, record.trajectory.frame(index), ts)
    if found.frames > 1:
        # a record's times say it; MDAnalysis says 1 where it knows nothing better, and of chains what one link says
        times = [float(reader[number].time) for number in (0, 1)]
        stated = np.isclose(times[1] - times[0], reader.dt, rtol=1e-4)
        found.note(not stated or np.isclose(universes[0].trajectory.dt, reader.dt, rtol=1e-4), "time between frames")


def _frame(found: Comparison, a: Any, b: Any) -> None:
    for name in _ARRAYS:
        there = getattr(b, f"has_{name}")
        same = getattr(a, f"has_{name}") == there
        found.note(same and (not there or _bits(getattr(a, name)) == _bits(getattr(b, name))), name)
    found.note((a.dimensions is None) == (b.dimensions is None), "cell")
    if a.dimensions is not None and b.dimensions is not None:
        found.note(_bits(a.dimensions) == _bits(b.dimensions), "cell")
    if b.frame >= 0 or "time" in b.data:  # a frame of no number has no time: MDAnalysis says -1 ps
        found.note(a.time == b.time, "times")
    for key, value in b.data.items():
        if key not in ("dt", "time_offset") and key not in ("time",):
            found.note(key in a.data and _same(a.data[key], value), f"data[{key!r}]")


def _exact(found: Comparison, frame: Any, ts: Any) -> None:
    """The record's numbers of double precision are those of single precision MDAnalysis has."""
    for name, columns in _ARRAYS.items():
        if getattr(ts, f"has_{name}"):
            values = np.stack([frame["atoms"][column] for column in columns.split()], axis=1)
            found.note(_bits(values) == _bits(np.asarray(getattr(ts, name), dtype=np.float64)), f"{name} of the record")


def _bits(values: Any) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, np.ndarray) and theirs.dtype.kind == "f":
        mine = np.asarray(mine)
        return mine.shape == theirs.shape and bool(np.array_equal(mine.astype(theirs.dtype), theirs, equal_nan=True))
    if isinstance(theirs, (bytes, np.bytes_)):
        return bool(mine == theirs.decode())
    return bool(np.all(np.asarray(mine) == np.asarray(theirs)))


def _topology(found: Comparison, ours: Any, theirs: Any) -> None:
    found.note(np.array_equal(ours.atoms.resindices, theirs.atoms.resindices), "residues")
    found.note(np.array_equal(ours.atoms.segindices, theirs.atoms.segindices), "segments")
    mine = {attribute.attrname: attribute for attribute in ours._topology.attrs}
    # MDAnalysis keeps an attribute it has filled in beside the one with gaps, under one name
    for name, attribute in {attribute.attrname: attribute for attribute in theirs._topology.attrs}.items():
        if name in ("indices", "resindices", "segindices"):
            continue
        if name not in mine:
            found.note(False, name)
        elif hasattr(attribute, "types"):
            _connections(found, mine[name], attribute, name)
        else:
            _values(found, mine[name].values, np.asarray(attribute.values), name)


def _values(found: Comparison, a: Any, b: Any, name: str) -> None:
    if b.dtype == object and not all(isinstance(value, str) for value in b.tolist()):
        a, b = a.astype(str), np.array(["" if value is None else str(value) for value in b.tolist()])
    if len(a) != len(b):
        found.note(False, name)
    elif b.dtype.kind == "f":
        found.note(_bits(a.astype(b.dtype)) == _bits(b), name)
    else:
        found.note(bool(np.array_equal(a, b)), name)


def _connections(found: Comparison, mine: Any, theirs: Any, name: str) -> None:
    found.note([tuple(v) for v in mine.values] == [tuple(v) for v in theirs.values], name)
    found.note([_word(t) for t in mine.types] == [_word(t) for t in theirs.types], f"types of {name}")
    found.note([_order(o) for o in mine.order] == [_order(o) for o in theirs.order], f"orders of {name}")
    found.note([bool(g) for g in mine._guessed] == [bool(g) for g in theirs._guessed], f"guessed {name}")


def _word(kind: Any) -> Any:
    return " ".join(map(str, kind)) if isinstance(kind, tuple) else None if kind is None else str(kind)


def _order(order: Any) -> Any:
    return {"1": 1.0, "2": 2.0, "3": 3.0}.get(order, order)
