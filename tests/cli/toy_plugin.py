"""A small format for tests of the command line: every fate of a source, told by its lines.

`#toy`, then one line for each frame (`step x`), or `drop NAME`, `derive NAME`, `warn TEXT`, `cut`,
`interrupt [IF-FILE]`, `full`.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from molrec_convert import Capability, Format, FormatError, FrameBatch, Record, Trajectory, hookimpl, option
from molrec_convert.formats import ReadContext
from molrec_convert.model import BATCH_BYTES, BlockDeclaration, BlockUpdates, ColumnDeclaration, Declaration


@dataclass(frozen=True)
class ToyOptions:
    """One option of each kind."""

    toy_scale: float = option(1.0, "multiply x by this")
    toy_flag: bool = option(False, "report a warning")
    toy_words: tuple[str, ...] = option((), "warn of these words")
    toy_mode: str = option("plain", "how to read", choices=("plain", "fancy"))
    toy_shift: bool = option(True, "add nothing")


class ToyTrajectory(Trajectory):
    """Frames of one atom, one a batch."""

    def __init__(self, lines: Sequence[tuple[int, str]], path: Path, context: ReadContext) -> None:
        super().__init__()
        self.lines, self.path, self.context = lines, path, context
        column = ColumnDeclaration("f64")
        self.declaration = Declaration({"atoms": BlockDeclaration({"x": column, "y": column, "z": column}, rows=1)})

    @property
    def n_frames(self) -> int | None:
        return None

    def batches(
        self,
        start: int = 0,
        stop: int | None = None,
        step: int = 1,
        columns: Iterable[str] | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[FrameBatch]:
        self.context.progress.start("toy", None)
        report = self.context.report
        wanted = self.declaration.select(columns).blocks
        ordinals = itertools.count()
        for number, line in self.lines:
            word, _, rest = line.partition(" ")
            if word == "cut":
                report.truncated(f"{self.path}, line {number}: the last frame is cut off")
                return
            if word == "interrupt" and not rest:
                raise KeyboardInterrupt
            if word == "interrupt":
                # Interrupts as long as the file it names is there, so that the source itself stays as it is.
                if Path(rest).exists():
                    raise KeyboardInterrupt
                continue
            if word == "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if not word.lstrip("-").isdigit():
                raise FormatError(self.path, f"line {number}", found=repr(word), expected="a step")
            seen = next(ordinals)
            if seen >= start and (stop is None or seen < stop) and (seen - start) % step == 0:
                yield self._batch(int(word), float(rest), wanted)
                self.context.progress.advance(1, 24)

    def _batch(self, step: int, x: float, wanted: Any) -> FrameBatch:
        values = {"x": x * self.context.options.toy_scale, "y": 0.25, "z": 0.5}
        blocks = {
            name: BlockUpdates.uniform(1, 1, {key: np.array([values[key]]) for key in block.columns})
            for name, block in wanted.items()
        }
        return FrameBatch(np.array([step]), None, blocks)


def read(paths: Sequence[Path], context: ReadContext) -> Record:
    """The record of one toy file."""
    frames = []
    for number, line in enumerate(paths[0].read_text().splitlines()[1:], start=2):
        word, _, rest = line.partition(" ")
        if word == "drop":
            context.report.dropped(rest, "toys have no place for it")
        elif word == "derive":
            context.report.derived(rest, "from nothing")
        elif word == "warn":
            context.report.warn(rest)
        elif line:
            frames.append((number, line))
    if context.options.toy_flag:
        context.report.warn("the flag is up")
    for word in context.options.toy_words:
        context.report.warn(f"word {word}")
    return Record(trajectory=ToyTrajectory(frames, paths[0], context))


def sniff(head: bytes, path: Path) -> float:
    return 1.0 if head.startswith(b"#toy") else 0.0


@hookimpl
def molrec_formats() -> list[Format]:
    """The toy, and a second format that has some of its options."""
    return [
        Format(
            "toy",
            "Toy frames",
            ("*.toy",),
            sniff,
            reads=read,
            read_options=ToyOptions,
            carries={"trajectory": Capability("exact"), "system": Capability("guessed", "none")},
        ),
        Format("toy2", "Toy frames again", ("*.toy2",), reads=read, read_options=ToyOptions),
    ]


@hookimpl
def molrec_commands(app: Any) -> None:
    """One command."""
    import click

    @app.command("toys", short_help="Count toys.")
    def toys() -> None:
        click.echo("no toys")
