"""Tasks done by several processes, their messages handed out in the order of the tasks.

Whoever is ahead waits: what has been sent and is not yet wanted is bounded, so memory is. Processes are spawned; each
has a pipe of its own, and ends when that is closed, so none outlives the one that started it.
"""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from molrec_convert.errors import MolrecError

__all__ = ["Pool", "WorkerLost"]

#: Bytes of messages that wait for their turn.
WAITING_BYTES = 64 * 2**20
_MESSAGE, _END, _ERROR = b"m", b"e", b"x"


class WorkerLost(MolrecError):
    """A worker process ended in the middle of a task: killed, or crashed."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        how = "ended" if code is None or code >= 0 else f"was ended by {signal.Signals(-code).name}"
        super().__init__(f"a process that was reading {how}; the same command goes on from here")


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: int | None = None


@dataclass
class _Waiting:
    """What came of a task so far."""

    messages: deque[bytes] = field(default_factory=deque)
    ended: bool = False


class Pool:
    """Does tasks by `make(*arguments)(task)`, an iterable of messages, in up to `workers` processes.

    A process is started when there is something for it to do. With one worker everything is done in this process, to
    the same end. A context manager, which ends the processes.
    """

    def __init__(self, make: Callable[..., Callable[[Any], Iterable[Any]]], arguments: tuple[Any, ...], workers: int):
        self._make, self._arguments, self._most = make, arguments, workers
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._waiting: dict[int, _Waiting] = {}
        self._bytes = 0
        self._inline: Callable[[Any], Iterable[Any]] | None = None

    def run(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """The messages of all tasks, task by task. Raises what a task raises, `WorkerLost` where its process ends."""
        if self._most <= 1:
            if self._inline is None:
                self._inline = self._make(*self._arguments)
            for task in tasks:
                yield from self._inline(task)
            return
        yield from self._run(enumerate(tasks))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, tasks: Iterator[tuple[int, Any]]) -> Iterator[Any]:
        turn = 0
        self._assign(tasks)
        while self._waiting:
            waiting = self._waiting[turn]
            while waiting.messages:
                message = waiting.messages.popleft()
                self._bytes -= len(message)
                yield pickle.loads(message)
            if waiting.ended:
                del self._waiting[turn]
                turn += 1
            else:
                self._receive(turn)
            self._assign(tasks)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._make, self._arguments), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker

    def _assign(self, tasks: Iterator[tuple[int, Any]]) -> None:
        """Give whoever is free something to do, unless too much waits already."""
        while not self._waiting or self._bytes <= WAITING_BYTES:
            free = next((worker for worker in self._workers if worker.task is None), None)
            if free is None and len(self._workers) == self._most:
                return
            following = next(tasks, None)
            if following is None:
                return
            number, task = following
            worker = free or self._start()
            worker.task = number
            self._waiting[number] = _Waiting()
            try:
                worker.pipe.send_bytes(pickle.dumps(task))
            except OSError:
                self._lost(worker)

    def _receive(self, turn: int) -> None:
        """Take in what was sent: from the one whose turn it is always, from the others while there is room."""
        listened = {
            worker.pipe: worker
            for worker in self._workers
            if worker.task is not None and (worker.task == turn or self._bytes <= WAITING_BYTES)
        }
        for pipe in wait(list(listened)):
            worker = listened[pipe]  # type: ignore[index]
            try:
                data = worker.pipe.recv_bytes()
            except (EOFError, OSError):
                self._lost(worker)
            assert worker.task is not None
            waiting = self._waiting[worker.task]
            kind, content = data[:1], data[1:]
            if kind == _MESSAGE:
                waiting.messages.append(content)
                self._bytes += len(content)
            elif kind == _END:
                waiting.ended = True
                worker.task = None
            else:
                raise pickle.loads(content)

    def _lost(self, worker: _Worker) -> None:
        worker.process.join(5)
        raise WorkerLost(worker.process.exitcode)

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(0.2 if worker.task is None else 0)
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join()


def _work(pipe: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """A worker process: tasks in, messages out, until the pipe is closed."""
    # An interrupt from the keyboard reaches every process; the one that started us closes the pipe then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Threads that parse take turns with the one that encodes: at 5 ms a turn they wait for each other.
    sys.setswitchinterval(0.0005)
    with suppress(EOFError, OSError, BrokenPipeError):
        try:
            work = make(*arguments)
            # Thousands of small objects a second, none of them in a cycle: looking for cycles is a tenth of the time.
            gc.freeze()
            gc.set_threshold(20_000, 20, 50)
            while True:
                task = pickle.loads(pipe.recv_bytes())
                for message in work(task):
                    pipe.send_bytes(_MESSAGE + pickle.dumps(message, protocol=5))
                pipe.send_bytes(_END)
        except (EOFError, BrokenPipeError, ConnectionError):
            raise
        except Exception as error:
            pipe.send_bytes(_ERROR + _pickled(error))


def _pickled(error: Exception) -> bytes:
    try:
        return pickle.dumps(error)
    except Exception:  # an error of foreign code may hold anything
        return pickle.dumps(MolrecError(f"{type(error).__name__}: {error}"))
