"""Processor time with and without the compiled loop over rows, one process, in turn: `python rows_speed.py DATA`."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import ours

import molrec_convert
from molrec_convert.conversion.convert import convert
from molrec_convert.text import number_rows


def measured(name, work, runs=5):
    """Medians of the processor's seconds of `work` with the loop and without, as a row of a table."""
    work()
    loaded = list(number_rows._loaded)
    if loaded in ([], [None]):
        raise SystemExit("wasmtime is not installed")
    spent = {True: [], False: []}
    for run in range(2 * runs):
        compiled = run % 2 == 0
        number_rows._idle.clear()
        number_rows._loaded[:] = loaded if compiled else [None]
        start = time.process_time()
        work()
        spent[compiled].append(time.process_time() - start)
    number_rows._loaded[:] = loaded
    with_it, without = (statistics.median(spent[which]) for which in (True, False))
    print(f"| {name} | {with_it:.2f} | {without:.2f} | {without / with_it:.2f} |", flush=True)


def main():
    data = Path(sys.argv[1])
    sys.setswitchinterval(0.0005)  # as the command line does
    rounded = {"columns": ["x", "y", "z"], "precision": 1e-3}
    print("| work | with, s | without, s | without / with |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.mrec"
        for name, asked in (("small", rounded), ("melt", rounded), ("melt", {})):
            ours.warm(Path(scratch), data, name, **asked)
            label = f"{name}.dump to .mrec{', x y z at 1e-3' if asked else ', all columns'}"
            measured(label, lambda: convert(data / f"{name}.dump", out, overwrite=True, **asked))  # noqa: B023
        measured("big.data, read", lambda: molrec_convert.read(data / "big.data"))


if __name__ == "__main__":
    main()
