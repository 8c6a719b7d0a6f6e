"""Names of styles, and how the words behind a style or `*_coeff` command divide among the sub-styles of a hybrid.

The words between two names of styles are the arguments of the first; so it takes the names of all styles there are to
divide them. Source: the styles of LAMMPS of 22 Jul 2025 and of its packages; the manual, "pair_style hybrid".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from molrec_lammps.potential import PotentialStyle

__all__ = ["HYBRID", "MAPPED", "PARTS", "HybridWords", "bare_style", "is_style", "mapped_pairs", "split_hybrid"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: The hybrid styles, without suffix.
HYBRID = frozenset({"hybrid", "hybrid/overlay", "hybrid/scaled", "hybrid/molecular"})
#: First words of a row that states a cross term.
PARTS = _names("bb ba mbt ebt at aat bb13 aa ub")
#: Styles whose types are mapped to elements by one command for all of them: a second one starts over.
MAPPED = _names("""
    adp agni aip/water/2dm airebo airebo/morse amoeba bop comb comb3 drip eam/alloy eam/cd eam/cd/old eam/fs eam/he
    edip edip/multi eim extep gw gw/zbl hippo ilp/graphene/hbn ilp/tmd kolmogorov/crespi/full kolmogorov/crespi/z lcbop
    lebedeva/z meam meam/c meam/ms meam/spline meam/sw/spline mliap nb3b/harmonic nb3b/screened pace pace/extrapolation
    pod polymorphic quip rann reaxff rebo saip/metal snap sw sw/angle/table sw/mod tersoff tersoff/mod tersoff/mod/c
    tersoff/table tersoff/zbl threebody/table uf3 vashishta vashishta/table dispersion/d3 chimes deepmd mtp nequip
    allegro mace rebomos
    """)
#: Of these, the ones whose command does not end in one element for each type.
_UNMAPPED = frozenset({"amoeba", "hippo"})
_SUFFIX = re.compile(r"/(?:omp|opt|gpu|intel|kk(?:/host|/device)?)$")

_NAMES: dict[str, frozenset[str]] = {
    "pair": _names("""
        adp agni aip/water/2dm airebo airebo/morse amoeba atm beck body/nparticle body/rounded/polygon
        body/rounded/polyhedron bop born born/coul/dsf born/coul/dsf/cs born/coul/long born/coul/long/cs born/coul/msm
        born/coul/wolf born/coul/wolf/cs born/gauss bpm/spring brownian brownian/poly buck buck/coul/cut buck/coul/long
        buck/coul/long/cs buck/coul/msm buck/long/coul/long buck/mdf buck6d/coul/gauss/dsf buck6d/coul/gauss/long
        colloid comb comb3 cosine/squared coul/ctip coul/cut coul/cut/dielectric coul/cut/global coul/cut/soft
        coul/debye coul/diel coul/dsf coul/exclude coul/long coul/long/cs coul/long/dielectric coul/long/soft coul/msm
        coul/shield coul/slater coul/slater/cut coul/slater/long coul/streitz coul/tt coul/wolf coul/wolf/cs
        dispersion/d3 dpd dpd/coul/slater/long dpd/ext dpd/ext/tstat dpd/fdt dpd/fdt/energy dpd/tstat drip dsmc e3b eam
        eam/alloy eam/cd eam/cd/old eam/fs eam/he edip edip/multi edpd eff/cut eim exp6/rx extep gauss gauss/cut
        gayberne gran/hertz/history gran/hooke gran/hooke/history granular gw gw/zbl harmonic/cut hbond/dreiding/lj
        hbond/dreiding/lj/angleoffset hbond/dreiding/morse hbond/dreiding/morse/angleoffset hdnnp hippo
        ilp/graphene/hbn ilp/tmd kim kolmogorov/crespi/full kolmogorov/crespi/z lcbop lebedeva/z lennard/mdf lepton
        lepton/coul lepton/sphere line/lj list lj/charmm/coul/charmm lj/charmm/coul/charmm/implicit lj/charmm/coul/long
        lj/charmm/coul/long/soft lj/charmm/coul/msm lj/charmmfsw/coul/charmmfsh lj/charmmfsw/coul/long lj/class2
        lj/class2/coul/cut lj/class2/coul/cut/soft lj/class2/coul/long lj/class2/coul/long/cs lj/class2/coul/long/soft
        lj/class2/soft lj/cubic lj/cut lj/cut/coul/cut lj/cut/coul/cut/dielectric lj/cut/coul/cut/soft lj/cut/coul/debye
        lj/cut/coul/debye/dielectric lj/cut/coul/dsf lj/cut/coul/long lj/cut/coul/long/cs lj/cut/coul/long/dielectric
        lj/cut/coul/long/soft lj/cut/coul/msm lj/cut/coul/msm/dielectric lj/cut/coul/wolf lj/cut/dipole/cut
        lj/cut/dipole/long lj/cut/soft lj/cut/sphere lj/cut/thole/long lj/cut/tip4p/cut lj/cut/tip4p/long
        lj/cut/tip4p/long/soft lj/expand lj/expand/coul/long lj/expand/sphere lj/gromacs lj/gromacs/coul/gromacs
        lj/long/coul/long lj/long/coul/long/dielectric lj/long/dipole/long lj/long/tip4p/long lj/mdf lj/pirani lj/relres
        lj/sdk lj/sdk/coul/long lj/sdk/coul/msm lj/sf lj/sf/dipole/sf lj/smooth lj/smooth/linear lj/spica
        lj/spica/coul/long lj/spica/coul/msm lj/switch3/coulgauss/long lj96/cut local/density lubricate lubricate/poly
        lubricateU lubricateU/poly mdpd mdpd/rhosum meam meam/c meam/ms meam/spline meam/sw/spline mesocnt
        mesocnt/viscous mesodpd mesont/tpm mgpt mie/cut mliap mm3/switch3/coulgauss/long momb morse morse/smooth/linear
        morse/soft multi/lucy multi/lucy/rx nb3b/harmonic nb3b/screened nm/cut nm/cut/coul/cut nm/cut/coul/long
        nm/cut/split oxdna/coaxstk oxdna/excv oxdna/hbond oxdna/stk oxdna/xstk oxdna2/coaxstk oxdna2/dh oxdna2/excv
        oxdna2/hbond oxdna2/stk oxdna2/xstk oxrna2/coaxstk oxrna2/dh oxrna2/excv oxrna2/hbond oxrna2/stk oxrna2/xstk
        pace pace/extrapolation pedone peri/eps peri/lps peri/pmb peri/ves pod polymorphic python quip rann reax reax/c
        reaxff rebo rebomos resquared rheo rheo/solid saip/metal sdpd/taitwater/isothermal smatb smatb/single smd/hertz
        smd/tlsph smd/tri_surface smd/ulsph snap soft sph/heatconduction sph/idealgas sph/lj sph/rhosum sph/taitwater
        sph/taitwater/morris spin/dipole/cut spin/dipole/long spin/dmi spin/exchange spin/exchange/biquadratic
        spin/magelec spin/neel srp srp/react sw sw/angle/table sw/mod table table/rx tdpd tersoff tersoff/mod
        tersoff/mod/c tersoff/table tersoff/zbl thole threebody/table tip4p/cut tip4p/long tip4p/long/soft tracker
        tri/lj uf3 ufm vashishta vashishta/table wf/cut ylz yukawa yukawa/colloid zbl zero deepmd nequip allegro mace
        """),
    "bond": _names("""
        bpm/rotational bpm/spring bpm/spring/plastic class2 fene fene/expand fene/nm gaussian gromos harmonic
        harmonic/restrain harmonic/shift harmonic/shift/cut lepton mesocnt mm3 morse nonlinear oxdna/fene oxdna2/fene
        oxrna2/fene quartic rheo/shell special table zero
        """),
    "angle": _names("""
        amoeba charmm class2 class2/p6 cosine cosine/buck6d cosine/delta cosine/periodic cosine/shift cosine/shift/exp
        cosine/squared cosine/squared/restricted cross dipole fourier fourier/simple gaussian harmonic lepton mesocnt
        mm3 mwlc quartic sdk spica table zero
        """),
    "dihedral": _names("""
        charmm charmmfsw class2 cosine/shift/exp cosine/squared/restricted fourier harmonic helix lepton multi/harmonic
        nharmonic opls quadratic spherical table table/cut zero
        """),
    "improper": _names("""
        amoeba class2 cossq cvff distance distharm fourier harmonic inversion/harmonic ring sqdistharm umbrella zero
        """),
}  # fmt: skip


def bare_style(word: str) -> str:
    """The name of a style without the suffix of an accelerated variant (`/omp /opt /gpu /intel /kk`)."""
    return _SUFFIX.sub("", word)


def is_style(category: str, word: str) -> bool:
    """Whether LAMMPS has a style of that name, suffix or not, hybrids left out."""
    return bare_style(word) in _NAMES[category]


@dataclass(frozen=True)
class HybridWords:
    """The words behind `hybrid`: the sub-styles, and the factor before each in `hybrid/scaled`."""

    styles: list[PotentialStyle]
    scales: list[str]


def split_hybrid(category: str, kind: str, words: Sequence[str], where: str) -> HybridWords | str:
    """Divide the words among the sub-styles; a text says at which word that fails."""
    found: list[tuple[str, tuple[str, ...]]] = []
    scales: list[str] = []
    starts: Callable[[str], bool] = lambda word: is_style(category, word) or word in ("hybrid", "none")  # noqa: E731
    at = 0
    while at < len(words):
        if kind == "hybrid/scaled":
            scales.append(words[at])
            at += 1
        if at == len(words) or not is_style(category, words[at]):
            return words[min(at, len(words) - 1)]
        end = at + 1
        while end < len(words) and not starts(words[end]):
            end += 1
        if kind == "hybrid/scaled" and end < len(words):
            end -= 1
        found.append((bare_style(words[at]), tuple(words[at + 1 : end])))
        at = end
    names = [name for name, _ in found]
    styles = []
    for number, (name, args) in enumerate(found):
        index = names[: number + 1].count(name) if names.count(name) > 1 else 0
        styles.append(PotentialStyle(name, args, index, where))
    return HybridWords(styles, scales)


def mapped_pairs(
    style: str, words: Sequence[str], pairs: Sequence[tuple[int, int]], types: int
) -> list[tuple[int, int]]:
    """Those of the pairs a sub-style of a hybrid takes on: types mapped to NULL, and others than I,I of `eam`, it does
    not."""
    if style == "eam":
        return [(i, j) for i, j in pairs if i == j]
    if style not in MAPPED or style in _UNMAPPED or len(words) <= types:
        return list(pairs)
    elements = words[len(words) - types :]
    return [(i, j) for i, j in pairs if "NULL" not in (elements[i - 1], elements[j - 1])]
