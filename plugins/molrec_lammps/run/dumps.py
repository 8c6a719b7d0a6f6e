"""The dumps of a run: which files each has, and which of them is the trajectory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from molrec_convert.errors import MolrecError, UnsupportedError, UsageError
from molrec_convert.report import Report
from molrec_lammps.common.units import UNITS
from molrec_lammps.detect import read_head
from molrec_lammps.dump.frames import series_of
from molrec_lammps.dump.header import CutHeader
from molrec_lammps.dump.index import first_header
from molrec_lammps.dump.parts import in_pieces
from molrec_lammps.dump.sidecar.items import dump_kind, how_to_read
from molrec_lammps.dump.source import open_source
from molrec_lammps.run.discovery import Sources, ambiguous, left_out, natural
from molrec_lammps.run.settings import DumpCommand, Settings
from molrec_lammps.script.script import COMPRESSED, find_file

__all__ = ["DumpFiles", "choose_beside", "choose_dumps", "units_of_dumps"]

_DIGITS = re.compile(r"\d+")
#: What a text dump and a YAML dump state of their units.
_UNITS = re.compile(rb"^(?:ITEM: UNITS\s*\n\s*([a-z]+)|units:\s*([a-z]+))\s*$", re.MULTILINE)


@dataclass(frozen=True)
class DumpFiles:
    """The files of one dump in order, and the command that wrote them (None: not known)."""

    files: tuple[Path, ...]
    command: DumpCommand | None = None

    @property
    def name(self) -> str:
        """The dump, for messages."""
        files = self.files[0].name if len(self.files) == 1 else f"{self.files[0].name} … {self.files[-1].name}"
        return files if self.command is None else f"dump {self.command.id} ({files})"


def units_of_dumps(dumps: Sequence[DumpFiles]) -> str | None:
    """The units style that the beginning of a dump states, None where none does."""
    for dump in dumps:
        stated = _UNITS.search(read_head(dump.files[0]))
        if stated is not None and (word := (stated[1] or stated[2]).decode()) in UNITS:
            return word
    return None


def choose_dumps(
    sources: Sources, settings: Settings | None, report: Report, besides: Sequence[DumpFiles] | None = None
) -> list[DumpFiles]:
    """The dumps of the run, the trajectory first: in the order of the script, or those that content shows.

    `besides` are the local and grid dumps. Files that are named by the user are one dump unless the script tells them
    apart. UnsupportedError: one of these is of a kind that is not read.
    """
    besides = choose_beside(sources, settings, Report()) if besides is None else besides
    beside = {path for dump in besides for path in dump.files}
    named = [path for path in sources.named["dump"] if path not in beside]
    for path in named:
        dump_kind(path)
    pool = named or [path for path in sources.found["dump"] if path not in beside]
    dumps: list[DumpFiles] = []
    taken: set[Path] = set()
    for command in [] if settings is None else settings.dumps:
        if command.beside:
            continue
        if not command.readable:
            taken |= set(_unreadable(command, sources, report))
            continue
        files = _files_of(command, sources, named)
        again = next((n for n, dump in enumerate(dumps) if set(dump.files) & set(files)), None)
        if again is not None:
            dumps[again] = _written_again(dumps[again], command)
        elif files:
            dumps.append(DumpFiles(files, command))
        elif not files and not named:
            report.warn(f"{command.text!r} names a dump that is not there")
        taken |= set(files)
    rest = [path for path in pool if path not in taken]
    rest = rest if named else _of_atoms(rest, report)
    if dumps:
        if named and rest:
            raise UsageError(
                f"{rest[0]}: the script does not write this dump but {', '.join(dump.name for dump in dumps)}; "
                "name the dumps of one run only"
            )
        left_out(report, rest, "the commands of the run do not write it")
        return dumps
    if named:
        return [DumpFiles(tuple(named))]
    return _series(rest, sources) if rest else []


def choose_beside(sources: Sources, settings: Settings | None, report: Report) -> list[DumpFiles]:
    """The local and grid dumps of the run: those its script names, else those the user names or a directory has."""
    named = sources.named["dump"]
    dumps: list[DumpFiles] = []
    taken: set[Path] = set()
    for command in [] if settings is None else settings.dumps:
        if not command.beside:
            continue
        there = _files_of(command, sources, named)
        files = tuple(path for path in there if path not in taken)
        if files:
            dumps.append(DumpFiles(files, command))
        elif not there and not named:
            report.warn(f"{command.text!r} names a dump that is not there")
        taken |= set(files)
    commanded = settings is not None and bool(settings.dumps)
    pool = named if named or commanded else sources.found["dump"]
    rest = [path for path in pool if path not in taken and _kind(path) in ("local", "grid")]
    return [*dumps, *(DumpFiles(files) for files in series_of(rest))]


def _kind(path: Path) -> str | None:
    """What a dump holds; None where it is none that is read."""
    try:
        return dump_kind(path)
    except (MolrecError, OSError):
        return None


def _of_atoms(paths: Sequence[Path], report: Report) -> list[Path]:
    """Without the binary dumps of a directory."""
    kept = []
    for path in paths:
        try:
            dump_kind(path)
        except UnsupportedError as error:
            report.dropped(path.name, str(error))
            continue
        except (MolrecError, OSError):
            pass  # its reader says what is wrong with it
        kept.append(path)
    return kept


def _files_of(command: DumpCommand, sources: Sources, named: Sequence[Path]) -> tuple[Path, ...]:
    """The files a dump command wrote: of those the user named, else of those where the run is."""
    pattern = command.file
    if named:
        name = _as_pattern(Path(pattern).name)
        return tuple(path for path in named if name.fullmatch(path.name))
    if "*" not in pattern and "%" not in pattern:
        path = find_file(pattern, sources.folders)
        return () if path is None else (path,)
    for folder in sources.folders:
        for parent in dict.fromkeys((folder / Path(pattern).parent, folder)):
            if parent.is_dir():
                name = _as_pattern(Path(pattern).name)
                files = [path for path in parent.iterdir() if name.fullmatch(path.name) and path.is_file()]
                if files:
                    return tuple(sorted(files, key=natural))
    return ()


def _as_pattern(name: str) -> re.Pattern[str]:
    """Names a dump command writes: numbers for `*` and `%`; the file may have been compressed since."""
    suffixes = "|".join(re.escape(suffix) for suffix in COMPRESSED)
    return re.compile("-?[0-9]+".join(re.escape(part) for part in re.split("[*%]", name)) + f"({suffixes})?")


def _written_again(dump: DumpFiles, command: DumpCommand) -> DumpFiles:
    """A dump whose files a later command adds to, or overwrites."""
    if dump.command is None or not command.append:
        return replace(dump, command=command)
    return replace(dump, command=replace(command, timesteps=dump.command.timesteps | command.timesteps))


def _unreadable(command: DumpCommand, sources: Sources, report: Report) -> tuple[Path, ...]:
    """The files of a dump that is not read with a run; reported, with what reads it."""
    files = _files_of(command, sources, [])
    if files:
        style = command.style.partition("/")[0]
        why = command.unreadable or f"a dump of style {style} is not read with a run; {how_to_read(style, list(files))}"
        report.dropped(f"dump {command.id} ({command.file})", why)
    return files


def _series(paths: Sequence[Path], sources: Sources) -> list[DumpFiles]:
    """Dumps found by content: one file, or files of one name but for numbers, each beginning at a step of its own."""
    groups: dict[tuple[str, tuple[str, ...] | None], list[Path]] = {}
    begins: dict[Path, int | None] = {}
    for path in paths:
        columns: tuple[str, ...] | None = None
        begins[path] = None
        try:
            source = open_source(path)
            header = first_header(source)
            source.close()
            columns, begins[path] = header.columns, header.step
        except (MolrecError, CutHeader, OSError):
            pass  # its reader says what is wrong with it
        groups.setdefault((_DIGITS.sub("*", path.name), columns), []).append(path)
    if len(groups) > 1:
        raise ambiguous("dumps", paths, sources)
    steps = [begins[path] for path in paths]
    if len(paths) > 1 and len(set(steps)) != len(steps) and not in_pieces(paths):
        raise ambiguous("dumps", paths, sources)
    return [DumpFiles(tuple(sorted(paths, key=natural)))]
