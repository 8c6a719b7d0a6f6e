"""Frames of a run as records of their own: many at once give what one by one gives, to the byte."""

from __future__ import annotations

import numpy as np
import pytest
from migration_inputs import run, same_collection

import molrec_convert
from molrec_convert.migration import batches as run_encoder
from molrec_convert.migration.inputs import sources as frame_records
from molrec_convert.migration.settings import parse_units
from molrec_convert.model import Block, Box, Column, Declaration, Frame, MemoryTrajectory, Meta, Record
from molrec_convert.model.declaration import BlockDeclaration, ColumnDeclaration, MetaDeclaration

FRAMES = 30
RNG = np.random.default_rng(3)
REAL = ColumnDeclaration("f64", ())


def atoms(count=4, **columns):
    return Block({**{name: Column(RNG.normal(size=count)) for name in "xyz"}, **columns}, count=count)


def box(edge):
    return Box(np.eye(3) * edge, np.zeros(3), np.ones(3, np.bool_))


def frames(make):
    return [make(number) for number in range(FRAMES)]


def energies(number):
    return Meta({"pe": float(-number) if number % 7 else float("nan")})


def plain(number):
    return Frame({"atoms": atoms()}, energies(number), box(9.0 + number), 10 * number)


def system(count=4):
    elements = np.array(["C", "H", "H", "O"][:count], np.dtypes.StringDType())
    return Frame({"atoms": Block({"element": Column(elements)}, count=count)}, Meta({"name": "a"}))


def nullable(number):
    mask = RNG.random(4) > 0.3 if number % 3 else None
    return Frame({"atoms": atoms(mass=Column(RNG.normal(size=4), mask))}, Meta({"pe": 1.0}), step=number)


CASES = {
    "uniform": lambda: Record(system=system(), trajectory=MemoryTrajectory(frames(plain))),
    "no system": lambda: Record(trajectory=MemoryTrajectory(frames(plain))),
    "times": lambda: Record(
        system=system(),
        trajectory=MemoryTrajectory(frames(lambda n: Frame({"atoms": atoms()}, step=n, time=0.5 * n))),
    ),
    "one cell for all": lambda: Record(
        system=system(),
        trajectory=MemoryTrajectory(frames(lambda n: Frame({"atoms": atoms()}, box=None if n else box(7.0), step=n))),
    ),
    "a cell from the tenth on": lambda: Record(
        trajectory=MemoryTrajectory(
            frames(lambda n: Frame({"atoms": atoms()}, box=box(n) if n in (10, 20) else None, step=n))
        )
    ),
    "numbers of atoms vary": lambda: Record(
        trajectory=MemoryTrajectory(frames(lambda n: Frame({"atoms": atoms(1 + n % 3)}, energies(n), step=n)))
    ),
    "a block that is carried forward": lambda: Record(
        trajectory=MemoryTrajectory(
            frames(
                lambda n: Frame(
                    {
                        "atoms": atoms(),
                        **({} if n % 4 else {"grid": Block({"v": Column(np.arange(3) + n)}, count=3)}),
                    },
                    step=n,
                )
            )
        )
    ),
    "two blocks": lambda: Record(
        trajectory=MemoryTrajectory(
            frames(lambda n: Frame({"atoms": atoms(), "grid": Block({"v": Column(np.arange(3) + n)}, count=3)}, step=n))
        )
    ),
    "nulls": lambda: Record(trajectory=MemoryTrajectory(frames(nullable))),
    "elements in the frames": lambda: Record(
        trajectory=MemoryTrajectory(
            frames(
                lambda n: Frame(
                    {
                        "atoms": atoms(
                            element=Column(np.array(["C", "H", "N", "O"][: 3 + n % 2] + ["H"] * (1 - n % 2), "T"))
                        )
                    },
                    energies(n),
                    step=n,
                )
            )
        )
    ),
    "atomic numbers in the frames": lambda: Record(
        trajectory=MemoryTrajectory(
            frames(
                lambda n: Frame({"atoms": atoms(atomic_number=Column(np.array([1, 6, 8, 1 + n % 9], "u8")))}, step=n)
            )
        )
    ),
    "documents": lambda: Record(
        meta={"title": "x"},
        system=system(),
        trajectory=MemoryTrajectory(
            frames(lambda n: Frame({"atoms": atoms()}, Meta({"pe": 1.5, "kind": f"k{n % 3}"}), step=n))
        ),
    ),
}


def settling() -> Record:
    """A block that settles in the system, and one that changes."""
    declaration = Declaration(
        {
            "atoms": BlockDeclaration(dict.fromkeys("xyz", REAL), rows=4),
            "fixed": BlockDeclaration({"mass": REAL}, rows=4, settles="atoms"),
        },
        {"pe": MetaDeclaration("f64", 0.0)},
    )

    def make(number):
        fixed = {} if number else {"fixed": Block({"mass": Column(np.arange(1.0, 5.0))}, count=4)}
        return Frame({"atoms": atoms(), **fixed}, energies(number), box(9.0), number)

    return Record(system=system(), trajectory=MemoryTrajectory(frames(make), declaration))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("settings", ["plain", "keys", "dedupe", "units"])
def test_many_at_once_are_as_one_by_one(tmp_path, monkeypatch, case, settings):
    record = CASES[case]()
    assert record.system is None or record.system.blocks
    units = {"preset": "metal"} if settings != "units" else {"preset": "nano"}
    meta = Meta({"units": units}) if record.system is None else Meta({**record.system.meta, "units": units})
    whole = Frame({}, meta) if record.system is None else Frame(record.system.blocks, meta)
    molrec_convert.write(Record(meta=record.meta, system=whole, trajectory=record.trajectory), tmp_path / "a.mrec")
    keys = {"index": ("pe", "kind", "name"), "group_by": "formula"} if case in ("uniform", "documents") else {}
    asked = {
        "plain": {},
        "keys": {"index": ("pe",), **keys},
        "dedupe": {"dedupe": True},
        "units": {"units": parse_units("metal")},
    }[settings]
    made = []
    encode = run_encoder.encode_run
    for name in ("many", "one"):
        if name == "one":
            monkeypatch.setattr(frame_records, "_stands_alone", lambda *arguments: False)
        else:
            monkeypatch.setattr(
                "molrec_convert.migration.encode.encode_run",
                lambda *arguments: made.append(encode(*arguments)) or made[-1],
            )
        outcome = run([tmp_path / "a.mrec"], tmp_path / f"{name}.mrec.lmdb", split="frames", **asked)
        assert not outcome.failures
    assert same_collection(tmp_path / "many.mrec.lmdb", tmp_path / "one.mrec.lmdb")
    fast = {"uniform", "no system", "times", "one cell for all", "two blocks", "numbers of atoms vary"}
    if case in fast:
        assert sum(len(found.values) for found in made if found is not None) >= FRAMES - 1


def test_what_settles_is_of_every_record(tmp_path, monkeypatch):
    record = settling()
    assert [type(found) for found in frame_records.frame_runs(record)] == [frame_records.FrameRun]
    for start in (0, 7):
        ours = list(frame_records.frames_of(record, start))
        alone = list(frame_records._one_by_one(record, start))
        assert len(ours) == FRAMES - start
        for a, b in zip(ours, alone, strict=True):
            assert a.system == b.system
            assert a.system["atoms"]["mass"].tolist() == [1.0, 2.0, 3.0, 4.0]
            assert a.trajectory[0] == b.trajectory[0]
            assert a.trajectory.declaration == b.trajectory.declaration
