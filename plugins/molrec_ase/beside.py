"""What a row of a database has no column for, kept in its `data` under the key `molrec` and put back by the reader.

`columns` are columns of the atoms, `texts` those of texts, `named` both where their names read as whole numbers, which
ASE's JSON would make numbers. `rest` is a JSON text: `keys` with their tags in typed JSON,
`per_step` names of keys that are one value per frame, `without` names of what the row says and the record did not,
`step`, `time`, `meta` and the `origin` of the cell the record's. It is a text as ASE takes some mappings for arrays.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from molrec_ase.chunk import Part
from molrec_convert.files.json_text import read_json
from molrec_convert.model.dtypes import as_values
from molrec_convert.model.tags import from_typed_json

__all__ = ["BESIDE", "apart", "joined", "put_back"]

BESIDE = "molrec"
_PARTS = frozenset({"columns", "texts", "named", "rest"})


def joined(data: dict[str, Any], columns: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    """The data of a row, with what stands beside it where there is anything."""
    plain = {name: values.tolist() if values.dtype.kind == "T" else values for name, values in columns.items()}
    named = [[name, plain.pop(name)] for name in columns if _is_whole(name)]
    texts = {name: values for name, values in plain.items() if isinstance(values, list)}
    found: dict[str, Any] = {"columns": {name: values for name, values in plain.items() if name not in texts}}
    found.update(texts=texts, named=named)
    if rest:
        found["rest"] = json.dumps(rest)
    found = {key: value for key, value in found.items() if value}
    return {**data, BESIDE: found} if found else data


def apart(data: Any) -> tuple[Any, dict[str, Any] | None]:
    """The data of a row without what stands beside it, and that. ValueError where it is no JSON."""
    if not isinstance(data, dict) or not isinstance(data.get(BESIDE), dict) or not data[BESIDE].keys() <= _PARTS:
        return data, None
    rest = {key: value for key, value in data.items() if key != BESIDE}
    beside = data[BESIDE]
    columns = {**beside.get("columns", {}), **beside.get("texts", {}), **dict(beside.get("named", ()))}
    for name, values in columns.items():
        if isinstance(values, list):
            columns[name] = np.array(values, np.dtypes.StringDType())
    return rest or None, {**read_json(beside.get("rest", "{}")), "columns": columns}


def put_back(part: Part, beside: dict[str, Any]) -> Part:
    """The configuration with what stands beside the row. ValueError where it does not fit."""
    for name in beside.get("without", ()):
        part.columns.pop(name, None)
        part.values.pop(name, None)
    for name, values in beside.get("columns", {}).items():
        column = as_values(np.asarray(values))
        if len(column) != part.count:
            raise ValueError(f"the column {name} has {len(column)} rows for {part.count} atoms")
        part.columns[name] = column
    for name, (tag, document) in beside.get("keys", {}).items():
        part.values[name] = from_typed_json(document, tag, name)
    if "origin" in beside:
        part.origin = np.array(beside["origin"], np.float64).reshape(3)
    part.step, part.time = beside.get("step"), beside.get("time")
    part.meta = dict(beside.get("meta", {}))
    part.per_step = frozenset(beside.get("per_step", ()))
    return part


def _is_whole(name: str) -> bool:
    try:
        int(name)
    except ValueError:
        return False
    return True
