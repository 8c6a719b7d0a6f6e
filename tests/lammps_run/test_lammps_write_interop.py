"""Force fields of LAMMPS scripts, stored with definitions 2, as the independent implementation reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from independent import run_independent

import molrec_convert

pytestmark = [pytest.mark.interop, pytest.mark.slow]

READ = """
found = {}
for name, path in json.loads(Path(sys.argv[1]).read_text()).items():
    there = mrec.MrecFile(Path(path)).forcefield()
    there.validate()
    tables = {}
    for table, block in there.tables.items():
        columns = {}
        for key in block.keys():
            values, mask = block[key], block.validity(key)
            valid = [True] * len(values) if mask is None else [bool(flag) for flag in mask]
            columns[key] = [value if there_is else None for value, there_is in zip(values.tolist(), valid)]
        tables[table] = columns
    forcefield = there.to_forcefield()
    kinds = {}
    for category in ("bond", "angle", "dihedral", "improper", "pair"):
        for kind in forcefield.get_types(category):
            kinds[f"{category} {kind.name}"] = {key: value for key, value in kind.items() if isinstance(value, float)}
    found[name] = {"units": forcefield.units, "tables": tables, "kinds": kinds}
print(json.dumps(found))
"""


@pytest.mark.slow
def test_numbers_of_the_reference_systems(corpus: Path, tmp_path: Path) -> None:
    """Every table and every number arrives; what LAMMPS is told for the record is what the other program holds."""
    paths: dict[str, str] = {}
    for folder in sorted((corpus / "energies").iterdir()):
        written = folder / "written_ii.data"
        sources = [folder / "in.lmp", *([written] if written.exists() else [])]
        paths[folder.name] = str(tmp_path / f"{folder.name}.mrec")
        molrec_convert.convert(sources, paths[folder.name], molrec_version=2)
    (tmp_path / "paths.json").write_text(json.dumps(paths))
    found = json.loads(run_independent(READ, tmp_path / "paths.json"))
    assert set(found) == set(paths)
    numbers = 0
    for name, path in paths.items():
        with molrec_convert.read(path) as record:
            forcefield = record.forcefield
            assert forcefield is not None
            assert forcefield.definitions == 2
            assert set(found[name]["tables"]) == set(forcefield.tables), name
            for table, block in forcefield.tables.items():
                for key, column in block.columns.items():
                    own: list[Any] = column.values.tolist()
                    if column.validity is not None:
                        own = [v if there else None for v, there in zip(own, column.validity.tolist(), strict=True)]
                    assert found[name]["tables"][table][key] == own, (name, table, key)
                    numbers += sum(isinstance(value, float) for value in own)
    assert numbers > 2000
    bonds = found["bond-harmonic"]["kinds"]
    assert {"k": 250.0, "r0": 1.5} in bonds.values()  # as `bond_coeff 1 250.0 1.5` of the script
