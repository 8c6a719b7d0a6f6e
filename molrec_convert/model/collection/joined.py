"""One record of one frame from each of many files that were read in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.collection.declaration import collection_document
from molrec_convert.model.collection.index import single_frame_columns
from molrec_convert.model.declaration import Declaration
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.frame import Block
from molrec_convert.model.record import Record
from molrec_convert.report import Report

__all__ = ["JoinedCollection"]


class JoinedCollection(Collection):
    """The records of files that were read together; each is made by `make` when it is asked for.

    `counts` are the atoms of each; `reports` as in `Collection.reports`.
    """

    random_access = True

    def __init__(
        self,
        paths: Sequence[Path],
        counts: Sequence[int],
        declaration: Declaration,
        units: Mapping[str, str],
        make: Callable[[int], Record],
        reports: Sequence[Report],
    ) -> None:
        declaration.check()
        self.declaration, self.reports = declaration, reports
        self.document = collection_document({"units": dict(units)})
        self.path = str(paths[0])
        self._make = make
        self._index = Block(single_frame_columns(np.asarray(counts, np.int64)), count=len(paths))

    @property
    def index(self) -> Block:
        """See `Collection.index`."""
        return self._index

    @property
    def n_frames(self) -> int:
        """See `Collection.n_frames`."""
        return len(self)

    @property
    def forcefield(self) -> ForceField | None:
        """Files that are read together have none."""
        return None

    def __len__(self) -> int:
        return self._index.count

    def record(self, index: int) -> Record:
        """See `Collection.record`."""
        return self._make(index)

    def members(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """See `Collection.members`."""
        return ((record, {}) for record in self)
