"""What is wrong with what an interruption left, and with what comes of it when the work is done again."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import molrec_convert
from crashes.replay import State, stored
from crashes.workloads import Workload
from molrec_convert.inspect.diff import collection_differences, differences
from molrec_convert.model.collection.collection import Collection

_STORES = (".mrec", ".mrec.zip", ".mrec.lmdb", ".db")


class Judge:
    """Judges the folders of one workload: `before` as it was prepared, `after` as the undisturbed work left it."""

    def __init__(self, workload: Workload, before: Path, after: Path) -> None:
        self.workload, self.before, self.after = workload, before, after
        self._trees = {path: stored(path) for path in (before, after)}

    def left(self, folder: Path, promised: int, *, finished: bool) -> list[str]:
        """Say what is wrong with what is in a folder after an interruption; `finished`: that came after the end."""
        tree = stored(folder)
        faults = []
        for target in self.workload.targets:
            if self.workload.check is not None:
                faults += _checked(self.workload.check, folder, promised)
            elif not _part(tree, target):
                if finished or _part(self._trees[self.before], target):
                    faults.append(f"{target} is gone")
            else:
                new = self._differs(tree, folder, self.after, target)
                if new and (finished or self._differs(tree, folder, self.before, target)):
                    faults.append(f"{target} is neither the old one nor the new one: {new[0]}")
        return faults

    def recovered(self, folder: Path, draw: random.Random) -> list[str]:
        """Do the work again in a folder, and say what is wrong with the result."""
        os.chdir(folder)
        try:
            code = self.workload.recover(draw)
        except Exception as error:
            return [f"doing it again fails: {type(error).__name__}: {error}"]
        if code:
            return [f"doing it again ends with {code}"]
        return self.complete(folder)

    def complete(self, folder: Path) -> list[str]:
        """Say in what a folder is not as the undisturbed work left it."""
        tree = stored(folder)
        faults = []
        for target in self.workload.targets:
            for line in self._differs(tree, folder, self.after, target):
                faults.append(f"{target} is not what it would be undisturbed: {line}")
        strange = sorted(path for path in tree if _hidden(path) and path not in self._trees[self.after])
        beside = {path for path in tree if "/" not in path} - set(self._trees[self.after])
        if strange or beside:
            faults.append(f"left behind: {', '.join([*sorted(beside), *strange][:4])}")
        return faults

    def _differs(self, tree: State, folder: Path, other: Path, target: str) -> list[str]:
        """Say in what a target differs from the one in another folder; no line for one that is the same."""
        theirs = _part(self._trees[other], target)
        if _part(tree, target) == theirs:
            return []
        if not theirs or not _part(tree, target):
            return ["there is none"]
        try:
            return _different(folder / target, other / target)
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]


def _checked(check: Callable[[Path, int], list[str]], folder: Path, promised: int) -> list[str]:
    try:
        return check(folder, promised)
    except Exception as error:
        return [f"cannot be read, {promised} promised: {type(error).__name__}: {error}"]


def _part(tree: State, target: str) -> State:
    """What a state has at and below a name."""
    return {path: content for path, content in tree.items() if path == target or path.startswith(f"{target}/")}


def _hidden(path: str) -> bool:
    return any(name.startswith(".") for name in path.split("/"))


def _different(a: Path, b: Path) -> list[str]:
    """Some logical differences of two results; others than ours have to be the same to the byte."""
    if not a.name.endswith(_STORES):
        return ["bytes differ"]
    with molrec_convert.read(a, verify=True) as ours, molrec_convert.read(b, verify=True) as theirs:
        if isinstance(ours, Collection) and isinstance(theirs, Collection):
            return list(islice(collection_differences(ours, theirs), 3))
        return list(islice(differences(ours, theirs), 3))
