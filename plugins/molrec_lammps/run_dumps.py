"""The dumps of a run: which files each has, and which of them is the trajectory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from molrec_convert.errors import MolrecError, UsageError
from molrec_convert.report import Report
from molrec_lammps.dump_header import CutHeader, read_header
from molrec_lammps.dump_source import LineReader, open_source
from molrec_lammps.run_discovery import Sources, ambiguous, left_out, natural
from molrec_lammps.run_settings import DumpCommand, Settings
from molrec_lammps.script import COMPRESSED, find_file

__all__ = ["DumpFiles", "choose_dumps"]

_DIGITS = re.compile(r"\d+")


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


def choose_dumps(sources: Sources, settings: Settings | None, report: Report) -> list[DumpFiles]:
    """The dumps of the run, the trajectory first: in the order of the script, or those that content shows.

    Files that are named by the user are one dump unless the script tells them apart.
    """
    named = sources.named["dump"]
    pool = named or sources.found["dump"]
    dumps: list[DumpFiles] = []
    taken: set[Path] = set()
    for command in [] if settings is None else settings.dumps:
        if not command.readable:
            taken |= set(_unreadable(command, sources, report))
            continue
        files = _files_of(command, sources, named)
        again = next((n for n, dump in enumerate(dumps) if set(dump.files) & set(files)), None)
        if again is not None:
            dumps[again] = _written_again(dumps[again], command)
        elif files and _whole(command, files, report):
            dumps.append(DumpFiles(files, command))
        elif not files and not named:
            report.warn(f"{command.text!r} names a dump that is not there")
        taken |= set(files)
    rest = [path for path in pool if path not in taken]
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


def _whole(command: DumpCommand, files: Sequence[Path], report: Report) -> bool:
    """Whether the files hold whole frames: those of several processors (`%`) do not."""
    if "%" not in command.file:
        return True
    parts = {re.sub(_DIGITS, "", path.name) for path in files}
    ranks = {number for path in files if (number := _rank(command.file, path)) is not None}
    if len(parts) == 1 and ranks == {"0"}:
        return True
    report.dropped(
        f"dump {command.id} ({command.file})",
        "files of single processors are not put together; LAMMPS' read_dump and rerun join them",
    )
    return False


def _rank(pattern: str, path: Path) -> str | None:
    name = re.escape(Path(pattern).name).replace("%", "(?P<rank>[0-9]+)").replace(re.escape("*"), "-?[0-9]+")
    match = re.match(name, path.name)
    return None if match is None else match["rank"]


def _unreadable(command: DumpCommand, sources: Sources, report: Report) -> tuple[Path, ...]:
    """The files of a dump that is no text with atoms; reported."""
    files = _files_of(command, sources, [])
    if files:
        what = "a binary dump" if command.file.endswith(".bin") else f"a dump of style {command.style}"
        report.dropped(f"dump {command.id} ({command.file})", f"{what} is not read with a run")
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
            header = read_header(LineReader(source))
            source.close()
            columns, begins[path] = header.columns, header.step
        except (MolrecError, CutHeader, OSError):
            pass  # its reader says what is wrong with it
        groups.setdefault((_DIGITS.sub("*", path.name), columns), []).append(path)
    if len(groups) > 1:
        raise ambiguous("dumps", paths, sources)
    steps = [begins[path] for path in paths]
    if len(paths) > 1 and len(set(steps)) != len(steps):
        raise ambiguous("dumps", paths, sources)
    return [DumpFiles(tuple(sorted(paths, key=natural)))]
