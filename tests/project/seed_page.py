"""The texts of the page the format was specified with, "Layout by example"."""

from __future__ import annotations

from pathlib import Path


def page(fixtures: Path) -> list[str]:
    """The lines of "Layout by example"."""
    return (fixtures / "layout-by-example.txt").read_text(encoding="utf-8").splitlines()


def seed_tree(fixtures: Path, name: str, occurrence: int = 0) -> list[str]:
    """A tree of the page: from its first line `name/` on, as long as lines are of the tree."""
    lines = page(fixtures)
    start = [i for i, line in enumerate(lines) if line == f"{name}/"][occurrence]
    stop = next(i for i in range(start + 1, len(lines)) if not lines[i].startswith(" "))
    return lines[start:stop]


def seed_log(fixtures: Path) -> str:
    """The text of the log of the training run."""
    lines = page(fixtures)
    start = lines.index("metrics/metrics.jsonl:") + 1
    return "".join(f"{line}\n" for line in lines[start : lines.index("", start)])


def seed_overview(fixtures: Path) -> list[str]:
    """The overview of the record that has every section."""
    lines = page(fixtures)
    start = next(i for i, line in enumerate(lines) if line.startswith("tour.mrec/"))
    return lines[start : lines.index("", start)]


def seed_listing(fixtures: Path) -> list[str]:
    """The listing of the packed water record."""
    lines = page(fixtures)
    start = next(i for i, line in enumerate(lines) if line.startswith("water.mrec.zip"))
    return [line for line in lines[start + 3 : start + 40] if line.startswith("  ")]


def following(fixtures: Path, start: str, count: int) -> list[str]:
    """The first line that begins like `start` and those after it, `count` in all."""
    lines = page(fixtures)
    first = next(i for i, line in enumerate(lines) if line.startswith(start))
    return lines[first : first + count]
