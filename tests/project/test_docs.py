"""The pages made from the program agree with it."""

import re
from pathlib import Path

import pytest
from make_pages import PAGES

import molrec_convert

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


#: The page of the matrix opens every file with every program.
_LONG = {"meaning.md"}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page in _LONG else ()) for page in PAGES]
)
def test_generated_pages_are_current(page):
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run python docs/make_pages.py"


def test_the_citation_names_the_version():
    assert f"\nversion: {molrec_convert.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", sorted(p.relative_to(ROOT) for p in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))), ids=str
)
def test_links_between_pages_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    assert [t for t in targets if "://" not in t and not (ROOT / page).parent.joinpath(t).exists()] == []


def test_the_places_that_are_named_for_contributors_are_there():
    table = (
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Where things are")[2].partition("\n## ")[0]
    )
    places = re.findall(r"`([\w/]+/)`", table)
    assert len(places) > 10
    assert [place for place in places if not (ROOT / place).is_dir()] == []
