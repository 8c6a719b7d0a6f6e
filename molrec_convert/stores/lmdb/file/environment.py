"""LMDB environments: one per file and process, opened when needed and never carried into another process.

LMDB allows a file to be open once in a process, and nothing that is open to cross a fork. So every reader of a file in
one process shares one environment, a forked child opens its own, and the last reader to leave closes it. Reading takes
no locks: a finished collection is replaced, never altered, and its folder may be read-only.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import ContractError, FormatError, UnsupportedError, UsageError
from molrec_convert.stores.lmdb.file.pages import PageFile

_VALUE = itemgetter(1)
#: So many bytes, or values, are copied at a time.
_BATCH_BYTES, _BATCH_VALUES, _FIRST_BATCH = 2**20, 1024, 16

__all__ = ["Environment", "Handle", "acquire", "lmdb_library", "release"]


def lmdb_library() -> Any:
    """Return the library `lmdb`; `UnsupportedError` that says how to get it where it is not installed."""
    try:
        import lmdb
    except ModuleNotFoundError:
        raise UnsupportedError(
            "collections need the library lmdb, which is not installed: pip install 'molrec-convert[lmdb]'"
        ) from None
    return lmdb


class Environment:
    """One open file. `get` gives a view of a value, valid as long as the environment is open."""

    def __init__(self, path: str, key: tuple[int, int]) -> None:
        lmdb = lmdb_library()
        self.path, self.key, self.users, self.process = path, key, 0, os.getpid()
        with PageFile(path):
            pass  # reading a page that is not there would end the process
        try:
            self._env = lmdb.open(path, subdir=False, readonly=True, lock=False, max_dbs=0, readahead=False)
        except lmdb.Error as error:
            raise FormatError(path, found=f"no LMDB file that can be opened ({error})") from None
        self._local = threading.local()
        self._views: list[weakref.ref[NDArray[np.uint8]]] = []

    @property
    def entries(self) -> int:
        """Number of keys."""
        return int(self._env.stat()["entries"])

    def get(self, key: bytes) -> memoryview | None:
        """Return a view of the value of `key`, None when there is none."""
        return self.finder()(key)

    def finder(self) -> Callable[[bytes], memoryview | None]:
        """Return what `get` does, for several keys at once in this thread."""
        try:
            find: Callable[[bytes], memoryview | None] = self._local.find
        except AttributeError:
            find = self._local.find = self._env.begin(buffers=True).get
        return find

    def keys(self, start: bytes = b"") -> Generator[bytes, bytes | None, None]:
        """Yield keys from `start` on, in order; a generator that takes a key jumps to the first at or after it."""
        with self._env.begin() as transaction:
            cursor = transaction.cursor()
            found = cursor.set_range(start) if start else cursor.first()
            while found:
                jump = yield cursor.key()
                found = cursor.next() if jump is None else cursor.set_range(jump)

    def batches(self, start: bytes, end: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield keys from `start` up to but not `end`, and copies of their values, many at a time."""
        with self._env.begin() as transaction, transaction.cursor() as cursor:
            if not cursor.set_range(start):
                return
            items, count = cursor.iternext(), _FIRST_BATCH
            while batch := list(itertools.islice(items, count)):
                if batch[-1][0] >= end:
                    batch = [item for item in batch if item[0] < end]
                    if batch:
                        yield batch
                    return
                yield batch
                size = sum(map(len, map(_VALUE, batch))) // len(batch)
                count = max(1, min(_BATCH_VALUES, _BATCH_BYTES // max(1, size), 4 * count))

    def views(self) -> Iterator[tuple[bytes, memoryview]]:
        """Yield every key in order and a view of its value, good until the next one is asked for."""
        with self._env.begin(buffers=True) as transaction, transaction.cursor() as cursor:
            found = cursor.first()
            while found:
                yield bytes(cursor.key()), cursor.value()
                found = cursor.next()

    def view(self, key: bytes) -> NDArray[np.uint8] | None:
        """Return the bytes of the value of `key` in place; the file stays mapped as long as an array shows them."""
        value = self.get(key)
        if value is None:
            return None
        # every array made from it keeps this one alive, which no memoryview would do
        root = np.frombuffer(value, np.uint8) if len(value) else np.zeros(0, np.uint8)
        self._views.append(weakref.ref(root, self._view_is_gone))
        return root

    def _view_is_gone(self, _: object) -> None:
        """Close the file when the last array that showed it goes, if its last reader has left before."""
        if self.users <= 0:
            with _lock:
                _close_lingering()

    @property
    def held(self) -> bool:
        """True if an array still shows memory of the file."""
        self._views = [view for view in self._views if view() is not None]
        return bool(self._views)

    def close(self) -> None:
        """Unmap the file. Nothing may look at it any more."""
        self._local = threading.local()
        self._env.close()


_open: dict[tuple[int, int], Environment] = {}
#: Closed by their last reader while arrays still showed their memory.
_lingering: list[Environment] = []
#: Reentrant: a collection may be collected as garbage while another one is opened.
_lock = threading.RLock()


def acquire(path: str | Path) -> Environment:
    """Return the environment of a file in this process; give it back with `release`."""
    where = os.fspath(path)
    with _lock:
        _close_lingering()
        status = os.stat(where)
        key = (status.st_dev, status.st_ino)
        environment = _open.get(key)
        if environment is None:
            environment = next((e for e in _lingering if e.key == key), None)
            if environment is None:
                environment = Environment(where, key)
            else:
                _lingering.remove(environment)
            _open[key] = environment
        environment.users += 1
        return environment


def release(environment: Environment) -> None:
    """Give an environment back; the last one to do so closes it, or leaves that to the arrays that still show it."""
    with _lock:
        environment.users -= 1
        if environment.users <= 0 and _open.get(environment.key) is environment:
            del _open[environment.key]
            _lingering.append(environment)
        _close_lingering()


class Handle:
    """One reader's hold on a file: opens the environment when it is needed, again in another process."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._environment: Environment | None = None
        self._closed = False

    def open(self) -> Environment:
        """Return the file's environment in this process."""
        environment = self._environment
        if environment is None or environment.process != os.getpid():
            if self._closed:
                raise UsageError(f"the collection {self.path} is closed")
            environment = self._environment = acquire(self.path)
        return environment

    def view(self, key: bytes) -> NDArray[np.uint8]:
        """Return the value of a key that must be there, in place."""
        value = self.open().view(key)
        if value is None:
            raise ContractError(key.decode("utf-8", "backslashreplace"), "the key is not there")
        return value

    def close(self) -> None:
        """Let go of the file, for good."""
        self._closed = True
        environment, self._environment = self._environment, None
        # what another process opened is that process's
        if environment is not None and environment.process == os.getpid():
            release(environment)

    def __del__(self) -> None:
        self.close()


def _close_lingering() -> None:
    for environment in list(_lingering):
        if environment in _lingering and not environment.held:
            _lingering.remove(environment)
            environment.close()


def _after_fork() -> None:
    """In a child: forget what the parent had open, so that this process opens files of its own."""
    global _lock
    _lock = threading.RLock()
    for environment in [*_open.values(), *_lingering]:
        if not environment.held:
            environment.close()
    # what is still looked at stays mapped: nothing is locked, and nothing writes to it
    _lingering[:] = [e for e in [*_open.values(), *_lingering] if e.held]
    for environment in _lingering:
        environment.users, environment.process = 0, os.getpid()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
