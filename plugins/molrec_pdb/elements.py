"""Elements, and what element an atom name stands for by the columns it is in.

Columns 13-14 of a row hold the element, right-justified. Names of four characters and files that begin all names in
column 13 break that: there the residues everybody knows say what an atom is, and what is not certain stays unknown.
Source: Contents Guide 3.3, "ATOM".
"""

from __future__ import annotations

from molrec_convert.quantities.elements import NUMBERS

__all__ = ["STANDARD_RESIDUES", "SYMBOLS", "begins_left", "infer", "symbol_of"]

#: Deuterium and tritium have symbols of their own in PDB files.
SYMBOLS = frozenset((*NUMBERS, "D", "T"))
_AMINO = (
    "ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL ASX GLX MSE SEC PYL ACE NME NMA "
    "NH2 FOR HID HIE HIP HSD HSE HSP CYX CYM ASH GLH LYN LYP ARN TYM"
)
_NUCLEIC = "A C G U I T N DA DC DG DT DU DI ADE CYT GUA THY URA DA5 DA3 DC5 DC3 DG5 DG3 DT5 DT3 RA RC RG RU"
_WATER = "HOH WAT H2O DOD TIP TIP3 TIP4 TP3 TP4 T3P T4P SOL SPC SPCE"
#: Residues of which every atom but selenium begins with its element's one letter.
STANDARD_RESIDUES = frozenset(f"{_AMINO} {_NUCLEIC} {_WATER}".split())
_LETTERS = frozenset("HCNOSPD")


def symbol_of(text: str) -> str | None:
    """The element symbol a text is, whatever its case; None where it is none."""
    symbol = text.strip().capitalize()
    return symbol if symbol in SYMBOLS else None


def begins_left(name: str, residue: str) -> bool:
    """Whether a name of four columns shows that its file begins all names in column 13."""
    text = name.strip()
    return (
        residue in STANDARD_RESIDUES
        and len(text) < 4
        and name[:1] == text[:1]
        and text[:1] in _LETTERS
        and text[:2] != "SE"
    )


def infer(name: str, residue: str, *, left: bool) -> str | None:
    """The element of an atom by its name in four columns and its residue; None where that is not certain."""
    text = name.strip()
    letters = text.lstrip("0123456789")
    if not letters:
        return None
    if residue in STANDARD_RESIDUES:
        if residue == "MSE" and text.startswith("SE"):
            return "Se"
        return letters[0] if letters[0] in _LETTERS else None
    ion = text.rstrip("+-0123456789")
    if ion and ion.upper() == residue.rstrip("+-0123456789").upper() and symbol_of(ion):
        return symbol_of(ion)
    if len(letters) > 1 and letters[0].isupper() and letters[1].islower():
        return symbol_of(letters[:2])
    if left:
        return None
    if name[:1] in " 0123456789":
        follows = name[1:2]
        return follows if follows in SYMBOLS else None
    pair = text[:2]
    if len(text) < 4:
        return symbol_of(pair) if len(pair) == 2 and pair.isalpha() else None
    return None if symbol_of(pair) and pair.isalpha() else (text[0] if text[0] in SYMBOLS else None)
