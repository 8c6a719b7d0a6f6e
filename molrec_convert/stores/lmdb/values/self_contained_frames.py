"""The values of frames that are a record each: all that is of a frame stands in it, nothing is carried forward."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from molrec_convert.model.batch import BlockUpdates, FrameBatch
from molrec_convert.stores.lmdb.values.block_updates import BlockEncoder, Update
from molrec_convert.stores.lmdb.values.frame_writing import assemble
from molrec_convert.stores.lmdb.values.record_frames import FrameEncoder, frame_tails, meta_texts, own_cells

__all__ = ["frames_alone", "grouped_updates"]


def frames_alone(encoder: FrameEncoder, batch: FrameBatch, node: str, *, cell_defined: bool = True) -> list[bytes]:
    """The value of each frame of a batch in which every frame presents all its blocks, and its cell if it has one.

    Raises `ContractError` where columns or keys are not the declared ones.
    """
    metas = meta_texts(encoder, batch, node)
    tails = frame_tails(batch, own_cells(batch, cell_defined=cell_defined))
    blocks = [
        (own, grouped_updates(own, batch.blocks[name], node))
        for name, own in encoder.blocks.items()
        if name in batch.blocks
    ]
    if not blocks:
        return [assemble("", meta, tail, ()) for meta, tail in zip(metas, tails, strict=True)]
    if len(blocks) == 1:
        ((own, updates),) = blocks
        known: dict[tuple[int, tuple[bool, ...]], str] = {}
        values = []
        for update, meta, tail in zip(updates, metas, tails, strict=True):
            if update.strings:
                text, _ = own.text(update, 0)
            else:
                shape = update.rows, update.masked
                text = known.get(shape) or known.setdefault(shape, own.text(update, 0)[0])
            values.append(assemble(text, meta, tail, (update.payload,)))
        return values
    encoders = [own for own, _ in blocks]
    every = zip(*(updates for _, updates in blocks), strict=True)
    return [_joined(encoders, frame, meta, tail) for frame, meta, tail in zip(every, metas, tails, strict=True)]


def _joined(encoders: list[BlockEncoder], updates: Iterable[Update], meta: str, tail: str) -> bytes:
    texts, payloads, base = [], [], 0
    for encoder, update in zip(encoders, updates, strict=True):
        text, base = encoder.text(update, base)
        texts.append(text)
        payloads.append(update.payload)
    return assemble(",".join(texts), meta, tail, payloads)


def grouped_updates(encoder: BlockEncoder, updates: BlockUpdates, node: str) -> Iterable[Update]:
    """The updates of all records; those of as many rows together."""
    counts = np.diff(updates.offset)
    kinds = np.unique(counts)
    if len(kinds) == 1 or len(kinds) * 4 > len(counts):
        return encoder.updates(updates, node)
    made: list[Any] = [None] * len(counts)
    for kind in kinds.tolist():
        which = np.flatnonzero(counts == kind)
        rows = (updates.offset[which][:, None] + np.arange(kind)).reshape(-1)
        some = BlockUpdates(
            np.arange(len(which), dtype=np.int64),
            np.arange(len(which) + 1, dtype=np.int64) * kind,
            {key: values[rows] for key, values in updates.columns.items()},
            {key: mask[rows] for key, mask in updates.validity.items()},
        )
        for number, update in zip(which.tolist(), encoder.updates(some, node), strict=True):
            made[number] = update
    return made
