"""Codec pipelines: from an array chunk to stored bytes and back.

A pipeline is one array-to-bytes codec (`bytes` or `vlen-utf8`) followed by byte stages (`numcodecs.shuffle`, `gzip`,
`zstd`, `crc32c`). Anything else (`transpose`, nested sharding) is left to the Zarr library.
Source: Zarr V3 binding, "Must-decode codecs" and "Writer's pipelines".
"""

from __future__ import annotations

import gzip
import io
import math
import struct
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from molrec_convert._kernel.planes import merge_planes, split_planes
from molrec_convert.errors import ContractError
from molrec_convert.model.dtypes import DTYPES, stored
from molrec_convert.stores.zarr.v3.zstd import zstd_compress, zstd_compress_run, zstd_decompress, zstd_decompress_run

__all__ = ["Pipeline", "Stage", "column_pipeline", "crc32c", "dense_pipeline", "inflate", "is_fill"]

Buffer = Any  # bytes, an array of uint8, or another object with the buffer protocol
_kept = threading.local()
_LARGEST_KEPT = 8 * 2**20
#: What a chunk of unknown size may grow to: the first, so many times its bytes, and so many for each of its values.
_MOST, _GROWTH, _PER_VALUE = 2**28, 64, 16


@dataclass(frozen=True)
class Stage:
    """One byte stage: `shuffle` (element size), `gzip` (level), `zstd` (level, checksum) or `crc32c`."""

    name: Literal["shuffle", "gzip", "zstd", "crc32c"]
    level: int = 0
    checksum: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the codec's entry in `zarr.json`."""
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
    """Return the writer's pipeline of a column: by dtype and declared precision.

    `compression` acts on float columns only: on a column with a precision it replaces zstd-3 (the shuffle stays).
    """
    if precision is not None:
        return Pipeline(dtype, (Stage("shuffle", 8), compression or Stage("zstd", 3), _CRC))
    if DTYPES[dtype].is_float:
        return Pipeline(dtype, (compression, _CRC) if compression else (_CRC,))
    return dense_pipeline(dtype)


def dense_pipeline(dtype: str) -> Pipeline:
    """Return the pipeline of non-float columns and of every dense array under a trajectory."""
    return Pipeline(dtype, (Stage("gzip", 1), _CRC))


def crc32c(data: Buffer) -> bytes:
    """Return the checksum that closes a chunk, as its four little-endian bytes."""
    return struct.pack("<I", google_crc32c.value(data))


def is_fill(values: NDArray[Any]) -> bool:
    """True if all values are the fill value bit for bit (-0.0 is not): such a chunk is not stored."""
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
        """Return the stored bytes of one full chunk, as pieces to be written one after the other."""
        if self.dtype == "string":
            data: Any = bytes(_texts().encode(values.astype(object).reshape(-1)))
        else:
            data = _raw(values.byteswap() if self.big_endian else values)
        return _run_stages(data, self.stages)

    def encode_run(self, values: NDArray[Any], rows: int, precision: float | None = None) -> list[list[Buffer] | None]:
        """Return the pieces of each chunk of `rows` rows of `values`; None for one that is all fill.

        `precision`: values are rounded to its quantum first.
        """
        if precision is not None:
            rounded = _scratch("rounded", values.nbytes).view(np.float64).reshape(values.shape)
            values = stored(values, precision, rounded)
        chunks = [values[start : start + rows] for start in range(0, len(values), rows)]
        if self._rounded and not self.big_endian and len(values) == len(chunks) * rows:
            return self._encode_rounded(_raw(values).reshape(len(chunks), -1, 8))
        present = [not is_fill(chunk) for chunk in chunks]
        if not self._shuffled or self.big_endian or not any(present):
            encoded = [self.encode(chunk) if there else None for chunk, there in zip(chunks, present, strict=True)]
            # What was rounded lies in memory that the next run takes again.
            return encoded if precision is None else [_owned(pieces) for pieces in encoded]
        size = self.stages[0].level
        planes = _scratch("planes", values.nbytes).reshape(len(chunks), size, -1)
        split_planes(_raw(values).reshape(len(chunks), -1, size), planes)
        return [
            _owned(_run_stages(plane.reshape(-1), self.stages[1:])) if there else None
            for plane, there in zip(planes, present, strict=True)
        ]

    def _encode_rounded(self, values: NDArray[np.uint8]) -> list[list[Buffer] | None]:
        """Return `encode_run` of whole chunks of a column with a precision: bytes `[chunk, value, byte]`."""
        planes = _scratch("planes", values.size).reshape(len(values), 8, -1)
        split_planes(values, planes)
        numbers = values.reshape(-1).view("<u8").reshape(len(values), -1)
        # a number that is stored almost always shows among the first
        present: NDArray[np.bool_] = np.asarray(numbers[:, :32].any(axis=1))
        rest = np.flatnonzero(~present)
        present[rest] = numbers[rest].any(axis=1)
        which = np.flatnonzero(present)
        stored_planes = planes.reshape(len(planes), -1)
        if len(which) < len(planes):
            stored_planes = stored_planes[which]
        encoded: list[list[Buffer] | None] = [None] * len(planes)
        frames = zstd_compress_run(stored_planes, self.stages[1].level, self.stages[1].checksum)
        for position, frame in zip(which.tolist(), frames, strict=True):
            encoded[position] = [b"".join((frame, crc32c(frame)))]
        return encoded

    def decode_run(
        self,
        data: NDArray[np.uint8],
        places: Sequence[tuple[int, int]],
        shape: tuple[int, ...],
        out: NDArray[Any],
        node: str,
    ) -> None:
        """Decode chunks of `shape` that follow each other on the leading axis into `out`, which is all zeros.

        `places`: offset and length of each in `data`.
        """
        parts = [data[offset : offset + length] for offset, length in places]
        if not self._shuffled or self.big_endian:
            for position, part in enumerate(parts):
                where = out[position * shape[0] : (position + 1) * shape[0]]
                self.rows(self.unpack(part, shape, node), shape, out=where)
            return
        size = self.stages[0].level
        nbytes = out.nbytes // len(parts)
        unpacked = self._unpack_rounded(data, places, nbytes, node) if self._rounded else None
        if unpacked is not None:
            done = 0
            for bodies in unpacked:
                stop = done + len(bodies) * shape[0]
                merge_planes(bodies.reshape(len(bodies), size, -1), _bytes_of(out[done:stop], len(bodies), size))
                done = stop
            return
        bodies = _scratch("planes", out.nbytes).reshape(len(parts), nbytes)
        for part, body in zip(parts, bodies, strict=True):
            self._unpack_into(part, body, shape, node)
        merge_planes(bodies.reshape(len(parts), size, -1), _bytes_of(out, len(parts), size))

    def _unpack_rounded(
        self, data: NDArray[np.uint8], places: Sequence[tuple[int, int]], nbytes: int, node: str
    ) -> list[NDArray[np.uint8]] | None:
        """Return the chunks of a column with a precision unpacked in one call; None when they have to go one by one."""
        memory = data.data
        for offset, length in places:
            end = offset + length - 4
            sound = length >= 4 and google_crc32c.value(data[offset:end]) == int.from_bytes(
                memory[end : end + 4], "little"
            )
            if not sound:
                raise ContractError(node, "the checksum of a chunk does not match its bytes")
        return zstd_decompress_run(data, [(offset, length - 4) for offset, length in places], nbytes)

    def _unpack_into(self, data: Buffer, body: NDArray[np.uint8], shape: tuple[int, ...], node: str) -> None:
        """`unpack` to given memory; the writer's own stages without a copy."""
        if self._rounded:
            _unzstd(_check_crc(data, node), body.size, node, body)
        else:
            body[:] = self.unpack(data, shape, node)

    @cached_property
    def checked(self) -> bool:
        """True if a checksum closes every chunk."""
        return bool(self.stages) and self.stages[-1] == _CRC

    @cached_property
    def plain(self) -> bool:
        """True if a chunk is the values as they are in memory, with at most a checksum behind them."""
        return self.dtype != "string" and not self.big_endian and self.stages in ((), (_CRC,))

    def decode(self, data: Buffer, shape: tuple[int, ...], node: str) -> NDArray[Any]:
        """Return the values of one chunk of `shape`; `ContractError` for a bad checksum or a wrong size."""
        return self.rows(self.unpack(data, shape, node), shape)

    def unpack(self, data: Buffer, shape: tuple[int, ...], node: str) -> NDArray[Any]:
        """Return a chunk with everything undone but a shuffle of its values, from which `rows` takes what is asked
        for.
        """
        size = None if self.dtype == "string" else math.prod(shape) * DTYPES[self.dtype].numpy.itemsize
        if self._rounded:
            return np.frombuffer(_unzstd(_check_crc(data, node), size, node), dtype=np.uint8)
        current: Buffer = data
        for position in range(len(self.stages) - 1, int(self._shuffled) - 1, -1):
            stage = self.stages[position]
            if stage.name == "crc32c":
                current = _check_crc(current, node)
            elif stage.name == "shuffle":
                current = _unshuffle(current, stage.level)
            else:
                # Its content has the size of the values unless a stage before it changed that.
                known = size if all(before.name == "shuffle" for before in self.stages[:position]) else None
                current = inflate(stage.name, current, known, math.prod(shape), node)
        if self.dtype == "string":
            return _decode_text(current, shape, node)
        body = np.frombuffer(current, dtype=np.uint8) if isinstance(current, bytes) else current
        if body.size != size:
            raise ContractError(node, "a chunk has the wrong size", found=str(body.size), expected=str(size))
        return body

    def rows(
        self,
        body: NDArray[Any],
        shape: tuple[int, ...],
        start: int = 0,
        stop: int | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return rows `start:stop` of the leading axis of an unpacked chunk, written to `out` when given."""
        whole = not shape or (start == 0 and (stop is None or stop >= shape[0]))
        if self.dtype == "string":
            values = body if whole else body[start:stop]
        elif self._shuffled:
            per_row = math.prod(shape[1:])
            stop = shape[0] if shape and stop is None else stop
            size = self.stages[0].level
            planes = body.reshape(size, -1)
            planes = planes if whole or stop is None else planes[:, start * per_row : stop * per_row]
            target = out if out is not None else np.empty(_row_shape(shape, start, stop), DTYPES[self.dtype].numpy)
            merge_planes(planes[None], _bytes_of(target, 1, size))
            if self.big_endian:
                target.byteswap(inplace=True)
            return target
        else:
            dtype = DTYPES[self.dtype].numpy
            values = body.view(dtype.newbyteorder(">") if self.big_endian else dtype).reshape(shape)
            values = (values if whole else values[start:stop]).astype(dtype, copy=False)
        if out is None:
            return values
        out[...] = values
        return out

    @cached_property
    def _rounded(self) -> bool:
        """True if these are the stages of a column with a precision, which have a shorter way through."""
        return self._shuffled and [stage.name for stage in self.stages[1:]] == ["zstd", "crc32c"]

    @cached_property
    def _shuffled(self) -> bool:
        """True if the first stage shuffles the bytes of whole values, so that single rows can be taken out of it."""
        return (
            bool(self.stages)
            and self.dtype != "string"
            and self.stages[0] == Stage("shuffle", DTYPES[self.dtype].numpy.itemsize)
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Return the array's `codecs`."""
        if self.dtype == "string":
            first: dict[str, Any] = {"name": "vlen-utf8"}
        else:
            first = {"name": "bytes", "configuration": {"endian": "big" if self.big_endian else "little"}}
        return [first, *(stage.to_json() for stage in self.stages)]

    @classmethod
    def from_json(cls, codecs: Any, dtype: str) -> Pipeline | None:
        """Return the pipeline a `codecs` list describes, None when it is none of this kind."""
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
            endian = _configuration(codecs[0]).get("endian")
            if endian is None and DTYPES[dtype].itemsize > 1:
                return None
            big = endian == "big"
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


def _row_shape(shape: tuple[int, ...], start: int, stop: int | None) -> tuple[int, ...]:
    return shape if not shape else (min(shape[0] if stop is None else stop, shape[0]) - start, *shape[1:])


def _raw(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _run_stages(data: Any, stages: tuple[Stage, ...]) -> list[Buffer]:
    tail: list[Buffer] = []
    for position, stage in enumerate(stages):
        if stage.name == "shuffle":
            data = _shuffle(data, stage.level)
        elif stage.name == "gzip":
            data = zlib.compress(data, stage.level, wbits=31)
        elif stage.name == "zstd":
            data = zstd_compress(data, stage.level, stage.checksum)
        elif position == len(stages) - 1:
            tail.append(crc32c(data))
        else:
            data = bytes(data) + crc32c(data)
    return [data, *tail]


def _owned(pieces: list[Buffer] | None) -> Any:
    """Return the pieces, none of them a view of memory that is used again."""
    return pieces and [piece if isinstance(piece, bytes) else piece.tobytes() for piece in pieces]


def _scratch(use: str, size: int) -> NDArray[np.uint8]:
    """Return memory of this thread that is used again: pages that are taken and given back cost more than the work on
    them.
    """
    memory: NDArray[np.uint8] | None = _kept.__dict__.get(use)
    if memory is None or memory.size < size:
        memory = np.empty(size, dtype=np.uint8)
        if size <= _LARGEST_KEPT:
            setattr(_kept, use, memory)
    return memory[:size]


def _shuffle(data: Buffer, size: int) -> NDArray[np.uint8]:
    raw = np.frombuffer(data, dtype=np.uint8)
    whole = raw.size - raw.size % size
    shuffled = np.empty(raw.size, dtype=np.uint8)
    split_planes(raw[:whole].reshape(1, -1, size), shuffled[:whole].reshape(1, size, -1))
    shuffled[whole:] = raw[whole:]
    return shuffled


def _unshuffle(data: Buffer, size: int) -> NDArray[np.uint8]:
    raw = np.frombuffer(data, dtype=np.uint8)
    whole = raw.size - raw.size % size
    plain = np.empty(raw.size, dtype=np.uint8)
    merge_planes(raw[:whole].reshape(1, size, -1), plain[:whole].reshape(1, -1, size))
    plain[whole:] = raw[whole:]
    return plain


def _bytes_of(values: NDArray[Any], chunks: int, size: int) -> NDArray[np.uint8]:
    """Return the bytes of values as `[chunk, value, byte]`."""
    return values.reshape(-1).view(np.uint8).reshape(chunks, -1, size)


def _check_crc(data: Buffer, node: str) -> NDArray[np.uint8]:
    raw = np.frombuffer(data, dtype=np.uint8)
    body = raw[:-4]
    if raw.size < 4 or crc32c(body) != raw[-4:].tobytes():
        raise ContractError(node, "the checksum of a chunk does not match its bytes")
    return body


def inflate(name: str, data: Buffer, size: int | None, values: int, node: str) -> Buffer:
    """Return what a chunk of `values` values holds: `size` bytes where that is known, else a plausible number."""
    unpack = _gunzip if name == "gzip" else _unzstd
    return unpack(data, size, node, most=_MOST + _GROWTH * len(data) + _PER_VALUE * values)


def _gunzip(data: Any, size: int | None, node: str, *, most: int = 0) -> bytes:
    """Inflate; where the size is known never more than that is made, else no more than `most` bytes."""
    try:
        if size is None:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as members:
                plain = members.read(most + 1)
            if len(plain) > most:
                raise ContractError(node, f"a chunk of {len(data)} bytes holds more than {most}")
            return plain
        machine = zlib.decompressobj(wbits=31)
        plain = machine.decompress(data, size + 1)
    except (zlib.error, EOFError, OSError) as error:
        raise ContractError(node, f"a chunk is not valid gzip: {error}") from None
    if len(plain) != size or not machine.eof or machine.unused_data:
        raise ContractError(node, "a chunk is not one gzip member of its size", expected=f"{size} bytes")
    return plain


def _unzstd(
    data: Any, size: int | None, node: str, out: NDArray[np.uint8] | None = None, *, most: int | None = None
) -> Buffer:
    try:
        return zstd_decompress(data, size, out, most)
    except ValueError as error:
        raise ContractError(node, f"a chunk is not valid zstd: {error}") from None


@lru_cache(maxsize=1)
def _texts() -> Any:
    """Return the codec of texts; numcodecs is slow to import."""
    from numcodecs.vlen import VLenUTF8

    return VLenUTF8()


def _decode_text(data: Buffer, shape: tuple[int, ...], node: str) -> NDArray[Any]:
    raw = bytes(data)
    count = struct.unpack_from("<I", raw)[0] if len(raw) >= 4 else -1
    # Each text takes at least its four length bytes: a count beyond that would only make a huge array.
    if count != math.prod(shape) or 4 + 4 * count > len(raw):
        raise ContractError(
            node, "a chunk has the wrong number of texts", found=str(count), expected=str(math.prod(shape))
        )
    try:
        texts = _texts().decode(raw)
        return np.array(texts, dtype=DTYPES["string"].numpy).reshape(shape)
    except (ValueError, UnicodeDecodeError) as error:
        raise ContractError(node, f"a chunk is not valid vlen-utf8: {error}") from None
