"""Helpers of the tests of collections: records and files made quickly, keys seen and altered with lmdb itself."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.stores.lmdb.writer import CollectionWriter

UNITS = {"length": "angstrom", "energy": "eV"}
F64 = ColumnDeclaration("f64")
#: x of some atoms, and the energy of every frame.
POINTS = Declaration({"atoms": BlockDeclaration({"x": F64})}, {"pe": MetaDeclaration("f64")})


def point(x: Iterable[float], pe: float = 0.0, step: int = 0, **extra: Any) -> Frame:
    return Frame({"atoms": Block({"x": np.array(list(x), np.float64)})}, Meta({"pe": float(pe)}), step=step, **extra)


def points(number: int, frames: int = 1, atoms: int = 2, declaration: Declaration = POINTS) -> Record:
    """Record `number` with as many frames, x told by number, frame and row."""
    made = [point(number * 100 + k * 10 + np.arange(atoms), -number - k / 8, k) for k in range(frames)]
    return Record(meta={"record_id": f"r{number}"}, trajectory=MemoryTrajectory(made, declaration))


def molecule(elements: Iterable[str] = ("O", "H"), **meta: Any) -> Frame:
    return Frame({"atoms": Block({"element": np.array(list(elements))})}, Meta(meta))


def write(path: Path, records: Iterable[Record], declaration: Declaration = POINTS, **options: Any) -> Path:
    """A collection of the records."""
    options.setdefault("units", UNITS)
    with CollectionWriter.create(path, declaration=declaration, **options) as writer:
        writer.extend(records)
    return path


def key(prefix: str, number: int | None = None) -> bytes:
    return prefix.encode() + (b"" if number is None else struct.pack(">Q", number))


@contextmanager
def raw(path: Path, write: bool = False) -> Iterator[Any]:
    """A transaction of lmdb itself."""
    env = lmdb.open(os.fspath(path), subdir=False, lock=False, readonly=not write, map_size=2**30)
    try:
        with env.begin(write=write) as transaction:
            yield transaction
    finally:
        env.close()


def contents(path: Path) -> dict[bytes, bytes]:
    """Every key and value, in the file's order."""
    with raw(path) as transaction:
        return {bytes(k): bytes(v) for k, v in transaction.cursor()}


def put(path: Path, name: bytes, value: bytes | None) -> None:
    """Replace a value, as one does who keeps no checksums; None removes the key."""
    with raw(path, write=True) as transaction:
        transaction.delete(b"index.crc32c")
        if value is None:
            transaction.delete(name)
        else:
            transaction.put(name, value)


def edit_json(path: Path, name: bytes, change: Callable[[Any], Any]) -> None:
    """Alter a JSON value in place."""
    document = json.loads(contents(path)[name])
    change(document)
    put(path, name, json.dumps(document).encode())


def edit_header(path: Path, name: bytes, change: Callable[[Any], Any]) -> None:
    """Alter the header of frame bytes; the payload stays."""
    put(path, name, with_header(contents(path)[name], change))


def with_header(value: bytes, change: Callable[[Any], Any]) -> bytes:
    """Frame bytes with another header before the same payload."""
    header, payload = parts(value)
    change(header)
    return frame_value(header, payload)


def frame_value(header: Any, payload: bytes = b"") -> bytes:
    """Frame bytes put together by hand."""
    text = (
        header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    )
    return b"MRF1" + struct.pack("<I", len(text)) + text + bytes(-len(text) % 8) + payload


def parts(value: bytes) -> tuple[Any, bytes]:
    """Header and payload of frame bytes."""
    size = struct.unpack_from("<I", value, 4)[0]
    start = 8 + size + -size % 8
    return json.loads(value[8 : 8 + size]), value[start:]


def equal_trajectories(a: Any, b: Any) -> bool:
    """Whether two trajectories resolve to the same frames, bit for bit."""
    return len(a) == len(b) and all(left == right for left, right in zip(a, b, strict=True))


def cubic(edge: float) -> Box:
    return Box(np.eye(3) * edge)


def tables(**columns: Mapping[str, Any]) -> dict[str, Block]:
    return {name: Block(dict(entry)) for name, entry in columns.items()}
