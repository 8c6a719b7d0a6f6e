"""A PDB file of 99,999 atoms against its peers: `python pdb_speed.py DATA PEER_PYTHON [PAIR ...] [--runs N]`.

DATA is a folder the input is made in, PEER_PYTHON an interpreter with `biotite`, `gemmi` and `MDAnalysis`. Each task
runs in a process of its own, ours and the peer's in turn; the clock starts after the imports and one pass over the
first 20,000 rows. Medians of wall seconds, and of the ratio peer / ours within one turn, are printed as a Markdown
table, with the ratio of processor seconds, which other work on the machine disturbs least.
"""

import time
import warnings

import numpy as np
from interleaved import answer, main

PAIRS = {
    "99,999 atoms: read / biotite": ("ours-read", "biotite-read", 1.0),
    "99,999 atoms: read / gemmi, objects": ("ours-read", "gemmi-read", 1.0),
    "99,999 atoms: read / MDAnalysis": ("ours-read", "mdanalysis-read", 1.0),
    "99,999 atoms: write / biotite": ("ours-write", "biotite-write", 1.0),
}
COUNT = 99_999


def make_input(path):
    """Water in a cubic cell, as programs of molecular dynamics write it."""
    places = np.random.default_rng(0).random((COUNT, 3)) * 100
    with path.open("w") as file:
        file.write("CRYST1  100.000  100.000  100.000  90.00  90.00  90.00 P 1           1\n")
        for row, (x, y, z) in enumerate(places.tolist()):
            residue, kind = divmod(row, 3)
            file.write(
                f"HETATM{row + 1:5d} {(' O  ', ' H1 ', ' H2 ')[kind]} HOH {'ABCDEFGHIJ'[residue // 10000 % 10]}"
                f"{residue % 10000:4d}    {x:8.3f}{y:8.3f}{z:8.3f}{1.0:6.2f}{0.0:6.2f}          {'OHH'[kind]:>2}  \n"
            )
        file.write("END\n")


def ours_read(path, scratch):
    import molrec_convert

    with molrec_convert.read(path) as record:
        atoms = record.trajectory[0]["atoms"]
        record.system["atoms"]["name"][0]
        return float(atoms["x"].sum())


def ours_write(path, scratch):
    import molrec_convert

    with molrec_convert.read(path) as record:
        start = time.perf_counter()
        molrec_convert.write(record, scratch / "ours.pdb", overwrite=True)
        return time.perf_counter() - start


def biotite_read(path, scratch):
    import biotite.structure.io.pdb as pdb

    fields = ["atom_id", "b_factor", "occupancy", "charge"]
    return float(pdb.PDBFile.read(str(path)).get_structure(model=1, extra_fields=fields).coord.sum())


def biotite_write(path, scratch):
    import biotite.structure.io.pdb as pdb

    fields = ["atom_id", "b_factor", "occupancy", "charge"]
    atoms = pdb.PDBFile.read(str(path)).get_structure(model=1, extra_fields=fields)
    start = time.perf_counter()
    file = pdb.PDBFile()
    file.set_structure(atoms)
    file.write(str(scratch / "biotite.pdb"))
    return time.perf_counter() - start


def gemmi_read(path, scratch):
    import gemmi

    return gemmi.read_pdb(str(path))


def mdanalysis_read(path, scratch):
    import MDAnalysis

    universe = MDAnalysis.Universe(str(path))
    return float(universe.atoms.positions.sum())


TASKS = {
    "ours-read": ours_read,
    "ours-write": ours_write,
    "biotite-read": biotite_read,
    "biotite-write": biotite_write,
    "gemmi-read": gemmi_read,
    "mdanalysis-read": mdanalysis_read,
}


def one(task, data, scratch):
    """Run one task and print what it took."""
    warnings.simplefilter("ignore")
    source = data / "water.pdb"
    first = scratch / "first.pdb"
    if not first.exists():
        lines = source.open().readlines()[:20_000]
        first.write_text("".join(lines) + "END\n")
    TASKS[task](first, scratch)
    wall, processor = time.perf_counter(), time.process_time()
    returned = TASKS[task](source, scratch)
    seconds = returned if task.endswith("write") else time.perf_counter() - wall
    answer(seconds, time.process_time() - processor)


def make_missing(data):
    """The input, where it is not there yet."""
    if not (data / "water.pdb").exists():
        make_input(data / "water.pdb")


if __name__ == "__main__":
    main(__file__, __doc__, PAIRS, one, make_missing)
