"""Random `Atoms` and what they are compared by, to the bit."""

import math

import numpy as np
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms, FixBondLength, FixCartesian, FixedPlane, Hookean
from hypothesis import strategies as st

numbers_of = st.integers(0, 118)
doubles = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 0.1, 1e300])
)
finite = st.one_of(st.floats(-1e6, 1e6, allow_nan=False), st.sampled_from([0.0, -0.0, 0.1]))
names = st.sampled_from(
    ["a", "b c", "x", "pe", "units", "energy", "step", "v/w", "__q", "é", "k=1", "id", "%41", "data"]
)
scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    doubles,
    st.text("ab7 ü\n", max_size=4),
    st.sampled_from(["007", "True"]),
)
documents = st.recursive(
    st.one_of(scalars, st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("abk_", max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def arrays(draw, count, trailing=None):
    shape = (count, *(draw(st.sampled_from([(), (3,), (2, 2)])) if trailing is None else trailing))
    size = int(np.prod(shape))
    kind = draw(st.sampled_from(["f8", "i8", "i4", "u2", "?", "c16", "f4", "U", "O"]))
    if kind in ("U", "O"):
        texts = draw(st.lists(st.text("abü", max_size=3), min_size=size, max_size=size))
        return np.array(texts, object if kind == "O" else str).reshape(shape)
    if kind == "f8":
        return np.array(draw(st.lists(doubles, min_size=size, max_size=size)), kind).reshape(shape)
    whole = draw(st.lists(st.integers(0, 100), min_size=size, max_size=size))
    return np.array(whole).reshape(shape).astype(kind)


def table(draw, count, width=3, values=doubles):
    return np.array(draw(st.lists(values, min_size=count * width, max_size=count * width)), float).reshape(
        (count, width) if width > 1 else count
    )


@st.composite
def random_atoms(draw, count=None, least=0):
    count = draw(st.integers(least, 5)) if count is None else count
    atoms = Atoms(
        numbers=draw(st.lists(numbers_of, min_size=count, max_size=count)),
        positions=table(draw, count),
        cell=table(draw, 3, values=finite),
        pbc=draw(st.lists(st.booleans(), min_size=3, max_size=3)),
    )
    if np.linalg.matrix_rank(atoms.cell) < np.count_nonzero(np.any(atoms.cell, axis=1)):
        # ASE cannot take distances across such a cell, as it does for some constraints
        atoms.pbc = False
    if draw(st.booleans()):
        atoms.set_array("momenta", table(draw, count))
    if draw(st.booleans()):
        atoms.set_array("masses", table(draw, count, 1))
    if draw(st.booleans()):
        atoms.set_array(
            "tags", np.array(draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=count, max_size=count)), int)
        )
    if draw(st.booleans()):
        atoms.set_array("initial_magmoms", table(draw, count, draw(st.sampled_from([1, 3]))))
    if draw(st.booleans()):
        atoms.set_array("initial_charges", table(draw, count, 1))
    if draw(st.booleans()):
        atoms.set_celldisp(table(draw, 3, 1, st.floats(0.5, 3)))
    for name in draw(st.sets(names, max_size=3)):
        atoms.set_array(name, draw(arrays(count)))
    for name in draw(st.sets(names, max_size=3)):
        atoms.info[name] = draw(st.one_of(documents, arrays(3)))
    if count > 1 and draw(st.booleans()):
        atoms.set_constraint(draw(st.lists(constraints(count), max_size=2)))
    if draw(st.booleans()):
        atoms.calc = SinglePointCalculator(atoms, **draw(results(count)))
    return atoms


def constraints(count):
    atom = st.integers(0, count - 1)
    return st.one_of(
        st.builds(lambda chosen: FixAtoms(sorted(chosen)), st.sets(atom, max_size=count)),
        st.builds(lambda a, m: FixCartesian([a], m), atom, st.lists(st.booleans(), min_size=3, max_size=3)),
        st.just(FixBondLength(0, 1)),
        st.builds(lambda a: FixedPlane(a, (0, 0.6, 0.8)), atom),
        st.builds(lambda k: Hookean(0, (0.0, 0.5, -1.0), abs(k), 2.0), finite),
    )


@st.composite
def results(draw, count):
    shapes = {
        "energy": (), "free_energy": (), "magmom": (), "stress": (6,), "dipole": (3,), "forces": (count, 3),
        "charges": (count,), "magmoms": (count,), "energies": (count,), "stresses": (count, 6),
        "dielectric_tensor": (3, 3), "polarization": (3,), "born_effective_charges": (count, 3, 3),
    }  # fmt: skip
    found = {}
    for name in sorted(draw(st.sets(st.sampled_from(sorted(shapes)), max_size=5))):
        size = int(np.prod(shapes[name]))
        values = np.array(draw(st.lists(doubles, min_size=size, max_size=size)), float).reshape(shapes[name])
        found[name] = values if shapes[name] else float(values)
    return found


def same(a, b):
    """Deep equality to the bit, of data."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.kind in "OU":
            return a.tolist() == b.tolist()
        return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes() or (
            a.dtype.kind in "fc" and np.array_equal(a, b, equal_nan=True) and not (a == 0).any()
        )
    if isinstance(a, float) and isinstance(b, float):
        return repr(float(a)) == repr(float(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b


def stated(atoms):
    """The results of a calculator; one of the configuration that is not a number all through is none."""
    per_atom = ("forces", "charges", "magmoms", "energies", "stresses", "born_effective_charges")
    found = dict(atoms.calc.results)
    return {name: v for name, v in found.items() if name in per_atom or not np.isnan(np.asarray(v)).all()}


def assert_same_atoms(a, b, info=True):
    assert same(dict(a.arrays), dict(b.arrays)), (a.arrays, b.arrays)
    assert same(np.array(a.cell), np.array(b.cell)), (a.cell, b.cell)
    assert same(a.pbc, b.pbc)
    assert same(np.array(a.get_celldisp()), np.array(b.get_celldisp()))
    if info:
        assert same(dict(a.info), dict(b.info)), (a.info, b.info)
    assert same([c.todict() for c in a.constraints], [c.todict() for c in b.constraints])
    assert (a.calc is None) == (b.calc is None)
    if a.calc is not None:
        assert same(stated(a), stated(b)), (a.calc.results, b.calc.results)
        assert a.calc.name.lower() == b.calc.name
