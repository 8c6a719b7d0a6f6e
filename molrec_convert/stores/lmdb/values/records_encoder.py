"""The values of many records of one frame each, made column by column: the same bytes as those of one after another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.model.batch import BlockUpdates
from molrec_convert.model.collection.declaration import check_member_declaration
from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration, Declaration
from molrec_convert.model.frame import Block, Column, Frame, references
from molrec_convert.model.record import Coded, RecordColumns
from molrec_convert.model.tags import Meta, to_typed_json
from molrec_convert.stores.lmdb.values.block_updates import BlockEncoder
from molrec_convert.stores.lmdb.values.frame_writing import (
    ColumnShape,
    assemble,
    block_text,
    encode_frame,
    number_text,
    tags_text,
    texts_json,
    weave,
)
from molrec_convert.stores.lmdb.values.header_json import to_json
from molrec_convert.stores.lmdb.values.record_frames import FrameEncoder
from molrec_convert.stores.lmdb.values.self_contained_frames import frames_alone, grouped_updates

__all__ = ["EncodedRecords", "RecordsEncoder"]

ATOMS = "atoms"
_EXACT = 2**53


@dataclass(frozen=True)
class EncodedRecords:
    """The values of records: of their systems (one for each, or none at all) and of the frame of each."""

    systems: list[bytes] | None
    frames: list[bytes]


class RecordsEncoder:
    """Encodes records under one declaration, many at once."""

    def __init__(self, encoder: FrameEncoder) -> None:
        self._encoder = encoder
        self._whole = not any(
            block.aligned_with is not None
            or block.structural_shape is not None
            or references(block.columns, block.targets)
            for block in encoder.declaration.blocks.values()
        )
        self._checked: Declaration | None = None

    def encode(self, records: RecordColumns, node: str) -> EncodedRecords | None:
        """All values; None where single records have to be held against more than what is the same for all of them.

        Raises `ContractError` as the encoding of single records does.
        """
        if not self._whole or not len(records) or not _plainly(records):
            return None
        if records.declaration is not self._checked:
            check_member_declaration(records.declaration, self._encoder.declaration, f"{node}/trajectory")
            self._checked = records.declaration
        return EncodedRecords(_systems(records), frames_alone(self._encoder, records.frames, f"{node}/trajectory"))


def _plainly(records: RecordColumns) -> bool:
    """Whether systems and frames go together, frames present all their blocks, and there is a system in all or none."""
    every = np.arange(len(records))
    for name, updates in records.frames.blocks.items():
        if name != ATOMS or not np.array_equal(updates.frames, every):
            return False
        if not np.array_equal(np.diff(updates.offset), records.counts):
            return False
        if not records.identity.keys().isdisjoint(updates.columns):
            return False
    if records.identity:
        return not references(dict.fromkeys(records.identity), {})
    return not records.said or any(all(tags) for _, tags in records.said.values())


def _systems(records: RecordColumns) -> list[bytes] | None:
    """The value of each system; None where none has anything to say."""
    if not records.identity and not records.said:
        return None
    # what is the same for all is held against the rules once
    encode_frame(_first_system(records), "system")
    metas, tails = _documents(records)
    if not records.identity:
        return [assemble("", meta, tail, ()) for meta, tail in zip(metas, tails, strict=True)]
    blocks, payloads = _identity(records)
    return [
        assemble(text, meta, tail, payload)
        for text, meta, tail, payload in zip(blocks, metas, tails, payloads, strict=True)
    ]


def _first_system(records: RecordColumns) -> Frame:
    rows = slice(0, int(records.counts[0]))
    columns = {}
    for name, column in records.identity.items():
        if isinstance(column, Coded):
            texts = [column.texts[code] for code in column.codes[rows].tolist()]
            columns[name] = Column(np.array(texts, np.dtypes.StringDType()))
        else:
            columns[name] = Column(column[rows])
    meta = Meta()
    for key, (values, tags) in records.said.items():
        if tags[0]:
            meta.put(key, values[0], tags[0])
    return Frame({ATOMS: Block(columns, count=rows.stop)} if columns else {}, meta)


def _identity(records: RecordColumns) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The header entry of each system's block, and its buffers."""
    numeric = {
        name: column
        for name, column in records.identity.items()
        if not isinstance(column, Coded) and name not in records.text_groups
    }
    shapes = [
        ColumnShape(name, "string") if name in records.text_groups else _shape(name, column)
        for name, column in records.identity.items()
    ]
    counts = records.counts.tolist()
    entries = {count: block_text(ATOMS, count, shapes)[0] for count in set(counts)}
    groups = list(records.text_groups.values())
    lists = [[texts_json(texts) for texts in group.lists] for group in groups]
    woven: dict[tuple[int, ...], str] = {}
    blocks = []
    for key in zip(counts, *(group.of for group in groups), strict=True):
        text = woven.get(key)
        if text is None:
            strings = [own[number] for own, number in zip(lists, key[1:], strict=True)]
            text = woven[key] = weave(entries[key[0]], strings)
        blocks.append(text)
    if not numeric:
        return blocks, [()] * len(counts)
    declared = {shape.name: ColumnDeclaration(shape.dtype, shape.trailing) for shape in shapes if shape.name in numeric}
    encoder = BlockEncoder(ATOMS, BlockDeclaration(declared))
    whole = BlockUpdates(np.arange(len(counts)), records.offset, numeric, {})
    return blocks, [(update.payload,) for update in grouped_updates(encoder, whole, "system")]


def _shape(name: str, column: NDArray[Any] | Coded) -> ColumnShape:
    assert not isinstance(column, Coded)
    one = Column(column)
    return ColumnShape(name, one.dtype, one.trailing)


def _documents(records: RecordColumns) -> tuple[list[str], list[str]]:
    """The meta of each system as it stands between the braces, and the tags that follow."""
    size = len(records)
    columns = [_key_texts(key, values, tags) for key, (values, tags) in records.said.items()]
    if not columns:
        return [""] * size, [""] * size
    keys = list(records.said)
    if all(len(set(tags)) == 1 and tags[0] for _, tags in records.said.values()):
        own = tuple((key, tags[0]) for key, (_, tags) in records.said.items())
        return list(map(",".join, zip(*columns, strict=True))), [f',"meta_types":{tags_text(own)}'] * size
    metas = [",".join(filter(None, texts)) for texts in zip(*columns, strict=True)]
    known: dict[tuple[str, ...], str] = {}
    tails = []
    for tags in zip(*(tags for _, tags in records.said.values()), strict=True):
        tail = known.get(tags)
        if tail is None:
            own = tuple((key, tag) for key, tag in zip(keys, tags, strict=True) if tag)
            tail = known[tags] = f',"meta_types":{tags_text(own)}' if own else ""
        tails.append(tail)
    return metas, tails


def _key_texts(key: str, values: list[Any], tags: list[str]) -> list[str]:
    """A key and its value as JSON for each system, empty for one without."""
    name = f"{to_json(key)}:"
    types = set(map(type, values))
    if types == {str} and set(tags) == {"string"}:
        whole = "".join(values)
        if whole.isprintable() and "\\" not in whole and '"' not in whole:
            return [f'{name}"{value}"' for value in values]
    if types == {int} and set(tags) == {"i64"} and min(values) >= -_EXACT and max(values) <= _EXACT:
        return [f"{name}{value}" for value in values]
    if types == {float} and set(tags) == {"f64"} and all(map(math.isfinite, values)):
        return [f"{name}{value!r}" for value in values]
    #: Documents that many records share are one object.
    known: dict[int, str] = {}
    texts = []
    for value, tag in zip(values, tags, strict=True):
        if not tag:
            texts.append("")
        elif type(value) is dict:
            text = known.get(id(value))
            if text is None:
                text = known[id(value)] = name + _value_text(key, value, tag)
            texts.append(text)
        else:
            texts.append(name + _value_text(key, value, tag))
    return texts


def _value_text(key: str, value: Any, tag: str) -> str:
    kind = type(value)
    if kind is float and tag == "f64":
        return number_text(value)
    if kind is str:
        return to_json(value)
    if kind is int and -_EXACT <= value <= _EXACT:
        return repr(value)
    if kind is bool:
        return "true" if value else "false"
    return to_json(to_typed_json(value, tag, f"system.{key}"))
