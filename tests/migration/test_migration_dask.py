"""Migrations on Dask workers: equal to local ones in everything that is left, through kills of anybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dask_child import small_parts
from dask_cluster import Cluster
from migration_inputs import METAL, extxyz, make_files, run, same_collection

import molrec_convert
from molrec_convert.cli import run as mrec
from molrec_convert.migration import MigrationStopped, Settings, migrate
from molrec_convert.migration.inputs import tasks

pytest.importorskip("distributed")

from molrec_convert.migration.engines import dask as dask_engine
from molrec_convert.migration.engines.dask import DaskEngine
from molrec_convert.migration.engines.engine import EngineError

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("dask") / "cluster", 2) as found:
        yield found


@pytest.fixture
def many_parts(monkeypatch):
    monkeypatch.setattr(dask_engine, "_PART_TASKS", dask_engine._PART_TASKS)
    monkeypatch.setattr(tasks, "_TASK_INPUTS", tasks._TASK_INPUTS)
    small_parts()


def make_inputs(folder: Path, count: int = 60) -> Path:
    """Faults, duplicates, files of many configurations, and what is no input at all."""
    make_files(folder, count, kind="bulk")
    (folder / "c00007.extxyz").write_text("3\nbroken\n")
    (folder / "c00021.extxyz").write_text(extxyz(20, kind="bulk"))
    (folder / "c00022.extxyz").write_text(extxyz(5, kind="seven"))
    text = extxyz(7, frames=30, atoms=3, kind="x")
    (folder / "c00030x.extxyz").write_text(text[: text.rindex("\n", 0, -1)] + "\nH 1 2 x 4 5 6\n")
    (folder / "many.extxyz").write_text(extxyz(99, frames=40, kind="gas"))
    (folder / "notes.txt").write_text("lab book\n")
    return folder


def same_in_all(a: Path, b: Path) -> None:
    """Keys, values, index, declaration, and what lies beside the collections."""
    assert same_collection(a, b)
    with molrec_convert.open(a) as ours, molrec_convert.open(b) as theirs:
        assert ours.declaration == theirs.declaration
        assert ours.document == theirs.document
        assert ours.index_columns == theirs.index_columns
        for name in ours.index.columns:
            assert ours.index[name].tolist() == theirs.index[name].tolist()
    for kind in ("failures", "migration"):
        one, other = (path.with_name(f"{path.name.partition('.')[0]}.{kind}.jsonl") for path in (a, b))
        assert one.read_bytes() == other.read_bytes()
    assert not [name for name in os.listdir(b.parent) if name.startswith(".")]


SETTINGS = {"dedupe": True, "index": ("kind",), "group_by": "formula"}


@pytest.mark.slow
def test_equal_to_a_local_migration(tmp_path, cluster, many_parts, monkeypatch):
    make_inputs(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    local = run(["in"], Path("a.mrec.lmdb"), **SETTINGS)
    dask = migrate(["in"], "b.mrec.lmdb", Settings(units=METAL, **SETTINGS), engine=DaskEngine(cluster.address))
    same_in_all(tmp_path / "a.mrec.lmdb", tmp_path / "b.mrec.lmdb")
    assert (local.records, local.frames, local.failures, local.duplicates, local.aside) == (
        dask.records,
        dask.frames,
        dask.failures,
        dask.duplicates,
        dask.aside,
    )
    assert (dask.failures, dask.duplicates) == (2, 1)
    assert local.report.items == dask.report.items
    assert local.report.warnings == dask.report.warnings


def test_what_is_new_is_added_and_what_is_known_recognised(tmp_path, cluster):
    make_files(tmp_path / "in", 20)
    for name, engine in (("a", None), ("b", cluster.address)):
        target = tmp_path / f"{name}.mrec.lmdb"
        chosen = None if engine is None else DaskEngine(engine)
        files = sorted(map(str, (tmp_path / "in").iterdir()))
        migrate(files[:12], target, Settings(units=METAL), workers=1, engine=chosen)
        chosen = None if engine is None else DaskEngine(engine)
        outcome = migrate(files, target, Settings(units=METAL), workers=1, engine=chosen)
        assert (outcome.known, outcome.records) == (12, 20)
    assert same_collection(tmp_path / "a.mrec.lmdb", tmp_path / "b.mrec.lmdb")


def test_stop_stops_and_goes_on_on_the_other_engine(tmp_path, cluster, many_parts):
    make_files(tmp_path / "in", 30)
    bad = tmp_path / "in" / "c00019.extxyz"
    good = bad.read_text()
    bad.write_text(good[: good.rindex("\n", 0, -1)] + "\nH 1 2 x 4 5 6\n")
    settings = Settings(units=METAL, on_error="stop")
    target = tmp_path / "a.mrec.lmdb"
    with pytest.raises(MigrationStopped, match=r"c00019\.extxyz"):
        migrate([str(tmp_path / "in")], target, settings, engine=DaskEngine(cluster.address))
    bad.write_text(good)
    outcome = migrate([str(tmp_path / "in")], target, settings, workers=1)
    assert (outcome.resumed, outcome.records) == (True, 30)
    run([tmp_path / "in"], tmp_path / "whole.mrec.lmdb")
    assert same_collection(target, tmp_path / "whole.mrec.lmdb")


def test_a_dry_run_and_the_command(tmp_path, cluster, capsys):
    make_files(tmp_path / "in", 6)
    (tmp_path / "in" / "bad.extxyz").write_text("3\nbroken\n")
    common = [str(tmp_path / "in"), "-o", str(tmp_path / "a.mrec.lmdb"), "--units", "metal", "--engine", "dask"]
    common += ["--scheduler", cluster.address]
    assert mrec(["migrate", *common, "--dry-run"]) == 4
    assert "extxyz: 7 inputs" in capsys.readouterr().out
    assert os.listdir(tmp_path) == ["in"]
    assert mrec(["migrate", *common]) == 4
    assert "1 input could not be migrated" in capsys.readouterr().err
    assert len(molrec_convert.open(tmp_path / "a.mrec.lmdb")) == 6


def refused(capsys, *arguments: object) -> tuple[int, str]:
    code = mrec(["migrate", *map(str, arguments)])
    return code, capsys.readouterr().err


def test_options_that_do_not_go_together(tmp_path, capsys):
    make_files(tmp_path / "in", 2)
    common = (tmp_path / "in", "-o", tmp_path / "a.mrec.lmdb", "--units", "metal")
    address = "tcp://127.0.0.1:9"
    for arguments, said in (
        (("--scheduler", address), "--scheduler needs --engine dask"),
        (("--engine", "dask", "--scheduler", address, "--workers", 2), "--workers are started here"),
        (("--engine", "dask", "--as", "records"), "--engine dask makes a collection"),
    ):
        code, err = refused(capsys, *common, *arguments)
        assert code == 2
        assert said in err
        assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["in"]


def test_a_scheduler_that_does_not_answer(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(dask_engine, "_ANSWER", 1)
    make_files(tmp_path / "in", 2)
    common = (tmp_path / "in", "-o", tmp_path / "a.mrec.lmdb", "--units", "metal", "--engine", "dask")
    wrong = "is no address of a Dask scheduler: expected tcp://HOST:PORT"
    cases = [("tcp://127.0.0.1:9", 1, "no scheduler answers at tcp://127.0.0.1:9")]
    cases += [("tls://127.0.0.1:9", 1, "no scheduler answers at tls://127.0.0.1:9")]
    cases += [(address, 2, f"'{address}' {wrong}") for address in ("x y", "host", "no://host:1", "tcp://host:99999")]
    for address, wanted, said in cases:
        code, err = refused(capsys, *common, "--scheduler", address)
        assert code == wanted
        assert said in err
        assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.slow
def test_workers_that_cannot_do_it(tmp_path, capsys, cluster, monkeypatch):
    make_files(tmp_path / "in", 2)
    common = (tmp_path / "in", "-o", tmp_path / "a.mrec.lmdb", "--units", "metal", "--engine", "dask")
    common += ("--scheduler", cluster.address)
    with monkeypatch.context() as patched:
        patched.setattr(dask_engine, "__version__", "9.9")
        code, err = refused(capsys, *common)
    assert code == 1
    assert "and not 9.9: install the same there" in err
    with monkeypatch.context() as patched:
        # as a path that others do not see looks to them
        place = dask_engine.Place
        patched.setattr(dask_engine, "Place", lambda *facts: place(facts[0], facts[1], "/nowhere", facts[3]))
        code, err = refused(capsys, *common)
    assert code == 1
    assert "does not see /nowhere: the output lies on a path all workers share" in err
    with monkeypatch.context() as patched:
        patched.setattr(dask_engine.os, "getcwd", lambda: "/elsewhere")
        code, err = refused(capsys, *common)
    assert code == 1
    assert "does not see the directory /elsewhere: inputs are named from there" in err
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.slow
def test_a_greeting_that_does_not_come_alone(tmp_path, cluster, monkeypatch):
    """Dask's client asserts that it does; a busy scheduler is asked again."""
    make_files(tmp_path / "in", 2)
    asked = []
    made = dask_engine._client_class

    def client():
        asked.append(len(asked))
        if len(asked) == 1:
            raise AssertionError
        return made()

    monkeypatch.setattr(dask_engine, "_client_class", client)
    engine = DaskEngine(cluster.address)
    outcome = migrate([str(tmp_path / "in")], tmp_path / "a.mrec.lmdb", Settings(units=METAL), engine=engine)
    assert outcome.records == 2
    assert asked == [0, 1]


class Counting(DaskEngine):
    """Remembers the names of the parts that were asked for, and may do something after some."""

    def __init__(self, address: str, after: int = -1, act=None) -> None:
        super().__init__(address)
        self.asked: list[str] = []
        self._after, self._act = after, act

    def _submit(self, work, job):
        if job.order.name:
            self.asked.append(job.order.name)
            if len(self.asked) == self._after:
                self._act()
        return super()._submit(work, job)


@pytest.mark.slow
def test_nobody_is_waited_for_without_end(tmp_path, many_parts, monkeypatch):
    """Workers and a scheduler that are stuck, which to the system look alive, and workers without memory."""
    monkeypatch.setattr(dask_engine, "_SILENCE", 3)
    monkeypatch.setattr(dask_engine, "_NOBODY", 1)
    monkeypatch.setattr(dask_engine, "_ANSWER", 4)
    make_files(tmp_path / "in", 60)
    target = tmp_path / "a.mrec.lmdb"

    def told(address: str, after: int = -1, act=None) -> str:
        with pytest.raises(EngineError) as raised:
            migrate([str(tmp_path / "in")], target, Settings(units=METAL), engine=Counting(address, after, act))
        return str(raised.value)

    with Cluster(tmp_path / "cluster", 0) as cluster:
        poor = cluster.add_worker("--memory-limit", "1MB")
        assert "are short of memory: give them more, and run the same command" in told(cluster.address)
        poor.kill()
        worker = cluster.add_worker()
        assert os.listdir(tmp_path) in (["in", "cluster"], ["cluster", "in"])
        scheduler = cluster.scheduler
        assert "does not answer any more" in told(cluster.address, 2, lambda: scheduler.send_signal(signal.SIGSTOP))
        scheduler.send_signal(signal.SIGCONT)
        worker.send_signal(signal.SIGSTOP)
        assert "answer within 3 s" in told(cluster.address)
        worker.send_signal(signal.SIGCONT)
        outcome = migrate([str(tmp_path / "in")], target, Settings(units=METAL), engine=DaskEngine(cluster.address))
    assert (outcome.resumed, outcome.records) == (True, 60)


@pytest.mark.slow
def test_an_input_that_ends_workers_is_at_fault(tmp_path, many_parts):
    make_files(tmp_path / "in", 30)
    poison, once = tmp_path / "in" / "poison.extxyz", tmp_path / "in" / "c00004x.extxyz"
    once.write_text(extxyz(98))
    run([tmp_path / "in"], tmp_path / "clean.mrec.lmdb")
    poison.write_text(extxyz(99))
    strict = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    inputs = sorted(map(str, (tmp_path / "in").iterdir()))
    goal = Settings(units=METAL, declaration=str(tmp_path / "clean.mrec.lmdb"))
    with Cluster(
        tmp_path / "cluster", 3, "--preload", HERE.parent / "support" / "killing_preload.py", **strict
    ) as cluster:
        outcome = migrate(inputs, tmp_path / "a.mrec.lmdb", goal, engine=DaskEngine(cluster.address))
        assert sum(worker.poll() == -signal.SIGKILL for worker in cluster.workers) == 2
    assert (outcome.records, outcome.failures) == (31, 1)
    (failure,) = map(json.loads, (tmp_path / "a.failures.jsonl").read_text().splitlines())
    assert (failure["path"], failure["type"]) == (str(poison), "WorkerLost")
    assert same_collection(tmp_path / "clean.mrec.lmdb", tmp_path / "a.mrec.lmdb")


def parts_of(target: Path) -> Iterator[str]:
    folder = target.parent / f".{target.name}.migration" / "parts"
    return (path.name for path in folder.glob("[0-9]*.mrec.lmdb"))


@pytest.mark.slow
def test_workers_and_coordinators_killed(tmp_path, many_parts):
    """One of three workers is killed during the run, the coordinator several times; what is whole is not made again."""
    make_inputs(tmp_path / "in", 200)
    target = tmp_path / "killed.mrec.lmdb"
    settings = Settings(units=METAL, dedupe=True)
    migrate([str(tmp_path / "in")], tmp_path / "whole.mrec.lmdb", settings, workers=1)
    kept = 0
    with Cluster(tmp_path / "cluster", 3) as cluster:
        for results in (1, 2):
            arguments = (target, cluster.address, results, tmp_path / "in")
            child = subprocess.run([sys.executable, str(HERE / "dask_child.py"), *map(str, arguments)], timeout=300)
            assert child.returncode == -signal.SIGKILL
            kept += len(list(parts_of(target)))
        assert kept > 3
        whole = {name.partition(".")[0] for name in parts_of(target)}
        killed = cluster.workers[1]
        engine = Counting(cluster.address, 2, killed.kill)
        outcome = migrate([str(tmp_path / "in")], target, settings, engine=engine)
        assert killed.wait(300) == -signal.SIGKILL
    assert outcome.resumed
    assert whole
    assert not whole & set(engine.asked)
    assert len(engine.asked) > 2
    same_in_all(tmp_path / "whole.mrec.lmdb", target)


@pytest.mark.slow
def test_a_cluster_on_this_machine(tmp_path, capsys):
    make_inputs(tmp_path / "in", 30)
    run([tmp_path / "in"], tmp_path / "a.mrec.lmdb")
    arguments = [
        tmp_path / "in",
        "-o",
        tmp_path / "b.mrec.lmdb",
        "--units",
        "metal",
        "--engine",
        "dask",
        "--workers",
        2,
    ]
    assert mrec(["migrate", *map(str, arguments)]) == 4
    assert capsys.readouterr().err.count("\n") <= 4
    same_in_all(tmp_path / "a.mrec.lmdb", tmp_path / "b.mrec.lmdb")


def listening() -> set[str]:
    """Addresses and ports this process and its children listen on, as the system has them."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents = [folder.name, (folder / "stat").read_text().rpartition(")")[2].split()[1]]
            sockets = {os.readlink(entry) for entry in (folder / "fd").iterdir()}
        except OSError:
            continue
        if str(os.getpid()) not in parents:
            continue
        for table in ("tcp", "tcp6"):
            for line in (folder / "net" / table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                    found.add(words[1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("with_library", [True, False])
def test_a_cluster_of_our_own_is_nobody_elses(monkeypatch, with_library):
    """It listens on the loopback alone and, where there is a library for it, takes its own certificates only."""
    if with_library:
        pytest.importorskip("cryptography")
    else:
        monkeypatch.setitem(sys.modules, "cryptography", None)
    before = listening()
    engine = DaskEngine(workers=1)
    engine.begin(Settings())
    engine._connect()
    try:
        assert {place.partition(":")[0] for place in listening() - before} == {"0100007F"}
        address = engine._cluster.scheduler_address
        assert address.startswith("tls://127.0.0.1:" if with_library else "tcp://127.0.0.1:")
        if with_library:
            # In processes of their own: collecting a client that never connected as garbage may wait for ever.
            for other, security in (
                (address, "None"),
                (address.replace("tls", "tcp"), "None"),
                (address, "distributed.security.Security.temporary()"),
            ):
                connect = f"distributed.Client({other!r}, security={security}, timeout=2, set_as_default=False)"
                script = f"import distributed, os\ntry:\n    {connect}\n"
                script += "except (OSError, TypeError):\n    os._exit(3)\nos._exit(0)"
                assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 3
        assert engine._client.submit(sum, [1, 2]).result(timeout=60) == 3
    finally:
        engine.close()
