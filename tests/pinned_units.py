"""The pinned factors of units, dimensions of names and symbols of elements, as lines of `fixtures/pins/units.tsv`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from molrec_convert.quantities.dimensions import UnitConversion
from molrec_convert.quantities.elements import SYMBOLS
from molrec_convert.quantities.standard import COLUMNS, KEYS, velocity_factor
from molrec_convert.quantities.units import PRESETS, conversion_factor, preset_units

#: Unit texts by dimension, the first one that to which all others are given.
UNITS = (
    "m meter metre angstrom angstroms Angstrom ang Å bohr bohr_radius a0 a.u._length micron nm pm fm cm mm km um µm "
    "nanometer micrometer l**(1/3)",
    "kg g gram grams dalton daltons Da u amu unified_atomic_mass_unit electron_mass m_e g/mol kg/mol attogram picogram "
    "mg 1.5*kg",
    "s second seconds sec minute hour atomic_time aut atomic_unit_of_time fs ps ns us ms femtosecond 48.88821*fs",
    "C coulomb e elementary_charge statcoulomb statC esu franklin Fr picocoulomb A*s",
    "J joule joules eV electron_volt electronvolt cal calorie kcal hartree hartrees Ha mHa Eh E_h rydberg Ry erg meV "
    "keV kJ kJ/mol kcal/mol J/mol cal/mol N*m kg*m**2/s**2 picogram*micrometer**2/microsecond**2 attogram*nm**2/ns**2 "
    "k_B*K",
    "eV/angstrom hartree/bohr Ry/bohr kcal/mol/angstrom kJ/mol/nm kJ*mol^-1*nm^-1 N dyne dyn pN",
    "m/s angstrom/ps angstrom/fs nm/ps bohr/atomic_time bohr/fs cm/s (eV/dalton)**0.5 (kcal/g)**(1/2)",
    "Pa pascal bar atm atmosphere standard_atmosphere torr GPa MPa kbar eV/angstrom**3 hartree/bohr**3 dyne/cm**2 kJ/l",
    "kg/m**3 g/cm**3 g/l dalton/angstrom**3 kg*m⁻³",
    "C*m debye D e*angstrom e*bohr statcoulomb*cm",
    "radian radians rad degree degrees deg ° percent % dimensionless",
    "m**3 l liter litre angstrom**3 bohr^3 nm³ cm**3",
    "Hz hertz THz 1/fs 1/ps s**-1",
    "Pa*s poise P",
    "W watt eV/fs",
    "V volt statvolt statV mV J/C",
    "V/m V/angstrom eV/e/angstrom hartree/e/bohr",
    "A ampere e/fs",
    "J/K k_B boltzmann_constant eV/K kcal/mol/K",
)
#: What is no unit, or not of one dimension with the other.
NONE = "parsec%% eV**eV m/0 kcal/ (m m) a/b/ m**99"
DIMENSIONS = (
    "length energy mass time charge angle force velocity pressure density dipole temperature energy/length**3 "
    "charge*length charge/length**2 length**3 1/time 1/length 1/length**2 energy*length energy*length**6 "
    "energy*length**12 energy/angle**2 energy/length**2 energy/length**4 mass*length*velocity force*length "
    "length**2/time energy*length**2 mass/time energy/charge energy**0.5 mass*energy length**-0.5"
)


def lines() -> Iterator[str]:
    """Give the lines of the table: what is converted, from and to which unit, and the factor in hexadecimal."""
    for texts in UNITS:
        base, *others = texts.split()
        for text in others:
            yield f"unit\t{text}\t{base}\t{_exact(conversion_factor(text, base))}"
        rows = (_exact(conversion_factor(a, b)) for a, b in permutations(texts.split(), 2))
        yield f"all pairs\t{base}\t\t{_digest(rows)}"
    for text in NONE.split():
        yield f"unit\t{text}\tm\t{_exact(conversion_factor(text, 'm'))}"
    firsts = [texts.split()[0] for texts in UNITS]
    yield f"of two dimensions\t\t\t{_digest(_exact(conversion_factor(a, b)) for a, b in permutations(firsts, 2))}"
    for name in PRESETS:
        for quantity, unit in preset_units(name).items():
            yield f"preset\t{name}\t{quantity}\t{unit}"
        yield f"velocity from momentum\t{name}\t\t{_exact(velocity_factor({'preset': name}))}"
    for a, b in permutations([name for name in PRESETS if name != "lj"], 2):
        conversion = UnitConversion({"preset": a}, {"preset": b})
        for dimension in DIMENSIONS.split():
            yield f"{dimension}\t{a}\t{b}\t{_exact(conversion.factor(dimension))}"
    for kind, table in (("column", COLUMNS), ("key", KEYS)):
        for name, (dimension, turning) in sorted(table.items()):
            yield f"{kind}\t{name}\t{dimension}\t{turning}"
    yield f"elements\t\t\t{' '.join(SYMBOLS)}"


def _exact(factor: float | None) -> str:
    return "none" if factor is None else factor.hex()


def _digest(texts: Iterator[str]) -> str:
    from hashlib import sha256

    return sha256("\n".join(texts).encode()).hexdigest()[:16]
