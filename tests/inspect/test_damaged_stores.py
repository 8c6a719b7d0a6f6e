"""Stores with anything in them: every fault is a typed error, whatever was done to which file."""

from __future__ import annotations

import copy
import json
import random
import warnings
from pathlib import Path
from typing import Any

import frame_stores as stores
import pytest
from layout_examples import records as examples

from molrec_convert.errors import MolrecError
from molrec_convert.formats import WriteContext
from molrec_convert.model import Frame, Record
from molrec_convert.stores.zarr.record import open_record, write_record
from molrec_convert.stores.zarr.record_writer import pack

ODD: list[Any] = [
    None, 0, -1, 1, 2**70, 1.5, "x", "", [], {}, True, [1], [[1.0]], {"a": 1}, float("nan"), -(2**63), "NaN", [0, 0],
    [-1], "../x", "a/b", "float32", "box",
]  # fmt: skip
KEYS = ["x", "..", "_validity", "count", "precision", "cell_defined", "nstep", "targets"]


def sources() -> dict[str, Record]:
    water, vibration, reaction = (getattr(examples, f"build_{n}")() for n in ("water", "vibration", "reaction"))
    molecule = water.frame.blocks
    frame = Frame({"water": molecule["atoms"], "density": molecule["density"]}, water.frame.meta, water.frame.box)
    method = {"type": "classical", "description": "d", "engine": {"name": "e"}}
    return {
        "vibration": Record(system=vibration.system, frame=frame, trajectory=vibration.trajectory, method=method),
        "reaction": Record(frame=frame, trajectory=reaction.trajectory, status={"state": "running"}),
    }


def read_everything(path: Path) -> None:
    with open_record(path) as record:
        for frame in (record.system, record.frame):
            if frame is not None:
                frame.check()
                for block in frame.blocks.values():
                    for column in block.columns.values():
                        _ = column.values, column.validity
        trajectory = record.trajectory
        if trajectory is not None:
            list(trajectory)
            _ = trajectory.steps, trajectory.times
            if len(trajectory):
                _ = trajectory[len(trajectory) - 1]
        assert record.unknown is not None
        for key in record.unknown.keys():  # noqa: SIM118
            record.unknown.read(key)


def altered_json(raw: bytes, chance: random.Random) -> bytes:
    """A document with one to three of its values replaced, removed or added."""
    document = json.loads(raw)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        node, key = document, None
        while isinstance(node, (dict, list)) and node:
            keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
            parent, key = node, chance.choice(keys)
            node = node[key]
            if chance.random() < 0.35:
                break
        if key is None:
            continue
        act = chance.random()
        if act < 0.25:
            parent.pop(key)
        elif act < 0.9 or isinstance(parent, list):
            parent[key] = copy.deepcopy(chance.choice(ODD))
        else:
            parent[chance.choice(KEYS)] = copy.deepcopy(chance.choice(ODD))
    return json.dumps(document).encode()


def altered_bytes(raw: bytes, chance: random.Random) -> bytes:
    """A file with a flipped bit, cut short, or with more at its end."""
    act = chance.random()
    if act < 0.5 and raw:
        place = chance.randrange(len(raw))
        return raw[:place] + bytes([raw[place] ^ 1 << chance.randrange(8)]) + raw[place + 1 :]
    return raw[: chance.randrange(len(raw) + 1)] if act < 0.75 else raw + chance.randbytes(chance.randrange(1, 9))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vibration", "reaction"])
@pytest.mark.parametrize("seed", range(8))
def test_no_damage_is_more_than_a_typed_error(tmp_path: Path, name: str, seed: int) -> None:
    path = tmp_path / "a.mrec"
    write_record(sources()[name], path, WriteContext())
    read_everything(path)
    files = dict(stores.every_file(path))
    documents = [key for key in files if key.endswith("zarr.json")]
    refused = 0
    for number in range(40):
        chance = random.Random(1000 * seed + number)
        key = chance.choice(documents if chance.random() < 0.7 else sorted(files))
        alter = altered_json if key.endswith("zarr.json") and chance.random() < 0.9 else altered_bytes
        (path / key).write_bytes(alter(files[key], chance))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read_everything(path)
        except MolrecError:
            refused += 1
        finally:
            (path / key).write_bytes(files[key])
    assert refused


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_of_a_packed_record_is_more_than_a_typed_error(tmp_path: Path, seed: int) -> None:
    write_record(sources()["vibration"], tmp_path / "a.mrec", WriteContext())
    path = tmp_path / "a.mrec.zip"
    pack(tmp_path / "a.mrec", path)
    whole = path.read_bytes()
    refused = 0
    for number in range(40):
        chance = random.Random(1000 * seed + number)
        damaged = whole
        for _ in range(chance.choice([1, 2, 5])):
            # Half of it in the directory at the end, where every name and offset is.
            start = len(whole) - 12_000 if chance.random() < 0.5 else 0
            damaged = damaged[:start] + altered_bytes(damaged[start:], chance)
        path.write_bytes(damaged)
        try:
            read_everything(path)
        except MolrecError:
            refused += 1
    assert refused
