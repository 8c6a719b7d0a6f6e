"""The pages made from the program agree with it."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def pages():
    spec = importlib.util.spec_from_file_location("make_pages", DOCS / "make_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PAGES


@pytest.mark.parametrize("page", ["command-line.md", "formats.md"])
def test_generated_pages_are_current(page):
    current = pages()[page]()
    assert (DOCS / page).read_text(encoding="utf-8") == current, "run python docs/make_pages.py"
