"""Try damaged inputs: each is read to its end, or refused in a sentence that names its file. Nothing else is right.

    python mutants.py                             # 100,000 mutants of all formats, and a table
    python mutants.py --count 2000 --only xyz     # some, of one row of the table
    python mutants.py --trial 4711 --keep DIR     # one of them, its files left in DIR

The mutant of a number and a seed is always the same.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import importlib
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT), str(ROOT / "plugins")]

from mutant_seeds import Seed, gather  # noqa: E402
from mutations import Mutant, mutate, words_of  # noqa: E402

#: Trials a forked process does before it ends.
BATCH = 100
#: Seconds of the clock after which a trial hangs, of the processor after which it is too slow.
HANGS, SLOW = 60.0, 15.0
#: Bytes a trial may take beyond what the process has: of address space that is written to, and of memory.
SPACE, MEMORY = 1_500 * 2**20, 400 * 2**20
#: Python warnings of one trial that are a flood, and bytes on the standard streams.
FLOOD, NOISE = 20, 20_000
#: Every so many trials what is read is converted, too.
CONVERTED = 8
TARGETS = (
    ("out.mrec", "mrec"), ("out.mrec", "mrec"), ("out.mrec.lmdb", "mrec-lmdb"), ("out.mrec.lmdb", "mrec-lmdb"),
    ("out.mrec.zip", "mrec-zip"), ("out.extxyz", "extxyz"), ("out.data", "lammps-data"), ("out.pdb", "pdb"),
    ("out.cif", "mmcif"), ("out.lammpstrj", "lammps-dump"), ("out.db", "ase-db"), ("out.run", "lammps-run"),
)  # fmt: skip


@dataclass
class Counts:
    """What became of the mutants of one kind."""

    trials: int = 0
    refused: int = 0
    read: int = 0
    uncovered: int = 0
    wrong: int = 0


@dataclass
class Results:
    """What became of all mutants: counts by kind, what was wrong by its key, with examples."""

    counts: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))
    wrong: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, told: dict[str, Any]) -> None:
        """Count one trial."""
        counts = self.counts[told["kind"]]
        counts.trials += 1
        verdict = told["verdict"]
        setattr(counts, verdict, getattr(counts, verdict) + 1)
        if verdict == "wrong":
            self.wrong[told["key"]].append(told)

    def table(self) -> Iterator[str]:
        """The counts as a table in Markdown."""
        yield "| format | mutants | refused | read | not covered | wrong |"
        yield "|---|---|---|---|---|---|"
        total = Counts()
        for kind in sorted(self.counts):
            counts = self.counts[kind]
            yield _row(kind, counts)
            for name in vars(total):
                setattr(total, name, getattr(total, name) + getattr(counts, name))
        yield _row("all", total)

    def save(self, path: Path) -> None:
        """Write all of it as JSON."""
        document = {"counts": {kind: vars(counts) for kind, counts in self.counts.items()}, "wrong": self.wrong}
        path.write_text(json.dumps(document, indent=1))

    def faults(self, examples: int = 3) -> Iterator[str]:
        """What was wrong, the most frequent first, with some trials each."""
        for key, told in sorted(self.wrong.items(), key=lambda item: -len(item[1])):
            kinds = Counter(entry["kind"] for entry in told)
            yield f"{len(told):5d}  {key}  [{', '.join(f'{kind} {n}' for kind, n in kinds.most_common(4))}]"
            for entry in told[:examples]:
                yield f"         trial {entry['trial']} {entry['seed']}: {entry['done']}: {entry['text'][:300]}"


def _row(kind: str, counts: Counts) -> str:
    cells = (counts.trials, counts.refused, counts.read, counts.uncovered, counts.wrong)
    return f"| {kind} | {' | '.join(f'{cell:,}' for cell in cells)} |"


class Wrong(Exception):
    """What may not happen, `key` groups what is alike."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


class Bench:
    """The seeds, and which mutant a number is."""

    def __init__(self, seeds: Sequence[Seed], seed: int, only: str | None = None) -> None:
        by_kind: dict[str, list[Seed]] = defaultdict(list)
        for entry in seeds:
            if only is None or only in entry.kind:
                by_kind[entry.kind].append(entry)
        if not by_kind:
            raise SystemExit(
                f"no format has {only!r} in its name: there are {', '.join(sorted({s.kind for s in seeds}))}"
            )
        self.kinds = [by_kind[kind] for kind in sorted(by_kind)]
        self.seed = seed
        self.words = words_of(data for entry in seeds for data in entry.files.values())

    def chosen(self, trial: int) -> tuple[Seed, random.Random]:
        """The seed a number is a mutant of, and the chance that decides what is done."""
        chance = random.Random(f"{self.seed}-{trial}")
        return chance.choice(self.kinds[trial % len(self.kinds)]), chance


def run(
    bench: Bench,
    trials: Sequence[int],
    folder: Path,
    *,
    jobs: int = 1,
    progress: bool = False,
    keep: Path | None = None,
) -> Results:
    """Try the mutants of some numbers, in `jobs` processes at a time, which are forked from this one.

    With `progress` it is told from time to time how far this is, and what was found so far goes to `keep`.
    """
    load()
    results = Results()
    waiting = [list(trials[start : start + BATCH]) for start in range(0, len(trials), BATCH)][::-1]
    running: list[_Child] = []
    last = time.monotonic()
    gc.collect()
    gc.freeze()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_Child(bench, waiting.pop(), folder))
        select.select([child.pipe for child in running], [], [], 1.0)
        for child in list(running):
            for told in child.told():
                results.add(told)
            if child.ended:
                running.remove(child)
                if child.left:
                    waiting.append(child.left)
        if progress and time.monotonic() - last > 30:
            last = time.monotonic()
            done = sum(counts.trials for counts in results.counts.values())
            wrong = sum(counts.wrong for counts in results.counts.values())
            print(f"{done:,} of {len(trials):,}, {wrong} wrong", file=sys.stderr, flush=True)
            if keep is not None:
                results.save(keep)
    gc.unfreeze()
    return results


def load() -> None:
    """Import all that readers import while they work, so that forked processes have it."""
    from molrec_convert.conversion import convert as conversion
    from molrec_convert.plugins import formats, plugin_manager

    plugin_manager()
    for entry in formats().values():
        for named in (entry.reads, entry.writes, entry.predicts, entry.read_many):
            if isinstance(named, str):
                with contextlib.suppress(ImportError):
                    importlib.import_module(named.partition(":")[0])
    for name in ("ase.db", "ase_db_backends.aselmdb", "MDAnalysis", "gemmi", "lmdb", "zarr"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert conversion


class _Child:
    """A forked process that tries a batch of mutants one after the other, and is watched."""

    def __init__(self, bench: Bench, trials: list[int], folder: Path) -> None:
        self.left = trials
        self.ended = False
        self._bench, self._trials = bench, list(trials)
        self._last = time.monotonic()
        self._text = b""
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self.pipe, writing = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.pipe)
            try:
                _work(bench, trials, self._folder, writing)
            finally:
                os._exit(0)
        os.close(writing)

    def told(self) -> Iterator[dict[str, Any]]:
        """What it has found since it was asked last; when it ended, or hangs, that is told of the trial it was at."""
        while select.select([self.pipe], [], [], 0)[0]:
            piece = os.read(self.pipe, 2**16)
            if not piece:
                yield from self._end()
                return
            self._last = time.monotonic()
            *lines, self._text = (self._text + piece).split(b"\n")
            for line in lines:
                told = json.loads(line)
                self.left = self.left[1:]
                yield told
        if time.monotonic() - self._last > HANGS:
            os.kill(self.pid, signal.SIGUSR1)  # says where it is
            time.sleep(0.5)
            os.kill(self.pid, signal.SIGKILL)
            yield from self._end(hangs=True)

    def _end(self, hangs: bool = False) -> Iterator[dict[str, Any]]:
        self.ended = True
        os.close(self.pipe)
        status = os.waitpid(self.pid, 0)[1]
        if self.left and (hangs or os.WIFSIGNALED(status)):
            said = (self._folder / "said").read_text(errors="replace")
            frames = re.findall(r'File "[^"]*?([^/"]+)", line \d+ in (\S+)', said)
            where = " < ".join(f"{file}:{name}" for file, name in frames[:3])
            what = "hangs" if hangs else f"signal {os.WTERMSIG(status)}"
            trial, self.left = self.left[0], self.left[1:]
            seed, _ = self._bench.chosen(trial)
            done = "in the mutation" if "mutations.py" in where else ""
            yield _told(trial, seed, "wrong", done, f"{what} in {where}", said[-1500:])
        elif self.left and len(self.left) == len(self._trials):
            raise SystemExit(f"a process ended before its first trial, status {status}")
        shutil.rmtree(self._folder, ignore_errors=True)


def _told(trial: int, seed: Seed, verdict: str, done: str, key: str = "", text: str = "") -> dict[str, Any]:
    return {
        "trial": trial, "kind": seed.kind, "seed": seed.name, "verdict": verdict, "done": done, "key": key,
        "text": text,
    }  # fmt: skip


def _work(bench: Bench, trials: Sequence[int], folder: Path, writing: int) -> None:
    """Try the mutants; a line for each goes to the descriptor `writing`."""
    said = os.open(folder / "said", os.O_RDWR | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    faulthandler.enable(2)
    faulthandler.register(signal.SIGUSR1, 2)
    _limit()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    tempfile.tempdir = str(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for trial in trials:
        started = time.process_time()
        os.ftruncate(said, 0)
        os.lseek(said, 0, os.SEEK_SET)
        told = try_one(bench, trial, folder / f"t{trial}")
        seconds = time.process_time() - started
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        noise = os.fstat(said).st_size
        text = (folder / "said").read_text(errors="replace")
        key = ""
        if seconds > SLOW:
            key = "too slow"
        elif grown > MEMORY:
            key = "too much memory"
        elif noise > NOISE or "Traceback" in text or "Exception ignored" in text:
            key = f"noise: {_shape(text.strip()[-200:])}"
        if key and told["verdict"] != "wrong":
            told.update(
                verdict="wrong", key=key, text=f"{seconds:.1f} s, {grown / 1e6:.0f} MB, {told['text']} {text[-600:]}"
            )
        os.write(writing, json.dumps(told).encode() + b"\n")
        shutil.rmtree(folder / f"t{trial}", ignore_errors=True)
        if grown > MEMORY:
            return


def _limit() -> None:
    """Bound what may be written to: a share beyond what the process has already."""
    used = next(
        int(line.split()[1]) * 1024 for line in Path("/proc/self/status").read_text().splitlines() if "VmData" in line
    )
    resource.setrlimit(resource.RLIMIT_DATA, (used + SPACE, used + SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def try_one(bench: Bench, trial: int, folder: Path) -> dict[str, Any]:
    """Make the mutant of a number and look at it in every way; what became of it."""
    seed, chance = bench.chosen(trial)
    altered = {name: data for name, data in seed.files.items() if not seed.altered or name in seed.altered}
    mutant = mutate(altered, bench.words, chance)
    mutant.files = {**{name: data for name, data in seed.files.items() if name not in altered}, **mutant.files}
    folder.mkdir()
    lay(mutant, folder)
    done = "; ".join(mutant.done)
    try:
        verdict, text = _examine(seed, mutant, folder, chance, converted=trial // len(bench.kinds) % CONVERTED == 0)
    except Wrong as wrong:
        return _told(trial, seed, "wrong", done, wrong.key, str(wrong))
    return _told(trial, seed, verdict, done, text=text)


def lay(mutant: Mutant, folder: Path) -> None:
    """Write the files of a mutant into a folder."""
    for name, data in mutant.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, bytes):
            path.write_bytes(data)
        elif data == "directory":
            path.mkdir(exist_ok=True)
        elif data == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(path.name)


def _examine(seed: Seed, mutant: Mutant, folder: Path, chance: random.Random, *, converted: bool) -> tuple[str, str]:
    """Look at a mutant in every way; `Wrong` for what may not happen."""
    from molrec_convert.inspect.validation import Severity, validate

    paths = [folder / name for name in seed.paths]
    named = seed.format if chance.random() < 0.7 else None
    with _judged(seed, folder, "reading") as refused:
        if seed.format == "rules":
            _rules(paths[0], folder)
        else:
            _walk(paths, named, seed)
    findings: list[Any] = []
    if seed.store and paths[0].exists():
        with _judged(seed, folder, "validating") as broken:
            findings = validate(paths[0])
        if broken:
            raise Wrong(f"validate refuses: {broken[0][:80]}", broken[0])
        for finding in findings:
            if "more memory" in finding.message:
                raise Wrong("validate: needs more memory than there is", str(finding))
        with _judged(seed, folder, "tree"):
            _tree(paths[0])
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        if refused and not errors:
            raise Wrong(f"valid, but refused: {_shape(refused[0])}", refused[0])
        if not refused and not errors and (changed := _changed(seed, paths[0], folder)):
            if mutant.covered:
                raise Wrong("silent change", changed)
            return "uncovered", changed
    if converted and seed.format != "rules":
        _convert(seed, paths, named, folder, chance)
    return ("refused", refused[0]) if refused else ("read", "")


@contextlib.contextmanager
def _judged(seed: Seed, folder: Path, doing: str) -> Iterator[list[str]]:
    """Give a list that has the sentence of what was refused inside; `Wrong` for every other exception."""
    from molrec_convert.cli.output import sentence
    from molrec_convert.errors import MolrecError, PluginError, UsageError
    from molrec_convert.plugins import problems

    refused: list[str] = []
    before = len(problems())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield refused
        except Wrong:
            raise
        except BaseException as error:
            known = isinstance(error, MolrecError) or (isinstance(error, OSError) and error.errno is not None)
            text = sentence(error, ", ".join(str(folder / name) for name in seed.paths))
            if not known or isinstance(error, PluginError):
                cause = error.__cause__ if isinstance(error, PluginError) and error.__cause__ else error
                raise Wrong(
                    f"{doing}: {_place(cause)}", f"{text}\n{''.join(traceback.format_tb(cause.__traceback__)[-6:])}"
                ) from None
            about_call = isinstance(error, UsageError)  # which option to give
            if not about_call and not any(
                part in text for name in (*seed.paths, *seed.files) for part in (name, Path(name).name)
            ):
                raise Wrong(f"{doing}: no file named: {type(error).__name__} {_shape(text)}", text) from None
            if len(text) > 3000:
                raise Wrong(f"{doing}: a sentence of {len(text)} letters: {text[:80]}", text) from None
            refused.append(text)
    if len(problems()) > before:
        raise Wrong(f"a sniffer fails: {_shape(problems()[-1])}", problems()[-1])
    if len(caught) > FLOOD:
        raise Wrong(
            f"{doing}: {len(caught) // 10 * 10} warnings: {caught[0].category.__name__} {caught[0].filename}",
            str(caught[0]),
        )
    for told in caught:
        if "Cannot close a netcdf_file" in str(told.message):
            continue  # scipy's, of a file that was refused; it is closed with the error
        if issubclass(told.category, RuntimeWarning) and ("molrec_" in told.filename):
            place = f"{Path(told.filename).name}:{told.lineno}"
            raise Wrong(f"{doing}: RuntimeWarning {place} {told.message}", str(told))


def _place(error: BaseException) -> str:
    """Exception, its text without what differs, and the innermost place of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "molrec_" in frame.filename] or list(frames)
    at = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else ""
    return f"{type(error).__name__} {at} {_shape(str(error))}"


def _shape(text: str) -> str:
    """A text without numbers, quotations and paths, so that what is alike is equal."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "…", text)
    return re.sub(r"\S*/\S*|[-+]?\d[\d.]*\S*", "…", text)[:110]


def _walk(paths: list[Path], named: str | None, seed: Seed) -> None:
    """Read a source to its end, and what `mrec info` says of it."""
    from molrec_convert.conversion.reading import read
    from molrec_convert.inspect.summary.collection import collection_rows, summarize_collection
    from molrec_convert.inspect.summary.record import summarize, summary_rows, text_lines
    from molrec_convert.model.record import Record

    with read(*paths, format=named, verify=True, **(seed.options if named else {})) as source:
        if isinstance(source, Record):
            walk_record(source)
            list(text_lines(summary_rows(summarize(source))))
            return
        for number in range(min(len(source), 50)):
            walk_record(source[number])
        for column in source.index.columns.values():
            _ = column.values
        batches = source.record_batches()
        for _ in batches or ():
            pass
        _ = source.forcefield
        for number in range(min(source.n_frames, 5)):
            source.frame(number)
            source.sample(number)
        list(text_lines(collection_rows(summarize_collection(source))))


def walk_record(record: Any) -> None:
    """Read every section of a record, and every value in it."""
    for frame in (record.system, record.frame):
        if frame is not None:
            frame.check()
            for block in frame.blocks.values():
                for column in block.columns.values():
                    _ = column.values, column.validity
    if record.trajectory is not None:
        frames = 0
        for batch in record.trajectory.batches():
            frames += batch.n_frames
        if frames:
            _ = record.trajectory.steps, record.trajectory.times
            record.trajectory.frame(frames - 1)
    if record.forcefield is not None:
        list(record.forcefield.faults())
    for observable in (record.observables or {}).values():
        _ = observable.values
    for key in record.metrics or ():
        _ = record.metrics[key].values
    if record.unknown is not None:
        for key in record.unknown.keys():  # noqa: SIM118
            record.unknown.read(key)


def _tree(path: Path) -> None:
    from molrec_convert.inspect.tree import collection_lines, is_collection, is_set, set_lines, tree_lines

    for _ in (
        set_lines(path, ())
        if is_set(path)
        else collection_lines(path, ())
        if is_collection(path)
        else tree_lines(path, ())
    ):
        pass


def _rules(path: Path, folder: Path) -> None:
    from molrec_convert.migration.inputs.inputs import expand_inputs
    from molrec_convert.migration.settings import RuleBook, Settings, idle_rules, read_rules

    settings = Settings(rules=read_rules(path))
    table = expand_inputs([str(folder / "in")], folder / "out.mrec.lmdb")
    idle_rules(settings, table.paths)
    for name in table.paths:
        RuleBook(settings).of(name)


def _changed(seed: Seed, path: Path, folder: Path) -> str:
    """How a store differs from the one it is a mutant of; empty where it does not."""
    from molrec_convert.conversion.reading import read
    from molrec_convert.inspect.diff import collection_differences, differences
    from molrec_convert.model.record import Record

    whole = folder / "whole"
    whole.mkdir()
    lay(Mutant(dict(seed.files)), whole)
    with read(whole / seed.paths[0], format=seed.format) as a, read(path, format=seed.format) as b:
        if isinstance(a, Record) != isinstance(b, Record):
            return "another kind of store"
        found = differences(a, b) if isinstance(a, Record) else collection_differences(a, b)  # type: ignore[arg-type]
        return next(iter(found), "")


def _convert(seed: Seed, paths: list[Path], named: str | None, folder: Path, chance: random.Random) -> None:
    """Convert a mutant: what is refused leaves nothing, what is written is whole."""
    from molrec_convert.conversion.convert import convert
    from molrec_convert.inspect.validation import Severity, validate

    name, format = chance.choice(TARGETS)
    target = folder / "out" / name
    target.parent.mkdir()
    with _judged(seed, folder, f"to {format}") as refused:
        convert(paths, target, from_format=named, to_format=format, **(seed.options if named else {}))
    left = sorted(path.name for path in target.parent.iterdir())
    if refused:
        if left:
            raise Wrong(f"to {format}: refused, and there is {' '.join(left)}", refused[0])
        return
    if name not in left or len(left) > 1:
        raise Wrong(f"to {format}: written, and there is {' '.join(left)}", "")
    if format.startswith("mrec"):
        faults = [finding for finding in validate(target) if finding.severity is Severity.ERROR]
        if faults:
            raise Wrong(f"to {format}: not valid: {_shape(str(faults[0]))}", str(faults[0]))


def main() -> None:
    """Parse arguments, try, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, metavar="N", help="mutants to try (100,000)")
    parser.add_argument("--seed", type=int, default=1, help="which mutants: another seed, other ones (1)")
    parser.add_argument("--only", metavar="FORMAT", help="rows of the table whose name has this in it")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first mutant (0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time (1)")
    parser.add_argument("--trial", type=int, metavar="N", help="try this mutant alone, and show what happens")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the files of --trial are left")
    parser.add_argument("--again", type=Path, metavar="FILE", help="try those that were wrong in what --json wrote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="counts, and all that was wrong, as JSON")
    arguments = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=memory if os.access(memory, os.W_OK) else None) as folder:
        place = Path(folder)
        (place / "seeds").mkdir()
        bench = Bench(gather(place / "seeds"), arguments.seed, arguments.only)
        if arguments.trial is not None:
            where = arguments.keep or place / "trial"
            print(json.dumps(try_one(bench, arguments.trial, where), indent=1, ensure_ascii=False).replace("\\n", "\n"))
            return
        numbers: Sequence[int] = range(arguments.first, arguments.first + arguments.count)
        if arguments.again is not None:
            told = json.loads(arguments.again.read_text())["wrong"].values()
            numbers = sorted(entry["trial"] for entries in told for entry in entries)
        results = run(bench, numbers, place, jobs=arguments.jobs, progress=True, keep=arguments.json)
    print("\n".join([*results.table(), "", *results.faults()]))
    if arguments.json is not None:
        results.save(arguments.json)
    sys.exit(bool(results.wrong))


if __name__ == "__main__":
    main()
