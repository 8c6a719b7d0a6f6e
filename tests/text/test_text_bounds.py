"""Text files that claim more than they hold, or numbers nothing can hold: a sentence, in memory bounded by the file."""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import molrec_convert
from molrec_convert.errors import FormatError, MolrecError
from molrec_convert.text.contents import Contents

#: What a process may take: the program with its libraries, and some hundred megabytes.
_MEMORY = 2**31
_DUMP = (
    "ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{count}\nITEM: BOX BOUNDS {box}\n0 1\n0 1\n0 1\n"
    "ITEM: ATOMS id type x y z\n{row}\n"
)
_ATOMS = (
    "data_x\nloop_\n_atom_site.id\n_atom_site.type_symbol\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n"
)


def dump(*, step: object = 0, count: object = 1, box: str = "pp pp pp", row: str = "1 1 0 0 0") -> str:
    return _DUMP.format(step=step, count=count, box=box, row=row)


def data_file(counts: str, row: str = "1 1 0 0 0") -> str:
    return f"x\n\n{counts}0 1 xlo xhi\n0 1 ylo yhi\n0 1 zlo zhi\n\nAtoms # atomic\n\n{row}\n"


def extended(value: str) -> str:
    return f"1\nProperties=species:S:1:pos:R:3 {value}\nH 0 0 0\n"


def refused(path: Path) -> str:
    """What is said of a file that is not read."""
    with pytest.raises(FormatError) as error, molrec_convert.open(path) as source:
        for _ in source.trajectory.batches():
            pass
    assert path.name in str(error.value)
    return str(error.value)


def bounded(*arguments: object) -> tuple[int, str]:
    """Exit code and output of the command in a process with bounded memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

    done = subprocess.run(
        [sys.executable, "-m", "molrec_convert.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=limit,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    return done.returncode, done.stdout + done.stderr


LONG, LONGEST = "9" * 400, "9" * 5000


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("list.xyz", extended(f'virials="{LONG} 0.5 0"'), "line 2: found virials with an integer of 400 digits"),
        ("new.xyz", extended(f"a=[{LONG}, 0.5]"), "line 2: found a with an integer of 400 digits"),
        ("one.xyz", extended(f"a={LONGEST}"), "line 2: found a with an integer of 5000 digits"),
        ("cell.xyz", extended(f'Lattice="{LONG} 0.5 0"'), "line 2: found Lattice with an integer of 400 digits"),
        ("later.xyz", extended("a=1") + extended(f'a="{LONG} 0.5"'), "line 5: found a with an integer"),
        ("deep.xyz", extended("a=" + "[" * 400 + "1" + "]" * 400), "line 2: found a with lists in lists"),
        ("wide.xyz", "1\nProperties=species:S:1:a:R:1000000000:pos:R:3\nH 0 0 0\n", "line 2: found 'a:R:1000000000'"),
        (
            "whole.xyz",
            f"1\nProperties=species:S:1:pos:R:3:a:I:1\nH 0 0 0 {LONGEST}\n",
            "line 3: found '9999",
        ),
        ("step.lammpstrj", dump(step=LONGEST), "line 2: found '9999"),
        ("count.lammpstrj", dump(count=LONGEST), "line 4: found '9999"),
        ("box.lammpstrj", dump() + dump(step=1, box="pp p"), "line 15: found 'ITEM: BOX BOUNDS pp p'"),
        ("later.lammpstrj", dump() + dump(step=LONGEST), "line 12: found '9999"),
        ("id.cif", f"{_ATOMS}{'9' * 20} H 0 0 0\n", "row 1 of _atom_site: found '99999999999999999999'"),
        ("id2.cif", f"{_ATOMS}{LONGEST} H 0 0 0\n", "row 1 of _atom_site: found '9999"),
        ("loop.cif", f"{_ATOMS}_itom_site.a\n1 H 0 0 0 1\n", "line 8: found _itom_site.a in a loop of _atom_site"),
        ("types.data", data_file("1 atoms\n40000000 atom types\n"), "line 4: found 40000000 atom types"),
        ("bonds.data", data_file("1 atoms\n1 atom types\n9000000000 bond types\n"), "line 5: found 9000000000 bond"),
        ("digits.data", data_file(f"{LONGEST} atoms\n1 atom types\n"), "line 3: found '9999"),
    ],
)
def test_numbers_nothing_can_hold(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert said in refused(path)


@pytest.mark.parametrize("elements", [(), ("--guess-elements",)])
def test_a_type_of_a_large_number(tmp_path: Path, elements: tuple[str, ...]) -> None:
    path = tmp_path / "a.lammpstrj"
    path.write_text(dump(row="1 2147483647 0 0 0"))
    code, said = bounded("convert", path, tmp_path / "a.mrec", *elements)
    assert code == 0, said
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        assert record.system["atoms"]["type_id"].tolist() == [2147483647]
    code, said = bounded("convert", tmp_path / "a.mrec", tmp_path / "a.data")
    assert code == 1
    assert "the type 2147483647 makes LAMMPS set up 2147483647 types" in said


def test_elements_of_a_type_of_a_large_number(tmp_path: Path) -> None:
    path = tmp_path / "a.lammpstrj"
    path.write_text(dump(row="1 2147483647 0 0 0"))
    code, said = bounded("convert", path, tmp_path / "a.mrec", "--elements", "2147483647=H")
    assert code == 2
    assert "atom type 1 is not named" in said


@pytest.mark.parametrize(
    ("name", "head", "line"),
    [
        ("a.xyz.gz", b"100000000\n\n", b"H 0 0 0\n"),
        ("a.data.gz", b"x\n\n100000000 atoms\n1 atom types\n\nAtoms # atomic\n\n", b"1 1 0 0 0\n"),
        ("a.pdb.gz", b"", b"ATOM      1  CA  ALA A   1       0.000   0.000   0.000  1.00  0.00           C  \n"),
        ("a.cif.gz", _ATOMS.encode(), b"1 H 0 0 0\n"),
    ],
)
def test_text_far_longer_than_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, head: bytes, line: bytes
) -> None:
    monkeypatch.setattr("molrec_convert.text.contents._PLAUSIBLE_BYTES", 2**20)
    monkeypatch.setattr("molrec_convert.text.contents._LOOK_BYTES", 2**20)
    monkeypatch.setattr("molrec_convert.text.contents.MEMORY_BYTES", 2**18)
    path = tmp_path / name
    path.write_bytes(gzip.compress(head + line * (2**23 // len(line))))
    said = refused(path)
    assert "more than 100 times its" in said
    assert "decompress it yourself" in said


def test_text_there_is_no_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("molrec_convert.text.contents._ROOM_BYTES", 2**62)
    monkeypatch.setattr("molrec_convert.text.contents._LOOK_BYTES", 2**16)
    monkeypatch.setattr("molrec_convert.text.contents.MEMORY_BYTES", 2**16)
    path = tmp_path / "a.xyz.gz"
    path.write_bytes(gzip.compress(os.urandom(2**22)))
    with pytest.raises(MolrecError, match=r"what there is room for in .*name another folder by TMPDIR"):
        Contents(path)


@pytest.mark.parametrize("name", ["divides-by-zero.xtc", "beyond-memory.xtc"])
def test_a_file_that_ends_the_library_that_reads_it(tmp_path: Path, name: str) -> None:
    """The command says so and lives; each of the two files ends a process that decodes it with MDAnalysis."""
    folder = Path(__file__).parents[2] / "fixtures" / "damaged"
    target = tmp_path / "a.mrec"
    code, said = bounded("convert", folder / "twelve.gro", folder / name, target)
    assert code == 1
    assert f"{name}, frame " in said
    assert ": found " in said
    assert not target.exists()


_POINTERS = (
    "%VERSION  VERSION_STAMP = V0001.000  DATE = 01/01/01  00:00:00\n%FLAG TITLE\n%FORMAT(20a4)\nt\n"
    "%FLAG POINTERS\n%FORMAT(10I8)\n2 1 0 0 0 0 0 0 0 0\n0 {count} 0 0 0 0 0 0 0 0\n0 0 0 0 0 0 0 0 0 0\n0\n"
    "%FLAG ATOM_NAME\n%FORMAT(20a4)\nO   H\n%FLAG RESIDUE_LABEL\n%FORMAT(20a4)\nSOL\n"
)
COUNTED = {
    "a.parm7": (_POINTERS, 8),
    "b.parm7": (_POINTERS.replace("{count}", "1").replace("(20a4)\nO ", "({count}a4)\nO "), 12),
    "a.gro": ("t\n{count}\n    1SOL     OW    1   0.000   0.000   0.000\n   1.00000   1.00000   1.00000\n", 2),
    "a.inpcrd": ("t\n{count}\n   0.0000000   0.0000000   0.0000000\n", 2),
    "a.txyz": ("{count} t\n1 O 0.0 0.0 0.0 1\n", 1),
    "a.psf": ("PSF\n\n 1 !NTITLE\n REMARKS t\n\n {count} !NATOM\n 1 A 1 SOL O O 0.0 16.0 0\n", 6),
    "a.lammpsdump": (dump().replace("ATOMS\n1\n", "ATOMS\n{count}\n"), 4),
}


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_counts_mdanalysis_makes_arrays_of(tmp_path: Path, name: str, packed: bool) -> None:
    text, line = COUNTED[name]
    path = tmp_path / (f"{name}.gz" if packed else name)
    raw = text.format(count=99999999).encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.raises(FormatError) as error:
        molrec_convert.convert(path, tmp_path / "a.mrec", from_format="mdanalysis")
    said = f"{path}, line {line}: found a count of 99999999, expected no more than the file's {len(raw)} bytes can hold"
    assert said in str(error.value)


def test_a_count_the_compressed_file_has_fewer_bytes_than(tmp_path: Path) -> None:
    """What counts is the text: here 1000 atoms in some hundred bytes."""
    path = tmp_path / "a.xyz.gz"
    path.write_bytes(gzip.compress(b"1000\nt\n" + b"O 0.0 0.0 0.0\n" * 1000))
    assert path.stat().st_size < 1000
    molrec_convert.convert(path, tmp_path / "a.mrec", from_format="mdanalysis")
    with molrec_convert.open(tmp_path / "a.mrec") as record:
        assert record.trajectory[0].blocks["atoms"].count == 1000
