"""What a Dask worker does: looks at inputs, or makes a partial collection of some on the shared path.

A task may run more than once, in part, or twice at a time: a part is made in the worker's own scratch directory, copied
to the shared path under a name nobody else has, and takes its own name in one step.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from molrec_convert._version import __version__
from molrec_convert.files import disk
from molrec_convert.migration.engines.engine import EngineError
from molrec_convert.migration.engines.parts import write_part
from molrec_convert.migration.engines.worker import Worker
from molrec_convert.migration.inputs.scan import Scan
from molrec_convert.migration.inputs.tasks import Task
from molrec_convert.migration.settings import Settings
from molrec_convert.stores.lmdb.manifest import file_checksum

__all__ = ["Order", "Place", "check_place", "look", "make_part", "part_file"]

#: Tasks of one process take turns: they share its working directory.
_turn = threading.Lock()
_last: tuple[Settings, Worker] | None = None


@dataclass(frozen=True)
class Place:
    """Where a migration runs: version of the package, working directory, the folder all workers share and its mark.

    Without a folder nothing is written, and none has to be shared.
    """

    version: str
    working: str
    folder: str | None = None
    mark: str = ""


@dataclass(frozen=True)
class Order:
    """Some tasks for one worker, where, and what the name of the part they become begins with (`part_file`)."""

    place: Place
    settings: Settings
    tasks: tuple[Task, ...]
    name: str = ""


def check_place(place: Place) -> None:
    """Refuse a worker that cannot do what is asked of it. Raises `EngineError`."""
    who = f"the worker on {os.uname().nodename} (process {os.getpid()})"
    if place.version != __version__:
        raise EngineError(f"{who} has molrec-convert {__version__} and not {place.version}: install the same there")
    if not os.path.isdir(place.working):
        raise EngineError(f"{who} does not see the directory {place.working}: inputs are named from there")
    if place.folder is None:
        return
    if not os.path.exists(os.path.join(place.folder, place.mark)):
        raise EngineError(f"{who} does not see {place.folder}: the output lies on a path all workers share")
    if not os.access(place.folder, os.W_OK):
        raise EngineError(f"{who} cannot write to {place.folder}: partial collections are put there")


def look(order: Order) -> list[Scan]:
    """What the inputs of all tasks hold."""
    with _working(order) as work:
        return [scan for task in order.tasks for scan in work(task)]


def make_part(order: Order) -> str:
    """Make the partial collection of all tasks; returns its name."""
    folder = order.place.folder
    goal = order.tasks[0].goal
    assert folder is not None
    assert goal is not None
    with _working(order) as work, tempfile.TemporaryDirectory(prefix="mrec-", dir=_scratch()) as scratch:
        made = Path(scratch, "part.mrec.lmdb")
        write_part(made, (message for task in order.tasks for message in work(task)), goal)
        name = part_file(order.name, made)
        _publish(made, Path(folder, name))
    return name


def part_file(begins: str, path: Path) -> str:
    """Return the name of a part that lies at a path: it says what it was made of, and the checksum of the file."""
    return f"{begins}.{file_checksum(path)}.mrec.lmdb"


def _publish(made: Path, target: Path) -> None:
    """Copy a file to the shared path, where it has its name when it is whole and on disk."""
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        shutil.copyfile(made, partial)
        disk.sync(partial)
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def _working(order: Order) -> Iterator[Worker]:
    """The worker of this process, in the directory paths are named from."""
    global _last
    check_place(order.place)
    with _turn:
        if _last is None or _last[0] != order.settings:
            _last = order.settings, Worker(order.settings)
        before = os.getcwd()
        os.chdir(order.place.working)
        try:
            yield _last[1]
        finally:
            os.chdir(before)


def _scratch() -> str | None:
    """The directory a worker keeps files of its own in; None where it is the system's."""
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:
        return None
