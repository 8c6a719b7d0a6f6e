"""LAMMPS data files as records: the reference cases and files, and what becomes of each part of a file."""

import math
import re

import corpus_index
import numpy as np
import pytest

import molrec_convert
from molrec_convert.errors import FormatError, UsageError
from molrec_convert.formats import ReadContext
from molrec_convert.model.dtypes import same_bits
from molrec_convert.report import Fate, Report
from molrec_lammps.data import sections as data_sections
from molrec_lammps.data.file import parse_data
from molrec_lammps.data.potential import potential_of_data
from molrec_lammps.data.record import data_frame, data_system, read_data
from molrec_lammps.options import DataOptions
from molrec_lammps.potential.record import potential_of


def read(path, **options):
    context = ReadContext(options=DataOptions(**options))
    record = read_data([path], context)
    record.system.check("system")
    record.frame.check("frame")
    return record, context.report


@pytest.fixture
def read_text(tmp_path):
    def reader(text, **options):
        path = tmp_path / "text.data"
        path.write_text(text)
        return read(path, **options)

    return reader


@pytest.fixture
def case(fixtures):
    def reader(name, file, **options):
        return read(next((fixtures / "cases").glob(f"{name}-*")) / file, **options)

    return reader


def xyz(block):
    return np.stack([block[name] for name in "xyz"], axis=1)


def document(record):
    return record.system.meta["lammps"]


def dropped(report):
    return {item.name: item.detail for item in report.of(Fate.DROPPED)}


# --- the reference cases ---------------------------------------------------------------------------------------------


def test_case_21_sections_are_joined_by_id(case):
    record, report = case("21", "shuffled.data")
    atoms, frame = record.system["atoms"], record.frame["atoms"]
    assert atoms["id"].tolist() == [1, 2, 3, 4, 5]
    assert atoms["type_id"].tolist() == [1, 2, 3, 3, 4]
    assert atoms["type"].tolist() == ["1", "2", "3", "3", "4"]
    assert atoms["mass"].tolist() == [12.011, 15.9994, 1.008, 1.008, 6.94]
    assert atoms["charge"].tolist() == [-0.1, -0.8, -0.2, 0.2, 0.9]
    assert xyz(frame).tolist() == [[k, k, k] for k in range(1, 6)]
    assert frame["vx"].tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert not frame["vy"].any()
    assert not frame["vz"].any()
    assert document(record)["mass_comments"] == ["C", "O", "H", "Li"]
    assert not report.lossy


def coefficients(record):
    """Category, types and sub-style → the words that LAMMPS has to be told, numbers as numbers."""
    found = {}
    for row in potential_of(record.forcefield).final():
        words = [float(word) if re.fullmatch(r"[-+.\d]+(e[-+]?\d+)?", word) else word for word in row.words]
        found[(row.category, row.types, row.style)] = words
    return found


def test_case_23_explicit_pairs_are_kept(case):
    record, report = case("23", "pairij.data")
    assert not report.lossy
    assert document(record)["type_counts"] == {"atom": 3}
    assert record.system["atoms"]["type_id"].tolist() == [1, 3]
    found = coefficients(record)
    assert [types for _, types, _ in found] == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)]
    assert found["pair", (1, 3), ""] == [0.1111, 3.7]
    assert found["pair", (2, 3), ""] == [0.3, 3.8]
    assert [style.name for style in potential_of(record.forcefield).styles["pair"]] == ["lj/cut"]


def test_case_25_rows_of_a_hybrid_keep_their_style(case):
    record, report = case("25", "hybrid.data")
    assert not report.lossy
    assert coefficients(record) == {
        ("bond", (1,), "harmonic"): [268.0, 1.529],
        ("bond", (2,), "morse"): [90.0, 1.8, 1.09],
        ("angle", (1,), "harmonic"): [58.35, 112.7],
        ("angle", (2,), "charmm"): [33.43, 110.1, 22.53, 2.179],
        ("dihedral", (1,), "opls"): [1.3, -0.05, 0.2, 0.0],
        ("dihedral", (2,), "charmm"): [0.16, 3, 0, 0.5],
        ("pair", (1, 1), "lj/cut"): [0.066, 3.5],
        ("pair", (2, 2), "lj/cut/coul/long"): [0.03, 2.5],
    }
    assert record.system["bonds"]["style"].tolist() == ["harmonic", "morse"]
    assert record.system["bonds"]["type"].tolist() == ["1", "2"]
    assert record.system["angles"]["style"].tolist() == ["charmm"]
    hybrid = potential_of(record.forcefield).hybrid
    assert hybrid == dict.fromkeys(("bond", "angle", "dihedral", "pair"), "hybrid")


def test_case_27_the_half_of_a_harmonic_term_is_in_its_constant(case):
    record, report = case("27", "harmonic.data")
    assert record.units is None
    assert any("units" in warning for warning in report.warnings)
    bond, angle = record.forcefield.tables["bond.harmonic"], record.forcefield.tables["angle.harmonic"]
    assert (bond["k"].tolist(), bond["r0"].tolist()) == ([900.0], [0.9572])
    assert angle["k"].tolist() == [110.0]
    assert angle["theta0"].tolist() == [math.radians(104.52)]
    assert coefficients(record) == {("bond", (1,), ""): [450.0, 0.9572], ("angle", (1,), ""): [55.0, 104.52]}
    assert record.system["angles"]["atomj"].tolist() == [0]
    assert [record.system["bonds"][end].tolist() for end in ("atomi", "atomj")] == [[0, 0], [1, 2]]


def test_case_30_comments_are_no_header_and_no_images(case):
    record, report = case("30", "comments.data")
    atoms, frame = record.system["atoms"], record.frame["atoms"]
    assert atoms["id"].tolist() == [1, 2, 3]
    assert atoms["mol_id"].tolist() == [1, 1, 2]
    assert atoms["charge"].tolist() == [-0.5, 0.25, 0.25]
    assert atoms["type_id"].tolist() == [1, 1, 1]
    assert xyz(frame).tolist() == [[1, 2, 3], [9.5, 2, 3], [4, 5, 6]]
    assert [frame[name].tolist() for name in ("ix", "iy", "iz")] == [[0, -1, 0], [0, 0, 1], [0, 2, 0]]
    assert frame["ix"].dtype == np.int32
    assert [frame[name].tolist() for name in ("vx", "vy", "vz")] == [[0.1, 0.2, 0.3], [0, 0, 0], [0, 0, 0]]
    assert document(record)["title"] == "LAMMPS data file  xlo xhi 99 atoms in the title must be ignored"
    assert document(record)["type_counts"] == {"atom": 1}
    assert document(record)["mass_comments"] == ["N N_2 (C_3 H_ H_)"]
    assert document(record)["comments"][:2] == ["a full-line comment with the word Atoms in it", "7 atoms"]
    assert atoms["comment"].tolist() == ["1 2 3", "C CYT", None]
    assert atoms.validity("comment").tolist() == [True, True, False]
    assert frame["velocity_comment"].tolist() == [None, None, "tail"]
    assert not report.lossy


def test_case_31_a_style_is_never_guessed(case):
    hinted, _ = case("31", "hinted.data")
    given, _ = case("31", "nohint.data", atom_style="bond")
    for record in (hinted, given):
        assert record.system["atoms"]["mol_id"].tolist() == [1, 1, 2]
        assert record.system["atoms"]["type_id"].tolist() == [2, 1, 2]
        assert xyz(record.frame["atoms"]).tolist() == [[1.5, 2.5, 3.5], [4.5, 5.5, 6.5], [7.5, 8.5, 0.5]]
    with pytest.raises(UsageError, match=r"line 17: .* each of charge, bond, angle, molecular fits .*--atom-style"):
        case("31", "nohint.data")
    charged, _ = case("31", "nohint.data", atom_style="charge")
    assert charged.system["atoms"]["type_id"].tolist() == [1, 1, 2]
    assert charged.system["atoms"]["charge"].tolist() == [2, 1, 2]


def test_case_33_counts_of_types_survive(case):
    record, _ = case("33", "nocoeffs.data")
    counts = {"atom": 5, "bond": 6, "angle": 4, "dihedral": 3, "improper": 2}
    assert document(record)["type_counts"] == counts
    assert document(record)["masses"] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert record.system["bonds"]["type_id"].tolist() == [2, 5]
    assert record.system["angles"]["type"].tolist() == ["4", "1"]
    assert "dihedrals" not in record.system


def test_case_36_masses_are_no_elements(case):
    record, report = case("36", "masses.data")
    assert "element" not in record.system["atoms"]
    assert document(record)["masses"] == [1.008, 3.024, 15.035, 72.0, 1.0, 58.8]
    assert document(record)["mass_comments"][:3] == ["HC", "HMR-hydrogen", "CH3 united atom"]
    record, report = case("36", "masses.data", guess_elements=True)
    atoms = record.system["atoms"]
    assert atoms["element"].tolist() == ["H", None, None, None, None, None]
    assert atoms.validity("element").tolist() == [True, False, False, False, False, False]
    assert "atoms/element" in [item.name for item in report.of(Fate.DERIVED)]
    assert any("58.8" in warning for warning in report.warnings)
    record, _ = case("36", "masses.data", elements="H,H,X,X,X,Ni")
    assert record.system["atoms"]["element"].tolist() == ["H", "H", None, None, None, "Ni"]
    record, report = case("36", "masses.data", elements=("H", "H", "X", "X", "X", "Ni"))
    assert record.system["atoms"]["element"].tolist() == ["H", "H", None, None, None, "Ni"]
    with pytest.raises(UsageError, match="2 symbols for 6 atom types"):
        case("36", "masses.data", elements=("H", "C"))


# --- the reference files ---------------------------------------------------------------------------------------------

#: Files that do not name their style and that no plain style fits; the last has a row more than it counts.
UNNAMED = {"own_electron_unnamed.data", "own_hybrid.data", "own_spin_unnamed.data"}
INDEX = corpus_index.rows("lammps-data")


def numbers(text):
    return np.array([float(word) for word in text.split()])


def test_every_reference_file_is_read_or_asks_for_its_style(corpus):
    asked = {}
    for row in INDEX:
        path = corpus / row["path"]
        try:
            potential_of_data(parse_data(path))
        except (FormatError, UsageError) as error:
            asked[path.name] = str(error)
    assert set(asked) == UNNAMED
    for name, text in asked.items():
        assert name in text
        assert re.search(r"atom.style", text)


@pytest.mark.parametrize("row", INDEX, ids=lambda row: row["path"])
def test_a_reference_file_gives_the_values_of_the_index(corpus, row):
    path = corpus / row["path"]
    style = re.search(r"style: (.*)", row["other"])[1]
    record, report = read(path, atom_style=None if style == "None" else style)
    assert_index_values(path, row, record, report)


def assert_index_values(path, row, record, report):
    atoms, frame, box = record.system["atoms"], record.frame["atoms"], record.frame.box
    assert atoms.count == int(row["n_atoms_first"]), path.name
    for name in ("bonds", "angles", "dihedrals", "impropers"):
        found_rows = record.system[name].count if name in record.system else 0
        if "style: template" in row["other"]:  # the index counts those of the molecule files
            assert found_rows == 0
        else:
            assert found_rows == int(row[name]), (path.name, name)
    if path.name == "own_general.data":  # the index has LAMMPS' rotated cell, the record the stated one
        assert box.vectors.T.tolist() == [[1, -1, 0], [1, 1, 0], [1, 1, 1]]
        assert xyz(frame).tolist() == [[0.2, 0, 0.1], [0.8, 0, 0.3]]
    else:
        vectors = numbers(row["cell_vectors"]).reshape(3, 3).T
        assert np.allclose(box.vectors, vectors, rtol=1e-5, atol=1e-4), path.name
        assert np.allclose(box.origin, numbers(row["box_origin"]), rtol=1e-5, atol=1e-5), path.name
        continuous = xyz(frame) if atoms.count else np.zeros((0, 3))
        if "ix" in frame:
            continuous = continuous + np.stack([frame[name] for name in ("ix", "iy", "iz")], axis=1) @ box.vectors.T
        for key, place in (("first_atom_xyz", 0), ("last_atom_xyz", -1)):
            if row[key]:
                wanted = numbers(row[key])
                assert np.allclose(continuous[place], wanted, rtol=1e-8, atol=1e-6), (path.name, key)
    data = parse_data(path, atom_style=document(record)["atom_style"]) if row["coeff_rows"] else None
    coefficients = {name: int(count) for name, count in re.findall(r"([A-Z][\w ]*)=(\d+)", row["coeff_rows"])}
    assert_coefficients(record, data, coefficients, path.name)
    sections = {name: int(count) for name, count in re.findall(r"([A-Z][\w ]*)=(\d+)", row["other"])}
    text = record.system["lammps_sections"]["section"].tolist() if "lammps_sections" in record.system else []
    there = {
        "Atoms": lambda: atoms.count + len(dropped(report)),
        "Velocities": lambda: frame["vx"].size,
        "Masses": lambda: len(document(record)["masses"]),
        "CMAP": lambda: record.system["cmaps"].count,
        "BiTorsions": lambda: record.system["bitorsions"].count,
        "PiTorsions": lambda: record.system["pitorsions"].count,
        "Ellipsoids": lambda: int(record.frame["atoms"].validity("quatw").sum()),
        "Bodies": lambda: lines_of_bodies(path),
    }
    for name, count in sections.items():
        if name not in ("Bonds", "Angles", "Dihedrals", "Impropers"):
            assert there.get(name, lambda name=name: text.count(name))() == count, (path.name, name)


def lines_of_bodies(path):
    """The index counts lines; the bodies must have each value of theirs."""
    lines = path.read_text().split("Bodies\n\n")[1].rstrip("\n").split("\n")
    record, _ = read(path)
    assert record.frame["body_integers"].count + record.frame["body_numbers"].count == len(" ".join(lines).split()) - (
        3 * record.frame["bodies"].count
    )
    return len(lines)


def assert_coefficients(record, data, counts, name):
    """So many rows by section in the file, and as many in what the force field tells LAMMPS."""
    if data is None:
        assert record.forcefield is None
        return
    found = {section.name: section.rows for section in (*data.coefficients, *data.others)}
    for section, count in counts.items():
        if section.endswith("Type Labels"):
            assert len(document(record)["type_labels"][section.split()[0].lower()]) == count, name
        else:
            assert found[section] == count, (name, section)
    theirs, ours = potential_of_data(data), potential_of(record.forcefield)
    there, back = set(map(told, theirs.final())), set(map(told, ours.final()))
    assert there <= back, name
    assert not any(row[-1] for row in back - there), name  # pairs of a style without coefficients are all told
    assert ours.hybrid == theirs.hybrid


def told(row):
    """A row of coefficients with its numbers as numbers."""
    words = tuple(str(float(word)) if re.fullmatch(r"[-+.\d]+(e[-+]?\d+)?", word, re.I) else word for word in row.words)
    return row.category, row.types, row.style, row.index, row.part, words


def test_numbers_of_reference_files_are_those_of_their_text(corpus):
    """The first and last rows the index quotes, number by number, against the record."""
    compared = 0
    for row in INDEX:
        path = corpus / row["path"]
        style = re.search(r"style: (.*)", row["other"])[1]
        if (
            style not in ("atomic", "charge", "bond", "angle", "molecular", "full")
            or not row["first_row"]
            or "Labels" in row["coeff_rows"]
        ):
            continue
        record, _ = read(path, atom_style=style)
        names = {"charge": ["type_id", "charge"], "full": ["mol_id", "type_id", "charge"], "atomic": ["type_id"]}
        columns = [*names.get(style, ["mol_id", "type_id"]), "x", "y", "z", "ix", "iy", "iz"]
        atoms, frame = record.system["atoms"], record.frame["atoms"]
        for text in (row["first_row"], row["last_row"]):
            words = text.partition("#")[0].split()
            place = atoms["id"].tolist().index(int(words[0]))
            for name, word in zip(columns, words[1:], strict=False):
                value = (atoms if name in atoms else frame)[name][place]
                assert value == (float(word) if value.dtype == np.float64 else int(word)), (path.name, name)
                compared += 1
    assert compared >= 250


# --- what becomes of each part ---------------------------------------------------------------------------------------

SMALL = "title, units = metal\n\n2 atoms\n2 atom types\n{header}\n{body}\nAtoms # {style}\n\n{rows}\n"


def small(header="0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi", body="", style="atomic", rows="2 1 1 2 3\n1 2 4 5 6"):
    return SMALL.format(header=header, body=body, style=style, rows=rows)


def test_units_of_the_first_line_are_the_records(read_text):
    record, report = read_text(small())
    assert record.units == {"preset": "metal"}
    assert record.system.meta.tag("units") == "json"
    assert not any("units" in warning for warning in report.warnings)


def test_units_are_left_open_with_a_warning_or_given(read_text):
    text = small().replace(", units = metal", ", units metal")
    record, report = read_text(text)
    assert "units" not in record.system.meta
    assert any("--units" in warning for warning in report.warnings)
    record, report = read_text(text, units="real")
    assert record.units == {"preset": "real"}
    record, report = read_text(small(), units="real")
    assert record.units == {"preset": "real"}
    assert any("units = metal; --units real is taken" in warning for warning in report.warnings)
    with pytest.raises(UsageError, match="'kcal' is no units style"):
        read_text(text, units="kcal")
    record, report = read_text(small().replace("metal", "foo"))
    assert record.units is None
    assert any("units = foo" in warning for warning in report.warnings)


def test_a_box_that_is_not_stated_is_lammps_default(read_text):
    record, report = read_text(small(header="0 4 ylo yhi"))
    assert record.frame.box.vectors.tolist() == [[1, 0, 0], [0, 4, 0], [0, 0, 1]]
    assert record.frame.box.origin.tolist() == [-0.5, 0, -0.5]
    assert record.frame.box.boundary.all()
    derived = {item.name: item.detail for item in report.of(Fate.DERIVED)}
    assert derived["box"].startswith("xlo xhi, zlo zhi from -0.5 to 0.5")
    assert "periodic on all axes" in derived["box boundary"]


def test_a_tilted_box_has_its_vectors_as_columns(read_text):
    record, _ = read_text(small(header="1 9 xlo xhi\n2 9 ylo yhi\n3 9 zlo zhi\n-1 2 3.5 xy xz yz"))
    assert record.frame.box.vectors.tolist() == [[8, -1, 2], [0, 7, 3.5], [0, 0, 6]]
    assert record.frame.box.origin.tolist() == [1, 2, 3]


def test_a_general_box_and_its_coordinates_stay_as_they_are_stated(read_text):
    header = "0 4 0 avec\n-3 0 0 bvec\n1 1 5 cvec\n0.5 0.25 0 abc origin"
    record, report = read_text(small(header=header))
    assert record.frame.box.vectors.T.tolist() == [[0, 4, 0], [-3, 0, 0], [1, 1, 5]]
    assert record.frame.box.origin.tolist() == [0.5, 0.25, 0]
    assert xyz(record.frame["atoms"]).tolist() == [[4, 5, 6], [1, 2, 3]]
    assert not report.lossy


def test_ids_keep_all_their_digits(read_text):
    rows = "9223372036854775807 1 0 0 0\n4294967297 2 0 0 0"
    record, _ = read_text(small(rows=rows))
    assert record.system["atoms"]["id"].tolist() == [4294967297, 9223372036854775807]
    assert record.system["atoms"]["id"].dtype == np.uint64


def test_numbers_keep_their_bits(read_text):
    words = ["-0.0", "4.9e-324", "1.7976931348623157e308", "0.1", "9007199254740993", "+.5E+0"]
    record, _ = read_text(small(rows=f"1 1 {' '.join(words[:3])}\n2 1 {' '.join(words[3:])}"))
    found = xyz(record.frame["atoms"]).reshape(-1)
    assert same_bits(found, np.array([float(word) for word in words]))


def test_types_without_a_mass_have_none(read_text):
    text = small(body="\nMasses\n\n2 5.5\n").replace("2 atom types", "1 atom types")
    with pytest.raises(FormatError, match=r"atom type 2 in Masses"):
        read_text(text)
    record, _ = read_text(small())
    assert "mass" not in record.system["atoms"]
    assert "masses" not in document(record)


def test_labels_name_types_everywhere(read_text):
    body = "\nAtom Type Labels\n\n2 C'\n1 h*\n\nBond Type Labels\n\n1 h*-C'\n\nMasses\n\nC' 12.0\n1 1.0\n"
    text = small(body=body, style="bond", rows="1 7 C' 0 0 0\n2 7 h* 1 1 1") + "\nBonds\n\n1 h*-C' 1 2\n2 1 2 1\n"
    text = text.replace("2 atom types", "2 atom types\n2 bonds\n1 bond types")
    record, _ = read_text(text)
    atoms, bonds = record.system["atoms"], record.system["bonds"]
    assert atoms["type"].tolist() == ["C'", "h*"]
    assert atoms["type_id"].tolist() == [2, 1]
    assert atoms["mass"].tolist() == [12.0, 1.0]
    assert bonds["type"].tolist() == ["h*-C'", "h*-C'"]
    assert document(record)["type_labels"] == {"atom": ["h*", "C'"], "bond": ["h*-C'"]}


def test_labels_that_are_symbols_tell_elements(read_text):
    body = "\nAtom Type Labels\n\n1 O\n2 H\n\nMasses\n\n1 15.9994\n2 1.008\n"
    record, report = read_text(small(body=body))
    assert record.system["atoms"]["element"].tolist() == ["H", "O"]
    assert "atoms/element" in [item.name for item in report.of(Fate.DERIVED)]


def test_negative_molecule_ids_are_kept_aside(read_text):
    record, report = read_text(small(style="bond", rows="1 -3 1 0 0 0\n2 4 1 0 0 0"))
    assert "mol_id" not in record.system["atoms"]
    assert record.system["atoms"]["mol"].tolist() == [-3, 4]
    assert "mol_id" in [item.name for item in report.of(Fate.CONVERTED)]


def test_crossterms_are_a_relation_over_five_atoms(read_text):
    rows = "\n".join(f"{n} 1 1 0 {n} {n} {n}" for n in (9, 8, 7, 6, 5))
    text = small(style="full", rows=rows).replace("2 atoms", "5 atoms\n1 crossterms") + "\nCMAP\n\n1 3 5 6 7 8 9\n"
    record, _ = read_text(text)
    cmaps = record.system["cmaps"]
    assert [cmaps[f"atom{end}"].tolist() for end in "ijklm"] == [[0], [1], [2], [3], [4]]
    assert cmaps["type"].tolist() == ["3"]
    assert cmaps.targets == {"atomm": "atoms"}


def test_sections_of_fixes_are_kept_as_they_stand(read_text):
    record, report = read_text(small() + "\nMolecules\n\n1 2\n2\t 2  # b\n\nTinker Types # x\n\n1 7\n")
    assert not report.lossy
    block = record.system["lammps_sections"]
    assert block["section"].tolist() == ["Molecules", "Molecules", "Tinker Types"]
    assert block["line"].tolist() == ["1 2", "2\t 2  # b", "1 7"]
    assert document(record)["section_comments"] == {"Tinker Types": "x"}
    assert record.system["atoms"].count == 2


def test_a_row_that_lammps_skips_is_reported(read_text):
    text = small().replace("Atoms # atomic\n\n", "Atoms # atomic\n7 7 7 7 7\n")
    record, report = read_text(text)
    assert record.system["atoms"]["id"].tolist() == [1, 2]
    assert any("line 10: '7 7 7 7 7' is not read" in warning for warning in report.warnings)


def test_an_option_against_the_file_is_reported(read_text):
    rows = "1 1 2 1.5 2.5 3.5\n2 1 1 4.5 5.5 6.5"
    record, report = read_text(small(style="bond", rows=rows), atom_style="charge")
    assert record.system["atoms"]["charge"].tolist() == [2, 1]
    assert any("'Atoms # bond'; its rows are read as atom style charge" in w for w in report.warnings)


@pytest.mark.parametrize(
    ("rows", "header", "style"),
    [
        ("1 1 0 0 0\n2 1 0 0 0", "", "atomic"),
        ("1 1 0 0 0 0 0 0\n2 1 0 0 0 -1 0 0", "", "atomic"),
        ("1 1 -0.5 1 1 1\n2 1 2 1 1 1", "", "charge"),
        ("1 9 2 1 1 1\n2 1 1 1 1 1", "", "bond"),
        ("1 1 2 1 1 1\n2 1 1 1 1 1", "1 bonds\n1 bond types\n", "bond"),
        ("1 1 2 0.5 1 1 1\n2 1 1 -1 1 1 1", "", "full"),
        ("1 1 2 0.5 1 1 1 0 0 0\n2 1 1 0 1 1 1 1 1 1", "", "full"),
    ],
)
def test_a_style_that_alone_fits_is_found_and_reported(read_text, rows, header, style):
    text = (
        small(rows=rows)
        .replace("Atoms # atomic", "Atoms # id type x")
        .replace("2 atom types\n", f"2 atom types\n{header}")
    )
    if header:
        text += "\nBonds\n\n1 1 1 2\n"
    record, report = read_text(text)
    assert document(record)["atom_style"] == style
    derived = {item.name: item.detail for item in report.of(Fate.DERIVED)}
    assert derived["atom style"].startswith(style)


def test_columns_beyond_the_plain_styles_keep_their_names(read_text):
    rows = "1 2 0.5 7.5 1 2 3 0 0 -1\n2 1 1.5 2.5 4 5 6 0 0 0"
    body = small(style="sphere", rows=rows) + "\nVelocities\n\n2 1 2 3 4 5 6\n1 0 0 0 7 8 9\n"
    record, _ = read_text(body)
    frame = record.frame["atoms"]
    assert list(frame) == [
        "x",
        "y",
        "z",
        "vx",
        "vy",
        "vz",
        "omegax",
        "omegay",
        "omegaz",
        "diameter",
        "density",
        "ix",
        "iy",
        "iz",
    ]
    assert frame["diameter"].tolist() == [0.5, 1.5]
    assert frame["omegaz"].tolist() == [9, 6]
    assert "mass" not in record.system["atoms"]


def test_a_hybrid_is_read_when_its_styles_are_named(read_text, tmp_path):
    text = small(style="hybrid", rows="1 1 0 0 0 9 -0.5\n2 2 1 1 1 9 0.5")
    with pytest.raises(UsageError, match="hybrid"):
        read_text(text)
    record, _ = read_text(text, atom_style="hybrid bond charge")
    assert record.system["atoms"]["mol_id"].tolist() == [9, 9]
    assert record.system["atoms"]["charge"].tolist() == [-0.5, 0.5]
    assert document(record)["atom_style"] == "hybrid bond charge"
    molrec_convert.write(record, tmp_path / "back.data", format="lammps-data")
    back, _ = read(tmp_path / "back.data")  # what is written names the styles
    assert back.system == record.system
    assert back.frame == record.frame


def test_a_file_without_atoms_is_a_record_without_rows(read_text):
    record, _ = read_text("title\n\n0 atoms\n3 atom types\n0 5 xlo xhi\n")
    assert record.system["atoms"].count == 0
    assert record.frame["atoms"].count == 0
    assert document(record)["type_counts"] == {"atom": 3}
    assert record.frame.box.vectors[0, 0] == 5


def test_room_for_more_per_atom_is_kept(read_text):
    record, _ = read_text(
        small().replace("2 atom types", "2 atom types\n3 extra bond per atom\n1 extra special per atom")
    )
    assert document(record)["extra_per_atom"] == {"bond": 3, "special": 1}


def test_words_behind_a_keyword_are_left_out_and_counts_of_fixes_are_named(tmp_path):
    path = tmp_path / "widgets.data"
    path.write_text(small(header="3 widgets\n0 9 xlo xhi lo hi").replace("2 atoms", "2 atoms and more"))
    with pytest.raises(FormatError, match="line 5: found '3 widgets', expected a header line"):
        parse_data(path)
    data = parse_data(path, counts=["widgets"])
    assert data.counts == {"atoms": 2, "atom types": 2, "widgets": 3}
    assert data_system(data, DataOptions(), Report()).meta["lammps"]["header"] == {"widgets": 3}


def test_tilts_of_zero_are_said_and_written_again(read_text, tmp_path):
    header = "0 9 xlo xhi\n0 9 ylo yhi\n0 9 zlo zhi\n"
    record, _ = read_text(small(header=header + "0 0.0 -0 xy xz yz"))
    assert document(record)["tilted"] is True
    molrec_convert.write(record, tmp_path / "back.data", format="lammps-data")
    assert "\n0 0 -0 xy xz yz\n" in (tmp_path / "back.data").read_text()
    assert "tilted" not in document(read_text(small(header=header))[0])
    assert "tilted" not in document(read_text(small(header=header + "1 0 0 xy xz yz"))[0])


def test_comments_that_belong_to_no_row_are_kept(read_text):
    text = small(header="0 9 xlo xhi # wide", body="# masses?\nAtom Type Labels # two\n\n2 B\n1 A # first\n# end")
    record, report = read_text(text.replace("Atoms # atomic\n\n", "Atoms # atomic\n# id type x y z\n") + "\n # bye\n")
    assert document(record)["comments"] == ["wide", "masses?", "end", "id type x y z", "bye"]
    assert document(record)["label_comments"] == {"atom": ["first", ""]}
    assert document(record)["section_comments"] == {"Atom Type Labels": "two"}
    assert not report.warnings[1:]


def test_a_title_that_is_not_utf8_is_kept(tmp_path):
    path = tmp_path / "latin.data"
    path.write_bytes(small().replace("title", "5 Å").encode("latin-1"))
    record, _ = read(path)
    assert document(record)["title"] == "5 Å, units = metal"


def test_system_and_frame_are_to_be_had_alone(tmp_path):
    path = tmp_path / "small.data"
    path.write_text(small())
    data = parse_data(path)
    report = Report()
    system = data_system(data, DataOptions(), report)
    assert list(system.blocks) == ["atoms"]
    assert not any(item.name.startswith("box") for item in report.items)
    frame = data_frame(data, report, boundary=[True, False, True])
    assert frame.box.boundary.tolist() == [True, False, True]
    assert not any("boundary" in item.name for item in report.items)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 31, 64])
def test_the_size_of_blocks_and_pieces_does_not_matter(tmp_path, monkeypatch, size):
    rows = "\n".join(f"{n} {n} 1 {n / 7!r} 2 3 # {n}" for n in (5, 100, 4, 3, 2))
    path = tmp_path / "sizes.data"
    text = small(style="bond", rows=rows).replace("2 atoms", "5 atoms\n4 bonds\n1 bond types")
    path.write_text(text + "\nBonds\n\n1 1 5 4\n2 1 100 3\n3 1 3 2\n4 1 2 5\n\nOther\n\n1 2\n\nMasses\n\n1 1\n2 2")
    whole, _ = read(path)
    monkeypatch.setattr(data_sections, "_LONG_LINE", size)
    monkeypatch.setattr(data_sections, "PIECE_BYTES", size)
    parts, _ = read(path)
    for section in ("system", "frame"):
        ours, theirs = getattr(whole, section), getattr(parts, section)
        assert list(ours.blocks) == list(theirs.blocks)
        assert all(ours[name] == theirs[name] for name in ours)
    assert parts.system["atoms"]["comment"].tolist() == ["2", "3", "4", "5", "100"]
    assert parts.system["atoms"]["mass"].tolist() == [1] * 5
    assert parts.system["bonds"]["atomi"].tolist() == [3, 4, 1, 0]


def test_several_files_are_no_data_file(tmp_path):
    with pytest.raises(UsageError, match="read alone"):
        read_data([tmp_path / "a.data", tmp_path / "b.data"], ReadContext(options=DataOptions()))


def test_the_format_is_detected_and_stored(tmp_path):
    path = tmp_path / "some.txt"
    path.write_text(small(body="\nMasses\n\n1 1.5 # a\n2 2.5\n", rows="2 1 1 2 3 # first\n1 2 4 5 6"))
    target = tmp_path / "some.mrec"
    molrec_convert.convert(path, target)
    direct = molrec_convert.read(path)
    with molrec_convert.open(target) as stored:
        for section in ("system", "frame"):
            ours, theirs = getattr(direct, section), getattr(stored, section)
            assert list(ours.blocks) == list(theirs.blocks)
            assert all(ours[name] == theirs[name] for name in ours)
            assert ours.meta == theirs.meta
        assert stored.frame.box == direct.frame.box
