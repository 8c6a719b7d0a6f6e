"""Selecting records: expressions over index columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_convert.errors import UsageError
from molrec_convert.model import Block, Column
from molrec_convert.model.collection.query import Condition, Query, parse_query

INDEX = Block(
    {
        "n_atoms": np.array([1, 5, 20, 2**63 + 1], np.uint64),
        "charge": np.array([-1, 0, 1, -(2**62)], np.int64),
        "energy": np.array([-12.5, 0.0, np.nan, np.inf]),
        "smiles": np.array(["OO", "C C", "", 'a"b']),
        "polar": np.array([True, False, True, False]),
        "gap": Column(np.array([1.0, 2.0, 0.0, 0.0]), np.array([True, True, False, False])),
        "odd name": np.array([1, 2, 3, 4]),
        "z": np.array([1j, 2, 1j, 0]),
        "wide": np.zeros((4, 3)),
        "small": np.array([1, 2, 3, 4], np.int8),
        "label": np.array(["1", "1.0", "01", "true"]),
    }
)


def chosen(text: str) -> list[int]:
    return np.flatnonzero(parse_query(text).mask(INDEX)).tolist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("n_atoms == 5", [1]),
        ("n_atoms=5", [1]),
        ("n_atoms != 5", [0, 2, 3]),
        ("n_atoms < 20", [0, 1]),
        ("n_atoms <= 20", [0, 1, 2]),
        ("n_atoms > 5", [2, 3]),
        ("n_atoms >= 5", [1, 2, 3]),
        ("n_atoms > 5 and n_atoms < 1e3", [2]),
        ("n_atoms == 1 or n_atoms == 20", [0, 2]),
        ("charge < 0", [0, 3]),
        ("charge < -0.5", [0, 3]),
        ("charge >= -0.5", [1, 2]),
        ("energy < 0", [0]),
        ("energy == nan", []),
        ("energy != nan", [0, 1, 2, 3]),
        ("energy == inf", [3]),
        ("energy <= -12.5", [0]),
        ("smiles == OO", [0]),
        ("smiles == 'OO'", [0]),
        ('smiles == "C C"', [1]),
        ("smiles == ''", [2]),
        ("smiles == 'a\\\"b'", [3]),
        ("smiles < OO", [1, 2]),
        ("smiles != OO", [1, 2, 3]),
        ("polar == true", [0, 2]),
        ("polar != true", [1, 3]),
        ("gap > 0", [0, 1]),
        ("gap != 1", [1]),
        ("gap == 0", []),
        ("'odd name' > 2", [2, 3]),
        ("z == 0", [3]),
        # `and` binds closer than `or`
        ("n_atoms == 1 or n_atoms == 5 and polar == true", [0]),
        ("(n_atoms == 1 or n_atoms == 5) and polar == false", [1]),
        ("((polar == true))", [0, 2]),
        ("  n_atoms\t==\n5  ", [1]),
        # exact, beyond what a float holds
        ("n_atoms == 9223372036854775809", [3]),
        ("n_atoms == 9223372036854775808", []),
        ("n_atoms > 9223372036854775808", [3]),
        ("n_atoms < 99999999999999999999", [0, 1, 2, 3]),
        ("n_atoms > -1", [0, 1, 2, 3]),
        ("n_atoms == -1", []),
        ("n_atoms < 1e400", [0, 1, 2, 3]),
        ("n_atoms > -inf", [0, 1, 2, 3]),
        ("n_atoms == nan", []),
        ("n_atoms != 1.5", [0, 1, 2, 3]),
        ("small > 300", []),
        ("small != 300", [0, 1, 2, 3]),
        ("small < 2.5", [0, 1]),
        ("small > 2.5", [2, 3]),
        # a text column is compared with what was written
        ("label == 1", [0]),
        ("label == 1.0", [1]),
        ("label == 01", [2]),
        ("label == true", [3]),
    ],
)
def test_conditions(text: str, rows: list[int]) -> None:
    assert chosen(text) == rows


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the end"),
        ("n_atoms", "the end"),
        ("n_atoms ==", "a value"),
        ("== 5", "index column"),
        ("n_atoms 5", "one of"),
        ("n_atoms == 5 5", "'and' or 'or'"),
        ("n_atoms == 5 and", "index column"),
        ("n_atoms == 5 xor polar == true", "'and' or 'or'"),
        ("(n_atoms == 5", "')'"),
        ("n_atoms == 5)", "'and' or 'or'"),
        ("n_atoms == 'x", "cannot read"),
        ("n_atoms ! 5", "cannot read"),
        ("none == 5", "no index column 'none'"),
        ("n_atoms == five", "a number"),
        ("n_atoms == true", "a number"),
        ("polar == 1", "true or false"),
        ("polar == yes", "true or false"),
        ("z < 1", "no order"),
        ("wide == 1", "several values"),
        ("(" * 60 + "n_atoms == 1" + ")" * 60, "too deep"),
        ("n_atoms == 1 or " * 5000 + "n_atoms == 1", "too long"),
        ("__import__('os').system('true') == 1", "one of"),
    ],
)
def test_refusals(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(").replace(")", r"\)")):
        chosen(text)


def test_many_conditions_need_no_depth() -> None:
    assert chosen(" or ".join(["n_atoms == 1"] * 3000)) == [0]


@st.composite
def queries(draw: st.DrawFn, depth: int = 3) -> tuple[str, object]:
    """A text, and the Python function it stands for."""
    if depth == 0 or draw(st.booleans()):
        name = draw(st.sampled_from(["n_atoms", "charge", "small"]))
        sign = draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
        value = draw(st.integers(-5, 25) | st.integers(-(2**64), 2**64) | st.floats(allow_nan=False))
        text = f"{name} {sign} {value!r}"
        return text, lambda row: eval(f"a {sign} b", {"a": int(INDEX[name][row]), "b": value})
    parts = draw(st.lists(queries(depth - 1), min_size=2, max_size=3))
    word = draw(st.sampled_from(["and", "or"]))
    join = all if word == "and" else any
    return (
        f" {word} ".join(f"({text})" for text, _ in parts),
        lambda row: join(test(row) for _, test in parts),
    )


@pytest.mark.slow
@settings(max_examples=300)
@given(queries())
def test_as_python_compares(query: tuple[str, object]) -> None:
    """Exactly, whatever the dtype and the size of the numbers."""
    text, test = query
    assert chosen(text) == [row for row in range(4) if test(row)]


@settings(max_examples=300)
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        query = parse_query(text)
    except UsageError:
        return
    assert isinstance(query, (Query, Condition))
