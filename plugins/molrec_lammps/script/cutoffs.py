"""What stating a pair style again does to the cutoffs that single pairs have: LAMMPS sets them back, in most styles.

Every style with such cutoffs was stated twice with LAMMPS of 22 Jul 2025, and the energies of pairs of like and of
unlike types compared. A few styles leave all of them as they are; a few leave those of I,I and set back the others.
"""

from __future__ import annotations

from molrec_lammps.potential.style_table import find_style

__all__ = ["FORGETFUL", "without_cutoffs"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Styles that start over when stated again, although the name is the same.
FORGETFUL = frozenset({"table", "table/rx", "list"})
#: Styles whose optional coefficients stay: no cutoffs, or cutoffs that are not set back.
_KEEPING = _names("""
    coul/diel hbond/dreiding/lj hbond/dreiding/lj/angleoffset hbond/dreiding/morse hbond/dreiding/morse/angleoffset
    buck/long/coul/long lepton lepton/coul lj/charmm/coul/charmm lj/charmm/coul/charmm/implicit lj/charmm/coul/long
    lj/charmm/coul/long/soft lj/charmm/coul/msm lj/charmmfsw/coul/charmmfsh lj/charmmfsw/coul/long lj/long/coul/long
    lj/long/dipole/long lj/long/tip4p/long srp
    """)
#: Styles that set back the cutoffs of unlike types alone.
_UNLIKE = frozenset(
    {"buck6d/coul/gauss/dsf", "buck6d/coul/gauss/long", "cosine/squared", "lj/cut/coul/debye", "ufm", "zero"}
)


def without_cutoffs(style: str, types: tuple[int, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    """The coefficients of a pair after its style was stated again."""
    if style in _KEEPING or (style in _UNLIKE and types[0] == types[1]):
        return words
    known = find_style("pair", style)
    if known is None or known.every:
        return words
    for length in range(len(words)):
        if known.read(words[:length]) is not None:
            return (*words[:length], *(word for word in words[length:] if word == "wca"))
    return words
