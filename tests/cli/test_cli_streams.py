"""`-` for standard input and output, and what the configurations of a source become (`--as`)."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import molrec_convert
from molrec_convert import Block, Capability, Format, Frame, MemoryTrajectory, Record, hookimpl, plugins
from molrec_convert.cli import run
from molrec_convert.errors import FormatError, UsageError
from molrec_convert.files.target_file import open_target
from molrec_convert.formats import ReadContext, WriteContext
from molrec_convert.model.collection.collection import MemoryCollection
from molrec_convert.text.contents import Contents

CARRIES = {"trajectory": Capability("exact", "exact"), "system": Capability("exact", "none")}


def read(paths: Sequence[Path], context: ReadContext) -> Any:
    """One number per line: one frame, or one record, of one atom each."""
    with Contents(paths[0]) as contents:
        text = bytes(contents.data).decode()
    numbers = []
    for line, word in enumerate(text.split()[1:], start=2):
        try:
            numbers.append(float(word))
        except ValueError:
            raise FormatError(paths[0], f"line {line}", found=repr(word), expected="a number") from None
    context.report.warn(f"read {paths[0]} as {context.arrangement} for {context.target}")
    frames = [Frame({"atoms": Block({"x": np.array([number])})}, step=step) for step, number in enumerate(numbers)]
    if context.arrangement in ("collection", "records"):
        return MemoryCollection([Record(trajectory=MemoryTrajectory([frame])) for frame in frames], units={})
    return Record(trajectory=MemoryTrajectory(frames))


def write(record: Record, path: Path, context: WriteContext) -> None:
    assert record.trajectory is not None
    with open_target(path, str(context.target)) as file:
        file.write(b"#numbers\n")
        for frame in record.trajectory:
            file.write(f"{float(frame['atoms']['x'][0])!r}\n".encode())


class Numbers:
    """The plugin."""

    @hookimpl
    def molrec_formats(self) -> list[Format]:
        return [
            Format(
                "numbers",
                "Numbers",
                ("*.num",),
                lambda head, path: 1.0 if head.startswith(b"#numbers") else 0.0,
                reads=read,
                writes=write,
                carries=CARRIES,
                arrangements=("trajectory", "collection", "records"),
            )
        ]


@pytest.fixture(autouse=True)
def numbers() -> Iterator[None]:
    manager = plugins.plugin_manager()
    plugin = Numbers()
    manager.register(plugin, "numbers")
    plugins.formats.cache_clear()
    yield
    manager.unregister(plugin)
    plugins.formats.cache_clear()


class Stream(io.TextIOWrapper):
    """A text stream over bytes that stay readable."""

    def __init__(self, text: bytes = b"") -> None:
        self.bytes = io.BytesIO(text)
        super().__init__(self.bytes, encoding="utf-8", write_through=True)


def convert(monkeypatch: pytest.MonkeyPatch, text: bytes, *arguments: object) -> tuple[int, bytes]:
    """Exit code and standard output."""
    out = Stream()
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdin", Stream(text))
        patched.setattr("sys.stdout", out)
        code = run(["convert", *map(str, arguments)])
    return code, out.bytes.getvalue()


TEXT = b"#numbers\n1.5\n2.5\n"


def test_from_standard_input_to_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert convert(monkeypatch, TEXT, "-", "-", "--to", "numbers") == (0, TEXT)


def test_compressed_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target = tmp_path / "a.mrec"
    assert convert(monkeypatch, gzip.compress(TEXT), "-", target)[0] == 0
    with molrec_convert.open(target) as record:
        assert [frame["atoms"]["x"][0] for frame in record.trajectory] == [1.5, 2.5]


def test_messages_name_the_stream(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = convert(monkeypatch, b"#numbers\n1.5\nx\n", "-", "-", "--to", "numbers")
    assert (code, out) == (1, b"")
    assert "mrec: standard input, line 3: found 'x', expected a number" in capsys.readouterr().err
    convert(monkeypatch, TEXT, "-", "-", "--to", "numbers")
    assert "warning: read standard input as None for record" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-", "-"), "the format of standard output is not known: name it with --to"),
        (("-", "-", "-", "--to", "numbers"), "standard input is one source"),
        (("-", "-", "--to", "numbers", "--report", "-"), "standard output is the target"),
        (("-", "-", "--to", "numbers", "--as", "records"), "name a target other than standard output"),
        (("-", "-", "--to", "mrec"), "cannot go to standard output"),
    ],
)
def test_streams_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    code, out = convert(monkeypatch, TEXT, *arguments)
    assert (code, out) == (2, b"")
    assert words in capsys.readouterr().err


def test_a_dry_run_writes_nothing_to_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert convert(monkeypatch, TEXT, "-", "-", "--to", "numbers", "--dry-run") == (0, b"")


def test_records_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = b"#numbers\n" + b"".join(b"%d.5\n" % number for number in range(11))
    code, _ = convert(monkeypatch, text, "-", tmp_path / "run.mrec.zip", "--as", "records")
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"run-{number:02d}.mrec.zip" for number in range(11)]
    with molrec_convert.open(tmp_path / "run-10.mrec.zip") as record:
        assert record.trajectory[0]["atoms"]["x"].tolist() == [10.5]


def test_records_of_their_own_leave_a_taken_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run-1.num").write_text("mine")
    assert convert(monkeypatch, TEXT, "-", tmp_path / "run.num", "--as", "records")[0] == 2
    assert "run-1.num exists already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run-1.num"]


def test_a_collection_is_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "a.num"
    source.write_bytes(TEXT)
    assert len(molrec_convert.read(source, as_="collection")) == 2
    for name, count in (("trajectory", 1), ("collection", 2), ("records", 2)):
        target = tmp_path / f"{name}.mrec.lmdb"
        molrec_convert.convert(source, target, as_=name)  # type: ignore[arg-type]
        with molrec_convert.open(target) as collection:
            assert len(collection) == count
    with pytest.raises(UsageError, match="choose one by its number"):
        molrec_convert.convert(source, tmp_path / "a.mrec", as_="collection")


def test_a_format_that_has_no_choice_says_so(tmp_path: Path) -> None:
    source = tmp_path / "a.num"
    source.write_bytes(TEXT)
    molrec_convert.convert(source, tmp_path / "a.mrec")
    with pytest.raises(UsageError, match="of the format mrec, cannot be taken as 'collection'"):
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", as_="collection")
    with pytest.raises(UsageError, match="'heap'; there are trajectory, collection, records"):
        molrec_convert.read(source, as_="heap")  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("limit", [2**25, 100])
def test_contents_are_those_of_the_target(
    tmp_path: Path, suffix: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molrec_convert.text.contents.MEMORY_BYTES", limit)
    text = np.random.default_rng(7).integers(0, 256, 5000, np.uint8).tobytes()
    path = tmp_path / f"a.bin{suffix}"
    with open_target(path, path.name) as file:
        file.write(text)
    with Contents(path) as contents:
        assert len(contents) == len(text)
        assert contents.data[:] == text
        assert contents.cut is None


def test_contents_of_a_cut_stream(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(np.random.default_rng(7).bytes(100_000))[:50_000])
    with Contents(path) as contents:
        assert contents.cut == "the gzip stream is cut short"
        assert 0 < len(contents) < 100_000
