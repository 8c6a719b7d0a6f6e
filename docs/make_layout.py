"""Write the blocks and tables of `layout.md`: `python docs/make_layout.py`.

The page's text is written by hand; what stands between `<!-- begin NAME -->` and `<!-- end NAME -->` is made here:
every example is written with the package's own writer, and its files are read. A test fails when page and writer
differ. `python docs/make_layout.py --stores DIR` writes the examples into a new folder instead.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from layout_examples import array_text, costs, tables
from layout_examples.stores import output, write_examples

from molrec_convert.inspect.diff import differences
from molrec_convert.stores.zarr.record import open_record

HERE = Path(__file__).parent
PAGE = HERE / "layout.md"
Lines = Iterable[str]


def command(line: str) -> Callable[[Path], list[str]]:
    """A command and what it prints."""
    return lambda stores: fenced([f"$ {line}", *output(stores, line)], "console")


def fenced(lines: Lines, language: str = "text") -> list[str]:
    """Lines as a code block."""
    return [f"```{language}", *lines, "```"]


def log(stores: Path) -> list[str]:
    """The live log of the run."""
    return fenced((stores / "fit.mrec" / "metrics" / "metrics.jsonl").read_text(encoding="utf-8").splitlines())


def links(stores: Path, part: int) -> list[str]:
    """What the system takes from its force field: the table of rows, or of pairs."""
    return tables.parameters(stores / "peroxide.mrec", [("O1", "O1"), ("O1", "H1")])[part]


def packed(stores: Path) -> list[str]:
    """What kind of zip the packed record is."""
    with zipfile.ZipFile(stores / "water.mrec.zip") as archive:
        entries = archive.infolist()
    stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
    folders = sum(entry.is_dir() for entry in entries)
    with open_record(stores / "water.mrec") as record, open_record(stores / "water.mrec.zip") as other:
        equal = not list(differences(record, other))
    head = f"water.mrec.zip    {len(entries)} entries"
    return fenced(
        [
            f"{head}, all stored (method 0): {str(stored).lower()}, directory entries: {folders}",
            f"{'':<18}reads back equal to water.mrec/: {str(equal).lower()}",
        ]
    )


def coordinates(stores: Path) -> Lines:
    """What coordinates cost, measured."""
    heads = ["coordinates `x`, `y`, `z`", "codecs", "bytes per atom per frame", "bytes of the shards' indexes"]
    return tables.table(heads, costs.coordinate_rows(stores))


def overhead(stores: Path) -> Lines:
    """What trajectories have on disk beside values."""
    rows = [
        [f"`{name}`", *row] for name in ("vibration.mrec", "reaction.mrec") for row in costs.overhead_rows(stores, name)
    ]
    return tables.table(["record", "section", "updates", "on disk beyond the values"], rows)


#: Every block of the page, by name.
BLOCKS: dict[str, Callable[[Path], Lines]] = {
    "tour": command("mrec tree tour.mrec --overview"),
    "water": command("mrec tree water.mrec"),
    "array-metadata": lambda stores: fenced(array_text.metadata(stores, "water.mrec/frame/atoms/x"), "json"),
    "texts": lambda stores: fenced(array_text.text_map(stores, "water.mrec/frame/atoms/element")),
    "dtypes": lambda stores: tables.dtypes(),
    "precision": lambda stores: tables.precision(1e-3),
    "slab": command("mrec tree slab.mrec frame"),
    "vacuum": command("mrec tree vacuum.mrec frame"),
    "vibration": command("mrec tree vibration.mrec"),
    "shard": lambda stores: fenced(array_text.shard_map(stores, "vibration.mrec/trajectory/atoms/x")),
    "reaction": command("mrec tree reaction.mrec"),
    "resolution": lambda stores: tables.frames(stores / "reaction.mrec"),
    "forcefield": command("mrec tree peroxide.mrec forcefield"),
    "system": command("mrec tree peroxide.mrec system --no-zarr"),
    "links": partial(links, part=0),
    "pairs": partial(links, part=1),
    "observables": command("mrec tree results.mrec observables"),
    "fit": command("mrec tree fit.mrec"),
    "log": log,
    "collection": command("mrec tree conformers.mrec.lmdb"),
    "frame-bytes": command("mrec tree conformers.mrec.lmdb f1"),
    "index-bytes": command("mrec tree conformers.mrec.lmdb index"),
    "listing": command("mrec tree water.mrec.zip --files"),
    "packed": packed,
    "coordinates": coordinates,
    "overhead": overhead,
}


def blocks_of(page: str) -> dict[str, list[str]]:
    """The lines of every block of a page, by name; `ValueError` when a block is not closed, or there twice."""
    blocks: dict[str, list[str]] = {}
    name: str | None = None
    for line in page.splitlines():
        mark = re.fullmatch(r"<!-- (begin|end) ([\w-]+) -->", line)
        if mark is None:
            if name is not None:
                blocks[name].append(line)
        elif mark[1] == "begin" and name is None and mark[2] not in blocks:
            name = mark[2]
            blocks[name] = []
        elif mark[1] == "end" and mark[2] == name:
            name = None
        else:
            raise ValueError(f"a block of the page is not closed, or there twice: {line}")
    if name is not None:
        raise ValueError(f"a block of the page is not closed: {name}")
    return blocks


def layout_page() -> str:
    """The page as it ought to be: its text, with all blocks made anew."""
    page = PAGE.read_text(encoding="utf-8")
    if set(blocks_of(page)) != set(BLOCKS):
        raise ValueError(f"the page and the script name different blocks: {sorted(set(blocks_of(page)) ^ set(BLOCKS))}")
    with tempfile.TemporaryDirectory() as folder:
        written = write_examples(Path(folder))
        made = {name: "\n".join(make(written)) for name, make in BLOCKS.items()}

    def replaced(match: re.Match[str]) -> str:
        return f"{match[1]}\n\n{made[match[2]]}\n\n{match[3]}"

    return re.sub(r"(<!-- begin ([\w-]+) -->)\n.*?(<!-- end \2 -->)", replaced, page, flags=re.DOTALL)


def main() -> None:
    """Write the page, or only the examples."""
    parser = argparse.ArgumentParser(description="Write the blocks and tables of layout.md.")
    parser.add_argument("--stores", type=Path, metavar="DIR", help="write the examples into this new folder instead")
    stores: Path | None = parser.parse_args().stores
    if stores is None:
        PAGE.write_text(layout_page(), encoding="utf-8")
    else:
        stores.mkdir(parents=True)
        write_examples(stores)


if __name__ == "__main__":
    main()
