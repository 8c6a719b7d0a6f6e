"""Records in memory: columns, blocks, frames, trajectories, force fields, observables, metrics, records."""

from molrec_convert.model.batch import BlockUpdates, BoxUpdates, FrameBatch, batch_from_frames
from molrec_convert.model.chained.trajectory import ChainedTrajectory, Part
from molrec_convert.model.declaration import (
    NO_FILL,
    BlockDeclaration,
    ColumnDeclaration,
    Declaration,
    MetaDeclaration,
)
from molrec_convert.model.dtypes import Distinct, distinct
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block, Box, Column, Frame
from molrec_convert.model.record import NEWEST_VERSION, Coded, Record, RecordBatch, RecordColumns, UnknownContent
from molrec_convert.model.results.metrics import Event, Metrics, Series
from molrec_convert.model.results.observables import Observable, Observables
from molrec_convert.model.tags import TAGS, Meta
from molrec_convert.model.trajectory import BATCH_BYTES, MemoryTrajectory, Trajectory, TrajectoryView

__all__ = [
    "BATCH_BYTES",
    "NEWEST_VERSION",
    "NO_FILL",
    "TAGS",
    "Block",
    "BlockDeclaration",
    "BlockUpdates",
    "Box",
    "BoxUpdates",
    "ChainedTrajectory",
    "Coded",
    "Column",
    "ColumnDeclaration",
    "Declaration",
    "Distinct",
    "Event",
    "ForceField",
    "Frame",
    "FrameBatch",
    "MemoryTrajectory",
    "Meta",
    "MetaDeclaration",
    "Metrics",
    "Observable",
    "Observables",
    "Part",
    "Record",
    "RecordBatch",
    "RecordColumns",
    "Series",
    "Trajectory",
    "TrajectoryView",
    "UnknownContent",
    "batch_from_frames",
    "distinct",
]
