"""Compare every file and pair of files of MDAnalysisTests and write the table: `python docs/make_mdanalysis_pairs.py`.

Takes some minutes, and needs MDAnalysisTests, h5py, gsd and pytng. What was compared is kept in `--state FILE`, so that
an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "mdanalysis"))

from mdanalysis_comparing import compare, universe_of  # noqa: E402
from mdanalysis_pairs import CANNOT, PAIRS  # noqa: E402

_PAGE = """# MDAnalysis: what was compared

Files of MDAnalysisTests {version} by their names there: all it has, alone, in the pairs and chains of its own tests,
and with a topology where no test has one. Each was converted, and the record, and the universes of the record as a
directory and packed, compared with the universe of the files: positions, velocities, forces and cells of single
precision equal to the last bit, in the record the same numbers in double precision; times, `ts.data`, and all
attributes, residues, segments and connections of the topology. Of trajectories of more than 3 million atom positions
some frames were compared, spread over all of them.

{count} universes; `python docs/make_mdanalysis_pairs.py` makes this page.

| topology, trajectories | format | atoms | frames | with | not equal |
|---|---|---|---|---|---|
{rows}

## What MDAnalysis does not read

The conversion is refused with what MDAnalysis says.

| files | MDAnalysis |
|---|---|
{refused}
"""
_REASONS = {
    "positions of the record": "",
    "positions": "positions: MDAnalysis reads none of this file, and hands out memory nobody wrote to",
}


def main() -> None:
    """Compare what is not in the state yet, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, default=Path(tempfile.gettempdir()) / "mdanalysis-pairs.jsonl")
    state = parser.parse_args().state
    warnings.simplefilter("ignore")
    done = {entry["key"]: entry for entry in _read(state)}
    with state.open("a", encoding="utf-8") as file:
        for names, keywords in (*PAIRS, *CANNOT):
            key = _key(names, keywords)
            if key not in done:
                done[key] = {"key": key, **_look(names, keywords, (names, keywords) in CANNOT)}
                file.write(json.dumps(done[key]) + "\n")
                file.flush()
    import MDAnalysisTests

    rows = sorted((_row(names, keywords, done[_key(names, keywords)]) for names, keywords in PAIRS), key=str.lower)
    refused = [f"| {_named(n, k)} | {done[_key(n, k)]['reason']} |" for n, k in CANNOT]
    page = _PAGE.format(
        version=MDAnalysisTests.__version__, count=len(rows), rows="\n".join(rows), refused="\n".join(sorted(refused))
    )
    (HERE / "mdanalysis-pairs.md").write_text(page, encoding="utf-8")


def _read(state: Path) -> Iterator[dict[str, Any]]:
    if state.exists():
        for line in state.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def _key(names: tuple[str, ...], keywords: dict[str, Any]) -> str:
    return json.dumps([names, keywords])


def _look(names: tuple[str, ...], keywords: dict[str, Any], refused: bool) -> dict[str, Any]:
    if refused:
        try:
            universe = universe_of(names, keywords)
            for _ in universe.trajectory:
                pass
        except Exception as error:  # whatever MDAnalysis raises is what it says
            return {"reason": _sentence(error)}
        raise SystemExit(f"{names}: MDAnalysis reads it")
    with tempfile.TemporaryDirectory() as folder:
        return vars(compare(names, keywords, Path(folder)))


def _sentence(error: Exception) -> str:
    """The line of an error that says something, without the folders of files."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    text = " ".join((lines[-1] if len(lines[-1].split()) > 1 else lines[0]).split()).removeprefix("Error: ")
    words = [word.rsplit("/", 1)[-1] if "/" in word else word for word in text.split()]
    return " ".join(words)[:160].replace("|", "\\|").replace("<", "\\<")


def _named(names: tuple[str, ...], keywords: dict[str, Any]) -> str:
    told = ", ".join(f"{key}={value}" for key, value in keywords.items() if "format" not in key)
    return ", ".join(names) + (f" ({told})" if told else "")


def _row(names: tuple[str, ...], keywords: dict[str, Any], found: dict[str, Any]) -> str:
    said = "; ".join(filter(None, (_REASONS.get(name, name) for name in found["differences"]))) or "–"
    frames = "–" if found["format"] == "none" else str(found["frames"])
    form = "topology" if found["format"] == "none" else found["format"]
    return f"| {_named(names, keywords)} | {form} | {found['atoms']} | {frames} | {', '.join(found['has'])} | {said} |"


if __name__ == "__main__":
    main()
