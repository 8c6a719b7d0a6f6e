"""Potentials into force fields and back: every style of the table, random numbers, both definitions."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molrec_convert.model import ForceField
from molrec_convert.report import Report
from molrec_lammps.potential.potential import Coefficient, Potential, PotentialStyle
from molrec_lammps.potential.record import force_field, potential_of
from molrec_lammps.potential.style_table import PARTS, Pattern, Slot, StyleRow, find_style, is_number, style_rows

ROWS = [row for row in style_rows().values() if not row.part]
TYPES = {"pair": 3, "bond": 3, "angle": 3, "dihedral": 3, "improper": 3}
DEFINITIONS = pytest.mark.parametrize("definitions", [1, 2])


def decimal(rng: random.Random) -> str:
    """A number of up to 15 significant digits, as somebody might write it."""
    digits = rng.randrange(1, 10 ** rng.randint(1, 15))
    text = f"{digits}e{rng.randint(-12, 3)}"
    return text if rng.random() < 0.3 else repr(float(text))


def slot_word(slot: Slot, rng: random.Random) -> str:
    if slot.literal is not None:
        return slot.literal
    if slot.kind == "int":
        return str(rng.randint(-720, 720))
    if slot.kind == "float":
        return rng.choice(["0", "180.0", "-1.5", "109.47", decimal(rng), f"-{decimal(rng)}"])
    return rng.choice(["word", "A.txt", "(r-1)^2;e=2", "x y"])


def random_words(pattern: Pattern, rng: random.Random) -> tuple[str, ...]:
    if not pattern.alternatives:
        return tuple(rng.choice(["word", "*COMMON", "0", "-1.5", decimal(rng)]) for _ in range(rng.randint(0, 4)))
    return tuple(item_words(rng.choice(pattern.alternatives), rng))


def item_words(items: tuple, rng: random.Random) -> list[str]:
    words: list[str] = []
    count = 0
    for item in items:
        if isinstance(item, Slot):
            if item.kind == "each":
                words += [rng.choice(["C", "NULL", "Si"]) for _ in range(TYPES["pair"])]
            elif item.kind == "some":
                words += [f"opt{n}" for n in range(rng.randint(0, 3))]
            else:
                is_count = any(getattr(other, "count", None) == item.name for other in items)
                count = rng.randint(1, 4)
                words.append(str(count) if is_count else slot_word(item, rng))
        elif hasattr(item, "count"):
            for _ in range(count):
                words += item_words(item.items, rng)
        elif rng.random() < 0.5:
            words += item_words(item.items, rng)
    return words


def random_potential(row: StyleRow, rng: random.Random, *, hybrid: str = "", labels: bool = False) -> Potential:
    """A potential of one style (and its cross terms), in a hybrid beside another where asked for."""
    category, count = row.category, TYPES[row.category]
    potential = Potential(units=rng.choice(["real", "metal", "lj", "si"]))
    potential.type_counts = {"atom": 3, category if category != "pair" else "atom": count}
    potential.masses = {n: decimal(rng) for n in (1, 3)}
    if labels:
        potential.labels = {"atom": ["CT", "H-C", "O'*"]}
        if category != "pair":
            potential.labels[category] = ["CT-HC", "a", "b"]
    name = row.style if hybrid else ""
    styles = [PotentialStyle(row.style, random_words(row.arguments, rng))]
    types = [(n,) for n in range(1, count + 1)]
    if category == "pair":
        types = [(a, b) for a in range(1, 4) for b in range(a, 4) if row.every or a == b or rng.random() < 0.7]
    fixed = random_words(row.coefficients, rng)
    for pair in types:
        words = fixed if row.every else random_words(row.coefficients, rng)
        potential.coefficients.append(Coefficient(category, pair, words, name, where="in.lmp, line 3"))
    for part in PARTS.get(category, ()):
        cross = find_style(category, row.style, part)
        if cross is not None:
            potential.coefficients += [
                Coefficient(category, pair, random_words(cross.coefficients, rng), name, 0, part) for pair in types
            ]
    if hybrid:
        potential.hybrid[category] = hybrid
    potential.styles[category] = styles
    return potential


def meaning(potential: Potential, row: Coefficient) -> object:
    """What the words of a row say: numbers as numbers, and one cutoff that stands for two as both."""
    style = potential.style_of(row)
    name = row.style or (style.name if style else "")
    known = find_style(row.category, name, row.part)
    values = None if known is None else known.read(row.words, 3)
    if values is None:
        return tuple(float(word) if is_number(word) else word for word in row.words)
    if known is not None:
        values = {**known.defaults, **values}
    if row.category == "pair" and known is not None and style is not None:
        # What LAMMPS takes for what a row leaves out.
        arguments = known.read_arguments(style.args) or {}
        if known.coefficients.slot("cutoff_coul") and "cutoff" in values:
            values.setdefault("cutoff_coul", values["cutoff"])
        for name, other in (("eps14", "epsilon"), ("sigma14", "sigma")):
            if known.coefficients.slot(name):
                values.setdefault(name, values[other])
        for name in ("cutoff", "cutoff_coul"):
            if known.coefficients.slot(name) and "cutoff" in arguments:
                values.setdefault(name, arguments.get(name, arguments["cutoff"]))
    return values


def all_meanings(potential: Potential) -> dict[tuple, object]:
    return {(c.category, c.types, c.style, c.index, c.part): meaning(potential, c) for c in potential.final()}


def assert_same(before: Potential, after: Potential) -> None:
    there, back = all_meanings(before), all_meanings(after)
    for row in after.coefficients:
        # Where rows state nothing the style alone is written, and is for all pairs.
        key = (row.category, row.types, row.style, row.index, row.part)
        assert key in there or (row.category == "pair" and not row.words), key
    for key, value in there.items():
        assert back[key] == value, key
    for name in ("units", "styles", "hybrid", "scales", "type_counts", "pair_modify", "special_bonds"):
        assert getattr(after, name) == getattr(before, name), name
    for name in ("kspace", "kspace_modify", "dielectric", "cmap"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.labels == before.labels
    assert {n: float(mass) for n, mass in after.masses.items()} == {n: float(m) for n, m in before.masses.items()}


def round_trip(potential: Potential, definitions: int) -> ForceField:
    found = force_field(potential, Report(), definitions=definitions)
    found.check()
    assert found.definitions == definitions
    assert_same(potential, potential_of(found))
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.category}-{row.style}")
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32), definitions=st.sampled_from([1, 2]), labels=st.booleans())
def test_every_style_comes_back(row: StyleRow, seed: int, definitions: int, labels: bool) -> None:
    potential = random_potential(row, random.Random(seed), labels=labels)
    found = round_trip(potential, definitions)
    again = round_trip(potential_of(found), definitions)
    assert again == found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.category}-{row.style}")
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32), definitions=st.sampled_from([1, 2]))
def test_every_style_comes_back_from_a_hybrid(row: StyleRow, seed: int, definitions: int) -> None:
    rng = random.Random(seed)
    kind = rng.choice(["hybrid", "hybrid/overlay"]) if row.category == "pair" else "hybrid"
    potential = random_potential(row, rng, hybrid=kind)
    if row.style == "none":
        potential.styles[row.category] = []
    potential.styles[row.category].append(PotentialStyle("made/up", ("1.50", "word")))
    types = (1,) if row.category != "pair" else (1, 2)
    potential.coefficients.append(Coefficient(row.category, types, ("3", "1.25", "abc"), "made/up"))
    round_trip(potential, definitions)


def test_the_table_has_every_style_there_are_facts_about(fixtures: Path) -> None:
    text = fixtures / "lammps/styles.tsv"
    missing = []
    with text.open() as lines:
        for line in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            category = line["category"].removesuffix("-file")
            for name in line["style"].replace(" ...", "").split(", "):
                if name.startswith("/"):
                    name = line["style"].split(",")[0].removesuffix("/mod") + name
                if name.startswith("hybrid") or name in ("ilp/*", "kolmogorov/*"):
                    continue
                if find_style(category, name) is None:
                    missing.append((category, name))
    assert not missing
