"""The pages made from the program agree with it."""

from pathlib import Path

import pytest
from make_pages import PAGES

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_generated_pages_are_current(page):
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run python docs/make_pages.py"
