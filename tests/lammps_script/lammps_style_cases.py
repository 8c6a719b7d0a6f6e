"""Systems and commands for as many of LAMMPS' styles as run on a few atoms: numbers of our own, in units `real`.

Three waters (types 1 O and 2 H) and three chains of four atoms (type 3), with charges; two types of bonds and angles,
one of dihedrals and impropers. Under a pair style's name stand its arguments, `|`, the words for `* *`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

BOX = 24.0
_KSPACE = ["kspace_style pppm 1.0e-5", "kspace_modify gewald 0.3 mesh 12 12 12"]
_MSM = ["kspace_style msm 1.0e-4", "kspace_modify pressure/scalar no"]
_DISPERSION = [
    "kspace_style pppm/disp 1.0e-4",
    "kspace_modify gewald 0.3 mesh 12 12 12 gewald/disp 0.2 mesh/disp 8 8 8",
]
_TIP4P = ["kspace_style pppm/tip4p 1.0e-5", "kspace_modify gewald 0.3 mesh 24 24 24"]
_WATER = "1 2 1 1 0.15"

PAIRS: dict[str, str] = {
    "lj/cut": "8.0 | 0.12 3.3",
    "lj/cut/coul/cut": "8.0 9.0 | 0.12 3.3",
    "lj/cut/coul/debye": "0.3 8.0 9.0 | 0.12 3.3",
    "lj/cut/coul/dsf": "0.05 8.0 9.0 | 0.12 3.3",
    "lj/cut/coul/wolf": "0.05 8.0 9.0 | 0.12 3.3",
    "lj/cut/tip4p/cut": f"{_WATER} 8.0 | 0.12 3.3",
    "tip4p/cut": f"{_WATER} 8.0 |",
    "lj/charmm/coul/charmm": "6.0 8.0 | 0.12 3.3 0.1 3.1",
    "lj/charmm/coul/charmm/implicit": "6.0 8.0 | 0.12 3.3",
    "lj/charmmfsw/coul/charmmfsh": "6.0 8.0 | 0.12 3.3",
    "lj/class2": "8.0 | 0.12 3.3",
    "lj/class2/coul/cut": "8.0 | 0.12 3.3",
    "lj/class2/soft": "2 0.5 8.0 | 0.12 3.3 0.6",
    "lj/class2/coul/cut/soft": "2 0.5 10.0 8.0 | 0.12 3.3 0.6",
    "lj/expand": "8.0 | 0.12 3.3 0.4",
    "lj/gromacs": "6.0 8.0 | 0.12 3.3",
    "lj/gromacs/coul/gromacs": "6.0 8.0 0.5 7.0 | 0.12 3.3",
    "lj/smooth": "6.0 8.0 | 0.12 3.3",
    "lj/smooth/linear": "8.0 | 0.12 3.3",
    "lj/sf": "8.0 | 0.12 3.3",
    "lj/cubic": " | 0.12 3.3",
    "lj96/cut": "8.0 | 0.12 3.3",
    "mie/cut": "8.0 | 0.12 3.3 11.5 5.5",
    "buck": "8.0 | 1000.0 0.3 20.0",
    "buck/coul/cut": "8.0 | 1000.0 0.3 20.0",
    "buck/mdf": "6.0 8.0 | 1000.0 0.3 20.0",
    "born": "8.0 | 2.5 0.35 1.8 29.0 141.0",
    "born/coul/wolf": "0.05 8.0 | 2.5 0.35 1.8 29.0 141.0",
    "born/coul/dsf": "0.05 8.0 | 2.5 0.35 1.8 29.0 141.0",
    "born/gauss": "8.0 | 82.4 2.48 0.42 0.44 3.56",
    "morse": "8.0 | 0.2 2.1 2.5",
    "morse/smooth/linear": "8.0 | 0.2 2.1 2.5",
    "morse/soft": "4 0.9 8.0 | 0.2 2.1 2.5 0.7",
    "yukawa": "0.5 8.0 | 13.5",
    "coul/cut": "8.0 |",
    "coul/cut/global": "8.0 |",
    "coul/debye": "0.3 8.0 |",
    "coul/dsf": "0.05 8.0 |",
    "coul/wolf": "0.05 8.0 |",
    "coul/slater/cut": "0.9 8.0 |",
    "coul/diel": "8.0 | 78.0 2.2 0.8",
    "coul/exclude": "8.0 |",
    "coul/cut/soft": "2 10.0 8.0 | 0.6",
    "coul/shield": "8.0 1 | 0.7",
    "soft": "6.0 | 2.6",
    "gauss": "8.0 | 2.6 0.13",
    "gauss/cut": "8.0 | 2.6 3.2 0.65",
    "harmonic/cut": " | 2.6 4.5",
    "nm/cut": "8.0 | 0.02 2.5 12.0 6.0",
    "nm/cut/split": "8.0 | 0.02 2.5 12.0 6.0",
    "nm/cut/coul/cut": "8.0 | 0.02 2.5 12.0 6.0",
    "ufm": "8.0 | 10.0 3.2",
    "pedone": "8.0 | 0.03 2.24 2.92 5.0",
    "dpd": "300.0 6.0 4711 | 25.0 4.5",
    "dpd/ext": "300.0 6.0 4711 | 25.0 4.5 3.5 0.5 0.4",
    "lj/cut/soft": "1.0 0.5 8.0 | 0.12 3.3 0.7",
    "lj/cut/coul/cut/soft": "1.0 0.5 10.0 8.0 | 0.12 3.3 0.7",
    "lj/mdf": "6.0 8.0 | 0.12 3.3",
    "lennard/mdf": "6.0 8.0 | 800000.0 600.0",
    "lj/spica": "8.0 | lj9_6 0.12 3.3",
    "lj/sdk": "8.0 | lj12_4 0.12 3.3",
    "cosine/squared": "8.0 | 0.12 3.3 7.0 wca",
    "wf/cut": "8.0 | 0.12 3.3 2 1",
    "zbl": "3.0 4.0 | 14.0 14.0",
    "beck": "8.0 | 400.0 50.0 0.7 4.0 0.0016",
    "lj/relres": "4.0 5.0 6.0 8.0 | 0.12 3.0 0.2 3.4",
    "lj/pirani": "8.0 | 4.0 8.0 6.0 3.5 0.13",
    "momb": "8.0 0.75 20.0 | 0.2 2.1 2.5 300.0 3.4",
    "buck6d/coul/gauss/dsf": "0.9 8.0 | 5000.0 3.6 120.0 100.0 0.7",
    "hbond/dreiding/lj": "4 6.0 7.0 90 | 2 i 4.0 2.9",
    "hbond/dreiding/morse": "2 6.0 7.0 90 | 2 i 4.0 1.8 2.9",
    "hbond/dreiding/lj/angleoffset": "4 6.0 7.0 90 120 | 2 i 4.0 2.9",
    "hbond/dreiding/morse/angleoffset": "2 6.0 7.0 90 120 | 2 i 4.0 1.8 2.9",
    "atm": "6.0 5.0 | * 700.0",
    "zero": "8.0 |",
    "lepton": '8.0 | "4*e*((s/r)^12-(s/r)^6);e=0.12;s=3.3"',
    "lepton/coul": '8.0 | "300.0*qi*qj/r"',
}
LONG: dict[str, tuple[str, list[str]]] = {
    "coul/long": ("8.0 |", _KSPACE),
    "coul/long/cs": ("8.0 |", _KSPACE),
    "coul/long/soft": ("2 10.0 8.0 | 0.6", _KSPACE),
    "coul/slater/long": ("0.9 8.0 |", _KSPACE),
    "lj/cut/coul/long": ("8.0 9.0 | 0.12 3.3", _KSPACE),
    "lj/cut/coul/long/cs": ("8.0 | 0.12 3.3", _KSPACE),
    "lj/cut/coul/long/soft": ("1.0 0.5 10.0 8.0 | 0.12 3.3 0.7", _KSPACE),
    "lj/class2/coul/long": ("8.0 | 0.12 3.3", _KSPACE),
    "lj/class2/coul/long/cs": ("8.0 | 0.12 3.3", _KSPACE),
    "lj/class2/coul/long/soft": ("2 0.5 10.0 8.0 | 0.12 3.3 0.6", _KSPACE),
    "lj/expand/coul/long": ("8.0 | 0.12 3.3 0.4", _KSPACE),
    "lj/charmm/coul/long": ("6.0 8.0 | 0.12 3.3", _KSPACE),
    "lj/charmm/coul/long/soft": ("1 0.5 10.0 6.0 8.0 | 0.12 3.3 0.7", _KSPACE),
    "lj/charmmfsw/coul/long": ("6.0 8.0 | 0.12 3.3", _KSPACE),
    "buck/coul/long": ("8.0 | 1000.0 0.3 20.0", _KSPACE),
    "buck/coul/long/cs": ("8.0 | 1000.0 0.3 20.0", _KSPACE),
    "born/coul/long": ("8.0 | 2.5 0.35 1.8 29.0 141.0", _KSPACE),
    "born/coul/long/cs": ("8.0 | 2.5 0.35 1.8 29.0 141.0", _KSPACE),
    "nm/cut/coul/long": ("8.0 | 0.02 2.5 12.0 6.0", _KSPACE),
    "lj/spica/coul/long": ("8.0 | lj9_6 0.12 3.3", _KSPACE),
    "lj/sdk/coul/long": ("8.0 | lj12_4 0.12 3.3", _KSPACE),
    "lj/switch3/coulgauss/long": ("8.0 8.0 2.0 | 0.12 3.3 0.9", _KSPACE),
    "mm3/switch3/coulgauss/long": ("8.0 8.0 2.0 | 0.12 3.3 0.9", _KSPACE),
    "buck6d/coul/gauss/long": ("0.9 0.9 8.0 | 5000.0 3.6 120.0 100.0 0.7", _KSPACE),
    "coul/msm": ("8.0 |", _MSM),
    "lj/cut/coul/msm": ("8.0 | 0.12 3.3", _MSM),
    "lj/charmm/coul/msm": ("6.0 8.0 | 0.12 3.3", _MSM),
    "buck/coul/msm": ("8.0 | 1000.0 0.3 20.0", _MSM),
    "born/coul/msm": ("8.0 | 2.5 0.35 1.8 29.0 141.0", _MSM),
    "lj/spica/coul/msm": ("8.0 | lj9_6 0.12 3.3", _MSM),
    "lj/sdk/coul/msm": ("8.0 | lj12_4 0.12 3.3", _MSM),
    "lj/long/coul/long": ("long long 8.0 | 0.12 3.3", _DISPERSION),
    "buck/long/coul/long": ("long long 8.0 | 1000.0 0.3 20.0", _DISPERSION),
    "tip4p/long": (f"{_WATER} 8.0 |", _TIP4P),
    "tip4p/long/soft": (f"{_WATER} 2 10.0 8.0 | 0.6", _TIP4P),
    "lj/cut/tip4p/long": (f"{_WATER} 8.0 | 0.12 3.3", _TIP4P),
    "lj/cut/tip4p/long/soft": (f"{_WATER} 1.0 0.5 10.0 8.0 | 0.12 3.3 0.7", _TIP4P),
}
#: Relations: style → words of the first type, and of cross terms by their word. The second type is the same.
BONDED: dict[str, dict[str, Any]] = {
    "bond": {
        "harmonic": "250.5 1.38",
        "morse": "90.0 1.8 1.3",
        "class2": "1.35 300.1 -400.5 500.25",
        "fene": "30.0 2.5 0.3 1.2",
        "fene/expand": "30.0 2.5 0.3 1.2 0.1",
        "fene/nm": "30.0 2.5 0.3 1.6 12 6",
        "gaussian": "300.0 2 0.7 0.4 1.2 0.3 0.5 1.5",
        "gromos": "120.5 1.3",
        "harmonic/shift": "20.5 1.2 2.0",
        "harmonic/shift/cut": "20.5 1.2 2.0",
        "mm3": "200.0 1.36",
        "nonlinear": "100.0 1.2 1.5",
        "zero": "1.5",
        "lepton": '1.2 "k*r^2;k=250"',
        "quartic": "1200 -0.55 0.25 1.3 34.6878",
        "mesocnt": "C 10 10 1.4",
    },
    "angle": {
        "harmonic": "58.35 112.7",
        "charmm": "33.43 110.1 22.53 2.179",
        "class2": {"": "111.2 50.1 -7.5 3.25", "bb": "3.4 1.4 1.3", "ba": "12.5 -7.25 1.4 1.3"},
        "class2/p6": {"": "111.2 50.1 -7.5 3.25 2.5 1.25", "bb": "3.4 1.4 1.3", "ba": "12.5 -7.25 1.4 1.3"},
        "cosine": "75.0",
        "cosine/delta": "75.0 100.5",
        "cosine/periodic": "75.0 -1 3",
        "cosine/shift": "10.0 100.5",
        "cosine/shift/exp": "10.0 100.5 2.0",
        "cosine/squared": "75.0 100.5",
        "cosine/squared/restricted": "75.0 100.5",
        "cross": "200.0 100.0 90.0 1.2 1.5 110.5",
        "fourier": "75.0 1.0 0.5 0.25",
        "fourier/simple": "75.0 -1.0 2.5",
        "gaussian": "300.0 2 0.7 0.4 100.0 0.3 0.5 120.0",
        "mm3": "60.0 105.5",
        "mwlc": "25.0 1.0 10.0 300.0",
        "quartic": "107.5 40.0 -10.0 5.5",
        "zero": "110.0",
        "lepton": '104.0 "k*theta^2;k=55"',
        "mesocnt": "harmonic C 10 10 1.4",
    },
    "dihedral": {
        "charmm": "0.16 3 160 0",
        "class2": {
            "": "1.1 10.5 0.7 -20.25 0.3 30.0",
            "mbt": "1.1 0.9 0.7 1.2",
            "ebt": "1.1 0.9 0.7 0.6 0.5 0.4 1.35 1.25",
            "at": "1.1 0.9 0.7 0.6 0.5 0.4 110.5 105.25",
            "aat": "4.5 110.5 105.25",
            "bb13": "7.5 1.3 1.4",
        },
        "cosine/shift/exp": "10.0 35.5 2.0",
        "cosine/squared/restricted": "5.0 35.5",
        "fourier": "3 1.3 1 180.0 -0.4 2 35.5 0.7 4 0.0",
        "harmonic": "1.5 -1 2",
        "helix": "1.5 0.7 0.3",
        "multi/harmonic": "1.5 0.7 -0.3 0.25 0.1",
        "nharmonic": "4 1.5 0.7 -0.3 0.25",
        "opls": "1.3 -0.05 0.2 0.4",
        "quadratic": "8.0 -170.5",
        "spherical": "1 2.5 1 169.3 1 1 60.0 1 1 80.0 1",
        "zero": "",
        "lepton": '"k*(1+cos(phi));k=1.5"',
    },
    "improper": {
        "harmonic": "4.5 35.5",
        "cvff": "1.5 -1 2",
        "class2": {"": "35.5 3.25", "aa": "4.5 3.5 2.5 110.5 105.25 120.0"},
        "cossq": "45.0 20.5",
        "distance": "12.5 3.5",
        "distharm": "12.5 0.3",
        "sqdistharm": "12.5 0.2",
        "fourier": "14.5 1.0 0.5 0.25",
        "inversion/harmonic": "14.5 20.5",
        "ring": "0.75 120.5",
        "umbrella": "14.5 20.5",
        "zero": "",
    },
}
#: Commands a pair style needs beside: no epsilon of hydrogen in TIP4P, velocities of ghost atoms.
_BESIDE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("lj/cut/tip4p/cut", "lj/cut/tip4p/long"), ("pair_coeff * 2 0.0 1.0", "pair_coeff 2 3 0.0 1.0")),
    "lj/cut/tip4p/long/soft": ("pair_coeff * 2 0.0 1.0 0.7", "pair_coeff 2 3 0.0 1.0 0.7"),
    **dict.fromkeys(("dpd", "dpd/ext"), ("comm_modify vel yes",)),
}
#: What `zero` is told, for the place of the charge in TIP4P.
_ZERO = {"bond": "0.96", "angle": "104.5"}
#: What a bond style wants of the weights of neighbours.
_WEIGHTS = {"quartic": "1 1 1", **dict.fromkeys(("fene", "fene/expand", "fene/nm"), "0 1 1")}
#: Pair styles of spheres, in units `real`; two types of different size.
SPHERES: dict[str, str] = {
    "lj/cut/sphere": "2.5 | 0.12 2.2",
    "lj/expand/sphere": "12.0 | 0.12 3.3",
    "colloid": "30.0 | 144.0 1.1 4.2 4.2",
    "yukawa/colloid": "0.3 30.0 | 25.0",
}
#: File styles in units `metal`: arguments, `|`, the words for `* *` with files that come with LAMMPS.
FILES: dict[str, str] = {
    "adp": " | AlCu.adp Al Cu",
    "agni": " | Al_jpc.agni Al Al",
    "airebo": "3.0 | CH.airebo C H",
    "airebo/morse": "3.0 | CH.airebo-m C H",
    "comb": " | ffield.comb Si O",
    "eam/alloy": " | CuNi.eam.alloy Cu Ni",
    "eam/cd": " | FeCr.cdeam Cr Fe",
    "eam/cd/old": " | FeCr.cdeam Cr Fe",
    "eam/fs": " | CuZr_mm.eam.fs Cu Zr",
    "eam/he": " | PdHHe.eam.he Pd He",
    "edip": " | Si.edip Si Si",
    "edip/multi": " | SiC.edip Si C",
    "eim": " | Na Cl ffield.eim Na Cl",
    "extep": " | BN.extep B N",
    "gw": " | SiC.gw Si C",
    "gw/zbl": " | SiC.gw.zbl Si C",
    "lcbop": " | C.lcbop C C",
    "meam": " | library.meam Si C SiC.meam Si C",
    "meam/ms": " | library.msmeam H Ga4 HGa.msmeam H Ga4",
    "meam/spline": " | TiO.meam.spline Ti O",
    "meam/sw/spline": " | Ti.meam.sw.spline Ti Ti",
    "nb3b/harmonic": " | MOH.nb3b.harmonic M O",
    "nb3b/screened": " | PSiO.nb3b.screened O Si",
    "polymorphic": " | GaN_tersoff.poly Ga N",
    "rebo": " | CH.rebo C H",
    "rebomos": " | MoS.rebomos Mo S",
    "snap": " | InP_JCPA2020.snapcoeff InP_JCPA2020.snapparam In P",
    "sw": " | GaN.sw Ga N",
    "sw/mod": " | tmd.sw.mod Mo S",
    "tersoff": " | SiC.tersoff Si C",
    "tersoff/mod": " | Si.tersoff.mod Si Si",
    "tersoff/mod/c": " | Si.tersoff.modc Si Si",
    "tersoff/zbl": " | SiC.tersoff.zbl Si C",
    "vashishta": " | SiC.vashishta Si C",
    "vashishta/table": "1000 0.1 | SiC.vashishta Si C",
}
#: Of these, the ones whose atoms see each other over short distances only.
_SHORT = ("extep", "gw", "gw/zbl", "rebo", "nb3b/harmonic", "nb3b/screened")
#: Hybrids in units `metal` whose file styles are for some types only, or stand beside others.
HYBRIDS: dict[str, list[str]] = {
    "kolmogorov/crespi/z of unlike types": [
        "pair_style hybrid/overlay lj/cut 3.0 kolmogorov/crespi/z 14.0",
        "pair_coeff * * lj/cut 0.0 1.0",
        "pair_coeff 1 2 kolmogorov/crespi/z CC.KC C C",
    ],
    "lebedeva/z of unlike types": [
        "pair_style hybrid/overlay lj/cut 3.0 lebedeva/z 14.0",
        "pair_coeff * * lj/cut 0.0 1.0",
        "pair_coeff 1 2 lebedeva/z CC.Lebedeva C C",
    ],
    "two sw, one of them without its angles": [
        "pair_style hybrid sw threebody on sw threebody off",
        "pair_coeff * * sw 1 Si.sw Si NULL",
        "pair_coeff * 2 sw 2 Si.sw Si Si",
    ],
    "sw of pairs alone": [
        "pair_style sw threebody off",
        "pair_coeff * * GaN.sw Ga N",
    ],
    "eam for all types, then another for one": [
        "pair_style eam",
        "pair_coeff * * Cu_u3.eam",
        "pair_coeff 2 2 Ni_u3.eam",
    ],
    "eam in a hybrid": [
        "pair_style hybrid/overlay eam morse 5.0",
        "pair_coeff * * eam Cu_u3.eam",
        "pair_coeff 1 2 morse 0.1 1.5 2.6",
    ],
    "tersoff of one type beside lj": [
        "pair_style hybrid tersoff lj/cut 5.0",
        "pair_coeff * * tersoff SiC.tersoff Si NULL",
        "pair_coeff 1 2 lj/cut 0.01 2.5",
        "pair_coeff 2 2 lj/cut 0.02 2.4",
    ],
}


def molecules() -> str:
    """Return a data file of units `real`: 21 atoms of atom style `full`."""
    rng = np.random.default_rng(12)
    water = np.array([[0.0, 0.0, 0.0], [0.96, 0.0, 0.05], [-0.24, 0.93, 0.0]])
    chain = np.array([[0.0, 0.0, 0.0], [1.35, 0.3, 0.1], [2.1, 1.45, -0.2], [3.4, 1.3, 0.55]])
    atoms, relations = [], {"Bonds": [], "Angles": [], "Dihedrals": [], "Impropers": []}  # type: ignore[var-annotated]
    for number in range(6):
        points = water if number < 3 else chain
        spin, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        corner = np.array([number % 2, number // 2 % 2, number // 4]) * 4.6 + 7.0
        first = len(atoms) + 1
        for place, point in enumerate((points + rng.normal(scale=0.04, size=points.shape)) @ spin + corner):
            kind = 3 if number >= 3 else 1 if place == 0 else 2
            charge = (-0.8, 0.4, 0.4)[place] if number < 3 else (0.3, -0.2, -0.25, 0.15)[place]
            atoms.append(f"{len(atoms) + 1} {number + 1} {kind} {charge} {' '.join(map(repr, point.tolist()))}")
        pairs, triples = (
            ([(0, 1), (0, 2)], [(1, 0, 2)]) if number < 3 else ([(0, 1), (1, 2), (2, 3)], [(0, 1, 2), (1, 2, 3)])
        )
        kind = 1 if number < 3 else 2
        relations["Bonds"] += [(kind, *(first + place for place in ends)) for ends in pairs]
        relations["Angles"] += [(kind, *(first + place for place in ends)) for ends in triples]
        if number >= 3:
            relations["Dihedrals"].append((1, first, first + 1, first + 2, first + 3))
            relations["Impropers"].append((1, first, first + 1, first + 2, first + 3))
    counts = "\n".join(f"{len(rows)} {name.lower()}" for name, rows in relations.items())
    tables = "".join(
        f"\n{name}\n\n" + "".join(f"{n} {' '.join(map(str, row))}\n" for n, row in enumerate(rows, 1))
        for name, rows in relations.items()
    )
    box = "".join(f"0.0 {BOX} {axis}lo {axis}hi\n" for axis in "xyz")
    types = "3 atom types\n2 bond types\n2 angle types\n1 dihedral types\n1 improper types\n"
    masses = "\nMasses\n\n1 15.9994\n2 1.008\n3 12.011\n"
    return (
        f"molecules\n\n{len(atoms)} atoms\n{counts}\n{types}{box}{masses}\nAtoms # full\n\n"
        + "\n".join(atoms)
        + f"\n{tables}"
    )


def crystal(constant: float = 4.1) -> str:
    """Return a data file of units `metal`: 32 charged atoms of two types near the places of a cubic lattice."""
    rng = np.random.default_rng(7)
    cells = np.array([[i, j, k] for i in range(2) for j in range(2) for k in range(2)], dtype=float)
    basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    points = ((cells[:, None] + basis).reshape(-1, 3)) * constant + rng.normal(scale=0.05, size=(32, 3))
    atoms = [
        f"{n} {1 + n % 2} {0.2 if n % 2 else -0.2} {' '.join(map(repr, point))}"
        for n, point in enumerate(points.tolist(), 1)
    ]
    box = "".join(f"0.0 {2 * constant} {axis}lo {axis}hi\n" for axis in "xyz")
    return (
        f"crystal\n\n32 atoms\n2 atom types\n{box}\nMasses\n\n1 28.0\n2 12.0\n\nAtoms # charge\n\n"
        + "\n".join(atoms)
        + "\n"
    )


def spheres() -> str:
    """Return a data file of units `real`: eight spheres of two sizes, atom style `sphere`."""
    rng = np.random.default_rng(3)
    places = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)]) * 5.5 + 10.0
    points = (places + rng.normal(scale=0.3, size=(8, 3))).tolist()
    atoms = [f"{n} {1 + n % 2} {4.2 if n % 2 else 3.1} 1.5 {' '.join(map(repr, p))}" for n, p in enumerate(points, 1)]
    box = "".join(f"0.0 40.0 {axis}lo {axis}hi\n" for axis in "xyz")
    return f"spheres\n\n8 atoms\n2 atom types\n{box}\nAtoms # sphere\n\n" + "\n".join(atoms) + "\n"


def molecule_script(category: str, style: str) -> list[str]:
    """Return the commands of a style on the molecules."""
    weights = _WEIGHTS.get(style, "0 0 0.5") if category == "bond" else "0 0 0.5"
    lines = ["units real", "atom_style full", f"special_bonds lj/coul {weights}"]
    bonded = [c for c in BONDED if not (style == "quartic" and category == "bond" and c != "bond")]
    lines += [f"{c}_style {style if c == category else 'zero'}" for c in bonded]
    lines.append("read_data s.data")
    words, extra = (PAIRS[style], []) if style in PAIRS else LONG.get(style, ("", []))
    arguments, _, coefficients = (words if category == "pair" else "8.0 | 0.0 1.0").partition("|")
    lines += [
        f"pair_style {style if category == 'pair' else 'lj/cut'} {arguments}",
        f"pair_coeff * * {coefficients}",
        *extra,
    ]
    lines += _BESIDE.get(style, ()) if category == "pair" else []
    for name in bonded:
        if name != category:
            lines.append(f"{name}_coeff * {_ZERO.get(name, '')}")
            continue
        stated = BONDED[name][style]
        for part, words in stated.items() if isinstance(stated, dict) else [("", stated)]:
            lines.append(f"{name}_coeff * {part} {words}")
    return lines


def file_script(style: str) -> list[str]:
    """Return the commands of a style whose numbers are in files, on the crystal."""
    arguments, _, words = FILES[style].partition("|")
    return [
        "units metal",
        "atom_style charge",
        "read_data s.data",
        f"pair_style {style} {arguments}",
        f"pair_coeff * * {words}",
    ]


def scripts() -> dict[str, tuple[str, list[str]]]:
    """Return the name of every case → its data file and its commands."""
    found = {f"pair {style}": (molecules(), molecule_script("pair", style)) for style in (*PAIRS, *LONG)}
    for category, styles in BONDED.items():
        found |= {f"{category} {style}": (molecules(), molecule_script(category, style)) for style in styles}
    for style, stated in SPHERES.items():
        arguments, _, words = stated.partition("|")
        lines = ["units real", "atom_style sphere", "read_data s.data", f"pair_style {style} {arguments}"]
        found[f"pair {style}"] = (spheres(), [*lines, f"pair_coeff * * {words}"])
    for style in FILES:
        found[f"pair {style}"] = (crystal(2.6 if style in _SHORT else 4.1), file_script(style))
    start = ["units metal", "atom_style charge", "read_data s.data"]
    return found | {name: (crystal(), [*start, *lines]) for name, lines in HYBRIDS.items()}


def write_case(directory: Path, data: str, commands: list[str]) -> None:
    """Write a script and its data file into a directory that is made."""
    directory.mkdir(parents=True)
    (directory / "s.data").write_text(data)
    (directory / "in.lmp").write_text("\n".join([*commands, "thermo_modify norm no", "run 0", ""]))


#: Runs of LAMMPS one after the other in one process; an error costs its own case only.
RUN_ALL = """
import os, pathlib
for name, directory in json.loads(pathlib.Path("jobs.json").read_text()).items():
    lmp.command("clear")
    os.chdir(directory)
    lines = [
        line
        for text in pathlib.Path("in.lmp").read_text().splitlines()
        for line in (pathlib.Path(text.split()[1]).read_text().splitlines() if text.startswith("include") else [text])
        if line.split("#")[0].strip()
    ]
    try:
        lmp.commands_list(lines)
        out[name] = {"pe": lmp.get_thermo("pe"), "f": list(lmp.gather_atoms("f", 1, 3))}
    except Exception as error:
        out[name] = {"error": str(error)}
    for variable in {line.split()[1] for line in lines if line.split()[0] == "variable"}:
        try:
            lmp.command(f"variable {variable} delete")
        except Exception:
            pass
"""


def jobs(directory: Path, folders: dict[str, Path]) -> None:
    """Write what `RUN_ALL` runs."""
    (directory / "jobs.json").write_text(json.dumps({name: str(folder) for name, folder in folders.items()}))
