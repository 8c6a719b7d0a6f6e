"""What programs write into the second line of plain files, as far as it is sure: steps and times.

Sources: LAMMPS manual, "dump xyz"; CP2K manual, "PRINT%TRAJECTORY"; i-PI manual, "properties and trajectories"; the
readme of QM9 (Ramakrishnan et al. 2014).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from molrec_convert.model import MetaDeclaration
from molrec_xyz.per_step import PerStep

__all__ = ["comment_facts", "extra_names", "is_lammps", "is_of_names", "states_facts"]

_LAMMPS = re.compile(r"\s*Atoms(?:\. Timestep: (-?[0-9]+))?\s*")
_CP2K = re.compile(r"\s*i\s*=\s*([0-9]+),\s*time\s*=\s*([-+.0-9Ee]+)(?:,\s*E\s*=\s*([-+.0-9Ee]+))?.*")
_IPI = re.compile(r"\s*#\s*CELL.*\bStep:\s*([0-9]+).*")
_QM9 = re.compile(r"gdb\s+[0-9]+\s")

Reading = tuple[re.Pattern[str], dict[str, tuple[int, Callable[[str], Any]]]]
_READINGS: tuple[Reading, ...] = (
    (_LAMMPS, {"step": (1, int)}),
    (_CP2K, {"step": (1, int), "time": (2, float)}),
    (_IPI, {"step": (1, int)}),
)


def is_lammps(comment: str) -> bool:
    """Whether a frame is from a LAMMPS dump, whose numbers for species are types."""
    return _LAMMPS.fullmatch(comment) is not None


def is_of_names(comment: str) -> bool:
    """Whether a frame is from a program that writes names of atoms, not elements."""
    return "Written by MDAnalysis" in comment


def states_facts(comment: str) -> bool:
    """Whether a frame is from a program that writes its step or time, or other columns than it names."""
    return any(pattern.fullmatch(comment) for pattern, _ in _READINGS) or bool(extra_names(comment))


def extra_names(comment: str) -> Sequence[str]:
    """Names of the columns behind the fourth, where the program that wrote the file is known."""
    return ("charge",) if _QM9.match(comment) else ()


def comment_facts(comments: Mapping[int, str], frames: int) -> dict[str, PerStep]:
    """Steps and times that the second lines of all frames state in the words of one program."""
    if len(comments) != frames or not frames:
        return {}
    texts = [comments[frame] for frame in range(frames)]
    for pattern, names in _READINGS:
        if not pattern.fullmatch(texts[0]):
            continue
        matches = [pattern.fullmatch(text) for text in texts]
        facts = {}
        for name, (group, kind) in names.items():
            words = [None if match is None else match[group] for match in matches]
            try:
                values = [kind(word) for word in words if word is not None]
            except ValueError:
                continue
            if len(values) == frames and all(-(2**63) <= value < 2**63 for value in values):
                tag, dtype = ("i64", np.int64) if kind is int else ("f64", np.float64)
                facts[name] = PerStep(MetaDeclaration(tag), np.array(values, dtype=dtype))
        return facts
    return {}
