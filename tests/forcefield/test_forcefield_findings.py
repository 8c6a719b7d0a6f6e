"""What is legal in a force field and still reported, and styles that plugins bring."""

from __future__ import annotations

import importlib.metadata
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forcefields import single
from layout_examples.peroxide import peroxide

import molrec_convert
from molrec_convert import plugins
from molrec_convert.model import Block, Frame
from molrec_convert.model.forcefield.document import ForceField, table_from_rows
from molrec_convert.model.forcefield.findings import remarks
from molrec_convert.model.forcefield.registry import STANDARD
from molrec_convert.model.forcefield.styles import Parameter, StyleDefinition


def found(forcefield: ForceField) -> list[str]:
    forcefield.check()
    return [str(remark) for remark in remarks(forcefield)]


BOND = {"name": "b", "itom": "", "jtom": "", "k": 1.0, "r0": 1.0}


def test_the_seed_has_nothing_to_report() -> None:
    assert found(peroxide()) == []


@pytest.mark.parametrize(
    ("units", "text"),
    [
        ({"length": "A"}, "forcefield.units.length: 'A' is no unit of length"),
        ({"energy": "furlongish"}, "forcefield.units.energy: 'furlongish' is no unit"),
        ({"time": "nm"}, "forcefield.units.time: 'nm' is no unit of time"),
    ],
)
def test_texts_that_are_no_units(units: dict[str, str], text: str) -> None:
    stated = {"length": "nm", "energy": "kJ/mol", "angle": "radian"} | units
    assert found(single("bond", "harmonic", [BOND], stated)) == [text]


def test_quantities_the_units_leave_out() -> None:
    assert found(single("bond", "harmonic", [BOND], {"energy": "eV"})) == [
        "forcefield/bond.harmonic/k: the units do not say what a number of dimension E/L^2 is in",
        "forcefield/bond.harmonic/r0: the units do not say what a number of dimension L is in",
    ]
    assert found(single("bond", "harmonic", [BOND], {"preset": "lj"})) == []


def test_sentinels() -> None:
    row = {**BOND, "k": float("nan")}
    text = "forcefield/bond.harmonic/k: a number is not finite: a parameter a row lacks is null"
    assert found(single("bond", "harmonic", [row])) == [text]
    null = single("bond", "harmonic", [{**BOND, "k": None}])
    null.tables["bond.harmonic"].columns["k"].values[0] = np.nan
    assert found(null) == []


def test_endpoints_that_are_no_types() -> None:
    forcefield = peroxide()
    rows = [{"name": f"n{n}", "itom": f"X{n}", "jtom": "O1", "k": 1.0, "r0": 1.0} for n in range(7)]
    forcefield.tables["bond.harmonic"] = table_from_rows("bond", rows)
    assert found(forcefield) == [
        "forcefield/bond.harmonic/itom: no atom type of the force field is 'X0', 'X1', 'X2', 'X3', 'X4' and 2 more"
    ]


def test_styles_nobody_can_price() -> None:
    assert found(single("bond", "fene", [BOND])) == [
        "forcefield.styles[0]: the style bond.fene is not registered and has no expression: nobody can price it"
    ]
    assert found(single("bond", "fene", [BOND], expression="k*(r-r0)^4")) == []
    (text,) = found(single("bond", "fene", [BOND], expression="bessel(r)"))
    assert "calls the unknown function 'bessel'" in text
    assert found(single("constraint", "mine", [BOND])) == []


@pytest.mark.parametrize(
    ("expression", "agrees"),
    [
        ("k*(r-r0)^2/2", True),
        ("0.5*k*d*d; d=r0-r", True),
        ("k*(distance(p1,p2)-r0)^2*0.5", True),
        ("k*(r-r0)^2", False),
        ("0.5*k*(r-r0)^2+1", False),
    ],
)
def test_expressions_of_registered_styles_agree_with_them(expression: str, agrees: bool) -> None:
    text = "forcefield.styles[0].expression: the expression is not the energy of bond.harmonic"
    assert found(single("bond", "harmonic", [BOND], expression=expression)) == ([] if agrees else [text])


def test_expressions_are_tried_with_the_settings_of_the_style() -> None:
    row = {"name": "p", "itom": "", "jtom": "", "epsilon": 1.0, "sigma": 1.0}
    text = "4*epsilon*((sigma/r)^12-(sigma/r)^6)"
    assert found(single("pair", "lj/cut", [row], expression=text, params={"cutoff": 10.0})) == []
    assert len(found(single("pair", "lj/cut", [row], expression=text, params={"n": 9.0}))) == 1


# --- plugins ----------------------------------------------------------------------------------------------------------

FENE = StyleDefinition("bond", "fene", (Parameter("k", "E/L^2"), Parameter("r0", "L")), "-0.5*k*r0^2*log(1-(r/r0)^2)")
CLASH = StyleDefinition("bond", "harmonic", (Parameter("k", "E"),))


def plugin(styles: Any) -> types.ModuleType:
    """A module that brings styles, or fails to."""
    module = types.ModuleType("styled")

    @molrec_convert.hookimpl
    def molrec_styles() -> Any:
        if isinstance(styles, Exception):
            raise styles
        return styles

    module.molrec_styles = molrec_styles  # type: ignore[attr-defined]
    return module


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs plugins by name and forgets them afterwards."""
    caches = (plugins.plugin_manager, plugins.formats, plugins.style_registry)

    def install(**modules: types.ModuleType) -> None:
        entries = []
        for name, module in modules.items():
            entry = importlib.metadata.EntryPoint(name, f"{name}_module", plugins.GROUP)
            monkeypatch.setitem(__import__("sys").modules, f"{name}_module", module)
            entries.append(entry)
        monkeypatch.setattr(plugins, "_installed", lambda: entries)
        monkeypatch.setattr(plugins, "_problems", [])
        for cache in caches:
            cache.cache_clear()

    yield install
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


def test_a_plugin_brings_styles(installed: Any) -> None:
    installed(styled=plugin([FENE]))
    registry = plugins.style_registry()
    assert registry.find("bond", "fene", 2) == FENE
    assert STANDARD.find("bond", "fene", 2) is None
    assert list(remarks(single("bond", "fene", [BOND]), registry)) == []


def test_a_plugin_whose_styles_clash_or_that_fails_is_named_and_skipped(installed: Any) -> None:
    installed(clashing=plugin([CLASH]), failing=plugin(RuntimeError("no disk")), good=plugin([FENE]))
    registry = plugins.style_registry()
    assert registry.find("bond", "fene", 1) == FENE
    assert registry.find("bond", "harmonic", 1) == STANDARD.find("bond", "harmonic", 1)
    problems = plugins.problems()
    assert any("the styles of the plugin 'clashing' are skipped" in text for text in problems)
    assert any("the plugin 'failing' is skipped: RuntimeError: no disk" in text for text in problems)


# --- documentation ----------------------------------------------------------------------------------------------------


def documented(style: StyleDefinition) -> str:
    """The line of the registry's table in the documentation."""
    formulas = [style.formula(definitions) for definitions in style.definitions]
    energy = " · ".join(f"`{formula}`" for formula in dict.fromkeys(f for f in formulas if f)) or style.energy
    parameters = [f"`{p.name}` {p.dimension}" + (f" (`{p.later}` in 2)" if p.later else "") for p in style.parameters]
    own = ", ".join(f"`{p.name}`" for p in style.style_parameters)
    cells = [
        f"`{style.name}`",
        ", ".join(map(str, style.definitions)),
        energy,
        (", ".join(parameters) or "–") + (f"; style: {own}" if own else ""),
    ]
    return f"| {' | '.join(cells)} |"


def test_the_documented_registry_is_the_registry() -> None:
    page = (Path(__file__).parents[2] / "docs/forcefield.md").read_text(encoding="utf-8")
    table = page.partition("| style | definitions | energy | parameters |\n|---|---|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [documented(style) for style in STANDARD]


def test_the_documented_examples_run() -> None:
    page = (Path(__file__).parents[2] / "docs/forcefield.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    atoms = Block({"type": ["OW", "HW"]})
    bonds = Block({"atomi": np.zeros(1, np.uint64), "atomj": np.ones(1, np.uint64), "type": ["OW-HW"]})
    names: dict[str, Any] = {"system": Frame({"atoms": atoms, "bonds": bonds})}
    for block in blocks:
        exec(block, names)  # the documentation's own examples
    assert names["resolution"]["bonds"].terms(0)[0].parameters == {"k": 900.0, "r0": 0.9572}
    assert names["second"].table("bond", "harmonic")["k"].tolist() == [450.0]
    assert names["molrec_styles"]()[0].style == "fene"
