"""The formats of this package pass the tests that it ships for plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from molrec_convert.testing import FormatTests

FIXTURES = Path(__file__).parents[2] / "fixtures"
WATER = FIXTURES / "water-run"
FILES = FIXTURES / "corpus" / "files"


class TestExtendedXyz(FormatTests):
    format = "extxyz"
    sample = FIXTURES / "cases/45-extxyz-several-energies/keys.extxyz"


class TestXyz(FormatTests):
    format = "xyz"
    bad = (("2\n\nAr 0 0 0\nAr 0 no 0\n", "line 4"), ("two\n\nAr 0 0 0\n", "line 1"))
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
    bad = (("x\n\n1 atoms\n1 atom types\n\nAtoms # atomic\n\n1 1 0 zero 0\n", "line 8"),)
    sample = FIXTURES / "cases/30-data-image-flags-and-comments/comments.data"


class TestLammpsRun(FormatTests):
    format = "lammps-run"
    sample = WATER
    suffix = ""
    #: The last frame is written, to start from.
    not_written = ("frame [1-9]*", "*meta/*", "*time", "*atoms/[xyz]", "*atoms/[iv][xyz]")


class TestLammpsRunOfFiles(FormatTests):
    format = "lammps-run"
    sample = (WATER / "water.data", WATER / "in.water")
    suffix = ""


class TestPdb(FormatTests):
    format = "pdb"
    sample = FIXTURES / "cases/70-pdb-formal-charge/charges.pdb"
    bad = (("ATOM      1  O   HOH A   1       x.000   0.000   0.000  1.00  0.00           O\n", "line 1"),)


class TestAseDatabase(FormatTests):
    format = "ase-db"
    sample = FIXTURES / "cases/87-asedb-row/t.db"
    libraries = ("ase",)
    compression = ()


class TestAseTrajectory(FormatTests):
    format = "ase-traj"
    sample = FILES / "ase-traj/own_MoS2.traj"
    libraries = ("ase",)
    compression = ()


class _Written(FormatTests):
    """A sample that stands here."""

    text = ""

    @pytest.fixture
    def source(self, tmp_path: Path) -> list[Path]:
        (tmp_path / "source").mkdir()
        path = tmp_path / "source" / self.target(tmp_path, "a").name
        path.write_text(self.text)
        return [path]


class TestMmcif(_Written):
    format = "mmcif"
    text = """data_water
_cell.length_a 12.5
_cell.length_b 12.5
_cell.length_c 12.5
_cell.angle_alpha 90
_cell.angle_beta 90
_cell.angle_gamma 90
loop_
_atom_site.group_PDB
_atom_site.id
_atom_site.type_symbol
_atom_site.label_atom_id
_atom_site.label_alt_id
_atom_site.label_comp_id
_atom_site.label_asym_id
_atom_site.label_entity_id
_atom_site.label_seq_id
_atom_site.Cartn_x
_atom_site.Cartn_y
_atom_site.Cartn_z
_atom_site.occupancy
_atom_site.B_iso_or_equiv
_atom_site.auth_seq_id
_atom_site.auth_asym_id
_atom_site.pdbx_PDB_model_num
HETATM 1 O O . HOH A 1 . 0.0125 0.1 0.2 1.0 0.5 1 A 1
HETATM 2 H H1 . HOH A 1 . 0.9572 0.1 0.2 1.0 0.5 1 A 1
HETATM 3 H H2 . HOH A 1 . -0.24 0.927 0.2 1.0 0.5 1 A 1
"""


class TestGro(_Written):
    format = "mdanalysis"
    suffix = ".gro"
    compression = (".gz", ".bz2")
    libraries = ("MDAnalysis",)
    text = (
        "water, t= 2.0\n    3\n"
        "    1SOL     OW    1   0.126   1.624   1.679  0.1227 -0.0580  0.0434\n"
        "    1SOL    HW1    2   0.190   1.661   1.747  0.8085  0.3191 -0.7791\n"
        "    1SOL    HW2    3   0.177   1.568   1.613 -0.9045 -2.6469  1.3180\n"
        "   1.82060   1.82060   1.82060\n"
    )
