"""The trajectory reader of `.mrec` and `.mrec.zip` in MDAnalysis: any frame at once, runs of frames in batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from MDAnalysis.coordinates.base import ReaderBase
from MDAnalysis.core.topology import Topology
from MDAnalysis.lib.util import store_init_arguments
from MDAnalysis.topology.base import TopologyReaderBase
from numpy.typing import NDArray

from molrec_convert.errors import UnsupportedError
from molrec_convert.model import BlockUpdates, BoxUpdates, Frame, FrameBatch, MemoryTrajectory, Record, Trajectory
from molrec_convert.model.frame import with_missing
from molrec_convert.model.names import unescape_name
from molrec_mdanalysis.building import topology_of
from molrec_mdanalysis.frames import APART, ATOMS, SIX
from molrec_mdanalysis.names import STATE, dimensions_of, in_own_units, stated

if TYPE_CHECKING:
    from molrec_convert.model import Record

__all__ = ["MrecParser", "MrecReader", "frames_of", "is_packed", "is_record_name", "is_topology_alone", "open_record"]


def is_packed(thing: Any) -> bool:
    """True if a thing is the name of a packed record, or of a record's directory that ends in a slash."""
    if not isinstance(thing, (str, os.PathLike)):
        return False
    name = os.fspath(thing)
    return isinstance(name, str) and name.lower().endswith((".mrec.zip", ".mrec/"))


def is_record_name(name: str) -> bool:
    """True if a name is that of a record, of either form."""
    return name.lower().rstrip("/").endswith((".mrec", ".mrec.zip"))


def is_topology_alone(thing: Any) -> bool:
    """True if a thing is the name of a record that has neither frames nor a `frame`."""
    if not isinstance(thing, (str, os.PathLike)) or not os.path.exists(thing):
        return False
    name = os.fspath(thing)
    if not isinstance(name, str) or not is_record_name(name):
        return False
    with open_record(name) as record:
        return record.frame is None and (record.trajectory is None or record.trajectory.n_frames == 0)


def open_record(path: Any) -> Record:
    """Return the record in a store, opened. `UnsupportedError` for a collection."""
    import molrec_convert
    from molrec_convert.errors import UnsupportedError

    opened = molrec_convert.open(path)
    if isinstance(opened, molrec_convert.Record):
        return opened
    opened.close()
    raise UnsupportedError(f"{path} is a collection: take one of its records, and make a universe of that")


#: How much is read at once where frames are read one after the other.
_BATCH = 8 * 2**20


def frames_of(record: Record) -> Trajectory:
    """Return the trajectory of a record, else its `frame` as one of one frame."""
    if record.trajectory is not None and record.trajectory.n_frames != 0:
        return record.trajectory
    if record.frame is not None:
        return MemoryTrajectory([record.frame])
    raise UnsupportedError("a record without a trajectory or a frame has no coordinates")


@dataclass
class _State:
    """Where the rows of the atoms are, and the vectors of the cell."""

    updates: BlockUpdates | None = None
    rows: slice = field(default_factory=lambda: slice(0, 0))
    vectors: NDArray[np.float64] | None = None


def _next(batches: Iterator[FrameBatch]) -> FrameBatch:
    batch = next(batches, None)
    if batch is None:
        raise EOFError
    return batch


def _only(batch: FrameBatch) -> _State:
    """Return the state of the one frame of a batch that tells the whole."""
    updates, box = batch.blocks.get(ATOMS), batch.box
    rows = slice(0, 0) if updates is None else updates.rows_of(0)
    return _State(updates, rows, None if box is None else box.vectors[0])


def _alone(frame: Frame) -> FrameBatch:
    """Return a frame that was read alone as a batch of one."""
    atoms = frame.blocks.get(ATOMS)
    blocks = {}
    if atoms is not None:
        columns = {name: column.values for name, column in atoms.columns.items()}
        masks = {name: c.validity for name, c in atoms.columns.items() if c.validity is not None}
        blocks[ATOMS] = BlockUpdates(np.zeros(1, np.int64), np.array([0, atoms.count]), columns, masks)
    return FrameBatch(
        np.array([frame.step or 0]),
        None if frame.time is None else np.array([frame.time]),
        blocks,
        {key: [frame.meta[key]] for key in frame.meta},
        None if frame.box is None else BoxUpdates.single(frame.box),
    )


def _state_step(data: dict[str, Any]) -> None:
    """The step number a frame had where steps do not ascend, in place of the record's count."""
    step = data.pop("source_step")
    del data["step"]
    if step is not None:
        data["step"] = int(step)


class MrecReader(ReaderBase):  # type: ignore[misc]
    """Frames of a record. Numbers come in MDAnalysis' units where the record states its own, all of known dimension;
    `handed_out` says the units they are in, None where the record states none.

    `ts.data` has the values per step and the columns of the atoms MDAnalysis has no name for, as they are.
    """

    format = "MREC"
    units: ClassVar[dict[str, str | None]] = {"time": None, "length": None, "velocity": None, "force": None}
    ts: Any
    n_atoms: int
    n_frames: int
    counted: bool
    handed_out: dict[str, Any] | None
    _frame: int
    _cell: tuple[bytes, NDArray[np.float32]]
    _record: Record | None
    _columns: dict[str, tuple[str, str, str]]
    _rows: dict[str, str]
    _read: list[str]
    _whole: bool
    _simple: bool

    @staticmethod
    def _format_hint(thing: Any) -> bool:
        return isinstance(thing, Record) or (is_packed(thing) and not is_topology_alone(thing))

    @store_init_arguments  # type: ignore[untyped-decorator]
    def __init__(self, filename: Any, convert_units: bool = True, **kwargs: Any) -> None:
        self._own = not isinstance(filename, Record)
        self._source: Any = filename
        self._record = None
        name = filename if self._own else filename.path or "record in memory"
        super().__init__(name, convert_units, **kwargs)
        self._open()
        assert self._record is not None
        self.handed_out = stated(self._record)
        known = self._trajectory.n_frames
        self.counted = known is not None
        self.n_frames = sys.maxsize if known is None else known
        self._columns, self._rows = self._wanted()
        names = [column for columns in self._columns.values() for column in columns]
        declared = self._trajectory.declaration.blocks
        there = declared[ATOMS].columns if ATOMS in declared else {}
        self._read = [f"{ATOMS}/{column}" for column in (*names, *self._rows.values()) if column in there]
        #: Whether a frame consists of what is wanted of it.
        self._whole = set(declared) <= {ATOMS} and len(self._read) == len(there)
        #: Whether it is only arrays of the time step, as they are, every row of which has a value.
        self._simple = (
            self._whole
            and self.counted
            and not self._rows
            and not self._trajectory.declaration.meta
            and len(names) == len(there)
            and not any(column.nullable for column in there.values())
        )
        first = self._trajectory.frame(0)
        if ATOMS not in first.blocks:
            raise UnsupportedError(f"{self.filename}: the first frame has no atoms")
        self.n_atoms = first[ATOMS].count
        self.ts = self._Timestep(self.n_atoms, reader=self, **self._ts_kwargs)
        for name in self._columns:
            setattr(self.ts, f"has_{name}", True)
        self._cell = b"", np.zeros(6, np.float32)
        self._frame = -2
        self._read_frame(0)

    def _open(self) -> None:
        """The record, opened again where it was closed."""
        if self._record is None:
            record = open_record(self._source) if self._own else self._source
            self._record = in_own_units(record) if self.convert_units else record
            self._trajectory = frames_of(self._record)
            self._batches: Iterator[FrameBatch] | None = None
            self._batch: FrameBatch | None = None
            self._before = _State()
            self._first = self._next = self._streak = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return what a reader in another process needs: it opens the files by itself."""
        left = ("_record", "_trajectory", "_batches", "_batch", "_before")
        return {key: value for key, value in self.__dict__.items() if key not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._record = None
        self._open()

    def _wanted(self) -> tuple[dict[str, tuple[str, str, str]], dict[str, str]]:
        """Return arrays of a time step there are columns for, and other columns by their key in `ts.data`."""
        declared = self._trajectory.declaration.blocks
        columns = declared[ATOMS].columns if ATOMS in declared else {}
        arrays = {name: names for name, names in STATE.items() if any(column in columns for column in names)}
        state = {column for names in STATE.values() for column in names}
        rows = {
            unescape_name(column.removeprefix(APART)): column
            for column, entry in columns.items()
            if column not in state and entry.dtype != "string"
        }
        return arrays, rows

    @classmethod
    def parse_n_atoms(cls, filename: Any, **_: Any) -> int:
        """Return the number of atoms of the first frame."""
        with open_record(filename) as record:
            return int(frames_of(record).frame(0)[ATOMS].count)

    def _get_dt(self) -> float:
        batches = self._trajectory.batches(0, 2, columns=())
        times = [time for batch in batches if batch.time is not None for time in batch.time.tolist()]
        if len(times) < 2:
            raise AttributeError("the record states no times")
        return float(times[1] - times[0])

    def _reopen(self) -> None:
        self._open()
        self._frame = -1
        self.ts.frame = 0

    def close(self) -> None:
        """Let go of the files, where the reader opened them."""
        record, self._record = getattr(self, "_record", None), None
        if record is not None and self._own:
            self._batches = self._batch = None
            record.close()

    def _read_next_timestep(self, ts: Any = None) -> Any:
        if self._frame + 1 >= self.n_frames:
            raise EOFError
        return self._read_frame(self._frame + 1)

    def _read_frame(self, i: int) -> Any:
        """Return frame `i` into the time step."""
        if not 0 <= i < self.n_frames:
            raise OSError(f"frame {i} of a trajectory of {self.n_frames}")
        self._open()
        held = self._batch
        if held is None or not self._first <= i < self._first + held.n_frames:
            if self._simple and i not in (self._frame + 1, self._next) and self._fill_alone(i):
                self._frame = i
                return self.ts
            held = self._fetch(i)
        self._fill(held, i - self._first, i)
        self._frame = i
        return self.ts

    def _fetch(self, i: int) -> FrameBatch:
        """Return the batch that has frame `i`: one of a run of frames read one after the other, else that frame
        alone.
        """
        self._streak = self._streak + 1 if i == self._frame + 1 else 0
        if self._batches is not None and self._batch is not None and i == self._next:
            self._before = self._state(self._batch, self._batch.n_frames - 1)
            self._batch = _next(self._batches)
        else:
            self._before = _State()
            self._batches = None
            if self._streak > 1:
                self._batches = iter(self._trajectory.batches(i, columns=self._read, batch_bytes=_BATCH))
                self._batch = _next(self._batches)
            elif self._whole and self.counted:
                self._batch = _alone(self._trajectory.frame(i))
            else:
                self._batch = _next(iter(self._trajectory.batches(i, i + 1, columns=self._read)))
        self._first = i
        self._next = i + self._batch.n_frames
        return self._batch

    def _state(self, batch: FrameBatch, at: int) -> _State:
        """Return the rows of the atoms and the cell a frame of a batch has, its own or those of a frame before."""
        if batch.n_frames == 1 and self._before.updates is None:
            return _only(batch)
        state = _State(self._before.updates, self._before.rows, self._before.vectors)
        updates = batch.blocks.get(ATOMS)
        position = -1 if updates is None else int(np.searchsorted(updates.frames, at, side="right")) - 1
        if updates is not None and position >= 0:
            state.updates, state.rows = updates, updates.rows_of(position)
        position = -1 if batch.box is None else int(np.searchsorted(batch.box.frames, at, side="right")) - 1
        if batch.box is not None and position >= 0:
            state.vectors = batch.box.vectors[position]
        return state

    def _fill(self, batch: FrameBatch, at: int, i: int) -> None:
        ts = self.ts
        ts.frame = i
        ts.data.pop("time", None)
        if batch.time is not None:
            ts.data["time"] = float(batch.time[at])
        ts.data["step"] = int(batch.step[at])
        for key, entry in self._trajectory.declaration.meta.items():
            value = batch.meta[key][at] if key in batch.meta else entry.fill
            if key != "dimensions":
                ts.data[unescape_name(key)] = value.item() if isinstance(value, np.generic) else value
        if "source_step" in ts.data:
            _state_step(ts.data)
        state = self._state(batch, at)
        self._atoms(state, i)
        if "dimensions" in batch.meta:
            numbers = batch.meta["dimensions"][at]
            ts.dimensions = None if numbers is None else [numbers[key] for key in SIX]
        elif state.vectors is None or not self._trajectory.cell_defined:
            ts.dimensions = None
        else:
            ts.dimensions = self._dimensions(state.vectors)

    def _fill_alone(self, i: int) -> bool:
        """Return a frame somewhere else in the trajectory, of which nothing but itself is wanted; False, and nothing
        done,
        where it is not as simple as that."""
        frame = self._trajectory.frame(i)
        atoms = frame.blocks.get(ATOMS)
        if atoms is None or atoms.count != self.n_atoms:
            return False
        ts = self.ts
        ts.frame = i
        ts.data.pop("time", None)
        if frame.time is not None:
            ts.data["time"] = frame.time
        ts.data["step"] = frame.step
        for name, columns in self._columns.items():
            setattr(ts, f"has_{name}", True)
            np.stack([atoms[column] for column in columns], axis=1, out=getattr(ts, name), casting="same_kind")
        defined = frame.box is not None and self._trajectory.cell_defined
        ts.dimensions = self._dimensions(frame.box.vectors) if defined and frame.box is not None else None
        self._batches = self._batch = None
        self._streak, self._next = 0, -1
        return True

    def _dimensions(self, vectors: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the lengths and angles of a cell, worked out once for frames that share it."""
        key = vectors.tobytes()
        if key != self._cell[0]:
            self._cell = key, dimensions_of(vectors)[0]
        return self._cell[1]

    def _atoms(self, state: _State, i: int) -> None:
        """The arrays of the time step, and the columns in `ts.data`."""
        updates, rows = state.updates, state.rows
        if updates is None:
            return
        if rows.stop - rows.start != self.n_atoms:
            raise UnsupportedError(
                f"{self.filename}: frame {i} has {rows.stop - rows.start} atoms, the first {self.n_atoms}; "
                "MDAnalysis' trajectories have the same atoms in every frame"
            )
        for name, columns in self._columns.items():
            self._array(name, columns, updates, rows)
        for key, column in self._rows.items():
            mask = updates.validity.get(column)
            self.ts.data[key] = with_missing(updates.columns[column][rows].copy(), None if mask is None else mask[rows])

    def _array(self, name: str, columns: tuple[str, str, str], updates: Any, rows: slice) -> None:
        """One of the arrays of the time step; without it where the frame has none."""
        there = [column for column in columns if column in updates.columns]
        missing = [
            column for column in there if column in updates.validity and not updates.validity[column][rows].all()
        ]
        if missing and not any(updates.validity[column][rows].any() for column in missing):
            setattr(self.ts, f"has_{name}", False)
            return
        setattr(self.ts, f"has_{name}", True)
        target: NDArray[np.float32] = getattr(self.ts, name)
        if len(there) == len(columns) and not missing:
            np.stack([updates.columns[column][rows] for column in columns], axis=1, out=target, casting="same_kind")
            return
        for axis, column in enumerate(columns):
            if column not in there:
                target[:, axis] = np.nan
                continue
            values = updates.columns[column][rows]
            target[:, axis] = values
            if column in missing:
                target[~updates.validity[column][rows], axis] = np.nan

    def frames(self) -> Iterator[Any]:
        """Yield every frame once; nothing is read again at the end, and how many there are need not be known."""
        self._reopen()
        self._streak = 1
        while True:
            try:
                ts = self._read_next_timestep()
            except EOFError:
                return
            yield ts

    def Writer(self, filename: str, n_atoms: int | None = None, **kwargs: Any) -> Any:
        """Return a writer of a record, by default of as many atoms."""
        from molrec_mdanalysis.writer import MrecWriter

        return MrecWriter(filename, n_atoms=self.n_atoms if n_atoms is None else n_atoms, **kwargs)


class MrecParser(TopologyReaderBase):  # type: ignore[misc]
    """Atoms, residues, segments and connections of a record: `MDAnalysis.Universe("run.mrec")` finds it."""

    format = "MREC"

    @staticmethod
    def _format_hint(thing: Any) -> bool:
        return is_packed(thing)

    def __init__(self, filename: Any) -> None:
        super().__init__(filename)

    def parse(self, convert_units: bool = True, **_: Any) -> Topology:
        """Return the topology of the record."""
        if isinstance(self.filename, Record):
            return topology_of(in_own_units(self.filename) if convert_units else self.filename)
        with open_record(self.filename) as record:
            return topology_of(in_own_units(record) if convert_units else record)
