"""Records through MDAnalysis' writers: the writer of the format `mdanalysis`, and what it predicts to lose."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np

from molrec_convert.errors import MolrecError, UnsupportedError
from molrec_convert.files.staging import workroom
from molrec_convert.formats import WriteContext
from molrec_convert.model import Record
from molrec_mdanalysis.building import first_frame
from molrec_mdanalysis.losses import (
    ELSEWHERE,
    ROOMS,
    arrays_of,
    check_frame,
    check_writable,
    ids_serve,
    predict_atoms,
    predict_frames,
)
from molrec_mdanalysis.names import STATE
from molrec_mdanalysis.source import said_aloud
from molrec_mdanalysis.universe import universe_of

__all__ = ["predict", "write_mdanalysis"]

#: MDAnalysis' own units, for a writer that writes those of the trajectory.
_UNITS = {"time": "ps", "length": "Angstrom", "velocity": "Angstrom/ps", "force": "kJ/(mol*Angstrom)"}


def write_mdanalysis(record: Record, path: Path, context: WriteContext) -> None:
    """Every frame through the writer the target's name asks for; of a format of one frame the last one.

    UnsupportedError: MDAnalysis has no such writer, or it refuses what it is given.
    """
    name = (context.target or path).name
    kind = _writer(name, context)
    with said_aloud(context.report):
        universe = universe_of(record)
        universe.trajectory.units = dict(_UNITS)
        _name(universe)
        # MDAnalysis goes by the name of what it writes
        folder = workroom(path)
        folder.mkdir()
        try:
            made = folder / name
            _write(universe, kind, made, _format_name(name, context), context)
            os.replace(made, path)
        except MolrecError:
            raise
        except Exception as error:  # a foreign library: any of its errors says it cannot write this
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the system refuses
            text = " ".join(str(error).split())
            raise UnsupportedError(
                f"MDAnalysis' {kind.__name__} cannot write {name}: {type(error).__name__}: {text}"
            ) from error
        finally:
            universe.trajectory.close()
            shutil.rmtree(folder, ignore_errors=True)


def _write(universe: Any, kind: Any, made: Path, wanted: str, context: WriteContext) -> None:
    trajectory = universe.trajectory
    total = trajectory.n_frames if trajectory.counted else None
    context.progress.start(made.name, total if _holds_many(kind) else 1)
    if not _holds_many(kind):
        for _ in trajectory.frames() if total is None else [trajectory[total - 1]]:
            pass
        # of a source that does not tell how many frames it has the last one was read just now
        check_frame(trajectory.ts.frame, _presence(trajectory.ts, wanted), None, wanted)
        with kind(str(made), n_atoms=len(universe.atoms), **_keywords(kind, universe)) as writer:
            writer.write(universe.atoms)
        context.progress.advance(1)
        return
    with kind(str(made), n_atoms=len(universe.atoms), **_keywords(kind, universe)) as writer:
        first = None
        for ts in trajectory.frames():
            there = _presence(ts, wanted)
            check_frame(ts.frame, there, first, wanted)
            first = first or there
            writer.write(universe.atoms)
            context.progress.advance(1)


def _presence(ts: Any, wanted: str) -> dict[str, bool | None]:
    """Return which arrays a time step has, None of one some of whose numbers are missing."""
    found: dict[str, bool | None] = {}
    for name in arrays_of(wanted):
        there = bool(getattr(ts, f"has_{name}"))
        found[name] = None if there and bool(np.isnan(getattr(ts, name)).any()) else there
    return found


def _name(universe: Any) -> None:
    """Have elements stand for the names of atoms where there are none."""
    atoms = universe.atoms
    if not hasattr(atoms, "names") and hasattr(atoms, "elements"):
        universe.add_TopologyAttr("names", [element or "X" for element in atoms.elements])
    for attribute, usual in (("occupancies", 1.0), ("tempfactors", 0.0)):
        values = getattr(atoms, attribute, None)
        if values is not None and bool(np.isnan(values).any()):
            setattr(atoms, attribute, np.where(np.isnan(values), usual, values))


def _holds_many(kind: Any) -> bool:
    return bool(getattr(kind, "multiframe", False))


def _keywords(kind: Any, universe: Any) -> dict[str, Any]:
    """Return what some writers have to be told: the time between frames, which arrays there will be, to keep the
    ids.
    """
    words, ts = kind.__name__, universe.trajectory.ts
    keywords: dict[str, Any] = {}
    if words == "DCDWriter":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            keywords["dt"] = ts.dt
    if words == "NCDFWriter":
        keywords |= {name: getattr(ts, f"has_{name}") for name in ("velocities", "forces")}
    if words == "H5MDWriter":
        keywords |= {name: getattr(ts, f"has_{name}") for name in STATE}
    if words == "GROWriter":
        keywords["reindex"] = False
    if words in ("PDBWriter", "MultiPDBWriter"):
        keywords["reindex"] = not ids_serve(universe.atoms.ids, ROOMS["PDB"])
    return keywords


def _format_name(name: str, context: WriteContext) -> str:
    if context.options.writer_format is not None:
        return str(context.options.writer_format).upper()
    parts = name.upper().split(".")
    return parts[-2] if parts[-1] in ("GZ", "BZ2") and len(parts) > 2 else parts[-1]


def _writer(name: str, context: WriteContext) -> Any:
    """MDAnalysis' writer of many frames in a format, else that of one."""
    wanted = _format_name(name, context)
    known = {**MDAnalysis._SINGLEFRAME_WRITERS, **MDAnalysis._MULTIFRAME_WRITERS}
    ours = {"MREC", "ZIP", "NULL", "CHEMFILES"}
    if wanted not in known or wanted in ours:
        other = ELSEWHERE.get(wanted)
        if other is not None:
            raise UnsupportedError(f"MDAnalysis has no writer of {wanted}; the format {other} has one (--to {other})")
        there = ", ".join(sorted(format_name for format_name in known if format_name not in ours))
        raise UnsupportedError(f"MDAnalysis has no writer of {wanted}; it writes {there} (--writer-format)")
    return known[wanted]


def predict(record: Record, context: WriteContext) -> None:
    """Report what the target has no place for, by what its writer has room for.

    UnsupportedError: MDAnalysis has no writer of it, or one that would refuse the record.
    """
    name = (context.target or Path("target")).name
    kind = _writer(name, context)
    wanted, report = _format_name(name, context), context.report
    frame = first_frame(record)
    check_writable(record, frame, wanted, many=_holds_many(kind))
    room = ROOMS.get(wanted)
    frames = record.trajectory.n_frames if record.trajectory is not None else 1
    if not _holds_many(kind) and frames != 1:
        report.dropped("all frames but the last", f"{wanted} holds one frame")
    if room is None:
        report.warn(f"what {wanted} has no place for is not known before it is written")
        return
    predict_atoms(record, frame, room, wanted, report)
    predict_frames(record, frame, room, wanted, report)
