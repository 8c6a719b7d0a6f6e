"""A collection as a map-style dataset: `len(dataset)`, `dataset[i]`, what a PyTorch `DataLoader` asks for.

The dataset may go to any number of workers, forked or spawned: each opens the file for itself. An item is made of
plain dicts, numpy arrays of its own memory, numbers and texts, which the loader's default `collate_fn` takes where the
items of a batch have equal shapes. Nothing here needs PyTorch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from molrec_convert.errors import UsageError
from molrec_convert.model.collection import Collection, Selection
from molrec_convert.model.frame import Frame
from molrec_convert.model.record import Record
from molrec_convert.model.tags import Meta
from molrec_convert.stores.lmdb.reader import open_collection

__all__ = ["CollectionDataset", "frame_sample", "record_sample"]


class CollectionDataset:
    """Records (or, `of="frames"`, frames) of a collection as items.

    An item is what `transform` makes of a `Record` (of a `Record` and the position of a frame in it). Without one it
    is a `record_sample` (a `frame_sample` with the columns of the record's system beside the frame's). `select`
    restricts the dataset to some records, as `Collection.select` takes them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        transform: Callable[..., Any] | None = None,
        *,
        of: Literal["records", "frames"] = "records",
        select: Selection | None = None,
    ) -> None:
        if of not in ("records", "frames"):
            raise UsageError(f"a dataset is of records or of frames, not of {of!r}")
        source = open_collection(path)
        self.collection: Collection = source if select is None else source.select(select)
        self.transform, self.of = transform, of

    def __len__(self) -> int:
        return len(self.collection) if self.of == "records" else self.collection.n_frames

    def __getitem__(self, index: int) -> Any:
        # a loader may ask with a numpy integer
        index = int(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index} of a dataset of {len(self)}")
        if self.of == "records":
            record = self.collection[index]
            return record_sample(record) if self.transform is None else self.transform(record)
        number, position = self.collection.locate(index)
        record = self.collection[number]
        if self.transform is not None:
            return self.transform(record, position)
        assert record.trajectory is not None
        system = {} if record.system is None else frame_sample(record.system)
        return {**system, **frame_sample(record.trajectory[position])}


def record_sample(record: Record) -> dict[str, Any]:
    """A record as `{"system": {...}, "frames": [{...}, ...]}`, each as `frame_sample` has it."""
    frames = [] if record.trajectory is None else [frame_sample(frame) for frame in record.trajectory]
    return {"system": {} if record.system is None else frame_sample(record.system), "frames": frames}


def frame_sample(frame: Frame) -> dict[str, Any]:
    """A snapshot as a flat dict: `"atoms/x"` an array (a list of texts), `"pe"` a value, `"box/vectors"`, `"step"`.

    A mask is `"atoms/_validity/x"`. JSON documents of the meta are left out: they have no fixed shape.
    """
    sample: dict[str, Any] = {}
    for name in frame:
        block = frame[name]
        for key, column in block.columns.items():
            values = column.values
            sample[f"{name}/{key}"] = values.tolist() if values.dtype.kind == "T" else np.array(values)
            if column.validity is not None:
                sample[f"{name}/_validity/{key}"] = np.array(column.validity)
    sample.update(_meta_sample(frame.meta))
    if frame.box is not None:
        for part in ("vectors", "origin", "boundary"):
            sample[f"box/{part}"] = getattr(frame.box, part)
    for name in ("step", "time"):
        value = getattr(frame, name)
        if value is not None:
            sample[name] = value
    return sample


def _meta_sample(meta: Meta) -> dict[str, Any]:
    return {key: value for key, value in meta.items() if meta.tag(key) != "json"}
