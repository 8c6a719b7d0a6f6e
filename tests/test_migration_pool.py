"""Tasks in worker processes: order, errors, a process that is lost, what waits is bounded."""

from __future__ import annotations

import os
import signal

import pytest

from molrec_convert.errors import FormatError
from molrec_convert.migration.pool import WAITING_BYTES, Pool, WorkerLost


class Work:
    """Tasks are what they ask for."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, task):
        kind, number = task
        if kind == "fault":
            raise FormatError("a.xyz", "line 3", found="b")
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "large":
            for _ in range(number):
                yield bytes(2**20)
            return
        for step in range(number % 4):
            yield number * self.factor, step


TASKS = [("count", number) for number in range(60)]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_messages_come_in_the_order_of_the_tasks(workers):
    with Pool(Work, (10,), workers) as pool:
        for _ in range(2):
            expected = [(number * 10, step) for _, number in TASKS for step in range(number % 4)]
            assert list(pool.run(TASKS)) == expected


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_task_raises_is_raised(workers):
    with Pool(Work, (1,), workers) as pool, pytest.raises(FormatError, match=r"a\.xyz, line 3"):
        list(pool.run([*TASKS[:5], ("fault", 0)]))


def test_a_process_that_is_lost_is_told():
    with Pool(Work, (1,), 2) as pool, pytest.raises(WorkerLost, match="SIGKILL"):
        list(pool.run([*TASKS[:5], ("kill", 0), *TASKS[5:]]))


def test_what_waits_is_bounded():
    with Pool(Work, (1,), 2) as pool:
        messages = pool.run([("large", 300), *([("large", 60)] * 8)])
        most = 0
        for _ in messages:
            most = max(most, pool._bytes)
        assert most <= WAITING_BYTES + 4 * 2**20


def test_no_process_is_left(tmp_path):
    with Pool(Work, (1,), 3) as pool:
        messages = pool.run(TASKS)
        next(messages)
        processes = [worker.process for worker in pool._workers]
    assert processes
    assert not any(process.is_alive() for process in processes)
