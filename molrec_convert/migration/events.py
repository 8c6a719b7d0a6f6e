"""What worker processes tell of inputs they encode, in the order of the inputs.

`Frames` and `Entry` of records, then `Done` or `Failed` of their input; `Restart` takes back what was sent of an input
so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from molrec_convert.migration.failures import Failure

__all__ = ["Again", "Done", "Entry", "Event", "Failed", "Frames", "Items", "Many", "Restart", "RowFailed"]


@dataclass(slots=True)
class Frames:
    """Values of frames of the record that is being read."""

    input: int
    values: list[bytes]


@dataclass(slots=True)
class Entry:
    """A record whose frames have all been sent: its number of frames, its entry in the log, a digest of its content."""

    input: int
    n_frames: int
    entry: bytes
    digest: bytes


@dataclass(slots=True)
class Many:
    """Records of one frame each that follow each other in an input: values, entries and digests, if any, of all."""

    input: int
    values: list[bytes]
    entries: list[bytes]
    digests: list[bytes]

    def single(self) -> Iterator[Frames | Entry]:
        """The same record by record."""
        digests = self.digests or [b""] * len(self.entries)
        for value, entry, digest in zip(self.values, self.entries, digests, strict=True):
            yield Frames(self.input, [value])
            yield Entry(self.input, 1, entry, digest)


@dataclass(slots=True)
class Restart:
    """What was sent of an input is to be forgotten: it is read again in another layout."""

    input: int


@dataclass(slots=True)
class Again:
    """Frames of a record that was not sent whole are to be forgotten: the record is read again."""

    input: int


@dataclass(slots=True)
class Items:
    """What became of items of an input of which a span is whole, and others follow."""

    input: int
    items: list[tuple[str, str, str]]


@dataclass(slots=True)
class Done:
    """An input is whole: the hash of its content, and what became of its items (fate, name, detail)."""

    input: int
    digest: str
    items: list[tuple[str, str, str]]
    aside: bool = False


@dataclass(slots=True)
class Failed:
    """An input is at fault; what was sent of it is to be forgotten."""

    input: int
    failure: Failure


@dataclass(slots=True)
class RowFailed:
    """One record of a database is at fault; what was sent of its frames is to be forgotten."""

    input: int
    record: int
    failure: Failure


Event = Frames | Entry | Many | Restart | Again | Items | Done | Failed | RowFailed
