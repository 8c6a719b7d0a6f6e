"""A collection as a map-style dataset: `len(dataset)`, `dataset[i]`, what a PyTorch `DataLoader` asks for.

The dataset may go to any number of workers, forked or spawned: each opens the file for itself. An item is made of
plain dicts, numpy arrays of its own memory, numbers and texts, which the loader's default `collate_fn` takes where the
items of a batch have equal shapes. Nothing here needs PyTorch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

from molrec_convert.errors import UsageError
from molrec_convert.model.collection.collection import Collection, Selection
from molrec_convert.model.record import frame_sample, record_sample
from molrec_convert.stores.lmdb.sharded import open_collection

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
        if index < 0:
            index += len(self)
        if self.of == "records":
            if self.transform is None:
                return self.collection.record_sample(index)
            return self.transform(self.collection[index])
        if self.transform is None:
            return self.collection.sample(index)
        number, position = self.collection.locate(index)
        return self.transform(self.collection[number], position)
