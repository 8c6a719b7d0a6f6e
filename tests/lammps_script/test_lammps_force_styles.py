"""LAMMPS' own tests of potentials: each comes back with its energy and forces, or is refused by name.

They lie in `unittest/force-styles/tests` of LAMMPS' sources, which are not part of this package: `LAMMPS_FORCE_STYLES`
names the folder.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import lammps_style_cases
import numpy as np
import pytest
from lammps_runs import lammps, needs_lammps
from test_lammps_styles import CATEGORIES, potentials

import molrec_convert
from molrec_convert.errors import MolrecError
from molrec_convert.report import Fate, Report

FOLDER = os.environ.get("LAMMPS_FORCE_STYLES")
#: Commands after which the atoms are not those of the data file: LAMMPS itself writes them down first.
_STATE = ("create_box", "create_atoms", "change_box", "set", "displace_atoms", "delete_atoms", "read_dump")
_GONE = (*_STATE, "region", "lattice", "velocity", "read_data", "group", "shell", "mass", "print", "label", "labelmap")
_EARLY = ("units", "atom_style", "atom_modify", "boundary", "newton", "dimension", "variable")


def entries(path: Path) -> dict[str, list[str]]:
    """The lines behind each key of a test: its own value, or the indented text below it."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        match = re.match(r"(\w+): *(.*)", line)
        if match:
            key, value = match[1], match[2].strip()
            found[key] = [] if value.startswith("!") or not value else [value]
        elif found and line.strip():
            found[key].append(line.strip())
    return found


def commands(folder: Path, path: Path) -> list[str]:
    """The script a test stands for, or nothing where it is of no potential."""
    test = entries(path)
    category = next((c for c in CATEGORIES if f"{c}_style" in test), None)
    if category is None:
        return []
    lines = ["variable input_dir index .", *test.get("pre_commands", [])]
    lines += (folder / test["input_file"][0]).read_text().splitlines()
    lines += [f"{category}_style {word}" for word in test[f"{category}_style"]]
    lines += [f"{category}_coeff {words}" for words in test.get(f"{category}_coeff", [])]
    lines += test.get("post_commands", [])
    kept = [line.strip() for line in lines if line.strip() and not line.strip().startswith(("if ", "#"))]
    return [line for line in kept if line != "variable newton_pair delete"]


def settled(lines: list[str]) -> list[str]:
    """The same script where the atoms come from a file LAMMPS wrote."""
    kept = [line for line in lines if line.split()[0] not in _GONE]
    for category in CATEGORIES[1:]:
        styles = [n for n, line in enumerate(kept) if line.startswith(f"{category}_style")]
        if styles and not any(line.startswith(f"{category}_coeff") for line in kept):
            kept.insert(styles[-1] + 1, f"{category}_coeff *")
    early = [line for line in kept if line.split()[0] in _EARLY]
    return [*early, "read_data s.data", *(line for line in kept if line.split()[0] not in _EARLY)]


def link_files(folder: Path, directory: Path, lines: list[str]) -> None:
    """Put the files a script names beside it, and those that these name."""
    known = {path.name: path for base in (potentials(), folder) for path in base.iterdir() if path.is_file()}
    words = {part for line in lines for word in re.split(r"[\s'\"]+", line) for part in (word, word.rpartition("/")[2])}
    named = {known[word] for word in words & known.keys()} | (
        {known["lib.comb3"]} if "pair_style comb3" in str(lines) else set()
    )
    for path in list(named):
        if path.suffix in (".sw", ".3b"):
            named |= {known[word] for word in path.read_text().split() if word in known}
    for path in named:
        if not path.name.startswith("dump."):
            shutil.copy(path, directory / path.name)


def prepared(folder: Path, top: Path) -> dict[str, Path]:
    """A directory with a script for each test."""
    found: dict[str, Path] = {}
    setups: dict[str, Path] = {}
    for path in sorted(folder.glob("*.yaml")):
        lines = commands(folder, path)
        if not lines:
            continue
        directory = found[path.stem] = top / path.stem
        directory.mkdir(parents=True)
        link_files(folder, directory, lines)
        if any(line.split()[0] in _STATE for line in lines):
            setups[path.stem] = setup = top / "setups" / path.stem
            shutil.copytree(directory, setup)
            for dump in folder.glob("dump.*"):
                shutil.copy(dump, setup / dump.name)
            masses = ["mass * 1.0"] if "colloid" in path.stem else []
            written = f"write_data {directory / 's.data'} nocoeff"
            (setup / "in.lmp").write_text("\n".join([*lines, *masses, written, ""]))
            lines = settled(lines)
        (directory / "in.lmp").write_text("\n".join([*lines, "thermo_modify norm no", "run 0 post no", ""]))
    lammps_style_cases.jobs(top, setups)
    lammps(top, lammps_style_cases.RUN_ALL)
    return found


def differs(name: str, first: dict[str, Any], second: dict[str, Any]) -> str:
    """How two runs differ; "" where they do not. Forces of `dpd` are random in part, drawn in the order of atoms."""
    if "error" in second:
        return str(second["error"]).splitlines()[0]
    forces, others = np.array(first["f"]), np.array(second["f"])
    if abs(first["pe"] - second["pe"]) > 1e-9 * max(abs(first["pe"]), 1e-3):
        return f"{first['pe']!r} became {second['pe']!r}"
    apart = 0.0 if "-dpd" in name else np.abs(forces - others).max(initial=0.0)
    return "" if apart <= 1e-8 * max(np.abs(forces).max(initial=0.0), 1e-3) else f"forces differ by {apart}"


@needs_lammps
@pytest.mark.slow
@pytest.mark.skipif(
    FOLDER is None, reason="LAMMPS_FORCE_STYLES names no unittest/force-styles/tests of LAMMPS' sources"
)
def test_potentials_come_back_or_are_refused_by_name(tmp_path: Path) -> None:
    cases = prepared(Path(str(FOLDER)), tmp_path)
    lammps_style_cases.jobs(tmp_path, cases)
    first = lammps(tmp_path, lammps_style_cases.RUN_ALL)
    cases = {name: folder for name, folder in cases.items() if "error" not in first[name]}
    assert len(cases) > 350
    written: dict[str, Path] = {}
    refused: dict[str, str] = {}
    reports: dict[str, Report] = {}
    for name, folder in cases.items():
        report, record = Report(), tmp_path / f"{name}.mrec.zip"
        out = tmp_path / "out" / name
        out.parent.mkdir(exist_ok=True)
        try:
            molrec_convert.convert(folder, record, report=report)
            molrec_convert.convert(record, out, to_format="lammps-run", potential_files=str(folder), report=report)
            written[name], reports[name] = out, report
        except MolrecError as error:
            refused[name] = str(error)
    lammps_style_cases.jobs(tmp_path, written)
    second = lammps(tmp_path, lammps_style_cases.RUN_ALL)
    wrong = {name: why for name in written if (why := differs(name, first[name], second[name]))}
    told = {name for name in wrong if any(item.name.startswith("fix ") for item in reports[name].of(Fate.DROPPED))}
    print(f"{len(written) - len(wrong)} equal, {len(refused)} refused, {len(told)} without a fix the report names")
    print(*(f"{name}: {why}" for name, why in refused.items()), sep="\n")
    assert {name: why for name, why in wrong.items() if name not in told} == {}
    assert len(refused) + len(told) < 30
