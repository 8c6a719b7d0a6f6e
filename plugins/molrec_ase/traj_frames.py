"""Frames of ASE's `.traj` files, read from the ULM items, without `Atoms`.

A frame that has no header of its own has the first one's numbers, periodicity, masses and constraints. Source:
`ase.io.trajectory`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from molrec_ase.chunk import Part
from molrec_ase.constraints import modern
from molrec_ase.names import ATOM_RESULTS, RESULTS
from molrec_ase.parts import make_part
from molrec_ase.plain import parse_json
from molrec_ase.source import PartSource
from molrec_convert.errors import FormatError
from molrec_convert.report import Report

__all__ = ["open_frames"]

_HEADER = ("pbc", "numbers", "masses", "constraints")
_ARRAYS = {"tags": "tags", "momenta": "momenta", "magmoms": "initial_magmoms", "charges": "initial_charges"}
_RESULTS = ("forces", *ATOM_RESULTS, *RESULTS)


def open_frames(path: Path, report: Report) -> PartSource:
    """The frames of a file. FormatError where it is none, or breaks off; whole frames before that are kept."""
    from ase.io import ulm

    if path.stat().st_size == 0:
        raise FormatError(path, found="an empty file", expected="a trajectory of ASE")
    try:
        items = ulm.open(str(path), "r")
    except Exception as error:  # whatever ASE raises at bytes that are not its own
        raise FormatError(path, found=f"what is no ULM file ({error})", expected="a trajectory of ASE") from None
    if items.get_tag() != "ASE-Trajectory":
        items.close()
        raise FormatError(path, found=f"a ULM file of {items.get_tag()}", expected="a trajectory of ASE")
    count = _whole_frames(path, items, report)

    def make(number: int) -> Part:
        try:
            return _part(items, number, report)
        except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
            raise FormatError(path, f"frame {number}", found=f"a frame that is not ASE's ({error})") from None

    return PartSource(count, make, path=str(path), close=items.close)


def _whole_frames(path: Path, items: Any, report: Report) -> int:
    """How many frames are whole: of a file that is cut off those before the end."""
    total = len(items)
    count = total
    while count:
        try:
            # what describes an item stands behind its arrays
            items[count - 1]
            break
        except (ValueError, KeyError, OSError, EOFError, IndexError, OverflowError, MemoryError, AttributeError):
            pass
        count -= 1
    if count < total:
        if count == 0:
            raise FormatError(path, found="a file that breaks off in its first frame", expected=f"{total} frames")
        report.truncated(f"{path}: the file breaks off, of {total} frames {count} are whole")
    return count


def _part(items: Any, number: int, report: Report) -> Part:
    frame = items[number]
    head = frame if "numbers" in frame else items[0]
    arrays = {own: frame.get(name) for name, own in _ARRAYS.items() if frame.get(name) is not None}
    masses = head.get("masses")
    if masses is not None:
        arrays["masses"] = masses
    constraints = head.get("constraints", "[]")
    calculator, results = None, {}
    if "calculator" in frame:
        own = frame.calculator
        results = {name: own.get(name) for name in _RESULTS if name in own}
        calculator = (str(own.name), own.get("parameters", {}))
    return make_part(
        head.numbers,
        frame.positions,
        frame.get("cell", [[0.0] * 3] * 3),
        head.pbc,
        report=report,
        arrays=arrays,
        results=results,
        constraints=modern(parse_json(constraints) if isinstance(constraints, str) else constraints),
        calculator=calculator,
        info=frame.get("info") or {},
    )
