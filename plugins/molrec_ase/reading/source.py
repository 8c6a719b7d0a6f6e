"""Where configurations come from: what `trajectory` and `collection` read, one by one or many at once."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from molrec_ase.chunk import Chunk, Part, join_parts
from molrec_ase.reading.survey import Survey, survey_parts
from molrec_convert.errors import FormatError

__all__ = ["PartSource", "Source"]

#: Configurations that are joined at once, where one is made after another, and atoms of them at most.
_TOGETHER, _ATOMS = 256, 2**17


class Source(ABC):
    """Configurations in order, and what is known of all of them."""

    path: str | None = None
    #: See `Collection.has_rows`.
    has_rows = False
    #: What a database says of itself.
    metadata: dict[str, Any]
    #: Columns nobody asks for, which need not be in chunks.
    unwanted: frozenset[str] = frozenset()

    @abstractmethod
    def __len__(self) -> int: ...

    @functools.cached_property
    def survey(self) -> Survey:
        """What is known of all configurations; for most sources all of them are read to tell."""
        return self._look()

    @property
    def array_survey(self) -> Survey:
        """What of the survey tells the columns and the results; of keys whose values are texts it may say nothing."""
        return self.survey

    @abstractmethod
    def _look(self) -> Survey:
        """Make the survey."""

    def outline(self) -> dict[str, Any]:
        """Return what is to be known to read chunks without a survey, as a document."""
        return {}

    @abstractmethod
    def chunks(self, numbers: Sequence[int], *, numbered: bool = False) -> Iterator[Chunk]:
        """Return some configurations, by their ascending numbers, in chunks.

        With `numbered` a chunk may have `Chunk.numbers` in the place of its elements.
        """

    def values(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield some values of every configuration, those it has."""
        for chunk in self.chunks(range(len(self))):
            for number in range(len(chunk)):
                entries = ((name, chunk.values.get(name)) for name in names)
                yield {name: entry[number] for name, entry in entries if entry is not None}

    def close(self) -> None:  # noqa: B027 - most sources hold no file
        """Let go of the file."""


class PartSource(Source):
    """Configurations made one by one by a function of their number."""

    def __init__(
        self,
        count: int,
        make: Callable[[int], Part],
        *,
        path: str | None = None,
        metadata: dict[str, Any] | None = None,
        close: Callable[[], None] | None = None,
        has_rows: bool = False,
    ) -> None:
        self.has_rows = has_rows
        self._count, self._make, self._close, self.path = count, make, close, path
        self.metadata = metadata or {}

    def __len__(self) -> int:
        return self._count

    def _look(self) -> Survey:
        return survey_parts(self._told(number) for number in range(self._count))

    def _told(self, number: int) -> Part:
        """Return a configuration; of a row at fault, which whoever reads it is told of, nothing."""
        try:
            return self._make(number)
        except FormatError:
            if not self.has_rows:
                raise
            return Part(0)

    def chunks(self, numbers: Sequence[int], *, numbered: bool = False) -> Iterator[Chunk]:
        """See `Source.chunks`."""
        parts: list[Part] = []
        atoms = 0
        for number in numbers:
            parts.append(self._make(number))
            atoms += parts[-1].count
            if len(parts) == _TOGETHER or atoms >= _ATOMS:
                yield join_parts(parts)
                parts, atoms = [], 0
        if parts:
            yield join_parts(parts)

    def close(self) -> None:
        """See `Source.close`."""
        if self._close is not None:
            self._close()
            self._close = None
