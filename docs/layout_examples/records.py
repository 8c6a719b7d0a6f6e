"""The example records of the page. Only leading values of long columns are printed; all are written down here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from layout_examples.peroxide import molecule, peroxide, peroxide_system
from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Box,
    Column,
    ColumnDeclaration,
    Declaration,
    Event,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Metrics,
    Observable,
    Observables,
    Record,
)


def build_water() -> Record:
    """One water molecule: atoms with a masked column and a precision, bonds, a density grid, a cubic box."""
    mask = np.array([True, False, False])
    xyz = {"x": [0.0, 0.0, 0.0], "y": [0.0, 0.7572, -0.7572], "z": [0.117, -0.469, -0.469]}
    atoms = Block(
        {
            "element": np.array(["O", "H", "H"]),
            "mass": np.array([15.999, 1.008, 1.008]),
            "b_factor": Column(np.array([11.8, 0.0, 0.0]), mask),
            **{name: Column(np.array(values), precision=1e-3) for name, values in xyz.items()},
        }
    )
    bonds = Block(
        {
            "atomi": np.array([0, 0], np.uint64),
            "atomj": np.array([1, 2], np.uint64),
            "bond_type": np.array([1, 1], np.uint64),
        }
    )
    rho = np.array([0.0313, 0.0449, 0.0388, 0.0113, 0.015, 0.0437, 0.0261, 0.0098])
    meta = Meta()
    meta.put("smiles", "O")
    meta.put("total_charge", 0, "i64")
    meta.put("units", {"length": "angstrom", "mass": "dalton"}, "json")
    frame = Frame(
        {"atoms": atoms, "bonds": bonds, "density": Block({"rho": rho}, structural_shape=(2, 2, 2))},
        meta,
        Box(np.eye(3) * 10.0),
    )
    return Record(meta={"molrec_version": 1}, frame=frame)


def build_slab() -> Record:
    """What water does not show: a tilted cell with an origin and an open axis, trailing axes, declared references."""
    atoms = Block(
        {
            "element": ["O", "H", "O"],
            "x": [0.5, 1.4, 3.0],
            "y": [0.5, 0.6, 0.7],
            "z": [2.0, 2.1, 2.2],
            "dipole": np.array([[0.1, 0.0, 0.3], [0.0, 0.0, 0.05], [0.1, 0.0, 0.2]]),
        }
    )
    acceptor = Column(np.array([2, 0], np.uint64), np.array([True, False]))
    contacts = Block(
        {"donor": np.array([0, 2], np.uint64), "acceptor": acceptor, "seen": np.array([7, 0], np.uint16)},
        targets={"donor": "atoms", "acceptor": "atoms"},
    )
    vectors = np.array([[10.0, 2.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 20.0]])
    box = Box(vectors, origin=np.array([-5.0, -4.5, 0.0]), boundary=np.array([True, True, False]))
    return Record(meta={"molrec_version": 1}, frame=Frame({"atoms": atoms, "contacts": contacts}, box=box))


def build_vacuum() -> Record:
    """An atom beside a reference point, without a cell."""
    atoms = Block({"element": ["Ar"], "x": [0.5], "y": [0.0], "z": [0.0]})
    return Record(meta={"molrec_version": 1}, frame=Frame({"atoms": atoms}, box=Box.undefined(origin=[1.0, 0.0, 0.0])))


def build_vibration() -> Record:
    """Four frames of hydrogen peroxide: fixed topology in `system`, coordinates in a regular block."""
    x = [[0.8397, -0.0102, 0.0114, -0.8759], [0.8526, 0.0093, 0.0021, -0.8466], [0.83, 0.0, 0.01, -0.86]]
    y = [[0.9072, 0.728, -0.7351, -0.8487], [0.8773, 0.7505, -0.74, -0.88], [0.9, 0.73, -0.75, -0.87]]
    z = [[0.4465, -0.0105, 0.0149, 0.4201], [0.4144, -0.0041, 0.011, 0.43], [0.42, 0.01, -0.01, 0.41]]
    xyz = {"x": x, "y": y, "z": z}
    for values in xyz.values():
        values.append([value + 0.001 for value in values[0]])
    energies, temperatures = [-12.4, -12.1476, -12.1272, -12.3577], [300.0, 302.5, 297.1, 300.0]
    frames = [
        Frame(
            {"atoms": Block({name: np.array(values[i]) for name, values in xyz.items()})},
            Meta({"pe": energies[i], "temp": temperatures[i]}),
            Box(np.eye(3) * 20.0),
            step=100 * i,
            time=0.5 * i,
        )
        for i in range(4)
    ]
    return Record(meta={"molrec_version": 1}, system=molecule(), trajectory=MemoryTrajectory(frames))


def reaction_declaration() -> Declaration:
    """The declaration of `reaction`, with the rows of its representative frame."""
    f64, u64, text = ColumnDeclaration("f64"), ColumnDeclaration("u64"), ColumnDeclaration("string")
    return Declaration(
        {
            "atoms": BlockDeclaration({"element": text, "x": f64, "y": f64, "z": f64}, rows=5),
            "bonds": BlockDeclaration({"atomi": u64, "atomj": u64}, rows=3),
            "atom_types": BlockDeclaration({"type": text}, aligned_with="atoms", rows=5),
            "insertions": BlockDeclaration({"atomi": u64}, rows=1),
        },
        {"pe": MetaDeclaration("f64")},
    )


def build_reaction() -> Record:
    """Five frames in which bonds form, types change, an atom is inserted, and the cell grows."""
    x = [
        [0.8501, -0.0464, 0.0182, -0.8224],
        [0.8329, -0.0046, 0.01, -0.84],
        [0.84, -0.01, 0.011, -0.87],
        [0.85, -0.011, 0.012, -0.86, 4.0],
        [0.86, -0.012, 0.013, -0.85, 4.1],
    ]
    y = [[0.8844, 0.7426, -0.7219, -0.874], [0.9102, 0.7195, -0.73, -0.88], *([v + 0.5 for v in r] for r in x[2:])]
    z = [[0.4208, -0.0425, 0.0166, 0.4113], [0.4104, -0.0103, 0.01, 0.42], *([v - 0.5 for v in r] for r in x[2:])]
    energies = [-4.1, -4.3, -12.2, -12.4, -12.3]
    bonds = {0: ([0, 2], [1, 3]), 2: ([0, 1, 2], [1, 2, 3])}
    types = {0: ["HO", "OH", "OH", "HO"], 2: ["H1", "O1", "O1", "H1"], 3: ["H1", "O1", "O1", "H1", "Ar"]}
    insertions: dict[int, list[int]] = {3: [4], 4: []}
    frames = []
    for i, step in enumerate([0, 10, 20, 25, 30]):
        elements = ["H", "O", "O", "H", "Ar"][: len(x[i])]
        blocks = {
            "atoms": Block(
                {"element": np.array(elements), "x": np.array(x[i]), "y": np.array(y[i]), "z": np.array(z[i])}
            )
        }
        if i in bonds:
            blocks["bonds"] = Block(
                {name: np.array(rows, np.uint64) for name, rows in zip(("atomi", "atomj"), bonds[i], strict=True)}
            )
        if i in types:
            blocks["atom_types"] = Block({"type": np.array(types[i])})
        if i in insertions:
            blocks["insertions"] = Block({"atomi": np.array(insertions[i], np.uint64)})
        edge = 12.25 if i == 4 else 12.0
        frames.append(Frame(blocks, Meta({"pe": energies[i]}), Box(np.eye(3) * edge), step=step))
    return Record(meta={"molrec_version": 1}, trajectory=MemoryTrajectory(frames, reaction_declaration()))


def build_peroxide() -> Record:
    """Hydrogen peroxide and a force field for it."""
    return Record(meta={"molrec_version": 1}, system=peroxide_system(), forcefield=peroxide())


def _observables() -> Observables:
    dipole = Observable.of([0.0, 0.0, 0.3929], "vector", "molecular dipole moment", unit="e*angstrom")
    msd = Observable.of(
        [0.0, 0.0011, 0.0024, 0.0031],
        "scalar",
        "mean squared displacement",
        time_dependent=True,
        unit="angstrom**2",
        sampling="per_frame",
    )
    return Observables({"dipole": dipole, "msd": msd})


def build_results() -> Record:
    """Two observables, one of them over the four frames of the trajectory."""
    record = build_vibration()
    return Record(meta={"molrec_version": 1}, trajectory=record.trajectory, observables=_observables())


def fit_events() -> list[Event]:
    """The three events of the training run."""
    stamp = "2026-08-04T00:00:0{}+00:00"
    return [
        Event("train/loss", 0.5, stamp.format(1), 1),
        Event("train/loss", 0.25, stamp.format(2), 2),
        Event("eval/MAE", 0.1, stamp.format(2), 2),
    ]


def build_fit() -> Record:
    """A training run: documents, and its curves in both forms."""
    return Record(
        meta={
            "molrec_version": 1,
            "creator": {"name": "molrec-fixtures", "version": "0.0.0"},
            "created_at": "2026-08-04T00:00:00+00:00",
        },
        method={
            "type": "training",
            "description": "fit a potential to the H2O2 conformers",
            "engine": {"name": "molnex", "version": "0.0.0"},
        },
        status={
            "state": "succeeded",
            "stage": "train",
            "global_step": 2,
            "started_at": "2026-08-04T00:00:00+00:00",
            "finished_at": "2026-08-04T00:00:02+00:00",
        },
        metrics=Metrics.from_events(fit_events()),
    )


def build_tour() -> Record:
    """Every section at once: the peroxide, its frame with the blocks of the water example."""
    fit, vibration, water = build_fit(), build_vibration(), build_water()
    assert water.frame is not None
    frame = Frame(
        {
            "atoms": Block({"b_factor": Column(np.arange(4.0), np.array([True, True, False, False]))}),
            "bonds": Block({"bond_type": np.array([1, 1, 1], np.uint64)}),
            "density": water.frame["density"],
        },
        water.frame.meta,
        water.frame.box,
    )
    return Record(
        meta=fit.meta,
        system=peroxide_system(),
        frame=frame,
        trajectory=vibration.trajectory,
        forcefield=peroxide(),
        observables=_observables(),
        method=fit.method,
        status=fit.status,
        metrics=fit.metrics,
    )


#: Every example record by name.
EXAMPLES: dict[str, Callable[[], Record]] = {
    "tour": build_tour,
    "water": build_water,
    "slab": build_slab,
    "vacuum": build_vacuum,
    "vibration": build_vibration,
    "reaction": build_reaction,
    "peroxide": build_peroxide,
    "results": build_results,
    "fit": build_fit,
}
