"""Options by input (--rules), what is left out by pattern (--only, --exclude), and a declaration that trims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import pytest
from migration_inputs import extxyz

import molrec_convert
from molrec_convert.cli import run
from molrec_convert.errors import UsageError
from molrec_convert.migration.inputs.adapting import Naming
from molrec_convert.migration.settings import RuleBook, Settings, check_rules, glob_pattern, read_rules

_RULES = """
[[input]]
match = "ref/*.xyz"
energy-key = "REF_energy"
forces_key = "REF_forces"

[[input]]
match = ["real/**/*.xyz", "other.xyz"]
units = "real"
drop = ["note*"]
rename = { total = "pe" }
"""


def mrec(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run([*map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Files of three kinds, which name and measure the same things in different ways."""
    root = tmp_path / "in"
    frame = '1\nProperties=species:S:1:pos:R:3:{forces}:R:3 Lattice="9 0 0 0 9 0 0 0 9" {keys}\nH 0.5 0 0 1.0 2.0 4.0\n'
    for path, forces, keys in (
        ("plain/a.xyz", "forces", "energy=-1.5"),
        ("plain/b.xyz", "forces", "energy=-2.5"),
        ("ref/a.xyz", "REF_forces", "REF_energy=-3.5"),
        ("real/deep/down/a.xyz", "forces", 'total=-100.0 note1="x y" note2=7'),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(frame.format(forces=forces, keys=keys))
    (tmp_path / "rules.toml").write_text(_RULES)
    return root


@pytest.mark.parametrize("workers", [1, 2])
def test_each_input_by_its_rules(
    workers: int, inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "o.mrec.lmdb"
    arguments = ["migrate", inputs, "-o", target, "--units", "metal", "--rules", tmp_path / "rules.toml"]
    code, out, err = mrec(capsys, *arguments, "--dry-run")
    assert code == 0, out
    assert "per step: pe f64" in out
    assert "note: --rules: other.xyz, of rule 2, matches no input" in out
    code, _, err = mrec(capsys, *arguments, "--workers", workers)
    assert code == 0, err
    assert "warning: --rules: other.xyz, of rule 2, matches no input" in err
    with molrec_convert.open(target) as collection:
        assert list(collection.declaration.meta) == ["pe"]
        assert list(collection.declaration.blocks["atoms"].columns) == ["x", "y", "z", "fx", "fy", "fz"]
        frames = {record["source"]: collection[n].trajectory[0] for n, record in enumerate(_rows(collection))}
    by_path = {Path(path).relative_to(inputs).as_posix(): frame.meta["pe"] for path, frame in frames.items()}
    assert by_path["plain/a.xyz"] == -1.5
    assert by_path["ref/a.xyz"] == -3.5
    # kcal/mol to eV, as ASE has it
    assert by_path["real/deep/down/a.xyz"] == pytest.approx(-100.0 * 0.0433641, rel=1e-5)
    for path, frame in frames.items():
        factor = 0.0433641 if "real" in path else 1.0
        np.testing.assert_allclose(
            [frame["atoms"][c][0] for c in ("fx", "fy", "fz")], np.array([1, 2, 4]) * factor, 1e-5
        )
    # verify knows them, and so does who adds
    assert mrec(capsys, "verify", target, "--against", inputs)[0] == 0
    again = ["migrate", inputs, "-o", target, "--workers", 1]
    assert "nothing to do" in mrec(capsys, *again)[2]
    (inputs / "ref" / "b.xyz").write_text((inputs / "ref" / "a.xyz").read_text().replace("-3.5", "-4.5"))
    assert mrec(capsys, *again)[0] == 0
    assert mrec(capsys, "verify", target, "--against", inputs)[0] == 0
    with molrec_convert.open(target) as collection:
        energies = {float(record.trajectory[0].meta["pe"]) for record in collection}
        assert energies > {-4.5, -3.5, -2.5, -1.5}
    # another program reads the same numbers
    assert mrec(capsys, "convert", target, tmp_path / "o.extxyz")[0] == 0
    read = ase.io.read(tmp_path / "o.extxyz", ":")
    assert {atoms.get_potential_energy() for atoms in read} == energies
    # other rules for what is there are refused, for what is to come they are not
    (tmp_path / "rules.toml").write_text(_RULES.replace("note*", "note1"))
    code, _, err = mrec(capsys, *again, "--rules", tmp_path / "rules.toml")
    assert code == 2
    assert "other rules than" in err
    assert "down/a.xyz" in err


def _rows(collection: Any) -> list[dict[str, Any]]:
    index = collection.index
    return [{"source": str(index["source"][number])} for number in range(len(collection))]


def test_a_killed_migration_goes_on_with_the_same_rules_only(inputs: Path, tmp_path: Path) -> None:
    rules = read_rules(tmp_path / "rules.toml")
    assert Settings(rules=rules).facts() != Settings().facts()
    assert Settings.stated(json.loads(json.dumps(Settings(rules=rules).document()))).rules == rules


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[[input]]\nmatch = "*.xyz"\nenergy_kye = "E"',
            "rule 1: there is no option energy_kye, did you mean energy_key?",
        ),
        ('[[input]]\nenergy_key = "E"', "rule 1: match is to be a pattern"),
        ('[[input]]\nmatch = "*.xyz"\nenergy_key = 3', "energy_key is to be of the kind str"),
        ('[[input]]\nmatch = "*.xyz"\nspecies = "nope"', "species is one of"),
        ('[[input]]\nmatch = "*.xyz"\nunits = "nope"', "rules.toml, rule 1: "),
        ('[[input]]\nmatch = "*.xyz"\ndrop = "a"', "drop is to be a list of names"),
        ('[[inputs]]\nmatch = "*.xyz"', "expected rules, each under [[input]]"),
        ("[[input", "no TOML"),
    ],
)
def test_rules_that_cannot_be(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_rules(tmp_path / "rules.toml")
    assert told in str(caught.value)


def test_patterns_of_paths() -> None:
    for pattern, path, fits in (
        ("*.xyz", "/a/b/c.xyz", True),
        ("c.xyz", "/a/b/c.xyz", True),
        ("b/*.xyz", "/a/b/c.xyz", True),
        ("a/*.xyz", "/a/b/c.xyz", False),
        ("a/**/*.xyz", "/a/b/c.xyz", True),
        ("a/**/*.xyz", "/a/c.xyz", True),
        ("a/**/*.xyz", "/a/b/d/c.xyz", True),
        ("/a/*/c.xyz", "/a/b/c.xyz", True),
        ("/b/c.xyz", "/a/b/c.xyz", False),
        ("?.xyz", "/a/bc.xyz", False),
        ("run[1].xyz", "/a/run[1].xyz", True),
    ):
        assert (glob_pattern(pattern).fullmatch(path) is not None) is fits, (pattern, path)
    rules = check_rules([{"match": "*.xyz", "energy_key": "a"}, {"match": ["b/*"], "energy_key": "b"}], "here")
    book = RuleBook(Settings(options={"energy_key": "c"}, rules=rules))
    energies = [book.of(path).options["energy_key"] for path in ("/b/1.xyz", "/c/1.xyz", "/c/1.db")]
    assert energies == ["b", "a", "c"]
    assert book.of("/b/1.xyz") is book.of("/b/2.xyz")


def test_only_and_exclude(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = {f"desc_{n}": n for n in range(300)} | {"gap": 0.5, "label": '"a b"'}
    (tmp_path / "a.extxyz").write_text(extxyz(1, **keys))
    (tmp_path / "b.extxyz").write_text(extxyz(2, **{**keys, "desc_7": '"a b"'}))
    files = ["migrate", tmp_path / "a.extxyz", tmp_path / "b.extxyz", "--units", "metal", "--workers", 1]

    def kept(name: str, *arguments: str) -> tuple[list[str], list[str], str]:
        target = tmp_path / f"{name}.mrec.lmdb"
        code, _, err = mrec(capsys, *files, "-o", target, *arguments)
        assert code == 0, err
        assert run(["verify", str(target), "--against", str(tmp_path / "a.extxyz"), str(tmp_path / "b.extxyz")]) == 0
        capsys.readouterr()
        with molrec_convert.open(target) as collection:
            assert len(collection) == 2
            declared = collection.declaration
            return list(declared.meta), list(declared.blocks["atoms"].columns), err

    code, _, err = mrec(capsys, *files, "-o", tmp_path / "x.mrec.lmdb")
    assert code == 2
    assert "desc_7: " in err
    meta, columns, err = kept("exclude", "--exclude", "desc_*,atoms/f?")
    assert meta == ["pe", "gap", "label"]
    assert columns == ["x", "y", "z"]
    assert "dropped: " in err
    assert "303 left out by" in err
    meta, columns, _ = kept("only", "--only", "pe,g?p", "--only", "fx,fy,fz")
    assert (meta, columns) == (["pe", "gap"], ["x", "y", "z", "fx", "fy", "fz"])
    meta, columns, _ = kept("both", "--only", "desc_1*,pe", "--exclude", "desc_1?*")
    assert (meta, columns) == (["pe", "desc_1"], ["x", "y", "z"])
    code, _, err = mrec(capsys, *files, "-o", tmp_path / "y.mrec.lmdb", "--exclude", "desc_*,nothing*")
    assert "--drop nothing* fits no key, column or block" in err


def test_a_declaration_trims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "like.extxyz").write_text(extxyz(1))
    like, target = tmp_path / "like.mrec.lmdb", tmp_path / "o.mrec.lmdb"
    assert mrec(capsys, "migrate", tmp_path / "like.extxyz", "-o", like, "--units", "metal", "--workers", 1)[0] == 0
    keys = {f"key{n}": n for n in range(50)}
    text = extxyz(2, atoms=2, **keys).splitlines()
    text[1] = text[1].replace("forces:R:3", "forces:R:3:spread:R:1")
    (tmp_path / "a.extxyz").write_text("\n".join([*text[:2], *(f"{row} 0.5" for row in text[2:])]) + "\n")
    arguments = ["migrate", tmp_path / "a.extxyz", "-o", target, "--declaration", like, "--workers", 1]
    code, _, err = mrec(capsys, *arguments)
    assert code == 0, err
    assert "51 left out by --drop, --exclude, --only or --declaration" in err
    with molrec_convert.open(target) as collection, molrec_convert.open(like) as model:
        assert collection.declaration == model.declaration
    assert mrec(capsys, "verify", target, "--against", tmp_path / "a.extxyz")[0] == 0


def test_names_with_signs_are_themselves() -> None:
    naming = Naming({}, ("c_pe[1]", "v_*"), {})
    assert naming.column("atoms", "c_pe[1]") is None
    assert naming.column("atoms", "c_pe1") == "c_pe1"
    assert naming.key("v_all") is None
    assert naming.key("va") == "va"
