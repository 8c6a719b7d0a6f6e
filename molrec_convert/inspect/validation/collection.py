"""Checks a collection's file against every rule: pages, keys, values one by one, the index, every record as a whole.

The pages are walked before anything maps the file, so that damage ends in a finding. Memory follows the largest value,
not what headers claim. What goes wrong alike in many records is told a few times and counted.
Source: Collection and its LMDB file.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError
from molrec_convert.inspect.validation.documents import check_meta
from molrec_convert.inspect.validation.findings import Findings, Severity
from molrec_convert.model.collection.index import INDEX_COLUMNS
from molrec_convert.model.collection.member import member_rows
from molrec_convert.model.dtypes import off_grid
from molrec_convert.model.forcefield.document import ForceField
from molrec_convert.model.forcefield.findings import remarks
from molrec_convert.model.forcefield.linking import resolve
from molrec_convert.model.frame import Column
from molrec_convert.model.record import Record, absolute_rows
from molrec_convert.model.rules import Alignment
from molrec_convert.plugins import style_registry
from molrec_convert.quantities.units import QUANTITIES, dimension_fault
from molrec_convert.stores.lmdb.file.footer import Checksums, checksum
from molrec_convert.stores.lmdb.file.keys import (
    CHECKSUMS,
    FORCEFIELD,
    FRAME,
    INDEX,
    META,
    RECORD,
    SYSTEM,
    is_known,
    key_text,
    numbered,
)
from molrec_convert.stores.lmdb.file.pages import PageFile
from molrec_convert.stores.lmdb.manifest import file_checksum, read_manifest
from molrec_convert.stores.lmdb.reader import StoredCollection, open_collection
from molrec_convert.stores.lmdb.sharded import ShardedCollection
from molrec_convert.stores.lmdb.values.decode import FrameBytes, decode
from molrec_convert.stores.lmdb.values.layout import from_utf8, mapping, padding
from molrec_convert.stores.lmdb.values.stored_frame import stored_block
from molrec_convert.stores.lmdb.values.stored_trajectory import unknown_header_keys

__all__ = ["check_collection", "check_set"]

#: So many findings of one kind are told, and so many altogether.
_ALIKE, _MOST = 5, 1000
#: A block may have so many rows that no byte of the file backs.
_FEW = 2**24


def check_collection(path: str | os.PathLike[str], findings: Findings) -> None:
    """Everything about a collection's file."""
    try:
        with PageFile(path) as pages:
            pages.check()
    except FormatError as error:
        where = f"{error.where}: " if error.where else ""
        parts = [f"found {error.found}"] + ([f"expected {error.expected}"] if error.expected else [])
        findings.error("the file", f"{where}{', '.join(parts)}{f'; {error.hint}' if error.hint else ''}")
        return
    with ExitStack() as stack, findings.guard("meta"):
        # closed when the error of what failed is gone, which would keep the file mapped
        collection = stack.enter_context(open_collection(path))
        _CollectionChecks(collection, findings).check()


class _CollectionChecks:
    """Checks an open collection whose pages are sound."""

    def __init__(self, collection: StoredCollection, findings: Findings) -> None:
        self._collection, self._findings = collection, findings
        self._alike: Counter[tuple[Severity, str, str]] = Counter()
        self._examples: dict[tuple[Severity, str, str], str] = {}
        self._broken: dict[bytes, set[int]] = {RECORD: set(), SYSTEM: set(), FRAME: set()}
        self._present: dict[bytes, int] = {RECORD: 0, FRAME: 0}
        self._sums: Checksums | None = None
        #: Records whose checksum says that they have a system, until it is seen.
        self._systems: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def check(self) -> None:
        """Document, force field, every key, the index, every record."""
        collection = self._collection
        for quantity, unit in collection.units.items():
            fault = dimension_fault(quantity, unit) if quantity in QUANTITIES else None
            if fault is not None:
                self._findings.warning(f"meta.collection.units.{quantity}", f"{unit!r} {fault}")
        for name in collection.extra:
            self._findings.warning("meta", f"this version does not know the key {name!r}, it is kept as it is")
        with self._findings.guard("meta.sequence_schema"):
            collection.declaration.check()
        forcefield = self._check_forcefield()
        with self._findings.guard(CHECKSUMS.decode()):
            self._sums = collection.checksums
            if self._sums is not None:
                self._systems = self._sums.of[SYSTEM] != 0
        for key, value in collection.stored_items():
            self._check_sum(key, value)
            self._check_key(key, value)
        for number in np.flatnonzero(self._systems)[:1].tolist():
            self._findings.error(key_text(numbered(SYSTEM, number)), "the key is gone that has a checksum")
        for letter, count in ((RECORD, len(collection)), (FRAME, collection.n_frames)):
            self._check_complete(letter, count)
        before = len(self._findings.items)
        with self._findings.guard("index"):
            self._check_index()
        if not self._findings.has_error("index", before):
            for number in range(len(collection)):
                self._check_record(number, forcefield)
        for kind, count in self._alike.items():
            if count > _ALIKE:
                note = self._findings.error if kind[0] is Severity.ERROR else self._findings.warning
                note(self._examples[kind], f"and {count - _ALIKE} more like the {_ALIKE} told: {kind[2]}")

    @contextmanager
    def _gather(self, node: str) -> Iterator[Findings]:
        """Yield findings of a part, of which those alike are told a few times only."""
        local = Findings()
        with local.guard(node):
            yield local
        for item in local.items:
            kind = (item.severity, re.sub(r"\d+", "#", item.node), re.sub(r"\d+", "#", item.message))
            if kind not in self._alike and len(self._alike) >= _MOST:
                continue
            self._alike[kind] += 1
            self._examples.setdefault(kind, item.node)
            if self._alike[kind] <= _ALIKE:
                note = self._findings.error if item.severity is Severity.ERROR else self._findings.warning
                note(item.node, item.message)

    def _check_sum(self, key: bytes, value: memoryview) -> None:
        """Hold a value against its checksum, where the file has them."""
        sums = self._sums
        if sums is None:
            return
        if key in (META, INDEX, FORCEFIELD):
            expected = sums.named.get(key.decode())
        elif is_known(key) and key != CHECKSUMS:
            number = int.from_bytes(key[1:], "big")
            expected = int(sums.of[key[:1]][number]) if number < len(sums.of[key[:1]]) else None
            if key[:1] == SYSTEM and expected is not None:
                self._systems[number] = False
        else:
            return
        if expected is not None and checksum(value) != expected:
            with self._gather(key_text(key)) as found:
                found.error(key_text(key), "a bit of the value, or of its checksum, is not what was written")

    def _check_key(self, key: bytes, value: memoryview) -> None:
        collection, node = self._collection, key_text(key)
        if not is_known(key):
            self._findings.warning(node, "this version does not know the key, it is kept as it is")
            return
        if key in (META, INDEX, FORCEFIELD, CHECKSUMS):
            if key != META:
                with self._gather(node) as found:
                    _check_layout(value, node, found, tables=True)
            return
        letter, number = key[:1], int.from_bytes(key[1:], "big")
        if number >= (collection.n_frames if letter == FRAME else len(collection)):
            self._findings.warning(node, "the collection does not count it: left by a writer, it does not count")
            return
        if letter in self._present and number == self._present[letter]:
            self._present[letter] += 1
        with self._gather(node) as found:
            if letter == RECORD:
                document = mapping(from_utf8(bytes(value), node), node)
                found.check_finite(document, node)
                check_meta(document, found, node)
            elif _check_layout(value, node, found, tables=False, precision=letter == SYSTEM):
                frame = decode(bytes(value), (letter.decode(), number))
                self._check_system(frame) if letter == SYSTEM else self._check_frame(frame)
                self._check_values(frame, found, is_system=letter == SYSTEM)
            if any(item.severity is Severity.ERROR for item in found.items):
                self._broken[letter].add(number)
                return
            return
        # what was raised has been gathered
        self._broken[letter].add(number)

    def _check_system(self, frame: FrameBytes) -> None:
        _ = frame.meta(), frame.box

    def _check_frame(self, frame: FrameBytes) -> None:
        shared = self._collection.shared
        shared.check(frame)
        _ = shared.meta(frame), frame.step, frame.time, frame.box

    def _check_values(self, frame: FrameBytes, found: Findings, *, is_system: bool) -> None:
        """Masks and bools are 0 or 1, numbers lie on the grid that is declared."""
        for name, block in frame.blocks.items():
            if block.count > _FEW and not any(entry.nbytes for entry in block.columns.values()):
                found.error(f"{frame.node}/{name}", f"claims {block.count} rows that no byte of the file backs")
                continue
            declared = {} if is_system else self._collection.shared.precisions.get(name, {})
            for key, entry in block.columns.items():
                here = f"{frame.node}/{name}/{key}"
                with found.guard(here):
                    precision = entry.precision if is_system else declared.get(key)
                    mask = frame.mask(name, key)
                    if entry.dtype == "bool":
                        frame.values(name, key)
                    if precision is not None and entry.dtype == "f64":
                        _check_grid(Column(frame.values(name, key), mask), precision, here, found)

    def _check_complete(self, letter: bytes, count: int) -> None:
        """Every number below the count is there."""
        first = self._present[letter]
        if first < count:
            self._findings.error(key_text(numbered(letter, first)), f"the key is not there, of {count} counted")

    def _check_forcefield(self) -> ForceField | None:
        """Return the force field, None when there is none or it is broken."""
        findings, collection = self._findings, self._collection
        value = collection.stored_forcefield()
        if value is None:
            return None
        before = len(findings.items)
        with findings.guard("ff"):
            frame = decode(value, "ff")
            tables = {name: stored_block(frame, name) for name in frame.blocks}
            version = collection.document.get("molrec_version")
            forcefield = ForceField.from_parts(frame.document, tables, molrec_version=version)
            registry = style_registry()
            findings.take(forcefield.faults("ff", registry))
            if len(findings.items) == before:
                for remark in remarks(forcefield, registry, "ff"):
                    findings.warning(remark.node, remark.text)
                return forcefield
        return None

    def _check_index(self) -> None:
        index = self._collection.index
        for name, column in index.columns.items():
            if name not in INDEX_COLUMNS:
                with self._findings.guard(f"index/{name}"):
                    _ = column.values, column.validity
                    if column.precision is not None and column.dtype == "f64":
                        _check_grid(column, column.precision, f"index/{name}", self._findings)

    def _check_record(self, number: int, forcefield: ForceField | None) -> None:
        """What holds between the parts of a record, as far as they are sound by themselves."""
        collection = self._collection
        index = collection.index
        first, count = int(index["first_frame"][number]), int(index["n_frames"][number])
        if number in self._broken[RECORD] or number in self._broken[SYSTEM]:
            return
        if self._broken[FRAME] and not self._broken[FRAME].isdisjoint(range(first, first + count)):
            return
        if self._present[FRAME] < first + count or self._present[RECORD] <= number:
            return
        with self._gather(f"s[{number}]") as found:
            record = collection.record(number)
            if record.system is not None:
                record.system.check(f"s[{number}]", absolute_rows(record.system, None))
                if forcefield is not None:
                    for remark in resolve(record.system, forcefield, style_registry()).remarks:
                        node = f"s[{number}]{remark.node.removeprefix('system')}"
                        found.warning(node if remark.node.startswith("system") else remark.node, remark.text)
            elif record.trajectory is None:
                found.error(f"r[{number}]", "a record of a collection has a system or a trajectory")
        with self._gather(f"f[{first}]") as found:
            rows = self._check_trajectory(record, found)
            stated = int(index["n_atoms"][number])
            if rows is not None and stated != rows:
                found.error("index/n_atoms", f"record {number} has another number of atoms: {stated}, found {rows}")

    def _check_trajectory(self, record: Record, found: Findings) -> int | None:
        """Hold the frames of a record against each other and its system; returns the record's number of atoms."""
        trajectory, rows = record.trajectory, None
        if trajectory is not None:
            if record.system is not None:
                Alignment(record.system).check_declaration(trajectory.declaration)
            for batch in trajectory.batches():
                atoms = batch.blocks.get("atoms")
                if rows is None and atoms is not None and len(atoms.frames):
                    rows = int(atoms.offset[1] - atoms.offset[0])
        return None if any(i.severity is Severity.ERROR for i in found.items) else member_rows(record, rows)


def _check_layout(value: memoryview, node: str, found: Findings, *, tables: bool, precision: bool = True) -> bool:
    """True if a value is frame bytes; what of its form readers cope with is a warning."""
    frame = decode(bytes(value), node)
    size = int.from_bytes(value[4:8], "little")
    base = 8 + size + padding(size)
    header = mapping(from_utf8(bytes(value[8 : 8 + size]), node), node)
    if any(value[8 + size : base]):
        found.warning(node, "the padding behind the header is not zero")
    if (len(value) - base) % 8:
        found.warning(node, f"the payload of {len(value) - base} bytes is no multiple of 8")
    elif len(value) - base > frame.layout.extent + padding(frame.layout.extent):
        found.warning(node, f"{len(value) - base - frame.layout.extent} bytes of the payload belong to no column")
    for place, key in unknown_header_keys(header, tables=tables):
        here = f"{node}/{place}".rstrip("/")
        found.warning(here, f"this version does not know the key {key!r:.60} of the header")
    if "meta_types" in header and not node.startswith("s["):
        found.warning(node, "only a system types its meta: meta_types does not count")
    ends: list[tuple[int, int, str]] = []
    for name, block in header["blocks"].items():
        here = f"{node}/{name}"
        if not tables and not precision and block.get("structural_shape") is not None:
            found.warning(here, "the declaration states the structural shape, a value has null")
        layout = frame.blocks[name]
        for key, column in block["columns"].items():
            if "precision" in column and not precision:
                found.warning(f"{here}/{key}", "the declaration states the precision, that of a value does not count")
            entry = layout.columns[key]
            if entry.offset is not None and entry.nbytes:
                ends.append((entry.offset, entry.offset + entry.nbytes, f"{here}/{key}"))
            if entry.validity is not None and layout.count:
                ends.append((entry.validity, entry.validity + layout.count, f"{here}/_validity/{key}"))
    ends.sort()
    for (_, end, one), (start, _, other) in itertools.pairwise(ends):
        if start < end:
            found.error(other, f"its buffer overlaps that of {one.removeprefix(f'{node}/')}")
    return True


def _check_grid(column: Column, precision: float, node: str, found: Findings) -> None:
    """A warning for values that lie off the grid of a declared precision, null rows aside."""
    values = column.values
    if not math.prod(values.shape):
        return
    off = np.asarray(off_grid(values, precision).reshape(len(values), -1).any(axis=1))
    if column.validity is not None:
        off &= column.validity
    count = int(off.sum())
    if count:
        rows = "row is" if count == 1 else "rows are"
        row = int(np.flatnonzero(off)[0])
        found.warning(
            node, f"{count} {rows} off the grid of the declared precision {precision!r}, the first is row {row}"
        )


def check_set(path: str | os.PathLike[str], findings: Findings) -> None:
    """Everything about a set."""
    with findings.guard("the manifest"):
        manifest = read_manifest(path)
        sound = True
        for part in manifest.parts:
            where = manifest.where(part)
            if not where.is_file():
                findings.error(part.path, "the part is not there")
                sound = False
                continue
            checksum = file_checksum(where)
            if checksum != part.crc32c:
                findings.error(part.path, f"the checksum is {checksum}, by the manifest {part.crc32c}")
            found = Findings()
            with found.guard("the file"):
                check_collection(where, found)
            for item in found.items:
                error = item.severity is Severity.ERROR
                sound = sound and not error
                note = findings.error if error else findings.warning
                note(f"{part.path}: {item.node}", item.message)
        if not sound:
            return
        with ShardedCollection(os.fspath(path), manifest) as collection:
            for number, part in enumerate(manifest.parts):
                with findings.guard(part.path):
                    collection.open_part(number)
            with findings.guard("index"):
                _ = {name: column.values for name, column in collection.index.columns.items()}
