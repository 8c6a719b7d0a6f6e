"""The plugin door: discovery, detection, broken plugins, name clashes, and a third-party plugin installed for real."""

import gzip
import inspect
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from collection_stores import molecule, points

from molrec_convert import Record, hookspecs, plugins, write
from molrec_convert.cli import run
from molrec_convert.errors import FormatError, MissingInputError, UnsupportedError, UsageError
from molrec_convert.formats import Format, NoOptions, make_options, option, options_of

ROOT = Path(__file__).parents[2]


def run_python(code, *path, **environment):
    """Run code in a fresh interpreter with more folders on its path."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **environment}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=env, timeout=300
    )


def make_plugin(folder, name, body, module=None):
    """A distribution with one module and its entry point, as an installer would leave it."""
    folder.mkdir(exist_ok=True)
    if module is None:
        (folder / f"{name}.py").write_text(textwrap.dedent(body))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[molrec_convert]\n{name} = {module or name}\n")
    return folder


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A plugin as `mrec new-plugin` writes it, installed by pip into a folder."""
    project, target = tmp_path_factory.mktemp("project") / "points", tmp_path_factory.mktemp("site")
    assert run(["new-plugin", "points", "--writer", "-o", str(project)]) == 0
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([*command, str(target), str(project)], check=True, capture_output=True)
    return target


def test_stores_come_through_the_same_door():
    assert plugins.plugin_names()[0] == "stores"
    assert {"mrec", "mrec-zip"} <= set(plugins.formats())


def test_a_third_party_plugin_is_found_and_used(sample, tmp_path):
    (tmp_path / "a.points").write_text("#points\natoms O H\nstep 5\n0.0 0.0 0.25\n0.5 1.0 2.0\n")
    code = f"""
        import molrec_convert
        report = molrec_convert.convert({str(tmp_path / "a.points")!r}, {str(tmp_path / "a.mrec")!r}, points_scale=2.0)
        print([str(item) for item in report.items][0])
        molrec_convert.convert({str(tmp_path / "a.mrec")!r}, {str(tmp_path / "b.points")!r})
    """
    done = run_python(code, sample)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "carried: elements (of 2 atoms)"
    assert (tmp_path / "b.points").read_text() == "#points\natoms O H\nstep 5\n0.0 0.0 0.5\n1.0 2.0 4.0\n"


def mrec(path, *args):
    """Run the command line in a fresh interpreter with one more folder on its path."""
    return run_python(
        f"import sys; sys.argv[1:] = {list(map(str, args))!r}; from molrec_convert.cli import main; main()", path
    )


def test_a_plugin_adds_flags_to_the_command_line(sample, tmp_path):
    assert "--points-scale" in mrec(sample, "convert", "--help").stdout
    (tmp_path / "a.points").write_text("#points\natoms O\nstep 0\n0.0 0.0\n0.0\n")
    done = mrec(sample, "convert", tmp_path / "a.points", tmp_path / "a.mrec")
    assert done.returncode == 1
    assert "a.points, line 4: found 2 fields, expected x y z" in done.stderr
    assert not (tmp_path / "a.mrec").exists()


def test_a_plugin_adds_commands_to_the_command_line(tmp_path):
    make_plugin(
        tmp_path,
        "helpful",
        """
        from molrec_convert import hookimpl
        @hookimpl
        def molrec_commands(app):
            import click
            @app.command("points-help")
            def points_help():
                click.echo("element x y z")
        """,
    )
    assert mrec(tmp_path, "points-help").stdout == "element x y z\n"


@pytest.mark.parametrize(
    ("arguments", "tests"),
    [
        (("points", "--writer"), ["-k", "values or bad or recognized or written_file"]),
        pytest.param(("points", "--writer"), [], marks=pytest.mark.slow),
        pytest.param(("my-points-2",), [], marks=pytest.mark.slow),
    ],
)
def test_a_new_plugin_passes_its_tests(tmp_path, arguments, tests):
    project = tmp_path / "project"
    assert run(["new-plugin", *arguments, "-o", str(project)]) == 0
    name = tomllib.loads((project / "pyproject.toml").read_text())["project"]["entry-points"]["molrec_convert"]
    make_plugin(tmp_path / "site", *name, "", "".join(name.values()))
    path = os.pathsep.join([str(project / "src"), str(tmp_path / "site"), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        capture_output=True, text=True, cwd=project, env={**os.environ, "PYTHONPATH": path}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert ("skipped" in done.stdout) == ("--writer" not in arguments)
    ruff = Path(sys.executable).with_name("ruff")
    if ruff.exists():
        rules = [str(ruff), "check", "-q", "--config", str(ROOT / "pyproject.toml"), str(project)]
        assert subprocess.run(rules, capture_output=True, text=True).stdout == ""


def test_a_new_plugin_that_cannot_be_made_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["new-plugin", "gromos"]) == 0
    assert "next: cd molrec-gromos && pip install -e '.[test]' && pytest" in capsys.readouterr().out
    for name, words in {
        "gromos": "molrec-gromos exists already: name another directory with -o",
        "Gro Mos": "'Gro Mos' is no name for a format: use lower-case letters, digits and single hyphens",
        "pdb": "there is a format 'pdb' already; 'mrec formats pdb' describes it",
    }.items():
        assert run(["new-plugin", name]) == 2
        assert capsys.readouterr().err == f"mrec: {words}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["molrec-gromos"]


def test_a_broken_plugin_is_named_and_skipped(tmp_path):
    make_plugin(tmp_path, "broken_at_import", "raise RuntimeError('no luck')")
    make_plugin(
        tmp_path,
        "broken_in_use",
        """
        from molrec_convert import hookimpl
        @hookimpl
        def molrec_formats():
            raise KeyError("lost")
        """,
    )
    done = run_python(
        "from molrec_convert import plugins; print(sorted(plugins.formats())); print(plugins.problems())", tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "'mrec'" in done.stdout
    assert "'broken_at_import' (broken_at_import) is skipped: RuntimeError: no luck" in done.stdout
    assert "'broken_in_use' is skipped: KeyError: 'lost'" in done.stdout


def test_two_plugins_that_claim_one_name_are_an_error(tmp_path):
    body = """
        from molrec_convert import Format, hookimpl
        @hookimpl
        def molrec_formats():
            return [Format("twice", "Twice")]
    """
    make_plugin(tmp_path, "first", body)
    make_plugin(tmp_path, "second", body)
    done = run_python("from molrec_convert import plugins; plugins.formats()", tmp_path)
    assert done.returncode != 0
    assert "the plugins 'first' and 'second' both bring a format 'twice'" in done.stderr


def test_load_plugins_limits_what_loads(tmp_path):
    make_plugin(tmp_path, "extra_one", "")
    code = "from molrec_convert import plugins; print(plugins.plugin_names()); print(plugins.problems())"
    assert run_python(code, tmp_path, MOLREC_LOAD_PLUGINS="").stdout.splitlines()[0] == "['stores']"
    assert "extra_one" in run_python(code, tmp_path, MOLREC_LOAD_PLUGINS="extra_one").stdout.splitlines()[0]
    missing = run_python(code, tmp_path, MOLREC_LOAD_PLUGINS="nobody").stdout
    assert "names 'nobody', which is not installed" in missing


def test_trace_plugins_prints_what_loads_and_what_is_called(tmp_path):
    make_plugin(tmp_path, "extra_one", "")
    done = run_python("from molrec_convert import plugins; plugins.formats()", tmp_path, MOLREC_TRACE_PLUGINS="1")
    assert "molrec plugins: loaded extra_one (extra_one)" in done.stderr
    assert "molrec plugins: molrec_formats -> stores" in done.stderr


def test_nothing_is_traced_unasked():
    assert run_python("from molrec_convert import plugins; plugins.formats()").stderr == ""


def test_content_wins_over_the_name(tmp_path, monkeypatch):
    text = Format("text", "Text", ("*.txt",), lambda head, path: 0.8 * head.startswith(b"text"), reads="a:b")
    other = Format("other", "Other", ("*.oth",), lambda head, path: 0.8 * head.startswith(b"other"), reads="a:b")
    monkeypatch.setattr(plugins, "formats", lambda: {"text": text, "other": other})
    misnamed = tmp_path / "a.oth"
    misnamed.write_text("text")
    assert plugins.detect([misnamed]) is text
    unknown = tmp_path / "b.oth"
    unknown.write_text("???")
    assert plugins.detect([unknown]) is other


def test_a_compressed_file_is_looked_into(tmp_path, monkeypatch):
    text = Format("text", "Text", ("*.txt",), lambda head, path: 0.8 * head.startswith(b"text"), reads="a:b")
    monkeypatch.setattr(plugins, "formats", lambda: {"text": text})
    packed = tmp_path / "a.dat.gz"
    packed.write_bytes(gzip.compress(b"text of some length"))
    assert plugins.detect([packed]) is text


def test_ambiguity_lists_the_candidates_and_the_flag(tmp_path, monkeypatch):
    one = Format("one", "One", ("*.a",), lambda head, path: 0.5, reads="a:b")
    two = Format("two", "Two", ("*.b",), lambda head, path: 0.5, reads="a:b")
    monkeypatch.setattr(plugins, "formats", lambda: {"one": one, "two": two})
    path = tmp_path / "x.c"
    path.write_text("?")
    with pytest.raises(UsageError, match=r"could be one, two: settle it with --from"):
        plugins.detect([path])
    named = tmp_path / "x.b"
    named.write_text("?")
    assert plugins.detect([named]) is two


def test_inputs_of_one_source(tmp_path, monkeypatch):
    a = Format("a", "A", ("*.a",), reads="a:b", many_inputs=True)
    b = Format("b", "B", ("*.b",), reads="a:b")
    both = Format("both", "Both", (), reads="a:b", combines=("a", "b"))
    monkeypatch.setattr(plugins, "formats", lambda: {"a": a, "b": b, "both": both})
    paths = [tmp_path / name for name in ("1.a", "2.a", "1.b")]
    for path in paths:
        path.write_text("")
    assert plugins.detect(paths[:2]) is a
    assert plugins.detect(paths) is both
    monkeypatch.setattr(plugins, "formats", lambda: {"a": a, "b": b})
    with pytest.raises(UsageError, match="do not form one source"):
        plugins.detect(paths)


def test_unrecognised_and_missing_inputs_say_what_to_do(tmp_path):
    path = tmp_path / "what.ever"
    path.write_text("nothing anyone knows")
    with pytest.raises(FormatError, match=r"what.ever: found neither content nor a name of a known format, .*--from"):
        plugins.detect([path])
    with pytest.raises(MissingInputError, match="there is no file or directory"):
        plugins.detect([tmp_path / "absent"])


def test_targets_by_name():
    assert plugins.detect_target(Path("x.mrec")).name == "mrec"
    assert plugins.detect_target(Path("x.mrec.zip")).name == "mrec-zip"
    with pytest.raises(UsageError, match="tells no format to write: name one with --to"):
        plugins.detect_target(Path("x.nothing"))
    with pytest.raises(UsageError, match=r"there is no format 'nope'"):
        plugins.format_named("nope")


def test_the_last_suffix_of_a_target_decides():
    for name, expected in {
        "data.x.mrec": "mrec",
        "log.run.mrec.zip": "mrec-zip",
        "dump.all.extxyz": "extxyz",
        "data.gro": "mdanalysis",
        "in.pdb": "pdb",
        "a.settings.lmp": "lammps-settings",
        "data.water": "lammps-data",
        "data.water.gz": "lammps-data",
        "settings.lmp": "lammps-settings",
    }.items():
        assert plugins.detect_target(Path(name)).name == expected, name


def test_a_target_of_no_known_suffix_is_told_what_is_near():
    near = {"x.lammpstj": ".lammpstrj (lammps-dump)", "x.pdv": ".pdb (pdb)", "x.mrec.zop": ".mrec.zip (mrec-zip)"}
    for name, expected in near.items():
        with pytest.raises(UsageError, match="tells no format to write; near it are ") as caught:
            plugins.detect_target(Path(name))
        assert expected in str(caught.value)
        assert str(caught.value).endswith(": name one with --to, 'mrec formats' lists them")
        assert len(str(caught.value)) < 250


def test_content_counts_before_the_suffix_and_that_before_other_patterns(tmp_path):
    water = Path(__file__).parents[2] / "fixtures" / "water-run"
    for name in ("data.gro", "x.pdb", "data.lmdb"):
        (tmp_path / name).write_bytes((water / "water.lammpstrj").read_bytes())
        assert plugins.detect([tmp_path / name]).name == "lammps-dump"
    (tmp_path / "data.gro").write_text("A title\n1\n    1SOL     OW    1   0.1   0.1   0.1\n   1.0   1.0   1.0\n")
    assert plugins.detect([tmp_path / "data.gro"]).name == "mdanalysis"
    (tmp_path / "data.broken").write_text("A title\n\n3 atmos\n")
    assert plugins.detect([tmp_path / "data.broken"]).name == "lammps-data"


def test_lmdb_files_and_folders_are_called_that(tmp_path):
    import lmdb

    with lmdb.open(str(tmp_path / "data.lmdb"), subdir=False) as environment, environment.begin(write=True) as writing:
        writing.put(b"a", b"b")
    with pytest.raises(FormatError, match=r"data.lmdb: found an LMDB file of no known format, .*--from"):
        plugins.detect([tmp_path / "data.lmdb"])
    folder = tmp_path / "folder.lmdb"
    with lmdb.open(str(folder)) as environment, environment.begin(write=True) as writing:
        writing.put(b"a", b"b")
    with pytest.raises(FormatError, match=r"found an LMDB folder, whose file .*data.mdb is of no known format"):
        plugins.detect([folder])
    write(Record(system=molecule("OH"), trajectory=points(0).trajectory), tmp_path / "a.mrec.lmdb")
    (tmp_path / "a.mrec.lmdb").rename(folder / "data.mdb")
    with pytest.raises(FormatError, match=r"whose file .*folder.lmdb/data.mdb is of the format mrec-lmdb: name that"):
        plugins.detect([folder])


def test_options_become_flags_and_unknown_ones_are_errors():
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Options:
        atom_style: str | None = option(None, "the style", choices=("full", "bond"))
        elements: tuple[str, ...] = option((), "by type")
        exact: bool = option(False, "a switch")
        guess: bool = option(True, "a switch that can only be switched off")

    found = options_of(Options)
    assert [(o.flag, o.kind, o.choices) for o in found] == [
        ("--atom-style", str, ("full", "bond")),
        ("--elements", tuple, ()),
        ("--exact", bool, ()),
        ("--no-guess", bool, ()),
    ]
    assert make_options(Options, {"exact": True}, "x").exact
    with pytest.raises(UsageError, match="x has no option 'nope'; it has atom_style, elements, exact, guess"):
        make_options(Options, {"nope": 1}, "x")
    assert make_options(NoOptions, {}, "x") == NoOptions()


def test_a_missing_library_is_named_with_the_extra(monkeypatch):
    lacking = Format("lacking", "Lacking", reads="a_library_nobody_has:read", extra="lacking")
    with pytest.raises(UnsupportedError, match=r"pip install 'molrec-convert\[lacking\]'"):
        lacking.reader()
    with pytest.raises(UnsupportedError, match="can be read but not written"):
        lacking.writer()


def test_every_hook_stands_in_the_docs_with_its_signature():
    text = (ROOT / "docs/plugins.md").read_text()
    hooks = [f for n, f in inspect.getmembers(hookspecs, inspect.isfunction) if n.startswith("molrec_")]
    assert len(hooks) == 7
    for hook in hooks:
        parameters = ", ".join(inspect.signature(hook).parameters)
        assert re.search(rf"`{hook.__name__}\({re.escape(parameters)}\)`", text), hook.__name__


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_the_head_of_a_damaged_stream_is_what_is_whole_of_it(tmp_path, kind):
    text = b"".join(b"%d %d\n" % (n, n * n) for n in range(20000))
    module = {"gz": "gzip", "bz2": "bz2", "xz": "lzma", "zst": "zstandard"}[kind]
    raw = pytest.importorskip(module).compress(text)
    path = tmp_path / f"a.{kind}"
    path.write_bytes(raw)
    assert plugins.read_head(path) == text[: plugins.HEAD]
    for damaged in (
        raw[:-2],
        raw[: len(raw) // 2],
        raw[:30],
        raw[:-6] + b"\xff" * 6,
        raw[:20] + b"\xff" * 20 + raw[40:],
    ):
        path.write_bytes(damaged)
        assert text.startswith(plugins.read_head(path))
    if kind == "gz":
        small = __import__("gzip").compress(text[:1000])
        for damaged in (small[:-4], small[:-8] + bytes(8)):
            path.write_bytes(damaged)
            assert plugins.read_head(path) == text[:1000]
