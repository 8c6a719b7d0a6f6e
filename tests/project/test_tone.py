"""The wording of every message in the code: one sentence, lower case, no full stop, nothing empty of content.

A message says what is wrong and where; who reads it is never shouted at, thanked or told that something is "invalid".
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import docstrings
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "molrec_convert", *sorted((ROOT / "plugins").glob("molrec_*"))]
#: Calls whose text arguments reach a person, and which of their arguments those are (None: by keyword only).
SPEAKERS: dict[str, tuple[int, ...]] = {
    "UsageError": (0,),
    "UnsupportedError": (0,),
    "LossError": (0,),
    "MolrecError": (0,),
    "ContractError": (1,),
    "FormatError": (),
    "BadParameter": (0,),
    "print_error": (0,),
    "warn": (0,),
    "truncated": (0,),
    "error": (1,),
    "warning": (1,),
}
KEYWORDS = ("found", "expected", "hint")
#: Words that may begin a message in capitals: names.
NAMES = re.compile(
    r"(LAMMPS|MDAnalysis|MolRec|MOLREC_|Zarr|RFC|ITEM|TIMESTEP|JSON|UTF|NaN|[A-Z]\w* #|[A-Z][a-z]+ (section|Coeffs))"
)
EMPTY = re.compile(r"\b(invalid|illegal|bad|oops|sorry|please(?! report)|failed to|unable to|error:)\b", re.IGNORECASE)


def text_of(node: ast.expr) -> str | None:
    """A literal, its placeholders as `{}`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def messages() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call):
                    continue
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name not in SPEAKERS:
                    continue
                spoken = [node.args[i] for i in SPEAKERS[name] if i < len(node.args)]
                spoken += [k.value for k in node.keywords if k.arg in KEYWORDS]
                for expression in spoken:
                    text = text_of(expression)
                    if text is not None and text != "{}":
                        yield f"{path.relative_to(ROOT)}:{expression.lineno}", text


ALL = list(messages())


def test_there_are_messages() -> None:
    assert len(ALL) > 200


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("one line", lambda text: "\n" not in text),
        ("no full stop", lambda text: not text.rstrip().endswith(".") or text.endswith("...")),
        ("no shouting", lambda text: "!" not in text.replace("!=", "")),
        ("lower case", lambda text: not text[:1].isupper() or NAMES.match(text) is not None),
        ("says something", lambda text: len(text) > 2 and EMPTY.search(text) is None),
        ("no blanks around", lambda text: text == text.strip()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_message(rule: str, holds: object) -> None:
    assert callable(holds)
    assert [f"{place}: {text}" for place, text in ALL if not holds(text)] == []


#: How many docstrings of functions in a folder still begin with neither a verb nor "True if"; elsewhere none does.
LEFT = {
    "molrec_convert/inspect": 30,
    "molrec_convert/migration": 57,
    "molrec_convert/model": 8,
    "molrec_convert/stores": 28,
    "plugins/molrec_ase": 13,
    "plugins/molrec_lammps": 103,
    "plugins/molrec_mdanalysis": 17,
    "plugins/molrec_pdb": 12,
    "plugins/molrec_xyz": 2,
}


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    counts = Counter(map(docstrings.area, docstrings.faults("molrec_convert", "plugins")))
    assert {name: count for name, count in counts.items() if count > LEFT.get(name, 0)} == {}


def test_what_begins_with_a_verb_is_told_from_what_does_not() -> None:
    good = (
        "Return the frames.",
        "True if it is one.",
        "Read a file.",
        "Write `x`.",
        "Yield lines.",
        "See `Trajectory`.",
    )
    bad = ("The frames.", "Whether it is one.", "A file.", "Number of frames.", "What is read.", "Rows of atoms.")
    assert [text for text in (*good, *bad) if docstrings.begins_well(text)] == list(good)
