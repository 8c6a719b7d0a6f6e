"""Many interruptions of one workload, counted; what came out wrong is told."""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crashes import replay, shim
from crashes.judging import Judge
from crashes.trials import Outcome, apart, worked
from crashes.workloads import CARELESS, WORKLOADS, WRITTEN_IN_PLACE

#: Calls that fail: which ones are counted, the code, and whether those after it fail as well.
FAILURES = {
    "a full disk": (shim.FAIL_FROM, shim.ROOM, errno.ENOSPC),
    "a full disk, for a moment": (shim.FAIL, shim.ROOM, errno.ENOSPC),
    "a quota": (shim.FAIL_FROM, shim.ROOM, errno.EDQUOT),
    "a failing disk": (shim.FAIL_FROM, shim.ANY, errno.EIO),
    "a call that failed": (shim.FAIL, shim.ANY, errno.EIO),
    "a short write": (shim.SHORT, shim.WRITES, 0),
    "short writes": (shim.SHORT_FROM, shim.WRITES, 0),
}


@dataclass
class Counts:
    """How many interruptions there were, how many different states they left, and in words what was wrong."""

    tried: int = 0
    distinct: int = 0
    wrong: int = 0
    faults: dict[str, int] = field(default_factory=dict)

    def add(self, faults: list[str], where: str) -> None:
        """Count one interruption."""
        self.tried += 1
        if faults:
            self.wrong += 1
            text = re.sub(r"\s+", " ", f"{faults[0]} ({where})")
            like = re.sub(r"\d+", "#", text)
            known = next((told for told in self.faults if re.sub(r"\d+", "#", told) == like), text)
            self.faults[known] = self.faults.get(known, 0) + 1


class Experiment:
    """A workload in a folder of its own: prepared, and done once without an interruption."""

    def __init__(self, name: str, folder: Path) -> None:
        self.workload = WRITTEN_IN_PLACE if name == CARELESS else WORKLOADS[name]
        self.draw = random.Random()
        self.folder = folder / name
        self.place = self.folder / "w"
        self.before, self.after = self.folder / "before", self.folder / "after"
        self.before.mkdir(parents=True)
        _sound(apart(lambda: self.workload.prepare(self.before)), f"{name}: prepare")
        shutil.copytree(self.before, self.after)
        outcome = _sound(worked(self.workload.run, self.after, shim.COUNT), f"{name}: run")
        load(outcome.modules)
        self.counts = outcome.counts
        self.judge = Judge(self.workload, self.before, self.after)

    def kills(self, most: int) -> Counts:
        """Kill before operations, and in the middle of writes, at up to so many points in all."""
        counts = Counts()
        points = [(mode, at) for mode in (shim.KILL, shim.TEAR) for at in range(1, self.counts[shim.ANY] + 1)]
        seen: set[bytes] = set()
        for mode, at in sorted(self.draw.sample(points, min(most, len(points)))):
            outcome = self._again(mode, at=at)
            if not outcome.signal and not outcome.code:
                continue  # threads: it had ended before
            where = f"{'killed before' if mode == shim.KILL else 'torn at'} operation {at}"
            seen.add(replay.digest(replay.stored(self.place)))
            counts.add(self._judged(self.place, outcome.promised, finished=False), where)
        counts.distinct = len(seen)
        return counts

    def failing(self, most: int) -> Counts:
        """Have calls fail, and writes be short, at up to so many points for each way of failing."""
        counts = Counts()
        for words, (mode, kind, code) in FAILURES.items():
            points = range(1, self.counts[kind] + 1)
            for at in sorted(self.draw.sample(points, min(most, len(points)))):
                outcome = self._again(mode, kind=kind, at=at, code=code)
                finished = not outcome.code and not outcome.signal
                faults = self._told(outcome)
                faults += self._judged(self.place, outcome.promised, finished=finished)
                counts.add(faults, f"{words} at operation {at}")
        counts.distinct = counts.tried
        return counts

    def power(self, states: int, *, guard: bool, again: int = 1) -> Counts:
        """Draw states of a disk whose power went: two thirds while the work was done, one third afterwards.

        In one of `again` different states the work is done again, which takes longer than looking at what is there.
        """
        operations, inodes = self._logged()
        disk = replay.Disk(replay.stored(self.before), inodes, operations)
        assert disk.whole() == replay.stored(self.place), "the replay of the log is not what was written"
        changes = (replay.RENAME, replay.SWAP, replay.UNLINK, replay.SYNC, replay.MARK)
        points = [at + 1 for at, operation in enumerate(operations) if operation.op in changes]
        counts, judged = Counts(), dict[tuple[bytes, int, bool], list[str]]()
        for number in range(states):
            end = len(operations)
            if number % 3:
                end = self.draw.choice([self.draw.randint(0, end), self.draw.choice(points)])
            marks = [operation.path for operation in operations[:end] if operation.op == replay.MARK]
            finished, promised = "done" in marks, max([int(m) for m in marks if m != "done"], default=0)
            state = disk.state(end, self.draw, guard=guard)
            key = replay.digest(state), promised, finished
            if key not in judged:
                replay.make(state, self.place, self.before)
                recover = not len(judged) % again
                judged[key] = self._judged(self.place, promised, finished=finished, recover=recover)
            counts.add(judged[key], f"{'after the end' if finished else f'after operation {end}'}, guard {guard}")
        counts.distinct = len(judged)
        return counts

    def _logged(self) -> tuple[list[replay.Operation], dict[str, int]]:
        """What the work does, and the inodes of the files that were there before."""
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        self._fresh()
        inodes = replay.inodes(self.place)
        _sound(worked(self.workload.run, self.place, shim.LOG, log=log), self.workload.name)
        return replay.read_log(log, self.place), inodes

    def _fresh(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.before, self.place)

    def _again(self, mode: int, **armed: Any) -> Outcome:
        """Do the work from the start, with an interruption."""
        self._fresh()
        return worked(self.workload.run, self.place, mode, **armed)

    def _judged(self, place: Path, promised: int, *, finished: bool, recover: bool = True) -> list[str]:
        """Say what is wrong with a state, and, with `recover`, with what comes of it."""
        seed = self.draw.random()

        def judge() -> list[str]:
            faults = self.judge.left(place, promised, finished=finished)
            if not faults and recover:
                faults = self.judge.recovered(place, random.Random(seed))
            return faults

        outcome = apart(judge)
        if outcome.signal:
            return [f"reading it ends by signal {outcome.signal}"]
        if outcome.raised:
            return [f"{outcome.raised}"]
        if outcome.result:
            return [f"{outcome.result[0]}{_last_line(outcome.said)}", *outcome.result[1:]]
        return []

    def _told(self, outcome: Outcome) -> list[str]:
        """Say what is wrong with how work ended whose calls failed: an error is a sentence that names a place."""
        if outcome.signal:
            return [f"ended by signal {outcome.signal}"]
        if not self.workload.command:
            return [] if not outcome.raised or outcome.expected else [f"raised {outcome.raised}"]
        if outcome.raised:
            return [f"raised {outcome.raised}"]
        if not outcome.code:
            return []
        # both standard streams come by one pipe, what is printed perhaps after what is complained of
        lines = outcome.said.strip().splitlines()
        said = [line for line in lines if line.startswith("mrec: ")][-1:] or lines[-1:] or [""]
        if outcome.code not in (1, 4):
            return [f"ended with {outcome.code}: {said[0]}"]
        if any(words in outcome.said for words in ("please report it", "Traceback", "Exception ignored")):
            return [f"not a sentence: {said[0]}"]
        folders = {target.split("/")[0] for target in self.workload.targets}
        if not any(name in outcome.said for name in (str(self.place), *folders)):
            return [f"names no file: {said[0]}"]
        if ";" not in said[0] and ": see " not in said[0]:
            return [f"says no next step: {said[0]}"]
        return []


def load(modules: list[str]) -> None:
    """Import modules here, so that processes that are forked off have them."""
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _sound(outcome: Outcome, what: str) -> Outcome:
    assert outcome.signal == outcome.code == 0, f"{what} failed: {outcome.raised} {outcome.said}"
    return outcome


def _last_line(said: str) -> str:
    lines = said.strip().splitlines()
    return f": {lines[-1]}" if lines else ""


#: What can be asked for.
_KINDS: dict[str, Callable[..., Counts]] = {
    "kills": Experiment.kills,
    "failing": Experiment.failing,
    "power": Experiment.power,
}


def run(kind: str, name: str, folder: Path, seed: int, **how: Any) -> dict[str, Any]:
    """Do one experiment and return its counts."""
    experiment = _prepared(name, folder)
    experiment.draw = random.Random(f"{kind} {name} {seed}")
    return asdict(_KINDS[kind](experiment, **how))


@functools.lru_cache(maxsize=1)
def _prepared(name: str, folder: Path) -> Experiment:
    """Prepare a workload; what is asked of the same one next finds it prepared."""
    shutil.rmtree(folder, ignore_errors=True)
    return Experiment(name, folder)
