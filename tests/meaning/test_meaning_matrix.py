"""What numbers mean in every format, as other programs read it: no cell of the matrix is red without a reason."""

import pytest
from matrix import FORMATS, KNOWN, SAMPLES, cells, cells_of, known, samples
from matrix_readers import READERS, readers_of


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_other_programs_see_what_the_record_says(sample: str, format: str) -> None:
    rows = samples()[sample].rows
    faults = {row: cells_of(sample)[row, format].faults for row in rows if known(sample, row, format) is None}
    assert {row: found for row, found in faults.items() if found} == {}


@pytest.mark.parametrize("key", KNOWN, ids="-".join)
def test_what_is_known_is_still_so(key: tuple[str, str, str]) -> None:
    sample, row, format = key
    missing = READERS[format].keys() - readers_of(format, samples()[sample].style).keys()
    if missing:
        pytest.skip(f"it takes {', '.join(sorted(missing))}")
    rows = samples()[sample].rows if row == "*" else [row]
    assert any(cells_of(sample)[name, format].faults for name in rows), f"mended, to be taken out: {KNOWN[key]}"


def test_stores_hold_every_number_as_it_was() -> None:
    words = {cell.word for (_, _, format), cell in cells().items() if format.startswith("mrec")}
    assert words == {"exact"}


def test_each_quantity_is_seen_by_a_program_of_others_somewhere() -> None:
    seen = {(sample, row) for (sample, row, _), cell in cells().items() if cell.programs}
    assert {(name, row) for name in SAMPLES for row in samples()[name].rows} - seen == set()
