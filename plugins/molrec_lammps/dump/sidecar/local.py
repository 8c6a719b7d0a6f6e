"""Local dumps as blocks: bonds, angles, … where the columns name atoms, else a block of rows as they are.

Which column names an atom is told by its name (`batom1`, given with `dump_modify colname`), or, of `c_ID[n]`, by the
command `compute ID … property/local`. Source: LAMMPS manual, "compute property/local".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from molrec_convert.errors import FormatError, UsageError
from molrec_convert.model import BlockDeclaration, ColumnDeclaration
from molrec_convert.report import Report
from molrec_lammps.common.text import names_column
from molrec_lammps.dump.rows import own_names
from molrec_lammps.dump.sidecar.dump import SideDump
from molrec_lammps.dump.system import places_of
from molrec_lammps.script.script import Command

__all__ = ["LocalBlock", "local_attributes", "local_block", "told_columns"]

#: Letter of an attribute of property/local → block of the record, its endpoints.
_KINDS = {
    "b": ("bonds", 2),
    "a": ("angles", 3),
    "d": ("dihedrals", 4),
    "i": ("impropers", 4),
    "p": ("interacting_pairs", 2),
    "n": ("neighbor_pairs", 2),
}
_ENDPOINTS = ("atomi", "atomj", "atomk", "atoml")
_ATOM = re.compile(r"([badipn])atom([1-4])$")
_ATTRIBUTE = re.compile(r"[badipn](atom[1-4]|type[1-4]?)$")
_TYPE = re.compile(r"([badi])type$")
#: From here on six digits do not tell numbers apart.
_SIX_DIGITS = 10**6

Integers = NDArray[np.int64]


@dataclass
class LocalBlock:
    """A local dump as a block of a trajectory. `atoms` are the columns that become endpoints, none of a plain block."""

    dump: SideDump
    name: str
    atoms: tuple[str, ...]
    type_column: str | None
    others: dict[str, str]
    ids: tuple[str, ...] = ()
    labels: Mapping[int, str] = field(default_factory=dict)
    lost: int = 0

    @property
    def references(self) -> bool:
        """Whether rows refer to rows of `atoms`."""
        return bool(self.atoms)

    def declaration(self) -> BlockDeclaration:
        """Return how the block is declared."""
        columns = {name: ColumnDeclaration("u64") for name in _ENDPOINTS[: len(self.atoms)]}
        if self.type_column is not None:
            columns |= {"type": ColumnDeclaration("string"), "type_id": ColumnDeclaration("u64")}
        columns |= {own: ColumnDeclaration(self._dtype(name)) for name, own in self.others.items()}
        return BlockDeclaration(
            columns,
            targets=dict.fromkeys(_ENDPOINTS[: len(self.atoms)], "atoms"),
            rows=int(self.dump.counts.max(initial=0)),
        )

    def rows(self, frames: Sequence[int], ids: Sequence[Integers | None]) -> tuple[Integers, dict[str, NDArray[Any]]]:
        """Return row counts and columns of some frames; `ids` are the ascending ids of the atoms at each of them."""
        counts: list[int] = []
        parts: list[dict[str, NDArray[Any]]] = []
        known = dict(zip(frames, ids, strict=True)) if len(set(frames)) == len(frames) else None
        if known is None:
            # one frame for several states of the atoms
            pieces = [self.rows([frame], [own]) for frame, own in zip(frames, ids, strict=True)]
            return np.concatenate([piece[0] for piece in pieces]), _joined([piece[1] for piece in pieces])
        for batch, columns, text in self.dump.read(frames):
            start = 0
            self._check_ids(batch, columns, text)
            for number in batch:
                stop = start + self.dump.frames[number].count
                made = self._made({name: values[start:stop] for name, values in columns.items()}, known[number])
                counts.append(len(next(iter(made.values()))))
                parts.append(made)
                start = stop
        return np.array(counts, dtype=np.int64), _joined(parts)

    def report(self, report: Report) -> None:
        """Say what a pass left out."""
        if self.lost:
            report.dropped(f"trajectory/{self.name}", f"{self.lost} rows left out: they name atoms that are not there")
        self.lost = 0

    def _dtype(self, name: str) -> str:
        return "i64" if name == "index" else "u64" if name in self.ids else "f64"

    def _made(self, columns: dict[str, NDArray[np.float64]], ids: Integers | None) -> dict[str, NDArray[Any]]:
        made: dict[str, NDArray[Any]] = {}
        keep: NDArray[np.bool_] | None = None
        for endpoint, name in zip(_ENDPOINTS, self.atoms, strict=False):
            assert ids is not None
            rows = places_of(columns[name].astype(np.uint64), ids.view(np.uint64))
            here = rows >= 0
            keep = here if keep is None else keep & here
            made[endpoint] = rows.astype(np.uint64)
        if self.type_column is not None:
            types = columns[self.type_column].astype(np.int64)
            used, places = np.unique(types, return_inverse=True)
            names = [self.labels.get(number, str(number)) for number in used.tolist()] or [""]
            made["type"] = names_column(names, places)
            made["type_id"] = types.astype(np.uint64)
        for name, own in self.others.items():
            dtype = {"i64": np.int64, "u64": np.uint64, "f64": np.float64}[self._dtype(name)]
            made[own] = columns[name].astype(dtype)
        if keep is not None and not keep.all():
            self.lost += int((~keep).sum())
            made = {name: values[keep] for name, values in made.items()}
        return made

    def _check_ids(self, batch: Sequence[int], columns: Mapping[str, NDArray[np.float64]], text: bytes) -> None:
        """Refuse what is no whole number where one has to be, and ids of which digits were lost."""
        others = [name for name in (self.type_column, "index") if name is not None and name in columns]
        for name in dict.fromkeys([*self.atoms, *self.ids, *others]):
            values = columns[name]
            wrong = ~((values >= 0) & (values == np.floor(values)) & (values < 2.0**53))
            short = name in (*self.atoms, *self.ids) and bool(len(values)) and values.max() >= _SIX_DIGITS
            if short and not wrong.any() and (b"e+" in text or b"E+" in text):
                place = self.dump.first.columns.index(name)
                lines = text.split(b"\n")
                rows = np.flatnonzero(values >= _SIX_DIGITS).tolist()
                wrong[[row for row in rows if b"e" in lines[row].split()[place].lower()]] = True
            if wrong.any():
                row = int(wrong.argmax())
                self._refuse(batch, row, text, name)

    def _refuse(self, batch: Sequence[int], row: int, text: bytes, name: str) -> None:
        found = text.split(b"\n")[row].split()[self.dump.first.columns.index(name)].decode("latin-1")
        for number in batch:
            frame = self.dump.frames[number]
            if row < frame.count:
                path, line = self.dump.sources[number].place(frame.line + row)
                raise FormatError(
                    path,
                    f"line {line}",
                    found=f"{found!r} ({name})",
                    expected="a whole number with all its digits",
                    hint="dump_modify … format float %.15g writes them all",
                )
            row -= frame.count


def local_block(
    dump: SideDump,
    attributes: Mapping[str, str],
    has_ids: bool,
    report: Report,
    *,
    id: str | None = None,
    labels: Mapping[str, Mapping[int, str]] | None = None,
) -> LocalBlock:
    """Return the block of a local dump: a relation where its columns name all its atoms, and ids are known."""
    columns = dump.first.columns
    meaning = {name: attributes.get(name, name) for name in columns}
    kind, atoms = _atoms(meaning)
    known = {name: found for name, found in meaning.items() if found != name}
    if kind is not None and has_ids:
        block, _ = _KINDS[kind]
        types = [name for name, found in meaning.items() if (match := _TYPE.match(found)) and match[1] == kind]
        type_column = types[0] if types else None
        rest = [name for name in columns if name not in atoms and name != type_column]
        others = _renamed(rest, meaning, {*_ENDPOINTS, "type", "type_id"})
        report.converted(dump.name, f"{len(dump.frames)} frames of {block}, by rows of atoms, in trajectory/{block}")
        return LocalBlock(dump, block, atoms, type_column, others, labels=(labels or {}).get(block.rstrip("s"), {}))
    name = _plain_name(dump, id)
    ids = tuple(column for column, found in meaning.items() if _ATOM.match(found))
    others = _renamed(columns, meaning, set())
    why = "" if not known else f" ({', '.join(f'{a} is {b}' for a, b in known.items())})"
    unknown = [column for column in columns if column.startswith("c_") and column not in known]
    if kind is not None:
        why += "; without atoms that have ids its rows cannot refer to them"
    elif unknown:
        why += "; columns of property/local, told by the input script or --local-columns, refer to a dump of atoms"
    report.converted(dump.name, f"{len(dump.frames)} frames of entries as they are, in trajectory/{name}{why}")
    return LocalBlock(dump, name, (), None, others, ids)


def local_attributes(commands: Iterable[Command]) -> dict[str, str]:
    """Return what columns `c_ID[n]` of a local dump are: attributes of `compute property/local` commands."""
    found: dict[str, str] = {}
    for command in commands:
        if command.name != "compute" or len(command.args) < 4 or command.args[2] != "property/local" or command.fault:
            continue
        words = list(command.args[3:])
        if "cutoff" in words:
            words = words[: words.index("cutoff")]
        id = command.args[0]
        names = [f"c_{id}"] if len(words) == 1 else [f"c_{id}[{number}]" for number in range(1, len(words) + 1)]
        found.update(zip(names, words, strict=True))
    return found


def told_columns(words: Sequence[str]) -> dict[str, str]:
    """Return what a user says columns are: `c_b[2]=batom1`. UsageError: a word is no such pair."""
    found = {}
    for word in words:
        name, equals, attribute = word.partition("=")
        if not equals or not name or not _ATTRIBUTE.match(attribute):
            raise UsageError(
                f"--local-columns: found {word!r}, expected COLUMN=ATTRIBUTE with an attribute of compute "
                "property/local, like c_b[1]=batom1"
            )
        found[name] = attribute
    return found


def _atoms(meaning: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the kind of relation whose atoms are all named, and the columns that name them."""
    for kind, (_, count) in _KINDS.items():
        columns = {found: name for name, found in meaning.items() if found.startswith(f"{kind}atom")}
        wanted = [f"{kind}atom{number}" for number in range(1, count + 1)]
        if set(columns) >= set(wanted):
            return kind, tuple(columns[found] for found in wanted)
    return None, ()


def _renamed(columns: Sequence[str], meaning: Mapping[str, str], taken: set[str]) -> dict[str, str]:
    """Return names in the record; an attribute that is known is called by its name, unless two columns would be."""
    meant = [meaning[name] for name in columns]
    wanted = [found if meant.count(found) == 1 else name for name, found in zip(columns, meant, strict=True)]
    names = own_names(wanted, taken)
    return {column: names[name] for column, name in zip(columns, wanted, strict=True)}


def _plain_name(dump: SideDump, id: str | None) -> str:
    if id is not None:
        return own_names([f"local_{id}"], ())[f"local_{id}"]
    label = dump.first.label.lower().replace(" ", "_")
    name = "local" if label == "entries" else f"local_{label}"
    return own_names([name], ())[name]


def _joined(parts: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else {})}
