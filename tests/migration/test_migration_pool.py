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


class Pieces:
    """Recovery of tasks that are lists of numbers."""

    def __init__(self, task) -> None:
        self.task, self.done = task, 0

    def saw(self, message):
        self.done += 1

    def before(self):
        return ["again"]

    def rest(self):
        return [[number] for number in self.task[self.done :]]

    def failed(self, reason):
        return f"{self.task[0]} {reason}"


class Numbers:
    """Numbers are their own messages; 13 kills."""

    def __call__(self, task):
        for number in task:
            if number == 13:
                os.kill(os.getpid(), signal.SIGKILL)
            yield number


@pytest.mark.parametrize("workers", [2, 3])
def test_what_a_lost_process_left_is_done_piece_by_piece(workers):
    tasks = [list(range(start, start + 5)) for start in range(0, 40, 5)]
    with Pool(Numbers, (), workers, Pieces) as pool:
        found = list(pool.run(tasks))
        assert len(pool._workers) <= workers
    assert found == [*range(13), "again", "13 was ended by SIGKILL", *range(14, 40)]


def test_a_process_killed_while_it_has_nothing_to_do_is_replaced():
    with Pool(Work, (10,), 2) as pool:
        first = list(pool.run(TASKS))
        for worker in pool._workers:
            os.kill(worker.process.pid, signal.SIGKILL)
            worker.process.join()
        assert list(pool.run(TASKS)) == first


class Broken:
    """Cannot begin."""

    def __init__(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def __call__(self, task):
        yield task


def test_a_process_that_cannot_begin_is_no_fault_of_a_task():
    with Pool(Broken, (), 2, Pieces) as pool, pytest.raises(WorkerLost, match="SIGKILL"):
        list(pool.run([[1], [2]]))
