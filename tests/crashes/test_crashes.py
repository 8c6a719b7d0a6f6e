"""Work that is interrupted loses nothing: killed, refused by the disk, cut off from its power."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crashes import shim
from crashes.harness import Harness
from crashes.workloads import CARELESS, WORKLOADS

pytestmark = pytest.mark.skipif(shim.compiler() is None, reason="needs a C compiler")

#: Enough for a first look: a record that is written, one that grows, a collection, a text.
SAMPLE = ("append-varied-shards", "convert", "collection")

#: Work that is done with care.
CAREFUL = [name for name in WORKLOADS if not name.startswith(("migrate", "to-netcdf"))]

FEW = {
    "killed": ("kills", {"most": 4}),
    "cut off": ("power", {"states": 12, "guard": False}),
    "refused": ("failing", {"most": 1}),
}
MANY = {
    "killed": ("kills", {"most": 10}),
    "cut off, names in order": ("power", {"states": 100, "guard": True, "again": 10}),
    "cut off": ("power", {"states": 100, "guard": False, "again": 10}),
    "refused": ("failing", {"most": 1}),
}


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with Harness() as running:
        yield running


def check_nothing_lost(harness: Harness, name: str, kind: str, how: dict[str, Any]) -> None:
    counts = harness.run(kind, name, **how)
    assert not counts["faults"], f"{counts['wrong']} of {counts['tried']}: {counts['faults']}"
    assert counts["tried"] >= how.get("states", 3)


@pytest.mark.parametrize(("kind", "how"), FEW.values(), ids=FEW)
@pytest.mark.parametrize("name", SAMPLE)
def test_nothing_is_lost(harness, name, kind, how):
    check_nothing_lost(harness, name, kind, how)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "how"), MANY.values(), ids=MANY)
@pytest.mark.parametrize("name", CAREFUL)
def test_nothing_is_lost_at_any_point(harness, name, kind, how):
    check_nothing_lost(harness, name, kind, how)


@pytest.mark.parametrize(("kind", "how"), FEW.values(), ids=FEW)
def test_what_writes_in_place_is_found(harness, kind, how):
    counts = harness.run(kind, CARELESS, **how)
    assert counts["wrong"] > counts["tried"] // 10
