"""The collection of "Layout by example": two conformer records, their force field, and its listing as the page has it.

Coordinates the page does not print are made up here; the printed ones are the page's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from collection_stores import contents, key, parts
from seed_examples import _peroxide, page

from molrec_convert.model import (
    Block,
    BlockDeclaration,
    Column,
    ColumnDeclaration,
    Declaration,
    Frame,
    MemoryTrajectory,
    Meta,
    MetaDeclaration,
    Record,
)
from molrec_convert.model.forcefield import ForceField
from molrec_convert.stores.lmdb.writer import CollectionWriter

#: The values of the annotated frame, before rounding to 0.001 Å.
_SECOND = {
    "x": [0.8213, -0.0518, -0.0078, -0.8369],
    "y": [0.9005, 0.7519, -0.7519, -0.8768],
    "z": [0.4345, -0.0175, -0.0127, 0.375],
}
_FIRST = {
    "x": [0.8397, -0.0102, 0.0114, -0.8759],
    "y": [0.9072, 0.728, -0.7351, -0.8487],
    "z": [0.4465, -0.0105, 0.0149, 0.4201],
}
DECLARATION = Declaration(
    {"atoms": BlockDeclaration({name: ColumnDeclaration("f64", precision=1e-3) for name in "xyz"})},
    {"pe": MetaDeclaration("f64")},
)


def _texts(*values: str) -> np.ndarray[Any, Any]:
    return np.array(values, dtype="T")


def _masked(first: float) -> Column:
    return Column(np.array([first, 0.0]), np.array([True, False]))


def build_forcefield() -> ForceField:
    """The force field of the page's peroxide, tables in the order of its styles."""
    document = {
        "name": "h2o2-demo",
        "units": {"preset": "real"},
        "special_bonds": {"lj": [0.0, 0.0, 0.5], "coul": [0.0, 0.0, 0.8333]},
        "styles": [
            {"category": "atom", "style": "full"},
            {"category": "bond", "style": "harmonic"},
            {"category": "angle", "style": "harmonic"},
            {"category": "dihedral", "style": "periodic"},
            {"category": "pair", "style": "lj/cut", "params": {"cutoff": 10.0, "mixing": "geometric"}},
        ],
    }
    return ForceField(
        document,
        {
            "atom.full": Block(
                {
                    "name": _texts("H1", "O1"),
                    "mass": np.array([1.008, 15.999]),
                    "charge": np.array([0.41, -0.41]),
                    "element": _texts("H", "O"),
                    "ptype": _texts("A", "A"),
                }
            ),
            "bond.harmonic": Block(
                {
                    "name": _texts("O1-O1", "O1-H1"),
                    "itom": _texts("O1", "O1"),
                    "jtom": _texts("O1", "H1"),
                    "k": np.array([600.0, 1106.0]),
                    "r0": np.array([1.475, 0.967]),
                }
            ),
            "angle.harmonic": Block(
                {
                    "name": _texts("H1-O1-O1"),
                    "itom": _texts("H1"),
                    "jtom": _texts("O1"),
                    "ktom": _texts("O1"),
                    "k": np.array([100.0]),
                    "theta0": np.array([1.7488]),
                }
            ),
            "dihedral.periodic": Block(
                {
                    "name": _texts("H1-O1-O1-H1", "X-O1-O1-X"),
                    "itom": _texts("H1", ""),
                    "jtom": _texts("O1", "O1"),
                    "ktom": _texts("O1", "O1"),
                    "ltom": _texts("H1", ""),
                    "k1": np.array([1.2, 0.5]),
                    "periodicity1": np.array([1.0, 3.0]),
                    "phase1": np.array([0.0, 0.0]),
                    "k2": _masked(0.8),
                    "periodicity2": _masked(2.0),
                    "phase2": _masked(3.141592654),
                }
            ),
            "pair.lj%2Fcut": Block(
                {
                    "name": _texts("O1-O1", "H1-H1"),
                    "itom": _texts("O1", "H1"),
                    "jtom": _texts("O1", "H1"),
                    "epsilon": np.array([0.17, 0.0]),
                    "sigma": np.array([3.0, 1.0]),
                }
            ),
        },
    )


def build_records() -> list[Record]:
    """Record 0 with three frames, the third repeating the second's coordinates; record 1 with two."""
    states = [(_FIRST, -12.4), (_SECOND, -12.3), (_SECOND, -12.2)]
    records = []
    for number, count in enumerate((3, 2)):
        frames = [
            Frame(
                {"atoms": Block({name: np.array(values) for name, values in columns.items()})},
                Meta({"pe": energy}),
                step=step,
            )
            for step, (columns, energy) in enumerate(states[:count])
        ]
        records.append(
            Record(
                meta={"record_id": f"h2o2-{number}"},
                system=_peroxide(),
                trajectory=MemoryTrajectory(frames, DECLARATION),
            )
        )
    return records


def write_conformers(path: Path) -> Path:
    """The page's `conformers.mrec.lmdb`."""
    with CollectionWriter.create(
        path,
        declaration=DECLARATION,
        document={"units": {"length": "angstrom", "energy": "kcal/mol"}},
        index_columns={"smiles": "string"},
        forcefield=build_forcefield(),
    ) as writer:
        writer.extend(build_records())
    return path


def listing(path: Path) -> list[str]:
    """A collection's keys and values in the page's words, every entry on lines of its own, unwrapped."""
    lines = []
    for name, value in contents(path).items():
        lines += [_key_line(name), *_value_lines(name, value)]
    return lines


def _key_line(name: bytes) -> str:
    label = name.decode() if len(name) != 9 else f"{name[:1].decode()} ‖ u64be({int.from_bytes(name[1:], 'big')})"
    return f"{label} key bytes {name.hex(' ')}"


def _value_lines(name: bytes, value: bytes) -> list[str]:
    if name == key("meta") or name[:1] == b"r":
        return [json.dumps(json.loads(value), ensure_ascii=False)]
    header, payload = parts(value)
    size = int.from_bytes(value[4:8], "little")
    lines = [f"MRF1 · header {size} B · pad {-size % 8} B · payload {len(payload)} B"]
    facts = [f"step {header['step']}"] if "step" in header else []
    if header["meta"]:
        keys = f"keys {', '.join(header['meta'])}" if name == key("ff") else json.dumps(header["meta"])
        facts.append(f"meta {keys}")
    if "meta_types" in header:
        facts.append(f"meta_types {json.dumps(header['meta_types'])}")
    lines += [" · ".join(facts)] if facts else []
    for block, entry in header["blocks"].items():
        strings = [c for c, column in entry["columns"].items() if column["dtype"] == "string"]
        buffers = [
            f"{c} {column['dtype']} @{column['offset']}"
            + (f" (validity @{column['validity']})" if "validity" in column else "")
            for c, column in entry["columns"].items()
            if column["dtype"] != "string"
        ]
        told = [f"strings {', '.join(strings)}"] if strings else []
        told += [f"buffers {', '.join(buffers)}"] if buffers else []
        lines.append(f"{block}[{entry['count']}]: {'; '.join(told)}")
    return lines if header["blocks"] else [*lines, "no blocks: nothing changed since the previous frame"]


def page_listing(shared: Path) -> list[str]:
    """The page's listing, its wrapped lines joined and its JSON on one line."""
    lines = page(shared)
    start = next(i for i, line in enumerate(lines) if line.startswith("conformers.mrec.lmdb "))
    stop = next(i for i in range(start, len(lines)) if lines[i].startswith("Keys are bytes"))
    joined: list[str] = []
    depth = 0
    for line in lines[start + 2 : stop]:
        text = " ".join(line.split())
        if not text:
            continue
        if depth or line.startswith("        "):
            joined[-1] += " " + text
        else:
            joined.append(text)
        if joined[-1].startswith("{"):
            depth = joined[-1].count("{") - joined[-1].count("}")
    return [json.dumps(json.loads(line), ensure_ascii=False) if line.startswith("{") else line for line in joined]
