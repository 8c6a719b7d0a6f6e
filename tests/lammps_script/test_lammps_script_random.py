"""Random scripts: LAMMPS gets the same energies, or refuses, reading the script or what we read of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lammps_potentials import potential_in, restated
from lammps_runs import lammps, needs_lammps
from test_lammps_script_potential import COEFFICIENTS, DATA, TERMS

from molrec_convert.errors import FormatError

#: Style → coefficients, and cutoffs of a single pair, each to choose from; words of the style line.
PAIR = {
    "lj/cut": (("0.1 1", "0.3 1.3", "0.7 1.9"), ("", "2.2", "4.5"), ("4", "5.5")),
    "morse": (("0.1 1 1.2", "0.3 1.3 1.2"), ("", "2.2"), ("4", "5.5")),
    "coul/cut": (("",), ("", "3"), ("4", "5.5")),
    "lj/cut/coul/cut": (("0.2 1", "0.2 1.3"), ("", "3", "3 4"), ("5", "5 4")),
    "buck": (("1000 0.3 1", "900 0.3 10"), ("", "2.2"), ("4", "5.5")),
    "soft": (("1", "10"), ("", "2.2"), ("4", "5.5")),
    "ufm": (("0.2 1", "0.2 1.3"), ("", "3"), ("5", "4")),
    "lj/gromacs": (("0.2 1", "0.2 1.3"), ("", "2 3"), ("3 5", "4 5")),
    "born": (("2.5 0.15 1.8 29 1", "2.5 0.15 1.8 29 141"), ("", "3"), ("5", "4")),
}
BOND = {"harmonic": ("100 1.2", "200 1.1"), "morse": ("90 1.8 1.1", "50 1.8 1.1"), "class2": ("1.2 90 -10 2",)}
ANGLE = {"harmonic": ("40 109", "20 100"), "cosine": ("4", "2"), "charmm": ("30 109 4 2.1",)}


class Draw:
    """Draws the commands of one script."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["units real", "atom_style full"]
        self.styles: dict[str, list[str]] = {}
        self.hybrid: set[str] = set()
        self.sections = ""

    def script(self) -> str:
        """The whole of it."""
        if self.random.random() < 0.4:
            self.lines += [
                "pair_style lj/cut 5",
                "bond_style harmonic",
                "angle_style harmonic",
                "read_data system.data",
            ]
            self.styles = {"pair": ["lj/cut"], "bond": ["harmonic"], "angle": ["harmonic"]}
            self.sections = COEFFICIENTS
        else:
            self.lines.append("read_data system.data nocoeff")
        for _ in range(self.random.randint(1, 4)):
            self.draw_pairs()
        for kind, table in (("bond", BOND), ("angle", ANGLE)):
            if kind not in self.styles or self.random.random() < 0.5:
                self.draw_style(kind, table)
            for _ in range(self.random.randint(0, 2)):
                self.draw_coefficients(kind, table, self.range(2))
        if self.random.random() < 0.5:
            self.lines.append("special_bonds " + self.random.choice(["amber", "lj 0 0.2 0.5", "lj/coul 0.1 0.2 0.5"]))
        return "\n".join([*self.lines, "run 0\n"])

    def range(self, count: int) -> str:
        """A type, or a range of types."""
        low = self.random.randint(1, count)
        high = self.random.randint(low, count)
        return self.random.choice(["*", str(low), str(low), f"{low}*", f"*{high}", f"{low}*{high}"])

    def draw_pairs(self) -> None:
        """A pair style, now and then, and coefficients."""
        draw = self.random
        if "pair" not in self.styles or draw.random() < 0.6:
            self.hybrid.discard("pair")
            if draw.random() < 0.45:
                self.styles["pair"] = [draw.choice(list(PAIR)) for _ in range(draw.randint(2, 3))]
                self.hybrid.add("pair")
                words = [word for name in self.styles["pair"] for word in (name, draw.choice(PAIR[name][2]))]
                self.lines.append(" ".join(["pair_style", draw.choice(["hybrid", "hybrid/overlay"]), *words]))
            else:
                again = self.styles.get("pair", [""])[0]
                name = again if again and draw.random() < 0.5 else draw.choice(list(PAIR))
                self.styles["pair"] = [name]
                self.lines.append(f"pair_style {name} {draw.choice(PAIR[name][2])}")
        if draw.random() < 0.4:
            self.lines.append("pair_modify " + draw.choice(["mix arithmetic", "mix sixthpower", "shift yes"]))
        pairs = [(self.range(3), self.range(3)) for _ in range(draw.randint(0, 4))]
        pairs += [(str(i), str(j)) for i in (1, 2, 3) for j in range(i, 4) if draw.random() < 0.8]
        for one, other in pairs:
            self.draw_pair_coefficients(one, other)

    def draw_pair_coefficients(self, one: str, other: str) -> None:
        draw, styles = self.random, self.styles["pair"]
        at = draw.randrange(len(styles))
        name = styles[at]
        words = [draw.choice(PAIR[name][0]), draw.choice(PAIR[name][1])]
        if "pair" in self.hybrid:
            index = [str(styles[: at + 1].count(name))] if styles.count(name) > 1 else []
            words = ["none"] if draw.random() < 0.08 else [name, *index, *words]
        self.lines.append(" ".join(["pair_coeff", one, other, *words]))

    def draw_style(self, kind: str, table: dict[str, tuple[str, ...]]) -> None:
        """A style of bonds or angles, and coefficients for all types."""
        self.hybrid.discard(kind)
        if self.random.random() < 0.4:
            self.styles[kind] = self.random.sample(list(table), 2)
            self.hybrid.add(kind)
            self.lines.append(f"{kind}_style hybrid {' '.join(self.styles[kind])}")
            for number, name in enumerate(self.styles[kind], 1):
                self.lines.append(f"{kind}_coeff {number} {name} {table[name][0]}")
            return
        self.styles[kind] = [self.random.choice(list(table))]
        self.lines.append(f"{kind}_style {self.styles[kind][0]}")
        self.draw_coefficients(kind, table, "*")

    def draw_coefficients(self, kind: str, table: dict[str, tuple[str, ...]], types: str) -> None:
        name = self.random.choice(self.styles[kind])
        sub = f"{name} " if kind in self.hybrid else ""
        self.lines.append(f"{kind}_coeff {types} {sub}{self.random.choice(table[name])}")


@needs_lammps
@pytest.mark.parametrize("seed", range(16))
def test_the_same_energies_or_the_same_refusal(seed: int, tmp_path: Path) -> None:
    draw = Draw(seed)
    (tmp_path / "in.lmp").write_text(draw.script())
    (tmp_path / "system.data").write_text(DATA.format(coefficients=draw.sections))
    code = "lmp.file({!r})\nfor n in {!r}: out[n] = lmp.get_thermo(n)"
    original = lammps(tmp_path, code.format("in.lmp", TERMS))
    try:
        potential, doubts = potential_in(tmp_path / "in.lmp")
    except FormatError:
        assert "error" in original
        return
    assert not doubts
    (tmp_path / "again.lmp").write_text(restated(tmp_path / "in.lmp", potential))
    again = lammps(tmp_path, code.format("again.lmp", TERMS))
    if "error" in original:
        assert original["error"].splitlines()[0] == again["error"].splitlines()[0]
    else:
        assert original == again
