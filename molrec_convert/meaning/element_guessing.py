"""Elements of atom types: given by the user, told by type labels, or proposed from masses on request; never guessed.

A label tells an element when it is the symbol itself (`C`, `Na`) and the mass does not contradict it; the comment of a
type behind its mass (`1 15.9994 # O`) proposes one in the same way. A mass proposes an element only where it is that of
the element and of nothing else that is common in simulations: united atoms, repartitioned hydrogens and beads stay
unknown. Atomic weights: `periodictable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from molrec_convert.errors import UnsupportedError
from molrec_convert.quantities.elements import NUMBERS, parse_elements
from molrec_convert.report import Report

__all__ = [
    "agrees_with_mass",
    "element_of_mass",
    "elements_of_types",
    "mass_of_element",
]

#: Elements without a standard atomic weight: their mass is that of one isotope, a whole number as beads have it.
_UNSTABLE = frozenset((43, 61, *range(84, 90), *range(93, 119)))
#: A mass (amu) proposes an element when it is this near. CH2 (14.027) is 0.020 from N, NH with two repartitioned
#: hydrogens (11.991) 0.020 from C; a reduced mass of 1 is 0.8 % from H.
_NEAR, _NEAR_FRACTION = 0.012, 1e-3
#: A label's element is believed when the mass is this near: isotopes, rounded weights.
_BELIEVED_FRACTION = 0.02


def elements_of_types(
    types: int | Sequence[int],
    report: Report,
    *,
    given: Sequence[str] = (),
    guess: bool = False,
    labels: Sequence[str] | Mapping[int, str] = (),
    comments: Sequence[str] | Mapping[int, str] = (),
    masses: Mapping[int, float] | None = None,
    mass_factor: float | None = 1.0,
) -> list[str | None] | None:
    """Return the element of each of the types, or None when nothing tells any.

    `types` are their numbers in ascending order, or how many there are: 1 to that number. `given` is `--elements`;
    `labels` are the labels of the types, `comments` what stands behind their masses ("" for nothing), both in order
    from type 1 on or by number, `masses` their masses by number, which `mass_factor` turns into amu (None: reduced
    units, whose masses say nothing). What is not in the source as such is reported as derived. UsageError: `given`
    does not name each type's element.
    """
    numbers = range(1, types + 1) if isinstance(types, int) else types
    named = _by_number(labels)
    if given:
        elements = parse_elements(given)
        # each name is that of one type: of more types than names the first without is refused
        texts = [named.get(number, "") for number in range(1, min(numbers[-1], len(elements.named) + 1) + 1)]
        every = elements.of_types(numbers[-1], texts)
        report.derived("atoms/element", f"from --elements {','.join(given)}")
        return [every[number - 1] for number in numbers]
    known = masses or {}
    found = _from_labels(numbers, named, known, mass_factor, report, "type labels")
    if guess:
        told = _from_labels(numbers, _by_number(comments), known, mass_factor, report, "the comments behind masses")
        found = [element or proposed for element, proposed in zip(found, told, strict=True)]
        found = _from_masses(numbers, found, known, mass_factor, report)
    return found if any(found) else None


def _by_number(texts: Sequence[str] | Mapping[int, str]) -> Mapping[int, str]:
    return texts if isinstance(texts, Mapping) else dict(enumerate(texts, 1))


def element_of_mass(mass: float) -> str | None:
    """Return the element of that mass in amu, or None where it is not sure."""
    weights = _weights()
    return next(
        (
            symbol
            for symbol, number in NUMBERS.items()
            if number not in _UNSTABLE and abs(mass - weights[symbol]) <= min(_NEAR, _NEAR_FRACTION * weights[symbol])
        ),
        None,
    )


def agrees_with_mass(symbol: str, mass: float) -> bool:
    """True if a mass in amu can be that of the element."""
    weight = _weights()[symbol]
    return abs(mass - weight) <= _BELIEVED_FRACTION * weight


def _from_labels(
    numbers: Sequence[int],
    labels: Mapping[int, str],
    masses: Mapping[int, float],
    factor: float | None,
    report: Report,
    source: str,
) -> list[str | None]:
    found: list[str | None] = []
    for number in numbers:
        label = labels.get(number, "")
        element = label if label in NUMBERS else None
        if element is not None and factor is not None and number in masses:
            mass = masses[number] * factor
            if not agrees_with_mass(element, mass):
                report.warn(f"atom type {number}: the label {label} is not taken for the element, its mass is {mass:g}")
                element = None
        found.append(element)
    told = sorted({element for element in found if element is not None})
    if told:
        report.derived("atoms/element", f"{', '.join(told)}: from {source} that are element symbols")
    return found


def _from_masses(
    numbers: Sequence[int], found: list[str | None], masses: Mapping[int, float], factor: float | None, report: Report
) -> list[str | None]:
    if factor is None:
        report.warn("--guess-elements: masses in lj units are no masses of elements")
        return found
    if not masses and None in found:
        report.warn("--guess-elements: nothing states the masses of the atom types, so no element is proposed")
    proposed = list(found)
    unknown = []
    for place, (number, element) in enumerate(zip(numbers, found, strict=True)):
        if element is None and number in masses:
            proposed[place] = symbol = element_of_mass(masses[number] * factor)
            if symbol is None:
                unknown.append(f"{number} (mass {masses[number]!r})")
            else:
                report.derived("atoms/element", f"{symbol} for atom type {number}: from its mass {masses[number]!r}")
    if unknown:
        report.warn(f"--guess-elements: the masses of atom types {', '.join(unknown)} are those of no one element")
    return proposed


def mass_of_element(symbol: str) -> float | None:
    """Return the atomic weight of an element in amu, None for what is no element."""
    return _weights().get(symbol) if symbol in NUMBERS else None


@cache
def _weights() -> dict[str, float]:
    try:
        import periodictable
    except ImportError as error:
        raise UnsupportedError(
            "elements are compared with masses by periodictable, which is not installed: "
            "pip install 'molrec-convert[lammps]'"
        ) from error
    return {element.symbol: float(element.mass) for element in periodictable.elements if element.number > 0}
