"""Linking: names, styles, wildcards, classes, overrides, mixing, and what resolves to nothing. Source: Force field."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forcefields import nullable, single
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_examples.peroxide import peroxide, peroxide_system, relation

from molrec_convert.model import Block, Column, Frame
from molrec_convert.model.forcefield import linking
from molrec_convert.model.forcefield.document import ForceField, table_from_rows
from molrec_convert.model.forcefield.linking import Resolution, resolve
from molrec_convert.model.forcefield.pairs import mixed_distance, mixed_energy
from molrec_convert.stores.zarr.sections.frames import read_frame, write_frame
from molrec_convert.stores.zarr.v3.zip_storage import open_storage


def numbers(parameters: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in parameters.items() if not isinstance(value, str)}


def remarks(resolution: Resolution) -> list[str]:
    return [str(remark) for remark in resolution.remarks]


def atoms(*types: str, **columns: Any) -> Frame:
    return Frame({"atoms": Block({"type": list(types), **columns})})


def test_the_resolution_table_of_the_seed(fixtures: Path) -> None:
    """The table is read from the page; every line of it is resolved."""
    resolution = resolve(peroxide_system(), peroxide())
    text = (fixtures / "layout-by-example.txt").read_text().partition("Resolved against the tables read back")[2]
    lines = re.findall(r"^`(\w+)\[(\d+)\]`\t`([^`]+)`\t`([^`]+)` row (\d+)\t(.+)$", text, flags=re.MULTILINE)
    assert len(lines) == 6
    for block, index, name, table, row, parameters in lines:
        (term,) = resolution[block].terms(int(index))
        assert (term.table, term.row) == (table, int(row))
        expected = {key: float(value) for key, value in (pair.split() for pair in parameters.split(", "))}
        assert numbers(term.parameters) == expected
        assert peroxide_system()[block]["type"][int(index)] == name
    assert resolution.remarks == []


def test_whole_columns() -> None:
    resolution = resolve(peroxide_system(), peroxide())
    link = resolution["bonds"]["bond.harmonic"]
    assert link.row.tolist() == [1, 0, 1]
    assert link.parameters["k"].values.tolist() == [1106.0, 600.0, 1106.0]
    assert link.parameters["k"].validity is None
    assert resolution["atoms"]["atom.full"].row.tolist() == [0, 1, 1, 0]
    assert resolution["atoms"].terms(0)[0].parameters["ptype"] == "A"
    assert list(resolution) == ["atoms", "bonds", "angles", "dihedrals"]


def test_two_types_without_a_row_of_their_own_are_mixed() -> None:
    resolution = resolve(peroxide_system(), peroxide())
    (like,) = resolution.pair("O1", "O1")
    assert (like.row, like.parameters, like.mixed) == (0, {"epsilon": 0.17, "sigma": 3.0}, ())
    (unlike,) = resolution.pair("O1", "H1")
    assert (unlike.row, unlike.mixed) == (None, ("epsilon", "sigma"))
    assert unlike.parameters == {"epsilon": 0.0, "sigma": math.sqrt(3.0)}
    assert resolution.pair(0, 1) == [unlike]
    with pytest.raises(KeyError, match="no atom type 'N1'; it has H1, O1"):
        resolution.pair("N1", "O1")


def test_generic_rows_are_named_like_all_others() -> None:
    system = peroxide_system()
    system.blocks["dihedrals"] = relation([[0, 1, 2, 3]], type=["X-O1-O1-X"])
    (term,) = resolve(system, peroxide())["dihedrals"].terms(0)
    assert (term.row, term.parameters) == (1, {"k1": 0.5, "periodicity1": 3.0, "phase1": 0.0})


def two_bond_styles() -> ForceField:
    forcefield = peroxide()
    row = {"name": "O1-O1", "itom": "O1", "jtom": "O1", "D": 50.0, "alpha": 2.0, "r0": 1.4}
    forcefield.add("bond", "morse", table_from_rows("bond", [row]))
    return forcefield


def test_tables_that_hold_one_name_add() -> None:
    terms = resolve(peroxide_system(), two_bond_styles())["bonds"].terms(1)
    assert [(term.table, term.row) for term in terms] == [("bond.harmonic", 0), ("bond.morse", 0)]


def test_the_style_column_picks_the_table() -> None:
    system = peroxide_system()
    system.blocks["bonds"].columns["style"] = Column(
        np.array(["harmonic", "morse", "none"], "T"), np.array([True, True, False])
    )
    bonds = resolve(system, two_bond_styles())["bonds"]
    assert [[term.table for term in bonds.terms(row)] for row in range(3)] == [
        ["bond.harmonic"],
        ["bond.morse"],
        ["bond.harmonic"],
    ]


def test_unresolved_names_are_remarks() -> None:
    system = peroxide_system()
    system.blocks["atoms"].columns["type"] = Column(["H1", "Xx", "O1", "Xx"])
    system.blocks["bonds"].columns["type"] = Column(["O1-H1", "lost", "lost"])
    system.blocks["bonds"].columns["style"] = Column(["harmonic", "harmonic", "fene"])
    resolution = resolve(system, peroxide())
    assert remarks(resolution) == [
        "system/atoms/type: 'Xx' is no atom type of the force field (2 rows)",
        "system/bonds/style: 'fene' is no style of the force field (1 row)",
        "system/bonds/type: 'lost' is no bond type of the force field (2 rows)",
        "forcefield/pair.lj%2Fcut: no parameters for 'H1' and 'Xx', 'Xx' and 'Xx', 'Xx' and 'O1' of the system",
    ]
    assert resolution["bonds"].resolved.tolist() == [True, False, False]
    assert resolution["bonds"].terms(1) == []


def test_a_relation_of_a_category_without_styles_resolves_to_nothing() -> None:
    system = peroxide_system()
    system.blocks["impropers"] = relation([[0, 1, 2, 3]], type=["a"])
    system.blocks["exclusions"] = relation([[0, 1]])
    assert remarks(resolve(system, peroxide())) == [
        "system/impropers/type: 'a' is no improper type of the force field (1 row)"
    ]


def test_rows_that_name_nothing_are_found_by_their_atoms() -> None:
    system = peroxide_system()
    del system.blocks["bonds"].columns["type"]
    system.blocks["dihedrals"] = relation([[0, 1, 2, 3], [1, 2, 1, 2]])
    resolution = resolve(system, peroxide())
    assert resolution["bonds"]["bond.harmonic"].row.tolist() == [1, 0, 1]
    assert resolution["bonds"]["bond.harmonic"].by_endpoints.all()
    assert resolution["dihedrals"]["dihedral.periodic"].row.tolist() == [0, 1]
    assert resolution.remarks == []


def test_fewest_wildcards_then_the_first() -> None:
    def row(name: str, *ends: str) -> dict[str, Any]:
        return {"name": name, **{f"{letter}tom": end for letter, end in zip("ijkl", ends, strict=True)}}

    rows = [
        row("any", "", "", "", ""),
        row("middle", "", "B", "C", ""),
        row("again", "", "B", "C", ""),
        row("end", "A", "B", "C", ""),
        row("full", "D", "C", "B", "A"),
    ]
    system = atoms("A", "B", "C", "D", "E")
    system.blocks["dihedrals"] = relation([[0, 1, 2, 3], [3, 2, 1, 0], [0, 1, 2, 4], [4, 1, 2, 4], [4, 4, 4, 4]])
    system.blocks["impropers"] = relation([[0, 1, 2, 3], [3, 2, 1, 0]])
    forcefield = single("dihedral", "periodic", rows)
    forcefield.add("improper", "periodic", table_from_rows("improper", rows))
    found = resolve(system, forcefield)
    assert found["dihedrals"]["dihedral.periodic"].row.tolist() == [4, 4, 3, 1, 0]
    assert found["impropers"]["improper.periodic"].row.tolist() == [3, 4]


@settings(max_examples=60)
@given(st.data())
def test_matching_by_endpoints_is_what_a_plain_search_finds(data: st.DataObject) -> None:
    labels = ["A", "B", "C"]
    ends = data.draw(st.lists(st.tuples(*[st.sampled_from(["", *labels])] * 3), min_size=1, max_size=8))
    types = data.draw(st.lists(st.sampled_from([*labels, "Z"]), min_size=1, max_size=6))
    triples = data.draw(st.lists(st.tuples(*[st.integers(0, len(types) - 1)] * 3), min_size=1, max_size=8))
    rows = [
        {"name": str(n), "itom": i, "jtom": j, "ktom": k, "k": 1.0, "theta0": 1.0} for n, (i, j, k) in enumerate(ends)
    ]
    system = atoms(*types)
    system.blocks["angles"] = relation([list(triple) for triple in triples])
    found = resolve(system, single("angle", "harmonic", rows))["angles"]["angle.harmonic"].row.tolist()
    for triple, row in zip(triples, found, strict=True):
        names = tuple(types[atom] for atom in triple)
        fitting = [
            (end.count(""), at)
            for at, end in enumerate(ends)
            if any(all(e in ("", t) for e, t in zip(end, tuple_, strict=True)) for tuple_ in (names, names[::-1]))
        ]
        assert row == (min(fitting)[1] if fitting else -1)


def test_classes() -> None:
    forcefield = ForceField.new("classes", {"preset": "real"})
    types = [{"name": "C1", "class": "CT"}, {"name": "C2", "class": "CT"}, {"name": "H1", "class": "HC"}]
    forcefield.add("atom", "full", table_from_rows("atom", types))
    bond = table_from_rows("bond", [{"name": "b", "itom": "HC", "jtom": "CT", "k": 1.0, "r0": 1.0}])
    forcefield.add("bond", "harmonic", bond, endpoint_key="class")
    pair = table_from_rows("pair", [{"name": "p", "itom": "CT", "jtom": "CT", "epsilon": 1.0, "sigma": 2.0}])
    forcefield.add("pair", "lj/cut", pair, endpoint_key="class")
    forcefield.check()
    system = atoms("C1", "C2", "H1")
    system.blocks["bonds"] = relation([[0, 2], [1, 2], [0, 1]])
    resolution = resolve(system, forcefield)
    assert resolution["bonds"]["bond.harmonic"].row.tolist() == [0, 0, -1]
    assert resolution.pair("C1", "C2")[0].row == 0
    assert "system/bonds: no type is named and no bond type fits the atoms (1 row)" in remarks(resolution)


def test_patterns() -> None:
    """A force field keyed by patterns has no atom table: `atoms.type` names rows of its pair table."""
    forcefield = ForceField.new("openff", {"preset": "real"})
    table = Block({"name": ["n1", "n2"], "smirks": ["[#1:1]", "[#6:1]"], "epsilon": [0.1, 0.2], "sigma": [1.0, 2.0]})
    forcefield.add("pair", "lj/cut", table, params={"mixing": "arithmetic"}, endpoint_key="smirks")
    forcefield.check()
    resolution = resolve(atoms("n2", "n1", "n2"), forcefield)
    assert resolution["atoms"]["pair.lj%2Fcut"].row.tolist() == [1, 0, 1]
    assert resolution.remarks == []


def test_columns_of_the_system_override_the_table() -> None:
    system = peroxide_system()
    system.blocks["bonds"].columns["k"] = nullable([None, 5.0, None])
    system.blocks["bonds"].columns["r0"] = Column(np.array([1, 2, 3]))
    system.blocks["atoms"].columns["charge"] = nullable([None, None, -1.0, None])
    resolution = resolve(system, peroxide())
    link = resolution["bonds"]["bond.harmonic"]
    assert link.parameters["k"].values.tolist() == [1106.0, 5.0, 1106.0]
    assert link.parameters["r0"].values.tolist() == [0.967, 1.475, 0.967]
    assert resolution["atoms"]["atom.full"].parameters["charge"].values.tolist() == [0.41, -0.41, -1.0, 0.41]
    assert remarks(resolution) == [
        "system/bonds/r0: the column is not of the kind bond.harmonic has and overrides nothing"
    ]


@pytest.mark.parametrize("style", ["harmonic", "uff_bond"])
def test_a_style_without_rows_takes_everything_from_the_system(style: str) -> None:
    forcefield = ForceField.new("uff", {"preset": "real"})
    forcefield.add("bond", style, Block({"name": np.array([], "T")}, count=0))
    system = atoms("C", "C", "H")
    system.blocks["bonds"] = relation(
        [[0, 1], [1, 2], [0, 2]], k=nullable([1.0, 2.0, None]), r0=nullable([1.5, None, None])
    )
    resolution = resolve(system, forcefield)
    link = resolution["bonds"][f"bond.{style}"]
    assert link.row.tolist() == [-1, -1, -1]
    assert link.applies.tolist() == [True, True, False]
    assert [term.parameters for row in range(3) for term in resolution["bonds"].terms(row)] == [
        {"k": 1.0, "r0": 1.5},
        {"k": 2.0},
    ]
    missing = "system/bonds: 1 row take bond.harmonic and have no 'r0'"
    assert (missing in remarks(resolution)) == (style == "harmonic")


def test_a_style_without_rows_beside_one_with_rows() -> None:
    forcefield = peroxide()
    forcefield.add("bond", "uff_bond", table_from_rows("bond", []))
    system = peroxide_system()
    system.blocks["bonds"].columns["style"] = Column(["harmonic", "uff_bond", "harmonic"])
    system.blocks["bonds"].columns["order"] = nullable([None, 1.5, None])
    resolution = resolve(system, forcefield)
    assert [[(t.table, t.parameters) for t in resolution["bonds"].terms(row)] for row in (0, 1)] == [
        [("bond.harmonic", {"k": 1106.0, "r0": 0.967})],
        [("bond.uff_bond", {"order": 1.5})],
    ]
    assert resolution.remarks == []


def test_a_row_that_lacks_what_its_style_needs() -> None:
    forcefield = single("bond", "harmonic", [{"name": "b", "itom": "A", "jtom": "A", "k": 1.0, "r0": None}])
    system = atoms("A", "A")
    system.blocks["bonds"] = relation([[0, 1], [1, 0]], type=["b", "b"])
    assert "system/bonds: 2 rows take bond.harmonic and have no 'r0'" in remarks(resolve(system, forcefield))


def test_unknown_categories_and_cmaps_are_linked() -> None:
    forcefield = ForceField.new("more", {"preset": "real"})
    ends = {f"{letter}tom": "A" for letter in "ijklm"}
    cmap = table_from_rows("cmap", [{"name": "1", **ends}, {"name": "2", **ends}])
    cmap.columns["grid"] = Column(np.arange(8.0).reshape(2, 2, 2))
    forcefield.add("cmap", "charmm", cmap)
    forcefield.add(
        "urey", "x", table_from_rows("urey", [{"name": "u", "itom": "A", "jtom": "", "ktom": "A", "k": 3.0}])
    )
    forcefield.check()
    system = atoms(*"AAAAA")
    system.blocks["cmaps"] = relation([[0, 1, 2, 3, 4]], type=["2"])
    system.blocks["ureys"] = relation([[0, 1, 2], [0, 1, 3]])
    resolution = resolve(system, forcefield)
    assert resolution["cmaps"].terms(0)[0].parameters == {"grid": [[4.0, 5.0], [6.0, 7.0]]}
    assert resolution["ureys"]["urey.x"].row.tolist() == [0, 0]


def test_pairs14() -> None:
    forcefield = peroxide()
    row = {"name": "x", "itom": "O1", "jtom": "H1", "epsilon": 0.05, "sigma": 2.0}
    forcefield.add("pair14", "lj/cut", table_from_rows("pair14", [row]))
    system = peroxide_system()
    flags = np.array([True, True, False])
    system.blocks["pairs"] = relation([[0, 2], [0, 3], [1, 3]], is_14=flags, epsilon=nullable([None, 1.0, None]))
    pairs = resolve(system, forcefield)["pairs"]
    assert pairs["pair14.lj%2Fcut"].row.tolist() == [0, -1, -1]
    assert [term.parameters for term in pairs.terms(0)] == [{"epsilon": 0.05, "sigma": 2.0}]


def test_no_system_no_types_no_atoms() -> None:
    assert resolve(Frame(), peroxide()).blocks == {}
    resolution = resolve(Frame({"atoms": Block({"x": np.zeros(2)})}), peroxide())
    assert resolution["atoms"].terms(0) == []
    with pytest.raises(KeyError, match="the atom 1 names no type"):
        resolution.pair(1, 1)


# --- pairs ------------------------------------------------------------------------------------------------------------


def lennard_jones(rows: list[dict[str, Any]], style: str = "lj/cut", **params: Any) -> ForceField:
    return single("pair", style, rows, params=params)


OWN = [
    {"name": "A", "itom": "A", "jtom": "A", "epsilon": 0.2, "sigma": 3.0},
    {"name": "B", "itom": "B", "jtom": "B", "epsilon": 0.1, "sigma": 2.5},
]


@pytest.mark.parametrize(
    ("rule", "epsilon", "sigma"),
    [
        ("arithmetic", math.sqrt(0.2 * 0.1), (3.0 + 2.5) / 2),
        ("geometric", math.sqrt(0.2 * 0.1), math.sqrt(3.0 * 2.5)),
        (
            "sixthpower",
            2 * math.sqrt(0.2 * 0.1) * 3.0**3 * 2.5**3 / (3.0**6 + 2.5**6),
            ((3.0**6 + 2.5**6) / 2) ** (1 / 6),
        ),
    ],
)
def test_mixing_rules(rule: str, epsilon: float, sigma: float) -> None:
    (term,) = resolve(atoms("A", "B"), lennard_jones(OWN, mixing=rule)).pair("B", "A")
    assert term.parameters == {"epsilon": pytest.approx(epsilon, rel=1e-15), "sigma": pytest.approx(sigma, rel=1e-15)}


def test_sixthpower_of_two_points_without_size() -> None:
    zero = np.zeros(1)
    assert mixed_energy("sixthpower", zero + 1.0, zero + 2.0, zero, zero).tolist() == [0.0]
    assert mixed_distance("sixthpower", zero, zero).tolist() == [0.0]


@pytest.mark.parametrize("ends", [("A", "B"), ("B", "A")])
def test_a_cross_row_overrides_the_mix_and_its_nulls_take_it(ends: tuple[str, str]) -> None:
    rows = [*OWN, {"name": "AB", "itom": ends[0], "jtom": ends[1], "epsilon": 9.0, "sigma": None}]
    (term,) = resolve(atoms("A", "B"), lennard_jones(rows, mixing="arithmetic")).pair("A", "B")
    assert (term.row, term.parameters, term.mixed) == (2, {"epsilon": 9.0, "sigma": 2.75}, ("sigma",))


def test_without_a_rule_nothing_is_mixed() -> None:
    resolution = resolve(atoms("A", "B"), lennard_jones(OWN))
    (term,) = resolution.pair("A", "B")
    assert (term.row, term.parameters) == (None, {})
    assert "forcefield/pair.lj%2Fcut: no parameters for 'A' and 'B' of the system" in remarks(resolution)


def test_pairs_that_another_style_has_are_not_remarked_on() -> None:
    """Under a hybrid each style acts on some pairs of types."""
    cross = {"name": "AB", "itom": "A", "jtom": "B", "epsilon": 0.3, "sigma": 2.0}
    first, second = lennard_jones(OWN), lennard_jones([cross], "lj/cut 2")
    document = {**first.document, "styles": [*first.document["styles"], *second.document["styles"]]}
    both = ForceField(document, {**first.tables, **second.tables})
    assert not any("no parameters" in text for text in remarks(resolve(atoms("A", "B"), both)))
    told = [text for text in remarks(resolve(atoms("A", "B", "C"), both)) if "no parameters" in text]
    assert told == ["forcefield: no parameters for 'A' and 'C', 'B' and 'C', 'C' and 'C' of the system"]


def test_charmm_mixes_its_1_4_parameters_too() -> None:
    rows = [dict(row) for row in OWN]
    rows[0] |= {"epsilon14": 0.05, "sigma14": 2.0}
    forcefield = lennard_jones(rows, "lj/charmm", inner=8.0, cutoff=10.0)
    forcefield.document["units"]["angle"] = "degree"
    links = resolve(atoms("A", "B"), forcefield).pairs["pair.lj%2Fcharmm"]
    assert links.mixing == "arithmetic"
    term = links.pair("A", "B")
    assert term.parameters["sigma14"] == (2.0 + 2.5) / 2
    assert term.parameters["epsilon14"] == math.sqrt(0.05 * 0.1)


def test_own_cutoffs_are_mixed_like_sigma() -> None:
    rows = [{**OWN[0], "cutoff": 9.0}, dict(OWN[1])]
    (term,) = resolve(atoms("A", "B"), lennard_jones(rows, cutoff=10.0, mixing="geometric")).pair("A", "B")
    assert term.parameters["cutoff"] == math.sqrt(90.0)


def test_wildcards_of_pairs() -> None:
    def row(name: str, a: str, b: str, epsilon: float) -> dict[str, Any]:
        return {"name": name, "itom": a, "jtom": b, "epsilon": epsilon, "sigma": 1.0}

    rows = [row("any", "", "", 0.0), row("B", "", "B", 1.0), row("A", "A", "", 2.0), row("AA", "A", "A", 3.0)]
    links = resolve(atoms("A", "B", "C"), lennard_jones(rows, mixing="geometric")).pairs["pair.lj%2Fcut"]
    assert links.rows(["A", "A", "B", "A", "C"], ["A", "B", "B", "C", "C"]).tolist() == [3, 1, 1, 2, 0]


def test_styles_that_need_no_rows() -> None:
    forcefield = ForceField.new("coul", {"preset": "real"})
    forcefield.add("pair", "coul/cut", table_from_rows("pair", []), params={"coulomb": 332.0, "cutoff": 10.0})
    forcefield.add("pair", "mine", table_from_rows("pair", []), params={"special": "coul"})
    forcefield.add("pair", "yours", table_from_rows("pair", []))
    forcefield.add("atom", "full", table_from_rows("atom", [{"name": "A"}, {"name": "B"}]))
    resolution = resolve(atoms("A", "B"), forcefield)
    assert resolution.remarks == []
    assert [links.special for links in resolution.pairs.values()] == ["coul", "coul", "lj"]
    assert [term.parameters for term in resolution.pair("A", "B")] == [{}, {}, {}]


def test_a_pair_style_that_misses_its_rows() -> None:
    resolution = resolve(atoms(*"ABCD"), lennard_jones([]))
    (remark,) = [r for r in remarks(resolution) if "pair" in r]
    assert "'A' and 'A', 'A' and 'B', 'A' and 'C', 'A' and 'D', 'B' and 'B' and 5 more pairs" in remark


@settings(max_examples=60)
@given(st.data())
def test_pairs_are_what_a_plain_search_finds(data: st.DataObject) -> None:
    labels = ["A", "B", "C", "D"]
    ends = st.sampled_from(["", *labels])
    pairs = data.draw(st.lists(st.tuples(ends, ends), min_size=1, unique_by=lambda pair: tuple(sorted(pair))))
    rows = [{"name": str(n), "itom": a, "jtom": b, "epsilon": float(n), "sigma": 1.0} for n, (a, b) in enumerate(pairs)]
    links = resolve(atoms(*labels, "Z"), lennard_jones(rows)).pairs["pair.lj%2Fcut"]
    for a in [*labels, "Z"]:
        for b in [*labels, "Z"]:
            fitting = [
                (pair.count(""), at)
                for at, pair in enumerate(pairs)
                if any(all(e in ("", t) for e, t in zip(pair, order, strict=True)) for order in ((a, b), (b, a)))
            ]
            assert links.rows([a], [b]).tolist() == [min(fitting)[1] if fitting else -1]


def test_a_million_bonds_are_linked_name_by_name() -> None:
    names = [f"t{n}" for n in range(500)]
    rows = [{"name": name, "itom": "A", "jtom": "A", "k": float(n), "r0": 1.0} for n, name in enumerate(names)]
    system = atoms("A")
    wanted = np.random.default_rng(1).integers(0, 500, 1_000_000)
    ends = np.zeros(len(wanted), dtype=np.uint64)
    types = np.array(names, "T")[wanted]
    system.blocks["bonds"] = Block({"atomi": ends, "atomj": ends, "type": types})
    link = resolve(system, single("bond", "harmonic", rows))["bonds"]["bond.harmonic"]
    assert np.array_equal(link.row, wanted)
    assert np.array_equal(link.parameters["k"].values, wanted.astype(float))


def test_a_system_of_very_many_types_is_looked_at_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "_MOST", 100_000)
    monkeypatch.setattr(linking, "_CHUNK", 10_000)
    resolution = resolve(atoms(*(f"T{n}" for n in range(1000))), lennard_jones(OWN, mixing="arithmetic"))
    (text,) = [text for text in remarks(resolution) if text.startswith("forcefield/")]
    assert re.search(r"and at least 10\d{4} more pairs of the system$", text)


def test_words_and_arrays_are_not_mixed() -> None:
    rows = [{**row, "epsilon": word, "note": "n"} for row, word in zip(OWN, ("deep", "flat"), strict=True)]
    resolution = resolve(atoms("A", "B"), lennard_jones(rows, mixing="arithmetic"))
    assert resolution.pair("A", "B")[0].parameters == {"sigma": 2.75}
    assert resolution.pair("A", "A")[0].parameters == {"epsilon": "deep", "sigma": 3.0, "note": "n"}
    forcefield = lennard_jones([{"name": n, "itom": n, "jtom": n} for n in "AB"], "mine", mixing="geometric")
    forcefield.tables["pair.mine"].columns["epsilon"] = Column(np.arange(4.0).reshape(2, 2))
    forcefield.check()
    resolution = resolve(atoms("A", "B"), forcefield)
    assert resolution.pair("B", "B")[0].parameters == {"epsilon": [2.0, 3.0]}
    assert resolution.pair("A", "B")[0].parameters == {}


def test_references_to_atoms_that_are_not_there_match_nothing() -> None:
    system = atoms("O1", "H1")
    system.blocks["bonds"] = relation([[0, 1], [0, 7]])
    assert resolve(system, peroxide())["bonds"]["bond.harmonic"].row.tolist() == [1, -1]


def test_the_rows_of_a_store_are_linked_like_those_in_memory(tmp_path: Path) -> None:
    write_frame(tmp_path, "system", peroxide_system())
    resolution = resolve(read_frame(open_storage(tmp_path), "system"), peroxide())
    assert resolution["bonds"]["bond.harmonic"].row.tolist() == [1, 0, 1]
