"""What a row of a database is made of, whatever it is kept in: identity, key-value pairs, results, the rest beside."""

from __future__ import annotations

import re
import uuid
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_ase.chunk import has_bits
from molrec_ase.configuration import Configuration
from molrec_ase.names import RESULTS, foreign_name, key_name
from molrec_convert.model.tags import to_typed_json
from molrec_convert.report import Report

__all__ = ["RowMaker"]

_WORD = re.compile(r"[_a-zA-Z][_0-9a-zA-Z]*$")
_NATIVE = ("bool", "i64", "f64", "string")


class RowMaker:
    """Knows the ids of the rows so far; what changes on the way goes to the report."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._ids: set[int] = set()
        self._last = 0
        self._uniques: set[str] = set()

    def _identity(self, made: Configuration, without: list[str]) -> tuple[int, str]:
        """Return the id and the unique id of a row: its own where they are free, else new ones."""
        number, unique = made.row.get("id"), made.row.get("unique_id")
        if number is not None and (number in self._ids or number < 1):
            self._report.converted("id", "rows whose id is taken, or not above 0, have a new one")
            number = None
        elif number is None:
            without.append("id")
        if unique is not None and unique in self._uniques:
            self._report.converted("unique_id", "rows whose unique id is taken have a new one")
            unique = None
        elif unique is None:
            without.append("unique_id")
        if number is None:
            number = self._last + 1
        self._last = max(number, self._last)
        unique = uuid.uuid4().hex if unique is None else unique
        self._ids.add(number)
        self._uniques.add(unique)
        without += [name for name in ("ctime", "mtime") if name not in made.row]
        from ase.db.core import now

        for name in ("ctime", "mtime"):
            made.row.setdefault(name, now())
        return number, unique

    def _pairs(self, made: Configuration) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what can be key-value pairs, under their names in ASE, and the other keys in typed JSON."""
        pairs: dict[str, Any] = {}
        keys: dict[str, Any] = {}
        for name, (value, tag) in made.keys.items():
            own = foreign_name(name)
            same = key_name(own) == name or (name in made.per_step and own == name)
            if tag in _NATIVE and same and own not in pairs and self._is_pair(own, value):
                pairs[own] = value
                if key_name(own) != name:
                    made.without.append(key_name(own))
                    keys[name] = [tag, to_typed_json(value, tag, name)]
            else:
                keys[name] = [tag, to_typed_json(value, tag, name)]
        return pairs, keys

    def _is_pair(self, name: str, value: Any) -> bool:
        """True if a key and its value can be a key-value pair."""
        return _is_pair(name, value)

    def _results(self, made: Configuration) -> dict[str, Any]:
        """Return the results a row has columns for, in the shapes it has them in."""
        shapes: dict[str, tuple[int, ...]] = {
            "energy": (),
            "free_energy": (),
            "magmom": (),
            "stress": (6,),
            "dipole": (3,),
        }
        kept = {}
        for name, shape in shapes.items():
            value = made.results.get(name)
            if value is None or np.shape(value) != shape or (shape == () and np.isnan(value)):
                continue
            kept[name] = value if shape else float(value)
        for name in ("magmoms", "charges"):
            if name in made.results:
                kept[name] = made.results[name]
        return kept

    def _beside(
        self, made: Configuration, meta: dict[str, Any], step: int, keys: dict[str, Any], without: list[str],
        results: dict[str, Any],
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:  # fmt: skip
        """Return columns and other things that those of a row cannot hold."""
        columns = dict(made.others)
        keys.update({name: [tag, to_typed_json(value, tag, name)] for name, (value, tag) in made.exact.items()})
        for name, value in made.results.items():
            # SQLite drops the sign of a negative zero
            signed = name in RESULTS and np.ndim(value) == 0 and value == 0 and bool(np.signbit(value))
            if (name in results and not signed) or name == "forces":
                continue
            if name in RESULTS:
                flat = np.asarray(value, np.float64).reshape(-1)
                tag = "f64" if np.ndim(value) == 0 else f"f64x{flat.size}"
                keys[RESULTS[name]] = [tag, to_typed_json(float(value) if tag == "f64" else flat, tag, name)]
            else:
                columns[name] = value
        found: dict[str, Any] = {
            "keys": keys,
            "per_step": list(made.per_step),
            "step": made.step if made.step is not None and made.step != step else None,
            "time": made.time,
            "meta": meta,
            "origin": made.origin.tolist() if has_bits(made.origin) else None,
        }
        found = {key: value for key, value in found.items() if value is not None and value not in ({}, [])}
        if without:
            found["without"] = without
        return columns, found


def _is_pair(name: str, value: Any) -> bool:
    """True if ASE takes a key and its value as a key-value pair."""
    from ase.db.core import reserved_keys, str_represents

    if not _WORD.match(name) or name in reserved_keys or name == "external_tables":
        return False
    return not (isinstance(value, str) and any(str_represents(value, kind) for kind in (bool, int, float)))
