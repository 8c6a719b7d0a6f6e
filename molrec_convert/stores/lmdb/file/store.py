"""The LMDB file a collection is written to: keys appended in order, one transaction per batch, a map that grows.

While it is written the file has a hidden name beside its own, which it takes when it is complete; what a process leaves
there when it is killed is removed by the next writer of the same name.
"""

from __future__ import annotations

import errno
import os
import struct
import tempfile
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from molrec_convert.errors import UsageError
from molrec_convert.files.disk import remove, sync_tree
from molrec_convert.files.locking import PathLock
from molrec_convert.files.staging import Staging
from molrec_convert.files.target_file import start_writeback
from molrec_convert.stores.lmdb.file.environment import lmdb_library
from molrec_convert.stores.lmdb.file.footer import GrowingSums, Sums
from molrec_convert.stores.lmdb.file.keys import FRAME, numbered, numbered_keys

__all__ = ["Runs", "Spool", "StoreFile", "append_runs", "in_runs"]

_FIRST_MAP = 2**26
_LARGEST_MAP = 2**46
#: So many new bytes are on their way to the disk before anyone asks for them.
_AHEAD = 2 * 2**20
#: A disk with less room than this is full.
_LITTLE = 2**20


class StoreFile:
    """A new LMDB file for `target`; one writer at a time. With `in_place` it has its name from the beginning.

    `resume` goes on with what an interrupted writer left under the hidden name. `durable`: what is put is on disk when
    the call returns. `locked`: the caller holds the right to write under the name. `suspend` closes the file and leaves
    it under its hidden name.
    """

    def __init__(
        self,
        target: Path,
        *,
        overwrite: bool = False,
        in_place: bool = False,
        map_size: int = _FIRST_MAP,
        resume: bool = False,
        durable: bool = False,
        locked: bool = False,
        sums: GrowingSums | None = None,
    ) -> None:
        self._lmdb = lmdb_library()
        #: Checksums of the values that are put; those of the file's earlier opening go on.
        self.sums = GrowingSums() if sums is None else sums
        self.target = Path(os.path.abspath(target))
        self._env: Any = None
        self._durable, self._started = durable, 0
        #: Of a file in its place the right to alter it is held, else that to write under its name.
        self._held = _placed(target, overwrite) if in_place else Staging(target, overwrite=overwrite, locked=locked)
        self._claim: int | None = None
        try:
            self.path = self._held.path if isinstance(self._held, Staging) else self.target
            if isinstance(self._held, Staging) and not resume:
                self._held.begin()
            self._claim = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            if not resume:
                os.ftruncate(self._claim, 0)
            # a file that is there fits the map
            self._map_size = max(map_size, 2 * os.fstat(self._claim).st_size)
            self._env = self._opened()
        except BaseException:
            self._release() if resume else self.discard()
            raise

    def _opened(self) -> Any:
        return self._guarded(
            lambda: self._lmdb.open(
                os.fspath(self.path),
                subdir=False,
                lock=False,
                map_size=self._map_size,
                max_dbs=0,
                sync=self._durable,
                metasync=self._durable,
                writemap=False,
                meminit=False,
            )
        )

    def append(self, items: list[tuple[bytes, bytes]]) -> None:
        """Put keys greater than all before, in one transaction."""

        def put(transaction: Any) -> None:
            done = transaction.cursor().putmulti(items, append=True)
            if done != (len(items), len(items)):
                raise RuntimeError("keys of a collection were written out of order")

        if items:
            self.sums.add(items)
            self._transact(put)
            self._write_ahead()

    def _write_ahead(self) -> None:
        """Have the system write what the file grew by, which the sync at the end would wait for."""
        if self._claim is not None and not self._durable:
            size = os.fstat(self._claim).st_size
            if size - self._started >= _AHEAD:
                start_writeback(self._claim, self._started, size - self._started)
                self._started = size

    def put(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Put keys anywhere, in one transaction."""
        every = list(items)

        def put(transaction: Any) -> None:
            for key, value in every:
                transaction.put(key, value)

        self._transact(put)

    def remove_from(self, key: bytes) -> None:
        """Remove `key` and all keys after it."""

        def remove(transaction: Any) -> None:
            cursor = transaction.cursor()
            found = cursor.set_range(key)
            while found:
                found = cursor.delete()

        self.sums.cut(key)
        self._transact(remove)

    def checksums(self, records: int, frames: int) -> dict[bytes, Sums]:
        """Return the checksums of all values of so many records and frames, by letter."""
        return self.sums.complete(records, frames, self._first_frames)

    def _first_frames(self, count: int) -> Iterator[bytes]:
        with self._env.begin() as transaction:
            cursor = transaction.cursor()
            found = cursor.set_range(numbered(FRAME, 0))
            while found and cursor.key() < numbered(FRAME, count):
                yield cursor.value()
                found = cursor.next()

    def items(self) -> Generator[tuple[bytes, bytes], None, None]:
        """Yield all keys in order and their values; nothing is put meanwhile."""
        with self._env.begin() as transaction, transaction.cursor() as cursor:
            yield from cursor

    def suspend(self) -> None:
        """Close the unfinished file and leave it where it is, for a writer that resumes."""
        try:
            if self._env is not None:
                self._guarded(lambda: self._env.sync(True))
        finally:
            if self._env is not None:
                self._env.close()
                self._env = None
            self._release()

    def complete(self) -> None:
        """Make sure everything is on disk, and give the file its name."""
        self._guarded(lambda: self._env.sync(True))
        self._env.close()
        self._env = None
        if isinstance(self._held, Staging):
            self._held.commit()
        else:
            sync_tree(self.path)
        self._release()

    def discard(self) -> None:
        """Remove the unfinished file; what has the target's name stays."""
        if self._env is not None:
            self._env.close()
            self._env = None
        if self._claim is not None:
            remove(self.path)
        self._release()

    def _transact(self, work: Callable[[Any], None]) -> None:
        """Run `work` in a transaction; where the map is full, again in a larger one."""
        lmdb = self._lmdb
        while True:
            try:
                with self._env.begin(write=True) as transaction:
                    work(transaction)
                return
            except lmdb.MapFullError:
                if self._map_size >= _LARGEST_MAP:
                    raise OSError(errno.EFBIG, "the collection is larger than any LMDB map", str(self.target)) from None
                self._map_size *= 2
                self._guarded(lambda: self._env.set_mapsize(self._map_size))
            except lmdb.Error as error:
                raise self._system_error(error) from error

    def _guarded(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except self._lmdb.Error as error:
            raise self._system_error(error) from error

    def _system_error(self, error: Exception) -> OSError:
        """Return what LMDB says when the system refuses it, as the error the system would raise."""
        text = str(error)
        for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.ENOMEM, errno.EIO):
            if os.strerror(code) in text:
                break
        else:
            code = errno.EIO
        if isinstance(error, self._lmdb.MemoryError):
            code = errno.ENOMEM
        if code == errno.EIO and _free_bytes(self.target.parent) < _LITTLE:
            # what LMDB makes of a write that was cut short
            code = errno.ENOSPC
        return OSError(code, f"the collection cannot be written ({text})", str(self.target))

    def _release(self) -> None:
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None
        self._held.release()


def _placed(target: Path, overwrite: bool) -> PathLock:
    """Hold the file of that name, which is made where there is none."""
    if not Path(os.path.abspath(target)).parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no directory {target.parent}")
    if os.path.lexists(target) and not overwrite:
        raise UsageError(f"{target} exists already: name another target, or replace it with --overwrite")
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
    return PathLock(target)


def _free_bytes(folder: Path) -> int:
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


_IN_MEMORY = 8 * 2**20


_ENTRY = struct.Struct("<QQ")


class Spool:
    """A queue of numbered byte strings; `spill` is to be called now and then.

    The file it may need lies in `folder`, unnamed, and goes with the process.
    """

    def __init__(self, folder: Path, in_memory: int = _IN_MEMORY) -> None:
        self._folder, self._limit = folder, in_memory
        # no tuple for each value: objects the garbage collector looks at would make it look ever more often
        self._numbers: array[int] = array("Q")
        self._values: list[bytes] = []
        self._file: IO[bytes] | None = None
        self._spilled = self._size = 0

    def __len__(self) -> int:
        return self._spilled + len(self._values)

    def append(self, number: int, value: bytes) -> None:
        """Keep a value and its number."""
        self._numbers.append(number)
        self._values.append(value)
        self._size += len(value)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield numbers and values in the order they came."""
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._spilled):
                number, size = _ENTRY.unpack(self._file.read(_ENTRY.size))
                yield number, self._file.read(size)
        yield from zip(self._numbers, self._values, strict=True)

    def spill(self) -> None:
        """Move what is kept to the file, when it is more than may be in memory."""
        if self._size <= self._limit:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by `close`
        self._file.seek(0, 2)
        for number, value in zip(self._numbers, self._values, strict=True):
            self._file.write(_ENTRY.pack(number, len(value)))
            self._file.write(value)
        # a full disk shows now, and not when the values are wanted
        self._file.flush()
        self._spilled += len(self._values)
        self._clear()

    def close(self) -> None:
        """Forget everything."""
        self._clear()
        self._spilled = 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def _clear(self) -> None:
        self._numbers, self._values, self._size = array("Q"), [], 0


#: Numbers, ascending, and the values they have; of a bounded size, or one value.
Runs = Iterable[tuple[Sequence[int], list[bytes]]]
_BATCH_BYTES = 8 * 2**20
#: What a value takes in memory beside its bytes: objects, key and pair.
_ITEM_BYTES = 160
_RUN_BYTES, _RUN_VALUES = 2**20, 512


def append_runs(file: StoreFile, *parts: tuple[bytes, Runs]) -> None:
    """Put values under the keys of a prefix and their numbers, which come after all keys that there are."""
    batch: list[tuple[bytes, bytes]] = []
    size = 0
    for prefix, runs in parts:
        for numbers, values in runs:
            batch += zip(numbered_keys(prefix, numbers), values, strict=True)
            size += sum(map(len, values)) + _ITEM_BYTES * len(values)
            if size >= _BATCH_BYTES:
                file.append(batch)
                batch, size = [], 0
    file.append(batch)


def in_runs(items: Iterable[tuple[int, bytes]]) -> Iterator[tuple[list[int], list[bytes]]]:
    """Yield values that come one by one as runs."""
    numbers: list[int] = []
    values: list[bytes] = []
    size = 0
    for number, value in items:
        numbers.append(number)
        values.append(value)
        size += len(value)
        if size >= _RUN_BYTES or len(values) >= _RUN_VALUES:
            yield numbers, values
            numbers, values, size = [], [], 0
    if values:
        yield numbers, values
