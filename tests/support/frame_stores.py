"""Helpers of the tests of frame-shaped sections: write one, read it back, alter what is stored, read it with others."""

from __future__ import annotations

import contextlib
import json
import resource
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from molrec_convert.model import Block, Box, Column, Frame, Meta
from molrec_convert.model.dtypes import DTYPES, as_values, dtype_name
from molrec_convert.model.names import STANDARD_DTYPES
from molrec_convert.model.tags import TAGS
from molrec_convert.stores.zarr.sections.frames import StoredFrame, read_frame, write_frame
from molrec_convert.stores.zarr.v3.codecs import Stage
from molrec_convert.stores.zarr.v3.storage import DirectoryStorage


class WatchedStorage(DirectoryStorage):
    """A directory that remembers which files were read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reads: list[str] = []

    def read(self, key: str, most: int | None = None) -> bytes | None:
        self.reads.append(key)
        return super().read(key, most)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self.reads.append(key)
        return super().read_range(key, start, length)

    def read_into(self, key: str, start: int, buffers: Sequence[Any]) -> int:
        self.reads.append(key)
        return super().read_into(key, start, buffers)

    @property
    def chunks(self) -> list[str]:
        return [key for key in self.reads if not key.endswith("zarr.json")]


def write(path: Path, frame: Frame, section: str = "frame", compression: Stage | None = None) -> Path:
    """A store with `frame` in one section; returns the section's folder."""
    write_frame(path, section, frame, compression=compression)
    return path / section


def read(path: Path, section: str = "frame") -> StoredFrame:
    return read_frame(DirectoryStorage(path), section)


def round_trip(path: Path, frame: Frame, section: str = "frame") -> StoredFrame:
    write(path, frame, section)
    return read(path, section)


def column_round_trip(path: Path, values: Any, **options: Any) -> Column:
    """One column through the store."""
    column = values if isinstance(values, Column) else Column(as_values(values), **options)
    return round_trip(path, Frame({"things": Block({"c": column})}))["things"].columns["c"]


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Alter the `zarr.json` of a node."""
    path = folder / "zarr.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


def attributes(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "zarr.json").read_text(encoding="utf-8"))
    return document["attributes"]


def set_attribute(folder: Path, **values: Any) -> None:
    edit(folder, lambda document: document.setdefault("attributes", {}).update(values))


def drop_attribute(folder: Path, key: str) -> None:
    edit(folder, lambda document: document["attributes"].pop(key))


def zarr_values(folder: Path) -> np.ndarray[Any, Any]:
    """The values of an array as zarr-python reads them."""
    import zarr

    with warnings.catch_warnings():
        # It warns of complex and string types whose specification is not final.
        warnings.simplefilter("ignore")
        found = zarr.open_array(folder, mode="r", zarr_format=3)[...]
    values = np.array(found, DTYPES["string"].numpy) if isinstance(found, str) else np.asarray(found)
    return values.astype(DTYPES["string"].numpy) if values.dtype.kind in "OUT" else values


def zarr_create(folder: Path, values: np.ndarray[Any, Any], **options: Any) -> None:
    """An array written by zarr-python with codecs and chunks of its own."""
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.create_array(folder, shape=values.shape, dtype=values.dtype, overwrite=True, **options)
        array[...] = values


def bits(values: Any) -> tuple[str, tuple[int, ...], bytes | list[str]]:
    """dtype, shape and content of an array, equal exactly when every bit is."""
    array = np.asarray(values)
    name = dtype_name(array.dtype)
    if name == "string":
        return name, array.shape, [str(text) for text in array.reshape(-1)]
    return name, array.shape, np.ascontiguousarray(array, DTYPES[name].numpy).tobytes()


def frame_bits(frame: Frame) -> dict[str, Any]:
    """Everything a frame says, to compare."""
    result: dict[str, Any] = {"meta": frame.meta, "box": frame.box}
    for name in frame:
        block = frame[name]
        result[name] = (block.count, block.structural_shape, block.targets, block.attributes)
        for key, column in block.columns.items():
            mask = None if column.validity is None else column.validity.tolist()
            result[f"{name}/{key}"] = (bits(column.values), mask, column.precision, column.attributes)
    return result


# hypothesis: names, columns of every dtype, blocks, meta documents, cells

names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0"),
    min_size=1,
    max_size=12,
).filter(lambda name: name not in ("zarr.json", "box", "_validity") and not name.startswith((".", "__")))
texts = st.text(st.characters(codec="utf-8"), max_size=8)
column_names = names.filter(lambda name: name not in STANDARD_DTYPES)


@st.composite
def values_of(draw: st.DrawFn, dtype: str, rows: int, trailing: tuple[int, ...] = ()) -> np.ndarray[Any, Any]:
    """An array with every bit pattern its dtype allows."""
    shape = (rows, *trailing)
    count = int(np.prod(shape))
    if dtype == "string":
        data: Any = draw(st.lists(texts, min_size=count, max_size=count))
        return np.array(data, dtype=DTYPES["string"].numpy).reshape(shape)
    if dtype == "bool":
        return np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), np.bool_).reshape(shape)
    size = DTYPES[dtype].numpy.itemsize * count
    special = [b"\0" * size, np.full(shape, -0.0 if DTYPES[dtype].is_float else 0, DTYPES[dtype].numpy).tobytes()]
    raw = draw(st.one_of(st.binary(min_size=size, max_size=size), st.sampled_from(special)))
    return np.frombuffer(raw, DTYPES[dtype].numpy).reshape(shape).copy()


@st.composite
def columns(draw: st.DrawFn, rows: int) -> Column:
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    trailing = draw(st.sampled_from([(), (), (3,), (2, 2), (0,)]))
    values = draw(values_of(dtype, rows, trailing))
    mask = draw(st.none() | st.lists(st.booleans(), min_size=rows, max_size=rows))
    return Column(values, None if mask is None else np.array(mask, np.bool_))


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    rows = draw(st.integers(0, 5))
    keys = draw(st.lists(column_names, max_size=3, unique=True))
    return Block({key: draw(columns(rows)) for key in keys}, count=rows)


finite = st.floats(allow_nan=False, allow_infinity=False)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def metas(draw: st.DrawFn) -> Meta:
    meta = Meta()
    for key in draw(st.lists(texts.filter(lambda key: key != "_meta_types"), max_size=4, unique=True)):
        tag, value = draw(tagged())
        meta.put(key, value, tag)
    return meta


@st.composite
def tagged(draw: st.DrawFn) -> tuple[str, Any]:
    """A tag and a value of it."""
    tag = TAGS[draw(st.sampled_from(sorted(TAGS)))]
    if tag.dtype is None:
        return tag.name, draw(documents)
    element: Any
    if tag.dtype == "string":
        element = texts
    elif tag.dtype == "bool":
        element = st.booleans()
    elif tag.dtype == "f64":
        element = st.floats(allow_nan=False) | st.just(float("nan"))
    else:
        bounds = np.iinfo(DTYPES[tag.dtype].numpy)
        element = st.integers(int(bounds.min), int(bounds.max))
    if not tag.width:
        return tag.name, draw(element)
    return tag.name, np.array(
        draw(st.lists(element, min_size=tag.width, max_size=tag.width)), dtype=DTYPES[tag.dtype].numpy
    )


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    if draw(st.booleans()):
        return Box.undefined(draw(values_of("f64", 3)))
    return Box(draw(values_of("f64", 3, (3,))), draw(values_of("f64", 3)), draw(values_of("bool", 3)))


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    keys = draw(st.lists(names, max_size=3, unique=True))
    return Frame({key: draw(blocks()) for key in keys}, draw(metas()), draw(st.none() | boxes()))


@contextlib.contextmanager
def no_room(size: int) -> Iterator[None]:
    """Files cannot grow beyond `size` bytes: a write fails half-way, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def every_file(path: Path) -> Iterator[tuple[str, bytes]]:
    """Keys and bytes of all files below a folder, hidden ones too."""
    for file in sorted(path.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(path)), file.read_bytes()
