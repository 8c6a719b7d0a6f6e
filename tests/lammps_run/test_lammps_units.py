"""Records in other units and LAMMPS: written at once or stored between, files say the same and energies agree."""

from __future__ import annotations

import math
from pathlib import Path

import ase.io
import ase.units
import MDAnalysis
import numpy as np
import pytest
from lammps_runs import needs_lammps
from test_lammps_write_run import energies

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.errors import UnsupportedError
from molrec_convert.quantities.units import conversion_factor
from molrec_lammps.write.units import Conversion

KCAL = conversion_factor("kcal/mol", "eV")
assert KCAL is not None
FILES = ("system.data", "settings.lmp")


class TestStoredBetween:
    @needs_lammps
    @pytest.mark.parametrize("units", ["metal", "nano"])
    @pytest.mark.parametrize("name", ["cvff", "class2", "water-tilted-pppm", "dihedral-hybrid"])
    def test_energies(self, name: str, units: str, fixtures: Path, tmp_path: Path) -> None:
        """A store in other units, and one of it in the first ones again, hold what the script says."""
        script = fixtures / "corpus/energies" / name / "in.lmp"
        molrec_convert.convert(script, tmp_path / "own", to_format="lammps-run")
        molrec_convert.convert(script, tmp_path / "direct", to_format="lammps-run", target_units=units)
        molrec_convert.convert(script, tmp_path / "a.mrec", target_units=units)
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "stored", to_format="lammps-run")
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "b.mrec", target_units="real")
        molrec_convert.convert(tmp_path / "b.mrec", tmp_path / "back", to_format="lammps-run")
        factor = Conversion(units, {"preset": "real"}).factor("E", "energy")
        found = {way: energies(tmp_path / way)["pe"] for way in ("own", "direct", "stored", "back")}
        assert found["stored"] == pytest.approx(found["direct"], rel=1e-13)
        assert found["back"] == pytest.approx(found["own"], rel=1e-9)
        # LAMMPS' Coulomb constants of two styles agree to six digits
        assert found["stored"] == pytest.approx(found["own"] * factor, rel=1e-5)
        assert (tmp_path / "stored/system.data").read_bytes() == (tmp_path / "direct/system.data").read_bytes()

    def test_commands_and_masses(self, fixtures: Path, tmp_path: Path) -> None:
        """What a record keeps of LAMMPS' words is in the units that are written, whichever way they came."""
        script = fixtures / "corpus/energies/cvff/in.lmp"
        text = script.read_text().replace("pair_modify", "pair_modify tabinner 2.5\nneighbor 1.5 bin\npair_modify", 1)
        if "tabinner" not in text:
            text = text.replace("\nrun", "\npair_modify tabinner 2.5\nneighbor 1.5 bin\nrun", 1)
        for path in script.parent.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / "in.lmp").write_text(text)
        molrec_convert.convert(tmp_path / "in.lmp", tmp_path / "direct", to_format="lammps-run", target_units="nano")
        molrec_convert.convert(tmp_path / "in.lmp", tmp_path / "a.mrec", target_units="nano")
        with molrec_convert.read(tmp_path / "a.mrec") as record:
            assert record.forcefield is not None
            assert record.forcefield.document["lammps"]["units"]["preset"] == "real"
        molrec_convert.convert(tmp_path / "a.mrec", tmp_path / "stored", to_format="lammps-run")
        for name in ("in.lmp", "system.data"):
            assert (tmp_path / "stored" / name).read_bytes() == (tmp_path / "direct" / name).read_bytes()
        settings = [(tmp_path / way / "settings.lmp").read_text() for way in ("stored", "direct")]
        assert "pair_modify tabinner 0.25" in settings[0]
        assert "neighbor 0.15" in (tmp_path / "stored/in.lmp").read_text() + settings[0]
        for one, other in zip(settings[0].split(), settings[1].split(), strict=True):
            assert one == other or math.isclose(float(one), float(other), rel_tol=1e-14)
        masses = [line.split() for line in (tmp_path / "stored/system.data").read_text().splitlines()]
        start = masses.index(["Masses"]) + 2
        with molrec_convert.read(tmp_path / "in.lmp") as own:
            assert own.system is not None
            stated = own.system.meta["lammps"]["masses"][0]
        assert float(masses[start][1]) == pytest.approx(stated * 1.66053906892e-6, rel=1e-9)

    def test_sections_kept_as_text(self, tmp_path: Path) -> None:
        """Text cannot be converted: it says its units, and is written in those only."""
        path = tmp_path / "a.data"
        path.write_text(
            "title, units = real\n\n1 atoms\n1 atom types\n\n0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n\n"
            "Masses\n\n1 12\n\nAtoms # atomic\n\n1 1 1.0 2.0 3.0\n\nStrange\n\n1 2.5\n"
        )
        molrec_convert.convert(path, tmp_path / "m.mrec", target_units="nano")
        with molrec_convert.read(tmp_path / "m.mrec") as record:
            assert record.system is not None
            document = record.system.meta["lammps"]
        assert document["section_units"] == {"preset": "real"}
        assert document["title"] == "title, units = nano"
        assert document["masses"] == [pytest.approx(12 * 1.66053906892e-6)]
        for target in (None, "metal"):
            with pytest.raises(UnsupportedError, match=r"Strange: kept as text in units real"):
                molrec_convert.convert(tmp_path / "m.mrec", tmp_path / "b.data", target_units=target)
        with pytest.raises(UnsupportedError, match=r"Strange: kept as text in units real"):
            molrec_convert.convert(path, tmp_path / "b.data", target_units="metal")
        molrec_convert.convert(tmp_path / "m.mrec", tmp_path / "b.data", target_units="real")
        text = (tmp_path / "b.data").read_text()
        assert text.startswith("title, units = real\n")
        assert text.endswith("Strange\n\n1 2.5\n")

    def test_inputs_of_a_migration(self, tmp_path: Path) -> None:
        """Masses of a data file's types follow the units of the collection."""
        inputs = []
        for units, mass in (("real", 12.0), ("nano", 12.0 * 1.66053906892e-6)):
            inputs.append(tmp_path / f"{units}.data")
            inputs[-1].write_text(
                f"title, units = {units}\n\n1 atoms\n1 atom types\n\n0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n\n"
                f"Masses\n\n1 {mass!r}\n\nAtoms # atomic\n\n1 1 1.0 2.0 3.0\n"
            )
        target = str(tmp_path / "c.mrec.lmdb")
        assert run(["migrate", *map(str, inputs), "-o", target, "--workers", "1", "--units", "real"]) == 0
        with molrec_convert.open(tmp_path / "c.mrec.lmdb") as collection:
            systems = [collection[number].system for number in range(len(collection))]
        for system in systems:
            assert system.meta["lammps"]["masses"] == [pytest.approx(12.0)]
            assert system.meta["lammps"]["title"] in ("title", "title, units = real")
            assert system["atoms"]["mass"].tolist() == [pytest.approx(12.0)]

    def test_a_style_nothing_is_known_of(self, fixtures: Path, tmp_path: Path) -> None:
        script = fixtures / "corpus/energies/cvff/in.lmp"
        with molrec_convert.read(script) as record:
            assert record.forcefield is not None
            entry = next(entry for entry in record.forcefield.document["styles"] if entry["category"] == "bond")
            table = record.forcefield.tables.pop(f"bond.{entry['style']}")
            entry["style"] = "strange"
            record.forcefield.tables["bond.strange"] = table
            with pytest.raises(UnsupportedError, match=r"dimension of .* of bond\.strange is not known"):
                molrec_convert.write(record, tmp_path / "a.mrec", target_units="metal")


def test_a_force_field_in_other_units_than_the_record(fixtures: Path, tmp_path: Path) -> None:
    """The file is in the units of the atoms; the force field is converted from those it states."""
    with molrec_convert.read(fixtures / "corpus/energies/cvff/in.lmp") as record:
        molrec_convert.write(record, tmp_path / "direct", format="lammps-run", target_units="metal")
        assert record.forcefield is not None
        own = record.forcefield
        molrec_convert.write(record, tmp_path / "a.mrec", target_units="metal")
        with molrec_convert.read(tmp_path / "a.mrec") as metal:
            metal.forcefield = own
            molrec_convert.write(metal, tmp_path / "mixed", format="lammps-run")
            with pytest.raises(UnsupportedError, match="force field is in units real, the record in units metal"):
                molrec_convert.write(metal, tmp_path / "none", format="lammps-run", target_units="none")
    for name in FILES:
        assert (tmp_path / "mixed" / name).read_bytes() == (tmp_path / "direct" / name).read_bytes()


class TestReadByOthers:
    """The water run is in units real; its files in units metal mean the same to other programs."""

    def test_a_dump(self, fixtures: Path, tmp_path: Path) -> None:
        run = fixtures / "water-run"
        molrec_convert.convert(run, tmp_path / "m.lammpstrj", target_units="nano")
        with molrec_convert.read(run) as record:
            assert record.trajectory is not None
            last = record.trajectory[-1]
        read = ase.io.read(tmp_path / "m.lammpstrj", format="lammps-dump-text", index=-1, units="nano")
        order = np.argsort(last["atoms"]["id"]) if "id" in last["atoms"] else slice(None)
        lengths = np.stack([last["atoms"][name] for name in "xyz"], axis=-1)[order]
        np.testing.assert_allclose(read.get_positions(), lengths, rtol=1e-6, atol=1e-6)
        speeds = np.stack([last["atoms"][f"v{name}"] for name in "xyz"], axis=-1)[order]
        np.testing.assert_allclose(read.get_velocities() * ase.units.fs, speeds, rtol=1e-6, atol=1e-12)
        universe = MDAnalysis.Universe(str(tmp_path / "m.lammpstrj"), format="LAMMPSDUMP", topology_format="LAMMPSDUMP")
        universe.trajectory[-1]
        # It takes the numbers as they stand, whatever the units
        np.testing.assert_allclose(universe.atoms.positions * 10.0, lengths, rtol=1e-5, atol=1e-5)

    def test_a_data_file(self, fixtures: Path, tmp_path: Path) -> None:
        run = fixtures / "water-run"
        molrec_convert.convert(run, tmp_path / "m.data", target_units="metal")
        molrec_convert.convert(run, tmp_path / "r.data")
        kinds = {"atom_style": "full"}
        metal = ase.io.read(tmp_path / "m.data", format="lammps-data", units="metal", **kinds)
        real = ase.io.read(tmp_path / "r.data", format="lammps-data", units="real", **kinds)
        np.testing.assert_allclose(metal.get_positions(), real.get_positions(), rtol=1e-12)
        np.testing.assert_allclose(metal.get_masses(), real.get_masses(), rtol=1e-7)
        np.testing.assert_allclose(metal.get_velocities(), real.get_velocities(), rtol=1e-6)
        assert real.get_velocities().any()

    def test_a_column_of_unknown_dimension(self, tmp_path: Path) -> None:
        (tmp_path / "a.dump").write_text(
            "ITEM: UNITS\nreal\nITEM: TIMESTEP\n0\nITEM: NUMBER OF ATOMS\n1\nITEM: BOX BOUNDS pp pp pp\n0 9\n0 9\n0 9\n"
            "ITEM: ATOMS id type x y z c_pe\n1 1 1 2 3 10\n"
        )
        with pytest.raises(UnsupportedError, match=r"atoms/c_pe is not known.*--dimension atoms/c_pe=energy"):
            molrec_convert.convert(tmp_path / "a.dump", tmp_path / "b.dump", target_units="metal")
        molrec_convert.convert(
            tmp_path / "a.dump", tmp_path / "b.dump", target_units="metal", dimensions={"c_pe": "energy"}
        )
        assert float((tmp_path / "b.dump").read_text().split()[-1]) == 10 * KCAL
