"""The frames of one record as values: batches in, one value per frame out, holding only what changed there.

Source: Collection and its LMDB file; Trajectory, "Blocks", "box".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from molrec_convert.errors import ContractError
from molrec_convert.model.batch import FrameBatch
from molrec_convert.model.declaration import NO_FILL, Declaration
from molrec_convert.model.tags import TAGS, to_typed_json
from molrec_convert.stores.lmdb.block_updates import BlockEncoder, BlockRecorder, Update
from molrec_convert.stores.lmdb.frame_rules import FrameRules
from molrec_convert.stores.lmdb.frame_writing import assemble, box_text
from molrec_convert.stores.lmdb.header_json import to_json

__all__ = ["FrameEncoder", "RecordFrames"]

_EXACT = 2**53


class FrameEncoder:
    """What all records of a collection share: the declaration and the texts made from it."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.blocks = {name: BlockEncoder(name, block) for name, block in declaration.blocks.items()}
        self.meta = [
            (key, entry, f"{to_json(key)}:", TAGS[entry.dtype].name == "f64") for key, entry in declaration.meta.items()
        ]

    def record(self, absolute: dict[str, int], node: str, *, cell_defined: bool = True) -> RecordFrames:
        """Begin a record; carry-forward never crosses from one to the next."""
        return RecordFrames(self, absolute, node, cell_defined)


class RecordFrames:
    """The frames of one record, in order. `first_atoms` is the row count of the first update of `atoms`."""

    def __init__(self, encoder: FrameEncoder, absolute: dict[str, int], node: str, cell_defined: bool) -> None:
        self._encoder, self._node, self._defined = encoder, node, cell_defined
        self._recorders = {name: BlockRecorder(block) for name, block in encoder.blocks.items()}
        self._rules = FrameRules(encoder.declaration, absolute, node)
        self._cell: bytes | None = None
        self.first_atoms: int | None = None

    def encode(self, batch: FrameBatch) -> list[bytes]:
        """One value for each frame of the batch."""
        self._rules.check(batch)
        changes = [
            (recorder.encoder, recorder.changes(batch.blocks[name], self._node))
            for name, recorder in self._recorders.items()
            if name in batch.blocks
        ]
        if self.first_atoms is None and "atoms" in batch.blocks and len(batch.blocks["atoms"].frames):
            self.first_atoms = int(batch.blocks["atoms"].offset[1])
        metas, tails = self._meta_texts(batch), self._tails(batch)
        values = []
        for position in range(batch.n_frames):
            texts: list[str] = []
            buffers: list[Any] = []
            base = 0
            for encoder, changed in changes:
                update: Update | None = changed.get(position)
                if update is not None:
                    text, base = encoder.text(update, base)
                    texts.append(text)
                    buffers.append(update.payload)
            values.append(assemble(",".join(texts), metas[position], tails[position], buffers))
        return values

    def _meta_texts(self, batch: FrameBatch) -> list[str]:
        for key in batch.meta:
            if key not in self._encoder.declaration.meta:
                raise ContractError(f"{self._node}/meta/{key}", "a per-step key that is not declared")
        columns = []
        for key, entry, name, is_number in self._encoder.meta:
            here = f"{self._node}/meta/{key}"
            values = batch.meta.get(key)
            if values is None:
                if entry.fill is NO_FILL:
                    raise ContractError(here, "the frames omit the key, which has no declared fill")
                values = [entry.fill] * batch.n_frames
            if is_number and isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 1:
                columns.append([name + _number_text(value) for value in values.tolist()])
            else:
                columns.append([name + to_json(to_typed_json(_native(v), entry.dtype, here)) for v in values])
        if len(columns) == 1:
            return columns[0]
        return [",".join(texts) for texts in zip(*columns, strict=True)] if columns else [""] * batch.n_frames

    def _tails(self, batch: FrameBatch) -> list[str]:
        tails = [f',"step":{step if -_EXACT <= step <= _EXACT else to_json(str(step))}' for step in batch.step.tolist()]
        if batch.time is not None:
            times = (_number_text(time) for time in batch.time.tolist())
            tails = [f'{tail},"time":{time}' for tail, time in zip(tails, times, strict=True)]
        if batch.box is not None:
            for update, position in enumerate(batch.box.frames.tolist()):
                box = batch.box.box(update, defined=self._defined)
                cell = b"".join((box.vectors.tobytes(), box.origin.tobytes(), box.boundary.tobytes()))
                if cell != self._cell:
                    self._cell = cell
                    tails[position] += f',"box":{box_text(box)}'
        return tails


def _number_text(value: float) -> str:
    """A number as typed JSON writes it."""
    return float.__repr__(value) if math.isfinite(value) else to_json(to_typed_json(value, "f64"))


def _native(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
