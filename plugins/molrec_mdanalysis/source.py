"""Files opened by MDAnalysis: one universe of a topology and any number of trajectories."""

from __future__ import annotations

import os
import re
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import MDAnalysis
from MDAnalysis.coordinates.base import ProtoReader
from MDAnalysis.guesser.default_guesser import DefaultGuesser

from molrec_convert.errors import FormatError, MissingInputError, MolrecError, UsageError
from molrec_convert.files.json_text import read_json
from molrec_convert.report import Report
from molrec_mdanalysis.checks import check_counts, check_decodes, check_xdr
from molrec_mdanalysis.topology import attributes_of
from molrec_mdanalysis_format.options import MdaOptions

__all__ = ["guesser_for", "open_frames", "open_universe", "refusing", "said_aloud"]


class _Remembering(DefaultGuesser):  # type: ignore[misc]
    """The default guesser, which remembers what it said of a name or a type."""

    context = "default, remembered"

    def __init__(self, universe: Any, **kwargs: Any) -> None:
        super().__init__(universe, **kwargs)
        self._elements: dict[Any, Any] = {}
        self._masses: dict[Any, Any] = {}

    def guess_atom_element(self, atomname: Any) -> Any:
        """See `DefaultGuesser.guess_atom_element`."""
        if atomname not in self._elements:
            self._elements[atomname] = super().guess_atom_element(atomname)
        return self._elements[atomname]

    def get_atom_mass(self, element: Any) -> Any:
        """See `DefaultGuesser.get_atom_mass`."""
        if element not in self._masses:
            self._masses[element] = super().get_atom_mass(element)
        return self._masses[element]


def guesser_for(universe: Any) -> Any:
    """Return the guesser of a universe; one that remembers in place of MDAnalysis' default."""
    own = universe._context
    default = type(own) is DefaultGuesser or (isinstance(own, str) and own.lower() == "default")
    return _Remembering(universe) if default else own


def open_universe(paths: Sequence[Path], options: MdaOptions, report: Report) -> tuple[Any, dict[str, int]]:
    """Return the universe of some files, the topology first, and what MDAnalysis guessed of it: attribute → atoms.

    FormatError: MDAnalysis cannot open them.
    """
    _check_content(paths, options)
    keywords = _keywords(options, topology_format=options.topology_format, atom_style=options.atom_style, to_guess=())
    with said_aloud(report):
        try:
            universe = MDAnalysis.Universe(*(os.fspath(path) for path in paths), **keywords)
        except MolrecError:
            raise
        except Exception as error:  # a foreign library: any of its errors says it cannot read the files
            raise _refusal(paths, error) from error
        _attach(universe, options.aux)
        return universe, _guess(universe, options, report)


def open_frames(count: int, paths: Sequence[Path], options: MdaOptions, report: Report) -> Any:
    """Return MDAnalysis' reader of trajectories of `count` atoms, whose topology, the first of the paths, others read.

    FormatError: MDAnalysis cannot open them.
    """
    _check_content(paths, options)
    with said_aloud(report):
        try:
            universe = MDAnalysis.Universe.empty(count)
            files = [os.fspath(path) for path in paths[1:]]
            universe.load_new(files[0] if len(files) == 1 else files, **_keywords(options))
        except MolrecError:
            raise
        except Exception as error:  # as above
            raise _refusal(paths, error) from error
        _attach(universe, options.aux)
    return universe.trajectory


def _check_content(paths: Sequence[Path], options: MdaOptions) -> None:
    """Refuse files that MDAnalysis, or a library it calls, does not survive."""
    for place, path in enumerate(paths):
        if not path.is_file():
            continue
        if not path.stat().st_size:
            raise FormatError(path, found="an empty file", expected="a trajectory" if place else "a topology")
        suffix = (path.with_suffix("") if path.suffix in (".gz", ".bz2") else path).suffix[1:]
        if not place:
            check_counts(path, (options.topology_format or suffix).upper())
        if place or len(paths) == 1:
            kind = (options.trajectory_format or suffix).upper()
            check_counts(path, kind)
            if kind in ("XTC", "TRR"):
                check_xdr(path, kind)
                check_decodes(path)


def _keywords(options: MdaOptions, **words: Any) -> dict[str, Any]:
    """Return the keywords the options come to; those that are None are left out."""
    named = {"format": options.trajectory_format, "dt": options.dt, **words}
    return {key: value for key, value in named.items() if value is not None} | _further(options.keywords)


def _refusal(paths: Sequence[Path], error: Exception) -> FormatError:
    """Return what MDAnalysis says when it does not open files, as an error of the file it says it of."""
    reader = _half_made(error)
    counts = re.search(r"number of atoms (\d+).*Number of atoms (\d+)", _first_line(error))
    named = getattr(reader, "filename", None)
    at_fault = next((path for path in paths[1:] if named is not None and str(path) == str(named)), None)
    if at_fault is None and len(paths) > 1 and (reader is not None or counts):
        at_fault = paths[1]
    if at_fault is not None and counts:
        found, expected = counts[2], f"{counts[1]}, as the topology {paths[0].name} has"
        return FormatError(at_fault, found=f"{found} atoms", expected=expected)
    if at_fault is not None:
        return FormatError(
            at_fault,
            found=f"{type(error).__name__}: {_first_line(error)}",
            expected=f"coordinates MDAnalysis reads, with the topology {paths[0].name}",
        )
    names = ", ".join(path.name for path in paths[1:])
    return FormatError(
        paths[0],
        found=f"{type(error).__name__}: {_first_line(error)}",
        expected=f"a topology MDAnalysis opens{f', with the trajectory {names}' if names else ''}",
        hint="the topology is named first, trajectories after it; --topology-format and --trajectory-format "
        "say what the names do not",
    )


@contextmanager
def refusing(path: Path, what: str, expected: str) -> Iterator[None]:
    """Raise what the code of MDAnalysis raises inside as a fault of the file, at `what` in it."""
    try:
        yield
    except Exception as error:  # a foreign library: any of its errors says it cannot read the file
        modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
        ours = max(place for place, name in enumerate(modules) if name.startswith("molrec_"))
        if isinstance(error, MolrecError) or not any(name.startswith("MDAnalysis") for name in modules[ours:]):
            raise
        found = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise FormatError(path, what, found=found, expected=expected) from error


def _half_made(error: Exception) -> Any:
    """Return the reader that failed as it was made; it is kept from closing what it never opened when it is deleted."""
    found = None
    raised: BaseException | None = error
    while raised is not None:
        for frame, _ in traceback.walk_tb(raised.__traceback__):
            own = frame.f_locals.get("self")
            if isinstance(own, ProtoReader):
                own.__dict__["close"] = lambda: None
                own.__dict__.setdefault("_auxs", {})
                found = own
        raised = raised.__cause__ or raised.__context__
    return found


def _attach(universe: Any, stated: Sequence[str]) -> None:
    """Auxiliary data as it is stated on the command line: name=file, or a file with names of its own."""
    for text in stated:
        name, equals, file = text.partition("=")
        path = Path(file if equals else text)
        if not path.exists():
            raise MissingInputError(path)
        if universe._trajectory is None:
            raise UsageError(f"--aux {text}: there are no frames for it to stand beside")
        named = equals or path.suffix.lower() != ".edr"
        try:
            universe.trajectory.add_auxiliary(name if equals else path.stem if named else None, os.fspath(path))
        except Exception as error:  # as above
            raise FormatError(
                path,
                found=f"{type(error).__name__}: {_first_line(error)}",
                expected="auxiliary data MDAnalysis opens: XVG, or EDR (which needs pyedr)",
            ) from error


def _further(stated: Sequence[str]) -> dict[str, Any]:
    """Return keywords as they are stated on the command line, name=value."""
    found: dict[str, Any] = {}
    for text in stated:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--keywords {text}: a keyword of MDAnalysis.Universe is stated as name=value")
        try:
            found[name] = read_json(value)
        except ValueError:
            found[name] = value
    return found


def _guess(universe: Any, options: MdaOptions, report: Report) -> dict[str, int]:
    """Return what MDAnalysis adds to a topology, on top of what the parser found."""
    wanted = [*(() if options.no_guess else ("types", "masses")), *options.guess]
    found: dict[str, int] = {}
    for name in wanted:
        there = name in attributes_of(universe)
        if there and not _empty(universe, name):
            continue
        missing = _empty(universe, name) if there else len(universe.atoms)
        try:
            context = guesser_for(universe)
            universe.guess_TopologyAttrs(context=context, to_guess=[name], error_if_missing=False)
        except Exception as error:  # as above
            report.warn(f"MDAnalysis cannot guess {name}: {_first_line(error)}")
            continue
        if name in attributes_of(universe):
            found[name] = missing
    return found


def _empty(universe: Any, name: str) -> int:
    """Return how many values of an attribute the parser left for MDAnalysis to guess."""
    attribute = attributes_of(universe)[name]
    if not hasattr(attribute, "are_values_missing"):
        return 0
    return int(attribute.are_values_missing(attribute.values).sum())


@contextmanager
def said_aloud(report: Report) -> Iterator[None]:
    """Yield what MDAnalysis warns of goes into the report, what it deprecates nowhere."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    for warning in caught:
        if str(warning.message).startswith("No coordinate reader found"):
            continue  # a topology alone
        if issubclass(warning.category, UserWarning) and not issubclass(warning.category, DeprecationWarning):
            report.warn(f"MDAnalysis: {' '.join(str(warning.message).split())}")


def _first_line(error: BaseException) -> str:
    text = re.sub(
        r"^Failed to construct topology from file .*? with parser <.*?>\. ?Error: ", "", " ".join(str(error).split())
    )
    return text if len(text) <= 300 else text[:297] + "..."
