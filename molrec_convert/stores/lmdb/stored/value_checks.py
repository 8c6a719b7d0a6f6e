"""What is looked at of a record's values before they are copied as they are stored, and what nobody can look at.

Each by itself is held against the declaration; of what holds between values, steps, times and rows are, and references
where there are any. Source: Collection and its LMDB file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from molrec_convert.errors import ContractError
from molrec_convert.model.record import Record, absolute_rows
from molrec_convert.model.rules import Alignment
from molrec_convert.stores.lmdb.stored.shared_declaration import SharedDeclaration
from molrec_convert.stores.lmdb.values.frame_bytes import decode

__all__ = ["check_values", "unknown_header_keys"]

_TABLES = frozenset({"blocks", "meta"})
_HEADER = frozenset({*_TABLES, "meta_types", "step", "time", "box"})
_BLOCK = frozenset({"count", "structural_shape", "columns", "targets", "attributes"})
_COLUMN = frozenset({"dtype", "shape", "offset", "values", "validity", "precision"})
_BOX = frozenset({"vectors", "origin", "boundary", "cell_defined"})


def check_values(record: Record, values: Sequence[bytes], shared: SharedDeclaration, first: int) -> int | None:
    """Check the parts of a record whose frames are `values`; returns the rows of its first update of `atoms`."""
    system = record.system
    rows = {} if system is None else {name: block.count for name, block in system.blocks.items()}
    if system is not None:
        Alignment(system).check_declaration(shared.declaration)
        system.check("system", absolute_rows(system, None))
    # what one frame alone does not tell
    together = bool(shared.aligned) or (system is not None and any("id" in b.columns for b in system.blocks.values()))
    atoms: int | None = None
    last: int | None = None
    timed: bool | None = None
    for position, value in enumerate(values):
        frame = decode(value, ("f", first + position))
        shared.check(frame)
        step, time = frame.step, frame.time
        _ = shared.meta(frame), frame.box
        if last is not None and step <= last:
            raise ContractError(f"{frame.node}/step", "steps ascend", found=f"{step} after {last}")
        if timed is not None and timed != (time is not None):
            raise ContractError(f"{frame.node}/time", "time is stated for all frames or for none")
        last, timed = step, time is not None
        for name, block in frame.blocks.items():
            if rows.get(name, block.count) != block.count:
                rule = "the block has another row count than in system"
                raise ContractError(f"{frame.node}/{name}", rule, found=str(block.count), expected=str(rows[name]))
            if name == "atoms" and atoms is None:
                atoms = block.count
        together = together or bool(frame.layout.referring)
    if together and record.trajectory is not None:
        for _batch in record.trajectory.batches():
            pass
    return atoms


def unknown_header_keys(header: Mapping[str, Any], *, tables: bool = False) -> Iterator[tuple[str, str]]:
    """Keys of a header that have no meaning here: where below the value ("", "atoms", "atoms/x"), and the key."""
    yield from (("", key) for key in header if key not in (_TABLES if tables else _HEADER))
    if isinstance(header.get("box"), dict):
        yield from (("box", key) for key in header["box"] if key not in _BOX)
    for name, block in header["blocks"].items():
        yield from ((name, key) for key in block if key not in _BLOCK)
        for column, entry in block["columns"].items():
            yield from ((f"{name}/{column}", key) for key in entry if key not in _COLUMN)
