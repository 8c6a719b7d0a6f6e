"""What a force-field style is: its parameters with their dimensions, and its energy, in each of the two definitions.

A plugin returns `StyleDefinition` objects from the hook `molrec_styles`.
Source: Force field, "Registry" and "Version 2 definitions".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["DEFINITIONS", "STANDARD_STYLES", "Parameter", "StyleDefinition"]

#: The definitions there are.
DEFINITIONS = (1, 2)
#: A radian in degrees and the reverse, as far as an expression needs them.
_DEGREE = "0.017453292519943295"
_RADIAN = "57.29577951308232"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a style.

    `name` is that of definitions 1, `later` that of definitions 2 where it is another. `dimension` is made of `E`
    energy, `L` length, `A` angle, `Q` charge, `M` mass and `T` time ("E/L^2"; "1" for a pure number). `halved`: the
    number of definitions 2 is half that of definitions 1. `default` is the value of a row that has none; without a
    default a row must have one, unless the parameter is `optional`. `indexed` names the definitions in which a style
    may have several terms, their parameters numbered from 1 ("phase1", "phase2", …); `bare`: or a single one without a
    number. `fallback` names the parameter whose value stands in for a null of this one. `axes` counts the trailing
    axes of an array. `mixing` says how the value for two unlike types comes from the two own ones: as an `energy`, as a
    `distance`, or not at all.
    """

    name: str
    dimension: str = "1"
    default: float | str | None = None
    halved: bool = False
    later: str | None = None
    indexed: tuple[int, ...] = ()
    bare: bool = True
    axes: int = 0
    mixing: str | None = None
    fallback: str | None = None
    optional: bool = False

    @property
    def is_angle(self) -> bool:
        """Whether the value is an angle."""
        return self.dimension == "A"

    @property
    def per_angle(self) -> int:
        """The power of the angle a force constant is divided by."""
        found = re.search(r"/A(?:\^(\d+))?", self.dimension)
        return 0 if found is None else int(found[1] or 1)

    @property
    def required(self) -> bool:
        """Whether a row without it cannot be priced."""
        return self.default is None and not self.optional

    def named(self, definitions: int) -> str:
        """Return the name in the definitions."""
        return self.later if definitions == 2 and self.later is not None else self.name


@dataclass(frozen=True)
class StyleDefinition:
    """One style: category, name, parameters of its rows and of the style itself, and its energy.

    `expression` is the energy of one term in the syntax of Lepton, angles in radians, the same in both definitions or
    one for each; None where the energy is no such formula, and `energy` says in words what it is. Its variables are
    `r`, `theta`, `phi`, `chi`, `q1`, `q2`, the points `p1`, `p2`, … and the parameters. Where parameters are numbered
    it is the energy of one of the summed terms, `{m}` stands for the number and `{n}` for one less. `definitions` are
    those in which the name is registered. `special` is the set of 1-2, 1-3, 1-4 weights a pair style takes, `mixing`
    the rule of a pair style that states none. `rows`: whether the style needs rows at all.
    """

    category: str
    style: str
    parameters: tuple[Parameter, ...] = ()
    expression: str | tuple[str, str] | None = None
    energy: str = ""
    style_parameters: tuple[Parameter, ...] = ()
    definitions: tuple[int, ...] = DEFINITIONS
    special: str | None = None
    mixing: str | None = None
    rows: bool = True

    @property
    def name(self) -> str:
        """`bond.harmonic`: category and style, for messages."""
        return f"{self.category}.{self.style}"

    def parameter(self, column: str, definitions: int) -> Parameter | None:
        """Return the parameter a column holds, None for a column the style does not know."""
        for entry in self.parameters:
            name = entry.named(definitions)
            if column == name and (entry.bare or definitions not in entry.indexed):
                return entry
            if definitions in entry.indexed and _number(column, name):
                return entry
        return None

    def terms(self, columns: Iterable[str], definitions: int) -> list[str]:
        """Return the numbers of the terms some columns hold, ascending; [""] when the parameters are not numbered."""
        indexed = [entry.named(definitions) for entry in self.parameters if definitions in entry.indexed]
        found = {_number(column, name) for column in columns for name in indexed} - {""}
        return sorted(found, key=int) or [""]

    def formula(self, definitions: int, columns: Iterable[str] = (), angle: str = "radian") -> str | None:
        """Return the energy as an expression of the parameters as they are stored, None where there is none.

        `columns` are those of the table (they say how many terms there are), `angle` is `units.angle`. The sum of the
        terms is written out, and angles come in radians: a parameter in degrees is converted where it stands.
        """
        if self.expression is None or definitions not in self.definitions:
            return None
        text = self.expression if isinstance(self.expression, str) else self.expression[definitions - 1]
        formula, semicolon, rest = text.partition(";")
        names = self.terms(columns, definitions)
        terms = [formula.replace("{m}", name).replace("{n}", str(int(name or 1) - 1)) for name in names]
        if angle == "degree":
            scales = self._scales(definitions, names)
            terms = [_scaled(term, scales) for term in terms]
            rest = _scaled(rest, scales)
        return "+".join(terms) + semicolon + rest

    def _scales(self, definitions: int, terms: list[str]) -> dict[str, str]:
        """Return variable → factor that takes its value from degrees to radians."""
        scales: dict[str, str] = {}
        for entry in self.parameters:
            factors = [_DEGREE] if entry.is_angle else [_RADIAN] * (entry.per_angle if definitions == 1 else 0)
            if factors:
                numbers = terms if definitions in entry.indexed else [""]
                scales |= {entry.named(definitions) + number: "*".join(factors) for number in numbers}
        return scales


def _number(column: str, name: str) -> str:
    """Return the number behind a name: "2" for `phase2` of `phase`; empty when there is none."""
    tail = column[len(name) :]
    return tail if column.startswith(name) and re.fullmatch(r"[1-9][0-9]{0,3}", tail) else ""


def _scaled(text: str, scales: dict[str, str]) -> str:
    return _NAME.sub(lambda name: f"({name[0]}*{scales[name[0]]})" if name[0] in scales else name[0], text)


_P = Parameter
_S = StyleDefinition

_EPSILON = _P("epsilon", "E", mixing="energy")
_SIGMA = _P("sigma", "L", mixing="distance")
#: A pair's own cutoff, where a source states one; LAMMPS mixes it as it mixes sigma.
_OWN_CUTOFF = _P("cutoff", "L", optional=True, mixing="distance")
_CUTOFF = _P("cutoff", "L", float("inf"))
_INNER = _P("inner", "L")
_COULOMB = (_P("coulomb", "E*L/Q^2"), _P("dielectric", "1", 1.0))
_MIXING = _P("mixing", "1", optional=True)
_EXPONENTS = (_P("n", "1", 12.0), _P("m", "1", 6.0), _P("shift", "1", 0.0))

_COSINE = "k{m}*(1+cos(periodicity{m}*phi-phase{m}))"
_POLYNOMIAL = "k2*d^2+k3*d^3+k4*d^4"
_LENNARD_JONES = (
    "C*epsilon*((sigma/r)^n-(sigma/r)^m-select(shift,(sigma/cutoff)^n-(sigma/cutoff)^m,0));C=n/(n-m)*(n/m)^(m/(n-m))"
)
_SWITCH = "S=select(step(inner-r),1,(cutoff^2-r^2)^2*(cutoff^2+2*r^2-3*inner^2)/(cutoff^2-inner^2)^3)"


def _cosines(*, later: bool) -> tuple[Parameter, ...]:
    """Return `k`, `periodicity`, `phase`, once or once per term (`later`: also in definitions 2)."""
    indexed = (1, 2) if later else (1,)
    return (
        _P("k", "E", indexed=indexed),
        _P("periodicity", "1", indexed=indexed),
        _P("phase", "A", 0.0, indexed=indexed),
    )


def _energies(names: str, default: float | None = 0.0) -> tuple[Parameter, ...]:
    return tuple(_P(name, "E", default) for name in names.split())


STANDARD_STYLES: tuple[StyleDefinition, ...] = (
    _S("atom", "full", (_P("mass", "M", optional=True), _P("charge", "Q", optional=True)), energy="none"),
    # bonds
    _S(
        "bond",
        "harmonic",
        (_P("k", "E/L^2", halved=True), _P("r0", "L")),
        ("0.5*k*(r-r0)^2", "k*(r-r0)^2"),
    ),
    _S(
        "bond",
        "morse",
        (_P("D", "E", later="d0"), _P("alpha", "1/L"), _P("r0", "L")),
        ("D*(1-exp(-alpha*(r-r0)))^2", "d0*(1-exp(-alpha*(r-r0)))^2"),
    ),
    _S(
        "bond",
        "class2",
        (_P("r0", "L"), _P("k2", "E/L^2"), _P("k3", "E/L^3"), _P("k4", "E/L^4")),
        f"{_POLYNOMIAL};d=r-r0",
    ),
    # angles
    _S(
        "angle",
        "harmonic",
        (_P("k", "E/A^2", halved=True), _P("theta0", "A")),
        ("0.5*k*(theta-theta0)^2", "k*(theta-theta0)^2"),
    ),
    _S(
        "angle",
        "class2",
        (_P("theta0", "A"), _P("k2", "E/A^2"), _P("k3", "E/A^3"), _P("k4", "E/A^4")),
        f"{_POLYNOMIAL};d=theta-theta0",
    ),
    _S(
        "angle",
        "charmm",
        (_P("k", "E/A^2"), _P("theta0", "A"), _P("k_ub", "E/L^2"), _P("r_ub", "L")),
        "k*(theta-theta0)^2+k_ub*(distance(p1,p3)-r_ub)^2",
        definitions=(2,),
    ),
    # dihedrals
    _S("dihedral", "periodic", _cosines(later=True), _COSINE),
    _S(
        "dihedral",
        "opls",
        _energies("k1 k2 k3 k4"),
        "0.5*(k1*(1+cos(phi))+k2*(1-cos(2*phi))+k3*(1+cos(3*phi))+k4*(1-cos(4*phi)))",
    ),
    _S(
        "dihedral",
        "rb",
        _energies("c0 c1 c2 c3 c4 c5"),
        "c0+c1*c+c2*c^2+c3*c^3+c4*c^4+c5*c^5;c=cos(phi-3.141592653589793)",
    ),
    _S(
        "dihedral",
        "charmm",
        (_P("k", "E"), _P("periodicity"), _P("phase", "A", 0.0), _P("w", "1", 0.0)),
        "k*(1+cos(periodicity*phi-phase))",
        energy="w is the weight of the 1-4 pair of the end atoms",
    ),
    _S("dihedral", "harmonic", (_P("k", "E"), _P("sign"), _P("periodicity")), "k*(1+sign*cos(periodicity*phi))"),
    _S(
        "dihedral",
        "multi/harmonic",
        _energies("a1 a2 a3 a4 a5"),
        "a1+a2*c+a3*c^2+a4*c^3+a5*c^4;c=cos(phi)",
    ),
    _S(
        "dihedral",
        "nharmonic",
        (_P("a", "E", indexed=(2,), bare=False),),
        "a{m}*cos(phi)^{n}",
        definitions=(2,),
    ),
    _S(
        "dihedral",
        "class2",
        tuple(_P(f"{name}{n}", dimension, 0.0) for n in (1, 2, 3) for name, dimension in (("k", "E"), ("phi", "A"))),
        "k1*(1-cos(phi-phi1))+k2*(1-cos(2*phi-phi2))+k3*(1-cos(3*phi-phi3))",
    ),
    # impropers
    _S("improper", "harmonic", (_P("k", "E/A^2"), _P("chi0", "A", 0.0)), "k*(chi-chi0)^2"),
    _S("improper", "periodic", _cosines(later=False), _COSINE),
    _S("improper", "cvff", (_P("k", "E"), _P("sign"), _P("periodicity")), "k*(1+sign*cos(periodicity*chi))"),
    _S(
        "improper",
        "trefoil",
        _cosines(later=True),
        energy="a third of the sum, over the three orderings of the outer atoms around jtom, of dihedral.periodic",
    ),
    # pairs
    _S(
        "pair",
        "lj/cut",
        (_EPSILON, _SIGMA, _OWN_CUTOFF),
        _LENNARD_JONES,
        style_parameters=(_CUTOFF, _MIXING, *_EXPONENTS),
        special="lj",
    ),
    _S(
        "pair",
        "lj/class2",
        (_EPSILON, _SIGMA, _OWN_CUTOFF),
        "epsilon*(2*(sigma/r)^9-3*(sigma/r)^6)",
        style_parameters=(_CUTOFF, _MIXING),
        special="lj",
    ),
    _S(
        "pair",
        "lj/charmm",
        (
            _EPSILON,
            _SIGMA,
            _P("epsilon14", "E", optional=True, mixing="energy", fallback="epsilon"),
            _P("sigma14", "L", optional=True, mixing="distance", fallback="sigma"),
        ),
        f"4*epsilon*((sigma/r)^12-(sigma/r)^6)*S;{_SWITCH}",
        style_parameters=(_INNER, _CUTOFF, _MIXING, _P("one_four", "1", "regular")),
        definitions=(2,),
        special="lj",
        mixing="arithmetic",
    ),
    _S(
        "pair",
        "buck",
        (_P("a", "E"), _P("rho", "L"), _P("c", "E*L^6")),
        "a*exp(-r/rho)-c/r^6",
        style_parameters=(_CUTOFF,),
        special="lj",
    ),
    _S(
        "pair",
        "morse",
        (_P("d0", "E"), _P("alpha", "1/L"), _P("r0", "L")),
        "d0*((1-exp(-alpha*(r-r0)))^2-1)",
        style_parameters=(_CUTOFF,),
        special="lj",
    ),
    _S(
        "pair",
        "coul/cut",
        (),
        "coulomb*q1*q2/(dielectric*(r+delta))",
        style_parameters=(*_COULOMB, _P("delta", "L", 0.0), _CUTOFF),
        special="coul",
        rows=False,
    ),
    _S(
        "pair",
        "coul/charmm",
        (),
        f"coulomb*q1*q2/(dielectric*r)*S;{_SWITCH}",
        style_parameters=(*_COULOMB, _INNER, _CUTOFF),
        definitions=(2,),
        special="coul",
        rows=False,
    ),
    _S(
        "pair",
        "coul/long/pme",
        (),
        energy="coulomb*q1*q2/r summed over all images, by particle-mesh Ewald",
        style_parameters=(
            _COULOMB[0],
            _P("cutoff", "L"),
            _P("alpha", "1/L", optional=True),
            *(_P(name, "1", optional=True) for name in ("order", "grid_x", "grid_y", "grid_z")),
        ),
        special="coul",
        rows=False,
    ),
    _S(
        "pair",
        "thole",
        (_P("charge", "Q"), _P("alpha", "L^3"), _P("damp")),
        energy="the screened Coulomb energy of two induced dipoles",
        definitions=(2,),
        special="coul",
    ),
    _S("pair14", "lj/cut", (_EPSILON, _SIGMA), "4*epsilon*((sigma/r)^12-(sigma/r)^6)", definitions=(1,)),
    # what holds sites together
    _S("constraint", "fixed", (_P("r0", "L"),), energy="the distance is r0"),
    _S("virtual_site", "average2", (_P("w1"), _P("w2")), energy="the site is at w1*x_j+w2*x_k"),
    _S("virtual_site", "average3", (_P("w1"), _P("w2"), _P("w3")), energy="the site is at w1*x_j+w2*x_k+w3*x_l"),
    _S(
        "virtual_site",
        "outofplane3",
        (_P("w12"), _P("w13"), _P("wcross", "1/L")),
        energy="the site is at x_j+w12*r_jk+w13*r_jl+wcross*(r_jk x r_jl)",
    ),
    _S(
        "drude",
        "harmonic",
        (_P("k", "E/L^2", halved=True), _P("alpha", "L^3", optional=True), _P("thole", "1", optional=True)),
        ("0.5*k*r^2", "k*r^2"),
    ),
    _S(
        "cmap",
        "charmm",
        (_P("grid", "E", axes=2),),
        energy="the map at the two dihedrals, interpolated bicubically",
        definitions=(2,),
    ),
)
