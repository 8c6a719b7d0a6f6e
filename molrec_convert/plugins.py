"""The plugin manager: which plugins there are, the formats they bring, and which format a path is of.

`MOLREC_LOAD_PLUGINS` (names, comma separated; empty: none) limits which installed plugins load;
`MOLREC_TRACE_PLUGINS=1` prints on stderr what loads and which hooks are called. The stores are a plugin like any
other and always there.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pluggy

from molrec_convert import hookspecs
from molrec_convert.errors import FormatError, MissingInputError, MolrecError, PluginError, UnsupportedError, UsageError
from molrec_convert.files.regular_files import open_regular
from molrec_convert.formats import Format, missing_library
from molrec_convert.text.compression import Decompressed, head_of

if TYPE_CHECKING:
    from molrec_convert.model.forcefield.registry import Registry

__all__ = [
    "Use",
    "detect",
    "detect_target",
    "format_named",
    "formats",
    "formats_of",
    "naming_faults",
    "plugin_fault",
    "plugin_manager",
    "plugin_names",
    "problems",
    "read_head",
    "style_registry",
]

GROUP = "molrec_convert"
HEAD = 64 * 2**10
_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
#: The file of an LMDB environment that is a folder.
_LMDB_FILE = "data.mdb"
_problems: list[str] = []


@functools.cache
def plugin_manager() -> pluggy.PluginManager:
    """Return the one plugin manager, with every plugin that loads registered."""
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    manager.register(importlib.import_module("molrec_convert.stores.plugin"), name="stores")
    for entry in _installed():
        try:
            plugin = entry.load()
            if not manager.has_plugin(entry.name):
                manager.register(plugin, name=entry.name)
            _trace(f"loaded {entry.name} ({entry.value})")
        except Exception as error:  # a plugin is foreign code: whatever it raises, the others go on
            _problems.append(f"the plugin {entry.name!r} ({entry.value}) is skipped: {type(error).__name__}: {error}")
            _trace(_problems[-1])
    if _tracing():
        manager.add_hookcall_monitoring(
            lambda name, implementations, arguments: _trace(
                f"{name} -> {', '.join(i.plugin_name for i in implementations) or 'nobody'}"
            ),
            lambda outcome, name, implementations, arguments: None,
        )
    return manager


def plugin_names() -> list[str]:
    """Return names of the plugins in use, the stores first."""
    return [name for name, plugin in plugin_manager().list_name_plugin() if plugin is not None]


def problems() -> list[str]:
    """Return one sentence for each plugin that was skipped."""
    plugin_manager()
    formats()
    return list(_problems)


@functools.cache
def formats() -> dict[str, Format]:
    """Return all formats by name. Two plugins that claim one name are an error; a plugin that fails is named and
    skipped.
    """
    found: dict[str, Format] = {}
    owner: dict[str, str] = {}
    for name, brought in _brought("molrec_formats"):
        for entry in brought:
            if entry.name in found:
                raise UsageError(
                    f"the plugins {owner[entry.name]!r} and {name!r} both bring a format {entry.name!r}: "
                    f"remove one, or name those to load in MOLREC_LOAD_PLUGINS"
                )
            found[entry.name] = entry
            owner[entry.name] = name
    return found


def formats_of(plugin: str) -> dict[str, Format]:
    """Return the formats one plugin brings, by name."""
    return {entry.name: entry for name, brought in _brought("molrec_formats") if name == plugin for entry in brought}


@functools.cache
def style_registry() -> Registry:
    """Return the styles of the contract and those of the plugins; a plugin whose styles clash is named and skipped."""
    from molrec_convert.model.forcefield.registry import STANDARD

    registry = STANDARD
    for name, brought in _brought("molrec_styles"):
        try:
            registry = registry.extended(brought)
        except Exception as error:  # foreign data, as above
            _problems.append(f"the styles of the plugin {name!r} are skipped: {type(error).__name__}: {error}")
    return registry


def format_named(name: str) -> Format:
    """Return the format of that name, or an error that lists the names there are."""
    known = formats()
    if name not in known:
        raise UsageError(f"there is no format {name!r}; there are {', '.join(sorted(known))}")
    return known[name]


def detect(paths: Sequence[Path]) -> Format:
    """Return the format of one source: by content first, by name second.

    Several paths are one source when one format takes them all, or combines theirs (a data file and a dump).
    """
    if not paths:
        raise UsageError("no input is named")
    if len(paths) == 1:
        return _detect_one(paths[0])
    each = [_detect_one(path) for path in paths]
    names = {entry.name for entry in each}
    if len(names) == 1 and each[0].many_inputs:
        return each[0]
    combining = [entry for entry in formats().values() if names <= {entry.name, *entry.combines}]
    if not combining:
        combining = [entry for entry in formats().values() if entry.name in names <= {entry.name, *entry.sidecar_of}]
    if len(combining) == 1:
        return combining[0]
    listing = ", ".join(f"{path} is {entry.name}" for path, entry in zip(paths, each, strict=True))
    raise UsageError(
        f"these inputs do not form one source: {listing}; convert them one by one, 'mrec join' them where they follow "
        "one another in time, or settle it with --from"
    )


def detect_target(path: Path) -> Format:
    """Return the format a target's name asks for: by its suffix, the longest that is known, else by another pattern.

    Raises `UsageError` for a name that tells none, with those whose names are nearest.
    """
    writable = [entry for entry in formats().values() if entry.writes is not None]
    best = _named(writable, path)
    if len(best) > 1:
        raise UsageError(
            f"the name {path.name!r} fits the formats {', '.join(e.name for e in best)}: settle it with --to"
        )
    if best:
        return best[0]
    suffixes = {suffix: entry.name for entry in writable for suffix in map(_suffix_of, entry.patterns) if suffix}
    ends = {"".join(Path(_plain_name(path)).suffixes[-count:]).lower() for count in (1, 2)}
    near = sorted({suffix for end in ends for suffix in difflib.get_close_matches(end, suffixes, 3, 0.75)})
    nearest = f"; near it are {', '.join(f'{suffix} ({suffixes[suffix]})' for suffix in near)}" if near else ""
    raise UsageError(
        f"the name {path.name!r} tells no format to write{nearest}: name one with --to, 'mrec formats' lists them"
    )


def read_head(path: Path) -> bytes:
    """Return the first 64 KiB of a file's content, decompressed by magic bytes; empty for a directory.

    Of a compressed file that is damaged or cut short what is whole of its beginning.
    """
    if path.is_dir():
        return b""
    with open(open_regular(path), "rb") as file:
        return head_of(file, HEAD)


def _brought(hook: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield what each plugin returns from a hook that takes nothing; a plugin that fails is named and skipped."""
    manager = plugin_manager()
    for name, plugin in manager.list_name_plugin():
        if plugin is None or not hasattr(plugin, hook):
            continue
        caller = manager.subset_hook_caller(hook, [p for n, p in manager.list_name_plugin() if n != name])
        try:
            brought = [entry for group in caller() for entry in group]
        except Exception as error:  # foreign code, as above
            _problems.append(f"the plugin {name!r} is skipped: {type(error).__name__}: {error}")
            continue
        yield name, brought


def _detect_one(path: Path) -> Format:
    if not path.exists():
        raise MissingInputError(path)
    head = read_head(path)
    readable = [entry for entry in formats().values() if entry.reads is not None]
    scores = {entry.name: _sniff(entry, head, path) for entry in readable}
    best = max(scores.values(), default=0.0)
    candidates = [entry for entry in readable if scores[entry.name] == best and best > 0]
    if len(candidates) > 1:
        candidates = _named(candidates, path) or candidates
    if not candidates:
        candidates = _named(readable, path, text=b"\0" not in head)
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = ", ".join(entry.name for entry in candidates)
        raise UsageError(f"{path} could be {names}: settle it with --from")
    skipped = f" ({'; '.join(_problems)})" if _problems else ""
    raise FormatError(
        path,
        found=_nothing(path, head),
        expected=f"one of {', '.join(entry.name for entry in readable)}",
        hint=f"name its format with --from{skipped}",
    )


def _nothing(path: Path, head: bytes) -> str:
    """Return what a path is that belongs to no format."""
    from molrec_convert.stores.lmdb.file.pages import is_lmdb

    if not path.is_dir():
        return "an LMDB file of no known format" if is_lmdb(head) else "neither content nor a name of a known format"
    inside = path / _LMDB_FILE
    if not inside.is_file():
        return "a directory without files of any format" if any(path.iterdir()) else "an empty directory"
    try:
        return f"an LMDB folder, whose file {inside} is of the format {_detect_one(inside).name}: name that"
    except MolrecError:
        return f"an LMDB folder, whose file {inside} is of no known format"


def _sniff(entry: Format, head: bytes, path: Path) -> float:
    try:
        return float(entry.sniff(head, path))
    except Exception as error:  # a foreign sniffer that fails recognises nothing
        text = f"the format {entry.name!r} cannot look at {path.name}: {type(error).__name__}: {error}"
        if text not in _problems:
            _problems.append(text)
        return 0.0


def _named(candidates: Iterable[Format], path: Path, *, text: bool = True) -> list[Format]:
    """Return the formats a name asks for: those of the longest suffix, else those of the longest other pattern.

    Such a pattern (`data.*`) says nothing of a file that is not `text`.
    """
    name = _plain_name(path).lower()
    matches = [
        (_suffix_of(pattern) is not None, len(pattern), entry)
        for entry in candidates
        for pattern in entry.patterns
        if fnmatch.fnmatch(name, pattern.lower()) and (text or _suffix_of(pattern) is not None)
    ]
    best = max((match[:2] for match in matches), default=None)
    return list({entry.name: entry for *rank, entry in matches if tuple(rank) == best}.values())


def _suffix_of(pattern: str) -> str | None:
    """Return the suffix a pattern stands for: `.xyz` for `*.xyz`; None for other patterns."""
    return pattern[1:].lower() if pattern.startswith("*.") else None


def _plain_name(path: Path) -> str:
    name = path.name
    for suffix in _SUFFIXES:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name


def _installed() -> list[importlib.metadata.EntryPoint]:
    wanted = os.environ.get("MOLREC_LOAD_PLUGINS")
    entries = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: entry.name)
    # One plugin seen through two installations of a distribution is one plugin.
    unique = list({(entry.name, entry.value): entry for entry in entries}.values())
    if wanted is None:
        return unique
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    for name in names:
        if name not in {entry.name for entry in unique} | {"stores"}:
            _problems.append(f"MOLREC_LOAD_PLUGINS names {name!r}, which is not installed")
    return [entry for entry in unique if entry.name in names]


def _tracing() -> bool:
    return os.environ.get("MOLREC_TRACE_PLUGINS", "") not in ("", "0")


def _trace(text: str) -> None:
    if _tracing():
        print(f"molrec plugins: {text}", file=sys.stderr)


#: A format at work, what it does ("reading a.points"), and the files it reads.
Use = tuple[Format, str, Sequence[str | os.PathLike[str]]]

#: An integer of 19 digits or more, which may be beyond 64 bits.
_LONG = re.compile(rb"(?<![0-9.])[0-9]{19,}(?![0-9.eE])")
#: So much of one line is looked at.
_LINE_BYTES = 2**24


@contextmanager
def naming_faults(*uses: Use) -> Iterator[None]:
    """Raise what a plugin raises inside as `plugin_fault` names it."""
    try:
        yield
    except Exception as error:
        told = plugin_fault(error, uses)
        if told is None:
            raise
        raise told from error


def plugin_fault(error: Exception, uses: Sequence[Use] = ()) -> MolrecError | None:
    """Return a fault inside a plugin as an error in one sentence; None where it is none, or one sentence already.

    `uses` are the formats that were at work. Of a library that is not installed the error says how to get it, of a
    number in a file that is too large for any integer here where it stands.
    """
    if isinstance(error, (MolrecError, OSError, MemoryError)):
        return None
    plugin = _plugin_of(error.__traceback__)
    if plugin is None:
        return None
    own = formats_of(plugin)
    working = [use for use in uses if use[0].name in own] or list(uses)
    if isinstance(error, ModuleNotFoundError):
        # where nothing is said to be at work, all formats of the plugin need the same
        owners = [entry for entry, *_ in working if entry.name in own] or list(own.values())
        missing = missing_library(error, owners[0]) if owners else None
        if missing is not None:
            return UnsupportedError(missing)
    large = _large_number(error, [path for _, _, paths in working for path in paths])
    if large is not None:
        return large
    doing = " and ".join(f"{what} as {entry.name}" for entry, what, _ in working)
    return PluginError(plugin, doing, f"{type(error).__name__}: {error}")


def _large_number(error: Exception, paths: Sequence[str | os.PathLike[str]]) -> FormatError | None:
    """Return the number in the files that is the cause of an error, as such; None where it is of another kind."""
    digits = sys.get_int_max_str_digits()
    if isinstance(error, ValueError) and "integer string conversion" in str(error):
        expected = f"at most {digits}"
    elif isinstance(error, OverflowError):
        expected = "an integer of 64 bits"
    else:
        return None
    long = not isinstance(error, OverflowError)
    for path in map(Path, paths):
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if not file.is_file():
                continue
            for line, text in _long_numbers(file):
                if len(text) > digits or (not long and (len(text) > 19 or int(text) >= 2**63)):
                    return FormatError(file, f"line {line}", found=f"a number of {len(text)} digits", expected=expected)
    return None


def _long_numbers(path: Path) -> Iterator[tuple[int, bytes]]:
    """Give the integers of many digits in a file, each with its line."""
    line, rest = 1, b""
    with Decompressed(path) as source:
        for block in source.blocks():
            text = rest[-_LINE_BYTES:] + block
            whole = text.rfind(b"\n") + 1
            yield from _in_lines(text[:whole], line)
            line += text.count(b"\n", 0, whole)
            rest = text[whole:]
    yield from _in_lines(rest, line)


def _in_lines(text: bytes, line: int) -> Iterator[tuple[int, bytes]]:
    for found in _LONG.finditer(text):
        yield line + text.count(b"\n", 0, found.start()), found.group()


def _plugin_of(trace: TracebackType | None) -> str | None:
    """Return the plugin the innermost frame belongs to that is of any."""
    packages = _packages()
    found = None
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        found = packages.get(package, found)
        trace = trace.tb_next
    return found


def _packages() -> dict[str, str]:
    """Return package → plugin, of the modules with the hooks and of those with readers and writers."""
    packages: dict[str, str] = {}
    for name, plugin in plugin_manager().list_name_plugin():
        if plugin is None or name == "stores":
            continue
        modules = [getattr(plugin, "__name__", type(plugin).__module__)]
        for entry in formats_of(name).values():
            for target in (entry.reads, entry.writes, entry.predicts, entry.read_many, entry.is_own_output):
                if target is not None:
                    modules.append(target if isinstance(target, str) else target.__module__)
        for module in modules:
            packages.setdefault(module.partition(":")[0].partition(".")[0], name)
    packages.pop("molrec_convert", None)
    return packages
