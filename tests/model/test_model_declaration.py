"""The declaration of a trajectory: what it may say, its stored form, deriving and restricting it."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

from molrec_convert.errors import ContractError, UsageError
from molrec_convert.model import (
    NO_FILL,
    Block,
    BlockDeclaration,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    Meta,
    MetaDeclaration,
)

F64, U64, TEXT = ColumnDeclaration("f64"), ColumnDeclaration("u64"), ColumnDeclaration("string")


def of(**blocks: BlockDeclaration) -> Declaration:
    return Declaration(blocks)


def test_stored_form_has_optional_entries_only_when_set() -> None:
    declaration = Declaration(
        {
            "atoms": BlockDeclaration(
                {"x": ColumnDeclaration("f64", (), True, 1e-3), "v": ColumnDeclaration("i32", (3,))},
                rows=5,
                settles="s",
            ),
            "links": BlockDeclaration({"site": U64}, (2, 2), {"site": "atoms"}),
            "kinds": BlockDeclaration({"type": TEXT}, aligned_with="atoms"),
        },
        {"pe": MetaDeclaration("f64"), "temp": MetaDeclaration("f64", math.nan), "note": MetaDeclaration("json", None)},
    )
    document = declaration.to_json()
    assert document == {
        "blocks": {
            "atoms": {
                "columns": {
                    "x": {"dtype": "f64", "trailing": [], "nullable": True, "precision": 0.001},
                    "v": {"dtype": "i32", "trailing": [3]},
                }
            },
            "links": {
                "columns": {"site": {"dtype": "u64", "trailing": []}},
                "structural_shape": [2, 2],
                "targets": {"site": "atoms"},
            },
            "kinds": {"columns": {"type": {"dtype": "string", "trailing": []}}, "aligned_with": "atoms"},
        },
        "meta": {
            "pe": {"dtype": "f64"},
            "temp": {"dtype": "f64", "fill": "NaN"},
            "note": {"dtype": "json", "fill": None},
        },
    }
    read = Declaration.from_json(json.loads(json.dumps(document)))
    assert read.to_json() == document
    assert read.meta == declaration.meta
    assert read.meta["note"].fill is None
    assert read.meta["pe"].fill is NO_FILL


def test_keys_nobody_knows_are_kept() -> None:
    document = {
        "blocks": {"atoms": {"columns": {"x": {"dtype": "f64", "trailing": [], "unit": "nm"}}, "role": "particles"}},
        "meta": {"pe": {"dtype": "f64", "unit": "eV"}},
        "version": 7,
    }
    assert Declaration.from_json(document).to_json() == document


@pytest.mark.parametrize("name", ["step", "time", "meta", "box", "", "a/b", "__x"])
def test_reserved_block_names_are_refused(name: str) -> None:
    with pytest.raises(ContractError, match="trajectory/"):
        of(**{name: BlockDeclaration({"c": F64})}).check()


@pytest.mark.parametrize("name", ["offset", "step_index", "_validity", "", "a/b", "__x"])
def test_reserved_column_names_are_refused(name: str) -> None:
    with pytest.raises(ContractError, match="trajectory/sites/"):
        of(sites=BlockDeclaration({name: F64})).check()


@pytest.mark.parametrize(
    "column",
    [
        ColumnDeclaration("f32"),
        ColumnDeclaration("json"),
        ColumnDeclaration("f64", (-1,)),
        ColumnDeclaration("f64", (2.0,)),  # type: ignore[arg-type]
        ColumnDeclaration("f64", (True,)),
        ColumnDeclaration("i64", precision=1e-3),
        ColumnDeclaration("f64", precision=0.0),
        ColumnDeclaration("f64", precision=math.inf),
        ColumnDeclaration("f64", precision=2.0**-1001),
    ],
    ids=str,
)
def test_columns_that_cannot_be_are_refused(column: ColumnDeclaration) -> None:
    with pytest.raises(ContractError, match="trajectory/sites/c"):
        of(sites=BlockDeclaration({"c": column})).check()


@pytest.mark.parametrize(("name", "column"), [("id", ColumnDeclaration("i64")), ("x", ColumnDeclaration("f64", (3,)))])
def test_standard_columns_have_their_own_dtype(name: str, column: ColumnDeclaration) -> None:
    with pytest.raises(ContractError, match=f"trajectory/sites/{name}"):
        of(sites=BlockDeclaration({name: column})).check()


@pytest.mark.parametrize(
    "entry",
    [MetaDeclaration("f64", None), MetaDeclaration("c128"), MetaDeclaration("i32", 1.5), MetaDeclaration("f64x3", 1.0)],
    ids=str,
)
def test_per_step_keys_that_cannot_be_are_refused(entry: MetaDeclaration) -> None:
    with pytest.raises(ContractError, match="trajectory/meta/key"):
        Declaration({}, {"key": entry}).check()


@pytest.mark.parametrize("target", ["/trajectory/atoms", "", "a/b", "/system"])
def test_targets_of_another_form_are_refused(target: str) -> None:
    with pytest.raises(ContractError, match="trajectory/links/site"):
        of(links=BlockDeclaration({"site": U64}, targets={"site": target})).check()


def test_targets_name_a_u64_column() -> None:
    with pytest.raises(ContractError, match="does not exist"):
        of(links=BlockDeclaration({"site": U64}, targets={"gone": "atoms"})).check()
    with pytest.raises(ContractError, match="u64"):
        of(links=BlockDeclaration({"site": F64}, targets={"site": "atoms"})).check()


ATOMS = BlockDeclaration({"x": F64})


@pytest.mark.parametrize(
    ("blocks", "match"),
    [
        ({"kinds": BlockDeclaration({"type": TEXT}, aligned_with="atoms")}, "no other declared block"),
        ({"kinds": BlockDeclaration({"type": TEXT}, aligned_with="kinds")}, "no other declared block"),
        (
            {
                "atoms": ATOMS,
                "a": BlockDeclaration({"type": TEXT}, aligned_with="atoms"),
                "b": BlockDeclaration({"name": TEXT}, aligned_with="a"),
            },
            "aligned itself",
        ),
        ({"atoms": ATOMS, "a": BlockDeclaration({"c": F64}, (2,), aligned_with="atoms")}, "structural shape"),
        ({"atoms": ATOMS, "a": BlockDeclaration({"x": F64}, aligned_with="atoms")}, "shares the column"),
    ],
    ids=["undeclared", "itself", "chain", "shape", "shared column"],
)
def test_alignments_that_cannot_be_are_refused(blocks: dict[str, BlockDeclaration], match: str) -> None:
    with pytest.raises(ContractError, match=match):
        of(**blocks).check()
    with pytest.raises(ContractError, match=match):
        Declaration.from_json(of(**blocks).to_json())


def test_alignments_that_can_be() -> None:
    aligned = BlockDeclaration({"c": F64}, aligned_with="atoms")
    of(atoms=BlockDeclaration({"x": F64}, (2,)), a=aligned, b=aligned).check()


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"blocks": []},
        {"blocks": {"a": []}},
        {"blocks": {"a": {"columns": []}}},
        {"blocks": {"a": {"columns": {"x": "f64"}}}},
        {"blocks": {"a": {"columns": {"x": {"dtype": 5}}}}},
        {"blocks": {"a": {"columns": {"x": {"dtype": "f64", "trailing": 3}}}}},
        {"blocks": {"a": {"columns": {"x": {"dtype": "f64", "nullable": "no"}}}}},
        {"blocks": {"a": {"columns": {"x": {"dtype": "f64", "precision": "fine"}}}}},
        {"blocks": {"a": {"columns": {}, "structural_shape": [1.0]}}},
        {"blocks": {"a": {"columns": {}, "targets": []}}},
        {"blocks": {"a": {"columns": {}, "aligned_with": 5}}},
        {"meta": []},
        {"meta": {"k": "f64"}},
        {"meta": {"k": {}}},
        {"meta": {"k": {"dtype": []}}},
        {"meta": {"k": {"dtype": "f64", "fill": None}}},
        {"meta": {"k": {"dtype": "f64", "fill": "nan"}}},
        {"meta": {"k": {"dtype": "i64x3", "fill": [1, 2]}}},
        {"blocks": {"../a": {"columns": {}}}},
    ],
    ids=str,
)
def test_stored_forms_that_are_none_are_refused(document: Any) -> None:
    with pytest.raises(ContractError, match="trajectory"):
        Declaration.from_json(document)


# Deriving


def test_derived_from_frames() -> None:
    mask = np.array([True, False])
    frames = [
        Frame({"atoms": Block({"x": Column(np.zeros(2), precision=0.5), "q": [1, 2]})}, Meta({"pe": 1, "note": {}})),
        Frame({"atoms": Block({"q": Column(np.array([1, 2, 3]), None), "x": Column(np.zeros(3), precision=0.5)})}),
        Frame({"sites": Block({"c": Column(np.zeros((2, 3)), mask)}, targets={}), "none": Block(count=4)}),
    ]
    declaration = Declaration.derive(frames)
    assert declaration.blocks["atoms"].columns == {
        "x": ColumnDeclaration("f64", precision=0.5),
        "q": ColumnDeclaration("i64"),
    }
    assert declaration.blocks["atoms"].rows == 3
    assert declaration.blocks["sites"].columns == {"c": ColumnDeclaration("f64", (3,), nullable=True)}
    assert declaration.blocks["none"] == BlockDeclaration(rows=4)
    assert declaration.meta == {"pe": MetaDeclaration("f64", math.nan), "note": MetaDeclaration("json", None)}
    whole = Declaration.derive(frames[:1]).meta
    assert whole == {"pe": MetaDeclaration("f64"), "note": MetaDeclaration("json")}


def test_a_mask_in_any_frame_makes_a_column_nullable() -> None:
    masked = Frame({"a": Block({"c": Column(np.zeros(1), np.array([False]))})})
    plain = Frame({"a": Block({"c": [0.0]})})
    for frames in ([masked, plain], [plain, masked]):
        assert Declaration.derive(frames).blocks["a"].columns["c"].nullable
    assert not Declaration.derive([plain]).blocks["a"].columns["c"].nullable
    assert Declaration.derive([plain], nullable=True).blocks["a"].columns["c"].nullable


@pytest.mark.parametrize(
    "other",
    [
        Block({"c": [1]}),
        Block({"c": [[1.0]]}),
        Block({"d": [1.0]}),
        Block({"c": Column(np.zeros(1), precision=0.5)}),
        Block({"c": [1.0]}, structural_shape=(1,)),
    ],
    ids=["dtype", "shape of a row", "columns", "precision", "structural shape"],
)
def test_frames_that_disagree_have_no_declaration(other: Block) -> None:
    with pytest.raises(ContractError, match="trajectory/a: frames disagree"):
        Declaration.derive([Frame({"a": Block({"c": [1.0]})}), Frame({"a": other})])


@pytest.mark.parametrize(("values", "tag"), [((1, 2.5), "f64"), ((2.5, 1), "f64"), ((1, 2), "i64")])
def test_integers_among_numbers(values: tuple[Any, ...], tag: str) -> None:
    frames = [Frame(meta=Meta({"key": value})) for value in values]
    assert Declaration.derive(frames).meta["key"].dtype == tag


def test_tags_that_disagree() -> None:
    with pytest.raises(ContractError, match="trajectory/meta/key"):
        Declaration.derive([Frame(meta=Meta({"key": 1.0})), Frame(meta=Meta({"key": "one"}))])


# Restricting


FULL = Declaration(
    {
        "atoms": BlockDeclaration({"x": F64, "y": F64, "id": U64}),
        "links": BlockDeclaration({"site": U64, "x": F64}, targets={"site": "atoms"}),
        "kinds": BlockDeclaration({"type": TEXT}, aligned_with="atoms"),
    },
    {"pe": MetaDeclaration("f64")},
)


def test_select_by_name_and_by_path() -> None:
    chosen = FULL.select(["x", "kinds/type"])
    assert {name: list(block.columns) for name, block in chosen.blocks.items()} == {
        "atoms": ["x"],
        "links": ["x"],
        "kinds": ["type"],
    }
    assert chosen.blocks["links"].targets == {}
    assert chosen.blocks["kinds"].aligned_with == "atoms"
    assert chosen.meta == FULL.meta
    assert FULL.select(None) is FULL
    assert FULL.select([]).blocks == {}


def test_an_alignment_ends_where_its_target_is_left_out() -> None:
    assert FULL.select(["type"]).blocks["kinds"].aligned_with is None


@pytest.mark.parametrize("name", ["z", "atoms/type", "atoms"])
def test_select_names_what_there_is(name: str) -> None:
    with pytest.raises(UsageError, match=f"no column '{name}'; it has atoms/x"):
        FULL.select(["x", name])


def test_with_precision() -> None:
    declared = FULL.with_precision({"x": 1e-3, "atoms/y": 0.5})
    assert declared.blocks["atoms"].columns["x"].precision == 1e-3
    assert declared.blocks["links"].columns["x"].precision == 1e-3
    assert declared.blocks["atoms"].columns["y"].precision == 0.5
    with pytest.raises(ContractError, match="trajectory/atoms/id"):
        FULL.with_precision({"id": 1e-3})
    with pytest.raises(UsageError, match="no column 'z'"):
        FULL.with_precision({"z": 1e-3})


def test_frame_bytes() -> None:
    declaration = of(
        a=BlockDeclaration({"x": F64, "v": ColumnDeclaration("i32", (3,)), "s": TEXT}, rows=10),
        b=BlockDeclaration({"x": F64}),
    )
    assert declaration.frame_bytes == 10 * (8 + 12 + 16)


def test_equal_fills() -> None:
    assert MetaDeclaration("f64", math.nan) == MetaDeclaration("f64", float("nan"))
    assert MetaDeclaration("f64x3", np.zeros(3)) == MetaDeclaration("f64x3", np.zeros(3))
    assert MetaDeclaration("f64", 0.0) != MetaDeclaration("f64", -0.0)
    assert MetaDeclaration("f64", 0.0) != MetaDeclaration("f64")
    assert MetaDeclaration("json", None) != MetaDeclaration("json")
    assert hash(MetaDeclaration("f64x3", np.zeros(3))) == hash(MetaDeclaration("f64x3", np.ones(3)))


def test_copies_and_pickles_keep_what_has_no_fill() -> None:
    meta = {"pe": MetaDeclaration("f64"), "doc": MetaDeclaration("json", None)}
    declared = Declaration({"a": BlockDeclaration({"x": F64})}, meta)
    for other in (pickle.loads(pickle.dumps(declared)), copy.deepcopy(declared), copy.copy(declared)):
        assert other.meta["pe"].fill is NO_FILL
        assert other.meta["doc"].fill is None
        assert other == declared
        other.check()
