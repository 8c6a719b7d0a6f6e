"""The pages made from the program agree with it."""

from pathlib import Path

import pytest
from make_pages import PAGES

DOCS = Path(__file__).parents[2] / "docs"


#: The page of the matrix opens every file with every program.
_LONG = {"meaning.md"}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page in _LONG else ()) for page in PAGES]
)
def test_generated_pages_are_current(page):
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run python docs/make_pages.py"
