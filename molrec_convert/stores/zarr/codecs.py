"""Codec pipelines: from an array chunk to stored bytes and back.

A pipeline is one array-to-bytes codec (`bytes` or `vlen-utf8`) followed by byte stages (`numcodecs.shuffle`, `gzip`,
`zstd`, `crc32c`). Anything else (`transpose`, nested sharding) is left to the Zarr library.
Source: Zarr V3 binding, "Must-decode codecs" and "Writer's pipelines".
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Literal

import google_crc32c
import numpy as np
from numcodecs import zstd
from numcodecs.vlen import VLenUTF8
from numpy.typing import NDArray

from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import DTYPES

__all__ = ["Pipeline", "Stage", "column_pipeline", "crc32c", "dense_pipeline", "is_fill"]

Buffer = bytes | NDArray[Any]
_VLEN = VLenUTF8()


@dataclass(frozen=True)
class Stage:
    """One byte stage: `shuffle` (element size), `gzip` (level), `zstd` (level, checksum) or `crc32c`."""

    name: Literal["shuffle", "gzip", "zstd", "crc32c"]
    level: int = 0
    checksum: bool = False

    def to_json(self) -> dict[str, Any]:
        """The codec's entry in `zarr.json`."""
        if self.name == "shuffle":
            return {"name": "numcodecs.shuffle", "configuration": {"elementsize": self.level}}
        if self.name == "gzip":
            return {"name": "gzip", "configuration": {"level": self.level}}
        if self.name == "zstd":
            return {"name": "zstd", "configuration": {"level": self.level, "checksum": self.checksum}}
        return {"name": "crc32c"}

    def __str__(self) -> str:
        return self.name if self.name == "crc32c" else f"{self.name}({self.level})"


_CRC = Stage("crc32c")


def column_pipeline(dtype: str, precision: float | None = None, compression: Stage | None = None) -> Pipeline:
    """The writer's pipeline of a column: by dtype and declared precision.

    `compression` acts on float columns only: on a column with a precision it replaces zstd-3 (the shuffle stays).
    """
    if precision is not None:
        return Pipeline(dtype, (Stage("shuffle", 8), compression or Stage("zstd", 3), _CRC))
    if DTYPES[dtype].is_float:
        return Pipeline(dtype, (compression, _CRC) if compression else (_CRC,))
    return dense_pipeline(dtype)


def dense_pipeline(dtype: str) -> Pipeline:
    """The pipeline of non-float columns and of every dense array under a trajectory."""
    return Pipeline(dtype, (Stage("gzip", 1), _CRC))


def crc32c(data: Buffer) -> bytes:
    """The checksum that closes a chunk, as its four little-endian bytes."""
    return struct.pack("<I", google_crc32c.value(data))


def is_fill(values: NDArray[Any]) -> bool:
    """Whether all values are the fill value bit for bit (-0.0 is not): such a chunk is not stored."""
    if isinstance(values.dtype, np.dtypes.StringDType):
        return not bool((values != "").any())
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    # A stored number almost always shows in the first bytes; only then is the rest looked at.
    return not flat[:256].any() and not flat.any()


@dataclass(frozen=True)
class Pipeline:
    """How the chunks of one array are encoded."""

    dtype: str
    stages: tuple[Stage, ...]
    big_endian: bool = False

    def encode(self, values: NDArray[Any]) -> list[Buffer]:
        """The stored bytes of one full chunk, as pieces to be written one after the other."""
        data: Buffer = _VLEN.encode(values.astype(object).reshape(-1)) if self.dtype == "string" else _raw(values)
        tail: list[Buffer] = []
        for position, stage in enumerate(self.stages):
            if stage.name == "shuffle":
                data = _shuffle(data, stage.level)
            elif stage.name == "gzip":
                data = zlib.compress(data, stage.level, wbits=31)
            elif stage.name == "zstd":
                data = zstd.compress(data, stage.level, stage.checksum)
            elif position == len(self.stages) - 1:
                tail.append(crc32c(data))
            else:
                data = bytes(data) + crc32c(data)
        return [data, *tail]

    def decode(self, data: bytes, shape: tuple[int, ...], node: str) -> NDArray[Any]:
        """The values of one chunk of `shape`; `ContractError` for a bad checksum or a wrong size."""
        dtype = DTYPES[self.dtype].numpy
        size = None if self.dtype == "string" else math.prod(shape) * dtype.itemsize
        current: Any = data
        for stage in reversed(self.stages):
            if stage.name == "crc32c":
                current = _check_crc(current, node)
            elif stage.name == "gzip":
                current = _gunzip(current, size, node)
            elif stage.name == "zstd":
                current = _unzstd(current, size, node)
            else:
                current = _unshuffle(current, stage.level)
        if self.dtype == "string":
            return _decode_text(current, shape, node)
        buffer = np.frombuffer(current, dtype=np.uint8)
        if buffer.size != size:
            raise ContractError(node, "a chunk has the wrong size", found=str(buffer.size), expected=str(size))
        values = buffer.view(dtype.newbyteorder(">") if self.big_endian else dtype)
        return values.astype(dtype, copy=False).reshape(shape)

    def to_json(self) -> list[dict[str, Any]]:
        """The array's `codecs`."""
        if self.dtype == "string":
            first: dict[str, Any] = {"name": "vlen-utf8"}
        else:
            first = {"name": "bytes", "configuration": {"endian": "big" if self.big_endian else "little"}}
        return [first, *(stage.to_json() for stage in self.stages)]

    @classmethod
    def from_json(cls, codecs: Any, dtype: str) -> Pipeline | None:
        """The pipeline a `codecs` list describes, None when it is none of this kind."""
        if not isinstance(codecs, list) or not codecs:
            return None
        names = [_name_of(codec) for codec in codecs]
        big = False
        if dtype == "string":
            if names[0] != "vlen-utf8":
                return None
        else:
            if names[0] != "bytes":
                return None
            big = _configuration(codecs[0]).get("endian", "little") == "big"
        stages = [_stage(name, _configuration(codec)) for name, codec in zip(names[1:], codecs[1:], strict=True)]
        known = [stage for stage in stages if stage is not None]
        return cls(dtype, tuple(known), big) if len(known) == len(stages) else None

    def __str__(self) -> str:
        return " → ".join(["vlen-utf8" if self.dtype == "string" else "bytes", *(str(stage) for stage in self.stages)])


def _name_of(codec: Any) -> str | None:
    name = codec if isinstance(codec, str) else codec.get("name") if isinstance(codec, dict) else None
    return name if isinstance(name, str) else None


def _configuration(codec: Any) -> dict[str, Any]:
    configuration = codec.get("configuration") if isinstance(codec, dict) else None
    return configuration if isinstance(configuration, dict) else {}


def _stage(name: str | None, configuration: dict[str, Any]) -> Stage | None:
    level = configuration.get("level", 0)
    if name == "numcodecs.shuffle":
        size = configuration.get("elementsize", 4)
        return Stage("shuffle", size) if isinstance(size, int) and 0 < size <= 64 else None
    if name == "gzip" and isinstance(level, int):
        return Stage("gzip", level)
    if name == "zstd" and isinstance(level, int):
        return Stage("zstd", level, bool(configuration.get("checksum", False)))
    return _CRC if name == "crc32c" else None


def _raw(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _shuffle(data: Buffer, size: int) -> NDArray[np.uint8]:
    raw = np.frombuffer(data, dtype=np.uint8)
    whole = raw.size - raw.size % size
    shuffled = np.ascontiguousarray(raw[:whole].reshape(-1, size).T).reshape(-1)
    return shuffled if whole == raw.size else np.concatenate([shuffled, raw[whole:]])


def _unshuffle(data: Any, size: int) -> NDArray[np.uint8]:
    raw = np.frombuffer(data, dtype=np.uint8)
    whole = raw.size - raw.size % size
    plain = np.ascontiguousarray(raw[:whole].reshape(size, -1).T).reshape(-1)
    return plain if whole == raw.size else np.concatenate([plain, raw[whole:]])


def _check_crc(data: Any, node: str) -> memoryview:
    view = memoryview(data)
    body = np.frombuffer(view[:-4], dtype=np.uint8) if len(view) >= 4 else None
    if body is None or google_crc32c.value(body) != struct.unpack("<I", view[-4:])[0]:
        raise ContractError(node, "the checksum of a chunk does not match its bytes")
    return view[:-4]


def _gunzip(data: Any, size: int | None, node: str) -> bytes:
    """Inflate; where the size is known never more than that is made."""
    try:
        if size is None:
            return zlib.decompress(data, wbits=31)
        machine = zlib.decompressobj(wbits=31)
        plain = machine.decompress(data, size + 1)
    except zlib.error as error:
        raise ContractError(node, f"a chunk is not valid gzip: {error}") from None
    if len(plain) != size:
        raise ContractError(node, "a chunk has the wrong size", found=f"{len(plain)} bytes", expected=str(size))
    return plain


def _unzstd(data: Any, size: int | None, node: str) -> Any:
    try:
        if size is None:
            return zstd.decompress(bytes(data))
        target = np.empty(size, dtype=np.uint8)
        zstd.decompress(np.frombuffer(data, dtype=np.uint8), target)
    except (RuntimeError, ValueError, MemoryError) as error:
        raise ContractError(node, f"a chunk is not valid zstd of {size} bytes: {error}") from None
    return target


def _decode_text(data: Any, shape: tuple[int, ...], node: str) -> NDArray[Any]:
    raw = bytes(data)
    count = struct.unpack_from("<I", raw)[0] if len(raw) >= 4 else -1
    # Each text takes at least its four length bytes: a count beyond that would only make a huge array.
    if count != math.prod(shape) or 4 + 4 * count > len(raw):
        raise ContractError(
            node, "a chunk has the wrong number of texts", found=str(count), expected=str(math.prod(shape))
        )
    try:
        texts = _VLEN.decode(raw)
        return np.array(texts, dtype=DTYPES["string"].numpy).reshape(shape)
    except (ValueError, UnicodeDecodeError) as error:
        raise ContractError(node, f"a chunk is not valid vlen-utf8: {error}") from None
