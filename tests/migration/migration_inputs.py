"""Helpers of the tests of migrations: many small inputs of several formats, and what a file holds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from collection_stores import contents

from molrec_convert.migration import Outcome, Settings, migrate
from molrec_convert.migration.settings import parse_units

METAL = parse_units("metal")


def extxyz(seed: int, atoms: int | None = None, frames: int = 1, **keys: Any) -> str:
    """The text of a small file; `keys` beside the energy, which None leaves out."""
    draw = random.Random(seed)
    text = ""
    for _ in range(frames):
        count = draw.randint(2, 9) if atoms is None else atoms
        edge = 8 + draw.random()
        words = {"energy": repr(-draw.random() * 100), **keys}
        stated = " ".join(f"{key}={value}" for key, value in words.items() if value is not None)
        text += (
            f'{count}\nLattice="{edge} 0.0 0.0 0.0 {edge} 0.0 0.0 0.0 {edge}" '
            f"Properties=species:S:1:pos:R:3:forces:R:3 {stated}\n"
        )
        for _ in range(count):
            numbers = " ".join(f"{draw.uniform(-5, 5):.6f}" for _ in range(6))
            text += f"{draw.choice('HCNO')} {numbers}\n"
    return text


def make_files(folder: Path, count: int, first: int = 0, **keys: Any) -> Path:
    """`count` small files in a directory."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        (folder / f"c{number:05d}.extxyz").write_text(extxyz(number, **keys))
    return folder


def run(inputs: list[Any], target: Path, workers: int = 1, **settings: Any) -> Outcome:
    """A migration in metal units, unless others are asked for."""
    settings.setdefault("units", METAL)
    named = ("overwrite", "dry_run", "commit_seconds", "engine")
    options = {key: settings.pop(key) for key in named if key in settings}
    return migrate([str(path) for path in inputs], target, Settings(**settings), workers=workers, **options)


def same_collection(a: Path, b: Path) -> bool:
    """Equal keys and values, to the byte."""
    return contents(a) == contents(b)
