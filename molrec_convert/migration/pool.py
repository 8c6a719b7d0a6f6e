"""Tasks done by several processes, their messages handed out in the order of the tasks.

Whoever is ahead waits: what has been sent and is not yet wanted is bounded, so memory is. Processes are spawned; each
has a pipe of its own, and ends when that is closed, so none outlives the one that started it. One that is lost, killed
by the system or crashed, is replaced, and what it was doing is done again piece by piece, when there is a `Recovery`.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import io
import itertools
import multiprocessing
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn, Protocol

from molrec_convert.errors import MolrecError

__all__ = ["NotHere", "Pool", "Recovery", "WorkerLost", "ignore_sigint"]


@contextmanager
def ignore_sigint() -> Iterator[None]:
    """Yield an interrupt that comes meanwhile is raised afterwards; threads and processes started within never get one.

    They have this from their first moment: a process that is still loading its modules would end with a traceback.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # the first process brings this one along, which lets interrupts through when it is started
    resource_tracker.ensure_running()
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        # another thread may have taken it
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, signal.SIG_DFL if handler is None else handler)
        if came:
            signal.raise_signal(signal.SIGINT)


#: Bytes of messages that wait for their turn.
WAITING_BYTES = 64 * 2**20
#: Names of malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_READY, _MESSAGE, _END, _ERROR = b"r", b"m", b"e", b"x"


class WorkerLost(MolrecError):
    """A worker process ended in the middle of a task: killed, or crashed. `how` says it in words."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        self.how = "ended" if code is None or code >= 0 else f"was ended by {_signal_name(-code)}"
        super().__init__(f"a process that was reading {self.how}; the same command goes on from here")


class NotHere(Exception):
    """What was to be done in this process may end it; nothing of it was done."""


class Recovery(Protocol):
    """Follows one task, so that what is left of it can be done when its process is lost."""

    def saw(self, message: Any) -> None:
        """A message of the task is handed out."""

    def before(self) -> list[Any]:
        """Return messages that take back what was handed out of a piece that was not whole."""

    def rest(self) -> list[Any]:
        """Return what is left, in tasks of one piece each, which are done alone."""

    def failed(self, reason: str) -> Any:
        """Return the message that stands for the task, one piece, when it ends the process again."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: int | None = None
    #: Whether it began to work: what ends before is no fault of a task.
    ready: bool = False

    def end(self) -> None:
        """End the process, if it has not ended, and let go of it."""
        self.pipe.close()
        self.process.join(0.2 if self.task is None else 0)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()


@dataclass
class _Waiting:
    """What came of a task so far."""

    task: Any
    messages: deque[memoryview] = field(default_factory=deque)
    ended: bool = False
    lost: WorkerLost | None = None


class Pool:
    """Does tasks by `make(*arguments)(task)`, an iterable of messages, in up to `workers` processes.

    A process is started when there is something for it to do. With one worker everything is done in this process, to
    the same end, by what `here` makes; where that raises `NotHere` of a task, that and what follows are done by another
    one. `recovery` makes a `Recovery` of a task. A context manager, which ends the processes.
    """

    def __init__(
        self,
        make: Callable[..., Callable[[Any], Iterable[Any]]],
        arguments: tuple[Any, ...],
        workers: int,
        recovery: Callable[[Any], Recovery] | None = None,
        here: Callable[[], Callable[[Any], Iterable[Any]]] | None = None,
    ) -> None:
        self._here = functools.partial(make, *arguments) if here is None else here
        self._make, self._arguments, self._most, self._recovery = make, arguments, workers, recovery
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self._waiting: dict[int, _Waiting] = {}
        self._bytes = 0
        self._inline: Callable[[Any], Iterable[Any]] | None = None
        #: With one worker: whether that is another process.
        self._apart = False

    def run(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """Yield the messages of all tasks, task by task. Raises what a task raises.

        Where a process ends without a recovery, or before it begins to work, `WorkerLost` is raised.
        """
        left = iter(tasks)
        if self._most <= 1 and not self._apart:
            if self._inline is None:
                self._inline = self._here()
            for task in left:
                try:
                    yield from self._inline(task)
                except NotHere:
                    self._apart, self._inline = True, None
                    left = itertools.chain([task], left)
                    break
        yield from self._run(enumerate(left))

    def prepare(self) -> None:
        """Start all processes now, where there will be something to do for each of them."""
        while self._most > 1 and len(self._workers) < self._most:
            self._workers.append(self._start())

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.end()

    def _run(self, tasks: Iterator[tuple[int, Any]]) -> Iterator[Any]:
        turn = 0
        recovery: Recovery | None = None
        self._assign(tasks)
        while self._waiting:
            waiting = self._waiting[turn]
            if recovery is None and self._recovery is not None:
                recovery = self._recovery(waiting.task)
            while waiting.messages:
                data = waiting.messages.popleft()
                self._bytes -= len(data)
                message = pickle.loads(data)
                if recovery is not None:
                    recovery.saw(message)
                yield message
            if waiting.lost is not None:
                if recovery is None:
                    raise waiting.lost
                yield from self._recovered(recovery)
                waiting.ended = True
            if waiting.ended:
                del self._waiting[turn]
                turn, recovery = turn + 1, None
            else:
                self._receive(turn)
            self._assign(tasks)

    def _recovered(self, recovery: Recovery) -> Iterator[Any]:
        """Yield the messages of the rest of a task whose process was lost, while the others get nothing new to do."""
        yield from recovery.before()
        worker: _Worker | None = None
        try:
            for task in recovery.rest():
                worker = self._start() if worker is None else worker
                alone = self._alone(worker, task)
                while True:
                    try:
                        message = next(alone)
                    except StopIteration:
                        break
                    except WorkerLost as lost:
                        if worker is None or not worker.ready:
                            raise
                        assert self._recovery is not None
                        worker, message = None, self._recovery(task).failed(lost.how)
                    yield message
        finally:
            if worker is not None:
                worker.end()

    def _alone(self, worker: _Worker, task: Any) -> Iterator[Any]:
        try:
            worker.pipe.send_bytes(pickle.dumps(task))
            while True:
                data = worker.pipe.recv_bytes()
                kind, content = data[:1], data[1:]
                if kind == _MESSAGE:
                    yield pickle.loads(content)
                elif kind == _READY:
                    worker.ready = True
                elif kind == _END:
                    return
                else:
                    raise pickle.loads(content)
        except (EOFError, ConnectionError):
            self._lost(worker)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._make, self._arguments), daemon=True)
        with ignore_sigint(), _main_out_of_sight():
            process.start()
        theirs.close()
        return _Worker(process, ours)

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
            self._waiting[number] = _Waiting(task)
            self._hand(free, number, pickle.dumps(task))

    def _hand(self, free: _Worker | None, number: int, task: bytes) -> None:
        """Give a task to a worker, to a new one where that has ended while it had nothing to do."""
        worker = free
        while True:
            if worker is None:
                worker = self._start()
                self._workers.append(worker)
            try:
                worker.pipe.send_bytes(task)
            except OSError:
                self._workers.remove(worker)
                if worker is not free:
                    self._lost(worker)
                worker.end()
                worker = None
            else:
                worker.task = number
                return

    def _receive(self, turn: int) -> None:
        """Take in what was sent: from the one whose turn it is always, from the others while there is room."""
        listened = {
            worker.pipe: worker
            for worker in self._workers
            if worker.task is not None and (worker.task == turn or self._bytes <= WAITING_BYTES)
        }
        for pipe in wait(list(listened)):
            worker = listened[pipe]  # type: ignore[index]
            assert worker.task is not None
            waiting = self._waiting[worker.task]
            try:
                data = worker.pipe.recv_bytes()
            except (EOFError, OSError):
                self._workers.remove(worker)
                try:
                    self._lost(worker)
                except WorkerLost as lost:
                    if not worker.ready:
                        raise
                    waiting.lost = lost
                continue
            kind, content = data[:1], memoryview(data)[1:]
            if kind == _MESSAGE:
                waiting.messages.append(content)
                self._bytes += len(content)
            elif kind == _READY:
                worker.ready = True
            elif kind == _END:
                waiting.ended = True
                worker.task = None
            else:
                raise pickle.loads(content)

    def _lost(self, worker: _Worker) -> NoReturn:
        worker.process.join(5)
        code = worker.process.exitcode
        worker.end()
        raise WorkerLost(code)


def _work(pipe: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """A worker process: tasks in, messages out, until the pipe is closed."""
    # An interrupt from the keyboard reaches every process; the one that started us closes the pipe then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Threads that parse take turns with the one that encodes: at 5 ms a turn they wait for each other.
    sys.setswitchinterval(0.0005)
    _keep_memory()
    with suppress(EOFError, OSError, BrokenPipeError):
        try:
            work = make(*arguments)
            pipe.send_bytes(_READY)
            # Thousands of small objects a second, none of them in a cycle: looking for cycles is a tenth of the time.
            gc.freeze()
            gc.set_threshold(20_000, 20, 50)
            while True:
                task = pickle.loads(pipe.recv_bytes())
                for message in work(task):
                    buffer = io.BytesIO(_MESSAGE)
                    buffer.seek(len(_MESSAGE))
                    pickle.dump(message, buffer, protocol=5)
                    pipe.send_bytes(buffer.getbuffer())
                pipe.send_bytes(_END)
        except (EOFError, BrokenPipeError, ConnectionError):
            raise
        except Exception as error:
            pipe.send_bytes(_ERROR + _pickled(error))


def _keep_memory() -> None:
    """Memory of arrays that is let go of is kept for the next ones.

    The allocator of glibc hands large pieces back at once, and the system fills each page with zeros once more: a sixth
    of the time of a worker. Elsewhere nothing happens.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, nbytes in ((_TRIM_THRESHOLD, 2**26), (_MMAP_THRESHOLD, 2**25)):
            mallopt(parameter, nbytes)


@contextmanager
def _main_out_of_sight() -> Iterator[None]:
    """Yield a process that is started meanwhile does not load the program this one runs, of which it needs nothing."""
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {name: vars(main)[name] for name in ("__spec__", "__file__") if name in vars(main)}
    main.__spec__ = None
    vars(main).pop("__file__", None)
    try:
        yield
    finally:
        vars(main).update(hidden)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _pickled(error: Exception) -> bytes:
    try:
        return pickle.dumps(error)
    except Exception:  # an error of foreign code may hold anything
        return pickle.dumps(MolrecError(f"{type(error).__name__}: {error}"))
