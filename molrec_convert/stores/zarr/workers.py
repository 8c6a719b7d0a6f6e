"""Two threads for what lets go of the interpreter lock: compressing, decompressing, gathering bytes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

__all__ = ["run_all", "submit"]

_WORKERS = 2
_Result = TypeVar("_Result")
#: Work below this many bytes is done before another thread has woken up.
_LEAST = 128 * 2**10


def submit(task: Callable[[], _Result]) -> Future[_Result]:
    """Run one task beside the caller."""
    return _pool(os.getpid()).submit(task)


def run_all(tasks: Iterable[Callable[[], None]], nbytes: int) -> None:
    """Run tasks that together touch `nbytes`, in any order, and return when all are done."""
    waiting = deque(tasks)

    def work() -> None:
        try:
            while True:
                try:
                    task = waiting.popleft()
                except IndexError:
                    return
                task()
        except BaseException:
            waiting.clear()
            raise

    if len(waiting) < 2 or nbytes < _LEAST or _cpus() < 2:
        work()
        return
    helpers = [submit(work) for _ in range(_WORKERS - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            helper.result()


@lru_cache(maxsize=1)
def _pool(_process: int) -> ThreadPoolExecutor:
    # One for each process: threads do not survive a fork.
    return ThreadPoolExecutor(_WORKERS, thread_name_prefix="molrec")


@lru_cache(maxsize=1)
def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
