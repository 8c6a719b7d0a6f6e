"""A migration on Dask workers: here on the machine, or on many, of a scheduler that runs already.

Workers make partial collections of consecutive inputs on a path all of them share; here these go into the output in
the order of the inputs, as they are stored. A part that is whole is not made again by an attempt that goes on.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from molrec_convert._version import __version__
from molrec_convert.errors import MolrecError, UnsupportedError, UsageError
from molrec_convert.migration.engines.engine import Engine, EngineError, TaskRecovery
from molrec_convert.migration.engines.parts import Order, Place, check_place, look, make_part, part_file, read_part
from molrec_convert.migration.inputs.scan import Scan
from molrec_convert.migration.inputs.tasks import (
    Entry,
    Event,
    Failed,
    Frames,
    Restart,
    RowFailed,
    Task,
    TaskList,
    singles,
)
from molrec_convert.migration.pool import ignore_sigint
from molrec_convert.migration.settings import Settings, default_workers
from molrec_convert.stores.lmdb.reader import open_collection

__all__ = ["DaskEngine"]

#: A part is made of so many tasks, or of inputs of so many bytes.
_PART_TASKS, _PART_BYTES = 8, 32 * 2**20
#: Seconds until a scheduler that does not answer at first is given up, until one without workers is, and between looks
#: at it.
_ANSWER, _NOBODY, _PATIENCE = 5, 60, 2
#: Seconds until one that is not heard of any more is given up, or a worker: others may keep it busy.
_SILENCE = 60
#: How often it is greeted.
_GREETINGS = 5
#: Parts that may be ahead of the one that is due, beside two for each worker.
_AHEAD = 6
_GO_ON = "and run the same command, it goes on from here"
_LOST = "was ended each time it was started again"


@dataclass(frozen=True)
class _Job:
    """What is asked of a worker, and the inputs it is for."""

    order: Order
    first: int
    last: int


class DaskEngine(Engine):
    """Workers of the scheduler at an address (`tcp://host:8786`), or, without one, `workers` processes of our own.

    What a lost worker was doing is begun anew elsewhere, as often as the scheduler allows
    (`distributed.scheduler.allowed-failures`); inputs of a task that is given up are read once more, one by one, and
    one that is given up alone is at fault.
    """

    def __init__(self, scheduler: str | None = None, workers: int | None = None) -> None:
        self.scheduler = scheduler
        self._count = default_workers() if workers is None else workers
        self._settings = Settings()
        self._cluster: Any = None
        self._client: Any = None
        self._place: Place | None = None
        self._token = uuid.uuid4().hex
        self._levels: dict[str, int] = {}
        self._nobody_since: float | None = None

    def begin(self, settings: Settings) -> None:
        """See `Engine.begin`. Dask is loaded now, and a scheduler looked for when there is something to do.

        Raises `UsageError` for what is no address of a scheduler.
        """
        _distributed()
        if self.scheduler is not None:
            _check_address(self.scheduler)
        self._settings = settings

    def scan(self, tasks: TaskList, folder: Path | None) -> Iterator[Scan]:
        """See `Engine.scan`."""
        place = self._at_work(None if folder is None else _parts(folder))
        jobs = (self._job(place, group, None) for group in _grouped(tasks.since()))
        for job, scans in self._results(jobs, look):
            if scans is None:
                scans = self._looked_at_alone(job)
            yield from scans

    def encode(
        self, tasks: TaskList, first: int, skip: int, folder: Path, safe: Callable[[], int]
    ) -> Iterator[list[Event]]:
        """See `Engine.encode`. Parts are in a directory `parts` of the folder until what is in them is safe."""
        parts = _parts(folder)
        place = self._at_work(parts)
        _sweep(parts, {job.order.name for job in self._jobs(place, tasks, first)} | {place.mark})
        left = _Left(first, skip)
        merged: deque[tuple[int, Path]] = deque()
        for job, made in self._results(self._jobs(place, tasks, first), make_part, parts):
            for one, name in [(job, made)] if made is not None else self._alone(job, tasks, make_part, parts):
                if name is None:
                    yield TaskRecovery(one.order.tasks[0]).failed(_LOST)
                    continue
                path = _seen(parts / name)
                for message in read_part(path):
                    yield left.of(message)
                merged.append((one.last, path))
            while merged and merged[0][0] < safe():
                merged.popleft()[1].unlink(missing_ok=True)

    def close(self) -> None:
        """See `Engine.close`."""
        for closing in (self._client, self._cluster):
            if closing is not None:
                # a scheduler that is silent does not keep us
                with suppress(OSError, TimeoutError):
                    closing.close(timeout=_ANSWER)
        self._client = self._cluster = None
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)
        if self._place is not None and self._place.folder is not None:
            Path(self._place.folder, self._place.mark).unlink(missing_ok=True)

    def _jobs(self, place: Place, tasks: TaskList, first: int) -> Iterator[_Job]:
        """Yield the parts of all inputs, the same in every attempt; those that are done already left out."""
        for group in _grouped(tasks.since()):
            if group[-1].first + len(group[-1].paths) > first:
                yield self._job(place, group, tasks)

    def _job(self, place: Place, group: list[Task], tasks: TaskList | None) -> _Job:
        """Return a job, and what the name of the part that comes of it begins with: it says what the part was made
        of.
        """
        last = group[-1].first + len(group[-1].paths) - 1
        name = ""
        if tasks is not None:
            stamps = list(tasks.table.stamps[group[0].first : last + 1])
            facts = [__version__, self._settings.facts(), [astuple(task) for task in group], stamps]
            digest = hashlib.blake2b(json.dumps(facts, default=dict).encode("utf-8", "surrogateescape"), digest_size=12)
            name = f"{group[0].first:09d}-{digest.hexdigest()}"
        return _Job(Order(place, self._settings, tuple(group), name), group[0].first, last)

    def _at_work(self, parts: Path | None) -> Place:
        """Return everything that is needed: the scheduler answers, and its workers can do what is asked of them."""
        if self._client is None:
            self._connect()
        mark = ""
        if parts is not None:
            mark = f".mark-{self._token}"
            (parts / mark).touch()
        self._place = Place(__version__, os.getcwd(), None if parts is None else os.fspath(parts), mark)
        try:
            answers = self._client.run(check_place, self._place, on_error="return", callback_timeout=_SILENCE)
        except TimeoutError:
            again = "end what is stuck, and run the same command"
            silent = ", ".join(self._silent()) or "not known which"
            raise EngineError(
                f"not all workers of {self._name} answer within {_SILENCE} s ({silent}): {again}"
            ) from None
        except Exception as error:
            raise EngineError(f"the workers of {self._name} do not answer: {error}") from None
        lost = {address for address, answer in answers.items() if isinstance(answer, OSError)}
        for address, answer in answers.items():
            if isinstance(answer, EngineError):
                raise answer
            if isinstance(answer, BaseException) and address not in lost:
                what = f"{type(answer).__name__}: {answer}"
                raise EngineError(f"a worker of {self._name} cannot load molrec-convert {__version__}: {what}")
        # one that was lost just now is no worker any more
        for address in sorted(lost & self._asked("workers").keys()):
            again = "end it, and run the same command"
            raise EngineError(f"the worker at {address} of {self._name} does not answer: {again}")
        return self._place

    def _connect(self) -> None:
        distributed = _distributed()
        # what is wrong is said by us, once
        for name in ("distributed", "distributed.client", "distributed.core", "distributed.comm", "distributed.worker"):
            logger = logging.getLogger(name)
            self._levels[name] = logger.level
            logger.setLevel(logging.CRITICAL + 1)
        if self.scheduler is None:
            with ignore_sigint():
                self._cluster = distributed.LocalCluster(
                    n_workers=self._count,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    security=_security(),
                    silence_logs=logging.CRITICAL + 1,
                )
        target = self._cluster if self.scheduler is None else self.scheduler
        try:
            self._client = _connected(target)
        except (OSError, ValueError, TypeError, MemoryError) as error:
            # without a certificate `tls` is a TypeError
            reason = "" if isinstance(error, (OSError, MemoryError)) else f" ({error})"
            raise EngineError(f"no scheduler answers at {self.scheduler} within {_ANSWER} s{reason}") from None
        self._nobody_since = None
        while not self._has_workers(_ANSWER, "and run the same command"):
            time.sleep(0.1)

    @property
    def _name(self) -> str:
        return "the cluster on this machine" if self.scheduler is None else f"the scheduler at {self.scheduler}"

    def _results(
        self, jobs: Iterable[_Job], work: Callable[[Order], Any], parts: Path | None = None
    ) -> Iterator[tuple[_Job, Any]]:
        """Yield what the workers answer, job by job in their order; None where those that did one were lost every
        time.
        """
        following = iter(jobs)
        ahead: deque[tuple[_Job, str | None, Any]] = deque()
        while True:
            most = _AHEAD + 2 * self._workers()
            while len(ahead) < most:
                job = next(following, None)
                if job is None:
                    break
                name = _whole_part(parts, job)
                ahead.append((job, name, self._submit(work, job) if name is None else None))
            if not ahead:
                return
            job, name, future = ahead.popleft()
            answer = name if future is None else self._result(future)
            if answer is None:
                # what is tried again is alone on all workers, so that nothing else is blamed for it
                self._wait([waiting for *_, waiting in ahead if waiting is not None])
            yield job, answer

    def _submit(self, work: Callable[[Order], Any], job: _Job) -> Any:
        key = f"mrec-{work.__name__}-{job.first}-{uuid.uuid4().hex}"
        return self._client.submit(work, job.order, pure=False, key=key, priority=-job.first)

    def _result(self, future: Any) -> Any:
        """Return what came of a task; None where the workers that did it were lost every time."""
        distributed = _distributed()
        try:
            while True:
                try:
                    return future.result(timeout=_PATIENCE)
                except TimeoutError:
                    if future.done():
                        raise
                self._has_workers(_NOBODY, _GO_ON)
        except distributed.scheduler.KilledWorker:
            return None
        except distributed.CancelledError:
            raise self._gone() from None
        finally:
            future.release()

    def _wait(self, futures: Sequence[Any]) -> None:
        """Until all of them have ended, well or not."""
        while not all(future.done() for future in futures):
            time.sleep(0.1)
            self._has_workers(_NOBODY, _GO_ON)

    def _has_workers(self, patience: float, again: str) -> bool:
        """True if somebody does what there is to do. Raises `EngineError` where nobody did for so many seconds."""
        workers = self._asked("workers").values()
        # one without memory takes nothing up, and goes on with what it has begun
        if any(worker["status"] == "running" or worker["metrics"].get("executing") for worker in workers):
            self._nobody_since = None
            return True
        now = time.monotonic()
        self._nobody_since = self._nobody_since or now
        if now - self._nobody_since <= patience:
            return False
        if any(worker["status"] == "paused" for worker in workers):
            raise EngineError(f"the workers of {self._name} are short of memory: give them more, {again}")
        raise EngineError(f"{self._name} has no worker: start some, {again}")

    def _silent(self) -> list[str]:
        """Return workers the scheduler has not heard of for long, while it heard of others."""
        seen = {address: worker["last_seen"] for address, worker in self._asked("workers").items()}
        newest = max(seen.values(), default=0.0)
        return sorted(address for address, last in seen.items() if newest - last > _SILENCE / 2)

    def _workers(self) -> int:
        """Return how many workers there are. Raises `EngineError` where the scheduler does not answer."""
        return len(self._asked("workers"))

    def _asked(self, what: str) -> Any:
        """Return what the scheduler says of itself. Raises `EngineError` where it does not answer."""
        try:
            if self._client.status == "running":
                return self._client.sync(self._client.scheduler.identity, callback_timeout=_SILENCE)[what]
        except (OSError, TimeoutError):
            pass
        raise self._gone()

    def _gone(self) -> EngineError:
        return EngineError(f"{self._name} does not answer any more; the same command goes on from here")

    def _looked_at_alone(self, job: _Job) -> Iterator[Scan]:
        for one, scans in self._alone(job, None, look):
            yield from [TaskRecovery(one.order.tasks[0]).failed(_LOST)] if scans is None else scans

    def _alone(
        self, job: _Job, tasks: TaskList | None, work: Callable[[Order], Any], parts: Path | None = None
    ) -> Iterator[tuple[_Job, Any]]:
        """Yield the inputs of a job one by one."""
        for task in job.order.tasks:
            for single in singles(task, task.first, task.skip):
                one = self._job(job.order.place, [single], tasks)
                name = _whole_part(parts, one)
                yield one, self._result(self._submit(work, one)) if name is None else name


class _Left:
    """Events without those of inputs before `first`, and of the first `skip` records of that."""

    def __init__(self, first: int, skip: int) -> None:
        self._first, self._skip = first, skip

    def of(self, message: list[Event]) -> list[Event]:
        """Return what is left of a message."""
        return [event for event in message if self._keeps(event)]

    def _keeps(self, event: Event) -> bool:
        if event.input == self._first and self._skip and isinstance(event, (Entry, Frames, RowFailed)):
            self._skip -= not isinstance(event, Frames)
            return False
        if event.input == self._first and isinstance(event, (Failed, Restart)):
            self._skip = 0
        return event.input >= self._first


def _grouped(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Yield consecutive tasks that are done as one."""
    group: list[Task] = []
    size = 0
    for task in tasks:
        nbytes = sum(task.sizes)
        if group and (len(group) == _PART_TASKS or size + nbytes > _PART_BYTES):
            yield group
            group, size = [], 0
        group.append(task)
        size += nbytes
    if group:
        yield group


def _whole_part(parts: Path | None, job: _Job) -> str | None:
    """Return the name of the part of a job an earlier attempt made; what is not as it was made is removed."""
    for path in [] if parts is None else sorted(parts.glob(f"{job.order.name}.*")):
        try:
            if part_file(job.order.name, path) == path.name:
                open_collection(path, verify=True).close()
                return path.name
        except (MolrecError, OSError):
            pass
        path.unlink(missing_ok=True)
    return None


def _seen(path: Path) -> Path:
    """Return a part that a worker says is there: on a path that is shared it may take a moment until it is seen
    here.
    """
    end = time.monotonic() + _ANSWER
    while not path.exists():
        if time.monotonic() > end:
            raise EngineError(f"a worker has written {path}, which is not seen here: the path is not shared")
        os.listdir(path.parent)
        time.sleep(0.05)
    return path


def _parts(folder: Path) -> Path:
    """Return where parts lie."""
    parts = folder / "parts"
    parts.mkdir(exist_ok=True)
    return parts


def _sweep(parts: Path, wanted: set[str]) -> None:
    """Remove what earlier attempts left and nobody wants any more."""
    for entry in parts.iterdir():
        if entry.name not in wanted and entry.name.partition(".")[0] not in wanted:
            entry.unlink(missing_ok=True)


def _check_address(address: str) -> None:
    """Dask itself would try an address that is none again and again, and say so on standard error."""
    from distributed.comm.addressing import parse_address, parse_host_port
    from distributed.comm.registry import backends

    try:
        scheme, place = parse_address(address)
        _, port = parse_host_port(place)
    except ValueError:
        scheme, port = "", 0
    if scheme not in backends or not 0 < port < 2**16:
        raise UsageError(f"{address!r} is no address of a Dask scheduler: expected tcp://HOST:PORT")


def _connected(target: Any) -> Any:
    """Return a client. A scheduler whose greeting comes together with another message is asked again.

    `distributed.client.Client` asserts that it comes alone, which on a busy scheduler it does not always.
    """
    for _ in range(_GREETINGS):
        with suppress(AssertionError):
            return _client_class()(target, timeout=_ANSWER, set_as_default=False)
    raise TimeoutError


def _client_class() -> Any:
    """Return dask's client; one that did not come about is forgotten without a word on standard error."""

    class Client(_distributed().Client):  # type: ignore[misc]
        def __del__(self) -> None:
            with suppress(Exception):
                super().__del__()

    return Client


def _security() -> Any:
    """Return certificates for a cluster of our own, which only its client has; None without the library for them.

    What answers on a port runs what it is sent, and every user of a machine reaches its loopback.
    """
    try:
        return _distributed().security.Security.temporary()
    except ImportError:
        return None


def _distributed() -> Any:
    try:
        import distributed
        import distributed.scheduler
        import distributed.security
    except ModuleNotFoundError:
        raise UnsupportedError(
            "the engine dask needs Dask's distributed, which is not installed: pip install 'molrec-convert[dask]'"
        ) from None
    return distributed
