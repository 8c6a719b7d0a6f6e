"""Docstrings of functions that begin with neither a verb nor "True if": `python tests/project/docstrings.py [FOLDER]`.

Which words are verbs follows from the code: those whose forms in -ing or -ed are used in it, or that follow a
word like "must". A word before "of" is a noun ("Number of frames").
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What else a docstring may begin with.
PHRASES = ("True if ", "See ", "Yield ", "Let ")
#: Whose forms are other words: "thing" is none of "the".
_NEVER = frozenset(
    {
        "a",
        "all",
        "an",
        "as",
        "both",
        "each",
        "every",
        "how",
        "in",
        "nothing",
        "of",
        "one",
        "only",
        "so",
        "some",
        "the",
        "this",
        "those",
        "to",
        "what",
        "where",
        "which",
    }
)
#: Verbs whose forms are irregular, by their ending.
_FORMS = ("{0}ing", "{0}ed", "{0}d", "{1}ing", "{2}ing", "{2}ed", "{3}ied")


def modules(*folders: str) -> list[Path]:
    return [
        path
        for folder in folders
        for path in ([ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py")))
    ]


@cache
def known_words() -> tuple[frozenset[str], frozenset[str]]:
    """Return all words in the code, and those that follow a modal verb somewhere."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in modules("molrec_convert", "plugins", "tests"))
    modal = re.findall(r"\b(?:may|must|cannot|can|will|would|should|could|does not|do not|did not) ([a-z]+)", text)
    infinitives = re.findall(r"\bto ([a-z]+) (?:the|a|an|it|its|what|all|them|of)\b", text)
    return frozenset(re.findall(r"[a-z]+", text)), frozenset(modal + infinitives)


@cache
def is_verb(word: str) -> bool:
    """True if some inflected form of a word is in the code."""
    base = word.lower()
    words, after_modal = known_words()
    forms = (form.format(base, base[:-1], base + base[-1:], base[:-1]) for form in _FORMS)
    plural = base.endswith("s") and not base.endswith("ss")
    return (
        word[:1].isupper()
        and not plural
        and base not in _NEVER
        and (base in after_modal or any(form in words for form in forms))
    )


def functions(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and docstring of each function that has one, but for properties, which are things."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        marks = {ast.unparse(mark).rpartition(".")[2] for mark in node.decorator_list}
        text = ast.get_docstring(node)
        if text and not marks & {"property", "cached_property", "fixture"}:
            yield node.lineno, node.name, text.splitlines()[0]


def begins_well(text: str) -> bool:
    """True if a docstring begins with a verb, or one of the phrases."""
    first, _, rest = text.partition(" ")
    return text.startswith(PHRASES) or (
        is_verb(first.rstrip(",.:;")) and (first == "Warn" or not rest.startswith("of "))
    )


def faults(*folders: str) -> list[str]:
    """Return a line for each docstring that begins otherwise."""
    return [
        f"{path.relative_to(ROOT)}:{line} {name}: {text}"
        for path in modules(*folders)
        for line, name, text in functions(path)
        if not begins_well(text)
    ]


def area(fault: str) -> str:
    """Return the folder a fault is counted in: two levels deep."""
    return "/".join(fault.split(":")[0].split("/")[:2])


if __name__ == "__main__":
    found = faults(*(sys.argv[1:] or ["molrec_convert", "plugins"]))
    print("\n".join(found))
    for name, count in sorted(Counter(map(area, found)).items()):
        print(f"{count:5} {name}")
