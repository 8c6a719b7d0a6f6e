"""Input scripts: lines, words, variables, formulas, includes; compared with LAMMPS itself."""

from __future__ import annotations

import contextlib
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lammps_runs import lammps, needs_lammps

from molrec_convert.errors import MissingInputError
from molrec_lammps.run.settings import settings_of
from molrec_lammps.script.script import parse_script, read_script
from molrec_lammps.script.syntax import (
    NotEvaluable,
    Variables,
    evaluate,
    logical_lines,
    split_words,
    strip_comment,
    substitute,
)

HERE = Path("in.lmp")


def commands(text: str) -> list[tuple[str, ...]]:
    return [(c.name, *c.args) for c in parse_script(text, HERE).commands]


class TestLines:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("print a&\nb\n", ["print ab"]),
            ("print a& \n  b\n", ["print a  b"]),
            ("print a&\n", ["print a&"]),
            ('print """a\nb""" x\nrun 1', ['print """a\nb""" x', "run 1"]),
            ("\n\nrun 1\n", ["", "", "run 1"]),
            ("units lj\r\nrun 1\r\n", ["units lj", "run 1"]),
        ],
    )
    def test_continuations(self, text: str, expected: list[str]) -> None:
        assert [line.text for line in logical_lines(text)] == expected

    def test_line_numbers(self) -> None:
        lines = list(logical_lines("a &\nb\nc\n"))
        assert [(line.first, line.last) for line in lines] == [(1, 2), (3, 3)]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("print a#b", "print a"),
            ('print "a#b" # c', 'print "a#b" '),
            ("print 'a#b'#c", "print 'a#b'"),
            ("print 'it\"s' # c", "print 'it\"s' "),
            ('print """a "#" b""" # c', 'print """a "#" b""" '),
        ],
    )
    def test_comments(self, text: str, expected: str) -> None:
        assert strip_comment(text) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("a  b\tc", ["a", "b", "c"]),
            ("a \"b 'c' d\" 'e \"f\"'", ["a", "b 'c' d", 'e "f"']),
            ('a """b "c" \'d\'"""', ["a", "b \"c\" 'd'"]),
            ("a b'c d'", ["a", "b'c", "d'"]),
            ('a ""', ["a", ""]),
        ],
    )
    def test_words(self, text: str, expected: list[str]) -> None:
        assert split_words(text) == expected

    @pytest.mark.parametrize("text", ['a "b', "a 'b'c", 'a """b"'])
    def test_words_lammps_refuses(self, text: str) -> None:
        with pytest.raises(NotEvaluable):
            split_words(text)

    def test_only_include_takes_variables_between_quotes(self, tmp_path: Path) -> None:
        (tmp_path / "more").write_text("units lj\n")
        script = parse_script("variable f index more\ninclude \"./${f}\"\njump '$f'\n", tmp_path / "in.a")
        assert [command.name for command in script.commands] == ["variable", "include", "units", "jump"]
        assert script.missing == ["$f"]
        assert parse_script('include "${g}"\n', tmp_path / "in.a").missing == ["${g}"]

    def test_a_name_no_file_can_have_is_that_of_a_missing_file(self, tmp_path: Path) -> None:
        name = "x" * 300
        assert parse_script(f"include {name}\n", tmp_path / "in.a").missing == [name]

    def test_substitution_stays_out_of_quotes(self) -> None:
        def named(name: str) -> str:
            return f"<{name}>"

        assert substitute("$x${yz}$(1+(2)) '$x' \"${y}\" $xy", named, named) == "<x><yz><1+(2)> '$x' \"${y}\" <x>y"

    @given(st.text(alphabet="ab $\"'#&{}()\n\\\t", max_size=60))
    def test_no_text_breaks_the_parser(self, text: str) -> None:
        script = parse_script(text, HERE)
        assert all(command.name for command in script.commands)


class TestVariables:
    def variables(self, text: str) -> dict[str, str]:
        variables = Variables(environment={"WHERE": "here"})
        for line in text.strip().splitlines():
            variables.define(split_words(variables.substitute(line.strip()))[1:])
        found = {}
        for line in text.strip().splitlines():
            name = line.split()[1]
            try:
                found[name] = variables.value(name)
            except NotEvaluable as error:
                found[name] = f"! {error}"
        return found

    def test_values(self) -> None:
        assert self.variables(
            """
            variable a index 5 6
            variable b string "two words"
            variable c equal 1/3
            variable d equal v_a*v_c
            variable e loop 3
            variable f loop 2 10 pad
            variable g getenv WHERE
            variable h format c %10.4f
            variable i string "v${a}w"
            variable j string x${a}y
            """
        ) == {
            "a": "5",
            "b": "two words",
            "c": "0.333333333333333",
            "d": "1.66666666666667",
            "e": "1",
            "f": "02",
            "g": "here",
            "h": "    0.3333",
            "i": "v5w",
            "j": "x5y",
        }

    def test_no_text_without_end(self) -> None:
        """Texts that hold one another several times, and a number of a billion letters, have no value."""
        variables = Variables()
        variables.define(["a", "string", "x" * 16])
        for name, other in pairwise("abcdefghijklmnop"):
            variables.define([other, "string", f"${name}" * 4])
        with pytest.raises(NotEvaluable):
            variables.value("p")
        with pytest.raises(NotEvaluable, match="no format"):
            variables.substitute("$(1.5:%1000000000f)")

    def test_redefinition(self) -> None:
        found = self.variables("variable a index 1\nvariable a index 2\nvariable b equal 1\nvariable b equal 2")
        assert found == {"a": "1", "b": "2"}

    def test_what_only_a_run_tells(self) -> None:
        found = self.variables(
            """
            variable a equal temp
            variable b atom x*2
            variable c file values.txt
            variable d equal v_missing+1
            variable e equal v_f
            variable f equal v_e
            variable g getenv NOWHERE_AT_ALL
            variable h equal random(1,2,3)
            variable i equal 1/0
            variable j equal c_1[2]
            """
        )
        assert all(value.startswith("! ") for value in found.values()), found

    def test_advanced_by_next(self) -> None:
        script = parse_script(
            "variable t index 0.5 1.0\nvariable n loop 1\nlabel again\ntimestep $t\nrun $n\nnext t\njump SELF again\n",
            HERE,
        )
        by_name = {command.name: command for command in script.commands}
        assert by_name["timestep"].fault
        assert by_name["timestep"].args == ("$t",)
        assert by_name["run"].args == ("1",)
        settings = settings_of(script.commands)
        assert settings.timestep_of(None, "real")[0] is None


class TestFormulas:
    @pytest.mark.parametrize(
        ("formula", "value"),
        [
            ("-2^2", 4.0),
            ("2^3^2", 64.0),
            ("7%4*2", 6.0),
            ("1||0|^1", 0.0),
            ("1|^0||1", 1.0),
            ("!0+1", 2.0),
            ("round(-2.5)", -2.0),
            ("-5%3", -2.0),
            ("1<2==1", 1.0),
            (".5e1+1.e2", 105.0),
            ("sign(0)", 1.0),
            ("2 * (3+1)", 8.0),
        ],
    )
    def test_like_lammps(self, formula: str, value: float) -> None:
        assert evaluate(formula, float) == value

    @pytest.mark.parametrize(
        "formula", ["", "1 2", "+3", "2^+1", "1/0", "sqrt(-1)", "step", "f_1", "sqrt(1,2)", "(1", "1)", "exp(1000)"]
    )
    def test_refused(self, formula: str) -> None:
        with pytest.raises(NotEvaluable):
            evaluate(formula, float)

    @given(st.text(alphabet="0123456789.eE+-*/%^()<>=!&|, vPIsqrt_", max_size=40))
    def test_nothing_but_a_number_or_not_evaluable(self, formula: str) -> None:
        with contextlib.suppress(NotEvaluable):
            assert isinstance(evaluate(formula, lambda name: 2.0), float)

    @needs_lammps
    def test_random_formulas_print_as_lammps_prints_them(self, tmp_path: Path) -> None:
        rng = random.Random(7)
        formulas = [_formula(rng, 4) for _ in range(400)]
        code = f"""
        out["values"] = []
        for formula in {formulas!r}:
            try:
                lmp.command("variable x delete")
                lmp.command(f'variable x equal "{{formula}}"')
                lmp.command('variable y delete')
                lmp.command('variable y string ${{x}}')
                out["values"].append(lmp.extract_variable("y"))
            except Exception:
                out["values"].append(None)
        """
        theirs = lammps(tmp_path, code)["values"]
        variables = Variables()
        compared = 0
        for formula, expected in zip(formulas, theirs, strict=True):
            variables.define(["x", "equal", formula])
            try:
                mine = variables.value("x")
            except NotEvaluable:
                mine = None
            if expected is None or "inf" in expected or "nan" in expected:
                assert mine is None, formula
            elif mine is not None:
                assert mine == expected, formula
                compared += 1
        assert compared > 250


def _formula(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([f"{rng.uniform(0, 9):.3f}", str(rng.randrange(10)), "PI", "1.5e-3", "(2)"])
    kind = rng.random()
    if kind < 0.6:
        operator = rng.choice(["+", "-", "*", "/", "%", "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "|^"])
        return f"{_formula(rng, depth - 1)}{operator}{_formula(rng, depth - 1)}"
    if kind < 0.75:
        return f"({_formula(rng, depth - 1)})"
    if kind < 0.85:
        return f"{rng.choice('-!')}{_formula(rng, depth - 1)}"
    name = rng.choice(["sqrt", "exp", "ln", "log", "abs", "sign", "sin", "cos", "atan", "ceil", "floor", "round"])
    return f"{name}({_formula(rng, depth - 1)})"


class TestScripts:
    def test_files(self, tmp_path: Path) -> None:
        (tmp_path / "settings").mkdir()
        (tmp_path / "in.run").write_text(
            "variable d index settings\ninclude ${d}/ff.in\ninclude gone.in\nrun 5\njump next.in here\nrun 99\n"
        )
        (tmp_path / "settings/ff.in").write_text("units real\n")
        (tmp_path / "next.in").write_text("timestep 9\nlabel here\ntimestep 2\nquit\nrun 98\n")
        script = read_script(tmp_path / "in.run")
        assert [(c.name, c.args, c.path.name, c.line) for c in script.commands if c.name not in ("variable",)] == [
            ("include", ("settings/ff.in",), "in.run", 2),
            ("units", ("real",), "ff.in", 1),
            ("include", ("gone.in",), "in.run", 3),
            ("run", ("5",), "in.run", 4),
            ("jump", ("next.in", "here"), "in.run", 5),
            ("label", ("here",), "next.in", 2),
            ("timestep", ("2",), "next.in", 3),
            ("quit", (), "next.in", 4),
        ]
        assert script.missing == ["gone.in"]
        assert [path.name for path in script.files] == ["in.run", "ff.in", "next.in"]

    def test_a_file_that_includes_itself_ends(self, tmp_path: Path) -> None:
        (tmp_path / "in.run").write_text("run 1\ninclude in.run\n")
        assert len(read_script(tmp_path / "in.run").commands) == 32

    def test_control_flow_is_recognised(self) -> None:
        script = parse_script(
            'if "${x} > 1" then "timestep 0.5" "print \'a b\'" else "jump SELF end"\n'
            'run 100 every 10 "set type 1 charge 1"\n',
            HERE,
        )
        assert [[b.name for b in c.branches] for c in script.commands] == [["timestep", "print", "jump"], ["set"]]
        assert "timestep" in settings_of(script.commands).time_fault

    def test_variables_set_by_an_if_have_no_value(self) -> None:
        script = parse_script('variable t index 1\nif "1" then "variable t string 2"\ntimestep $t\n', HERE)
        assert script.commands[-1].fault

    def test_as_typed_and_substituted(self) -> None:
        command = parse_script("variable T index 300\nfix 1 all nvt temp $T ${T} 100 # heat\n", HERE).commands[1]
        assert command.args == ("1", "all", "nvt", "temp", "300", "300", "100")
        assert command.raw_args == ("1", "all", "nvt", "temp", "$T", "${T}", "100")
        assert command.text == "fix 1 all nvt temp $T ${T} 100 # heat"

    def test_a_missing_script(self, tmp_path: Path) -> None:
        with pytest.raises(MissingInputError, match=r"in\.no"):
            read_script(tmp_path / "in.no")

    def test_scripts_of_the_corpus(self, corpus: Path) -> None:
        paths = sorted((corpus / "energies").glob("*/in.lmp"))
        assert len(paths) >= 40
        for path in paths:
            script = read_script(path)
            assert script.commands
            assert not script.missing
            assert not [c for c in script.commands if c.fault], path
            settings = settings_of(script.commands)
            assert not settings.faults, path
            assert settings.units in ("real", "lj", "metal")
            assert settings.data or settings.created


class TestSettings:
    def test_timesteps(self) -> None:
        def timestep(text: str, units: str | None = "real") -> tuple[float | None, str]:
            settings = settings_of(parse_script(text, HERE).commands)
            return settings.timestep_of(settings.dumps[0] if settings.dumps else None, units)

        dump = "dump 1 all custom 10 a.dump id x\n"
        assert timestep(f"timestep 2\n{dump}run 10\nrun 10\n") == (2.0, "")
        assert timestep(f"{dump}run 10\n") == (1.0, "")
        assert timestep(f"{dump}run 10\n", None)[0] is None
        assert timestep(f"run 0\ntimestep 2\n{dump}run 10\n") == (2.0, "")
        assert timestep(f"run 5\ntimestep 2\n{dump}run 10\n")[0] is None
        assert timestep(f"minimize 0 0 1 1\ntimestep 2\n{dump}run 10\n")[0] is None
        assert timestep(f"minimize 0 0 1 1\nreset_timestep 0\ntimestep 2\n{dump}run 10\n") == (2.0, "")
        assert timestep(f"timestep 2\n{dump}run 10\nundump 1\ntimestep 3\nrun 10\n") == (2.0, "")
        assert "fix dt/reset" in timestep(f"timestep 2\n{dump}fix 1 all dt/reset 1 1 1 1\nrun 10\n")[1]
        assert timestep(f"timestep $x\n{dump}run 10\n")[0] is None

    def test_clear_begins_another_system(self) -> None:
        settings = settings_of(
            parse_script(
                "units lj\nrun 1\nclear\nunits real\ndump 1 all atom 1 a\nrun 1\nclear\nunits si\n", HERE
            ).commands
        )
        assert settings.units == "real"

    def test_masses_by_range(self) -> None:
        settings = settings_of(
            parse_script("labelmap atom 4 C\nmass * 1.0\nmass 2*3 2.5\nmass C 12\nmass 5* 7\n", HERE).commands
        )
        assert settings.mass_of_types(6) == {1: 1.0, 2: 2.5, 3: 2.5, 4: 12.0, 5: 7.0, 6: 7.0}
        assert settings.mass_of_types(None) == {2: 2.5, 3: 2.5, 4: 12.0}

    def test_broken_arguments_are_faults_not_errors(self) -> None:
        settings = settings_of(parse_script("timestep\ntimestep x\nmass 1\ndump 1 all\nunits\n", HERE).commands)
        assert len(settings.faults) == 5
