"""Change one thing in the source at a time, and see that the fast tests of its area fail.

    python source_mutations.py              # all of the table, a line each; exit code 1 where one is not noticed
    python source_mutations.py units pages  # those with such a word in their names

A change that no test notices is a rule, a factor or a fast path that could break without a word. It is made in a copy
of the tree. What is to be replaced stands in the source exactly once; where it does not any more, the table says so.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Mutation(NamedTuple):
    """`old` becomes `new`; the fast tests of the places in `tests` are to notice it."""

    name: str
    old: str
    new: str
    tests: str


TABLE = (
    # units and quantities
    Mutation(
        "units: the calorie",
        'thermochemical_calorie cal_th", "4.184"',
        'thermochemical_calorie cal_th", "4.1868"',
        "meaning",
    ),
    Mutation("units: the dalton, one digit", "1.66053906892e-27", "1.66053906893e-27", "meaning test_pins.py"),
    Mutation(
        "units: metal's time",
        '("angstrom", "eV", "radian", "e", "dalton", "ps")',
        '("angstrom", "eV", "radian", "e", "dalton", "fs")',
        "meaning",
    ),
    Mutation(
        "units: metal's pressure", '"metal": {"pressure": "bar"', '"metal": {"pressure": "atm"', "meaning test_pins.py"
    ),
    Mutation(
        "units: order of six numbers",
        '"voigt": ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))',
        '"voigt": ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))',
        "meaning",
    ),
    # the model
    Mutation(
        "model: a column on both sides",
        "for name in sorted(({*columns} & {*system}) - _BOTH):",
        "for name in sorted(()):",
        "model conversion/test_system_trajectory.py",
    ),
    Mutation(
        "model: row counts of updates",
        "wrong = np.flatnonzero(block.counts != rows)",
        "wrong = np.flatnonzero(block.counts < 0)",
        "conversion/test_system_trajectory.py",
    ),
    Mutation(
        "model: ids of updates",
        'differ = (valid != own) | ((ids != block.stored("id")) & valid & own)',
        "differ = valid != own",
        "model trajectory",
    ),
    Mutation(
        "model: rounding at a precision",
        "np.rint(result, out=result)",
        "np.floor(result, out=result)",
        "conversion/test_precision.py",
    ),
    Mutation(
        "model: the quantum",
        "math.ldexp(1.0, math.frexp(precision)[1] - 1)",
        "math.ldexp(1.0, math.frexp(precision)[1])",
        "conversion/test_precision.py",
    ),
    Mutation("model: a condition", '"<=": operator.le', '"<=": operator.lt', "collection"),
    Mutation(
        "model: mixing of pairs", "return np.asarray(0.5 * (a + b))", "return np.asarray(0.5 * (a + a))", "forcefield"
    ),
    # records
    Mutation("records: an update is what differs", "result[same] = False", "result[same] = True", "trajectory"),
    Mutation(
        "records: rows compared after the first few", "same = _compared(array", "same = _sampled(array", "trajectory"
    ),
    Mutation("records: a checksum of a chunk", "if crc32c(body) != checksum.tobytes():", "if False:", "zarr inspect"),
    Mutation(
        "records: frames committed",
        '("attributes", "nstep"), self.n_frames)',
        '("attributes", "nstep"), self.n_frames + 1)',
        "trajectory",
    ),
    # collections
    Mutation(
        "collections: keys in numeric order",
        '_NUMBERED = struct.Struct(">cQ")',
        '_NUMBERED = struct.Struct("<cQ")',
        "lmdb",
    ),
    Mutation(
        "collections: full pages",
        "putmulti(items, append=True)",
        "putmulti(reversed(items))",
        "lmdb test_fast_paths.py",
    ),
    Mutation(
        "collections: a checksum of a value",
        "wrong = np.flatnonzero(found != expected)",
        "wrong = np.flatnonzero(found != found)",
        "lmdb collection",
    ),
    Mutation(
        "collections: exit code of a part", "SOME_FAILED = 4", "SOME_FAILED = 0", "migration/test_migration_cli.py cli"
    ),
    # rows of text
    Mutation(
        "rows: the kernel",
        "fill = _fill if library() is not None else twin.fill",
        "fill = twin.fill",
        "test_fast_paths.py",
    ),
    # LAMMPS
    Mutation("LAMMPS: bounds of a tilted cell", "low[..., :2] -= below", "low[..., :2] += below", "lammps_dump"),
    Mutation(
        "LAMMPS: atoms in the order of their ids",
        "order = np.lexsort((ids, frame)) if len(counts) > 1 else",
        "order = np.arange(len(ids)) if len(counts) > 1 else",
        "lammps_dump",
    ),
    Mutation(
        "LAMMPS: the half of a spring",
        "return value * (0.5 if back else 2.0)",
        "return value * (2.0 if back else 0.5)",
        "lammps_script",
    ),
    Mutation(
        "LAMMPS: special bonds",
        '"amber": ((0.0, 0.0, 0.5), (0.0, 0.0, 5.0 / 6.0))',
        '"amber": ((0.0, 0.0, 0.5), (0.0, 0.0, 0.5))',
        "lammps_script",
    ),
    # PDB
    Mutation(
        "PDB: the sign of a formal charge",
        'sign = -1 if "-" in field else 1',
        'sign = -1 if field.startswith("-") else 1',
        "pdb",
    ),
    Mutation(
        "PDB: the first number of hybrid-36",
        "rest += 10 * 36 ** (width - 1)",
        "rest += 10 * 36 ** (width - 1) + 1",
        "pdb",
    ),
    # conversions and migrations
    Mutation(
        "conversion: a name that is taken",
        '    if not overwrite:\n        raise UsageError(f"{target} exists already',
        '    if False:\n        raise UsageError(f"{target} exists already',
        "files",
    ),
    Mutation(
        "migration: many records at once",
        'if self._keys or "element" not in columns.text_groups:',
        "if True:",
        "test_fast_paths.py",
    ),
    # XYZ
    Mutation("XYZ: an axis without pbc is periodic", "axes or (True,) * 3", "axes or (False,) * 3", "xyz"),
)


def sources(tree):
    """Return the source files of a tree."""
    return sorted(path for base in ("molrec_convert", "plugins") for path in (tree / base).rglob("*.py"))


def copied(tree):
    """Copy what the tests need."""
    for name in ("molrec_convert", "plugins", "tests", "fixtures", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, tree / path.name)


def noticed(mutation, tree):
    """Return what the tests said of one change: noticed, NOT NOTICED, or why that cannot be told."""
    holds = [path for path in sources(tree) if mutation.old in path.read_text(encoding="utf-8")]
    if len(holds) != 1 or holds[0].read_text(encoding="utf-8").count(mutation.old) != 1:
        return f"NOT THERE ONCE: {len(holds)} files have it"
    (path,) = holds
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'plugins'}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    try:
        for place in mutation.tests.split():
            done = subprocess.run(
                [*command, f"tests/{place}"], cwd=tree, env=environment, capture_output=True, text=True
            )
            if done.returncode == 1:
                lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
                return f"noticed by {lines[0].split()[1] if lines else place}"
            if done.returncode != 0:
                return f"CANNOT BE TRIED: {done.stdout[-300:]}"
    finally:
        path.write_text(text, encoding="utf-8")
    return "NOT NOTICED"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="parts of the names of the changes to try; all when none")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        copied(tree)
        for mutation in TABLE:
            if arguments.words and not any(word in mutation.name for word in arguments.words):
                continue
            start = time.monotonic()
            said = noticed(mutation, tree)
            failed += not said.startswith("noticed")
            print(f"{mutation.name}: {said} ({time.monotonic() - start:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
