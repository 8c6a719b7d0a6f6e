"""Nanoseconds a value to read and write rows of text, and to split and merge byte planes: `python rows_speed.py`.

Processor time, one thread, the best of some runs; beside the kernel its plain twin, and pyarrow where it is installed.
"""

import sys
import time

import numpy as np

from molrec_convert._kernel import library, status
from molrec_convert._kernel.planes import merge_planes, split_planes
from molrec_convert.text import output, rows
from molrec_convert.text.output import Column, write_rows
from molrec_convert.text.rows import Field, read_rows

ROWS = 200_000


def nanoseconds(work, values, runs=7):
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best / values * 1e9


def plainly(work):
    """Do the work without the kernel."""

    def call():
        rows.library = output.library = lambda: None
        try:
            work()
        finally:
            rows.library = output.library = library

    return call


def by_arrow(text, fields):
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError:
        return None
    names = [str(number) for number in range(len(fields))]
    return lambda: csv.read_csv(
        pa.py_buffer(text),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
        parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64())),
    )


def row(name, values, work, other=None):
    cells = [nanoseconds(work, values), nanoseconds(plainly(work), values, 1)]
    cells += [nanoseconds(other, values)] if other else []
    print(f"| {name} | {' | '.join(f'{cell:.1f}' for cell in cells)} |", flush=True)


def main():
    print(f"rows by {status()}")
    values = np.random.default_rng(1).normal(size=(ROWS, 3)) * 100
    columns = values.T.tolist()
    print("| ns a value | ours | without the kernel | pyarrow |")
    print("|---|---|---|---|")
    for name, form in (("%g", "%g"), ("17 digits", "%.17g"), ("%16.8f", "%16.8f"), ("%.8f", "%.8f")):
        text = "".join(f"{form} {form} {form}\n" % point for point in zip(*columns, strict=True)).encode()
        fields = (Field("real"),) * 3
        other = None if "16" in form else by_arrow(text, fields)
        row(f"read {name}", 3 * ROWS, lambda: read_rows(text, None, fields), other)  # noqa: B023
    text = "".join("{:8.3f}{:8.3f}{:8.3f}\n".format(*point) for point in zip(*columns, strict=True)).encode()
    fields = tuple(Field("real", (8 * part, 8 * part + 8)) for part in range(3))
    row("read %8.3f in fixed columns", 3 * ROWS, lambda: read_rows(text, None, fields))
    whole = "".join(f"{number} {number % 7}\n" for number in range(ROWS)).encode()
    row("read integers", 2 * ROWS, lambda: read_rows(whole, None, (Field("int"), Field("int"))))
    labels = b"".join(b"C\n" if number % 3 else b"H\n" for number in range(ROWS))
    row("read words", ROWS, lambda: read_rows(labels, None, (Field("word"),)))
    small = b"".join(b"C %.8f %.8f %.8f\n" % tuple(point) for point in values[:15].tolist())
    fields = (Field("word"), Field("real"), Field("real"), Field("real"))
    row("read 15 rows of an atom, a call", 1, lambda: read_rows(small, None, fields))
    for form, digits in (("shortest", 0), ("general", 6), ("decimals", 8)):
        parts = [Column(form, column, b" ", digits) for column in np.ascontiguousarray(values.T)]
        row(f"write {form} {digits or ''}", 3 * ROWS, lambda: write_rows(parts, ROWS))  # noqa: B023
    flat = values.reshape(1, -1)
    planes = split_planes(flat.view(np.uint8).reshape(1, -1, 8))
    row("split byte planes", flat.size, lambda: split_planes(flat.view(np.uint8).reshape(1, -1, 8)))
    row("merge byte planes", flat.size, lambda: merge_planes(planes))


if __name__ == "__main__":
    sys.exit(main())
