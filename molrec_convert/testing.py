r"""Conformance tests for plugins: subclass `FormatTests`, name a sample file, and pytest runs them all.

    from molrec_convert.testing import FormatTests

    class TestPoints(FormatTests):
        format = "points"
        sample = Path(__file__).parent / "sample.points"
        bad = (("#points\nO 0 0\n", "line 2: found 3 fields"),)

Only this module imports pytest. The tests convert small files, so keep the sample to a few kilobytes.
"""

from __future__ import annotations

import bz2
import fnmatch
import gc
import gzip
import lzma
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import molrec_convert
from molrec_convert import plugins
from molrec_convert.cli import run
from molrec_convert.errors import FormatError, LossError, MissingInputError, MolrecError, UsageError
from molrec_convert.formats import Format, options_of
from molrec_convert.inspect.diff import differences
from molrec_convert.model.collection.collection import Collection
from molrec_convert.model.frame import Block, Frame
from molrec_convert.model.record import Record
from molrec_convert.model.tags import canonical_json, to_typed_json
from molrec_convert.report import Report

__all__ = ["Facts", "FormatTests", "facts_of"]

#: Everything a record or a collection holds: name → value; equal values are equal bit for bit.
Facts = dict[str, Any]

_STORES = (".mrec", ".mrec.zip", ".mrec.lmdb")
_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: __import__("zstandard").compress(data),
}
#: How often a sample is damaged, and at how many places it is cut.
_DAMAGES, _CUTS = 30, 12


class FormatTests:
    """The tests every format has to pass. Subclass it under a name that begins with `Test`.

    Say in class attributes what is special about the format; a test that does not apply may be overridden.
    """

    #: The name of the format, as in `--from`.
    format: ClassVar[str]
    #: A small file or directory of the format, or several paths that form one source.
    sample: ClassVar[str | Path | Sequence[str | Path]]
    read_options: ClassVar[Mapping[str, Any]] = {}
    write_options: ClassVar[Mapping[str, Any]] = {}
    #: Contents of faulty files, each with a part of the message it is refused with ("line 2: found 3 fields").
    bad: ClassVar[Sequence[tuple[str | bytes, str]]] = ()
    #: What of the sample a record cannot carry: a part of each line of `Report.losses()`.
    losses: ClassVar[Sequence[str]] = ()
    #: Patterns of facts ("*atoms/charge", "*meta/comment") that are not the same once written and read again.
    not_written: ClassVar[Sequence[str]] = ()
    #: The largest difference of a real number that was written and read again.
    tolerance: ClassVar[float] = 0.0
    #: The suffix of files that are written; None: that of the format's first pattern.
    suffix: ClassVar[str | None] = None
    #: Whether the sample's format is recognized without `--from`.
    detected: ClassVar[bool] = True
    #: How files of the format may be compressed, in reading and writing.
    compression: ClassVar[Sequence[str]] = (".gz", ".bz2", ".xz", ".zst")
    #: Libraries that must not be imported before a file is read.
    libraries: ClassVar[Sequence[str]] = ()

    @property
    def entry(self) -> Format:
        """The descriptor of the format."""
        return plugins.format_named(self.format)

    @pytest.fixture
    def source(self, tmp_path: Path) -> list[Path]:
        """The paths of a copy of the sample."""
        folder = tmp_path / "source"
        folder.mkdir()
        samples = [self.sample] if isinstance(self.sample, (str, Path)) else self.sample
        paths = [Path(path) for path in samples]
        for path in paths:
            (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
        return [folder / path.name for path in paths]

    def read(self, paths: Sequence[str | Path], report: Report | None = None) -> Record | Collection:
        """Read a source of the format with the options of the class."""
        options = dict(self.read_options)
        found: Record | Collection = molrec_convert.read(*paths, format=self.format, report=report, **options)
        return found

    def facts(self, paths: Sequence[str | Path]) -> Facts:
        """Return what a source of the format holds."""
        with self.read(paths) as found:
            return facts_of(found, blocks=_settling_blocks(found))

    def target(self, folder: Path, name: str = "written") -> Path:
        """Return a path to write a file of the format to."""
        patterns = (pattern[1:] for pattern in self.entry.patterns if pattern.startswith("*."))
        return folder / f"{name}{next(patterns, '.out') if self.suffix is None else self.suffix}"

    # What a user sees of the format before anything is read

    def test_format_is_listed_with_its_options(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Check that the format is listed, and every option has a line of help and a flag of `mrec convert`."""
        assert run(["formats"]) == 0
        listed = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
        assert self.format in listed
        assert self.entry.title
        assert run(["convert", "--help"]) == 0
        flags = capsys.readouterr().out.split()
        for cls in (self.entry.read_options, self.entry.write_options):
            for option in options_of(cls):
                assert option.help, f"the option {option.name} has no line of help"
                assert option.flag in {flag.rstrip(",") for flag in flags}
        assert any(path is not None for path in (self.entry.reads, self.entry.writes))

    def test_nothing_heavy_is_imported_before_it_is_used(self, source: list[Path]) -> None:
        """Check that listing and recognizing formats imports neither the reader nor the libraries it needs."""
        reads = self.entry.reads
        lazy = [*self.libraries, *([reads.partition(":")[0]] if isinstance(reads, str) else [])]
        code = (
            "import sys\nfrom pathlib import Path\nfrom molrec_convert import plugins\n"
            f"entry = plugins.format_named({self.format!r})\n"
            f"for path in map(Path, {[str(path) for path in source]!r}):\n"
            "    entry.sniff(plugins.read_head(path), path)\n"
            f"print([name for name in {lazy!r} if name in sys.modules])\n"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr

    def test_sample_is_recognized(self, source: list[Path]) -> None:
        """Check that content or name of the sample tell its format."""
        if not self.detected:
            pytest.skip("the format is read with --from only")
        assert plugins.detect(source).name == self.format

    def test_other_content_is_not_claimed(self, tmp_path: Path) -> None:
        """Check that the sniffer returns a score from 0 to 1 whatever it gets, and 0 for what has no meaning."""
        noise = bytes(random.Random(0).randrange(256) for _ in range(4096))
        for head in (b"", b"\n\n\n", b"\0" * 64, noise):
            assert self.entry.sniff(head, tmp_path / "some.file") == 0, f"the sniffer claims {head[:16]!r}"
        for head in (b'{"a": 1}', b"1 2 3\n4 5 6\n", b"hello world\n", "é".encode("latin-1")):
            assert 0 <= self.entry.sniff(head, tmp_path / "some.file") <= 1

    # Reading

    def test_paths_are_strings_or_path_objects(self, source: list[Path]) -> None:
        """Check that both kinds of paths, absolute and relative, give the same."""
        expected = self.facts(source)
        assert expected, "the sample holds nothing"
        _assert_same(expected, self.facts([str(path) for path in source]))
        _assert_same(expected, self.facts([os.path.relpath(path) for path in source]))

    def test_whole_and_streamed_reads_agree(self, source: list[Path]) -> None:
        """Check that frames read one by one, in batches of any size, from a later start, and by column are the same."""
        with self.read(source) as found:
            expected = facts_of(found)
            if isinstance(found, Collection):
                single = {k: v for n in range(len(found)) for k, v in facts_of(found[n], f"record {n}: ").items()}
                _assert_same(expected, single)
                return
            if found.trajectory is None:
                return
            whole = [_frame_facts(frame) for frame in found.trajectory]
            assert found.trajectory.n_frames in (None, len(whole))
            columns = sorted({f"{name}/{key}" for frame in found.trajectory for name in frame for key in frame[name]})
        with self.read(source) as found:
            assert isinstance(found, Record)
            trajectory = found.trajectory
            assert trajectory is not None
            for number in reversed(range(len(whole))):
                _assert_same(whole[number], _frame_facts(trajectory.frame(number)))
            for start, step in ((0, 1), (0, 2), (1, 1), (len(whole) - 1, 1)):
                frames = range(start, len(whole), step)
                streamed: list[Facts] = []
                for batch in trajectory.batches(start, None, step, None, 1):
                    # a block a batch does not present is the one of the frame before
                    for index in range(batch.n_frames):
                        frame = batch.frame(index, trajectory.declaration, defined=trajectory.cell_defined)
                        streamed.append({**(streamed[-1] if streamed else {}), **_frame_facts(frame)})
                assert len(streamed) == len(frames)
                for number, facts in zip(frames, streamed, strict=True):
                    _assert_same(whole[number], facts)
            for column in columns[:8]:
                first = next(iter(trajectory.batches(0, 1, 1, [column])))
                facts = _frame_facts(first.frame(0, trajectory.declaration.select([column])))
                if column in whole[0]:
                    assert facts[column] == whole[0][column]

    @pytest.mark.parametrize("suffix", _COMPRESS)
    def test_compressed_input_is_read_alike(self, source: list[Path], suffix: str, tmp_path: Path) -> None:
        """Check that a compressed file holds what the plain one does, by whatever name."""
        if suffix not in self.compression or not all(path.is_file() for path in source):
            pytest.skip(f"files of this format are not compressed as {suffix}")
        packed = []
        for path in source:
            packed.append(tmp_path / f"{path.name}{suffix}")
            packed[-1].write_bytes(_COMPRESS[suffix](path.read_bytes()))
        _assert_same(self.facts(source), self.facts(packed))
        if self.detected:
            assert plugins.detect(packed).name == self.format

    def test_source_is_left_alone(self, source: list[Path]) -> None:
        """Check that reading changes no file, writes none beside them, and leaves none open."""
        before = _tree(source[0].parent)
        self.facts(source)
        assert _tree(source[0].parent) == before
        gc.collect()
        still = _open_files()
        assert not [path for path in source if str(path) in still]

    # Storing

    @pytest.mark.parametrize("suffix", _STORES)
    def test_stores_hold_the_source_bit_for_bit(self, source: list[Path], suffix: str, tmp_path: Path) -> None:
        """Check that what is converted to each store and read back is what the reader gives."""
        target = tmp_path / f"stored{suffix}"
        report = molrec_convert.convert(source, target, **self._conversion(source, suffix))
        with self.read(source) as found, molrec_convert.open(target) as stored:
            blocks = _settling_blocks(found)
            kept = facts_of(stored, blocks=blocks)
            if isinstance(found, Collection) and isinstance(stored, Record):
                # a record of its own states the units of the collection it was in
                found, kept = found[0], {name: kept[name] for name in kept if not name.endswith("meta/units")}
            _assert_same(facts_of(found, blocks=blocks), kept)
            if isinstance(found, Record) and isinstance(stored, Record):
                one, other = (replace(each, trajectory=None, system=None, frame=None) for each in (found, stored))
                assert list(differences(one, other)) == []
        if suffix == ".mrec":
            assert report.items, "the reader reports nothing: record what becomes of each item of the source"
            unexpected = [line for line in report.losses() if not any(part in line for part in self.losses)]
            missing = [part for part in self.losses if not any(part in line for line in report.losses())]
            assert (unexpected, missing) == ([], [])
        assert run(["validate", str(target)]) == 0

    def test_dry_and_strict_runs_report_the_same_losses(self, source: list[Path], tmp_path: Path) -> None:
        """Check that `--dry-run` writes nothing and reports all losses; `--strict` refuses exactly those."""
        target = tmp_path / "stored.mrec"
        options = self._conversion(source, ".mrec")
        predicted = molrec_convert.convert(source, target, dry_run=True, **options)
        assert not target.exists()
        if self.losses:
            with pytest.raises(LossError):
                molrec_convert.convert(source, target, strict=True, **options)
            assert not target.exists()
        else:
            molrec_convert.convert(source, target, strict=True, **options)
            assert predicted.losses() == []

    def _conversion(self, source: list[Path], suffix: str) -> dict[str, Any]:
        """Return the options to convert a source to one record, or to a collection of all that it holds."""
        with self.read(source) as found:
            many = isinstance(found, Collection)
        options: dict[str, Any] = {"from_format": self.format, **self.read_options}
        if not many and "trajectory" in self.entry.arrangements:
            options["as_"] = "trajectory"
        if many and "collection" in self.entry.arrangements:
            options["as_"] = "collection"
        if many and suffix != ".mrec.lmdb":
            options["record"] = 0
        return options

    # Faults

    def test_unknown_options_are_refused(self, source: list[Path], tmp_path: Path) -> None:
        """Check that an option the format does not have is an error that names it."""
        with pytest.raises(UsageError, match="no option 'no_such_option'"):
            molrec_convert.read(*source, format=self.format, no_such_option=1)
        assert run(["convert", *map(str, source), str(tmp_path / "a.mrec"), "--no-such-option"]) == 2

    def test_missing_file_is_named(self, tmp_path: Path) -> None:
        """Check that a file that is not there is named."""
        with pytest.raises(MissingInputError, match=r"absent\.file"):
            self.read([tmp_path / "absent.file"])

    def test_empty_file_is_refused(self, source: list[Path], tmp_path: Path, capsys: Any) -> None:
        """Check that an empty file is refused in one sentence."""
        _first_file(source).write_bytes(b"")
        self._assert_refused(source, tmp_path, capsys)

    def test_bad_input_is_refused_in_one_sentence(self, source: list[Path], tmp_path: Path, capsys: Any) -> None:
        """Check that each of the `bad` files is refused in one sentence that names it; nothing is written."""
        for content, message in self.bad:
            _first_file(source).write_bytes(content.encode() if isinstance(content, str) else content)
            told = self._assert_refused(source, tmp_path, capsys)
            assert message in told, f"{content!r} is refused with: {told}"

    def test_cut_file_gives_what_is_whole_or_is_refused(self, source: list[Path]) -> None:
        """Check that of a file that breaks off whole frames are read and the end is reported, or it is refused."""
        path = _first_file(source)
        content = path.read_bytes()
        complete = self.facts(source)
        last = max((int(name.split(":")[0][6:]) for name in complete if name.startswith("frame ")), default=0)
        steps = max(len(content) // _CUTS, 1)
        for size in [*range(1, len(content), steps), len(content) - 1]:
            path.write_bytes(content[:size])
            report = Report()
            try:
                with self.read(source, report) as found:
                    facts = facts_of(found)
            except MolrecError as error:
                _assert_one_sentence(error, path)
                continue
            if report.truncations or report.warnings or report.lossy:
                continue
            # nothing is said: what is there is what was there, but for frames that are gone as a whole
            for name, value in facts.items():
                number = int(name.split(":")[0][6:]) if name.startswith("frame ") else last
                assert number >= last or complete.get(name) == value, f"cut to {size} bytes: {name} differs"

    def test_damaged_file_is_read_or_refused_in_one_sentence(self, source: list[Path]) -> None:
        """Check that a file of whatever bytes is read, or refused by an error of the package that names it."""
        path = _first_file(source)
        if self.entry.crashes(path):
            pytest.skip("a damaged file of this format may end the process, so it is read in another one")
        for content in _damaged(path.read_bytes()):
            path.write_bytes(content)
            try:
                self.facts(source)
            except MolrecError as error:
                _assert_one_sentence(error, path)

    # Writing

    def test_written_file_is_read_again(self, source: list[Path], tmp_path: Path) -> None:
        """Check that what is written is read again, but for `not_written`, and two writes give the same bytes."""
        writes = self._skip_unless_written()
        targets = [self.target(tmp_path, name) for name in ("one", "two")]
        reports = []
        for target in targets:
            with self.read(source) as found:
                reports.append(molrec_convert.write(found, target, format=self.format, **writes))
        first, second = (list(_tree(target).values()) for target in targets)
        assert first == second, "two writes of one record differ"
        if self.entry.patterns and self.suffix is None:
            assert plugins.detect_target(targets[0]).name == self.format
        expected, again = self.facts(source), self.facts([targets[0]])
        kept = {k: v for k, v in expected.items() if not any(fnmatch.fnmatch(k, p) for p in self.not_written)}
        _assert_same(kept, {key: again[key] for key in kept if key in again}, self.tolerance)
        if len(kept) < len(expected):
            assert reports[0].items, "the writer does not report what it leaves out"

    @pytest.mark.parametrize("suffix", _COMPRESS)
    def test_compressed_target_is_written(self, source: list[Path], suffix: str, tmp_path: Path) -> None:
        """Check that a target whose name ends in a compression suffix is compressed, and holds the same."""
        writes = self._skip_unless_written()
        plain, packed = self.target(tmp_path, "plain"), self.target(tmp_path, "packed")
        packed = packed.with_name(packed.name + suffix)
        for target in (plain, packed) if suffix in self.compression else ():
            with self.read(source) as found:
                molrec_convert.write(found, target, format=self.format, **writes)
        if not plain.is_file():
            pytest.skip(f"files of this format are not compressed as {suffix}")
        assert packed.read_bytes()[:2] == _COMPRESS[suffix](b"")[:2]
        _assert_same(self.facts([plain]), self.facts([packed]))

    def test_failed_write_leaves_nothing(self, source: list[Path], tmp_path: Path) -> None:
        """Check that no target and no file beside it is left if the frames of a record cannot be read."""
        writes = self._skip_unless_written()
        folder = tmp_path / "targets"
        folder.mkdir()
        with self.read(source) as found:
            if not isinstance(found, Record) or found.trajectory is None:
                pytest.skip("the sample has no frames that could fail")
            broken = replace(found, trajectory=_Failing(found.trajectory), _close=None)
            try:
                molrec_convert.write(broken, self.target(folder), format=self.format, **writes)
            except FormatError as error:
                if "the disk is gone" not in str(error):
                    raise
            else:
                pytest.skip("the writer needs no more than the first frame")
        assert list(folder.iterdir()) == []

    def _skip_unless_written(self) -> dict[str, Any]:
        """Return the options to write with; skip the test of a format that is only read."""
        if self.entry.writes is None:
            pytest.skip("the format is read only")
        return dict(self.write_options)

    def _assert_refused(self, source: list[Path], tmp_path: Path, capsys: Any) -> str:
        """Return the sentence `mrec convert` refuses a source with, having checked that nothing is left."""
        targets = tmp_path / "refused"
        targets.mkdir(exist_ok=True)
        flags = [word for option in options_of(self.entry.read_options) for word in self._flag(option)]
        arguments = ["convert", *map(str, source), str(targets / "a.mrec"), "--from", self.format, *flags, "--quiet"]
        capsys.readouterr()
        code = run(arguments)
        told: str = capsys.readouterr().err
        assert code == 1, told
        assert told.startswith("mrec: ")
        assert told.count("\n") == 1, told
        assert _first_file(source).name in told
        assert list(targets.iterdir()) == []
        return told

    def _flag(self, option: Any) -> list[str]:
        """Return the words of the command line for an option of the class."""
        if option.name not in self.read_options:
            return []
        value = self.read_options[option.name]
        if option.kind is bool:
            return [option.flag] if value != option.default else []
        return [option.flag, ",".join(value) if isinstance(value, (tuple, list)) else str(value)]


class _Failing(molrec_convert.Trajectory):
    """A trajectory whose frames cannot be read to the end."""

    def __init__(self, source: molrec_convert.Trajectory) -> None:
        super().__init__()
        self._source, self.declaration = source, source.declaration
        self.cell_defined, self.system = source.cell_defined, source.system

    @property
    def n_frames(self) -> int | None:
        return self._source.n_frames

    def batches(self, *arguments: Any, **keywords: Any) -> Iterator[Any]:
        """Yield the first frame, then raise."""
        yield next(iter(self._source.batches(0, 1)))
        raise FormatError("a.file", found="nothing more", expected="frames", hint="the disk is gone")


def facts_of(source: Record | Collection, prefix: str = "", blocks: Mapping[str, str] | None = None) -> Facts:
    """Return everything a record or a collection says of its particles, wherever it is stored.

    What never changes may be in `system` or in every frame: here it is in every frame. `blocks` renames blocks.
    """
    if isinstance(source, Collection):
        if len(source) == 1 and not prefix:
            return facts_of(source[0], blocks=blocks)
        records = ((f"record {number}: ", source[number]) for number in range(len(source)))
        return {name: value for at, record in records for name, value in facts_of(record, at, blocks).items()}
    always = {} if source.system is None else _frame_facts(source.system, blocks)
    if source.trajectory is not None:
        frames = [_frame_facts(frame, blocks) for frame in source.trajectory]
    else:
        frames = [{} if source.frame is None else _frame_facts(source.frame, blocks)]
    return {
        f"{prefix}frame {number}: {name}": value
        for number, facts in enumerate(frames)
        for name, value in {**always, **facts}.items()
    }


def _settling_blocks(source: Record | Collection) -> dict[str, str]:
    """Return the blocks whose columns move to another one in the system if they never change: name → name."""
    trajectory = source.trajectory if isinstance(source, Record) else None
    declared = {} if trajectory is None else trajectory.declaration.blocks
    return {name: block.settles for name, block in declared.items() if block.settles}


def _frame_facts(frame: Frame, blocks: Mapping[str, str] | None = None) -> Facts:
    blocks = blocks or {}
    facts: Facts = {
        f"{blocks.get(name, name)}/{key}": _column_value(frame[name], key) for name in frame for key in frame[name]
    }
    facts |= {f"meta/{key}": canonical_json(to_typed_json(frame.meta[key], frame.meta.tag(key))) for key in frame.meta}
    if frame.box is not None:
        box = frame.box
        parts = (box.vectors, box.origin) if box.defined else (box.origin,)
        facts["box"] = (*(_numbers(part) for part in parts), _numbers(box.boundary))
    return {**facts, "step": frame.step or 0, "time": frame.time}


def _column_value(block: Block, name: str) -> Any:
    values, valid = block.stored(name), block.validity(name)
    nulls = "" if valid.all() else valid.tobytes().hex()
    if values.dtype.kind in "TU":
        return ("string", tuple(str(v) if ok else None for v, ok in zip(values, valid, strict=True)))
    values = np.array(values)
    values[~valid] = 0
    return (nulls, *_numbers(values))


def _numbers(values: Any) -> tuple[str, tuple[int, ...], bytes]:
    values = np.ascontiguousarray(values)
    values = values.astype(values.dtype.newbyteorder("<"))
    return values.dtype.str, values.shape, values.tobytes()


def _assert_same(expected: Facts, found: Facts, tolerance: float = 0.0) -> None:
    lines = [f"{name} is missing" for name in expected if name not in found]
    lines += [f"{name} is new" for name in found if name not in expected]
    lines += [
        f"{name}: {_shown(expected[name])} became {_shown(found[name])}"
        for name in expected
        if name in found and expected[name] != found[name] and not _close(expected[name], found[name], tolerance)
    ]
    assert lines == [], f"{len(lines)} facts differ: " + "; ".join(lines[:8])


def _close(one: Any, other: Any, tolerance: float) -> bool:
    """True if both are arrays of real numbers, or tuples of those, that differ by `tolerance` at most."""
    if not (tolerance and isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other)):
        return False
    if one and isinstance(one[-1], bytes) and isinstance(other[-1], bytes):
        if one[:-1] != other[:-1] or np.dtype(one[-3]).kind != "f":
            return bool(one == other)
        first, second = (np.frombuffer(each[-1], each[-3]) for each in (one, other))
        return np.allclose(first, second, rtol=1e-12, atol=tolerance, equal_nan=True)
    return all(a == b or _close(a, b, tolerance) for a, b in zip(one, other, strict=True))


def _shown(value: Any) -> str:
    if isinstance(value, tuple) and value and isinstance(value[-1], bytes):
        value = np.frombuffer(value[-1], value[-3]).reshape(value[-2])
    return str(value).replace("\n", " ")[:80]


def _first_file(source: Sequence[Path]) -> Path:
    """Return the file that is damaged: the first, unless the sample is a directory, of which none is."""
    if source[0].is_dir():
        pytest.skip("the sample is a directory")
    return source[0]


def _damaged(content: bytes) -> Iterator[bytes]:
    """Yield the content with some bytes replaced, removed, or repeated."""
    draw = random.Random(len(content))
    for number in range(_DAMAGES):
        at = draw.randrange(max(len(content), 1))
        stop = at + draw.randrange(1, 12)
        alphabet = b"0123456789 .-+eE\n\tabXY" if number % 2 else bytes(range(256))
        new = bytes(draw.choice(alphabet) for _ in range(stop - at))
        yield content[:at] + (new, b"", content[at:stop] * 2)[number % 3] + content[stop:]


def _assert_one_sentence(error: MolrecError, path: Path) -> None:
    told = str(error)
    assert "\n" not in told
    assert path.name in told or not isinstance(error, FormatError), told


def _tree(path: Path) -> dict[str, bytes]:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {str(file.relative_to(path.parent)): file.read_bytes() for file in files if file.is_file()}


def _open_files() -> set[str]:
    """Return the paths of the files this process has open, where the system tells."""
    folder = Path("/proc/self/fd")
    return {os.readlink(entry) for entry in folder.iterdir() if entry.is_symlink()} if folder.is_dir() else set()
