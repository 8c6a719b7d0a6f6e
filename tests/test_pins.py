"""Every input of the tests is converted to what it was converted to before, bit for bit.

The tables are in `fixtures/pins`; `tests/pins.py` says what is in them. Where a result is to change, write them anew
(`python tests/pins.py AREA`), so that the change is part of what is reviewed. `python tests/pins.py --show 'CASE'`
prints the nodes of one case with their digests: run it before and after a change and compare.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pinned_units
import pins
import pytest

from molrec_convert import _kernel

CASES = pins.cases()
#: Cases the fast tests run: each input to a record and a collection, and a part of those with options.
TARGETS = ("mrec", "lmdb")
TOO_LONG = ("migrate: cases --as records", "@PRM @TRJ --from mdanalysis --frames 0:4")


@cache
def table(area: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    return pins.read_table(area)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pins.gather(tmp_path_factory.mktemp("pins") / "inputs")


def check(case: pins.Case, inputs: Path) -> None:
    """Compare one case with its line: bytes, and where a compressor of another version made them the values."""
    stated, lines = table(case.area)
    assert case.name in lines, f"it has no line: python tests/pins.py {case.area}"
    for name, version in pins.versions(case.area).items():
        if stated.get(name) != version:
            pytest.skip(f"what {name} {version} reads is not pinned, but what {stated.get(name)} does")
    same_bytes = all(stated.get(name) == version for name, version in pins.versions("bytes").items())
    pinned = dict(cell.split(": ", 1) for cell in lines[case.name])
    valued: dict[str, str] = {}

    def digests(made: Path) -> tuple[str, ...]:
        if not (made / "zarr.json").is_file():
            return pins.bytes_digest(made)
        values, stored = pinned["mrec"].split(" | ")[-2:]
        if same_bytes and pins.bytes_digest(made) == (stored,):
            return values, stored  # the same bytes have the same values
        valued["mrec"] = pins.values_digest(made)
        return valued["mrec"], stored if not same_bytes else pins.bytes_digest(made)[0]

    found = {target: " | ".join(parts) for target, parts in pins.measure(case, inputs, digests).items()}
    expected = {target: cell for target, cell in pinned.items() if target in case.targets}
    assert found == expected


def fast() -> Iterator[pins.Case]:
    for number, case in enumerate(CASES):
        targets = tuple(target for target in case.targets if target in TARGETS)
        if case.name in TOO_LONG:
            continue
        if number % (5 if case.area == "migrate" else 16) == 0:
            yield case
        elif len(case.arguments) == 1 and targets and case.area != "run":
            yield case._replace(targets=targets)


@pytest.mark.parametrize("case", list(fast()), ids=lambda case: case.name)
def test_result_is_the_pinned_one(case: pins.Case, inputs: Path) -> None:
    check(case, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_results_are_the_pinned_ones(case: pins.Case, inputs: Path) -> None:
    check(case, inputs)


@pytest.fixture
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows and byte planes are left to plain Python, as where there was no compiler."""
    monkeypatch.setattr(_kernel, "_load", lambda: (None, "plain Python"))
    _kernel.library.cache_clear()
    yield
    _kernel.library.cache_clear()


PLAIN = [case for case in CASES if case.area not in ("mdanalysis", "ase")]


@pytest.mark.usefixtures("without_kernel")
@pytest.mark.parametrize("case", PLAIN[::80], ids=lambda case: case.name)
def test_results_are_the_same_without_the_kernel(case: pins.Case, inputs: Path) -> None:
    assert _kernel.library() is None
    check(case, inputs)


@pytest.mark.slow
@pytest.mark.usefixtures("without_kernel")
@pytest.mark.parametrize("case", PLAIN[1::4], ids=lambda case: case.name)
def test_many_results_are_the_same_without_the_kernel(case: pins.Case, inputs: Path) -> None:
    check(case, inputs)


def test_every_case_has_one_line_and_every_line_a_case() -> None:
    names = [(case.area, case.name) for case in CASES]
    assert len(names) == len(set(names))
    for area in {case.area for case in CASES}:
        assert list(table(area)[1]) == [case.name for case in CASES if case.area == area]


def test_units_and_dimensions_are_exact() -> None:
    pinned = (pins.TABLES / "units.tsv").read_text(encoding="utf-8").splitlines()
    assert list(pinned_units.lines()) == pinned
