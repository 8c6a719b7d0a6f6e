"""The styles of the contract, as data.

Dimensions: E energy, L length, A angle, Q charge, M mass. Where an energy differs between the definitions both are
given; a pair of expressions is for definitions 1 and 2. Source: Force field, "Registry, version 1" and "Version 2
definitions".
"""

from __future__ import annotations

from molrec_convert.forcefield.styles import Parameter, StyleDefinition

__all__ = ["STANDARD_STYLES"]

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
    """`k`, `periodicity`, `phase`, once or once per term (`later`: also in definitions 2)."""
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
