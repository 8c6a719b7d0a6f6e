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
from molrec_ase.ulm import BreaksOff, StoredArray, UlmFile
from molrec_convert.errors import FormatError
from molrec_convert.report import Report

__all__ = ["open_frames"]

_HEADER = ("pbc", "numbers", "masses", "constraints")
_ARRAYS = {"tags": "tags", "momenta": "momenta", "magmoms": "initial_magmoms", "charges": "initial_charges"}
_RESULTS = ("forces", *ATOM_RESULTS, *RESULTS)


def open_frames(path: Path, report: Report) -> PartSource:
    """The frames of a file. FormatError where it is none, or breaks off; whole frames before that are kept."""
    if path.stat().st_size == 0:
        raise FormatError(path, found="an empty file", expected="a trajectory of ASE")
    items = UlmFile(path)
    try:
        if items.tag != "ASE-Trajectory":
            raise FormatError(path, found=f"a ULM file of {items.tag}", expected="a trajectory of ASE")
        count = _whole_frames(path, items, report)
    except BaseException:
        items.close()
        raise

    def make(number: int) -> Part:
        try:
            return _part(items, number, report)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise FormatError(path, f"frame {number}", found=f"a frame that is not ASE's ({_told(error)})") from None

    return PartSource(count, make, path=str(path), close=items.close)


def _told(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _whole_frames(path: Path, items: UlmFile, report: Report) -> int:
    """How many frames are whole: of a file that is cut off those before the end."""
    total = count = len(items)
    while count:
        try:
            # what describes an item stands behind its arrays
            items.item(count - 1)
            break
        except BreaksOff:
            count -= 1
        except (ValueError, TypeError, OverflowError):
            break  # whoever reads it is told
    if count < total:
        if count == 0:
            raise FormatError(path, found="a file that breaks off in its first frame", expected=f"{total} frames")
        report.truncated(f"{path}: the file breaks off, of {total} frames {count} are whole")
    report.carried("trajectory", f"{count} frames")
    return count


def _part(items: UlmFile, number: int, report: Report) -> Part:
    frame = items.item(number)
    head = frame if "numbers" in frame else items.item(0)
    arrays = {own: _value(frame[name]) for name, own in _ARRAYS.items() if frame.get(name) is not None}
    masses = head.get("masses")
    if masses is not None:
        arrays["masses"] = _value(masses)
    constraints = _value(head.get("constraints", "[]"))
    calculator, results = None, {}
    if "calculator" in frame:
        own = frame["calculator"]
        results = {name: _value(own[name]) for name in _RESULTS if name in own}
        calculator = (str(own["name"]), _value(own.get("parameters", {})))
    return make_part(
        _value(head["numbers"]),
        _value(frame["positions"]),
        _value(frame.get("cell", [[0.0] * 3] * 3)),
        _value(head["pbc"]),
        report=report,
        arrays=arrays,
        results=results,
        constraints=modern(parse_json(constraints) if isinstance(constraints, str) else constraints),
        calculator=calculator,
        info=_value(frame.get("info") or {}),
    )


def _value(value: Any) -> Any:
    """A value of an item, arrays in it read."""
    if isinstance(value, StoredArray):
        return value.read()
    return {name: _value(part) for name, part in value.items()} if isinstance(value, dict) else value
