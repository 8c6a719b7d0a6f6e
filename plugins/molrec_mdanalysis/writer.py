"""The writer of `.mrec` and `.mrec.zip` in MDAnalysis: atoms of a universe, frame by frame, as a record.

Frames are appended to a hidden record beside the target, which takes its name when the writer is closed.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from MDAnalysis.coordinates.base import WriterBase

import molrec_convert
from molrec_convert.errors import LayoutChanged, UsageError
from molrec_convert.files.staging import Staging, workroom
from molrec_convert.model import FrameBatch, MemoryTrajectory, Record
from molrec_convert.report import Report
from molrec_mdanalysis.frames import Gatherer, Layout, Pass, Portion, Shown, data_of, layout_of
from molrec_mdanalysis.names import UNITS
from molrec_mdanalysis.topology import selected, system_of

__all__ = ["MrecWriter"]

_GATHERED = 8 * 2**20


class MrecWriter(WriterBase):  # type: ignore[misc]
    """Writes an AtomGroup or a Universe at each of any number of frames.

    The first frame says which of velocities, forces and values in `ts.data` the record has. Units are MDAnalysis' own,
    and the record states them; numbers that come from a record are in the units its reader hands them out in, none
    where it states none.
    """

    format: ClassVar[list[str]] = ["MREC", "ZIP"]
    multiframe = True
    units: ClassVar[dict[str, str | None]] = {"time": None, "length": None, "velocity": None, "force": None}

    def __init__(self, filename: Any, n_atoms: int | None = None, **_: Any) -> None:
        self._staging: Staging | None = None
        self._appending: Any = None
        self._portion: Portion | None = None
        self.filename = os.fspath(filename)
        if n_atoms is None:
            raise TypeError("MrecWriter needs the number of atoms: MrecWriter(filename, n_atoms)")
        self.n_atoms = n_atoms
        self._staging = Staging(self.filename, overwrite=True)
        self._target = self._staging.target
        self._written = 0
        self._last_step: int | None = None

    def _write_next_frame(self, obj: Any) -> None:
        """Add the atoms of an AtomGroup or a Universe as they are now."""
        try:
            atoms = obj.atoms
            ts = atoms.universe.trajectory.ts
        except AttributeError:
            raise TypeError(f"an AtomGroup or a Universe is written, not {type(obj).__name__}") from None
        if len(atoms) != self.n_atoms:
            raise ValueError(f"the writer is for {self.n_atoms} atoms, and {len(atoms)} are written")
        if self._portion is None:
            self._begin(atoms, ts)
        assert self._portion is not None
        try:
            self._gatherer.take(self._portion, self._shown(atoms, ts))
        except LayoutChanged as changed:
            raise UsageError(f"{changed.reason}; a record's frames all hold what the first does") from None
        if self._portion.frames == self._size:
            self._flush()

    def _begin(self, atoms: Any, ts: Any) -> None:
        """Make up a layout by the first frame."""
        rows = np.asarray(atoms.ix)
        reader = atoms.universe.trajectory
        units = getattr(reader, "handed_out", dict(UNITS))  # a record states its own
        whole = system_of(atoms.universe, {}, units, Report())
        self._system = selected(whole, rows)
        first = Shown(ts, rows, data_of(ts))
        layout = layout_of(first, None, self._system["atoms"].columns, frozenset())
        # a value that later frames lack is no number, or null
        data = {key: (name, tag if tag == "f64" else "json") for key, (name, tag) in layout.data.items()}
        self._layout: Layout = replace(layout, data=data, stepped=True, known=layout.known | {"step"})
        declaration = self._layout.declaration()
        self._gatherer = Gatherer(self._layout, declaration, self._target)
        self._pass = Pass(self._layout, declaration, self._target)
        bytes_each = max(1, self.n_atoms * 24 * len(self._layout.arrays))
        self._size = int(min(max(1, _GATHERED // bytes_each), 1024))
        self._portion = self._gatherer.portion(0, self._size)

    def _shown(self, atoms: Any, ts: Any) -> Shown:
        """Return the frame, with a step number behind the last one's and a value for every key."""
        data = data_of(ts)
        for key in data.keys() - self._layout.known:
            warnings.warn(f"frame {ts.frame} has {key}, which the first frame has not: it is left out", stacklevel=4)
            del data[key]
        for key, (_, tag) in self._layout.data.items():
            if tag == "f64" and key not in data:
                data[key] = float("nan")
        step = data.get("step")
        last = self._last_step
        if step is None or (last is not None and int(step) <= last):
            if step is not None:
                warnings.warn("step numbers do not ascend from frame to frame: they are counted on", stacklevel=4)
            step = 0 if last is None else last + 1
        data["step"] = self._last_step = int(step)
        return Shown(ts, np.asarray(atoms.ix), data)

    def _flush(self) -> None:
        """What was gathered goes to the hidden record."""
        assert self._portion is not None
        if not self._portion.frames:
            return
        try:
            batch = self._pass.batch(self._portion)
        except LayoutChanged as changed:
            raise UsageError(f"{changed.reason}; a record keeps the cell it has") from None
        first = 0
        if self._appending is None:
            first = 1
            self._start(batch)
        if batch.n_frames > first:
            self._appending.append(_from(batch, first))
        self._written += batch.n_frames
        self._portion = self._gatherer.portion(self._written, self._size)

    def _start(self, batch: FrameBatch) -> None:
        declaration = self._layout.declaration()
        frame = batch.frame(0, declaration)
        record = Record(system=self._system, trajectory=MemoryTrajectory([frame], declaration))
        assert self._staging is not None
        self._staging.begin()
        made = self._made
        made.parent.mkdir()
        molrec_convert.write(record, made)
        self._appending = molrec_convert.append(made)
        self._appending.__enter__()

    @property
    def _made(self) -> Path:
        """Where the record is while frames come."""
        assert self._staging is not None
        return workroom(self._staging.path) / "new.mrec"

    def close(self) -> None:
        """Write what is left; the record takes its name."""
        staging = self._staging
        if staging is None:
            return
        with staging:
            began = self._portion is not None
            try:
                if began:
                    self._flush()
            finally:
                self._portion = None
                appending, self._appending = self._appending, None
                if appending is not None:
                    appending.__exit__(None, None, None)
                made, self._staging = self._made, None
            if appending is not None:
                _put(made, staging.path, packed=self._target.name.lower().endswith(".zip"))
                staging.commit()


def _from(batch: FrameBatch, first: int) -> FrameBatch:
    """Return the frames of a batch from one on; all present their atoms."""
    from molrec_convert.model.trajectory import take_frames

    return take_frames(batch, np.arange(first, batch.n_frames, dtype=np.int64))


def _put(made: Path, path: Path, *, packed: bool) -> None:
    """Put a complete record at a staging path, packed where that is asked for."""
    if packed:
        zipped = made.with_name("new.mrec.zip")
        with molrec_convert.open(made) as record:
            molrec_convert.write(record, zipped)
        made = zipped
    os.rename(made, path)
