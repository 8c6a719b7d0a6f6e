"""Which files of a directory, or of those a user names, make up a run.

Files the user names come first, then those the script (or the commands echoed in a log) names, then those whose
content alone tells. Where several files could be meant and nothing decides, the error lists them and how to name one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from molrec_convert.errors import FormatError, MolrecError, UnsupportedError, UsageError
from molrec_convert.report import Report
from molrec_lammps.common.units import UNITS
from molrec_lammps.detect import kind_of, read_head, refuse_restart
from molrec_lammps.dump.frames import series_of
from molrec_lammps.dump.header import CutHeader
from molrec_lammps.dump.index import first_header
from molrec_lammps.dump.parts import in_pieces
from molrec_lammps.dump.sidecar.items import dump_kind, how_to_read
from molrec_lammps.dump.source import open_source
from molrec_lammps.log.log import Log, read_log
from molrec_lammps.run.settings import DumpCommand, Settings
from molrec_lammps.script.script import COMPRESSED, Script, find_file, read_script

__all__ = [
    "DumpFiles",
    "Sources",
    "ambiguous",
    "choose_beside",
    "choose_data",
    "choose_dumps",
    "classify",
    "find_logs",
    "find_script",
    "left_out",
    "natural",
    "runs_of",
    "units_of_dumps",
]

_KINDS = {
    "script": "an input script",
    "data": "a data file",
    "dump": "a dump",
    "log": "a log",
    "ave": "a file of averages",
}


@dataclass
class Sources:
    """What the user named. `named`: files by kind, in order; `found`: those of the directories named.

    `folders` are where names in a script are looked up: the directories named, and those of the files.
    """

    named: dict[str, list[Path]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    found: dict[str, list[Path]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    folders: list[Path] = field(default_factory=list)
    directories: list[Path] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The run, for messages."""
        first = self.directories or [path for paths in self.named.values() for path in paths]
        return str(first[0]) if first else "the run"

    @property
    def only_logs(self) -> bool:
        """Whether logs are all the user named: that other files of the run are not there is no news then."""
        return not self.directories and not any(paths for kind, paths in self.named.items() if kind != "log")

    def all(self, kind: str) -> list[Path]:
        """Return files of a kind: those named, else those found."""
        return self.named[kind] or self.found[kind]


def classify(paths: Sequence[Path]) -> Sources:
    """Sort paths by what they are. A file that is nothing of LAMMPS', or a directory without any, is an error."""
    sources = Sources()
    for path in paths:
        if path.is_dir():
            sources.directories.append(path)
            sources.folders.append(path)
            for file in sorted(path.iterdir(), key=natural):
                kind = kind_of(file) if file.is_file() and not file.name.startswith(".") else None
                if kind is not None:
                    sources.found[kind].append(file)
            continue
        if not path.exists():
            raise UsageError(f"{path}: no such file or directory")
        kind = kind_of(path)
        if kind is None:
            head = read_head(path)
            refuse_restart(head, path)
            if not head and not path.stat().st_size:
                raise FormatError(path, found="an empty file", expected="an input script, a data file, a dump or a log")
            raise UsageError(f"{path}: is no LAMMPS input script, data file, text dump or log")
        sources.named[kind].append(path)
        sources.folders.append(path.parent)
    sources.folders = list(dict.fromkeys(sources.folders))
    if not any(sources.named.values()) and not any(sources.found.values()):
        raise UsageError(f"{sources.where}: holds no LAMMPS input script, data file, text dump or log")
    return sources


def runs_of(paths: Sequence[Path]) -> list[Sources]:
    """Return the runs that paths are: each directory with a script, a log or a dump by itself where there are several.

    Other files and directories named beside several runs belong to each of them; beside one, or none, all are one run.
    """
    runs = [path for path in paths if len(paths) > 1 and path.is_dir() and _is_run(path)]
    if len(runs) < 2:
        return [classify(paths)]
    shared = [path for path in paths if path not in runs]
    return [classify([path, *shared]) for path in runs]


def _is_run(directory: Path) -> bool:
    """True if a directory has a script, a log or a dump."""
    files = (file for file in directory.iterdir() if file.is_file() and not file.name.startswith("."))
    return any(kind_of(file) in ("script", "log", "dump") for file in files)


def find_script(sources: Sources, logs: Sequence[Log], report: Report) -> Script | None:
    """Return the script of the run: the one named, else the only one that no other includes, else the one a log
    echoes.
    """
    candidates = sources.all("script")
    if not candidates:
        return None
    scripts = [read_script(path, path.parent) for path in candidates]
    included = {file.resolve() for script in scripts for file in script.files[1:]}
    scripts = [script for script in scripts if script.path.resolve() not in included] or scripts
    if len(scripts) > 1:
        echoed = [script for script in scripts if _echoed(script, logs)]
        apart = bool(sources.named["script"]) and len({script.path.parent for script in scripts}) > 1
        if len(echoed) != 1 or apart:
            raise ambiguous("input scripts", [script.path for script in scripts], sources)
        report.derived(
            "input script",
            f"{echoed[0].path.name}, whose commands the log echoes; not "
            + ", ".join(script.path.name for script in scripts if script is not echoed[0]),
        )
        scripts = echoed
    return scripts[0]


def find_logs(sources: Sources, report: Report, names: Iterable[str] = ()) -> list[Log]:
    """Return the logs of the run in order: those named, else `log.lammps` and those `names` of the script, else the
    only one.

    Of several that hold the same thermo rows (the log and the screen output) the first counts.
    """
    if sources.named["log"] or not (sources.directories or sources.named["script"]):
        return [read_log(path) for path in sources.named["log"]]
    wanted = [find_file(name, sources.folders) for name in ("log.lammps", *names)]
    files = list(dict.fromkeys(path for path in wanted if path is not None and kind_of(path) == "log"))
    if files:
        left_out(report, [path for path in sources.found["log"] if path not in files], "it is not the log of the run")
        return [read_log(path) for path in files]
    logs = [read_log(path) for path in sources.found["log"]]
    different: list[Log] = []
    for log in logs:
        if not any(_same_run(log, other) for other in different):
            different.append(log)
    if len(different) > 1:
        raise ambiguous("logs", [log.path for log in different], sources)
    return different


def choose_data(sources: Sources, settings: Settings | None, report: Report) -> Path | None:
    """Return the data file that says what the atoms of the run are, or None.

    The one named; else the one the script reads, unless the run renumbers its atoms afterwards; else one the run
    writes; else the only one of a directory whose script, if any, does not build its atoms itself.
    """
    named = sources.named["data"]
    if len(named) > 1:
        read = _read_by(settings, sources)
        if read not in named:
            raise ambiguous("data files", named, sources)
        left_out(report, [path for path in named if path != read], "the script reads another data file")
        return read
    if named:
        return named[0]
    others = list(sources.found["data"])
    chosen = None if settings is None else _data_of_script(sources, settings, report)
    if chosen is None and (settings is None or not (settings.data or settings.created)):
        if len(others) > 1:
            raise ambiguous("data files", others, sources)
        chosen = others[0] if others else None
        if chosen is not None and settings is not None:
            report.derived("data file", f"{chosen.name}, the only one there; the commands do not name it")
    read = None if settings is None or not settings.data else find_file(settings.data[0][0], sources.folders)
    if chosen is not None and settings is not None and settings.altered and read in others and read != chosen:
        report.converted(read.name, f"the system before {settings.altered}; {chosen.name} has the one behind it")
        others.remove(read)
    left_out(report, [path for path in others if path != chosen], "it is not the data file of the run")
    return chosen


def _data_of_script(sources: Sources, settings: Settings, report: Report) -> Path | None:
    if settings.data and settings.altered and not settings.renumbered and len(settings.data) == 1:
        written = _written(sources, settings)
        if written is not None:
            report.derived("data file", f"{written.name}, which the run wrote after {settings.altered}")
            return written
    if settings.data:
        name = settings.data[0][0]
        joined = len(settings.data) > 1
        path = find_file(name, sources.folders)
        if path is None:
            report.dropped(f"read_data {name}", "the data file is not there")
        elif joined or settings.renumbered:
            why = "the run reads several data files" if joined else f"{settings.renumbered} makes other atoms of it"
            report.dropped(f"read_data {name}", f"{why}, so that it does not describe the run's atoms")
        else:
            return path
    written = _written(sources, settings)
    if written is not None:
        report.derived("data file", f"{written.name}, which the run wrote")
    return written


def _written(sources: Sources, settings: Settings) -> Path | None:
    """Return the last data file the run wrote that is there."""
    found = (find_file(name, sources.folders) for name in reversed(settings.written))
    return next((path for path in found if path is not None and kind_of(path) == "data"), None)


def _read_by(settings: Settings | None, sources: Sources) -> Path | None:
    if settings is None or not settings.data:
        return None
    name = Path(settings.data[0][0]).name
    return next((path for path in sources.named["data"] if path.name == name), None)


def _echoed(script: Script, logs: Sequence[Log]) -> bool:
    """True if the logs echo the commands of the script."""
    echoed = {command.text.split("#")[0].strip() for log in logs for command in log.commands}
    typed = [command.text.split("#")[0].strip() for command in script.commands]
    return bool(typed) and sum(text in echoed for text in typed) >= 0.9 * len(typed)


def _same_run(log: Log, other: Log) -> bool:
    return len(log.runs) == len(other.runs) and all(
        mine.table.header == theirs.table.header and np.array_equal(mine.table.values, theirs.table.values, True)
        for mine, theirs in zip(log.runs, other.runs, strict=True)
    )


def left_out(report: Report, paths: Iterable[Path], why: str) -> None:
    """Report files of a directory that are no part of the record."""
    for path in paths:
        report.dropped(path.name, f"{why}; mrec convert {path} {path.stem}.mrec converts it")


def ambiguous(what: str, paths: Sequence[Path], sources: Sources) -> UsageError:
    """Return the error where several files could be meant: which they are, and how to name one."""
    folders = list(dict.fromkeys(path.parent for path in paths))
    names = [path.name if len(folders) == 1 else str(path) for path in paths[:8]]
    shown = ", ".join(names) + (f" and {len(paths) - 8} more" if len(paths) > 8 else "")
    if len(folders) > 1:
        return UsageError(
            f"several {what} are named, {shown}, and a run has one: name the files of one run, or the directories of "
            f"runs that continue one another: mrec convert {' '.join(map(str, folders[:3]))} run.mrec"
        )
    return UsageError(
        f"{sources.where}: holds several {what}: {shown}; name the files of one run instead of the directory, "
        f"like: mrec convert {paths[0]} … run.mrec"
    )


def natural(path: Path) -> list[tuple[int, int, str]]:
    """Sort key: numbers in a name by value."""
    parts = re.split(r"(\d+)", path.name)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


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
    """Return the units style that the beginning of a dump states, None where none does."""
    for dump in dumps:
        stated = _UNITS.search(read_head(dump.files[0]))
        if stated is not None and (word := (stated[1] or stated[2]).decode()) in UNITS:
            return word
    return None


def choose_dumps(
    sources: Sources, settings: Settings | None, report: Report, besides: Sequence[DumpFiles] | None = None
) -> list[DumpFiles]:
    """Return the dumps of the run, the trajectory first: in the order of the script, or those that content shows.

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
    """Return the local and grid dumps of the run: those its script names, else those the user names or a directory
    has.
    """
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
    """Return what a dump holds; None where it is none that is read."""
    try:
        return dump_kind(path)
    except (MolrecError, OSError):
        return None


def _of_atoms(paths: Sequence[Path], report: Report) -> list[Path]:
    """Return without the binary dumps of a directory."""
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
    """Return the files a dump command wrote: of those the user named, else of those where the run is."""
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
    """Return names a dump command writes: numbers for `*` and `%`; the file may have been compressed since."""
    suffixes = "|".join(re.escape(suffix) for suffix in COMPRESSED)
    return re.compile("-?[0-9]+".join(re.escape(part) for part in re.split("[*%]", name)) + f"({suffixes})?")


def _written_again(dump: DumpFiles, command: DumpCommand) -> DumpFiles:
    """Return a dump whose files a later command adds to, or overwrites."""
    if dump.command is None or not command.append:
        return replace(dump, command=command)
    return replace(dump, command=replace(command, timesteps=dump.command.timesteps | command.timesteps))


def _unreadable(command: DumpCommand, sources: Sources, report: Report) -> tuple[Path, ...]:
    """Return the files of a dump that is not read with a run; reported, with what reads it."""
    files = _files_of(command, sources, [])
    if files:
        style = command.style.partition("/")[0]
        why = command.unreadable or f"a dump of style {style} is not read with a run; {how_to_read(style, list(files))}"
        report.dropped(f"dump {command.id} ({command.file})", why)
    return files


def _series(paths: Sequence[Path], sources: Sources) -> list[DumpFiles]:
    """Return dumps found by content: one file, or files of one name but for numbers, each beginning at a step of its
    own.
    """
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
