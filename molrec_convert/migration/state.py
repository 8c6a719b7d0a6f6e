"""What a migration keeps beside its output until it is complete: plan, journal, log of records; and what it leaves.

For `train.mrec.lmdb` the state is the directory `.train.mrec.lmdb.migration`. Beside the complete collection stay
`train.migration.jsonl`, which says of each input what it was when it was migrated, and, where there are any,
`train.failures.jsonl`. The journal has one line for each input that is finished and one for each commit; only what
stands before a commit counts.

All of these are files of JSON documents, one a line, in which a changed byte is found. A line ends in the member
`crc32c`: the checksum of all that stands before it in the file, other checksums left out. So a line that was altered,
moved, doubled or taken out breaks those that follow as well. Where a file is whole its last line says as `of` how many
lines there are.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import google_crc32c

from molrec_convert.errors import FormatError, MolrecError, UnsupportedError
from molrec_convert.files import disk
from molrec_convert.formats import Format
from molrec_convert.plugins import plugin_fault
from molrec_convert.report import shape_of

__all__ = [
    "CUT_OFF",
    "SUFFIX",
    "WARNING",
    "Chain",
    "Commit",
    "Failure",
    "Journal",
    "Known",
    "LineFile",
    "Point",
    "Standing",
    "State",
    "error_document",
    "failure_entry",
    "failure_text",
    "is_error",
    "join_failures",
    "read_document",
    "read_failures",
    "read_lines",
    "remarks_of",
    "standing_lines",
    "warning_document",
    "write_failures",
    "write_lines",
]

_SUM, _OF = "crc32c", "of"
_TAIL = f', "{_SUM}": "%08x"}}\n'
_TAIL_SIZE = len(_TAIL % 0)
#: A line longer than this is none: what was written is shorter.
_LONGEST = 2**31


class Chain:
    """The checksum of the lines of one file so far, from which the next line's comes."""

    def __init__(self, value: int = 0, count: int = 0) -> None:
        self.value, self.count = value, count

    def line(self, entry: Mapping[str, Any], *, last: bool = False) -> bytes:
        """Return a document that is not empty as the next line; the `last` one says that the file is whole."""
        self.count += 1
        told = {**entry, _OF: self.count} if last else entry
        body = json.dumps(told).encode()[:-1]
        self.value = google_crc32c.extend(self.value, body)
        return body + (_TAIL % self.value).encode()

    def take(self, line: bytes) -> bytes | None:
        """Return the JSON of the line that comes next in the file; None where it is another than was written."""
        body, tail = line[:-_TAIL_SIZE], line[-_TAIL_SIZE:]
        value = google_crc32c.extend(self.value, body)
        if tail != (_TAIL % value).encode():
            return None
        self.value, self.count = value, self.count + 1
        return body + b"}"


class Standing(NamedTuple):
    """A line that stands: its JSON, and where it ends: the byte, the checksum."""

    text: bytes
    end: int
    sum: int

    def document(self) -> dict[str, Any]:
        """Return what the line says."""
        found: dict[str, Any] = json.loads(self.text)
        return found


def standing_lines(file: IO[bytes]) -> Iterator[Standing]:
    """Yield the lines of a file from its beginning, up to the first one that is not as it was written."""
    chain, end = Chain(), 0
    while line := file.readline(_LONGEST):
        text = chain.take(line)
        if text is None:
            return
        end += len(line)
        yield Standing(text, end, chain.value)


def read_lines(path: Path, hint: str) -> Iterator[dict[str, Any]]:
    """Yield the documents of a file that is whole; none where there is no file.

    Raises `FormatError` for one that is damaged, which says what to do (`hint`), at the end of what stands.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        count, whole, last = 0, False, 0
        for count, line in enumerate(standing_lines(file), 1):
            entry = line.document()
            whole, last = entry.pop(_OF, None) == count, line.end
            yield entry
        if last < path.stat().st_size:
            raise FormatError(path, f"line {count + 1}", found="a line that is not as it was written", hint=hint)
        if not whole:
            raise FormatError(path, found=f"an end after {count} lines", expected="more of them", hint=hint)


def read_document(path: Path, hint: str) -> dict[str, Any] | None:
    """Return the document of a file of one line; None where there is no file. Raises as `read_lines`."""
    found = list(read_lines(path, hint))
    return found[0] if found else None


def write_lines(path: Path, entries: Iterable[Mapping[str, Any]]) -> Chain:
    """Write a file anew, in one step, on disk when this returns; without an entry there is none. Returns its chain."""
    chain = Chain()
    following = iter(entries)
    entry = next(following, None)
    if entry is None:
        disk.remove(path)
        return chain

    def lines(entry: Mapping[str, Any]) -> Iterator[bytes]:
        for after in following:
            yield chain.line(entry)
            entry = after
        yield chain.line(entry, last=True)

    disk.replace_file(path, lines(entry))
    return chain


class LineFile:
    """A file that is written anew with some entries, and grows: after each `append` it is whole."""

    def __init__(self, path: Path, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self.path = path
        self._chain = write_lines(path, entries)

    def append(self, entries: list[dict[str, Any]]) -> None:
        """Add entries at the end."""
        if entries:
            lines = [self._chain.line(entry, last=number == len(entries)) for number, entry in enumerate(entries, 1)]
            with self.path.open("ab") as file:
                file.write(b"".join(lines))


#: An error `{"type", "error", …}`, or of an input that was migrated a warning `{"level", "type", "warning"}`.
Failure = dict[str, Any]
#: Types of warnings: something the user should read, and an input that ends in the middle of a frame.
WARNING, CUT_OFF = "Warning", "CutOff"
#: So many kinds of warnings are told apart.
_MOST_KINDS = 500


def error_document(error: Exception, path: str = "", chosen: Format | None = None) -> Failure:
    """Return an error as a document: its type, its sentence; of an error in the program also where it was.

    `path` and `chosen` say which input was read, and of which format.
    """
    told = plugin_fault(error, [] if chosen is None else [(chosen, f"reading {path}", [path])])
    if told is not None:
        where = {} if isinstance(told, UnsupportedError) else {"traceback": traceback.format_exception(error)[-3:]}
        return {"type": type(told).__name__, "error": " ".join(str(told).split()), **where}
    if isinstance(error, OSError) and not isinstance(error, MolrecError):
        reason = (error.strerror or str(error)).lower()
        text = f"{error.filename}: {reason}" if error.filename else reason
    else:
        text = " ".join(str(error).split()) or type(error).__name__
    document: Failure = {"type": type(error).__name__, "error": text}
    if not isinstance(error, (MolrecError, OSError)):
        document["traceback"] = traceback.format_exception(error)[-3:]
    return document


def warning_document(kind: str, text: str) -> Failure:
    """Return a warning of an input that was migrated as a document; `kind` is its type."""
    return {"level": "warning", "type": kind, "warning": " ".join(text.split())}


def is_error(failure: Failure) -> bool:
    """True if it says of an input, or of a record in it, that it was left out."""
    return failure.get("level") != "warning"


def failure_text(path: str, failure: Failure) -> str:
    """Return one sentence with the input's name in it, once."""
    text: str = failure["error"] if is_error(failure) else failure["warning"]
    return text if path in text else f"{path}: {text}"


def failure_entry(path: str, failure: Failure) -> dict[str, Any]:
    """Return one line of the file of failures as a document."""
    return {"path": path, "level": "error", **failure}


def write_failures(path: Path, failures: Iterable[tuple[str, Failure]]) -> int:
    """Write the file anew; without a failure or a warning there is none. Returns how many there are."""
    return write_lines(path, (failure_entry(where, failure) for where, failure in failures)).count


def read_failures(path: Path) -> Iterator[tuple[str, Failure]]:
    """Yield path and document of each line of a file of failures; nothing where there is none.

    Raises `FormatError` where it is damaged.
    """
    for entry in read_lines(path, "remove it, and what it said is not known any more"):
        yield entry.pop("path"), entry


def join_failures(sources: Iterable[Path], target: Path) -> None:
    """Write what the files of several collections say in one, that of the collection they are merged into."""
    write_failures(target, (entry for source in sources for entry in read_failures(source)))


def remarks_of(failures: Iterable[tuple[str, Failure]], where: str) -> tuple[list[str], list[str]]:
    """Return the warnings of inputs, and where inputs are cut off: of each kind the first, and how many there are.

    `where` names the file that has all of them.
    """
    kinds: dict[tuple[str, str], list[Any]] = {}
    for path, failure in failures:
        if is_error(failure):
            continue
        shape = shape_of(failure["warning"].replace(path, ""))
        kind = (failure["type"], shape)
        if kind not in kinds and len(kinds) >= _MOST_KINDS:
            kind = (failure["type"], "")
        kinds.setdefault(kind, [failure_text(path, failure), 0])[1] += 1
    texts = [
        (kind, text + (f" (and {count - 1:,} more like it: see {where})" if count > 1 else ""))
        for (kind, _), (text, count) in kinds.items()
    ]
    return [text for kind, text in texts if kind == WARNING], [text for kind, text in texts if kind == CUT_OFF]


SUFFIX = ".mrec.lmdb"
#: What is known of an input that was migrated: size, time of change, hash.
Known = tuple[int, int, str]


#: What to do about a file of the state that is damaged.
_AGAIN = "start over with --overwrite"


class State:
    """The files of the migration to `target`, for whoever has the right to write that.

    The directory is there from the first step to the last: what is to be removed is given another name first, in one
    step, so that it is whole for as long as there is something to go on from.
    """

    def __init__(self, target: Path) -> None:
        self.target = Path(os.path.abspath(target))
        name = self.target.name
        stem = name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else self.target.stem
        self.folder = self.target.parent / f".{name}.migration"
        self.partial = self.target.parent / f".{name}.partial"
        self.failures = self.target.parent / f"{stem}.failures.jsonl"
        self.manifest = self.target.parent / f"{stem}.migration.jsonl"
        self.journal, self.log = self.folder / "journal.jsonl", self.folder / "records.log"
        #: What is to be removed.
        self._gone = self.target.parent / f".{name}.migration.gone"
        self._note, self._plan, self._settled, self._finished, self._kept = (
            self.folder / name for name in ("note.json", "plan.json", "settled.json", "finished", "kept.jsonl")
        )

    def begin(self) -> None:
        """Make the directory, where there is none of an earlier attempt; what that left behind otherwise goes."""
        disk.remove(self._gone)
        if not self.folder.is_dir():
            disk.remove(self.partial)
            self.folder.mkdir()
            disk.sync(self.folder.parent)

    def restart(self) -> None:
        """Forget what an earlier attempt left."""
        self.discard()
        self.begin()

    def discard(self) -> None:
        """Remove the state, and the unfinished collection."""
        with suppress(FileNotFoundError):
            os.rename(self.folder, self._gone)
            # what is in it goes when it has its new name for good
            disk.sync(self._gone.parent)
        disk.remove(self._gone)
        disk.remove(self.partial)

    def note(self) -> dict[str, Any] | None:
        """Return the facts an earlier attempt was begun with. Raises `FormatError` where they are damaged, as all of
        these.
        """
        return read_document(self._note, _AGAIN)

    def write_note(self, note: Mapping[str, Any]) -> None:
        """Keep the facts of this one."""
        write_lines(self._note, [note])

    def plan(self) -> dict[str, Any] | None:
        """Return the plan of an earlier attempt, when it was complete."""
        return read_document(self._plan, _AGAIN)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Keep the plan."""
        write_lines(self._plan, [plan])

    def forget_plan(self) -> None:
        """The plan is to be made anew; what was settled stays."""
        disk.remove(self._plan)

    def settled(self) -> dict[str, Any] | None:
        """Return what the values in the file were made for."""
        return read_document(self._settled, _AGAIN)

    def write_settled(self, settled: Mapping[str, Any]) -> None:
        """Keep that."""
        write_lines(self._settled, [settled])

    def keep_failures(self) -> None:
        """Keep what is noted of the inputs of the complete collection that is added to; what failed is tried again."""
        migrated = self.migrated() if self.failures.is_file() else {}
        noted = ((path, entry) for path, entry in read_failures(self.failures) if os.path.abspath(path) in migrated)
        write_failures(self._kept, noted)

    def kept_failures(self) -> Iterator[tuple[str, Failure]]:
        """Yield what was kept."""
        for entry in read_lines(self._kept, _AGAIN):
            yield entry.pop("path"), entry

    def mark_finished(self, manifest: Iterable[Mapping[str, Any]], failures: Iterable[tuple[str, Failure]]) -> None:
        """Everything is ready but for the names: what is left beside the collection lies in the state."""
        write_lines(self.folder / self.manifest.name, manifest)
        noted = write_lines(self.folder / self.failures.name, (failure_entry(*failure) for failure in failures))
        # the name may be that of an older collection, which a set leaves in its place: the system knows which is which
        write_lines(self._finished, [{"number": self.partial.stat().st_ino, "failures": noted.count}])

    @property
    def is_finished(self) -> bool:
        """True if the collection has its name already, and only what lies beside it is to be put there."""
        finished = read_document(self._finished, _AGAIN)
        if finished is None or not self.target.exists():
            return False
        return bool(self.target.stat().st_ino == finished["number"])

    def unmark(self) -> None:
        """The collection is not finished after all."""
        disk.remove(self._finished)

    def leave(self) -> None:
        """Put beside the collection what stays there, and remove the state. May be done again after a kill."""
        finished = read_document(self._finished, _AGAIN)
        assert finished is not None
        # before the state goes, so that a set's older files, which are there now, are not taken for an unfinished one
        disk.remove(self.partial)
        for where in (self.manifest, self.failures):
            with suppress(FileNotFoundError):
                # where it is not there an attempt before this one has put it in its place
                os.replace(self.folder / where.name, where)
        if not finished["failures"]:
            disk.remove(self.failures)
        disk.sync(self.target.parent)
        self.discard()

    def migrated(self) -> dict[str, Known]:
        """Return the inputs the complete collection was made of, by absolute path."""
        return {entry["path"]: (entry["size"], entry["stamp"], entry["hash"]) for entry in self.manifest_entries()}

    def manifest_entries(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the manifest. Raises `FormatError` where it is damaged."""
        yield from read_lines(self.manifest, _AGAIN)


_COMMIT = b'{"commit"'


@dataclass(frozen=True)
class Commit:
    """Where a migration stands: inputs that are finished, and of the next one `skip` records.

    `records` and `frames` are in the file, `log` bytes in the log of records, of which the next input's begin at
    `base` (records, frames, log, duplicates that were left out). `since` and `sum`: the checksum of the log from there.
    """

    inputs: int = 0
    skip: int = 0
    records: int = 0
    frames: int = 0
    log: int = 0
    base: tuple[int, int, int, int] = (0, 0, 0, 0)
    tallies: Mapping[str, int] = field(default_factory=dict)
    since: int = 0
    sum: int = 0


class Point(NamedTuple):
    """A commit in short: where its line is in the journal, and the checksum of that up to its end."""

    start: int
    end: int
    chain: int
    records: int
    log: int
    since: int
    sum: int


_BEGINNING = Point(0, 0, 0, 0, 0, 0, 0)


class Journal:
    """The file at `path`; `last` is the commit it goes on from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: All commits there are, as long as none is made.
        self.points = list(_points(path))
        self._file = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115
        self.go_back(self.points[-1] if self.points else None)

    def go_back(self, point: Point | None) -> None:
        """Forget what follows a commit; without one everything."""
        point = _BEGINNING if point is None else point
        self.last = _commit_at(self.path, point)
        self._chain = Chain(point.chain)
        self._file.truncate(point.end)
        self._file.seek(point.end)

    @staticmethod
    def committed(path: Path) -> Commit:
        """Return the last commit of the journal at a path, which is left as it is."""
        points = list(_points(path))
        return _commit_at(path, points[-1]) if points else Commit()

    @staticmethod
    def failed(path: Path) -> set[int]:
        """Return inputs nothing came of, as they were at fault, up to the last commit of the journal at a path."""
        entries = _entries(path, max((point.end for point in _points(path)), default=0))
        failures = (entry for entry in entries if "failure" in entry)
        return {entry["input"] for entry in failures if "record" not in entry["failure"]}

    def note(self, entry: Mapping[str, Any]) -> None:
        """A line that counts when it is committed."""
        self._file.write(self._chain.line(entry))

    def commit(self, commit: Commit) -> None:
        """Everything up to here counts from now on."""
        self.note({"commit": asdict(commit)})
        self._file.flush()
        os.fsync(self._file.fileno())
        self.last = commit
        self.points = []

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that count, commits left out, in order."""
        self._file.flush()
        yield from _entries(self.path, self._file.tell())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _points(path: Path) -> Iterator[Point]:
    """Yield the commits of a journal, as far as its lines stand."""
    if not path.exists():
        return
    start = 0
    with path.open("rb") as file:
        for line in standing_lines(file):
            if line.text.startswith(_COMMIT):
                facts = line.document()["commit"]
                yield Point(start, line.end, line.sum, *(facts[name] for name in Point._fields[3:]))
            start = line.end


def _commit_at(path: Path, point: Point) -> Commit:
    if not point.end:
        return Commit()
    with path.open("rb") as file:
        file.seek(point.start)
        line = file.read(point.end - point.start)
    # it stands, as all before it does
    document = json.loads(line)["commit"]
    return Commit(**{**document, "base": tuple(document["base"])})


def _entries(path: Path, end: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a journal up to a byte, commits left out."""
    if not end:
        return
    with path.open("rb") as file:
        for line in standing_lines(file):
            if not line.text.startswith(_COMMIT):
                yield line.document()
            if line.end >= end:
                return
