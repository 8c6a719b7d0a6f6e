"""How the code hangs together: no circle of imports, whatever runs or is for types only."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "damage"))
import house
import source_mutations


def test_no_circle_of_imports() -> None:
    modules = house.sources()
    imports = {name: house.Imports(name, path, modules) for name, path in modules.items()}
    graph = {name: entry.always for name, entry in imports.items()}
    assert house.circles(graph) == []
    assert house.circles_of_folders(graph, modules) == []


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set()}
    assert house.circles(graph) == [["a", "b", "c"]]
    assert house.ties(["a", "b", "c"], graph) == ["a -> b", "b -> c", "c -> a"]


def test_what_is_changed_by_the_table_of_mutations_is_there() -> None:
    texts = [path.read_text(encoding="utf-8") for path in source_mutations.sources(source_mutations.ROOT)]
    counts = {mutation.name: sum(text.count(mutation.old) for text in texts) for mutation in source_mutations.TABLE}
    assert {name: count for name, count in counts.items() if count != 1} == {}
