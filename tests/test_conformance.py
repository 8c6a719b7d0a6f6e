"""The formats of this package pass the tests that it ships for plugins."""

from __future__ import annotations

from pathlib import Path

import ase
import ase.io
import pytest

from molrec_convert.testing import FormatTests

FIXTURES = Path(__file__).parents[1] / "fixtures"
WATER = FIXTURES / "water-run"
FILES = FIXTURES / "corpus" / "files"


class TestExtendedXyz(FormatTests):
    format = "extxyz"
    sample = FIXTURES / "cases/45-extxyz-several-energies/keys.extxyz"


class TestXyz(FormatTests):
    format = "xyz"
    sample = FIXTURES / "cases/52-xyz-line-endings-and-blanks/blank_between.xyz"


class TestXyzOfManyKinds(FormatTests):
    """Frames that differ in their atoms are a collection."""

    format = "extxyz"
    sample = FIXTURES / "cases/44-extxyz-pbc-defaults/defaults.extxyz"


class TestLammpsDump(FormatTests):
    format = "lammps-dump"
    sample = FIXTURES / "cases/01-dump-rows-shuffled/shuffled.lammpstrj"


class TestLammpsData(FormatTests):
    format = "lammps-data"
    sample = FIXTURES / "cases/30-data-image-flags-and-comments/comments.data"


class TestLammpsRun(FormatTests):
    format = "lammps-run"
    sample = WATER
    suffix = ""


class TestLammpsRunOfFiles(FormatTests):
    format = "lammps-run"
    sample = (WATER / "water.data", WATER / "in.water")
    suffix = ""


class TestPdb(FormatTests):
    format = "pdb"
    sample = FIXTURES / "cases/70-pdb-formal-charge/charges.pdb"


class TestAseDatabase(FormatTests):
    format = "ase-db"
    sample = FIXTURES / "cases/87-asedb-row/t.db"
    libraries = ("ase",)
    compressible = False


class TestAseTrajectory(FormatTests):
    format = "ase-traj"
    sample = FILES / "ase-traj/own_MoS2.traj"
    libraries = ("ase",)
    compressible = False
